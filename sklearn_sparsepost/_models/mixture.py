"""Mixtures: one component a row, and the L-sparse local step (Hughes & Sudderth 2016, 2 and 3)."""

from copy import copy

import numpy as np
import scipy.sparse as sp

from sklearn_sparsepost._kernels import mixture as kernels
from sklearn_sparsepost._models.contract import Globals, Model
from sklearn_sparsepost._models.observation import Observation
from sklearn_sparsepost._models.tracking import Change, Tracked, Users, entropy_losses
from sklearn_sparsepost._models.weights import LOG_ZERO
from sklearn_sparsepost._run.threads import single_blas
from sklearn_sparsepost._suffstats import SuffStats

SCALARS = ("n_samples", "total_weight", "entropy", "base")
# What is found of rows and components is kept after so many visits of rows: before, components
# change much, and a short fit would not gain by it. A byte each, of so many at most.
SETTLED, MOST_FOUND = 5, 2**28


class Mixture(Model):
    """An observation model and component weights, put together.

    Parameters
    ----------
    observation : Observation
        What observations look like inside a component.
    weights : DirichletWeights or ProcessWeights
        How components are chosen.
    n_components : int
        Number of components, K.
    sparsity_level : int or None, default=None
        The most components an observation may keep, L; None for all.
    dtype : dtype, default="float64"
        Type of the data.
    n_neighbors : int, default=None
        How many neighbours of each component that a row kept are considered after the first pass;
        None for all components.
    rows_per_step : float, default=None
        How many rows pass between two global steps; None for very many.
    keeps_local : bool, default=False
        Whether the components that a row kept are, if the observation model profits from it.
    n_rows : float, default=None
        How many rows there are in all, so that what is kept of each is no more than memory has room
        for; None for very many.
    patience : int, default=0
        In how many passes at first no component is held to account for how little is known of it,
        :meth:`~sklearn_sparsepost.observations.Observation.uncertainty`: the small clusters of a
        start would not outlive it. The bound may fall until then.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsepost.models import (
    ...     Bernoulli, Corpus, DirichletWeights, Mixture, begin, memoized_pass
    ... )
    >>> X = np.repeat(np.eye(2), 50, axis=0)
    >>> bits = Bernoulli("bayes", np.ones((2, 2)))
    >>> model = Mixture(bits, DirichletWeights("bayes", 1.0), 2, sparsity_level=1)
    >>> corpus = Corpus(X, np.float64)
    >>> state = begin(model, corpus, X)
    >>> state = memoized_pass(model, corpus, state, n_batches=2)
    >>> state.stats["count"].tolist()
    [50.0, 50.0]
    """

    unit = "total_weight"

    def __init__(
        self,
        observation,
        weights,
        n_components,
        *,
        sparsity_level=None,
        dtype="float64",
        n_neighbors=None,
        rows_per_step=None,
        keeps_local=False,
        n_rows=None,
        patience=0,
    ):
        self.observation = observation
        self.weights = weights
        self.n_components = n_components
        self.wanted_level = sparsity_level
        self.dtype = np.dtype(dtype)
        self.n_neighbors = n_neighbors
        self.rows_per_step = rows_per_step
        self.keeps_local = keeps_local and observation.keeps_candidates
        self.n_rows = np.inf if n_rows is None else n_rows
        self.patience = patience
        self.axes = {"count": 0}
        self.axes |= {name: observation.axes.get(name, 0) for name in observation.empty(0)}
        self._last = None

    def resized(self, n_components):
        """This model with another number of components."""
        new = copy(self)
        new.n_components = n_components
        return new

    def for_stream(self, n_rows):
        """Copy this model for a single step on rows that have no candidates.

        Parameters
        ----------
        n_rows : int
            How many rows.

        Returns
        -------
        model : Mixture
            The copy.
        """
        new = copy(self)
        new.rows_per_step, new.n_neighbors, new.keeps_local = n_rows, None, False
        new.patience = 0
        return new

    def stats_under(self, chunk, resp):
        """Sum statistics of a chunk's rows."""
        resp = resp.toarray() if sp.issparse(resp) else np.asarray(resp, dtype=np.float64)
        index = np.broadcast_to(np.arange(resp.shape[1], dtype=np.int32), resp.shape)
        return self.stats_of(chunk.rows, index, resp, chunk.weight)

    def stats_of(self, rows, index, resp, weight=None):
        """Sum statistics of rows under given responsibilities.

        Parameters
        ----------
        rows : ndarray or csr_array of shape (n_rows, n_features)
            The data.
        index : ndarray of shape (n_rows, L), int32
            Components of each row.
        resp : ndarray of shape (n_rows, L)
            Their responsibilities.
        weight : ndarray of shape (n_rows,), default=None
            Weights of the rows.

        Returns
        -------
        stats : SuffStats
            The statistics.
        """
        globals_ = Globals(
            observation=self.observation, log_weights=np.empty(self.n_components), axes=self.axes
        )
        return summarise(globals_, self.observation.prepare(rows), index, resp, weight)

    @property
    def level(self):
        """The most components that a row may keep, L."""
        wanted = self.n_components if self.wanted_level is None else self.wanted_level
        return min(wanted, self.n_components)

    def empty_stats(self, n_components=None):
        """Statistics of no data."""
        K = self.n_components if n_components is None else n_components
        arrays = {"count": np.zeros(K), **self.observation.empty(K)}
        return SuffStats(arrays, self.axes, dict.fromkeys(SCALARS, 0.0))

    def estimate(self, stats):
        """Find estimates of the components, and the posterior of their weights.

        Parameters
        ----------
        stats : SuffStats
            What they follow from.

        Returns
        -------
        estimates : dict of str to ndarray
            Of the observation model.
        concentration : ndarray
            Of the weights.
        """
        # The bound after a pass and the next pass want the same.
        if self._last is not None and self._last[0] is stats and self._last[1] == stats.version:
            return self._last[2]
        found = self.observation.estimate(stats), self.weights.estimate(stats.value("count"))
        self._last = stats, stats.version, found
        return found

    def globals_of(self, state, track=None):
        """The table of log-likelihoods and E[log pi] that the local step reads."""
        with single_blas():
            # Neighbours of what? The first pass looks at all components.
            near = self.n_neighbors if state.n_passes else None
            return self.globals_under(
                *self.estimate(state.stats),
                track=track,
                n_neighbors=near,
                patient=state.n_passes < self.patience,
            )

    def globals_under(
        self, estimates, concentration, *, track=None, n_neighbors=None, patient=False
    ):
        """Return what the local step reads, given estimates.

        Parameters
        ----------
        estimates : dict of str to ndarray
            Of the observation model.
        concentration : ndarray
            Of the weights.
        track : Track, default=None
            What a move wants to know.
        n_neighbors : int, default=None
            As for :meth:`~sklearn_sparsepost.observations.Observation.settle`.
        patient : bool, default=False
            Whether components are judged by point estimates.

        Returns
        -------
        globals_ : Globals
            The table of log-likelihoods and E[log pi].
        """
        log_weights = self.weights.log_weights(concentration)
        observation = self.observation
        if patient:
            log_weights = log_weights + observation.uncertainty(estimates)
        table = observation.settle(
            observation.table(estimates, self.dtype),
            estimates,
            log_weights,
            n_rows=np.inf if self.rows_per_step is None else self.rows_per_step,
            n_neighbors=n_neighbors,
        )
        return Globals(
            observation=observation,
            table=table,
            log_weights=log_weights,
            level=self.level,
            axes=self.axes,
            track=track,
            keeps_local=self.keeps_local and self.level < self.n_components,
            keeps_found=observation.finds_more and self.n_rows * len(log_weights) <= MOST_FOUND,
        )

    @staticmethod
    def local_step(chunk, globals_, key=None):
        """Responsibilities of the chunk's rows and their statistics."""
        observation, track = globals_.observation, globals_.track
        rows = observation.prepare(chunk.rows)
        start = chunk.start
        if start is None or start.index.shape[1] != globals_.level:
            start = Kept()  # it is the first visit, or L has changed
        if start.visits >= SETTLED and globals_.keeps_found:
            given = globals_.table, globals_.log_weights, globals_.level
            index, weight, found = observation.best_again(rows, *given, start.index, start.found)
            resp = _normalised(weight)
        else:
            found = None
            index, resp = responsibilities(rows, globals_, start.index)
        stats = summarise(globals_, rows, index, resp, chunk.weight)
        if track is not None:
            stats.tracked = _tracked(track, globals_, rows, index, resp, chunk)
        if not globals_.keeps_local:
            return stats, None
        small = len(globals_.log_weights) <= np.iinfo(np.uint16).max
        index = index.astype(np.uint16) if small else index
        return stats, Kept(index, found, start.visits + 1)

    def bound(self, state, stats=None):
        """The bound of all data with these statistics: Hughes & Sudderth (2016), Eq. 3, 18 - 24."""
        stats = state.stats if stats is None else stats
        with single_blas():
            estimates, concentration = self.estimate(state.stats)
            return (
                sum(stats.value(name) for name in ("entropy", "base"))
                + self.weights.bound(stats.value("count"), concentration)
                + self.observation.bound(stats, estimates)
            )

    # ------------------------------------------------------------------ merges

    def overlap(self, chunk, globals_):
        """How much components share rows, were they dense."""
        observation = globals_.observation
        weight = observation.log_likelihood(observation.prepare(chunk.rows), globals_.table)
        resp = weight.astype(np.float64) + globals_.log_weights
        resp = np.exp(resp - resp.max(axis=1, keepdims=True))
        resp /= resp.sum(axis=1, keepdims=True)
        return resp.T @ resp

    def merge_gain(self, state, kept, absorbed):
        """What the terms of two components that follow from statistics gain by a merge."""
        if None in self.axes.values():
            return np.inf  # what all components share changes as well: only the bound can tell
        both = state.stats.reorder(np.array([kept, absorbed]))
        before = state.stats.value("count")
        after = before.copy()
        after[kept] += after[absorbed]
        after = np.delete(after, absorbed)
        gain = 0.0
        for part, count, sign in ((both.merge(0, 1), after, 1), (both, before, -1)):
            gain += sign * self.observation.bound(part, self.observation.estimate(part))
            gain += sign * self.weights.bound(count, self.weights.estimate(count))
        return gain


