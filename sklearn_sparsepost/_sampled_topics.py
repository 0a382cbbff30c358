"""What every sampled topic model shares: fit, partial_fit, going on, averages over sweeps."""

import warnings
from functools import partial
from typing import ClassVar

import numpy as np

from sklearn_sparsepost._base import _fit_context
from sklearn_sparsepost._checks import check_tokens, fingerprint, has_fractions, weighted_rows
from sklearn_sparsepost._models.documents import DirichletDocuments
from sklearn_sparsepost._models.inference import DirichletInference
from sklearn_sparsepost._models.priors import compact_prior
from sklearn_sparsepost._run.blocks import only_block
from sklearn_sparsepost._run.collections import corpus_of, is_collection, n_blocks_of
from sklearn_sparsepost._run.dispatch import Corpus
from sklearn_sparsepost._run.streams import STREAM_INIT, keyed_generator
from sklearn_sparsepost._run.threads import local_threads, settled_threads
from sklearn_sparsepost._sampling.blocks import InBlocks, TokensInBlocks
from sklearn_sparsepost._sampling.chain import sampled_pass
from sklearn_sparsepost._sampling.tokens import (
    MOST_TOKENS,
    FirstWeights,
    Tokens,
    topics_under,
    type_of_topics,
    uniform_topics,
)
from sklearn_sparsepost._starts.topics import first_counts
from sklearn_sparsepost._tables import PseudoCounts
from sklearn_sparsepost._topic_estimator import BaseTopicEstimator, topic_table


