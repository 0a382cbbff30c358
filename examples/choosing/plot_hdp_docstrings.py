"""
==========================================
Topics found in docstrings, and prediction
==========================================

:class:`~sklearn_sparsepost.SparseHDP` finds how many topics the docstrings of numpy, scipy and
scikit-learn are made of. Where it ends depends on where it begins, and on what a topic costs: each
fit is a line here, from its first pass to its last, whose ends say how many topics there are and
how well they predict. After figure 6 of Hughes, Kim & Sudderth (2015); see :ref:`sparse_hdp`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import train_test_split

from sklearn_sparsepost import SparseHDP, SparseLDA
from sklearn_sparsepost.datasets import load_docstrings

corpus = load_docstrings()
vectorizer = CountVectorizer(
    stop_words="english", token_pattern="[a-z]{3,}", min_df=3, max_df=0.2
)
X = vectorizer.fit_transform(corpus.data)
X_train, X_test = train_test_split(X, test_size=300, random_state=0)
print(
    f"{X_train.shape[0]:,} documents, {X_train.sum():,} words, "
    f"{X.shape[1]:,} of them different"
)

# %%
# The score is of hidden words of held-out documents, given their other words. Fits go on after
# every other pass, so that it can be computed in between.

N_PASSES = 10


def trace(n_components, **options):
    """Numbers of topics, and scores, after every other pass."""
    hdp = SparseHDP(
        n_components, warm_start=True, tol=0, random_state=0, **options
    )
    found = []
    for n_passes in [1] + [2] * (N_PASSES // 2):
        hdp.set_params(max_iter=n_passes).fit(X_train)
        found.append((hdp.n_components_, hdp.score(X_test)))
    return np.array(found).T


# %%
# Births part topics. Whether they find many depends on what a topic costs, and that on the prior of
# its words: with one value for all words few are found, with one that follows the frequencies of
# words in the corpus more.

frequency = np.asarray(X_train.sum(axis=0)).ravel() + 1.0
by_frequency = {"topic_word_prior": 0.1 * frequency / frequency.mean()}
births = {"moves": ["birth", "merge", "delete"]}
runs = {
    "merges and deletes": [trace(k) for k in (50, 150)],
    "births, too": [trace(10, **births)],
    "births, prior by frequency": [trace(10, **births, **by_frequency)],
    "no moves": [trace(k, moves=False) for k in (25, 50, 150)],
}
for name, traces in runs.items():
    for topics, scores in traces:
        print(
            f"{name:26} {topics[0]:4.0f} -> {topics[-1]:3.0f} topics, "
            f"score {scores[-1]:.3f}"
        )

sizes = (10, 25, 50, 150)
options = {"topic_word_prior": 0.1, "max_iter": N_PASSES, "random_state": 0}
lda = [SparseLDA(k, **options).fit(X_train).score(X_test) for k in sizes]

# %%
# Without moves a fit stays at its number of topics, and its line is upright. Merges and deletes go
# to the left, births to the right.

fig, ax = plt.subplots(figsize=(8.5, 5), layout="constrained")
colours = ("#0077bb", "#cc3311", "#ee7733", "#999999")
for (name, traces), colour in zip(runs.items(), colours, strict=True):
    for at, (topics, scores) in enumerate(traces):
        ax.plot(
            topics,
            scores,
            color=colour,
            lw=1.5,
            alpha=0.7,
            label=None if at else name,
        )
        ax.plot(topics[-1], scores[-1], "o", color=colour, ms=7)
ax.plot(sizes, lda, "k--", marker="s", ms=5, lw=1, label="SparseLDA")
ax.set(xlabel="topics", ylabel="held-out score (nats a word)", xscale="log")
ax.set_xticks(sizes, sizes)
ax.minorticks_off()
ax.set_ylim(
    np.quantile(np.concatenate([s for t in runs.values() for _, s in t]), 0.1),
    None,
)
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
plt.show()
