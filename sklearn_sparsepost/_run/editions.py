"""Values that workers are sent again and again, each time a little changed: as what has changed.

The globals of memoized and online learning differ from batch to batch where the batch has words,
and nowhere else. So a worker is sent a value whole, and from then on the entries that are others.
What all have been sent is let go with the next change, or memory would grow with every batch. A
worker that is new, or has lost what it knew, says so, and the value is sent whole again.
"""

from contextlib import contextmanager
from itertools import zip_longest
from threading import Lock
from typing import NamedTuple
from weakref import ref

import numpy as np

from sklearn_sparsepost._kernels import _changes as kernels
from sklearn_sparsepost._run.kept import MOST_LOST, NotThere
from sklearn_sparsepost._run.shipping import Parcel, other_bits, put_together, taken_apart
from sklearn_sparsepost._run.threads import map_threads

# Changes are sent if they are smaller than this share of the whole, packed.
WORTH_IT = 0.9
# What changes that are held may weigh, if more than the whole: of its memory.
MOST_CHANGES = 0.5
# Entries that are compared at a time, and how many times until what was found is counted.
BLOCK, BLOCKS = 1 << 20, 8
# Entries that are compared first: where many of them differ, no others are looked at.
SAMPLE = 1 << 12


class EditionLost(NotThere):
    """A worker does not have the edition that the changes which it was sent are of."""


class _Held(NamedTuple):
    """A change that is held: the number of the edition it makes, its size, and the future."""

    number: int
    nbytes: int
    future: object


class _Sent:
    """What was sent of a value since it was sent whole."""

    def __init__(self):
        self.whole = None  # its future
        self.wholes = {}  # futures of it, by the place where they are
        self.held = []  # changes since
        self.number = 0  # of the last edition; the whole is 0
        self.given = {}  # the last edition that each of these places was given
        self.kinds = None  # shapes and types of the value's arrays
        self.arrays = []  # copies of them, None of those whose changes are told
        self.seen = []  # references to the source and the arrays it was made of, and the version
        self.size, self.most = 0, 0  # of the whole, and what changes that are held may weigh

    @property
    def room(self):
        """What changes may weigh besides those that are held."""
        return self.most - sum(change.nbytes for change in self.held)

    def let_go(self):
        """Let go of changes that all places have been given."""
        last = min(self.given.values(), default=0)
        self.held = [change for change in self.held if change.number > last]

    def after(self, whole):
        """A future of the whole, and those of the changes that are held."""
        return [whole, *(change.future for change in self.held)]


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
        self._n_lost = 0
        self._sent = _Sent()

    def forget(self):
        """Have the next edition be sent whole."""
        self._sent = _Sent()

    def lost(self):
        """Have the next edition be sent whole, since a worker lacked the one before."""
        self._n_lost += 1
        self.forget()

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
        sent = self._sent
        self.forget()  # should anything end this
        text, new = taken_apart(value)
        told = [_told(source, *pair) for pair in zip_longest(sent.seen, new)]
        kinds, change = [(array.shape, array.dtype) for array in new], None
        if self._n_lost < MOST_LOST:
            sent.let_go()
        room = min(sent.room, WORTH_IT * sent.size)
        if kinds != sent.kinds:
            sent.arrays = [None] * len(new)
        else:
            # They are told in at least five bytes each.
            parts = _changes(sent.arrays, new, told, int(room) // 5)
            if parts is not None:
                change = Change(sent.number + 1, Parcel.of((text, parts)))
        if change is not None and change.nbytes < room:
            sent.number += 1
            sent.held.append(_Held(sent.number, change.nbytes, self.send(change)))
            pairs = zip(sent.arrays, told, strict=True)
            sent.arrays = [None if known is not None else array for array, known in pairs]
        else:
            whole, arrays, sent = Whole(Parcel.of((text, new))), sent.arrays, _Sent()
            sent.whole, sent.size, sent.kinds = self.send(whole), whole.parcel.nbytes, kinds
            sent.most = max(MOST_CHANGES * sum(array.nbytes for array in new), sent.size)
            sent.arrays = [
                None if _told(source, _noted(source, array), array) == [] else _copied(array, old)
                for array, old in zip(new, arrays, strict=True)
            ]
        sent.seen = [_noted(source, array) for array in new]
        self._sent = sent
        return sent.after(sent.whole)

    def futures_at(self, place):
        """The futures of the last edition, of which the whole is one of the place's own.

        A cluster drops what several workers have got of one future, and with it what they have
        made of it, as soon as no task asks for it: between two batches.

        Parameters
        ----------
        place : hashable
            Where the futures are wanted, and what is sent now will be known.

        Returns
        -------
        futures : list of Future
            As of :meth:`futures`.
        """
        sent = self._sent
        if place not in sent.wholes:
            sent.wholes[place] = self.send_on(sent.whole, place)
        sent.given[place] = sent.number
        return sent.after(sent.wholes[place])


class Change:
    """By what an edition of a value differs from the one before.

    Parameters
    ----------
    number : int
        Of the edition.
    parcel : Parcel
        The change, packed.
    """

    def __init__(self, number, parcel):
        self.number = number
        self.parcel = parcel

    @property
    def nbytes(self):
        """Memory in bytes."""
        return self.parcel.nbytes

    def __sizeof__(self):
        return object.__sizeof__(self) + self.nbytes


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
        changes : list of Change
            All that it differs by, in order, or the last ones of these.

        Returns
        -------
        value : context manager
            Yields the value, which is not to be written to.

        Raises
        ------
        EditionLost
            If the edition that these changes are of was not the last one that was read here.
        """
        number = changes[-1].number if changes else 0
        with self._lock:
            goes_on = self._last is not None and self._last[0] <= number
            before = self._last[0] if goes_on else 0
            changes = [change for change in changes if change.number > before]
            if changes and changes[0].number > before + 1:
                raise EditionLost(f"number {changes[0].number - 1}: the last one here is {before}")
            if not goes_on:
                self._last, self._n_readers = self._first(), 0
            if changes:
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
        _, arrays, _ = self._last
        if self._n_readers:
            arrays = [array.copy() for array in arrays]
        self._last = None  # should anything end this
        for change in changes:
            text, parts = change.parcel.open()
            for array, changes_of in zip(arrays, parts, strict=True):
                _change(array, changes_of)
        return changes[-1].number, arrays, put_together(text, arrays)


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
