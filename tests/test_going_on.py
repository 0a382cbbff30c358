"""Warm starts and streams: what is the same data, what a batch may do, models from files."""

from copy import deepcopy

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer

from sklearn_sparsepost import AliasLDA, GibbsCTM, SparseHDP, SparseLDA, SparseMixture, _checks
from sklearn_sparsepost._checks import fingerprint
from sklearn_sparsepost._learning.state import FitState
from sklearn_sparsepost._tables import SparseTable, sum_of_tables
from sklearn_sparsepost.datasets import load_docstrings

SHORT = {"max_iter": 2, "random_state": 0}
ESTIMATORS = {
    "lda": SparseLDA(6, tol=0, n_batches=3, **SHORT),
    "online": SparseLDA(6, tol=0, learning_method="online", batch_size=100, **SHORT),
    "learned": SparseLDA(6, tol=0, n_batches=3, doc_topic_prior="auto", doc_start="warm", **SHORT),
    "hdp": SparseHDP(6, tol=0, n_batches=3, **SHORT),
    "mixture": SparseMixture(6, tol=0, observation="multinomial", n_batches=3, **SHORT),
    "alias": AliasLDA(6, burn_in=0, sample_every=1, topic_word_prior="auto", **SHORT),
    "pitman_yor": AliasLDA(6, burn_in=0, topic_word_prior_type="pitman_yor", **SHORT),
    "process": AliasLDA(6, burn_in=0, doc_topic_prior_type="dirichlet_process", **SHORT),
    "ctm": GibbsCTM(6, burn_in=0, sample_every=1, topic_word_prior="auto", **SHORT),
}


def public(estimator):
    return {
        name: np.asarray(value).tobytes()
        for name, value in vars(estimator).items()
        if name[-1:] == "_"
    }


# ---------------------------------------------------------------------- the same data


def test_fingerprints_tell_data_apart(corpus):
    X = sp.csr_matrix(corpus.astype(float))
    dense = X.toarray() + 1
    weight = np.arange(1.0, X.shape[0] + 1)
    turned = sp.csr_matrix(X[:, ::-1])
    swapped = dense.copy()
    swapped[[0, 1]] = dense[[1, 0]]
    marks = [
        fingerprint(X),
        fingerprint(turned),
        fingerprint(X[::-1]),
        fingerprint(2 * X),
        fingerprint(X.astype(np.float32)),
        fingerprint(dense),
        fingerprint(dense[:, ::-1]),
        fingerprint(swapped),
        fingerprint(dense, weight),
        fingerprint(dense, weight[::-1]),
    ]
    assert len(set(marks)) == len(marks)


def test_fingerprints_do_not_depend_on_where_the_bytes_are(corpus, tmp_path, monkeypatch):
    X = corpus.toarray().astype(float)
    want = fingerprint(X)
    np.save(tmp_path / "X.npy", X)
    assert fingerprint(np.load(tmp_path / "X.npy", mmap_mode="r")) == want
    assert fingerprint(np.asfortranarray(X)) == want
    assert fingerprint(np.repeat(X, 2, axis=0)[::2]) == want
    monkeypatch.setattr(_checks, "HASHED", 1000)
    assert fingerprint(X) == want


@pytest.mark.parametrize("name", ESTIMATORS)
def test_columns_in_another_order_are_other_data(name, corpus):
    turned = sp.csr_matrix(corpus[:, ::-1])
    fitted = clone(ESTIMATORS[name]).set_params(warm_start=True).fit(corpus)
    mark = fitted._fit_state.fingerprint
    fitted.fit(turned)
    assert fitted._fit_state.fingerprint != mark
    if name == "alias":  # its counts are those of the documents that were given last
        counts = fitted.components_ - fitted.topic_word_prior_
        np.testing.assert_allclose(counts.sum(axis=0), turned.sum(axis=0).A1, atol=1e-3)


# ---------------------------------------------------------------------- streams


