/* Bytes that bound lengths from below: what was found of pairs of a row and a component before.

   A byte counts a row's own unit of length. What is rounded is rounded down. */
#include <math.h>

#include "_row_lanes.h"

/* The most that a byte says; and what rounding may have made of a length, relative to it. */
#define MOST_LENGTH 255
#define ROUNDED_DOWN (1 - 4e-6f)

#if defined(__GNUC__)

typedef unsigned char bytes
    __attribute__((vector_size(VECTOR / sizeof(float)), aligned(1), may_alias));

INLINE real as_real(const unsigned char *of_rows)
{
#if defined(__AVX512BW__)
    return (real)_mm512_cvtepi32_ps(
        _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)of_rows)));
#elif defined(__AVX2__)
    return (real)_mm256_cvtepi32_ps(
        _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)of_rows)));
#else
    return __builtin_convertvector(*(const bytes *)of_rows, real);
#endif
}

#endif

/* Of n rows those whose squared lengths, by what is known of them, are at most
   room square[] - need[] + slack: their numbers and that are listed. Returns how many they are.

   A length is at least `shrink` times what its byte says, less `shift`: written to `now`, which may
   be `old`, if `settles`, and else bytes stay what they are. Both, and all arrays by row, have room
   for a multiple of 64 rows, and the lists for a vector more.
   inverse: units of a row in 1; scale: by which its units are multiplied to be compared. */
static int within_reach(
    const unsigned char *old, int n, float shrink, float shift, int settles, const float *inverse,
    const float *scale, float room, const float *square, const float *need, float slack,
    unsigned char *now, int *number, float *kept)
{
    int held = 0;
#if defined(__GNUC__)
    for (int i = 0; i < n; i += ROW_LANES) {
        real length = as_real(old + i) * shrink - *(const real *)(inverse + i) * shift;
        length = (real)((whole)length & (length > 0));
        if (settles) {
            const whole units = __builtin_convertvector(length, whole);
            *(bytes *)(now + i) = __builtin_convertvector(units, bytes);
        } else
            *(bytes *)(now + i) = *(const bytes *)(old + i);
        length *= *(const real *)(scale + i);
        const real most = *(const real *)(square + i) * room - *(const real *)(need + i) + slack;
        unsigned bits = at_most(length * length, most);
        if (n - i < ROW_LANES)
            bits &= (1u << (n - i)) - 1;
        held = append(bits, i, most, number, kept, held);
    }
#else
    for (int i = 0; i < n; i++) {
        float length = old[i] * shrink - inverse[i] * shift;
        length = length > 0 ? length : 0;
        now[i] = settles ? (unsigned char)length : old[i];
        length *= scale[i];
        number[held] = i;
        kept[held] = room * square[i] - need[i] + slack;
        held += length * length <= kept[held];
    }
#endif
    return held;
}

/* What bytes say of n squared lengths, of which `slack` may be rounding: the roots times per_root[]
   times `scale`, rounded down. */
static void note_lengths(
    const float *squares, int n, float slack, const float *per_root, float scale,
    unsigned char *out)
{
    for (int i = 0; i < n; i++) {
        float square = squares[i] - slack;
        float length = sqrtf(square > 0 ? square : 0) * per_root[i] * scale * ROUNDED_DOWN;
        out[i] = (unsigned char)(length < MOST_LENGTH ? (int)length : MOST_LENGTH);
    }
}
