"""Whatever ends a call, the estimator is as it was, or as the last whole pass left it."""

import inspect
import multiprocessing
import os
import signal
import sys
from contextlib import contextmanager, suppress
from copy import deepcopy
from pathlib import Path

import joblib
import numpy as np
import pytest
from joblib.parallel import get_active_backend
from sklearn.base import clone

import sklearn_sparsepost
from sklearn_sparsepost import AliasLDA, GibbsCTM, SparseHDP, SparseLDA, SparseMixture
from sklearn_sparsepost._models.admixture import Admixture
from sklearn_sparsepost._run.cluster import sent_to_workers
from sklearn_sparsepost._run.dispatch import Corpus
from sklearn_sparsepost._suffstats import SuffStats
from sklearn_sparsepost.callbacks import EarlyStopping
from sklearn_sparsepost.datasets import make_lda_corpus
from sklearn_sparsepost.observations import Observation

PACKAGE = str(Path(sklearn_sparsepost.__file__).parent)
NUMPY = str(Path(np.__file__).parent)
N_PASSES = 3
# Lines of a call that are tried.
N_TRIALS = 12
SAMPLED = ("alias", "pitman_yor", "process", "ctm")

COUNTS = make_lda_corpus(60, 30, 4, doc_length=20, random_state=0)[0]
POINTS = np.concatenate(
    [np.random.default_rng(0).standard_normal((40, 2)) + shift for shift in (0, 5, 12)]
)

PROCESS = {"weight_concentration_prior_type": "dirichlet_process"}
ESTIMATORS = {
    "LDA batch": SparseLDA(5, learning_method="batch"),
    "LDA online": SparseLDA(5, learning_method="online", batch_size=20),
    "LDA memoized": SparseLDA(5, n_batches=3),
    "LDA auto, warm": SparseLDA(5, n_batches=3, doc_topic_prior="auto", doc_start="warm"),
    "LDA gibbs": SparseLDA(5, n_batches=3, local_step="gibbs", average_after=1),
    "LDA gibbs, online": SparseLDA(5, learning_method="online", local_step="gibbs", batch_size=20),
    "HDP": SparseHDP(9, n_batches=3),
    "HDP batch, warm": SparseHDP(9, learning_method="batch", doc_start="warm"),
    "HDP of rows": SparseHDP(9, observation="gaussian", n_batches=3),
    "HDP births": SparseHDP(2, n_batches=3, moves=["birth", "delete"]),
    "mixture births": SparseMixture(2, n_batches=3, moves=["birth", "merge"], **PROCESS),
    "mixture batch": SparseMixture(6, sparsity_level=2, learning_method="batch"),
    "mixture online": SparseMixture(6, learning_method="online", batch_size=40),
    "mixture memoized": SparseMixture(6, sparsity_level=2, n_batches=3),
    "mixture moves": SparseMixture(9, n_batches=3, **PROCESS),
    "mixture moves, batch": SparseMixture(9, learning_method="batch", **PROCESS),
    "alias": AliasLDA(5, burn_in=1, sample_every=1, evaluate_every=2),
    "pitman_yor": AliasLDA(5, burn_in=1, sample_every=1, evaluate_every=2, learn_every=2),
    "process": AliasLDA(5, burn_in=1, sample_every=1, evaluate_every=2, learn_every=2),
    "ctm": GibbsCTM(5, covariance_type="factor", n_factors=2, burn_in=1, sample_every=1),
}
ESTIMATORS["pitman_yor"].set_params(topic_word_prior_type="pitman_yor")
ESTIMATORS["process"].set_params(doc_topic_prior_type="dirichlet_process")
for made in ESTIMATORS.values():
    made.set_params(max_iter=N_PASSES, random_state=0, n_jobs=1)
    if not hasattr(made, "learn_every"):
        made.set_params(tol=0)


def data_of(estimator):
    words = getattr(estimator, "observation", "multinomial") == "multinomial"
    return COUNTS if words else POINTS


