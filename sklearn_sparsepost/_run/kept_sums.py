"""Sums of batches that workers of a cluster keep for memoized learning, each of them twice.

They stay where they are made, in halves as they come to the client, which has the second copy of
those that it has room for: it wants each twice a pass, and no worker ever does. Of the others the
halves go from there to a second worker, so that one may die, and the client gets them in time.
"""

from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from itertools import count
from typing import NamedTuple
from uuid import uuid4
from weakref import WeakSet, finalize

from sklearn_sparsepost._run.cluster import (
    ATTEMPTS,
    best_on,
    fetched,
    found,
    itself,
    submit,
    threads_of_one,
)
from sklearn_sparsepost._run.dispatch import told_of_lost_cluster
from sklearn_sparsepost._run.kept import NotThere
from sklearn_sparsepost._run.shipping import Parcel, Shipped

# The option of Dask's configuration for the client's room, and the share of its memory by default.
OPTION, SHARE = "sklearn_sparsepost.client_memory_for_sums", 4
# Sums that are in wait to be brought to workers: the fit waits, too, before there are more.
MOST_WAITING = 4
# Values on this worker, by names, between the task that puts each down and the one that keeps it;
# of more than these the one for the oldest has run elsewhere.
_PUT_DOWN, MOST_PUT_DOWN = {}, 16


def room_for_sums():
    """Bytes that the client has for sums of a pass.

    Returns
    -------
    room : int
        As Dask's configuration says, or else a quarter of the memory that the process may have.

    Raises
    ------
    ValueError
        If the configuration says what is no number of bytes.
    """
    import dask
    from distributed.system import MEMORY_LIMIT

    told = dask.config.get(OPTION, None)
    if told is None:
        return MEMORY_LIMIT // SHARE
    try:
        room = dask.utils.parse_bytes(told)
    except (AttributeError, TypeError, ValueError):
        room = -1
    if room < 0:
        raise ValueError(
            f"{OPTION} of Dask's configuration must be a number of bytes, such as 0, 10**9 or "
            f"'2 GiB', got {told!r}"
        )
    return room


