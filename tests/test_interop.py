"""Models and states of other libraries: from files, from objects like theirs, from theirs."""

import gzip
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.decomposition import LatentDirichletAllocation

from sklearn_sparsepost import AliasLDA, SparseLDA
from sklearn_sparsepost.datasets import make_bars
from sklearn_sparsepost.interop import (
    TopicAssignments,
    from_gensim,
    from_tomotopy,
    read_mallet_state,
    to_gensim,
    write_mallet_state,
)

X = make_bars(60, random_state=0)[0].toarray()
X[[7, -1]] = 0  # documents without tokens
X = sp.csr_matrix(X)
NAMES = [f"word{v}" for v in range(X.shape[1])]
PRIORS = {"doc_topic_prior": [0.2, 0.3], "topic_word_prior": 0.05}

# As MALLET 2.0.8 writes it, but for the spaces in a source.
STATE = """#doc source pos typeindex type topic
#alpha : 2.5 1.5 
#beta : 0.01
0 data/my dog.txt 0 0 dog 1
0 data/my dog.txt 1 3 cat 1
0 data/my dog.txt 2 0 dog 0
2 NA 0 5 étoile 0
"""  # noqa: W291


@pytest.fixture(scope="module")
def lda():
    return AliasLDA(10, max_iter=10, random_state=0).fit(X)


@pytest.fixture
def state_file(tmp_path):
    path = tmp_path / "state.gz"
    path.write_bytes(gzip.compress(STATE.encode()))
    return path


def assert_same_tokens(one, other):
    for name in ("document", "word", "topic", "doc_topic_prior", "feature_names"):
        assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.topic_word_prior == other.topic_word_prior


# ---------------------------------------------------------------------- tokens


def test_tokens_of_an_estimator_are_its_counts(lda):
    tokens = TopicAssignments.from_estimator(lda, feature_names=NAMES)
    assert (tokens.counts() != X).nnz == 0
    chain = lda._fit_state
    assert_array_equal(tokens.topic_word_counts().sum(axis=1), chain.n_topic)
    assert_array_equal(tokens.doc_topic_counts().sum(axis=1), X.sum(axis=1).A1)
    assert_array_equal(tokens.doc_topic_counts().sum(axis=0), chain.n_topic)
    present = AliasLDA(10, max_iter=3, burn_in=9, random_state=0).fit(X)  # not averaged
    found = TopicAssignments.from_estimator(present).topic_word_counts() + 0.1
    assert_allclose(found, present.components_, rtol=1e-6)
    assert tokens.documents is None and tokens.n_documents == X.shape[0]


@pytest.mark.parametrize(
    "params",
    [{}, {"topic_word_prior_type": "pitman_yor"}, {"doc_topic_prior_type": "dirichlet_process"}],
    ids=str,
)
def test_an_estimator_made_of_tokens_samples_on(params):
    tokens = TopicAssignments.from_estimator(AliasLDA(5, max_iter=3, random_state=0).fit(X))
    if "doc_topic_prior_type" in params:
        params = {**params, "doc_topic_prior": None}
    lda = tokens.to_estimator(warm_start=True, max_iter=4, random_state=1, **params)
    assert lda.n_iter_ == 0
    again = TopicAssignments.from_estimator(lda)
    if "doc_topic_prior_type" not in params:  # which numbers topics by their size
        assert_array_equal(again.topic_word_counts(), tokens.topic_word_counts())
    assert (again.counts() != X).nnz == 0
    kept = lda._fit_state.fingerprint
    lda.fit(tokens.counts())
    assert lda.n_iter_ == 4 and lda._fit_state.fingerprint == kept
    lda.partial_fit(X[:5])
    assert lda.n_iter_ == 5 and len(lda._fit_state.tokens.ptr) == X.shape[0] + 5


def test_topics_of_an_estimator_made_of_tokens():
    tokens = TopicAssignments([0, 0, 1], [1, 1, 0], [0, 0, 1], feature_names=["a", "b"], **PRIORS)
    lda = tokens.to_estimator()
    assert_allclose(lda.components_, [[0.05, 2.05], [1.05, 0.05]])
    assert_allclose(lda.doc_topic_prior_, [0.2, 0.3])
    assert lda.transform([[3, 0]]).argmax() == 1


