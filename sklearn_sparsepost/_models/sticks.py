"""Weights of ever more topics: sticks, and their surrogate bound (Hughes et al. 2015)."""

import numpy as np
from scipy.optimize import Bounds, minimize
from scipy.special import expit, gammaln, logit, psi, zeta

from sklearn_sparsepost._models.documents import DirichletDocuments

# Where the search for sticks may go: of logits, and of log-precisions.
LOGIT_BOUNDS, LOG_BOUNDS = (-25.0, 15.0), (0.0, 40.0)
# Least second derivative by a logit that the search is scaled by; and that by each log-precision.
LEAST_BEND, LOG_BEND = 1e-3, 0.5


def stick_weights(rho):
    """Expected weights of topics, and of all that have no stick (Hughes et al. 2015, Eq. 1).

    Parameters
    ----------
    rho : ndarray of shape (n_components,)
        Expected shares of what is left that the sticks take.

    Returns
    -------
    weights : ndarray of shape (n_components + 1,)
        Sum to 1.
    """
    left = np.concatenate([[1.0], np.cumprod(1 - rho)])
    return np.append(rho, 1.0) * left


def sticks_of(weights):
    """The shares that give weights of shape (n_components + 1,), the rest's at the end."""
    left = np.cumsum(weights[::-1])[::-1]
    least, most = expit(LOGIT_BOUNDS)
    return np.clip(weights[:-1] / left[:-1], least, most)


