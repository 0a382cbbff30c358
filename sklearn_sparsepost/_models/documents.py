"""How the components of a group of items are chosen: Dirichlet weights in every document."""

import numpy as np
from scipy.special import gammaln, psi, softmax

from sklearn_sparsepost._checks import MOST_INTEGER
from sklearn_sparsepost._kernels import topic_documents, topic_stats
from sklearn_sparsepost._run.chunks import row_sums
from sklearn_sparsepost._run.threads import threads_for

# The expected count below which a topic is dropped from a document (Hughes & Sudderth 2016, D.3).
ACTIVE_TOL = 1e-4
# Reweightings of the words' own best topics before a document's active topics are gathered.
BURN_IN = 2
# What a topic costs in a step of a word, and in a sum over documents, in multiplications or so.
STEP_WORK, GAIN_WORK = 12, 16
# A learned prior stays above this.
LEAST_LEARNED = 1e-6


def draw_dirichlet(alpha, rng):
    """Draw a row from the Dirichlet distribution of each row of parameters."""
    # Gamma(a) is Gamma(a + 1) * U^(1 / a): in logs, small parameters do not underflow.
    logs = np.log(rng.standard_gamma(alpha + 1)) - rng.standard_exponential(alpha.shape) / alpha
    return softmax(logs, axis=1)


