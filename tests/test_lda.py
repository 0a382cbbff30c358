"""SparseLDA is right: against enumeration, scikit-learn, and its own bound."""

from copy import deepcopy
from itertools import combinations

import numpy as np
import pytest
import reference
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import gammaln, psi
from sklearn.base import clone
from sklearn.decomposition import LatentDirichletAllocation

from sklearn_sparsepost import SparseLDA
from sklearn_sparsepost._models.documents import expected_topics, improved_prior, prior_gains
from sklearn_sparsepost._suffstats import SuffStats
from sklearn_sparsepost.datasets import make_bars, make_lda_corpus
from sklearn_sparsepost.models import (
    Admixture,
    Corpus,
    DirichletDocuments,
    Multinomial,
    begin,
)

METHODS = ["batch", "online", "memoized"]


def full_bound(lda, X, L):
    """The bound with every term written out, of documents one obvious step from their fit."""
    prior = np.broadcast_to(lda.topic_word_prior_, lda.components_.shape)
    alpha = lda.doc_topic_prior_
    if lda.estimation == "map":
        elog_phi = np.log(lda.topic_word_distr_)
        total = reference.log_prior_of_points(elog_phi, prior)
    else:
        elog_phi = reference.expected_log_topics(lda.components_)
        total = reference.topics_bound(lda.components_, prior)
    for row, weights in zip(X, lda.transform(X), strict=True):
        words = np.flatnonzero(row)
        theta = weights * (row.sum() + alpha.sum())
        resp = reference.responsibilities(elog_phi[:, words].T + psi(theta), L)
        total += reference.document_bound(words, row[words], resp, elog_phi, alpha)
    return total


# ---------------------------------------------------------------------- the bound

TINY = np.array([[2, 1, 0, 0], [0, 1, 2, 0], [1, 0, 0, 2]])


@pytest.mark.parametrize("L", [1, 2, None])
@pytest.mark.parametrize("method", METHODS)
def test_bound_is_below_the_evidence_of_a_tiny_corpus(L, method):
    alpha, eta = np.array([0.4, 0.7]), np.full((2, 4), 0.5)
    evidence = reference.log_evidence(TINY, alpha, eta)
    best = -np.inf
    for seed in range(3):
        lda = SparseLDA(
            2,
            sparsity_level=L,
            doc_topic_prior=alpha,
            topic_word_prior=0.5,
            learning_method=method,
            estimation="bayes",
            init="random",
            n_batches=2,
            batch_size=2,
            max_iter=30,
            tol=0,
            mean_change_tol=1e-7,
            max_doc_update_iter=1000,
            random_state=seed,
        ).fit(TINY.astype(np.float64))
        assert (lda.bound_history_ <= evidence).all()
        best = max(best, lda.bound_history_[-1])
    assert evidence - best < 6.0  # a bound that lacks terms would be anywhere


@pytest.mark.parametrize("L", [1, 2, 5])
@pytest.mark.parametrize("prior", ["scalar", "vector", "matrix"])
@pytest.mark.parametrize("estimation", ["bayes", "map"])
def test_bound_has_all_terms(L, prior, estimation):
    rng = np.random.default_rng(0)
    X = rng.poisson(0.6, (12, 15)).astype(np.float64)
    beta = {
        "scalar": 0.3,
        "vector": rng.uniform(0.1, 0.5, 15),
        "matrix": rng.uniform(0.1, 0.5, (5, 15)),
    }[prior]
    alpha = rng.uniform(0.01, 0.03, 5)
    lda = SparseLDA(
        5,
        sparsity_level=L,
        estimation=estimation,
        doc_topic_prior=alpha,
        topic_word_prior=beta,
        max_iter=4,
        tol=0,
        restarts=0,
        mean_change_tol=1e-10,
        max_doc_update_iter=5000,
        random_state=0,
    ).fit(X)
    assert lda.bound(X) == pytest.approx(full_bound(lda, X, L), rel=1e-7)


