"""Tables of features x components: sparse ones, those that grow, those added up when read."""

import weakref
from copy import copy
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from sklearn_sparsepost._kernels import _changes, _row_tables
from sklearn_sparsepost._run.memory import recycled, recycled_briefly
from sklearn_sparsepost._run.threads import threads_for

# The share of entries up to which a table is smaller, and faster to add, stored sparsely.
MOSTLY_ZERO = 0.25
# An entry is a visit to far memory: worth so many multiplications.
ENTRY_WORK = 32
# Rows at a time where a table is transposed.
ROW_BLOCK = 256
# Entries below this are rounding errors of what was added and taken away again.
NOTHING = 1e-9
# How many times its table's entries a pool holds, and the entries that it may hold anyway.
POOL_SIZE, SMALL_POOL = 3, 1 << 16
# Bytes of a pool that is kept for the next one; larger ones are given back.
MOST_LEFT = 2**28


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

    @cached_property
    def column_sums(self):
        """Sum of each component, in double."""
        return _row_tables.sum_columns(self.columns, self.values, self.shape[1])

    def add_to(self, table, factor):
        """Add ``factor`` times this to a dense table, in place."""
        add_in_turn(table, [(self, factor)])

    def places(self, rows):
        """Where the entries of some rows begin, and where they end; of no length if none."""
        number = np.full(self.shape[0], -1)
        number[self.rows] = np.arange(len(self.rows))
        number = number[rows]
        places = np.stack([self.row_ptr[number], self.row_ptr[number + 1]])
        places[:, number < 0] = 0
        return places

    def copy(self):
        """A copy that shares nothing."""
        parts = (self.rows, self.row_ptr, self.columns, self.values)
        return SparseTable(*(part.copy() for part in parts), self.shape)

    def scaled(self, factor):
        """This table times a number."""
        return SparseTable(self.rows, self.row_ptr, self.columns, factor * self.values, self.shape)

    def reordered(self, order):
        """This table with components taken in a new order, none twice; the others are gone."""
        place = np.full(self.shape[1], -1, dtype=np.int32)
        place[order] = np.arange(len(order))
        n_threads = threads_for(len(self.columns))
        parts = _row_tables.take_entries(self.row_ptr, self.columns, self.values, place, n_threads)
        return SparseTable(self.rows, *parts, (self.shape[0], len(order)))

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

    def folded(self, target):
        """This table with components summed by where they go."""
        shape = self.shape[0], int(target.max()) + 1
        each = np.arange(len(self.row_ptr), dtype=np.int64)
        entries = [(target.astype(np.int32)[self.columns], self.values)]
        dtype = self.values.dtype
        found = _summed_rows(each, each[:-1], [self.row_ptr], entries, shape[1], dtype)
        return SparseTable(self.rows, *found, shape)

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


class _Pool:
    """Memory of entries, filled from the front; what is in it stays.

    Parameters
    ----------
    topics, values : ndarray of shape (n_places,), int32 and float64
        The memory.
    used : int
        Places that have an entry.
    left : list
        Takes the memory when nobody holds the pool any more, for the next one: pages that are new
        cost more than what is written to them.
    """

    def __init__(self, topics, values, used, left):
        self.topics = topics
        self.values = values
        self.used = used
        self.left = left
        if 0 < topics.nbytes + values.nbytes <= MOST_LEFT:
            leave = weakref.finalize(self, left.__setitem__, slice(None), [(topics, values)])
            leave.atexit = False

    def __getstate__(self):
        return {**vars(self), "left": []}


