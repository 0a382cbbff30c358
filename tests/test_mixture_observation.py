"""The observation models and the L-sparse local step against slow references and scikit-learn."""

import numpy as np
import pytest
import reference
import scipy.sparse as sp
from by_hand import upper_triangles
from scipy.special import gammaln, psi
from scipy.stats import multinomial
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture

from sklearn_sparsepost._learning.state import FitState
from sklearn_sparsepost._models.discrete import Bernoulli, Multinomial
from sklearn_sparsepost._models.gaussian import FullGaussian
from sklearn_sparsepost._models.gaussian_axes import AxisGaussian
from sklearn_sparsepost._models.mixture import Mixture, responsibilities
from sklearn_sparsepost._models.priors import compact_prior
from sklearn_sparsepost._models.weights import DirichletWeights, ProcessWeights
from sklearn_sparsepost._run.dispatch import Corpus

COVARIANCE_TYPES = ["full", "diag", "spherical"]
N, D, K = 150, 3, 4


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(size=(50, D)) * s + m for s, m in ((1, 0), (2, 6), (0.5, 3))])


@pytest.fixture(scope="module")
def resp():
    rng = np.random.default_rng(1)
    return rng.dirichlet(np.full(K, 0.5), size=N)


def gaussian(X, covariance_type, estimation, **options):
    """A model with the priors that scikit-learn takes by default."""
    covariance = np.cov(X.T)
    scale = {
        "full": covariance,
        "diag": np.diag(covariance),
        "spherical": np.diag(covariance).mean(),
    }[covariance_type]
    options = {
        "assume_centered": False,
        "mean_precision_prior": 1.0,
        "mean_prior": X.mean(axis=0),
        "degrees_of_freedom_prior": float(X.shape[1]),
        "covariance_prior": np.asarray(scale),
        "reg_covar": 1e-6,
        "origin": X.mean(axis=0),
        "covariance": np.asarray(scale),
        **options,
    }
    if covariance_type == "full":
        return FullGaussian(estimation, **options)
    return AxisGaussian(estimation, spherical=covariance_type == "spherical", **options)


def mixture(observation, prior=1 / K, level=None, process=False, dtype=np.float64, n=K):
    kind = ProcessWeights if process else DirichletWeights
    weights = kind(observation.estimation, prior)
    return Mixture(observation, weights, n, sparsity_level=level, dtype=dtype)


def statistics(model, X, resp, weight=None):
    index = np.broadcast_to(np.arange(resp.shape[1], dtype=np.int32), resp.shape)
    return model.stats_of(X, index, resp, weight)


def local_step(model, X, stats):
    """Statistics of the rows after a local step under globals that follow from statistics."""
    chunk = Corpus(X, model.dtype).chunk([(0, X.shape[0])])
    return model.local_step(chunk, model.globals_of(FitState(stats)))[0]


def dense(model, X, stats):
    """Responsibilities as a table."""
    globals_ = model.globals_of(FitState(stats))
    index, resp = responsibilities(model.observation.prepare(X), globals_)
    table = np.zeros((len(X), model.n_components))
    np.put_along_axis(table, index.astype(np.intp), resp, axis=1)
    return table


class MeanFieldMixture(BayesianGaussianMixture):
    """scikit-learn's, with the log-determinants of Gamma posteriors where it takes a Wishart's."""

    def _estimate_log_prob(self, X, xp=None):
        found = super()._estimate_log_prob(X)
        nu, D = self.degrees_of_freedom_, X.shape[1]
        if self.covariance_type == "full":
            return found
        wishart = psi(0.5 * (nu - np.arange(D)[:, None])).sum(axis=0) + D * np.log(2)
        shared = D if self.covariance_type == "spherical" else 1
        gamma = D * (psi(0.5 * shared * nu) - np.log(0.5 * shared))
        return found + 0.5 * (gamma - wishart)


def assert_close(found, wanted, **tolerance):
    np.testing.assert_allclose(found, wanted, **{"rtol": 1e-9, "atol": 1e-11, **tolerance})


