"""What travels between processes of a cluster, smaller where that loses no bit.

Counts of features in components are mostly one number a column, numbers of components are a little
above the one before or fit in two bytes, sums of squares are symmetric, and their factors
triangular: these are sent so, and made anew where they arrive.
"""

import pickle
from io import BytesIO

import numpy as np

from sklearn_sparsepost._kernels import _shipping as kernels
from sklearn_sparsepost._run.memory import recycled_briefly
from sklearn_sparsepost._run.threads import map_threads

# Entries from which an array is worth the look.
WORTH_IT = 1 << 12
# A step between integers from which on, or if it is none, the integer itself is told.
LONG_STEP = 255
# Rows of a table that are looked at at a time: a multiple of 8, so that their bits fill bytes.
ROWS = 256


class Shipped:
    """A value that is packed when it is pickled, and unpacked once where it arrives.

    Parameters
    ----------
    value : object
        Whatever cloudpickle takes.
    """

    def __init__(self, value):
        self.value = value

    def __sizeof__(self):
        # Dask asks, to tell where it costs least to bring values together.
        return object.__sizeof__(self) + self.value.__sizeof__()

    def __reduce_ex__(self, protocol):
        text, buffers = packed(self.value)
        if protocol < 5:  # which does not know of memory apart
            buffers = [buffer.raw().tobytes() for buffer in buffers]
        return _unpacked, (text, buffers)


class Parcel:
    """A value that is packed, stays so where it arrives, and is opened where it is wanted.

    Parameters
    ----------
    text : bytes
        From :func:`packed`.
    buffers : list
        From there, too: anything that has memory.
    """

    def __init__(self, text, buffers):
        self.text = text
        self.buffers = buffers

    @classmethod
    def of(cls, value):
        """Pack a value, which may be written to from now on."""
        return cls(*packed(value, apart=True))

    @property
    def nbytes(self):
        """Memory in bytes."""
        return len(self.text) + sum(memoryview(part).nbytes for part in self.buffers)

    def open(self):
        """The value; those of its arrays are read only that are as they were sent."""
        buffers = [memoryview(part).toreadonly() for part in self.buffers]
        return pickle.loads(self.text, buffers=buffers)

    def __sizeof__(self):
        return object.__sizeof__(self) + self.nbytes

    def __reduce_ex__(self, protocol):
        if protocol >= 5:
            # Views of views that are garbage together bring Python's collector down, as of 3.11.
            arrays = [np.frombuffer(part, np.uint8) for part in self.buffers]
            buffers = [pickle.PickleBuffer(array) for array in arrays]
        else:
            buffers = [bytes(part) for part in self.buffers]
        return Parcel, (self.text, buffers)


def taken_apart(value):
    """Pickle a value without its larger arrays.

    Parameters
    ----------
    value : object
        Whatever cloudpickle takes.

    Returns
    -------
    text : bytes
        The pickle, in which these have numbers.
    arrays : list of ndarray
        They themselves.
    """
    from cloudpickle import CloudPickler

    numbers, arrays = {}, []

    class Parter(CloudPickler):
        """Puts arrays aside."""

        def reducer_override(self, obj):
            found = _reduced(obj)
            return super().reducer_override(obj) if found is None else found

        def persistent_id(self, obj):
            if not _is_large(obj):
                return None
            if id(obj) not in numbers:
                numbers[id(obj)] = len(arrays)
                arrays.append(obj)
            return numbers[id(obj)]

    text = BytesIO()
    Parter(text, protocol=5).dump(value)
    return text.getvalue(), arrays


def put_together(text, arrays):
    """Make a value of what :func:`taken_apart` returns."""
    joiner = pickle.Unpickler(BytesIO(text))
    joiner.persistent_load = arrays.__getitem__
    return joiner.load()


def _reduced(obj):
    """What an object says that is enough to send, if it does."""
    reduce = getattr(type(obj), "reduced_to_ship", None)
    return None if reduce is None else reduce(obj)


def _is_large(obj):
    """Whether something is an array of numbers that is worth the look."""
    if type(obj) is not np.ndarray or obj.size < WORTH_IT or not obj.flags.c_contiguous:
        return False
    return obj.dtype.kind in "biuf" and obj.dtype.itemsize <= 8


