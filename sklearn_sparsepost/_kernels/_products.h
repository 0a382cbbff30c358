/* Products of rows with a panel of columns, each row's in the same order whatever rows are beside
   it: BLAS, which chooses its way by the number of rows, leaves other last bits.

   The columns are vectors' lanes and some rows share each load of them. The file includes itself
   once for each type. */
#ifndef REAL

#include "_vectors.h"

/* Vectors of columns of a panel, and how many rows share each load of these. */
#define PANEL (VECTOR == 64 ? 3 : 2)
#define ROWS (VECTOR == 64 ? N_ROWS : ROWS_OF_TWO)

#define EACH_TYPE "_products.h"
#include "_each_type.h"
#undef PANEL
#undef ROWS

#else

#define WIDTH ((int)(VECTOR / sizeof(REAL)))

/* How many columns a panel has. */
static inline int NAME(panel_width)(void)
{
    return PANEL * WIDTH;
}

#if defined(__GNUC__)

typedef REAL NAME(vector)
    __attribute__((vector_size(VECTOR), aligned(sizeof(REAL)), may_alias));

/* V is a constant wherever this is inlined. */
INLINE void NAME(multiply)(
    const REAL *rows, int n, int n_features, const REAL *panel, int n_columns, int V, REAL *out,
    int pitch)
{
    const REAL *constant = panel + (long long)n_features * PANEL * WIDTH;
    for (int i = 0; i < n; i += ROWS) {
        const REAL *row[ROWS];
        NAME(vector) sum[ROWS][PANEL];
        for (int r = 0; r < ROWS; r++) {
            row[r] = rows + (long long)(i + r < n ? i + r : n - 1) * n_features;
            for (int v = 0; v < V; v++)
                sum[r][v] = (NAME(vector)){0};
        }
        for (int d = 0; d < n_features; d++) {
            const NAME(vector) *column = (const NAME(vector) *)(panel + (long long)d * PANEL * WIDTH);
            for (int r = 0; r < ROWS; r++)
                for (int v = 0; v < V; v++)
                    sum[r][v] += row[r][d] * column[v];
        }
        for (int r = 0; r < ROWS && i + r < n; r++) {
            REAL *to = out + (long long)(i + r) * pitch;
            for (int v = 0; v < V; v++) {
                sum[r][v] += *(const NAME(vector) *)(constant + v * WIDTH);
                if ((v + 1) * WIDTH <= n_columns)
                    *(NAME(vector) *)(to + v * WIDTH) = sum[r][v];
                else
                    for (int j = v * WIDTH; j < n_columns; j++)
                        to[j] = sum[r][v][j - v * WIDTH];
            }
        }
    }
}

#endif

/* out[i, j] = rows[i] . panel[:, j] + constant[j].

   rows: (n, n_features); panel: (n_features + 1, panel_width) with the constants in its last row,
   of which the first n_columns are used; out: (n, pitch). */
static void NAME(row_products)(
    const REAL *rows, int n, int n_features, const REAL *panel, int n_columns, REAL *out,
    int pitch)
{
#if defined(__GNUC__)
    if (n_columns > 2 * WIDTH)
        NAME(multiply)(rows, n, n_features, panel, n_columns, PANEL, out, pitch);
    else if (n_columns > WIDTH)
        NAME(multiply)(rows, n, n_features, panel, n_columns, 2, out, pitch);
    else
        NAME(multiply)(rows, n, n_features, panel, n_columns, 1, out, pitch);
#else
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n_columns; j++) {
            REAL sum = 0;
            for (int d = 0; d < n_features; d++)
                sum += rows[(long long)i * n_features + d] * panel[(long long)d * PANEL * WIDTH + j];
            out[(long long)i * pitch + j] = sum + panel[(long long)n_features * PANEL * WIDTH + j];
        }
#endif
}

#undef WIDTH

#endif
