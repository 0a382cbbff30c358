/* Sums of squared projections of rows onto columns in 16-bit integers: twice as many to a vector as
   single precision has, and exact but for what was lost where rows and columns were rounded.

   Two features of a row, or of a column, are the halves of one int, a pair. Whoever rounds them sees
   to it that no projection reaches 2^31. The file includes itself once for each way to add products
   of pairs: some processors have one instruction for what takes others two. */
#ifndef ADD_PAIRS

#include "_row_lanes.h"

#define WIDTH ROW_LANES

/* Columns whose sums stay in registers together, and after which rows may be given up. */
#define TOGETHER 4

#if defined(__GNUC__)

INLINE whole multiply_add(whole sum, whole row, whole column)
{
#if defined(__AVX512BW__)
    return sum + (whole)_mm512_madd_epi16((__m512i)row, (__m512i)column);
#elif defined(__AVX2__)
    return sum + (whole)_mm256_madd_epi16((__m256i)row, (__m256i)column);
#elif defined(__SSE2__)
    return sum + (whole)_mm_madd_epi16((__m128i)row, (__m128i)column);
#else
    return sum + ((row << 16) >> 16) * ((column << 16) >> 16) + (row >> 16) * (column >> 16);
#endif
}

/* Of N_ROWS rows from `i` on two lists, of which there are n, those with a value of at least 0: moves
   their numbers and values to the lists' places from `held` on, which is not after `i`. */
INLINE int append_rows(const float *value, int i, int n, int *number, float *kept, int held)
{
#if defined(__AVX512BW__)
    __m256i numbers = _mm256_loadu_si256((const __m256i *)(number + i));
    __m256 values = _mm256_loadu_ps(value);
    __mmask8 stays = _mm256_cmp_ps_mask(values, _mm256_setzero_ps(), _CMP_GE_OQ);
    if (n - i < N_ROWS)
        stays &= (1 << (n - i)) - 1;
    _mm256_storeu_si256((__m256i *)(number + held), _mm256_maskz_compress_epi32(stays, numbers));
    _mm256_storeu_ps(kept + held, _mm256_maskz_compress_ps(stays, values));
    return held + __builtin_popcount(stays);
#else
    for (int r = 0; r < N_ROWS && i + r < n; r++) {
        number[held] = number[i + r];
        kept[held] = value[r];
        held += value[r] >= 0;
    }
    return held;
#endif
}

/* Of each row the sum of its lanes. */
INLINE void add_lanes(const real *total, float *sum)
{
#if defined(__AVX2__)
    __m256 half[N_ROWS];
    for (int r = 0; r < N_ROWS; r++)
#if defined(__AVX512BW__)
        half[r] = _mm256_add_ps(
            _mm512_castps512_ps256((__m512)total[r]), _mm512_extractf32x8_ps((__m512)total[r], 1));
#else
        half[r] = (__m256)total[r];
#endif
    for (int r = 0; r < N_ROWS; r += 4) {
        __m256 four = _mm256_hadd_ps(
            _mm256_hadd_ps(half[r], half[r + 1]), _mm256_hadd_ps(half[r + 2], half[r + 3]));
        _mm_storeu_ps(
            sum + r, _mm_add_ps(_mm256_castps256_ps128(four), _mm256_extractf128_ps(four, 1)));
    }
#else
    for (int r = 0; r < N_ROWS; r++) {
        sum[r] = 0;
        for (int i = 0; i < WIDTH; i++)
            sum[r] += total[r][i];
    }
#endif
}

#if defined(__AVX512BW__)
#define FUSED __attribute__((target("avx512vnni")))
FUSED INLINE whole multiply_add_fused(whole sum, whole row, whole column)
{
    return (whole)_mm512_dpwssd_epi32((__m512i)sum, (__m512i)row, (__m512i)column);
}
#endif

#endif

/* Pairs that so many features take, of those that there are. */
static inline int pairs_of(int n_features, int n_pairs)
{
    int needed = (n_features + 1) / 2;
    return needed < n_pairs ? needed : n_pairs;
}

#define NAME(name) name##_in_two
#define TARGET
#define ADD_PAIRS multiply_add
#include "_quantised.h"
#undef NAME
#undef TARGET
#undef ADD_PAIRS

#if defined(FUSED)
#define NAME(name) name##_in_one
#define TARGET FUSED
#define ADD_PAIRS multiply_add_fused
#include "_quantised.h"
#undef NAME
#undef TARGET
#undef ADD_PAIRS

static int fused = 1;

