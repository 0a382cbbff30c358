"""Matrices of many components: what an update of Gaussians and the bounds on their weights need.

* `scatter`: weighted sums of x x^T;
* `invert_factors`: triangular factors of inverses;
* `turn_factors`: triangular factors of precisions in other coordinates.

Small matrices are worked on some at a time, as `_matrices.h` tells; large ones, which do not stay
in cache together, one by one by LAPACK.
"""
from libc.math cimport fabs, sqrt
from libc.stddef cimport size_t
from libc.string cimport memset
from scipy.linalg.cython_blas cimport dtrmm
from scipy.linalg.cython_lapack cimport dgeqlf, dpotrf, dtrtri

from sklearn_sparsepost._kernels._prefetch cimport fetch_row
from sklearn_sparsepost._kernels._types cimport floating

import numpy as np


cdef extern from "_matrices.h" nogil:
    int matrices_together()
    int matrix_step()
    void add_products(const double *rows, int n, int pitch, double *out)
    ctypedef struct lanes:  # `matrices_together()` numbers
        pass
    int cholesky(lanes *matrix, int size)
    void invert_triangle(lanes *matrix, int size)
    void multiply_left(const double *left, const lanes *matrix, int size, lanes *out)
    void triangulate(lanes *matrix, int size, lanes *axes)

cdef enum:
    LANES = 8  # what columns come in multiples of, the STEP of `_squares.h`
    LINE = 64  # bytes of a line of cache
    AHEAD = 8  # rows, which lie anywhere, that are asked for before their turn
    MOST_TOGETHER = 128  # features of matrices that are worked on together
    WORK = 64  # of LAPACK's columns at a time


