"""Log weights of components: products, squared lengths, and the L best without computing all.

The search rests on a bound. With a triangular factor of the precision the quadratic form is a sum
of squares of which the first p need the first p features only: those of the marginal distribution.
A part of the sum bounds the log weight from above, and a component whose bound lies below a row's
L-th best weight so far cannot be among its L best. The features are principal axes, largest first,
the same for all components. Bounds are in single precision, their rounding allowed for.
"""
from libc.math cimport fabs, sqrt
from scipy.linalg.cython_blas cimport dsyrk
from scipy.linalg.cython_lapack cimport dpotrf, dtrtri

from sklearn_sparsepost._kernels._topl cimport weakest
from sklearn_sparsepost._kernels._types cimport floating

import numpy as np


cdef extern from "_squares.h" nogil:
    void row_squares_f(
        const float *rows, const int *which, int n, int n_features, const float *columns,
        int pitch, int n_columns, const float *offset, int above, float *out,
    )
    void row_squares_d(
        const double *rows, const int *which, int n, int n_features, const double *columns,
        int pitch, int n_columns, const double *offset, int above, double *out,
    )
    void lane_squares(
        const float *rows, int stride, int n, int n_features, const float *columns, int pitch,
        int n_columns, const float *offset, float *out,
    )

cdef extern from "_products.h" nogil:
    int panel_width_f()
    int panel_width_d()
    void row_products_f(
        const float *rows, int n, int n_features, const float *panel, int n_columns, float *out,
        int pitch,
    )
    void row_products_d(
        const double *rows, int n, int n_features, const double *panel, int n_columns, double *out,
        int pitch,
    )

cdef enum:
    TILE = 256  # rows that components are compared with, a group at a time: both stay in cache
    GROUP = 16

# Columns come in multiples of this: the longest vector there is of either type.
LANES = 8
# Relative rounding of single precision, well above sqrt(n_features) units; and by how much the room
# for squares is widened, so that the square of a sum, room and rounding, splits into two terms:
# (a + b)^2 <= (1 + WIDER) a^2 + (1 + 1 / WIDER) b^2.
cdef float ROUNDING = 1e-6
cdef float WIDER = 1e-3
# Where no room is needed any more, and below every log weight.
cdef float LEAST = -1e30
cdef float NO_WEIGHT = -3e38


cdef inline void _row_squares(
    const floating *rows, const int *which, int n, int D, const floating *columns, int pitch,
    int n_columns, const floating *offset, int above, floating *out
) noexcept nogil:
    if floating is float:
        row_squares_f(
            rows, which, n, D, columns, pitch, n_columns, offset, above, out
        )
    else:
        row_squares_d(
            rows, which, n, D, columns, pitch, n_columns, offset, above, out
        )


def products(
    const floating[:, ::1] rows,
    const floating[:, ::1] columns,
    const floating[::1] constant,
    floating[:, ::1] out,
):
    """A matrix product plus constants, the same bits for a row whatever rows come with it.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, D)
        The data.
    columns : ndarray of shape (D, K)
        Coefficients.
    constant : ndarray of shape (K,)
        Added to the products.
    out : ndarray of shape (n_rows, K)
        Overwritten.
    """
    cdef int n = <int>rows.shape[0], D = <int>rows.shape[1], K = <int>columns.shape[1]
    cdef int width = panel_width_f() if floating is float else panel_width_d(), k, d, j, count
    cdef floating[:, ::1] panel = np.zeros((D + 1, width), np.asarray(rows).dtype)
    if n == 0:
        return
    with nogil:
        k = -width
        while k + width < K:
            k += width
            count = min(width, K - k)
            for d in range(D):
                for j in range(count):
                    panel[d, j] = columns[d, k + j]
            for j in range(count):
                panel[D, j] = constant[k + j]
            if floating is float:
                row_products_f(&rows[0, 0], n, D, &panel[0, 0], count, &out[0, k], K)
            else:
                row_products_d(&rows[0, 0], n, D, &panel[0, 0], count, &out[0, k], K)


