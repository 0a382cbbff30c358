"""The first topics: k-means++ for counts, anchor words, random."""

import numpy as np
import pytest
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from sklearn_sparsepost._kernels._seeding import add_by_label, add_centre
from sklearn_sparsepost._run.dispatch import Corpus
from sklearn_sparsepost._starts import bregman
from sklearn_sparsepost._starts.anchors import (
    _cooccurrence,
    _find_anchors,
    _project_to_simplex,
    _simplex_least_squares,
    anchor_words,
)
from sklearn_sparsepost._starts.bregman import (
    _choose_centres,
    _Divergence,
    _draw,
    _Gains,
    bregman_kmeans_plusplus,
    nearest,
    sum_of_nearest,
)
from sklearn_sparsepost._starts.topics import _random_topics

# ---------------------------------------------------------------------------- data and references


@pytest.fixture
def counts():
    """40 documents of 25 words; every tenth is empty."""
    rng = np.random.default_rng(0)
    dense = rng.poisson(0.6, size=(40, 25)).astype(float)
    dense[::10] = 0
    return sp.csr_array(dense)


@pytest.fixture
def clustered():
    """60 documents on three disjoint sets of eight words each, and which set each is of."""
    rng = np.random.default_rng(1)
    truth = np.repeat([0, 1, 2], 20)
    dense = np.zeros((60, 24))
    for row, group in enumerate(truth):
        dense[row, 8 * group : 8 * group + 8] = rng.multinomial(rng.integers(5, 200), [1 / 8] * 8)
    order = rng.permutation(60)
    return sp.csr_array(dense[order]), truth[order]


@pytest.fixture
def separable():
    """2000 documents from four topics, each with an anchor: words 0 to 3."""
    rng = np.random.default_rng(2)
    topics = rng.dirichlet(np.full(30, 0.3), size=4)
    topics[:, :4] = 0.15 * np.eye(4)
    topics /= topics.sum(axis=1, keepdims=True)
    mixture = rng.dirichlet(np.full(4, 0.2), size=2000) @ topics
    dense = np.array([rng.multinomial(200, p) for p in mixture])
    return sp.csr_array(dense.astype(float)), topics


def slow_divergence(x, centre, smoothing):
    """N KL(x / N || (c + s) / sum(c + s)), word by word."""
    q = (centre + smoothing) / (centre + smoothing).sum()
    present = x > 0
    return float((x[present] * np.log(x[present] / x.sum() / q[present])).sum())


def group_sums(X, labels, n_clusters):
    out = np.zeros((X.shape[1], n_clusters))
    for row, label in zip(X.toarray(), labels, strict=True):
        out[:, label] += row
    return out


# ---------------------------------------------------------------------------- kernel


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_counts_are_added_by_label(counts, index):
    rng = np.random.default_rng(0)
    labels, weight = rng.integers(6, size=40), rng.uniform(0.5, 2, size=40)
    table = np.ones((25, 6))
    pointers = counts.indptr.astype(index), counts.indices.astype(index)
    add_by_label(*pointers, counts.data, labels, weight, table)
    expected = np.ones((25, 6))
    for x, label, w in zip(counts.toarray(), labels, weight, strict=True):
        expected[:, label] += w * x
    np.testing.assert_allclose(table, expected)


# ---------------------------------------------------------------------------- k-means++


@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_divergences_match_reference(counts, vector, index):
    """Centre after centre: to each, to the nearest, and the least where another gains anything."""
    smoothing, dense = np.full(25, 0.1), counts.toarray()
    if vector:
        smoothing = np.random.default_rng(3).uniform(0.01, 1, 25)
    slow = [[slow_divergence(x, c, smoothing) if x.any() else 0 for x in dense] for c in dense]
    X = sp.csr_array((counts.data, counts.indices, counts.indptr), counts.shape)
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    divergence = _Divergence(X, smoothing)
    assert divergence.words.dtype == divergence.by_word[0].dtype
    np.testing.assert_allclose(divergence.itself, np.diag(slow), atol=1e-10)
    distance, nearest = np.empty(40), np.full(40, -1, dtype=np.intp)
    closest, least = np.full(40, np.inf), np.full(40, np.inf)
    floor = np.random.default_rng(4).uniform(0, 3, 40)
    for number, row in enumerate([7, 3, 0, 7, 21]):
        static = *divergence.by_word, divergence.tokens, divergence.constant, floor
        centre = divergence.centre(row)
        add_centre(*static, *centre, number, distance, nearest, closest, least)
        np.testing.assert_allclose(distance, slow[row], atol=1e-10)
        so_far = np.array([slow[c] for c in [7, 3, 0, 7, 21][: number + 1]])
        np.testing.assert_allclose(closest, so_far.min(axis=0), atol=1e-10)
        filled = counts.sum(axis=1) > 0
        np.testing.assert_array_equal(nearest[filled], so_far.argmin(axis=0)[filled])
        np.testing.assert_allclose(
            least, np.where(so_far > floor, so_far, 0).min(axis=0), atol=1e-10
        )


