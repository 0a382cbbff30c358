"""Passes over a Dask array on worker processes of this machine, beside those of its own threads."""

import pickle
from time import perf_counter

import corpora
import numpy as np
import peers
import scipy.sparse as sp

# Blocks of the data, more than there are workers.
N_BLOCKS = 8


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


def _counted(blocks_type, sent):
    """Have blocks count the bytes of what goes to each worker, and of what comes back from all."""
    work = blocks_type.work

    def counting(self, function, tasks, shared):
        size = len(pickle.dumps(shared, 5))
        sent["to each worker"] += size
        sent["globals"] = max(sent["globals"], size)
        sent["tasks"] += len(tasks)
        for result in work(self, function, tasks, shared):
            sent["back"] += len(pickle.dumps(result, 5))
            yield result

    blocks_type.work = counting


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
):
    """Seconds of passes over data on worker processes, or on threads of this process.

    Parameters
    ----------
    corpus : str
        The counts, or "bsds500" for patches and a mixture.
    n_topics : int
        Topics or components.
    n_workers : int
        Processes; 0 for `threads` threads of this process, without Dask.
    options : dict, default=None
        Of the estimator.
    n_samples : int, default=None
        How many rows, None for all.
    passes : int, default=3
        How many passes; the first is not timed.
    seed : int, default=0
        Of the start.
    threads : int, default=1
        Threads of this process, and of each worker.
    counts : bool, default=False
        Whether to count bytes, instead of seconds.

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
    import dask.array as da
    import distributed

    given = {"n_workers": n_workers, "threads_per_worker": threads, "processes": True}
    with (
        distributed.LocalCluster(**given, dashboard_address=":0") as held,
        distributed.Client(held) as client,
    ):
        edges = np.linspace(0, X.shape[0], N_BLOCKS + 1).astype(int)
        blocks = []
        for first, last in zip(edges[:-1], edges[1:], strict=True):
            part = client.scatter(X[first:last])
            shape = (int(last - first), X.shape[1])
            blocks.append(da.from_delayed(part, shape, dtype=X.dtype))
        there = da.concatenate(blocks)
        if counts:
            return _bytes_of(model, there, X, client)
        return _result(model.fit(there), ends, client.run(peers.peak_bytes))


def _bytes_of(model, X_there, X, client):
    """Bytes of one pass after the first, and what statistics are kept."""
    from sklearn_sparsepost._run.collections import Blocks

    model.set_callbacks().set_params(warm_start=True, max_iter=1).fit(X_there)
    sent = dict.fromkeys(("to each worker", "globals", "back", "tasks"), 0)
    _counted(Blocks, sent)
    model.fit(X_there)
    memo = model._fit_state.memo or [model._fit_state.stats.compact()]
    stored = (X.data, X.indices, X.indptr) if sp.issparse(X) else (X,)
    return {
        "bytes": sent,
        "kept": sum(len(pickle.dumps(part, 5)) for part in memo),
        "data": sum(part.nbytes for part in stored),
        "memory": list(client.run(peers.peak_bytes).values()),
    }


def _result(model, ends, memory):
    return {
        "seconds": np.diff(ends.times)[1:].tolist(),
        "bound": float(model.bound_history_[-1]),
        "memory": [peers.peak_bytes(), *memory.values()],
    }
