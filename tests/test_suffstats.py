"""Sufficient statistics add, scale and lose components."""

import gc
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from sklearn_sparsepost import SparseHDP
from sklearn_sparsepost._kernels import _row_tables
from sklearn_sparsepost._run import memory
from sklearn_sparsepost._run.cluster import in_tree
from sklearn_sparsepost._suffstats import SuffStats, exact_sum, sum_of_chunks
from sklearn_sparsepost._tables import SparseTable, sum_of_tables


def whole(table):
    """A sparse table, dense."""
    out = np.zeros(table.shape, dtype=table.values.dtype)
    out[table.rows] = table.to_csr().toarray()
    return out


def stats_of(word_topic, n=1.0):
    word_topic = np.asarray(word_topic, dtype=float)
    return SuffStats(
        {"word_topic": word_topic.copy(), "topic": word_topic.sum(axis=0)},
        {"word_topic": 1, "topic": 0},
        {"n_samples": n},
    )


def sparse_stats(dtype):
    table = SparseTable(
        np.array([1, 3], dtype=np.int32),
        np.array([0, 2, 3]),
        np.array([2, 0, 1], dtype=np.int32),
        np.array([1.5, 2.0, 4.0], dtype=dtype),
        (4, 3),
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
        table = SparseTable(words, np.arange(0, 37, 3), topics, counts, (30, 7))
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
    assert merged["word_topic"].values.size == np.count_nonzero(total)
    assert merged["word_topic"].values.dtype == dtype


@pytest.mark.parametrize("density", [0.1, 0.9])
def test_compact_copy_adds_the_same(density):
    rng = np.random.default_rng(0)
    table = rng.random((30, 40)) * (rng.random((30, 40)) < density)
    stats = SuffStats({"word_topic": table}, {"word_topic": 1}, {"n": 2.0})
    compact = stats.scale(0.5).compact()
    assert isinstance(compact["word_topic"], SparseTable) == (density < 0.5)
    total = SuffStats({"word_topic": np.ones((30, 40))}, {"word_topic": 1}, {"n": 1.0})
    total.add(compact, 3.0)
    np.testing.assert_allclose(total["word_topic"], 1 + 1.5 * table)
    assert total["n"] == 4.0


def test_arrays_with_components_first_stay_dense():
    """A sparse table has its components on the second axis."""
    table = np.zeros((6, 4))
    table[2] = 1.0
    stats = SuffStats({"first": table, "words": table.T}, {"first": 0, "words": 1}, {"n": 1.0})
    compact = stats.compact()
    assert isinstance(compact["first"], np.ndarray) and compact["first"] is not table
    assert isinstance(compact["words"], SparseTable)
    merged = compact.merge(0, 2)
    np.testing.assert_array_equal(merged["first"], stats.merge(0, 2)["first"])
    np.testing.assert_array_equal(whole(merged["words"]), merged["first"].T)


# ---------------------------------------------------------------------- sparse as dense

SHAPE = 25, 9


def random_table(rng, dtype=np.float64):
    """A random table, sparse and dense: features are missing, or empty, entries in any order."""
    dense = np.zeros(SHAPE, dtype=dtype)
    rows = np.sort(rng.choice(SHAPE[0], rng.integers(0, 20), replace=False)).astype(np.int32)
    columns, values = [], []
    for row in rows:
        held = rng.permutation(SHAPE[1])[: rng.integers(0, 6)]
        dense[row, held] = rng.integers(1, 100, len(held)) / 8  # sums are exact
        columns.append(held.astype(np.int32))
        values.append(dense[row, held])
    row_ptr = np.concatenate([[0], np.cumsum([len(held) for held in columns])]).astype(np.int64)
    columns = np.concatenate([np.empty(0, np.int32), *columns])
    values = np.concatenate([np.empty(0, dtype), *values])
    return SparseTable(rows, row_ptr, columns, values, SHAPE), dense


def parts_of(table):
    return [table.rows, table.row_ptr, table.columns, table.values]


def random_pair(rng):
    kept, absorbed = rng.permutation(SHAPE[1])[:2].tolist()
    return kept, absorbed


def check_table(found, wanted):
    """A sparse table is a dense one, and what it says of itself is true."""
    assert found.shape == wanted.shape and found.to_csr().shape == (
        len(found.rows),
        wanted.shape[1],
    )
    np.testing.assert_array_equal(whole(found), wanted)
    np.testing.assert_array_equal(found.column_sums, wanted.sum(axis=0, dtype=np.float64))
    assert found.nbytes == sum(part.nbytes for part in parts_of(found))
    total = np.ones(wanted.shape)
    found.add_to(total, -0.5)
    np.testing.assert_array_equal(total, 1 - 0.5 * wanted)


@pytest.mark.parametrize("seed", range(20))
def test_sparse_tables_are_dense_ones(seed, dtype):
    rng = np.random.default_rng(seed)
    table, dense = random_table(rng, dtype)
    before = [part.copy() for part in parts_of(table)]
    kept, absorbed = random_pair(rng)
    order = rng.permutation(SHAPE[1])[: rng.integers(1, SHAPE[1] + 1)]
    merged = dense.copy()
    merged[:, kept] += merged[:, absorbed]
    merged[:, absorbed] = 0
    placed, features = np.zeros((40, SHAPE[1]), dtype), rng.permutation(40)[:25].astype(np.int32)
    placed[features] = dense
    wide = np.concatenate([dense, np.zeros((SHAPE[0], 3), dtype)], axis=1)
    for found, wanted in (
        (table, dense),
        (table.copy(), dense),
        (table.scaled(0.25), np.asarray(0.25 * dense)),
        (table.merged(kept, absorbed), merged),
        (table.merged(kept, absorbed).merged(*random_pair(rng)[::-1]).reordered(order), None),
        (table.reordered(order), dense[:, order]),
        (table.widened(3), wide),
        (table.widened(3).reordered(np.r_[11, 2, 9]), wide[:, [11, 2, 9]]),
        (table.placed(features, 40), placed),
        (SparseTable.of(dense), dense),
        (SparseTable.of_csr(table.to_csr(), table.rows, SHAPE), dense),
        (pickle.loads(pickle.dumps(table)), dense),
    ):
        if wanted is not None:
            check_table(found, wanted)
            assert found.values.dtype == dtype
    for part, was in zip(parts_of(table), before, strict=True):  # whatever was made of it
        np.testing.assert_array_equal(part, was)
    twin = table.copy()
    for part in parts_of(twin):
        part[...] = 0
    np.testing.assert_array_equal(whole(table), dense)


@pytest.mark.parametrize("n_tables", [1, 2, 3, 5])
def test_sums_of_sparse_tables_are_those_of_dense_ones(n_tables, dtype):
    tables = [random_table(np.random.default_rng(seed), dtype) for seed in range(n_tables)]
    total = sum_of_tables([table for table, _ in tables])
    check_table(total, sum(dense for _, dense in tables))
    assert total.values.dtype == dtype
    for table, dense in tables:
        check_table(table, dense)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("n_tables", [2, 4, 8, 16])
def test_tables_are_summed_at_once_to_the_bits_of_two_at_a_time(n_tables, exact, dtype):
    rng, tables = np.random.default_rng(n_tables), []
    for seed in range(n_tables):
        table = random_table(np.random.default_rng(seed), dtype)[0]
        values = (table.values * 10.0 ** rng.uniform(-4, 4, len(table.values))).astype(dtype)
        tables.append(SparseTable(table.rows, table.row_ptr, table.columns, values, table.shape))
    want = in_tree(tables, lambda one, other: sum_of_tables([one, other], exact=exact))
    found = sum_of_tables(tables, exact=exact, neighbours=True)
    others = sum_of_tables(tables, exact=exact)
    for name in ("rows", "row_ptr", "columns", "values"):
        np.testing.assert_array_equal(getattr(found, name), getattr(want, name))
    assert found.values.dtype == want.values.dtype
    if n_tables > 4 and not exact:  # or this would not tell one order from the other
        assert (found.values != others.values).any()


@pytest.mark.parametrize("total", [sum_of_chunks, exact_sum])
def test_statistics_are_summed_at_once_to_the_bits_of_two_at_a_time(total):
    def parts():
        for seed in range(8):
            table = random_table(np.random.default_rng(seed), np.float32)[0]
            numbers = np.random.default_rng(seed).random(SHAPE[1])
            table.values[:] *= numbers[0]
            arrays = {"count": numbers, "words": table}
            yield SuffStats(arrays, {"count": 0, "words": 1}, {"n_tokens": numbers[-1]})

    want = in_tree(parts(), lambda one, other: total([one, other]))
    found = total(parts(), neighbours=True)
    np.testing.assert_array_equal(found["count"], want["count"])
    np.testing.assert_array_equal(found["words"].values, want["words"].values)
    assert found["n_tokens"] == want["n_tokens"]
    # The order makes a difference.
    assert (found["count"] != total(parts())["count"]).any()


def pair_of_stats(rng):
    """The same statistics with a sparse and with a dense table."""
    table, dense = random_table(rng)
    made = []
    block = rng.integers(0, 9, (SHAPE[1], 2, 3)) / 4
    for words in (table, dense.copy()):
        arrays = {"count": dense.sum(axis=0), "words": words, "block": block.copy()}
        axes = {"count": 0, "words": 1, "block": 0}
        made.append(SuffStats(arrays, axes, {"n": 2.0, "entropy": 3.5}))
    return made


def assert_same(sparse, dense):
    assert sparse.n_components == dense.n_components and sparse.factor == dense.factor
    assert sparse.scalars == dense.scalars and sparse.axes == dense.axes
    for name in ("count", "block"):
        np.testing.assert_array_equal(sparse.value(name), dense.value(name))
    one, other = (
        whole(stats["words"]) if isinstance(stats["words"], SparseTable) else stats["words"]
        for stats in (sparse, dense)
    )
    np.testing.assert_array_equal(sparse.factor * one, dense.factor * other)


ORDER = np.array([7, 0, 3, 8])
WAYS = {
    "copy": lambda stats: stats.copy(),
    "scale": lambda stats: stats.copy().scale(0.5),
    "scale far": lambda stats: stats.copy().scale(2.0**-200).scale(2.0**-200),
    "merge": lambda stats: stats.merge(2, 5),
    "merge back": lambda stats: stats.merge(5, 2),
    "merge twice": lambda stats: stats.merge(2, 5).merge(0, 7),
    "drop": lambda stats: stats.drop(4),
    "reorder": lambda stats: stats.reorder(ORDER),
    "insert": lambda stats: stats.insert(2),
    "insert and reorder": lambda stats: stats.insert(1).reorder(np.array([9, 3, 0, 9])),
    "compact": lambda stats: stats.compact(),
    "scaled merge": lambda stats: stats.copy().scale(0.25).merge(1, 3).drop(0),
}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("way", WAYS)
def test_statistics_with_sparse_tables_are_those_with_dense_ones(way, seed):
    sparse, dense = pair_of_stats(np.random.default_rng(seed))
    before = pickle.dumps((sparse, dense))
    one, other = WAYS[way](sparse), WAYS[way](dense)
    assert isinstance(one["words"], SparseTable)
    assert_same(one, other)
    assert pickle.dumps((sparse, dense)) == before  # new statistics, or of a copy
    totals = [pair_of_stats(np.random.default_rng(9))[1] for _ in range(2)]
    if one.n_components == SHAPE[1]:  # they add alike, too
        assert_same(totals[0].add(one, 0.5), totals[1].add(other, 0.5))


@pytest.mark.parametrize("seed", range(5))
def test_dense_statistics_after_moves_are_those_written_out(seed):
    _, stats = pair_of_stats(np.random.default_rng(seed))
    stats.scale(0.5)
    words, block = stats.value("words"), stats.value("block")
    merged = stats.merge(5, 2)
    wanted = words.copy()
    wanted[:, 5] += wanted[:, 2]
    np.testing.assert_array_equal(merged.value("words"), np.delete(wanted, 2, axis=1))
    wanted = block.copy()
    wanted[5] += wanted[2]
    np.testing.assert_array_equal(merged.value("block"), np.delete(wanted, 2, axis=0))
    np.testing.assert_array_equal(stats.reorder(ORDER).value("block"), block[ORDER])
    np.testing.assert_array_equal(stats.drop(4).value("words"), np.delete(words, 4, axis=1))
    wide = stats.insert(2)
    assert wide.n_components == 11 and wide["words"].shape == (25, 11)
    np.testing.assert_array_equal(wide.drop(10).drop(9).value("block"), block)
    assert not wide.value("block")[9:].any() and not wide.value("words")[:, 9:].any()
    for other in (merged, wide):
        assert other.value("entropy") == stats.value("entropy")


def test_add_at_is_adding_what_is_empty_elsewhere():
    rng = np.random.default_rng(0)
    _, stats = pair_of_stats(rng)
    few = pair_of_stats(rng)[1].reorder(np.array([0, 1, 2])).scale(3)
    stats.scale(0.5)
    which = np.array([1, 4, 6])
    order = np.full(SHAPE[1], 3)
    order[which] = [0, 1, 2]
    wanted = stats.copy().add(few.insert(1).reorder(order))
    version = stats.version
    assert stats.add_at(which, few) is stats
    assert stats.version > version
    for name in ("count", "words", "block", "n", "entropy"):
        np.testing.assert_allclose(stats.value(name), wanted.value(name), rtol=1e-12)
    np.testing.assert_array_equal(few.value("n"), 6.0)  # what was added stays


class Found:
    """What a move wanted to know: a number that adds."""

    def __init__(self, value):
        self.value = value

    def add(self, other):
        self.value += other.value


def test_tracked_adds_with_the_statistics_and_is_left_behind_by_what_is_made_of_them():
    parts = [pair_of_stats(np.random.default_rng(seed))[0] for seed in range(3)]
    total = pair_of_stats(np.random.default_rng(3))[1]
    assert total.tracked is None
    total.add(parts[0])
    assert total.tracked is None  # nobody asked
    for value, part in enumerate(parts):
        part.tracked = Found(10 + value)
    for part in parts:
        total.add(part)
    assert total.tracked.value == 33
    total.add(pair_of_stats(np.random.default_rng(4))[1])
    assert total.tracked.value == 33
    for new in (
        total.copy(),
        total.copy(pair_of_stats(np.random.default_rng(5))[1]),
        total.compact(),
        total.merge(0, 1),
        total.drop(0),
        total.insert(1),
    ):
        assert new.tracked is None
    assert total.clear().tracked is None
    for value, part in enumerate(parts):
        part.tracked = Found(10 + value)
    assert sum_of_chunks(iter(parts)).tracked.value == 33


def test_a_copy_may_take_the_memory_of_others():
    stats, spare = (pair_of_stats(np.random.default_rng(seed))[1] for seed in range(2))
    stats.scale(0.5)
    spare.scale(7)
    memory = dict(spare.arrays)
    twin = stats.copy(spare)
    assert_same(twin, stats)
    for name, array in twin.arrays.items():
        assert array is memory[name] and not np.shares_memory(array, stats[name])
    twin.add(stats)
    assert twin.value("n") == 2 and stats.value("n") == 1
    np.testing.assert_array_equal(twin.value("words"), 2 * stats.value("words"))


def test_zeros_of_the_same_kind_are_made_anew():
    stats = pair_of_stats(np.random.default_rng(0))[1].scale(0.5)
    zeros = pickle.loads(pickle.dumps(stats.maker_of_zeros()))()
    assert zeros.factor == 1 and zeros.axes == stats.axes
    assert set(zeros.scalars) == set(stats.scalars) and not any(zeros.scalars.values())
    for name, array in stats.arrays.items():
        assert zeros[name].shape == array.shape and not zeros[name].any()


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_components_are_summed_by_where_they_go(dtype, kind):
    stats, table = sparse_stats(dtype)
    if kind == "dense":
        stats = stats_of(table, 2.0)
    for target in ([0, 1, 0], [1, 1, 0], [0, 0, 0], [2, 0, 1]):
        want = np.zeros((4, max(target) + 1))
        np.add.at(want.T, np.array(target), table.T)
        folded = stats.fold(np.array(target))
        got = folded["word_topic"]
        np.testing.assert_allclose(whole(got) if kind == "sparse" else got, want)
        np.testing.assert_allclose(folded["topic"], want.sum(axis=0))
        assert folded["n_samples"] == 2


def test_tables_are_folded_where_they_are_missing():
    table = np.random.default_rng(1).random((4, 3))
    stats, target = stats_of(table).scale(0.5), np.array([0, 1, 0])
    few = stats.without({"word_topic"}).merge(0, 2)
    full = few.filled(stats, target)
    assert list(full.arrays) == list(stats.arrays) and full["topic"] is few["topic"]
    np.testing.assert_allclose(full.value("word_topic")[:, 0], 0.5 * (table[:, 0] + table[:, 2]))
    np.testing.assert_allclose(full.value("word_topic").sum(axis=0), full.value("topic"))


@pytest.mark.parametrize("n_threads", [1, 3])
def test_columns_are_taken_as_by_numpy(n_threads):
    table, order = np.random.default_rng(0).random((50, 20)), np.array([3, 3, 0, 19])
    taken = np.empty((50, 4))
    _row_tables.take_columns(table, order, taken, n_threads)
    np.testing.assert_array_equal(taken, table[:, order])


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_entries_are_taken_as_by_numpy(dtype, n_threads):
    rng = np.random.default_rng(0)
    table = rng.random((50, 20)) * (rng.random((50, 20)) < 0.3)
    order = np.array([3, 7, 0, 19])
    given = SparseTable.of(table.astype(dtype))
    place = np.full(20, -1, dtype=np.int32)
    place[order] = np.arange(4)
    taken = _row_tables.take_entries(given.row_ptr, given.columns, given.values, place, n_threads)
    found = SparseTable(given.rows, *taken, (50, 4)).to_csr()
    np.testing.assert_array_equal(found.toarray(), table[given.rows][:, order].astype(dtype))
    assert found.nnz == np.count_nonzero(table[:, order])


def test_memory_is_used_again_once_no_view_is_left():
    memory.forget()
    shape = 1000, memory.LEAST_KEPT // 8000 + 2
    table = memory.recycled(shape)
    table[...] = 1
    view, where = table[5:][:, 1], table.ctypes.data
    del table
    other = memory.recycled_zeros(shape)
    assert other.ctypes.data != where and view.all()
    del view
    smaller = memory.recycled((shape[0], shape[1] - 1))
    assert smaller.ctypes.data == where and not other.any()
    del smaller
    assert memory.recycled((shape[0], 3 * shape[1])).ctypes.data != where
    del other
    assert memory._Left.blocks
    memory.forget()
    assert not memory._Left.blocks


def test_a_fit_keeps_no_memory():
    X = sp.random_array((200, 6000), density=0.01, rng=np.random.default_rng(0), format="csr")
    SparseHDP(100, max_iter=3, random_state=0).fit(X * 100)
    gc.collect()
    assert memory.LEAST_KEPT < 6000 * 100 * 8 and not memory._Left.blocks
