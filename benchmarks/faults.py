"""Fits that are killed, interrupted or out of disk at random moments, and what is left of them."""

import hashlib
import multiprocessing
import os
import signal
import tempfile
import threading
import time
import warnings
from contextlib import suppress
from itertools import cycle
from pathlib import Path

import corpora
import joblib
import numpy as np
from sklearn.base import clone

from sklearn_sparsepost import AliasLDA, GibbsCTM, SparseHDP, SparseLDA, SparseMixture
from sklearn_sparsepost.callbacks import Checkpoint
from sklearn_sparsepost.persistence import load

N_PASSES = 4
PROCESS = {"weight_concentration_prior_type": "dirichlet_process"}
# The settings of each estimator, which moments are dealt to in turn.
SETTINGS = {
    "SparseLDA": [
        {"learning_method": "batch"},
        {"learning_method": "online", "batch_size": 125},
        {"n_batches": 2},
        {"n_batches": 2, "doc_topic_prior": "auto", "doc_start": "warm"},
        {"n_batches": 2, "local_step": "gibbs", "average_after": 2},
        {"learning_method": "online", "local_step": "gibbs", "batch_size": 125},
    ],
    "SparseHDP": [
        {"n_batches": 2},
        {"learning_method": "batch", "doc_start": "warm"},
        {"learning_method": "online", "batch_size": 125},
        {"n_batches": 2, "moves": ["birth", "merge", "delete"]},
    ],
    "SparseMixture": [
        {"learning_method": "batch"},
        {"learning_method": "online", "batch_size": 300},
        {"n_batches": 2},
        {"n_batches": 2, **PROCESS},
    ],
    "AliasLDA": [
        {},
        {"doc_topic_prior": "auto", "topic_word_prior": "auto", "learn_every": 2},
        {"topic_word_prior_type": "pitman_yor", "learn_every": 2},
        {"doc_topic_prior_type": "dirichlet_process", "learn_every": 2},
    ],
    "GibbsCTM": [{}, {"covariance_type": "factor", "n_factors": 3}],
}
CLASSES = (AliasLDA, GibbsCTM, SparseHDP, SparseLDA, SparseMixture)
# Rows of the data: fits of a fraction of a second.
N_ROWS = {"SparseHDP": 100, "SparseMixture": 600}


def _cases(estimator, corpus, n_topics):
    """Estimators to be fitted, and their data."""
    n_rows = N_ROWS.get(estimator, 250)
    if corpus == "bsds500":
        X = corpora.patches("train", n_rows).astype(np.float64)[:, ::4].copy()
    else:
        X = corpora.load(corpus)[0][:n_rows]
        X = X[:, np.flatnonzero(X.sum(axis=0).A1)]
    [made] = [found for found in CLASSES if found.__name__ == estimator]
    common = {"max_iter": N_PASSES, "random_state": 0, "n_jobs": 1}
    sampled = made in (AliasLDA, GibbsCTM)
    common |= {"burn_in": 1, "sample_every": 1, "evaluate_every": 2} if sampled else {"tol": 0}
    return [made(n_topics, **common, **settings) for settings in SETTINGS[estimator]], X


def _digest(estimator):
    """Of all fitted attributes, a hash; that of no model is none."""
    found = hashlib.sha256()
    for name in sorted(vars(estimator)):
        if name.endswith("_") and not name.startswith("_"):
            found.update(name.encode())
            value = np.asarray(getattr(estimator, name))
            found.update(repr(value.tolist()).encode() if value.dtype == object else value.data)
    return found.hexdigest() if hasattr(estimator, "n_iter_") else None


def _goes_on(estimator, X):
    """The digest that a fit has in the end which goes on from where an estimator stands."""
    left = N_PASSES - getattr(estimator, "n_iter_", 0)
    if left:
        estimator.set_params(max_iter=left, warm_start=True).fit(X)
    return _digest(estimator)


