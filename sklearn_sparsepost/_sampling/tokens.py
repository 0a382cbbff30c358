"""The tokens of a corpus, in blocks, and their first topics."""

import numpy as np
import scipy.sparse as sp

from sklearn_sparsepost._kernels import first_draws as kernels
from sklearn_sparsepost._kernels import gibbs_lda
from sklearn_sparsepost._kernels._token_order import count_tokens, lay_out, order_by_word
from sklearn_sparsepost._run.chunks import split_units
from sklearn_sparsepost._run.streams import (
    FIRST_DRAWS,
    ROUNDING,
    STREAM_SAMPLE,
    keyed_generator,
)
from sklearn_sparsepost._run.threads import map_threads, settled_threads, threads_for

# Tokens up to which a sweep is one block, exactly one token after another. It is read whenever
# tokens are dealt: tests set it to 0, for blocks of small corpora.
SERIAL_TOKENS = 1 << 16
# Tokens of a document that a block should hold: entering a document costs about as much as they do.
TOKENS_A_VISIT = 20
MOST_GROUPS = 16
# Tokens a word may have: counts have 32 bits.
MOST_TOKENS = (1 << 31) - 1
# Topics that 16 bits tell apart.
SHORT_TOPICS = 1 << 16
# Stored counts that are turned into tokens at a time: nobody hears an interrupt meanwhile.
PART = 1 << 21
# Words whose weights of topics are summed up together.
WORDS = 1 << 7
# Tokens by which orders are longer, as the kernel reads ahead.
AHEAD = 8
# What a token's first topic costs, in multiplications or so.
WORK_A_DRAW = 64


class Tokens:
    """The tokens of a corpus, document by document, within a document by groups of words.

    Within a group the more frequent words come first, so that words which are drawn alike are
    together.

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
    in_groups : ndarray of shape (n_features,), int64
        The words, group by group, the more frequent first.
    ends : ndarray of shape (n_groups,), int64
        Where each group ends among these.
    """

    _by_word = None, None  # words of tokens, and their order

    def __init__(self, X, seed):
        if not X.has_canonical_format:  # entries of one word are one count
            X = X.copy()
            X.sum_duplicates()
        n_documents, n_features = X.shape
        runs = split_units(X.indptr, 0, n_documents, PART)
        length = np.zeros(n_documents, dtype=np.int64)
        self.size = np.zeros(n_features, dtype=np.int64)
        entries = None
        for start, stop in runs:
            entries = _entries(X, start, stop, seed)
            count_tokens(*entries, length[start:stop], self.size)
        check_sizes(self.size)
        n_tokens = int(length.sum())
        n_groups = self._n_groups(n_tokens, n_documents)
        place = by_frequency(self.size)
        group = deal_words(place, n_groups)
        self.in_groups = np.lexsort((place, group))
        self.ends = np.cumsum(np.bincount(group, minlength=n_groups))
        self.groups = cut_evenly(length, n_groups)
        self.word = np.empty(n_tokens, dtype=np.int32)
        self.ptr = np.zeros((n_documents, n_groups + 1), dtype=np.int64)
        ends = np.cumsum(length)
        self.ptr[:, 0] = ends - length
        given = self._rank(), self.in_groups, self.ends
        for start, stop in runs:
            if len(runs) > 1:
                entries = _entries(X, start, stop, seed)
            word = self.word[self.ptr[start, 0] : ends[stop - 1]]
            lay_out(*entries, *given, self.ptr[start:stop], word)

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

    def by_word(self):
        """The order of tokens word by word within blocks, as sweeps take it; it is kept.

        Returns
        -------
        place, document : ndarray of shape (n_tokens + AHEAD,), int32
            Where each token is, and its document.
        word : ndarray of shape (n_runs + 2,), int32
            The word of each run of tokens.
        begin : ndarray of shape (n_runs + 1,), int64
            Where it begins.
        runs : ndarray of shape (n_groups**2 + 1,), int64
            Where the runs of each block begin: of documents' groups, and of words' in each.
        """
        if self._by_word[0] is not self.word:
            self._by_word = self.word, self._ordered()
        return self._by_word[1]

    def _ordered(self):
        place = np.zeros(self.n_tokens + AHEAD, dtype=np.int32)
        document = np.zeros_like(place)
        words, begins, runs, rank, doc_ptr = [], [], [[0]], self._rank(), self.doc_ptr
        for group, start in enumerate(self.groups[:-1]):
            first = doc_ptr[start]
            *own, word, begin = self.order_of_group(group)
            span = slice(first, first + len(own[0]))
            for whole, part, offset in zip((place, document), own, (first, start), strict=True):
                np.add(part, offset, out=whole[span], casting="same_kind")
            words.append(word)
            begins.append(first + begin[:-1])
            n_runs = runs[-1][-1]
            runs.append(n_runs + np.searchsorted(rank[words[-1]], self.ends))
        words.append(np.zeros(2, dtype=np.int32))
        begins.append([self.n_tokens])
        return place, document, *(np.concatenate(parts) for parts in (words, begins, runs))

    def order_of_group(self, group):
        """The order of a group of documents, word by word, as of :meth:`by_word`.

        Parameters
        ----------
        group : int
            The group.

        Returns
        -------
        place, document : ndarray of shape (n_tokens,), int32
            Where each of its tokens is, and its document, counted from the group's first.
        word : ndarray of shape (n_runs,), int32
            The word of each run of tokens.
        begin : ndarray of shape (n_runs + 1,), int64
            Where it begins.
        """
        start, stop = self.groups[group : group + 2]
        ptr = self.doc_ptr[start : stop + 1]
        word = self.word[ptr[0] : ptr[-1]]
        place, document = np.empty_like(word), np.empty_like(word)
        begin = np.zeros(len(self.size) + 2, dtype=np.int64)
        order_by_word(word, ptr - ptr[0], self._rank(), place, document, begin)
        begin = begin[:-1]
        seen = np.flatnonzero(np.diff(begin))
        begin = np.append(begin[seen], len(word))
        return place, document, self.in_groups[seen].astype(np.int32), begin

    def _rank(self):
        """The place of each word among those of all groups."""
        rank = np.empty(len(self.size), dtype=np.int32)
        rank[self.in_groups] = np.arange(len(rank))
        return rank

    def __getstate__(self):
        return {name: value for name, value in vars(self).items() if name != "_by_word"}

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
    def n_documents(self):
        """Number of documents."""
        return len(self.ptr)

    @property
    def doc_ptr(self):
        """Where each document's tokens begin, and where the last one's end."""
        return np.append(self.ptr[:, 0], self.n_tokens)


