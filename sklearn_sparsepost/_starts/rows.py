"""Where a fit to rows begins: their model, moments of the data, and first responsibilities."""

from functools import partial

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.metrics import pairwise_distances_argmin

from sklearn_sparsepost._checks import MOST_VALUE, number_array
from sklearn_sparsepost._models.contract import Globals
from sklearn_sparsepost._models.gaussian import MATRICES, FullGaussian, TiedGaussian
from sklearn_sparsepost._models.gaussian_axes import AxisGaussian
from sklearn_sparsepost._models.observation import Observation
from sklearn_sparsepost._models.priors import discrete_observation, gaussian_observation
from sklearn_sparsepost._run.threads import single_blas
from sklearn_sparsepost._starts import bregman, helpers
from sklearn_sparsepost._starts.agglomerative import agglomerative_clusters

# Of more rows than this, a random part begins. Random responsibilities are this many at most.
START_ROWS = 50_000
# Small clusters are found of no more than so many a component, or in all.
START_ROWS_EACH, LEAST_START_ROWS = 400, 10_000
# k-means++ chooses among this many rows, or so many a component; with small clusters first, too.
SEED_ROWS, SEEDS_EACH = 10_000, 5
SMALL_SEED_ROWS, SMALL_SEEDS_EACH = 4000, 40
# By default clusters of counts are chosen among few: so many a component, draws, and judges of
# each. What is lost by that is little beside what is gained by blurring.
COUNT_SEEDS_EACH, COUNT_TRIALS, COUNT_JUDGES = 16, 8, 500
# How much of a component of counts is what all data have in common.
BLUR = 0.9
# Pseudo-counts a feature where counts are compared with probabilities.
SMOOTHING = 0.03


def new_observation(estimator, corpus, depth=6):
    """The observation model that an estimator's parameters ask for.

    Parameters
    ----------
    estimator : BaseEstimator
        With the parameters of SparseMixture that say what observations look like.
    corpus : Corpus
        The data, from which priors follow where they are not given; its units are rows.
    depth : int, default=6
        As for :func:`gaussian_observation`.

    Returns
    -------
    observation : Observation
        The model.

    Raises
    ------
    ValueError
        If a prior is out of range, or the user's own model is none.
    """
    kind = estimator.observation
    if callable(kind):
        found = kind(estimator, corpus.given, corpus.weight)
        if not isinstance(found, Observation):
            raise ValueError(
                f"observation={kind!r} must return an instance of "
                f"sklearn_sparsepost.observations.Observation, got {found!r}"
            )
        return found
    if kind == "gaussian":
        moments = data_moments(corpus, estimator.assume_centered, estimator.covariance_type)
        return gaussian_observation(
            estimator.get_params(deep=False),
            *moments,
            n_samples=corpus.n_samples,
            dtype=corpus.dtype,
            depth=depth,
        )
    return discrete_observation(
        kind, estimator.estimation, estimator.feature_prior, corpus.X.shape[1]
    )


def data_moments(corpus, assume_centered, covariance_type):
    """Mean and covariance of weighted rows, read chunk by chunk.

    Parameters
    ----------
    corpus : Corpus
        Dense data.
    assume_centered : bool
        Whether to take the covariance around 0.
    covariance_type : {"full", "tied", "diag", "spherical"}
        The shape of the covariance.

    Returns
    -------
    mean : ndarray of shape (n_features,)
        The mean.
    covariance : ndarray
        The covariance, of weights that count repetitions.
    """
    sums = list(corpus.map(_weighted_sum, None))
    total = sum(weight for weight, _ in sums)
    mean = sum(part for _, part in sums) / total
    around = np.zeros_like(mean) if assume_centered else mean
    globals_ = Globals(around=around, full=covariance_type in MATRICES)
    covariance = sum(corpus.map(_scatter, globals_))
    # Weights that sum to less than 2 count no repetitions.
    covariance = covariance / (total if assume_centered or total < 2 else total - 1)
    return mean, covariance.mean() if covariance_type == "spherical" else covariance


def _weighted_sum(chunk, globals_, key=None):
    weight = np.ones(chunk.n_rows) if chunk.weight is None else chunk.weight
    return weight.sum(), weight @ chunk.rows.astype(np.float64, copy=False)


def _scatter(chunk, globals_, key=None):
    gap = chunk.rows - globals_.around
    if chunk.weight is not None:
        gap *= np.sqrt(chunk.weight)[:, None]
    return gap.T @ gap if globals_.full else (gap**2).sum(axis=0)


