"""GibbsCTM: what users see of correlated topics."""

import pickle

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.cluster.hierarchy import is_valid_linkage
from scipy.special import gammaln, logsumexp, softmax
from scipy.stats import multivariate_normal
from sklearn.exceptions import NotFittedError

from sklearn_sparsepost import AliasLDA, GibbsCTM
from sklearn_sparsepost.callbacks import Checkpoint, HeldoutMonitor
from sklearn_sparsepost.datasets import make_lda_corpus

TYPES = ["full", "factor", "diag"]
STATE = ["components_", "mean_", "covariance_", "log_likelihood_history_", "n_iter_"]


def same_bytes(one, other):
    return all(
        np.asarray(getattr(one, name)).tobytes() == np.asarray(getattr(other, name)).tobytes()
        for name in STATE
    )


def ctm_of(covariance_type="full", n_components=6, **options):
    options = {"max_iter": 6, "random_state": 0, **options}
    return GibbsCTM(n_components, covariance_type=covariance_type, n_factors=2, **options)


@pytest.fixture(scope="module")
def correlated():
    """Documents in which topics 0 and 1 go together, and 2 and 3; topics; covariance of logits."""
    rng = np.random.default_rng(0)
    K, V = 6, 150
    topics = rng.dirichlet(np.full(V, 0.05), size=K)
    covariance = 2.0 * np.eye(K)
    for one, other in ((0, 1), (2, 3)):
        covariance[one, other] = covariance[other, one] = 1.8
    logits = rng.multivariate_normal(np.zeros(K), covariance, size=900)
    X = np.array([rng.multinomial(50, p) for p in softmax(logits, axis=1) @ topics])
    return sp.csr_matrix(X), topics, covariance


@pytest.mark.parametrize("covariance_type", ["full", "factor"])
def test_finds_which_topics_go_together(correlated, covariance_type):
    X, topics, covariance = correlated
    ctm = ctm_of(covariance_type, init=topics, max_iter=80).fit(X)
    overlap = np.minimum(topics[:, None], ctm.topic_word_distr_[None]).sum(axis=2)
    order = overlap.argmax(axis=1)
    assert (overlap.max(axis=1) > 0.8).all()
    found = ctm.topic_correlation_[np.ix_(order, order)]
    centre = np.eye(6) - 1 / 6
    want = centre @ covariance @ centre
    scale = np.sqrt(np.diag(want))
    np.testing.assert_allclose(found, want / np.outer(scale, scale), atol=0.2)
    graph = ctm.topic_graph(0.4)
    pairs = {tuple(sorted(np.argsort(order)[edge])) for edge in graph.edges}
    assert pairs == {(0, 1), (2, 3)}
    cluster = ctm.topic_tree().cut(4)[order]
    assert cluster[0] == cluster[1] != cluster[2] == cluster[3]


def test_predicts_from_few_words_better_than_lda(correlated):
    X, topics, _ = correlated
    split = {"observed": 0.2, "random_state": 0}
    from sklearn_sparsepost.metrics._heldout import complete_documents

    scores = {}
    for made in (ctm_of("full", init=topics, max_iter=60), AliasLDA(6, init=topics, max_iter=60)):
        made.set_params(random_state=0).fit(X[:700])
        inference = made._inference().dense()
        name = type(made).__name__
        found = made.topic_word_distr_.astype(float)
        scores[name] = complete_documents(found, X[700:], inference, **split)
    assert scores["GibbsCTM"] > scores["AliasLDA"]


@pytest.mark.parametrize("covariance_type", TYPES)
def test_five_and_five_sweeps_are_ten(corpus, covariance_type):
    common = {"burn_in": 4, "sample_every": 2, "topic_word_prior": "auto", "learn_every": 2}
    whole = ctm_of(covariance_type, max_iter=10, **common).fit(corpus)
    parts = ctm_of(covariance_type, max_iter=5, warm_start=True, **common).fit(corpus)
    parts = pickle.loads(pickle.dumps(parts))
    assert same_bytes(parts.fit(corpus), whole)
    assert parts.n_samples_averaged_ == 3
    assert parts.transform(corpus[:9]).tobytes() == whole.transform(corpus[:9]).tobytes()


