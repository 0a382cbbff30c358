"""Callbacks, ours and scikit-learn's, and fits that are interrupted and go on."""

import copy
import pickle
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.callback import FitCallback, ProgressBar, ScoringMonitor
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from sklearn_sparsepost import SparseLDA
from sklearn_sparsepost._base import Reached
from sklearn_sparsepost._run.dispatch import Corpus
from sklearn_sparsepost._suffstats import SuffStats
from sklearn_sparsepost.callbacks import BoundMonitor, Checkpoint, EarlyStopping, HeldoutMonitor

METHODS = ["batch", "online", "memoized"]
TEXTS = ["red green red blue", "green blue green", "one two three one", "two three two"] * 5


def make_lda(**params):
    defaults = {"tol": 0, "random_state": 3, "batch_size": 50, "n_batches": 4, "max_iter": 3}
    return SparseLDA(6, **{**defaults, **params})


def same_bytes(one, other):
    names = ("components_", "bound_history_", "restart_acceptance_")
    return all(getattr(one, name).tobytes() == getattr(other, name).tobytes() for name in names)


def column(callback, name, **kwargs):
    return [row[name] for row in callback.get_logs(**kwargs)]


class Raising:
    """Raises at the beginning or the end of a pass."""

    def __init__(self, hook, number, error=KeyboardInterrupt):
        self.hook, self.number, self.error = hook, number, error

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        self.act("begin", context)

    def on_fit_task_end(self, estimator, context):
        self.act("end", context)

    def act(self, hook, context):
        if context.task_name == "pass" and (hook, context.task_id + 1) == (self.hook, self.number):
            raise self.error


# ---------------------------------------------------------------------- monitors


def test_bound_monitor_logs_the_history(corpus):
    monitor = BoundMonitor()
    lda = make_lda(max_iter=5, evaluate_every=2).set_callbacks(monitor).fit(corpus)
    assert column(monitor, "n_iter") == [1, 2, 3, 4, 5]
    np.testing.assert_array_equal(column(monitor, "bound"), lda.bound_history_)
    assert np.isnan(column(monitor, "rise")).all()
    lda = lda.set_params(evaluate_every=1).fit(corpus)
    np.testing.assert_array_equal(column(monitor, "rise")[1:], np.diff(lda.bound_history_))
    np.testing.assert_allclose(
        column(monitor, "bound_per_token"), lda.bound_history_ / corpus.sum(), rtol=1e-6
    )
    assert (np.diff([0.0, *column(monitor, "seconds")]) > 0).all()


def test_every_fit_has_a_log_of_its_own(corpus):
    monitor = BoundMonitor()
    assert monitor.get_logs() == [] and monitor.get_logs(select="all") == []
    lda = make_lda(max_iter=2, warm_start=True).set_callbacks(monitor).fit(corpus).fit(corpus)
    assert [[row["n_iter"] for row in log] for log in monitor.get_logs(select="all")] == [
        [1, 2],
        [3, 4],
    ]
    assert monitor.get_logs()[0]["rise"] == lda.bound_history_[2] - lda.bound_history_[1]
    monitor.get_logs()[0].clear()
    assert monitor.get_logs()[0]["n_iter"] == 3
    with pytest.raises(ValueError, match="select"):
        monitor.get_logs(select="last")


def test_logs_as_frames(corpus):
    pd = pytest.importorskip("pandas")
    monitor = BoundMonitor()
    assert monitor.get_logs(as_frame=True).empty
    make_lda().set_callbacks(monitor).fit(corpus)
    pd.testing.assert_frame_equal(monitor.get_logs(as_frame=True), pd.DataFrame(monitor.get_logs()))
    assert [len(log) for log in monitor.get_logs(select="all", as_frame=True)] == [3]


