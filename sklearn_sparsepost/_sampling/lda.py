"""Collapsed Gibbs sampling of latent Dirichlet allocation: priors, sweeps, the log likelihood."""

from copy import copy

import numpy as np
from scipy.special import gammaln, psi

from sklearn_sparsepost._checks import LEAST_PRIOR
from sklearn_sparsepost._kernels import gibbs_lda as kernels
from sklearn_sparsepost._models.documents import improved_prior, prior_gains
from sklearn_sparsepost._models.priors import compact_prior
from sklearn_sparsepost._run.threads import threads_for
from sklearn_sparsepost._sampling.chain import Chain

# Tokens whose places an order holds in 32 bits.
MOST_IN_ORDER = (1 << 31) - 1
# What a draw costs, in multiplications.
WORK_A_TOKEN = 100
# And to count a token's topic.
WORK_A_COUNT = 4
# How counts of a word are stored, as in the kernel.
LISTED, ALIASED, DENSE = range(3)


def storage(sampler, tokens, n_components):
    """How each word's counts are stored: LISTED, ALIASED or DENSE."""
    if sampler == "auto":
        sampler = "by_word" if goes_by_word(sampler, tokens, n_components) else "alias"
    kinds = {"sparse": LISTED, "by_word": LISTED, "alias": ALIASED, "cycle": ALIASED}
    return np.full(len(tokens.size), kinds.get(sampler, DENSE), dtype=np.int8)


def goes_by_word(sampler, tokens, n_components):
    """Whether a sweep visits tokens word by word: documents' lists have room for their tokens."""
    most = (1 << (32 - kernels.topic_bits(n_components))) - 1
    longest = int(np.diff(tokens.doc_ptr).max(initial=0))
    fits = longest <= most and tokens.n_tokens <= MOST_IN_ORDER
    return sampler in ("auto", "by_word") and fits


def order_of(sampler, tokens, n_components):
    """The order that a sweep takes tokens in, word by word; None for document by document."""
    return tokens.by_word() if goes_by_word(sampler, tokens, n_components) else None


class WordPrior:
    """Dirichlet prior of the topics' words: one value a word, and rows where topics differ.

    Parameters
    ----------
    beta : ndarray of shape (), (n_features,) or (n_components, n_features)
        The prior.
    n_features, n_components : int
        Numbers of words and topics.
    """

    def __init__(self, beta, n_features, n_components):
        self.n_components = n_components
        beta = np.asarray(beta, dtype=np.float64)
        self.ndim = beta.ndim
        self.row = np.full(n_features, -1, dtype=np.int32)
        self.rows = np.empty((0, n_components))
        if beta.ndim < 2:
            self.base = np.broadcast_to(beta, (n_features,)).copy()
            return
        self.base = beta.min(axis=0)
        differ = np.flatnonzero(np.ptp(beta, axis=0))
        self.row[differ] = np.arange(len(differ))
        self.rows = np.ascontiguousarray(beta[:, differ].T)

    def topic_totals(self):
        """Sum of each topic's prior over words."""
        return self.base[self.row < 0].sum() + self.rows.sum(axis=0)

    def at(self, words, topics):
        """The prior of some words in some topics."""
        value = self.base[words]
        own = self.row[words] >= 0
        value[own] = self.rows[self.row[words[own]], topics[own]]
        return value

    def as_given(self):
        """The prior in the shape that it was given in."""
        if self.ndim == 0:
            return float(self.base[0])
        if self.ndim == 1:
            return self.base
        beta = np.tile(self.base, (self.n_components, 1))
        differ = np.flatnonzero(self.row >= 0)
        beta[:, differ] = self.rows[self.row[differ]].T
        return beta

    def same_as(self, other):
        """Whether another prior is equal."""
        pairs = ((self.base, other.base), (self.row, other.row), (self.rows, other.rows))
        return all(np.array_equal(a, b) for a, b in pairs)

    def scaled(self, factor):
        """This prior times a number."""
        new = copy(self)
        new.base = self.base * factor
        new.rows = self.rows * factor
        return new