@pytest.fixture(scope="module")
def docstrings():
    words = CountVectorizer(stop_words="english", token_pattern="[a-z]{3,}", min_df=5, max_df=0.3)
    X = words.fit_transform(load_docstrings().data)
    return X[np.random.default_rng(0).permutation(X.shape[0])]


def test_a_stream_after_a_fit_does_no_damage(docstrings):
    test, stream, train = docstrings[:300], docstrings[300:800], docstrings[800:]
    lda = SparseLDA(30, max_iter=10, random_state=0).fit(train)
    assert lda.n_samples_seen_ == train.shape[0]
    before, fitted = lda.score(test), lda
    for size in (10, 50, 250):
        lda = deepcopy(fitted)
        for first in range(0, 500, size):
            lda.partial_fit(stream[first : first + size])
        assert lda.n_samples_seen_ == train.shape[0] + 500
        assert lda.n_batch_iter_ == 500 // size
        assert lda.score(test) > before
        assert lda.components_.sum() == pytest.approx(docstrings[300:].sum(), rel=0.05)


def test_the_first_step_after_a_fit_weighs_a_batch_by_its_share():
    """One component has every row, so that its counts and means are known."""
    X = np.random.default_rng(0).standard_normal((400, 2))
    priors = {"mean_prior": [0, 0], "covariance_prior": np.eye(2)}
    for decay, offset in ((0.7, 64), (1, 0), (0.6, 1000)):
        options = {"learning_decay": decay, "learning_offset": offset, "random_state": 0}
        mixture = SparseMixture(1, **options, **priors).fit(X[:300]).partial_fit(X[300:])
        whole = SparseMixture(1, random_state=0, **priors).fit(X)
        assert mixture.degrees_of_freedom_ == pytest.approx(402)
        np.testing.assert_allclose(mixture.means_, whole.means_, rtol=1e-9)
        np.testing.assert_allclose(mixture.covariances_, whole.covariances_, rtol=1e-9)


def test_a_mixture_keeps_what_it_learned():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 2)) + 8 * rng.integers(0, 3, (2000, 1))
    mixture = SparseMixture(3, random_state=0).fit(X[:1500])
    before = mixture.score(X)
    for first in range(1500, 2000, 20):
        mixture.partial_fit(X[first : first + 20])
    assert mixture.n_samples_seen_ == 2000
    assert mixture.score(X) > before - 0.02
    assert mixture.weight_concentration_.sum() == pytest.approx(2001, rel=1e-3)


def test_a_given_number_of_samples_counts(corpus):
    lda = SparseLDA(6, random_state=0, total_samples=5e4).fit(corpus[:200])
    lda.partial_fit(corpus[200:])
    most = SparseLDA(6, random_state=0).fit(corpus[:200]).partial_fit(corpus[200:])
    assert lda.components_.sum() > 2 * most.components_.sum()
    alone = SparseLDA(6, random_state=0).partial_fit(corpus)
    given = SparseLDA(6, random_state=0, total_samples=1e6).partial_fit(corpus)
    assert public(alone) == public(given)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_only_the_first_batch_may_be_small_with_a_word(name, corpus):
    with pytest.warns(UserWarning, match="n_components=6 is more than the 4"):
        estimator = clone(ESTIMATORS[name]).partial_fit(corpus[:4])
    estimator.partial_fit(corpus[4:8])  # a warning would be an error


@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_empty_batch_is_a_step_of_nothing(name, corpus):
    empty = sp.csr_matrix((5, corpus.shape[1]))
    estimator = clone(ESTIMATORS[name])
    if name != "mixture":  # an observation of nothing says something of no component
        with pytest.raises(ValueError, match="no counts"):
            estimator.partial_fit(empty)
    assert "n_iter_" not in vars(estimator.partial_fit(corpus[:50])) or estimator.n_iter_ < 2
    before = public(estimator)
    assert estimator.partial_fit(empty) is estimator
    assert public(estimator) == before