@pytest.mark.parametrize("method", METHODS)
def test_heldout_monitor_scores_what_a_shorter_fit_gives(corpus, method):
    monitor = HeldoutMonitor(corpus[250:], every=2)
    common = {"learning_method": method}
    make_lda(max_iter=5, **common).set_callbacks(monitor).fit(corpus[:250])
    assert column(monitor, "n_iter") == [2, 4]
    shorter = [make_lda(max_iter=n, **common).fit(corpus[:250]) for n in (2, 4)]
    assert column(monitor, "score") == [lda.score(corpus[250:]) for lda in shorter]


def test_heldout_monitor_does_not_time_itself(corpus, monkeypatch):
    monkeypatch.setattr(SparseLDA, "score", lambda self, X: time.sleep(0.05) or 0.0)
    monitor = HeldoutMonitor(corpus)
    lda = make_lda().set_callbacks(monitor)
    begun = time.perf_counter()
    lda.fit(corpus)
    seconds = column(monitor, "seconds")
    assert 0 < seconds[0] < seconds[1] < seconds[2] < time.perf_counter() - begun - 0.15


def test_callbacks_change_nothing(corpus, tmp_path):
    plain = make_lda().fit(corpus)
    callbacks = (
        BoundMonitor(),
        HeldoutMonitor(corpus),
        EarlyStopping(corpus, patience=9, restore_best=False),
        Checkpoint(tmp_path / "lda"),
    )
    watched = make_lda().set_callbacks(*callbacks).fit(corpus)
    assert same_bytes(plain, watched)
    assert set(vars(watched)) - set(vars(plain)) == {"_skl_callbacks"}


def test_step_of_a_pipeline():
    monitor, heldout = BoundMonitor(), HeldoutMonitor(np.eye(6) + 1)
    lda = SparseLDA(2, max_iter=3, tol=0, random_state=0).set_callbacks(monitor, heldout)
    make_pipeline(CountVectorizer(), lda).fit(TEXTS)
    assert column(monitor, "n_iter") == column(heldout, "n_iter") == [1, 2, 3]
    make_pipeline(CountVectorizer(), lda).fit_transform(TEXTS)
    assert len(monitor.get_logs(select="all")) == 2


# ---------------------------------------------------------------------- stopping


@pytest.mark.parametrize(
    "scores, patience, min_delta, n_passes, best",
    [
        ([1, 2, 3, 3, 2, 9], 2, 0, 5, 3),
        ([1, 2, 3, 3, 2, 9], 1, 0, 4, 3),
        ([1, 2, 1, 3, 1, 1], 2, 0, 6, 4),
        ([1, 1.4, 1.8, 2.2, 1, 1], 2, 1, 3, 3),  # small steps, each no gain
        ([1, 1.6, 2.2, 1, 1, 1], 2, 1, 5, 3),  # two of them are one
        ([np.nan, 1, 2, 1, 1, 1], 2, 0, 5, 3),
        ([np.nan] * 6, 2, 0, 2, 2),
    ],
)
@pytest.mark.parametrize("restore", [True, False])
def test_patience(corpus, monkeypatch, scores, patience, min_delta, n_passes, best, restore):
    given = iter(scores)
    monkeypatch.setattr(SparseLDA, "score", lambda self, X: next(given))
    stopping = EarlyStopping(corpus, patience=patience, min_delta=min_delta, restore_best=restore)
    lda = make_lda(max_iter=6).set_callbacks(stopping).fit(corpus)
    np.testing.assert_array_equal(column(stopping, "score"), scores[:n_passes])
    assert lda.n_iter_ == (best if restore else n_passes)
    assert same_bytes(lda, make_lda(max_iter=lda.n_iter_).fit(corpus))
    assert lda.bound_history_.shape == lda.restart_acceptance_.shape == (lda.n_iter_,)


@pytest.mark.parametrize("method", METHODS)
def test_early_stopping_on_heldout_documents(corpus, method):
    stopping = EarlyStopping(corpus[250:], min_delta=1e-3)
    lda = make_lda(max_iter=100, learning_method=method, topic_word_prior=0.01)
    lda.set_callbacks(stopping).fit(corpus[:250])
    assert lda.n_iter_ < 100
    assert lda.score(corpus[250:]) == max(column(stopping, "score"))
    assert lda.n_iter_ == 1 + np.argmax(column(stopping, "score"))


