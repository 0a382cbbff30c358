"""
================================
How the logits' samplers mix
================================

The topic weights of a document in :class:`~sklearn_sparsepost.GibbsCTM` are drawn one logit at a
time, given a Polya-Gamma variable or a random bound, a slice. Both leave the posterior unchanged,
but one forgets faster than the other: which one depends on how many of the document's tokens the
topic has.
"""

from copy import deepcopy

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp

from sklearn_sparsepost import GibbsCTM

# %%
# Four topics with words of their own, so that topics of tokens are known, in documents of 20 words,
# of which a topic has 0, 1, 3, 10 or 20. The prior of the logits is held by many pseudo-documents.

SHARES = [0, 1, 3, 10, 20]
N_COPIES, N_SWEEPS = 400, 30
rows = np.array([[own, 20 - own, 0, 0] for own in SHARES])
X = sp.csr_matrix(np.repeat(rows, N_COPIES, axis=0))
KNOWN = {
    "init": np.eye(4) + 1e-9,
    "topic_word_prior": np.where(np.eye(4) > 0, 1e6, 1e-6),
    "covariance_prior": 9.0,
    "degrees_of_freedom_prior": 1e9,
    "mean_precision_prior": 1e9,
}


class Trace:
    """A callback that keeps each document's first logit less their mean."""

    def setup(self, estimator, context):
        self.values = []

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        if context.task_name == "pass":
            logits = fitted_estimator.logits_
            self.values.append(logits[:, 0] - logits.mean(axis=1))

    def teardown(self, estimator, context):
        pass


# %%
# All begin where a long chain stands: the copies of a document are spread as its posterior is.

start = GibbsCTM(
    4, n_logit_steps=4, max_iter=60, warm_start=True, random_state=0, **KNOWN
).fit(X)
traces = {}
for sampler in ("polya-gamma", "slice", "auto"):
    trace = Trace()
    ctm = deepcopy(start).set_params(
        logit_sampler=sampler, n_logit_steps=1, max_iter=N_SWEEPS
    )
    ctm.set_callbacks(trace).fit(X)
    traces[sampler] = np.array(trace.values).reshape(
        N_SWEEPS, len(SHARES), N_COPIES
    )

# %%
# The autocorrelation is that over all copies of a document, between sweeps that far apart.

LAGS = np.arange(1, 16)
COLOURS = {"polya-gamma": "#ee7733", "slice": "#33bbee", "auto": "#0077bb"}


def autocorrelation(values, lag):
    """Of chains side by side."""
    return np.corrcoef(values[:-lag].ravel(), values[lag:].ravel())[0, 1]


fig, axes = plt.subplots(
    1, len(SHARES), figsize=(14, 3.4), sharey=True, layout="constrained"
)
for i, (own, ax) in enumerate(zip(SHARES, axes, strict=True)):
    for sampler, values in traces.items():
        line = [autocorrelation(values[:, i], lag) for lag in LAGS]
        style = {"lw": 3, "ls": "--"} if sampler == "auto" else {"lw": 1.8}
        ax.plot(LAGS, line, color=COLOURS[sampler], label=sampler, **style)
        print(
            f"{own:2} of 20 tokens, {sampler:12} after 5 sweeps: {line[4]:.2f}"
        )
    ax.set(title=f"{own} of 20 tokens", xlabel="sweeps apart", ylim=(-0.05, 1))
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="#eeeeee")
    ax.set_axisbelow(True)
axes[0].set_ylabel("autocorrelation of the topic's logit")
axes[0].legend(frameon=False)
plt.show()
