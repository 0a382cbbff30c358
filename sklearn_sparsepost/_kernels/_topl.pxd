# Exact selection of the L largest weights (Hughes & Sudderth 2016, Alg. 1), of mixtures and topics.
from sklearn_sparsepost._kernels._types cimport floating


cdef enum:
    STRIDE = 16


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
    cdef int j, k = L, worst
    cdef floating least, largest
    for j in range(L):
        index[j] = j
        value[j] = weight[j]
    if L == n:
        return
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
