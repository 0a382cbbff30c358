"""Sums of a few rows of a sparse matrix: divergences to a centre from an inverted index."""

ctypedef fused index_t:
    int
    long long


def add_weighted_rows(
    const index_t[::1] indptr,
    const index_t[::1] indices,
    const double[::1] data,
    const index_t[::1] rows,
    const double[::1] weight,
    double[::1] out,
):
    """Add the weighted sum of some rows of a CSR matrix to a dense vector.

    Parameters
    ----------
    indptr, indices, data : ndarrays
        The matrix; both index arrays and `rows` of one type, int32 or int64.
    rows : ndarray of shape (n,)
        The rows to add, in this order.
    weight : ndarray of shape (n,), float64
        Their weights.
    out : ndarray of shape (n_columns,), float64
        What they are added to, in place.
    """
    cdef Py_ssize_t i, j
    cdef index_t row
    with nogil:
        for i in range(rows.shape[0]):
            row = rows[i]
            for j in range(indptr[row], indptr[row + 1]):
                out[indices[j]] += weight[i] * data[j]
