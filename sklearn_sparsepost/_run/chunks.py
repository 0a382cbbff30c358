"""The fixed chunk plan, the dispatch of chunks to workers, and threads.

What a chunk holds depends on the data and the parameters, never on the number of workers, and
results come back in the order of the chunks: so sums have the same bits on any backend.
"""

import os
import threading
from contextlib import contextmanager

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, cpu_count, delayed, effective_n_jobs
from joblib.parallel import get_active_backend
from threadpoolctl import ThreadpoolController

from sklearn_sparsepost._kernels._cpu import max_threads

# Stored counts a chunk: small enough to stay in cache, large enough to hide the dispatch.
CHUNK_SIZE = 1 << 17
# Values and rows a chunk of a dense matrix: its statistics should cost little beside its rows.
DENSE_CHUNK_SIZE = 1 << 19
DENSE_CHUNK_ROWS = 1 << 13
# Work below this is done before a second thread is awake.
SMALL_WORK = 1 << 21
# Components that a worker takes at a time.
SLICE = 32
# Below so many, threads take longer to start than to work.
LEAST_SLICES = 12
# Chunks a worker that are handed out together: results of no more than these wait to be summed.
CHUNKS_AHEAD = 8
# A batch is dealt in this many runs of neighbouring rows, so that sorted corpora are mixed.
RUNS_PER_BATCH = 64


class Chunk:
    """Some rows of a CSR matrix of counts, ready for a kernel.

    Parameters
    ----------
    indptr : ndarray of shape (n_rows + 1,), int64
        Row pointer, from 0.
    indices : ndarray of shape (nnz,), int32
        Columns.
    data : ndarray of shape (nnz,), float32 or float64
        Counts.
    n_features : int
        Number of columns.
    weight : ndarray of shape (n_rows,), default=None
        Weights of the rows; None for 1.
    """

    def __init__(self, indptr, indices, data, n_features, weight=None):
        self.indptr = indptr
        self.indices = indices
        self.data = data
        self.n_features = n_features
        self.weight = weight

    @property
    def n_rows(self):
        """Number of rows."""
        return self.indptr.shape[0] - 1

    @property
    def rows(self):
        """The rows as a matrix."""
        return sp.csr_array(
            (self.data, self.indices, self.indptr), shape=(self.n_rows, self.n_features)
        )


class DenseChunk:
    """Some rows of a dense matrix.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features), float32 or float64
        The rows, C-contiguous.
    weight : ndarray of shape (n_rows,), default=None
        Their weights; None for 1.
    """

    def __init__(self, rows, weight=None):
        self.rows = rows
        self.weight = weight

    @property
    def n_rows(self):
        """Number of rows."""
        return self.rows.shape[0]


def make_chunk(X, runs, dtype, weight=None):
    """Read runs of rows of a matrix into a chunk: the only place that touches the data.

    Parameters
    ----------
    X : ndarray, csr_matrix or csr_array
        The data; may be memory-mapped and of any integer or float type.
    runs : list of (int, int)
        First and past-the-last row of each run.
    dtype : dtype
        Type to compute in.
    weight : ndarray of shape (n_samples,), default=None
        Weights of all rows.

    Returns
    -------
    chunk : Chunk or DenseChunk
        The rows, in the order of `runs`; if sparse, with sorted columns and no duplicates.
    """
    if weight is not None:
        weight = np.concatenate([weight[start:stop] for start, stop in runs])
    if not sp.issparse(X):
        spans = [X[start:stop] for start, stop in runs]
        rows = spans[0] if len(spans) == 1 else np.concatenate(spans)
        return DenseChunk(np.ascontiguousarray(rows, dtype=dtype), weight)
    spans = [slice(int(X.indptr[start]), int(X.indptr[stop])) for start, stop in runs]
    lengths = [np.diff(X.indptr[start : stop + 1]) for start, stop in runs]
    indptr = np.zeros(sum(map(len, lengths)) + 1, dtype=np.int64)
    np.cumsum(np.concatenate(lengths), out=indptr[1:])
    if len(spans) == 1:  # no copy where the types fit
        indices = np.asarray(X.indices[spans[0]])
        data = np.asarray(X.data[spans[0]])
    else:
        indices = np.concatenate([X.indices[span] for span in spans])
        data = np.concatenate([X.data[span] for span in spans])
    indices = np.ascontiguousarray(indices, dtype=np.int32)
    data = np.ascontiguousarray(data, dtype=dtype)
    if not X.has_canonical_format:
        rows = sp.csr_matrix(
            (data, indices, indptr), shape=(len(indptr) - 1, X.shape[1]), copy=True
        )
        rows.sum_duplicates()
        indptr = rows.indptr.astype(np.int64)
        indices, data = rows.indices.astype(np.int32, copy=False), rows.data
    return Chunk(indptr, indices, data, X.shape[1], weight)


