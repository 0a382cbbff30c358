# Written by .ci/write_stubs.py from the docstrings: do not edit.
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy.sparse import csr_array, csr_matrix, sparray, spmatrix

__all__ = ["ItemLists", "Observation"]

class ItemLists:
    def __init__(
        self,
        row_ptr: NDArray[Any],
        components: NDArray[Any],
        weight: NDArray[Any],
        base: NDArray[Any],
        inverse: NDArray[Any],
    ) -> None: ...
    @classmethod
    def of_weights(cls, weight: NDArray[Any]) -> ItemLists: ...

class Observation:
    keeps_candidates: ClassVar[bool]
    finds_more: ClassVar[bool]
    axes: ClassVar[dict[str, int] | None]
    def __init__(self, estimation: Literal["bayes", "map", "ml"] = 'bayes') -> None: ...
    def attributes(self, estimates: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]: ...
    def best(
        self,
        rows: NDArray[Any] | csr_array,
        table: Any,
        log_weights: NDArray[Any],
        level: int,
        start: NDArray[Any] | None = None,
    ) -> tuple[NDArray[Any], NDArray[Any]]: ...
    def best_again(
        self,
        rows: NDArray[Any] | csr_array,
        table: Any,
        log_weights: NDArray[Any],
        level: int,
        start: NDArray[Any],
        found: Any = None,
    ) -> tuple[NDArray[Any], NDArray[Any], Any]: ...
    def bound(self, stats: Any, estimates: dict[str, NDArray[Any]]) -> float: ...
    def data_bound(self, stats: Any, estimates: dict[str, NDArray[Any]]) -> float: ...
    def draw(
        self,
        attributes: dict[str, NDArray[Any]],
        component: int,
        size: int,
        rng: Any,
    ) -> NDArray[Any]: ...
    def empty(self, n_components: int) -> dict[str, NDArray[Any]]: ...
    def estimate(self, stats: Any) -> dict[str, NDArray[Any]]: ...
    def from_attributes(self, attributes: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]: ...
    def item_base(self, items: Any) -> NDArray[Any] | None: ...
    def item_lists(self, items: Any, table: Any) -> ItemLists: ...
    def item_table(self, estimates: dict[str, NDArray[Any]], dtype: DTypeLike) -> Any: ...
    def item_weights(
        self,
        items: Any,
        table: Any,
        level: int,
        dtype: DTypeLike,
        out: Callable[..., Any] | None = None,
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]: ...
    def log_base(self, rows: NDArray[Any] | csr_array) -> NDArray[Any] | None: ...
    def log_likelihood(self, rows: NDArray[Any] | csr_array, table: Any) -> NDArray[Any]: ...
    def merge_gains(self, stats: Any, pairs: NDArray[Any]) -> NDArray[Any] | None: ...
    def n_parameters(self, n_components: int) -> int: ...
    def prepare(self, rows: NDArray[Any] | csr_array) -> NDArray[Any] | csr_array: ...
    def prior_bound(self, estimates: dict[str, NDArray[Any]]) -> float: ...
    def priors(self) -> dict[str, float | NDArray[Any]]: ...
    def settle(
        self,
        table: Any,
        estimates: dict[str, NDArray[Any]],
        log_weights: NDArray[Any],
        *,
        n_rows: float = ...,
        n_neighbors: int | None = None,
    ) -> Any: ...
    def similarity(self, stats: Any) -> NDArray[Any] | None: ...
    def summarise(
        self,
        rows: NDArray[Any] | csr_array,
        resp: csr_array,
    ) -> dict[str, NDArray[Any]]: ...
    def summarise_items(self, items: Any, resp: Any) -> dict[str, NDArray[Any]]: ...
    def table(
        self,
        estimates: dict[str, NDArray[Any]],
        dtype: DTypeLike,
        *,
        point: bool = False,
    ) -> Any: ...
    def uncertainty(self, estimates: dict[str, NDArray[Any]]) -> float | NDArray[Any]: ...
