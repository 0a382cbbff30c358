"""Collapsed Gibbs sampling of the topics of tokens (paper 004): one sweep in blocks.

Documents and words are dealt to groups; a block is what a group of documents holds of a group of
words. Blocks that share neither run at the same time, in threads, on counts that nobody else
touches; only the topics' totals are as old as the blocks' common start.

A word's counts are stored in one of three ways, which decide how its tokens are drawn:

* LISTED: its topics and their counts. All of them are weighed: Yao, Mimno & McCallum (2009).
* ALIASED: a row over all topics, and an alias table of a while ago. The document's topics are
  weighed, the table stands in for all others, and Metropolis-Hastings corrects (paper 004); or
  word and document propose in turn (the cycle of Yuan et al. 2015).
* DENSE: a row over all topics, all of which are weighed, a vector at a time.
"""
from cython.parallel cimport parallel, prange
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from sklearn_sparsepost._kernels._alias cimport alias_build, alias_draw
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

ctypedef fused topic_t:
    unsigned short
    int

# The fields of `Word`.
WORD = np.dtype([
    ("first", np.int64), ("mass", np.float64), ("largest", np.float32), ("beta", np.float32),
    ("length", np.int32), ("row", np.int32), ("draws_left", np.int32), ("prior_row", np.int32),
    ("kind", np.int32), ("_unused", np.int32, 5),
])

# Topics are weighed in this many lanes, and dense rows are padded to a multiple of it.
cdef enum:
    LANES = 16

cdef enum Kind:
    LISTED, ALIASED, DENSE

cdef struct Word:  # what a draw needs of a word, in one line of cache
    long long first  # of its entries in the pool
    double mass  # sum of the weights that its alias table was built from
    float largest  # of those weights
    float beta  # prior
    int length  # LISTED: topics that have a count; ALIASED: columns of the alias table
    int row  # of the dense counts
    int draws_left  # until the alias table is built anew
    int prior_row  # if the prior differs from topic to topic, else -1
    int kind
    int _unused[5]


cdef struct Entry:
    int topic
    int count  # LISTED: of the topic; ALIASED: the other topic of this column


cdef struct Table:  # counts of words in topics, shared by all threads
    int K
    Py_ssize_t stride  # between dense rows
    Word *words
    Entry *pool
    float *share  # of the alias tables' columns, beside the pool
    int *dense
    float *stale  # the weights that the alias tables were built from, dense
    const float *prior


cdef struct Sampler:  # of a thread, for one document at a time
    int K
    int n_listed
    int n_steps  # of Metropolis-Hastings a token
    bint cycle
    bint fresh  # whether alias tables may be built anew
    long long *n_topic
    const double *beta_total
    const double *alpha
    double alpha_total
    double *inverse  # 1 / (n_topic + beta_total)
    double *inverse_less  # 1 / (n_topic - 1 + beta_total): of a token's topic without the token
    int *n_doc  # the document's counts, dense
    int *listed  # its topics
    int *place  # where each is listed
    float *own  # n_doc * inverse of the listed topics
    float *both  # (n_doc + alpha) * inverse of all topics, padded with zeros
    double smooth  # sum of alpha * inverse
    double own_total  # sum of n_doc * inverse
    float *partial  # scratch: K and LANES more
    double *weight  # scratch: K
    int *order  # scratch: K
    int *other  # scratch: K
    double mean_inverse  # of a topic of average size
    const float *alpha_share
    const int *alpha_other
    KeyedStream stream


# ---------------------------------------------------------------- counts

cdef inline void _remove(Table *t, Word *word, int k) noexcept nogil:
    """Take one token of a word from a topic."""
    cdef int j = 0
    cdef Entry *entry
    if word.kind != LISTED:
        t.dense[word.row * t.stride + k] -= 1
        return
    entry = t.pool + word.first
    while entry[j].topic != k:
        j += 1
    entry[j].count -= 1
    if entry[j].count == 0:
        word.length -= 1
        entry[j] = entry[word.length]


cdef inline void _add(Table *t, Word *word, int k) noexcept nogil:
    """Put one token of a word into a topic."""
    cdef int j
    cdef Entry *entry
    if word.kind != LISTED:
        t.dense[word.row * t.stride + k] += 1
        return
    entry = t.pool + word.first
    for j in range(word.length):
        if entry[j].topic == k:
            entry[j].count += 1
            return
    entry[word.length].topic = k
    entry[word.length].count = 1
    word.length += 1


cdef inline void _weigh(Sampler *s, int k, int n, double inverse) noexcept nogil:
    """Let the document have n tokens in a listed topic of this inverse total."""
    cdef double before = s.inverse[k]
    s.smooth += s.alpha[k] * (inverse - before)
    s.own_total += n * inverse - s.n_doc[k] * before
    s.inverse[k] = inverse
    s.n_doc[k] = n
    s.own[s.place[k]] = <float>(n * inverse)
    s.both[k] = <float>((n + s.alpha[k]) * inverse)


