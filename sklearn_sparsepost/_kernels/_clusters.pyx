"""Hard clusters of rows: the nearest centres, their sums, and merges that gain evidence.

* `nearest_centres`: in single precision, and again in double where that leaves doubt;
* `draw_far_rows`: rows to begin with, by k-means++;
* `label_sums`: sums and squares of the rows of each cluster;
* `log_evidence`, `merge_clusters`: Gaussian clusters, and those of pairs that gain most by it.
"""
from libc.math cimport log, rint
from libc.stdlib cimport qsort

from sklearn_sparsepost._kernels._math cimport gammaln
from sklearn_sparsepost._kernels._scratch cimport take
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
    FACTORS = 8  # so many multiplied have one logarithm: each may be 1e38

# Below it squares in single precision lose digits, and sums of many of them.
cdef float LEAST_SQUARE = 1e-30
# The least variance of a cluster, that of all being 1: duplicates have none.
cdef double LEAST_VARIANCE = 1e-6
# Gains are equal within this part of the largest: sums have an order.
cdef double ROUNDING = 1e-9
# Stands for 0 where it divides.
cdef double TINY = 2.2250738585072014e-308
cdef double LOG_PI = 1.1447298858494002


# ---------------------------------------------------------------- rows


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


# ---------------------------------------------------------------- evidence


cdef struct Gaussians:
    int D  # features
    int A  # of these, axes of matrices
    int F  # columns of variances
    int shared  # features that have one variance in common
    double prior_matrix  # what log gamma functions of the priors come to
    double prior_variance
    double *count
    double *means
    double *second
    double *further
    double *value


cdef Gaussians _gaussians(
    double[::1] count, double[:, ::1] means, double[:, :, ::1] second, double[:, ::1] further,
    double[::1] value,
):
    """What all functions of clusters know of them."""
    cdef Gaussians c
    c.D = <int>means.shape[1]
    c.A = <int>second.shape[1]
    c.F = <int>further.shape[1]
    c.shared = (c.D - c.A) // c.F if c.F else 1
    c.prior_matrix = _gammaln_sum(0.5 * (c.A + 2), c.A)
    c.prior_variance = gammaln(1.5 * c.shared)
    c.count = &count[0]
    c.means = &means[0, 0]
    c.second = &second[0, 0, 0] if c.A else c.means  # whatever is there, it is not read
    c.further = &further[0, 0] if c.F else c.means
    c.value = &value[0]
    return c


cdef double _gammaln_sum(double x, int n) noexcept nogil:
    """log Gamma(x) + log Gamma(x - 1/2) + ..., n terms, of which each second is a step of 1."""
    cdef int begin, i, m
    cdef double total = 0, y
    for begin in range(min(2, n)):
        m = (n - begin + 1) // 2
        y = x - 0.5 * begin - (m - 1)  # the last, and log Gamma(y + 1) = log Gamma(y) + log y
        total += m * gammaln(y)
        for i in range(m - 1):
            total += (m - 1 - i) * log(y + i)
    return total


cdef double _evidence(
    const Gaussians *c, double count, double *matrix, const double *further
) noexcept nogil:
    """Log evidence of a cluster's rows and of their being in it; destroys the upper `matrix`."""
    cdef double value = gammaln(count)
    if c.A:
        value += _matrix_evidence(c, count, matrix)
    if c.F:
        value += _variance_evidence(c, count, further)
    return value


cdef double _matrix_evidence(const Gaussians *c, double count, double *matrix) noexcept nogil:
    """Of features that have a covariance matrix."""
    cdef int A = c.A, i, j, k
    cdef double prior = A + 2, nu = prior + count - 1, spread = 0, log_det, scale, part = 1
    cdef double factor, inverse
    cdef double *row
    cdef double *below
    for i in range(A):
        spread += matrix[i * A + i]
    scale = prior * max(spread / (count * A), LEAST_VARIANCE)
    for i in range(A):
        matrix[i * A + i] += scale
    log_det = A * log(scale)
    for i in range(A):
        row = matrix + i * A
        row[i] = max(row[i], scale)  # less by rounding only
        part *= row[i] / scale
        if i % FACTORS == FACTORS - 1 or i == A - 1:
            log_det += log(part)
            part = 1
        inverse = 1 / row[i]
        for j in range(i + 1, A):
            factor = row[j] * inverse
            below = matrix + j * A
            for k in range(j, A):
                below[k] -= factor * row[k]
    return (
        _gammaln_sum(0.5 * nu, A) - c.prior_matrix + 0.5 * prior * A * log(scale)
        - 0.5 * nu * log_det - 0.5 * A * (log(count) + (count - 1) * LOG_PI)
    )


