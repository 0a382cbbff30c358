"""Sufficient statistics that add: all that a global step and the bound need of the data."""

from functools import partial

import numpy as np
import scipy.sparse as sp

from sklearn_sparsepost._kernels import topic_stats
from sklearn_sparsepost._run.chunks import threads_for

# The share of entries up to which a table is smaller, and faster to add, stored sparsely.
MOSTLY_ZERO = 0.25


class TopicCounts:
    """Expected counts of a few words in a few topics, stored sparsely.

    Parameters
    ----------
    words : ndarray of shape (n_words,), int32
        Distinct words.
    row_ptr : ndarray of shape (n_words + 1,), int64
        Word ``words[w]`` has its entries at ``row_ptr[w]:row_ptr[w + 1]``.
    topics : ndarray of shape (n_stored,), int32
        Topics, once each a word.
    counts : ndarray of shape (n_stored,)
        Expected counts.
    """

    def __init__(self, words, row_ptr, topics, counts):
        self.words = words
        self.row_ptr = row_ptr
        self.topics = topics
        self.counts = counts

    @classmethod
    def of(cls, table):
        """The non-zero entries of a table of shape (n_features, n_topics)."""
        filled = table != 0
        lengths = filled.sum(axis=1)
        words = np.flatnonzero(lengths).astype(np.int32)
        row_ptr = np.concatenate([[0], np.cumsum(lengths[words])]).astype(np.int64)
        return cls(words, row_ptr, np.nonzero(filled)[1].astype(np.int32), table[filled])

    def add_to(self, table, factor, n_threads=1):
        """Add ``factor`` times these counts to ``table``, (n_features, n_topics), in place."""
        # An entry is a visit to far memory: worth some multiplications.
        n_threads = threads_for(16 * self.counts.size, n_threads)
        topic_stats.add_counts(
            table, self.words, self.row_ptr, self.topics, self.counts, factor, n_threads
        )

    @property
    def nbytes(self):
        """Memory in bytes."""
        parts = (self.words, self.row_ptr, self.topics, self.counts)
        return sum(part.nbytes for part in parts)


def _merge_pair(one, other):
    """The sum of two tables of counts, in double."""
    words = np.union1d(one.words, other.words)
    n_topics = 1 + max(part.topics.max(initial=0) for part in (one, other))
    total = 0
    for part in (one, other):
        lengths = np.zeros(len(words), dtype=np.int64)
        lengths[np.searchsorted(words, part.words)] = np.diff(part.row_ptr)
        row_ptr = np.concatenate([[0], np.cumsum(lengths)])
        total = total + sp.csr_array(
            (part.counts.astype(np.float64, copy=False), part.topics, row_ptr),
            shape=(len(words), n_topics),
        )
    return TopicCounts(
        words.astype(np.int32),
        total.indptr.astype(np.int64),
        total.indices.astype(np.int32, copy=False),
        total.data,
    )


