"""Clusters without memory, or without a scheduler: one clear error, soon."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import pytest
from sklearn.base import clone
from test_collections import COUNT_CUTS, blocked
from test_failures import COUNTS, ESTIMATORS, NO_SIGKILL, Failing, seen

from sklearn_sparsepost._models.admixture import Admixture

distributed = pytest.importorskip("distributed", reason="needs the dask extra")
dask = pytest.importorskip("dask", reason="needs the dask extra")

# Within so many seconds a fit says that the scheduler is lost.
SOON = 20


def greedy_step(row):
    """The local step of topics; a chunk that has a row wants more memory than there is."""
    step = Admixture.local_step

    def local_step(chunk, globals_, key=None):
        if row in chunk.numbers:
            held = []
            for _ in range(200):
                held.append(np.ones(1 << 21))
                time.sleep(0.01)
        return step(chunk, globals_, key)

    return staticmethod(local_step)


@NO_SIGKILL
@pytest.mark.parametrize("name", ["LDA memoized", "LDA batch", "LDA online"])
def test_a_memory_limit_is_told_with_the_block_and_what_to_change(name, monkeypatch, quick_workers):
    lda = clone(ESTIMATORS[name]).set_params(warm_start=True)
    X = blocked(COUNTS, COUNT_CUTS)
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0, **quick_workers}),
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, memory_limit="900 MB", dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster),
    ):
        lda.set_params(max_iter=1).fit(X)
        before = seen(lda)
        monkeypatch.setattr(Admixture, "local_step", greedy_step(row=45))
        # Dask cannot tell a task that waits where the worker dies from the one that killed it.
        told = "for want of memory.* chunks of (block|one of the blocks [01, ]*) ?2 of X .*smaller"
        with pytest.raises(RuntimeError, match=told):
            lda.fit(X)
    assert seen(lda) == before


@contextmanager
def processes_of_a_cluster(folder):
    """The client of a scheduler and a worker that are processes, and the scheduler."""
    file = str(folder / "scheduler.json")
    options = ["--scheduler-file", file]
    command = [sys.executable, "-m", "distributed.cli.dask_"]
    made = []
    for name, more in (
        ("scheduler", ["--port", "0", "--no-dashboard"]),
        ("worker", ["--no-nanny", "--no-dashboard", "--nthreads", "1"]),
    ):
        whole = [*command[:-1], command[-1] + name, *options, *more]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        made.append(subprocess.Popen(whole, cwd=folder, **quiet))
    try:
        with distributed.Client(scheduler_file=file, timeout=10) as client:
            client.wait_for_workers(1, timeout=60)
            yield made[0]
    finally:
        for process in made:
            process.kill()
            process.wait()


@NO_SIGKILL
def test_a_lost_scheduler_is_told_soon(tmp_path):
    lda = clone(ESTIMATORS["LDA memoized"]).set_params(max_iter=9)
    X, ended = blocked(COUNTS, COUNT_CUTS), []

    def end(estimator, context):
        if context.task_name == "pass" and context.task_id == 1:
            os.kill(scheduler.pid, signal.SIGKILL)
            ended.append(time.monotonic())

    ending = Failing(None)
    ending.on_fit_task_end = end
    quick = dask.config.set({"distributed.comm.timeouts.connect": "5s"})  # where all is over
    with quick, processes_of_a_cluster(tmp_path) as scheduler:
        with pytest.raises(RuntimeError, match="cluster is gone.* warm_start=True goes on from"):
            lda.set_callbacks(ending).fit(X)
        assert time.monotonic() - ended[0] < SOON
    lda.set_callbacks()
    assert lda.n_iter_ >= 2 and np.isfinite(lda.components_).all()


def test_a_cluster_that_is_gone(local_cluster):
    X = blocked(COUNTS, COUNT_CUTS)
    estimator = clone(ESTIMATORS["LDA memoized"]).set_params(warm_start=True)
    with local_cluster(1, processes=False) as client:
        with client.as_current():
            held = X.persist()
            estimator.fit(held)
        before = seen(estimator)
    with pytest.raises(RuntimeError, match="the Dask cluster is gone"):
        estimator.fit(held)
    assert seen(estimator) == before
    estimator.fit(X)
    assert estimator.n_iter_ == 6
