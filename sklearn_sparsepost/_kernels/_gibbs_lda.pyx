"""Collapsed Gibbs sampling of the topics of tokens (paper 004): one sweep in blocks.

Documents and words are dealt to groups; a block is what a group of documents holds of a group of
words. Blocks that share neither run at the same time, in threads, on counts that nobody else
touches; only the topics' totals are as old as the blocks' common start.

* `TokenCounts`: counts of words in topics, and the sweep;
* `document_topics`: counts of topics in documents;
* `draw_assignments`: topics drawn independently, to begin with.

The draw of one token is in `_gibbs_draws.pxd`.
"""
from cython.parallel cimport parallel, prange
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from sklearn_sparsepost._kernels._alias cimport alias_build
from sklearn_sparsepost._kernels._gibbs_draws cimport (
    ALIASED, DENSE, LANES, LISTED, Entry, Sampler, Table, Word, topic_t, _add, _draw_aliased,
    _draw_cycle, _draw_dense, _draw_listed, _join_topic, _leave_topic, _remove, _weigh,
)
from sklearn_sparsepost._kernels._math cimport exp_nonpos
from sklearn_sparsepost._kernels._rng cimport KeyedStream, keyed_init, keyed_next_double
from sklearn_sparsepost._kernels._types cimport floating

import numpy as np

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define SPARSEPOST_PREFETCH(p) __builtin_prefetch((p), 1, 3)
    #else
    #define SPARSEPOST_PREFETCH(p) ((void)(p))
    #endif
    """
    void SPARSEPOST_PREFETCH(const void *) noexcept nogil

# The fields of `Word`.
WORD = np.dtype([
    ("first", np.int64), ("mass", np.float64), ("largest", np.float32), ("beta", np.float32),
    ("length", np.int32), ("row", np.int32), ("draws_left", np.int32), ("prior_row", np.int32),
    ("kind", np.int32), ("_unused", np.int32, 5),
])


# ---------------------------------------------------------------- documents

cdef inline void _enter(
    Sampler *s, const topic_t *z, long long first, long long stop
) noexcept nogil:
    """Count a document's topics."""
    cdef long long i
    cdef int j, k
    cdef double own
    s.n_listed = 0
    for i in range(first, stop):
        k = z[i]
        if s.n_doc[k] == 0:
            s.place[k] = s.n_listed
            s.listed[s.n_listed] = k
            s.n_listed += 1
        s.n_doc[k] += 1
    s.own_total = 0
    for j in range(s.n_listed):
        k = s.listed[j]
        own = s.n_doc[k] * s.inverse[k]
        s.own[j] = <float>own
        s.own_total += own
        s.both[k] = <float>(own + s.alpha[k] * s.inverse[k])


cdef inline void _enter_given(Sampler *s, const float *logits, bint cycle) noexcept nogil:
    """Take the weights of a document's topics from their logits."""
    cdef int k
    cdef float largest = logits[0]
    s.n_listed, s.own_total, s.smooth, s.alpha_total = 0, 0, 0, 0
    for k in range(s.K):
        largest = logits[k] if logits[k] > largest else largest
    for k in range(s.K):
        s.given[k] = exp_nonpos(<double>(logits[k] - largest))
        s.alpha_total += s.given[k]
    for k in range(s.K):
        s.smooth += s.given[k] * s.inverse[k]
        s.both[k] = <float>(s.given[k] * s.inverse[k])
    if cycle:
        alias_build(s.given, s.K, s.given_share, s.given_other, s.order)


cdef inline void _leave(Sampler *s) noexcept nogil:
    """Forget a document."""
    cdef int j, k
    for j in range(s.n_listed):
        k = s.listed[j]
        s.n_doc[k] = 0
        s.both[k] = <float>(s.alpha[k] * s.inverse[k])


cdef inline void _resample(
    Sampler *s, Table *t, Word *word, topic_t *z, long long token, long long first,
    long long stop
) noexcept nogil:
    """Draw the topic of one token given all others."""
    cdef int old = z[token], new, n = s.n_doc[old]
    cdef double inverse = s.inverse[old], smooth, own_total
    if word.kind == ALIASED and s.cycle:
        new = _draw_cycle(s, t, word, old, z, first, stop, token)
        if new == old:
            return
        _remove(t, word, old)
        _weigh(s, old, n - s.unit, s.inverse_less[old])
    else:
        # Most tokens stay where they are: then all is put back as it was.
        smooth, own_total = s.smooth, s.own_total
        _remove(t, word, old)
        _weigh(s, old, n - s.unit, s.inverse_less[old])
        if word.kind == LISTED:
            new = _draw_listed(s, t, word)
        elif word.kind == ALIASED:
            new = _draw_aliased(s, t, word, old)
        else:
            new = _draw_dense(s, t, word)
        if new == old:
            _weigh(s, old, n, inverse)
            s.smooth, s.own_total = smooth, own_total
            _add(t, word, old)
            return
    _leave_topic(s, old)
    _join_topic(s, new)
    _add(t, word, new)
    z[token] = <topic_t>new