def all_weights(
    const floating[:, ::1] rows,
    const floating[:, :, ::1] factors,
    const floating[:, ::1] offset,
    const double[::1] constant,
    floating[:, ::1] out,
):
    """All weights of each row, constant_k - |rows P_k - offset_k|^2 / 2.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, D)
        The data.
    factors : ndarray of shape (K, D, W)
        The upper triangular P_k, filled with zeros up to a multiple of `LANES`.
    offset : ndarray of shape (K, W)
        The means times P_k.
    constant : ndarray of shape (K,)
        The largest weight a component can have.
    out : ndarray of shape (n_rows, K)
        Overwritten.
    """
    cdef int n = <int>rows.shape[0], D = <int>rows.shape[1], K = <int>factors.shape[0]
    cdef int W = <int>factors.shape[2], t, g, i, k, count, width
    cdef floating[:, ::1] squares = np.empty((GROUP, TILE), np.asarray(rows).dtype)
    if n == 0:
        return
    with nogil:
        t = -TILE
        while t + TILE < n:
            t += TILE
            count = min(TILE, n - t)
            g = -GROUP
            while g + GROUP < K:
                g += GROUP
                width = min(GROUP, K - g)
                for k in range(width):
                    _row_squares(
                        &rows[t, 0], NULL, count, D, &factors[g + k, 0, 0], W, W,
                        &offset[g + k, 0], 0, &squares[k, 0],
                    )
                for i in range(count):
                    for k in range(width):
                        out[t + i, g + k] = constant[g + k] - 0.5 * squares[k, i]


cdef inline void _gather(
    const floating *source, const int *which, int n, int D, floating *out
) noexcept nogil:
    cdef int i, j
    cdef const floating *row
    for i in range(n):
        row = source + <Py_ssize_t>which[i] * D
        for j in range(D):
            out[<Py_ssize_t>i * D + j] = row[j]


cdef inline void _sift(double *key, int *value, int root, int n) noexcept nogil:
    cdef int child, swapped
    cdef double kept
    while 2 * root + 1 < n:
        child = 2 * root + 1
        if child + 1 < n and key[child + 1] > key[child]:
            child += 1
        if key[root] >= key[child]:
            return
        kept = key[root]
        key[root] = key[child]
        key[child] = kept
        swapped = value[root]
        value[root] = value[child]
        value[child] = swapped
        root = child


