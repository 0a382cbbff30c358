"""Topics as the local step reads them, for the words of a chunk only.

* `index_words`: which words occur, and where;
* `topic_rows`: exp(E[log phi]) or the modes of phi of these words, and each word's best topics,
  parallel over words. Mostly empty rows are computed from the topics that have a count, the others
  along the way.
"""
from cython.parallel cimport parallel, prange
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc

from sklearn_sparsepost._kernels._bits cimport lowest_bit
from sklearn_sparsepost._kernels._math cimport (
    digamma, exp_nonpos, expdigamma_large, log_pos, shift_up,
)
from sklearn_sparsepost._kernels._topl cimport select_topl, weakest
from sklearn_sparsepost._kernels._types cimport floating

import numpy as np

cdef extern from "_nonzero.h" nogil:
    uint64_t nonzero_of(const double *number, int n)

cdef enum:
    BUFFER = 128

# What a row of topic weights is kept from underflow at, relative to its largest.
cdef double LEAST_FLOAT = 1e-28
cdef double LEAST_DOUBLE = 1e-280


def index_words(
    const int[::1] indices,  # IN
    int n_features,  # IN
    int n_threads=1,  # IN
):
    """The distinct words of a chunk and where each occurs: a counting sort.

    Parameters
    ----------
    indices : ndarray of shape (nnz,), int32
        Column of every stored count, document by document.
    n_features : int
        Size of the vocabulary.
    n_threads : int, default=1
        Number of OpenMP threads, each of which sorts a part of the occurrences.

    Returns
    -------
    words : ndarray of shape (n_words,), int32
        The distinct columns, ascending.
    local : ndarray of shape (nnz,), int32
        For every stored count the position of its column in `words`.
    word_ptr : ndarray of shape (n_words + 1,), int64
        Word `w` occurs at `occurrence[word_ptr[w]:word_ptr[w + 1]]`.
    occurrence : ndarray of shape (nnz,), int64
        Positions in `indices`, ascending within a word.
    """
    cdef Py_ssize_t nnz = indices.shape[0], part, n_parts = n_threads
    counts_array = np.zeros((n_parts, n_features), dtype=np.int32)
    cdef int[:, ::1] counts = counts_array
    for part in prange(n_parts, nogil=True, schedule="static", num_threads=n_threads):
        _count_words(indices, part * nnz // n_parts, (part + 1) * nnz // n_parts, counts[part])
    of_word = counts_array.sum(axis=0, dtype=np.int64) if n_parts > 1 else counts_array[0]
    words_array = np.flatnonzero(of_word).astype(np.int32)
    word_ptr_array = np.zeros(len(words_array) + 1, dtype=np.int64)
    np.cumsum(of_word[words_array], out=word_ptr_array[1:])
    slot_array = np.empty(n_features, dtype=np.int32)
    slot_array[words_array] = np.arange(len(words_array), dtype=np.int32)
    cursor_array = np.empty((n_parts, len(words_array)), dtype=np.int64)
    cursor_array[0] = word_ptr_array[:-1]
    for part in range(1, n_parts):
        cursor_array[part] = cursor_array[part - 1] + counts_array[part - 1, words_array]
    local_array = np.empty(nnz, dtype=np.int32)
    occurrence_array = np.empty(nnz, dtype=np.int64)
    cdef const int[::1] slot = slot_array
    cdef int[::1] local = local_array
    cdef long long[::1] occurrence = occurrence_array
    cdef long long[:, ::1] cursor = cursor_array
    for part in prange(n_parts, nogil=True, schedule="static", num_threads=n_threads):
        _place_words(
            indices, part * nnz // n_parts, (part + 1) * nnz // n_parts, slot, cursor[part],
            local, occurrence,
        )
    return words_array, local_array, word_ptr_array, occurrence_array


cdef void _count_words(
    const int[::1] indices, Py_ssize_t start, Py_ssize_t stop, int[::1] counts
) noexcept nogil:
    """How often each word occurs in some places."""
    cdef Py_ssize_t p
    for p in range(start, stop):
        counts[indices[p]] += 1


cdef void _place_words(
    const int[::1] indices,  # IN
    Py_ssize_t start,  # IN
    Py_ssize_t stop,  # IN
    const int[::1] slot,  # IN
    long long[::1] cursor,  # IN/OUT
    int[::1] local,  # OUT
    long long[::1] occurrence,  # OUT
) noexcept nogil:
    """Put some places to the words that occur there, and the words to the places."""
    cdef Py_ssize_t p
    cdef int w
    for p in range(start, stop):
        w = slot[indices[p]]
        local[p] = w
        occurrence[cursor[w]] = p
        cursor[w] += 1


cdef inline void _expdigamma_times(
    const floating *total, const floating *factor, Py_ssize_t n, floating *out
) noexcept nogil:
    """exp(psi(total)) * factor of many entries."""
    cdef Py_ssize_t first = 0, k, m
    cdef floating y
    cdef floating negative[BUFFER]
    cdef floating shifted[BUFFER]
    while first < n:  # two short loops over a buffer vectorise where one long loop does not
        m = n - first if n - first < BUFFER else BUFFER
        for k in range(m):
            negative[k] = -shift_up(total[first + k], &y)
            shifted[k] = y
        for k in range(m):
            out[first + k] = (
                expdigamma_large(shifted[k]) * exp_nonpos(negative[k]) * factor[first + k])
        first += m


cdef inline void _weigh(
    const floating *total, const floating *factor, Py_ssize_t n, bint point, floating *out
) noexcept nogil:
    """What the totals of prior and counts weigh in topics: their shares, or exp(E[log share])."""
    cdef Py_ssize_t k
    if not point:
        _expdigamma_times(total, factor, n, out)
        return
    for k in range(n):
        out[k] = total[k] * factor[k]


cdef inline floating _largest_of(
    const floating *value, Py_ssize_t n, floating largest
) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(n):
        largest = value[k] if value[k] > largest else largest
    return largest


cdef inline void _rescale(
    floating *row, Py_ssize_t n, floating factor, floating least
) noexcept nogil:
    cdef Py_ssize_t k
    cdef floating x
    for k in range(n):
        x = row[k] * factor
        row[k] = x if x > least else least


cdef void _dense_topic_row(
    const double *count, double scale, const double *prior, Py_ssize_t prior_step,
    const floating *topic_factor, const double *topic_log, bint point, int K, floating *row
) noexcept nogil:
    """The weights of one word over K topics, scaled so that the largest is 1."""
    cdef int k
    cdef floating s, largest, least = <floating>(LEAST_FLOAT if floating is float else LEAST_DOUBLE)
    cdef double shift, x
    cdef double p = prior[0]
    if prior_step == 0:
        for k in range(K):
            row[k] = <floating>(p + scale * count[k])
    else:
        for k in range(K):
            row[k] = <floating>(prior[k * prior_step] + scale * count[k])
    _weigh(row, topic_factor, K, point, row)
    largest = _largest_of(row, K, 0)
    if largest > <floating>1000 * least:
        _rescale(row, K, <floating>1 / largest, least)
        return
    shift = -1e308  # every topic is tiny here: a rare word under a tiny prior, or one never seen
    for k in range(K):
        x = prior[k * prior_step] + scale * count[k]
        s = <floating>((log_pos(x) if point else digamma(x)) - topic_log[k])
        row[k] = s
        shift = s if s > shift else shift
    for k in range(K):
        row[k] = exp_nonpos(<floating>(row[k] - shift))
        row[k] = row[k] if row[k] > least else least


cdef inline int _used_topics(const double *count, int K, int *used) noexcept nogil:
    """The topics that have a count, ascending; returns how many."""
    cdef uint64_t bits
    cdef int first, n = 0
    for first in range(0, K, 64):  # most have none, and which have one cannot be predicted
        bits = nonzero_of(count + first, 64 if first + 64 <= K else K - first)
        while bits:
            used[n] = first + lowest_bit(bits)
            n += 1
            bits &= bits - 1
    return n


cdef bint _sparse_topic_row(
    const double *count, double scale, double prior, const floating *topic_factor,
    const int *order, bint point, int K, const int *used, int n, int L, floating *value,
    floating *factor, floating *row, int *best, floating *share
) noexcept nogil:
    """The same from the n topics that have a count: all others differ by their factors alone.

    `order` lists the topics by falling factor, so that its first without a count are the best
    without a count. Returns False if the row has to be computed the long way.
    """
    cdef int j, k, i = 0, kept = n if n < L else L, worst
    cdef int others = L  # topics without a count that may be among the best
    cdef floating base, largest, x
    cdef floating least = <floating>(LEAST_FLOAT if floating is float else LEAST_DOUBLE)
    for j in range(n):
        value[j] = <floating>(prior + scale * count[used[j]])
        factor[j] = topic_factor[used[j]]
    value[n] = <floating>prior
    factor[n] = 1
    _weigh(value, factor, n + 1, point, value)
    base = value[n]
    while count[order[i]] != 0:
        i += 1
    largest = _largest_of(value, n, base * topic_factor[order[i]])
    if not largest > <floating>1000 * least:
        return False
    base /= largest
    _rescale(value, n, <floating>1 / largest, least)
    for k in range(K):
        x = base * topic_factor[k]
        row[k] = x if x > least else least
    for j in range(n):
        row[used[j]] = value[j]
    if L == 0:
        return True
    if base * topic_factor[order[K - 1]] <= least:
        select_topl(row, K, L, best, share)  # equal by underflow: the lowest indices it must be
        return True
    select_topl(value, n, kept, best, share)
    for j in range(kept):
        best[j] = used[best[j]]
    while others and i < K:
        k = order[i]
        i += 1
        if count[k] != 0:
            continue
        others -= 1
        if kept < L:
            best[kept] = k
            share[kept] = row[k]
            kept += 1
            continue
        worst = weakest(share, best, L)
        if row[k] > share[worst] or (row[k] == share[worst] and k < best[worst]):
            best[worst] = k
            share[worst] = row[k]
        elif row[k] < share[worst]:
            break
    return True


def topic_rows(
    const double[:, ::1] counts,  # IN
    double scale,  # IN
    const double[:, :] prior,  # IN
    const int[::1] words,  # IN
    const double[::1] topic_log,  # IN
    int sparsity_level,  # IN
    dtype,  # IN
    int n_threads=1,  # IN
    weight=None,  # OUT
    bint point=False,  # IN
):
    """Weights of some words in topics, and their best topics (Hughes & Sudderth 2016, Eq. 10).

    Parameters
    ----------
    counts : ndarray of shape (n_features, n_topics), float64
        Expected counts of words in topics, before `scale`.
    scale : float
        Factor on `counts`.
    prior : ndarray of shape (n_features, n_topics), float64
        Dirichlet prior of the topics; may be broadcast (strides of 0).
    words : ndarray of shape (n_words,), int32
        The rows wanted.
    topic_log : ndarray of shape (n_topics,), float64
        psi of each topic's total of prior and counts; of point estimates its log.
    sparsity_level : int
        How many best topics to list; from n_topics on, none is listed.
    dtype : {np.float32, np.float64}
        Type of the result.
    n_threads : int, default=1
        Number of OpenMP threads.
    weight : ndarray of shape (n_words, n_topics), default=None
        Where the weights are to be written; by default into a new array.
    point : bool, default=False
        Whether topics are points, shares of their totals, instead of Dirichlet distributed.

    Returns
    -------
    weight : ndarray of shape (n_words, n_topics)
        exp(E[log phi_kv]), of points phi_kv, every row scaled so that its largest entry is 1.
    best : ndarray of shape (n_words, L), int32
        The L largest entries of each row.
    share : ndarray of shape (n_words, L)
        Those entries divided by their sum: responsibilities under a uniform document.
    """
    logs = np.asarray(topic_log)
    factor = np.exp(logs.min() - logs).astype(dtype)
    order = np.argsort(-factor, kind="stable").astype(np.int32)
    K = counts.shape[1]
    L = sparsity_level if sparsity_level < K else 0
    if weight is None:
        weight = np.empty((words.shape[0], K), dtype=dtype)
    best = np.empty((words.shape[0], L), dtype=np.int32)
    share = np.empty((words.shape[0], L), dtype=dtype)
    if words.shape[0]:
        if weight.dtype == np.float32:
            _topic_rows[float](counts, scale, prior, words, factor, order, topic_log,
                               point, weight, best, share, n_threads)
        else:
            _topic_rows[double](counts, scale, prior, words, factor, order, topic_log,
                                point, weight, best, share, n_threads)
    return weight, best, share


cdef int _topic_rows(
    const double[:, ::1] counts, double scale, const double[:, :] prior, const int[::1] words,
    const floating[::1] factor, const int[::1] order, const double[::1] topic_log,
    bint point, floating[:, ::1] weight, int[:, ::1] best, floating[:, ::1] share, int n_threads,
) except -1:
    cdef int K = <int>weight.shape[1], L = <int>best.shape[1], j, n
    cdef Py_ssize_t w, v, step = prior.strides[1] // <Py_ssize_t>sizeof(double)
    cdef floating total
    cdef floating *values
    cdef int *used
    cdef int *best_row
    cdef floating *share_row
    cdef bint done
    cdef int no_memory = 0
    cdef int *failed = &no_memory
    with nogil, parallel(num_threads=n_threads):
        values = <floating *>malloc(2 * (K + 1) * sizeof(floating))
        used = <int *>malloc((K + 1) * sizeof(int))
        if values == NULL or used == NULL:
            failed[0] = 1
        for w in prange(words.shape[0], schedule="dynamic", chunksize=64):
            if failed[0]:
                continue
            v = words[w]
            best_row = &best[w, 0] if L else NULL
            share_row = &share[w, 0] if L else NULL
            n = _used_topics(&counts[v, 0], K, used) if step == 0 else K
            done = False
            if 2 * n < K:
                done = _sparse_topic_row(
                    &counts[v, 0], scale, prior[v, 0], &factor[0], &order[0], point, K,
                    used, n, L, values, values + K + 1, &weight[w, 0], best_row, share_row)
            if not done:
                _dense_topic_row(&counts[v, 0], scale, &prior[v, 0], step, &factor[0],
                                 &topic_log[0], point, K, &weight[w, 0])
                if L:
                    select_topl(&weight[w, 0], K, L, best_row, share_row)
            total = 0
            for j in range(L):
                total = total + share_row[j]
            for j in range(L):
                share_row[j] = share_row[j] / total
        free(values)
        free(used)
    if no_memory:
        raise MemoryError("no memory for the topics of a word")
    return 0