def test_early_stopping_on_the_bound(corpus):
    stopping = EarlyStopping(min_delta=0.01, patience=1, restore_best=False)
    lda = make_lda(max_iter=100).set_callbacks(stopping).fit(corpus)
    rises = np.diff(lda.bound_history_) / corpus.sum()
    assert 1 < lda.n_iter_ < 100
    assert (rises[:-1] > 0.01).all() and rises[-1] <= 0.01
    lda.set_params(evaluate_every=2).fit(corpus)
    assert column(stopping, "n_iter") == list(range(2, lda.n_iter_ + 1, 2))
    lda.set_params(evaluate_every=0)
    with pytest.raises(ValueError, match="evaluate_every=0"):
        lda.fit(corpus)


def test_warm_start_goes_on_from_what_was_restored(corpus, monkeypatch):
    stopping = EarlyStopping(corpus, patience=2)
    lda = make_lda(max_iter=6, warm_start=True).set_callbacks(stopping)
    given = iter([1, 2, 0, 0])
    with monkeypatch.context() as patch:
        patch.setattr(SparseLDA, "score", lambda self, X: next(given))
        lda.fit(corpus)
    assert lda.n_iter_ == 2 and not hasattr(lda, "_fit_state")
    before = lda.bound_history_[-1]
    lda.set_callbacks().set_params(max_iter=2).fit(corpus)
    assert lda.n_iter_ == 4 and lda.bound_history_[-1] > before


def test_warm_start_is_exact_after_a_stop_at_the_best_pass(corpus, monkeypatch):
    monkeypatch.setattr(SparseLDA, "score", lambda self, X: self.n_iter_)
    stopping = EarlyStopping(corpus)
    lda = make_lda(warm_start=True).set_callbacks(stopping).fit(corpus)
    assert same_bytes(lda.fit(corpus), make_lda(max_iter=6).fit(corpus))


# ---------------------------------------------------------------------- checkpoints


@pytest.mark.parametrize("dtype", [np.int32, np.float64])
@pytest.mark.parametrize("params", [*METHODS, "warm documents"])
def test_checkpoint_goes_on_exactly(corpus, tmp_path, params, dtype):
    X = corpus.astype(dtype)
    method = {"doc_start": "warm"} if params == "warm documents" else {"learning_method": params}
    whole = make_lda(max_iter=6, **method).fit(X)
    path = tmp_path / "lda.joblib"
    crash = Raising("end", 4, MemoryError)
    with pytest.raises(MemoryError):
        make_lda(max_iter=6, **method).set_callbacks(crash, Checkpoint(str(path))).fit(X)
    loaded = joblib.load(path)
    assert loaded.n_iter_ == 3
    assert same_bytes(loaded, make_lda(**method).fit(X))
    resumed = loaded.set_params(warm_start=True, max_iter=3).fit(X)
    assert resumed.n_iter_ == 6 and same_bytes(resumed, whole)


def test_checkpoint_is_read_by_a_new_process(corpus, tmp_path):
    joblib.dump(corpus, tmp_path / "X")
    make_lda().set_callbacks(Checkpoint(tmp_path / "lda")).fit(corpus)
    program = (
        "import joblib\n"
        "lda = joblib.load('lda').set_params(warm_start=True).fit(joblib.load('X'))\n"
        "joblib.dump(lda, 'lda')\n"
    )
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert same_bytes(joblib.load(tmp_path / "lda"), make_lda(max_iter=6).fit(corpus))


def test_checkpoint_of_every_second_pass(corpus, tmp_path):
    make_lda(max_iter=5).set_callbacks(Checkpoint(tmp_path / "lda", every=2)).fit(corpus)
    assert joblib.load(tmp_path / "lda").n_iter_ == 4


