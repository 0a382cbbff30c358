"""Results that are looked at, as arrays and, with matplotlib, as pictures.

As in scikit-learn, ``from_estimator`` and its like compute what is shown and draw it; ``plot``
draws it again.
"""

from sklearn_sparsepost.display._fits import FitHistoryDisplay, SparsityDisplay, TopicMatchDisplay
from sklearn_sparsepost.display._hierarchy import TopicGraph, TopicTree
from sklearn_sparsepost.display._mixtures import MixtureDisplay
from sklearn_sparsepost.display._topics import (
    DocumentTopicsDisplay,
    TopicSharesDisplay,
    TopicWordsDisplay,
)

__all__ = [
    "DocumentTopicsDisplay",
    "FitHistoryDisplay",
    "MixtureDisplay",
    "SparsityDisplay",
    "TopicGraph",
    "TopicMatchDisplay",
    "TopicSharesDisplay",
    "TopicTree",
    "TopicWordsDisplay",
]
