"""AliasLDA with Pitman-Yor topics: what users see."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment

from sklearn_sparsepost import AliasLDA
from sklearn_sparsepost.datasets import make_bars

STATE = [
    "components_",
    "log_likelihood_history_",
    "doc_topic_prior_",
    "discount_",
    "concentration_",
    "base_word_distr_",
    "n_iter_",
]


def model(n_components=6, **params):
    return AliasLDA(n_components, topic_word_prior_type="pitman_yor", random_state=0, **params)


def same_bytes(one, other):
    return all(
        np.asarray(getattr(one, name)).tobytes() == np.asarray(getattr(other, name)).tobytes()
        for name in STATE
    )


@pytest.fixture(scope="module")
def power_law():
    """Documents of topics from Pitman-Yor processes, the topics, and their discount."""
    rng = np.random.default_rng(0)
    V, K, a, b = 2000, 5, 0.5, 20.0
    base = 1 / (10 + np.arange(V))
    topics = np.zeros((K, V))
    for topic in topics:
        sticks = rng.beta(1 - a, b + a * np.arange(1, 4001))
        weights = sticks * np.concatenate([[1], np.cumprod(1 - sticks[:-1])])
        np.add.at(topic, rng.choice(V, p=base / base.sum(), size=len(weights)), weights)
    topics /= topics.sum(axis=1, keepdims=True)
    weights = rng.dirichlet(np.full(K, 0.2), size=700)
    X = sp.csr_matrix(np.array([rng.multinomial(80, w @ topics) for w in weights]))
    return X, topics, a


@pytest.mark.parametrize("sampler", ["auto", "alias", "sparse", "dense"])
def test_finds_the_bars(sampler):
    X, topics, _ = make_bars(200, doc_topic_prior=0.1, random_state=0)
    options = {"doc_topic_prior": 0.1, "init": "random", "max_iter": 60}
    lda = model(len(topics), sampler=sampler, **options).fit(X)
    overlap = np.minimum(topics[:, None], lda.topic_word_distr_[None]).sum(axis=2)
    rows, columns = linear_sum_assignment(overlap, maximize=True)
    assert overlap[rows, columns].mean() > 0.8


@pytest.mark.parametrize("doc_topic_prior_type", ["dirichlet", "dirichlet_process"])
def test_first_sweeps_are_those_of_dirichlet_topics(corpus, doc_topic_prior_type):
    """Four of them: each word has one table in a topic until then, and tables tell nothing."""
    options = {"doc_topic_prior_type": doc_topic_prior_type, "burn_in": 8, "learn_every": 1}
    options |= {"init": "random", "max_iter": 1, "warm_start": True}
    plain = AliasLDA(6, random_state=0, **options).fit(corpus)
    seated = model(**options)
    for n, begun in ((1, False), (3, False), (1, True)):
        seated.set_params(max_iter=n).fit(corpus)
        chain = seated._fit_state
        if chain.n_passes == 1:  # later on topics of a word are listed in another order
            np.testing.assert_array_equal(chain.z, plain._fit_state.z)
        tables = chain.counts.to_tables()
        assert ((tables > 1).any(), seated.discount_ != 0.1) == (begun, begun)
        assert (tables <= chain.counts.to_lists()[2]).all()
        assert tables.sum() == chain.n_tables.sum()
        assert chain.n_topic.sum() == len(chain.z)


def test_power_laws_are_found_and_predicted(power_law):
    X, topics, a = power_law
    options = {"topic_word_prior": "auto", "init": topics, "max_iter": 60, "learn_every": 2}
    fitted = model(5, concentration="auto", **options).fit(X[:500])
    assert abs(fitted.discount_ - a) < 0.15
    plain = AliasLDA(5, random_state=0, **options).fit(X[:500])
    # How far the topics found are from those that the documents were drawn from.
    far = [
        (topics * np.log((topics + 1e-12) / found.topic_word_distr_)).sum()
        for found in (fitted, plain)
    ]
    assert far[0] < far[1]


def test_components_are_counts_less_discounts_and_what_smooths_them(corpus):
    fitted = model(max_iter=4, burn_in=1, sample_every=10, warm_start=True).fit(corpus)
    chain = fitted._fit_state
    row_ptr, topics, counts = chain.counts.to_lists()
    shape = corpus.shape[1], 6
    tokens, tables = (
        sp.csr_array((values, topics, row_ptr), shape=shape).toarray()
        for values in (counts, chain.counts.to_tables())
    )
    base = (fitted.topic_word_prior_ + tables.sum(axis=1)) / (
        fitted.topic_word_prior_ * corpus.shape[1] + tables.sum()
    )
    np.testing.assert_allclose(fitted.base_word_distr_, base)
    a, b = fitted.discount_, fitted.concentration_
    want = tokens - a * tables + np.outer(base, b + a * tables.sum(axis=0))
    np.testing.assert_allclose(fitted.components_, want.T, rtol=1e-5)
    np.testing.assert_allclose(fitted.components_.sum(axis=1), b + tokens.sum(axis=0), rtol=1e-5)


def test_samples_are_averaged(corpus):
    options = {"discount": 0.3, "concentration": 20.0, "burn_in": 2}
    fitted = model(max_iter=6, sample_every=2, **options).fit(corpus)
    assert fitted.n_samples_averaged_ == 2
    parts = [model(max_iter=n, sample_every=10, **options).fit(corpus) for n in (4, 6)]
    base = np.mean([part.base_word_distr_ for part in parts], axis=0)
    np.testing.assert_allclose(fitted.base_word_distr_, base)
    # The mean of products is nearly that of the means.
    mean = np.mean([part.components_ for part in parts], axis=0)
    np.testing.assert_allclose(fitted.components_, mean, atol=0.1)


@pytest.mark.parametrize("sampler", ["auto", "alias", "sparse", "dense"])
@pytest.mark.parametrize("fixed", [{}, {"discount": 0.2, "concentration": 30.0}])
def test_five_and_five_sweeps_are_ten(corpus, sampler, fixed):
    common = {"sampler": sampler, "burn_in": 4, "sample_every": 2, "learn_every": 2, **fixed}
    common.update(doc_topic_prior="auto", topic_word_prior="auto")
    whole = model(max_iter=10, **common).fit(corpus)
    parts = model(max_iter=5, warm_start=True, **common).fit(corpus)
    parts = pickle.loads(pickle.dumps(parts))
    assert same_bytes(parts.fit(corpus), whole)
    assert parts.n_samples_averaged_ == 3


def test_an_interrupted_fit_is_usable_and_can_be_finished(corpus, monkeypatch):
    options = {"burn_in": 4, "sample_every": 1, "learn_every": 2}
    lda = model(max_iter=6, warm_start=True, **options)
    (sweep, learn), sweeps = lda._steps(), []

    def interrupted(chain):
        if len(sweeps) == 3:
            raise KeyboardInterrupt
        sweeps.append(1)
        return sweep(chain)

    monkeypatch.setattr(AliasLDA, "_steps", lambda self: (interrupted, learn))
    with pytest.raises(KeyboardInterrupt):
        lda.fit(corpus)
    monkeypatch.undo()
    assert lda.n_iter_ == 3
    assert np.isfinite(lda.transform(corpus)).all()
    lda.set_params(max_iter=3).fit(corpus)
    assert same_bytes(lda, model(max_iter=6, **options).fit(corpus))


def test_partial_fit_appends_documents_and_keeps_tables(corpus):
    lda = model(learn_every=1)
    for first in (0, 100, 200):
        lda.partial_fit(corpus[first : first + 100])
        totals = lda.components_.sum(axis=1) - lda.concentration_
        assert totals.sum() == pytest.approx(corpus[: first + 100].sum(), rel=1e-5)
    before = lda._fit_state.n_tables.sum()
    lda.partial_fit(corpus[:1])
    assert lda._fit_state.n_tables.sum() > 0.9 * before


def test_warm_start_on_other_documents(corpus):
    lda = model(max_iter=4, learn_every=2, warm_start=True).fit(corpus[:200])
    learned = lda.discount_
    lda.set_params(max_iter=1, learn_every=100).fit(corpus[200:])
    assert lda.discount_ == learned
    assert lda.n_iter_ == 5
    lda.set_params(topic_word_prior_type="dirichlet")
    with pytest.raises(ValueError, match="topic_word_prior_type='dirichlet'.*other type"):
        lda.fit(corpus[200:])
    plain = lda.set_params(warm_start=False).fit(corpus)
    assert not hasattr(plain, "discount_")


def test_changed_parameters_keep_the_topics(corpus):
    lda = model(max_iter=5, warm_start=True).fit(corpus)
    tables = lda._fit_state.n_tables.copy()
    lda.set_params(discount=0.6, concentration=5.0, max_iter=0).fit(corpus)
    lda._fit_state.counts  # noqa: B018  are made under the new parameters
    np.testing.assert_array_equal(lda._fit_state.n_tables, tables)
    assert lda.discount_ == 0.6 and lda.concentration_ == 5.0


def test_documents_and_words_without_tokens(corpus):
    X = sp.vstack([corpus, sp.csr_matrix((2, corpus.shape[1]), dtype=int)], format="csr")
    X = sp.hstack([X, sp.csr_matrix((X.shape[0], 3), dtype=int)], format="csr")
    lda = model(max_iter=3).fit(X)
    assert (lda.components_[:, -3:] > 0).all()
    np.testing.assert_allclose(lda.transform(X)[-1], 1 / 6, rtol=1e-5)
    for small, K in ((np.array([[3]]), 1), (np.array([[3, 2, 1]]), 1), (np.array([[5], [4]]), 2)):
        with np.errstate(all="raise"):
            found = model(K, max_iter=4, evaluate_every=1, learn_every=1).fit(sp.csr_matrix(small))
        assert np.isfinite(found.log_likelihood_history_).all()


@pytest.mark.parametrize(
    "params, message",
    [
        ({"discount": 1.0}, "'discount' parameter"),
        ({"discount": -0.1}, "'discount' parameter"),
        ({"concentration": 0.0}, "'concentration' parameter"),
        ({"concentration": "learn"}, "'concentration' parameter"),
        ({"sampler": "cycle"}, "sampler='cycle'"),
        ({"topic_word_prior": np.full((6, 120), 0.1)}, "topic_word_prior is a matrix"),
    ],
)
def test_bad_parameters(corpus, params, message):
    with pytest.raises(ValueError, match=message):
        model(**params).fit(corpus)


def test_more_tokens_than_steps_are_made_for():
    with pytest.raises(ValueError, match="feature 0.*4,194,304"):
        model(2).fit([[2.0**23, 1.0], [3.0, 2.0]])
