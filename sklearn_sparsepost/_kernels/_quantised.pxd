# Rows and columns in 16-bit integers, and squared lengths of projections, see `_quantised.h`.
from libc.math cimport fabsf, sqrtf

cdef extern from "_quantised.h" nogil:
    int lane_survivors(
        const int *rows, int stride, int n, int n_pairs, const int *columns, int pitch,
        int n_columns, int above, const float *most, bint wants_left, int first, int *number,
        float *kept, int held,
    )
    int pair_survivors(
        const int *rows, int n, int n_pairs, const int *columns, int pitch, int n_columns,
        int above, float more, int *number, float *left, float *after,
    )
    # Whether products of pairs are added by one instruction from now on, which needs a processor
    # that has it.
    bint choose_fused(bint wanted)

cdef extern from *:
    """
    /* The most that a number is, and the most that the length of a row or column is, so that no
       projection reaches 2^31 even when both are rounded up; and the finest unit's inverse. */
    static const float SPARSEPOST_LARGEST = 32767;
    static const float SPARSEPOST_LONGEST = 46000;
    static const float SPARSEPOST_FINEST = 1e9f;
    """
    const float LARGEST "SPARSEPOST_LARGEST"
    const float LONGEST "SPARSEPOST_LONGEST"
    const float FINEST "SPARSEPOST_FINEST"


cdef inline float units(float largest, float length) noexcept nogil:
    """How many units 1 is, for numbers of so large an absolute value, and of so great a length."""
    if largest == 0:
        return FINEST
    return min(FINEST, LARGEST / largest, LONGEST / length)


cdef inline float quantise(
    const float *row, int D, float origin, int above, short *out, int n_out
) noexcept nogil:
    """A row in units, after `origin` if `above` is 1; returns how many units 1 is."""
    cdef int j
    cdef float v, scale, largest = above * origin, length = largest * largest
    for j in range(D):
        v = fabsf(row[j])
        largest = v if v > largest else largest
        length += v * v
    scale = units(largest, sqrtf(length))
    for j in range(D):
        v = row[j] * scale
        out[above + j] = <short>(v + (<float>0.5 if v >= 0 else -<float>0.5))
    if above:
        out[0] = <short>(origin * scale + <float>0.5)
    for j in range(above + D, n_out):
        out[j] = 0
    return scale
