# Written by .ci/write_stubs.py from the docstrings: do not edit.
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy.sparse import csr_array, csr_matrix, sparray, spmatrix
from sklearn_sparsepost.observations import ItemLists
from sklearn_sparsepost.observations import Observation

__all__ = ["Admixture", "Bernoulli", "Corpus", "DirichletDocuments", "DirichletWeights", "FitState", "Globals", "GrowingMultinomial", "Mixture", "Model", "Multinomial", "ProcessWeights", "SampledAdmixture", "SampledDocuments", "batch_pass", "begin", "memoized_pass", "online_pass", "pass_with_moves", "stream_update"]

class Admixture(Model):
    def __init__(
        self,
        observation: Observation,
        documents: DirichletDocuments,
        n_components: int,
        *,
        dtype: DTypeLike = 'float64',
        keeps_local: bool = False,
        judge: Observation | None = None,
    ) -> None: ...
    def overlap(self, chunk: Any, globals_: Globals) -> NDArray[Any]: ...

class Bernoulli(Observation):
    def __init__(
        self,
        estimation: Literal["bayes", "map", "ml"],
        prior: NDArray[Any],
    ) -> None: ...
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
    def merge_gains(self, stats: Any, pairs: NDArray[Any]) -> NDArray[Any] | None: ...
    def prepare(self, rows: NDArray[Any] | csr_array) -> NDArray[Any] | csr_array: ...
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
    def summarise_items(self, items: Any, resp: Any) -> dict[str, NDArray[Any]]: ...
    def uncertainty(self, estimates: dict[str, NDArray[Any]]) -> float | NDArray[Any]: ...

class Corpus:
    n_samples: int
    edges: NDArray[Any]
    def __init__(
        self,
        X: NDArray[Any] | csr_matrix | csr_array,
        dtype: DTypeLike,
        n_jobs: int | None = None,
        *,
        weight: NDArray[Any] | None = None,
        groups: NDArray[Any] | None = None,
        threaded: bool = True,
    ) -> None: ...
    def check(self, function: Callable[..., Any]) -> None: ...
    def chunk(self, runs: list[tuple[int, int]]) -> Any: ...
    def cut(self, runs: list[tuple[int, int]]) -> list[list[tuple[int, int]]]: ...
    @property
    def given(self) -> Any: ...
    @property
    def is_empty(self) -> Any: ...
    def keep_sum(self, stats: Any, old: Any = None) -> Any: ...
    def map(
        self,
        step: Callable[..., Any],
        globals_: Any,
        key: tuple[int, ...] | None = None,
        *,
        chunks: list[list[tuple[int, int]]] | None = None,
        starts: list[Any] | None = None,
    ) -> Iterator[Any]: ...
    @property
    def n_blocks(self) -> Any: ...
    def plan(self) -> list[list[tuple[int, int]]]: ...
    def threads(self) -> Any: ...
    def visit(
        self,
        step: Callable[..., Any],
        globals_: Any,
        key: tuple[int, ...] | None = None,
        *,
        total: Callable[..., Any],
        source: Any = None,
        chunks: list[list[tuple[int, int]]] | None = None,
        starts: list[Any] | None = None,
        keeps: bool = False,
        remembers: bool = False,
    ) -> Iterator[Any]: ...

class DirichletDocuments:
    def __init__(
        self,
        alpha: NDArray[Any],
        *,
        sparsity_level: int | None = 8,
        max_iter: int = 100,
        tol: float = 0.05,
        restarts: int = 5,
        restarts_above: int | Literal["prior"] = 'prior',
        learn: bool = False,
    ) -> None: ...
    def alpha_of(self, learned: dict[str, NDArray[Any]]) -> NDArray[Any]: ...
    def bound(self, learned: dict[str, NDArray[Any]], n_documents: float) -> float: ...
    def dense(self, max_iter: int = 100, tol: float = 0.01) -> DirichletDocuments: ...
    def first_learned(self) -> dict[str, NDArray[Any]]: ...
    def fit(
        self,
        indptr: NDArray[Any],
        local: NDArray[Any],
        counts: NDArray[Any],
        weights: tuple[NDArray[Any], ...],
        alpha: NDArray[Any],
        *,
        start: NDArray[Any] | None = None,
        want_mass: bool = False,
        n_tokens: NDArray[Any] | None = None,
    ) -> tuple[NDArray[Any], ...]: ...
    def gains(
        self,
        alpha: NDArray[Any],
        mass: NDArray[Any],
        n_tokens: NDArray[Any],
        weight: NDArray[Any] | None = None,
    ) -> tuple[Any, ...]: ...
    def improved(
        self,
        learned: dict[str, NDArray[Any]],
        report: dict[Any, Any],
        rate: float = 1.0,
    ) -> dict[str, NDArray[Any]]: ...
    def level(self, n_components: int) -> int: ...
    def merged(
        self,
        learned: dict[str, NDArray[Any]],
        kept: int,
        absorbed: int,
    ) -> dict[str, NDArray[Any]]: ...
    def prior_mass(self, alpha: NDArray[Any]) -> float: ...

