# The search for each row's L best components without weighing all, for `_mixture.pyx`.
#
# It rests on a bound. With a triangular factor of the precision the quadratic form is a sum of
# squares of which the first p need the first p features only: those of the marginal distribution.
# A part of the sum bounds the log weight from above, and a component whose bound lies below a row's
# L-th best weight so far cannot be among its L best. The features are principal axes, largest
# first, the same for all components. Bounds are in single precision, their rounding allowed for.
from libc.math cimport fabs
from libc.string cimport memset

from sklearn_sparsepost._kernels._scratch cimport take
from sklearn_sparsepost._kernels._squares cimport lane_squares, row_squares
from sklearn_sparsepost._kernels._topl cimport weakest
from sklearn_sparsepost._kernels._types cimport floating

cdef extern from *:
    """
    /* Relative rounding of single precision, well above sqrt(n_features) units; and by how much the
       room for squares is widened, so that the square of a sum, room and rounding, splits into two
       terms: (a + b)^2 <= (1 + WIDER) a^2 + (1 + 1 / WIDER) b^2. */
    static const float SPARSEPOST_ROUNDING = 1e-6f;
    static const float SPARSEPOST_WIDER = 1e-3f;
    /* Where no room is needed any more. */
    static const float SPARSEPOST_LEAST = -1e30f;
    """
    const float ROUNDING "SPARSEPOST_ROUNDING"
    const float WIDER "SPARSEPOST_WIDER"
    const float LEAST "SPARSEPOST_LEAST"

cdef extern from "_survivors.h" nogil:
    int keep_rows(
        const float *excess, const float *partial, int n, int first, int *row, float *total,
        int held,
    )

cdef enum:
    TILE = 256  # rows that components are compared with, a group at a time: both stay in cache
    GROUP = 16


# ---------------------------------------------------------------- rows and bounds

cdef struct Bounds:  # what the search knows of the components, by falling constant
    int K
    int D
    int W  # columns of a factor
    int n_stages
    const int *stages
    const int *order
    const double *constant  # not in this order
    const float *factors
    const float *offset
    const float *size
    const float *offset_size


cdef struct Block:  # rows that are searched together
    int first  # among all rows
    int n
    int held  # how many of the sorted rows the next components may matter to
    int stride  # between features
    int pitch  # between lists of survivors
    # By row, sorted by rising L-th best weight.
    int *row  # its number
    double *least  # that weight
    float *low  # that weight so far, rounded down
    float *white
    float *norm  # squared length of `white`
    float *feature  # the first columns of `white`, transposed
    # By component of a group: the rows whose weights are not ruled out, and their squares so far.
    int n_survivors[GROUP]
    int *survivor
    float *total
    # Rows by the components that they began with: `pair` up to each component's `stop`.
    int *stop
    int *pair
    int *component
    # Scratch memory of one component.
    int *where
    float *partial
    float *excess
    void *squares


# ---------------------------------------------------------------- order, room

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


cdef inline void _sort(double *key, int *value, int n) noexcept nogil:
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


cdef inline void by_component(
    const int *component, int n, int K, int *stop, int *order
) noexcept nogil:
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


# ---------------------------------------------------------------- steps

