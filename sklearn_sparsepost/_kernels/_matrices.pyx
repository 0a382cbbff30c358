"""Matrices of many components: what an update of Gaussians and the bounds on their weights need.

* `scatter`, `fill_squares`: weighted sums of x x^T, packed, and as square matrices;
* `invert_factors`: triangular factors of inverses;
* `turn_factors`: triangular factors of precisions in other coordinates;
* `traces`: of packed matrices times these precisions.

Small matrices are worked on some at a time, as `_matrices.h` tells; large ones, which do not stay
in cache together, one by one by LAPACK.
"""
from libc.math cimport sqrt
from libc.stddef cimport size_t
from libc.string cimport memcpy, memset
from scipy.linalg.cython_blas cimport dtrmm
from scipy.linalg.cython_lapack cimport dgeqlf, dpotrf, dtrtri

from sklearn_sparsepost._kernels._prefetch cimport fetch_row
from sklearn_sparsepost._kernels._types cimport floating

import numpy as np


cdef extern from "_matrices.h" nogil:
    int matrices_together()
    int matrix_step()
    ctypedef struct lanes:  # `matrices_together()` numbers
        pass
    int cholesky(lanes *matrix, int size)
    void invert_triangle(lanes *matrix, int size)
    void multiply_triangles(const lanes *left, lanes *right, int size)
    void gram_less_one(const lanes *matrix, int size, lanes *out)
    lanes norm_of_square(const lanes *matrix, int size)
    void multiply_left(const double *left, const lanes *matrix, int size, lanes *out)
    void triangulate(lanes *matrix, int size, lanes *axes)
    double trace_of_product(const double *packed, const double *factor, int size, int pitch)

cdef extern from "_sums.h" nogil:
    int PITCH
    void add_products_f(const float *rows, int n, int pitch, float *out)
    void add_products_d(const double *rows, int n, int pitch, double *out)

cdef enum:
    LANES = 8  # numbers of a line of cache
    LINE = 64  # bytes of a line of cache
    BLOCKS = 4  # of rows whose products are summed in single precision
    AHEAD = 16  # rows, which lie anywhere, that are asked for before their turn
    MOST_TOGETHER = 128  # features of matrices that are worked on together
    WORK = 64  # of LAPACK's columns at a time


# A share below this part of a component's largest is not seen in sums in single precision. Its
# products may be subnormal numbers, each of which costs some processors a hundred others.
cdef double NOUGHT = 5e-20


