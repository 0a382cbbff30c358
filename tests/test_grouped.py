"""SparseHDP of rows in groups: its bound and statistics, what it finds, and what it refuses."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from by_hand import student_densities, upper_triangles
from joblib import parallel_config
from scipy.special import gammaln, logsumexp, psi, xlogy
from scipy.stats import multivariate_normal
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_sparsepost import SparseHDP, SparseMixture
from sklearn_sparsepost._learning import topic_moves
from sklearn_sparsepost._learning.loops import batch_pass, memoized_pass
from sklearn_sparsepost._models.gaussian import FullGaussian, TiedGaussian
from sklearn_sparsepost._models.gaussian_axes import AxisGaussian
from sklearn_sparsepost._models.grouped import N_FOLDS, deal_rows, row_shares
from sklearn_sparsepost._models.sticks import StickDocuments
from sklearn_sparsepost._run import chunks
from sklearn_sparsepost.callbacks import EarlyStopping, HeldoutMonitor
from sklearn_sparsepost.models import (
    Admixture,
    Corpus,
    DirichletDocuments,
    DirichletWeights,
    Mixture,
    begin,
)
from sklearn_sparsepost.observations import Observation

MEANS = np.array([[0, 0], [6, 0], [0, 6], [6, 6.0]])
D = MEANS.shape[1]


def draw_groups(n_groups=60, seed=0, n_rows=(5, 40)):
    """Rows around four means, each group mostly of one or two of them."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(*n_rows, size=n_groups)
    kind = np.concatenate([rng.choice(4, p=rng.dirichlet(np.full(4, 0.2)), size=n) for n in sizes])
    X = MEANS[kind] + rng.standard_normal((len(kind), D)) * [1, 0.5]
    return X, np.repeat(np.arange(n_groups), sizes), kind


@pytest.fixture(scope="module")
def data():
    return draw_groups()[:2]


@pytest.fixture
def small_chunks(monkeypatch):
    """Chunks of about 100 rows."""
    monkeypatch.setattr(chunks, "DENSE_CHUNK_SIZE", 6400)
    monkeypatch.setattr(chunks, "DENSE_CHUNK_ROWS", 100)


def hdp(n_components=8, **params):
    return SparseHDP(n_components, observation="gaussian", random_state=0, **params)


# ---------------------------------------------------------------------- the bound, by hand


def gaussian(kind="full", centered=False, estimation="bayes"):
    options = {
        "assume_centered": centered,
        "mean_precision_prior": 1.0,
        "mean_prior": np.array([1.0, 2.0]),
        "degrees_of_freedom_prior": 3.0,
        "covariance_prior": np.ones(2) if kind == "diag" else np.array([[2.0, 0.3], [0.3, 1.0]]),
        "reg_covar": 0.0,
        "origin": np.array([3.0, 3.0]),
        "covariance": np.array([[1.5, -0.4], [-0.4, 0.5]]),
    }
    made = {"full": FullGaussian, "tied": TiedGaussian, "diag": AxisGaussian}[kind]
    return made(estimation, **options)


def bound_by_hand(model, state, shares, X, groups):
    """The surrogate bound from responsibilities, components' posteriors at their best."""
    learned = state.learned
    alpha = model.documents.alpha_of(learned)
    value = -xlogy(shares, shares).sum() + model.documents.bound(learned, len(groups) - 1)
    for first, last in zip(groups[:-1], groups[1:], strict=True):
        mass = shares[first:last].sum(axis=0)
        value += (gammaln(alpha + mass) - gammaln(alpha)).sum()
        value += gammaln(0.5) - gammaln(0.5 + last - first)
    for k in range(shares.shape[1]):
        value += conjugate_bound(shares[:, k], X)
    return value


