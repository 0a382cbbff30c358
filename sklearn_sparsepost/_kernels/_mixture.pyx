"""Log weights of components: products, squared lengths, and the L best without computing all.

* `products`, `all_weights`: of all components, the same bits for a row whatever rows are beside it;
* `best_weights`: the L best of all by bounds, as told in `_mixture_search.pxd`;
* `quantise_factors`: what the bounds are computed from;
* `likely_components`, `candidate_weights`: components to begin with, and the L best of a few;
* `normalise`, `entropies`: responsibilities from weights, and what they leave open.
"""
from libc.math cimport fabs, lrint, sqrt

from sklearn_sparsepost._kernels._math cimport exp_nonpos, log_pos
from sklearn_sparsepost._kernels._mixture_search cimport (
    GROUP, ROUNDING, TILE, WIDER, Block, Bounds, bound_further, bound_group, by_component, lay_out,
    let_go, sort_rows, weigh_first, weigh_survivors,
)
from sklearn_sparsepost._kernels._quantised cimport (
    LONGEST, choose_fused, lane_survivors, quantise, units,
)
from sklearn_sparsepost._kernels._squares cimport row_squares
from sklearn_sparsepost._kernels._topl cimport weakest
from sklearn_sparsepost._kernels._types cimport floating

import numpy as np


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

# Columns come in multiples of this, of which `_squares.h` and `_quantised.h` take some together;
# those that are looked at after a search's first ones, in multiples of the other.
LANES = 8
LATER_LANES = 16
# Below every log weight, and above every sum of squares.
cdef float NO_WEIGHT = -3e38, NO_BOUND = 3e38
# Of smaller shares the logarithm does not matter.
cdef double LEAST_SHARE = 1e-300

cdef enum:
    ROWS = 240  # whose products are made together, a multiple of how many share loads of columns