class DirichletDocuments:
    """Topic weights of documents, pi_d ~ Dirichlet(alpha), and their local step.

    The step is Alg. 2 of Hughes & Sudderth (2016).

    What a model of documents must say is how `learned`, by name what moves besides statistics,
    gives Dirichlet parameters: :meth:`first_learned`, :meth:`alpha_of`, and, if it learns,
    :meth:`improved` and :meth:`bound`. A subclass may change these and inherit the rest.

    Parameters
    ----------
    alpha : ndarray of shape (n_components,), float64
        Dirichlet parameters, or those to begin with.
    sparsity_level : int or None, default=8
        The most topics a word of a document may keep; None for all.
    max_iter : int, default=100
        The most iterations a document.
    tol : float, default=0.05
        Change of expected topic counts at which a document stops.
    restarts : int, default=5
        Restart proposals a document.
    restarts_above : int or "prior", default="prior"
        Documents with no more topics than this are left as they are; "prior" is what the prior
        to begin with expects of their length.
    learn : bool, default=False
        Whether the parameters are learned.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsepost.models import DirichletDocuments
    >>> DirichletDocuments(np.full(20, 0.05), sparsity_level=None).level(20)
    20
    """

    # Whether a part of the mass is of topics that nobody uses: a topic's may go there.
    has_rest = False

    def __init__(
        self,
        alpha,
        *,
        sparsity_level=8,
        max_iter=100,
        tol=0.05,
        restarts=5,
        restarts_above="prior",
        learn=False,
    ):
        self.alpha = alpha
        self.learn = learn
        self.sparsity_level = sparsity_level
        self.max_iter = max_iter
        self.tol = tol
        self.restarts = restarts
        self.restarts_above = restarts_above

    def level(self, n_components):
        """Find the most topics that a word may keep.

        Parameters
        ----------
        n_components : int
            Of how many.

        Returns
        -------
        level : int
            L.
        """
        level = n_components if self.sparsity_level is None else self.sparsity_level
        return min(level, n_components)

    def dense(self, max_iter=100, tol=0.01):
        """Return documents of the same prior that keep all topics, as held-out scores want them.

        Parameters
        ----------
        max_iter : int, default=100
            The most iterations a document.
        tol : float, default=0.01
            Change of expected topic counts at which a document stops.

        Returns
        -------
        documents : DirichletDocuments
            Without restarts.
        """
        options = {"sparsity_level": None, "max_iter": max_iter, "tol": tol, "restarts": 0}
        return DirichletDocuments(self.alpha, **options)

    # ------------------------------------------------------------------ what is learned

    def first_learned(self):
        """Return what is learned, before anything was.

        Returns
        -------
        learned : dict of str to ndarray
            By name.
        """
        return {"alpha": self.alpha}

    def alpha_of(self, learned):
        """Return Dirichlet parameters of the documents' weights.

        Parameters
        ----------
        learned : dict of str to ndarray
            What is learned.

        Returns
        -------
        alpha : ndarray of shape (n_components,), float64
            The parameters.
        """
        return learned["alpha"]

    def prior_mass(self, alpha):
        """Return the sum of the Dirichlet parameters, those of topics nobody uses included.

        Parameters
        ----------
        alpha : ndarray of shape (n_components,)
            From :meth:`alpha_of`.

        Returns
        -------
        mass : float
            By default their own sum.
        """
        return alpha.sum()

    def gains(self, alpha, mass, n_tokens, weight=None):
        """Sum over documents what :meth:`improved` needs of them; zeros if nothing is learned.

        Parameters
        ----------
        alpha : ndarray of shape (n_components,)
            The present prior.
        mass : ndarray of shape (n_documents, n_components)
            Topic counts, or expected ones.
        n_tokens : ndarray of shape (n_documents,)
            The documents' lengths.
        weight : ndarray of shape (n_documents,), default=None
            How often each document counts; None for once.

        Returns
        -------
        gains : tuple
            "prior_gain" of shape (n_components,), and "length_gain".
        """
        if not self.learn:
            return np.zeros(len(alpha)), 0.0
        counted = np.ones(len(mass)) if weight is None else weight
        n_threads = threads_for(GAIN_WORK * mass.size)
        gains = topic_stats.prior_gains(mass, alpha, counted, n_threads)
        return gains, length_gain(alpha.sum(), n_tokens, weight)

    def improved(self, learned, report, rate=1.0):
        """Improve what is learned, after a pass or a batch of which `report` has the sums.

        Parameters
        ----------
        learned : dict of str to ndarray
            Before.
        report : dict
            With "prior_gain" and "length_gain", sums of what :meth:`gains` returns over "n_samples"
            documents; besides "n_documents" that the statistics stand for, and their "count".
        rate : float, default=1.0
            Share of the step, on a log scale, that is made.

        Returns
        -------
        learned : dict of str to ndarray
            After.
        """
        gains = report["prior_gain"], report["length_gain"]
        return {**learned, "alpha": improved_prior(learned["alpha"], *gains, rate)}

    def merged(self, learned, kept, absorbed):
        """Return what is learned once a topic is merged into another: its weight goes there.

        The sum of the parameters has to stay, and that of the two.

        Parameters
        ----------
        learned : dict of str to ndarray
            Before.
        kept : int
            The topic that stays.
        absorbed : int
            The one that is gone afterwards.

        Returns
        -------
        learned : dict of str to ndarray
            After.
        """
        alpha = learned["alpha"].copy()
        alpha[kept] += alpha[absorbed]
        return {**learned, "alpha": np.delete(alpha, absorbed)}

    def bound(self, learned, n_documents):
        """Compute what the bound has of the priors themselves: nothing where they are points.

        Parameters
        ----------
        learned : dict of str to ndarray
            What is learned.
        n_documents : float
            Number of documents.

        Returns
        -------
        value : float
            In nats.
        """
        return 0.0

    # ------------------------------------------------------------------ the local step

    def fit(
        self, indptr, local, counts, weights, alpha, *, start=None, want_mass=False, n_tokens=None
    ):
        """Fit local posteriors of documents.

        Parameters
        ----------
        indptr : ndarray of shape (n_documents + 1,)
            Where each document's words begin.
        local : ndarray of shape (nnz,), int32
            Which row of the weights each word has.
        counts : ndarray of shape (nnz,), float32 or float64
            How often it occurs.
        weights : tuple of ndarray
            What :meth:`~sklearn_sparsepost.observations.Observation.item_weights` returns.
        alpha : ndarray of shape (n_components,), float64
            Dirichlet parameters.
        start : ndarray of shape (n_documents, n_components), default=None
            Expected topic counts to start from.
        want_mass : bool, default=False
            Whether expected topic counts are wanted.
        n_tokens : ndarray of shape (n_documents,), default=None
            Lengths of the documents, where they are known.

        Returns
        -------
        found : tuple of ndarray
            Topics and expected counts of each occurrence, expected topic counts of documents, and a
            report of each, as the kernel `fit_documents` returns them.
        """
        dtype = counts.dtype
        return topic_documents.fit_documents(
            indptr,
            local,
            counts,
            *weights,
            alpha.astype(dtype),
            gammaln(alpha.astype(dtype).astype(np.float64)),
            sparsity_level=self.level(len(alpha)),
            max_iter=self.max_iter,
            tol=self.tol,
            restarts=self.restarts,
            restarts_above=self._spared(indptr, counts, n_tokens) if self.restarts else None,
            burn_in=BURN_IN,
            active_tol=ACTIVE_TOL,
            start=start,
            want_mass=want_mass,
            n_threads=threads_for(STEP_WORK * counts.size * len(alpha)),
        )

    def _spared(self, indptr, counts, n_tokens):
        """How few topics of each document restarts leave as they are, (n_documents,).

        The prior is the one to begin with: the bound would fall where a learned one moves this.
        """
        if self.restarts_above != "prior":
            return np.full(len(indptr) - 1, self.restarts_above, dtype=np.int32)
        if n_tokens is None:
            n_tokens = row_sums(indptr - indptr[0], counts)
        expected = expected_topics(self.prior_mass(self.alpha), n_tokens)
        return np.minimum(expected, MOST_INTEGER).astype(np.int32)


