"""
=====================================
Topics found, pass by pass: the bars
=====================================

:class:`~sklearn_sparsepost.SparseHDP` begins with too many topics. Merges and deletes, accepted
only if the bound of the whole corpus rises, leave the bars that images were drawn from. After
figure 5 of Hughes, Kim & Sudderth (2015); see :ref:`sparse_hdp`.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_sparsepost import SparseHDP
from sklearn_sparsepost.datasets import make_bars

SIDE, N_START = 10, 60
X, bars, _ = make_bars(
    1000, SIDE, doc_topic_prior=0.05, doc_length=150, random_state=0
)

# %%
# A fit that goes on pass by pass, to look at the topics in between.

hdp = SparseHDP(N_START, max_iter=1, warm_start=True, tol=0, random_state=0)
snapshots = {}
for n_passes in range(1, 16):
    hdp.fit(X)
    snapshots[n_passes] = hdp.topic_word_distr_
for n_iter, move, tried, accepted, n_topics in hdp.moves_history_:
    print(
        f"{n_iter:2}  {move:6} {accepted:2} of {tried:2} accepted, "
        f"{n_topics:2} topics"
    )

# %%
# How many topics there were, by where the fit began and by whether there were moves. The number of
# bars is 20.

runs = {}
for n_start in (40, 60, 100):
    for init, style in (("k-means++", "-"), ("random", "--")):
        numbers = [n_start]
        trial = SparseHDP(
            n_start,
            init=init,
            max_iter=1,
            warm_start=True,
            tol=0,
            random_state=1,
        )
        for _ in range(15):
            numbers.append(trial.fit(X).n_components_)
        runs[n_start, init] = numbers, style
    print(
        n_start,
        [
            numbers[-1]
            for (start, _), (numbers, _) in runs.items()
            if start == n_start
        ],
    )

# %%

PASSES, N_SHOWN = [1, 3, 5, 15], 20
fig = plt.figure(figsize=(13, 3.6), layout="constrained")
left, right = fig.subfigures(1, 2, width_ratios=[9, 5])
axes = left.subplots(len(PASSES), N_SHOWN)
for row, n_passes in zip(axes, PASSES, strict=True):
    topics = snapshots[n_passes]
    for ax, topic in zip(row, topics, strict=False):
        ax.imshow(topic.reshape(SIDE, SIDE), cmap="Greys", vmin=0, vmax=0.1)
    for ax in row:
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set_color("#cccccc")
    for ax in row[len(topics) :]:
        ax.set_visible(False)
    row[0].set_ylabel(
        f"pass {n_passes}\n{len(topics)} topics",
        rotation=0,
        ha="right",
        va="center",
    )
left.suptitle("The largest topics, by size")
ax = right.subplots()
for colour, n_start in zip(
    ("#009988", "#0077bb", "#cc3311"), (40, 60, 100), strict=True
):
    for init in ("k-means++", "random"):
        numbers, style = runs[n_start, init]
        label = f"from {n_start}, {init}"
        ax.plot(np.arange(16), numbers, style, color=colour, lw=2, label=label)
ax.axhline(2 * SIDE, color="#999999", lw=1)
ax.set(
    xlabel="passes",
    ylabel="topics",
    title="Merged and deleted",
    ylim=(0, None),
)
ax.legend(frameon=False, fontsize=9)
ax.spines[["top", "right"]].set_visible(False)
plt.show()