class SumKeeper:
    """Has workers keep the sums of a fit, beside whatever else the client does.

    One worker does of what the client has room for, and two of what it has not.

    Parameters
    ----------
    client : distributed.Client
        Of their cluster.
    room : int, default=None
        Bytes that the client has for sums of a pass; by default what :func:`room_for_sums` says.
        Those of the pass before may take as many, until it is certain that they are not wanted.
    """

    def __init__(self, client, room=None):
        self.client = client
        self.room = room_for_sums() if room is None else room
        # One thing at a time, so that what is fetched has been brought before.
        self.thread = ThreadPoolExecutor(1)
        self._turns = count()
        self._bringing = WeakSet()  # jobs of the thread
        self._here = WeakSet()  # sums that are in the room, but for old ones
        self._join = None  # of the halves of a sum
        self._halves = None  # of the last sum, if it is in these

    def gathers(self, join):
        """What gets the halves of the next sum, which stay where they are: see :func:`in_one`.

        Parameters
        ----------
        join : callable
            ``join(parts, apart=True)`` makes the sum of its halves.

        Returns
        -------
        gather : callable
            For :func:`in_one`.
        """
        self._join, self._halves = join, None
        return self._gathered

    def _gathered(self, halves):
        """Values of futures, of whose statistics each stays where it is under a name."""
        names = [uuid4().hex for _ in halves]
        stays, rests = [], []
        for name, (future, where) in zip(names, halves, strict=True):
            stays.append(submit(self.client, _packed_here, name, future, **where))
            rests.append(submit(self.client, _beside_sum, future, **where))
        values = fetched(self.client, [*stays, *rests])
        for value in values:  # of a sum one of its two tasks may have been made again, with less
            if isinstance(value, Shipped):
                found(value)
        own = []
        for half, rest in zip(values[: len(halves)], values[len(halves) :], strict=True):
            tracked, kept = rest.value
            stats = half.parcel.open()
            stats.tracked = tracked
            own.append((stats, kept))
        places = [half.place for half in values[: len(halves)]]
        self._halves = [_Half(*half) for half in zip(names, places, stays, strict=True)]
        return own

    def keep_last(self, stats, old=None):
        """Have workers keep the sum of the halves that were gathered last, beside what follows.

        Where so many are in wait for that already, the next one's turn is waited for.

        Parameters
        ----------
        stats : SuffStats
            The sum, which nobody writes to from now on.
        old : SuffStats or KeptSum, default=None
            What is not wanted after this pass, in whose room it may be.

        Returns
        -------
        kept : KeptSum
            To get it from.
        """
        halves, self._halves = self._halves, None
        return self._kept(stats, halves, old)

    def keep(self, stats):
        """Have workers keep a sum that the client has made.

        Parameters
        ----------
        stats : SuffStats
            The sum, which nobody writes to from now on.

        Returns
        -------
        kept : KeptSum
            To get it from.
        """
        return self._kept(stats, None, None)

    def _kept(self, stats, halves, old):
        if is_kept(old):
            self._here.discard(old)
            old.leave_workers()
        n_bytes = sum(array.nbytes for array in stats.arrays.values())
        fits = sum(kept.n_here for kept in self._here) + n_bytes <= self.room
        pending = [job for job in self._bringing if not job.done()]
        if len(pending) >= MOST_WAITING:
            wait(pending, return_when=FIRST_COMPLETED)
        brought = self.thread.submit(self._brought, stats, halves, 1 if fits else 2)
        self._bringing.add(brought)
        kept = KeptSum(self, brought, (stats, n_bytes) if fits else None)
        finalize(kept, brought.cancel).atexit = False  # if it is not wanted before its turn
        if fits:
            self._here.add(kept)
        return kept

    def _brought(self, stats, halves, n_copies):
        """Futures of copies of what a sum is the sum of, or the sum itself for want of workers."""
        for attempt in range(ATTEMPTS + 1):
            workers = sorted(self.client.nthreads()) if self.client.status == "running" else ()
            if len(workers) < n_copies:
                break
            if attempt or halves is None:
                kept = self._sent(stats, workers, n_copies)
            else:
                kept = self._in_halves(halves, workers, n_copies)
            if kept is not None:
                return kept
        return stats

    def _in_halves(self, halves, workers, n_copies):
        """Futures of copies of halves, a second on another worker; None if that has failed."""
        if n_copies == 1:
            return self._at_home([[(half.name, half.place)] for half in halves])
        names, brought = [], []
        for half in halves:
            other = _another(half.place, workers, next(self._turns))
            names.append(uuid4().hex)
            brought.append(submit(self.client, _put_down, names[-1], half.packed, **best_on(other)))
        try:
            places = fetched(self.client, brought)
        except Exception:  # a worker has died, and with it a half
            return None
        twins = zip(halves, names, places, strict=True)
        return self._at_home(
            [[(half.name, half.place), (name, place)] for half, name, place in twins]
        )

    def _sent(self, stats, workers, n_copies):
        """Futures of copies of a sum that the client sends; None if that has failed."""
        places = [workers[next(self._turns) % len(workers)]]
        if n_copies > 1:
            places.append(_another(places[0], workers, next(self._turns)))
        sent = submit(self.client, itself, Parcel.of(stats), **best_on(places[0]))
        names, brought = [], []
        for place in places:
            names.append(uuid4().hex)
            brought.append(submit(self.client, _put_down, names[-1], sent, **best_on(place)))
        places = fetched(self.client, brought)
        return self._at_home([list(zip(names, places, strict=True))])

    def _at_home(self, parts):
        """Futures of copies of what was put down, None if one is nothing, or not where that was.

        They depend on nothing, or the scheduler would hold what was sent, and each has one copy: of
        two Dask would drop either, and leave both futures with one worker.
        """
        kept = [
            tuple(submit(self.client, _keep, name, **best_on(place)) for name, place in copies)
            for copies in parts
        ]
        every = [future for copies in kept for future in copies]
        for future in every:  # Dask's `wait` would set its configuration, as other threads may
            future.exception()
        holders = self.client.who_has(every)
        for copies, futures in zip(parts, kept, strict=True):
            places = [place for _, place in copies]
            if len(set(places)) < len(places) or any(
                future.type is type(None) or tuple(holders.get(future.key, ())) != (place,)
                for future, place in zip(futures, places, strict=True)
            ):
                return None
        return kept

    def get(self, brought):
        """A sum that was brought, of each half from any worker that has it."""
        if not isinstance(brought, list):
            return brought
        parts = [self._any(copies) for copies in brought]
        return self._join(parts, apart=True) if len(parts) > 1 else parts[0]

    def _any(self, copies):
        for future in copies:
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
    held : (SuffStats, int), default=None
        The sum and its bytes, if it is here as well.

    Attributes
    ----------
    here : SuffStats or None
        The sum, if it is here as well.
    n_here : int
        Bytes of that.
    """

    def __init__(self, keeper, brought, held=None):
        self.keeper = keeper
        self._brought = brought
        self.here, self.n_here = (None, 0) if held is None else held
        self._is_lost = False

    @property
    def is_lost(self):
        """Whether it is known that the sum cannot be had any more."""
        return self.here is None and (self._is_lost or self.keeper.client.status != "running")

    def fetch(self):
        """Get the sum from workers.

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
                return self.keeper.get(self._brought.result())
        except Exception:
            self._is_lost = True
            raise

    def leave_workers(self):
        """Have workers keep it no more if it is here as well, since a new one is coming."""
        if self.here is not None and self._brought is not None:  # by a pass that was given up
            self._brought.cancel()
            self._brought = None

    def coming(self):
        """Get the sum while something else is done.

        Returns
        -------
        coming : callable
            Waits for the sum, and returns it, or raises what has prevented that.
        """
        if self.here is not None:
            return lambda: self.here
        return self.keeper.thread.submit(self.fetch).result

    def like(self, stats):
        """What a sum that is made of this one is remembered as: on workers, if this is only there.

        Parameters
        ----------
        stats : SuffStats
            The sum, which one of its batch's next visit replaces.

        Returns
        -------
        kept : KeptSum or SuffStats
            To get it from.
        """
        return self.keeper.keep(stats) if self.here is None else stats