def test_bound_of_training_data_continues_the_history(corpus):
    for dtype, tol in ((np.float32, 1e-5), (np.float64, 1e-6)):
        X = corpus.astype(dtype)
        lda = SparseLDA(6, max_iter=40, tol=0, random_state=0).fit(X)
        assert lda.bound(X) == pytest.approx(lda.bound_history_[-1], rel=1e-4)
        assert lda.bound(X) >= lda.bound_history_[-1] - tol * abs(lda.bound_history_[-1])


@pytest.mark.parametrize("L", [1, 3, None])
@pytest.mark.parametrize("n_batches", [1, 4])
@pytest.mark.parametrize("estimation", ["bayes", "map"])
def test_bound_rises_where_theory_says_so(corpus, L, n_batches, estimation):
    # Documents that start from where they were: every step is one of coordinate ascent.
    lda = SparseLDA(
        6,
        sparsity_level=L,
        estimation=estimation,
        doc_start="warm",
        n_batches=n_batches,
        max_iter=25,
        tol=0,
        mean_change_tol=1e-6,
        restarts=2,
        random_state=0,
    ).fit(corpus.astype(np.float64))
    rises = np.diff(lda.bound_history_)
    assert (rises > -1e-7 * abs(lda.bound_history_[0])).all()
    assert rises.sum() > 0 or L == 1  # hard assignments may be stuck at once


@pytest.mark.parametrize("method", ["batch", "memoized"])
def test_bound_hardly_falls_from_cold_starts(corpus, method):
    lda = SparseLDA(6, learning_method=method, max_iter=20, tol=0, random_state=0).fit(corpus)
    assert (np.diff(lda.bound_history_) > -1e-4 * abs(lda.bound_history_[0])).all()


def test_online_bound_is_that_of_batch_when_the_step_is_one(corpus):
    X = corpus.astype(np.float64)
    common = {"init": np.random.default_rng(0).gamma(1, 1, (6, 120)) + 0.1, "tol": 0}
    online = SparseLDA(
        6, learning_method="online", batch_size=300, learning_offset=0, max_iter=1, **common
    ).fit(X)
    batch = SparseLDA(6, learning_method="batch", max_iter=1, **common).fit(X)
    np.testing.assert_allclose(online.components_, batch.components_, rtol=1e-9)
    np.testing.assert_allclose(online.bound_history_, batch.bound_history_, rtol=1e-12)


def test_points_are_the_modes_of_the_bound(corpus):
    """No topics near those of a pass, documents as they are, have a higher bound (MacKay 1998)."""
    X = corpus.astype(np.float64)
    lda = SparseLDA(6, estimation="map", learning_method="batch", max_iter=3, random_state=0).fit(X)
    observation = Multinomial("map", np.full((1, 1), 0.1), X.shape[1])
    counts = (lda.components_ - 0.1).T
    log_phi = np.log(lda.topic_word_distr_)
    rng = np.random.default_rng(0)

    def value(log_phi):
        prior = reference.log_prior_of_points(log_phi, np.full(log_phi.shape, 0.1))
        return (counts.T * log_phi).sum() + prior

    stats = observation_stats(observation, counts)
    got = observation.bound(stats, observation.estimate(stats))
    assert got == pytest.approx(value(log_phi), rel=1e-12)
    for scale in (1e-3, 0.1, 1.0):
        other = log_phi + scale * rng.standard_normal(log_phi.shape)
        other -= np.log(np.exp(other).sum(axis=1, keepdims=True))
        assert value(other) < got


def observation_stats(observation, counts):
    arrays = {**observation.empty(counts.shape[1]), "feature_counts": np.ascontiguousarray(counts)}
    arrays["feature_total"] = counts.sum(axis=0)
    return SuffStats(arrays, {name: observation.axes.get(name, 0) for name in arrays}, {})


# ---------------------------------------------------------------------- against scikit-learn


