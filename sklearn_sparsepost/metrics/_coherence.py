"""Coherence of topics: whether their top words occur together."""

import numpy as np
import scipy.sparse as sp

from sklearn_sparsepost._checks import check_count, check_counts, check_topics, number_array
from sklearn_sparsepost.metrics._topics import check_feature_names, top_words

# Tokens of a sliding window where none is asked for; whole documents for measures not named.
WINDOWS = {"uci": 10, "npmi": 10, "c_v": 110}


def coherence(
    components,
    reference,
    *,
    measure="npmi",
    n_words=10,
    window_size=None,
    feature_names=None,
    epsilon=1e-12,
    as_gensim=False,
):
    """Coherence of each topic: how often its top words occur together in a reference corpus.

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
        Topics, non-negative; rows need not sum to 1.
    reference : {sparse matrix, ndarray, dataframe} of shape (n_samples, n_features) or \
            iterable of sequences
        Where words are looked up: the training corpus, or a larger one. Counts, of which matters
        who is zero; or tokenised documents, each a sequence of column numbers (-1 for a token that
        is no feature) or, with `feature_names`, of strings, of which others than these are no
        features. Tokens that are no features keep their place in the windows.
    measure : {"npmi", "uci", "umass", "c_v"}, default="npmi"
        What is averaged. With P the share of documents, or of windows, that have a word or two,

        - "umass": log of P(i, j) / P(j) over pairs of which j is the likelier word [1]_;
        - "uci": pointwise mutual information, log of P(i, j) / (P(i) P(j)), over pairs [2]_;
        - "npmi": the same divided by -log P(i, j), from -1 to 1 [3]_ [4]_;
        - "c_v": the cosine between a word's NPMI with all top words and the sum of those of all,
          over words [5]_.
    n_words : int, default=10
        How many top words a topic, at least 2; all if there are fewer.
    window_size : int, default=None
        Tokens of the sliding windows that go over tokenised documents. By default as in the
        literature: 110 for "c_v", 10 for "npmi" and "uci", and whole documents for "umass". At
        least as large as the longest document it means whole documents. Counts have no order:
        there it must be None, and whole documents are meant.
    feature_names : array-like of shape (n_features,), default=None
        Names of the words, for documents of strings.
    epsilon : float, default=1e-12
        Added to P(i, j), so that words which never meet have a logarithm. ``1 / n_samples`` is the
        one more document of "umass" as it was first defined.
    as_gensim : bool, default=False
        Whether a word that is twice in a sliding window is forgotten once the first of the two has
        left, which is how gensim 4.4 counts, in place of staying until the second one leaves. For
        comparisons with its values.

    Returns
    -------
    coherence : ndarray of shape (n_components,), float64
        One value a topic, higher is better.

    Raises
    ------
    ValueError
        If topics or reference are not as described; the message names the row or the document.

    See Also
    --------
    topic_diversity : Whether topics repeat each other, which no coherence sees.

    Notes
    -----
    Values are those of gensim's `CoherenceModel` for the same words, documents and windows; where a
    word comes twice in a sliding window, with ``as_gensim=True``. Two exceptions are left. A ratio
    to the share of a word that the reference does not hold counts as 0, neither for nor against
    the topic, where gensim has infinity or NaN. NPMI of two words that are in all documents is 0,
    too: nothing can be said.

    References
    ----------
    .. [1] D. Mimno, H. M. Wallach, E. Talley, M. Leenders, A. McCallum. Optimizing semantic
       coherence in topic models. EMNLP 2011.
    .. [2] D. Newman, J. H. Lau, K. Grieser, T. Baldwin. Automatic evaluation of topic coherence.
       NAACL 2010.
    .. [3] G. Bouma. Normalized (pointwise) mutual information in collocation extraction. GSCL 2009.
    .. [4] J. H. Lau, D. Newman, T. Baldwin. Machine reading tea leaves: automatically evaluating
       topic coherence and topic model quality. EACL 2014.
    .. [5] M. Röder, A. Both, A. Hinneburg. Exploring the space of topic coherence measures. WSDM
       2015.

    Examples
    --------
    >>> from sklearn_sparsepost.metrics import coherence
    >>> documents = [["cat", "purr", "milk"], ["cat", "milk"], ["bus", "road"], ["road", "bus"]]
    >>> names = ["bus", "cat", "milk", "purr", "road"]
    >>> topics = [[5, 0, 0, 0, 4], [3, 4, 0, 0, 0]]
    >>> coherence(topics, documents, n_words=2, feature_names=names).round(2)
    array([ 1.  , -0.95])
    >>> X = [[0, 1, 1, 1, 0], [0, 1, 1, 0, 0], [1, 0, 0, 0, 1], [1, 0, 0, 0, 1]]
    >>> import numpy as np
    >>> coherence(topics, np.array(X), n_words=2).round(2)
    array([ 1.  , -0.95])
    """
    if measure not in MEASURES:
        legal = ", ".join(map(repr, MEASURES))
        raise ValueError(f"measure must be one of {legal}, got {measure!r}")
    topics = check_topics(components)
    n_features = topics.shape[1]
    check_count(n_words, "n_words", 2)
    epsilon = number_array(epsilon, "epsilon", {"one value": ()}, 1e-300, 1)
    if n_features < 2:
        raise ValueError("components has one feature, but coherence is about pairs of words")
    if window_size is not None:
        check_count(window_size, "window_size", 1)
    names = check_feature_names(feature_names, n_features)
    top = top_words(topics, n_words)
    words, local = np.unique(top, return_inverse=True)
    local = local.reshape(top.shape)
    if len(getattr(reference, "shape", ())) == 2:
        if window_size is not None:
            raise ValueError(
                "window_size must be None where reference is a matrix of counts: they have no order"
            )
        counts = _Documents(reference, words, n_features)
    else:
        tokens, lengths = _read_tokens(reference, words, n_features, names)
        size = window_size or WINDOWS.get(measure) or max(1, lengths.max())
        counts = _Windows(tokens, lengths, len(words), size, as_gensim)
    joint = np.array([counts.joint(row) for row in local])
    return MEASURES[measure](joint / counts.n_units, epsilon)


