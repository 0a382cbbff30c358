"""
=====================================
A corpus that does not fit in memory
=====================================

:class:`~sklearn_sparsepost.SparseLDA` reads a CSR matrix a batch at a time and never copies it, so
its arrays may be files. Here a matrix is written to disk in pieces, and topics are learned from it
by a process that is not allowed the memory to hold it. Where there is not even a matrix but a
stream of texts, ``partial_fit`` learns from each batch and forgets it.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from sklearn.utils import gen_batches, shuffle

from sklearn_sparsepost import SparseLDA
from sklearn_sparsepost.datasets import load_docstrings

MB = 2**20
corpus = load_docstrings()
texts = shuffle(corpus.data, random_state=0)

# %%
# A matrix on disk
# ----------------
#
# The documents are drawn from the docstrings of numpy, scipy and scikit-learn, with replacement and
# with new counts, a piece at a time. A CSR matrix is three arrays: row pointers, columns, counts.
# Each goes to a file of its own, which ``numpy.load`` can map into memory later. Row pointers and
# columns have to be of the same integer type, or else scipy makes copies that are.

words = {"stop_words": "english", "token_pattern": "[a-z]{3,}"}
X = CountVectorizer(**words, min_df=5, max_df=0.2).fit_transform(texts)
rng = np.random.default_rng(0)
drawn = rng.integers(X.shape[0], size=800_000)
indptr = np.concatenate([[0], np.cumsum(np.diff(X.indptr)[drawn])]).astype(
    X.indices.dtype
)

folder = tempfile.TemporaryDirectory()
path = Path(folder.name)
np.save(path / "indptr.npy", indptr)
indices, counts = (
    np.lib.format.open_memmap(
        path / name, mode="w+", dtype=dtype, shape=(int(indptr[-1]),)
    )
    for name, dtype in (
        ("indices.npy", X.indices.dtype),
        ("data.npy", X.dtype),
    )
)
for rows in gen_batches(len(drawn), 20_000):
    piece = X[drawn[rows]]
    entries = slice(indptr[rows.start], indptr[rows.stop])
    indices[entries] = piece.indices
    counts[entries] = np.maximum(rng.poisson(piece.data), 1)
del indices, counts  # closes the files
matrix_mb = sum(file.stat().st_size for file in path.iterdir()) / MB
print(
    f"{len(drawn):,} documents with {indptr[-1]:,} counts: {matrix_mb:.0f} MB "
    "on disk"
)

# %%
# Learning under a limit
# ----------------------
#
# The fit runs in a process of its own, to which the system grants 400 MB more than it has after its
# imports (``RLIMIT_DATA``, on Linux): a copy of the matrix would end it with a ``MemoryError``.
# Meanwhile a thread notes the anonymous memory, which is what a process has in memory apart from
# files. Pages of the mapped files are not counted: the system drops them when memory is short.
#
# Online learning keeps the topics and the present batch. Memoized learning would also keep the
# statistics of all batches, sparse as they are.

PROGRAM = """
import json, sys, threading, time
import numpy as np, scipy.sparse as sp
from sklearn_sparsepost import SparseLDA

def memory(field):  # in MB, None where the system does not tell
    try:
        with open("/proc/self/status") as status:
            found = (line for line in status if line.startswith(field))
            return int(next(found).split()[1]) / 1024
    except (OSError, StopIteration):
        return None

indptr, indices, data = (
    np.load(f"{sys.argv[1]}/{name}.npy", mmap_mode="r")
    for name in ("indptr", "indices", "data")
)
shape = len(indptr) - 1, int(sys.argv[2])
X = sp.csr_matrix((data, indices, indptr), shape=shape, copy=False)

limit = memory("VmData")
if limit is not None:
    import resource
    hard = int((limit + float(sys.argv[3])) * 2**20)
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))

curve, ended, began = [], threading.Event(), time.perf_counter()
def watch():
    while not ended.wait(0.05):
        curve.append((time.perf_counter() - began, memory("RssAnon")))
