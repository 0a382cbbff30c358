"""Posterior predictive densities of Gaussian components: Student's t (Bishop, 10.81)."""

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln


class StudentTerms(NamedTuple):
    """Log densities ``constant - power * log(1 + rate * q)`` of quadratic forms q.

    Attributes
    ----------
    constant, rate : ndarray of shape (n_components,) or (n_components, n_features)
        By component; by feature as well if these are independent.
    power : ndarray of shape (n_components,) or ()
        Half the degrees of freedom and features.
    """

    constant: np.ndarray
    power: np.ndarray
    rate: np.ndarray


def student_terms(log_det, *, size, freedom, width, mean_precision=None):
    r"""Integrate a Gaussian over the posterior of its mean and precision.

    With :math:`\mu` normal of precision :math:`\beta \Lambda` around m, and :math:`\Lambda` Wishart
    of mean :math:`s W`, the density of x is that of Student's t with f degrees of freedom, whose
    quadratic form is :math:`f \beta / (1 + \beta) (x - m)^T W (x - m)`.

    Parameters
    ----------
    log_det : ndarray of shape (n_components,), (n_components, n_features) or ()
        Log-determinants of the expected precisions, those of each feature if these are independent.
    size : ndarray of shape (n_components,) or ()
        What the expected precision is divided by for its scale matrix, s.
    freedom : ndarray of shape (n_components,) or ()
        Degrees of freedom, f.
    width : int
        How many features share a precision.
    mean_precision : ndarray of shape (n_components,), default=None
        Of the means, :math:`\beta`; None if these are known.

    Returns
    -------
    terms : StudentTerms
        For quadratic forms in the expected precision.
    """
    rate = 1 / size
    if mean_precision is not None:
        rate = rate * mean_precision / (1 + mean_precision)
    power = 0.5 * (freedom + width)
    constant = gammaln(power) - gammaln(0.5 * freedom) + 0.5 * width * np.log(rate / np.pi)
    if np.ndim(log_det) == 2:
        rate, constant = np.repeat(rate[:, None], log_det.shape[1], axis=1), constant[:, None]
    return StudentTerms(constant + 0.5 * log_det, power, rate)


def student_density(quadratic, terms):
    """Log densities of rows in components, from their quadratic forms.

    Parameters
    ----------
    quadratic : ndarray of shape (n_rows, n_components)
        Not below 0 but for rounding; overwritten.
    terms : StudentTerms
        Of the components.

    Returns
    -------
    values : ndarray of shape (n_rows, n_components)
        The log densities.
    """
    np.maximum(quadratic, 0, out=quadratic)
    quadratic *= terms.rate
    np.log1p(quadratic, out=quadratic)
    quadratic *= -terms.power
    quadratic += terms.constant
    return quadratic


def independent_density(rows, means, precisions, terms):
    """Log densities of rows in components whose features are independent.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features), float64
        The data.
    means, precisions : ndarray of shape (n_components, n_features)
        Of the components.
    terms : StudentTerms
        By component and feature.

    Returns
    -------
    values : ndarray of shape (n_rows, n_components)
        The log densities.
    """
    values = np.zeros((len(rows), len(means)))
    rate = terms.rate * precisions
    for d in range(rows.shape[1]):
        square = rows[:, d, None] - means[:, d]
        square *= square
        square *= rate[:, d]
        values += np.log1p(square, out=square)
    values *= -terms.power
    values += terms.constant.sum(axis=1)
    return values
