"""Quality of topic models and of their topics, the same for models of any origin."""

from sklearn_sparsepost.metrics._coherence import coherence
from sklearn_sparsepost.metrics._heldout import document_completion, left_to_right, split_words
from sklearn_sparsepost.metrics._topics import (
    match_topics,
    top_words,
    topic_distances,
    topic_diversity,
)

__all__ = [
    "coherence",
    "document_completion",
    "left_to_right",
    "match_topics",
    "split_words",
    "top_words",
    "topic_distances",
    "topic_diversity",
]
