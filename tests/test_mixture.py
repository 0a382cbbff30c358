"""SparseMixture as its users meet it."""

import copy
import pickle
import re
import warnings

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import psi
from scipy.stats import multinomial, multivariate_normal
from sklearn.base import clone
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture
from sklearn.model_selection import GridSearchCV

from sklearn_sparsepost import SparseMixture
from sklearn_sparsepost._models.discrete import Bernoulli
from sklearn_sparsepost._run import chunks, threads
from sklearn_sparsepost.callbacks import BoundMonitor, EarlyStopping, HeldoutMonitor
from sklearn_sparsepost.observations import Observation

METHODS = ["batch", "memoized", "online"]


@pytest.fixture(scope="module")
def blobs():
    """Five overlapping clouds, 400 rows."""
    rng = np.random.default_rng(0)
    return np.concatenate(
        [
            rng.normal(size=(80, 3)) @ rng.normal(size=(3, 3)) + rng.normal(scale=3, size=3)
            for _ in range(5)
        ]
    )[rng.permutation(400)]


DATA = {
    "gaussian": lambda X: X,
    "multinomial": lambda X: sp.csr_matrix(np.maximum(X * 2, 0).astype(int)),
    "bernoulli": lambda X: (X > 0).astype(float),
}


@pytest.mark.parametrize("observation", list(DATA))
@pytest.mark.parametrize("estimation", ["bayes", "map", "ml"])
@pytest.mark.parametrize("method", ["batch", "memoized"])
@pytest.mark.parametrize("level", [1, 2, 4, None])
def test_bound_never_falls(blobs, observation, estimation, method, level):
    for prior in ("dirichlet_distribution", "dirichlet_process"):
        mixture = SparseMixture(
            6,
            sparsity_level=level,
            observation=observation,
            estimation=estimation,
            weight_concentration_prior_type=prior,
            learning_method=method,
            reg_covar=0,
            max_iter=15,
            tol=0,
            random_state=1,  # of some seeds a start is singular
        ).fit(DATA[observation](blobs))
        history = mixture.bound_history_
        assert len(history) == 15
        assert np.diff(history).min() > -1e-10 * abs(history[-1])


GAUSSIANS = [("tied", False)]
GAUSSIANS += [(shape, zero) for shape in ("full", "diag", "spherical") for zero in (False, True)]


@pytest.mark.parametrize("covariance_type, assume_centered", GAUSSIANS)
@pytest.mark.parametrize("level", [1, 3])
def test_bound_never_falls_for_any_gaussian(blobs, covariance_type, assume_centered, level):
    mixture = SparseMixture(
        6,
        sparsity_level=level,
        covariance_type=covariance_type,
        assume_centered=assume_centered,
        reg_covar=0,
        max_iter=15,
        tol=0,
        random_state=0,
    ).fit(blobs)
    assert np.diff(mixture.bound_history_).min() > -1e-10 * abs(mixture.bound_history_[-1])


@pytest.mark.parametrize("covariance_type, assume_centered", GAUSSIANS)
def test_first_passes_judge_by_point_estimates(blobs, covariance_type, assume_centered):
    given = {"covariance_type": covariance_type, "assume_centered": assume_centered}
    mixture = SparseMixture(
        4, sparsity_level=None, learning_method="batch", tol=0, random_state=0, **given
    )
    before = clone(mixture).set_params(max_iter=1).fit(blobs)
    for n_passes in range(2, 6):
        after = clone(mixture).set_params(max_iter=n_passes).fit(blobs)
        joint = psi(before.weight_concentration_) + np.transpose(
            [
                multivariate_normal(mean, covariance).logpdf(blobs)
                for mean, covariance in zip(before.means_, matrices_of(before), strict=True)
            ]
        )
        if n_passes > 3:
            joint -= expected_gap(before.degrees_of_freedom_, covariance_type)
            joint -= 0 if assume_centered else 1.5 / before.mean_precision_
        resp = np.exp(joint - joint.max(axis=1, keepdims=True))
        resp /= resp.sum(axis=1, keepdims=True)
        concentration = before.weight_concentration_prior_ + resp.sum(axis=0)
        np.testing.assert_allclose(after.weight_concentration_, concentration, rtol=1e-9)
        before = after