def _trials(cases, X, n_moments, seed, try_one, length_of):
    """Make trials until so many faults came before the end of a fit; sums what trials return."""
    rng = np.random.default_rng(seed)
    known = []
    for case in cases:
        length_of(case)  # what is done once in a process
        whole = clone(case).fit(X)
        # Of three, or a fit that was held up would put most moments after the end.
        known.append((case, min(length_of(case) for _ in range(3)), _digest(whole)))
    sums = {"faults": 0}
    for case, length, want in cycle(known):
        if sums["faults"] == n_moments:
            return sums
        # Machines are noisy: some of the moments are after the end, and do not count.
        found = try_one(clone(case), rng.uniform(0, 1.1 * length), want)
        for name, value in (found or {}).items():
            worst = name.startswith("longest")
            sums[name] = max(sums.get(name, 0), value) if worst else sums.get(name, 0) + value


def _in_child(call, seconds=None):
    """Make a call in a child, killed after some seconds; whether it was before the end."""
    child = os.fork()
    if not child:
        try:
            call()
        finally:
            os._exit(0)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def _seconds(call, clock=time.perf_counter):
    begun = clock()
    call()
    return clock() - begun


def _checkpoints(cases, X, n_moments, seed, folder):
    """SIGKILL of fits that write checkpoints; the next process goes on from what it finds."""
    path = Path(folder) / "a.model"

    def child(case):
        return clone(case).set_callbacks(Checkpoint(path)).fit(X)

    def try_one(case, moment, want):
        path.unlink(missing_ok=True)
        if not _in_child(lambda: child(case), moment):
            return None
        left = list(Path(folder).glob("*.tmp"))
        for temporary in left:
            temporary.unlink()
        read = load(path) if path.exists() else case
        found = {"from a checkpoint": int(read is not case), "in a write": len(left)}
        return {"faults": 1, **found, "same bytes": int(_goes_on(read, X) == want)}

    def length(case):
        return _seconds(lambda: _in_child(lambda: child(case)))

    return _trials(cases, X, n_moments, seed, try_one, length)


class _FullDisk:
    """A callback after one of whose passes files can be no longer than a part of a checkpoint."""

    def __init__(self, path, number, share):
        self.path, self.number, self.share = path, number, share

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        import resource

        if context.task_name == "pass" and context.task_id == self.number:
            limit = int(self.share * self.path.stat().st_size)
            hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))

    def on_fit_task_end(self, estimator, context):
        pass


def _full_disks(cases, X, n_moments, seed, folder):
    """A disk that fills up while a checkpoint is written, after a random part of it."""
    import resource

    path = Path(folder) / "a.model"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def try_one(case, moment, want):
        rng = np.random.default_rng(int(1e9 * moment))
        number = int(rng.integers(1, N_PASSES))
        path.unlink(missing_ok=True)
        # Of the last checkpoint: the next may be an eighth smaller, where moves have found merges.
        case.set_callbacks(_FullDisk(path, number, rng.uniform(0, 0.8)), Checkpoint(path))
        told = False
        try:
            case.fit(X)
        except OSError as error:
            told = str(path) in str(error) and "could not be written" in str(error)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        read = load(path)
        intact = read.n_iter_ == number and os.listdir(folder) == [path.name]
        found = {"one clear error": int(told), "checkpoint intact": int(intact)}
        same = _goes_on(read, X) == want == _goes_on(case.set_callbacks(), X)
        return {"faults": 1, **found, "same bytes": int(same)}

    return _trials(cases, X, n_moments, seed, try_one, lambda case: 1.0)


