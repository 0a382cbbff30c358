"""Tables of features x components: dense ones, sparse ones, and one that is added up when read."""

from copy import copy
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from sklearn_sparsepost._kernels import topic_stats
from sklearn_sparsepost._run.threads import threads_for

# The share of entries up to which a table is smaller, and faster to add, stored sparsely.
MOSTLY_ZERO = 0.25
# Rows at a time where a table is transposed.
ROW_BLOCK = 256


class SparseTable:
    """A table of features x components of which few features and few components are stored.

    Parameters
    ----------
    rows : ndarray of shape (n_rows,), int32
        Distinct features.
    row_ptr : ndarray of shape (n_rows + 1,), int64
        Feature ``rows[r]`` has its entries at ``row_ptr[r]:row_ptr[r + 1]``.
    columns : ndarray of shape (n_stored,), int32
        Components, once each a feature.
    values : ndarray of shape (n_stored,)
        The entries.
    shape : tuple (n_features, n_components)
        Of the whole table.
    """

    def __init__(self, rows, row_ptr, columns, values, shape):
        self.rows = rows
        self.row_ptr = row_ptr
        self.columns = columns
        self.values = values
        self.shape = shape

    @classmethod
    def of(cls, table):
        """The non-zero entries of a dense table."""
        filled = table != 0
        lengths = filled.sum(axis=1)
        rows = np.flatnonzero(lengths).astype(np.int32)
        row_ptr = np.concatenate([[0], np.cumsum(lengths[rows])]).astype(np.int64)
        columns = np.nonzero(filled)[1].astype(np.int32)
        return cls(rows, row_ptr, columns, table[filled], table.shape)

    @classmethod
    def of_csr(cls, table, rows=None, shape=None):
        """A CSR matrix, of all features or of the given ones."""
        rows = np.arange(table.shape[0], dtype=np.int32) if rows is None else rows
        return cls(
            rows,
            table.indptr.astype(np.int64),
            table.indices.astype(np.int32, copy=False),
            table.data,
            table.shape if shape is None else shape,
        )

    @property
    def nbytes(self):
        """Memory in bytes."""
        return sum(part.nbytes for part in (self.rows, self.row_ptr, self.columns, self.values))

    def to_csr(self):
        """The stored features as a CSR matrix."""
        return sp.csr_array(
            (self.values, self.columns, self.row_ptr), shape=(len(self.rows), self.shape[1])
        )

    def to_array(self):
        """The whole table."""
        table = np.zeros(self.shape, dtype=self.values.dtype)
        table[self.rows] = self.to_csr().toarray()
        return table

    @cached_property
    def column_sums(self):
        """Sum of each component, in double."""
        return np.bincount(self.columns, self.values, minlength=self.shape[1])

    def add_to(self, table, factor):
        """Add ``factor`` times this to a dense table, in place."""
        # An entry is a visit to far memory: worth some multiplications.
        n_threads = threads_for(16 * self.values.size)
        topic_stats.add_counts(
            table, self.rows, self.row_ptr, self.columns, self.values, factor, n_threads
        )

    def copy(self):
        """A copy that shares nothing."""
        parts = (self.rows, self.row_ptr, self.columns, self.values)
        return SparseTable(*(part.copy() for part in parts), self.shape)

    def scaled(self, factor):
        """This table times a number."""
        return SparseTable(self.rows, self.row_ptr, self.columns, factor * self.values, self.shape)

    def reordered(self, order):
        """This table with components taken in a new order; what is not taken is gone."""
        return self._of_columns(self.to_csr()[:, order])

    def merged(self, kept, absorbed):
        """This table with component ``absorbed`` added to ``kept``, and then empty."""
        target = np.arange(self.shape[1])
        target[absorbed] = kept
        moved = sp.csr_array(
            (self.values, target[self.columns], self.row_ptr),
            shape=(len(self.rows), self.shape[1]),
            copy=True,  # duplicates are summed in place
        )
        moved.sum_duplicates()
        return self._of_columns(moved)

    def placed(self, features, n_features):
        """This table as some of the features of a higher one."""
        new = copy(self)  # with the sums, which are the same
        new.rows, new.shape = features[self.rows], (n_features, self.shape[1])
        return new

    def widened(self, n_more):
        """This table with ``n_more`` empty components after its own."""
        shape = self.shape[0], self.shape[1] + n_more
        return SparseTable(self.rows, self.row_ptr, self.columns, self.values, shape)

    def _of_columns(self, table):
        return SparseTable.of_csr(table, self.rows, (self.shape[0], table.shape[1]))


