"""Gibbs sampling of the correlated topic model (Chen et al. 2013): logits, their prior, tokens."""

import mmap
import tempfile

import numpy as np

from sklearn_sparsepost._kernels import gibbs_lda
from sklearn_sparsepost._kernels import logits as kernels
from sklearn_sparsepost._models.logistic_normal import (
    WORK_A_LOGIT,
    in_blocks,
    moments,
    tokens_log_likelihood,
)
from sklearn_sparsepost._run.streams import LOGIT_PRIOR, LOGITS, keyed_generator
from sklearn_sparsepost._run.threads import single_blas, threads_for
from sklearn_sparsepost._sampling import lda

# Sweeps of LDA that a chain begins with, and what is added to their counts for first logits.
FIRST_SWEEPS, FIRST_COUNT = 10, 0.05
# To the seed of these sweeps, so that the chain has other streams.
OTHER_SEED = 1 << 40
# "auto": up to so many topics all are weighed, with more there are tables.
FEW_TOPICS = 200
# Of words of more tokens than this; those of rarer ones are listed.
FREQUENT = 32


def storage(sampler, tokens, n_components):
    """How each word's counts are stored, as :func:`lda.storage` says but for "auto"."""
    if sampler != "auto":
        return lda.storage(sampler, tokens, n_components)
    often = lda.DENSE if n_components <= FEW_TOPICS else lda.ALIASED
    return np.where(tokens.size > FREQUENT, often, lda.LISTED).astype(np.int8)


