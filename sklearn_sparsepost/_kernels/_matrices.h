/* Triangular factors of some small matrices at a time.

   LAPACK takes its time to begin, and the matrices of mixtures are many and small. Matrices are
   vectors' lanes, each computed as if it were alone, so that no bit depends on which are together. */
#include <math.h>

#include "_vectors.h"

/* How many rows and columns of a matrix are worked on together, so that their entries stay in
   registers. */
#define BLOCK (VECTOR == 64 ? 4 : 2)
#if defined(__GNUC__)
#define WIDTH ((int)(VECTOR / sizeof(double)))
typedef double lanes __attribute__((vector_size(VECTOR), aligned(sizeof(double)), may_alias));
#define LANE(v, l) ((v)[l])
#else
#define WIDTH 1
typedef double lanes;
#define LANE(v, l) (v)
#endif

/* How many matrices are worked on together, and what their numbers of rows are rounded up to. */
static inline int matrices_together(void) { return WIDTH; }
static inline int matrix_step(void) { return BLOCK; }

/* ---------------------------------------------------------------- matrices as lanes */

static inline lanes roots(lanes v)
{
    for (int l = 0; l < WIDTH; l++)
        LANE(v, l) = sqrt(LANE(v, l));
    return v;
}

/* All lanes alike. */
static inline lanes alike(double x)
{
    return (lanes){0} + x;
}

/* The upper triangular R with R^T R = matrix, in place of the upper half; 0 if there is none.

   matrix: (size, size) of lanes, size a multiple of BLOCK; only the upper half is read. */
static int cholesky(lanes *matrix, int size)
{
    int positive = 1;
    for (int i = 0; i < size; i += BLOCK) {
        lanes *const diagonal = matrix + (long long)i * size + i;
        lanes inverse[BLOCK];
        for (int j = i; j < size; j += BLOCK) {
            lanes *const here = matrix + (long long)i * size + j;
            lanes sum[BLOCK][BLOCK];
            for (int a = 0; a < BLOCK; a++)
                for (int c = 0; c < BLOCK; c++)
                    sum[a][c] = here[(long long)a * size + c];
            for (int k = 0; k < i; k++) {
                const lanes *row = matrix + (long long)k * size;
                for (int a = 0; a < BLOCK; a++)
                    for (int c = 0; c < BLOCK; c++)
                        sum[a][c] -= row[i + a] * row[j + c];
            }
            for (int a = 0; a < BLOCK; a++) {
                for (int b = 0; b < a; b++)
                    for (int c = 0; c < BLOCK; c++)
                        sum[a][c] -= diagonal[(long long)b * size + a] * sum[b][c];
                if (i == j) {
                    for (int l = 0; l < WIDTH; l++)
                        positive &= LANE(sum[a][a], l) > 0;
                    inverse[a] = 1 / roots(sum[a][a]);
                }
                for (int c = 0; c < BLOCK; c++)
                    sum[a][c] *= inverse[a];
                for (int c = 0; c < BLOCK; c++)
                    here[(long long)a * size + c] = sum[a][c];
            }
        }
        if (!positive)
            return 0;
    }
    return 1;
}

/* The inverse of an upper triangular matrix in its place, zeros below.

   matrix: (size, size) of lanes, size a multiple of BLOCK; only the upper half is read. */
