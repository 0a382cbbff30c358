"""What merges of components cost in what does not follow from adding, and how these overlap.

* `entropy_losses`, `list_entropy_losses`: entropy of sparse responsibilities, CSR or in lists;
* `mass_losses`: what only the components' masses in groups have a share in;
* `overlaps`: products of masses that most groups have none of.
"""
from cython.parallel cimport prange
from libc.math cimport log

from sklearn_sparsepost._kernels._math cimport digamma, gammaln
from sklearn_sparsepost._kernels._types cimport floating

import numpy as np

# Rows are cut into this many blocks, whatever the threads, so that sums have the same bits.
cdef enum:
    BLOCKS = 32
    TABLES = 4  # blocks where each has a table of all pairs of components


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
    for row in range(start, stop):
        for i in range(indptr[row], indptr[row + 1]):
            for j in range(indptr[row], i):
                slot = slots[components[i], components[j]]
                if slot >= 0:
                    loss[slot] += weight[row] * _entropy_loss(resp[i], resp[j])


cdef inline double _entropy_loss(double a, double b) noexcept nogil:
    """h(a + b) - h(a) - h(b), h(x) = x log x."""
    if a > 0 and b > 0:
        return (a + b) * log(a + b) - a * log(a) - b * log(b)
    return 0


def list_entropy_losses(
    const int[:, ::1] components,  # IN
    const floating[:, ::1] amount,  # IN
    const floating[::1] weight,  # IN
    const int[:, ::1] slots,  # IN
    int n_pairs,  # IN
    int n_threads=1,  # IN
):
    """The sums of `entropy_losses`, of responsibilities in lists.

    Parameters
    ----------
    components : ndarray of shape (n_rows, L), int32
        The components of each row; a list that is shorter ends with -1.
    amount : ndarray of shape (n_rows, L)
        Their responsibilities times the weight of the row.
    weight : ndarray of shape (n_rows,)
        Weights of the rows.
    slots, n_pairs, n_threads
        As for `entropy_losses`.

    Returns
    -------
    loss : ndarray of shape (n_pairs,)
        The sums.
    """
    cdef Py_ssize_t n_rows = components.shape[0], block
    parts_array = np.zeros((BLOCKS, max(n_pairs, 1)))
    cdef double[:, ::1] parts = parts_array
    if n_rows:
        with nogil:
            for block in prange(BLOCKS, schedule="static", num_threads=n_threads):
                _losses_of_lists[floating](
                    components, amount, &weight[0], slots,
                    block * n_rows // BLOCKS, (block + 1) * n_rows // BLOCKS, &parts[block, 0],
                )
    return parts_array.sum(axis=0)[:n_pairs]


cdef void _losses_of_lists(
    const int[:, ::1] components,  # IN
    const floating[:, ::1] amount,  # IN
    const floating *weight,  # IN
    const int[:, ::1] slots,  # IN
    Py_ssize_t start,  # IN
    Py_ssize_t stop,  # IN
    double *loss,  # IN/OUT
) noexcept nogil:
    """Add the losses of some lists."""
    cdef Py_ssize_t row
    cdef int i, j, slot, L = <int>components.shape[1]
    for row in range(start, stop):
        for i in range(L):
            if components[row, i] < 0:
                break
            for j in range(i):
                slot = slots[components[row, i], components[row, j]]
                if slot >= 0:
                    loss[slot] += weight[row] * _entropy_loss(
                        amount[row, i] / weight[row], amount[row, j] / weight[row])


