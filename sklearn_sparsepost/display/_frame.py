"""What displays share: where they draw, and how those of a summary are made."""

import numpy as np

from sklearn_sparsepost._summary import TopicSummary

# Of bars and of text beside them.
COLOUR, INK, MUTED = "#4477aa", "#222222", "#777777"


def canvas(display, ax, figsize):
    """The axes given, or new ones, noted on the display; matplotlib is imported no sooner."""
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots(figsize=figsize, layout="constrained")[1]
    display.ax_, display.figure_ = ax, ax.figure
    return ax


def canvases(display, axes, n_rows, n_columns, figsize, **options):
    """As :func:`canvas`, for several axes, in one row."""
    if axes is None:
        import matplotlib.pyplot as plt

        axes = plt.subplots(
            n_rows, n_columns, figsize=figsize, layout="constrained", squeeze=False, **options
        )[1]
    display.axes_ = np.ravel(axes)
    display.figure_ = display.axes_[0].figure
    return display.axes_


class SummaryDisplay:
    """A display of what a :class:`~sklearn_sparsepost.TopicSummary` says."""

    @classmethod
    def from_estimator(cls, estimator, X=None, *, feature_names=None, documents=None, **kwargs):
        """Summarise a fitted topic model, and draw it.

        Parameters
        ----------
        estimator : estimator, Pipeline or search
            As for :meth:`sklearn_sparsepost.TopicSummary.from_estimator`.
        X : {array-like, sparse matrix, list of str} of shape (n_documents, n_features), \
                default=None
            Documents as the estimator takes them.
        feature_names : array-like of shape (n_features,), default=None
            The words; by default what the pipeline or `feature_names_in_` says.
        documents : sequence of length n_documents, default=None
            Names of the documents.
        **kwargs : dict
            Options of :meth:`from_summary`.

        Returns
        -------
        display : object
            The display, drawn.
        """
        names = {"feature_names": feature_names, "documents": documents}
        return cls.from_summary(TopicSummary.from_estimator(estimator, X, **names), **kwargs)


def largest(size, n_topics):
    """Numbers of the largest topics, largest first."""
    return np.argsort(-np.asarray(size), kind="stable")[:n_topics]
