"""Data in Dask arrays: the same bytes wherever the blocks are and whatever becomes of workers."""

import gc
import os
import pickle
import signal
import threading
import time
from collections import deque
from contextlib import contextmanager, nullcontext
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from test_failures import (
    COUNTS,
    ESTIMATORS,
    NO_SIGKILL,
    POINTS,
    Poison,
    deadly_step,
    one_worker_dies,
    seen,
)

from sklearn_sparsepost import SparseLDA, SparseMixture
from sklearn_sparsepost._models.admixture import Admixture
from sklearn_sparsepost._models.inference import DirichletInference
from sklearn_sparsepost._run import chunks as chunking
from sklearn_sparsepost._run import cluster as cluster_module
from sklearn_sparsepost._run import collections as collecting
from sklearn_sparsepost._run import kept
from sklearn_sparsepost._run.cluster import in_order
from sklearn_sparsepost._run.collections import blocks_of, corpus_of

da = pytest.importorskip("dask.array", reason="needs the dask extra")
distributed = pytest.importorskip("distributed", reason="needs the dask extra")
delayed = pytest.importorskip("dask").delayed

COUNT_CUTS, POINT_CUTS = [0, 13, 40, 60], [0, 50, 110, 120]
# Every kind of pass, local step and move, once.
NAMES = ["LDA batch", "LDA online", "LDA auto, warm", "LDA gibbs", "HDP births", "HDP batch, warm"]
NAMES += ["mixture online", "mixture memoized", "mixture moves, batch"]
ON_CLUSTER = [
    ("threads_cluster", "LDA memoized"),
    ("threads_cluster", "mixture online"),
    ("process_cluster", "LDA batch"),
    ("process_cluster", "HDP births"),
    ("threads_cluster", "mixture moves"),
]


def blocked(X, cuts, known=True):
    """A Dask array of the rows of X, cut."""
    blocks = []
    for first, last in zip(cuts[:-1], cuts[1:], strict=True):
        shape = (last - first if known else np.nan, X.shape[1])
        blocks.append(da.from_delayed(delayed(X[first:last]), shape=shape, dtype=X.dtype))
    return da.concatenate(blocks, allow_unknown_chunksizes=True)


def data_of(name):
    """Data, cut into blocks."""
    if name.startswith("mixture"):
        return blocked(POINTS, POINT_CUTS)
    return blocked(COUNTS, COUNT_CUTS)


def add(part, shared, more):
    return part + shared + more


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(chunking, "CHUNK_SIZE", 300)
    monkeypatch.setattr(chunking, "DENSE_CHUNK_SIZE", 400)
    monkeypatch.setattr(chunking, "DENSE_CHUNK_ROWS", 40)


# ---------------------------------------------------------------------- the same bytes


@pytest.mark.parametrize("name", NAMES)
def test_one_block_is_an_array(name):
    X = POINTS if name.startswith("mixture") else COUNTS
    whole = clone(ESTIMATORS[name]).fit(X)
    one = clone(ESTIMATORS[name]).fit(blocked(X, [0, len(POINTS) if X is POINTS else 60]))
    assert seen(one) == seen(whole)


@pytest.mark.parametrize("name", ["LDA memoized", "HDP births", "mixture memoized"])
def test_blocks_have_fewer_batches_where_nobody_says_how_many(name):
    estimator = clone(ESTIMATORS[name]).set_params(n_batches="auto", warm_start=True, max_iter=2)
    X = POINTS if name.startswith("mixture") else COUNTS
    one_block = blocked(X, [0, len(POINTS) if X is POINTS else 60])
    for data, n_batches in [(X, 10), (one_block, 10), (data_of(name), 4)]:
        want = clone(estimator).set_params(n_batches=n_batches).fit(data)
        parts = clone(estimator).set_params(max_iter=1).fit(data).fit(data)
        for found in (clone(estimator).fit(data), parts):
            assert_same_fit(found, want)


