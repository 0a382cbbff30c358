"""
===================================================
Prediction from few words: correlations against LDA
===================================================

When most of a document is hidden, the few words that are seen say little of its topics, and much
depends on what is expected of the others. Hidden words of held-out documents are predicted from an
ever smaller part of them by latent Dirichlet allocation and by correlated topics, each with its own
topics and its own prior.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import train_test_split

from sklearn_sparsepost import AliasLDA, GibbsCTM
from sklearn_sparsepost.datasets import load_docstrings
from sklearn_sparsepost.metrics import split_words

corpus = load_docstrings()
vectorizer = CountVectorizer(
    stop_words="english", token_pattern="[a-z]{3,}", min_df=5, max_df=0.2
)
X = vectorizer.fit_transform(corpus.data)
X_train, X_test = train_test_split(X, test_size=0.2, random_state=0)

N_TOPICS = 40
MODELS = {
    "LDA": AliasLDA(
        N_TOPICS,
        doc_topic_prior="auto",
        max_iter=120,
        evaluate_every=0,
        random_state=0,
    ),
    "correlated topics": GibbsCTM(
        N_TOPICS, max_iter=120, evaluate_every=0, random_state=0
    ),
    "no correlations": GibbsCTM(
        N_TOPICS,
        covariance_type="diag",
        max_iter=120,
        evaluate_every=0,
        random_state=0,
    ),
}
for model in MODELS.values():
    model.fit(X_train)

# %%
# `transform` infers topic weights from what is seen; they predict what is hidden. In
# :class:`~sklearn_sparsepost.GibbsCTM` it samples. In :class:`~sklearn_sparsepost.AliasLDA` it is
# mean field, which expects too few topics in short documents; so LDA gets a Gibbs sampler, too.


def sampled_weights(lda, seen, n_sweeps=60):
    """Mean weights of LDA by Gibbs sampling under fixed topics."""
    rng, alpha = np.random.default_rng(0), lda.doc_topic_prior_
    rows, words = (
        np.repeat(ids, seen.data.astype(int)) for ids in seen.tocoo().coords
    )
    length = np.bincount(rows, minlength=seen.shape[0])
    place = np.arange(len(rows)) - np.repeat(
        np.cumsum(length) - length, length
    )
    steps = [np.flatnonzero(place == i) for i in range(length.max())]
    topics = rng.integers(N_TOPICS, size=len(rows))
    counts = np.zeros((seen.shape[0], N_TOPICS))
    np.add.at(counts, (rows, topics), 1)
    total = np.zeros_like(counts)
    for sweep in range(n_sweeps):
        for at in steps:
            counts[rows[at], topics[at]] -= 1
            p = (counts[rows[at]] + alpha) * lda.topic_word_distr_[
                :, words[at]
            ].T
            sums = p.cumsum(axis=1)
            topics[at] = (
                rng.random((len(at), 1)) * sums[:, -1:] >= sums[:, :-1]
            ).sum(axis=1)
            counts[rows[at], topics[at]] += 1
        if sweep >= n_sweeps // 3:
            total += counts + alpha
    return total / total.sum(axis=1, keepdims=True)


def completion(name, observed):
    """Mean log-probability of a hidden word."""
    model = MODELS[name.removesuffix(", sampled")]
    seen, hidden = split_words(X_test, observed=observed, random_state=0)
    kept = (np.diff(seen.indptr) > 0) & (np.diff(hidden.indptr) > 0)
    seen, hidden = seen[kept], hidden[kept].tocoo()
    weights = (
        sampled_weights(model, seen)
        if "sampled" in name
        else model.transform(seen)
    )
    topics = model.topic_word_distr_.astype(float)
    p = np.einsum("nk,nk->n", weights[hidden.row], topics[:, hidden.col].T)
    return hidden.data @ np.log(p) / hidden.data.sum()


SHARES = [0.05, 0.1, 0.2, 0.4, 0.8]
COLOURS = {
    "LDA": "#0077bb",
    "LDA, sampled": "#33bbee",
    "no correlations": "#999999",
    "correlated topics": "#cc3311",
}
scores = {
    name: [completion(name, share) for share in SHARES] for name in COLOURS
}
for name, found in scores.items():
    print(f"{name:20}", *(f"{score:.3f}" for score in found))

# %%
# On these documents the gain is that of logistic-normal weights; correlations add little to it.

fig, (left, right) = plt.subplots(
    1, 2, figsize=(11, 4.4), layout="constrained"
)
for name, found in scores.items():
    left.plot(SHARES, found, "o-", ms=4, color=COLOURS[name], label=name)
    gain = np.subtract(found, scores["LDA, sampled"])
    right.plot(SHARES, gain, "o-", ms=4, color=COLOURS[name], label=name)
left.set(title="Prediction of hidden words", ylabel="nats a word")
right.set(title="Against LDA, sampled", ylabel="difference (nats a word)")
left.legend(frameon=False)
for ax in (left, right):
    ax.set(xlabel="share of a document's words that is seen", xscale="log")
    ax.set_xticks(SHARES, [f"{share:.0%}" for share in SHARES], minor=False)
    ax.set_xticks([], minor=True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="#eeeeee")
    ax.set_axisbelow(True)
plt.show()