@pytest.mark.parametrize("covariance_type", TYPES)
def test_mapped_logits_give_the_same(corpus, covariance_type, tmp_path):
    plain = ctm_of(covariance_type, warm_start=True).fit(corpus)
    mapped = ctm_of(covariance_type, warm_start=True, memmap_folder=str(tmp_path)).fit(corpus)
    assert same_bytes(plain, mapped)
    copy = pickle.loads(pickle.dumps(mapped))
    assert same_bytes(copy.fit(corpus), plain.fit(corpus))
    with pytest.raises(ValueError, match="memmap_folder"):
        ctm_of(memmap_folder=str(tmp_path / "missing")).fit(corpus)


def test_warm_start_on_other_documents_and_settings(corpus):
    ctm = ctm_of(warm_start=True).fit(corpus[:200])
    ctm.fit(corpus[200:])
    assert ctm.n_iter_ == 12
    assert ctm.components_.sum() == pytest.approx(corpus[200:].sum() + 0.1 * ctm.components_.size)
    ctm.set_params(covariance_type="factor", sampler="alias", mean_prior=0.5).fit(corpus[200:])
    assert ctm.n_iter_ == 18
    with pytest.raises(ValueError, match="n_components=7.*6 fitted topics"):
        ctm.set_params(n_components=7).fit(corpus)


def test_partial_fit_appends_documents(corpus, tmp_path):
    ctm = ctm_of(memmap_folder=str(tmp_path))
    for first in (0, 100, 200):
        ctm.partial_fit(corpus[first : first + 100])
        counts = ctm.components_ - ctm.topic_word_prior_
        want = np.asarray(corpus[: first + 100].sum(axis=0)).ravel()
        np.testing.assert_allclose(counts.sum(axis=0), want, atol=1e-3)
        assert len(ctm._fit_state.logits) == first + 100
    assert ctm.n_iter_ == 3


def test_an_interrupted_fit_is_usable_and_can_be_finished(corpus, monkeypatch):
    options = {"burn_in": 4, "sample_every": 1}
    ctm = ctm_of(warm_start=True, **options)
    (sweep, learn), sweeps = ctm._steps(), []

    def interrupted(chain):
        if len(sweeps) == 3:
            raise KeyboardInterrupt
        sweeps.append(1)
        return sweep(chain)

    monkeypatch.setattr(GibbsCTM, "_steps", lambda self: (interrupted, learn))
    with pytest.raises(KeyboardInterrupt):
        ctm.fit(corpus)
    monkeypatch.undo()
    assert ctm.n_iter_ == 3
    assert np.isfinite(ctm.transform(corpus)).all()
    ctm.set_params(max_iter=3).fit(corpus)
    assert same_bytes(ctm, ctm_of(**options).fit(corpus))


@pytest.mark.parametrize("covariance_type", TYPES)
def test_averages(corpus, covariance_type):
    ctm = ctm_of(covariance_type, burn_in=2, sample_every=2).fit(corpus)
    assert ctm.n_samples_averaged_ == 2
    single = ctm_of(covariance_type, burn_in=100)
    parts = [clone_fit(single, corpus, n) for n in (4, 6)]
    for name in ("components_", "mean_", "covariance_"):
        want = np.mean([getattr(part, name) for part in parts], axis=0)
        np.testing.assert_allclose(getattr(ctm, name), want, rtol=1e-4, atol=1e-8)
    np.testing.assert_allclose(ctm.precision_ @ ctm.covariance_, np.eye(6), atol=1e-8)
    np.testing.assert_allclose(np.diag(ctm.topic_correlation_), 1)
    if covariance_type == "diag":
        np.testing.assert_allclose(ctm.covariance_, np.diag(np.diag(ctm.covariance_)))


