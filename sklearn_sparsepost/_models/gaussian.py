"""Gaussian components, those with matrices under Normal-Wishart priors.

Each is an :class:`~sklearn_sparsepost.observations.Observation`, as a user's own would be.
"""

import numpy as np
from scipy.special import gammaln, psi

from sklearn_sparsepost._kernels import matrices
from sklearn_sparsepost._kernels import mixture as kernels
from sklearn_sparsepost._kernels._topl import sort_by_index, topl_weights
from sklearn_sparsepost._models.coordinates import Moved, Whitened
from sklearn_sparsepost._models.gaussian_search import LEAST_SHARE, GaussianSearch, padded
from sklearn_sparsepost._models.observation import Observation
from sklearn_sparsepost._models.student import student_density, student_terms
from sklearn_sparsepost._run.memory import recycled_briefly
from sklearn_sparsepost._run.threads import map_slices

LOG_2PI = np.log(2 * np.pi)
# Bytes of matrices for which an allocator gets new pages each time.
LARGE = 2**24
# What a component of no weight divides by.
TINY = np.finfo(np.float64).tiny
# Shapes of covariances that are matrices.
MATRICES = ("full", "tied")
# Products of rows in single precision are summed in it if `reg_covar` is more than this part of the
# data's largest variance, so that what is rounded cannot make a covariance singular.
LEAST_FLOOR = 4 * float(np.finfo(np.float32).epsneg)
# The share of all data below which a component without a prior has none.
NOTHING = 1e-13


