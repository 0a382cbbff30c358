"""Callbacks for the passes of a fit: curves, early stopping, checkpoints.

They follow scikit-learn's ``FitCallback`` protocol and are set by ``set_callbacks`` on the
estimator itself, inside a pipeline on its step, since scikit-learn hands only the likes of its
progress bar on from a pipeline. One callback may serve many fits, one after another or at the same
time in threads, as those of a grid search. Processes work on copies, whose logs are lost with
them: what remains is the log of the fits made in this process, such as the final one of a search.
"""

import copy
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from time import perf_counter

import numpy as np

from sklearn_sparsepost._checks import check_count
from sklearn_sparsepost.persistence import save

__all__ = ["BoundMonitor", "Checkpoint", "EarlyStopping", "HeldoutMonitor"]


@dataclass(eq=False)
class _Run:
    """What a callback knows of one fit."""

    rows: list = field(default_factory=list)
    begun: float = 0.0  # when the present pass began
    seconds: float = 0.0  # spent in passes
    starts: dict = field(default_factory=dict)  # what is watched in each start, by its seed


@dataclass(eq=False)
class _Watched:
    """What EarlyStopping knows of one start."""

    scores: list = field(default_factory=list)
    best_score: float = -np.inf
    best: dict = field(default_factory=dict)  # fitted attributes of the best pass


class _PassCallback:
    """The hooks, once for all callbacks; `_after_pass` says what happens every `every` passes."""

    def __init__(self, every):
        self.every = check_count(every, "every", 1)
        self._running = {}  # clones share a callback, so what belongs to a fit is kept a fit

    def setup(self, estimator, context):
        """Prepare for a fit.

        Parameters
        ----------
        estimator : estimator instance
            The estimator that is about to be fitted.
        context : CallbackContext
            The task of the whole fit.
        """
        self._running[estimator] = self._start(estimator)

    def teardown(self, estimator, context):
        """Forget a fit that has ended, whether well or not.

        Parameters
        ----------
        estimator : estimator instance
            The estimator.
        context : CallbackContext
            The task of the whole fit.
        """
        self._running.pop(estimator, None)

    def on_fit_task_begin(self, estimator, context):
        """Note when a pass begins.

        Parameters
        ----------
        estimator : estimator instance
            The estimator that is being fitted.
        context : CallbackContext
            The task that begins; passes have the name "pass".
        """
        if context.task_name != "pass" or context.task_id:  # the first pass is timed with the start
            self._running[estimator].begun = perf_counter()

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        """Do what the callback is for, if enough passes have been made.

        Parameters
        ----------
        estimator : estimator instance
            The estimator that is being fitted.
        context : CallbackContext
            The task that ends; passes have the name "pass".
        fitted_estimator : estimator instance, default=None
            The estimator as if the fit had ended with this task.

        Returns
        -------
        stop : bool
            Whether the fit is to end here.
        """
        run = self._running[estimator]
        if context.task_name != "pass":
            return self._after_fit(estimator, fitted_estimator, run)
        run.seconds += getattr(estimator, "_pass_ended", perf_counter()) - run.begun
        if (context.task_id + 1) % self.every:
            return False
        return self._after_pass(fitted_estimator, run)

    def _start(self, estimator):
        return _Run()

    def _after_fit(self, estimator, fitted_estimator, run):
        return False

    def __getstate__(self):
        # A copy has no part in the fits that are under way here.
        return {**self.__dict__, "_running": {}}


