"""
============================================
A Dirichlet process that finds how many
============================================

With a Dirichlet process prior :class:`~sklearn_sparsepost.SparseMixture` begins with as many
components as it may use, and merges pairs or deletes small ones wherever the evidence lower bound
of all data rises. What a move does to the bound is known exactly, without another pass over the
data. The data here are seven clouds, and the fit may use 25 components.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_sparsepost import SparseMixture
from sklearn_sparsepost.display import MixtureDisplay

rng = np.random.default_rng(3)
centres = 9 * np.array(
    [[0, 0], [1, 1], [2, 0], [1, -1], [2.5, 1.5], [-0.8, 1.4], [3, -1]]
)
X = np.concatenate(
    [
        centre + rng.normal(size=(300, 2)) @ rng.normal(size=(2, 2))
        for centre in centres
    ]
)

# %%
# With and without moves
# ----------------------
#
# Without moves the extra components lose their observations pass by pass, and stay in the model
# when they have none: it takes longer, and the bound is lower. The priors say that
# clouds are about 1 wide and may be ten times as far apart; by default clouds are thought to be as
# wide as all data, and ellipses would be wider than what they hold.

options = {
    "sparsity_level": 4,
    "weight_concentration_prior_type": "dirichlet_process",
    "weight_concentration_prior": 1.0,
    "covariance_prior": np.eye(2),
    "mean_precision_prior": 0.01,
    "max_iter": 60,
    "tol": 1e-5,
    "random_state": 0,
}
fits = {
    "without moves": SparseMixture(25, moves=False, **options).fit(X),
    "with moves": SparseMixture(25, **options).fit(X),
}

fig, axes = plt.subplots(1, 2, figsize=(8.5, 4), sharex=True, sharey=True)
for ax, (name, mixture) in zip(axes, fits.items(), strict=True):
    MixtureDisplay.from_estimator(mixture, X, ax=ax)
    told = (
        f"{mixture.n_components_} of {len(mixture.weights_)} components in use"
    )
    ax.set_title(
        f"{name}: {told}\nbound {mixture.lower_bound_:.0f}", fontsize=10
    )
    print(f"{name}: {told}, bound {mixture.lower_bound_:.1f}")
fig.tight_layout()

# %%
# The bound, pass by pass
# -----------------------

fig, ax = plt.subplots(figsize=(6, 3.5))
for name, mixture in fits.items():
    ax.plot(
        np.arange(1, mixture.n_iter_ + 1), mixture.bound_history_, label=name
    )
ax.set(xlabel="passes", ylabel="bound (nats)")
ax.legend()
fig.tight_layout()
plt.show()
