"""Models of other libraries, and the topics of every token, in and out.

What is exchanged is arrays and MALLET's state files. No other library is imported, but for gensim
by :func:`to_gensim`.
"""

import gzip
from array import array
from numbers import Integral
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from sklearn_sparsepost._alias_lda import AliasLDA
from sklearn_sparsepost._checks import check_count, check_topics, positive_array
from sklearn_sparsepost._lda import SparseLDA
from sklearn_sparsepost._sampling.tokens import type_of_topics
from sklearn_sparsepost.metrics._topics import check_feature_names

__all__ = [
    "TopicAssignments",
    "from_gensim",
    "from_tomotopy",
    "read_mallet_state",
    "to_gensim",
    "write_mallet_state",
]

# What MALLET writes for a document without a name.
NO_NAME = "NA"
FIELDS = "#doc source pos typeindex type topic"


class TopicAssignments:
    """Words and topics of all tokens of a corpus: where a Gibbs sampler of LDA stands.

    It is what MALLET's state files hold, and what :class:`~sklearn_sparsepost.AliasLDA` and
    tomotopy keep in memory. :meth:`to_estimator` makes an estimator of it that samples on.

    Read more in the :ref:`User Guide <assignments>`.

    Parameters
    ----------
    document : array-like of shape (n_tokens,)
        Document of each token, from 0; none is less than the one before.
    word : array-like of shape (n_tokens,)
        Word of each token, from 0.
    topic : array-like of shape (n_tokens,)
        Topic of each token, from 0.
    doc_topic_prior : array-like of shape (n_components,)
        Dirichlet prior of the documents' topic weights.
    topic_word_prior : float
        Dirichlet prior of the topics' words.
    feature_names : array-like of str of shape (n_features,)
        The words.
    documents : int or sequence of str of length n_documents, default=None
        Names of the documents, or how many there are; by default they have no names, and the last
        one is the last that has tokens.

    Attributes
    ----------
    document : ndarray of shape (n_tokens,), int64
        Document of each token.
    word : ndarray of shape (n_tokens,), int64
        Word of each token.
    topic : ndarray of shape (n_tokens,), int64
        Topic of each token.
    doc_topic_prior : ndarray of shape (n_components,)
        Dirichlet prior of the documents' topic weights.
    topic_word_prior : float
        Dirichlet prior of the topics' words.
    feature_names : ndarray of shape (n_features,)
        The words.
    documents : list of str, or None
        Names of the documents.
    n_documents : int
        Number of documents.

    Raises
    ------
    ValueError
        If there are no tokens, if a number is out of range, documents do not stand together, or
        shapes do not fit.

    Examples
    --------
    >>> from sklearn_sparsepost.interop import TopicAssignments
    >>> tokens = TopicAssignments(
    ...     [0, 0, 0, 1, 1], [0, 1, 0, 2, 1], [0, 0, 0, 1, 1],
    ...     doc_topic_prior=[0.1, 0.1], topic_word_prior=0.01, feature_names=["cat", "dog", "star"],
    ... )
    >>> tokens.counts().toarray()
    array([[2, 1, 0],
           [0, 1, 1]])
    >>> tokens.topic_word_counts()
    array([[2, 1, 0],
           [0, 1, 1]])
    >>> lda = tokens.to_estimator(max_iter=20, warm_start=True, random_state=0)
    >>> print(lda.components_.round(2))
    [[2.01 1.01 0.01]
     [0.01 1.01 1.01]]
    >>> lda.fit(tokens.counts()).n_iter_  # goes on from these topics
    20
    """

    def __init__(
        self,
        document,
        word,
        topic,
        *,
        doc_topic_prior,
        topic_word_prior,
        feature_names,
        documents=None,
    ):
        prior = np.ravel(doc_topic_prior)
        self.doc_topic_prior = positive_array(
            prior, "doc_topic_prior", {"one a topic": (max(1, len(prior)),)}
        )
        self.topic_word_prior = float(
            positive_array(topic_word_prior, "topic_word_prior", {"one value": ()})
        )
        self.feature_names = check_feature_names(feature_names, len(feature_names))
        self.document = _numbers(document, "document", None)
        if documents is None:
            documents = int(self.document.max()) + 1
        if isinstance(documents, Integral):
            self.documents, self.n_documents = None, check_count(documents, "documents", 1)
        else:
            self.documents = [str(name) for name in documents]
            self.n_documents = len(self.documents)
        if self.document.max() >= self.n_documents or (np.diff(self.document) < 0).any():
            raise ValueError(
                f"document must be sorted and below {self.n_documents}, the number of documents"
            )
        self.word = _numbers(word, "word", len(self.feature_names))
        self.topic = _numbers(topic, "topic", len(self.doc_topic_prior))
        for name in ("word", "topic"):
            if len(getattr(self, name)) != len(self.document):
                raise ValueError(
                    f"{name} has {len(getattr(self, name))} tokens, but document has "
                    f"{len(self.document)}"
                )

    @classmethod
    def from_estimator(cls, estimator, *, feature_names=None, documents=None):
        """Read the words and topics of the tokens that a fitted sampler holds.

        Parameters
        ----------
        estimator : AliasLDA
            A fitted estimator. Its tokens are those of its last sweep, within a document by the
            columns of their words: their order in the text is not known.
        feature_names : array-like of str of shape (n_features,), default=None
            The words; by default `feature_names_in_`, or the column numbers.
        documents : sequence of str of length n_documents, default=None
            Names of the documents.

        Returns
        -------
        assignments : TopicAssignments
            The tokens. A prior of words that differs from word to word is given by its mean.

        Raises
        ------
        ValueError
            If the estimator holds no tokens, or names do not fit.
        """
        chain = getattr(estimator, "_fit_state", None)
        if not isinstance(estimator, AliasLDA) or not hasattr(
            getattr(chain, "tokens", None), "word"
        ):
            raise ValueError(
                f"this {type(estimator).__name__} holds no topics of tokens: a fitted AliasLDA "
                "does, unless EarlyStopping restored an earlier sweep or the tokens are in blocks "
                "of a Dask array"
            )
        tokens, order = chain.tokens, chain.tokens.word_order()
        n_documents, n_features = len(tokens.ptr), len(tokens.size)
        if documents is not None and len(documents) != n_documents:
            raise ValueError(
                f"documents has {len(documents)} names, but there are {n_documents} documents"
            )
        place = np.arange(chain.n_components)
        if hasattr(chain, "used"):  # slots of topics that come and go
            place[chain.used()] = np.arange(len(chain.used()))
        return cls(
            np.repeat(np.arange(n_documents), np.diff(tokens.doc_ptr)),
            tokens.word[order],
            place[chain.z[order]],
            doc_topic_prior=estimator.doc_topic_prior_,
            topic_word_prior=np.mean(estimator.topic_word_prior_),
            feature_names=_names_of(estimator, feature_names, n_features),
            documents=n_documents if documents is None else documents,
        )

    def counts(self):
        """Count the words of documents.

        Returns
        -------
        X : csr_matrix of shape (n_documents, n_features), int64
            What estimators are fitted to.
        """
        shape = self.n_documents, len(self.feature_names)
        X = sp.csr_matrix((np.ones(len(self.word), np.int64), (self.document, self.word)), shape)
        X.sum_duplicates()
        return X

    def topic_word_counts(self):
        """Count the tokens of topics that are of each word.

        Returns
        -------
        counts : ndarray of shape (n_components, n_features), int64
            Together with `topic_word_prior` the pseudo-counts `components_`.
        """
        return self._table(self.topic, self.word, len(self.feature_names), rows="topics")

    def doc_topic_counts(self):
        """Count the tokens of documents that are of each topic.

        Returns
        -------
        counts : ndarray of shape (n_documents, n_components), int64
            The tokens.
        """
        return self._table(self.document, self.topic, len(self.doc_topic_prior), rows="documents")

    def _table(self, row, column, width, *, rows):
        height = self.n_documents if rows == "documents" else len(self.doc_topic_prior)
        return np.bincount(row * width + column, minlength=height * width).reshape(height, width)

    def to_estimator(self, **params):
        """Make an estimator that stands where these tokens do, before its first sweep.

        With ``warm_start=True`` its `fit` on :meth:`counts` goes on from these topics, and
        `partial_fit` appends documents to them.

        Parameters
        ----------
        **params : dict
            Parameters of :class:`~sklearn_sparsepost.AliasLDA` other than `n_components`; the
            priors are by default those of the tokens.

        Returns
        -------
        lda : AliasLDA
            A fitted estimator.
        """
        priors = {
            "doc_topic_prior": self.doc_topic_prior,
            "topic_word_prior": self.topic_word_prior,
        }
        lda = AliasLDA(len(self.doc_topic_prior), **{**priors, **params})
        order = np.lexsort((self.word, self.document))
        z = self.topic[order].astype(type_of_topics(lda.n_components))
        lda._begin_at(self.counts(), z)
        return lda


