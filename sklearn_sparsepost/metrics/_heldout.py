"""Held-out quality of topic models, the same for every estimator."""

import copy
import warnings
from functools import partial

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.utils import check_random_state

from sklearn_sparsepost._checks import (
    check_count,
    check_counts,
    check_tokens,
    check_topics,
    number_array,
    positive_array,
)
from sklearn_sparsepost._models.documents import DirichletDocuments
from sklearn_sparsepost._models.inference import DirichletInference, TopicTable
from sklearn_sparsepost._run.chunks import split_units
from sklearn_sparsepost._run.collections import corpus_of, is_collection
from sklearn_sparsepost._run.dispatch import Corpus

# Probability that no word of a topic falls below, so that a topic's zeros cost but do not kill.
FLOOR = 1e-12
# Entries of a (hidden words x topics) table that is made at a time.
BLOCK = 1 << 22
# Stored counts of documents that are sampled together: a second or so between interrupts.
SAMPLED_CHUNK = 1 << 12
# Tokens of a document beyond which its estimate would take days.
MOST_TOKENS = 1 << 20


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
    return _split(X, observed, np.random.default_rng(random_state))


def _split(X, observed, rng):
    """Split counts of float64, which lose their duplicates."""
    X.sum_duplicates()
    mask = rng.random(X.nnz) < observed
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

    The document completion of Wang, Paisley & Blei (2011) as Hughes & Sudderth (2016) use it:
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
    topics, X, inference = _checked(components, X, doc_topic_prior, "document_completion")
    return complete_documents(
        topics,
        X,
        inference.dense(max_iter, tol),
        observed=observed,
        random_state=random_state,
        n_jobs=n_jobs,
    )


def left_to_right(
    components,
    X,
    *,
    doc_topic_prior=None,
    n_particles=20,
    random_state=0,
    per_document=False,
    n_jobs=None,
):
    """Mean log-probability of all tokens of documents, their topic weights integrated out.

    The left-to-right estimate of Wallach et al. (2009) [1]_: every token is predicted from those
    before it, averaged over particles that each hold a topic for every earlier token, and draw all
    of these anew before each prediction [2]_. Nothing is hidden, and no variational bound enters:
    what is estimated is the probability that the model gives to whole documents.

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
        Topics, non-negative; rows are normalised here.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Counts of words in held-out documents: whole numbers.
    doc_topic_prior : float or array-like of shape (n_components,), default=None
        Dirichlet prior of the documents' topic weights; by default 0.5 / n_components.
    n_particles : int, default=20
        How many particles predict each document. More of them make the estimate less noisy.
    random_state : int, RandomState instance or None, default=0
        Seed of the draws.
    per_document : bool, default=False
        Whether to return the log-probability of each document instead of the mean over tokens.
    n_jobs : int, default=None
        Cores to use: None for as many as OMP_NUM_THREADS or the cores allow.

    Returns
    -------
    score : float or ndarray of shape (n_samples,)
        Mean natural-log probability of a token, higher is better; NaN, with a warning, if there are
        no tokens. With `per_document` the estimated log-probability of all tokens of each document,
        0 for an empty one.

    Raises
    ------
    ValueError
        If topics or counts are negative or not finite, or of different widths, or if a count is not
        a whole number.

    See Also
    --------
    document_completion : Predicts some words given the rest; much faster for long documents.

    Notes
    -----
    Counts have no order, and under the model every order of a document's tokens has the same
    probability, which is estimated here: how many orders there are is not counted. Tokens are taken
    in a random one, keyed by `random_state` and the row. That of the columns would be an accident
    of the vocabulary, with all tokens of a word in a row.

    After every position the particles are chosen again, in proportion to how well they predicted
    it [3]_. Without this step the product of the positions' means is right only if particles forget
    their past in a single sweep; with it the estimated probability of a document (not its
    logarithm) is unbiased for any number of particles.

    The time grows with the square of a document's length. Results are the same for any number of
    workers and threads.

    References
    ----------
    .. [1] H. M. Wallach, I. Murray, R. Salakhutdinov, D. Mimno. Evaluation methods for topic
       models. ICML 2009.
    .. [2] W. Buntine. Estimating likelihoods for topic models. ACML 2009.
    .. [3] N. Chopin. A sequential particle filter method for static models. Biometrika 89, 2002.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsepost.datasets import make_lda_corpus
    >>> from sklearn_sparsepost.metrics import left_to_right
    >>> X, topics, _ = make_lda_corpus(100, 50, 3, doc_length=30, random_state=0)
    >>> blurred = np.ones_like(topics)
    >>> bool(left_to_right(topics, X) > left_to_right(blurred, X))
    True
    >>> left_to_right(topics, X[:4], per_document=True).shape
    (4,)
    """
    topics, X, inference = _checked(components, X, doc_topic_prior, "left_to_right")
    return predict_from_left(
        topics,
        X,
        inference,
        n_particles=n_particles,
        random_state=random_state,
        per_document=per_document,
        n_jobs=n_jobs,
    )


