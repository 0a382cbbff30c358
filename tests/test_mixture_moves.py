"""Merges: exact scores, rising bounds, and the number of components found."""

import weakref

import numpy as np
import pytest

from sklearn_sparsepost import SparseMixture
from sklearn_sparsepost import _mixture as estimator
from sklearn_sparsepost._learning import loops as inference
from sklearn_sparsepost._learning import moves
from sklearn_sparsepost._models.mixture import MixtureModel
from sklearn_sparsepost._run import chunks as parallel
from sklearn_sparsepost.datasets import make_lda_corpus


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
    mixture = process(
        20, learning_method="online", learning_offset=1, batch_size=20, max_iter=30, tol=0
    ).fit(three)
    held = np.bincount(mixture.predict(three), minlength=20) > 0
    assert mixture.n_components_ == held.sum() < 20
    assert mixture.weights_[held].sum() > 0.99
    # Weights of samples have no part in it.
    weight = np.full(600, 7.0)
    mixture.set_params(total_samples=600).partial_fit(three, sample_weight=weight)
    assert mixture.n_components_ == held.sum()


def _forgetting(parts):
    """`SparseMixture._new_state`, after which nothing is noted."""
    plain = SparseMixture._new_state

    def new_state(*args):
        state = plain(*args)
        parts.clear()
        return state

    return new_state


