"""First topics of tokens.

* `draw_assignments`: independently, given what documents and topics are expected to be;
* `draw_by_words`: given topics, of documents of which nothing is known but the tokens so far.
"""
from cython.parallel cimport parallel, prange
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc

from sklearn_sparsepost._kernels._gibbs_counts cimport topic_t
from sklearn_sparsepost._kernels._prefetch cimport fetch
from sklearn_sparsepost._kernels._rng cimport KeyedStream, keyed_init, keyed_next_double
from sklearn_sparsepost._kernels._types cimport floating

import numpy as np

cdef enum:
    TOGETHER = 16  # tokens whose topics are searched for side by side
    MOST_FETCHED = 8  # of a document's topics


cdef struct Drawn:  # a topic of the document
    int k
    int n  # tokens that have been drawn
    float near  # sum of what this one and those before it weigh


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


def draw_by_words(
    const int[::1] word,  # IN
    const long long[::1] doc_ptr,  # IN
    const float[:, ::1] running,  # IN
    topic_t[::1] z,  # OUT
    uint64_t seed,  # IN
    uint64_t number,  # IN
    uint64_t first_unit=0,  # IN
    int n_threads=1,  # IN
):
    """Draw topics of tokens one after the other, given what topics weigh in each word.

    A token's topic has a probability proportional to weight * (1 + n), where n of the document's
    tokens that were drawn before have the topic: a Polya urn. The last token comes first.

    Parameters
    ----------
    word : ndarray of shape (n_tokens,), int32
        Words of the tokens, document by document.
    doc_ptr : ndarray of shape (n_documents + 1,), int64
        Where each document's tokens begin.
    running : ndarray of shape (n_features, n_topics), float32
        Running sums of a word's weights over topics; the last one is 1.
    z : ndarray of shape (n_tokens,), uint16 or int32
        The topics, set.
    seed, number, first_unit : int
        Of the streams: document d has the unit `first_unit + d`.
    n_threads : int, default=1
        Threads.
    """
    cdef Py_ssize_t d, n_documents = doc_ptr.shape[0] - 1
    cdef int n_topics = <int>running.shape[1], no_memory = 0
    cdef int *failed = &no_memory
    cdef Drawn *drawn
    if word.shape[0] == 0:
        return
    with nogil, parallel(num_threads=n_threads):
        drawn = <Drawn *>malloc(n_topics * sizeof(Drawn))
        if drawn == NULL:
            failed[0] = 1
        for d in prange(n_documents, schedule="static"):
            if not failed[0]:
                _draw_document_by_words(
                    &word[0], doc_ptr[d], doc_ptr[d + 1], &running[0, 0], n_topics, drawn, &z[0],
                    seed, number, first_unit + d,
                )
        free(drawn)
    if no_memory:
        raise MemoryError("no memory for the topics of a document")


cdef void _draw_document_by_words(
    const int *word, Py_ssize_t start, Py_ssize_t stop, const float *running, int n_topics,
    Drawn *drawn, topic_t *z, uint64_t seed, uint64_t number, uint64_t unit,
) noexcept nogil:
    """Topics of a document's tokens: the word's own, or of those that were drawn before.

    Of some tokens the words' own are searched for side by side, so that they wait for memory
    together.
    """
    cdef KeyedStream stream
    cdef const float *row[TOGETHER]
    cdef int own[TOGETHER]
    cdef int i, j, count, n_drawn = 0
    cdef double u
    keyed_init(&stream, seed, number, unit)
    while stop > start:
        count = <int>min(TOGETHER, stop - start)
        stop -= count
        for i in range(count):
            row[i] = running + <Py_ssize_t>word[stop + i] * n_topics
            for j in range(min(n_drawn, MOST_FETCHED)):
                fetch(row[i] + drawn[j].k)
        _draw_own(row, count, n_topics, own, &stream)
        for i in range(count - 1, -1, -1):
            u = keyed_next_double(&stream) * (1 + _weigh_drawn(row[i], drawn, n_drawn))
            j = 0
            if n_drawn and u < drawn[n_drawn - 1].near:
                while drawn[j].near <= u:
                    j += 1
            else:
                while j < n_drawn and drawn[j].k != own[i]:
                    j += 1
                if j == n_drawn:
                    drawn[j].k, drawn[j].n = own[i], 0
                    n_drawn += 1
            drawn[j].n += 1
            z[stop + i] = <topic_t>drawn[j].k


cdef inline void _draw_own(
    const float *const *row, int count, int n, int *own, KeyedStream *stream
) noexcept nogil:
    """A topic for each of some words: the first whose running sum is above a random number."""
    cdef double u[TOGETHER]
    cdef int i, half
    for i in range(count):
        u[i] = keyed_next_double(stream)
        own[i] = 0
    while n > 1:
        half = n // 2
        for i in range(count):
            own[i] += half * (row[i][own[i] + half - 1] <= u[i])
        n -= half


cdef inline float _weigh_drawn(const float *row, Drawn *drawn, int n_drawn) noexcept nogil:
    """What a document's topics weigh for a word, run up."""
    cdef int j, k
    cdef float near = 0
    for j in range(n_drawn):
        k = drawn[j].k
        near += drawn[j].n * (row[k] - (row[k - 1] if k else 0))
        drawn[j].near = near
    return near
