"""The variational loops - batch, online, memoized - written once for every model.

A loop is a function ``lap(model, corpus, state)`` that passes once over the data and returns the
state after it and the bound. The state before it stays true, whatever ends the pass. A model needs
``empty_stats()``, ``bind(stats)`` and ``global_bound(stats, at)``.
"""

from copy import copy

import numpy as np
import scipy.sparse as sp

from sklearn_sparsepost._kernels._rng import keyed_generator
from sklearn_sparsepost._run.chunks import (
    cut_batch,
    deal_rows,
    local_threads,
    run_chunks,
    whole_plan,
)
from sklearn_sparsepost._suffstats import sum_of_chunks

# Samples that a stream without a fit before it is thought to have.
STREAM_SIZE = 1e6
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
        The estimator's parameter.
    weight : ndarray of shape (n_samples,), default=None
        Weights of the rows.
    threaded : bool, default=True
        Whether kernels use threads inside a chunk.
    """

    def __init__(self, X, dtype, n_jobs=None, weight=None, threaded=True):
        self.X = X
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.weight = weight
        self.threaded = threaded

    @property
    def n_threads(self):
        """Threads of what is done between the chunks."""
        return local_threads(self.n_jobs)

    @property
    def n_samples(self):
        """Number of rows."""
        return self.X.shape[0]

    @property
    def is_empty(self):
        """Whether there are no counts to learn from."""
        return sp.issparse(self.X) and not self.X.data.any()

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
            threaded=self.threaded,
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
        self.n_fitted = 0  # samples of the fit
        self.n_seen = 0  # samples of the fit and of a stream after it
        self.head_start = 0.0  # online steps that a fit before the stream is worth
        self.history = []  # bound after each lap
        self.acceptance = []  # share of restart proposals accepted in each lap
        self.batches = None  # memoized: rows of each batch
        self.memo = None  # memoized: statistics of each batch as last seen
        self.start = None  # memoized: the start's statistics, while some batch is unseen
        self.n_rows = 0  # memoized: rows of all batches
        self.local = {}  # what each chunk's local step may start from, a list a batch
        self.alpha = None  # prior of the documents' topic weights
        self.report = {}  # of the last lap or batch: scalars, and what a prior is learned from
        self.fingerprint = None  # of the data, to tell whether a fit goes on

    @property
    def stats(self):
        """What the globals follow from; summed anew from the batches' memory if they were lent."""
        if self._stats is None:
            self._stats = _sum_of_memory(self._empty(), self, local_threads())
        return self._stats

    @stats.setter
    def stats(self, stats):
        self._stats = stats
        self._empty = None

    def next(self):
        """A copy for the next pass, which may replace all that it holds but write to nothing."""
        new = copy(self)
        new.history, new.acceptance = list(self.history), list(self.acceptance)
        new.memo = None if self.memo is None else list(self.memo)
        new.local = dict(self.local)
        return new

    def sum_anew(self):
        """Have the statistics be the sum of what batches remember, to the last bit, if they do."""
        if self.memo is not None:
            self.lend_stats()

    def own(self, n_batches=None):
        """A copy to be moved by another call, with statistics that it may write to.

        Parameters
        ----------
        n_batches : int, default=None
            How many batches the call has; a memory of any other number is forgotten.

        Returns
        -------
        state : FitState
            The copy.
        """
        new = self.next()
        new.stats = self.stats.copy()
        if new.memo is None or len(new.memo) != n_batches:
            new.memo, new.start, new.batches, new.local = None, None, None, {}
        return new

    def lend_stats(self):
        """The statistics, to be written to: what batches and start remember restores them here."""
        stats = self.stats
        self._stats, self._empty = None, stats.maker_of_zeros()
        return stats

    def rng(self, stream, lap=0):
        """A random stream of this fit that depends on purpose and lap only."""
        return keyed_generator(self.seed, lap, stream)

    def __getstate__(self):
        return {**vars(self), "_stats": self.stats, "_empty": None}


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
        Where the fit stands.
    keep_local : bool, default=False
        Whether local steps start from where the last lap left them.
    bound : bool, default=True
        Whether to compute the bound.

    Returns
    -------
    state : FitState
        Where it stands after the global step.
    bound : float
        The bound there, NaN if not wanted.
    """
    threads = corpus.n_threads
    state = state.next()
    total = model.empty_stats()
    for stats in _visit(model, corpus, state, 0, whole_plan(corpus.X), keep_local):
        total.add(stats, n_threads=threads)
    state.stats = total
    _note(state, [total])
    return state, model.global_bound(total, n_threads=threads) if bound else np.nan


def step_size(state, decay, offset):
    """rho_t = (offset + t) ** -decay for the t-th update, at most 1 (paper 000, section 6)."""
    return min(1.0, (offset + state.head_start + state.n_updates) ** -decay)


def online_update(model, corpus, state, chunks, *, decay, offset, total_samples):
    """One step of stochastic variational inference on one batch.

    Parameters
    ----------
    model, corpus
        As for :func:`batch_lap`.
    state : FitState
        Where the fit stands; it moves in place, and so do its statistics.
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
    rate = step_size(state, decay, offset)
    threads = corpus.n_threads
    if rate < 1:
        state.stats.scale(1 - rate)
    else:
        state.stats.clear()
    for stats in seen:
        state.stats.add(stats, rate * total_samples / n_samples, n_threads=threads)
    _note(state, seen)
    return seen


