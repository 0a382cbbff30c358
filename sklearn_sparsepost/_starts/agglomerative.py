"""First clusters of real vectors: many small ones, merged by what the model gains from it."""

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln
from sklearn.metrics import pairwise_distances

from sklearn_sparsepost._kernels import mixture as kernels
from sklearn_sparsepost._run.threads import single_blas

# How many clusters there are at first for each that is wanted, and the neighbours of each that it
# may be merged with.
SMALL_CLUSTERS, N_NEIGHBORS = 4, 4
# Steps of k-means from the clusters: fewer may gain evidence of data that they do no good.
MEAN_STEPS = 5
# Axes in which covariances are compared, the largest first; in the others variances are.
MOST_AXES = 24
# The least variance of a cluster, that of the others being 1: duplicates have none.
LEAST_VARIANCE = 1e-6
# Values are equal within this part of the largest: sums have an order.
ROUNDING = 1e-9
# Stands for 0 where it divides.
TINY = np.finfo(float).tiny
# Squared distances below this part of a square are found in double precision, times the root of
# the number of features: single precision rounds away a thousandth of them.
DOUBT = 1e3 * np.finfo(np.float32).eps
# Bytes of covariances that are looked at together.
BLOCK_BYTES = 2**20


def agglomerative_clusters(rows, distinct, weight, n_clusters, covariance_type, rng):
    r"""Hard clusters by model-based agglomeration, for Gaussians of the shape that is to be fitted.

    Four times as many rows as clusters are drawn, half uniformly and half by k-means++ [1]_: the
    former are where the data are dense, the latter see to it that no group is missed. The nearest
    rows of each are a small cluster; those two, of neighbours, are merged whose union gains most
    evidence [2]_, until as many are left as are wanted. Five steps of k-means follow where the
    evidence of all gains by them, as it does of embeddings. The evidence of a cluster of n rows
    with scatter matrix S is that of a Gaussian whose mean has a flat prior, and its precision a
    Wishart prior of :math:`\nu` degrees of freedom around the cluster's own mean variance t, so
    that narrow clusters are judged as wide ones are:

    .. math:: \log \frac{\Gamma_D((\nu + n - 1) / 2)}{\Gamma_D(\nu / 2)}
        + \frac{\nu}{2} \log |\nu t I| - \frac{\nu + n - 1}{2} \log |S + \nu t I|
        - \frac{D}{2} \log n - \frac{n - 1}{2} D \log \pi

    Matrices are those of the 24 discriminant axes that tell most. Along the others, features are
    taken for uncorrelated, with the evidence of variances (D = 1), but not left out: what a cluster
    looks like there is much of its density.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)
        The data.
    distinct : ndarray of shape (n_distinct, n_features)
        Different rows to draw from.
    weight : tuple of ndarray of shape (n_rows,) or None, and ndarray of shape (n_distinct,)
        Weights of both.
    n_clusters : int
        Number of clusters, K.
    covariance_type : {"full", "tied", "diag", "spherical"}
        The shape of the covariances.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    labels : ndarray of shape (n_rows,), intp
        The cluster of each row.

    References
    ----------
    .. [1] D. Arthur and S. Vassilvitskii, "k-means++: The advantages of careful seeding",
       SODA 2007.
    .. [2] J. D. Banfield and A. E. Raftery, "Model-based Gaussian and non-Gaussian clustering",
       Biometrics 49, 1993; C. Fraley, "Algorithms for model-based Gaussian hierarchical
       clustering", SIAM J. Sci. Comput. 20, 1998.
    """
    of_rows, of_distinct = weight
    n_small = min(SMALL_CLUSTERS * n_clusters, len(distinct))
    with single_blas():
        centres = _centres(distinct, of_distinct, n_small, rng)
        labels = _nearest(rows, centres)
        moments = _Moments(rows, labels, of_rows, n_small, covariance_type)
        clusters = _Clusters(*moments.of(labels, n_small))
        labels = clusters.merged(n_clusters)[labels]
        return _closer(rows, labels, moments, clusters)


def _closer(rows, labels, moments, clusters):
    """Labels after some steps of k-means, if evidence gains by the first and by all of them."""
    closer, before = labels, clusters.total()
    for step in range(MEAN_STEPS):
        members, count = moments.members(closer, closer.max() + 1)
        closer = _nearest(rows, members @ rows / count[:, None])
        if step in (0, MEAN_STEPS - 1):
            found = _Clusters(*moments.of(closer, len(count)))
            if found.total() <= before + ROUNDING * abs(before):
                return labels
        count = np.bincount(closer, moments.weight, minlength=len(count))
        closer = _ranks(count, np.flatnonzero(count))[closer]
    return closer


