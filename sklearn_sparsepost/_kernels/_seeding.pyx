"""Kernels of greedy k-means++ over documents.

* `add_centre`: divergences to another centre, and who is nearest to it, from an inverted index;
* `best_centre`: the candidate that lowers the divergences most, likewise;
* `add_by_label`: counts of words in clusters.
"""

import numpy as np

from cython.parallel cimport parallel, prange
from libc.stdlib cimport free, malloc

ctypedef fused index_t:
    int
    long long

cdef enum:
    N_SUMS = 8  # side by side: one addition need not wait for the last


def add_centre(
    const index_t[::1] word_ptr,  # IN
    const index_t[::1] document,  # IN
    const float[::1] count,  # IN
    const double[::1] tokens,  # IN
    const double[::1] constant,  # IN
    const double[::1] floor,  # IN
    const index_t[::1] words,  # IN
    const double[::1] weight,  # IN
    double log_total,  # IN
    Py_ssize_t number,  # IN
    double[::1] distance,  # OUT
    Py_ssize_t[::1] nearest,  # IN/OUT
    double[::1] closest,  # IN/OUT
    double[::1] least,  # IN/OUT
):
    """Have one more document for a centre: note the divergences to it where they are the least.

    Parameters
    ----------
    word_ptr, document, count : ndarrays
        Inverted index: CSR of shape (n_features, n_samples).
    tokens : ndarray of shape (n_samples,), float64
        Lengths of the documents.
    constant : ndarray of shape (n_samples,), float64
        The part of their divergences that is the same for every centre.
    floor : ndarray of shape (n_samples,), float64
        The divergence up to which a document would gain nothing as a centre of its own.
    words : ndarray of shape (n,)
        The centre's words.
    weight : ndarray of shape (n,), float64
        log((c + s) / s) of each.
    log_total : float
        log of the centre's smoothed total.
    number : int
        The centre's number.
    distance : ndarray of shape (n_samples,), float64
        The divergences to the centre, set.
    nearest : ndarray of shape (n_samples,), intp
        The centre that each document is nearest to, updated.
    closest : ndarray of shape (n_samples,), float64
        The divergence to it, updated.
    least : ndarray of shape (n_samples,), float64
        The same, but 0 where it is not above `floor`, updated.
    """
    cdef Py_ssize_t i, j
    cdef double x
    with nogil:
        for i in range(tokens.shape[0]):
            distance[i] = constant[i] + log_total * tokens[i]
        for i in range(words.shape[0]):
            for j in range(word_ptr[words[i]], word_ptr[words[i] + 1]):
                distance[document[j]] -= weight[i] * count[j]
        for i in range(tokens.shape[0]):
            x = distance[i] if distance[i] > 0 else 0
            distance[i] = x
            nearest[i] = number if x < closest[i] else nearest[i]
            closest[i] = x if x < closest[i] else closest[i]
            x = x if x > floor[i] else 0
            least[i] = x if x < least[i] else least[i]


