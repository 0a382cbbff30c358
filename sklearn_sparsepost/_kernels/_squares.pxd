# Squared lengths of projections, see `_squares.h`: of rows one by one.
from sklearn_sparsepost._kernels._types cimport floating

cdef extern from "_squares.h" nogil:
    void row_squares_f(
        const float *rows, const int *which, int n, int n_features, const float *columns,
        int pitch, int n_columns, const float *offset, float *out,
    )
    void row_squares_d(
        const double *rows, const int *which, int n, int n_features, const double *columns,
        int pitch, int n_columns, const double *offset, double *out,
    )


cdef inline void row_squares(
    const floating *rows, const int *which, int n, int D, const floating *columns, int pitch,
    int n_columns, const floating *offset, floating *out
) noexcept nogil:
    if floating is float:
        row_squares_f(rows, which, n, D, columns, pitch, n_columns, offset, out)
    else:
        row_squares_d(rows, which, n, D, columns, pitch, n_columns, offset, out)