def expected_topics(total, n_tokens):
    """How many topics the tokens of a document are expected to have under its prior.

    Those of a Dirichlet process of the same mass A, to which the number under a Dirichlet prior of
    many topics tends: A (psi(A + n) - psi(A)) (Antoniak 1974).

    Parameters
    ----------
    total : float
        Sum of the Dirichlet parameters, A.
    n_tokens : ndarray of shape (n_documents,)
        The documents' lengths.

    Returns
    -------
    n_topics : ndarray of shape (n_documents,)
        Expected numbers.
    """
    return total * (psi(total + n_tokens) - psi(total))


def prior_gains(alpha, topics, mass, n_tokens, often=None, repeats=None):
    """What a step of :func:`improved_prior` needs of some documents, as sums over them.

    Parameters
    ----------
    alpha : ndarray of shape (n_components,)
        The present prior.
    topics : ndarray of shape (n_stored,)
        The topics of the documents' expected topic counts, those without mass left out.
    mass : ndarray of shape (n_stored,)
        The expected counts.
    n_tokens : ndarray of shape (n_documents,)
        Their sums over each document.
    often : ndarray of shape (n_stored,), default=None
        How often each of the expected counts is met; None for once.
    repeats : ndarray of shape (n_documents,), default=None
        And each of the sums.

    Returns
    -------
    prior_gain : ndarray of shape (n_components,)
        Sum over documents of psi(alpha_k + mass_dk) - psi(alpha_k).
    length_gain : float
        Sum of psi(A + n_tokens_d) - psi(A), A the sum of alpha.
    """
    gain = psi(alpha[topics] + mass) - psi(alpha)[topics]
    gain = np.bincount(topics, gain if often is None else gain * often, minlength=len(alpha))
    return gain, length_gain(alpha.sum(), n_tokens, repeats)


def length_gain(total, n_tokens, weight=None):
    """Sum over documents of psi(A + n_tokens_d) - psi(A), each as often as it counts."""
    gains = psi(total + n_tokens) - psi(total)
    return float(gains.sum() if weight is None else gains @ weight)


def improved_prior(alpha, prior_gain, length_gain, rate=1.0):
    """One fixed-point step of alpha, which never lowers the bound.

    With responsibilities fixed and theta = alpha + mass, the bound depends on alpha as a
    Dirichlet-multinomial likelihood of the masses: T. Minka, "Estimating a Dirichlet
    distribution", 2000, Eq. 55.

    Parameters
    ----------
    alpha : ndarray of shape (n_components,)
        The present prior.
    prior_gain, length_gain
        Sums over documents of what :func:`prior_gains` returns, at the present alpha.
    rate : float, default=1.0
        Share of the step, on a log scale, that is made.

    Returns
    -------
    alpha : ndarray of shape (n_components,)
        The new prior.
    """
    if length_gain <= 0:
        return alpha
    step = np.maximum(prior_gain / length_gain, LEAST_LEARNED)
    return np.maximum(alpha * step**rate, LEAST_LEARNED)


def length_bound(total, n_tokens):
    """What each bound has of the length alone (Hughes & Sudderth 2016, Eq. 49)."""
    return gammaln(total) - gammaln(total + n_tokens)
