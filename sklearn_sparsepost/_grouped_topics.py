"""Topic models whose data are counts of words in documents, or rows in groups."""

import warnings
from copy import copy
from functools import partial

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from sklearn_sparsepost._base import _fit_context, _get_output_config, check_is_fitted
from sklearn_sparsepost._checks import (
    StrOptions,
    check_count,
    check_rows,
    dense_block,
    weighted_mean,
)
from sklearn_sparsepost._models.contract import Globals
from sklearn_sparsepost._models.grouped import group_weights, row_predictions, row_shares
from sklearn_sparsepost._models.mixture import as_csr
from sklearn_sparsepost._models.priors import GAUSSIAN_PARAMETERS
from sklearn_sparsepost._models.word_weights import WordWeights
from sklearn_sparsepost._run.blocks import group_blocks, labels_by_block
from sklearn_sparsepost._run.chunks import DenseChunk, group_rows
from sklearn_sparsepost._run.collections import (
    as_array,
    check_columns,
    corpus_of,
    is_collection,
    map_grouped,
)
from sklearn_sparsepost._run.streams import STREAM_INIT, keyed_generator
from sklearn_sparsepost._run.threads import single_blas
from sklearn_sparsepost._starts.rows import first_responsibilities, new_observation
from sklearn_sparsepost._topic_estimator import scaled_rows
from sklearn_sparsepost._topic_variational import BaseVariationalTopics

# What a start from rows is called where mixtures begin.
ROW_STARTS = {
    "auto": "agglomerative",
    "agglomerative": "agglomerative",
    "k-means++": "k-means++",
    "random": "random_from_data",
}
# The parameters that a fit cannot change when it goes on.
STRUCTURE = ("observation", "covariance_type", "assume_centered", "estimation")


def _wants_words(estimator):
    """Whether the data of a fit are counts of words."""
    return isinstance(estimator.observation, str) and estimator.observation == "multinomial"


def _wants_rows(estimator):
    """Whether they are rows in groups."""
    return not _wants_words(estimator)


