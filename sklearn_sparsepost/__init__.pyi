# Written by .ci/write_stubs.py from the docstrings: do not edit.
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy.sparse import csr_array, csr_matrix, sparray, spmatrix
from pathlib import Path
from sklearn.base import BaseEstimator
from sklearn.callback._callback_support import CallbackSupportMixin
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.base import DensityMixin
from sklearn_sparsepost.display import TopicGraph
from sklearn_sparsepost.display import TopicTree
from sklearn.base import TransformerMixin

__all__ = ["AliasLDA", "GibbsCTM", "SparseHDP", "SparseLDA", "SparseMixture", "TopicSummary", "__version__", "show_versions"]

class AliasLDA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, CallbackSupportMixin, BaseEstimator):
    n_components: int
    sampler: Literal["auto", "by_word", "alias", "sparse", "cycle", "dense"]
    n_mh_steps: int
    doc_topic_prior: float | Literal["auto"] | ArrayLike | None
    doc_topic_prior_type: Literal["dirichlet", "dirichlet_process"]
    doc_concentration: float | Literal["auto"]
    topic_concentration: float | Literal["auto"]
    max_components: int | None
    topic_word_prior: float | Literal["auto"] | ArrayLike | None
    topic_word_prior_type: Literal["dirichlet", "pitman_yor"]
    discount: float | Literal["auto"]
    concentration: float | Literal["auto"] | None
    init: Literal["k-means++", "random", "anchor"] | ArrayLike
    max_iter: int
    burn_in: int | None
    sample_every: int
    learn_every: int
    evaluate_every: int
    sparse_output: bool
    warm_start: bool
    n_jobs: int | None
    random_state: int | np.random.RandomState | None
    verbose: int
    components_: NDArray[Any]
    n_components_: int
    doc_topic_prior_: NDArray[Any]
    topic_weights_: NDArray[Any]
    doc_concentration_: float
    topic_concentration_: float
    topic_word_prior_: float | NDArray[Any]
    discount_: float
    concentration_: float
    base_word_distr_: NDArray[Any]
    log_likelihood_history_: NDArray[Any]
    n_samples_averaged_: int
    n_iter_: int
    n_features_in_: int
    feature_names_in_: NDArray[Any]
    def __init__(
        self,
        n_components: int = 10,
        *,
        sampler: Literal["auto", "by_word", "alias", "sparse", "cycle", "dense"] = 'auto',
        n_mh_steps: int = 1,
        doc_topic_prior: float | Literal["auto"] | ArrayLike | None = None,
        doc_topic_prior_type: Literal["dirichlet", "dirichlet_process"] = 'dirichlet',
        doc_concentration: float | Literal["auto"] = 'auto',
        topic_concentration: float | Literal["auto"] = 'auto',
        max_components: int | None = None,
        topic_word_prior: float | Literal["auto"] | ArrayLike | None = None,
        topic_word_prior_type: Literal["dirichlet", "pitman_yor"] = 'dirichlet',
        discount: float | Literal["auto"] = 'auto',
        concentration: float | Literal["auto"] | None = None,
        init: Literal["k-means++", "random", "anchor"] | ArrayLike = 'k-means++',
        max_iter: int = 100,
        burn_in: int | None = None,
        sample_every: int = 5,
        learn_every: int = 5,
        evaluate_every: int = 10,
        sparse_output: bool = False,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None: ...
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self: ...
    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self: ...
    def perplexity(
        self,
        X: Any,
        *,
        method: Literal["completion", "left-to-right"] = 'completion',
        n_particles: int = 20,
        random_state: int = 0,
    ) -> float: ...
    def sample(
        self,
        n_samples: int = 1,
        *,
        doc_length: int = 100,
        random_state: int | np.random.RandomState | None = None,
    ) -> tuple[csr_matrix, NDArray[Any]]: ...
    def score(
        self,
        X: Any,
        y: Any = None,
        *,
        method: Literal["completion", "left-to-right"] = 'completion',
        n_particles: int = 20,
        random_state: int = 0,
    ) -> float: ...
    @property
    def topic_word_distr_(self) -> NDArray[Any]: ...
    def transform(self, X: Any, *, normalize: bool = True) -> NDArray[Any] | csr_matrix: ...

class GibbsCTM(ClassNamePrefixFeaturesOutMixin, TransformerMixin, CallbackSupportMixin, BaseEstimator):
    n_components: int
    topic_word_prior: float | Literal["auto"] | ArrayLike | None
    covariance_type: Literal["full", "factor", "diag"]
    n_factors: int
    logit_sampler: Literal["auto", "slice", "polya-gamma"]
    n_logit_steps: int
    mean_prior: float | ArrayLike
    mean_precision_prior: float | None
    covariance_prior: float | ArrayLike
    degrees_of_freedom_prior: float | None
    sampler: Literal["auto", "alias", "sparse", "dense"]
    n_mh_steps: int
    init: Literal["k-means++", "random", "anchor"] | ArrayLike
    max_iter: int
    burn_in: int | None
    sample_every: int
    learn_every: int
    evaluate_every: int
    memmap_folder: str | Path | None
    sparse_output: bool
    warm_start: bool
    n_jobs: int | None
    random_state: int | np.random.RandomState | None
    verbose: int
    components_: NDArray[Any]
    mean_: NDArray[Any]
    covariance_: NDArray[Any]
    topic_word_prior_: float | NDArray[Any]
    log_likelihood_history_: NDArray[Any]
    n_samples_averaged_: int
    n_iter_: int
    n_features_in_: int
    feature_names_in_: NDArray[Any]
    def __init__(
        self,
        n_components: int = 10,
        *,
        topic_word_prior: float | Literal["auto"] | ArrayLike | None = None,
        covariance_type: Literal["full", "factor", "diag"] = 'full',
        n_factors: int = 16,
        logit_sampler: Literal["auto", "slice", "polya-gamma"] = 'auto',
        n_logit_steps: int = 2,
        mean_prior: float | ArrayLike = 0.0,
        mean_precision_prior: float | None = None,
        covariance_prior: float | ArrayLike = 1.0,
        degrees_of_freedom_prior: float | None = None,
        sampler: Literal["auto", "alias", "sparse", "dense"] = 'auto',
        n_mh_steps: int = 2,
        init: Literal["k-means++", "random", "anchor"] | ArrayLike = 'k-means++',
        max_iter: int = 200,
        burn_in: int | None = None,
        sample_every: int = 2,
        learn_every: int = 5,
        evaluate_every: int = 10,
        memmap_folder: str | Path | None = None,
        sparse_output: bool = False,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None: ...
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self: ...
    @property
    def logits_(self) -> NDArray[Any]: ...
    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self: ...
    def perplexity(
        self,
        X: Any,
        *,
        method: Literal["completion", "left-to-right"] = 'completion',
        n_particles: int = 20,
        random_state: int = 0,
    ) -> float: ...
    @property
    def precision_(self) -> NDArray[Any]: ...
    def sample(
        self,
        n_samples: int = 1,
        *,
        doc_length: int = 100,
        random_state: int | np.random.RandomState | None = None,
    ) -> tuple[csr_matrix, NDArray[Any]]: ...
    def score(
        self,
        X: Any,
        y: Any = None,
        *,
        method: Literal["completion", "left-to-right"] = 'completion',
        n_particles: int = 20,
        random_state: int = 0,
    ) -> float: ...
    @property
    def topic_correlation_(self) -> NDArray[Any]: ...
    def topic_graph(
        self,
        threshold: float = 0.2,
        *,
        n_words: int = 4,
        feature_names: ArrayLike | None = None,
    ) -> TopicGraph: ...
    def topic_tree(
        self,
        *,
        n_words: int = 4,
        feature_names: ArrayLike | None = None,
    ) -> TopicTree: ...
    @property
    def topic_word_distr_(self) -> NDArray[Any]: ...
    def transform(self, X: Any, *, normalize: bool = True) -> NDArray[Any] | csr_matrix: ...

class SparseHDP(ClassNamePrefixFeaturesOutMixin, TransformerMixin, CallbackSupportMixin, BaseEstimator):
    n_components: int
    sparsity_level: int | None
    observation: Literal["multinomial", "gaussian"] | Callable[..., Any]
    estimation: Literal["bayes", "map"]
    doc_concentration: float
    topic_concentration: float
    topic_word_prior: float | ArrayLike | None
    covariance_type: Literal["full", "tied", "diag", "spherical"]
    assume_centered: bool
    mean_precision_prior: float | None
    mean_prior: ArrayLike | None
    degrees_of_freedom_prior: float | None
    covariance_prior: float | ArrayLike | None
    reg_covar: float
    learning_method: Literal["memoized", "online", "batch"]
    moves: bool | Sequence[Literal["birth", "merge", "delete"]]
    max_components: int | None
    init: Literal["auto", "k-means++", "random", "anchor", "agglomerative"] | ArrayLike
    n_batches: int | Literal["auto"]
    batch_size: int
    learning_decay: float
    learning_offset: float
    total_samples: float | None
    max_iter: int
    tol: float
    max_doc_update_iter: int
    mean_change_tol: float
    restarts: int
    restarts_above: int | Literal["prior"]
    doc_start: Literal["cold", "warm"]
    evaluate_every: int
    sparse_output: bool
    warm_start: bool
    n_jobs: int | None
    random_state: int | np.random.RandomState | None
    verbose: int
    n_components_: int
    components_: NDArray[Any]
    topic_weights_: NDArray[Any]
    stick_concentration_: tuple[Any, ...]
    doc_topic_prior_: NDArray[Any]
    topic_word_prior_: float | NDArray[Any]
    means_: NDArray[Any]
    covariances_: NDArray[Any]
    precisions_cholesky_: NDArray[Any]
    degrees_of_freedom_: NDArray[Any]
    mean_precision_: NDArray[Any]
    mean_precision_prior_: float | NDArray[Any]
    mean_prior_: float | NDArray[Any]
    degrees_of_freedom_prior_: float | NDArray[Any]
    covariance_prior_: float | NDArray[Any]
    bound_history_: NDArray[Any]
    moves_history_: NDArray[Any]
    restart_acceptance_: NDArray[Any]
    n_iter_: int
    n_batch_iter_: int
    n_samples_seen_: int
    n_features_in_: int
    feature_names_in_: NDArray[Any]
    def __init__(
        self,
        n_components: int = 100,
        *,
        sparsity_level: int | None = 8,
        observation: Literal["multinomial", "gaussian"] | Callable[..., Any] = 'multinomial',
        estimation: Literal["bayes", "map"] = 'map',
        doc_concentration: float = 0.5,
        topic_concentration: float = 10.0,
        topic_word_prior: float | ArrayLike | None = None,
        covariance_type: Literal["full", "tied", "diag", "spherical"] = 'full',
        assume_centered: bool = False,
        mean_precision_prior: float | None = None,
        mean_prior: ArrayLike | None = None,
        degrees_of_freedom_prior: float | None = None,
        covariance_prior: float | ArrayLike | None = None,
        reg_covar: float = 1e-06,
        learning_method: Literal["memoized", "online", "batch"] = 'memoized',
        moves: bool | Sequence[Literal["birth", "merge", "delete"]] = True,
        max_components: int | None = None,
        init: Literal["auto", "k-means++", "random", "anchor", "agglomerative"] | ArrayLike = 'auto',
        n_batches: int | Literal["auto"] = 'auto',
        batch_size: int = 512,
        learning_decay: float = 0.7,
        learning_offset: float = 64.0,
        total_samples: float | None = None,
        max_iter: int = 20,
        tol: float = 0.001,
        max_doc_update_iter: int = 100,
        mean_change_tol: float = 0.05,
        restarts: int = 5,
        restarts_above: int | Literal["prior"] = 'prior',
        doc_start: Literal["cold", "warm"] = 'cold',
        evaluate_every: int = 1,
        sparse_output: bool = False,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None: ...
    def bound(self, X: Any, groups: ArrayLike | None = None) -> float: ...
    def fit(self, X: Any, y: Any = None, groups: ArrayLike | None = None) -> Self: ...
    def fit_transform(
        self,
        X: Any,
        y: Any = None,
        groups: ArrayLike | None = None,
    ) -> NDArray[Any] | csr_matrix: ...
    def partial_fit(self, X: Any, y: Any = None, groups: ArrayLike | None = None) -> Self: ...
    def sample(
        self,
        n_samples: int = 1,
        *,
        doc_length: int = 100,
        random_state: int | np.random.RandomState | None = None,
    ) -> tuple[csr_matrix | NDArray[Any], NDArray[Any]]: ...
    def score(
        self,
        X: Any,
        y: Any = None,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        method: Literal["completion", "left-to-right"] = 'completion',
        n_particles: int = 20,
        random_state: int = 0,
    ) -> float: ...
    @property
    def topic_word_distr_(self) -> NDArray[Any]: ...
    def transform(
        self,
        X: Any,
        groups: ArrayLike | None = None,
        *,
        normalize: bool = True,
    ) -> NDArray[Any] | csr_matrix: ...

class SparseLDA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, CallbackSupportMixin, BaseEstimator):
    n_components: int
    sparsity_level: int | None
    estimation: Literal["bayes", "map"]
    doc_topic_prior: float | Literal["auto"] | ArrayLike | None
    topic_word_prior: float | ArrayLike | None
    learning_method: Literal["memoized", "online", "batch"]
    local_step: Literal["variational", "gibbs"]
    burn_in: int
    n_sweeps: int
    rao_blackwell: bool
    average_after: int | None
    init: Literal["k-means++", "random", "anchor"] | ArrayLike
    n_batches: int | Literal["auto"]
    batch_size: int
    learning_decay: float
    learning_offset: float
    total_samples: float | None
    max_iter: int
    tol: float
    max_doc_update_iter: int
    mean_change_tol: float
    restarts: int
    restarts_above: int | Literal["prior"]
    doc_start: Literal["cold", "warm"]
    evaluate_every: int
    sparse_output: bool
    warm_start: bool
    n_jobs: int | None
    random_state: int | np.random.RandomState | None
    verbose: int
    components_: NDArray[Any]
    doc_topic_prior_: NDArray[Any]
    topic_word_prior_: float | NDArray[Any]
    bound_history_: NDArray[Any]
    restart_acceptance_: NDArray[Any]
    n_iter_: int
    n_batch_iter_: int
    n_samples_seen_: int
    n_features_in_: int
    feature_names_in_: NDArray[Any]
    def __init__(
        self,
        n_components: int = 10,
        *,
        sparsity_level: int | None = 8,
        estimation: Literal["bayes", "map"] = 'map',
        doc_topic_prior: float | Literal["auto"] | ArrayLike | None = None,
        topic_word_prior: float | ArrayLike | None = None,
        learning_method: Literal["memoized", "online", "batch"] = 'memoized',
        local_step: Literal["variational", "gibbs"] = 'variational',
        burn_in: int = 3,
        n_sweeps: int = 3,
        rao_blackwell: bool = True,
        average_after: int | None = None,
        init: Literal["k-means++", "random", "anchor"] | ArrayLike = 'k-means++',
        n_batches: int | Literal["auto"] = 'auto',
        batch_size: int = 512,
        learning_decay: float = 0.7,
        learning_offset: float = 64.0,
        total_samples: float | None = None,
        max_iter: int = 20,
        tol: float = 0.001,
        max_doc_update_iter: int = 100,
        mean_change_tol: float = 0.05,
        restarts: int = 5,
        restarts_above: int | Literal["prior"] = 'prior',
        doc_start: Literal["cold", "warm"] = 'cold',
        evaluate_every: int = 1,
        sparse_output: bool = False,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None: ...
    def bound(self, X: Any) -> float: ...
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self: ...
    @classmethod
    def from_topics(
        cls,
        components: ArrayLike,
        *,
        feature_names: ArrayLike | None = None,
        **params: Any,
    ) -> SparseLDA: ...
    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self: ...
    def perplexity(
        self,
        X: Any,
        *,
        method: Literal["completion", "left-to-right"] = 'completion',
        n_particles: int = 20,
        random_state: int = 0,
    ) -> float: ...
    def sample(
        self,
        n_samples: int = 1,
        *,
        doc_length: int = 100,
        random_state: int | np.random.RandomState | None = None,
    ) -> tuple[csr_matrix, NDArray[Any]]: ...
    def score(
        self,
        X: Any,
        y: Any = None,
        *,
        method: Literal["completion", "left-to-right"] = 'completion',
        n_particles: int = 20,
        random_state: int = 0,
    ) -> float: ...
    @property
    def topic_word_distr_(self) -> NDArray[Any]: ...
    def transform(self, X: Any, *, normalize: bool = True) -> NDArray[Any] | csr_matrix: ...

class SparseMixture(DensityMixin, CallbackSupportMixin, BaseEstimator):
    n_components: int
    sparsity_level: int | None
    n_neighbors: int | None
    observation: Literal["gaussian", "multinomial", "bernoulli"] | Callable[..., Any]
    covariance_type: Literal["full", "tied", "diag", "spherical"]
    assume_centered: bool
    estimation: Literal["bayes", "map", "ml"]
    weight_concentration_prior_type: Literal["dirichlet_distribution", "dirichlet_process"]
    weight_concentration_prior: float | None
    mean_precision_prior: float | None
    mean_prior: ArrayLike | None
    degrees_of_freedom_prior: float | None
    covariance_prior: float | ArrayLike | None
    feature_prior: float | ArrayLike | None
    reg_covar: float
    moves: bool | Sequence[Literal["birth", "merge", "delete"]]
    max_components: int | None
    learning_method: Literal["memoized", "online", "batch"]
    init_params: Literal["agglomerative", "k-means++", "kmeans", "random_from_data", "random"]
    weights_init: ArrayLike | None
    means_init: ArrayLike | None
    precisions_init: ArrayLike | None
    n_init: int
    n_batches: int | Literal["auto"]
    batch_size: int
    learning_decay: float
    learning_offset: float
    total_samples: float | None
    max_iter: int
    tol: float
    sparse_output: bool
    warm_start: bool
    n_jobs: int | None
    random_state: int | np.random.RandomState | None
    verbose: int
    weights_: NDArray[Any]
    weight_concentration_: NDArray[Any] | tuple[Any, ...]
    means_: NDArray[Any]
    covariances_: NDArray[Any]
    precisions_cholesky_: NDArray[Any]
    mean_precision_: NDArray[Any]
    degrees_of_freedom_: NDArray[Any]
    weight_concentration_prior_: float | NDArray[Any]
    mean_precision_prior_: float | NDArray[Any]
    mean_prior_: float | NDArray[Any]
    degrees_of_freedom_prior_: float | NDArray[Any]
    covariance_prior_: float | NDArray[Any]
    feature_prior_: float | NDArray[Any]
    concentration_: NDArray[Any]
    n_components_: int
    moves_history_: NDArray[Any]
    bound_history_: NDArray[Any]
    lower_bound_: float
    converged_: bool
    n_iter_: int
    n_batch_iter_: int
    n_samples_seen_: int
    n_features_in_: int
    feature_names_in_: NDArray[Any]
    def __init__(
        self,
        n_components: int = 1,
        *,
        sparsity_level: int | None = 4,
        n_neighbors: int | None = None,
        observation: Literal["gaussian", "multinomial", "bernoulli"] | Callable[..., Any] = 'gaussian',
        covariance_type: Literal["full", "tied", "diag", "spherical"] = 'full',
        assume_centered: bool = False,
        estimation: Literal["bayes", "map", "ml"] = 'bayes',
        weight_concentration_prior_type: Literal["dirichlet_distribution", "dirichlet_process"] = 'dirichlet_distribution',
        weight_concentration_prior: float | None = None,
        mean_precision_prior: float | None = None,
        mean_prior: ArrayLike | None = None,
        degrees_of_freedom_prior: float | None = None,
        covariance_prior: float | ArrayLike | None = None,
        feature_prior: float | ArrayLike | None = None,
        reg_covar: float = 1e-06,
        moves: bool | Sequence[Literal["birth", "merge", "delete"]] = True,
        max_components: int | None = None,
        learning_method: Literal["memoized", "online", "batch"] = 'memoized',
        init_params: Literal["agglomerative", "k-means++", "kmeans", "random_from_data", "random"] = 'agglomerative',
        weights_init: ArrayLike | None = None,
        means_init: ArrayLike | None = None,
        precisions_init: ArrayLike | None = None,
        n_init: int = 1,
        n_batches: int | Literal["auto"] = 'auto',
        batch_size: int = 4096,
        learning_decay: float = 0.7,
        learning_offset: float = 64.0,
        total_samples: float | None = None,
        max_iter: int = 100,
        tol: float = 0.001,
        sparse_output: bool = False,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None: ...
    def aic(self, X: Any) -> float: ...
    def bic(self, X: Any) -> float: ...
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self: ...
    def fit_predict(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> NDArray[Any]: ...
    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self: ...
    @property
    def precisions_(self) -> NDArray[Any]: ...
    def predict(self, X: Any) -> NDArray[Any]: ...
    def predict_proba(self, X: Any) -> NDArray[Any] | csr_matrix: ...
    def sample(
        self,
        n_samples: int = 1,
        *,
        random_state: int | np.random.RandomState | None = None,
    ) -> tuple[NDArray[Any], NDArray[Any]]: ...
    def score(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> float: ...
    def score_samples(self, X: Any) -> NDArray[Any]: ...

class TopicSummary:
    topic_word_distr: NDArray[Any]
    word_distr: NDArray[Any]
    labels: list[str]
    def __init__(
        self,
        components: ArrayLike,
        doc_topic: ArrayLike | spmatrix | sparray | None = None,
        *,
        lengths: ArrayLike | None = None,
        size: ArrayLike | None = None,
        feature_names: ArrayLike | None = None,
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
    ) -> TopicSummary: ...
    def label(
        self,
        topics: int | Sequence[int],
        n_words: int = 3,
        *,
        by: Literal["probability", "relevance", "lift"] = 'relevance',
    ) -> str: ...
    def over_time(
        self,
        times: ArrayLike,
        *,
        n_periods: int = 10,
        as_frame: bool = False,
    ) -> tuple[NDArray[Any], NDArray[Any]]: ...
    def shares(
        self,
        groups: ArrayLike,
        *,
        of: Literal["group", "topic"] = 'group',
        as_frame: bool = False,
    ) -> tuple[NDArray[Any], NDArray[Any]]: ...
    def similar(
        self,
        topic: int,
        n_topics: int = 5,
        *,
        distance: str = 'hellinger',
    ) -> tuple[NDArray[Any], NDArray[Any]]: ...
    def to_frame(self, n_words: int = 10, n_documents: int = 3) -> Any: ...
    def top_documents(
        self,
        n_documents: int = 3,
        *,
        by: Literal["weight", "tokens"] = 'weight',
    ) -> NDArray[Any]: ...
    def top_words(
        self,
        n_words: int = 10,
        *,
        by: Literal["probability", "relevance", "lift"] = 'probability',
        relevance_weight: float = 0.6,
    ) -> NDArray[Any]: ...
    def word_topics(self, word: str | int) -> NDArray[Any]: ...

__version__: str

def show_versions() -> None: ...
