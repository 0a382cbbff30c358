/* Rows as lanes: a number of 32 bits each, whole or not, and lists of those that stay. */
#ifndef SPARSEPOST_ROW_LANES
#define SPARSEPOST_ROW_LANES

#include "_vectors.h"

/* How many rows a vector holds. */
#if defined(__GNUC__)
#define ROW_LANES ((int)(VECTOR / sizeof(int)))

typedef int whole __attribute__((vector_size(VECTOR), aligned(sizeof(int)), may_alias));
typedef float real __attribute__((vector_size(VECTOR), aligned(sizeof(float)), may_alias));

/* Which lanes are at most so large, as bits. */
INLINE unsigned at_most(real value, real most)
{
#if defined(__AVX512BW__)
    return _mm512_cmp_ps_mask((__m512)value, (__m512)most, _CMP_LE_OQ);
#elif defined(__AVX2__)
    return _mm256_movemask_ps(_mm256_cmp_ps((__m256)value, (__m256)most, _CMP_LE_OQ));
#elif defined(__SSE2__)
    return _mm_movemask_ps(_mm_cmple_ps((__m128)value, (__m128)most));
#else
    unsigned bits = 0;
    for (int i = 0; i < ROW_LANES; i++)
        bits |= (unsigned)(value[i] <= most[i]) << i;
    return bits;
#endif
}

/* Appends the lanes that `bits` names to two lists of `held`: their numbers, counted from `first`,
   and their values. A vector after what the lists have then may be written, too. */
INLINE int append(unsigned bits, int first, real value, int *number, float *kept, int held)
{
#if defined(__AVX512BW__)
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m512i numbers = _mm512_add_epi32(lane, _mm512_set1_epi32(first));
    _mm512_storeu_si512(number + held, _mm512_maskz_compress_epi32((__mmask16)bits, numbers));
    _mm512_storeu_ps(kept + held, _mm512_maskz_compress_ps((__mmask16)bits, (__m512)value));
    return held + __builtin_popcount(bits);
#else
    for (; bits; bits &= bits - 1, held++) {
        int i = __builtin_ctz(bits);
        number[held] = first + i;
        kept[held] = value[i];
    }
    return held;
#endif
}

#else
#define ROW_LANES 1
#endif

#endif