def conjugate_bound(share, X):
    """E[log p(x | z, phi)] + E[log p(phi) - log q(phi)] of a Normal-Wishart, at the best q(phi).

    That is the evidence if shares are 0 and 1.
    """
    n, beta, nu, scale = share.sum(), 1.0, 3.0, np.array([[2.0, 0.3], [0.3, 1.0]])
    mean = share @ X / n if n > 0 else np.zeros(D)
    gap = mean - [1.0, 2.0]
    after = scale + (share[:, None] * (X - mean)).T @ (X - mean)
    after = after + n * beta / (n + beta) * np.outer(gap, gap)

    def log_normaliser(nu, beta, scale):
        log_gamma = gammaln(0.5 * (nu - np.arange(D))).sum()
        return log_gamma - 0.5 * nu * np.linalg.slogdet(scale)[1] - 0.5 * D * np.log(beta)

    value = log_normaliser(nu + n, beta + n, after) - log_normaliser(nu, beta, scale)
    return value - 0.5 * n * D * np.log(np.pi)


class Noting(Admixture):
    """A model that notes the responsibilities that its local steps find."""

    shares: dict = {}

    @staticmethod
    def local_step(chunk, globals_, key=None):
        found = row_shares(chunk, globals_).toarray()
        for d, number in enumerate(chunk.numbers):
            Noting.shares[number] = found[chunk.indptr[d] : chunk.indptr[d + 1]]
        return Admixture.local_step(chunk, globals_, key)


@pytest.mark.parametrize("level", [2, None])
@pytest.mark.parametrize("one_pass", [batch_pass, memoized_pass])
def test_bound_and_statistics_by_hand(data, level, one_pass, small_chunks):
    X, groups = data
    indptr = np.append(np.unique(groups, return_index=True)[1], len(X))
    documents = StickDocuments(0.5, 10.0, 6, 60, sparsity_level=level, restarts=0, tol=1e-9)
    model = Noting(gaussian(), documents, 6)
    corpus = Corpus(X, np.float64, 1, groups=indptr, threaded=False)
    assert len(corpus.plan()) > 3
    resp = np.random.default_rng(1).dirichlet(np.full(6, 0.2), len(X))
    state = begin(model, corpus, resp)
    options = {} if one_pass is batch_pass else {"n_batches": 4}
    for _ in range(4):
        learned = state.learned
        state = one_pass(model, corpus, state, **options)
        shares = np.concatenate([Noting.shares[d] for d in range(60)])
        np.testing.assert_allclose(shares.sum(axis=1), 1)
        assert level is None or (shares > 0).sum(axis=1).max() <= level
        before = state.with_components(state.stats, learned)
        want = bound_by_hand(model, before, shares, X, indptr)
        np.testing.assert_allclose(state.history[-1], want, rtol=1e-9)
        moved = model.observation.prepare(X)
        stats = {
            "count": shares.sum(axis=0),
            "first": shares.T @ moved,
            "second": upper_triangles(np.einsum("nk,ni,nj->kij", shares, moved, moved)),
        }
        for name, value in stats.items():
            np.testing.assert_allclose(state.stats[name], value, atol=1e-8)


def test_bound_is_below_the_evidence_that_enumeration_finds():
    """Of two groups of three rows, all assignments to three components under fixed sticks."""
    rng = np.random.default_rng(3)
    X, indptr, K = rng.normal(3, 3, size=(6, D)), np.array([0, 3, 6]), 3
    alpha = np.array([0.3, 0.2, 0.1])
    total = []
    for number in range(K**6):
        z = number // K ** np.arange(6) % K
        value = sum(conjugate_bound(1.0 * (z == k), X) for k in range(K))
        for part in (z[:3], z[3:]):
            mass = np.bincount(part, minlength=K)
            value += (gammaln(alpha + mass) - gammaln(alpha)).sum()
            value += gammaln(alpha.sum()) - gammaln(alpha.sum() + 3)
        total.append(value)
    evidence = logsumexp(total)
    documents = DirichletDocuments(alpha, sparsity_level=None, restarts=0, tol=1e-10)
    model = Admixture(gaussian(), documents, K)
    corpus = Corpus(X, np.float64, 1, groups=indptr)
    best = -np.inf
    for seed in range(3):
        resp = np.random.default_rng(seed).dirichlet(np.full(K, 0.3), 6)
        state = begin(model, corpus, resp)
        for _ in range(40):
            state = batch_pass(model, corpus, state)
        assert np.diff(state.history).min() > -1e-9
        best = max(best, state.history[-1])
    # Components may be named in 3! ways, of which mean field finds one.
    assert best < evidence < best + np.log(6) + 2