cdef inline void _leave_topic(Sampler *s, int k) noexcept nogil:
    """A token that `_weigh` has taken out has gone to another topic."""
    cdef int j = s.place[k], last
    s.n_topic[k] -= 1
    s.inverse_less[k] = 1 / (s.n_topic[k] - 1 + s.beta_total[k])
    if s.n_doc[k] == 0:
        s.n_listed -= 1
        last = s.listed[s.n_listed]
        s.listed[j] = last
        s.own[j] = s.own[s.n_listed]
        s.place[last] = j


cdef inline void _join_topic(Sampler *s, int k) noexcept nogil:
    """A token of the document comes to a topic."""
    s.n_topic[k] += 1
    if s.n_doc[k] == 0:
        s.place[k] = s.n_listed
        s.listed[s.n_listed] = k
        s.n_listed += 1
    s.inverse_less[k] = s.inverse[k]
    _weigh(s, k, s.n_doc[k] + 1, 1 / (s.n_topic[k] + s.beta_total[k]))


# ---------------------------------------------------------------- draws

cdef inline int _walk(const float *weight, int n, double u) noexcept nogil:
    """The entry where the running sum passes u, the last that weighs anything if none does."""
    cdef int j, last = 0
    for j in range(n):
        if weight[j] > 0:
            last = j
            u -= weight[j]
            if u < 0:
                return j
    return last


cdef inline int _draw_smooth(Sampler *s, double u) noexcept nogil:
    """A topic from alpha * inverse, or from n_doc * inverse: what the word's prior weighs."""
    cdef int k
    if u < s.own_total and s.n_listed:
        return s.listed[_walk(s.own, s.n_listed, u)]
    u -= s.own_total
    for k in range(s.K):
        u -= s.alpha[k] * s.inverse[k]
        if u < 0:
            return k
    return s.K - 1


cdef inline int _draw_listed(Sampler *s, const Table *t, const Word *word) noexcept nogil:
    """The three buckets of Yao, Mimno & McCallum (2009)."""
    cdef int j, n = word.length
    cdef const Entry *entry = t.pool + word.first
    cdef float total = 0, x
    cdef double beta = word.beta, u
    for j in range(n):
        x = entry[j].count * s.both[entry[j].topic]
        s.partial[j] = x
        total += x
    u = keyed_next_double(&s.stream) * (total + beta * (s.own_total + s.smooth))
    if u < total and n:
        return entry[_walk(s.partial, n, u)].topic
    return _draw_smooth(s, (u - total) / beta)


cdef inline int _draw_dense(Sampler *s, const Table *t, const Word *word) noexcept nogil:
    """All topics, weighed in lanes: the running sum of each lane is searched."""
    cdef const int *count = t.dense + word.row * t.stride
    cdef const float *prior
    cdef float base = word.beta, total = 0, u, x
    cdef float sums[LANES]
    cdef Py_ssize_t i, n_rows = t.stride // LANES
    cdef int lane, low, high, middle
    for lane in range(LANES):
        sums[lane] = 0
    if word.prior_row < 0:
        for i in range(n_rows):
            for lane in range(LANES):
                x = count[i * LANES + lane] + base
                sums[lane] += s.both[i * LANES + lane] * x
                s.partial[i * LANES + lane] = sums[lane]
    else:
        prior = t.prior + word.prior_row * t.stride
        for i in range(n_rows):
            for lane in range(LANES):
                x = count[i * LANES + lane] + prior[i * LANES + lane]
                sums[lane] += s.both[i * LANES + lane] * x
                s.partial[i * LANES + lane] = sums[lane]
    for lane in range(LANES):
        total += sums[lane]
    u = <float>(keyed_next_double(&s.stream) * total)
    lane = _walk(sums, LANES, u)
    for low in range(lane):
        u -= sums[low]
    # The first entry whose running sum is above u; u may have been rounded up to the whole lane.
    low, high = 0, <int>n_rows - 1
    while low < high:
        middle = (low + high) // 2
        x = s.partial[middle * LANES + lane]
        if x > u or x >= sums[lane]:
            high = middle
        else:
            low = middle + 1
    return low * LANES + lane