# ---------------------------------------------------------------- how often words meet


class _Documents:
    """In how many documents of a matrix of counts words are.

    Parameters
    ----------
    reference : array-like or sparse matrix of shape (n_samples, n_features)
        Counts, as given.
    words : ndarray of shape (n_words,)
        Columns that will be asked for.
    n_features : int
        How many columns there should be.
    """

    def __init__(self, reference, words, n_features):
        X = check_counts(reference, "coherence")
        if X.shape[1] != n_features:
            raise ValueError(
                f"reference has {X.shape[1]} features, but components has {n_features}"
            )
        self.n_units = X.shape[0]
        self.present = sp.csc_array(X[:, words], dtype=np.int64)
        self.present.sum_duplicates()
        self.present.data[:] = 1

    def joint(self, local):
        """How many documents have both of two words, for all pairs; on the diagonal, one word."""
        held = self.present[:, local]
        return (held.T @ held).toarray()


class _Windows:
    """In how many sliding windows words are.

    A word is in runs of neighbouring windows, which are found once; how long the runs of two words
    overlap is a sum over the places where some run begins or ends.

    Parameters
    ----------
    tokens : ndarray of shape (n_tokens,)
        Numbers of words, -1 for others.
    lengths : ndarray of shape (n_documents,)
        Tokens of each document.
    n_words : int
        How many words there are.
    size : int
        Tokens of a window; a shorter document is one window.
    as_gensim : bool
        Whether a word is forgotten with the first of its tokens that leaves.
    """

    def __init__(self, tokens, lengths, n_words, size, as_gensim):
        n_windows = np.maximum(lengths - size, 0) + 1
        self.n_units = int(n_windows.sum())
        document = np.repeat(np.arange(len(lengths)), lengths)
        place = np.arange(len(tokens)) - (np.cumsum(lengths) - lengths)[document]
        found = np.flatnonzero(tokens >= 0)
        found = found[np.argsort(tokens[found], kind="stable")]
        word, place, document = tokens[found], place[found], document[found]
        first = (np.cumsum(n_windows) - n_windows)[document]
        entered = np.maximum(place - size + 1, 0)  # the first of its document's windows
        if as_gensim:  # the word's first token in that window
            at = word * (len(tokens) + 1) + found
            place = place[np.searchsorted(at, at - place + entered)]
        start = first + entered
        stop = first + np.minimum(place + 1, n_windows[document])
        begins = np.ones(len(found), dtype=bool)  # a run: no gap to the same word's window before
        begins[1:] = (word[1:] != word[:-1]) | (start[1:] > stop[:-1])
        ends = np.ones(len(found), dtype=bool)
        ends[:-1] = begins[1:]
        self.start, self.stop = start[begins], stop[ends]
        self.pointer = np.searchsorted(word[begins], np.arange(n_words + 1))

    def joint(self, local):
        """How many windows have both of two words, for all pairs; on the diagonal, one word."""
        runs = [slice(self.pointer[w], self.pointer[w + 1]) for w in local]
        at = [edge[run] for run in runs for edge in (self.start, self.stop)]
        owner = np.repeat(np.repeat(np.arange(len(local)), 2), list(map(len, at)))
        change = np.repeat(np.tile([1.0, -1.0], len(local)), list(map(len, at)))
        at = np.concatenate(at)
        order = np.argsort(at, kind="stable")
        inside = np.zeros((len(at), len(local)))
        inside[np.arange(len(at)), owner[order]] = change[order]
        inside = np.cumsum(inside, axis=0)[:-1]
        return (inside * np.diff(at[order])[:, np.newaxis]).T @ inside