cdef double _variance_evidence(
    const Gaussians *c, double count, const double *further
) noexcept nogil:
    """Of features that have variances of their own, or share one."""
    cdef int F = c.F, shared = c.shared, j
    cdef double prior = 3, nu = prior + count - 1, spread = 0, log_det, scale, part = 1
    cdef double n_features = <double>F * shared
    for j in range(F):
        spread += further[j]
    scale = shared * prior * max(spread / (count * n_features), LEAST_VARIANCE)
    log_det = F * log(scale)
    for j in range(F):
        part *= 1 + further[j] / scale
        if j % FACTORS == FACTORS - 1 or j == F - 1:
            log_det += log(part)
            part = 1
    return (
        F * (gammaln(0.5 * shared * nu) - c.prior_variance)
        + 0.5 * prior * n_features * log(scale) - 0.5 * nu * shared * log_det
        - 0.5 * n_features * (log(count) + (count - 1) * LOG_PI)
    )


def log_evidence(
    double[::1] count,  # IN
    double[:, ::1] means,  # IN
    double[:, :, ::1] second,  # IN
    double[:, ::1] further,  # IN
    double[::1] value,  # OUT
):
    r"""Log evidence of clusters, plus log Gamma(count): of their rows, and of their labels.

    Parameters
    ----------
    count : ndarray of shape (K,)
        Weights of the clusters; those of no weight have no evidence, and get 0.
    means : ndarray of shape (K, D)
        Their means.
    second : ndarray of shape (K, A, A)
        Scatter matrices of the first A features; A may be 0.
    further : ndarray of shape (K, F)
        Scatter of the others: one by one, or their sum, F = 1; 0 if there are none.
    value : ndarray of shape (K,)
        Overwritten.
    """
    cdef Py_ssize_t k
    if count.shape[0] == 0:
        return
    cdef Gaussians c = _gaussians(count, means, second, further, value)
    cdef double[::1] matrix = np.empty(max(c.A * c.A, 1))
    with nogil:
        for k in range(count.shape[0]):
            value[k] = 0
            if count[k] > 0:
                _copy(c.second + k * c.A * c.A, c.A * c.A, &matrix[0])
                value[k] = _evidence(&c, count[k], &matrix[0], c.further + k * c.F)


cdef void _copy(const double *source, int n, double *out) noexcept nogil:
    cdef int i
    for i in range(n):
        out[i] = source[i]


# ---------------------------------------------------------------- merges


cdef struct Pair:
    double gain
    double rank  # the gain without the digits in which equal ones differ
    int one  # one < two
    int two


cdef int _by_rank(const void *a, const void *b) noexcept nogil:
    """The largest rank first, then as by clusters."""
    cdef const Pair *p = <const Pair *>a
    cdef const Pair *q = <const Pair *>b
    if p.rank != q.rank:
        return 1 if p.rank < q.rank else -1
    return _by_clusters(a, b)


cdef int _by_clusters(const void *a, const void *b) noexcept nogil:
    cdef const Pair *p = <const Pair *>a
    cdef const Pair *q = <const Pair *>b
    if p.one != q.one:
        return 1 if p.one > q.one else -1
    return (p.two > q.two) - (p.two < q.two)


def merge_clusters(
    double[::1] count,  # IN/OUT
    double[:, ::1] means,  # IN/OUT
    double[:, :, ::1] second,  # IN/OUT
    double[:, ::1] further,  # IN/OUT
    double[::1] value,  # IN/OUT
    const int[:, ::1] pairs,  # IN
    int most,  # IN
    Py_ssize_t[::1] target,  # IN/OUT
):
    """Merge pairs that gain most, a third of what there are too many at a time.

    Parameters
    ----------
    count, means, second, further, value
        Of clusters, as for :func:`log_evidence`; what a cluster became is where the first of its
        parts was.
    pairs : ndarray of shape (n_pairs, 2), int32
        Different clusters of some weight that may become one, the lower first, each pair once;
        also with what is merged with them.
    most : int
        How many merges, at most.
    target : ndarray of shape (K,), intp
        The cluster that each is in, itself at first.

    Returns
    -------
    n_merges : int
        How many were made: fewer if no pairs were left.
    """
    cdef int K = <int>count.shape[0], n_pairs = <int>pairs.shape[0], i, n_merges = 0, left, k
    if n_pairs == 0:
        return 0
    cdef Gaussians c = _gaussians(count, means, second, further, value)
    cdef size_t used = 0
    cdef unsigned char[::1] memory = np.empty(
        n_pairs * sizeof(Pair) + K * (sizeof(int) + 1) + (c.A * c.A + c.F) * sizeof(double) + 320,
        np.uint8,
    )
    cdef char *begin = <char *>&memory[0]
    cdef Pair *list_ = <Pair *>take(begin, &used, n_pairs * sizeof(Pair))
    cdef double *matrix = <double *>take(begin, &used, c.A * c.A * sizeof(double))
    cdef double *variances = <double *>take(begin, &used, c.F * sizeof(double))
    cdef int *moves = <int *>take(begin, &used, K * sizeof(int))
    cdef char *changed = <char *>take(begin, &used, K)
    with nogil:
        for i in range(n_pairs):
            list_[i].one = pairs[i, 0]
            list_[i].two = pairs[i, 1]
            list_[i].gain = _gain(&c, list_[i].one, list_[i].two, matrix, variances)
        while n_merges < most and n_pairs > 0:
            for k in range(K):
                moves[k] = k
                changed[k] = 0
            _rank(list_, n_pairs)
            left = 1 + (most - n_merges) // 3
            for i in range(n_pairs):
                if changed[list_[i].one] or changed[list_[i].two]:
                    continue
                _merge(&c, list_[i].one, list_[i].two, matrix)
                moves[list_[i].two] = list_[i].one
                changed[list_[i].one] = changed[list_[i].two] = 1
                n_merges += 1
                left -= 1
                if left == 0:
                    break
            for k in range(K):
                target[k] = moves[target[k]]
            n_pairs = _renamed(list_, n_pairs, moves)
            if n_merges < most:
                for i in range(n_pairs):
                    if changed[list_[i].one] or changed[list_[i].two]:
                        list_[i].gain = _gain(&c, list_[i].one, list_[i].two, matrix, variances)
    return n_merges


