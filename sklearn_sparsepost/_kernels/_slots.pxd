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
    /* Entries of a table: gathered where that is faster, in loads of which none waits for another
       elsewhere, as the compiler knows that nothing overlaps. Places are padded to a row. */
    static CYTHON_INLINE void sparsepost_gather(
        float *SPARSEPOST_RESTRICT out, const float *SPARSEPOST_RESTRICT table,
        const int *SPARSEPOST_RESTRICT at, int n
    ) {
        int j;
    #if defined(__AVX512F__)
        for (j = 0; sparsepost_gathers && j < n; j += 16) {
            __mmask16 held = SPARSEPOST_HELD(n - j);
            __m512i k = _mm512_loadu_si512(at + j);
            __m512 v = _mm512_mask_i32gather_ps(_mm512_setzero_ps(), held, k, table, 4);
            _mm512_mask_storeu_ps(out + j, held, v);
        }
        if (sparsepost_gathers)
            return;
    #endif
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
    /* The slots that have at least a share of all slots' sum, and no less than nothing; what the
       others have stays in `rest`, which is 0 elsewhere. The numbers found are returned. */
    static CYTHON_INLINE int sparsepost_split(
        const float *SPARSEPOST_RESTRICT kept, int n_slots, int n_rows, float share,
        int *SPARSEPOST_RESTRICT slot, float *SPARSEPOST_RESTRICT large,
        float *SPARSEPOST_RESTRICT rest
    ) {
        float total = 0, least;
        int j, n = 0;
        for (j = 0; j < 16 * n_rows; j++) total += kept[j];
        least = share * total;
        for (j = 0; j < 16 * n_rows; j++) rest[j] = kept[j] < least ? kept[j] : 0.0f;
        for (j = 0; j < n_slots; j++) {
            slot[n] = j;
            large[n] = kept[j];
            n += (kept[j] >= least) & (kept[j] > 0);
        }
        return n;
    }
    /* What slots with tokens have, one after another; `out` may begin at or before `row`. */
    static CYTHON_INLINE void sparsepost_pack(
        float *out, const float *row, const float *count, int n_rows
    ) {
        int j;
    #if defined(__AVX512F__)
        for (j = 0; j < n_rows; j++) {
            const __m512 c = _mm512_loadu_ps(count + 16 * j), none = _mm512_setzero_ps();
            __mmask16 used = _mm512_cmp_ps_mask(c, none, _CMP_GT_OQ);
            __m512 v = _mm512_maskz_compress_ps(used, _mm512_loadu_ps(row + 16 * j));
            _mm512_storeu_ps(out, v);
            out += _mm_popcnt_u32(used);
        }
    #else
        for (j = 0; j < 16 * n_rows; j++) {
            *out = row[j];
            out += count[j] > 0;
        }
    #endif
    }
    #if defined(__AVX512F__)
    #if defined(_MSC_VER)
    #define SPARSEPOST_UNROLLED static __forceinline
    #else
    #define SPARSEPOST_UNROLLED static inline __attribute__((always_inline))
    #endif
    #define SPARSEPOST_IN_REGISTERS 8
    /* A token's draw where a few rows have all slots, whose weights stay in registers: the slot
       that u times the sum of all weights and `far` falls to, or -1 for none. The token is taken
       out of its old count and added to that of the slot, which are rows that are written whole.
       Products are masked, so that no compiler turns them and their sums into one rounding. */
    SPARSEPOST_UNROLLED int sparsepost_draw_in(
        const int n_rows, float *count, const float *weight, unsigned old, float u, float far,
        float *kept
    ) {
        const __m512 one = _mm512_set1_ps(1);
        const __mmask16 all = 0xffff;
        float *row = count + old / 16 * 16;
        __m512 v[SPARSEPOST_IN_REGISTERS], run[SPARSEPOST_IN_REGISTERS];
        __m512 c = _mm512_loadu_ps(row), lanes, sum, x, most;
        __m512i at;
        int r, lane, found = 0;
        c = _mm512_mask_sub_ps(c, (__mmask16)(1u << old % 16), c, one);
        _mm512_storeu_ps(row, c);
        for (r = 0; r < n_rows; r++) {
            c = n_rows == 1 ? c : _mm512_loadu_ps(count + 16 * r);
            v[r] = _mm512_maskz_mul_ps(all, c, _mm512_loadu_ps(weight + 16 * r));
            run[r] = r ? _mm512_add_ps(run[r - 1], v[r]) : v[r];
        }
        lanes = sparsepost_lanes_up(run[n_rows - 1]);
        sum = _mm512_permutexvar_ps(_mm512_set1_epi32(15), lanes);
        x = _mm512_mul_ps(_mm512_set1_ps(u), _mm512_add_ps(sum, _mm512_set1_ps(far)));
        lane = _mm_popcnt_u32(_mm512_cmp_ps_mask(lanes, x, _CMP_LE_OQ));
        if (lane == 16)
            return -1;
        if (n_rows > 1) {
            at = _mm512_set1_epi32(lane - 1);
            x = _mm512_sub_ps(x, _mm512_maskz_permutexvar_ps(lane ? all : 0, at, lanes));
            at = _mm512_set1_epi32(lane);
            /* What was rounded up to all there is would be beyond the last weight. */
            most = _mm512_mul_ps(run[n_rows - 1], _mm512_set1_ps(0.99999994f));
            x = _mm512_min_ps(x, _mm512_permutexvar_ps(at, most));
            for (r = 0; r < n_rows - 1; r++)
                found += _mm512_cmp_ps_mask(_mm512_permutexvar_ps(at, run[r]), x, _CMP_LE_OQ) & 1;
        }
        if (kept) {
            x = _mm512_div_ps(one, sum);
            for (r = 0; r < n_rows; r++) {
                c = _mm512_maskz_mul_ps(all, x, v[r]);
                _mm512_storeu_ps(
                    kept + 16 * r, _mm512_add_ps(_mm512_loadu_ps(kept + 16 * r), c));
            }
        }
        row = count + 16 * found;
        c = _mm512_loadu_ps(row);
        _mm512_storeu_ps(row, _mm512_mask_add_ps(c, (__mmask16)(1u << lane), c, one));
        return 16 * found + lane;
    }
    static int sparsepost_draw(
        int n_rows, float *count, const float *weight, unsigned old, float u, float far,
        float *kept
    ) {
    #define SPARSEPOST_ROWS(n) \
        case n: return sparsepost_draw_in(n, count, weight, old, u, far, kept);
        switch (n_rows) {
            SPARSEPOST_ROWS(1)
            SPARSEPOST_ROWS(2)
            SPARSEPOST_ROWS(3)
            SPARSEPOST_ROWS(4)
            SPARSEPOST_ROWS(5)
            SPARSEPOST_ROWS(6)
            SPARSEPOST_ROWS(7)
            default: return sparsepost_draw_in(8, count, weight, old, u, far, kept);
        }
    }
    #else
    #define SPARSEPOST_IN_REGISTERS 0
    #define sparsepost_draw(n_rows, count, weight, old, u, far, kept) (-1)
    #endif
    """
    int draw_in_rows "sparsepost_draw" (
        int n_rows, float *count, const float *weight, unsigned int old, float u, float far,
        float *kept) noexcept nogil
    enum:
        IN_REGISTERS "SPARSEPOST_IN_REGISTERS"  # rows that a draw takes so
    void add_to_lane "sparsepost_count" (float *count, unsigned int slot, float by) noexcept nogil
    void weigh "sparsepost_weigh" (
        float *out, const float *count, const float *weight, int n_rows) noexcept nogil
    void add_products "sparsepost_add" (
        float *out, float factor, const float *count, const float *weight, int n_rows
    ) noexcept nogil
    int split "sparsepost_split" (
        const float *kept, int n_slots, int n_rows, float share, int *slot, float *large,
        float *rest) noexcept nogil
    void pack "sparsepost_pack" (
        float *out, const float *row, const float *count, int n_rows) noexcept nogil
    void gather "sparsepost_gather" (
        float *out, const float *table, const int *at, int n) noexcept nogil
