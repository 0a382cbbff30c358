"""Estimators in files: written whole or not at all, verified and read without running code.

A file is a pickle with a last line in clear text that holds its size, its digest and the version
that wrote it. What is read may be made of the classes of this package, scikit-learn's estimators
and arrays, and of nothing else: a pickle that calls for more is refused before anything is called.
"""

import hashlib
import os
import pickle
import re
from pathlib import Path
from uuid import uuid4

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from sklearn_sparsepost._version import __version__

__all__ = ["load", "save"]

SEAL = "\n# sklearn_sparsepost {version} sha256 {digest} bytes {size}\n"
SEALED = re.compile(rb"\n# sklearn_sparsepost (\S+) sha256 ([0-9a-f]{64}) bytes ([0-9]+)\n\Z")
LONGEST_SEAL = 256
BLOCK = 1 << 20
# What arrays, and the containers of Python, are put together by.
PLAIN = {
    "numpy.dtype",
    "numpy.memmap",
    "numpy.ndarray",
    "numpy._core.multiarray._reconstruct",
    "numpy._core.multiarray.scalar",
    "numpy._core.numeric._frombuffer",
    "numpy.core.multiarray._reconstruct",
    "numpy.core.multiarray.scalar",
    "numpy.core.numeric._frombuffer",
    "numpy.random._mt19937.MT19937",
    "numpy.random._pickle.__bit_generator_ctor",
    "numpy.random._pickle.__randomstate_ctor",
    "_codecs.encode",
    "builtins.bytearray",
    "builtins.complex",
    "builtins.frozenset",
    "builtins.range",
    "builtins.set",
    "builtins.slice",
    "collections.OrderedDict",
    "collections.defaultdict",
}


class _Sealing:
    """A binary file that digests what is written to it."""

    def __init__(self, file):
        self.file = file
        self.digest = hashlib.sha256()
        self.size = 0

    def write(self, data):
        """Write bytes, or a buffer of them."""
        data = memoryview(data).cast("B")
        self.digest.update(data)
        self.size += len(data)
        return self.file.write(data)


def save(estimator, path):
    """Write a fitted estimator to a file that is never seen in part.

    It is written beside the file of that name, brought to the disk, and then put in its place. So
    whatever ends the call, and be it the machine, there is either the whole new file or the old.

    Parameters
    ----------
    estimator : estimator instance
        Any of this package, or a pipeline with one. It is a pickle that is written, which
        ``joblib.load`` can read as well.
    path : str or path-like
        The file. Its folder must exist.

    Raises
    ------
    OSError
        If the file cannot be written, as on a full disk; the old one is as it was.

    See Also
    --------
    load : Read it.
    callbacks.Checkpoint : Write it after every pass of a fit.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn_sparsepost import SparseLDA
    >>> from sklearn_sparsepost.datasets import make_bars
    >>> from sklearn_sparsepost.persistence import load, save
    >>> X, *_ = make_bars(200, random_state=0)
    >>> lda = SparseLDA(10, max_iter=4, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(lda, os.path.join(folder, "bars.model"))
    ...     again = load(os.path.join(folder, "bars.model"))
    >>> bool((again.transform(X) == lda.transform(X)).all())
    True
    """
    path = Path(path)
    temporary = path.with_name(f"{path.name}.{uuid4().hex}.tmp")
    try:
        with temporary.open("xb") as file:
            sealing = _Sealing(file)
            pickle.Pickler(sealing, protocol=5).dump(estimator)
            digest = sealing.digest.hexdigest()
            seal = SEAL.format(version=__version__, digest=digest, size=sealing.size)
            file.write(seal.encode())
            # On disk before it replaces the last one, for the sake of power failures.
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _bring_to_disk(path.parent)
    except OSError as error:
        kept = "; the file of that name is as it was" if path.exists() else ""
        why = f"{error.strerror or error}: {str(path)!r} could not be written{kept}"
        raise OSError(error.errno, why) from error
    finally:
        temporary.unlink(missing_ok=True)


def _bring_to_disk(folder):
    """Have a folder's new name of a file survive a power failure, where the system offers it."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def load(path, *, trusted=()):
    """Read an estimator that :func:`save` or a checkpoint has written.

    Nothing is unpickled before the file's digest is found right, and then only what this package,
    scikit-learn's estimators and arrays are made of.

    Parameters
    ----------
    path : str or path-like
        The file.
    trusted : sequence of type, default=()
        Further classes, or functions, that the file may hold: an observation model of one's own,
        a vectorizer's tokenizer.

    Returns
    -------
    estimator : estimator instance
        As it was written.

    Raises
    ------
    ValueError
        If the file is cut off, altered, of another version of this package, or holds what is not
        trusted. The message says which.

    See Also
    --------
    save : Write it, with an example.

    Examples
    --------
    >>> import os, pickle, tempfile
    >>> from sklearn_sparsepost.persistence import load
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "any.pickle")
    ...     with open(path, "wb") as file:
    ...         pickle.dump(print, file)
    ...     try:
    ...         load(path)
    ...     except ValueError as error:
    ...         print(str(error).split(": ")[1])
    it has not been written by save, or is cut off
    """
    with Path(path).open("rb") as file:
        _verify(file, path)
        file.seek(0)
        try:
            return _Trusting(file, trusted).load()
        except pickle.UnpicklingError as error:
            raise ValueError(f"{str(path)!r} is not read: {error}") from None


def _verify(file, path):
    """Raise a ValueError if a file is not what was written."""
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - LONGEST_SEAL))
    seal = SEALED.search(file.read())
    if seal is None:
        raise ValueError(
            f"{str(path)!r} is not read: it has not been written by save, or is cut off"
        )
    version, digest, size = (part.decode() for part in seal.groups())
    found, left = hashlib.sha256(), int(size)
    file.seek(0)
    while block := file.read(min(BLOCK, left)):
        found.update(block)
        left -= len(block)
    if found.hexdigest() != digest or end != int(size) + len(seal[0]):
        raise ValueError(
            f"{str(path)!r} is not read: it is not what was written (its digest is another)"
        )
    if version != __version__:
        raise ValueError(
            f"{str(path)!r} is not read: it is of version {version}, and this is {__version__}. "
            f"Read it there and keep what outlives versions, the topics or components"
        )


class _Trusting(pickle.Unpickler):
    """Finds only classes that can be made without running anything else.

    Parameters
    ----------
    file : binary file
        The pickle.
    trusted : sequence of type
        What is trusted besides.
    """

    def __init__(self, file, trusted):
        super().__init__(file)
        self.trusted = {(found.__module__, found.__qualname__) for found in trusted}

    def find_class(self, module, name):
        """Return a class that is trusted, by its names."""
        if f"{module}.{name}" in PLAIN or (module, name) in self.trusted:
            return super().find_class(module, name)
        if module.split(".")[0] in ("sklearn_sparsepost", "sklearn", "numpy", "scipy"):
            found = super().find_class(module, name)
            if isinstance(found, type) and _is_plain(found):
                return found
        raise pickle.UnpicklingError(
            f"it holds {module}.{name}, which is not trusted; if you know it, say so by `trusted`"
        )


def _is_plain(found):
    """Whether a class is one of ours, an estimator, a sparse matrix or a number's type."""
    ours = found.__module__.split(".")[0] == "sklearn_sparsepost"
    return ours or issubclass(found, (BaseEstimator, np.generic, sp.spmatrix, sp.sparray))
