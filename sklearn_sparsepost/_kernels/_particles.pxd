"""Particles of sequential estimates."""


cdef inline void count_copies(
    const double *weight, int n, double total, double u, int *n_copies
) noexcept nogil:
    """How many copies each of n particles has after systematic resampling by a uniform number."""
    cdef int r, chosen = 0
    cdef double step = total / n, reached = 0, point = u * step
    for r in range(n):
        reached += weight[r]
        n_copies[r] = 0
        while chosen < n and (point < reached or r == n - 1):
            n_copies[r] += 1
            chosen += 1
            point += step