def matrices_of(mixture):
    """The covariances of the components as matrices."""
    found = mixture.covariances_
    if mixture.covariance_type == "diag":
        return [np.diag(variances) for variances in found]
    if mixture.covariance_type == "tied":
        return [found] * len(mixture.means_)
    return found if mixture.covariance_type == "full" else found[:, None, None] * np.eye(3)


def expected_gap(freedom, covariance_type):
    """Half of log |E[Lambda]| - E[log |Lambda|] of three features."""
    if covariance_type in ("diag", "spherical"):
        half = np.asarray(freedom) / 2 * (1 if covariance_type == "diag" else 3)
        return 1.5 * (np.log(half) - psi(half))
    half = np.asarray(freedom)[..., None] / 2
    return 0.5 * (np.log(half) - psi(half - np.arange(3) / 2)).sum(axis=-1)


def test_no_fit_of_posteriors_ends_with_its_first_passes(blobs):
    wide = SparseMixture(3, tol=1e6, random_state=0)
    for other, n_iter in [
        ({}, 4),
        ({"estimation": "map"}, 2),
        ({"estimation": "ml"}, 2),
        ({"learning_method": "online"}, 2),
        ({"weight_concentration_prior_type": "dirichlet_process", "moves": False}, 4),
    ]:
        assert clone(wide).set_params(**other).fit(blobs).n_iter_ == n_iter
    moving = clone(wide).set_params(weight_concentration_prior_type="dirichlet_process")
    assert moving.fit(blobs)._patience == 0
    goes_on = wide.fit(blobs).set_params(warm_start=True)
    assert goes_on.fit(blobs).n_iter_ == 5


