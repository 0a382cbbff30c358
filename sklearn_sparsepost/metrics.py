"""Held-out quality of topic models, the same for every estimator."""

import warnings

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import UndefinedMetricWarning

from sklearn_sparsepost._checks import (
    check_count,
    check_counts,
    check_topics,
    number_array,
    positive_array,
)
from sklearn_sparsepost._models.documents import DirichletDocuments
from sklearn_sparsepost._models.inference import DirichletInference, TopicTable
from sklearn_sparsepost._run.dispatch import Corpus

__all__ = ["document_completion", "split_words"]

# Probability that no word of a topic falls below, so that a topic's zeros cost but do not kill.
FLOOR = 1e-12
# Entries of a (hidden words x topics) table that is made at a time.
BLOCK = 1 << 22


def split_words(X, *, observed=0.8, random_state=0):
    """Split every document's distinct words at random into an observed and a hidden part.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Counts.
    observed : float, default=0.8
        Expected share of the distinct words that are observed.
    random_state : int, default=0
        Seed of the split.

    Returns
    -------
    seen : csr_matrix of shape (n_samples, n_features), float64
        The observed counts.
    hidden : csr_matrix of shape (n_samples, n_features), float64
        The hidden counts; `seen + hidden` is X.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from sklearn_sparsepost.metrics import split_words
    >>> X = sp.csr_matrix([[1, 2, 3, 4], [5, 0, 6, 7]])
    >>> seen, hidden = split_words(X, observed=0.5)
    >>> bool((seen + hidden != X).nnz)
    False
    """
    number_array(observed, "observed", {"one value": ()}, 0, 1)
    X = sp.csr_matrix(check_counts(X, "split_words"), dtype=np.float64, copy=True)
    X.sum_duplicates()
    mask = np.random.default_rng(random_state).random(X.nnz) < observed
    parts = []
    for keep in (mask, ~mask):
        part = sp.csr_matrix((np.where(keep, X.data, 0.0), X.indices, X.indptr), shape=X.shape)
        part = part.copy()
        part.eliminate_zeros()
        parts.append(part)
    return tuple(parts)


def document_completion(
    components,
    X,
    *,
    doc_topic_prior=None,
    observed=0.8,
    random_state=0,
    max_iter=100,
    tol=0.01,
    n_jobs=None,
):
    """Mean log-probability of hidden words given the rest of their documents.

    The document completion of Wang, Paisley & Blei (2011) as paper 000, appendix E, uses it:
    every document's distinct words are split at random, its topic weights are inferred from the
    observed ones by dense mean field under fixed topics, and the hidden tokens are scored under
    ``weights @ topics``. It is a mean per token: it depends neither on the size of the corpus nor
    on the bound a model was trained with, so it compares any two sets of topics.

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
        Topics, non-negative; rows are normalised here.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Counts of words in held-out documents.
    doc_topic_prior : float or array-like of shape (n_components,), default=None
        Dirichlet prior of the documents' topic weights; by default 0.5 / n_components.
    observed : float, default=0.8
        Expected share of the distinct words that are observed.
    random_state : int, default=0
        Seed of the split: the same split for every model.
    max_iter : int, default=100
        The most mean-field iterations a document.
    tol : float, default=0.01
        Change of expected topic counts at which a document's iterations stop.
    n_jobs : int, default=None
        Cores to use: None for as many as OMP_NUM_THREADS or the cores allow.

    Returns
    -------
    score : float
        Mean natural-log probability of a hidden token, higher is better; NaN, with a warning, if
        no document has both observed and hidden words.

    Raises
    ------
    ValueError
        If topics or counts are negative or not finite, or of different widths.

    References
    ----------
    .. [1] C. Wang, J. Paisley, D. Blei. Online variational inference for the hierarchical
       Dirichlet process. AISTATS 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsepost.datasets import make_lda_corpus
    >>> from sklearn_sparsepost.metrics import document_completion
    >>> X, topics, _ = make_lda_corpus(200, 50, 3, random_state=0)
    >>> blurred = np.ones_like(topics)
    >>> bool(document_completion(topics, X) > document_completion(blurred, X))
    True
    """
    check_count(max_iter, "max_iter", 1)
    number_array(tol, "tol", {"one value": ()}, 0, np.inf)
    topics = check_topics(components).astype(np.float64, copy=False)
    X = check_counts(X, "document_completion")
    if X.shape[1] != topics.shape[1]:
        raise ValueError(f"X has {X.shape[1]} features, but components has {topics.shape[1]}")
    n_components = len(topics)
    if doc_topic_prior is None:
        doc_topic_prior = 0.5 / n_components
    shapes = {"one value": (), "one a topic": (n_components,)}
    alpha = positive_array(doc_topic_prior, "doc_topic_prior", shapes)
    alpha = np.broadcast_to(alpha, (n_components,)).copy()
    inference = DirichletInference(DirichletDocuments(alpha), alpha).dense(max_iter, tol)
    return complete_documents(
        topics, X, inference, observed=observed, random_state=random_state, n_jobs=n_jobs
    )


def complete_documents(topics, X, inference, *, observed=0.8, random_state=0, n_jobs=None):
    """Document completion by any inference of documents.

    Parameters
    ----------
    topics : ndarray of shape (n_components, n_features), float64
        Topics, checked; rows are normalised here.
    X : csr_matrix or csr_array of shape (n_samples, n_features)
        Counts of words in held-out documents, checked.
    inference : object
        As `_models.inference` declares it.
    observed, random_state, n_jobs
        As for :func:`document_completion`.

    Returns
    -------
    score : float
        Mean natural-log probability of a hidden token.
    """
    topics = topics / topics.sum(axis=1, keepdims=True)
    topics = np.maximum(topics, FLOOR)
    topics /= topics.sum(axis=1, keepdims=True)
    seen, hidden = split_words(X, observed=observed, random_state=random_state)
    usable = (np.diff(seen.indptr) > 0) & (np.diff(hidden.indptr) > 0)
    seen, hidden = seen[usable], hidden[usable]
    if not hidden.nnz:
        warnings.warn(
            "no document has both observed and hidden words: the score is NaN",
            UndefinedMetricWarning,
            stacklevel=3,  # where the score is asked for
        )
        return np.nan
    used = np.zeros(seen.shape[1], dtype=bool)
    used[seen.indices] = True
    table = TopicTable.of_probabilities(topics, used)
    total = 0.0
    first = 0
    for weights in Corpus(seen, np.float64, n_jobs).map(inference.weights, table):
        total += _log_probability(hidden[first : first + len(weights)], weights, topics)
        first += len(weights)
    return total / hidden.sum()


def _log_probability(hidden, weights, topics):
    """Sum of count * log(weights @ topics) over the stored entries of `hidden`."""
    rows = np.repeat(np.arange(hidden.shape[0]), np.diff(hidden.indptr))
    step = max(1, BLOCK // len(topics))
    total = 0.0
    for first in range(0, hidden.nnz, step):
        part = slice(first, first + step)
        columns = topics[:, hidden.indices[part]]
        p = np.einsum("nk,kn->n", weights[rows[part]], columns)
        total += float(hidden.data[part] @ np.log(p))
    return total