@pytest.mark.parametrize("process", [False, True])
@pytest.mark.parametrize("covariance_type", COVARIANCE_TYPES)
def test_dense_bayes_is_scikit_learns_iteration_by_iteration(X, resp, covariance_type, process):
    kind = "dirichlet_process" if process else "dirichlet_distribution"
    peer = MeanFieldMixture(
        n_components=K, covariance_type=covariance_type, weight_concentration_prior_type=kind
    )
    peer._check_parameters(X)
    peer._initialize(X, resp)
    model = mixture(gaussian(X, covariance_type, "bayes"), process=process)
    stats = statistics(model, X, resp)
    for _ in range(8):
        estimates, concentration = model.estimate(stats)
        found = model.observation.attributes(estimates)
        shape = (K,) if covariance_type == "spherical" else found["covariances"].shape
        assert_close(found["means"], peer.means_)
        assert_close(found["covariances"].reshape(shape), peer.covariances_)
        assert_close(found["precisions_cholesky"].reshape(shape), peer.precisions_cholesky_)
        assert_close(found["degrees_of_freedom"], peer.degrees_of_freedom_)
        assert_close(found["mean_precision"], peer.mean_precision_)
        wanted = peer.weight_concentration_
        assert_close(concentration, np.stack(wanted, axis=1) if process else wanted)
        _, log_resp = peer._e_step(X)
        table = dense(model, X, stats)
        assert_close(table, np.exp(log_resp), rtol=1e-7)
        peer._m_step(X, log_resp)
        stats = statistics(model, X, table)


@pytest.mark.parametrize("covariance_type", COVARIANCE_TYPES)
def test_dense_ml_is_scikit_learns_iteration_by_iteration(X, resp, covariance_type):
    peer = GaussianMixture(n_components=K, covariance_type=covariance_type)
    peer._initialize(X, resp)
    model = mixture(gaussian(X, covariance_type, "ml"))
    stats = statistics(model, X, resp)
    for _ in range(8):
        estimates, concentration = model.estimate(stats)
        found = model.observation.attributes(estimates)
        assert_close(found["means"], peer.means_)
        assert_close(found["covariances"], peer.covariances_)
        assert_close(model.weights.weights(concentration), peer.weights_)
        lower, log_resp = peer._e_step(X)
        table = dense(model, X, stats)
        assert_close(table, np.exp(log_resp), rtol=1e-7)
        # After its E step EM's bound is the log-likelihood.
        stats_now = statistics(model, X, table)
        assert_close(model.bound(FitState(stats), stats_now) / N, lower)
        peer._m_step(X, log_resp)
        stats = stats_now


def test_full_bayes_is_the_slow_reference(X, resp):
    prior = (1.0, X.mean(axis=0), float(D), np.cov(X.T))
    model = mixture(gaussian(X, "full", "bayes", reg_covar=0.0))
    stats = statistics(model, X, resp)
    posterior = reference.normal_wishart(X, resp, prior)
    estimates, _ = model.estimate(stats)
    given = model.observation.attributes(estimates)
    for k, (beta, m, nu, scale) in enumerate(posterior):
        assert_close(given["mean_precision"][k], beta)
        assert_close(given["means"][k], m)
        assert_close(given["covariances"][k], scale / nu)
    table = model.observation.table(estimates, np.float64)
    found = model.observation.log_likelihood(model.observation.prepare(X), table)
    assert_close(found, reference.expected_log_normal(X, posterior))


@pytest.mark.parametrize("covariance_type", COVARIANCE_TYPES)
def test_bound_of_one_component_is_the_log_evidence(X, covariance_type):
    # Then the posterior is exact: chains of Student predictives say what it must be.
    X = X[::10]
    model = mixture(gaussian(X, covariance_type, "bayes", reg_covar=0.0), n=1)
    stats = statistics(model, X, np.ones((len(X), 1)))
    mean, beta, nu = X.mean(axis=0), 1.0, float(D)
    variance = np.var(X, axis=0, ddof=1)
    if covariance_type == "full":
        wanted = reference.log_marginal_normal(X, (beta, mean, nu, np.cov(X.T)))
    elif covariance_type == "diag":
        wanted = sum(
            reference.log_marginal_normal(X[:, [j]], (beta, mean[[j]], nu, variance[[[j]]]))
            for j in range(D)
        )
    else:
        wanted, m, b = 0.0, mean, D * variance.mean()
        for seen, x in enumerate(X):  # lambda ~ Gamma(nu D / 2, b / 2)
            df = D * (nu + seen)
            scale = b / df * (beta + seen + 1) / (beta + seen) * np.eye(D)
            wanted += reference.log_student(x, m, scale, df)
            b = b + (beta + seen) / (beta + seen + 1) * ((x - m) ** 2).sum()
            m = ((beta + seen) * m + x) / (beta + seen + 1)
    assert_close(model.bound(FitState(stats)), wanted)