class BaseSampledTopics(BaseTopicEstimator):
    """Base class of the topic models whose tokens' topics are drawn.

    A subclass has, beside the parameters of :class:`BaseTopicEstimator`, `init`, `max_iter`,
    `burn_in`, `sample_every`, `learn_every`, `evaluate_every`, `warm_start`, `random_state` and
    `verbose`, and these hooks:

    - ``_chain_type``: the class of its chains, a :class:`Chain`, called as ``_chain_type(tokens, z,
      seed, dtype=..., fingerprint=..., **settings)``;
    - ``_blocks_chain_type``: the same for blocks of a Dask array, an :class:`InBlocks`;
    - ``_settings(alpha, beta, n_features, goes_on=False)``: what the parameters say of a chain, as
      keyword arguments of that class, given the documents' and the topics' priors as checked
      arrays; what else is learned is as it stands if the fit goes on;
    - ``_steps()``: what a pass is made of: a function ``sweep(chain) -> chain`` that draws every
      token's topic once, and a list of functions of a chain that improve its priors in place,
      called every `learn_every` passes;
    - ``_inference(alpha=None)``: how documents are inferred, under the fitted prior or, at a start,
      under a Dirichlet prior; by default with Dirichlet weights of the prior `doc_topic_prior_`.

    A fit begins at `init` as ``_seeding``, keyword arguments of :func:`first_counts`, has it; and
    ``_infers_first`` says whether documents are inferred under these topics before those of their
    tokens are drawn, or nothing is known of them but the tokens that were drawn before.

    They are asked before the first pass; a pass itself reads nothing of the estimator.
    """

    _seeding: ClassVar = {}
    _infers_first = True

    def _settings(self, alpha, beta, n_features, goes_on=False):
        raise NotImplementedError

    def _steps(self):
        raise NotImplementedError

    def _inference(self, alpha=None):
        alpha = self.doc_topic_prior_ if alpha is None else alpha
        return DirichletInference(DirichletDocuments(alpha), alpha)

    # ------------------------------------------------------------------ fitting

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, sample_weight=None):
        """Learn the topics of a corpus.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask array or dataframe} of shape (n_samples, n_features)
            Counts of words in documents. Held as tokens from then on, for `partial_fit` and
            `warm_start`: 6 bytes each, 8 with more than 65,536 topics. Of a Dask array in blocks
            of rows the workers hold the tokens of their blocks, for as long, and the counts of
            words in topics that a block reads are up to date but for what the other blocks change
            in the same sweep (:ref:`chains_over_blocks`). One in a single block comes to this
            process, and gives the bytes of the same matrix.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            How many copies of each document there are: whole numbers. Each copy has tokens of its
            own.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter is out of range, a count is negative, NaN or infinite, X is empty, or
            weights are not whole or all 0; or if X is a Dask array of more than one block, and
            counts are not whole.
        """
        with self._whole_passes() as reached:
            goes_on = self.warm_start and hasattr(self, "n_iter_")
            self._refuse_blocks(X)
            X, dtype = self._validate_counts(X, reset=not goes_on)
            X = self._copies(_one_is_here(X), sample_weight)
            if goes_on:
                self._check_goes_on()
            self._resolve_priors(X.shape[1])
            self._check_corpus(X)
            self._check_whole(X, dtype)
            given, states = corpus_of(X, dtype).given, self._starts(X, dtype, goes_on)
            del X  # blocks need not be held beside their tokens
            self._run_passes(given, states, self._one_pass(), reached)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None, sample_weight=None):
        """Append documents to those that are held, and sweep over all of them once.

        The first call starts the topics from its own documents, by `init`; later ones draw their
        documents' first topics under the present ones. For streams that do not fit in memory, see
        :meth:`SparseLDA.partial_fit`.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask array or dataframe} of shape (n_samples, n_features)
            Counts of words in the new documents. Blocks of a Dask array are appended to those of
            other Dask arrays, on the same cluster, and all of them are swept side by side as by
            :meth:`fit`. A chain has all its documents in this process, or all in blocks.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            How many copies of each document there are, as for :meth:`fit`.

        Returns
        -------
        self : object
            The estimator, fitted to what it has seen.

        Raises
        ------
        ValueError
            As for :meth:`fit`; or if `n_components` is not the number of the fitted topics; if
            there is no chain, since a callback restored an earlier sweep; or if the documents
            before are in blocks and those of `X` are not, or the other way round, or if nobody
            holds the blocks before for this estimator, since it is a copy or was stored.
        """
        with self._whole_passes():
            first = not hasattr(self, "n_iter_")
            self._refuse_blocks(X)
            in_blocks = self._appends_blocks(X)
            X, dtype = self._validate_counts(X, reset=first)
            X = self._copies(X if in_blocks else _one_is_here(X), sample_weight)
            if not first:
                self._check_goes_on()
            self._resolve_priors(X.shape[1])
            self._check_whole(X, dtype)
            if first:
                self._check_corpus(X)
            chain = self._new_chain(X, dtype) if first else self._extended_chain(X)
            if chain is not None:
                chain.fingerprint = None  # of no one X
                self._store(self._one_pass()(chain), whole=True)
        return self

    def _appends_blocks(self, X):
        """Whether documents are appended to blocks; else they must not have more than one."""
        kept = getattr(self, "_fit_state", None)
        n_blocks = n_blocks_of(X)
        if not isinstance(kept, InBlocks):
            if n_blocks > 1 and kept is not None:
                raise ValueError(
                    f"X is a Dask array of {n_blocks} blocks, but partial_fit appends to the "
                    "documents of a chain, and those of this one are in this process: give it "
                    "X.compute(), or begin with an array of more than one block"
                )
            return n_blocks > 1
        if not is_collection(X):
            raise ValueError(
                "partial_fit appends to the documents of a chain, but those of this one are in "
                "blocks of a Dask array: X must be one, too"
            )
        if kept.tokens.blocks is None:
            raise ValueError(
                "partial_fit appends to the documents of a chain, but those of this one were in "
                "blocks of a Dask array, which nobody holds for a copy or a stored estimator: fit "
                "with warm_start=True to an array of all documents"
            )
        return True

    def _refuse_blocks(self, X):
        """Refuse more than one block of a Dask array where parameters rule them out."""

    def _copies(self, X, sample_weight):
        """As many copies of each document as it weighs."""
        X, weight = weighted_rows(X, sample_weight, whole=type(self).__name__)
        if weight is None:
            return X
        return X[np.repeat(np.arange(X.shape[0]), weight.astype(np.int64))]

    def _check_whole(self, X, dtype):
        """Warn of fractional counts; of a Dask array they are an error."""
        owner = type(self).__name__
        if is_collection(X):
            corpus_of(X, dtype).check(partial(check_tokens, owner=owner, most=MOST_TOKENS))
        elif has_fractions(X):
            warnings.warn(
                f"X has fractional counts, as tf-idf weights are: {owner} rounds them at random. "
                "Give it the counts of CountVectorizer, or use SparseLDA, which takes fractions as "
                "they are",
                UserWarning,
                stacklevel=4,  # past the validation that wraps `fit`
            )

    def _one_pass(self):
        """The pass over all tokens, as a function of a chain."""
        sweep, learn = self._steps()
        return partial(
            sampled_pass,
            sweep=sweep,
            learn=learn,
            learn_every=self.learn_every,
            burn_in=self._n_burnt,
            sample_every=self.sample_every,
            evaluate_every=self.evaluate_every,
            n_threads=local_threads(self.n_jobs),
        )

    @property
    def _n_burnt(self):
        """Passes before samples are averaged."""
        return self.max_iter // 2 if self.burn_in is None else self.burn_in

    def _line(self, chain):
        line = f"sweep {chain.n_passes}"
        if not np.isnan(chain.history[-1]):
            line += f", log likelihood per token {chain.history[-1]:.5f}"
        return line

    # ------------------------------------------------------------------ starting and going on

    def _starts(self, X, dtype, goes_on):
        """The one start of a fit, made when it is asked for."""
        chain = self._chain_to_go_on(X, dtype) if goes_on else self._new_chain(X, dtype)
        del X
        yield chain

    def _new_chain(self, X, dtype):
        """A chain before its first sweep, its topics drawn under those of `init`."""
        seed = self._new_seed()
        alpha, beta = self._resolve_priors(X.shape[1])
        topics = None
        if not isinstance(self.init, str) or self.init != "random":
            rng = keyed_generator(seed, 0, STREAM_INIT)
            with settled_threads(local_threads(self.n_jobs)):
                given = X, self.n_components, self.init, beta, dtype, rng
                topics = PseudoCounts(compact_prior(beta), first_counts(*given, **self._seeding))
                if self._infers_first:
                    topics = topics.transposed(dtype)
                else:
                    topics = FirstWeights(topics, alpha)
        return self._chain_under(topics, X, dtype, alpha, beta, seed)

    def _chain_under(self, topics, X, dtype, alpha, beta, seed, *, goes_on=False):
        """A chain whose topics of tokens are drawn under given topics."""
        tokens, z = self._first_draws(X, dtype, topics, alpha, seed, goes_on=goes_on)
        if not tokens.n_tokens:
            raise ValueError("X has no tokens: its counts are fractions that were rounded to zero")
        return self._chain_at(tokens, z, X, dtype, alpha, beta, seed, goes_on=goes_on)

    def _chain_at(self, tokens, z, X, dtype, alpha, beta, seed, *, goes_on=False):
        """A chain before its first sweep, of given topics of tokens."""
        settings = self._settings(alpha, beta, X.shape[1], goes_on)
        kind = self._blocks_chain_type if is_collection(X) else self._chain_type
        with settled_threads(local_threads(self.n_jobs)):
            return kind(tokens, z, seed, dtype=dtype, fingerprint=fingerprint(X), **settings)

    def _begin_at(self, X, z):
        """Stand before the first sweep of a fit to whole counts, its topics of tokens given.

        Parameters
        ----------
        X : csr_matrix of shape (n_samples, n_features)
            Counts.
        z : ndarray of shape (n_tokens,), uint16 or int32
            Topics of the tokens, in the order of documents and, within, of columns.
        """
        with self._whole_passes():
            self._validate_params()
            X, dtype = self._validate_counts(X, reset=True)
            alpha, beta = self._resolve_priors(X.shape[1])
            seed = self._new_seed()
            tokens, held = Tokens(X, seed), np.empty_like(z)
            held[tokens.word_order()] = z
            self._store(self._chain_at(tokens, held, X, dtype, alpha, beta, seed), whole=True)

    def _first_draws(self, X, dtype, topics, alpha, seed, *, goes_on, kept=None):
        """The tokens of documents and topics for them, drawn under given topics or uniformly.

        Those to be appended to a chain that is kept are of its slots.
        """
        draw = partial(
            _first_topics,
            inference=self._inference(alpha),
            alpha=alpha,
            dtype=dtype,
            point=goes_on and self._has_point_topics,
            slots=None if kept is None else kept.slots(),
        )
        if is_collection(X):
            tokens = TokensInBlocks(X, seed)
            given = (len(alpha),) if kept is None else (kept.n_components, kept.drawn)
            return tokens, tokens.first_topics(X, draw, topics, *given)
        tokens = Tokens(X, seed)
        return tokens, draw(X, tokens, topics, seed=seed, n_jobs=self.n_jobs)

    def _priors_to_go_on(self, n_features):
        """The priors of a chain that goes on, those that are learned as they stand."""
        alpha, beta = self._resolve_priors(n_features)
        alpha = self.doc_topic_prior_ if self._learns_prior else alpha
        if self._learns_word_prior:
            beta = np.asarray(self.topic_word_prior_)
            if beta.ndim:
                raise ValueError(
                    "topic_word_prior='auto' learns one value, but the fitted topics to go on "
                    f"with have a prior of shape {beta.shape}"
                )
        return alpha, beta

    def _chain_to_go_on(self, X, dtype):
        """The kept chain if the data are the same, else one drawn under the fitted topics."""
        alpha, beta = self._priors_to_go_on(X.shape[1])
        kept = getattr(self, "_fit_state", None)
        if kept is not None and kept.fingerprint == fingerprint(X):
            if is_collection(X):
                kept = kept.on(X)
            return kept.own(**self._settings(alpha, beta, X.shape[1], True))
        seed = self._new_seed()
        chain = self._chain_under(self.components_, X, dtype, alpha, beta, seed, goes_on=True)
        chain.n_passes = self.n_iter_
        chain.history = list(self.log_likelihood_history_)
        return chain

    def _extended_chain(self, X):
        """The kept chain with more documents; None if they have no tokens."""
        kept = getattr(self, "_fit_state", None)
        if kept is None:
            raise ValueError(
                "partial_fit appends to the documents of a chain, and there is none since "
                "EarlyStopping restored an earlier sweep"
            )
        alpha, beta = self._priors_to_go_on(X.shape[1])
        seed = kept.seed + kept.tokens.n_documents  # streams that no other part has
        given = kept.dtype, self.components_, alpha, seed
        tokens, z = self._first_draws(X, *given, goes_on=True, kept=kept)
        if not tokens.n_tokens:
            return None
        return kept.extended(tokens, z, **self._settings(alpha, beta, X.shape[1], True))

    # ------------------------------------------------------------------ fitted attributes

    def _fitted_attributes(self, state, *, whole):
        """What a fit that stands at `state`, a chain, leaves on the estimator."""
        priors = state.fitted_priors()
        counts = PseudoCounts(state.smoothing(), state.mean_counts())
        attributes = {
            "components_": counts.transposed(state.dtype),
            **priors,
            "log_likelihood_history_": np.array(state.history),
            "n_samples_averaged_": state.n_averaged,
            "n_iter_": state.n_passes,
        }
        return {**attributes, "_fit_state": state}  # `partial_fit` appends to the chain


