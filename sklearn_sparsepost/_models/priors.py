"""Priors of observation models: what users give, checked, or what follows from the data."""

import warnings
from numbers import Real

import numpy as np

from sklearn_sparsepost._checks import (
    MOST_PRIOR,
    MOST_VALUE,
    PRIOR,
    Interval,
    StrOptions,
    number_array,
    positive_array,
)
from sklearn_sparsepost._models.discrete import Bernoulli, Multinomial
from sklearn_sparsepost._models.gaussian import MATRICES, FullGaussian, TiedGaussian
from sklearn_sparsepost._models.gaussian_axes import AxisGaussian

# Deviation, relative to the mean, below which a feature counts as constant.
CONSTANT, EPSILON = 1e-12, np.finfo(float).eps

# What an estimator's parameters may be that say what Gaussians look like.
GAUSSIAN_PARAMETERS = {
    "covariance_type": [StrOptions({"full", "tied", "diag", "spherical"})],
    "assume_centered": ["boolean"],
    "mean_precision_prior": [None, PRIOR],
    "mean_prior": [None, "array-like"],
    "degrees_of_freedom_prior": [None, PRIOR],
    "covariance_prior": [None, Interval(Real, 0, None, closed="neither"), "array-like"],
    "reg_covar": [Interval(Real, 0, MOST_PRIOR, closed="both")],
}


def compact_prior(beta):
    """A prior of features in components, as given, as a compact table features x components.

    Parameters
    ----------
    beta : float or ndarray of shape (), (n_features,) or (n_components, n_features)
        The prior.

    Returns
    -------
    prior : ndarray of shape (1, 1), (n_features, 1) or (n_features, n_components)
        The same.
    """
    beta = np.asarray(beta, dtype=np.float64)
    return np.ascontiguousarray(beta.T if beta.ndim == 2 else beta.reshape(-1, 1))


def feature_prior(given, default, name, n_features, n_components=None):
    """A Dirichlet prior of features as users give it, checked.

    Parameters
    ----------
    given : float, array-like or None
        What the user gave.
    default : float
        What None stands for.
    name : str
        Its name.
    n_features : int
        Number of features: there may be one value for each.
    n_components : int, default=None
        Number of components, if there may be a row for each.

    Returns
    -------
    prior : ndarray of shape (), (n_features,) or (n_components, n_features), float64
        The prior.

    Raises
    ------
    ValueError
        If it is not positive, or of another shape.
    """
    shapes = {"one value": (), "one a feature": (n_features,)}
    if n_components is not None:
        shapes["components x features"] = (n_components, n_features)
    return positive_array(default if given is None else given, name, shapes)


def discrete_observation(kind, estimation, given, n_features):
    """A model of counts or bits, with its prior.

    Parameters
    ----------
    kind : {"multinomial", "bernoulli"}
        Which.
    estimation : {"bayes", "map", "ml"}
        What is kept of a component.
    given : float, array-like of shape (n_features,) or None
        The estimator's `feature_prior`.
    n_features : int
        Number of features.

    Returns
    -------
    observation : Multinomial or Bernoulli
        The model.
    """
    default = 1.0 if kind == "bernoulli" else 0.1
    prior = feature_prior(given, default, "feature_prior", n_features)
    prior = np.broadcast_to(prior, (n_features,)).copy()
    if kind == "bernoulli":
        return Bernoulli(estimation, np.stack([prior, prior], axis=1))
    return Multinomial(estimation, compact_prior(prior), n_features)


def gaussian_observation(params, mean, covariance, *, n_samples, dtype, depth=6):
    """A Gaussian model, with the prior that users give or that follows from the data's moments.

    Parameters
    ----------
    params : dict
        The estimator's parameters.
    mean : ndarray of shape (n_features,)
        Mean of the data.
    covariance : ndarray
        Their covariance, shaped by `covariance_type`.
    n_samples : int
        Number of rows.
    dtype : dtype
        Type of the data.
    depth : int, default=6
        How many calls above here the user is, whom warnings are for.

    Returns
    -------
    observation : FullGaussian, TiedGaussian or AxisGaussian
        The model.
    """
    D, kind, reg_covar = len(mean), params["covariance_type"], params["reg_covar"]
    variances = np.diag(covariance) if kind in MATRICES else covariance
    rounding = (CONSTANT * mean) ** 2
    if not (np.broadcast_to(variances, (D,)) > rounding).all() and n_samples > 1:
        warnings.warn(
            f"some features are constant: only reg_covar={reg_covar} keeps their variances from 0",
            UserWarning,
            stacklevel=depth,  # past the validation that wraps `fit`
        )
    if kind == "tied" and params["assume_centered"]:
        raise ValueError("covariance_type='tied' with assume_centered=True: all components are one")
    nu = params["degrees_of_freedom_prior"]
    nu = D if nu is None else nu
    if nu <= D - 1:
        raise ValueError(
            f"degrees_of_freedom_prior must be greater than {D - 1}, one less than the number of "
            f"features, got {nu}"
        )
    mean_prior = mean
    if params["mean_prior"] is not None:
        most = MOST_VALUE[dtype]
        shapes = {"one a feature": (D,)}
        mean_prior = number_array(params["mean_prior"], "mean_prior", shapes, -most, most)
    given = params["mean_precision_prior"]
    options = {
        "assume_centered": params["assume_centered"],
        "mean_precision_prior": 1.0 if given is None else float(given),
        "mean_prior": mean_prior,
        "degrees_of_freedom_prior": float(nu),
        "covariance_prior": _covariance_prior(params, covariance, dtype),
        "reg_covar": reg_covar,
        "origin": mean,
        "covariance": covariance,
    }
    if kind == "full":
        return FullGaussian(params["estimation"], **options)
    if kind == "tied":
        return TiedGaussian(params["estimation"], **options)
    return AxisGaussian(params["estimation"], spherical=kind == "spherical", **options)


def _covariance_prior(params, covariance, dtype):
    """The prior's scale: what was given, checked, or from the data's covariance, made invertible.

    Of full covariances, which are narrow in some directions, all components' priors together are
    worth the data's covariance; a process does not know how many there will be.
    """
    kind, reg_covar = params["covariance_type"], params["reg_covar"]
    full = kind in MATRICES
    if params["covariance_prior"] is None:
        weights = params.get("weight_concentration_prior_type")
        if kind == "full" and weights == "dirichlet_distribution":
            covariance = covariance / params["n_components"]
        variances = np.linalg.eigvalsh(covariance) if full else np.atleast_1d(covariance)
        singular = variances.min() <= len(variances) * EPSILON * variances.max()
        if variances.min() >= reg_covar and not singular:
            return covariance
        if not reg_covar and params["estimation"] != "ml":
            raise ValueError(
                "the data's covariance is not positive definite, so that it cannot be the prior: "
                "raise reg_covar or give covariance_prior"
            )
        # Mean-free patches, for one, have no variance in one direction.
        return covariance + (reg_covar * np.eye(len(covariance)) if full else reg_covar)
    most = MOST_VALUE[dtype] ** 2
    shapes = {f"covariance_type={kind!r}": covariance.shape}
    prior = number_array(params["covariance_prior"], "covariance_prior", shapes, -most, most)
    definite = not full or np.allclose(prior, prior.T)
    least = (np.linalg.eigvalsh(prior) if full else prior).min()
    if not definite or least <= 0:
        raise ValueError("covariance_prior must be symmetric and positive definite")
    if least < 1 / most:
        raise ValueError(
            f"covariance_prior has a variance of {least:.3g}, but {1 / most:g} is the least that "
            f"{dtype} computes with"
        )
    return prior
