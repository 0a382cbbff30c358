"""The topics themselves: their top words, how diverse they are, and which of two models match."""

import numpy as np
from scipy.optimize import linear_sum_assignment

from sklearn_sparsepost._checks import check_count, check_topics
from sklearn_sparsepost._kernels._topl import topl_weights

# Entries of a (topics x words) table that stay in cache.
BLOCK = 1 << 14
# What is added to no probability, but keeps its logarithm finite.
TINY = np.finfo(np.float64).tiny


def top_words(components, n_words=10, *, feature_names=None):
    """List the likeliest words of every topic.

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
        Topics, non-negative; rows need not sum to 1.
    n_words : int, default=10
        How many words a topic; all if there are fewer.
    feature_names : array-like of shape (n_features,), default=None
        Names of the words, as a vectorizer's `get_feature_names_out` gives them.

    Returns
    -------
    words : ndarray of shape (n_components, min(n_words, n_features))
        Columns of the words, the likeliest first and of equals the lowest column; their names if
        there are any.

    See Also
    --------
    coherence : Whether these words belong together.

    Examples
    --------
    >>> from sklearn_sparsepost.metrics import top_words
    >>> topics = [[5.0, 1.0, 3.0], [0.0, 2.0, 2.0]]
    >>> top_words(topics, 2)
    array([[0, 2],
           [1, 2]])
    >>> top_words(topics, 2, feature_names=["cat", "dog", "owl"]).tolist()
    [['cat', 'owl'], ['dog', 'owl']]
    """
    topics = np.ascontiguousarray(check_topics(components))
    check_count(n_words, "n_words", 1)
    names = check_feature_names(feature_names, topics.shape[1])
    columns, weights = topl_weights(topics, n_words)
    order = np.argsort(-weights, axis=1, kind="stable")
    columns = np.take_along_axis(columns, order, axis=1).astype(np.intp)
    return columns if names is None else names[columns]


def topic_diversity(components, *, n_words=25):
    """Share of different words among the top words of all topics.

    It is 1 if no two topics share a top word, and near ``1 / n_components`` if all are the same
    [1]_. Coherence alone does not see whether topics repeat each other.

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
        Topics, non-negative; rows need not sum to 1.
    n_words : int, default=25
        How many words a topic; all if there are fewer.

    Returns
    -------
    diversity : float
        From 0 to 1.

    See Also
    --------
    coherence : Whether the top words of a topic belong together.

    References
    ----------
    .. [1] A. B. Dieng, F. J. R. Ruiz, D. M. Blei. Topic modeling in embedding spaces. TACL 8, 2020.

    Examples
    --------
    >>> from sklearn_sparsepost.metrics import topic_diversity
    >>> topic_diversity([[9, 8, 1, 0, 0], [0, 7, 9, 1, 0]], n_words=2)
    0.75
    """
    words = top_words(components, n_words)
    return len(np.unique(words)) / words.size


def topic_distances(components, others, *, distance="hellinger", n_words=10):
    """Distance of every topic from every other one.

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
        Topics, non-negative; rows are normalised here.
    others : array-like of shape (n_others, n_features)
        Topics over the same words.
    distance : {"hellinger", "jensen-shannon", "total-variation", "cosine", "jaccard", "overlap"}, \
            default="hellinger"
        All are from 0, for equal topics, to 1, for those without a common word.

        - "hellinger": root of one minus the sum of ``sqrt(p * q)``;
        - "jensen-shannon": root of the Jensen-Shannon divergence in bits. It takes a logarithm of
          each word for each pair, some hundred times longer than the one before;
        - "total-variation": half the sum of ``|p - q|``;
        - "cosine": one minus the cosine of the angle between them;
        - "jaccard": the share of top words that only one of them has among those that either has;
        - "overlap": the share of one's top words that the other has not.
    n_words : int, default=10
        How many top words "jaccard" and "overlap" look at.

    Returns
    -------
    distances : ndarray of shape (n_components, n_others), float64
        The distances.

    See Also
    --------
    match_topics : Pairs of topics with the least distances.

    Examples
    --------
    >>> from sklearn_sparsepost.metrics import topic_distances
    >>> topics = [[1, 1, 0, 0], [0, 0, 1, 1]]
    >>> topic_distances(topics, topics, distance="total-variation")
    array([[0., 1.],
           [1., 0.]])
    """
    topics, others = check_topics(components), check_topics(others, "others")
    if topics.shape[1] != others.shape[1]:
        raise ValueError(
            f"others has {others.shape[1]} features, but components has {topics.shape[1]}"
        )
    check_count(n_words, "n_words", 1)
    if distance in SHARED_WORDS:
        found = SHARED_WORDS[distance](*_shared_words(topics, others, n_words))
    elif distance in DISTANCES:
        found = DISTANCES[distance](_probabilities(topics), _probabilities(others))
    else:
        legal = ", ".join(map(repr, [*DISTANCES, *SHARED_WORDS]))
        raise ValueError(f"distance must be one of {legal}, got {distance!r}")
    return np.clip(found, 0, 1)  # rounding leaves the range by a few 1e-16