class StickBound:
    """What the bound has of q(u_k) = Beta(rho_k omega_k, (1 - rho_k) omega_k), u_k the sticks.

    That is the surrogate of the documents' cumulants, ``E[c_D(alpha beta)]``, by which Eq. 12
    replaces them, and ``E[log p(u) - log q(u)]`` (Hughes et al. 2015, Eq. 8 and 12), and of
    documents whose Dirichlet parameters follow from the sticks a bound that touches at the present
    ones.

    Parameters
    ----------
    n_documents : float
        Number of documents, D.
    concentration : float
        Dirichlet mass of each document, alpha.
    topic_concentration : float
        Concentration of the sticks, gamma.
    """

    def __init__(self, n_documents, concentration, topic_concentration):
        self.n_documents = n_documents
        self.concentration = concentration
        self.topic_concentration = topic_concentration

    def first_omega(self, n_components):
        """Precisions to begin with, as if sticks were conjugate to the surrogate."""
        after = np.arange(n_components + 1, 1, -1)
        return self.n_documents * after + 1 + self.topic_concentration

    def value(self, rho, omega):
        """Terms of the bound that follow from the sticks alone.

        Parameters
        ----------
        rho, omega : ndarray of shape (n_components,)
            Means and precisions, the largest topic first.

        Returns
        -------
        value : float
            With ``D (sum_k log Gamma(alpha E[beta_k]) - log Gamma(alpha))``, which stands for
            what the documents' own terms subtract.
        """
        mass = self.concentration * stick_weights(rho)
        documents = gammaln(mass).sum() - gammaln(self.concentration)
        return self.n_documents * documents + self._surrogate(rho, 1 - rho, omega, sloped=False)

    def _conjugate(self, n_components):
        """Beta parameters to which sticks go if documents are not looked at."""
        D = self.n_documents
        return D + 1, D * np.arange(n_components, 0, -1) + self.topic_concentration

    def _surrogate(self, rho, rest, omega, *, sloped=True):
        """D E[log c] + E[log p(u) - log q(u)], and its derivatives by rho and omega if `sloped`."""
        K, D, gamma = len(rho), self.n_documents, self.topic_concentration
        one, two = rho * omega, rest * omega
        psi_omega = psi(omega)
        best_one, best_two = self._conjugate(K)
        from_one, from_two = best_one - one, best_two - two
        value = (
            from_one * (psi(one) - psi_omega)
            + from_two * (psi(two) - psi_omega)
            + gammaln(one)
            + gammaln(two)
            - gammaln(omega)
        ).sum()
        value += K * (D * np.log(self.concentration) + np.log(gamma))
        if not sloped:
            return value
        slope = [zeta(2, at) for at in (one, two, omega)]  # trigamma
        by_rho = omega * (from_one * slope[0] - from_two * slope[1])
        by_omega = from_one * (rho * slope[0] - slope[2])
        by_omega += from_two * (rest * slope[1] - slope[2])
        return value, by_rho, by_omega

    def best(self, rho, omega, use):
        """Improve the sticks, given how documents use topics.

        A document's ``log Gamma(a + N) - log Gamma(a)`` is at least
        ``a' (psi(a' + N) - psi(a')) log a`` and a constant, for any a' at which both agree
        (T. Minka, "Estimating a Dirichlet distribution", 2000). For the small a of documents that
        use few topics the two hardly differ, so that there is nothing to be gained by another turn.

        Parameters
        ----------
        rho, omega : ndarray of shape (n_components,)
            The present sticks, the largest topic first.
        use : ndarray of shape (n_components,)
            Sums over documents of ``a' (psi(a' + N) - psi(a'))``, a' being the present parameters:
            about how many documents use each topic.

        Returns
        -------
        rho, omega : ndarray of shape (n_components,)
            The sticks at which the bound is largest.
        gain : float
            What the bound gains by them at the least.
        """
        K, alpha, use = len(rho), self.concentration, np.append(use, 0.0)

        def loss(x):
            rho, rest, omega = expit(x[:K]), expit(-x[:K]), np.exp(x[K:])
            value, by_rho, by_omega = self._surrogate(rho, rest, omega)
            log_weights = np.append(np.log(rho), 0.0)
            log_weights[1:] += np.cumsum(np.log(rest))
            mass = alpha * np.exp(log_weights)
            value += use @ log_weights + self.n_documents * gammaln(mass).sum()
            by_log = use + self.n_documents * mass * psi(mass)
            after = np.cumsum(by_log[::-1])[::-1][1:]
            by_logit = by_rho * rho * rest + by_log[:K] * rest - after * rho
            return -value, -np.concatenate([by_logit, by_omega * omega])

        logits = np.clip(np.log(rho) - np.log1p(-rho), *LOGIT_BOUNDS)
        given = np.concatenate([logits, np.clip(np.log(omega), *LOG_BOUNDS)])
        start, scale = self._start(logits, use)
        lower, upper = np.repeat([LOGIT_BOUNDS, LOG_BOUNDS], K, axis=0).T * scale

        def scaled_loss(z):
            value, slope = loss(z / scale)
            return value, slope / scale

        found = minimize(
            scaled_loss,
            start * scale,
            jac=True,
            method="L-BFGS-B",
            bounds=Bounds(lower, upper),
            options={"maxiter": 200, "ftol": 1e-12, "gtol": 1e-4},
        )
        gain = loss(given)[0] - found.fun
        if not gain > 0:
            return rho, omega, 0.0
        x = found.x / scale
        return expit(x[:K]), np.exp(x[K:]), float(gain)

    def _start(self, logits, use):
        """Where to search from, and scales by which the bound bends alike in all directions.

        To the first order in 1 / omega the terms of a stick in omega are
        ``-(one (1 - rho) / rho + two rho / (1 - rho)) / (2 omega) - log(omega) / 2``, whose best
        omega is the sum in brackets, and those in rho are of ``use`` alone.
        """
        rho, rest = expit(logits), expit(-logits)
        one, two = self._conjugate(len(rho))
        log_omega = np.clip(np.log(one * rest / rho + two * rho / rest), *LOG_BOUNDS)
        from_here = np.cumsum(use[::-1])[::-1][:-1]
        bend = (from_here + 1 + self.topic_concentration) * rho * rest
        bends = np.append(np.maximum(bend, LEAST_BEND), np.full(len(rho), LOG_BEND))
        return np.append(logits, log_omega), np.sqrt(bends)