class Kept:
    """What is kept of rows for the next pass.

    Parameters
    ----------
    index : ndarray of shape (n_rows, L), default=None
        Their components; None for nothing.
    found : object, default=None
        What :meth:`~sklearn_sparsepost.observations.Observation.best_again` has found.
    visits : int, default=0
        How many passes this is of, all in the memory of one process.
    """

    def __init__(self, index=None, found=None, visits=0):
        self.index = index
        self.found = found
        self.visits = visits

    def __getstate__(self):
        # What is found again as fast as it is sent stays here; where rows travel, it never pays.
        return {"index": self.index, "found": None, "visits": 0}

    def __sizeof__(self):
        more = 0 if self.found is None else self.found.nbytes
        return object.__sizeof__(self) + self.index.nbytes + more


def responsibilities(rows, globals_, start=None):
    """L-sparse responsibilities of prepared rows (Hughes & Sudderth 2016, Alg. 1).

    Parameters
    ----------
    rows : ndarray or csr_array of shape (n_rows, n_features)
        Prepared rows.
    globals_ : Globals
        From :meth:`Mixture.globals_of`.
    start : ndarray of shape (n_rows, L), default=None
        The components that were best before, a hint.

    Returns
    -------
    index : ndarray of shape (n_rows, L), int32
        The components kept, ascending.
    resp : ndarray of shape (n_rows, L), float64
        Their responsibilities; rows sum to 1.
    """
    index, weight = globals_.observation.best(
        rows, globals_.table, globals_.log_weights, globals_.level, start
    )
    return index, _normalised(weight)