def _numbers(values, name, most):
    """Numbers from 0, below a limit if there is one, or a ValueError that names them."""
    array = np.asarray(values)
    if array.ndim != 1 or not len(array) or array.dtype.kind not in "iu":
        raise ValueError(
            f"{name} must be a list of whole numbers, one a token and at least one, got {values!r}"
        )
    if array.min() < 0 or (most is not None and array.max() >= most):
        limit = "" if most is None else f" and below {most}"
        raise ValueError(f"{name} must be at least 0{limit}, got {array.min()} to {array.max()}")
    return array.astype(np.int64, copy=False)


def _names_of(estimator, feature_names, n_features):
    """The words as given, or as the estimator has them, or their column numbers."""
    if feature_names is None:
        feature_names = getattr(estimator, "feature_names_in_", None)
    if feature_names is None:
        feature_names = [str(column) for column in range(n_features)]
    return check_feature_names(feature_names, n_features)


def _names_if_any(names):
    """Names of documents, or how many these are if none has a name."""
    return len(names) if set(names) == {NO_NAME} else names


# ---------------------------------------------------------------------- MALLET


def read_mallet_state(path):
    """Read the file that ``mallet train-topics --output-state`` writes.

    Parameters
    ----------
    path : str or path-like
        The file, compressed by gzip or not.

    Returns
    -------
    assignments : TopicAssignments
        Its tokens, in their order, and its priors. Columns are the words that occur, in the order
        of MALLET's numbers.

    Raises
    ------
    ValueError
        If the file is not such a state; it names the line.

    See Also
    --------
    write_mallet_state : The way back.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn_sparsepost.interop import read_mallet_state
    >>> path = Path(tempfile.mkdtemp()) / "state.txt"
    >>> _ = path.write_text(
    ...     "#doc source pos typeindex type topic\\n"
    ...     "#alpha : 0.5 0.5\\n"
    ...     "#beta : 0.01\\n"
    ...     "0 a.txt 0 0 cat 1\\n"
    ...     "0 a.txt 1 1 dog 1\\n"
    ...     "1 b.txt 0 2 star 0\\n"
    ... )
    >>> state = read_mallet_state(path)
    >>> state.documents, state.feature_names.tolist(), state.topic.tolist()
    (['a.txt', 'b.txt'], ['cat', 'dog', 'star'], [1, 1, 0])
    """
    priors, sources, words, tokens = {}, {}, {}, array("q")
    with _opened(path) as file:
        for number, line in enumerate(file, 1):
            try:
                if line.startswith("#"):
                    name, _, values = line[1:].partition(" : ")
                    priors[name] = [float(value) for value in values.split()]
                    continue
                # A source may have spaces, the fields after it have none.
                left, _, index, word, topic = line.rstrip("\n").rsplit(" ", 4)
                document, source = left.split(" ", 1)
                tokens.extend((int(document), int(index), int(topic)))
                sources[tokens[-3]] = source
                words[tokens[-2]] = word
            except ValueError as error:
                raise ValueError(
                    f"line {number} of {path} is not of a state of MALLET: {line[:80]!r}"
                ) from error
    if not tokens or len(priors.get("beta", ())) != 1 or not priors.get("alpha"):
        raise ValueError(f"{path} is no state of MALLET: it has no tokens, no #alpha or no #beta")
    document, index, topic = np.array(tokens).reshape(-1, 3).T
    numbers, column = np.unique(index, return_inverse=True)
    names = [sources.get(number, NO_NAME) for number in range(max(0, int(document.max()) + 1))]
    return TopicAssignments(
        document,
        column,
        topic,
        doc_topic_prior=priors["alpha"],
        topic_word_prior=priors["beta"][0],
        feature_names=[words[number] for number in numbers],
        documents=_names_if_any(names),
    )


