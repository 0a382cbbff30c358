"""Uniform and normal numbers, many at a time, in loops that compilers turn into vectors.

Eight streams xoshiro256+ (`_uniform.pxd`) side by side, begun at eight blocks of a keyed stream; a
number comes from the same stream on every processor, however wide its vectors are.
"""
from libc.math cimport M_PI, sqrt
from libc.stdint cimport uint64_t

from sklearn_sparsepost._kernels._math cimport log_pos
from sklearn_sparsepost._kernels._rng cimport KeyedStream, keyed_next_uint64

cdef extern from * nogil:
    """
    #include <string.h>
    /* A double in [1, 2) from the upper 52 bits: vectors of integers do not all turn to doubles. */
    static inline double sp_one_to_two(unsigned long long word) {
        unsigned long long bits = (word >> 12) | 0x3ff0000000000000ULL; double out;
        memcpy(&out, &bits, sizeof out); return out;
    }
    """
    double sp_one_to_two(uint64_t word)

cdef enum:
    N_LANES = 8
    MANY = 32  # numbers that are drawn at a time

cdef struct Lanes:
    uint64_t a[N_LANES]
    uint64_t b[N_LANES]
    uint64_t c[N_LANES]
    uint64_t d[N_LANES]


cdef inline void lanes_init(Lanes *lanes, KeyedStream *stream) noexcept nogil:
    """Begin at what a keyed stream says next."""
    cdef int i
    for i in range(N_LANES):
        lanes.a[i] = keyed_next_uint64(stream)
        lanes.b[i] = keyed_next_uint64(stream)
        lanes.c[i] = keyed_next_uint64(stream)
        lanes.d[i] = keyed_next_uint64(stream)


cdef inline void lanes_uniform(Lanes *lanes, double *out, int n) noexcept nogil:
    """Numbers in (0, 1], multiples of 2**-52; `n` is a multiple of `N_LANES`."""
    cdef int block, first, i
    cdef uint64_t shifted
    for block in range(n // N_LANES):
        first = block * N_LANES
        for i in range(N_LANES):
            out[first + i] = 2 - sp_one_to_two(lanes.a[i] + lanes.d[i])
        for i in range(N_LANES):
            shifted = lanes.b[i] << 17
            lanes.c[i] ^= lanes.a[i]
            lanes.d[i] ^= lanes.b[i]
            lanes.b[i] ^= lanes.c[i]
            lanes.a[i] ^= lanes.d[i]
            lanes.c[i] ^= shifted
            lanes.d[i] = (lanes.d[i] << 45) | (lanes.d[i] >> 19)


cdef inline void lanes_normal(Lanes *lanes, double *out) noexcept nogil:
    """`MANY` standard normal numbers, by the transformation of Box & Muller (1958)."""
    cdef double u[MANY]
    cdef double v, size, a, square, sine, cosine, x, y
    cdef int i
    lanes_uniform(lanes, u, MANY)
    for i in range(MANY // 2):
        size = sqrt(-2 * log_pos(u[i]))
        # The angle: in a quarter of the circle about 0, mirrored into the others.
        v = u[MANY // 2 + i]
        x = v - 0.5 if v > 0.5 else v
        y = x - 0.25 if x > 0.25 else x
        a = (4 * y - 0.5) * (0.5 * M_PI)
        square = a * a
        sine = a * (1 - square * (1. / 6 - square * (1. / 120 - square * (1. / 5040 - square * (
            1. / 362880 - square * (1. / 39916800 - square * (
                1. / 6227020800. - square / 1307674368000.)))))))
        cosine = 1 - square * (0.5 - square * (1. / 24 - square * (1. / 720 - square * (
            1. / 40320 - square * (1. / 3628800 - square * (
                1. / 479001600 - square / 87178291200.))))))
        size = -size if v > 0.5 else size
        out[i] = size * (sine if x > 0.25 else cosine)
        out[MANY // 2 + i] = size * (cosine if x > 0.25 else sine)
