"""What every estimator shares: validation, tags, the fit loop with its callbacks, pickles."""

import hashlib
import warnings
from contextlib import contextmanager, suppress
from functools import partial
from numbers import Integral, Real
from time import perf_counter

import numpy as np
import scipy.sparse as sp
from scipy.special import softmax
from sklearn.base import BaseEstimator, _fit_context
from sklearn.callback import CallbackSupportMixin
from sklearn.utils import _param_validation as param_validation
from sklearn.utils import check_array, check_random_state
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from sklearn_sparsepost._version import __version__

# scikit-learn's private helpers are imported here and nowhere else.
__all__ = ["BaseSparsePosterior", "Interval", "StrOptions", "_fit_context", "check_is_fitted"]

# Bytes that are hashed at a time.
HASHED = 1 << 22
# The largest integer up to which float32 is exact.
FLOAT32_EXACT = 2**24
# The largest integer that a kernel takes.
MOST_INTEGER = 2**31 - 1
# Priors and counts with which every model stays finite, in single precision too.
LEAST_PRIOR, MOST_PRIOR = 1e-30, 1e30
MOST_COUNT = 1e15
# What no pseudo-count of a fitted topic exceeds.
MOST_TOPIC = 1e32
# Data whose squares, and the precisions that follow from them, are finite in their own type.
MOST_VALUE = {np.dtype(np.float32): 1e15, np.dtype(np.float64): 1e100}
# Values that are looked at together.
PART = 1 << 15


class Interval(param_validation.Interval):
    """scikit-learn's interval of numbers, of which booleans are none."""

    def is_satisfied_by(self, val):
        """Whether a value is a number of the interval."""
        return not isinstance(val, bool) and super().is_satisfied_by(val)


PRIOR = Interval(Real, LEAST_PRIOR, MOST_PRIOR, closed="both")


class Reached:
    """The states that a call of fit or partial_fit has reached.

    Parameters
    ----------
    was_fitted : bool
        Whether the estimator had been fitted before the call.
    """

    def __init__(self, was_fitted):
        self.was_fitted = was_fitted
        self.best = None  # of all starts, the present one included
        self.others = None  # of the starts before the present one
        self.n_passes = 0

    def begin(self, state):
        """Note where a start begins."""
        self.others = self.best
        if self.best is None:
            self.best = state

    def note(self, state):
        """Note the end of a whole pass."""
        self.n_passes += 1
        if self.others is None or state.history[-1] > self.others.history[-1]:
            self.best = state
        else:
            self.best = self.others

    @property
    def state(self):
        """What is left if the call ends here; None for what was there before."""
        return self.best if self.n_passes or not self.was_fitted else None


