"""Displays: what they compute, and that they draw it."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.mixture import GaussianMixture

from sklearn_sparsepost import AliasLDA, SparseLDA, SparseMixture, TopicSummary
from sklearn_sparsepost.callbacks import BoundMonitor, HeldoutMonitor
from sklearn_sparsepost.display import (
    DocumentTopicsDisplay,
    FitHistoryDisplay,
    MixtureDisplay,
    SparsityDisplay,
    TopicMatchDisplay,
    TopicSharesDisplay,
    TopicWordsDisplay,
)

plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def drawn():
    """Draw all that a test made, as a viewer would, and close it."""
    yield
    for number in plt.get_fignums():
        plt.figure(number).canvas.draw()
    plt.close("all")


@pytest.fixture(scope="module")
def lda(corpus):
    return SparseLDA(6, max_iter=4, random_state=0).fit(corpus)


@pytest.fixture(scope="module")
def summary(lda, corpus):
    return TopicSummary.from_estimator(lda, corpus)


def test_words(lda, corpus, summary):
    display = TopicWordsDisplay.from_estimator(lda, corpus, n_words=4)
    assert_array_equal(display.words, summary.top_words(4))
    assert (np.diff(display.probabilities, axis=1) <= 0).all()
    assert len(display.axes_) == 10 and len(display.axes_[0].texts) == 4  # two rows of five
    assert display.plot([3, 1], n_columns=1).axes_.shape == (2,)
    axes = plt.subplots(1, 2)[1]
    assert display.plot([3, 1], axes=axes).figure_ is axes[0].figure
    relevant = TopicWordsDisplay.from_summary(summary, by="relevance", n_words=4)
    assert_array_equal(relevant.words, summary.top_words(4, by="relevance"))


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_documents(form):
    weights = np.array([[0.9, 0.1, 0], [0.2, 0.8, 0], [0.6, 0.4, 0], [0, 0, 1]])
    display = DocumentTopicsDisplay.from_predictions(form(weights), documents=list("abcd"))
    assert display.order().tolist() == [0, 2, 1, 3]
    assert [text.get_text() for text in display.ax_.get_yticklabels()] == ["a", "c", "b", "d"]
    many = DocumentTopicsDisplay.from_predictions(form(np.tile(weights, (600, 1))))
    assert "800 of 2,400" in many.ax_.get_ylabel()


def test_documents_of_an_estimator(lda, corpus, summary):
    display = DocumentTopicsDisplay.from_estimator(lda, corpus)
    assert display.labels == summary.labels and display.doc_topic.shape == (300, 6)
    with pytest.raises(ValueError, match="this summary has no documents"):
        DocumentTopicsDisplay.from_estimator(lda)


def test_shares(lda, corpus, summary):
    groups = np.arange(300) % 3
    display = TopicSharesDisplay.from_estimator(lda, corpus, groups=groups)
    assert_allclose(display.shares, summary.shares(groups)[1])
    assert len(display.ax_.patches) == 18
    times = TopicSharesDisplay.from_summary(summary, times=groups.astype(float), n_periods=5)
    assert np.isnan(times.shares).any() and len(times.ax_.lines) == 6
    assert len(times.plot(topics=[1, 2]).ax_.lines) == 2
    for given in ({}, {"groups": groups, "times": groups}):
        with pytest.raises(ValueError, match="either groups or times"):
            TopicSharesDisplay.from_summary(summary, **given)
    plain = TopicSharesDisplay.from_predictions(summary.doc_topic, groups=groups)
    assert plain.labels == list("012345")


def test_history(corpus):
    held_out, bound = HeldoutMonitor(corpus[200:]), BoundMonitor()
    lda = SparseLDA(4, max_iter=4, tol=0, evaluate_every=2, random_state=0)
    lda.set_callbacks(held_out, bound).fit(corpus[:200])
    display = FitHistoryDisplay.from_estimator(lda, held_out, bound)
    assert list(display.curves) == ["bound_history_", "score", "bound_per_token"]
    assert_array_equal(display.curves["score"][0], [1, 2, 3, 4])
    assert len(display.axes_[0].lines[0].get_xdata()) == 2  # the passes that were evaluated
    ticks = np.concatenate([ax.get_xticks() for ax in display.axes_])
    assert_allclose(ticks, ticks.round())  # there is no half a pass
    seconds = FitHistoryDisplay.from_logs(held_out.get_logs())
    assert seconds.axes_[0].get_xlabel() == "seconds"
    alias = AliasLDA(4, max_iter=2, random_state=0).fit(corpus)
    assert "log_likelihood_history_" in FitHistoryDisplay.from_estimator(alias).curves
    with pytest.raises(ValueError, match="there is no history"):
        FitHistoryDisplay.from_logs([])
    with pytest.raises(ValueError, match="by must be"):
        FitHistoryDisplay.from_logs([], by="hours")


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_sparsity(form):
    weights = np.array([[0.9, 0.1, 0], [0.5, 0.47, 0.03], [0, 0, 1]])
    display = SparsityDisplay.from_predictions(form(weights))
    assert display.doc_counts.tolist() == [2, 2, 1] and display.word_counts is None
    topics = np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    display = SparsityDisplay.from_summary(TopicSummary(topics, form(weights)))
    assert display.word_counts.tolist() == [2, 1, 1]
    assert len(display.axes_) == 2
    assert SparsityDisplay.from_summary(TopicSummary(topics)).doc_counts is None
    with pytest.raises(ValueError, match="threshold must"):
        SparsityDisplay.from_predictions(weights, threshold=2)


def test_match(lda, corpus):
    shuffled = lda.components_[::-1]
    display = TopicMatchDisplay.from_topics(lda.components_, shuffled)
    assert_array_equal(display.columns, [5, 4, 3, 2, 1, 0])
    shown = display.ax_.images[0].get_array()
    assert_allclose(np.diag(shown), 0, atol=1e-3)
    other = SparseLDA(8, max_iter=2, random_state=1).fit(corpus)
    display = TopicMatchDisplay.from_estimators(lda, other, distance="cosine")
    assert display.ax_.images[0].get_array().shape == (6, 8)


@pytest.mark.parametrize("kind", ["full", "diag", "spherical", "tied"])
def test_mixtures(kind):
    rng = np.random.default_rng(0)
    scale = np.array([1.0, 2.0, 3.0])
    X = np.concatenate([rng.normal(at, scale, size=(100, 3)) for at in (0, 30)])
    mixture = SparseMixture(2, estimation="ml", covariance_type=kind, random_state=0)
    if kind == "tied":
        mixture = GaussianMixture(2, covariance_type=kind, random_state=0)
    mixture.fit(X)
    display = MixtureDisplay.from_estimator(mixture, X, features=(0, 2))
    assert display.covariances.shape == (2, 3, 3)
    widths = [(ellipse.width, ellipse.height) for ellipse in display.ax_.patches]
    want = [4.3, 4.3] if kind == "spherical" else [2, 6]  # twice two deviations, halved
    assert_allclose(np.sort(np.array(widths) / 2, axis=1), [want, want], rtol=0.2)
    assert len(display.ax_.collections[0].get_offsets()) == 200
    with pytest.raises(ValueError, match="features must be two numbers from 0 to 2"):
        MixtureDisplay.from_estimator(mixture, X, features=(0, 3))


def test_components_without_observations_are_left_out():
    X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    shares = np.array([[1.0, 0, 0], [0.2, 0.5, 0.3], [1.0, 0, 0]])
    given = X, shares, np.full(3, 1 / 3), X, np.stack([np.eye(2)] * 3)
    display = MixtureDisplay.from_predictions(*given)
    assert [tuple(ellipse.center) for ellipse in display.ax_.patches] == [(0, 0), (1, 0)]
    assert display.covariances.shape == (3, 2, 2)


def test_mixtures_without_covariances():
    X = (np.random.default_rng(0).random((60, 5)) > 0.5).astype(float)
    mixture = SparseMixture(3, observation="bernoulli", max_iter=3, random_state=0).fit(X)
    display = MixtureDisplay.from_estimator(mixture, X)
    assert display.ax_.images[0].get_array().shape == (3, 5)