def mass_losses(
    const floating[:, ::1] mass,  # IN
    const double[::1] alpha,  # IN
    const Py_ssize_t[:, ::1] pairs,  # IN
    int n_threads=1,  # IN
):
    """What groups lose by merges in terms of their Dirichlet parameters.

    Parameters
    ----------
    mass : ndarray of shape (n_groups, n_components)
        Expected counts of each group.
    alpha : ndarray of shape (n_components,), float64
        The prior's parameters.
    pairs : ndarray of shape (n_pairs, 2), intp
        The merges.
    n_threads : int, default=1
        Threads to use.

    Returns
    -------
    loss : ndarray of shape (2, n_pairs)
        With r(a, x) = log Gamma(a + x) - log Gamma(a), and then of psi instead of log Gamma: sums
        over groups of r(alpha_1, x_1) + r(alpha_2, x_2) - r(alpha_1 + alpha_2, x_1 + x_2).
    """
    cdef Py_ssize_t n_groups = mass.shape[0], n_pairs = pairs.shape[0], block, s
    cdef double a, b
    parts_array = np.zeros((BLOCKS, 2, max(n_pairs, 1)))
    own_array = np.zeros((2, max(n_pairs, 1)))
    cdef double[:, :, ::1] parts = parts_array
    cdef double[:, ::1] own = own_array
    for s in range(n_pairs):
        a, b = alpha[pairs[s, 0]], alpha[pairs[s, 1]]
        own[0, s] = gammaln(a) + gammaln(b) - gammaln(a + b)
        own[1, s] = digamma(a) + digamma(b) - digamma(a + b)
    with nogil:
        for block in prange(BLOCKS, schedule="static", num_threads=n_threads):
            _losses_of_groups[floating](
                mass, alpha, pairs, own,
                block * n_groups // BLOCKS, (block + 1) * n_groups // BLOCKS, parts[block],
            )
    return parts_array.sum(axis=0)[:, :n_pairs]


cdef void _losses_of_groups(
    const floating[:, ::1] mass,  # IN
    const double[::1] alpha,  # IN
    const Py_ssize_t[:, ::1] pairs,  # IN
    const double[:, ::1] own,  # IN
    Py_ssize_t start,  # IN
    Py_ssize_t stop,  # IN
    double[:, ::1] loss,  # IN/OUT
) noexcept nogil:
    """Add the losses of some groups; one that holds none of a pair loses nothing."""
    cdef Py_ssize_t d, s, i, j
    cdef double a, b
    for d in range(start, stop):
        for s in range(pairs.shape[0]):
            i, j = pairs[s, 0], pairs[s, 1]
            if mass[d, i] > 0 or mass[d, j] > 0:
                a, b = alpha[i] + mass[d, i], alpha[j] + mass[d, j]
                loss[0, s] += gammaln(a) + gammaln(b) - gammaln(a + b) - own[0, s]
                loss[1, s] += digamma(a) + digamma(b) - digamma(a + b) - own[1, s]


def overlaps(
    const floating[:, ::1] mass,  # IN
    int n_threads=1,  # IN
):
    """Sum over groups the products of the masses of each two components.

    Parameters
    ----------
    mass : ndarray of shape (n_groups, n_components)
        Non-negative; zeros cost nothing but a look.
    n_threads : int, default=1
        Threads to use.

    Returns
    -------
    overlap : ndarray of shape (n_components, n_components), float64
        ``mass.T @ mass``, in double.
    """
    cdef Py_ssize_t n_groups = mass.shape[0], K = mass.shape[1], block, i, j
    cdef double value
    parts_array = np.zeros((TABLES, K, K))
    held_array = np.empty((TABLES, K), dtype=np.intp)
    cdef double[:, :, ::1] parts = parts_array
    cdef Py_ssize_t[:, ::1] held = held_array
    for block in prange(TABLES, nogil=True, schedule="static", num_threads=n_threads):
        _overlaps_of_groups[floating](
            mass, block * n_groups // TABLES, (block + 1) * n_groups // TABLES, held[block],
            parts[block],
        )
    overlap_array = np.empty((K, K))
    cdef double[:, ::1] overlap = overlap_array
    for i in prange(K, nogil=True, schedule="static", num_threads=n_threads):
        for j in range(i + 1):
            value = 0
            for block in range(TABLES):
                value = value + parts[block, i, j]
            overlap[i, j] = value
            overlap[j, i] = value
    return overlap_array


cdef void _overlaps_of_groups(
    const floating[:, ::1] mass,  # IN
    Py_ssize_t start,  # IN
    Py_ssize_t stop,  # IN
    Py_ssize_t[::1] held,  # OUT
    double[:, ::1] overlap,  # IN/OUT
) noexcept nogil:
    """Add the products of some groups, those of a component and the ones before it."""
    cdef Py_ssize_t d, k, i, j, n
    cdef double own
    for d in range(start, stop):
        n = 0
        for k in range(mass.shape[1]):
            if mass[d, k] > 0:
                held[n] = k
                n += 1
        for i in range(n):
            own = mass[d, held[i]]
            for j in range(i + 1):
                overlap[held[i], held[j]] += own * mass[d, held[j]]
