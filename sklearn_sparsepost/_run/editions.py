"""Values that workers are sent again and again, each time a little changed: as what has changed.

The globals of memoized and online learning differ from batch to batch where the batch has words,
and nowhere else. So a worker is sent a value whole, and from then on the entries that are others.
All that was sent stays with the scheduler until it is sent whole again, so that a worker that is
new, or has lost what it knew, makes the same bits of it.
"""

from contextlib import contextmanager
from functools import partial
from threading import Lock

import numpy as np

from sklearn_sparsepost._run.shipping import Parcel, other_bits, put_together, taken_apart
from sklearn_sparsepost._run.threads import map_threads

# Changes are sent if they are smaller than this share of the whole, packed.
WORTH_IT = 0.5
# What all changes may weigh before a whole is sent anew, if more than itself: of its memory.
MOST_CHANGES = 0.5
# Entries that are compared at a time.
BLOCK = 1 << 20


class Editions:
    """A value that changes: what workers were sent of it.

    Parameters
    ----------
    send : callable
        ``send(value)`` returns a future of what is a task of its own.
    """

    def __init__(self, send):
        self.send = send
        self.forget()

    def forget(self):
        """Have the next edition be sent whole."""
        self._futures = []
        self._arrays = None  # of the last edition
        self._size, self._room = 0, 0  # of the last whole, and what changes since may weigh yet

    def futures(self, value):
        """Send what is new in a value.

        Parameters
        ----------
        value : object
            The value as it is now.

        Returns
        -------
        futures : list of Future
            From these :func:`edition` makes it.
        """
        futures, arrays, size, room = self._futures, self._arrays, self._size, self._room
        self.forget()  # should anything end this
        text, new = taken_apart(value)
        change = None
        if arrays is not None and [_kind(array) for array in arrays] == [_kind(a) for a in new]:
            places = [_places(*pair) for pair in zip(arrays, new, strict=True)]
            # They are told in at least five bytes each.
            n_places = sum(len(where) for blocks in places for where in blocks)
            if 5 * n_places < min(room, WORTH_IT * size):
                steps = zip(arrays, new, places, strict=True)
                change = Parcel.of((text, [_differences(*step) for step in steps]))
                room -= change.nbytes
        if change is not None and room > 0 and change.nbytes < WORTH_IT * size:
            futures = [*futures, self.send(change)]
        else:
            whole = Whole(Parcel.of((text, new)))
            futures, arrays = [self.send(whole)], [array.copy() for array in new]
            size = whole.parcel.nbytes
            room = max(MOST_CHANGES * sum(array.nbytes for array in new), size)
        self._futures, self._arrays, self._size, self._room = futures, arrays, size, room
        return list(futures)


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
            for array, part in zip(arrays, parts, strict=True):
                _change(array, *part)
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


def _kind(array):
    return array.shape, array.dtype


def _places(old, new):
    """Where two arrays differ, block by block."""
    old, new = old.ravel(), new.ravel()

    def found(first):
        block = slice(first, first + BLOCK)
        return first + np.flatnonzero(other_bits(old[block], new[block]))

    return map_threads(found, list(range(0, len(new), BLOCK)))


def _differences(old, new, places):
    """By what two arrays differ in some places, block by block; the old one becomes the new one."""
    old, new = old.ravel(), new.ravel()
    parts = map_threads(partial(_differences_at, old, new), places)
    return [np.concatenate(part) for part in zip(*parts, strict=True)]


def _differences_at(old, new, where):
    """By what two flat arrays differ in some places; the old one becomes the new one.

    Sums to which numbers in single precision are added and taken away again differ by another such
    number, mostly: that is looked at, bit by bit, and half as large.
    """
    values = new[where]
    is_step, steps = np.zeros(len(where), dtype=bool), np.empty(0, dtype=np.float32)
    if new.dtype == np.float64:
        with np.errstate(all="ignore"):
            steps = (values - old[where]).astype(np.float32)
            is_step = ~other_bits(old[where] + steps, values)
        steps = steps[is_step]
    old[where] = values
    return where[is_step], steps, where[~is_step], values[~is_step]


def _change(array, stepping, steps, others, values):
    flat = array.reshape(-1)
    if len(steps):
        flat[stepping] += steps
    flat[others] = values