static inline int is_fused(void)
{
    return fused && __builtin_cpu_supports("avx512vnni");
}

static inline int choose_fused(int wanted)
{
    fused = wanted;
    return is_fused();
}
#define CHOSEN(name) (is_fused() ? name##_in_one : name##_in_two)
#else
static inline int choose_fused(int wanted)
{
    return 0;
}
#define CHOSEN(name) name##_in_two
#endif

/* Of n rows those whose sum over j of (sum over d of rows[d][i] columns[d, j])^2 is at most most[i]:
   their numbers, counted from `first`, and sums, or what these leave of `most` if that is wanted, are
   appended to two lists of `held`. Returns how many the lists have then; a vector after that may be
   written, too.

   rows: (n_pairs, stride), with room for 32 rows beyond the last; columns: (n_pairs, pitch), of
   which the first n_columns are used, a multiple of TOGETHER, with zeros in columns[d, j] for features
   beyond above + j; most: as long as a row of `rows`, negative where there is none. */
static inline int lane_survivors(
    const int *rows, int stride, int n, int n_pairs, const int *columns, int pitch, int n_columns,
    int above, const float *most, int wants_left, int first, int *number, float *kept, int held)
{
    return CHOSEN(lane_survivors)(
        rows, stride, n, n_pairs, columns, pitch, n_columns, above, most, wants_left, first, number,
        kept, held);
}

/* Of n listed rows those whose sums of squares with these columns are at most left[] + more, what
   is left for them: moves them and what is left after that to the lists' beginning. Returns how many
   there are. Unless it is NULL, `after` is told what is left of all of them, by row.

   rows: (?, n_pairs); columns: (n_pairs, pitch), of which the first n_columns are used, a multiple
   of 16, with zeros in columns[d, j] for features beyond above + j. */
static inline int pair_survivors(
    const int *rows, int n, int n_pairs, const int *columns, int pitch, int n_columns, int above,
    float more, int *number, float *left, float *after)
{
    return CHOSEN(pair_survivors)(
        rows, n, n_pairs, columns, pitch, n_columns, above, more, number, left, after);
}

#undef WIDTH
#undef FUSED
#undef CHOSEN

#else

#if defined(__GNUC__)

/* Adds the squares of two vectors of rows' projections onto some columns, rows as lanes. The first
   half of the columns has zeros but for so many pairs of features. */
TARGET INLINE void NAME(add_columns)(
    const int *rows, int stride, int n_of_half, int n_pairs, const int *columns, int pitch,
    real *total)
{
    whole sum[TOGETHER][2];
    for (int c = 0; c < TOGETHER; c++)  // without a zero to add to: most sums are of few pairs
        for (int v = 0; v < 2; v++)
            sum[c][v] = ADD_PAIRS((whole){0}, ((const whole *)rows)[v], (whole){0} + columns[c]);
    int d = 1;
    for (; d < n_of_half; d++) {
        const whole *row = (const whole *)(rows + (long long)d * stride);
        const int *column = columns + (long long)d * pitch;
        for (int c = 0; c < TOGETHER; c++)
            for (int v = 0; v < 2; v++)
                sum[c][v] = ADD_PAIRS(sum[c][v], row[v], (whole){0} + column[c]);
    }
    for (; d < n_pairs; d++) {
        const whole *row = (const whole *)(rows + (long long)d * stride);
        const int *column = columns + (long long)d * pitch;
        for (int c = TOGETHER / 2; c < TOGETHER; c++)
            for (int v = 0; v < 2; v++)
                sum[c][v] = ADD_PAIRS(sum[c][v], row[v], (whole){0} + column[c]);
    }
    for (int c = 0; c < TOGETHER; c++)
        for (int v = 0; v < 2; v++) {
            real length = __builtin_convertvector(sum[c][v], real);
            total[v] += length * length;
        }
}

/* The same of some rows and V vectors of columns, columns as lanes. V is a constant wherever this is
   inlined. */
TARGET INLINE void NAME(add_rows)(
    const int *const *row, const int *columns, int pitch, int n_pairs, int V, real *total)
{
    whole sum[N_ROWS][2] = {{{0}}};
    for (int d = 0; d < n_pairs; d++) {
        const whole *column = (const whole *)(columns + (long long)d * pitch);
        for (int r = 0; r < N_ROWS; r++)
            for (int v = 0; v < V; v++)
                sum[r][v] = ADD_PAIRS(sum[r][v], (whole){0} + row[r][d], column[v]);
    }
    for (int r = 0; r < N_ROWS; r++)
        for (int v = 0; v < V; v++) {
            real length = __builtin_convertvector(sum[r][v], real);
            total[r] += length * length;
        }
}

