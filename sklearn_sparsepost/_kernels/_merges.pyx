"""Gaussian clusters: their evidence, and merges of those that gain most by it.

Clusters are judged eight at a time, their numbers side by side.
"""
from libc.math cimport rint
from libc.stdlib cimport qsort

from sklearn_sparsepost._kernels._math cimport gammaln, log_pos
from sklearn_sparsepost._kernels._scratch cimport LINE, take

import numpy as np

cdef extern from * nogil:
    """
    /* Eliminates a feature of eight matrices side by side from the upper halves for the n features
       after it; `row` has their products with it, and `inverse` its own one's. */
    static void sparsepost_eliminate(double *__restrict rest, const double *__restrict row,
                                     const double *__restrict inverse, int n)
    {
        double factor[8];
        for (int j = 0; j < n; j++) {
            for (int lane = 0; lane < 8; lane++)
                factor[lane] = row[8 * j + lane] * inverse[lane];
            for (int k = j; k < n; k++, rest += 8)
                for (int lane = 0; lane < 8; lane++)
                    rest[lane] -= factor[lane] * row[8 * k + lane];
        }
    }
    """
    void sparsepost_eliminate(double *rest, const double *row, const double *inverse, int n)

cdef enum:
    LANES = 8  # clusters that are judged together
    FACTORS = 8  # so many multiplied have one logarithm: each may be 1e38
    FEW_FACTORS = 4  # and of such that are factorials

# The least variance of a cluster, that of all being 1: duplicates have none.
cdef double LEAST_VARIANCE = 1e-6
# Gains are equal within this part of the largest: sums have an order.
cdef double ROUNDING = 1e-9
# Two halves of one Gaussian, cut apart, gain 0.187 nats a row when they merge: log 2 for their
# labels, less log(1 / (1 - 2 / pi)) / 2 for their width.
cdef double HALVES_GAIN = 0.15
# Stands for 0 where it divides.
cdef double TINY = 2.2250738585072014e-308
cdef double LOG_PI = 1.1447298858494002


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
    cdef double total = 0, y, factor, part
    for begin in range(min(2, n)):
        m = (n - begin + 1) // 2
        y = x - 0.5 * begin - (m - 1)  # the last; log Gamma(y + i) adds i logs, of y and of ratios
        total += m * gammaln(y) + 0.5 * m * (m - 1) * log_pos(y)
        factor = part = 1
        for i in range(1, m):
            part *= factor
            factor *= 1 + i / y
            if i % FEW_FACTORS == 0 or i == m - 1:
                total += log_pos(part)
                part = 1
    return total


cdef void _evidence(
    const Gaussians *c, const double *count, double *matrix, const double *further, double *value
) noexcept nogil:
    """Log evidence of the rows of `LANES` clusters and of their being in them; destroys `matrix`.

    In all arrays the clusters' numbers are side by side. Of matrices there are the upper halves.
    """
    cdef int lane
    for lane in range(LANES):
        value[lane] = gammaln(count[lane])
    if c.A:
        _add_matrix_evidence(c, count, matrix, value)
    if c.F:
        _add_variance_evidence(c, count, further, value)


cdef void _add_matrix_evidence(
    const Gaussians *c, const double *count, double *matrix, double *value
) noexcept nogil:
    """Of features that have a covariance matrix."""
    cdef int A = c.A, i, lane
    cdef double prior = A + 2, nu
    cdef double[LANES] scale, unit, log_det, part, inverse
    cdef double *row = matrix
    for lane in range(LANES):
        scale[lane] = 0
    for i in range(A):
        for lane in range(LANES):
            scale[lane] += row[lane]
        row += (A - i) * LANES
    for lane in range(LANES):
        scale[lane] = prior * max(scale[lane] / (count[lane] * A), LEAST_VARIANCE)
        unit[lane] = 1 / scale[lane]
        log_det[lane] = A * log_pos(scale[lane])
        part[lane] = 1
    row = matrix
    for i in range(A):
        for lane in range(LANES):
            row[lane] += scale[lane]
        row += (A - i) * LANES
    row = matrix
    for i in range(A):
        for lane in range(LANES):
            row[lane] = max(row[lane], scale[lane])  # less by rounding only
            part[lane] *= row[lane] * unit[lane]
            inverse[lane] = 1 / row[lane]
        if i % FACTORS == FACTORS - 1 or i == A - 1:
            for lane in range(LANES):
                log_det[lane] += log_pos(part[lane])
                part[lane] = 1
        sparsepost_eliminate(row + (A - i) * LANES, row + LANES, inverse, A - i - 1)
        row += (A - i) * LANES
    for lane in range(LANES):
        nu = prior + count[lane] - 1
        value[lane] += (
            _gammaln_sum(0.5 * nu, A) - c.prior_matrix + 0.5 * prior * A * log_pos(scale[lane])
            - 0.5 * nu * log_det[lane]
            - 0.5 * A * (log_pos(count[lane]) + (count[lane] - 1) * LOG_PI)
        )


