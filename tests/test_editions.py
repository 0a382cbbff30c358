"""Values that are sent as what has changed: the same bits, whoever reads them and when."""

import pickle
from threading import Event, Thread

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from test_collections import blocked
from test_failures import NO_SIGKILL, Poison, one_worker_dies

from sklearn_sparsepost import SparseLDA
from sklearn_sparsepost._models.contract import Globals
from sklearn_sparsepost._run import cluster as cluster_module
from sklearn_sparsepost._run import editions as editions_module
from sklearn_sparsepost._run.editions import (
    MOST_LOST,
    Change,
    EditionLost,
    Editions,
    Whole,
    edition,
)
from sklearn_sparsepost._suffstats import N_NOTED, SuffStats
from sklearn_sparsepost._tables import SparseTable

pytest.importorskip("distributed", reason="needs the dask extra")

RNG = np.random.default_rng(0)
# Many more words than a document has, so that a batch changes few counts.
WIDE = sp.csr_matrix(RNG.poisson(0.005, (90, 900)))
WIDE_CUTS = [0, 20, 50, 90]
KINDS = {
    "memoized": SparseLDA(8, n_batches=3),
    "online": SparseLDA(8, learning_method="online", batch_size=30),
    "learned": SparseLDA(8, n_batches=3, doc_topic_prior="auto", doc_start="warm"),
}
for made in KINDS.values():
    made.set_params(max_iter=3, tol=0, sparsity_level=2, random_state=0)


def arrived(value):
    return pickle.loads(pickle.dumps(value))


def table(share=0.05):
    return np.where(RNG.random((300, 40)) < share, RNG.random((300, 40)), 0.0)


def changed(old):
    """As batches change counts: numbers of single precision come and go, and some others."""
    new = old.copy()
    where = RNG.random(old.shape) < 0.01
    with np.errstate(all="ignore"):
        new[where] += RNG.random(where.sum()).astype(np.float32)
    new[0, :7] = RNG.permutation([-0.0, np.nan, np.inf, -np.inf, 1e300, 0.0, 5e-324])
    return new


def bits(value):
    found = [value.counts, value.single, value.name, value.numbers, value.same is value.counts]
    return [part.tobytes() if isinstance(part, np.ndarray) else part for part in found]


def value_of(counts, name):
    single, numbers = counts.astype(np.float32), np.arange(5000)
    numbers[len(name)] = 7
    return Globals(counts=counts, single=single, same=counts, name=name, numbers=numbers)


def all_held(*send):
    """Editions whose changes are all held."""
    editions = Editions(*send)
    for _ in range(MOST_LOST):
        editions.lost()
    return editions


def a_chain(n_editions):
    """Values, and what was sent for each."""
    editions, counts = all_held(arrived), table()
    values, sent = [], []
    with np.errstate(over="ignore"):
        for n in range(n_editions):
            values.append(bits(value_of(counts, "x" * n)))
            sent.append(editions.futures(value_of(counts, "x" * n)))
            counts = changed(counts)
    return values, sent


@pytest.fixture
def long_chains(monkeypatch):
    monkeypatch.setattr("sklearn_sparsepost._run.editions.MOST_CHANGES", 100)


def read(parts):
    with edition(parts) as value:
        return bits(value)


def test_editions_are_changes_until_these_weigh_too_much():
    values, sent = a_chain(60)
    lengths = [len(parts) for parts in sent]
    assert lengths[:3] == [1, 2, 3] and lengths.count(1) > 1
    assert all(a + 1 == b or b == 1 for a, b in zip(lengths[:-1], lengths[1:], strict=True))
    small = sum(part.nbytes for part in sent[2][1:]) / 2
    assert small < 0.2 * sum(len(part) for part in values[0][:2])
    for want, parts in zip(values, sent, strict=True):
        assert read(parts) == want


def at_places(editions, *places):
    """What places read of an edition, in order."""
    return [read([place, *changes]) for place, *changes in map(editions.futures_at, places)]


