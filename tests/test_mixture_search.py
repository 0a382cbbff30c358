"""The search of the largest weights, and neighbours: what they find, and where they are used."""

import pickle
import threading

import joblib
import numpy as np
import pytest
from sklearn.base import clone

from sklearn_sparsepost import SparseMixture
from sklearn_sparsepost._kernels import mixture as kernels
from sklearn_sparsepost._models.gaussian_search import GaussianSearch
from sklearn_sparsepost._models.mixture import Mixture
from sklearn_sparsepost._run.shipping import Shipped, put_together, taken_apart
from sklearn_sparsepost.observations import Observation


def fitted_model(mixture, dtype, n_rows=np.inf, **options):
    """The model of a mixture that was fitted with `warm_start`, and its globals."""
    state = mixture._fit_state
    K = state.stats.n_components
    model = Mixture(*state.parts, K, dtype=dtype, rows_per_step=n_rows, **options)
    return model, model.globals_of(state)


@pytest.mark.parametrize("level", [1, 3, 5])
@pytest.mark.parametrize("assume_centered", [True, False])
def test_search_finds_what_the_plain_way_finds(patches, monkeypatch, dtype, level, assume_centered):
    X = patches.astype(dtype) + dtype(0 if assume_centered else 0.5)
    options = {"assume_centered": assume_centered, "learning_method": "batch", "random_state": 0}
    options |= {"max_iter": 3, "tol": 0, "warm_start": True}
    mixture = SparseMixture(40, sparsity_level=level, **options).fit(X)
    model, globals_ = fitted_model(mixture, X.dtype, len(X), sparsity_level=level)
    table, log_weights = globals_.table, globals_.log_weights
    rows = model.observation.prepare(X)
    search = model.observation.best
    assert table["search"] is not None
    wanted, weight = Observation.best(model.observation, rows, table, log_weights, level)
    tolerance = 1e-9 if dtype == np.float64 else 2e-3
    rng = np.random.default_rng(3)
    poor = np.argsort(rng.random((len(rows), 40)), axis=1)[:, :level].astype(np.uint16)
    for start in (wanted.astype(np.uint16), poor, None):
        index, found = search(rows, table, log_weights, level, start)
        np.testing.assert_allclose(np.sort(found), np.sort(weight), rtol=0, atol=tolerance)
        if dtype == np.float64:
            np.testing.assert_array_equal(index, wanted)
        assert (np.diff(index.astype(int), axis=1) > 0).all()


@pytest.mark.parametrize("assume_centered", [True, False])
def test_search_is_shipped_without_what_workers_find(patches, dtype, assume_centered):
    pytest.importorskip("cloudpickle", reason="needs the dask extra")
    X = patches.astype(dtype)
    options = {"assume_centered": assume_centered, "random_state": 0, "warm_start": True}
    mixture = SparseMixture(40, max_iter=2, **options).fit(X)
    model, globals_ = fitted_model(mixture, X.dtype, len(X), sparsity_level=3)
    assert globals_.table["search"]._bounds is None  # the client has no use for them
    globals_.get_ready()
    text, arrays = taken_apart(globals_)
    shipped = [pickle.loads(pickle.dumps(Shipped(globals_))).value, put_together(text, arrays)]
    size = len(pickle.dumps(globals_))
    assert len(pickle.dumps(Shipped(globals_))) < 0.5 * size
    search = globals_.table["search"]
    for found in shipped:
        there = found.table["search"]
        assert there.metrics.factors is found.table["factors"]
        marginal, arrays = there.bounds
        assert marginal.tobytes() == search.bounds[0].tobytes()
        for name, array in arrays.items():
            assert array.tobytes() == search.bounds[1][name].tobytes()
        rows = model.observation.prepare(X)
        for pair in zip(
            *(model.observation.best(rows, g.table, g.log_weights, 3) for g in (found, globals_)),
            strict=True,
        ):
            np.testing.assert_array_equal(*pair)


@pytest.mark.parametrize("n_jobs, backend", [(None, "threading"), (2, "threading"), (2, "loky")])
def test_bounds_are_found_once_and_by_no_worker(patches, monkeypatch, n_jobs, backend):
    found, found_bounds = [], GaussianSearch._found_bounds

    def noting(search):
        found.append(threading.current_thread())
        return found_bounds(search)

    monkeypatch.setattr("sklearn_sparsepost._run.chunks.DENSE_CHUNK_SIZE", 1 << 14)
    monkeypatch.setattr(GaussianSearch, "_found_bounds", noting)
    mixture = SparseMixture(40, max_iter=3, tol=0, sparsity_level=2, n_jobs=n_jobs, random_state=0)
    with joblib.parallel_config(backend=backend):
        mixture.set_params(learning_method="batch").fit(patches)
    assert found == [threading.main_thread()] * 3


