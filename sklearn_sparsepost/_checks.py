"""Checks of what users give, and the limits within which every model stays finite."""

import hashlib
from numbers import Integral, Real

import numpy as np
import scipy.sparse as sp
from sklearn.utils import _param_validation as param_validation
from sklearn.utils import check_array
from sklearn.utils.validation import _check_sample_weight

StrOptions = param_validation.StrOptions

# Bytes that are hashed at a time.
HASHED = 1 << 22
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
    _refuse_texts(X, owner)
    X = _pointing_inside(X)
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


def _refuse_texts(X, owner):
    """Say what makes counts of texts, and of what other packages want in their place."""
    if not isinstance(X, list | tuple) and getattr(X, "ndim", 0) != 1:
        return
    held = (document for document in X if not hasattr(document, "__len__") or len(document))
    document = next(held, None)
    first = document[0] if isinstance(document, list | tuple) else None
    if isinstance(document, str | bytes):
        what, maker = "texts", "CountVectorizer().fit_transform(X)"
    elif isinstance(first, str | bytes):
        what, maker = "lists of words", "CountVectorizer(analyzer=list).fit_transform(X)"
    elif isinstance(first, tuple) and len(first) == 2:
        what, maker = "bags of words", "gensim.matutils.corpus2csc(X).T"
    else:
        return
    raise ValueError(
        f"X holds {what}, but {owner} takes a table of counts with a row for each document, as "
        f"{maker} makes one of them"
    )


def _pointing_inside(X):
    """The data without what no row holds; a ValueError if they are compressed and point outside.

    Neither scipy nor the kernels look.
    """
    if not sp.issparse(X) or X.format not in ("csr", "csc") or X.ndim != 2:
        return X
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
    if indptr[-1] > stored:
        raise ValueError(
            f"X is corrupt: indptr ends with {indptr[-1]} after {row} {n - 1}, but {stored} values "
            "are stored"
        )
    if indptr[-1] < stored:  # room that nobody has used
        held = slice(int(indptr[-1]))
        X = type(X)((X.data[held], indices[held], indptr), shape=X.shape)
        indices, stored = X.indices, held.stop
    # As unsigned integers negative ones are large.
    if stored and indices.view(f"u{indices.itemsize}").max() >= width:
        outside = (indices < 0) | (indices >= width)
        raise ValueError(
            f"X is corrupt: {row} {_row_of(indptr, outside)} has {column} "
            f"{indices[outside.argmax()]}, but there are {width} {column}s"
        )
    return X


def has_fractions(X):
    """Whether some count of checked counts is not whole."""
    if X.dtype.kind != "f" or _all_whole(X.data):
        return False
    if not X.has_canonical_format:  # entries of one word are one count
        X = X.copy()
        X.sum_duplicates()
    return not _all_whole(X.data)


def check_tokens(X, owner, most):
    """Checked counts of tokens, one by one: entries of a word summed, whole, in double precision.

    Parameters
    ----------
    X : csr_matrix or csr_array of shape (n_samples, n_features)
        Counts, as from :func:`check_counts`.
    owner : str
        Who asks, for the message.
    most : int
        The most tokens that a row may have.

    Returns
    -------
    X : csr_matrix or csr_array, float64
        The counts; else a ValueError that names the row at fault.
    """
    X = X.astype(np.float64)
    X.sum_duplicates()
    whole = X.data == np.rint(X.data)
    if not whole.all():
        raise ValueError(
            f"{owner} draws the topic of every token, so counts must be whole numbers: row "
            f"{_row_of(X.indptr, ~whole)} of X has a count of {X.data[(~whole).argmax()]:g}"
        )
    length = np.asarray(X.sum(axis=1)).ravel()
    if length.max(initial=0) > most:
        raise ValueError(
            f"row {length.argmax()} of X has {length.max():.3g} tokens, but the time of {owner} "
            f"grows with their square: {most:,} are the most"
        )
    return X