def merge_counts(tables):
    """The sum of tables of counts, pair by pair in a fixed order.

    Parameters
    ----------
    tables : list of TopicCounts
        At least one.

    Returns
    -------
    total : TopicCounts
        One entry for each word and topic that any of them has: summed in double, and rounded once
        to the type of the first table's counts.
    """
    dtype = tables[0].counts.dtype
    while len(tables) > 1:
        pairs = [tables[i : i + 2] for i in range(0, len(tables), 2)]
        tables = [_merge_pair(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    total = tables[0]
    return TopicCounts(
        total.words, total.row_ptr, total.topics, total.counts.astype(dtype, copy=False)
    )


def sum_of_chunks(parts):
    """The sum of the statistics of some chunks, its tables still sparse.

    Parameters
    ----------
    parts : iterable of SuffStats
        Of the same names, at least one, as local steps return them.

    Returns
    -------
    total : SuffStats
        Their sum.
    """
    tables, total = {}, None
    for part in parts:
        for name in [name for name, array in part.arrays.items() if isinstance(array, TopicCounts)]:
            tables.setdefault(name, []).append(part.arrays.pop(name))
        total = part if total is None else total.add(part)  # no more than two parts at a time
    for name, same in tables.items():
        total.arrays[name] = merge_counts(same)
    return total


def _zeros(shapes, axes, scalars):
    """Statistics of no data."""
    return SuffStats({name: np.zeros(shape) for name, shape in shapes.items()}, axes, dict(scalars))


class SuffStats:
    """Named arrays with a component axis, and named scalars, that add, scale and lose components.

    A common factor is kept aside, so that scaling costs nothing: :meth:`value` has it in.

    Parameters
    ----------
    arrays : dict of str to ndarray or TopicCounts
        The statistics a component has a share of.
    axes : dict of str to int
        Which axis of each array runs over components.
    scalars : dict of str to float
        The statistics of the data as a whole.
    """

    def __init__(self, arrays, axes, scalars):
        self.arrays = arrays
        self.axes = axes
        self.scalars = scalars
        self.factor = 1.0
        self.version = 0  # how often these have been changed in place

    def __getitem__(self, name):
        return self.arrays[name] if name in self.arrays else self.scalars[name]

    def value(self, name):
        """The value of an entry, the common factor included, as a new array or a number."""
        return self.factor * self[name]

    def copy(self):
        """A copy that shares nothing."""
        new = SuffStats(
            {name: array.copy() for name, array in self.arrays.items()},
            self.axes,
            dict(self.scalars),
        )
        new.factor = self.factor
        return new

    def maker_of_zeros(self):
        """A picklable function without arguments that makes such statistics of no data."""
        shapes = {name: array.shape for name, array in self.arrays.items()}
        scalars = {name: 0.0 * value for name, value in self.scalars.items()}
        return partial(_zeros, shapes, self.axes, scalars)

    def compact(self):
        """A copy to be added elsewhere: tables of counts that are mostly zero become sparse."""
        new = self.copy()
        for name, array in new.arrays.items():
            if array.ndim == 2 and np.count_nonzero(array) < array.size * MOSTLY_ZERO:
                new.arrays[name] = TopicCounts.of(array)
        return new

    def add(self, other, factor=1.0, n_threads=1):
        """Add ``factor`` times other statistics, in place.

        Parameters
        ----------
        other : SuffStats
            Of the same names; tables may be :class:`TopicCounts` there.
        factor : float, default=1.0
            What to multiply `other` by; -1 takes away what was added.
        n_threads : int, default=1
            Number of OpenMP threads.

        Returns
        -------
        self : SuffStats
            These statistics.
        """
        self.version += 1
        factor = factor * other.factor / self.factor
        for name, array in other.arrays.items():
            if isinstance(array, TopicCounts):
                array.add_to(self.arrays[name], factor, n_threads)
            else:
                self.arrays[name] += factor * array
        for name, value in other.scalars.items():
            # Not in place, since a copy may share an array.
            self.scalars[name] = self.scalars[name] + factor * value
        return self

    def scale(self, factor):
        """Multiply everything by ``factor``, in place and in constant time."""
        self.version += 1
        self.factor *= factor
        if not 1e-100 < self.factor < 1e100:
            for array in self.arrays.values():
                array *= self.factor
            for name in self.scalars:
                self.scalars[name] *= self.factor
            self.factor = 1.0
        return self

    def clear(self):
        """Set everything to zero, in place."""
        self.version += 1
        for array in self.arrays.values():
            array[...] = 0
        for name in self.scalars:
            self.scalars[name] = 0.0
        self.factor = 1.0
        return self

    def merge(self, kept, absorbed):
        """Add component ``absorbed`` to component ``kept`` and drop it, as new statistics."""
        new = self.copy()
        for name, array in new.arrays.items():
            view = np.moveaxis(array, self.axes[name], 0)
            view[kept] += view[absorbed]
        return new.drop(absorbed)

    def drop(self, component):
        """These statistics without one component."""
        n = next(iter(self.arrays.values())).shape[next(iter(self.axes.values()))]
        return self.reorder(np.delete(np.arange(n), component))

    def reorder(self, order):
        """These statistics with components taken in a new order."""
        new = SuffStats(
            {
                name: np.ascontiguousarray(np.take(array, order, axis=self.axes[name]))
                for name, array in self.arrays.items()
            },
            self.axes,
            dict(self.scalars),
        )
        new.factor = self.factor
        return new
