"""Collapsed Gibbs sampling of the topics of tokens (Li et al. 2014): one sweep in blocks.

Documents and words are dealt to groups; a block is what a group of documents holds of a group of
words. Blocks that share neither run at the same time, in threads, on counts that nobody else
touches; only the topics' totals are as old as the blocks' common start.

* `TokenCounts`: counts of words in topics, and the sweep;
* `document_topics`: counts of topics in documents.

A block's sweep is in `_gibbs_words.pxd` word by word, with its draws, and in `_gibbs_blocks.pxd`
document by document, with draws in `_gibbs_draws.pxd`; what they read and change is in
`_gibbs_counts.pxd`.
"""
from cpython.exc cimport PyErr_CheckSignals
from cython.parallel cimport parallel, prange
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc

from sklearn_sparsepost._kernels._alias cimport Column, alias_build
from sklearn_sparsepost._kernels._gibbs_blocks cimport (
    Kept, _kept_at, _scratch_size, _sweep_block,
)
from sklearn_sparsepost._kernels._gibbs_counts cimport (
    ALIASED, DENSE, LISTED, MOST_TABLES, Cell, Dirichlet, PitmanYor, Sampler, Table, Word, model_t,
    topic_t, _add, _add_in_row, _count, _in_row, _step, _topic,
)
from sklearn_sparsepost._kernels._gibbs_words cimport Listing, Order, _shown_size, _sweep_words
from sklearn_sparsepost._kernels._lanes cimport LANES, choose_gathers, use_gathers

import numpy as np

# The fields of `Word`.
WORD = np.dtype([
    ("first", np.int64), ("mass", np.float64), ("largest", np.float32), ("beta", np.float32),
    ("length", np.int32), ("draws_left", np.int32), ("prior_row", np.int32), ("kind", np.int32),
    ("tables", np.int32), ("wide", np.int32), ("cells", np.int64), ("row", np.int64),
])
# Words of up to so many tokens have dense counts of 16 bits.
MOST_NARROW = 65535
# The fields of `Column`.
COLUMN = np.dtype([("share", np.float32), ("own", np.int32), ("other", np.int32)])


def _before(lengths):
    """Where each of some runs, one after the other, begins."""
    return np.cumsum(lengths) - lengths


def topic_bits(n_topics):
    """The low bits of a list's entry that say its topic; the others are its count."""
    return max((n_topics - 1).bit_length(), 1)


def _zeros(shape, dtype):
    """Zeros from the start of a line of cache on, so that threads share no line that one writes.

    They are in large pages where there are any, for which np.zeros does not ask.
    """
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.empty(size + 64, dtype=np.uint8)
    first = -memory.ctypes.data % 64
    array = memory[first : first + size].view(dtype).reshape(shape)
    array.view(np.uint8)[...] = 0
    return array


def _memory(n_tokens, n_documents, n_groups, given):
    """Where documents' topics are kept from block to block; none where nobody counts them twice."""
    return np.empty(0 if given or n_groups == 1 else _kept_at(n_tokens, n_documents), np.int64)


def _lists(token_ptr, n_tokens, n_topics):
    """Where documents' topics are listed, and memory for these lists, none of which is shorter."""
    lengths = np.diff(token_ptr[:, 0], append=n_tokens)
    n_rows = (np.minimum(lengths, n_topics) + LANES - 1) // LANES
    listings = np.zeros((len(lengths) + 1, 2), dtype=np.uint32)
    np.cumsum(n_rows, out=listings[1:, 0])
    memory = np.empty((int(listings[-1, 0]) + 1) * LANES, dtype=np.uint32)
    first = -memory.ctypes.data % 64 // memory.itemsize
    return listings, memory[first:]


cdef Order _order(order, unsigned int[:, ::1] listings, unsigned int[::1] entries):
    """What a sweep word by word reads; whoever gives the arrays keeps them."""
    cdef const int[::1] place = order[0], document = order[1], word = order[2]
    cdef const long long[::1] begin = order[3], runs = order[4]
    cdef Order tokens
    tokens.place = <const unsigned int *>&place[0]
    tokens.document = <const unsigned int *>&document[0]
    tokens.word, tokens.begin, tokens.runs = &word[0], &begin[0], &runs[0]
    tokens.listing, tokens.entry = <Listing *>&listings[0, 0], &entries[0]
    return tokens


