"""Draws of logits: their distributions, their stationary distribution, and what is around them."""

import signal

import numpy as np
import pytest
from scipy import stats
from scipy.special import softmax

from sklearn_sparsepost._kernels import _logit_documents
from sklearn_sparsepost._kernels import logits as _logits
from sklearn_sparsepost._models.logistic_normal import (
    FactorCovariance,
    FactorNormal,
    FullCovariance,
    FullNormal,
    LogitPrior,
)
from sklearn_sparsepost._run.threads import single_blas

LOGIT_SAMPLERS = list(_logits.SAMPLERS)


@pytest.fixture(autouse=True)
def one_thread():
    """Of BLAS, as wherever it is used: small matrices are no work for two."""
    with single_blas():
        yield


def draws_of(kind, n, *parameters, seed=0):
    rows = np.zeros((n, 3))
    rows[:, : len(parameters)] = parameters
    return _logits.draw_numbers(kind, rows, seed)


# ---------------------------------------------------------------------- numbers


@pytest.mark.parametrize(
    "kind, parameters, distribution",
    [
        ("exponential", (), stats.expon()),
        ("normal", (), stats.norm()),
        ("gamma", (0.3,), stats.gamma(0.3)),
        ("gamma", (40.0,), stats.gamma(40)),
        ("normal below", (1.0, 2.0, 30.0), stats.norm(1, 2)),
        ("normal below", (1.0, 2.0, 1.5), stats.truncnorm(-np.inf, 0.25, 1, 2)),
        ("normal below", (1.0, 2.0, -1.0), stats.truncnorm(-np.inf, -1, 1, 2)),
        ("normal below", (0.0, 1.0, -12.0), stats.truncnorm(-np.inf, -12, 0, 1)),
    ],
)
def test_distributions(kind, parameters, distribution):
    found = draws_of(kind, 40_000, *parameters)
    assert stats.kstest(found, distribution.cdf).pvalue > 1e-3


@pytest.mark.parametrize("normal, distribution", [(False, stats.uniform()), (True, stats.norm())])
def test_numbers_side_by_side(normal, distribution):
    """Of the right distribution, in the tails too, and independent of those beside and before."""
    found = _logits.draw_many_numbers(8_000, 3, normal=normal)
    assert stats.kstest(found.ravel(), distribution.cdf).pvalue > 1e-3
    for column in found.T[::5]:
        assert stats.kstest(column, distribution.cdf).pvalue > 1e-4
    for tail in (1e-3, 1 - 1e-3):
        share = (found < distribution.ppf(tail)).mean()
        assert abs(share - tail) < 4 * np.sqrt(1e-3 / found.size)
    for values in (found, (found - distribution.mean()) ** 2):  # squares of pairs, too
        between = np.corrcoef(np.hstack([values[1:], values[:-1]]).T) - np.eye(2 * found.shape[1])
        assert np.abs(between).max() < 5.5 / np.sqrt(len(found))


def test_uniform_numbers_are_above_zero_and_those_of_xoshiro():
    """Eight streams of Blackman & Vigna (2021), each begun at four words of a keyed stream."""
    words = np.random.Philox(key=[3, 0], counter=[0, 0, 0, 0]).random_raw(32).reshape(8, 4)
    found = _logits.draw_many_numbers(2, 3, normal=False).reshape(-1, 8)
    assert ((found > 0) & (found <= 1)).all()
    for column, state in zip(found.T, words.tolist(), strict=True):
        a, b, c, d = state
        for value in column:
            word = (a + d) % 2**64
            assert value == 1 - (word >> 12) / 2**52
            shifted = (b << 17) % 2**64
            c ^= a
            d ^= b
            b ^= c
            a ^= d
            c ^= shifted
            d = ((d << 45) | (d >> 19)) % 2**64