def products(
    const floating[:, ::1] rows,  # IN
    const floating[:, ::1] columns,  # IN
    const floating[::1] constant,  # IN
    floating[:, ::1] out,  # OUT
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
    cdef int width = panel_width_f() if floating is float else panel_width_d()
    cdef int n_panels = (K + width - 1) // width, p, d, j, count, first, held
    cdef floating[:, :, ::1] panel = np.zeros((n_panels, D + 1, width), np.asarray(rows).dtype)
    if n == 0:
        return
    with nogil:
        for p in range(n_panels):
            for j in range(min(width, K - p * width)):
                for d in range(D):
                    panel[p, d, j] = columns[d, p * width + j]
                panel[p, D, j] = constant[p * width + j]
        first = -ROWS
        while first + ROWS < n:  # so many stay in cache for all panels
            first += ROWS
            held = min(ROWS, n - first)
            for p in range(n_panels):
                count = min(width, K - p * width)
                if floating is float:
                    row_products_f(
                        &rows[first, 0], held, D, &panel[p, 0, 0], count, &out[first, p * width], K
                    )
                else:
                    row_products_d(
                        &rows[first, 0], held, D, &panel[p, 0, 0], count, &out[first, p * width], K
                    )


def all_weights(
    const floating[:, ::1] rows,  # IN
    const floating[:, :, ::1] factors,  # IN
    const floating[:, ::1] offset,  # IN
    const double[::1] constant,  # IN
    floating[:, ::1] out,  # OUT
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
                    row_squares(
                        &rows[t, 0], NULL, count, D, &factors[g + k, 0, 0], W, W,
                        &offset[g + k, 0], &squares[k, 0],
                    )
                for i in range(count):
                    for k in range(width):
                        out[t + i, g + k] = constant[g + k] - 0.5 * squares[k, i]


def best_weights(
    const floating[:, ::1] rows,  # IN
    const floating[:, :, ::1] factors,  # IN
    const floating[:, ::1] offset,  # IN
    const double[::1] constant,  # IN
    const float[:, ::1] white,  # IN
    const int[::1] order,  # IN
    const short[:, :, :, ::1] white_factors,  # IN
    const float[::1] scale,  # IN
    const float[:, ::1] slack,  # IN
    float origin,  # IN
    const int[::1] stages,  # IN
    int[:, ::1] index,  # IN/OUT
    floating[:, ::1] weight,  # OUT
    int block=8192,  # IN
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
    white_factors, scale, slack, origin, stages
        As for :func:`quantise_factors`.
    index : ndarray of shape (n_rows, L), int32
        Different components to begin with; those of the result, in no order.
    weight : ndarray of shape (n_rows, L)
        Overwritten by the result's weights.
    block : int, default=8192
        Rows that are sorted together.

    Returns
    -------
    n_bounds, n_more, n_exact : int
        How many pairs were bounded by the first columns, by more, and computed; those that
        `index` began with are bounded by the first columns only.
    """
    cdef int n_rows = <int>rows.shape[0], K = <int>constant.shape[0], L = <int>index.shape[1]
    cdef int P = <int>white_factors.shape[1], above = origin > 0, first, g, k, width
    cdef int n_first = min(P, (above + stages[0] + 1) // 2)
    cdef Py_ssize_t n_bounds = 0, n_more = 0, n_exact = 0
    cdef Bounds of = Bounds(
        K=K, n_pairs=P, W=<int>white_factors.shape[2], origin=origin, above=above,
        n_stages=<int>stages.shape[0], stages=&stages[0], order=&order[0], constant=&constant[0],
        factors=<const int *>&white_factors[0, 0, 0, 0], scale=&scale[0], slack=&slack[0, 0],
    )
    cdef Block b
    cdef size_t n_bytes = lay_out(&b, NULL, block, n_first, P, L, K, sizeof(floating))
    cdef unsigned char[::1] memory = np.empty(n_bytes, np.uint8)
    lay_out(&b, <char *>&memory[0], block, n_first, P, L, K, sizeof(floating))
    with nogil:
        first = -block
        while first + block < n_rows:
            first += block
            b.first = first
            b.n = min(block, n_rows - first)
            weigh_first(rows, factors, offset, constant, &b, index, weight)
            n_exact += b.n * L
            sort_rows(&of, &b, white, index, weight)
            g = -GROUP
            while g + GROUP < K:
                g += GROUP
                width = min(GROUP, K - g)
                let_go(&of, &b, g)
                if b.held == 0:
                    break
                bound_group(&of, &b, g, width)
                n_bounds += <Py_ssize_t>b.held * width
                for k in range(width):
                    n_more += b.n_survivors[k]
                    bound_further(&of, &b, g, k)
                    if b.n_survivors[k] == 0:
                        continue
                    n_exact += b.n_survivors[k]
                    weigh_survivors(
                        rows, factors, offset, constant[order[g + k]], &b, k, order[g + k], index,
                        weight,
                    )
    return n_bounds, n_more, n_exact


def quantise_factors(
    const floating[:, :, ::1] factors,  # IN
    const double[:, ::1] offset,  # IN
    const int[::1] order,  # IN
    float origin,  # IN
    const int[::1] stages,  # IN
    short[:, :, :, ::1] out,  # OUT
    float[::1] scale,  # OUT
    float[:, ::1] slack,  # OUT
):
    """Factors in 16-bit integers, and what their rounding and that of rows adds to squares.

    A projection of quantised rows on quantised columns is off by no more than the length of the
    column times the rounding of the row, plus the length of the row times that of the column.

    Parameters
    ----------
    factors : ndarray of shape (K, D, D or more)
        Upper triangular P_k, as weights are computed from.
    offset : ndarray of shape (K, D or more)
        The means times these; not read if there is no `origin`.
    order : ndarray of shape (n,), int32
        Which of the components are wanted.
    origin : float
        What all rows have as a feature before the others, whose coefficients are the offsets over
        it; 0 for no such feature.
    stages : ndarray of shape (n_stages,), int32
        How many of the columns have been looked at after each stage: a multiple of `LANES`, and
        multiples of `LATER_LANES` more.
    out : ndarray of shape (n, P, W, 2), int16
        Overwritten: in P pairs of features the W columns of each P_k, by feature and column.
    scale : ndarray of shape (n,), float32
        Overwritten by how many units 1 is.
    slack : ndarray of shape (n, n_stages), float32
        Overwritten by what is added to the squares that a row may have after each stage.
    """
    cdef int n = <int>order.shape[0], D = <int>factors.shape[1], above = origin > 0
    cdef int i, k, d, j, s
    cdef double largest, longest, size, v, whole, made, lost, rounding
    cdef double[::1] length = np.empty(D), own = np.empty(D), square = np.empty(D)
    cdef double[::1] error = np.empty(D)
    out[...] = 0
    with nogil:
        for i in range(n):
            k = order[i]
            largest = longest = size = 0
            for j in range(D):
                v = offset[k, j] / origin if above else 0
                largest = max(largest, fabs(v))
                length[j] = v * v
                own[j] = square[j] = error[j] = 0
            for d in range(D):
                for j in range(d, D):
                    v = <float>factors[k, d, j]
                    largest = max(largest, fabs(v))
                    own[j] += v * v
            for j in range(D):
                longest = max(longest, length[j] + own[j])
                size = max(size, own[j])
            scale[i] = units(largest, sqrt(longest))
            for d in range(-above, D):
                for j in range(max(d, 0), D):
                    v = scale[i] * (<float>factors[k, d, j] if d >= 0 else -offset[k, j] / origin)
                    whole = lrint(v)
                    out[i, (above + d) // 2, j, (above + d) % 2] = <short>whole
                    square[j] += whole * whole
                    error[j] += (v - whole) * (v - whole)
            made = lost = 0
            j = 0
            for s in range(stages.shape[0]):
                while j < min(D, stages[s]):
                    made += square[j]
                    lost += error[j]
                    j += 1
                # A row's numbers are off by half a unit, projections of weights by their rounding.
                rounding = sqrt(made * (above + D)) / 2 + LONGEST * sqrt(lost)
                rounding += LONGEST * ROUNDING * sqrt(size) * scale[i] * sqrt(<double>j)
                slack[i, s] = (1 + 1 / WIDER) * rounding * rounding


def fused_sums(
    wanted=None,  # IN
):
    """Whether one instruction multiplies and adds the bounds' integers, by default if there is one.

    Parameters
    ----------
    wanted : bool, default=None
        Whether to use it from now on, where this processor has it; None to ask.
    """
    global _fused
    if wanted is not None:
        _fused = bool(choose_fused(wanted))
    return _fused


_fused = bool(choose_fused(True))


def likely_components(
    const float[:, ::1] white,  # IN
    const short[:, :, :, ::1] white_factors,  # IN
    const float[::1] scale,  # IN
    float origin,  # IN
    const float[::1] constant,  # IN
    int n_columns,  # IN
    int[:, ::1] index,  # OUT
):
    """The L components of each row with the largest marginal densities of the first features.

    Parameters
    ----------
    white, white_factors, scale, origin
        As for :func:`best_weights`.
    constant : ndarray of shape (K,), float32
        The largest log density that each component can have.
    n_columns : int
        How many features, a multiple of `LANES`.
    index : ndarray of shape (n_rows, L), int32
        Overwritten; in no order.
    """
    cdef int n = <int>white.shape[0], D = <int>white.shape[1], K = <int>constant.shape[0]
    cdef int L = <int>index.shape[1], above = origin > 0
    cdef int P = <int>white_factors.shape[1], W = <int>white_factors.shape[2]
    cdef int n_first = min(P, (above + n_columns + 1) // 2)
    cdef int t, i, j, k, s, seen, count, n_better, slot
    cdef float w, unit
    cdef int[:, ::1] feature = np.zeros((n_first, TILE), np.int32)
    cdef int[::1] row = np.empty(P, np.int32), number = np.empty(TILE + LATER_LANES, np.int32)
    cdef float[::1] most = np.empty(TILE, np.float32), least = np.empty(TILE, np.float32)
    cdef float[::1] squares = np.empty(TILE + LATER_LANES, np.float32)
    cdef float[::1] row_scale = np.empty(TILE, np.float32)
    cdef float[:, ::1] best = np.empty((TILE, L), np.float32)
    with nogil:
        t = -TILE
        while t + TILE < n:
            t += TILE
            count = min(TILE, n - t)
            for i in range(count):
                row_scale[i] = quantise(&white[t + i, 0], D, origin, above, <short *>&row[0], 2 * P)
                for j in range(n_first):
                    feature[j, i] = row[j]
            for i in range(TILE):
                most[i] = NO_BOUND if i < count else -1
            for seen in range(K):  # wide components first, which are rarely far off
                k = K - 1 - seen
                if seen >= L:
                    for i in range(count):
                        unit = scale[k] * row_scale[i]
                        most[i] = 2 * (constant[k] - least[i]) * unit * unit
                n_better = lane_survivors(
                    &feature[0, 0], TILE, count, P, <const int *>&white_factors[k, 0, 0, 0], W,
                    n_columns, above, &most[0], False, 0, &number[0], &squares[0], 0,
                )
                for s in range(n_better):
                    i = number[s]
                    unit, w = scale[k] * row_scale[i], constant[k]
                    if unit > 0:  # else nothing is known of the row, which is too long
                        w -= <float>0.5 * squares[s] / unit / unit
                    # The first are different components whatever their weights are.
                    slot = seen if seen < L else weakest(&best[i, 0], &index[t + i, 0], L)
                    best[i, slot] = w
                    index[t + i, slot] = k
                    if seen >= L - 1:
                        least[i] = best[i, weakest(&best[i, 0], &index[t + i, 0], L)]


def candidate_weights(
    const floating[:, ::1] rows,  # IN
    const floating[:, :, ::1] factors,  # IN
    const floating[:, ::1] offset,  # IN
    const double[::1] constant,  # IN
    const int[:, ::1] neighbours,  # IN
    int[:, ::1] index,  # IN/OUT
    floating[:, ::1] weight,  # OUT
    int block=4096,  # IN
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
            by_component(&component[0], n_pairs, K, &stop[0], &pair[0])
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
                    row_squares(
                        &rows[0, 0], &where[0], count, D, &factors[k, 0, 0], W, W,
                        &offset[k, 0], &squares[0],
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


def normalise(
    const floating[:, ::1] weight,  # IN
    double[:, ::1] resp,  # OUT
):
    """Responsibilities from log weights: numbers not negative, whose rows sum to 1.

    Parameters
    ----------
    weight : ndarray of shape (n_rows, L)
        Log weights, finite.
    resp : ndarray of shape (n_rows, L)
        Overwritten.
    """
    cdef int L = <int>weight.shape[1], j
    cdef Py_ssize_t n = weight.shape[0], i
    cdef double most, total
    if n == 0:
        return
    cdef double *flat = &resp[0, 0]
    with nogil:
        for i in range(n):
            most = weight[i, 0]
            for j in range(1, L):
                most = max(most, weight[i, j])
            for j in range(L):
                resp[i, j] = weight[i, j] - most
        for i in range(n * L):
            flat[i] = exp_nonpos(flat[i])
        for i in range(n):
            total = 0
            for j in range(L):
                total += resp[i, j]
            for j in range(L):
                resp[i, j] /= total


def entropies(
    const double[:, ::1] resp,  # IN
    double[::1] out,  # OUT
    int block=1024,  # IN
):
    """Minus the sum over a row of r log r.

    Parameters
    ----------
    resp : ndarray of shape (n_rows, L)
        Responsibilities, not negative.
    out : ndarray of shape (n_rows,)
        Overwritten.
    block : int, default=1024
        Rows at a time.
    """
    cdef int L = <int>resp.shape[1], j
    cdef Py_ssize_t n = resp.shape[0], first = -block, count, i
    cdef double[:, ::1] term = np.empty((min(block, n), L))
    cdef const double *flat
    cdef double *to
    with nogil:
        while first + block < n:
            first += block
            count = min(block, n - first)
            flat = &resp[first, 0]
            to = &term[0, 0]
            for i in range(count * L):
                to[i] = flat[i] * log_pos(max(flat[i], LEAST_SHARE))
            for i in range(count):
                out[first + i] = 0
                for j in range(L):
                    out[first + i] -= term[i, j]
