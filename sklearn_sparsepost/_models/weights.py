"""Weights of a mixture's components: of a Dirichlet distribution, or of a Dirichlet process."""

import numpy as np
from scipy.special import gammaln, psi

# Stands for the log of 0, since kernels meet no infinities.
LOG_ZERO = -1e30


def _log(value):
    """The logarithm, LOG_ZERO of 0."""
    return np.log(value, out=np.full_like(value, LOG_ZERO), where=value > 0)


class DirichletWeights:
    """Component weights pi ~ Dirichlet(prior, ..., prior), or point estimates.

    Modes are those of log pi, which exist for any prior and equal the posterior's means.

    Parameters
    ----------
    estimation : {"bayes", "map", "ml"}
        Posterior distributions, their modes, or maximum likelihood.
    prior : float
        Concentration of each component; not used by "ml".

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsepost.models import DirichletWeights
    >>> weights = DirichletWeights("bayes", 1.0)
    >>> weights.weights(weights.estimate(np.array([2.0, 0.0]))).tolist()
    [0.75, 0.25]
    """

    def __init__(self, estimation, prior):
        self.estimation = estimation
        self.prior = 0.0 if estimation == "ml" else prior

    def estimate(self, count):
        """Find the posterior's parameters.

        Parameters
        ----------
        count : ndarray of shape (n_components,)
            Expected numbers of observations.

        Returns
        -------
        concentration : ndarray of shape (n_components,)
            Dirichlet parameters.
        """
        return self.prior + np.maximum(count, 0)

    def weights(self, concentration):
        """Compute expected weights.

        Parameters
        ----------
        concentration : ndarray
            From :meth:`estimate`.

        Returns
        -------
        weights : ndarray of shape (n_components,)
            Sum to 1.
        """
        return concentration / concentration.sum()

    def log_weights(self, concentration):
        """Compute E[log pi], or the log of the estimates.

        Parameters
        ----------
        concentration : ndarray
            From :meth:`estimate`.

        Returns
        -------
        log_weights : ndarray of shape (n_components,)
            Finite.
        """
        if self.estimation == "bayes":
            return psi(concentration) - psi(concentration.sum())
        return _log(self.weights(concentration))

    def bound(self, count, concentration):
        """Compute E[log p(z | pi)] + E[log p(pi) - log q(pi)], Eq. 22 of Hughes & Sudderth (2016).

        Parameters
        ----------
        count : ndarray of shape (n_components,)
            Expected numbers of observations.
        concentration : ndarray
            From :meth:`estimate`, of these or other numbers.

        Returns
        -------
        value : float
            In nats.
        """
        log_weights = self.log_weights(concentration)
        value = np.where(count > 0, count * log_weights, 0).sum()
        if self.estimation == "ml":
            return float(value)
        K = len(count)
        value += gammaln(K * self.prior) - K * gammaln(self.prior) + self.prior * log_weights.sum()
        if self.estimation == "bayes":
            value -= gammaln(concentration.sum()) - gammaln(concentration).sum()
            value -= (concentration * log_weights).sum()
        return float(value)


class ProcessWeights:
    """Weights of a Dirichlet process cut after K sticks: v_k ~ Beta(1, prior).

    Parameters
    ----------
    estimation : {"bayes", "map", "ml"}
        Posterior distributions, their modes (of the sticks' logits), or maximum likelihood.
    prior : float
        Concentration of the process; not used by "ml".

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsepost.models import ProcessWeights
    >>> weights = ProcessWeights("bayes", 1.0)
    >>> weights.weights(weights.estimate(np.array([6.0, 0.0]))).round(2).tolist()
    [0.93, 0.07]
    """

    def __init__(self, estimation, prior):
        self.estimation = estimation
        self.ones, self.prior = (0.0, 0.0) if estimation == "ml" else (1.0, prior)

    def estimate(self, count):
        """Find the posterior's parameters.

        Parameters
        ----------
        count : ndarray of shape (n_components,)
            Expected numbers of observations.

        Returns
        -------
        concentration : ndarray of shape (n_components, 2)
            Beta parameters of the sticks.
        """
        count = np.maximum(count, 0)
        after = np.append(np.cumsum(count[:0:-1])[::-1], 0)
        return np.stack([self.ones + count, self.prior + after], axis=1)

    def weights(self, concentration):
        """Compute expected weights, what the last stick leaves being shared among all.

        Parameters
        ----------
        concentration : ndarray
            From :meth:`estimate`.

        Returns
        -------
        weights : ndarray of shape (n_components,)
            Sum to 1.
        """
        weights = np.exp(self._log_weights(concentration, point=True))
        return weights / weights.sum()

    def log_weights(self, concentration):
        """Compute E[log pi], or the log of the estimates.

        Parameters
        ----------
        concentration : ndarray
            From :meth:`estimate`.

        Returns
        -------
        log_weights : ndarray of shape (n_components,)
            Finite.
        """
        return self._log_weights(concentration, self.estimation != "bayes")

    def _log_sticks(self, concentration, point):
        """E[log v] and E[log(1 - v)], of shape (n_components, 2)."""
        total = concentration.sum(axis=1, keepdims=True)
        if not point:
            return psi(concentration) - psi(total)
        return _log(
            np.divide(concentration, total, out=np.zeros_like(concentration), where=total > 0)
        )

    def _log_weights(self, concentration, point):
        broken, left = self._log_sticks(concentration, point).T
        before = np.concatenate([[0.0], np.cumsum(left[:-1])])
        return np.maximum(broken + before, LOG_ZERO)

    def bound(self, count, concentration):
        """Compute E[log p(z | v)] + E[log p(v) - log q(v)].

        Parameters
        ----------
        count : ndarray of shape (n_components,)
            Expected numbers of observations.
        concentration : ndarray
            From :meth:`estimate`, of these or other numbers.

        Returns
        -------
        value : float
            In nats.
        """
        log_weights = self.log_weights(concentration)
        value = np.where(count > 0, count * log_weights, 0).sum()
        if self.estimation == "ml":
            return float(value)
        prior = np.array([self.ones, self.prior])
        log_v = self._log_sticks(concentration, self.estimation != "bayes")
        value += len(count) * (gammaln(prior.sum()) - gammaln(prior).sum()) + (prior * log_v).sum()
        if self.estimation == "bayes":
            total = concentration.sum(axis=1)
            value -= (gammaln(total) - gammaln(concentration).sum(axis=1)).sum()
            value -= (concentration * log_v).sum()
        return float(value)