class _Monitor(_PassCallback):
    """A callback that logs what `_measure` finds."""

    def __init__(self, every):
        super().__init__(every)
        self._logs = []

    def get_logs(self, *, select="most_recent", as_frame=False):
        """Return what was logged.

        Parameters
        ----------
        select : {"most_recent", "all"}, default="most_recent"
            Whether to return the log of the fit that began last, or of all fits in this process.
        as_frame : bool, default=False
            Whether a log is a pandas DataFrame instead of a list of dicts.

        Returns
        -------
        logs : list of dict, DataFrame, or list of either
            The log of one fit, a row an evaluation; with ``select="all"`` a list of logs in the
            order in which the fits began. An empty log if there was no fit.
        """
        if select not in ("most_recent", "all"):
            raise ValueError(f'select must be "most_recent" or "all", got {select!r}')
        logs = [[dict(row) for row in rows] for rows in list(self._logs)]
        if select == "most_recent":
            logs = logs[-1:] or [[]]
        if as_frame:
            import pandas as pd

            logs = [pd.DataFrame(rows) for rows in logs]
        return logs if select == "all" else logs[0]

    def _start(self, estimator):
        run = super()._start(estimator)
        self._logs.append(run.rows)
        return run

    def _after_pass(self, fitted_estimator, run):
        measured = self._measure(fitted_estimator)
        run.rows.append({"n_iter": fitted_estimator.n_iter_, "seconds": run.seconds, **measured})
        return False

    def __getstate__(self):
        # Another thread may be writing to the lists while this one pickles.
        return {**super().__getstate__(), "_logs": [list(rows) for rows in list(self._logs)]}


class BoundMonitor(_Monitor):
    """Log the bound of the training data after each pass.

    A row has

    - `n_iter`: the number of passes made;
    - `seconds`: the time spent in the passes of this fit, without what callbacks do after a pass;
    - `bound`: the evidence lower bound in nats, as in `bound_history_`; NaN in the passes that
      `evaluate_every` leaves out;
      for :class:`AliasLDA` the log likelihood of `log_likelihood_history_`, times the tokens;
    - `rise`: by how much the bound rose in this pass, NaN if either end is not known;
    - `bound_per_token`: the bound divided by the number of tokens, the unit of `tol`.

    Examples
    --------
    >>> from sklearn_sparsepost import SparseLDA
    >>> from sklearn_sparsepost.callbacks import BoundMonitor
    >>> from sklearn_sparsepost.datasets import make_bars
    >>> X, *_ = make_bars(200, random_state=0)
    >>> monitor = BoundMonitor()
    >>> lda = SparseLDA(10, max_iter=3, tol=0, random_state=0).set_callbacks(monitor).fit(X)
    >>> [row["n_iter"] for row in monitor.get_logs()]
    [1, 2, 3]
    >>> bool(monitor.get_logs()[-1]["bound"] == lda.bound_history_[-1])
    True
    """

    def __init__(self):
        super().__init__(every=1)

    def _measure(self, fitted_estimator):
        history = _history(fitted_estimator)
        return {
            "bound": float(history[-1]),
            "rise": float(history[-1] - history[-2]) if len(history) > 1 else np.nan,
            "bound_per_token": _bound_per_token(fitted_estimator),
        }


class HeldoutMonitor(_Monitor):
    """Log the score of held-out data and the training time.

    A row has

    - `n_iter`: the number of passes made;
    - `seconds`: the time spent in the start and the passes of this fit, without the evaluations;
      where other callbacks evaluate, too, set this one first, so that it does not time them;
    - `score`: the estimator's score of `X`, which is document completion for topic models.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Held-out rows, as the estimator is given rows; in a pipeline, as they reach the estimator.

    groups : array-like of shape (n_samples,), default=None
        Which group each row belongs to, of an estimator that wants to know.

    every : int, default=1
        Evaluate after every so many passes of a fit.

    See Also
    --------
    sklearn.callback.ScoringMonitor : Scores of training data with targets.

    Examples
    --------
    >>> from sklearn_sparsepost import SparseLDA
    >>> from sklearn_sparsepost.callbacks import HeldoutMonitor
    >>> from sklearn_sparsepost.datasets import make_bars
    >>> X, *_ = make_bars(300, random_state=0)
    >>> monitor = HeldoutMonitor(X[200:], every=2)
    >>> lda = SparseLDA(10, max_iter=6, tol=0, random_state=0).set_callbacks(monitor)
    >>> lda = lda.fit(X[:200])
    >>> [row["n_iter"] for row in monitor.get_logs()]
    [2, 4, 6]
    >>> bool(monitor.get_logs()[-1]["score"] == lda.score(X[200:]))
    True
    """

    def __init__(self, X, *, groups=None, every=1):
        super().__init__(every)
        self.X = X
        self.groups = groups

    def _measure(self, fitted_estimator):
        return {"score": _score(fitted_estimator, self.X, self.groups)}


