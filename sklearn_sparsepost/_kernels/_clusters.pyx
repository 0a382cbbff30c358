"""Hard clusters of rows: centres far from each other, the nearest of them, and sums.

* `nearest_centres`: in single precision, and again in double where that leaves doubt;
* `draw_far_rows`: rows to begin with, by k-means++;
* `label_sums`: sums and squares of the rows of each cluster.
"""
from sklearn_sparsepost._kernels._types cimport floating

import numpy as np

cdef extern from "_products.h" nogil:
    int panel_width_f()
    void row_products_f(
        const float *rows, int n, int n_features, const float *panel, int n_columns, float *out,
        int pitch,
    )

cdef enum:
    TILE = 512  # rows whose squares stay in cache
    COMPARED = 480  # rows whose products with all centres do: some panels of any width

# Below it squares in single precision lose digits, and sums of many of them.
cdef float LEAST_SQUARE = 1e-30


def nearest_centres(
    const float[:, ::1] single,  # IN
    const float[::1] square,  # IN
    const float[:, ::1] table,  # IN
    const float[::1] constant,  # IN
    const floating[:, ::1] rows,  # IN
    const double[:, ::1] centres,  # IN
    float doubt,  # IN
    Py_ssize_t[::1] labels,  # OUT
):
    """The nearest centre of each row, or one within a thousandth of the least squared distance.

    Parameters
    ----------
    single : ndarray of shape (n_rows, D), float32
        The rows, shifted and scaled so that no square overflows.
    square : ndarray of shape (n_rows,), float32
        Their squared lengths.
    table : ndarray of shape (K, D), float32
        The centres, shifted and scaled likewise, times -2.
    constant : ndarray of shape (K,), float32
        Their squared lengths.
    rows : ndarray of shape (n_rows, D)
        The rows as they are.
    centres : ndarray of shape (K, D)
        The centres as they are.
    doubt : float
        Squared distances below this part of a row's square are compared again, in double.
    labels : ndarray of shape (n_rows,), intp
        Overwritten; the first of equals.
    """
    cdef int n = <int>single.shape[0], D = <int>single.shape[1], K = <int>table.shape[0]
    cdef int first, i, d, begin, held, count, width = panel_width_f()
    cdef float room
    cdef float[:, ::1] product = np.empty((K, COMPARED), np.float32)
    cdef float[:, ::1] panel = np.zeros((D + 1, width), np.float32)  # nothing is added to products
    cdef float[::1] least = np.empty(COMPARED, np.float32)
    cdef int[::1] which = np.empty(COMPARED, np.int32)
    with nogil:
        first = -COMPARED
        while first + COMPARED < n:
            first += COMPARED
            count = min(COMPARED, n - first)
            begin = -width
            while begin + width < count:  # rows are the columns, so that centres share their loads
                begin += width
                held = min(width, count - begin)
                for i in range(held):
                    for d in range(D):
                        panel[d, i] = single[first + begin + i, d]
                row_products_f(
                    &table[0, 0], K, D, &panel[0, 0], held, &product[0, begin], COMPARED
                )
            _least_of_columns(&product[0, 0], &constant[0], count, K, &least[0], &which[0])
            for i in range(count):
                room = doubt * square[first + i] + LEAST_SQUARE
                if least[i] + square[first + i] > room:
                    labels[first + i] = which[i]
                else:
                    labels[first + i] = _nearest_of_few(
                        &rows[first + i, 0], &centres[0, 0], D, K, &product[0, i],
                        &constant[0], least[i] + room,
                    )


cdef void _least_of_columns(
    float *product, const float *constant, int count, int K, float *least, int *which
) noexcept nogil:
    """The least of each column of a tile, plus constants, and where it is; the sums are kept."""
    cdef int i, k
    cdef float *row = product
    cdef float value
    for i in range(count):
        row[i] += constant[0]
        least[i] = row[i]
        which[i] = 0
    for k in range(1, K):
        row = product + <Py_ssize_t>k * COMPARED
        for i in range(count):
            value = row[i] + constant[k]
            row[i] = value
            which[i] = k if value < least[i] else which[i]
            least[i] = value if value < least[i] else least[i]


cdef int _nearest_of_few(
    const floating *row, const double *centres, int D, int K, const float *value,
    const float *constant, float most
) noexcept nogil:
    """The nearest, by squares of differences in double, of the centres up to a value."""
    cdef int k, d, found = -1
    cdef double least = 0, distance, gap
    for k in range(K):
        if value[<Py_ssize_t>k * COMPARED] > most:
            continue
        distance = 0
        for d in range(D):
            gap = row[d] - centres[<Py_ssize_t>k * D + d]
            distance += gap * gap
        if found < 0 or distance < least:
            least = distance
            found = k
    return found


