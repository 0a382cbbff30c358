"""Document completion: against the plain definition, and what makes it a fair judge."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import UndefinedMetricWarning

from sklearn_sparsepost import AliasLDA, SparseLDA
from sklearn_sparsepost.datasets import make_lda_corpus
from sklearn_sparsepost.metrics import document_completion, split_words


@pytest.fixture(scope="module")
def problem():
    return make_lda_corpus(200, 80, 5, doc_length=50, random_state=1)


def test_split_is_of_distinct_words(problem):
    X = problem[0]
    seen, hidden = split_words(X, observed=0.7, random_state=3)
    assert (seen + hidden != X).nnz == 0
    assert seen.multiply(hidden).nnz == 0
    assert 0.6 < seen.nnz / X.nnz < 0.8
    again = split_words(X, observed=0.7, random_state=3)[0]
    assert (seen != again).nnz == 0


def test_against_the_plain_definition(problem):
    from scipy.special import psi

    X, topics, _ = problem
    alpha = np.array([0.1, 0.2, 0.3, 0.2, 0.1])
    seen, hidden = split_words(X)
    total = 0.0
    for d in range(X.shape[0]):
        a, b = seen[d].toarray()[0], hidden[d].toarray()[0]
        if not (a.any() and b.any()):
            continue
        weight = np.ones(5)
        for _ in range(3000):
            mass = weight * (topics @ (a / (weight @ topics)))
            weight = np.exp(psi(mass + alpha))
        pi = (mass + alpha) / (mass + alpha).sum()
        total += b @ np.log(pi @ topics)
    tokens = hidden[(np.diff(seen.indptr) > 0)].sum()
    got = document_completion(topics, X, doc_topic_prior=alpha, max_iter=3000, tol=1e-9)
    assert got == pytest.approx(total / tokens, abs=1e-6)


def test_truth_beats_what_is_blurred_or_shuffled(problem):
    X, topics, _ = problem
    rng = np.random.default_rng(0)
    best = document_completion(topics, X)
    assert best > document_completion(0.7 * topics + 0.3 * topics.mean(axis=0), X)
    assert best > document_completion(topics[:, rng.permutation(80)], X) + 0.5


def test_does_not_depend_on_size_or_scale(problem):
    X, topics, _ = problem
    once = document_completion(topics, X)
    assert document_completion(topics * np.array([[1], [2], [3], [4], [5]]), X) == once
    twice = document_completion(topics, sp.vstack([X, X]))
    assert twice == pytest.approx(once, abs=0.2)  # another random split, the same scale
    order = np.random.default_rng(0).permutation(5)
    assert document_completion(topics[order], X) == pytest.approx(once, abs=1e-4)


@pytest.mark.parametrize("estimator", [SparseLDA, AliasLDA])
def test_score_of_the_estimator_is_this_metric(problem, estimator):
    X, _, _ = problem
    lda = estimator(5, random_state=0).fit(X)
    want = document_completion(lda.components_, X, doc_topic_prior=lda.doc_topic_prior_)
    assert lda.score(X) == want


def test_agrees_with_the_judge(judge, problem):
    X, topics, _ = problem
    assert document_completion(topics, X) == pytest.approx(judge.score(topics, X), abs=2e-3)


def test_nothing_to_score():
    X = sp.csr_matrix([[3.0, 0.0], [0.0, 2.0]])
    with pytest.warns(UndefinedMetricWarning, match="NaN"):
        assert np.isnan(document_completion([[0.5, 0.5]], X))


@pytest.mark.parametrize(
    ("topics", "message"),
    [
        ([[0.5, -0.5]], "non-negative"),
        ([[0.0, 0.0]], "all zero"),
        ([[0.5, 0.2, 0.3]], "2 features, but components has 3"),
    ],
)
def test_bad_topics(topics, message):
    with pytest.raises(ValueError, match=message):
        document_completion(topics, sp.csr_matrix([[3.0, 1.0]]))


def test_bad_prior():
    with pytest.raises(ValueError, match="doc_topic_prior has shape"):
        document_completion([[0.5, 0.5]], sp.csr_matrix([[3.0, 1.0]]), doc_topic_prior=[1, 2])
