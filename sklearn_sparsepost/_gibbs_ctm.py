"""GibbsCTM: correlated topics by partially collapsed Gibbs sampling (Chen et al. 2013)."""

import os
from functools import partial
from numbers import Integral, Real

import numpy as np

from sklearn_sparsepost._checks import (
    LEAST_PRIOR,
    MOST_INTEGER,
    MOST_PRIOR,
    PRIOR,
    Interval,
    StrOptions,
    number_array,
)
from sklearn_sparsepost._docs import with_shared_texts
from sklearn_sparsepost._kernels import logits as kernels
from sklearn_sparsepost._models.logistic_normal import (
    FactorCovariance,
    FullCovariance,
    LogitInference,
    LogitPrior,
)
from sklearn_sparsepost._run.collections import n_blocks_of
from sklearn_sparsepost._run.threads import local_threads, settled_threads, single_blas
from sklearn_sparsepost._sampled_topics import BaseSampledTopics
from sklearn_sparsepost._sampling import ctm, lda
from sklearn_sparsepost._sampling.ctm_blocks import CTMInBlocks
from sklearn_sparsepost._summary import TopicSummary
from sklearn_sparsepost.display import TopicGraph, TopicTree

# A prior covariance is positive definite if its least eigenvalue is this share of the largest one.
LEAST_EIGENVALUE = 1e-12
# Logits and their prior mean are no larger.
MOST_MEAN = 100.0


