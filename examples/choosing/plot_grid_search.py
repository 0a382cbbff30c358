"""
===========================================
Grid search over K, L and the learning rate
===========================================

Which number of topics, which sparsity level, which step size? The ``score`` of
:class:`~sklearn_sparsepost.SparseLDA` is a prediction of held-out words, per word. It depends
neither on the size of the data nor on L, so that scikit-learn's ``GridSearchCV`` compares what is
comparable and can be used as it is.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone
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
# First the step, at a guess of K and L
# -------------------------------------
#
# Online learning is the method that has a learning rate: the step t has the size
# ``(learning_offset + t) ** -learning_decay``. With a larger decay later batches count less, with a
# larger offset the first ones do. With few passes over few batches that matters. Both shape the
# same curve, so that they are searched over together: of one alone the best value depends on the
# other, and with a large offset it would be the least decay that there is.
#
# The documents are sorted by library, so that the folds must be shuffled. Fits side by side use the
# cores better than threads within small fits: hence ``n_jobs`` of the search, which leaves each fit
# one core.


def search(estimator, grid):
    """Search a grid of two parameters, and print the best three points."""
    found = GridSearchCV(
        estimator,
        grid,
        cv=KFold(2, shuffle=True, random_state=0),
        refit=False,
        n_jobs=-1,
    ).fit(X)
    results = found.cv_results_
    print("score (nats)  fit (s)  parameters")
    for i in np.argsort(results["rank_test_score"])[:3]:
        print(
            f"{results['mean_test_score'][i]:12.3f}"
            f"{results['mean_fit_time'][i]:9.2f}  {results['params'][i]}"
        )
    at_the_edge = [
        name
        for name, values in grid.items()
        if found.best_params_[name] in (values[0], values[-1])
    ]
    print(f"best values at the edge of their list: {at_the_edge or 'none'}\n")
    return found


lda = SparseLDA(
    n_components=200,
    sparsity_level=4,
    learning_method="online",
    batch_size=256,
    max_iter=4,
    evaluate_every=0,
    random_state=0,
)
steps = {"learning_decay": [0.55, 0.7, 0.9], "learning_offset": [1, 4, 16]}
of_steps = search(lda, steps)

# %%
# Then K and L, with that step
# ----------------------------
#
# A best value at the end of its list has not been found yet: go on until the score falls again. If
# this search ends at the K and L that the first one had guessed, another round would change
# nothing. If it does not, search for the step again.

sizes = {"n_components": [50, 200, 800], "sparsity_level": [1, 4, 16]}
of_sizes = search(clone(lda).set_params(**of_steps.best_params_), sizes)

# %%
# Colour is the score, and below it is the mean time of a fit. Neighbours of the best are close to
# it: what is a few thousandths of a nat apart may change places with another split. A smaller
# model is then as good a choice.


def heat_map(ax, found, grid):
    """Draw the scores of a grid of two parameters."""
    rows, columns = sorted(grid)  # as the search sorts them, the last fastest
    shape = len(grid[rows]), len(grid[columns])
    score = np.reshape(found.cv_results_["mean_test_score"], shape)
    seconds = np.reshape(found.cv_results_["mean_fit_time"], shape)
    image = ax.imshow(score, cmap="cividis", aspect="auto")
    for at in np.ndindex(shape):
        style = {
            "ha": "center",
            "color": "white" if image.norm(score[at]) < 0.55 else "black",
        }
        bold = "bold" if score[at] == score.max() else "normal"
        x, y = at[1], at[0]
        ax.text(x, y - 0.05, f"{score[at]:.3f}", weight=bold, **style)
        ax.text(x, y + 0.2, f"{seconds[at]:.2f} s", fontsize=8.5, **style)
    ax.set_xticks(range(shape[1]), grid[columns])
    ax.set_yticks(range(shape[0]), grid[rows])
    ax.set(xlabel=columns, ylabel=rows)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.figure.colorbar(image, ax=ax, pad=0.02).outline.set_visible(False)


fig, axes = plt.subplots(1, 2, figsize=(12, 4.2), layout="constrained")
heat_map(axes[0], of_steps, steps)
axes[0].set_title(
    f"first: {lda.n_components} topics, L = {lda.sparsity_level}", fontsize=11
)
heat_map(axes[1], of_sizes, sizes)
best = of_steps.best_params_
axes[1].set_title(
    f"then: decay {best['learning_decay']}, offset {best['learning_offset']}",
    fontsize=11,
)
fig.suptitle("Held-out score in nats a word: bold is best, higher is better")
plt.show()
