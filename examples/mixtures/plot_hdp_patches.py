"""
=============================================
Images and their topics: Gaussians in groups
=============================================

Patches of one image are alike. A mixture of Gaussians has the same weights in all images;
:class:`~sklearn_sparsepost.SparseHDP` shares the Gaussians and gives each image weights of its own.
After figure 7 of Hughes, Kim & Sudderth (2015), with tiles of two photographs for images; see
:ref:`sparse_hdp`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_images

from sklearn_sparsepost import SparseHDP, SparseMixture

SIZE, TILE = 8, 61
tiles = []
for photograph in load_sample_images().images:
    grey = photograph.mean(axis=2).astype(np.float32) / 255
    rows, columns = grey.shape[0] // TILE, grey.shape[1] // TILE
    cut = grey[: rows * TILE, : columns * TILE].reshape(
        rows, TILE, columns, TILE
    )
    tiles.extend(cut.swapaxes(1, 2).reshape(-1, TILE, TILE))


def patches_of(which):
    """Patches of tiles, their means removed, and the tile of each."""
    windows = [
        np.lib.stride_tricks.sliding_window_view(tiles[i], (SIZE, SIZE))[
            ::4, ::4
        ]
        for i in which
    ]
    X = np.concatenate([found.reshape(-1, SIZE * SIZE) for found in windows])
    groups = np.repeat(
        which, [found.shape[0] * found.shape[1] for found in windows]
    )
    return X - X.mean(axis=1, keepdims=True), groups


held_out = np.arange(len(tiles)) % 4 == 1
X, groups = patches_of(np.flatnonzero(~held_out))
X_test, groups_test = patches_of(np.flatnonzero(held_out))
print(f"{len(X):,} patches of {len(np.unique(groups))} tiles")

# %%
# Learning
# --------
#
# Both begin with 40 zero-mean Gaussians and may merge and delete. A row of `X` is a patch, and
# `groups` says which tile it is of. The score of held-out tiles is the log-likelihood of a patch,
# given most others of its tile where a tile has weights of its own.

options = {
    "assume_centered": True,
    "estimation": "map",
    "max_iter": 15,
    "random_state": 0,
}
hdp = SparseHDP(40, observation="gaussian", **options).fit(X, groups=groups)
process = {"weight_concentration_prior_type": "dirichlet_process"}
mixture = SparseMixture(40, **process, **options).fit(X)
print(
    f"mixture:  {mixture.score(X_test):.2f} nats a patch, "
    f"{mixture.n_components_} components"
)
score = hdp.score(X_test, groups=groups_test)
print(f"HDP:      {score:.2f} nats a patch, {hdp.n_components_} components")

# %%
# The topics of a tile
# --------------------
#
# Below some held-out tiles: their four largest topics, and for each six of the patches that belong
# to it. Beside them the four largest components of the mixture, which are the same for all tiles.

weights = hdp.transform(X_test, groups_test)
resp = hdp.predict_proba(X_test, groups_test)
labels = mixture.predict(X_test)
rng = np.random.default_rng(0)
names = np.unique(groups_test)

# Tiles whose weights are far from each other, one after another.
shown = [int(weights.max(axis=1).argmax())]
while len(shown) < 4:
    distance = (
        np.abs(weights[:, None] - weights[shown]).sum(axis=2).min(axis=1)
    )
    shown.append(int(distance.argmax()))


def draw_patches(axes, columns):
    """Six patches in each column."""
    for ax in axes[len(columns) :]:
        ax.set_visible(False)
    for ax, (title, found) in zip(axes, columns, strict=False):
        drawn = X_test[rng.choice(found, 6)].reshape(6 * SIZE, SIZE)
        stack = np.pad(
            drawn.reshape(6, SIZE, SIZE),
            ((0, 0), (0, 1), (0, 0)),
            constant_values=0.5,
        )
        ax.imshow(stack.reshape(-1, SIZE), cmap="gray", vmin=-0.25, vmax=0.25)
        ax.set(xticks=[], yticks=[])
        ax.set_title(title, fontsize=8)


fig = plt.figure(figsize=(12, 5), layout="constrained")
parts = fig.subfigures(1, 5, wspace=0.04)
for part, at in zip(parts, shown, strict=False):
    top, bottom = part.subfigures(2, 1, height_ratios=[4, 5])
    ax = top.subplots()
    ax.imshow(tiles[names[at]], cmap="gray", vmin=0, vmax=1)
    ax.set(xticks=[], yticks=[])
    here = groups_test == names[at]
    columns = []
    for k in np.argsort(-weights[at])[:4]:
        found = np.flatnonzero(here & (resp.argmax(axis=1) == k))
        if len(found) == 0:
            break  # a tile of less than four topics
        columns.append((f"{weights[at, k]:.0%}", found))
    draw_patches(bottom.subplots(1, 4), columns)
top, bottom = parts[4].subfigures(2, 1, height_ratios=[4, 5])
top.text(0.5, 0.5, "all tiles:\nthe mixture", ha="center", va="center")
largest = np.argsort(-mixture.weights_)[:4]
columns = [
    (f"{mixture.weights_[k]:.0%}", np.flatnonzero(labels == k))
    for k in largest
]
draw_patches(bottom.subplots(1, 4), columns)
plt.show()
