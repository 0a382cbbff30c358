"""Bits of words."""
from libc.stdint cimport uint64_t
from libc.string cimport memcpy

cdef extern from *:
    """
    #ifndef SPARSEPOST_LOWEST_BIT
    #define SPARSEPOST_LOWEST_BIT
    #if defined(_MSC_VER) && !defined(__clang__)
    #include <intrin.h>
    #endif
    /* Number of the lowest bit of a word that is not zero. */
    static CYTHON_INLINE int sparsepost_lowest_bit(uint64_t word) {
    #if defined(_MSC_VER) && !defined(__clang__)
        unsigned long at;
        _BitScanForward64(&at, word);
        return (int)at;
    #else
        return __builtin_ctzll(word);
    #endif
    }
    #endif
    """
    int lowest_bit "sparsepost_lowest_bit" (uint64_t word) noexcept nogil


cdef inline uint64_t bits_of(double x) noexcept nogil:
    """A number's bits."""
    cdef uint64_t bits
    memcpy(&bits, &x, sizeof(bits))
    return bits
