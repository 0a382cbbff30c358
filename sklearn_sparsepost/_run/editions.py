"""Values that workers are sent again and again, each time a little changed: as what has changed.

The globals of memoized and online learning differ from batch to batch where the batch has words,
and nowhere else. So a worker is sent a value whole, and from then on the entries that are others.
All that was sent stays with the scheduler until it is sent whole again, so that a worker that is
new, or has lost what it knew, makes the same bits of it.
"""

from contextlib import contextmanager
from itertools import zip_longest
from threading import Lock
from weakref import ref

import numpy as np

from sklearn_sparsepost._kernels import _changes as kernels
from sklearn_sparsepost._run.shipping import Parcel, other_bits, put_together, taken_apart
from sklearn_sparsepost._run.threads import map_threads

# Changes are sent if they are smaller than this share of the whole, packed.
WORTH_IT = 0.9
# What all changes may weigh before a whole is sent anew, if more than itself: of its memory.
MOST_CHANGES = 0.5
# Entries that are compared at a time, and how many times until what was found is counted.
BLOCK, BLOCKS = 1 << 20, 8
# Entries that are compared first: where many of them differ, no others are looked at.
SAMPLE = 1 << 12


class Editions:
    """A value that changes: what workers were sent of it.

    Parameters
    ----------
    send : callable
        ``send(value)`` returns a future of what is a task of its own.
    send_on : callable, default=None
        ``send_on(future, place)`` returns a future of the same value that is best made at a place.
    """

    def __init__(self, send, send_on=None):
        self.send, self.send_on = send, send_on
        self.forget()

    def forget(self):
        """Have the next edition be sent whole."""
        self._futures = []
        self._wholes = {}  # futures of the last whole, by the place where they are
        self._kinds = None  # shapes and types of the arrays of the last edition
        self._arrays = []  # copies of them, None of those whose changes are told
        self._seen = []  # references to the source and the arrays it was made of, and the version
        self._size, self._room = 0, 0  # of the last whole, and what changes since may weigh yet

    def futures(self, value, source=None):
        """Send what is new in a value.

        Parameters
        ----------
        value : object
            The value as it is now.
        source : object, default=None
            What knows of some of the value's arrays what has changed: it has a `version` and
            ``changes_since(version, array)``, as statistics do. By default all are compared.

        Returns
        -------
        futures : list of Future
            From these :func:`edition` makes it.
        """
        futures, arrays, size, room = self._futures, self._arrays, self._size, self._room
        seen, wholes, last_kinds = self._seen, self._wholes, self._kinds
        self.forget()  # should anything end this
        text, new = taken_apart(value)
        told = [_told(source, *pair) for pair in zip_longest(seen, new)]
        kinds, change = [(array.shape, array.dtype) for array in new], None
        if kinds != last_kinds:
            arrays = [None] * len(new)
        else:
            # They are told in at least five bytes each.
            most = int(min(room, WORTH_IT * size)) // 5
            parts = _changes(arrays, new, told, most)
            if parts is not None:
                change = Parcel.of((text, parts))
                room -= change.nbytes
        if change is not None and room > 0 and change.nbytes < WORTH_IT * size:
            futures = [*futures, self.send(change)]
            pairs = zip(arrays, told, strict=True)
            arrays = [None if known is not None else array for array, known in pairs]
        else:
            whole = Whole(Parcel.of((text, new)))
            futures, wholes = [self.send(whole)], {}
            arrays = [
                None if _told(source, _noted(source, array), array) == [] else _copied(array, room)
                for array, room in zip(new, arrays, strict=True)
            ]
            size = whole.parcel.nbytes
            room = max(MOST_CHANGES * sum(array.nbytes for array in new), size)
        self._futures, self._arrays, self._size, self._room = futures, arrays, size, room
        self._wholes, self._kinds = wholes, kinds
        self._seen = [_noted(source, array) for array in new]
        return list(futures)

    def futures_at(self, place):
        """The futures of the last edition, of which the whole is one of the place's own.

        A cluster drops what several workers have got of one future, and with it what they have
        made of it, as soon as no task asks for it: between two batches.

        Parameters
        ----------
        place : hashable
            Where the futures are wanted.

        Returns
        -------
        futures : list of Future
            As of :meth:`futures`.
        """
        whole, *changes = self._futures
        if place not in self._wholes:
            self._wholes[place] = self.send_on(whole, place)
        return [self._wholes[place], *changes]


