"""
=============================================
Four sampled models: Dirichlet, or a process
=============================================

The samplers of :class:`~sklearn_sparsepost.AliasLDA` draw topics under four models: documents have
Dirichlet weights, or weights from a process that finds how many topics there are; topics have
Dirichlet words, or words from a Pitman-Yor process around what they share. Li et al. (KDD 2014)
compare them by the time of a sweep and by perplexity over time, as here.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from sklearn_sparsepost import AliasLDA
from sklearn_sparsepost.callbacks import HeldoutMonitor
from sklearn_sparsepost.datasets import load_docstrings

corpus = load_docstrings()
X = CountVectorizer(
    stop_words="english", token_pattern="[a-z]{3,}", min_df=2
).fit_transform(corpus.data)
X_train, X_test = train_test_split(X, test_size=0.2, random_state=0)

HDP = {"doc_topic_prior_type": "dirichlet_process"}
PDP = {"topic_word_prior_type": "pitman_yor"}
MODELS = {
    "LDA": ({"doc_topic_prior": "auto"}, "#009988"),
    "HDP": (HDP, "#0077bb"),
    "PDP": ({"doc_topic_prior": "auto", **PDP}, "#ee7733"),
    "HDP and PDP": ({**HDP, **PDP}, "#cc3311"),
}

# %%
# Seconds of a sweep by the sampler: the lists of the words' topics against alias tables.

SAMPLERS = ("sparse", "alias")
OPTIONS = {"n_components": 50, "evaluate_every": 0, "random_state": 0}
seconds = {}
for name, (options, _) in MODELS.items():
    for sampler in SAMPLERS:
        lda = AliasLDA(
            sampler=sampler, max_iter=2, warm_start=True, **OPTIONS, **options
        )
        with threadpool_limits(1, user_api="openmp"):
            lda.fit(X_train)
            begun = time.perf_counter()
            lda.set_params(max_iter=10).fit(X_train)
            seconds[name, sampler] = (time.perf_counter() - begun) / 10
    told = ", ".join(
        f"{sampler} {seconds[name, sampler]:.3f} s" for sampler in SAMPLERS
    )
    print(f"{name:12} {told}")

# %%
# Perplexity of held-out words over time, the start included. Counts are those of a sweep until
# they are averaged, from half of the sweeps on.

curves = {}
for name, (options, _) in MODELS.items():
    log = HeldoutMonitor(X_test, every=5)
    lda = AliasLDA(max_iter=60, **OPTIONS, **options).set_callbacks(log)
    with threadpool_limits(1, user_api="openmp"):
        lda.fit(X_train)
    curves[name] = [
        (row["seconds"], np.exp(-row["score"])) for row in log.get_logs()
    ]
    print(
        f"{name:12} perplexity {curves[name][-1][1]:.0f}, "
        f"{len(lda.components_)} topics"
    )

fig, (left, right) = plt.subplots(
    1, 2, figsize=(11, 4.4), layout="constrained"
)
places = np.arange(len(MODELS))
for i, (sampler, colour) in enumerate(
    zip(SAMPLERS, ("#bbbbbb", "#0077bb"), strict=True)
):
    heights = [1000 * seconds[name, sampler] for name in MODELS]
    left.bar(
        places + 0.4 * i - 0.2, heights, 0.38, color=colour, label=sampler
    )
left.set_xticks(places, list(MODELS))
left.set(title="A sweep", ylabel="milliseconds, one thread")
left.legend(frameon=False, title="sampler")
for name, (_, colour) in MODELS.items():
    times, values = zip(*curves[name], strict=True)
    right.plot(times, values, color=colour, label=name)
right.set(
    title="Perplexity over time",
    xlabel="training time (s)",
    ylabel="held-out perplexity",
)
right.legend(frameon=False)
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
