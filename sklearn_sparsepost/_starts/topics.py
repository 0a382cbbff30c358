"""Where a fit of topics begins: `init` turned into expected counts of words in topics."""

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment

from sklearn_sparsepost._checks import MOST_COUNT, number_array
from sklearn_sparsepost._run.chunks import deal_units, row_sums, runs_by_block
from sklearn_sparsepost._run.collections import corpus_of
from sklearn_sparsepost._run.threads import single_blas
from sklearn_sparsepost._starts import anchors, bregman, helpers


def first_counts(X, n_components, init, prior, dtype, rng, weight=None, **seeding):
    """Expected counts that the first topics stand for.

    Parameters
    ----------
    X : csr_matrix, csr_array or Blocks
        Counts of words in documents.
    n_components : int
        Number of topics.
    init : {"k-means++", "random", "anchor"} or array-like of shape (n_components, n_features)
        The estimator's parameter.
    prior : ndarray of shape (), (n_features,) or (n_components, n_features)
        The prior of the topics' words.
    dtype : dtype
        Type to compute in.
    rng : numpy.random.Generator
        Source of randomness.
    weight : ndarray of shape (n_samples,), default=None
        How often each document counts; None for once.
    **seeding
        Options of :func:`bregman_kmeans_plusplus`.

    Returns
    -------
    counts : ndarray of shape (n_features, n_components), float64
        The counts, without the prior.
    """
    K, n_features = n_components, X.shape[1]
    corpus = corpus_of(X, dtype, weight=weight)
    if not isinstance(init, str):
        return _counts_of_array(corpus, K, init, prior)
    if init == "random":
        noise = _random_topics(n_features, K, rng)
        counts = np.maximum(noise - np.broadcast_to(prior, (K, n_features)).T, 0)
    else:
        parts = _start_parts(X, rng)
        sample = corpus.chunk(parts[0])
        sample, held = sp.csr_matrix(sample.rows), sample.weight
        if init == "anchor":
            share = sample.shape[0] / X.shape[0] if weight is None else held.sum() / weight.sum()
            counts = anchors.anchor_words(sample, K, weight=held, random_state=rng) / share
        else:
            options = {"weight": held, "random_state": rng, **seeding}
            counts = bregman.bregman_kmeans_plusplus(sample, K, **options)[1]
            if len(parts) > 1:  # the words that the sample lacks matter as much as its own
                held = [runs_by_block(runs, corpus.edges) for runs in parts]
                chunks = [runs for part in held for runs in part.values()]
                counts = bregman.sum_of_nearest(corpus, chunks, counts)
    return _ordered_as(counts, prior) if prior.ndim == 2 else counts


def _random_topics(n_features, n_components, rng):
    """Gamma(100, 1/100) noise around 1: the usual start, poor for many topics.

    Parameters
    ----------
    n_features : int
        Number of words, V.
    n_components : int
        Number of topics, K.
    rng : np.random.Generator
        Source of randomness.

    Returns
    -------
    counts : ndarray of shape (n_features, n_components), float64
        The first statistics.
    """
    return rng.gamma(100.0, 0.01, size=(n_features, n_components))


def _counts_of_array(corpus, n_components, init, prior):
    shape = (n_components, corpus.X.shape[1])
    start = number_array(init, "init", {"topics x words": shape}, 0, MOST_COUNT)
    if np.allclose(start.sum(axis=1), 1):
        total = sum(corpus.map(_weighted_total, None))
        return np.ascontiguousarray(start.T) * (total / len(start))
    return np.maximum(start - np.broadcast_to(prior, shape), 0).T.copy()


def _weighted_total(chunk, globals_, key=None):
    """Tokens of a chunk, each as often as its document counts."""
    if chunk.weight is None:
        return chunk.data.sum(dtype=np.float64)
    return chunk.weight @ row_sums(chunk.indptr, chunk.data)


def _ordered_as(counts, prior):
    """The columns of `counts` in the order in which they fit the rows of a seeding prior best."""
    log_prior = np.log(prior / prior.sum(axis=1, keepdims=True))
    totals = np.maximum(counts.sum(axis=0), np.finfo(float).tiny)
    with single_blas():  # ties break by rounding
        fit = log_prior @ (counts / totals)
    topics, columns = linear_sum_assignment(fit, maximize=True)
    return np.ascontiguousarray(counts[:, columns[np.argsort(topics)]])


def _start_parts(X, rng):
    """Runs of rows of parts of the corpus, dealt at random, each small enough for the start.

    The start works on copies, which must not hold the whole of a memory-mapped corpus.
    """
    if X.nnz <= helpers.START_SIZE:
        return [[(0, X.shape[0])]]
    return deal_units(X.shape[0], min(-(-X.nnz // helpers.START_SIZE), X.shape[0]), rng)