class RowTable:
    """A table of features x components that keeps the few entries of each row.

    A table never changes: adding makes a new one, which shares the rows that stayed as they were,
    so that it costs no more than the rows that are added to (Mimno et al. 2012, Appendix A). So a
    step that fails leaves nothing to mend.

    Parameters
    ----------
    shape : tuple (n_features, n_components)
        Of the table, which is empty.
    least : float, default=1e-9
        Entries that fall below this become that or nothing, by lot, with the same expectation.
    """

    ndim = 2

    def __init__(self, shape, least=NOTHING):
        self.shape = shape
        self.least = least
        self.first = np.zeros(shape[0], dtype=np.int64)
        self.length = np.zeros(shape[0], dtype=np.int32)
        self.pool = _Pool(np.empty(0, dtype=np.int32), np.empty(0), 0, [])
        self._end = 0  # of the pool, as far as this table knows it

    @classmethod
    def of(cls, table, least=NOTHING):
        """A table of any kind as one of rows; of a RowTable, what is stored already stays."""
        if isinstance(table, RowTable):
            new = table.copy()
            new.least = least
            return new
        if not isinstance(table, SparseTable):
            table = SparseTable.of(table)
        return cls(table.shape, least).plus(table)

    # ------------------------------------------------------------------ reading

    @property
    def size(self):
        """Number of entries that a dense table would have."""
        return self.shape[0] * self.shape[1]

    @property
    def n_stored(self):
        """Number of entries kept."""
        return int(self.length.sum(dtype=np.int64))

    @property
    def nbytes(self):
        """Memory in bytes."""
        pool = self.pool
        return sum(p.nbytes for p in (self.first, self.length, pool.topics, pool.values))

    @property
    def entries(self):
        """Where each row begins, its number of entries, and the topics and values of all rows."""
        return self.first, self.length, self.pool.topics, self.pool.values

    def gathered(self, rows, room=0, memory=None):
        """The entries of some rows: `row_ptr`, topics and values, with room for more behind."""
        rows = np.asarray(rows, dtype=np.int32)
        return _row_tables.gather_rows(*self.entries, rows, room, memory)

    def to_sparse(self):
        """The whole table as a SparseTable."""
        rows = np.flatnonzero(self.length).astype(np.int32)
        return SparseTable(rows, *self.gathered(rows), self.shape)

    def __getitem__(self, rows):
        """Some rows, dense."""
        rows = np.arange(self.shape[0], dtype=np.int32)[rows]
        row_ptr, topics, values = self.gathered(rows)
        out = np.zeros((len(rows), self.shape[1]))
        out[np.repeat(np.arange(len(rows)), np.diff(row_ptr)), topics] = values
        return out

    # ------------------------------------------------------------------ what is made of it

    def plus(self, other, factor=1.0, least=None):
        """This table plus ``factor`` times another.

        Parameters
        ----------
        other : SparseTable or RowTable
            Of the same shape.
        factor : float, default=1.0
            What to multiply it by.
        least : float, default=None
            The least that entries are kept as, in units of this table; by default `least`.

        Returns
        -------
        table : RowTable
            The sum.
        """
        if isinstance(other, RowTable):
            other = other.to_sparse()
        places = np.stack([other.row_ptr[:-1], other.row_ptr[1:]])
        parts = (places, other.columns, other.values, factor)
        nothing = (np.zeros_like(places), other.columns[:0], other.values[:0], 0.0)
        return self._changed(other.rows, parts, nothing, self.least if least is None else least)

    def exchanged(self, new, old, factor, old_factor, least):
        """This table plus ``factor`` times `new` and ``old_factor`` times `old`, as one sum."""
        rows, parts = _rows_of([new, old]), []
        for table, times in ((new, factor), (old, old_factor)):
            values = table.values.astype(new.values.dtype, copy=False)
            parts.append((table.places(rows), table.columns, values, times))
        return self._changed(rows, *parts, least)

    def _changed(self, rows, part, other, least):
        """This table plus two others, each given as places, columns, values and a factor."""
        old, reserved = self, self.length[rows].astype(np.int64)
        for (begin, end), *_ in (part, other):
            reserved += end - begin
        n_most = int(reserved.sum())
        if not old._has_room(n_most):
            old = old._packed(n_most)
        pool, new = old.pool, old.copy()
        at = pool.used + np.concatenate([[0], np.cumsum(np.minimum(reserved, self.shape[1]))])
        lengths = np.empty(len(rows), dtype=np.int32)
        pool.used = new._end = int(at[-1])
        _row_tables.merge_rows(
            *old.entries,
            rows,
            *part,
            *other,
            least,
            at[:-1],
            lengths,
            pool.topics,
            pool.values,
            self.shape[1],
            threads_for(ENTRY_WORK * n_most),
        )
        new.first[rows], new.length[rows] = at[:-1], lengths
        return new

    def _has_room(self, n_more):
        """Whether the pool takes more of this table, and is not mostly of older ones."""
        pool = self.pool
        fits = self._end == pool.used and pool.used + n_more <= len(pool.topics)
        return fits and (len(pool.topics) <= SMALL_POOL or POOL_SIZE * self.n_stored > pool.used)

    def _packed(self, n_more=0):
        """This table alone in a pool of its own, with room for more."""
        rows = np.flatnonzero(self.length).astype(np.int32)
        room = POOL_SIZE * n_more + (POOL_SIZE - 1) * self.n_stored if n_more else 0
        memory, left = None, self.pool.left
        if room and left and len(left[0][0]) >= self.n_stored + room // 2:
            memory = left.pop()
        row_ptr, topics, values = self.gathered(rows, room, memory)
        new = self.copy()
        new._end = int(row_ptr[-1])
        new.pool = _Pool(topics, values, new._end, left if room else [])
        new.first[rows] = row_ptr[:-1]
        return new

    def emptied(self):
        """A table without entries, whose pools may take the memory of this one's."""
        new = RowTable(self.shape, self.least)
        new.pool.left = self.pool.left
        return new

    def copy(self):
        """A copy, which shares what never changes."""
        new = object.__new__(RowTable)
        vars(new).update(vars(self))
        new.first, new.length = self.first.copy(), self.length.copy()
        return new

    def scaled(self, factor):
        """This table times a number."""
        return self._made(self.to_sparse().scaled(factor))

    def reordered(self, order):
        """This table with components taken in a new order; what is not taken is gone."""
        return self._made(self.to_sparse().reordered(order))

    def merged(self, kept, absorbed):
        """This table with component ``absorbed`` added to ``kept``, and then empty."""
        return self._made(self.to_sparse().merged(kept, absorbed))

    def widened(self, n_more):
        """This table with ``n_more`` empty components after its own."""
        return self._made(self.to_sparse().widened(n_more))

    def _made(self, table):
        return RowTable.of(table, self.least)

    def __getstate__(self):
        # No more than this table's own entries is sent or saved.
        return vars(self._packed())


