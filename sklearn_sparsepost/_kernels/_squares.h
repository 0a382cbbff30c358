/* Sums of squared projections of rows onto columns, without writing the projections to memory.

   The columns are vectors' lanes and some rows share each load of them, so that a product of these
   rows and some vectors of columns stays in registers until it is squared and summed.
   The file includes itself once for each type. */
#ifndef REAL

#include "_prefetch.h"
#include "_vectors.h"

/* Columns come in multiples of this. */
#define STEP 8

/* Asks for the next rows of a list of n; apart, or it would change how their products are compiled. */
#if defined(__GNUC__)
__attribute__((noinline))
#endif
static void fetch_rows(const void *rows, const int *which, int n, int n_bytes)
{
    for (int r = 0; r < ROWS_OF_TWO && r < n; r++)
        fetch_row((const char *)rows + (long long)which[r] * n_bytes, n_bytes);
}

#define EACH_TYPE "_squares.h"
#include "_each_type.h"
#undef STEP

#else

#define WIDTH ((int)(VECTOR / sizeof(REAL)))

#if defined(__GNUC__)

typedef REAL NAME(lanes)
    __attribute__((vector_size(VECTOR), aligned(sizeof(REAL)), may_alias));

/* A vector, or half of one and zeros. */
INLINE NAME(lanes) NAME(load)(const REAL *from, int half)
{
#if VECTOR == 64
    if (half)
        return (NAME(lanes))_mm512_maskz_loadu_ps(0xFF, (const float *)from);
#endif
    return *(const NAME(lanes) *)from;
}

/* Adds the squares of some rows' projections onto V vectors of columns to `total`, or onto half of
   one. The columns have zeros but for `depth` features, those of the first of two vectors but for
   `shallow` ones. V and `half` are constants wherever this is inlined. */
INLINE void NAME(some_rows)(
    const REAL *const *row, const REAL *columns, int pitch, const REAL *offset, int shallow,
    int depth, int V, int half, NAME(lanes) *total)
{
    NAME(lanes) sum[ROWS_OF_TWO][2];
    for (int r = 0; r < ROWS_OF_TWO; r++)
        for (int v = 0; v < V; v++)
            sum[r][v] = -NAME(load)(offset + v * WIDTH, half);
    int d = 0;
    for (; d < shallow; d++) {
        NAME(lanes) column[2];
        for (int v = 0; v < V; v++)
            column[v] = NAME(load)(columns + (long long)d * pitch + v * WIDTH, half);
        for (int r = 0; r < ROWS_OF_TWO; r++)
            for (int v = 0; v < V; v++)
                sum[r][v] += row[r][d] * column[v];
    }
    for (; d < depth; d++) {
        NAME(lanes) column = NAME(load)(columns + (long long)d * pitch + WIDTH, half);
        for (int r = 0; r < ROWS_OF_TWO; r++)
            sum[r][1] += row[r][d] * column;
    }
    for (int r = 0; r < ROWS_OF_TWO; r++)
        for (int v = 0; v < V; v++)
            total[r] += sum[r][v] * sum[r][v];
}

#endif

/* out[i] = sum over j of (rows[which[i]] . columns[:, j] - offset[j])^2.

   rows: (?, n_features); which: n row numbers, or NULL for the first n rows; columns: (n_features,
   pitch), upper triangular, of which the first n_columns are used, a multiple of STEP. */
static void NAME(row_squares)(
    const REAL *rows, const int *which, int n, int n_features, const REAL *columns, int pitch,
    int n_columns, const REAL *offset, REAL *out)
{
#if defined(__GNUC__)
    for (int i = 0; i < n; i += ROWS_OF_TWO) {
        if (which)
            fetch_rows(rows, which + i + ROWS_OF_TWO, n - i - ROWS_OF_TWO, n_features * sizeof(REAL));
        const REAL *row[ROWS_OF_TWO];
        NAME(lanes) total[ROWS_OF_TWO] = {{0}};
        for (int r = 0; r < ROWS_OF_TWO; r++) {
            int at = i + r < n ? i + r : n - 1;
            row[r] = rows + (long long)(which ? which[at] : at) * n_features;
        }
        for (int j = 0, used; j < n_columns; j += used) {
            int left = (n_columns - j) / WIDTH;
            int V = left < 2 ? left : 2;
            used = V ? V * WIDTH : STEP;
            int depth = j + used < n_features ? j + used : n_features;
            int shallow = V == 2 && j + WIDTH < depth ? j + WIDTH : depth;
            const REAL *from = columns + j;
            if (V == 2)
                NAME(some_rows)(row, from, pitch, offset + j, shallow, depth, 2, 0, total);
            else if (V == 1)
                NAME(some_rows)(row, from, pitch, offset + j, depth, depth, 1, 0, total);
            else
                NAME(some_rows)(row, from, pitch, offset + j, depth, depth, 1, 1, total);
        }
        for (int r = 0; r < ROWS_OF_TWO && i + r < n; r++) {
            REAL sum = 0;
            for (int v = 0; v < WIDTH; v++)
                sum += total[r][v];
            out[i + r] = sum;
        }
    }
#else
    for (int i = 0; i < n; i++) {
        const REAL *row = rows + (long long)(which ? which[i] : i) * n_features;
        REAL total = 0;
        for (int j = 0; j < n_columns; j++) {
            int depth = j < n_features ? j + 1 : n_features;
            REAL sum = -offset[j];
            for (int d = 0; d < depth; d++)
                sum += row[d] * columns[(long long)d * pitch + j];
            total += sum * sum;
        }
        out[i] = total;
    }
#endif
}

#undef WIDTH

#endif
