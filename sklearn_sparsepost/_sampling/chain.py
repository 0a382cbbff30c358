"""Sampling loops: tokens in blocks, sweeps over them, and averages of what they visit."""

from copy import copy

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln, psi

from sklearn_sparsepost._kernels import gibbs_lda as kernels
from sklearn_sparsepost._kernels._rng import keyed_generator
from sklearn_sparsepost._run.chunks import split_rows, threads_for

# Tokens below which a sweep is one block: exactly one token after another.
SERIAL_TOKENS = 1 << 16
# Tokens of a document that a block should hold: entering a document costs about as much as they do.
TOKENS_A_VISIT = 20
MOST_GROUPS = 16
# What a draw costs, in multiplications.
WORK_A_TOKEN = 100
# How counts of a word are stored, as in the kernel.
LISTED, ALIASED, DENSE = range(3)
# "auto": tables serve words of more tokens. Those of rarer ones would be out of date soon.
FREQUENT = 32
# The `sweep` of the streams of the first topics, and of those that round fractions.
FIRST_DRAWS, ROUNDING = 1 << 62, 1 << 61
# Tokens a word may have: counts have 32 bits.
MOST_TOKENS = (1 << 31) - 1
# The least prior of a word that single precision tells from 0, with room to multiply.
LEAST_PRIOR = 1e-30
# Stored counts that are turned into tokens at a time.
PART = 1 << 22


