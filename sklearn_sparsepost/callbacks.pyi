# Written by .ci/write_stubs.py from the docstrings: do not edit.
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy.sparse import csr_array, csr_matrix, sparray, spmatrix
from pathlib import Path

__all__ = ["BoundMonitor", "Checkpoint", "EarlyStopping", "HeldoutMonitor"]

class BoundMonitor:
    def get_logs(
        self,
        *,
        select: Literal["most_recent", "all"] = 'most_recent',
        as_frame: bool = False,
    ) -> Any: ...
    def on_fit_task_begin(self, estimator: Any, context: Any) -> None: ...
    def on_fit_task_end(
        self,
        estimator: Any,
        context: Any,
        *,
        fitted_estimator: Any = None,
    ) -> bool: ...
    def setup(self, estimator: Any, context: Any) -> None: ...
    def teardown(self, estimator: Any, context: Any) -> None: ...

class Checkpoint:
    def __init__(self, path: str | Path, *, every: int = 1) -> None: ...
    def on_fit_task_begin(self, estimator: Any, context: Any) -> None: ...
    def on_fit_task_end(
        self,
        estimator: Any,
        context: Any,
        *,
        fitted_estimator: Any = None,
    ) -> bool: ...
    def setup(self, estimator: Any, context: Any) -> None: ...
    def teardown(self, estimator: Any, context: Any) -> None: ...

class EarlyStopping:
    def __init__(
        self,
        X: ArrayLike | spmatrix | sparray | None = None,
        *,
        groups: ArrayLike | None = None,
        patience: int = 2,
        min_delta: float = 0.0,
        every: int = 1,
        restore_best: bool = True,
    ) -> None: ...
    def get_logs(
        self,
        *,
        select: Literal["most_recent", "all"] = 'most_recent',
        as_frame: bool = False,
    ) -> Any: ...
    def on_fit_task_begin(self, estimator: Any, context: Any) -> None: ...
    def on_fit_task_end(
        self,
        estimator: Any,
        context: Any,
        *,
        fitted_estimator: Any = None,
    ) -> bool: ...
    def setup(self, estimator: Any, context: Any) -> None: ...
    def teardown(self, estimator: Any, context: Any) -> None: ...

class HeldoutMonitor:
    def __init__(
        self,
        X: ArrayLike | spmatrix | sparray,
        *,
        groups: ArrayLike | None = None,
        every: int = 1,
    ) -> None: ...
    def get_logs(
        self,
        *,
        select: Literal["most_recent", "all"] = 'most_recent',
        as_frame: bool = False,
    ) -> Any: ...
    def on_fit_task_begin(self, estimator: Any, context: Any) -> None: ...
    def on_fit_task_end(
        self,
        estimator: Any,
        context: Any,
        *,
        fitted_estimator: Any = None,
    ) -> bool: ...
    def setup(self, estimator: Any, context: Any) -> None: ...
    def teardown(self, estimator: Any, context: Any) -> None: ...