def test_divergences_to_the_corpus(counts):
    rng = np.random.default_rng(3)
    smoothing, weight, dense = rng.uniform(0.01, 1, 25), rng.uniform(0.5, 2, 40), counts.toarray()
    found = _Divergence(counts, smoothing).to_corpus(weight)
    expected = [slow_divergence(x, weight @ dense, smoothing) if x.any() else 0 for x in dense]
    np.testing.assert_allclose(found, expected, atol=1e-10)


def test_divergences_in_blocks(counts, monkeypatch):
    """What is summed over words has the same bits however few documents are looked at together."""
    smoothing = np.random.default_rng(3).uniform(0.01, 1, 25)
    whole = _Divergence(counts, smoothing)
    monkeypatch.setattr("sklearn_sparsepost._starts.bregman.BLOCK_BYTES", 2000)
    parts = _Divergence(counts, smoothing)
    for name in ("nearer", "constant", "itself"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))


@pytest.mark.parametrize("n_threads", [1, 3])
def test_lazy_choice_is_the_best_candidate(counts, n_threads, monkeypatch):
    """Candidates passed over for what they gained earlier would not have been the best."""
    monkeypatch.setattr(bregman, "threads_for", lambda work: n_threads)
    rng = np.random.default_rng(9)
    smoothing, filled = rng.uniform(0.01, 1, 25), np.flatnonzero(counts.sum(axis=1))
    scored, importance = filled[::2], rng.uniform(1, 3, len(filled[::2]))
    divergence = _Divergence(counts, smoothing)
    gains, dense = _Gains(divergence, scored, importance), counts.toarray()
    least = np.array([slow_divergence(x, dense.sum(axis=0), smoothing) for x in dense])
    looked_at = 0
    for _ in range(12):
        candidates = np.sort(rng.choice(filled, 20, replace=False))
        slow = {}
        for d in candidates:
            to_centre = np.array([slow_divergence(dense[i], dense[d], smoothing) for i in scored])
            slow[d] = (np.maximum(least[scored] - to_centre, 0) * importance).sum()
        before = gains.most.copy()
        best = gains.best_of(candidates, least)
        assert best in candidates
        np.testing.assert_allclose(slow[best], max(slow.values()), rtol=1e-4)
        looked = np.flatnonzero(gains.most != before)
        np.testing.assert_allclose(gains.most[looked], [slow[d] for d in looked], atol=1e-3)
        looked_at += len(looked)
        least = np.minimum(least, [slow_divergence(x, dense[best], smoothing) for x in dense])
    assert looked_at < 12 * 20 / 2


def test_assignment_matches_reference(counts):
    smoothing = np.random.default_rng(4).uniform(0.05, 0.5, 25)
    centres = counts[[1, 2, 0, 3]]  # row 0 is empty: a cluster that may get nothing
    labels, dense = nearest(counts, centres, smoothing), counts.toarray()
    for x, label in zip(dense, labels, strict=True):
        if x.any():
            slow = [slow_divergence(x, dense[c], smoothing) for c in (1, 2, 3)]
            assert label == [0, 1, 3][int(np.argmin(slow))]
        else:
            assert label == 0


def test_assignment_in_blocks(counts, monkeypatch):
    """Neither blocks of clusters nor of documents change the result."""
    smoothing, centres = np.full(25, 0.1), counts[np.arange(1, 20)]
    whole = nearest(counts, centres, smoothing)
    monkeypatch.setattr("sklearn_sparsepost._starts.bregman.TOPIC_BLOCK", 3)
    monkeypatch.setattr("sklearn_sparsepost._starts.helpers.BLOCK_BYTES", 100)
    np.testing.assert_array_equal(nearest(counts, centres, smoothing), whole)