@pytest.mark.parametrize("assume_centered", [False, True])
@pytest.mark.parametrize("covariance_type", COVARIANCE_TYPES)
@pytest.mark.parametrize("estimation", ["bayes", "map", "ml"])
def test_estimates_maximise_the_bound(X, resp, covariance_type, estimation, assume_centered):
    model = mixture(
        gaussian(X, covariance_type, estimation, reg_covar=0.0, assume_centered=assume_centered)
    )
    stats = statistics(model, X, resp)
    best = model.bound(FitState(stats))
    rng = np.random.default_rng(2)
    for noise in (0.3, 0.03):
        moved = statistics(model, X, resp + noise * rng.dirichlet(np.ones(K), size=N))
        assert model.bound(FitState(moved), stats) < best


def test_zero_mean_full_bayes_bound_is_the_log_evidence_of_one_component(X):
    X = X[::10]
    prior = np.diag([1.0, 2.0, 3.0])
    model = mixture(
        gaussian(X, "full", "bayes", reg_covar=0.0, assume_centered=True, covariance_prior=prior),
        n=1,
    )
    wanted, scale, nu = 0.0, prior, float(D)
    for x in X:
        df = nu - D + 1
        wanted += reference.log_student(x, np.zeros(D), scale / df, df)
        scale, nu = scale + np.outer(x, x), nu + 1
    assert_close(model.bound(FitState(statistics(model, X, np.ones((len(X), 1))))), wanted)


@pytest.mark.parametrize("level", [1, 2])
def test_bound_is_below_the_enumerated_evidence(level):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(6, 2)) + np.repeat([[0, 0], [5, 5]], 3, axis=0)
    observation = gaussian(X, "full", "bayes", reg_covar=0.0)
    model = mixture(observation, prior=0.7, level=level, n=2)
    stats = statistics(model, X, rng.dirichlet([1, 1], size=6))
    evidence = reference.log_mixture_evidence(
        X, np.full(2, 0.7), (1.0, X.mean(axis=0), 2.0, np.cov(X.T))
    )
    for _ in range(20):
        stats = local_step(model, X, stats)
        assert model.bound(FitState(stats)) < evidence
    # Two optima that swap the labels: the best q misses log 2 of it and little more.
    assert evidence - model.bound(FitState(stats)) < 4


@pytest.mark.parametrize("estimation", ["bayes", "map", "ml"])
def test_counts_and_bits_against_written_out_sums(estimation):
    rng = np.random.default_rng(4)
    X = rng.poisson(1.0, size=(30, 7)).astype(float)
    resp = rng.dirichlet(np.ones(K), size=30)
    prior = rng.uniform(0.5, 2, 7)
    model = mixture(Multinomial(estimation, compact_prior(prior), 7))
    stats = model.empty_stats().add(statistics(model, sp.csr_array(X), resp))
    concentration = (0 if estimation == "ml" else prior) + resp.T @ X
    estimates, _ = model.estimate(stats)
    assert_close(estimates["concentration"].to_array().T, concentration)
    assert_close(estimates["total"], concentration.sum(axis=1))
    assert_close(model.observation.attributes(estimates)["concentration"], concentration)
    total = concentration.sum(axis=1, keepdims=True)
    log_p = psi(concentration) - psi(total) if estimation == "bayes" else None
    log_p = np.log(concentration / total) if log_p is None else log_p
    table = model.observation.table(estimates, np.float64)
    assert_close(model.observation.log_likelihood(sp.csr_array(X), table), X @ log_p.T)
    wanted = [multinomial.logpmf(x, int(x.sum()), np.full(7, 1 / 7)) for x in X]
    base = model.observation.log_base(sp.csr_array(X))
    assert_close(base - X.sum(axis=1) * np.log(7), wanted)
    assert_close(model.observation.data_bound(stats, estimates), (resp * (X @ log_p.T)).sum())
    # Both terms at once, under their own estimates and under others.
    other = model.empty_stats().add(statistics(model, sp.csr_array(X), resp[::-1].copy()))
    for at in (estimates, model.estimate(other.scale(0.5))[0]):
        terms = model.observation.data_bound(stats, at) + model.observation.prior_bound(at)
        assert_close(model.observation.bound(stats, at), terms)

    B = (X > 1).astype(float)
    model = mixture(Bernoulli(estimation, np.stack([prior, prior], axis=1)))
    stats = statistics(model, B, resp)
    estimates, _ = model.estimate(stats)
    a, b = resp.T @ B, resp.T @ (1 - B)
    if estimation != "ml":
        a, b = a + prior, b + prior
    assert_close(estimates["concentration"], np.stack([a, b], axis=-1))
    ones, zeros = np.log(a / (a + b)), np.log(b / (a + b))
    if estimation == "bayes":
        ones, zeros = psi(a) - psi(a + b), psi(b) - psi(a + b)
    table = model.observation.table(estimates, np.float64)
    assert_close(model.observation.log_likelihood(B, table), B @ ones.T + (1 - B) @ zeros.T)