def test_a_bound_far_out_in_the_tail():
    gap = -1e6 - draws_of("normal below", 20_000, 0.0, 1.0, -1e6)
    assert (gap >= 0).all()
    assert stats.kstest(gap * 1e6, stats.expon.cdf).pvalue > 1e-3


def moments(shape, tilt):
    """Mean and variance of PG(shape, tilt), in more digits than doubles have."""
    c = np.longdouble(tilt)
    if c < 1e-2:
        return shape * (0.25 - c**2 / 48), shape * (1 / np.longdouble(24) - c**2 / 120)
    half = np.tanh(c / 2)
    return shape * half / (2 * c), shape * (half - c / 2 * (1 - half**2)) / (2 * c**3)


@pytest.mark.parametrize("tilt", [0.0, 1e-3, 0.19, 0.21, 1.0, -4.0, 30.0, 178.0, 1e3])
@pytest.mark.parametrize("shape", [1, 2, 5, 16, 17, 60, 1_000, 10_000])
def test_polya_gamma_moments(shape, tilt):
    n = 20_000
    found = draws_of("polya-gamma", n, shape, tilt)
    mean, variance = (float(value) for value in moments(shape, abs(tilt)))
    assert (found > 0).all()
    assert abs(found.mean() - mean) < 4.5 * np.sqrt(variance / n)
    away = (found - mean) ** 2
    assert abs(away.mean() - variance) < 4.5 * away.std() / np.sqrt(n)


def sums_of_gammas(shape, tilt, n, rng):
    """PG(shape, tilt) by its definition, an infinite sum, whose far terms are their mean."""
    k = np.arange(1, 201) - 0.5
    rate = k**2 + (tilt / (2 * np.pi)) ** 2
    near = (rng.standard_gamma(shape, size=(n, 200)) / rate).sum(axis=1) / (2 * np.pi**2)
    return near + moments(shape, tilt)[0].astype(float) - shape * (1 / rate).sum() / (2 * np.pi**2)


@pytest.mark.parametrize("shape, tilt", [(1, 0.0), (1, 2.5), (1, 12.0), (3, 1.0), (16, 0.5)])
def test_polya_gamma_is_exact_for_few_tokens(shape, tilt):
    want = sums_of_gammas(shape, np.longdouble(tilt), 20_000, np.random.default_rng(0))
    assert stats.ks_2samp(draws_of("polya-gamma", 20_000, shape, tilt), want).pvalue > 1e-3


@pytest.mark.parametrize("tilt, most", [(0.0, 0.006), (3.0, 0.006), (20.0, 0.006)])
def test_error_of_the_gamma_distribution(tilt, most):
    """Where it takes over: the largest difference of distribution functions."""
    n = 60_000
    exact = sum(draws_of("polya-gamma", n, 1, tilt, seed=i) for i in range(17))
    found = draws_of("polya-gamma", n, 17, tilt, seed=99)
    assert stats.ks_2samp(found, exact).statistic < most + 1.4 * np.sqrt(1 / n)


# ---------------------------------------------------------------------- logits given tokens


def normals(K, n_factors, seed=0):
    """A mean and a covariance, in either form."""
    rng = np.random.default_rng(seed)
    mean = rng.standard_normal(K)
    loadings = rng.standard_normal((K, n_factors))
    factor = FactorNormal(mean, loadings, rng.uniform(0.3, 1.5, size=K))
    return FullNormal(mean, factor.precision), factor


def chains(normal, counts, n, n_steps, sampler="auto", seed=0, start=None):
    """Logits of n documents with the same counts, by default from the mean on."""
    z = np.repeat(np.arange(len(counts)), counts)
    n_tokens = len(z)
    logits = np.tile(normal.mean, (n, 1)) if start is None else start
    logits = logits.astype(np.float32)
    found, factors = np.empty_like(logits), np.empty((n, len(normal.arrays[2])))
    _logits.sweep_documents(
        np.tile(z, n).astype(np.uint16),
        n_tokens * np.arange(n + 1),
        logits,
        normal.arrays,
        found,
        factors,
        seed,
        1,
        sampler=_logits.SAMPLERS[sampler],
        n_steps=n_steps,
    )
    return found.astype(float)