def test_dense_ml_is_scikit_learns_fit(blobs):
    start = blobs[:4]
    labels = ((blobs[:, None] - start) ** 2).sum(axis=2).argmin(axis=1)
    peer = GaussianMixture(n_components=4, tol=0, max_iter=20)
    peer._initialize(blobs, np.eye(4)[labels])
    for _ in range(20):
        peer._m_step(blobs, peer._e_step(blobs)[1])
    mixture = SparseMixture(
        4,
        sparsity_level=None,
        estimation="ml",
        learning_method="batch",
        means_init=start,
        tol=0,
        max_iter=20,
    ).fit(blobs)
    np.testing.assert_allclose(mixture.means_, peer.means_, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(mixture.covariances_, peer.covariances_, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(mixture.score_samples(blobs), peer.score_samples(blobs), rtol=1e-7)
    np.testing.assert_allclose(mixture.predict_proba(blobs), peer.predict_proba(blobs), atol=1e-7)
    np.testing.assert_array_equal(mixture.predict(blobs), peer.predict(blobs))


def bytes_of(mixture, X):
    parts = (mixture.means_, mixture.covariances_, mixture.bound_history_, mixture.predict_proba(X))
    return joblib.hash([part.tobytes() for part in parts])


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(chunks, "DENSE_CHUNK_SIZE", 4096)
    monkeypatch.setattr(chunks, "DENSE_CHUNK_ROWS", 256)
    monkeypatch.setattr(threads, "SLICE", 8)


WITH_NEIGHBORS = [*((method, None) for method in METHODS), ("batch", 4), ("memoized", 4)]


@pytest.mark.parametrize("method, n_neighbors", WITH_NEIGHBORS)
def test_same_bytes_for_any_number_of_workers(patches, method, n_neighbors, small_chunks):
    found = {
        bytes_of(
            SparseMixture(
                20,
                sparsity_level=3,
                n_neighbors=n_neighbors,
                learning_method=method,
                batch_size=500,
                n_batches=3,
                assume_centered=True,
                max_iter=3,
                n_jobs=n_jobs,
                random_state=0,
            ).fit(patches),
            patches,
        )
        for n_jobs in (1, 2, 3)
    }
    assert len(found) == 1


def test_same_bytes_in_processes(patches, small_chunks):
    mixture = SparseMixture(20, assume_centered=True, max_iter=2, n_batches=2, random_state=0)
    threads = bytes_of(clone(mixture).fit(patches), patches)
    with joblib.parallel_config("loky", n_jobs=2):
        assert bytes_of(clone(mixture).fit(patches), patches) == threads


@pytest.mark.parametrize("method, n_neighbors", WITH_NEIGHBORS)
def test_warm_start_goes_on_exactly(patches, method, n_neighbors):
    options = {
        "learning_method": method,
        "n_neighbors": n_neighbors,
        "assume_centered": True,
        "tol": 0,
        "random_state": 0,
        "batch_size": 1000,
    }
    whole = SparseMixture(20, max_iter=4, **options).fit(patches)
    parts = SparseMixture(20, max_iter=2, warm_start=True, **options).fit(patches).fit(patches)
    assert parts.n_iter_ == 4
    assert bytes_of(parts, patches) == bytes_of(whole, patches)


def test_warm_start_with_other_data_and_other_sizes(blobs):
    mixture = SparseMixture(3, max_iter=3, warm_start=True, random_state=0).fit(blobs)
    mixture.fit(blobs[:100])
    assert mixture.n_iter_ <= 6
    with pytest.raises(ValueError, match="n_components=4, but there are 3 fitted components"):
        mixture.set_params(n_components=4).fit(blobs)


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
def test_weights_are_repetitions(blobs, covariance_type):
    times = np.random.default_rng(2).integers(0, 4, len(blobs))
    mixture = SparseMixture(
        3,
        sparsity_level=2,
        covariance_type=covariance_type,
        learning_method="batch",
        means_init=blobs[:3],
        max_iter=10,
        tol=0,
    )
    weighted = clone(mixture).fit(blobs, sample_weight=times)
    repeated = clone(mixture).fit(np.repeat(blobs, times, axis=0))
    np.testing.assert_allclose(weighted.means_, repeated.means_, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(weighted.covariances_, repeated.covariances_, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(weighted.bound_history_, repeated.bound_history_, rtol=1e-10)
    score = weighted.score(blobs, sample_weight=times)
    np.testing.assert_allclose(score, repeated.score(np.repeat(blobs, times, axis=0)))


def test_float32_stays_float32_and_agrees_on_ill_conditioned_data(patches):
    options = {"assume_centered": True, "learning_method": "batch", "tol": 0, "max_iter": 5}
    start = patches[:20]
    double = SparseMixture(20, means_init=start, **options).fit(patches)
    single = SparseMixture(20, means_init=start, **options).fit(patches.astype(np.float32))
    for name in ("means_", "covariances_", "precisions_cholesky_", "weights_"):
        assert getattr(single, name).dtype == np.float32
        assert getattr(double, name).dtype == np.float64
    assert single.predict_proba(patches.astype(np.float32)).dtype == np.float32
    widest = abs(double.covariances_).max(axis=(1, 2), keepdims=True)
    assert (abs(single.covariances_ - double.covariances_) / widest).max() < 1e-4
    scores = single.score_samples(patches.astype(np.float32)) - double.score_samples(patches)
    assert abs(scores).max() < 0.02  # nats, of about 60
    assert (single.predict(patches.astype(np.float32)) == double.predict(patches)).mean() > 0.999


@pytest.mark.parametrize(
    "params",
    [
        {"covariance_type": "diag"},
        {"observation": "bernoulli"},
        {"learning_method": "online"},
    ],
)
def test_neighbours_where_there_are_none(params):
    X = np.eye(6)
    with pytest.raises(ValueError, match="n_neighbors=2 is for"):
        SparseMixture(2, n_neighbors=2, **params).fit(X)


def test_online_and_partial_fit_learn(blobs):
    for mixture in (
        SparseMixture(5, learning_method="online", batch_size=50, random_state=0).fit(blobs),
        SparseMixture(5, total_samples=400, random_state=0),
    ):
        for _ in range(6):
            for first in range(0, 400, 100):
                mixture.partial_fit(blobs[first : first + 100])
        assert mixture.n_batch_iter_ >= 12
        dense = SparseMixture(5, sparsity_level=None, random_state=0).fit(blobs)
        assert mixture.score(blobs) > dense.score(blobs) - 0.5


def test_several_starts_keep_the_best(blobs):
    mixture = SparseMixture(6, max_iter=20, random_state=0)
    single = [clone(mixture).set_params(random_state=seed).fit(blobs) for seed in range(3)]
    best = clone(mixture).set_params(n_init=8).fit(blobs)
    assert best.lower_bound_ == best.bound_history_[-1] == best.bound_history_.max()
    assert best.lower_bound_ >= min(one.lower_bound_ for one in single)
    assert best.lower_bound_ >= clone(mixture).fit(blobs).lower_bound_ - 1e-9


def test_memory_mapped_and_read_only_data(blobs, tmp_path):
    np.save(tmp_path / "X.npy", blobs)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    mixture = SparseMixture(3, random_state=0)
    one, other = clone(mixture).fit(mapped), clone(mixture).fit(blobs)
    np.testing.assert_array_equal(one.covariances_, other.covariances_)


def test_sparse_output(blobs):
    mixture = SparseMixture(5, sparsity_level=2, random_state=0).fit(blobs)
    dense = mixture.predict_proba(blobs)
    sparse = mixture.set_params(sparse_output=True).predict_proba(blobs)
    assert sparse.nnz == 2 * len(blobs)
    np.testing.assert_array_equal(sparse.toarray(), dense)
    np.testing.assert_allclose(dense.sum(axis=1), 1)
    assert ((dense > 0).sum(axis=1) <= 2).all()


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
def test_samples_have_the_mixtures_moments(blobs, covariance_type):
    mixture = SparseMixture(3, covariance_type=covariance_type, random_state=0).fit(blobs)
    X, labels = mixture.sample(60_000, random_state=0)
    assert X.shape == (60_000, 3)
    share = np.bincount(labels, minlength=3) / len(X)
    np.testing.assert_allclose(share, mixture.weights_, atol=0.01)
    for k in range(3):
        drawn = X[labels == k]
        np.testing.assert_allclose(drawn.mean(axis=0), mixture.means_[k], atol=0.15)
        covariance = mixture.covariances_ if covariance_type == "tied" else mixture.covariances_[k]
        if covariance_type in ("diag", "spherical"):
            covariance = np.diag(np.broadcast_to(covariance, 3))
        scale = np.abs(covariance).max()
        np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=0.06 * scale)


def test_density_integrates_to_one():
    X = np.random.default_rng(4).normal(size=(60, 1)) * 2
    mixture = SparseMixture(2, random_state=0).fit(X)
    # Evenly in asinh x, since the tails are those of few degrees of freedom.
    u = np.linspace(-20, 20, 200_001)
    density = np.exp(mixture.score_samples(np.sinh(u)[:, None]))
    assert abs((density * np.cosh(u)).sum() * (u[1] - u[0]) - 1) < 1e-6


def test_callbacks_and_pickles(blobs):
    monitor, heldout = BoundMonitor(), HeldoutMonitor(blobs[300:])
    mixture = SparseMixture(3, max_iter=5, tol=0, random_state=0)
    mixture.set_callbacks(monitor, heldout).fit(blobs[:300])
    rows = monitor.get_logs()
    assert [row["bound"] for row in rows] == list(mixture.bound_history_)
    assert rows[-1]["bound_per_token"] == mixture.lower_bound_ / 300
    assert heldout.get_logs()[-1]["score"] == mixture.score(blobs[300:])
    again = pickle.loads(pickle.dumps(clone(mixture).fit(blobs)))
    np.testing.assert_array_equal(again.predict(blobs), clone(mixture).fit(blobs).predict(blobs))


def test_early_stopping_restores_the_best(blobs):
    stopping = EarlyStopping(blobs[200:], patience=2)
    mixture = SparseMixture(30, estimation="ml", reg_covar=1e-3, tol=0, random_state=0)
    mixture.set_callbacks(stopping).fit(blobs[:200])
    scores = [row["score"] for row in stopping.get_logs()]
    np.testing.assert_allclose(mixture.score(blobs[200:]), max(scores), rtol=1e-12)


def test_grid_search_over_sparsity_and_components(blobs):
    grid = {"n_components": [1, 5], "sparsity_level": [1, 4]}
    search = GridSearchCV(SparseMixture(random_state=0, max_iter=20), grid, cv=3).fit(blobs)
    assert search.best_params_["n_components"] == 5


# ---------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sparsity_level": 0}, "sparsity_level"),
        ({"n_components": 0}, "n_components"),
        ({"covariance_prior": -np.eye(3)}, "positive definite"),
        ({"covariance_prior": np.eye(2)}, "covariance_prior has shape"),
        ({"covariance_prior": np.ones((3, 3)), "covariance_type": "diag"}, "covariance_prior"),
        ({"degrees_of_freedom_prior": 1.0}, "degrees_of_freedom_prior"),
        ({"mean_prior": [1.0]}, "mean_prior"),
        ({"means_init": np.zeros((2, 3)), "n_components": 3}, "means_init has shape"),
        ({"observation": "bernoulli"}, "0 and 1 only"),
        ({"observation": "multinomial"}, "Negative"),
        ({"observation": "poisson"}, "observation"),
    ],
)
def test_bad_parameters_say_so(blobs, options, message):
    with pytest.raises(ValueError, match=message):
        SparseMixture(**options).fit(blobs)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_must_be_finite(blobs, value):
    X = blobs.copy()
    X[3, 1] = value
    with pytest.raises(ValueError, match="NaN|infinity"):
        SparseMixture().fit(X)


def test_weights_must_not_be_negative(blobs):
    with pytest.raises(ValueError, match="[Nn]egative"):
        SparseMixture().fit(blobs, sample_weight=-np.ones(len(blobs)))


def test_features_must_be_the_same_at_predict(blobs):
    mixture = SparseMixture().fit(blobs)
    with pytest.raises(ValueError, match="features"):
        mixture.predict(blobs[:, :2])


def test_constant_features_are_regularised_with_a_warning(blobs):
    X = np.column_stack([blobs, np.full(len(blobs), 7.0)])
    for estimation in ("bayes", "ml"):
        with pytest.warns(UserWarning, match="constant"):
            mixture = SparseMixture(3, estimation=estimation, random_state=0).fit(X)
        assert np.isfinite(mixture.score(X))


@pytest.mark.parametrize("estimation", ["bayes", "map", "ml"])
@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
def test_odd_but_legal_data(estimation, covariance_type):
    rng = np.random.default_rng(6)
    cases = {
        "duplicates": np.repeat(rng.normal(size=(4, 2)), 20, axis=0),
        "few rows": rng.normal(size=(3, 2)),
        "one row": np.ones((1, 2)),
        "one feature": rng.normal(size=(50, 1)),
    }
    for X in cases.values():
        for K in (1, 5):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                mixture = SparseMixture(
                    K,
                    sparsity_level=2,
                    estimation=estimation,
                    covariance_type=covariance_type,
                    max_iter=5,
                    random_state=0,
                ).fit(X)
            assert np.isfinite(mixture.score(X))
            assert mixture.predict(X).shape == (len(X),)


def test_more_components_than_rows_is_a_warning(blobs):
    with pytest.warns(UserWarning, match="n_components=10 is more than the 5 samples"):
        SparseMixture(10, random_state=0).fit(blobs[:5])


def test_warm_start_with_another_sparsity_level(patches):
    options = {"assume_centered": True, "learning_method": "batch", "max_iter": 2, "tol": 0}
    mixture = SparseMixture(40, sparsity_level=1, warm_start=True, random_state=0, **options)
    mixture.fit(patches)
    mixture.set_params(sparsity_level=4).fit(patches)
    assert (mixture.predict_proba(patches) > 0).sum(axis=1).max() == 4
    assert mixture._fit_state.local[0][0].index.shape[1] == 4
    assert np.diff(mixture.bound_history_).min() > 0


def test_dense_fit_keeps_no_candidates(patches):
    mixture = SparseMixture(40, sparsity_level=None, warm_start=True, max_iter=1).fit(patches)
    assert mixture._fit_state.local[0][0] is None


@pytest.mark.parametrize("total", [1.0, 1 + 1e-15, 0.01])
def test_weights_of_any_sum(blobs, total):
    weight = np.random.default_rng(0).random(len(blobs))
    weight *= total / weight.sum()
    mixture = SparseMixture(5, random_state=0).fit(blobs, sample_weight=weight)
    assert np.abs(mixture.covariances_).max() < 100 * np.cov(blobs.T).max()
    assert 1 <= mixture.n_components_ <= 5


@pytest.mark.parametrize("observation", ["gaussian", "multinomial", "bernoulli"])
def test_weights_that_say_nothing(observation):
    X = np.eye(6)
    mixture = SparseMixture(2, observation=observation)
    with pytest.raises(ValueError, match="at least one non-zero"):
        mixture.fit(X, sample_weight=np.zeros(6))
    mixture.fit(X)
    with pytest.raises(ValueError, match="[Nn]egative"):
        mixture.score(X, sample_weight=[-1, 1, 1, 1, 1, 1])


def test_bound_rises_under_a_tiny_prior_of_bits():
    X = (np.random.default_rng(0).random((200, 8)) < 0.3).astype(float)
    mixture = SparseMixture(
        6, observation="bernoulli", feature_prior=0.01, tol=0, max_iter=20, random_state=0
    ).fit(X)
    assert np.diff(mixture.bound_history_).min() > -1e-9 * abs(mixture.lower_bound_)


def test_constant_features_that_rounding_hides():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(1000, 2)), np.full(1000, 0.1)])
    with pytest.warns(UserWarning, match="constant"):
        SparseMixture(2).fit(X)


