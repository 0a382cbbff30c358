"""TopicSummary: what is asked of topics, by hand and for models of any origin."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.decomposition import NMF, LatentDirichletAllocation
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from sklearn_sparsepost import (
    AliasLDA,
    GibbsCTM,
    SparseHDP,
    SparseLDA,
    SparseMixture,
    TopicSummary,
)

MODELS = {
    "SparseLDA": SparseLDA(4, max_iter=3, random_state=0),
    "sparse weights": SparseLDA(4, max_iter=3, sparse_output=True, random_state=0),
    "SparseHDP": SparseHDP(6, max_iter=3, random_state=0),
    "AliasLDA": AliasLDA(4, max_iter=4, random_state=0),
    "GibbsCTM": GibbsCTM(4, max_iter=4, random_state=0),
    "scikit-learn's LDA": LatentDirichletAllocation(4, max_iter=2, random_state=0),
    "NMF": NMF(4, random_state=0, max_iter=500),
    "DataFrame": SparseLDA(4, max_iter=3, random_state=0).set_output(transform="pandas"),
}
TOPICS = np.array([[6.0, 3.0, 0.0, 1.0], [0.0, 1.0, 7.0, 2.0]])
WEIGHTS = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
WORDS = ["cat", "dog", "star", "night"]


@pytest.fixture
def summary():
    return TopicSummary(TOPICS, WEIGHTS, lengths=[10, 20, 70], feature_names=WORDS)


# ---------------------------------------------------------------------- by hand


def test_sizes_are_shares_of_tokens(summary):
    assert_allclose(summary.size, [(9 + 4 + 42) / 100, (1 + 16 + 28) / 100])
    assert_allclose(TopicSummary(TOPICS, WEIGHTS).size, WEIGHTS.mean(axis=0))
    assert_allclose(TopicSummary(TOPICS * [[1], [3]]).size, [0.25, 0.75])
    assert_allclose(TopicSummary(TOPICS, size=[1, 4]).size, [0.2, 0.8])
    assert_allclose(TopicSummary(TOPICS, size=[0, 0]).size, [0.5, 0.5])


@pytest.mark.parametrize("weight", [0, 0.3, 0.6, 1])
def test_relevance_is_that_of_the_paper(dtype, weight):
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(40, 0.2), size=5).astype(dtype)
    size = rng.dirichlet(np.ones(5))
    found = TopicSummary(topics, size=size).top_words(40, by="relevance", relevance_weight=weight)
    overall = size @ topics.astype(float)
    with np.errstate(divide="ignore"):
        log = np.log(topics.astype(float))
    relevance = weight * log + (1 - weight) * (log - np.log(overall))
    best = np.take_along_axis(relevance, found, axis=1)
    assert (best[:, :-1] >= best[:, 1:] - 1e-5).all()
    named = {0: "lift", 1: "probability"}
    if weight in named:
        by_name = TopicSummary(topics, size=size).top_words(40, by=named[weight])
        assert_array_equal(found, by_name)


def test_words_without_a_chance_come_last(summary):
    assert summary.top_words(9, by="lift")[0, -1] == "star"
    assert summary.top_words(9, by="lift").shape == (2, 4)
    nowhere = TopicSummary([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]], size=[1, 0])
    assert_array_equal(nowhere.top_words(1, by="lift")[:, 0], [0, 0])


def test_labels_have_no_plurals_and_differ():
    words = ["cat", "cats", "dog", "dogs", "owl", "bee", "ant"]
    same = [[9, 8, 7, 6, 5, 2, 1], [9, 8, 7, 6, 5, 1, 2]]
    summary = TopicSummary(same, feature_names=words)
    assert summary.label(0) == "cat, dog, owl"
    assert summary.label([0, 1], 2) == "cat, dog"
    assert len(set(summary.labels)) == 2
    equal = TopicSummary(np.ones((3, 2)), feature_names=["cat", "dog"])
    assert equal.labels == ["cat, dog"] * 3


def test_occurrences_of_a_word(summary):
    share = summary.word_topics("dog")
    assert_allclose(share, np.array([0.55 * 0.3, 0.45 * 0.1]) / (0.55 * 0.3 + 0.45 * 0.1))
    assert_allclose(TopicSummary(TOPICS).word_topics(2), [0, 1])
    with pytest.raises(ValueError, match="'owl' is not among the 4 words"):
        summary.word_topics("owl")


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix, sp.csr_array, sp.csc_matrix])
def test_documents_by_weight_and_by_tokens(form):
    summary = TopicSummary(TOPICS, form(WEIGHTS), lengths=[10, 20, 70], documents=list("abc"))
    assert summary.top_documents(2).tolist() == [["a", "c"], ["b", "c"]]
    assert summary.top_documents(9, by="tokens").tolist() == [["c", "a", "b"], ["c", "b", "a"]]
    plain = TopicSummary(TOPICS, form(WEIGHTS))
    assert plain.top_documents(1).tolist() == [[0], [1]]


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_shares_of_groups(form):
    summary = TopicSummary(TOPICS, form(WEIGHTS), lengths=[10, 20, 70])
    names, shares = summary.shares(["x", "y", "x"])
    assert names.tolist() == ["x", "y"]
    assert_allclose(shares, [[51 / 80, 29 / 80], [0.2, 0.8]])
    _, shares = summary.shares(["x", "y", "x"], of="topic")
    assert_allclose(shares, [[51 / 55, 29 / 45], [4 / 55, 16 / 45]])
    frame = summary.shares(pd.Series(["x", "y", "x"]), as_frame=True)
    assert frame.index.tolist() == ["x", "y"] and frame.columns.tolist() == summary.labels


def test_shares_over_time(summary):
    starts, shares = summary.over_time([2000, 2001, 2004], n_periods=4)
    assert_allclose(starts, [2000, 2001, 2002, 2003])
    assert_allclose(shares[[0, 1, 3]], WEIGHTS)
    assert np.isnan(shares[2]).all()
    dates = pd.to_datetime(["2020-01-01", "2020-06-01", "2022-01-01"])
    starts, shares = summary.over_time(dates, n_periods=2)
    assert starts.astype("datetime64[D]").astype(str).tolist() == ["2020-01-01", "2020-12-31"]
    assert_allclose(shares[0], (WEIGHTS[:2] * [[10], [20]]).sum(axis=0) / 30)
    assert_allclose(summary.over_time([7, 7, 7], n_periods=1)[1][0], summary.size)
    frame = summary.over_time(dates, n_periods=2, as_frame=True)
    assert frame.index.name == "start"


def test_similar_topics():
    topics = np.array([[4, 4, 0, 0], [0, 0, 4, 4], [3, 4, 1, 0], [4, 4, 0, 0]])
    found, distances = TopicSummary(topics).similar(0, 2)
    assert found.tolist() == [3, 2]
    assert distances[0] == pytest.approx(0, abs=1e-7) and distances[1] > 0.1
    assert len(TopicSummary(topics).similar(1)[0]) == 3


def test_rows_of_weights_that_do_not_sum_to_one_are_scaled_by_topics():
    summary = TopicSummary(TOPICS * [[1], [3]], [[1, 1], [0, 0], [4, 0]])
    assert_allclose(summary.doc_topic, [[0.25, 0.75], [0, 0], [1, 0]])
    assert_allclose(
        TopicSummary(TOPICS * [[1], [3]], sp.csr_matrix([[1, 1], [0, 0]])).doc_topic.toarray(),
        [[0.25, 0.75], [0, 0]],
    )
    names, shares = summary.shares([0, 1, 0])
    assert np.isnan(shares[1]).all()


def test_shown(summary):
    assert repr(summary) == "<TopicSummary: 2 topics, 4 words, 3 documents>"
    assert repr(TopicSummary(TOPICS)) == "<TopicSummary: 2 topics, 4 words>"
    lines = str(summary).splitlines()
    assert len(lines) == 3 and lines[1].split()[:2] == ["0", "55.0%"]
    frame = summary.to_frame(n_words=2, n_documents=1)
    assert frame.columns.tolist() == ["label", "size", "words", "relevant_words", "documents"]
    assert frame.loc[1, "words"] == ["star", "night"] and frame.loc[1, "documents"] == [1]
    assert "documents" not in TopicSummary(TOPICS).to_frame()
    long = ["<b>" + "many words " * 9, "a.very.long" + 9 * ".path" + ".to.its.end", "a\nb"]
    named = TopicSummary(TOPICS, WEIGHTS, documents=long)
    assert "&lt;b&gt;" in named._repr_html_() and "<b>" not in named._repr_html_()
    assert "many words many words ma..." in str(named) and "a b" in str(named)
    assert "a.very....path.path.to.its.end" in str(named)  # two paths may begin alike


def test_labels_may_be_replaced(summary):
    summary.labels = ["pets", "sky"]
    assert "pets" in str(summary)
    assert summary.shares(["x", "y", "x"], as_frame=True).columns.tolist() == ["pets", "sky"]


# ---------------------------------------------------------------------- of estimators


@pytest.mark.parametrize("name", MODELS)
def test_every_topic_model_is_summarised(name, corpus):
    model = MODELS[name].fit(corpus)
    names = [f"w{i}" for i in range(corpus.shape[1])]
    summary = TopicSummary.from_estimator(model, corpus, feature_names=names)
    K = len(model.components_)
    assert_allclose(summary.size.sum(), 1, rtol=1e-6)
    assert_allclose(summary.topic_word_distr.sum(axis=1), 1, rtol=1e-5)
    assert summary.top_words(3).shape == (K, 3) and summary.top_documents(2).shape == (K, 2)
    assert summary.lengths.tolist() == corpus.sum(axis=1).A1.tolist()
    assert len(summary.labels) == K and str(summary).count("\n") == K
    alone = TopicSummary.from_estimator(model)
    assert alone.doc_topic is None
    assert_allclose(alone.size, summary.size, atol=0.12)


@pytest.mark.parametrize("vectorizer", [CountVectorizer(), TfidfVectorizer()])
def test_pipelines_and_searches_take_texts(vectorizer):
    texts = ["cats and dogs", "dogs and cats bark", "stars at night", "bright stars"] * 5
    lda = SparseLDA(2, max_iter=3, random_state=0)
    pipeline = make_pipeline(vectorizer, lda).fit(texts)
    search = GridSearchCV(pipeline, {"sparselda__max_iter": [3]}, cv=2).fit(texts)
    for model in (pipeline, search):
        for given in (texts, np.array(texts), pd.Series(texts, index=range(5, 25))):
            summary = TopicSummary.from_estimator(model, given)
            assert summary.documents.tolist() == texts
            assert "dogs" in summary.feature_names
    named = TopicSummary.from_estimator(pipeline, texts, documents=range(20))
    assert named.documents.tolist() == list(range(20))
    alone = make_pipeline(SparseLDA(2, max_iter=3)).fit(CountVectorizer().fit_transform(texts))
    assert TopicSummary.from_estimator(alone).feature_names[0] == 0


def test_names_of_a_frames_columns_are_the_words(corpus):
    frame = pd.DataFrame(corpus.toarray()).add_prefix("w")
    lda = SparseLDA(4, max_iter=2, random_state=0).fit(frame)
    assert TopicSummary.from_estimator(lda, frame).feature_names[1] == "w1"


# ---------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda s: TopicSummary([[1, -1]]), "components must be non-negative"),
        (lambda s: TopicSummary(TOPICS, [[0.5, 0.5, 0]]), r"doc_topic has shape \(1, 3\)"),
        (lambda s: TopicSummary(TOPICS, [[np.nan, 1]]), "doc_topic must be finite"),
        (lambda s: TopicSummary(TOPICS, -WEIGHTS), "doc_topic must be finite and not negative"),
        (lambda s: TopicSummary(TOPICS, WEIGHTS, lengths=[1]), r"lengths has shape \(1,\)"),
        (lambda s: TopicSummary(TOPICS, WEIGHTS, documents=["a"]), "documents has 1 names"),
        (lambda s: TopicSummary(TOPICS, size=[1]), r"size has shape \(1,\)"),
        (lambda s: TopicSummary(TOPICS, lengths=[1]), "need doc_topic"),
        (lambda s: TopicSummary(TOPICS, feature_names=["a"]), r"feature_names has shape \(1,\)"),
        (lambda s: TopicSummary(TOPICS).top_documents(), "this summary has no documents"),
        (lambda s: s.top_words(0), "n_words must be"),
        (lambda s: s.top_words(by="size"), "by must be one of 'probability'"),
        (lambda s: s.top_words(by="relevance", relevance_weight=2), "relevance_weight must"),
        (lambda s: s.top_documents(by="size"), "by must be 'weight' or 'tokens'"),
        (lambda s: s.label(2), "topics are numbered from 0 to 1, got 2"),
        (lambda s: s.similar(-1), "topics are numbered from 0 to 1, got -1"),
        (lambda s: s.shares([1, 2]), r"groups has shape \(2,\), but there are 3 documents"),
        (lambda s: s.shares([1, "a", None]), "one type|has shape"),
        (lambda s: s.shares([1, 2, 3], of="word"), "of must be 'group' or 'topic'"),
        (lambda s: s.over_time([1, 2, np.nan]), "times must be finite"),
        (lambda s: s.over_time(pd.to_datetime(["2020-01-01", None, None])), "got NaT"),
        (lambda s: s.over_time([1, 2, 3], n_periods=0), "n_periods must be"),
    ],
)
def test_bad_input(summary, call, message):
    with pytest.raises(ValueError, match=message):
        call(summary)


def test_models_without_topics(corpus):
    with pytest.raises(NotFittedError):
        TopicSummary.from_estimator(SparseLDA())
    mixture = SparseMixture(2, observation="multinomial", max_iter=1, random_state=0).fit(corpus)
    with pytest.raises(ValueError, match="SparseMixture has no components_"):
        TopicSummary.from_estimator(mixture, corpus)
