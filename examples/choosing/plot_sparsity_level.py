"""
=================================
How many topics may a word have?
=================================

``sparsity_level``, L, is the most topics that a word of a document may keep. It is what makes
:class:`~sklearn_sparsepost.SparseLDA` fast, and the question is what it costs. Three answers, on
the docstrings of numpy, scipy and scikit-learn: the held-out score of topics learned with
different L, the time of a pass over the data, and how far the topic weights of documents are from
the dense ones when the topics are the same.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from sklearn_sparsepost import SparseLDA
from sklearn_sparsepost.callbacks import BoundMonitor
from sklearn_sparsepost.datasets import load_docstrings

corpus = load_docstrings()
vectorizer = CountVectorizer(
    stop_words="english", token_pattern="[a-z]{3,}", min_df=3, max_df=0.2
)
X = vectorizer.fit_transform(corpus.data)
X_train, X_test = train_test_split(X, test_size=0.2, random_state=0)
print(
    f"{X_train.shape[0]:,} documents to learn from, {X_test.shape[0]:,} held "
    "out"
)

# %%
# Learning with different L
# -------------------------
#
# Every fit makes the same number of passes (``tol=0``), from the default start and, since hard
# assignment may depend on where it begins, from a random one; three times each. A monitor notes the
# time, and the shortest pass is what a pass takes when nothing else disturbs. One thread is enough
# for so few documents, and its time tells how much there is to do.

K = 100
levels = [1, 2, 4, 8, 16, None]
labels = ["1", "2", "4", "8", "16", "dense"]
starts, seeds = ["k-means++", "random"], range(3)
scores = np.empty((len(starts), len(levels), len(seeds)))
seconds = np.full(len(levels), np.inf)
params = {"max_iter": 6, "tol": 0, "evaluate_every": 0}
for s, start in enumerate(starts):
    for i, level in enumerate(levels):
        for seed in seeds:
            monitor = BoundMonitor()
            lda = SparseLDA(
                K,
                sparsity_level=level,
                init=start,
                random_state=seed,
                **params,
            )
            with threadpool_limits(1, user_api="openmp"):
                lda.set_callbacks(monitor).fit(X_train)
            scores[s, i, seed] = lda.score(X_test)
            # The first pass is timed with the start.
            passes = np.diff([row["seconds"] for row in monitor.get_logs()])
            seconds[i] = min(seconds[i], passes.min())
        if start == "k-means++":
            topics = lda.components_  # in the end the dense model's

print("L       k-means++   random   pass (s)")
for label, row, time in zip(
    labels, scores.mean(axis=2).T, seconds, strict=True
):
    print(f"{label:5} {row[0]:11.3f} {row[1]:8.3f} {time:10.3f}")

# %%
# The same topics, other posteriors
# ---------------------------------
#
# Now the topics are fixed, those of the dense model, and only the posterior of documents is sparse.
# ``from_topics`` wraps topics for inference with any L. The distance between a document's dense and
# L-sparse topic weights is the variational one, half the sum of absolute differences: 0 if they
# agree, 1 if they have no topic in common. Restart proposals are left out, since whether they are
# accepted would add differences that are not those of L.


def infer(level):
    """Weights of held-out documents under the dense model's topics."""
    model = SparseLDA.from_topics(topics, sparsity_level=level, restarts=0)
    return model.transform(X_test)


reference = infer(None)
distances = {
    L: 0.5 * np.abs(infer(L) - reference).sum(axis=1) for L in levels[:-1]
}
for level, distance in distances.items():
    print(
        f"L = {level:2}: median distance {np.median(distance):.4f}, 9 in 10 "
        "below ",
        end="",
    )
    print(f"{np.quantile(distance, 0.9):.4f}")

# %%
# A word that must choose one topic chooses too early. From a random start hard assignment ends in
# worse topics. A good start saves it from most of that, on documents that keep to few topics as
# these do, but the weights of documents are still farther from the dense ones than with any other
# L. A few topics a word are enough for topics as good as the dense ones.

DENSE = "#222222"
COLOURS = [*plt.colormaps["viridis"](np.linspace(0, 0.85, 5))[::-1], DENSE]

fig, (left, middle, right) = plt.subplots(
    1, 3, figsize=(13.5, 4.4), layout="constrained"
)
position = np.arange(len(levels))
for start, values, marker in zip(starts, scores, "os", strict=True):
    left.plot(position, values.mean(axis=1), color="#bbbbbb", lw=1, zorder=1)
    for x, ys, colour in zip(position, values, COLOURS, strict=True):
        left.scatter(
            [x] * len(ys), ys, color=colour, marker=marker, s=22, zorder=2
        )
    left.annotate(
        f"{start} start",
        (position[-1], values[-1].min()),
        xytext=(0, -10),
        textcoords="offset points",
        ha="right",
        va="top",
        color="#666666",
    )
left.margins(y=0.12)
left.set(
    title=f"{K} topics: a few a word are enough",
    ylabel="held-out score (nats a word)",
)

middle.bar(position, seconds, color=COLOURS, width=0.65)
middle.set(title="A pass on one thread: fewer are faster", ylabel="seconds")
for ax in (left, middle):
    ax.set_xticks(position, labels)
    ax.set_xlabel("topics a word may have, L")

for (level, distance), colour in zip(
    distances.items(), COLOURS[:-1], strict=True
):
    right.ecdf(distance, color=colour, label=level, lw=2)
right.set(
    title="Same topics: a few are nearly dense",
    xlabel="variational distance of topic weights from dense ones",
    ylabel="share of documents below",
    xlim=(-0.01, 1),
    ylim=(0, 1.02),
)
right.legend(title="L", frameon=False, loc="lower right")
for ax in (left, middle, right):
    ax.spines[["top", "right"]].set_visible(False)
    ax.title.set_fontsize(11.5)
plt.show()
