"""
======================================
A cluster, one of whose workers dies
======================================

The blocks of a Dask array stay on the workers that hold them:
:class:`~sklearn_sparsepost.SparseLDA` sends topics there and gets sums back. Here one of three
worker processes is killed in the middle of a fit. Others make its blocks anew and work on them, and
the topics are those of an undisturbed fit, to the last bit. The picture shows what each worker did,
as the task stream of Dask's dashboard does.
"""

import subprocess
import sys
import threading

import dask
import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from dask import delayed
from distributed import Client, LocalCluster, get_task_stream

from sklearn_sparsepost import SparseLDA
from sklearn_sparsepost.datasets import make_lda_corpus

# %%
# Data in blocks
# --------------
#
# Each block is made by a task, so that it can be made anew: in practice one that reads a file and
# counts its words. There are more blocks than workers, for others to share if one is lost.

X, topics, _ = make_lda_corpus(4000, 1000, 20, random_state=0)
blocks = [
    da.from_delayed(delayed(X[first : first + 500]), (500, 1000), X.dtype)
    for first in range(0, 4000, 500)
]
there = da.concatenate(blocks)
lda = SparseLDA(
    20,
    learning_method="batch",
    init="random",
    max_iter=3,
    tol=0,
    random_state=0,
)

# %%
# Without a cluster the blocks are held in this process, under the same plan.

want = lda.fit(there).components_.copy()

# %%
# Three workers, and then two
# ---------------------------
#
# A callback kills the third worker, a moment after the second pass has begun. Dask tries to reach a
# worker for 30 seconds before it is given up; here for three.

dask.config.set({"distributed.comm.timeouts.connect": "3s"})


def start_worker(address):
    """Start a worker process that nobody starts again."""
    command = [sys.executable, "-m", "distributed.cli.dask_worker", address]
    options = ["--nthreads", "1", "--no-nanny", "--no-dashboard"]
    return subprocess.Popen(
        [*command, *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


class KillOnce:
    """Kill a process in the second pass of a fit."""

    def __init__(self, process):
        self.process = process
        self.passes = 0

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        self.passes += context.task_name == "pass"
        if self.passes == 2 and self.process.poll() is None:
            threading.Timer(0.5, self.process.kill).start()

    def on_fit_task_end(self, estimator, context):
        pass


with LocalCluster(
    n_workers=0, protocol="tcp://", dashboard_address=None
) as cluster:
    workers = [start_worker(cluster.scheduler_address) for _ in range(3)]
    with Client(cluster) as client:
        client.wait_for_workers(3)
        lda.set_callbacks(KillOnce(workers[-1]))
        with get_task_stream(client) as stream:
            lda.fit(there)
        n_left = len(client.scheduler_info()["workers"])
    for worker in workers:
        worker.kill()
        worker.wait()
lda.set_callbacks()

print(f"{n_left} workers are left")
print(f"the same bytes: {bool((lda.components_ == want).all())}")

# %%
# The task stream
# ---------------
#
# A row is a worker. Each pass works on all blocks, and joins their sums in a tree. The row that
# ends is that of the dead worker: others read its blocks again, and go on.

KINDS = {
    "_checked": ("reading and checking a block", "#ee7733"),
    "_on_worker": ("local steps of a block", "#0077bb"),
    "_joined": ("joining two sums", "#cc3311"),
}
addresses = sorted(
    {task["worker"] for task in stream.data},
    key=lambda address: max(
        t["startstops"][-1]["stop"]
        for t in stream.data
        if t["worker"] == address
    ),
    reverse=True,
)
began = min(
    task["startstops"][0]["start"]
    for task in stream.data
    if str(task["key"]).startswith("_checked")
)
fig, ax = plt.subplots(figsize=(10, 2.8), layout="constrained")
labels = set()
for task in stream.data:
    kind = next((k for k in KINDS if str(task["key"]).startswith(k)), None)
    if kind is None:
        continue
    label, colour = KINDS[kind]
    row = addresses.index(task["worker"])
    for part in task["startstops"]:
        if part["action"] == "compute":
            ax.broken_barh(
                [(part["start"] - began, part["stop"] - part["start"])],
                (row - 0.4, 0.8),
                color=colour,
                ec="white",
                lw=0.5,
                label=None if label in labels else label,
            )
            labels.add(label)
last = max(
    t["startstops"][-1]["stop"]
    for t in stream.data
    if t["worker"] == addresses[-1]
)
if n_left < 3:
    ax.plot(
        last - began, len(addresses) - 1, "x", color="#444444", ms=12, mew=3
    )
ax.set(
    xlabel="time (s)",
    yticks=np.arange(len(addresses)),
    yticklabels=[f"worker {i + 1}" for i in range(len(addresses))],
    title="What each worker did, and the end of the one that was killed",
)
ax.legend(
    frameon=False, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.3)
)
ax.spines[["top", "right", "left"]].set_visible(False)
plt.show()