def test_checkpoint_has_no_callbacks(tmp_path):
    path = tmp_path / "lda"
    callbacks = HeldoutMonitor(np.eye(6) + 1), Checkpoint(path), ScoringMonitor(scoring=None)
    lda = SparseLDA(2, max_iter=2, random_state=0).set_callbacks(*callbacks)
    make_pipeline(CountVectorizer(), lda).fit(TEXTS)
    content = path.read_bytes().lower()
    assert b"sparselda" in content and b"callback" not in content and b"monitor" not in content
    assert lda._skl_callbacks == list(callbacks)


def test_checkpoint_wants_its_folder_before_the_first_pass(corpus, tmp_path):
    lda = make_lda().set_callbacks(Checkpoint(tmp_path / "none" / "lda"))
    with pytest.raises(FileNotFoundError, match="none"):
        lda.fit(corpus)
    assert not hasattr(lda, "components_")


# ---------------------------------------------------------------------- all of ours


def make_all(corpus, folder):
    return [
        BoundMonitor(),
        HeldoutMonitor(corpus),
        EarlyStopping(corpus),
        EarlyStopping(),
        Checkpoint(folder / "lda"),
    ]


def test_protocol(corpus, tmp_path):
    assert all(isinstance(callback, FitCallback) for callback in make_all(corpus, tmp_path))


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "1", None])
def test_counts_are_checked(corpus, value, tmp_path):
    for make in (
        lambda: HeldoutMonitor(corpus, every=value),
        lambda: EarlyStopping(every=value),
        lambda: Checkpoint(tmp_path, every=value),
    ):
        with pytest.raises(ValueError, match="every must be an integer of at least 1"):
            make()
    with pytest.raises(ValueError, match="patience must be an integer of at least 1"):
        EarlyStopping(patience=value)


@pytest.mark.parametrize("value", [-0.1, np.nan, np.inf, "0", None])
def test_min_delta_is_checked(value):
    with pytest.raises(ValueError, match="min_delta must be a finite number of at least 0"):
        EarlyStopping(min_delta=value)


@pytest.mark.parametrize("callback", [HeldoutMonitor, EarlyStopping])
def test_wrong_width_is_told_by_the_estimator(corpus, callback):
    lda = make_lda().set_callbacks(callback(corpus[:, :100]))
    with pytest.raises(ValueError, match="100 features, but SparseLDA is expecting 120"):
        lda.fit(corpus)


def pickled(value):
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize("copied", [pickled, copy.deepcopy])
def test_copies_have_their_own_state(corpus, tmp_path, copied):
    lda = make_lda(max_iter=2).set_callbacks(*make_all(corpus, tmp_path)).fit(corpus)
    other = copied(lda)
    other.fit(corpus)
    monitors = zip(lda._skl_callbacks[:4], other._skl_callbacks[:4], strict=True)
    for mine, theirs in monitors:
        assert mine is not theirs
        assert len(mine.get_logs(select="all")) == 1
        assert len(theirs.get_logs(select="all")) == 2
    assert not any(callback._running for callback in lda._skl_callbacks)


def test_copy_made_during_a_fit_starts_afresh(corpus):
    class Copying(Raising):
        def act(self, hook, context):
            if (hook, context.task_name) == ("end", "pass"):
                self.copies = pickled(monitor), pickled(stopping)

    monitor, stopping, copying = BoundMonitor(), EarlyStopping(corpus), Copying("", 0)
    make_lda().set_callbacks(monitor, stopping, copying).fit(corpus)
    assert all(len(made.get_logs()) == 3 and not made._running for made in copying.copies)


