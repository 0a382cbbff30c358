/* What vectors of the processor that is compiled for allow, for all kernels that are written in C. */
#ifndef SPARSEPOST_VECTORS
#define SPARSEPOST_VECTORS

#if defined(__GNUC__) && defined(__SSE2__)
#include <immintrin.h>
#endif

/* Bytes of a vector, and how many rows share each load of columns: of three vectors (N_ROWS), or of
   two (ROWS_OF_TWO), whose sums stay in registers. There are twice as many of the longest. */
#if defined(__AVX512BW__)
#define VECTOR 64
#define N_ROWS 8
#define ROWS_OF_TWO 8
#elif defined(__AVX2__)
#define VECTOR 32
#define N_ROWS 4
#define ROWS_OF_TWO 5
#else
#define VECTOR 16
#define N_ROWS 4
#define ROWS_OF_TWO 5
#endif

#if defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline))
#else
#define INLINE static inline
#endif

#endif