def _checked(components, X, doc_topic_prior, owner):
    """Topics, counts and an inference under a prior, all as users give them, checked."""
    topics = check_topics(components).astype(np.float64, copy=False)
    X = check_counts(X, owner)
    if X.shape[1] != topics.shape[1]:
        raise ValueError(f"X has {X.shape[1]} features, but components has {topics.shape[1]}")
    n_components = len(topics)
    if doc_topic_prior is None:
        doc_topic_prior = 0.5 / n_components
    shapes = {"one value": (), "one a topic": (n_components,)}
    alpha = positive_array(doc_topic_prior, "doc_topic_prior", shapes)
    alpha = np.broadcast_to(alpha, (n_components,)).copy()
    return topics, X, DirichletInference(DirichletDocuments(alpha), alpha)


def complete_documents(topics, X, inference, *, observed=0.8, random_state=0, n_jobs=None):
    """Document completion by any inference of documents.

    Parameters
    ----------
    topics : ndarray of shape (n_components, n_features), float64
        Topics, checked; rows are normalised here.
    X : csr_matrix, csr_array or Blocks of shape (n_samples, n_features)
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
    topics = _point_topics(topics)
    if is_collection(X):
        n_entries = X.each(_n_distinct)
        before = np.cumsum([0, *n_entries[:-1]]).tolist()
        given = topics, inference, observed, np.random.default_rng(random_state)
        parts = X.each(_completed_block, *given, beside=before)
        total, n_hidden = (sum(values) for values in zip(*parts, strict=True))
    else:
        parts = split_words(X, observed=observed, random_state=random_state)
        total, n_hidden = _completed(*parts, topics, inference, n_jobs)
    if not n_hidden:
        warnings.warn(
            "no document has both observed and hidden words: the score is NaN",
            UndefinedMetricWarning,
            stacklevel=3,  # where the score is asked for
        )
        return np.nan
    return total / n_hidden


def _completed(seen, hidden, topics, inference, n_jobs):
    """Sum of the hidden tokens' log-probabilities, and how many these are."""
    usable = (np.diff(seen.indptr) > 0) & (np.diff(hidden.indptr) > 0)
    seen, hidden = seen[usable], hidden[usable]
    table = TopicTable.of_probabilities(topics, _words_and_tokens(seen)[0])
    total = 0.0
    first = 0
    for weights in Corpus(seen, np.float64, n_jobs).map(inference.weights, table):
        total += _log_probability(hidden[first : first + len(weights)], weights, topics)
        first += len(weights)
    return total, hidden.sum()


def _n_distinct(block):
    """Distinct words of all documents of a block."""
    return _own_counts(block).nnz


def _own_counts(block):
    X = sp.csr_matrix(block, dtype=np.float64, copy=True)
    X.sum_duplicates()
    return X


def _completed_block(block, topics, inference, observed, rng, before):
    """As :func:`_completed`, of a block; so many entries of others have been dealt before."""
    rng = copy.deepcopy(rng)
    rng.bit_generator.advance(before)  # a draw an entry
    return _completed(*_split(_own_counts(block), observed, rng), topics, inference, 1)


def predict_from_left(
    topics, X, inference, *, n_particles=20, random_state=0, per_document=False, n_jobs=None
):
    """Left-to-right estimates by any inference of documents.

    Parameters
    ----------
    topics : ndarray of shape (n_components, n_features), float64
        Topics, checked; rows are normalised here.
    X : csr_matrix, csr_array or Blocks of shape (n_samples, n_features)
        Counts of words in held-out documents, checked.
    inference : object
        As `_models.inference` declares it.
    n_particles, random_state, per_document, n_jobs
        As for :func:`left_to_right`.

    Returns
    -------
    score : float or ndarray of shape (n_samples,)
        Mean natural-log probability of a token, or log-probabilities of documents.
    """
    check_count(n_particles, "n_particles", 1)
    check = partial(check_tokens, owner="left_to_right", most=MOST_TOKENS)
    if is_collection(X):
        corpus = corpus_of(X, np.float64, n_jobs)
        corpus.check(check)
        words, tokens = zip(*X.each(_words_and_tokens), strict=True)
        used, n_tokens = np.logical_or.reduce(words), sum(tokens)
    else:
        corpus = Corpus(check(X), np.float64, n_jobs)
        used, n_tokens = _words_and_tokens(corpus.X)
    seed = int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
    step = partial(inference.left_to_right, n_particles=n_particles)
    indptr, blocks = corpus.X.indptr, zip(corpus.edges[:-1], corpus.edges[1:], strict=True)
    chunks = [
        [run] for first, last in blocks for run in split_units(indptr, first, last, SAMPLED_CHUNK)
    ]
    table = TopicTable.of_probabilities(_point_topics(topics), used)
    value = np.concatenate(list(corpus.map(step, table, (seed,), chunks=chunks)))
    if per_document:
        return value
    if not X.nnz:
        warnings.warn(
            "no document has a word: the score is NaN",
            UndefinedMetricWarning,
            stacklevel=3,  # where the score is asked for
        )
        return np.nan
    return float(value.sum() / n_tokens)


def _point_topics(topics):
    """Topics whose rows sum to 1, none of their words impossible."""
    topics = topics / topics.sum(axis=1, keepdims=True)
    topics = np.maximum(topics, FLOOR)
    topics /= topics.sum(axis=1, keepdims=True)
    return topics


def _words_and_tokens(X):
    """Which words some documents have, and their number of tokens, a whole one."""
    used = np.zeros(X.shape[1], dtype=bool)
    used[X.indices] = True
    return used, float(X.sum(dtype=np.float64))


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