@np.errstate(over="ignore")
def test_a_change_is_let_go_once_all_places_have_been_given_it():
    places = {"here": [], "there": [], "late": []}

    def send_on(whole, place):
        places[place].append(arrived(whole))
        return places[place][-1]

    editions, counts = Editions(arrived, send_on), table()

    def n_changes():
        nonlocal counts
        counts = changed(counts)
        editions.futures(value_of(counts, "x"))
        return len(editions.futures_at("here")) - 1

    def seen(*names):
        want = bits(value_of(counts, "x"))
        assert at_places(editions, *names) == [want] * len(names)

    editions.futures(value_of(counts, "x"))
    seen("here", "there")
    for _ in range(30):  # without end
        assert n_changes() == 1
        seen("here", "there")
    assert n_changes() == 1
    seen("here")  # and nothing is done there
    assert [n_changes(), n_changes()] == [2, 3]
    seen("there", "here")
    assert n_changes() == 1
    # Who has not been there from the beginning on cannot know.
    with pytest.raises(EditionLost, match="number 33: the last one here is 0"):
        seen("late")
    assert places["late"][0]._last is None  # nothing was unpacked for that
    editions.lost()
    assert n_changes() == 0
    seen("here", "there", "late")
    assert n_changes() == 1 and [len(wholes) for wholes in places.values()] == [2, 2, 2]
    seen("here", "there", "late")
    # What is read late, after the next edition, is not there any more.
    assert n_changes() == 1
    before = editions.futures_at("here")
    seen("here", "there", "late")
    assert n_changes() == 1
    seen("here")
    with pytest.raises(EditionLost, match="number 1: the last one here is 0"):
        read(before)
    # Where this is seen again and again, all changes are held.
    for _ in range(MOST_LOST):
        editions.lost()
    assert [n_changes() for _ in range(4)] == [0, 1, 2, 3]


def test_editions_are_read_in_any_order(long_chains):
    values, sent = a_chain(8)
    whole = sent[0][0]
    for n in (3, 1, 7, 7, 0, 5):
        assert read([whole, *sent[n][1:]]) == values[n]
    assert read([arrived(whole), *sent[7][1:]]) == values[7]


def test_an_edition_stays_as_it_is_while_it_is_read(long_chains):
    values, sent = a_chain(4)
    whole, changes = sent[0][0], sent[3][1:]
    with whole.edition(changes[:1]) as before, whole.edition(changes) as after:
        assert (bits(before), bits(after)) == (values[1], values[3])
        with whole.edition(changes[:2]) as between:
            assert bits(between) == values[2]
        assert (bits(before), bits(after)) == (values[1], values[3])
    assert read([whole, *changes]) == values[3]


def test_many_threads_read_editions(long_chains):
    values, sent = a_chain(6)
    whole, go, wrong = sent[0][0], Event(), []

    def reader(order):
        go.wait()
        for n in order:
            if read([whole, *sent[n][1:]]) != values[n]:
                wrong.append(n)

    orders = RNG.integers(0, 6, (6, 40))
    threads = [Thread(target=reader, args=(order,)) for order in orders]
    for thread in threads:
        thread.start()
    go.set()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_is_of_another_form_or_others_all_over_is_sent_whole():
    editions = Editions(arrived)
    dense = RNG.random((300, 40))
    low = table()[:200]
    for counts in (dense, RNG.random((300, 40)), table(), low, low.astype(np.float32)):
        parts = editions.futures({"held": [counts, "text"]})
        assert len(parts) == 1 and isinstance(parts[0], Whole)
        with edition(parts) as value:
            assert value["held"][0].tobytes() == counts.tobytes()
    assert len(editions.futures({"held": [counts, "another"]})) == 2
    editions.forget()
    assert len(editions.futures({"held": [counts, "another"]})) == 1


def test_a_change_of_two_thirds_is_sent_as_one():
    editions, old = Editions(arrived), RNG.random((300, 40))
    whole = editions.futures([old])[0]
    new = np.where(RNG.random(old.shape) < 0.65, RNG.random(old.shape), old)
    parts = editions.futures([new])
    assert len(parts) == 2 and 0.5 < parts[1].nbytes / whole.parcel.nbytes < 0.9
    with edition(parts) as value:
        assert value[0].tobytes() == new.tobytes()


def test_what_is_sent_whole_is_kept_in_the_memory_of_the_one_before():
    editions, first = Editions(arrived), RNG.random((300, 40))
    editions.futures([first])
    (kept,) = editions._sent.arrays
    second = RNG.random((300, 40))
    assert len(editions.futures([second])) == 1
    assert editions._sent.arrays[0] is kept and not np.shares_memory(kept, second)
    second[3, 5] = 7  # in place, as statistics are
    parts = editions.futures([second])
    assert len(parts) == 2
    with edition(parts) as value:
        assert value[0].tobytes() == second.tobytes()


