"""First topics of tokens, given what topics weigh in words: urns, word by word."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import betabinom, chi2

from sklearn_sparsepost._kernels import first_draws as kernels
from sklearn_sparsepost._models.priors import compact_prior
from sklearn_sparsepost._run.threads import settled_threads
from sklearn_sparsepost._sampling import tokens as module
from sklearn_sparsepost._sampling.tokens import FirstWeights, Tokens
from sklearn_sparsepost._tables import PseudoCounts


def drawn(X, share, seed=0, bits=8):
    """Words of tokens, and topics that are drawn for them, in one group."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SERIAL_TOKENS", np.inf)
        tokens = Tokens(sp.csr_matrix(X), 0)
    z = np.full(tokens.n_tokens, 999, dtype=np.uint16)
    n_rows = -(-np.minimum(np.diff(tokens.doc_ptr), share.shape[1]) // kernels.ROW)
    first = np.concatenate([[0], np.cumsum(n_rows)])
    order = tokens.order_of_group(0)
    kernels.draw_by_words(*order, first, share.astype(np.float32), z, bits, seed, 9)
    return tokens.word, z


def chance_of_more(found, expected):
    return chi2.sf(((found - expected) ** 2 / expected).sum(), len(expected) - 1)


@pytest.mark.parametrize("most", [None, 1])
@pytest.mark.parametrize("seed", range(3))
def test_topics_by_words_follow_a_polya_urn(most, seed):
    """Enumerated; with one bit for counts no topic counts more than once."""
    n_documents = 15_000
    share = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
    word, z = drawn(np.tile([2, 1], (n_documents, 1)), share, seed, 8 if most is None else 31)
    assert word[:3].tolist() == [0, 0, 1]  # drawn from the last one on
    want = []
    for topics in itertools.product(range(3), repeat=3):
        probability, n = 1.0, np.ones(3)
        for w, k in zip(word[:3][::-1], topics[::-1], strict=True):
            probability *= share[w, k] * n[k] / (share[w] * n).sum()
            n[k] = min(n[k] + 1, np.inf if most is None else 1 + most)
        want.append(probability)
    found = np.bincount(z.reshape(-1, 3) @ [9, 3, 1], minlength=27)
    assert chance_of_more(found, n_documents * np.array(want)) > 1e-4


@pytest.mark.parametrize("n_topics, length", [(40, 60), (17, 17), (300, 400)])
def test_urns_of_equal_weights_are_dirichlet_multinomials(n_topics, length):
    """Documents with several rows of topics; words differ in nothing but their name."""
    n_documents = 4000
    X = np.zeros((n_documents, 5), dtype=int)
    X[:, :] = [length - 4, 1, 1, 1, 1]
    _, z = drawn(X, np.full((5, n_topics), 1 / n_topics), 1, bits=9)
    z = z.reshape(n_documents, length)
    for k in (0, 1, n_topics - 1):
        found = np.bincount((z == k).sum(axis=1), minlength=length + 1)
        want = n_documents * betabinom.pmf(np.arange(length + 1), length, 1, n_topics - 1)
        rare = np.flatnonzero(np.cumsum(want[::-1])[::-1] < 20)
        last = rare[0] if len(rare) else length  # what is rarer is one class
        found, want = (np.append(x[:last], x[last:].sum()) for x in (found, want))
        assert chance_of_more(found, want) > 1e-4


def test_topics_that_do_not_have_the_word_are_not_drawn():
    rng = np.random.default_rng(0)
    share = rng.random((50, 70)) * (rng.random((50, 70)) < 0.1)
    share[np.arange(50), rng.integers(70, size=50)] += 0.1
    share /= share.sum(axis=1, keepdims=True)
    word, z = drawn(rng.integers(0, 8, size=(100, 50)), share)
    assert (share[word, z] > 0).all()
    assert len(np.unique(z)) == 70


def test_rare_words_come_first():
    """They say what a document is about, and frequent ones follow."""
    share = np.array([[0.5, 0.5], [1, 0], [0, 1]])
    X = np.array([[200, 1, 0], [200, 0, 1]] * 200 + [[0, 1, 1]] * 10)
    word, z = drawn(X, share)
    shares = z[word == 0].reshape(400, 200).mean(axis=1)
    # A urn with one more of one kind than of the other ends at two thirds.
    assert shares[::2].mean() == pytest.approx(1 / 3, abs=0.05)
    assert shares[1::2].mean() == pytest.approx(2 / 3, abs=0.05)


@pytest.mark.parametrize("prior", [0.1, "words", "topics and words"])
def test_first_weights_are_shares_of_topics(prior):
    rng = np.random.default_rng(0)
    counts, alpha = rng.gamma(0.2, size=(1500, 6)), rng.uniform(0.1, 1, size=6)
    shapes = {"words": 1500, "topics and words": (6, 1500)}
    beta = rng.uniform(0.1, 1, size=shapes[prior]) if prior in shapes else prior
    topics = (counts + np.broadcast_to(beta, (6, 1500)).T).T
    weight = (alpha[:, None] * topics / topics.sum(axis=1, keepdims=True)).T
    found = FirstWeights(PseudoCounts(compact_prior(beta), counts), alpha).weight
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, weight / weight.sum(axis=1, keepdims=True), atol=3e-7)


def test_first_draws_of_groups_are_the_same_on_several_threads(corpus, monkeypatch):
    monkeypatch.setattr(module, "SERIAL_TOKENS", 0)
    monkeypatch.setattr("sklearn_sparsepost._run.threads.SMALL_WORK", 0)
    tokens, rng = Tokens(corpus, 0), np.random.default_rng(0)
    assert len(tokens.ends) > 1
    counts = rng.gamma(0.3, size=(corpus.shape[1], 9))
    weights = FirstWeights(PseudoCounts(compact_prior(0.1), counts), np.full(9, 0.1))
    found = []
    for n_threads in (1, 3):
        with settled_threads(n_threads):
            found.append(weights.draw(tokens, 3))
    np.testing.assert_array_equal(*found)
    assert len(np.unique(found[0])) == 9
    assert not np.array_equal(weights.draw(tokens, 4), found[0])
