"""Kernels of matrices against numpy, worked on together and one by one."""

import numpy as np
import pytest

from sklearn_sparsepost._kernels import matrices as kernels

# Features of matrices that are worked on together, and of some that are not.
SIZES = (1, 2, 7, 8, 13, 64, 127, 130)
# More than are worked on together, and no multiple of it.
K = 11


def positive(D, n=K, seed=0):
    half = np.random.default_rng(seed).normal(size=(n, D, D + 2))
    return half @ half.transpose(0, 2, 1)


@pytest.mark.parametrize("D", [1, 6, 8, 21, 33])
@pytest.mark.parametrize("wants_first", [False, True])
@pytest.mark.parametrize("block", [1, 20, 64])
def test_scatter(dtype, block, wants_first, D):
    n_rows = 300
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(n_rows, D + 2)).astype(dtype)  # the last two are not looked at
    share = rng.uniform(size=(n_rows, K)) * (rng.uniform(size=(n_rows, K)) < 0.3)
    share[:, 4] = 0  # a component without rows
    held = [np.flatnonzero(column) for column in share.T]
    ptr = np.concatenate([[0], np.cumsum([len(which) for which in held])]).astype(np.int32)
    which = np.concatenate(held).astype(np.int32)
    second, first = np.full((K, D, D), np.nan), np.full((K if wants_first else 0, D), np.nan)
    kernels.scatter(rows, ptr, which, share.T[share.T > 0], second, first, block=block)
    exact = rows[:, :D].astype(np.float64)
    wanted = np.einsum("nk,ni,nj->kij", share, exact, exact)
    np.testing.assert_allclose(second, wanted, atol=1e-10)
    assert (second[4] == 0).all()
    np.testing.assert_array_equal(np.tril(second, -1).transpose(0, 2, 1), np.triu(second, 1))
    if wants_first:
        np.testing.assert_allclose(first, share.T @ exact, atol=1e-10)


@pytest.mark.parametrize("D", SIZES)
def test_invert_factors(D):
    covariances = positive(D)
    factors = covariances.copy()
    assert kernels.invert_factors(factors)
    np.testing.assert_array_equal(factors, np.triu(factors))
    assert (np.einsum("kii->ki", factors) > 0).all()
    inverse = factors @ factors.transpose(0, 2, 1)
    np.testing.assert_allclose(inverse @ covariances, np.tile(np.eye(D), (K, 1, 1)), atol=1e-7)
    for some in (slice(0, 1), slice(2, 5), slice(1, 10)):  # whatever is beside it
        alone = covariances[some].copy()
        assert kernels.invert_factors(alone)
        np.testing.assert_array_equal(alone, factors[some])


@pytest.mark.parametrize("D", [1, 7, 130])
@pytest.mark.parametrize("which", [0, 3, K - 1])
@pytest.mark.parametrize("fault", ["negative", "singular"])
def test_invert_factors_tells_of_what_is_not_positive_definite(D, which, fault):
    covariances = positive(D)
    covariances[which, -1, -1] *= -1 if fault == "negative" else 0
    assert not kernels.invert_factors(covariances)


@pytest.mark.parametrize("D", SIZES)
@pytest.mark.parametrize("has_means", [False, True])
def test_turn_factors(dtype, D, has_means):
    rng = np.random.default_rng(1)
    n_columns = -(-D // 8) * 8
    factors = np.zeros((K, D, n_columns), dtype)
    factors[:, :, :D] = np.triu(rng.normal(size=(K, D, D)))
    turn, spread = rng.normal(size=(D, D)), rng.uniform(1, 3, size=D)
    which = rng.permutation(K)[:9].astype(np.int32)
    means = rng.normal(size=(9 if has_means else 0, D))

    def turned(held):
        m = len(which[held])
        out = np.full((m, D, n_columns), np.nan, np.float32)
        offset, diagonal = np.full((2, m, D), np.nan)
        length = np.full((m, 2), np.nan)
        kernels.turn_factors(
            turn, factors, which[held], means[held], spread, out, offset, diagonal, length
        )
        return out, offset, diagonal, length

    out, offset, diagonal, length = turned(slice(None))
    found, product = out[:, :, :D].astype(np.float64), turn @ factors[which, :, :D]
    np.testing.assert_array_equal(found, np.triu(found))
    assert not out[:, :, D:].any()
    wanted = product @ product.transpose(0, 2, 1)
    np.testing.assert_allclose(
        found @ found.transpose(0, 2, 1), wanted, atol=1e-6 * np.abs(wanted).max()
    )
    close = {"rtol": 1e-5, "atol": 1e-5}
    np.testing.assert_allclose(diagonal, np.abs(np.einsum("kii->ki", found)), **close)
    shift = np.einsum("kd,kdp->kp", means, found) if has_means else np.zeros((9, D))
    np.testing.assert_allclose(offset, shift, **close)
    for j, rows in enumerate((found, spread[:, None] * found)):
        longest = np.sqrt((rows**2).sum(axis=1)).max(axis=1)
        np.testing.assert_allclose(length[:, j], longest, rtol=1e-5)
    for some in (slice(0, 1), slice(4, 9)):  # whatever is beside it
        for alone, together in zip(turned(some), (out, offset, diagonal, length), strict=True):
            np.testing.assert_array_equal(alone, together[some])


def test_turn_factors_of_nothing():
    """A component that has no width in some coordinates."""
    factors = np.zeros((2, 3, 8))
    factors[1, 0, 0] = 2
    out = np.empty((2, 3, 8), np.float32)
    offset, diagonal = np.empty((2, 2, 3))
    kernels.turn_factors(
        np.eye(3), factors, np.arange(2, dtype=np.int32), np.empty((0, 3)), np.ones(3), out,
        offset, diagonal, np.empty((2, 2)),
    )  # fmt: skip
    assert not out[0].any()
    np.testing.assert_allclose(diagonal, [[0, 0, 0], [2, 0, 0]])
