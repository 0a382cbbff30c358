"""Kernels of hard clusters against numpy."""

import numpy as np
import pytest
from scipy.special import gammaln

from sklearn_sparsepost._kernels import clusters as kernels
from sklearn_sparsepost._kernels import merges

DOUBT = 1e-3
NAMES = ("count", "means", "second", "further", "value")


# ---------------------------------------------------------------------------- rows


def nearest(rows, centres, shift=0.0, scale=1.0, doubt=DOUBT):
    single = ((rows - shift) * scale).astype(np.float32)
    scaled = (centres - shift) * scale
    labels = np.full(len(rows), -1)
    kernels.nearest_centres(
        single,
        (single**2).sum(axis=1),
        (-2 * scaled).astype(np.float32),
        (scaled**2).sum(axis=1).astype(np.float32),
        rows,
        centres.astype(np.float64),
        doubt,
        labels,
    )
    return labels


def distances(rows, centres):
    """Squared, row by centre."""
    gap = rows[:, None].astype(np.float64) - centres
    return (gap**2).sum(axis=2)


@pytest.mark.parametrize("n_rows", [0, 1, 511, 512, 1500])
@pytest.mark.parametrize("K", [1, 2, 33])
@pytest.mark.parametrize("D", [1, 5, 40])
def test_nearest_centres(dtype, n_rows, K, D):
    rng = np.random.default_rng(0)
    rows, centres = rng.normal(size=(n_rows, D)).astype(dtype), rng.normal(size=(K, D))
    exact = distances(rows, centres)
    found = exact[np.arange(n_rows), nearest(rows, centres)]
    np.testing.assert_array_less(found, 1.001 * exact.min(axis=1) + 1e-12)
    # All in doubt, all are compared in double.
    np.testing.assert_array_equal(nearest(rows, centres, doubt=1e9), exact.argmin(axis=1))


def test_what_single_precision_rounds_away_is_found_in_double(dtype):
    rng = np.random.default_rng(0)
    far = rng.integers(3, size=(900, 1)) * (1e3 if dtype == np.float32 else 1e6)
    # Groups far apart; squares of a few digits, and 0.
    for shift, scale in ((far, 2.0**-24), (0, 2.0**-71), (0, 0)):
        rows = (shift + rng.normal(size=(900, 4))).astype(dtype)
        centres = rows[:40].astype(np.float64)
        exact = distances(rows, centres)
        found = exact[np.arange(900), nearest(rows, centres, scale=scale)]
        np.testing.assert_array_less(found, 1.001 * exact.min(axis=1) + 1e-9)


def test_of_equal_centres_the_first_is_nearest(dtype):
    rows, centres = np.eye(4, dtype=dtype), np.eye(4)[[3, 0, 1, 0, 1, 2]]
    for doubt in (0, DOUBT, 1e9):
        np.testing.assert_array_equal(nearest(rows, centres, doubt=doubt), [1, 2, 5, 0])