def posterior_by_importance(normal, counts, seed=1):
    """Means of logits, of their squares and of weights given counts: prior draws, weighed."""
    logits = normal.draw(200_000, np.random.default_rng(seed))
    theta = softmax(logits, axis=1)
    weight = np.exp((counts * np.log(theta)).sum(axis=1))
    weight /= weight.sum()
    features = np.column_stack([logits, logits**2, theta])
    mean = weight @ features
    error = np.sqrt(weight**2 @ (features - mean) ** 2)
    return mean, error


@pytest.mark.parametrize("form", ["full", "factor", "diag"])
@pytest.mark.parametrize("sampler", LOGIT_SAMPLERS)
@pytest.mark.parametrize("counts", [(3, 0, 1), (0, 0, 12), (1, 2, 0), (9, 11, 10)])
def test_samplers_against_importance_sampling(sampler, form, counts):
    counts = np.array(counts)
    full, factor = normals(3, 0 if form == "diag" else 1)
    n_steps = 400 if sampler == "slice" else 60  # alone it is slow where there are many tokens
    found = chains(full if form == "full" else factor, counts, 2_000, n_steps, sampler)
    found = np.column_stack([found, found**2, softmax(found, axis=1)])
    mean, error = posterior_by_importance(factor, counts)
    error = np.sqrt(error**2 + found.var(axis=0) / len(found))
    assert (np.abs(found.mean(axis=0) - mean) < 4.5 * error).all()


def test_slices_mix_where_polya_gamma_does_not():
    """Of a topic without tokens: what is left of the logits after five sweeps."""
    normal = FullNormal(np.zeros(4), np.eye(4) / 9)
    left = {}
    for sampler in LOGIT_SAMPLERS:
        counts = np.array([0, 20, 0, 0])
        before = chains(normal, counts, 4_000, 150, "auto")
        after = chains(normal, counts, 4_000, 5, sampler, seed=1, start=before)
        left[sampler] = np.corrcoef(before[:, 0], after[:, 0])[0, 1]
    assert max(left["slice"], left["auto"]) < 0.15 < 0.45 < left["polya-gamma"]


@pytest.mark.parametrize("form", ["full", "factor"])
def test_conditional_means_against_a_dense_solve(form):
    """Without tokens a step is normal about a mean that a dense solve finds, too."""
    K, n = 7, 3_000
    full, factor = normals(K, 2, seed=3)
    covariance = factor.covariance
    if form == "factor":  # components depend on each other through the factors alone
        found = chains(factor, np.zeros(K, int), n, 150)
        np.testing.assert_allclose(found.mean(axis=0), factor.mean, atol=0.2)
        np.testing.assert_allclose(np.cov(found.T), covariance, atol=0.5)
        return
    found = chains(full, np.zeros(K, int), n, 1)
    before = np.tile(full.mean.astype(np.float32), (n, 1)).astype(float)
    for k in range(K):
        others = np.arange(K) != k
        now = before.copy()
        now[:, :k] = found[:, :k]
        solved = np.linalg.solve(covariance[np.ix_(others, others)], covariance[others, k])
        mean = full.mean[k] + (now[:, others] - full.mean[others]) @ solved
        scale = np.sqrt(covariance[k, k] - covariance[k, others] @ solved)
        noise = (found[:, k] - mean) / scale
        assert stats.kstest(noise, stats.norm.cdf).pvalue > 1e-4
        assert abs(np.corrcoef(noise, found[:, k - 1])[0, 1]) < (0.08 if k else 1)


