"""What tests compute by hand.

Moves of components are made to tables of all responsibilities, whose sums are compared.
"""

import numpy as np
from scipy.stats import multivariate_t

from sklearn_sparsepost._learning.loops import batch_pass, memoized_pass
from sklearn_sparsepost._models.mixture import Mixture, responsibilities
from sklearn_sparsepost._run.dispatch import Corpus

PASSES = {"batch": batch_pass, "memoized": memoized_pass}
SCALARS = ("n_samples", "total_weight", "entropy", "base")


def upper_triangles(matrices):
    """What statistics hold of symmetric matrices, row after row."""
    row, column = np.triu_indices(matrices.shape[-1])
    return matrices[..., row, column]


class Noting(Mixture):
    """A mixture that notes what its local step finds of each row, and what moves ask it.

    Attributes
    ----------
    rows : list
        (numbers, index, resp, log weights of all components) of each chunk.
    merges : list
        (kept, absorbed) of each merge that was tried.
    trials : list
        (state, bound) of each bound that was computed.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.rows, self.merges, self.trials = [], [], []

    def globals_of(self, state, track=None):
        globals_ = super().globals_of(state, track)
        globals_.noted = self.rows
        return globals_

    @staticmethod
    def local_step(chunk, globals_, key=None):
        observation = globals_.observation
        rows = observation.prepare(chunk.rows)
        joint = observation.log_likelihood(rows, globals_.table) + globals_.log_weights
        found = responsibilities(rows, globals_, chunk.start)
        globals_.noted.append((chunk.numbers, *found, joint))
        return Mixture.local_step(chunk, globals_, key)

    def merge_learned(self, learned, kept, absorbed):
        self.merges.append((kept, absorbed))
        return super().merge_learned(learned, kept, absorbed)

    def bound(self, state, stats=None):
        found = super().bound(state, stats)
        self.trials.append((state, found))
        return found

    def forget(self):
        """Note from here on."""
        for noted in (self.rows, self.merges, self.trials):
            noted.clear()


def start_of(mixture, X, weight=None):
    """A noting model, a corpus and a state at the start of a mixture's fit."""
    mixture = mixture.set_params(max_iter=0, warm_start=True).fit(X, None, weight)
    state = mixture._fit_state
    level = mixture.sparsity_level
    keeps = mixture.learning_method != "online"
    K = state.stats.n_components
    model = Noting(*state.parts, K, sparsity_level=level, dtype=state.dtype, keeps_local=keeps)
    return model, Corpus(X, state.dtype, 1, weight=weight, threaded=False), state


def after_moves(state, n_before):
    """A state as the next pass wants it, if components have gone."""
    if state.stats.n_components != n_before:
        state.local = {}
        state.sum_anew()
    state.tracked = {}
    return state


class Table:
    """The responsibilities of all rows, as a pass of a noting model found them.

    Parameters
    ----------
    model : Noting
        The model, which has noted one pass.
    corpus : Corpus
        The data.
    """

    def __init__(self, model, corpus):
        self.model, self.corpus = model, corpus
        shape = corpus.n_samples, model.n_components
        self.resp, self.joint = np.zeros(shape), np.zeros(shape)
        self.held = np.zeros(shape, dtype=bool)
        for numbers, index, resp, joint in model.rows:
            index = index.astype(np.intp)
            assert not self.held[numbers].any()
            self.resp[numbers[:, None], index] = resp
            self.held[numbers[:, None], index] = True
            self.joint[numbers] = joint
        assert self.held.any(axis=1).all()

    def merge(self, kept, absorbed):
        """Add a component to another."""
        self.resp[:, kept] += self.resp[:, absorbed]
        self.resp = np.delete(self.resp, absorbed, axis=1)
        self.held = self.joint = None  # of what was

    def delete(self, target):
        """Have the rows that kept a component choose among the others."""
        joint = self.joint.copy()
        joint[:, target] = -np.inf
        level = min(self.model.level, self.model.n_components - 1)
        for i in np.flatnonzero(self.held[:, target]):
            best = np.argsort(-joint[i], kind="stable")[:level]
            resp = np.exp(joint[i, best] - joint[i, best].max())
            self.resp[i] = 0
            self.resp[i, best] = resp / resp.sum()
        assert not self.resp[:, target].any()
        self.resp = np.delete(self.resp, target, axis=1)
        self.held = self.joint = None

    def stats(self, runs=None):
        """Statistics of the responsibilities, those of all components, of all rows or of runs."""
        K = self.resp.shape[1]
        chunk = self.corpus.chunk([(0, self.corpus.n_samples)] if runs is None else runs)
        resp = self.resp[chunk.numbers]
        index = np.broadcast_to(np.arange(K, dtype=np.int32), resp.shape)
        model = self.model.resized(K)
        return model.empty_stats().add(model.stats_of(chunk.rows, index, resp, chunk.weight))

    def check(self, state):
        """The statistics of a state, and what it remembers of each batch, are those of the rows."""
        assert_same(state.stats, self.stats())
        K = self.resp.shape[1]
        if state.memo is None or state.memo[0].n_components != K:
            return  # merges move the memory once, when all have been made
        total = self.model.resized(self.resp.shape[1]).empty_stats()
        for runs, seen in zip(state.batches, state.memo, strict=True):
            total.add(seen)
            dense = self.model.resized(self.resp.shape[1]).empty_stats().add(seen)
            assert_same(dense, self.stats(runs))
        assert_same(total, state.stats)


def assert_same(stats, wanted):
    """Statistics of the same data, but for rounding."""
    assert set(stats.arrays) == set(wanted.arrays) and set(stats.scalars) == set(SCALARS)
    for name in (*stats.arrays, *SCALARS):
        np.testing.assert_allclose(stats.value(name), wanted.value(name), rtol=1e-9, atol=1e-8)


def student_densities(model, X):
    """Densities of rows in a model's Gaussians of full or tied covariance, given its data."""
    K, D = model.means_.shape
    freedom = np.broadcast_to(model.degrees_of_freedom_, K) + 1 - D
    covariances = np.broadcast_to(model.covariances_, (K, D, D))
    spread = (freedom + D - 1) / freedom * (1 + 1 / model.mean_precision_)
    found = [
        multivariate_t(mean, width * covariance, n).pdf(X)
        for mean, width, covariance, n in zip(
            model.means_, spread, covariances, freedom, strict=True
        )
    ]
    return np.stack(found, axis=1)
