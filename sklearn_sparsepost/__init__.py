"""Mixture and topic models with sparse local posteriors, as scikit-learn estimators."""

from sklearn_sparsepost._alias_lda import AliasLDA
from sklearn_sparsepost._gibbs_ctm import GibbsCTM
from sklearn_sparsepost._hdp import SparseHDP
from sklearn_sparsepost._lda import SparseLDA
from sklearn_sparsepost._mixture import SparseMixture
from sklearn_sparsepost._show_versions import show_versions
from sklearn_sparsepost._summary import TopicSummary
from sklearn_sparsepost._version import __version__

__all__ = [
    "AliasLDA",
    "GibbsCTM",
    "SparseHDP",
    "SparseLDA",
    "SparseMixture",
    "TopicSummary",
    "__version__",
    "show_versions",
]
