"""Kernels of greedy k-means++ over documents.

* `add_weighted_rows`: a weighted sum of sparse rows;
* `best_centre`: the candidate that lowers the divergences most, from an inverted index.
"""

import numpy as np

from cython.parallel cimport parallel, prange
from libc.stdlib cimport free, malloc

ctypedef fused index_t:
    int
    long long


def add_weighted_rows(
    const index_t[::1] indptr,  # IN
    const index_t[::1] indices,  # IN
    const double[::1] data,  # IN
    const index_t[::1] rows,  # IN
    const double[::1] weight,  # IN
    double[::1] out,  # IN/OUT
):
    """Add the weighted sum of some rows of a CSR matrix to a dense vector.

    Parameters
    ----------
    indptr, indices, data : ndarrays
        The matrix; both index arrays and `rows` of one type, int32 or int64.
    rows : ndarray of shape (n,)
        The rows to add, in this order.
    weight : ndarray of shape (n,), float64
        Their weights.
    out : ndarray of shape (n_columns,), float64
        What they are added to, in place.
    """
    cdef Py_ssize_t i, j
    cdef index_t row
    with nogil:
        for i in range(rows.shape[0]):
            row = rows[i]
            for j in range(indptr[row], indptr[row + 1]):
                out[indices[j]] += weight[i] * data[j]


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
    cdef float x, w
    for i in range(n):
        fit[i] = excess[i] - log_total[d] * tokens[i]
    for k in range(indptr[d], indptr[d + 1]):
        w = weight[k]
        for j in range(word_ptr[words[k]], word_ptr[words[k] + 1]):
            fit[document[j]] += w * count[j]
    for i in range(n):
        x = fit[i] if fit[i] > 0 else 0
        gain += x * importance[i]
    return gain
