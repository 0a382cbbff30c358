# OpenMP, with stand-ins for a build without it.
cdef extern from * nogil:
    """
    #ifdef _OPENMP
    #include <omp.h>
    #else
    static int omp_get_max_threads(void) { return 1; }
    #endif
    """
    int omp_get_max_threads()
