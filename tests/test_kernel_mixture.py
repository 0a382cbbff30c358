"""Kernels of mixtures against numpy."""

import numpy as np
import pytest
from scipy.special import softmax, xlogy

from sklearn_sparsepost._kernels import matrices
from sklearn_sparsepost._kernels import mixture as kernels
from sklearn_sparsepost._kernels._topl import sort_by_index
from sklearn_sparsepost._models.gaussian_search import GaussianSearch, padded

N, K = 300, 7


def components(D, seed=0):
    """Rows, upper triangular factors and offsets."""
    rng = np.random.default_rng(seed)
    factors = np.triu(rng.normal(size=(K, D, D)))
    return rng.normal(size=(N, D)), factors, rng.normal(size=(K, D))


def squares(rows, factors, offset):
    return ((np.einsum("id,kdj->ikj", rows, factors) - offset) ** 2).sum(axis=2)


@pytest.mark.parametrize("n_rows", [0, 1, 6, N])
@pytest.mark.parametrize("D", [1, 3, 8, 13, 24, 40, 64])
def test_all_weights(dtype, D, n_rows):
    rows, factors, offset = components(D)
    rows, constant = rows[:n_rows], np.random.default_rng(1).normal(size=K)
    arrays = rows.astype(dtype), padded(factors, dtype), padded(offset, dtype)
    tolerance = 1e-12 if dtype == np.float64 else 1e-5
    out = np.full((n_rows, K), np.nan, dtype=dtype)
    kernels.all_weights(*arrays, constant, out)
    wanted = constant - 0.5 * squares(rows, factors, offset)
    np.testing.assert_allclose(out, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("n_rows", [0, 1, 6, 50])
@pytest.mark.parametrize("D", [1, 3, 64])
@pytest.mark.parametrize("n_columns", [1, 4, 8, 23, 24, 25, 49, 100])
def test_products(dtype, n_columns, D, n_rows):
    rng = np.random.default_rng(0)
    rows, columns = (
        rng.normal(size=shape).astype(dtype) for shape in ((n_rows, D), (D, n_columns))
    )
    constant = rng.normal(size=n_columns).astype(dtype)
    out = np.full((n_rows, n_columns), np.nan, dtype=dtype)
    kernels.products(rows, columns, constant, out)
    tolerance = 1e-12 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(out, rows @ columns + constant, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("D", [1, 2, 5, 8, 13, 16, 31, 64])
def test_no_bit_depends_on_the_rows_around(dtype, D):
    rng = np.random.default_rng(0)
    factors = padded(np.triu(rng.normal(size=(K, D, D))), dtype)
    offset = padded(rng.normal(size=(K, D)), dtype)
    rows, constant = rng.normal(size=(600, D)).astype(dtype), rng.normal(size=K)
    columns, start = rng.normal(size=(D, K)).astype(dtype), np.zeros(K, dtype=dtype)

    def found(rows):
        weight, product = np.empty((2, len(rows), K), dtype=dtype)
        kernels.all_weights(rows, factors, offset, constant, weight)
        kernels.products(rows, columns, start, product)
        # The search's way: rows component by component, in lists.
        index = np.tile(np.arange(K, dtype=np.int32), (len(rows), 1))
        candidate = np.empty((len(rows), K), dtype=dtype)
        every = np.arange(K, dtype=np.int32)[:, None]
        kernels.candidate_weights(rows, factors, offset, constant, every, index, candidate)
        sort_by_index(index, candidate)
        np.testing.assert_array_equal(candidate, weight)
        return np.stack([weight, product])

    together = found(rows)
    for n_rows in (1, 2, 3, 5, 8, 41):
        for first in (0, 1, 7, 255, 300, 559):
            some = slice(first, first + n_rows)
            np.testing.assert_array_equal(found(rows[some].copy()), together[:, some])


@pytest.mark.parametrize("block", [1, 100, 4096])
@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("D", [16, 24, 41])
def test_best_weights_block_by_block(dtype, D, centred, block):
    level = 3
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(N, D))
    half = rng.normal(size=(50, D, 2 * D))
    means = np.zeros((50, D)) if centred else rng.normal(size=(50, D))
    factors = half @ half.transpose(0, 2, 1) / D
    assert matrices.invert_factors(factors)
    offset = np.einsum("kd,kdp->kp", means, factors)
    constant = rng.normal(scale=5, size=50)
    search = GaussianSearch(means, constant, padded(factors, dtype))
    white = rows.astype(np.float32)
    index = np.argsort(rng.random((N, 50)), axis=1)[:, :level].astype(np.int32)
    weight = np.empty((N, level), dtype=dtype)
    n_bounds, n_more, n_exact = kernels.best_weights(
        rows.astype(dtype),
        padded(factors, dtype),
        padded(offset, dtype),
        constant,
        white,
        index=index,
        weight=weight,
        block=block,
        **search.bounds[1],
    )
    wanted = constant - 0.5 * squares(rows, factors, offset)
    np.testing.assert_array_equal(np.sort(index), np.sort(np.argsort(-wanted)[:, :level]))
    tolerance = 1e-9 if dtype == np.float64 else 1e-2
    np.testing.assert_allclose(
        weight, np.take_along_axis(wanted, index.astype(np.intp), axis=1), atol=tolerance
    )
    assert n_exact < n_more < n_bounds <= N * 50
    again = kernels.best_weights(
        rows.astype(dtype),
        padded(factors, dtype),
        padded(offset, dtype),
        constant,
        white,
        index=index,
        weight=weight,
        block=block,
        **search.bounds[1],
    )
    # What is known is not weighed twice, but for what rounding does not tell from it.
    assert N * level <= again[2] < 1.03 * N * level


@pytest.mark.parametrize("block", [1, 17, 4096])
@pytest.mark.parametrize("level", [1, 2, 4])
def test_candidate_weights(dtype, level, block):
    D, n_neighbors = 5, 3
    rows, factors, offset = components(D)
    rng = np.random.default_rng(1)
    constant = rng.normal(size=K)
    others = np.argsort(rng.random((K, K)) - 2 * np.eye(K), axis=1)[:, :n_neighbors]
    neighbours = others.astype(np.int32)
    start = np.argsort(rng.random((N, K)), axis=1)[:, :level].astype(np.int32)
    index, weight = start.copy(), np.empty((N, level), dtype=dtype)
    n_weighed = kernels.candidate_weights(
        rows.astype(dtype),
        padded(factors, dtype),
        padded(offset, dtype),
        constant,
        neighbours,
        index,
        weight,
        block=block,
    )
    wanted = constant - 0.5 * squares(rows, factors, offset)
    n_candidates = 0
    for i in range(N):
        candidates = np.unique(neighbours[start[i]])
        n_candidates += len(candidates)
        best = candidates[np.argsort(-wanted[i, candidates])][:level]
        assert set(index[i]) == set(best)
        np.testing.assert_allclose(weight[i], wanted[i, index[i]], rtol=1e-4, atol=1e-4)
    assert n_weighed == n_candidates


def quantised(factors, offset, origin, stages):
    """Factors, how many units 1 is, and the room for rounding."""
    n_pairs = -(-(factors.shape[1] + (origin > 0)) // 2)
    out = np.full((K, n_pairs, stages[-1], 2), -1, np.int16)
    scale, slack = np.empty(K, np.float32), np.empty((K, len(stages)), np.float32)
    stages = np.array(stages, np.int32)
    order = np.arange(K, dtype=np.int32)
    kernels.quantise_factors(factors, offset, order, origin, stages, out, scale, slack)
    return out, scale, slack


@pytest.mark.parametrize("origin", [0.0, 2.5])
@pytest.mark.parametrize("D", [1, 2, 13, 40])
@pytest.mark.parametrize("size", [1e-20, 1.0, 1e20])
def test_factors_in_integers(D, origin, size):
    _, factors, offset = components(D)
    factors, offset = factors * size, offset * size * (origin > 0)
    W = D + -D % 8
    out, scale, slack = quantised(factors, offset, origin, [W, W + 16])
    above = int(origin > 0)
    whole = out.transpose(0, 1, 3, 2).reshape(K, -1, W + 16)
    wanted = np.zeros(whole.shape)
    wanted[:, above : above + D, :D] = factors
    if above:
        wanted[:, 0, :D] = -offset / origin
    np.testing.assert_array_less(np.abs(whole - wanted * scale[:, None, None]), 0.51)
    length = np.sqrt((whole.astype(float) ** 2).sum(axis=1)).max()
    assert length < 46_100
    assert np.abs(whole).max() > 4000 or size < 1
    assert (slack[:, 0] == slack[:, 1]).all()  # what was added has no columns


@pytest.mark.parametrize("level", [1, 3, K])
@pytest.mark.parametrize("n_columns", [8, 16])
@pytest.mark.parametrize("origin", [0.0, 3.0])
def test_likely_components(level, n_columns, origin):
    D = 13
    rows, factors, offset = components(D)
    rows[5] *= 1e30  # overflows
    offset *= origin > 0
    constant = np.random.default_rng(1).normal(size=K)
    index = np.empty((N, level), dtype=np.int32)
    out, scale, _ = quantised(factors, offset, origin, [16])
    kernels.likely_components(
        rows.astype(np.float32),
        out,
        scale,
        origin,
        constant.astype(np.float32),
        n_columns,
        index,
    )
    first = slice(0, n_columns)
    density = constant - 0.5 * squares(rows, factors[:, :, first], offset[:, first])
    for i, found in enumerate(index):
        assert len(set(found)) == level
        if i != 5:
            least = np.sort(density[i])[-level]
            assert (density[i, found] > least - 0.01 * (1 + abs(least))).all()


@pytest.mark.parametrize("shape", [(0, 4), (1, 1), (5, 4), (3000, 3), (40, 100)])
def test_normalise_and_entropies(dtype, shape):
    rng = np.random.default_rng(0)
    weight = (rng.normal(size=shape) * 30 - 1e4).astype(dtype)
    weight[2:3, :1] -= 1e20  # what is left out counts nothing
    resp, entropy = np.full(shape, np.nan), np.full(len(weight), np.nan)
    kernels.normalise(weight, resp)
    kernels.entropies(resp, entropy)
    exact = weight.astype(np.float64)
    np.testing.assert_allclose(resp, softmax(exact, axis=1), rtol=1e-12, atol=1e-280)
    np.testing.assert_allclose(entropy, -xlogy(resp, resp).sum(axis=1), rtol=1e-12, atol=1e-14)
    assert (entropy >= 0).all()