def sklearn_passes(X, start, n_passes, alpha, eta, n_iter):
    """scikit-learn's own batch passes from given topics, documents from uniform weights."""
    theirs = LatentDirichletAllocation(
        len(start), doc_topic_prior=alpha, mean_change_tol=0.0, max_doc_update_iter=n_iter
    )
    theirs._init_latent_vars(X.shape[1])
    theirs.components_ = start
    theirs.exp_dirichlet_component_ = np.exp(reference.expected_log_topics(start))
    for _ in range(n_passes):
        _, counts = theirs._e_step(X, cal_sstats=True, random_init=False)
        theirs.components_ = eta + counts
        theirs.exp_dirichlet_component_ = np.exp(reference.expected_log_topics(theirs.components_))
    return theirs


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.5])
@pytest.mark.parametrize("method", ["batch", "memoized"])
def test_dense_learning_equals_scikit_learn(corpus, alpha, method, dtype):
    X = corpus.astype(dtype)
    rng = np.random.default_rng(0)
    start = X[rng.choice(300, 5, replace=False)].toarray().astype(np.float64) * 5 + 0.5
    theirs = sklearn_passes(X.astype(np.float64), start, 4, alpha, 0.2, n_iter=21)
    ours = SparseLDA(
        5,
        estimation="bayes",
        sparsity_level=None,
        doc_topic_prior=alpha,
        topic_word_prior=0.2,
        learning_method=method,
        n_batches=1,
        init=start,
        restarts=0,
        max_iter=4,
        tol=0,
        mean_change_tol=0,
        max_doc_update_iter=20,
    ).fit(X)
    assert ours.components_.dtype == dtype
    tol = 5e-3 if dtype == np.float32 else 1e-6
    np.testing.assert_allclose(ours.components_, theirs.components_, rtol=tol, atol=tol)
    theirs.max_doc_update_iter = 22  # our masses are those after the responsibilities' last step
    np.testing.assert_allclose(ours.transform(X), theirs.transform(X), atol=tol)


# ---------------------------------------------------------------------- learning


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("L", [2, 8, None])
def test_bars_are_found(method, L):
    X, topics, _ = make_bars(1000, doc_topic_prior=0.1, random_state=0)
    lda = SparseLDA(
        10, sparsity_level=L, learning_method=method, batch_size=100, random_state=0
    ).fit(X)
    overlap = np.minimum(topics[:, None], lda.topic_word_distr_[None]).sum(axis=2)
    assert (overlap.max(axis=1) > 0.85).mean() >= (0.7 if L == 2 else 0.9)


def test_statistics_account_for_every_token(corpus):
    for method in ("batch", "memoized"):
        lda = SparseLDA(6, learning_method=method, max_iter=3, random_state=0).fit(corpus)
        tokens = lda.components_.sum(axis=0, dtype=np.float64) - 6 * 0.1
        np.testing.assert_allclose(tokens, np.asarray(corpus.sum(axis=0)).ravel(), atol=1e-2)


def test_memoized_does_not_forget_its_start(corpus):
    common = {"n_batches": 10, "max_iter": 1, "tol": 0, "random_state": 0}
    batch = SparseLDA(6, learning_method="batch", **common).fit(corpus)
    memoized = SparseLDA(6, **common).fit(corpus)
    assert memoized.score(corpus) > batch.score(corpus) - 0.02


@pytest.mark.parametrize("method", METHODS)
def test_warm_start_goes_on_exactly(corpus, method):
    common = {"learning_method": method, "tol": 0, "random_state": 3, "batch_size": 50}
    whole = SparseLDA(6, max_iter=6, **common).fit(corpus)
    parts = SparseLDA(6, max_iter=3, warm_start=True, **common).fit(corpus).fit(corpus)
    assert parts.n_iter_ == whole.n_iter_ == 6
    assert parts.components_.tobytes() == whole.components_.tobytes()
    assert parts.bound_history_.tobytes() == whole.bound_history_.tobytes()


