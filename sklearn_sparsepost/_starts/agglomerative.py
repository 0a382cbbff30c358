"""First clusters of real vectors: many small ones, merged by what the model gains from it."""

from copy import copy

import numpy as np
from scipy.spatial.distance import pdist, squareform

from sklearn_sparsepost._kernels import clusters as kernels
from sklearn_sparsepost._kernels import matrices, merges, mixture
from sklearn_sparsepost._run.threads import single_blas

# How many clusters there are at first for each that is wanted, and for each beyond so many.
SMALL_CLUSTERS, LATER_CLUSTERS, MANY = 4, 3, 30
# The neighbours that a cluster may be merged with: one in so many clusters, within these limits; of
# means that will be 0 the least, since far parts of one component look as if they were two.
ONE_IN, LEAST_NEIGHBORS, MOST_NEIGHBORS = 30, 4, 10
# The centres of small clusters are moved once, to the mean of the nearest of a part of the rows: so
# many a cluster, and so many at least.
MOVING_ROWS_EACH, MOVING_ROWS = 8, 4000
# Of small clusters those with so many times the average weight are cut into shells, and unions of
# so many times what is the average at last have to gain more.
MOST_WEIGHT = 4
# Steps of k-means from the clusters: fewer may gain evidence of data that they do no good.
MEAN_STEPS = 3
# So many rows a cluster are enough to see whether they gain.
MEAN_ROWS = 50
# Axes in which covariances are compared, the largest first; in the others variances are.
MOST_AXES = 24
# Values are equal within this part of the largest: sums have an order.
ROUNDING = 1e-9
# Stands for 0 where it divides.
TINY = np.finfo(float).tiny
# Squared distances below this part of a square are found in double precision, times the root of
# the number of features: single precision rounds away a thousandth of them.
DOUBT = 1e3 * np.finfo(np.float32).eps
# Bytes of rows that are looked at together.
BLOCK_BYTES = 2**20