static void invert_triangle(lanes *matrix, int size)
{
    for (int i = size - BLOCK; i >= 0; i -= BLOCK) {
        lanes own[BLOCK][BLOCK], inverse[BLOCK];
        for (int a = 0; a < BLOCK; a++) {
            for (int b = a; b < BLOCK; b++)
                own[a][b] = matrix[(long long)(i + a) * size + i + b];
            inverse[a] = 1 / own[a][a];
            for (int j = 0; j < i; j++)
                matrix[(long long)(i + a) * size + j] = alike(0);
        }
        for (int j = size - BLOCK; j >= i; j -= BLOCK) {
            lanes sum[BLOCK][BLOCK];
            for (int a = 0; a < BLOCK; a++)
                for (int c = 0; c < BLOCK; c++)
                    sum[a][c] = alike(i == j && a == c);
            for (int k = i + BLOCK; k < j + BLOCK; k++) {
                const lanes *left = matrix + (long long)i * size + k;
                const lanes *row = matrix + (long long)k * size + j;
                for (int a = 0; a < BLOCK; a++)
                    for (int c = 0; c < BLOCK; c++)
                        sum[a][c] -= left[(long long)a * size] * row[c];
            }
            for (int a = BLOCK - 1; a >= 0; a--)
                for (int c = 0; c < BLOCK; c++) {
                    for (int b = a + 1; b < BLOCK; b++)
                        sum[a][c] -= own[a][b] * sum[b][c];
                    sum[a][c] *= inverse[a];
                    matrix[(long long)(i + a) * size + j + c] = sum[a][c];
                }
        }
    }
}

/* right = left right, both upper triangular; only the upper halves are read and written. */
static void multiply_triangles(const lanes *left, lanes *right, int size)
{
    for (int i = 0; i < size; i += BLOCK)
        for (int j = i; j < size; j += BLOCK) {
            lanes sum[BLOCK][BLOCK];
            for (int a = 0; a < BLOCK; a++)
                for (int c = 0; c < BLOCK; c++)
                    sum[a][c] = alike(0);
            for (int k = i; k < j + BLOCK; k++) {
                const lanes *row = right + (long long)k * size + j;
                for (int a = 0; a < BLOCK; a++)
                    for (int c = 0; c < BLOCK; c++)
                        sum[a][c] += left[(long long)(i + a) * size + k] * row[c];
            }
            for (int a = 0; a < BLOCK; a++)
                for (int c = 0; c < BLOCK; c++)
                    right[(long long)(i + a) * size + j + c] = sum[a][c];
        }
}

/* out = matrix^T matrix - 1, of an upper triangular matrix with zeros below. */
static void gram_less_one(const lanes *matrix, int size, lanes *out)
{
    for (int i = 0; i < size; i += BLOCK)
        for (int j = i; j < size; j += BLOCK) {
            lanes sum[BLOCK][BLOCK];
            for (int a = 0; a < BLOCK; a++)
                for (int c = 0; c < BLOCK; c++)
                    sum[a][c] = alike(-(i + a == j + c));
            for (int k = 0; k < i + BLOCK; k++) {
                const lanes *row = matrix + (long long)k * size;
                for (int a = 0; a < BLOCK; a++)
                    for (int c = 0; c < BLOCK; c++)
                        sum[a][c] += row[i + a] * row[j + c];
            }
            for (int a = 0; a < BLOCK; a++)
                for (int c = 0; c < BLOCK; c++) {
                    out[(long long)(i + a) * size + j + c] = sum[a][c];
                    out[(long long)(j + c) * size + i + a] = sum[a][c];
                }
        }
}

/* The sum of the squares of all entries of the square of a symmetric matrix. */
static lanes norm_of_square(const lanes *matrix, int size)
{
    lanes total = alike(0);
    for (int i = 0; i < size; i += BLOCK)
        for (int j = i; j < size; j += BLOCK) {
            lanes sum[BLOCK][BLOCK];
            for (int a = 0; a < BLOCK; a++)
                for (int c = 0; c < BLOCK; c++)
                    sum[a][c] = alike(0);
            for (int k = 0; k < size; k++) {
                const lanes *row = matrix + (long long)k * size;
                for (int a = 0; a < BLOCK; a++)
                    for (int c = 0; c < BLOCK; c++)
                        sum[a][c] += row[i + a] * row[j + c];
            }
            for (int a = 0; a < BLOCK; a++)
                for (int c = 0; c < BLOCK; c++)
                    total += (i == j ? 1 : 2) * sum[a][c] * sum[a][c];
        }
    return total;
}

