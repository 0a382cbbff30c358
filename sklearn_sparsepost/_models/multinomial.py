"""What data look like inside a component: prior, posterior, expectations, share of the bound."""

import numpy as np
from scipy.special import gammaln, psi

from sklearn_sparsepost._kernels import topic_stats
from sklearn_sparsepost._run.chunks import threads_for


class Multinomial:
    """Words drawn from topics, phi_k ~ Dirichlet(prior_k) (paper 000, appendix B.2).

    The statistics are ``word_topic``, expected counts of shape (n_features, n_components), and
    ``topic``, their sums over words.

    Parameters
    ----------
    prior : ndarray that broadcasts to (n_features, n_components), float64
        Dirichlet parameters: (1, 1), (n_features, 1) or whole.
    shape : tuple (n_features, n_components)
        Numbers of words and topics.
    """

    def __init__(self, prior, shape):
        # As small as it comes: pickles would give a broadcast view strides, and kernels see those.
        self.compact_prior = prior
        self.shape = shape
        self.prior_total = self.prior.sum(axis=0)

    @property
    def prior(self):
        """Dirichlet parameters of shape (n_features, n_components), a view."""
        return np.broadcast_to(self.compact_prior, self.shape)

    def topic_digamma(self, stats):
        """psi of each topic's total pseudo-count: the normaliser of E[log phi]."""
        return psi(self.prior_total + stats.factor * stats["topic"])

    def pseudo_counts(self, stats):
        """lambda = prior + counts, the posterior's parameters, (n_features, n_components)."""
        return self.prior + stats.factor * stats["word_topic"]

    def bound(self, stats, n_threads=1):
        """E[log p(phi) - log q(phi)] + E[log p(x | z, phi)] where q(phi) follows from `stats`.

        As lambda = prior + counts, all terms in E[log phi] cancel and the difference of the two
        Dirichlet normalisers is left.
        """
        n_threads = threads_for(self.prior.size, n_threads)
        terms = topic_stats.dirichlet_bound_terms(
            stats["word_topic"], stats.factor, self.prior, n_threads
        )
        total = self.prior_total + stats.factor * stats["topic"]
        return float(terms.sum() + (gammaln(self.prior_total) - gammaln(total)).sum())

    def bound_elsewhere(self, stats, at, n_threads=1):
        """The same where q(phi) follows from other statistics, `at`, than the counts `stats`."""
        n_threads = threads_for(self.prior.size, n_threads)
        gap = topic_stats.dirichlet_gap_terms(
            stats["word_topic"],
            stats.factor,
            at["word_topic"],
            at.factor,
            self.prior,
            self.topic_digamma(at),
            n_threads,
        )
        return self.bound(at, n_threads) + float(gap.sum())
