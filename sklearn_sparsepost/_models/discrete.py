"""Components whose observations are counts or bits, with Dirichlet priors.

Each is an :class:`~sklearn_sparsepost.observations.Observation`, as a user's own would be.
"""

import numpy as np
from scipy.special import gammaln, psi, xlogy

from sklearn_sparsepost._checks import MOST_COUNT
from sklearn_sparsepost._kernels import mixture as kernels
from sklearn_sparsepost._kernels import topic_stats, topic_words
from sklearn_sparsepost._models.observation import Observation
from sklearn_sparsepost._run.memory import recycled_zeros
from sklearn_sparsepost._run.threads import map_threads, single_blas, threads_for
from sklearn_sparsepost._tables import PseudoCounts, SparseTable

# What a word's weight in a topic costs, and a look at a pair of topics, in multiplications or so.
WEIGHT_WORK, PAIR_WORK = 24, 4
# Features at a time whose products are summed.
SLAB = 4096
# Stands for the log of 0 in the maximum likelihood of bits.
LEAST_LOG_BIT = np.log(1e-12)


def _log_beta(concentration):
    """Log normaliser of Dirichlet distributions whose parameters are on the last axis."""
    return gammaln(concentration).sum(axis=-1) - gammaln(concentration.sum(axis=-1))


def _products_where(counts, log_p):
    """Sum of counts times log-probabilities, where 0 log 0 is 0."""
    held = counts > 0
    return float(np.where(held, counts * np.where(held, log_p, 0), 0).sum())


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
        log_p = self._log_probabilities(estimates["concentration"], False)
        return _products_where(self._counts(stats), log_p)

    def prior_bound(self, estimates):
        """E[log p(phi) - log q(phi)]; of modes the prior's log density in the softmax basis."""
        if self.estimation == "ml":
            return 0.0
        return self._prior_terms(self.prior, estimates["concentration"])

    def _prior_terms(self, prior, concentration):
        log_p = self._log_probabilities(concentration, False)
        value = -_log_beta(prior) + (prior * log_p).sum(axis=-1)
        if self.estimation == "bayes":
            value = value + _log_beta(concentration) - (concentration * log_p).sum(axis=-1)
        return float(value.sum())