def test_topics_that_come_and_go_are_numbered_as_the_estimator_has_them():
    process = {"doc_topic_prior_type": "dirichlet_process", "max_iter": 5, "burn_in": 10}
    lda = AliasLDA(20, random_state=0, **process).fit(X)
    tokens = TopicAssignments.from_estimator(lda)
    assert_allclose(tokens.topic_word_counts() + lda.topic_word_prior_, lda.components_, rtol=1e-6)


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"document": []}, "document must be"),
        ({"document": [0.0, 0.0, 1.0]}, "document must be"),
        ({"document": [1, 0, 0]}, "sorted"),
        ({"word": [0, 1]}, "word has 2 tokens"),
        ({"word": [0, 1, 2]}, "word must be at least 0 and below 2"),
        ({"topic": [0, -1, 1]}, "topic must be at least 0"),
        ({"topic": [0, 2, 1]}, "topic must be .* below 2"),
        ({"doc_topic_prior": []}, "doc_topic_prior"),
        ({"doc_topic_prior": [1.0, -1.0]}, "doc_topic_prior"),
        ({"topic_word_prior": [0.1, 0.1]}, "topic_word_prior"),
        ({"documents": ["one"]}, "below 1"),
        ({"documents": 0}, "documents must be"),
    ],
    ids=str,
)
def test_tokens_that_do_not_fit(wrong, message):
    given = {"document": [0, 0, 1], "word": [0, 1, 1], "topic": [0, 0, 1], **PRIORS}
    with pytest.raises(ValueError, match=message):
        TopicAssignments(**{**given, "feature_names": ["a", "b"], **wrong})


def test_an_estimator_without_tokens_or_with_other_names(lda):
    with pytest.raises(ValueError, match="SparseLDA holds no topics of tokens"):
        TopicAssignments.from_estimator(SparseLDA(2, max_iter=1).fit(X))
    with pytest.raises(ValueError, match="documents has 1 names, but there are 60"):
        TopicAssignments.from_estimator(lda, documents=["one"])
    with pytest.raises(ValueError, match="feature_names"):
        TopicAssignments.from_estimator(lda, feature_names=["one"])


# ---------------------------------------------------------------------- MALLET


def test_a_state_of_mallet(state_file):
    state = read_mallet_state(state_file)
    assert state.documents == ["data/my dog.txt", "NA", "NA"]
    assert state.feature_names.tolist() == ["dog", "cat", "étoile"]
    assert_array_equal(state.topic_word_counts(), [[1, 0, 1], [1, 1, 0]])
    assert_array_equal(state.doc_topic_counts(), [[1, 2], [0, 0], [1, 0]])
    assert_array_equal(state.doc_topic_prior, [2.5, 1.5])
    assert state.topic_word_prior == 0.01
    lda = state.to_estimator(max_iter=2, warm_start=True, random_state=0).fit(state.counts())
    assert_allclose(lda.doc_topic_prior_, [2.5, 1.5])


def test_states_come_back_as_they_were_written(lda, tmp_path):
    path = tmp_path / "state.gz"
    tokens = TopicAssignments.from_estimator(
        lda, feature_names=NAMES, documents=[f"d{i}" for i in range(X.shape[0])]
    )
    write_mallet_state(tokens, path)
    first = gzip.decompress(path.read_bytes())
    again = read_mallet_state(path)
    assert_same_tokens(again, tokens)
    assert (
        again.documents
        == [name if i != 7 else "NA" for i, name in enumerate(tokens.documents)][:-1]
    )
    write_mallet_state(again, path)
    assert gzip.decompress(path.read_bytes()) == first
    lines = first.decode().splitlines()
    assert lines[0] == "#doc source pos typeindex type topic"
    positions = [line.split(" ")[2] for line in lines if line.startswith("1 ")]
    assert positions == [str(i) for i in range(X[1].sum())]