cdef void _add_variance_evidence(
    const Gaussians *c, const double *count, const double *further, double *value
) noexcept nogil:
    """Of features that have variances of their own, or share one."""
    cdef int F = c.F, shared = c.shared, j, lane
    cdef double prior = 3, n_features = <double>F * shared, nu
    cdef double[LANES] scale, unit, log_det, part
    for lane in range(LANES):
        scale[lane] = 0
    for j in range(F):
        for lane in range(LANES):
            scale[lane] += further[j * LANES + lane]
    for lane in range(LANES):
        scale[lane] = shared * prior * max(
            scale[lane] / (count[lane] * n_features), LEAST_VARIANCE
        )
        unit[lane] = 1 / scale[lane]
        log_det[lane] = F * log_pos(scale[lane])
        part[lane] = 1
    for j in range(F):
        for lane in range(LANES):
            part[lane] *= 1 + further[j * LANES + lane] * unit[lane]
        if j % FACTORS == FACTORS - 1 or j == F - 1:
            for lane in range(LANES):
                log_det[lane] += log_pos(part[lane])
                part[lane] = 1
    for lane in range(LANES):
        nu = prior + count[lane] - 1
        value[lane] += (
            F * (gammaln(0.5 * shared * nu) - c.prior_variance)
            + 0.5 * prior * n_features * log_pos(scale[lane])
            - 0.5 * nu * shared * log_det[lane]
            - 0.5 * n_features * (log_pos(count[lane]) + (count[lane] - 1) * LOG_PI)
        )


cdef struct Lanes:  # numbers of LANES clusters or unions, side by side, and their evidence
    double *count
    double *matrix
    double *further
    double *value