class BaseSparsePosterior(CallbackSupportMixin, BaseEstimator):
    """Base class of the estimators."""

    # What the bound is divided by, as the report and people call it.
    _unit = ("n_tokens", "token")

    def _validate_counts(self, X, *, reset, dtype=None):
        """Check a matrix of counts and settle the type to compute in.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Counts; fractions are legal.
        reset : bool
            Whether this is a fit, which sets the number and names of features.
        dtype : dtype, default=None
            Type to compute integers in; by default float32 where that is exact, float64 otherwise.

        Returns
        -------
        X : csr_matrix or csr_array
            The counts, as from :func:`check_counts`.
        dtype : dtype
            float32 or float64.
        """
        check = partial(validate_data, self, reset=reset)
        X = check_counts(X, type(self).__name__, check)
        if X.dtype.kind == "f":
            return X, X.dtype
        if dtype is None:
            exact = X.nnz == 0 or X.data.max() <= FLOAT32_EXACT
            dtype = np.float32 if exact else np.float64
        return X, np.dtype(dtype)

    def _new_seeds(self, n_starts):
        """One integer for each start, that every random stream of its fit is keyed by."""
        rng = check_random_state(self.random_state)
        return [int(rng.randint(np.iinfo(np.int32).max)) for _ in range(n_starts)]

    def _new_seed(self):
        """The integer of one start."""
        return self._new_seeds(1)[0]

    # ------------------------------------------------------------------ whole passes only

    @contextmanager
    def _whole_passes(self):
        """Whatever ends the call, leave what its last whole pass left, or all as it was.

        One that has not been fitted before keeps the start, if there is one by then, for want of
        anything else.

        Yields
        ------
        reached : Reached
            Where the call notes the states that it has reached.
        """
        before = dict(vars(self))
        reached = Reached(was_fitted=hasattr(self, "n_iter_"))
        given = {
            name: value
            for name, value in self.get_params(deep=False).items()
            if isinstance(value, np.integer)
        }
        try:
            # Arithmetic with short integers overflows.
            vars(self).update({name: int(value) for name, value in given.items()})
            yield reached
        except BaseException:
            self._leave(before, reached.state)
            raise
        finally:
            vars(self).update(given)
            self.__dict__.pop("_pass_ended", None)

    def _leave(self, before, state):
        """Have the attributes of a state, or, if there is none or it has none, those of before."""
        attributes = None
        if state is not None:
            with suppress(BaseException):  # what ends the call may well end this, too
                attributes = self._fitted_attributes(state, whole=True)
        if attributes is None:
            # scikit-learn takes its callbacks down itself.
            mine = {name: value for name, value in vars(self).items() if "callback" in name}
            self.__dict__ = {**before, **mine}
        else:
            vars(self).update(attributes)

    def _store(self, state, whole):
        """Set the fitted attributes, all of them at once."""
        attributes = self._fitted_attributes(state, whole=whole)
        self.__dict__.pop("_fit_state", None)
        vars(self).update(attributes)

    # ------------------------------------------------------------------ passes

    def _run_laps(self, X, begin, lap, reached, n_starts=1):
        """Run laps until `max_iter`, convergence or a callback's stop, and set the attributes.

        Parameters
        ----------
        X : csr_matrix or csr_array
            The training data, for the callbacks.
        begin : callable
            ``begin() -> state``, where the fit stands: the start, which callbacks time too.
        lap : callable
            ``lap(state, bound) -> (state, bound)``, one pass; the state that it is given stays.
        reached : Reached
            Of the call.
        n_starts : int, default=1
            How often to begin; the state whose last bound is highest is kept.
        """
        context = self._init_callback_context(max_subtasks=self.max_iter * n_starts)
        context.call_on_fit_task_begin(estimator=self, X=X)
        for _ in range(n_starts):
            state = begin()
            reached.begin(state)
            self._run_start(X, state, lap, context, reached)
        state = reached.best
        self._store(state, whole=self.warm_start)
        context.call_on_fit_task_end(
            estimator=self,
            X=X,
            reconstruction_attributes=lambda: self._fitted_attributes(state, whole=True),
        )

    def _run_start(self, X, state, lap, context, reached):
        """Run the laps of one start."""
        for _ in range(self.max_iter):
            task = context.subcontext(task_name="lap")
            task.call_on_fit_task_begin(estimator=self, X=X)
            state, bound = lap(state, self._bound_wanted(state.n_laps + 1))
            state.history.append(bound)
            state.acceptance.append(_acceptance(state.report))
            state.n_laps += 1
            reached.note(state)
            self._log_lap(state)
            self._pass_ended = perf_counter()  # for callbacks, before anything is made for them
            stop = task.call_on_fit_task_end(
                estimator=self,
                X=X,
                reconstruction_attributes=partial(self._fitted_attributes, state, whole=True),
            )
            if stop or self._has_converged(state):
                break

    def _bound_wanted(self, lap):
        return self.evaluate_every > 0 and lap % self.evaluate_every == 0

    def _has_converged(self, state):
        """Whether the bound, per token or sample, rose by less than `tol` since last known.

        In online learning, where it may fall at any time, whether it moved by less.
        """
        known = [bound for bound in state.history if not np.isnan(bound)]
        if not self.tol or len(known) < 2 or np.isnan(state.history[-1]):
            return False
        change = known[-1] - known[-2]
        if self.learning_method == "online":
            change = abs(change)
        return change < self.tol * state.report[self._unit[0]]

    def _log_lap(self, state):
        if not self.verbose:
            return
        report = state.report
        line = f"[{type(self).__name__}] pass {state.n_laps}"
        if not np.isnan(state.history[-1]):
            amount, unit = self._unit
            line += f", bound per {unit} {state.history[-1] / max(report[amount], 1):.5f}"
        if report.get("restarts_proposed"):
            line += f", {state.acceptance[-1]:.0%} of restarts accepted"
        print(line)

    def __getstate__(self):
        state = super().__getstate__()
        state = {name: value for name, value in state.items() if name != "_pass_ended"}
        return {**state, "_sparsepost_version": __version__}

    def __setstate__(self, state):
        version = state.pop("_sparsepost_version", __version__)
        if version != __version__:
            warnings.warn(
                f"this {type(self).__name__} was saved by sklearn_sparsepost {version} and is "
                f"read by {__version__}: results may differ",
                UserWarning,
                stacklevel=2,
            )
        super().__setstate__(state)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _acceptance(report):
    """Share of a lap's restart proposals that were accepted."""
    proposed = report.get("restarts_proposed")
    return report["restarts_accepted"] / proposed if proposed else np.nan


