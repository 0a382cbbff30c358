"""What every estimator shares: validation, tags, the fit loop with its callbacks, pickles."""

import warnings
from contextlib import contextmanager, suppress
from functools import cache, partial
from importlib import metadata
from time import perf_counter

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, _fit_context
from sklearn.callback import CallbackSupportMixin
from sklearn.utils import check_array, check_random_state
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted, validate_data

from sklearn_sparsepost._checks import check_counts
from sklearn_sparsepost._run.collections import (
    as_array,
    blocks_of,
    check_columns,
    is_collection,
    is_dask_frame,
    map_rows,
)
from sklearn_sparsepost._run.memory import forget
from sklearn_sparsepost._run.threads import settled_as_before, single_blas
from sklearn_sparsepost._version import __version__

# scikit-learn's private helpers are imported here and in `_checks`, and nowhere else.
__all__ = ["BaseSparsePosterior", "_fit_context", "_get_output_config", "check_is_fitted"]

# The largest integer up to which float32 is exact.
FLOAT32_EXACT = 2**24


class Lazy:
    """The value of a fitted attribute, computed when it is first read.

    Parameters
    ----------
    function : callable
        Returns the value; picklable.
    *args : object
        What it is called with, which must stay as it is for as long as the attribute does.
    """

    def __init__(self, function, *args):
        self._made = partial(function, *args)
        self._value = None

    @property
    def value(self):
        """The value."""
        if self._made is not None:
            self._value = self._made()
            self._made = None
        return self._value

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.value, dtype=dtype)


class LazyAttribute:
    """A fitted attribute that may be :class:`Lazy`: who reads it gets the value."""

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, estimator, owner):
        if estimator is None:
            return self
        try:
            value = vars(estimator)[self.name]
        except KeyError:
            raise AttributeError(
                f"{type(estimator).__name__!r} object has no attribute {self.name!r}"
            ) from None
        return value.value if isinstance(value, Lazy) else value

    def __set__(self, estimator, value):
        vars(estimator)[self.name] = value

    def __delete__(self, estimator):
        del vars(estimator)[self.name]


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
        if self.others is None or state.history[-1] > self.others.history[-1]:
            self.best = state
        else:
            self.best = self.others
        self.n_passes += 1  # last, or an interrupt before would leave where the start began

    @property
    def state(self):
        """What is left if the call ends here; None for what was there before."""
        return self.best if self.n_passes or not self.was_fitted else None


@cache
def documentation_address():
    """Where the site is, as the installed package's metadata say; "" if they do not."""
    try:
        addresses = metadata.metadata("sklearn-sparsepost").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:
        addresses = []
    known = dict(line.split(", ", 1) for line in addresses)
    return known.get("Documentation", "").rstrip("/")