def assert_same_fit(found, want):
    """Fits that differ in parameters, perhaps, and in nothing else."""
    found, want = ({**seen(fit), "params": None} for fit in (found, want))
    assert found == want


@pytest.mark.parametrize("where, name", ON_CLUSTER)
def test_a_cluster_changes_no_byte(where, name, request):
    want = seen(clone(ESTIMATORS[name]).fit(data_of(name)))
    with request.getfixturevalue(where).as_current():
        there = clone(ESTIMATORS[name]).fit(data_of(name))
    assert seen(there) == want


def test_unknown_numbers_of_rows_are_counted_and_blocks_of_none_are_nothing():
    estimator = ESTIMATORS["LDA memoized"]
    unknown = clone(estimator).fit(blocked(COUNTS, [0, 0, 13, 13, 40, 60, 60], known=False))
    assert seen(unknown) == seen(clone(estimator).fit(data_of("LDA")))
    rows = blocked(POINTS, [0, 50, 110, 110, 120], known=False)
    mixture = clone(ESTIMATORS["mixture batch"])
    assert seen(clone(mixture).fit(rows)) == seen(mixture.fit(data_of("mixture")))


def test_the_plan_is_that_of_the_blocks():
    X = blocked(COUNTS, COUNT_CUTS)
    corpus = corpus_of(blocks_of(X, lambda block: block), np.float64)
    for plan in (corpus.plan(), corpus.cut([(3, 20), (30, 55)])):
        for runs in plan:
            numbers = [row for run in runs for row in range(*run)]
            assert len(set(np.searchsorted(COUNT_CUTS, numbers, "right"))) == 1
            chunk = corpus.chunk(runs)
            np.testing.assert_array_equal(chunk.rows.toarray(), COUNTS.toarray()[chunk.numbers])
    rows = np.concatenate([np.arange(*run) for runs in corpus.plan() for run in runs])
    np.testing.assert_array_equal(rows, np.arange(60))
    across = corpus.chunk([(3, 20), (30, 55)])
    np.testing.assert_array_equal(across.rows.toarray(), COUNTS.toarray()[across.numbers])
    np.testing.assert_array_equal(across.numbers, [*range(3, 20), *range(30, 55)])


def test_blocks_stay_on_the_workers_that_hold_them(process_cluster):
    with process_cluster.as_current():
        corpus = corpus_of(blocks_of(data_of("LDA"), lambda block: block), np.float64)
    before = process_cluster.who_has(corpus.X.parts)
    for _ in range(3):
        assert sum(corpus.map(_n_rows, None)) == 60
    after = process_cluster.who_has(corpus.X.parts)  # one who is idle may have a copy by now
    assert all(set(before[part]) <= set(after[part]) for part in before)


def _n_rows(chunk, globals_, key):
    return chunk.n_rows


def test_blocks_are_checked_where_they_are(process_cluster):
    rows = np.zeros((2000, 1000))  # which nobody would send for nothing
    workers = 2 * list(process_cluster.scheduler_info()["workers"])
    blocks = [process_cluster.scatter(rows + n, workers=[w]) for n, w in enumerate(workers)]
    X = da.concatenate([da.from_delayed(part, rows.shape, dtype=float) for part in blocks])
    with process_cluster.as_current():
        held = blocks_of(X, np.ascontiguousarray)
    holders = process_cluster.who_has(held.parts)
    assert [holders[part.key][0] for part in held.parts] == workers


