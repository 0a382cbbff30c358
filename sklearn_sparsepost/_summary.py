"""TopicSummary: what people ask of topics first, for a topic model of any origin."""

from html import escape

import numpy as np
import scipy.sparse as sp
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from sklearn_sparsepost._checks import check_count, check_topics, number_array
from sklearn_sparsepost._kernels._topl import topl_weights
from sklearn_sparsepost.metrics import top_words, topic_distances
from sklearn_sparsepost.metrics._topics import check_feature_names

# Rows of weights that sum to 1 up to this are probabilities.
ROUNDING = 1e-3
# Labels that are equal get more words, this many at most.
MOST_MORE_WORDS = 5
# What stands between words and documents that are printed.
SEPARATOR = " | "
# The least share of a word, so that its logarithm is finite.
TINY = np.finfo(np.float64).tiny
# The longest document or largest topic: sums of them stay finite.
MOST_SIZE = 1e30
# The longest name of a document that is printed whole.
MOST_LETTERS = 30
MOST = np.finfo(np.float64).max


class TopicSummary:
    """Topics as people ask for them: size, words, documents, shares, a label.

    It is made of the topics and, if there are any, of the weights of documents, so it serves every
    topic model: those of this package, scikit-learn's `LatentDirichletAllocation` and `NMF` (by
    :meth:`from_estimator`), and topics from elsewhere (by the constructor).

    Read more in the :ref:`User Guide <summary>`.

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
        Topics, non-negative; rows are normalised here.
    doc_topic : {array-like, sparse matrix} of shape (n_documents, n_components), default=None
        Topic weights of documents, as `transform` returns them. Rows that do not sum to 1, as
        those of NMF, are multiplied by the topics' row sums, and normalised.
    lengths : array-like of shape (n_documents,), default=None
        Tokens a document; by default 1 each, so that shares are of documents.
    size : array-like of shape (n_components,), default=None
        Tokens a topic, or their shares; by default those of the documents, and without documents
        the row sums of `components`.
    feature_names : array-like of shape (n_features,), default=None
        The words; by default their column numbers.
    documents : sequence of length n_documents, default=None
        Names or texts of the documents; by default their row numbers.

    Attributes
    ----------
    topic_word_distr : ndarray of shape (n_components, n_features)
        Probabilities of words; rows sum to 1.
    doc_topic : ndarray or csr_matrix of shape (n_documents, n_components), or None
        Topic weights of documents; rows sum to 1, or to 0 for documents without any.
    lengths : ndarray of shape (n_documents,), or None
        Tokens a document.
    size : ndarray of shape (n_components,)
        Share of all tokens.
    word_distr : ndarray of shape (n_features,)
        Probabilities of words in all topics together, by their sizes.
    feature_names : ndarray of shape (n_features,)
        The words.
    documents : ndarray of shape (n_documents,), or None
        Names or texts of the documents.
    labels : list of str
        A suggested label for each topic, as of :meth:`label`; topics with the same three words
        have more. It may be replaced by names of one's own.

    Raises
    ------
    ValueError
        If topics or weights are negative or not finite, or shapes do not fit.

    See Also
    --------
    sklearn_sparsepost.metrics.coherence : Whether the words of a topic belong together.
    sklearn_sparsepost.display.TopicWordsDisplay : The words as bars.

    Examples
    --------
    >>> from sklearn_sparsepost import TopicSummary
    >>> topics = [[6, 3, 0, 1], [0, 1, 7, 2]]
    >>> weights = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]
    >>> summary = TopicSummary(
    ...     topics, weights, feature_names=["cat", "dog", "star", "night"], documents=list("abc")
    ... )
    >>> summary.top_words(2).tolist()
    [['cat', 'dog'], ['star', 'night']]
    >>> summary.top_documents(2).tolist()
    [['a', 'c'], ['b', 'c']]
    >>> print(summary)
    topic   size  label               words                 documents
        0  56.7%  cat, dog, night     cat dog night star    a | c | b
        1  43.3%  star, night, dog    star night dog cat    b | c | a
    """

    def __init__(
        self,
        components,
        doc_topic=None,
        *,
        lengths=None,
        size=None,
        feature_names=None,
        documents=None,
    ):
        topics = check_topics(components)
        mass = topics.sum(axis=1, dtype=np.float64)
        self.topic_word_distr = topics / mass[:, np.newaxis].astype(topics.dtype)
        n_features = topics.shape[1]
        names = check_feature_names(feature_names, n_features)
        self.feature_names = np.arange(n_features) if names is None else names
        self.doc_topic = self.lengths = self.documents = None
        if doc_topic is not None:
            self.doc_topic = _document_weights(doc_topic, mass)
            n_documents = self.doc_topic.shape[0]
            given = np.ones(n_documents) if lengths is None else lengths
            shapes = {"one a row of doc_topic": (n_documents,)}
            self.lengths = number_array(given, "lengths", shapes, 0, MOST_SIZE)
            self.documents = _document_names(documents, n_documents)
            mass = self.doc_topic.T @ self.lengths
        elif lengths is not None or documents is not None:
            raise ValueError("lengths and documents need doc_topic, which is None")
        if size is not None:
            mass = number_array(size, "size", {"one a topic": (len(mass),)}, 0, MOST_SIZE)
        total = mass.sum()
        self.size = mass / total if total > 0 else np.full(len(mass), 1 / len(mass))
        self.word_distr = self.size @ self.topic_word_distr
        self.labels = self._distinct_labels()

    @classmethod
    def from_estimator(cls, estimator, X=None, *, feature_names=None, documents=None):
        """Summarise a fitted topic model, with documents if there are any.

        Parameters
        ----------
        estimator : estimator, Pipeline or search
            It has `components_`, and `transform` for documents. A pipeline ends with one and says
            the words; a search is asked for its `best_estimator_`.
        X : {array-like, sparse matrix, list of str} of shape (n_documents, n_features), \
                default=None
            Documents as the estimator takes them: counts of words, or texts for a pipeline that
            counts them. Without any there are no documents, and sizes are those of `components_`,
            less their prior.
        feature_names : array-like of shape (n_features,), default=None
            The words; by default what the pipeline or `feature_names_in_` says.
        documents : sequence of length n_documents, default=None
            Names or texts of the documents; by default X, if it is one of texts.

        Returns
        -------
        summary : TopicSummary
            The summary.

        Raises
        ------
        ValueError
            If the model is not fitted or has no topics, or names do not fit.
        """
        model = getattr(estimator, "best_estimator_", estimator)
        counts = X
        if isinstance(model, Pipeline):
            before, model = model[:-1], model[-1]
            if len(before.steps):
                if feature_names is None:
                    feature_names = before.get_feature_names_out()
                if X is not None:
                    if documents is None and np.ndim(X) == 1:
                        documents = X
                    counts = before.transform(X)
        check_is_fitted(model)
        if not hasattr(model, "components_"):
            raise ValueError(f"{type(model).__name__} has no components_, and so no topics")
        if feature_names is None:
            feature_names = getattr(model, "feature_names_in_", None)
        if counts is None:
            size = _mass_without_prior(model)
            names = {"feature_names": feature_names, "documents": documents}
            return cls(model.components_, size=size, **names)
        weights = model.transform(counts)
        lengths = np.asarray(_as_table(counts).sum(axis=1)).ravel()
        options = {"lengths": lengths, "feature_names": feature_names, "documents": documents}
        return cls(model.components_, weights, **options)

    # ------------------------------------------------------------------ words

    def top_words(self, n_words=10, *, by="probability", relevance_weight=0.6):
        """List the words that say most of each topic.

        Parameters
        ----------
        n_words : int, default=10
            How many words a topic; all if there are fewer.
        by : {"probability", "relevance", "lift"}, default="probability"
            How words are ranked, with phi_kv the probability of word v in topic k, and p_v in all:

            - "probability": by phi_kv, what a document of the topic is made of;
            - "relevance": by ``w log phi_kv + (1 - w) log(phi_kv / p_v)`` (Sievert & Shirley
              [1]_, Eq. 1), which lowers words that all topics have;
            - "lift": by phi_kv / p_v (Taddy [2]_), words that no other topic has, rare ones first.
        relevance_weight : float, default=0.6
            The w of "relevance", from 0, which is lift, to 1, which is probability. People
            recognised topics best with 0.6 [1]_.

        Returns
        -------
        words : ndarray of shape (n_components, min(n_words, n_features))
            The words, best first and of equals the lowest column; column numbers if there are no
            names.

        References
        ----------
        .. [1] C. Sievert, K. E. Shirley. LDAvis: a method for visualizing and interpreting topics.
           ACL workshop on interactive language learning, visualization, and interfaces, 2014.
        .. [2] M. A. Taddy. On estimation and selection for topic models. AISTATS 2012.
        """
        return self.feature_names[self._top_columns(n_words, by, relevance_weight)]

    def _top_columns(self, n_words, by, relevance_weight=0.6):
        """The columns of :meth:`top_words`."""
        weights = {"probability": 1.0, "relevance": relevance_weight, "lift": 0.0}
        if by not in weights:
            raise ValueError(f"by must be one of {', '.join(map(repr, weights))}, got {by!r}")
        weight = float(number_array(weights[by], "relevance_weight", {"one value": ()}, 0, 1))
        if weight == 1:
            return top_words(self.topic_word_distr, n_words)
        check_count(n_words, "n_words", 1)
        with np.errstate(divide="ignore"):
            score = np.log(self.topic_word_distr, dtype=np.float64)
        score -= (1 - weight) * np.log(np.maximum(self.word_distr, TINY))
        columns, found = topl_weights(np.ascontiguousarray(score), n_words)
        order = np.argsort(-found, axis=1, kind="stable")
        return np.take_along_axis(columns, order, axis=1).astype(np.intp)

    def label(self, topics, n_words=3, *, by="relevance"):
        """Suggest a label of one topic, or of several taken together by their sizes.

        Parameters
        ----------
        topics : int or sequence of int
            The topics.
        n_words : int, default=3
            How many words.
        by : {"probability", "relevance", "lift"}, default="relevance"
            How words are ranked, as for :meth:`top_words`.

        Returns
        -------
        label : str
            The best words, without those that are the plural of one before, or its singular.
        """
        members = np.atleast_1d(self._topic(topics))
        share = self.size[members] + TINY  # topics without tokens have words, too
        merged = object.__new__(TopicSummary)
        distr = share @ self.topic_word_distr[members] / share.sum()
        merged.topic_word_distr, merged.word_distr = distr[np.newaxis], self.word_distr
        candidates = merged._top_columns(3 * check_count(n_words, "n_words", 1), by)[0]
        return ", ".join(_without_variants(self.feature_names[candidates])[:n_words])

    def _distinct_labels(self):
        """A label a topic, those that are equal with more words."""
        columns = self._top_columns(3 * (3 + MOST_MORE_WORDS), "relevance")
        words = [_without_variants(self.feature_names[row]) for row in columns]
        labels = [", ".join(row[:3]) for row in words]
        for more in range(4, 4 + MOST_MORE_WORDS):
            repeated = {label for label in labels if labels.count(label) > 1}
            for topic, label in enumerate(labels):
                if label in repeated:
                    labels[topic] = ", ".join(words[topic][:more])
        return labels

    def word_topics(self, word):
        """How the occurrences of a word are shared by the topics.

        Parameters
        ----------
        word : str or int
            The word, or its column number if there are no names.

        Returns
        -------
        share : ndarray of shape (n_components,)
            Share of each topic, in proportion to ``size * topic_word_distr[:, word]``; they sum
            to 1.

        Raises
        ------
        ValueError
            If there is no such word.
        """
        found = np.flatnonzero(self.feature_names == word)
        if not len(found):
            raise ValueError(f"{word!r} is not among the {len(self.feature_names)} words")
        share = self.size * self.topic_word_distr[:, found[0]]
        return share / max(share.sum(), TINY)

    # ------------------------------------------------------------------ documents

    def top_documents(self, n_documents=3, *, by="weight"):
        """List the documents that represent each topic.

        Parameters
        ----------
        n_documents : int, default=3
            How many documents a topic; all if there are fewer.
        by : {"weight", "tokens"}, default="weight"
            Whether documents are ranked by the topic's weight, which suits documents of similar
            lengths, or by the tokens that it has in them, which leaves out very short ones.

        Returns
        -------
        documents : ndarray of shape (n_components, min(n_documents, number of documents))
            Their names, best first; row numbers if there are no names.
        """
        return self.documents[self._top_rows(n_documents, by)]

    def _top_rows(self, n_documents, by):
        """The rows of :meth:`top_documents`."""
        self._need_documents()
        if by not in ("weight", "tokens"):
            raise ValueError(f"by must be 'weight' or 'tokens', got {by!r}")
        n_documents = min(check_count(n_documents, "n_documents", 1), len(self.documents))
        factor = self.lengths if by == "tokens" else np.ones(len(self.lengths))
        weights = self.doc_topic.tocsc() if sp.issparse(self.doc_topic) else self.doc_topic
        best = np.empty((len(self.size), n_documents), dtype=np.intp)
        for topic in range(len(self.size)):
            column = weights[:, [topic]]
            column = (column.toarray() if sp.issparse(column) else column)[:, 0] * factor
            best[topic] = np.argsort(-column, kind="stable")[:n_documents]
        return best

    def shares(self, groups, *, of="group", as_frame=False):
        """Compute how much of each topic there is in groups of documents.

        Parameters
        ----------
        groups : array-like of shape (n_documents,)
            The group of each document: a class, an author, a year, a month.
        of : {"group", "topic"}, default="group"
            Whether shares are of a group's tokens, so that rows sum to 1, or of a topic's tokens,
            so that columns do.
        as_frame : bool, default=False
            Whether to return a pandas DataFrame.

        Returns
        -------
        names : ndarray of shape (n_groups,)
            The groups, sorted.
        shares : ndarray of shape (n_groups, n_components)
            The shares; NaN for groups, or topics, without tokens. With `as_frame` a DataFrame of
            them instead of both, groups by topics' labels.
        """
        self._need_documents()
        if of not in ("group", "topic"):
            raise ValueError(f"of must be 'group' or 'topic', got {of!r}")
        names, member = self._grouped(groups)
        member = sp.csr_matrix(
            (self.lengths, (member, np.arange(len(member)))), (len(names), len(member))
        )
        table = member @ self.doc_topic
        table = table.toarray() if sp.issparse(table) else np.asarray(table)
        with np.errstate(invalid="ignore"):
            table = table / table.sum(axis=1 if of == "group" else 0, keepdims=True)
        return self._framed(names, table, "group") if as_frame else (names, table)

    def over_time(self, times, *, n_periods=10, as_frame=False):
        """Compute how much of each topic there is in periods of equal length.

        For periods of a calendar give :meth:`shares` their names.

        Parameters
        ----------
        times : array-like of shape (n_documents,)
            When each document is from: numbers, or dates as numpy or pandas have them.
        n_periods : int, default=10
            How many periods.
        as_frame : bool, default=False
            Whether to return a pandas DataFrame.

        Returns
        -------
        starts : ndarray of shape (n_periods,)
            When the periods begin, in the type of `times` for dates, float64 for numbers.
        shares : ndarray of shape (n_periods, n_components)
            Shares of a period's tokens; rows sum to 1, and are NaN in periods without tokens. With
            `as_frame` a DataFrame of them instead of both, periods by topics' labels.
        """
        self._need_documents()
        check_count(n_periods, "n_periods", 1)
        times = np.asarray(times)
        is_date = times.dtype.kind == "M"
        if is_date and np.isnat(times).any():
            raise ValueError("times must be known, got NaT")
        shapes = {"one a document": (len(self.documents),)}
        values = times.astype(np.int64) if is_date else times
        values = number_array(values, "times", shapes, -MOST, MOST)
        first, last = values.min(), values.max()
        edges = np.linspace(first, last if last > first else first + 1, n_periods + 1)
        period = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, n_periods - 1)
        found, known = self.shares(period)
        table = np.full((n_periods, len(self.size)), np.nan)
        table[found] = known
        starts = edges[:-1].astype(np.int64).astype(times.dtype) if is_date else edges[:-1]
        return self._framed(starts, table, "start") if as_frame else (starts, table)

    # ------------------------------------------------------------------ topics beside topics

    def similar(self, topic, n_topics=5, *, distance="hellinger"):
        """List the topics that are nearest to one.

        Parameters
        ----------
        topic : int
            The topic.
        n_topics : int, default=5
            How many; all others if there are fewer.
        distance : str, default="hellinger"
            As for :func:`~sklearn_sparsepost.metrics.topic_distances`.

        Returns
        -------
        topics : ndarray of shape (min(n_topics, n_components - 1),)
            Their numbers, nearest first.
        distances : ndarray of the same shape, float64
            From 0, for the same topic, to 1, for one without a common word.
        """
        check_count(n_topics, "n_topics", 1)
        (found,) = topic_distances(
            self.topic_word_distr[[self._topic(topic)]], self.topic_word_distr, distance=distance
        )
        order = np.argsort(found, kind="stable")
        order = order[order != topic][:n_topics]
        return order, found[order]

    # ------------------------------------------------------------------ shown

    def to_frame(self, n_words=10, n_documents=3):
        """Make a table for pandas, which must be installed.

        Parameters
        ----------
        n_words : int, default=10
            Words a topic.
        n_documents : int, default=3
            Documents a topic.

        Returns
        -------
        frame : DataFrame
            A row a topic, with `label`, `size`, lists of the likeliest `words` and of
            `relevant_words`, and, if there are documents, a list of `documents`.
        """
        import pandas as pd

        frame = pd.DataFrame({"label": self.labels, "size": self.size})
        frame["words"] = self.top_words(n_words).tolist()
        frame["relevant_words"] = self.top_words(n_words, by="relevance").tolist()
        if self.doc_topic is not None:
            frame["documents"] = self.top_documents(n_documents).tolist()
        return frame.rename_axis("topic")

    def _rows(self, n_words=7, n_documents=3):
        """What is shown of each topic, the largest first: texts of a head and of each row."""
        words = self.top_words(n_words)
        rows = [["topic", "size", "label", "words"]]
        if self.doc_topic is not None:
            rows[0].append("documents")
            best = self.top_documents(n_documents)
        for topic in np.argsort(-self.size, kind="stable"):
            row = [str(topic), f"{self.size[topic]:.1%}", self.labels[topic]]
            row.append(" ".join(map(str, words[topic])))
            if self.doc_topic is not None:
                row.append(SEPARATOR.join(_shortened(name) for name in best[topic]))
            rows.append(row)
        return rows

    def __repr__(self):
        n_components, n_features = self.topic_word_distr.shape
        told = f"{n_components} topics, {n_features} words"
        return (
            f"<{type(self).__name__}: {told}>"
            if self.doc_topic is None
            else f"<{type(self).__name__}: {told}, {len(self.documents)} documents>"
        )

    def __str__(self):
        rows = self._rows()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = []
        for row in rows:
            number, size, *texts = (
                text.rjust(width) if place < 2 else text.ljust(width)
                for place, (text, width) in enumerate(zip(row, widths, strict=True))
            )
            lines.append(f"{number}  {size}  " + "    ".join(texts).rstrip())
        return "\n".join(lines)

    def _repr_html_(self):
        head, *rows = self._rows()
        cells = "".join(f"<th>{text}</th>" for text in head)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in rows
        )
        return f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"

    # ------------------------------------------------------------------ helpers

    def _need_documents(self):
        if self.doc_topic is None:
            raise ValueError(
                "this summary has no documents: give from_estimator X, or the constructor doc_topic"
            )

    def _topic(self, topics):
        """Numbers of topics, or a ValueError if there is no such topic."""
        found = np.asarray(topics)
        K = len(self.size)
        if found.dtype.kind not in "iu" or not found.size or ((found < 0) | (found >= K)).any():
            raise ValueError(f"topics are numbered from 0 to {K - 1}, got {topics!r}")
        return found

    def _grouped(self, groups):
        """The groups' names, sorted, and the number of each document's."""
        groups = np.asarray(groups)
        if groups.shape != (len(self.documents),):
            raise ValueError(
                f"groups has shape {groups.shape}, but there are {len(self.documents)} documents"
            )
        try:
            return np.unique(groups, return_inverse=True)
        except TypeError as error:
            raise ValueError(f"groups must be of one type that can be sorted: {error}") from error

    def _framed(self, index, table, name):
        import pandas as pd

        return pd.DataFrame(table, index=pd.Index(index, name=name), columns=self.labels)


