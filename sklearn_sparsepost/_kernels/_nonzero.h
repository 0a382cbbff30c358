/* Which of some numbers are not zero. */
#ifndef SPARSEPOST_NONZERO
#define SPARSEPOST_NONZERO

#include <stdint.h>

#include "_vectors.h"

/* A bit for each of eight numbers. */
INLINE uint64_t nonzero_of_eight(const double *number)
{
#if defined(__GNUC__) && defined(__AVX512BW__)
    return _mm512_cmp_pd_mask(_mm512_loadu_pd(number), _mm512_setzero_pd(), _CMP_NEQ_UQ);
#elif defined(__GNUC__) && defined(__AVX2__)
    __m256d zero = _mm256_setzero_pd();
    int low = _mm256_movemask_pd(_mm256_cmp_pd(_mm256_loadu_pd(number), zero, _CMP_NEQ_UQ));
    int high = _mm256_movemask_pd(_mm256_cmp_pd(_mm256_loadu_pd(number + 4), zero, _CMP_NEQ_UQ));
    return (uint64_t)(low | high << 4);
#else
    uint64_t bits = 0;
    for (int i = 0; i < 8; i++)
        bits |= (uint64_t)(number[i] != 0) << i;
    return bits;
#endif
}

/* A bit for each of at most 64 numbers. */
INLINE uint64_t nonzero_of(const double *number, int n)
{
    uint64_t bits = 0;
    int i = 0;
    if (n == 64) { /* a loop of known length is unrolled */
        for (; i < 64; i += 8)
            bits |= nonzero_of_eight(number + i) << i;
        return bits;
    }
    for (; i + 8 <= n; i += 8)
        bits |= nonzero_of_eight(number + i) << i;
    for (; i < n; i++)
        bits |= (uint64_t)(number[i] != 0) << i;
    return bits;
}

#endif
