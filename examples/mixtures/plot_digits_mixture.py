"""
=====================================================
Clusters of digits, and the best number of components
=====================================================

Handwritten digits as vectors of bits, in a mixture of Bernoulli distributions. Its score is the
held-out log-likelihood of a digit, the same quantity for every number of components, K, and every
sparsity level, L: a grid search may choose both.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_mutual_info_score
from sklearn.model_selection import GridSearchCV

from sklearn_sparsepost import SparseMixture

digits = load_digits()
X = (digits.data > 7).astype(np.float32)

# %%
# Grid search over K and L
# ------------------------

levels, sizes = [1, 2, 4, 8], [10, 20, 40, 80]
search = GridSearchCV(
    SparseMixture(observation="bernoulli", max_iter=30, random_state=0),
    {"n_components": sizes, "sparsity_level": levels},
    cv=3,
).fit(X)
scores = search.cv_results_["mean_test_score"].reshape(len(sizes), len(levels))
fig, ax = plt.subplots(figsize=(6, 3.8))
for level, column in zip(levels, scores.T, strict=True):
    ax.plot(sizes, column, "o-", label=f"L = {level}")
ax.set(
    xlabel="number of components, K",
    ylabel="held-out nats a digit",
    xscale="log",
)
ax.set_xticks(sizes, sizes)
ax.minorticks_off()
ax.legend()
fig.tight_layout()
print(search.best_params_, f"{search.best_score_:.2f}")

# %%
# What the components look like
# -----------------------------
#
# Each picture is the expected digit of a component, the most frequent ones first.

mixture = search.best_estimator_
labels = mixture.predict(X)
agreement = adjusted_mutual_info_score(digits.target, labels)
print(f"adjusted mutual information with the digits' names: {agreement:.2f}")
fig, axes = plt.subplots(2, 10, figsize=(8, 2.1))
for ax, k in zip(axes.flat, np.argsort(-mixture.weights_), strict=False):
    ax.imshow(mixture.means_[k].reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
    ax.set(xticks=[], yticks=[])
fig.tight_layout()
plt.show()
