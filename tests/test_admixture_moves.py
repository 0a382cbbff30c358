"""What merges of mixed membership cost, against responsibilities added by hand."""

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import gammaln, psi, xlogy

from sklearn_sparsepost._kernels import _pairs
from sklearn_sparsepost._learning.moves import merge_components
from sklearn_sparsepost._learning.topic_moves import MOST_FAILURES, N_TARGETS, Attempts
from sklearn_sparsepost._models.admixture import Items, occurrence_shares
from sklearn_sparsepost._models.sticks import StickDocuments
from sklearn_sparsepost._models.tracking import (
    Track,
    Tracked,
    entropy_losses,
    list_entropy_losses,
)
from sklearn_sparsepost._tables import SparseTable
from sklearn_sparsepost.models import (
    Admixture,
    Corpus,
    DirichletDocuments,
    Multinomial,
    batch_pass,
    begin,
    memoized_pass,
)


def bound_by_hand(observation, stats, share, counts, document, alpha):
    """All terms of the bound of mixed membership from responsibilities of occurrences."""
    weight = counts[:, None] * share
    mass = np.zeros((document.max() + 1, share.shape[1]))
    np.add.at(mass, document, weight)
    n_tokens, total = mass.sum(axis=1), alpha.sum()
    value = -(counts @ xlogy(share, share).sum(axis=1))
    value += (gammaln(alpha + mass) - gammaln(alpha)).sum()
    value += (gammaln(total) - gammaln(total + n_tokens)).sum()
    return value + observation.bound(stats, observation.estimate(stats))


@pytest.mark.parametrize("level", [2, None])
@pytest.mark.parametrize("n_batches", [None, 3])
def test_merges_of_topics_are_those_of_responsibilities_added_by_hand(level, n_batches):
    rng = np.random.default_rng(3)
    X = sp.csr_array(rng.poisson(0.3, size=(40, 30)).astype(float))
    alpha = rng.uniform(0.05, 0.5, 5)
    documents = DirichletDocuments(alpha, sparsity_level=level, restarts=0)
    model = Noting(Multinomial("bayes", np.full((1, 1), 0.1), 30), documents, 5)
    corpus = Corpus(X, np.float64, 1)
    state = begin(model, corpus, rng.dirichlet(np.ones(5), size=40))
    one_pass = partial(memoized_pass, n_batches=n_batches) if n_batches else batch_pass
    pairs = np.array([[0, 3], [1, 2]])
    for _ in range(2):
        model.noted.clear()
        state = one_pass(model, corpus, state, track=Track(pairs))
    share, counts, document, word = model.by_hand()
    for slot, (kept, absorbed) in enumerate(pairs):
        merged = share.copy()
        merged[:, kept] += merged[:, absorbed]
        merged = np.delete(merged, absorbed, axis=1)
        learned = model.merge_learned(state.learned, kept, absorbed)
        table = np.zeros((30, 4))
        np.add.at(table, word, counts[:, None] * merged)
        stats = model.empty_stats(4)
        stats.arrays["feature_counts"] += table
        stats.arrays["feature_total"] += table.sum(axis=0)
        want = bound_by_hand(
            model.observation, stats, merged, counts, document, model.documents.alpha_of(learned)
        )
        # Only this pair, of which what it costs is known.
        alone = state.next()
        alone.tracked = {b: Tracked(_slot(found, slot)) for b, found in state.tracked.items()}
        found, bound = merge_components(model, alone, pairs[slot : slot + 1], -np.inf)
        np.testing.assert_allclose(bound, want, rtol=1e-10)
        np.testing.assert_allclose(found.stats["feature_counts"], table, atol=1e-9)
        if n_batches:
            total = found.sum_of_memory(model.empty_stats(4))
            np.testing.assert_allclose(total["feature_counts"], table, atol=1e-9)
            np.testing.assert_allclose(total["entropy"], found.stats["entropy"])
            np.testing.assert_allclose(total["weights"], found.stats["weights"])
    want = bound_by_hand(
        model.observation, state.stats, share, counts, document, model.documents.alpha
    )
    np.testing.assert_allclose(state.history[-1], want, rtol=1e-10)


def _slot(found, slot):
    return {name: loss[slot : slot + 1] for name, loss in found.merge_loss.items()}