TARGET static int NAME(lane_survivors)(
    const int *rows, int stride, int n, int n_pairs, const int *columns, int pitch, int n_columns,
    int above, const float *most, int wants_left, int first, int *number, float *kept, int held)
{
    for (int i = 0; i < n; i += 2 * WIDTH) {
        real total[2] = {{0}}, limit[2];
        unsigned stays[2];
        for (int v = 0; v < 2; v++)
            limit[v] = *(const real *)(most + i + v * WIDTH);
        for (int j = 0; j < n_columns; j += TOGETHER) {
            NAME(add_columns)(
                rows + i, stride, pairs_of(above + j + TOGETHER / 2, n_pairs),
                pairs_of(above + j + TOGETHER, n_pairs), columns + j, pitch, total);
            for (int v = 0; v < 2; v++)
                stays[v] = at_most(total[v], limit[v]);
            if (!(stays[0] | stays[1]))
                break;
        }
        if (stays[0] | stays[1])
            for (int v = 0; v < 2; v++) {
                real value = total[v];
                if (wants_left)
                    value = limit[v] - value;
                held = append(stays[v], first + i + v * WIDTH, value, number, kept, held);
            }
    }
    return held;
}

TARGET static int NAME(pair_survivors)(
    const int *rows, int n, int n_pairs, const int *columns, int pitch, int n_columns, int above,
    float more, int *number, float *left, float *after)
{
    int held = 0;
    for (int i = 0; i < n; i += N_ROWS) {
        const int *row[N_ROWS];
        real total[N_ROWS];
        float sum[N_ROWS];
        for (int r = 0; r < N_ROWS; r++)
            total[r] = (real){0};
        for (int r = 0; r < N_ROWS; r++)
            row[r] = rows + (long long)number[i + r < n ? i + r : n - 1] * n_pairs;
        for (int j = 0; j < n_columns; j += 2 * WIDTH) {
            int V = n_columns - j > WIDTH ? 2 : 1;
            int depth = pairs_of(above + j + V * WIDTH, n_pairs);
            if (V == 2)
                NAME(add_rows)(row, columns + j, pitch, depth, 2, total);
            else
                NAME(add_rows)(row, columns + j, pitch, depth, 1, total);
        }
        add_lanes(total, sum);
        for (int r = 0; r < N_ROWS; r++)
            sum[r] = left[i + r] + more - sum[r];
        if (after)
            for (int r = 0; r < N_ROWS && i + r < n; r++)
                after[number[i + r]] = sum[r];
        held = append_rows(sum, i, n, number, left, held);
    }
    return held;
}

#else

static float NAME(square)(
    const int *row, int step, int n_pairs, const int *columns, int pitch, int first, int n_columns,
    int above)
{
    float total = 0;
    for (int j = first; j < first + n_columns; j++) {
        int depth = pairs_of(above + j + 1, n_pairs), sum = 0;
        for (int d = 0; d < depth; d++) {
            const short *x = (const short *)(row + (long long)d * step);
            const short *c = (const short *)(columns + (long long)d * pitch + j);
            sum += x[0] * c[0] + x[1] * c[1];
        }
        total += (float)sum * (float)sum;
    }
    return total;
}

static int NAME(lane_survivors)(
    const int *rows, int stride, int n, int n_pairs, const int *columns, int pitch, int n_columns,
    int above, const float *most, int wants_left, int first, int *number, float *kept, int held)
{
    for (int i = 0; i < n; i++) {
        float total = 0;
        for (int j = 0; j < n_columns && total <= most[i]; j += TOGETHER)
            total += NAME(square)(rows + i, stride, n_pairs, columns, pitch, j, TOGETHER, above);
        number[held] = first + i;
        kept[held] = wants_left ? most[i] - total : total;
        held += total <= most[i];
    }
    return held;
}

static int NAME(pair_survivors)(
    const int *rows, int n, int n_pairs, const int *columns, int pitch, int n_columns, int above,
    float more, int *number, float *left, float *after)
{
    int held = 0;
    for (int i = 0; i < n; i++) {
        const int *row = rows + (long long)number[i] * n_pairs;
        float sum = NAME(square)(row, 1, n_pairs, columns, pitch, 0, n_columns, above);
        number[held] = number[i];
        left[held] = left[i] + more - sum;
        if (after)
            after[number[held]] = left[held];
        held += left[held] >= 0;
    }
    return held;
}

#endif

#endif
