# The element types that every kernel takes: float32 or float64 data, 32- or 64-bit row pointers.
ctypedef fused floating:
    float
    double

ctypedef fused indptr_t:
    int
    long long