cdef void _build(Sampler *s, Table *t, Word *word) noexcept nogil:
    """The alias table of a word, over the topics in which it has a token."""
    cdef int k, j, seen, n = 0
    cdef Py_ssize_t i
    cdef const int *count = t.dense + word.row * t.stride
    cdef float *stale = t.stale + word.row * t.stride
    cdef Entry *entry = t.pool + word.first
    cdef float x
    word.largest = 0
    memset(stale, 0, t.stride * sizeof(float))
    for i in range(t.stride // LANES):
        seen = 0  # most of a long row is zero
        for j in range(LANES):
            seen |= count[i * LANES + j]
        if not seen:
            continue
        for k in range(<int>i * LANES, <int>i * LANES + LANES):
            if count[k]:
                x = <float>(count[k] * s.inverse[k] * (1.0 if s.cycle else s.alpha[k]))
                stale[k] = x
                word.largest = x if x > word.largest else word.largest
                entry[n].topic = k
                s.weight[n] = x
                n += 1
    word.mass = alias_build(s.weight, n, t.share + word.first, s.other, s.order)
    for j in range(n):
        entry[j].count = s.other[j]
    word.length = n
    word.draws_left = n


cdef inline int _draw_table(Table *t, Word *word, double u) noexcept nogil:
    """A topic from the alias table of a word."""
    cdef double x = u * word.length
    cdef int j = <int>x
    cdef const Entry *entry = t.pool + word.first
    j = j if j < word.length else word.length - 1
    word.draws_left -= 1
    return entry[j if x - j < t.share[word.first + j] else entry[j].count].topic


cdef inline bint _accept(Sampler *s, double ratio) noexcept nogil:
    return ratio >= 1 or keyed_next_double(&s.stream) < ratio


cdef inline int _draw_aliased(Sampler *s, Table *t, Word *word, int old) noexcept nogil:
    """Paper 004: n_doc * n_word exactly, alpha * n_word from the table, then accept or stay."""
    cdef int j, _step, k = old, new
    cdef const int *count = t.dense + word.row * t.stride
    cdef const float *stale = t.stale + word.row * t.stride
    cdef float near = 0, x
    cdef double beta = word.beta, far, u, p_old, p_new, q_old, q_new
    if word.draws_left <= 0 and (s.fresh or word.length == 0):
        _build(s, t, word)
    far = word.mass
    for j in range(s.n_listed):
        x = count[s.listed[j]] * s.own[j]
        s.partial[j] = x
        near += x
    for _step in range(s.n_steps):
        u = keyed_next_double(&s.stream) * (near + far + beta * (s.own_total + s.smooth)) - near
        if u < 0:
            new = s.listed[_walk(s.partial, s.n_listed, u + near)]
        elif u < far:
            new = _draw_table(t, word, u / far)
        else:
            new = _draw_smooth(s, (u - far) / beta)
        if new == k:
            continue
        # What is proposed is the target with stale weights for alpha * n_word.
        p_old = (s.n_doc[k] + s.alpha[k]) * (count[k] + beta) * s.inverse[k]
        p_new = (s.n_doc[new] + s.alpha[new]) * (count[new] + beta) * s.inverse[new]
        q_old = p_old - s.alpha[k] * count[k] * s.inverse[k]
        q_new = p_new - s.alpha[new] * count[new] * s.inverse[new]
        u = keyed_next_double(&s.stream)
        # The stale weights are far away in memory: mostly their bounds decide.
        if u * p_old * (q_new + word.largest) < p_new * q_old:
            k = new
        elif u * p_old * (q_new + stale[new]) < p_new * (q_old + stale[k]):
            k = new
    return k


cdef inline int _draw_cycle(
    Sampler *s, Table *t, Word *word, int old, const topic_t *z, long long first, long long stop,
    long long token
) noexcept nogil:
    """Yuan et al. (2015): the word's table and a token of the document propose in turn.

    The counts hold the token itself, in `old`.
    """
    cdef int step, k = old, new, own
    cdef long long at
    cdef const int *count = t.dense + word.row * t.stride
    cdef const float *stale = t.stale + word.row * t.stride
    cdef double beta = word.beta, u, p_old, p_new, size = <double>(stop - first)
    cdef double base = beta * s.mean_inverse
    cdef double without = s.inverse_less[old], word_old, word_new
    if word.draws_left <= 0 and (s.fresh or word.length == 0):
        _build(s, t, word)
    for step in range(2 * s.n_steps):
        if step % 2 == 0:
            u = keyed_next_double(&s.stream) * (word.mass + s.K * base) - word.mass
            if u < 0:
                new = _draw_table(t, word, u / word.mass + 1)
            else:
                new = <int>(u / base)
                new = new if new < s.K else s.K - 1
        else:
            u = keyed_next_double(&s.stream) * (size + s.alpha_total)
            if u < size:
                at = first + <long long>u
                new = k if at == token else z[at]  # the token itself is where it now is
            else:
                u = (u - size) / s.alpha_total
                new = alias_draw(s.alpha_share, s.alpha_other, s.K, u)
        if new == k:
            continue
        own = k == old
        word_old = (count[k] - own + beta) * (without if own else s.inverse[k])
        p_old = s.n_doc[k] - own + s.alpha[k]
        own = new == old
        word_new = (count[new] - own + beta) * (without if own else s.inverse[new])
        p_new = s.n_doc[new] - own + s.alpha[new]
        if step % 2 == 0:
            u = word_new * p_new * (stale[k] + base)
            u /= word_old * p_old * (stale[new] + base)
        else:
            u = word_new / word_old
        if _accept(s, u):
            k = new
    return k


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
        _weigh(s, old, n - 1, s.inverse_less[old])
    else:
        # Most tokens stay where they are: then all is put back as it was.
        smooth, own_total = s.smooth, s.own_total
        _remove(t, word, old)
        _weigh(s, old, n - 1, s.inverse_less[old])
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
    return K * (sizeof(long long) + 3 * sizeof(double) + 6 * sizeof(int)) + (
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
    s.both = <float *>(s.weight + K)
    s.own = s.both + stride
    s.partial = s.own + stride
    s.n_doc = <int *>(s.partial + stride)
    s.listed = s.n_doc + K
    s.place = s.listed + K
    s.order = s.place + K
    s.other = s.order + K
    memset(s.n_doc, 0, K * sizeof(int))
    memset(s.both, 0, stride * sizeof(float))
    s.smooth = 0
    for k in range(K):
        s.n_topic[k] = n_topic[k]
        s.inverse[k] = 1 / (n_topic[k] + s.beta_total[k])
        s.inverse_less[k] = 1 / (n_topic[k] - 1 + s.beta_total[k])
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
    long long begin, long long end, uint64_t seed, uint64_t number, uint64_t unit
) noexcept nogil:
    """The tokens of a document that are of one group of words."""
    cdef long long token
    if begin == end:
        return
    keyed_init(&s.stream, seed, number, unit)
    _enter(s, z, first, stop)
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

    def __init__(self, kind, size, beta, prior_row, prior, int n_topics):
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
    def from_arrays(cls, arrays, int n_topics):
        """Counts from their `arrays`, as a pickle holds them."""
        cdef TokenCounts counts = cls.__new__(cls)
        counts.arrays = dict(arrays)
        counts._point(n_topics)
        return counts

    def set_beta(self, beta):
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

    @property
    def nbytes(self):
        """Memory in bytes."""
        return sum(array.nbytes for array in self.arrays.values())

    def add_tokens(self, const int[::1] word, const topic_t[::1] z):
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
        self, const int[::1] word, topic_t[::1] z, const long long[:, ::1] token_ptr,
        const long long[::1] groups, long long[::1] n_topic, const double[::1] alpha,
        const double[::1] beta_total, uint64_t seed, uint64_t number, *, bint cycle=False,
        bint fresh=True, int n_steps=1, int n_threads=1,
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
            Dirichlet prior of the documents' topic weights.
        beta_total : ndarray of shape (n_topics,), float64
            Sum of the prior of each topic's words.
        seed, number : int
            Seed of the fit and number of the sweep: a document's stream is keyed by both.
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
                    s.K, s.n_steps, s.cycle, s.fresh = K, n_steps, cycle, fresh
                    s.alpha, s.alpha_total, s.beta_total = &alpha[0], alpha_total, &beta_total[0]
                    s.mean_inverse = mean_inverse
                    s.alpha_share, s.alpha_other = &alpha_share[0], &alpha_other[0]
                    _begin_block(s, scratch, stride, &n_topic[0])
                    for d in range(groups[i], groups[i + 1]):
                        _visit(s, t, &word[0], &z[0], token_ptr[d, 0], token_ptr[d, n_groups],
                               token_ptr[d, g], token_ptr[d, g + 1], seed, number,
                               <uint64_t>(d * n_groups + g))
                    for k in range(K):
                        after[i, k] = s.n_topic[k]
                free(scratch)
                free(s)
            if no_memory:
                raise MemoryError("no memory for a sweep")
            change = after_array.sum(axis=0) - n_groups * np.asarray(n_topic)
            np.asarray(n_topic)[:] += change


def alias_table(const double[::1] weight):
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


def draw_from_table(const float[::1] share, const int[::1] other, const double[::1] uniform):
    """The columns of an alias table that uniform numbers stand for."""
    out_array = np.empty(uniform.shape[0], dtype=np.int32)
    cdef int[::1] out = out_array
    cdef Py_ssize_t i
    for i in range(uniform.shape[0]):
        out[i] = alias_draw(&share[0], &other[0], <int>share.shape[0], uniform[i])
    return out_array


def document_topics(const topic_t[::1] z, const long long[::1] doc_ptr, int n_topics):
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
    const int[::1] word, const long long[::1] doc_ptr, const int[::1] position,
    const floating[:, ::1] weight, const floating[:, ::1] mass, const double[::1] alpha,
    const double[::1] base, topic_t[::1] z, uint64_t seed, uint64_t number, uint64_t first_unit,
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