class DirichletWeights:
    def __init__(self, estimation: Literal["bayes", "map", "ml"], prior: float) -> None: ...
    def bound(self, count: NDArray[Any], concentration: NDArray[Any]) -> float: ...
    def estimate(self, count: NDArray[Any]) -> NDArray[Any]: ...
    def log_weights(self, concentration: NDArray[Any]) -> NDArray[Any]: ...
    def weights(self, concentration: NDArray[Any]) -> NDArray[Any]: ...

class FitState:
    def __init__(
        self,
        stats: Any,
        seed: int = 0,
        learned: dict[str, NDArray[Any]] | None = None,
        dtype: DTypeLike = 'float64',
    ) -> None: ...
    def average(self) -> None: ...
    def end_pass(self, model: Model, bound: float) -> None: ...
    @property
    def key(self) -> Any: ...
    def lend_stats(self) -> Any: ...
    def lent(self) -> FitState: ...
    def next(self) -> FitState: ...
    def note(self, model: Model, parts: list[Any]) -> None: ...
    def own(
        self,
        n_batches: int | None = None,
        *,
        same_data: bool = False,
    ) -> FitState: ...
    def remembered(self, function: Callable[..., Any]) -> list[Any]: ...
    def rng(self, purpose: int, n_passes: int = 0) -> np.random.Generator: ...
    def slim(self) -> FitState: ...
    @property
    def stats(self) -> Any: ...
    def sum_anew(self) -> None: ...
    def sum_of_memory(self, total: Any) -> Any: ...
    def with_components(self, stats: Any, learned: dict[str, NDArray[Any]]) -> FitState: ...

class Globals:
    def __init__(self, **parts: Any) -> None: ...
    def get_ready(self, starts: list[Any] = ...) -> None: ...

class GrowingMultinomial(Multinomial):
    def __init__(
        self,
        estimation: Literal["bayes", "map"],
        prior: NDArray[Any],
        n_features: int,
        *,
        forgets: bool = False,
    ) -> None: ...
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
    def prepare(self, rows: NDArray[Any] | csr_array) -> NDArray[Any] | csr_array: ...
    def settle(
        self,
        table: Any,
        estimates: dict[str, NDArray[Any]],
        log_weights: NDArray[Any],
        *,
        n_rows: float = ...,
        n_neighbors: int | None = None,
    ) -> Any: ...
    def stored(self, counts: Any) -> Any: ...
    def uncertainty(self, estimates: dict[str, NDArray[Any]]) -> float | NDArray[Any]: ...