def test_warm_start_on_new_data_keeps_the_topics(corpus):
    lda = SparseLDA(6, warm_start=True, random_state=0).fit(corpus)
    before = lda.score(corpus)
    lda.set_params(max_iter=1).fit(corpus[:250])
    assert lda.score(corpus) > before - 0.1
    with pytest.raises(ValueError, match="n_components=7.*6 fitted topics"):
        lda.set_params(n_components=7).fit(corpus)


def test_doc_start_warm_keeps_what_documents_had(corpus):
    cold = SparseLDA(6, max_iter=4, tol=0, random_state=0, restarts=0).fit(corpus)
    warm = clone(cold).set_params(doc_start="warm").fit(corpus)
    assert not np.array_equal(cold.components_, warm.components_)
    assert np.isfinite(warm.bound_history_).all()


def test_tol_stops_and_zero_does_not(corpus):
    assert SparseLDA(6, tol=0.05, max_iter=50, random_state=0).fit(corpus).n_iter_ < 50
    assert SparseLDA(6, tol=0, max_iter=12, random_state=0).fit(corpus).n_iter_ == 12


def test_evaluate_every(corpus):
    lda = SparseLDA(6, tol=0, max_iter=5, evaluate_every=2, random_state=0).fit(corpus)
    np.testing.assert_array_equal(np.isfinite(lda.bound_history_), [0, 1, 0, 1, 0])
    lda = SparseLDA(6, max_iter=3, evaluate_every=0, random_state=0).fit(corpus)
    assert lda.n_iter_ == 3 and np.isnan(lda.bound_history_).all()


def test_restarts_are_reported(corpus):
    for params in ({}, {"estimation": "bayes"}):
        lda = SparseLDA(6, max_iter=3, tol=0, random_state=0, **params).fit(corpus)
        assert lda.restart_acceptance_.shape == (3,)
        assert ((lda.restart_acceptance_ > 0) & (lda.restart_acceptance_ < 1)).all()
    lda = SparseLDA(6, max_iter=2, tol=0, restarts=0, random_state=0).fit(corpus)
    assert np.isnan(lda.restart_acceptance_).all()


def test_the_prior_expects_as_many_topics_as_are_drawn_from_it():
    # Exact: a topic of prior a is missing from n tokens with the probability that a Polya urn says.
    K, total, lengths = 2000, 0.5, np.array([0, 1, 7, 80, 1300])
    a, n = total / K, np.arange(1300)
    missing = np.cumprod(np.append(1, (total - a + n) / (total + n)))
    expected = expected_topics(total, lengths)
    np.testing.assert_allclose(expected, K * (1 - missing[lengths]), rtol=2e-3, atol=1e-12)


def test_restarts_by_the_prior_are_those_of_its_number_of_topics():
    rng = np.random.default_rng(0)
    # 60 tokens each, of which a prior of mass 0.5 expects 3.03 topics.
    X = sp.csr_matrix(rng.multinomial(60, rng.dirichlet(np.full(40, 0.2), 150)))
    fits = [
        SparseLDA(12, max_iter=3, tol=0, restarts_above=above, random_state=0).fit(X)
        for above in ("prior", 3, 0)
    ]
    assert fits[0].components_.tobytes() == fits[1].components_.tobytes()
    assert fits[0].components_.tobytes() != fits[2].components_.tobytes()


def test_verbose_prints_a_line_a_pass(corpus, capsys):
    SparseLDA(6, max_iter=2, tol=0, verbose=1, random_state=0).fit(corpus)
    out = capsys.readouterr().out
    assert "pass 1, bound per token" in out and "of restarts accepted" in out


# ---------------------------------------------------------------------- starts and priors


