"""Draws among the topics that a document has, listed in rows of lanes, for a word whose weights are
laid out over all topics.

An entry has a topic in its low bits and the document's tokens in it in the others; without tokens
it is empty, whatever topic it has. The weights are one number a topic, or two, of which the second
is multiplied by `base`. The topic of the token that is drawn weighs `own` a token, and the token is
not among these.

What entries weigh is gathered or loaded, see `_lanes.pxd`; both make the same bits.
"""
from sklearn_sparsepost._kernels._lanes cimport (
    LANES, pick, run_up,  # the C that comes with them is used here
)

cdef extern from *:
    """
    #if defined(_MSC_VER)
    #define SPARSEPOST_FIRST_BIT(mask) ((int)_tzcnt_u32(mask))
    #define SPARSEPOST_IN_PLACE static __forceinline
    #else
    #define SPARSEPOST_FIRST_BIT(mask) __builtin_ctz(mask)
    #define SPARSEPOST_IN_PLACE static inline __attribute__((always_inline))
    #endif

    #if defined(__AVX2__)
    #define SPARSEPOST_LOADS(read, first) \\
        read(first), read(first + 1), read(first + 2), read(first + 3), \\
        read(first + 4), read(first + 5), read(first + 6), read(first + 7)
    #define SPARSEPOST_FIRST_AT(j) weight[entry[j] & topics]
    #define SPARSEPOST_PAIR_FIRST(j) weight[2 * (entry[j] & topics)]
    #define SPARSEPOST_PAIR_SECOND(j) weight[2 * (entry[j] & topics) + 1]

    /* The weights of 8 entries' topics k. */
    SPARSEPOST_IN_PLACE __m256 sparsepost_at_entries(
        const unsigned *entry, unsigned topics, __m256i k, const float *weight, float base
    ) {
        const __m256 all = _mm256_castsi256_ps(_mm256_set1_epi32(-1));
        (void)base;
        if (!sparsepost_gathers)
            return _mm256_setr_ps(SPARSEPOST_LOADS(SPARSEPOST_FIRST_AT, 0));
        return _mm256_mask_i32gather_ps(_mm256_setzero_ps(), weight, k, all, 4);
    }

    SPARSEPOST_IN_PLACE __m256 sparsepost_at_pairs(
        const unsigned *entry, unsigned topics, __m256i k, const float *weight, float base
    ) {
        const __m256d all = _mm256_castsi256_pd(_mm256_set1_epi32(-1)), none = _mm256_setzero_pd();
        __m256 first, second, low, high;
        if (!sparsepost_gathers) {
            first = _mm256_setr_ps(SPARSEPOST_LOADS(SPARSEPOST_PAIR_FIRST, 0));
            second = _mm256_setr_ps(SPARSEPOST_LOADS(SPARSEPOST_PAIR_SECOND, 0));
        } else {
            const double *pair = (const double *)weight;
            /* In the order 0 1 4 5 2 3 6 7, so that halves of vectors are unzipped in place. */
            __m256i mixed = _mm256_permute4x64_epi64(k, 0xd8);
            __m128i k_low = _mm256_castsi256_si128(mixed);
            __m128i k_high = _mm256_extracti128_si256(mixed, 1);
            low = _mm256_castpd_ps(_mm256_mask_i32gather_pd(none, pair, k_low, all, 8));
            high = _mm256_castpd_ps(_mm256_mask_i32gather_pd(none, pair, k_high, all, 8));
            first = _mm256_shuffle_ps(low, high, 0x88);
            second = _mm256_shuffle_ps(low, high, 0xdd);
        }
        return _mm256_fmadd_ps(_mm256_set1_ps(base), second, first);
    }

    /* What 8 entries weigh, and in `held` the bit of the one whose topic is the token's. */
    #define SPARSEPOST_HALF_ROW(name, at)                                                         \\
        SPARSEPOST_IN_PLACE __m256 name(                                                          \\
            const unsigned *entry, int bits, const float *weight, float base, int old, float own, \\
            unsigned *held                                                                        \\
        ) {                                                                                       \\
            const unsigned topics = (1u << bits) - 1;                                             \\
            const __m256i pairs = _mm256_loadu_si256((const __m256i *)entry);                     \\
            __m256i k = _mm256_and_si256(pairs, _mm256_set1_epi32((int)topics));                  \\
            __m256i count = _mm256_srl_epi32(pairs, _mm_cvtsi32_si128(bits));                     \\
            __m256i is = _mm256_andnot_si256(                                                     \\
                _mm256_cmpeq_epi32(count, _mm256_setzero_si256()),                                \\
                _mm256_cmpeq_epi32(k, _mm256_set1_epi32(old)));                                   \\
            __m256 v = at(entry, topics, k, weight, base);                                        \\
            v = _mm256_blendv_ps(v, _mm256_set1_ps(own), _mm256_castsi256_ps(is));                \\
            *held = (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(is));                        \\
            return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_add_epi32(count, is)), v);             \\
        }
    SPARSEPOST_HALF_ROW(sparsepost_half_entries, sparsepost_at_entries)
    SPARSEPOST_HALF_ROW(sparsepost_half_pairs, sparsepost_at_pairs)

    /* Sums run up as `sparsepost_lanes_up` does it. */
    SPARSEPOST_IN_PLACE __m256 sparsepost_half_up(__m256 v) {
        const __m256 none = _mm256_setzero_ps();
        v = _mm256_add_ps(v, _mm256_blend_ps(none, _mm256_moveldup_ps(v), 0xaa));
        v = _mm256_add_ps(v, _mm256_blend_ps(none, _mm256_permute_ps(v, 0x55), 0xcc));
        const __m256 three = _mm256_permutevar8x32_ps(v, _mm256_set1_epi32(3));
        return _mm256_add_ps(v, _mm256_blend_ps(none, three, 0xf0));
    }

    SPARSEPOST_IN_PLACE float sparsepost_last_of(__m256 v) {
        return _mm256_cvtss_f32(_mm256_permutevar8x32_ps(v, _mm256_set1_epi32(7)));
    }

    SPARSEPOST_IN_PLACE int sparsepost_half_passed(__m256 v, float x) {
        __m256 passed = _mm256_cmp_ps(v, _mm256_set1_ps(x), _CMP_LE_OQ);
        return (int)_mm_popcnt_u32((unsigned)_mm256_movemask_ps(passed));
    }

    #define SPARSEPOST_DRAW(draw, weigh, half)                                                    \\
        SPARSEPOST_IN_PLACE int draw(                                                             \\
            const unsigned *entry, int bits, const float *weight, float base, int n, int old,     \\
            float own, double u, double rest, double *left, int *mine                             \\
        ) {                                                                                       \\
            unsigned held, more = 0;                                                              \\
            int lane;                                                                             \\
            float total, x;                                                                       \\
            __m256 v = sparsepost_half_up(half(entry, bits, weight, base, old, own, &held)), w;   \\
            total = sparsepost_last_of(v);                                                        \\
            if (n > 8) {                                                                          \\
                w = sparsepost_half_up(half(entry + 8, bits, weight, base, old, own, &more));     \\
                w = _mm256_add_ps(w, _mm256_set1_ps(total));                                      \\
                total = sparsepost_last_of(w);                                                    \\
            }                                                                                     \\
            u *= total + rest;                                                                    \\
            x = (float)u;                                                                         \\
            lane = sparsepost_half_passed(v, x);                                                  \\
            if (n > 8)                                                                            \\
                lane += sparsepost_half_passed(w, x);                                             \\
            *left = u - total;                                                                    \\
            *mine = SPARSEPOST_FIRST_BIT(held | more << 8);                                       \\
            return lane;                                                                          \\
        }                                                                                         \\
        static inline int weigh(const unsigned *entry, int bits, const float *weight, float base, \\
                                int n, int old, float own, float *out) {                          \\
            unsigned held;                                                                        \\
            int mine = 0;                                                                         \\
            for (int j = 0; j < n; j += 8) {                                                      \\
                __m256 v = half(entry + j, bits, weight, base, old, own, &held);                  \\
                _mm256_storeu_ps(out + j, v);                                                     \\
                mine = held ? j + SPARSEPOST_FIRST_BIT(held) : mine;                              \\
            }                                                                                     \\
            return mine;                                                                          \\
        }
    SPARSEPOST_DRAW(sparsepost_draw_entries, sparsepost_weigh_entries, sparsepost_half_entries)
    SPARSEPOST_DRAW(sparsepost_draw_pairs, sparsepost_weigh_pairs_of, sparsepost_half_pairs)

    #else
    #define SPARSEPOST_ONE_WEIGHT(k) weight[k]
    #define SPARSEPOST_TWO_WEIGHTS(k) (weight[2 * (k)] + base * weight[2 * (k) + 1])

    /* `weigh`: what entries weigh, and at which of them the token's topic is. `draw`: to which of
       one row's entries u times the sum of all weights and `rest` falls, `n` if to the rest; what
       is left for that is in `left`. */
    #define SPARSEPOST_DRAW(draw, weigh, read)                                                    \\
        static inline int weigh(const unsigned *entry, int bits, const float *weight, float base, \\
                                int n, int old, float own, float *out) {                          \\
            const unsigned topics = (1u << bits) - 1;                                             \\
            int mine = 0;                                                                         \\
            (void)base;                                                                           \\
            for (int j = 0; j < n; j++) {                                                         \\
                const int k = (int)(entry[j] & topics), count = (int)(entry[j] >> bits);          \\
                const int held = (k == old) & (count > 0);                                        \\
                float each = read(k);                                                             \\
                each = held ? own : each;                                                         \\
                out[j] = (float)(count - held) * each;                                            \\
                mine = held ? j : mine;                                                           \\
            }                                                                                     \\
            return mine;                                                                          \\
        }                                                                                         \\
        static inline int draw(                                                                   \\
            const unsigned *entry, int bits, const float *weight, float base, int n, int old,     \\
            float own, double u, double rest, double *left, int *mine                             \\
        ) {                                                                                       \\
            float run[16], total = 0, x;                                                          \\
            int lane = 0;                                                                         \\
            *mine = weigh(entry, bits, weight, base, n, old, own, run);                           \\
            for (int j = 0; j < n; j++)                                                           \\
                run[j] = total += run[j];                                                         \\
            u *= total + rest;                                                                    \\
            x = (float)u;                                                                         \\
            for (int j = 0; j < n; j++)                                                           \\
                lane += run[j] <= x;                                                              \\
            *left = u - total;                                                                    \\
            return lane;                                                                          \\
        }
    SPARSEPOST_DRAW(sparsepost_draw_entries, sparsepost_weigh_entries, SPARSEPOST_ONE_WEIGHT)
    SPARSEPOST_DRAW(sparsepost_draw_pairs, sparsepost_weigh_pairs_of, SPARSEPOST_TWO_WEIGHTS)
    #endif

    static inline float sparsepost_run_up_entries(
        const unsigned *entry, int bits, const float *weight, int n_rows, float *out, float *running
    ) {
        #if defined(__AVX512F__)
        if (sparsepost_gathers) {
            const __m512i topics = _mm512_set1_epi32((int)((1u << bits) - 1));
            const __m128i shift = _mm_cvtsi32_si128(bits);
            __m512 v = _mm512_setzero_ps();
            for (int i = 0; i < n_rows; i++) {
                __m512i pairs = _mm512_loadu_si512(entry + 16 * i);
                __m512i count = _mm512_srl_epi32(pairs, shift);
                __mmask16 held = _mm512_test_epi32_mask(count, count);
                __m512 own = _mm512_i32gather_ps(_mm512_and_si512(pairs, topics), weight, 4);
                v = _mm512_add_ps(v, _mm512_maskz_mul_ps(held, _mm512_cvtepi32_ps(count), own));
                _mm512_storeu_ps(out + 16 * i, v);
            }
            return sparsepost_across(v, running);
        }
        #endif
        sparsepost_weigh_entries(entry, bits, weight, 0, 16 * n_rows, -1, 0, out);
        return sparsepost_run_up(out, n_rows, running);
    }
    """
    # To which of one row's n entries, 8 or 16, u times the sum of what they and `rest` weigh falls,
    # n if to the rest, with what is left for that; and which one has the token's topic, `old`.
    int draw_entries "sparsepost_draw_entries" (
        const unsigned int *entry, int bits, const float *weight, float base, int n, int old,
        float own, double u, double rest, double *left, int *mine) noexcept nogil
    int draw_pairs "sparsepost_draw_pairs" (
        const unsigned int *entry, int bits, const float *weight, float base, int n, int old,
        float own, double u, double rest, double *left, int *mine) noexcept nogil
    # What n entries in rows weigh, and which one has the token's topic.
    int weigh_entries "sparsepost_weigh_entries" (
        const unsigned int *entry, int bits, const float *weight, float base, int n, int old,
        float own, float *out) noexcept nogil
    int weigh_pairs_of "sparsepost_weigh_pairs_of" (
        const unsigned int *entry, int bits, const float *weight, float base, int n, int old,
        float own, float *out) noexcept nogil
    # Running sums, as of `run_up`, of what entries in rows weigh.
    float run_up_entries "sparsepost_run_up_entries" (
        const unsigned int *entry, int bits, const float *weight, int n_rows, float *out,
        float *running) noexcept nogil