def _opened(path):
    """A text file, compressed by gzip or not, to read."""
    with open(path, "rb") as file:
        is_compressed = file.read(2) == b"\x1f\x8b"
    return (gzip.open if is_compressed else open)(path, "rt", encoding="utf-8", newline="\n")


def write_mallet_state(assignments, path):
    """Write a file as ``mallet train-topics --output-state`` does.

    Parameters
    ----------
    assignments : TopicAssignments or AliasLDA
        The tokens, or a fitted estimator that has them; words are numbered by their columns.
    path : str or path-like
        The file, which is compressed by gzip.

    Raises
    ------
    ValueError
        If a name of a word or document is empty or has a space in it, which MALLET would read as
        two fields.

    See Also
    --------
    read_mallet_state : The way back.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn_sparsepost import AliasLDA
    >>> from sklearn_sparsepost.datasets import make_bars
    >>> from sklearn_sparsepost.interop import read_mallet_state, write_mallet_state
    >>> X, _, _ = make_bars(50, random_state=0)
    >>> lda = AliasLDA(10, max_iter=5, random_state=0).fit(X)
    >>> path = Path(tempfile.mkdtemp()) / "state.gz"
    >>> write_mallet_state(lda, path)
    >>> (read_mallet_state(path).counts() != X).nnz
    0
    """
    if not isinstance(assignments, TopicAssignments):
        assignments = TopicAssignments.from_estimator(assignments)
    names = assignments.feature_names.astype(str).tolist()
    sources = assignments.documents or [NO_NAME] * assignments.n_documents
    for what, texts in (("word", names), ("document", sources)):
        bad = next((text for text in texts if not text or len(text.split()) != 1), None)
        if bad is not None:
            raise ValueError(f"{what} {bad!r} is empty or has a space, which no state can hold")
    document = assignments.document
    position = np.arange(len(document)) - np.searchsorted(document, document)
    columns = (document, position, assignments.word, assignments.topic)
    with gzip.open(Path(path), "wt", encoding="utf-8", newline="\n") as file:
        alpha = " ".join(map(repr, assignments.doc_topic_prior.tolist()))
        file.write(f"{FIELDS}\n#alpha : {alpha}\n#beta : {assignments.topic_word_prior!r}\n")
        for d, place, v, k in zip(*(column.tolist() for column in columns), strict=True):
            file.write(f"{d} {sources[d]} {place} {v} {names[v]} {k}\n")