def summarise(globals_, rows, index, resp, weight=None, n_components=None):
    """Statistics of prepared rows under responsibilities.

    Parameters
    ----------
    globals_ : Globals
        From :meth:`Mixture.globals_of`, of which the observation model is read.
    rows : ndarray or csr_array of shape (n_rows, n_features)
        Prepared rows.
    index, resp : ndarray of shape (n_rows, L)
        Components and responsibilities.
    weight : ndarray of shape (n_rows,), default=None
        Weights of the rows.
    n_components : int, default=None
        How many components the statistics are of, by default all.

    Returns
    -------
    stats : SuffStats
        The statistics.
    """
    observation = globals_.observation
    n_rows, level = index.shape
    K = len(globals_.log_weights) if n_components is None else n_components
    share = as_csr(index, resp if weight is None else resp * weight[:, None], K)
    weight = np.ones(n_rows) if weight is None else weight
    base = observation.log_base(rows)
    entropy = np.empty(n_rows)
    kernels.entropies(resp, entropy)
    count = np.bincount(share.indices, share.data, minlength=K)
    scalars = {
        "n_samples": float(n_rows),
        "total_weight": float(weight.sum()),
        "entropy": float(weight @ entropy),
        "base": 0.0 if base is None else float(weight @ base),
    }
    arrays = {"count": count, **observation.summarise(rows, share)}
    return SuffStats(arrays, globals_.axes, scalars)