class Gaussian(Observation):
    """What the Gaussians share: means, and the split of the bound.

    Parameters
    ----------
    estimation : {"bayes", "map", "ml"}
        Posterior distributions, their modes, or maximum likelihood.
    assume_centered : bool
        Whether all means are 0.
    mean_precision_prior, mean_prior, degrees_of_freedom_prior, covariance_prior
        The prior, as scikit-learn's BayesianGaussianMixture has it; not used by "ml".
    reg_covar : float
        Added to the variances.
    origin : ndarray of shape (n_features,)
        Subtracted from all data, so that their second moments keep their digits.
    covariance : ndarray
        The data's, shaped as the components' are.
    """

    def __init__(
        self,
        estimation,
        *,
        assume_centered,
        mean_precision_prior,
        mean_prior,
        degrees_of_freedom_prior,
        covariance_prior,
        reg_covar,
        origin,
        covariance,
    ):
        super().__init__(estimation)
        self.assume_centered = assume_centered
        self.reg_covar = reg_covar
        self.n_features = len(origin)
        origin = np.zeros_like(origin) if assume_centered else origin
        self.coordinates = self._coordinates(origin, covariance)
        # Variances a component has, but for correlations, and how many features share each.
        self.n_scales, self.shared = self.n_features, 1
        uses_prior = estimation != "ml"
        self.beta = mean_precision_prior if uses_prior and not assume_centered else 0.0
        self.mean = self.coordinates.means(mean_prior) if self.beta else np.zeros_like(origin)
        self.nu = degrees_of_freedom_prior if uses_prior else 0.0
        self.scale = self.coordinates.covariances(covariance_prior) if uses_prior else 0.0
        self._given = mean_prior, covariance_prior

    def _coordinates(self, origin, covariance):
        return Moved(origin)

    def prepare(self, rows):
        """The rows in the coordinates of statistics."""
        return self.coordinates.rows(rows)

    def _moments(self, stats):
        """Counts, means of the data and of the posterior, and precisions of the latter."""
        count = np.maximum(stats.value("count"), 0)  # subtraction may leave less
        beta = self.beta + count
        if self.assume_centered:
            zeros = np.zeros((len(count), self.n_features))
            return count, zeros, zeros, beta
        first = stats.value("first")
        held = count > 0
        average = np.divide(first, count[:, None], out=np.zeros_like(first), where=held[:, None])
        mean = self.beta * self.mean + first
        np.divide(mean, beta[:, None], out=mean, where=(beta > 0)[:, None])
        return count, average, mean, beta

    def _estimates(self, count, mean, beta, scale):
        """The estimates of scatter matrices, prior included, whose memory becomes covariances."""
        nu = self.nu + count
        known = nu > NOTHING * nu.sum()  # less is what subtraction has left
        wide = (slice(None), *[None] * (scale.ndim - 1))
        covariances = np.divide(scale, np.where(known, nu, 1)[wide], out=scale)
        if not known.all():  # maximum likelihood of no data: anything that can be inverted
            covariances[~known] = self._unit() * (self.reg_covar or 1.0)
        return {
            "means": mean,
            "mean_precision": beta,
            "degrees_of_freedom": nu,
            "covariances": covariances,
            "precisions_cholesky": self._factors(covariances),
        }

    def with_moments(self, stats, weights=None, means=None, precisions=None):
        """Statistics of as much data whose components have given weights, means and precisions.

        Parameters
        ----------
        stats : SuffStats
            Of a start: what is not given stays.
        weights : ndarray of shape (n_components,), default=None
            Weights, which sum to 1.
        means : ndarray of shape (n_components, n_features), default=None
            Means, with the origin.
        precisions : ndarray, default=None
            Shaped as the attribute `precisions_`.

        Returns
        -------
        stats : SuffStats
            The statistics.
        """
        new = stats.copy()
        count, average = self._moments(stats)[:2]
        covariances = self._covariances(stats, average)
        held = count > 0
        if self.axes.get("second", 0) == 0 and held.any():  # what has no data is like the others
            covariances[~held] = covariances[held].mean(axis=0)
        if precisions is not None:
            # The first step adds what is taken off here.
            covariances = self.coordinates.covariances(self._inverted(precisions))
            covariances = covariances - self.reg_covar * self._unit()
        if means is not None and not self.assume_centered:
            average = self.coordinates.means(means)
        if weights is not None:
            count = weights * count.sum()
        new.arrays["count"] = count / new.factor
        new.arrays["second"] = self._second(count, average, covariances) / new.factor
        if not self.assume_centered:
            new.arrays["first"] = count[:, None] * average / new.factor
        return new

    def _singular(self, what):
        """The error of components that cannot be inverted, with what helps."""
        ways = "raise reg_covar or covariance_prior"
        if self.estimation == "ml":
            ways = "raise reg_covar, lower n_components, or use a prior"
            ways += " (estimation='bayes' or 'map')"
        return ValueError(f"some components have {what}: {ways}")

    def _constant(self, estimates):
        """E[log N(x | mu, Lambda)] at x = mu."""
        log_det = self._point_log_det(estimates)
        constant = 0.5 * (log_det - self.n_features * LOG_2PI) + self.coordinates.log_det
        return constant - self.uncertainty(estimates)

    def uncertainty(self, estimates):
        """Half of log |E[Lambda]| - E[log |Lambda|], and of D times the variance of the mean.

        About (D + 1) D / 4 n + D / 2 n of a covariance matrix and a mean of n rows.
        """
        if self.estimation != "bayes":
            return 0.0
        loss = -0.5 * self._log_det_gap(estimates["degrees_of_freedom"])
        if not self.assume_centered:
            loss = loss + 0.5 * self.n_features / estimates["mean_precision"]
        return loss

    def _predictive(self, estimates, point, log_det):
        """Terms of the posterior predictive density if there is a posterior and `point` asks."""
        if not point or self.estimation != "bayes":
            return None
        size, freedom, width = self._student_sizes(estimates["degrees_of_freedom"])
        beta = None if self.assume_centered else estimates["mean_precision"]
        log_det = log_det + 2 * self.coordinates.log_det
        return student_terms(log_det, size=size, freedom=freedom, width=width, mean_precision=beta)

    def _log_det(self, estimates):
        """E[log |Lambda|], or log |Lambda| of point estimates."""
        log_det = self._point_log_det(estimates)
        if self.estimation == "bayes":
            log_det = log_det + self._log_det_gap(estimates["degrees_of_freedom"])
        return log_det

    def data_bound(self, stats, estimates):
        """E[log p(x | z, mu, Lambda)]."""
        count = stats.value("count")
        quadratic = self._quadratic(stats, estimates)
        constant = (count * self._constant(estimates)).sum()
        return float(constant - 0.5 * np.sum(quadratic))

    def prior_bound(self, estimates):
        """E[log p - log q] of the (Normal-)Wishart or (Normal-)Gamma posteriors.

        Of modes log p, in the parametrisation-free sense of the Jeffreys measure, where the mode
        is the posterior's mean precision.
        """
        if self.estimation == "ml":
            return 0.0
        log_det = self._log_det(estimates)
        bayes = self.estimation == "bayes"
        value = self._log_normaliser(self.nu, self._prior_log_det()) + 0.5 * self.nu * log_det
        value = value - 0.5 * self._prior_trace(estimates)
        if bayes:
            nu = estimates["degrees_of_freedom"]
            # The log-determinant of what the covariance is estimated from, nu times it.
            scale = self.n_scales * np.log(nu) - self._point_log_det(estimates) / self.shared
            value = value - self._log_normaliser(nu, scale) - 0.5 * nu * log_det
            value = value + 0.5 * nu * self.n_features
        total = np.sum(value)
        if self.beta:
            beta = estimates["mean_precision"]
            distance = self._distance(estimates, estimates["means"] - self.mean)
            value = 0.5 * (self.n_features * np.log(self.beta) - self.beta * distance)
            if bayes:
                value = value - 0.5 * self.n_features * (np.log(beta) + self.beta / beta - 1)
            else:
                value = value - 0.5 * self.n_features * LOG_2PI
            total = total + value.sum()
        return float(total)

    def similarity(self, stats):
        """Bhattacharyya coefficients, if covariances are equal: exp(-J / 8), J the divergence.

        J is the sum of the Kullback-Leibler divergences of both Gaussians to each other (H.
        Jeffreys, "An invariant form for the prior probability in estimation problems", 1946).
        """
        affinity = self._affinity(self.estimate(stats))
        own = np.diag(affinity)
        return np.exp((affinity + affinity.T - own[:, None] - own) / 8)

    def priors(self):
        """The prior, if there is one, by scikit-learn's names."""
        if self.estimation == "ml":
            return {}
        mean, scale = self._given
        found = {"degrees_of_freedom_prior": self.nu, "covariance_prior": scale}
        if not self.assume_centered:
            found |= {"mean_precision_prior": self.beta, "mean_prior": mean}
        return found

    def attributes(self, estimates):
        """The estimates in the data's coordinates, without what has no meaning here."""
        found = self.coordinates.given(estimates)
        if self.estimation == "ml":
            del found["mean_precision"], found["degrees_of_freedom"]
        elif self.assume_centered:
            del found["mean_precision"]
        return found

    def from_attributes(self, attributes):
        """The estimates again."""
        return self.coordinates.taken(attributes)