/* out = left matrices, the same on the left of all.

   left: (size, size) of numbers; matrix, out: (size, size) of lanes, size a multiple of BLOCK, the
   matrix upper triangular with zeros below. */
static void multiply_left(const double *left, const lanes *matrix, int size, lanes *out)
{
    for (int j = 0; j < size; j += BLOCK)
        for (int i = 0; i < size; i += BLOCK) {
            lanes sum[BLOCK][BLOCK];
            for (int a = 0; a < BLOCK; a++)
                for (int c = 0; c < BLOCK; c++)
                    sum[a][c] = alike(0);
            for (int k = 0; k < j + BLOCK; k++) {
                const lanes *row = matrix + (long long)k * size + j;
                for (int a = 0; a < BLOCK; a++)
                    for (int c = 0; c < BLOCK; c++)
                        sum[a][c] += left[(long long)(i + a) * size + k] * row[c];
            }
            for (int a = 0; a < BLOCK; a++)
                for (int c = 0; c < BLOCK; c++)
                    out[(long long)(i + a) * size + j + c] = sum[a][c];
        }
}

/* Takes off n rows, at most 4, what BLOCK reflections change them by, one after the other.

   axes: (length, BLOCK), the last one first reflected along; products: those of two axes each;
   scale: of the axes. So many at a time that rows are read twice for all of them. */
INLINE void reflect(
    lanes *rows, int n, int size, const lanes *axes, int length,
    lanes products[BLOCK][BLOCK], const lanes *scale)
{
    lanes along[4][BLOCK];
    for (int r = 0; r < n; r++)
        for (int a = 0; a < BLOCK; a++)
            along[r][a] = alike(0);
    for (int c = 0; c < length; c++)
        for (int r = 0; r < n; r++)
            for (int a = 0; a < BLOCK; a++)
                along[r][a] += rows[(long long)r * size + c] * axes[c * BLOCK + a];
    for (int r = 0; r < n; r++)
        for (int a = BLOCK - 1; a >= 0; a--) {
            for (int b = a + 1; b < BLOCK; b++)
                along[r][a] -= along[r][b] * products[a][b];
            along[r][a] *= scale[a];
        }
    for (int c = 0; c < length; c++)
        for (int r = 0; r < n; r++) {
            lanes changed = rows[(long long)r * size + c];
            for (int a = 0; a < BLOCK; a++)
                changed -= along[r][a] * axes[c * BLOCK + a];
            rows[(long long)r * size + c] = changed;
        }
}

/* The same of one row and one axis. */
static void reflect_one(lanes *row, const lanes *axis, int length, lanes scale)
{
    lanes along = alike(0);
    for (int c = 0; c < length; c++)
        along += row[c] * axis[c];
    along *= scale;
    for (int c = 0; c < length; c++)
        row[c] -= along * axis[c];
}

/* Makes of a row of i + 1 numbers the axis of the reflection that leaves its last alone. */
static void find_axis(lanes *axis, int i, lanes *end, lanes *scale)
{
    lanes square = alike(0);
    for (int c = 0; c <= i; c++)
        square += axis[c] * axis[c];
    *end = roots(square);
    for (int l = 0; l < WIDTH; l++) {
        double last = LANE(axis[i], l), length = LANE(*end, l);
        LANE(*scale, l) = length > 0 ? 1 / (length * (length + fabs(last))) : 0;
        LANE(*end, l) = last > 0 ? -length : length;
    }
    axis[i] -= *end;
}

/* The upper triangular U with U U^T = matrix matrix^T, in its place: Householder's reflections of
   the columns, from the last row to the first; signs of columns are any.

   BLOCK of them are made together, of some rows at a time.
   matrix: (size, size) of lanes, size a multiple of BLOCK; axes: scratch, (size, BLOCK). */
