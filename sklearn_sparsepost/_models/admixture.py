"""How components are chosen: Dirichlet weights of topics in every document."""

from copy import copy
from functools import partial

import numpy as np
from scipy.sparse import csr_matrix
from scipy.special import gammaln, psi, softmax

from sklearn_sparsepost._kernels import topic_documents, topic_stats, topic_words
from sklearn_sparsepost._run.chunks import Scratch, threads_for
from sklearn_sparsepost._suffstats import SuffStats, TopicCounts

# The expected count below which a topic is dropped from a document (paper 000, D.3).
ACTIVE_TOL = 1e-4
# Reweightings of the words' own best topics before a document's active topics are gathered.
BURN_IN = 2

# Words at a time where fitted topics are transposed.
WORD_BLOCK = 1024

# A learned prior stays above this.
LEAST_PRIOR = 1e-6

AXES = {"word_topic": 1, "topic": 0, "prior_gain": 0}
SCALARS = (
    "n_samples",
    "n_tokens",
    "local_bound",
    "n_local_iter",
    "restarts_proposed",
    "restarts_accepted",
    "length_gain",
)


def empty_topic_stats(n_features, n_components):
    """Statistics of no documents."""
    return SuffStats(
        {
            "word_topic": np.zeros((n_features, n_components)),
            "topic": np.zeros(n_components),
            "prior_gain": np.zeros(n_components),
        },
        AXES,
        dict.fromkeys(SCALARS, 0.0),
    )


def draw_dirichlet(alpha, rng):
    """Draw a row from the Dirichlet distribution of each row of parameters."""
    # Gamma(a) is Gamma(a + 1) * U^(1 / a): in logs, small parameters do not underflow.
    logs = np.log(rng.standard_gamma(alpha + 1)) - rng.standard_exponential(alpha.shape) / alpha
    return softmax(logs, axis=1)


class DirichletTopics:
    """Topic weights of documents, pi_d ~ Dirichlet(alpha), and the local step (paper 000, Alg. 2).

    Parameters
    ----------
    alpha : ndarray of shape (n_components,), float64
        Dirichlet parameters.
    sparsity_level : int or None
        The most topics a word of a document may keep; None for all.
    max_iter : int
        The most iterations a document.
    tol : float
        Change of expected topic counts at which a document stops.
    restarts : int
        Restart proposals a document.
    restart_iter : int, default=3
        Iterations that each proposal is given.
    learn : bool, default=False
        Whether statistics hold what :meth:`improved_prior` needs.
    """

    def __init__(
        self, alpha, *, sparsity_level, max_iter, tol, restarts, restart_iter=3, learn=False
    ):
        self.alpha = alpha
        self.learn = learn
        n_components = alpha.shape[0]
        level = n_components if sparsity_level is None else sparsity_level
        self.sparsity_level = min(level, n_components)
        self.max_iter = max_iter
        self.tol = tol
        self.restarts = restarts
        self.restart_iter = restart_iter

    @property
    def dense(self):
        """Whether no sparsity is asked for."""
        return self.sparsity_level >= self.alpha.shape[0]

    def fit_documents(self, chunk, topic_rows, local, *, start=None, want_mass=False, n_threads=1):
        """Local posteriors of a chunk's documents: see the kernel of the same name."""
        dtype = chunk.data.dtype
        return topic_documents.fit_documents(
            chunk.indptr,
            local,
            chunk.data,
            *topic_rows,
            self.alpha.astype(dtype),
            gammaln(self.alpha.astype(dtype).astype(np.float64)),
            sparsity_level=self.sparsity_level,
            max_iter=self.max_iter,
            tol=self.tol,
            restarts=self.restarts,
            restart_iter=self.restart_iter,
            burn_in=BURN_IN,
            active_tol=ACTIVE_TOL,
            start=start,
            want_mass=want_mass,
            n_threads=n_threads,
        )

    def prior_gains(self, topics, mass, n_tokens):
        """What a step of :meth:`improved_prior` needs of some documents, as sums over them.

        Parameters
        ----------
        topics : ndarray of shape (n_stored,)
            The topics of the documents' expected topic counts, those without mass left out.
        mass : ndarray of shape (n_stored,)
            The expected counts.
        n_tokens : ndarray of shape (n_documents,)
            Their sums over each document.

        Returns
        -------
        prior_gain : ndarray of shape (n_components,)
            Sum over documents of psi(alpha_k + mass_dk) - psi(alpha_k).
        length_gain : float
            Sum of psi(A + n_tokens_d) - psi(A), A the sum of alpha.
        """
        gain = psi(self.alpha[topics] + mass) - psi(self.alpha)[topics]
        total = self.alpha.sum()
        length_gain = (psi(total + n_tokens) - psi(total)).sum()
        return np.bincount(topics, gain, minlength=len(self.alpha)), float(length_gain)

    def improved_prior(self, prior_gain, length_gain, rate=1.0):
        """One fixed-point step of alpha, which never lowers the bound.

        With responsibilities fixed and theta = alpha + mass, the bound depends on alpha as a
        Dirichlet-multinomial likelihood of the masses: T. Minka, "Estimating a Dirichlet
        distribution", 2000, Eq. 55.

        Parameters
        ----------
        prior_gain, length_gain
            Sums over documents of what :meth:`prior_gains` returns, at the present alpha.
        rate : float, default=1.0
            Share of the step, on a log scale, that is made.

        Returns
        -------
        alpha : ndarray of shape (n_components,)
            The new prior.
        """
        if length_gain <= 0:
            return self.alpha
        step = np.maximum(prior_gain / length_gain, LEAST_PRIOR)
        return np.maximum(self.alpha * step**rate, LEAST_PRIOR)

    def constant_bound(self, n_tokens):
        """Terms of each document's bound that depend on its length alone (paper 000, Eq. 49)."""
        total = self.alpha.sum()
        return gammaln(total) - gammaln(total + n_tokens)


