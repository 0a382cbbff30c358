"""The local step of topic models: one pass over a chunk of documents with fixed topics.

Three kernels do the work, in this order, each parallel over independent units, none with a race:

* `_topic_words.topic_rows`, over words: exp(E[log phi]) and each word's L best topics;
* `fit_documents`, over documents: Alg. 2 of paper 000 under the L-sparse constraint, with restarts;
* `_topic_stats.sum_by_word`, over words: expected counts of words in topics, in document order.

Inside a document the block of topic weights is stored topic by topic, `n_active` rows of words,
so that arithmetic vectorises over words and a topic is dropped by leaving its row out of a list.
"""
from cython.parallel cimport parallel, prange
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from sklearn_sparsepost._kernels._math cimport (
    exp_nonpos, expdigamma_large, gammaln, log_pos, shift_up,
)
from sklearn_sparsepost._kernels._topl cimport select_topl
from sklearn_sparsepost._kernels._types cimport floating, indptr_t

import numpy as np

# Words are processed in blocks of this many, so that loops need no remainder.
cdef enum:
    LANES = 8

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
        What `_topic_words.topic_rows` returned for the words of the chunk.
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
