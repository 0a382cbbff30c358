"""Passes over a Dask array on worker processes of this machine, beside those of its own threads."""

import pickle
from time import perf_counter

import corpora
import numpy as np
import peers
import scipy.sparse as sp

# Blocks of the data, more than there are workers.
N_BLOCKS = 8
# What Dask looks at less often than it does where nobody says so, as the user guide has it.
QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "10s",
}


class _Ends:
    """Callback that notes when passes begin and end."""

    def __init__(self):
        self.times = []

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        if context.task_name == "pass" and not self.times:
            self.times.append(perf_counter())

    def on_fit_task_end(self, estimator, context):
        if context.task_name == "pass":
            self.times.append(perf_counter())


class _Anew(_Ends):
    """As each pass begins something is called, and then noted when that is."""

    def __init__(self, begin):
        super().__init__()
        self.begin = begin

    def on_fit_task_begin(self, estimator, context):
        if context.task_name == "pass":
            self.begin()
            self.began = perf_counter()


def _counted(sent):
    """Have blocks count the bytes of what goes to each worker, and of what comes back from all."""
    from sklearn_sparsepost._run import cluster, collections, kept_sums
    from sklearn_sparsepost._run.shipping import Shipped

    submit, to_workers, in_one = cluster.submit, cluster.sent_to_workers, cluster.in_one
    fetched = cluster.fetched
    held, halves = {"waited": 0.0}, {}

    def counting_task(client, function, *given, **place):
        if function is cluster._on_worker:  # what it alone is given, and no futures
            sent["tasks"] += 1
            sent["with tasks"] += len(pickle.dumps(given[-1], 5))
        elif function is kept_sums._put_down:  # half of a sum, for which the client has no room
            sent["to a second worker"] += halves[given[-1].key]
        return submit(client, function, *given, **place)

    def counting(client, value):
        sent["to each worker"] += len(pickle.dumps(value, 5))
        return to_workers(client, value)

    def counting_results(client, futures):
        results = fetched(client, futures)
        for future, result in zip(futures, results, strict=True):
            halves[future.key] = len(pickle.dumps(result, 5))
            sent["back"] += halves[future.key]
        return results

    def counting_total(client, function, tasks, shared, *given, **more):
        began = perf_counter()
        sent["globals"] = max(sent["globals"], len(pickle.dumps(shared, 5)))
        result = in_one(client, function, tasks, shared, *given, **more)
        sent["sum"] += len(pickle.dumps(Shipped(result), 5))
        held["result"] = result
        held["waited"] += perf_counter() - began  # for workers, and for what is counted here
        return result

    cluster.submit = kept_sums.submit = counting_task
    cluster.sent_to_workers = counting
    cluster.fetched = kept_sums.fetched = counting_results
    collections.in_one = counting_total
    return held


def _watch_results():
    """Have a worker note samples and bytes of sums that it sends, to others or to the client."""
    from sklearn_sparsepost._run import shipping

    packed, shipping.sent = shipping.packed, []

    def counting(value, **how):
        text, buffers = packed(value, **how)
        stats = value[0] if isinstance(value, tuple) and len(value) == 2 else value
        if hasattr(stats, "scalars"):
            size = len(text) + sum(memoryview(part).nbytes for part in buffers)
            shipping.sent.append((float(stats["n_samples"]), size))
        return text, buffers

    shipping.packed = counting


def _forget_results():
    from sklearn_sparsepost._run import shipping

    shipping.sent.clear()


def _results():
    from sklearn_sparsepost._run import shipping

    return shipping.sent


