"""Memory of large tables that is used again: new pages cost more than what is written to them."""

import weakref
from collections import deque

import numpy as np

# Bytes of a table from which its pages are always new, and up to which they are kept.
LEAST_KEPT, MOST_KEPT = 2**22, 2**27
# Tables whose memory is kept at most.
N_KEPT = 2


class _Left:
    """Memory that tables have left, the newest last."""

    blocks = deque(maxlen=N_KEPT)


def recycled(shape):
    """A table with any contents, where possible in memory that nobody holds any more.

    Parameters
    ----------
    shape : tuple of int
        Its shape.

    Returns
    -------
    table : ndarray, float64
        Its memory is kept for the next one once no view of it is left, up to `forget`.
    """
    n_bytes = 8 * int(np.prod(shape))
    if not LEAST_KEPT <= n_bytes <= MOST_KEPT:
        return np.empty(shape)
    try:
        block = _Left.blocks.pop()
    except IndexError:
        block = None
    if block is None or not n_bytes <= block.nbytes <= 2 * n_bytes:
        block = np.empty(n_bytes, dtype=np.uint8)
    # Over a memoryview: views of an array that has an array for its base would not hold it.
    entries = np.frombuffer(memoryview(block)[:n_bytes], np.float64)
    weakref.finalize(entries, _Left.blocks.append, block).atexit = False
    return entries.reshape(shape)


def recycled_zeros(shape):
    """A table of zeros, where possible in memory that nobody holds any more."""
    table = recycled(shape)
    table[...] = 0
    return table


def forget():
    """Give back all memory that is kept, and that of tables that are held once they are not."""
    _Left.blocks = deque(maxlen=N_KEPT)
