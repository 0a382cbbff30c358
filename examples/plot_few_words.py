"""
===================================================
Prediction from few words: correlations against LDA
===================================================

When most of a document is hidden, the few words that are seen say little of its topics. Then it
helps to know which topics go together. The other words of held-out documents are predicted from an
ever smaller part of them, by latent Dirichlet allocation with a learned prior and by correlated
topics, each with its own topics and under its own prior.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import train_test_split

from sklearn_sparsepost import AliasLDA, GibbsCTM
from sklearn_sparsepost.datasets import load_docstrings
from sklearn_sparsepost.metrics import split_words

corpus = load_docstrings()
vectorizer = CountVectorizer(stop_words="english", token_pattern="[a-z]{3,}", min_df=5, max_df=0.2)
X = vectorizer.fit_transform(corpus.data)
X_train, X_test = train_test_split(X, test_size=0.2, random_state=0)

N_TOPICS = 40
MODELS = {
    "LDA, learned prior": AliasLDA(
        N_TOPICS, doc_topic_prior="auto", max_iter=120, evaluate_every=0, random_state=0
    ),
    "correlated topics": GibbsCTM(N_TOPICS, max_iter=120, evaluate_every=0, random_state=0),
    "no correlations": GibbsCTM(
        N_TOPICS, covariance_type="diag", max_iter=120, evaluate_every=0, random_state=0
    ),
}
for model in MODELS.values():
    model.fit(X_train)

# %%
# `transform` infers topic weights from what is seen; they predict what is hidden.


def completion(model, observed):
    """Mean log-probability of a hidden word."""
    seen, hidden = split_words(X_test, observed=observed, random_state=0)
    kept = (np.diff(seen.indptr) > 0) & (np.diff(hidden.indptr) > 0)
    weights = model.transform(seen[kept]).astype(float)
    hidden = hidden[kept].tocoo()
    topics = model.topic_word_distr_.astype(float)
    p = np.einsum("nk,nk->n", weights[hidden.row], topics[:, hidden.col].T)
    return hidden.data @ np.log(p) / hidden.data.sum()


SHARES = [0.05, 0.1, 0.2, 0.4, 0.6, 0.8]
scores = {name: [completion(model, share) for share in SHARES] for name, model in MODELS.items()}
for name, found in scores.items():
    print(f"{name:20}", *(f"{score:.3f}" for score in found))

# %%

fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
COLOURS = {
    "LDA, learned prior": "#0077bb",
    "correlated topics": "#cc3311",
    "no correlations": "#999999",
}
for name, found in scores.items():
    left.plot(SHARES, found, "o-", ms=4, color=COLOURS[name], label=name)
    gain = np.subtract(found, scores["LDA, learned prior"])
    right.plot(SHARES, gain, "o-", ms=4, color=COLOURS[name], label=name)
left.set(title="Prediction of hidden words", ylabel="nats a word")
right.set(title="Against LDA", ylabel="difference (nats a word)")
left.legend(frameon=False)
for ax in (left, right):
    ax.set(xlabel="share of a document's words that is seen", xscale="log")
    ax.set_xticks(SHARES, [f"{share:.0%}" for share in SHARES], minor=False)
    ax.set_xticks([], minor=True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="#eeeeee")
    ax.set_axisbelow(True)
plt.show()