def test_a_batch_is_one_task_of_each_worker(process_cluster, monkeypatch):
    workers = list(process_cluster.nthreads())
    rows = POINTS[:80]
    parts = enumerate(np.split(rows, 8))
    blocks = [process_cluster.scatter(part, workers=[workers[n // 4]]) for n, part in parts]
    X = da.concatenate([da.from_delayed(part, (10, 2), dtype=float) for part in blocks])
    with process_cluster.as_current():
        corpus = corpus_of(blocks_of(X, np.ascontiguousarray), np.float64)
    monkeypatch.setattr(corpus.X, "_n_threads", dict.fromkeys(workers, 1))
    places, submit = [], cluster_module.submit

    def noting(client, function, *given, **place):
        if function is cluster_module._on_worker:
            places.append(place["workers"])
        return submit(client, function, *given, **place)

    monkeypatch.setattr(cluster_module, "submit", noting)
    for first, n_tasks in ((2, 1), (0, 4)):  # a batch, and a pass
        places.clear()
        given = {"total": _summed, "chunks": corpus.cut([(first, 80)])}
        [(found, _)] = corpus.visit(_row_sums, np.ones(3), **given)
        np.testing.assert_allclose(found, rows[first:].sum(axis=0))
        assert sorted(places) == sorted(n_tasks * [[place] for place in workers])


@contextmanager
def nobody_steals(client):
    """Work stays where it is sent, whoever has nothing to do."""
    stealing = client.cluster.scheduler.extensions["stealing"]
    client.sync(stealing.stop)
    try:
        yield
    finally:
        client.sync(stealing.start)


@pytest.mark.parametrize("name", ["LDA memoized", "mixture memoized"])
def test_sums_of_four_blocks_of_a_worker_are_summed_again(name, process_cluster, monkeypatch):
    X = POINTS if name.startswith("mixture") else COUNTS
    cuts = np.linspace(0, X.shape[0], 17).astype(int)
    want = seen(clone(ESTIMATORS[name]).fit(blocked(X, cuts)))
    worker, *_ = process_cluster.nthreads()
    blocks = []
    for first, last in zip(cuts[:-1], cuts[1:], strict=True):
        part = process_cluster.scatter(X[first:last], workers=[worker])
        blocks.append(da.from_delayed(part, (last - first, X.shape[1]), dtype=X.dtype))
    sizes, submit = set(), cluster_module.submit

    def noting(client, function, *given, **place):
        if function is cluster_module._on_worker and isinstance(given[1], list):
            sizes.add(len(given[1]))
        return submit(client, function, *given, **place)

    monkeypatch.setattr(cluster_module, "submit", noting)
    with process_cluster.as_current(), nobody_steals(process_cluster):
        there = clone(ESTIMATORS[name]).fit(da.concatenate(blocks))
    assert max(sizes) > cluster_module.AT_ONCE
    assert seen(there) == want


def _row_sums(chunk, globals_, key):
    return chunk.rows.sum(axis=0), None


def _summed(parts, apart=False, neighbours=False):
    return sum(parts)


def test_blocks_of_this_process_are_visited_in_threads():
    X = blocked(COUNTS, COUNT_CUTS)
    corpus = corpus_of(blocks_of(X, lambda block: block), np.float64, n_jobs=2)
    first, second, *_ = corpus.plan()
    both = threading.Barrier(2, timeout=60)  # which one thread alone does not pass
    step = partial(_meeting, both, {first[0][0], second[0][0]})
    [(n_rows, kept)] = corpus.visit(step, None, total=_summed)
    assert n_rows == 60
    assert kept == [runs[0][0] for runs in corpus.plan()]


def _meeting(both, who, chunk, globals_, key):
    if chunk.numbers[0] in who:
        both.wait()
    return chunk.n_rows, chunk.numbers[0]


STARTING = [
    ("LDA auto, warm", COUNT_CUTS),
    ("LDA auto, warm", [0, 60]),
    ("mixture memoized", POINT_CUTS),
]


@pytest.mark.parametrize("name, cuts", STARTING)
def test_what_chunks_start_from_stays_on_the_workers(name, cuts, threads_cluster, monkeypatch):
    X = blocked(POINTS if name.startswith("mixture") else COUNTS, cuts)
    want, given = seen(clone(ESTIMATORS[name]).fit(X)), []

    def noting(block, units, own):
        given.extend(own)
        return kept.starts_of(block, units, own)

    monkeypatch.setattr(collecting, "starts_of", noting)
    with threads_cluster.as_current():
        estimator = clone(ESTIMATORS[name]).fit(X)
    assert seen(estimator) == want
    n_visits = len(given) // estimator.n_iter_  # of chunks, a pass
    assert given[:n_visits] == [None] * n_visits
    # But for a block that somebody else has got meanwhile nothing is sent again.
    assert sum(isinstance(start, kept.Known) for start in given[n_visits:]) >= n_visits


@pytest.mark.parametrize("name, cuts", STARTING)
def test_what_workers_have_lost_of_starts_is_sent_again(name, cuts, threads_cluster, monkeypatch):
    X = blocked(POINTS if name.startswith("mixture") else COUNTS, cuts)
    want, known, lost = seen(clone(ESTIMATORS[name]).fit(X)), kept._known, []

    def forgetting(held, unit, start):
        if len(lost) < 2 and not lost.append(unit):
            held.clear()
        return known(held, unit, start)

    monkeypatch.setattr(kept, "_known", forgetting)
    with threads_cluster.as_current():
        there = clone(ESTIMATORS[name]).fit(X)
    assert len(lost) == 2
    assert seen(there) == want


def test_starts_are_sent_where_they_are_lost_again_and_again(
    threads_cluster, monkeypatch, failed_tasks
):
    name, tried = "LDA auto, warm", []
    want = seen(clone(ESTIMATORS[name]).fit(data_of(name)))

    def nothing(held, unit, start):
        tried.append(unit)
        raise kept.StartLost

    monkeypatch.setattr(kept, "_known", nothing)
    with threads_cluster.as_current():
        there = clone(ESTIMATORS[name]).fit(data_of(name))
    assert seen(there) == want
    assert 0 < len(tried) <= 3 * kept.MOST_LOST  # of each visit's three blocks the first chunks
    assert not failed_tasks


def test_what_is_kept_of_a_block_goes_with_it(threads_cluster):
    before = set(kept._KEPT)
    with threads_cluster.as_current():
        X = data_of("LDA").persist()  # as it is for later fits as well
        corpus = corpus_of(blocks_of(X, lambda block: block), np.float64)
        for _ in range(2):
            [*_] = corpus.visit(_columns, None, total=_summed, keeps=True)
        assert len(set(kept._KEPT) - before) == 3
        del corpus
        until(lambda: set(kept._KEPT) <= before)
    assert X.npartitions == 3


def _columns(chunk, globals_, key):
    return chunk.n_rows, chunk.numbers


def until(is_so):
    """Wait for what a cluster does when it comes to it."""
    for _ in range(600):
        gc.collect()
        if is_so():
            return
        time.sleep(0.1)
    raise AssertionError("it never was")


def test_weights_and_streams(process_cluster):
    kind, X = "LDA memoized", data_of("LDA memoized")
    weight = np.random.default_rng(0).integers(0, 3, X.shape[0]).astype(float)
    found = []
    for context in (nullcontext, process_cluster.as_current):
        with context():
            estimator = clone(ESTIMATORS[kind]).fit(X, sample_weight=weight)
            found.append([seen(estimator), seen(estimator.partial_fit(X[:50]))])
            estimator.set_params(warm_start=True, max_iter=1).fit(X)
            found[-1].append(seen(estimator))
    assert found[0] == found[1]


def test_a_large_start_and_given_topics(process_cluster, monkeypatch):
    monkeypatch.setattr("sklearn_sparsepost._starts.helpers.START_SIZE", 300)
    X = data_of("LDA")
    topics = np.random.default_rng(0).dirichlet(np.ones(30), 5)
    for init in ("k-means++", topics):
        found = []
        for context in (nullcontext, process_cluster.as_current):
            with context():
                found.append(seen(SparseLDA(5, init=init, max_iter=1, random_state=0).fit(X)))
        assert found[0] == found[1]


def test_going_on_with_the_same_blocks_remembers_them():
    X = data_of("LDA")
    whole = clone(ESTIMATORS["LDA memoized"]).fit(X)
    parts = clone(whole).set_params(max_iter=2, warm_start=True).fit(X)
    parts.set_params(max_iter=1).fit(X).set_params(max_iter=3, warm_start=False)
    assert seen(parts) == seen(whole)


# ---------------------------------------------------------------------- fitted models


@pytest.mark.parametrize("sparse_output", [False, True])
def test_transform_is_lazy_and_of_blocks(sparse_output):
    lda = SparseLDA(5, max_iter=2, sparse_output=sparse_output, random_state=0).fit(COUNTS)
    want = lda.transform(COUNTS)
    X = blocked(COUNTS, [0, 13, 13, 40, 60], known=False)  # one of no rows
    found = lda.transform(X)
    assert isinstance(found, da.Array) and found.numblocks == (4, 1)
    found = found.compute()
    assert sp.issparse(found) == sparse_output and found.dtype == want.dtype
    np.testing.assert_array_equal(as_dense(found), as_dense(want))
    plain = lda.set_params(sparse_output=False).transform(X, normalize=False)
    np.testing.assert_array_equal(plain.compute(), lda.transform(COUNTS, normalize=False))


def as_dense(X):
    return X.toarray() if sp.issparse(X) else X


def test_predictions_are_lazy():
    mixture = SparseMixture(3, random_state=0).fit(POINTS)
    X = data_of("mixture")
    for name in ("predict", "predict_proba", "score_samples"):
        found, want = getattr(mixture, name)(X), getattr(mixture, name)(POINTS)
        assert isinstance(found, da.Array) and found.shape == want.shape
        assert found.dtype == want.dtype
        np.testing.assert_array_equal(found.compute(), want)
    assert mixture.score(X) == mixture.score(POINTS)
    assert mixture.aic(X) == mixture.aic(POINTS)
    sparse = mixture.set_params(sparse_output=True).predict_proba(X).compute()
    np.testing.assert_array_equal(sparse.toarray(), mixture.predict_proba(POINTS).toarray())


@pytest.mark.parametrize("where", [None, "process_cluster"])
def test_scores_and_bounds(where, request):
    lda = SparseLDA(5, max_iter=2, random_state=0).fit(COUNTS)
    X = blocked(COUNTS, COUNT_CUTS)
    if where is not None:
        X = request.getfixturevalue(where).persist(X)
    assert lda.score(X) == pytest.approx(lda.score(COUNTS), rel=1e-12)
    assert lda.score(X, random_state=1) == pytest.approx(lda.score(COUNTS, random_state=1))
    assert lda.score(X) != pytest.approx(lda.score(X, random_state=1), rel=1e-6)
    assert lda.perplexity(X) == pytest.approx(lda.perplexity(COUNTS))
    assert lda.bound(X) == pytest.approx(lda.bound(COUNTS))


LEFT = {"method": "left-to-right", "n_particles": 5}


@pytest.mark.parametrize("name", ["LDA batch", "HDP", "alias", "pitman_yor", "process", "ctm"])
def test_documents_are_predicted_from_left_where_they_are(name, monkeypatch):
    monkeypatch.setattr("sklearn_sparsepost.metrics._heldout.SAMPLED_CHUNK", 100)
    model = clone(ESTIMATORS[name]).fit(COUNTS)
    want = model.score(COUNTS, **LEFT)
    for X in (blocked(COUNTS, COUNT_CUTS), blocked(COUNTS, [0, 0, 7, 7, 60], known=False)):
        assert model.score(X, **LEFT) == want
    moved = blocked(COUNTS[np.roll(np.arange(60), 7)], COUNT_CUTS)
    assert model.score(moved, **LEFT) != want  # draws are keyed by the row's number in all of X
    assert model.score(X, random_state=1, **LEFT) == model.score(COUNTS, random_state=1, **LEFT)
    assert model.perplexity(X, **LEFT) == model.perplexity(COUNTS, **LEFT)


@pytest.mark.parametrize("where", ["threads_cluster", "process_cluster"])
def test_a_cluster_predicts_from_left_to_the_same_bytes(where, request):
    cluster = request.getfixturevalue(where)
    for name in ("LDA batch", "ctm"):
        model = clone(ESTIMATORS[name]).fit(COUNTS)
        held = cluster.persist(blocked(COUNTS, COUNT_CUTS))
        assert model.score(held, **LEFT) == model.score(COUNTS, **LEFT)


@NO_SIGKILL
def test_a_killed_worker_changes_no_prediction_from_left(tmp_path, monkeypatch, mortal_cluster):
    lda = clone(ESTIMATORS["LDA batch"]).fit(COUNTS)
    want = lda.score(COUNTS, **LEFT)

    class Deadly(DirichletInference):  # here, so that it travels by value
        left_to_right = DirichletInference.left_to_right

    found = lda._inference()
    monkeypatch.setattr(lda, "_inference", lambda: Deadly(found.documents, found.alpha))
    deaths = (Deadly, "left_to_right")
    with mortal_cluster.as_current(), one_worker_dies(tmp_path, monkeypatch, *deaths) as deadly:
        deadly.touch()
        assert lda.score(blocked(COUNTS, COUNT_CUTS), **LEFT) == want


def test_predictions_from_left_of_nothing_and_of_parts():
    lda = SparseLDA(5, max_iter=1, random_state=0).fit(COUNTS)
    with pytest.warns(UndefinedMetricWarning, match="no document has a word"):
        assert np.isnan(lda.score(blocked(0 * COUNTS, COUNT_CUTS), **LEFT))
    told = (
        "block 1 of X, whose row 0 is row 13 of X: left_to_right .* row 1 of X has a count of 0.5"
    )
    with pytest.raises(ValueError, match=told):
        lda.score(marked(COUNTS, 14, 0, 0.5), **LEFT)


def counts_of(texts, vectorizer):
    """A Dask array of the counts of a list of delayed lists of texts."""
    width = len(vectorizer.vocabulary_)
    return da.concatenate(
        [
            da.from_delayed(delayed(vectorizer.transform)(part), (np.nan, width), np.int64)
            for part in texts
        ]
    )


@pytest.mark.filterwarnings("ignore:.*do not have valid feature names")
def test_a_pipeline_with_a_fitted_vectorizer(process_cluster):
    rng = np.random.default_rng(0)
    words = [f"word{v}" for v in range(20)]
    texts = [" ".join(rng.choice(words, 12)) for _ in range(40)]
    vectorizer = CountVectorizer().fit(texts)
    parts = [delayed(texts[first : first + 10]) for first in range(0, 40, 10)]
    lda = SparseLDA(3, max_iter=2, random_state=0)
    counting = FunctionTransformer(counts_of, kw_args={"vectorizer": vectorizer})
    with process_cluster.as_current():
        found = make_pipeline(counting, lda).fit(parts)
    assert lda.n_features_in_ == len(vectorizer.vocabulary_)
    np.testing.assert_array_equal(
        found.transform(parts).compute(), lda.transform(vectorizer.transform(texts))
    )
    assert found.score(parts) == pytest.approx(lda.score(vectorizer.transform(texts)))


# ---------------------------------------------------------------------- workers that die


@NO_SIGKILL
def test_a_killed_worker_loses_nothing(tmp_path, monkeypatch, mortal_cluster):
    X, estimator = data_of("LDA auto, warm"), clone(ESTIMATORS["LDA auto, warm"])
    want = seen(clone(estimator).fit(X))
    with mortal_cluster.as_current(), one_worker_dies(tmp_path, monkeypatch) as deadly:
        estimator.set_callbacks(Poison(deadly)).fit(X)
    assert seen(estimator.set_callbacks()) == want


@NO_SIGKILL
def test_all_workers_may_die(tmp_path, monkeypatch, mortal_cluster):
    deadly = tmp_path / "deadly"
    X = data_of("LDA memoized")
    estimator = clone(ESTIMATORS["LDA memoized"]).set_params(warm_start=True)
    whole = seen(clone(estimator).fit(X).set_params(warm_start=False))
    monkeypatch.setattr(Admixture, "local_step", deadly_step(str(deadly)))
    # A task that has killed one worker is given up, so that not all have to be begun anew.
    monkeypatch.setattr(mortal_cluster.cluster.scheduler, "allowed_failures", 0)
    told = pytest.raises(RuntimeError, match="warm_start=True goes on from there")
    with mortal_cluster.as_current(), told:
        estimator.set_callbacks(Poison(deadly)).fit(X)
    assert estimator.n_iter_ == 2
    deadly.unlink()
    estimator.set_callbacks().set_params(max_iter=1).fit(X)  # here, as well as anywhere
    assert seen(estimator.set_params(max_iter=3, warm_start=False)) == whole


def test_tasks_are_sent_as_results_are_taken(threads_cluster):
    tasks, read = deque(range(10)), []

    def reader(task):
        read.append(task)
        return task, (1,), None

    results = in_order(threads_cluster, add, tasks, 5, reader, ahead=3)
    assert next(results) == 6
    assert read == [0, 1, 2, 3] and list(tasks) == [*range(1, 10)]
    assert list(results) == [*range(7, 16)] and not tasks


@pytest.mark.parametrize("way", ["worker", "scheduler", "as told", "no worker"])
def test_results_come_from_workers_that_clients_reach(way, process_cluster, monkeypatch):
    ways, gather = [], distributed.Client.gather

    def noting(client, futures, *given, **options):
        ways.append(options["direct"])
        return gather(client, futures, *given, **options)

    async def fail(client, address):
        raise OSError("no route")

    monkeypatch.setattr(distributed.Client, "gather", noting)
    monkeypatch.setattr(cluster_module, "_REACHES", {})
    want = {"worker": True, "scheduler": False}.get(way)
    if way == "scheduler":
        monkeypatch.setattr(cluster_module, "_reach", fail)
    elif way == "as told":
        monkeypatch.setattr(process_cluster, "direct_to_workers", False)
    elif way == "no worker":
        monkeypatch.setattr(process_cluster, "scheduler_info", lambda: {"workers": {}})
    for number in range(2):
        future = process_cluster.submit(abs, -number)
        assert cluster_module.fetched(process_cluster, [future]) == [number]
    with pytest.raises(ZeroDivisionError):
        cluster_module.fetched(process_cluster, [process_cluster.submit(divmod, 1, 0)])
    assert ways == 3 * [want]
    known = {} if want is None else {process_cluster: want}
    assert known == cluster_module._REACHES


@NO_SIGKILL
def test_a_result_that_died_with_its_worker_is_made_again(mortal_cluster):
    future = mortal_cluster.submit(abs, -7)
    assert future.result() == 7
    [[address]] = mortal_cluster.who_has([future]).values()
    assert cluster_module._reaches_workers(mortal_cluster)
    [number] = mortal_cluster.run(os.getpid, workers=[address]).values()
    os.kill(number, signal.SIGKILL)
    assert cluster_module.fetched(mortal_cluster, [future]) == [7]


@pytest.mark.parametrize("n_losses, n_made", [(1, 9), (3, 6)])
def test_tasks_whose_globals_are_lost_are_sent_again(
    n_losses, n_made, threads_cluster, monkeypatch
):
    class FutureCancelledError(Exception):
        """As Dask's, by its name."""

    tasks, found, made, losses = deque(range(9)), [], cluster_module._made, []

    def losing(*given):
        for n, result in enumerate(made(*given)):
            if n == 2 and len(losses) < n_losses:
                losses.append(n)
                raise FutureCancelledError
            yield result

    monkeypatch.setattr(cluster_module, "_made", losing)
    with nullcontext() if n_made == 9 else pytest.raises(FutureCancelledError):
        for result in in_order(threads_cluster, add, tasks, 5, lambda n: (n, (0,), None)):
            found.append(result)
    assert found == [*range(5, 5 + n_made)]
    assert list(tasks) == [*range(n_made, 9)]


# ---------------------------------------------------------------------- bad input


def marked(X, row, column, value):
    X = X.toarray().astype(float)
    X[row, column] = value
    return blocked(X, COUNT_CUTS)


@pytest.mark.parametrize(
    "X, told",
    [
        (marked(COUNTS, 45, 2, -1), "block 2 of X, whose row 0 is row 40 of X: Negative .* row 5"),
        (marked(COUNTS, 14, 0, np.nan), "block 1 of X, whose row 0 is row 13 of X: .* NaN"),
        (marked(COUNTS, 14, 0, np.inf), "block 1 of X.* infinity"),
        (blocked(COUNTS.toarray(), [0, 60]).rechunk((60, 10)), "columns of X are cut into 3"),
        (da.ones(20), "Expected 2D array"),
        (blocked(COUNTS[:0], [0, 0, 0]), "0 sample"),
        (blocked(0 * COUNTS, COUNT_CUTS), "X has no counts"),
        (
            da.concatenate(
                [
                    da.from_delayed(delayed(COUNTS[:5]), (5, 30), int),
                    da.from_delayed(delayed(COUNTS[:5, :9]), (5, 30), int),
                ]
            ),
            "blocks of X have 9 and 30 columns",
        ),
    ],
)
def test_bad_blocks_are_named(X, told):
    lda = SparseLDA(5, max_iter=1)
    with pytest.raises(ValueError, match=told):
        lda.fit(X)
    assert not hasattr(lda, "components_")


def test_bad_rows_are_named():
    rows = POINTS.copy()
    rows[115] = 1e200
    with pytest.raises(ValueError, match="block 2 .* is row 110 of X: row 5 of X holds a value"):
        SparseMixture(2).fit(blocked(rows, POINT_CUTS))
    bits = (POINTS > 0).astype(float)
    bits[60] = 3
    with pytest.raises(ValueError, match="block 1 .* row 10 holds something else"):
        SparseMixture(2, observation="bernoulli").fit(blocked(bits, POINT_CUTS))
    fractions = COUNTS.astype(float)
    fractions.data[-1] = 0.5
    with pytest.raises(ValueError, match="block 2 .* fractional counts"):
        SparseLDA(2, local_step="gibbs").fit(blocked(fractions, COUNT_CUTS))


def test_widths_are_those_of_the_fit():
    lda = SparseLDA(5, max_iter=1).fit(COUNTS)
    narrow = blocked(COUNTS[:, :9], COUNT_CUTS)
    for method in (lda.transform, lda.score, lda.partial_fit):
        with pytest.raises(ValueError, match="X has 9 features, but SparseLDA is expecting 30"):
            method(narrow)
    with pytest.raises(ValueError, match="block 1 of X: Negative values"):
        lda.transform(marked(COUNTS, 14, 0, -1)).compute()


def test_fitted_models_keep_nothing_of_a_cluster(threads_cluster):
    with threads_cluster.as_current():
        lda = SparseLDA(5, max_iter=1, warm_start=True, random_state=0).fit(data_of("LDA"))
    copied = pickle.loads(pickle.dumps(lda))
    np.testing.assert_array_equal(copied.transform(COUNTS), lda.transform(COUNTS))