@pytest.mark.parametrize("returned", [None, Observation, 3.0])
def test_a_callable_that_returns_no_observation(blobs, returned):
    wanted = (
        f"observation=<function .* must return an instance of .*, got {re.escape(repr(returned))}"
    )
    for fit in (SparseMixture.fit, SparseMixture.partial_fit):
        with pytest.raises(ValueError, match=wanted):
            fit(SparseMixture(2, observation=lambda *_: returned), blobs)


def new_bits(*_):
    return Bernoulli("bayes", np.ones((3, 2)))


def other_bits(*_):
    return new_bits()


def test_the_observation_of_a_fitted_model_cannot_change(blobs):
    X = DATA["bernoulli"](blobs)
    for before, after in (
        ("bernoulli", "gaussian"),
        ("bernoulli", "multinomial"),
        ("gaussian", "bernoulli"),
        ("gaussian", "multinomial"),
        ("gaussian", new_bits),
        (new_bits, "multinomial"),
        (new_bits, lambda *_: Observation()),
    ):
        Y = blobs if before == "gaussian" else X
        mixture = SparseMixture(3, observation=before, warm_start=True, max_iter=2).fit(Y)
        wanted = mixture.predict_proba(Y), mixture.score_samples(Y)
        mixture.set_params(observation=after)
        np.testing.assert_array_equal(mixture.predict_proba(Y), wanted[0])
        np.testing.assert_array_equal(mixture.score_samples(Y), wanted[1])
        for go_on in (mixture.fit, mixture.partial_fit):
            with pytest.raises(ValueError, match="^observation=.* was fitted with.* cannot change"):
                go_on(Y)