class CTMChain(lda.WordsChain):
    """A chain of the correlated topic model: topics of tokens, logits, and their distribution.

    Parameters
    ----------
    tokens, z, seed, **options
        As for :class:`WordsChain`.
    structure : FullCovariance or FactorCovariance
        What the covariance of the logits may be.
    normal_prior : LogitPrior
        Prior of their mean and covariance.
    folder : str or None
        Where files are that hold the logits; None for memory.
    """

    storage = staticmethod(storage)
    # Of the sweeps before its own.
    lda_type = lda.LDAChain

    def __init__(self, tokens, z, seed, *, structure, normal_prior, folder, **options):
        self.structure = structure
        self.normal_prior = normal_prior
        self.folder = folder
        super().__init__(tokens, z, len(normal_prior.mean), seed, **options)
        self.logits = self._first_logits()

    def _first_logits(self):
        return first_logits(self.z, self.tokens.doc_ptr, self.n_components, self.folder)

    def _has(self, *, structure, normal_prior, folder, **settings):
        return (
            type(structure) is type(self.structure)
            and structure.n_factors == self.structure.n_factors
            and normal_prior.same_as(self.normal_prior)
            and super()._has(**settings)
        )

    def recount(self):
        """As for :class:`Chain`; the logits' distribution is found anew, too."""
        super().recount()
        self._normal = None
        self.mean_total = self.covariance_total = 0

    @property
    def normal(self):
        """The present distribution of the logits."""
        if self._normal is None:
            with single_blas():
                self._normal = self.structure.first(self._moments(), self.normal_prior)
        return self._normal

    def _moments(self):
        return moments(self.logits, self.normal_prior.mean)

    def all_logits(self):
        """The logits of all documents."""
        return self.logits

    def take_over(self, start):
        """Begin at the topics of another chain's tokens, of the same data."""
        self.z = start.z
        self.recount()
        self.logits = self._first_logits()

    def own(self, **settings):
        """As for :class:`Chain`; logits to come are where the settings say."""
        new = super().own(**settings)
        new.folder = settings["folder"]
        return new

    def extended(self, tokens, z, **settings):
        """A copy with more documents and the topics of their tokens, and settings."""
        new = super().extended(tokens, z, **settings)
        more = first_logits(z, tokens.doc_ptr, self.n_components, None)
        shape = len(self.logits) + len(more), self.n_components
        new.logits = empty_logits(shape, new.folder)
        new.logits[: len(self.logits)] = self.logits
        new.logits[len(self.logits) :] = more
        return new

    def take_sample(self):
        """Add the present counts and the logits' distribution to the averages."""
        super().take_sample()
        with single_blas():
            covariance = self.normal.covariance
        self.mean_total = self.mean_total + self.normal.mean
        self.covariance_total = self.covariance_total + covariance

    def mean_normal(self):
        """The logits' distribution, averaged over samples, or the present one."""
        if not self.n_averaged:
            return self.normal
        mean, covariance = self.mean_total, self.covariance_total
        with single_blas():
            return self.structure.of_means(
                mean / self.n_averaged, covariance / self.n_averaged, self.normal
            )

    def log_likelihood(self):
        """log p(words, topics, logits | mean, covariance, word prior) in nats."""
        given = self.tokens, self.z, self.logits, self.normal
        return float(self.words_log_likelihood() + documents_log_likelihood(*given))

    def draw(self, *, sampler, n_steps, n_mh_steps):
        """Draw logits, their distribution and topics of tokens, in place; see :func:`sweep`."""
        number = self.n_passes + 1  # streams of 0 are the start's
        z, tokens, logits = self.z, self.tokens, self.logits
        self.logits = empty_logits(logits.shape, self.folder)
        given = self.normal, self.structure, self.seed, number
        factors = draw_logits(z, tokens.doc_ptr, logits, self.logits, *given, sampler, n_steps)
        with single_blas():
            sums = self.structure.sums(self.logits, factors, self.normal_prior.mean)
        self.draw_normal(sums, number)
        draw_tokens(
            self.counts,
            tokens,
            z,
            self.logits,
            self.n_topic,
            self.prior,
            self.seed,
            number,
            fresh=lda.builds_tables(self.n_passes),
            n_steps=n_mh_steps,
        )

    def draw_normal(self, sums, number):
        """Draw the logits' distribution given sums over documents."""
        rng = keyed_generator(self.seed, LOGIT_PRIOR + number)
        with single_blas():
            self._normal = self.structure.draw(sums, self.normal_prior, rng)

    def fitted_priors(self):
        """What is known of the logits, and the words' prior, by the names of the attributes."""
        normal = self.mean_normal()
        with single_blas():
            covariance = (
                self.covariance_total / self.n_averaged if self.n_averaged else normal.covariance
            )
        return {
            "mean_": normal.mean,
            "covariance_": covariance,
            "topic_word_prior_": self.prior.as_given(),
            "_normal": normal,
        }


def documents_log_likelihood(tokens, z, logits, normal):
    """log p(topics of tokens, logits | their distribution) in nats."""
    lists = gibbs_lda.document_topics(z, tokens.doc_ptr, logits.shape[1])
    with single_blas():
        density = sum(normal.log_density(block).sum() for _, block in in_blocks(logits))
    return float(tokens_log_likelihood(logits, *lists) + density)


def draw_logits(z, doc_ptr, logits, new_logits, normal, structure, seed, number, sampler, n_steps):
    """Draw the logits of documents given the topics of their tokens.

    Parameters
    ----------
    z, doc_ptr, logits, new_logits, seed
        As for the kernel.
    normal : FullNormal or FactorNormal
        Distribution of the logits.
    structure : FullCovariance or FactorCovariance
        What its covariance may be.
    number : int
        Of the sweep.
    sampler, n_steps : int
        As for :func:`sweep`.

    Returns
    -------
    factors : ndarray of shape (n_documents, n_factors)
        Those that the new logits were drawn with.
    """
    factors = np.empty((len(logits), structure.n_factors))
    cost = WORK_A_LOGIT + sum(array.shape[0] for array in normal.arrays[1:3])
    kernels.sweep_documents(
        z,
        doc_ptr,
        logits,
        normal.arrays,
        new_logits,
        factors,
        seed,
        LOGITS + number,
        sampler=sampler,
        n_steps=n_steps,
        n_threads=threads_for(cost * n_steps * logits.size),
    )
    return factors


