"""
============================================
Topics that go together: a graph and a tree
============================================

:class:`~sklearn_sparsepost.GibbsCTM` learns which topics occur together in documents. Here these
are the topics of the docstrings of numpy, scipy and scikit-learn.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer

from sklearn_sparsepost import GibbsCTM
from sklearn_sparsepost.datasets import load_docstrings

corpus = load_docstrings()
vectorizer = CountVectorizer(
    stop_words="english", token_pattern="[a-z]{3,}", min_df=5, max_df=0.2
)
X = vectorizer.fit_transform(corpus.data)
names = vectorizer.get_feature_names_out()
ctm = GibbsCTM(
    n_components=40, max_iter=150, evaluate_every=0, random_state=0
).fit(X)
print(f"{X.shape[0]} documents, {X.sum()} words, {ctm.n_iter_} sweeps")

# %%
# Topics that are joined have a correlation of at least 0.35. The larger a dot, the more words
# its topic has.

graph = ctm.topic_graph(threshold=0.35, n_words=3, feature_names=names)
for (one, other), weight in zip(graph.edges[:8], graph.weights, strict=False):
    print(f"{weight:.2f}  {graph.labels[one]:32} {graph.labels[other]}")
graph.plot().ax_.set_title("Topics with a correlation of at least 0.35")
plt.show()

# %%
# The same correlations as a tree, cut at two heights: clusters, finer clusters, and topics, each
# with its most probable words.

tree = ctm.topic_tree(n_words=4, feature_names=names)
tree.plot(layers=(5, 14)).ax_.set_title("From clusters of topics to topics")
plt.show()

# %%
# As arrays: the correlations in the order of the tree have blocks along their diagonal.

order = np.argsort(tree.cut(len(tree.labels)))
fig, ax = plt.subplots(figsize=(6, 5), layout="constrained")
image = ax.imshow(
    ctm.topic_correlation_[np.ix_(order, order)],
    cmap="RdBu_r",
    vmin=-1,
    vmax=1,
)
ax.set(
    title="Correlations of topics", xlabel="topic, in the order of the tree"
)
fig.colorbar(image, ax=ax, label="correlation")
plt.show()
