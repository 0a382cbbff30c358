"""The variational loops - batch, online, memoized - written once for every model.

A loop is a function ``lap(model, corpus, state)`` that passes once over the data and returns the
bound. A model needs ``empty_stats()``, ``bind(stats)`` and ``global_bound(stats, at)``.
"""

import numpy as np

from sklearn_sparsepost._kernels._rng import keyed_generator
from sklearn_sparsepost._parallel import (
    cut_batch,
    deal_rows,
    run_chunks,
    threads_per_worker,
    whole_plan,
)
from sklearn_sparsepost._suffstats import sum_of_chunks

# Purposes that draw from the same seed, told apart by the `unit` of the stream.
STREAM_INIT, STREAM_BATCHES, STREAM_ORDER, STREAM_SAMPLE, STREAM_MOVES = range(5)


class Corpus:
    """The data of a fit and how to pass over them.

    Parameters
    ----------
    X : ndarray, csr_matrix or csr_array
        The data.
    dtype : dtype
        Type to compute in.
    n_jobs : int or None
        Workers.
    weight : ndarray of shape (n_samples,), default=None
        Weights of the rows.
    """

    def __init__(self, X, dtype, n_jobs=None, weight=None):
        self.X = X
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.weight = weight

    @property
    def n_samples(self):
        """Number of rows."""
        return self.X.shape[0]

    def map(self, function, chunks, starts=None):
        """Results of a function of (chunk, n_threads) over chunks of rows, in order."""
        return run_chunks(
            function,
            self.X,
            chunks,
            self.dtype,
            self.n_jobs,
            weight=self.weight,
            starts=starts,
        )


class FitState:
    """Where a fit stands: enough to read off the globals, and to go on to the same end.

    Parameters
    ----------
    stats : SuffStats
        What the globals follow from, first the start's.
    seed : int
        Seed of every stream of the fit.
    """

    def __init__(self, stats, seed):
        self.stats = stats
        self.seed = seed
        self.n_laps = 0
        self.n_updates = 0
        self.history = []  # bound after each lap
        self.acceptance = []  # share of restart proposals accepted in each lap
        self.batches = None  # memoized: rows of each batch
        self.memo = None  # memoized: statistics of each batch as last seen
        self.start = None  # memoized: the start's statistics, while some batch is unseen
        self.local = {}  # what each chunk's local step may start from, a list a batch
        self.alpha = None  # prior of the documents' topic weights
        self.report = {}  # of the last lap or batch: scalars, and what a prior is learned from
        self.fingerprint = None  # of the data, to tell whether a fit goes on

    def rng(self, stream, lap=0):
        """A random stream of this fit that depends on purpose and lap only."""
        return keyed_generator(self.seed, lap, stream)


def _note(state, parts):
    """Keep the scalars of a lap or batch for the estimator, and what a prior is learned from."""
    names = [*parts[0].scalars, *(name for name in ("prior_gain",) if name in parts[0].arrays)]
    state.report = {name: sum(part.factor * part[name] for part in parts) for name in names}


def _visit(model, corpus, state, b, chunks, keep_local):
    """Statistics of the chunks of a batch; what their next local step starts from is kept."""
    step = model.bind(state.stats, keep_local=keep_local)
    starts = (state.local.get(b) or [None] * len(chunks)) if keep_local else None
    local, keep = [], getattr(model, "fold_local", list.append)
    for stats, kept in corpus.map(step, chunks, starts):
        if keep_local:
            keep(local, kept)
        del kept  # or it would be held beside the next
        yield stats
    if keep_local:
        state.local[b] = local


def batch_lap(model, corpus, state, *, keep_local=False, bound=True):
    """Coordinate ascent: one local step for all data, then one global step.

    Parameters
    ----------
    model : object
        The model.
    corpus : Corpus
        The data.
    state : FitState
        Where the fit stands; its statistics are replaced.
    keep_local : bool, default=False
        Whether local steps start from where the last lap left them.
    bound : bool, default=True
        Whether to compute the bound.

    Returns
    -------
    bound : float
        The bound after the global step, NaN if not wanted.
    """
    threads = threads_per_worker()
    total = model.empty_stats()
    for stats in _visit(model, corpus, state, 0, whole_plan(corpus.X), keep_local):
        total.add(stats, n_threads=threads)
    state.stats = total
    _note(state, [total])
    return model.global_bound(total, n_threads=threads) if bound else np.nan


def step_size(n_updates, decay, offset):
    """rho_t = (offset + t) ** -decay for the update t = 1, 2, ... (paper 000, section 6)."""
    return (offset + n_updates) ** -decay