# ---------------------------------------------------------------------- tomotopy


def from_tomotopy(model):
    """Take the words and topics of all tokens out of a model of tomotopy.

    Parameters
    ----------
    model : tomotopy.LDAModel
        A trained model, or another with its `docs`, `used_vocabs`, `alpha` and `eta`, such as
        ``HDPModel.convert_to_lda()`` returns. It is only read.

    Returns
    -------
    assignments : TopicAssignments
        Its tokens, without words that tomotopy left out, and its priors.

    Raises
    ------
    ValueError
        If the model has no Dirichlet priors of documents and of words, or no documents.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from sklearn_sparsepost.interop import from_tomotopy
    >>> model = SimpleNamespace(  # or tomotopy.LDAModel(2)
    ...     k=2, alpha=[0.1, 0.1], eta=0.01, used_vocabs=["cat", "dog"],
    ...     docs=[SimpleNamespace(words=[0, 1, 0], topics=[0, 1, 0])],
    ... )
    >>> from_tomotopy(model).topic_word_counts()
    array([[2, 0],
           [0, 1]])
    """
    alpha, eta = (np.asarray(getattr(model, name, ())) for name in ("alpha", "eta"))
    if alpha.shape != (model.k,) or eta.size != 1:
        raise ValueError(
            f"{type(model).__name__} is no LDA with one alpha a topic and one eta: of an HDPModel "
            "take convert_to_lda()"
        )
    names, documents = list(model.used_vocabs), list(model.docs)
    words = [np.asarray(document.words, dtype=np.int64) for document in documents]
    topics = [np.asarray(document.topics, dtype=np.int64) for document in documents]
    number = np.repeat(np.arange(len(documents)), [len(part) for part in words])
    word, topic = (np.concatenate([*parts, np.empty(0, np.int64)]) for parts in (words, topics))
    used = word < len(names)
    if not used.any():
        raise ValueError(f"this {type(model).__name__} has no documents with words")
    return TopicAssignments(
        number[used],
        word[used],
        topic[used],
        doc_topic_prior=alpha,
        topic_word_prior=float(eta.ravel()[0]),
        feature_names=names,
        documents=_names_if_any([getattr(one, "uid", None) or NO_NAME for one in documents]),
    )


# ---------------------------------------------------------------------- gensim