class _MatrixGaussian(Gaussian):
    """What Gaussians with covariance matrices share: the Wishart distribution of precisions."""

    def _unit(self):
        return np.eye(self.n_features)

    def _inverted(self, precisions):
        return np.linalg.inv(precisions)

    def _factors(self, covariances):
        """Upper triangular P with P P^T = covariance^-1."""
        factors = _room_for(covariances.shape)

        def inverted(held):
            factors[held] = covariances[held]
            return matrices.invert_factors(factors[held])

        if not all(map_slices(inverted, len(factors))):
            raise self._singular("covariances that are not positive definite")
        return factors

    def _student_sizes(self, nu):
        return nu, nu + 1 - self.n_features, self.n_features

    def _point_log_det(self, estimates):
        diagonal = np.einsum("...ii->...i", estimates["precisions_cholesky"])
        return 2 * np.log(diagonal).sum(axis=-1)

    def _log_det_gap(self, nu):
        """E[log |Lambda|] - log |E[Lambda]| under a Wishart."""
        D = self.n_features
        half = 0.5 * (nu[..., None] - np.arange(D))
        return psi(half).sum(axis=-1) - D * np.log(0.5 * nu)

    def _prior_log_det(self):
        return np.linalg.slogdet(self.scale)[1]

    def _log_normaliser(self, nu, log_det):
        D = self.n_features
        log_gamma = gammaln(0.5 * (np.asarray(nu)[..., None] - np.arange(D))).sum(axis=-1)
        log_gamma = log_gamma + 0.25 * D * (D - 1) * np.log(np.pi)
        return 0.5 * nu * (log_det - D * np.log(2)) - log_gamma

    def _prior_trace(self, estimates):
        factors = estimates["precisions_cholesky"]
        return np.einsum("...ij,...ij->...", self.scale @ factors, factors, optimize=True)

    def draw(self, attributes, component, size, rng):
        """Draw from N(mean, covariance)."""
        factors = attributes["precisions_cholesky"]
        factor = factors if factors.ndim == 2 else factors[component]
        noise = np.linalg.solve(factor.T, rng.standard_normal((self.n_features, size)))
        return attributes["means"][component] + noise.T


