"""Exact top-L selection: Alg. 1 and the optimality of section 3.1 of paper 000."""

import itertools

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sklearn_sparsepost._kernels._topl import topl_responsibilities, topl_weights

# Few distinct values, so that ties are common; -inf is a legal log weight.
VALUES = st.sampled_from([-np.inf, -30.0, -2.5, -1.0, -1.0, 0.0, 0.5, 3.0])


def assert_matches_reference(weights, L, atol):
    index, resp = topl_responsibilities(weights, L)
    assert index.shape == resp.shape == (len(weights), min(L, weights.shape[1]))
    assert resp.dtype == weights.dtype
    for row, kept, r in zip(weights, index, resp, strict=True):
        want_kept, want = reference.topl(row.astype(np.float64), L)
        np.testing.assert_array_equal(kept, want_kept)
        np.testing.assert_allclose(r, want, atol=atol, rtol=10 * atol)


@given(
    weights=st.integers(1, 9).flatmap(lambda K: arrays(np.float64, (5, K), elements=VALUES)),
    L=st.integers(1, 11),
)
def test_selection_ties_and_infinities(weights, L):
    assert_matches_reference(weights, L, 1e-14)


@pytest.mark.parametrize("L", [1, 2, 8, 49, 50, 60])
def test_random_weights(dtype, L):
    weights = np.random.default_rng(0).normal(0, 5, (200, 50)).astype(dtype)
    assert_matches_reference(weights, L, 1e-6 if dtype == np.float32 else 1e-14)


def test_equal_weights_keep_the_lowest_indices(dtype):
    index, resp = topl_responsibilities(np.zeros((2, 7), dtype=dtype), 3)
    np.testing.assert_array_equal(index, [[0, 1, 2]] * 2)
    np.testing.assert_allclose(resp, 1 / 3, rtol=1e-6)


def test_rows_of_minus_infinity_are_shared_equally(dtype):
    index, resp = topl_responsibilities(np.full((1, 4), -np.inf, dtype=dtype), 2)
    np.testing.assert_array_equal(index, [[0, 1]])
    np.testing.assert_allclose(resp, 0.5)


@given(arrays(np.float64, 6, elements=st.floats(-20, 20)), st.integers(1, 6))
@settings(max_examples=60)
def test_no_other_support_gives_a_better_objective(weights, L):
    index, resp = topl_responsibilities(weights[None], L)
    best = -np.inf
    for support in itertools.combinations(range(6), L):
        w = weights[list(support)]
        best = max(best, np.log(np.exp(w - w.max()).sum()) + w.max())
    r = resp[0][resp[0] > 0]
    kept = index[0][resp[0] > 0]
    got = (r * weights[kept]).sum() - (r * np.log(r)).sum()
    assert got == pytest.approx(best, abs=1e-9)


def test_threads_do_not_change_bits(dtype):
    weights = np.random.default_rng(1).normal(size=(1000, 30)).astype(dtype)
    for a, b in zip(
        topl_responsibilities(weights, 5, 1), topl_responsibilities(weights, 5, 3), strict=True
    ):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("level", [1, 3, 40, 60])
def test_topl_weights_are_the_largest_as_they_are(dtype, level):
    rng = np.random.default_rng(0)
    weight = np.round(rng.normal(size=(50, 40)), 1).astype(dtype)  # with ties
    weight[3] = -np.inf
    index, found = topl_weights(weight, level)
    assert index.shape == found.shape == (50, min(level, 40))
    for row, kept, values in zip(weight, index, found, strict=True):
        np.testing.assert_array_equal(kept, reference.topl(row, level)[0])
        np.testing.assert_array_equal(values, row[kept])
