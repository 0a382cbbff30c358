"""What starts share: sparse counts, rows of their entries, blocks, and how much is read at once."""

import numpy as np
import scipy.sparse as sp

# Stored counts or responsibilities that a start works on at a time.
START_SIZE = 1 << 22
# About this many bytes of scratch at a time in the passes over all documents.
BLOCK_BYTES = 32 * 2**20
# Rows are told apart by so many features, if they can be.
LAST_FEATURES = 4


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


def distinct_rows(rows, weight=None):
    """Numbers of different rows, in an order of their own, and the weights of all that are equal.

    A start so knows no order of the data. Rows of weight 0 are left out. ``np.unique`` of rows has
    Python compare their types, where an interrupt becomes a TypeError.
    """
    weight = np.ones(len(rows)) if weight is None else weight
    held = np.flatnonzero(weight > 0)
    # Sorted by the last feature first: only what it leaves tied needs some, and then all.
    last = rows[:, -LAST_FEATURES:][held]
    order = np.argsort(last[:, -1])
    same = last[order[1:], -1] == last[order[:-1], -1]
    _sort_tied(order, same, lambda tied: last[tied])
    same = (last[order[1:]] == last[order[:-1]]).all(axis=1)
    _sort_tied(order, same, lambda tied: rows[held[tied]])
    order = held[order]
    pairs = np.flatnonzero(same)
    same[pairs] = (rows[order[pairs]] == rows[order[pairs + 1]]).all(axis=1)
    first = np.append(True, ~same)
    return order[first], np.bincount(np.cumsum(first) - 1, weight[order])


def _sort_tied(order, same, features_of):
    """Sort rows that are the `same` as the next by their features, the last of these first."""
    tied = np.append(same, False) | np.append(False, same)
    numbers = np.sort(order[tied])
    order[tied] = numbers[np.lexsort(features_of(numbers).T)]