cdef inline void _add_squares(
    const float *column, Py_ssize_t step, const float *point, Py_ssize_t n, float *square
) noexcept nogil:
    """Add the squares of rows' differences from a point along four features."""
    cdef const float *second = column + step
    cdef const float *third = second + step
    cdef const float *fourth = third + step
    cdef float a, b, c, d
    cdef Py_ssize_t i
    for i in range(n):
        a, b = column[i] - point[0], second[i] - point[1]
        c, d = third[i] - point[2], fourth[i] - point[3]
        square[i] += (a * a + b * b) + (c * c + d * d)


def draw_far_rows(
    const float[:, ::1] columns,  # IN
    const double[::1] weight,  # IN
    const double[::1] uniforms,  # IN
    Py_ssize_t[::1] found,  # IN/OUT
):
    """Draw rows by weight times the squared distance to the nearest of those before: k-means++.

    Parameters
    ----------
    columns : ndarray of shape (D, n_rows), float32
        The features, shifted and scaled so that no square overflows.
    weight : ndarray of shape (n_rows,)
        What each row counts.
    uniforms : ndarray of shape (n_draws,)
        One in [0, 1) a draw.
    found : ndarray of shape (1 + n_draws,), intp
        Numbers of rows; the first is given. Where no distance is left rows come again.
    """
    cdef Py_ssize_t n_rows = columns.shape[1], D = columns.shape[0], draw, tile, first, d, i, n
    cdef Py_ssize_t n_tiles = (n_rows + TILE - 1) // TILE
    cdef float square[TILE]
    cdef float gap
    cdef double total, target
    cdef const float *column
    nearest = np.full(n_rows, np.inf, dtype=np.float32)
    cdef float[::1] distance = nearest, point = np.empty(D, dtype=np.float32)
    cdef float *least
    with nogil:
        for draw in range(uniforms.shape[0]):
            total = 0
            for d in range(D):
                point[d] = columns[d, found[draw]]
            for tile in range(n_tiles):
                first = tile * TILE
                n = min(<Py_ssize_t>TILE, n_rows - first)
                least = &distance[first]
                for i in range(n):
                    square[i] = 0
                for d in range(D // 4):
                    _add_squares(&columns[4 * d, first], n_rows, &point[4 * d], n, square)
                for d in range(D - D % 4, D):
                    column = &columns[d, first]
                    for i in range(n):
                        gap = column[i] - point[d]
                        square[i] += gap * gap
                for i in range(n):
                    least[i] = min(least[i], square[i])
                    total += weight[first + i] * least[i]
            target, total, i = uniforms[draw] * total, weight[0] * distance[0], 0
            while total <= target and i < n_rows - 1:
                i += 1
                total += weight[i] * distance[i]
            found[draw + 1] = i


def label_sums(
    const floating[:, ::1] rows,  # IN
    const Py_ssize_t[::1] labels,  # IN
    const double[::1] weight,  # IN
    const double[::1] around,  # IN
    double[:, ::1] sums,  # IN/OUT
    double[:, ::1] squares,  # IN/OUT
):
    """Add the rows of each cluster, and the squares of their last features.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, D)
        The rows.
    labels : ndarray of shape (n_rows,), intp
        The cluster of each.
    weight : ndarray of shape (n_rows,) or (0,)
        What each row counts; once, if nothing is said.
    around : ndarray of shape (D,)
        Taken from each row first.
    sums : ndarray of shape (K, D)
        Added to.
    squares : ndarray of shape (K, n_last)
        Added to: squares of the last features, of as many as it has room for.
    """
    cdef Py_ssize_t i, d, D = rows.shape[1], n_last = squares.shape[1], skipped = D - n_last, k
    cdef bint weighted = weight.shape[0] > 0
    cdef double gap, share = 1
    cdef double *sum_
    cdef double *square
    cdef const floating *row
    if rows.shape[0] == 0:
        return
    with nogil:
        for i in range(rows.shape[0]):
            k = labels[i]
            row = &rows[i, 0]
            sum_ = &sums[k, 0]
            square = &squares[k, 0] if n_last else NULL
            if weighted:
                share = weight[i]
            for d in range(skipped):
                sum_[d] += share * (row[d] - around[d])
            for d in range(skipped, D):
                gap = row[d] - around[d]
                sum_[d] += share * gap
                square[d - skipped] += share * gap * gap
