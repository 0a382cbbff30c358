"""The data of a fit, and the dispatch of chunks of them to workers.

Results come back in the order of the chunks, so that sums have the same bits on any backend.
"""

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import islice

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import ThreadingBackend, get_active_backend

from sklearn_sparsepost._run.chunks import (
    cut_batch,
    is_mapped,
    make_chunk,
    runs_by_block,
    split_units,
    unit_pointer,
)
from sklearn_sparsepost._run.cluster import in_order
from sklearn_sparsepost._run.processes import deaths_noticed
from sklearn_sparsepost._run.threads import (
    local_threads,
    settled_threads,
    share_cores,
    single_blas,
)

# Chunks a worker that are handed out together: results of no more than these wait to be summed.
CHUNKS_AHEAD = 8
# Bytes of sparse chunks that a corpus in memory keeps once they are read: passes meet them again.
MOST_KEPT = 2**25
# What joblib's backends raise if a worker is no more; not all of them are installed.
WORKER_LOST = {"TerminatedWorkerError", "BrokenProcessPool", "KilledWorker", "FutureCancelledError"}
# And if the scheduler of its Dask backend is gone.
SCHEDULER_LOST = {"CommClosedError", "ClosedClientError", "CancelledError", "StreamClosedError"}
# What Dask raises if a cluster is gone, or what only it has held.
CLUSTER_LOST = SCHEDULER_LOST | {"FuturesCancelledError", "FutureCancelledError", "TimeoutError"}


