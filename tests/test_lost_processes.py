"""A process of joblib's that dies in the middle of a result is noticed, and no other is ended."""

import multiprocessing
import os
import signal
import struct
import threading
import time
from contextlib import suppress
from functools import partial
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from joblib import Parallel, delayed
from joblib.externals.loky import reusable_executor
from sklearn.base import clone
from test_failures import COUNTS, N_PASSES, NO_SIGKILL, POINTS

from sklearn_sparsepost import SparseLDA, SparseMixture
from sklearn_sparsepost._models.admixture import Admixture
from sklearn_sparsepost._models.mixture import Mixture
from sklearn_sparsepost._run import processes
from sklearn_sparsepost._run.processes import deaths_noticed


def send_half(self, buffer):
    """Of a connection: write half of a message, and die."""
    message = struct.pack("!i", len(buffer)) + bytes(buffer)
    os.write(self.fileno(), message[: len(message) // 2])
    os.kill(os.getpid(), signal.SIGKILL)


def dies_sending(deadly, step):
    """A step; the worker that finds the file, and takes it away, dies as it sends the result."""

    def once(*args, **kwargs):
        if multiprocessing.current_process().name != "MainProcess":
            with suppress(FileNotFoundError):
                os.rename(deadly, deadly + ".found")
                from multiprocessing.connection import Connection

                Connection._send_bytes = send_half
        return step(*args, **kwargs)

    return staticmethod(once)


class Poison:
    """A callback that makes a file after the second pass."""

    def __init__(self, path):
        self.path = path

    def setup(self, estimator, context):
        pass

    teardown = on_fit_task_begin = setup

    def on_fit_task_end(self, estimator, context):
        if context.task_name == "pass" and context.task_id == 1:
            self.path.touch()


@pytest.fixture
def in_time():
    """Frees what waits forever, after a minute, and fails for it."""
    hung, ended = [], threading.Event()

    def free():
        # Seconds in which this process runs: it may be stopped for longer.
        if any(ended.wait(1) for _ in range(60)):
            return
        hung.append(executor := reusable_executor._executor)
        for pid in list(executor._processes):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        executor._result_queue._writer.close()

    thread = threading.Thread(target=free)
    thread.start()
    yield
    ended.set()
    thread.join()
    assert not hung


def watchers():
    return [thread for thread in threading.enumerate() if thread.name == "sparsepost-watcher"]


def in_a_minute(call):
    return any(call() or time.sleep(0.01) for _ in range(6000))


def fitted(estimator):
    return {
        name: np.asarray(value).tobytes()
        for name, value in vars(estimator).items()
        if name.endswith("_") and not name.startswith("_")
    }


@NO_SIGKILL
@pytest.mark.parametrize("kind", ["topics", "mixture"])
def test_a_process_may_die_while_it_sends(kind, in_time, tmp_path, monkeypatch):
    deadly = tmp_path / "deadly"
    monkeypatch.setattr("sklearn_sparsepost._run.chunks.CHUNK_SIZE", 100)
    monkeypatch.setattr("sklearn_sparsepost._run.chunks.DENSE_CHUNK_SIZE", 100)
    monkeypatch.setattr("sklearn_sparsepost._run.chunks.DENSE_CHUNK_ROWS", 20)
    monkeypatch.setattr(processes, "LOOK_EVERY", 0.05)
    options = {"max_iter": N_PASSES, "tol": 0, "n_batches": 3, "random_state": 0, "n_jobs": 1}
    if kind == "topics":
        estimator, X, model = SparseLDA(5, **options), COUNTS, Admixture
    else:
        estimator, X, model = SparseMixture(6, **options), POINTS, Mixture
    whole = fitted(clone(estimator).fit(X))
    monkeypatch.setattr(model, "local_step", dies_sending(str(deadly), model.local_step))
    estimator.set_params(n_jobs=2).set_callbacks(Poison(deadly))
    died = pytest.raises(RuntimeError, match="a worker process died, .* warm_start=True goes on")
    with joblib.parallel_config(backend="loky"):
        with died as told:
            estimator.fit(X)
        assert "BrokenProcessPool" in type(told.value.__cause__).__name__
        assert (tmp_path / "deadly.found").exists() and estimator.n_iter_ == 2
        assert not watchers()
        # New processes go on.
        estimator.set_callbacks().set_params(max_iter=1, warm_start=True).fit(X)
        assert fitted(estimator) == whole
        assert fitted(estimator.set_params(max_iter=N_PASSES, warm_start=False).fit(X)) == whole
    assert not watchers()


def nap(seconds):
    time.sleep(seconds)
    return os.getpid()


@NO_SIGKILL
def test_slow_processes_are_left_alone(monkeypatch):
    monkeypatch.setattr(processes, "LOOK_EVERY", 0.01)
    with Parallel(n_jobs=2, backend="loky") as parallel:
        ids = set(parallel(delayed(nap)(0.2) for _ in range(4)))
        with deaths_noticed(parallel):
            assert len(watchers()) == 1
            assert set(parallel(delayed(nap)(0.5) for _ in range(4))) == ids
        assert not watchers()


def test_a_call_that_fails_leaves_no_watcher():
    fails = pytest.raises(ZeroDivisionError)
    with fails, Parallel(n_jobs=2, backend="loky") as parallel, deaths_noticed(parallel):
        parallel(delayed(partial(divmod, 1))(0) for _ in range(4))
    assert not watchers()


class Bereft:
    """Like joblib's executor, of two processes, one of them dead: what comes after that?"""

    def __init__(self, comes):
        self.comes, self.killed, self.closed = comes, [], []
        self._flags = SimpleNamespace(broken=None, shutdown_lock=threading.Lock())
        pipe = SimpleNamespace(close=lambda: self.closed.append(self._flags.shutdown_lock.locked()))
        self._result_queue = SimpleNamespace(_writer=pipe)
        self._pending_work_items = {}
        self._looks = 0
        # A pipe whose other end is closed can be read, as the sentinel of a process that is dead.
        living, self.held = multiprocessing.Pipe()
        dead, other = multiprocessing.Pipe()
        other.close()
        ends = {11: living, 12: dead}
        self._processes = {pid: SimpleNamespace(sentinel=end) for pid, end in ends.items()}

    @property
    def _queue_count(self):
        self._looks += 1
        return self._looks if self.comes == "results" else 0

    def kill(self, pid, number):
        self.killed.append((pid, number))
        if self.comes == "a notice":
            self._flags.broken = RuntimeError("late")


@NO_SIGKILL
@pytest.mark.parametrize("comes", ["results", "a notice", "nothing"])
def test_what_comes_from_the_dead_is_waited_for(comes, monkeypatch):
    monkeypatch.setattr(processes, "LOOK_EVERY", 0.01)
    executor = Bereft(comes)
    monkeypatch.setattr(processes.os, "kill", executor.kill)
    with deaths_noticed(SimpleNamespace(_backend=SimpleNamespace(_workers=executor))):
        if comes == "results":
            wanted = 10 * processes.PATIENCE
            assert in_a_minute(lambda: executor._looks > wanted) and watchers()
        else:
            assert in_a_minute(lambda: not watchers())
    assert executor.killed == [(11, signal.SIGKILL)] * (comes != "results")
    assert executor.closed == [True] * (comes == "nothing")


@NO_SIGKILL
def test_what_is_not_known_is_not_watched():
    pipe = SimpleNamespace(close=pytest.fail)
    known = {
        "_flags": SimpleNamespace(broken=None, shutdown_lock=threading.Lock()),
        "_result_queue": SimpleNamespace(_writer=pipe),
        "_processes": {},
        "_pending_work_items": {},
        "_queue_count": 0,
    }
    for missing in (None, *known):
        executor = SimpleNamespace(**{k: v for k, v in known.items() if k != missing})
        with deaths_noticed(SimpleNamespace(_backend=SimpleNamespace(_workers=executor))):
            assert len(watchers()) == (missing is None)
    with deaths_noticed(SimpleNamespace()):
        assert not watchers()
    with Parallel(n_jobs=2, prefer="threads") as parallel, deaths_noticed(parallel):
        assert not watchers()
