"""What passes keep of rows' distances: bounds that hold, and fits that are the same."""

import gc
import pickle
import weakref

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_sparsepost import SparseMixture
from sklearn_sparsepost._kernels import matrices, mixture, mixture_lengths
from sklearn_sparsepost._models import gaussian_search
from sklearn_sparsepost._models import mixture as mixture_model
from sklearn_sparsepost._models.gaussian_search import GaussianSearch, Lengths, padded
from sklearn_sparsepost._models.mixture import Kept, Mixture
from sklearn_sparsepost.observations import Observation

K, N = 40, 1111
PASSES = mixture_model.SETTLED + 4


def covariances(D, seed=0, decades=1.0):
    """Of components that differ in shape and size."""
    rng = np.random.default_rng(seed)
    turns = np.linalg.qr(rng.normal(size=(K, D, D)))[0]
    widths = np.logspace(0, -decades, D) * np.exp(rng.normal(size=(K, D)))
    return (turns * widths[:, None, :]) @ turns.transpose(0, 2, 1)


def search_of(covariances, means, constant, dtype):
    factors = covariances.copy()
    assert matrices.invert_factors(factors)
    offset = np.einsum("ki,kij->kj", means, factors)
    table = {"factors": padded(factors, dtype), "offset": padded(offset, dtype)}
    return GaussianSearch(means, constant, table["factors"]), table


def changed(search, covariances, means, dtype, amount, seed):
    """A search among components that have moved by some amount, and their parameters."""
    rng = np.random.default_rng(seed)
    D = covariances.shape[1]
    turn = np.eye(D) + amount * rng.normal(size=(K, D, D)) / np.sqrt(D)
    turn[::3] = np.eye(D)  # some stay
    covariances = turn @ covariances @ turn.transpose(0, 2, 1)
    if means.any():
        means = means + amount * rng.normal(size=means.shape) * (np.arange(K) % 3 > 0)[:, None]
    constant = search.constant + amount * rng.normal(size=K)
    return *search_of(covariances, means, constant, dtype), covariances, means


def distances(rows, covariances, means):
    gap = (rows - means[:, None]).swapaxes(1, 2)
    return np.linalg.norm(np.linalg.solve(np.linalg.cholesky(covariances), gap), axis=1).T


def best_of_all(rows, search, table, level):
    weight = np.empty((len(rows), K), dtype=rows.dtype)
    mixture.all_weights(rows, table["factors"], table["offset"], search.constant, weight)
    return np.sort(np.argsort(-weight, axis=1, kind="stable")[:, :level])


@pytest.mark.parametrize("level", [1, 4])
@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("D", [16, 24, 41, 64])
def test_search_that_knows_what_was_found(dtype, D, centred, level):
    rng = np.random.default_rng(1)
    found = covariances(D)
    means = np.zeros((K, D)) if centred else rng.normal(size=(K, D))
    of_row = rng.integers(K, size=N)
    noise = np.einsum("nij,nj->ni", np.linalg.cholesky(found)[of_row], rng.normal(size=(N, D)))
    rows = (means[of_row] + noise).astype(dtype)
    search, table = search_of(found, means, rng.normal(size=K), dtype)
    index = np.argsort(rng.random((N, K)), axis=1)[:, :level].astype(np.uint16)
    lengths = None
    for turn, amount in enumerate((0.0, 0.0, 0.01, 0.05, 0.3, 3.0)):
        if turn:
            search, table, found, means = changed(search, found, means, dtype, amount, turn)
        index, weight, far, lengths = search.again(rows, table, level, index, lengths)
        np.testing.assert_array_equal(index, best_of_all(rows, search, table, level))
        assert len(far) == 0
        known = lengths.shrink * lengths.unit[:N, None] * lengths.found.T[:N] - lengths.shift
        truth = distances(rows.astype(float), found, means)
        assert (known <= truth * (1 + 1e-6)).all()
        assert np.median(known / truth) > 0.3  # they say something