cdef PitmanYor _pitman_yor(double discount, double prior_total, const float[:, :, ::1] steps):
    """The process that a sweep is given; whoever gives the steps keeps them."""
    cdef PitmanYor model
    model.discount, model.prior_total = discount, prior_total
    model.steps = <const Cell *>&steps[0, 0, 0]
    return model


cdef struct Sweep:  # what blocks of a sweep have in common
    Sampler sampler  # as each begins
    const int *word
    const float *logits
    Kept *kept
    const Order *order  # NULL: document by document
    uint64_t seed
    uint64_t number


cdef inline void _sweep_one(
    model_t *model, const Sweep *of, Sampler *s, Table *t, char *scratch, topic_t *z,
    const long long[:, ::1] token_ptr, const long long[::1] groups, int i, int e,
    const long long *n_topic, const long long *n_tables, long long *after, long long *tables_after
) noexcept nogil:
    """One of the blocks that are swept together, and the topics' totals after it."""
    cdef int k, n_groups = <int>groups.shape[0] - 1, g = (i + e) % n_groups
    s[0] = of.sampler
    if of.order != NULL:
        _sweep_words(
            model, s, t, scratch, of.order, z, token_ptr, groups[i], groups[i + 1],
            i * n_groups + g, e == 0, n_topic, n_tables, of.seed, of.number)
    else:
        _sweep_block(
            model, s, t, scratch, of.word, z, token_ptr, groups[i], groups[i + 1], g, of.kept,
            e == 0, n_topic, n_tables, of.logits, of.seed, of.number)
    for k in range(s.K):
        after[k] = s.n_topic[k]
        tables_after[k] = s.n_tables[k] if model_t is PitmanYor else 0


cdef object _sweep_groups(
    model_t *model, const Sweep *of, Table *t, topic_t[::1] z, const long long[:, ::1] token_ptr,
    const long long[::1] groups, long long[::1] n_topic, long long[::1] n_tables, int n_threads
):
    """All blocks, those together that share neither documents nor words."""
    cdef int n_groups = <int>groups.shape[0] - 1, e, i, no_memory = 0
    cdef int *failed = &no_memory
    cdef size_t size = _scratch_size(t.K, t.stride) + _shown_size(t.stride)
    after_array = np.empty((n_groups, t.K), dtype=np.int64)
    tables_array = np.empty((n_groups, t.K), dtype=np.int64)
    cdef long long[:, ::1] after = after_array, tables_after = tables_array
    cdef Sampler *s
    cdef char *scratch
    for e in range(n_groups):
        with nogil, parallel(num_threads=n_threads):
            s = <Sampler *>malloc(sizeof(Sampler))
            scratch = <char *>malloc(size)
            if s == NULL or scratch == NULL:
                failed[0] = 1
            for i in prange(n_groups, schedule="dynamic", chunksize=1):
                if not failed[0]:
                    _sweep_one(
                        model, of, s, t, scratch, &z[0], token_ptr, groups, i, e, &n_topic[0],
                        &n_tables[0], &after[i, 0], &tables_after[i, 0])
            free(scratch)
            free(s)
        if no_memory:
            raise MemoryError("no memory for a sweep")
        for total, parts in ((n_topic, after_array), (n_tables, tables_array)):
            np.asarray(total)[:] += parts.sum(axis=0) - n_groups * np.asarray(total)
        PyErr_CheckSignals()  # a sweep over a large corpus takes seconds


