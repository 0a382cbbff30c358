# Scratch memory in one piece, cut into arrays.

cdef enum:
    LINE = 64  # bytes of a line of cache


cdef inline void *take(char *memory, size_t *used, size_t n_bytes) noexcept nogil:
    """The next bytes, from a line of cache on; without memory NULL, and `used` says how much."""
    cdef size_t at = used[0]
    used[0] = at + (n_bytes + LINE - 1) // LINE * LINE
    return NULL if memory == NULL else memory + at
