# The search for each row's L best components without weighing all, for `_mixture.pyx`.
#
# It rests on a bound. With a triangular factor of the precision the quadratic form is a sum of
# squares of which the first p need the first p features only: those of the marginal distribution.
# A part of the sum bounds the log weight from above, and a component whose bound lies below a row's
# L-th best weight so far cannot be among its L best. The features are principal axes, largest
# first, the same for all components. Bounds are in 16-bit integers, their rounding allowed for.
from libc.math cimport fabs
from libc.string cimport memcpy, memset

from sklearn_sparsepost._kernels._quantised cimport lane_survivors, pair_survivors, quantise
from sklearn_sparsepost._kernels._scratch cimport take
from sklearn_sparsepost._kernels._squares cimport row_squares
from sklearn_sparsepost._kernels._topl cimport weakest
from sklearn_sparsepost._kernels._types cimport floating

cdef extern from *:
    """
    /* Relative rounding of single precision, well above sqrt(n_features) units; and by how much the
       room for squares is widened, so that the square of a sum, room and rounding, splits into two
       terms: (a + b)^2 <= (1 + WIDER) a^2 + (1 + 1 / WIDER) b^2. */
    static const float SPARSEPOST_ROUNDING = 1e-6f;
    static const float SPARSEPOST_WIDER = 4e-3f;
    /* Where no room is needed any more. */
    static const float SPARSEPOST_LEAST = -1e30f;
    """
    const float ROUNDING "SPARSEPOST_ROUNDING"
    const float WIDER "SPARSEPOST_WIDER"
    const float LEAST "SPARSEPOST_LEAST"

cdef enum:
    TILE = 256  # rows that components are compared with, a group at a time: both stay in cache
    GROUP = 16
    LINE = 16  # numbers of a line of cache


# ---------------------------------------------------------------- rows and bounds

cdef struct Bounds:  # what the search knows of the components, by falling constant
    int K
    int n_pairs  # of features
    int W  # columns of a factor
    float origin  # a feature before the others that all rows have, if there is one
    int above
    int n_stages
    const int *stages
    const int *order
    const double *constant  # not in this order
    const int *factors  # in 16-bit integers, two of them an int
    const float *scale  # units
    const float *slack  # by stage: what rounding may add to squares, in units of rows and factors


cdef struct Block:  # rows that are searched together
    int first  # among all rows
    int n
    int held  # how many of the sorted rows the next components may matter to
    int deep  # the first pairs of features
    int pitch  # between lists of survivors
    # By row, a tile's alike and tiles by rising L-th best weight.
    int *row  # its number
    float *square  # of units
    float *need  # what that weight so far, rounded down, takes of the room for squares, in units
    float *needed  # the same when the group of components began
    int *white
    int *feature  # the first pairs of `white`, transposed tile by tile
    float *least  # of the rows of a tile
    # By component of a group: the rows whose weights are not ruled out, and their room for squares.
    int n_survivors[GROUP]
    int *survivor
    float *left
    # Rows by the components that they began with: `user` up to each component's `stop`.
    int *stop
    int *user
    int *pair  # their number among pairs of a row and a component
    int *component
    # Scratch memory of the sort, by row as they come.
    int *unsorted
    float *units
    float *key
    float *near
    int *spare
    # Scratch memory of one component.
    int *where
    float *most
    void *squares


# ---------------------------------------------------------------- order, room

cdef inline unsigned _digit(float key, int shift) noexcept nogil:
    """Eight bits of a number that rises with `key`."""
    cdef unsigned bits
    memcpy(&bits, &key, sizeof(float))
    bits ^= ~<unsigned>0 if bits >> 31 else <unsigned>1 << 31
    return bits >> shift & 255


cdef inline void _sort(
    const float *key, int *value, int *spare, int n, int first
) noexcept nogil:
    """Sorts `value` by rising key[value], of which the last `first` bits are not looked at.

    What is equal stays as it came.
    """
    cdef int stop[256]
    cdef int i, shift, total, count
    for shift in range(first, 32, 8):
        memset(stop, 0, sizeof(stop))
        for i in range(n):
            stop[_digit(key[value[i]], shift)] += 1
        total = 0
        for i in range(256):  # for now where they begin
            count = stop[i]
            stop[i] = total
            total += count
        for i in range(n):
            count = _digit(key[value[i]], shift)
            spare[stop[count]] = value[i]
            stop[count] += 1
        memcpy(value, spare, n * sizeof(int))


