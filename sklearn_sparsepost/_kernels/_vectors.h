/* What vectors of the processor that is compiled for allow, for all kernels that are written in C. */
#ifndef SPARSEPOST_VECTORS
#define SPARSEPOST_VECTORS

#if defined(__GNUC__) && defined(__SSE2__)
#include <immintrin.h>
#endif

/* Bytes of a vector, and how many rows share each load of columns: longer vectors want more rows,
   and leave sums of three vectors a row in registers. */
#if defined(__AVX512BW__)
#define VECTOR 64
#define N_ROWS 8
#elif defined(__AVX2__)
#define VECTOR 32
#define N_ROWS 4
#else
#define VECTOR 16
#define N_ROWS 4
#endif

#if defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline))
#else
#define INLINE static inline
#endif

#endif
