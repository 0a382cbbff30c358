"""AliasLDA: latent Dirichlet allocation by collapsed Gibbs sampling (paper 004)."""

import warnings
from numbers import Integral

import numpy as np

from sklearn_sparsepost._base import _fit_context
from sklearn_sparsepost._checks import (
    MOST_INTEGER,
    PRIOR,
    Interval,
    StrOptions,
    fingerprint,
    has_fractions,
)
from sklearn_sparsepost._learning import loops as inference
from sklearn_sparsepost._models.admixture import DirichletTopics
from sklearn_sparsepost._run.chunks import local_threads
from sklearn_sparsepost._sampling import chain as gibbs
from sklearn_sparsepost._starts.topics import first_counts
from sklearn_sparsepost._topic_estimator import BaseTopicEstimator, components_of


class AliasLDA(BaseTopicEstimator):
    """Latent Dirichlet allocation by collapsed Gibbs sampling.

    Every token has a topic; sweeps over all tokens draw each topic anew given all others. What a
    draw costs hardly depends on `n_components`: it weighs the topics of the document or those of
    the word, and alias tables stand in for all others (Li et al. [1]_).

    Read more in the :ref:`User Guide <alias_lda>`.

    Parameters
    ----------
    n_components : int, default=10
        Number of topics, K.

    sampler : {"auto", "alias", "sparse", "cycle", "dense"}, default="auto"
        How a token's topic is drawn. All aim at the same posterior; see the notes.

        - "alias": the document's topics are weighed exactly; a stale alias table of the word
          proposes the others, and Metropolis-Hastings corrects [1]_.
        - "sparse": the word's topics are weighed (Yao, Mimno & McCallum [2]_).
        - "cycle": a stale table of the word and a token of the document propose in turn, in
          constant time (Yuan et al. [3]_); needs more sweeps.
        - "dense": all topics are weighed, a vector at a time.
        - "auto": "sparse" for words of up to 32 tokens, and "alias" for the others.

    n_mh_steps : int, default=1
        Metropolis-Hastings steps a token of "alias" and "cycle".

    doc_topic_prior : float, "auto" or array-like of shape (n_components,), default=None
        Dirichlet prior alpha of each topic's weight in a document. By default
        ``0.5 / n_components``. "auto" starts there and learns one value a topic, by fixed-point
        steps between sweeps (Minka [4]_, Eq. 55).

    topic_word_prior : float, "auto" or array-like of shape (n_features,) or \
            (n_components, n_features), default=None
        Dirichlet prior beta of the topics' words: one value, one a word, or a matrix, whose larger
        entries seed topics with words. By default 0.1. "auto" starts there and learns one value.

    init : {"k-means++", "random", "anchor"} or array-like of shape (n_components, n_features), \
            default="k-means++"
        The topics under which the first assignments are drawn, as in :class:`SparseLDA`; "random"
        draws them uniformly, as other samplers do.

    max_iter : int, default=100
        Number of sweeps.

    burn_in : int, default=None
        Sweeps before samples are averaged; by default half of `max_iter`.

    sample_every : int, default=5
        Every so many sweeps after `burn_in` the counts are added to the average.

    learn_every : int, default=5
        Every so many sweeps priors are learned, if they are.

    evaluate_every : int, default=10
        Compute the log likelihood every so many sweeps, 0 for never.

    sparse_output : bool, default=False
        Whether :meth:`transform` returns CSR with a document's active topics only.

    warm_start : bool, default=False
        Whether :meth:`fit` goes on with the present chain. On the same data it goes on exactly: 5
        and 5 sweeps visit the same states as 10.

    n_jobs : int, default=None
        Cores to use; 1 is one thread. None is the number of workers that `joblib.parallel_config`
        gives, if it gives more than one, and else as many threads as OMP_NUM_THREADS or the cores
        of this machine allow. They are threads
        over blocks of the data, whatever the backend. Results do not depend on it.

    random_state : int, RandomState instance or None, default=None
        Seeds the start and every draw. The same integer gives the same bytes for any number of
        threads.

    verbose : int, default=0
        Whether to print a line a sweep.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Prior plus counts of words in topics, averaged over samples; if no sample was taken, those
        of the last sweep.

    topic_word_distr_ : ndarray of shape (n_components, n_features)
        The topics' expected word probabilities; rows sum to 1.

    doc_topic_prior_ : ndarray of shape (n_components,)
        The prior alpha in use.

    topic_word_prior_ : float or ndarray
        The prior of the topics' words in use, of the shape given.

    log_likelihood_history_ : ndarray of shape (`n_iter_`,)
        log p(words, topics) of each sweep's end, the weights integrated out, in nats a token; NaN
        where it was not computed.

    n_samples_averaged_ : int
        Number of sweeps whose counts `components_` averages.

    n_iter_ : int
        Number of sweeps made.

    n_features_in_ : int
        Number of features seen during :term:`fit`.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during :term:`fit`. Defined only when `X` has feature names that
        are all strings.

    See Also
    --------
    SparseLDA : Variational inference, which is faster to good topics.

    Notes
    -----
    Fractional counts are rounded at random once, up with the probability of their fraction, since
    a topic is drawn for every token; a warning says so. Priors may be from 1e-30 to 1e30.

    Corpora of more than 65,536 tokens are sampled in blocks of documents and words. Blocks that
    run at the same time share neither, so that the counts of words and of documents are always up
    to date; only the totals of topics are as old as the blocks' common start. Of such corpora the
    posterior is the stationary distribution of no sampler exactly, with one thread or with many.
    Which blocks there are depends on the data alone.

    Metropolis-Hastings with tables of a while ago leaves the posterior unchanged only if the
    tables do not depend on the present state. They are therefore built anew ever more rarely as
    the chain goes on (in the first sweeps after as many draws as they have entries [1]_), so that
    what error there is dies away.

    References
    ----------
    .. [1] A. Q. Li, A. Ahmed, S. Ravi, A. J. Smola. Reducing the sampling complexity of topic
       models. KDD 2014.
    .. [2] L. Yao, D. Mimno, A. McCallum. Efficient methods for topic model inference on streaming
       document collections. KDD 2009.
    .. [3] J. Yuan et al. LightLDA: big topic models on modest computer clusters. WWW 2015.
    .. [4] T. P. Minka. Estimating a Dirichlet distribution. Technical report, MIT, 2000.

    Examples
    --------
    >>> from sklearn_sparsepost import AliasLDA
    >>> from sklearn_sparsepost.datasets import make_bars
    >>> X, topics, _ = make_bars(500, random_state=0)
    >>> lda = AliasLDA(n_components=10, max_iter=50, random_state=0).fit(X)
    >>> lda.transform(X[:3]).shape
    (3, 10)
    """

    _parameter_constraints: dict = {
        "n_components": [Interval(Integral, 1, MOST_INTEGER, closed="both")],
        "sampler": [StrOptions({"auto", "alias", "sparse", "cycle", "dense"})],
        "n_mh_steps": [Interval(Integral, 1, MOST_INTEGER, closed="both")],
        "doc_topic_prior": [
            None,
            StrOptions({"auto"}),
            PRIOR,
            "array-like",
        ],
        "topic_word_prior": [
            None,
            StrOptions({"auto"}),
            PRIOR,
            "array-like",
        ],
        "init": [StrOptions({"k-means++", "random", "anchor"}), "array-like"],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "burn_in": [None, Interval(Integral, 0, None, closed="left")],
        "sample_every": [Interval(Integral, 1, None, closed="left")],
        "learn_every": [Interval(Integral, 1, None, closed="left")],
        "evaluate_every": [Interval(Integral, 0, None, closed="left")],
        "sparse_output": ["boolean"],
        "warm_start": ["boolean"],
        "n_jobs": [None, Interval(Integral, None, None, closed="neither")],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_components=10,
        *,
        sampler="auto",
        n_mh_steps=1,
        doc_topic_prior=None,
        topic_word_prior=None,
        init="k-means++",
        max_iter=100,
        burn_in=None,
        sample_every=5,
        learn_every=5,
        evaluate_every=10,
        sparse_output=False,
        warm_start=False,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.n_components = n_components
        self.sampler = sampler
        self.n_mh_steps = n_mh_steps
        self.doc_topic_prior = doc_topic_prior
        self.topic_word_prior = topic_word_prior
        self.init = init
        self.max_iter = max_iter
        self.burn_in = burn_in
        self.sample_every = sample_every
        self.learn_every = learn_every
        self.evaluate_every = evaluate_every
        self.sparse_output = sparse_output
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------ fitting

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Learn the topics of a corpus.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of words in documents. Held as tokens from then on, for `partial_fit` and
            `warm_start`: 6 bytes each, 8 with more than 65,536 topics.
        y : None
            Ignored.

        Returns
        -------
        self : AliasLDA
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter is out of range, a count is negative, NaN or infinite, or X is empty.
        """
        with self._whole_passes() as reached:
            goes_on = self.warm_start and hasattr(self, "components_")
            X, dtype = self._validate_counts(X, reset=not goes_on)
            if goes_on:
                self._check_goes_on()
            self._resolve_priors(X.shape[1])
            self._check_corpus(X)
            self._warn_of_fractions(X)

            def begin():
                return self._state_to_go_on(X, dtype) if goes_on else self._new_state(X, dtype)

            self._run_laps(X, begin, self._lap, reached)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None):
        """Append documents to those that are held, and sweep over all of them once.

        The first call starts the topics from its own documents, by `init`; later ones draw their
        documents' first topics under the present ones. For streams that do not fit in memory, see
        :meth:`SparseLDA.partial_fit`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of words in the new documents.
        y : None
            Ignored.

        Returns
        -------
        self : AliasLDA
            The estimator, fitted to what it has seen.

        Raises
        ------
        ValueError
            As for :meth:`fit`; or if `n_components` is not the number of the fitted topics; or if
            there is no chain, since a callback restored an earlier sweep.
        """
        with self._whole_passes():
            first = not hasattr(self, "components_")
            X, dtype = self._validate_counts(X, reset=first)
            if not first:
                self._check_goes_on()
            self._resolve_priors(X.shape[1])
            self._warn_of_fractions(X)
            kept = getattr(self, "_fit_state", None)
            if first:
                self._check_corpus(X)
                state = self._new_state(X, dtype)
            elif kept is None:
                raise ValueError(
                    "partial_fit appends to the documents of a chain, and there is none since "
                    "EarlyStopping restored an earlier sweep"
                )
            else:
                alpha, prior = self._priors_to_go_on(X.shape[1])
                seed = kept.seed + len(kept.tokens.ptr)  # streams that no other part has
                tokens, z = self._first_draws(X, kept.dtype, self.components_, alpha, seed)
                if not len(z):
                    return self
                state = kept.extended(tokens, z, self.sampler, alpha, prior)
            state.fingerprint = None  # of no one X
            state, value = self._lap(state, self._bound_wanted(state.n_laps + 1))
            state.history.append(value)
            state.acceptance.append(np.nan)
            state.n_laps += 1
            self._store(state, whole=True)
        return self

    def _warn_of_fractions(self, X):
        if has_fractions(X):
            warnings.warn(
                "X has fractional counts, as tf-idf weights are: AliasLDA rounds them at random. "
                "Give it the counts of CountVectorizer, or use SparseLDA, which takes fractions "
                "as they are",
                UserWarning,
                stacklevel=4,  # past the validation that wraps `fit`
            )

    def _lap(self, state, wanted):
        """One sweep and what follows it: the state then, and the log likelihood if wanted."""
        state = gibbs.sweep(state, n_steps=self.n_mh_steps, n_threads=local_threads(self.n_jobs))
        done = state.n_laps + 1
        if done % self.learn_every == 0:
            if self._learns_prior:
                gibbs.learn_alpha(state, self._allocation(state.alpha))
            if self._learns_word_prior:
                gibbs.learn_beta(state)
        value = gibbs.log_likelihood(state) / state.tokens.n_tokens if wanted else np.nan
        after = done - (self.max_iter // 2 if self.burn_in is None else self.burn_in)
        if after > 0 and after % self.sample_every == 0:
            state.take_sample()
        return state, value

    def _has_converged(self, state):
        return False

    def _store(self, state, whole):
        super()._store(state, whole=True)  # `partial_fit` appends to the chain

    def _log_lap(self, state):
        if self.verbose:
            line = f"[AliasLDA] sweep {state.n_laps}"
            if not np.isnan(state.history[-1]):
                line += f", log likelihood per token {state.history[-1]:.5f}"
            print(line)

    def _allocation(self, alpha):
        """How documents are inferred under the fitted topics: as SparseLDA does by default."""
        return DirichletTopics(alpha, sparsity_level=8, max_iter=100, tol=0.05, restarts=5)

    # ------------------------------------------------------------------ starting and going on

    def _new_state(self, X, dtype):
        """The state before the first sweep, its assignments drawn under the topics of `init`."""
        seed = self._new_seed()
        alpha, beta = self._resolve_priors(X.shape[1])
        topics = None
        if not isinstance(self.init, str) or self.init != "random":
            rng = inference.keyed_generator(seed, 0, inference.STREAM_INIT)
            counts = first_counts(X, self.n_components, self.init, beta, dtype, rng)
            topics = components_of(counts, beta, dtype)
        prior = gibbs.WordPrior(beta, X.shape[1], self.n_components)
        return self._state_under(topics, X, dtype, alpha, prior, seed)

    def _state_under(self, topics, X, dtype, alpha, prior, seed):
        """A state whose assignments are drawn under given topics."""
        tokens, z = self._first_draws(X, dtype, topics, alpha, seed)
        if not len(z):
            raise ValueError("X has no tokens: its counts are fractions that were rounded to zero")
        state = gibbs.GibbsState(tokens, z, alpha, prior, self.sampler, seed)
        state.dtype = dtype
        state.fingerprint = fingerprint(X)
        return state

    def _first_draws(self, X, dtype, topics, alpha, seed):
        """The tokens of documents and topics for them, drawn under given topics or uniformly."""
        tokens = gibbs.Tokens(X, seed)
        z = np.empty(tokens.n_tokens, dtype=np.uint16 if self.n_components <= 1 << 16 else np.int32)
        if topics is None:
            rng = inference.keyed_generator(seed, 0, inference.STREAM_SAMPLE)
            z[:] = rng.integers(self.n_components, size=len(z), dtype=z.dtype)
        else:
            table, masses = self._infer(X, dtype, topics, alpha)
            gibbs.draw_first(tokens, z, table, masses, alpha, seed)
        return tokens, z

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
        return alpha, gibbs.WordPrior(beta, n_features, self.n_components)

    def _state_to_go_on(self, X, dtype):
        """The kept chain if the data are the same, else one drawn under the fitted topics."""
        alpha, prior = self._priors_to_go_on(X.shape[1])
        kept = getattr(self, "_fit_state", None)
        if kept is not None and kept.fingerprint == fingerprint(X):
            return kept.own(self.sampler, alpha, prior)
        state = self._state_under(self.components_, X, dtype, alpha, prior, self._new_seed())
        state.n_laps = self.n_iter_
        state.history = list(self.log_likelihood_history_)
        return state

    def _fitted_attributes(self, state, *, whole):
        """What a fit that stands at `state` leaves on the estimator."""
        beta = self._resolve_priors(len(state.tokens.size))[1]
        beta = state.prior.base[0] if self._learns_word_prior else beta
        attributes = {
            "components_": components_of(state.mean_counts(), beta, state.dtype),
            "doc_topic_prior_": state.alpha,
            "topic_word_prior_": beta if np.ndim(beta) else float(beta),
            "log_likelihood_history_": np.array(state.history),
            "n_samples_averaged_": state.n_averaged,
            "n_iter_": state.n_laps,
        }
        return {**attributes, "_fit_state": state} if whole else attributes
