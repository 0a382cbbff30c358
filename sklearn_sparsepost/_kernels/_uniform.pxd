"""Uniform numbers for loops that draw them by the million: a stream a key, of four words of state.

A stream begins at the first block of the keyed stream of the same name (`_rng.pxd`) and goes on by
xoshiro256+ [1]_, at a third of the cost of a block of Philox for every four words. Of a period of
2**256 - 1 numbers streams of different names begin at places that are as good as random.

References
----------
.. [1] Blackman, D. and Vigna, S. (2021). Scrambled linear pseudorandom number generators. ACM
   Transactions on Mathematical Software 47(4).
"""
from libc.stdint cimport uint64_t

from sklearn_sparsepost._kernels._rng cimport KeyedStream, keyed_init, keyed_next_uint64


cdef struct Uniform:
    uint64_t a
    uint64_t b
    uint64_t c
    uint64_t d


cdef inline void uniform_init(
    Uniform *stream, uint64_t seed, uint64_t sweep, uint64_t unit
) noexcept nogil:
    """Put a stream at the start of (seed, sweep, unit)."""
    cdef KeyedStream keyed
    keyed_init(&keyed, seed, sweep, unit)
    stream.a = keyed_next_uint64(&keyed)
    stream.b = keyed_next_uint64(&keyed)
    stream.c = keyed_next_uint64(&keyed)
    stream.d = keyed_next_uint64(&keyed)


cdef inline double uniform_next(Uniform *stream) noexcept nogil:
    """The next double in [0, 1), a multiple of 2**-53."""
    cdef uint64_t word = stream.a + stream.d, shifted = stream.b << 17
    stream.c ^= stream.a
    stream.d ^= stream.b
    stream.b ^= stream.c
    stream.a ^= stream.d
    stream.c ^= shifted
    stream.d = (stream.d << 45) | (stream.d >> 19)
    return <double> (word >> 11) * (1.0 / 9007199254740992.0)
