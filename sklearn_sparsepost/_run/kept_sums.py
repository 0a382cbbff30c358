"""Sums of batches that workers of a cluster keep for memoized learning, in place of the client.

The client wants each twice a pass, and no worker ever does: so this costs time, and is for clients
that have no room for `n_batches` sums. Two workers keep each, so that one may die.
"""

from concurrent.futures import ThreadPoolExecutor
from itertools import count
from uuid import uuid4

from sklearn_sparsepost._run.cluster import ATTEMPTS, best_on, fetched, itself, submit
from sklearn_sparsepost._run.dispatch import told_of_lost_cluster
from sklearn_sparsepost._run.shipping import Parcel

# The option of Dask's configuration, and what it may be.
OPTION, WHERE = "sklearn_sparsepost.batch_sums", ("client", "workers")
# Values on this worker, by names, between the task that has brought each and the one that keeps it;
# of more than these the one for the oldest has run elsewhere.
_BROUGHT, MOST_BROUGHT = {}, 16


def keeper_of_sums(client):
    """What keeps sums of batches where Dask's configuration says, None if that is the client.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.

    Returns
    -------
    keeper : SumKeeper or None
        Of one fit.

    Raises
    ------
    ValueError
        If the configuration says anything else.
    """
    import dask

    where = dask.config.get(OPTION, WHERE[0])
    if where not in WHERE:
        raise ValueError(f"{OPTION} of Dask's configuration must be one of {WHERE}, got {where!r}")
    return SumKeeper(client) if where == "workers" else None


class SumKeeper:
    """Has workers keep sums, beside whatever else the client does.

    Parameters
    ----------
    client : distributed.Client
        Of their cluster.
    """

    def __init__(self, client):
        self.client = client
        # One thing at a time, so that what is fetched has been brought before.
        self.thread = ThreadPoolExecutor(1)
        self._turns = count()

    def keep(self, stats):
        """Have two workers keep a sum, which nobody writes to from now on.

        Parameters
        ----------
        stats : SuffStats
            The sum.

        Returns
        -------
        kept : KeptSum
            To get it from.
        """
        return KeptSum(self, self.thread.submit(self._on_two, stats))

    def _on_two(self, stats):
        """Futures of two workers that have a sum by now, or the sum itself for want of two."""
        parcel = Parcel.of(stats)
        for _ in range(ATTEMPTS):
            workers = sorted(self.client.nthreads())
            if len(workers) < 2:
                break
            kept = self._brought(parcel, _two_of(workers, next(self._turns)))
            if kept is not None:
                return kept
        return stats

    def _brought(self, parcel, wanted):
        """Futures of a value that two workers keep, None if one has not come to do so.

        They depend on nothing, or the scheduler would hold what was sent, and each has one copy: of
        two Dask would drop either, and leave both futures with one worker.
        """
        from distributed import wait

        sent, names = submit(self.client, itself, parcel, **best_on(wanted[0])), []
        brought = []
        for place in wanted:
            names.append(uuid4().hex)
            brought.append(submit(self.client, _bring, names[-1], sent, **best_on(place)))
        places = fetched(self.client, brought)
        kept = [
            submit(self.client, _keep, name, **best_on(place))
            for name, place in zip(names, places, strict=True)
        ]
        with self.client.as_current():
            wait(kept)
        holders = self.client.who_has(kept)
        at_home = all(
            tuple(holders.get(future.key, ())) == (place,)
            for future, place in zip(kept, places, strict=True)
        )
        return tuple(kept) if at_home and len(set(places)) == 2 else None

    def get(self, brought):
        """A sum that was brought, from either worker."""
        if not isinstance(brought, tuple):
            return brought
        for future in brought:
            [parcel] = fetched(self.client, [future])
            if parcel is not None:
                return parcel.open()
        raise RuntimeError(
            "two workers died that kept the same batch's sum, one soon after the other. The "
            "estimator is as its last whole pass left it: fit with warm_start=True goes on from "
            "there"
        )


class KeptSum:
    """A sum that workers keep.

    Parameters
    ----------
    keeper : SumKeeper
        Who has them do so.
    brought : concurrent.futures.Future
        Of what its `get` is given.
    """

    def __init__(self, keeper, brought):
        self._keeper = keeper
        self._brought = brought
        self._is_lost = False

    @property
    def is_lost(self):
        """Whether it is known that the sum cannot be had any more."""
        return self._is_lost or self._keeper.client.status != "running"

    def fetch(self):
        """Get the sum.

        Returns
        -------
        stats : SuffStats
            The sum.

        Raises
        ------
        RuntimeError
            If the cluster is gone, or both workers.
        """
        try:
            with told_of_lost_cluster(lambda: "sums of batches"):
                return self._keeper.get(self._brought.result())
        except Exception:
            self._is_lost = True
            raise

    def begin_to_fetch(self):
        """Get the sum while something else is done.

        Returns
        -------
        coming : callable
            Waits for the sum, and returns it, or raises what has prevented that.
        """
        return self._keeper.thread.submit(self.fetch).result

    def like(self, stats):
        """Have another sum be kept as this one is.

        Parameters
        ----------
        stats : SuffStats
            The sum.

        Returns
        -------
        kept : KeptSum
            To get it from.
        """
        return self._keeper.keep(stats)


# ---------------------------------------------------------------------- wherever sums are


def is_elsewhere(part):
    """Whether something is a sum that workers keep."""
    return isinstance(part, KeptSum)


def coming(part):
    """Begin to get a sum, wherever it is; returns what waits for it."""
    return part.begin_to_fetch() if is_elsewhere(part) else lambda: part


def each_in_turn(parts):
    """Sums, wherever they are, one after another, the next on its way."""
    last = None
    for part in parts:
        following = coming(part)
        if last is not None:
            yield last()
        last = following
    if last is not None:
        yield last()


# ---------------------------------------------------------------------- what workers do


def _bring(name, parcel):
    """Put a value down under a name; returns on which worker."""
    from distributed import get_worker

    _BROUGHT[name] = parcel
    for oldest in list(_BROUGHT)[:-MOST_BROUGHT]:
        _BROUGHT.pop(oldest, None)
    return get_worker().address


def _keep(name):
    """What was put down under a name; None on another worker than that."""
    return _BROUGHT.pop(name, None)


# ---------------------------------------------------------------------- what the client does


def _two_of(workers, turn):
    """Two workers, on two machines if there are, others in every turn."""
    first = workers[turn % len(workers)]
    host = first.rpartition(":")[0]
    apart = [worker for worker in workers if worker.rpartition(":")[0] != host]
    others = apart or [worker for worker in workers if worker != first]
    return first, others[turn % len(others)]
