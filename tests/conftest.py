"""Fixtures that more than one test file uses."""

import logging
import multiprocessing
import os
import sys
from contextlib import contextmanager
from pathlib import Path

if "PYTEST_XDIST_WORKER" in os.environ:  # read when OpenMP is loaded
    # Threads that spin while they wait would take the time of the tests beside them.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("MPLBACKEND", "Agg")  # pictures are drawn, and nobody looks

import numpy as np
import pytest
import scipy.sparse as sp

from sklearn_sparsepost.datasets import make_lda_corpus

SHARED = Path(__file__).resolve().parents[2] / "shared"
REASON = "needs the real corpora in ../shared, beside the checkout: see benchmarks/README.md"


@pytest.fixture(scope="session")
def corpus():
    """A small corpus drawn from LDA: 300 documents, 120 words, 6 topics."""
    return make_lda_corpus(300, 120, 6, doc_length=60, random_state=0)[0]


@pytest.fixture(scope="session")
def real_corpus():
    """A function that reads a real corpus, or skips."""

    def read(name):
        path = SHARED / "data" / name / "X.npz"
        if not path.exists():
            pytest.skip(REASON)
        return sp.load_npz(path)

    return read


@pytest.fixture(scope="session")
def judge():
    """The held-out judge of ../shared, or a skip."""
    folder = SHARED / "eval"
    if not (folder / "heldout.py").exists():
        pytest.skip(REASON)
    sys.path.insert(0, str(folder))
    try:
        import heldout
    finally:
        sys.path.remove(str(folder))
    return heldout


@pytest.fixture(scope="session")
def quick_workers():
    """Dask's options for workers that are forked by a process that has imported everything."""
    utils = pytest.importorskip("distributed.utils", reason="needs the tests extra")
    import dask

    if "forkserver" not in multiprocessing.get_all_start_methods():
        return {}
    options = {"distributed.worker.multiprocessing-method": "forkserver"}
    with dask.config.set(options):
        context = utils.get_mp_context()
    context.set_forkserver_preload(["distributed", "dask.array", "sklearn_sparsepost"])
    return options


@pytest.fixture(scope="session")
def local_cluster(quick_workers):
    """A context manager: the client of a Dask cluster on this machine."""
    import dask
    import distributed

    @contextmanager
    def started(n_workers=2, n_threads=1, *, processes=True, default=False):
        with (
            dask.config.set(quick_workers),
            distributed.LocalCluster(
                n_workers=n_workers,
                threads_per_worker=n_threads,
                processes=processes,
                dashboard_address=":0",  # any port: another test may have a cluster, too
            ) as cluster,
            distributed.Client(cluster, set_as_default=default) as client,
        ):
            yield client

    return started


@pytest.fixture
def failed_tasks():
    """What workers of this process log of tasks that fail."""
    logger, found = logging.getLogger("distributed.worker"), []
    handler = logging.Handler()
    handler.emit = lambda record: "Failed" in record.getMessage() and found.append(record)
    logger.addHandler(handler)
    yield found
    logger.removeHandler(handler)


@pytest.fixture(scope="module")
def threads_cluster(local_cluster):
    """A cluster of one worker with two threads, in this process."""
    with local_cluster(1, 2, processes=False) as client:
        yield client


@pytest.fixture(scope="module")
def process_cluster(local_cluster):
    """A cluster of two processes."""
    with local_cluster() as client:
        yield client


@pytest.fixture
def mortal_cluster(local_cluster):
    """Another one, of a test's own: a worker killed while it starts does not always come back."""
    import dask

    with (
        # By default workers try to reach a dead one for 30 seconds.
        dask.config.set({"distributed.comm.timeouts.connect": "2s"}),
        local_cluster() as client,
    ):
        client.wait_for_workers(2, timeout=60)
        yield client


@pytest.fixture(params=[np.float32, np.float64], ids=["float32", "float64"])
def dtype(request):
    return request.param


@pytest.fixture(scope="module")
def patches():
    """Zero-mean rows whose components' variances lie over six decades, 24 features."""
    rng = np.random.default_rng(1)
    rows = []
    for _ in range(20):
        basis = np.linalg.qr(rng.normal(size=(24, 24)))[0]
        rows.append(rng.normal(size=(150, 24)) * np.logspace(0, -3, 24) @ basis)
    return np.concatenate(rows)[rng.permutation(3000)]
