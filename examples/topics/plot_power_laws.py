"""
==========================================
Power laws in words, and Pitman-Yor topics
==========================================

The words of a text fall off as a power of their rank: few are frequent, and most are rare. Topics
from a Dirichlet distribution add the same pseudo-count to every word, which is much for a rare one.
Topics from Pitman-Yor processes share a distribution of words, and take a discount off every word
that they have before they spread it over those that they lack.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import train_test_split

from sklearn_sparsepost import AliasLDA, TopicSummary
from sklearn_sparsepost.datasets import load_docstrings

corpus = load_docstrings()
vectorizer = CountVectorizer(
    stop_words="english", token_pattern="[a-z]{3,}", min_df=2
)
X = vectorizer.fit_transform(corpus.data)
X_train, X_test = train_test_split(X, test_size=0.2, random_state=0)

OPTIONS = {
    "doc_topic_prior": "auto",
    "max_iter": 100,
    "evaluate_every": 0,
    "random_state": 0,
}
MODELS = {
    "Dirichlet, 0.1 a word": AliasLDA(20, **OPTIONS),
    "Dirichlet, learned": AliasLDA(20, topic_word_prior="auto", **OPTIONS),
    "Pitman-Yor": AliasLDA(20, topic_word_prior_type="pitman_yor", **OPTIONS),
    "Pitman-Yor, learned": AliasLDA(
        20,
        topic_word_prior_type="pitman_yor",
        concentration="auto",
        **OPTIONS,
    ),
}
for name, model in MODELS.items():
    model.fit(X_train)
    print(f"{name}: {model.score(X_test):.3f} nats a token")
for name in ("Pitman-Yor", "Pitman-Yor, learned"):
    a, b = MODELS[name].discount_, MODELS[name].concentration_
    print(f"{name}: discount {a:.2f}, concentration {b:.0f}")

# %%
# Each topic's words by their rank in it, and the mean over topics. Where the Dirichlet prior has a
# step, below which all words are alike, the shared distribution goes on falling.

COLOURS = dict(
    zip(MODELS, ("#EE7733", "#0077BB", "#009988", "#CC3311"), strict=True)
)
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), sharey=True)
frequency = np.sort(np.asarray(X_train.sum(axis=0)).ravel() / X_train.sum())[
    ::-1
]
rank = np.arange(1, len(frequency) + 1)
left.loglog(rank, frequency, color="black")
left.set(title="the corpus", xlabel="rank of a word", ylabel="probability")
for name, model in MODELS.items():
    topics = -np.sort(-model.topic_word_distr_, axis=1)
    right.loglog(
        rank,
        np.exp(np.log(topics).mean(axis=0)),
        color=COLOURS[name],
        label=name,
    )
right.set(
    title="topics, by model",
    xlabel="rank of a word in the topic",
    ylim=(1e-8, 0.2),
)
right.legend(loc="lower left")
fig.tight_layout()

# %%
# What a topic expects of a word it never had: the same of all words under one prior, and more of
# those that are frequent elsewhere under the shared distribution.

model = MODELS["Pitman-Yor"]
words = vectorizer.get_feature_names_out()
topic = int(np.argmax(model.components_.sum(axis=1)))
shown = TopicSummary(
    np.array([model.topic_word_distr_[topic], model.base_word_distr_]),
    feature_names=words,
)
largest, shared = shown.top_words(8)
print("a topic:", *largest)
print("shared: ", *shared)
plt.show()
