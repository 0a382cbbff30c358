"""Fits: their course, how sparse they are, and which topics of two of them match."""

import numpy as np
import scipy.sparse as sp

from sklearn_sparsepost._checks import number_array
from sklearn_sparsepost._summary import TopicSummary
from sklearn_sparsepost.display._frame import (
    COLOUR,
    INK,
    SummaryDisplay,
    canvas,
    canvases,
)
from sklearn_sparsepost.metrics import match_topics, topic_distances

# What curves are called that callbacks log, or that estimators keep.
CURVES = {
    "score": "held-out score, nats a word or row",
    "bound_per_token": "bound of the training data, nats a word or row",
    "bound_history_": "bound of the training data, nats",
    "log_likelihood_history_": "log-likelihood of words and topics, nats a word",
}
# With more topics than these the labels of matched topics are left out.
MOST_LABELLED = 60


class FitHistoryDisplay:
    """The course of a fit: its bound, and held-out scores that were logged.

    Parameters
    ----------
    curves : dict of str to tuple of ndarray
        What was measured, by name: passes or seconds, and values.
    by : {"n_iter", "seconds"}, default="n_iter"
        What the first of each pair is.

    Attributes
    ----------
    axes_ : ndarray of matplotlib.axes.Axes
        Where curves were drawn last, one each.
    figure_ : matplotlib.figure.Figure
        The figure.

    See Also
    --------
    sklearn_sparsepost.callbacks.HeldoutMonitor : Logs held-out scores.
    sklearn.model_selection.LearningCurveDisplay : Scores against sizes of the training data.

    Examples
    --------
    >>> from sklearn_sparsepost import SparseLDA
    >>> from sklearn_sparsepost.callbacks import HeldoutMonitor
    >>> from sklearn_sparsepost.datasets import make_bars
    >>> from sklearn_sparsepost.display import FitHistoryDisplay
    >>> X, *_ = make_bars(200, random_state=0)
    >>> monitor = HeldoutMonitor(X[150:])
    >>> lda = SparseLDA(10, max_iter=4, tol=0, random_state=0).set_callbacks(monitor).fit(X[:150])
    >>> sorted(FitHistoryDisplay.from_estimator(lda, monitor).curves)
    ['bound_history_', 'score']
    """

    def __init__(self, curves, by="n_iter"):
        self.curves, self.by = curves, by

    @classmethod
    def from_estimator(cls, estimator, *monitors, axes=None):
        """Draw the history that a fitted estimator keeps, and the last log of monitors.

        Parameters
        ----------
        estimator : estimator
            It has `bound_history_` or `log_likelihood_history_`, a value a pass.
        *monitors : HeldoutMonitor, BoundMonitor or EarlyStopping
            Callbacks of the fit.
        axes : array of matplotlib.axes.Axes, default=None
            Where to draw, one a curve; by default in a new figure.

        Returns
        -------
        display : FitHistoryDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If the estimator keeps no history and nothing was logged.
        """
        curves = {}
        for name in ("bound_history_", "log_likelihood_history_"):
            history = np.asarray(getattr(estimator, name, ()))
            if len(history):
                curves[name] = np.arange(1, len(history) + 1), history
        logs = [monitor.get_logs() for monitor in monitors]
        return cls({**curves, **_curves_of(logs, "n_iter")}).plot(axes=axes)

    @classmethod
    def from_logs(cls, *logs, by="seconds", axes=None):
        """Draw what monitors logged.

        Parameters
        ----------
        *logs : list of dict
            Logs as ``get_logs()`` returns them.
        by : {"n_iter", "seconds"}, default="seconds"
            Against what.
        axes : array of matplotlib.axes.Axes, default=None
            Where to draw, one a curve; by default in a new figure.

        Returns
        -------
        display : FitHistoryDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If nothing was logged.
        """
        if by not in ("n_iter", "seconds"):
            raise ValueError(f"by must be 'n_iter' or 'seconds', got {by!r}")
        return cls(_curves_of(logs, by), by).plot(axes=axes)

    def plot(self, *, axes=None):
        """Draw the curves, a panel each.

        Parameters
        ----------
        axes : array of matplotlib.axes.Axes, default=None
            Where to draw, one a curve; by default in a new figure.

        Returns
        -------
        display : FitHistoryDisplay
            Itself, drawn.
        """
        if not self.curves:
            raise ValueError("there is no history to draw: neither the estimator's nor a log")
        n = len(self.curves)
        axes = canvases(self, axes, 1, n, (5 * n, 3.4))
        for ax, (name, (x, y)) in zip(axes, self.curves.items(), strict=True):
            known = ~np.isnan(y)  # a bound is left out where it was not computed
            ax.plot(x[known], y[known], "o-", ms=3, color=COLOUR)
            ax.set_title(CURVES.get(name, name), loc="left", fontsize=10, color=INK)
            ax.set_xlabel("passes" if self.by == "n_iter" else "seconds")
            if self.by == "n_iter":
                ax.xaxis.get_major_locator().set_params(integer=True)
            ax.spines[["top", "right"]].set_visible(False)
        return self