cdef void _rank(Pair *pairs, int n) noexcept nogil:
    """Sort pairs, the largest gain first."""
    cdef double unit = TINY
    cdef int i
    for i in range(n):
        unit = max(unit, pairs[i].gain, -pairs[i].gain)
    unit *= ROUNDING
    unit = max(unit, TINY)
    for i in range(n):
        pairs[i].rank = rint(pairs[i].gain / unit)
    qsort(pairs, n, sizeof(Pair), _by_rank)


cdef int _renamed(Pair *pairs, int n, const int *moves) noexcept nogil:
    """Pairs under the new numbers of clusters, sorted and once each; returns how many."""
    cdef int i, one, two, held = 0, kept = 0
    for i in range(n):
        one = moves[pairs[i].one]
        two = moves[pairs[i].two]
        if one == two:
            continue
        pairs[held] = pairs[i]
        pairs[held].one = min(one, two)
        pairs[held].two = max(one, two)
        held += 1
    qsort(pairs, held, sizeof(Pair), _by_clusters)
    for i in range(held):
        if i == 0 or _by_clusters(&pairs[kept - 1], &pairs[i]) != 0:
            pairs[kept] = pairs[i]
            kept += 1
    return kept


cdef double _unite(
    const Gaussians *c, int one, int two, double *matrix, double *further
) noexcept nogil:
    """The weight of a union, the upper half of its scatter matrix, and its further scatter."""
    cdef int D = c.D, A = c.A, F = c.F, i, j
    cdef double count = c.count[one] + c.count[two]
    cdef double share = c.count[one] * (c.count[two] / count), gap, spread
    cdef const double *mean = c.means + <Py_ssize_t>one * D
    cdef const double *other = c.means + <Py_ssize_t>two * D
    cdef const double *second = c.second + <Py_ssize_t>one * A * A
    cdef const double *added = c.second + <Py_ssize_t>two * A * A
    for i in range(A):
        spread = share * (other[i] - mean[i])
        for j in range(i, A):
            matrix[i * A + j] = second[i * A + j] + added[i * A + j] + spread * (other[j] - mean[j])
    for j in range(F):
        further[j] = c.further[<Py_ssize_t>one * F + j] + c.further[<Py_ssize_t>two * F + j]
    if c.shared == 1:
        for j in range(F):
            gap = other[A + j] - mean[A + j]
            further[j] += share * gap * gap
    else:
        for j in range(A, D):
            gap = other[j] - mean[j]
            further[0] += share * gap * gap
    return count


cdef double _gain(
    const Gaussians *c, int one, int two, double *matrix, double *further
) noexcept nogil:
    """What evidence gains if two clusters become one."""
    cdef double count = _unite(c, one, two, matrix, further)
    return _evidence(c, count, matrix, further) - c.value[one] - c.value[two]


cdef void _merge(Gaussians *c, int one, int two, double *matrix) noexcept nogil:
    """Put the second cluster into the first."""
    cdef int A = c.A, D = c.D, i, j
    cdef double *second = c.second + <Py_ssize_t>one * A * A
    cdef double *mean = c.means + <Py_ssize_t>one * D
    cdef double *further = c.further + <Py_ssize_t>one * c.F
    cdef double count = _unite(c, one, two, second, further), share = c.count[two] / count
    for i in range(A):
        for j in range(i):
            second[i * A + j] = second[j * A + i]
    for i in range(D):
        mean[i] += share * (c.means[<Py_ssize_t>two * D + i] - mean[i])
    c.count[one] = count
    _copy(second, A * A, matrix)
    c.value[one] = _evidence(c, count, matrix, further)
