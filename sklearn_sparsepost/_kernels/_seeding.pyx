"""Kernels of greedy k-means++ over documents.

* `add_weighted_rows`: a weighted sum of sparse rows;
* `best_centre`: the candidate that lowers the divergences most, from an inverted index.
"""
from cython.parallel cimport prange

import numpy as np

# Candidates that are looked at together, whatever the threads.
cdef enum:
    TOGETHER = 4

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
        Upper limits of the gains; those of the candidates looked at are set to their gains.
    n_threads : int, default=1
        Number of OpenMP threads.

    Returns
    -------
    best : int
        The candidate of the largest gain, the first of equals in the order of documents.
    """
    cdef Py_ssize_t n_candidates = candidates.shape[0], c = 0
    cdef long long d, best = -1
    cdef long long looked[TOGETHER]
    cdef double gain[TOGETHER]
    cdef double best_gain = -1
    cdef int i, n
    cdef float[:, ::1] fit = np.empty((TOGETHER, tokens.shape[0]), dtype=np.float32)
    with nogil:
        while c < n_candidates:
            n = 0
            while n < TOGETHER and c < n_candidates:
                d = candidates[c]
                if c == 0 or d != candidates[c - 1]:
                    if most_gain[d] < best_gain:
                        c = n_candidates
                        break
                    looked[n] = d
                    n += 1
                c += 1
            for i in prange(n, schedule="static", chunksize=1, num_threads=n_threads):
                gain[i] = _gain_of(
                    word_ptr, document, count, tokens, importance, indptr, words, weight,
                    log_total, excess, looked[i], fit[i],
                )
            for i in range(n):
                d = looked[i]
                most_gain[d] = gain[i]
                if gain[i] > best_gain or (gain[i] == best_gain and d < best):
                    best_gain = gain[i]
                    best = d
    return best


cdef double _gain_of(
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
    long long candidate,  # IN
    float[::1] fit,  # OUT
) noexcept nogil:
    """How much one candidate would lower the sum; `fit` is scratch memory."""
    cdef Py_ssize_t i, j, k, n = tokens.shape[0]
    cdef double gain = 0
    cdef float x, w
    for i in range(n):
        fit[i] = excess[i] - log_total[candidate] * tokens[i]
    for k in range(indptr[candidate], indptr[candidate + 1]):
        w = weight[k]
        for j in range(word_ptr[words[k]], word_ptr[words[k] + 1]):
            fit[document[j]] += w * count[j]
    for i in range(n):
        x = fit[i] if fit[i] > 0 else 0
        gain += x * importance[i]
    return gain
