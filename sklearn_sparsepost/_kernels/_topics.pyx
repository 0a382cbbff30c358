"""The local step of topic models: one pass over a chunk of documents with fixed topics.

Three kernels do the work, in this order, each parallel over independent units, none with a race:

* `topic_rows`, over words: exp(E[log phi]) for the chunk's words, and each word's L best topics;
* `fit_documents`, over documents: Alg. 2 of paper 000 under the L-sparse constraint, with restarts;
* `sum_by_word`, over words: expected counts of every word in every topic, summed in document order.

Inside a document the block of topic weights is stored topic by topic, `n_active` rows of words,
so that arithmetic vectorises over words and a topic is dropped by leaving its row out of a list.
"""
from cython.parallel cimport parallel, prange
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memmove, memset

from sklearn_sparsepost._kernels._math cimport (
    digamma, exp_nonpos, expdigamma_large, gammaln, log_pos, shift_up,
)
from sklearn_sparsepost._kernels._topl cimport select_topl, weakest
from sklearn_sparsepost._kernels._types cimport floating, indptr_t

import numpy as np

# Words are processed in blocks of this many, so that loops need no remainder.
cdef enum:
    LANES = 8
    BUFFER = 128

# What a row of topic weights is kept from underflow at, relative to its largest.
cdef double LEAST_FLOAT = 1e-28
cdef double LEAST_DOUBLE = 1e-280

cdef struct Options:
    int n_topics
    int sparsity_level
    int max_iter
    int burn_in
    int restarts
    int restart_iter
    double tol
    double active_tol


cdef struct Document:
    int n_words
    int n_active  # topics still active
    int L  # the most topics a word may keep
    bint dense  # L >= n_topics: no topic is ever dropped
    bint started  # from given masses, not from the words alone
    Py_ssize_t m  # n_words, padded to whole blocks
    Py_ssize_t stride  # between the topic vectors
    int *topics  # ids of the gathered topics
    int *rows  # which of the gathered rows are active, ascending
    int *spare  # rows put aside while a restart is tried
    int *index  # (n_words, L): positions in `rows` that a word keeps
    int n_iter
    int proposed
    int accepted
    double bound


# The vectors over active topics, `stride` apart, and those over words, `m` apart before the block.
cdef enum TopicVector:
    MASS, NEXT, KEPT, WEIGHT, ALPHA, SHIFTED, COLUMN, N_TOPIC_VECTORS

cdef enum WordVector:
    COUNT, NORM, RATIO, BLOCK


# ---------------------------------------------------------------- words

