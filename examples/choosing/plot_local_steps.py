"""
==================================================
Local steps: points, posteriors, and drawn topics
==================================================

:class:`~sklearn_sparsepost.SparseLDA` fits documents by coordinate ascent or by drawing the topic
of every token, and topics are to documents points or posterior distributions. What is each worth on
a small corpus, and what does a batch of a stream cost? After figures 1 and 2 of Mimno, Hoffman &
Blei (2012); see :ref:`local_steps`.
"""

from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import train_test_split

from sklearn_sparsepost import SparseLDA
from sklearn_sparsepost.callbacks import HeldoutMonitor
from sklearn_sparsepost.datasets import load_docstrings
from sklearn_sparsepost.metrics import coherence

corpus = load_docstrings()
vectorizer = CountVectorizer(
    stop_words="english", token_pattern="[a-z]{3,}", min_df=3, max_df=0.2
)
X = vectorizer.fit_transform(corpus.data)
X_train, X_test = train_test_split(X, test_size=0.2, random_state=0)
print(f"{X_train.shape[0]} documents, {int(X_train.sum())} tokens")

# %%
# Held-out quality against training time, and the coherence of the topics in the end. All begin with
# the same topics.

N_TOPICS = 60
STEPS = {
    "posteriors": ({"estimation": "bayes"}, "#cc3311"),
    "points": ({"estimation": "map"}, "#0077bb"),
    "drawn topics": ({"local_step": "gibbs", "average_after": 5}, "#009988"),
    "drawn topics of posteriors": (
        {"local_step": "gibbs", "estimation": "bayes", "average_after": 5},
        "#ee7733",
    ),
}

curves, coherences = {}, {}
for name, (params, _) in STEPS.items():
    log = HeldoutMonitor(X_test)
    lda = SparseLDA(
        N_TOPICS,
        max_iter=25,
        tol=0,
        evaluate_every=0,
        n_jobs=1,
        random_state=0,
        **params,
    )
    lda.set_callbacks(log).fit(X_train)
    curves[name] = log.get_logs()
    coherences[name] = coherence(lda.components_, X_train, measure="umass")
    last = curves[name][-1]
    print(
        f"{name:27} {last['score']:.3f} nats a word after "
        f"{last['seconds']:.2f} s, "
        f"mean coherence {coherences[name].mean():.1f}"
    )

# %%
# Milliseconds that :meth:`~sklearn_sparsepost.SparseLDA.partial_fit` takes for 100 documents. Drawn
# topics cost a document its few topics, and the words of the batch their own; the dense step costs
# every word all topics.

SIZES = [50, 100, 200, 400, 800, 1600]
COSTS = {
    "drawn topics": {"local_step": "gibbs"},
    "ascent, L = 8": {},
    "ascent, dense": {"sparsity_level": None},
}

cost = {}
for name, params in COSTS.items():
    for n_topics in SIZES:
        lda = SparseLDA(
            n_topics,
            learning_method="online",
            max_iter=1,
            n_jobs=1,
            random_state=0,
            **params,
        ).fit(X_train)
        seconds = []
        for first in range(0, 1500, 100):
            begun = perf_counter()
            lda.partial_fit(X_train[first : first + 100])
            seconds.append(perf_counter() - begun)
        cost[name, n_topics] = 1e3 * np.median(seconds[5:])
    told = ", ".join(f"{cost[name, n]:.1f}" for n in SIZES)
    print(f"{name:14} {told} ms")

# %%

fig, (left, middle, right) = plt.subplots(
    1, 3, figsize=(13, 4.4), width_ratios=[5, 4, 4], layout="constrained"
)
for name, rows in curves.items():
    times, scores = (
        [row["seconds"] for row in rows],
        [row["score"] for row in rows],
    )
    left.plot(times, scores, label=name, color=STEPS[name][1], lw=2.5)
left.set_xscale("log", base=2)
left.xaxis.set_major_formatter("{x:g}")
left.set(
    title=f"Quality for time, {N_TOPICS} topics",
    xlabel="training time (s)",
    ylabel="held-out score (nats a word)",
)
left.legend(
    frameon=False, loc="center right", bbox_to_anchor=(1, 0.3), fontsize=9
)
boxes = middle.boxplot(
    [coherences[name] for name in STEPS],
    orientation="horizontal",
    widths=0.55,
    patch_artist=True,
    showfliers=False,
    medianprops={"color": "white", "lw": 2},
)
for box, (_, colour) in zip(boxes["boxes"], STEPS.values(), strict=True):
    box.set(facecolor=colour, edgecolor=colour)
middle.set_yticks(
    range(1, 5), ["posteriors", "points", "drawn", "drawn of\nposteriors"]
)
middle.invert_yaxis()
middle.set(title="Coherence of the topics", xlabel="UMass, a box over topics")
for name, colour in zip(COSTS, ("#009988", "#0077bb", "#999999"), strict=True):
    right.plot(
        SIZES,
        [cost[name, n] for n in SIZES],
        "o-",
        label=name,
        color=colour,
        lw=2.5,
    )
right.set_xscale("log", base=2)
right.set_yscale("log", base=2)
right.set_xticks(SIZES, SIZES)
right.yaxis.set_major_formatter("{x:g}")
right.set(
    title="Cost of a batch", xlabel="topics", ylabel="ms for 100 documents"
)
right.legend(frameon=False, fontsize=9)
for ax in (left, middle, right):
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="#eeeeee")
    ax.set_axisbelow(True)
plt.show()
