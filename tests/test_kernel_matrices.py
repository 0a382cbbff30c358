"""Kernels of matrices against numpy, worked on together and one by one."""

import numpy as np
import pytest
from by_hand import upper_triangles

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
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("block", [1, 20, 64])
def test_scatter(dtype, block, single, wants_first, D):
    n_rows = 300
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(n_rows, D + 2)).astype(dtype)  # the last two are not looked at
    share = rng.uniform(size=(n_rows, K)) * (rng.uniform(size=(n_rows, K)) < 0.3)
    share[:, 4] = 0  # a component without rows
    held = [np.flatnonzero(column) for column in share.T]
    ptr = np.concatenate([[0], np.cumsum([len(which) for which in held])]).astype(np.int32)
    which = np.concatenate(held).astype(np.int32)
    packed = np.full((K, D * (D + 1) // 2), np.nan)
    first = np.full((K if wants_first else 0, D), np.nan)
    options = {"single": single, "block": block}
    kernels.scatter(rows, ptr, which, share.T[share.T > 0], packed, first, **options)
    second = np.full((K, D, D), np.nan)
    kernels.fill_squares(packed, second)
    np.testing.assert_array_equal(packed, upper_triangles(second))
    exact = rows[:, :D].astype(np.float64)
    wanted = np.einsum("nk,ni,nj->kij", share, exact, exact)
    in_single = single and dtype == np.float32
    np.testing.assert_allclose(second, wanted, atol=1e-4 if in_single else 1e-10)
    assert (second[4] == 0).all()
    np.testing.assert_array_equal(np.tril(second, -1).transpose(0, 2, 1), np.triu(second, 1))
    if wants_first:
        np.testing.assert_allclose(first, share.T @ exact, atol=1e-10)


@pytest.mark.parametrize("n_rows", [40, 5, 1])
def test_scatter_in_single_precision_keeps_the_digits_of_variances(n_rows):
    """Beside means that are large, and in double where rows are fewer than features."""
    rng = np.random.default_rng(5)
    rows = (1000 + rng.normal(size=(n_rows, 6))).astype(np.float32)
    ptr, which = np.array([0, n_rows], np.int32), np.arange(n_rows, dtype=np.int32)
    share = rng.uniform(0.1, 1, size=n_rows)
    packed, first = np.empty((1, 21)), np.empty((1, 6))
    kernels.scatter(rows, ptr, which, share, packed, first, single=True)
    second = np.empty((1, 6, 6))
    kernels.fill_squares(packed, second)
    exact = rows.astype(np.float64)
    average = share @ exact / share.sum()
    found = second[0] - np.outer(first[0], first[0]) / share.sum()
    wanted = ((exact - average).T * share) @ (exact - average)
    np.testing.assert_allclose(found, wanted, atol=1e-5 if n_rows > 5 else 1e-7)


@pytest.mark.parametrize("wants_first", [False, True])
@pytest.mark.parametrize("unit", [1, 1e-25])
def test_scatter_in_single_precision_of_shares_of_all_sizes(wants_first, unit):
    """What is too small to be seen is left out, beside the largest: all may be small."""
    rng = np.random.default_rng(6)
    n_rows, D = 700, 9
    rows = rng.normal(size=(n_rows, D)).astype(np.float32)
    share = unit * 10.0 ** rng.uniform(-30, 0, size=n_rows)
    share[:300] = unit * 1e-28  # more than are summed together
    ptr, which = np.array([0, n_rows], np.int32), np.arange(n_rows, dtype=np.int32)
    packed, first = np.empty((1, D * (D + 1) // 2)), np.empty((1 if wants_first else 0, D))
    kernels.scatter(rows, ptr, which, share, packed, first, single=True)
    exact = rows.astype(np.float64)
    wanted = (exact.T * share) @ exact
    np.testing.assert_allclose(
        packed, upper_triangles(wanted[None]), rtol=0, atol=1e-5 * np.abs(wanted).max()
    )
    if wants_first:
        np.testing.assert_allclose(first[0], share @ exact, rtol=1e-10)


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


@pytest.mark.parametrize("D", [1, 2, 3, 4, 5, 7, 64])
@pytest.mark.parametrize("of_all", [False, True])
def test_traces(D, of_all):
    rng = np.random.default_rng(7)
    matrices = positive(D, 1 if of_all else K, seed=8) - 2 * np.eye(D)  # some are not positive
    factors = np.triu(rng.normal(size=(K, D, D)))
    out = np.full(K, np.nan)
    kernels.traces(np.ascontiguousarray(upper_triangles(matrices)), factors, out)
    wanted = np.einsum("kij,kic,kjc->k", np.broadcast_to(matrices, (K, D, D)), factors, factors)
    np.testing.assert_allclose(out, wanted, rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("D", SIZES)
def test_turn_factors(D):
    rng = np.random.default_rng(1)
    factors = np.triu(rng.normal(size=(K, D, D)))
    turn = rng.normal(size=(D, D))

    def turned(held):
        out = np.full((len(factors[held]), D, D), np.nan)
        kernels.turn_factors(turn, factors[held], out)
        return out

    found, product = turned(slice(None)), turn @ factors
    np.testing.assert_array_equal(found, np.triu(found))
    assert (np.einsum("kii->ki", found) > 0).all()
    wanted = product @ product.transpose(0, 2, 1)
    np.testing.assert_allclose(
        found @ found.transpose(0, 2, 1), wanted, atol=1e-12 * np.abs(wanted).max()
    )
    for some in (slice(0, 1), slice(4, 9)):  # whatever is beside it
        np.testing.assert_array_equal(turned(some), found[some])


def test_turn_factors_of_nothing():
    """A component that has no width in some coordinates."""
    factors = np.zeros((2, 3, 3))
    factors[1, 0, 0] = 2
    out = np.full((2, 3, 3), np.nan)
    kernels.turn_factors(np.eye(3), factors, out)
    np.testing.assert_array_equal(out, factors)