SPARSE = SparseTable, RowTable


def _rows_of(tables):
    """The rows that any of some sparse tables has."""
    if len(tables) == 1:
        return tables[0].rows
    has_any = np.zeros(tables[0].shape[0], dtype=bool)
    for table in tables:
        has_any[table.rows] = True
    return np.flatnonzero(has_any).astype(np.int32)


def add_in_turn(total, parts, *, anew=False, tells=False):
    """Add multiples of sparse tables to a dense one, in place, one after another.

    Parameters
    ----------
    total : ndarray of shape (n_features, n_components), float64
        Changed in place.
    parts : list of (SparseTable, float)
        The tables, and what to multiply each by.
    anew : bool, default=False
        Whether they replace what stands there.
    tells : bool, default=False
        Whether to tell what has changed.

    Returns
    -------
    changes : list of tuple of ndarray or None
        One after another, as :func:`take_changes` of the kernels tells them; None if that is not
        wanted, or they are more than the tables' entries.
    """
    found, factors = zip(*parts, strict=True)
    rows = np.arange(len(total), dtype=np.int32) if anew else _rows_of(found)
    if len(found) == 1 and not anew:
        begins, ends = found[0].row_ptr[None, :-1], found[0].row_ptr[None, 1:]
    else:
        begins, ends = np.stack([table.places(rows) for table in found], axis=1)
    entries = [(table.columns, table.values) for table in found]
    n_entries = sum(table.values.size for table in found)
    memory = None
    if tells:
        kinds = np.int64, np.float32, np.float64
        memory = tuple(recycled_briefly((n_entries,), kind) for kind in kinds)
    n_threads = threads_for(ENTRY_WORK * n_entries + anew * total.size)
    given = rows, begins, ends, entries, np.array(factors), anew, memory
    return _changes.add_in_turn(total, *given, n_threads)


def grown(table, parts, least):
    """A table that grows, plus multiples of others.

    Parameters
    ----------
    table : RowTable
        The table.
    parts : list of (SparseTable or RowTable, float)
        The others, and what to multiply each by.
    least : float
        The least that entries are kept as, in units of this table.

    Returns
    -------
    table : RowTable
        The sum, made anew once if there are two, or multiples by the same number.
    """
    if len(parts) > 1:  # a sum at a time would be a table at a time
        others, factors = zip(*parts, strict=True)
        others = [o.to_sparse() if isinstance(o, RowTable) else o for o in others]
        if len(set(factors)) == 1:
            parts = [(sum_of_tables(others), factors[0])]
        elif len(parts) == 2:
            return table.exchanged(*others, *factors, least)
    for other, factor in parts:
        table = table.plus(other, factor, least)
    return table


def reordered(table, order, axis):
    """A table, dense or sparse, with components taken in a new order."""
    if isinstance(table, SPARSE):
        return table.reordered(order)
    if table.ndim == 2 and axis == 1 and table.dtype == np.float64 and table.flags.c_contiguous:
        taken, n_threads = recycled((len(table), len(order))), threads_for(len(table) * len(order))
        _row_tables.take_columns(table, np.asarray(order, dtype=np.int64), taken, n_threads)
        return taken
    return np.ascontiguousarray(np.take(table, order, axis=axis))


def dropped(table, component, axis):
    """A table, dense or sparse, without a component."""
    return reordered(table, np.delete(np.arange(table.shape[axis]), component), axis)


def merged(table, kept, absorbed, axis):
    """A table, dense or sparse, with component ``absorbed`` added to ``kept``, and gone."""
    if isinstance(table, SPARSE):
        return dropped(table.merged(kept, absorbed), absorbed, axis)
    new, place = dropped(table, absorbed, axis), kept - (kept > absorbed)
    np.moveaxis(new, axis, 0)[place] += np.moveaxis(table, axis, 0)[absorbed]
    return new


