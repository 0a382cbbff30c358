"""How components are chosen: Dirichlet weights of topics in every document."""

from functools import partial

import numpy as np
from scipy.special import gammaln

from sklearn_sparsepost._kernels import topics as kernels
from sklearn_sparsepost._parallel import threads_for
from sklearn_sparsepost._suffstats import SuffStats, TopicCounts

# The expected count below which a topic is dropped from a document (paper 000, D.3).
ACTIVE_TOL = 1e-4
# Reweightings of the words' own best topics before a document's active topics are gathered.
BURN_IN = 2

AXES = {"word_topic": 1, "topic": 0}
SCALARS = (
    "n_samples",
    "n_tokens",
    "local_bound",
    "n_local_iter",
    "restarts_proposed",
    "restarts_accepted",
)


def empty_topic_stats(n_features, n_components):
    """Statistics of no documents."""
    return SuffStats(
        {"word_topic": np.zeros((n_features, n_components)), "topic": np.zeros(n_components)},
        AXES,
        dict.fromkeys(SCALARS, 0.0),
    )


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
    """

    def __init__(self, alpha, *, sparsity_level, max_iter, tol, restarts, restart_iter=3):
        self.alpha = alpha
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
        return kernels.fit_documents(
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
            ``local_step(chunk, n_threads, start=None) -> (SuffStats, mass or None)``, picklable.
        """
        return partial(
            _local_step,
            observation=self.observation,
            allocation=self.allocation,
            counts=stats["word_topic"],
            factor=stats.factor,
            topic_digamma=self.observation.topic_digamma(stats),
            keep_local=keep_local,
        )

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
):
    """Fit the chunk's documents and sum their statistics; touches nothing it is given."""
    n_threads = threads_for(chunk.data.size * counts.shape[1], n_threads)
    words, local, word_ptr, occurrence = kernels.index_words(chunk.indices, chunk.n_features)
    rows = kernels.topic_rows(
        counts,
        factor,
        observation.prior,
        words,
        topic_digamma,
        allocation.sparsity_level,
        chunk.data.dtype,
        n_threads,
    )
    index, resp, mass, report = allocation.fit_documents(
        chunk, rows, local, start=start, want_mass=keep_local, n_threads=n_threads
    )
    if allocation.dense:
        *table, log_weights = kernels.sum_by_word_dense(
            chunk.indptr, word_ptr, occurrence, resp, rows[0], n_threads
        )
    else:
        *table, log_weights = kernels.sum_by_word(
            word_ptr, occurrence, index, resp, rows[0], n_threads
        )
    table = TopicCounts(words, *table)
    n_tokens = _row_sums(chunk)
    totals = report.sum(axis=0)
    # The documents' bounds hold E[log phi] of these globals; without it they outlive the globals.
    local_bound = totals[0] - log_weights.sum() + allocation.constant_bound(n_tokens).sum()
    n_components = counts.shape[1]
    stats = SuffStats(
        {
            "word_topic": table,
            "topic": np.bincount(table.topics, table.counts, minlength=n_components),
        },
        AXES,
        dict(
            zip(
                SCALARS,
                (chunk.n_rows, n_tokens.sum(), local_bound, totals[1], totals[2], totals[3]),
                strict=True,
            )
        ),
    )
    return stats, mass if keep_local else None


def _row_sums(chunk):
    """Tokens of every document, in double."""
    rows = np.repeat(np.arange(chunk.n_rows), np.diff(chunk.indptr))
    return np.bincount(rows, chunk.data, minlength=chunk.n_rows)


def infer_documents(chunk, n_threads=1, *, components, topic_digamma, allocation):
    """Expected topic counts of documents under fitted topics, reading their words' columns only.

    Parameters
    ----------
    chunk : Chunk
        The documents.
    n_threads : int, default=1
        Number of OpenMP threads.
    components : ndarray of shape (n_components, n_features)
        Pseudo-counts of words in topics.
    topic_digamma : ndarray of shape (n_components,)
        psi of the topics' total pseudo-counts.
    allocation : DirichletTopics
        The local step.

    Returns
    -------
    mass : ndarray of shape (n_documents, n_components)
        Expected topic counts, in the dtype of the chunk.
    """
    n_threads = threads_for(chunk.data.size * components.shape[0], n_threads)
    words, local, _, _ = kernels.index_words(chunk.indices, chunk.n_features)
    counts = np.ascontiguousarray(components[:, words].T, dtype=np.float64)
    rows = kernels.topic_rows(
        counts,
        1.0,
        np.broadcast_to(0.0, counts.shape),
        np.arange(len(words), dtype=np.int32),
        topic_digamma,
        allocation.sparsity_level,
        chunk.data.dtype,
        n_threads,
    )
    return allocation.fit_documents(chunk, rows, local, want_mass=True, n_threads=n_threads)[2]