def agglomerative_clusters(
    rows, distinct, weight, n_clusters, covariance_type, rng, *, assume_centered=False
):
    r"""Hard clusters by model-based agglomeration, for Gaussians of the shape that is to be fitted.

    Four times as many rows as clusters are drawn, three for each cluster beyond the thirtieth, half
    uniformly and half by k-means++ [1]_: the former are where the data are dense, the latter see to
    it that no group is missed. Each moves to the mean of the rows nearest to it, of a part of the
    rows, and then the nearest rows of each are a small cluster, or shells around it if
    they weigh more than four times the average: what is densest near a centre, or repeated, has a
    width of its own. Those two are merged whose union gains most evidence [2]_, of each cluster and
    its neighbours, a thirtieth of all but four at least and ten at most (four where means will be
    0), until as many are left as are wanted. Unions that would weigh more than four times the
    average of these come last, unless they gain nearly as much a row as two halves of one Gaussian
    do. Three steps of k-means follow, of fifty rows a cluster
    and then of all, where the evidence of all gains by them, as it does of embeddings. The evidence
    of a cluster of n rows with scatter matrix S is that of a Gaussian
    whose mean has a flat prior, and its precision a Wishart prior of :math:`\nu` degrees of freedom
    around the cluster's own mean variance t, so that narrow clusters are judged as wide ones are:

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
    assume_centered : bool, default=False
        Whether the components' means will be 0: then there are four neighbours only.

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
    n_small = SMALL_CLUSTERS * min(n_clusters, MANY) + LATER_CLUSTERS * max(n_clusters - MANY, 0)
    n_small = min(n_small, len(distinct))
    with single_blas():
        rows = _Rows(rows, of_rows, covariance_type in ("full", "tied"))
        centres = _moved(rows, _centres(distinct, of_distinct, n_small, rng), rng)
        labels, n_small = _shells(rows, rows.nearest(centres), centres)
        moments = _Moments(rows, labels, n_small, covariance_type)
        clusters = _Clusters(*moments.of(labels, n_small))
        most = LEAST_NEIGHBORS if assume_centered else MOST_NEIGHBORS
        labels = clusters.merged(n_clusters, most)[labels]
        return _closer(labels, clusters.total(), moments, rng)


def _closer(labels, evidence, moments, rng):
    """Labels after some steps of k-means, if evidence gains by the first and by all of them.

    Where there are many rows, all steps but a last one are of some of them.
    """
    part, closer, n_rows = moments, labels, MEAN_ROWS * (labels.max() + 1)
    if len(labels) > n_rows:
        held = np.sort(rng.choice(len(labels), n_rows, replace=False))
        part = moments.of_rows(held)
        closer = part.rows.numbered(labels[held])
    before = evidence if part is moments else part.evidence(closer)
    for step in range(MEAN_STEPS):
        closer = _by_means(part.rows, part.rows, closer)
        if step == 0 and not _more(part.evidence(closer), before):
            return labels
    if part is not moments:
        closer = _by_means(moments.rows, part.rows, closer)
    return closer if _more(moments.evidence(closer), evidence) else labels


def _more(found, before):
    """Whether evidence is higher by more than rounding."""
    return found > before + ROUNDING * abs(before)


def _by_means(rows, part, labels):
    """Labels of rows by the means that labels of a part of them give."""
    return rows.numbered(rows.nearest(part.means(labels, labels.max() + 1) + part.around))


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


def _moved(rows, centres, rng):
    """Centres after a step of k-means, of a part of the rows: means differ less than rows do."""
    n_centres = len(centres)
    n_rows = max(MOVING_ROWS, MOVING_ROWS_EACH * n_centres)
    if len(rows.rows) > n_rows:
        rows = rows.part(np.sort(rng.choice(len(rows.rows), n_rows, replace=False)))
    labels = rows.nearest(centres)
    held = rows.count(labels, n_centres) > 0
    return np.where(held[:, None], rows.means(labels, n_centres) + rows.around, centres)


def _far_rows(rows, weight, n_rows, rng):
    """Numbers of different rows by k-means++: drawn by squared distances to those before."""
    gap = rows - rows.mean(axis=0, dtype=np.float64)
    gap *= _scale(max(gap.max(), -gap.min()))
    found = np.empty(n_rows, dtype=np.intp)
    found[0] = rng.choice(len(rows), p=weight / weight.sum())
    columns = np.ascontiguousarray(gap.T, dtype=np.float32)
    kernels.draw_far_rows(columns, weight, rng.random(n_rows - 1), found)
    return np.array(list(dict.fromkeys(found.tolist())))


def _scale(most):
    """A power of 2, which rounds nothing, that leaves values of so much below 1."""
    return 2.0 ** -max(np.frexp(most)[1] + 1, -1000)


def _shells(rows, labels, centres):
    """Labels of clusters of which the heaviest are cut into shells, and how many there are then.

    Shells of a cluster weigh about the same, but for rows that are as far from its centre.
    """
    n_clusters = len(centres)
    count = rows.count(labels, n_clusters)
    parts = np.ceil(count * (n_clusters / MOST_WEIGHT / rows.total)).astype(np.intp)
    held = np.flatnonzero(parts[labels] > 1)
    if len(held) == 0:
        return labels, n_clusters
    of = labels[held]
    gap = rows.single[held]
    gap -= rows.scaled(centres).astype(np.float32)[of]
    square = np.einsum("ij,ij->i", gap, gap)
    order = np.lexsort((square, of))
    held, of, square = held[order], of[order], square[order]
    weight = rows.weight[held] if len(rows.weight) else np.ones(len(held))
    inside = weight.cumsum() - weight
    first = np.append(True, of[1:] != of[:-1])
    # The first of the rows that are as far, and the first of the cluster's.
    tied = first | np.append(True, square[1:] != square[:-1])
    inside = inside[tied][tied.cumsum() - 1] - inside[first][first.cumsum() - 1]
    # What weighs nothing may be behind all.
    shell = np.minimum(inside * parts[of] / count[of], parts[of] - 1).astype(np.intp)
    further = np.maximum(parts - 1, 0)
    begin = n_clusters + further.cumsum() - further
    labels = labels.copy()
    labels[held] = np.where(shell > 0, begin[of] + shell - 1, of)
    return labels, n_clusters + further.sum()


class _Rows:
    """Rows, their differences from their mean in single precision, scaled, and sums of these.

    Parameters
    ----------
    rows, weight
        Rows, and what they count, None for once each.
    matrix : bool
        Whether `spread` is the sums of the differences' products, or of their squares alone.
    """

    def __init__(self, rows, weight, matrix):
        self.rows = np.ascontiguousarray(rows)
        self.weight = np.empty(0) if weight is None else np.ascontiguousarray(weight, dtype=float)
        share = self.weight if len(self.weight) else np.ones(len(rows))
        self.total = share.sum()
        sums, most = np.zeros(rows.shape[1]), 0.0
        for held in self.blocks():
            part = rows[held]
            sums += share[held] @ part
            most = max(most, part.max(), -part.min())
        self.around = sums / self.total
        self.scale = _scale(most)  # no square is above the number of features then
        self.single = np.empty(rows.shape, dtype=np.float32)
        spread = 0.0
        for held, gap in self.gaps():
            np.multiply(gap, self.scale, out=self.single[held], casting="same_kind")
            if matrix:
                spread = spread + _products(gap, [0, len(gap)], np.arange(len(gap)), share[held])
            else:
                spread = spread + share[held] @ gap**2
        self.spread = _squares(spread)[0] if matrix else spread
        self.square = np.einsum("ij,ij->i", self.single, self.single)

    def blocks(self):
        """Slices of rows that stay in cache."""
        step = max(1, BLOCK_BYTES // (8 * self.rows.shape[1]))
        for first in range(0, len(self.rows), step):
            yield slice(first, min(first + step, len(self.rows)))

    def gaps(self):
        """Slices, and the differences of their rows from the mean: an array until the next."""
        out = None
        for held in self.blocks():
            out = np.empty(self.rows[held].shape) if out is None else out
            yield held, np.subtract(self.rows[held], self.around, out=out[: held.stop - held.start])

    def scaled(self, points):
        """Points as `single` has rows, in double precision."""
        return (points - self.around) * self.scale

    def nearest(self, centres):
        """The nearest centre of each row, or one within a thousandth of the least distance."""
        scaled = self.scaled(centres)
        labels = np.empty(len(self.rows), dtype=np.intp)
        kernels.nearest_centres(
            self.single,
            self.square,
            (-2 * scaled).astype(np.float32),
            (scaled**2).sum(axis=1).astype(np.float32),
            self.rows,
            np.ascontiguousarray(centres, dtype=np.float64),
            DOUBT * np.sqrt(self.rows.shape[1]),
            labels,
        )
        return labels

    def numbered(self, labels):
        """Labels without those that nothing has, the largest cluster's last."""
        count = self.count(labels, labels.max() + 1)
        return _ranks(count, np.flatnonzero(count))[labels]

    def part(self, held):
        """Some of the rows, with the same mean to be compared by."""
        part = copy(self)
        part.rows, part.single, part.square = self.rows[held], self.single[held], self.square[held]
        part.weight = self.weight[held] if len(self.weight) else self.weight
        return part

    def count(self, labels, n_clusters):
        """Weights of clusters."""
        return np.bincount(labels, self.weight if len(self.weight) else None, n_clusters) + 0.0

    def means(self, labels, n_clusters):
        """Means of clusters, less the mean of all."""
        sums, none = np.zeros((n_clusters, self.rows.shape[1])), np.empty((n_clusters, 0))
        kernels.label_sums(self.rows, labels, self.weight, self.around, sums, none)
        return sums / _divisor(self.count(labels, n_clusters))