@pytest.mark.parametrize("block", [64, 192, 8192])
def test_blocks_find_the_same(dtype, block):
    D, level = 24, 3
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(N, D)).astype(dtype)
    search, table = search_of(covariances(D), np.zeros((K, D)), rng.normal(size=K), dtype)
    start = np.argsort(rng.random((N, K)), axis=1)[:, :level].astype(np.int32)
    arrays = [rows, table["factors"], table["offset"], search.constant, rows.astype(np.float32)]
    length = -(-N // mixture_lengths.STEP) * mixture_lengths.STEP

    def searched(known, unit, block):
        lengths, index = np.full((K, length), 77, np.uint8), start.copy()
        weight = np.empty((N, level), dtype=dtype)
        ones, zeros = np.ones(K, np.float32), np.zeros(K, np.float32)
        counts = mixture_lengths.best_weights_again(
            *arrays,
            known=known,
            shrink=ones,
            shift=zeros,
            unit=unit,
            lengths=lengths,
            index=index,
            weight=weight,
            block=block,
            **search.bounds[1],
        )
        return index, weight, lengths[:, :N], unit[:N], counts

    unit = np.empty(length, np.float32)
    first = searched(np.empty((0, 0), np.uint8), unit, block)
    want = searched(np.empty((0, 0), np.uint8), np.empty(length, np.float32), 512)
    for a, b in zip(first, want, strict=True):
        np.testing.assert_array_equal(a, b)
    known = np.zeros((K, length), np.uint8)
    known[:, :N] = first[2]
    start[:] = first[0]
    again = searched(known, unit, block)
    np.testing.assert_array_equal(again[0], first[0])
    np.testing.assert_array_equal(again[3], first[3])
    # What is known rules out most, and all that it rules out.
    assert again[4][0] < 0.5 * first[4][0] < 0.5 * N * K
    assert again[4][1] < 1.03 * N * level


@pytest.mark.parametrize("D", [1, 3, 16, 41])
@pytest.mark.parametrize("amount", [0.0, 0.01, 1.0, 30.0])
def test_most_growth(dtype, D, amount):
    rng = np.random.default_rng(3)
    search, _ = search_of(covariances(D), np.zeros((K, D)), np.zeros(K), dtype)
    other = changed(search, covariances(D), np.zeros((K, D)), dtype, amount, 5)[0]
    out = np.empty(K)
    matrices.most_growth(search.metrics.factors, other.metrics.factors, out)
    old, new = (s.metrics.factors[:, :, :D].astype(float) for s in (search, other))
    square = np.linalg.solve(new, old)
    square = square.transpose(0, 2, 1) @ square
    greatest = np.linalg.eigvalsh(square)[:, -1]
    off = square - np.eye(D)
    fourth = np.trace(off @ off @ off @ off, axis1=1, axis2=2) ** 0.25
    np.testing.assert_allclose(out, np.sqrt(1 + fourth), rtol=1e-9)
    assert (out >= np.sqrt(np.maximum(greatest, 1)) * (1 - 1e-12)).all()
    rows = rng.normal(size=(200, D))
    before, after = (np.linalg.norm(np.einsum("ni,kij->nkj", rows, p), axis=2) for p in (old, new))
    assert (before <= out * after * (1 + 1e-9)).all()
    some = np.empty(3)  # whatever is beside it
    matrices.most_growth(search.metrics.factors[5:8], other.metrics.factors[5:8], some)
    np.testing.assert_array_equal(some, out[5:8])


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("amount", [0.01, 0.5])
def test_drifts_bound_lengths(dtype, centred, amount):
    D, rng = 20, np.random.default_rng(4)
    found = covariances(D)
    means = np.zeros((K, D)) if centred else rng.normal(size=(K, D))
    search, _ = search_of(found, means, np.zeros(K), dtype)
    other, _, moved, to = changed(search, found, means, dtype, amount, 6)
    shrink, shift = other.metrics.drift_from(search.metrics)
    assert (shrink <= 1).all() and (shift >= 0).all()
    assert shrink[0] > 0.999 and shift.any() != centred  # the first stays
    rows = 3 * rng.normal(size=(500, D))
    least = shrink * distances(rows, found, means) - shift
    rounding = 1e-5 if dtype == np.float32 else 0
    assert (distances(rows, moved, to) >= least * (1 - rounding)).all()


def fitted(X, passes=PASSES, **options):
    options = {"assume_centered": True, "learning_method": "batch", "sparsity_level": 3} | options
    return SparseMixture(40, max_iter=passes, tol=0, random_state=0, **options).fit(X)


@pytest.fixture
def noted(monkeypatch):
    """Lets small data be searched so; lists whether something was known at each search."""
    searches, again = [], GaussianSearch.again

    def noting(search, rows, table, level, start, lengths=None):
        searches.append(lengths is not None)
        return again(search, rows, table, level, start, lengths)

    monkeypatch.setattr(gaussian_search, "ROWS_FOR_LENGTHS", 1)
    monkeypatch.setattr(GaussianSearch, "again", noting)
    return searches


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize("method", ["batch", "memoized"])
@pytest.mark.parametrize("centred", [True, False])
def test_fits_are_the_same(patches, monkeypatch, noted, dtype, method, centred, n_jobs):
    monkeypatch.setattr("sklearn_sparsepost._run.chunks.DENSE_CHUNK_SIZE", 1 << 14)
    X = (patches + (0 if centred else 0.3)).astype(dtype)
    options = {"assume_centered": centred, "learning_method": method, "n_jobs": n_jobs}
    options |= {"n_batches": 2}
    found = fitted(X, **options)
    n_first = noted.count(False)
    assert n_first >= 2 and len(noted) == n_first * (PASSES - mixture_model.SETTLED)
    monkeypatch.setattr(mixture_model, "MOST_FOUND", 0)
    want = fitted(X, **options)
    assert len(noted) == n_first * (PASSES - mixture_model.SETTLED)
    for name in ("weights_", "covariances_", "means_", "bound_history_"):
        assert getattr(found, name).tobytes() == getattr(want, name).tobytes()


def test_rows_that_are_far_away(patches):
    """Where single precision overflows all components are weighed."""
    mixture = fitted(patches, passes=2, warm_start=True)
    model = Mixture(*mixture._fit_state.parts, 40, dtype=patches.dtype, n_rows=len(patches))
    globals_ = model.globals_of(mixture._fit_state)
    table, log_weights = globals_.table, globals_.log_weights
    rows = patches[:50] * np.logspace(0, 60, 50)[:, None]
    wanted, weight = Observation.best(model.observation, rows, table, log_weights, 4)
    start, found = np.tile(np.arange(4, dtype=np.uint16), (50, 1)), None
    for _ in range(2):
        given = table, log_weights, 4, start, found
        index, value, found = model.observation.best_again(rows, *given)
        np.testing.assert_array_equal(index, wanted)
        np.testing.assert_allclose(value, weight, rtol=1e-9)
        assert found.found.shape == (40, 64)


def test_nothing_is_kept_of_many_rows_or_components(patches, noted, monkeypatch):
    monkeypatch.setattr(mixture_model, "MOST_FOUND", 40 * len(patches) - 1)
    assert not noted and fitted(patches).n_iter_ == PASSES
    assert not noted
    monkeypatch.setattr(mixture_model, "MOST_FOUND", 40 * len(patches))
    fitted(patches)
    assert noted
    monkeypatch.setattr(gaussian_search, "ROWS_FOR_LENGTHS", 3000)
    del noted[:]
    fitted(patches)
    assert not noted


def test_nothing_that_was_found_is_sent(patches, noted):
    """A process that gets rows' components begins anew."""
    whole = fitted(patches, passes=PASSES - 1, warm_start=True)
    kept = whole._fit_state.local[0][0]
    assert kept.visits == PASSES - 1 and kept.found.nbytes >= 40 * len(kept.index)
    sent = pickle.loads(pickle.dumps(kept))
    np.testing.assert_array_equal(sent.index, kept.index)
    assert sent.found is None and sent.visits == 0
    assert kept.__sizeof__() > sent.__sizeof__() + kept.found.nbytes - 1
    there = pickle.loads(pickle.dumps(whole))
    del noted[:]
    there.set_params(max_iter=2).fit(patches)
    assert not noted
    assert there.covariances_.tobytes() == fitted(patches, passes=PASSES + 1).covariances_.tobytes()


def test_fits_that_go_on_know_what_was_found(patches, noted):
    mixture = fitted(patches, passes=PASSES - 2, warm_start=True)
    del noted[:]
    mixture.set_params(max_iter=1).fit(patches)
    assert noted and all(noted)
    want = fitted(patches, passes=PASSES - 1)
    assert mixture.covariances_.tobytes() == want.covariances_.tobytes()
    del noted[:]
    mixture.set_params(sparsity_level=2).fit(patches)  # another L
    assert not noted


def test_metrics_of_earlier_passes_are_let_go(patches, noted):
    alive = weakref.WeakSet()
    mixture = SparseMixture(40, max_iter=PASSES, tol=0, assume_centered=True, random_state=0)
    mixture.set_params(learning_method="batch", warm_start=True)
    again = GaussianSearch.again

    def noting(search, *args):
        alive.add(search.metrics)
        return again(search, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GaussianSearch, "again", noting)
        mixture.fit(patches)
    gc.collect()
    assert len(alive) == 1  # what the lengths of the last pass are of


def test_search_is_pickled_with_its_drifts_left_out(dtype):
    D = 16
    search, _ = search_of(covariances(D), np.zeros((K, D)), np.zeros(K), dtype)
    other = changed(search, covariances(D), np.zeros((K, D)), dtype, 0.1, 7)[0]
    drift = other.metrics.drift_from(search.metrics)
    sent = pickle.loads(pickle.dumps(other))
    for there, here in zip(sent.metrics.drift_from(search.metrics), drift, strict=True):
        np.testing.assert_array_equal(there, here)


def test_merges_and_births_forget_what_was_found(patches, noted):
    """Components that are others, or have other numbers, are not compared with what they were."""
    options = {"weight_concentration_prior_type": "dirichlet_process", "moves": True}
    options |= {"weight_concentration_prior": 5.0, "learning_method": "batch"}
    mixture = fitted(patches, passes=25, **options)
    n_components = mixture.moves_history_["n_components"]
    assert n_components[-1] < 40 and True in noted
    assert np.isfinite(mixture.bound_history_).all()
    again = clone(mixture).set_params(n_jobs=2).fit(patches)
    assert again.covariances_.tobytes() == mixture.covariances_.tobytes()


def test_lengths_and_kept():
    """What they say of their memory."""
    lengths = Lengths(None, np.zeros(64, np.float32), np.zeros((3, 64), np.uint8), None, None)
    assert lengths.nbytes == 4 * 64 + 3 * 64
    assert Kept(np.zeros((64, 2), np.uint16), lengths).__sizeof__() >= lengths.nbytes + 256


@pytest.mark.parametrize("method", ["batch", "memoized"])
@pytest.mark.parametrize("after", [1, 3])
def test_interrupted_passes_leave_what_was_found_before(patches, noted, monkeypatch, method, after):
    """Some chunks of the pass have been searched, and what they found is of components to come."""
    monkeypatch.setattr("sklearn_sparsepost._run.chunks.DENSE_CHUNK_SIZE", 1 << 14)
    options = {"learning_method": method, "n_batches": 2}
    want = fitted(patches, **options)
    n_searches = len(noted) // (PASSES - mixture_model.SETTLED)
    mixture = fitted(patches, passes=PASSES - 2, warm_start=True, **options)
    del noted[:]
    again = GaussianSearch.again

    def interrupted(*args):
        if len(noted) == after:
            raise KeyboardInterrupt
        return again(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GaussianSearch, "again", interrupted)
        with pytest.raises(KeyboardInterrupt):
            mixture.set_params(max_iter=2).fit(patches)
    assert n_searches > after == len(noted)
    assert mixture.score(patches) > mixture.score(patches[::-1] + 1)
    mixture.fit(patches)
    assert all(noted) and len(noted) == after + 2 * n_searches
    assert mixture.covariances_.tobytes() == want.covariances_.tobytes()


def test_workers_to_whom_components_are_sent_find_nothing(patches, noted, local_cluster):
    da = pytest.importorskip("dask.array", reason="needs the dask extra")
    X = da.from_array(patches, chunks=(len(patches) // 2, -1))
    with local_cluster(1, 2, processes=False) as client, client.as_current():
        found = fitted(X)
    assert not noted
    want = fitted(patches)
    assert noted
    np.testing.assert_allclose(found.covariances_, want.covariances_, rtol=1e-6)
