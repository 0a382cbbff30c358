"""Rows in groups in the blocks of a Dask array: the bytes of an array, nothing lost."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from test_collections import blocked
from test_failures import NO_SIGKILL, Poison, one_worker_dies
from test_grouped import draw_groups, hdp

from sklearn_sparsepost import SparseHDP
from sklearn_sparsepost._run import chunks as chunking
from sklearn_sparsepost._run.blocks import group_blocks
from sklearn_sparsepost._run.collections import blocks_of, corpus_of
from sklearn_sparsepost.callbacks import HeldoutMonitor

da = pytest.importorskip("dask.array", reason="needs the dask extra")

X, GROUPS, _ = draw_groups(30, seed=1, n_rows=(1, 15))
# Where groups end, blocks may.
CUTS = [0, *(int(np.searchsorted(GROUPS, group)) for group in (7, 16)), len(X)]
EMPTY = [0, 0, *CUTS[1:2], *CUTS[1:]]  # with blocks of no rows
PAIRS = list(zip(CUTS[:-1], CUTS[1:], strict=True))
MIXED = np.random.default_rng(0).permutation(len(X))
MODELS = {
    "batch": hdp(6, learning_method="batch"),
    "online": hdp(6, learning_method="online", batch_size=7),
    "memoized, warm": hdp(6, n_batches=3, doc_start="warm"),
    "births": hdp(2, n_batches=3, moves=["birth", "delete"], covariance_type="diag"),
    "tied, points": hdp(6, n_batches=2, covariance_type="tied", estimation="map"),
}
for made in MODELS.values():
    made.set_params(max_iter=4, tol=0, n_jobs=1)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(chunking, "DENSE_CHUNK_SIZE", 1280)
    monkeypatch.setattr(chunking, "DENSE_CHUNK_ROWS", 20)


def cut(rows=X, cuts=CUTS, known=True):
    return blocked(rows, cuts, known)


def found(estimator, rows=X, groups=GROUPS):
    """What a user can see, in bytes."""
    values = {name: value for name, value in vars(estimator).items() if name[-1:] == "_"}
    values["transform"] = estimator.transform(rows, groups)
    values["score"] = estimator.score(rows, groups=groups)
    values["bound"] = estimator.bound(rows, groups)
    return {name: np.asarray(value).tobytes() for name, value in values.items()}


def shuffled():
    """Numbers of rows that stay in their blocks."""
    rng = np.random.default_rng(0)
    return np.concatenate([rng.permutation(np.arange(*ends)) for ends in PAIRS])


def as_dense(rows):
    return rows.toarray() if sp.issparse(rows) else rows


# ---------------------------------------------------------------------- where groups are


def test_the_plan_is_of_whole_groups():
    held = blocks_of(cut(cuts=EMPTY, known=False), lambda block: block)
    held, grouping = group_blocks(held, GROUPS)
    corpus = corpus_of(held, np.float64, groups=grouping.indptr, threaded=False)
    assert corpus.n_samples == 30 and grouping.rows is None
    assert_array_equal(corpus.edges, [0, 0, 7, 7, 16, 30])
    seen = []
    for plan in (corpus.plan(), corpus.cut([(3, 12), (14, 29)])):
        for runs in plan:
            chunk = corpus.chunk(runs)
            seen.append(chunk.numbers)
            for unit, first, last in zip(
                chunk.numbers, chunk.indptr[:-1], chunk.indptr[1:], strict=True
            ):
                assert_array_equal(chunk.rows[first:last], X[unit == GROUPS])
    assert_array_equal(np.concatenate(seen), [*range(30), *range(3, 12), *range(14, 29)])
    across = corpus.chunk([(2, 9), (15, 20)])  # of three blocks
    assert_array_equal(across.numbers, [*range(2, 9), *range(15, 20)])
    for unit, first, last in zip(
        across.numbers, across.indptr[:-1], across.indptr[1:], strict=True
    ):
        assert_array_equal(across.rows[first:last], X[unit == GROUPS])


@pytest.mark.parametrize("name", MODELS)
def test_one_block_is_an_array(name):
    whole = clone(MODELS[name]).fit(X, groups=GROUPS)
    one = clone(MODELS[name]).fit(cut(cuts=[0, len(X)]), groups=GROUPS)
    assert found(one) == found(whole)
    more = slice(0, CUTS[1])
    whole.partial_fit(X[more], groups=GROUPS[more])
    one.partial_fit(cut(X[more], [0, CUTS[1]]), groups=GROUPS[more])
    assert found(one) == found(whole)
    mixed = clone(MODELS[name]).fit(cut(X[MIXED], [0, len(X)]), groups=GROUPS[MIXED])
    assert found(mixed) == found(clone(mixed).fit(X[MIXED], groups=GROUPS[MIXED]))


@pytest.mark.parametrize("name", MODELS)
def test_blocks_find_what_an_array_does(name):
    """Sums are made in another order, and that is all."""
    whole = clone(MODELS[name]).fit(X, groups=GROUPS)
    there = clone(MODELS[name]).fit(cut(), groups=GROUPS)
    # By last bits a group may stop an iteration sooner in a pass, on some processors.
    assert_allclose(there.bound_history_, whole.bound_history_, rtol=1e-7)
    assert_allclose(there.bound_history_[-1], whole.bound_history_[-1], rtol=1e-9)
    assert_allclose(there.means_, whole.means_, rtol=1e-6, atol=1e-8)
    assert_allclose(there.topic_weights_, whole.topic_weights_, rtol=1e-6)
    assert there.bound(cut(), GROUPS) == pytest.approx(there.bound(X, GROUPS), rel=1e-12)


def test_labels_may_be_anything_in_any_order():
    """Blocks whose groups' rows are not neighbours are put in order where they are."""
    rows = shuffled()
    names = np.array([f"group {99 - 7 * g % 31}" for g in GROUPS])
    labels = names[rows].astype(object)
    model = clone(MODELS["memoized, warm"])
    there = clone(model).fit(cut(X[rows]), groups=labels)
    by_dask = clone(model).fit(cut(X[rows]), groups=da.from_array(names[rows], chunks=9))
    assert found(by_dask) == found(there)
    for normalize in (True, False):
        want = there.transform(X, names, normalize=normalize)
        lazy = there.transform(cut(X[rows]), labels, normalize=normalize)
        assert isinstance(lazy, da.Array) and lazy.shape == want.shape
        assert_allclose(lazy.compute(), want, rtol=1e-12)
        assert_array_equal(lazy.compute(), there.transform(X[rows], labels, normalize=normalize))


