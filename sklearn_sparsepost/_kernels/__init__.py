"""Cython kernels: typed arrays in, typed arrays out, the GIL released, no scikit-learn inside.

The hot modules exist once a vector unit; the best that was compiled and that this processor has
is taken at import. SPARSEPOST_VECTOR_UNIT=baseline, avx2 or avx512 in the environment overrides.
"""

import importlib
import os

from sklearn_sparsepost._kernels._cpu import build_info
from sklearn_sparsepost._kernels._names import HOT


def _load(name, unit):
    suffix = "" if unit == "baseline" else f"_{unit}"
    return importlib.import_module(f"sklearn_sparsepost._kernels.{name}{suffix}")


def _choose():
    wanted = os.environ.get("SPARSEPOST_VECTOR_UNIT")
    found = build_info()["vector units"]
    if wanted and wanted not in found:
        raise ImportError(
            f"SPARSEPOST_VECTOR_UNIT={wanted!r}, but this processor has only {', '.join(found)}"
        )
    for unit in [wanted] if wanted else reversed(found):
        try:
            return unit, *(_load(name, unit) for name in HOT)
        except ModuleNotFoundError:
            if wanted:
                raise
    raise ImportError("the compiled kernels are missing: build the package with pip install .")


# In the order of HOT.
(
    vector_unit,
    clusters,
    first_draws,
    gibbs_lda,
    logits,
    matrices,
    merges,
    mixture,
    mixture_lengths,
    sampled_documents,
    topic_documents,
    topic_stats,
    topic_words,
) = _choose()

__all__ = [
    "clusters",
    "first_draws",
    "gibbs_lda",
    "logits",
    "matrices",
    "merges",
    "mixture",
    "mixture_lengths",
    "sampled_documents",
    "topic_documents",
    "topic_stats",
    "topic_words",
    "vector_unit",
]