def check_counts(X, owner, check=check_array):
    """Counts as CSR without stored zeros, or a ValueError that names the row at fault.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Counts; fractions are legal.
    owner : str
        Who asks, for the message.
    check : callable, default=check_array
        What of scikit-learn's to check with, which takes the options of `check_array`.

    Returns
    -------
    X : csr_matrix or csr_array
        The counts, in their own type, floats as what is nearest of float32 and float64. What was
        CSR is copied only if it stores zeros, or numbers that have no such type.
    """
    _check_pointers(X)
    X = check(X, accept_sparse="csr", dtype="numeric")
    dtype = X.dtype.newbyteorder("=")
    if dtype.kind == "f":
        dtype = np.float32 if dtype.itemsize <= 4 else np.float64
    with np.errstate(over="ignore"):  # is found below
        X = X.astype(dtype, copy=False)
    if not sp.issparse(X):
        X = sp.csr_matrix(X)
    least, most = (X.data.min(), X.data.max()) if X.nnz else (1, 1)
    if least < 0:
        raise ValueError(
            f"Negative values in data passed to {owner}: counts cannot be negative, "
            f"row {_row_of(X.indptr, X.data < 0)} has one"
        )
    if most > MOST_COUNT:
        raise ValueError(
            f"row {_row_of(X.indptr, X.data > MOST_COUNT)} of X has a count of {most:.3g}, but "
            f"{MOST_COUNT:g} is the most that {owner} computes with"
        )
    if least == 0:
        X = X.copy()
        X.eliminate_zeros()
    return X


def _check_pointers(X):
    """Refuse compressed data whose arrays point outside of them: neither scipy nor kernels look."""
    if not sp.issparse(X) or X.format not in ("csr", "csc") or X.ndim != 2:
        return
    n, width = X.shape if X.format == "csr" else X.shape[::-1]
    row, column = ("row", "column") if X.format == "csr" else ("column", "row")
    indptr, indices, stored = X.indptr, X.indices, len(X.data)
    if indptr.shape != (n + 1,) or indices.shape != X.data.shape:
        raise ValueError(
            f"X is corrupt: its {n} {row}s have {len(indptr)} entries of indptr, and its {stored} "
            f"stored values {len(indices)} indices"
        )
    if indptr[0]:
        raise ValueError(f"X is corrupt: indptr begins with {indptr[0]}, not 0, at {row} 0")
    falls = indptr[1:] < indptr[:-1]
    if falls.any():
        raise ValueError(f"X is corrupt: indptr falls after {row} {falls.argmax()}")
    if indptr[-1] != stored:
        raise ValueError(
            f"X is corrupt: indptr ends with {indptr[-1]} after {row} {n - 1}, but {stored} values "
            "are stored"
        )
    # As unsigned integers negative ones are large.
    if stored and indices.view(f"u{indices.itemsize}").max() >= width:
        outside = (indices < 0) | (indices >= width)
        raise ValueError(
            f"X is corrupt: {row} {_row_of(indptr, outside)} has {column} "
            f"{indices[outside.argmax()]}, but there are {width} {column}s"
        )


