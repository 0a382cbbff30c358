"""Special functions against scipy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special as scipy_special

from sklearn_sparsepost._kernels import special

GRID = np.concatenate([np.geomspace(1e-6, 1e9, 20001), np.arange(0.25, 64, 0.25)])


def relative_error(got, want, floor):
    return np.max(np.abs(got - want) / np.maximum(np.abs(want), floor))


def test_digamma(dtype):
    x = GRID.astype(dtype)
    got = special.digamma(x)
    assert got.dtype == dtype
    want = scipy_special.psi(x.astype(np.float64))
    # near its root at 1.46 the digamma function loses relative accuracy: hence the floor
    assert relative_error(got, want, 1.0) < (4e-6 if dtype == np.float32 else 4e-14)


def test_expdigamma(dtype):
    x = GRID.astype(dtype)
    got = special.expdigamma(x)
    want = np.exp(scipy_special.psi(x.astype(np.float64)))
    least = 1e-29 if dtype == np.float32 else 1e-280
    kept = want > 100 * least  # what is smaller may be flushed to 0
    assert relative_error(got[kept], want[kept], 0) < (2e-5 if dtype == np.float32 else 2e-12)
    assert np.all(got[~kept] <= 1000 * least)


def test_expdigamma_is_smooth_where_the_shift_ends(dtype):
    x = np.linspace(31.9, 32.1, 401).astype(dtype)
    want = np.exp(scipy_special.psi(x.astype(np.float64)))
    assert relative_error(special.expdigamma(x), want, 0) < (1e-6 if dtype == np.float32 else 1e-14)


def test_gammaln():
    got = special.gammaln(GRID)
    assert relative_error(got, scipy_special.gammaln(GRID), 1.0) < 1e-13


def test_log(dtype):
    x = np.geomspace(1e-30, 1e30, 20001).astype(dtype)
    want = np.log(x.astype(np.float64))
    assert relative_error(special.log(x), want, 1.0) < (2e-7 if dtype == np.float32 else 4e-16)


def test_exp_of_nonpositive(dtype):
    x = np.concatenate([-np.geomspace(1e-8, 60, 5001), [0.0]]).astype(dtype)
    got = special.exp_nonpos(x)
    assert relative_error(got, np.exp(x.astype(np.float64)), 0) < (
        4e-6 if dtype == np.float32 else 2e-14
    )
    assert np.array_equal(special.exp_nonpos(np.array([-1e4, -1e30], dtype=dtype)), [0, 0])


@given(st.floats(1e-3, 1e12))
def test_digamma_recurrence(x):
    low, high = special.digamma(np.array([x, x + 1]))
    assert high - low == pytest.approx(1 / x, rel=1e-9, abs=1e-13 * max(1, abs(high)))


def test_threads_do_not_change_bits(dtype):
    x = GRID.astype(dtype)
    assert special.expdigamma(x, 1).tobytes() == special.expdigamma(x, 3).tobytes()
    assert special.digamma(x, 1).tobytes() == special.digamma(x, 2).tobytes()