def test_clones_share_callbacks_and_keep_apart(corpus, tmp_path):
    callbacks = make_all(corpus, tmp_path)
    first = make_lda(max_iter=8).set_callbacks(*callbacks)
    fits = [first, *(clone(first).set_params(random_state=i) for i in range(3))]
    alone = [clone(lda).set_callbacks(EarlyStopping(corpus), EarlyStopping()) for lda in fits]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda lda: lda.fit(corpus), fits))
    for shared, single in zip(fits, alone, strict=True):
        assert shared.n_iter_ == single.fit(corpus).n_iter_
        assert shared.components_.tobytes() == single.components_.tobytes()
    assert len(callbacks[0].get_logs(select="all")) == 4
    assert joblib.load(tmp_path / "lda").n_iter_ > 1
    assert [path.name for path in tmp_path.iterdir()] == ["lda"]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_grid_search(corpus, tmp_path, n_jobs):
    callbacks = make_all(corpus, tmp_path)
    lda = make_lda(max_iter=2).set_callbacks(*callbacks)
    search = GridSearchCV(lda, {"sparsity_level": [1, 4]}, cv=2, n_jobs=n_jobs).fit(corpus)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    # Logs of worker processes stay there.
    logs = callbacks[0].get_logs(select="all")
    assert [len(log) for log in logs] == [2] * (5 if n_jobs == 1 else 1)
    assert logs[-1][-1]["bound"] == search.best_estimator_.bound_history_[-1]


# ---------------------------------------------------------------------- scikit-learn's callbacks


def test_progress_bar(corpus, capsys):
    pytest.importorskip("rich")
    lda = make_lda().set_callbacks(ProgressBar(), EarlyStopping(corpus, patience=1)).fit(corpus)
    assert hasattr(lda, "components_")
    out = capsys.readouterr().out
    assert "SparseLDA - fit" in out and "100%" in out


def test_progress_bar_of_a_pipeline(capsys):
    pytest.importorskip("rich")
    pipeline = make_pipeline(CountVectorizer(), SparseLDA(2, max_iter=3, random_state=0))
    with pytest.warns(UserWarning, match="CountVectorizer does not support callbacks"):
        pipeline.set_callbacks(ProgressBar()).fit(TEXTS)
    out = capsys.readouterr().out
    assert "Pipeline - fit " in out and "SparseLDA - fit" in out


def test_scoring_monitor_does_no_harm(corpus):
    monitor = ScoringMonitor(scoring=None)
    lda = make_lda().set_callbacks(monitor).fit(corpus)
    assert same_bytes(lda, make_lda().fit(corpus))
    names = [row["task_name"] for row in monitor.get_logs().data]
    assert sorted(names) == ["fit", "pass", "pass", "pass"]


# ---------------------------------------------------------------------- interruptions


def check_usable(lda, X):
    assert np.isfinite(lda.components_).all() and (lda.components_ > 0).all()
    np.testing.assert_allclose(lda.transform(X).sum(axis=1), 1, rtol=1e-5)
    assert np.isfinite(lda.score(X))
    assert lda.bound_history_.shape == lda.restart_acceptance_.shape == (lda.n_iter_,)
    assert not [name for name in vars(lda) if name.endswith("_ctx")]


def check_mass(lda, X, rtol=1e-6):
    prior = lda.topic_word_prior_ * lda.components_.size
    np.testing.assert_allclose(lda.components_.sum(dtype=np.float64), prior + X.sum(), rtol=rtol)


def interrupt(lda, X):
    with pytest.raises(KeyboardInterrupt):
        lda.fit(X)
    check_usable(lda, X)
    return lda


@pytest.mark.parametrize("hook, number, n_made", [("begin", 1, 0), ("begin", 3, 2), ("end", 3, 3)])
@pytest.mark.parametrize("method", METHODS)
def test_interruption_between_passes(corpus, method, hook, number, n_made):
    params = {"learning_method": method, "max_iter": 6}
    lda = interrupt(make_lda(**params).set_callbacks(Raising(hook, number)), corpus)
    assert lda.n_iter_ == n_made
    if method != "online" and n_made:
        check_mass(lda, corpus)
    assert same_bytes(lda, make_lda(learning_method=method, max_iter=n_made).fit(corpus))
    lda.set_callbacks().set_params(warm_start=True, max_iter=6 - n_made).fit(corpus)
    assert lda.n_iter_ == 6
    assert same_bytes(lda, make_lda(**params).fit(corpus))


