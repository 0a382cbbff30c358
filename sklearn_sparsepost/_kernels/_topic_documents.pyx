"""The local step of topic models: one pass over a chunk of documents with fixed topics.

Three kernels do the work, in this order, each parallel over independent units, none with a race:

* `_topic_words.topic_rows`, over words: exp(E[log phi]) and each word's L best topics;
* `fit_documents`, over documents: Alg. 2 of Hughes & Sudderth 2016, L-sparse, with restarts;
* `_topic_stats.sum_by_word`, over words: expected counts of words in topics, in document order.

Inside a document the block of topic weights is stored topic by topic, `n_active` rows of words,
so that arithmetic vectorises over words and a topic is dropped by leaving its row out of a list.
The arithmetic of one iteration is in `_topic_steps.pxd`; here are the memory of a thread, the
choice of topics, the iterations and restarts of one document, and the loop over documents.
"""
from cython.parallel cimport parallel, prange
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from sklearn_sparsepost._kernels._math cimport gammaln, log_pos
from sklearn_sparsepost._kernels._prefetch cimport fetch
from sklearn_sparsepost._kernels._scratch cimport take
from sklearn_sparsepost._kernels._topic_steps cimport (
    dense_step, largest_change, prior_weights, sparse_step,
)
from sklearn_sparsepost._kernels._types cimport floating, indptr_t

import numpy as np

cdef enum:
    LANES = 8  # words are processed in blocks of this many, so that loops need no remainder
    AHEAD = 8  # words whose best topics are fetched before they are read
    TOGETHER = 4  # words whose weights are gathered at a time
    RESTART_ITER = 3  # iterations that a restart proposal is given

cdef struct Options:
    int n_topics
    int sparsity_level
    int max_iter
    int burn_in
    int restarts
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
    int n_spared  # so few topics are left as they are by restarts
    int n_iter
    int proposed
    int accepted
    double bound
    double weight_terms  # of the bound
    void *vectors  # over topics
    void *words  # vectors over words and the block, grown when a document needs more
    size_t n_bytes  # of `words`


# The vectors over active topics, `stride` apart, and those over words, `m` apart before the block.
cdef enum TopicVector:
    MASS, NEXT, KEPT, WEIGHT, ALPHA, SHIFTED, COLUMN, N_TOPIC_VECTORS

cdef enum WordVector:
    COUNT, NORM, RATIO, BLOCK


cdef inline size_t _lay_out(Document *doc, char *memory, size_t itemsize) noexcept nogil:
    """Cut a thread's memory of fixed size into arrays; returns how much that takes."""
    cdef size_t used = 0
    doc.vectors = take(memory, &used, N_TOPIC_VECTORS * doc.stride * itemsize)
    doc.topics = <int *>take(memory, &used, doc.stride * sizeof(int))
    doc.rows = <int *>take(memory, &used, doc.stride * sizeof(int))
    doc.spare = <int *>take(memory, &used, doc.stride * sizeof(int))
    return used


cdef Document *_new_document(int K, int L, size_t itemsize) noexcept nogil:
    """What a thread works with, one document after another; NULL if there is no memory."""
    cdef char *memory
    cdef Document *doc = <Document *>calloc(1, sizeof(Document))
    if doc == NULL:
        return NULL
    doc.L = L
    doc.dense = L >= K
    doc.stride = K + LANES
    memory = <char *>malloc(_lay_out(doc, NULL, itemsize))
    if memory == NULL:
        free(doc)
        return NULL
    _lay_out(doc, memory, itemsize)
    return doc


cdef void _free_document(Document *doc) noexcept nogil:
    if doc != NULL:
        free(doc.vectors)  # the first of its piece
        free(doc.words)
        free(doc)


cdef inline void *_reserve_words(Document *doc, size_t n_bytes) noexcept nogil:
    """Memory for the vectors over words; contents are not kept, NULL if there is none."""
    if n_bytes > doc.n_bytes:
        free(doc.words)
        doc.n_bytes = n_bytes + n_bytes // 2
        doc.words = malloc(doc.n_bytes)
        if doc.words == NULL:
            doc.n_bytes = 0
    return doc.words


