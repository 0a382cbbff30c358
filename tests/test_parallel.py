"""The chunk plan depends on the data only, and results on nothing but data and parameters."""

import json
import os
import subprocess
import sys

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from threadpoolctl import threadpool_info, threadpool_limits

from sklearn_sparsepost import SparseLDA
from sklearn_sparsepost._run import chunks as parallel


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    X = sp.random(500, 80, 0.1, random_state=rng, format="csr")
    X.data = rng.integers(1, 5, X.nnz).astype(np.float32)
    X.sort_indices()
    return X


def rows_of(runs):
    return np.concatenate([np.arange(*run) for run in runs])


def test_split_rows_covers_every_row_once(X):
    for size in (1, 50, 1000, 10**9):
        runs = parallel.split_rows(X.indptr, 0, 500, size)
        np.testing.assert_array_equal(rows_of(runs), np.arange(500))
        assert all(a < b for a, b in runs)


@pytest.mark.parametrize("n_batches", [1, 3, 10, 499, 500])
def test_batches_deal_every_row_once(n_batches):
    batches = parallel.deal_rows(500, n_batches, np.random.default_rng(0))
    assert len(batches) == n_batches
    np.testing.assert_array_equal(np.sort(np.concatenate(list(map(rows_of, batches)))), range(500))
    sizes = [len(rows_of(runs)) for runs in batches]
    assert max(sizes) - min(sizes) <= 500 // n_batches // 4 + 8


def test_cut_batch_keeps_order_and_size(X):
    batch = parallel.deal_rows(500, 2, np.random.default_rng(1))[0]
    chunks = parallel.cut_batch(X, batch, 300)
    np.testing.assert_array_equal(np.concatenate(list(map(rows_of, chunks))), rows_of(batch))
    assert len(chunks) > 3


@pytest.mark.parametrize("index_type", [np.int32, np.int64])
def test_make_chunk_reads_the_rows(X, dtype, index_type):
    Y = X.copy()
    Y.indices, Y.indptr = Y.indices.astype(index_type), Y.indptr.astype(index_type)
    runs = [(3, 9), (20, 21), (400, 500)]
    chunk = parallel.make_chunk(Y, runs, dtype)
    got = sp.csr_matrix((chunk.data, chunk.indices, chunk.indptr), shape=(chunk.n_rows, 80))
    np.testing.assert_array_equal(got.toarray(), X.toarray()[rows_of(runs)])
    assert chunk.data.dtype == dtype and chunk.indices.dtype == np.int32


def test_make_chunk_sorts_and_sums_duplicates():
    X = sp.csr_matrix(([1.0, 2.0, 3.0, 4.0], [5, 1, 5, 0], [0, 3, 4]), shape=(2, 6))
    chunk = parallel.make_chunk(X, [(0, 2)], np.float64)
    np.testing.assert_array_equal(chunk.indices, [1, 5, 0])
    np.testing.assert_array_equal(chunk.data, [2, 4, 4])
    np.testing.assert_array_equal(X.indices, [5, 1, 5, 0])


def bytes_of(model, X):
    parts = (model.components_, model.bound_history_, model.transform(X))
    return joblib.hash([part.tobytes() for part in parts])


@pytest.fixture
def small_chunks(monkeypatch):
    # many chunks a batch, or one worker would do all the work
    monkeypatch.setattr(parallel, "CHUNK_SIZE", 400)
    monkeypatch.setattr(parallel.cut_batch, "__defaults__", (400,))


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


def test_same_bytes_on_a_dask_cluster(X, small_chunks):
    distributed = pytest.importorskip("distributed", reason="needs the tests extra")
    want = fit(X, "memoized", 1)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
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


def test_blas_has_one_thread_in_workers():
    def blas_threads():
        return [library["num_threads"] for library in threadpool_info() if is_blas(library)]

    def is_blas(library):
        return library["user_api"] == "blas"

    def step(chunk, n_threads):
        with parallel.single_blas():
            return blas_threads()

    X = np.ones((96, 4))
    chunks = [[(first, first + 8)] for first in range(0, 96, 8)]
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        for n_jobs in (1, 2, 3):
            found = list(parallel.run_chunks(step, X, chunks, np.float64, n_jobs))
            assert found == [[1] * len(before)] * len(chunks)
            assert blas_threads() == before