def test_tokens_keep_the_order_that_a_file_has(state_file, tmp_path):
    state = read_mallet_state(state_file)
    state.documents[0] = "dog.txt"
    write_mallet_state(state, tmp_path / "again.gz")
    assert_same_tokens(read_mallet_state(tmp_path / "again.gz"), state)


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "no tokens"),
        ("#alpha : 1 1\n#beta : 0.1\n", "no tokens"),
        ("#beta : 0.1\n0 NA 0 0 dog 0\n", "no #alpha"),
        ("#alpha : 1 1\n0 NA 0 0 dog 0\n", "no #beta"),
        ("#alpha : 1 1\n#beta : 0.1\n0 NA 0 0 dog\n", "line 3 of .*'0 NA 0 0 dog"),
        ("#alpha : 1 1\n#beta : 0.1\n0 NA 0 0 dog x\n", "line 3 of"),
        ("#alpha : 1 x\n", "line 1 of"),
        ("#alpha : 1 1\n#beta : 0.1\n0 NA 0 0 dog 2\n", "topic must be"),
        ("#alpha : 1 1\n#beta : 0.1\n-1 NA 0 0 dog 1\n", "document must be"),
    ],
)
def test_files_that_are_no_state(text, message, tmp_path):
    path = tmp_path / "state.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_mallet_state(path)


@pytest.mark.parametrize(
    "names, message",
    [
        ({"feature_names": ["a b", *NAMES[1:]]}, "word 'a b'"),
        ({"feature_names": ["", *NAMES[1:]]}, "word ''"),
        ({"documents": ["my dog"] * X.shape[0]}, "document 'my dog'"),
    ],
    ids=str,
)
def test_names_that_a_state_cannot_hold(lda, names, message, tmp_path):
    path = tmp_path / "state.gz"
    with pytest.raises(ValueError, match=message):
        write_mallet_state(TopicAssignments.from_estimator(lda, **names), path)
    assert not path.exists()


# ---------------------------------------------------------------------- tomotopy


def like_tomotopy(**others):
    documents = [
        SimpleNamespace(words=np.array([1, 0, 2]), topics=np.array([0, 0, 65535]), uid="first"),
        SimpleNamespace(words=np.array([], dtype=np.int64), topics=np.array([]), uid=""),
        SimpleNamespace(words=np.array([1]), topics=np.array([1]), uid=None),
    ]
    own = {"k": 2, "alpha": np.array([0.1, 0.2]), "eta": 0.05, "used_vocabs": ["cat", "dog"]}
    return SimpleNamespace(**{**own, "docs": documents, **others})


def test_tokens_of_an_object_like_tomotopys():
    tokens = from_tomotopy(like_tomotopy())
    assert_array_equal(tokens.counts().toarray(), [[1, 1], [0, 0], [0, 1]])
    assert_array_equal(tokens.topic_word_counts(), [[1, 1], [0, 1]])
    assert tokens.documents == ["first", "NA", "NA"]
    for wrong, message in (
        ({"alpha": 0.1}, "no LDA with one alpha"),
        ({"docs": []}, "has no documents"),
    ):
        with pytest.raises(ValueError, match=message):
            from_tomotopy(like_tomotopy(**wrong))


def test_tokens_of_tomotopy():
    tomotopy = pytest.importorskip("tomotopy", reason="tomotopy is not installed")
    model = tomotopy.LDAModel(k=5, alpha=0.2, eta=0.05, seed=0, rm_top=2)
    for row in X.toarray():
        if row.sum():
            model.add_doc(np.repeat(NAMES, row).tolist())
    model.train(10, workers=1)
    tokens = from_tomotopy(model)
    assert tokens.feature_names.tolist() == list(model.used_vocabs)
    lda = tokens.to_estimator()
    found = np.stack([model.get_topic_word_dist(k) for k in range(5)])
    assert_allclose(lda.topic_word_distr_, found, rtol=1e-5)
    assert_allclose(tokens.topic_word_counts().sum(axis=1), model.get_count_by_topics())


# ---------------------------------------------------------------------- gensim

LAMBDA = np.array([[5.1, 0.1, 3.1], [0.1, 7.1, 1.1]])


def like_gensim(eta=(0.1, 0.1, 0.1)):
    return SimpleNamespace(
        state=SimpleNamespace(get_lambda=lambda: LAMBDA, numdocs=20),
        alpha=np.array([0.5, 0.4], dtype=np.float32),
        eta=np.array(eta),
    )


