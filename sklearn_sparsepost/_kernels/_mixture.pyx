"""Log weights of Gaussian components: squared lengths, and the L best without computing all.

The search rests on a bound. A component's quadratic form is a sum of squares of projections, so a
part of the sum bounds the log weight from above, and a component whose bound lies below a row's
L-th best weight so far cannot be among its L best. Projections are ordered so that few of them
hold most of the sum. Bounds are in single precision, their rounding allowed for.
"""
from libc.math cimport sqrt, sqrtf
from scipy.linalg.cython_blas cimport dsyrk

from sklearn_sparsepost._kernels._topl cimport weakest
from sklearn_sparsepost._kernels._types cimport floating

import numpy as np


cdef extern from "_squares.h" nogil:
    void row_squares_f(
        const float *rows, const int *which, int n, int n_features, const float *columns,
        int pitch, int n_columns, const float *offset, int triangular, float *out,
    )
    void row_squares_d(
        const double *rows, const int *which, int n, int n_features, const double *columns,
        int pitch, int n_columns, const double *offset, int triangular, double *out,
    )

cdef enum:
    TILE = 256  # rows that components are compared with, a group at a time: both stay in cache
    GROUP = 16

# Columns come in multiples of this: the longest vector there is of either type.
LANES = 8
# Relative rounding of a projection in single precision, well above sqrt(n_features) units.
cdef float ROUNDING = 1e-6
# Below every log weight.
cdef float NO_WEIGHT = -3e38


cdef inline void _row_squares(
    const floating *rows, const int *which, int n, int D, const floating *columns, int pitch,
    int n_columns, const floating *offset, bint triangular, floating *out
) noexcept nogil:
    if floating is float:
        row_squares_f(
            rows, which, n, D, columns, pitch, n_columns, offset, triangular, out
        )
    else:
        row_squares_d(
            rows, which, n, D, columns, pitch, n_columns, offset, triangular, out
        )


def half_squares(
    const floating[:, ::1] rows,
    const floating[:, :, ::1] columns,
    const floating[:, ::1] offset,
    floating[:, ::1] out,
    int n_columns,
    bint triangular=False,
):
    """Minus half the squared distances of rows to means, in each component's projection.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, D)
        The data.
    columns : ndarray of shape (K, D, W)
        The directions of each component, filled with zeros up to a multiple of `LANES`.
    offset : ndarray of shape (K, W)
        Projections of the means.
    out : ndarray of shape (n_rows, K)
        Overwritten.
    n_columns : int
        How many directions to use, a multiple of `LANES`.
    triangular : bool, default=False
        Whether ``columns[k, d, j]`` is 0 for d > j.
    """
    cdef int n = <int>rows.shape[0], D = <int>rows.shape[1], K = <int>columns.shape[0]
    cdef int W = <int>columns.shape[2], t, g, i, k, count, width
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
                        &rows[t, 0], NULL, count, D, &columns[g + k, 0, 0], W, n_columns,
                        &offset[g + k, 0], triangular, &squares[k, 0],
                    )
                for i in range(count):
                    for k in range(width):
                        out[t + i, g + k] = -0.5 * squares[k, i]


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


