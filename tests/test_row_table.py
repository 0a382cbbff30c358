"""Tables whose rows grow, against dense ones."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sklearn_sparsepost._suffstats import SuffStats
from sklearn_sparsepost._tables import RowTable, SparseTable

SHAPE = 40, 70


def random_table(rng, density=0.1):
    return np.where(rng.random(SHAPE) < density, rng.integers(1, 9, SHAPE), 0).astype(float)


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_sums_are_those_of_dense_tables(seed):
    rng = np.random.default_rng(seed)
    tables, dense = [RowTable(SHAPE)], [np.zeros(SHAPE)]
    for _ in range(12):
        at = rng.integers(len(tables))  # any table so far, its pool long used by others
        other, factor = random_table(rng, rng.random() * 0.3), rng.choice([1.0, 2.0, -1.0])
        sparse = SparseTable.of(other)
        tables.append(tables[at].plus(RowTable.of(other) if rng.random() < 0.3 else sparse, factor))
        dense.append(np.maximum(dense[at] + factor * other, 0))
    for table, want in zip(tables, dense, strict=True):
        np.testing.assert_array_equal(table[:], want)
        assert table.n_stored == np.count_nonzero(want)
        np.testing.assert_array_equal(table[[7, 3, 7]], want[[7, 3, 7]])
        row_ptr, topics, _ = table.gathered(np.arange(SHAPE[0]))
        for first, stop in zip(row_ptr[:-1], row_ptr[1:], strict=True):
            assert (np.diff(topics[first:stop]) > 0).all()


def test_what_is_made_of_a_table():
    dense = random_table(np.random.default_rng(0))
    table = RowTable.of(dense)
    order = np.random.default_rng(1).permutation(70)[:50]
    np.testing.assert_array_equal(table.reordered(order)[:], dense[:, order])
    np.testing.assert_array_equal(table.scaled(3.0)[:], 3 * dense)
    np.testing.assert_array_equal(table.widened(2)[:], np.pad(dense, [(0, 0), (0, 2)]))
    merged = dense.copy()
    merged[:, 4] += merged[:, 9]
    merged[:, 9] = 0
    np.testing.assert_array_equal(table.merged(4, 9)[:], merged)
    np.testing.assert_array_equal(table.copy()[:], dense)


def test_small_entries_become_the_least_or_nothing_by_lot():
    small = np.random.default_rng(0).random(SHAPE) * 0.2
    large = np.where(np.arange(70) % 2, 0.5, 0.0)
    found = []
    for t in range(400):
        rows = RowTable((40 * (t + 1), 70), least=0.2)  # lots are keyed by the row
        one = np.zeros((40 * (t + 1), 70))
        one[40 * t :] = np.where(large > 0, large, small)
        found.append(rows.plus(SparseTable.of(one))[40 * t :])
    found = np.array(found)
    assert np.isin(found, [0, 0.2, 0.5]).all()
    assert (found[:, :, large > 0] == 0.5).all()
    error = 0.2 * np.sqrt(small / 0.2 * (1 - small / 0.2) / len(found))
    distance = np.abs(found.mean(axis=0) - small) / error
    assert distance[:, large == 0].max() < 5
    gone = rows.plus(SparseTable.of(one), -1.0)
    assert gone.n_stored == 0


def test_memory_is_bounded_and_pickles_hold_no_more_than_the_table():
    rng = np.random.default_rng(0)
    table = RowTable((2000, 70))
    for _ in range(300):
        rows = np.sort(rng.permutation(2000)[:50])
        other = np.zeros((2000, 70))
        other[rows] = rng.random((50, 70)) < 0.2
        table = table.plus(SparseTable.of(other))
    n_bytes = 12 * table.n_stored
    assert table.nbytes < 6 * n_bytes
    saved = pickle.dumps(table)
    assert len(saved) < n_bytes + 12 * 2000 + 2000
    np.testing.assert_array_equal(pickle.loads(saved)[:], table[:])


def test_in_statistics():
    rng = np.random.default_rng(0)
    dense = random_table(rng)
    arrays = {"table": RowTable.of(dense), "total": dense.sum(axis=0)}
    stats = SuffStats(arrays, {"table": 1, "total": 0}, {"n": 1.0})
    before = stats.copy()
    other = SuffStats(
        {"table": SparseTable.of(dense), "total": dense.sum(axis=0)}, stats.axes, {"n": 1.0}
    )
    stats.scale(0.5).add(other, 2.0)
    np.testing.assert_allclose(stats.factor * stats["table"][:], 2.5 * dense)
    np.testing.assert_array_equal(before["table"][:], dense)
    np.testing.assert_array_equal(stats.compact()["table"][:], stats["table"][:])
    assert stats.maker_of_zeros()()["table"].n_stored == 0
    assert stats.merge(0, 1)["table"].shape == (40, 69)
    copied = stats.copy(before)
    np.testing.assert_array_equal(copied["table"][:], stats["table"][:])
    assert stats.clear()["table"].n_stored == 0
    assert copied["table"].n_stored
    with pytest.raises(KeyError):
        stats["other"]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exchanged_is_added_and_taken_away(dtype):
    rng = np.random.default_rng(0)
    held, new, old = (np.round(random_table(rng), 3) for _ in range(3))

    def statistics(dense, kind):
        axes = {"table": 1, "total": 0}
        return SuffStats({"table": kind(dense), "total": dense.sum(axis=0)}, axes, {"n": 1.0})

    def sparse(dense):
        return SparseTable.of(dense.astype(dtype))

    stats = statistics(held + old, RowTable.of)
    new, old = statistics(new, sparse), statistics(old, sparse).scale(0.5)
    found = stats.copy().exchange(new, old)
    wanted = stats.copy().add(new).add(old, -1.0)
    np.testing.assert_allclose(found["table"][:], wanted["table"][:], atol=1e-6)
    np.testing.assert_allclose(found["total"], wanted["total"])
    assert found["n"] == wanted["n"] == 1.5
    alone = stats.copy().exchange(None, old)
    np.testing.assert_array_equal(alone["table"][:], stats.copy().add(old, -1.0)["table"][:])


def test_memory_that_nobody_reads_any_more_is_taken_again(monkeypatch):
    again, gathered = [], RowTable.gathered

    def noted(table, rows, room=0, memory=None):
        again.append(memory is not None)
        return gathered(table, rows, room, memory)

    monkeypatch.setattr("sklearn_sparsepost._tables.SMALL_POOL", 0)
    rng = np.random.default_rng(0)
    dense = np.round(random_table(rng) + random_table(rng), 3)
    part = SparseTable.of(np.round(random_table(rng), 3))
    table = RowTable.of(dense)
    monkeypatch.setattr(RowTable, "gathered", noted)
    for number in range(30):
        table = table.plus(part, 1.0 if number % 2 == 0 else -1.0)
        if number == 9:
            kept = table
    assert len(again) > 5 and sum(again) >= len(again) - 3  # two in turn, and one that is kept
    monkeypatch.undo()
    np.testing.assert_allclose(kept[:], dense)
    np.testing.assert_allclose(table[:], dense)
    assert not pickle.loads(pickle.dumps(table)).pool.left
    assert table.emptied().pool.left is table.pool.left