def _divisor(count):
    """Weights of clusters, 1 of those that are empty."""
    return np.where(count > 0, count, 1)[:, None]


class _Moments:
    """Rows in coordinates in which clusters have variance 1, and moments of clusters in these.

    Coordinates of matrices are discriminant axes, along which means differ most beside the
    clusters' own variance.

    Parameters
    ----------
    rows : _Rows
        Rows.
    labels, n_clusters, covariance_type
        Their clusters, how many, and the shape of the components.
    """

    def __init__(self, rows, labels, n_clusters, covariance_type):
        self.rows, self.shape = rows, covariance_type
        count, means = rows.count(labels, n_clusters), rows.means(labels, n_clusters)
        spread = rows.spread
        self.n_axes = min(len(spread), MOST_AXES) if spread.ndim > 1 else 0
        self.coordinates = np.empty(rows.rows.shape)
        if self.n_axes:
            inside = spread - (means.T * count) @ means
            axes = np.sqrt(rows.total) * _discriminant_axes(spread, inside + spread / rows.total)
            axes, shift = np.ascontiguousarray(axes), -(rows.around @ axes)
            for held in rows.blocks():
                part = rows.rows[held].astype(np.float64, copy=False)
                mixture.products(part, axes, shift, self.coordinates[held])
        else:
            variances = np.maximum(spread - count @ means**2, 0) + spread / rows.total
            if covariance_type == "spherical":
                variances = variances.mean(keepdims=True)
            variances = np.maximum(variances, max(1e-9 * variances.max(), TINY))
            deviations = np.sqrt(variances / rows.total)
            for held, gap in rows.gaps():
                np.divide(gap, deviations, out=self.coordinates[held])

    def of(self, labels, n_clusters):
        """Weights, means and scatter of clusters.

        Scatter is matrices of the first axes, and diagonals of the further ones, of which there
        may be none; without matrices all axes are further ones, or their sum is, (n_clusters, 1).
        """
        n_features = self.coordinates.shape[1]
        means, around = np.zeros((n_clusters, n_features)), np.zeros(n_features)
        further = np.zeros((n_clusters, n_features - self.n_axes))
        kernels.label_sums(self.coordinates, labels, self.rows.weight, around, means, further)
        count = self.rows.count(labels, n_clusters)
        means /= _divisor(count)
        further -= count[:, None] * means[:, self.n_axes :] ** 2
        np.maximum(further, 0, out=further)
        if self.shape == "spherical":
            further = further.sum(axis=1, keepdims=True)
        return count, means, self._matrices(labels, count, means[:, : self.n_axes]), further

    def of_rows(self, held):
        """Moments of clusters of some rows, in the same coordinates."""
        part = copy(self)
        part.rows, part.coordinates = self.rows.part(held), self.coordinates[held]
        return part

    def evidence(self, labels):
        """The evidence of all data and, up to what no clusters change, of the labels."""
        return _Clusters(*self.of(labels, labels.max() + 1)).total()

    def _matrices(self, labels, count, means):
        """Scatter matrices of clusters along the first axes."""
        if not self.n_axes:
            return np.empty((len(count), 0, 0))
        # Short numbers are sorted by their digits.
        order = labels.astype(np.min_scalar_type(len(count))).argsort(kind="stable")
        first = np.append(0, np.bincount(labels, minlength=len(count)).cumsum())
        weight = self.rows.weight
        share = weight[order] if len(weight) else np.ones(len(order))
        second = _squares(_products(self.coordinates, first, order, share, self.n_axes))
        second -= np.einsum("k,ki,kj->kij", count, means, means)
        return second


