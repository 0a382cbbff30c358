"""What travels between processes: the same bits where it arrives, and fewer on the way."""

import pickle

import numpy as np
import pytest

from sklearn_sparsepost._run.cluster import _halves, in_tree, runs_on_workers
from sklearn_sparsepost._run.shipping import Parcel, Shipped
from sklearn_sparsepost._suffstats import SuffStats, sum_of_chunks
from sklearn_sparsepost._tables import SparseTable

pytest.importorskip("cloudpickle", reason="needs the dask extra")

RNG = np.random.default_rng(0)


def sent(value, protocol=5):
    """A value after its journey, and how many bytes that was."""
    buffers = []
    apart = {"buffer_callback": buffers.append} if protocol == 5 else {}
    text = pickle.dumps(Shipped(value), protocol, **apart)
    size = len(text) + sum(len(part.raw()) for part in buffers)
    return pickle.loads(text, buffers=buffers).value, size


def mostly(base, shape, share, dtype):
    table = np.empty(shape, dtype)
    table[...] = base
    others = RNG.random(shape) < share
    table[others] = RNG.random(others.sum()) + 1
    return table


def symmetric(n, size):
    halves = RNG.normal(size=(n, size, size))
    return halves + halves.transpose(0, 2, 1)


@pytest.mark.parametrize("protocol", [4, 5])
@pytest.mark.parametrize(
    "array, least",
    [
        (mostly(0, (400, 50), 0.1, np.float64), 0.15),
        (mostly(RNG.random(50), (400, 50), 0.1, np.float32), 0.2),
        (mostly(0, (400, 50), 0.9, np.float64), 1),
        (np.where(mostly(0, (400, 50), 0.3, float) > 0, -0.0, 0.0), 1),
        (np.where(mostly(0, (400, 50), 0.1, float) > 0, np.nan, 1.0), 1),
        (np.arange(30_000), 0.13),
        (np.arange(30_000, dtype=np.int32), 0.26),
        (np.arange(30_000) * 300, 0.51),
        (np.arange(30_000) % 200, 0.14),
        (np.cumsum(RNG.geometric(0.01, 30_000)), 0.2),
        (np.concatenate([[7, 300, 299, 299 + 255, 1 << 40], np.arange(30_000)]), 0.14),
        (RNG.integers(0, 30_000, 30_000, dtype=np.int32), 0.51),
        (RNG.integers(0, 100, 30_000, dtype=np.int8), 1),
        (RNG.integers(0, 100, 30_000, dtype=np.int16), 0.51),
        (np.arange(30_000) - 1, 1),
        (symmetric(20, 16), 0.6),
        (np.tril(symmetric(20, 16)), 0.6),
        (np.triu(symmetric(20, 16)), 0.6),
        (RNG.normal(size=(20, 16, 16)), 1),
        (np.asfortranarray(mostly(0, (400, 50), 0.1, np.float64)), 1),
        (np.ones(5), None),
    ],
)
def test_arrays_arrive_with_all_bits(array, least, protocol):
    found, size = sent({"held": [array]}, protocol)
    found = found["held"][0]
    assert found.dtype == array.dtype and found.tobytes() == array.tobytes()
    assert found.flags.writeable and found.strides == array.strides
    if least is not None:
        assert size < least * array.nbytes + 2000


def stats_of(seed):
    rng = np.random.default_rng(seed)
    table = np.where(rng.random((30, 8)) < 0.2, rng.random((30, 8)), 0).astype(np.float32)
    arrays = {"table": SparseTable.of(table), "count": rng.random(8)}
    return SuffStats(arrays, {"table": 1, "count": 0}, {"n_samples": 1.0})


@pytest.mark.parametrize("exact", [False, True])
def test_sums_apart_write_to_nothing(exact):
    parts = [stats_of(seed) for seed in range(3)]
    before = pickle.dumps(parts)
    total = sum_of_chunks(parts, apart=True, exact=exact)
    assert pickle.dumps(parts) == before
    assert total["table"].values.dtype == (np.float64 if exact else np.float32)
    dense = np.zeros((30, 8))
    for part in parts:
        part["table"].add_to(dense, 1.0)
    found = np.zeros((30, 8))
    total["table"].add_to(found, 1.0)
    np.testing.assert_allclose(found, dense, rtol=1e-12 if exact else 1e-6)
    np.testing.assert_allclose(total["count"], sum(part["count"] for part in parts))
    assert total["n_samples"] == 3


@pytest.mark.parametrize(
    "n, want",
    [(1, "0"), (2, "(01)"), (3, "((01)2)"), (6, "(((01)(23))(45))"), (7, "(((01)(23))((45)6))")],
)
def test_the_tree_follows_from_the_number_of_its_leaves(n, want):
    assert in_tree(map(str, range(n)), "({}{})".format) == want


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 7, 8, 9, 16, 17])
def test_the_last_two_sums_of_a_tree_are_those_of_its_halves(n):
    n_first, n_last = _halves(n)
    leaves = list(map(str, range(n)))
    halves = leaves[:n_first], leaves[n_first:]
    assert len(halves[1]) == n_last
    first, last = (in_tree(iter(half), "({},{})".format) for half in halves)
    assert in_tree(iter(leaves), "({},{})".format) == f"({first},{last})"
    assert _halves(1) == [1]


@pytest.mark.parametrize(
    "places, n_threads, want",
    [
        ("aaaabbbb", 1, [4, 4]),
        ("aaaabbbb", 2, [2, 2, 2, 2]),
        ("aaaabbbb", 8, [1] * 8),
        ("aaaaaaaa", 1, [8]),
        ("aaabbbbb", 1, [2, 1, 1, 4]),  # neighbours below one node of the tree alone
        ("abababab", 1, [1] * 8),
        ("aaaaaa", 1, [4, 2]),
        ("aaaaa", 1, [4, 1]),
        ("a", 1, [1]),
    ],
)
def test_what_a_worker_has_is_summed_there_as_it_is_in_the_tree(places, n_threads, want):
    runs = runs_on_workers(list(places), dict.fromkeys(places, n_threads))
    assert [run.stop - run.start for run in runs] == want
    leaves, join = list(map(str, range(len(places)))), "({},{})".format
    held = [in_tree(leaves[run], join) for run in runs]
    assert in_tree(held, join, want) == in_tree(leaves, join)


def test_what_no_worker_has_is_a_task_each():
    runs = runs_on_workers([None] * 4 + ["a"] * 4, {"a": 1})
    assert runs == [slice(n, n + 1) for n in range(4)] + [slice(4, 8)]


def test_a_parcel_is_apart_from_its_value_and_may_be_sent_on():
    rng = np.random.default_rng(0)
    sparse = np.where(rng.random((300, 40)) < 0.1, rng.random((300, 40)), 0.0)
    value = [sparse, rng.random((300, 40)), np.arange(9000), np.zeros((300, 40)), "text"]
    want = [part.copy() for part in value[:-1]]
    parcel = Parcel.of(value)
    for array in value[:-1]:
        array.fill(7)
    for protocol in (4, 5, 5):
        buffers = []
        callback = {"buffer_callback": buffers.append} if protocol == 5 else {}
        text = pickle.dumps(parcel, protocol, **callback)
        for buffer in buffers:  # no view of a view: Python's collector goes down with such
            base = memoryview(buffer).obj
            assert isinstance(base, np.ndarray)
        parcel = pickle.loads(text, buffers=buffers)
        *found, last = parcel.open()
        assert last == "text"
        assert all(np.array_equal(one, two) for one, two in zip(found, want, strict=True))
