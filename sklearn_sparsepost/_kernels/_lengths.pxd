# Lower bounds of lengths in bytes, see `_lengths.h`.

cdef extern from "_lengths.h" nogil:
    int MOST_LENGTH
    float ROUNDED_DOWN
    int within_reach(
        const unsigned char *old, int n, float shrink, float shift, bint settles,
        const float *inverse, const float *scale, float room, const float *square,
        const float *need, float slack, unsigned char *now, int *number, float *kept,
    )
    void note_lengths(
        const float *squares, int n, float slack, const float *per_root, float scale,
        unsigned char *out,
    )