def online_update(model, corpus, state, chunks, *, decay, offset, total_samples):
    """One step of stochastic variational inference on one batch.

    Parameters
    ----------
    model, corpus, state
        As for :func:`batch_lap`; the state's statistics move in place.
    chunks : list of list of (int, int)
        The batch.
    decay, offset : float
        Of the step size.
    total_samples : float
        How many samples the batch stands for.

    Returns
    -------
    seen : list of SuffStats
        Statistics of the batch's chunks.
    """
    seen = [stats for stats, _ in corpus.map(model.bind(state.stats), chunks)]
    n_samples = sum(stats["n_samples"] for stats in seen)
    state.n_updates += 1
    rate = min(1.0, step_size(state.n_updates, decay, offset))
    threads = threads_per_worker()
    if rate < 1:
        state.stats.scale(1 - rate)
    else:
        state.stats.clear()
    for stats in seen:
        state.stats.add(stats, rate * total_samples / n_samples, n_threads=threads)
    _note(state, seen)
    return seen


def online_lap(model, corpus, state, *, n_batches, decay, offset, bound=True):
    """A pass of stochastic variational inference over freshly dealt batches.

    Parameters
    ----------
    model, corpus, state, bound
        As for :func:`batch_lap`.
    n_batches : int
        Batches a pass.
    decay, offset : float
        Of the step size.

    Returns
    -------
    bound : float
        The bound of the documents' local posteriors, each as its batch left it, under the topics
        at the end of the pass; NaN if not wanted.
    """
    batches = deal_rows(corpus.n_samples, n_batches, state.rng(STREAM_BATCHES, state.n_laps))
    order = state.rng(STREAM_ORDER, state.n_laps).permutation(n_batches)
    total = model.empty_stats() if bound else None
    threads = threads_per_worker()
    lap = []
    for b in order:
        seen = online_update(
            model,
            corpus,
            state,
            cut_batch(corpus.X, batches[b]),
            decay=decay,
            offset=offset,
            total_samples=corpus.n_samples,
        )
        lap.append(state.report)
        if bound:
            for stats in seen:
                total.add(stats, n_threads=threads)
    state.report = {name: sum(report[name] for report in lap) for name in lap[0]}
    return model.global_bound(total, at=state.stats, n_threads=threads) if bound else np.nan


def memoized_lap(model, corpus, state, *, n_batches, keep_local=False, bound=True):
    """A pass of memoized inference: every batch's old statistics out, its new ones in.

    In the first lap the start stands in for the batches not yet visited, in proportion to their
    samples; without that the topics would lock into the first batch.

    Parameters
    ----------
    model, corpus, state, bound
        As for :func:`batch_lap`.
    n_batches : int
        Batches, dealt once a fit.
    keep_local : bool, default=False
        Whether documents start from where the last lap left them (paper 000, Fig. 5), which costs
        their topic counts in memory.

    Returns
    -------
    bound : float
        The bound at the end of the pass, exact; NaN if not wanted.
    """
    threads = threads_per_worker()
    if state.memo is None:
        state.batches = deal_rows(corpus.n_samples, n_batches, state.rng(STREAM_BATCHES))
        state.memo = [None] * n_batches
        state.start = state.stats.compact()
        state.local = {}
    chunks = [cut_batch(corpus.X, runs) for runs in state.batches]
    try:
        for b in state.rng(STREAM_ORDER, state.n_laps).permutation(len(chunks)):
            _memoized_update(model, corpus, state, b, chunks[b], keep_local, threads)
    finally:
        # From scratch, so that neither rounding nor an interruption between two sums stays.
        _rebuild(model, corpus, state, threads)
    state.start = None
    _note(state, [state.stats])
    return model.global_bound(state.stats, n_threads=threads) if bound else np.nan


def _memoized_update(model, corpus, state, b, chunks, keep_local, threads):
    """Visit one batch: replace what the totals hold of it."""
    # One table a batch: those of its chunks would hold the same words and topics many times.
    new = sum_of_chunks(_visit(model, corpus, state, b, chunks, keep_local))
    old, state.memo[b] = state.memo[b], new
    if old is None:
        state.stats.add(state.start, -new["n_samples"] / corpus.n_samples, n_threads=threads)
    else:
        state.stats.add(old, -1.0, n_threads=threads)
    state.stats.add(new, n_threads=threads)


def _rebuild(model, corpus, state, threads):
    """Sum the totals anew from the memory of every batch, the start for those not visited."""
    total = state.stats.clear()
    unseen = corpus.n_samples
    for seen in state.memo:
        if seen is not None:
            total.add(seen, n_threads=threads)
            unseen -= int(seen["n_samples"])
    if unseen and state.start is not None:
        total.add(state.start, unseen / corpus.n_samples)
