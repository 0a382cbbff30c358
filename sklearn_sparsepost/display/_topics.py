"""Topics as bars of words, documents by topic, and shares of groups and over time."""

import numpy as np
import scipy.sparse as sp

from sklearn_sparsepost._checks import check_count
from sklearn_sparsepost._summary import TopicSummary
from sklearn_sparsepost.display._frame import (
    COLOUR,
    INK,
    MUTED,
    SummaryDisplay,
    canvas,
    canvases,
    largest,
)

# More documents than these are thinned out, and more than those have no names beside them.
MOST_ROWS, MOST_NAMED = 1000, 40


class TopicWordsDisplay(SummaryDisplay):
    """Topics as bars, one a word.

    Parameters
    ----------
    words : ndarray of shape (n_components, n_words)
        Words of each topic, best first.
    probabilities : ndarray of shape (n_components, n_words)
        Their probabilities.
    size : ndarray of shape (n_components,)
        Shares of all tokens.
    labels : list of str
        The topics' labels.

    Attributes
    ----------
    axes_ : ndarray of matplotlib.axes.Axes
        Where topics were drawn last.
    figure_ : matplotlib.figure.Figure
        The figure.

    See Also
    --------
    sklearn_sparsepost.TopicSummary : The same as a table.

    Examples
    --------
    >>> from sklearn_sparsepost import SparseLDA
    >>> from sklearn_sparsepost.datasets import make_bars
    >>> from sklearn_sparsepost.display import TopicWordsDisplay
    >>> X, *_ = make_bars(100, random_state=0)
    >>> lda = SparseLDA(10, max_iter=3, random_state=0).fit(X)
    >>> display = TopicWordsDisplay.from_estimator(lda, X, n_words=5)
    >>> display.words.shape
    (10, 5)
    """

    def __init__(self, words, probabilities, size, labels):
        self.words, self.probabilities = words, probabilities
        self.size, self.labels = size, labels

    @classmethod
    def from_summary(cls, summary, *, n_words=8, by="probability", **kwargs):
        """Draw the topics of a summary.

        Parameters
        ----------
        summary : TopicSummary
            The topics.
        n_words : int, default=8
            Words a topic.
        by : {"probability", "relevance", "lift"}, default="probability"
            How words are ranked, as for :meth:`sklearn_sparsepost.TopicSummary.top_words`.
        **kwargs : dict
            Options of :meth:`plot`.

        Returns
        -------
        display : TopicWordsDisplay
            The display, drawn.
        """
        columns = summary._top_columns(n_words, by=by)
        probabilities = np.take_along_axis(summary.topic_word_distr, columns, axis=1)
        names = summary.feature_names[columns]
        return cls(names, probabilities, summary.size, summary.labels).plot(**kwargs)

    def plot(self, topics=None, *, n_columns=5, axes=None):
        """Draw topics, a panel each.

        Parameters
        ----------
        topics : sequence of int, default=None
            Which; by default the 20 largest.
        n_columns : int, default=5
            Panels in a row.
        axes : array of matplotlib.axes.Axes, default=None
            Where to draw, one a topic; by default in a new figure.

        Returns
        -------
        display : TopicWordsDisplay
            Itself, drawn: the length of a bar is the word's probability as a part of the
            topic's likeliest word's.
        """
        check_count(n_columns, "n_columns", 1)
        topics = largest(self.size, 20) if topics is None else np.asarray(topics)
        n_columns = min(n_columns, len(topics))
        n_rows = -(-len(topics) // n_columns)
        height = 0.5 + 0.24 * self.words.shape[1]
        axes = canvases(self, axes, n_rows, n_columns, (2.4 * n_columns, height * n_rows))
        place = np.arange(self.words.shape[1])
        for ax, topic in zip(axes, topics, strict=False):
            most = self.probabilities[topic].max()
            ax.barh(place, self.probabilities[topic] / most, height=0.8, color=COLOUR, alpha=0.3)
            for y, word in zip(place, self.words[topic], strict=True):
                ax.text(0.02, y, word, va="center", fontsize=10, color=INK)
            ax.set_title(f"{topic}", loc="left", fontsize=10, weight="bold", color=INK)
            ax.set_title(f"{self.size[topic]:.1%}", loc="right", fontsize=9, color=MUTED)
            ax.set(xlim=(0, 1), ylim=(place[-1] + 0.5, -0.5))
        for ax in axes:
            ax.set_axis_off()
        return self


class DocumentTopicsDisplay(SummaryDisplay):
    """Documents by topic, as a picture of their weights.

    Parameters
    ----------
    doc_topic : {array-like, sparse matrix} of shape (n_documents, n_components)
        Topic weights of documents.
    labels : list of str, default=None
        The topics' labels; by default their numbers.
    documents : sequence of length n_documents, default=None
        Names of the documents; by default their row numbers.

    Attributes
    ----------
    ax_, figure_ : matplotlib.axes.Axes, matplotlib.figure.Figure
        Where it was drawn last.

    Examples
    --------
    >>> from sklearn_sparsepost.display import DocumentTopicsDisplay
    >>> weights = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]
    >>> DocumentTopicsDisplay.from_predictions(weights, labels=["pets", "sky"]).order().tolist()
    [0, 2, 1]
    """

    def __init__(self, doc_topic, labels=None, documents=None):
        self.doc_topic = doc_topic.tocsr() if sp.issparse(doc_topic) else np.asarray(doc_topic)
        n_documents, K = self.doc_topic.shape
        self.labels = list(map(str, range(K))) if labels is None else list(labels)
        self.documents = np.arange(n_documents) if documents is None else documents

    @classmethod
    def from_summary(cls, summary, **kwargs):
        """Draw the documents of a summary.

        Parameters
        ----------
        summary : TopicSummary
            The topics, with documents.
        **kwargs : dict
            Options of :meth:`plot`.

        Returns
        -------
        display : DocumentTopicsDisplay
            The display, drawn.
        """
        summary._need_documents()
        return cls(summary.doc_topic, summary.labels, summary.documents).plot(**kwargs)

    @classmethod
    def from_predictions(cls, doc_topic, *, labels=None, documents=None, **kwargs):
        """Draw topic weights.

        Parameters
        ----------
        doc_topic : {array-like, sparse matrix} of shape (n_documents, n_components)
            Topic weights of documents, as `transform` returns them.
        labels : list of str, default=None
            The topics' labels; by default their numbers.
        documents : sequence of length n_documents, default=None
            Names of the documents; by default their row numbers.
        **kwargs : dict
            Options of :meth:`plot`.

        Returns
        -------
        display : DocumentTopicsDisplay
            The display, drawn.
        """
        return cls(doc_topic, labels, documents).plot(**kwargs)

    def order(self):
        """Order documents by their largest topic and its weight, topics by their sum.

        Returns
        -------
        rows : ndarray of shape (n_documents,)
            Documents as :meth:`plot` shows them, from the top down.
        """
        total = np.asarray(self.doc_topic.sum(axis=0)).ravel()
        rank = np.argsort(np.argsort(-total, kind="stable"))
        leading = np.asarray(self.doc_topic.argmax(axis=1)).ravel()
        weight = self.doc_topic.max(axis=1)
        weight = (weight.toarray() if sp.issparse(weight) else weight).ravel()
        return np.lexsort((-weight, rank[leading]))

    def plot(self, *, ax=None, cmap="Blues"):
        """Draw the weights, a row a document, with topics from left to right by size.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Where to draw; by default in a new figure.
        cmap : str, default="Blues"
            Colours of weights.

        Returns
        -------
        display : DocumentTopicsDisplay
            Itself, drawn. Of more than a thousand documents every so many-th is shown.
        """
        rows = self.order()
        rows = rows[:: -(-len(rows) // MOST_ROWS)]
        shown = self.doc_topic[rows]
        shown = shown.toarray() if sp.issparse(shown) else shown
        columns = np.argsort(-np.asarray(self.doc_topic.sum(axis=0)).ravel(), kind="stable")
        ax = canvas(self, ax, (max(5, 0.3 * len(columns) + 2), 6))
        options = {"aspect": "auto", "interpolation": "nearest", "cmap": cmap, "vmin": 0}
        image = ax.imshow(shown[:, columns], **options)
        named = [self.labels[topic] for topic in columns]
        ax.set_xticks(np.arange(len(columns)), named, rotation=90, fontsize=8)
        if len(rows) <= MOST_NAMED:
            ax.set_yticks(np.arange(len(rows)), [str(self.documents[row]) for row in rows])
        else:
            ax.set(yticks=[], ylabel=f"documents, {len(rows):,} of {self.doc_topic.shape[0]:,}")
        ax.figure.colorbar(image, ax=ax, label="topic weight", shrink=0.6)
        return self


class TopicSharesDisplay(SummaryDisplay):
    """Shares of topics in groups of documents, or over time.

    Parameters
    ----------
    names : array-like of shape (n_groups,)
        The groups, or when periods begin.
    shares : ndarray of shape (n_groups, n_components)
        Shares of topics.
    labels : list of str
        The topics' labels.
    is_time : bool, default=False
        Whether groups are periods, which are drawn as lines.

    Attributes
    ----------
    ax_, figure_ : matplotlib.axes.Axes, matplotlib.figure.Figure
        Where it was drawn last.

    Examples
    --------
    >>> from sklearn_sparsepost.display import TopicSharesDisplay
    >>> weights = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]
    >>> display = TopicSharesDisplay.from_predictions(weights, groups=["a", "b", "a"])
    >>> display.names.tolist(), display.shares.round(2).tolist()
    (['a', 'b'], [[0.75, 0.25], [0.2, 0.8]])
    """

    def __init__(self, names, shares, labels, is_time=False):
        self.names, self.shares = names, shares
        self.labels, self.is_time = labels, is_time

    @classmethod
    def from_summary(cls, summary, *, groups=None, times=None, n_periods=10, **kwargs):
        """Draw the shares of topics in the documents of a summary.

        Parameters
        ----------
        summary : TopicSummary
            The topics, with documents.
        groups : array-like of shape (n_documents,), default=None
            The group of each document; this or `times`.
        times : array-like of shape (n_documents,), default=None
            When each document is from: numbers or dates.
        n_periods : int, default=10
            Into how many periods times are divided.
        **kwargs : dict
            Options of :meth:`plot`.

        Returns
        -------
        display : TopicSharesDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If both groups and times are given, or neither.
        """
        if (groups is None) == (times is None):
            raise ValueError("give either groups or times")
        if times is None:
            names, shares = summary.shares(groups)
        else:
            names, shares = summary.over_time(times, n_periods=n_periods)
        return cls(names, shares, summary.labels, times is not None).plot(**kwargs)

    @classmethod
    def from_predictions(cls, doc_topic, *, labels=None, **kwargs):
        """Draw the shares of topics by their weights in documents.

        Parameters
        ----------
        doc_topic : {array-like, sparse matrix} of shape (n_documents, n_components)
            Topic weights of documents, as `transform` returns them; every document counts alike.
        labels : list of str, default=None
            The topics' labels; by default their numbers.
        **kwargs : dict
            Options of :meth:`from_summary`.

        Returns
        -------
        display : TopicSharesDisplay
            The display, drawn.
        """
        K = np.shape(doc_topic)[1]
        summary = TopicSummary(np.eye(K), doc_topic)
        summary.labels = list(map(str, range(K))) if labels is None else list(labels)
        return cls.from_summary(summary, **kwargs)

    def plot(self, topics=None, *, ax=None):
        """Draw the shares: bars a group, lines over time.

        Parameters
        ----------
        topics : sequence of int, default=None
            Which; by default the eight with the largest mean share.
        ax : matplotlib.axes.Axes, default=None
            Where to draw; by default in a new figure.

        Returns
        -------
        display : TopicSharesDisplay
            Itself, drawn.
        """
        known = ~np.isnan(self.shares).any(axis=1)
        if topics is None:
            topics = largest(self.shares[known].mean(axis=0), 8)
        ax = canvas(self, ax, (8, 4.5))
        if self.is_time:
            for topic in topics:
                ax.plot(self.names, self.shares[:, topic], "o-", ms=3, label=self.labels[topic])
            ax.set(ylabel="share of the period's words", ylim=(0, None))
        else:
            place, left = np.arange(len(self.names)), np.zeros(len(self.names))
            for topic in topics:
                share = self.shares[:, topic]
                ax.barh(place, share, left=left, height=0.7, label=self.labels[topic])
                left = left + np.nan_to_num(share)
            ax.set_yticks(place, [str(name) for name in self.names])
            ax.set(xlabel="share of the group's words", ylim=(place[-1] + 0.6, -0.6))
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, fontsize=9)
        return self