@pytest.mark.parametrize(
    "form, sampler", [("factor", "auto"), ("factor", "slice"), ("full", "auto")]
)
def test_more_components_than_are_drawn_for_at_a_time(form, sampler):
    """With and without tokens: means by importance sampling."""
    K = 37
    normal = FactorNormal(np.linspace(-1, 1, K), np.full((K, 1), 0.5), np.linspace(0.2, 1, K))
    counts = np.zeros(K, int)
    counts[[0, 3, 35]] = 1
    drawn = normal if form == "factor" else FullNormal(normal.mean, normal.precision)
    found = chains(drawn, counts, 4_000, 40, sampler)
    found = np.column_stack([found, found**2, softmax(found, axis=1)])
    mean, error = posterior_by_importance(normal, counts)
    error = np.sqrt(error**2 + found.var(axis=0) / len(found))
    assert (np.abs(found.mean(axis=0) - mean) < 4.5 * error).all()


@pytest.mark.parametrize("n_threads", [2, 3])
def test_same_bytes_for_any_number_of_threads(n_threads):
    normal = normals(20, 3)[1]
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 40, size=200)
    ptr = np.append(0, np.cumsum(lengths))
    z = rng.integers(20, size=ptr[-1]).astype(np.int32)
    found = []
    for n in (1, n_threads):
        logits, factors = np.zeros((200, 20), np.float32), np.empty((200, 3))
        new = np.empty_like(logits)
        arrays = normal.arrays
        _logits.sweep_documents(z, ptr, logits, arrays, new, factors, 5, 6, n_threads=n)
        found.append(new.tobytes() + factors.tobytes())
    assert found[0] == found[1]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs POSIX timers")
@pytest.mark.parametrize("n_steps", [1, 20])
def test_interrupts_are_heard_however_much_a_document_costs(n_steps):
    K, n = (1000, 600) if n_steps == 1 else (300, 300)
    normal = FullNormal(np.zeros(K), np.eye(K))
    logits, new = np.zeros((n, K), np.float32), np.full((n, K), np.nan, np.float32)
    z, ptr = np.zeros(n, np.uint16), np.arange(n + 1)
    before = signal.signal(signal.SIGVTALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.01)
    try:
        with pytest.raises(KeyboardInterrupt):
            factors = np.empty((n, 0))
            _logits.sweep_documents(
                z, ptr, logits, normal.arrays, new, factors, 5, 6, n_steps=n_steps
            )
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    assert np.isnan(new[-1]).all()


def test_extreme_logits_stay_finite():
    """Documents of one topic, priors that are wide and narrow, logits that are far apart."""
    K = 5
    for variance in (1e-4, 1.0, 1e6):
        for sampler in LOGIT_SAMPLERS:
            normal = FullNormal(np.linspace(-90, 90, K), np.eye(K) / variance)
            for counts in ([0, 0, 0, 0, 5000], [5000, 0, 0, 0, 0], [1, 0, 0, 0, 0], [0] * K):
                found = chains(normal, np.array(counts), 3, 30, sampler)
                assert np.isfinite(found).all()


def test_one_topic():
    normal = FullNormal(np.array([2.0]), np.array([[4.0]]))
    found = chains(normal, np.array([6]), 4_000, 1)
    assert stats.kstest(found[:, 0], stats.norm(2, 0.5).cdf).pvalue > 1e-3


# ---------------------------------------------------------------------- mean and covariance


def logits_of(n, K, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((n, K)) @ rng.standard_normal((K, K)) + 1).astype(np.float32)