def index_words(const int[::1] indices, int n_features):
    """The distinct words of a chunk and where each occurs: a counting sort.

    Parameters
    ----------
    indices : ndarray of shape (nnz,), int32
        Column of every stored count, document by document.
    n_features : int
        Size of the vocabulary.

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
    cdef Py_ssize_t nnz = indices.shape[0], p
    cdef int v, w, n_words = 0
    slot_array = np.zeros(n_features, dtype=np.int32)
    cdef int[::1] slot = slot_array
    with nogil:
        for p in range(nnz):
            slot[indices[p]] += 1
        for v in range(n_features):
            if slot[v]:
                n_words += 1
    words_array = np.flatnonzero(slot_array).astype(np.int32)
    word_ptr_array = np.zeros(n_words + 1, dtype=np.int64)
    np.cumsum(slot_array[words_array], out=word_ptr_array[1:])
    local_array = np.empty(nnz, dtype=np.int32)
    occurrence_array = np.empty(nnz, dtype=np.int64)
    cursor_array = word_ptr_array[:n_words].copy()
    cdef int[::1] words = words_array, local = local_array
    cdef long long[::1] occurrence = occurrence_array, cursor = cursor_array
    with nogil:
        for w in range(n_words):
            slot[words[w]] = w
        for p in range(nnz):
            w = slot[indices[p]]
            local[p] = w
            occurrence[cursor[w]] = p
            cursor[w] += 1
    return words_array, local_array, word_ptr_array, occurrence_array


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
    const floating *topic_factor, const double *topic_digamma, int K, floating *row
) noexcept nogil:
    """exp(E[log phi_k]) of one word over K topics, scaled so that the largest is 1."""
    cdef int k
    cdef floating s, largest, least = <floating>(LEAST_FLOAT if floating is float else LEAST_DOUBLE)
    cdef double shift
    cdef double p = prior[0]
    if prior_step == 0:
        for k in range(K):
            row[k] = <floating>(p + scale * count[k])
    else:
        for k in range(K):
            row[k] = <floating>(prior[k * prior_step] + scale * count[k])
    _expdigamma_times(row, topic_factor, K, row)
    largest = _largest_of(row, K, 0)
    if largest > <floating>1000 * least:
        _rescale(row, K, <floating>1 / largest, least)
        return
    shift = -1e308  # every topic is tiny here: a rare word under a tiny prior, or one never seen
    for k in range(K):
        s = <floating>(digamma(prior[k * prior_step] + scale * count[k]) - topic_digamma[k])
        row[k] = s
        shift = s if s > shift else shift
    for k in range(K):
        row[k] = exp_nonpos(<floating>(row[k] - shift))
        row[k] = row[k] if row[k] > least else least


cdef inline int _used_topics(const double *count, int K, int *used) noexcept nogil:
    """The topics that have a count, ascending; returns how many."""
    cdef const uint64_t *bits = <const uint64_t *>count
    cdef uint64_t some
    cdef int k, first = 0, n = 0
    while first + 2 * LANES <= K:  # whole blocks are mostly zero
        some = 0
        for k in range(2 * LANES):
            some |= bits[first + k]
        if some:
            for k in range(first, first + 2 * LANES):
                used[n] = k
                n += count[k] != 0
        first += 2 * LANES
    for k in range(first, K):
        used[n] = k
        n += count[k] != 0
    return n


cdef bint _sparse_topic_row(
    const double *count, double scale, double prior, const floating *topic_factor,
    const int *order, int K, const int *used, int n, int L, floating *value, floating *factor,
    floating *row, int *best, floating *share
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
    _expdigamma_times(value, factor, n + 1, value)
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
    const double[:, ::1] counts, double scale, const double[:, :] prior, const int[::1] words,
    const double[::1] topic_digamma, int sparsity_level, dtype, int n_threads=1, weight=None,
):
    """exp(E[log phi]) of some words, and each word's best topics (paper 000, Eq. 10).

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
    topic_digamma : ndarray of shape (n_topics,), float64
        psi of each topic's total of prior and counts.
    sparsity_level : int
        How many best topics to list; from n_topics on, none is listed.
    dtype : {np.float32, np.float64}
        Type of the result.
    n_threads : int, default=1
        Number of OpenMP threads.
    weight : ndarray of shape (n_words, n_topics), default=None
        Where the weights are to be written; by default into a new array.

    Returns
    -------
    weight : ndarray of shape (n_words, n_topics)
        exp(E[log phi_kv]), every row scaled so that its largest entry is 1.
    best : ndarray of shape (n_words, L), int32
        The L largest entries of each row.
    share : ndarray of shape (n_words, L)
        Those entries divided by their sum: responsibilities under a uniform document.
    """
    digammas = np.asarray(topic_digamma)
    factor = np.exp(digammas.min() - digammas).astype(dtype)
    order = np.argsort(-factor, kind="stable").astype(np.int32)
    K = counts.shape[1]
    L = sparsity_level if sparsity_level < K else 0
    if weight is None:
        weight = np.empty((words.shape[0], K), dtype=dtype)
    best = np.empty((words.shape[0], L), dtype=np.int32)
    share = np.empty((words.shape[0], L), dtype=dtype)
    if words.shape[0]:
        if weight.dtype == np.float32:
            _topic_rows[float](counts, scale, prior, words, factor, order, topic_digamma,
                               weight, best, share, n_threads)
        else:
            _topic_rows[double](counts, scale, prior, words, factor, order, topic_digamma,
                                weight, best, share, n_threads)
    return weight, best, share


cdef int _topic_rows(
    const double[:, ::1] counts, double scale, const double[:, :] prior, const int[::1] words,
    const floating[::1] factor, const int[::1] order, const double[::1] topic_digamma,
    floating[:, ::1] weight, int[:, ::1] best, floating[:, ::1] share, int n_threads,
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
                    &counts[v, 0], scale, prior[v, 0], &factor[0], &order[0], K, used, n, L,
                    values, values + K + 1, &weight[w, 0], best_row, share_row)
            if not done:
                _dense_topic_row(&counts[v, 0], scale, &prior[v, 0], step, &factor[0],
                                 &topic_digamma[0], K, &weight[w, 0])
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


# ---------------------------------------------------------------- documents

cdef inline void _prior_weights(
    const floating *mass, const floating *alpha, int n, floating *weight, floating *shifted
) noexcept nogil:
    """exp(E[log pi]) up to a factor: exp(psi(mass + alpha)), the largest kept from underflow."""
    cdef int a
    cdef floating y, least
    for a in range(n):
        weight[a] = shift_up(mass[a] + alpha[a], &y)
        shifted[a] = y
    least = weight[0]
    for a in range(n):
        least = weight[a] if weight[a] < least else least
    for a in range(n):
        weight[a] = expdigamma_large(shifted[a]) * exp_nonpos(least - weight[a])


cdef inline void _dense_step(
    const floating *block, Py_ssize_t m, const int *rows, int n, const floating *weight,
    const floating *count, floating *norm, floating *ratio, floating *mass
) noexcept nogil:
    """Responsibilities of all active topics, summed to topic masses: two block products."""
    cdef Py_ssize_t i
    cdef int a = 0
    cdef const floating *b0
    cdef const floating *b1
    cdef const floating *b2
    cdef const floating *b3
    cdef floating p0, p1, p2, p3
    for i in range(m):
        norm[i] = 0
    while a + 4 <= n:
        b0 = block + rows[a] * m
        b1 = block + rows[a + 1] * m
        b2 = block + rows[a + 2] * m
        b3 = block + rows[a + 3] * m
        p0, p1, p2, p3 = weight[a], weight[a + 1], weight[a + 2], weight[a + 3]
        for i in range(m):
            norm[i] += p0 * b0[i] + p1 * b1[i] + p2 * b2[i] + p3 * b3[i]
        a += 4
    while a < n:
        b0 = block + rows[a] * m
        p0 = weight[a]
        for i in range(m):
            norm[i] += p0 * b0[i]
        a += 1
    for i in range(m):
        ratio[i] = count[i] / norm[i]
    a = 0
    while a + 4 <= n:
        b0 = block + rows[a] * m
        b1 = block + rows[a + 1] * m
        b2 = block + rows[a + 2] * m
        b3 = block + rows[a + 3] * m
        p0 = p1 = p2 = p3 = 0
        for i in range(m):
            p0 += b0[i] * ratio[i]
            p1 += b1[i] * ratio[i]
            p2 += b2[i] * ratio[i]
            p3 += b3[i] * ratio[i]
        mass[a] = p0 * weight[a]
        mass[a + 1] = p1 * weight[a + 1]
        mass[a + 2] = p2 * weight[a + 2]
        mass[a + 3] = p3 * weight[a + 3]
        a += 4
    while a < n:
        b0 = block + rows[a] * m
        p0 = 0
        for i in range(m):
            p0 += b0[i] * ratio[i]
        mass[a] = p0 * weight[a]
        a += 1


cdef inline void _sparse_step(
    const floating *block, Py_ssize_t m, const int *rows, int n, const floating *weight,
    const floating *count, int n_words, int L, floating *column, int *index, floating *resp,
    floating *norm, floating *mass
) noexcept nogil:
    """L-sparse responsibilities (times counts) of every word, summed to topic masses."""
    cdef int u, a, j
    cdef floating total
    for a in range(n):
        mass[a] = 0
    for u in range(n_words):
        for a in range(n):
            column[a] = block[rows[a] * m + u] * weight[a]
        select_topl(column, n, L, index + u * L, resp + u * L)
        total = 0
        for j in range(L):
            total += resp[u * L + j]
        norm[u] = total
        total = count[u] / total
        for j in range(L):
            resp[u * L + j] *= total
            mass[index[u * L + j]] += resp[u * L + j]


cdef struct Workspace:
    void *memory
    size_t size


cdef inline void *_reserve(Workspace *space, size_t n_bytes) noexcept nogil:
    """Scratch memory of a thread, grown when a document needs more; contents are not kept."""
    if n_bytes > space.size:
        free(space.memory)
        space.size = n_bytes + n_bytes // 2
        space.memory = malloc(space.size)
        if space.memory == NULL:
            space.size = 0
    return space.memory


cdef inline int _keep_above(
    const floating *mass, double active_tol, int *topics, int n
) noexcept nogil:
    """Shorten a list of topics to those with mass."""
    cdef int a, kept = 0
    for a in range(n):
        if mass[topics[a]] > active_tol:
            topics[kept] = topics[a]
            kept += 1
    return kept


cdef int _active_topics(
    const int *word, const floating *count, int n_words, const int *best, const floating *share,
    const floating *alpha, const Options *opt, double active_tol, const floating *start,
    int *topics, floating *vec, Py_ssize_t stride
) noexcept nogil:
    """The topics a document starts with, ascending, and their masses in MASS; returns how many.

    The first responsibilities depend on the word alone (Alg. 2, line 12). A few reweightings of
    those fixed lists, n_words * L steps each, leave few topics to gather.
    """
    cdef int K = opt.n_topics, L = opt.sparsity_level, n = K
    cdef int u, j, k, a, _it
    cdef const int *b
    cdef const floating *s
    cdef floating total
    cdef floating *full = vec + NEXT * stride  # over all topics
    cdef floating *weight = vec + COLUMN * stride  # over all topics
    cdef floating *mass = vec + MASS * stride
    for k in range(K):
        topics[k] = k
    if start != NULL:
        if L < K:
            n = _keep_above(start, active_tol, topics, K)
        for a in range(n):
            mass[a] = start[topics[a]]
    if start != NULL or L >= K:
        return n
    memset(full, 0, K * sizeof(floating))
    for u in range(n_words):
        b = best + <Py_ssize_t>word[u] * L
        s = share + <Py_ssize_t>word[u] * L
        for j in range(L):
            full[b[j]] += count[u] * s[j]
    n = _keep_above(full, active_tol, topics, K)
    memset(weight, 0, K * sizeof(floating))
    for _it in range(opt.burn_in):
        for a in range(n):
            mass[a] = full[topics[a]]
            vec[ALPHA * stride + a] = alpha[topics[a]]
        _prior_weights(mass, vec + ALPHA * stride, n, vec + WEIGHT * stride, vec + SHIFTED * stride)
        for a in range(n):
            weight[topics[a]] = vec[WEIGHT * stride + a]
            full[topics[a]] = 0
        for u in range(n_words):
            b = best + <Py_ssize_t>word[u] * L
            s = share + <Py_ssize_t>word[u] * L
            total = <floating>1e-30  # all of the word's own topics may have died
            for j in range(L):
                total += s[j] * weight[b[j]]
            total = count[u] / total
            for j in range(L):
                full[b[j]] += total * s[j] * weight[b[j]]
        for a in range(n):
            weight[topics[a]] = 0
        n = _keep_above(full, active_tol, topics, n)
    for a in range(n):
        mass[a] = full[topics[a]]
    return n


cdef inline floating _largest_change(
    const floating *new, const floating *old, int n
) noexcept nogil:
    cdef int a
    cdef floating change, largest = 0
    for a in range(n):
        change = new[a] - old[a]
        change = change if change > 0 else -change
        largest = change if change > largest else largest
    return largest


cdef inline void _step(
    Document *doc, floating *vec, floating *words, floating *resp, int target, bint relaxed
) noexcept nogil:
    """One iteration from the masses in MASS to those in `target`; `relaxed` ignores the limit L."""
    cdef floating *weight = vec + WEIGHT * doc.stride
    cdef Py_ssize_t m = doc.m
    _prior_weights(vec + MASS * doc.stride, vec + ALPHA * doc.stride, doc.n_active, weight,
                   vec + SHIFTED * doc.stride)
    if relaxed or doc.n_active <= doc.L:
        _dense_step(words + BLOCK * m, m, doc.rows, doc.n_active, weight, words + COUNT * m,
                    words + NORM * m, words + RATIO * m, vec + target * doc.stride)
    else:
        _sparse_step(words + BLOCK * m, m, doc.rows, doc.n_active, weight, words + COUNT * m,
                     doc.n_words, doc.L, vec + COLUMN * doc.stride, doc.index, resp,
                     words + NORM * m, vec + target * doc.stride)
    doc.n_iter += 1


cdef inline double _bound(
    const Document *doc, const floating *vec, const floating *words, const double *gammaln_alpha
) noexcept nogil:
    """What the bound says of the document after a step to MASS, but for constants.

    Paper 000, C.4, with theta = alpha + mass, which cancels the terms in E[log pi]. As
    r = B weight / norm, E[log p(x)] + entropy is sum count log(norm) - sum mass log(weight).
    """
    cdef double total = 0
    cdef Py_ssize_t u
    cdef int a
    cdef const floating *mass = vec + MASS * doc.stride
    cdef const floating *weight = vec + WEIGHT * doc.stride
    cdef const floating *alpha = vec + ALPHA * doc.stride
    cdef const floating *count = words + COUNT * doc.m
    cdef const floating *norm = words + NORM * doc.m
    for u in range(doc.n_words):
        total += <double>count[u] * log_pos(norm[u])
    for a in range(doc.n_active):
        if mass[a] > 0:
            total -= mass[a] * log_pos(<double>weight[a])
            total += gammaln(<double>mass[a] + alpha[a]) - gammaln_alpha[doc.topics[doc.rows[a]]]
    return total


cdef inline double _evaluate(
    Document *doc, floating *vec, floating *words, floating *resp, const double *gammaln_alpha
) noexcept nogil:
    """One L-sparse step to new masses, and the bound there."""
    _step(doc, vec, words, resp, NEXT, False)
    memcpy(vec + MASS * doc.stride, vec + NEXT * doc.stride, doc.n_active * sizeof(floating))
    return _bound(doc, vec, words, gammaln_alpha)


cdef inline void _drop_small(Document *doc, floating *vec, double active_tol) noexcept nogil:
    """Forget topics whose mass has decayed: it never rises again (paper 000, D.3)."""
    cdef int a, n = 0
    cdef floating *mass = vec + MASS * doc.stride
    cdef floating *alpha = vec + ALPHA * doc.stride
    for a in range(doc.n_active):
        if mass[a] > active_tol:
            mass[n] = mass[a]
            alpha[n] = alpha[a]
            doc.rows[n] = doc.rows[a]
            n += 1
    doc.n_active = n


cdef inline void _converge(
    Document *doc, floating *vec, floating *words, floating *resp, const Options *opt,
    double active_tol, int max_iter, bint relaxed
) noexcept nogil:
    """Iterate until no mass moves by more than the tolerance."""
    cdef int _it
    cdef double change
    for _it in range(max_iter):
        _step(doc, vec, words, resp, NEXT, relaxed)
        change = _largest_change(vec + NEXT * doc.stride, vec + MASS * doc.stride, doc.n_active)
        memcpy(vec + MASS * doc.stride, vec + NEXT * doc.stride, doc.n_active * sizeof(floating))
        if not doc.dense:
            _drop_small(doc, vec, active_tol)
        if change < opt.tol:
            break


cdef inline int _smallest_above(const floating *mass, int n, floating floor) noexcept nogil:
    """Position of the smallest mass above `floor`, or -1."""
    cdef int a, found = -1
    for a in range(n):
        if mass[a] > floor and (found < 0 or mass[a] < mass[found]):
            found = a
    return found


cdef void _restart(
    Document *doc, floating *vec, floating *words, floating *resp, const Options *opt,
    const floating *alpha, const double *gammaln_alpha, double active_tol
) noexcept nogil:
    """Restart proposals: the smallest topic's mass forced to zero, kept if the bound improves.

    Paper 000, section 5, after Hughes, Kim & Sudderth (2015). From the smallest topic upwards,
    each topic is tried at most once.
    """
    cdef int n, _trial, victim, a, _it
    cdef floating *mass = vec + MASS * doc.stride
    cdef floating *kept = vec + KEPT * doc.stride
    cdef floating *prior = vec + ALPHA * doc.stride
    cdef floating tried = <floating>active_tol
    cdef double bound = _evaluate(doc, vec, words, resp, gammaln_alpha), candidate
    for _trial in range(opt.restarts):
        n = doc.n_active
        victim = _smallest_above(mass, n, tried)
        if victim < 0 or _smallest_above(mass, n, mass[victim]) < 0:
            break  # none left to try, or nothing would be left to hold the words
        tried = mass[victim]
        memcpy(kept, mass, n * sizeof(floating))
        memcpy(doc.spare, doc.rows, n * sizeof(int))
        mass[victim] = 0
        if not doc.dense:
            _drop_small(doc, vec, 0)
        for _it in range(opt.restart_iter - 1):
            _step(doc, vec, words, resp, NEXT, True)
            memcpy(mass, vec + NEXT * doc.stride, doc.n_active * sizeof(floating))
        candidate = _evaluate(doc, vec, words, resp, gammaln_alpha)
        doc.proposed += 1
        if candidate > bound:
            doc.accepted += 1
            bound = candidate
        else:
            doc.n_active = n
            memcpy(mass, kept, n * sizeof(floating))
            memcpy(doc.rows, doc.spare, n * sizeof(int))
            for a in range(n):
                prior[a] = alpha[doc.topics[doc.rows[a]]]


cdef void _fit_document(
    Document *doc, const int *word, const floating *topic_weight, const floating *alpha,
    const double *gammaln_alpha, const Options *opt, double active_tol,
    floating *vec, floating *words, floating *resp
) noexcept nogil:
    """Alg. 2 of paper 000 for one document from the masses in MASS, then restart proposals."""
    cdef int K = opt.n_topics, a, u
    cdef Py_ssize_t m = doc.m
    cdef floating *block = words + BLOCK * m
    cdef const floating *row
    for a in range(doc.n_active):
        doc.rows[a] = a
        vec[ALPHA * doc.stride + a] = alpha[doc.topics[a]]
        for u in range(doc.n_words, m):
            block[a * m + u] = 1
    for u in range(doc.n_words):
        row = topic_weight + <Py_ssize_t>word[u] * K
        for a in range(doc.n_active):
            block[a * m + u] = row[doc.topics[a]]
    if doc.dense and not doc.started:  # the first step is under a uniform document
        for a in range(K):
            vec[WEIGHT * doc.stride + a] = 1
        _dense_step(block, m, doc.rows, K, vec + WEIGHT * doc.stride, words + COUNT * m,
                    words + NORM * m, words + RATIO * m, vec + MASS * doc.stride)
    if not doc.started or doc.n_active <= doc.L:
        # Without the limit L first: that vectorises, and most documents end with few topics.
        _converge(doc, vec, words, resp, opt, active_tol, opt.max_iter, True)
    if doc.n_active > doc.L:
        _converge(doc, vec, words, resp, opt, active_tol, opt.max_iter, False)
    if opt.restarts and doc.n_active > 1:
        _restart(doc, vec, words, resp, opt, alpha, gammaln_alpha, active_tol)
        if doc.accepted:
            _converge(doc, vec, words, resp, opt, active_tol, opt.restart_iter, False)
    doc.bound = _evaluate(doc, vec, words, resp, gammaln_alpha)


cdef inline void _store_sparse(
    const Document *doc, const floating *vec, const floating *words, int *index, floating *resp
) noexcept nogil:
    """Expected counts of every word by topic id; a list shorter than L ends with -1."""
    cdef int u, a, j, L = doc.L, n = doc.n_active
    cdef Py_ssize_t m = doc.m
    cdef const floating *block = words + BLOCK * m
    cdef const floating *weight = vec + WEIGHT * doc.stride
    for u in range(doc.n_words):
        if n > L:
            for j in range(L):
                index[u * L + j] = doc.topics[doc.rows[doc.index[u * L + j]]]
        else:
            for a in range(n):
                index[u * L + a] = doc.topics[doc.rows[a]]
                resp[u * L + a] = words[RATIO * m + u] * block[doc.rows[a] * m + u] * weight[a]
            if n < L:
                index[u * L + n] = -1


def fit_documents(
    const indptr_t[::1] indptr, const int[::1] local, const floating[::1] data,
    const floating[:, ::1] weight, const int[:, ::1] best, const floating[:, ::1] share,
    const floating[::1] alpha, const double[::1] gammaln_alpha, *, int sparsity_level, int max_iter,
    double tol, int restarts=0, int restart_iter=3, int burn_in=2, double active_tol=1e-4,
    const floating[:, ::1] start=None, bint want_mass=False, int n_threads=1,
):
    """Fit the local posterior of every document of a chunk (paper 000, Alg. 2).

    Parameters
    ----------
    indptr : ndarray of shape (n_documents + 1,), int32 or int64
        CSR row pointer; it may start above 0, the other arrays start at 0.
    local : ndarray of shape (nnz,), int32
        Row of `weight` for every stored count.
    data : ndarray of shape (nnz,), float32 or float64
        Counts.
    weight, best, share : ndarray
        What `topic_rows` returned for the words of the chunk.
    alpha : ndarray of shape (n_topics,)
        Dirichlet prior of the documents' topic weights.
    gammaln_alpha : ndarray of shape (n_topics,), float64
        log Gamma of `alpha`.
    sparsity_level : int
        The most topics a word may keep (L). From n_topics on the step is dense.
    max_iter : int
        The most iterations of a document's coordinate ascent.
    tol : float
        A document stops once no expected topic count moves by more.
    restarts : int, default=0
        The most restart proposals a document.
    restart_iter : int, default=3
        Iterations a proposal is given.
    burn_in : int, default=2
        Reweighting iterations on the words' own best topics before the active topics are gathered.
    active_tol : float, default=1e-4
        Expected count below which a topic is dropped from a document.
    start : ndarray of shape (n_documents, n_topics), default=None
        Expected topic counts to start from; by default every document starts from its words alone.
    want_mass : bool, default=False
        Whether to return the expected topic counts.
    n_threads : int, default=1
        Number of OpenMP threads.

    Returns
    -------
    index : ndarray of shape (nnz, L), int32
        Topics of every stored count, -1 after the last. Empty if dense.
    resp : ndarray of shape (nnz, L)
        Expected counts in those topics, which sum to the count. If dense, of shape
        (nnz + n_documents * n_topics, 1): the ratio count / norm of every stored count, then the
        documents' topic weights, whose product with `weight` are the expected counts.
    mass : ndarray of shape (n_documents, n_topics) or (0, 0)
        Expected topic counts, if wanted.
    report : ndarray of shape (n_documents, 4), float64
        Bound (but for constants, see `_bound`), iterations, restarts proposed, restarts accepted.
    """
    cdef Py_ssize_t n_documents = indptr.shape[0] - 1, d, first, nnz = local.shape[0], stride
    cdef indptr_t base = indptr[0]
    cdef int K = <int>alpha.shape[0], k, a, u
    cdef bint dense = sparsity_level >= K
    dtype = np.asarray(data).dtype
    if dense:
        index_array = np.empty((0, 0), dtype=np.int32)
        resp_array = np.empty((nnz + n_documents * K, 1), dtype=dtype)
    else:
        index_array = np.empty((nnz, sparsity_level), dtype=np.int32)
        resp_array = np.empty((nnz, sparsity_level), dtype=dtype)
    mass_array = np.zeros((n_documents * want_mass, K * want_mass), dtype=dtype)
    report_array = np.zeros((n_documents, 4))
    cdef int[:, ::1] index = index_array
    cdef floating[:, ::1] resp = resp_array
    cdef floating[:, ::1] mass = mass_array
    cdef double[:, ::1] report = report_array
    cdef Options opt
    opt.n_topics = K
    opt.sparsity_level = sparsity_level
    opt.max_iter = max_iter
    opt.burn_in = burn_in
    opt.restarts = restarts
    opt.restart_iter = restart_iter
    opt.tol = tol
    opt.active_tol = active_tol
    if nnz == 0:
        if dense:
            resp_array[:] = 1
        return index_array, resp_array, mass_array, report_array

    cdef const int *best_ptr = NULL if dense else &best[0, 0]
    cdef const floating *share_ptr = NULL if dense else &share[0, 0]
    cdef const floating *start_ptr
    cdef floating *vec = NULL
    cdef floating *words
    cdef floating *kept_resp
    cdef int *ids = NULL
    cdef Document *doc = NULL
    cdef Workspace *space = NULL
    cdef double total, negligible, x
    cdef int no_memory = 0
    cdef int *failed = &no_memory
    stride = K + LANES
    with nogil, parallel(num_threads=n_threads):
        doc = <Document *>malloc(sizeof(Document))
        space = <Workspace *>malloc(sizeof(Workspace))
        vec = <floating *>malloc(N_TOPIC_VECTORS * stride * sizeof(floating))
        ids = <int *>malloc(3 * stride * sizeof(int))
        if doc == NULL or space == NULL or vec == NULL or ids == NULL:
            failed[0] = 1
        else:
            space.memory = NULL
            space.size = 0
            doc.stride = stride
            doc.topics = ids
            doc.rows = ids + stride
            doc.spare = ids + 2 * stride
            doc.L = sparsity_level
            doc.dense = dense
        for d in prange(n_documents, schedule="dynamic", chunksize=8):
            if failed[0]:
                continue
            first = indptr[d] - base
            doc.n_words = <int>(indptr[d + 1] - indptr[d])
            doc.m = (doc.n_words + LANES - 1) // LANES * LANES
            doc.n_iter = doc.proposed = doc.accepted = 0
            total = 0
            for u in range(doc.n_words):
                total = total + data[first + u]
            if total <= 0:  # nothing to explain: the posterior is the prior
                for u in range(doc.n_words):
                    if dense:
                        resp[first + u, 0] = 0
                    else:
                        index[first + u, 0] = -1
                if dense:
                    for k in range(K):
                        resp[nnz + d * K + k, 0] = 1
                continue
            # Of fractional counts what is negligible is relative.
            negligible = active_tol * (total if total < 1 else 1)
            start_ptr = NULL
            if start is not None:
                start_ptr = &start[d, 0]
                x = 0  # a document never fitted before starts from its words
                for k in range(K):
                    x = x + start_ptr[k]
                if x <= 0:
                    start_ptr = NULL
            doc.started = start_ptr != NULL
            doc.n_active = _active_topics(
                &local[first], &data[first], doc.n_words, best_ptr, share_ptr, &alpha[0], &opt,
                negligible, start_ptr, doc.topics, vec, stride)
            words = <floating *>_reserve(space, (BLOCK + doc.n_active) * doc.m * sizeof(floating))
            if words == NULL:
                failed[0] = 1
                continue
            for u in range(doc.n_words):
                words[COUNT * doc.m + u] = data[first + u]
            for u in range(doc.n_words, <int>doc.m):
                words[COUNT * doc.m + u] = 0
            kept_resp = &resp[first, 0]
            doc.index = NULL if dense else &index[first, 0]
            _fit_document(doc, &local[first], &weight[0, 0], &alpha[0], &gammaln_alpha[0], &opt,
                          negligible, vec, words, kept_resp)
            if dense:
                for u in range(doc.n_words):
                    resp[first + u, 0] = words[RATIO * doc.m + u]
                for k in range(K):
                    resp[nnz + d * K + k, 0] = vec[WEIGHT * stride + k]
            else:
                _store_sparse(doc, vec, words, &index[first, 0], &resp[first, 0])
            if want_mass:
                for a in range(doc.n_active):
                    mass[d, doc.topics[doc.rows[a]]] = vec[MASS * stride + a]
            report[d, 0] = doc.bound
            report[d, 1] = doc.n_iter
            report[d, 2] = doc.proposed
            report[d, 3] = doc.accepted
        if space != NULL:
            free(space.memory)
        free(space)
        free(doc)
        free(vec)
        free(ids)
    if no_memory:
        raise MemoryError("no memory for the active topics of a document")
    return index_array, resp_array, mass_array, report_array


# ---------------------------------------------------------------- statistics

def sum_by_word(
    const long long[::1] word_ptr, const long long[::1] occurrence, const int[:, ::1] index,
    const floating[:, ::1] resp, const floating[:, ::1] weight, int n_threads=1,
):
    """Expected counts of every word in every topic, summed in document order (sparse step).

    Parameters
    ----------
    word_ptr, occurrence : ndarray
        What `index_words` returned.
    index, resp : ndarray of shape (nnz, L)
        What `fit_documents` returned.
    weight : ndarray of shape (n_words, n_topics)
        What `topic_rows` returned.
    n_threads : int, default=1
        Number of OpenMP threads.

    Returns
    -------
    row_ptr : ndarray of shape (n_words + 1,), int64
        Word `w` has its counts at `row_ptr[w]:row_ptr[w + 1]`.
    topics : ndarray of shape (n_stored,), int32
        Topics, once each a word, in order of first use.
    counts : ndarray of shape (n_stored,)
        Expected counts, summed in float64.
    log_weight_sum : ndarray of shape (n_words,), float64
        Sum over topics of count * log(weight): what the documents' bounds hold of E[log phi].
    """
    cdef Py_ssize_t n_words = word_ptr.shape[0] - 1, w, i, p
    cdef int K = <int>weight.shape[1], L = <int>index.shape[1], j, k, n
    cdef double x
    cdef long long at
    upper_array = np.zeros(n_words + 1, dtype=np.int64)
    np.cumsum(np.minimum(np.diff(np.asarray(word_ptr)) * L, K), out=upper_array[1:])
    cdef const long long[::1] upper = upper_array
    topics_array = np.empty(upper_array.item(n_words), dtype=np.int32)
    counts_array = np.empty(upper_array.item(n_words), dtype=np.asarray(resp).dtype)
    stored_array = np.zeros(n_words, dtype=np.int64)
    log_array = np.zeros(n_words)
    cdef int[::1] topics = topics_array
    cdef floating[::1] counts = counts_array
    cdef long long[::1] stored = stored_array
    cdef double[::1] log_sum = log_array
    cdef double *total
    cdef int *used
    cdef int no_memory = 0
    cdef int *failed = &no_memory
    with nogil, parallel(num_threads=n_threads):
        total = <double *>malloc(K * sizeof(double))
        used = <int *>malloc(K * sizeof(int))
        if total == NULL or used == NULL:
            failed[0] = 1
        else:
            memset(used, 0, K * sizeof(int))
        for w in prange(n_words, schedule="dynamic", chunksize=64):
            if failed[0]:
                continue
            n = 0
            at = upper[w]
            for i in range(word_ptr[w], word_ptr[w + 1]):
                p = occurrence[i]
                for j in range(L):
                    k = index[p, j]
                    if k < 0:
                        break
                    if not used[k]:
                        used[k] = 1
                        total[k] = 0
                        topics[at + n] = k
                        n = n + 1
                    total[k] = total[k] + resp[p, j]
            x = 0
            for j in range(n):
                k = topics[at + j]
                counts[at + j] = <floating>total[k]
                x = x + total[k] * log_pos(<double>weight[w, k])
                used[k] = 0
            stored[w] = n
            log_sum[w] = x
        free(total)
        free(used)
    if no_memory:
        raise MemoryError("no memory for the statistics of a word")
    return _compact[floating](upper_array, stored_array, topics_array, counts) + (log_array,)


def sum_by_word_dense(
    const indptr_t[::1] indptr, const long long[::1] word_ptr, const long long[::1] occurrence,
    const floating[:, ::1] resp, const floating[:, ::1] weight, int n_threads=1,
):
    """Expected counts of every word in every topic, summed in document order (dense step).

    Parameters
    ----------
    indptr : ndarray of shape (n_documents + 1,), int32 or int64
        CSR row pointer of the chunk.
    word_ptr, occurrence, weight, n_threads
        As for `sum_by_word`.
    resp : ndarray of shape (nnz + n_documents * n_topics, 1)
        What `fit_documents` returned.

    Returns
    -------
    row_ptr, topics, counts, log_weight_sum
        As for `sum_by_word`; topics ascend, exact zeros are not stored.
    """
    cdef Py_ssize_t n_words = word_ptr.shape[0] - 1, nnz = occurrence.shape[0], w, i, p
    cdef int K = <int>weight.shape[1], k, n
    cdef double x, ratio
    cdef long long at
    upper_array = np.arange(n_words + 1, dtype=np.int64) * K
    document_array = np.repeat(
        np.arange(indptr.shape[0] - 1, dtype=np.int32), np.diff(np.asarray(indptr)))
    cdef const int[::1] document = document_array
    topics_array = np.empty(n_words * K, dtype=np.int32)
    counts_array = np.empty(n_words * K, dtype=np.asarray(resp).dtype)
    stored_array = np.zeros(n_words, dtype=np.int64)
    log_array = np.zeros(n_words)
    cdef int[::1] topics = topics_array
    cdef floating[::1] counts = counts_array
    cdef long long[::1] stored = stored_array
    cdef double[::1] log_sum = log_array
    cdef double *total
    cdef const floating *doc_weight
    cdef int no_memory = 0
    cdef int *failed = &no_memory
    with nogil, parallel(num_threads=n_threads):
        total = <double *>malloc(K * sizeof(double))
        if total == NULL:
            failed[0] = 1
        for w in prange(n_words, schedule="dynamic", chunksize=16):
            if failed[0]:
                continue
            at = w * K
            memset(total, 0, K * sizeof(double))
            for i in range(word_ptr[w], word_ptr[w + 1]):
                p = occurrence[i]
                ratio = resp[p, 0]
                doc_weight = &resp[nnz + <Py_ssize_t>document[p] * K, 0]
                for k in range(K):
                    total[k] = total[k] + ratio * doc_weight[k]
            n = 0
            x = 0
            for k in range(K):
                ratio = total[k] * weight[w, k]
                if ratio > 0:
                    topics[at + n] = k
                    counts[at + n] = <floating>ratio
                    x = x + ratio * log_pos(<double>weight[w, k])
                    n = n + 1
            stored[w] = n
            log_sum[w] = x
        free(total)
    if no_memory:
        raise MemoryError("no memory for the statistics of a word")
    return _compact[floating](upper_array, stored_array, topics_array, counts) + (log_array,)


cdef object _compact(upper_array, stored_array, topics_array, floating[::1] counts):
    """Close the gaps between rows that reserved more than they used, in place."""
    cdef const long long[::1] upper = upper_array
    cdef int[::1] topics = topics_array
    cdef Py_ssize_t w
    row_ptr_array = np.zeros(stored_array.shape[0] + 1, dtype=np.int64)
    np.cumsum(stored_array, out=row_ptr_array[1:])
    cdef const long long[::1] row_ptr = row_ptr_array
    cdef long long n
    with nogil:
        for w in range(row_ptr.shape[0] - 1):
            n = row_ptr[w + 1] - row_ptr[w]
            if n and row_ptr[w] < upper[w]:
                memmove(&topics[row_ptr[w]], &topics[upper[w]], n * sizeof(int))
                memmove(&counts[row_ptr[w]], &counts[upper[w]], n * sizeof(floating))
    # Copies, as what lies behind them would stay in memory.
    n = row_ptr[row_ptr.shape[0] - 1]
    return row_ptr_array, topics_array[:n].copy(), np.asarray(counts)[:n].copy()


def add_counts(
    double[:, ::1] total, const int[::1] words, const long long[::1] row_ptr,
    const int[::1] topics, const floating[::1] counts, double factor, int n_threads=1,
):
    """Add factor * counts of some words, as `sum_by_word` stores them, to a table of counts.

    Parameters
    ----------
    total : ndarray of shape (n_features, n_topics), float64
        Changed in place.
    words : ndarray of shape (n_words,), int32
        Distinct rows of `total`.
    row_ptr, topics, counts : ndarray
        The counts.
    factor : float
        What to multiply them by.
    n_threads : int, default=1
        Number of OpenMP threads.
    """
    cdef Py_ssize_t w, i
    cdef int v
    for w in prange(
        words.shape[0], nogil=True, schedule="dynamic", chunksize=256, num_threads=n_threads
    ):
        v = words[w]
        for i in range(row_ptr[w], row_ptr[w + 1]):
            total[v, topics[i]] += factor * counts[i]


def dirichlet_bound_terms(
    const double[:, ::1] counts, double scale, const double[:, :] prior, int n_threads=1,
):
    """Sum over topics of log Gamma(prior + counts) - log Gamma(prior), for every word.

    The part of the bound that only the topics have (paper 000, B.2) once the sums over words are
    put to it. Words that a topic never has cost nothing.

    Parameters
    ----------
    counts, scale, prior, n_threads
        As for `topic_rows`.

    Returns
    -------
    terms : ndarray of shape (n_features,), float64
        The sums.
    """
    cdef Py_ssize_t v
    cdef int k, K = <int>counts.shape[1]
    cdef double x, p
    terms_array = np.zeros(counts.shape[0])
    cdef double[::1] terms = terms_array
    for v in prange(counts.shape[0], nogil=True, schedule="dynamic", chunksize=64,
                    num_threads=n_threads):
        x = 0
        for k in range(K):
            if counts[v, k] != 0:
                p = prior[v, k]
                x = x + gammaln(p + scale * counts[v, k]) - gammaln(p)
        terms[v] = x
    return terms_array


def dirichlet_gap_terms(
    const double[:, ::1] counts, double scale, const double[:, ::1] at, double at_scale,
    const double[:, :] prior, const double[::1] topic_digamma, int n_threads=1,
):
    """Sum over topics of (counts - at) E[log phi], for every word, with q(phi) given by `at`.

    What is left in the bound of the terms in E[log phi] when q(phi) lags behind the counts, as it
    does in stochastic learning.

    Parameters
    ----------
    counts, scale : ndarray of shape (n_features, n_topics), float
        Expected counts and the factor on them.
    at, at_scale : ndarray of shape (n_features, n_topics), float
        The counts that q(phi) follows from and the factor on them.
    prior, topic_digamma, n_threads
        As for `topic_rows`.

    Returns
    -------
    terms : ndarray of shape (n_features,), float64
        The sums.
    """
    cdef Py_ssize_t v
    cdef int k, K = <int>counts.shape[1]
    cdef double x, gap
    terms_array = np.zeros(counts.shape[0])
    cdef double[::1] terms = terms_array
    for v in prange(counts.shape[0], nogil=True, schedule="dynamic", chunksize=64,
                    num_threads=n_threads):
        x = 0
        for k in range(K):
            gap = scale * counts[v, k] - at_scale * at[v, k]
            if gap != 0:
                x = x + gap * (digamma(prior[v, k] + at_scale * at[v, k]) - topic_digamma[k])
        terms[v] = x
    return terms_array