@with_shared_texts
class GibbsCTM(BaseSampledTopics):
    """Correlated topic model by Gibbs sampling: which topics go together is learned.

    A document's topic weights are the softmax of logits, which are normal with one mean and one
    covariance for all documents: where Dirichlet weights of LDA only compete, these may also come
    together. Every token has a topic, drawn anew in each sweep; so are the logits of each
    document, component by component, and their mean and covariance (Chen et al. [1]_).

    Read more in the :ref:`User Guide <gibbs_ctm>`.

    Parameters
    ----------
    n_components : int, default=10
        Number of topics, K.

    topic_word_prior : float, "auto" or array-like of shape (n_features,) or \
            (n_components, n_features), default=None
        Dirichlet prior beta of the topics' words, as for :class:`AliasLDA`. By default 0.1.

    covariance_type : {"full", "factor", "diag"}, default="full"
        What the covariance of the logits may be.

        - "full": anything; a document costs K^2 multiplications a sweep.
        - "factor": that of `n_factors` factors and independent noise; K times `n_factors`, which
          pays from some hundred topics on.
        - "diag": no correlations, for comparison.

    n_factors : int, default=16
        Factors of "factor", fewer than topics.

    logit_sampler : {"auto", "slice", "polya-gamma"}, default="auto"
        How a logit is drawn given all others. All aim at the same posterior; see the notes.

        - "slice": from a normal distribution cut off at a random bound: long steps for topics
          with few of a document's tokens.
        - "polya-gamma": given a Polya-Gamma variable, as in the paper.
        - "auto": for each logit the one that takes the longer steps, by the counts of tokens.

    n_logit_steps : int, default=2
        Sweeps over the logits of each document in a sweep over all tokens.

    mean_prior : float or array-like of shape (n_components,), default=0.0
        Prior mean of the logits' mean; mu_0 in the paper.

    mean_precision_prior : float, default=None
        Number of documents that this prior counts as; rho in the paper. By default 1 % of the
        documents, at least 1.

    covariance_prior : float or array-like of shape (n_components,) or \
            (n_components, n_components), default=1.0
        Prior guess at the covariance: one variance, variances, or, for "full", a matrix. `fit`
        refuses a "full" one that, times the documents that it counts as, is lost in the rounding
        of the logits' own scatter.

    degrees_of_freedom_prior : float, default=None
        Degrees of freedom of the covariance's inverse Wishart prior, more than
        ``n_components - 1``: what exceeds this is the number of documents that `covariance_prior`
        counts as, for all covariance types. By default 1 % of the documents, at least 1.

    sampler : {"auto", "alias", "sparse", "dense"}, default="auto"
        How a token's topic is drawn. All aim at the same posterior.

        - "alias": a stale alias table of the word and an exact one of the document propose in
          turn, in constant time, and Metropolis-Hastings corrects.
        - "sparse": the topics of the word are weighed (Eq. 4 of [1]_).
        - "dense": all topics are weighed, a vector at a time.
        - "auto": "sparse" for words of up to 32 tokens, and for the others "dense", with more than
          200 topics "alias".

    n_mh_steps : int, default=2
        Metropolis-Hastings steps a token of "alias".

    init : {"k-means++", "random", "anchor"} or array-like of shape (n_components, n_features), \
            default="k-means++"
        The topics under which the first assignments are drawn, as for :class:`AliasLDA`. Ten
        sweeps of LDA follow, and the first logits are those of their counts.

    max_iter : int, default=200
        Number of sweeps.

    burn_in : int, default=None
        Sweeps before samples are averaged; by default half of `max_iter`.

    sample_every : int, default=2
        Every so many sweeps after `burn_in` counts, mean and covariance are added to the average.

    learn_every : int, default=5
        Every so many sweeps `topic_word_prior` is learned, if it is "auto".

    evaluate_every : int, default=10
        Compute the log likelihood every so many sweeps, 0 for never.

    memmap_folder : str or path-like, default=None
        Folder for temporary files that hold the logits, 4 bytes a document and topic; they go
        when the fit goes. By default they are in memory.

    sparse_output : bool, default=False
        Whether :meth:`transform` returns CSR with a document's active topics only.

    {warm_start}

    {n_jobs}
        They are threads over documents and blocks of the data, whatever the backend.

    {random_state}

    {verbose}

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Prior plus counts of words in topics, averaged over samples; if no sample was taken, those
        of the last sweep.

    topic_word_distr_ : ndarray of shape (n_components, n_features)
        The topics' expected word probabilities; rows sum to 1.

    mean_ : ndarray of shape (n_components,)
        Mean of the logits, averaged as `components_`.

    covariance_ : ndarray of shape (n_components, n_components)
        Covariance of the logits, averaged as `components_`.

    precision_ : ndarray of shape (n_components, n_components)
        Inverse of `covariance_`.

    topic_correlation_ : ndarray of shape (n_components, n_components)
        Correlations of the logits less their mean over topics: all that weights depend on.

    logits_ : ndarray of shape (n_documents, n_components), float32
        Logits of the documents that were fitted, as the last sweep drew them: a sample of their
        posterior, not to be written to.

    topic_word_prior_ : float or ndarray
        The prior beta in use.

    log_likelihood_history_ : ndarray of shape (`n_iter_`,)
        log p(words, topics, logits | mean, covariance, beta) after each sweep, in nats a token;
        NaN where it was not computed. It has densities of logits in it: compare it along one fit,
        not between numbers of topics.

    n_samples_averaged_ : int
        Number of sweeps whose counts `components_` averages.

    n_iter_ : int
        Number of sweeps made.

    {features}

    See Also
    --------
    AliasLDA : Without correlations, and faster.

    Notes
    -----
    Given C of a document's N tokens in topic k, the conditional density of its logit is
    ``exp(C x) / (exp(x) + r)^N`` times a normal density (Eq. 2 of [1]_), r being what the other
    topics weigh. Polya-Gamma variables [2]_ are drawn exactly for documents of up to 16 tokens; for
    longer ones, in place of the paper's approximation, from the gamma distribution with their mean
    and variance. The slice, which bounds the logit by a uniform number below ``(exp(x) + r)^-N``,
    is exact for every length. Which of the two serves a logit depends on C and N alone.

    The prior of the covariance is scaled so that a variance has the same prior for every
    `n_components`: in the paper's terms kappa is `degrees_of_freedom_prior`, and W is
    `covariance_prior` times what kappa exceeds ``n_components - 1`` by.

    Of a Dask array's blocks each sweeps its own documents on counts of words that lack what the
    others change in the same sweep, as those of :class:`AliasLDA` do; logits, mean and covariance
    are drawn as in memory (:ref:`chains_over_blocks`).

    Where the mean and the covariance are averaged over samples, the factors of "factor" that
    :meth:`transform` computes with are those nearest to the average.

    References
    ----------
    .. [1] J. Chen, J. Zhu, Z. Wang, X. Zheng, B. Zhang. Scalable inference for logistic-normal
       topic models. NIPS 2013.
    .. [2] N. G. Polson, J. G. Scott, J. Windle. Bayesian inference for logistic models using
       Polya-Gamma latent variables. JASA 108, 2013.

    Examples
    --------
    >>> from sklearn_sparsepost import GibbsCTM
    >>> from sklearn_sparsepost.datasets import make_lda_corpus
    >>> X, topics, _ = make_lda_corpus(300, 100, 5, random_state=0)
    >>> ctm = GibbsCTM(n_components=5, max_iter=50, random_state=0).fit(X)
    >>> ctm.transform(X[:3]).shape
    (3, 5)
    >>> ctm.topic_correlation_.shape
    (5, 5)
    """

    _parameter_constraints: dict = {
        "n_components": [Interval(Integral, 1, MOST_INTEGER, closed="both")],
        "topic_word_prior": [None, StrOptions({"auto"}), PRIOR, "array-like"],
        "covariance_type": [StrOptions({"full", "factor", "diag"})],
        "n_factors": [Interval(Integral, 1, MOST_INTEGER, closed="both")],
        "logit_sampler": [StrOptions(set(kernels.SAMPLERS))],
        "n_logit_steps": [Interval(Integral, 1, MOST_INTEGER, closed="both")],
        "mean_prior": [Interval(Real, -MOST_MEAN, MOST_MEAN, closed="both"), "array-like"],
        "mean_precision_prior": [None, Interval(Real, 1e-6, 1e15, closed="both")],
        "covariance_prior": [Interval(Real, 1e-6, 1e6, closed="both"), "array-like"],
        "degrees_of_freedom_prior": [None, Interval(Real, 0, 1e15, closed="right")],
        "sampler": [StrOptions({"auto", "alias", "sparse", "dense"})],
        "n_mh_steps": [Interval(Integral, 1, MOST_INTEGER, closed="both")],
        "init": [StrOptions({"k-means++", "random", "anchor"}), "array-like"],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "burn_in": [None, Interval(Integral, 0, None, closed="left")],
        "sample_every": [Interval(Integral, 1, None, closed="left")],
        "learn_every": [Interval(Integral, 1, None, closed="left")],
        "evaluate_every": [Interval(Integral, 0, None, closed="left")],
        "memmap_folder": [None, str, os.PathLike],
        "sparse_output": ["boolean"],
        "warm_start": ["boolean"],
        "n_jobs": [None, Interval(Integral, None, None, closed="neither")],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    # Dirichlet weights are what the start has, before there are logits: those of AliasLDA.
    doc_topic_prior = None

    def __init__(
        self,
        n_components=10,
        *,
        topic_word_prior=None,
        covariance_type="full",
        n_factors=16,
        logit_sampler="auto",
        n_logit_steps=2,
        mean_prior=0.0,
        mean_precision_prior=None,
        covariance_prior=1.0,
        degrees_of_freedom_prior=None,
        sampler="auto",
        n_mh_steps=2,
        init="k-means++",
        max_iter=200,
        burn_in=None,
        sample_every=2,
        learn_every=5,
        evaluate_every=10,
        memmap_folder=None,
        sparse_output=False,
        warm_start=False,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.n_components = n_components
        self.topic_word_prior = topic_word_prior
        self.covariance_type = covariance_type
        self.n_factors = n_factors
        self.logit_sampler = logit_sampler
        self.n_logit_steps = n_logit_steps
        self.mean_prior = mean_prior
        self.mean_precision_prior = mean_precision_prior
        self.covariance_prior = covariance_prior
        self.degrees_of_freedom_prior = degrees_of_freedom_prior
        self.sampler = sampler
        self.n_mh_steps = n_mh_steps
        self.init = init
        self.max_iter = max_iter
        self.burn_in = burn_in
        self.sample_every = sample_every
        self.learn_every = learn_every
        self.evaluate_every = evaluate_every
        self.memmap_folder = memmap_folder
        self.sparse_output = sparse_output
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------ how it is sampled

    _chain_type = ctm.CTMChain
    _blocks_chain_type = CTMInBlocks

    def _resolve_priors(self, n_features):
        self._structure()
        self._normal_prior()
        if self.memmap_folder is not None and not os.path.isdir(self.memmap_folder):
            raise ValueError(f"memmap_folder={self.memmap_folder!r} is no folder")
        return super()._resolve_priors(n_features)

    def _refuse_blocks(self, X):
        if self.memmap_folder is not None and n_blocks_of(X) > 1:
            raise ValueError(
                f"memmap_folder={self.memmap_folder!r}, but X is a Dask array: its workers hold "
                "the logits of their blocks in memory"
            )

    def _structure(self):
        """What the covariance may be."""
        if self.covariance_type == "full":
            return FullCovariance()
        if self.covariance_type == "diag":
            return FactorCovariance(0)
        if self.n_factors >= self.n_components:
            raise ValueError(
                f"n_factors={self.n_factors} must be less than n_components={self.n_components}: "
                "as many factors as topics are no restriction, as covariance_type='full' is none"
            )
        return FactorCovariance(self.n_factors)

    def _normal_prior(self):
        """The prior of the logits' mean and covariance."""
        K = self.n_components
        shapes = {"one value": (), "one a topic": (K,)}
        mean = number_array(self.mean_prior, "mean_prior", shapes, -MOST_MEAN, MOST_MEAN)
        if self.covariance_type == "full":
            shapes = {**shapes, "a matrix": (K, K)}
        covariance = number_array(
            self.covariance_prior, "covariance_prior", shapes, -MOST_PRIOR, MOST_PRIOR
        )
        if covariance.ndim < 2:
            covariance = np.broadcast_to(covariance, (K,)).copy()
            positive = (covariance >= LEAST_PRIOR).all()
            if self.covariance_type == "full":  # matrices are drawn and factored
                positive &= covariance.min() > LEAST_EIGENVALUE * covariance.max()
        else:
            values = np.linalg.eigvalsh(covariance)
            positive = np.allclose(covariance, covariance.T, rtol=1e-8) and (
                values[0] > LEAST_EIGENVALUE * values[-1]
            )
        if not positive:
            raise ValueError(
                "covariance_prior must be positive definite and symmetric, or positive variances: "
                f"of full covariances the least at least {LEAST_EIGENVALUE:g} of the largest"
            )
        freedom = self.degrees_of_freedom_prior
        if freedom is not None and freedom <= K - 1:
            raise ValueError(
                f"degrees_of_freedom_prior={freedom} must be more than n_components - 1 = {K - 1}"
            )
        return LogitPrior(
            np.broadcast_to(mean, (K,)).copy(),
            self.mean_precision_prior,
            covariance,
            None if freedom is None else float(freedom - (K - 1)),
        )

    def _settings(self, alpha, beta, n_features, goes_on=False):
        return {
            "prior": lda.WordPrior(beta, n_features, self.n_components),
            "sampler": self.sampler,
            "structure": self._structure(),
            "normal_prior": self._normal_prior(),
            "folder": self.memmap_folder,
        }

    def _new_chain(self, X, dtype):
        chain = super()._new_chain(X, dtype)
        with settled_threads(local_threads(self.n_jobs)):
            return ctm.after_lda(chain, self._resolve_priors(X.shape[1])[0])

    def _steps(self):
        sweep = partial(
            ctm.sweep,
            sampler=kernels.SAMPLERS[self.logit_sampler],
            n_steps=self.n_logit_steps,
            n_mh_steps=self.n_mh_steps,
        )
        return sweep, [lda.learn_beta] if self._learns_word_prior else []

    def _inference(self, alpha=None):
        if alpha is not None:
            return super()._inference(alpha)
        return LogitInference(self._normal, kernels.SAMPLERS[self.logit_sampler])

    # ------------------------------------------------------------------ what was found

    @property
    def _n_features_out(self):
        return len(self.mean_)

    @property
    def logits_(self):
        """Logits of the documents as last drawn, of shape (n_documents, n_components)."""
        logits = self._fit_state.all_logits().view()
        logits.flags.writeable = False
        return logits

    @property
    def precision_(self):
        """Inverse of `covariance_`, of shape (n_components, n_components)."""
        with single_blas():
            precision = np.linalg.inv(self.covariance_)
        return (precision + precision.T) / 2

    @property
    def topic_correlation_(self):
        """Correlations of logits less their mean, of shape (n_components, n_components)."""
        K = len(self.covariance_)
        if K == 1:
            return np.ones((1, 1))
        covariance = self.covariance_ - self.covariance_.mean(axis=0)
        covariance = covariance - covariance.mean(axis=1, keepdims=True)
        scale = np.sqrt(np.diag(covariance))
        correlation = np.clip(covariance / np.outer(scale, scale), -1, 1)
        np.fill_diagonal(correlation, 1.0)
        return (correlation + correlation.T) / 2

    def topic_graph(self, threshold=0.2, *, n_words=4, feature_names=None):
        """Which topics go together: the graph of correlations above a threshold.

        Parameters
        ----------
        threshold : float, default=0.2
            Topics with a `topic_correlation_` of at least this are joined.
        n_words : int, default=4
            Words that label a topic.
        feature_names : array-like of shape (n_features,), default=None
            The words; by default `feature_names_in_`, if there are any, or else their numbers.

        Returns
        -------
        graph : TopicGraph
            Nodes, edges and their correlations as arrays, with a display.

        Raises
        ------
        ValueError
            If the threshold is not from 0 to 1, or the words are not as many as features.
        """
        summary = TopicSummary.from_estimator(self, feature_names=feature_names)
        return TopicGraph(self.topic_correlation_, summary, threshold, n_words)

    def topic_tree(self, *, n_words=4, feature_names=None):
        """Cluster the topics by their correlations, into a tree.

        Parameters
        ----------
        n_words : int, default=4
            Words that label a topic, or a cluster of topics.
        feature_names : array-like of shape (n_features,), default=None
            The words; by default `feature_names_in_`, if there are any, or else their numbers.

        Returns
        -------
        tree : TopicTree
            A linkage as scipy has them, with a display.

        Raises
        ------
        ValueError
            If there is one topic only, or the words are not as many as features.
        """
        summary = TopicSummary.from_estimator(self, feature_names=feature_names)
        return TopicTree(self.topic_correlation_, summary, n_words)
