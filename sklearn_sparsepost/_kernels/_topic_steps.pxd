# One iteration of a document's coordinate ascent, for `_topic_documents.pyx`: topic weights from
# the topics' masses, and new masses from the responsibilities of the words.
#
# A word keeps all active topics in `dense_step`, and its L best in `sparse_step`. `rows` lists
# which rows of the block of m words belong to the n active topics.
from sklearn_sparsepost._kernels._math cimport exp_nonpos, expdigamma_large, shift_up
from sklearn_sparsepost._kernels._topl cimport select_topl
from sklearn_sparsepost._kernels._types cimport floating


cdef inline void prior_weights(
    const floating *mass, const floating *alpha, int n, floating *weight, floating *shifted
) noexcept nogil:
    """exp(E[log pi]) up to a factor: exp(psi(mass + alpha)), the largest kept from underflow."""
    cdef int a
    cdef floating y, least
    for a in range(n):
        weight[a] = shift_up(mass[a] + alpha[a], &y)
        shifted[a] = y
    least = weight[0]
    for a in range(n):
        least = weight[a] if weight[a] < least else least
    for a in range(n):
        weight[a] = expdigamma_large(shifted[a]) * exp_nonpos(least - weight[a])


cdef inline void dense_step(
    const floating *block, Py_ssize_t m, const int *rows, int n, const floating *weight,
    const floating *count, floating *norm, floating *ratio, floating *mass
) noexcept nogil:
    """Responsibilities of all active topics, summed to topic masses: two block products."""
    cdef Py_ssize_t i
    cdef int a = 0
    cdef const floating *b0
    cdef const floating *b1
    cdef const floating *b2
    cdef const floating *b3
    cdef floating p0, p1, p2, p3
    for i in range(m):
        norm[i] = 0
    while a + 4 <= n:
        b0 = block + rows[a] * m
        b1 = block + rows[a + 1] * m
        b2 = block + rows[a + 2] * m
        b3 = block + rows[a + 3] * m
        p0, p1, p2, p3 = weight[a], weight[a + 1], weight[a + 2], weight[a + 3]
        for i in range(m):
            norm[i] += p0 * b0[i] + p1 * b1[i] + p2 * b2[i] + p3 * b3[i]
        a += 4
    while a < n:
        b0 = block + rows[a] * m
        p0 = weight[a]
        for i in range(m):
            norm[i] += p0 * b0[i]
        a += 1
    for i in range(m):
        ratio[i] = count[i] / norm[i]
    a = 0
    while a + 4 <= n:
        b0 = block + rows[a] * m
        b1 = block + rows[a + 1] * m
        b2 = block + rows[a + 2] * m
        b3 = block + rows[a + 3] * m
        p0 = p1 = p2 = p3 = 0
        for i in range(m):
            p0 += b0[i] * ratio[i]
            p1 += b1[i] * ratio[i]
            p2 += b2[i] * ratio[i]
            p3 += b3[i] * ratio[i]
        mass[a] = p0 * weight[a]
        mass[a + 1] = p1 * weight[a + 1]
        mass[a + 2] = p2 * weight[a + 2]
        mass[a + 3] = p3 * weight[a + 3]
        a += 4
    while a < n:
        b0 = block + rows[a] * m
        p0 = 0
        for i in range(m):
            p0 += b0[i] * ratio[i]
        mass[a] = p0 * weight[a]
        a += 1


cdef inline void sparse_step(
    const floating *block, Py_ssize_t m, const int *rows, int n, const floating *weight,
    const floating *count, int n_words, int L, floating *column, int *index, floating *resp,
    floating *norm, floating *mass
) noexcept nogil:
    """L-sparse responsibilities (times counts) of every word, summed to topic masses."""
    cdef int u, a, j
    cdef floating total
    for a in range(n):
        mass[a] = 0
    for u in range(n_words):
        for a in range(n):
            column[a] = block[rows[a] * m + u] * weight[a]
        select_topl(column, n, L, index + u * L, resp + u * L)
        total = 0
        for j in range(L):
            total += resp[u * L + j]
        norm[u] = total
        total = count[u] / total
        for j in range(L):
            resp[u * L + j] *= total
            mass[index[u * L + j]] += resp[u * L + j]


cdef inline floating largest_change(
    const floating *new, const floating *old, int n
) noexcept nogil:
    cdef int a
    cdef floating change, largest = 0
    for a in range(n):
        change = new[a] - old[a]
        change = change if change > 0 else -change
        largest = change if change > largest else largest
    return largest
