# Written by .ci/write_stubs.py from the docstrings: do not edit.
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy.sparse import csr_array, csr_matrix, sparray, spmatrix

__all__ = ["load_docstrings", "make_bars", "make_lda_corpus"]

def load_docstrings(
    *,
    libraries: Any = ...,
    min_words: int = 20,
    return_X_y: bool = False,
) -> tuple[Any, Any]: ...

def make_bars(
    n_samples: int = 100,
    side: int = 5,
    *,
    doc_topic_prior: float | ArrayLike = 1.0,
    doc_length: float | ArrayLike = 100,
    random_state: int | np.random.RandomState | None = None,
) -> tuple[csr_matrix, NDArray[Any], NDArray[Any]]: ...

def make_lda_corpus(
    n_samples: int = 100,
    n_features: int = 200,
    n_components: int = 10,
    *,
    doc_topic_prior: float | ArrayLike = 0.1,
    topic_word_prior: float | ArrayLike = 0.1,
    doc_length: float | ArrayLike = 100,
    random_state: int | np.random.RandomState | None = None,
) -> tuple[csr_matrix, NDArray[Any], NDArray[Any]]: ...