cdef inline double *_aligned(double *memory) noexcept nogil:
    """The first number on a line of cache, of memory that has a line to spare."""
    return <double *>((<size_t>memory + LINE - 1) // LINE * LINE)


cdef inline int _rounded(int n, int step) noexcept nogil:
    return (n + step - 1) // step * step


# ---------------------------------------------------------------- sums

cdef inline int _side(Py_ssize_t n_packed) noexcept nogil:
    """How many rows a matrix has whose upper triangle has so many numbers."""
    return <int>((sqrt(8.0 * n_packed + 1) - 1) / 2 + 0.5)


def fill_squares(
    const double[:, ::1] packed,  # IN
    double[:, :, ::1] out,  # OUT
):
    """Symmetric matrices of their upper triangles, row after row.

    Parameters
    ----------
    packed : ndarray of shape (K, D (D + 1) / 2)
        The triangles.
    out : ndarray of shape (K, D, D)
        Overwritten by the matrices.
    """
    cdef int K = <int>out.shape[0], D = <int>out.shape[1], i, j, k, begin
    cdef const double *row
    with nogil:
        for k in range(K):
            row = &packed[k, 0]
            for i in range(D):
                for j in range(i, D):
                    out[k, i, j] = row[j - i]
                row += D - i
            begin = 0
            while begin < D:  # a line of each lower row at a time
                for i in range(begin + 1, D):
                    for j in range(begin, min(begin + LANES, i)):
                        out[k, i, j] = out[k, j, i]
                begin += LANES


def scatter(
    const floating[:, ::1] rows,  # IN
    const int[::1] ptr,  # IN
    const int[::1] which,  # IN
    const double[::1] share,  # IN
    double[:, ::1] second,  # OUT
    double[:, ::1] first,  # OUT
    bint single=False,  # IN
    int block=64,  # IN
):
    """Weighted sums of x and x x^T of each component's rows x.

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
    second : ndarray of shape (K, D (D + 1) / 2)
        Overwritten by the upper triangles of the sums of x x^T, row after row.
    first : ndarray of shape (K, D) or (0, D)
        Overwritten by the sums of x, if they are wanted.
    single : bool, default=False
        Whether the products of a few blocks' rows may be summed in the rows' precision: about their
        mean if `first` is wanted, and of components of no fewer than D rows. All else is in double.
    block : int, default=64
        Rows that are copied together.
    """
    cdef int K = <int>ptr.shape[0] - 1, D = _side(second.shape[1]), j, k, begin, n, step
    cdef Py_ssize_t pitch = _rounded(D, PITCH)
    cdef bint wants_first = first.shape[0] > 0, in_single
    cdef double least
    cdef double[::1] memory = np.zeros((block + pitch) * pitch + D + LINE)
    cdef float[::1] memory_of_singles = np.zeros((block + pitch + 1) * pitch + LINE, np.float32)
    cdef double *scaled = _aligned(&memory[0])
    cdef double *total = scaled + block * pitch
    cdef double *own = total + pitch * pitch
    cdef float *singles = <float *>_aligned(<double *>&memory_of_singles[0])
    with nogil:
        for k in range(K):
            in_single = floating is float and single and ptr[k + 1] - ptr[k] >= D
            step = block * BLOCKS if in_single else block
            least = 0  # shares up to this are not seen
            if in_single:
                for begin in range(ptr[k], ptr[k + 1]):
                    least = max(least, share[begin])
                least *= NOUGHT
            if ptr[k] == ptr[k + 1]:
                memset(&second[k, 0], 0, second.shape[1] * sizeof(double))
            if wants_first:
                memset(&first[k, 0], 0, D * sizeof(double))
            if not in_single and ptr[k] < ptr[k + 1]:
                memset(total, 0, pitch * pitch * sizeof(double))
            begin = ptr[k] - step
            while begin + step < ptr[k + 1]:
                begin += step
                n = min(step, ptr[k + 1] - begin)
                if in_single:
                    _add_in_single(
                        rows, which, share, ptr[k], begin, n, ptr[K], D, pitch, block, wants_first,
                        least, singles, own, &second[k, 0],
                    )
                else:
                    _add_in_double(
                        rows, which, share, begin, n, ptr[K], D, pitch, wants_first, scaled, own,
                        total,
                    )
                if wants_first:
                    for j in range(D):
                        first[k, j] += own[j]
            if not in_single and ptr[k] < ptr[k + 1]:
                _put_upper(total, D, pitch, &second[k, 0], False)


cdef inline void _put_upper(
    const floating *square, int D, Py_ssize_t pitch, double *packed, bint added
) noexcept nogil:
    """Write a square matrix's upper triangle to one that is packed, or add it there."""
    cdef int i, j
    for i in range(D):
        if added:
            for j in range(i, D):
                packed[j - i] += square[i * pitch + j]
        else:
            for j in range(i, D):
                packed[j - i] = square[i * pitch + j]
        packed += D - i


cdef inline const floating *_row(
    const floating[:, ::1] rows, const int[::1] which, int at, int end, int D
) noexcept nogil:
    """A row, after asking for one that is wanted later."""
    if at + AHEAD < end:
        fetch_row(&rows[which[at + AHEAD], 0], D * sizeof(floating))
    return &rows[which[at], 0]


cdef inline void _add_in_double(
    const floating[:, ::1] rows, const int[::1] which, const double[::1] share, int begin, int n,
    int end, int D, Py_ssize_t pitch, bint wants_first, double *scaled, double *own, double *total
) noexcept nogil:
    """Add n rows' products to `total`; write their sum to `own`, if it is wanted."""
    cdef int i, j
    cdef double root
    cdef const floating *row
    if wants_first:
        memset(own, 0, D * sizeof(double))
    for i in range(n):
        row = _row(rows, which, begin + i, end, D)
        root = sqrt(share[begin + i])
        for j in range(D):
            scaled[i * pitch + j] = root * row[j]
        if wants_first:
            for j in range(D):
                own[j] += share[begin + i] * row[j]
    add_products_d(scaled, n, <int>pitch, total)


cdef inline void _add_in_single(
    const floating[:, ::1] rows, const int[::1] which, const double[::1] share, int start,
    int begin, int n, int end, int D, Py_ssize_t pitch, int block, bint wants_first, double unseen,
    float *sums, double *own, double *packed
) noexcept nogil:
    """The same, but for the sum of products, which is of differences from a centre if there is one.

    The first rows of a component, from `start`, overwrite what is in `packed`. Rows that count no
    more than `unseen` are left out of products.

    sum w x x^T is that of x - c, and s c^T + c s^T - W c c^T with the sums s of w x and W of w.
    """
    cdef int i, j, first, at, held
    cdef double mass = 0, one
    cdef float root
    cdef const floating *row
    cdef float *centre = sums + pitch * pitch
    cdef float *scaled = centre + pitch
    memset(sums, 0, pitch * pitch * sizeof(float))
    if wants_first:
        memset(own, 0, D * sizeof(double))
        for i in range(n):
            row = _row(rows, which, begin + i, end, D)
            mass += share[begin + i]
            for j in range(D):
                own[j] += share[begin + i] * row[j]
        for j in range(D):
            centre[j] = <float>(own[j] / mass) if mass > 0 else 0
    first = -block
    while first + block < n:
        first += block
        held = 0
        for i in range(min(block, n - first)):
            at = begin + first + i
            row = &rows[which[at], 0] if wants_first else _row(rows, which, at, end, D)
            if share[at] <= unseen:
                continue
            root = <float>sqrt(share[at])
            for j in range(D):
                scaled[held * pitch + j] = root * (
                    (row[j] - centre[j]) if wants_first else row[j])
            held += 1
        add_products_f(scaled, held, <int>pitch, sums)
    _put_upper(sums, D, pitch, packed, begin > start)
    if wants_first:
        for i in range(D):
            one = own[i] - mass * centre[i]
            for j in range(i, D):
                packed[j - i] += one * centre[j] + own[j] * centre[i]
            packed += D - i


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


def most_growth(
    const floating[:, :, ::1] old,  # IN
    const floating[:, :, ::1] new,  # IN
    double[::1] out,  # OUT
):
    """By how much lengths |P^T x| may be larger than under other factors, at most.

    The greatest eigenvalue of G = P_old^T (P_new P_new^T)^-1 P_old is bounded by 1 plus the fourth
    root of the trace of (G - 1)^4.

    Parameters
    ----------
    old, new : ndarray of shape (K, D, D or more)
        Upper triangular factors P, with D at most `MOST_TOGETHER`.
    out : ndarray of shape (K,)
        Overwritten by bounds on |P_old^T x| / |P_new^T x|, which are 1 or more.
    """
    cdef int K = <int>old.shape[0], D = <int>old.shape[1], width = matrices_together()
    cdef int size = _rounded(D, matrix_step()), k, n, i, j, lane, at
    cdef double[::1] memory = np.zeros(2 * size * size * width + width + LINE)
    cdef double *product = _aligned(&memory[0])
    cdef double *inverse = product + size * size * width
    cdef double *norm = inverse + size * size * width
    with nogil:
        k = 0
        while k < K:
            n = min(width, K - k)
            for i in range(size):
                for lane in range(width):
                    at = k + min(lane, n - 1)
                    for j in range(i):
                        product[(i * size + j) * width + lane] = 0
                    for j in range(i, size):
                        if j < D:
                            product[(i * size + j) * width + lane] = old[at, i, j]
                            inverse[(i * size + j) * width + lane] = new[at, i, j]
                        else:
                            product[(i * size + j) * width + lane] = i == j
                            inverse[(i * size + j) * width + lane] = i == j
            invert_triangle(<lanes *>inverse, size)
            multiply_triangles(<lanes *>inverse, <lanes *>product, size)
            gram_less_one(<lanes *>product, size, <lanes *>inverse)
            (<lanes *>norm)[0] = norm_of_square(<lanes *>inverse, size)
            for lane in range(n):
                out[k + lane] = sqrt(1 + sqrt(sqrt(norm[lane])))
            k += n


def traces(
    const double[:, ::1] packed,  # IN
    const double[:, :, ::1] factors,  # IN
    double[::1] out,  # OUT
):
    """The traces of M P P^T.

    Parameters
    ----------
    packed : ndarray of shape (K, D (D + 1) / 2) or (1, D (D + 1) / 2)
        The upper triangles of symmetric M, row after row; one is that of all.
    factors : ndarray of shape (K, D, D)
        Upper triangular P.
    out : ndarray of shape (K,)
        Overwritten.
    """
    cdef int K = <int>factors.shape[0], D = <int>factors.shape[1], k, i
    cdef int pitch = _rounded(D, 2 * matrices_together())
    cdef double[::1] memory = np.zeros(D * pitch + LINE)
    cdef double *factor = _aligned(&memory[0])
    with nogil:
        for k in range(K):
            for i in range(D):
                memcpy(factor + i * pitch + i, &factors[k, i, i], (D - i) * sizeof(double))
            out[k] = trace_of_product(
                &packed[k if packed.shape[0] > 1 else 0, 0], factor, D, pitch
            )


def turn_factors(
    const double[:, ::1] turn,  # IN
    const double[:, :, ::1] factors,  # IN
    double[:, :, ::1] out,  # OUT
):
    """Upper triangular U with U U^T = T F F^T T^T, by reflections from the last row to the first.

    Parameters
    ----------
    turn : ndarray of shape (D, D)
        T.
    factors : ndarray of shape (K, D, D)
        Upper triangular F.
    out : ndarray of shape (K, D, D)
        Overwritten by U, whose diagonals are not negative.
    """
    cdef int K = <int>factors.shape[0], D = <int>turn.shape[0], width = matrices_together()
    cdef int k, n, i, j, lane, info = 0, room = WORK * D
    cdef Py_ssize_t size = _rounded(D, matrix_step()), at
    cdef bint together = D <= MOST_TOGETHER
    cdef double one = 1, value
    cdef char *lower = "L"
    cdef char *plain = "N"
    if not together:
        width, size = 1, D
    cdef double[:, ::1] left = np.zeros((size, size))
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
        while k < K:
            n = min(width, K - k)
            for i in range(D):
                for lane in range(width):
                    at = k + min(lane, n - 1)
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
            for lane in range(n):
                for i in range(D):
                    for j in range(i):
                        out[k + lane, i, j] = 0
                    for j in range(i, D):
                        value = product[(i * size + j) * width + lane]
                        # The column's sign is that of its diagonal, which is above.
                        at = (j * size + j) * width + lane
                        out[k + lane, i, j] = -value if product[at] < 0 else value
            k += n
