"""Logistic-normal topic weights, softmax(eta), eta ~ N(mean, Sigma), and their prior.

A normal distribution of logits is a value: `mean`, `covariance`, and what kernels read of it
(``arrays``). What Sigma may be is a structure, :class:`FullCovariance` or
:class:`FactorCovariance`, which draws such a value given the logits of documents.

The prior of a full Sigma is inverse Wishart, scaled so that each of its variances has the prior
that it has in the other structure: `strength` pseudo-documents that say `covariance`. In terms of
the paper (section 3.3) kappa is strength + K - 1, W is strength * covariance, and rho is
`mean_strength`.
"""

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dsyrk
from scipy.special import logsumexp, softmax

from sklearn_sparsepost._kernels import _logit_documents as kernels
from sklearn_sparsepost._models.inference import active_only
from sklearn_sparsepost._run.chunks import row_sums
from sklearn_sparsepost._run.streams import LEFT_TO_RIGHT, LOGIT_PRIOR, keyed_generator
from sklearn_sparsepost._run.threads import single_blas, threads_for

# Pseudo-documents of the prior for each document, if nobody says (Chen et al. 2013, section 5).
SHARE = 0.01
# Logits that are turned to double precision at a time.
BLOCK = 1 << 22
# And those that stay in a core's cache while their products are summed.
CACHED = 1 << 15
# But no fewer rows, or the sums are read and written more often than they gain by it.
LEAST_ROWS = 256
# What a draw of a component costs, in multiplications.
WORK_A_LOGIT = 50
# Sweeps over a document whose weights are inferred: before any is kept, and those that are.
BURN_IN, N_SAMPLES = 50, 150
# Pivots of a covariance's root below this part of the largest are rounding.
LEAST_PIVOT = 1e-7
# Draws of the prior that the weights of an empty document are the mean of.
PRIOR_DRAWS = 4096
# Steps from the factors of the last sample to those nearest to the mean covariance.
FACTOR_STEPS = 50


class LogitPrior:
    """Normal-inverse-Wishart prior of the mean and the covariance of logits.

    Parameters
    ----------
    mean : ndarray of shape (n_components,)
        Prior mean.
    mean_strength : float or None
        Pseudo-documents that say so; None for a share of the documents that there are.
    covariance : ndarray of shape (n_components,) or (n_components, n_components)
        Prior variances, or the prior covariance.
    strength : float or None
        Pseudo-documents that say so, as for the mean.
    """

    def __init__(self, mean, mean_strength, covariance, strength):
        self.mean = mean
        self.mean_strength = mean_strength
        self.covariance = covariance
        self.strength = strength

    @property
    def variances(self):
        """Prior variances."""
        return self.covariance if self.covariance.ndim == 1 else np.diag(self.covariance)

    @property
    def matrix(self):
        """The prior covariance."""
        return np.diag(self.covariance) if self.covariance.ndim == 1 else self.covariance

    def for_documents(self, n):
        """This prior of so many documents, all its strengths known."""
        usual = max(SHARE * n, 1.0)
        strengths = [usual if s is None else s for s in (self.mean_strength, self.strength)]
        return LogitPrior(self.mean, strengths[0], self.covariance, strengths[1])

    def same_as(self, other):
        """Whether another prior is equal."""
        return all(np.array_equal(value, vars(other)[name]) for name, value in vars(self).items())


# ---------------------------------------------------------------- distributions of logits


class FullNormal:
    """A normal distribution of logits with any covariance.

    Parameters
    ----------
    mean : ndarray of shape (n_components,)
        Its mean.
    precision : ndarray of shape (n_components, n_components)
        The inverse of its covariance.
    """

    def __init__(self, mean, precision):
        K = len(mean)
        self.mean = mean
        self.precision = np.ascontiguousarray(precision + precision.T) / 2
        scale = 1 / np.sqrt(np.diag(self.precision))
        none = np.empty((0, K)), scale, np.empty((0, K)), np.empty((0, 0))
        self.arrays = mean, self.precision, *none

    @property
    def covariance(self):
        """Its covariance."""
        covariance = np.linalg.inv(self.precision)
        return (covariance + covariance.T) / 2

    def arrays_to_draw(self):
        """As `arrays`, with a root of the covariance."""
        return *self.arrays[:-1], np.linalg.cholesky(self.covariance)

    def log_density(self, logits):
        """Log-densities of rows of logits."""
        away = logits - self.mean
        log_det = np.linalg.slogdet(self.precision)[1] - len(self.mean) * np.log(2 * np.pi)
        return 0.5 * (log_det - np.einsum("dk,dk->d", away @ self.precision, away))

    def draw(self, n, rng):
        """Draw rows of logits."""
        root = np.linalg.cholesky(self.covariance)
        return self.mean + rng.standard_normal((n, len(self.mean))) @ root.T