cdef Lanes _lanes(const Gaussians *c, char *memory, size_t *used) noexcept nogil:
    """Places for them."""
    cdef Lanes lanes
    cdef size_t size = LANES * sizeof(double)
    lanes.count = <double *>take(memory, used, size)
    lanes.value = <double *>take(memory, used, size)
    lanes.matrix = <double *>take(memory, used, c.A * (c.A + 1) // 2 * size)
    lanes.further = <double *>take(memory, used, c.F * size)
    return lanes


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
    cdef int K = <int>count.shape[0], group, first, lane, k
    if K == 0:
        return
    cdef Gaussians c = _gaussians(count, means, second, further, value)
    cdef size_t used = 0
    _lanes(&c, NULL, &used)
    cdef unsigned char[::1] memory = np.empty(used, np.uint8)
    cdef char *begin = <char *>&memory[0]
    used = 0
    cdef Lanes lanes = _lanes(&c, begin, &used)
    with nogil:
        for group in range((K + LANES - 1) // LANES):
            first = group * LANES
            for lane in range(LANES):
                _put(&c, min(first + lane, K - 1), lane, &lanes)
            _evidence(&c, lanes.count, lanes.matrix, lanes.further, lanes.value)
            for k in range(first, min(first + <int>LANES, K)):
                value[k] = lanes.value[k - first] if count[k] > 0 else 0


cdef void _put(const Gaussians *c, int k, int lane, Lanes *lanes) noexcept nogil:
    """Put a cluster into a lane."""
    cdef int A = c.A, i, j
    cdef double *matrix = lanes.matrix + lane
    cdef const double *second = c.second + <Py_ssize_t>k * A * A
    lanes.count[lane] = c.count[k] if c.count[k] > 0 else 1  # its evidence is not read
    for i in range(A):
        for j in range(i, A):
            matrix[0] = second[i * A + j]
            matrix += LANES
    for j in range(c.F):
        lanes.further[j * LANES + lane] = c.further[<Py_ssize_t>k * c.F + j]


# ---------------------------------------------------------------- merges


cdef struct Pair:
    double gain
    double rank  # the gain without the digits in which equal ones differ
    int one  # one < two
    int two
    bint late  # whether all that are not merge first


cdef int _by_rank(const void *a, const void *b) noexcept nogil:
    """What is not late first, of these the largest rank, then as by clusters."""
    cdef const Pair *p = <const Pair *>a
    cdef const Pair *q = <const Pair *>b
    if p.late != q.late:
        return 1 if p.late else -1
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
    double heavy,  # IN
    Py_ssize_t[::1] target,  # IN/OUT
):
    """Merge pairs that gain most, a third of what there are too many at a time.

    Unions that are heavy come after all others, but where they gain nearly as much a row as the
    halves of one Gaussian do: what is densest is seldom Gaussian, and has use for several.

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
    heavy : float
        The weight above which a union is heavy.
    target : ndarray of shape (K,), intp
        The cluster that each is in, itself at first.

    Returns
    -------
    n_merges : int
        How many were made: fewer if no pairs were left.
    """
    cdef int K = <int>count.shape[0], n_pairs = <int>pairs.shape[0], n_merges = 0
    cdef int before, left, i, k
    if n_pairs == 0:
        return 0
    cdef Gaussians c = _gaussians(count, means, second, further, value)
    cdef size_t used = 0
    _lanes(&c, NULL, &used)
    cdef unsigned char[::1] memory = np.empty(
        used + n_pairs * sizeof(Pair) + K * (sizeof(int) + 1) + 3 * LINE, np.uint8
    )
    cdef char *begin = <char *>&memory[0]
    used = 0
    cdef Lanes lanes = _lanes(&c, begin, &used)
    cdef Pair *list_ = <Pair *>take(begin, &used, n_pairs * sizeof(Pair))
    cdef int *moves = <int *>take(begin, &used, K * sizeof(int))
    cdef char *changed = <char *>take(begin, &used, K)
    with nogil:
        for i in range(n_pairs):
            list_[i].one = pairs[i, 0]
            list_[i].two = pairs[i, 1]
        for k in range(K):
            changed[k] = 1
        _judge(&c, list_, n_pairs, changed, heavy, &lanes)
        while n_merges < most and n_pairs > 0:
            for k in range(K):
                moves[k] = k
                changed[k] = 0
            _rank(list_, n_pairs)
            left = 1 + (most - n_merges) // 3
            before = n_merges
            for i in range(n_pairs - 1, -1, -1):
                _best_to(list_, i)
                if changed[list_[i].one] or changed[list_[i].two]:
                    continue
                if list_[i].late and n_merges > before:  # others may become possible
                    break
                _merge(&c, &list_[i], &lanes)
                moves[list_[i].two] = list_[i].one
                changed[list_[i].one] = changed[list_[i].two] = 1
                n_merges += 1
                left -= 1
                if left == 0:
                    break
            for k in range(K):
                target[k] = moves[target[k]]
            n_pairs = _renamed(list_, n_pairs, moves, changed)
            if n_merges < most:
                _judge(&c, list_, n_pairs, changed, heavy, &lanes)
    return n_merges


cdef void _rank(Pair *pairs, int n) noexcept nogil:
    """Make a heap of pairs, the largest gain first."""
    cdef double unit = TINY
    cdef int i
    for i in range(n):
        unit = max(unit, pairs[i].gain, -pairs[i].gain)
    unit *= ROUNDING
    unit = max(unit, TINY)
    for i in range(n):
        pairs[i].rank = rint(pairs[i].gain / unit)
    for i in range(n // 2 - 1, -1, -1):
        _sink(pairs, i, n, pairs[i])


cdef void _best_to(Pair *pairs, int last) noexcept nogil:
    """Move the first of a heap behind the others, which remain one."""
    cdef Pair pair = pairs[last]
    pairs[last] = pairs[0]
    _sink(pairs, 0, last, pair)


cdef void _sink(Pair *pairs, int i, int n, Pair pair) noexcept nogil:
    """Put a pair where it belongs below a place of a heap that is empty."""
    cdef int below = 2 * i + 1
    while below < n:
        if below + 1 < n and _by_rank(&pairs[below + 1], &pairs[below]) < 0:
            below += 1
        if _by_rank(&pair, &pairs[below]) <= 0:
            break
        pairs[i] = pairs[below]
        i = below
        below = 2 * i + 1
    if i < n:
        pairs[i] = pair


cdef int _renamed(Pair *pairs, int n, const int *moves, const char *changed) noexcept nogil:
    """Pairs under the new numbers of clusters, once each; returns how many."""
    cdef int i = 0, end = n, one, two, kept
    cdef Pair pair
    while i < end:  # those of changed clusters, of which some are equal now, go to the end
        if not changed[pairs[i].one] and not changed[pairs[i].two]:
            i += 1
            continue
        end -= 1
        pair = pairs[i]
        pairs[i] = pairs[end]
        one = moves[pair.one]
        two = moves[pair.two]
        pair.one = min(one, two)
        pair.two = max(one, two)
        pairs[end] = pair
    qsort(pairs + end, n - end, sizeof(Pair), _by_clusters)
    kept = end
    for i in range(end, n):
        if pairs[i].one == pairs[i].two:
            continue
        if kept == end or _by_clusters(&pairs[kept - 1], &pairs[i]) != 0:
            pairs[kept] = pairs[i]
            kept += 1
    return kept


cdef void _judge(
    const Gaussians *c, Pair *pairs, int n, const char *changed, double heavy, Lanes *lanes
) noexcept nogil:
    """Find what evidence gains by the pairs of which a cluster has changed."""
    cdef double count
    cdef int[LANES] which
    cdef int held = 0, i, lane
    cdef Pair *pair
    for i in range(n):
        if changed[pairs[i].one] or changed[pairs[i].two]:
            which[held] = i
            _unite(c, pairs[i].one, pairs[i].two, held, lanes)
            held += 1
        if held == LANES or (held and i == n - 1):
            for lane in range(held, LANES):
                _unite(c, pairs[which[0]].one, pairs[which[0]].two, lane, lanes)
            _evidence(c, lanes.count, lanes.matrix, lanes.further, lanes.value)
            for lane in range(held):
                pair = &pairs[which[lane]]
                pair.gain = lanes.value[lane] - c.value[pair.one] - c.value[pair.two]
                count = lanes.count[lane]
                pair.late = count > heavy and pair.gain < HALVES_GAIN * count
            held = 0


cdef void _unite(const Gaussians *c, int one, int two, int lane, Lanes *lanes) noexcept nogil:
    """Put the union of two clusters into a lane."""
    cdef int D = c.D, A = c.A, F = c.F, i, j
    cdef double count = c.count[one] + c.count[two]
    cdef double share = c.count[one] * (c.count[two] / count), gap, spread
    cdef double *matrix = lanes.matrix + lane
    cdef double *further = lanes.further + lane
    cdef const double *mean = c.means + <Py_ssize_t>one * D
    cdef const double *other = c.means + <Py_ssize_t>two * D
    cdef const double *second = c.second + <Py_ssize_t>one * A * A
    cdef const double *added = c.second + <Py_ssize_t>two * A * A
    lanes.count[lane] = count
    for i in range(A):
        spread = share * (other[i] - mean[i])
        for j in range(i, A):
            matrix[0] = second[i * A + j] + added[i * A + j] + spread * (other[j] - mean[j])
            matrix += LANES
    for j in range(F):
        further[j * LANES] = (
            c.further[<Py_ssize_t>one * F + j] + c.further[<Py_ssize_t>two * F + j]
        )
    for j in range(A, D):
        gap = other[j] - mean[j]
        further[((j - A) if c.shared == 1 else 0) * LANES] += share * gap * gap


cdef void _merge(Gaussians *c, const Pair *pair, Lanes *lanes) noexcept nogil:
    """Put the second cluster into the first."""
    cdef int A = c.A, D = c.D, F = c.F, one = pair.one, two = pair.two, i, j
    cdef double *second = c.second + <Py_ssize_t>one * A * A
    cdef double *mean = c.means + <Py_ssize_t>one * D
    cdef double *matrix = lanes.matrix
    _unite(c, one, two, 0, lanes)
    cdef double share = c.count[two] / lanes.count[0]
    for i in range(A):
        for j in range(i, A):
            second[i * A + j] = second[j * A + i] = matrix[0]
            matrix += LANES
    for j in range(F):
        c.further[<Py_ssize_t>one * F + j] = lanes.further[j * LANES]
    for i in range(D):
        mean[i] += share * (c.means[<Py_ssize_t>two * D + i] - mean[i])
    c.count[one] = lanes.count[0]
    c.value[one] += c.value[two] + pair.gain
