"""Threads: how many there may be, here and now, and BLAS on one of them."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache, partial

from joblib import cpu_count, effective_n_jobs
from threadpoolctl import ThreadpoolController

from sklearn_sparsepost._kernels._cpu import max_threads

# Work below this is done before a second thread is awake.
SMALL_WORK = 1 << 21
# Components that a worker takes at a time.
SLICE = 32


class _Process:
    """What is known of this process."""

    forked = False  # from one that may have used OpenMP


def _after_fork():
    """In the child: OpenMP's threads stayed behind, and who waits for them waits forever."""
    _Process.forked = True
    _BLAS.__init__()  # nobody here holds its lock


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def most_threads():
    """Threads that this process may use: OMP_NUM_THREADS, or one a core; one if it was forked."""
    if _Process.forked:
        return 1
    if os.environ.get("OMP_NUM_THREADS"):
        return max_threads()
    held = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()
    return min(max_threads(), _n_cores(frozenset(held), os.environ.get("LOKY_MAX_CPU_COUNT")))


@lru_cache(maxsize=1)
def _n_cores(affinity, limit):
    """Cores that joblib counts, which reads files to do so, until what is given changes."""
    return cpu_count()


def local_threads(n_jobs=None):
    """Threads of what runs in this process: as many as `n_jobs` says, and all if it says nothing.

    Parameters
    ----------
    n_jobs : int, default=None
        The estimator's parameter; None is what `joblib.parallel_config` says, if anything.

    Returns
    -------
    n_threads : int
        At least 1, and no more than :func:`most_threads`.
    """
    wanted = effective_n_jobs(n_jobs)
    return most_threads() if n_jobs is None and wanted == 1 else min(wanted, most_threads())


def share_cores(n_jobs, n_chunks, threaded):
    """How many workers take chunks, and how many threads each has.

    Parameters
    ----------
    n_jobs : int or None
        The estimator's parameter.
    n_chunks : int
        How many chunks there are.
    threaded : bool
        Whether kernels use threads of their own inside a chunk.

    Returns
    -------
    n_workers, n_threads : int
        Their product is no more than what `n_jobs` says.
    """
    n_cores = effective_n_jobs(n_jobs)
    if n_jobs is None and n_cores == 1:  # nobody has said anything: all cores of this machine
        n_cores = most_threads()
        if threaded:
            return 1, n_cores
    n_workers = max(1, min(n_cores, n_chunks))
    return n_workers, n_cores // n_workers


class _SingleBlas:
    """Counts who wants BLAS on one thread, since its limit belongs to the whole process."""

    def __init__(self):
        self.lock = threading.Lock()
        self.holders = 0
        self.controller = self.limit = None

    @contextmanager
    def held(self):
        """BLAS on one thread, in this process, until the last holder has left."""
        with self.lock:
            if not self.holders:
                self.controller = self.controller or ThreadpoolController()
                with self._obeyed():
                    # What scikit-learn computes for us may use OpenMP, too.
                    api = None if _Process.forked else "blas"
                    self.limit = self.controller.limit(limits=1, user_api=api)
            self.holders += 1
        try:
            yield
        finally:
            with self.lock:
                self.holders -= 1
                if not self.holders:
                    with self._obeyed():
                        self.limit.restore_original_limits()

    @contextmanager
    def _obeyed(self):
        """Have threadpoolctl set limits from any thread: since 3.8 the first one alone may."""
        self._forget_thread()
        try:
            yield
        finally:
            self._forget_thread()

    def _forget_thread(self):
        for library in self.controller.lib_controllers:
            if hasattr(library, "clear_controlling_thread"):
                library.clear_controlling_thread(force=True)


_BLAS = _SingleBlas()


def single_blas():
    """A context in which BLAS has one thread: its sums then have the same bits everywhere."""
    return _BLAS.held()


class _Settled(threading.local):
    """What is settled in a thread, the innermost last."""

    def __init__(self):
        self.held = []


_SETTLED = _Settled()


def _settled():
    """How many threads are settled here, or all."""
    return _SETTLED.held[-1] if _SETTLED.held else most_threads()


@contextmanager
def settled_threads(n_threads):
    """Have what is done inside use so many threads, and no more than this process may.

    Parameters
    ----------
    n_threads : int
        How many.
    """
    depth = len(_SETTLED.held)
    try:
        _SETTLED.held.append(min(n_threads, most_threads()))
        yield
    finally:
        del _SETTLED.held[depth:]


@contextmanager
def settled_as_before():
    """Have nothing settled in the end that was not before, wherever an interrupt strikes inside."""
    depth = len(_SETTLED.held)
    try:
        yield
    finally:
        del _SETTLED.held[depth:]


def threads_for(work):
    """All threads that are settled, or one if the work is not worth waking them.

    Parameters
    ----------
    work : float
        In multiplications or so.

    Returns
    -------
    n_threads : int
        At least 1.
    """
    if work <= SMALL_WORK:
        return 1
    return _settled()


def map_slices(function, n):
    """Call ``function(slice)`` on slices that cover range(n), results in order.

    Parameters
    ----------
    function : callable
        Releases the GIL for most of its time.
    n : int
        How many there are.

    Returns
    -------
    results : list
        What `function` returned. The slices do not depend on the number of threads.
    """
    slices = [slice(first, first + SLICE) for first in range(0, n, SLICE)]
    return map_threads(function, slices)


def map_threads(function, items):
    """Call ``function(item)`` on each item, results in order.

    Parameters
    ----------
    function : callable
        Releases the GIL for most of its time; one thread is settled inside.
    items : list
        What it is called on.

    Returns
    -------
    results : list
        What `function` returned.
    """
    n_threads = min(_settled(), len(items))
    if n_threads <= 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(partial(_alone, function), items))


def _alone(function, item):
    """What is done on a thread of several."""
    with settled_threads(1):
        return function(item)