def test_clients_find_no_bounds(patches, monkeypatch, local_cluster):
    def fail(search):
        raise AssertionError("bounds are found by the client")

    da = pytest.importorskip("dask.array", reason="needs the dask extra")
    X = da.from_array(patches, chunks=(len(patches) // 2, -1))
    mixture = SparseMixture(40, max_iter=2, tol=0, sparsity_level=2, random_state=0)
    want = clone(mixture).fit(X)
    monkeypatch.setattr(GaussianSearch, "_found_bounds", fail)
    with local_cluster() as client, client.as_current():
        found = clone(mixture).fit(X)
    assert found.covariances_.tobytes() == want.covariances_.tobytes()


@pytest.mark.parametrize("estimation", ["bayes", "map", "ml"])
@pytest.mark.parametrize("level", [1, 4])
def test_search_in_predictions_of_any_estimation(estimation, level, monkeypatch):
    X = np.random.default_rng(0).normal(size=(2000, 20))
    options = {"estimation": estimation, "sparsity_level": level, "max_iter": 3, "tol": 0}
    # The last component's start is no observation's nearest, so that "ml" gives it no weight.
    starts = np.concatenate([X[:19], np.full((1, 20), 100.0)])
    mixture = SparseMixture(20, means_init=starts, random_state=0, **options)
    labels, resp = mixture.fit_predict(X), mixture.predict_proba(X)
    assert (mixture.weights_ == 0).any() == (estimation == "ml")
    monkeypatch.setattr(GaussianSearch, "pays", lambda *_: False)
    np.testing.assert_array_equal(mixture.predict(X), labels)
    np.testing.assert_allclose(mixture.predict_proba(X), resp, rtol=1e-9)


def _in_integers(rows, origin):
    """Rows as the search rounds them, and how many units 1 is."""
    rows = np.concatenate([np.full((len(rows), int(origin > 0)), origin), rows], axis=1)
    scale = np.minimum(32767 / np.abs(rows).max(axis=1), 46000 / np.linalg.norm(rows, axis=1))
    return np.rint(rows * scale[:, None]), scale


@pytest.mark.parametrize("decades", [0, 2, 5])
@pytest.mark.parametrize("centred", [True, False])
def test_bounds_leave_room_for_what_is_rounded(decades, centred, dtype):
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.standard_normal((24, 24)))[0]
    wide = np.exp(0.5 * rng.standard_normal((20, 24)))[np.arange(4000) % 20]
    X = (wide * rng.standard_normal((4000, 24)) * np.logspace(0, -decades, 24)) @ turn
    X = (X + 3 * turn[0]).astype(dtype)
    options = {"sparsity_level": 3, "reg_covar": 0, "random_state": 0, "warm_start": True}
    mixture = SparseMixture(20, max_iter=2, assume_centered=centred, **options).fit(X)
    _, globals_ = fitted_model(mixture, X.dtype, len(X), sparsity_level=3)
    search, prepared = globals_.table["search"], globals_.observation.prepare(X)
    bounds = search.bounds[1]
    rows, units = _in_integers(prepared.astype(np.float64), bounds["origin"])
    factors = globals_.table["factors"][bounds["order"]].astype(np.float64)[:, :, :24]
    spared = []
    for k, upper in enumerate(factors):
        mean = 0 if centred else search.metrics.means[bounds["order"][k]]
        whole = bounds["white_factors"][k].swapaxes(1, 2)
        whole = whole.reshape(-1, whole.shape[2])
        scale = (units * bounds["scale"][k]) ** 2
        for stage, slack in zip(bounds["stages"], bounds["slack"][k], strict=True):
            squares = (((prepared - mean) @ upper[:, :stage]) ** 2).sum(axis=1)
            found = ((rows @ whole[: rows.shape[1], :stage]) ** 2).sum(axis=1)
            assert (found <= 1.004 * squares * scale + slack).all()
            spared.append(np.median(slack / scale) / np.median(squares))
    assert np.median(spared) < 0.02, max(spared)  # of what tells components apart


def test_search_where_single_precision_overflows(patches):
    options = {"assume_centered": True, "max_iter": 2, "random_state": 0, "warm_start": True}
    mixture = SparseMixture(40, **options).fit(patches)
    model, globals_ = fitted_model(mixture, patches.dtype, len(patches))
    table, log_weights = globals_.table, globals_.log_weights
    far = patches[:50] * np.logspace(10, 60, 50)[:, None]
    wanted, weight = Observation.best(model.observation, far, table, log_weights, 4)
    for start in (np.zeros((50, 4), np.int32) + np.arange(4), None):
        index, found = model.observation.best(far, table, log_weights, 4, start)
        np.testing.assert_array_equal(index, wanted)
        np.testing.assert_allclose(found, weight, rtol=1e-9)


def test_one_instruction_or_two_for_the_bounds_change_no_byte(patches):
    mixture = SparseMixture(40, max_iter=3, tol=0, random_state=0)
    before, found = kernels.fused_sums(), []
    try:
        for wanted in (True, False):
            assert kernels.fused_sums(wanted) <= wanted  # where the processor has it
            found.append(clone(mixture).fit(patches).covariances_.tobytes())
    finally:
        kernels.fused_sums(before)
    assert found[0] == found[1]


def test_search_and_plain_way_fit_the_same(patches, monkeypatch):
    mixture = SparseMixture(40, assume_centered=True, max_iter=4, tol=0, random_state=0)
    fast = clone(mixture).fit(patches)
    monkeypatch.setattr(GaussianSearch, "pays", lambda *_: False)
    plain = clone(mixture).fit(patches)
    np.testing.assert_allclose(fast.bound_history_, plain.bound_history_, rtol=1e-10)
    np.testing.assert_allclose(fast.covariances_, plain.covariances_, rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("method", ["batch", "memoized"])
@pytest.mark.parametrize("level", [1, 4])
def test_few_neighbours_still_raise_the_bound(patches, method, level):
    options = {"sparsity_level": level, "learning_method": method, "assume_centered": True}
    options |= {"max_iter": 8, "tol": 0, "random_state": 0}
    exact = SparseMixture(40, **options).fit(patches)
    bounds, seconds = {}, {}
    for n_neighbors in (1, 5, 40):
        mixture = SparseMixture(40, n_neighbors=n_neighbors, **options).fit(patches)
        assert np.diff(mixture.bound_history_).min() > -1e-9 * abs(mixture.lower_bound_)
        bounds[n_neighbors] = mixture.lower_bound_
        seconds[n_neighbors] = mixture.bound_history_[1]
    # All neighbours are all components; a row's own only never lets it leave them.
    rounding = 1e-9 * abs(exact.lower_bound_)
    np.testing.assert_allclose(bounds[40], exact.lower_bound_, rtol=1e-9)
    # Of the same components, as in pass 2 of "batch", no neighbours make more than all.
    assert seconds[5] <= exact.bound_history_[1] + rounding
    gain = exact.lower_bound_ - exact.bound_history_[0]
    # Several components of a row may be better than the neighbours of one; nor are optima ordered.
    assert seconds[1] < seconds[5] + (0.01 * gain if level > 1 else 0)
    assert bounds[1] < bounds[5] + 0.01 * gain
    if level > 1:  # more paths out of a poor start
        assert abs(bounds[5] - exact.lower_bound_) < 0.25 * gain
    else:
        assert bounds[5] <= exact.lower_bound_ + rounding


def test_neighbours_are_the_components_of_largest_expected_weight(patches):
    for X, centred in ((patches, True), (patches + 0.5, False)):
        options = {"assume_centered": centred, "max_iter": 3, "random_state": 0}
        mixture = SparseMixture(12, warm_start=True, **options).fit(X)
        model, globals_ = fitted_model(mixture, X.dtype, len(X), n_neighbors=3)
        table, log_weights = globals_.table, globals_.log_weights
        rng = np.random.default_rng(0)
        estimates = model.observation.estimate(mixture._fit_state.stats)
        attributes = model.observation.attributes(estimates)
        for k, found in enumerate(table["neighbours"]):
            drawn = model.observation.draw(attributes, k, 20_000, rng)
            rows = model.observation.prepare(drawn)
            mean = (model.observation.log_likelihood(rows, table) + log_weights).mean(axis=0)
            mean[k] = np.inf
            assert len(set(found)) == 3 and k in found
            cut = np.sort(mean)[-3]
            assert mean[found].min() > cut - 0.02 * abs(cut)
