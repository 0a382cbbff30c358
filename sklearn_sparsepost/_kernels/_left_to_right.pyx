"""Left-to-right estimates of the probability of documents under known topics.

Algorithm 3 of Wallach, Murray, Salakhutdinov & Mimno (2009), with every earlier token drawn anew
before a position is predicted (Buntine 2009). Particles are chosen again after every position, in
proportion to how well they predicted it: this makes the product of the positions' means unbiased
for any number of particles and any number of sweeps.

A token's topic has the weights (tokens of the topic + alpha) * topic's probability of the word.
Topics with tokens are few and are weighed one by one; what alpha gives depends on the word alone,
so that a table of running sums a word, made once a document, is searched for it.
"""
from cython.parallel cimport parallel, prange
from libc.math cimport log
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from sklearn_sparsepost._kernels._particles cimport count_copies
from sklearn_sparsepost._kernels._rng cimport KeyedStream, keyed_init, keyed_next_double
from sklearn_sparsepost._kernels._scratch cimport take

import numpy as np


cdef struct Particle:  # topics of a document's first tokens
    int n_listed
    int *topic  # of each token
    int *listed  # the topics that have tokens
    int *place  # where each topic is listed, else -1
    double *own  # tokens of the listed topics


cdef struct Document:  # of a thread, one at a time
    int K
    int n_particles
    int *token  # which of the document's words each token is, in random order
    const double **row  # probabilities of each word in the topics
    double *far  # running sums of alpha * row, word by word
    double *partial  # scratch: K
    double *likelihood  # of the present token, by particle
    int *n_copies  # scratch: n_particles
    Particle *particles
    char *memory
    KeyedStream stream


# ---------------------------------------------------------------- particles

cdef inline void _add(Particle *p, int k) noexcept nogil:
    """Count a token in a topic."""
    if p.place[k] < 0:
        p.place[k] = p.n_listed
        p.listed[p.n_listed] = k
        p.own[p.n_listed] = 0
        p.n_listed += 1
    p.own[p.place[k]] += 1


cdef inline void _unlist(Particle *p, int j) noexcept nogil:
    """Forget a listed topic, which has no tokens any more."""
    cdef int last
    p.n_listed -= 1
    last = p.listed[p.n_listed]
    p.place[p.listed[j]] = -1
    if j < p.n_listed:
        p.listed[j] = last
        p.own[j] = p.own[p.n_listed]
        p.place[last] = j


cdef inline void _clear(Particle *p) noexcept nogil:
    """Forget all tokens."""
    cdef int j
    for j in range(p.n_listed):
        p.place[p.listed[j]] = -1
    p.n_listed = 0


cdef inline void _copy(Particle *p, const Particle *source, int n_tokens) noexcept nogil:
    """Make a particle another one's twin."""
    cdef int j
    _clear(p)
    p.n_listed = source.n_listed
    memcpy(p.topic, source.topic, n_tokens * sizeof(int))
    memcpy(p.listed, source.listed, p.n_listed * sizeof(int))
    memcpy(p.own, source.own, p.n_listed * sizeof(double))
    for j in range(p.n_listed):
        p.place[p.listed[j]] = j


# ---------------------------------------------------------------- draws

cdef inline double _weigh(Document *doc, const Particle *p, int w) noexcept nogil:
    """The weights of a word's listed topics, as far as their tokens go, and their sum."""
    cdef int j
    cdef const double *row = doc.row[w]
    cdef double near = 0, x
    for j in range(p.n_listed):
        x = row[p.listed[j]] * p.own[j]
        doc.partial[j] = x
        near += x
    return near


cdef inline int _search(const double *running, int n, double u) noexcept nogil:
    """The first entry whose running sum is above u, the last one if none is."""
    cdef int low = 0, half
    n -= 1
    while n > 0:  # without branches that nothing predicts
        half = (n + 1) >> 1
        low += half if running[low + half - 1] <= u else 0
        n -= half
    return low