cdef class TokenCounts:
    """Counts of words in topics, as the sweeps store them.

    Parameters
    ----------
    kind : ndarray of shape (n_features,), int8
        How each word is stored: 0 listed, 1 aliased, 2 dense. A list has no place for counts that
        need more of 32 bits than its topics leave: words that may come to it are dense.
    size : ndarray of shape (n_features,), int64
        Tokens of each word.
    beta : ndarray of shape (n_features,), float32
        Prior of the words in every topic.
    prior_row : ndarray of shape (n_features,), int32
        Row of `prior` for words whose prior differs from topic to topic, else -1: those are dense.
    prior : ndarray of shape (n_rows, n_topics), float32
        Their prior.
    n_topics : int
        Number of topics, K.
    seated : bool, default=False
        Whether a word's tokens in a topic sit at tables, as under a Pitman-Yor process; they are
        to be seated before a sweep.
    """

    cdef Table table
    cdef readonly int n_features
    cdef readonly dict arrays

    def __init__(
        self, kind, size, beta, prior_row, prior, int n_topics, bint seated=False  # IN
    ):
        n_features = len(kind)
        stride = (n_topics + LANES - 1) // LANES * LANES
        # An entry has a topic and a count in 32 bits: larger counts have a row.
        kind = np.where((kind == LISTED) & (size >> (32 - topic_bits(n_topics)) > 0), DENSE, kind)
        with_row = kind != LISTED
        wide = with_row & (size > MOST_NARROW)
        # A wide row takes the room of two.
        n_counts = np.where(with_row, stride * (1 + wide), 0)
        capacity = np.minimum(size, n_topics)
        # Long lists begin where lines of cache do.
        long = (kind == LISTED) & (capacity >= LANES)
        n_lines = np.where(long, (capacity + LANES - 1) // LANES, 0)
        n_entries = np.where((kind == LISTED) & ~long, capacity, 0)
        n_columns = np.where(kind == ALIASED, capacity, 0)
        words = _zeros(n_features, WORD)
        n_long = LANES * int(n_lines.sum())
        words["first"] = np.select(
            [long, kind == LISTED],
            [LANES * _before(n_lines), n_long + _before(n_entries)],
            _before(n_columns),
        )
        words["beta"] = beta
        words["row"], words["wide"] = _before(n_counts), wide
        words["prior_row"] = prior_row
        words["kind"] = kind
        words["mass"] = size
        n_seats = np.where(with_row, stride, capacity)
        words["cells"] = _before(n_seats)
        n_cells = max(int(n_seats.sum()), 1) if seated else 1
        padded = np.zeros((max(len(prior), 1), stride), dtype=np.float32)
        padded[: len(prior), :n_topics] = prior
        self.arrays = {
            "words": words,
            "pool": _zeros(max(n_long + int(n_entries.sum()), 1), dtype=np.uint32),
            "columns": _zeros(max(int(n_columns.sum()), 1), dtype=COLUMN),
            "dense": _zeros(int(n_counts.sum()) + LANES, dtype=np.uint16),
            "stale": _zeros(
                int(n_counts.sum()) if (kind == ALIASED).any() else 1, dtype=np.float32),
            "prior": padded,
            "cells": _zeros((n_cells, 2), dtype=np.float32),
            "tables": _zeros(n_cells, dtype=np.uint16),
        }
        self._point(n_topics)

    @classmethod
    def from_arrays(cls, arrays, int n_topics):  # IN
        """Counts from their `arrays`, as a pickle holds them."""
        cdef TokenCounts counts = cls.__new__(cls)
        counts.arrays = dict(arrays)
        counts._point(n_topics)
        return counts

    def set_beta(self, beta):  # IN
        """Another prior of the words, the same in every topic."""
        self.arrays["words"]["beta"] = beta

    cdef object _point(self, int n_topics):
        cdef unsigned char[::1] words = self.arrays["words"].view(np.uint8)
        cdef unsigned int[::1] pool = self.arrays["pool"]
        cdef unsigned char[::1] columns = self.arrays["columns"].view(np.uint8)
        cdef unsigned short[::1] dense = self.arrays["dense"]
        cdef float[::1] stale = self.arrays["stale"]
        cdef const float[:, ::1] prior = self.arrays["prior"]
        cdef float[:, ::1] cells = self.arrays["cells"]
        cdef unsigned short[::1] tables = self.arrays["tables"]
        cdef Table *t = &self.table
        self.n_features = <int>len(self.arrays["words"])
        t.K, t.stride = n_topics, prior.shape[1]
        t.bits = topic_bits(n_topics)
        t.words, t.pool, t.columns = <Word *>&words[0], &pool[0], <Column *>&columns[0]
        t.dense, t.stale, t.prior = &dense[0], &stale[0], &prior[0, 0]
        t.cells, t.tables = <Cell *>&cells[0, 0], &tables[0]

    def add_tokens(
        self,
        const int[::1] word,  # IN
        const topic_t[::1] z,  # IN
    ):
        """Count tokens: word `word[i]` in topic `z[i]`."""
        cdef Py_ssize_t i
        with nogil:
            for i in range(z.shape[0]):
                _add(&self.table, self.table.words + word[i], z[i])

    def set_lists(
        self,
        const long long[::1] row_ptr,  # IN
        const int[::1] topics,  # IN
        const int[::1] counts,  # IN
        const long long[::1] size,  # IN
    ):
        """Have these counts where there are none yet.

        Parameters
        ----------
        row_ptr, topics, counts : ndarray
            As from `to_lists`; no topic is listed twice for a word.
        size : ndarray of shape (n_features,), int64
            That of the words; those of no tokens have no room, and are left out.
        """
        cdef Table *t = &self.table
        cdef Word *word
        cdef Py_ssize_t w, i
        with nogil:
            for w in range(self.n_features):
                word = t.words + w
                if not size[w]:
                    continue
                for i in range(row_ptr[w], row_ptr[w + 1]):
                    if word.kind == LISTED:
                        t.pool[word.first + word.length] = (
                            (<unsigned int>counts[i] << t.bits) | <unsigned int>topics[i])
                        word.length += 1
                    else:
                        _add_in_row(t, word, topics[i], counts[i])

    def seat(
        self,
        const float[:, :, ::1] steps,  # IN
        const long long[::1] row_ptr,  # IN
        const int[::1] topics,  # IN
        const int[::1] tables,  # IN
    ):
        """Let tokens sit at tables, and return how many tables the topics have.

        Parameters
        ----------
        steps : ndarray of shape (n_rows, MOST_TABLES + 1, 2), float32
            Steps of seating, from `seating_steps`.
        row_ptr, topics, tables : ndarray
            Tables of words in topics, as lists. Where there are tokens there is one at least, and
            there are no more of them than tokens.

        Returns
        -------
        n_tables : ndarray of shape (n_topics,), int64
            Tables of all words.
        """
        cdef Table *t = &self.table
        cdef PitmanYor model = _pitman_yor(0, 0, steps)
        cdef Word *word
        cdef int w, j, k, m, n
        cdef Py_ssize_t i
        n_tables_array = np.zeros(t.K, dtype=np.int64)
        cdef long long[::1] n_tables = n_tables_array
        cdef int[::1] wanted = np.zeros(t.K, dtype=np.int32)
        with nogil:
            for w in range(self.n_features):
                word = t.words + w
                word.tables = 0
                for i in range(row_ptr[w], row_ptr[w + 1]):
                    wanted[topics[i]] = tables[i]
                for j in range(word.length if word.kind == LISTED else t.K):
                    k = _topic(t, word, j) if word.kind == LISTED else j
                    m = _count(t, word, j)
                    n = min(max(wanted[k], 1), m, MOST_TABLES)
                    t.tables[word.cells + j] = <unsigned short>n
                    t.cells[word.cells + j] = _step(&model, m, n)
                    word.tables += n
                    n_tables[k] += n
                for i in range(row_ptr[w], row_ptr[w + 1]):
                    wanted[topics[i]] = 0
        return n_tables_array

    def to_tables(self):
        """The tables of words in topics, an entry for each of `to_lists`."""
        cdef Table *t = &self.table
        cdef int w, j
        cdef Py_ssize_t n = 0
        cdef Word *word
        tables_array = np.empty(self.arrays["tables"].size, dtype=np.int32)
        cdef int[::1] tables = tables_array
        with nogil:
            for w in range(self.n_features):
                word = t.words + w
                for j in range(word.length if word.kind == LISTED else t.K):
                    if t.tables[word.cells + j]:  # as many as there are counts
                        tables[n] = t.tables[word.cells + j]
                        n += 1
        return tables_array[:n].copy()

    def to_lists(self):
        """The counts as (row_ptr, topics, counts), word by word."""
        cdef Table *t = &self.table
        cdef int w, k, j
        cdef Py_ssize_t n = 0
        cdef Word *word
        lengths_array = np.zeros(self.n_features + 1, dtype=np.int64)
        cdef long long[::1] lengths = lengths_array
        with nogil:
            for w in range(self.n_features):
                word = t.words + w
                if word.kind == LISTED:
                    lengths[w + 1] = word.length
                    continue
                for k in range(t.K):
                    lengths[w + 1] += _in_row(t, word, k) != 0
        row_ptr = np.cumsum(lengths_array)
        n_stored = row_ptr[self.n_features]
        topics_array = np.empty(n_stored, dtype=np.int32)
        counts_array = np.empty(n_stored, dtype=np.int32)
        cdef int[::1] topics = topics_array, counts = counts_array
        with nogil:
            for w in range(self.n_features):
                word = t.words + w
                if word.kind == LISTED:
                    for j in range(word.length):
                        topics[n] = _topic(t, word, j)
                        counts[n] = _count(t, word, j)
                        n += 1
                    continue
                for k in range(t.K):
                    if _in_row(t, word, k):
                        topics[n] = k
                        counts[n] = _in_row(t, word, k)
                        n += 1
        return row_ptr, topics_array, counts_array

    def sweep(
        self,
        const int[::1] word,  # IN
        topic_t[::1] z,  # IN/OUT
        const long long[:, ::1] token_ptr,  # IN
        const long long[::1] groups,  # IN
        long long[::1] n_topic,  # IN/OUT
        const double[::1] alpha,  # IN
        const double[::1] beta_total,  # IN
        uint64_t seed,  # IN
        uint64_t number,  # IN
        logits=None,  # IN
        *,
        bint cycle=False,  # IN
        bint fresh=True,  # IN
        int n_steps=1,  # IN
        int n_threads=1,  # IN
        seating=None,  # IN/OUT
        order=None,  # IN
    ):
        """Draw the topic of every token once.

        Parameters
        ----------
        word : ndarray of shape (n_tokens,), int32
            Words, document by document, group of words by group within a document.
        z : ndarray of shape (n_tokens,), uint16 or int32
            Topics, replaced.
        token_ptr : ndarray of shape (n_documents, n_groups + 1), int64
            Where the document's tokens of each group of words begin, and where they end.
        groups : ndarray of shape (n_groups + 1,), int64
            Where each group of documents begins.
        n_topic : ndarray of shape (n_topics,), int64
            Tokens in each topic, kept up to date.
        alpha : ndarray of shape (n_topics,), float64
            Dirichlet prior of the documents' topic weights; of no effect beside logits.
        beta_total : ndarray of shape (n_topics,), float64
            Sum of the prior of each topic's words; or concentrations of Pitman-Yor processes.
        seed, number : int
            Seed of the fit and number of the sweep: a document's stream is keyed by both.
        logits : ndarray of shape (n_documents, n_topics), float32, default=None
            Logs of the documents' topic weights, up to constants, if these are given. Aliased words
            are then drawn by `cycle` alone, since what a document weighs is in no word's table.
        cycle : bool, default=False
            Whether aliased words are drawn by word and document proposals in turn.
        fresh : bool, default=True
            Whether alias tables that were drawn from as often as they have entries are built anew.
        n_steps : int, default=1
            Metropolis-Hastings steps a token; a step of the cycle is one proposal of each.
        n_threads : int, default=1
            Number of OpenMP threads.
        seating : tuple, default=None
            Of topics from a Pitman-Yor process: its discount, the sum of the prior of what topics
            share, the steps that the tokens were seated with, and the topics' tables, an int64
            array that is kept up to date. Aliased words are then not drawn by `cycle`.
        order : tuple of ndarray, default=None
            The order of a sweep word by word, as `Tokens.by_word` has it, however words are stored;
            by default document by document. Not with logits or `cycle`.
        """
        cdef int K = self.table.K
        cdef bint given = logits is not None, by_word = order is not None, seated = (
            seating is not None)
        cdef long long[::1] memory = _memory(
            z.shape[0], token_ptr.shape[0], <int>groups.shape[0] - 1, given or by_word)
        cdef const float[:, ::1] rows = logits if given else np.zeros((1, 1), np.float32)
        cdef long long[::1] n_tables = seating[3] if seated else np.zeros(K, dtype=np.int64)
        alpha_table = alias_table(np.asarray(alpha))
        cdef const float[::1] alpha_share = alpha_table[0]
        cdef const int[::1] alpha_other = alpha_table[1]
        cdef Dirichlet dirichlet
        cdef PitmanYor pitman_yor
        cdef Order tokens
        cdef Sweep s
        if not z.shape[0]:
            return
        s.word, s.logits, s.kept, s.order = &word[0], NULL, NULL, NULL
        s.seed, s.number = seed, number
        s.sampler.K, s.sampler.n_steps, s.sampler.cycle = K, n_steps, cycle
        s.sampler.fresh, s.sampler.unit = fresh, not given and not by_word
        s.sampler.alpha, s.sampler.alpha_total = &alpha[0], np.sum(alpha)
        s.sampler.beta_total = &beta_total[0]
        s.sampler.mean_inverse = K / (np.sum(n_topic) + np.sum(beta_total))
        s.sampler.alpha_share, s.sampler.alpha_other = &alpha_share[0], &alpha_other[0]
        if given:
            s.logits = &rows[0, 0]
        if memory.shape[0]:
            s.kept = <Kept *>&memory[0]
        if by_word:
            listings, entries = _lists(np.asarray(token_ptr), z.shape[0], K)
            tokens = _order(order, listings, entries)
            s.order = &tokens
        if seated:
            pitman_yor = _pitman_yor(seating[0], seating[1], seating[2])
            _sweep_groups(
                &pitman_yor, &s, &self.table, z, token_ptr, groups, n_topic, n_tables, n_threads)
        else:
            _sweep_groups(
                &dirichlet, &s, &self.table, z, token_ptr, groups, n_topic, n_tables, n_threads)


def gathers_are_used(
    wanted=None,  # IN
):
    """Whether draws gather what they weigh; by default where that is faster here, as measured.

    Parameters
    ----------
    wanted : bool, default=None
        Whether to gather from now on, where this build can; None to ask.
    """
    global _gathers
    if wanted is not None:
        use_gathers(wanted)
        _gathers = bool(wanted)
    return _gathers


_gathers = bool(choose_gathers())


def alias_table(
    const double[::1] weight,  # IN
):
    """The alias table of some weights: shares and other columns."""
    n = weight.shape[0]
    share_array = np.empty(n, dtype=np.float32)
    other_array = np.empty(n, dtype=np.int32)
    order_array = np.empty(n, dtype=np.int32)
    cdef float[::1] share = share_array
    cdef int[::1] other = other_array, order = order_array
    if n:
        alias_build(&weight[0], <int>n, &share[0], &other[0], &order[0])
    return share_array, other_array


cdef void _count_run(
    const topic_t[::1] z, const long long[::1] doc_ptr, Py_ssize_t start, Py_ssize_t stop,
    Py_ssize_t *slot, long long *row_ptr, int *topics, int *counts
) noexcept nogil:
    """Topics of a run of documents, from where their tokens begin on, and how many each has."""
    cdef Py_ssize_t d, i, first, n = doc_ptr[start]
    cdef int k
    for d in range(start, stop):
        first = n
        for i in range(doc_ptr[d], doc_ptr[d + 1]):
            k = z[i]
            if slot[k] < first or slot[k] >= n:  # of another document
                slot[k] = n
                topics[n] = k
                counts[n] = 0
                n += 1
            counts[slot[k]] += 1
        row_ptr[d + 1] = n - first


def document_topics(
    const topic_t[::1] z,  # IN
    const long long[::1] doc_ptr,  # IN
    int n_topics,  # IN
    int n_threads=1,  # IN
):
    """The counts of topics in documents as (row_ptr, topics, counts).

    Parameters
    ----------
    z : ndarray of shape (n_tokens,), uint16 or int32
        Topics, document by document.
    doc_ptr : ndarray of shape (n_documents + 1,), int64
        Where each document's tokens begin.
    n_topics : int
        Number of topics.
    n_threads : int, default=1
        Number of OpenMP threads.

    Returns
    -------
    row_ptr : ndarray of shape (n_documents + 1,), int64
    topics, counts : ndarray of shape (n_stored,), int32
    """
    cdef Py_ssize_t k, r, n_documents = doc_ptr.shape[0] - 1
    cdef Py_ssize_t n_runs = min(n_documents, 16 * n_threads)
    cdef int no_memory = 0
    cdef int *failed = &no_memory
    cdef Py_ssize_t *slot
    row_ptr_array = np.zeros(n_documents + 1, dtype=np.int64)
    if not z.shape[0]:
        return row_ptr_array, np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32)
    cdef long long[::1] row_ptr = row_ptr_array
    # Of each run of documents from where its tokens begin on.
    topics_array = np.empty(z.shape[0], dtype=np.int32)
    counts_array = np.empty(z.shape[0], dtype=np.int32)
    cdef int[::1] topics = topics_array, counts = counts_array
    runs = np.arange(n_runs + 1) * n_documents // n_runs
    cdef const long long[::1] bounds = runs.astype(np.int64)
    with nogil, parallel(num_threads=n_threads):
        slot = <Py_ssize_t *>malloc(n_topics * sizeof(Py_ssize_t))
        if slot == NULL:
            failed[0] = 1
        else:
            for k in range(n_topics):
                slot[k] = -1
        for r in prange(n_runs, schedule="dynamic", chunksize=1):
            if failed[0]:
                continue
            _count_run(
                z, doc_ptr, bounds[r], bounds[r + 1], slot, &row_ptr[0], &topics[0], &counts[0])
        free(slot)
    if no_memory:
        raise MemoryError("no memory for the topics of documents")
    np.cumsum(row_ptr_array, out=row_ptr_array)
    begin, ends = np.asarray(doc_ptr)[runs], row_ptr_array[runs]
    spans = [slice(at, at + n) for at, n in zip(begin, np.diff(ends), strict=False)]
    return row_ptr_array, *(
        np.concatenate([found[span] for span in spans])
        for found in (topics_array, counts_array))
