# Written by .ci/write_stubs.py from the docstrings: do not edit.
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy.sparse import csr_array, csr_matrix, sparray, spmatrix
from pathlib import Path
from sklearn_sparsepost import AliasLDA
from sklearn_sparsepost import SparseLDA

__all__ = ["TopicAssignments", "from_gensim", "from_tomotopy", "read_mallet_state", "to_gensim", "write_mallet_state"]

class TopicAssignments:
    n_documents: int
    def __init__(
        self,
        document: ArrayLike,
        word: ArrayLike,
        topic: ArrayLike,
        *,
        doc_topic_prior: ArrayLike,
        topic_word_prior: float,
        feature_names: ArrayLike,
        documents: int | Sequence[str] | None = None,
    ) -> None: ...
    def counts(self) -> csr_matrix: ...
    def doc_topic_counts(self) -> NDArray[Any]: ...
    @classmethod
    def from_estimator(
        cls,
        estimator: AliasLDA,
        *,
        feature_names: ArrayLike | None = None,
        documents: Sequence[str] | None = None,
    ) -> TopicAssignments: ...
    def to_estimator(self, **params: Any) -> AliasLDA: ...
    def topic_word_counts(self) -> NDArray[Any]: ...

def from_gensim(model: Any, **params: Any) -> SparseLDA: ...

def from_tomotopy(model: Any) -> TopicAssignments: ...

def read_mallet_state(path: str | Path) -> TopicAssignments: ...

def to_gensim(
    estimator: Any,
    *,
    feature_names: ArrayLike | None = None,
    n_documents: int | None = None,
) -> Any: ...

def write_mallet_state(assignments: TopicAssignments | AliasLDA, path: str | Path) -> None: ...
