"""
========================
Batch, online, memoized
========================

Three ways to move the topics. *Batch* learning looks at all documents before each step. *Online*
learning takes a step after every few documents and makes the steps shorter and shorter, so that
they settle. *Memoized* learning, the default, also takes a step after every batch, but keeps each
batch's statistics and replaces them exactly when it comes by again: it needs no step size, and
knows the bound of all the data.

What matters to users is how good the topics are after how many seconds.
"""

import matplotlib.pyplot as plt
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from sklearn_sparsepost import SparseLDA
from sklearn_sparsepost.callbacks import BoundMonitor, HeldoutMonitor
from sklearn_sparsepost.datasets import load_docstrings

corpus = load_docstrings()
vectorizer = CountVectorizer(
    stop_words="english", token_pattern="[a-z]{3,}", min_df=3, max_df=0.2
)
X = vectorizer.fit_transform(corpus.data)
X_train, X_test = train_test_split(X, test_size=0.2, random_state=0)

# %%
# All begin from the same start, and make the same number of passes on one thread. Two callbacks
# follow each fit: one scores held-out documents, the other notes the bound. The time that they take
# is not counted, that of the start is part of the first pass's.

methods = {
    "batch": {"learning_method": "batch"},
    "online": {
        "learning_method": "online",
        "batch_size": 512,
        "learning_decay": 0.6,
    },
    "memoized": {"learning_method": "memoized", "n_batches": 10},
}
heldout, bounds = {}, {}
for name, params in methods.items():
    score_log, bound_log = HeldoutMonitor(X_test), BoundMonitor()
    lda = SparseLDA(100, max_iter=20, tol=0, random_state=0, **params)
    with threadpool_limits(1, user_api="openmp"):
        lda.set_callbacks(score_log, bound_log).fit(X_train)
    heldout[name], bounds[name] = score_log.get_logs(), bound_log.get_logs()
    last = heldout[name][-1]
    print(
        f"{name:8}  held-out {last['score']:.3f} nats a word after "
        f"{last['seconds']:.2f} s",
        end="",
    )
    print(f", bound {bounds[name][-1]['bound_per_token']:.3f} nats a word")

# %%
# The bound of batch and memoized learning is that of the training data under the topics at the end
# of the pass. In online learning the documents' posteriors are as their batch left them, so its
# bound lags behind the topics, and it may fall. The scale of the scores is fine: another seed moves
# a curve by as much as lies between the three at the end.

STYLES = {
    "batch": ("#999999", "s"),
    "online": ("#ee7733", "^"),
    "memoized": ("#0077bb", "o"),
}

fig, (left, right) = plt.subplots(
    1, 2, figsize=(12, 4.6), layout="constrained"
)
for name, (colour, marker) in STYLES.items():
    style = {
        "color": colour,
        "marker": marker,
        "ms": 4,
        "lw": 1.6,
        "label": name,
    }
    rows = heldout[name]
    left.plot(
        [row["seconds"] for row in rows],
        [row["score"] for row in rows],
        **style,
    )
    rows = bounds[name]
    right.plot(
        [row["n_iter"] for row in rows],
        [row["bound_per_token"] for row in rows],
        **style,
    )
left.set(
    title="Quality for time: the three end close together",
    xlabel="training time (s)",
    ylabel="held-out score (nats a word)",
)
right.set(
    title="Bound for passes: memoized learning needs the fewest",
    xlabel="passes over the data",
    ylabel="bound of the training data (nats a word)",
)
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="#eeeeee")
    ax.set_axisbelow(True)
right.set_xticks(range(0, 21, 5))
right.legend(frameon=False, loc="lower right")
plt.show()