# ---------------------------------------------------------------- sweeps

cdef size_t _scratch_size(int K, Py_ssize_t stride) noexcept nogil:
    return K * (sizeof(long long) + 4 * sizeof(double) + sizeof(float) + 7 * sizeof(int)) + (
        3 * stride * sizeof(float))


cdef void _begin_block(
    Sampler *s, char *scratch, Py_ssize_t stride, const long long *n_topic
) noexcept nogil:
    """Lay out a thread's scratch memory and take the topics' totals as they now are."""
    cdef int k, K = s.K
    s.n_topic = <long long *>scratch
    s.inverse = <double *>(s.n_topic + K)
    s.inverse_less = s.inverse + K
    s.weight = s.inverse_less + K
    s.given = s.weight + K
    s.both = <float *>(s.given + K)
    s.own = s.both + stride
    s.partial = s.own + stride
    s.n_doc = <int *>(s.partial + stride)
    s.listed = s.n_doc + K
    s.place = s.listed + K
    s.order = s.place + K
    s.other = s.order + K
    s.given_other = s.other + K
    s.given_share = <float *>(s.given_other + K)
    memset(s.n_doc, 0, K * sizeof(int))
    memset(s.place, 0, K * sizeof(int))
    memset(s.both, 0, stride * sizeof(float))
    s.smooth = 0
    for k in range(K):
        s.n_topic[k] = n_topic[k]
        s.inverse[k] = 1 / (n_topic[k] + s.beta_total[k])
        s.inverse_less[k] = 1 / (max(n_topic[k] - 1, 0) + s.beta_total[k])
        s.both[k] = <float>(s.alpha[k] * s.inverse[k])
        s.smooth += s.alpha[k] * s.inverse[k]


cdef inline void _fetch(const Sampler *s, const Table *t, const Word *word) noexcept nogil:
    """Ask for what the draw of a word will read: most of the time goes into waiting for it."""
    cdef int j
    cdef const int *row
    if word.kind == LISTED:
        SPARSEPOST_PREFETCH(t.pool + word.first)
        SPARSEPOST_PREFETCH(t.pool + word.first + 8)
        return
    row = t.dense + word.row * t.stride
    for j in range(s.n_listed):
        SPARSEPOST_PREFETCH(row + s.listed[j])


cdef inline void _visit(
    Sampler *s, Table *t, const int *word, topic_t *z, long long first, long long stop,
    long long begin, long long end, const float *logits, bint cycle, uint64_t seed,
    uint64_t number, uint64_t unit
) noexcept nogil:
    """The tokens of a document that are of one group of words."""
    cdef long long token
    if begin == end:
        return
    keyed_init(&s.stream, seed, number, unit)
    if logits == NULL:
        _enter(s, z, first, stop)
    else:
        _enter_given(s, logits, cycle)
    for token in range(begin, end):
        if token + 4 < end:
            SPARSEPOST_PREFETCH(t.words + word[token + 4])
        if token + 2 < end:
            _fetch(s, t, t.words + word[token + 2])
        _resample(s, t, t.words + word[token], z, token, first, stop)
    _leave(s)


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


