"""Walker's alias tables: a draw from n weights in constant time, built in linear time.

Column j of a table is drawn with probability 1 / n; it stands for itself with probability
``share[j]`` and for ``other[j]`` otherwise (Walker 1977, built as by Vose 1991).
"""


cdef struct Column:  # of a table: all that a draw reads, side by side
    float share
    int own  # what the column stands for
    int other


cdef inline double alias_build(
    const double *weight, int n, float *share, int *other, int *order
) noexcept nogil:
    """Build the table of n weights and return their sum; a weight of zero is never drawn.

    `order` is scratch of length n. A sum of zero leaves a table that must not be drawn from.
    """
    cdef int j, large, small, n_small = 0, first_large = n, heaviest = 0
    cdef double total = 0, scale, rest
    for j in range(n):
        total += weight[j]
        heaviest = j if weight[j] > weight[heaviest] else heaviest
    if not total > 0:
        return 0
    scale = n / total
    for j in range(n):
        rest = weight[j] * scale
        share[j] = <float>rest
        other[j] = heaviest
        if rest < 1:
            order[n_small] = j
            n_small += 1
        else:
            first_large -= 1
            order[first_large] = j
    while first_large < n:
        large = order[first_large]
        rest = weight[large] * scale  # in double until it is used up
        while n_small and rest >= 1:
            n_small -= 1
            small = order[n_small]
            other[small] = large
            rest -= 1 - <double>share[small]
        first_large += 1
        if rest >= 1 or first_large == n:
            share[large] = 1  # nothing small is left, or only what rounding makes small
        else:
            share[large] = <float>rest
            order[n_small] = large
            n_small += 1
    return total


cdef inline int alias_draw(const float *share, const int *other, int n, double u) noexcept nogil:
    """The column that a uniform number u in [0, 1) stands for."""
    cdef double x = u * n
    cdef int j = <int>x
    j = j if j < n else n - 1
    return j if x - j < share[j] else other[j]