def widened(table, n_more, axis):
    """A table, dense or sparse, with ``n_more`` empty components after its own."""
    if isinstance(table, SPARSE):
        return table.widened(n_more)
    widths = [(0, n_more if axis == at else 0) for at in range(table.ndim)]
    return np.pad(table, widths)


def compact(table, axis):
    """A copy to be added elsewhere: sparse if it is features x components and mostly zero."""
    if isinstance(table, SPARSE) or table.ndim != 2 or axis != 1:
        return table.copy()
    if np.count_nonzero(table) < table.size * MOSTLY_ZERO:
        return SparseTable.of(table)
    return table.copy()


def folded(table, target, axis):
    """A table with components summed by where they go."""
    if isinstance(table, SPARSE):
        sparse = table.to_sparse() if isinstance(table, RowTable) else table
        return sparse.folded(target)
    first = np.unique(target, return_index=True)[1]  # of those that go to one place
    total = reordered(table, first, axis)
    to, of = np.moveaxis(total, axis, 0), np.moveaxis(table, axis, 0)
    for component in np.delete(np.arange(len(target)), first):
        to[target[component]] += of[component]
    return total


def distinct_pairs(pairs):
    """Pairs of numbers once each, in their order, and where each is found first.

    ``np.unique`` of rows has Python compare their types, where an interrupt becomes a TypeError.
    """
    codes = pairs @ [1 + pairs.max(initial=0), 1]
    first = np.unique(codes, return_index=True)[1]
    return pairs[first], first


def sum_of(table, other, factor):
    """A table plus `factor` times another one, sparse where both are."""
    if isinstance(table, SparseTable):
        return sum_of_tables([table, other.scaled(factor)])
    if not isinstance(other, SparseTable):
        return table + factor * other
    total = table.copy()
    other.add_to(total, factor)
    return total


def sum_of_tables(tables, *, exact=False, neighbours=False):
    """The sum of sparse tables, in their order.

    Parameters
    ----------
    tables : list of SparseTable
        At least one.
    exact : bool, default=False
        Whether sums stay in double; by default they are rounded to the type of the tables.
    neighbours : bool, default=False
        Whether to make the sum of sums of neighbours, of those of these and so on, bit by bit; of
        a power of two of tables.

    Returns
    -------
    total : SparseTable
        One entry for each feature and component that any of them has: summed in double, and
        rounded once.
    """
    if len(tables) == 1:
        return tables[0]
    rows = np.concatenate([table.rows for table in tables])
    member = np.argsort(rows, kind="stable")
    rows = rows[member]
    begins = np.flatnonzero(np.diff(rows, prepend=-1))
    features, group_ptr = rows[begins], np.append(begins, len(member))
    row_ptrs = [table.row_ptr for table in tables]
    entries = [(table.columns, table.values) for table in tables]
    dtype = np.float64 if exact else np.result_type(*(table.values for table in tables))
    shape = tables[0].shape
    depth = (len(tables) - 1).bit_length() - 1 if neighbours else 0
    found = _summed_rows(group_ptr, member, row_ptrs, entries, shape[1], dtype, depth)
    return SparseTable(features, *found, shape)


def _summed_rows(group_ptr, member, row_ptrs, entries, n_columns, dtype, depth=0):
    """Sums of groups of the rows of some tables, which are read where they are."""
    first = np.concatenate([ptr[:-1] for ptr in row_ptrs], dtype=np.int64)
    length = np.concatenate([np.diff(ptr) for ptr in row_ptrs], dtype=np.int64)
    source = np.repeat(np.arange(len(row_ptrs)), [len(ptr) - 1 for ptr in row_ptrs])
    places = source.astype(np.int32), first, length, entries
    most = np.diff(np.append(0, np.cumsum(length[member]))[group_ptr])
    reserved = np.append(0, np.cumsum(np.minimum(most, n_columns)))
    room = [recycled_briefly(reserved[-1:], kind) for kind in (np.int32, dtype)]
    n_threads = threads_for(ENTRY_WORK * int(length.sum()))
    given = group_ptr, member, *places, reserved, *room, n_columns, depth, n_threads
    return _row_tables.sum_rows(*given)


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
        return self.prior_totals + count

    @property
    def prior_totals(self):
        """Sums of the prior over features, one a component or one for all."""
        prior = self.compact_prior
        return prior.sum(axis=0) * (self.shape[0] / len(prior))

    def block(self, rows):
        """The parameters of some features; what is negative by rounding counts as zero."""
        counts = self.counts[rows]
        value = np.maximum(counts if self.factor == 1 else self.factor * counts, 0)
        own = value if value.dtype == np.float64 else None  # a table less to be made
        return np.add(value, self.prior[rows], out=own)

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
        for start in range(0, self.shape[0], ROW_BLOCK):
            rows = slice(start, start + ROW_BLOCK)
            np.copyto(table[:, rows], self.block(rows).T, casting="same_kind")
        return table