def test_what_is_told_is_sent_and_nothing_looked_at(monkeypatch):
    stats = SuffStats({"table": table(), "count": np.zeros(3)}, {"table": 1, "count": 0}, {})
    editions = Editions(arrived)
    monkeypatch.setattr(editions_module, "_change_of", None)  # not asked

    def sent():
        parts = editions.futures([stats["table"], "text"], stats)
        with edition(parts) as value:
            assert value[0].tobytes() == stats["table"].tobytes()
        assert editions._sent.arrays == [None]  # no copy is kept
        if len(parts) == 1:
            return "whole"
        changes = [change for of_array in parts[-1].parcel.open()[1] for change in of_array]
        return sum(len(change[0]) + len(change[2]) for change in changes)

    def a_batch(share=0.01):
        return SuffStats({"table": SparseTable.of(table(share))}, stats.axes, {})

    assert sent() == "whole"
    batch = a_batch()
    stats.add(batch)
    assert sent() == len(batch["table"].values)
    stats.add(batch, -1.0)
    assert sent() == len(batch["table"].values)
    other = a_batch()
    stats.add(batch).add(other)
    assert sent() == len(batch["table"].values) + len(other["table"].values)
    want = np.zeros((300, 40))
    for part in (batch, other):
        part["table"].add_to(want, 1.0)
    stats.add_in_turn((batch, -1.0), (other, 1.0))
    assert sent() == np.count_nonzero(want)
    assert sent() == 0
    stats.scale(0.5).add(other)
    assert sent() == len(other["table"].values)
    # What is not noted, or is of other statistics or another table, is sent whole.
    for change in (
        lambda: [stats.add(other) for _ in range(N_NOTED + 1)],
        lambda: stats.add(other).scale(1e-200),
        lambda: stats.clear().add(batch),
        # More goes than there is room to tell.
        lambda: stats.add(a_batch(0.05)).add_in_turn((batch, 1.0), anew=True),
        lambda: stats.arrays.update(table=stats["table"] + (table(0.01) > 0)),
        lambda: stats.add(SuffStats({"table": table(0.01)}, stats.axes, {})),
    ):
        change()
        assert sent() == "whole"
        stats.add(other)
        assert sent() == len(other["table"].values)
    stats = stats.copy()
    stats.version += 1
    assert sent() == "whole"


def test_what_was_told_once_is_not_compared_with_what_it_was_before(monkeypatch):
    monkeypatch.setattr(editions_module, "WORTH_IT", 10)
    stats = SuffStats({"table": table()}, {"table": 1}, {})
    editions = Editions(arrived)

    def sent(source):
        parts = editions.futures([stats["table"]], source)
        with edition(parts) as value:
            assert value[0].tobytes() == stats["table"].tobytes()
        return len(parts)

    assert sent(None) == 1
    stats["table"][2, 3] += 1
    assert sent(stats) == 2  # compared, and seen with a source from now on
    stats.changes_since(stats.version, stats["table"])
    stats.add(SuffStats({"table": SparseTable.of(table(0.01))}, stats.axes, {}))
    assert sent(stats) == 3  # told
    stats["table"][2, 3] += 1
    assert sent(None) == 1
    stats["table"][2, 3] += 1
    assert sent(None) == 2


def test_where_most_differs_a_sample_tells(monkeypatch):
    editions, many = Editions(arrived), RNG.random((700, 40))
    editions.futures(np.where(many < 0.1, many, 0.0))
    monkeypatch.setattr(editions_module, "_change_of", None)  # not asked
    (whole,) = editions.futures(many)
    with edition([whole]) as value:
        assert value.tobytes() == many.tobytes()


def test_each_place_has_a_whole_of_its_own_until_one_is_sent_anew():
    sent = []

    def send_on(whole, place):
        sent.append((place, whole))
        return place, whole

    editions, counts = all_held(arrived, send_on), table()
    last = None
    for _ in range(60):
        whole, *changes = editions.futures([counts])
        for place in ("here", "there", "here"):
            assert editions.futures_at(place) == [(place, whole), *changes]
        if whole is not last:
            assert sent[-2:] == [("here", whole), ("there", whole)]
        last = whole
        with np.errstate(over="ignore"):
            counts = changed(counts)
    wholes = {id(whole) for _, whole in sent}
    assert 1 < len(wholes) < 30 and len(sent) == 2 * len(wholes)
    editions.forget()
    editions.futures([counts])
    editions.futures_at("here")
    assert len(sent) == 2 * len(wholes) + 1