def reordered(table, order, axis):
    """A table, dense or sparse, with components taken in a new order."""
    if isinstance(table, SparseTable):
        return table.reordered(order)
    return np.ascontiguousarray(np.take(table, order, axis=axis))


def merged(table, kept, absorbed, axis):
    """A table, dense or sparse, with component ``absorbed`` added to ``kept``."""
    if isinstance(table, SparseTable):
        return table.merged(kept, absorbed)
    table = table.copy()
    view = np.moveaxis(table, axis, 0)
    view[kept] += view[absorbed]
    return table


def widened(table, n_more, axis):
    """A table, dense or sparse, with ``n_more`` empty components after its own."""
    if isinstance(table, SparseTable):
        return table.widened(n_more)
    widths = [(0, n_more if axis == at else 0) for at in range(table.ndim)]
    return np.pad(table, widths)


def compact(table, axis):
    """A copy to be added elsewhere: sparse if it is features x components and mostly zero."""
    if isinstance(table, SparseTable) or table.ndim != 2 or axis != 1:
        return table.copy()
    if np.count_nonzero(table) < table.size * MOSTLY_ZERO:
        return SparseTable.of(table)
    return table.copy()


def sum_of_tables(tables):
    """The sum of sparse tables, pair by pair in a fixed order.

    Parameters
    ----------
    tables : list of SparseTable
        At least one.

    Returns
    -------
    total : SparseTable
        One entry for each feature and component that any of them has: summed in double, and
        rounded once to the type of the first table.
    """
    dtype = tables[0].values.dtype
    while len(tables) > 1:
        pairs = [tables[i : i + 2] for i in range(0, len(tables), 2)]
        tables = [_sum_of_pair(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    total = tables[0]
    values = total.values.astype(dtype, copy=False)
    return SparseTable(total.rows, total.row_ptr, total.columns, values, total.shape)


def _sum_of_pair(one, other):
    """The sum of two sparse tables, in double."""
    rows = np.union1d(one.rows, other.rows)
    total = 0
    for part in (one, other):
        lengths = np.zeros(len(rows), dtype=np.int64)
        lengths[np.searchsorted(rows, part.rows)] = np.diff(part.row_ptr)
        row_ptr = np.concatenate([[0], np.cumsum(lengths)])
        total = total + sp.csr_array(
            (part.values.astype(np.float64, copy=False), part.columns, row_ptr),
            shape=(len(rows), one.shape[1]),
        )
    return SparseTable.of_csr(total, rows.astype(np.int32), one.shape)


class PseudoCounts:
    """Dirichlet parameters of features in components, prior plus counts, added up when read.

    Parameters
    ----------
    prior : ndarray that broadcasts to the shape of `counts`, float64
        The prior, compact: pickles would give a broadcast view strides, and kernels see those.
    counts : ndarray of shape (n_features, n_components), float64
        Expected counts; read, never written.
    factor : float, default=1.0
        Factor on the counts.
    """

    def __init__(self, prior, counts, factor=1.0):
        self.compact_prior = prior
        self.counts = counts
        self.factor = factor

    @property
    def shape(self):
        """Numbers of features and components."""
        return self.counts.shape

    @property
    def prior(self):
        """The prior as a view of the whole shape."""
        return np.broadcast_to(self.compact_prior, self.counts.shape)

    def totals(self, count):
        """Sums over features, given those of the counts."""
        return self.prior.sum(axis=0) + count

    def block(self, rows):
        """The parameters of some features; what is negative by rounding counts as zero."""
        return self.prior[rows] + np.maximum(self.factor * self.counts[rows], 0)

    def to_array(self):
        """All parameters, (n_features, n_components)."""
        return self.block(slice(None))

    def transposed(self, dtype):
        """All parameters, (n_components, n_features), a block at a time.

        Parameters
        ----------
        dtype : dtype
            Type of the result.

        Returns
        -------
        table : ndarray of shape (n_components, n_features)
            The parameters.
        """
        table = np.empty(self.shape[::-1], dtype=dtype)
        for start in range(0, len(self.counts), ROW_BLOCK):
            rows = slice(start, start + ROW_BLOCK)
            np.copyto(table[:, rows], self.block(rows).T, casting="same_kind")
        return table
