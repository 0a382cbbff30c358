"""What an estimator says of a row has the same bytes whatever rows come with it."""

import numpy as np
import pytest
import scipy.sparse as sp

from sklearn_sparsepost import AliasLDA, GibbsCTM, SparseLDA, SparseMixture
from sklearn_sparsepost._run import chunks

N = 1100


@pytest.fixture(autouse=True)
def several_chunks(monkeypatch):
    monkeypatch.setattr(chunks, "DENSE_CHUNK_ROWS", 512)
    monkeypatch.setattr(chunks, "DENSE_CHUNK_SIZE", 512 * 16)
    monkeypatch.setattr(chunks, "CHUNK_SIZE", 4096)


def assert_rows_alone(method, X):
    whole = method(X)
    firsts = iter(range(0, N, 41))
    for n_rows in (1, 1, 1, 1, 2, 3, 5, 8, 13, 29, 40, 333):
        some = slice(first := next(firsts), first + n_rows)
        part = method(X[some])
        assert part.dtype == whole.dtype
        for one, other in zip(parts_of(part), parts_of(whole[some]), strict=True):
            np.testing.assert_array_equal(one, other)


def parts_of(found):
    return (found.indptr, found.indices, found.data) if sp.issparse(found) else (found,)


def rows_of(observation, n_components, n_features, dtype):
    rng = np.random.default_rng(n_features)
    centres = rng.normal(scale=2, size=(n_components, n_features))
    X = rng.normal(size=(N, n_features)) * np.logspace(0, -1, n_features)
    X += centres[rng.integers(n_components, size=N)]
    if observation == "bernoulli":
        X = X > 0
    if observation == "multinomial":
        return sp.csr_matrix(np.maximum(np.round(2 * X), 0).astype(dtype))
    return X.astype(dtype)


@pytest.mark.parametrize("n_components, n_features", [(1, 1), (5, 3), (33, 2), (40, 24)])
@pytest.mark.parametrize("level", [1, 4, None])
@pytest.mark.parametrize(
    "observation, covariance_type",
    [
        ("gaussian", "full"),
        ("gaussian", "diag"),
        ("gaussian", "spherical"),
        ("bernoulli", "full"),
        ("multinomial", "full"),
    ],
)
def test_mixtures(observation, covariance_type, level, n_components, n_features, dtype):
    X = rows_of(observation, n_components, n_features, dtype)
    mixture = SparseMixture(
        n_components,
        sparsity_level=level,
        observation=observation,
        covariance_type=covariance_type,
        max_iter=1,
        random_state=0,
    ).fit(X[:800])
    for method in (mixture.predict_proba, mixture.predict, mixture.score_samples):
        assert_rows_alone(method, X)
    assert_rows_alone(mixture.set_params(sparse_output=True).predict_proba, X)


@pytest.mark.parametrize("sparse_output", [False, True])
@pytest.mark.parametrize("level", [1, 4, None])
def test_sparse_lda(level, sparse_output, dtype):
    X = rows_of("multinomial", 10, 60, dtype)
    lda = SparseLDA(10, sparsity_level=level, max_iter=2, sparse_output=sparse_output)
    assert_rows_alone(lda.set_params(random_state=0).fit(X[:300]).transform, X)


@pytest.mark.parametrize("sparse_output", [False, True])
def test_alias_lda(sparse_output, dtype):
    X = rows_of("multinomial", 10, 60, dtype)
    lda = AliasLDA(10, max_iter=5, sparse_output=sparse_output, random_state=0).fit(X[:300])
    assert_rows_alone(lda.transform, X)


@pytest.mark.parametrize("covariance_type", ["full", "factor"])
def test_gibbs_ctm(covariance_type, dtype):
    X = rows_of("multinomial", 10, 60, dtype)
    options = {"covariance_type": covariance_type, "n_factors": 2, "max_iter": 2}
    ctm = GibbsCTM(10, random_state=0, **options).fit(X[:300])
    assert_rows_alone(ctm.transform, X)
    assert_rows_alone(ctm.set_params(sparse_output=True).transform, X)
