"""Mixtures: how components are chosen, and the L-sparse local step (paper 000, sections 2, 3)."""

from functools import partial

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln, psi, xlogy

from sklearn_sparsepost._learning.moves import Change, entropy_losses
from sklearn_sparsepost._run.chunks import single_blas
from sklearn_sparsepost._suffstats import SuffStats
from sklearn_sparsepost.observations import Observation

# Stands for the log of 0, since kernels meet no infinities.
LOG_ZERO = -1e30
SCALARS = ("n_samples", "total_weight", "entropy", "base")


def _log(value):
    """The logarithm, LOG_ZERO of 0."""
    return np.log(value, out=np.full_like(value, LOG_ZERO), where=value > 0)


class DirichletWeights:
    """Component weights pi ~ Dirichlet(prior, ..., prior), or point estimates.

    Modes are those of log pi, which exist for any prior and equal the posterior's means.

    Parameters
    ----------
    estimation : {"bayes", "map", "ml"}
        Posterior distributions, their modes, or maximum likelihood.
    prior : float
        Concentration of each component; not used by "ml".
    """

    def __init__(self, estimation, prior):
        self.estimation = estimation
        self.prior = 0.0 if estimation == "ml" else prior

    def estimate(self, count):
        """Posterior concentrations from expected numbers of observations."""
        return self.prior + np.maximum(count, 0)

    def weights(self, concentration):
        """Expected weights."""
        return concentration / concentration.sum()

    def log_weights(self, concentration):
        """E[log pi], or the log of the estimates."""
        if self.estimation == "bayes":
            return psi(concentration) - psi(concentration.sum())
        return _log(self.weights(concentration))

    def bound(self, count, concentration):
        """E[log p(z | pi)] + E[log p(pi) - log q(pi)] (paper 000, Eq. 22)."""
        log_weights = self.log_weights(concentration)
        value = np.where(count > 0, count * log_weights, 0).sum()
        if self.estimation == "ml":
            return float(value)
        K = len(count)
        value += gammaln(K * self.prior) - K * gammaln(self.prior) + self.prior * log_weights.sum()
        if self.estimation == "bayes":
            value -= gammaln(concentration.sum()) - gammaln(concentration).sum()
            value -= (concentration * log_weights).sum()
        return float(value)


class ProcessWeights:
    """Weights of a Dirichlet process cut after K sticks: v_k ~ Beta(1, prior).

    Parameters
    ----------
    estimation : {"bayes", "map", "ml"}
        Posterior distributions, their modes (of the sticks' logits), or maximum likelihood.
    prior : float
        Concentration of the process; not used by "ml".
    """

    def __init__(self, estimation, prior):
        self.estimation = estimation
        self.ones, self.prior = (0.0, 0.0) if estimation == "ml" else (1.0, prior)

    def estimate(self, count):
        """Beta parameters of the sticks, of shape (n_components, 2)."""
        count = np.maximum(count, 0)
        after = np.append(np.cumsum(count[:0:-1])[::-1], 0)
        return np.stack([self.ones + count, self.prior + after], axis=1)

    def weights(self, concentration):
        """Expected weights, what the last stick leaves being shared among all."""
        weights = np.exp(self._log_weights(concentration, point=True))
        return weights / weights.sum()

    def log_weights(self, concentration):
        """E[log pi], or the log of the estimates."""
        return self._log_weights(concentration, self.estimation != "bayes")

    def _log_sticks(self, concentration, point):
        """E[log v] and E[log(1 - v)], of shape (n_components, 2)."""
        total = concentration.sum(axis=1, keepdims=True)
        if not point:
            return psi(concentration) - psi(total)
        return _log(
            np.divide(concentration, total, out=np.zeros_like(concentration), where=total > 0)
        )

    def _log_weights(self, concentration, point):
        broken, left = self._log_sticks(concentration, point).T
        before = np.concatenate([[0.0], np.cumsum(left[:-1])])
        return np.maximum(broken + before, LOG_ZERO)

    def bound(self, count, concentration):
        """E[log p(z | v)] + E[log p(v) - log q(v)]."""
        log_weights = self.log_weights(concentration)
        value = np.where(count > 0, count * log_weights, 0).sum()
        if self.estimation == "ml":
            return float(value)
        prior = np.array([self.ones, self.prior])
        log_v = self._log_sticks(concentration, self.estimation != "bayes")
        value += len(count) * (gammaln(prior.sum()) - gammaln(prior).sum()) + (prior * log_v).sum()
        if self.estimation == "bayes":
            total = concentration.sum(axis=1)
            value -= (gammaln(total) - gammaln(concentration).sum(axis=1)).sum()
            value -= (concentration * log_v).sum()
        return float(value)