def _entries(X, start, stop, seed):
    """Row pointer (from 0), columns and counts of some rows, the counts whole numbers.

    A fraction is rounded up with its probability, by a stream of its own for each part.
    """
    indptr = X.indptr[start : stop + 1] - X.indptr[start]
    span = slice(int(X.indptr[start]), int(X.indptr[stop]))
    counts = np.asarray(X.data[span])
    if counts.dtype.kind == "f" or counts.dtype.itemsize > 4:
        counts = np.minimum(counts, MOST_TOKENS + 1)  # to be refused, not to overflow
    if counts.dtype.kind == "f":
        whole = np.floor(counts)
        if not np.array_equal(counts, whole):
            rng = keyed_generator(seed, ROUNDING, start)
            whole += rng.random(len(counts)) < counts - whole
        counts = whole
    columns = np.asarray(X.indices[span])
    return indptr.astype(columns.dtype, copy=False), columns, counts.astype(np.uint32)


def check_sizes(size):
    """Raise a ValueError if a word has more tokens than are counted; `size` has those of each."""
    if size.max(initial=0) > MOST_TOKENS:
        word = int(size.argmax())
        raise ValueError(
            f"X has {size[word]:.3g} tokens of feature {word}, and each is held: "
            f"{MOST_TOKENS:,} are the most"
        )


def by_frequency(size):
    """The place of each word by falling number of tokens."""
    place = np.empty(len(size), dtype=np.int64)
    place[np.argsort(-size, kind="stable")] = np.arange(len(size))
    return place


def deal_words(place, n_groups):
    """Deal words to groups of about equally many tokens: there and back by their places."""
    turn, seat = np.divmod(place, n_groups)
    return np.where(turn % 2, n_groups - 1 - seat, seat)


def cut_evenly(length, n_groups):
    """Bounds of groups of neighbouring documents with about equally many tokens."""
    ends = np.cumsum(length)
    total = int(ends[-1]) if len(ends) else 0
    inner = np.searchsorted(ends, total * np.arange(1, n_groups) / n_groups, side="left") + 1
    return np.concatenate([[0], np.minimum(inner, len(length)), [len(length)]]).astype(np.int64)


