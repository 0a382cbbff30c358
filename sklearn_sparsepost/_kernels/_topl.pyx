"""Top-L responsibilities from log weights: TopLRespFromWeights of paper 000, Alg. 1."""
from cython.parallel cimport prange

from sklearn_sparsepost._kernels._math cimport exp_nonpos
from sklearn_sparsepost._kernels._types cimport floating

import numpy as np


cdef inline void _normalise(floating *value, int L) noexcept nogil:
    """Exponentiate and normalise L log weights in place; all -inf becomes uniform."""
    cdef int j
    cdef floating largest = value[0], total = 0
    for j in range(1, L):
        if value[j] > largest:
            largest = value[j]
    if largest - largest != 0:  # only -inf is left: every choice is as good
        for j in range(L):
            value[j] = <floating>1.0 / L
        return
    for j in range(L):
        value[j] = exp_nonpos(value[j] - largest)
        total += value[j]
    for j in range(L):
        value[j] /= total


cdef _select(
    const floating[:, ::1] log_weight, int sparsity_level, bint normalises, int n_threads
):
    """The L largest weights of each row, or what they are normalised."""
    cdef Py_ssize_t n = log_weight.shape[0], i
    cdef int K = <int>log_weight.shape[1]
    cdef int L = sparsity_level if sparsity_level < K else K
    index_array = np.empty((n, L), dtype=np.int32)
    value_array = np.empty((n, L), dtype=np.asarray(log_weight).dtype)
    cdef int[:, ::1] index = index_array
    cdef floating[:, ::1] value = value_array
    if n == 0 or K == 0:
        return index_array, value_array
    for i in prange(n, nogil=True, schedule="static", num_threads=n_threads):
        select_topl(&log_weight[i, 0], K, L, &index[i, 0], &value[i, 0])
        _sort_by_index(&index[i, 0], &value[i, 0], L)
        if normalises:
            _normalise(&value[i, 0], L)
    return index_array, value_array


def topl_responsibilities(const floating[:, ::1] log_weight, int sparsity_level, int n_threads=1):
    """L-sparse responsibilities that maximise the variational objective of each row.

    The optimum of paper 000, Eq. (8): keep the L largest weights, exponentiate, normalise.

    Parameters
    ----------
    log_weight : ndarray of shape (n, K), float32 or float64
        Log posterior weights, -inf allowed, NaN and +inf not.
    sparsity_level : int
        The most entries a row may keep; `L >= K` keeps all.
    n_threads : int, default=1
        Number of OpenMP threads.

    Returns
    -------
    index : ndarray of shape (n, min(L, K)), int32
        The components kept, ascending; of equal weights the lowest indices.
    resp : ndarray of shape (n, min(L, K))
        Their responsibilities; rows sum to 1. A row of -inf only is shared equally.
    """
    return _select(log_weight, sparsity_level, True, n_threads)


def topl_weights(const floating[:, ::1] log_weight, int sparsity_level):
    """The L largest weights of each row, as they are.

    Parameters
    ----------
    log_weight : ndarray of shape (n, K), float32 or float64
        Log posterior weights, -inf allowed, NaN and +inf not.
    sparsity_level : int
        The most entries a row may keep; `L >= K` keeps all.

    Returns
    -------
    index : ndarray of shape (n, min(L, K)), int32
        The components kept, ascending; of equal weights the lowest indices.
    weight : ndarray of shape (n, min(L, K))
        Their weights.
    """
    return _select(log_weight, sparsity_level, False, 1)


def sort_by_index(int[:, ::1] index, floating[:, ::1] weight):
    """Sort the entries of each row by component, in place.

    Parameters
    ----------
    index : ndarray of shape (n, L), int32
        Components.
    weight : ndarray of shape (n, L)
        Their weights.
    """
    cdef Py_ssize_t i
    with nogil:
        for i in range(index.shape[0]):
            _sort_by_index(&index[i, 0], &weight[i, 0], <int>index.shape[1])


cdef inline void _sort_by_index(int *index, floating *value, int L) noexcept nogil:
    """Insertion sort of a short list of pairs."""
    cdef int j, k, key
    cdef floating kept
    for j in range(1, L):
        key = index[j]
        kept = value[j]
        k = j - 1
        while k >= 0 and index[k] > key:
            index[k + 1] = index[k]
            value[k + 1] = value[k]
            k = k - 1
        index[k + 1] = key
        value[k + 1] = kept
