"""joblib's own processes: one that dies while it sends a result is noticed.

The thread of joblib that reads results has begun to read one then, and would wait forever for the
rest of it: the other processes wait for the dead one's turn to end, and the pipe stays open.
"""

import os
import signal
import threading
from contextlib import contextmanager, suppress
from multiprocessing.connection import wait

# Seconds between two looks at the processes.
LOOK_EVERY = 0.25
# Looks at a dead process, with no result between them, before joblib is taken to wait for it: it
# notices in milliseconds else. Looks and no seconds, since this process may be stopped for a while.
PATIENCE = 8


@contextmanager
def deaths_noticed(parallel):
    """Have joblib notice, while the context is entered, each of its processes that dies.

    A thread looks at them now and then, if there are any. Where joblib waits for a dead one, it
    ends the others and closes the pipe of results, so that joblib raises its own error and starts
    new ones for the next call.

    Parameters
    ----------
    parallel : joblib.Parallel
        Entered; of any backend.
    """
    ended = threading.Event()
    watcher = None
    try:
        executor = _executor_of(parallel)
        if executor is not None:
            args = executor, executor._result_queue._writer, ended
            watcher = threading.Thread(
                target=_watch, args=args, name="sparsepost-watcher", daemon=True
            )
            watcher.start()
        yield
    finally:
        ended.set()
        if watcher is not None and watcher.ident is not None:
            watcher.join()


def _executor_of(parallel):
    """What runs the calls of joblib's own processes; None if others do, or if it is not known."""
    if not hasattr(signal, "SIGKILL"):  # Windows, where messages are sent whole or not at all
        return None
    executor = getattr(getattr(parallel, "_backend", None), "_workers", None)
    try:
        flags, pipe = executor._flags, executor._result_queue._writer
        flags.broken, flags.shutdown_lock.acquire, pipe.close, _n_results(executor)
        _by_life(executor)
    except (AttributeError, TypeError):  # another backend, or another joblib
        return None
    return executor


def _n_results(executor):
    """The number of calls that are no longer waited for."""
    return executor._queue_count - len(executor._pending_work_items)


def _by_life(executor):
    """The ids of the processes that should be there: of those that live, and of the dead."""
    # One that ends as it should, after a while without work, is taken out before it does.
    found = list(executor._processes.items())
    dead = wait([process.sentinel for _, process in found], timeout=0)
    ids = [], []
    for pid, process in found:
        ids[process.sentinel in dead].append(pid)
    return ids


def _watch(executor, pipe, ended):
    """Look at an executor until a call has ended; end what waits for a dead process.

    The pipe of results comes to its end as soon as nobody can write to it: all its processes can,
    and so can this one.
    """
    flags = executor._flags
    n_before, n_looks = None, 0
    while n_looks < PATIENCE:
        if ended.wait(LOOK_EVERY):
            return
        n_results = _n_results(executor)
        waits = flags.broken is None and _by_life(executor)[1]
        n_looks = n_looks + 1 if waits and n_results == n_before else 0
        n_before = n_results
    for pid in _by_life(executor)[0]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    ended.wait(LOOK_EVERY)
    # joblib closes the pipe itself if it was only late, after it has taken this lock to say so.
    with flags.shutdown_lock:
        if flags.broken is None:
            pipe.close()