def uniform_topics(tokens, n_components, seed):
    """Topics of tokens, drawn uniformly.

    Parameters
    ----------
    tokens : Tokens
        The tokens.
    n_components : int
        Number of topics.
    seed : int
        Seed of the stream.

    Returns
    -------
    z : ndarray of shape (n_tokens,), uint16 or int32
        The topics.
    """
    rng = keyed_generator(seed, 0, STREAM_SAMPLE)
    return rng.integers(n_components, size=tokens.n_tokens, dtype=type_of_topics(n_components))


def topics_under(table, counts, tokens, alpha, seed):
    """Topics of tokens, drawn independently given topics and the documents' expected counts.

    Parameters
    ----------
    table : TopicTable
        The topics of the documents' words.
    counts : iterable of ndarray of shape (n_documents, n_components)
        Expected topic counts, chunk of documents after chunk.
    tokens : Tokens
        The tokens.
    alpha : ndarray of shape (n_components,)
        Dirichlet prior of the documents' topic weights.
    seed : int
        Seed of the streams.

    Returns
    -------
    z : ndarray of shape (n_tokens,), uint16 or int32
        The topics.
    """
    z = np.empty(tokens.n_tokens, dtype=type_of_topics(len(alpha)))
    weight = table.rows[0]
    base = np.concatenate([(part * alpha).sum(axis=1) for part in np.array_split(weight, 64)])
    ptr, first = tokens.doc_ptr, 0
    for part in counts:
        last = first + len(part)
        span = slice(ptr[first], ptr[last])
        kernels.draw_assignments(
            tokens.word[span],
            ptr[first : last + 1] - ptr[first],
            table.position,
            weight,
            part,
            alpha,
            base,
            z[span],
            seed,
            FIRST_DRAWS,
            first,
        )
        first = last
    return z


class FirstWeights:
    """What topics weigh in each word before anything is known of its document.

    Parameters
    ----------
    topics : PseudoCounts of shape (n_features, n_components)
        Pseudo-counts of words in topics.
    alpha : ndarray of shape (n_components,)
        Dirichlet prior of the documents' topic weights.

    Attributes
    ----------
    weight : ndarray of shape (n_features, n_components), float32
        alpha times the word's share of the topic; those of a word sum to 1.
    """

    def __init__(self, topics, alpha):
        factor = alpha / topics.totals(topics.counts.sum(axis=0))
        self.weight = np.empty(topics.shape, dtype=np.float32)
        for start in range(0, len(self.weight), WORDS):
            words = slice(start, start + WORDS)
            weight = topics.block(words)
            weight *= factor
            weight /= weight.sum(axis=1, keepdims=True)
            self.weight[words] = weight  # in single precision priors could have been 0

    def draw(self, tokens, seed):
        """Topics of tokens word by word, each drawn given those that its document has so far.

        Each of these counts as much as the prior does, whatever the mass of that. Drawn alone,
        tokens give a document many topics, which take sweeps to go; drawn under a small prior, it
        keeps to those that its first tokens happen to have.

        Parameters
        ----------
        tokens : Tokens
            The tokens.
        seed : int
            Seed of the streams.

        Returns
        -------
        z : ndarray of shape (n_tokens,), uint16 or int32
            The topics.
        """
        n_topics = self.weight.shape[1]
        z, ptr = np.empty(tokens.n_tokens, dtype=type_of_topics(n_topics)), tokens.doc_ptr
        n_rows = -(-np.minimum(np.diff(ptr), n_topics) // kernels.ROW)
        bits = gibbs_lda.topic_bits(n_topics)

        def draw(group):
            start, stop = tokens.groups[group : group + 2]
            first = np.concatenate([[0], np.cumsum(n_rows[start:stop])])
            given = *tokens.order_of_group(group), first, self.weight
            kernels.draw_by_words(*given, z[ptr[start] : ptr[stop]], bits, seed, FIRST_DRAWS, group)

        with settled_threads(threads_for(WORK_A_DRAW * len(z))):
            map_threads(draw, range(len(tokens.ends)))
        return z


def type_of_topics(n_components):
    """The type that tokens' topics are held in."""
    return np.uint16 if n_components <= SHORT_TOPICS else np.int32
