"""The special functions of `_math.pxd` against scipy, through the kernels that use them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from sklearn_sparsepost._kernels import topic_documents, topic_stats, topic_words

GRID = np.concatenate([np.geomspace(1e-6, 1e9, 20001), np.arange(0.25, 64, 0.25)])


def relative_error(got, want, floor):
    return np.max(np.abs(got - want) / np.maximum(np.abs(want), floor))


def every(x):
    return np.arange(len(x), dtype=np.int32)


def topic_weights(counts, prior, topic_digamma, dtype, n_threads=1):
    """exp(psi(prior + count) - topic_digamma), scaled so that each row's largest is 1."""
    K = counts.shape[1]
    prior = np.broadcast_to(prior, counts.shape)
    return topic_words.topic_rows(
        counts, 1.0, prior, every(counts), topic_digamma, K, dtype, n_threads
    )[0]


def expdigamma(x, dtype, n_threads=1):
    """exp(psi(x)) relative to exp(psi(1000)), which is known well."""
    counts = np.column_stack([x, np.full(len(x), 1000.0)]).astype(np.float64)
    weight = topic_weights(counts, 0.0, np.zeros(2), dtype, n_threads).astype(np.float64)
    return weight[:, 0] / weight[:, 1] * np.exp(special.psi(1000.0))


def digamma(x, n_threads=1):
    """psi(x): what one count more than expected adds."""
    x = np.asarray(x)[:, None]
    zeros = np.zeros(x.shape)
    return topic_stats.dirichlet_gap_terms(zeros + 1, 1.0, zeros, 1.0, x, np.zeros(1), n_threads)


def gammaln(x, n_threads=1):
    """log Gamma(x): the counts that lead from a prior of 1 to x, or from x to 1."""
    prior = np.minimum(x, 1)[:, None]
    sign = np.where(x < 1, -1, 1)
    return sign * topic_stats.dirichlet_bound_terms(np.abs(x - 1)[:, None], 1.0, prior, n_threads)


def log_in_double(x):
    """log(x) as the statistics sum it: of one token of each word, in one topic."""
    ptr, row = np.arange(len(x) + 1), np.arange(len(x), dtype=np.int32)
    return topic_stats.sum_by_word(
        ptr, ptr[:-1], np.zeros((len(x), 1), np.int32), np.ones((len(x), 1)), x[:, None], row
    )[-1]


def log_in_bound(x):
    """log(x) as the bound has it: of documents of one token, in one topic."""
    n, dtype = len(x), x.dtype
    nothing = np.empty((n, 0), np.int32), np.empty((n, 0), dtype)
    report = topic_documents.fit_documents(
        np.arange(n + 1),
        every(x),
        np.ones(n, dtype),
        x[:, None],
        *nothing,
        np.ones(1, dtype),
        np.zeros(1),
        sparsity_level=1,
        max_iter=1,
        tol=0.0,
    )[3]
    return report[:, 1]


def test_digamma():
    # near its root at 1.46 the digamma function loses relative accuracy: hence the floor
    assert relative_error(digamma(GRID), special.psi(GRID), 1.0) < 4e-14


def test_expdigamma(dtype):
    x = GRID.astype(dtype)
    got = expdigamma(x, dtype)
    want = np.exp(special.psi(x.astype(np.float64)))
    # In a row, what is under this part of the largest is raised to it.
    least = 1e-28 if dtype == np.float32 else 1e-280
    kept = want > 1e4 * least
    assert relative_error(got[kept], want[kept], 0) < (2e-5 if dtype == np.float32 else 2e-12)
    assert np.all(got[~kept] <= 1.1e4 * least)


def test_expdigamma_is_smooth_where_the_shift_ends(dtype):
    x = np.linspace(31.9, 32.1, 401).astype(dtype)
    want = np.exp(special.psi(x.astype(np.float64)))
    assert relative_error(expdigamma(x, dtype), want, 0) < (1e-6 if dtype == np.float32 else 1e-14)


def test_gammaln():
    assert relative_error(gammaln(GRID), special.gammaln(GRID), 1.0) < 1e-13


def test_log(dtype):
    x = np.geomspace(1e-30, 1e30, 20001).astype(dtype)
    want = np.log(x.astype(np.float64))
    if dtype == np.float64:
        assert relative_error(log_in_double(x), want, 1.0) < 4e-16
    assert relative_error(log_in_bound(x), want, 1.0) < (6e-7 if dtype == np.float32 else 2e-15)


def test_exp_of_nonpositive(dtype):
    # One word that no topic has ever had, under a prior so small that weights are formed in logs.
    prior = 0.0155 if dtype == np.float32 else 0.00155
    x = np.concatenate([[0.0], -np.geomspace(1e-8, 60, 5001), [-1e4, -1e30]]).astype(dtype)
    topic_digamma = special.psi(prior) - x.astype(np.float64)
    got = topic_weights(np.zeros((1, len(x))), prior, topic_digamma, dtype)[0]
    want = np.exp(special.psi(prior) - topic_digamma)
    tolerance = 4e-6 if dtype == np.float32 else 2e-14
    assert relative_error(got[:-2], want[:-2], 0) < tolerance
    assert np.all(got[-2:] < (2e-28 if dtype == np.float32 else 2e-280))


@given(st.floats(1e-3, 1e12))
def test_digamma_recurrence(x):
    low, high = digamma([x, x + 1])
    assert high - low == pytest.approx(1 / x, rel=1e-9, abs=1e-13 * max(1, abs(high)))


def test_threads_do_not_change_bits(dtype):
    assert expdigamma(GRID, dtype, 1).tobytes() == expdigamma(GRID, dtype, 3).tobytes()
    assert digamma(GRID, 1).tobytes() == digamma(GRID, 2).tobytes()
    assert gammaln(GRID, 1).tobytes() == gammaln(GRID, 2).tobytes()
