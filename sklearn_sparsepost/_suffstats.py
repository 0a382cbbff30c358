"""Sufficient statistics that add: all that a global step and the bound need of the data."""

from collections import deque
from copy import deepcopy
from functools import partial

import numpy as np

from sklearn_sparsepost import _tables as tables
from sklearn_sparsepost._run.memory import recycled_zeros
from sklearn_sparsepost._tables import SPARSE, RowTable, SparseTable

# Of how many of the last changes it is noted what they are: a first batch's, and its start's.
N_NOTED = 2


def sum_of_chunks(parts, *, apart=False, exact=False, neighbours=False):
    """The sum of the statistics of some chunks, its tables still sparse.

    Parameters
    ----------
    parts : iterable of SuffStats
        Of the same names, at least one, as local steps return them.
    apart : bool, default=False
        Whether they are left as they are.
    exact : bool, default=False
        Whether sums of tables stay in double, whatever the type of these.
    neighbours : bool, default=False
        Whether neighbours are summed first, then sums of these and so on, to the bits of that;
        parts are a power of two then.

    Returns
    -------
    total : SuffStats
        Their sum.
    """
    sparse, total, rest = {}, None, []
    for part in parts:
        if apart:
            part = part.apart(to_read=total is not None)  # noqa: PLW2901
        for name in [name for name, array in part.arrays.items() if isinstance(array, SparseTable)]:
            sparse.setdefault(name, []).append(part.arrays.pop(name))
        if neighbours:
            rest.append(part)
        else:
            total = part if total is None else total.add(part)
        del part  # so that there are no more than two at a time
    total = _sum_of_halves(rest) if neighbours else total
    for name in list(sparse):
        given = {"exact": exact, "neighbours": neighbours}
        total.arrays[name] = tables.sum_of_tables(sparse.pop(name), **given)
    return total


