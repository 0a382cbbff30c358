"""What starts share: sparse counts, rows of their entries, blocks, and how much is read at once."""

import numpy as np
import scipy.sparse as sp

# Stored counts or responsibilities that a start works on at a time.
START_SIZE = 1 << 22
# About this many bytes of scratch at a time in the passes over all documents.
BLOCK_BYTES = 32 * 2**20


def canonical(X):
    """CSR of float64 counts with neither duplicates nor stored zeros; the input stays as it is."""
    data = X.data.astype(np.float64)
    X = sp.csr_array((data, X.indices, X.indptr), shape=X.shape)
    if not X.has_canonical_format or not data.all():
        X = X.copy()
        X.sum_duplicates()
        X.eliminate_zeros()
    return X


def subset(X, size, rng):
    """At most `size` documents, drawn at random, in their order."""
    if X.shape[0] <= size:
        return X
    return X[np.sort(rng.choice(X.shape[0], size, replace=False))]


def row_of_entry(X):
    """The row that each stored entry is in."""
    return np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))


def row_blocks(n, bytes_a_row):
    """Slices that cover range(n), each of about BLOCK_BYTES."""
    size = max(1, BLOCK_BYTES // max(1, bytes_a_row))
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))