def stream_update(model, corpus, state, *, decay, offset, total_samples=None, begins=False):
    """One step of stochastic variational inference on the next batch of a stream.

    Parameters
    ----------
    model, corpus, state, decay, offset
        As for :func:`online_update`.
    total_samples : float, default=None
        How many samples the stream is thought to have. By default, after a fit as many as have
        been seen, else `STREAM_SIZE`.
    begins : bool, default=False
        Whether the state is a start that was made from these samples.
    """
    n_samples = corpus.n_samples
    if state.n_fitted and state.n_seen == state.n_fitted:
        # So many steps that the next one weighs a batch by its share of all samples.
        step = (1 + state.n_fitted / n_samples) ** (1 / decay)
        state.head_start = step - offset - state.n_updates - 1
    stands_for = state.n_seen
    state.n_seen += n_samples
    if total_samples is None:
        total_samples = state.n_seen if state.n_fitted else STREAM_SIZE
        if state.n_fitted:  # what has been learned is of one more batch by now
            state.stats.scale(total_samples / stands_for)
    if begins:
        state.stats.scale(total_samples / n_samples)
    online_update(
        model,
        corpus,
        state,
        whole_plan(corpus.X),
        decay=decay,
        offset=offset,
        total_samples=total_samples,
    )


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
    state : FitState
        Where it stands at the end of the pass.
    bound : float
        The bound of the documents' local posteriors, each as its batch left it, under the topics
        at the end of the pass; NaN if not wanted.
    """
    state, before = state.next(), state
    state.stats = before.stats.copy()
    batches = deal_rows(corpus.n_samples, n_batches, state.rng(STREAM_BATCHES, state.n_laps))
    order = state.rng(STREAM_ORDER, state.n_laps).permutation(n_batches)
    total = model.empty_stats() if bound else None
    threads = corpus.n_threads
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
    value = model.global_bound(total, at=state.stats, n_threads=threads) if bound else np.nan
    return state, value


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
    state : FitState
        Where it stands at the end of the pass.
    bound : float
        The bound there, exact; NaN if not wanted.
    """
    threads = corpus.n_threads
    state, before = state.next(), state
    if state.memo is None:
        state.batches = deal_rows(corpus.n_samples, n_batches, state.rng(STREAM_BATCHES))
        state.memo = [None] * n_batches
        state.start = before.start = before.stats.compact()
        state.n_rows = corpus.n_samples
        state.local = {}
    state.stats = before.lend_stats()
    chunks = [cut_batch(corpus.X, runs) for runs in state.batches]
    for b in state.rng(STREAM_ORDER, state.n_laps).permutation(len(chunks)):
        _memoized_update(model, corpus, state, b, chunks[b], keep_local, threads)
    # From scratch, so that no rounding of what came and went stays.
    _sum_of_memory(state.stats.clear(), state, threads)
    state.start = None
    _note(state, [state.stats])
    return state, model.global_bound(state.stats, n_threads=threads) if bound else np.nan


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


def _sum_of_memory(total, state, threads):
    """Add up what every batch has left, the start for those not visited."""
    seen = [part for part in state.memo or () if part is not None]
    for part in seen:
        total.add(part, n_threads=threads)
    n_seen = sum(int(part["n_samples"]) for part in seen)
    if state.start is not None and (not seen or n_seen < state.n_rows):
        total.add(state.start, 1 - n_seen / state.n_rows if seen else 1.0, n_threads=threads)
    return total
