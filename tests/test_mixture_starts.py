"""Where a mixture begins: clusters by agglomeration, and what users give."""

import tracemalloc

import numpy as np
import pytest
from by_hand import start_of
from scipy.integrate import quad
from scipy.sparse import csr_array
from scipy.special import gammaln
from scipy.stats import gamma, multivariate_t, norm, wishart
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from sklearn_sparsepost import SparseMixture
from sklearn_sparsepost._run.streams import STREAM_INIT
from sklearn_sparsepost._starts import agglomerative, helpers
from sklearn_sparsepost._starts import rows as starts
from sklearn_sparsepost._starts.helpers import distinct_rows
from sklearn_sparsepost._starts.rows import first_responsibilities
from sklearn_sparsepost._tables import distinct_pairs

SHAPES = ["full", "tied", "diag", "spherical"]


def groups(sizes=(200, 60, 20, 100), n_features=3):
    """Groups of different sizes and widths, far apart, and their labels."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    wide = rng.uniform(0.2, 3, (len(sizes), 1))
    centres = 25 * np.eye(len(sizes))[:, :n_features] + rng.normal(size=(len(sizes), n_features))
    X = centres[labels] + wide[labels] * rng.normal(size=(len(labels), n_features))
    order = rng.permutation(len(labels))
    return X[order], labels[order]


def clusters_of(X, labels, shape):
    """The clusters of rows, slow and obvious."""
    count, means, second, further = [], [], [], []
    for k in range(labels.max() + 1):
        gap = X[labels == k] - X[labels == k].mean(axis=0)
        count.append(float(len(gap)))
        means.append(X[labels == k].mean(axis=0))
        second.append(gap.T @ gap if shape == "full" else np.empty((0, 0)))
        found = {"full": [], "diag": (gap**2).sum(axis=0), "spherical": [(gap**2).sum()]}
        further.append(found[shape])
    parts = map(np.array, (count, means, second, further))
    return agglomerative._Clusters(*parts)


def evidence_of(clusters):
    """Log evidence of the rows of clusters, whatever is known of their labels."""
    return clusters.evidence - gammaln(clusters.count)


def moments_of(X, labels, weight, n_clusters, shape):
    """Moments of clusters in coordinates in which these have variance 1."""
    rows = agglomerative._Rows(X, weight, shape == "full")
    found = agglomerative._Moments(rows, labels, n_clusters, shape)
    return found.of(labels, n_clusters)


# ---------------------------------------------------------------------------- counts


def counts_of_groups(n_rows=600, n_groups=6, n_features=2000):
    """Documents of groups in which most words are common to all, and their labels."""
    rng = np.random.default_rng(1)
    common = rng.dirichlet(np.full(n_features, 0.1))
    topics = 0.6 * common + 0.4 * rng.dirichlet(np.full(n_features, 0.05), size=n_groups)
    labels = rng.integers(n_groups, size=n_rows)
    return csr_array([rng.multinomial(60, topics[k]) for k in labels]), labels


def test_the_default_start_of_counts_is_of_blurred_clusters():
    X, labels = counts_of_groups()
    _, corpus, state = start_of(SparseMixture(6, observation="multinomial", random_state=0), X)
    rows, index, resp, weight, share = first_responsibilities(
        corpus, 6, "agglomerative", None, "spherical", state.rng(STREAM_INIT)
    )
    assert (rows.shape[0], weight, share) == (len(labels), None, 1)
    hard = np.zeros((len(labels), 6))
    np.put_along_axis(hard, index, resp, axis=1)
    assert 0.2 < adjusted_rand_score(labels, hard.argmax(axis=1)) < 1
    soft = 0.1 * hard + 0.9 / 6
    np.testing.assert_allclose(state.stats["feature_counts"], X.T @ soft, atol=1e-9)
    np.testing.assert_allclose(state.stats["count"], soft.sum(axis=0))
    assert state.stats["total_weight"] == len(labels)


# ---------------------------------------------------------------------------- evidence


def test_evidence_is_the_integral_over_mean_and_precision():
    x = np.array([[-1.2], [0.3], [0.4], [1.9]])
    prior = gamma(1.5, scale=2 / (3.0 * x.var()))

    def over_means(precision):
        scale = precision**-0.5
        inside = quad(lambda mean: norm.pdf(x[:, 0], mean, scale).prod(), -20, 20)[0]
        return inside * prior.pdf(precision)

    value = quad(over_means, 0, 60, limit=200)[0]
    for shape in ("full", "diag", "spherical"):  # of one column all are the same
        held = clusters_of(x, np.zeros(4, dtype=int), shape)
        np.testing.assert_allclose(evidence_of(held), np.log(value), rtol=1e-6)


def test_evidence_of_diagonals_is_a_sum_and_of_matrices_an_expectation():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(6, 2))
    x /= x.std(axis=0)  # both variances are their mean then
    held = clusters_of(x, np.zeros(6, dtype=int), "diag")
    alone = [evidence_of(clusters_of(x[:, [j]], np.zeros(6, dtype=int), "diag")) for j in (0, 1)]
    np.testing.assert_allclose(evidence_of(held), sum(alone))

    full = clusters_of(x, np.zeros(6, dtype=int), "full")
    spread = full.parts[2][0]
    drawn = wishart(4, np.eye(2) / 4).rvs(200_000, random_state=0)
    # The mean integrated out, data enter by their scatter alone.
    log_p = 2.5 * np.linalg.slogdet(drawn)[1] - 0.5 * np.einsum("nij,ij->n", drawn, spread)
    value = np.log(np.exp(log_p).mean()) - 5 * np.log(2 * np.pi) - np.log(6)
    np.testing.assert_allclose(evidence_of(full), value, atol=0.02)


@pytest.mark.parametrize("shape", ["full", "diag", "spherical"])
def test_a_merge_is_the_union(shape):
    X, _ = groups()
    labels = np.arange(len(X)) % 4
    merged = clusters_of(X, labels, shape)
    pair, target = np.array([[1, 3]], dtype=np.int32), np.arange(4)
    assert agglomerative.merges.merge_clusters(*merged.parts, pair, 1, np.inf, target) == 1
    np.testing.assert_array_equal(target, [0, 1, 2, 1])
    both = clusters_of(X, np.where(labels == 3, 1, labels), shape)
    for found, wanted in zip(merged.parts, both.parts, strict=True):
        np.testing.assert_allclose(found[:3], wanted[:3], atol=1e-9)


def test_axes_beyond_the_first_have_variances_of_their_own(monkeypatch):
    monkeypatch.setattr(agglomerative, "MOST_AXES", 2)
    X, labels = groups((400, 300, 200))
    rng = np.random.default_rng(2)
    X, weight = np.hstack([X, rng.normal(size=(len(X), 2))]), rng.uniform(0.5, 2, len(X))
    clusters = agglomerative._Clusters(*moments_of(X, labels, weight, 3, "full"))
    count, means, second, further, _ = clusters.parts
    assert second.shape == (3, 2, 2) and further.shape == (3, 3)
    inside = second.sum(axis=0), np.diag(further.sum(axis=0))
    for found in inside:  # coordinates in which clusters have variance 1, and no correlations
        np.testing.assert_allclose(found / weight.sum(), np.eye(len(found)), atol=0.3)
    alone = [
        agglomerative._Clusters(count, means[:, :2].copy(), second, np.empty((3, 0))),
        agglomerative._Clusters(count, means[:, 2:].copy(), np.empty((3, 0, 0)), further),
    ]
    np.testing.assert_allclose(evidence_of(clusters), sum(map(evidence_of, alone)))


@pytest.mark.parametrize("shape", ["full", "diag", "spherical"])
def test_coordinates_in_which_clusters_have_variance_1(shape):
    X, labels = groups((400, 300, 200))
    X[:, 2] *= 1e3
    found = moments_of(X, labels, np.full(len(X), 2.0), 4, shape)
    count, means, second, further = found
    assert second.shape == ((4, 3, 3) if shape == "full" else (4, 0, 0))
    np.testing.assert_array_equal(count, [800, 600, 400, 0])
    found = {"full": [], "diag": np.ones(3), "spherical": [3.0]}[shape]
    np.testing.assert_allclose(further.sum(axis=0) / 1800, found, atol=0.3)
    if shape == "full":
        np.testing.assert_allclose(second.sum(axis=0) / 1800, np.eye(3), atol=0.3)
        # affine maps of the data change nothing
        turned = X @ np.random.default_rng(0).normal(size=(3, 3)) + 7
        other = moments_of(turned, labels, np.full(len(X), 2.0), 4, shape)
        distance, wanted = (
            ((m[:3, None] - m[None, :3]) ** 2).sum(axis=2) for m in (other[1], means)
        )
        np.testing.assert_allclose(distance, wanted, rtol=1e-6)


# ---------------------------------------------------------------------------- clusters


def test_weights_of_one_are_no_weights():
    X, labels = groups((400, 300, 200))
    for shape in ("full", "diag", "spherical"):
        found, wanted = (moments_of(X, labels, weight, 3, shape) for weight in (None, np.ones(900)))
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
def test_weights_are_repetitions_where_all_rows_are_as_far_from_each_other(shape):
    rng = np.random.default_rng(0)
    X, times = rng.random((15, 30)), rng.integers(0, 5, 15)
    order = rng.permutation(15)
    mixture = SparseMixture(2, covariance_type=shape, random_state=0)
    found = mixture.fit(X[order], sample_weight=times[order]).means_
    wanted = mixture.fit(np.repeat(X, times, axis=0)).means_
    np.testing.assert_allclose(found, wanted, rtol=1e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_nearest_centre_at_every_scale(dtype, monkeypatch):
    monkeypatch.setattr(agglomerative, "BLOCK_BYTES", 2**12)  # many blocks
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 5))
    # Squares may be 0 or infinite in single precision, where groups far apart lose their inside.
    cases = [(scale, X) for scale in (1e-30, 1e-3, 1, 1e15)]
    if dtype == np.float64:
        cases += [(1e-100, X), (1e100, X)]
        cases += [(1, X + far * rng.integers(3, size=(700, 1))) for far in (1e3, 1e6)]
    for scale, data in cases:
        exact = ((data[:, None] - data[:40]) ** 2).sum(axis=2)
        data = (scale * data).astype(dtype)
        found = exact[
            np.arange(len(data)), agglomerative._Rows(data, None, True).nearest(data[:40])
        ]
        np.testing.assert_array_less(found, 1.001 * exact.min(axis=1) + 1e-9)


def shells_of(X, weight, centres):
    """Which shell each row is in, how far it is from its centre, and the nearest centre."""
    rows = agglomerative._Rows(X, weight, True)
    nearest = rows.nearest(centres)
    found, n_clusters = agglomerative._shells(rows, nearest, centres)
    assert found.min() >= 0 and found.max() < n_clusters
    return found, ((X - centres[nearest]) ** 2).sum(axis=1), nearest


@pytest.mark.parametrize("weighted", [False, True])
def test_centres_are_moved_to_the_mean_of_the_nearest(weighted, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 4)) + 40
    weight = rng.integers(0, 3, len(X)).astype(float) if weighted else None
    centres = np.concatenate([X[:20], [[1e4] * 4]])  # nothing is near the last
    rows = agglomerative._Rows(X, weight, True)
    nearest = ((X[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    means = [
        np.average(X[nearest == k], 0, weight if weight is None else weight[nearest == k])
        for k in range(20)
    ]
    found = agglomerative._moved(rows, centres, rng)
    np.testing.assert_allclose(found[:20], means, rtol=1e-9)
    np.testing.assert_array_equal(found[20], centres[20])
    # of more rows than are wanted a part is as good as all
    monkeypatch.setattr(agglomerative, "MOVING_ROWS", 1500)
    some = agglomerative._moved(rows, centres, np.random.default_rng(1))
    assert 0 < np.abs(some[:20] - found[:20]).max() < np.abs(centres[:20] - found[:20]).max()
    monkeypatch.setattr(agglomerative, "MOVING_ROWS_EACH", 200)
    again = agglomerative._moved(rows, centres, np.random.default_rng(1))
    np.testing.assert_array_equal(again, found)


@pytest.mark.parametrize("weighted", [False, True])
def test_heavy_clusters_are_cut_into_shells(weighted):
    rng = np.random.default_rng(0)
    centres = rng.normal(scale=100, size=(12, 3))
    sizes = np.array([900, 500] + [40] * 10)
    X = np.repeat(centres, sizes, axis=0) + rng.normal(size=(sizes.sum(), 3))
    X[:150] = centres[0]  # more than a shell weighs
    weight = rng.integers(1, 3, len(X)).astype(float) if weighted else np.ones(len(X))
    weight[np.argmax(((X - centres[1]) ** 2).sum(axis=1) * (np.arange(len(X)) < 1400))] = 0
    found, distance, nearest = shells_of(X, weight, centres)
    count = np.bincount(nearest, weight)
    most = agglomerative.MOST_WEIGHT * count.sum() / 12
    for k in range(12):
        inside = nearest == k
        shells = np.unique(found[inside])
        assert len(shells) <= np.ceil(count[k] / most)
        assert shells[0] == k and (len(shells) > 1) == (count[k] > most)
        ends = [(distance[found == s].min(), distance[found == s].max()) for s in shells]
        assert (np.diff(np.ravel(ends)) > -1e-4).all()  # one around the other
        assert np.bincount(found[inside], weight[inside]).max() <= most + (160 if k == 0 else 3)
    assert len(np.unique(found[:150])) == 1
    # the order of rows is nothing, and weights are repetitions
    other = rng.permutation(len(X))
    np.testing.assert_array_equal(shells_of(X[other], weight[other], centres)[0], found[other])
    times = weight.astype(int)
    repeated = shells_of(np.repeat(X, times, axis=0), None, centres)[0]
    np.testing.assert_array_equal(repeated, np.repeat(found, times))


@pytest.mark.parametrize("one_number", [False, True])
@pytest.mark.parametrize("n_values", [2, 12, 10**6])
def test_distinct_rows_have_the_sums_of_their_weights(n_values, one_number, monkeypatch):
    monkeypatch.setattr("sklearn_sparsepost._starts.helpers.CACHED_BYTES", 4800)
    rng = np.random.default_rng(0)
    X = rng.integers(n_values, size=(600, 6)).astype(float)
    X[::7] = X[1::7][: len(X[::7])]
    weight = rng.integers(3, size=len(X)).astype(float)
    X[:, 2][X[:, 2] == 0] *= rng.choice([-1, 1], size=(X[:, 2] == 0).sum())
    if one_number:  # as if all rows had it
        monkeypatch.setattr(np, "einsum", lambda how, bits, factors: np.zeros(len(bits), np.uint64))
    found, sums = distinct_rows(X, weight)
    wanted, of_row = np.unique(X[weight > 0], axis=0, return_inverse=True)
    order = np.lexsort(X[found].T[::-1])
    np.testing.assert_array_equal(X[found][order], wanted)
    np.testing.assert_array_equal(sums[order], np.bincount(of_row.ravel(), weight[weight > 0]))
    other = rng.permutation(len(X))  # the order is the rows' own
    again, sums_again = distinct_rows(X[other], weight[other])
    np.testing.assert_array_equal(X[other][again], X[found])
    np.testing.assert_array_equal(sums_again, sums)


@pytest.mark.parametrize("n_pairs", [0, 1, 200])
def test_distinct_pairs_are_those_of_numpy(n_pairs):
    pairs = np.random.default_rng(0).integers(12, size=(n_pairs, 2))
    found, first = distinct_pairs(pairs)
    wanted, index = np.unique(pairs, axis=0, return_index=True)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(first, index)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(3))
def test_groups_of_all_sizes_and_widths_are_found(shape, seed):
    X, labels = groups()
    weight = None, np.ones(len(X))
    rng = np.random.default_rng(seed)
    found = agglomerative.agglomerative_clusters(X, X, weight, 4, shape, rng)
    assert adjusted_rand_score(labels, found) > 0.85


@pytest.mark.parametrize("n_rows", [100, 300])
def test_rows_go_to_the_nearest_means_if_the_evidence_gains(n_rows, monkeypatch):
    monkeypatch.setattr(agglomerative, "MEAN_ROWS", n_rows)
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(3), 200)
    X = 8 * np.eye(3)[labels] + rng.normal(size=(600, 3))  # as narrow, and groups of centres
    mixed = np.where(rng.random(600) < 0.1, rng.integers(3, size=600), labels)
    moments = agglomerative._Moments(agglomerative._Rows(X, None, True), mixed, 3, "full")
    found = agglomerative._closer(mixed, moments.evidence(mixed), moments, rng)
    assert adjusted_rand_score(labels, found) == 1 > adjusted_rand_score(labels, mixed)
    # Two groups around one mean: distances would tell halves of both apart.
    labels = np.repeat([0, 1], 300)
    X = rng.normal(size=(600, 3)) * np.where(labels, 10, 0.1)[:, None]
    moments = agglomerative._Moments(agglomerative._Rows(X, None, True), labels, 2, "full")
    found = agglomerative._closer(labels, moments.evidence(labels), moments, rng)
    np.testing.assert_array_equal(found, labels)


def test_few_neighbours_may_merge_where_means_will_be_0(monkeypatch):
    X = np.random.default_rng(0).normal(size=(4000, 5)) ** 3

    def labels(assume_centered):
        given = X, X[:900], (None, np.ones(900)), 60, "full", np.random.default_rng(0)
        found = agglomerative.agglomerative_clusters(*given, assume_centered=assume_centered)
        return found.tobytes()

    free, centred = labels(False), labels(True)
    assert free != centred
    monkeypatch.setattr(agglomerative, "MOST_NEIGHBORS", 4)
    assert labels(False) == centred
    seen = []
    monkeypatch.setattr(
        starts,
        "agglomerative_clusters",
        lambda *_, **given: seen.append(given) or np.arange(len(X)) % 6,
    )
    for zero in (False, True):
        SparseMixture(6, assume_centered=zero, max_iter=1, random_state=0).fit(X)
    assert [given["assume_centered"] for given in seen] == [False, True]


@pytest.mark.parametrize("shape", SHAPES)
def test_clusters_know_neither_threads_nor_strides(shape):
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(3000, 40)), rng.uniform(0.5, 2, 3000)
    found = []
    for n_threads, rows, share in (
        (1, X, weight),
        (4, X, weight),
        (1, np.asfortranarray(X), np.repeat(weight, 2)[::2]),
    ):
        with threadpool_limits(n_threads):
            labels = agglomerative.agglomerative_clusters(
                rows, X[:900], (share, weight[:900]), 60, shape, np.random.default_rng(0)
            )
        found.append(labels.tobytes())
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_memory_is_that_of_coordinates_and_of_single_precision(dtype):
    X = np.random.default_rng(0).normal(size=(30_000, 60)).astype(dtype)
    weight = None, np.ones(1000)
    tracemalloc.start()
    try:
        agglomerative.agglomerative_clusters(
            X, X[:1000], weight, 20, "full", np.random.default_rng(0)
        )
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.3 * 12 * X.size


def test_clusters_are_as_many_as_wanted_and_never_more():
    X, _ = groups()
    for n_clusters in (1, 7, 95, 380, 500):
        found = agglomerative.agglomerative_clusters(
            X, X, (None, np.ones(len(X))), n_clusters, "full", np.random.default_rng(0)
        )
        assert len(np.unique(found)) == min(n_clusters, len(X))
        assert found.min() >= 0 and found.max() < n_clusters


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_odd_data_have_a_start(shape, dtype):
    rng = np.random.default_rng(0)
    steps = rng.integers(0, 2, (60, 4)).astype(dtype)  # few different rows
    huge = rng.normal(size=(60, 4)).astype(dtype) * np.array([1e12, 1, 1e-12, 0], dtype=dtype)
    for X in (steps, huge, np.ones((5, 2), dtype=dtype), np.zeros((1, 3), dtype=dtype)):
        with np.errstate(divide="raise", invalid="raise", over="raise"):
            distinct = np.unique(X, axis=0)
            weight = np.zeros(len(X)) + 1e-3, np.ones(len(distinct))
            found = agglomerative.agglomerative_clusters(
                X, distinct, weight, 3, shape, np.random.default_rng(0)
            )
        assert found.shape == (len(X),) and 0 <= found.min() <= found.max() < 3


def test_more_features_than_axes_and_a_start_in_any_order():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(150, 50)) + shift for shift in (0, 4, 9)])
    for rows in (X, X[rng.permutation(len(X))]):
        mixture = SparseMixture(3, random_state=0, max_iter=5).fit(rows)
        labels = np.repeat([0, 1, 2], 150)
        assert adjusted_rand_score(mixture.predict(X), labels) == 1


def test_the_default_start_is_better_than_k_means_plus_plus():
    rng = np.random.default_rng(3)
    centres, wide = rng.normal(size=(12, 4)) * 4, rng.uniform(0.2, 2, (12, 1))
    labels = rng.choice(12, 1500, p=rng.dirichlet(np.ones(12)))
    X = centres[labels] + wide[labels] * rng.normal(size=(1500, 4))
    params = {"n_components": 12, "max_iter": 10, "tol": 0}
    bounds = [
        SparseMixture(random_state=seed, init_params=start, **params).fit(X).lower_bound_
        for start in ("agglomerative", "k-means++")
        for seed in range(4)
    ]
    assert np.mean(bounds[:4]) > np.mean(bounds[4:])


# ---------------------------------------------------------------------------- what users give


def given(shape, rng, K=3, D=3):
    matrices = np.array([np.linalg.inv(np.cov(rng.normal(size=(D, 9)))) for _ in range(K)])
    precisions = {
        "full": matrices,
        "tied": matrices[0],
        "diag": rng.uniform(0.5, 2, (K, D)),
        "spherical": rng.uniform(0.5, 2, K),
    }[shape]
    return {
        "weights_init": [0.2, 0.3, 0.5],
        "means_init": rng.normal(size=(K, D)) * 3,
        "precisions_init": precisions,
    }


@pytest.mark.parametrize("shape", SHAPES)
def test_steps_from_given_parameters_are_scikit_learns(shape):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 3)) @ rng.normal(size=(3, 3)) + rng.integers(0, 3, (240, 1)) * 4
    params = {"covariance_type": shape, "max_iter": 6, "tol": 0, **given(shape, rng)}
    with pytest.warns(ConvergenceWarning):
        peer = GaussianMixture(3, **params).fit(X)
    mixture = SparseMixture(
        3, estimation="ml", sparsity_level=None, learning_method="batch", **params
    ).fit(X)
    for name in ("weights_", "means_", "covariances_", "precisions_"):
        np.testing.assert_allclose(getattr(mixture, name), getattr(peer, name), rtol=1e-9)
    np.testing.assert_allclose(mixture.bic(X), peer.bic(X))
    np.testing.assert_allclose(mixture.aic(X), peer.aic(X))
    assert mixture._n_parameters() == peer._n_parameters()
    for estimation in ("bayes", "map"):
        history = SparseMixture(3, estimation=estimation, **params).fit(X).bound_history_
        assert np.diff(history).min() > -1e-3  # but for reg_covar


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["weights_init", "precisions_init"])
def test_what_is_not_given_follows_from_the_data(shape, name):
    rng = np.random.default_rng(0)
    X, _ = groups((80, 60, 40))
    one = given(shape, rng)[name]
    params = {"covariance_type": shape, "random_state": 0, "max_iter": 30}
    mixture = SparseMixture(3, **{name: one}, **params).fit(X)
    np.testing.assert_allclose(
        mixture.score(X), SparseMixture(3, **params).fit(X).score(X), atol=0.1
    )
    few = SparseMixture(3, means_init=np.repeat(X[:1], 3, axis=0), **{name: one}, **params)
    assert np.isfinite(few.fit(X).lower_bound_)  # two begin without data


@pytest.mark.parametrize("observation", ["multinomial", "bernoulli"])
def test_first_weights_of_counts_and_bits(observation):
    X = np.repeat(np.eye(3), 20, axis=0)
    options = {"observation": observation, "estimation": "ml", "means_init": np.eye(3)}
    mixture = SparseMixture(3, weights_init=[0.7, 0.2, 0.1], **options)
    corpus = mixture._corpus(*mixture._validate_rows(X, reset=True))
    model = mixture._model(X.dtype, 3, corpus, mixture._new_parts(corpus))
    state = mixture._new_state(model, corpus, 0)
    np.testing.assert_allclose(state.stats.value("count"), [42, 12, 6])
    np.testing.assert_allclose(mixture.fit(X).weights_, 1 / 3)
    n_parameters = {"multinomial": 3 * 2 + 2, "bernoulli": 3 * 3 + 2}[observation]
    np.testing.assert_allclose(mixture.aic(X), -2 * 60 * mixture.score(X) + 2 * n_parameters)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"weights_init": [0.5, 0.6]}, "weights_init must sum to 1"),
        ({"weights_init": [1.0]}, "weights_init has shape"),
        ({"weights_init": [-0.5, 1.5]}, "weights_init must not be negative"),
        ({"precisions_init": np.ones((2, 3))}, "precisions_init has shape"),
        ({"precisions_init": -np.ones((2, 3, 3))}, "precisions_init must be positive definite"),
        ({"precisions_init": np.triu(np.ones((2, 3, 3)))}, "precisions_init must be symmetric"),
        (
            {"precisions_init": np.ones((2, 3)), "observation": "bernoulli"},
            "precisions_init is for observation='gaussian' only",
        ),
        ({"covariance_type": "tied", "assume_centered": True}, "all components are one"),
    ],
)
def test_what_cannot_begin_says_so(options, message):
    X = np.random.default_rng(0).integers(0, 2, (30, 3)).astype(float)
    with pytest.raises(ValueError, match=message):
        SparseMixture(2, **options).fit(X)


# ---------------------------------------------------------------------------- tied covariances


@pytest.mark.parametrize("estimation", ["bayes", "map", "ml"])
def test_one_tied_component_is_a_full_one(estimation):
    X, _ = groups()
    full, tied = (
        SparseMixture(1, covariance_type=shape, estimation=estimation).fit(X)
        for shape in ("full", "tied")
    )
    np.testing.assert_allclose(tied.lower_bound_, full.lower_bound_, rtol=1e-10)
    np.testing.assert_allclose(tied.covariances_, full.covariances_[0], rtol=1e-9)
    np.testing.assert_allclose(tied.precisions_, full.precisions_[0], rtol=1e-9)
    np.testing.assert_allclose(tied.score_samples(X), full.score_samples(X), rtol=1e-9)


def test_the_bound_of_tied_components_with_certain_labels_is_the_evidence():
    X, labels = groups((30, 20, 10))
    mixture = SparseMixture(
        3, sparsity_level=1, covariance_type="tied", reg_covar=0, random_state=0
    ).fit(X)
    found = mixture.predict(X)
    assert adjusted_rand_score(labels, found) == 1
    # By the chain rule, row by row: each is Student's t given the rows before it.
    prior = mixture.covariance_prior_, mixture.degrees_of_freedom_prior_
    value, scale, nu, beta = 0.0, prior[0].copy(), prior[1], np.ones(3)
    means = np.repeat(mixture.mean_prior_[None], 3, axis=0)
    for x, k in zip(X, found, strict=True):
        df = nu - 2
        shape = scale * (beta[k] + 1) / (beta[k] * df)
        value += multivariate_t(means[k], shape, df).logpdf(x)
        gap = x - means[k]
        scale += beta[k] / (beta[k] + 1) * np.outer(gap, gap)
        means[k] += gap / (beta[k] + 1)
        beta[k] += 1
        nu += 1
    count = np.bincount(found, minlength=3).astype(float)
    value += mixture._weights.bound(count, mixture._weights.estimate(count))
    np.testing.assert_allclose(mixture.lower_bound_, value, rtol=1e-8)


def test_tied_components_are_merged_and_deleted_by_the_whole_bound():
    X, labels = groups((60, 60, 60))
    X = X + np.random.default_rng(1).normal(size=X.shape)
    for method in ("batch", "memoized"):
        mixture = SparseMixture(
            8,
            covariance_type="tied",
            weight_concentration_prior_type="dirichlet_process",
            learning_method=method,
            reg_covar=0,
            random_state=0,
        ).fit(X)
        assert mixture.n_components_ == 3
        assert adjusted_rand_score(labels, mixture.predict(X)) == 1
        assert np.diff(mixture.bound_history_).min() > -1e-9 * abs(mixture.lower_bound_)
        rows, of = mixture.sample(2000, random_state=0)
        gap = rows - mixture.means_[of]
        np.testing.assert_allclose(np.cov(gap.T), mixture.covariances_, atol=0.5)


@pytest.mark.parametrize("numbers", ["any", "few", "equal"])
def test_rows_are_sorted_as_by_two_keys(numbers):
    rng = np.random.default_rng(0)
    for size in (0, 1, 2, 3, 50, 700):
        value = rng.integers(0, max(1, size // 3), size=size) / 3 - 1
        value[value == 0] *= rng.choice([-1, 1], size=(value == 0).sum())  # 0 and -0 are equal
        number = rng.integers(2**63, size=size, dtype=np.uint64) * np.uint64(2)
        if numbers == "few":
            number = number[rng.integers(size, size=size)] if size else number
        elif numbers == "equal":
            number[:] = 2**60
        wanted = np.lexsort((number, value))
        np.testing.assert_array_equal(helpers._sorted_by(value, number), wanted)
