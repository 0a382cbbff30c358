# Written by .ci/write_stubs.py from the docstrings: do not edit.
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy.sparse import csr_array, csr_matrix, sparray, spmatrix

__all__ = ["coherence", "document_completion", "left_to_right", "match_topics", "split_words", "top_words", "topic_distances", "topic_diversity"]

def coherence(
    components: ArrayLike,
    reference: Any,
    *,
    measure: Literal["npmi", "uci", "umass", "c_v"] = 'npmi',
    n_words: int = 10,
    window_size: int | None = None,
    feature_names: ArrayLike | None = None,
    epsilon: float = 1e-12,
    as_gensim: bool = False,
) -> NDArray[Any]: ...

def document_completion(
    components: ArrayLike,
    X: ArrayLike | spmatrix | sparray,
    *,
    doc_topic_prior: float | ArrayLike | None = None,
    observed: float = 0.8,
    random_state: int = 0,
    max_iter: int = 100,
    tol: float = 0.01,
    n_jobs: int | None = None,
) -> float: ...

def left_to_right(
    components: ArrayLike,
    X: ArrayLike | spmatrix | sparray,
    *,
    doc_topic_prior: float | ArrayLike | None = None,
    n_particles: int = 20,
    random_state: int | np.random.RandomState | None = 0,
    per_document: bool = False,
    n_jobs: int | None = None,
) -> float | NDArray[Any]: ...

def match_topics(
    components: ArrayLike,
    others: ArrayLike,
    *,
    distance: Literal["hellinger", "jensen-shannon", "total-variation", "cosine", "jaccard", "overlap"] = 'hellinger',
    n_words: int = 10,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]: ...

def split_words(
    X: ArrayLike | spmatrix | sparray,
    *,
    observed: float = 0.8,
    random_state: int = 0,
) -> tuple[csr_matrix, csr_matrix]: ...

def top_words(
    components: ArrayLike,
    n_words: int = 10,
    *,
    feature_names: ArrayLike | None = None,
) -> NDArray[Any]: ...

def topic_distances(
    components: ArrayLike,
    others: ArrayLike,
    *,
    distance: Literal["hellinger", "jensen-shannon", "total-variation", "cosine", "jaccard", "overlap"] = 'hellinger',
    n_words: int = 10,
) -> NDArray[Any]: ...

def topic_diversity(components: ArrayLike, *, n_words: int = 25) -> float: ...
