"""Mixtures: components, and the observations that they are responsible for."""

import numpy as np
import scipy.sparse as sp

from sklearn_sparsepost.display._frame import canvas, largest

# Standard deviations from its mean to the ellipse of a component.
N_DEVIATIONS = 2
# Turns of the colour wheel from one component to the next: neighbours differ most.
GOLDEN = 0.618034
# More rows than these are thinned out.
MOST_POINTS = 5000


class MixtureDisplay:
    """Observations coloured by their responsibilities, and the components as ellipses.

    Where components have no covariances, as those of bits and counts, it is a picture of their
    means instead.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Observations.
    responsibilities : {array-like, sparse matrix} of shape (n_samples, n_components)
        Whose they are; rows sum to 1.
    weights : ndarray of shape (n_components,)
        Weights of components.
    means : ndarray of shape (n_components, n_features)
        Their means.
    covariances : ndarray of shape (n_components, n_features, n_features), default=None
        Their covariances, if they have any.
    features : tuple of two ints, default=(0, 1)
        The features along the axes.

    Attributes
    ----------
    ax_, figure_ : matplotlib.axes.Axes, matplotlib.figure.Figure
        Where it was drawn last.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsepost import SparseMixture
    >>> from sklearn_sparsepost.display import MixtureDisplay
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(at, 1, size=(50, 2)) for at in (0, 6)])
    >>> mixture = SparseMixture(2, random_state=0).fit(X)
    >>> MixtureDisplay.from_estimator(mixture, X).covariances.shape
    (2, 2, 2)
    """

    def __init__(self, X, responsibilities, weights, means, covariances=None, features=(0, 1)):
        self.X, self.responsibilities = X, responsibilities
        self.weights, self.means, self.covariances = weights, means, covariances
        self.features = features

    @classmethod
    def from_estimator(cls, estimator, X, *, features=(0, 1), **kwargs):
        """Draw a fitted mixture with observations.

        Parameters
        ----------
        estimator : estimator
            A :class:`~sklearn_sparsepost.SparseMixture`, or a mixture of scikit-learn.
        X : array-like of shape (n_samples, n_features)
            Observations.
        features : tuple of two ints, default=(0, 1)
            The features along the axes.
        **kwargs : dict
            Options of :meth:`plot`.

        Returns
        -------
        display : MixtureDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If there are no such features.
        """
        means = np.asarray(estimator.means_)
        covariances = getattr(estimator, "covariances_", None)
        if covariances is not None:
            covariances = _full(np.asarray(covariances), estimator.covariance_type, means.shape)
        responsibilities = estimator.predict_proba(X)
        given = X, responsibilities, estimator.weights_, means, covariances
        return cls.from_predictions(*given, features=features, **kwargs)

    @classmethod
    def from_predictions(
        cls, X, responsibilities, weights, means, covariances=None, *, features=(0, 1), **kwargs
    ):
        """Draw observations with responsibilities and components.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Observations.
        responsibilities : {array-like, sparse matrix} of shape (n_samples, n_components)
            Whose they are, as `predict_proba` returns them.
        weights : ndarray of shape (n_components,)
            Weights of components.
        means : ndarray of shape (n_components, n_features)
            Their means.
        covariances : ndarray of shape (n_components, n_features, n_features), default=None
            Their covariances, if they have any.
        features : tuple of two ints, default=(0, 1)
            The features along the axes.
        **kwargs : dict
            Options of :meth:`plot`.

        Returns
        -------
        display : MixtureDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If there are no such features.
        """
        n_features = means.shape[1]
        known = range(n_features)
        if covariances is not None and (
            len(features) != 2 or any(feature not in known for feature in features)
        ):
            raise ValueError(
                f"features must be two numbers from 0 to {n_features - 1}, got {features!r}"
            )
        return cls(X, responsibilities, weights, means, covariances, features).plot(**kwargs)

    def plot(self, *, ax=None):
        """Draw the observations and components, or, without covariances, the means.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Where to draw; by default in a new figure.

        Returns
        -------
        display : MixtureDisplay
            Itself, drawn: ellipses two standard deviations wide, points of mixed colours where
            several components share an observation. Of more than 5000 observations every so
            many-th is shown. Components that have less than half an observation are left out.
        """
        if self.covariances is None:
            return self._plot_means(ax)
        ax = canvas(self, ax, (6, 5))
        from matplotlib.colors import hsv_to_rgb
        from matplotlib.patches import Ellipse

        K = len(self.weights)
        hue = np.arange(K) * GOLDEN % 1
        colours = hsv_to_rgb(np.column_stack([hue, np.full(K, 0.75), np.full(K, 0.8)]))
        one, other = self.features
        step = -(-self.responsibilities.shape[0] // MOST_POINTS)
        shares = self.responsibilities[::step]
        shares = shares.toarray() if sp.issparse(shares) else np.asarray(shares)
        rows = np.asarray(self.X)[::step][:, [one, other]]
        ax.scatter(*rows.T, c=np.clip(shares @ colours, 0, 1), s=8, alpha=0.6, linewidths=0)
        block = self.covariances[:, [[one], [other]], [one, other]]
        size = np.asarray(self.responsibilities.sum(axis=0)).ravel()
        for k in np.flatnonzero(size >= 0.5):
            variance, axes = np.linalg.eigh(block[k])
            width, height = 2 * N_DEVIATIONS * np.sqrt(variance)
            angle = np.degrees(np.arctan2(axes[1, 0], axes[0, 0]))
            centre = self.means[k, [one, other]]
            ellipse = Ellipse(centre, width, height, angle=angle, fill=False, color=colours[k])
            ellipse.set_linewidth(1 + 2 * self.weights[k] / np.max(self.weights))
            ax.add_patch(ellipse)
        ax.autoscale_view()
        ax.set(xlabel=f"feature {one}", ylabel=f"feature {other}")
        return self

    def _plot_means(self, ax):
        ax = canvas(self, ax, (7, 4.5))
        order = largest(self.weights, len(self.weights))
        options = {"aspect": "auto", "interpolation": "nearest", "cmap": "Blues"}
        image = ax.imshow(self.means[order], **options)
        ax.set(xlabel="feature", ylabel="component, the largest first")
        ax.figure.colorbar(image, ax=ax, label="mean")
        return self


def _full(covariances, kind, shape):
    """Covariances of any type as matrices, one a component."""
    K, D = shape
    if kind == "full":
        return covariances
    if kind == "tied":
        return np.broadcast_to(covariances, (K, D, D))
    variances = covariances[:, np.newaxis] if covariances.ndim == 1 else covariances
    return np.broadcast_to(variances, (K, D))[:, :, np.newaxis] * np.eye(D)