cdef inline void _begin_components(
    const int *component, int n, int K, int *stop
) noexcept nogil:
    """Where the pairs of each component begin, once they are sorted."""
    cdef int i, k, begin = 0, count
    for k in range(K):
        stop[k] = 0
    for i in range(n):
        stop[component[i]] += 1
    for k in range(K):
        count = stop[k]
        stop[k] = begin
        begin += count


cdef inline void by_component(
    const int *component, int n, int K, int *stop, int *order
) noexcept nogil:
    """Numbers of pairs sorted by component, and where those of each component stop."""
    cdef int i
    _begin_components(component, n, K, stop)
    for i in range(n):
        order[stop[component[i]]] = i
        stop[component[i]] += 1


cdef inline void rows_by_component(
    const int *component, int n, int L, int K, int first, int *stop, int *row, int *order
) noexcept nogil:
    """The same of L pairs a row: the rows of the sorted pairs, numbered from `first`.

    Their numbers are written to `order`, unless it is NULL.
    """
    cdef int i, j, at
    _begin_components(component, n * L, K, stop)
    for i in range(n):
        for j in range(L):
            at = stop[component[j]]
            stop[component[j]] += 1
            row[at] = first + i
            if order != NULL:
                order[at] = i * L + j
        component += L


cdef inline float low_weight(double weight) noexcept nogil:
    return <float>max(weight - ROUNDING * fabs(weight), LEAST)


cdef inline float room_for(double constant) noexcept nogil:
    """The squares that a component may have for a row: room - 2 (1 + WIDER) low, in units of 1."""
    return <float>(2 * (1 + WIDER) * (constant + ROUNDING * fabs(constant)))


# ---------------------------------------------------------------- steps

cdef inline size_t lay_out(
    Block *b, char *memory, int size, int n_first, int n_pairs, int L, int K, size_t itemsize
) noexcept nogil:
    """Cut scratch memory for `size` rows into arrays; returns how much that takes."""
    cdef size_t used = 0
    cdef int n_tiles = (size + TILE - 1) // TILE
    b.deep = n_first
    b.pitch = size + 16  # what comes after the last survivor is written, too
    b.row = <int *>take(memory, &used, size * sizeof(int))
    b.square = <float *>take(memory, &used, size * sizeof(float))
    b.need = <float *>take(memory, &used, size * sizeof(float))
    b.needed = <float *>take(memory, &used, size * sizeof(float))
    b.white = <int *>take(memory, &used, <size_t>size * n_pairs * sizeof(int))
    b.feature = <int *>take(memory, &used, <size_t>n_tiles * TILE * n_first * sizeof(int))
    b.least = <float *>take(memory, &used, n_tiles * sizeof(float))
    b.survivor = <int *>take(memory, &used, <size_t>GROUP * b.pitch * sizeof(int))
    b.left = <float *>take(memory, &used, <size_t>GROUP * b.pitch * sizeof(float))
    b.stop = <int *>take(memory, &used, K * sizeof(int))
    b.user = <int *>take(memory, &used, <size_t>size * L * sizeof(int))
    b.pair = <int *>take(memory, &used, <size_t>size * L * sizeof(int))
    b.component = <int *>take(memory, &used, <size_t>size * L * sizeof(int))
    b.unsorted = <int *>take(memory, &used, <size_t>size * n_pairs * sizeof(int))
    b.units = <float *>take(memory, &used, size * sizeof(float))
    b.key = <float *>take(memory, &used, size * sizeof(float))
    b.near = <float *>take(memory, &used, size * sizeof(float))
    b.spare = <int *>take(memory, &used, size * sizeof(int))
    b.where = <int *>take(memory, &used, size * sizeof(int))
    b.most = <float *>take(memory, &used, TILE * sizeof(float))
    b.squares = take(memory, &used, size * itemsize)
    if memory != NULL:
        memset(b.feature, 0, <size_t>n_tiles * TILE * n_first * sizeof(int))
    return used


