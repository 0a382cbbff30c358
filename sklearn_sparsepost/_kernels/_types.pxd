# The element types that every kernel takes: float32 or float64 data, 64-bit row pointers.
ctypedef fused floating:
    float
    double

ctypedef long long indptr_t