# ---------------------------------------------------------------------- wherever sums are


def is_kept(part):
    """Whether something is a sum that workers keep."""
    return isinstance(part, KeptSum)


def is_elsewhere(part):
    """Whether something is a sum that workers alone have."""
    return is_kept(part) and part.here is None


def coming(part):
    """Begin to get a sum, wherever it is; returns what waits for it."""
    return part.coming() if is_kept(part) else lambda: part


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


class _Packed(NamedTuple):
    """Statistics that are packed on a worker."""

    place: str
    parcel: Parcel


def _packed_here(name, result):
    """Pack the statistics that a task has found, if so, and put them down under a name."""
    if isinstance(result.value, NotThere):
        return result
    stats, _ = result.value
    with threads_of_one():
        parcel = Parcel.of(stats.without(()))  # nor with what is tracked, which nobody remembers
    return _Packed(_put_down(name, parcel), parcel)


def _beside_sum(result):
    """What a task has found besides statistics."""
    if isinstance(result.value, NotThere):
        return result
    stats, kept = result.value
    return Shipped((stats.tracked, kept))


def _put_down(name, value):
    """Put a parcel down under a name; returns on which worker, None if there was none to come."""
    from distributed import get_worker

    if isinstance(value, Shipped):  # a task was made again, without what it was given
        return None
    _PUT_DOWN[name] = value.parcel if isinstance(value, _Packed) else value
    for oldest in list(_PUT_DOWN)[:-MOST_PUT_DOWN]:
        _PUT_DOWN.pop(oldest, None)
    return get_worker().address


def _keep(name):
    """What was put down under a name; None on another worker than that."""
    return _PUT_DOWN.pop(name, None)


# ---------------------------------------------------------------------- what the client does


class _Half(NamedTuple):
    """Half of a sum, packed where it was made: its name, that worker, and the future."""

    name: str
    place: str
    packed: object


def _another(first, workers, turn):
    """Another worker than the first, on another machine if there are, others in every turn."""
    host = first.rpartition(":")[0]
    apart = [worker for worker in workers if worker.rpartition(":")[0] != host]
    others = apart or [worker for worker in workers if worker != first]
    return others[turn % len(others)]
