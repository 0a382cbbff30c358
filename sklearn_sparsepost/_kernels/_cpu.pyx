"""What the package was compiled with and what this processor has."""
from sklearn_sparsepost._kernels._openmp cimport omp_get_max_threads

cdef extern from * nogil:
    """
    #if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
    static int sp_has_avx2(void) {
        __builtin_cpu_init();
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    }
    static int sp_has_avx512(void) {
        return sp_has_avx2() && __builtin_cpu_supports("avx512f")
            && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")
            && __builtin_cpu_supports("avx512bw");
    }
    #elif defined(_MSC_VER) && defined(_M_X64)
    #include <intrin.h>
    #include <immintrin.h>
    static int sp_leaf7(int wanted, unsigned long long saved) {
        int r[4];
        __cpuid(r, 1);
        if (!(r[2] & (1 << 27)) || !(r[2] & (1 << 12))) return 0;  /* OSXSAVE, FMA */
        if ((_xgetbv(0) & saved) != saved) return 0;  /* the system keeps the registers */
        __cpuidex(r, 7, 0);
        return (r[1] & wanted) == wanted;
    }
    static int sp_has_avx2(void) { return sp_leaf7(1 << 5, 0x6); }
    static int sp_has_avx512(void) {
        return sp_has_avx2()
            && sp_leaf7((1 << 16) | (1 << 17) | (1 << 30) | (int)(1u << 31), 0xe6);
    }
    #else
    static int sp_has_avx2(void) { return 0; }
    static int sp_has_avx512(void) { return 0; }
    #endif
    #if defined(_MSC_VER)
    #define SP_COMPILER "MSVC"
    #elif defined(__VERSION__)
    #define SP_COMPILER __VERSION__
    #else
    #define SP_COMPILER "unknown"
    #endif
    """
    int sp_has_avx2()
    int sp_has_avx512()
    const char *SP_COMPILER
    int SPARSEPOST_OPENMP
    int SPARSEPOST_DEBUG


def build_info():
    """What was compiled in and what was found.

    Returns
    -------
    info : dict
        "compiler" (str), "openmp" and "bounds checks" (bool), "vector units" of the processor
        (list of str, best last).
    """
    found = ["baseline"] + ["avx2"] * bool(sp_has_avx2()) + ["avx512"] * bool(sp_has_avx512())
    return {
        "compiler": SP_COMPILER.decode(),
        "openmp": bool(SPARSEPOST_OPENMP),
        "bounds checks": bool(SPARSEPOST_DEBUG),
        "vector units": found,
    }


def max_threads():
    """Threads that OpenMP would use now: OMP_NUM_THREADS, or one a core; 1 without OpenMP."""
    return omp_get_max_threads()
