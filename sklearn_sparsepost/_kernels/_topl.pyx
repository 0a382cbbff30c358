"""The L largest log weights of each row, by component (Hughes & Sudderth 2016, Alg. 1).

The selection itself, which other kernels share, is in `_topl.pxd`.
"""
from sklearn_sparsepost._kernels._types cimport floating

import numpy as np


def topl_weights(
    const floating[:, ::1] log_weight,  # IN
    int sparsity_level,  # IN
):
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
    cdef Py_ssize_t n = log_weight.shape[0], i
    cdef int K = <int>log_weight.shape[1], L = min(sparsity_level, K)
    index_array = np.empty((n, L), dtype=np.int32)
    weight_array = np.empty((n, L), dtype=np.asarray(log_weight).dtype)
    cdef int[:, ::1] index = index_array
    cdef floating[:, ::1] weight = weight_array
    if n == 0 or K == 0:
        return index_array, weight_array
    with nogil:
        for i in range(n):
            select_topl(&log_weight[i, 0], K, L, &index[i, 0], &weight[i, 0])
            _sort_by_index(&index[i, 0], &weight[i, 0], L)
    return index_array, weight_array


def sort_by_index(
    int[:, ::1] index,  # IN/OUT
    floating[:, ::1] weight,  # IN/OUT
):
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
