"""Kernels of changes against slow and obvious Python."""

import numpy as np
import pytest

from sklearn_sparsepost._kernels import _changes as kernels
from sklearn_sparsepost._tables import SparseTable, add_in_turn

RNG = np.random.default_rng(0)


def two_arrays(n, share):
    """Arrays of which some entries differ, by numbers of single precision or others."""
    old = RNG.normal(size=n)
    new = old.copy()
    where = np.flatnonzero(RNG.random(n) < share)
    new[where] += RNG.normal(size=len(where)).astype(np.float32)
    new[where[::3]] = RNG.normal(size=len(where[::3]))
    for at, number in zip(where[::5], [np.nan, np.inf, -np.inf, -0.0, 5e-324], strict=False):
        new[at] = number
    return old, new


@pytest.mark.parametrize("n, share", [(0, 0), (1, 1), (7, 0.5), (8, 0.5), (1003, 0.02), (999, 1)])
def test_changes_make_one_array_of_another(n, share):
    old, new = two_arrays(n, share)
    differs = np.flatnonzero(old.view("u8") != new.view("u8"))
    held = old.copy()
    stepping, steps, places, values = kernels.take_changes(held, new, 40, n)
    assert held.tobytes() == new.tobytes()
    np.testing.assert_array_equal(np.sort(np.concatenate([stepping, places])), differs + 40)
    assert (np.diff(stepping) > 0).all() and (np.diff(places) > 0).all()
    assert len(stepping) >= 0.5 * len(differs) - 3 and steps.dtype == np.float32
    found = old.copy()
    kernels.add_steps(found, stepping - 40, steps)
    found[places - 40] = values
    assert found.tobytes() == new.tobytes()


def test_too_many_changes_are_not_told():
    old, new = two_arrays(1000, 0.1)
    n_changes = np.count_nonzero(old.view("u8") != new.view("u8"))
    assert kernels.take_changes(old.copy(), new, 0, n_changes - 1) is None
    found = kernels.take_changes(old.copy(), new, 0, n_changes)
    assert len(found[0]) + len(found[2]) == n_changes
    assert kernels.take_changes(new.copy(), new, 0, 0) is not None
    with pytest.raises(ValueError, match="1000 and 999 numbers"):
        kernels.take_changes(old, new[1:], 0, 1000)


# ---------------------------------------------------------------------- sums that tell

SHAPE = 300, 130
ODD = [np.nan, np.inf, -np.inf, -0.0, 5e-324, 1e300]


def some_tables(seed, n):
    """Sparse tables, of single and double precision, and multiples; numbers are of any kind."""
    rng = np.random.default_rng(seed)
    parts = []
    for number in range(n):
        dense = np.where(rng.random(SHAPE) < 0.04, rng.normal(size=SHAPE), 0.0)
        dense[rng.random(SHAPE[0]) < 0.3] = 0
        dense[7, :6] = rng.permutation(ODD)
        with np.errstate(over="ignore"):
            table = SparseTable.of(dense.astype(np.float32 if number % 2 == 0 else np.float64))
        parts.append((table, [-1.0, 1.0, 0.3][(number + seed) % 3]))
    return parts


def added(total, parts, *, anew):
    """What stands there in the end, one entry after another."""
    want = np.zeros_like(total) if anew else total.copy()
    with np.errstate(all="ignore"):
        for table, factor in parts:
            rows = np.repeat(table.rows, np.diff(table.row_ptr))
            for row, column, value in zip(rows, table.columns, table.values, strict=True):
                want[row, column] += factor * np.float64(value)
    return want


def same_bits(one, other):
    """NaN is NaN: of two that are added processors keep the one or the other."""
    nan = np.isnan(other)
    np.testing.assert_array_equal(np.isnan(one), nan)
    assert np.where(nan, 0, one).tobytes() == np.where(nan, 0, other).tobytes()


def applied(old, changes):
    found = old.copy()
    for stepping, steps, places, values in changes:
        assert steps.dtype == np.float32
        assert (np.diff(stepping) > 0).all() and (np.diff(places) > 0).all()
        with np.errstate(invalid="ignore"):
            kernels.add_steps(found.reshape(-1), stepping, steps)
        found.reshape(-1)[places] = values
    return found


@pytest.mark.parametrize("n_threads", [1, 2, 5])
@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_tables_are_added_in_turn_and_tell_what_changes(n, anew, n_threads, monkeypatch):
    monkeypatch.setattr("sklearn_sparsepost._tables.threads_for", lambda work: n_threads)
    parts = some_tables(n, n)
    # What is made anew was of the same tables, but for rounding and a tenth of one's entries.
    old = added(np.zeros(SHAPE), parts[::-1] if anew else some_tables(9, 1), anew=False)
    if anew:
        old[np.where(RNG.random(SHAPE) < 0.1, old, 0) != 0] += 1.5
    want = added(old, parts, anew=anew)
    silent, total = old.copy(), old.copy()
    assert add_in_turn(silent, parts, anew=anew) is None
    same_bits(silent, want)
    changes = add_in_turn(total, parts, anew=anew, tells=True)
    assert total.tobytes() == silent.tobytes()
    assert applied(old, changes).tobytes() == total.tobytes()
    told = np.sort(np.concatenate([part for change in changes for part in change[::2]]))
    differs = old.view("u8") != total.view("u8")
    np.testing.assert_array_equal(told, np.flatnonzero(differs))
    assert sum(len(change[0]) for change in changes) > 0


def test_a_row_of_any_order_and_tables_of_nothing():
    old = RNG.normal(size=(3, 70))
    columns = np.array([69, 0, 64, 63], np.int32)
    table = SparseTable(
        np.array([1], np.int32), np.array([0, 4]), columns, np.ones(4, np.float32), old.shape
    )
    nothing = SparseTable.of(np.zeros(old.shape))
    total = old.copy()
    changes = add_in_turn(total, [(nothing, 1.0), (table, 2.0)], tells=True)
    want = old.copy()
    want[1, columns] += 2
    assert total.tobytes() == want.tobytes() == applied(old, changes).tobytes()
    changes = add_in_turn(total, [(nothing, 1.0)], tells=True)
    assert total.tobytes() == want.tobytes() and not sum(len(part) for part in changes[0])


def test_of_more_changes_than_entries_none_is_told():
    total = RNG.normal(size=(20, 30))
    table = SparseTable.of(np.eye(20, 30, dtype=np.float32))
    assert add_in_turn(total, [(table, 1.0)], anew=True, tells=True) is None
    np.testing.assert_array_equal(total, np.eye(20, 30))
    memory = np.empty(19, np.int64), np.empty(19, np.float32), np.empty(19)
    given = table.rows, table.row_ptr[None, :-1], table.row_ptr[None, 1:]
    entries, factors = [(table.columns, table.values)], np.ones(1)
    with pytest.raises(ValueError, match="memory is too small for the changes"):
        kernels.add_in_turn(total, *given, entries, factors, False, memory)
    np.testing.assert_array_equal(total, np.eye(20, 30))
