"""Scores of "bayes": posterior predictive densities of the Gaussians."""

import numpy as np
import pytest
from by_hand import student_densities

from sklearn_sparsepost import SparseMixture

SHAPES = ["full", "tied", "diag", "spherical"]
PRIORS = {"full": 2 * np.eye(3), "tied": 2 * np.eye(3), "diag": [2.0, 1.0, 3.0], "spherical": 2.0}


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)) @ rng.normal(size=(3, 3)) + rng.normal(size=3)


@pytest.mark.parametrize(
    "shape, centered",
    [(shape, False) for shape in SHAPES] + [(s, True) for s in SHAPES if s != "tied"],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_score_is_what_one_more_row_adds_to_the_evidence(shape, centered, dtype):
    options = {
        "covariance_type": shape,
        "assume_centered": centered,
        "covariance_prior": PRIORS[shape],
        "degrees_of_freedom_prior": 3.5,
        "mean_precision_prior": 0.7,
        "mean_prior": np.ones(3),
        "reg_covar": 0,
    }
    # Of one component the bound is the evidence.
    X, more = rows(12), 2 * rows(4, seed=1)
    before = SparseMixture(1, **options).fit(X)
    found = SparseMixture(1, **options).fit(X.astype(dtype)).score_samples(more.astype(dtype))
    after = [SparseMixture(1, **options).fit(np.vstack([X, x])).lower_bound_ for x in more]
    tolerance = 1e-10 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(found, np.array(after) - before.lower_bound_, rtol=tolerance)


@pytest.mark.parametrize("shape", ["full", "tied"])
def test_scores_are_a_mixture_of_student_t_distributions(shape):
    X = np.concatenate([rows(40), rows(30, seed=1) + 9])
    mixture = SparseMixture(2, covariance_type=shape, random_state=0).fit(X)
    wanted = np.log(student_densities(mixture, X) @ mixture.weights_)
    np.testing.assert_allclose(mixture.score_samples(X), wanted, rtol=1e-9)


@pytest.mark.parametrize("estimation", ["map", "ml"])
def test_scores_of_points_are_gaussian(estimation):
    X = rows(40)
    mixture = SparseMixture(1, estimation=estimation).fit(X)
    gap = X - mixture.means_[0]
    log_det = np.linalg.slogdet(2 * np.pi * mixture.covariances_[0])[1]
    distance = np.einsum("ni,ij,nj->n", gap, mixture.precisions_[0], gap)
    np.testing.assert_allclose(mixture.score_samples(X), -0.5 * (log_det + distance))