def clone_fit(ctm, X, max_iter):
    return GibbsCTM(**{**ctm.get_params(), "max_iter": max_iter}).fit(X)


@pytest.mark.parametrize("covariance_type", TYPES)
def test_log_likelihood_is_the_joint(corpus, covariance_type):
    ctm = ctm_of(covariance_type, max_iter=4, evaluate_every=3, warm_start=True).fit(corpus)
    history = ctm.log_likelihood_history_
    assert np.isnan(history[[0, 1, 3]]).all()
    state = ctm._fit_state
    rows = np.repeat(np.arange(corpus.shape[0]), np.diff(state.tokens.doc_ptr))
    n_word = np.zeros((6, corpus.shape[1]))
    np.add.at(n_word, (state.z, state.tokens.word), 1)
    value = (gammaln(n_word + 0.1) - gammaln(0.1)).sum()
    total = 0.1 * n_word.shape[1]
    value += (gammaln(total) - gammaln(n_word.sum(axis=1) + total)).sum()
    logits = state.logits.astype(float)
    value += (logits[rows, state.z] - logsumexp(logits, axis=1)[rows]).sum()
    normal = state.normal
    value += multivariate_normal(normal.mean, normal.covariance).logpdf(logits).sum()
    assert state.log_likelihood() == pytest.approx(value)
    ctm.set_params(max_iter=2).fit(corpus)
    assert ctm.log_likelihood_history_[5] == pytest.approx(
        ctm._fit_state.log_likelihood() / state.amount
    )


def test_hundreds_of_sweeps_stay_bounded():
    """The mean of a document's logits is free but for the prior: it must not drift away."""
    X = make_lda_corpus(150, 80, 8, doc_length=20, random_state=0)[0]
    for covariance_type in TYPES:
        ctm = ctm_of(covariance_type, 12, max_iter=300, warm_start=True, evaluate_every=0).fit(X)
        assert ctm.logits_.shape == (150, 12)
        assert np.abs(ctm.logits_).max() < 60
        assert np.isfinite(ctm.covariance_).all()


@pytest.mark.parametrize(
    "params, message",
    [
        ({"covariance_type": "tied"}, "'covariance_type' parameter"),
        ({"covariance_type": "factor", "n_factors": 6}, "n_factors=6 must be less than n_comp"),
        ({"n_factors": 0}, "'n_factors' parameter"),
        ({"logit_sampler": "fast"}, "'logit_sampler' parameter"),
        ({"n_logit_steps": 0}, "'n_logit_steps' parameter"),
        ({"mean_prior": [0.0, 1.0]}, r"mean_prior has shape \(2,\)"),
        ({"mean_prior": np.full(6, np.nan)}, "mean_prior must be"),
        ({"mean_precision_prior": 0}, "'mean_precision_prior' parameter"),
        ({"covariance_prior": np.ones(5)}, r"covariance_prior has shape \(5,\)"),
        ({"covariance_prior": np.ones((6, 6))}, "covariance_prior must be positive definite"),
        ({"covariance_prior": np.triu(np.ones((6, 6)))}, "covariance_prior must be positive def"),
        ({"covariance_prior": np.eye(6), "covariance_type": "diag"}, r"shape \(6, 6\)"),
        ({"covariance_prior": -np.ones(6)}, "covariance_prior must be positive"),
        ({"covariance_prior": np.geomspace(1, 1e-30, 6)}, "covariance_prior must be positive def"),
        ({"degrees_of_freedom_prior": 5.0}, "degrees_of_freedom_prior=5.0 must be more than"),
        ({"topic_word_prior": np.full((2, 2), 0.1)}, r"topic_word_prior has shape \(2, 2\)"),
        ({"sampler": "cycle"}, "'sampler' parameter"),
    ],
)
def test_bad_parameters(corpus, params, message):
    with pytest.raises(ValueError, match=message):
        GibbsCTM(6, **params).fit(corpus)