class BaseGroupedTopics(BaseVariationalTopics):
    """Base class of the topic models of words, and of rows that belong to groups.

    A subclass has besides the parameters of :class:`BaseVariationalTopics` `observation` and those
    of SparseMixture that say what Gaussians look like, and makes the model of documents in
    ``_sticks(n_documents)``.
    """

    # Options of the score are nothing that comes with the data, as groups do.
    __metadata_request__score = dict.fromkeys(("method", "n_particles", "random_state"), UNUSED)

    _parameter_constraints: dict = {
        **BaseVariationalTopics._parameter_constraints,
        **GAUSSIAN_PARAMETERS,
        "observation": [StrOptions({"multinomial", "gaussian"}), callable],
        "init": [
            StrOptions({"auto", "k-means++", "random", "anchor", "agglomerative"}),
            "array-like",
        ],
    }

    # ------------------------------------------------------------------ data

    @property
    def _holds_words(self):
        """Whether the present fit is of words, whatever the parameter is by now."""
        return self._fitted_as["observation"] == "multinomial"

    @property
    def _unit(self):
        return "token" if _wants_words(self) else "row"

    def _new_corpus(self, X, groups=None, sample_weight=None, *, reset):
        if _wants_rows(self):
            return self._grouped(X, groups, self.observation, reset=reset)[0]
        _refuse_groups(groups)
        return super()._new_corpus(X, reset=reset)

    def _grouped(self, X, groups, observation, *, reset=False, dtype=None):
        """The data as a corpus whose units are groups, and where rows and groups stand in it."""
        if is_collection(X):
            X = self._collected(X, partial(dense_block, observation=observation), reset=reset)
            X, grouping = group_blocks(X, groups)
        else:
            X = validate_data(self, X, dtype=[np.float64, np.float32], reset=reset)
            check_rows(X, observation)
            X, grouping = group_rows(X, groups)
        options = {"groups": grouping.indptr, "threaded": False}
        return corpus_of(X, X.dtype if dtype is None else dtype, self.n_jobs, **options), grouping

    def _check_corpus(self, X, depth=4):
        if _wants_words(self):
            super()._check_corpus(X, depth + 1)
        elif self.n_components > X.shape[0]:
            warnings.warn(
                f"n_components={self.n_components} is more than the {X.shape[0]} rows: some "
                "components will stay empty",
                UserWarning,
                stacklevel=depth,
            )

    # ------------------------------------------------------------------ models

    @property
    def _first_topics(self):
        """Where topics of words begin."""
        return "k-means++" if isinstance(self.init, str) and self.init == "auto" else self.init

    def _model_of(self, corpus, n_documents, goes_on):
        if _wants_words(self):
            if isinstance(self.init, str) and self.init == "agglomerative":
                raise ValueError("init='agglomerative' is for rows, and documents are counts")
            return super()._model_of(corpus, n_documents, goes_on)
        of_words = {
            "topic_word_prior": self.topic_word_prior is not None,
            "init": isinstance(self.init, str) and self.init not in ROW_STARTS,
        }
        for name, is_given in of_words.items():
            if is_given:
                raise ValueError(
                    f"{name}={getattr(self, name)!r} is for counts of words, "
                    f"observation={self.observation!r} has none"
                )
        observation, judge = self._fitted_parts() if goes_on else self._new_parts(corpus)
        return self._put_together(observation, self._sticks(n_documents), corpus.dtype, judge)

    def _new_parts(self, corpus):
        """What rows look like in components to groups, and to the bound."""
        rows = corpus_of(corpus.X, corpus.dtype, corpus.n_jobs, threaded=False)
        observation = new_observation(self, rows, 8)
        if callable(self.observation) or self.estimation == "bayes":
            return observation, observation
        # Densities of points cannot be compared between numbers of components.
        judge = copy(observation)
        judge.estimation = "bayes"
        return observation, judge

    def _fitted_parts(self):
        return self._observation, self._judge

    def _structure(self):
        return {name: getattr(self, name) for name in STRUCTURE}

    def _check_structure(self):
        """Whoever goes on must want data of the same kind, and the same model of them."""
        for name, value in self._structure().items():
            same = value == self._fitted_as[name]
            if not (same or (callable(value) and callable(self._fitted_as[name]))):
                raise ValueError(
                    f"{name}={value!r}, but what is to go on was fitted with "
                    f"{name}={self._fitted_as[name]!r}, which cannot change"
                )

    # ------------------------------------------------------------------ fitting

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, groups=None):
        """Learn the topics of documents, or of groups of rows.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask array or dataframe} of shape (n_samples, n_features)
            Counts of words in documents; fractions are legal. CSR is not copied unless it stores
            zeros, may be read-only or memory-mapped, and is read a batch at a time. Or rows of
            real data, which are dense, and may be memory-mapped if rows of a group are neighbours.
            Blocks of a Dask array are held by its workers and worked on there
            (:ref:`on_a_cluster`); of a group all rows are in one block.
        y : None
            Ignored.
        groups : array-like of shape (n_samples,), default=None
            Which group each row of real data belongs to: labels of any type that can be sorted.
            Rows that are not neighbours are brought together in a copy of `X`, for which a
            memory-mapped `X` is too large. May be a Dask array, too, which comes to this process.
            Documents have none.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter is out of range, a count is negative, NaN or infinite, or X is empty; if
            groups are missing, too many or too few, not apart in a memory-mapped X, in more than
            one block of a Dask array, or given with counts.
        """
        return self._fit(X, groups)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None, groups=None):
        """Update the topics with one batch of a stream: a step of stochastic inference.

        The first call starts the topics from its own documents, by `init`, and settles priors of
        Gaussians. `total_samples` says how many documents, or groups, the stream is thought to
        have. After a :meth:`fit` the steps go on from where one weighs a batch by its share of all
        documents seen, so that what was learned stays. A batch without counts changes nothing.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask array or dataframe} of shape (n_samples, n_features)
            Counts of words in the documents of the batch, or rows of whole groups.
        y : None
            Ignored.
        groups : array-like of shape (n_samples,), default=None
            Which group each row belongs to, as for :meth:`fit`. Groups of other batches are other
            groups, whatever they are called.

        Returns
        -------
        self : object
            The estimator, fitted to what it has seen.

        Raises
        ------
        ValueError
            As for :meth:`fit`; or if `n_components` is not that of the fit to go on with.
        """
        return self._partial_fit(X, groups)

    def fit_transform(self, X, y=None, groups=None):
        """Fit, and infer the topic weights of the same documents or groups.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask array or dataframe} of shape (n_samples, n_features)
            As for :meth:`fit`.
        y : None
            Ignored.
        groups : array-like of shape (n_samples,), default=None
            As for :meth:`fit`.

        Returns
        -------
        doc_topic : ndarray or csr_matrix of shape (n_documents, n_components)
            As from :meth:`transform`.
        """
        return self.fit(X, groups=groups).transform(X, groups)

    def _new_state(self, model, corpus, seed):
        if _wants_words(self):
            return super()._new_state(model, corpus, seed)
        given = isinstance(self.init, str)
        rows, index, resp, _, share = first_responsibilities(
            corpus_of(corpus.X, corpus.dtype, corpus.n_jobs, threaded=False),
            self.n_components,
            ROW_STARTS[self.init] if given else "k-means++",
            None if given else self.init,
            self.covariance_type,
            keyed_generator(seed, 0, STREAM_INIT),
            name="init",
            assume_centered=self.assume_centered,
        )
        chunk = DenseChunk(rows, indptr=np.array([0, len(rows)]))
        stats = model.empty_stats()
        stats.add(model.stats_under(chunk, as_csr(index, resp, self.n_components)), 1 / share)
        stats.scalars["n_samples"] = float(corpus.n_samples)
        state = self._state_of(stats, seed, model.first_learned(), corpus.dtype)
        state.parts = model.observation, model.judge
        return state

    def _state_of_fitted(self, model, corpus):
        """A state whose components are the fitted ones: what one local step under them finds."""
        if _wants_words(self):
            return super()._state_of_fitted(model, corpus)
        globals_ = self._globals(self._observation, corpus.dtype, model.documents)
        globals_.axes, globals_.word_weights = model.axes, WordWeights()
        stats = model.empty_stats()
        for part, _ in corpus.map(model.local_step, globals_):
            stats.add(part)
        seed, learned = self._new_seed(), self._learned_to_go_on()
        state = self._state_of(stats, seed, learned, self.topic_weights_.dtype)
        state.parts = model.observation, model.judge
        return self._count_passes(state)

    def _serves(self, kept, mark):
        return super()._serves(kept, mark) if _wants_words(self) else self._streams(kept)

    def _streams(self, kept):
        return super()._streams(kept) if _wants_words(self) else isinstance(kept.parts, tuple)

    def _attributes_of_topics(self, state, order=None):
        found = {"_fitted_as": self._structure()}
        if _wants_words(self):
            return {**found, **super()._attributes_of_topics(state, order)}
        observation, judge = state.parts
        stats = state.stats if order is None else state.stats.reorder(order)
        with single_blas():
            described = observation.attributes(observation.estimate(stats))
        found |= {f"{name}_": value.astype(state.dtype) for name, value in described.items()}
        found |= {f"{name}_": value for name, value in observation.priors().items()}
        found |= {"_observation": observation, "_judge": judge}
        found["_estimate_names"] = tuple(described)
        return {**found, **self._attributes_of_passes(state), "_fit_state": state.slim()}

    # ------------------------------------------------------------------ using a fitted model

    def _attributes(self):
        """The attributes that describe the components, without underscore, in double."""
        return {name: getattr(self, f"{name}_").astype(np.float64) for name in self._estimate_names}

    def _map_groups(self, step, X, groups, *, key=None, **options):
        """Make a step on all groups, in double; returns what each chunk gave and the grouping."""
        dtype = np.dtype(np.float64)
        corpus, grouping = self._grouped(X, groups, self._fitted_as["observation"], dtype=dtype)
        documents = self._documents(self.doc_topic_prior_)
        globals_ = self._globals(self._observation, dtype, documents, **options)
        return list(corpus.map(step, globals_, key)), grouping

    def _lazily(self, X, groups, method, n_columns, dtype, *, of_groups=False, **options):
        """A Dask array of what a method makes of rows, or of groups, once it is asked for.

        Only labels are computed before.
        """
        X, given = as_array(X), X
        check_columns(X)
        self._check_width(given, X.shape, reset=False)
        labels, grouping = labels_by_block(X, groups)
        found = [np.unique(part) if of_groups else part for part in labels]
        options = {"sparse": self.sparse_output and n_columns is not None, "options": options}
        sizes = [len(part) for part in found]
        made = map_grouped(X, labels, sizes, self._sent(), method, n_columns, dtype, **options)
        if of_groups:
            order = np.argsort(np.searchsorted(grouping.labels, np.concatenate(found)))
            in_order = (np.diff(order) > 0).all()  # nothing has to move where they ascend
            made = made if in_order else made[order]
        return made, grouping

    def _globals(self, observation, dtype, documents, **options):
        """What local steps read, from the attributes."""
        with single_blas():
            estimates = observation.from_attributes(self._attributes())
            return Globals(
                observation=observation,
                documents=documents,
                table=observation.item_table(estimates, dtype),
                point_table=observation.table(estimates, dtype, point=True),
                alpha=self.doc_topic_prior_,
                track=None,
                keeps_local=False,
                **options,
            )

    def transform(self, X, groups=None, *, normalize=True):
        """Infer the topic weights of documents, or of groups of rows.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask array or dataframe} of shape (n_samples, n_features)
            Counts of words in documents, or rows of real data.
        groups : array-like of shape (n_samples,), default=None
            Which group each row of real data belongs to.
        normalize : bool, default=True
            Whether rows sum to 1. If not, they sum to the tokens of the document, or the rows of
            the group, plus the sum of `doc_topic_prior_`.

        Returns
        -------
        doc_topic : ndarray, csr_matrix or Dask array of shape (n_documents, n_components)
            Posterior mean topic weights. A row depends on its document alone. With
            `sparse_output` the active topics only, renormalised. Of real data there is a row a
            group, in the order of ``np.unique(groups)``; in a dataframe of pandas these labels are
            its index. A Dask array for data of Dask, computed when it is asked for.
        """
        check_is_fitted(self)
        if self._holds_words:
            _refuse_groups(groups)
            return super().transform(X, normalize=normalize)
        dtype = self.topic_weights_.dtype
        if is_collection(X):
            given = X, groups, "transform", self._n_features_out, dtype
            found, grouping = self._lazily(*given, of_groups=True, normalize=normalize)
        else:
            active = self.sparse_output
            parts, grouping = self._map_groups(group_weights, X, groups, active=active)
            found = _in_order(parts, grouping.units).astype(dtype)
            if not normalize:
                sizes = _in_order([np.diff(grouping.indptr)], grouping.units)
                found = scaled_rows(found, sizes + self.doc_topic_prior_.sum())
        if _get_output_config("transform", self)["dense"] != "pandas":
            return found
        import pandas as pd  # there is none without this configuration

        return pd.DataFrame(found, index=grouping.labels)

    @available_if(_wants_rows)
    def predict_proba(self, X, groups=None):
        """L-sparse responsibilities of the topics for each row of real data, given its group.

        Parameters
        ----------
        X : {array-like, Dask array or dataframe} of shape (n_samples, n_features)
            The rows.
        groups : array-like of shape (n_samples,), default=None
            Which group each row belongs to; must be given.

        Returns
        -------
        resp : ndarray, csr_matrix or Dask array of shape (n_samples, n_components)
            Posterior probabilities, at most `sparsity_level` of them not 0; rows sum to 1. CSR
            with `sparse_output`. A Dask array for data of Dask, computed when it is asked for.
        """
        check_is_fitted(self)
        dtype = self.topic_weights_.dtype
        if is_collection(X):
            given = X, groups, "predict_proba", self._n_features_out, dtype
            return self._lazily(*given)[0]
        parts, grouping = self._map_groups(row_shares, X, groups)
        parts = [sp.csr_matrix(part.astype(dtype)) for part in parts]
        if not self.sparse_output:
            parts = [part.toarray() for part in parts]
        return _in_order(parts, grouping.rows)

    @available_if(_wants_rows)
    def score_samples(self, X, groups=None, *, random_state=0):
        """Log-likelihood of each row of real data given most others of its group.

        The rows of each group are dealt to five parts. Each part is predicted by topic weights that
        are inferred from the other four, by dense mean field: ``log sum_k E[pi_k | others]
        p_k(x)``, where p_k is as in :meth:`SparseMixture.score_samples`. The only row of a group
        is predicted by `topic_weights_`, scaled to sum to 1.

        Parameters
        ----------
        X : {array-like, Dask array or dataframe} of shape (n_samples, n_features)
            The rows.
        groups : array-like of shape (n_samples,), default=None
            Which group each row belongs to; must be given.
        random_state : int, default=0
            Seed by which rows are dealt.

        Returns
        -------
        log_likelihood : ndarray or Dask array of shape (n_samples,)
            In nats. A Dask array for data of Dask, computed when it is asked for.
        """
        check_is_fitted(self)
        if is_collection(X):
            given = X, groups, "score_samples", None, np.dtype(np.float64)
            return self._lazily(*given, random_state=random_state)[0]
        parts, grouping = self._map_groups(row_predictions, X, groups, key=(random_state,))
        return _in_order(parts, grouping.rows)

    def score(
        self,
        X,
        y=None,
        groups=None,
        sample_weight=None,
        *,
        method="completion",
        n_particles=20,
        random_state=0,
    ):
        """Held-out quality: mean log-probability of a word, or density of a row, in nats.

        Of documents, by default completion on a fixed split of every document's distinct words,
        80 % observed; see :func:`sklearn_sparsepost.metrics.document_completion`. Of rows in groups
        the same: the mean of :meth:`score_samples`, which comes to 80 % observed for every row.
        Higher is better, and independent of the number of documents and of `sparsity_level`, so
        that a grid search over topics, sparsity and learning rates picks the right model.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask array or dataframe} of shape (n_samples, n_features)
            Counts of words in held-out documents, or rows of held-out groups.
        y : None
            Ignored.
        groups : array-like of shape (n_samples,), default=None
            Which group each row of real data belongs to.
        sample_weight : array-like of shape (n_samples,), default=None
            How often each row of real data counts in the mean.
        method : {"completion", "left-to-right"}, default="completion"
            What is predicted from what.

            - "completion": hidden words or rows, given the rest of their documents or groups;
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
            Nats a token, or a row.
        """
        check_is_fitted(self)
        if self._holds_words:
            _refuse_groups(groups, sample_weight)
            options = {"method": method, "n_particles": n_particles}
            return super().score(X, random_state=random_state, **options)
        if method != "completion":
            raise ValueError(f"method must be 'completion' for rows in groups, got {method!r}")
        scores = np.asarray(self.score_samples(X, groups, random_state=random_state))
        return weighted_mean(scores, sample_weight)

    @available_if(_wants_words)
    def perplexity(self, X, *, method="completion", n_particles=20, random_state=0):
        """Held-out perplexity of words, ``exp(-score(X))``: lower is better.

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
        return super().perplexity(X, **options)

    def bound(self, X, groups=None):
        """Evidence lower bound of documents or groups together with the fitted topics.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask array or dataframe} of shape (n_samples, n_features)
            Counts of words in documents, or rows of real data.
        groups : array-like of shape (n_samples,), default=None
            Which group each row of real data belongs to.

        Returns
        -------
        bound : float
            ``E[log p(X, z, pi, phi) - log q(z, pi, phi)]`` in nats, q(phi) as fitted and the
            documents' posteriors L-sparse. On the training data it continues `bound_history_`.
        """
        check_is_fitted(self)
        if self._holds_words:
            _refuse_groups(groups)
            return super().bound(X)
        corpus, _ = self._grouped(X, groups, self._fitted_as["observation"])
        observation, judge = self._fitted_parts()
        documents = self._sticks(corpus.n_samples)
        model = self._put_together(observation, documents, corpus.dtype, judge)
        model = model.resized(self._n_features_out)
        state = getattr(self, "_fit_state", None)  # a callback may have restored another pass
        state = self._state_of_fitted(model, corpus) if state is None else state
        return self._bound_of(model, state, corpus)

    def sample(self, n_samples=1, *, doc_length=100, random_state=None):
        """Draw documents, or groups of rows, from the fitted model.

        Parameters
        ----------
        n_samples : int, default=1
            Number of documents or groups.
        doc_length : int, default=100
            Tokens a document, or rows a group.
        random_state : int, RandomState instance or None, default=None
            Source of the draws; by default the estimator's own.

        Returns
        -------
        X : csr_matrix of shape (n_samples, n_features), int64, or ndarray
            Counts; or rows of shape (`n_samples` * `doc_length`, n_features), group by group, and
            topic by topic in a group.
        doc_topic : ndarray of shape (n_samples, n_components)
            The topic weights they were drawn with.
        """
        check_is_fitted(self)
        if self._holds_words:
            return super().sample(n_samples, doc_length=doc_length, random_state=random_state)
        check_count(n_samples, "n_samples", 1)
        check_count(doc_length, "doc_length", 0)
        rng = check_random_state(self.random_state if random_state is None else random_state)
        group_topic, attributes = self._inference().draw(n_samples, rng), self._attributes()
        drawn = [np.empty((0, self.n_features_in_))]
        for weights in group_topic:
            sizes = rng.multinomial(doc_length, weights / weights.sum())
            drawn += [
                self._observation.draw(attributes, k, sizes[k], rng) for k in np.flatnonzero(sizes)
            ]
        return np.concatenate(drawn).astype(self.topic_weights_.dtype), group_topic

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        words = _wants_words(self)
        tags.input_tags.sparse = tags.input_tags.positive_only = words
        return tags


def _refuse_groups(groups, sample_weight=None):
    for name, given in (("groups", groups), ("sample_weight", sample_weight)):
        if given is not None:
            raise ValueError(
                f"{name}, if given, is for rows of real data: with observation='multinomial' every "
                "row of counts is a document, a group of its own"
            )


def _in_order(parts, order):
    """What chunks gave, put together in the user's order."""
    found = sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.concatenate(parts)
    return found if order is None else found[np.argsort(order, kind="stable")]
