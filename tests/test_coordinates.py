"""Coordinates in which full Gaussians are fitted, and that nobody sees them."""

from contextlib import nullcontext

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from sklearn_sparsepost import SparseMixture
from sklearn_sparsepost._models.coordinates import Whitened
from sklearn_sparsepost._models.gaussian import LEAST_FLOOR


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    return 50 + (rng.standard_normal((3000, 6)) * np.logspace(0, -2, 6)) @ turn


def test_rows_have_variance_one_and_points_come_back(data):
    coordinates = Whitened(data.mean(axis=0), np.cov(data.T))
    white = coordinates.rows(data)
    np.testing.assert_allclose(np.cov(white.T), np.eye(6), atol=1e-9)
    np.testing.assert_allclose(white, coordinates.means(data), atol=1e-9)
    assert (np.diff(coordinates.scales) < 0).all()
    # What densities of rows are more than those of turned ones.
    given = multivariate_normal(data.mean(axis=0), np.cov(data.T)).logpdf(data)
    turned = multivariate_normal(np.zeros(6), np.eye(6)).logpdf(white)
    np.testing.assert_allclose(given, turned + coordinates.log_det, atol=1e-8)


def test_estimates_are_those_of_the_data_again(data):
    coordinates = Whitened(data.mean(axis=0), np.cov(data.T))
    rng = np.random.default_rng(1)
    half = rng.standard_normal((4, 6, 9))
    covariances = half @ half.transpose(0, 2, 1)
    factors = np.linalg.inv(np.linalg.cholesky(covariances)).transpose(0, 2, 1)
    estimates = {
        "means": rng.standard_normal((4, 6)),
        "covariances": covariances,
        "precisions_cholesky": factors,
    }
    given = coordinates.given(estimates)
    np.testing.assert_array_equal(given["covariances"], given["covariances"].transpose(0, 2, 1))
    for matrix, factor in zip(given["covariances"], given["precisions_cholesky"], strict=True):
        np.testing.assert_array_equal(factor, np.triu(factor))
        np.testing.assert_allclose(factor.T @ matrix @ factor, np.eye(6), atol=1e-9)
    back = coordinates.taken(given)
    for name, value in estimates.items():
        np.testing.assert_allclose(back[name], value, atol=1e-9)


@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_rows_are_the_same_whatever_rows_are_beside_them(data, dtype, shift):
    X = (data + shift).astype(dtype)
    coordinates = Whitened(X.mean(axis=0, dtype=float), np.cov(X.T.astype(float)))
    together = coordinates.rows(X)
    assert together.dtype == dtype
    for some in (slice(0, 1), slice(3, 10), slice(100, 1100)):
        np.testing.assert_array_equal(coordinates.rows(X[some]), together[some])


@pytest.mark.parametrize("n_rows, scale", [(1, 1.0), (5, 0.0), (50, 0.0), (50, 1e-18), (50, 1e3)])
def test_data_without_width_in_some_directions(n_rows, scale, dtype):
    rng = np.random.default_rng(2)
    X = (scale * rng.standard_normal((n_rows, 2)) @ rng.standard_normal((2, 5))).astype(dtype)
    X = np.concatenate([X, np.full((n_rows, 1), 3)], axis=1).astype(dtype)
    mixture = SparseMixture(1, max_iter=2, random_state=0)
    with pytest.warns(UserWarning, match="constant") if n_rows > 1 else nullcontext():
        mixture.partial_fit(X)
    for name in ("means_", "covariances_", "precisions_cholesky_"):
        assert np.isfinite(getattr(mixture, name)).all(), name
    assert np.isfinite(mixture.score_samples(X)).all()


@pytest.mark.parametrize("reg_covar", [1e-6, 0.0])
@pytest.mark.parametrize("centred", [True, False])
def test_single_precision_fits_as_double_does(patches, reg_covar, centred):
    options = {"estimation": "ml", "sparsity_level": 3, "assume_centered": centred}
    options |= {"reg_covar": reg_covar, "learning_method": "batch", "max_iter": 5, "tol": 0}
    scores = {}
    for dtype in (np.float32, np.float64):
        X = patches.astype(dtype)
        mixture = SparseMixture(8, random_state=0, **options).fit(X)
        observation = mixture._observation
        floor = LEAST_FLOOR * observation.coordinates.scales[0] ** 2
        assert (observation.reg_covar > floor) == (reg_covar > 0)  # or sums would be in double
        scores[dtype] = mixture.score(X)
    np.testing.assert_allclose(scores[np.float32], scores[np.float64], atol=2e-3)


def test_tight_clusters_far_apart_keep_their_variances_in_single_precision():
    rng = np.random.default_rng(4)
    centres = np.array([[0, 0, 0], [1, 0, 1], [0, 1, -1]])
    X = (centres[np.arange(3000) % 3] + 1e-3 * rng.standard_normal((3000, 3))).astype(np.float32)
    options = {"max_iter": 3, "tol": 0, "reg_covar": 1e-6, "means_init": centres}
    mixture = SparseMixture(3, estimation="ml", learning_method="batch", **options).fit(X)
    with pytest.warns(ConvergenceWarning):
        peer = GaussianMixture(3, **options).fit(X.astype(np.float64))
    np.testing.assert_allclose(mixture.covariances_, peer.covariances_, atol=2e-9)
