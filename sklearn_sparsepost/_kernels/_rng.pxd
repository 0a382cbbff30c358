"""Counter-keyed random streams, usable in nogil code of any module.

A stream is named by three unsigned 64-bit numbers, (seed, sweep, unit), and
holds the Philox-4x64-10 generator [1]_ with this layout:

    key     = (seed, sweep)
    counter = (block_low, block_high, unit, 0), block counted from 1

The counter is raised before each block, as numpy does, so a stream equals
``numpy.random.Philox(key=[seed, sweep], counter=[0, 0, unit, 0])`` exactly.
The block number wraps within its own two words: the streams of two units of
one (seed, sweep) share no block, for 2**128 blocks of four 64-bit words each.

Every function here is inline and needs neither the GIL nor an import of the
compiled module. A ``KeyedStream`` belongs to one thread at a time.

References
----------
.. [1] Salmon, J. K., Moraes, M. A., Dror, R. O. and Shaw, D. E. (2011).
   Parallel random numbers: as easy as 1, 2, 3. SC '11.
"""
from libc.stdint cimport uint32_t, uint64_t

# Declared from numpy's headers: cimporting numpy.random makes every wheel look up its classes by
# name at import, which broke wheels when numpy 2.4.0 dropped one (numpy#30500)
cdef extern from "numpy/random/bitgen.h":
    ctypedef struct bitgen_t:
        void *state
        uint64_t (*next_uint64)(void *state) noexcept nogil
        uint32_t (*next_uint32)(void *state) noexcept nogil
        double (*next_double)(void *state) noexcept nogil
        uint64_t (*next_raw)(void *state) noexcept nogil

cdef extern from *:
    """
    #ifndef SPARSEPOST_MULHILO64
    #define SPARSEPOST_MULHILO64
    #include <stdint.h>
    #if !defined(__SIZEOF_INT128__) && defined(_MSC_VER)
    #include <intrin.h>
    #endif
    /* Full 128-bit product: returns the low word, stores the high one. */
    static CYTHON_INLINE uint64_t sparsepost_mulhilo64(uint64_t a, uint64_t b, uint64_t *high) {
    #if defined(__SIZEOF_INT128__)
        __extension__ typedef unsigned __int128 sparsepost_uint128;
        const sparsepost_uint128 product = (sparsepost_uint128)a * b;
        *high = (uint64_t)(product >> 64);
        return (uint64_t)product;
    #elif defined(_MSC_VER) && (defined(_M_ARM64) || defined(_M_ARM64EC))
        *high = __umulh(a, b);
        return a * b;
    #elif defined(_MSC_VER) && defined(_M_X64)
        return _umul128(a, b, high);
    #else
        const uint64_t a_low = a & 0xFFFFFFFFu, a_high = a >> 32;
        const uint64_t b_low = b & 0xFFFFFFFFu, b_high = b >> 32;
        const uint64_t low = a_low * b_low;
        const uint64_t mid = a_high * b_low + (low >> 32);
        const uint64_t carry = a_low * b_high + (mid & 0xFFFFFFFFu);
        *high = a_high * b_high + (mid >> 32) + (carry >> 32);
        return a * b;
    #endif
    }
    #endif
    """
    uint64_t sparsepost_mulhilo64(uint64_t a, uint64_t b, uint64_t *high) noexcept nogil


cdef struct KeyedStream:
    bitgen_t bitgen         # hand &stream.bitgen to numpy's C distributions
    uint64_t key[2]         # seed, sweep
    uint64_t counter[4]     # block low, block high, unit, 0
    uint64_t buffer[4]      # the current block
    int buffer_pos          # words of the block already used; 4 asks for a new block
    bint has_uint32         # whether uinteger holds the unused half of a word
    uint32_t uinteger


cdef inline void keyed_fill_block(KeyedStream *stream) noexcept nogil:
    """Compute the block of the current counter into the buffer."""
    cdef:
        uint64_t c0 = stream.counter[0]
        uint64_t c1 = stream.counter[1]
        uint64_t c2 = stream.counter[2]
        uint64_t c3 = stream.counter[3]
        uint64_t k0 = stream.key[0]
        uint64_t k1 = stream.key[1]
        uint64_t low0, low1
        uint64_t high0 = 0
        uint64_t high1 = 0
        int _i

    for _i in range(10):
        low0 = sparsepost_mulhilo64(0xD2E7470EE14C6C93ULL, c0, &high0)
        low1 = sparsepost_mulhilo64(0xCA5A826395121157ULL, c2, &high1)
        c0 = high1 ^ c1 ^ k0
        c1 = low1
        c2 = high0 ^ c3 ^ k1
        c3 = low0
        # The Weyl sequence of the key: golden ratio and sqrt(3) - 1
        k0 += 0x9E3779B97F4A7C15ULL
        k1 += 0xBB67AE8584CAA73BULL

    stream.buffer[0] = c0
    stream.buffer[1] = c1
    stream.buffer[2] = c2
    stream.buffer[3] = c3


cdef inline uint64_t keyed_next_uint64(void *state) noexcept nogil:
    """Return the next 64 bits; does not touch the buffered 32-bit half."""
    cdef KeyedStream *stream = <KeyedStream *> state
    cdef uint64_t word
    if stream.buffer_pos >= 4:
        stream.counter[0] += 1
        # No carry beyond the block number: the next word names the unit
        if stream.counter[0] == 0:
            stream.counter[1] += 1
        keyed_fill_block(stream)
        stream.buffer_pos = 0
    word = stream.buffer[stream.buffer_pos]
    stream.buffer_pos += 1
    return word


cdef inline uint32_t keyed_next_uint32(void *state) noexcept nogil:
    """Return the next 32 bits: the low half of a word, then its high half."""
    cdef KeyedStream *stream = <KeyedStream *> state
    cdef uint64_t word
    if stream.has_uint32:
        stream.has_uint32 = False
        return stream.uinteger
    word = keyed_next_uint64(state)
    stream.has_uint32 = True
    stream.uinteger = <uint32_t> (word >> 32)
    return <uint32_t> (word & 0xFFFFFFFFU)


cdef inline double keyed_next_double(void *state) noexcept nogil:
    """Return the next double in [0, 1), a multiple of 2**-53."""
    return <double> (keyed_next_uint64(state) >> 11) * (1.0 / 9007199254740992.0)


cdef inline void keyed_init(
    KeyedStream *stream, uint64_t seed, uint64_t sweep, uint64_t unit
) noexcept nogil:
    """Put a stream, new or used, at the start of (seed, sweep, unit).

    The stream points to itself: key it where it lives, do not copy it by value.
    """
    stream.bitgen.state = stream
    stream.bitgen.next_uint64 = &keyed_next_uint64
    stream.bitgen.next_uint32 = &keyed_next_uint32
    stream.bitgen.next_double = &keyed_next_double
    stream.bitgen.next_raw = &keyed_next_uint64
    stream.key[0] = seed
    stream.key[1] = sweep
    stream.counter[0] = 0
    stream.counter[1] = 0
    stream.counter[2] = unit
    stream.counter[3] = 0
    stream.buffer_pos = 4
    stream.has_uint32 = False
    stream.uinteger = 0