def test_callables_of_one_model_go_on(blobs):
    X = DATA["bernoulli"](blobs)
    mixture = SparseMixture(3, observation=new_bits, warm_start=True, max_iter=2, random_state=0)
    mixture = pickle.loads(pickle.dumps(mixture.fit(X)))
    wanted = clone(mixture).fit(X).fit(X)
    for observation in (new_bits, other_bits, lambda *_: new_bits()):
        again = copy.deepcopy(mixture).set_params(observation=observation).fit(X)
        np.testing.assert_array_equal(again.means_, wanted.means_)
        again.partial_fit(X)


@pytest.mark.parametrize("estimation", ["bayes", "map", "ml"])
def test_what_helps_against_singular_covariances(estimation):
    X = np.repeat(np.random.default_rng(0).normal(scale=1e6, size=(4, 3)), 50, axis=0)
    options = {"reg_covar": 0, "covariance_prior": 1e-200 * np.eye(3), "random_state": 0}
    ways = "raise reg_covar or covariance_prior$"
    if estimation == "ml":
        ways = "raise reg_covar, .* or use a prior"
    with pytest.raises(ValueError, match=ways):
        SparseMixture(4, estimation=estimation, **options).fit(X)


def test_a_prior_from_dependent_features(patches):
    X = patches - patches.mean(axis=1, keepdims=True)
    with pytest.raises(ValueError, match="raise reg_covar or give covariance_prior"):
        SparseMixture(2, reg_covar=0).fit(X)
    SparseMixture(2, max_iter=2).fit(X)


