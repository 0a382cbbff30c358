# Written by .ci/write_stubs.py from the docstrings: do not edit.
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy.sparse import csr_array, csr_matrix, sparray, spmatrix
from sklearn_sparsepost import TopicSummary
from matplotlib.axes import Axes
from matplotlib.figure import Figure

__all__ = ["DocumentTopicsDisplay", "FitHistoryDisplay", "MixtureDisplay", "SparsityDisplay", "TopicGraph", "TopicMatchDisplay", "TopicSharesDisplay", "TopicTree", "TopicWordsDisplay"]

class DocumentTopicsDisplay:
    ax_: Axes | Figure
    figure_: Axes | Figure
    def __init__(
        self,
        doc_topic: ArrayLike | spmatrix | sparray,
        labels: list[str] | None = None,
        documents: Any = None,
    ) -> None: ...
    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike | spmatrix | sparray | list[str] | None = None,
        *,
        feature_names: ArrayLike | None = None,
        documents: Any = None,
        **kwargs: Any,
    ) -> Any: ...
    @classmethod
    def from_predictions(
        cls,
        doc_topic: ArrayLike | spmatrix | sparray,
        *,
        labels: list[str] | None = None,
        documents: Any = None,
        **kwargs: Any,
    ) -> DocumentTopicsDisplay: ...
    @classmethod
    def from_summary(cls, summary: TopicSummary, **kwargs: Any) -> DocumentTopicsDisplay: ...
    def order(self) -> NDArray[Any]: ...
    def plot(
        self,
        *,
        ax: Axes | None = None,
        cmap: str = 'Blues',
    ) -> DocumentTopicsDisplay: ...

class FitHistoryDisplay:
    axes_: NDArray[Any]
    figure_: Figure
    def __init__(
        self,
        curves: dict[str, tuple[NDArray[Any], ...]],
        by: Literal["n_iter", "seconds"] = 'n_iter',
    ) -> None: ...
    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *monitors: Any,
        axes: NDArray[Any] | None = None,
    ) -> FitHistoryDisplay: ...
    @classmethod
    def from_logs(
        cls,
        *logs: Any,
        by: Literal["n_iter", "seconds"] = 'seconds',
        axes: NDArray[Any] | None = None,
    ) -> FitHistoryDisplay: ...
    def plot(self, *, axes: NDArray[Any] | None = None) -> FitHistoryDisplay: ...

class MixtureDisplay:
    ax_: Axes | Figure
    figure_: Axes | Figure
    def __init__(
        self,
        X: ArrayLike,
        responsibilities: ArrayLike | spmatrix | sparray,
        weights: NDArray[Any],
        means: NDArray[Any],
        covariances: NDArray[Any] | None = None,
        features: tuple[tuple[int, int], ...] = ...,
    ) -> None: ...
    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        *,
        features: tuple[tuple[int, int], ...] = ...,
        **kwargs: Any,
    ) -> MixtureDisplay: ...
    @classmethod
    def from_predictions(
        cls,
        X: ArrayLike,
        responsibilities: ArrayLike | spmatrix | sparray,
        weights: NDArray[Any],
        means: NDArray[Any],
        covariances: NDArray[Any] | None = None,
        *,
        features: tuple[tuple[int, int], ...] = ...,
        **kwargs: Any,
    ) -> MixtureDisplay: ...
    def plot(self, *, ax: Axes | None = None) -> MixtureDisplay: ...

class SparsityDisplay:
    axes_: NDArray[Any]
    figure_: Figure
    def __init__(
        self,
        doc_counts: NDArray[Any] | None = None,
        word_counts: NDArray[Any] | None = None,
    ) -> None: ...
    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike | spmatrix | sparray | list[str] | None = None,
        *,
        feature_names: ArrayLike | None = None,
        documents: Any = None,
        **kwargs: Any,
    ) -> Any: ...
    @classmethod
    def from_predictions(
        cls,
        doc_topic: ArrayLike | spmatrix | sparray,
        *,
        threshold: float = 0.05,
        axes: NDArray[Any] | None = None,
    ) -> SparsityDisplay: ...
    @classmethod
    def from_summary(
        cls,
        summary: TopicSummary,
        *,
        threshold: float = 0.05,
        axes: NDArray[Any] | None = None,
    ) -> SparsityDisplay: ...
    def plot(self, *, axes: NDArray[Any] | None = None) -> SparsityDisplay: ...