cdef inline int _keep_above(
    const floating *mass, double active_tol, int *topics, int n
) noexcept nogil:
    """Shorten a list of topics to those with mass."""
    cdef int a, k, kept = 0
    cdef floating least = <floating>active_tol
    for a in range(n):  # without branches, which nobody could predict
        k = topics[a]
        topics[kept] = k
        kept += mass[k] > least
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
        a = word[u + AHEAD if u + AHEAD < n_words else n_words - 1]
        fetch(best + <Py_ssize_t>a * L)
        fetch(share + <Py_ssize_t>a * L)
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
        prior_weights(mass, vec + ALPHA * stride, n, vec + WEIGHT * stride, vec + SHIFTED * stride)
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


cdef inline void _step(
    Document *doc, floating *vec, floating *words, floating *resp, int target, bint relaxed
) noexcept nogil:
    """One iteration from the masses in MASS to those in `target`; `relaxed` ignores the limit L."""
    cdef floating *weight = vec + WEIGHT * doc.stride
    cdef Py_ssize_t m = doc.m
    prior_weights(vec + MASS * doc.stride, vec + ALPHA * doc.stride, doc.n_active, weight,
                  vec + SHIFTED * doc.stride)
    if relaxed or doc.n_active <= doc.L:
        dense_step(words + BLOCK * m, m, doc.rows, doc.n_active, weight, words + COUNT * m,
                   words + NORM * m, words + RATIO * m, vec + target * doc.stride)
    else:
        sparse_step(words + BLOCK * m, m, doc.rows, doc.n_active, weight, words + COUNT * m,
                    doc.n_words, doc.L, vec + COLUMN * doc.stride, doc.index, resp,
                    words + NORM * m, vec + target * doc.stride)
    doc.n_iter += 1