class TopicModel:
    """Topics for counts: a :class:`Multinomial` and a :class:`DirichletTopics`, put together.

    Parameters
    ----------
    observation : Multinomial
        The topics.
    allocation : DirichletTopics
        The documents.
    """

    def __init__(self, observation, allocation):
        self.observation = observation
        self.allocation = allocation
        self.scratch = Scratch()

    def empty_stats(self):
        """Statistics of no data."""
        return empty_topic_stats(*self.observation.prior.shape)

    def bind(self, stats, *, keep_local=False):
        """The local step as a pure function of (chunk, n_threads) under fixed globals.

        Parameters
        ----------
        stats : SuffStats
            What the globals follow from; read, never written.
        keep_local : bool, default=False
            Whether the function also returns the documents' expected topic counts.

        Returns
        -------
        local_step : callable
            ``local_step(chunk, n_threads, start=None) -> (SuffStats, mass or None)``, picklable;
            the mass is a CSR matrix, and so is the start.
        """
        return partial(
            _local_step,
            observation=self.observation,
            allocation=self.allocation,
            counts=stats["word_topic"],
            factor=stats.factor,
            topic_digamma=self.observation.topic_digamma(stats),
            keep_local=keep_local,
            scratch=self.scratch,
        )

    def learn_prior(self, state, rate=1.0):
        """Improve the documents' prior by what the last pass or batch says of it.

        Parameters
        ----------
        state : FitState
            Its `report` is read, its `alpha` replaced.
        rate : float, default=1.0
            Share of the step that is made.
        """
        gains = state.report["prior_gain"], state.report["length_gain"]
        state.alpha = self.allocation.improved_prior(*gains, rate)
        self.use_prior(state.alpha)

    def use_prior(self, alpha):
        """Take another prior of the documents from now on."""
        self.allocation = copy(self.allocation)  # steps that are under way keep theirs
        self.allocation.alpha = alpha

    def global_bound(self, stats, at=None, n_threads=1):
        """The bound of all data whose statistics are `stats` (paper 000, Eq. 42).

        Parameters
        ----------
        stats : SuffStats
            Statistics of every document's present local posterior.
        at : SuffStats, default=None
            What q(phi) follows from, if not from `stats`.
        n_threads : int, default=1
            Number of OpenMP threads.

        Returns
        -------
        bound : float
            In nats, exact for the present L-sparse posterior.
        """
        local = stats.factor * stats["local_bound"]
        if at is None:
            return local + self.observation.bound(stats, n_threads)
        return local + self.observation.bound_elsewhere(stats, at, n_threads)