def best_centre(
    const index_t[::1] word_ptr,  # IN
    const index_t[::1] document,  # IN
    const float[::1] count,  # IN
    const float[::1] tokens,  # IN
    const float[::1] importance,  # IN
    const long long[::1] indptr,  # IN
    const index_t[::1] words,  # IN
    const float[::1] weight,  # IN
    const float[::1] log_total,  # IN
    const float[::1] excess,  # IN
    const long long[::1] candidates,  # IN
    double[::1] most_gain,  # IN/OUT
    int n_threads=1,  # IN
):
    """The candidate that would lower the sum of least divergences most.

    What a centre gains can only fall as others are chosen, so that a candidate needs no new look
    once its gain of an earlier look is not above the best of this one (Minoux 1978, "lazy" greedy).
    Those that nobody has looked at yet are looked at side by side, all others one by one.

    Parameters
    ----------
    word_ptr, document, count : ndarrays
        Inverted index of the scored documents: CSR of shape (n_features, n_scored).
    tokens : ndarray of shape (n_scored,), float32
        Lengths of the scored documents.
    importance : ndarray of shape (n_scored,), float32
        Their weights in the sum.
    indptr : ndarray of shape (n_samples + 1,), int64
        Row pointer of the documents that may become centres.
    words : ndarray of shape (nnz,)
        Words of their entries.
    weight : ndarray of shape (nnz,), float32
        log((c + s) / s) of their entries.
    log_total : ndarray of shape (n_samples,), float32
        log of their smoothed totals.
    excess : ndarray of shape (n_scored,), float32
        The scored documents' least divergence so far, less the part of their divergences that is
        the same for every centre.
    candidates : ndarray of shape (n_candidates,), int64
        Who is to be looked at, by falling `most_gain`; the same again in a row is passed over.
    most_gain : ndarray of shape (n_samples,), float64
        Upper limits of the gains, infinite at first; those of the candidates looked at are set to
        their gains.
    n_threads : int, default=1
        Number of OpenMP threads.

    Returns
    -------
    best : int
        The candidate of the largest gain, the first of equals in the order of documents.
    """
    cdef Py_ssize_t n = tokens.shape[0], c, n_new = 0
    cdef long long d, best = -1
    cdef double best_gain = -1
    cdef float *fit
    cdef int no_memory = 0
    cdef int *failed = &no_memory
    while n_new < candidates.shape[0] and most_gain[candidates[n_new]] == np.inf:
        n_new += 1
    with nogil, parallel(num_threads=n_threads):
        fit = <float *>malloc(max(n, 1) * sizeof(float))
        if fit == NULL:
            failed[0] = 1
        for c in prange(n_new, schedule="dynamic", chunksize=1):
            if failed[0] or (c > 0 and candidates[c] == candidates[c - 1]):
                continue
            most_gain[candidates[c]] = _gain_of(
                candidates[c], word_ptr, document, count, tokens, importance, indptr, words,
                weight, log_total, excess, fit)
        free(fit)
    if not no_memory:
        fit = <float *>malloc(max(n, 1) * sizeof(float))
        no_memory = fit == NULL
    if no_memory:
        raise MemoryError("no memory for the divergences of documents")
    with nogil:
        for c in range(candidates.shape[0]):
            d = candidates[c]
            if c > 0 and d == candidates[c - 1]:
                continue
            if c >= n_new:
                if most_gain[d] < best_gain:
                    break
                most_gain[d] = _gain_of(
                    d, word_ptr, document, count, tokens, importance, indptr, words, weight,
                    log_total, excess, fit)
            if most_gain[d] > best_gain or (most_gain[d] == best_gain and d < best):
                best_gain = most_gain[d]
                best = d
        free(fit)
    return best


cdef double _gain_of(
    long long d,
    const index_t[::1] word_ptr,
    const index_t[::1] document,
    const float[::1] count,
    const float[::1] tokens,
    const float[::1] importance,
    const long long[::1] indptr,
    const index_t[::1] words,
    const float[::1] weight,
    const float[::1] log_total,
    const float[::1] excess,
    float *fit,  # scratch
) noexcept nogil:
    """What the scored documents would gain by a centre."""
    cdef Py_ssize_t n = tokens.shape[0], i, j, k
    cdef double gain = 0
    cdef double[N_SUMS] sums
    cdef float x, w
    for i in range(n):
        fit[i] = excess[i] - log_total[d] * tokens[i]
    for k in range(indptr[d], indptr[d + 1]):
        w = weight[k]
        for j in range(word_ptr[words[k]], word_ptr[words[k] + 1]):
            fit[document[j]] += w * count[j]
    for k in range(N_SUMS):
        sums[k] = 0
    for j in range(n // N_SUMS):
        for k in range(N_SUMS):
            i = j * N_SUMS + k
            x = fit[i] if fit[i] > 0 else 0
            sums[k] += x * importance[i]
    for i in range(n - n % N_SUMS, n):
        x = fit[i] if fit[i] > 0 else 0
        gain += x * importance[i]
    for k in range(N_SUMS):
        gain += sums[k]
    return gain


def add_by_label(
    const index_t[::1] indptr,  # IN
    const index_t[::1] indices,  # IN
    const double[::1] data,  # IN
    const Py_ssize_t[::1] labels,  # IN
    const double[::1] weight,  # IN
    double[:, ::1] table,  # IN/OUT
):
    """Add the counts of documents to those of their clusters.

    Parameters
    ----------
    indptr, indices, data : ndarrays
        Counts: CSR of shape (n_samples, n_features).
    labels : ndarray of shape (n_samples,), intp
        The cluster of each document.
    weight : ndarray of shape (n_samples,), float64
        How often each document counts.
    table : ndarray of shape (n_features, n_clusters), float64
        Added to.
    """
    cdef Py_ssize_t d, i
    with nogil:
        for d in range(labels.shape[0]):
            for i in range(indptr[d], indptr[d + 1]):
                table[indices[i], labels[d]] += weight[d] * data[i]
