/* Asks for the lines of cache that a row lies on: rows of a list lie anywhere. */
#ifndef SPARSEPOST_PREFETCH_H
#define SPARSEPOST_PREFETCH_H

static inline void fetch_row(const void *row, long long n_bytes)
{
#if defined(__GNUC__)
    for (long long at = 0; at < n_bytes; at += 64)
        __builtin_prefetch((const char *)row + at);
#endif
}

#endif