def packed(value, *, apart=False):
    """Pickle a value, its arrays as small as they can be made.

    Parameters
    ----------
    value : object
        Whatever cloudpickle takes.
    apart : bool, default=False
        Whether no memory of the value's own is returned, but copies.

    Returns
    -------
    text : bytes
        The pickle, without the memory of its arrays.
    buffers : list of PickleBuffer, ndarray or bytes
        That memory.
    """
    from cloudpickle import CloudPickler  # as Dask has it

    made = {}  # arrays that nobody else has, by their ids

    class Packer(CloudPickler):
        """Has the say before cloudpickle, for arrays."""

        def reducer_override(self, obj):
            if _is_large(obj):
                found = _packed_array(obj)
                if found is not None:
                    made.update((id(part), part) for part in found[1])
                    return found
            found = _reduced(obj)
            return super().reducer_override(obj) if found is None else found

    text, buffers = BytesIO(), []
    Packer(text, protocol=5, buffer_callback=buffers.append).dump(value)
    if apart:
        views = [part.raw() for part in buffers]
        buffers = [made.get(id(view.obj), view) for view in views]
        buffers = [part.tobytes() if isinstance(part, memoryview) else part for part in buffers]
    return text.getvalue(), buffers


def _unpacked(text, buffers):
    # Statistics are added to in place.
    buffers = [bytearray(part) if memoryview(part).readonly else part for part in buffers]
    return Shipped(pickle.loads(text, buffers=buffers))


def _packed_array(array):
    """How to make a smaller array and this one from it again, if there is a way."""
    if array.ndim == 1 and array.dtype.kind == "i" and array.min() >= 0:
        return _packed_integers(array)
    if array.dtype not in (np.float32, np.float64):
        return None
    if array.ndim == 2:
        return _packed_table(array)
    if array.ndim == 3 and array.shape[1] == array.shape[2]:
        return _packed_squares(array)
    return None


def _packed_integers(array):
    """Steps from each to the next, if most are short, or in as few bytes as they need."""
    narrow = np.min_scalar_type(array.max())
    whole = array if array.dtype.itemsize >= 4 else array.astype(np.int32)
    steps, told = kernels.pack_steps(whole, LONG_STEP)
    if len(array) + len(told) * narrow.itemsize < len(array) * narrow.itemsize:
        return _stepped, (steps, told.astype(narrow), array.dtype)
    if narrow.itemsize < array.dtype.itemsize:
        return np.ndarray.astype, (array.astype(narrow), array.dtype)
    return None


def _stepped(steps, told, dtype):
    """Integers from steps, those after long ones told."""
    whole = np.result_type(dtype, np.int32)
    found = kernels.unpack_steps(steps, told.astype(whole), LONG_STEP)
    return found.astype(dtype, copy=False)


def _packed_squares(array):
    """Half of square matrices, if their other half is the same or nothing."""
    halves, kind = kernels.half_of_squares(_bits(array))
    return None if halves is None else (_squares, (halves, kind, array.shape[1], array.dtype))


def _bits(array):
    """The same memory as integers, among which no two are equal but different, as zeros are."""
    return array.view(f"u{array.dtype.itemsize}")


def other_bits(one, other):
    """Where two arrays of numbers have not the same bits: among zeros there are others."""
    return _bits(one) != _bits(other)


def _packed_table(table):
    """What most entries of each column are, where others are, and these, if they are few.

    Most of a sparse table are the least of their column, as some rows tell.
    """
    bits, base = _bits(table), table[:: len(table) // ROWS + 1].min(axis=0)
    eightfold = np.tile(_bits(base), 8)

    def others(rows):
        differs, values = np.empty(-(-rows.size // 8), np.uint8), np.empty(rows.size, rows.dtype)
        n_values = kernels.take_others(rows, eightfold, differs, values)
        return differs, values[:n_values].copy()

    spans = [bits[first : first + ROWS] for first in range(0, len(bits), ROWS)]
    differs, values = zip(*map_threads(others, spans), strict=True)
    if 2 * sum(map(len, values)) > table.size:
        return None
    return _table, (base, np.concatenate(differs), np.concatenate(values), len(table))


def _table(base, differs, values, n_rows):
    table = recycled_briefly((n_rows, len(base)), base.dtype)
    kernels.place_others(_bits(base), differs, values, _bits(table))
    return table


def _squares(halves, kind, size, dtype):
    found = np.empty((len(halves), size, size), dtype)
    kernels.squares_of_half(halves, kind, _bits(found))
    return found