def _curves_of(logs, by):
    """The curves of logs that have one."""
    curves = {}
    for log in logs:
        for name in ("score", "bound_per_token"):
            rows = [row for row in log if name in row]
            if rows:
                curves[name] = tuple(np.array([row[key] for row in rows]) for key in (by, name))
    return curves


class SparsityDisplay(SummaryDisplay):
    """How many topics documents use, and how many words do.

    Parameters
    ----------
    doc_counts : ndarray of shape (n_documents,), default=None
        Topics a document.
    word_counts : ndarray of shape (n_features,), default=None
        Topics a word.

    Attributes
    ----------
    axes_ : ndarray of matplotlib.axes.Axes
        Where it was drawn last.
    figure_ : matplotlib.figure.Figure
        The figure.

    Examples
    --------
    >>> from sklearn_sparsepost import SparseLDA
    >>> from sklearn_sparsepost.datasets import make_bars
    >>> from sklearn_sparsepost.display import SparsityDisplay
    >>> X, *_ = make_bars(200, doc_topic_prior=0.1, random_state=0)
    >>> lda = SparseLDA(10, max_iter=5, random_state=0).fit(X)
    >>> display = SparsityDisplay.from_estimator(lda, X)
    >>> bool(display.doc_counts.mean() < 5)
    True
    """

    def __init__(self, doc_counts=None, word_counts=None):
        self.doc_counts, self.word_counts = doc_counts, word_counts

    @classmethod
    def from_summary(cls, summary, *, threshold=0.05, axes=None):
        """Draw how many topics the documents and words of a summary use.

        Parameters
        ----------
        summary : TopicSummary
            The topics, with documents or without.
        threshold : float, default=0.05
            The least share of a document's tokens, or of a word's, that counts as use.
        axes : array of matplotlib.axes.Axes, default=None
            Where to draw, one for documents and one for words; by default in a new figure.

        Returns
        -------
        display : SparsityDisplay
            The display, drawn.
        """
        joint = summary.topic_word_distr * summary.size[:, np.newaxis]
        least = _threshold(threshold) * summary.word_distr
        words = (joint > least).sum(axis=0)
        documents = None if summary.doc_topic is None else _used(summary.doc_topic, threshold)
        return cls(documents, words).plot(axes=axes)

    @classmethod
    def from_predictions(cls, doc_topic, *, threshold=0.05, axes=None):
        """Draw how many topics documents use.

        Parameters
        ----------
        doc_topic : {array-like, sparse matrix} of shape (n_documents, n_components)
            Topic weights of documents, or responsibilities of a mixture.
        threshold : float, default=0.05
            The least weight that counts as use.
        axes : array of matplotlib.axes.Axes, default=None
            Where to draw; by default in a new figure.

        Returns
        -------
        display : SparsityDisplay
            The display, drawn.
        """
        return cls(_used(doc_topic, _threshold(threshold))).plot(axes=axes)

    def plot(self, *, axes=None):
        """Draw the counts as histograms.

        Parameters
        ----------
        axes : array of matplotlib.axes.Axes, default=None
            Where to draw, one a histogram; by default in a new figure.

        Returns
        -------
        display : SparsityDisplay
            Itself, drawn.
        """
        counted = {"a document": self.doc_counts, "a word": self.word_counts}
        counted = {what: counts for what, counts in counted.items() if counts is not None}
        axes = canvases(self, axes, 1, len(counted), (4.5 * len(counted), 3.4))
        for ax, (what, counts) in zip(axes, counted.items(), strict=True):
            share = np.bincount(counts) / len(counts)
            ax.bar(np.arange(len(share)), share, color=COLOUR, alpha=0.7)
            ax.set(xlabel=f"topics {what}", ylabel=f"share of {what.split()[1]}s")
            ax.set_title(f"mean {np.mean(counts):.1f}", loc="right", fontsize=9)
            ax.spines[["top", "right"]].set_visible(False)
        return self


def _threshold(threshold):
    return float(number_array(threshold, "threshold", {"one value": ()}, 0, 1))


def _used(doc_topic, threshold):
    """How many topics of each document weigh more than a threshold."""
    if sp.issparse(doc_topic):
        return np.asarray((doc_topic > threshold).sum(axis=1)).ravel()
    return (np.asarray(doc_topic) > threshold).sum(axis=1)


