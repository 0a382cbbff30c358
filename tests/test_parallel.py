"""The chunk plan depends on the data only, and results on nothing but data and parameters."""

import json
import os
import pickle
import platform
import subprocess
import sys
import threading
import time
import warnings
import weakref
from collections import deque

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from threadpoolctl import threadpool_info, threadpool_limits

from sklearn_sparsepost import SparseLDA, SparseMixture
from sklearn_sparsepost._learning.state import FitState
from sklearn_sparsepost._models.admixture import Admixture
from sklearn_sparsepost._models.contract import Globals
from sklearn_sparsepost._models.discrete import Bernoulli, Multinomial
from sklearn_sparsepost._models.documents import DirichletDocuments
from sklearn_sparsepost._models.inference import DirichletInference, TopicTable
from sklearn_sparsepost._models.mixture import Mixture
from sklearn_sparsepost._models.weights import DirichletWeights
from sklearn_sparsepost._run import chunks as chunking
from sklearn_sparsepost._run import memory, threads
from sklearn_sparsepost._run.chunks import (
    cut_batch,
    deal_units,
    make_chunk,
    split_units,
    unit_pointer,
)
from sklearn_sparsepost._run.dispatch import Corpus
from sklearn_sparsepost.callbacks import BoundMonitor


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    X = sp.random(500, 80, 0.1, random_state=rng, format="csr")
    X.data = rng.integers(1, 5, X.nnz).astype(np.float32)
    X.sort_indices()
    return X


def rows_of(runs):
    return np.concatenate([np.arange(*run) for run in runs])


def test_split_units_covers_every_row_once(X):
    for size in (1, 50, 1000, 10**9):
        runs = split_units(X.indptr, 0, 500, size)
        np.testing.assert_array_equal(rows_of(runs), np.arange(500))
        assert all(a < b for a, b in runs)


@pytest.mark.parametrize("n_batches", [1, 3, 10, 499, 500])
def test_batches_deal_every_row_once(n_batches):
    batches = deal_units(500, n_batches, np.random.default_rng(0))
    assert len(batches) == n_batches
    np.testing.assert_array_equal(np.sort(np.concatenate(list(map(rows_of, batches)))), range(500))
    sizes = [len(rows_of(runs)) for runs in batches]
    assert max(sizes) - min(sizes) <= 500 // n_batches // 4 + 8