class _Interrupter:
    """A process that sends SIGINT to this one, as a terminal does, and knows when that was."""

    def __init__(self):
        self._pipe, there = multiprocessing.Pipe()
        self.is_open = False  # for an interrupt
        signal.signal(signal.SIGINT, self._hear)
        if not os.fork():
            self._pipe.close()
            with suppress(EOFError):
                while True:
                    self._serve(there)
            os._exit(0)
        there.close()

    def _hear(self, number, frame):
        if self.is_open:
            signal.default_int_handler(number, frame)

    @staticmethod
    def _serve(pipe):
        # The clock of the parent's processor time: where others have the machine, or stop this
        # process for a minute, moments stay where they are, and waits what they are.
        clock, seconds, found = ~os.getppid() << 3 | 2, pipe.recv(), None
        due = seconds + time.clock_gettime(clock)
        while True:
            left = due - time.clock_gettime(clock)
            if left <= 0:
                found = time.perf_counter(), time.clock_gettime(clock)
                os.kill(os.getppid(), signal.SIGINT)
            if left <= 0 or pipe.poll(max(left / 2, 1e-4)):  # two threads are twice as fast
                break
        pipe.recv()
        pipe.send(found)

    def interrupt(self, call, seconds):
        """Make a call that is interrupted after some processor time, if it takes that long.

        Returns
        -------
        raised : bool
            Whether it ended in a KeyboardInterrupt.
        waits : tuple of float or None
            Seconds from the signal to the end of the call, and those of them on processors; None if
            there was no signal.
        """
        raised = False
        self._pipe.send(seconds)
        try:
            self.is_open = True
            call()
            self.is_open = False
        except KeyboardInterrupt:
            raised = True
        ended = time.perf_counter(), time.process_time()
        self.is_open = False
        self._pipe.send(None)
        sent = self._pipe.recv()
        return raised, sent and tuple(b - a for a, b in zip(sent, ended, strict=True))


def _interrupts(cases, X, n_moments, seed, folder):
    """SIGINT, as control-C sends it, to fits on one thread and on two."""
    interrupter, allowed, anew = _Interrupter(), {}, {}

    def length(case):
        if repr(case) not in allowed:
            shorter = (clone(case).set_params(max_iter=n).fit(X) for n in range(N_PASSES + 1))
            allowed[repr(case)] = [None, *map(_digest, shorter)]
        return _seconds(lambda: clone(case).fit(X), time.process_time)

    def try_one(case, moment, want):
        name = repr(case)
        case.set_params(n_jobs=1 + int(1e9 * moment) % 2)
        raised, waits = interrupter.interrupt(lambda: case.fit(X), moment)
        if not raised:
            # Python itself drops an interrupt that comes in what a weak reference calls.
            return waits and {"dropped": 1, "dropped, same bytes": int(_digest(case) == want)}
        left, n_passes = _digest(case), getattr(case, "n_iter_", 0)
        found = {"faults": 1, "no start yet": int(left is None)}
        found["whole passes"] = int(left in allowed[name])
        found |= {"longest wait": waits[0], "longest work": waits[1]}
        end = _goes_on(case, X)
        if isinstance(case, (AliasLDA, GibbsCTM)) and 0 < n_passes < N_PASSES and end != want:
            # In a sweep: tokens are counted anew, in another order of equal topics, but one order.
            want = anew.setdefault((name, n_passes), end)
            found["counted anew"] = 1
        return {**found, "goes on": int(end == want and case.n_iter_ == N_PASSES)}

    return _trials(cases, X, n_moments, seed, try_one, length)


class _Killer:
    """Kills a worker after some seconds, in a thread of its own.

    Parameters
    ----------
    pids : callable
        The workers' processes then.
    seconds : float
        After how many.
    free : callable, default=None
        Called if nothing has happened long after, for the call to end.
    """

    def __init__(self, pids, seconds, free=None):
        self.pids, self.free = pids, free
        self.killed = self.hung = False
        self.ended = threading.Event()
        self.timer = threading.Timer(seconds, self._kill)

    def _kill(self):
        with suppress(ProcessLookupError):
            found = list(self.pids())
            if found:
                os.kill(found[int(time.time_ns()) % len(found)], signal.SIGKILL)
                self.killed = True
        # Seconds in which this process runs: it may be stopped for longer.
        if self.killed and self.free and not any(self.ended.wait(1) for _ in range(30)):
            self.hung = True
            self.free()

    def __enter__(self):
        self.timer.start()
        return self

    def __exit__(self, *raised):
        self.timer.cancel()
        self.ended.set()
        self.timer.join()


