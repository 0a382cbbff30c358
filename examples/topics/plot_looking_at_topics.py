"""
=======================================================
Looking at topics: a table, names, documents, pictures
=======================================================

What does one do with a fitted topic model? :class:`~sklearn_sparsepost.TopicSummary` answers what
is asked of topics first, and the displays of :mod:`sklearn_sparsepost.display` draw it. The corpus
is the docstrings of numpy, scipy and scikit-learn, and the model a pipeline from text to topics; a
model of scikit-learn, or topics from elsewhere, would do as well.
"""

import matplotlib.pyplot as plt
from sklearn.decomposition import NMF
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.pipeline import make_pipeline

from sklearn_sparsepost import SparseLDA, TopicSummary
from sklearn_sparsepost.callbacks import HeldoutMonitor
from sklearn_sparsepost.datasets import load_docstrings
from sklearn_sparsepost.display import (
    DocumentTopicsDisplay,
    FitHistoryDisplay,
    SparsityDisplay,
    TopicMatchDisplay,
    TopicSharesDisplay,
    TopicWordsDisplay,
)

corpus = load_docstrings()
words = {
    "stop_words": "english",
    "token_pattern": "[a-z]{3,}",
    "min_df": 5,
    "max_df": 0.2,
}
model = make_pipeline(CountVectorizer(**words), SparseLDA(15, random_state=0))
model.fit(corpus.data)

# %%
# The table
# ---------
#
# Topics by size, each with a suggested label, its likeliest words, and the documents in which its
# share is largest. ``summary.to_frame()`` is the same for pandas, and in a notebook the summary
# shows itself as a table.

summary = TopicSummary.from_estimator(
    model, corpus.data, documents=corpus.names
)
print(summary)

# %%
# Three ways to rank words: the likeliest, the most relevant (Sievert & Shirley 2014), and those
# which other topics do not have.

for by in ("probability", "relevance", "lift"):
    print(f"{by:12}", *summary.top_words(7, by=by)[0])

# %%
# Topics that are like the first one, and how the topics share the occurrences of a word.

near, distances = summary.similar(0, 3)
for topic, distance in zip(near, distances, strict=True):
    print(f"{distance:.2f}  {summary.labels[topic]}")
shares = summary.word_topics("kernel")
for topic in shares.argsort()[:-4:-1]:
    print(f"{shares[topic]:4.0%} of 'kernel' is in: {summary.labels[topic]}")

# %%
# The words
# ---------

TopicWordsDisplay.from_summary(summary, n_words=7)
plt.show()

# %%
# The documents
# -------------
#
# A row is a document and a column a topic. Most documents are about one or two.

DocumentTopicsDisplay.from_summary(summary)
plt.show()

# %%
# How many topics a document uses, and how many a word, each with at least a twentieth of it.

SparsityDisplay.from_summary(summary)
plt.show()

# %%
# Topics beside what else is known
# --------------------------------
#
# Shares by a column of the data, here the library. With ``times=`` in place of ``groups=`` they
# are drawn over time.

libraries = [corpus.target_names[number] for number in corpus.target]
TopicSharesDisplay.from_summary(
    summary, groups=libraries
).figure_.set_size_inches(9, 3)
plt.show()

# %%
# The fit
# -------
#
# The bound, which is what training maximises, and the score of documents that were held out.

X = model[0].transform(corpus.data)
monitor = HeldoutMonitor(X[::5])
train = X[[row for row in range(X.shape[0]) if row % 5]]
lda = SparseLDA(15, tol=0, random_state=0).set_callbacks(monitor).fit(train)
FitHistoryDisplay.from_estimator(lda, monitor)
plt.show()

# %%
# Another model
# -------------
#
# Non-negative matrix factorisation of tf-idf weights finds other topics of the same texts. The two
# models' topics are paired so that the sum of distances is least.

nmf = make_pipeline(
    TfidfVectorizer(**words), NMF(15, max_iter=500, random_state=0)
).fit(corpus.data)
TopicMatchDisplay.from_estimators(model, nmf)
plt.show()
