"""Coordinates in which statistics of Gaussians are kept, and what things are in these."""

import numpy as np

from sklearn_sparsepost._kernels import matrices
from sklearn_sparsepost._kernels import mixture as kernels
from sklearn_sparsepost._run.threads import map_slices, single_blas

# No axis counts as shorter than this part of the longest, or than this.
LEAST_RATIO, LEAST_SCALE = 1e-6, 1e-20
# Rows in single precision are turned in it if no axis is shorter than this part of the longest.
LEAST_SINGLE = 2e-3


class Moved:
    """Rows from another origin, so that their second moments keep their digits.

    Parameters
    ----------
    origin : ndarray of shape (n_features,)
        What is subtracted.
    """

    # log |dy / dx|, what log densities of rows are more than those of moved ones.
    log_det = 0.0

    def __init__(self, origin):
        self.origin = origin

    def rows(self, rows):
        """The rows in these coordinates."""
        if not self.origin.any():
            return rows
        return self._moved(rows).astype(rows.dtype, copy=False)

    def _moved(self, rows):
        return np.subtract(rows, self.origin, dtype=np.float64) if self.origin.any() else rows

    def means(self, means):
        """Points in these coordinates."""
        return means - self.origin

    def covariances(self, covariances):
        """Covariances, or variances, in these coordinates."""
        return covariances

    def given(self, estimates):
        """Estimates as users see them."""
        return dict(estimates, means=estimates["means"] + self.origin)

    def taken(self, attributes):
        """The estimates again."""
        return dict(attributes, means=attributes["means"] - self.origin)


class Whitened(Moved):
    """Rows in the principal axes of the data, largest first, each divided by its deviation.

    Sums of products of such rows keep most of their digits even in single precision, and their
    first features tell most components from where a row is.

    Parameters
    ----------
    origin : ndarray of shape (n_features,)
        What is subtracted.
    covariance : ndarray of shape (n_features, n_features)
        The data's, about the origin.
    """

    def __init__(self, origin, covariance):
        super().__init__(origin)
        with single_blas():  # threads would leave other last bits
            variances, axes = np.linalg.eigh(covariance)
        deviations = np.sqrt(np.maximum(variances, 0))
        if not deviations[-1]:
            deviations[:] = 1
        least = max(LEAST_RATIO * deviations[-1], LEAST_SCALE)
        # In one piece, as it is when it is read again: powers by vectors have other last bits.
        self.scales = np.ascontiguousarray(np.maximum(deviations, least)[::-1])
        axes = axes[:, ::-1]
        # Rows are multiplied by the one, and points in these coordinates by the other.
        self.forth = np.ascontiguousarray(axes / self.scales)
        self.back = np.ascontiguousarray((axes * self.scales).T)
        self.log_det = -np.log(self.scales).sum()
        self._single = self.scales[-1] > LEAST_SINGLE * self.scales[0]

    def rows(self, rows):
        """The rows in these coordinates, each the same whatever rows are beside it."""
        single = rows.dtype == np.float32 and self._single
        dtype = np.dtype(np.float32 if single else np.float64)
        moved = np.ascontiguousarray(self._moved(rows), dtype=dtype)
        white = np.empty(rows.shape, dtype)
        kernels.products(moved, self.forth.astype(dtype), np.zeros(rows.shape[1], dtype), white)
        return white.astype(rows.dtype, copy=False)

    def means(self, means):
        """Points in these coordinates."""
        return (means - self.origin) @ self.forth

    def covariances(self, covariances):
        """Covariances in these coordinates."""
        return _between(self.forth, covariances)

    def unit(self):
        """What covariances of 1, or reg_covar times it, are in these coordinates: a diagonal."""
        return self.scales**-2

    def given(self, estimates):
        """Estimates as users see them."""
        return dict(
            estimates,
            means=estimates["means"] @ self.back + self.origin,
            covariances=_between(self.back, estimates["covariances"]),
            precisions_cholesky=_turned(self.forth, estimates["precisions_cholesky"]),
        )

    def taken(self, attributes):
        """The estimates again."""
        return dict(
            attributes,
            means=self.means(attributes["means"]),
            covariances=self.covariances(attributes["covariances"]),
            precisions_cholesky=_turned(self.back, attributes["precisions_cholesky"]),
        )


def _between(matrix, covariances):
    """M^T C M for each C, symmetric to the last bit."""
    with single_blas():
        found = matrix.T @ covariances @ matrix
    return 0.5 * (found + np.swapaxes(found, -1, -2))


def _turned(turn, factors):
    """Upper triangular U of positive diagonals with U U^T = T F F^T T^T for each factor F."""
    factors = np.ascontiguousarray(factors)
    found = np.empty_like(factors)
    map_slices(lambda held: matrices.turn_factors(turn, factors[held], found[held]), len(factors))
    return found
