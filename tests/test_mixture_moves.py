"""Merges: exact scores, rising bounds, and the number of components found."""

import weakref

import numpy as np
import pytest
from by_hand import PASSES, Table, after_moves, assert_same, start_of, upper_triangles

from sklearn_sparsepost import SparseMixture
from sklearn_sparsepost._learning.moves import (
    N_TARGETS,
    choose_pairs,
    choose_targets,
    delete_component,
    merge_components,
    pass_with_moves,
)
from sklearn_sparsepost._learning.state import FitState
from sklearn_sparsepost._models.mixture import Mixture
from sklearn_sparsepost._models.tracking import Change, Track
from sklearn_sparsepost._run import chunks
from sklearn_sparsepost.datasets import make_lda_corpus

NO_PAIRS = np.empty((0, 2), dtype=np.intp)


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(chunks, "DENSE_CHUNK_ROWS", 64)
    monkeypatch.setattr(chunks, "DENSE_CHUNK_SIZE", 64 * 64)


@pytest.fixture(scope="module")
def three():
    rng = np.random.default_rng(5)
    X = np.concatenate([rng.normal(size=(200, 2)) + shift for shift in (0, 12, 24)])
    return X[rng.permutation(600)]


def process(n_components, **options):
    options = {"max_iter": 100, "random_state": 0, **options}
    return SparseMixture(
        n_components, weight_concentration_prior_type="dirichlet_process", **options
    )


@pytest.mark.parametrize("method", ["batch", "memoized"])
@pytest.mark.parametrize("level", [1, 4, None])
@pytest.mark.parametrize("covariance_type", ["full", "diag", "spherical"])
def test_the_number_of_components_is_found(three, method, level, covariance_type):
    mixture = process(
        15,
        learning_method=method,
        sparsity_level=level,
        covariance_type=covariance_type,
        max_iter=30,
        tol=0,
    ).fit(three)
    assert mixture.n_components_ == len(mixture.weights_) == 3
    assert mixture.predict_proba(three).shape == (600, 3)
    assert np.diff(mixture.bound_history_).min() > -1e-9 * abs(mixture.lower_bound_)
    np.testing.assert_allclose(np.sort(mixture.means_[:, 0]), [0, 12, 24], atol=0.5)


def test_merges_raise_the_bound_above_what_is_reached_without(three):
    with_moves, without = process(15).fit(three), process(15, moves=False).fit(three)
    assert with_moves.lower_bound_ > without.lower_bound_


def test_a_process_without_moves_keeps_its_components(three):
    mixture = process(10, moves=False).fit(three)
    assert len(mixture.weights_) == 10
    assert isinstance(mixture.weight_concentration_, tuple)
    np.testing.assert_allclose(mixture.weights_.sum(), 1)


def test_components_in_use_after_online_learning(three):
    options = {"learning_method": "online", "learning_offset": 1, "batch_size": 20}
    options["init_params"] = "k-means++"
    mixture = process(20, max_iter=30, tol=0, **options).fit(three)
    held = np.bincount(mixture.predict(three), minlength=20) > 0
    assert mixture.n_components_ == held.sum() < 20
    assert mixture.weights_[held].sum() > 0.98
    # Weights of samples have no part in it.
    weight = np.full(600, 7.0)
    mixture.set_params(total_samples=600).partial_fit(three, sample_weight=weight)
    assert mixture.n_components_ == held.sum()


def entropy_of(resp, weight=1.0):
    """The weighted entropy of rows of responsibilities."""
    held = np.where(resp > 0, resp, 1)
    return -(weight * (held * np.log(held)).sum(axis=1)).sum()


