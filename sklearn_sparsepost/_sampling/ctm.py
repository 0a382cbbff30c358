"""Gibbs sampling of the correlated topic model (paper 003): logits, their prior, tokens."""

import mmap
import tempfile

import numpy as np

from sklearn_sparsepost._kernels import gibbs_lda
from sklearn_sparsepost._kernels import logits as kernels
from sklearn_sparsepost._models.logistic_normal import (
    WORK_A_LOGIT,
    in_blocks,
    tokens_log_likelihood,
)
from sklearn_sparsepost._run.streams import LOGIT_PRIOR, LOGITS, keyed_generator
from sklearn_sparsepost._run.threads import single_blas, threads_for
from sklearn_sparsepost._sampling import lda

# Sweeps of LDA that a chain begins with, and what is added to their counts for first logits.
FIRST_SWEEPS, FIRST_COUNT = 10, 0.05
# To the seed of these sweeps, so that the chain has other streams.
OTHER_SEED = 1 << 40
# "auto": words of up to so many topics are weighed in all of them.
FEW_TOPICS = 200


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

    def __init__(self, tokens, z, seed, *, structure, normal_prior, folder, **options):
        self.structure = structure
        self.normal_prior = normal_prior
        self.folder = folder
        super().__init__(tokens, z, len(normal_prior.mean), seed, **options)
        self.logits = first_logits(z, tokens.doc_ptr, self.n_components, folder)

    def _has(self, *, structure, normal_prior, folder, **settings):
        return (
            type(structure) is type(self.structure)
            and structure.n_factors == self.structure.n_factors
            and normal_prior.same_as(self.normal_prior)
            and super()._has(**settings)
        )

    def _storage(self):
        size = self.tokens.size
        if self.sampler != "auto":
            return lda.storage(self.sampler, size, self.n_components)
        often = lda.DENSE if self.n_components <= FEW_TOPICS else lda.ALIASED
        return np.where(size > lda.FREQUENT, often, lda.LISTED).astype(np.int8)

    @property
    def has_tables(self):
        """Whether there are words with alias tables, beside which documents need theirs."""
        return bool((self.counts.arrays["words"]["kind"] == lda.ALIASED).any())

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
                self._normal = self.structure.first(self.logits, self.normal_prior)
        return self._normal

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
        lists = gibbs_lda.document_topics(self.z, self.tokens.doc_ptr, self.n_components)
        with single_blas():
            density = sum(
                self.normal.log_density(block).sum() for _, block in in_blocks(self.logits)
            )
        given = tokens_log_likelihood(self.logits, *lists)
        return float(self.words_log_likelihood() + given + density)

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
    start = lda.LDAChain(
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
    chain.z = start.z
    chain.recount()
    chain.logits = first_logits(chain.z, chain.tokens.doc_ptr, chain.n_components, chain.folder)
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
    chain, tokens = chain.next(), chain.tokens
    number = chain.n_passes + 1  # streams of 0 are the start's
    doc_ptr = tokens.doc_ptr
    logits, shape = chain.logits, chain.logits.shape
    chain.logits = empty_logits(shape, chain.folder)
    factors = np.empty((shape[0], chain.structure.n_factors))
    cost = WORK_A_LOGIT + sum(array.shape[0] for array in chain.normal.arrays[1:3])
    kernels.sweep_documents(
        chain.z,
        doc_ptr,
        logits,
        chain.normal.arrays,
        chain.logits,
        factors,
        chain.seed,
        LOGITS + number,
        sampler=sampler,
        n_steps=n_steps,
        n_threads=threads_for(cost * n_steps * logits.size),
    )
    with single_blas():
        rng = keyed_generator(chain.seed, LOGIT_PRIOR + number)
        chain._normal = chain.structure.draw(chain.logits, factors, chain.normal_prior, rng)
    chain.counts.sweep(
        tokens.word,
        chain.z,
        tokens.ptr,
        tokens.groups,
        chain.n_topic,
        np.zeros(chain.n_components),
        chain.prior.topic_totals(),
        chain.seed,
        number,
        chain.logits,
        cycle=chain.has_tables,
        fresh=lda.builds_tables(chain.n_passes),
        n_steps=n_mh_steps,
        n_threads=threads_for(lda.WORK_A_TOKEN * tokens.n_tokens + WORK_A_LOGIT * logits.size),
    )
    return chain