def has_fractions(X):
    """Whether some count of checked counts is not whole."""
    if X.dtype.kind != "f" or _all_whole(X.data):
        return False
    if not X.has_canonical_format:  # entries of one word are one count
        X = X.copy()
        X.sum_duplicates()
    return not _all_whole(X.data)


def _all_whole(values):
    """Whether values have no fractions, looked at in parts that stay in cache."""
    parts = np.array_split(values, 1 + len(values) // PART)
    return all((part == np.rint(part)).all() for part in parts)


def _row_of(indptr, entries):
    """The row of the first of some stored entries."""
    return int(np.searchsorted(indptr, entries.argmax(), "right") - 1)


def check_count(value, name, minimum):
    """Raise a ValueError unless a value is an integer, and neither too small nor too large."""
    if not Interval(Integral, minimum, MOST_INTEGER, closed="both").is_satisfied_by(value):
        raise ValueError(
            f"{name} must be an integer of at least {minimum} and at most {MOST_INTEGER}, got "
            f"{value!r}"
        )


def number_array(value, name, shapes, least, most):
    """A number or array of one of some shapes and within limits, or a ValueError that names it.

    Parameters
    ----------
    value : float or array-like
        What the user gave.
    name : str
        Its name.
    shapes : dict of str to tuple
        What each legal shape is called, and the shape; () is a scalar.
    least, most : float
        The limits.

    Returns
    -------
    array : ndarray, float64
        The value.
    """
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "iufO":
            raise TypeError(f"{array.dtype} is no type of numbers")
        array = array.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must hold numbers, got {value!r}: {error}") from error
    if array.shape not in shapes.values():
        legal = " or ".join(f"{shape} ({what})" for what, shape in shapes.items())
        raise ValueError(f"{name} has shape {array.shape}, but must have shape {legal}")
    if not ((array >= least) & (array <= most)).all():  # NaN is neither
        rule = "be positive" if least > 0 else "be finite" if least else "not be negative"
        raise ValueError(f"{name} must {rule}, from {least:g} to {most:g}, got {value!r}")
    return array


def positive_array(value, name, shapes):
    """As :func:`number_array`, within the limits of priors."""
    return number_array(value, name, shapes, LEAST_PRIOR, MOST_PRIOR)


def check_topics(components):
    """Topics of shape (n_components, n_features), float32 or float64, or a ValueError."""
    try:
        topics = check_array(components, dtype=[np.float64, np.float32])
    except (TypeError, ValueError) as error:
        raise ValueError(f"components must be a dense table of finite numbers: {error}") from error
    if (topics < 0).any() or not topics.any(axis=1).all():
        raise ValueError("components must be non-negative, and no row may be all zero")
    if topics.max() > MOST_TOPIC:
        raise ValueError(f"components must be at most {MOST_TOPIC:g}, got {topics.max():.3g}")
    return topics


def draw_dirichlet(alpha, rng):
    """Draw a row from the Dirichlet distribution of each row of parameters."""
    # Gamma(a) is Gamma(a + 1) * U^(1 / a): in logs, small parameters do not underflow.
    logs = np.log(rng.standard_gamma(alpha + 1)) - rng.standard_exponential(alpha.shape) / alpha
    return softmax(logs, axis=1)


def fingerprint(X, weight=None):
    """A hash of all bytes of some data: tells whether a fit goes on with those it was started on.

    Parameters
    ----------
    X : ndarray, csr_matrix or csr_array
        The data; equal values of another type, or in another order, are other data.
    weight : ndarray of shape (n_samples,), default=None
        Weights of the rows.

    Returns
    -------
    digest : bytes
        The hash, at about a gigabyte a second: less than a hundredth of a pass.
    """
    parts = (X.data, X.indices, X.indptr) if sp.issparse(X) else (X,)
    found = hashlib.sha1(repr(X.shape).encode(), usedforsecurity=False)
    for part in parts if weight is None else (*parts, weight):
        found.update(part.dtype.str.encode())
        step = max(1, HASHED // max(1, part[:1].nbytes))
        for first in range(0, len(part), step):  # of a map or a view no more than that in memory
            found.update(np.ascontiguousarray(part[first : first + step]))
    return found.digest()