def fail_once(monkeypatch, owner, name, call, *, after=False):
    """Have a function interrupted before a given call of it, or at its end."""
    original, calls = getattr(owner, name), iter(range(1, 10**6))

    def replacement(*args, **kwargs):
        if next(calls) == call:
            if after:
                original(*args, **kwargs)
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, replacement)


@pytest.mark.parametrize("doc_start", ["cold", "warm"])
@pytest.mark.parametrize("call, n_made", [(2, 0), (9, 2), (10, 2), (12, 2)])
def test_interruption_between_batches(corpus, monkeypatch, call, n_made, doc_start):
    X = corpus.astype(np.float64)
    start = np.full((6, 120), 1 / 120) * np.random.default_rng(0).uniform(0.5, 1.5, (6, 120))
    start /= start.sum(axis=1, keepdims=True)  # probabilities: their mass is that of the tokens
    fail_once(monkeypatch, Corpus, "map", 1 + call)  # once for the start, then once a batch
    lda = interrupt(make_lda(doc_start=doc_start, init=start, max_iter=6), X)
    assert lda.n_iter_ == n_made
    # Where the start stands in for batches, it does so by documents, which differ in length.
    check_mass(lda, X, rtol=1e-6 if n_made else 0.02)
    before = lda.score(X)
    lda.set_params(warm_start=True, max_iter=4).fit(X)
    assert lda.n_iter_ == n_made + 4
    check_usable(lda, X)
    check_mass(lda, X)
    assert lda.score(X) > before - 0.01
    assert lda.bound_history_[-1] > lda.bound_history_[0]


# In the third pass: of its first batch, its third, and all batches anew.
@pytest.mark.parametrize("call", [9, 11, 12])
@pytest.mark.parametrize("after", [False, True])
def test_interruption_between_two_sums(corpus, monkeypatch, call, after):
    X = corpus.astype(np.float64)
    fail_once(monkeypatch, SuffStats, "add_in_turn", call, after=after)
    lda = interrupt(make_lda(max_iter=6), X)
    assert lda.n_iter_ == 2
    check_mass(lda, X)
    lda.set_params(warm_start=True, max_iter=4).fit(X)
    assert lda.n_iter_ == 6
    check_mass(lda, X)


@pytest.mark.parametrize("method", ["batch", "online"])
def test_interruption_within_a_pass(corpus, monkeypatch, method):
    # Once a pass, or once an update.
    fail_once(monkeypatch, Corpus, "map", {"batch": 3, "online": 15}[method])
    lda = interrupt(make_lda(learning_method=method, max_iter=6), corpus)
    assert lda.n_iter_ == 2
    lda.set_params(warm_start=True, max_iter=4).fit(corpus)
    assert lda.n_iter_ == 6
    check_usable(lda, corpus)


def test_interruption_between_a_pass_and_its_count(corpus, monkeypatch):
    fail_once(monkeypatch, Reached, "note", 3)
    lda = interrupt(make_lda(max_iter=6), corpus)
    assert lda.n_iter_ == 2
    assert lda.set_params(warm_start=True, max_iter=4).fit(corpus).n_iter_ == 6
    check_usable(lda, corpus)


def test_interruption_leaves_callbacks_ready(corpus, tmp_path):
    callbacks = make_all(corpus, tmp_path)
    lda = make_lda().set_callbacks(*callbacks, Raising("end", 2))
    interrupt(lda, corpus)
    assert not any(callback._running for callback in callbacks)
    lda.set_callbacks(*callbacks).set_params(warm_start=True, max_iter=1).fit(corpus)
    assert [len(log) for log in callbacks[0].get_logs(select="all")] == [2, 1]
    assert same_bytes(lda, make_lda().fit(corpus))
