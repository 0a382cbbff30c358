"""Sums of batches that workers keep: the same bytes, whichever worker dies."""

import gc
import os
import pickle
import signal

import numpy as np
import pytest
from sklearn.base import clone
from test_collections import data_of, until
from test_failures import ESTIMATORS, NO_SIGKILL, Poison, deadly_step, once_deadly_step, seen

from sklearn_sparsepost._models.admixture import Admixture
from sklearn_sparsepost._run import kept_sums
from sklearn_sparsepost._run.kept_sums import OPTION, KeptSum, SumKeeper, coming, is_elsewhere
from sklearn_sparsepost._suffstats import SuffStats

dask = pytest.importorskip("dask", reason="needs the dask extra")

# Every kind of local step and of move that memoized learning has.
NAMES = ["LDA memoized", "LDA gibbs", "LDA auto, warm", "HDP births", "mixture moves"]


@pytest.fixture
def on_workers():
    """Workers keep sums."""
    with dask.config.set({OPTION: "workers"}):
        yield


def statistics(number):
    """Some, of which no two are alike."""
    return SuffStats({"count": np.full(3, float(number))}, {"count": 0}, {"n_samples": number})


def numbers_of(sums):
    """Which of these some sums are."""
    found = [coming(part)() for part in sums]
    assert all((part["count"] == part["n_samples"]).all() for part in found)
    return [part["n_samples"] for part in found]


def names_on(dask_worker):
    """What is held on a worker until it is kept."""
    return list(kept_sums._BROUGHT)


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
        n_batches = len(lda._fit_state.memo)
        gc.collect()
        # Two of each sum, and nothing that they were made of.
        until(lambda: process_cluster.run_on_scheduler(n_tasks) == 2 * n_batches)
        del lda
        gc.collect()
        until(lambda: process_cluster.run_on_scheduler(n_tasks) == 0)


def test_one_worker_keeps_nothing(threads_cluster, on_workers):
    with threads_cluster.as_current():
        lda = clone(ESTIMATORS["LDA memoized"]).set_params(warm_start=True)
        lda.fit(data_of("LDA memoized"))
    assert all(isinstance(coming(part)(), SuffStats) for part in lda._fit_state.memo)
    assert numbers_of([SumKeeper(threads_cluster).keep(statistics(n)) for n in range(3)]) == [
        0,
        1,
        2,
    ]


def test_a_sum_that_is_twice_on_one_worker_stays_here(process_cluster, monkeypatch):
    monkeypatch.setattr(kept_sums, "_two_of", lambda workers, turn: workers[:1] * 2)
    kept = SumKeeper(process_cluster).keep(statistics(3))
    assert isinstance(kept._brought.result(), SuffStats)
    assert numbers_of([kept]) == [3]


def test_sums_are_on_two_workers(process_cluster):
    keeper = SumKeeper(process_cluster)
    for number in range(4):
        kept = keeper.keep(statistics(number))._brought.result()
        # One copy each: Dask drops either of two after some seconds.
        holders = process_cluster.who_has(list(kept)).values()
        assert sorted(holders) == [(worker,) for worker in sorted(process_cluster.nthreads())]


def test_an_unknown_place_is_refused_before_any_work(threads_cluster):
    lda = clone(ESTIMATORS["LDA memoized"])
    told = pytest.raises(ValueError, match=r"batch_sums .*\('client', 'workers'\), got 'disk'")
    with threads_cluster.as_current(), dask.config.set({OPTION: "disk"}), told:
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
    keeper = SumKeeper(mortal_cluster)
    sums = [keeper.keep(statistics(n)) for n in range(4)]
    assert numbers_of(sums) == [0, 1, 2, 3]
    kill(mortal_cluster, sorted(mortal_cluster.nthreads())[0])
    assert numbers_of(sums) == [0, 1, 2, 3]
    assert numbers_of([sums[0].like(statistics(7))]) == [7]


@NO_SIGKILL
def test_a_worker_that_dies_with_sums_changes_no_byte(
    tmp_path, monkeypatch, mortal_cluster, on_workers
):
    deadly, name = tmp_path / "deadly", "LDA auto, warm"
    X = data_of(name)
    want = seen(clone(ESTIMATORS[name]).fit(X))
    estimator = clone(ESTIMATORS[name])
    monkeypatch.setattr(Admixture, "local_step", once_deadly_step(str(deadly)))
    with mortal_cluster.as_current():
        estimator.set_callbacks(Poison(deadly)).fit(X)
    assert (tmp_path / "deadly.found").exists() and not deadly.exists()
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
    keeper = SumKeeper(process_cluster)
    brought = keeper.thread.submit(
        lambda: tuple(process_cluster.submit(kept_sums._keep, name) for name in ("one", "other"))
    )
    kept = KeptSum(keeper, brought)
    assert not kept.is_lost
    with pytest.raises(RuntimeError, match="two workers died .*warm_start=True goes on"):
        kept.fetch()
    assert kept.is_lost