def best_weights(
    const floating[:, ::1] rows,
    const floating[:, :, ::1] factors,
    const floating[:, ::1] offset,
    const double[::1] constant,
    const float[:, ::1] white,
    const int[::1] order,
    const float[:, :, ::1] directions,
    const float[:, ::1] direction_offset,
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
    rows : ndarray of shape (n_rows, D)
        The data.
    factors : ndarray of shape (K, D, W)
        The upper triangular P_k, filled with zeros up to a multiple of `LANES`.
    offset : ndarray of shape (K, W)
        The means times P_k.
    constant : ndarray of shape (K,)
        The largest weight a component can have.
    white : ndarray of shape (n_rows, D), float32
        The data in the coordinates of the directions.
    order : ndarray of shape (K,)
        Components by falling constant; the following arrays are in this order.
    directions : ndarray of shape (K, D, W), float32
        Directions of each component, along the first of which sums of squares never exceed the
        quadratic form.
    direction_offset : ndarray of shape (K, W), float32
        The means along these.
    size, offset_size : ndarray of shape (K,), float32
        The length of the longest direction, and the largest absolute offset.
    stages : ndarray of shape (n_stages,), int32
        How many of the directions have been looked at after each stage, rising multiples of
        `LANES`.
    index : ndarray of shape (n_rows, L), int32
        Different components to begin with; those of the result, in no order.
    weight : ndarray of shape (n_rows, L)
        Overwritten by the result's weights.
    block : int, default=4096
        Rows that are sorted together.

    Returns
    -------
    n_bounds, n_more, n_exact : int
        How many pairs were bounded by the first directions, by more, and computed.
    """
    cdef int n_rows = <int>rows.shape[0], D = <int>rows.shape[1], K = <int>constant.shape[0]
    cdef int L = <int>index.shape[1], W = <int>directions.shape[2], pitch = <int>factors.shape[2]
    cdef int n_stages = <int>stages.shape[0], first, n, i, j, k, g, s, t, row, width, held, count
    cdef int slot, stage, begin
    cdef float root, length, reach, long_direction, offset_slack
    cdef double largest
    cdef floating w
    cdef Py_ssize_t n_bounds = 0, n_more = 0, n_exact = 0
    cdef floating[::1] squares = np.empty(block, np.asarray(rows).dtype)
    cdef float[:, ::1] sorted_white = np.empty((block, D), np.float32)
    cdef float[::1] partial = np.empty(block, np.float32), norm = np.empty(block, np.float32)
    cdef float[::1] excess = np.empty(TILE, np.float32)
    cdef double[::1] least = np.empty(block)
    cdef int[::1] by_least = np.empty(block, np.int32)
    cdef int[::1] pair_start = np.empty(K + 1, np.int32), pair = np.empty(block * L, np.int32)
    cdef int[:, ::1] survivor = np.empty((GROUP, block + 1), np.int32)
    cdef float[:, ::1] total = np.empty((GROUP, block + 1), np.float32)
    cdef int[::1] n_survivors = np.empty(GROUP, np.int32), where = np.empty(block, np.int32)
    with nogil:
        first = -block
        while first + block < n_rows:
            first += block
            n = min(block, n_rows - first)
            # The candidates' weights, component by component.
            for k in range(K + 1):
                pair_start[k] = 0
            for i in range(n):
                for j in range(L):
                    pair_start[index[first + i, j] + 1] += 1
            for k in range(K):
                pair_start[k + 1] += pair_start[k]
            for i in range(n):
                for j in range(L):
                    k = index[first + i, j]
                    pair[pair_start[k]] = i * L + j
                    pair_start[k] += 1
            held = 0
            for k in range(K):
                count = pair_start[k] - held
                if count:
                    for i in range(count):
                        where[i] = first + pair[held + i] // L
                    _row_squares(
                        &rows[0, 0], &where[0], count, D, &factors[k, 0, 0], pitch, pitch,
                        &offset[k, 0], True, &squares[0],
                    )
                    for i in range(count):
                        slot = pair[held + i]
                        weight[first + slot // L, slot % L] = constant[k] - 0.5 * squares[i]
                held = pair_start[k]
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
                norm[i] = ROUNDING * sqrtf(length)
            held = n
            g = -GROUP
            while g + GROUP < K:
                g += GROUP
                width = min(GROUP, K - g)
                # `least` of a row may only have risen since the sort, so no row is forgotten.
                largest = constant[order[g]]
                while held > 0 and least[held - 1] > largest:
                    held -= 1
                if held == 0:
                    break
                for k in range(width):
                    n_survivors[k] = 0
                root = sqrtf(stages[0])
                t = -TILE
                while t + TILE < held:
                    t += TILE
                    count = min(TILE, held - t)
                    for k in range(width):
                        _row_squares(
                            &sorted_white[t, 0], NULL, count, D, &directions[g + k, 0, 0], W,
                            stages[0], &direction_offset[g + k, 0], False, &partial[0],
                        )
                        largest = constant[order[g + k]]
                        long_direction = root * size[g + k]
                        offset_slack = root * ROUNDING * offset_size[g + k]
                        for i in range(count):
                            reach = <float>(largest - least[t + i])
                            # Without room at all no length is short enough.
                            reach = sqrtf(2 * reach) if reach >= 0 else <float>-1e30
                            reach = reach + norm[t + i] * long_direction + offset_slack
                            excess[i] = partial[i] - reach * reach if reach >= 0 else 1
                        s = n_survivors[k]
                        for i in range(count):  # without branches: who leaves is hard to predict
                            survivor[k, s] = t + i
                            total[k, s] = partial[i]
                            s += excess[i] <= 0
                        n_survivors[k] = s
                n_bounds += <Py_ssize_t>held * width
                for k in range(width):
                    # Candidates are known, and leave first.
                    s = 0
                    for i in range(n_survivors[k]):
                        row = by_least[survivor[k, i]]
                        for j in range(L):
                            if index[row, j] == order[g + k]:
                                break
                        else:
                            survivor[k, s] = survivor[k, i]
                            total[k, s] = total[k, i]
                            s += 1
                    n_more += s
                    largest = constant[order[g + k]]
                    for stage in range(1, n_stages):
                        if s == 0:
                            break
                        begin = stages[stage - 1]
                        _row_squares(
                            &sorted_white[0, 0], &survivor[k, 0], s, D,
                            &directions[g + k, 0, begin], W, stages[stage] - begin,
                            &direction_offset[g + k, begin], False, &partial[0],
                        )
                        root = sqrtf(stages[stage])
                        count = s
                        s = 0
                        for i in range(count):
                            t = survivor[k, i]
                            reach = <float>(largest - least[t])
                            length = total[k, i] + partial[i]
                            survivor[k, s] = t
                            total[k, s] = length
                            if reach >= 0:
                                reach = sqrtf(2 * reach) + root * (
                                    norm[t] * size[g + k] + ROUNDING * offset_size[g + k]
                                )
                                s += length <= reach * reach
                    if s == 0:
                        continue
                    n_exact += s
                    for i in range(s):
                        where[i] = by_least[survivor[k, i]]
                    j = order[g + k]
                    _row_squares(
                        &rows[0, 0], &where[0], s, D, &factors[j, 0, 0], pitch, pitch,
                        &offset[j, 0], True, &squares[0],
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
                            least[survivor[k, i]] = weight[row, slot]
    return n_bounds, n_more, n_exact


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
        As for :func:`best_weights`.
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
    cdef int[::1] start = np.empty(K + 1, np.int32)
    cdef int[::1] component = np.empty(block * min(K, L * G), np.int32)
    cdef int[::1] of_row = np.empty(block * min(K, L * G), np.int32)
    cdef int[::1] where = np.empty(block * min(K, L * G), np.int32)
    with nogil:
        first = -block
        while first + block < n_rows:
            first += block
            n = min(block, n_rows - first)
            for k in range(K + 1):
                start[k] = 0
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
                            start[k + 1] += 1
            n_exact += n_pairs
            for k in range(K):
                start[k + 1] += start[k]
            for i in range(n_pairs):
                k = component[i]
                where[start[k]] = of_row[i]
                start[k] += 1  # in the end where the component's rows stop
            for i in range(first, first + n):
                for j in range(L):
                    weight[i, j] = NO_WEIGHT
                    index[i, j] = K + j
            begin = 0
            for k in range(K):  # rising, so that an equal weight never enters
                count = start[k] - begin
                if count:
                    _row_squares(
                        &rows[0, 0], &where[begin], count, D, &factors[k, 0, 0], W, W,
                        &offset[k, 0], True, &squares[0],
                    )
                for i in range(count):
                    w = constant[k] - 0.5 * squares[i]
                    row = where[begin + i]
                    slot = weakest(&weight[row, 0], &index[row, 0], L)
                    if w > weight[row, slot]:
                        weight[row, slot] = w
                        index[row, slot] = k
                begin = start[k]
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
