"""Sums of batches that workers keep: the same bytes, whichever worker dies."""

import gc
import os
import pickle
import signal
from copy import deepcopy
from threading import Event, Thread

import numpy as np
import pytest
from sklearn.base import clone
from test_collections import data_of, until
from test_failures import ESTIMATORS, NO_SIGKILL, Poison, deadly_step, one_worker_dies, seen

from sklearn_sparsepost._models.admixture import Admixture
from sklearn_sparsepost._run import kept_sums
from sklearn_sparsepost._run.cluster import itself
from sklearn_sparsepost._run.editions import EditionLost
from sklearn_sparsepost._run.kept_sums import (
    OPTION,
    KeptSum,
    SumKeeper,
    coming,
    is_elsewhere,
    is_kept,
    room_for_sums,
)
from sklearn_sparsepost._run.shipping import Shipped
from sklearn_sparsepost._suffstats import SuffStats

dask = pytest.importorskip("dask", reason="needs the dask extra")

# Every kind of local step and of move that memoized learning has.
NAMES = ["LDA memoized", "LDA gibbs", "LDA auto, warm", "HDP births", "mixture moves"]


@pytest.fixture
def on_workers():
    """Workers alone have sums."""
    with dask.config.set({OPTION: 0}):
        yield


def statistics(number):
    """Some, of which no two are alike."""
    return SuffStats({"count": np.full(3, float(number))}, {"count": 0}, {"n_samples": number})


def there(kept):
    """A sum as workers have it."""
    return kept.keeper.get(kept._brought.result())


def same_sum(one, other):
    """Whether two sums have the same bytes."""
    return pickle.dumps((one.arrays, one.scalars)) == pickle.dumps((other.arrays, other.scalars))


def there_alone(kept):
    """The same, without what is here."""
    return KeptSum(kept.keeper, kept._brought)


def numbers_of(sums):
    """Which of these some sums are."""
    found = [coming(part)() for part in sums]
    assert all((part["count"] == part["n_samples"]).all() for part in found)
    return [part["n_samples"] for part in found]


def names_on(dask_worker):
    """What is held on a worker until it is kept."""
    return list(kept_sums._PUT_DOWN)


@pytest.mark.parametrize("name", NAMES)
def test_sums_on_workers_change_no_byte(name, process_cluster, on_workers):
    estimator = clone(ESTIMATORS[name]).set_params(warm_start=True)
    X = data_of(name)
    want = clone(estimator).fit(X)
    with process_cluster.as_current():
        found = clone(estimator).fit(X)
    held, remembered = (fit._fit_state.memo for fit in (found, want))
    assert all(map(is_elsewhere, held)) and not any(map(is_elsewhere, remembered))
    for there, here in zip(held, remembered, strict=True):
        assert pickle.dumps(coming(there)().scalars) == pickle.dumps(here.scalars)
    assert seen(found) == seen(want)
    assert process_cluster.run(names_on) == dict.fromkeys(process_cluster.nthreads(), [])


@pytest.mark.parametrize("name", NAMES)
def test_sums_stay_where_they_are_made_though_the_client_has_them(
    name, process_cluster, monkeypatch
):
    X = data_of(name)
    want = seen(clone(ESTIMATORS[name]).set_params(warm_start=True).fit(X))
    # None is sent by the client.
    monkeypatch.setattr(SumKeeper, "_sent", None)
    with process_cluster.as_current():
        fit = clone(ESTIMATORS[name]).set_params(warm_start=True).fit(X)
    assert seen(fit) == want
    stay = list(filter(is_kept, fit._fit_state.memo))
    assert (
        stay or "births" in name or "moves" in name
    )  # what has moved last stays for its next visit
    for kept in stay:
        halves = [future for [future] in kept._brought.result()]
        places = [place for [place] in process_cluster.who_has(halves).values()]
        assert len(places) == 2 and {*places} <= {*process_cluster.nthreads()}
        assert not is_elsewhere(kept) and same_sum(there(kept), kept.here)


def test_sums_that_the_client_has_not_are_with_two_workers(
    process_cluster, monkeypatch, on_workers
):
    # Each half goes from its worker to another, and none by way of the client.
    monkeypatch.setattr(SumKeeper, "_sent", None)
    with process_cluster.as_current():
        lda = clone(ESTIMATORS["LDA memoized"]).set_params(warm_start=True)
        lda.fit(data_of("LDA memoized"))
    for kept in lda._fit_state.memo:
        halves = kept._brought.result()
        holders = process_cluster.who_has([future for pair in halves for future in pair])
        for pair in halves:
            places = sorted(holders[future.key] for future in pair)
            assert places == [(worker,) for worker in sorted(process_cluster.nthreads())]