def _all_whole(values):
    """Whether values have no fractions, looked at in parts that stay in cache."""
    parts = np.array_split(values, 1 + len(values) // PART)
    return all((part == np.rint(part)).all() for part in parts)


def _row_of(indptr, entries):
    """The row of the first of some stored entries."""
    return int(np.searchsorted(indptr, entries.argmax(), "right") - 1)


def check_count(value, name, minimum):
    """A value, if it is an integer and neither too small nor too large; else a ValueError."""
    if not Interval(Integral, minimum, MOST_INTEGER, closed="both").is_satisfied_by(value):
        raise ValueError(
            f"{name} must be an integer of at least {minimum} and at most {MOST_INTEGER}, got "
            f"{value!r}"
        )
    return value


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


def check_topics(components, name="components"):
    """Topics of shape (n_components, n_features), float32 or float64, or a ValueError."""
    try:
        topics = check_array(components, dtype=[np.float64, np.float32])
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a dense table of finite numbers: {error}") from error
    if (topics < 0).any() or not topics.any(axis=1).all():
        raise ValueError(f"{name} must be non-negative, and no row may be all zero")
    if topics.max() > MOST_TOPIC:
        raise ValueError(f"{name} must be at most {MOST_TOPIC:g}, got {topics.max():.3g}")
    return topics


def check_values(X):
    """Refuse real data that have no finite square; without a copy if there is nothing to refuse."""
    most = MOST_VALUE[X.dtype]
    if X.max() > most or X.min() < -most:
        row = int(np.flatnonzero((np.abs(X) > most).any(axis=1))[0])
        raise ValueError(
            f"row {row} of X holds a value beyond {most:g} in size, too large for the squares "
            f"of {X.dtype}: scale the data"
        )


def dense_block(block, observation):
    """A block of rows of dense data, checked."""
    block = check_array(block, dtype=[np.float64, np.float32], ensure_min_samples=0)
    if len(block):
        check_rows(block, observation)
    return block


def check_rows(X, observation):
    """Refuse rows that are not what an observation model is for."""
    if observation == "gaussian":
        check_values(X)
    if observation == "bernoulli":
        other = (X != 0) & (X != 1)
        if other.any():
            row = int(np.flatnonzero(other.any(axis=1))[0])
            raise ValueError(f"X must hold 0 and 1 only, row {row} holds something else")


def weighted_rows(X, sample_weight, whole=None):
    """The rows of a matrix that weights, which are checked, do not leave out, and their weights.

    Parameters
    ----------
    X : csr_matrix or csr_array
        The rows; not copied unless some weigh 0.
    sample_weight : array-like of shape (n_samples,) or None
        The weights.
    whole : str, default=None
        Who needs whole weights, for an error; None where any will do.

    Returns
    -------
    X : csr_matrix or csr_array
        The rows that are left.
    weight : ndarray or None
        Their weights; None if each is 1.

    Raises
    ------
    ValueError
        If weights are of another number, negative or not finite, all 0, or not whole as they must.
    """
    if sample_weight is None:
        return X, None
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    left = np.flatnonzero(weight)
    if whole is not None and (weight != np.floor(weight)).any():
        row = int(np.argmax(weight != np.floor(weight)))
        raise ValueError(
            f"sample_weight of row {row} is {weight[row]:g}, but {whole} draws a topic for every "
            "token, and takes whole weights alone, for copies of documents: round them, or use "
            "SparseLDA"
        )
    if len(left) < len(weight):
        X, weight = X[left], weight[left]
    return X, None if (weight == 1).all() else weight


def weighted_mean(values, sample_weight):
    """Mean of the values of some rows, weighted if there are weights, which are checked."""
    if sample_weight is not None:
        sample_weight = _check_sample_weight(
            sample_weight, values, dtype=np.float64, ensure_non_negative=True
        )
    return float(np.average(values, weights=sample_weight))


def fingerprint(X, *beside):
    """A hash of all bytes of some data: tells whether a fit goes on with those it was started on.

    Parameters
    ----------
    X : ndarray, csr_matrix, csr_array or Blocks
        The data; equal values of another type, in another order or other blocks, are other data.
    *beside : ndarray or None
        What belongs to the rows, such as their weights.

    Returns
    -------
    digest : bytes
        The hash, at about a gigabyte a second: less than a hundredth of a pass.
    """
    parts = (X.data, X.indices, X.indptr) if sp.issparse(X) else (X,)
    if hasattr(X, "each"):  # blocks, which stay where they are
        parts = (np.frombuffer(b"".join(X.each(fingerprint)), np.uint8),)
    found = hashlib.sha1(repr(X.shape).encode(), usedforsecurity=False)
    for part in (*parts, *(held for held in beside if held is not None)):
        found.update(part.dtype.str.encode())
        step = max(1, HASHED // max(1, part[:1].nbytes))
        for first in range(0, len(part), step):  # of a map or a view no more than that in memory
            found.update(np.ascontiguousarray(part[first : first + step]))
    return found.digest()
