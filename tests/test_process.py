"""AliasLDA with Dirichlet processes over documents: what users see."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment

from sklearn_sparsepost import AliasLDA, _sampled_topics
from sklearn_sparsepost.datasets import make_bars

STATE = [
    "components_",
    "log_likelihood_history_",
    "doc_topic_prior_",
    "topic_weights_",
    "doc_concentration_",
    "topic_concentration_",
    "n_components_",
    "n_iter_",
]


def model(n_components=6, **params):
    return AliasLDA(
        n_components, doc_topic_prior_type="dirichlet_process", random_state=0, **params
    )


def same_bytes(one, other):
    return all(
        np.asarray(getattr(one, name)).tobytes() == np.asarray(getattr(other, name)).tobytes()
        for name in STATE
    )


@pytest.mark.parametrize("words", ["dirichlet", "pitman_yor"])
def test_finds_the_bars_and_how_many_there_are(words):
    X, topics, _ = make_bars(400, doc_topic_prior=0.1, random_state=0)
    hdp = model(20, max_iter=150, topic_word_prior_type=words).fit(X)
    overlap = np.minimum(topics[:, None], hdp.topic_word_distr_[None]).sum(axis=2)
    rows, columns = linear_sum_assignment(overlap, maximize=True)
    assert overlap[rows, columns].mean() > 0.85
    assert hdp.topic_weights_[:10].sum() > 0.6  # one draw: 0.65 to 0.79 of 16 fits
    assert hdp.n_components_ == len(hdp.components_) <= 30


@pytest.mark.parametrize("n_components, sampler", [(1, "auto"), (2, "dense"), (40, "sparse")])
def test_topics_come_and_go(n_components, sampler):
    X, _, _ = make_bars(200, doc_topic_prior=0.1, random_state=0)
    hdp = model(n_components, sampler=sampler, init="random", max_iter=30).fit(X)
    assert hdp.n_components_ != n_components
    assert (hdp._fit_state.n_topic > 0).sum() == hdp.n_components_


def test_what_is_left_on_the_estimator(corpus):
    hdp = model(max_iter=6, burn_in=10).fit(corpus)
    K, sizes = hdp.n_components_, hdp.components_.sum(axis=1) - 0.1 * corpus.shape[1]
    assert hdp.components_.shape == (K, corpus.shape[1])
    np.testing.assert_allclose(sizes, np.sort(sizes)[::-1], rtol=1e-6)
    assert sizes.min() > 0.5 and sizes.sum() == pytest.approx(corpus.sum(), rel=1e-6)
    np.testing.assert_allclose(hdp.doc_topic_prior_, hdp.doc_concentration_ * hdp.topic_weights_)
    assert 0.5 < hdp.topic_weights_.sum() < 1
    assert hdp.transform(corpus).shape == (corpus.shape[0], K)
    np.testing.assert_allclose(hdp.transform(corpus[:0:-1])[-1].sum(), 1, rtol=1e-6)
    mass = hdp.transform(corpus, normalize=False).sum(axis=1)
    want = np.asarray(corpus.sum(axis=1)).ravel() + hdp.doc_topic_prior_.sum()
    np.testing.assert_allclose(mass, want, rtol=1e-5)
    assert len(hdp.get_feature_names_out()) == K
    assert np.isfinite([hdp.score(corpus), hdp.score(corpus[:20], method="left-to-right")]).all()
    assert hdp.sample(3, random_state=0)[1].shape == (3, K)


def test_concentrations_that_are_given_stay(corpus):
    hdp = model(max_iter=3, learn_every=1, doc_concentration=2.0, topic_concentration=3.0)
    hdp.fit(corpus)
    assert (hdp.doc_concentration_, hdp.topic_concentration_) == (2.0, 3.0)
    few = model(max_iter=20, topic_concentration=0.1, doc_concentration=0.5).fit(corpus)
    many = model(max_iter=20, topic_concentration=100.0, doc_concentration=0.5).fit(corpus)
    assert few.n_components_ < many.n_components_
    capped = model(max_iter=20, topic_concentration=100.0, max_components=8).fit(corpus)
    assert capped.n_components_ <= 8


@pytest.mark.parametrize("words", ["dirichlet", "pitman_yor"])
@pytest.mark.parametrize("fixed", [{}, {"doc_concentration": 0.8, "topic_concentration": 4.0}])
def test_five_and_five_sweeps_are_ten(corpus, words, fixed):
    common = {"burn_in": 4, "sample_every": 2, "learn_every": 2, "topic_word_prior": "auto"}
    common.update(topic_word_prior_type=words, **fixed)
    whole = model(max_iter=10, **common).fit(corpus)
    parts = model(max_iter=5, warm_start=True, **common).fit(corpus)
    parts = pickle.loads(pickle.dumps(parts))
    assert same_bytes(parts.fit(corpus), whole)
    assert parts.n_samples_averaged_ == 3


def test_an_interrupted_fit_is_usable_and_can_be_finished(corpus, monkeypatch):
    options = {"burn_in": 4, "sample_every": 1, "learn_every": 2}
    hdp = model(max_iter=6, warm_start=True, **options)
    (sweep, learn), sweeps = hdp._steps(), []

    def interrupted(chain):
        if len(sweeps) == 3:
            raise KeyboardInterrupt
        sweeps.append(1)
        return sweep(chain)

    monkeypatch.setattr(AliasLDA, "_steps", lambda self: (interrupted, learn))
    with pytest.raises(KeyboardInterrupt):
        hdp.fit(corpus)
    monkeypatch.undo()
    assert hdp.n_iter_ == 3
    assert np.isfinite(hdp.transform(corpus)).all()
    hdp.set_params(max_iter=3).fit(corpus)
    assert same_bytes(hdp, model(max_iter=6, **options).fit(corpus))


@pytest.mark.parametrize("words", ["dirichlet", "pitman_yor"])
def test_partial_fit_appends_documents(corpus, words, monkeypatch):
    hdp = model(learn_every=1, topic_word_prior_type=words)
    for first in (0, 100, 200):
        hdp.partial_fit(corpus[first : first + 100])
        assert hdp._fit_state.n_topic.sum() == corpus[: first + 100].sum()
        assert len(hdp.doc_topic_prior_) == hdp.n_components_ == len(hdp.components_)
    # Topics of new documents are those that the fitted ones are numbered by.
    chain = hdp._fit_state
    ptr, used = chain.tokens.doc_ptr, chain.used()
    monkeypatch.setattr(
        _sampled_topics,
        "topics_under",
        lambda table, counts, tokens, *given: np.zeros(tokens.n_tokens, np.uint16),
    )
    longer = hdp._extended_chain(corpus)
    assert (longer.z[ptr[-1] :] == used[0]).all()


def test_warm_start_on_other_documents(corpus):
    hdp = model(max_iter=4, learn_every=2, warm_start=True).fit(corpus[:200])
    learned = hdp.doc_concentration_
    hdp.set_params(max_iter=1, learn_every=100).fit(corpus[200:])
    assert hdp.doc_concentration_ == learned and hdp.n_iter_ == 5
    for params, message in (
        ({"n_components": 7}, "n_components=7.*fitted with 6 and 100"),
        ({"max_components": 70}, "max_components=70.*fitted with 6 and 100"),
        ({"doc_topic_prior_type": "dirichlet"}, "doc_topic_prior_type='dirichlet'.*other type"),
        ({"topic_word_prior_type": "pitman_yor"}, "topic_word_prior_type.*other type"),
    ):
        other = pickle.loads(pickle.dumps(hdp)).set_params(**params)
        with pytest.raises(ValueError, match=message):
            other.fit(corpus[200:])
    plain = hdp.set_params(warm_start=False, doc_topic_prior_type="dirichlet").fit(corpus)
    assert not hasattr(plain, "topic_weights_") and not hasattr(plain, "n_components_")
    plain.set_params(warm_start=True, doc_topic_prior_type="dirichlet_process")
    with pytest.raises(ValueError, match="doc_topic_prior_type.*other type"):
        plain.fit(corpus)


def test_changed_concentrations_keep_the_topics(corpus):
    hdp = model(max_iter=5, warm_start=True).fit(corpus)
    z, weights = hdp._fit_state.z.copy(), hdp.topic_weights_
    hdp.set_params(doc_concentration=3.0, topic_concentration=1.0, max_iter=0).fit(corpus)
    np.testing.assert_array_equal(hdp._fit_state.z, z)
    np.testing.assert_allclose(hdp.doc_topic_prior_, 3 * weights)
    assert hdp.topic_concentration_ == 1.0


def test_documents_and_words_without_tokens(corpus):
    X = sp.vstack([corpus, sp.csr_matrix((2, corpus.shape[1]), dtype=int)], format="csr")
    X = sp.hstack([X, sp.csr_matrix((X.shape[0], 3), dtype=int)], format="csr")
    hdp = model(max_iter=3).fit(X)
    assert (hdp.components_[:, -3:] > 0).all()
    share = hdp.topic_weights_ / hdp.topic_weights_.sum()
    np.testing.assert_allclose(hdp.transform(X)[-1], share, rtol=1e-4)
    with np.errstate(all="raise", under="ignore"):
        found = model(1, max_components=1, max_iter=4, evaluate_every=1, learn_every=1).fit([[3]])
    assert found.n_components_ == 1 and np.isfinite(found.log_likelihood_history_).all()


@pytest.mark.parametrize(
    "params, message",
    [
        ({"doc_concentration": 0.0}, "'doc_concentration' parameter"),
        ({"topic_concentration": -1.0}, "'topic_concentration' parameter"),
        ({"topic_concentration": "learn"}, "'topic_concentration' parameter"),
        ({"max_components": 0}, "'max_components' parameter"),
        ({"max_components": 5}, "max_components=5 is less than n_components=6"),
        ({"doc_topic_prior": 0.1}, "doc_topic_prior is given.*doc_topic_prior_type"),
        ({"doc_topic_prior": "auto"}, "doc_topic_prior is given.*doc_topic_prior_type"),
        ({"topic_word_prior": np.full((6, 120), 0.1)}, "topic_word_prior is a matrix.*process"),
        ({"doc_topic_prior_type": "process"}, "'doc_topic_prior_type' parameter"),
    ],
)
def test_bad_parameters(corpus, params, message):
    with pytest.raises(ValueError, match=message):
        model().set_params(**params).fit(corpus)