cdef inline int _draw(Document *doc, const Particle *p, int w) noexcept nogil:
    """A topic for a token of word w, given the other tokens."""
    cdef const double *far = doc.far + <Py_ssize_t>w * doc.K
    cdef double near = _weigh(doc, p, w), u
    cdef int j, last = 0
    u = keyed_next_double(&doc.stream) * (near + far[doc.K - 1])
    if u >= near:
        return _search(far, doc.K, u - near)
    for j in range(p.n_listed):
        if doc.partial[j] > 0:
            last = j
            u -= doc.partial[j]
            if u < 0:
                break
    return p.listed[last]


cdef inline void _redraw(Document *doc, Particle *p, int i) noexcept nogil:
    """Draw the topic of token i given all others."""
    cdef int old = p.topic[i], j = p.place[old], k
    p.own[j] -= 1
    k = _draw(doc, p, doc.token[i])
    if k == old:
        p.own[j] += 1
        return
    if p.own[j] == 0:
        _unlist(p, j)
    _add(p, k)
    p.topic[i] = k


cdef inline void _select(Document *doc, int n_tokens, double total) noexcept nogil:
    """Choose particles again by how they predicted the present token."""
    cdef int r, source = 0, n = doc.n_particles
    if n == 1:
        return
    count_copies(doc.likelihood, n, total, keyed_next_double(&doc.stream), doc.n_copies)
    for r in range(n):
        if doc.n_copies[r] == 0:
            while doc.n_copies[source] < 2:
                source += 1
            doc.n_copies[source] -= 1
            doc.n_copies[r] = 1
            _copy(doc.particles + r, doc.particles + source, n_tokens)


# ---------------------------------------------------------------- documents

cdef size_t _lay_out(Document *doc, char *memory, int n_tokens, int n_words) noexcept nogil:
    """Cut a thread's memory for documents of so many tokens and words; say how much it takes."""
    cdef size_t used = 0
    cdef int r, K = doc.K, R = doc.n_particles
    cdef Particle *particles
    cdef Particle p
    doc.token = <int *>take(memory, &used, n_tokens * sizeof(int))
    doc.row = <const double **>take(memory, &used, n_words * sizeof(double *))
    doc.far = <double *>take(memory, &used, <size_t>n_words * K * sizeof(double))
    doc.partial = <double *>take(memory, &used, K * sizeof(double))
    doc.likelihood = <double *>take(memory, &used, R * sizeof(double))
    doc.n_copies = <int *>take(memory, &used, R * sizeof(int))
    particles = <Particle *>take(memory, &used, R * sizeof(Particle))
    for r in range(R):
        p.n_listed = 0
        p.topic = <int *>take(memory, &used, n_tokens * sizeof(int))
        p.listed = <int *>take(memory, &used, K * sizeof(int))
        p.place = <int *>take(memory, &used, K * sizeof(int))
        p.own = <double *>take(memory, &used, K * sizeof(double))
        if memory != NULL:
            particles[r] = p
    doc.particles = particles
    doc.memory = memory
    return used


cdef Document *_new_document(int K, int n_particles, int n_tokens, int n_words) noexcept nogil:
    """Memory for the documents of a thread, or NULL."""
    cdef Document *doc = <Document *>malloc(sizeof(Document))
    cdef char *memory
    cdef int r, k
    if doc == NULL:
        return NULL
    doc.K, doc.n_particles = K, n_particles
    memory = <char *>malloc(_lay_out(doc, NULL, n_tokens, n_words))
    if memory == NULL:
        free(doc)
        return NULL
    _lay_out(doc, memory, n_tokens, n_words)
    for r in range(n_particles):
        for k in range(K):
            doc.particles[r].place[k] = -1
    return doc


cdef void _free_document(Document *doc) noexcept nogil:
    if doc != NULL:
        free(doc.memory)
        free(doc)


cdef int _enter(
    Document *doc, const int *local, const double *count, int n_words, const double *weight,
    const double *alpha
) noexcept nogil:
    """Deal out a document's tokens in random order and sum up its words' tables."""
    cdef int w, k, i, j, kept, _i, n_tokens = 0
    cdef double reached
    for w in range(n_words):
        doc.row[w] = weight + <Py_ssize_t>local[w] * doc.K
        reached = 0
        for k in range(doc.K):
            reached += alpha[k] * doc.row[w][k]
            doc.far[<Py_ssize_t>w * doc.K + k] = reached
        for _i in range(<int>count[w]):
            doc.token[n_tokens] = w
            n_tokens += 1
    for i in range(n_tokens - 1, 0, -1):
        j = <int>(keyed_next_double(&doc.stream) * (i + 1))
        kept = doc.token[i]
        doc.token[i] = doc.token[j]
        doc.token[j] = kept
    return n_tokens


