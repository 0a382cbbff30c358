"""Clusters of some units, that new components may begin from."""

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import KMeans

from sklearn_sparsepost._run.threads import single_blas
from sklearn_sparsepost._starts.bregman import bregman_kmeans_plusplus
from sklearn_sparsepost._starts.helpers import distinct_rows


def clusters_of(chunk, n_clusters, rng):
    """Cluster a chunk's rows.

    Parameters
    ----------
    chunk : Chunk or DenseChunk
        Counts, or vectors, whose features are scaled.
    n_clusters : int
        How many, at the most.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    labels : ndarray of shape (n_rows,)
        The cluster of each row.
    """
    if sp.issparse(chunk.rows):
        return bregman_kmeans_plusplus(chunk.rows, n_clusters, random_state=rng)[0]
    spread = chunk.rows.std(axis=0, dtype=np.float64)
    rows = chunk.rows / np.where(spread > 0, spread, 1)
    seed, n_distinct = int(rng.integers(2**31)), len(distinct_rows(rows)[0])
    with single_blas():
        clusters = KMeans(min(n_clusters, n_distinct), n_init=1, random_state=seed)
        return clusters.fit_predict(rows, sample_weight=chunk.weight)