class EarlyStopping(_Monitor):
    """Stop when the score of held-out data, or the bound, no longer gains.

    The fit ends after `patience` evaluations in a row whose score did not exceed the last accepted
    one by more than `min_delta`. The first score is accepted, and so is each that exceeds it by
    more. A row of the log has `n_iter`, `seconds` and `score`, as in :class:`HeldoutMonitor`.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
        Counts of words in held-out documents, whose score is watched. In a pipeline, as they reach
        the estimator. None watches the bound of the training data per token, in the passes in
        which `evaluate_every` has it computed.

    groups : array-like of shape (n_samples,), default=None
        Which group each row belongs to, of an estimator that wants to know.

    patience : int, default=2
        Evaluations without a gain after which the fit ends.

    min_delta : float, default=0.0
        What is no gain yet, in nats a token.

    every : int, default=1
        Evaluate after every so many passes of a fit.

    restore_best : bool, default=True
        Whether the fitted attributes are in the end those of the evaluated pass with the highest
        score, whatever ended the fit, except for an interruption. `n_iter_` is then the number
        of passes up to there. A later warm start goes on from these topics, and exactly only if
        the best pass was the last one. Of several starts (`n_init`) each has a patience and a best
        pass of its own, and that of the start that is kept counts.

    Notes
    -----
    `tol` may end the fit before; ``tol=0`` leaves the decision to this callback.

    Examples
    --------
    >>> from sklearn_sparsepost import SparseLDA
    >>> from sklearn_sparsepost.callbacks import EarlyStopping
    >>> from sklearn_sparsepost.datasets import make_bars
    >>> X, *_ = make_bars(300, random_state=0)
    >>> stopping = EarlyStopping(X[200:], patience=2)
    >>> lda = SparseLDA(10, max_iter=100, tol=0, random_state=0).set_callbacks(stopping)
    >>> lda = lda.fit(X[:200])
    >>> lda.n_iter_ < 100
    True
    >>> bool(lda.score(X[200:]) == max(row["score"] for row in stopping.get_logs()))
    True
    """

    def __init__(
        self, X=None, *, groups=None, patience=2, min_delta=0.0, every=1, restore_best=True
    ):
        super().__init__(every)
        self.X = X
        self.groups = groups
        self.patience = check_count(patience, "patience", 1)
        if not isinstance(min_delta, Real) or not 0 <= min_delta < np.inf:
            raise ValueError(f"min_delta must be a finite number of at least 0, got {min_delta!r}")
        self.min_delta = min_delta
        self.restore_best = restore_best

    def _start(self, estimator):
        if self.X is None and getattr(estimator, "evaluate_every", 1) == 0:
            raise ValueError(
                "EarlyStopping without X needs the bound, which evaluate_every=0 leaves out"
            )
        return super()._start(estimator)

    def _measure(self, fitted_estimator):
        if self.X is None:
            return {"score": _bound_per_token(fitted_estimator)}
        return {"score": _score(fitted_estimator, self.X, self.groups)}

    def _after_pass(self, fitted_estimator, run):
        if self.X is None and np.isnan(_history(fitted_estimator)[-1]):
            return False
        super()._after_pass(fitted_estimator, run)
        start = run.starts.setdefault(fitted_estimator._fit_state.seed, _Watched())
        start.scores.append(run.rows[-1]["score"])
        if self.restore_best and start.scores[-1] > start.best_score:
            start.best_score, start.best = start.scores[-1], _fitted_attributes(fitted_estimator)
        return _without_gain(start.scores, self.min_delta) >= self.patience

    def _after_fit(self, estimator, fitted_estimator, run):
        kept = run.starts.get(fitted_estimator._fit_state.seed)
        if kept and kept.best and kept.best["n_iter_"] != estimator.n_iter_:
            vars(estimator).update(kept.best)
            # It stands at the last pass: a warm start would undo what was restored.
            vars(estimator).pop("_fit_state", None)
        return False