def _local_step(
    chunk,
    n_threads=1,
    start=None,
    *,
    observation,
    allocation,
    counts,
    factor,
    topic_digamma,
    keep_local,
    scratch,
):
    """Fit the chunk's documents and sum their statistics; touches nothing it is given."""
    n_threads = threads_for(chunk.data.size * counts.shape[1], n_threads)
    words, local, word_ptr, occurrence = topic_words.index_words(chunk.indices, chunk.n_features)
    rows = topic_words.topic_rows(
        counts,
        factor,
        observation.prior,
        words,
        topic_digamma,
        allocation.sparsity_level,
        chunk.data.dtype,
        n_threads,
        scratch.array((len(words), counts.shape[1]), chunk.data.dtype),
    )
    want_mass = keep_local or allocation.learn
    start = None if start is None else start.toarray()
    index, resp, mass, report = allocation.fit_documents(
        chunk, rows, local, start=start, want_mass=want_mass, n_threads=n_threads
    )
    if allocation.dense:
        *table, log_weights = topic_stats.sum_by_word_dense(
            chunk.indptr, word_ptr, occurrence, resp, rows[0], n_threads
        )
    else:
        *table, log_weights = topic_stats.sum_by_word(
            word_ptr, occurrence, index, resp, rows[0], n_threads
        )
    table = TopicCounts(words, *table)
    n_tokens = _row_sums(chunk)
    totals = report.sum(axis=0)
    # The documents' bounds hold E[log phi] of these globals; without it they outlive the globals.
    local_bound = totals[0] - log_weights.sum() + allocation.constant_bound(n_tokens).sum()
    n_components = counts.shape[1]
    gains = np.zeros(n_components), 0.0
    if allocation.learn:
        held = np.nonzero(mass)
        gains = allocation.prior_gains(held[1], mass[held], n_tokens)
    stats = SuffStats(
        {
            "word_topic": table,
            "topic": np.bincount(table.topics, table.counts, minlength=n_components),
            "prior_gain": gains[0],
        },
        AXES,
        dict(
            zip(
                SCALARS,
                (chunk.n_rows, n_tokens.sum(), local_bound, *totals[1:], gains[1]),
                strict=True,
            )
        ),
    )
    return stats, csr_matrix(mass) if keep_local else None


def _row_sums(chunk):
    """Tokens of every document, in double."""
    rows = np.repeat(np.arange(chunk.n_rows), np.diff(chunk.indptr))
    return np.bincount(rows, chunk.data, minlength=chunk.n_rows)


class TopicTable:
    """Fitted topics as the local step reads them, for the words of some documents.

    Parameters
    ----------
    components : ndarray of shape (n_components, n_features)
        Pseudo-counts of words in topics.
    used : ndarray of shape (n_features,), bool
        The words wanted.
    sparsity_level : int
        How many best topics to list for each word.
    dtype : {np.float32, np.float64}
        Type of the topics' weights.
    n_threads : int, default=1
        Number of OpenMP threads.
    """

    def __init__(self, components, used, sparsity_level, dtype, n_threads=1):
        words = np.flatnonzero(used)
        n_components = components.shape[0]
        self.position = np.full(len(used), -1, dtype=np.int32)
        self.position[words] = np.arange(len(words))
        n_listed = sparsity_level if sparsity_level < n_components else 0
        self.rows = (
            np.empty((len(words), n_components), dtype),
            np.empty((len(words), n_listed), np.int32),
            np.empty((len(words), n_listed), dtype),
        )
        topic_digamma = psi(components.sum(axis=1, dtype=np.float64))
        for start in range(0, len(words), WORD_BLOCK):  # no transposed copy of everything
            block = slice(start, start + WORD_BLOCK)
            counts = np.ascontiguousarray(components[:, words[block]].T, dtype=np.float64)
            found = topic_words.topic_rows(
                counts,
                1.0,
                np.broadcast_to(0.0, counts.shape),
                np.arange(len(counts), dtype=np.int32),
                topic_digamma,
                sparsity_level,
                dtype,
                threads_for(counts.size, n_threads),
            )
            for whole, part in zip(self.rows, found, strict=True):
                whole[block] = part


def infer_documents(chunk, n_threads=1, *, table, allocation):
    """Expected topic counts of documents under fitted topics.

    Parameters
    ----------
    chunk : Chunk
        The documents.
    n_threads : int, default=1
        Number of OpenMP threads.
    table : TopicTable
        The topics of the documents' words.
    allocation : DirichletTopics
        The local step.

    Returns
    -------
    mass : ndarray of shape (n_documents, n_components)
        Expected topic counts, in the dtype of the chunk.
    """
    n_threads = threads_for(chunk.data.size * table.rows[0].shape[1], n_threads)
    local = table.position[chunk.indices]
    _, _, mass, _ = allocation.fit_documents(
        chunk, table.rows, local, want_mass=True, n_threads=n_threads
    )
    return mass
