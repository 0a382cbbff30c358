"""What the topic models share that are learned by a bound, their words counts."""

from functools import partial
from numbers import Integral, Real

import numpy as np

from sklearn_sparsepost._base import Lazy, _fit_context, check_is_fitted
from sklearn_sparsepost._checks import (
    MOST_INTEGER,
    PRIOR,
    Interval,
    StrOptions,
    weighted_rows,
)
from sklearn_sparsepost._learning.state import FitState
from sklearn_sparsepost._models.admixture import Admixture
from sklearn_sparsepost._models.discrete import Multinomial
from sklearn_sparsepost._models.inference import DirichletInference
from sklearn_sparsepost._models.priors import compact_prior
from sklearn_sparsepost._run.collections import corpus_of
from sklearn_sparsepost._run.streams import STREAM_INIT, keyed_generator
from sklearn_sparsepost._starts.topics import first_counts
from sklearn_sparsepost._suffstats import exact_sum
from sklearn_sparsepost._tables import PseudoCounts
from sklearn_sparsepost._topic_estimator import BaseTopicEstimator
from sklearn_sparsepost._variational import BaseVariational


class BaseVariationalTopics(BaseTopicEstimator, BaseVariational):
    """Base class of the topic models that are learned by a bound.

    A subclass says what its documents are in ``_documents(...)``, what its model is in
    ``_model(n_features, dtype, n_documents)``, what is learned besides the topics' words in
    ``_learned_to_go_on(state)``, and what a state leaves in ``_fitted_attributes``.
    """

    _unit = "token"
    _kind = "variational"  # how statistics are kept: a fit cannot go on with those of another kind

    _parameter_constraints: dict = {
        **BaseVariational._parameter_constraints,
        "estimation": [StrOptions({"bayes", "map"})],
        "topic_word_prior": [None, PRIOR, "array-like"],
        "init": [StrOptions({"k-means++", "random", "anchor"}), "array-like"],
        "max_doc_update_iter": [Interval(Integral, 1, MOST_INTEGER, closed="both")],
        "mean_change_tol": [Interval(Real, 0, None, closed="left")],
        "restarts": [Interval(Integral, 0, MOST_INTEGER, closed="both")],
        "restarts_above": [
            StrOptions({"prior"}),
            Interval(Integral, 0, MOST_INTEGER, closed="both"),
        ],
        "doc_start": [StrOptions({"cold", "warm"})],
        "evaluate_every": [Interval(Integral, 0, None, closed="left")],
    }

    # ------------------------------------------------------------------ fitting

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, sample_weight=None):
        """Learn the topics of a corpus.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask array or dataframe} of shape (n_samples, n_features)
            Counts of words in documents; fractions are legal. CSR is not copied unless it stores
            zeros, may be read-only or memory-mapped, and is read a batch at a time. Blocks of a
            Dask array are held by its workers and worked on there (:ref:`on_a_cluster`).
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            How often each document counts: 2 is what two copies add to topics, bound and learned
            priors, and 0 leaves it out. Batches, step sizes and `total_samples` count documents
            once each, whatever they weigh.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter is out of range, a count or weight is negative, NaN or infinite, X is
            empty, or every weight is 0.
        """
        return self._fit(X, sample_weight=sample_weight)

    def _fit(self, X, groups=None, sample_weight=None):
        """Make the passes of a fit."""
        with self._whole_passes() as reached:
            goes_on = self.warm_start and hasattr(self, "n_iter_")
            corpus = self._new_corpus(X, groups, sample_weight, reset=not goes_on)
            if goes_on:
                self._check_goes_on()
            model = self._model_of(corpus, corpus.n_samples, goes_on)
            if goes_on:
                model = model.resized(self._n_features_out)
            self._check_corpus(corpus.X, 5)
            self._check_counts(corpus)
            states = self._states(model, corpus, goes_on)
            self._run_passes(corpus.given, states, self._one_pass(model, corpus), reached)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None, sample_weight=None):
        """Update the topics with one batch of a stream: a step of stochastic inference.

        The first call starts the topics from its own documents, by `init`. `total_samples` says
        how many documents the stream is thought to have. After a :meth:`fit` the steps go on
        from where one weighs a batch by its share of all documents seen, so that what was learned
        stays. A batch without counts changes nothing.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask array or dataframe} of shape (n_samples, n_features)
            Counts of words in the documents of the batch.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            How often each document counts, as for :meth:`fit`.

        Returns
        -------
        self : object
            The estimator, fitted to what it has seen.

        Raises
        ------
        ValueError
            As for :meth:`fit`; or if `n_components` is not the number of the fitted topics.
        """
        return self._partial_fit(X, sample_weight=sample_weight)

    def _partial_fit(self, X, groups=None, sample_weight=None):
        """Make a step on a batch."""
        with self._whole_passes():
            begins = not hasattr(self, "n_iter_")
            corpus = self._new_corpus(X, groups, sample_weight, reset=begins)
            if not begins:
                self._check_goes_on()
            model = self._model_of(corpus, None, not begins)
            if not begins:
                model = model.resized(self._n_features_out)
            self._check_counts(corpus)
            if begins:
                self._check_corpus(corpus.X, 5)
                state = self._begin(model, corpus, self._new_seed())
            elif corpus.is_empty:
                return self
            else:
                state = self._state_to_stream(model, corpus)
                state.learned = self._learned_to_go_on(state)
            self._stream(model, corpus, state, begins)
        return self

    def _new_corpus(self, X, groups=None, sample_weight=None, *, reset):
        """The checked data; a model of words has no groups."""
        X, dtype = self._validate_counts(X, reset=reset)
        X, weight = weighted_rows(X, sample_weight)
        return corpus_of(X, dtype, self.n_jobs, weight=weight)

    def _model_of(self, corpus, n_documents, goes_on):
        """The model of some data, of so many documents; None of a stream."""
        return self._model(corpus.X.shape[1], corpus.dtype, n_documents)

    def _check_counts(self, corpus):
        """Raise an error if these counts cannot be learned from."""

    def _admixture(self, documents, beta, n_features, dtype, judge=None):
        """The model of given documents and a given prior of topics."""
        words = Multinomial(self.estimation, compact_prior(beta), n_features)
        return self._put_together(words, documents, dtype, judge)

    def _put_together(self, observation, documents, dtype, judge=None):
        """The model of given parts."""
        return Admixture(
            observation,
            documents,
            len(documents.alpha),
            dtype=dtype,
            keeps_local=self.doc_start == "warm" and self.learning_method == "memoized",
            judge=judge,
        )

    def _step_options(self):
        """Options of the documents' local step."""
        return {
            "sparsity_level": self.sparsity_level,
            "max_iter": self.max_doc_update_iter,
            "tol": self.mean_change_tol,
            "restarts": self.restarts,
            "restarts_above": self.restarts_above,
        }

    @property
    def _has_point_topics(self):
        return self.estimation == "map"

    def _inference(self, alpha=None):
        alpha = self.doc_topic_prior_ if alpha is None else alpha
        return DirichletInference(self._documents(alpha), alpha)

    # ------------------------------------------------------------------ starting and going on

    @property
    def _first_topics(self):
        """Where topics of words begin."""
        return self.init

    def _new_state(self, model, corpus, seed):
        """The state before the first pass, its topics from `init`."""
        X, dtype = corpus.X, corpus.dtype
        beta = self._resolve_priors(X.shape[1])[1]
        rng = keyed_generator(seed, 0, STREAM_INIT)
        first = self._first_topics
        counts = first_counts(X, self.n_components, first, beta, dtype, rng, corpus.weight)
        return self._state_of(_stats_of(model, counts), seed, model.first_learned(), dtype)

    def _state_of(self, *given):
        state = FitState(*given)
        state.parts = self._kind
        return state

    def _fitted_counts(self):
        """Expected counts of the fitted topics, (n_features, n_components)."""
        beta = np.broadcast_to(self.topic_word_prior_, self.components_.shape)
        return np.maximum(self.components_.astype(np.float64) - beta, 0).T.copy()

    def _state_of_fitted(self, model, corpus):
        """A state whose topics are the fitted ones."""
        stats = _stats_of(model, self._fitted_counts())
        learned, dtype = self._learned_to_go_on(), self.components_.dtype
        state = self._state_of(stats, self._new_seed(), learned, dtype)
        names = "restarts_accepted", "restarts_proposed"
        state.reports = [
            dict(zip(names, (share, 1.0), strict=True)) for share in self.restart_acceptance_
        ]
        return self._count_passes(state)

    def _state_to_go_on(self, model, corpus):
        """The kept state if the data are the same, else one from the fitted topics."""
        state = super()._state_to_go_on(model, corpus)
        state.learned = self._learned_to_go_on(state)
        return _stored_as(model, state)

    def _state_to_stream(self, model, corpus):
        return _stored_as(model, super()._state_to_stream(model, corpus))

    def _serves(self, kept, mark):
        return kept.fingerprint == mark and self._streams(kept)

    def _streams(self, kept):
        return kept.parts == self._kind

    def _attributes_of_topics(self, state, order=None):
        """The attributes that all of these estimators have, topics taken in an order."""
        stats = state.sum_of_passes if state.n_averaged else state.stats
        counts, factor = stats["feature_counts"], stats.factor / max(state.n_averaged, 1)
        _, beta = self._resolve_priors(counts.shape[0])
        found = PseudoCounts(compact_prior(beta), counts, factor)
        return {
            "components_": Lazy(partial(_in_order, found, order), state.dtype),
            "topic_word_prior_": beta if beta.ndim else float(beta),
            **self._attributes_of_passes(state),
        }

    @staticmethod
    def _attributes_of_passes(state):
        """The attributes that say what passes were made."""
        return {
            "bound_history_": np.array(state.history),
            "restart_acceptance_": np.array([_acceptance(report) for report in state.reports]),
            "n_iter_": state.n_passes,
            "n_batch_iter_": state.n_updates,
            "n_samples_seen_": state.n_seen,
        }

    def _line(self, state):
        line, share = super()._line(state), _acceptance(state.report)
        return line if np.isnan(share) else f"{line}, {share:.0%} of restarts accepted"

    # ------------------------------------------------------------------ using a fitted model

    def bound(self, X):
        """Evidence lower bound of documents together with the fitted topics.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask array or dataframe} of shape (n_samples, n_features)
            Counts of words in documents.

        Returns
        -------
        bound : float
            ``E[log p(X, z, pi, phi) - log q(z, pi, phi)]`` in nats, q(phi) as fitted and the
            documents' posteriors L-sparse. On the training data it continues `bound_history_`.
        """
        check_is_fitted(self)
        X, dtype = self._validate_counts(X, reset=False)
        model, learned = self._fitted_model(X.shape[1], dtype)
        model = model.resized(self._n_features_out)
        state = FitState(_stats_of(model, self._fitted_counts()), learned=learned)
        return self._bound_of(model, state, corpus_of(X, dtype, self.n_jobs))

    @staticmethod
    def _bound_of(model, state, corpus):
        """The bound of some data under the globals of a state."""
        total = model.empty_stats()
        globals_ = model.globals_of(state)
        for stats, _ in corpus.visit(model.local_step, globals_, state.key, total=exact_sum):
            total.add(stats)
        return model.bound(state, total)


def _in_order(found, order, dtype):
    """Pseudo-counts as `components_` has them, topics taken in an order."""
    components = found.transposed(dtype)
    return components if order is None else components[order]


def _stats_of(model, counts):
    """Statistics that hold given counts of words in topics and nothing else."""
    stats = model.empty_stats(counts.shape[1])
    stats.arrays["feature_counts"] = model.observation.stored(counts)
    stats.arrays["feature_total"], stats.arrays["count"] = counts.sum(axis=0), counts.sum(axis=0)
    return stats


def _stored_as(model, state):
    """The state with its counts kept as the model does: a stream forgets, and a fit does not."""
    arrays = state.stats.arrays
    if "feature_counts" not in arrays:
        return state  # rows, not words
    arrays["feature_counts"] = model.observation.stored(arrays["feature_counts"])
    return state


def _acceptance(report):
    """Share of a pass's restart proposals that were accepted."""
    proposed = report.get("restarts_proposed")
    return report["restarts_accepted"] / proposed if proposed else np.nan
