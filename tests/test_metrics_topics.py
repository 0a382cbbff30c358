"""Top words, diversity, distances of topics and their matching."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from sklearn_sparsepost.metrics import match_topics, top_words, topic_distances, topic_diversity
from sklearn_sparsepost.metrics._topics import DISTANCES, SHARED_WORDS

ALL = [*DISTANCES, *SHARED_WORDS]


@pytest.fixture(scope="module")
def topics():
    return np.random.default_rng(0).dirichlet(np.full(50, 0.1), size=12)


# ---------------------------------------------------------------------- top words


def test_top_words_are_a_stable_sort(topics, dtype):
    topics = topics.astype(dtype)
    topics[3] = 0.5
    topics[4, ::2] = topics[4].max()
    for n_words in (1, 5, 50, 1000):
        want = np.argsort(-topics, axis=1, kind="stable")[:, :n_words]
        np.testing.assert_array_equal(top_words(topics, n_words), want)
    np.testing.assert_array_equal(top_words(np.asfortranarray(topics)), top_words(topics))


def test_top_words_by_name(topics):
    names = np.array([f"word {i}" for i in range(50)], dtype=object)
    found = top_words(topics, 4, feature_names=names)
    np.testing.assert_array_equal(found, names[top_words(topics, 4)])
    np.testing.assert_array_equal(found, top_words(topics, 4, feature_names=list(names)))


# ---------------------------------------------------------------------- diversity


def test_diversity_by_hand():
    same, apart = np.ones((4, 6)), np.kron(np.eye(3), np.ones(2))
    assert topic_diversity(same, n_words=3) == 1 / 4
    assert topic_diversity(apart, n_words=2) == 1
    assert topic_diversity(apart, n_words=99) == 1 / 3
    assert topic_diversity([[3, 2, 1, 0], [0, 1, 2, 3], [3, 0, 2, 1]], n_words=2) == 4 / 6


# ---------------------------------------------------------------------- distances


@pytest.mark.parametrize(
    ("distance", "name", "factor"),
    [
        ("jensen-shannon", "jensenshannon", np.log(2) ** -0.5),
        ("total-variation", "cityblock", 0.5),
        ("cosine", "cosine", 1),
    ],
)
def test_distances_are_those_of_scipy(topics, distance, name, factor):
    found = topic_distances(topics[:5], topics[5:], distance=distance)
    np.testing.assert_allclose(found, factor * cdist(topics[:5], topics[5:], name), atol=1e-12)


def test_other_distances_by_definition(topics):
    p, q = topics[:5], topics[5:]
    want = cdist(np.sqrt(p), np.sqrt(q)) / np.sqrt(2)
    np.testing.assert_allclose(topic_distances(p, q), want, atol=1e-12)
    of_p, of_q = (list(map(set, top_words(t, 7))) for t in (p, q))
    for distance, share in (
        ("jaccard", lambda a, b: len(a & b) / len(a | b)),
        ("overlap", lambda a, b: len(a & b) / 7),
    ):
        want = [[1 - share(a, b) for b in of_q] for a in of_p]
        np.testing.assert_allclose(topic_distances(p, q, distance=distance, n_words=7), want)


@pytest.mark.parametrize("distance", ALL)
def test_limits_scale_and_type(topics, distance):
    apart = np.kron(np.eye(3), np.ones(4))
    found = topic_distances(apart, apart, distance=distance, n_words=4)
    np.testing.assert_allclose(found, 1 - np.eye(3), atol=1e-6)
    whole = topic_distances(topics, topics[::-1], distance=distance)
    assert whole.min() >= 0 and whole.max() <= 1
    np.testing.assert_allclose(
        topic_distances(topics * 1e5, topics[::-1] * 1e-5, distance=distance), whole, atol=1e-6
    )
    single = topic_distances(topics.astype(np.float32), topics[::-1], distance=distance)
    assert single.dtype == np.float64
    np.testing.assert_allclose(single, whole, atol=1e-3)


def test_long_topics_in_blocks(topics, monkeypatch):
    monkeypatch.setattr("sklearn_sparsepost.metrics._topics.BLOCK", 1 << 60)
    whole = topic_distances(topics, topics, distance="jensen-shannon")
    for block in (1, 100, 300):
        monkeypatch.setattr("sklearn_sparsepost.metrics._topics.BLOCK", block)
        found = topic_distances(topics, topics, distance="jensen-shannon")
        np.testing.assert_array_equal(found, whole)


# ---------------------------------------------------------------------- matching


@pytest.mark.parametrize("distance", ALL)
@pytest.mark.parametrize("n_others", [5, 12, 20])
def test_shuffled_topics_are_found_again(topics, distance, n_others):
    rng = np.random.default_rng(1)
    others = np.concatenate([topics, rng.dirichlet(np.full(50, 0.1), size=8)])
    order = rng.permutation(12)[:n_others] if n_others <= 12 else rng.permutation(20)
    rows, columns, distances = match_topics(topics, others[order], distance=distance)
    assert len(rows) == len(columns) == len(distances) == min(12, n_others)
    assert (np.diff(rows) > 0).all() and len(set(columns)) == len(columns)
    np.testing.assert_array_equal(order[columns], rows)
    np.testing.assert_allclose(distances, 0, atol=1e-7)


def test_the_sum_is_least():
    # The nearest of each would be the same one.
    topics = [[0.6, 0.4, 0], [0.5, 0.5, 0]]
    others = [[0.55, 0.45, 0], [0, 0.5, 0.5]]
    rows, columns, distances = match_topics(topics, others, distance="total-variation")
    assert columns.tolist() == [0, 1]
    np.testing.assert_allclose(distances, [0.05, 0.5])


# ---------------------------------------------------------------------- bad input

GOOD = np.ones((2, 4))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: top_words([[1.0, -1.0]]), "components must be non-negative"),
        (lambda: top_words(GOOD, 0), "n_words must be an integer of at least 1"),
        (lambda: top_words(GOOD, feature_names=["a", "b"]), r"feature_names has shape \(2,\)"),
        (lambda: topic_diversity([[np.nan, 1]]), "components must be a dense table of finite"),
        (lambda: topic_diversity(GOOD, n_words=2.5), "n_words must be an integer"),
        (lambda: match_topics(GOOD, -GOOD), "others must be non-negative"),
        (lambda: match_topics(GOOD, "x"), "others must be a dense table"),
        (lambda: match_topics(GOOD, GOOD[:, :3]), "others has 3 features, but components has 4"),
        (lambda: match_topics(GOOD, GOOD, distance="euclid"), "distance must be one of 'hell"),
        (lambda: topic_distances(GOOD, GOOD, n_words=0), "n_words must be an integer"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