def test_a_client_has_the_sums_that_it_has_room_for(process_cluster):
    configured = deepcopy(dask.config.config)
    X = data_of("LDA memoized")
    lda = clone(ESTIMATORS["LDA memoized"]).set_params(warm_start=True)
    want = clone(lda).fit(X)
    sizes = [sum(a.nbytes for a in part.arrays.values()) for part in want._fit_state.memo]
    with process_cluster.as_current(), dask.config.set({OPTION: max(sizes) + min(sizes)}):
        lda.fit(X)
    assert seen(lda) == seen(want)
    here = [part.here is not None for part in lda._fit_state.memo]
    assert 0 < sum(here) < len(here)
    assert not any(part.is_lost for part in lda._fit_state.memo)
    # Threads that set one option at a time for a while could leave it set.
    assert dask.config.config == configured


def test_old_sums_make_room_for_new_ones(process_cluster):
    one = statistics(1)
    keeper = SumKeeper(process_cluster, 2 * one["count"].nbytes)
    kept = [keeper.keep_last(one), keeper.keep_last(one), keeper.keep_last(one)]
    assert list(map(is_elsewhere, kept)) == [False, False, True]
    new = keeper.keep_last(one, kept[0])
    assert not is_elsewhere(new)
    assert kept[0]._brought is None and coming(kept[0])() is one  # which the client alone has now
    assert is_elsewhere(keeper.keep_last(one, kept[2]))
    assert not is_elsewhere(SumKeeper(process_cluster, 24).keep_last(one, kept[1]))
    kept.clear()
    del new
    assert not is_elsewhere(keeper.keep_last(one, one))  # as after a move, which has changed all


def test_a_pass_that_was_given_up_is_made_again(process_cluster, monkeypatch):
    X = data_of("LDA memoized")
    lda = clone(ESTIMATORS["LDA memoized"]).set_params(warm_start=True, max_iter=1)
    want = clone(lda).fit(X)
    n_batches, calls = len(want._fit_state.memo), []
    want = seen(want.set_params(max_iter=2).fit(X))
    keep_last = SumKeeper.keep_last

    def interrupted(*given):
        calls.append(keep_last(*given))
        if len(calls) == n_batches + 2:
            raise KeyboardInterrupt
        return calls[-1]

    monkeypatch.setattr(SumKeeper, "keep_last", interrupted)
    with process_cluster.as_current():
        with pytest.raises(KeyboardInterrupt):
            lda.set_params(max_iter=3).fit(X)
        assert lda.n_iter_ == 1
        assert seen(lda.set_params(max_iter=2).fit(X)) == want


def test_half_of_a_sum_without_globals_is_no_sum(process_cluster, monkeypatch):
    # As where a worker dies between its two tasks, and one is made again elsewhere.
    monkeypatch.setattr(kept_sums, "_packed_here", lambda name, result: Shipped(EditionLost("1")))
    gather = SumKeeper(process_cluster, 0).gathers(None)
    half = process_cluster.submit(itself, Shipped((statistics(5), [])), pure=False)
    with pytest.raises(EditionLost):
        gather([(half, {})])


def test_what_is_not_wanted_before_its_turn_is_sent_nowhere(process_cluster):
    keeper, begin = SumKeeper(process_cluster, 10**9), Event()
    keeper.thread.submit(begin.wait, 60)
    kept = [keeper.keep_last(statistics(number)) for number in range(3)]
    jobs = [part._brought for part in kept]
    newer = keeper.keep_last(statistics(7), kept[0])
    del kept[1]
    gc.collect()
    begin.set()
    assert [job.cancelled() for job in jobs] == [True, True, False]
    assert numbers_of([there_alone(newer)]) == [7]


def let_go_of_all(dask_worker):
    """As many names after it have a name be forgotten before it is kept."""
    kept_sums._PUT_DOWN.clear()


def test_what_a_worker_has_let_go_of_is_sent_by_the_client(process_cluster):
    keeper = SumKeeper(process_cluster, 0)
    gather = keeper.gathers(lambda parts, apart: parts[0])
    half = process_cluster.submit(itself, Shipped((statistics(5), [])), pure=False)
    [(stats, _)] = gather([(half, {})])
    process_cluster.run(let_go_of_all)
    kept = keeper.keep_last(stats)
    [pair] = kept._brought.result()
    assert len({process_cluster.who_has(future)[future.key] for future in pair}) == 2
    assert [future.result().open()["n_samples"] for future in pair] == [5, 5]