cdef inline double _bound(
    const Document *doc, const floating *vec, const floating *words, const double *gammaln_alpha
) noexcept nogil:
    """What the bound says of the document after a step to MASS, but for constants.

    Hughes & Sudderth 2016, C.4, with theta = alpha + mass, which cancels the terms in E[log pi]. As
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


cdef inline double _weight_terms(
    const Document *doc, const floating *vec, const double *gammaln_alpha
) noexcept nogil:
    """Those terms of `_bound` that the topic weights are left with."""
    cdef double total = 0
    cdef int a
    cdef const floating *mass = vec + MASS * doc.stride
    cdef const floating *alpha = vec + ALPHA * doc.stride
    for a in range(doc.n_active):
        if mass[a] > 0:
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
    """Forget topics whose mass has decayed: it never rises again (Hughes & Sudderth 2016, D.3)."""
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
        change = largest_change(vec + NEXT * doc.stride, vec + MASS * doc.stride, doc.n_active)
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


cdef inline int _n_above(const floating *mass, int n, double floor) noexcept nogil:
    """How many masses are above `floor`."""
    cdef int a, found = 0
    for a in range(n):
        found += mass[a] > floor
    return found


cdef void _restart(
    Document *doc, floating *vec, floating *words, floating *resp, const Options *opt,
    const floating *alpha, const double *gammaln_alpha, double active_tol
) noexcept nogil:
    """Restart proposals: the smallest topic's mass forced to zero, kept if the bound improves.

    Hughes & Sudderth 2016, section 5, after Hughes et al. 2015. From the smallest topic upwards,
    each topic is tried at most once, and none of a document that has few.
    """
    cdef int n, _trial, victim, a, _it
    cdef floating *mass = vec + MASS * doc.stride
    cdef floating *kept = vec + KEPT * doc.stride
    cdef floating *prior = vec + ALPHA * doc.stride
    cdef floating tried = <floating>active_tol
    cdef double bound = _evaluate(doc, vec, words, resp, gammaln_alpha), candidate
    for _trial in range(opt.restarts):
        n = doc.n_active
        if _n_above(mass, n, active_tol) <= doc.n_spared:
            break
        victim = _smallest_above(mass, n, tried)
        if victim < 0 or _smallest_above(mass, n, mass[victim]) < 0:
            break  # none left to try, or nothing would be left to hold the words
        tried = mass[victim]
        memcpy(kept, mass, n * sizeof(floating))
        memcpy(doc.spare, doc.rows, n * sizeof(int))
        mass[victim] = 0
        if not doc.dense:
            _drop_small(doc, vec, 0)
        for _it in range(RESTART_ITER - 1):
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


cdef inline const floating *_row_of(
    const floating *topic_weight, int K, const int *word, int n_words, int u
) noexcept nogil:
    """What a word weighs in all topics, or the last one where there are no more."""
    return topic_weight + <Py_ssize_t>word[u if u < n_words else n_words - 1] * K


cdef inline void _gather(
    const floating *topic_weight, int K, const int *word, int n_words, const int *topics, int n,
    floating *block, Py_ssize_t m
) noexcept nogil:
    """What words weigh in n topics, topic by topic; those of padding are positive."""
    cdef int u = 0, a, k
    cdef Py_ssize_t i
    cdef floating *out
    cdef const floating *w0
    cdef const floating *w1
    cdef const floating *w2
    cdef const floating *w3
    cdef const floating *next0  # rows lie anywhere: those of the next words are fetched ahead
    cdef const floating *next1
    cdef const floating *next2
    cdef const floating *next3
    while u < n_words:
        w0 = _row_of(topic_weight, K, word, n_words, u)
        w1 = _row_of(topic_weight, K, word, n_words, u + 1)
        w2 = _row_of(topic_weight, K, word, n_words, u + 2)
        w3 = _row_of(topic_weight, K, word, n_words, u + 3)
        next0 = _row_of(topic_weight, K, word, n_words, u + 4)
        next1 = _row_of(topic_weight, K, word, n_words, u + 5)
        next2 = _row_of(topic_weight, K, word, n_words, u + 6)
        next3 = _row_of(topic_weight, K, word, n_words, u + 7)
        for a in range(n):
            k = topics[a]
            fetch(next0 + k)
            fetch(next1 + k)
            fetch(next2 + k)
            fetch(next3 + k)
            out = block + a * m + u
            out[0], out[1], out[2], out[3] = w0[k], w1[k], w2[k], w3[k]
        u += TOGETHER
    for a in range(n):
        for i in range(u, m):
            block[a * m + i] = 1


cdef void _fit_document(
    Document *doc, const int *word, const floating *topic_weight, const floating *alpha,
    const double *gammaln_alpha, const Options *opt, double active_tol,
    floating *vec, floating *words, floating *resp
) noexcept nogil:
    """Hughes & Sudderth 2016, Alg. 2, for one document from the masses in MASS, then restarts."""
    cdef int K = opt.n_topics, a
    cdef Py_ssize_t m = doc.m
    cdef floating *block = words + BLOCK * m
    for a in range(doc.n_active):
        doc.rows[a] = a
        vec[ALPHA * doc.stride + a] = alpha[doc.topics[a]]
    _gather(topic_weight, K, word, doc.n_words, doc.topics, doc.n_active, block, m)
    if doc.dense and not doc.started:  # the first step is under a uniform document
        for a in range(K):
            vec[WEIGHT * doc.stride + a] = 1
        dense_step(block, m, doc.rows, K, vec + WEIGHT * doc.stride, words + COUNT * m,
                   words + NORM * m, words + RATIO * m, vec + MASS * doc.stride)
    if not doc.started or doc.n_active <= doc.L:
        # Without the limit L first: that vectorises, and most documents end with few topics.
        _converge(doc, vec, words, resp, opt, active_tol, opt.max_iter, True)
    if doc.n_active > doc.L:
        _converge(doc, vec, words, resp, opt, active_tol, opt.max_iter, False)
    if opt.restarts and doc.n_active > 1:
        _restart(doc, vec, words, resp, opt, alpha, gammaln_alpha, active_tol)
        if doc.accepted:
            _converge(doc, vec, words, resp, opt, active_tol, RESTART_ITER, False)
    doc.bound = _evaluate(doc, vec, words, resp, gammaln_alpha)
    doc.weight_terms = _weight_terms(doc, vec, gammaln_alpha)


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


cdef inline void _store_dense(
    const Document *doc, const floating *vec, const floating *words, int K, floating *ratio,
    floating *weight
) noexcept nogil:
    """The ratio count / norm of every word, and the topic weights."""
    cdef int u, k
    for u in range(doc.n_words):
        ratio[u] = words[RATIO * doc.m + u]
    for k in range(K):
        weight[k] = vec[WEIGHT * doc.stride + k]


cdef inline void _store_prior(
    const Document *doc, int K, int *index, floating *resp, floating *weight
) noexcept nogil:
    """The posterior of a document of no counts."""
    cdef int u, k
    for u in range(doc.n_words):
        if doc.dense:
            resp[u] = 0
        else:
            index[<Py_ssize_t>u * doc.L] = -1
    if doc.dense:
        for k in range(K):
            weight[k] = 1


cdef inline const floating *_start_or_null(const floating *start, int K) noexcept nogil:
    """The masses to start from; a document never fitted before starts from its words."""
    cdef int k
    cdef double total = 0
    if start != NULL:
        for k in range(K):
            total += start[k]
    return start if total > 0 else NULL


cdef bint _visit(
    Document *doc, const int *word, const floating *count, int n_words,
    const floating *topic_weight, const int *best, const floating *share, const floating *alpha,
    const double *gammaln_alpha, const Options *opt, const floating *start,
    int n_spared, int *index, floating *resp, floating *weight, floating *mass
) noexcept nogil:
    """Fit one document and store its posterior; False if there is no memory.

    `weight` is where the topic weights go if dense, `mass` where the masses go unless it is NULL.
    """
    cdef int K = opt.n_topics, a, u
    cdef floating *vec = <floating *>doc.vectors
    cdef floating *words
    cdef double total = 0, negligible
    doc.n_words = n_words
    doc.m = (n_words + LANES - 1) // LANES * LANES
    doc.n_spared = n_spared
    doc.n_iter = doc.proposed = doc.accepted = 0
    doc.bound = doc.weight_terms = 0
    for u in range(n_words):
        total += count[u]
    if total <= 0:  # nothing to explain: the posterior is the prior
        _store_prior(doc, K, index, resp, weight)
        return True
    # Of fractional counts what is negligible is relative.
    negligible = opt.active_tol * (total if total < 1 else 1)
    start = _start_or_null(start, K)
    doc.started = start != NULL
    doc.n_active = _active_topics(
        word, count, n_words, best, share, alpha, opt, negligible, start, doc.topics, vec,
        doc.stride)
    words = <floating *>_reserve_words(doc, (BLOCK + doc.n_active) * doc.m * sizeof(floating))
    if words == NULL:
        return False
    for u in range(n_words):
        words[COUNT * doc.m + u] = count[u]
    for u in range(n_words, <int>doc.m):
        words[COUNT * doc.m + u] = 0
    doc.index = index
    _fit_document(
        doc, word, topic_weight, alpha, gammaln_alpha, opt, negligible, vec, words, resp)
    if doc.dense:
        _store_dense(doc, vec, words, K, resp, weight)
    else:
        _store_sparse(doc, vec, words, index, resp)
    if mass != NULL:
        for a in range(doc.n_active):
            mass[doc.topics[doc.rows[a]]] = vec[MASS * doc.stride + a]
    return True


def fit_documents(
    const indptr_t[::1] indptr,  # IN
    const int[::1] local,  # IN
    const floating[::1] data,  # IN
    const floating[:, ::1] weight,  # IN
    const int[:, ::1] best,  # IN
    const floating[:, ::1] share,  # IN
    const floating[::1] alpha,  # IN
    const double[::1] gammaln_alpha,  # IN
    *,
    int sparsity_level,  # IN
    int max_iter,  # IN
    double tol,  # IN
    int restarts=0,  # IN
    const int[::1] restarts_above=None,  # IN
    int burn_in=2,  # IN
    double active_tol=1e-4,  # IN
    const floating[:, ::1] start=None,  # IN
    bint want_mass=False,  # IN
    int n_threads=1,  # IN
):
    """Fit the local posterior of every document of a chunk (Hughes & Sudderth 2016, Alg. 2).

    Parameters
    ----------
    indptr : ndarray of shape (n_documents + 1,), int64
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
    restarts_above : ndarray of shape (n_documents,), int32, default=None
        How few topics of a document are left to it; by default 0.
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
    report : ndarray of shape (n_documents, 5), float64
        Terms of the bound (but for constants, see `_bound`): those of the topic weights, those of
        the words; iterations, restarts proposed, restarts accepted.
    """
    cdef Py_ssize_t n_documents = indptr.shape[0] - 1, nnz = local.shape[0], d, first
    cdef indptr_t base = indptr[0]
    cdef int K = <int>alpha.shape[0], L = sparsity_level, width
    cdef bint dense = L >= K
    dtype = np.asarray(data).dtype
    width = 1 if dense else L
    index_array = np.empty((0 if dense else nnz, 0 if dense else L), dtype=np.int32)
    resp_array = np.empty((nnz + n_documents * K if dense else nnz, width), dtype=dtype)
    mass_array = np.zeros((n_documents * want_mass, K * want_mass), dtype=dtype)
    report_array = np.zeros((n_documents, 5))
    if nnz == 0:
        resp_array[:] = 1
        return index_array, resp_array, mass_array, report_array

    cdef int[:, ::1] index = index_array
    cdef floating[:, ::1] resp = resp_array
    cdef floating[:, ::1] mass = mass_array
    cdef double[:, ::1] report = report_array
    cdef Options opt = Options(
        n_topics=K, sparsity_level=L, max_iter=max_iter, burn_in=burn_in, restarts=restarts,
        tol=tol, active_tol=active_tol,
    )
    cdef const int *best_ptr = NULL if dense else &best[0, 0]
    cdef const floating *share_ptr = NULL if dense else &share[0, 0]
    cdef const floating *start_ptr = NULL if start is None else &start[0, 0]
    cdef const int *spared_ptr = NULL if restarts_above is None else &restarts_above[0]
    cdef int *index_ptr = NULL if dense else &index[0, 0]
    cdef floating *resp_ptr = &resp[0, 0]
    cdef floating *mass_ptr = &mass[0, 0] if want_mass else NULL
    cdef Document *doc
    cdef int no_memory = 0
    cdef int *failed = &no_memory
    with nogil, parallel(num_threads=n_threads):
        doc = _new_document(K, L, sizeof(floating))
        if doc == NULL:
            failed[0] = 1
        for d in prange(n_documents, schedule="dynamic", chunksize=8):
            if failed[0]:
                continue
            first = indptr[d] - base
            if not _visit(
                doc, &local[0] + first, &data[0] + first, <int>(indptr[d + 1] - indptr[d]),
                &weight[0, 0], best_ptr, share_ptr, &alpha[0], &gammaln_alpha[0], &opt,
                NULL if start_ptr == NULL else start_ptr + d * K,
                0 if spared_ptr == NULL else spared_ptr[d],
                NULL if dense else index_ptr + first * L, resp_ptr + first * width,
                resp_ptr + nnz + d * K if dense else NULL,
                NULL if mass_ptr == NULL else mass_ptr + d * K,
            ):
                failed[0] = 1
                continue
            report[d, 0] = doc.weight_terms
            report[d, 1] = doc.bound - doc.weight_terms
            report[d, 2] = doc.n_iter
            report[d, 3] = doc.proposed
            report[d, 4] = doc.accepted
        _free_document(doc)
    if no_memory:
        raise MemoryError("no memory for the active topics of a document")
    return index_array, resp_array, mass_array, report_array