class WordsChain(Chain):
    """A chain whose topics have Dirichlet distributed words, whatever weighs topics in documents.

    Parameters
    ----------
    tokens, z, seed, **options
        As for :class:`Chain`.
    n_components : int
        Number of topics.
    prior : WordPrior
        Prior of the topics' words.
    sampler : str
        The sampler, which decides how counts are stored.
    """

    # How counts are stored, and whether a word's tokens in a topic sit at tables.
    storage = staticmethod(storage)
    _seated = False

    def __init__(self, tokens, z, n_components, seed, *, prior, sampler, **options):
        self.prior = prior
        self.sampler = sampler
        super().__init__(tokens, z, n_components, seed, **options)

    def _new_counts(self):
        tokens = self.tokens
        kind = self.storage(self.sampler, tokens, self.n_components)
        counts = empty_counts(kind, tokens.size, self.prior, self.n_components, seated=self._seated)
        counts.add_tokens(tokens.word, self.z)
        return counts

    def _counts_from(self, arrays):
        return kernels.TokenCounts.from_arrays(arrays, self.n_components)

    def _has(self, *, prior, sampler):
        return sampler == self.sampler and prior.same_as(self.prior)

    def smoothing(self):
        """The prior, which is added to the counts."""
        return compact_prior(self.prior.as_given())

    def prior_counts(self):
        """The counts, as they are stored, and their totals under each of the prior's draws."""
        return self.counts.to_lists()[2], self.n_topic

    def words_log_likelihood(self):
        """log p(words | topics of tokens, prior) in nats."""
        row_ptr, topics, counts = self.counts.to_lists()
        words = np.repeat(np.arange(len(self.tokens.size)), np.diff(row_ptr))
        beta, totals = self.prior.at(words, topics), self.prior.topic_totals()
        value = (gammaln(counts + beta) - gammaln(beta)).sum()
        return value + (gammaln(totals) - gammaln(totals + self.n_topic)).sum()


class LDAChain(WordsChain):
    """A chain of latent Dirichlet allocation.

    Parameters
    ----------
    tokens, z, seed, **options
        As for :class:`WordsChain`.
    alpha : ndarray of shape (n_components,)
        Prior of the documents' topic weights.
    """

    def __init__(self, tokens, z, seed, *, alpha, **options):
        self.alpha = alpha
        super().__init__(tokens, z, len(alpha), seed, **options)

    def _has(self, *, alpha, **settings):
        return np.array_equal(alpha, self.alpha) and super()._has(**settings)

    def log_likelihood(self):
        """log p(words, topics | priors), the weights integrated out, in nats."""
        value, doc_ptr = self.words_log_likelihood(), self.tokens.doc_ptr
        topics, counts = document_topics(self.tokens, self.z, self.n_components)
        alpha, total = self.alpha[topics], self.alpha.sum()
        value += (gammaln(counts + alpha) - gammaln(alpha)).sum()
        return float(value + (gammaln(total) - gammaln(total + np.diff(doc_ptr))).sum())

    def prior_gains(self):
        """What a step of :func:`improved_prior` needs of the documents."""
        topics, counts = document_topics(self.tokens, self.z, self.n_components)
        return prior_gains(self.alpha, topics, counts, np.diff(self.tokens.doc_ptr))

    def cases(self):
        """The cases of all documents, as :func:`document_cases` has them."""
        return document_cases(self.tokens, self.z, self.n_components)

    def draw(self, n_steps):
        """Draw all that a sweep draws, in place; see :func:`sweep`."""
        self.draw_topics(n_steps)

    def draw_topics(self, n_steps):
        """Draw the topic of every token once, in place."""
        tokens = self.tokens
        self.counts.sweep(
            tokens.word,
            self.z,
            tokens.ptr,
            tokens.groups,
            self.n_topic,
            self.alpha,
            self.topic_totals(),
            self.seed,
            self.n_passes + 1,  # streams of 0 are the start's
            cycle=self.sampler == "cycle",
            fresh=builds_tables(self.n_passes),
            n_steps=n_steps,
            n_threads=threads_for(WORK_A_TOKEN * tokens.n_tokens),
            seating=self.seating(),
            order=order_of(self.sampler, tokens, self.n_components),
        )

    def topic_totals(self):
        """What is added to a topic's tokens."""
        return self.prior.topic_totals()

    def seating(self):
        """What a sweep reads of tables, if tokens sit at any."""
        return None

    def fitted_priors(self):
        """The priors in use, by the names of the estimator's attributes."""
        return {"doc_topic_prior_": self.alpha, "topic_word_prior_": self.prior.as_given()}