class Checkpoint(_PassCallback):
    """Save the fitted estimator while it is being fitted.

    The file is replaced as a whole, so that it holds a complete estimator at any time, and is read
    by :func:`~sklearn_sparsepost.persistence.load`, which verifies it and runs no code of it, or by
    ``joblib.load``. Callbacks are not saved. With ``warm_start=True`` a fit on the same data goes
    on to the same bytes as if it had not been interrupted. What that takes is in the file: in
    memoized learning the statistics of every batch.

    Parameters
    ----------
    path : str or path-like
        The file. Its folder must exist. Fits that run at the same time, as in a grid search, take
        turns to replace it.

    every : int, default=1
        Save after every so many passes of a fit.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn_sparsepost import SparseLDA
    >>> from sklearn_sparsepost.callbacks import Checkpoint
    >>> from sklearn_sparsepost.datasets import make_bars
    >>> from sklearn_sparsepost.persistence import load
    >>> X, *_ = make_bars(200, random_state=0)
    >>> whole = SparseLDA(10, max_iter=6, tol=0, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "lda.model")
    ...     lda = SparseLDA(10, max_iter=4, tol=0, random_state=0)
    ...     lda = lda.set_callbacks(Checkpoint(path)).fit(X)
    ...     resumed = load(path).set_params(warm_start=True, max_iter=2).fit(X)
    >>> bool((resumed.components_ == whole.components_).all())
    True
    """

    def __init__(self, path, *, every=1):
        super().__init__(every)
        self.path = Path(path)

    def _start(self, estimator):
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"there is no folder {str(self.path.parent)!r} for checkpoints")
        return super()._start(estimator)

    def _after_pass(self, fitted_estimator, run):
        save(_without_callbacks(fitted_estimator), self.path)
        return False


def _score(fitted_estimator, X, groups):
    beside = {} if groups is None else {"groups": groups}
    return float(fitted_estimator.score(X, **beside))


def _n_tokens(fitted_estimator):
    return max(fitted_estimator._fit_state.amount, 1)


def _history(fitted_estimator):
    """The bound after each pass, or what a sampler has in its place, in nats."""
    if hasattr(fitted_estimator, "bound_history_"):
        return fitted_estimator.bound_history_
    return fitted_estimator.log_likelihood_history_ * _n_tokens(fitted_estimator)


def _bound_per_token(fitted_estimator):
    return float(_history(fitted_estimator)[-1] / _n_tokens(fitted_estimator))


def _without_gain(scores, min_delta):
    """How many of the last scores did not exceed the one accepted before by more than a delta."""
    accepted, count = -np.inf, 0
    for score in scores:
        if score > accepted + min_delta:
            accepted, count = score, 0
        else:
            count += 1
    return count


def _fitted_attributes(estimator):
    return {
        name: value
        for name, value in vars(estimator).items()
        if name.endswith("_") and not name.startswith("_")
    }


def _without_callbacks(estimator):
    """A shallow copy that knows of no callback and no context."""
    estimator = copy.copy(estimator)
    # scikit-learn has several private names for them, all with this word in it.
    for name in [name for name in vars(estimator) if "callback" in name]:
        delattr(estimator, name)
    return estimator