def test_wishart_moments():
    K, n, n_draws = 3, 12, 4_000
    logits = logits_of(n, K)
    prior = LogitPrior(np.array([0.5, 0.0, -1.0]), 2.0, np.diag([1.0, 2.0, 3.0]) + 0.3, 4.0)
    rng = np.random.default_rng(0)
    structure, factors = FullCovariance(), np.empty((n, 0))
    sums = structure.sums(logits, factors, prior.mean)
    found = [structure.draw(sums, prior, rng) for _ in range(n_draws)]
    precision = np.array([normal.precision for normal in found])
    mean = np.array([normal.mean for normal in found])
    # By hand, Eq. 3.
    X = logits.astype(float)
    centre = X.mean(axis=0)
    scale = 4.0 * prior.covariance + (X - centre).T @ (X - centre)
    scale += 2.0 * n / (2.0 + n) * np.outer(centre - prior.mean, centre - prior.mean)
    freedom, inverse = 4.0 + K - 1 + n, np.linalg.inv(scale)
    variance = freedom * (inverse**2 + np.outer(np.diag(inverse), np.diag(inverse)))
    error = np.sqrt(variance / n_draws)
    assert (np.abs(precision.mean(axis=0) - freedom * inverse) < 4.5 * error).all()
    np.testing.assert_allclose(precision.var(axis=0), variance, rtol=0.15)
    np.testing.assert_allclose(
        mean.mean(axis=0), (2 * prior.mean + n * centre) / (2 + n), atol=4.5 * mean.std() / 60
    )
    want = scale / (freedom - K - 1) / (2 + n)
    np.testing.assert_allclose(np.cov(mean.T), want, rtol=0.15, atol=0.02 * want.max())
    first = structure.first(sums, prior)
    np.testing.assert_allclose(first.precision, freedom * inverse, rtol=1e-9)


@pytest.mark.parametrize("n_factors", [0, 2])
def test_moments_of_a_regression_on_factors(n_factors):
    K, n, n_draws = 4, 15, 4_000
    logits = logits_of(n, K)
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((n, n_factors))
    prior = LogitPrior(np.linspace(-1, 1, K), 2.0, np.linspace(0.5, 2, K), 3.0)
    structure = FactorCovariance(n_factors)
    sums = structure.sums(logits, factors, prior.mean)
    found = [structure.draw(sums, prior, rng) for _ in range(n_draws)]
    rows = np.array([np.column_stack([normal.loadings, normal.mean]) for normal in found])
    noise = np.array([normal.noise for normal in found])
    design = np.column_stack([factors, np.ones(n)])
    before = np.diag(np.append(np.ones(n_factors), 2.0))
    for k in range(K):
        centre = np.append(np.zeros(n_factors), prior.mean[k])
        inner = design.T @ design + before
        mode = np.linalg.solve(inner, design.T @ logits[:, k] + before @ centre)
        rest = ((logits[:, k] - design @ mode) ** 2).sum()
        rest += (mode - centre) @ before @ (mode - centre) + 3.0 * prior.covariance[k]
        want = rest / (n + 3.0 - 2)
        assert abs(noise[:, k].mean() - want) < 4.5 * noise[:, k].std() / np.sqrt(n_draws)
        error = rows[:, k].std(axis=0) / np.sqrt(n_draws)
        assert (np.abs(rows[:, k].mean(axis=0) - mode) < 4.5 * error).all()
        np.testing.assert_allclose(
            np.cov(rows[:, k].T), want * np.linalg.inv(inner), rtol=0.15, atol=0.02 * want
        )


def test_the_two_forms_agree():
    full, factor = normals(6, 2)
    np.testing.assert_allclose(full.covariance, factor.covariance, rtol=1e-9, atol=1e-12)
    logits = logits_of(5, 6)
    want = stats.multivariate_normal(factor.mean, factor.covariance).logpdf(logits)
    np.testing.assert_allclose(full.log_density(logits), want)
    np.testing.assert_allclose(factor.log_density(logits), want)
    for normal in (full, factor):
        drawn = normal.draw(20_000, np.random.default_rng(0))
        np.testing.assert_allclose(np.cov(drawn.T), factor.covariance, atol=0.15)


