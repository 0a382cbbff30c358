"""
==========================================
Quickstart: the topics of three libraries
==========================================

What do numpy, scipy and scikit-learn talk about? Their docstrings are a corpus of some thousand
English documents that is already installed. This example learns topics from it with
:class:`~sklearn_sparsepost.SparseLDA` in a pipeline, looks at them, compares them with those of
scikit-learn's :class:`~sklearn.decomposition.LatentDirichletAllocation` on documents that neither
has seen, searches for better parameters, and draws the topics.
"""

import warnings
from pathlib import Path
from textwrap import shorten
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Patch
from sklearn.base import clone
from sklearn.callback import ProgressBar
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline
from threadpoolctl import threadpool_limits

from sklearn_sparsepost import SparseLDA, TopicSummary
from sklearn_sparsepost.datasets import load_docstrings
from sklearn_sparsepost.metrics import document_completion

# %%
# The documents
# -------------
#
# A document is the docstring of a public function, class or method, without its code. One in five
# is held out: it will tell whether the topics are any good.

corpus = load_docstrings()
names, library = corpus.names, corpus.target
of_library = zip(np.bincount(library), corpus.target_names, strict=True)
print(
    f"{len(names):,} docstrings:",
    ", ".join(f"{n:,} of {name}" for n, name in of_library),
)
train, test = train_test_split(corpus.data, test_size=0.2, random_state=0)

# %%
# The pipeline
# ------------
#
# A topic model needs counts of words, and words that tell documents apart: those in more than a
# fifth of the documents, and a few that belong to the form of a docstring, say nothing about its
# subject. Letters in a row are a word, so that ``n_samples`` counts for *samples*.
#
# scikit-learn's own progress bar follows the steps of the pipeline and the passes of ``SparseLDA``
# over the data. It needs ``rich``, and would warn that the step before does not report.

warnings.filterwarnings(
    "ignore",
    message="The estimator CountVectorizer does not support callbacks",
)

FORM = (
    "array bool default false int like ndarray none optional "
    "returns str true use used using"
)


def topic_pipeline():
    """Text to counts to topics."""
    counts = CountVectorizer(
        stop_words=sorted(ENGLISH_STOP_WORDS.union(FORM.split())),
        token_pattern="[a-z]{3,}",
        min_df=5,
        max_df=0.2,
    )
    return Pipeline(
        [
            ("counts", counts),
            ("lda", SparseLDA(n_components=30, random_state=0)),
        ]
    )


def show_progress(estimator, depth):
    """Give an estimator a progress bar, if there is one."""
    try:
        return estimator.set_callbacks(
            ProgressBar(max_propagation_depth=depth)
        )
    except ImportError:
        print("No progress bar: it needs rich (pip install rich).")
        return estimator


pipeline = show_progress(topic_pipeline(), depth=1).fit(train)

vectorizer, lda = pipeline["counts"], pipeline["lda"]
n_words = len(vectorizer.vocabulary_)
print(
    f"{lda.n_components} topics over {n_words:,} words after {lda.n_iter_} "
    "passes."
)

# %%
# The topics
# ----------
#
# ``TopicSummary`` says what people ask of topics: how large they are, who uses them, their most
# probable words, and the docstrings that use them most. Topics are shown from numpy's over scipy's
# to scikit-learn's.

summary = TopicSummary.from_estimator(pipeline, corpus.data, documents=names)
_, share = summary.shares(library, of="topic")
size = summary.size
order = np.argsort(share.T @ [0, 1, 2])
top = summary.top_words(8)
users = summary.top_documents(3, by="tokens")

print(
    f"\n{'topic':>5}  {'size':>5}  {'  '.join(corpus.target_names)}   top "
    "words, and top documents"
)
for rank, k in enumerate(order, start=1):
    shares = " ".join(f"{s:6.0%}" for s in share[:, k])
    print(f"{rank:5}  {size[k]:5.1%} {shares}     {' '.join(top[k])}")
    print(f"{'':7}{shorten(', '.join(users[k]), 92, placeholder=' ...')}")

# %%
# Are they good topics?
# ---------------------
#
# Part of every held-out document's words is hidden, and predicted from the rest: the mean log
# probability of a hidden word says how well the topics fit (document completion). The comparison is
# with scikit-learn's estimator: the same counts, the same number of topics, the same priors, batch
# learning as its most accurate, and 30 iterations, beyond which its score hardly moves. Both use
# one thread.

X_train, X_test = vectorizer.transform(train), vectorizer.transform(test)
dense = LatentDirichletAllocation(
    lda.n_components,
    doc_topic_prior=0.5 / lda.n_components,
    topic_word_prior=0.1,
    learning_method="batch",
    max_iter=30,
    random_state=0,
)
sparse = clone(lda).set_callbacks()