def _loky(cases, X, n_moments, seed, folder):
    """SIGKILL of one of joblib's two processes: an error, and a model that goes on."""
    from joblib.externals.loky import reusable_executor

    def pids():
        return reusable_executor._executor._processes

    def free():  # as joblib alone would read what a worker began to write, forever
        executor = reusable_executor._executor
        for worker in list(executor._processes):
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
        executor._result_queue._writer.close()

    def fit(case):
        with joblib.parallel_config(backend="loky"):
            return case.set_params(n_jobs=2).fit(X)

    def try_one(case, moment, want):
        fit(clone(case).set_params(max_iter=1))  # workers are there
        told, sending = None, False
        with _Killer(pids, moment, free) as killer:
            try:
                fit(case)
            except RuntimeError as error:
                told = "a worker process died" in str(error)
                # Of the rest of a result; else it is the end of a process that joblib names.
                sending = type(error.__cause__).__name__ == "BrokenProcessPool"
        if not killer.killed or told is None:  # after the last chunk
            if killer.killed:  # which joblib may notice in the next fit
                reusable_executor._executor.shutdown(kill_workers=True)
            return None
        same = _goes_on(case.set_params(n_jobs=1), X) == want
        told = told and not killer.hung
        found = {"hung": int(killer.hung), "while sending": int(sending)}
        found |= {"one clear error": int(told), "same bytes": int(same)}
        return {"faults": 1, **found}

    return _trials(
        cases, X, n_moments, seed, try_one, lambda case: _seconds(lambda: fit(clone(case)))
    )


def _dask(cases, X, n_moments, seed, folder):
    """SIGKILL of one of two Dask workers: nothing is to be seen of it."""
    import dask
    import dask.array as da
    from distributed import Client, LocalCluster

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    edges = np.linspace(0, X.shape[0], 5).astype(int)
    with (
        # A worker that takes longer to begin anew would be given up for ever.
        dask.config.set({"distributed.deploy.lost-worker-timeout": "10 minutes"}),
        LocalCluster(processes=True, **options) as cluster,
        Client(cluster) as client,
    ):
        blocks = []
        for first, last in zip(edges[:-1], edges[1:], strict=True):
            shape = (int(last - first), X.shape[1])
            # Blocks that can be made anew, as those from files.
            made = dask.delayed(_rows)(X[first:last])
            blocks.append(da.from_delayed(made, shape=shape, dtype=X.dtype))
        there = da.concatenate(blocks)

        def pids():
            return [worker.pid for worker in cluster.workers.values() if worker.pid]

        def try_one(case, moment, want):
            client.wait_for_workers(2, timeout=600)
            with _Killer(pids, moment) as killer:
                case.fit(there)
                if not killer.killed:
                    return None
            return {"faults": 1, "same bytes": int(_digest(case) == want)}

        def length(case):
            return _seconds(lambda: clone(case).fit(there))

        return _trials(cases, there, n_moments, seed, try_one, length)


def _dask_sums(cases, X, n_moments, seed, folder):
    """The same of memoized learning whose sums workers alone have."""
    import dask

    from sklearn_sparsepost._run.kept_sums import OPTION

    memoized = [case for case in cases if case.learning_method == "memoized"]
    with dask.config.set({OPTION: 0}):
        return _dask(memoized, X, n_moments, seed, folder)


def _rows(part):
    return part


FAULTS = {
    "checkpoint": _checkpoints,
    "full disk": _full_disks,
    "interrupt": _interrupts,
    "loky": _loky,
    "dask": _dask,
    "dask, sums": _dask_sums,
}


def faults(corpus, n_topics, estimator, fault, n_moments, seed=0):
    """What is left of fits after faults at random moments.

    Parameters
    ----------
    corpus : str
        The counts, or "bsds500" for patches.
    n_topics : int
        Topics or components.
    estimator : str
        A key of `SETTINGS`.
    fault : str
        A key of `FAULTS`.
    n_moments : int
        How many faults before the end of a fit.
    seed : int, default=0
        Of the moments.

    Returns
    -------
    result : dict
        The number of faults, and of those after which each promise held.
    """
    from sklearn_sparsepost._run import chunks

    # So that these data are some chunks.
    chunks.CHUNK_SIZE, chunks.DENSE_CHUNK_ROWS = 1 << 13, 1 << 9
    warnings.simplefilter("ignore")
    cases, X = _cases(estimator, corpus, n_topics)
    with tempfile.TemporaryDirectory() as folder:
        return FAULTS[fault](cases, X, n_moments, seed, folder)
