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

from sklearn_sparsepost import SparseLDA
from sklearn_sparsepost.callbacks import HeldoutMonitor
from sklearn_sparsepost.datasets import load_docstrings

corpus = load_docstrings()
vectorizer = CountVectorizer(stop_words="english", token_pattern="[a-z]{3,}", min_df=3, max_df=0.2)
X = vectorizer.fit_transform(corpus.data)
X_train, X_test = train_test_split(X, test_size=0.2, random_state=0)
print(f"{X_train.shape[0]:,} documents to learn from, {X_test.shape[0]:,} held out")

# %%
# Learning with different L
# -------------------------
#
# The more topics there are, the more work a dense posterior is. Every fit begins from the same
# start and makes the same number of passes (``tol=0``), and a monitor notes the held-out score and
# the time. The median is what a pass takes when nothing else disturbs.

K = 200
levels = [1, 2, 4, 8, 16, None]
labels = ["1", "2", "4", "8", "16", "dense"]
scores, seconds, models = [], [], []
for level, label in zip(levels, labels, strict=True):
    monitor = HeldoutMonitor(X_test)
    lda = SparseLDA(K, sparsity_level=level, max_iter=12, tol=0, evaluate_every=0, random_state=0)
    models.append(lda.set_callbacks(monitor).fit(X_train))
    log = monitor.get_logs()
    # The first pass is timed with the start.
    seconds.append(np.median(np.diff([row["seconds"] for row in log])))
    scores.append(log[-1]["score"])
    print(f"L = {label:>5}: held-out {scores[-1]:.3f} nats a word, {seconds[-1]:.3f} s a pass")

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
    """Topic weights of the held-out documents under the dense model's topics."""
    model = SparseLDA.from_topics(models[-1].components_, sparsity_level=level, restarts=0)
    return model.transform(X_test)


reference = infer(None)
distances = {L: 0.5 * np.abs(infer(L) - reference).sum(axis=1) for L in levels[:-1]}
for level, distance in distances.items():
    print(f"L = {level:2}: median distance {np.median(distance):.4f}, 9 in 10 below ", end="")
    print(f"{np.quantile(distance, 0.9):.4f}")

# %%
# A word that must choose one topic chooses too early, and the document's posterior is often
# elsewhere than the dense one: hard assignment is not a small approximation. A few topics a word
# are enough for nearly all documents, and for the quality of the learned topics.

DENSE = "#222222"
COLOURS = plt.colormaps["viridis"](np.linspace(0, 0.85, 5))[::-1]

fig, (left, middle, right) = plt.subplots(1, 3, figsize=(13.5, 4.4), layout="constrained")
position = np.arange(len(levels))
marks = [*COLOURS, DENSE]

left.axhline(scores[-1], color=DENSE, lw=0.8, ls=":", zorder=0)
left.plot(position, scores, color="#bbbbbb", lw=1, zorder=1)
left.scatter(position, scores, c=marks, s=60, zorder=2)
left.set(title="Quality of learned topics", ylabel="held-out score (nats a word)")

middle.bar(position, seconds, color=marks, width=0.65)
middle.set(title=f"Time of a pass, {K} topics", ylabel="seconds")
for ax in (left, middle):
    ax.set_xticks(position, labels)
    ax.set_xlabel("topics a word may have, L")

for (level, distance), colour in zip(distances.items(), COLOURS, strict=True):
    values = np.sort(distance)
    right.step(values, np.arange(1, len(values) + 1) / len(values), color=colour, label=level, lw=2)
right.set(
    title="Distance from dense posteriors, same topics",
    xlabel="variational distance of a document's topic weights",
    ylabel="share of documents below",
    xlim=(0, 1),
    ylim=(0, 1.01),
)
right.legend(title="L", frameon=False, loc="lower right")
for ax in (left, middle, right):
    ax.spines[["top", "right"]].set_visible(False)
    ax.title.set_fontsize(11.5)
plt.show()