class Multinomial(_Discrete):
    """Counts of features, phi_k ~ Dirichlet(prior_k), of CSR rows or of words.

    As in Hughes & Sudderth (2016), B.2. The statistics are ``feature_counts``, expected counts of
    shape (n_features, n_components), and ``feature_total``, their sums over features.

    Parameters
    ----------
    estimation : {"bayes", "map", "ml"}
        Posterior distributions, their modes, or maximum likelihood.
    prior : ndarray of shape (1, 1), (n_features, 1) or (n_features, n_components), float64
        Pseudo-counts; not used by "ml".
    n_features : int
        Number of features.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsepost.models import Multinomial
    >>> words = Multinomial("bayes", np.full((1, 1), 0.1), n_features=50)
    >>> words.empty(3)["feature_counts"].shape
    (50, 3)
    """

    axes = {"feature_counts": 1}

    def __init__(self, estimation, prior, n_features):
        super().__init__(estimation, prior)
        self.n_features = n_features

    def priors(self):
        """The pseudo-counts, if there are any."""
        return {} if self.estimation == "ml" else {"feature_prior": self.prior[:, 0].copy()}

    def stored(self, counts):
        """Return given counts as the statistics keep them.

        Parameters
        ----------
        counts : ndarray of shape (n_features, n_components)
            Expected counts.

        Returns
        -------
        table : ndarray of shape (n_features, n_components), float64
            The same.
        """
        return np.ascontiguousarray(counts, dtype=np.float64)

    def empty(self, n_components):
        """Statistics of no data."""
        return {
            "feature_counts": recycled_zeros((self.n_features, n_components)),
            "feature_total": np.zeros(n_components),
        }

    def summarise(self, rows, resp):
        """Sums of rows, stored sparsely."""
        rows = rows.astype(np.float64, copy=False)
        return self._sums(SparseTable.of_csr((rows.T.tocsr() @ resp).tocsr()))

    @staticmethod
    def _sums(counts):
        # A copy, since statistics are added in place.
        return {"feature_counts": counts, "feature_total": counts.column_sums.copy()}

    def estimate(self, stats):
        """Prior plus counts, not added up yet."""
        counts = stats["feature_counts"]
        found = PseudoCounts(self.prior, counts, stats.factor)
        return {"concentration": found, "total": found.totals(stats.value("feature_total"))}

    def _log_table(self, estimates, point):
        """E[log phi] or log E[phi], features x components."""
        concentration = estimates["concentration"].to_array()
        return self._log_probabilities(concentration.T, point).T

    def table(self, estimates, dtype, *, point=False):
        """Log-probabilities, features x components."""
        # Finite, since it is multiplied by counts.
        least = np.finfo(np.float32).min / (1e6 * MOST_COUNT)
        log_p = np.maximum(self._log_table(estimates, point), least)
        return np.ascontiguousarray(log_p, dtype=dtype)

    def log_likelihood(self, rows, table):
        """One sparse product."""
        return rows @ table

    def log_base(self, rows):
        """Log multinomial coefficients."""
        totals = rows.sum(axis=1, dtype=np.float64)
        terms = gammaln(rows.data.astype(np.float64) + 1)
        terms = type(rows)((terms, rows.indices, rows.indptr), shape=rows.shape)
        return gammaln(totals + 1) - terms.sum(axis=1)

    def data_bound(self, stats, estimates):
        """E[log p(x | z, phi)], where 0 log 0 is 0."""
        counts = np.maximum(stats.value("feature_counts"), 0)
        return _products_where(counts, self._log_table(estimates, False))

    def prior_bound(self, estimates):
        """E[log p(phi) - log q(phi)]; of modes the prior's log density in the softmax basis."""
        if self.estimation == "ml":
            return 0.0
        concentration = estimates["concentration"].to_array().T
        prior = np.broadcast_to(estimates["concentration"].prior.T, concentration.shape)
        return self._prior_terms(prior, concentration)

    def bound(self, stats, estimates):
        """Both at once: most of their terms cancel.

        Where q(phi) follows from `stats`, so that lambda = prior + counts, all terms in E[log phi]
        do, and the difference of two Dirichlet normalisers is left. Of modes the log density of
        the prior in the softmax basis and that of the data are one sum of lambda log phi.
        """
        if self.estimation == "ml":
            return super().bound(stats, estimates)
        at, point = estimates["concentration"], self.estimation == "map"
        n_threads = threads_for(at.counts.size)
        value = topic_stats.dirichlet_bound_terms(
            at.counts, at.factor, at.prior, n_threads, point
        ).sum()
        total = estimates["total"]
        prior_total = np.broadcast_to(at.prior_totals, total.shape)
        value += (gammaln(prior_total) - (xlogy(total, total) if point else gammaln(total))).sum()
        if point:
            prior = at.compact_prior
            value += (xlogy(prior, prior) - gammaln(prior)).sum() * (at.counts.size / prior.size)
        if at.counts is not stats["feature_counts"] or at.factor != stats.factor:
            value += topic_stats.dirichlet_gap_terms(
                stats["feature_counts"],
                stats.factor,
                at.counts,
                at.factor,
                at.prior,
                self._log_total(total),
                n_threads,
                point,
            ).sum()
        return float(value)

    def _log_total(self, total):
        """What the log of a feature's concentration is compared with."""
        return psi(total) if self.estimation == "bayes" else np.log(total)

    def item_table(self, estimates, dtype):
        """What the weights of words follow from, which are computed where they are wanted."""
        if self.estimation == "ml":
            return self.table(estimates, dtype)
        return estimates["concentration"], self._log_total(estimates["total"])

    def item_weights(self, items, table, level, dtype, out=None):
        """Weights of words: exp(E[log phi]) (Hughes & Sudderth 2016, Eq. 10), or modes."""
        if self.estimation == "ml":
            return super().item_weights(items, table, level, dtype)
        concentration, log_total = table
        shape = len(items.words), concentration.shape[1]
        return topic_words.topic_rows(
            concentration.counts,
            concentration.factor,
            concentration.prior,
            items.words,
            log_total,
            level,
            dtype,
            threads_for(WEIGHT_WORK * shape[0] * shape[1]),
            None if out is None else out(shape, dtype),
            self.estimation == "map",
        )

    def merge_gains(self, stats, pairs):
        """Words that both components of a pair have, and the sums over words."""
        if self.estimation == "ml" or self.prior.shape[1] > 1:
            return None
        estimates, point = self.estimate(stats), self.estimation == "map"
        at, total = estimates["concentration"], estimates["total"]
        n_threads = threads_for(PAIR_WORK * len(at.counts) * len(pairs))
        gains = topic_stats.dirichlet_merge_gains(
            at.counts, at.factor, at.prior, pairs, n_threads, point
        )
        prior_total = at.prior_totals
        one, two = total[pairs].T
        for value, sign in ((one, 1), (two, 1), (one + two - prior_total, -1)):
            gains += sign * (xlogy(value, value) if point else gammaln(value))
        gains -= gammaln(prior_total)
        if point:
            prior = at.compact_prior
            gains -= (xlogy(prior, prior) - gammaln(prior)).sum() * (at.shape[0] / len(prior))
        return gains

    def similarity(self, stats):
        """Cosines of the components' counts."""
        counts = np.asarray(stats["feature_counts"])
        slabs = [counts[first : first + SLAB] for first in range(0, len(counts), SLAB)]
        with single_blas():
            overlap = sum(map_threads(lambda slab: slab.T @ slab, slabs))
        size = np.maximum(np.sqrt(np.diag(overlap)), np.finfo(float).tiny)
        return overlap / size / size[:, None]

    def item_base(self, items):
        """None: a document is a sequence of words."""
        return None

    def summarise_items(self, items, resp):
        """The words' own sums."""
        return self._sums(resp.placed(items.words, self.n_features))

    def attributes(self, estimates):
        """Concentrations and expected probabilities."""
        concentration = estimates["concentration"].to_array().T
        share = np.exp(self._log_probabilities(concentration, True))
        return {"concentration": concentration, "means": share}

    def from_attributes(self, attributes):
        """The estimates again."""
        counts = np.ascontiguousarray(attributes["concentration"].T)
        return {
            "concentration": PseudoCounts(np.zeros((1, 1)), counts),
            "total": counts.sum(axis=0),
        }

    def n_parameters(self, n_components):
        """Probabilities, which sum to 1."""
        return n_components * (self.n_features - 1)

    def draw(self, attributes, component, size, rng):
        """Draw counts of 100 in all."""
        p = attributes["means"][component].astype(np.float64)
        return rng.multinomial(100, p / p.sum(), size=size)


class Bernoulli(_Discrete):
    """Independent bits, phi_kj ~ Beta(prior).

    The statistic is ``ones``, expected numbers of ones of shape (n_components, n_features).

    Parameters
    ----------
    estimation : {"bayes", "map", "ml"}
        Posterior distributions, their modes, or maximum likelihood.
    prior : ndarray of shape (n_features, 2)
        Pseudo-counts of ones and of zeros; not used by "ml".

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsepost.models import Bernoulli
    >>> bits = Bernoulli("bayes", np.ones((4, 2)))
    >>> bits.empty(3)["ones"].shape
    (3, 4)
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

    def n_parameters(self, n_components):
        """A probability a bit."""
        return n_components * len(self.prior)

    def draw(self, attributes, component, size, rng):
        """Draw bits."""
        p = attributes["means"][component]
        return (rng.random((size, len(p))) < p).astype(np.float64)