@pytest.mark.parametrize("init", ["k-means++", "random", "anchor"])
def test_every_start_learns(corpus, init):
    lda = SparseLDA(6, init=init, random_state=0, max_iter=10).fit(corpus)
    blank = np.ones_like(lda.components_)
    assert lda.score(corpus) > SparseLDA.from_topics(blank).score(corpus) + 0.3


@pytest.mark.parametrize("init", ["k-means++", "anchor"])
def test_start_of_a_corpus_read_in_parts(corpus, init, monkeypatch):
    lda = SparseLDA(6, init=init, max_iter=0, random_state=0)
    monkeypatch.setattr("sklearn_sparsepost._starts.helpers.START_SIZE", corpus.nnz // 4)
    parts = lda.fit(corpus)
    counts = parts.components_ - parts.topic_word_prior_
    assert counts.sum() == pytest.approx(corpus.sum(), rel=0.1)
    if init == "k-means++":  # the centres are of a part, but no document is left out
        np.testing.assert_allclose(counts.sum(axis=0), corpus.sum(axis=0).A1, rtol=1e-4)
    scored = clone(lda).set_params(max_iter=10).fit(corpus).score(corpus)
    monkeypatch.undo()
    assert scored > clone(lda).set_params(max_iter=10).fit(corpus).score(corpus) - 0.05


def test_array_starts(corpus):
    start = SparseLDA(6, max_iter=5, random_state=0).fit(corpus)
    same = SparseLDA(6, init=start.components_, max_iter=0).fit(corpus)
    np.testing.assert_allclose(same.components_, start.components_, rtol=1e-5)
    assert same.n_iter_ == 0 and same.bound_history_.shape == (0,)
    probabilities = SparseLDA(6, init=start.topic_word_distr_, max_iter=0).fit(corpus)
    np.testing.assert_allclose(probabilities.topic_word_distr_, start.topic_word_distr_, atol=5e-3)


@pytest.mark.parametrize("init", ["k-means++", "random", "anchor"])
def test_seeded_topics_come_out_where_they_were_seeded(init):
    X, topics, _ = make_lda_corpus(500, 120, 6, doc_length=60, random_state=0)
    order = [3, 0, 5, 1, 4, 2]
    prior = np.full((6, 120), 0.05)
    for k, true in enumerate(order):
        prior[k, np.argsort(topics[true])[-3:]] = 20.0
    lda = SparseLDA(6, topic_word_prior=prior, init=init, random_state=0).fit(X)
    overlap = np.minimum(lda.topic_word_distr_[:, None], topics[None]).sum(axis=2)
    np.testing.assert_array_equal(overlap.argmax(axis=1), order)


def test_asymmetric_alpha_orders_the_topics(corpus):
    alpha = np.array([2.0, 0.01, 0.01, 0.01, 0.01, 0.01])
    lda = SparseLDA(6, doc_topic_prior=alpha, random_state=0).fit(corpus)
    np.testing.assert_array_equal(lda.doc_topic_prior_, alpha)
    empty = lda.transform(sp.csr_matrix((1, 120)))
    np.testing.assert_allclose(empty[0], alpha / alpha.sum(), rtol=1e-5)


# ---------------------------------------------------------------------- streams


def test_partial_fit_learns_a_stream(corpus):
    lda = SparseLDA(6, total_samples=300, learning_offset=1, random_state=0)
    lda.partial_fit(corpus[:50])
    first = lda.score(corpus)
    for _ in range(3):
        for start in range(0, 300, 50):
            lda.partial_fit(corpus[start : start + 50])
    assert lda.n_batch_iter_ == 19
    assert lda.score(corpus) > first
    tokens = lda.components_.sum(dtype=np.float64)
    assert 0.5 < tokens / corpus.sum() < 2


def test_partial_fit_follows_fit(corpus):
    lda = SparseLDA(6, random_state=0, total_samples=300).fit(corpus)
    before = lda.score(corpus)
    lda.partial_fit(corpus[:100])
    assert lda.score(corpus) > before - 0.1


# ---------------------------------------------------------------------- using a fitted model


def test_transform_rows_depend_on_themselves_alone(corpus):
    lda = SparseLDA(6, random_state=0).fit(corpus)
    whole = lda.transform(corpus)
    np.testing.assert_allclose(whole.sum(axis=1), 1, rtol=1e-5)
    for i in (0, 17, 299):
        np.testing.assert_array_equal(lda.transform(corpus[i]), whole[[i]])


def test_sparse_output(corpus):
    dense = SparseLDA(6, sparsity_level=3, random_state=0).fit(corpus)
    sparse = clone(dense).set_params(sparse_output=True).fit(corpus)
    X = sp.vstack([corpus[:20], sp.csr_matrix((1, 120))], format="csr")
    got, want = sparse.transform(X), dense.transform(X)
    assert sp.issparse(got) and got.format == "csr" and got.shape == want.shape
    np.testing.assert_allclose(np.asarray(got.sum(axis=1)).ravel(), 1, rtol=1e-5)
    assert got[:20].nnz < 20 * 6
    np.testing.assert_allclose(got.toarray(), want, atol=0.06)


def test_from_topics_of_other_libraries(corpus):
    theirs = LatentDirichletAllocation(6, random_state=0, max_iter=20).fit(corpus)
    ours = SparseLDA.from_topics(
        theirs.components_,
        estimation="bayes",
        doc_topic_prior=1 / 6,
        sparsity_level=None,
        restarts=0,
        mean_change_tol=1e-4,
    )
    np.testing.assert_allclose(ours.transform(corpus), theirs.transform(corpus), atol=0.02)
    known = SparseLDA.from_topics(
        theirs.components_ / theirs.components_.sum(axis=1, keepdims=True)
    )
    assert known.score(corpus) == pytest.approx(ours.score(corpus), abs=0.1)
    assert known.transform(corpus[:5]).shape == (5, 6)
    named = SparseLDA.from_topics(theirs.components_, feature_names=[f"w{i}" for i in range(120)])
    assert list(named.feature_names_in_[:2]) == ["w0", "w1"]
    with pytest.raises(ValueError, match="non-negative"):
        SparseLDA.from_topics(-theirs.components_)


def test_sample_draws_from_the_model(corpus):
    lda = SparseLDA(6, random_state=0).fit(corpus)
    X, weights = lda.sample(2000, doc_length=30, random_state=0)
    assert X.shape == (2000, 120) and weights.shape == (2000, 6)
    np.testing.assert_array_equal(np.asarray(X.sum(axis=1)).ravel(), 30)
    frequency = np.asarray(X.mean(axis=0)).ravel() / 30
    np.testing.assert_allclose(frequency, weights.mean(axis=0) @ lda.topic_word_distr_, atol=4e-3)


def test_perplexity_and_feature_names(corpus):
    lda = SparseLDA(6, random_state=0).fit(corpus)
    assert lda.perplexity(corpus) == pytest.approx(np.exp(-lda.score(corpus)))
    assert list(lda.get_feature_names_out()[:2]) == ["sparselda0", "sparselda1"]


def test_pickles_carry_the_version(corpus):
    import pickle

    lda = SparseLDA(6, random_state=0, max_iter=2).fit(corpus)
    twin = pickle.loads(pickle.dumps(lda))
    np.testing.assert_array_equal(twin.transform(corpus), lda.transform(corpus))
    state = lda.__getstate__()
    state["_sparsepost_version"] = "0.0.1"
    with pytest.warns(UserWarning, match="0.0.1"):
        SparseLDA().__setstate__(state)


def test_dirichlet_constants_are_in_the_bound():
    # one document, one topic: the bound is the evidence, which is known in closed form
    x = np.array([[3.0, 1.0, 0.0]])
    params = {"topic_word_prior": 0.5, "doc_topic_prior": 0.2, "max_iter": 2}
    lda = SparseLDA(1, estimation="bayes", **params).fit(x)
    evidence = gammaln(1.5) - gammaln(1.5 + 4) + (gammaln(0.5 + x) - gammaln(0.5)).sum()
    np.testing.assert_allclose(lda.bound_history_, evidence, rtol=1e-12)


# ---------------------------------------------------------------------- learned priors


def dirichlet_multinomial(alpha, mass):
    """Log-likelihood of fractional counts, which the bound is in alpha, written out."""
    value = gammaln(alpha.sum()) - gammaln(alpha.sum() + mass.sum(axis=1))
    return (value + (gammaln(alpha + mass) - gammaln(alpha)).sum(axis=1)).sum()


def gains_of(mass):
    """The arguments of `prior_gains`, after alpha, from dense masses."""
    held = np.nonzero(mass)
    return held[1], mass[held], mass.sum(axis=1)


def test_steps_of_the_prior_climb_to_the_maximum():
    rng = np.random.default_rng(0)
    truth = np.array([0.05, 0.3, 1.0, 0.02])
    mass = rng.dirichlet(truth, 2000) * rng.integers(20, 80, (2000, 1))
    alpha = np.full(4, 0.1)
    value = dirichlet_multinomial(alpha, mass)
    for _ in range(300):
        alpha = improved_prior(alpha, *prior_gains(alpha, *gains_of(mass)))
        last, value = value, dirichlet_multinomial(alpha, mass)
        assert value >= last - 1e-9 * abs(last)
    best = minimize(lambda x: -dirichlet_multinomial(np.exp(x), mass), np.log(truth), method="BFGS")
    np.testing.assert_allclose(alpha, np.exp(best.x), rtol=1e-3)


def test_no_topic_is_ever_lost_to_the_prior():
    alpha = np.full(2, 0.1)
    mass = np.array([[5.0, 0.0], [7.0, 0.0]])
    for _ in range(50):
        alpha = improved_prior(alpha, *prior_gains(alpha, *gains_of(mass)))
    assert (alpha > 0).all()
    nothing = prior_gains(alpha, *gains_of(np.zeros((1, 2))))
    assert improved_prior(alpha, *nothing) is alpha


@pytest.mark.parametrize("L", [2, None])
@pytest.mark.parametrize("method", METHODS)
def test_learned_prior_finds_frequent_topics(method, L):
    alpha = np.array([1.0, 0.3, 0.1, 0.03])
    X, topics, _ = make_lda_corpus(
        1500, 80, 4, doc_topic_prior=alpha, doc_length=80, random_state=0
    )
    lda = SparseLDA(
        4,
        sparsity_level=L,
        doc_topic_prior="auto",
        learning_method=method,
        batch_size=100,
        max_iter=40,
        tol=0,
        random_state=0,
    ).fit(X)
    if method != "online":  # documents start cold: a fall of a few millionths is none
        assert (np.diff(lda.bound_history_) > -1e-5 * abs(lda.bound_history_[-1])).all()
    # Which fitted topic is which of those drawn from.
    similar = lda.topic_word_distr_ @ topics.T
    learned = lda.doc_topic_prior_[similar.argmax(axis=0)]
    assert (np.diff(learned) < 0).all()
    assert lda.doc_topic_prior_.min() < 0.125 < lda.doc_topic_prior_.max()
    fixed = clone(lda).set_params(doc_topic_prior=None).fit(X)
    assert lda.bound(X) > fixed.bound(X)


@pytest.mark.parametrize("method", METHODS)
def test_learned_prior_goes_on_exactly(corpus, method):
    options = {"doc_topic_prior": "auto", "learning_method": method, "tol": 0, "random_state": 0}
    whole = SparseLDA(6, max_iter=6, **options).fit(corpus)
    half = SparseLDA(6, max_iter=3, warm_start=True, **options).fit(corpus).fit(corpus)
    np.testing.assert_array_equal(whole.doc_topic_prior_, half.doc_topic_prior_)
    np.testing.assert_array_equal(whole.components_, half.components_)
    assert not np.array_equal(whole.doc_topic_prior_, np.full(6, 0.5 / 6))


def test_a_pass_of_a_learned_prior_is_one_under_that_prior(corpus):
    # Which documents restarts leave as they are follows from the prior that a fit begins with.
    options = {"max_iter": 3, "tol": 0, "warm_start": True, "restarts_above": 1}
    learned = SparseLDA(6, doc_topic_prior="auto", random_state=0, **options).fit(corpus)
    fixed = deepcopy(learned).set_params(doc_topic_prior=learned.doc_topic_prior_, max_iter=1)
    learned.set_params(max_iter=1).fit(corpus)
    fixed.fit(corpus)
    np.testing.assert_array_equal(learned.components_, fixed.components_)
    assert learned.bound_history_[-1] == fixed.bound_history_[-1]
    assert not np.array_equal(learned.doc_topic_prior_, fixed.doc_topic_prior_)


def test_partial_fit_learns_the_prior(corpus):
    lda = SparseLDA(6, doc_topic_prior="auto", total_samples=300, random_state=0)
    lda.set_params(learning_offset=1)
    for _ in range(5):
        for start in range(0, 300, 100):
            lda.partial_fit(corpus[start : start + 100])
    assert np.ptp(lda.doc_topic_prior_) > 0
    assert np.isfinite(lda.score(corpus))


@pytest.mark.parametrize("method", ["batch", "memoized"])
def test_statistics_of_many_chunks_are_those_of_one(corpus, method, monkeypatch):
    params = {"n_components": 5, "learning_method": method, "max_iter": 2, "tol": 0, "restarts": 0}
    found = []
    for size in (1 << 17, 300):
        monkeypatch.setattr("sklearn_sparsepost._run.chunks.CHUNK_SIZE", size)
        found.append(SparseLDA(**params, n_batches=3, warm_start=True, random_state=0).fit(corpus))
    stats = [lda._fit_state.stats for lda in found]
    for name in stats[0].arrays:
        np.testing.assert_allclose(stats[1][name], stats[0][name], rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(stats[1]["feature_total"].sum(), corpus.sum(), rtol=1e-5)
    np.testing.assert_allclose(found[1].bound_history_, found[0].bound_history_, rtol=1e-5)


def test_statistics_of_a_chunk_share_no_memory(corpus):
    prior = np.full((1, 1), 0.1)
    words = Multinomial("bayes", prior, corpus.shape[1])
    model = Admixture(words, DirichletDocuments(np.full(4, 0.1)), 4)
    data = Corpus(corpus, np.float64)
    state = begin(model, data, np.random.default_rng(0).dirichlet(np.ones(4), corpus.shape[0]))
    stats, _ = model.local_step(data.chunk([(0, corpus.shape[0])]), model.globals_of(state), (0, 0))
    for found in (stats, state.stats):
        arrays = [array for array in found.arrays.values() if isinstance(array, np.ndarray)]
        pairs = combinations(arrays, 2)
        assert len(arrays) > 2 and not any(np.shares_memory(*pair) for pair in pairs)


@pytest.mark.parametrize("sparse_output", [False, True])
def test_weights_that_are_not_normalised(corpus, sparse_output):
    lda = SparseLDA(4, max_iter=3, sparse_output=sparse_output, random_state=0).fit(corpus)
    weights, counts = lda.transform(corpus), lda.transform(corpus, normalize=False)
    assert sp.issparse(counts) == sparse_output and counts.dtype == weights.dtype
    total = np.asarray(counts.sum(axis=1)).ravel()
    np.testing.assert_allclose(total, corpus.sum(axis=1).A1 + 0.5, rtol=1e-5)
    np.testing.assert_allclose(_dense(counts) / total[:, None], _dense(weights), rtol=1e-5)


def _dense(table):
    return table.toarray() if sp.issparse(table) else table