class BaseSparsePosterior(CallbackSupportMixin, BaseEstimator):
    """Base class of the estimators."""

    # The link of the HTML representation.
    _doc_link_module = "sklearn_sparsepost"

    @property
    def _doc_link_template(self):
        return documentation_address() + "/api/generated/{estimator_module}.{estimator_name}.html"

    def _get_doc_link(self):
        return super()._get_doc_link() if documentation_address() else ""

    def _validate_counts(self, X, *, reset, dtype=None):
        """Check a matrix of counts and settle the type to compute in.

        Parameters
        ----------
        X : array-like, sparse matrix or Dask array of shape (n_samples, n_features)
            Counts; fractions are legal.
        reset : bool
            Whether this is a fit, which sets the number and names of features.
        dtype : dtype, default=None
            Type to compute integers in; by default float32 where that is exact, float64 otherwise.

        Returns
        -------
        X : csr_matrix, csr_array or Blocks
            The counts, as from :func:`check_counts`.
        dtype : dtype
            float32 or float64.
        """
        owner, check = type(self).__name__, partial(validate_data, self, reset=reset)
        if is_collection(X):
            of_block = partial(check_array, ensure_min_samples=0)
            X = self._collected(X, partial(check_counts, owner=owner, check=of_block), reset=reset)
            largest = X.largest
        else:
            X = check_counts(X, owner, check)
            largest = 0
        if X.dtype.kind == "f":
            return X, X.dtype
        if dtype is None:
            largest = largest or (X.data.max() if X.nnz else 0)
            exact = largest <= FLOAT32_EXACT
            dtype = np.float32 if exact else np.float64
        return X, np.dtype(dtype)

    def _collected(self, X, check, *, reset):
        """The checked blocks of a Dask array, as wide as the fitted model wants them."""
        blocks = blocks_of(as_array(X), check)
        self._check_width(X, blocks.shape, reset=reset)
        return blocks

    def _check_width(self, X, shape, *, reset):
        """Note width and names of data that are not here, or hold them against the fit's."""
        if is_dask_frame(X):
            import pandas as pd  # as Dask has it

            columns = pd.DataFrame(columns=X.columns)
            validate_data(self, columns, reset=reset, skip_check_array=True)
        elif not np.isnan(shape[1]):
            rows = 1 if np.isnan(shape[0]) else min(int(shape[0]), 1)
            stand_in = sp.csr_matrix((rows, int(shape[1])))
            validate_data(self, stand_in, accept_sparse="csr", reset=reset)

    def _map_rows(self, X, method, n_columns, dtype, **options):
        """A Dask array of what a method makes of the rows of another, once it is asked for."""
        X, given = as_array(X), X
        check_columns(X)
        self._check_width(given, X.shape, reset=False)
        sparse = self.sparse_output and n_columns is not None
        return map_rows(X, self._sent(), method, n_columns, dtype, sparse=sparse, options=options)

    def _sent(self):
        """This estimator, fitted, as workers are sent it."""
        sent = type(self).__new__(type(self))
        # Blocks are matrices, without names: these are looked at here.
        left = {"_fit_state", "_pass_ended", "_sklearn_output_config", "feature_names_in_"}
        for name, value in vars(self).items():
            if name not in left and "callback" not in name:
                vars(sent)[name] = value
        sent.n_jobs = 1  # blocks are worked on side by side
        return sent

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
            with settled_as_before():
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
                attributes = self._attributes_of(state)
        if attributes is None:
            # scikit-learn takes its callbacks down itself.
            mine = {name: value for name, value in vars(self).items() if "callback" in name}
            self.__dict__ = {**before, **mine}
        else:
            vars(self).update(attributes)

    def _attributes_of(self, state, *, whole=True, lazy=False):
        """The fitted attributes; `lazy` leaves those that cost much until they are read."""
        attributes = self._fitted_attributes(state, whole=whole)
        if lazy:
            return attributes
        state.is_shared = True  # with callbacks' copies of the estimator, or a fit that goes on
        return {
            name: held.value if isinstance(held, Lazy) else held
            for name, held in attributes.items()
        }

    def _store(self, state, *, whole, lazy=False):
        """Set the fitted attributes, all of them at once."""
        attributes = self._attributes_of(state, whole=whole, lazy=lazy)
        self.__dict__.pop("_fit_state", None)
        vars(self).update(attributes)

    # ------------------------------------------------------------------ passes

    def _run_passes(self, X, states, one_pass, reached, n_starts=1):
        """Make passes until `max_iter`, convergence or a callback's stop, and set the attributes.

        Parameters
        ----------
        X : ndarray, csr_matrix or csr_array
            The training data, for the callbacks.
        states : iterable
            Where to start from, each made when it is asked for; the one whose last value is highest
            in the end is kept.
        one_pass : callable
            ``one_pass(state) -> state``; the state that it is given stays as it is. A state has
            `n_passes`, and in `history` one value a pass.
        reached : Reached
            Of the call.
        n_starts : int, default=1
            How many states there are.
        """
        context = self._init_callback_context(max_subtasks=self.max_iter * n_starts)
        context.call_on_fit_task_begin(estimator=self, X=X)
        try:
            for state in states:
                reached.begin(state)
                self._run_from(X, state, one_pass, context, reached)
        finally:
            forget()
        state = reached.best
        self._store(state, whole=self.warm_start)
        context.call_on_fit_task_end(
            estimator=self,
            X=X,
            reconstruction_attributes=lambda: self._attributes_of(state),
        )

    def _run_from(self, X, state, one_pass, context, reached):
        """Make the passes from one start."""
        for _ in range(self.max_iter):
            task = context.subcontext(task_name="pass")
            task.call_on_fit_task_begin(estimator=self, X=X)
            state = one_pass(state)
            reached.note(state)
            if self.verbose:
                print(f"[{type(self).__name__}] {self._line(state)}")
            self._pass_ended = perf_counter()  # for callbacks, before anything is made for them
            with single_blas():  # its threads would go on waiting while ours have work
                stop = task.call_on_fit_task_end(
                    estimator=self,
                    X=X,
                    reconstruction_attributes=partial(self._attributes_of, state),
                )
            if stop or self._has_converged(state):
                break

    def _has_converged(self, state):
        """Whether more passes would change little; by default there is no telling."""
        return False

    def __getstate__(self):
        state = super().__getstate__()
        if "_fit_state" in state:  # copies may share it
            state["_fit_state"].is_shared = True
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
