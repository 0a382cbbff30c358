"""Held-out scores: against the plain definition, and what makes them fair judges."""

import itertools

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import gammaln
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.model_selection import GridSearchCV

from sklearn_sparsepost import AliasLDA, SparseLDA
from sklearn_sparsepost.datasets import make_lda_corpus
from sklearn_sparsepost.metrics import document_completion, left_to_right, split_words


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


# ---------------------------------------------------------------------- left to right


def log_probability(tokens, topics, alpha):
    """log p(tokens) by enumeration of all assignments."""
    total = 0.0
    for z in itertools.product(range(len(alpha)), repeat=len(tokens)):
        n = np.bincount(z, minlength=len(alpha))
        log_p = gammaln(alpha.sum()) - gammaln(alpha.sum() + len(tokens))
        log_p += (gammaln(alpha + n) - gammaln(alpha)).sum()
        total += np.exp(log_p) * np.prod(topics[list(z), tokens])
    return np.log(total)


def test_left_to_right_against_enumeration():
    rng = np.random.default_rng(0)
    topics, alpha = rng.dirichlet(np.full(6, 0.5), size=3), np.array([0.2, 0.9, 0.4])
    X = rng.multinomial(6, np.full(6, 1 / 6), size=10)
    want = [log_probability(np.repeat(np.arange(6), row), topics, alpha) for row in X]
    options = {"doc_topic_prior": alpha, "n_particles": 5000}
    got = left_to_right(topics * 7, X, per_document=True, **options)
    np.testing.assert_allclose(got, want, atol=0.03)
    assert left_to_right(topics, X, **options) == pytest.approx(got.sum() / 60)
    two = left_to_right(topics[:2], X, doc_topic_prior=0.3, n_particles=5000, per_document=True)
    want = log_probability(np.repeat(np.arange(6), X[0]), topics[:2], np.full(2, 0.3))
    assert two[0] == pytest.approx(want, abs=0.03)


def test_left_to_right_tells_good_from_poor(problem):
    X, topics, _ = problem
    rng = np.random.default_rng(0)
    best = left_to_right(topics, X)
    assert best > left_to_right(0.7 * topics + 0.3 * topics.mean(axis=0), X)
    assert best > left_to_right(topics[:, rng.permutation(80)], X) + 0.5
    assert left_to_right(topics, X, random_state=1) == pytest.approx(best, abs=0.01)
    assert left_to_right(topics, X, random_state=1) != best


def test_left_to_right_is_the_same_everywhere(problem, monkeypatch):
    X, topics, _ = problem
    monkeypatch.setattr("sklearn_sparsepost._run.threads.SMALL_WORK", 0)
    want = left_to_right(topics, X, per_document=True)
    monkeypatch.setattr("sklearn_sparsepost.metrics._heldout.SAMPLED_CHUNK", 700)
    for n_jobs in (None, 1, 3):
        got = left_to_right(topics, X, per_document=True, n_jobs=n_jobs)
        np.testing.assert_array_equal(got, want)
    for backend in ("threading", "loky"):
        with joblib.parallel_config(backend=backend, n_jobs=2):
            got = left_to_right(topics, X, per_document=True)
        np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(left_to_right(topics, X[:31], per_document=True), want[:31])


def test_left_to_right_reads_any_storage(problem):
    X, topics, _ = problem
    want = left_to_right(topics, X, per_document=True)
    entries = sp.coo_array(X.astype(float))
    order = np.random.default_rng(0).permutation(X.nnz)
    at = entries.row[order], entries.col[order]
    shuffled = sp.csr_array(sp.coo_array((entries.data[order], at), shape=X.shape))
    doubled = sp.csr_array(X.astype(float))
    doubled = sp.csr_array(
        (np.repeat(doubled.data / 2, 2), np.repeat(doubled.indices, 2), 2 * doubled.indptr),
        shape=X.shape,
    )
    for same in (X.toarray(), shuffled, doubled):
        np.testing.assert_array_equal(left_to_right(topics, same, per_document=True), want)
    assert doubled.nnz == 2 * X.nnz


def test_left_to_right_of_nothing(problem):
    _, topics, _ = problem
    X = np.zeros((3, 80))
    assert left_to_right(topics, X, per_document=True).tolist() == [0, 0, 0]
    with pytest.warns(UndefinedMetricWarning, match="no document has a word"):
        assert np.isnan(left_to_right(topics, X))
    X[1, 5] = 1
    got = left_to_right(topics, X, per_document=True)
    assert got[1] == pytest.approx(np.log(topics[:, 5].mean())) and not got[[0, 2]].any()


@pytest.mark.parametrize(
    ("X", "options", "message"),
    [
        ([[1.0, 2], [1, 0.5]], {}, "must be whole numbers: row 1 of X has a count of 0.5"),
        ([[1.0, 2], [1, 1e9]], {}, r"row 1 of X has 1e\+09 tokens, but the time of left_to_right"),
        ([[1.0, -2]], {}, "Negative values in data passed to left_to_right"),
        ([[1.0, 2, 3]], {}, "X has 3 features, but components has 2"),
        ([[1.0, 2]], {"n_particles": 0}, "n_particles must be an integer of at least 1"),
        ([[1.0, 2]], {"doc_topic_prior": [1, 2, 3]}, "doc_topic_prior has shape"),
    ],
)
def test_left_to_right_of_bad_input(X, options, message):
    with pytest.raises(ValueError, match=message):
        left_to_right([[0.5, 0.5], [0.1, 0.9]], X, **options)


@pytest.mark.parametrize("estimator", [SparseLDA, AliasLDA])
def test_methods_of_the_score(problem, estimator):
    X, _, _ = problem
    lda = estimator(5, random_state=0).fit(X)
    options = {"doc_topic_prior": lda.doc_topic_prior_, "n_particles": 3, "random_state": 4}
    want = left_to_right(lda.components_, X, **options)
    options = {"method": "left-to-right", "n_particles": 3, "random_state": 4}
    assert lda.score(X, **options) == want
    assert lda.perplexity(X, **options) == pytest.approx(np.exp(-want))
    assert lda.score(X, method="completion") == lda.score(X)
    assert lda.score(X, random_state=1) != lda.score(X)
    with pytest.raises(ValueError, match="method must be 'completion' or 'left-to-right', got 'x'"):
        lda.score(X, method="x")
    assert not hasattr(lda, "set_score_request")


def test_grid_search_by_either_score(problem):
    X, _, _ = problem
    grid = {"n_components": [1, 5]}
    for scoring in (None, lambda lda, X: lda.score(X, method="left-to-right", n_particles=4)):
        search = GridSearchCV(SparseLDA(max_iter=5, random_state=0), grid, cv=2, scoring=scoring)
        assert search.fit(X).best_params_ == {"n_components": 5}