# ---------------------------------------------------------------------- the same bytes


@pytest.mark.parametrize(
    "where, name",
    [
        ("threads_cluster", "memoized, warm"),
        ("threads_cluster", "births"),
        ("process_cluster", "batch"),
        ("process_cluster", "online"),
        ("process_cluster", "births"),
    ],
)
def test_a_cluster_changes_no_byte(where, name, request):
    def fitted():
        model = clone(MODELS[name]).fit(cut(), groups=GROUPS)
        bytes_ = [found(model), model.bound(cut(), GROUPS)]
        model.partial_fit(cut(X[: CUTS[2]], CUTS[:3]), groups=da.from_array(GROUPS[: CUTS[2]]))
        first = clone(model).partial_fit(cut(), groups=GROUPS)
        predictions = [model.score(cut(), groups=GROUPS), model.predict_proba(cut(), GROUPS)]
        return [
            *bytes_,
            found(model),
            found(first),
            *(np.asarray(p).tobytes() for p in predictions),
        ]

    want = fitted()
    with request.getfixturevalue(where).as_current():
        assert fitted() == want


def test_unknown_numbers_of_rows_are_counted():
    model = clone(MODELS["batch"])
    want = found(clone(model).fit(cut(), groups=GROUPS))
    unknown = cut(cuts=EMPTY, known=False)
    assert found(clone(model).fit(unknown, groups=GROUPS)) == want


def test_threads_change_no_byte():
    one, two = (
        clone(MODELS["batch"]).set_params(n_jobs=n).fit(cut(), groups=GROUPS) for n in (1, 2)
    )
    assert found(one) == found(two.set_params(n_jobs=1))


def test_going_on_with_the_same_blocks_remembers_them():
    model = clone(MODELS["memoized, warm"])
    whole = found(clone(model).fit(cut(), groups=GROUPS))
    parts = clone(model).set_params(max_iter=2, warm_start=True).fit(cut(), groups=GROUPS)
    assert found(parts.fit(cut(), groups=GROUPS)) == whole


@NO_SIGKILL
def test_a_killed_worker_loses_nothing(tmp_path, monkeypatch, mortal_cluster):
    model = clone(MODELS["memoized, warm"])
    rows = shuffled()  # so that they are brought together on workers
    held, labels = X[rows], GROUPS[rows]
    want = found(clone(model).fit(cut(held), groups=labels))
    with mortal_cluster.as_current(), one_worker_dies(tmp_path, monkeypatch) as deadly:
        model.set_callbacks(Poison(deadly)).fit(cut(held), groups=labels)
    assert found(model.set_callbacks()) == want


# ---------------------------------------------------------------------- fitted models


