# Written by .ci/write_stubs.py from the docstrings: do not edit.
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy.sparse import csr_array, csr_matrix, sparray, spmatrix
from pathlib import Path

__all__ = ["load", "save"]

def load(path: str | Path, *, trusted: Sequence[Any] = ...) -> Any: ...

def save(estimator: Any, path: str | Path) -> None: ...
