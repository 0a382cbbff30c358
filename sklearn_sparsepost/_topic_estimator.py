"""What every estimator of topics shares: priors, transform, score, samples."""

import warnings

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.metadata_routing import UNUSED

from sklearn_sparsepost._base import BaseSparsePosterior, LazyAttribute, check_is_fitted
from sklearn_sparsepost._checks import check_count, check_topics, positive_array
from sklearn_sparsepost._models.inference import TopicTable
from sklearn_sparsepost._models.priors import feature_prior
from sklearn_sparsepost._run.collections import float_type, is_collection
from sklearn_sparsepost._run.dispatch import Corpus
from sklearn_sparsepost.metrics._heldout import complete_documents, predict_from_left


class BaseTopicEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseSparsePosterior):
    """Base class of the topic models: fitted, each has `components_`.

    A subclass has the parameters `n_components`, `doc_topic_prior`, `topic_word_prior`,
    `sparse_output` and `n_jobs`, and one hook:

    - ``_inference(alpha=None)``: how documents are inferred and drawn under the fitted prior, or
      under a given one; an object such as `_models.inference` declares. All that is done with a
      fitted model asks this object.
    """

    components_ = LazyAttribute()

    # Whether topics are point estimates to documents, rather than posterior distributions.
    _has_point_topics = False

    # Options of the score are nothing that comes with the data.
    __metadata_request__score = dict.fromkeys(("method", "n_particles", "random_state"), UNUSED)
    __metadata_request__transform = {"normalize": UNUSED}

    # ------------------------------------------------------------------ parameters

    @property
    def _learns_prior(self):
        return isinstance(self.doc_topic_prior, str)

    @property
    def _learns_word_prior(self):
        return isinstance(self.topic_word_prior, str)

    def _check_corpus(self, X, depth=4):
        """Refuse data without counts; a warning is of who is `depth` calls above."""
        if not X.nnz:
            raise ValueError("X has no counts: every document is empty")
        if self.n_components > X.shape[0]:
            warnings.warn(
                f"n_components={self.n_components} is more than the {X.shape[0]} documents: "
                "some topics will stay empty",
                UserWarning,
                stacklevel=depth,  # past the validation that wraps `fit`
            )

    def _check_goes_on(self):
        """Whoever goes on with fitted topics must want as many."""
        found = self._n_features_out
        if found != self.n_components:
            raise ValueError(
                f"n_components={self.n_components}, but there are {found} fitted topics to go on "
                "with"
            )

    def _resolve_priors(self, n_features):
        """alpha of shape (n_components,), and the topics' prior in the shape given."""
        K = self.n_components
        default = self.doc_topic_prior is None or self._learns_prior
        alpha = 0.5 / K if default else self.doc_topic_prior
        alpha = positive_array(alpha, "doc_topic_prior", {"one value": (), "one a topic": (K,)})
        given = None if self._learns_word_prior else self.topic_word_prior
        beta = feature_prior(given, 0.1, "topic_word_prior", n_features, K)
        return np.broadcast_to(alpha, (K,)).copy(), beta

    # ------------------------------------------------------------------ using a fitted model

    @property
    def topic_word_distr_(self):
        """The topics' expected word probabilities, of shape (n_components, n_features)."""
        components = self.components_
        return components / components.sum(axis=1, dtype=np.float64, keepdims=True).astype(
            components.dtype
        )

    @property
    def _n_features_out(self):
        return len(self.doc_topic_prior_)

    def transform(self, X, *, normalize=True):
        """Infer the topic weights of documents.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask array or dataframe} of shape (n_samples, n_features)
            Counts of words in documents.
        normalize : bool, default=True
            Whether rows sum to 1. If not, they sum to the document's tokens plus the sum of
            `doc_topic_prior_`, where there is one: the parameters of the documents' Dirichlet
            posteriors.

        Returns
        -------
        doc_topic : ndarray, csr_matrix or Dask array of shape (n_samples, n_components)
            Posterior mean topic weights. A row depends on its document alone. With
            `sparse_output` the active topics only, renormalised. A Dask array for data of Dask,
            computed when it is asked for.
        """
        check_is_fitted(self)
        if is_collection(X):
            dtype = float_type(X, self.components_)
            shape = self._n_features_out
            return self._map_rows(X, "transform", shape, dtype, normalize=normalize)
        X, dtype = self._validate_counts(X, reset=False, dtype=self.components_.dtype)
        inference, corpus = self._inference(), Corpus(X, dtype, self.n_jobs)
        table = topic_table(corpus, self.components_, inference, point=self._has_point_topics)
        infer = inference.active_weights if self.sparse_output else inference.weights
        parts = list(corpus.map(infer, table))
        found = sp.vstack(parts, format="csr") if self.sparse_output else np.concatenate(parts)
        if normalize:
            return found
        mass = np.asarray(X.sum(axis=1)).ravel() + np.sum(getattr(self, "doc_topic_prior_", 0))
        return scaled_rows(found, mass)

    def score(self, X, y=None, *, method="completion", n_particles=20, random_state=0):
        """Held-out quality: mean log-probability of a word, in nats.

        By default document completion on a fixed split of every document's distinct words, 80 %
        observed; see :func:`sklearn_sparsepost.metrics.document_completion`. Higher is better, and
        independent of the number of documents and of `sparsity_level`, so that a grid search over
        topics, sparsity and learning rates picks the right model.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask array or dataframe} of shape (n_samples, n_features)
            Counts of words in held-out documents.
        y : None
            Ignored.
        method : {"completion", "left-to-right"}, default="completion"
            What is predicted from what.

            - "completion": hidden words, given the rest of their documents;
            - "left-to-right": all tokens, each given those before it, which estimates the
              probability of whole documents; see :func:`sklearn_sparsepost.metrics.left_to_right`.
              Counts have to be whole numbers.
        n_particles : int, default=20
            Particles of "left-to-right".
        random_state : int, default=0
            Seed of the split, or of the particles.

        Returns
        -------
        score : float
            Nats a token.
        """
        check_is_fitted(self)
        X, _ = self._validate_counts(X, reset=False)
        topics = check_topics(self.components_).astype(np.float64, copy=False)
        options = {"random_state": random_state, "n_jobs": self.n_jobs}
        if method == "completion":
            return complete_documents(topics, X, self._inference().dense(), **options)
        if method == "left-to-right":
            inference = self._inference()
            return predict_from_left(topics, X, inference, n_particles=n_particles, **options)
        raise ValueError(f"method must be 'completion' or 'left-to-right', got {method!r}")

    def perplexity(self, X, *, method="completion", n_particles=20, random_state=0):
        """Held-out perplexity, ``exp(-score(X))``: lower is better.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask array or dataframe} of shape (n_samples, n_features)
            Counts of words in held-out documents.
        method : {"completion", "left-to-right"}, default="completion"
            What is predicted from what, as for :meth:`score`.
        n_particles : int, default=20
            Particles of "left-to-right".
        random_state : int, default=0
            Seed of the split, or of the particles.

        Returns
        -------
        perplexity : float
            Of a hidden word given the rest of its document, or of a token given those before it.
        """
        options = {"method": method, "n_particles": n_particles, "random_state": random_state}
        return float(np.exp(-self.score(X, **options)))

    def sample(self, n_samples=1, *, doc_length=100, random_state=None):
        """Draw documents from the fitted model.

        Parameters
        ----------
        n_samples : int, default=1
            Number of documents.
        doc_length : int, default=100
            Tokens a document.
        random_state : int, RandomState instance or None, default=None
            Source of the draws; by default the estimator's own.

        Returns
        -------
        X : csr_matrix of shape (n_samples, n_features), int64
            Counts.
        doc_topic : ndarray of shape (n_samples, n_components)
            The topic weights they were drawn with.
        """
        check_is_fitted(self)
        check_count(n_samples, "n_samples", 1)
        check_count(doc_length, "doc_length", 0)
        rng = check_random_state(self.random_state if random_state is None else random_state)
        doc_topic = self._inference().draw(n_samples, rng)
        topics = self.topic_word_distr_.astype(np.float64)
        rows = []
        for weights in doc_topic:
            p = weights @ topics
            rows.append(sp.csr_matrix(rng.multinomial(doc_length, p / p.sum())))
        return sp.vstack(rows, format="csr"), doc_topic

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def topic_table(corpus, components, inference, *, point=False):
    """Topics for the words of some documents, as an inference reads them.

    Parameters
    ----------
    corpus : Corpus
        The documents.
    components : ndarray of shape (n_components, n_features)
        Pseudo-counts of words in topics.
    inference : object
        As `_models.inference` declares.
    point : bool, default=False
        Whether topics are point estimates.

    Returns
    -------
    table : TopicTable
        The topics.
    """
    X = corpus.X
    used = np.zeros(X.shape[1], dtype=bool)
    for ((start, stop),) in corpus.plan():
        used[X.indices[X.indptr[start] : X.indptr[stop]]] = True
    with corpus.threads():
        return TopicTable.of_components(
            components, used, inference.n_listed, corpus.dtype, point=point
        )


def scaled_rows(table, factors):
    """Rows of a table, dense or CSR, each times a number, in the table's dtype."""
    factors = np.asarray(factors, dtype=table.dtype)
    return sp.diags(factors).dot(table) if sp.issparse(table) else table * factors[:, np.newaxis]