watcher = threading.Thread(target=watch)
watcher.start()
try:
    lda = SparseLDA(
        30,
        learning_method="online",
        batch_size=8192,
        max_iter=1,
        evaluate_every=0,
        random_state=0,
    )
    lda.fit(X)
    seconds = time.perf_counter() - began
finally:
    ended.set()
    watcher.join()
np.save(f"{sys.argv[1]}/components.npy", lda.components_)
json.dump({"curve": curve, "seconds": seconds}, sys.stdout)
"""
ALLOWANCE_MB = 400
command = [
    sys.executable,
    "-c",
    PROGRAM,
    folder.name,
    str(X.shape[1]),
    str(ALLOWANCE_MB),
]
report = json.loads(
    subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
)
components = np.load(path / "components.npy")
folder.cleanup()

times, resident = np.array(report["curve"], dtype=float).T
measured = not np.isnan(resident).any()
print(f"One pass in {report['seconds']:.1f} s; ", end="")
if measured:
    print(
        f"{resident[0]:.0f} MB resident after the imports, "
        f"{resident.max():.0f} MB at most"
    )
else:
    print(
        "this system does not tell a process's anonymous memory, so there is "
        "no curve"
    )
score = SparseLDA.from_topics(components).score(X)
print(f"The topics predict the docstrings at {score:.3f} nats a word")

# %%
# A stream of texts
# -----------------
#
# A stream has no vocabulary yet. ``HashingVectorizer`` needs none: words go to columns by their
# hash, and with these settings its values are counts. The first batch also finds the first topics,
# so it had better be a large one; ``total_samples`` says how many documents are to be expected.

hashing = HashingVectorizer(
    n_features=2**14, alternate_sign=False, norm=None, **words
)
held_out = hashing.transform(texts[-500:])
stream = texts[:-500]
lda = SparseLDA(
    30, learning_offset=10, total_samples=len(stream), random_state=0
)
seen, scores = [], []
for batch in [
    slice(0, 800),
    *(slice(i, i + 200) for i in range(800, len(stream), 200)),
]:
    lda.partial_fit(hashing.transform(stream[batch]))
    seen.append(min(batch.stop, len(stream)))
    scores.append(lda.score(held_out))
print(
    f"Held-out score of the stream: {scores[0]:.3f} after {seen[0]} "
    "documents, ",
    end="",
)
print(f"{scores[-1]:.3f} after {seen[-1]:,}")

# %%
# The memory in use stays below the size of the matrix. It peaks while the first topics are found,
# in a sample of the documents; from then on there are the topics and the present batch. Neither
# grows with the number of documents.

BLUE, RED, INK = "#0077bb", "#cc3311", "#444444"

fig, (left, right) = plt.subplots(
    1, 2, figsize=(12, 4.4), layout="constrained"
)
left.set(
    title="A matrix on disk: memory stays below its size",
    xlabel="time (s)",
    ylabel="anonymous memory (MB)",
)
left.axhline(matrix_mb, color=RED, lw=1.5, ls="--")
left.text(0, matrix_mb * 0.985, "size of the matrix", color=RED, va="top")
if measured:
    left.plot(times, resident, color=BLUE, lw=2)
    left.text(times[-1], resident[-1] + 8, "in use", color=BLUE, ha="right")
    peak = times[resident.argmax()]
    left.annotate(
        "while finding the first topics",
        (peak, resident.max()),
        xytext=(0, 5),
        textcoords="offset points",
        color=BLUE,
    )
left.set_ylim(0, 1.08 * matrix_mb)
right.plot(seen, scores, color=BLUE, marker="o", ms=4, lw=1.6)
right.set(
    title="A stream of texts: more documents, better topics",
    xlabel="documents seen",
    ylabel="held-out score (nats a word)",
)
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(colors=INK)
plt.show()