class FactorNormal:
    """A normal distribution of logits with covariance F F' + diag(psi).

    Parameters
    ----------
    mean : ndarray of shape (n_components,)
        Its mean.
    loadings : ndarray of shape (n_components, n_factors)
        F; with no factors the components are independent.
    noise : ndarray of shape (n_components,)
        psi.
    """

    def __init__(self, mean, loadings, noise):
        self.mean = mean
        self.loadings = loadings
        self.noise = noise
        scaled = self.loadings / noise[:, None]
        inner = np.eye(loadings.shape[1]) + self.loadings.T @ scaled  # the factors' precision
        self._inner = inner
        variance = np.linalg.inv(inner)
        gain = np.ascontiguousarray(variance @ scaled.T)
        spread = np.linalg.cholesky((variance + variance.T) / 2)
        across = np.ascontiguousarray(loadings.T)
        self.arrays = mean, np.empty((0, 0)), across, np.sqrt(noise), gain, spread

    @property
    def covariance(self):
        """Its covariance."""
        return self.loadings @ self.loadings.T + np.diag(self.noise)

    @property
    def precision(self):
        """The inverse of its covariance, by that of the factors' precision."""
        scaled = self.loadings / self.noise[:, None]
        return np.diag(1 / self.noise) - scaled @ np.linalg.solve(self._inner, scaled.T)

    def arrays_to_draw(self):
        """As `arrays`, which suffice."""
        return self.arrays

    def log_density(self, logits):
        """Log-densities of rows of logits."""
        away = logits - self.mean
        onto = away @ (self.loadings / self.noise[:, None])
        square = (away**2 @ (1 / self.noise)) - np.einsum(
            "dr,dr->d", onto, np.linalg.solve(self._inner, onto.T).T
        )
        log_det = np.log(self.noise).sum() + np.linalg.slogdet(self._inner)[1]
        return -0.5 * (square + log_det + len(self.mean) * np.log(2 * np.pi))

    def draw(self, n, rng):
        """Draw rows of logits."""
        factors = rng.standard_normal((n, self.loadings.shape[1])) @ self.loadings.T
        return self.mean + factors + rng.standard_normal((n, len(self.mean))) * np.sqrt(self.noise)


# ---------------------------------------------------------------- structures of the covariance


