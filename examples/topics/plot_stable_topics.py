"""
======================================
Stable topics: which come back, always
======================================

A topic model with another seed finds other topics. Which of them are in the data, and which are one
of many ways to divide up the rest? Here the docstrings of numpy, scipy and scikit-learn are fitted
with six seeds, :func:`~sklearn_sparsepost.metrics.match_topics` finds who is whose counterpart, and
every topic is asked for its coherence: whether its top words occur together.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer

from sklearn_sparsepost import SparseLDA, TopicSummary
from sklearn_sparsepost.datasets import load_docstrings
from sklearn_sparsepost.metrics import (
    coherence,
    match_topics,
    topic_distances,
    topic_diversity,
)

FORM = (
    "array bool default false int like ndarray none optional "
    "returns str true use used using"
)
N_TOPICS, N_SEEDS = 24, 6

corpus = load_docstrings()
vectorizer = CountVectorizer(
    stop_words=sorted(ENGLISH_STOP_WORDS.union(FORM.split())),
    token_pattern="[a-z]{3,}",
    min_df=5,
    max_df=0.2,
)
X = vectorizer.fit_transform(corpus.data)
names = vectorizer.get_feature_names_out()

# %%
# Six fits
# --------
#
# Coherence is looked up in the texts themselves, as they run: windows of ten tokens slide over
# them, and words outside the vocabulary keep their place. Diversity is the share of different words
# among the 25 top words of all topics.

fits = [
    SparseLDA(N_TOPICS, random_state=seed).fit(X).components_
    for seed in range(N_SEEDS)
]
split = vectorizer.build_tokenizer()
tokens = [split(text.lower()) for text in corpus.data]
npmi = np.array(
    [coherence(topics, tokens, feature_names=names) for topics in fits]
)
for seed, topics in enumerate(fits):
    diversity = topic_diversity(topics)
    told = f"mean NPMI {npmi[seed].mean():.3f}, diversity {diversity:.2f}"
    print(f"seed {seed}: {told}")

# %%
# Who is whose counterpart
# ------------------------
#
# Every fit is matched with the first one: ``place[seed, k]`` is where that fit has the topic which
# the first one has at k. A topic is as stable as its counterparts are near.

place = np.empty((N_SEEDS, N_TOPICS), dtype=int)
distance = np.empty((N_SEEDS, N_TOPICS))
for seed, topics in enumerate(fits):
    _, place[seed], distance[seed] = match_topics(fits[0], topics)
stability = 1 - distance[1:].mean(axis=0)
coherent = np.take_along_axis(npmi, place, axis=1).mean(axis=0)

words = TopicSummary(fits[0], feature_names=names).top_words(6)
print("\nstability  coherence  top words")
for k in np.argsort(-stability):
    print(f"{stability[k]:9.2f}{coherent[k]:11.2f}  {' '.join(words[k])}")

# %%
# The picture
# -----------
#
# A line is a topic, from seed to seed, at its rank by size: dark and strong where the two topics
# that it joins are nearly the same, faint where they are counterparts for want of a better one.

INK, MUTED = "#222222", "#888888"
SHADES = LinearSegmentedColormap.from_list(
    "stable", ["#e8d5b7", "#d98e5f", "#7b3b5e", "#1f2a5a"]
)
nearness = np.array(
    [
        1
        - np.diag(
            topic_distances(fits[s][place[s]], fits[s + 1][place[s + 1]])
        )
        for s in range(N_SEEDS - 1)
    ]
)
low, high = nearness.min(), nearness.max()


def strength(value):
    """From 0 for the faintest line to 1 for the strongest."""
    return np.clip((value - low) / (high - low), 0, 1)


rank = np.array(
    [np.argsort(np.argsort(-topics.sum(axis=1))) for topics in fits]
)
rank = np.take_along_axis(rank, place, axis=1)
fig, (ax, side) = plt.subplots(
    1,
    2,
    figsize=(13, 9.6),
    width_ratios=[2, 1],
    facecolor="white",
    gridspec_kw={"wspace": 0.8},
)
fig.subplots_adjust(left=0.17, right=0.98, top=0.86, bottom=0.075)
step = np.linspace(0, 1, 60)
ease = step**2 * (3 - 2 * step)
for k in np.argsort(stability):
    for seed in range(N_SEEDS - 1):
        near = strength(nearness[seed, k])
        ax.plot(
            seed + 0.04 + 0.92 * step,
            rank[seed, k] + (rank[seed + 1, k] - rank[seed, k]) * ease,
            color=SHADES(near),
            lw=1 + 9 * near,
            solid_capstyle="round",
            alpha=0.9,
        )
    colour = SHADES(strength(stability[k]))
    ax.scatter(
        range(N_SEEDS), rank[:, k], s=110, color=colour, ec="white", zorder=3
    )
last = TopicSummary(fits[-1], feature_names=names).top_words(3)
for k in range(N_TOPICS):
    colour = INK if stability[k] > np.median(stability) else MUTED
    at_end = " ".join(last[place[-1, k]])
    ax.text(
        -0.12,
        rank[0, k],
        " ".join(words[k, :3]),
        ha="right",
        va="center",
        color=colour,
    )
    ax.text(N_SEEDS - 0.88, rank[-1, k], at_end, va="center", color=colour)
for seed in range(N_SEEDS):
    ax.text(seed, -1.1, f"seed {seed}", ha="center", weight="bold", color=INK)
ax.set(xlim=(-0.15, N_SEEDS - 0.85), ylim=(N_TOPICS - 0.4, -1.4))
ax.set_axis_off()

side.scatter(
    stability, coherent, s=110, color=SHADES(strength(stability)), ec="white"
)
middle = (stability.min() + stability.max()) / 2
for k in {
    *np.argsort(stability)[[0, 1, -2, -1]],
    *np.argsort(coherent)[[0, -3, -2, -1]],
}:
    right = stability[k] > middle
    side.annotate(
        " ".join(words[k, :2]),
        (stability[k], coherent[k]),
        xytext=(-8 if right else 8, 0),
        textcoords="offset points",
        ha="right" if right else "left",
        va="center",
        fontsize=9,
        color=INK,
    )
side.set(xlabel="stability (1 - mean distance)", ylabel="mean NPMI")
side.spines[["top", "right"]].set_visible(False)
side.grid(color="#eeeeee")
side.set_axisbelow(True)
side.set_title("Stable is not coherent", loc="left", color=INK)
fig.text(
    0.02,
    0.945,
    "Which topics come back with every seed?",
    fontsize=21,
    weight="bold",
)
fig.text(
    0.02,
    0.912,
    f"{N_TOPICS} topics of {len(corpus.data):,} docstrings, fitted {N_SEEDS} "
    "times and matched; "
    "largest on top. Dark and strong: the same topic again.",
    fontsize=12.5,
    color=MUTED,
)
plt.show()