# ---------------------------------------------------------------------- models from files


@pytest.mark.parametrize("name", ESTIMATORS)
def test_models_that_are_mapped_for_reading_go_on(name, corpus, tmp_path):
    fitted = clone(ESTIMATORS[name]).set_params(warm_start=True).fit(corpus)
    joblib.dump(fitted, tmp_path / "model")
    for call in (
        lambda model: model.fit(corpus),
        lambda model: model.fit(corpus[:200]),
        lambda model: model.partial_fit(corpus[:100]),
    ):
        mapped = joblib.load(tmp_path / "model", mmap_mode="r")
        want = call(deepcopy(fitted))
        assert public(call(mapped)) == public(want)


def go_on(model, X):
    return public(model.fit(X)), public(model.partial_fit(X[:100]))


def test_models_that_workers_map_go_on(corpus):
    models = [clone(e).set_params(warm_start=True).fit(corpus) for e in ESTIMATORS.values()]
    want = [go_on(deepcopy(model), corpus) for model in models]
    with Parallel(n_jobs=2, backend="loky", max_nbytes=100) as workers:
        assert workers(delayed(go_on)(model, corpus) for model in models) == want


def test_short_integers(corpus):
    """Parameters of eight bits do not overflow."""
    short = {"n_batches": np.int8(2), "batch_size": np.int8(100), "sparsity_level": np.int8(4)}
    for method in ("memoized", "online"):
        plain = SparseLDA(6, learning_method=method, n_batches=2, batch_size=100, sparsity_level=4)
        plain.set_params(max_iter=2, random_state=0).fit(corpus)
        lda = SparseLDA(np.int8(6), learning_method=method, random_state=np.int16(0), **short)
        lda.set_params(max_iter=np.int8(2)).fit(corpus)
        assert public(lda) == public(plain)
        assert isinstance(lda.n_batches, np.int8)  # a parameter stays as it was given


# ---------------------------------------------------------------------- smaller things


def test_sums_of_tables_are_made_in_double():
    rng = np.random.default_rng(0)
    tables = [
        SparseTable(
            np.arange(50, dtype=np.int32),
            np.arange(0, 201, 4),
            np.tile(np.arange(4, dtype=np.int32), 50),
            rng.random(200, dtype=np.float32) * np.float32(10.0 ** (i % 5)),
            (50, 4),
        )
        for i in range(33)
    ]
    total = sum_of_tables(tables)
    exact = sum(table.values.astype(np.float64) for table in tables)
    assert total.values.dtype == np.float32
    np.testing.assert_array_equal(total.values, exact.astype(np.float32))


@pytest.mark.parametrize(
    "method, bounds, converged",
    [
        ("memoized", [-100.0, -100.05], True),
        ("memoized", [-100.0, -103.0], True),  # it rises in theory: this is its noise
        ("online", [-100.0, -103.0], False),
        ("online", [-103.0, -100.0], False),
        ("online", [-100.0, -100.05], True),
        ("online", [-100.05, -100.0], True),
    ],
)
def test_a_fall_of_an_online_bound_is_no_convergence(method, bounds, converged):
    lda = SparseLDA(learning_method=method, tol=1e-3)
    state = FitState(None, 0)
    state.history, state.amount = bounds, 100.0
    assert lda._has_converged(state) is converged


def test_integer_seeds_make_different_starts():
    X = np.random.default_rng(0).standard_normal((200, 2))
    options = {"init_params": "k-means++", "max_iter": 1, "tol": 0, "learning_method": "batch"}
    seeds = SparseMixture(5, random_state=0)._new_seeds(3)
    assert len(set(seeds)) == 3
    bounds = [SparseMixture(5, n_init=n, random_state=0, **options).fit(X) for n in (1, 8)]
    assert bounds[1].lower_bound_ > bounds[0].lower_bound_