def as_csr(index, resp, n_components):
    """Responsibilities of shape (n_rows, L) and their components, as a matrix."""
    # Of the indices' type, or they would be copied to its own.
    indptr = np.arange(0, index.size + 1, index.shape[1], dtype=index.dtype)
    return sp.csr_array((resp.ravel(), index.ravel(), indptr), shape=(len(index), n_components))


def _tracked(track, globals_, rows, index, resp, chunk):
    """What moves want to know of prepared rows."""
    n_rows, weight = len(index), chunk.weight
    share = as_csr(index, resp, len(globals_.log_weights))
    loss = entropy_losses(share, np.ones(n_rows) if weight is None else weight, track.pairs)
    removals = [_removal(target, globals_, rows, index, resp, weight) for target in track.targets]
    children = []
    if track.parents is not None:
        main = index[np.arange(n_rows), resp.argmax(axis=1)]
        for held in track.parents.units(main, chunk.numbers):
            part = None if weight is None else weight[held]
            stats = summarise(globals_, rows[held], index[held], resp[held], part)
            children.append(Users(chunk.numbers[held], stats, np.inf))
    return Tracked({"entropy": loss}, removals, children=children)


def _removal(target, globals_, rows, index, resp, weight):
    """What the statistics of prepared rows change by if a component may not be used.

    Rows that kept the component give it up for the best of the others.
    """
    held = np.flatnonzero((index == target).any(axis=1))
    rows, weight = rows[held], None if weight is None else weight[held]
    others = globals_.log_weights.copy()
    others[target] = 1e6 * LOG_ZERO  # below even what has probability 0
    level = min(globals_.level, len(others) - 1)
    # Few rows, and a table that was settled for other weights: compute all.
    best, value = Observation.best(globals_.observation, rows, globals_.table, others, level)
    touched = np.unique(np.concatenate([[target], best.ravel(), index[held].ravel()]))
    arrays = {"count": np.zeros(len(touched)), **globals_.observation.empty(len(touched))}
    change = SuffStats(arrays, globals_.axes, dict.fromkeys(SCALARS, 0.0))
    for which, share, factor in ((best, _normalised(value), 1), (index[held], resp[held], -1)):
        which = np.searchsorted(touched, which)
        change.add(summarise(globals_, rows, which, share, weight, len(touched)), factor)
    return Change(touched, change)


def _normalised(weight):
    """Responsibilities from log weights."""
    resp = np.empty(weight.shape)
    kernels.normalise(np.ascontiguousarray(weight), resp)
    return resp


def infer_rows(chunk, globals_, key=None):
    """L-sparse responsibilities of a chunk's rows, (index, resp)."""
    return responsibilities(globals_.observation.prepare(chunk.rows), globals_)


def row_likelihoods(chunk, globals_, key=None):
    """Log-likelihood of each of a chunk's rows under point estimates.

    Parameters
    ----------
    chunk : Chunk or DenseChunk
        The rows.
    globals_ : Globals
        `observation`, a `table` of point estimates, `log_weights`, and `n_rows`, how many rows to
        look at together.
    key : object
        Not used.

    Returns
    -------
    values : ndarray of shape (n_rows,), float64
        The log-likelihoods.
    """
    observation, step = globals_.observation, globals_.n_rows
    out = np.empty(chunk.n_rows)
    rows = observation.prepare(chunk.rows)
    for first in range(0, chunk.n_rows, step):
        block = slice(first, first + step)
        joint = observation.log_likelihood(rows[block], globals_.table).astype(np.float64)
        joint += globals_.log_weights
        largest = joint.max(axis=1)
        joint -= largest[:, None]
        out[block] = largest + np.log(np.exp(joint, out=joint).sum(axis=1))
    base = observation.log_base(rows)
    return out if base is None else out + base