cdef inline void weigh_first(
    const floating[:, ::1] rows, const floating[:, :, ::1] factors, const floating[:, ::1] offset,
    const double[::1] constant, Block *b, const int[:, ::1] index, floating[:, ::1] weight
) noexcept nogil:
    """Weights of the components that the rows begin with, component by component."""
    cdef int D = <int>rows.shape[1], K = <int>constant.shape[0], W = <int>factors.shape[2]
    cdef int L = <int>index.shape[1], i, k, count, begin = 0
    cdef floating *squares = <floating *>b.squares
    cdef floating *found = &weight[b.first, 0]
    rows_by_component(&index[b.first, 0], b.n, L, K, b.first, b.stop, b.user, b.pair)
    for k in range(K):
        count = b.stop[k] - begin
        if count:
            row_squares(
                &rows[0, 0], b.user + begin, count, D, &factors[k, 0, 0], W, W, &offset[k, 0],
                squares,
            )
            for i in range(count):
                found[b.pair[begin + i]] = constant[k] - 0.5 * squares[i]
        begin = b.stop[k]


cdef inline void transpose_rows(Block *b, int n_pairs) noexcept nogil:
    """The first pairs of features of all rows, tile by tile."""
    cdef int t = -LINE, i, j
    cdef int *tile
    while t + LINE < b.n:  # a line of cache of each feature at a time
        t += LINE
        tile = b.feature + <Py_ssize_t>(t // TILE * TILE) * b.deep + t % TILE
        for j in range(b.deep):
            for i in range(min(LINE, b.n - t)):
                tile[j * TILE + i] = b.white[<Py_ssize_t>(t + i) * n_pairs + j]


cdef inline void sort_rows(
    const Bounds *of, Block *b, const float[:, ::1] white, const int[:, ::1] index,
    const floating[:, ::1] weight
) noexcept nogil:
    """Rows in tiles by rising L-th best weight: those that a component may matter to come first.

    Those of a tile by what the first features contribute, so that neighbours are ruled out alike.
    """
    cdef int D = <int>white.shape[1], L = <int>index.shape[1], P = of.n_pairs, i, j, t, row
    cdef float length
    for i in range(b.n):
        row = b.first + i
        b.key[i] = low_weight(weight[row, weakest(&weight[row, 0], &index[row, 0], L)])
        length = 0
        for j in range(min(D, of.stages[0] // 4)):
            length += white[row, j] * white[row, j]
        b.near[i] = length
        b.units[i] = quantise(
            &white[row, 0], D, of.origin, of.above, <short *>(b.unsorted + <Py_ssize_t>i * P), 2 * P
        )
        b.row[i] = i
    _sort(b.key, b.row, b.spare, b.n, 0)
    for t in range((b.n + TILE - 1) // TILE):
        b.least[t] = b.key[b.row[t * TILE]]
        _sort(b.near, b.row + t * TILE, b.spare, min(TILE, b.n - t * TILE), 16)  # by and large
    for i in range(b.n):
        row = b.row[i]
        memcpy(
            b.white + <Py_ssize_t>i * P, b.unsorted + <Py_ssize_t>row * P, P * sizeof(int)
        )
        b.square[i] = b.units[row] * b.units[row]
        b.need[i] = 2 * (1 + WIDER) * b.key[row] * b.square[i]
        b.row[i] = b.first + row
        for j in range(L):
            b.component[i * L + j] = index[b.row[i], j]
    transpose_rows(b, P)
    rows_by_component(b.component, b.n, L, of.K, 0, b.stop, b.user, NULL)
    b.held = b.n


cdef inline void let_go(const Bounds *of, Block *b, int g) noexcept nogil:
    """Tiles whose rows no component from `g` on matters to: their weights have only risen since."""
    while b.held > 0 and b.least[(b.held - 1) // TILE] > of.constant[of.order[g]]:
        b.held = (b.held - 1) // TILE * TILE


cdef inline void bound_group(
    const Bounds *of, Block *b, int g, int width
) noexcept nogil:
    """The rows that the first columns do not rule out, for each component of a group.

    Those that have the component already are left out, too.
    """
    cdef int t = -TILE, i, k, c, count
    cdef int known[GROUP]  # where, among the users, the next row is
    cdef float room, per_unit, slack
    cdef float *most = b.most
    cdef const float *square
    cdef const float *need
    memcpy(b.needed, b.need, b.held * sizeof(float))
    for k in range(width):
        b.n_survivors[k] = 0
        c = of.order[g + k]
        known[k] = b.stop[c - 1] if c > 0 else 0
    while t + TILE < b.held:
        t += TILE
        count = min(TILE, b.held - t)
        square = b.square + t
        need = b.need + t
        for k in range(width):
            c = of.order[g + k]
            room = room_for(of.constant[c])
            per_unit = of.scale[g + k] * of.scale[g + k]
            slack = of.slack[(g + k) * of.n_stages]
            for i in range(count):
                most[i] = (room * square[i] - need[i]) * per_unit + slack
            for i in range(count, TILE):
                most[i] = -1
            while known[k] < b.stop[c] and b.user[known[k]] < t + TILE:
                most[b.user[known[k]] - t] = -1
                known[k] += 1
            b.n_survivors[k] = lane_survivors(
                b.feature + <Py_ssize_t>t * b.deep, TILE, count, of.n_pairs,
                of.factors + <Py_ssize_t>(g + k) * of.n_pairs * of.W, of.W, of.stages[0], of.above,
                most, True, t, b.survivor + <Py_ssize_t>k * b.pitch,
                b.left + <Py_ssize_t>k * b.pitch, b.n_survivors[k],
            )


cdef inline int _still_needed(
    const Block *b, float per_unit, int *survivor, const float *left, int n
) noexcept nogil:
    """Survivors that have room for squares after other components of the group took some."""
    cdef int i, at, held = 0
    for i in range(n):
        at = survivor[i]
        survivor[held] = at
        held += left[i] >= (b.need[at] - b.needed[at]) * per_unit
    return held


cdef inline void bound_further(const Bounds *of, Block *b, int g, int k) noexcept nogil:
    """Of the survivors of a component, those that more columns do not rule out either."""
    cdef int stage, begin
    cdef const float *slack = of.slack + (g + k) * of.n_stages
    cdef const int *factor = of.factors + <Py_ssize_t>(g + k) * of.n_pairs * of.W
    for stage in range(1, of.n_stages):
        begin = of.stages[stage - 1]
        b.n_survivors[k] = pair_survivors(
            b.white, b.n_survivors[k], of.n_pairs, factor + begin, of.W, of.stages[stage] - begin,
            of.above + begin, slack[stage] - slack[stage - 1],
            b.survivor + <Py_ssize_t>k * b.pitch, b.left + <Py_ssize_t>k * b.pitch, NULL,
        )
    b.n_survivors[k] = _still_needed(
        b, of.scale[g + k] * of.scale[g + k], b.survivor + <Py_ssize_t>k * b.pitch,
        b.left + <Py_ssize_t>k * b.pitch, b.n_survivors[k],
    )


cdef inline void weigh_survivors(
    const floating[:, ::1] rows, const floating[:, :, ::1] factors, const floating[:, ::1] offset,
    double constant, Block *b, int k, int component, int[:, ::1] index, floating[:, ::1] weight
) noexcept nogil:
    """Weights of a component, which enter the lists that they are large enough for."""
    cdef int D = <int>rows.shape[1], W = <int>factors.shape[2], L = <int>index.shape[1]
    cdef int i, at, row, slot, n = b.n_survivors[k]
    cdef int *survivor = b.survivor + <Py_ssize_t>k * b.pitch
    cdef floating w
    cdef floating *squares = <floating *>b.squares
    for i in range(n):
        b.where[i] = b.row[survivor[i]]
    row_squares(
        &rows[0, 0], b.where, n, D, &factors[component, 0, 0], W, W, &offset[component, 0],
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
            at = survivor[i]
            b.need[at] = 2 * (1 + WIDER) * low_weight(weight[row, slot]) * b.square[at]
