"""Draws from weights that are laid out in rows of lanes, decided without branches.

Across lanes every sum is that of the lower half of some lanes and of what the upper half has run up
to, so that the sums do not fall from lane to lane, and rise at none that is zero.

What is weighed lies at places: one load a place, all of which wait for each other's lines together,
or gathers, which some processors have slow since they were mended against leaks. Which of them a
processor has faster is measured once; both make the same bits.
"""

cdef enum:
    LANES = 16


cdef extern from *:
    """
    #define SPARSEPOST_FEW 8  /* so many one after the other are faster than a row */

    /* The numbers that a place weighs, as `read` has them, times factors, 0 at one place. */
    #define SPARSEPOST_LOADED(name, type, read)                                                   \
        static inline float name##_few(const type *value, const int *place, const float *factor,  \
                                       int n, int without, float *weight) {                       \
            float total = 0;                                                                      \
            for (int i = 0; i < n; i++) {                                                         \
                float own = read(place[i]) * factor[i];                                           \
                own = place[i] == without ? 0 : own;                                              \
                weight[i] = own;                                                                  \
                total += own;                                                                     \
            }                                                                                     \
            return total;                                                                         \
        }                                                                                         \
        static inline void name(const type *value, const int *place, const float *factor, int n,  \
                                int without, float *weight) {                                     \
            int padded = (n + 15) / 16 * 16, i = 0;                                               \
            for (; i < n - 3; i += 4) {                                                           \
                const int *k = place + i;                                                         \
                float a = read(k[0]), b = read(k[1]), c = read(k[2]), d = read(k[3]);             \
                weight[i] = a * factor[i];                                                        \
                weight[i + 1] = b * factor[i + 1];                                                \
                weight[i + 2] = c * factor[i + 2];                                                \
                weight[i + 3] = d * factor[i + 3];                                                \
            }                                                                                     \
            for (; i < n; i++)                                                                    \
                weight[i] = read(place[i]) * factor[i];                                           \
            for (i = n; i < padded; i++)                                                          \
                weight[i] = 0;                                                                    \
            for (i = 0; i < padded; i++)                                                          \
                weight[i] = place[i] == without ? 0 : weight[i];                                  \
        }
    #define SPARSEPOST_COUNT(k) ((float)value[k])
    #define SPARSEPOST_FIRST(k) value[2 * (k)]
    SPARSEPOST_LOADED(sparsepost_loaded_counts, int, SPARSEPOST_COUNT)
    SPARSEPOST_LOADED(sparsepost_loaded_shorts, unsigned short, SPARSEPOST_COUNT)
    SPARSEPOST_LOADED(sparsepost_loaded_pairs, float, SPARSEPOST_FIRST)

    /* The same of a list of places and counts, their sum, and where that place is in it. */
    #define SPARSEPOST_LISTED(name, type, read)                                                   \
        static inline float name(const unsigned *entry, int bits, const type *value,              \
                                 const float *factor, int n, int without, float *weight,          \
                                 int *at) {                                                       \
            const unsigned places = (1u << bits) - 1;                                             \
            float total = 0;                                                                      \
            int found = 0;                                                                        \
            for (int j = 0; j < n; j++) {                                                         \
                int k = (int)(entry[j] & places);                                                 \
                float own = read(j) * factor[k];                                                  \
                found = k == without ? j : found;                                                 \
                own = k == without ? 0 : own;                                                     \
                weight[j] = own;                                                                  \
                total += own;                                                                     \
            }                                                                                     \
            *at = found;                                                                          \
            return total;                                                                         \
        }
    #define SPARSEPOST_OWN(j) ((float)(int)(entry[j] >> bits))
    SPARSEPOST_LISTED(sparsepost_loaded_list, void, SPARSEPOST_OWN)
    SPARSEPOST_LISTED(sparsepost_loaded_seats, float, SPARSEPOST_FIRST)

    /* To the end, as vectors do, where a branch after each would keep them from it. */
    static inline int sparsepost_find(const unsigned *entry, int bits, int n, int place) {
        const unsigned places = (1u << bits) - 1;
        int found = -1;
        for (int j = 0; j < n; j++)
            found = (entry[j] & places) == (unsigned)place ? j : found;
        return found;
    }

    #if defined(__AVX2__)
    #include <immintrin.h>
    #if defined(_MSC_VER)
    #include <intrin.h>
    #endif
    #endif

    static int sparsepost_gathers = 0;  /* whether these are faster */

    #if defined(__AVX512F__)
    static inline __m512 sparsepost_lanes_up(__m512 v) {
        const __m512i three = _mm512_set_epi32(
            11, 11, 11, 11, 11, 11, 11, 11, 3, 3, 3, 3, 3, 3, 3, 3);
        const __m512i seven = _mm512_set1_epi32(7);
        v = _mm512_mask_add_ps(v, 0xaaaa, v, _mm512_moveldup_ps(v));
        v = _mm512_mask_add_ps(v, 0xcccc, v, _mm512_permute_ps(v, 0x55));
        v = _mm512_mask_add_ps(v, 0xf0f0, v, _mm512_permutexvar_ps(three, v));
        return _mm512_mask_add_ps(v, 0xff00, v, _mm512_permutexvar_ps(seven, v));
    }

    static inline float sparsepost_across(__m512 v, float *running) {
        _mm512_storeu_ps(running, sparsepost_lanes_up(v));
        return running[15];
    }

    static inline float sparsepost_run_up(float *weight, int n_rows, float *running) {
        __m512 v = _mm512_setzero_ps();
        for (int i = 0; i < n_rows; i++) {
            v = _mm512_add_ps(v, _mm512_loadu_ps(weight + 16 * i));
            _mm512_storeu_ps(weight + 16 * i, v);
        }
        return sparsepost_across(v, running);
    }

    static inline int sparsepost_passed(const float *running, float x) {
        __m512 v = _mm512_loadu_ps(running);
        return _mm_popcnt_u32(_mm512_cmp_ps_mask(v, _mm512_set1_ps(x), _CMP_LE_OQ));
    }

    /* Numbers of 32 bits that lie pair by pair: the first of up to 16 pairs. */
    static inline __m512i sparsepost_firsts(const void *pairs, int n) {
        const __m512i at = _mm512_set_epi32(
            30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
        unsigned held = n < 16 ? (1u << 2 * n) - 1 : 0xffffffffu;
        __m512i low = _mm512_maskz_loadu_epi32((__mmask16)held, pairs);
        __m512i high = _mm512_maskz_loadu_epi32((__mmask16)(held >> 16), (const int *)pairs + 16);
        return _mm512_permutex2var_epi32(low, at, high);
    }

    #define SPARSEPOST_HELD(left) ((__mmask16)((left) < 16 ? (1u << (left)) - 1 : 0xffffu))

    /* Masked, so that no compiler turns products and their sums into one rounding. */
    #define SPARSEPOST_RUN(v, held, x, y)                                                         \
        v = _mm512_add_ps(v, _mm512_maskz_mul_ps(held, x, y));                                    \
        _mm512_storeu_ps(weight + 16 * i, v);

    #define SPARSEPOST_WEIGH(name, loaded, type, gathered)                                        \
        static inline float name(const type *value, const int *place, const float *factor, int n, \
                                 int without, float *weight, float *running) {                    \
            if (n <= SPARSEPOST_FEW)                                                              \
                return loaded##_few(value, place, factor, n, without, weight);                    \
            if (!sparsepost_gathers) {                                                            \
                loaded(value, place, factor, n, without, weight);                                 \
                return sparsepost_run_up(weight, (n + 15) / 16, running);                         \
            }                                                                                     \
            const __m512i old = _mm512_set1_epi32(without);                                       \
            __m512 v = _mm512_setzero_ps();                                                       \
            for (int i = 0; 16 * i < n; i++) {                                                    \
                __mmask16 held = SPARSEPOST_HELD(n - 16 * i);                                     \
                __m512i k = _mm512_loadu_si512(place + 16 * i);                                   \
                held = _mm512_mask_cmpneq_epi32_mask(held, k, old);                               \
                SPARSEPOST_RUN(v, held, gathered(held, k), _mm512_loadu_ps(factor + 16 * i))      \
            }                                                                                     \
            return sparsepost_across(v, running);                                                 \
        }
    /* Masked: lines of places that are of no weight would be far away, and were not asked for. */
    #define SPARSEPOST_COUNTS_AT(held, k)                                                         \
        _mm512_cvtepi32_ps(                                                                       \
            _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), held, k, value, 4))
    /* Two of them are read, of which the first is kept. */
    #define SPARSEPOST_SHORTS_AT(held, k)                                                         \
        _mm512_cvtepi32_ps(_mm512_and_si512(                                                      \
            _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), held, k, value, 2),               \
            _mm512_set1_epi32(0xffff)))
    #define SPARSEPOST_FIRSTS_AT(held, k)                                                         \
        _mm512_mask_i32gather_ps(_mm512_setzero_ps(), held, k, value, 8)
    SPARSEPOST_WEIGH(sparsepost_weigh_counts, sparsepost_loaded_counts, int, SPARSEPOST_COUNTS_AT)
    SPARSEPOST_WEIGH(
        sparsepost_weigh_shorts, sparsepost_loaded_shorts, unsigned short, SPARSEPOST_SHORTS_AT)
    SPARSEPOST_WEIGH(sparsepost_weigh_pairs, sparsepost_loaded_pairs, float, SPARSEPOST_FIRSTS_AT)

    static inline float sparsepost_near_list(const unsigned *entry, int bits, int n,
                                             const int *place, const float *factor, int n_places,
                                             int without, int *own) {
        const __m512i places = _mm512_set1_epi32((1 << bits) - 1);
        const __m512i old = _mm512_set1_epi32(without);
        const __m128i shift = _mm_cvtsi32_si128(bits);
        __m512 v = _mm512_setzero_ps();
        __m512i mine = _mm512_setzero_si512();
        for (int i = 0; i < n; i += 16) {
            __mmask16 held = SPARSEPOST_HELD(n - i), found;
            __m512i pairs = _mm512_maskz_loadu_epi32(held, entry + i);
            __m512i k = _mm512_and_si512(pairs, places), count = _mm512_srl_epi32(pairs, shift);
            __m512 own_factor = _mm512_setzero_ps();
            for (int j = 0; j < n_places; j++) {
                found = _mm512_cmpeq_epi32_mask(k, _mm512_set1_epi32(place[j]));
                own_factor = _mm512_mask_mov_ps(own_factor, found, _mm512_set1_ps(factor[j]));
            }
            found = _mm512_cmpeq_epi32_mask(k, old);
            mine = _mm512_mask_or_epi32(mine, found, mine, count);
            v = _mm512_add_ps(
                v, _mm512_maskz_mul_ps((__mmask16)~found, _mm512_cvtepi32_ps(count), own_factor));
        }
        *own = _mm512_reduce_add_epi32(mine);
        return _mm512_reduce_add_ps(v);
    }
    #define SPARSEPOST_WEIGH_LIST(name, loaded, type, read)                                       \
        static inline float name(const unsigned *entry, int bits, const type *value,              \
                                 const float *factor, int n, int without, float *weight,          \
                                 float *running, int *at) {                                       \
            if (n <= SPARSEPOST_FEW)                                                              \
                return loaded(entry, bits, value, factor, n, without, weight, at);                \
            if (!sparsepost_gathers) {                                                            \
                loaded(entry, bits, value, factor, n, without, weight, at);                       \
                for (int j = n; j % 16; j++)                                                      \
                    weight[j] = 0;                                                                \
                return sparsepost_run_up(weight, (n + 15) / 16, running);                         \
            }                                                                                     \
            const __m512i old = _mm512_set1_epi32(without);                                       \
            const __m512i places = _mm512_set1_epi32((int)((1u << bits) - 1));                    \
            const __m128i shift = _mm_cvtsi32_si128(bits);                                        \
            __m512 v = _mm512_setzero_ps();                                                       \
            *at = 0;                                                                              \
            for (int i = 0; 16 * i < n; i++) {                                                    \
                __mmask16 held = SPARSEPOST_HELD(n - 16 * i);                                     \
                __m512i pairs = _mm512_maskz_loadu_epi32(held, entry + 16 * i);                   \
                __m512i k = _mm512_and_si512(pairs, places);                                      \
                __mmask16 other = _mm512_mask_cmpneq_epi32_mask(held, k, old);                    \
                *at = other != held ? 16 * i + _mm_popcnt_u32((held ^ other) - 1) : *at;          \
                held = other;                                                                     \
                SPARSEPOST_RUN(v, held, read, _mm512_i32gather_ps(k, factor, 4))                  \
            }                                                                                     \
            return sparsepost_across(v, running);                                                 \
        }
    #define SPARSEPOST_OWN_COUNTS _mm512_cvtepi32_ps(_mm512_srl_epi32(pairs, shift))
    #define SPARSEPOST_OWN_FIRSTS \
        _mm512_castsi512_ps(sparsepost_firsts(value + 32 * i, n - 16 * i))
    SPARSEPOST_WEIGH_LIST(
        sparsepost_weigh_list, sparsepost_loaded_list, void, SPARSEPOST_OWN_COUNTS)
    SPARSEPOST_WEIGH_LIST(
        sparsepost_weigh_seats, sparsepost_loaded_seats, float, SPARSEPOST_OWN_FIRSTS)

    #define SPARSEPOST_WALKS 0
    #else
    /* What some places weigh in such a list, but one whose count is set apart: the other way round,
       each place is compared with the list's. For few places and a list longer than they are. */
    static inline float sparsepost_near_list(const unsigned *entry, int bits, int n,
                                             const int *place, const float *factor, int n_places,
                                             int without, int *own) {
        const unsigned places = (1u << bits) - 1;
        float total = 0;
        for (int j = 0; j < n_places; j++) {
            const unsigned k = (unsigned)place[j];
            unsigned count = 0;
            for (int i = 0; i < n; i++)
                count += (entry[i] & places) == k ? entry[i] >> bits : 0;
            if (place[j] == without)
                *own = (int)count;
            else
                total += (float)(int)count * factor[j];
        }
        return total;
    }

    #define SPARSEPOST_WALKS 1
    static inline float sparsepost_across(float *running) {
        for (int half = 1; half < 16; half *= 2)
            for (int lane = half; lane < 16; lane++)
                if (lane & half)
                    running[lane] += running[lane / half * half - 1];
        return running[15];
    }

    static inline float sparsepost_run_up(float *weight, int n_rows, float *running) {
        for (int lane = 0; lane < 16; lane++)
            running[lane] = 0;
        for (int i = 0; i < n_rows; i++)
            for (int lane = 0; lane < 16; lane++)
                weight[16 * i + lane] = running[lane] += weight[16 * i + lane];
        return sparsepost_across(running);
    }

    static inline int sparsepost_passed(const float *running, float x) {
        int n = 0;
        for (int lane = 0; lane < 16; lane++)
            n += running[lane] <= x;
        return n;
    }

    #if defined(__AVX2__)
    #define SPARSEPOST_WEIGH(name, loaded, type, gathered)                                        \
        static inline float name(const type *value, const int *place, const float *factor, int n, \
                                 int without, float *weight, float *running) {                    \
            if (n <= SPARSEPOST_FEW)                                                              \
                return loaded##_few(value, place, factor, n, without, weight);                    \
            if (!sparsepost_gathers) {                                                            \
                loaded(value, place, factor, n, without, weight);                                 \
                return sparsepost_run_up(weight, (n + 15) / 16, running);                         \
            }                                                                                     \
            const __m256i old = _mm256_set1_epi32(without);                                       \
            const __m256i lane = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);                        \
            for (int half = 0; half < 16; half += 8) {                                            \
                __m256 v = _mm256_setzero_ps();                                                   \
                for (int i = half; i - half < n; i += 16) {                                       \
                    __m256i k = _mm256_loadu_si256((const __m256i *)(place + i));                 \
                    __m256i held = _mm256_cmpgt_epi32(_mm256_set1_epi32(n - i), lane);            \
                    held = _mm256_andnot_si256(_mm256_cmpeq_epi32(k, old), held);                 \
                    __m256 own = _mm256_mul_ps(gathered(held, k), _mm256_loadu_ps(factor + i));   \
                    v = _mm256_add_ps(v, _mm256_and_ps(_mm256_castsi256_ps(held), own));          \
                    _mm256_storeu_ps(weight + i, v);                                              \
                }                                                                                 \
                _mm256_storeu_ps(running + half, v);                                              \
            }                                                                                     \
            return sparsepost_across(running);                                                    \
        }
    #define SPARSEPOST_COUNTS_AT(held, k)                                                         \
        _mm256_cvtepi32_ps(                                                                       \
            _mm256_mask_i32gather_epi32(_mm256_setzero_si256(), value, k, held, 4))
    #define SPARSEPOST_SHORTS_AT(held, k)                                                         \
        _mm256_cvtepi32_ps(_mm256_and_si256(                                                      \
            _mm256_mask_i32gather_epi32(                                                          \
                _mm256_setzero_si256(), (const int *)value, k, held, 2),                          \
            _mm256_set1_epi32(0xffff)))
    #define SPARSEPOST_FIRSTS_AT(held, k)                                                         \
        _mm256_mask_i32gather_ps(_mm256_setzero_ps(), value, k, _mm256_castsi256_ps(held), 8)
    #else
    #define SPARSEPOST_WEIGH(name, loaded, type, gathered)                                        \
        static inline float name(const type *value, const int *place, const float *factor, int n, \
                                 int without, float *weight, float *running) {                    \
            if (n <= SPARSEPOST_FEW)                                                              \
                return loaded##_few(value, place, factor, n, without, weight);                    \
            loaded(value, place, factor, n, without, weight);                                     \
            return sparsepost_run_up(weight, (n + 15) / 16, running);                             \
        }
    #endif
    SPARSEPOST_WEIGH(sparsepost_weigh_counts, sparsepost_loaded_counts, int, SPARSEPOST_COUNTS_AT)
    SPARSEPOST_WEIGH(
        sparsepost_weigh_shorts, sparsepost_loaded_shorts, unsigned short, SPARSEPOST_SHORTS_AT)
    SPARSEPOST_WEIGH(sparsepost_weigh_pairs, sparsepost_loaded_pairs, float, SPARSEPOST_FIRSTS_AT)

    /* Lists are mostly shorter than the lanes are together: they are walked along. */
    #define SPARSEPOST_WEIGH_LIST(name, loaded, type)                                             \
        static inline float name(const unsigned *entry, int bits, const type *value,              \
                                 const float *factor, int n, int without, float *weight,          \
                                 float *running, int *at) {                                       \
            (void)running;                                                                        \
            return loaded(entry, bits, value, factor, n, without, weight, at);                    \
        }
    SPARSEPOST_WEIGH_LIST(sparsepost_weigh_list, sparsepost_loaded_list, void)
    SPARSEPOST_WEIGH_LIST(sparsepost_weigh_seats, sparsepost_loaded_seats, float)

    #endif

    #if defined(__AVX2__)
    static inline unsigned long long sparsepost_cycles(int gathers, const int *value,
                                                       const int *place, const float *factor) {
        float weight[32], running[16];
        volatile float total = 0;
        unsigned long long began = __rdtsc();
        sparsepost_gathers = gathers;
        for (int i = 0; i < 64; i++)
            total += sparsepost_weigh_counts(value, place, factor, 32, i, weight, running);
        return __rdtsc() - began;
    }

    static inline int sparsepost_choose(void) {
        int value[512], place[32];
        float factor[32];
        unsigned long long least[2] = {~0ull, ~0ull}, cycles;
        for (int i = 0; i < 512; i++)
            value[i] = i % 5;
        for (int i = 0; i < 32; i++) {
            place[i] = i * 37 % 512;
            factor[i] = 1;
        }
        for (int i = 0; i < 40; i++) {
            cycles = sparsepost_cycles(i % 2, value, place, factor);
            least[i % 2] = cycles < least[i % 2] ? cycles : least[i % 2];
        }
        return sparsepost_gathers = least[1] < least[0];
    }
    #else
    static inline int sparsepost_choose(void) {
        return 0;
    }
    #endif

    static inline void sparsepost_use(int gathers) {
        sparsepost_gathers = gathers;
    }
    """
    const int FEW "SPARSEPOST_FEW"
    # Replace weights by running sums down each lane, find those of the lanes, and all weights' sum.
    float run_up "sparsepost_run_up"(float *weight, int n_rows, float *running) noexcept nogil
    # How many running sums do not pass x.
    int _passed "sparsepost_passed"(const float *running, float x) noexcept nogil
    # Running sums, as of `run_up`, of weights: counts, or first numbers of pairs, at n places,
    # padded to rows, times factors, without one place. Shorts have one more behind the last.
    float weigh_counts "sparsepost_weigh_counts"(
        const int *value, const int *place, const float *factor, int n, int without,
        float *weight, float *running) noexcept nogil
    float weigh_shorts "sparsepost_weigh_shorts"(
        const unsigned short *value, const int *place, const float *factor, int n, int without,
        float *weight, float *running) noexcept nogil
    float weigh_pairs "sparsepost_weigh_pairs"(
        const float *value, const int *place, const float *factor, int n, int without,
        float *weight, float *running) noexcept nogil
    # The same of n entries, each a place in its low bits and a count in the others: the counts, or
    # first numbers of pairs beside the entries, times factors at the places; and where the one
    # place is among them, if it is. For `pick_listed`.
    float weigh_list "sparsepost_weigh_list"(
        const unsigned int *entry, int bits, const void *unused, const float *factor, int n,
        int without, float *weight, float *running, int *at) noexcept nogil
    float weigh_seats "sparsepost_weigh_seats"(
        const unsigned int *entry, int bits, const float *value, const float *factor, int n,
        int without, float *weight, float *running, int *at) noexcept nogil
    # What few places weigh in n such entries, times factors, without one place, whose count is set.
    float near_list "sparsepost_near_list"(
        const unsigned int *entry, int bits, int n, const int *place, const float *factor,
        int n_places, int without, int *own) noexcept nogil
    # Which of n such entries has a place, -1 if none.
    int find_listed "sparsepost_find"(
        const unsigned int *entry, int bits, int n, int place) noexcept nogil
    bint _walks "SPARSEPOST_WALKS"  # along lists, instead of running sums
    # Whether this processor's gathers are faster than loads, from then on used or not.
    bint choose_gathers "sparsepost_choose"() noexcept nogil
    void use_gathers "sparsepost_use"(bint gathers) noexcept nogil


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


cdef inline int _walk(const float *weight, int n, double u) noexcept nogil:
    """Which of n entries a number falls to, one after the other."""
    cdef int j, last = 0
    for j in range(n):
        if weight[j] > 0:
            last = j
            u -= weight[j]
            if u < 0:
                return j
    return last


cdef inline int pick_counts(
    const float *weight, int n, const float *running, double u
) noexcept nogil:
    """Which place a number falls to, after counts or pairs were weighed."""
    return _walk(weight, n, u) if n <= FEW else pick(weight, n, running, u)


cdef inline int pick_listed(
    const float *weight, int n, const float *running, double u
) noexcept nogil:
    """Which entry of a list a number falls to, after it was weighed."""
    return _walk(weight, n, u) if _walks or n <= FEW else pick(weight, n, running, u)
