"""The search for each row's L best components that knows what the pass before has found.

What is found of a row and a component, a lower bound on their distance in the component's metric,
is kept in a byte. Components change by factors that are known, most of them little; so a byte rules
out most pairs without any arithmetic on features, as triangle inequalities do in k-means (C. Elkan,
"Using the triangle inequality to accelerate k-means", ICML 2003). What is left is bounded and
weighed as `_mixture_search.pxd` tells.
"""
from libc.math cimport sqrtf

from sklearn_sparsepost._kernels._lengths cimport (
    MOST_LENGTH, ROUNDED_DOWN, note_lengths, within_reach,
)
from sklearn_sparsepost._kernels._mixture_search cimport (
    ROUNDING, TILE, WIDER, Block, Bounds, lay_out, low_weight, room_for, transpose_rows,
    weigh_first, weigh_survivors,
)
from sklearn_sparsepost._kernels._quantised cimport lane_survivors, pair_survivors, quantise
from sklearn_sparsepost._kernels._topl cimport weakest
from sklearn_sparsepost._kernels._types cimport floating

import numpy as np

# Rows that lengths are kept of come in multiples of this.
STEP = 64

cdef extern from *:
    """
    /* The longest distance that a byte tells, times that of a row's components at most. */
    static const float SPARSEPOST_REACH = 4;
    /* A component is looked at until its squares are so many times what there is room for: one that
       is only just ruled out would be looked at again in the next pass. */
    static const float SPARSEPOST_MARGIN = 1.25f;
    /* Above every sum of squares. */
    static const float SPARSEPOST_NO_BOUND = 3e38f;
    """
    const float REACH "SPARSEPOST_REACH"
    const float MARGIN "SPARSEPOST_MARGIN"
    const float NO_BOUND "SPARSEPOST_NO_BOUND"

cdef enum:
    LATER_LANES = 16  # columns that are looked at together


cdef struct Lengths:  # of a block's rows
    float *inverse  # how many units of their lengths 1 is
    float *scale  # what makes of these units those of the row's numbers
    float *per_root  # what makes of roots of squares, in units of row and component, lengths
    # Of the rows that a component is looked at for:
    int *listed  # their numbers
    float *room  # for squares
    float *left  # what is left of it, and of the margin, by row


