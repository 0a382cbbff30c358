"""
==================================
A mixture of natural image patches
==================================

Patches of 8 x 8 pixels from a photograph, their means removed, are modelled by zero-mean Gaussians
with full covariances: the experiment of Zoran and Weiss (2011), by which Hughes and Sudderth show
what sparse responsibilities are good for. Each component learns a kind of texture or an edge. The
mixture is then a prior for images: it takes noise out of a photograph that it has not seen.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter
from sklearn.datasets import load_sample_image

from sklearn_sparsepost import SparseMixture

SIZE = 8


def grey(name):
    return (load_sample_image(name).mean(axis=2) / 255).astype(np.float32)


def patches_of(image, step):
    windows = np.lib.stride_tricks.sliding_window_view(image, (SIZE, SIZE))[
        ::step, ::step
    ]
    return windows.reshape(-1, SIZE * SIZE)


flower, china = grey("flower.jpg"), grey("china.jpg")
X = patches_of(flower, 3)
X = X - X.mean(axis=1, keepdims=True)
print(f"{len(X):,} patches to learn from")

# %%
# Learning
# --------
#
# Every patch keeps 4 of 60 components. Few passes are enough here.

mixture = SparseMixture(
    60,
    sparsity_level=4,
    assume_centered=True,
    max_iter=8,
    tol=0.01,
    random_state=0,
).fit(X)
print(f"{mixture.n_iter_} passes, {mixture.score(X):.1f} nats a patch")

# %%
# What the components look like
# -----------------------------
#
# The three directions in which a component varies most, as pictures, for the eight components of
# largest weight.

order = np.argsort(-mixture.weights_)[:8]
fig, axes = plt.subplots(3, len(order), figsize=(8, 3.4))
for column, k in zip(axes.T, order, strict=True):
    directions = np.linalg.eigh(mixture.covariances_[k])[1][:, ::-1]
    for ax, direction in zip(column, directions.T, strict=False):
        ax.imshow(direction.reshape(SIZE, SIZE), cmap="gray")
        ax.set(xticks=[], yticks=[])
    column[0].set_title(f"{mixture.weights_[k]:.1%}", fontsize=9)
fig.suptitle("Leading directions of the most frequent components")
fig.tight_layout()

# %%
# Taking out noise
# ----------------
#
# Noise of known variance adds to every covariance. Each noisy patch goes to the most probable
# component of the noisy mixture; given that, its best estimate is linear. Every pixel is the mean
# of the patches that overlap it. The baseline is a Gaussian filter of the best width.

noise = 0.1
crop = china[100:260, 200:400]
noisy = crop + noise * np.random.default_rng(0).standard_normal(
    crop.shape
).astype(np.float32)

Y = patches_of(noisy, 1)
means = Y.mean(axis=1, keepdims=True)
Y = Y - means
eye = np.eye(SIZE * SIZE)
score = np.empty((len(Y), len(mixture.weights_)))
for k, covariance in enumerate(mixture.covariances_):
    lower = np.linalg.cholesky(covariance + noise**2 * eye)
    length = (np.linalg.solve(lower, Y.T) ** 2).sum(axis=0)
    score[:, k] = (
        np.log(mixture.weights_[k])
        - np.log(np.diag(lower)).sum()
        - 0.5 * length
    )
labels = score.argmax(axis=1)
clean = np.empty_like(Y)
for k in np.unique(labels):
    covariance = mixture.covariances_[k]
    gain = np.linalg.solve(covariance + noise**2 * eye, covariance)
    clean[labels == k] = Y[labels == k] @ gain
clean += means

restored, count = np.zeros_like(noisy), np.zeros_like(noisy)
rows, columns = noisy.shape[0] - SIZE + 1, noisy.shape[1] - SIZE + 1
stack = clean.reshape(rows, columns, SIZE, SIZE)
for i in range(SIZE):
    for j in range(SIZE):
        restored[i : i + rows, j : j + columns] += stack[:, :, i, j]
        count[i : i + rows, j : j + columns] += 1
restored /= count


def psnr(image):
    return -10 * np.log10(((image - crop) ** 2).mean())


filtered = max(
    (gaussian_filter(noisy, width) for width in np.linspace(0.5, 2, 7)),
    key=psnr,
)
fig, axes = plt.subplots(2, 2, figsize=(8, 6.8))
for ax, image, name in zip(
    axes.flat,
    (crop, noisy, filtered, restored),
    ("photograph", "noisy", "Gaussian filter", "mixture"),
    strict=True,
):
    ax.imshow(image, cmap="gray", vmin=0, vmax=1)
    title = name if image is crop else f"{name}: {psnr(image):.1f} dB"
    ax.set(xticks=[], yticks=[], title=title)
    print(title)
fig.tight_layout()
plt.show()