def test_bound_of_one_component_of_counts_and_bits_is_the_log_evidence():
    rng = np.random.default_rng(5)
    X = rng.poisson(1.0, size=(12, 5)).astype(float)
    prior = rng.uniform(0.5, 2, 5)
    model = mixture(Multinomial("bayes", compact_prior(prior), 5), n=1)
    stats = model.empty_stats().add(statistics(model, sp.csr_array(X), np.ones((12, 1))))
    counts = X.sum(axis=0)
    wanted = gammaln(prior.sum()) - gammaln(prior.sum() + counts.sum())
    wanted += (gammaln(prior + counts) - gammaln(prior)).sum()
    wanted += (gammaln(X.sum(axis=1) + 1) - gammaln(X + 1).sum(axis=1)).sum()
    assert_close(model.bound(FitState(stats)), wanted)
    B = (X > 0).astype(float)
    model = mixture(Bernoulli("bayes", np.stack([prior, 2 * prior], axis=1)), n=1)
    ones = B.sum(axis=0)
    wanted = gammaln(3 * prior) - gammaln(prior) - gammaln(2 * prior) - gammaln(3 * prior + 12)
    wanted += gammaln(prior + ones) + gammaln(2 * prior + 12 - ones)
    assert_close(model.bound(FitState(statistics(model, B, np.ones((12, 1))))), wanted.sum())


@pytest.mark.parametrize("level", [1, 2, 3, K])
def test_local_step_is_the_slow_reference(X, resp, level):
    model = mixture(gaussian(X, "full", "bayes"), level=level)
    stats = statistics(model, X, resp)
    globals_ = model.globals_of(FitState(stats))
    rows = model.observation.prepare(X)
    weight = model.observation.log_likelihood(rows, globals_.table) + globals_.log_weights
    wanted = reference.responsibilities(weight, level)
    assert_close(dense(model, X, stats), wanted)
    new = local_step(model, X, stats)
    assert_close(new["count"], wanted.sum(axis=0))
    assert_close(new["first"], wanted.T @ rows)
    assert_close(new["second"], upper_triangles(np.einsum("nk,ni,nj->kij", wanted, rows, rows)))
    held = wanted[wanted > 0]
    assert_close(new["entropy"], -(held * np.log(held)).sum())


@pytest.mark.parametrize("covariance_type", COVARIANCE_TYPES)
def test_weights_are_repetitions(X, resp, covariance_type):
    times = np.random.default_rng(6).integers(0, 4, N)
    model = mixture(gaussian(X, covariance_type, "bayes"))
    weighted = statistics(model, X, resp, times.astype(float))
    repeated = statistics(model, np.repeat(X, times, axis=0), np.repeat(resp, times, axis=0))
    for name in weighted.arrays:
        assert_close(weighted[name], repeated[name])
    assert_close(model.bound(FitState(weighted)), model.bound(FitState(repeated)))


def test_far_from_the_origin_nothing_is_lost(X, resp):
    far = X + 1e6
    near_model, far_model = (mixture(gaussian(Z, "full", "bayes")) for Z in (X, far))
    near, _ = near_model.estimate(statistics(near_model, X, resp))
    found, _ = far_model.estimate(statistics(far_model, far, resp))
    np.testing.assert_allclose(found["covariances"], near["covariances"], rtol=1e-6, atol=1e-8)


def test_singular_maximum_likelihood_is_an_error(X):
    model = mixture(gaussian(X, "full", "ml", reg_covar=0.0))
    resp = np.zeros((N, K))
    resp[np.arange(N), np.minimum(np.arange(N), K - 1)] = 1
    with pytest.raises(ValueError, match="not positive definite"):
        model.estimate(statistics(model, X, resp))
