"""What merges of mixed membership cost, against responsibilities added by hand."""

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import gammaln, xlogy

from sklearn_sparsepost._learning.moves import merge_components
from sklearn_sparsepost._models.admixture import Items, occurrence_shares
from sklearn_sparsepost._models.tracking import Track, Tracked
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
