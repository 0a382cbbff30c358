"""What starts share: sparse counts, rows of their entries, blocks, and how much is read at once."""

import numpy as np
import scipy.sparse as sp

# Stored counts or responsibilities that a start works on at a time.
START_SIZE = 1 << 22
# About this many bytes of scratch at a time in the passes over all documents.
BLOCK_BYTES = 32 * 2**20
# And where rows are numbered, which is less work than reading memory is.
CACHED_BYTES = 2**19


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


def row_blocks(n, bytes_a_row, n_bytes=None):
    """Slices that cover range(n), each of about so many bytes, by default `BLOCK_BYTES`."""
    size = max(1, (BLOCK_BYTES if n_bytes is None else n_bytes) // max(1, bytes_a_row))
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def distinct_rows(rows, weight=None):
    """Numbers of different rows, in an order of their own, and the weights of all that are equal.

    A start so knows no order of the data. Rows of weight 0 are left out. ``np.unique`` of rows has
    Python compare their types, where an interrupt becomes a TypeError.
    """
    weight = np.ones(len(rows)) if weight is None else weight
    held = np.flatnonzero(weight > 0)
    # Sorted by the last feature, and what it leaves tied by all.
    last = rows[held, -1]
    order = np.argsort(last)
    same = last[order[1:]] == last[order[:-1]]
    tied = np.append(same, False) | np.append(False, same)
    held_tied = np.sort(order[tied])
    together, number = _together(rows[held[held_tied]])
    order[tied] = held_tied[together]
    order = held[order]
    # Of rows that are alike in the last feature those of one number are compared.
    numbers = np.zeros(len(order), dtype=np.uint64)
    numbers[tied] = number[together]
    same &= numbers[1:] == numbers[:-1]
    pairs = np.flatnonzero(same)
    same[pairs] = (rows[order[pairs]] == rows[order[pairs + 1]]).all(axis=1)
    first = np.append(True, ~same)
    return order[first], np.bincount(np.cumsum(first) - 1, weight[order])


def _together(rows):
    """An order of rows that has equal ones together, by their last feature first; their numbers."""
    numbers = _numbers(rows)
    order = _sorted_by(rows[:, -1], numbers)
    alike = np.flatnonzero(numbers[order[1:]] == numbers[order[:-1]])
    if not (rows[order[alike]] == rows[order[alike + 1]]).all():
        order = np.lexsort(rows.T)  # different rows have one number
    return order, numbers


def _sorted_by(value, number):
    """As ``np.lexsort((number, value))``, of different numbers mostly: one sort of integers."""
    order = np.argsort(value)
    if len(order) == 0:
        return order
    rank = np.empty(len(order), dtype=np.uint64)
    rank[order] = np.cumsum(np.append(False, value[order[1:]] != value[order[:-1]]))
    n_bits = np.uint64(max(1, len(order).bit_length()))
    key = rank << (np.uint64(64) - n_bits) | number >> n_bits
    order = np.argsort(key)
    same = key[order[1:]] == key[order[:-1]]
    tied = np.append(same, False) | np.append(False, same)
    among = order[tied]
    order[tied] = among[np.lexsort((among, number[among], key[among]))]
    return order


def _numbers(rows):
    """A number of each row, the same of equal ones."""
    factors = 2 * np.random.default_rng(0).integers(2**63, size=rows.shape[1], dtype=np.uint64) + 1
    numbers = np.empty(len(rows), dtype=np.uint64)
    for held in row_blocks(len(rows), 8 * rows.shape[1], CACHED_BYTES):
        # 0 and -0 are equal, and the last digits of most values are 0.
        bits = np.ascontiguousarray(rows[held] + 0.0, dtype=np.float64).view(np.uint64)
        turned = bits << np.uint64(24)
        turned |= bits >> np.uint64(40)
        numbers[held] = np.einsum("ij,j->i", turned, factors)
    return numbers
