"""Interactive views of other packages take our estimators as they are."""

import warnings

import pytest
from sklearn.feature_extraction.text import CountVectorizer

from sklearn_sparsepost import AliasLDA, SparseHDP, SparseLDA

TEXTS = ["cats and dogs play", "dogs and cats bark", "stars shine at night", "bright stars"] * 20
MODELS = [
    SparseLDA(4, max_iter=2, random_state=0),
    SparseHDP(4, max_iter=2, moves=False, random_state=0),
    AliasLDA(4, max_iter=2, random_state=0),
]


@pytest.fixture(autouse=True)
def warnings_of_others():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_pyldavis(model):
    pytest.importorskip("pyLDAvis", exc_type=ImportError)
    from pyLDAvis.lda_model import prepare

    vectorizer = CountVectorizer()
    X = vectorizer.fit_transform(TEXTS)
    view = prepare(model.fit(X), X, vectorizer, mds="pcoa", n_jobs=1)
    assert len(view.topic_coordinates) == len(model.components_)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_topicwizard(model):
    pytest.importorskip("topicwizard", exc_type=ImportError)
    from topicwizard.figures import topic_map
    from topicwizard.pipeline import make_topic_pipeline

    pipeline = make_topic_pipeline(CountVectorizer(), model)
    data = pipeline.prepare_topic_data(TEXTS)
    assert data["document_topic_matrix"].shape == (len(TEXTS), 4)
    assert topic_map(data).to_dict()["data"]
