"""Births: exact bounds from scratch, what is remembered, and the number of components found."""

import numpy as np
import pytest
import scipy.sparse as sp
from by_hand import PASSES, Table, after_moves, start_of
from test_hdp import Noting, bound_by_hand, small_problem

from sklearn_sparsepost import SparseHDP, SparseMixture
from sklearn_sparsepost._learning import births
from sklearn_sparsepost._learning.births import choose_parents, give_birth
from sklearn_sparsepost._learning.state import FitState
from sklearn_sparsepost._learning.topic_moves import Attempts
from sklearn_sparsepost._models.tracking import Track
from sklearn_sparsepost._run.streams import unit_uniforms
from sklearn_sparsepost._starts.clusters import clusters_of
from sklearn_sparsepost.datasets import make_bars
from sklearn_sparsepost.models import batch_pass, memoized_pass

NO_PAIRS = np.empty((0, 2), dtype=np.intp)
BIRTHS = ("birth", "merge", "delete")


def blobs(n_blobs, n_features, seed=0, size=60):
    """Far clouds of different sizes and shapes."""
    rng = np.random.default_rng(seed)
    centres = np.zeros((0, n_features))
    while len(centres) < n_blobs:
        centre = rng.normal(scale=6 * n_blobs ** (1 / n_features), size=(1, n_features))
        if (np.linalg.norm(centres - centre, axis=1) > 9).all():
            centres = np.concatenate([centres, centre])
    parts = []
    for centre in centres:
        axes = np.linalg.qr(rng.normal(size=(n_features, n_features)))[0]
        rows = rng.normal(size=(size * rng.integers(1, 4), n_features))
        parts.append(centre + rows * rng.uniform(0.4, 1.4, n_features) @ axes)
    return rng.permutation(np.concatenate(parts))


def process(n_components, **options):
    options = {"moves": BIRTHS, "random_state": 0, "covariance_prior": None, **options}
    return SparseMixture(
        n_components, weight_concentration_prior_type="dirichlet_process", **options
    )


@pytest.fixture(scope="module")
def bars():
    return make_bars(400, doc_topic_prior=0.1, random_state=0)[0]


@pytest.mark.parametrize("n_blobs, n_features", [(3, 2), (10, 8)])
@pytest.mark.parametrize("times", [0, 1, 4])
@pytest.mark.parametrize("method", ["batch", "memoized"])
def test_finds_the_blobs_wherever_it_begins(n_blobs, n_features, times, method):
    X = blobs(n_blobs, n_features)
    mixture = process(
        max(1, times * n_blobs), covariance_prior=np.eye(n_features), learning_method=method
    ).fit(X)
    assert mixture.n_components_ == n_blobs
    assert np.diff(mixture.bound_history_).min() > -1e-9 * abs(mixture.lower_bound_)
    tried = mixture.moves_history_
    assert {"birth"} <= set(tried["move"].tolist()) <= set(BIRTHS)
    assert mixture.converged_


@pytest.mark.parametrize("observation", ["multinomial", "bernoulli"])
def test_births_of_counts_and_bits(observation):
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(30, 0.1), 4)[rng.integers(0, 4, 400)]
    X = rng.poisson(40 * topics).astype(float)
    X = sp.csr_array(X) if observation == "multinomial" else (X > 0).astype(float)
    mixture = process(1, observation=observation).fit(X)
    assert mixture.n_components_ == 4


def test_finds_the_bars_from_one_topic(bars):
    hdp = SparseHDP(1, moves=BIRTHS, max_iter=30, random_state=0).fit(bars)
    assert hdp.n_components_ == 10 and hdp.n_iter_ < 30


