"""Sticks of the HDP: the surrogate bound and its maximum (Hughes et al. 2015)."""

import numpy as np
import pytest
from scipy.optimize import check_grad
from scipy.special import gammaln, psi

from sklearn_sparsepost._models.sticks import StickBound, StickDocuments, stick_weights, sticks_of

ALPHA, GAMMA = 0.5, 10.0


def test_weights_and_sticks_are_each_others_inverse():
    weights = np.random.default_rng(0).dirichlet(np.ones(8))
    rho = sticks_of(weights)
    np.testing.assert_allclose(stick_weights(rho), weights, rtol=1e-12)
    left = 1.0
    for share, weight in zip(rho, weights[:-1], strict=True):
        np.testing.assert_allclose(share * left, weight)
        left *= 1 - share


@pytest.mark.parametrize("alpha", [1e-3, 0.5, 1.0, 7.0, 100.0])
def test_surrogate_is_below_the_cumulant(alpha):
    """Eq. 12, for random sticks."""
    rng = np.random.default_rng(1)
    for K in (1, 2, 5, 20):
        u = rng.beta(1, rng.uniform(0.2, 10), size=(200, K))
        beta = np.array([stick_weights(row) for row in u])
        exact = gammaln(alpha) - gammaln(alpha * beta).sum(axis=1)
        after = np.arange(K, 0, -1)
        surrogate = K * np.log(alpha) + np.log(u).sum(axis=1) + np.log1p(-u) @ after
        assert (surrogate <= exact + 1e-9 * abs(exact)).all()


def test_value_against_draws():
    """E[surrogate] + E[log p(u) - log q(u)] by Monte Carlo, and below that of the cumulant."""
    rng = np.random.default_rng(2)
    K, D = 3, 5.0
    rho, omega = np.array([0.5, 0.4, 0.3]), np.array([30.0, 20.0, 10.0])
    one, two = rho * omega, (1 - rho) * omega
    u = rng.beta(one, two, size=(100_000, K))
    log_q = ((one - 1) * np.log(u) + (two - 1) * np.log1p(-u)).sum(axis=1)
    log_q -= (gammaln(one) + gammaln(two) - gammaln(omega)).sum()
    log_p = K * np.log(GAMMA) + ((GAMMA - 1) * np.log1p(-u)).sum(axis=1)
    surrogate = K * np.log(ALPHA) + np.log(u).sum(axis=1) + np.log1p(-u) @ np.arange(K, 0, -1)
    left = np.cumprod(1 - u, axis=1)
    beta = np.hstack([u[:, :1], u[:, 1:] * left[:, :-1], left[:, -1:]])
    cumulant = gammaln(ALPHA) - gammaln(ALPHA * beta).sum(axis=1)
    mean = ALPHA * stick_weights(rho)
    documents = D * (gammaln(mean).sum() - gammaln(ALPHA))
    value = StickBound(D, ALPHA, GAMMA).value(rho, omega)
    draws = D * surrogate + log_p - log_q
    error = draws.std() / np.sqrt(len(draws))
    assert abs(value - documents - draws.mean()) < 4 * error
    assert value - documents < (D * cumulant + log_p - log_q).mean()


def test_derivatives_of_the_surrogate():
    rng = np.random.default_rng(3)
    bound = StickBound(40.0, ALPHA, GAMMA)
    for K in (1, 4):
        at = np.concatenate([rng.uniform(0.1, 0.8, K), rng.uniform(5, 200, K)])

        def value(x, K=K):
            return bound._surrogate(x[:K], 1 - x[:K], x[K:])[0]

        def slope(x, K=K):
            return np.concatenate(bound._surrogate(x[:K], 1 - x[:K], x[K:])[1:])

        assert check_grad(value, slope, at) < 1e-3 * np.abs(slope(at)).max()


@pytest.fixture
def masses():
    """Topic counts of documents that use few topics each, the largest topic first."""
    rng = np.random.default_rng(4)
    mass = np.zeros((300, 12))
    for row in mass:
        topics = rng.choice(12, 3, p=0.5 ** np.arange(12) / (0.5 ** np.arange(12)).sum())
        row[topics] = rng.integers(1, 40, 3)
    return mass[:, np.argsort(-mass.sum(axis=0))]


