"""First topics of tokens, drawn independently of each other.

* `draw_assignments`: given what documents and topics are expected to be;
* `draw_by_words`: given topics, of documents that nothing is known of.
"""
from cython.parallel cimport prange
from libc.stdint cimport uint64_t

from sklearn_sparsepost._kernels._gibbs_counts cimport topic_t
from sklearn_sparsepost._kernels._rng cimport KeyedStream, keyed_init, keyed_next_double
from sklearn_sparsepost._kernels._types cimport floating

import numpy as np

cdef enum:
    TOGETHER = 16  # tokens whose topics are searched for side by side


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
    """Draw topics of tokens independently, given what topics weigh in each word.

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
    if word.shape[0] == 0:
        return
    with nogil:
        for d in prange(n_documents, num_threads=n_threads, schedule="static"):
            _draw_document_by_words(
                &word[0], doc_ptr[d], doc_ptr[d + 1], &running[0, 0], <int>running.shape[1], &z[0],
                seed, number, first_unit + d,
            )


cdef void _draw_document_by_words(
    const int *word, Py_ssize_t start, Py_ssize_t stop, const float *running, int n_topics,
    topic_t *z, uint64_t seed, uint64_t number, uint64_t unit,
) noexcept nogil:
    """Topics of a document's tokens: the first whose running sum is above a random number.

    Some tokens are searched for side by side, so that they wait for memory together.
    """
    cdef KeyedStream stream
    cdef Py_ssize_t i
    cdef const float *row[TOGETHER]
    cdef double u[TOGETHER]
    cdef int j, n, half, count
    keyed_init(&stream, seed, number, unit)
    i = start - TOGETHER
    while i + TOGETHER < stop:
        i += TOGETHER
        count = <int>min(TOGETHER, stop - i)
        for j in range(count):
            row[j] = running + <Py_ssize_t>word[i + j] * n_topics
            u[j] = keyed_next_double(&stream)
        n = n_topics
        while n > 1:
            half = n // 2
            for j in range(count):
                row[j] += half * (row[j][half - 1] <= u[j])
            n -= half
        for j in range(count):
            z[i + j] = <topic_t>(row[j] - running - <Py_ssize_t>word[i + j] * n_topics)