def _one_is_here(X):
    """The data, those of a single block in this process: there is nothing to be divided."""
    return only_block(X) if is_collection(X) and len(X.parts) == 1 else X


def _first_topics(
    X, tokens, topics, *, inference, alpha, dtype, point, slots=None, seed=None, n_jobs=1
):
    """Topics of tokens, drawn under given topics or uniformly.

    Parameters
    ----------
    X : csr_matrix or csr_array of shape (n_samples, n_features)
        Counts.
    tokens : Tokens
        Their tokens.
    topics : ndarray of shape (n_components, n_features), FirstWeights or None
        Pseudo-counts of words in topics, or what topics weigh in words if nothing is known of
        documents; None for draws that are uniform.
    inference : object
        How documents are inferred.
    alpha : ndarray of shape (n_components,)
        Prior of the documents' topic weights.
    dtype : dtype
        Type to compute in.
    point : bool
        Whether topics are point estimates.
    slots : ndarray of shape (n_components,), default=None
        What the topics are called; by default by their numbers.
    seed : int, default=None
        Of the streams; by default the tokens' own.
    n_jobs : int, default=1
        Cores.

    Returns
    -------
    z : ndarray of shape (n_tokens,), uint16 or int32
        The topics.
    """
    seed = tokens.seed if seed is None else seed
    if topics is None:
        return uniform_topics(tokens, len(alpha), seed)
    if isinstance(topics, FirstWeights):
        return topics.draw(tokens, seed)
    corpus = Corpus(X, dtype, n_jobs)
    table = topic_table(corpus, topics, inference, point=point)
    counts = corpus.map(inference.counts, table)
    z = topics_under(table, counts, tokens, alpha, seed)
    return z if slots is None else slots.astype(type_of_topics(slots.max() + 1))[z]