def _as_table(X):
    """Documents as something that sums its rows."""
    return X if sp.issparse(X) else np.asarray(X)


def _mass_without_prior(model):
    """Expected counts a topic: its row of `components_` less the prior of the words."""
    topics = np.asarray(model.components_)
    prior = np.asarray(getattr(model, "topic_word_prior_", 0.0))
    return np.maximum(topics - prior, 0).sum(axis=1, dtype=np.float64)


def _document_weights(doc_topic, mass):
    """Topic weights of documents, rows of which sum to 1, or to 0; a ValueError if they cannot."""
    weights = doc_topic.tocsr() if sp.issparse(doc_topic) else np.asarray(doc_topic)
    if weights.ndim != 2 or weights.shape[1] != len(mass):
        raise ValueError(
            f"doc_topic has shape {weights.shape}, but must have a column for each of "
            f"{len(mass)} topics"
        )
    weights = weights.astype(np.result_type(weights.dtype, np.float32), copy=False)
    values = weights.data if sp.issparse(weights) else weights
    if not ((values >= 0) & (values <= MOST)).all():
        raise ValueError("doc_topic must be finite and not negative")
    total = np.asarray(weights.sum(axis=1)).ravel()
    if (np.abs(total[total > 0] - 1) > ROUNDING).any():
        weights = weights.multiply(mass).tocsr() if sp.issparse(weights) else weights * mass
        total = np.asarray(weights.sum(axis=1)).ravel()
    factor = 1 / np.where(total > 0, total, 1)
    return sp.diags(factor) @ weights if sp.issparse(weights) else weights * factor[:, np.newaxis]


def _document_names(documents, n_documents):
    """Names of documents, by default their numbers; a ValueError if there are too few or many."""
    if documents is None:
        return np.arange(n_documents)
    if len(documents) != n_documents:
        raise ValueError(f"documents has {len(documents)} names, but there are {n_documents} rows")
    names = np.empty(n_documents, dtype=object)
    names[:] = documents.tolist() if hasattr(documents, "tolist") else list(documents)
    return names


def _shortened(name):
    """A document's name, or the beginning of its text, on one line; of a path the end, too."""
    text = " ".join(str(name).split())
    if len(text) <= MOST_LETTERS:
        return text
    n_last = 0 if " " in text else 2 * MOST_LETTERS // 3
    first = text[: MOST_LETTERS - 3 - n_last].rstrip()
    return first + "..." + text[len(text) - n_last :]


def _without_variants(words):
    """Words without those that differ from one before by an ending of one or two letters."""
    kept = []
    for word in map(str, words):
        variants = (
            abs(len(word) - len(other)) <= 2 and (word.startswith(other) or other.startswith(word))
            for other in kept
        )
        if not any(variants):
            kept.append(word)
    return kept
