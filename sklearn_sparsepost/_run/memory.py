"""Memory that is used again: new pages cost more than what is written to them."""

import ctypes
import os
import threading
import weakref
from collections import deque
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from time import monotonic

import numpy as np

# Bytes of a table from which its pages are always new, and up to which they are kept for good.
LEAST_KEPT, MOST_KEPT = 2**22, 2**27
# Tables whose memory is kept at most, for good and for a while.
N_KEPT, N_KEPT_BRIEFLY = 2, 6
# New memory has a part more room than is asked for, so that it fits what grows: no page is behind
# it until it is written to.
SLACK = 4
# How long memory is kept that may not be asked for again.
KEPT_SECONDS = 20


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
        Its memory is kept for the next one once no view of it is left, up to `forget`; that of a
        very large one for a while.
    """
    n_bytes = 8 * int(np.prod(shape))
    if not LEAST_KEPT <= n_bytes <= MOST_KEPT:
        return recycled_briefly(shape, np.float64)
    try:
        block = _Left.blocks.pop()
    except IndexError:
        block = None
    return _table_over(block, shape, np.dtype(np.float64), _Left.blocks.append)


def _table_over(block, shape, dtype, leave):
    """A table in some memory if it fits, or else in new one, which is left in the end."""
    n_bytes = dtype.itemsize * int(np.prod(shape))
    if block is None or not _fits(block, n_bytes):
        block = np.empty(n_bytes + n_bytes // SLACK, dtype=np.uint8)
    # Over a memoryview: views of an array that has an array for its base would not hold it.
    entries = np.frombuffer(memoryview(block)[:n_bytes], dtype)
    weakref.finalize(entries, leave, block).atexit = False
    return entries.reshape(shape)


def _fits(block, n_bytes):
    return n_bytes <= block.nbytes <= 2 * n_bytes


def recycled_zeros(shape):
    """A table of zeros, where possible in memory that nobody holds any more."""
    table = recycled(shape)
    table.fill(0)
    return table


class _LeftBriefly:
    """Memory that large tables have left lately, with the time when, the newest last."""

    blocks = deque(maxlen=N_KEPT_BRIEFLY)
    watched = False  # whether a timer is to look after it


def _after_fork():
    """In the child: timers stayed behind."""
    _LeftBriefly.watched = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def recycled_briefly(shape, dtype):
    """A table with any contents and of any size, where possible in memory of a late such one.

    Parameters
    ----------
    shape : tuple of int
        Its shape.
    dtype : dtype
        Its type.

    Returns
    -------
    table : ndarray
        Once no view of it is left its memory is kept for the next one, for `KEPT_SECONDS` or so.
    """
    dtype = np.dtype(dtype)
    n_bytes = dtype.itemsize * int(np.prod(shape))
    if n_bytes < LEAST_KEPT:
        return np.empty(shape, dtype)
    fitting = None
    for left_at, block in _taken():
        if fitting is None and _fits(block, n_bytes):
            fitting = block
        else:
            _LeftBriefly.blocks.append((left_at, block))
    return _table_over(fitting, shape, dtype, _leave)


def _taken():
    """Take out what is there now, one after another, whoever else does the same."""
    for _ in range(len(_LeftBriefly.blocks)):
        try:
            yield _LeftBriefly.blocks.popleft()
        except IndexError:
            return


def _leave(block):
    # Without a lock: this may run inside any line of the code that would hold it.
    _LeftBriefly.blocks.append((monotonic(), block))
    if not _LeftBriefly.watched:
        _LeftBriefly.watched = True
        _look_later()


def _look_later():
    timer = threading.Timer(KEPT_SECONDS, _give_back)
    timer.daemon = True
    timer.start()


def _give_back():
    """Let go of what was left long ago, and look again later if there is more."""
    _LeftBriefly.watched = False
    for left_at, block in _taken():
        if monotonic() - left_at < KEPT_SECONDS:
            _LeftBriefly.blocks.append((left_at, block))
    if _LeftBriefly.blocks and not _LeftBriefly.watched:
        _LeftBriefly.watched = True
        _look_later()


def forget():
    """Give back all memory that is kept, and that of tables that are held once they are not."""
    _Left.blocks = deque(maxlen=N_KEPT)
    _LeftBriefly.blocks.clear()


# ---------------------------------------------------------------------- glibc's own

# Its parameters, and what they are where the environment sets some and not these.
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3
USUAL_THRESHOLD = 1 << 17
# Threads have heaps of so much: as room that is asked for, one that is empty is not given back.
HEAP_SIZE = 1 << 26
# What is kept at the top of a heap, that room included, and the largest block taken from one.
KEPT_TOP, LARGEST_BLOCK = (1 << 27) + HEAP_SIZE, 1 << 25
_KEPT = {
    M_TRIM_THRESHOLD: ("MALLOC_TRIM_THRESHOLD_", KEPT_TOP),
    M_TOP_PAD: ("MALLOC_TOP_PAD_", HEAP_SIZE),
    M_MMAP_THRESHOLD: ("MALLOC_MMAP_THRESHOLD_", LARGEST_BLOCK),
}
# Where the environment sets none, glibc raises two itself as large blocks go, up to these.
_RAISED = {M_TRIM_THRESHOLD: 2 * LARGEST_BLOCK, M_MMAP_THRESHOLD: LARGEST_BLOCK}


class _Allocator:
    """Counts who wants freed memory kept, since that is a matter of the whole process."""

    def __init__(self):
        self.lock = threading.Lock()
        self.holders = 0
        self.timer = None  # runs while there is none, up to the end

    @contextmanager
    def kept(self, library):
        """Keep what is freed until the last holder has left, and `KEPT_SECONDS` more."""
        with self.lock:
            if self.timer is not None:
                self.timer.cancel()
            elif not self.holders:
                for parameter, (_, value) in _KEPT.items():
                    library.mallopt(parameter, value)
            self.timer = None
            self.holders += 1
        try:
            yield
        finally:
            with self.lock:
                self.holders -= 1
                if not self.holders:
                    self.timer = threading.Timer(KEPT_SECONDS, self._end, (library,))
                    self.timer.daemon = True
                    self.timer.start()

    def _end(self, library):
        with self.lock:
            if self.timer is not threading.current_thread():
                return  # there is a holder again, or another timer
            self.timer = None
            for parameter, value in _as_before().items():
                library.mallopt(parameter, value)
            library.malloc_trim(0)


_ALLOCATOR = _Allocator()


@contextmanager
def freed_memory_kept(*, always=False):
    """Have the process keep inside what is freed, where its environment says to give it back.

    Dask has its workers do so (MALLOC_TRIM_THRESHOLD_), at every array that goes. What is kept is
    given back some time after the last task. Other processes, and those without glibc, are left
    alone, unless this is wanted `always`: by what gets large messages again and again.
    """
    wanted = always or "MALLOC_TRIM_THRESHOLD_" in _first_environment()
    library = ctypes.CDLL(None) if wanted and os.name == "posix" else None
    if library is None or not hasattr(library, "gnu_get_libc_version"):
        yield
        return
    with _ALLOCATOR.kept(library):
        yield


@cache
def _first_environment():
    """What the process was begun with, which is what glibc has read; nothing where none can say."""
    try:
        text = Path("/proc/self/environ").read_bytes()
    except OSError:
        return {}
    return dict(entry.split("=", 1) for entry in os.fsdecode(text).split("\0") if "=" in entry)


def _as_before():
    """What the parameters are without us, or come to in a process that frees large blocks."""
    told = {parameter: _number_of(name) for parameter, (name, _) in _KEPT.items()}
    raised = _RAISED if set(told.values()) == {None} else {}
    return {
        parameter: raised.get(parameter, USUAL_THRESHOLD) if value is None else value
        for parameter, value in told.items()
    }


def _number_of(name):
    """What the environment says of a parameter, if it does."""
    value = _first_environment().get(name, "")
    return int(value) if value.isdecimal() else None
