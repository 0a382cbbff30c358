"""
============================================
How many components may an observation have?
============================================

``sparsity_level``, L, is the most components that an observation of
:class:`~sklearn_sparsepost.SparseMixture` may keep. On patches of a photograph: the time of a
pass, the held-out log-likelihood, and how far L-sparse responsibilities are from the dense ones
(figures 1d and 2 of Hughes and Sudderth). Then ``n_neighbors``, which compares an observation with
components near those that it has, and not with all.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

from sklearn_sparsepost import SparseMixture
from sklearn_sparsepost.callbacks import HeldoutMonitor

SIZE, K = 8, 100


def patches(name, step):
    image = (load_sample_image(name).mean(axis=2) / 255).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(image, (SIZE, SIZE))[
        ::step, ::step
    ]
    X = windows.reshape(-1, SIZE * SIZE)
    return X - X.mean(axis=1, keepdims=True)


X, X_test = patches("china.jpg", 3), patches("flower.jpg", 7)
print(
    f"{len(X):,} patches to learn from, {len(X_test):,} of another photograph "
    "held out"
)

# %%
# Learning with different L
# -------------------------
#
# Ten passes each, from the same start. The monitor scores held-out patches after every pass, off
# the clock.

options = {
    "assume_centered": True,
    "learning_method": "batch",
    "max_iter": 10,
    "tol": 0,
}
fits, curves = {}, {}


def learn(label, **params):
    monitor = HeldoutMonitor(X_test)
    mixture = SparseMixture(
        K, **options, **params, random_state=0
    ).set_callbacks(monitor)
    fits[label] = mixture.fit(X)
    rows = monitor.get_logs()
    curves[label] = np.array(
        [[row["seconds"], row["score"]] for row in rows]
    ).T
    seconds, scores = curves[label]
    print(
        f"{label:20} {np.median(np.diff(seconds)):6.2f} s a pass, "
        f"{scores[-1]:8.3f} nats a patch"
    )


levels = {
    "L = 1": 1,
    "L = 2": 2,
    "L = 4": 4,
    "L = 8": 8,
    "L = 16": 16,
    "dense": None,
}
for label, level in levels.items():
    learn(label, sparsity_level=level)
learn("L = 4, 8 neighbours", sparsity_level=4, n_neighbors=8)

# %%
# The same components, other responsibilities
# -------------------------------------------
#
# Now the components are those of the dense fit, and only what an observation may keep differs. The
# distance is half the sum of absolute differences: 0 if the responsibilities agree, 1 if they have
# no component in common.

dense = fits["dense"]
reference = dense.predict_proba(X_test)
distances = {}
for label, level in levels.items():
    resp = dense.set_params(sparsity_level=level).predict_proba(X_test)
    distances[label] = 0.5 * np.abs(resp - reference).sum(axis=1).mean()
    print(f"{label:20} {distances[label]:.4f} from dense")

# %%
# Pictures
# --------

fig, (left, right) = plt.subplots(
    1, 2, figsize=(9.5, 3.8), width_ratios=(1.7, 1)
)
colours = plt.get_cmap("viridis")(np.linspace(0, 0.9, len(levels)))
for (label, (seconds, scores)), colour in zip(
    curves.items(), [*colours, "#cc3311"], strict=True
):
    left.plot(seconds, scores, color=colour, lw=1.8, marker=".", label=label)
left.set(
    xscale="log", xlabel="training time (s)", ylabel="held-out nats a patch"
)
left.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
left.xaxis.set_minor_formatter(
    lambda value, _: f"{value:g}" if f"{value:.0e}"[0] in "25" else ""
)
left.set_ylim(bottom=min(scores[2] for _, scores in curves.values()))
left.legend(frameon=False, fontsize=8)

right.bar(list(distances), distances.values(), color=colours)
right.set_ylabel("distance from dense responsibilities")
right.tick_params(axis="x", rotation=45)
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(alpha=0.25)
fig.tight_layout()
plt.show()