cdef double _visit(Document *doc, int n_tokens, double alpha_total) noexcept nogil:
    """Sum of the log of the particles' mean probability of each token given those before it."""
    cdef int n, r, i, w, k
    cdef double value = 0, total
    cdef Particle *p
    for n in range(n_tokens):
        w = doc.token[n]
        total = 0
        for r in range(doc.n_particles):
            p = doc.particles + r
            for i in range(n):
                _redraw(doc, p, i)
            doc.likelihood[r] = _weigh(doc, p, w) + doc.far[<Py_ssize_t>w * doc.K + doc.K - 1]
            total += doc.likelihood[r]
        value += log(total / (doc.n_particles * (n + alpha_total)))
        if n + 1 < n_tokens:
            _select(doc, n, total)
            for r in range(doc.n_particles):
                p = doc.particles + r
                k = _draw(doc, p, w)
                _add(p, k)
                p.topic[n] = k
    for r in range(doc.n_particles):
        _clear(doc.particles + r)
    return value


def left_to_right(
    const long long[::1] indptr,  # IN
    const int[::1] local,  # IN
    const double[::1] count,  # IN
    const double[:, ::1] weight,  # IN
    const double[::1] alpha,  # IN
    const long long[::1] units,  # IN
    uint64_t seed,  # IN
    uint64_t number,  # IN
    *,
    int n_particles,  # IN
    int n_threads=1,  # IN
):
    """Estimate log p(tokens | topics, alpha) of documents, tokens in a random order.

    Parameters
    ----------
    indptr : ndarray of shape (n_documents + 1,), int64
        Where each document's words begin, from 0.
    local : ndarray of shape (nnz,), int32
        Row of `weight` of each word.
    count : ndarray of shape (nnz,), float64
        How often it occurs: whole numbers.
    weight : ndarray of shape (n_words, n_topics), float64
        Probabilities of words in topics.
    alpha : ndarray of shape (n_topics,), float64
        Dirichlet prior of the documents' topic weights.
    units : ndarray of shape (n_documents,), int64
        Numbers of the documents, by which their random streams are keyed.
    seed, number : int
        What else the streams are keyed by.
    n_particles : int
        Number of particles.
    n_threads : int, default=1
        Number of OpenMP threads.

    Returns
    -------
    value : ndarray of shape (n_documents,), float64
        The estimates, in nats.
    """
    cdef Py_ssize_t n_documents = units.shape[0], d
    cdef int K = <int>alpha.shape[0], n_tokens = 1, n_words = 1, n, no_memory = 0
    cdef int *failed = &no_memory
    cdef double alpha_total = np.sum(alpha)
    cdef long long i
    cdef Document *doc
    value_array = np.zeros(n_documents)
    cdef double[::1] value = value_array
    if local.shape[0] == 0:
        return value_array
    for d in range(n_documents):
        n = 0
        for i in range(indptr[d], indptr[d + 1]):
            n += <int>count[i]
        n_tokens = max(n_tokens, n)
        n_words = max(n_words, <int>(indptr[d + 1] - indptr[d]))
    with nogil, parallel(num_threads=n_threads):
        doc = _new_document(K, n_particles, n_tokens, n_words)
        if doc == NULL:
            failed[0] = 1
        for d in prange(n_documents, schedule="dynamic", chunksize=1):
            if failed[0] or indptr[d] == indptr[d + 1]:
                continue
            keyed_init(&doc.stream, seed, number, units[d])
            n = _enter(
                doc, &local[0] + indptr[d], &count[0] + indptr[d],
                <int>(indptr[d + 1] - indptr[d]), &weight[0, 0], &alpha[0],
            )
            value[d] = _visit(doc, n, alpha_total)
        _free_document(doc)
    if no_memory:
        raise MemoryError("no memory for the particles of a document")
    return value_array
