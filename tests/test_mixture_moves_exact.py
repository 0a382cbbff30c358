"""Every accepted merge and delete, of random mixtures, against responsibilities moved by hand."""

import numpy as np
import pytest
import scipy.sparse as sp

from sklearn_sparsepost import SparseMixture
from sklearn_sparsepost import _mixture as estimator
from sklearn_sparsepost._learning import moves
from sklearn_sparsepost._learning.loops import FitState
from sklearn_sparsepost._models.mixture import MixtureModel
from sklearn_sparsepost._run import chunks as parallel
from sklearn_sparsepost._suffstats import SuffStats

N_MIXTURES, N_PARTS = 300, 6


class Watched(FitState):
    """A state that shows to `seen` every statistics that it is given."""

    seen = None

    @property
    def stats(self):
        return FitState.stats.fget(self)

    @stats.setter
    def stats(self, stats):
        self.seen(stats)
        FitState.stats.fset(self, stats)


class Watch:
    """Responsibilities of a pass, to which each accepted move is made by hand."""

    def __init__(self, monkeypatch):
        self.accepted = {"merge": 0, "delete": 0}
        self.globals, self.parts, self.merges = None, [], True
        self.plain = {
            name: getattr(MixtureModel, name)
            for name in ("responsibilities", "summarise", "global_bound")
        }
        for name in self.plain:
            monkeypatch.setattr(MixtureModel, name, self.noting(name))
        for cls, name, what in ((SuffStats, "merge", "merge"), (moves.Change, "apply", "delete")):
            monkeypatch.setattr(cls, name, self.tagging(getattr(cls, name), what))
        for name in ("merge_components", "delete_component"):
            monkeypatch.setattr(estimator, name, self.checking(getattr(moves, name)))
        monkeypatch.setattr(estimator, "choose_pairs", self.beginning(moves.choose_pairs))

    def noting(self, name):
        plain, note = self.plain[name], getattr(self, f"note_{name}")

        def method(model, *args, **kwargs):
            found = plain(model, *args, **kwargs)
            note(model, found, *args, **kwargs)
            return found

        return method

    def note_responsibilities(self, model, found, rows, globals_, start=None):
        self.globals = globals_

    def note_summarise(self, model, found, rows, index, resp, weight=None, n_components=None):
        if model.pairs is not None and n_components is None:  # a pass
            table = np.zeros((len(index), model.n_components))
            np.put_along_axis(table, index.astype(np.intp), resp, axis=1)
            held = np.zeros(table.shape, dtype=bool)
            np.put_along_axis(held, index.astype(np.intp), True, axis=1)
            self.parts.append((rows, table, held, weight, self.globals))

    def note_global_bound(self, model, found, stats, *args, **kwargs):
        stats.claimed = found

    def tagging(self, plain, what):
        def method(*args):
            found = plain(*args)
            found.how = what, args[1:] if what == "merge" else args[2:]
            return found

        return method

    def beginning(self, plain):
        def function(*args):
            self.parts = []  # those of the last pass
            return plain(*args)

        return function

    def checking(self, plain):
        def function(model, state, bound):
            self.model, self.bound = model, bound
            if plain is moves.merge_components and not self.merges:
                return bound  # for what deletes may follow
            state.__class__, state.seen = Watched, self.see
            try:
                found = plain(model, state, bound)
            finally:
                state.__class__ = FitState
                del state.seen
            assert found == self.bound
            if state.memo is not None:
                self.check_batches(state)
            return found

        return function

    def see(self, stats):
        what, args = stats.how
        self.accepted[what] += 1
        self.parts = [
            (*part[:1], *getattr(self, what)(part, *args), *part[3:]) for part in self.parts
        ]
        by_hand = self.by_hand(self.parts)
        assert_same(stats, by_hand)
        by_hand = self.plain["global_bound"](self.model, by_hand)
        np.testing.assert_allclose(stats.claimed, by_hand, rtol=1e-9)
        assert stats.claimed >= self.bound - 1e-12 * abs(self.bound)
        self.bound = stats.claimed

    def merge(self, part, kept, absorbed):
        _, table, held, *_ = part
        table, held = table.copy(), held.copy()
        table[:, kept] += table[:, absorbed]
        held[:, kept] |= held[:, absorbed]
        return np.delete(table, absorbed, axis=1), np.delete(held, absorbed, axis=1)

    def delete(self, part, target):
        rows, table, held, _, (tables, log_weights) = part
        table, held = table.copy(), held.copy()
        joint = self.model.observation.log_likelihood(rows, tables) + log_weights
        joint[:, target] = -np.inf
        level = min(self.model.sparsity_level, len(log_weights) - 1)
        for i in np.flatnonzero(held[:, target]):
            best = np.argsort(-joint[i], kind="stable")[:level]
            resp = np.exp(joint[i, best] - joint[i, best].max())
            table[i], held[i] = 0, False
            table[i, best], held[i, best] = resp / resp.sum(), True
        return np.delete(table, target, axis=1), np.delete(held, target, axis=1)

    def by_hand(self, parts):
        """Statistics of the responsibilities, all components at a time."""
        rows, table, weight = ([part[at] for part in parts] for at in (0, 1, 3))
        rows = sp.vstack(rows, format="csr") if sp.issparse(rows[0]) else np.concatenate(rows)
        table, weight = np.concatenate(table), np.concatenate(weight)
        index = np.broadcast_to(np.arange(table.shape[1], dtype=np.int32), table.shape)
        stats = self.plain["summarise"](self.model, rows, index, table, weight, table.shape[1])
        return self.model.empty_stats(table.shape[1]).add(stats)

    def check_batches(self, state):
        """The memory of each batch is of its own rows, and that of all of the whole."""
        total = self.model.empty_stats()
        for runs, memo in zip(state.batches, state.memo, strict=True):
            memo = self.model.empty_stats().add(memo)
            total.add(memo)
            wanted = np.concatenate([self.weight[start:stop] for start, stop in runs])
            parts = []
            for rows, table, held, weight, _ in self.parts:
                own = np.isin(weight, wanted)  # all rows' weights differ
                if own.any():
                    parts.append((rows[own], table[own], held[own], weight[own]))
            assert_same(memo, self.by_hand(parts))
        assert_same(total, state.stats)