def _ranks(count, left):
    """New numbers of what is left, the largest last: in a process it is hardly ever idle."""
    rank = np.zeros(len(count), dtype=np.intp)
    rank[left[np.argsort(count[left], kind="stable")]] = np.arange(len(left))
    return rank


def _centres(rows, weight, n_centres, rng):
    """Rows to begin with: half of them anywhere, half far from each other."""
    if n_centres == len(rows):
        return rows
    far = _far_rows(rows, weight, max(1, n_centres // 2), rng)
    others = np.delete(np.arange(len(rows)), far)
    return rows[np.concatenate([far, rng.choice(others, n_centres - len(far), replace=False)])]


def _far_rows(rows, weight, n_rows, rng):
    """Numbers of different rows by k-means++: drawn by squared distances to those before."""
    rows = rows - rows.mean(axis=0, dtype=np.float64)
    square = np.einsum("ij,ij->i", rows, rows)
    found = [int(rng.choice(len(rows), p=weight / weight.sum()))]
    distance, last = np.full(len(rows), np.inf), np.empty(len(rows))
    for threshold in rng.random(n_rows - 1):
        np.matmul(rows, -2 * rows[found[-1]], out=last)
        last += square
        last += square[found[-1]]
        np.maximum(last, 0, out=last)
        np.minimum(distance, last, out=distance)
        sums = np.multiply(weight, distance, out=last).cumsum()
        drawn = sums.searchsorted(threshold * sums[-1], side="right")
        found.append(min(int(drawn), len(rows) - 1))  # all distances may be rounded to 0
    return np.array(list(dict.fromkeys(found)))


def _nearest(rows, centres, dtype=np.float32):
    """The nearest centre of each row, or one within a thousandth of the least distance."""
    n_features, around = rows.shape[1], centres.mean(axis=0, dtype=np.float64)
    centre = centres - around
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is in doubt
        # A feature that is 1 adds the squares in the product.
        table = np.vstack([-2 * centre.T, (centre**2).sum(axis=1)]).astype(dtype)
        step = max(1, BLOCK_BYTES // table[:1].nbytes)
        block, distance = (
            np.ones((step, n_features + 1), dtype),
            np.empty((step, len(centres)), dtype),
        )
        labels, doubt = np.empty(len(rows), dtype=np.intp), [np.empty(0, dtype=np.intp)]
        for first in range(0, len(rows), step):
            part = rows[first : first + step]
            held = slice(len(part))
            np.subtract(part, around, out=block[held, :-1], casting="same_kind")
            np.matmul(block[held], table, out=distance[held])
            distance[held].argmin(axis=1, out=labels[first : first + step])
            if dtype == np.float32:
                least = distance[np.arange(len(part)), labels[first : first + step]]
                square = np.einsum("ij,ij->i", block[held, :-1], block[held, :-1])
                known = least + square > DOUBT * np.sqrt(n_features) * square
                doubt.append(first + np.flatnonzero(~known))
    doubt = np.concatenate(doubt)
    if len(doubt):
        labels[doubt] = _nearest(rows[doubt], centres, np.float64)
    return labels


class _Moments:
    """Rows in coordinates in which clusters have variance 1, and moments of clusters in these.

    Coordinates of matrices are discriminant axes, along which means differ most beside the
    clusters' own variance.

    Parameters
    ----------
    rows, labels, weight, n_clusters, covariance_type
        Rows, their clusters, and what they count, None for once each.
    """

    def __init__(self, rows, labels, weight, n_clusters, covariance_type):
        self.weight, self.shape = weight, covariance_type
        share = np.ones(len(rows)) if weight is None else weight
        total = share.sum()
        gap = rows - share @ rows / total
        members, count = self.members(labels, n_clusters)
        means = members @ gap / np.where(count > 0, count, 1)[:, None]
        if covariance_type in ("full", "tied"):
            spread = (gap.T if weight is None else gap.T * weight) @ gap
            inside = spread - (means.T * count) @ means
            axes = np.sqrt(total) * _discriminant_axes(spread, inside + spread / total)
            step = max(1, BLOCK_BYTES // gap[:1].nbytes)
            for first in range(0, len(gap), step):
                gap[first : first + step] = gap[first : first + step] @ axes
            self.main = np.ascontiguousarray(gap[:, :MOST_AXES])
            self.squares = gap[:, MOST_AXES:] ** 2
        else:
            squares = share @ gap**2
            variances = np.maximum(squares - count @ means**2, 0) + squares / total
            if covariance_type == "spherical":
                variances = variances.mean(keepdims=True)
            gap /= np.sqrt(np.maximum(variances, max(1e-9 * variances.max(), TINY)) / total)
            self.squares = gap**2
        self.gap = gap

    def members(self, labels, n_clusters):
        """The weights of rows in clusters, a sparse matrix, and those of the clusters."""
        # Short numbers are sorted by their digits.
        order = labels.astype(np.min_scalar_type(n_clusters)).argsort(kind="stable")
        order = order.astype(np.int32)
        share = np.ones(len(order)) if self.weight is None else self.weight[order]
        first = np.searchsorted(labels[order], np.arange(n_clusters + 1)).astype(np.int32)
        members = sp.csr_array((share, order, first), shape=(n_clusters, len(order)))
        return members, members.sum(axis=1)

    def of(self, labels, n_clusters):
        """Weights, means and scatter of clusters.

        Scatter is matrices of the first axes, and diagonals of the further ones; diagonals; or
        (n_clusters, 1) sums of diagonals.
        """
        members, count = self.members(labels, n_clusters)
        means = members @ self.gap / np.where(count > 0, count, 1)[:, None]
        n_matrix = self.gap.shape[1] - self.squares.shape[1]
        squares = members @ self.squares - count[:, None] * means[:, n_matrix:] ** 2
        scatter = np.maximum(squares, 0)
        if self.shape == "spherical":
            scatter = scatter.sum(axis=1, keepdims=True)
        if self.shape in ("diag", "spherical"):
            return count, means, scatter, None
        near = means[:, :n_matrix]
        second = np.zeros((n_clusters, n_matrix, n_matrix))
        lists = members.indptr, members.indices, members.data
        kernels.scatter(self.main, *lists, second, np.empty((0, 0)))
        second -= np.einsum("k,ki,kj->kij", count, near, near)
        return count, means, second, scatter


def _discriminant_axes(spread, inside):
    """Axes along which data are spread most beside what is inside clusters, the largest first."""
    values, axes = np.linalg.eigh(inside)
    axes = axes / np.sqrt(np.maximum(values, max(1e-9 * values[-1], TINY)))
    between = axes.T @ spread @ axes
    return axes @ np.linalg.eigh(between)[1][:, ::-1]


class _Clusters:
    """Clusters that merge; those of no weight are left alone.

    Parameters
    ----------
    count, means, scatter, further : ndarray
        From :meth:`_Moments.of`.
    """

    def __init__(self, count, means, scatter, further=None):
        self.count, self.means, self.scatter = count, means, scatter
        # By default there are no further axes.
        self.further = np.empty((len(count), 0)) if further is None else further
        self.left = np.flatnonzero(count > 0)
        self.evidence = np.zeros(len(count))
        of_left = (part[self.left] for part in (count, scatter, self.further))
        self.evidence[self.left] = self._evidence(*of_left)

    def merged(self, n_clusters):
        """The cluster, of so many at most, that each cluster is in at last."""
        target = np.arange(len(self.count))
        pairs = gains = np.empty(0)
        while len(self.left) > n_clusters:
            if not len(pairs):
                pairs = self._neighbours()
                gains = self._gains(pairs)
            chosen = self._disjoint(pairs, gains, 1 + (len(self.left) - n_clusters) // 3)
            kept, absorbed = pairs[chosen].T
            self._merge(kept, absorbed)
            moves = np.arange(len(self.count))
            moves[absorbed] = kept
            target = moves[target]
            pairs, gains = self._renewed(np.sort(moves[pairs], axis=1), gains, kept)
        return _ranks(self.count, self.left)[target]

    def total(self):
        """The evidence of all data and, up to what no clusters change, of the labels."""
        return (self.evidence[self.left] + gammaln(self.count[self.left])).sum()

    def _neighbours(self):
        """Pairs of clusters whose means are close."""
        distance = _untied(pairwise_distances(self.means[self.left], metric="sqeuclidean"))
        np.fill_diagonal(distance, np.inf)
        n_near = min(N_NEIGHBORS, len(self.left) - 1)
        near = np.argpartition(distance, n_near - 1, axis=1)[:, :n_near]
        pairs = np.stack([np.repeat(np.arange(len(near)), n_near), near.ravel()], axis=1)
        return self.left[np.unique(np.sort(pairs, axis=1), axis=0)]

    @staticmethod
    def _disjoint(pairs, gains, most):
        """The best pairs, so many at most, no cluster twice."""
        found, used = [], set()
        for at in np.argsort(-_untied(gains), kind="stable").tolist():
            one, two = pairs[at].tolist()
            if one not in used and two not in used:
                found.append(at)
                used |= {one, two}
                if len(found) == most:
                    break
        return np.array(found)

    def _renewed(self, pairs, gains, changed):
        """Pairs once each, and their gains, anew where a cluster has changed."""
        apart = pairs[:, 0] < pairs[:, 1]
        pairs, first = np.unique(pairs[apart], axis=0, return_index=True)
        gains = gains[apart][first]
        stale = np.isin(pairs, changed).any(axis=1)
        gains[stale] = self._gains(pairs[stale])
        return pairs, gains

    def _union(self, one, two):
        """Weights, means, scatter and further scatter of pairs of clusters."""
        count = self.count[one] + self.count[two]
        share = self.count[two] / count
        gap = self.means[two] - self.means[one]
        spread = (self.count[one] * share)[:, None] * gap
        scatter = self.scatter[one] + self.scatter[two]
        further = self.further[one] + self.further[two]
        if scatter.ndim == 3:
            n_axes = scatter.shape[1]
            scatter += spread[:, :n_axes, None] * gap[:, None, :n_axes]
            further += spread[:, n_axes:] * gap[:, n_axes:]
        else:
            added = spread * gap
            scatter += added.sum(axis=1, keepdims=True) if scatter.shape[1] == 1 else added
        return count, self.means[one] + share[:, None] * gap, scatter, further

    def _gains(self, pairs):
        """What the evidence of data and of labels gains if pairs become one."""
        step = max(1, BLOCK_BYTES // max(self.scatter[0].nbytes, 1))
        gains = np.empty(len(pairs))
        for first in range(0, len(pairs), step):
            one, two = pairs[first : first + step].T
            count, _, scatter, further = self._union(one, two)
            both = self._evidence(count, scatter, further) + gammaln(count)
            apart = self.evidence[one] + self.evidence[two]
            apart += gammaln(self.count[one]) + gammaln(self.count[two])
            gains[first : first + step] = both - apart
        return gains

    def _merge(self, kept, absorbed):
        """Merge disjoint pairs."""
        found = self._union(kept, absorbed)
        self.count[kept], self.means[kept], self.scatter[kept], self.further[kept] = found
        self.evidence[kept] = self._evidence(found[0], *found[2:])
        self.left = np.setdiff1d(self.left, absorbed)

    def _evidence(self, count, scatter, further):
        """Log evidence of clusters."""
        n_further = further.shape[1]
        value = _evidence(count, scatter, self.means.shape[1] - n_further)
        return value + _evidence(count, further, n_further) if n_further else value


def _untied(values):
    """Values without the digits in which equal ones differ: weighted data end as repeated do."""
    unit = ROUNDING * np.abs(values).max(initial=TINY)
    return np.round(values / unit)


def _evidence(count, scatter, D):
    """Log evidence of clusters in so many features."""
    full = scatter.ndim == 3
    shared = D // scatter.shape[1]  # features that have one variance in common
    spread = np.einsum("kii->k", scatter) if full else scatter.sum(axis=1)
    variance = np.maximum(spread / (count * D), LEAST_VARIANCE)
    prior = D + 2.0 if full else 3.0
    nu = prior + count - 1
    scale = shared * prior * variance
    if full:
        scatter = scatter.copy()
        np.einsum("kii->ki", scatter)[...] += scale[:, None]
        factors = np.linalg.cholesky(scatter)
        log_det = 2 * np.log(np.einsum("kii->ki", factors)).sum(axis=1)
        lower = np.arange(D)
        log_gamma = gammaln(0.5 * (nu[:, None] - lower)) - gammaln(0.5 * (prior - lower))
    else:
        log_det = np.log(scatter + scale[:, None]).sum(axis=1) * shared
        log_gamma = gammaln(0.5 * shared * nu) - gammaln(0.5 * shared * prior)
        log_gamma = np.broadcast_to(log_gamma[:, None], (len(nu), scatter.shape[1]))
    value = log_gamma.sum(axis=1) + 0.5 * prior * D * np.log(scale) - 0.5 * nu * log_det
    return value - 0.5 * D * (np.log(count) + (count - 1) * np.log(np.pi))