def test_every_batch_has_rows_of_every_part():
    batches = deal_units(6400, 10, np.random.default_rng(0))
    for runs in batches:
        np.testing.assert_array_equal(np.bincount(rows_of(runs) // 100), np.full(64, 10))
    order = np.argsort([runs[0][0] for runs in batches])
    assert list(order) != list(range(10)) and batches[0] != batches[1]


@pytest.mark.parametrize(
    "n_stored, size", [(10, 1 << 17), (1 << 21, 1 << 17), (1 << 23, 1 << 18), (1 << 30, 1 << 19)]
)
def test_chunks_of_large_data_are_larger(n_stored, size):
    class Large:
        indptr = np.array([0, n_stored])

    assert unit_pointer(Large())[1] == size


def test_chunks_of_single_precision_have_twice_as_many_rows():
    sizes = []
    for dtype in (np.float64, np.float32):
        indptr, size = unit_pointer(np.zeros((5, 3), dtype))
        sizes.append(size / indptr[1])
    assert sizes == [1 << 13, 1 << 14]


def test_cut_batch_keeps_order_and_size(X):
    batch = deal_units(500, 2, np.random.default_rng(1))[0]
    chunks = cut_batch(X.indptr, batch, 300)
    np.testing.assert_array_equal(np.concatenate(list(map(rows_of, chunks))), rows_of(batch))
    assert len(chunks) > 3


@pytest.mark.parametrize("index_type", [np.int32, np.int64])
def test_make_chunk_reads_the_rows(X, dtype, index_type):
    Y = X.copy()
    Y.indices, Y.indptr = Y.indices.astype(index_type), Y.indptr.astype(index_type)
    runs = [(3, 9), (20, 21), (400, 500)]
    chunk = make_chunk(Y, runs, dtype)
    got = sp.csr_matrix((chunk.data, chunk.indices, chunk.indptr), shape=(chunk.n_rows, 80))
    np.testing.assert_array_equal(got.toarray(), X.toarray()[rows_of(runs)])
    assert chunk.data.dtype == dtype and chunk.indices.dtype == np.int32
    # As a matrix they are not copied for the sake of a pointer of another type.
    rows = chunk.rows
    np.testing.assert_array_equal(rows.toarray(), got.toarray())
    assert np.shares_memory(rows.indices, chunk.indices)
    assert np.shares_memory(rows.data, chunk.data)


def test_make_chunk_sorts_and_sums_duplicates():
    X = sp.csr_matrix(([1.0, 2.0, 3.0, 4.0], [5, 1, 5, 0], [0, 3, 4]), shape=(2, 6))
    chunk = make_chunk(X, [(0, 2)], np.float64)
    np.testing.assert_array_equal(chunk.indices, [1, 5, 0])
    np.testing.assert_array_equal(chunk.data, [2, 4, 4])
    np.testing.assert_array_equal(X.indices, [5, 1, 5, 0])


def test_chunks_in_memory_are_read_once(X, tmp_path, monkeypatch):
    corpus = Corpus(X, np.float32, 1)
    first = corpus.chunk([(3, 9), (20, 21)])
    assert corpus.chunk([(3, 9), (20, 21)]) is first
    assert corpus.chunk([(3, 9)]) is not first
    full = Corpus(X, np.float32, 1)
    full._room = first.nbytes  # of which the next one needs more than is left
    assert full.chunk([(3, 9), (20, 21)]) is full.chunk([(3, 9), (20, 21)])
    assert full.chunk([(3, 9)]) is not full.chunk([(3, 9)])
    np.save(tmp_path / "data.npy", X.data)
    mapped = X.copy()
    mapped.data = np.load(tmp_path / "data.npy", mmap_mode="r")
    corpus = Corpus(mapped, np.float32, 1)
    assert corpus.chunk([(3, 9)]) is not corpus.chunk([(3, 9)])  # of any size


def bytes_of(model, X):
    parts = (model.components_, model.bound_history_, model.transform(X))
    return joblib.hash([part.tobytes() for part in parts])


@pytest.fixture
def small_chunks(monkeypatch):
    # many chunks a batch, or one worker would do all the work
    monkeypatch.setattr(chunking, "CHUNK_SIZE", 400)


METHODS = ["batch", "online", "memoized"]


def fit(X, method, n_jobs=None, level=4):
    model = SparseLDA(
        7,
        sparsity_level=level,
        learning_method=method,
        n_batches=3,
        batch_size=200,
        max_iter=3,
        tol=0,
        random_state=0,
        n_jobs=n_jobs,
    )
    return bytes_of(model.fit(X), X)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("level", [4, None])
def test_same_bytes_for_any_number_of_threads_as_workers(X, small_chunks, method, level):
    want = fit(X, method, 1, level)
    for n_jobs in (2, 3):
        with joblib.parallel_config(backend="threading"):
            assert fit(X, method, n_jobs, level) == want
        assert fit(X, method, n_jobs, level) == want


def test_same_bytes_for_processes(X, small_chunks):
    want = fit(X, "memoized", 1)
    with joblib.parallel_config(backend="loky"):
        for n_jobs in (2, 3):
            assert fit(X, "memoized", n_jobs) == want


def test_same_bytes_on_a_dask_cluster(X, small_chunks, local_cluster):
    want = fit(X, "memoized", 1)
    with local_cluster(default=True), joblib.parallel_config(backend="dask"):
        assert fit(X, "memoized", None) == want
        assert fit(X, "memoized", 3) == want


SCRIPT = """
import json, sys
import numpy as np, scipy.sparse as sp
sys.path.insert(0, {folder!r})
import test_parallel
rng = np.random.default_rng(0)
X = sp.random(500, 80, 0.1, random_state=rng, format="csr")
X.data = rng.integers(1, 5, X.nnz).astype(np.float32)
X.sort_indices()
print(json.dumps([test_parallel.fit(X, m) for m in test_parallel.METHODS]))
"""


def test_same_bytes_for_any_omp_num_threads(X):
    want = [fit(X, method) for method in METHODS]
    for n_threads in ("1", "2", "3"):
        script = SCRIPT.format(folder=os.path.dirname(__file__))
        out = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "OMP_NUM_THREADS": n_threads},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert json.loads(out) == want


def test_another_random_state_gives_another_model(X):
    one = SparseLDA(7, random_state=0, max_iter=1).fit(X)
    two = SparseLDA(7, random_state=1, max_iter=1).fit(X)
    assert not np.array_equal(one.components_, two.components_)


def blas_threads():
    """How many threads each library of BLAS has."""
    return [held["num_threads"] for held in threadpool_info() if held["user_api"] == "blas"]


def test_blas_has_one_thread_in_workers():
    def step(chunk, globals_, key):
        return blas_threads()

    X = np.ones((96, 4))
    chunks = [[(first, first + 8)] for first in range(0, 96, 8)]
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        for n_jobs in (1, 2, 3):
            corpus = Corpus(X, np.float64, n_jobs, threaded=False)
            found = list(corpus.map(step, None, chunks=chunks))
            assert found == [[1] * len(before)] * len(chunks)
            assert blas_threads() == before


def test_blas_has_one_thread_in_callbacks():
    # Its other threads would still look for work, on cores of ours, when the next pass begins.
    class Counting(BoundMonitor):
        def _measure(self, fitted_estimator):
            return {"threads": blas_threads()}

    monitor = Counting()
    X = np.random.default_rng(0).normal(size=(60, 3))
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        SparseMixture(2, max_iter=3, tol=0).set_callbacks(monitor).fit(X)
        assert [row["threads"] for row in monitor.get_logs()] == [[1] * len(before)] * 3
        assert blas_threads() == before


# ---------------------------------------------------------------------- units, and groups of rows


@pytest.fixture
def small_dense_chunks(monkeypatch):
    monkeypatch.setattr(chunking, "DENSE_CHUNK_ROWS", 16)
    monkeypatch.setattr(chunking, "DENSE_CHUNK_SIZE", 16 * 16)


def grouped():
    """A corpus of 60 groups, some empty and one longer than a chunk, that tell who they are."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(0, 8, 60)
    sizes[20] = 50
    groups = np.concatenate([[0], np.cumsum(sizes)])
    rows = np.arange(groups[-1])
    X = np.stack([np.repeat(np.arange(60), sizes), rows], axis=1)
    return Corpus(X, np.float64, 1, weight=rows + 0.5, groups=groups), sizes


def check_groups(chunk, sizes):
    """A chunk of whole groups, with what belongs to each."""
    assert chunk.indptr[0] == 0 and chunk.indptr[-1] == chunk.n_rows == len(chunk.weight)
    assert chunk.indptr.dtype == np.int64 and chunk.rows.flags.c_contiguous
    np.testing.assert_array_equal(np.diff(chunk.indptr), sizes[chunk.numbers])
    group, row = chunk.rows.T
    np.testing.assert_array_equal(group, np.repeat(chunk.numbers, sizes[chunk.numbers]))
    first = np.cumsum(sizes) - sizes
    wanted = [np.arange(first[g], first[g] + sizes[g]) for g in chunk.numbers]
    np.testing.assert_array_equal(row, np.concatenate(wanted))
    np.testing.assert_array_equal(chunk.weight, row + 0.5)


def test_chunks_hold_whole_groups(small_dense_chunks):
    corpus, sizes = grouped()
    assert corpus.n_samples == 60
    plan = corpus.plan()
    chunks = [corpus.chunk(runs) for runs in plan]
    np.testing.assert_array_equal(np.concatenate([c.numbers for c in chunks]), np.arange(60))
    for chunk in chunks:
        check_groups(chunk, sizes)
        assert chunk.start is None
    # As many rows as a chunk should have, and a group more or less.
    assert len(plan) > 8 and max(c.n_rows for c in chunks if 20 not in c.numbers) < 16 + 8
    assert [c.numbers.tolist() for c in chunks if 20 in c.numbers][0][-1] == 20


@pytest.mark.parametrize("n_batches", [1, 3, 7])
def test_batches_of_groups_keep_their_numbers(small_dense_chunks, n_batches):
    corpus, sizes = grouped()
    batches = deal_units(60, n_batches, np.random.default_rng(0))
    seen = []
    for runs in batches:
        cut = corpus.cut(runs)
        np.testing.assert_array_equal(np.concatenate(list(map(rows_of, cut))), rows_of(runs))
        for chunk in map(corpus.chunk, cut):
            check_groups(chunk, sizes)
            seen.append(chunk.numbers)
    np.testing.assert_array_equal(np.sort(np.concatenate(seen)), np.arange(60))


@pytest.mark.parametrize("kind", ["sparse", "dense"])
@pytest.mark.parametrize("n_batches", [1, 4])
def test_numbers_are_those_of_the_units(X, small_chunks, small_dense_chunks, kind, n_batches):
    data = X if kind == "sparse" else X.toarray()
    weight = np.random.default_rng(1).random(500)
    corpus = Corpus(data, np.float64, 1, weight=weight)
    seen = []
    for runs in deal_units(500, n_batches, np.random.default_rng(0)):
        chunks = corpus.cut(runs)
        assert len(chunks) > 1
        for chunk, units in zip(map(corpus.chunk, chunks), chunks, strict=True):
            np.testing.assert_array_equal(chunk.numbers, rows_of(units))
            rows = chunk.rows.toarray() if kind == "sparse" else chunk.rows
            np.testing.assert_array_equal(rows, X.toarray()[chunk.numbers])
            np.testing.assert_array_equal(chunk.weight, weight[chunk.numbers])
            seen.append(chunk.numbers)
    np.testing.assert_array_equal(np.sort(np.concatenate(seen)), np.arange(500))


def tell(chunk, globals_, key):
    return chunk.numbers.tolist(), chunk.start, globals_.name, globals_.table.sum(), key


@pytest.mark.parametrize("backend", ["threading", "loky"])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_globals_key_and_starts_reach_the_step(X, small_chunks, backend, n_jobs):
    globals_ = Globals(name="these", table=np.arange(5.0))
    corpus = Corpus(X, np.float64, n_jobs)
    chunks = corpus.plan()
    starts = [f"start {i}" for i in range(len(chunks))]
    with joblib.parallel_config(backend=backend):
        found = list(corpus.map(tell, globals_, (7, 3), chunks=chunks, starts=starts))
        alone = list(corpus.map(tell, globals_))  # all chunks, no key and no starts
    assert len(found) > 4
    for runs, start, told, other in zip(chunks, starts, found, alone, strict=True):
        numbers = rows_of(runs).tolist()
        assert told == (numbers, start, "these", 10.0, (7, 3))
        assert other == (numbers, None, "these", 10.0, None)


# ---------------------------------------------------------------------- threads


def test_settled_threads_are_obeyed(monkeypatch):
    monkeypatch.setattr(threads, "most_threads", lambda: 4)
    much, little = threads.SMALL_WORK + 1, threads.SMALL_WORK
    assert threads.threads_for(much) == 4 and threads.threads_for(little) == 1
    for wanted, got in ((1, 1), (3, 3), (9, 4)):
        with threads.settled_threads(wanted):
            assert threads.threads_for(much) == got and threads.threads_for(little) == 1
            with threads.settled_threads(2):
                assert threads.threads_for(much) == 2
            assert threads.threads_for(much) == got
    with pytest.raises(KeyError), threads.settled_threads(2):
        raise KeyError
    assert threads.threads_for(much) == 4


@pytest.mark.parametrize("n_jobs, threaded, want", [(1, True, 1), (2, True, 1), (4, False, 1)])
def test_workers_settle_their_threads(X, small_chunks, monkeypatch, n_jobs, threaded, want):
    monkeypatch.setattr(threads, "most_threads", lambda: 4)

    def step(chunk, globals_, key):
        return threads.threads_for(threads.SMALL_WORK + 1)

    def found(chunks=None):
        corpus = Corpus(X, np.float64, n_jobs, threaded=threaded)
        return set(corpus.map(step, None, chunks=chunks))

    assert found() == {want}
    assert found([[(0, 100)]]) == {n_jobs}  # one chunk has all of them
    assert threads.threads_for(threads.SMALL_WORK + 1) == 4  # here nothing is settled


@pytest.mark.parametrize("n", [0, 1, 31, 32, 33, 1000])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_slices_cover_all_and_do_not_depend_on_threads(monkeypatch, n, n_threads):
    monkeypatch.setattr(threads, "most_threads", lambda: 3)
    with threads.settled_threads(n_threads):
        found = threads.map_slices(lambda held: list(range(n))[held], n)
    assert [i for part in found for i in part] == list(range(n))
    assert all(len(part) == threads.SLICE for part in found[:-1])


# ---------------------------------------------------------------------- what is shipped


def models():
    """Each kind of model, and a state of it."""
    rng = np.random.default_rng(0)
    prior = np.full((1, 1), 0.1)
    topics = Admixture(Multinomial("bayes", prior, 5000), DirichletDocuments(np.full(40, 0.1)), 40)
    counts = Mixture(Multinomial("bayes", prior, 5000), DirichletWeights("bayes", 1.0), 40)
    bits = Mixture(Bernoulli("bayes", np.ones((5000, 2))), DirichletWeights("bayes", 1.0), 40)
    for model in (topics, counts, bits):
        stats = model.empty_stats()
        for array in stats.arrays.values():
            array += rng.random(array.shape)
        yield model, FitState(stats, learned=model.first_learned())


@pytest.mark.parametrize("model, state", list(models()), ids=["topics", "counts", "bits"])
def test_what_a_task_ships_is_small(model, state):
    globals_ = model.globals_of(state)
    # Dask ships apart, and once, what is large and can be held weakly.
    assert weakref.ref(globals_)() is globals_
    assert hash(globals_) == hash(globals_) and globals_ in {globals_}
    n_bytes = 8 * 5000 * 40
    assert n_bytes <= sys.getsizeof(globals_) < 1.1 * n_bytes
    assert len(pickle.dumps(globals_)) < 1.1 * n_bytes
    assert len(pickle.dumps(model.local_step)) < 1000


def test_topics_travel(dtype):
    components = np.random.default_rng(0).random((40, 3000)).astype(dtype)
    used = np.arange(3000) % 3 > 0
    table = TopicTable.of_components(components, used, 4, dtype)
    documents = DirichletDocuments(np.full(40, 0.1))
    inference = DirichletInference(documents, documents.alpha)
    assert weakref.ref(table)() is table
    n_bytes = components.itemsize * 2000 * 40
    assert n_bytes <= sys.getsizeof(table) < 1.3 * n_bytes
    for name in ("counts", "weights", "active_weights"):
        assert len(pickle.dumps(getattr(inference, name))) < 2000
    there = pickle.loads(pickle.dumps(table))
    assert type(there) is TopicTable
    np.testing.assert_array_equal(there.position, table.position)
    for one, other in zip(there.rows, table.rows, strict=True):
        np.testing.assert_array_equal(one, other)


def test_sizes_of_globals_are_those_of_their_arrays():
    class Part:
        def __init__(self):
            self.table = np.zeros(300)

    empty = sys.getsizeof(Globals())
    nested = {"one": np.zeros(100), "more": [np.zeros(10), (np.zeros(5), "text")]}
    assert sys.getsizeof(Globals(table=np.zeros(200))) - empty == 1600
    assert sys.getsizeof(Globals(nested=nested, part=Part(), n=3)) - empty == 8 * 415


def test_an_interrupt_between_lines_leaves_nothing_settled(monkeypatch):
    monkeypatch.setattr(threads, "most_threads", lambda: 4)
    much = threads.SMALL_WORK + 1
    with threads.settled_threads(3):
        with threads.settled_as_before():
            kept = threads.settled_threads(1)
            kept.__enter__()  # and its end is never reached
            assert threads.threads_for(much) == 1
        assert threads.threads_for(much) == 3
    assert threads.threads_for(much) == 4


# ---------------------------------------------------------------------- memory of processes


def test_freed_memory_is_kept_while_anybody_works(monkeypatch):
    told = []

    class Library:
        gnu_get_libc_version = None

        @staticmethod
        def mallopt(name, value):
            told.append((name, value))

        @staticmethod
        def malloc_trim(pad):
            told.append("trimmed")

    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: Library)
    environment = {"MALLOC_TRIM_THRESHOLD_": "65536"}
    monkeypatch.setattr(memory, "_first_environment", lambda: environment)
    monkeypatch.setattr(memory, "_ALLOCATOR", memory._Allocator())
    monkeypatch.setattr(memory, "KEPT_SECONDS", 1e3)
    trim, pad, mmap = memory.M_TRIM_THRESHOLD, memory.M_TOP_PAD, memory.M_MMAP_THRESHOLD
    kept = [(trim, 3 << 26), (pad, 1 << 26), (mmap, 1 << 25)]
    given_back = [(trim, 65536), (pad, 1 << 17), (mmap, 1 << 17), "trimmed"]
    for _ in range(2):  # the second time before the first one's time is over
        with memory.freed_memory_kept():
            with memory.freed_memory_kept():
                assert told == kept
            assert told == kept
        first = memory._ALLOCATOR.timer
    monkeypatch.setattr(memory, "KEPT_SECONDS", 0)
    with memory.freed_memory_kept():
        assert told == kept
    while memory._ALLOCATOR.timer is not None:
        time.sleep(0.01)
    assert told == kept + given_back
    first.function(Library)  # a timer that is not the last one ends nothing
    held = environment.pop("MALLOC_TRIM_THRESHOLD_")
    with memory.freed_memory_kept():
        pass  # left alone, as where the library is another
    assert told == kept + given_back
    told.clear()
    with memory.freed_memory_kept(always=True):
        assert told == kept
    while memory._ALLOCATOR.timer is not None:
        time.sleep(0.01)
    # Of thresholds that glibc raises by itself there is no way back but to the highest.
    assert told[3:] == [(trim, 1 << 26), (pad, 1 << 17), (mmap, 1 << 25), "trimmed"]
    environment["MALLOC_TRIM_THRESHOLD_"] = held
    told.clear()
    del Library.gnu_get_libc_version
    for always in (False, True):
        with memory.freed_memory_kept(always=always):
            assert not told


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="others have no such parameter")
def test_arrays_that_go_leave_their_pages():
    """New pages for each of some arrays where memory is given back at once; else the same ones."""
    code = """
import resource
import numpy as np
from sklearn_sparsepost._run import memory

def new_pages():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(100):
        np.ones(1 << 17)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

memory.KEPT_SECONDS = 0.01
before = new_pages()
with memory.freed_memory_kept():
    inside = new_pages()
memory._ALLOCATOR.timer.join()
print(before, inside, new_pages())
"""
    env = {**os.environ, "MALLOC_TRIM_THRESHOLD_": "65536"}
    found = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    before, inside, after = map(int, found.stdout.split())
    assert inside < before / 10 and inside < after / 10


def test_large_memory_is_used_again_for_a_while(monkeypatch):
    shape = 1000, memory.LEAST_KEPT // 8000 + 2
    monkeypatch.setattr(memory._LeftBriefly, "blocks", deque(maxlen=2))
    monkeypatch.setattr(memory, "KEPT_SECONDS", 1e3)
    table = memory.recycled_briefly(shape, np.float64)
    where = table.ctypes.data
    del table
    again = memory.recycled_briefly(shape, np.float64)
    assert again.ctypes.data == where and again.shape == shape and again.flags.writeable
    del again
    other = memory.recycled_briefly((5000, shape[1]), np.float64)  # which that one is too small for
    assert other.ctypes.data != where and memory._LeftBriefly.blocks
    again = memory.recycled_briefly(shape, np.float64)
    assert again.ctypes.data == where and not memory._LeftBriefly.blocks
    small = memory.recycled_briefly((3, 2), np.float32)
    assert small.dtype == np.float32
    del small
    assert not memory._LeftBriefly.blocks


def test_large_memory_is_given_back_in_the_end(monkeypatch):
    shape = 1000, memory.LEAST_KEPT // 8000 + 2
    monkeypatch.setattr(memory._LeftBriefly, "blocks", deque(maxlen=2))
    monkeypatch.setattr(memory._LeftBriefly, "watched", False)
    monkeypatch.setattr(memory, "KEPT_SECONDS", 0.05)
    before = threading.active_count()
    for _ in range(20):
        memory.recycled_briefly(shape, np.float64)
    assert memory._LeftBriefly.blocks and threading.active_count() <= before + 2
    deadline = time.monotonic() + 60
    while memory._LeftBriefly.blocks and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not memory._LeftBriefly.blocks


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_gives_back_memory_by_a_timer_of_its_own(monkeypatch):
    monkeypatch.setattr(memory._LeftBriefly, "blocks", deque(maxlen=2))
    monkeypatch.setattr(memory._LeftBriefly, "watched", True)  # by a timer of the parent
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which the child leaves
        child = os.fork()
    if not child:
        memory.recycled_briefly((1000, memory.LEAST_KEPT // 8000 + 2), np.float64)
        os._exit(0 if threading.active_count() == 2 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
