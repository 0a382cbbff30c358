"""
============================================
Grid search over K, L and the learning rate
============================================

Which number of topics, which sparsity level, which decay of the step size? The ``score`` of
:class:`~sklearn_sparsepost.SparseLDA` is a prediction of held-out words, per word. It depends
neither on the size of the data nor on L, so that scikit-learn's ``GridSearchCV`` compares what is
comparable and can be used as it is.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV, KFold

from sklearn_sparsepost import SparseLDA
from sklearn_sparsepost.datasets import load_docstrings

corpus = load_docstrings()
vectorizer = CountVectorizer(
    stop_words="english", token_pattern="[a-z]{3,}", min_df=3, max_df=0.2
)
X = vectorizer.fit_transform(corpus.data)

# %%
# Online learning is the method that has a learning rate: the step t has the size
# ``(learning_offset + t) ** -learning_decay``, and with a larger decay later batches count less.
# With few passes over few batches that matters. The documents are sorted by library, so that the
# folds must be shuffled. Fits side by side use the cores better than threads within small fits:
# hence ``n_jobs`` of the search, which leaves each fit one core.
#
# A best value at the end of its list has not been found yet: the numbers of topics go on until the
# score falls again. A second search would look between the best and its neighbours. The decays
# begin next to 0.5, below which online learning need not converge: beyond that end there is nothing
# to find.

grid = {
    "n_components": [50, 200, 800],
    "sparsity_level": [1, 4, 16],
    "learning_decay": [0.55, 0.7, 0.9],
}
lda = SparseLDA(
    learning_method="online",
    batch_size=256,
    max_iter=4,
    evaluate_every=0,
    random_state=0,
)
search = GridSearchCV(
    lda,
    grid,
    cv=KFold(2, shuffle=True, random_state=0),
    refit=False,
    n_jobs=-1,
)
search.fit(X)

results = search.cv_results_
best_k = search.best_params_["n_components"]
print(f"best with {best_k} topics of {grid['n_components']}\n")
print("score (nats)  fit (s)  n_components  sparsity_level  learning_decay")
for i in np.argsort(results["rank_test_score"])[:5]:
    params = results["params"][i]
    print(
        f"{results['mean_test_score'][i]:12.3f}"
        f"{results['mean_fit_time'][i]:9.2f}"
        f"{params['n_components']:14}{params['sparsity_level']:16}"
        f"{params['learning_decay']:16}"
    )

# %%
# The search sorts the parameters by name, the last one varying fastest, so that its results are a
# block of decay x K x L. A heat map for each decay: colour is the score, and below it is the mean
# time of a fit.

shape = tuple(len(grid[name]) for name in sorted(grid))
score = np.reshape(results["mean_test_score"], shape)
seconds = np.reshape(results["mean_fit_time"], shape)
best = np.unravel_index(score.argmax(), shape)

fig, axes = plt.subplots(
    1, 3, figsize=(13, 4.2), layout="constrained", sharey=True
)
for d, (ax, decay) in enumerate(
    zip(axes, grid["learning_decay"], strict=True)
):
    image = ax.imshow(
        score[d],
        cmap="cividis",
        vmin=score.min(),
        vmax=score.max(),
        aspect="auto",
    )
    for k, level in np.ndindex(score[d].shape):
        value = score[d, k, level]
        dark = image.norm(value) < 0.55
        colour = "white" if dark else "black"
        weight = "bold" if (d, k, level) == best else "normal"
        ax.text(
            level,
            k - 0.08,
            f"{value:.3f}",
            ha="center",
            color=colour,
            weight=weight,
        )
        ax.text(
            level,
            k + 0.2,
            f"{seconds[d, k, level]:.2f} s",
            ha="center",
            color=colour,
            fontsize=8.5,
        )
    ax.set_title(f"learning_decay = {decay}", fontsize=11.5)
    ax.set_xticks(range(len(grid["sparsity_level"])), grid["sparsity_level"])
    ax.set_yticks(range(len(grid["n_components"])), grid["n_components"])
    ax.set_xlabel("sparsity_level, L")
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
axes[0].set_ylabel("n_components, K")
fig.suptitle(f"{best_k} topics are best, fewer and more are worse")
fig.colorbar(
    image, ax=axes, label="held-out score (nats a word)", pad=0.015
).outline.set_visible(False)
plt.show()