def _read_tokens(reference, words, n_features, names):
    """The tokens of documents as numbers of some words, -1 for others, and their lengths.

    Parameters
    ----------
    reference : iterable of sequences
        Documents, as given.
    words : ndarray of shape (n_words,)
        Columns of the words, ascending.
    n_features : int
        How many columns there are.
    names : ndarray of shape (n_features,) or None
        Names of the columns, if documents hold such.

    Returns
    -------
    tokens : ndarray of shape (n_tokens,), int64
        The tokens.
    lengths : ndarray of shape (n_documents,), int64
        Where documents end.
    """
    if isinstance(reference, str) or not hasattr(reference, "__iter__"):
        raise ValueError(
            "reference must be a matrix of counts or a sequence of tokenised documents, got "
            f"{reference!r}"
        )
    if names is None:
        number = np.full(n_features + 1, -1)  # the last one is that of the token -1
        number[words] = np.arange(len(words))
    else:
        number = {name: i for i, name in enumerate(names[words].tolist())}
    parts = []
    for d, document in enumerate(reference):
        if isinstance(document, str) or not hasattr(document, "__iter__"):
            raise ValueError(
                f"document {d} of reference must be a sequence of tokens, got {document!r}"
            )
        if names is None:
            parts.append(number[_columns(d, document, n_features)])
        else:
            parts.append(np.array([number.get(token, -1) for token in document], dtype=np.int64))
    if not parts:
        raise ValueError("reference has no documents")
    return np.concatenate(parts), np.array(list(map(len, parts)))


def _columns(d, document, n_features):
    """A document of column numbers as an array, or a ValueError that says what is wrong with it."""
    try:
        columns = np.asarray(document if isinstance(document, np.ndarray) else list(document))
    except ValueError as error:
        raise ValueError(f"document {d} of reference is no sequence of tokens: {error}") from error
    if not columns.size:
        return np.zeros(0, dtype=np.int64)
    if columns.dtype.kind not in "iu" or columns.ndim != 1:
        raise ValueError(
            f"document {d} of reference must hold column numbers, or strings with feature_names; "
            f"its first token is {columns[0]!r}"
        )
    outside = (columns < -1) | (columns >= n_features)
    if outside.any():
        raise ValueError(
            f"document {d} of reference has the token {columns[outside.argmax()]}, but components "
            f"has {n_features} features"
        )
    return columns


# ---------------------------------------------------------------- measures
# Each of an array of shape (n_components, n_words, n_words): the shares of units that have both of
# two top words, and on the diagonal one; by falling probability of words.


def _log_ratio(joint, base, epsilon):
    """log((joint + epsilon) / base), 0 where a word does not occur."""
    known = base > 0
    return np.where(known, np.log((joint + epsilon) / np.where(known, base, 1)), 0)


def _marginals(joint):
    """The shares of units that have one word."""
    return np.diagonal(joint, axis1=1, axis2=2)


def _pmi(joint, epsilon):
    single = _marginals(joint)
    return _log_ratio(joint, single[:, :, np.newaxis] * single[:, np.newaxis, :], epsilon)


def _npmi(joint, epsilon):
    surprise = -np.log(joint + epsilon)
    known = joint + epsilon < 1
    return np.where(known, _pmi(joint, epsilon) / np.where(known, surprise, 1), 0)


def _mean_of_pairs(values):
    """Mean over the pairs of which the second word is the likelier one."""
    return values[:, *np.tril_indices(values.shape[1], -1)].mean(axis=1)


def _umass(joint, epsilon):
    return _mean_of_pairs(_log_ratio(joint, _marginals(joint)[:, np.newaxis, :], epsilon))


def _c_v(joint, epsilon):
    npmi = _npmi(joint, epsilon)
    whole = npmi.sum(axis=1, keepdims=True)
    lengths = np.linalg.norm(npmi, axis=2) * np.linalg.norm(whole, axis=2)
    products = (npmi * whole).sum(axis=2)
    known = lengths > 0
    return np.where(known, products / np.where(known, lengths, 1), 0).mean(axis=1)


MEASURES = {
    "npmi": lambda joint, epsilon: _mean_of_pairs(_npmi(joint, epsilon)),
    "uci": lambda joint, epsilon: _mean_of_pairs(_pmi(joint, epsilon)),
    "umass": _umass,
    "c_v": _c_v,
}