class Mixture(Model):
    def __init__(
        self,
        observation: Observation,
        weights: DirichletWeights | ProcessWeights,
        n_components: int,
        *,
        sparsity_level: int | None = None,
        dtype: DTypeLike = 'float64',
        n_neighbors: int | None = None,
        rows_per_step: float | None = None,
        keeps_local: bool = False,
        n_rows: float | None = None,
        patience: int = 0,
    ) -> None: ...
    def add_learned(
        self,
        learned: dict[str, NDArray[Any]],
        weights: NDArray[Any],
    ) -> dict[str, NDArray[Any]]: ...
    def carried(
        self,
        stats: Any,
        before: dict[str, NDArray[Any]],
        after: dict[str, NDArray[Any]],
    ) -> Any: ...
    def drop_learned(
        self,
        learned: dict[str, NDArray[Any]],
        component: int,
    ) -> dict[str, NDArray[Any]]: ...
    def estimate(self, stats: Any) -> tuple[dict[str, NDArray[Any]], NDArray[Any]]: ...
    def first_learned(self) -> dict[str, NDArray[Any]]: ...
    def for_stream(self, n_rows: int) -> Mixture: ...
    def global_step(self, state: FitState, rate: float = 1.0) -> None: ...
    def globals_under(
        self,
        estimates: dict[str, NDArray[Any]],
        concentration: NDArray[Any],
        *,
        track: Any = None,
        n_neighbors: int | None = None,
        patient: bool = False,
    ) -> Globals: ...
    @property
    def level(self) -> Any: ...
    def merge_gains(self, state: FitState, pairs: NDArray[Any]) -> NDArray[Any] | None: ...
    def merge_learned(
        self,
        learned: dict[str, NDArray[Any]],
        kept: int,
        absorbed: int,
    ) -> dict[str, NDArray[Any]]: ...
    @staticmethod
    def share_of(chunk: Any, globals_: Globals, component: int) -> Any: ...
    def similarity(self, state: FitState) -> NDArray[Any] | None: ...
    def stats_of(
        self,
        rows: NDArray[Any] | csr_array,
        index: NDArray[Any],
        resp: NDArray[Any],
        weight: NDArray[Any] | None = None,
    ) -> Any: ...

class Model:
    unit: ClassVar[str]
    reported: ClassVar[tuple[str, ...]]
    keeps_local: ClassVar[bool]
    tracks_overlap: ClassVar[bool]
    can_delete: ClassVar[bool]
    has_bound: ClassVar[bool]
    leaves_out: ClassVar[bool]
    def add_learned(
        self,
        learned: dict[str, NDArray[Any]],
        weights: NDArray[Any],
    ) -> dict[str, NDArray[Any]]: ...
    def bound(self, state: FitState, stats: Any = None) -> float: ...
    def carried(
        self,
        stats: Any,
        before: dict[str, NDArray[Any]],
        after: dict[str, NDArray[Any]],
    ) -> Any: ...
    def drop_learned(
        self,
        learned: dict[str, NDArray[Any]],
        component: int,
    ) -> dict[str, NDArray[Any]]: ...
    def empty_stats(self, n_components: int | None = None) -> Any: ...
    def first_learned(self) -> dict[str, NDArray[Any]]: ...
    def global_step(self, state: FitState, rate: float = 1.0) -> None: ...
    def globals_of(self, state: FitState, track: Any = None) -> Globals: ...
    @staticmethod
    def local_step(chunk: Any, globals_: Globals, key: Any) -> tuple[Any, Any]: ...
    def merge_gain(self, state: FitState, kept: int, absorbed: int) -> float: ...
    def merge_gains(self, state: FitState, pairs: NDArray[Any]) -> NDArray[Any] | None: ...
    def merge_learned(
        self,
        learned: dict[str, NDArray[Any]],
        kept: int,
        absorbed: int,
    ) -> dict[str, NDArray[Any]]: ...
    def overlap(self, chunk: Any, globals_: Globals) -> NDArray[Any]: ...
    def resized(self, n_components: int) -> Model: ...
    @staticmethod
    def share_of(chunk: Any, globals_: Globals, component: int) -> Any: ...
    def similarity(self, state: FitState) -> NDArray[Any] | None: ...
    def stats_under(self, chunk: Any, resp: ArrayLike | spmatrix | sparray) -> Any: ...

class Multinomial(Observation):
    def __init__(
        self,
        estimation: Literal["bayes", "map", "ml"],
        prior: NDArray[Any],
        n_features: int,
    ) -> None: ...
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
    def item_lists(self, items: Any, table: Any) -> ItemLists: ...
    def prepare(self, rows: NDArray[Any] | csr_array) -> NDArray[Any] | csr_array: ...
    def settle(
        self,
        table: Any,
        estimates: dict[str, NDArray[Any]],
        log_weights: NDArray[Any],
        *,
        n_rows: float = ...,
        n_neighbors: int | None = None,
    ) -> Any: ...
    def stored(self, counts: NDArray[Any]) -> NDArray[Any]: ...
    def uncertainty(self, estimates: dict[str, NDArray[Any]]) -> float | NDArray[Any]: ...