def beside(estimator, X):
    """What goes with some rows of the data: groups of four neighbours, where these are wanted."""
    if isinstance(estimator, SparseHDP) and estimator.observation == "gaussian":
        return {"groups": np.arange(len(X)) // 4}
    return {}


# What is called of a fitted estimator: of data, without data, and what no call is tried of.
OF_DATA = ["transform", "predict", "predict_proba", "score", "score_samples", "perplexity", "bound"]
WITHOUT = ["sample", "get_feature_names_out"]
NOT_TRIED = ["fit", "partial_fit", "fit_transform", "fit_predict", "from_topics"]
NOT_TRIED += ["topic_graph", "topic_tree", "aic", "bic"]
NOT_TRIED += ["get_params", "set_params", "set_output", "set_callbacks", "get_metadata_routing"]


def methods_of(estimator):
    names = [name for name in dir(type(estimator)) if name[0] != "_" and "request" not in name]
    return [name for name in names if callable(getattr(type(estimator), name))]


def seen(estimator):
    """All that a user can see of an estimator, in bytes, every public method called."""
    found = {name: value for name, value in vars(estimator).items() if name[-1:] == "_"}
    if hasattr(estimator, "n_iter_"):
        X = data_of(estimator)[:, : estimator.n_features_in_]
        for name in methods_of(estimator):
            method = getattr(estimator, name, None)  # some depend on the data
            if name in OF_DATA and method is not None:
                found[name] = method(X, **beside(estimator, X))
            elif name == "sample":
                found[name] = [np.asarray(part).tobytes() for part in map(as_array, method(3))]
            elif name in WITHOUT:
                found[name] = method().astype(str)  # not the objects' addresses
        found["properties"] = [
            np.asarray(getattr(estimator, name)).tobytes()
            for name in ("topic_word_distr_", "precisions_", "topic_correlation_")
            if hasattr(estimator, name)
        ]
    found = {name: np.asarray(value).tobytes() for name, value in found.items()}
    return {**found, "params": repr(estimator.get_params())}


def as_array(X):
    return X.toarray() if hasattr(X, "toarray") else X


@pytest.mark.parametrize(
    "estimator", [SparseLDA(), SparseHDP(), SparseMixture(), AliasLDA(), GibbsCTM()]
)
def test_no_public_method_is_forgotten(estimator):
    assert set(methods_of(estimator)) <= {*OF_DATA, *WITHOUT, *NOT_TRIED}


def fail_after(n_lines, error):
    """A tracer that raises at a line of the package, the n-th to be run."""
    left = [n_lines]

    def local(frame, event, argument):
        if event == "line" and left[0] > 0:
            left[0] -= 1
            if left[0] == 0:
                raise error
        return local

    def trace(frame, event, argument):
        code = frame.f_code
        # A tracer can raise between the end of a `with` and its exit, where no interrupt comes.
        held = code.co_qualname.startswith("_SingleBlas")
        return local if code.co_filename.startswith(PACKAGE) and not held else None

    return trace, left


def run(call, n_lines, error):
    """Call with an error after so many lines; returns how many were left."""
    trace, left = fail_after(n_lines, error)
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except type(error) as raised:
        assert raised is error or raised.__context__ is error
    finally:
        sys.settrace(before)
    return left[0]


def lines_of(call):
    """How many lines of the package a call runs."""
    return 10**9 - run(call, 10**9, KeyboardInterrupt())


def fit(estimator, rows=slice(None)):
    X = data_of(estimator)[rows]
    return estimator.fit(X, **beside(estimator, X))


def partial_fit(estimator, rows):
    X = data_of(estimator)[rows]
    return estimator.partial_fit(X, **beside(estimator, X))


CALLS = {
    # what to do with a new estimator before, and the call that is to fail
    "first fit": (lambda e: e, fit),
    "fit again": (
        lambda e: fit(e.set_params(max_iter=1), slice(10, None)).set_params(max_iter=N_PASSES),
        fit,
    ),
    "warm fit": (lambda e: fit(e.set_params(warm_start=True)), fit),
    "first partial_fit": (lambda e: e, lambda e: partial_fit(e, slice(30))),
    "partial_fit": (
        lambda e: partial_fit(e, slice(30)),
        lambda e: partial_fit(e, slice(30, None)),
    ),
    "partial_fit after fit": (
        lambda e: fit(e, slice(40)),
        lambda e: partial_fit(e, slice(40, None)),
    ),
}


@pytest.mark.parametrize("how", CALLS)
@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.filterwarnings("ignore:n_components=:UserWarning")
def test_any_line_may_fail(name, how):
    prepare, call = CALLS[how]
    estimator = prepare(clone(ESTIMATORS[name]))
    allowed = [seen(estimator)]
    fits = "partial" not in how
    for n in range(1, N_PASSES + 1) if fits else [None]:
        other = deepcopy(estimator)
        call(other.set_params(max_iter=n) if fits else other)
        allowed.append(seen(other.set_params(**estimator.get_params())))
    if how == "first fit":
        allowed.append(seen(fit(clone(estimator).set_params(max_iter=0))))
        allowed[-1]["params"] = allowed[0]["params"]
    lines_of(lambda: call(deepcopy(estimator)))  # what is done once in a process
    n_lines = lines_of(lambda: call(deepcopy(estimator)))
    rng = np.random.default_rng(len(name) + len(how))
    n_reached = 0
    for i, at in enumerate(np.sort(rng.integers(1, n_lines, N_TRIALS))):
        failing = deepcopy(estimator)
        error = MemoryError("of the test") if i % 2 else KeyboardInterrupt("of the test")
        n_reached += run(lambda: call(failing), at, error) == 0  # noqa: B023
        assert seen(failing) in allowed, f"line {at} of {n_lines}"
        # What is left goes on as if nothing had happened.
        if how == "warm fit" and name not in SAMPLED:  # whose tables are made anew
            missing = 2 * N_PASSES - failing.n_iter_
            fit(failing.set_params(max_iter=missing))
            failing.set_params(max_iter=N_PASSES)
            assert seen(failing) == allowed[N_PASSES]
    assert n_reached > N_TRIALS // 2  # how many lines there are varies a little


def functions_of_numpy(call):
    """NumPy's functions in Python that a call runs."""
    found = {}  # in their order

    def trace(frame, event, argument):
        if frame.f_code.co_filename.startswith(NUMPY):
            found[frame.f_code] = None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return list(found)


@pytest.mark.parametrize(
    "name", ["mixture births", "mixture moves", "HDP births", "LDA auto, warm"]
)
def test_an_interrupt_in_numpy_is_no_other_error(name):
    # Some of them are called by code in C, which may take any error for one of its own.
    fit(clone(ESTIMATORS[name]))
    functions = functions_of_numpy(lambda: fit(clone(ESTIMATORS[name])))
    assert len(functions) > 20
    for code in functions:
        left = [1]

        def trace(frame, event, argument):
            if frame.f_code is code and left.pop():  # noqa: B023
                sys.settrace(None)
                raise KeyboardInterrupt

        before = sys.gettrace()
        sys.settrace(trace)
        with pytest.raises(KeyboardInterrupt):
            fit(clone(ESTIMATORS[name]))
        sys.settrace(before)


def bad(X):
    """The same data, with something in row 5 that no estimator takes."""
    X = X.toarray().astype(float) if hasattr(X, "toarray") else X.copy()
    X[5, 0] = np.nan
    return X


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("warm", [False, True])
def test_bad_input_changes_nothing(name, warm):
    estimator = clone(ESTIMATORS[name]).set_params(warm_start=warm)
    X = data_of(estimator)
    given = beside(estimator, X)
    before = seen(estimator)
    for call in (estimator.fit, estimator.partial_fit):
        with pytest.raises(ValueError, match="NaN"):
            call(bad(X), **given)
        assert seen(estimator) == before
    estimator.fit(X, **given)
    before = seen(estimator)
    calls = [(estimator.fit, bad(X)), (estimator.partial_fit, bad(X))]
    calls += [(estimator.partial_fit, X[:, 1:])] + [(estimator.fit, X[:, 1:])] * warm
    for call, data in calls:
        with pytest.raises(ValueError, match="NaN|features"):
            call(data, **given)
        assert seen(estimator) == before
    # A mixture with births may go on with any number of components.
    wrong = {"n_components": 1} if warm and name != "mixture births" else {"max_iter": -1}
    with pytest.raises(ValueError, match=next(iter(wrong))):
        estimator.set_params(**wrong).fit(X, **given)
    estimator.set_params(n_components=ESTIMATORS[name].n_components, max_iter=N_PASSES)
    assert seen(estimator) == before
    estimator.fit(X, **given)  # and works


class Failing:
    """A callback that raises at the end of the second pass."""

    def __init__(self, error):
        self.error = error

    def setup(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        if context.task_name == "pass" and context.task_id == 1:
            raise self.error

    def teardown(self, estimator, context):
        pass


@pytest.mark.parametrize("error", [ValueError("no"), RuntimeError("no"), KeyboardInterrupt("no")])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_callback_may_fail(name, error):
    estimator = clone(ESTIMATORS[name])
    with pytest.raises(type(error), match="no"):
        fit(estimator.set_callbacks(Failing(error)))
    estimator.set_callbacks()
    want = fit(clone(estimator).set_params(max_iter=2)).set_params(max_iter=N_PASSES)
    assert seen(estimator) == seen(want)
    assert not [name for name in vars(estimator) if "callback" in name]


def test_other_data_of_a_warm_fit_change_nothing_if_it_fails(monkeypatch):
    for name in ("LDA memoized", "mixture memoized", *SAMPLED):
        estimator = clone(ESTIMATORS[name]).set_params(warm_start=True)
        X = data_of(estimator)
        estimator.fit(X)
        want = deepcopy(estimator).fit(X)
        before = seen(estimator)
        estimator.set_callbacks(Interrupting())
        with pytest.raises(KeyboardInterrupt):
            estimator.fit(X[::2])
        assert seen(estimator.set_callbacks()) == before
        assert seen(estimator.fit(X)) == seen(want)


class Interrupting(Failing):
    """A callback that interrupts the first pass."""

    def __init__(self):
        pass

    def on_fit_task_begin(self, estimator, context):
        if context.task_name == "pass":
            raise KeyboardInterrupt


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_an_interrupted_move_is_no_move(monkeypatch, batch):
    """Batches that had made a merge beside others that had not could not be added up."""
    mixture = clone(ESTIMATORS["mixture moves"]).set_params(max_iter=1, warm_start=True)
    want = deepcopy(mixture).fit(POINTS).fit(POINTS)
    assert len(want.weights_) < 9  # something was merged
    fold, calls = SuffStats.fold, []

    def interrupted(stats, target):
        calls.append(1)
        if len(calls) == batch:
            raise KeyboardInterrupt
        return fold(stats, target)

    monkeypatch.setattr(SuffStats, "fold", interrupted)  # once a batch, when merges are made
    with pytest.raises(KeyboardInterrupt):
        mixture.fit(POINTS)
    monkeypatch.undo()
    assert mixture.n_iter_ == 0 and len(mixture.weights_) == 9
    assert seen(mixture.fit(POINTS).fit(POINTS)) == seen(want)


def test_a_stream_that_is_interrupted_counts_a_batch_once():
    lda = AliasLDA(5, random_state=0).partial_fit(COUNTS[:30])
    want = deepcopy(lda).partial_fit(COUNTS[30:])
    n_lines = lines_of(lambda: deepcopy(lda).partial_fit(COUNTS[30:]))
    assert run(lambda: lda.partial_fit(COUNTS[30:]), n_lines // 2, KeyboardInterrupt()) == 0
    lda.partial_fit(COUNTS[30:])
    assert lda._fit_state.tokens.n_tokens == want._fit_state.tokens.n_tokens == COUNTS.sum()


def test_a_failed_refit_leaves_the_model_to_the_stream():
    X = POINTS
    mixture = SparseMixture(3, random_state=0, max_iter=5).fit(X)
    want = deepcopy(mixture).partial_fit(X[:40])
    singular = np.repeat(X[:2], 20, axis=0) * 1e3
    mixture.set_params(estimation="ml", reg_covar=0)
    with pytest.raises(ValueError, match="positive definite"):
        mixture.fit(np.column_stack([singular, singular]))
    mixture.set_params(estimation="bayes", reg_covar=1e-6).partial_fit(X[:40])
    assert seen(mixture) == seen(want)


def test_of_several_starts_the_best_is_left():
    options = {"init_params": "k-means++", "max_iter": 8, "tol": 0}
    starts = [SparseMixture(6, random_state=s, **options).fit(POINTS) for s in range(6)]
    bounds = [start.lower_bound_ for start in starts]
    assert max(bounds) - min(bounds) > 1  # or nothing is shown
    # An interruption in the second pass of the second start, which is worse by then.
    mixture = SparseMixture(6, n_init=2, random_state=0, **options)
    whole = clone(mixture).set_params(n_init=1).fit(POINTS)
    interrupting = Failing(KeyboardInterrupt())
    interrupting.on_fit_task_end = lambda estimator, context: _interrupt_at(context, 9)
    with pytest.raises(KeyboardInterrupt):
        mixture.set_callbacks(interrupting).fit(POINTS)
    assert mixture.lower_bound_ >= whole.lower_bound_
    assert mixture.n_iter_ in (8, 2)


def _interrupt_at(context, lap):
    if context.task_name == "pass" and context.task_id == lap:
        raise KeyboardInterrupt


def test_each_start_has_its_own_patience(monkeypatch):
    given = iter([5, 4, 4] + [1, 2, 3, 2, 2])
    monkeypatch.setattr(SparseMixture, "score", lambda self, X: next(given))
    stopping = EarlyStopping(POINTS, patience=2)
    mixture = SparseMixture(6, n_init=2, max_iter=8, tol=0, random_state=0)
    mixture.set_callbacks(stopping).fit(POINTS)
    assert [row["n_iter"] for row in stopping.get_logs()] == [1, 2, 3, 1, 2, 3, 4, 5]
    # The start of the higher bound is kept, at its own best pass.
    rng, ends = np.random.RandomState(0), []
    for n_passes in (3, 5):
        one = clone(mixture).set_params(n_init=1, max_iter=n_passes, random_state=rng)
        ends.append(one.set_callbacks().fit(POINTS).lower_bound_)
    assert ends[0] != ends[1]
    assert mixture.n_iter_ == (1, 3)[int(np.argmax(ends))]


# ---------------------------------------------------------------------- workers that die


NO_SIGKILL = pytest.mark.skipif(
    not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL on Windows"
)


def die_in_a_worker():
    if multiprocessing.current_process().name != "MainProcess":
        os.kill(os.getpid(), signal.SIGKILL)


def deadly_step(deadly):
    """The local step of topics; where the file exists, workers die of it."""
    step = Admixture.local_step

    def local_step(*args, **kwargs):
        if os.path.exists(deadly):
            die_in_a_worker()
        return step(*args, **kwargs)

    return staticmethod(local_step)


def make_deadly(deadly):
    """An observation model of which workers die where the file exists."""

    class Deadly(Observation):  # here, so that it travels by value
        def empty(self, n_components):
            return {"first": np.zeros(n_components)}

        def summarise(self, rows, resp):
            return {"first": resp.T @ rows[:, 0]}

        def estimate(self, stats):
            precision = 0.01 + stats.factor * stats["count"]
            return {"means": (stats.factor * stats["first"] / precision)[:, None]}

        def table(self, estimates, dtype, *, point=False):
            return estimates["means"].T.astype(dtype)

        def log_likelihood(self, rows, table):
            if os.path.exists(deadly) and multiprocessing.current_process().name != "MainProcess":
                os.kill(os.getpid(), signal.SIGKILL)
            return rows[:, :1] * table - 0.5 * table**2

        def data_bound(self, stats, estimates):
            means = estimates["means"][:, 0]
            return stats.factor * (means @ stats["first"] - 0.5 * means**2 @ stats["count"])

        def prior_bound(self, estimates):
            return -0.005 * float((estimates["means"] ** 2).sum())

        def draw(self, attributes, component, size, rng):
            return attributes["means"][component] + rng.standard_normal((size, 1))

    return lambda estimator, X, sample_weight: Deadly()


class Poison(Failing):
    """A callback after whose second pass workers die."""

    def __init__(self, path):
        self.path = path

    def on_fit_task_end(self, estimator, context):
        if context.task_name == "pass" and context.task_id == 1:
            self.path.touch()


@NO_SIGKILL
@pytest.mark.parametrize("kind", ["topics", "mixture"])
def test_workers_may_die(kind, tmp_path, monkeypatch):
    deadly = tmp_path / "deadly"
    monkeypatch.setattr("sklearn_sparsepost._run.chunks.CHUNK_SIZE", 100)
    monkeypatch.setattr("sklearn_sparsepost._run.chunks.DENSE_CHUNK_SIZE", 100)
    monkeypatch.setattr("sklearn_sparsepost._run.chunks.DENSE_CHUNK_ROWS", 20)
    if kind == "topics":
        estimator, X = clone(ESTIMATORS["LDA memoized"]), COUNTS
        monkeypatch.setattr(Admixture, "local_step", deadly_step(str(deadly)))
    else:
        estimator, X = clone(ESTIMATORS["mixture memoized"]), POINTS[:, :1]
        estimator.set_params(observation=make_deadly(str(deadly)))
    want = clone(estimator).set_params(max_iter=2).fit(X)
    whole = clone(estimator).fit(X)
    estimator.set_params(n_jobs=2).set_callbacks(Poison(deadly))
    died = pytest.raises(RuntimeError, match="a worker process died, .* warm_start=True goes on")
    with joblib.parallel_config(backend="loky"), died:
        estimator.fit(X)
    assert deadly.exists() and estimator.n_iter_ == 2
    deadly.unlink()
    estimator.set_callbacks().set_params(n_jobs=1, max_iter=2)
    assert seen(estimator) == seen(want)
    estimator.set_params(max_iter=1, warm_start=True).fit(X)
    estimator.set_params(max_iter=N_PASSES, warm_start=False)
    assert seen(estimator) == seen(whole)


def once_deadly(deadly, function):
    """A function; the worker that finds the file, and takes it away, dies."""

    def once(*args, **kwargs):
        if multiprocessing.current_process().name != "MainProcess":
            with suppress(FileNotFoundError):
                os.rename(deadly, deadly + ".found")
                die_in_a_worker()
        return function(*args, **kwargs)

    return once


@contextmanager
def one_worker_dies(folder, monkeypatch, owner=Admixture, name="local_step"):
    """A path: a worker that finds a file there as it calls the function dies; one has to."""
    deadly = folder / "deadly"
    once = once_deadly(str(deadly), getattr(owner, name))
    is_static = isinstance(inspect.getattr_static(owner, name), staticmethod)
    monkeypatch.setattr(owner, name, staticmethod(once) if is_static else once)
    yield deadly
    assert (folder / "deadly.found").exists() and not deadly.exists()


@pytest.fixture
def dask(local_cluster):
    """A cluster of two processes, which every joblib call goes to while it is entered.

    Of a test's own: a worker that is killed while it starts does not always come back.
    """
    import dask

    with (
        # By default workers try to reach a dead one for 30 seconds.
        dask.config.set({"distributed.comm.timeouts.connect": "2s"}),
        local_cluster(default=True) as client,
    ):
        client.wait_for_workers(2, timeout=60)
        yield lambda: joblib.parallel_config(backend="dask")


@NO_SIGKILL
@pytest.mark.parametrize("name", ["LDA memoized", "LDA auto, warm"])
def test_a_fit_survives_a_dask_worker(name, dask, tmp_path, monkeypatch):
    monkeypatch.setattr("sklearn_sparsepost._run.chunks.CHUNK_SIZE", 100)
    estimator = clone(ESTIMATORS[name])
    want = seen(clone(estimator).fit(COUNTS))
    with dask(), one_worker_dies(tmp_path, monkeypatch) as deadly:
        estimator.set_params(n_jobs=2).set_callbacks(Poison(deadly)).fit(COUNTS)
    assert seen(estimator.set_callbacks().set_params(n_jobs=1)) == want


@NO_SIGKILL
def test_what_workers_are_sent_outlives_them(dask):
    with dask():
        client = get_active_backend()[0].client
        sent = sent_to_workers(client, 7)
        assert sent.result() == 7
        [holder] = client.who_has(sent)[sent.key]
        [pid] = client.run(os.getpid, workers=[holder]).values()
        os.kill(pid, signal.SIGKILL)
        sums = client.map(lambda i, held: i + held, range(3), held=sent, pure=False)
        assert client.gather(sums) == [7, 8, 9]


def test_a_scheduler_may_be_lost(monkeypatch):
    """joblib asks it how many cores there are."""

    class CommClosedError(OSError):
        """As Dask's, by its name."""

    def gone(n_jobs):
        raise CommClosedError

    def unplug(estimator, context):
        if context.task_name == "pass" and context.task_id == 1:
            monkeypatch.setattr("sklearn_sparsepost._run.threads.effective_n_jobs", gone)

    unplugging = Failing(None)
    unplugging.on_fit_task_end = unplug
    lda = clone(ESTIMATORS["LDA memoized"]).set_callbacks(unplugging)
    with pytest.raises(RuntimeError, match="the cluster is gone, .* warm_start=True goes on"):
        lda.fit(COUNTS)
    assert lda.n_iter_ == 2


def test_errors_name_what_was_worked_on():
    class KilledWorker(Exception):
        """As Dask's, by its name."""

    def step(chunk, globals_, key):
        raise KilledWorker

    X = np.zeros((60, 2))
    corpus = Corpus(X, X.dtype, n_jobs=2)
    died = pytest.raises(RuntimeError, match="2 chunks of rows 0 to 59 of X were worked on")
    with joblib.parallel_config(backend="loky"), died:
        list(corpus.map(step, None, chunks=[[(0, 30)], [(30, 60)]]))


@NO_SIGKILL
def test_all_dask_workers_may_die(dask, tmp_path, monkeypatch):
    deadly = tmp_path / "deadly"
    monkeypatch.setattr("sklearn_sparsepost._run.chunks.CHUNK_SIZE", 100)
    estimator = clone(ESTIMATORS["LDA memoized"])
    whole = clone(estimator).fit(COUNTS)
    monkeypatch.setattr(Admixture, "local_step", deadly_step(str(deadly)))
    estimator.set_params(n_jobs=2, warm_start=True).set_callbacks(Poison(deadly))
    with dask(), pytest.raises(RuntimeError, match="a worker process died"):
        estimator.fit(COUNTS)
    assert estimator.n_iter_ == 2
    deadly.unlink()
    estimator.set_callbacks().set_params(max_iter=1).fit(COUNTS)  # here, as well as anywhere
    estimator.set_params(n_jobs=1, max_iter=N_PASSES, warm_start=False)
    assert seen(estimator) == seen(whole)