@pytest.mark.parametrize(
    "options",
    [
        {"covariance_prior": np.full(6, 1e-30)},
        {"covariance_prior": 1e-20 * np.eye(6)},
        {"covariance_prior": 1e-6, "degrees_of_freedom_prior": 5 + 1e-12},
    ],
)
def test_priors_below_the_rounding_of_logits(corpus, options):
    ctm = ctm_of(max_iter=2, **options)
    with pytest.raises(ValueError, match="covariance_prior counts for too little"):
        ctm.fit(corpus[:6])
    assert not hasattr(ctm, "components_")


def test_priors_of_every_shape(corpus):
    full = np.diag(np.linspace(0.5, 2, 6)) + 0.1
    for covariance in (0.5, np.linspace(0.5, 2, 6), full):
        ctm = ctm_of(covariance_prior=covariance, degrees_of_freedom_prior=1e6, max_iter=3)
        ctm.set_params(mean_prior=np.linspace(-1, 1, 6), mean_precision_prior=1e6).fit(corpus)
        want = np.asarray(covariance)
        want = want if want.ndim == 2 else np.diag(np.broadcast_to(want, 6))
        np.testing.assert_allclose(ctm.covariance_, want, atol=0.02)
        np.testing.assert_allclose(ctm.mean_, np.linspace(-1, 1, 6), atol=0.02)


def test_bad_input(corpus):
    with pytest.raises(ValueError, match="no counts"):
        GibbsCTM(2).fit(np.zeros((3, 4)))
    with pytest.raises(NotFittedError):
        GibbsCTM(2).transform(corpus)
    with pytest.raises(NotFittedError):
        GibbsCTM(2).topic_graph()
    with pytest.warns(UserWarning, match="n_components=8 is more than the 3 documents"):
        ctm_of(n_components=8).fit(corpus[:3])


def test_documents_and_words_without_tokens(corpus):
    X = sp.vstack([corpus, sp.csr_matrix((2, corpus.shape[1]), dtype=corpus.dtype)], format="csr")
    X = sp.hstack([X, sp.csr_matrix((X.shape[0], 3), dtype=X.dtype)], format="csr")
    for covariance_type in TYPES:
        ctm = ctm_of(covariance_type).fit(X)
        np.testing.assert_allclose(ctm.components_[:, -3:], 0.1, rtol=1e-6)
        drawn = np.random.default_rng(0).multivariate_normal(ctm.mean_, ctm.covariance_, 50_000)
        want = softmax(drawn, axis=1).mean(axis=0)
        np.testing.assert_allclose(ctm.transform(X)[-1], want, atol=0.02)


@pytest.mark.filterwarnings("ignore:n_components")
@pytest.mark.parametrize("covariance_type", ["full", "diag"])
def test_one_topic_one_document_one_word(covariance_type):
    for X, K in ((np.array([[3]]), 1), (np.array([[3, 2, 1]]), 1), (np.array([[5], [4]]), 2)):
        ctm = GibbsCTM(K, covariance_type=covariance_type, max_iter=4, evaluate_every=1)
        ctm.set_params(random_state=0).fit(sp.csr_matrix(X))
        assert ctm.components_.sum() == pytest.approx(X.sum() + 0.1 * ctm.components_.size)
        assert np.isfinite(ctm.log_likelihood_history_).all()
        assert np.isfinite(ctm.transform(X)).all()
        assert np.isfinite(ctm.topic_correlation_).all()


def test_transform_score_and_sample(corpus):
    ctm = ctm_of(sparse_output=True).fit(corpus[:200])
    found = ctm.transform(corpus[200:])
    assert sp.issparse(found)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)
    completed, from_left = (
        ctm.score(corpus[250:], method=m) for m in ("completion", "left-to-right")
    )
    assert abs(completed - from_left) < 0.5
    X, doc_topic = ctm.sample(5, doc_length=30, random_state=0)
    assert X.shape == (5, corpus.shape[1]) and doc_topic.shape == (5, 6)
    np.testing.assert_array_equal(np.asarray(X.sum(axis=1)).ravel(), 30)