def test_nearest_factors():
    """Of a covariance that has such factors they are found; of another one they come near."""
    full, factor = normals(8, 2, seed=5)
    rng = np.random.default_rng(1)
    start = FactorNormal(
        factor.mean, factor.loadings + 0.3 * rng.standard_normal((8, 2)), np.ones(8)
    )
    structure = FactorCovariance(2)
    found = structure.of_means(factor.mean, factor.covariance, start)
    np.testing.assert_allclose(found.covariance, factor.covariance, atol=0.02)
    for n in (0, 3):
        made = FactorCovariance(n).first(
            FullCovariance().sums(logits_of(500, 8), None, np.zeros(8)),
            LogitPrior(np.zeros(8), 1.0, np.ones(8), 1.0),
        )
        assert made.loadings.shape == (8, n)
        assert (made.noise > 0).all()


# ---------------------------------------------------------------------- documents under topics


def weights_by_importance(normal, counts, topics, n=300_000):
    """Mean weights and log-probability of a document's words, by draws of the prior."""
    theta = softmax(normal.draw(n, np.random.default_rng(2)), axis=1)
    log_weight = np.log(theta @ topics) @ counts
    weight = np.exp(log_weight - log_weight.max())
    value = np.log(weight.mean()) + log_weight.max()
    error = weight.std() / weight.mean() / np.sqrt(n)
    return weight @ theta / weight.sum(), value, error


TOPICS = np.random.default_rng(0).dirichlet(np.full(6, 0.4), size=3)


@pytest.mark.parametrize("form", ["full", "factor"])
@pytest.mark.parametrize("counts", [[1, 0, 0, 0, 0, 0], [3, 0, 2, 0, 1, 4]])
def test_inferred_weights_against_importance_sampling(form, counts, dtype):
    full, factor = normals(3, 1)
    counts = np.array(counts, dtype=dtype)
    words = np.flatnonzero(counts).astype(np.int32)
    weights, mean_counts = _logit_documents.infer_documents(
        np.array([0, len(words)]),
        words,
        words,
        counts[words],
        np.ascontiguousarray(TOPICS.T.astype(dtype)),
        (full if form == "full" else factor).arrays,
        0,
        sampler=0,
        burn_in=50,
        n_samples=20_000,
    )
    want = weights_by_importance(factor, counts, TOPICS)[0]
    np.testing.assert_allclose(weights[0], want, atol=0.012)
    np.testing.assert_allclose(mean_counts.sum(), counts.sum(), rtol=1e-5)
    assert weights.dtype == dtype


@pytest.mark.parametrize("form", ["full", "factor"])
def test_left_to_right_against_importance_sampling(form):
    full, factor = normals(3, 1)
    counts = np.array([3, 0, 2, 0, 1, 4])
    words = np.flatnonzero(counts).astype(np.int32)
    n = 200
    found = _logit_documents.left_to_right(
        len(words) * np.arange(n + 1),
        np.tile(words, n),
        np.tile(counts[words], n).astype(float),
        np.ascontiguousarray(TOPICS.T),
        (full if form == "full" else factor).arrays_to_draw(),
        np.arange(n),
        0,
        0,
        sampler=0,
        n_particles=20,
    )
    _, value, error = weights_by_importance(factor, counts, TOPICS)
    ratio = np.exp(found - value)  # unbiased for the probability, not for its logarithm
    assert abs(ratio.mean() - 1) < 4.5 * np.hypot(ratio.std() / np.sqrt(n), error)


def test_many_tokens_share_draws():
    """A word of a million tokens costs no more than one of a hundred."""
    normal = normals(3, 1)[1]
    weights = _logit_documents.infer_documents(
        np.array([0, 1]),
        np.zeros(1, np.int32),
        np.zeros(1, np.int32),
        np.array([1e15]),
        np.array([[0.9, 0.05, 0.05]]),
        normal.arrays,
        0,
        sampler=0,
        burn_in=50,
        n_samples=200,
    )[0]
    assert np.isfinite(weights).all()
    assert weights[0].argmax() == 0
