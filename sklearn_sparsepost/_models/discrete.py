"""Components whose observations are counts or bits, with Dirichlet priors.

Each is an :class:`~sklearn_sparsepost.observations.Observation`, as a user's own would be.
"""

import numpy as np
from scipy.special import gammaln, psi

from sklearn_sparsepost._checks import MOST_COUNT
from sklearn_sparsepost._kernels import mixture as kernels
from sklearn_sparsepost._suffstats import TopicCounts
from sklearn_sparsepost.observations import Observation

# Stands for the log of 0 in the maximum likelihood of bits.
LEAST_LOG_BIT = np.log(1e-12)


def _log_beta(concentration):
    """Log normaliser of Dirichlet distributions whose parameters are on the last axis."""
    return gammaln(concentration).sum(axis=-1) - gammaln(concentration.sum(axis=-1))


class _Discrete(Observation):
    """What the discrete models share: Dirichlet posteriors of parameters ``concentration``.

    Modes are those of log-probabilities (of the softmax basis), which exist for any prior and equal
    the posterior's means.

    Parameters
    ----------
    estimation : {"bayes", "map", "ml"}
        Posterior distributions, their modes, or maximum likelihood.
    prior : ndarray
        Pseudo-counts, of the shape of a component's counts; not used by "ml".
    """

    def __init__(self, estimation, prior):
        super().__init__(estimation)
        self.prior = prior if estimation != "ml" else np.zeros_like(prior)

    def priors(self):
        """The pseudo-counts, if there are any."""
        return {} if self.estimation == "ml" else {"feature_prior": self.prior}

    def _log_probabilities(self, concentration, point):
        """E[log phi] or log E[phi]; -inf where maximum likelihood says never."""
        total = concentration.sum(axis=-1, keepdims=True)
        if self.estimation == "bayes" and not point:
            return psi(concentration) - psi(total)
        with np.errstate(divide="ignore"):
            share = np.divide(
                concentration,
                total,
                out=np.full_like(concentration, 1 / concentration.shape[-1]),
                where=total > 0,
            )
            return np.log(share)

    def data_bound(self, stats, estimates):
        """E[log p(x | z, phi)], where 0 log 0 is 0."""
        counts = self._counts(stats)
        log_p = self._log_probabilities(estimates["concentration"], False)
        return float(np.where(counts > 0, counts * np.where(counts > 0, log_p, 0), 0).sum())

    def prior_bound(self, estimates):
        """E[log p(phi) - log q(phi)]; of modes the prior's log density in the softmax basis."""
        if self.estimation == "ml":
            return 0.0
        concentration = estimates["concentration"]
        log_p = self._log_probabilities(concentration, False)
        value = -_log_beta(self.prior) + (self.prior * log_p).sum(axis=-1)
        if self.estimation == "bayes":
            value = value + _log_beta(concentration) - (concentration * log_p).sum(axis=-1)
        return float(value.sum())


class MultinomialCounts(_Discrete):
    """Counts of features, phi_k ~ Dirichlet(prior), of CSR rows (paper 000, B.2).

    The statistic is ``counts``, expected counts of shape (n_components, n_features).
    """

    def empty(self, n_components):
        """Statistics of no data."""
        return {"counts": np.zeros((n_components, len(self.prior)))}

    def summarise(self, rows, resp):
        """Sums of rows, stored sparsely."""
        counts = (resp.T.tocsr() @ rows.astype(np.float64, copy=False)).tocsr()
        return {
            "counts": TopicCounts(
                np.arange(counts.shape[0], dtype=np.int32),
                counts.indptr.astype(np.int64),
                counts.indices.astype(np.int32, copy=False),
                counts.data,
            )
        }

    def _counts(self, stats):
        return np.maximum(stats.value("counts"), 0)

    def estimate(self, stats):
        """Prior plus counts."""
        return {"concentration": self.prior + self._counts(stats)}

    def table(self, estimates, dtype, *, point=False):
        """Log-probabilities, words x components."""
        log_p = self._log_probabilities(estimates["concentration"], point)
        # Finite, since it is multiplied by counts.
        least = np.finfo(np.float32).min / (1e6 * MOST_COUNT)
        return np.ascontiguousarray(np.maximum(log_p, least).T, dtype=dtype)

    def log_likelihood(self, rows, table):
        """One sparse product."""
        return rows @ table

    def log_base(self, rows):
        """Log multinomial coefficients."""
        totals = rows.sum(axis=1, dtype=np.float64)
        terms = gammaln(rows.data.astype(np.float64) + 1)
        terms = type(rows)((terms, rows.indices, rows.indptr), shape=rows.shape)
        return gammaln(totals + 1) - terms.sum(axis=1)

    def attributes(self, estimates):
        """Concentrations and expected probabilities."""
        concentration = estimates["concentration"]
        share = np.exp(self._log_probabilities(concentration, True))
        return {"concentration": concentration, "means": share}

    def draw(self, attributes, component, size, rng):
        """Draw counts of 100 in all."""
        p = attributes["means"][component].astype(np.float64)
        return rng.multinomial(100, p / p.sum(), size=size)


class Bernoulli(_Discrete):
    """Independent bits, phi_kj ~ Beta(prior).

    The statistic is ``ones``, expected numbers of ones of shape (n_components, n_features).

    Parameters
    ----------
    prior : ndarray of shape (n_features, 2)
        Pseudo-counts of ones and of zeros.
    """

    def empty(self, n_components):
        """Statistics of no data."""
        return {"ones": np.zeros((n_components, len(self.prior)))}

    def summarise(self, rows, resp):
        """Sums of rows, in double."""
        return {"ones": resp.T @ rows.astype(np.float64, copy=False)}

    def _log_probabilities(self, concentration, point):
        # Bounded, since a coefficient is the difference of two.
        log_p = super()._log_probabilities(concentration, point)
        return np.maximum(log_p, LEAST_LOG_BIT) if self.estimation == "ml" else log_p

    def _counts(self, stats):
        count = stats.value("count")
        ones = np.clip(stats.value("ones"), 0, count[:, None])
        return np.stack([ones, count[:, None] - ones], axis=-1)

    def estimate(self, stats):
        """Prior plus counts."""
        return {"concentration": self.prior + self._counts(stats)}

    def table(self, estimates, dtype, *, point=False):
        """Coefficients of 1 and x."""
        log_p = self._log_probabilities(estimates["concentration"], point)
        return {
            "constant": log_p[..., 1].sum(axis=1).astype(dtype),
            "linear": np.ascontiguousarray((log_p[..., 0] - log_p[..., 1]).T, dtype=dtype),
        }

    def log_likelihood(self, rows, table):
        """One product of all rows with all components."""
        out = np.empty((rows.shape[0], len(table["constant"])), dtype=rows.dtype)
        rows = np.ascontiguousarray(rows)
        kernels.products(rows, table["linear"], table["constant"], out)
        return out

    def attributes(self, estimates):
        """Concentrations and expected shares of ones."""
        concentration = estimates["concentration"]
        share = np.exp(self._log_probabilities(concentration, True)[..., 0])
        return {"concentration": concentration, "means": share}

    def draw(self, attributes, component, size, rng):
        """Draw bits."""
        p = attributes["means"][component]
        return (rng.random((size, len(p))) < p).astype(np.float64)