class MixtureModel:
    """An observation model and component weights, put together.

    Parameters
    ----------
    observation : Observation
        What observations look like inside a component.
    allocation : DirichletWeights or ProcessWeights
        How components are chosen.
    n_components : int
        Number of components, K.
    sparsity_level : int or None
        The most components an observation may keep, L; None for all.
    dtype : dtype
        Type of the data.
    n_slots : int, default=0
        How many merges may be tracked a pass: those of the attribute `pairs`, None or an array of
        shape (n_pairs, 2). The attribute `targets` lists components whose removal is tracked.
    """

    def __init__(self, observation, allocation, n_components, sparsity_level, dtype, n_slots=0):
        self.observation = observation
        self.allocation = allocation
        self.wanted_level = sparsity_level
        self.dtype = dtype
        self.n_slots = n_slots
        self.pairs = None
        self.targets = ()
        self._last = None
        self.resize(n_components)

    def __getstate__(self):
        return {**vars(self), "_last": None}

    def resize(self, n_components):
        """Have another number of components from now on."""
        self.n_components = n_components
        level = n_components if self.wanted_level is None else self.wanted_level
        self.sparsity_level = min(level, n_components)

    def empty_stats(self, n_components=None):
        """Statistics of no data."""
        K = self.n_components if n_components is None else n_components
        return self._stats(
            {"count": np.zeros(K), **self.observation.empty(K)},
            np.zeros(len(SCALARS)),
            np.zeros(self.n_slots),
        )

    def _stats(self, arrays, scalars, merge_loss):
        scalars = {name: float(value) for name, value in zip(SCALARS, scalars, strict=True)}
        if self.n_slots:
            scalars["merge_loss"] = merge_loss
        return SuffStats(arrays, dict.fromkeys(arrays, 0), scalars)

    def estimate(self, stats):
        """Estimates of the components and of their weights."""
        # The bound after a pass and the next pass want the same.
        if self._last is not None and self._last[0] is stats and self._last[1] == stats.version:
            return self._last[2]
        estimates = self.observation.estimate(stats)
        found = estimates, self.allocation.estimate(stats.value("count"))
        self._last = stats, stats.version, found
        return found

    def bind(self, stats, *, keep_local=False):
        """The local step as a pure function of (chunk, n_threads) under fixed globals.

        Parameters
        ----------
        stats : SuffStats
            What the globals follow from; read, never written.
        keep_local : bool, default=False
            Whether the function also returns what is to be kept of each chunk.

        Returns
        -------
        local_step : callable
            ``local_step(chunk, n_threads, start=None) -> (SuffStats, kept)``, picklable, where
            `kept` is None or a pair: components to start from, if that helps, and a list of
            :class:`Change`, one for each of `targets`.
        """
        return self.step_under(self.globals_of(stats), keep_local=keep_local)

    def step_under(self, globals_, *, keep_local=False):
        """The local step as :meth:`bind` gives it, under tables from :meth:`tables`."""
        return partial(_local_step, model=self, keep_local=keep_local, globals_=globals_)

    def globals_of(self, stats):
        """The table of log-likelihoods and E[log pi] that the local step reads."""
        with single_blas():
            estimates, concentration = self.estimate(stats)
            return self.tables(estimates, concentration)

    def tables(self, estimates, concentration):
        """The same from estimates."""
        table = self.observation.table(estimates, self.dtype)
        log_weights = self.allocation.log_weights(concentration)
        self.observation.settle(table, log_weights)
        return table, log_weights

    def global_bound(self, stats, at=None, n_threads=1):
        """The bound of all data whose statistics are `stats` (paper 000, Eq. 3 and 18 - 24).

        Parameters
        ----------
        stats : SuffStats
            Statistics of every observation's present responsibilities.
        at : SuffStats, default=None
            What the globals follow from, if not from `stats`.
        n_threads : int, default=1
            Not used.

        Returns
        -------
        bound : float
            In nats, exact for L-sparse responsibilities, with all constants.
        """
        with single_blas():
            estimates, concentration = self.estimate(stats if at is None else at)
            return (
                stats.factor * (stats["entropy"] + stats["base"])
                + self.allocation.bound(stats.value("count"), concentration)
                + self.observation.data_bound(stats, estimates)
                + self.observation.prior_bound(estimates)
            )

    def responsibilities(self, rows, globals_, start=None):
        """L-sparse responsibilities of prepared rows (paper 000, Alg. 1).

        Returns
        -------
        index : ndarray of shape (n_rows, L), int32
            The components kept, ascending.
        resp : ndarray of shape (n_rows, L), float64
            Their responsibilities; rows sum to 1.
        """
        table, log_weights = globals_
        index, weight = self.observation.best(rows, table, log_weights, self.sparsity_level, start)
        return index, _normalised(weight)

    def removal(self, target, rows, index, resp, weight, globals_):
        """What the statistics of prepared rows change by if a component may not be used.

        Parameters
        ----------
        target : int
            The component.
        rows, index, resp, weight
            As for :meth:`summarise`.
        globals_ : tuple
            From :meth:`globals_of`.

        Returns
        -------
        change : Change
            What to add: rows that kept the component give it up for the best of the others.
        """
        held = np.flatnonzero((index == target).any(axis=1))
        rows, weight = rows[held], None if weight is None else weight[held]
        table, log_weights = globals_
        others = log_weights.copy()
        others[target] = 1e6 * LOG_ZERO  # below even what has probability 0
        level = min(self.sparsity_level, self.n_components - 1)
        # Few rows, and a table that was settled for other weights: compute all.
        best, value = Observation.best(self.observation, rows, table, others, level)
        touched = np.unique(np.concatenate([[target], best.ravel(), index[held].ravel()]))
        change = self.empty_stats(len(touched))
        for which, share, factor in ((best, _normalised(value), 1), (index[held], resp[held], -1)):
            which = np.searchsorted(touched, which)
            change.add(self.summarise(rows, which, share, weight, len(touched)), factor)
        return Change(touched, change.arrays, change["entropy"])

    def fold_local(self, local, kept):
        """Note what is kept of a batch's next chunk, the changes of all in the first place."""
        index, changes = kept
        if local:
            for total, change in zip(local[0][1], changes, strict=True):
                total.add(change)
            changes = []
        local.append((index, changes))

    def summarise(self, rows, index, resp, weight=None, n_components=None):
        """Statistics of prepared rows under responsibilities.

        Parameters
        ----------
        rows : ndarray or csr_array of shape (n_rows, n_features)
            Prepared rows.
        index, resp : ndarray of shape (n_rows, L)
            Components and responsibilities.
        weight : ndarray of shape (n_rows,), default=None
            Weights of the rows.
        n_components : int, default=None
            How many components the statistics are of, by default the model's.

        Returns
        -------
        stats : SuffStats
            The statistics.
        """
        n_rows, level = index.shape
        shape = n_rows, self.n_components if n_components is None else n_components
        weight = np.ones(n_rows) if weight is None else weight
        base = self.observation.log_base(rows)
        entropy = -(weight @ xlogy(resp, resp).sum(axis=1))
        indptr = np.arange(0, n_rows * level + 1, level)
        share = sp.csr_array(
            ((resp * weight[:, None]).ravel(), index.ravel(), indptr),
            shape=shape,
        )
        count = np.bincount(share.indices, share.data, minlength=shape[1])
        arrays = {"count": count, **self.observation.summarise(rows, share)}
        base = 0.0 if base is None else weight @ base
        loss = np.zeros(self.n_slots)
        if self.pairs is not None and n_components is None:
            plain = sp.csr_array((resp.ravel(), index.ravel(), indptr), shape=share.shape)
            loss = entropy_losses(plain, weight, self.pairs, self.n_slots)
        return self._stats(arrays, (n_rows, weight.sum(), entropy, base), loss)