cdef inline double *_aligned(double *memory) noexcept nogil:
    """The first number on a line of cache, of memory that has a line to spare."""
    return <double *>((<size_t>memory + LINE - 1) // LINE * LINE)


cdef inline int _rounded(int n, int step) noexcept nogil:
    return (n + step - 1) // step * step


# ---------------------------------------------------------------- sums

cdef inline void _mirror(const double *upper, int D, Py_ssize_t pitch, double *out) noexcept nogil:
    """A symmetric matrix of its upper triangle; a line of each lower row at a time."""
    cdef int i, j, begin = 0
    for i in range(D):
        for j in range(i, D):
            out[i * D + j] = upper[i * pitch + j]
    while begin < D:
        for i in range(begin + 1, D):
            for j in range(begin, min(begin + LANES, i)):
                out[i * D + j] = upper[j * pitch + i]
        begin += LANES


def scatter(
    const floating[:, ::1] rows,  # IN
    const int[::1] ptr,  # IN
    const int[::1] which,  # IN
    const double[::1] share,  # IN
    double[:, :, ::1] second,  # OUT
    double[:, ::1] first,  # OUT
    int block=64,  # IN
):
    """Weighted sums of x and x x^T of each component's rows x, in double precision.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)
        The data, of which the first D features are looked at.
    ptr : ndarray of shape (K + 1,), int32
        The rows of component k are ``which[ptr[k]:ptr[k + 1]]``.
    which : ndarray of shape (n_pairs,), int32
        Row numbers.
    share : ndarray of shape (n_pairs,)
        What each row counts in the component, not negative.
    second : ndarray of shape (K, D, D)
        Overwritten by the sums of x x^T.
    first : ndarray of shape (K, D) or (0, D)
        Overwritten by the sums of x, if they are wanted.
    block : int, default=64
        Rows that are copied together.
    """
    cdef int K = <int>ptr.shape[0] - 1, D = <int>second.shape[1], i, j, k, begin, n
    cdef Py_ssize_t pitch = _rounded(D, LANES)
    cdef double root
    cdef bint wants_first = first.shape[0] > 0
    cdef const floating *row
    cdef double[::1] memory = np.zeros((block + pitch) * pitch + LINE)
    cdef double *scaled = _aligned(&memory[0])
    cdef double *total = scaled + block * pitch
    with nogil:
        for k in range(K):
            memset(total, 0, pitch * pitch * sizeof(double))
            if wants_first:
                memset(&first[k, 0], 0, D * sizeof(double))
            begin = ptr[k] - block
            while begin + block < ptr[k + 1]:
                begin += block
                n = min(block, ptr[k + 1] - begin)
                for i in range(n):
                    if begin + i + AHEAD < ptr[K]:
                        fetch_row(&rows[which[begin + i + AHEAD], 0], D * sizeof(floating))
                    root = sqrt(share[begin + i])
                    row = &rows[which[begin + i], 0]
                    for j in range(D):
                        scaled[i * pitch + j] = root * row[j]
                    if wants_first:
                        for j in range(D):
                            first[k, j] += share[begin + i] * row[j]
                add_products(scaled, n, <int>pitch, total)
            _mirror(total, D, pitch, &second[k, 0, 0])


# ---------------------------------------------------------------- factors

def invert_factors(
    double[:, :, ::1] matrix,  # IN/OUT
):
    """Replace positive definite matrices by the P with P P^T = matrix^-1.

    Parameters
    ----------
    matrix : ndarray of shape (K, D, D)
        Overwritten by upper triangular matrices.

    Returns
    -------
    positive : bool
        Whether all were positive definite; if not, what is left means nothing.
    """
    cdef int K = <int>matrix.shape[0], D = <int>matrix.shape[1], width = matrices_together()
    cdef int size = _rounded(D, matrix_step()), k, n, i, j, lane, at, info = 0
    # The lower half in LAPACK's order, the upper one in ours.
    cdef char *lower = "L"
    cdef char *not_unit = "N"
    cdef bint together = D <= MOST_TOGETHER
    cdef double[::1] memory = np.empty(size * size * width + LINE if together else LINE)
    cdef double *held = _aligned(&memory[0])
    with nogil:
        k = 0
        while k < K and not together:
            dpotrf(lower, &D, &matrix[k, 0, 0], &D, &info)
            if info == 0:
                dtrtri(lower, not_unit, &D, &matrix[k, 0, 0], &D, &info)
            if info != 0:
                break
            for i in range(D):
                for j in range(i):
                    matrix[k, i, j] = 0
            k += 1
        while k < K and together:
            n = min(width, K - k)
            for i in range(size):
                for lane in range(width):
                    at = k + min(lane, n - 1)  # a lane too many is a matrix again
                    for j in range(i, D):
                        held[(i * size + j) * width + lane] = matrix[at, i, j]
                    for j in range(max(i, D), size):
                        held[(i * size + j) * width + lane] = i == j
            if not cholesky(<lanes *>held, size):
                info = 1
                break
            invert_triangle(<lanes *>held, size)
            for i in range(D):
                for lane in range(n):
                    for j in range(D):
                        matrix[k + lane, i, j] = held[(i * size + j) * width + lane]
            k += n
    return info == 0


def turn_factors(
    const double[:, ::1] turn,  # IN
    const floating[:, :, ::1] factors,  # IN
    const int[::1] which,  # IN
    const double[:, ::1] means,  # IN
    const double[::1] spread,  # IN
    float[:, :, ::1] out,  # OUT
    double[:, ::1] offset,  # OUT
    double[:, ::1] diagonal,  # OUT
    double[:, ::1] length,  # OUT
):
    """Upper triangular U with U U^T = T F F^T T^T, by reflections from the last row to the first.

    Parameters
    ----------
    turn : ndarray of shape (D, D)
        T.
    factors : ndarray of shape (n, D, W)
        Upper triangular F of all components, of which the first D columns are looked at.
    which : ndarray of shape (m,), int32
        The components that are wanted.
    means : ndarray of shape (m, D) or (0, D)
        Means of these in the other coordinates, if there are any.
    spread : ndarray of shape (D,)
        What rows of U are multiplied by for the second `length`.
    out : ndarray of shape (m, D, W2), float32
        Overwritten by U, and zeros in more columns.
    offset : ndarray of shape (m, D)
        Overwritten by the means times U, or zeros.
    diagonal : ndarray of shape (m, D)
        Overwritten by the absolute diagonal of U.
    length : ndarray of shape (m, 2)
        Overwritten by the lengths of the longest columns of U, and of U times `spread`.
    """
    cdef int m = <int>which.shape[0], D = <int>turn.shape[0], width = matrices_together()
    cdef int k, n, i, j, lane, info = 0, room = WORK * D, n_out = <int>out.shape[2]
    cdef Py_ssize_t size = _rounded(D, matrix_step()), at
    cdef bint together = D <= MOST_TOGETHER, has_means = means.shape[0] > 0
    cdef double one = 1
    cdef char *lower = "L"
    cdef char *plain = "N"
    if not together:
        width, size = 1, D
    cdef double[:, ::1] left = np.zeros((size, size))
    cdef double[:, :, ::1] squares = np.empty((width, 2, D))
    cdef int n_axes = matrix_step()
    cdef double[::1] memory = np.zeros((2 * size + n_axes) * size * width + LINE)
    cdef double[::1] work = np.empty(room), scalars = np.empty(D)
    cdef double *held = _aligned(&memory[0])
    cdef double *product = held + size * size * width
    cdef double *axes = product + size * size * width
    with nogil:
        for i in range(D):
            for j in range(D):
                left[i, j] = turn[i, j]
        k = 0
        while k < m:
            n = min(width, m - k)
            for i in range(D):
                for lane in range(width):
                    at = which[k + min(lane, n - 1)]
                    for j in range(i, D):
                        held[(i * size + j) * width + lane] = factors[at, i, j]
            if together:
                multiply_left(&left[0, 0], <lanes *>held, <int>size, <lanes *>product)
                triangulate(<lanes *>product, <int>size, <lanes *>axes)
            else:
                # What is transposed in LAPACK's order: F^T T^T = Q U^T.
                for i in range(D):
                    for j in range(D):
                        product[i * D + j] = left[i, j]
                dtrmm(lower, lower, plain, plain, &D, &D, &one, held, &D, product, &D)
                dgeqlf(&D, &D, product, &D, &scalars[0], &work[0], &room, &info)
            for i in range(D):
                for lane in range(n):
                    _write_row(
                        product + i * size * width + lane, width, i, D, spread[i],
                        means[k + lane, i] if has_means else 0, &out[k + lane, i, 0], n_out,
                        &offset[k + lane, 0], &squares[lane, 0, 0], &squares[lane, 1, 0],
                    )
                    diagonal[k + lane, i] = fabs(product[(i * size + i) * width + lane])
            for lane in range(n):
                for i in range(2):
                    length[k + lane, i] = 0
                    for j in range(D):
                        length[k + lane, i] = max(length[k + lane, i], sqrt(squares[lane, i, j]))
            k += n


cdef inline void _write_row(
    const double *row, int step, int i, int D, double spread, double mean, float *out, int n_out,
    double *offset, double *square, double *wide
) noexcept nogil:
    """Row i of an upper triangular factor, whose numbers lie `step` apart, and sums over rows."""
    cdef int j
    cdef double value
    for j in range(n_out):
        out[j] = 0
    if i == 0:
        for j in range(D):
            offset[j] = square[j] = wide[j] = 0
    for j in range(i, D):
        value = row[j * step]
        out[j] = <float>value
        offset[j] += mean * value
        square[j] += value * value
        wide[j] += value * value * spread * spread
