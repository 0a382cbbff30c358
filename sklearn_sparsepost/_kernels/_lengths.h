/* Bytes that bound lengths from below: what was found of pairs of a row and a component before.

   A byte counts a row's own unit of length. What is rounded is rounded down. */
#include <math.h>

#include "_vectors.h"

/* The most that a byte says; and what rounding may have made of a length, relative to it. */
#define MOST_LENGTH 255
#define ROUNDED_DOWN (1 - 4e-6f)

#if defined(__GNUC__)

#define WIDTH ((int)(VECTOR / sizeof(float)))
typedef int length_ints __attribute__((vector_size(VECTOR), aligned(sizeof(int)), may_alias));
typedef float length_lanes __attribute__((vector_size(VECTOR), aligned(sizeof(float)), may_alias));
typedef unsigned char length_bytes
    __attribute__((vector_size(VECTOR / sizeof(float)), aligned(1), may_alias));

INLINE length_lanes bytes_as_lanes(const unsigned char *bytes)
{
#if defined(__AVX512BW__)
    return (length_lanes)_mm512_cvtepi32_ps(
        _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)bytes)));
#elif defined(__AVX2__)
    return (length_lanes)_mm256_cvtepi32_ps(
        _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)bytes)));
#else
    return __builtin_convertvector(*(const length_bytes *)bytes, length_lanes);
#endif
}

/* Which lanes are at most so large, as bits. */
INLINE unsigned lengths_within(length_lanes value, length_lanes most)
{
#if defined(__AVX512BW__)
    return _mm512_cmp_ps_mask((__m512)value, (__m512)most, _CMP_LE_OQ);
#elif defined(__AVX2__)
    return _mm256_movemask_ps(_mm256_cmp_ps((__m256)value, (__m256)most, _CMP_LE_OQ));
#else
    unsigned bits = 0;
    for (int i = 0; i < WIDTH; i++)
        bits |= (unsigned)(value[i] <= most[i]) << i;
    return bits;
#endif
}

#else

#define WIDTH 1

#endif

/* Of n rows those whose squared lengths, by what is known of them, are at most
   room square[] - need[] + slack: their numbers are listed. Returns how many they are.

   A length is at least `shrink` times what its byte says, less `shift`: written to `now`, which may be
   `old`, if `settles`, and else bytes stay what they are. Both, and all arrays by row, have room for a
   multiple of 64 rows; the list has, too.
   inverse: units of a row in 1; scale: by which its units are multiplied to be compared. */
static int within_reach(
    const unsigned char *old, int n, float shrink, float shift, int settles, const float *inverse,
    const float *scale, float room, const float *square, const float *need, float slack,
    unsigned char *now, int *number)
{
    int held = 0;
#if defined(__GNUC__)
    for (int i = 0; i < n; i += WIDTH) {
        length_lanes length = bytes_as_lanes(old + i) * shrink;
        length -= *(const length_lanes *)(inverse + i) * shift;
        length = (length_lanes)((length_ints)length & (length > 0));
        if (settles) {
            const length_ints whole = __builtin_convertvector(length, length_ints);
            *(length_bytes *)(now + i) = __builtin_convertvector(whole, length_bytes);
        } else
            *(length_bytes *)(now + i) = *(const length_bytes *)(old + i);
        length *= *(const length_lanes *)(scale + i);
        const length_lanes room_of = *(const length_lanes *)(square + i) * room;
        const length_lanes most = room_of - *(const length_lanes *)(need + i) + slack;
        unsigned bits = lengths_within(length * length, most);
        if (n - i < WIDTH)
            bits &= (1u << (n - i)) - 1;
#if defined(__AVX512BW__)
        __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        lane = _mm512_add_epi32(lane, _mm512_set1_epi32(i));
        _mm512_storeu_si512(number + held, _mm512_maskz_compress_epi32((__mmask16)bits, lane));
        held += __builtin_popcount(bits);
#else
        for (; bits; bits &= bits - 1)
            number[held++] = i + __builtin_ctz(bits);
#endif
    }
#else
    for (int i = 0; i < n; i++) {
        float length = old[i] * shrink - inverse[i] * shift;
        length = length > 0 ? length : 0;
        now[i] = settles ? (unsigned char)length : old[i];
        length *= scale[i];
        number[held] = i;
        held += length * length <= room * square[i] - need[i] + slack;
    }
#endif
    return held;
}

/* What bytes say of n squared lengths, of which `slack` may be rounding: the roots times per_root[]
   times `scale`, rounded down. */
static void note_lengths(
    const float *squares, int n, float slack, const float *per_root, float scale, unsigned char *out)
{
    for (int i = 0; i < n; i++) {
        float square = squares[i] - slack;
        float length = sqrtf(square > 0 ? square : 0) * per_root[i] * scale * ROUNDED_DOWN;
        out[i] = (unsigned char)(length < MOST_LENGTH ? (int)length : MOST_LENGTH);
    }
}

#undef WIDTH