@pytest.mark.parametrize("method", ["batch", "memoized"])
@pytest.mark.parametrize("level", [1, 3, None])
@pytest.mark.parametrize("most", [120, 10_000])
def test_births_of_a_mixture_by_hand(method, level, most, monkeypatch):
    """Bound and statistics after a birth are those of all rows' responsibilities."""
    monkeypatch.setattr(births, "MOST_ROWS", most)
    X = blobs(8, 6, seed=1)
    weight = np.random.default_rng(2).uniform(0.5, 2, len(X))
    mixture = process(2, sparsity_level=level, learning_method=method, covariance_prior=np.eye(6))
    model, corpus, state = start_of(mixture, X, weight)
    n_births = 0
    for _ in range(3):
        state.attempts = Attempts(state.stats.n_components)
        parents = choose_parents(model, state, np.inf, 1 << 29)
        parents.components, parents.rates = parents.components[:1], parents.rates[:1]
        assert (parents.rates[0] < 1) == (most == 120)
        model.forget()
        state = PASSES[method](model, corpus, state, track=Track(NO_PAIRS, parents=parents))
        table, bound, K = Table(model, corpus), state.history[-1], state.stats.n_components
        model.forget()
        after, found = give_birth(model, corpus, state, parents, bound, np.inf, clusters_of)
        n_more = after.stats.n_components - K
        assert after.attempts.log[-1][1:] == ("birth", 1, int(n_more > 0), K + n_more)
        if not n_more:
            assert found == bound and after.attempts.failed
            break
        n_births += 1
        table.resp = np.pad(table.resp, [(0, 0), (0, n_more)])
        table.held = np.pad(table.held, [(0, 0), (0, n_more)])
        for numbers, index, resp, joint in model.rows:  # what was noted last stays
            if joint.shape[1] == K + n_more:
                table.resp[numbers] = 0
                table.resp[numbers[:, None], index] = resp
        table.check(after)
        model = model.resized(K + n_more)
        by_hand = model.bound(FitState(table.stats()))
        np.testing.assert_allclose(found, by_hand, rtol=1e-10)
        assert by_hand > bound
        state = after_moves(after, K)
    assert n_births > 0


@pytest.mark.parametrize("level", [2, None])
@pytest.mark.parametrize("method", ["batch", "memoized"])
def test_births_of_topics_by_hand(level, method, monkeypatch):
    """Statistics after a birth are those of all documents; the bound is theirs, or hardly less."""
    monkeypatch.setattr(births, "GROUP_CHILDREN", 3)
    options = {"n_batches": 3} if method == "memoized" else {}
    one_pass = memoized_pass if method == "memoized" else batch_pass
    n_births = 0
    for seed in range(4):
        model, corpus, state = small_problem(level, seed)
        one = np.zeros(state.stats.n_components, dtype=np.intp)
        one[-1] = 1  # two topics to begin with
        state.stats = state.stats.fold(one)
        model = model.resized(2)
        weights = np.full(2, 1 / 3)
        state.learned = model.documents.added(
            {"order": np.empty(0, np.intp), "rho": np.empty(0), "omega": np.empty(0)}, weights
        )
        for _ in range(3):
            K = state.stats.n_components
            model, state.attempts = model.resized(K), Attempts(K)
            parents = choose_parents(model, state, np.inf, 1 << 29)
            parents.components, parents.rates = parents.components[:1], [0.8]
            Noting.noted.clear()
            track = Track(NO_PAIRS, overlap=True, parents=parents)
            state = one_pass(model, corpus, state, track=track, **options)
            parts, bound = dict(Noting.noted), state.history[-1]
            Noting.noted.clear()
            after, found = give_birth(model, corpus, state, parents, bound, np.inf, clusters_of)
            n_more = after.stats.n_components - K
            if n_more:
                n_births += 1
                assert 0 < len(Noting.noted) < 60
                parts = {
                    d: Noting.noted.get(d, (np.pad(share, [(0, 0), (0, n_more)]), *rest))
                    for d, (share, *rest) in parts.items()
                }
                all_parts = [parts[d] for d in range(60)]
                want, table = bound_by_hand(model, after.learned, all_parts)
                assert bound < found <= want + 1e-9 * abs(want)
                np.testing.assert_allclose(found, want, rtol=1e-3)
                stats = [after.stats]
                if method == "memoized":
                    stats.append(after.sum_of_memory(model.empty_stats(K + n_more)))
                    for name in ("entropy", "weights", "n_samples", "prior_gain"):
                        np.testing.assert_allclose(stats[1][name], stats[0][name], rtol=1e-8)
                for held in stats:
                    np.testing.assert_allclose(held["feature_counts"], table, atol=1e-7)
            state = after
            state.sum_anew()
            model = model.resized(K + n_more)
            state.note(model, [state.stats])
            model.global_step(state)
    assert n_births > 0


