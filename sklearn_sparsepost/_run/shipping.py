"""What travels between processes of a cluster, smaller where that loses no bit.

Counts of features in components are mostly one number a column, numbers of components fit in two
bytes, sums of squares are symmetric, and their factors triangular: these are sent so, and made anew
where they arrive.
"""

import pickle
from io import BytesIO

import numpy as np

# Entries from which an array is worth the look.
WORTH_IT = 1 << 12


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


def packed(value):
    """Pickle a value, its arrays as small as they can be made.

    Parameters
    ----------
    value : object
        Whatever cloudpickle takes.

    Returns
    -------
    text : bytes
        The pickle, without the memory of its arrays.
    buffers : list of PickleBuffer
        That memory.
    """
    from cloudpickle import CloudPickler  # as Dask has it

    class Packer(CloudPickler):
        """Has the say before cloudpickle, for arrays."""

        def reducer_override(self, obj):
            if type(obj) is np.ndarray and obj.size >= WORTH_IT and obj.flags.c_contiguous:
                found = _packed_array(obj)
                if found is not None:
                    return found
            return super().reducer_override(obj)

    text, buffers = BytesIO(), []
    Packer(text, protocol=5, buffer_callback=buffers.append).dump(value)
    return text.getvalue(), buffers


def _unpacked(text, buffers):
    # Statistics are added to in place.
    buffers = [bytearray(part) if memoryview(part).readonly else part for part in buffers]
    return Shipped(pickle.loads(text, buffers=buffers))


def _packed_array(array):
    """How to make a smaller array and this one from it again, if there is a way."""
    if array.ndim == 1 and array.dtype.kind == "i":
        narrow = np.min_scalar_type(array.max())
        if array.min() >= 0 and narrow.itemsize < array.dtype.itemsize:
            return np.ndarray.astype, (array.astype(narrow), array.dtype)
    if array.dtype not in (np.float32, np.float64):
        return None
    if array.ndim == 2:
        return _packed_table(array)
    if array.ndim == 3 and array.shape[1] == array.shape[2]:
        return _packed_squares(array)
    return None


def _packed_squares(array):
    """Half of square matrices, if their other half is the same or nothing."""
    rows, columns = np.tril_indices(array.shape[1], -1)
    bits = _bits(array)
    lower, upper = bits[:, rows, columns], bits[:, columns, rows]
    halves = array[:, *np.tril_indices(array.shape[1])]
    if (lower == upper).all():
        return _squares, (halves, array.shape[1], True)
    if not upper.any():
        return _squares, (halves, array.shape[1], False)
    if not lower.any():
        halves = array[:, *np.tril_indices(array.shape[1])[::-1]]
        return _transposed, (halves, array.shape[1])
    return None


def _bits(array):
    """The same memory as integers, among which no two are equal but different, as zeros are."""
    return array.view(f"i{array.dtype.itemsize}")


def _packed_table(table):
    """The least of each column, where others are, and these, if they are few."""
    base = table.min(axis=0)
    differs = _bits(table) != _bits(base)
    if 2 * np.count_nonzero(differs) > table.size:
        return None
    return _table, (base, np.packbits(differs), table[differs], len(table))


def _table(base, differs, values, n_rows):
    table = np.empty((n_rows, len(base)), base.dtype)
    table[...] = base
    differs = np.unpackbits(differs, count=table.size).view(bool)
    table[differs.reshape(table.shape)] = values
    return table


def _squares(halves, size, symmetric):
    rows, columns = np.tril_indices(size)
    found = np.zeros((len(halves), size, size), halves.dtype)
    found[:, rows, columns] = halves
    if symmetric:
        found[:, columns, rows] = halves
    return found


def _transposed(halves, size):
    rows, columns = np.tril_indices(size)
    found = np.zeros((len(halves), size, size), halves.dtype)
    found[:, columns, rows] = halves
    return found