class Noting(Admixture):
    """An admixture that notes the responsibilities of each chunk."""

    noted = []

    @staticmethod
    def local_step(chunk, globals_, key=None):
        items = Items(chunk)
        weights = globals_.observation.item_weights(
            items, globals_.table, globals_.documents.level(5), np.float64
        )
        found = globals_.documents.fit(
            items.indptr, items.local, items.counts, weights, globals_.alpha
        )
        share = occurrence_shares(items, found[0], found[1], weights[0]).toarray()
        document = np.repeat(chunk.numbers, np.diff(chunk.indptr))
        Noting.noted.append((share, items.counts, document, chunk.indices))
        return Admixture.local_step(chunk, globals_, key)

    def by_hand(self):
        return [np.concatenate(parts) for parts in zip(*self.noted, strict=True)]


# ---------------------------------------------------------------------------- kernels


def test_entropy_losses_of_lists_are_those_of_a_matrix(dtype):
    rng = np.random.default_rng(4)
    n, K, L = 90, 7, 4
    index = np.full((n, L), -1, dtype=np.int32)
    amount = rng.random((n, L)).astype(dtype)  # behind the end of a list may be anything
    for row in index:
        held = rng.integers(1, L + 1)
        row[:held] = rng.choice(K, held, replace=False)
    weight = rng.integers(1, 9, n).astype(dtype)
    rows, slots = np.nonzero(index >= 0)
    share = (amount[rows, slots] / weight[rows]).astype(np.float64)
    table = sp.csr_array((share, (rows, index[rows, slots])), shape=(n, K))
    pairs = np.array([[0, 3], [5, 1], [2, 6]])
    want = entropy_losses(table, weight.astype(np.float64), pairs)
    got = list_entropy_losses(index, amount, weight, pairs, K)
    np.testing.assert_allclose(got, want, rtol=1e-12)
    slots = np.full((K, K), -1, dtype=np.int32)
    for slot, (a, b) in enumerate(pairs):
        slots[a, b] = slots[b, a] = slot
    two = _pairs.list_entropy_losses(index, amount, weight, slots, 3, 2)
    assert two.tobytes() == got.tobytes()


def test_losses_of_masses_are_written_out_sums(dtype):
    rng = np.random.default_rng(5)
    mass = (rng.gamma(0.3, 5.0, (70, 6)) * (rng.random((70, 6)) < 0.4)).astype(dtype)
    alpha, pairs = rng.uniform(0.01, 1.0, 6), np.array([[0, 3], [5, 1], [2, 4]])
    got = _pairs.mass_losses(mass, alpha, pairs)
    for row, rise in zip(got, (gammaln, psi), strict=True):
        for loss, (a, b) in zip(row, pairs, strict=True):
            x, y, both = mass[:, a].astype(float), mass[:, b].astype(float), alpha[a] + alpha[b]
            want = rise(alpha[a] + x) - rise(alpha[a]) + rise(alpha[b] + y) - rise(alpha[b])
            want = want - (rise(both + x + y) - rise(both))
            np.testing.assert_allclose(loss, want.sum(), rtol=1e-9)
    assert _pairs.mass_losses(mass, alpha, pairs, 2).tobytes() == got.tobytes()


def test_overlaps_are_products_of_masses(dtype):
    rng = np.random.default_rng(6)
    mass = (rng.gamma(0.3, 5.0, (70, 6)) * (rng.random((70, 6)) < 0.4)).astype(dtype)
    got = _pairs.overlaps(mass)
    np.testing.assert_allclose(got, mass.astype(float).T @ mass.astype(float), rtol=1e-12)
    assert _pairs.overlaps(mass, 3).tobytes() == got.tobytes()
    assert not _pairs.overlaps(mass[:0]).any()


@pytest.mark.parametrize("accepted", [0, 2, 20])
def test_deletes_are_prepared_for_as_last_time(accepted):
    attempts = Attempts(30)
    assert attempts.n_targets() == N_TARGETS  # nobody knows yet
    attempts.note(3, "delete", accepted + MOST_FAILURES, accepted, 30 - accepted)
    assert attempts.n_targets() == accepted + MOST_FAILURES + 2


# ---------------------------------------------------------------------------- by terms alone


