"""Draws from weights that are laid out in rows of lanes, decided without branches.

Across lanes every sum is that of the lower half of some lanes and of what the upper half has run up
to, so that the sums do not fall from lane to lane, and rise at none that is zero.
"""

cdef enum:
    LANES = 16


cdef extern from *:
    """
    #if defined(__AVX512F__)
    #include <immintrin.h>

    static inline float sparsepost_run_up(float *weight, int n_rows, float *running) {
        const __m512i three = _mm512_set_epi32(
            11, 11, 11, 11, 11, 11, 11, 11, 3, 3, 3, 3, 3, 3, 3, 3);
        const __m512i seven = _mm512_set1_epi32(7);
        __m512 v = _mm512_setzero_ps();
        for (int i = 0; i < n_rows; i++) {
            v = _mm512_add_ps(v, _mm512_loadu_ps(weight + 16 * i));
            _mm512_storeu_ps(weight + 16 * i, v);
        }
        v = _mm512_mask_add_ps(v, 0xaaaa, v, _mm512_moveldup_ps(v));
        v = _mm512_mask_add_ps(v, 0xcccc, v, _mm512_permute_ps(v, 0x55));
        v = _mm512_mask_add_ps(v, 0xf0f0, v, _mm512_permutexvar_ps(three, v));
        v = _mm512_mask_add_ps(v, 0xff00, v, _mm512_permutexvar_ps(seven, v));
        _mm512_storeu_ps(running, v);
        return running[15];
    }

    static inline int sparsepost_passed(const float *running, float x) {
        __m512 v = _mm512_loadu_ps(running);
        return _mm_popcnt_u32(_mm512_cmp_ps_mask(v, _mm512_set1_ps(x), _CMP_LE_OQ));
    }

    #else
    static inline float sparsepost_run_up(float *weight, int n_rows, float *running) {
        for (int lane = 0; lane < 16; lane++)
            running[lane] = 0;
        for (int i = 0; i < n_rows; i++)
            for (int lane = 0; lane < 16; lane++)
                weight[16 * i + lane] = running[lane] += weight[16 * i + lane];
        for (int half = 1; half < 16; half *= 2)
            for (int lane = half; lane < 16; lane++)
                if (lane & half)
                    running[lane] += running[lane / half * half - 1];
        return running[15];
    }

    static inline int sparsepost_passed(const float *running, float x) {
        int n = 0;
        for (int lane = 0; lane < 16; lane++)
            n += running[lane] <= x;
        return n;
    }
    #endif

    /* Plain loads that wait for each other's lines together: no gathers, which some processors have
       slow since they were mended against leaks, and no branch before a load. */
    #define SPARSEPOST_WEIGH(name, type, read)                                                    \
        static inline void name(const type *value, const int *place, const float *factor,         \
                                int n_rows, int without, float *weight) {                         \
            for (int i = 0; i < 16 * n_rows; i += 4) {                                            \
                const int *k = place + i;                                                         \
                float a = read(k[0]), b = read(k[1]), c = read(k[2]), d = read(k[3]);             \
                weight[i] = a * factor[i];                                                        \
                weight[i + 1] = b * factor[i + 1];                                                \
                weight[i + 2] = c * factor[i + 2];                                                \
                weight[i + 3] = d * factor[i + 3];                                                \
            }                                                                                     \
            for (int i = 0; i < 16 * n_rows; i++)                                                 \
                weight[i] = place[i] == without ? 0 : weight[i];                                  \
        }
    #define SPARSEPOST_COUNT(k) ((float)value[k])
    #define SPARSEPOST_FIRST(k) value[2 * (k)]
    SPARSEPOST_WEIGH(sparsepost_weigh_counts, int, SPARSEPOST_COUNT)
    SPARSEPOST_WEIGH(sparsepost_weigh_pairs, float, SPARSEPOST_FIRST)
    """
    # Replace weights by running sums down each lane, find those of the lanes, and all weights' sum.
    float run_up "sparsepost_run_up"(float *weight, int n_rows, float *running) noexcept nogil
    # How many running sums do not pass x.
    int _passed "sparsepost_passed"(const float *running, float x) noexcept nogil
    # Counts, or first numbers of pairs, at some places times factors, without one place.
    void weigh_counts "sparsepost_weigh_counts"(
        const int *value, const int *place, const float *factor, int n_rows, int without,
        float *weight) noexcept nogil
    void weigh_pairs "sparsepost_weigh_pairs"(
        const float *value, const int *place, const float *factor, int n_rows, int without,
        float *weight) noexcept nogil


cdef inline int pick(
    const float *partial, int n, const float *running, double u
) noexcept nogil:
    """Which of n entries a number falls to, after `run_up`."""
    cdef float below_one = 0.99999994, x = <float>u
    cdef int n_rows = (n + LANES - 1) // LANES, lane, half, first = 0, low, j
    # A number that was rounded up to all there is would be beyond the last weight.
    x = min(x, running[LANES - 1] * below_one)
    lane = _passed(running, x)
    if lane == LANES:  # nothing weighs anything
        return 0
    x -= running[lane - 1] if lane else 0
    partial += lane
    x = min(x, partial[(n_rows - 1) * LANES] * below_one)
    while n_rows > 8:
        half = n_rows // 2
        first += half if partial[(first + half - 1) * LANES] <= x else 0
        n_rows -= half
    low = first
    for j in range(first, first + n_rows - 1):
        low += partial[j * LANES] <= x
    j = low * LANES + lane
    return j if j < n else 0