cdef class TokenCounts:
    """Counts of words in topics, as the sweeps store them.

    Parameters
    ----------
    kind : ndarray of shape (n_features,), int8
        How each word is stored: 0 listed, 1 aliased, 2 dense.
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
    """

    cdef Table table
    cdef readonly int n_features
    cdef readonly dict arrays

    def __init__(self, kind, size, beta, prior_row, prior, int n_topics):  # IN
        n_features = len(kind)
        stride = (n_topics + LANES - 1) // LANES * LANES
        capacity = np.where(kind == DENSE, 0, np.minimum(size, n_topics))
        with_row = kind != LISTED
        n_rows, n_pool = max(int(with_row.sum()), 1), max(int(capacity.sum()), 1)
        words = _zeros(n_features, WORD)
        words["first"] = np.cumsum(capacity) - capacity
        words["beta"] = beta
        words["row"] = np.where(with_row, np.cumsum(with_row) - 1, -1)
        words["prior_row"] = prior_row
        words["kind"] = kind
        padded = np.zeros((max(len(prior), 1), stride), dtype=np.float32)
        padded[: len(prior), :n_topics] = prior
        self.arrays = {
            "words": words,
            "pool": _zeros((n_pool, 2), dtype=np.int32),
            "share": _zeros(n_pool, dtype=np.float32),
            "dense": _zeros((n_rows, stride), dtype=np.int32),
            "stale": _zeros((n_rows if (kind == ALIASED).any() else 1, stride), dtype=np.float32),
            "prior": padded,
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
        cdef int[:, ::1] pool = self.arrays["pool"], dense = self.arrays["dense"]
        cdef float[::1] share = self.arrays["share"]
        cdef float[:, ::1] stale = self.arrays["stale"]
        cdef const float[:, ::1] prior = self.arrays["prior"]
        cdef Table *t = &self.table
        self.n_features = <int>len(self.arrays["words"])
        t.K, t.stride = n_topics, dense.shape[1]
        t.words, t.pool, t.share = <Word *>&words[0], <Entry *>&pool[0, 0], &share[0]
        t.dense, t.stale, t.prior = &dense[0, 0], &stale[0, 0], &prior[0, 0]

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

    def to_lists(self):
        """The counts as (row_ptr, topics, counts), word by word."""
        cdef Table *t = &self.table
        cdef int w, k, j
        cdef Py_ssize_t n = 0
        cdef Word *word
        cdef const int *row
        lengths_array = np.zeros(self.n_features + 1, dtype=np.int64)
        cdef long long[::1] lengths = lengths_array
        with nogil:
            for w in range(self.n_features):
                word = t.words + w
                if word.kind == LISTED:
                    lengths[w + 1] = word.length
                    continue
                row = t.dense + word.row * t.stride
                for k in range(t.K):
                    lengths[w + 1] += row[k] != 0
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
                        topics[n] = t.pool[word.first + j].topic
                        counts[n] = t.pool[word.first + j].count
                        n += 1
                    continue
                row = t.dense + word.row * t.stride
                for k in range(t.K):
                    if row[k]:
                        topics[n] = k
                        counts[n] = row[k]
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
            Sum of the prior of each topic's words.
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
        """
        cdef int K = self.table.K, n_groups = <int>groups.shape[0] - 1, e, i, g, no_memory = 0
        cdef int *failed = &no_memory
        cdef Py_ssize_t d, stride = self.table.stride, k
        cdef size_t size = _scratch_size(K, stride)
        alpha_table = alias_table(np.asarray(alpha))
        cdef const float[::1] alpha_share = alpha_table[0]
        cdef const int[::1] alpha_other = alpha_table[1]
        after_array = np.empty((n_groups, K), dtype=np.int64)
        cdef long long[:, ::1] after = after_array
        cdef double alpha_total = np.sum(alpha)
        cdef double mean_inverse = K / (np.sum(n_topic) + np.sum(beta_total))
        cdef Sampler *s
        cdef char *scratch
        cdef Table *t = &self.table
        cdef bint given = logits is not None
        cdef const float[:, ::1] weights = logits if given else np.zeros((1, 1), np.float32)
        cdef Py_ssize_t next_row = weights.shape[1] if given else 0
        cdef const float *row
        if not z.shape[0]:
            return
        for e in range(n_groups):
            with nogil, parallel(num_threads=n_threads):
                s = <Sampler *>malloc(sizeof(Sampler))
                scratch = <char *>malloc(size)
                if s == NULL or scratch == NULL:
                    failed[0] = 1
                for i in prange(n_groups, schedule="dynamic", chunksize=1):
                    if failed[0]:
                        continue
                    g = (i + e) % n_groups
                    s.K, s.n_steps, s.cycle, s.fresh, s.unit = K, n_steps, cycle, fresh, not given
                    s.alpha, s.alpha_total, s.beta_total = &alpha[0], alpha_total, &beta_total[0]
                    s.mean_inverse = mean_inverse
                    s.alpha_share, s.alpha_other = &alpha_share[0], &alpha_other[0]
                    _begin_block(s, scratch, stride, &n_topic[0])
                    if given:
                        s.alpha, s.alpha_share = s.given, s.given_share
                        s.alpha_other = s.given_other
                    for d in range(groups[i], groups[i + 1]):
                        row = &weights[0, 0] + d * next_row if given else NULL
                        _visit(s, t, &word[0], &z[0], token_ptr[d, 0], token_ptr[d, n_groups],
                               token_ptr[d, g], token_ptr[d, g + 1], row, cycle, seed, number,
                               <uint64_t>(d * n_groups + g))
                    for k in range(K):
                        after[i, k] = s.n_topic[k]
                free(scratch)
                free(s)
            if no_memory:
                raise MemoryError("no memory for a sweep")
            change = after_array.sum(axis=0) - n_groups * np.asarray(n_topic)
            np.asarray(n_topic)[:] += change


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


def document_topics(
    const topic_t[::1] z,  # IN
    const long long[::1] doc_ptr,  # IN
    int n_topics,  # IN
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

    Returns
    -------
    row_ptr : ndarray of shape (n_documents + 1,), int64
    topics, counts : ndarray of shape (n_stored,), int32
    """
    cdef Py_ssize_t d, i, n = 0, first, n_documents = doc_ptr.shape[0] - 1
    cdef int k
    row_ptr_array = np.zeros(n_documents + 1, dtype=np.int64)
    cdef long long[::1] row_ptr = row_ptr_array
    slot_array = np.full(n_topics, -1, dtype=np.int64)
    cdef long long[::1] slot = slot_array
    topics_array = np.empty(z.shape[0], dtype=np.int32)
    counts_array = np.zeros(z.shape[0], dtype=np.int32)
    cdef int[::1] topics = topics_array, counts = counts_array
    with nogil:
        for d in range(n_documents):
            first = n
            for i in range(doc_ptr[d], doc_ptr[d + 1]):
                k = z[i]
                if slot[k] < first:
                    slot[k] = n
                    topics[n] = k
                    n += 1
                counts[slot[k]] += 1
            row_ptr[d + 1] = n
    return row_ptr_array, topics_array[:n].copy(), counts_array[:n].copy()


def draw_assignments(
    const int[::1] word,  # IN
    const long long[::1] doc_ptr,  # IN
    const int[::1] position,  # IN
    const floating[:, ::1] weight,  # IN
    const floating[:, ::1] mass,  # IN
    const double[::1] alpha,  # IN
    const double[::1] base,  # IN
    topic_t[::1] z,  # OUT
    uint64_t seed,  # IN
    uint64_t number,  # IN
    uint64_t first_unit,  # IN
):
    """Draw topics of tokens independently, given the documents' and the topics' words.

    A token's topic has a probability proportional to (mass + alpha) * weight.

    Parameters
    ----------
    word : ndarray of shape (n_tokens,), int32
        Words of the tokens, document by document.
    doc_ptr : ndarray of shape (n_documents + 1,), int64
        Where each document's tokens begin.
    position : ndarray of shape (n_features,), int32
        Row of `weight` of each word.
    weight : ndarray of shape (n_words, n_topics)
        Weights of topics for each word.
    mass : ndarray of shape (n_documents, n_topics)
        Expected counts of topics in each document.
    alpha : ndarray of shape (n_topics,), float64
        Prior of the documents' topic weights.
    base : ndarray of shape (n_words,), float64
        The sum of alpha * weight over topics.
    z : ndarray of shape (n_tokens,), uint16 or int32
        The topics, set.
    seed, number, first_unit : int
        Of the streams: document d has the unit `first_unit + d`.
    """
    cdef Py_ssize_t d, i, n_topics = weight.shape[1]
    cdef int k, j, n, w
    cdef double u, near
    cdef KeyedStream stream
    listed_array = np.empty(n_topics, dtype=np.int32)
    cdef int[::1] listed = listed_array
    with nogil:
        for d in range(doc_ptr.shape[0] - 1):
            keyed_init(&stream, seed, number, first_unit + d)
            n = 0
            for k in range(n_topics):
                listed[n] = k
                n += mass[d, k] > 0
            for i in range(doc_ptr[d], doc_ptr[d + 1]):
                w = position[word[i]]
                near = 0
                for j in range(n):
                    near += weight[w, listed[j]] * mass[d, listed[j]]
                u = keyed_next_double(&stream) * (near + base[w])
                k = -1
                if u < near:
                    for j in range(n):
                        k = listed[j]
                        u -= weight[w, k] * mass[d, k]
                        if u < 0:
                            break
                else:
                    u -= near
                    while k < n_topics - 1 and u >= 0:
                        k += 1
                        u -= weight[w, k] * alpha[k]
                z[i] = <topic_t>k