def cluster(
    corpus,
    n_topics,
    n_workers,
    *,
    options=None,
    n_samples=None,
    passes=3,
    seed=0,
    threads=1,
    counts=False,
    quiet=True,
    sums=None,
):
    """Seconds of passes over data on worker processes, or on threads of this process.

    Parameters
    ----------
    corpus : str
        The counts, or "bsds500" for patches and a mixture.
    n_topics : int
        Topics or components.
    n_workers : int
        Processes of `threads` threads; 0 for as many of this process, without Dask. What it has
        beside workers is all, unless the environment says otherwise, which holds for them, too.
    options : dict, default=None
        Of the estimator.
    n_samples : int, default=None
        How many rows, None for all.
    passes : int, default=3
        How many passes; the first is not timed.
    seed : int, default=0
        Of the start.
    threads : int, default=1
        Threads of each.
    counts : bool, default=False
        Whether to count bytes, instead of seconds.
    quiet : bool, default=True
        Whether Dask is told not to look at itself so often (`QUIET`).
    sums : {"there alone", "here alone"}, default=None
        Where memoized learning has batches' sums: on the workers, with no room at the client, or
        at the client and not on workers; by default on both.

    Returns
    -------
    result : dict
        Seconds of each pass but the first, the last bound, peaks of memory in bytes, and with
        `counts` the bytes a pass.
    """
    from sklearn_sparsepost import SparseLDA, SparseMixture

    settings = {"max_iter": passes, "tol": 0, "random_state": seed, **(options or {})}
    if corpus == "bsds500":
        X = corpora.patches("train", n_samples)
        model = SparseMixture(n_topics, assume_centered=True, init_params="k-means++", **settings)
    else:
        X = corpora.load(corpus)[0].astype(np.float32)[:n_samples]
        model = SparseLDA(n_topics, **settings)
    ends = _Ends()
    model.set_callbacks(ends)
    if not n_workers:
        model.fit(X)
        return _result(model, ends, {})
    import dask
    import dask.array as da
    import distributed

    given = {"n_workers": n_workers, "threads_per_worker": threads, "processes": True}
    with (
        dask.config.set(QUIET if quiet else {}),
        distributed.LocalCluster(**given, dashboard_address=":0") as held,
        distributed.Client(held) as client,
    ):
        edges = np.linspace(0, X.shape[0], N_BLOCKS + 1).astype(int)
        blocks = []
        workers = list(client.scheduler_info()["workers"])
        for b, (first, last) in enumerate(zip(edges[:-1], edges[1:], strict=True)):
            # Neighbours beside each other, as a cluster that reads them has them.
            part = client.scatter(X[first:last], workers=[workers[b * n_workers // N_BLOCKS]])
            shape = (int(last - first), X.shape[1])
            blocks.append(da.from_delayed(part, shape, dtype=X.dtype))
        there = da.concatenate(blocks)
        if sums:
            _have_sums(sums)
        if counts:
            return _bytes_of(model, there, X, client)
        return _result(model.fit(there), ends, client.run(peers.peak_bytes))


def _have_sums(where):
    """Have batches' sums be in one place, in this process from now on."""
    import dask

    from sklearn_sparsepost._run import collections, kept_sums

    if where == "there alone":
        dask.config.set({kept_sums.OPTION: 0})
    else:
        collections.SumKeeper = lambda client: None


def _bytes_of(model, X_there, X, client):
    """Bytes of one pass after the first two, what statistics are kept, and seconds of pieces."""
    model.set_callbacks().set_params(warm_start=True, max_iter=1).fit(X_there)
    from sklearn_sparsepost._run.kept_sums import each_in_turn

    names = "to each worker", "globals", "back", "sum", "tasks", "with tasks", "to a second worker"
    sent = dict.fromkeys(names, 0)
    held = _counted(sent)
    client.run(_watch_results)

    def begin():
        sent.update(dict.fromkeys(names, 0))
        held["waited"] = 0.0
        client.run(_forget_results)

    # A fit's first pass is sent what later ones find on the workers.
    ends = _Anew(begin)
    model.set_params(max_iter=2).set_callbacks(ends).fit(X_there)
    sums = [pair for pairs in client.run(_results).values() for pair in pairs]
    # What pickles say beside what is packed is told of those that come back alone.
    sent["between workers"] = max(sum(size for _, size in sums) - sent["back"], 0)
    memo = model._fit_state.memo or [model._fit_state.stats.compact()]
    memo = list(each_in_turn(memo))
    stored = (X.data, X.indices, X.indptr) if sp.issparse(X) else (X,)
    sent, held = dict(sent), dict(held)  # as they are before another pass
    sent["between workers"] += sent.pop("to a second worker")
    after = model.set_params(max_iter=1).set_callbacks().fit(X_there)._fit_state.memo
    return {
        "bytes": sent,
        "sums": sorted(sums),
        "numbers kept": None if after is None else _as_before(memo, each_in_turn(after)),
        "kept": sum(len(pickle.dumps(part, 5)) for part in memo),
        "data": sum(part.nbytes for part in stored),
        "dense": sum(array.nbytes for array in model._fit_state.stats.arrays.values()),
        "tokens": float(X.sum()) if sp.issparse(X) else len(X),
        "memory": list(client.run(peers.peak_bytes).values()),
        "pieces": {"client": ends.times[-1] - ends.began - held["waited"], **_pieces(held)},
    }


def _as_before(before, after):
    """How many numbers batches' sums have, how many are as a pass before, and how many are gone."""
    found = dict.fromkeys(("all", "as before", "gone"), 0)
    for old, new in zip(before, after, strict=True):
        for name in new.arrays:
            (places, values), (old_places, old_values) = map(_numbers, (new[name], old[name]))
            *_, here, there = np.intersect1d(
                places, old_places, assume_unique=True, return_indices=True
            )
            found["all"] += len(places)
            found["as before"] += int((values[here] == old_values[there]).sum())
            found["gone"] += len(old_places) - len(there)
    return found


def _numbers(sums):
    """Places and values of the numbers of a table that are not zero."""
    if hasattr(sums, "row_ptr"):
        rows = np.repeat(sums.rows.astype(np.int64), np.diff(sums.row_ptr))
        return rows * sums.shape[1] + sums.columns, sums.values
    places = np.flatnonzero(sums)
    return places, sums.ravel()[places]


def _pieces(held):
    """Seconds to pack and to unpack what travels, and to join two sums."""
    from sklearn_sparsepost._run.shipping import Shipped
    from sklearn_sparsepost._suffstats import exact_sum

    times = [perf_counter()]
    text = pickle.dumps(Shipped(held["result"]), 5)
    times.append(perf_counter())
    again = pickle.loads(text).value
    times.append(perf_counter())
    exact_sum([held["result"][0], again[0]], apart=True)
    times.append(perf_counter())
    return dict(zip(("pack", "unpack", "join"), np.diff(times).tolist(), strict=True))


def _result(model, ends, memory):
    return {
        "seconds": np.diff(ends.times)[1:].tolist(),
        "bound": float(model.bound_history_[-1]),
        "memory": [peers.peak_bytes(), *memory.values()],
    }
