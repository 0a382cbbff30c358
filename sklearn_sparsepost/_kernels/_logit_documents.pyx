"""Documents with logistic-normal topic weights under topics that stay: chains and estimates.

* `infer_documents`: posterior means of topic weights and counts, by a chain a document;
* `left_to_right`: estimated probabilities of documents, by particles.

Both alternate between the topics of a document's tokens, independent given its logits, and the
logits given these (`_logits.pxd`).
"""
from cython.parallel cimport parallel, prange
from libc.math cimport floor, log
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from sklearn_sparsepost._kernels._draws cimport draw_uniform
from sklearn_sparsepost._kernels._logits cimport (
    Document, Gaussian, document_size, draw_prior, point_to, start_draws, sweep_logits,
    weigh_topics,
)
from sklearn_sparsepost._kernels._particles cimport count_copies
from sklearn_sparsepost._kernels._scratch cimport take
from sklearn_sparsepost._kernels._types cimport floating

import numpy as np

cdef enum:
    LANES = 16  # topics whose weights are summed before one of them is searched for
    MOST_DRAWS = 100  # of a word's tokens; of more tokens some share each draw


cdef inline double _weigh_word(
    const floating *row, const double *weight, int K, double *product, double *block
) noexcept nogil:
    """What a word weighs in all topics, block by block, and their sum."""
    cdef int b, k, first, last
    cdef double total = 0, part
    for b in range((K + LANES - 1) // LANES):
        first, last, part = b * LANES, min(b * LANES + LANES, K), 0
        for k in range(first, last):
            product[k] = row[k] * weight[k]
            part += product[k]
        block[b] = part
        total += part
    return total


cdef inline int _search(const double *product, const double *block, int K, double u) noexcept nogil:
    """The topic at which the running sum of the weights passes u."""
    cdef int b = 0, k, last, n = (K + LANES - 1) // LANES
    while b < n - 1 and u >= block[b]:
        u -= block[b]
        b += 1
    k, last = b * LANES, min(b * LANES + LANES, K) - 1
    while k < last and u >= product[k]:
        u -= product[k]
        k += 1
    return k


cdef inline uint64_t _mix(uint64_t key, uint64_t value) noexcept nogil:
    """A key that a value has been stirred into (the finaliser of SplitMix64)."""
    key = (key ^ value) + <uint64_t>0x9E3779B97F4A7C15
    key = (key ^ (key >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
    key = (key ^ (key >> 27)) * <uint64_t>0x94D049BB133111EB
    return key ^ (key >> 31)


cdef inline uint64_t _key_of(
    const int *word, const floating *count, Py_ssize_t n
) noexcept nogil:
    """A number that follows from what a document holds, and from nothing else."""
    cdef uint64_t key = <uint64_t>n
    cdef Py_ssize_t i
    for i in range(n):
        key = _mix(_mix(key, <uint64_t>word[i]), <uint64_t>(1024 * <double>count[i]))
    return key


cdef inline void _draw_topics(
    Document *doc, const int *local, const floating *count, Py_ssize_t n_words,
    const floating *weight, double *product, double *block
) noexcept nogil:
    """Draw the topics of a document's tokens given its logits, and count them."""
    cdef Py_ssize_t i
    cdef int _j, n
    cdef double total, whole, rest, share
    memset(doc.count, 0, doc.K * sizeof(double))
    for i in range(n_words):
        total = _weigh_word(
            weight + <Py_ssize_t>local[i] * doc.K, doc.weight, doc.K, product, block)
        whole, share = floor(<double>count[i]), 1
        rest = count[i] - whole
        if whole > MOST_DRAWS:
            whole, share, rest = MOST_DRAWS, <double>count[i] / MOST_DRAWS, 0
        n = <int>whole
        for _j in range(n):
            doc.count[_search(product, block, doc.K, draw_uniform(&doc.draws) * total)] += share
        if rest > 0:
            doc.count[_search(product, block, doc.K, draw_uniform(&doc.draws) * total)] += rest


def infer_documents(
    const long long[::1] indptr,  # IN
    const int[::1] word,  # IN
    const int[::1] local,  # IN
    const floating[::1] count,  # IN
    const floating[:, ::1] weight,  # IN
    prior,  # IN
    uint64_t seed,  # IN
    *,
    int sampler,  # IN
    int burn_in,  # IN
    int n_samples,  # IN
    int n_threads=1,  # IN
):
    """Posterior means of documents' topic weights and of their tokens' topics.

    Each document has a chain of its own, keyed by what it holds.

    Parameters
    ----------
    indptr : ndarray of shape (n_documents + 1,), int64
        Where each document's words begin, from 0.
    word : ndarray of shape (nnz,), int32
        The words, to key by.
    local : ndarray of shape (nnz,), int32
        Row of `weight` of each word.
    count : ndarray of shape (nnz,)
        How often it occurs; fractions are legal.
    weight : ndarray of shape (n_words, n_topics)
        Weights of words in topics.
    prior : tuple of ndarray
        The prior of the logits, as `point_to` reads it.
    seed : int
        Of the streams.
    sampler : int
        Of `_logits.SAMPLERS`.
    burn_in, n_samples : int
        Sweeps before any is kept, and sweeps that are.
    n_threads : int, default=1
        Number of OpenMP threads.

    Returns
    -------
    weights : ndarray of shape (n_documents, n_topics)
        Means of the topic weights; rows sum to 1.
    counts : ndarray of shape (n_documents, n_topics)
        Mean numbers of tokens.
    """
    cdef Gaussian held
    point_to(&held, prior)
    cdef int K = held.K, r = held.n_factors, k, step, no_memory = 0
    cdef int *failed = &no_memory
    cdef Py_ssize_t d, i, first, n, n_documents = indptr.shape[0] - 1
    cdef size_t size, used
    cdef Document layout
    cdef Document *doc
    cdef char *memory
    cdef double *product
    cdef double *block
    cdef double *mean_weight
    cdef double *mean_count
    cdef double scale
    dtype = np.float32 if floating is float else np.float64
    weights_array = np.empty((n_documents, K), dtype=dtype)
    counts_array = np.empty((n_documents, K), dtype=dtype)
    cdef floating[:, ::1] weights = weights_array, counts = counts_array
    used = document_size(&layout, K, r, NULL)
    size = used + 4 * (K + LANES) * sizeof(double)
    with nogil, parallel(num_threads=n_threads):
        doc = <Document *>malloc(sizeof(Document))
        memory = <char *>malloc(size)
        if doc == NULL or memory == NULL:
            failed[0] = 1
        else:
            document_size(doc, K, r, memory)
        for d in prange(n_documents, schedule="dynamic", chunksize=4):
            if failed[0]:
                continue
            product = <double *>(memory + used)
            block, mean_weight = product + K + LANES, product + 2 * (K + LANES)
            mean_count = product + 3 * (K + LANES)
            memset(mean_weight, 0, 2 * (K + LANES) * sizeof(double))
            first, n = indptr[d], indptr[d + 1] - indptr[d]
            doc.n_tokens = 0
            for i in range(first, first + n):
                doc.n_tokens = doc.n_tokens + count[i]
            start_draws(doc, seed, 0, _key_of(&word[0] + first, &count[0] + first, n) if n else 0)
            memcpy(doc.eta, held.mean, K * sizeof(double))
            weigh_topics(doc)
            for step in range(burn_in + n_samples):
                if n:
                    _draw_topics(doc, &local[0] + first, &count[0] + first, n, &weight[0, 0],
                                 product, block)
                else:
                    memset(doc.count, 0, K * sizeof(double))
                sweep_logits(doc, &held, 1, sampler)
                weigh_topics(doc)
                if step < burn_in:
                    continue
                scale = 1 / (doc.total * n_samples)
                for k in range(K):
                    mean_weight[k] = mean_weight[k] + doc.weight[k] * scale
                    mean_count[k] = mean_count[k] + doc.count[k] / n_samples
            for k in range(K):
                weights[d, k] = <floating>mean_weight[k]
                counts[d, k] = <floating>mean_count[k]
        free(memory)
        free(doc)
    if no_memory:
        raise MemoryError("no memory for the chains of documents")
    return weights_array, counts_array


# ---------------------------------------------------------------- left to right

cdef struct Particle:  # one possible past of a document
    double *eta
    double *count
    int *topic  # of each token


cdef inline void _copy(Particle *p, const Particle *source, int K, int n_tokens) noexcept nogil:
    """Make a particle another one's twin."""
    memcpy(p.eta, source.eta, K * sizeof(double))
    memcpy(p.count, source.count, K * sizeof(double))
    memcpy(p.topic, source.topic, n_tokens * sizeof(int))


cdef inline void _select(
    Document *doc, Particle *particles, int n, const double *likelihood, double total,
    int *n_copies, int n_tokens
) noexcept nogil:
    """Choose particles again by how they predicted the present token."""
    cdef int r, source = 0
    count_copies(likelihood, n, total, draw_uniform(&doc.draws), n_copies)
    for r in range(n):
        if n_copies[r] == 0:
            while n_copies[source] < 2:
                source += 1
            n_copies[source] -= 1
            n_copies[r] = 1
            _copy(particles + r, particles + source, doc.K, n_tokens)


cdef inline void _redraw(
    Document *doc, const Gaussian *prior, Particle *p, const int *token, int n_tokens,
    const double *weight, int sampler, double *product, double *block
) noexcept nogil:
    """Move a particle: its logits given the topics of its tokens, and these given the logits."""
    cdef int i, k
    cdef double total
    doc.n_tokens = n_tokens
    memcpy(doc.eta, p.eta, doc.K * sizeof(double))
    memcpy(doc.count, p.count, doc.K * sizeof(double))
    sweep_logits(doc, prior, 1, sampler)
    weigh_topics(doc)
    memcpy(p.eta, doc.eta, doc.K * sizeof(double))
    memset(p.count, 0, doc.K * sizeof(double))
    for i in range(n_tokens):
        total = _weigh_word(
            weight + <Py_ssize_t>token[i] * doc.K, doc.weight, doc.K, product, block)
        k = _search(product, block, doc.K, draw_uniform(&doc.draws) * total)
        p.topic[i] = k
        p.count[k] += 1


cdef double _visit(
    Document *doc, const Gaussian *prior, Particle *particles, int n_particles, const int *token,
    int n_tokens, const double *weight, int sampler, double *product, double *block,
    double *likelihood, int *n_copies
) noexcept nogil:
    """Sum of the log of the particles' mean probability of each token given those before it."""
    cdef int n, r, k
    cdef double value = 0, total
    cdef Particle *p
    cdef const double *row
    for r in range(n_particles):
        p = particles + r
        draw_prior(doc, prior)
        memcpy(p.eta, doc.eta, doc.K * sizeof(double))
        memset(p.count, 0, doc.K * sizeof(double))
    for n in range(n_tokens):
        row, total = weight + <Py_ssize_t>token[n] * doc.K, 0
        for r in range(n_particles):
            p = particles + r
            if n:
                _redraw(doc, prior, p, token, n, weight, sampler, product, block)
            memcpy(doc.eta, p.eta, doc.K * sizeof(double))
            weigh_topics(doc)
            likelihood[r] = _weigh_word(row, doc.weight, doc.K, product, block) / doc.total
            total += likelihood[r]
        value += log(total / n_particles)
        if n + 1 == n_tokens:
            break
        _select(doc, particles, n_particles, likelihood, total, n_copies, n)
        for r in range(n_particles):
            p = particles + r
            memcpy(doc.eta, p.eta, doc.K * sizeof(double))
            weigh_topics(doc)
            k = _search(product, block, doc.K, draw_uniform(&doc.draws) * _weigh_word(
                row, doc.weight, doc.K, product, block))
            p.topic[n] = k
            p.count[k] += 1
    return value


cdef inline size_t _lay_out(
    Particle *particles, int n_particles, int K, int n_tokens, char *memory
) noexcept nogil:
    """Cut memory for particles; says how much they take."""
    cdef size_t used = 0
    cdef int r
    cdef Particle p
    for r in range(n_particles):
        p.eta = <double *>take(memory, &used, K * sizeof(double))
        p.count = <double *>take(memory, &used, K * sizeof(double))
        p.topic = <int *>take(memory, &used, n_tokens * sizeof(int))
        if memory != NULL:
            particles[r] = p
    return used


cdef inline int _deal_out(
    Document *doc, const int *local, const double *count, Py_ssize_t n_words, int *token
) noexcept nogil:
    """A document's tokens in random order; says how many they are."""
    cdef Py_ssize_t i
    cdef int _j, j, n = 0, kept, n_copies
    for i in range(n_words):
        n_copies = <int>count[i]
        for _j in range(n_copies):
            token[n] = local[i]
            n += 1
    for i in range(n - 1, 0, -1):
        j = <int>(draw_uniform(&doc.draws) * (i + 1))
        kept = token[i]
        token[i] = token[j]
        token[j] = kept
    return n


def left_to_right(
    const long long[::1] indptr,  # IN
    const int[::1] local,  # IN
    const double[::1] count,  # IN
    const double[:, ::1] weight,  # IN
    prior,  # IN
    const long long[::1] units,  # IN
    uint64_t seed,  # IN
    uint64_t number,  # IN
    *,
    int sampler,  # IN
    int n_particles,  # IN
    int n_threads=1,  # IN
):
    """Estimate log p(tokens | topics, prior) of documents, tokens in a random order.

    Parameters
    ----------
    indptr, local, count, weight, units, seed, number, n_particles, n_threads
        As for `_left_to_right.left_to_right`.
    prior : tuple of ndarray
        As for :func:`infer_documents`.
    sampler : int
        Of `_logits.SAMPLERS`.

    Returns
    -------
    value : ndarray of shape (n_documents,), float64
        The estimates, in nats.
    """
    cdef Gaussian held
    point_to(&held, prior)
    cdef int K = held.K, n_tokens = 1, no_memory = 0
    cdef int *failed = &no_memory
    cdef Py_ssize_t d, n_documents = units.shape[0]
    cdef Document layout
    cdef Document *doc
    cdef char *memory
    cdef char *past
    cdef Particle *particles
    cdef int *token
    cdef int *n_copies
    cdef double *product
    cdef size_t used = document_size(&layout, K, held.n_factors, NULL), size
    value_array = np.zeros(n_documents)
    cdef double[::1] value = value_array
    if local.shape[0] == 0:
        return value_array
    sums = np.add.reduceat(np.append(count, 0.0), np.asarray(indptr)[: n_documents])
    n_tokens = max(1, int(sums[np.diff(indptr) > 0].max()))
    size = used + (3 * (K + LANES) + n_particles) * sizeof(double) + (
        n_tokens + n_particles) * sizeof(int)
    with nogil, parallel(num_threads=n_threads):
        doc = <Document *>malloc(sizeof(Document))
        memory = <char *>malloc(size)
        particles = <Particle *>malloc(n_particles * sizeof(Particle))
        past = <char *>malloc(_lay_out(NULL, n_particles, K, n_tokens, NULL))
        if doc == NULL or memory == NULL or particles == NULL or past == NULL:
            failed[0] = 1
        else:
            document_size(doc, K, held.n_factors, memory)
            _lay_out(particles, n_particles, K, n_tokens, past)
        for d in prange(n_documents, schedule="dynamic", chunksize=1):
            if failed[0] or indptr[d] == indptr[d + 1]:
                continue
            product = <double *>(memory + used)
            token = <int *>(product + 3 * (K + LANES) + n_particles)
            n_copies = token + n_tokens
            start_draws(doc, seed, number, units[d])
            value[d] = _visit(
                doc, &held, particles, n_particles, token,
                _deal_out(doc, &local[0] + indptr[d], &count[0] + indptr[d],
                          indptr[d + 1] - indptr[d], token),
                &weight[0, 0], sampler, product, product + K + LANES,
                product + 2 * (K + LANES), n_copies,
            )
        free(past)
        free(particles)
        free(memory)
        free(doc)
    if no_memory:
        raise MemoryError("no memory for the particles of a document")
    return value_array