def _room_for(shape):
    """An array with any contents: new pages of a large one would cost more than what is in it."""
    large = 8 * np.prod(shape) >= LARGE
    return recycled_briefly(shape, np.float64) if large else np.empty(shape)


def _traces(packed, factors):
    """The traces of matrices, whose upper triangles are packed, times precisions."""
    out = np.empty(len(factors))
    matrices.traces(packed, factors, out)
    return out


class FullGaussian(_MatrixGaussian):
    """Gaussians with full covariances, (mu, Lambda) ~ Normal-Wishart (Hughes & Sudderth 2016, B.1).

    The statistics are ``first`` (left out if `assume_centered`) and ``second``, the sums of x and
    the upper triangles of those of x x^T, row after row, where x are rows in the principal axes of
    the data. Expectations are those of Bishop, "Pattern recognition and machine learning", 10.2.
    """

    keeps_candidates = finds_more = True

    def _coordinates(self, origin, covariance):
        return Whitened(origin, covariance + self.reg_covar * np.eye(len(origin)))

    def _unit(self):
        return np.diag(self.coordinates.unit())

    def empty(self, n_components):
        """Statistics of no data."""
        arrays = {"second": np.zeros((n_components, self._n_packed))}
        if not self.assume_centered:
            arrays["first"] = np.zeros((n_components, self.n_features))
        return arrays

    @property
    def _n_packed(self):
        return self.n_features * (self.n_features + 1) // 2

    def _squares(self, stats):
        """The sums of x x^T as matrices."""
        packed = stats.value("second")
        out = _room_for((len(packed), self.n_features, self.n_features))
        map_slices(lambda held: matrices.fill_squares(packed[held], out[held]), len(packed))
        return out

    def summarise(self, rows, resp):
        """Sums over rows, component by component; in single precision where that loses nothing."""
        by_component = resp.T.tocsr()
        n_components = by_component.shape[0]
        second = np.empty((n_components, self._n_packed))
        first = np.empty((0 if self.assume_centered else n_components, self.n_features))
        matrices.scatter(
            np.ascontiguousarray(rows),
            by_component.indptr.astype(np.int32, copy=False),
            by_component.indices.astype(np.int32, copy=False),
            by_component.data,
            second,
            first,
            single=self.reg_covar > LEAST_FLOOR * self.coordinates.scales[0] ** 2,
        )
        return {"second": second} if self.assume_centered else {"second": second, "first": first}

    def estimate(self, stats):
        """Posterior parameters (Bishop, 10.60 - 10.63)."""
        count, average, mean, beta = self._moments(stats)
        scale = self._squares(stats)
        if not self.assume_centered:
            scale -= np.einsum("k,ki,kj->kij", count, average, average)
            gap = average - self.mean
            shrink = np.divide(count * self.beta, beta, out=np.zeros_like(beta), where=beta > 0)
            scale += np.einsum("k,ki,kj->kij", shrink, gap, gap)
        scale += self.scale
        diagonal = np.einsum("kii->ki", scale)
        diagonal += (count * self.reg_covar)[:, None] * self.coordinates.unit()
        return self._estimates(count, mean, beta, scale)

    def _covariances(self, stats, average):
        count = stats.value("count")
        second = self._squares(stats)
        second /= np.maximum(count, TINY)[:, None, None]
        return second - average[:, :, None] * average[:, None, :]

    def _second(self, count, means, covariances):
        square = means[:, :, None] * means[:, None, :]
        row, column = np.triu_indices(self.n_features)
        return np.multiply(count[:, None], (covariances + square)[:, row, column], order="C")

    def _distance(self, estimates, gap):
        return (np.einsum("ki,kij->kj", gap, estimates["precisions_cholesky"]) ** 2).sum(axis=1)

    def _quadratic(self, stats, estimates):
        """Sum over data of (x - mu)^T E[Lambda] (x - mu), a component."""
        factors = estimates["precisions_cholesky"]
        quadratic = stats.factor * _traces(stats["second"], factors)
        if not self.assume_centered:
            white, other = (
                np.einsum("ki,kij->kj", points, factors)
                for points in (
                    estimates["means"],
                    stats.value("count")[:, None] * estimates["means"] - 2 * stats.value("first"),
                )
            )
            quadratic += (white * other).sum(axis=1)
        return quadratic

    def _prior_trace(self, estimates):
        scale = self.scale[np.triu_indices(self.n_features)]
        return _traces(scale[None], estimates["precisions_cholesky"])

    def n_parameters(self, n_components):
        """Means, if they are free, and the upper triangles of covariances."""
        D = self.n_features
        return n_components * (D * (D + 1) // 2 + (0 if self.assume_centered else D))

    def table(self, estimates, dtype, *, point=False):
        """Constants, padded factors and whitened means."""
        factors = estimates["precisions_cholesky"]
        offset = np.zeros(factors.shape[:2])
        if estimates["means"].any():
            offset = np.einsum("ki,kij->kj", estimates["means"], factors)
        table = {"factors": padded(factors, dtype), "offset": padded(offset, dtype)}
        terms = self._predictive(estimates, point, self._point_log_det(estimates))
        if terms is not None:
            return {**table, "student": terms, "constant": np.zeros(len(factors))}
        return {**table, "constant": self._constant(estimates)}

    def _affinity(self, estimates):
        """Minus half the expected quadratic form in each component of data from each other one."""
        factors, means = estimates["precisions_cholesky"], estimates["means"]
        K, D = means.shape
        # Their order is all that is wanted: single precision will do.
        precisions = (factors @ np.swapaxes(factors, 1, 2)).astype(np.float32)
        moments = estimates["covariances"] + means[:, :, None] * means[:, None, :]
        affinity = moments.astype(np.float32).reshape(K, D * D) @ precisions.reshape(K, D * D).T
        if means.any():
            pulled = np.einsum("kij,kj->ki", precisions, means)
            affinity += (pulled * means).sum(axis=1) - 2 * means @ pulled.T
        return -0.5 * affinity

    def log_likelihood(self, rows, table):
        """Constant - |P^T (x - mu)|^2 / 2, or Student's t of the squared length."""
        value = self._weights(rows, table, 0.0)
        if "student" not in table:
            return value
        exact = np.multiply(value, -2.0, dtype=np.float64)
        return student_density(exact, table["student"]).astype(rows.dtype, copy=False)

    def _weights(self, rows, table, log_weights):
        """One sum of all constants, rounded once, as in the search: no bit tells the two apart."""
        factors = table["factors"]
        out = np.empty((rows.shape[0], len(factors)), dtype=rows.dtype)
        rows = np.ascontiguousarray(rows)
        constant = log_weights + table["constant"]
        kernels.all_weights(rows, factors, table["offset"], constant, out)
        return out

    def settle(self, table, estimates, log_weights, *, n_rows=np.inf, n_neighbors=None):
        """Build the search if it pays, or find each component's neighbours."""
        constant = log_weights + table["constant"]
        n_components = len(constant)
        if n_neighbors is not None and n_neighbors < n_components:
            nearness = self._affinity(estimates) + constant.astype(np.float32)
            np.fill_diagonal(nearness, np.finfo(np.float32).max)  # each is its own neighbour
            return {**table, "neighbours": topl_weights(nearness, n_neighbors)[0]}
        if not GaussianSearch.pays(n_components, self.n_features, n_rows):
            return table
        search = GaussianSearch(estimates["means"], constant, table["factors"])
        again = GaussianSearch.again_pays(self.n_features, n_rows)
        return {**table, "search": search, "again": again}

    def best(self, rows, table, log_weights, level, start=None):
        """The largest weights: of neighbours only, or most others ruled out, or of all."""
        if start is not None and "neighbours" in table:
            index = start.astype(np.int32)
            weight = np.empty(index.shape, dtype=rows.dtype)
            kernels.candidate_weights(
                rows,
                table["factors"],
                table["offset"],
                log_weights + table["constant"],
                table["neighbours"],
                index,
                weight,
            )
            sort_by_index(index, weight)
            return index, weight
        search = table.get("search")
        if search is None or level * LEAST_SHARE > len(log_weights):
            return super().best(rows, table, log_weights, level)
        index, weight, far = search(rows, table, level, start)
        self._weigh_far(far, rows, table, log_weights, level, index, weight)
        return index, weight

    def _weigh_far(self, far, rows, table, log_weights, level, index, weight):
        if len(far):
            index[far], weight[far] = super().best(rows[far], table, log_weights, level)

    def best_again(self, rows, table, log_weights, level, start, found=None):
        """The same, most components ruled out by how far off they were before."""
        if not table.get("again") or level * LEAST_SHARE > len(log_weights):
            return *self.best(rows, table, log_weights, level, start), None
        index, weight, far, found = table["search"].again(rows, table, level, start, found)
        self._weigh_far(far, rows, table, log_weights, level, index, weight)
        return index, weight, found


class TiedGaussian(_MatrixGaussian):
    """Gaussians that share one covariance, mu_k given Lambda ~ Normal, Lambda ~ Wishart.

    The statistics are ``first`` and ``second``, the sums of x, and of x x^T of all components
    together. The posterior of Lambda has as many degrees of freedom more than its prior as there
    are observations, each mean's own being integrated out.
    """

    axes = {"second": None}

    def empty(self, n_components):
        """Statistics of no data."""
        D = self.n_features
        return {"second": np.zeros((D, D)), "first": np.zeros((n_components, D))}

    def summarise(self, rows, resp):
        """Sums over rows, in double."""
        rows = rows.astype(np.float64, copy=False)
        return {"second": (rows.T * resp.sum(axis=1)) @ rows, "first": resp.T @ rows}

    def estimate(self, stats):
        """Posterior parameters."""
        count, average, mean, beta = self._moments(stats)
        scale = stats.value("second") - (average.T * count) @ average
        gap = average - self.mean
        shrink = np.divide(count * self.beta, beta, out=np.zeros_like(beta), where=beta > 0)
        scale += (gap.T * shrink) @ gap + self.scale
        scale = 0.5 * (scale + scale.T)
        scale.flat[:: self.n_features + 1] += count.sum() * self.reg_covar
        nu = np.asarray(self.nu + count.sum())
        covariance = scale / nu if nu > 0 else self._unit() * (self.reg_covar or 1.0)
        return {
            "means": mean,
            "mean_precision": beta,
            "degrees_of_freedom": nu,
            "covariances": covariance,
            "precisions_cholesky": self._factors(covariance[None])[0],
        }

    def _covariances(self, stats, average):
        count = stats.value("count")
        second = stats.value("second") - (average.T * count) @ average
        return second / max(count.sum(), TINY)

    def _second(self, count, means, covariances):
        return count.sum() * covariances + (means.T * count) @ means

    def _distance(self, estimates, gap):
        return ((gap @ estimates["precisions_cholesky"]) ** 2).sum(axis=1)

    def _quadratic(self, stats, estimates):
        """Sum over data of (x - mu)^T E[Lambda] (x - mu)."""
        factor, mean = estimates["precisions_cholesky"], estimates["means"]
        cross = stats.value("first").T @ mean
        second = stats.value("second") - cross - cross.T + (mean.T * stats.value("count")) @ mean
        return ((second @ factor) * factor).sum()

    def _affinity(self, estimates):
        """Minus half the quadratic form in each component of the mean of each other one."""
        white = estimates["means"] @ estimates["precisions_cholesky"]
        square = (white**2).sum(axis=1)
        return white @ white.T - 0.5 * (square[:, None] + square)

    def table(self, estimates, dtype, *, point=False):
        """Coefficients of whitened rows, in double as those of diagonal covariances."""
        factor = estimates["precisions_cholesky"]
        white = estimates["means"] @ factor
        terms = self._predictive(estimates, point, self._point_log_det(estimates))
        constant = 0.0 if terms is not None else self._constant(estimates)
        return {
            "factor": np.ascontiguousarray(factor),
            "columns": np.ascontiguousarray(white.T),
            "constant": constant - 0.5 * (white**2).sum(axis=1),
            "student": terms,
        }

    def log_likelihood(self, rows, table):
        """Rows are whitened once, for all components."""
        exact = np.ascontiguousarray(rows, dtype=np.float64)
        white = np.empty_like(exact)
        kernels.products(exact, table["factor"], np.zeros(self.n_features), white)
        out = np.empty((rows.shape[0], len(table["constant"])))
        kernels.products(white, table["columns"], table["constant"], out)
        out -= 0.5 * (white**2).sum(axis=1)[:, None]
        if table["student"] is not None:
            out = student_density(-2 * out, table["student"])
        return out.astype(rows.dtype, copy=False)

    def n_parameters(self, n_components):
        """Means, and the upper triangle of one covariance."""
        D = self.n_features
        return n_components * D + D * (D + 1) // 2
