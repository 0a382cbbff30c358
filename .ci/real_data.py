"""Fits of every estimator and sampler to real data, for .ci/sanitize; of so many rows, if told."""

import sys
from time import perf_counter

import numpy as np
from sklearn.datasets import load_sample_image
from sklearn.feature_extraction.text import CountVectorizer

from sklearn_sparsepost import (
    AliasLDA,
    GibbsCTM,
    SparseHDP,
    SparseLDA,
    SparseMixture,
    show_versions,
)
from sklearn_sparsepost.datasets import load_docstrings

show_versions()
vectorizer = CountVectorizer(token_pattern="[a-z]{3,}", min_df=3, max_df=0.2)
most = int(sys.argv[1]) if sys.argv[1:] else None
X = vectorizer.fit_transform(load_docstrings().data[:most])
print(f"{X.shape[0]:,} documents, {X.sum():,} tokens, {X.shape[1]:,} words")


def fit(estimator, data):
    begun = perf_counter()
    estimator.set_params(random_state=0, n_jobs=2).fit(data)
    getattr(estimator, "transform" if hasattr(estimator, "transform") else "predict_proba")(data)
    print(f"{perf_counter() - begun:6.1f} s  {estimator}".replace("\n", " "), flush=True)


seeded = np.full((50, X.shape[1]), 0.1)
seeded[0, :100] = 1
for sampler in ("auto", "alias", "sparse", "cycle", "dense"):
    fit(AliasLDA(50, sampler=sampler, max_iter=3), X)
    fit(AliasLDA(50, sampler=sampler, max_iter=3, topic_word_prior=seeded, init="random"), X)
fit(AliasLDA(50, doc_topic_prior="auto", topic_word_prior="auto", learn_every=2, max_iter=5), X)
processes = {"doc_topic_prior_type": "dirichlet_process"}
for kind in ({"topic_word_prior_type": "pitman_yor"}, processes):
    fit(AliasLDA(50, learn_every=2, max_iter=5, **kind), X)
for method in ("batch", "online", "memoized"):
    fit(SparseHDP(50, learning_method=method, max_iter=2), X)
fit(SparseHDP(10, moves=["birth", "merge", "delete"], max_iter=2), X)
for kind in ("full", "factor", "diag"):
    for sampler in ("auto", "alias", "sparse", "dense"):
        fit(GibbsCTM(50, covariance_type=kind, sampler=sampler, max_iter=3), X)
fit(GibbsCTM(50, logit_sampler="polya-gamma", topic_word_prior=seeded, max_iter=3), X)
for level in (1, 8, None):
    for method in ("batch", "online", "memoized"):
        fit(SparseLDA(50, sparsity_level=level, learning_method=method, max_iter=2), X)
        drawn = {"local_step": "gibbs", "learning_method": method, "max_iter": 2}
        fit(SparseLDA(50, sparsity_level=level, **drawn), X)
drawn = {"local_step": "gibbs", "max_iter": 2, "doc_topic_prior": "auto"}
fit(SparseLDA(400, estimation="bayes", rao_blackwell=False, burn_in=0, **drawn), X)
fit(SparseLDA(50, topic_word_prior=seeded, **drawn), X)
fit(SparseMixture(20, observation="multinomial", max_iter=2), X)

image = load_sample_image("china.jpg").mean(axis=2) / 255
patches = np.lib.stride_tricks.sliding_window_view(image, (8, 8))[::4, ::4].reshape(-1, 64)
patches = (patches - patches.mean(axis=1, keepdims=True))[:most]
process = {"weight_concentration_prior_type": "dirichlet_process"}
for dtype in (np.float32, np.float64):
    data = patches.astype(dtype)
    for params in ({}, {"n_neighbors": 5}, process, {"sparsity_level": None}):
        fit(SparseMixture(40, max_iter=3, assume_centered=True, **params), data)
for covariance_type in ("diag", "spherical"):
    fit(SparseMixture(40, max_iter=3, covariance_type=covariance_type), patches)