def whole(bound, mass, rho, omega):
    alpha = ALPHA * stick_weights(rho)[:-1]
    return (gammaln(alpha + mass) - gammaln(alpha)).sum() + bound.value(rho, omega)


def test_best_sticks_gain_what_is_promised_and_converge_at_once(masses):
    bound = StickBound(300.0, ALPHA, GAMMA)
    rho, omega = sticks_of(np.full(13, 1 / 13)), bound.first_omega(12)
    values = [whole(bound, masses, rho, omega)]
    for _ in range(4):
        alpha = ALPHA * stick_weights(rho)[:-1]
        use = (alpha * (psi(alpha + masses) - psi(alpha))).sum(axis=0)
        rho, omega, gain = bound.best(rho, omega, use)
        values.append(whole(bound, masses, rho, omega))
        assert gain >= 0
        assert values[-1] - values[-2] >= gain - 1e-6
    rises = np.diff(values)
    assert rises[0] > 100
    assert rises[2] < 1e-2 * rises[0]
    # No direction leads up from there.
    rng = np.random.default_rng(5)
    for _ in range(20):
        other = np.clip(rho * np.exp(0.01 * rng.standard_normal(12)), 1e-9, 1 - 1e-9)
        moved = omega * np.exp(0.05 * rng.standard_normal(12))
        assert whole(bound, masses, other, moved) < values[-1]


def test_an_empty_topic_costs_and_order_matters(masses):
    bound = StickBound(300.0, ALPHA, GAMMA)

    def fitted(mass):
        K = mass.shape[1]
        rho, omega = sticks_of(np.full(K + 1, 1 / (K + 1))), bound.first_omega(K)
        for _ in range(6):
            alpha = ALPHA * stick_weights(rho)[:-1]
            use = (alpha * (psi(alpha + mass) - psi(alpha))).sum(axis=0)
            rho, omega, _ = bound.best(rho, omega, use)
        return whole(bound, mass, rho, omega)

    value = fitted(masses)
    empty = fitted(np.hstack([masses, np.zeros((300, 1))]))
    two = fitted(np.hstack([masses, np.zeros((300, 2))]))
    assert two < empty - 1 < value - 2
    assert fitted(masses[:, ::-1]) < value - 5


def test_merged_and_removed_sticks_leave_the_others_parameters():
    documents = StickDocuments(ALPHA, GAMMA, 5, 100)
    rng = np.random.default_rng(6)
    learned = {
        "order": rng.permutation(5),
        "rho": sticks_of(np.array([0.3, 0.25, 0.2, 0.12, 0.08, 0.05])),
        "omega": np.array([500.0, 400, 300, 200, 100]),
    }
    before = documents.alpha_of(learned)
    np.testing.assert_allclose(before.sum(), ALPHA * 0.95)
    for kept, absorbed in [(0, 3), (1, 2), (3, 4)]:
        after = documents.alpha_of(documents.merged(learned, kept, absorbed))
        want = before.copy()
        want[kept] += want[absorbed]
        np.testing.assert_allclose(after, np.delete(want, absorbed), rtol=1e-12)
        sticks = documents.merged(learned, kept, absorbed)
        assert (np.diff(after[sticks["order"]]) <= 1e-12).all()
    for gone in range(5):
        after = documents.removed(learned, gone)
        np.testing.assert_allclose(documents.alpha_of(after), np.delete(before, gone), rtol=1e-12)
        assert sorted(after["order"]) == list(range(4))


def test_steps_of_a_stream_are_on_the_way():
    documents = StickDocuments(ALPHA, GAMMA, 3, 100)
    learned = documents.first_learned()
    report = {
        "prior_gain": np.array([50.0, 400.0, 100.0]),
        "n_samples": 10.0,
        "n_documents": 100.0,
        "count": np.array([1.0, 5.0, 2.0]),
    }
    whole_step = documents.improved(learned, report)
    half = documents.improved(learned, report, rate=0.5)
    none = documents.improved(learned, report, rate=1e-12)
    assert whole_step["order"].tolist() == half["order"].tolist() == [1, 2, 0]
    np.testing.assert_allclose(none["rho"], learned["rho"], rtol=1e-9)
    assert (np.abs(half["rho"] - learned["rho"]) < np.abs(whole_step["rho"] - learned["rho"])).all()