@pytest.mark.parametrize("method", ["batch", "memoized"])
@pytest.mark.parametrize("level", [1, 3, None])
def test_scores_of_merges_are_those_of_responsibilities_added_by_hand(
    three, method, level, small_chunks
):
    mixture = process(15, learning_method=method, sparsity_level=level)
    model, corpus, state = start_of(mixture, three)
    n_merges = 0
    for _ in range(3):
        n_before = state.stats.n_components
        model = model.resized(n_before)
        pairs = choose_pairs(model, corpus, state)
        model.forget()
        state = PASSES[method](model, corpus, state, track=Track(pairs))
        table, bound = Table(model, corpus), state.history[-1]
        model.forget()
        state, found = merge_components(model, state, pairs, bound)
        # Of the merges that were tried on so many components the last was accepted.
        left = [trial.stats.n_components for trial, _ in model.trials]
        for n_left in range(n_before - 1, state.stats.n_components - 1, -1):
            kept, absorbed = model.merges[len(left) - 1 - left[::-1].index(n_left)]
            table.resp[:, kept] += table.resp[:, absorbed]
            table.resp = np.delete(table.resp, absorbed, axis=1)
            n_merges += 1
        resp = table.resp
        assert resp.shape[1] == state.stats.n_components
        rows = model.observation.prepare(three)
        np.testing.assert_allclose(state.stats["count"], resp.sum(axis=0), rtol=1e-9, atol=1e-8)
        np.testing.assert_allclose(state.stats["first"], resp.T @ rows, rtol=1e-9, atol=1e-8)
        second = upper_triangles(np.einsum("nk,ni,nj->kij", resp, rows, rows))
        np.testing.assert_allclose(state.stats["second"], second, rtol=1e-9, atol=1e-8)
        np.testing.assert_allclose(state.stats["entropy"], entropy_of(resp), atol=1e-8)
        by_hand = model.resized(resp.shape[1]).bound(FitState(table.stats()))
        np.testing.assert_allclose(by_hand, found, rtol=1e-10)
        merged = n_before > state.stats.n_components
        assert found > bound - 1e-12 * abs(bound) if merged else found == bound
        table.check(state)  # the batches still add up to the whole, entropy included
        after_moves(state, n_before)
    assert n_merges > 0


def test_entropy_losses_are_written_out_sums(three):
    weight = np.random.default_rng(0).uniform(0.5, 2, 600)
    mixture = process(6, sparsity_level=3)
    model, corpus, state = start_of(mixture, three, weight)
    state = PASSES["batch"](model, corpus, state)
    pairs = np.array([[0, 3], [1, 2], [4, 5]])
    model.forget()
    globals_ = model.globals_of(state, Track(pairs))
    tracked = model.local_step(corpus.chunk([(0, 600)]), globals_, state.key)[0].tracked
    table = Table(model, corpus).resp
    assert set(tracked.merge_loss) == {"entropy"} and not tracked.removals
    assert tracked.merge_loss["entropy"].shape == (3,)
    for loss, (a, b) in zip(tracked.merge_loss["entropy"], pairs, strict=True):
        merged = table.copy()
        merged[:, a] += merged[:, b]
        merged[:, b] = 0
        wanted = entropy_of(table, weight) - entropy_of(merged, weight)
        np.testing.assert_allclose(loss, wanted, atol=1e-9)


@pytest.mark.parametrize("method", ["batch", "memoized"])
@pytest.mark.parametrize("level", [1, 4])
def test_one_pass_is_rid_of_all_empty_components(three, method, level):
    means = np.concatenate([[[0, 0], [12, 12], [24, 24]], np.full((12, 2), 1e3)])
    mixture = process(15, means_init=means, sparsity_level=level, learning_method=method)
    # A fourth one gets what three do not keep.
    assert len(mixture.set_params(max_iter=1).fit(three).weights_) <= min(level + 2, 4)


def test_bound_rises_where_a_pair_names_an_emptied_component():
    X = np.random.default_rng(0).normal(size=(200, 2))
    X[:100] += 4
    assert np.diff(process(20, tol=0, max_iter=4).fit(X).bound_history_).min() > 0


@pytest.mark.parametrize("method", ["batch", "memoized"])
@pytest.mark.parametrize("level", [1, 2, None])
def test_changes_of_deletes_are_written_out_sums(three, method, level, small_chunks):
    weight = np.random.default_rng(1).uniform(0.5, 2, 600)
    # Of this start all components keep data.
    options = {"sparsity_level": level, "learning_method": method, "init_params": "k-means++"}
    model, corpus, state = start_of(process(5, **options), three, weight)
    state = PASSES[method](model, corpus, state)
    model.forget()
    targets = [1, 3]
    state = PASSES[method](model, corpus, state, track=Track(NO_PAIRS, targets))
    rows = model.observation.prepare(three)
    for slot, target in enumerate(targets):
        found = Change.sum([state.tracked[b].removals[slot] for b in sorted(state.tracked)])
        found = found.apply(state.stats, target)
        table = Table(model, corpus)
        before, held = table.resp, table.held[:, target]
        table.delete(target)
        new, others = table.resp, np.delete(np.arange(5), target)
        # Rows that did not have the component keep what they have.
        assert held.any() and held.all() == (level is None)
        np.testing.assert_array_equal(new[~held], before[~held][:, others])
        np.testing.assert_allclose(new.sum(axis=1), 1)
        np.testing.assert_allclose(found["count"], weight @ new, atol=1e-9)
        wanted = upper_triangles(np.einsum("nk,n,ni,nj->kij", new, weight, rows, rows))
        np.testing.assert_allclose(found["second"], wanted, atol=1e-8)
        np.testing.assert_allclose(found["entropy"], entropy_of(new, weight), atol=1e-8)