def test_callbacks(corpus, tmp_path):
    monitor, path = HeldoutMonitor(corpus[:50]), tmp_path / "ctm.joblib"
    ctm = ctm_of(max_iter=4, burn_in=2, sample_every=1)
    ctm.set_callbacks(monitor, Checkpoint(path)).fit(corpus)
    assert [row["n_iter"] for row in monitor.get_logs()] == [1, 2, 3, 4]
    resumed = joblib.load(path).set_params(warm_start=True, max_iter=2).fit(corpus)
    assert same_bytes(resumed, ctm_of(burn_in=2, sample_every=1).fit(corpus))


# ---------------------------------------------------------------------- displays


@pytest.fixture(scope="module")
def fitted(correlated):
    X, topics, _ = correlated
    return ctm_of("full", init=topics, max_iter=20).fit(X)


def test_graph_as_arrays(fitted):
    names = [f"word{i}" for i in range(150)]
    graph = fitted.topic_graph(0.0, n_words=2, feature_names=names)
    correlation = fitted.topic_correlation_
    assert (graph.edges[:, 0] < graph.edges[:, 1]).all()
    np.testing.assert_array_equal(graph.weights, correlation[tuple(graph.edges.T)])
    assert (np.diff(graph.weights) <= 0).all() and graph.weights.min() >= 0
    assert len(graph.edges) == (correlation[np.triu_indices(6, 1)] >= 0).sum()
    best = np.argsort(-fitted.topic_word_distr_, axis=1)[:, :4]
    # Words that tell a topic from others come first, which need not be its two most frequent ones.
    for label, words in zip(graph.labels, best, strict=True):
        assert len(label.split()) == 2 and set(label.split()) <= {f"word{v}" for v in words}
    assert graph.share.sum() == pytest.approx(1)
    assert len(fitted.topic_graph(1.0).edges) == 0
    place = graph.layout()
    assert place.shape == (6, 2) and np.isfinite(place).all()
    assert place.min() >= 0 and place.max() <= 1


def test_graph_for_networkx(fitted):
    networkx = pytest.importorskip("networkx")
    graph = fitted.topic_graph(0.1)
    made = graph.to_networkx()
    assert isinstance(made, networkx.Graph)
    assert made.number_of_edges() == len(graph.edges)
    assert made.nodes[0]["label"] == graph.labels[0]


def test_tree(fitted):
    tree = fitted.topic_tree()
    assert is_valid_linkage(tree.linkage)
    coarse, fine = tree.cut(2), tree.cut(4)
    assert sorted(np.unique(fine)) == [0, 1, 2, 3]
    for cluster in range(4):  # clusters are nested
        assert len(np.unique(coarse[fine == cluster])) == 1
    assert len(tree.cluster_labels(3)) == 3
    with pytest.raises(ValueError, match="n_clusters=9 is more than the 6 topics"):
        tree.cut(9)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda ctm: ctm.topic_graph(1.5), "threshold must not be"),
        (lambda ctm: ctm.topic_graph(n_words=0), "n_words must be"),
        (lambda ctm: ctm.topic_tree(feature_names=["one"]), r"feature_names has shape \(1,\)"),
    ],
)
def test_bad_displays(fitted, call, message):
    with pytest.raises(ValueError, match=message):
        call(fitted)


def test_pictures(fitted):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    for shown in (fitted.topic_graph(0.1), fitted.topic_tree()):
        ax = shown.plot().ax_
        assert shown.plot(ax=ax).ax_ is ax
        ax.figure.canvas.draw()
        assert len(ax.texts) >= 6
        plt.close(ax.figure)