def test_topics_of_an_object_like_gensims():
    lda = from_gensim(like_gensim())
    assert_array_equal(lda.components_, LAMBDA)
    assert not hasattr(lda, "feature_names_in_")  # else it warns of every sparse matrix
    assert_allclose(lda.doc_topic_prior_, [0.5, 0.4], rtol=1e-6)
    assert (lda.topic_word_prior_, lda.estimation, lda.n_samples_seen_) == (0.1, "bayes", 20)
    assert_array_equal(from_gensim(like_gensim((0.1, 0.2, 0.1))).topic_word_prior_, [0.1, 0.2, 0.1])
    other = from_gensim(like_gensim(), estimation="map", feature_names=["cat", "dog", "owl"])
    assert other.estimation == "map" and other.feature_names_in_[1] == "dog"
    before = lda.topic_word_distr_
    assert 0 < np.abs(lda.partial_fit([[3, 0, 1]]).topic_word_distr_ - before).max() < 0.2


def test_gensim_is_asked_for_what_it_can_hold():
    with pytest.raises(ValueError, match="has no components_"):
        to_gensim(SparseLDA(2))
    fitted = from_gensim(like_gensim())
    with pytest.raises(ValueError, match="feature_names"):
        to_gensim(fitted, feature_names=["one"])
    with pytest.raises(ValueError, match="n_documents"):
        to_gensim(fitted, n_documents=-1)


@pytest.fixture(scope="module")
def gensim():
    return pytest.importorskip("gensim", reason="gensim is not installed")


def as_bow(row):
    return [(int(v), int(n)) for v, n in enumerate(row) if n]


@pytest.fixture(scope="module")
def trained(gensim):
    rows = X.toarray()[X.sum(axis=1).A1 > 0]
    corpus = [as_bow(row) for row in rows]
    words = dict(enumerate(NAMES))
    model = gensim.models.LdaModel(
        corpus, num_topics=5, id2word=words, alpha="auto", passes=2, random_state=0, dtype=float
    )
    return rows, corpus, model


def test_documents_are_inferred_as_gensim_does(trained):
    rows, corpus, model = trained
    lda = from_gensim(model, sparsity_level=None, mean_change_tol=1e-6, max_doc_update_iter=1000)
    model.iterations, model.gamma_threshold = 1000, 1e-7
    found = lda.transform(rows[:20])
    theirs, _ = model.inference(corpus[:20])
    assert np.median(np.abs(found - theirs / theirs.sum(axis=1, keepdims=True)).max(axis=1)) < 1e-4
    assert_allclose(lda.topic_word_distr_, model.get_topics(), rtol=1e-6)


def test_models_of_gensim_come_back(trained):
    rows, corpus, model = trained
    again = to_gensim(from_gensim(model), feature_names=NAMES)
    assert_allclose(again.state.get_lambda(), model.state.get_lambda(), rtol=1e-9)
    assert_allclose(again.alpha, model.alpha)
    assert_allclose(again.eta, model.eta)
    assert again.show_topics() == model.show_topics()
    assert again.state.numdocs == model.state.numdocs
    before = again.get_topics()
    again.update(corpus[:5])
    assert 0 < np.abs(again.get_topics() - before).max() < 0.2


@pytest.mark.parametrize(
    "fitted",
    [
        SparseLDA(5, max_iter=3, random_state=0),
        AliasLDA(5, max_iter=3, topic_word_prior=np.linspace(0.1, 0.2, X.shape[1])),
        LatentDirichletAllocation(5, max_iter=2, random_state=0),
    ],
    ids=lambda e: type(e).__name__,
)
def test_gensim_has_the_topics_of_any_lda(gensim, fitted):
    fitted = fitted.fit(X)
    model = to_gensim(fitted, feature_names=NAMES)
    topics = fitted.components_ / fitted.components_.sum(axis=1, keepdims=True)
    assert_allclose(model.get_topics(), topics, rtol=1e-5)
    assert model.num_terms == len(NAMES) and model.id2word[3] == NAMES[3]
