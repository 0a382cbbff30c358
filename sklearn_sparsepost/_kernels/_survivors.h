/* Lists of what is left, without branches: who leaves is hard to predict. */
#if defined(__GNUC__) && defined(__AVX512F__)
#include <immintrin.h>
#endif

/* Of n rows those with excess[i] <= 0: their numbers, first + i, and their totals are appended to
   lists of `held`. Returns how many the lists have then; what they have room for after that, 16
   numbers at least, may be written, too. */
static inline int keep_rows(
    const float *excess, const float *partial, int n, int first, int *row, float *total, int held)
{
    int i = 0;
#if defined(__GNUC__) && defined(__AVX512F__)
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for (; i + 16 <= n; i += 16) {
        __mmask16 stays =
            _mm512_cmp_ps_mask(_mm512_loadu_ps(excess + i), _mm512_setzero_ps(), _CMP_LE_OQ);
        __m512i number = _mm512_add_epi32(lanes, _mm512_set1_epi32(first + i));
        _mm512_storeu_si512(row + held, _mm512_maskz_compress_epi32(stays, number));
        _mm512_storeu_ps(
            total + held, _mm512_maskz_compress_ps(stays, _mm512_loadu_ps(partial + i)));
        held += __builtin_popcount(stays);
    }
#endif
    for (; i < n; i++) {
        row[held] = first + i;
        total[held] = partial[i];
        held += excess[i] <= 0;
    }
    return held;
}
