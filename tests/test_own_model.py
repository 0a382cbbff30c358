"""A model of one's own, by public names alone, through every loop, merges and warm starts."""

import pickle

import numpy as np
import pytest
from joblib import parallel_config

from sklearn_sparsepost.models import (
    Admixture,
    Corpus,
    DirichletDocuments,
    batch_pass,
    begin,
    memoized_pass,
    online_pass,
    pass_with_moves,
)
from sklearn_sparsepost.observations import Observation


class Waiting(Observation):
    """Times with exponential distributions, of rates with a Gamma(1, 1) prior: its modes."""

    def empty(self, n_components):
        return {"time": np.zeros(n_components)}

    def summarise(self, rows, resp):
        return {"time": resp.T @ rows[:, 0].astype(float)}

    def estimate(self, stats):
        return {"rates": (1 + stats.value("count")) / (1 + stats.value("time"))}

    def table(self, estimates, dtype, *, point=False):
        return estimates["rates"].astype(dtype)

    def log_likelihood(self, rows, table):
        return np.log(table) - rows * table

    def data_bound(self, stats, estimates):
        rates = estimates["rates"]
        return stats.value("count") @ np.log(rates) - stats.value("time") @ rates

    def prior_bound(self, estimates):
        return (np.log(estimates["rates"]) - estimates["rates"]).sum()


class OneMass(DirichletDocuments):
    """Topics have given shares of a mass that is learned."""

    def first_learned(self):
        return {"mass": self.alpha.sum(keepdims=True), "share": self.alpha / self.alpha.sum()}

    def alpha_of(self, learned):
        return learned["mass"] * learned["share"]

    def improved(self, learned, report, rate=1.0):
        step = learned["share"] @ report["prior_gain"] / report["length_gain"]
        return {**learned, "mass": learned["mass"] * step**rate}

    def merged(self, learned, kept, absorbed):
        share = learned["share"].copy()
        share[kept] += share[absorbed]
        return {**learned, "share": np.delete(share, absorbed)}


RATES = np.array([1e-2, 1.0, 1e2])
K = 6


@pytest.fixture(scope="module")
def data():
    """Groups of waiting times, each group mostly of one or two of three kinds."""
    rng = np.random.default_rng(0)
    groups = np.concatenate([[0], np.cumsum(rng.integers(20, 60, size=80))])
    kind = np.concatenate(
        [rng.choice(3, p=rng.dirichlet([0.2, 0.2, 0.2]), size=n_rows) for n_rows in np.diff(groups)]
    )
    return rng.exponential(1 / RATES[kind])[:, None], groups


def own_model(**options):
    documents = OneMass(
        np.full(K, 0.5 / K), sparsity_level=3, tol=1e-6, restarts=0, learn=True, **options
    )
    return Admixture(Waiting("map"), documents, K, keeps_local=True)


def start(model, X, groups, **options):
    corpus = Corpus(X, np.float64, groups=groups, **options)
    quantile = np.searchsorted(np.quantile(X, np.arange(1, K) / K), X[:, 0])
    return corpus, begin(model, corpus, np.eye(K)[quantile])


PASSES = {
    "batch": (batch_pass, {}),
    "memoized": (memoized_pass, {"n_batches": 4}),
    "online": (online_pass, {"batch_size": 20, "offset": 4.0}),
}


@pytest.mark.parametrize("method", PASSES)
def test_own_model_through_every_loop(data, method):
    one_pass, options = PASSES[method]
    model = own_model()
    corpus, state = start(model, *data)
    for _ in range(12):
        state = one_pass(model, corpus, state, **options)
    rises = np.diff(state.history)
    if method == "online":
        assert state.history[-1] > state.history[0]
    else:
        assert rises.min() > -1e-9 * abs(state.history[-1])
    rates = model.observation.estimate(state.stats)["rates"]
    np.testing.assert_allclose(np.log10([rates.min(), rates.max()]), [-2, 2], atol=0.3)
    assert 0 < state.learned["mass"] != 0.5
    # Of the steps before the first one online learning has forgotten nearly all.
    n_rows = state.stats.value("count").sum()
    np.testing.assert_allclose(n_rows, len(data[0]), rtol=1e-2 if method == "online" else 1e-6)


@pytest.mark.parametrize("method", ["batch", "memoized"])
def test_merges_of_own_model(data, method):
    one_pass, options = PASSES[method]
    model = own_model()
    corpus, state = start(model, *data)
    for _ in range(15):
        state = pass_with_moves(one_pass, model, corpus, state, **options)
    assert state.stats.n_components == 3
    assert np.diff(state.history).min() > -1e-6 * abs(state.history[-1])
    rates = np.sort(model.observation.estimate(state.stats)["rates"])
    np.testing.assert_allclose(rates, RATES, rtol=0.2)
    np.testing.assert_allclose(state.learned["share"].sum(), 1)


@pytest.mark.parametrize("method", PASSES)
def test_own_model_goes_on_where_it_stood(data, method):
    one_pass, options = PASSES[method]
    model = own_model()
    corpus, whole = start(model, *data)
    for n_passes in range(4):
        if n_passes == 2:
            parts = pickle.loads(pickle.dumps(whole))
        whole = one_pass(model, corpus, whole, **options)
    parts = parts.own(options.get("n_batches"), same_data=True)
    for _ in range(2):
        parts = one_pass(model, corpus, parts, **options)
    assert parts.history == whole.history
    assert parts.stats["time"].tobytes() == whole.stats["time"].tobytes()


def test_own_model_on_any_number_of_workers(data):
    found = []
    for backend, n_jobs in (("threading", 1), ("threading", 3), ("loky", 2)):
        model = own_model()
        corpus, state = start(model, *data, threaded=False)
        with parallel_config(backend=backend, n_jobs=n_jobs):
            for _ in range(2):
                state = memoized_pass(model, corpus, state, n_batches=3)
        found.append(state)
    for other in found[1:]:
        assert other.history == found[0].history
        assert other.stats["time"].tobytes() == found[0].stats["time"].tobytes()


def test_dense_data_without_groups_are_an_error(data):
    model = own_model()
    with pytest.raises(ValueError, match="give groups"):
        begin(model, Corpus(data[0], np.float64), np.ones((len(data[0]), K)))
    with pytest.raises(ValueError, match="resp has shape"):
        begin(model, Corpus(data[0], np.float64, groups=data[1]), np.ones((3, K)))