def _sum_of_halves(parts):
    """Statistics added up, neighbours first, in place; there are a power of two."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return _sum_of_halves(parts[:middle]).add(_sum_of_halves(parts[middle:]))


# For totals in double, to which sums that were rounded before would not do.
exact_sum = partial(sum_of_chunks, exact=True)


def _add_each(own, parts, anew):
    """Add multiples of arrays to one, in place, or replace it by their sum."""
    if anew:
        own.fill(0)
    for array, factor in parts:
        if isinstance(array, SparseTable):
            array.add_to(own, factor)
        elif factor == -1:
            own -= array
        else:
            own += array if factor == 1 else factor * array


def _zeros(kinds, axes, scalars):
    """Statistics of no data, given what makes each array."""
    return SuffStats({name: make() for name, make in kinds.items()}, axes, dict(scalars))


class SuffStats:
    """Named arrays with a component axis, and named scalars, that add, scale and lose components.

    A common factor is kept aside, so that scaling costs nothing: :meth:`value` has it in.

    Parameters
    ----------
    arrays : dict of str to ndarray, SparseTable or RowTable
        The statistics a component has a share of.
    axes : dict of str to int or None
        Which axis of each array runs over components; None for what they share.
    scalars : dict of str to float
        The statistics of the data as a whole, terms of the bound among them.
    tracked : object, default=None
        What a move wanted to know of the data that these are of: adds with the statistics, and is
        left behind by copies and whatever else is made of them.
    """

    def __init__(self, arrays, axes, scalars, tracked=None):
        self.arrays = arrays
        self.axes = axes
        self.scalars = scalars
        self.tracked = tracked
        self.factor = 1.0
        self.version = 0  # how often these have been changed in place
        self._told = None  # the last versions and what changed then, once somebody has asked
        self.undo = None  # of lent tables: what rows were before they were added to

    def __getitem__(self, name):
        return self.arrays[name] if name in self.arrays else self.scalars[name]

    def value(self, name):
        """The value of an entry, the common factor included, as a new array or a number."""
        return self.factor * self[name]

    @property
    def n_components(self):
        """Number of components."""
        name, array = next(iter(self.arrays.items()))
        return array.shape[self.axes[name]]

    @property
    def grows(self):
        """Whether a table has rows that grow: then what is added must be added at once."""
        return any(isinstance(array, RowTable) for array in self.arrays.values())

    def copy(self, spare=None):
        """A copy that shares nothing, in the memory of dense statistics that are no longer read."""
        if spare is None:
            return self._with({name: array.copy() for name, array in self.arrays.items()})
        for name, array in self.arrays.items():
            if isinstance(array, RowTable):
                spare.arrays[name] = array.copy()
            else:
                np.copyto(spare.arrays[name], array)
        return self._with(spare.arrays)

    def apart(self, *, to_read=False):
        """A copy to be summed: dense arrays and what is tracked are its own, tables are shared.

        With `to_read` it is added to others, and nothing to it: then dense arrays are shared, too.
        """
        new = self._with(
            {
                name: array if to_read or isinstance(array, SPARSE) else array.copy()
                for name, array in self.arrays.items()
            }
        )
        new.tracked = deepcopy(self.tracked)
        return new

    def lend(self):
        """A copy that writes to the same tables, and notes how to undo it."""
        arrays = {
            name: array if np.ndim(array) == 2 and self.axes[name] == 1 else array.copy()
            for name, array in self.arrays.items()
        }
        new = self._with(arrays)
        new.undo = []
        return new

    def _with(self, arrays):
        """The same scalars and factor with other arrays."""
        new = SuffStats(arrays, self.axes, dict(self.scalars))
        new.factor = self.factor
        return new

    def _resized(self, change):
        """The same with ``change(array, axis)`` in place of each array that components own."""
        return self._with(
            {
                name: array.copy() if self.axes[name] is None else change(array, self.axes[name])
                for name, array in self.arrays.items()
            }
        )

    def maker_of_zeros(self):
        """A picklable function without arguments that makes such statistics of no data."""
        kinds = {
            name: partial(RowTable, array.shape, array.least)
            if isinstance(array, RowTable)
            else partial(recycled_zeros, array.shape)
            for name, array in self.arrays.items()
        }
        return partial(_zeros, kinds, self.axes, dict.fromkeys(self.scalars, 0.0))

    def compact(self):
        """A copy to be added elsewhere: tables that are mostly zero become sparse."""
        return self._with(
            {name: tables.compact(array, self.axes[name]) for name, array in self.arrays.items()}
        )

    def add(self, other, factor=1.0):
        """Add ``factor`` times other statistics, in place.

        Parameters
        ----------
        other : SuffStats
            Of the same names; tables may be sparse there.
        factor : float, default=1.0
            What to multiply `other` by; -1 takes away what was added.

        Returns
        -------
        self : SuffStats
            These statistics.
        """
        return self.add_in_turn((other, factor))

    def add_in_turn(self, *changes, anew=False):
        """Add multiples of other statistics, one after another, in place.

        Tables are gone over once, whatever is added: that costs what they hold.

        Parameters
        ----------
        *changes : (SuffStats, float)
            What to add, of the same names, tables may be sparse there, and what to multiply it by.
        anew : bool, default=False
            Whether that replaces what these statistics are.

        Returns
        -------
        self : SuffStats
            These statistics.
        """
        if anew:
            self._begin_anew()
        self.version += 1
        changes = [(other, factor * other.factor / self.factor) for other, factor in changes]
        told, tells = {}, self._told is not None
        for name, own in self.arrays.items():
            parts = [(o.arrays[name], factor) for o, factor in changes if name in o.arrays]
            if isinstance(own, RowTable):
                self.arrays[name] = tables.grown(own, parts, own.least / self.factor)
            elif self.undo is not None:
                self.arrays[name] = self._added_undoably(own, parts)
            elif parts and all(isinstance(part, SparseTable) for part, _ in parts):
                found = tables.add_in_turn(own, parts, anew=anew, tells=tells)
                if found is not None:
                    told[name] = found
            else:
                _add_each(own, parts, anew)
        if tells:
            self._told.append((self.version, told))
        for other, factor in changes:
            for name, value in other.scalars.items():
                self.scalars[name] += factor * value
            if other.tracked is not None:
                if self.tracked is None:
                    self.tracked = other.tracked
                else:
                    self.tracked.add(other.tracked)
        return self

    def _begin_anew(self):
        """Let go what is not replaced as tables are."""
        if self.undo is not None:
            self.clear()
        for name, array in self.arrays.items():
            if isinstance(array, RowTable):
                self.arrays[name] = array.emptied()
        for name in self.scalars:
            self.scalars[name] = 0.0
        self.factor = 1.0
        self.tracked = None

    def _added_undoably(self, own, parts):
        """A table with others added: in place if these are sparse, and then with a note."""
        for array, factor in parts:
            if isinstance(array, SparseTable):
                self.undo.append((own, array.rows, own[array.rows]))
                array.add_to(own, factor)
            else:
                own = own + factor * array
        return own

    def changes_since(self, version, array):
        """What has changed of a dense table since a version, if that is known.

        It is noted from the first time on that this is asked.

        Parameters
        ----------
        version : int
            The version.
        array : ndarray
            Any.

        Returns
        -------
        changes : list of tuple or None
            One after another, as :func:`add_in_turn` tells them: the array is a table of these
            statistics, and no other entry of it has changed. None if that is not known.
        """
        if self._told is None:
            self._told = deque(maxlen=N_NOTED)
        noted = [told for number, told in self._told if number > version]
        if len(noted) < self.version - version:
            return None
        for name, own in self.arrays.items():
            if own is array and all(name in told for told in noted):
                return [change for told in noted for change in told[name]]
        return None

    def __getstate__(self):
        return {**vars(self), "_told": None}

    def exchange(self, new, old):
        """Add some statistics and take away others, in place.

        Parameters
        ----------
        new : SuffStats or None
            What to add.
        old : SuffStats
            What to take away, of the same names.

        Returns
        -------
        self : SuffStats
            These statistics.
        """
        return self.add_in_turn(*[(new, 1.0)] * (new is not None), (old, -1.0))

    def plus(self, other, factor=1.0):
        """These statistics and ``factor`` times others, as new ones; sparse tables stay sparse.

        Parameters
        ----------
        other : SuffStats
            Of the same names and numbers of components.
        factor : float, default=1.0
            What to multiply `other` by.

        Returns
        -------
        total : SuffStats
            The sum.
        """
        factor = factor * other.factor / self.factor
        total = self._with(
            {name: tables.sum_of(array, other[name], factor) for name, array in self.arrays.items()}
        )
        for name, value in other.scalars.items():
            total.scalars[name] += factor * value
        return total

    def without(self, names):
        """These statistics without some arrays; the others are shared."""
        return self._with({name: part for name, part in self.arrays.items() if name not in names})

    def add_at(self, which, other):
        """Add statistics of a few components to those of the same, in place; tables are dense.

        Parameters
        ----------
        which : ndarray of shape (n_few,)
            The components that `other` is of.
        other : SuffStats
            Of the same names.

        Returns
        -------
        self : SuffStats
            These statistics.
        """
        self.version += 1
        factor = other.factor / self.factor
        for name, array in other.arrays.items():
            axis = self.axes[name]
            if axis is None:
                self.arrays[name] += factor * array
            else:
                own = np.moveaxis(self.arrays[name], axis, 0)
                own[which] += factor * np.moveaxis(array, axis, 0)
        for name, value in other.scalars.items():
            self.scalars[name] += factor * value
        return self

    def scale(self, factor):
        """Multiply everything by ``factor``, in place and in constant time."""
        self.version += 1
        self.factor *= factor
        if 1e-100 < self.factor < 1e100:
            if self._told is not None:
                self._told.append((self.version, {name: [] for name in self.arrays}))
        else:
            for name, array in self.arrays.items():
                sparse = isinstance(array, SPARSE)
                scaled = array.scaled(self.factor) if sparse else np.multiply(array, self.factor)
                self.arrays[name] = scaled
            for name in self.scalars:
                self.scalars[name] *= self.factor
            self.factor = 1.0
        return self

    def clear(self):
        """Set everything to zero, in place; tables must be dense."""
        self.version += 1
        if self._told is not None:
            self._told.clear()
        for name, array in self.arrays.items():
            if isinstance(array, RowTable):
                self.arrays[name] = array.emptied()
            elif self.undo is not None:
                self.arrays[name] = np.zeros(array.shape)
            else:
                array.fill(0)
        for name in self.scalars:
            self.scalars[name] = 0.0
        self.factor = 1.0
        self.tracked = None
        return self

    def merge(self, kept, absorbed):
        """Add component ``absorbed`` to component ``kept`` and drop it, as new statistics."""
        return self._resized(lambda array, axis: tables.merged(array, kept, absorbed, axis))

    def fold(self, target):
        """Sum components by where they go, as new statistics.

        Parameters
        ----------
        target : ndarray of shape (n_components,)
            The new component of each; none is left out.

        Returns
        -------
        stats : SuffStats
            Of ``target.max() + 1`` components.
        """
        return self._resized(lambda array, axis: tables.folded(array, target, axis))

    def filled(self, other, target):
        """These statistics with the arrays that they lack, as new ones.

        Parameters
        ----------
        other : SuffStats
            Has them, of more components, by the same common factor.
        target : ndarray of shape (n_components,)
            Where the components of `other` are here.

        Returns
        -------
        stats : SuffStats
            All arrays; those that were there are shared.
        """
        folded = other.without(self.arrays).fold(target)
        return self._with({name: {**folded.arrays, **self.arrays}[name] for name in other.arrays})

    def drop(self, component):
        """These statistics without one component."""
        return self._resized(lambda array, axis: tables.dropped(array, component, axis))

    def reorder(self, order):
        """These statistics with components taken in a new order."""
        return self._resized(lambda array, axis: tables.reordered(array, order, axis))

    def insert(self, n_more):
        """These statistics with ``n_more`` empty components after their own."""
        return self._resized(lambda array, axis: tables.widened(array, n_more, axis))