def _normalised(weight):
    """Responsibilities from log weights: rows of positive numbers that sum to 1."""
    resp = weight.astype(np.float64)
    resp -= resp.max(axis=1, keepdims=True)
    np.exp(resp, out=resp)
    resp /= resp.sum(axis=1, keepdims=True)
    return resp


def _local_step(chunk, n_threads=1, start=None, *, model, keep_local, globals_):
    """Responsibilities of the chunk's rows and their statistics; touches nothing it is given."""
    start = None if start is None else start[0]
    if start is not None and start.shape[1] != model.sparsity_level:
        start = None  # L has changed
    with single_blas():
        rows = model.observation.prepare(chunk.rows)
        index, resp = model.responsibilities(rows, globals_, start)
        stats = model.summarise(rows, index, resp, chunk.weight)
        changes = [
            model.removal(target, rows, index, resp, chunk.weight, globals_)
            for target in model.targets
        ]
    if not keep_local:
        return stats, None
    if not model.observation.keeps_candidates or model.sparsity_level == model.n_components:
        return stats, (None, changes)
    small = model.n_components <= np.iinfo(np.uint16).max
    return stats, (index.astype(np.uint16) if small else index, changes)


def infer_rows(chunk, n_threads=1, *, model, globals_):
    """L-sparse responsibilities of a chunk's rows, (index, resp)."""
    with single_blas():
        return model.responsibilities(model.observation.prepare(chunk.rows), globals_)


def row_likelihoods(chunk, n_threads=1, *, model, table, log_weights, step):
    """Log-likelihood of each of a chunk's rows under point estimates."""
    observation = model.observation
    out = np.empty(chunk.n_rows)
    with single_blas():
        rows = observation.prepare(chunk.rows)
        for first in range(0, chunk.n_rows, step):
            block = slice(first, first + step)
            joint = observation.log_likelihood(rows[block], table).astype(np.float64)
            joint += log_weights
            largest = joint.max(axis=1)
            joint -= largest[:, None]
            out[block] = largest + np.log(np.exp(joint, out=joint).sum(axis=1))
        base = observation.log_base(rows)
    return out if base is None else out + base