@pytest.mark.parametrize("covariance_type", ["diag", "spherical"])
def test_narrow_clouds_in_single_precision(covariance_type):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(c, 1e-3, (500, 4)) for c in (-10, 10)]).astype(np.float32)
    mixture = SparseMixture(2, covariance_type=covariance_type, max_iter=5, random_state=0)
    single = mixture.fit(X).score_samples(X)
    double = clone(mixture).fit(X.astype(np.float64)).score_samples(X.astype(np.float64))
    np.testing.assert_allclose(single, double, atol=0.1)


def test_large_counts_keep_their_digits():
    X = np.array([[1_000_000, 3], [999_999, 5]])
    mixture = SparseMixture(1, observation="multinomial").fit(X)
    p = mixture.means_[0].astype(float)
    wanted = multinomial.logpmf(X, X.sum(axis=1), p / p.sum())
    np.testing.assert_allclose(mixture.score_samples(X), wanted, atol=0.2)


def test_what_a_warm_start_may_not_change(blobs):
    mixture = SparseMixture(3, warm_start=True, random_state=0).fit(blobs)
    for name, value in (("estimation", "ml"), ("covariance_type", "diag")):
        before = getattr(mixture, name)
        with pytest.raises(ValueError, match=f"{name}='{value}', but .* {name}='{before}'"):
            mixture.set_params(**{name: value}).fit(blobs)
        mixture.set_params(**{name: before})
    wanted = mixture.predict_proba(blobs)
    # What was fitted is what predicts.
    np.testing.assert_array_equal(mixture.set_params(estimation="ml").predict_proba(blobs), wanted)