def row_pointer(X):
    """Where each row's entries begin and end, of dense data too; and entries a chunk."""
    if sp.issparse(X):
        return X.indptr, CHUNK_SIZE
    width = max(X.shape[1], DENSE_CHUNK_SIZE // DENSE_CHUNK_ROWS)
    return np.arange(X.shape[0] + 1) * width, DENSE_CHUNK_SIZE


def split_rows(indptr, start, stop, size=CHUNK_SIZE):
    """Cut rows start ... stop into runs of about `size` stored entries.

    Parameters
    ----------
    indptr : ndarray of shape (n_rows + 1,)
        Row pointer of the matrix.
    start, stop : int
        First and past-the-last row.
    size : int, default=CHUNK_SIZE
        Entries a run; a longer row is a run of its own.

    Returns
    -------
    runs : list of (int, int)
        Neighbouring runs of rows that cover start ... stop, none empty.
    """
    first, last = int(indptr[start]), int(indptr[stop])
    cuts = np.searchsorted(indptr[start : stop + 1], np.arange(first + size, last, size))
    cuts = np.unique(np.concatenate([[0], cuts, [stop - start]])) + start
    return [(int(a), int(b)) for a, b in zip(cuts[:-1], cuts[1:], strict=True)]


def whole_plan(X):
    """All rows as one batch, in order."""
    return [[run] for run in split_rows(*_whole(X))]


def _whole(X):
    indptr, size = row_pointer(X)
    return indptr, 0, X.shape[0], size


def deal_rows(n_rows, n_batches, rng):
    """Deal rows to batches of nearly equal size, in runs, at random.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    n_batches : int
        Number of batches, at most `n_rows`.
    rng : numpy.random.Generator
        Source of the order.

    Returns
    -------
    batches : list of list of (int, int)
        For each batch its runs of rows, ascending.
    """
    n_runs = min(n_rows, n_batches * RUNS_PER_BATCH)
    edges = np.linspace(0, n_rows, n_runs + 1).astype(np.int64)
    order = rng.permutation(n_runs)
    return [
        [(int(edges[r]), int(edges[r + 1])) for r in np.sort(part)]
        for part in np.array_split(order, n_batches)
    ]


def cut_batch(X, runs, size=None):
    """Cut a batch's runs into chunks of about `size` entries, each a list of runs."""
    indptr, usual = row_pointer(X)
    size = usual if size is None else size
    pieces, current, held = [], [], 0
    for start, stop in runs:
        entries = int(indptr[stop]) - int(indptr[start])
        for run in [(start, stop)] if entries <= size else split_rows(indptr, start, stop, size):
            entries = int(indptr[run[1]]) - int(indptr[run[0]])
            if current and held + entries > size:
                pieces.append(current)
                current, held = [], 0
            current.append(run)
            held += entries
    return [*pieces, current] if current else pieces


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
    return max_threads() if os.environ.get("OMP_NUM_THREADS") else min(max_threads(), cpu_count())


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


class Scratch(threading.local):
    """Memory of a thread that is used again and again: new pages cost more than the work does."""

    def __init__(self):
        self.buffer = np.empty(0, dtype=np.uint8)

    def array(self, shape, dtype):
        """An array with any contents, valid until the next call."""
        n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        if n_bytes > self.buffer.nbytes:
            self.buffer = None  # before the larger one
            self.buffer = np.empty(n_bytes + n_bytes // 8, dtype=np.uint8)
        return self.buffer[:n_bytes].view(dtype).reshape(shape)

    def __reduce__(self):
        return Scratch, ()


def threads_for(work, n_threads):
    """All threads, or one if the work (in multiplications or so) is not worth waking them."""
    return n_threads if work > SMALL_WORK else 1


def map_slices(function, n, n_jobs=None):
    """Call ``function(slice)`` on slices that cover range(n), results in order.

    Parameters
    ----------
    function : callable
        Releases the GIL for most of its time.
    n : int
        How many there are.
    n_jobs : int, default=None
        Threads, as joblib reads it.

    Returns
    -------
    results : list
        What `function` returned. The slices do not depend on `n_jobs`.
    """
    slices = [slice(first, first + SLICE) for first in range(0, n, SLICE)]
    n_threads = local_threads(n_jobs)
    if len(slices) < LEAST_SLICES or n_threads == 1:
        return [function(held) for held in slices]
    return Parallel(n_jobs=n_threads, require="sharedmem")(delayed(function)(s) for s in slices)


def _on_worker(function, chunk, n_threads, option):
    """Call a function of a chunk where it runs, with no more threads than are there."""
    return function(chunk, min(n_threads, most_threads()), **option)


def run_chunks(function, X, chunks, dtype, n_jobs=None, *, weight=None, starts=None, threaded=True):
    """Call ``function(chunk, n_threads)`` on every chunk, results in order.

    Parameters
    ----------
    function : callable
        Pure and picklable.
    X : ndarray, csr_matrix or csr_array
        The data.
    chunks : list of list of (int, int)
        Runs of rows of each chunk.
    dtype : dtype
        Type to compute in.
    n_jobs : int, default=None
        Cores, as joblib reads it, and all if nobody says anything; workers are threads unless
        `joblib.parallel_config` names a backend.
    weight : ndarray of shape (n_samples,), default=None
        Weights of the rows.
    starts : list, default=None
        For each chunk what to hand to `function` as `start`.
    threaded : bool, default=True
        Whether `function` itself makes use of threads.

    Yields
    ------
    result : object
        What `function` returned.
    """
    n_workers, n_threads = share_cores(n_jobs, len(chunks), threaded)
    options = [{}] * len(chunks) if starts is None else [{"start": start} for start in starts]
    if n_workers <= 1:
        for runs, option in zip(chunks, options, strict=True):
            yield _on_worker(function, make_chunk(X, runs, dtype, weight), n_threads, option)
        return
    streams = getattr(get_active_backend(prefer="threads")[0], "supports_return_generator", False)
    # Some chunks a worker at a time, so that results do not pile up before they are summed.
    step = CHUNKS_AHEAD * n_workers
    options_of_joblib = {"return_as": "generator"} if streams else {}
    # BLAS is held here, too, or it would be let go and caught again between chunks.
    if effective_n_jobs(n_jobs) == 1:
        n_jobs = n_workers
    with single_blas(), Parallel(n_jobs=n_jobs, prefer="threads", **options_of_joblib) as parallel:
        for first in range(0, len(chunks), step):
            yield from parallel(
                delayed(_on_worker)(function, make_chunk(X, runs, dtype, weight), n_threads, option)
                for runs, option in zip(
                    chunks[first : first + step], options[first : first + step], strict=True
                )
            )