class ByWholeBounds(Admixture):
    """A model that does not know what merges gain in the words, and tells by whole bounds."""

    def merge_gains(self, state, pairs):
        return None

    def merge_gain(self, state, kept, absorbed):
        return np.inf


@pytest.mark.parametrize("estimation", ["bayes", "map"])
@pytest.mark.parametrize("n_batches", [None, 3])
def test_merges_by_terms_are_those_of_whole_bounds(estimation, n_batches):
    """The same pairs, and the same statistics and bound, as if every bound were computed."""
    n_tried = n_merged = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        topics = rng.dirichlet(np.full(30, 0.1), 4)
        X = sp.csr_array(rng.poisson(rng.dirichlet(np.full(4, 0.2), 80) @ topics * 40.0) * 1.0)
        documents = StickDocuments(0.5, 5.0, 12, 80, sparsity_level=3, restarts=0)
        words = Multinomial(estimation, rng.uniform(0.05, 0.3, (30, 1)), 30)
        judge = Multinomial("bayes", words.prior, 30)
        models = [kind(words, documents, 12, judge=judge) for kind in (Admixture, ByWholeBounds)]
        corpus = Corpus(X, np.float64, 1)
        state = begin(models[0], corpus, rng.dirichlet(np.full(12, 0.3), size=80))
        one_pass = partial(memoized_pass, n_batches=n_batches) if n_batches else batch_pass
        state = one_pass(models[0], corpus, state)
        pairs = np.array([(a, b) for a in range(12) for b in range(a)])
        rng.shuffle(pairs)
        state = one_pass(models[0], corpus, state, track=Track(pairs, overlap=True))
        state.overlap = sum(found.overlap for found in state.tracked.values())
        state.attempts = Attempts(12)
        before = state.stats.copy()
        (one, bound), (other, want) = (
            merge_components(model, state, pairs, state.history[-1]) for model in models
        )
        assert one.attempts.names.tolist() == other.attempts.names.tolist()
        assert one.attempts.failed.keys() == other.attempts.failed.keys()
        np.testing.assert_allclose(bound, want, rtol=1e-13)
        np.testing.assert_allclose(one.overlap, other.overlap)
        for a, b in [(one.stats, other.stats), *zip(one.memo or (), other.memo or (), strict=True)]:
            for name in (*a.arrays, *a.scalars):
                a_table, b_table = (_dense(part[name]) for part in (a, b))
                np.testing.assert_allclose(a_table, b_table, rtol=1e-12, atol=1e-12)
        for name, array in before.arrays.items():
            np.testing.assert_array_equal(state.stats[name], array)
        n_tried += len(pairs)
        n_merged += 12 - one.stats.n_components
    assert 0 < n_merged < n_tried


def _dense(table):
    if not isinstance(table, SparseTable):
        return table
    out = np.zeros(table.shape)
    out[table.rows] = table.to_csr().toarray()
    return out


def test_what_cannot_be_told_apart_by_terms_is_told_by_the_whole_bound(monkeypatch):
    """Where two components' terms might err, no merge is accepted by them."""
    rng = np.random.default_rng(3)
    X = sp.csr_array(rng.poisson(0.3, size=(40, 30)).astype(float))
    documents = StickDocuments(0.5, 5.0, 5, 40, sparsity_level=2, restarts=0)
    model = Admixture(Multinomial("bayes", np.full((1, 1), 0.1), 30), documents, 5)
    corpus = Corpus(X, np.float64, 1)
    state = begin(model, corpus, rng.dirichlet(np.ones(5), size=40))
    pairs = np.array([[0, 3], [1, 2]])
    state = batch_pass(model, corpus, state, track=Track(pairs))
    by_terms, bound = merge_components(model, state, pairs, state.history[-1])
    bounds, whole = [], Admixture.bound
    monkeypatch.setattr("sklearn_sparsepost._learning.moves.HOPELESS", np.inf)
    monkeypatch.setattr(Admixture, "bound", lambda *args: bounds.append(whole(*args)) or bounds[-1])
    by_bounds, found = merge_components(model, state, pairs, state.history[-1])
    assert by_terms.stats.n_components == by_bounds.stats.n_components < 5
    assert len(bounds) >= 5 - by_bounds.stats.n_components
    np.testing.assert_allclose(found, bound, rtol=1e-14)