static void triangulate(lanes *matrix, int size, lanes *axes)
{
    for (int first = size - BLOCK; first >= 0; first -= BLOCK) {
        const int length = first + BLOCK;
        lanes end[BLOCK], scale[BLOCK], products[BLOCK][BLOCK];
        lanes *const own = matrix + (long long)first * size;
        for (int a = BLOCK - 1; a >= 0; a--) {
            lanes *axis = own + (long long)a * size;
            find_axis(axis, first + a, end + a, scale + a);
            for (int b = 0; b < a; b++)
                reflect_one(own + (long long)b * size, axis, first + a + 1, scale[a]);
            for (int c = 0; c < length; c++)
                axes[c * BLOCK + a] = c <= first + a ? axis[c] : alike(0);
        }
        for (int a = 0; a < BLOCK; a++)
            for (int b = a + 1; b < BLOCK; b++) {
                products[a][b] = alike(0);
                for (int c = 0; c <= first + a; c++)
                    products[a][b] += axes[c * BLOCK + a] * axes[c * BLOCK + b];
            }
        for (int r = 0; r < first; r += 4)
            if (r + 4 <= first)
                reflect(matrix + (long long)r * size, 4, size, axes, length, products, scale);
            else
                reflect(matrix + (long long)r * size, BLOCK, size, axes, length, products, scale);
        for (int a = 0; a < BLOCK; a++) {
            for (int c = 0; c < first + a; c++)
                own[(long long)a * size + c] = alike(0);
            own[(long long)a * size + first + a] = end[a];
        }
    }
}

/* ---------------------------------------------------------------- columns as lanes */

/* Adds to `total`, of two vectors of columns, those of P times half of M P for R rows from i on.

   packed: the upper triangle of M, (size, size), row after row; columns: those of the upper
   triangular P, (rows, pitch), of which `end` are not 0. R is a constant wherever this is inlined. */
INLINE void add_traces(
    const double *packed, const double *columns, int size, int pitch, int i, int end, int R,
    lanes *total)
{
    const double *entry[4];  // of M, by column
    lanes sum[4][2];
    for (int a = 0; a < R; a++) {
        const long long at = i + a;
        entry[a] = packed + at * size - at * (at + 1) / 2;
        for (int v = 0; v < 2; v++) {
            const lanes *own = (const lanes *)(columns + at * pitch) + v;
            sum[a][v] = 0.5 * entry[a][at] * *own;
        }
        for (int b = a + 1; b < R; b++)
            for (int v = 0; v < 2; v++)
                sum[a][v] += entry[a][i + b] * ((const lanes *)(columns + (long long)(i + b) * pitch))[v];
    }
    for (int j = i + R; j < end; j++)
        for (int v = 0; v < 2; v++) {
            const lanes right = ((const lanes *)(columns + (long long)j * pitch))[v];
            for (int a = 0; a < R; a++)
                sum[a][v] += entry[a][j] * right;
        }
    for (int a = 0; a < R; a++)
        for (int v = 0; v < 2; v++)
            total[v] += ((const lanes *)(columns + (long long)(i + a) * pitch))[v] * sum[a][v];
}

/* The trace of M P P^T.

   packed: the upper triangle of a symmetric M, row after row; factor: upper triangular P, with
   zeros up to `pitch`, a multiple of 2 WIDTH. */
static double trace_of_product(const double *packed, const double *factor, int size, int pitch)
{
    double trace = 0;
    for (int c = 0; c < pitch; c += 2 * WIDTH) {
        const int end = c + 2 * WIDTH < size ? c + 2 * WIDTH : size;
        lanes total[2] = {alike(0), alike(0)};
        int i = 0;
        for (; i + 4 <= end; i += 4)
            add_traces(packed, factor + c, size, pitch, i, end, 4, total);
        for (; i < end; i++)
            add_traces(packed, factor + c, size, pitch, i, end, 1, total);
        total[0] += total[1];
        for (int l = 0; l < WIDTH; l++)
            trace += LANE(total[0], l);
    }
    return 2 * trace;
}

#undef BLOCK
#undef LANE