class ProcessWeights:
    def __init__(self, estimation: Literal["bayes", "map", "ml"], prior: float) -> None: ...
    def bound(self, count: NDArray[Any], concentration: NDArray[Any]) -> float: ...
    def estimate(self, count: NDArray[Any]) -> NDArray[Any]: ...
    def log_weights(self, concentration: NDArray[Any]) -> NDArray[Any]: ...
    def weights(self, concentration: NDArray[Any]) -> NDArray[Any]: ...

class SampledAdmixture(Admixture):
    def __init__(
        self,
        observation: Observation,
        documents: SampledDocuments,
        n_components: int,
        *,
        dtype: DTypeLike = 'float64',
    ) -> None: ...
    def overlap(self, chunk: Any, globals_: Globals) -> NDArray[Any]: ...

class SampledDocuments(DirichletDocuments):
    def __init__(
        self,
        alpha: NDArray[Any],
        *,
        sparsity_level: int | None = 8,
        burn_in: int = 3,
        n_sweeps: int = 3,
        rao_blackwell: bool = True,
        learn: bool = False,
    ) -> None: ...
    def alpha_of(self, learned: dict[str, NDArray[Any]]) -> NDArray[Any]: ...
    def bound(self, learned: dict[str, NDArray[Any]], n_documents: float) -> float: ...
    def dense(self, max_iter: int = 100, tol: float = 0.01) -> DirichletDocuments: ...
    def first_learned(self) -> dict[str, NDArray[Any]]: ...
    def fit(
        self,
        indptr: NDArray[Any],
        local: NDArray[Any],
        counts: NDArray[Any],
        weights: tuple[NDArray[Any], ...],
        alpha: NDArray[Any],
        *,
        start: NDArray[Any] | None = None,
        want_mass: bool = False,
        n_tokens: NDArray[Any] | None = None,
    ) -> tuple[NDArray[Any], ...]: ...
    def gains(
        self,
        alpha: NDArray[Any],
        mass: NDArray[Any],
        n_tokens: NDArray[Any],
        weight: NDArray[Any] | None = None,
    ) -> tuple[Any, ...]: ...
    def improved(
        self,
        learned: dict[str, NDArray[Any]],
        report: dict[Any, Any],
        rate: float = 1.0,
    ) -> dict[str, NDArray[Any]]: ...
    def level(self, n_components: int) -> int: ...
    def merged(
        self,
        learned: dict[str, NDArray[Any]],
        kept: int,
        absorbed: int,
    ) -> dict[str, NDArray[Any]]: ...
    def prior_mass(self, alpha: NDArray[Any]) -> float: ...
    def sample(
        self,
        items: Any,
        lists: ItemLists,
        alpha: NDArray[Any],
        units: NDArray[Any],
        key: Any,
    ) -> tuple[NDArray[Any], ...]: ...

def batch_pass(
    model: Model,
    corpus: Corpus,
    state: FitState,
    *,
    evaluate_every: int = 1,
    track: Any = None,
) -> FitState: ...

def begin(
    model: Model,
    corpus: Corpus,
    resp: ArrayLike | spmatrix | sparray,
    seed: int = 0,
) -> FitState: ...

def memoized_pass(
    model: Model,
    corpus: Corpus,
    state: FitState,
    *,
    n_batches: int = 10,
    evaluate_every: int = 1,
    track: Any = None,
) -> FitState: ...

def online_pass(
    model: Model,
    corpus: Corpus,
    state: FitState,
    *,
    batch_size: int,
    decay: float = 0.7,
    offset: float = 64.0,
    evaluate_every: int = 1,
) -> FitState: ...

def pass_with_moves(
    one_pass: Any,
    model: Model,
    corpus: Corpus,
    state: FitState,
    *,
    moves: tuple[Literal["birth", "merge", "delete"], ...] = ...,
    max_components: int | None = None,
    clusters: Callable[..., Any] | None = None,
    **options: Any,
) -> FitState: ...

def stream_update(
    model: Model,
    corpus: Corpus,
    state: FitState,
    *,
    decay: float = 0.7,
    offset: float = 64.0,
    total_samples: float | None = None,
    begins: bool = False,
) -> None: ...