@pytest.mark.parametrize("n_refine", [0, 1, 2, 4])
@pytest.mark.parametrize("max_samples", [15, 1000])
def test_all_tokens_are_accounted_for(counts, n_refine, max_samples):
    labels, topics = bregman_kmeans_plusplus(
        counts, 7, n_refine=n_refine, max_samples=max_samples, random_state=0
    )
    assert topics.shape == (25, 7)
    assert topics.dtype == np.float64 and topics.flags.c_contiguous
    assert labels.shape == (40,) and labels.dtype == np.intp
    np.testing.assert_allclose(topics, group_sums(counts, labels, 7))
    np.testing.assert_allclose(topics.sum(axis=1), counts.sum(axis=0))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n_scored", [10, 4000])
def test_separated_clusters_are_recovered(clustered, seed, n_scored):
    X, truth = clustered
    labels, topics = bregman_kmeans_plusplus(X, 3, n_scored=n_scored, random_state=seed)
    pairs = {(int(a), int(b)) for a, b in zip(labels, truth, strict=True)}
    assert len(pairs) == 3
    assert (topics > 0).sum() == 24


def test_centres_are_distinct_and_not_empty(counts):
    X = sp.vstack([counts] * 3).tocsr()  # each document three times
    centres, _ = _choose_centres(
        X, np.ones(X.shape[0]), 36, np.full(25, 0.1), 4, 4000, np.random.default_rng(0)
    )
    assert len(centres) == 36  # all the different filled ones
    rows = {tuple(row) for row in X[centres].toarray()}
    assert len(rows) == 36
    assert X[centres].sum(axis=1).min() > 0


def test_nearest_centres_are_found_on_the_way(counts):
    smoothing, rng = np.full(25, 0.1), np.random.default_rng(0)
    centres, found = _choose_centres(counts, np.ones(40), 6, smoothing, 4, 4000, rng)
    again = nearest(counts, counts[centres], smoothing)
    filled = counts.sum(axis=1) > 0
    np.testing.assert_array_equal(found[filled], again[filled])


def test_more_clusters_than_documents(counts):
    X = sp.csr_array(sp.vstack([counts[:5], counts[:5]]))
    _, topics = bregman_kmeans_plusplus(X, 30, random_state=0)
    used = topics.any(axis=0)
    assert 1 < used.sum() <= 4
    np.testing.assert_allclose(topics.sum(axis=1), X.sum(axis=0))


def test_one_document_one_cluster_and_nothing():
    X = sp.csr_array(np.array([[0.0, 3.0, 1.0]]))
    labels, topics = bregman_kmeans_plusplus(X, 2, random_state=0)
    np.testing.assert_array_equal(labels, [0])
    np.testing.assert_array_equal(topics, [[0, 0], [3, 0], [1, 0]])
    labels, topics = bregman_kmeans_plusplus(sp.csr_array((4, 3)), 2, random_state=0)
    np.testing.assert_array_equal(labels, np.zeros(4))
    np.testing.assert_array_equal(topics, np.zeros((3, 2)))


@pytest.mark.parametrize("start", [bregman_kmeans_plusplus, anchor_words])
def test_same_seed_same_bytes(counts, start):
    def run(X, seed):
        out = start(X, 6, random_state=seed)
        return out[1] if isinstance(out, tuple) else out

    first = run(counts, 0).tobytes()
    assert run(counts, 0).tobytes() == first
    assert run(counts, np.random.default_rng(0)).tobytes() == first
    for dtype in (np.float32, np.int32, np.int64):
        assert run(counts.astype(dtype), 0).tobytes() == first
    wide = sp.csr_array(
        (counts.data, counts.indices.astype(np.int64), counts.indptr.astype(np.int64)),
        shape=counts.shape,
    )
    assert run(wide, 0).tobytes() == first


@pytest.mark.parametrize("start", [bregman_kmeans_plusplus, anchor_words])
def test_same_bytes_whatever_the_threads(start):
    X = sp.random_array((12_000, 300), density=0.05, format="csr", rng=np.random.default_rng(0))
    X.data = np.ceil(5 * X.data)
    runs = []
    for limit in (1, 2):
        with threadpool_limits(limits=limit):
            out = start(X, 20, random_state=0)
        runs.append((out[1] if isinstance(out, tuple) else out).tobytes())
    assert runs[0] == runs[1]