def best_weights_again(
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
    const unsigned char[:, ::1] known,  # IN
    float[::1] shrink,  # IN/OUT
    float[::1] shift,  # IN/OUT
    float[::1] unit,  # IN/OUT
    unsigned char[:, ::1] lengths,  # OUT
    int[:, ::1] index,  # IN/OUT
    floating[:, ::1] weight,  # OUT
    int block=8192,  # IN
):
    """The L largest weights of each row, as `mixture.best_weights` finds them.

    Parameters
    ----------
    rows, factors, offset, constant, white, order, white_factors, scale, slack, origin, stages
        As for `mixture.best_weights`; with zeros in `white_factors` up to a multiple of 16 columns.
    known : ndarray of shape (K, n_rows or more), uint8
        What was found of lengths before; of shape (0, 0) if nothing was.
    shrink, shift : ndarray of shape (K,), float32
        A length is at least `shrink`, not more than 1, times what its byte says, less `shift`: of
        those that are known, and of the result.
    unit : ndarray of shape (n_rows or more,), float32
        What one is of each row's lengths in bytes; overwritten if nothing was known.
    lengths : ndarray of shape (K, n_rows or more), uint8
        Overwritten by what is found of lengths; like `known`, with `n_rows` rounded up to a
        multiple of `STEP`.
    index : ndarray of shape (n_rows, L), int32
        Different components to begin with; those of the result, in no order.
    weight : ndarray of shape (n_rows, L)
        Overwritten by the result's weights.
    block : int, default=8192
        Rows at a time, a multiple of `STEP`.

    Returns
    -------
    n_bounds, n_exact : int
        How many pairs were bounded beyond what was known of them, and computed.
    """
    cdef int n_rows = <int>rows.shape[0], K = <int>constant.shape[0], L = <int>index.shape[1]
    cdef int P = <int>white_factors.shape[1], above = origin > 0, first, g, k, n
    cdef bint is_first = known.shape[0] == 0
    cdef int n_first = min(P, (above + stages[0] + 1) // 2)
    cdef Py_ssize_t n_bounds = 0, n_exact = 0
    cdef Bounds of = Bounds(
        K=K, n_pairs=P, W=<int>white_factors.shape[2], origin=origin, above=above,
        n_stages=<int>stages.shape[0], stages=&stages[0], order=&order[0], constant=&constant[0],
        factors=<const int *>&white_factors[0, 0, 0, 0], scale=&scale[0], slack=&slack[0, 0],
    )
    cdef Block b
    cdef size_t n_bytes = lay_out(&b, NULL, block, n_first, P, L, K, sizeof(floating))
    cdef unsigned char[::1] memory = np.empty(n_bytes, np.uint8)
    lay_out(&b, <char *>&memory[0], block, n_first, P, L, K, sizeof(floating))
    cdef float[:, ::1] by_row = np.zeros((5, block + STEP), np.float32)
    cdef int[::1] listed = np.empty(block + STEP, np.int32)  # what comes after the last is written
    cdef Lengths of_rows = Lengths(
        inverse=&by_row[0, 0], scale=&by_row[1, 0], per_root=&by_row[2, 0], room=&by_row[3, 0],
        left=&by_row[4, 0], listed=&listed[0],
    )
    cdef unsigned char *now
    # So far off that bytes are better written anew, in which they are rounded down.
    cdef unsigned char[::1] settles = (
        (np.asarray(shrink) < 0.5) | (np.asarray(shift) > 0.5 * np.sqrt(rows.shape[1]))
    ).astype(np.uint8)
    with nogil:
        first = -block
        while first + block < n_rows:
            first += block
            b.first = first
            b.n = min(block, n_rows - first)
            weigh_first(rows, factors, offset, constant, &b, index, weight)
            n_exact += b.n * L
            _take_rows(&of, &b, &of_rows, white, index, weight, is_first, &unit[first])
            for g in range(K):
                k = order[g]
                now = &lengths[k, first]
                if is_first:
                    _measure(&of, &b, &of_rows, g, now)
                n = _list_rows(
                    &of, &b, &of_rows, g, shrink[k], shift[k], settles[k],
                    now if is_first else &known[k, first], now,
                )
                n_bounds += n
                if n and settles[k]:
                    n = _bound_rows(&of, &b, &of_rows, g, n, 1, 0, now)
                elif n:
                    n = _bound_rows(&of, &b, &of_rows, g, n, shrink[k], shift[k], now)
                n_exact += n
                if n:
                    weigh_survivors(rows, factors, offset, constant[k], &b, 0, k, index, weight)
        for k in range(K):
            if settles[k]:
                shrink[k] = 1
                shift[k] = 0
    return n_bounds, n_exact


cdef inline void _take_rows(
    const Bounds *of, Block *b, Lengths *of_rows, const float[:, ::1] white,
    const int[:, ::1] index, const floating[:, ::1] weight, bint is_first, float *unit
) noexcept nogil:
    """What the search knows of the rows of a block, which stay in their order."""
    cdef int D = <int>white.shape[1], L = <int>index.shape[1], P = of.n_pairs, i, row
    cdef float units, least, largest = of.constant[of.order[0]]
    for i in range(b.n):
        row = b.first + i
        b.row[i] = row
        units = quantise(
            &white[row, 0], D, of.origin, of.above, <short *>(b.white + <Py_ssize_t>i * P), 2 * P
        )
        least = low_weight(weight[row, weakest(&weight[row, 0], &index[row, 0], L)])
        b.square[i] = units * units
        b.need[i] = 2 * (1 + WIDER) * least * b.square[i]
        if is_first:
            unit[i] = REACH / MOST_LENGTH * sqrtf(max(2 * (largest - least), <float>D))
        of_rows.inverse[i] = 1 / unit[i]
        of_rows.scale[i] = unit[i] * units
        of_rows.per_root[i] = 1 / (of_rows.scale[i] * sqrtf(1 + WIDER))
    if is_first:
        transpose_rows(b, P)


cdef inline void _measure(
    const Bounds *of, Block *b, Lengths *of_rows, int g, unsigned char *out
) noexcept nogil:
    """Lengths of all rows in a component's metric, by the first columns."""
    cdef int t = -TILE, count, i
    cdef float most[TILE]
    cdef float squares[TILE + LATER_LANES]
    cdef int number[TILE + LATER_LANES]
    for i in range(TILE):
        most[i] = NO_BOUND
    while t + TILE < b.n:
        t += TILE
        count = min(TILE, b.n - t)
        lane_survivors(
            b.feature + <Py_ssize_t>t * b.deep, TILE, count, of.n_pairs,
            of.factors + <Py_ssize_t>g * of.n_pairs * of.W, of.W, of.stages[0], of.above, most,
            False, 0, number, squares, 0,
        )
        note_lengths(
            squares, count, of.slack[g * of.n_stages], of_rows.per_root + t, 1 / of.scale[g],
            out + t,
        )


cdef inline int _list_rows(
    const Bounds *of, Block *b, Lengths *of_rows, int g, float shrink, float shift, bint settles,
    const unsigned char *known, unsigned char *now
) noexcept nogil:
    """Rows that a component is not ruled out for by known lengths, and did not begin with it."""
    cdef int k = of.order[g], i, at, n, held = 0
    cdef int user = b.stop[k - 1] if k > 0 else 0
    cdef float room = room_for(of.constant[k]), per_unit = of.scale[g] * of.scale[g]
    cdef float slack = of.slack[(g + 1) * of.n_stages - 1]
    n = within_reach(
        known, b.n, shrink, shift, settles, of_rows.inverse, of_rows.scale, room, b.square,
        b.need, slack / per_unit, now, of_rows.listed, of_rows.room,
    )
    for i in range(n):
        at = of_rows.listed[i]
        while user < b.stop[k] and b.user[user] < b.first + at:
            user += 1
        if user < b.stop[k] and b.user[user] == b.first + at:
            continue
        of_rows.listed[held] = b.survivor[held] = at
        of_rows.room[held] = of_rows.room[i] * per_unit
        b.left[held] = MARGIN * of_rows.room[held]
        held += 1
    return held


cdef inline int _bound_rows(
    const Bounds *of, Block *b, Lengths *of_rows, int g, int n, float shrink, float shift,
    unsigned char *now
) noexcept nogil:
    """Listed rows that a component is not ruled out for; notes what is found of all of them."""
    cdef const int *factor = of.factors + <Py_ssize_t>g * of.n_pairs * of.W
    cdef float slack = of.slack[(g + 1) * of.n_stages - 1]
    cdef float per_root = ROUNDED_DOWN / of.scale[g], per_shrink = ROUNDED_DOWN / shrink
    cdef float length, square
    cdef int stage, begin, end = 0, i, at, held = n
    for stage in range(of.n_stages):
        begin = end
        end = (of.stages[stage] + LATER_LANES - 1) // LATER_LANES * LATER_LANES
        held = pair_survivors(
            b.white, held, of.n_pairs, factor + begin, of.W, end - begin, of.above + begin, 0,
            b.survivor, b.left, of_rows.left,
        )
    held = 0
    for i in range(n):
        at = of_rows.listed[i]
        b.survivor[held] = at
        held += of_rows.left[at] >= (MARGIN - 1) * of_rows.room[i]
        square = (MARGIN - ROUNDING) * of_rows.room[i] - of_rows.left[at] - slack
        length = sqrtf(max(square, <float>0)) * of_rows.per_root[at] * per_root
        length = (length + shift * of_rows.inverse[at]) * per_shrink
        if length > now[at]:
            now[at] = <unsigned char>min(length, <float>MOST_LENGTH)
    b.n_survivors[0] = held
    return held