@pytest.mark.parametrize(
    "kind, centered",  # centered ones that are tied are all the same
    [("full", False), ("full", True), ("diag", False), ("diag", True), ("tied", False)],
)
def test_one_group_is_a_mixture(data, kind, centered):
    """With sticks that stay, one group is a mixture with their Dirichlet prior: same optimum."""
    X, K = data[0][:300], 4
    alpha = 0.25
    resp = np.eye(K)[np.argmin(((X[:, None] - MEANS) ** 2).sum(axis=2), axis=1)]
    documents = DirichletDocuments(
        np.full(K, alpha), sparsity_level=None, restarts=0, tol=1e-12, max_iter=1000
    )
    group = Admixture(gaussian(kind, centered), documents, K)
    corpus = Corpus(X, np.float64, 1, groups=np.array([0, len(X)]))
    one = begin(group, corpus, resp)
    mixture = Mixture(gaussian(kind, centered), DirichletWeights("bayes", alpha), K)
    two = begin(mixture, Corpus(X, np.float64, 1), resp)
    for _ in range(100):
        one = batch_pass(group, corpus, one)
        two = batch_pass(mixture, Corpus(X, np.float64, 1), two)
    np.testing.assert_allclose(one.history[-1], two.history[-1], rtol=1e-9)
    for name in ("count", "second"):
        np.testing.assert_allclose(one.stats[name], two.stats[name], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("method", ["batch", "memoized"])
@pytest.mark.parametrize("moves", [True, False])
def test_the_bound_rises(data, method, moves):
    X, groups = data
    made = hdp(
        12,
        estimation="bayes",
        learning_method=method,
        moves=moves,
        n_batches=4,
        doc_start="warm" if method == "memoized" else "cold",
        mean_change_tol=1e-6,
        max_iter=15,
        tol=0,
    ).fit(X, groups=groups)
    history = made.bound_history_
    assert (np.diff(history) > -1e-8 * abs(history[-1])).all()
    assert (made.n_components_ < 12) == moves


# ---------------------------------------------------------------------- what it finds


KINDS = [("full", False), ("full", True), ("diag", False), ("diag", True)]
KINDS += [("spherical", False), ("spherical", True), ("tied", False)]


@pytest.mark.parametrize("covariance_type, assume_centered", KINDS)
def test_similarity_by_hand(data, covariance_type, assume_centered):
    """Divergences of two Gaussians to each other, by their definition."""
    X, groups = data
    options = {"covariance_type": covariance_type, "assume_centered": assume_centered}
    made = hdp(5, moves=False, max_iter=2, **options).fit(X, groups=groups)
    stats = made._fit_state.stats.reorder(made._fit_state.learned["order"])
    found = made._observation.similarity(stats)
    shape = {"diag": np.diag, "spherical": lambda value: value * np.eye(D)}
    covariances = [made.covariances_] * 5 if covariance_type == "tied" else made.covariances_
    covariances = [shape.get(covariance_type, np.asarray)(value) for value in covariances]
    for i in range(5):
        for j in range(5):
            gap = made.means_[i] - made.means_[j]
            one, two = np.linalg.inv(covariances[i]), np.linalg.inv(covariances[j])
            both = np.trace(one @ covariances[j] + two @ covariances[i]) - 2 * D
            divergence = 0.5 * (both + gap @ (one + two) @ gap)
            np.testing.assert_allclose(found[i, j], np.exp(-divergence / 8), rtol=1e-4)


def test_merges_duplicates_that_live_in_different_groups():
    """What no group has beside its copy is not correlated, but alike."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 30)
    X = rng.standard_normal((1200, D)) + 8 * rng.integers(0, 2, (1200, 1))
    first = np.array([[0, 0], [8, 8]])[(X.sum(axis=1) > 8).astype(int)]
    resp = np.zeros((1200, 4))
    resp[np.arange(1200), (first[:, 0] > 0) + 2 * (groups % 2)] = 1
    documents = StickDocuments(0.5, 10.0, 4, 40, restarts=0, sparsity_level=1)
    model = Admixture(gaussian(), documents, 4)
    corpus = Corpus(X, np.float64, 1, groups=np.arange(0, 1201, 30))
    state = begin(model, corpus, resp)
    state.overlap = resp.T @ (groups[:, None] == groups).astype(float) @ resp
    state.attempts = topic_moves.Attempts(4)
    pairs = topic_moves.choose_topic_pairs(model, state).tolist()
    assert [0, 2] in pairs and [1, 3] in pairs and [0, 3] not in pairs


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
@pytest.mark.parametrize("estimation", ["bayes", "map"])
def test_finds_the_components(data, covariance_type, estimation):
    X, groups = data
    made = hdp(10, covariance_type=covariance_type, estimation=estimation, max_iter=20)
    made.fit(X, groups=groups)
    assert made.n_components_ == len(made.means_) == 4
    found = made.means_[np.argmin(((MEANS[:, None] - made.means_) ** 2).sum(axis=2), axis=1)]
    np.testing.assert_allclose(found, MEANS, atol=0.3)
    assert (np.diff(made.topic_weights_) <= 1e-12).all()
    np.testing.assert_allclose(made.doc_topic_prior_, 0.5 * made.topic_weights_)
    assert not hasattr(made, "components_")


def test_groups_know_their_rows(data):
    X, groups = data
    kind = draw_groups()[2]
    made = hdp(10, max_iter=30).fit(X, groups=groups)
    name = np.argmin(((made.means_[:, None] - MEANS) ** 2).sum(axis=2), axis=1)
    resp = made.predict_proba(X, groups)
    assert (name[resp.argmax(axis=1)] == kind).mean() > 0.98
    np.testing.assert_allclose(resp.sum(axis=1), 1)
    weights = made.transform(X, groups)
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    mass = np.bincount(groups, minlength=60) + made.doc_topic_prior_.sum()
    whole = made.transform(X, groups, normalize=False)
    np.testing.assert_allclose(whole, weights * mass[:, None])
    share = np.stack([np.bincount(kind[groups == g], minlength=4) for g in range(60)])
    share = share / share.sum(axis=1, keepdims=True)
    assert abs(weights[:, np.argsort(name)] - share).max() < 0.1
    sparse = clone(made).set_params(sparse_output=True).fit(X, groups=groups)
    found = sparse.predict_proba(X, groups)
    assert sp.issparse(found) and found.format == "csr"
    np.testing.assert_array_equal(found.toarray(), resp)
    assert sp.issparse(sparse.transform(X, groups))


def test_score_by_hand(data):
    X, groups = data
    made = hdp(6, moves=False, max_iter=10).fit(X, groups=groups)
    found = made.score_samples(X, groups)
    assert made.score(X, groups=groups) == found.mean()
    assert made.score(X, groups=groups, random_state=1) != found.mean()
    density = np.stack(
        [
            multivariate_normal(m, c).pdf(X)
            for m, c in zip(made.means_, made.covariances_, strict=True)
        ],
        axis=1,
    )
    alpha = made.doc_topic_prior_
    indptr = np.append(np.unique(groups, return_index=True)[1], len(X))
    fold = deal_rows(indptr, 0)
    for g in (0, 7, 31):
        held = np.flatnonzero(groups == g)
        assert np.ptp(np.bincount(fold[held], minlength=N_FOLDS)) <= 1
        for f in range(N_FOLDS):
            given, hidden = held[fold[held] != f], held[fold[held] == f]
            mass = np.full(len(alpha), len(given) / len(alpha))
            for _ in range(2000):
                share = density[given] * np.exp(psi(alpha + mass))
                mass = (share / share.sum(axis=1, keepdims=True)).sum(axis=0)
            weights = (alpha + mass) / (alpha + mass).sum()
            np.testing.assert_allclose(found[hidden], np.log(density[hidden] @ weights), atol=0.02)


def test_groups_are_worth_more_than_a_mixture(data):
    X, groups = data
    other, others = draw_groups(seed=5)[:2]
    made = hdp(10, max_iter=30).fit(X, groups=groups)
    mixture = SparseMixture(
        10, weight_concentration_prior_type="dirichlet_process", random_state=0
    ).fit(X)
    assert made.score(other, groups=others) > mixture.score(other) + 0.3
    alone = made.score(other, groups=np.arange(len(other)))
    assert abs(alone - mixture.score(other)) < 0.1


@pytest.mark.parametrize("method", ["batch", "memoized", "online"])
def test_going_on_is_the_same_as_not_stopping(data, method):
    X, groups = data
    options = {"learning_method": method, "n_batches": 3, "batch_size": 20, "tol": 0}
    whole = hdp(max_iter=6, **options).fit(X, groups=groups)
    parts = hdp(max_iter=2, warm_start=True, **options).fit(X, groups=groups)
    parts = pickle.loads(pickle.dumps(parts))
    parts.set_params(max_iter=4).fit(X, groups=groups)
    assert parts.means_.tobytes() == whole.means_.tobytes()
    assert parts.bound_history_.tobytes() == whole.bound_history_.tobytes()
    # Other groups of the same rows are other data.
    parts.fit(X, groups=np.arange(len(X)))
    assert np.isfinite(parts.bound_history_).all()


def test_stream(data):
    X, groups = data
    made = hdp(10, max_iter=30).fit(X, groups=groups)
    score = made.score(X, groups=groups)
    fresh = hdp(10, total_samples=60, learning_offset=1.0)
    for first in range(0, 60, 15):
        held = (groups >= first) & (groups < first + 15)
        made.partial_fit(X[held], groups=groups[held])
        fresh.partial_fit(X[held], groups=groups[held])
    assert made.score(X, groups=groups) > score - 0.05
    assert made.n_samples_seen_ == 120
    assert fresh.score(X, groups=groups) > score - 0.5


def test_bound_of_the_training_data_continues_the_history(data):
    X, groups = data
    made = hdp(6, max_iter=15, tol=0, restarts=0, moves=False).fit(X, groups=groups)
    np.testing.assert_allclose(made.bound(X, groups), made.bound_history_[-1], rtol=1e-4)


def test_callbacks_know_groups(data):
    X, groups = data
    other, others = draw_groups(20, seed=5)[:2]
    monitor = HeldoutMonitor(other, groups=others)
    # The first pass is the best by far: nothing is a gain.
    stopping = EarlyStopping(other, groups=others, patience=2, min_delta=1e3)
    made = hdp(10, max_iter=20, tol=0).set_callbacks(monitor, stopping).fit(X, groups=groups)
    assert made.n_iter_ <= len(monitor.get_logs()) == 3
    scores = [row["score"] for row in stopping.get_logs()]
    assert made.score(other, groups=others) == max(scores)
    # What was restored goes on by its attributes alone.
    assert np.isfinite(made.bound(X, groups))
    made.set_callbacks().partial_fit(other, groups=others)
    made.set_params(warm_start=True, max_iter=5).fit(X, groups=groups)
    assert made.score(other, groups=others) > max(scores) - 0.1


def test_few_targets_of_deletes_where_statistics_are_large(data, monkeypatch):
    X, groups = data
    sizes = []

    def noted(model, corpus, state, targets, bound):
        sizes.append(len(targets))
        return topic_moves.delete_topics(model, corpus, state, targets, bound)

    monkeypatch.setattr("sklearn_sparsepost._learning.moves.delete_topics", noted)
    made = hdp(10, max_iter=6, tol=0)
    made.fit(X, groups=groups)
    assert max(sizes) > 1
    monkeypatch.setattr(topic_moves, "TARGET_BYTES", 1)
    sizes.clear()
    made.fit(X, groups=groups)
    assert max(sizes) == 1


def test_rows_that_are_drawn(data):
    rows = data[0], None, data[1]
    made = hdp(10, max_iter=20).fit(*rows)
    X, weights = made.sample(50, doc_length=30, random_state=0)
    assert X.shape == (1500, D) and weights.shape == (50, made.n_components_)
    assert abs(made.score(X, groups=np.repeat(np.arange(50), 30)) - made.score(*rows)) < 0.5


class Unit(Observation):
    """Rows at distance 1 of their mean, but for constants: a user's own model, of modes."""

    def empty(self, n_components):
        return {"first": np.zeros((n_components, D))}

    def summarise(self, rows, resp):
        return {"first": resp.T @ rows.astype(float)}

    def estimate(self, stats):
        return {"means": stats.value("first") / (0.01 + stats.value("count"))[:, None]}

    def table(self, estimates, dtype, *, point=False):
        return estimates["means"].astype(dtype)

    def log_likelihood(self, rows, table):
        return -0.5 * ((rows[:, None] - table) ** 2).sum(axis=2)

    def data_bound(self, stats, estimates):
        mean, count = estimates["means"], stats.value("count")
        return float((mean * stats.value("first")).sum() - 0.5 * count @ (mean**2).sum(axis=1))

    def prior_bound(self, estimates):
        return float(-0.005 * (estimates["means"] ** 2).sum())


def own_observation(estimator, X, sample_weight):
    return Unit("map")


def test_own_observation(data):
    X, groups = data
    made = SparseHDP(4, observation=own_observation, moves=False, max_iter=20, random_state=0)
    made.fit(X, groups=groups)
    assert np.diff(made.bound_history_).min() > -1e-6 * abs(made.bound_history_[-1])
    assert np.isfinite(made.score(X, groups=groups))
    assert made.transform(X, groups).shape == (60, 4)
    with pytest.raises(ValueError, match="must return an instance"):
        SparseHDP(4, observation=lambda *given: 3).fit(X, groups=groups)


# ---------------------------------------------------------------------- the data


def test_same_bytes_on_any_workers(data, small_chunks):
    """Of all that depends on groups, with moves; processes are in test_determinism."""
    X, groups = data
    want = bytes_of(hdp(max_iter=6, n_jobs=1), X, groups)
    with parallel_config(backend="threading"):
        assert bytes_of(hdp(max_iter=6, n_jobs=3), X, groups) == want


def bytes_of(made, X, groups):
    made.fit(X, groups=groups)
    found = {name: value for name, value in vars(made).items() if name[-1:] == "_"}
    found["weights"], found["score"] = made.transform(X, groups), made.score_samples(X, groups)
    found["resp"], found["bound"] = made.predict_proba(X, groups), made.bound(X, groups)
    made.partial_fit(X[:200], groups=groups[:200])
    found["streamed"] = made.means_
    return {name: np.asarray(value).tobytes() for name, value in found.items()}


def test_groups_stand_alone(data, dtype):
    X, groups = data[0].astype(dtype), data[1]
    made = hdp(max_iter=4).fit(X, groups=groups)
    methods = made.transform, made.predict_proba, made.score_samples
    whole = [method(X, groups) for method in methods]
    for some in ([3], [5, 6], [0, 59], list(range(20, 40))):
        held = np.isin(groups, some)
        for method, found in zip(methods, whole, strict=True):
            part = method(X[held], groups[held])
            assert part.dtype == found.dtype
            want = found[some] if len(found) == 60 else found[held]
            np.testing.assert_array_equal(part, want)


def test_rows_of_a_group_need_not_be_neighbours(data):
    X, groups = data
    made = hdp(max_iter=5).fit(X, groups=groups)
    shuffled = np.random.default_rng(0).permutation(len(X))
    names = np.array([f"customer {g:02d}" for g in groups])
    other = hdp(max_iter=5).fit(X[shuffled], groups=names[shuffled])
    assert abs(other.bound_history_[-1] - made.bound_history_[-1]) < 0.05 * len(X)
    weights, resp = made.transform(X, groups), made.predict_proba(X, groups)
    np.testing.assert_allclose(made.transform(X[shuffled], names[shuffled]), weights, rtol=1e-6)
    found = made.predict_proba(X[shuffled], names[shuffled])
    np.testing.assert_allclose(found, resp[shuffled], rtol=1e-5, atol=1e-12)
    # Runs in another order than that of the labels: rows stay, and groups are sorted.
    np.testing.assert_allclose(made.transform(X, 100 - groups), weights[::-1], rtol=1e-9)


def test_memory_mapped_rows(data, tmp_path):
    X, groups = data
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    made = hdp(max_iter=4).fit(mapped, groups=groups)
    assert made.means_.tobytes() == hdp(max_iter=4).fit(X, groups=groups).means_.tobytes()
    apart = np.where(np.arange(len(X)) == 400, groups[0], groups)
    with pytest.raises(ValueError, match="row 400 of X belongs to a group that ended before"):
        made.fit(mapped, groups=apart)
    made.fit(X, groups=apart)


def test_chunks_never_cut_a_group(data, monkeypatch):
    monkeypatch.setattr(chunks, "DENSE_CHUNK_SIZE", 64)
    monkeypatch.setattr(chunks, "DENSE_CHUNK_ROWS", 1)
    X, groups = data
    seen = []

    def noted(*args, **kwargs):
        chunk = chunks.make_chunk(*args, **kwargs)
        seen.append(chunk.n_rows)
        return chunk

    monkeypatch.setattr("sklearn_sparsepost._run.dispatch.make_chunk", noted)
    made = hdp(max_iter=1, moves=False, learning_method="batch").fit(X, groups=groups)
    seen.clear()
    made.transform(X, groups)
    assert seen == np.bincount(groups).tolist()


def test_metadata_is_routed(data):
    X, groups = data
    with config_context(enable_metadata_routing=True):
        made = hdp(4, max_iter=2).set_fit_request(groups=True).set_score_request(groups=True)
        pipeline = make_pipeline(StandardScaler(), made)
        grid = {"sparsehdp__sparsity_level": [1, 4]}
        search = GridSearchCV(pipeline, grid, cv=GroupKFold(2), error_score="raise")
        search.fit(X, groups=groups)
        made = hdp(4, max_iter=2).set_fit_request(groups=True).set_transform_request(groups=True)
        weights = make_pipeline(StandardScaler(), made).fit_transform(X, groups=groups)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert weights.shape[0] == 60


def test_dataframes_have_the_labels_of_groups(data):
    pd = pytest.importorskip("pandas")
    X, groups = data
    frame = pd.DataFrame(X, columns=["a", "b"])
    names = pd.Series(groups).map("g{:02d}".format)
    made = hdp(6, max_iter=3).set_output(transform="pandas").fit(frame, groups=names)
    for found in (made.transform(frame, names), made.fit_transform(frame, groups=names)):
        assert list(found.index) == sorted(set(names))
        assert list(found.columns) == list(made.get_feature_names_out())


# ---------------------------------------------------------------------- bad input

COUNTS = sp.csr_array(np.random.default_rng(0).poisson(1.0, size=(20, 6)))


@pytest.mark.parametrize(
    "groups, message",
    [
        (None, "groups is missing"),
        (np.zeros(3), r"groups has shape \(3,\), but must have one label for each of the"),
        (np.zeros((60, 2)), "one label for each"),
        ("here", "one label for each"),
    ],
)
def test_groups_that_cannot_be(data, groups, message):
    X, right = data
    made = hdp(max_iter=1).fit(X, groups=right)
    for method in ("fit", "partial_fit", "transform", "predict_proba", "score_samples", "score"):
        with pytest.raises(ValueError, match=message):
            getattr(made, method)(X, groups=groups)


def test_labels_that_cannot_be(data):
    X, groups = data
    labels = groups.astype(float)
    labels[7] = np.nan
    with pytest.raises(ValueError, match="no label for row 7"):
        hdp().fit(X, groups=labels)
    labels = groups.astype(object)
    labels[7] = "seven"
    with pytest.raises(ValueError, match="labels that can be sorted"):
        hdp().fit(X, groups=labels)
    labels = groups.astype(object)
    labels[7] = None
    with pytest.raises(ValueError, match="labels that can be sorted"):
        hdp().fit(X, groups=labels)


def test_counts_have_no_groups():
    made = SparseHDP(3, max_iter=1, random_state=0).fit(COUNTS)
    for method in ("fit", "partial_fit", "transform", "score", "bound", "fit_transform"):
        with pytest.raises(ValueError, match="groups, if given, is for rows"):
            getattr(made, method)(COUNTS, groups=np.zeros(20))
    assert not hasattr(made, "predict_proba") and not hasattr(made, "score_samples")


def test_groups_of_one_row_are_legal(data):
    X, _ = data
    made = hdp(4, moves=False, max_iter=10).fit(X, groups=np.arange(len(X)))
    weights = made.topic_weights_ / made.topic_weights_.sum()
    density = np.stack(
        [
            multivariate_normal(m, c).pdf(X)
            for m, c in zip(made.means_, made.covariances_, strict=True)
        ],
        axis=1,
    )
    found = made.score_samples(X, np.arange(len(X)))
    np.testing.assert_allclose(found, np.log(density @ weights), rtol=1e-6)
    # Of posteriors the density is that given the data.
    made = hdp(4, estimation="bayes", moves=False, max_iter=3).fit(X, groups=np.arange(len(X)))
    weights = made.topic_weights_ / made.topic_weights_.sum()
    found = made.score_samples(X, np.arange(len(X)))
    np.testing.assert_allclose(found, np.log(student_densities(made, X) @ weights), rtol=1e-6)


def test_starts_of_rows(data):
    """By default that of mixtures, and all that there are find the same."""
    X, groups = data
    found = {}
    for init in ("auto", "agglomerative", "k-means++", "random"):
        made = hdp(6, init=init, max_iter=30).fit(X, groups=groups)
        assert made.n_components_ == 4
        found[init] = made.bound_history_[0]
    assert found["auto"] == found["agglomerative"] != found["k-means++"]
    counts = np.eye(5, dtype=int)[[0, 1, 2, 3, 4, 0, 1]]
    auto, named = (
        SparseHDP(2, init=init, random_state=0).fit(counts) for init in ("auto", "k-means++")
    )
    assert auto.components_.tobytes() == named.components_.tobytes()
    with pytest.raises(ValueError, match="init='agglomerative' is for rows"):
        SparseHDP(2, init="agglomerative").fit(counts)


def test_what_rows_have_not(data):
    X, groups = data
    for params, message in (
        ({"init": "anchor"}, "init='anchor' is for counts"),
        ({"topic_word_prior": 0.1}, "topic_word_prior=0.1 is for counts"),
        ({"init": np.zeros((3, 3))}, "init has shape"),
        ({"degrees_of_freedom_prior": 0.5}, "degrees_of_freedom_prior must be greater"),
    ):
        for method in ("fit", "partial_fit"):
            with pytest.raises(ValueError, match=message):
                getattr(hdp(**params), method)(X, groups=groups)
    made = hdp(max_iter=1, warm_start=True).fit(X, groups=groups)
    with pytest.raises(ValueError, match="method must be 'completion'"):
        made.score(X, groups=groups, method="left-to-right")
    with pytest.raises(ValueError, match="row 3 of X holds a value beyond"):
        made.transform(np.where(np.arange(len(X))[:, None] == 3, 1e200, X), groups)
    for name, value in (("covariance_type", "diag"), ("observation", "multinomial")):
        with pytest.raises(ValueError, match=f"{name}='{value}', but what is to go on"):
            clone_of(made, **{name: value}).fit(abs(X), groups=None if value[0] == "m" else groups)
    assert not hasattr(made, "perplexity")


def clone_of(made, **params):
    return pickle.loads(pickle.dumps(made)).set_params(**params)