cdef void _sort(double *key, int *value, int n) noexcept nogil:
    """Heap sort of pairs by rising key."""
    cdef int i, swapped
    cdef double kept
    for i in range(n // 2 - 1, -1, -1):
        _sift(key, value, i, n)
    for i in range(n - 1, 0, -1):
        kept = key[0]
        key[0] = key[i]
        key[i] = kept
        swapped = value[0]
        value[0] = value[i]
        value[i] = swapped
        _sift(key, value, 0, i)


cdef void _by_component(const int *component, int n, int K, int *stop, int *order) noexcept nogil:
    """Numbers of pairs sorted by component, and where those of each component stop."""
    cdef int i, k, begin = 0, count
    for k in range(K):
        stop[k] = 0
    for i in range(n):
        stop[component[i]] += 1
    for k in range(K):  # for now where they begin
        count = stop[k]
        stop[k] = begin
        begin += count
    for i in range(n):
        order[stop[component[i]]] = i
        stop[component[i]] += 1


cdef inline float _low(double weight) noexcept nogil:
    return <float>max(weight - ROUNDING * fabs(weight), LEAST)


cdef inline void _room(
    double constant, int n_columns, float size, float offset_size, float *room, float *by_length
) noexcept nogil:
    """The squares that a component may have: room - 2 (1 + WIDER) low + by_length |row|^2.

    Each of the computed projections is off by no more than ROUNDING (size |row| + offset_size).
    """
    cdef float rounding = 2 * (1 + 1 / WIDER) * n_columns * ROUNDING * ROUNDING
    room[0] = <float>(2 * (1 + WIDER) * (constant + ROUNDING * fabs(constant)))
    room[0] += rounding * offset_size * offset_size
    by_length[0] = rounding * size * size


def best_weights(
    const floating[:, ::1] rows,
    const floating[:, :, ::1] factors,
    const floating[:, ::1] offset,
    const double[::1] constant,
    const float[:, ::1] white,
    const int[::1] order,
    const float[:, :, ::1] white_factors,
    const float[:, ::1] white_offset,
    const float[::1] size,
    const float[::1] offset_size,
    const int[::1] stages,
    int[:, ::1] index,
    floating[:, ::1] weight,
    int block=4096,
):
    """The L largest weights of each row, constant_k - |rows P_k - offset_k|^2 / 2.

    Parameters
    ----------
    rows, factors, offset, constant
        As for :func:`all_weights`.
    white : ndarray of shape (n_rows, D), float32
        The data in coordinates of which the first few tell most.
    order : ndarray of shape (K,)
        Components by falling constant; the following arrays are in this order.
    white_factors : ndarray of shape (K, D, W), float32
        The P_k in these coordinates, upper triangular too.
    white_offset : ndarray of shape (K, W), float32
        The means times these.
    size, offset_size : ndarray of shape (K,), float32
        The length of the longest column, and the largest absolute offset.
    stages : ndarray of shape (n_stages,), int32
        How many of the columns have been looked at after each stage, rising multiples of `LANES`.
    index : ndarray of shape (n_rows, L), int32
        Different components to begin with; those of the result, in no order.
    weight : ndarray of shape (n_rows, L)
        Overwritten by the result's weights.
    block : int, default=4096
        Rows that are sorted together.

    Returns
    -------
    n_bounds, n_more, n_exact : int
        How many pairs were bounded by the first columns, by more, and computed.
    """
    cdef int n_rows = <int>rows.shape[0], D = <int>rows.shape[1], K = <int>constant.shape[0]
    cdef int L = <int>index.shape[1], W = <int>white_factors.shape[2], pitch = <int>factors.shape[2]
    cdef int n_stages = <int>stages.shape[0], first, n, i, j, k, g, s, t, row, width, held, count
    cdef int slot, stage, begin
    cdef float length, room, by_length, twice = 2 * (1 + WIDER)
    cdef double largest
    cdef floating w
    cdef Py_ssize_t n_bounds = 0, n_more = 0, n_exact = 0
    cdef floating[::1] squares = np.empty(block, np.asarray(rows).dtype)
    cdef int n_first = min(D, stages[0]), stride = (block + TILE - 1) // TILE * TILE
    cdef float[:, ::1] sorted_white = np.empty((block, D), np.float32)
    cdef float[:, ::1] feature = np.zeros((n_first, stride), np.float32)  # the first, transposed
    cdef float[::1] partial = np.empty(stride, np.float32), norm = np.empty(block, np.float32)
    cdef float[::1] low = np.empty(block, np.float32)  # L-th best weights, rounded down
    cdef float[::1] excess = np.empty(TILE, np.float32)
    cdef double[::1] least = np.empty(block)
    cdef int[::1] by_least = np.empty(block, np.int32)
    cdef int[::1] pair_stop = np.empty(K, np.int32), pair = np.empty(block * L, np.int32)
    cdef int[:, ::1] survivor = np.empty((GROUP, block + 1), np.int32)
    cdef float[:, ::1] total = np.empty((GROUP, block + 1), np.float32)
    cdef int[::1] n_survivors = np.empty(GROUP, np.int32), where = np.empty(block, np.int32)
    with nogil:
        first = -block
        while first + block < n_rows:
            first += block
            n = min(block, n_rows - first)
            # The candidates' weights, component by component.
            _by_component(&index[first, 0], n * L, K, &pair_stop[0], &pair[0])
            held = 0
            for k in range(K):
                count = pair_stop[k] - held
                if count:
                    for i in range(count):
                        where[i] = first + pair[held + i] // L
                    _row_squares(
                        &rows[0, 0], &where[0], count, D, &factors[k, 0, 0], pitch, pitch,
                        &offset[k, 0], 0, &squares[0],
                    )
                    for i in range(count):
                        slot = pair[held + i]
                        weight[first + slot // L, slot % L] = constant[k] - 0.5 * squares[i]
                held = pair_stop[k]
            n_exact += n * L
            # Rows by rising L-th best weight: those that a component may matter to come first.
            for i in range(n):
                row = first + i
                least[i] = weight[row, weakest(&weight[row, 0], &index[row, 0], L)]
                by_least[i] = row
            _sort(&least[0], &by_least[0], n)
            _gather(&white[0, 0], &by_least[0], n, D, &sorted_white[0, 0])
            for i in range(n):
                length = 0
                for j in range(D):
                    length += sorted_white[i, j] * sorted_white[i, j]
                for j in range(n_first):
                    feature[j, i] = sorted_white[i, j]
                norm[i] = length
                low[i] = _low(least[i])
            held = n
            g = -GROUP
            while g + GROUP < K:
                g += GROUP
                width = min(GROUP, K - g)
                # `low` of a row may only have risen since the sort, so no row is forgotten.
                largest = constant[order[g]]
                while held > 0 and low[held - 1] > largest:
                    held -= 1
                if held == 0:
                    break
                for k in range(width):
                    n_survivors[k] = 0
                t = -TILE
                while t + TILE < held:
                    t += TILE
                    count = min(TILE, held - t)
                    for k in range(width):
                        lane_squares(
                            &feature[0, t], stride, count, D, &white_factors[g + k, 0, 0], W,
                            stages[0], &white_offset[g + k, 0], &partial[0],
                        )
                        _room(
                            constant[order[g + k]], stages[0], size[g + k], offset_size[g + k],
                            &room, &by_length,
                        )
                        for i in range(count):
                            excess[i] = (
                                partial[i] + twice * low[t + i] - room
                                - by_length * norm[t + i]
                            )
                        s = n_survivors[k]
                        for i in range(count):  # without branches: who leaves is hard to predict
                            survivor[k, s] = t + i
                            total[k, s] = partial[i]
                            s += excess[i] <= 0
                        n_survivors[k] = s
                n_bounds += <Py_ssize_t>held * width
                for k in range(width):
                    s = n_survivors[k]
                    n_more += s
                    largest = constant[order[g + k]]
                    for stage in range(1, n_stages):
                        if s == 0:
                            break
                        begin = stages[stage - 1]
                        _row_squares(
                            &sorted_white[0, 0], &survivor[k, 0], s, D,
                            &white_factors[g + k, 0, begin], W, stages[stage] - begin,
                            &white_offset[g + k, begin], begin, &partial[0],
                        )
                        _room(
                            largest, stages[stage], size[g + k], offset_size[g + k], &room,
                            &by_length,
                        )
                        count = s
                        s = 0
                        for i in range(count):
                            t = survivor[k, i]
                            length = total[k, i] + partial[i]
                            survivor[k, s] = t
                            total[k, s] = length
                            s += length + twice * low[t] <= room + by_length * norm[t]
                    count = s
                    s = 0
                    for i in range(count):  # but for the candidates, which are known
                        row = by_least[survivor[k, i]]
                        for j in range(L):
                            if index[row, j] == order[g + k]:
                                break
                        else:
                            where[s] = row
                            survivor[k, s] = survivor[k, i]
                            s += 1
                    if s == 0:
                        continue
                    n_exact += s
                    j = order[g + k]
                    _row_squares(
                        &rows[0, 0], &where[0], s, D, &factors[j, 0, 0], pitch, pitch,
                        &offset[j, 0], 0, &squares[0],
                    )
                    for i in range(s):
                        w = largest - 0.5 * squares[i]
                        row = where[i]
                        slot = weakest(&weight[row, 0], &index[row, 0], L)
                        if w > weight[row, slot] or (
                            w == weight[row, slot] and j < index[row, slot]
                        ):
                            weight[row, slot] = w
                            index[row, slot] = j
                            slot = weakest(&weight[row, 0], &index[row, 0], L)
                            low[survivor[k, i]] = _low(weight[row, slot])
    return n_bounds, n_more, n_exact


def likely_components(
    const float[:, ::1] white,
    const float[:, :, ::1] white_factors,
    const float[:, ::1] white_offset,
    const float[::1] constant,
    int n_columns,
    int[:, ::1] index,
):
    """The L components of each row with the largest marginal densities of the first features.

    Parameters
    ----------
    white, white_factors, white_offset
        As for :func:`best_weights`.
    constant : ndarray of shape (K,), float32
        The largest log density that each component can have.
    n_columns : int
        How many features, a multiple of `LANES`.
    index : ndarray of shape (n_rows, L), int32
        Overwritten; in no order.
    """
    cdef int n = <int>white.shape[0], D = <int>white.shape[1], K = <int>constant.shape[0]
    cdef int L = <int>index.shape[1], W = <int>white_factors.shape[2], n_first = min(D, n_columns)
    cdef int t, i, j, k, count, slot
    cdef float w
    cdef float[:, ::1] feature = np.zeros((n_first, TILE), np.float32)
    cdef float[::1] partial = np.empty(TILE, np.float32), least = np.empty(TILE, np.float32)
    cdef float[:, ::1] best = np.empty((TILE, L), np.float32)
    with nogil:
        t = -TILE
        while t + TILE < n:
            t += TILE
            count = min(TILE, n - t)
            for i in range(count):
                for j in range(n_first):
                    feature[j, i] = white[t + i, j]
            for k in range(K):
                lane_squares(
                    &feature[0, 0], TILE, count, D, &white_factors[k, 0, 0], W, n_columns,
                    &white_offset[k, 0], &partial[0],
                )
                for i in range(count):
                    w = constant[k] - <float>0.5 * partial[i]
                    if k < L:  # different components whatever their weights are
                        slot = k
                    elif w > least[i]:
                        slot = weakest(&best[i, 0], &index[t + i, 0], L)
                    else:
                        continue
                    best[i, slot] = w
                    index[t + i, slot] = k
                    if k >= L - 1:
                        least[i] = best[i, weakest(&best[i, 0], &index[t + i, 0], L)]


def candidate_weights(
    const floating[:, ::1] rows,
    const floating[:, :, ::1] factors,
    const floating[:, ::1] offset,
    const double[::1] constant,
    const int[:, ::1] neighbours,
    int[:, ::1] index,
    floating[:, ::1] weight,
    int block=4096,
):
    """The L largest weights of each row among the neighbours of its present components.

    Parameters
    ----------
    rows, factors, offset, constant
        As for :func:`all_weights`.
    neighbours : ndarray of shape (K, G), int32
        Components near each component, itself one of them.
    index : ndarray of shape (n_rows, L), int32
        Different components whose neighbours to weigh; overwritten by the result, in no order.
    weight : ndarray of shape (n_rows, L)
        Overwritten by the result's weights.
    block : int, default=4096
        Rows at a time.

    Returns
    -------
    n_exact : int
        How many pairs were weighed.
    """
    cdef int n_rows = <int>rows.shape[0], D = <int>rows.shape[1], K = <int>constant.shape[0]
    cdef int L = <int>index.shape[1], G = <int>neighbours.shape[1], W = <int>factors.shape[2]
    cdef int first, n, i, j, g, k, begin, count, row, slot, n_pairs
    cdef floating w
    cdef Py_ssize_t n_exact = 0
    block = max(1, min(block, n_rows))
    cdef floating[::1] squares = np.empty(block, np.asarray(rows).dtype)
    cdef int[::1] last_row = np.full(K, -1, np.int32)  # the last row that had a component
    cdef int[::1] stop = np.empty(K, np.int32), where = np.empty(block, np.int32)
    cdef int[::1] component = np.empty(block * min(K, L * G), np.int32)
    cdef int[::1] of_row = np.empty(block * min(K, L * G), np.int32)
    cdef int[::1] pair = np.empty(block * min(K, L * G), np.int32)
    with nogil:
        first = -block
        while first + block < n_rows:
            first += block
            n = min(block, n_rows - first)
            n_pairs = 0
            for i in range(first, first + n):
                for j in range(L):
                    for g in range(G):
                        k = neighbours[index[i, j], g]
                        if last_row[k] != i:
                            last_row[k] = i
                            component[n_pairs] = k
                            of_row[n_pairs] = i
                            n_pairs += 1
            n_exact += n_pairs
            _by_component(&component[0], n_pairs, K, &stop[0], &pair[0])
            for i in range(first, first + n):
                for j in range(L):
                    weight[i, j] = NO_WEIGHT
                    index[i, j] = K + j
            begin = 0
            for k in range(K):  # rising, so that an equal weight never enters
                count = stop[k] - begin
                for i in range(count):
                    where[i] = of_row[pair[begin + i]]
                if count:
                    _row_squares(
                        &rows[0, 0], &where[0], count, D, &factors[k, 0, 0], W, W,
                        &offset[k, 0], 0, &squares[0],
                    )
                for i in range(count):
                    w = max(constant[k] - 0.5 * squares[i], -1e37)
                    row = where[i]
                    slot = weakest(&weight[row, 0], &index[row, 0], L)
                    if w > weight[row, slot]:
                        weight[row, slot] = w
                        index[row, slot] = k
                begin = stop[k]
    return n_exact


def scatter(
    const floating[:, ::1] rows,
    const int[::1] ptr,
    const int[::1] which,
    const double[::1] share,
    double[:, :, ::1] second,
    double[:, ::1] first,
    int block=512,
):
    """Weighted sums of x and x x^T of each component's rows, in double precision.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, D)
        The data.
    ptr : ndarray of shape (K + 1,), int32
        The rows of component k are ``which[ptr[k]:ptr[k + 1]]``.
    which : ndarray of shape (n_pairs,), int32
        Row numbers.
    share : ndarray of shape (n_pairs,)
        What each row counts in the component, not negative.
    second : ndarray of shape (K, D, D)
        Sums of x x^T are added to.
    first : ndarray of shape (K, D) or (0, D)
        Sums of x are added to, if they are wanted.
    block : int, default=512
        Rows a product.
    """
    cdef int K = <int>ptr.shape[0] - 1, D = <int>rows.shape[1], i, j, k, begin, n
    cdef double root, one = 1
    cdef char *lower = "L"
    cdef char *plain = "N"
    cdef bint wants_first = first.shape[0] > 0
    cdef const floating *row
    cdef double[:, ::1] scaled = np.empty((block, D))
    with nogil:
        for k in range(K):
            begin = ptr[k] - block
            while begin + block < ptr[k + 1]:
                begin += block
                n = min(block, ptr[k + 1] - begin)
                for i in range(n):
                    root = sqrt(share[begin + i])
                    row = &rows[which[begin + i], 0]
                    for j in range(D):
                        scaled[i, j] = root * row[j]
                    if wants_first:
                        for j in range(D):
                            first[k, j] += share[begin + i] * row[j]
                # The lower half in BLAS's order, the upper one in ours.
                dsyrk(lower, plain, &D, &n, &one, &scaled[0, 0], &D, &one, &second[k, 0, 0], &D)
            for i in range(D):
                for j in range(i):
                    second[k, i, j] = second[k, j, i]


def invert_factors(double[:, :, ::1] matrix):
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
    cdef int K = <int>matrix.shape[0], D = <int>matrix.shape[1], k, i, j, info = 0
    # The lower half in LAPACK's order, the upper one in ours.
    cdef char *lower = "L"
    cdef char *not_unit = "N"
    with nogil:
        for k in range(K):
            dpotrf(lower, &D, &matrix[k, 0, 0], &D, &info)
            if info == 0:
                dtrtri(lower, not_unit, &D, &matrix[k, 0, 0], &D, &info)
            if info != 0:
                break
            for i in range(D):
                for j in range(i):
                    matrix[k, i, j] = 0
    return info == 0