def test_a_send_that_fails_is_forgotten():
    counts, fails = table(), []

    def send(value):
        if fails:
            raise KeyboardInterrupt
        return arrived(value)

    editions = Editions(send)
    editions.futures([counts])
    fails.append(True)
    with pytest.raises(KeyboardInterrupt):
        editions.futures([changed(counts)])
    fails.clear()
    parts = editions.futures([counts])
    assert len(parts) == 1
    with edition(parts) as value:
        assert value[0].tobytes() == counts.tobytes()


# ---------------------------------------------------------------------- fits


@pytest.fixture
def sent(monkeypatch):
    """What clusters are sent."""
    found, to_workers = [], cluster_module.sent_to_workers

    def noting(client, value):
        found.append(value)
        return to_workers(client, value)

    monkeypatch.setattr(cluster_module, "sent_to_workers", noting)
    # Of so few words changes are hardly smaller.
    monkeypatch.setattr("sklearn_sparsepost._run.editions.WORTH_IT", 10)
    monkeypatch.setattr("sklearn_sparsepost._run.editions.MOST_CHANGES", 100)
    return found


@pytest.fixture
def told(monkeypatch):
    """What statistics told of a table's changes, where they knew them."""
    found, changes_since = [], SuffStats.changes_since

    def noting(stats, version, array):
        changes = changes_since(stats, version, array)
        found.extend(changes or [])
        return changes

    monkeypatch.setattr(SuffStats, "changes_since", noting)
    return found


def seen_of(estimator):
    names = [name for name in vars(estimator) if name[-1] == "_"]
    return {name: np.asarray(getattr(estimator, name)).tobytes() for name in names}


@pytest.mark.parametrize("n_workers, n_threads, processes", [(2, 1, True), (2, 2, False)])
@pytest.mark.parametrize("name", list(KINDS))
def test_changes_are_sent_and_change_no_byte(
    name, n_workers, n_threads, processes, sent, told, local_cluster
):
    X = blocked(WIDE, WIDE_CUTS)
    want = seen_of(clone(KINDS[name]).fit(X))
    with local_cluster(n_workers, n_threads, processes=processes) as client, client.as_current():
        found = seen_of(clone(KINDS[name]).fit(X))
    assert found == want
    n_changes = sum(isinstance(value, Change) for value in sent)
    assert told
    assert n_changes >= 4 and sum(isinstance(value, Whole) for value in sent) < n_changes


@pytest.mark.parametrize("most", [1, 100])
def test_an_edition_that_is_missed_is_sent_whole(
    most, monkeypatch, sent, local_cluster, failed_tasks
):
    X, changed_here, losses = blocked(WIDE, WIDE_CUTS), Whole._changed, []

    def missed(whole, changes):
        if len(losses) < most and len(changes) == 1:
            raise EditionLost("for once")
        return changed_here(whole, changes)

    def lost(editions):
        losses.append(editions)
        editions_lost(editions)

    editions_lost = Editions.lost
    want = seen_of(clone(KINDS["memoized"]).fit(X))
    monkeypatch.setattr(Whole, "_changed", missed)
    monkeypatch.setattr(Editions, "lost", lost)
    with local_cluster(2, 1, processes=False) as client, client.as_current():
        found = seen_of(clone(KINDS["memoized"]).fit(X))
    assert found == want
    n_wholes = sum(isinstance(value, Whole) for value in sent)
    assert len(losses) >= min(most, MOST_LOST) and n_wholes > len(losses)
    assert not failed_tasks  # which Dask would tell users of, with a traceback


@NO_SIGKILL
def test_a_killed_worker_loses_no_edition(tmp_path, monkeypatch, sent, mortal_cluster):
    X = blocked(WIDE, WIDE_CUTS)
    want = seen_of(clone(KINDS["memoized"]).fit(X))
    estimator = clone(KINDS["memoized"])
    with mortal_cluster.as_current(), one_worker_dies(tmp_path, monkeypatch) as deadly:
        estimator.set_callbacks(Poison(deadly)).fit(X)
    assert any(isinstance(value, Change) for value in sent)
    assert seen_of(estimator.set_callbacks()) == want
