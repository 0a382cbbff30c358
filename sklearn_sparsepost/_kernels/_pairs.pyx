"""What pairs of components share of sparse responsibilities: the entropy that their merges cost."""
from cython.parallel cimport prange
from libc.math cimport log

import numpy as np

# Rows are cut into this many blocks, whatever the threads, so that sums have the same bits.
cdef enum:
    BLOCKS = 32


def entropy_losses(
    const Py_ssize_t[::1] indptr,  # IN
    const int[::1] components,  # IN
    const double[::1] resp,  # IN
    const double[::1] weight,  # IN
    const int[:, ::1] slots,  # IN
    int n_pairs,  # IN
    int n_threads=1,  # IN
):
    """Sum h(a + b) - h(a) - h(b), h(x) = x log x, over rows that hold both of a pair.

    Parameters
    ----------
    indptr : ndarray of shape (n_rows + 1,), intp
        Where the responsibilities of each row begin.
    components : ndarray of shape (nnz,), int32
        Their components, each at most once a row.
    resp : ndarray of shape (nnz,), float64
        Responsibilities.
    weight : ndarray of shape (n_rows,), float64
        Weights of the rows.
    slots : ndarray of shape (n_components, n_components), int32
        Symmetric: the pair of two components, -1 where they are none.
    n_pairs : int
        Number of pairs.
    n_threads : int, default=1
        Threads to use.

    Returns
    -------
    loss : ndarray of shape (n_pairs,)
        The sums.
    """
    cdef Py_ssize_t n_rows = indptr.shape[0] - 1, block
    parts_array = np.zeros((BLOCKS, max(n_pairs, 1)))
    cdef double[:, ::1] parts = parts_array
    with nogil:
        for block in prange(BLOCKS, schedule="static", num_threads=n_threads):
            _losses_of_rows(
                &indptr[0], &components[0], &resp[0], &weight[0], slots,
                block * n_rows // BLOCKS, (block + 1) * n_rows // BLOCKS, &parts[block, 0],
            )
    return parts_array.sum(axis=0)[:n_pairs]


cdef void _losses_of_rows(
    const Py_ssize_t *indptr,  # IN
    const int *components,  # IN
    const double *resp,  # IN
    const double *weight,  # IN
    const int[:, ::1] slots,  # IN
    Py_ssize_t start,  # IN
    Py_ssize_t stop,  # IN
    double *loss,  # IN/OUT
) noexcept nogil:
    """Add the losses of some rows."""
    cdef Py_ssize_t row, i, j
    cdef int slot
    cdef double a, b
    for row in range(start, stop):
        for i in range(indptr[row], indptr[row + 1]):
            for j in range(indptr[row], i):
                slot = slots[components[i], components[j]]
                if slot < 0:
                    continue
                a, b = resp[i], resp[j]
                if a > 0 and b > 0:
                    loss[slot] += weight[row] * (
                        (a + b) * log(a + b) - a * log(a) - b * log(b)
                    )