class Whole:
    """The first edition of a value, packed, and the last one that was read here.

    Parameters
    ----------
    parcel : Parcel
        The value taken apart: text, and arrays.
    """

    def __init__(self, parcel):
        self.parcel = parcel
        self._lock = Lock()
        self._last = None  # number, arrays and value of the last edition that was read here
        self._n_readers = 0  # of that

    @classmethod
    def of(cls, value):
        """Pack a value that is sent once."""
        return cls(Parcel.of(taken_apart(value)))

    def __reduce__(self):
        return Whole, (self.parcel,)

    def __sizeof__(self):
        return object.__sizeof__(self) + self.parcel.nbytes

    @contextmanager
    def edition(self, changes):
        """Make an edition, valid inside the context.

        Parameters
        ----------
        changes : list of Parcel
            All that it differs by, in order.

        Returns
        -------
        value : context manager
            Yields the value, which is not to be written to.
        """
        with self._lock:
            if self._last is None or self._last[0] > len(changes):
                self._last, self._n_readers = self._first(), 0
            if self._last[0] < len(changes):
                self._last, self._n_readers = self._changed(changes), 0
            last = self._last
            self._n_readers += 1
        try:
            yield last[2]
        finally:
            with self._lock:
                if last is self._last:
                    self._n_readers -= 1

    def _first(self):
        text, arrays = self.parcel.open()
        # Of memory of their own, since they are written to.
        arrays = [array if array.flags.writeable else array.copy() for array in arrays]
        return 0, arrays, put_together(text, arrays)

    def _changed(self, changes):
        """The last edition of some changes, in the memory of the one before if nobody reads it."""
        n_before, arrays, _ = self._last
        if self._n_readers:
            arrays = [array.copy() for array in arrays]
        self._last = None  # should anything end this
        for change in changes[n_before:]:
            text, parts = change.open()
            for array, changes_of in zip(arrays, parts, strict=True):
                _change(array, changes_of)
        return len(changes), arrays, put_together(text, arrays)


@contextmanager
def edition(parts):
    """Make a value of what was sent.

    Parameters
    ----------
    parts : list
        What the futures of :meth:`Editions.futures` are.

    Returns
    -------
    value : context manager
        Yields the value, which is not to be written to.
    """
    whole, *changes = parts
    with whole.edition(changes) as value:
        yield value


def _copied(array, room):
    """A copy of an array, in the memory of another of its kind, if any: new memory is slow."""
    if room is None:
        return array.copy()
    np.copyto(room, array)
    return room


def _noted(source, array):
    """That an array is seen with a version of what it was made from."""
    return None if source is None else (ref(source), ref(array), source.version)


def _told(source, seen, array):
    """What has changed of an array since it was seen in the last edition, if that is known."""
    if source is None or seen is None:
        return None
    source_seen, array_seen, version = seen
    if source_seen() is not source or array_seen() is not array:
        return None
    return source.changes_since(version, array)


def _changes(arrays, new, told, n_most):
    """By what arrays differ from new ones, if in no more places.

    Those that were compared become these, or anything; those of which it was told stay.
    """
    found = []
    for old, array, known in zip(arrays, new, told, strict=True):
        changes = known
        if known is None:
            if old is None or _differs_much(old.ravel(), array.ravel(), n_most):
                return None
            change = _change_of(old.ravel(), array.ravel(), n_most)
            if change is None:
                return None
            changes = [change]
        n_most -= sum(len(stepping) + len(places) for stepping, _, places, _ in changes)
        if n_most < 0:
            return None
        found.append(changes)
    return found


def _differs_much(old, new, n_most):
    """Whether a sample tells that a flat array differs in more places than is of use."""
    step = len(new) // SAMPLE | 1  # odd, or it would meet the same columns of a table
    return step * np.count_nonzero(other_bits(old[::step], new[::step])) > 1.1 * n_most


def _change_of(old, new, n_most):
    """By what a flat array differs from a new one, if in no more places.

    Sums to which numbers in single precision are added and taken away again differ by another such
    number, mostly: that is told, which is half as large.
    """

    def found(first):
        block = slice(first, first + BLOCK)
        if new.dtype != np.float64:
            return _values_changed(old[block], new[block], first, n_most)
        return kernels.take_changes(old[block], new[block], first, n_most)

    parts = []
    starts = list(range(0, len(new), BLOCK))
    for begin in range(0, len(starts), BLOCKS):  # or one that is new all over would be told whole
        parts += map_threads(found, starts[begin : begin + BLOCKS])
        n_held = sum(len(part[0]) + len(part[2]) for part in parts if part is not None)
        if None in parts or n_held > n_most:
            return None
    return [np.concatenate(part) for part in zip(*parts, strict=True)]


def _values_changed(old, new, first, n_most):
    """As the kernel for double precision, without steps."""
    where = np.flatnonzero(other_bits(old, new))
    if len(where) > n_most:
        return None
    old[where] = new[where]
    return np.empty(0, np.int64), np.empty(0, np.float32), first + where, new[where]


def _change(array, changes):
    """Change an array in place."""
    flat = array.reshape(-1)
    for stepping, steps, places, values in changes:
        if len(steps):
            kernels.add_steps(flat, stepping, steps)
        flat[places] = values
