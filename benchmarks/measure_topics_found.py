"""How many topics or components are found in data that were drawn."""

from time import perf_counter

import numpy as np
import scipy.sparse as sp


def bars(corpus, n_topics, *, seeds=5, options=None, threads=1):
    """How many of ten noisy bars are found, and how soon (Hughes, Kim & Sudderth 2015, sec. 6.1).

    Parameters
    ----------
    corpus : str
        Not used: images are drawn, 1,000 of 30 x 30 pixels and 200 tokens, from one to three bars
        that are 6 pixels wide, and 5 % noise.
    n_topics : int
        Topics to begin with.
    seeds : int, default=5
        Of data and fits.
    options : dict, default=None
        Of SparseHDP.
    threads : int, default=1
        Threads.

    Returns
    -------
    result : dict
        Numbers of topics, passes and seconds, a list each.
    """
    from sklearn_sparsepost import SparseHDP

    result = {"topics": [], "passes": [], "seconds": []}
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        images = np.zeros((10, 30, 30))
        for i in range(5):
            images[i, 6 * i : 6 * i + 6] = images[5 + i, :, 6 * i : 6 * i + 6] = 1
        topics = images.reshape(10, -1)
        topics = 0.95 * topics / topics.sum(axis=1, keepdims=True) + 0.05 / 900
        X = np.empty((1000, 900), dtype=np.int32)
        for row in X:
            held = rng.choice(10, rng.integers(1, 4), replace=False)
            row[:] = rng.multinomial(200, rng.dirichlet(np.ones(len(held))) @ topics[held])
        hdp = SparseHDP(n_topics, max_iter=40, random_state=seed, **(options or {}))
        begun = perf_counter()
        hdp.fit(sp.csr_matrix(X))
        result["seconds"].append(perf_counter() - begun)
        result["topics"].append(hdp.n_components_)
        result["passes"].append(hdp.n_iter_)
    return result


def far_blobs(n_blobs, n_features, seed):
    """Gaussian clouds of different sizes and shapes, far from each other.

    Parameters
    ----------
    n_blobs : int
        How many.
    n_features : int
        Dimensions.
    seed : int
        Of all that is drawn.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        About 400 rows a cloud, the largest clouds four times the smallest; standard deviations
        from 0.4 to 1.4 along axes of their own, and centres at least 9 apart.
    """
    rng = np.random.default_rng((n_blobs, n_features, seed))
    share = rng.uniform(1, 4, n_blobs)
    centres = np.zeros((0, n_features))
    while len(centres) < n_blobs:
        centre = rng.normal(scale=6 * n_blobs ** (1 / n_features), size=(1, n_features))
        if (np.linalg.norm(centres - centre, axis=1) > 9).all():
            centres = np.concatenate([centres, centre])
    parts = []
    for centre, size in zip(centres, 400 * n_blobs * share / share.sum(), strict=True):
        axes = np.linalg.qr(rng.normal(size=(n_features, n_features)))[0]
        rows = rng.normal(size=(int(size), n_features)) * rng.uniform(0.4, 1.4, n_features)
        parts.append(centre + rows @ axes)
    return rng.permutation(np.concatenate(parts))


def blobs(corpus, n_topics, *, begun=1, seeds=5, options=None, threads=1):
    """How many of some far Gaussian clouds a Dirichlet process finds, in 2, 4 and 8 dimensions.

    Parameters
    ----------
    corpus : str
        Not used: clouds are drawn by :func:`far_blobs`.
    n_topics : int
        Clouds.
    begun : int, default=1
        Components to begin with.
    seeds : int, default=5
        Of data and fits, in each number of dimensions.
    options : dict, default=None
        Of SparseMixture.
    threads : int, default=1
        Threads.

    Returns
    -------
    result : dict
        Numbers of components in use, passes and seconds, a list each.
    """
    from sklearn_sparsepost import SparseMixture

    result = {"topics": [], "passes": [], "seconds": []}
    for n_features in (2, 4, 8):
        for seed in range(seeds):
            X = far_blobs(n_topics, n_features, seed)
            mixture = SparseMixture(
                begun,
                weight_concentration_prior_type="dirichlet_process",
                covariance_prior=np.eye(n_features),
                random_state=seed,
                **(options or {}),
            )
            started = perf_counter()
            mixture.fit(X)
            result["seconds"].append(perf_counter() - started)
            result["topics"].append(mixture.n_components_)
            result["passes"].append(mixture.n_iter_)
    return result