def test_few_sums_wait_for_their_turn(process_cluster):
    keeper, begin, kept = SumKeeper(process_cluster, 0), Event(), []
    keeper.thread.submit(begin.wait, 60)

    def keep_all():
        for number in range(kept_sums.MOST_WAITING + 2):
            kept.append(keeper.keep(statistics(number)))

    keeping = Thread(target=keep_all)
    keeping.start()
    until(lambda: len(kept) == kept_sums.MOST_WAITING)
    keeping.join(0.2)
    assert len(kept) == kept_sums.MOST_WAITING  # and the next only as one of these is brought
    begin.set()
    keeping.join()
    assert numbers_of(kept) == list(range(kept_sums.MOST_WAITING + 2))


@pytest.mark.parametrize(("told", "room"), [(0, 0), ("2 kiB", 2048), (10**9, 10**9)])
def test_room_is_what_the_configuration_says(told, room):
    with dask.config.set({OPTION: told}):
        assert room_for_sums() == room


def test_room_is_a_quarter_of_memory_by_default():
    from distributed.system import MEMORY_LIMIT

    assert room_for_sums() == MEMORY_LIMIT // 4 > 0


@pytest.mark.parametrize("name", ["LDA memoized", "LDA gibbs"])
def test_fits_go_on_from_sums_on_workers(name, process_cluster, on_workers):
    X = data_of(name)
    estimator = clone(ESTIMATORS[name]).set_params(max_iter=2, warm_start=True)
    want = seen(clone(estimator).fit(X).fit(X))
    with process_cluster.as_current():
        there = clone(estimator).fit(X)
        stored = pickle.dumps(there)
        assert seen(there.fit(X)) == want
        assert seen(pickle.loads(stored).fit(X)) == want
    assert seen(pickle.loads(stored).fit(X)) == want  # here, as well as there
    with process_cluster.as_current():
        there = clone(estimator).fit(X)
    assert seen(there.fit(X)) == want  # whose sums are on workers still


def test_sums_go_with_the_estimator(process_cluster, on_workers):
    def n_tasks(dask_scheduler):
        return len(dask_scheduler.tasks)

    with process_cluster.as_current():
        lda = clone(ESTIMATORS["LDA memoized"]).set_params(warm_start=True)
        lda.fit(data_of("LDA memoized"))
        n_kept = sum(2 * len(part._brought.result()) for part in lda._fit_state.memo)
        gc.collect()
        # Two of each half of a sum, and nothing that they were made of.
        until(lambda: process_cluster.run_on_scheduler(n_tasks) == n_kept)
        del lda
        gc.collect()
        until(lambda: process_cluster.run_on_scheduler(n_tasks) == 0)


def test_one_worker_keeps_what_the_client_has(threads_cluster):
    with threads_cluster.as_current():
        lda = clone(ESTIMATORS["LDA memoized"]).set_params(warm_start=True)
        lda.fit(data_of("LDA memoized"))
    assert all(same_sum(there(part), part.here) for part in lda._fit_state.memo)


def test_one_worker_keeps_nothing_alone(threads_cluster, on_workers):
    with threads_cluster.as_current():
        lda = clone(ESTIMATORS["LDA memoized"]).set_params(warm_start=True)
        lda.fit(data_of("LDA memoized"))
    assert all(isinstance(coming(part)(), SuffStats) for part in lda._fit_state.memo)
    assert numbers_of([SumKeeper(threads_cluster, 0).keep(statistics(n)) for n in range(3)]) == [
        0,
        1,
        2,
    ]


def test_a_sum_that_is_twice_on_one_worker_stays_here(process_cluster, monkeypatch):
    monkeypatch.setattr(kept_sums, "_another", lambda first, workers, turn: first)
    kept = SumKeeper(process_cluster, 0).keep(statistics(3))
    assert isinstance(kept._brought.result(), SuffStats)
    assert numbers_of([kept]) == [3]


def test_sums_are_on_two_workers(process_cluster):
    keeper = SumKeeper(process_cluster, 0)
    for number in range(4):
        kept = keeper.keep(statistics(number))  # held, or nobody would want it
        [pair] = kept._brought.result()
        # One copy each: Dask drops either of two after some seconds.
        holders = process_cluster.who_has(list(pair)).values()
        assert sorted(holders) == [(worker,) for worker in sorted(process_cluster.nthreads())]