class Corpus:
    """The data of a fit and how to go over them.

    Parameters
    ----------
    X : ndarray, csr_matrix or csr_array of shape (n_rows, n_features)
        The data.
    dtype : dtype
        Type to compute in.
    n_jobs : int, default=None
        Cores, as joblib reads it, and all if nobody says anything; workers are threads unless
        `joblib.parallel_config` names a backend.
    weight : ndarray of shape (n_rows,), default=None
        Weights of the rows.
    groups : ndarray of shape (n_groups + 1,), default=None
        Where each group of neighbouring rows of dense data begins, and where the last one ends.
    threaded : bool, default=True
        Whether local steps use threads inside a chunk.

    Attributes
    ----------
    n_samples : int
        Number of units, which are what is dealt to batches: groups if there are any, else rows.

    edges : ndarray of shape (n_blocks + 1,)
        Where each block of the data begins, and where the last one ends: no chunk has units of two.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsepost.models import Corpus
    >>> corpus = Corpus(np.zeros((6, 2)), np.float64, groups=np.array([0, 1, 4, 6]))
    >>> corpus.n_samples
    3
    """

    def __init__(self, X, dtype, n_jobs=None, *, weight=None, groups=None, threaded=True):
        self.X = X
        self.dtype = np.dtype(dtype)
        self.n_jobs = n_jobs
        self.weight = weight
        self.groups = groups
        self.threaded = threaded
        self.n_samples = X.shape[0] if groups is None else len(groups) - 1
        self.edges = np.array([0, self.n_samples])
        self._kept = {}
        self._room = MOST_KEPT if sp.issparse(X) and not is_mapped(X.data) else 0

    @property
    def n_blocks(self):
        """Number of blocks of the data."""
        return len(self.edges) - 1

    @property
    def given(self):
        """The data as users know them."""
        return self.X

    @property
    def is_empty(self):
        """Whether there are no counts to learn from."""
        return sp.issparse(self.X) and not self.X.data.any()

    def check(self, function):
        """Make ``function(X)``, which raises an error if something is wrong, on all data.

        Parameters
        ----------
        function : callable
            Picklable; of each row alone.
        """
        function(self.X)

    def threads(self):
        """Return a context in which what is done between the chunks uses the corpus's threads.

        Returns
        -------
        context : context manager
            The context.
        """
        with told_of_lost_workers(lambda: "chunks of X", SCHEDULER_LOST):
            n_threads = local_threads(self.n_jobs)
        return _threads_and_blas(n_threads)

    def chunk(self, runs):
        """Read some units into a chunk.

        Parameters
        ----------
        runs : list of (int, int)
            First and past-the-last unit of each run.

        Returns
        -------
        chunk : Chunk or DenseChunk
            The units.
        """
        kept = self._kept.get(tuple(runs))
        if kept is not None:
            return kept
        chunk = make_chunk(self.X, runs, self.dtype, self.weight, self.groups)
        if self._room and chunk.nbytes <= self._room:
            self._kept[tuple(runs)] = chunk
            self._room -= chunk.nbytes
        return chunk

    def plan(self):
        """Cut all units into chunks, in order.

        Returns
        -------
        chunks : list of list of (int, int)
            For each chunk its runs of units.
        """
        indptr, size = unit_pointer(self.X, self.groups)
        blocks = zip(self.edges[:-1], self.edges[1:], strict=True)
        return [[run] for first, last in blocks for run in split_units(indptr, first, last, size)]

    def cut(self, runs):
        """Cut a batch into chunks.

        Parameters
        ----------
        runs : list of (int, int)
            First and past-the-last unit of each run.

        Returns
        -------
        chunks : list of list of (int, int)
            For each chunk its runs of units.
        """
        indptr, size = unit_pointer(self.X, self.groups)
        held = runs_by_block(runs, self.edges)
        return [piece for part in held.values() for piece in cut_batch(indptr, part, size)]

    def map(self, step, globals_, key=None, *, chunks=None, starts=None):
        """Make ``step(chunk, globals_, key)`` on chunks, results in order.

        Parameters
        ----------
        step : callable
            Pure and picklable; runs where the chunk is sent to, on as many threads as are settled
            there, with BLAS on one.
        globals_ : object
            What all calls share; a cluster ships it once to each worker.
        key : tuple of int, default=None
            What random streams are keyed by, besides the numbers of the units.
        chunks : list of list of (int, int), default=None
            Runs of each chunk; by default those of :meth:`plan`.
        starts : list, default=None
            For each chunk what it is to have as `start`.

        Yields
        ------
        result : object
            What `step` returned.

        Raises
        ------
        RuntimeError
            If a worker process dies, and the backend does not give its chunks to another.
        """
        chunks = self.plan() if chunks is None else chunks
        starts = [None] * len(chunks) if starts is None else starts
        with told_of_lost_workers(lambda: "chunks of X", SCHEDULER_LOST):
            yield from self._made(step, globals_, key, chunks, starts)

    def _made(self, step, globals_, key, chunks, starts):
        """Results of :meth:`map`, whatever errors are raised."""
        n_workers, n_threads = share_cores(self.n_jobs, len(chunks), self.threaded)
        if n_workers <= 1:
            for chunk in self._read(chunks, starts):
                yield _on_worker(step, chunk, globals_, key, n_threads)
            return
        backend = get_active_backend(prefer="threads")[0]
        # Some chunks a worker at a time, so that results do not pile up before they are summed.
        ahead = CHUNKS_AHEAD * n_workers
        if isinstance(backend, ThreadingBackend):
            read, given = self._read(chunks, starts), (step, globals_, key, n_threads)
            yield from _on_threads(n_workers, ahead, read, starts, *given)
            return
        streams = getattr(backend, "supports_return_generator", False)
        options = {"return_as": "generator"} if streams else {}
        if hasattr(backend, "client"):
            tasks = deque(zip(chunks, starts, strict=True))

            def read(task):
                [chunk] = self._read(*([part] for part in task))
                return chunk, (step, key), None

            with told_of_lost_workers(lambda: _rows_of([runs for runs, _ in tasks])):
                yield from in_order(backend.client, _step_on, tasks, globals_, read, ahead)
            return
        n_jobs = n_workers if effective_n_jobs(self.n_jobs) == 1 else self.n_jobs
        # BLAS is held here, too, or it would be let go and caught again between chunks.
        with (
            single_blas(),
            Parallel(n_jobs=n_jobs, prefer="threads", **options) as parallel,
            deaths_noticed(parallel),
        ):
            _get_ready(globals_, starts)
            for first in range(0, len(chunks), ahead):
                held = slice(first, first + ahead)
                left = deque(chunks[held])
                with told_of_lost_workers(partial(_rows_of, left)):
                    for result in parallel(
                        delayed(_on_worker)(step, chunk, globals_, key, n_threads)
                        for chunk in self._read(chunks[held], starts[held])
                    ):
                        left.popleft()
                        yield result
                        del result  # or it would be held beside the next

    def visit(
        self,
        step,
        globals_,
        key=None,
        *,
        total,
        source=None,
        chunks=None,
        starts=None,
        keeps=False,
        remembers=False,
    ):
        """Make a model's local step on chunks, some of whose statistics may come back summed.

        Parameters
        ----------
        step : callable
            As for :meth:`map`; returns statistics, and what is kept of the chunk.
        globals_ : object
            What all calls share.
        key : tuple of int, default=None
            What random streams are keyed by, besides the numbers of the units.
        total : callable
            What sums statistics: ``total(parts, apart=False, neighbours=False)``, with `apart`
            without writing to them, and with `neighbours` to the bits of two at a time; picklable.
        source : SuffStats, default=None
            What `globals_` follows from: a cluster asks it what has changed of them.
        chunks : list of list of (int, int), default=None
            Runs of each chunk; by default those of :meth:`plan`.
        starts : list, default=None
            For each chunk what it is to have as `start`.
        keeps : bool, default=False
            Whether what is kept will be the chunks' `starts` in a visit to come: a cluster has it
            stay where the chunks are.
        remembers : bool, default=False
            Whether the sum of all is what :meth:`keep_sum` is given next: a cluster has it stay
            where it is made.

        Yields
        ------
        stats : SuffStats
            Of one or more chunks.
        kept : list
            What is kept of each of these.
        """
        for stats, local in self.map(step, globals_, key, chunks=chunks, starts=starts):
            yield stats, [local]
            del stats, local  # or they would be held beside the next

    def keep_sum(self, stats, old=None):
        """Have the sum of a batch be where memoized learning remembers it: here, or on workers.

        Parameters
        ----------
        stats : SuffStats
            The sum, which nobody writes to from now on.
        old : SuffStats or KeptSum, default=None
            What was remembered of the batch before.

        Returns
        -------
        kept : SuffStats or KeptSum
            What is to be remembered.
        """
        return stats

    def _read(self, chunks, starts):
        """Chunks, each with its start, read when they are asked for."""
        for runs, start in zip(chunks, starts, strict=True):
            chunk = self.chunk(runs)
            chunk.start = start
            yield chunk