cdef inline size_t lay_out(
    Block *b, char *memory, int size, int n_first, int L, int K, int D, size_t itemsize
) noexcept nogil:
    """Cut scratch memory for `size` rows into arrays; returns how much that takes."""
    cdef size_t used = 0
    b.stride = (size + TILE - 1) // TILE * TILE
    b.pitch = size + 16  # what comes after the last survivor is written, too
    b.row = <int *>take(memory, &used, size * sizeof(int))
    b.least = <double *>take(memory, &used, size * sizeof(double))
    b.low = <float *>take(memory, &used, size * sizeof(float))
    b.white = <float *>take(memory, &used, <size_t>size * D * sizeof(float))
    b.norm = <float *>take(memory, &used, size * sizeof(float))
    b.feature = <float *>take(memory, &used, <size_t>n_first * b.stride * sizeof(float))
    b.survivor = <int *>take(memory, &used, <size_t>GROUP * b.pitch * sizeof(int))
    b.total = <float *>take(memory, &used, <size_t>GROUP * b.pitch * sizeof(float))
    b.where = <int *>take(memory, &used, size * sizeof(int))
    b.stop = <int *>take(memory, &used, K * sizeof(int))
    b.pair = <int *>take(memory, &used, <size_t>size * L * sizeof(int))
    b.component = <int *>take(memory, &used, <size_t>size * L * sizeof(int))
    b.partial = <float *>take(memory, &used, b.stride * sizeof(float))
    b.excess = <float *>take(memory, &used, TILE * sizeof(float))
    b.squares = take(memory, &used, size * itemsize)
    if memory != NULL:
        memset(b.feature, 0, <size_t>n_first * b.stride * sizeof(float))
    return used