def empty_counts(kind, size, prior, n_components, *, seated=False):
    """Counts of words in topics, none yet.

    Parameters
    ----------
    kind : ndarray of shape (n_features,), int8
        How those of each word are to be stored: LISTED, ALIASED or DENSE.
    size : ndarray of shape (n_features,), int64
        How many tokens each word will have; no token is drawn of a word of none.
    prior : WordPrior
        Prior of the topics' words.
    n_components : int
        Number of topics.
    seated : bool, default=False
        Whether a word's tokens in a topic sit at tables.

    Returns
    -------
    counts : TokenCounts
        The counts.
    """
    kind = np.where(prior.row >= 0, DENSE, kind).astype(np.int8)
    kind[size == 0] = LISTED
    rows = np.maximum(prior.rows, LEAST_PRIOR)
    return kernels.TokenCounts(
        kind, size, _single(prior.base), prior.row, rows, n_components, seated=seated
    )


def document_topics(tokens, z, n_components):
    """Topics of documents and their numbers of tokens, document by document, as two arrays."""
    n_threads = threads_for(WORK_A_COUNT * tokens.n_tokens)
    return kernels.document_topics(z, tokens.doc_ptr, n_components, n_threads)[1:]


def document_cases(tokens, z, n_components):
    """The cases of documents: topics with their numbers of tokens, and numbers of tokens.

    Parameters
    ----------
    tokens : Tokens
        The documents.
    z : ndarray of shape (n_tokens,), uint16 or int32
        The topics of their tokens.
    n_components : int
        Number of topics.

    Returns
    -------
    cells : tuple of ndarray
        Topics, times 2**32, plus their numbers of tokens in a document, each sum once and in order;
        and how many documents have it.
    lengths : tuple of ndarray
        Numbers of tokens of documents; and how many documents have so many.
    """
    topics, counts = document_topics(tokens, z, n_components)
    cells = np.unique(topics * np.int64(1 << 32) + counts, return_counts=True)
    return cells, np.unique(np.diff(tokens.doc_ptr), return_counts=True)


def topics_of(cells):
    """The topics of cases, and their numbers of tokens."""
    return cells >> 32, cells & 0xFFFFFFFF


def builds_tables(n_passes):
    """Whether alias tables may be built anew: always at first, then ever more rarely.

    A table that depends on the present state disturbs the stationary distribution; built at passes
    that grow geometrically, it does so ever less.
    """
    if n_passes < 16:
        return True
    return int(np.log(n_passes) / np.log(1.1)) != int(np.log(n_passes - 1) / np.log(1.1))


def sweep(chain, *, n_steps):
    """Draw the topic of every token once, what hangs on it, and return the chain then.

    Parameters
    ----------
    chain : LDAChain
        Where the chain stands; it stays true.
    n_steps : int
        Metropolis-Hastings steps a token, where there are any.

    Returns
    -------
    chain : LDAChain
        Where it stands then, the pass not counted yet.
    """
    chain = chain.next()
    chain.draw(n_steps)
    return chain


def learn_alpha(chain):
    """One fixed-point step of the documents' prior, in place."""
    chain.alpha = improved_prior(chain.alpha, *chain.prior_gains())


def learn_beta(chain):
    """One fixed-point step of one prior of all topics' words, in place (Minka 2000, Eq. 55)."""
    n_features, beta = len(chain.tokens.size), chain.prior.base[0]
    counts, totals = chain.prior_counts()
    gain = (psi(counts + beta) - psi(beta)).sum()
    total = n_features * beta
    chain.prior = chain.prior.scaled(gain / (n_features * (psi(totals + total) - psi(total)).sum()))
    chain.counts.set_beta(_single(chain.prior.base))


def _single(prior):
    """A prior in single precision, still positive."""
    return np.maximum(prior, LEAST_PRIOR).astype(np.float32)
