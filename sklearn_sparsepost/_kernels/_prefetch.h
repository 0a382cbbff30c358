/* Asks for what is going to be read or written: rows of a list, or of a table, lie anywhere. */
#ifndef SPARSEPOST_PREFETCH_H
#define SPARSEPOST_PREFETCH_H

/* No functions: a compiler may find that they do nothing. */
#if defined(__GNUC__) || defined(__clang__)
#define SPARSEPOST_FETCH(at) __builtin_prefetch((at), 0, 3)
#define SPARSEPOST_FETCH_TO_WRITE(at) __builtin_prefetch((at), 1, 3)
#else
#define SPARSEPOST_FETCH(at) ((void)(at))
#define SPARSEPOST_FETCH_TO_WRITE(at) ((void)(at))
#endif

static inline void fetch_row(const void *row, long long n_bytes)
{
    for (long long at = 0; at < n_bytes; at += 64)
        SPARSEPOST_FETCH((const char *)row + at);
}

#endif