def in_blocks(logits):
    """Rows of logits in double precision, some at a time, each with its span."""
    step = max(1, BLOCK // max(1, logits.shape[1]))
    for first in range(0, len(logits), step):
        span = slice(first, first + step)
        yield span, logits[span].astype(np.float64)


def moments(logits, centre):
    """Sums over rows of logits, in one pass about a point nearby.

    Parameters
    ----------
    logits : ndarray of shape (n_documents, n_components), float32
        The logits.
    centre : ndarray of shape (n_components,)
        The point.

    Returns
    -------
    sums : tuple
        Number of rows, their sum and their scatter, both about the point.
    """
    D, K = logits.shape
    total, scatter = np.zeros(K), np.zeros((K, K), order="F")
    step = max(LEAST_ROWS, CACHED // K)
    held = np.empty((min(step, D), K))
    for first in range(0, D, step):
        rows = logits[first : first + step]
        away = np.subtract(rows, centre, out=held[: len(rows)])
        total += away.sum(axis=0)
        scatter = dsyrk(1.0, away.T, 1.0, scatter, lower=1, overwrite_c=1)
    scatter += np.tril(scatter, -1).T
    return D, total, scatter


def both(sums, others):
    """Sums over documents and over others, of either kind."""
    return tuple(one + other for one, other in zip(sums, others, strict=True))


class FullCovariance:
    """Any Sigma, with an inverse Wishart prior."""

    n_factors = 0

    def _posterior(self, sums, prior):
        """Mean, root of W' and degrees of freedom of the conditional distribution (Eq. 3)."""
        D, total, scatter = sums
        prior = prior.for_documents(D)
        mean, scatter = prior.mean + total / D, scatter - np.outer(total, total) / D
        shift = mean - prior.mean
        n = prior.mean_strength + D
        scatter += prior.strength * prior.matrix
        scatter += prior.mean_strength * D / n * np.outer(shift, shift)
        try:
            root = np.linalg.cholesky((scatter + scatter.T) / 2)
        except np.linalg.LinAlgError:
            root = np.zeros((1, 1))
        pivots = np.diag(root)
        if pivots.min() <= LEAST_PIVOT * pivots.max():
            raise ValueError(
                f"covariance_prior counts for too little beside the logits of {D} documents in "
                f"{len(mean)} topics: make it larger, or degrees_of_freedom_prior"
            )
        return prior.mean + D / n * shift, root, prior.strength + len(mean) - 1 + D

    def first(self, sums, prior):
        """The normal distribution to begin with: what is expected given :func:`moments`."""
        mean, root, freedom = self._posterior(sums, prior)
        inverse = solve_triangular(root, np.eye(len(mean)), lower=True)
        return FullNormal(mean, freedom * (inverse.T @ inverse))

    def sums(self, logits, factors, centre):
        """What :meth:`draw` is given of documents: their :func:`moments`; no factors."""
        return moments(logits, centre)

    def draw(self, sums, prior, rng):
        """Draw mean and precision given the logits of documents.

        Parameters
        ----------
        sums : tuple
            From :meth:`sums`, about the prior's mean.
        prior : LogitPrior
            The prior.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        normal : FullNormal
            What was drawn: the precision by Bartlett's decomposition.
        """
        mean, root, freedom = self._posterior(sums, prior)
        K, D = len(mean), sums[0]
        prior = prior.for_documents(D)
        triangle = np.tril(rng.standard_normal((K, K)), -1)
        triangle[np.diag_indices(K)] = np.sqrt(rng.chisquare(freedom - np.arange(K)))
        # With W' = L L' the precision is B B', B = inv(L') A.
        half = solve_triangular(root, triangle, lower=True, trans="T")
        noise = np.linalg.solve(half.T, rng.standard_normal(K))
        mean = mean + noise / np.sqrt(prior.mean_strength + D)
        return FullNormal(mean, half @ half.T)

    def of_means(self, mean, covariance, last):
        """The distribution of a mean and a covariance."""
        return FullNormal(mean, np.linalg.inv(covariance))


class FactorCovariance:
    """Sigma = F F' + diag(psi): given psi, rows of (F, mean) are normal; psi is inverse gamma.

    Parameters
    ----------
    n_factors : int
        Columns of F; none for independent components.
    """

    def __init__(self, n_factors):
        self.n_factors = n_factors

    def first(self, sums, prior):
        """The normal distribution to begin with: principal axes, given :func:`moments`."""
        D, r = sums[0], self.n_factors
        prior = prior.for_documents(D)
        found = FullCovariance().first(sums, prior)
        covariance = found.covariance
        value, axes = np.linalg.eigh(covariance)
        value, axes = value[::-1], axes[:, ::-1]
        axes = axes * np.where(axes.sum(axis=0) < 0, -1, 1)
        floor = np.median(value) if r else 0
        loadings = axes[:, :r] * np.sqrt(np.maximum(value[:r] - floor, 1e-2 * value[:r]))
        noise = np.diag(covariance) - (loadings**2).sum(axis=1)
        least = prior.strength / (prior.strength + D) * prior.variances
        return FactorNormal(found.mean, loadings, np.maximum(noise, least))

    def sums(self, logits, factors, centre):
        """What :meth:`draw` is given of documents.

        Parameters
        ----------
        logits : ndarray of shape (n_documents, n_components), float32
            The logits.
        factors : ndarray of shape (n_documents, n_factors)
            The factors that they were drawn with.
        centre : ndarray of shape (n_components,)
            Not used.

        Returns
        -------
        sums : tuple
            Number of documents, products of factors and one with themselves and with logits, and
            squares of these.
        """
        D, K = logits.shape
        inner, outer = np.zeros((self.n_factors + 1,) * 2), np.zeros((self.n_factors + 1, K))
        square = np.zeros(K)
        for span, block in in_blocks(logits):
            design = np.column_stack([factors[span], np.ones(len(block))])
            inner += design.T @ design
            outer += design.T @ block
            square += (block**2).sum(axis=0)
        return D, inner, outer, square

    def draw(self, sums, prior, rng):
        """Draw F, psi and the mean given the logits of documents and their factors.

        Parameters
        ----------
        sums : tuple
            From :meth:`sums`.
        prior : LogitPrior
            The prior.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        normal : FactorNormal
            What was drawn: a Bayesian regression of every component on the factors.
        """
        D, inner, outer, square = sums
        K, r, prior = len(square), self.n_factors, prior.for_documents(D)
        before = np.diag(np.append(np.ones(r), prior.mean_strength))
        centre = np.zeros((r + 1, K))
        centre[r] = prior.mean
        inner, outer = inner + before, outer + before @ centre
        root = np.linalg.cholesky(inner)
        mode = np.linalg.solve(inner, outer)
        half = root.T @ mode
        square = square + prior.mean_strength * prior.mean**2 - (half**2).sum(axis=0)
        square = np.maximum(square, 0) + prior.strength * prior.variances
        noise = square / rng.chisquare(prior.strength + D, size=K)
        spread = solve_triangular(root, rng.standard_normal((r + 1, K)), lower=True, trans="T")
        rows = mode + spread * np.sqrt(noise)
        return FactorNormal(rows[r].copy(), rows[:r].T, noise)

    def of_means(self, mean, covariance, last):
        """The distribution with factors that is nearest to one of any covariance.

        Parameters
        ----------
        mean : ndarray of shape (n_components,)
            Its mean.
        covariance : ndarray of shape (n_components, n_components)
            Its covariance.
        last : FactorNormal
            Where to begin.

        Returns
        -------
        normal : FactorNormal
            By steps of expectation maximisation, each of which lowers the Kullback-Leibler
            divergence from the other one.
        """
        loadings, noise = last.loadings, last.noise
        for _ in range(FACTOR_STEPS if self.n_factors else 1):
            gain, spread = FactorNormal(mean, loadings, noise).arrays[4:]
            onto = gain @ covariance
            loadings = np.linalg.solve(onto @ gain.T + spread @ spread.T, onto).T
            noise = np.diag(covariance) - np.einsum("kr,rk->k", loadings, onto)
        return FactorNormal(mean, loadings, noise)


# ---------------------------------------------------------------- given tokens


def tokens_log_likelihood(logits, row_ptr, topics, counts):
    """log p(topics of tokens | logits), summed over documents.

    Parameters
    ----------
    logits : ndarray of shape (n_documents, n_components)
        The logits.
    row_ptr, topics, counts : ndarray
        Tokens of topics in documents, in lists.

    Returns
    -------
    value : float
        Nats.
    """
    value = 0.0
    for span, block in in_blocks(logits):
        first, last = row_ptr[span.start], row_ptr[min(span.stop, len(logits))]
        lengths = np.diff(row_ptr[span.start : span.start + len(block) + 1])
        rows = np.repeat(np.arange(len(block)), lengths)
        block -= logsumexp(block, axis=1, keepdims=True)
        value += float((counts[first:last] * block[rows, topics[first:last]]).sum())
    return value


class LogitInference:
    """Inference of documents with logistic-normal topic weights, as `_models.inference` declares.

    Each document has a Markov chain of its own, keyed by what it holds.

    Parameters
    ----------
    normal : FullNormal or FactorNormal
        The distribution of logits.
    sampler : int
        Of logits, of the kernel's `SAMPLERS`.
    """

    def __init__(self, normal, sampler):
        self.normal = normal
        self.sampler = sampler

    @property
    def n_listed(self):
        """All topics of a word are read from a table."""
        return len(self.normal.mean)

    def dense(self, max_iter=100, tol=0.01):
        """This inference, which keeps all topics."""
        return self

    def _found(self, chunk, table):
        """Weights and counts of a chunk's documents."""
        K, n_steps = self.n_listed, BURN_IN + N_SAMPLES
        cost = WORK_A_LOGIT + sum(array.shape[0] for array in self.normal.arrays[1:3])
        return kernels.infer_documents(
            chunk.indptr,
            chunk.indices,
            table.position[chunk.indices],
            chunk.data,
            table.rows[0],
            self.normal.arrays,
            0,
            sampler=self.sampler,
            burn_in=BURN_IN,
            n_samples=N_SAMPLES,
            n_threads=threads_for(n_steps * K * (len(chunk.indices) + cost * chunk.n_rows)),
        )

    def counts(self, chunk, table, key=None):
        """Expected topic counts of documents."""
        return self._found(chunk, table)[1]

    def weights(self, chunk, table, key=None):
        """Posterior means of topic weights; an empty document has the prior's."""
        return self._filled(chunk, self._found(chunk, table)[0])

    def active_weights(self, chunk, table, key=None):
        """As :meth:`weights`, but CSR and of the active topics; all of an empty document's are."""
        weights, counts = self._found(chunk, table)
        return active_only(self._filled(chunk, weights), counts)

    def _filled(self, chunk, weights):
        """Weights of documents, those without words set to the prior's mean."""
        empty = np.diff(chunk.indptr) == 0
        if empty.any():
            draws = self.draw(PRIOR_DRAWS, keyed_generator(0, LOGIT_PRIOR))
            weights[empty] = draws.mean(axis=0)
        return weights

    def left_to_right(self, chunk, table, key, n_particles=20):
        """Estimate log-probabilities of documents, as :class:`DirichletInference` does."""
        length = row_sums(chunk.indptr, chunk.data)
        K = self.n_listed
        return kernels.left_to_right(
            chunk.indptr,
            table.position[chunk.indices],
            chunk.data,
            table.rows[0],
            self.normal.arrays_to_draw(),
            chunk.numbers,
            key[0],
            LEFT_TO_RIGHT,
            sampler=self.sampler,
            n_particles=n_particles,
            n_threads=threads_for(K * n_particles * (length @ (length + WORK_A_LOGIT))),
        )

    def draw(self, n_documents, rng):
        """Topic weights of documents, drawn from the prior; rows sum to 1."""
        with single_blas():
            return softmax(self.normal.draw(n_documents, rng), axis=1)
