/* Sums of x x^T over rows: columns are vectors' lanes.

   BLAS takes its time to begin, and the matrices of mixtures are many and small. The file includes
   itself once for each type. */
#ifndef REAL

#include "_vectors.h"

/* What columns come in multiples of: the lanes of the longest vector. */
#define PITCH 16

#define EACH_TYPE "_sums.h"
#include "_each_type.h"

#else

#if defined(__GNUC__)
#define WIDTH ((int)(VECTOR / sizeof(REAL)))
typedef REAL NAME(columns)
    __attribute__((vector_size(VECTOR), aligned(sizeof(REAL)), may_alias));
#else
#define WIDTH 1
typedef REAL NAME(columns);
#endif

/* V is a constant wherever this is inlined. */
INLINE void NAME(some_columns)(
    const REAL *rows, int n, int pitch, int i, int j, int V, REAL *out)
{
    NAME(columns) sum[N_ROWS][3];
    for (int r = 0; r < N_ROWS; r++)
        for (int v = 0; v < V; v++)
            sum[r][v] = (NAME(columns)){0};
    for (int row = 0; row < n; row++, rows += pitch) {
        NAME(columns) right[3];
        for (int v = 0; v < V; v++)
            right[v] = *(const NAME(columns) *)(rows + j + v * WIDTH);
        for (int r = 0; r < N_ROWS; r++)
            for (int v = 0; v < V; v++)
                sum[r][v] += rows[i + r] * right[v];
    }
    for (int r = 0; r < N_ROWS; r++)
        for (int v = 0; v < V; v++)
            *(NAME(columns) *)(out + (long long)(i + r) * pitch + j + v * WIDTH) += sum[r][v];
}

/* out[i, j] += sum, from 0, over n rows of row[i] row[j], for j >= i, and for some j < i, too.

   rows: (n, pitch), pitch a multiple of PITCH; out: (pitch, pitch). Apart from its callers, which
   would leave its loops too few registers. */
#if defined(__GNUC__)
__attribute__((noinline))
#endif
static void NAME(add_products)(const REAL *rows, int n, int pitch, REAL *out)
{
    for (int i = 0; i < pitch; i += N_ROWS)
        for (int j = i / WIDTH * WIDTH, V; j < pitch; j += V * WIDTH) {
            int left = (pitch - j) / WIDTH;
            V = left == 4 ? 2 : left < 3 ? left : 3;
            if (V == 3)
                NAME(some_columns)(rows, n, pitch, i, j, 3, out);
            else if (V == 2)
                NAME(some_columns)(rows, n, pitch, i, j, 2, out);
            else
                NAME(some_columns)(rows, n, pitch, i, j, 1, out);
        }
}

#undef WIDTH

#endif
