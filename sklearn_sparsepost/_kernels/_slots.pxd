"""Counts of a document's slots and what its words weigh in them, in rows of lanes.

The compiler is told that nothing overlaps. Lists of slots are padded to
whole rows.
"""
from sklearn_sparsepost._kernels._lanes cimport run_up  # the C that comes with it is used here

cdef extern from *:
    """
    #if defined(_MSC_VER)
    #define SPARSEPOST_RESTRICT __restrict
    #else
    #define SPARSEPOST_RESTRICT __restrict__
    #endif
    /* Entries of a table, a vector at a time, as the compiler knows that nothing overlaps. */
    static CYTHON_INLINE void sparsepost_gather(
        float *SPARSEPOST_RESTRICT out, const float *SPARSEPOST_RESTRICT table,
        const int *SPARSEPOST_RESTRICT at, int n
    ) {
        int j;
        for (j = 0; j < n; j++) out[j] = table[at[j]];
    }
    /* Whole rows of lanes are written: what is read next in one load was not written in parts. */
    static CYTHON_INLINE void sparsepost_count(float *count, unsigned slot, float by) {
        float *SPARSEPOST_RESTRICT row = count + slot / 16 * 16;
        unsigned j, lane = slot % 16;
        for (j = 0; j < 16; j++) row[j] += j == lane ? by : 0.0f;
    }
    static CYTHON_INLINE void sparsepost_weigh(
        float *SPARSEPOST_RESTRICT out, const float *SPARSEPOST_RESTRICT count,
        const float *SPARSEPOST_RESTRICT weight, int n_rows
    ) {
        int j;
        for (j = 0; j < 16 * n_rows; j++) out[j] = count[j] * weight[j];
    }
    static CYTHON_INLINE void sparsepost_add(
        float *SPARSEPOST_RESTRICT out, float factor, const float *SPARSEPOST_RESTRICT count,
        const float *SPARSEPOST_RESTRICT weight, int n_rows
    ) {
        int j;
        for (j = 0; j < 16 * n_rows; j++) out[j] += factor * (count[j] * weight[j]);
    }
    static CYTHON_INLINE void sparsepost_add_row(
        float *SPARSEPOST_RESTRICT out, float factor, const float *SPARSEPOST_RESTRICT row
    ) {
        int j;
        for (j = 0; j < 16; j++) out[j] += factor * row[j];
    }
    #if defined(__AVX512F__)
    #define SPARSEPOST_IN_REGISTER 1
    /* A token's draw where one row has all slots, whose counts stay in a register meanwhile: the
       slot that u times the sum of all weights and `far` falls to, or 16 for none. The token is
       taken out of its old count, and added to that of the slot. */
    static CYTHON_INLINE int sparsepost_draw(
        float *count, const float *weight, unsigned old, float u, float far, float *partial,
        float *total
    ) {
        const __m512 one = _mm512_set1_ps(1);
        __m512 c = _mm512_loadu_ps(count), v, sum;
        int lane;
        c = _mm512_mask_sub_ps(c, (__mmask16)(1u << old), c, one);
        v = _mm512_mul_ps(c, _mm512_loadu_ps(weight));
        _mm512_storeu_ps(partial, v);
        v = sparsepost_lanes_up(v);
        sum = _mm512_permutexvar_ps(_mm512_set1_epi32(15), v);
        *total = _mm512_cvtss_f32(sum);
        sum = _mm512_mul_ps(_mm512_set1_ps(u), _mm512_add_ps(sum, _mm512_set1_ps(far)));
        lane = _mm_popcnt_u32(_mm512_cmp_ps_mask(v, sum, _CMP_LE_OQ));
        _mm512_storeu_ps(count, _mm512_mask_add_ps(c, (__mmask16)(1u << lane), c, one));
        return lane;
    }
    #else
    #define SPARSEPOST_IN_REGISTER 0
    #define sparsepost_draw(count, weight, old, u, far, partial, total) 16
    #endif
    """
    void add_row "sparsepost_add_row" (float *out, float factor, const float *row) noexcept nogil
    int draw_in_row "sparsepost_draw" (
        float *count, const float *weight, unsigned int old, float u, float far, float *partial,
        float *total) noexcept nogil
    bint in_register "SPARSEPOST_IN_REGISTER"
    void add_to_lane "sparsepost_count" (float *count, unsigned int slot, float by) noexcept nogil
    void weigh "sparsepost_weigh" (
        float *out, const float *count, const float *weight, int n_rows) noexcept nogil
    void add_products "sparsepost_add" (
        float *out, float factor, const float *count, const float *weight, int n_rows
    ) noexcept nogil
    void gather "sparsepost_gather" (
        float *out, const float *table, const int *at, int n) noexcept nogil