def _products(rows, first, order, share, n_features=None):
    """The upper triangles of sums of x x^T over rows of clusters, which lie in some order.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, D)
        The rows.
    first : array-like of shape (n_clusters + 1,)
        Where those of each begin.
    order : ndarray of shape (n_rows,)
        Their numbers.
    share : ndarray of shape (n_rows,)
        What each counts, in this order.
    n_features : int, default=None
        How many of the first features are wanted, by default all.

    Returns
    -------
    packed : ndarray of shape (n_clusters, n_features (n_features + 1) / 2)
        The sums.
    """
    n_features = n_features or rows.shape[1]
    packed = np.empty((len(first) - 1, n_features * (n_features + 1) // 2))
    first, order = np.asarray(first, dtype=np.int32), order.astype(np.int32)
    matrices.scatter(rows, first, order, share, packed, np.empty((0, 0)))
    return packed


def _squares(packed):
    """Symmetric matrices of their upper triangles."""
    n_features = int(np.sqrt(2 * packed.shape[1]))
    squares = np.empty((len(packed), n_features, n_features))
    matrices.fill_squares(packed, squares)
    return squares


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
    count, means, second, further : ndarray
        From :meth:`_Moments.of`.
    """

    def __init__(self, count, means, second, further):
        self.count, self.means = count, means
        self.evidence = np.empty(len(count))
        self.parts = count, means, second, further, self.evidence
        merges.log_evidence(*self.parts)
        self.left = np.flatnonzero(count > 0)

    def merged(self, n_clusters, most_neighbors):
        """The cluster, of so many at most, that each cluster is in at last."""
        target = np.arange(len(self.count))
        heavy = MOST_WEIGHT * self.count.sum() / n_clusters
        while len(self.left) > n_clusters:
            most = len(self.left) - n_clusters
            pairs = self._neighbours(most_neighbors)
            merges.merge_clusters(*self.parts, pairs, most, heavy, target)
            self.left = self.left[target[self.left] == self.left]
        return _ranks(self.count, self.left)[target]

    def total(self):
        """The evidence of all data."""
        return self.evidence[self.left].sum()

    def _neighbours(self, most):
        """Pairs of clusters whose means are close, the lower first."""
        distance = squareform(_untied(pdist(self.means[self.left], "sqeuclidean")))
        np.fill_diagonal(distance, np.inf)
        n_left = len(self.left)
        n_near = min(max(LEAST_NEIGHBORS, n_left // ONE_IN), most, n_left - 1)
        near = np.argpartition(distance, n_near - 1, axis=1)[:, :n_near].ravel()
        of = np.repeat(np.arange(n_left), n_near)
        pairs = np.unique(np.minimum(of, near) * n_left + np.maximum(of, near))
        return self.left[np.stack(np.divmod(pairs, n_left), axis=1)].astype(np.int32)


def _untied(values):
    """Values without the digits in which equal ones differ: weighted data end as repeated do."""
    unit = ROUNDING * np.abs(values).max(initial=TINY)
    return np.round(values / unit)