cdef inline void weigh_first(
    const floating[:, ::1] rows, const floating[:, :, ::1] factors, const floating[:, ::1] offset,
    const double[::1] constant, Block *b, const int[:, ::1] index, floating[:, ::1] weight
) noexcept nogil:
    """Weights of the components that the rows begin with, component by component."""
    cdef int D = <int>rows.shape[1], K = <int>constant.shape[0], W = <int>factors.shape[2]
    cdef int L = <int>index.shape[1], i, k, count, slot, begin = 0
    cdef floating *squares = <floating *>b.squares
    by_component(&index[b.first, 0], b.n * L, K, b.stop, b.pair)
    for k in range(K):
        count = b.stop[k] - begin
        if count:
            for i in range(count):
                b.where[i] = b.first + b.pair[begin + i] // L
            row_squares(
                &rows[0, 0], b.where, count, D, &factors[k, 0, 0], W, W, &offset[k, 0], 0, squares
            )
            for i in range(count):
                slot = b.pair[begin + i]
                weight[b.first + slot // L, slot % L] = constant[k] - 0.5 * squares[i]
        begin = b.stop[k]


cdef inline void sort_rows(
    Block *b, const float[:, ::1] white, int n_first, int K, const int[:, ::1] index,
    const floating[:, ::1] weight
) noexcept nogil:
    """Rows by rising L-th best weight: those that a component may matter to come first."""
    cdef int D = <int>white.shape[1], L = <int>index.shape[1], i, j, row
    cdef float length
    cdef const float *x
    for i in range(b.n):
        row = b.first + i
        b.least[i] = weight[row, weakest(&weight[row, 0], &index[row, 0], L)]
        b.row[i] = row
    _sort(b.least, b.row, b.n)
    _gather(&white[0, 0], b.row, b.n, D, b.white)
    for i in range(b.n):
        x = b.white + <Py_ssize_t>i * D
        length = 0
        for j in range(D):
            length += x[j] * x[j]
        for j in range(n_first):
            b.feature[<Py_ssize_t>j * b.stride + i] = x[j]
        b.norm[i] = length
        b.low[i] = _low(b.least[i])
        for j in range(L):
            b.component[i * L + j] = index[b.row[i], j]
    by_component(b.component, b.n * L, K, b.stop, b.pair)
    b.held = b.n


cdef inline void bound_group(
    const Bounds *of, Block *b, int g, int width, int L
) noexcept nogil:
    """The rows that the first columns do not rule out, for each component of a group.

    Those that have the component already are left out, too.
    """
    cdef int t = -TILE, i, k, c, count, n_columns = of.stages[0]
    cdef int known[GROUP]  # where, among the pairs of rows and components, the next row is
    cdef float room, by_length, twice = 2 * (1 + WIDER)
    cdef float *partial = b.partial
    cdef float *excess = b.excess
    cdef const float *low
    cdef const float *norm
    for k in range(width):
        b.n_survivors[k] = 0
        c = of.order[g + k]
        known[k] = b.stop[c - 1] if c > 0 else 0
    while t + TILE < b.held:
        t += TILE
        count = min(TILE, b.held - t)
        low = b.low + t
        norm = b.norm + t
        for k in range(width):
            c = of.order[g + k]
            lane_squares(
                b.feature + t, b.stride, count, of.D,
                of.factors + <Py_ssize_t>(g + k) * of.D * of.W, of.W, n_columns,
                of.offset + <Py_ssize_t>(g + k) * of.W, partial,
            )
            _room(
                of.constant[c], n_columns, of.size[g + k], of.offset_size[g + k],
                &room, &by_length,
            )
            for i in range(count):
                excess[i] = partial[i] + twice * low[i] - room - by_length * norm[i]
            while known[k] < b.stop[c] and b.pair[known[k]] // L < t + TILE:
                excess[b.pair[known[k]] // L - t] = 1
                known[k] += 1
            b.n_survivors[k] = keep_rows(
                excess, partial, count, t, b.survivor + <Py_ssize_t>k * b.pitch,
                b.total + <Py_ssize_t>k * b.pitch, b.n_survivors[k],
            )


cdef inline void bound_further(const Bounds *of, Block *b, int g, int k) noexcept nogil:
    """Of the survivors of a component, those that more columns do not rule out either."""
    cdef int stage, begin, i, t, count, s = b.n_survivors[k]
    cdef float length, room, by_length, twice = 2 * (1 + WIDER)
    cdef int *survivor = b.survivor + <Py_ssize_t>k * b.pitch
    cdef float *total = b.total + <Py_ssize_t>k * b.pitch
    cdef float *partial = b.partial
    cdef const float *low = b.low
    cdef const float *norm = b.norm
    cdef const float *factor = of.factors + <Py_ssize_t>(g + k) * of.D * of.W
    cdef const float *offset = of.offset + <Py_ssize_t>(g + k) * of.W
    for stage in range(1, of.n_stages):
        if s == 0:
            break
        begin = of.stages[stage - 1]
        row_squares(
            b.white, survivor, s, of.D, factor + begin, of.W, of.stages[stage] - begin,
            offset + begin, begin, partial,
        )
        _room(
            of.constant[of.order[g + k]], of.stages[stage], of.size[g + k],
            of.offset_size[g + k], &room, &by_length,
        )
        count = s
        s = 0
        for i in range(count):
            t = survivor[i]
            length = total[i] + partial[i]
            survivor[s] = t
            total[s] = length
            s += length + twice * low[t] <= room + by_length * norm[t]
    b.n_survivors[k] = s


cdef inline void weigh_survivors(
    const floating[:, ::1] rows, const floating[:, :, ::1] factors, const floating[:, ::1] offset,
    double constant, Block *b, int k, int component, int[:, ::1] index, floating[:, ::1] weight
) noexcept nogil:
    """Weights of a component, which enter the lists that they are large enough for."""
    cdef int D = <int>rows.shape[1], W = <int>factors.shape[2], L = <int>index.shape[1]
    cdef int i, row, slot, n = b.n_survivors[k]
    cdef int *survivor = b.survivor + <Py_ssize_t>k * b.pitch
    cdef floating w
    cdef floating *squares = <floating *>b.squares
    for i in range(n):
        b.where[i] = b.row[survivor[i]]
    row_squares(
        &rows[0, 0], b.where, n, D, &factors[component, 0, 0], W, W, &offset[component, 0], 0,
        squares,
    )
    for i in range(n):
        w = constant - 0.5 * squares[i]
        row = b.where[i]
        slot = weakest(&weight[row, 0], &index[row, 0], L)
        if w > weight[row, slot] or (w == weight[row, slot] and component < index[row, slot]):
            weight[row, slot] = w
            index[row, slot] = component
            slot = weakest(&weight[row, 0], &index[row, 0], L)
            b.low[survivor[i]] = _low(weight[row, slot])