class Tokens:
    """The tokens of a corpus, document by document, within a document by groups of words.

    Parameters
    ----------
    X : csr_matrix or csr_array
        Counts; may be memory-mapped.
    seed : int
        Seed of the streams that round fractions.

    Attributes
    ----------
    word : ndarray of shape (n_tokens,), int32
        Word of each token.
    ptr : ndarray of shape (n_documents, n_groups + 1), int64
        Where the document's tokens of each group of words begin, and where they end.
    groups : ndarray of shape (n_groups + 1,), int64
        Where each group of documents begins.
    size : ndarray of shape (n_features,), int64
        Tokens of each word.
    """

    def __init__(self, X, seed):
        if not X.has_canonical_format:  # entries of one word are one count
            X = X.copy()
            X.sum_duplicates()
        n_documents, n_features = X.shape
        runs = split_rows(X.indptr, 0, n_documents, PART)
        length = np.zeros(n_documents, dtype=np.int64)
        self.size = np.zeros(n_features, dtype=np.int64)
        for start, stop in runs:
            rows, columns, counts = _entries(X, start, stop, seed)
            length[start:stop] = np.bincount(rows, counts, minlength=stop - start)
            self.size += np.bincount(columns, counts, minlength=n_features).astype(np.int64)
        if self.size.max(initial=0) > MOST_TOKENS:
            word = int(self.size.argmax())
            raise ValueError(
                f"X has {self.size[word]:.3g} tokens of feature {word}, and AliasLDA holds each: "
                f"{MOST_TOKENS:,} are the most"
            )
        n_tokens = int(length.sum())
        n_groups = self._n_groups(n_tokens, n_documents)
        group = deal_words(self.size, n_groups)
        self.groups = cut_evenly(length, n_groups)
        self.word = np.empty(n_tokens, dtype=np.int32)
        self.ptr = np.zeros((n_documents, n_groups + 1), dtype=np.int64)
        first = 0
        for start, stop in runs:
            rows, columns, counts = _entries(X, start, stop, seed)
            cell = rows * n_groups + group[columns]
            order = np.lexsort((columns, cell))
            n = int(counts.sum())
            self.word[first : first + n] = np.repeat(columns[order], counts[order])
            tokens = np.bincount(cell, counts, minlength=(stop - start) * n_groups)
            ends = first + np.cumsum(tokens).astype(np.int64).reshape(stop - start, n_groups)
            self.ptr[start:stop, 1:] = ends
            self.ptr[start:stop, 0] = np.concatenate([[first], ends[:-1, -1]])
            first += n

    @classmethod
    def merged(cls, one, other):
        """The documents of both, those of `other` after those of `one`."""
        counts = [
            sp.csr_array(
                (np.ones(part.n_tokens, dtype=np.int64), part.word, part.doc_ptr),
                shape=(len(part.ptr), len(part.size)),
            )
            for part in (one, other)
        ]
        return cls(sp.vstack(counts, format="csr"), 0)

    def word_order(self):
        """The order of tokens by document and word."""
        rows = np.repeat(np.arange(len(self.ptr)), np.diff(self.doc_ptr))
        return np.lexsort((self.word, rows))

    @staticmethod
    def _n_groups(n_tokens, n_documents):
        if n_tokens <= SERIAL_TOKENS:
            return 1
        return int(np.clip(n_tokens // n_documents // TOKENS_A_VISIT, 2, MOST_GROUPS))

    @property
    def n_tokens(self):
        """Number of tokens."""
        return len(self.word)

    @property
    def doc_ptr(self):
        """Where each document's tokens begin, and where the last one's end."""
        return np.append(self.ptr[:, 0], self.n_tokens)


def _entries(X, start, stop, seed):
    """Rows (from 0), columns and counts of the entries of some rows, the counts whole numbers.

    A fraction is rounded up with its probability, by a stream of its own for each part.
    """
    span = slice(int(X.indptr[start]), int(X.indptr[stop]))
    rows = np.repeat(np.arange(stop - start), np.diff(X.indptr[start : stop + 1]))
    counts = np.asarray(X.data[span])
    if counts.dtype.kind == "f":
        counts = np.minimum(counts, 2.0 * MOST_TOKENS)  # to be refused, not to overflow
        whole = np.floor(counts)
        rng = keyed_generator(seed, ROUNDING, start)
        counts = whole + (rng.random(len(counts)) < counts - whole)
    return rows, np.asarray(X.indices[span]), counts.astype(np.int64)


def deal_words(size, n_groups):
    """Deal words to groups of about equally many tokens, there and back by falling frequency."""
    place = np.empty(len(size), dtype=np.int64)
    place[np.argsort(-size, kind="stable")] = np.arange(len(size))
    lap, seat = np.divmod(place, n_groups)
    return np.where(lap % 2, n_groups - 1 - seat, seat)


def cut_evenly(length, n_groups):
    """Bounds of groups of neighbouring documents with about equally many tokens."""
    ends = np.cumsum(length)
    total = int(ends[-1]) if len(ends) else 0
    inner = np.searchsorted(ends, total * np.arange(1, n_groups) / n_groups, side="left") + 1
    return np.concatenate([[0], np.minimum(inner, len(length)), [len(length)]]).astype(np.int64)


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


class GibbsState:
    """Where a chain stands.

    Parameters
    ----------
    tokens : Tokens
        The data.
    z : ndarray of shape (n_tokens,), uint16 or int32
        The topics of the tokens.
    alpha : ndarray of shape (n_components,)
        Prior of the documents' topic weights.
    prior : WordPrior
        Prior of the topics' words.
    sampler : str
        The sampler, which decides how counts are stored.
    seed : int
        Seed of every stream.
    """

    def __init__(self, tokens, z, alpha, prior, sampler, seed):
        self.tokens = tokens
        self.z = z
        self.alpha = alpha
        self.prior = prior
        self.sampler = sampler
        self.seed = seed
        self.n_laps = 0
        self.history = []
        self.acceptance = []
        self.report = {"n_tokens": tokens.n_tokens, "restarts_proposed": 0}
        self.fingerprint = None  # of the data, to tell whether a fit goes on
        self.recount()

    def recount(self):
        """Have the tokens counted anew, and forget the average."""
        self._counts = None  # until somebody asks for them
        self.count_topics()
        self.total = None  # all samples but perhaps the last one, flat, and how many these are
        self.last = None  # the last sample, as lists
        self.n_averaged = 0

    def count_topics(self):
        """Count the topics' tokens anew."""
        self.n_topic = np.bincount(self.z, minlength=len(self.alpha)).astype(np.int64)

    @property
    def counts(self):
        """The tokens of words in topics, counted anew if a sweep that failed was lent them."""
        if self._counts is None:
            tokens, prior = self.tokens, self.prior
            n_components = len(self.alpha)
            kind = storage(self.sampler, tokens.size, n_components)
            kind[prior.row >= 0] = DENSE
            rows = np.maximum(prior.rows, LEAST_PRIOR)
            counts = kernels.TokenCounts(
                kind, tokens.size, _single(prior.base), prior.row, rows, n_components
            )
            counts.add_tokens(tokens.word, self.z)
            self._counts = counts
        return self._counts

    def next(self):
        """A copy for the next sweep.

        The counts are lent: where a sweep fails, those of this state are made anew.
        """
        new = self._copy()
        new._counts, self._counts = self.counts, None
        return new

    def own(self, sampler, alpha, prior):
        """A copy to be moved by another call, with a sampler and priors.

        If they are the same, the chain is not disturbed.
        """
        new = self._copy()
        if (
            sampler == self.sampler
            and np.array_equal(alpha, self.alpha)
            and prior.same_as(self.prior)
        ):
            arrays = {name: array.copy() for name, array in self.counts.arrays.items()}
            new._counts = kernels.TokenCounts.from_arrays(arrays, len(alpha))
            new.total = None if self.total is None else self.total.copy()
        else:
            new.sampler, new.alpha, new.prior = sampler, alpha, prior
            new.recount()
        return new

    def extended(self, tokens, z, sampler, alpha, prior):
        """A copy with more documents and the topics of their tokens, a sampler and priors."""
        both = Tokens.merged(self.tokens, tokens)
        place = both.word_order()
        merged = np.empty(both.n_tokens, dtype=self.z.dtype)
        # Within a document tokens of one word are alike, so that sorting finds them again.
        merged[place] = np.concatenate([self.z[self.tokens.word_order()], z[tokens.word_order()]])
        new = self._copy()
        new.tokens, new.z = both, merged
        new.sampler, new.alpha, new.prior = sampler, alpha, prior
        new.report["n_tokens"] = both.n_tokens
        new.recount()
        return new

    def _copy(self):
        new = copy(self)
        new.z, new.n_topic = self.z.copy(), self.n_topic.copy()
        new.history, new.acceptance = list(self.history), list(self.acceptance)
        new.report = dict(self.report)
        return new

    def take_sample(self):
        """Add the present counts to the average."""
        self._add_last()
        self.last = self.counts.to_lists()
        self.n_averaged += 1

    def mean_counts(self):
        """Counts of words in topics, averaged over samples, or the present ones."""
        shape = len(self.tokens.size), len(self.alpha)
        if self.n_averaged:
            self._add_last()
            return self.total[:-1].reshape(shape) / np.float32(self.n_averaged)
        counts = np.zeros(shape)
        cells, values = _cells(self.counts.to_lists(), len(self.alpha))
        counts.ravel()[cells] = values
        return counts

    def _add_last(self):
        """Add the last sample to the sum of those before.

        The state before shares the sum. Its own samples are all in it or all but the last, and the
        last entry says which, since that is written together with the others.
        """
        if self.total is None:
            size = len(self.tokens.size) * len(self.alpha)
            self.total = np.zeros(size + 1, dtype=np.float32)
        if self.total[-1] < self.n_averaged:
            cells, values = _cells(self.last, len(self.alpha))
            self.total[np.append(cells, -1)] += np.append(values, 1)

    def __getstate__(self):
        return {**vars(self), "_counts": self.counts.arrays}

    def __setstate__(self, state):
        # What kernels write to may come from a file that is mapped for reading.
        arrays = {name: np.require(array, None, "W") for name, array in state["_counts"].items()}
        vars(self).update(state)
        self._counts = kernels.TokenCounts.from_arrays(arrays, len(self.alpha))


def storage(sampler, size, n_components):
    """How each word's counts are stored, given its tokens: LISTED, ALIASED or DENSE."""
    kinds = {"sparse": LISTED, "alias": ALIASED, "cycle": ALIASED, "dense": DENSE}
    if sampler in kinds:
        return np.full(len(size), kinds[sampler], dtype=np.int8)
    return np.where(size > FREQUENT, ALIASED, LISTED).astype(np.int8)


def builds_tables(lap):
    """Whether alias tables may be built anew: always at first, then ever more rarely.

    A table that depends on the present state disturbs the stationary distribution; built at laps
    that grow geometrically, it does so ever less.
    """
    if lap < 16:
        return True
    return int(np.log(lap) / np.log(1.1)) != int(np.log(lap - 1) / np.log(1.1))


def sweep(state, *, n_steps, n_threads):
    """Draw the topic of every token once, and return the state then."""
    state, tokens = state.next(), state.tokens
    state.counts.sweep(
        tokens.word,
        state.z,
        tokens.ptr,
        tokens.groups,
        state.n_topic,
        state.alpha,
        state.prior.topic_totals(),
        state.seed,
        state.n_laps + 1,  # streams of 0 are the start's
        cycle=state.sampler == "cycle",
        fresh=builds_tables(state.n_laps),
        n_steps=n_steps,
        n_threads=threads_for(WORK_A_TOKEN * tokens.n_tokens, n_threads),
    )
    return state


def draw_first(tokens, z, table, masses, alpha, seed):
    """Draw topics of tokens independently, given topics and the documents' expected counts.

    Parameters
    ----------
    tokens : Tokens
        The tokens.
    z : ndarray of shape (n_tokens,), uint16 or int32
        The topics, set.
    table : TopicTable
        The topics of the documents' words.
    masses : iterable of ndarray of shape (n_documents, n_components)
        Expected topic counts, document after document.
    alpha : ndarray of shape (n_components,)
        Prior of the documents' topic weights.
    seed : int
        Seed of the streams.
    """
    weight = table.rows[0]
    base = np.concatenate([(part * alpha).sum(axis=1) for part in np.array_split(weight, 64)])
    ptr, first = tokens.doc_ptr, 0
    for mass in masses:
        last = first + len(mass)
        span = slice(ptr[first], ptr[last])
        kernels.draw_assignments(
            tokens.word[span],
            ptr[first : last + 1] - ptr[first],
            table.position,
            weight,
            mass,
            alpha,
            base,
            z[span],
            seed,
            FIRST_DRAWS,
            first,
        )
        first = last


def log_likelihood(state):
    """log p(words, topics | priors), the weights integrated out, in nats."""
    row_ptr, topics, counts = state.counts.to_lists()
    words = np.repeat(np.arange(len(state.tokens.size)), np.diff(row_ptr))
    beta, totals = state.prior.at(words, topics), state.prior.topic_totals()
    value = (gammaln(counts + beta) - gammaln(beta)).sum()
    value += (gammaln(totals) - gammaln(totals + state.n_topic)).sum()
    _, topics, counts = kernels.document_topics(state.z, state.tokens.doc_ptr, len(state.alpha))
    alpha, total = state.alpha[topics], state.alpha.sum()
    value += (gammaln(counts + alpha) - gammaln(alpha)).sum()
    lengths = np.diff(state.tokens.doc_ptr)
    return float(value + (gammaln(total) - gammaln(total + lengths)).sum())


def learn_alpha(state, allocation):
    """One fixed-point step of the documents' prior."""
    ptr = state.tokens.doc_ptr
    _, topics, counts = kernels.document_topics(state.z, ptr, len(state.alpha))
    state.alpha = allocation.improved_prior(*allocation.prior_gains(topics, counts, np.diff(ptr)))


def learn_beta(state):
    """One fixed-point step of one prior of all topics' words (Minka 2000, Eq. 55)."""
    n_features, beta = len(state.tokens.size), state.prior.base[0]
    counts = state.counts.to_lists()[2]
    gain = (psi(counts + beta) - psi(beta)).sum()
    total = n_features * beta
    state.prior = state.prior.scaled(
        gain / (n_features * (psi(state.n_topic + total) - psi(total)).sum())
    )
    state.counts.set_beta(_single(state.prior.base))


def _single(prior):
    """A prior in single precision, still positive."""
    return np.maximum(prior, LEAST_PRIOR).astype(np.float32)


def _cells(lists, n_components):
    """Where the entries of lists of counts are in a flat table, and their values."""
    row_ptr, topics, values = lists
    rows = np.repeat(np.arange(len(row_ptr) - 1), np.diff(row_ptr))
    return rows * n_components + topics, values
