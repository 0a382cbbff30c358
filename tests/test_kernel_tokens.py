"""Tokens in order, by counting: against sorting."""

import numpy as np
import pytest
import scipy.sparse as sp

from sklearn_sparsepost._kernels._token_order import count_tokens, lay_out, order_by_word
from sklearn_sparsepost._sampling.tokens import MOST_TOKENS, Tokens


@pytest.fixture
def X():
    """200 documents of 30 words, among them empty ones, and a word that nobody has."""
    rng = np.random.default_rng(0)
    dense = rng.poisson(0.4, size=(200, 30)) * rng.integers(1, 5, size=(200, 30))
    dense[::9], dense[:, 4] = 0, 0
    return sp.csr_array(dense)


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_tokens_are_counted(X, index):
    length, size = np.full(200, 7), np.arange(30)
    pointers = X.indptr.astype(index), X.indices.astype(index)
    count_tokens(*pointers, X.data.astype(np.uint32), length, size)
    np.testing.assert_array_equal(length, X.sum(axis=1))
    np.testing.assert_array_equal(size, np.arange(30) + X.sum(axis=0))


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("ends", [[30], [11, 30], [7, 7, 20, 30]])
def test_words_lie_by_rank_group_by_group(X, index, ends):
    rng, dense, before = np.random.default_rng(1), X.toarray(), 1000
    in_groups = rng.permutation(30)
    rank = np.argsort(in_groups).astype(np.int32)
    length = dense.sum(axis=1)
    ptr = np.full((200, len(ends) + 1), -1)
    ptr[:, 0] = before + np.cumsum(length) - length  # as behind documents laid out before
    word = np.full(length.sum(), -1, dtype=np.int32)
    given = X.indptr.astype(index), X.indices.astype(index), X.data.astype(np.uint32)
    lay_out(*given, rank, in_groups, np.array(ends), ptr, word)
    for d, x in enumerate(dense):
        tokens = np.repeat(in_groups, x[in_groups])
        np.testing.assert_array_equal(word[ptr[d, 0] - before : ptr[d, -1] - before], tokens)
        parts = np.add.reduceat(np.append(x[in_groups], 0), [0, *ends])[:-1]
        parts[np.diff([0, *ends]) == 0] = 0
        np.testing.assert_array_equal(np.diff(ptr[d]), parts)


def test_places_of_words_are_those_of_a_stable_sort(X):
    rng, length = np.random.default_rng(2), X.sum(axis=1)
    word = np.repeat(X.indices, X.data).astype(np.int32)
    rank = rng.permutation(30).astype(np.int32)
    place, document = np.full_like(word, -1), np.full_like(word, -1)
    begin = np.zeros(32, dtype=np.int64)
    order_by_word(word, np.append(0, np.cumsum(length)), rank, place, document, begin)
    np.testing.assert_array_equal(place, np.argsort(rank[word], kind="stable"))
    np.testing.assert_array_equal(document, np.repeat(np.arange(200), length)[place])
    np.testing.assert_array_equal(begin[:31], np.searchsorted(np.sort(rank[word]), np.arange(31)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint64, np.uint32])
def test_more_tokens_than_are_counted_are_refused(dtype):
    """Whatever holds the counts: none becomes a small one on its way."""
    most = np.iinfo(np.uint32).max if dtype == np.uint32 else 5e9
    X = sp.csr_array(np.array([[0, most], [1, 0]]).astype(dtype))
    with pytest.raises(ValueError, match=f"tokens of feature 1.*{MOST_TOKENS:,} are the most"):
        Tokens(X, 0)