class TopicMatchDisplay:
    """Which topics of two fits match, as a picture of their distances.

    Parameters
    ----------
    distances : ndarray of shape (n_components, n_others)
        Distances of all pairs, from 0 to 1.
    rows : ndarray of shape (n_pairs,)
        Rows of the pairs that match, by :func:`~sklearn_sparsepost.metrics.match_topics`.
    columns : ndarray of shape (n_pairs,)
        Their columns.
    labels : list of str
        Labels of the rows' topics.
    other_labels : list of str
        Labels of the columns' topics.

    Attributes
    ----------
    ax_, figure_ : matplotlib.axes.Axes, matplotlib.figure.Figure
        Where it was drawn last.

    See Also
    --------
    sklearn_sparsepost.metrics.match_topics : The pairs.

    Examples
    --------
    >>> from sklearn_sparsepost import SparseLDA
    >>> from sklearn_sparsepost.datasets import make_bars
    >>> from sklearn_sparsepost.display import TopicMatchDisplay
    >>> X, *_ = make_bars(200, random_state=0)
    >>> one, other = (SparseLDA(10, max_iter=5, random_state=seed).fit(X) for seed in (0, 1))
    >>> display = TopicMatchDisplay.from_estimators(one, other)
    >>> display.distances.shape, len(display.rows)
    ((10, 10), 10)
    """

    def __init__(self, distances, rows, columns, labels, other_labels):
        self.distances, self.rows, self.columns = distances, rows, columns
        self.labels, self.other_labels = labels, other_labels

    @classmethod
    def from_estimators(
        cls, estimator, other, *, feature_names=None, distance="hellinger", **kwargs
    ):
        """Match the topics of two fitted models.

        Parameters
        ----------
        estimator, other : estimator, Pipeline or search
            The models, over the same words.
        feature_names : array-like of shape (n_features,), default=None
            The words; by default what the models say.
        distance : str, default="hellinger"
            As for :func:`~sklearn_sparsepost.metrics.topic_distances`.
        **kwargs : dict
            Options of :meth:`plot`.

        Returns
        -------
        display : TopicMatchDisplay
            The display, drawn.
        """
        summaries = [
            TopicSummary.from_estimator(model, feature_names=feature_names)
            for model in (estimator, other)
        ]
        return cls._of(*summaries, distance, **kwargs)

    @classmethod
    def from_topics(cls, components, others, *, feature_names=None, distance="hellinger", **kwargs):
        """Match two sets of topics.

        Parameters
        ----------
        components : array-like of shape (n_components, n_features)
            Topics, non-negative.
        others : array-like of shape (n_others, n_features)
            Topics over the same words.
        feature_names : array-like of shape (n_features,), default=None
            The words; by default their column numbers.
        distance : str, default="hellinger"
            As for :func:`~sklearn_sparsepost.metrics.topic_distances`.
        **kwargs : dict
            Options of :meth:`plot`.

        Returns
        -------
        display : TopicMatchDisplay
            The display, drawn.
        """
        summaries = [
            TopicSummary(topics, feature_names=feature_names) for topics in (components, others)
        ]
        return cls._of(*summaries, distance, **kwargs)

    @classmethod
    def _of(cls, summary, other, distance, **kwargs):
        both = summary.topic_word_distr, other.topic_word_distr
        rows, columns, _ = match_topics(*both, distance=distance)
        distances = topic_distances(*both, distance=distance)
        return cls(distances, rows, columns, summary.labels, other.labels).plot(**kwargs)

    def plot(self, *, ax=None, cmap="Blues_r"):
        """Draw the distances, pairs along the diagonal from the nearest down.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Where to draw; by default in a new figure.
        cmap : str, default="Blues_r"
            Colours of distances.

        Returns
        -------
        display : TopicMatchDisplay
            Itself, drawn. Topics without a counterpart come last.
        """
        n_rows, n_columns = self.distances.shape
        order = np.argsort(self.distances[self.rows, self.columns], kind="stable")
        rows, columns = self.rows[order], self.columns[order]
        rows = np.concatenate([rows, np.setdiff1d(np.arange(n_rows), rows)])
        columns = np.concatenate([columns, np.setdiff1d(np.arange(n_columns), columns)])
        size = 2.5 + 0.25 * min(max(n_rows, n_columns), MOST_LABELLED)
        ax = canvas(self, ax, (size + 1, size))
        image = ax.imshow(self.distances[np.ix_(rows, columns)], cmap=cmap, vmin=0, vmax=1)
        if max(n_rows, n_columns) <= MOST_LABELLED:
            ax.set_yticks(np.arange(n_rows), [self.labels[k] for k in rows], fontsize=8)
            names = [self.other_labels[k] for k in columns]
            ax.set_xticks(np.arange(n_columns), names, fontsize=8, rotation=90)
        ax.figure.colorbar(image, ax=ax, label="distance", shrink=0.6)
        return self