def assert_same(stats, wanted):
    for name in stats.arrays:
        np.testing.assert_allclose(stats.value(name), wanted.value(name), rtol=1e-9, atol=1e-8)
    for name in ("n_samples", "total_weight", "entropy", "base"):
        np.testing.assert_allclose(stats.value(name), wanted.value(name), rtol=1e-9, atol=1e-8)


def random_case(seed):
    """Data and a mixture, of any kind that has moves."""
    rng = np.random.default_rng(seed)
    n, D = int(rng.integers(15, 100)), int(rng.integers(1, 5))
    centres = rng.normal(scale=rng.choice([1, 4, 12]), size=(int(rng.integers(1, 5)), D))
    X = rng.normal(size=(n, D)) + centres[rng.integers(len(centres), size=n)]
    observation = str(rng.choice(["gaussian", "gaussian", "multinomial", "bernoulli"]))
    if observation == "bernoulli":
        X = (X > 0).astype(float)
    elif observation == "multinomial":
        X = sp.csr_matrix(rng.poisson(np.exp(np.minimum(X, 3))).astype(float))
    weight = [
        1 + 1e-9 * np.arange(n),
        rng.uniform(0.5, 3, n),
        rng.uniform(size=n) * np.where(rng.random(n) < 0.5, 1, 1e-9),
    ][rng.integers(3)]
    mixture = SparseMixture(
        int(rng.integers(2, 26)),
        sparsity_level=[1, 2, 4, None][rng.integers(4)],
        observation=observation,
        covariance_type=str(rng.choice(["full", "diag", "spherical"])),
        assume_centered=bool(rng.random() < 0.2),
        estimation=str(rng.choice(["bayes", "map"])),
        weight_concentration_prior_type="dirichlet_process",
        weight_concentration_prior=[None, 1e-3, 5.0][rng.integers(3)],
        learning_method=str(rng.choice(["batch", "memoized"])),
        init_params=str(rng.choice(["k-means++", "random"])),
        n_batches=int(rng.integers(1, 6)),
        max_iter=3,
        tol=0,
        random_state=seed,
        n_jobs=1,  # parts are noted in order
    )
    return X, weight, mixture


@pytest.mark.filterwarnings("ignore:n_components=|some features are constant")
@pytest.mark.parametrize("part", range(N_PARTS))
def test_every_accepted_move(part, monkeypatch):
    monkeypatch.setattr(parallel, "DENSE_CHUNK_ROWS", 64)
    monkeypatch.setattr(parallel, "DENSE_CHUNK_SIZE", 64 * 64)
    watch = Watch(monkeypatch)
    for seed in range(part, N_MIXTURES, N_PARTS):
        X, watch.weight, mixture = random_case(seed)
        watch.merges = seed // N_PARTS % 2 == 0
        mixture.fit(X, None, watch.weight)
    assert min(watch.accepted.values()) > 10
