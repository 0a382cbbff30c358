# Exact selection of the L largest weights (Hughes & Sudderth 2016, Alg. 1), of mixtures and topics.
from sklearn_sparsepost._kernels._types cimport floating


cdef enum:
    STRIDE = 16
    FEW = 8  # up to so many are selected without branches
    CANDIDATES = 32  # among so many
    ENOUGH = 20  # of fewer, few are not among the first


cdef inline int weakest(const floating *value, const int *index, int L) noexcept nogil:
    """Position of the entry to give up first: the least value, of equals the highest index."""
    cdef int j, worst = 0
    for j in range(1, L):
        if value[j] < value[worst] or (value[j] == value[worst] and index[j] > index[worst]):
            worst = j
    return worst


cdef inline void select_topl(
    const floating *weight, int n, int L, int *index, floating *value
) noexcept nogil:
    """The L largest of n weights (L <= n), in no particular order; ties go to the lowest index."""
    cdef int j
    if L == n:
        for j in range(L):
            index[j] = j
            value[j] = weight[j]
    elif L > FEW or n < ENOUGH or not _select_few(weight, n, L, index, value):
        _select_many(weight, n, L, index, value)


cdef inline bint _select_few(
    const floating *weight, int n, int L, int *index, floating *value
) noexcept nogil:
    """The same by counting how many weights are above each; False if too many might be among them.

    Weights below the L-th of sixteen, each the largest of a part, are not.
    """
    cdef int number[CANDIDATES + STRIDE]
    cdef floating kept[CANDIDATES + STRIDE]
    cdef int above[CANDIDATES]
    cdef int order[CANDIDATES]
    cdef floating x, least = _lower_bound(weight, n, L) if n > CANDIDATES else weight[0]
    cdef int i, j, k = 0, last, held = 0
    if n <= CANDIDATES:
        for j in range(n):
            number[j] = j
            kept[j] = weight[j]
        held = n
    while k < n and n > CANDIDATES:
        last = k + STRIDE if k + STRIDE < n else n
        for j in range(k, last):
            number[held] = j
            kept[held] = weight[j]
            held += weight[j] >= least
        if held > CANDIDATES:
            return False
        k = last
    for j in range(held, CANDIDATES):
        kept[j] = least
    for j in range(CANDIDATES):
        above[j] = 0
    for i in range(held):
        x = kept[i]
        for j in range(CANDIDATES):
            above[j] += (x > kept[j]) | ((x == kept[j]) & (i < j))
    for j in range(held):
        order[above[j]] = j
    for j in range(L):
        index[j] = number[order[j]]
        value[j] = kept[order[j]]
    return True


cdef inline floating _lower_bound(const floating *weight, int n, int L) noexcept nogil:
    """The L-th largest of sixteen weights, those that are largest among every sixteenth."""
    cdef floating top[STRIDE]
    cdef int above[STRIDE]
    cdef int i, j, k = STRIDE
    cdef floating x, least
    for j in range(STRIDE):
        top[j] = weight[j]
        above[j] = 0
    while k + STRIDE <= n:
        for j in range(STRIDE):
            x = weight[k + j]
            top[j] = x if x > top[j] else top[j]
        k += STRIDE
    for j in range(n - k):
        x = weight[k + j]
        top[j] = x if x > top[j] else top[j]
    for i in range(STRIDE):
        x = top[i]
        for j in range(STRIDE):
            above[j] += x > top[j]
    least = top[0]
    for i in range(STRIDE):
        least = top[i] if top[i] > least else least
    for j in range(STRIDE):
        x = top[j] if above[j] < L else least
        least = x if x < least else least
    return least


cdef inline void _select_many(
    const floating *weight, int n, int L, int *index, floating *value
) noexcept nogil:
    """The same, one after another."""
    cdef int j, k = L, worst
    cdef floating least, largest
    for j in range(L):
        index[j] = j
        value[j] = weight[j]
    worst = weakest(value, index, L)
    least = value[worst]
    while k + STRIDE <= n:  # most strides hold nothing large enough: one vector comparison
        largest = weight[k]
        for j in range(1, STRIDE):
            largest = weight[k + j] if weight[k + j] > largest else largest
        if largest > least:
            for j in range(k, k + STRIDE):
                if weight[j] > least:  # an equal weight of a higher index never enters
                    index[worst] = j
                    value[worst] = weight[j]
                    worst = weakest(value, index, L)
                    least = value[worst]
        k += STRIDE
    for j in range(k, n):
        if weight[j] > least:
            index[worst] = j
            value[worst] = weight[j]
            worst = weakest(value, index, L)
            least = value[worst]
