"""Bad input gets one clear error; odd but legal input works."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sklearn_sparsepost import AliasLDA, SparseLDA


@pytest.fixture
def X():
    return np.random.default_rng(0).poisson(1.0, (40, 12)).astype(np.float64)


def quick(**params):
    return SparseLDA(**{"n_components": 3, "random_state": 0, "max_iter": 2, **params})


@pytest.fixture(params=[SparseLDA, AliasLDA])
def any_lda(request):
    """`quick` of each of the estimators of topics."""
    defaults = {"n_components": 3, "random_state": 0, "max_iter": 2, "evaluate_every": 1}
    return lambda **params: request.param(**{**defaults, **params})


# ---------------------------------------------------------------------- errors


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("value", "message"), [(-1, "Negative values.*row 7"), (np.nan, "NaN"), (np.inf, "infinity")]
)
def test_bad_counts(any_lda, X, sparse, value, message):
    X[7, 2] = value
    with pytest.raises(ValueError, match=message):
        any_lda().fit(sp.csr_matrix(X) if sparse else X)
    lda = any_lda().fit(np.abs(np.nan_to_num(X, posinf=1)))
    with pytest.raises(ValueError, match=message):
        lda.transform(sp.csr_matrix(X) if sparse else X)


def test_text_instead_of_numbers(any_lda):
    with pytest.raises(ValueError, match="could not convert string|dtype"):
        any_lda().fit(np.array([["a text"], ["another"]]))


def test_wrong_width_at_transform(any_lda, X):
    lda = any_lda().fit(X)
    for name in ("transform", "score", "bound"):
        if hasattr(lda, name):
            with pytest.raises(ValueError, match="X has 11 features, but .*LDA is expecting 12"):
                getattr(lda, name)(X[:, :11])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_components", 0),
        ("n_components", -2),
        ("n_components", 2.5),
        ("n_components", "3"),
        ("sparsity_level", 0),
        ("sparsity_level", 1.5),
        ("learning_decay", 0.5),
        ("learning_decay", 1.01),
        ("learning_offset", -1),
        ("learning_method", "fast"),
        ("init", "kmeans"),
        ("n_batches", 0),
        ("batch_size", 0),
        ("max_iter", -1),
        ("tol", -1.0),
        ("restarts", -1),
        ("restarts_above", -1),
        ("restarts_above", "posterior"),
        ("doc_topic_prior", 0),
        ("topic_word_prior", -0.1),
        ("doc_start", "lukewarm"),
        ("total_samples", 0),
        ("max_doc_update_iter", 0),
        ("mean_change_tol", -1e-3),
    ],
)
def test_bad_parameters_are_named(X, name, value):
    with pytest.raises(ValueError, match=name):
        quick(**{name: value}).fit(X)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("doc_topic_prior", [0.1, 0.1], r"doc_topic_prior has shape \(2,\)"),
        ("doc_topic_prior", [0.1, 0.0, 0.1], "doc_topic_prior must be positive"),
        ("topic_word_prior", np.ones(11), r"topic_word_prior has shape \(11,\)"),
        ("topic_word_prior", np.ones((12, 3)), r"topic_word_prior has shape \(12, 3\)"),
        ("topic_word_prior", np.full(12, np.nan), "topic_word_prior must be positive"),
        ("init", np.ones((3, 11)), r"init has shape \(3, 11\)"),
        ("init", -np.ones((3, 12)), "init must not be negative"),
    ],
)
def test_bad_arrays_are_named(any_lda, X, name, value, message):
    with pytest.raises(ValueError, match=message):
        any_lda(**{name: value}).fit(X)


def test_empty_matrices(any_lda):
    with pytest.raises(ValueError, match="0 sample"):
        any_lda().fit(np.empty((0, 5)))
    with pytest.raises(ValueError, match="0 feature"):
        any_lda().fit(np.empty((5, 0)))
    with pytest.raises(ValueError, match="no counts"):
        any_lda().fit(np.zeros((5, 4)))
    with pytest.raises(ValueError, match="no counts"):
        any_lda().partial_fit(sp.csr_matrix((5, 4)))


def test_errors_leave_a_fitted_model_alone(any_lda, X):
    lda = any_lda().fit(X)
    before = lda.components_.copy()
    with pytest.raises(ValueError):
        lda.fit(-X - 1)
    np.testing.assert_array_equal(lda.components_, before)


# ---------------------------------------------------------------------- odd, but legal


def assert_works(lda, X):
    lda.fit(X)
    assert np.isfinite(lda.components_).all() and (lda.components_ > 0).all()
    name = "log_likelihood_history_" if isinstance(lda, AliasLDA) else "bound_history_"
    assert np.isfinite(getattr(lda, name)).all()
    weights = lda.transform(X)
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-4)
    return weights


def test_fewer_documents_than_batches(X):
    assert_works(quick(n_batches=100), X[:5])
    assert_works(quick(learning_method="online", batch_size=100), X[:5])


def test_rows_of_zeros_get_the_prior(X):
    X[[0, 5, 39]] = 0
    alpha = np.array([0.2, 0.3, 0.5])
    for level in (2, None):
        weights = assert_works(quick(doc_topic_prior=alpha, sparsity_level=level), X)
        np.testing.assert_allclose(weights[[0, 5, 39]], [alpha] * 3, rtol=1e-6)


def test_one_document_and_one_word(any_lda, X):
    with pytest.warns(UserWarning, match="more than the 1 documents"):
        assert_works(any_lda(), X[:1])
    assert_works(any_lda(), X[:, :1] + 1)
    assert_works(any_lda(n_components=1), X[:1, :1] + 1)


def test_more_topics_than_documents_warns(any_lda, X):
    with pytest.warns(UserWarning, match="n_components=50 is more than the 40 documents"):
        assert_works(any_lda(n_components=50), X)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.float32, np.float64])
def test_counts_near_two_to_the_31(dtype):
    X = np.array([[2**31 - 1, 1, 0], [3, 2**31 - 1, 1], [0, 2, 2**31 - 5]] * 3).astype(dtype)
    lda = quick()
    assert_works(lda, X)
    total = lda.components_.sum(dtype=np.float64)
    assert total == pytest.approx(X.sum(dtype=np.float64), rel=1e-6)
    if dtype().dtype.kind in "iu":
        assert lda.components_.dtype == np.float64


def test_integers_that_float32_holds_are_fitted_in_float32(any_lda, X):
    assert any_lda().fit(X.astype(int)).components_.dtype == np.float32
    assert any_lda().fit(X.astype(bool)).components_.dtype == np.float32
    assert any_lda().fit(X).components_.dtype == np.float64


def test_any_csr_gives_the_same_model(any_lda, X):
    want = any_lda().fit(sp.csr_matrix(X)).components_
    tidy = sp.csr_matrix(X)
    # unsorted indices
    order = np.concatenate(
        [np.arange(a, b)[::-1] for a, b in zip(tidy.indptr[:-1], tidy.indptr[1:], strict=True)]
    )
    unsorted = sp.csr_matrix((tidy.data[order], tidy.indices[order], tidy.indptr), X.shape)
    # every count split in two
    doubled = sp.csr_matrix(
        (np.repeat(tidy.data / 2, 2), np.repeat(tidy.indices, 2), 2 * tidy.indptr), X.shape
    )
    wide = tidy.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    frozen = tidy.copy()
    for part in (frozen.data, frozen.indices, frozen.indptr):
        part.flags.writeable = False
    dense = X.copy()
    dense.flags.writeable = False
    for other in (
        unsorted,
        doubled,
        wide,
        frozen,
        sp.csr_array(tidy),
        tidy.tocsc(),
        dense,
        X.tolist(),
    ):
        np.testing.assert_array_equal(any_lda().fit(other).components_, want)
    assert not unsorted.has_sorted_indices and doubled.nnz == 2 * tidy.nnz


def test_explicit_zeros_do_not_matter(any_lda, X):
    tidy = sp.csr_matrix(X)
    full = sp.csr_matrix(np.ones_like(X))
    full.data = X.ravel().copy()
    a, b = any_lda(init="random").fit(tidy), any_lda(init="random").fit(full)
    np.testing.assert_allclose(a.components_, b.components_, rtol=1e-9)


def test_fractional_counts_scale_like_counts(X):
    weights = assert_works(quick(), X * 0.37)
    assert weights.shape == (40, 3)
    assert_works(quick(), X * 1e-5)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    X=st.tuples(st.integers(1, 12), st.integers(1, 9)).flatmap(
        lambda shape: arrays(
            np.float64,
            shape,
            elements=st.sampled_from([0.0, 0.0, 0.0, 1.0, 2.0, 0.25, 7.0, 1e5]),
        )
    ),
    K=st.integers(1, 7),
    L=st.one_of(st.none(), st.integers(1, 8)),
    method=st.sampled_from(["batch", "online", "memoized"]),
    init=st.sampled_from(["k-means++", "random"]),
    single=st.booleans(),
    restarts=st.integers(0, 3),
)
def test_anything_legal_fits(X, K, L, method, init, single, restarts):
    lda = SparseLDA(
        K,
        sparsity_level=L,
        learning_method=method,
        init=init,
        batch_size=3,
        n_batches=3,
        max_iter=2,
        restarts=restarts,
        random_state=0,
    )
    X = X.astype(np.float32 if single else np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        if not X.any():
            with pytest.raises(ValueError, match="no counts"):
                lda.fit(X)
            return
        weights = assert_works(lda, X)
    assert weights.dtype == X.dtype
    if method != "online":
        total = lda.components_.sum(dtype=np.float64)
        want = X.sum(dtype=np.float64) + 0.1 * lda.components_.size
        assert total == pytest.approx(want, rel=1e-4)