@pytest.mark.parametrize("method", ["batch", "memoized"])
@pytest.mark.parametrize("level", [1, 3, None])
def test_scores_of_merges_are_those_of_responsibilities_added_by_hand(
    three, method, level, monkeypatch
):
    monkeypatch.setattr(parallel, "DENSE_CHUNK_ROWS", 64)
    monkeypatch.setattr(parallel, "DENSE_CHUNK_SIZE", 64 * 64)
    parts, accepted, n_merges = [], [], 0
    summarise, remember = MixtureModel.summarise, moves._remember

    def note_responsibilities(model, rows, index, resp, weight=None, n_components=None):
        if n_components is None:
            parts.append((rows, index, resp))
        return summarise(model, rows, index, resp, weight, n_components)

    def note_merge(model, state, move):
        accepted.append(move.__defaults__[0])
        remember(model, state, move)

    def merge(model, state, bound):
        nonlocal n_merges
        table = np.zeros((600, model.n_components))
        first = 0
        for _, index, resp in parts:
            last = first + len(index)
            np.put_along_axis(table[first:last], index.astype(np.intp), resp, axis=1)
            first = last
        assert first == 600
        rows = np.concatenate([rows for rows, _, _ in parts])
        found = moves.merge_components(model, state, bound)
        for kept, absorbed in accepted:
            table[:, kept] += table[:, absorbed]
            table = np.delete(table, absorbed, axis=1)
        n_merges += len(accepted)
        index = np.broadcast_to(np.arange(table.shape[1], dtype=np.int32), table.shape)
        by_hand = summarise(model, rows, index, table, None, table.shape[1])
        for name in ("count", "first", "second"):
            np.testing.assert_allclose(state.stats[name], by_hand[name], rtol=1e-9, atol=1e-8)
        np.testing.assert_allclose(state.stats["entropy"], by_hand["entropy"], atol=1e-8)
        np.testing.assert_allclose(model.global_bound(by_hand), found, rtol=1e-10)
        assert found > bound - 1e-12 * abs(bound) if accepted else found == bound
        parts.clear()
        accepted.clear()
        return found

    monkeypatch.setattr(MixtureModel, "summarise", note_responsibilities)
    monkeypatch.setattr(moves, "_remember", note_merge)
    monkeypatch.setattr(estimator, "merge_components", merge)
    monkeypatch.setattr(estimator, "delete_component", lambda model, state, bound: bound)
    monkeypatch.setattr(estimator.SparseMixture, "_new_state", _forgetting(parts))
    mixture = process(15, learning_method=method, sparsity_level=level, max_iter=3, tol=0)
    mixture.set_params(warm_start=True).fit(three)
    assert n_merges > 0
    model = mixture._model(np.dtype(float), len(mixture.weights_), n_slots=15)
    state = mixture._fit_state
    if method == "memoized":  # the batches still add up to the whole, entropy included
        total = model.empty_stats()
        for memo in state.memo:
            total.add(memo)
        for name in total.arrays:
            np.testing.assert_allclose(total[name], state.stats[name], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(total["entropy"], state.stats["entropy"], rtol=1e-9, atol=1e-9)


def test_entropy_losses_are_written_out_sums(three):
    mixture = process(6, sparsity_level=3, moves=False, max_iter=2).fit(three)
    model = mixture._model(np.dtype(float), 6, n_slots=6)
    rows = model.observation.prepare(three)
    weight = np.random.default_rng(0).uniform(0.5, 2, 600)
    model.pairs = np.array([[0, 3], [1, 2], [4, 5]])
    index, resp = model.responsibilities(rows, model.tables(*mixture._fitted_parts()))
    stats = model.summarise(rows, index, resp, weight)
    table = np.zeros((600, 6))
    np.put_along_axis(table, index.astype(np.intp), resp, axis=1)

    def entropy(resp):
        held = np.where(resp > 0, resp, 1)
        return -(weight[:, None] * held * np.log(held)).sum()

    for slot, (a, b) in enumerate(model.pairs):
        merged = table.copy()
        merged[:, a] += merged[:, b]
        merged[:, b] = 0
        loss = entropy(table) - entropy(merged)
        np.testing.assert_allclose(stats["merge_loss"][slot], loss, atol=1e-9)
    assert not stats["merge_loss"][3:].any()


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
def test_changes_of_deletes_are_written_out_sums(three, method, level, monkeypatch):
    monkeypatch.setattr(parallel, "DENSE_CHUNK_ROWS", 64)
    monkeypatch.setattr(parallel, "DENSE_CHUNK_SIZE", 64 * 64)
    weight = np.random.default_rng(1).uniform(0.5, 2, 600)
    mixture = process(5, sparsity_level=level, moves=False, max_iter=2, tol=0).fit(
        three, None, weight
    )
    model = mixture._model(np.dtype(float), 5)
    model.targets = [1, 3]
    rows = model.observation.prepare(three)
    globals_ = model.tables(*mixture._fitted_parts())
    index, resp = model.responsibilities(rows, globals_)
    for target in model.targets:
        change = model.removal(target, rows, index, resp, weight, globals_)
        stats = model.empty_stats().add(model.summarise(rows, index, resp, weight))
        found = change.apply(stats, target)
        table, log_weights = globals_
        without = log_weights.copy()
        without[target] = -1e30
        # Rows that did not have the component keep what they have.
        held = (index == target).any(axis=1)
        table_of = np.zeros((600, 5))
        np.put_along_axis(table_of, index.astype(np.intp), resp, axis=1)
        new, best = np.zeros((600, 5)), model.responsibilities(rows, (table, without))
        np.put_along_axis(new, best[0].astype(np.intp), best[1], axis=1)
        new = np.where(held[:, None], new, table_of)
        assert held.any() and not new[:, target].any()
        others = np.delete(np.arange(5), target)
        np.testing.assert_allclose(found["count"], (weight @ new)[others], atol=1e-9)
        wanted = np.einsum("nk,n,ni,nj->kij", new, weight, rows, rows)[others]
        np.testing.assert_allclose(found["second"], wanted, atol=1e-8)
        logs = np.log(np.where(new > 0, new, 1))
        np.testing.assert_allclose(found["entropy"], -(weight @ (new * logs)).sum(), atol=1e-8)


@pytest.mark.parametrize("method", ["batch", "memoized"])
@pytest.mark.parametrize("level", [1, 4])
def test_deletes_alone_remove_components_and_raise_the_bound(three, method, level, monkeypatch):
    deleted = []
    plain = moves.delete_component

    def delete(model, state, bound):
        before, total = model.n_components, state.stats["count"].sum()
        found = plain(model, state, bound)
        deleted.append(before - model.n_components)
        assert found > bound if deleted[-1] else found == bound
        np.testing.assert_allclose(model.global_bound(state.stats), found, rtol=1e-12)
        np.testing.assert_allclose(state.stats["count"].sum(), total)
        return found

    monkeypatch.setattr(estimator, "delete_component", delete)
    monkeypatch.setattr(estimator, "merge_components", lambda model, state, bound: bound)
    mixture = process(8, sparsity_level=level, learning_method=method, max_iter=40, tol=0)
    mixture.set_params(warm_start=True).fit(three)
    assert set(deleted) == {0, 1} and len(mixture.weights_) == 8 - sum(deleted)
    assert np.diff(mixture.bound_history_).min() > -1e-9 * abs(mixture.lower_bound_)
    without = process(8, sparsity_level=level, learning_method=method, moves=False, tol=0)
    assert mixture.lower_bound_ > without.fit(three).lower_bound_
    state = mixture._fit_state
    assert not any(changes for kept in state.local.values() for _, changes in kept)
    if method == "memoized":  # the batches still add up to the whole
        model = mixture._model(np.dtype(float), len(mixture.weights_), n_slots=8)
        total = model.empty_stats()
        for memo in state.memo:
            total.add(memo)
        for name in total.arrays:
            np.testing.assert_allclose(total[name], state.stats[name], rtol=1e-9, atol=1e-8)


@pytest.mark.parametrize("method, n_kept", [("batch", 1), ("memoized", 3)])
def test_changes_of_deletes_are_summed_as_they_come(three, method, n_kept, monkeypatch):
    monkeypatch.setattr(parallel, "DENSE_CHUNK_ROWS", 16)
    monkeypatch.setattr(parallel, "DENSE_CHUNK_SIZE", 16 * 16)
    alive, most = weakref.WeakSet(), 0
    plain = moves.Change.__init__

    def note(change, *args):
        nonlocal most
        plain(change, *args)
        alive.add(change)
        most = max(most, len(alive))

    monkeypatch.setattr(moves.Change, "__init__", note)
    options = {"learning_method": method, "n_batches": 3, "max_iter": 4, "tol": 0, "n_jobs": 1}
    mixture = process(15, **options).fit(three)
    assert len(mixture.weights_) < 15  # some were deleted
    # One of each target a batch, and those of the chunk that has just been computed.
    assert 0 < most <= (n_kept + 1) * moves.N_TARGETS


def test_merges_of_counts():
    X, *_ = make_lda_corpus(150, 40, 3, doc_length=80, random_state=0)
    mixture = process(8, observation="multinomial", n_batches=3).fit(X)
    assert 1 <= mixture.n_components_ < 8
    assert mixture.means_.shape == (len(mixture.weights_), 40)
    assert np.diff(mixture.bound_history_).min() > -1e-9 * abs(mixture.lower_bound_)


def test_same_bytes_for_any_number_of_workers_and_exact_continuation(three, monkeypatch):
    monkeypatch.setattr(parallel, "DENSE_CHUNK_ROWS", 64)
    monkeypatch.setattr(parallel, "DENSE_CHUNK_SIZE", 64 * 64)
    found = [process(12, max_iter=6, tol=0, n_jobs=n_jobs).fit(three) for n_jobs in (1, 3)]
    parts = process(12, max_iter=3, tol=0, warm_start=True).fit(three).fit(three)
    for other in (found[1], parts):
        np.testing.assert_array_equal(other.bound_history_, found[0].bound_history_)
        np.testing.assert_array_equal(other.covariances_, found[0].covariances_)


def test_pairs_are_of_neighbours(three):
    mixture = process(9, moves=False, max_iter=5).fit(three)
    model = mixture._model(np.dtype(float), 9)
    corpus = inference.Corpus(three, np.dtype(float))
    pairs = moves.choose_pairs(model, corpus, mixture._fit_state, np.random.default_rng(0))
    assert 0 < len(pairs) <= 9
    gap = np.linalg.norm(mixture.means_[pairs[0, 0]] - mixture.means_[pairs[0, 1]])
    assert gap < 6