def first_responsibilities(
    corpus,
    n_components,
    init_params,
    means_init,
    shape,
    rng,
    name="means_init",
    assume_centered=False,
):
    """Responsibilities to begin with, of all rows or of a random part.

    Parameters
    ----------
    corpus : Corpus
        The data.
    n_components : int
        Number of components.
    init_params : {"agglomerative", "k-means++", "kmeans", "random_from_data", "random"}
        The estimator's parameter.
    means_init : array-like of shape (n_components, n_features) or None
        The estimator's parameter.
    shape : {"full", "tied", "diag", "spherical"}
        The shape of the components' covariances, for "agglomerative".
    rng : numpy.random.Generator
        Source of randomness.
    name : str, default="means_init"
        What the estimator calls the means.
    assume_centered : bool, default=False
        Whether the components' means will be 0, for "agglomerative".

    Returns
    -------
    rows : ndarray or csr_array of shape (n_rows, n_features)
        The rows.
    index, resp : ndarray of shape (n_rows, L)
        Components and responsibilities.
    weight : ndarray of shape (n_rows,) or None
        Weights of the rows.
    share : float
        The rows' share of the whole weight.
    """
    n_samples = corpus.n_samples
    random = init_params == "random" and means_init is None
    size = START_ROWS
    if random:
        size = max(helpers.START_SIZE // n_components, 4 * n_components)
    elif init_params == "agglomerative" and means_init is None and not sp.issparse(corpus.X):
        size = min(size, max(LEAST_START_ROWS, START_ROWS_EACH * n_components))
    runs = [(0, n_samples)]
    if n_samples > size:
        held = np.sort(rng.choice(n_samples, size, replace=False))
        edges = np.flatnonzero(np.diff(held, prepend=-2, append=n_samples + 1) > 1)
        runs = list(zip(held[edges[:-1]].tolist(), (held[edges[1:] - 1] + 1).tolist(), strict=True))
    chunk = corpus.chunk(runs)
    weight, rows = chunk.weight, chunk.rows
    share = 1.0
    if n_samples > size:
        share = size / n_samples if weight is None else weight.sum() / corpus.weight.sum()
    if random:
        resp = rng.random((min(size, n_samples), n_components))
        resp /= resp.sum(axis=1, keepdims=True)
        index = np.broadcast_to(np.arange(n_components, dtype=np.int32), resp.shape)
        return rows, index, resp, weight, share
    clusters = partial(
        agglomerative_clusters, covariance_type=shape, rng=rng, assume_centered=assume_centered
    )
    labels = _labels(rows, n_components, init_params, means_init, clusters, weight, rng, name)
    return rows, labels[:, None].astype(np.int32), np.ones((len(labels), 1)), weight, share


def blurred(stats):
    """Statistics of components of which most is what all have in common.

    Parameters
    ----------
    stats : SuffStats
        Of clusters; dense.

    Returns
    -------
    stats : SuffStats
        Of as much data, as if each row belonged to its cluster for a part only, and to all
        components alike for the rest.
    """
    new = stats.copy()
    for name, array in new.arrays.items():
        if new.axes[name] is not None:
            array *= 1 - BLUR
            array += BLUR * stats.arrays[name].mean(axis=new.axes[name], keepdims=True)
    return new


def given_means(means_init, shape, dtype, positive=False, name="means_init"):
    """The first means that users give, checked."""
    most = MOST_VALUE[dtype]
    shapes = {"components x features": shape}
    return number_array(means_init, name, shapes, 0 if positive else -most, most)


def check_given(given, shape, dtype, covariance_type):
    """The first weights and precisions that users give, checked.

    Parameters
    ----------
    given : dict of str to array-like or None
        `weights_init` and `precisions_init`.
    shape : tuple of int
        Numbers of components and of features.
    dtype : dtype
        Type of the data.
    covariance_type : {"full", "tied", "diag", "spherical"} or None
        The shape of the Gaussians' covariances, if they are Gaussians.

    Returns
    -------
    weights : ndarray of shape (n_components,) or None
        The weights, which sum to 1.
    precisions : ndarray or None
        The precisions, shaped by `covariance_type`.

    Raises
    ------
    ValueError
        If they have another shape, or are no weights or precisions.
    """
    weights, precisions = given["weights_init"], given["precisions_init"]
    if weights is not None:
        shapes = {"one a component": shape[:1]}
        weights = number_array(weights, "weights_init", shapes, 0.0, 1.0)
        if not np.isclose(weights.sum(), 1.0):
            raise ValueError(f"weights_init must sum to 1, got a sum of {weights.sum():.6g}")
        weights = weights / weights.sum()
    if precisions is None:
        return weights, None
    if covariance_type is None:
        raise ValueError("precisions_init is for observation='gaussian' only")
    K, D = shape
    shape = {"full": (K, D, D), "tied": (D, D), "diag": (K, D), "spherical": (K,)}[covariance_type]
    most = MOST_VALUE[dtype] ** 2
    shapes = {f"covariance_type={covariance_type!r}": shape}
    precisions = number_array(precisions, "precisions_init", shapes, -most, most)
    least = precisions
    if covariance_type in MATRICES:
        if not np.allclose(precisions, np.swapaxes(precisions, -1, -2)):
            raise ValueError("precisions_init must be symmetric")
        least = np.linalg.eigvalsh(precisions)
    if least.min() < 1 / most:
        raise ValueError("precisions_init must be positive definite")
    return weights, precisions


def with_given(stats, observation, weights, means, precisions):
    """Statistics of a start, changed to say what users give.

    Parameters
    ----------
    stats : SuffStats
        Of the start, scaled to all data.
    observation : Observation
        The observation model.
    weights : ndarray of shape (n_components,) or None
        The first weights.
    means : array-like of shape (n_components, n_features) or None
        The first means of Gaussians.
    precisions : ndarray or None
        The first precisions of Gaussians.

    Returns
    -------
    stats : SuffStats
        Of as much data; all that is not given stays.
    """
    if isinstance(observation, (FullGaussian, TiedGaussian, AxisGaussian)):
        return observation.with_moments(stats, weights, means, precisions)
    if weights is None:
        return stats
    stats = stats.copy()
    before = stats["count"]
    after = weights * before.sum()
    ratio = np.divide(after, before, out=np.zeros_like(after), where=before > 0)
    for name, array in stats.arrays.items():
        if name != "count" and stats.axes[name] is not None:
            np.moveaxis(array, stats.axes[name], -1)[...] *= ratio
    stats.arrays["count"] = after
    return stats


def _labels(rows, n_components, init_params, means_init, clusters, weight, rng, name):
    """The nearest of the first means for each row."""
    sparse = sp.issparse(rows)
    if means_init is not None:
        means = given_means(means_init, (n_components, rows.shape[1]), rows.dtype, sparse, name)
        if sparse:
            smoothing = np.full(rows.shape[1], SMOOTHING)
            return bregman.nearest(rows, sp.csr_array(means * rows.sum()), smoothing)
    else:
        if sparse:
            if init_params not in ("agglomerative", "k-means++"):
                raise ValueError(f"init_params={init_params!r} is for dense observations")
            held = np.arange(rows.shape[0]) if weight is None else np.flatnonzero(weight)
            labels = np.zeros(rows.shape[0], dtype=np.intp)  # what weighs nothing may be anywhere
            few = {}
            if init_params == "agglomerative":
                few = {
                    "max_samples": COUNT_SEEDS_EACH * n_components,
                    "n_local_trials": COUNT_TRIALS,
                    "n_scored": COUNT_JUDGES,
                }
            labels[held] = bregman.bregman_kmeans_plusplus(
                rows[held], n_components, random_state=rng, **few
            )[0]
            return labels
        of_rows = weight
        distinct, weight = helpers.distinct_rows(rows, weight)
        agglomerative = init_params == "agglomerative"
        drawn = max(SEED_ROWS, SEEDS_EACH * n_components)
        if agglomerative:
            drawn = max(SMALL_SEED_ROWS, SMALL_SEEDS_EACH * n_components)
        if len(distinct) > drawn:
            held = np.sort(rng.choice(len(distinct), drawn, replace=False))
            distinct, weight = distinct[held], weight[held]
        distinct = rows[distinct]
        if agglomerative:
            return clusters(rows, distinct, (of_rows, weight), n_components)
        means = _first_means(distinct, min(n_components, len(distinct)), init_params, weight, rng)
    with single_blas():
        return pairwise_distances_argmin(rows, means.astype(rows.dtype, copy=False))


def _first_means(rows, n_components, init_params, weight, rng):
    """K of some distinct rows, or the centres of their clusters."""
    if init_params == "random_from_data":
        return rows[rng.choice(len(rows), n_components, replace=False)]
    seed = int(rng.integers(2**31))
    with single_blas():
        if init_params == "kmeans":
            clusters = KMeans(n_components, n_init=1, random_state=seed)
            return clusters.fit(rows, sample_weight=weight).cluster_centers_
        return kmeans_plusplus(rows, n_components, sample_weight=weight, random_state=seed)[0]
