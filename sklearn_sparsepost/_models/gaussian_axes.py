"""Gaussian components whose covariances are diagonal or spherical: Normal-Gamma priors."""

import numpy as np
from scipy.special import gammaln, psi

from sklearn_sparsepost._kernels import mixture as kernels
from sklearn_sparsepost._models.gaussian import TINY, Gaussian
from sklearn_sparsepost._models.student import independent_density, student_density


class AxisGaussian(Gaussian):
    """Gaussians with diagonal or spherical covariances under Normal-Gamma priors.

    A precision has the prior Gamma(m nu / 2, m b / 2), where m is how many features share it: 1 if
    diagonal, all if spherical. The posterior's variances b / nu are then those of scikit-learn.
    The statistics are ``first`` (left out if `assume_centered`) and ``second``, the sums of x and
    x^2, the latter averaged over features that share.

    Parameters
    ----------
    spherical : bool, default=False
        Whether all features of a component share a variance.
    """

    def __init__(self, *args, spherical=False, **kwargs):
        super().__init__(*args, **kwargs)
        self.spherical = spherical
        self.shared = self.n_features if spherical else 1
        self.n_scales = 1 if spherical else self.n_features
        self.scale = np.broadcast_to(self.scale, (self.n_scales,))

    def _share(self, squares):
        return squares.mean(axis=-1, keepdims=True) if self.spherical else squares

    def empty(self, n_components):
        """Statistics of no data."""
        arrays = {"second": np.zeros((n_components, self.n_scales))}
        if not self.assume_centered:
            arrays["first"] = np.zeros((n_components, self.n_features))
        return arrays

    def summarise(self, rows, resp):
        """Sums over rows, in double."""
        rows = rows.astype(np.float64, copy=False)
        found = {"second": resp.T @ self._share(rows**2)}
        if not self.assume_centered:
            found["first"] = resp.T @ rows
        return found

    def estimate(self, stats):
        """Posterior parameters."""
        count, average, mean, beta = self._moments(stats)
        scale = stats.value("second")
        if not self.assume_centered:
            scale -= count[:, None] * self._share(average**2)
            np.maximum(scale, 0, out=scale)
            shrink = np.divide(count * self.beta, beta, out=np.zeros_like(beta), where=beta > 0)
            scale += shrink[:, None] * self._share((average - self.mean) ** 2)
        scale += self.scale + (count * self.reg_covar)[:, None]
        return self._estimates(count, mean, beta, scale)

    def _unit(self):
        return np.ones(self.n_scales)

    def _inverted(self, precisions):
        return 1 / (precisions[:, None] if self.spherical else precisions)

    def _factors(self, covariances):
        if not (covariances > 0).all():
            raise self._singular("variances of 0")
        return 1 / np.sqrt(covariances)

    def _student_sizes(self, nu):
        return self.shared * nu, self.shared * nu, self.shared

    def _point_log_det(self, estimates):
        return 2 * self.shared * np.log(estimates["precisions_cholesky"]).sum(axis=1)

    def _log_det_gap(self, nu):
        half = 0.5 * self.shared * nu
        return self.n_features * (psi(half) - np.log(half))

    def _prior_log_det(self):
        return np.log(self.scale).sum()

    def _log_normaliser(self, nu, log_det):
        half = 0.5 * self.shared * nu
        log_rate = log_det + self.n_scales * np.log(0.5 * self.shared)
        return half * log_rate - self.n_scales * gammaln(half)

    def _prior_trace(self, estimates):
        return self.shared * (self.scale * estimates["precisions_cholesky"] ** 2).sum(axis=1)

    def _covariances(self, stats, average):
        count = stats.value("count")
        second = stats.value("second") / np.maximum(count, TINY)[:, None]
        return second - self._share(average**2)

    def _second(self, count, means, covariances):
        return count[:, None] * (covariances + self._share(means**2))

    def _distance(self, estimates, gap):
        return ((gap * estimates["precisions_cholesky"]) ** 2).sum(axis=1)

    def _quadratic(self, stats, estimates):
        second = stats.value("second")
        if not self.assume_centered:
            mean = estimates["means"]
            first, count = stats.value("first"), stats.value("count")
            second -= self._share(2 * first * mean - count[:, None] * mean**2)
        return self.shared * (second * estimates["precisions_cholesky"] ** 2).sum(axis=1)

    def _affinity(self, estimates):
        """Minus half the expected quadratic form in each component of data from each other one."""
        means, precision = estimates["means"], estimates["precisions_cholesky"] ** 2
        affinity = (estimates["covariances"] + self._share(means**2)) @ precision.T * self.shared
        pulled = means * precision
        return means @ pulled.T - 0.5 * (affinity + (pulled * means).sum(axis=1))

    def n_parameters(self, n_components):
        """Means, if they are free, and variances."""
        return n_components * (self.n_scales + (0 if self.assume_centered else self.n_features))

    def table(self, estimates, dtype, *, point=False):
        """Coefficients of 1, and of x^2 below those of x if any."""
        precision = estimates["precisions_cholesky"] ** 2
        mean = estimates["means"]
        log_det = self._point_log_det(estimates) if self.spherical else np.log(precision)
        terms = self._predictive(estimates, point, log_det)
        if terms is not None and not self.spherical:
            return {"means": mean, "precisions": precision, "terms": terms}
        constant = 0.0 if terms is not None else self._constant(estimates)
        constant = constant - 0.5 * (precision * mean**2).sum(axis=1)
        # Terms that nearly cancel where variances are small: in double, whatever the data are.
        columns = -0.5 * np.broadcast_to(precision, mean.shape)
        if not self.assume_centered:
            columns = np.concatenate([precision * mean, columns], axis=1)
        columns = np.ascontiguousarray(columns.T)
        return {"constant": constant, "columns": columns, "student": terms}

    def log_likelihood(self, rows, table):
        """One product of all rows and their squares with all components; or feature by feature."""
        exact = rows.astype(np.float64, copy=False)
        if "means" in table:
            return independent_density(exact, **table).astype(rows.dtype, copy=False)
        squares = np.square(exact, order="C")
        exact = squares if self.assume_centered else np.concatenate([exact, squares], axis=1)
        out = np.empty((rows.shape[0], len(table["constant"])))
        kernels.products(exact, table["columns"], table["constant"], out)
        if table["student"] is not None:
            out = student_density(-2 * out, table["student"])
        return out.astype(rows.dtype, copy=False)

    def priors(self):
        """The prior; a spherical scale is one number."""
        found = super().priors()
        if self.spherical and found:
            found["covariance_prior"] = float(self.scale[0])
        return found

    def attributes(self, estimates):
        """The estimates; a spherical variance is one number."""
        found = super().attributes(estimates)
        if self.spherical:
            for name in ("covariances", "precisions_cholesky"):
                found[name] = found[name][:, 0]
        return found

    def from_attributes(self, attributes):
        """The estimates again."""
        found = super().from_attributes(attributes)
        if self.spherical:
            for name in ("covariances", "precisions_cholesky"):
                found[name] = found[name][:, None]
        return found

    def draw(self, attributes, component, size, rng):
        """Draw from independent normals."""
        noise = rng.standard_normal((size, self.n_features))
        return attributes["means"][component] + noise / attributes["precisions_cholesky"][component]