@pytest.mark.parametrize(
    "init_params", ["agglomerative", "k-means++", "kmeans", "random_from_data", "random"]
)
def test_starts(blobs, init_params):
    mixture = SparseMixture(5, init_params=init_params, random_state=0).fit(blobs)
    again = clone(mixture).fit(blobs)
    np.testing.assert_array_equal(mixture.means_, again.means_)
    assert mixture.score(blobs) > SparseMixture(1).fit(blobs).score(blobs)


def test_counts_have_a_start_of_their_own():
    X = np.eye(6)
    with pytest.raises(ValueError, match="init_params='kmeans' is for dense observations"):
        SparseMixture(2, observation="multinomial", init_params="kmeans").fit(X)
    weight = np.array([0, 1, 1, 0, 1, 1])
    mixture = SparseMixture(2, observation="multinomial", learning_method="batch", random_state=0)
    some = mixture.fit(X[weight > 0]).bound_history_
    np.testing.assert_allclose(mixture.fit(X, sample_weight=weight).bound_history_, some)


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
def test_priors_are_told_and_fit_the_same(blobs, covariance_type):
    mixture = SparseMixture(3, covariance_type=covariance_type, max_iter=5, random_state=0)
    mixture.fit(blobs)
    peer = BayesianGaussianMixture(
        n_components=3,
        covariance_type=covariance_type,
        weight_concentration_prior_type="dirichlet_distribution",
    ).fit(blobs)
    names = ["weight_concentration_prior", "mean_precision_prior", "mean_prior"]
    names += ["degrees_of_freedom_prior", "covariance_prior"]
    told = {name: getattr(mixture, f"{name}_") for name in names}
    for name, value in told.items():
        wanted = getattr(peer, f"{name}_")
        if name == "covariance_prior" and covariance_type == "full":
            wanted = wanted / 3  # of all components together that of the data
        np.testing.assert_allclose(value, wanted, rtol=1e-9, err_msg=name)
    process = clone(mixture).set_params(weight_concentration_prior_type="dirichlet_process")
    wanted = peer.covariance_prior_
    np.testing.assert_allclose(process.fit(blobs).covariance_prior_, wanted, rtol=1e-9)
    given = clone(mixture).set_params(**told).fit(blobs)
    np.testing.assert_allclose(given.bound_history_, mixture.bound_history_, rtol=1e-9)
    inverse = np.linalg.inv if covariance_type in ("full", "tied") else np.reciprocal
    np.testing.assert_allclose(mixture.precisions_, inverse(mixture.covariances_), rtol=1e-7)


def test_nothing_to_sample(blobs):
    mixture = SparseMixture(2).fit(blobs.astype(np.float32))
    with pytest.raises(ValueError, match="n_samples must be an integer of at least 1"):
        mixture.sample(0)
    assert mixture.sample(3)[0].dtype == np.float32


@pytest.mark.parametrize("method", METHODS)
def test_going_on_from_what_early_stopping_restored(blobs, method):
    mixture = SparseMixture(5, learning_method=method, tol=0, max_iter=30, random_state=0)
    mixture.set_callbacks(EarlyStopping(blobs[:50], patience=1)).fit(blobs)
    vars(mixture).pop("_fit_state", None)  # as it is if the best pass was not the last one
    mixture.set_callbacks().set_params(warm_start=True, max_iter=3)
    score, n_iter = mixture.score(blobs), mixture.n_iter_
    assert mixture.fit(blobs).n_iter_ == n_iter + 3
    assert mixture.score(blobs) > score - 0.02
    vars(mixture).pop("_fit_state")
    before = mixture.means_.copy()
    mixture.partial_fit(blobs)
    assert np.abs(mixture.means_ - before).max() < 1
