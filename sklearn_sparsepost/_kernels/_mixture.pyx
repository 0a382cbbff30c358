"""Log weights of Gaussian components: squared lengths, and the L best without computing all.

The search rests on a bound. A component's quadratic form is a sum of squares of projections, so a
part of the sum bounds the log weight from above, and a component whose bound lies below a row's
L-th best weight so far cannot be among its L best. Projections are ordered so that few of them
hold most of the sum. Bounds are in single precision, their rounding allowed for.
"""
from libc.math cimport sqrt
from scipy.linalg.cython_blas cimport dgemm, sgemm

from sklearn_sparsepost._kernels._topl cimport weakest
from sklearn_sparsepost._kernels._types cimport floating

import numpy as np


cdef enum:
    TILE = 256  # rows of one product in the first stage, whose result should stay in cache
    GROUP = 16  # components of one product in the first stage

# Relative rounding of a projection in single precision, well above sqrt(n_features) units.
cdef float ROUNDING = 1e-6


def half_squares(
    const floating[:, ::1] projected, const floating[:, ::1] offset, floating[:, :] out
):
    """Minus half the squared distances of projections to those of the means.

    Parameters
    ----------
    projected : ndarray of shape (n_rows, n_components * n_directions)
        Projections, those of a component side by side.
    offset : ndarray of shape (n_components, n_directions)
        Projections of the means.
    out : ndarray of shape (n_rows, n_components)
        Overwritten.
    """
    cdef Py_ssize_t n = projected.shape[0], i, k, K = offset.shape[0]
    cdef int D = <int>offset.shape[1]
    with nogil:
        for i in range(n):
            for k in range(K):
                out[i, k] = -0.5 * _squares(&projected[i, k * D], &offset[k, 0], D)


cdef inline floating _squares(const floating *y, const floating *b, int n) noexcept nogil:
    cdef floating total = 0, gap
    cdef int j
    for j in range(n):
        gap = y[j] - b[j]
        total += gap * gap
    return total