@contextmanager
def _threads_and_blas(n_threads):
    """Threads of ours are settled, and BLAS has one: it is not let go between chunks."""
    with settled_threads(n_threads), single_blas():
        yield


def _step_on(chunk, globals_, step, key):
    return step(chunk, globals_, key)


def _get_ready(globals_, starts):
    """Find what all workers of this process would wait for while one of them finds it."""
    if hasattr(globals_, "get_ready"):
        globals_.get_ready(starts)


def _on_threads(n_workers, ahead, chunks, starts, step, globals_, *given):
    """Results of steps, in order, that threads of this process make, so many ahead.

    Joblib asks its threads every hundredth of a second whether they are done, in which time they
    could be.
    """
    with single_blas():
        _get_ready(globals_, starts)
        pool = ThreadPoolExecutor(n_workers)
        try:
            sent = (pool.submit(_on_worker, step, chunk, globals_, *given) for chunk in chunks)
            left = deque(islice(sent, ahead))
            while left:
                yield left.popleft().result()
                left.extend(islice(sent, 1))
        finally:
            pool.shutdown(cancel_futures=True)


def _rows_of(chunks):
    """Which rows, or groups, some chunks have."""
    runs = [run for chunk in chunks for run in chunk]
    last = max((stop for _, stop in runs), default=1) - 1
    return f"{len(chunks)} chunks of rows {min(runs, default=(0, 1))[0]} to {last} of X"


@contextmanager
def told_of_lost_workers(where, lost=frozenset(WORKER_LOST)):
    """Say in one error, whatever the backend, that a worker has died and what is left.

    Parameters
    ----------
    where : callable
        Returns what was worked on.
    lost : set of str, default=WORKER_LOST
        Names of the errors that say so.
    """
    try:
        yield
    except Exception as error:
        if type(error).__name__ not in lost:
            raise
        raise RuntimeError(
            f"a worker process died, killed for want of memory, perhaps, or the cluster is gone, "
            f"while {where()} were worked on: have fewer workers at a time, give them more "
            "memory, or smaller blocks "
            "of a Dask array. The estimator is as its last whole pass left it: fit with "
            "warm_start=True goes on from there"
        ) from error


@contextmanager
def told_of_lost_cluster(where=lambda: "blocks"):
    """Say in one error that a cluster is gone, or a block with the only worker that had it."""
    try:
        with told_of_lost_workers(lambda: f"{where()} of X"):
            yield
    except Exception as error:
        if type(error).__name__ not in CLUSTER_LOST:
            raise
        raise RuntimeError(
            "the Dask cluster is gone, or a block of X that it cannot make anew. The estimator is "
            "as its last whole pass left it: with a new client and X made anew, fit with "
            "warm_start=True goes on from there"
        ) from error


def _on_worker(step, chunk, globals_, key, n_threads):
    """Make a step where it runs: the worker settles its threads, since it knows how many it has."""
    with settled_threads(n_threads), single_blas():
        return step(chunk, globals_, key)