class TopicGraph:
    edges: NDArray[Any]
    weights: NDArray[Any]
    share: NDArray[Any]
    labels: list[str]
    ax_: Axes | Figure
    figure_: Axes | Figure
    def __init__(
        self,
        correlation: NDArray[Any],
        summary: TopicSummary,
        threshold: float = 0.2,
        n_words: int = 4,
    ) -> None: ...
    def layout(self) -> NDArray[Any]: ...
    def plot(self, ax: Axes | None = None) -> TopicGraph: ...
    def to_networkx(self) -> Any: ...

class TopicMatchDisplay:
    ax_: Axes | Figure
    figure_: Axes | Figure
    def __init__(
        self,
        distances: NDArray[Any],
        rows: NDArray[Any],
        columns: NDArray[Any],
        labels: list[str],
        other_labels: list[str],
    ) -> None: ...
    @classmethod
    def from_estimators(
        cls,
        estimator: Any,
        other: Any,
        *,
        feature_names: ArrayLike | None = None,
        distance: str = 'hellinger',
        **kwargs: Any,
    ) -> TopicMatchDisplay: ...
    @classmethod
    def from_topics(
        cls,
        components: ArrayLike,
        others: ArrayLike,
        *,
        feature_names: ArrayLike | None = None,
        distance: str = 'hellinger',
        **kwargs: Any,
    ) -> TopicMatchDisplay: ...
    def plot(
        self,
        *,
        ax: Axes | None = None,
        cmap: str = 'Blues_r',
    ) -> TopicMatchDisplay: ...

class TopicSharesDisplay:
    ax_: Axes | Figure
    figure_: Axes | Figure
    def __init__(
        self,
        names: ArrayLike,
        shares: NDArray[Any],
        labels: list[str],
        is_time: bool = False,
    ) -> None: ...
    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike | spmatrix | sparray | list[str] | None = None,
        *,
        feature_names: ArrayLike | None = None,
        documents: Any = None,
        **kwargs: Any,
    ) -> Any: ...
    @classmethod
    def from_predictions(
        cls,
        doc_topic: ArrayLike | spmatrix | sparray,
        *,
        labels: list[str] | None = None,
        **kwargs: Any,
    ) -> TopicSharesDisplay: ...
    @classmethod
    def from_summary(
        cls,
        summary: TopicSummary,
        *,
        groups: ArrayLike | None = None,
        times: ArrayLike | None = None,
        n_periods: int = 10,
        **kwargs: Any,
    ) -> TopicSharesDisplay: ...
    def plot(
        self,
        topics: Sequence[int] | None = None,
        *,
        ax: Axes | None = None,
    ) -> TopicSharesDisplay: ...

class TopicTree:
    linkage: NDArray[Any]
    share: NDArray[Any]
    labels: list[str]
    ax_: Axes | Figure
    figure_: Axes | Figure
    def __init__(
        self,
        correlation: NDArray[Any],
        summary: TopicSummary,
        n_words: int = 4,
    ) -> None: ...
    def cluster_labels(self, n_clusters: int) -> list[str]: ...
    def cut(self, n_clusters: int) -> NDArray[Any]: ...
    def plot(
        self,
        layers: Sequence[int] | None = None,
        ax: Axes | None = None,
    ) -> TopicTree: ...

class TopicWordsDisplay:
    axes_: NDArray[Any]
    figure_: Figure
    def __init__(
        self,
        words: NDArray[Any],
        probabilities: NDArray[Any],
        size: NDArray[Any],
        labels: list[str],
    ) -> None: ...
    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike | spmatrix | sparray | list[str] | None = None,
        *,
        feature_names: ArrayLike | None = None,
        documents: Any = None,
        **kwargs: Any,
    ) -> Any: ...
    @classmethod
    def from_summary(
        cls,
        summary: TopicSummary,
        *,
        n_words: int = 8,
        by: Literal["probability", "relevance", "lift"] = 'probability',
        **kwargs: Any,
    ) -> TopicWordsDisplay: ...
    def plot(
        self,
        topics: Sequence[int] | None = None,
        *,
        n_columns: int = 5,
        axes: NDArray[Any] | None = None,
    ) -> TopicWordsDisplay: ...
