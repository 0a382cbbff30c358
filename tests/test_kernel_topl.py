"""Exact top-L selection: Alg. 1 and the optimality of section 3.1 of Hughes & Sudderth 2016."""

import itertools

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import logsumexp

from sklearn_sparsepost._kernels._topl import sort_by_index, topl_weights

# Few distinct values, so that ties are common; -inf is a legal log weight.
VALUES = st.sampled_from([-np.inf, -30.0, -2.5, -1.0, -1.0, 0.0, 0.5, 3.0])


def assert_matches_reference(weights, L):
    index, found = topl_weights(weights, L)
    assert index.shape == found.shape == (len(weights), min(L, weights.shape[1]))
    assert found.dtype == weights.dtype
    for row, kept, values in zip(weights, index, found, strict=True):
        np.testing.assert_array_equal(kept, reference.topl(row.astype(np.float64), L)[0])
        np.testing.assert_array_equal(values, row[kept])


@given(
    weights=st.integers(1, 40).flatmap(lambda K: arrays(np.float64, (5, K), elements=VALUES)),
    L=st.integers(1, 42),
)
def test_selection_ties_and_infinities(weights, L):
    assert_matches_reference(weights, L)


@pytest.mark.parametrize("L", [1, 2, 3, 8, 49, 50, 60])
@pytest.mark.parametrize("decimals", [1, 20])  # with ties, and without
def test_random_weights(dtype, decimals, L):
    weights = np.random.default_rng(0).normal(0, 5, (200, 50)).round(decimals).astype(dtype)
    assert_matches_reference(weights, L)


def test_equal_weights_keep_the_lowest_indices(dtype):
    index, found = topl_weights(np.zeros((2, 7), dtype=dtype), 3)
    np.testing.assert_array_equal(index, [[0, 1, 2]] * 2)
    np.testing.assert_array_equal(found, 0)


def test_rows_of_minus_infinity(dtype):
    index, found = topl_weights(np.full((1, 4), -np.inf, dtype=dtype), 2)
    np.testing.assert_array_equal(index, [[0, 1]])
    np.testing.assert_array_equal(found, -np.inf)


@pytest.mark.parametrize("shape", [(0, 4), (3, 0)])
def test_no_rows_or_no_weights(dtype, shape):
    index, found = topl_weights(np.empty(shape, dtype=dtype), 2)
    assert index.shape == found.shape == (shape[0], min(2, shape[1]))


@given(arrays(np.float64, 6, elements=st.floats(-20, 20)), st.integers(1, 6))
@settings(max_examples=60)
def test_no_other_support_gives_a_better_objective(weights, L):
    # The objective of responsibilities proportional to exp(weight) on a support is this.
    best = max(logsumexp(list(support)) for support in itertools.combinations(weights, L))
    assert logsumexp(topl_weights(weights[None], L)[1]) == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("L", [1, 7, 9])
def test_sort_by_index(dtype, L):
    rng = np.random.default_rng(2)
    index = np.argsort(rng.random((30, 9)), axis=1)[:, :L].astype(np.int32)
    weight = index.astype(dtype) / 2
    want = np.sort(index, axis=1)
    sort_by_index(index, weight)
    np.testing.assert_array_equal(index, want)
    np.testing.assert_array_equal(weight, want / 2)