def match_topics(components, others, *, distance="hellinger", n_words=10):
    """Pair the topics of two models so that the sum of distances is least.

    Topics come in no order: two fits with different seeds may find the same ones in other places.
    This finds who is whose counterpart, each topic in one pair at most. Where one model has more
    topics, those that match worst stay single.

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
        Topics, non-negative; rows are normalised here.
    others : array-like of shape (n_others, n_features)
        Topics over the same words.
    distance : {"hellinger", "jensen-shannon", "total-variation", "cosine", "jaccard", "overlap"}, \
            default="hellinger"
        As for :func:`topic_distances`.
    n_words : int, default=10
        How many top words "jaccard" and "overlap" look at.

    Returns
    -------
    rows : ndarray of shape (n_pairs,)
        Rows of `components`, ascending; ``n_pairs = min(n_components, n_others)``.
    columns : ndarray of shape (n_pairs,)
        Their counterparts' rows in `others`.
    distances : ndarray of shape (n_pairs,), float64
        How far the two of each pair are apart, from 0 to 1.

    See Also
    --------
    topic_distances : The distances of all pairs.

    Notes
    -----
    The pairs are an optimal assignment, found by :func:`scipy.optimize.linear_sum_assignment`.

    Examples
    --------
    >>> from sklearn_sparsepost.metrics import match_topics
    >>> topics = [[8, 1, 1, 0], [0, 1, 1, 8], [1, 4, 4, 1]]
    >>> others = [[0, 1, 1, 8], [8, 1, 1, 0]]
    >>> rows, columns, distances = match_topics(topics, others)
    >>> rows, columns
    (array([0, 1]), array([1, 0]))
    >>> bool(distances.max() < 1e-6)
    True
    """
    found = topic_distances(components, others, distance=distance, n_words=n_words)
    rows, columns = linear_sum_assignment(found)
    return rows, columns, found[rows, columns]


def check_feature_names(feature_names, n_features):
    """Names of words as an array, or None; a ValueError if there are too few or too many."""
    if feature_names is None:
        return None
    names = np.asarray(feature_names)
    if names.shape != (n_features,):
        raise ValueError(
            f"feature_names has shape {names.shape}, but there are {n_features} features"
        )
    return names


def _probabilities(topics):
    """Topics in double precision, rows that sum to 1."""
    topics = topics.astype(np.float64)
    topics /= topics.sum(axis=1, keepdims=True)
    return topics


def _hellinger(p, q):
    return np.sqrt(np.maximum(1 - np.sqrt(p) @ np.sqrt(q).T, 0))


def _cosine(p, q):
    p = p / np.linalg.norm(p, axis=1, keepdims=True)
    q = q / np.linalg.norm(q, axis=1, keepdims=True)
    return 1 - p @ q.T


def _by_blocks(function, p, q):
    """A table of ``function(row of p, rows of q)``, some rows at a time."""
    step = max(1, BLOCK // p.shape[1])
    blocks = range(0, len(q), step)
    return np.array(
        [np.concatenate([function(row, q[first : first + step]) for first in blocks]) for row in p]
    )


def _total_variation(p, q):
    return _by_blocks(lambda row, rows: np.abs(row - rows).sum(axis=1) / 2, p, q)


def _entropy(p):
    """Bits of distributions, one a row."""
    return -np.einsum("ij,ij->i", p, np.log2(np.maximum(p, TINY)))


def _jensen_shannon(p, q):
    mixed = _by_blocks(lambda row, rows: _entropy((row + rows) / 2), p, q)
    divergence = mixed - (_entropy(p)[:, np.newaxis] + _entropy(q)) / 2
    return np.sqrt(np.maximum(divergence, 0))


def _shared_words(p, q, n_words):
    """How many top words topics share, and how many each has."""
    of_p, of_q = (_marked(topics, n_words) for topics in (p, q))
    return of_p @ of_q.T, of_p[0].sum()


def _marked(topics, n_words):
    """One for a topic's top words, zero for all others."""
    marks = np.zeros(topics.shape)
    np.put_along_axis(marks, top_words(topics, n_words), 1, axis=1)
    return marks


DISTANCES = {
    "hellinger": _hellinger,
    "jensen-shannon": _jensen_shannon,
    "total-variation": _total_variation,
    "cosine": _cosine,
}
SHARED_WORDS = {
    "jaccard": lambda shared, n_words: 1 - shared / (2 * n_words - shared),
    "overlap": lambda shared, n_words: 1 - shared / n_words,
}
