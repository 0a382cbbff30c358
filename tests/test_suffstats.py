"""Sufficient statistics add, scale and lose components."""

import numpy as np
import pytest

from sklearn_sparsepost._suffstats import SuffStats, TopicCounts, sum_of_chunks


def stats_of(word_topic, n=1.0):
    word_topic = np.asarray(word_topic, dtype=float)
    return SuffStats(
        {"word_topic": word_topic.copy(), "topic": word_topic.sum(axis=0)},
        {"word_topic": 1, "topic": 0},
        {"n_samples": n},
    )


def sparse_stats(dtype):
    table = TopicCounts(
        np.array([1, 3], dtype=np.int32),
        np.array([0, 2, 3]),
        np.array([2, 0, 1], dtype=np.int32),
        np.array([1.5, 2.0, 4.0], dtype=dtype),
    )
    dense = np.zeros((4, 3))
    dense[1, 2], dense[1, 0], dense[3, 1] = 1.5, 2.0, 4.0
    return SuffStats(
        {"word_topic": table, "topic": dense.sum(axis=0)},
        {"word_topic": 1, "topic": 0},
        {"n_samples": 2.0},
    ), dense


def test_what_is_added_can_be_taken_away(dtype):
    total = stats_of(np.zeros((4, 3)), 0.0)
    part, dense = sparse_stats(dtype)
    total.add(part).add(part, 0.5)
    np.testing.assert_allclose(total.value("word_topic"), 1.5 * dense)
    assert total.value("n_samples") == 3
    total.add(part, -1.5)
    np.testing.assert_array_equal(total.value("word_topic"), 0)
    assert part["word_topic"].nbytes > 0


def test_scaling_is_kept_aside_and_exact():
    rng = np.random.default_rng(0)
    a, b = rng.random((4, 3)), rng.random((4, 3))
    stats = stats_of(a)
    want = a
    for rate in (0.5, 0.9, 0.01, 1e-60, 1e-60, 0.3):
        stats.scale(1 - rate if rate > 1e-9 else rate).add(stats_of(b), rate)
        want = (1 - rate if rate > 1e-9 else rate) * want + rate * b
        np.testing.assert_allclose(stats.value("word_topic"), want)
        np.testing.assert_allclose(stats.value("topic"), want.sum(axis=0))
    assert 1e-100 < stats.factor < 1e100
    assert stats.clear().factor == 1 and not stats.value("topic").any()


def test_merge_drop_reorder():
    stats = stats_of(np.arange(12.0).reshape(4, 3)).scale(2)
    merged = stats.merge(0, 2)
    np.testing.assert_array_equal(merged.value("word_topic"), [[4, 2], [16, 8], [28, 14], [40, 20]])
    np.testing.assert_array_equal(merged.value("topic"), merged.value("word_topic").sum(axis=0))
    np.testing.assert_array_equal(
        stats.reorder([2, 0, 1]).value("word_topic"),
        stats.value("word_topic")[:, [2, 0, 1]],
    )
    np.testing.assert_array_equal(stats.drop(1).value("topic"), np.delete(stats.value("topic"), 1))
    assert merged.value("n_samples") == 2


def test_copy_shares_nothing():
    stats = stats_of(np.ones((2, 2)))
    twin = stats.copy().add(stats)
    assert stats.value("word_topic").sum() == 4
    assert twin.value("word_topic").sum() == 8
    with pytest.raises(KeyError):
        stats["absent"]


@pytest.mark.parametrize("n_parts", [1, 2, 3, 8])
def test_sum_of_chunks_is_sparse_and_exact(dtype, n_parts):
    rng = np.random.default_rng(n_parts)
    parts, total = [], np.zeros((30, 7))
    for _ in range(n_parts):
        words = np.sort(rng.choice(30, 12, replace=False)).astype(np.int32)
        topics = np.concatenate([rng.permutation(7)[:3] for _ in words]).astype(np.int32)
        counts = rng.integers(1, 9, 36).astype(dtype)
        table = TopicCounts(words, np.arange(0, 37, 3), topics, counts)
        dense = np.zeros((30, 7))
        table.add_to(dense, 1.0)
        total += dense
        axes = {"word_topic": 1, "topic": 0}
        parts.append(SuffStats({"word_topic": table, "topic": dense.sum(axis=0)}, axes, {"n": 2.0}))
    merged = sum_of_chunks(parts)
    got = np.zeros((30, 7))
    merged["word_topic"].add_to(got, 1.0)
    np.testing.assert_array_equal(got, total)
    np.testing.assert_array_equal(merged["topic"], total.sum(axis=0))
    assert merged["n"] == 2.0 * n_parts
    assert merged["word_topic"].counts.size == np.count_nonzero(total)
    assert merged["word_topic"].counts.dtype == dtype


@pytest.mark.parametrize("density", [0.1, 0.9])
def test_compact_copy_adds_the_same(density):
    rng = np.random.default_rng(0)
    table = rng.random((30, 40)) * (rng.random((30, 40)) < density)
    stats = SuffStats({"word_topic": table}, {"word_topic": 1}, {"n": 2.0})
    compact = stats.scale(0.5).compact()
    assert isinstance(compact["word_topic"], TopicCounts) == (density < 0.5)
    total = SuffStats({"word_topic": np.ones((30, 40))}, {"word_topic": 1}, {"n": 1.0})
    total.add(compact, 3.0)
    np.testing.assert_allclose(total["word_topic"], 1 + 1.5 * table)
    assert total["n"] == 4.0
