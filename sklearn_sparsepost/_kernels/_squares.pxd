# Squared lengths of projections, see `_squares.h`: of rows one by one, and with rows as lanes.
from sklearn_sparsepost._kernels._types cimport floating

cdef extern from "_squares.h" nogil:
    void row_squares_f(
        const float *rows, const int *which, int n, int n_features, const float *columns,
        int pitch, int n_columns, const float *offset, int above, float *out,
    )
    void row_squares_d(
        const double *rows, const int *which, int n, int n_features, const double *columns,
        int pitch, int n_columns, const double *offset, int above, double *out,
    )
    void lane_squares(
        const float *rows, int stride, int n, int n_features, const float *columns, int pitch,
        int n_columns, const float *offset, float *out,
    )


cdef inline void row_squares(
    const floating *rows, const int *which, int n, int D, const floating *columns, int pitch,
    int n_columns, const floating *offset, int above, floating *out
) noexcept nogil:
    if floating is float:
        row_squares_f(rows, which, n, D, columns, pitch, n_columns, offset, above, out)
    else:
        row_squares_d(rows, which, n, D, columns, pitch, n_columns, offset, above, out)