class StickDocuments(DirichletDocuments):
    """Topic weights pi_d ~ Dirichlet(alpha beta), beta of sticks (Hughes et al. 2015, sec. 3).

    Learned are "rho" and "omega", of the sticks, and "order": the component of each stick, of
    which the surrogate bound wants the largest first.

    Parameters
    ----------
    concentration : float
        Dirichlet mass of each document, alpha.
    topic_concentration : float
        Concentration of the sticks, gamma.
    n_components : int
        Number of topics to begin with, of equal weights.
    n_documents : float
        Number of documents to begin with, D.
    learn : bool, default=True
        Whether the sticks are learned.
    **options : object
        Of the local step, as those of :class:`DirichletDocuments`.
    """

    has_rest = True

    def __init__(
        self,
        concentration,
        topic_concentration,
        n_components,
        n_documents,
        *,
        learn=True,
        **options,
    ):
        alpha = np.full(n_components, concentration / (n_components + 1))
        super().__init__(alpha, learn=learn, **options)
        self.concentration = concentration
        self.topic_concentration = topic_concentration
        self.n_documents = n_documents

    def first_learned(self):
        """Sticks of equal weights."""
        K = len(self.alpha)
        sticks = sticks_of(np.full(K + 1, 1 / (K + 1)))
        omega = self._bound_of(self.n_documents).first_omega(K)
        return {"order": np.arange(K), "rho": sticks, "omega": omega}

    def alpha_of(self, learned):
        """The mass alpha times each topic's expected weight."""
        alpha = np.empty(len(learned["order"]))
        alpha[learned["order"]] = self.concentration * stick_weights(learned["rho"])[:-1]
        return alpha

    def prior_mass(self, alpha):
        """The mass alpha, a part of which is of topics that nobody uses."""
        return self.concentration

    def _bound_of(self, n_documents):
        return StickBound(n_documents, self.concentration, self.topic_concentration)

    def bound(self, learned, n_documents):
        """The surrogate of the documents' cumulants, and of the sticks themselves."""
        return self._bound_of(n_documents).value(learned["rho"], learned["omega"])

    # ------------------------------------------------------------------ learning

    def improved(self, learned, report, rate=1.0):
        """Sort the topics by size, and find the best sticks."""
        new = self._sorted_by(learned, -report["count"][learned["order"]])
        found = self._best(new, learned, report)
        if rate >= 1:
            return found
        logits = logit(new["rho"]) + rate * (logit(found["rho"]) - logit(new["rho"]))
        omega = new["omega"] * (found["omega"] / new["omega"]) ** rate
        return {**found, "rho": expit(logits), "omega": omega}

    def _best(self, sticks, learned, report):
        """The best sticks in the order of given ones."""
        share = report["n_documents"] / max(report["n_samples"], 1)
        use = (self.alpha_of(learned) * report["prior_gain"])[sticks["order"]] * share
        bound = self._bound_of(report["n_documents"])
        rho, omega, _ = bound.best(sticks["rho"], sticks["omega"], use)
        return {**sticks, "rho": rho, "omega": omega}

    @staticmethod
    def _sorted_by(learned, key):
        """Sticks of the same weights in another order; precisions stay at their places."""
        order = np.argsort(key, kind="stable")
        if (np.diff(order) == 1).all():
            return learned
        weights = stick_weights(learned["rho"])
        weights[:-1] = weights[:-1][order]
        return {
            "order": learned["order"][order],
            "rho": sticks_of(weights),
            "omega": learned["omega"],
        }

    # ------------------------------------------------------------------ moves

    def merged(self, learned, kept, absorbed):
        """One stick of both weights, at its place by weight."""
        weights = stick_weights(learned["rho"])
        order = learned["order"]
        gone = np.flatnonzero(order == absorbed)[0]
        weights[np.flatnonzero(order == kept)[0]] += weights[gone]
        new = self._without(learned, weights, gone, absorbed)
        return self._sorted_by(new, -stick_weights(new["rho"])[:-1])

    def removed(self, learned, component):
        """Return what is learned without a topic: its weight is of those that nobody uses.

        Parameters
        ----------
        learned : dict of str to ndarray
            Before.
        component : int
            The topic.

        Returns
        -------
        learned : dict of str to ndarray
            After; all other parameters stay.
        """
        weights = stick_weights(learned["rho"])
        gone = np.flatnonzero(learned["order"] == component)[0]
        weights[-1] += weights[gone]
        return self._without(learned, weights, gone, component)

    def added(self, learned, weights):
        """Return what is learned with more topics, after the others; these shrink alike for them.

        Parameters
        ----------
        learned : dict of str to ndarray
            Before.
        weights : ndarray of shape (n_more,)
            Expected weights of the new topics, of sum less than 1.

        Returns
        -------
        learned : dict of str to ndarray
            After, the largest topic first; precisions as if the sticks were conjugate to the
            surrogate.
        """
        old, n_more = stick_weights(learned["rho"]) * (1 - weights.sum()), len(weights)
        K = len(old) - 1
        bound = self._bound_of(self.n_documents)
        omega = learned["omega"] + bound.n_documents * n_more
        new = {
            "order": np.concatenate([learned["order"], K + np.arange(n_more)]),
            "rho": sticks_of(np.concatenate([old[:-1], weights, old[-1:]])),
            "omega": np.concatenate([omega, bound.first_omega(n_more)]),
        }
        return self._sorted_by(new, -stick_weights(new["rho"])[:-1])

    @staticmethod
    def _without(learned, weights, gone, component):
        order = np.delete(learned["order"], gone)
        return {
            "order": order - (order > component),
            "rho": sticks_of(np.delete(weights, gone)),
            "omega": np.delete(learned["omega"], gone),
        }