@pytest.mark.parametrize("start", [bregman_kmeans_plusplus, anchor_words])
def test_input_is_left_alone(counts, start):
    """Read-only, unsorted, duplicated and explicitly zero entries are all legal."""
    indices = np.concatenate([counts.indices[::-1], counts.indices[:0]])
    X = sp.csr_array((counts.data[::-1].copy(), indices, counts.indptr), shape=counts.shape)
    X.data[::4] = 0
    for array in (X.data, X.indices, X.indptr):
        array.flags.writeable = False
    before = X.data.tobytes(), X.indices.tobytes()
    start(X, 4, random_state=0)
    assert (X.data.tobytes(), X.indices.tobytes()) == before
    twice = sp.csr_array(
        (np.repeat(counts.data / 2, 2), np.repeat(counts.indices, 2), 2 * counts.indptr),
        shape=counts.shape,
    )
    one, two = (start(Z, 4, random_state=0) for Z in (counts, twice))
    if start is bregman_kmeans_plusplus:
        one, two = one[1], two[1]
    assert one.tobytes() == two.tobytes()


@pytest.mark.parametrize("width", [1, 2, 3, 6])
def test_draws_never_have_weight_zero(width):
    weight = np.array([0, 2.0, 0, 1, 0, 0])
    drawn = _draw(weight.reshape(-1, width), 3000, np.random.default_rng(0))
    assert set(drawn) == {1, 3}
    assert abs((drawn == 1).mean() - 2 / 3) < 0.05
    assert (np.diff(drawn) >= 0).all()


class _Edges:
    """Uniform numbers at and about the bounds between weights."""

    def __init__(self, u):
        self.u = u

    def random(self, size):
        return self.u[:size]


def test_draws_at_the_edges_of_weights():
    """Blocks and places in them are those of one running sum, rounded or not."""
    rng = np.random.default_rng(0)
    weight = rng.random(70) * (rng.random(70) < 0.4)
    ends = np.cumsum(weight) / weight.sum()
    u = np.concatenate([[0], ends[:-1], np.nextafter(ends[:-1], 0), np.nextafter(ends[:-1], 1)])
    u = np.clip(u, 0, np.nextafter(1, 0))
    blocks = np.append(weight, np.zeros(2)).reshape(-1, 8)
    drawn = _draw(blocks, len(u), _Edges(u))
    assert (weight[drawn] > 0).all()
    middle = (np.append(0, ends[:-1]) + ends)[weight > 0] / 2
    np.testing.assert_array_equal(
        _draw(blocks, len(middle), _Edges(middle)), np.flatnonzero(weight)
    )


# ---------------------------------------------------------------------------- anchor words


def test_cooccurrence_is_of_pairs_of_different_tokens():
    dense = np.array([[2.0, 1, 0], [0, 1, 1], [0, 0, 1], [0, 0, 0]])
    slow = np.zeros((3, 3))
    for x in dense[:2]:
        pairs = np.outer(x, x) - np.diag(x)
        slow += pairs / pairs.sum()
    Q, seen = _cooccurrence(
        sp.csr_array(dense), np.ones(len(dense)), 1000, np.random.default_rng(0)
    )
    assert seen.all()
    np.testing.assert_allclose(Q, slow / slow.sum(axis=1, keepdims=True), atol=1e-7)


def test_projection_keeps_distances(separable):
    X, _ = separable
    exact, _ = _cooccurrence(X, np.ones(X.shape[0]), 1000, np.random.default_rng(0))
    wide = sp.hstack([X, sp.csr_array((X.shape[0], 4000))]).tocsr()
    projected, seen = _cooccurrence(wide, np.ones(wide.shape[0]), 800, np.random.default_rng(0))
    assert projected.shape == (4030, 800)
    np.testing.assert_array_equal(np.flatnonzero(seen), np.arange(30))
    assert not projected[30:].any()
    np.testing.assert_allclose(projected[:30] @ projected[:30].T, exact @ exact.T, atol=0.03)