print(
    "\nHeld-out score in nats a word (higher is better), training time on one "
    "thread:\n"
)
for model in (sparse, dense):
    start = perf_counter()
    with threadpool_limits(1):
        model.fit(X_train)
    seconds = perf_counter() - start
    score = document_completion(model.components_, X_test)
    name, n_iter = type(model).__name__, model.n_iter_
    print(f"  {name:27} {score:7.3f}   {seconds:6.2f} s   {n_iter:2} passes")

# %%
# Better parameters
# -----------------
#
# ``score`` is this held-out score, so scikit-learn's tools for choosing parameters work as they
# are. The lists reach beyond the best: half as many topics score less, and so do twice as many.
# ``learning_decay`` is how fast the steps of online learning shrink; memoized learning, the
# default, has no step size and needs none of it, so that the grid has two parts. Fits side by side
# use the cores better than threads within such small fits, which is what ``n_jobs`` is for.

grid = {
    "lda__n_components": [120, 240, 480],
    "lda__sparsity_level": [2, 4, 16],
}
online = {
    "lda__n_components": [240],
    "lda__sparsity_level": [4],
    "lda__learning_method": ["online"],
    "lda__batch_size": [256],
    "lda__max_iter": [10],
    "lda__learning_decay": [0.55, 0.7, 0.9],
}
search = GridSearchCV(
    topic_pipeline(),
    [grid, online],
    cv=2,
    refit=False,
    n_jobs=-1,
)
start = perf_counter()
print()
show_progress(search, depth=0).fit(train)
results = search.cv_results_
n_fits = len(results["params"]) * search.n_splits_
print(
    f"\nGrid search, {n_fits} fits in {perf_counter() - start:.0f} s. The "
    "five best:\n"
)
print(
    "  score (nats)  fit (s)  n_components  sparsity_level  learning_method  "
    "learning_decay"
)
for i in np.argsort(results["rank_test_score"])[:5]:
    params = {
        key.removeprefix("lda__"): value
        for key, value in results["params"][i].items()
    }
    print(
        f"{results['mean_test_score'][i]:14.3f}"
        f"{results['mean_fit_time'][i]:9.2f}"
        f"{params['n_components']:14}{params['sparsity_level']:16}"
        f"{params.get('learning_method', 'memoized'):>17}"
        f"{params.get('learning_decay', '-'):>16}"
    )

# %%
# The picture
# -----------
#
# The topics once more: the length of a bar is a word's probability as a part of the likeliest
# word's, the band above shows how the libraries share the topic.

COLOURS = ["#4477aa", "#ccbb44", "#aa3377"]
INK, MUTED = "#222222", "#777777"

fig, axes = plt.subplots(5, 6, figsize=(15, 11.5), facecolor="white")
fig.subplots_adjust(
    left=0.025, right=0.985, bottom=0.02, top=0.875, wspace=0.12, hspace=0.3
)
for rank, (ax, k) in enumerate(zip(axes.flat, order, strict=True), start=1):
    probability = np.sort(lda.topic_word_distr_[k])[:-8:-1]
    length = probability / probability[0]
    ax.barh(
        range(7),
        length,
        height=0.82,
        color=COLOURS[share[:, k].argmax()],
        alpha=0.25,
    )
    for y, word in enumerate(top[k, :7]):
        ax.text(0.02, y, word, va="center", fontsize=10.5, color=INK)
    left = np.cumsum(share[:, k]) - share[:, k]
    ax.barh([-1.15] * 3, share[:, k], left=left, height=0.28, color=COLOURS)
    ax.text(0, -1.5, f"{rank}", fontsize=10.5, weight="bold", color=INK)
    ax.text(
        1, -1.5, f"{size[k]:.1%} of words", fontsize=9, color=MUTED, ha="right"
    )
    ax.set(xlim=(0, 1), ylim=(6.6, -1.9))
    ax.set_axis_off()

fig.text(
    0.025,
    0.957,
    "What numpy, scipy and scikit-learn talk about",
    fontsize=21,
    weight="bold",
    color=INK,
)
fig.text(
    0.025,
    0.925,
    f"{lda.n_components} topics that SparseLDA learned from {len(train):,} "
    "docstrings, from "
    "numpy's to scikit-learn's. Bars: the likeliest words. Bands: who uses "
    "the topic.",
    fontsize=12.5,
    color=MUTED,
)
fig.legend(
    handles=[Patch(color=c) for c in COLOURS],
    labels=["numpy", "scipy", "scikit-learn"],
    loc="upper right",
    bbox_to_anchor=(0.99, 0.985),
    ncols=3,
    frameon=False,
    fontsize=12.5,
)
path = Path("quickstart.png")
fig.savefig(path, dpi=130)
print(f"\nThe topics are drawn in {path.resolve()}")
plt.show()
