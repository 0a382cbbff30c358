cdef extern from "_prefetch.h" nogil:
    void fetch "SPARSEPOST_FETCH" (const void *at)
    void fetch_to_write "SPARSEPOST_FETCH_TO_WRITE" (const void *at)
    void fetch_row(const void *row, long long n_bytes)