@pytest.mark.parametrize("room", ["disk", -1, [3]])
def test_no_number_of_bytes_is_refused_before_any_work(room, threads_cluster):
    lda = clone(ESTIMATORS["LDA memoized"])
    told = pytest.raises(ValueError, match=r"client_memory_for_sums .* number of bytes.*, got ")
    with threads_cluster.as_current(), dask.config.set({OPTION: room}), told:
        lda.fit(data_of("LDA memoized"))
    assert not hasattr(lda, "components_")


# ---------------------------------------------------------------------- workers that die


def kill(client, address):
    """Kill a worker, and wait until the scheduler knows."""
    pid = client.run(os.getpid, workers=[address])[address]
    os.kill(pid, signal.SIGKILL)
    until(lambda: address not in client.nthreads())


@NO_SIGKILL
def test_either_worker_of_a_sum_may_die(mortal_cluster):
    keeper = SumKeeper(mortal_cluster, 0)
    sums = [keeper.keep(statistics(n)) for n in range(4)]
    assert numbers_of(sums) == [0, 1, 2, 3]
    kill(mortal_cluster, sorted(mortal_cluster.nthreads())[0])
    assert numbers_of(sums) == [0, 1, 2, 3]
    assert numbers_of([sums[0].like(statistics(7))]) == [7]


@NO_SIGKILL
@pytest.mark.parametrize("dies", ["before", "after"])
def test_a_half_whose_worker_dies_is_sent_by_the_client(dies, mortal_cluster):
    keeper, kept = SumKeeper(mortal_cluster, 0), None
    [worker, *_] = sorted(mortal_cluster.nthreads())
    found = Shipped((statistics(5), ["local"]))
    half = mortal_cluster.submit(itself, found, workers=[worker], allow_other_workers=True)
    gather = keeper.gathers(lambda parts, apart: parts[0].add(parts[1]))
    [(stats, local)] = gather([(half, {"workers": [worker], "allow_other_workers": True})])
    assert local == ["local"]
    if dies == "before":  # it is twice
        kill(mortal_cluster, worker)
        until(lambda: len(mortal_cluster.nthreads()) == 2)
    kept = keeper.keep_last(stats)
    if dies == "after":
        kept._brought.result()
        kill(mortal_cluster, worker)
    assert numbers_of([kept]) == [5]


@NO_SIGKILL
def test_a_worker_that_dies_with_sums_changes_no_byte(
    tmp_path, monkeypatch, mortal_cluster, on_workers
):
    X, estimator = data_of("LDA auto, warm"), clone(ESTIMATORS["LDA auto, warm"])
    want = seen(clone(estimator).fit(X))
    with mortal_cluster.as_current(), one_worker_dies(tmp_path, monkeypatch) as deadly:
        estimator.set_callbacks(Poison(deadly)).fit(X)
    assert seen(estimator.set_callbacks()) == want


@NO_SIGKILL
def test_a_fit_goes_on_without_sums_that_died(tmp_path, monkeypatch, mortal_cluster, on_workers):
    deadly = tmp_path / "deadly"
    X = data_of("LDA memoized")
    estimator = clone(ESTIMATORS["LDA memoized"]).set_params(warm_start=True)
    want = clone(estimator).set_params(max_iter=2).fit(X)
    monkeypatch.setattr(Admixture, "local_step", deadly_step(str(deadly)))
    monkeypatch.setattr(mortal_cluster.cluster.scheduler, "allowed_failures", 0)
    told = pytest.raises(RuntimeError, match="warm_start=True goes on from there")
    with mortal_cluster.as_current(), told:
        estimator.set_callbacks(Poison(deadly)).fit(X)
    assert estimator.n_iter_ == 2
    np.testing.assert_array_equal(estimator.components_, want.components_)
    mortal_cluster.cluster.close()
    mortal_cluster.close()
    deadly.unlink()
    copied = pickle.loads(pickle.dumps(estimator.set_callbacks()))
    assert copied._fit_state.memo is None
    for fit in (estimator, copied):
        fit.set_params(max_iter=3).fit(X)  # from the topics, since what batches had left is lost
        assert fit.n_iter_ == 5 and fit.bound_history_[-1] > want.bound_history_[-1]


def test_a_sum_that_both_workers_have_lost_is_told(process_cluster):
    keeper = SumKeeper(process_cluster, 0)
    brought = keeper.thread.submit(
        lambda: [[process_cluster.submit(kept_sums._keep, name) for name in ("one", "other")]]
    )
    kept = KeptSum(keeper, brought)
    assert not kept.is_lost
    with pytest.raises(RuntimeError, match="two workers died .*warm_start=True goes on"):
        kept.fetch()
    assert kept.is_lost