@pytest.mark.parametrize("method", ["batch", "memoized"])
def test_the_bound_of_topics_rises_by_births(bars, method):
    hdp = SparseHDP(
        2,
        moves=BIRTHS,
        estimation="bayes",
        learning_method=method,
        mean_change_tol=1e-4,
        max_iter=24,
        tol=0,
        random_state=0,
    ).fit(bars)
    assert 10 <= hdp.n_components_ <= 12
    born = hdp.moves_history_[hdp.moves_history_["move"] == "birth"]
    rises = np.diff(hdp.bound_history_)
    assert (rises[born["n_iter"][born["accepted"] > 0] - 2] > 0).all()


def test_there_are_no_more_than_max_components(bars):
    assert process(1, max_components=4).fit(blobs(10, 8)).n_components_ == 4
    hdp = SparseHDP(2, moves=BIRTHS, max_components=5, max_iter=8, random_state=0).fit(bars)
    assert hdp.moves_history_["n_components"].max() == 5
    for estimator in (process(9), SparseHDP(9, moves=BIRTHS)):
        with pytest.raises(ValueError, match="max_components=8 must be at least n_components=9"):
            estimator.set_params(max_components=8).fit(bars)
        with pytest.raises(ValueError, match="'max_components'"):
            estimator.set_params(max_components=0).fit(bars)


def test_names_of_moves():
    X = blobs(3, 2)
    with pytest.raises(ValueError, match="moves must be .* got 'split'"):
        process(3, moves=["split"]).fit(X)
    only = process(1, moves=["birth"]).fit(X)
    assert set(only.moves_history_["move"].tolist()) == {"birth"} and only.n_components_ >= 3
    by_name, by_default = (process(9, moves=moves).fit(X) for moves in (["delete", "merge"], True))
    assert by_name.moves_history_.tolist() == by_default.moves_history_.tolist()
    assert len(process(9, moves=False).fit(X).moves_history_) == 0


def test_what_failed_is_not_tried_again():
    X = np.random.default_rng(0).normal(size=(500, 2))
    mixture = process(1, tol=0, max_iter=9).fit(X)
    assert mixture.moves_history_.tolist() == [(2, "birth", 1, 0, 1)]
    known = Attempts(2)
    known.fail([0], np.array([100.0, 50.0]), "birth")
    assert known.is_known([0], np.array([103.0, 50.0]), "birth")
    assert not known.is_known([0], np.array([120.0, 50.0]), "birth")  # it has changed
    assert not known.is_known([0], np.array([100.0, 50.0]))  # a delete may work
    known.grow(2)
    assert known.names.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("make", [process, lambda K, **o: SparseHDP(K, moves=BIRTHS, **o)])
def test_going_on_is_the_same_as_not_stopping(make, bars):
    X = blobs(6, 3) if make is process else bars
    options = {"tol": 0, "n_batches": 3, "random_state": 0}
    whole = make(1, max_iter=8, **options).fit(X)
    parts = make(1, max_iter=3, warm_start=True, **options).fit(X)
    assert len(parts.moves_history_)
    parts.set_params(max_iter=5).fit(X)
    assert parts.bound_history_.tobytes() == whole.bound_history_.tobytes()
    assert parts.moves_history_.tolist() == whole.moves_history_.tolist()


def test_clusters_may_be_as_many_as_rows(bars):
    X = np.repeat(np.eye(3), 4, axis=0)
    assert process(1).fit(X).n_components_ >= 1
    assert SparseHDP(1, moves=BIRTHS, random_state=0).fit(bars[:6]).n_components_ >= 1


def test_numbers_of_units_are_drawn_evenly_and_alone():
    drawn = unit_uniforms(3, np.arange(20_000))
    assert (drawn >= 0).all() and (drawn < 1).all()
    counts = np.histogram(drawn, 20, (0, 1))[0]
    assert ((counts - 1000) ** 2 / 1000).sum() < 45
    assert abs(np.corrcoef(drawn[1:], drawn[:-1])[0, 1]) < 0.03
    np.testing.assert_array_equal(unit_uniforms(3, np.array([17, 5])), drawn[[17, 5]])
    assert abs(np.corrcoef(unit_uniforms(4, np.arange(20_000)), drawn)[0, 1]) < 0.03