@pytest.mark.parametrize("method", ["batch", "memoized"])
@pytest.mark.parametrize("level", [1, 4])
def test_deletes_alone_remove_components_and_raise_the_bound(three, method, level):
    deleted, bounds = [], []
    mixture = process(8, sparsity_level=level, learning_method=method, tol=0)
    without = process(8, sparsity_level=level, learning_method=method, moves=False, tol=0)
    model, corpus, state = start_of(mixture, three)
    for _ in range(40):
        before = state.stats.n_components
        model = model.resized(before)
        targets = choose_targets(state, len(state.memo) if state.memo else 1)
        model.forget()
        state = PASSES[method](model, corpus, state, track=Track(NO_PAIRS, targets))
        bound, total = state.history[-1], state.stats["count"].sum()
        state, found = delete_component(model, state, targets, bound)
        left = model.resized(state.stats.n_components)
        deleted.append(before - left.n_components)
        assert found > bound if deleted[-1] else found == bound
        np.testing.assert_allclose(left.bound(state), found, rtol=1e-12)
        np.testing.assert_allclose(state.stats["count"].sum(), total)
        bounds += [bound, found]
        if method == "memoized":  # the batches still add up to the whole
            summed = left.empty_stats()
            for seen in state.memo:
                summed.add(seen)
            assert_same(summed, state.stats)
        after_moves(state, before)
    assert set(deleted) == {0, 1} and state.stats.n_components == 8 - sum(deleted)
    assert np.diff(bounds).min() > -1e-9 * abs(bounds[-1])
    assert bounds[-1] > without.fit(three).lower_bound_


class Counting(Mixture):
    """A mixture that knows the most changes there ever were at the end of a local step."""

    alive, most = weakref.WeakSet(), 0

    @staticmethod
    def local_step(chunk, globals_, key=None):
        stats, local = Mixture.local_step(chunk, globals_, key)
        Counting.alive.update(stats.tracked.removals)
        Counting.most = max(Counting.most, len(Counting.alive))
        return stats, local


@pytest.mark.parametrize("method, n_kept", [("batch", 1), ("memoized", 3)])
def test_changes_of_deletes_are_summed_as_they_come(three, method, n_kept, monkeypatch):
    monkeypatch.setattr(chunks, "DENSE_CHUNK_ROWS", 16)
    monkeypatch.setattr(chunks, "DENSE_CHUNK_SIZE", 16 * 16)
    monkeypatch.setattr(Counting, "most", 0)
    _, corpus, state = start_of(process(15, learning_method=method), three)
    model = Counting(*state.parts, 15, sparsity_level=4, keeps_local=True)
    options = {"n_batches": 3} if method == "memoized" else {}
    for _ in range(4):
        state = pass_with_moves(PASSES[method], model, corpus, state, **options)
        assert not state.tracked and not Counting.alive
    assert state.stats.n_components < 15  # some were deleted
    # One of each target a batch, and those of the chunk that has just been computed.
    assert 0 < Counting.most <= (n_kept + 1) * N_TARGETS


def test_merges_of_counts():
    X, *_ = make_lda_corpus(150, 40, 3, doc_length=80, random_state=0)
    mixture = process(8, observation="multinomial", n_batches=3).fit(X)
    assert 1 <= mixture.n_components_ < 8
    assert mixture.means_.shape == (len(mixture.weights_), 40)
    assert np.diff(mixture.bound_history_).min() > -1e-9 * abs(mixture.lower_bound_)


def test_same_bytes_for_any_number_of_workers_and_exact_continuation(three, small_chunks):
    found = [process(12, max_iter=6, tol=0, n_jobs=n_jobs).fit(three) for n_jobs in (1, 3)]
    parts = process(12, max_iter=3, tol=0, warm_start=True).fit(three).fit(three)
    for other in (found[1], parts):
        np.testing.assert_array_equal(other.bound_history_, found[0].bound_history_)
        np.testing.assert_array_equal(other.covariances_, found[0].covariances_)


def test_pairs_are_of_neighbours(three):
    model, corpus, state = start_of(process(9), three)
    for _ in range(5):
        state = PASSES["memoized"](model, corpus, state)
    pairs = choose_pairs(model, corpus, state)
    assert 0 < len(pairs) <= 9
    means = model.observation.estimate(state.stats)["means"]
    assert np.linalg.norm(means[pairs[0, 0]] - means[pairs[0, 1]]) < 6
