"""The fixed chunk plan, the dispatch of chunks to workers, and threads.

What a chunk holds depends on the data and the parameters, never on the number of workers, and
results come back in the order of the chunks: so sums have the same bits on any backend.
"""

import os
import threading

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, cpu_count, delayed, effective_n_jobs

from sklearn_sparsepost._kernels._cpu import max_threads

# Stored counts a chunk: small enough to stay in cache, large enough to hide the dispatch.
CHUNK_SIZE = 1 << 17
# Work below this is done before a second thread is awake.
SMALL_WORK = 1 << 21
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
    """

    def __init__(self, indptr, indices, data, n_features):
        self.indptr = indptr
        self.indices = indices
        self.data = data
        self.n_features = n_features

    @property
    def n_rows(self):
        """Number of rows."""
        return self.indptr.shape[0] - 1


def make_chunk(X, runs, dtype):
    """Read runs of rows of a CSR matrix into a chunk: the only place that touches the data.

    Parameters
    ----------
    X : csr_matrix or csr_array
        Counts; its arrays may be memory-mapped and of any integer or float type.
    runs : list of (int, int)
        First and past-the-last row of each run.
    dtype : dtype
        Type to compute in.

    Returns
    -------
    chunk : Chunk
        The rows, in the order of `runs`, with sorted columns and no duplicates.
    """
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
    return Chunk(indptr, indices, data, X.shape[1])


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
    return [[run] for run in split_rows(X.indptr, 0, X.shape[0])]


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


def cut_batch(X, runs, size=CHUNK_SIZE):
    """Cut a batch's runs into chunks of about `size` stored entries, each a list of runs."""
    pieces, current, held = [], [], 0
    for start, stop in runs:
        entries = int(X.indptr[stop]) - int(X.indptr[start])
        for run in [(start, stop)] if entries <= size else split_rows(X.indptr, start, stop, size):
            entries = int(X.indptr[run[1]]) - int(X.indptr[run[0]])
            if current and held + entries > size:
                pieces.append(current)
                current, held = [], 0
            current.append(run)
            held += entries
    return [*pieces, current] if current else pieces


def threads_per_worker(n_workers=1):
    """OpenMP threads for each of some workers on this machine: OMP_NUM_THREADS, or the cores."""
    limit = max_threads() if os.environ.get("OMP_NUM_THREADS") else min(max_threads(), cpu_count())
    return max(1, limit // max(1, n_workers))


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


def run_chunks(function, X, chunks, dtype, n_jobs=None):
    """Call ``function(chunk, n_threads)`` on every chunk, results in order.

    Parameters
    ----------
    function : callable
        Pure and picklable.
    X : csr_matrix or csr_array
        The data.
    chunks : list of list of (int, int)
        Runs of rows of each chunk.
    dtype : dtype
        Type to compute in.
    n_jobs : int, default=None
        Workers, as joblib reads it; threads unless `joblib.parallel_config` names a backend.

    Yields
    ------
    result : object
        What `function` returned.
    """
    n_workers = min(effective_n_jobs(n_jobs), len(chunks))
    n_threads = threads_per_worker(n_workers)
    if n_workers <= 1:
        for runs in chunks:
            yield function(make_chunk(X, runs, dtype), n_threads)
        return
    with Parallel(n_jobs=n_jobs, prefer="threads") as parallel:
        # A few chunks a worker at a time, so that results do not pile up before they are summed.
        step = 4 * n_workers
        for first in range(0, len(chunks), step):
            yield from parallel(
                delayed(function)(make_chunk(X, runs, dtype), n_threads)
                for runs in chunks[first : first + step]
            )