cdef inline void _product(
    const floating *rows, const floating *columns, floating *out, int n, int m, int D
) noexcept nogil:
    """out (n x m) = rows (n x D) times columns (m x D) transposed, all C-contiguous."""
    cdef floating one = 1, zero = 0
    cdef char *t = "T"
    cdef char *no = "N"
    if floating is float:
        sgemm(t, no, &m, &n, &D, &one, <float *>columns, &D, <float *>rows, &D, &zero, out, &m)
    else:
        dgemm(t, no, &m, &n, &D, &one, <double *>columns, &D, <double *>rows, &D, &zero, out, &m)


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
    const float[:, :, ::1] near,
    const float[:, ::1] near_offset,
    const float[:, :, ::1] far,
    const float[:, ::1] far_offset,
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
    factors : ndarray of shape (K, D, D)
        P_k transposed: its columns as rows.
    offset : ndarray of shape (K, D)
        The means times P_k.
    constant : ndarray of shape (K,)
        The largest weight a component can have.
    white : ndarray of shape (n_rows, D), float32
        The data in the coordinates of the directions.
    order : ndarray of shape (K,)
        Components by falling constant; the following arrays are in this order.
    near, far : ndarray of shape (K, p, D) and (K, q, D), float32
        The first directions of each component, and more of them: sums of squares along them never
        exceed the quadratic form.
    near_offset, far_offset : ndarray of shape (K, p) and (K, q), float32
        The means along these.
    size, offset_size : ndarray of shape (K,), float32
        The length of the longest direction, and the largest absolute offset.
    stages : ndarray of shape (n_stages,), int32
        How many of the directions `far` have been looked at after each stage, rising.
    index : ndarray of shape (n_rows, L), int32
        Different components to begin with; those of the result, in no order.
    weight : ndarray of shape (n_rows, L)
        Overwritten by the result's weights.
    block : int, default=4096
        Rows at a time: the more, the longer the products of a component's survivors.

    Returns
    -------
    n_bounds, n_more, n_exact : int
        How many pairs were bounded by the first directions, by more, and computed.
    """
    cdef int n_rows = <int>rows.shape[0], D = <int>rows.shape[1], K = <int>constant.shape[0]
    cdef int L = <int>index.shape[1], p = <int>near.shape[1], q = <int>far.shape[1]
    cdef int first, n, i, j, k, g, s, t, row, width, held, count, slot, stage, begin, more
    cdef float root_p = sqrt(p), root, slack, length, partial
    cdef double room, reach
    cdef floating w
    cdef Py_ssize_t n_bounds = 0, n_more = 0, n_exact = 0
    kind = np.asarray(rows).dtype
    cdef floating[:, ::1] gathered = np.empty((block, D), kind)
    cdef floating[:, ::1] product = np.empty((block, D), kind)
    cdef float[:, ::1] sorted_white = np.empty((block, D), np.float32)
    cdef float[:, ::1] picked = np.empty((block, D), np.float32)
    cdef float[::1] projected = np.empty(max(TILE * GROUP * p, block * q), np.float32)
    cdef float[::1] norm = np.empty(block, np.float32)
    cdef double[::1] least = np.empty(block)
    cdef int[::1] by_least = np.empty(block, np.int32)
    cdef int[::1] pair_start = np.empty(K + 1, np.int32), pair = np.empty(block * L, np.int32)
    cdef int[:, ::1] survivor = np.empty((GROUP, block), np.int32)
    cdef float[:, ::1] sum_near = np.empty((GROUP, block), np.float32)
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
                    _gather(&rows[0, 0], &where[0], count, D, &gathered[0, 0])
                    _product(&gathered[0, 0], &factors[k, 0, 0], &product[0, 0], count, D, D)
                    for i in range(count):
                        w = constant[k] - 0.5 * _squares(&product[i, 0], &offset[k, 0], D)
                        slot = pair[held + i]
                        weight[first + slot // L, slot % L] = w
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
                norm[i] = ROUNDING * sqrt(length)
            held = n
            g = -GROUP
            while g + GROUP < K:
                g += GROUP
                width = min(GROUP, K - g)
                # `least` of a row may only have risen since the sort, so no row is forgotten.
                reach = constant[order[g]]
                while held > 0 and least[held - 1] > reach:
                    held -= 1
                if held == 0:
                    break
                for k in range(width):
                    n_survivors[k] = 0
                t = -TILE
                while t + TILE < held:
                    t += TILE
                    count = min(TILE, held - t)
                    _product(
                        &sorted_white[t, 0], &near[g, 0, 0], &projected[0], count, width * p, D
                    )
                    for i in range(count):
                        for k in range(width):
                            room = constant[order[g + k]] - least[t + i]
                            if room < 0:
                                continue
                            partial = _squares(
                                &projected[(i * width + k) * p], &near_offset[g + k, 0], p
                            )
                            slack = norm[t + i] * size[g + k] + ROUNDING * offset_size[g + k]
                            slack = <float>sqrt(2 * room) + root_p * slack
                            if partial <= slack * slack:
                                s = n_survivors[k]
                                survivor[k, s] = t + i
                                sum_near[k, s] = partial
                                n_survivors[k] = s + 1
                n_bounds += <Py_ssize_t>held * width
                for k in range(width):
                    s = n_survivors[k]
                    if s == 0:
                        continue
                    # Candidates are known, and leave first.
                    count = 0
                    for i in range(s):
                        row = by_least[survivor[k, i]]
                        for j in range(L):
                            if index[row, j] == order[g + k]:
                                break
                        else:
                            survivor[k, count] = survivor[k, i]
                            sum_near[k, count] = sum_near[k, i]
                            count = count + 1
                    s = count
                    if s == 0:
                        continue
                    n_more += s
                    begin = 0
                    for stage in range(stages.shape[0]):
                        more = stages[stage] - begin
                        root = sqrt(p + stages[stage])
                        _gather(&sorted_white[0, 0], &survivor[k, 0], s, D, &picked[0, 0])
                        _product(&picked[0, 0], &far[g + k, begin, 0], &projected[0], s, more, D)
                        count = 0
                        for i in range(s):
                            t = survivor[k, i]
                            room = constant[order[g + k]] - least[t]
                            if room < 0:
                                continue
                            partial = sum_near[k, i] + _squares(
                                &projected[i * more], &far_offset[g + k, begin], more
                            )
                            slack = norm[t] * size[g + k] + ROUNDING * offset_size[g + k]
                            slack = <float>sqrt(2 * room) + root * slack
                            if partial <= slack * slack:
                                survivor[k, count] = t
                                sum_near[k, count] = partial
                                count = count + 1
                        s = count
                        begin = stages[stage]
                        if s == 0:
                            break
                    if s == 0:
                        continue
                    for i in range(s):
                        where[i] = by_least[survivor[k, i]]
                    count = s
                    n_exact += count
                    _gather(&rows[0, 0], &where[0], count, D, &gathered[0, 0])
                    _product(
                        &gathered[0, 0], &factors[order[g + k], 0, 0], &product[0, 0], count, D, D
                    )
                    for i in range(count):
                        w = constant[order[g + k]] - 0.5 * _squares(
                            &product[i, 0], &offset[order[g + k], 0], D
                        )
                        row = where[i]
                        slot = weakest(&weight[row, 0], &index[row, 0], L)
                        if w > weight[row, slot] or (
                            w == weight[row, slot] and order[g + k] < index[row, slot]
                        ):
                            weight[row, slot] = w
                            index[row, slot] = order[g + k]
                            slot = weakest(&weight[row, 0], &index[row, 0], L)
                            least[survivor[k, i]] = weight[row, slot]
    return n_bounds, n_more, n_exact