def draw_tokens(counts, tokens, z, logits, n_topic, prior, seed, number, *, fresh, n_steps):
    """Draw the topics of tokens given the logits of their documents, in place.

    Parameters
    ----------
    counts : TokenCounts
        Of words in topics; those of the tokens' are changed.
    tokens : Tokens
        The tokens.
    z, logits, n_topic
        As for the kernel.
    prior : WordPrior
        Prior of the topics' words.
    seed, number : int
        Of the streams.
    fresh : bool
        Whether alias tables may be built.
    n_steps : int
        Metropolis-Hastings steps a token.
    """
    # Beside words with alias tables documents need theirs.
    has_tables = bool((counts.arrays["words"]["kind"] == lda.ALIASED).any())
    counts.sweep(
        tokens.word,
        z,
        tokens.ptr,
        tokens.groups,
        n_topic,
        np.zeros(logits.shape[1]),
        prior.topic_totals(),
        seed,
        number,
        logits,
        cycle=has_tables,
        fresh=fresh,
        n_steps=n_steps,
        n_threads=threads_for(lda.WORK_A_TOKEN * tokens.n_tokens + WORK_A_LOGIT * logits.size),
    )


def empty_logits(shape, folder):
    """Memory for logits: a file without a name that is mapped, or, without a folder, an array."""
    if folder is None:
        return np.empty(shape, dtype=np.float32)
    n_bytes = 4 * int(np.prod(shape))
    with tempfile.TemporaryFile(dir=folder) as file:  # lasts as long as it is mapped
        file.truncate(n_bytes)
        held = mmap.mmap(file.fileno(), n_bytes)
    return np.frombuffer(held, dtype=np.float32).reshape(shape)


def first_logits(z, doc_ptr, n_components, folder):
    """Logits to begin with: those of the counts of topics, and of a little."""
    row_ptr, topics, counts = gibbs_lda.document_topics(z, doc_ptr, n_components)
    logits = empty_logits((len(row_ptr) - 1, n_components), folder)
    logits[...] = np.log(FIRST_COUNT)
    rows = np.repeat(np.arange(len(logits)), np.diff(row_ptr))
    logits[rows, topics] = np.log(counts + FIRST_COUNT)
    logits -= logits.mean(axis=1, keepdims=True)
    return logits


def after_lda(chain, alpha):
    """A new chain after some sweeps of LDA, which settle faster than those of its own.

    Parameters
    ----------
    chain : CTMChain
        Before its first sweep.
    alpha : ndarray of shape (n_components,)
        Dirichlet prior of the documents' topic weights.

    Returns
    -------
    chain : CTMChain
        The same, its tokens' topics drawn anew.
    """
    start = chain.lda_type(
        chain.tokens,
        chain.z,
        chain.seed + OTHER_SEED,
        alpha=alpha,
        prior=chain.prior,
        sampler="auto",
    )
    for _ in range(FIRST_SWEEPS):
        start = lda.sweep(start, n_steps=1)
        start.n_passes += 1
    chain.take_over(start)
    return chain


def sweep(chain, *, sampler, n_steps, n_mh_steps=2):
    """Draw logits, their mean and covariance, and the topic of every token, each given the rest.

    Parameters
    ----------
    chain : CTMChain
        Where the chain stands; it stays true.
    sampler : int
        Of logits, of the kernel's `SAMPLERS`.
    n_steps : int
        Sweeps over the logits of each document.
    n_mh_steps : int, default=2
        Metropolis-Hastings steps a token, where there are any.

    Returns
    -------
    chain : CTMChain
        Where it stands then, the pass not counted yet.
    """
    chain.normal  # noqa: B018  is found before the chain is copied
    chain = chain.next()
    chain.draw(sampler=sampler, n_steps=n_steps, n_mh_steps=n_mh_steps)
    return chain