def test_anchors_are_the_corners():
    rng = np.random.default_rng(5)
    corners = rng.dirichlet(np.ones(12), size=4)
    rows = np.vstack([rng.dirichlet(np.ones(4), size=50) @ corners, corners])
    anchors = _find_anchors(rows.astype(np.float32), np.arange(54), 4)
    assert sorted(anchors) == [50, 51, 52, 53]


def test_no_more_anchors_than_dimensions():
    rng = np.random.default_rng(6)
    rows = (rng.dirichlet(np.ones(3), size=40) @ rng.dirichlet(np.ones(9), size=3)).astype("f4")
    assert len(_find_anchors(rows, np.arange(40), 10)) == 3


def test_simplex_least_squares_recovers_weights():
    rng = np.random.default_rng(7)
    basis = rng.dirichlet(np.full(20, 0.2), size=5).astype(np.float32)
    weights = rng.dirichlet(np.full(5, 0.3), size=60).astype(np.float32)
    found = _simplex_least_squares(weights @ basis, basis, 2000, 1e-7)
    np.testing.assert_allclose(found, weights, atol=2e-3)


def test_projection_to_the_simplex():
    points = np.random.default_rng(8).normal(size=(50, 6))
    nearest = _project_to_simplex(points)
    assert nearest.min() >= 0
    np.testing.assert_allclose(nearest.sum(axis=1), 1)
    # Optimal: points - nearest is largest, and constant, where nearest is positive.
    gap = points - nearest
    theta = gap.max(axis=1, keepdims=True)
    np.testing.assert_allclose(np.where(nearest > 0, gap, theta), np.broadcast_to(theta, (50, 6)))


def test_separable_topics_are_recovered(separable):
    X, topics = separable
    counts = anchor_words(X, 4, random_state=0)
    found = (counts / counts.sum(axis=0)).T
    distance = np.abs(found[:, None] - topics).sum(axis=2)
    assert sorted(distance.argmin(axis=1)) == [0, 1, 2, 3]
    assert distance.min(axis=1).max() < 0.15


@pytest.mark.parametrize("n_components", [1, 3, 60])
def test_anchor_words_share_out_all_tokens(counts, n_components):
    topics = anchor_words(counts, n_components, random_state=0)
    assert topics.shape == (25, n_components)
    assert topics.dtype == np.float64 and topics.flags.c_contiguous
    assert topics.min() >= 0
    np.testing.assert_allclose(topics.sum(axis=1), counts.sum(axis=0))


def test_anchor_words_without_cooccurrences():
    X = sp.csr_array(np.eye(5))
    topics = anchor_words(X, 3, random_state=0)
    np.testing.assert_array_equal(topics, np.outer(np.ones(5), [1, 0, 0]))
    assert not anchor_words(sp.csr_array((4, 5)), 3, random_state=0).any()


# ---------------------------------------------------------------------------- random, real data


def test_random_topics():
    topics = _random_topics(400, 30, np.random.default_rng(0))
    assert topics.shape == (400, 30)
    assert abs(topics.mean() - 1) < 0.01
    assert abs(topics.std() - 0.1) < 0.01


def test_greedy_draws_lower_the_objective_on_real_documents(real_corpus):
    X = real_corpus("kos")

    def objective(n_local_trials, seed):
        counts = bregman_kmeans_plusplus(
            X, 50, n_local_trials=n_local_trials, n_refine=1, random_state=seed
        )[1]
        np.testing.assert_allclose(counts.sum(), X.sum())
        smoothed = counts + 0.03
        return -(counts * np.log(smoothed / smoothed.sum(axis=0))).sum() / X.sum()

    plain, greedy = ([objective(n, seed) for seed in range(3)] for n in (1, 8))
    assert np.mean(greedy) < np.mean(plain) + 0.02


def test_lloyd_step_by_parts_is_that_of_the_whole(corpus):
    X = corpus.tocsr()
    _, counts = bregman_kmeans_plusplus(X, 5, random_state=0)
    data = Corpus(X, np.float64)
    whole = sum_of_nearest(data, [[(0, 300)]], counts)
    _, refined = bregman_kmeans_plusplus(X, 5, n_refine=2, random_state=0)
    np.testing.assert_allclose(whole, refined)
    runs = [[(i, min(i + 70, 300))] for i in range(0, 300, 70)]
    parts = sum_of_nearest(data, runs, counts)
    np.testing.assert_allclose(parts, whole)