def from_gensim(model, **params):
    """Make a fitted estimator of a model of gensim, with the same posteriors of topics.

    Parameters
    ----------
    model : gensim.models.LdaModel
        A trained model, or another with its `state`, `alpha` and `eta`. It is only read.
    **params : dict
        Parameters of :meth:`SparseLDA.from_topics <sklearn_sparsepost.SparseLDA.from_topics>` other
        than `n_components`. By default ``estimation="bayes"``, gensim's reading of its topics,
        gensim's priors, and no names of columns, which are gensim's word numbers.

    Returns
    -------
    lda : SparseLDA
        A fitted estimator. Its `partial_fit` goes on where gensim's ``update`` would, with
        learning rates of its own.

    Raises
    ------
    ValueError
        If the topics or priors are out of range, or a parameter is.

    See Also
    --------
    to_gensim : The way back.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> import numpy as np
    >>> from sklearn_sparsepost.interop import from_gensim
    >>> topics = np.array([[5.1, 0.1, 3.1], [0.1, 7.1, 1.1]])
    >>> model = SimpleNamespace(  # or gensim.models.LdaModel(corpus, num_topics=2)
    ...     state=SimpleNamespace(get_lambda=lambda: topics, numdocs=20),
    ...     alpha=np.array([0.5, 0.5]), eta=np.full(3, 0.1),
    ... )
    >>> from_gensim(model).transform([[2, 0, 1]]).round(2)
    array([[0.87, 0.13]])
    """
    topics = check_topics(model.state.get_lambda(), "the model's lambda")
    ours = {
        "estimation": "bayes",
        "doc_topic_prior": np.asarray(model.alpha, dtype=np.float64),
        "topic_word_prior": _shortest(np.asarray(model.eta, dtype=np.float64)),
    }
    lda = SparseLDA.from_topics(topics, **{**ours, **params})
    lda.n_samples_seen_ = int(model.state.numdocs)
    return lda


def _shortest(prior):
    """One value, if all are the same."""
    return float(prior.flat[0]) if (prior == prior.flat[0]).all() else prior


def to_gensim(estimator, *, feature_names=None, n_documents=None):
    """Make a model of gensim of fitted topics; needs gensim.

    Parameters
    ----------
    estimator : estimator instance
        A fitted topic model with `components_`, `doc_topic_prior_` and `topic_word_prior_`:
        :class:`~sklearn_sparsepost.SparseLDA`, :class:`~sklearn_sparsepost.AliasLDA` or
        scikit-learn's `LatentDirichletAllocation`. gensim takes `components_` as parameters of
        Dirichlet posteriors, as ``estimation="bayes"`` does.
    feature_names : array-like of str of shape (n_features,), default=None
        The words; by default `feature_names_in_`, or the column numbers.
    n_documents : int, default=None
        How many documents the topics were learned from, by which ``update`` weighs new ones
        against them; by default `n_samples_seen_`, or 0, with which the first update forgets the
        topics.

    Returns
    -------
    model : gensim.models.LdaModel
        The model: ``model.save(path)`` writes it, ``model[bow]`` infers documents.

    Raises
    ------
    ValueError
        If the estimator has no such attributes, or names do not fit.

    See Also
    --------
    from_gensim : The way back.

    Examples
    --------
    >>> from sklearn_sparsepost import SparseLDA
    >>> from sklearn_sparsepost.datasets import make_bars
    >>> from sklearn_sparsepost.interop import to_gensim
    >>> lda = SparseLDA(10, random_state=0).fit(make_bars(200, random_state=0)[0])
    >>> model = to_gensim(lda)  # doctest: +SKIP
    >>> model.show_topic(0, topn=3)  # doctest: +SKIP
    """
    needed = ("components_", "doc_topic_prior_", "topic_word_prior_")
    missing = [name for name in needed if not hasattr(estimator, name)]
    if missing:
        raise ValueError(
            f"this {type(estimator).__name__} has no {missing[0]}: gensim's LdaModel is made of a "
            "fitted LDA with Dirichlet priors"
        )
    topics = check_topics(estimator.components_)
    n_components, n_features = topics.shape
    names = _names_of(estimator, feature_names, n_features).tolist()
    if n_documents is None:
        n_documents = getattr(estimator, "n_samples_seen_", 0)
    check_count(n_documents, "n_documents", 0)
    from gensim.models import LdaModel

    model = LdaModel(
        id2word=dict(enumerate(names)),
        num_topics=n_components,
        alpha=np.broadcast_to(estimator.doc_topic_prior_, (n_components,)).astype(np.float64),
        eta=np.asarray(estimator.topic_word_prior_, dtype=np.float64) + np.zeros(n_features),
        random_state=0,
        dtype=np.float64,
    )
    model.state.sstats = np.maximum(topics - model.eta, 0.0)
    model.state.numdocs = model.num_updates = n_documents
    model.sync_state()
    return model
