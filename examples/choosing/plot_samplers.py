"""
=======================================
Samplers: time of a sweep, and quality
=======================================

Collapsed Gibbs sampling draws the topic of every token anew, sweep by sweep. Weighing all K topics
for each token is the plain way. The samplers of :class:`~sklearn_sparsepost.AliasLDA` weigh those
of the document or those of the word, and know of the others what all weigh together or draw them
from alias tables. By default they go through the tokens word by word.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from sklearn_sparsepost import AliasLDA, SparseLDA
from sklearn_sparsepost.callbacks import BoundMonitor, HeldoutMonitor
from sklearn_sparsepost.datasets import load_docstrings

corpus = load_docstrings()
vectorizer = CountVectorizer(
    stop_words="english", token_pattern="[a-z]{3,}", min_df=3, max_df=0.2
)
X = vectorizer.fit_transform(corpus.data)
X_train, X_test = train_test_split(X, test_size=0.2, random_state=0)
n_tokens = int(X_train.sum())
print(f"{X_train.shape[0]} documents, {n_tokens} tokens")

# %%
# How long is a sweep? All samplers begin with the same assignments, drawn under the topics of the
# k-means++ start, and run on one thread.

COLOURS = {
    "dense": "#999999",
    "sparse": "#ee7733",
    "cycle": "#aa3377",
    "alias": "#33bbee",
    "auto": "#0077bb",
}
SIZES = [32, 64, 128, 256, 512, 1024]

speed = {}
for sampler in COLOURS:
    for n_topics in SIZES:
        log = BoundMonitor()
        lda = AliasLDA(
            n_topics,
            sampler=sampler,
            max_iter=8,
            evaluate_every=0,
            random_state=0,
        )
        with threadpool_limits(1, user_api="openmp"):
            lda.set_callbacks(log).fit(X_train)
        sweeps = np.diff([row["seconds"] for row in log.get_logs()])
        speed[sampler, n_topics] = n_tokens / np.median(sweeps) / 1e6
    told = ", ".join(f"{speed[sampler, n]:.1f}" for n in SIZES)
    print(f"{sampler:7} {told} million tokens a second")

# %%
# How good are the topics, and when? The score of a sweep is that of its own counts until samples
# are averaged, from half of the sweeps on. Variational inference has the same start.

N_TOPICS = 100
OPTIONS = {"max_iter": 60, "evaluate_every": 0, "random_state": 0}
RUNS = {
    sampler: AliasLDA(N_TOPICS, sampler=sampler, **OPTIONS)
    for sampler in COLOURS
}
RUNS["auto, learned alpha"] = AliasLDA(
    N_TOPICS, doc_topic_prior="auto", **OPTIONS
)
RUNS["auto, random start"] = AliasLDA(N_TOPICS, init="random", **OPTIONS)
RUNS["SparseLDA"] = SparseLDA(N_TOPICS, max_iter=15, tol=0, random_state=0)
curves = {}
for name, lda in RUNS.items():
    log = HeldoutMonitor(X_test, every=1 if name == "SparseLDA" else 5)
    with threadpool_limits(1, user_api="openmp"):
        lda.set_callbacks(log).fit(X_train)
    curves[name] = log.get_logs()
    last = curves[name][-1]
    print(
        f"{name:25} {last['score']:.3f} nats a word after "
        f"{last['seconds']:.2f} s"
    )

# %%

fig, (left, right) = plt.subplots(
    1, 2, figsize=(12, 4.6), layout="constrained"
)
for sampler, colour in COLOURS.items():
    line = [speed[sampler, n] for n in SIZES]
    left.plot(
        SIZES,
        line,
        "o-",
        ms=4,
        color=colour,
        label=sampler,
        lw=3 if sampler == "auto" else 1.6,
    )
left.set_xscale("log", base=2)
left.set_xticks(SIZES, SIZES)
left.set_ylim(bottom=0)
left.set(
    title="Speed of the samplers",
    xlabel="topics",
    ylabel="million tokens a second, one thread",
)
left.legend(frameon=False)
others = {
    "auto, learned alpha": {"color": "#009988"},
    "auto, random start": {"color": "#0077bb", "ls": "--"},
    "SparseLDA": {"color": "#cc3311", "lw": 3},
}
for name, rows in curves.items():
    times, scores = (
        [row["seconds"] for row in rows],
        [row["score"] for row in rows],
    )
    style = others.get(name) or {
        "color": COLOURS[name],
        "lw": 3 if name == "auto" else 1.6,
    }
    right.plot(times, scores, label=name, **style)
right.set_xscale("log", base=2)
right.xaxis.set_major_formatter("{x:g}")
right.set(
    title=f"Quality for time, {N_TOPICS} topics",
    xlabel="training time (s)",
    ylabel="held-out score (nats a word)",
)
right.legend(frameon=False, loc="lower right")
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="#eeeeee")
    ax.set_axisbelow(True)
plt.show()