@pytest.mark.parametrize("sparse_output", [False, True])
def test_predictions_are_lazy(sparse_output):
    model = clone(MODELS["batch"]).set_params(sparse_output=sparse_output).fit(X, groups=GROUPS)
    rows = cut()
    for name in ("transform", "predict_proba", "score_samples"):
        lazy, want = getattr(model, name)(rows, GROUPS), getattr(model, name)(X, GROUPS)
        assert isinstance(lazy, da.Array)
        assert lazy.shape == want.shape and lazy.dtype == want.dtype
        computed = lazy.compute()
        assert sp.issparse(computed) == sp.issparse(want)
        assert_array_equal(as_dense(computed), as_dense(want))
    assert model.score(rows, groups=GROUPS) == model.score(X, groups=GROUPS)
    weight = np.arange(len(X)) % 3
    options = {"groups": GROUPS, "sample_weight": weight, "random_state": 1}
    assert model.score(rows, **options) == model.score(X, **options)
    labels = -GROUPS  # later blocks have the first ones
    want = model.transform(X, labels)
    assert_array_equal(as_dense(model.transform(rows, labels).compute()), as_dense(want))
    unknown = cut(cuts=EMPTY, known=False)
    in_blocks = blocked(GROUPS[:, None], EMPTY, known=False)[:, 0]
    lazy = model.transform(unknown, in_blocks)
    assert_array_equal(as_dense(lazy.compute()), as_dense(model.transform(X, GROUPS)))


def test_transform_in_a_data_frame():
    pandas = pytest.importorskip("pandas")
    model = clone(MODELS["batch"]).fit(X, groups=GROUPS).set_output(transform="pandas")
    frame = model.transform(cut(), GROUPS)
    pandas.testing.assert_frame_equal(frame, model.transform(X, GROUPS))


def test_fit_transform_and_callbacks():
    model = clone(MODELS["batch"])
    lazy = model.set_callbacks(HeldoutMonitor(X, groups=GROUPS)).fit_transform(cut(), groups=GROUPS)
    assert_array_equal(lazy.compute(), model.transform(X, GROUPS))


# ---------------------------------------------------------------------- bad input


@pytest.mark.parametrize("method", ["fit", "partial_fit", "transform", "score", "bound"])
@pytest.mark.parametrize(
    "rows, groups, told",
    [
        (cut(cuts=[0, CUTS[1] + 1, len(X)]), GROUPS, r"group 7 has rows in blocks 0 and 1 of X"),
        (cut(), np.where(GROUPS == 20, "b", "a"), "group 'a' has rows in blocks 0 and 1 of X"),
        (cut(), da.from_array(GROUPS[::-1] // 30), "group 0 has rows in blocks 0 and 1 of X"),
        (cut(), None, "groups is missing"),
        (cut(), GROUPS[:-1], "groups has shape .*, but must have one label for each"),
        (cut(), da.from_array(GROUPS[:-1]), "groups has shape .*, but must have one label for"),
        (cut(), np.where(GROUPS == 3, np.nan, GROUPS), "groups has no label for row"),
        (cut().rechunk((50, 1)), GROUPS, "columns of X are cut into 2"),
        (cut(np.hstack([X, X])), GROUPS, "X has 4 features, but SparseHDP is expecting 2"),
    ],
)
def test_bad_groups_are_named(method, rows, groups, told):
    model = clone(MODELS["batch"]).set_params(max_iter=1)
    if method != "fit":
        model.fit(X, groups=GROUPS)
    elif "features" in told:
        return
    with pytest.raises(ValueError, match=told):
        getattr(model, method)(rows, groups=groups)
    assert hasattr(model, "means_") == (method != "fit")


def test_bad_rows_are_named():
    for value, told in ((np.nan, "NaN"), (1e200, "row 3 of X holds a value beyond")):
        rows = X.copy()
        rows[CUTS[1] + 3, 0] = value
        with pytest.raises(ValueError, match=f"block 1 of X, whose row 0 is .*{told}"):
            clone(MODELS["batch"]).fit(cut(rows), groups=GROUPS)
    model = clone(MODELS["batch"]).fit(X, groups=GROUPS)
    with pytest.raises(ValueError, match="block 1 of X: .*holds a value beyond"):
        model.transform(cut(rows), GROUPS).compute()
    with pytest.raises(ValueError, match=r"unknown: .* X.compute_chunk_sizes\(\)"):
        model.transform(cut(known=False), GROUPS)
    with pytest.raises(ValueError, match="groups, if given, is for rows of real data"):
        SparseHDP(3).fit(cut(np.abs(X)), groups=GROUPS)