@pytest.mark.parametrize("D", [1, 4, 7, 63])
@pytest.mark.parametrize("n_rows", [1, 511, 1300])
def test_draw_far_rows(n_rows, D):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n_rows, D)).astype(np.float32)
    weight, uniforms = rng.uniform(0.1, 2, size=n_rows), rng.random(30)
    found = np.full(31, n_rows // 2)
    kernels.draw_far_rows(np.ascontiguousarray(rows.T), weight, uniforms, found)
    for draw, uniform in enumerate(uniforms):
        gap = rows[:, None].astype(float) - rows[found[: draw + 1]]
        share = weight * (gap**2).sum(axis=2).min(axis=1)
        ends = np.append(0, share.cumsum())
        row, slack = found[draw + 1], 1e-5 * ends[-1]
        assert ends[row] - slack <= uniform * ends[-1] <= ends[row + 1] + slack
        assert n_rows == 1 or row not in found[: draw + 1]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_last", [0, 2, 5])
@pytest.mark.parametrize("n_rows", [0, 1, 300])
def test_label_sums(dtype, n_rows, n_last, weighted):
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(n_rows, 5)).astype(dtype), rng.integers(4, size=n_rows)
    weight = rng.uniform(size=n_rows) if weighted else np.empty(0)
    around = rng.normal(size=5)
    sums, squares = np.ones((5, 5)), np.ones((5, n_last))
    kernels.label_sums(rows, labels, weight, around, sums, squares)
    share = (labels[:, None] == np.arange(5)) * (weight[:, None] if weighted else 1.0)
    gap = rows - around
    np.testing.assert_allclose(sums, 1 + share.T @ gap, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(squares, 1 + share.T @ gap[:, 5 - n_last :] ** 2, rtol=1e-12)


# ---------------------------------------------------------------------------- clusters


def log_evidence(count, scatter, n_features):
    """Of one cluster: its scatter is a matrix, variances, or the sum of all variances."""
    full = scatter.ndim == 2
    shared = n_features // scatter.shape[0]
    prior = n_features + 2.0 if full else 3.0
    variance = max((np.trace(scatter) if full else scatter.sum()) / (count * n_features), 1e-6)
    nu, scale = prior + count - 1, shared * prior * variance
    if full:
        log_det = np.linalg.slogdet(scatter + scale * np.eye(n_features))[1]
        lower = np.arange(n_features)
        log_gamma = (gammaln(0.5 * (nu - lower)) - gammaln(0.5 * (prior - lower))).sum()
    else:
        log_det = shared * np.log(scatter + scale).sum()
        log_gamma = gammaln(0.5 * shared * nu) - gammaln(0.5 * shared * prior)
        log_gamma *= len(scatter)
    value = log_gamma + 0.5 * prior * n_features * np.log(scale) - 0.5 * nu * log_det
    return value - 0.5 * n_features * (np.log(count) + (count - 1) * np.log(np.pi))


class Reference:
    """Clusters, slow and obvious."""

    def __init__(self, count, means, second, further):
        self.count, self.means, self.second, self.further = (
            part.copy() for part in (count, means, second, further)
        )
        self.value = np.array([self.evidence(*self.cluster(k)) for k in range(len(count))])

    def cluster(self, k):
        return self.count[k], self.means[k], self.second[k], self.further[k]

    def evidence(self, count, mean, second, further):
        if count == 0:
            return 0.0
        value, n_axes = gammaln(count), len(second)
        if n_axes:
            value += log_evidence(count, second, n_axes)
        if len(further):
            value += log_evidence(count, further, len(mean) - n_axes)
        return value

    def union(self, one, two):
        (n, mean, second, further), (m, other, *scatter) = self.cluster(one), self.cluster(two)
        gap, n_axes = other - mean, len(second)
        spread = n * m / (n + m) * np.outer(gap, gap)
        added = np.diag(spread)[n_axes:]
        if len(further) < len(added):
            added = added.sum(keepdims=True)
        second = second + scatter[0] + spread[:n_axes, :n_axes]
        return n + m, mean + m / (n + m) * gap, second, further + scatter[1] + added

    def gain(self, one, two):
        return self.evidence(*self.union(one, two)) - self.value[one] - self.value[two]

    def is_late(self, pair, gain, heavy):
        """Whether others merge first: the union is heavy, and gains little."""
        count = self.count[list(pair)].sum()
        return count > heavy and gain < 0.15 * count

    def merge(self, pairs, most, heavy=np.inf):
        """Where each cluster is in the end, and how many merges were made."""
        target, n_merges = np.arange(len(self.count)), 0
        pairs = sorted(map(tuple, pairs.tolist()))
        while n_merges < most and pairs:
            gains = np.array([self.gain(*pair) for pair in pairs])
            ranks = np.round(gains / (1e-9 * np.abs(gains).max()))
            late = np.array(list(map(self.is_late, pairs, gains, [heavy] * len(pairs))))
            used, left = {}, 1 + (most - n_merges) // 3
            for at in np.lexsort((-ranks, late)):
                one, two = pairs[at]
                if left == 0 or used.keys() & {one, two}:
                    continue
                if used and late[at]:
                    break
                union = self.union(one, two)
                self.count[one], self.means[one], self.second[one], self.further[one] = union
                self.value[one] = self.evidence(*union)
                used |= {one: one, two: one}
                n_merges, left = n_merges + 1, left - 1
            target = np.array([used.get(k, k) for k in target])
            pairs = {tuple(sorted(used.get(k, k) for k in pair)) for pair in pairs}
            pairs = sorted(pair for pair in pairs if pair[0] != pair[1])
        return target, n_merges


# Axes of matrices, further features, and whether these have one variance.
SHAPES = [(3, 0, False), (1, 0, False), (26, 0, False), (0, 3, False), (0, 17, False)]
SHAPES += [(0, 4, True), (5, 9, False), (8, 1, False)]


def some_clusters(shape, K=40, seed=0):
    """Statistics of clusters of few or many rows, some of which lie upon one point."""
    n_axes, n_further, sums = shape
    rng = np.random.default_rng(seed)
    D = n_axes + n_further
    count = rng.choice([0.5, 1, 2, 7, 300], size=K)
    means = 2 * rng.normal(size=(K, D))
    second, further = np.zeros((K, n_axes, n_axes)), np.zeros((K, n_further))
    for k in range(K):
        rows = rng.normal(size=(int(count[k]), D)) * rng.uniform(0.1, 2)
        rows -= rows.mean(axis=0) if len(rows) else 0
        second[k] = rows[:, :n_axes].T @ rows[:, :n_axes]
        further[k] = (rows[:, n_axes:] ** 2).sum(axis=0)
    return count, means, second, further.sum(axis=1, keepdims=True) if sums else further


@pytest.mark.parametrize("shape", SHAPES)
def test_log_evidence(shape):
    parts = some_clusters(shape)
    parts[0][3] = 0
    value = np.full(40, np.nan)
    merges.log_evidence(*parts, value)
    np.testing.assert_allclose(value, Reference(*parts).value, rtol=1e-10, atol=1e-8)
    assert value[3] == 0
    none = [part[:0].copy() for part in (*parts, value)]
    merges.log_evidence(*none)


@pytest.mark.parametrize("scale", [1e-12, 1e9])
@pytest.mark.parametrize("shape", SHAPES)
def test_log_evidence_of_any_scale(shape, scale):
    count, means, second, further = some_clusters(shape)
    parts = count * 1e5, means, second * scale, further * scale
    value = np.empty(40)
    merges.log_evidence(*parts, value)
    np.testing.assert_allclose(value, Reference(*parts).value, rtol=1e-10)


@pytest.mark.parametrize("shape", SHAPES)
def test_log_evidence_of_huge_weights(shape):
    count, means, second, further = some_clusters(shape)
    parts = count * 1e20, means, second * 1e20, further * 1e20
    value = np.empty(40)
    merges.log_evidence(*parts, value)
    assert np.isfinite(value).all()  # rounding leaves no matrix without a determinant
    if not shape[0]:
        np.testing.assert_allclose(value, Reference(*parts).value, rtol=1e-10)


@pytest.mark.parametrize("heavy", [np.inf, 302.5, 20, 0])
@pytest.mark.parametrize("most", [0, 1, 5, 30, 39, 100])
@pytest.mark.parametrize("shape", SHAPES)
def test_merge_clusters(shape, most, heavy):
    parts = some_clusters(shape, seed=most)
    wanted = Reference(*parts)
    rng = np.random.default_rng(1)
    pairs = np.unique(np.sort(rng.integers(40, size=(90, 2)), axis=1), axis=0)
    pairs = pairs[pairs[:, 0] < pairs[:, 1]]
    value, target = wanted.value.copy(), np.arange(40)
    pairs = pairs.astype(np.int32)
    found = merges.merge_clusters(*parts, value, pairs, most, heavy, target)
    labels, n_merges = wanted.merge(pairs, most, heavy)
    assert found == n_merges == 40 - len(np.unique(target)) <= most
    np.testing.assert_array_equal(target, labels)
    left = np.unique(target)
    for one, name in zip((*parts, value), NAMES, strict=True):
        np.testing.assert_allclose(one[left], getattr(wanted, name)[left], rtol=1e-8, atol=1e-8)


def test_merges_end_with_the_pairs():
    parts = some_clusters(SHAPES[0], K=6)
    value, target = np.empty(6), np.arange(6)
    merges.log_evidence(*parts, value)
    assert merges.merge_clusters(*parts, value, np.empty((0, 2), np.int32), 3, np.inf, target) == 0
    pairs = np.array([[0, 4], [1, 4], [2, 3]], dtype=np.int32)
    assert merges.merge_clusters(*parts, value, pairs, 5, np.inf, target) == 3
    np.testing.assert_array_equal(target, [0, 0, 2, 2, 0, 5])


def test_equal_gains_are_taken_by_the_order_of_clusters():
    count, means = np.ones(6), np.array([[0.0], [1], [10], [11], [20], [21]])
    parts = count, means, np.zeros((6, 0, 0)), np.zeros((6, 1))
    value, target = np.empty(6), np.arange(6)
    merges.log_evidence(*parts, value)
    pairs = np.array([[4, 5], [0, 1], [2, 3]], dtype=np.int32)
    merges.merge_clusters(*parts, value, pairs, 1, np.inf, target)
    np.testing.assert_array_equal(target, [0, 0, 2, 3, 4, 5])


@pytest.mark.parametrize("n_rows", [4000, 40_000])
def test_halves_of_a_heavy_gaussian_merge_and_two_widths_come_late(n_rows):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 3))
    X[n_rows // 2 :] *= 2.6  # to merge both widths gains less a row than halves do
    X = np.concatenate([X, rng.normal(loc=50, size=(n_rows, 3)), [[-90.0] * 3, [-99.0] * 3]])
    labels = np.repeat([0, 1, 2, 3, 4], [n_rows // 2, n_rows // 2, n_rows, 1, 1])
    labels[(labels == 2) & (X[:, 0] > 50)] = 5
    parts = [np.array([np.sum(labels == k) for k in range(6)], dtype=float)]
    parts += [np.array([X[labels == k].mean(axis=0) for k in range(6)])]
    gaps = [X[labels == k] - parts[1][k] for k in range(6)]
    parts += [np.array([gap.T @ gap for gap in gaps]), np.empty((6, 0)), np.empty(6)]
    merges.log_evidence(*parts)
    pairs = np.array([[0, 1], [2, 5], [3, 4]], dtype=np.int32)
    for heavy, wanted in ((np.inf, [0, 0, 2, 3, 4, 2]), (n_rows / 2, [0, 1, 2, 3, 3, 2])):
        held, target = [part.copy() for part in parts], np.arange(6)
        assert merges.merge_clusters(*held, pairs, 2, heavy, target) == 2
        np.testing.assert_array_equal(target, wanted)
