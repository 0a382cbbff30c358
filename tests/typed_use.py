"""Programs of users, as a type checker sees them: `mypy` checks this file; nobody runs it."""

from pathlib import Path
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

from sklearn_sparsepost import (
    AliasLDA,
    GibbsCTM,
    SparseHDP,
    SparseLDA,
    SparseMixture,
    TopicSummary,
    show_versions,
)
from sklearn_sparsepost.callbacks import EarlyStopping
from sklearn_sparsepost.datasets import make_bars
from sklearn_sparsepost.display import TopicSharesDisplay, TopicWordsDisplay
from sklearn_sparsepost.metrics import document_completion, match_topics, top_words
from sklearn_sparsepost.models import Corpus, DirichletWeights, Mixture, begin
from sklearn_sparsepost.observations import Observation


def topics(X: NDArray[np.int64]) -> float:
    """Fit, read, score, go on."""
    lda = SparseLDA(10, sparsity_level=None, doc_topic_prior="auto", random_state=0)
    lda = lda.fit(X, sample_weight=[1.0] * len(X)).partial_fit(X)
    assert_type(lda, SparseLDA)
    assert_type(lda.components_, NDArray[Any])
    assert_type(lda.n_iter_, int)
    AliasLDA(10, sampler="alias").fit(X)
    GibbsCTM(10).fit(X)
    SparseHDP(10, moves=["birth", "merge"]).fit(X)
    SparseLDA.from_topics(lda.components_, feature_names=["a", "b"])
    SparseLDA(10, learning_method="batches")  # type: ignore[arg-type]
    SparseLDA("ten")  # type: ignore[arg-type]
    rows, columns, _ = match_topics(lda.components_, lda.components_)
    top_words(lda.components_, 5)
    return lda.score(X) + document_completion(lda.components_, X)


def summary(model: SparseLDA, texts: list[str]) -> list[str]:
    """Look at topics."""
    found = TopicSummary.from_estimator(model, texts)
    assert_type(found, TopicSummary)
    TopicWordsDisplay.from_estimator(model, feature_names=texts)
    TopicSharesDisplay.from_summary(found, groups=texts)
    return [str(found), str(Path("topics"))]


def mixture(X: NDArray[np.float64]) -> NDArray[Any]:
    """Clusters."""
    fitted = SparseMixture(5, covariance_type="diag").fit(X)
    fitted.predict_proba(X).argmax(axis=1)
    return fitted.predict(X)


def parts(observation: Observation, X: NDArray[np.float64]) -> None:
    """A model of one's own."""
    model = Mixture(observation, DirichletWeights("bayes", 1.0), 2)
    begin(model, Corpus(X, np.float64), X)
    EarlyStopping(X, patience=2)
    make_bars(100, random_state=0)
    show_versions()
