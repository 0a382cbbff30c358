"""SparseLDA: latent Dirichlet allocation, L-sparse local steps (Hughes & Sudderth 2016)."""

from functools import partial
from numbers import Integral

import numpy as np

from sklearn_sparsepost._checks import (
    MOST_INTEGER,
    PRIOR,
    Interval,
    StrOptions,
    check_topics,
    has_fractions,
)
from sklearn_sparsepost._docs import with_shared_texts
from sklearn_sparsepost._learning.loops import averaged_pass
from sklearn_sparsepost._models.documents import DirichletDocuments
from sklearn_sparsepost._models.priors import compact_prior
from sklearn_sparsepost._models.sampled import (
    GrowingMultinomial,
    SampledAdmixture,
    SampledDocuments,
)
from sklearn_sparsepost._topic_variational import BaseVariationalTopics

# Tokens of a document that are drawn: counts of them are exact in float32.
MOST_TOKENS = 1 << 24
# Pseudo-counts a topic where only its probabilities are known: so many that E[log phi] is log phi.
POINT_ESTIMATE_COUNT = 1e9


@with_shared_texts
class SparseLDA(BaseVariationalTopics):
    """Latent Dirichlet allocation whose words keep at most L topics each.

    Variational inference for LDA under the constraint that the posterior over topics of every
    distinct word of a document has at most `sparsity_level` non-zero entries (Hughes & Sudderth
    [1]_, Alg. 2). A document then touches only its active topics, which makes a pass over the data
    nearly independent of `n_components`, at the same held-out quality as the dense posterior.

    Read more in the :ref:`User Guide <sparse_lda>`.

    Parameters
    ----------
    n_components : int, default=10
        Number of topics, K.

    sparsity_level : int or None, default=8
        The most topics that a distinct word of a document may keep, L. None, or K and more, is
        the dense posterior. 4 to 16 are as good as dense; 1 is hard assignment and may fail.

    estimation : {"bayes", "map"}, default="map"
        What documents read of the topics.

        - "map": the mode of their posterior in the basis of log-probabilities, which is its mean
          [4]_, and an exact coordinate ascent of the joint density of these points, as
          `estimation="map"` of :class:`SparseMixture` is. Better held out, above all on small
          corpora.
        - "bayes": posterior distributions, by exp(E[log phi]), as in [1]_.

    doc_topic_prior : float, "auto" or array-like of shape (n_components,), default=None
        Dirichlet prior alpha of each topic's weight in a document. By default
        ``0.5 / n_components``: a total mass of 0.5. "auto" starts there and learns one value a
        topic, by one fixed-point step after every pass (Minka [3]_, Eq. 55).

    topic_word_prior : float or array-like of shape (n_features,) or (n_components, n_features), \
            default=None
        Dirichlet prior of the topics' words: one value, one a word, or a matrix, whose larger
        entries seed topics with words. By default 0.1.

    {learning_method}

    local_step : {"variational", "gibbs"}, default="variational"
        How documents are fitted.

        - "variational": coordinate ascent of L-sparse posteriors [1]_.
        - "gibbs": sweeps that draw every token's topic given those of its document, under fixed
          topics [5]_. Statistics are averages over sweeps, and in memoized learning a batch is
          sampled under the topics of the other batches. Needs whole counts; there is no bound,
          so all `max_iter` passes are made.

    burn_in : int, default=3
        Of "gibbs": sweeps over a document before any counts. Short documents under hundreds of
        topics gain by more, such as 16.

    n_sweeps : int, default=3
        Of "gibbs": sweeps over a document that count.

    rao_blackwell : bool, default=True
        Of "gibbs": whether a sweep counts the probabilities of a token's topics, in place of the
        one that was drawn. Shares of a word's count under 5 % go to one of their topics by lot, so
        that tables stay small and expected counts what they are.

    average_after : int, default=None
        Of "gibbs": `components_` is the average of the topics of all passes after this many. By
        default, in batch and memoized learning, after half of `max_iter`; in online learning
        topics are not averaged unless this is given.

    init : {"k-means++", "random", "anchor"} or array-like of shape (n_components, n_features), \
            default="k-means++"
        The first topics, which decide quality more than anything that follows.

        - "k-means++": diverse documents chosen by Bregman divergence, then clusters of documents
          refined by a few hard assignments.
        - "random": gamma noise around 1, as scikit-learn's. Poor for many topics.
        - "anchor": topics recovered from anchor words (Arora et al. [2]_).
        - an array is taken as pseudo-counts, as `components_` of a fitted model; if every row
          sums to 1, as probabilities, which are given the corpus's mean count a topic.

    {n_batches}

    batch_size : int, default=512
        Documents a batch in online learning.

    {learning_decay}

    learning_offset : float, default=64.0
        Slows the first online steps down; tau_0 or delta in the literature. Larger than
        scikit-learn's, since the steps should not forget a good start.

    {total_samples}

    max_iter : int, default=20
        The most passes over the data, whatever the learning method.

    tol : float, default=1e-3
        Fitting stops when the bound rises by less than this a token, in nats, from one evaluation
        to the next; in online learning, where it may fall, when it moves by less. 0 makes all
        `max_iter` passes.

    max_doc_update_iter : int, default=100
        The most iterations of a document's coordinate ascent.

    mean_change_tol : float, default=0.05
        A document's iterations stop once none of its expected topic counts moves by more. This is
        the criterion of [1]_ under scikit-learn's name; scikit-learn averages over all topics.

    restarts : int, default=5
        The most restart proposals a document and visit: one topic's mass is forced to zero, and
        after a few iterations the result is kept if the document's bound improved. They keep
        documents from spreading over too many topics pass by pass, which ruins topics of large
        corpora. 0 makes none.

    restarts_above : int or "prior", default="prior"
        Documents that keep no more topics than this are left as they are. "prior": no more than
        `doc_topic_prior` expects of their length, 3 of 100 tokens under the default (a prior that
        is learned, as it begins). Fewer topics would raise the documents' bounds, but make topics
        worse, see :ref:`restarts`; 0 tries all documents, as [1]_ does.

    doc_start : {"cold", "warm"}, default="cold"
        Whether documents start every pass from their words alone, or in memoized learning from
        their last topic counts. Warm is there for comparison: it needs memory for the counts and
        gets stuck in worse optima ([1]_, Fig. 5).

    evaluate_every : int, default=1
        Compute the bound every so many passes, 0 for never; it costs a few per cent of a pass.

    sparse_output : bool, default=False
        Whether :meth:`transform` returns CSR with a document's active topics only.

    {warm_start}

    {n_jobs}
        {workers}

    {random_state}

    {verbose}

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Dirichlet parameters lambda of the topics: prior plus expected counts. After a
        :meth:`partial_fit` they are put together when they are first read.

    topic_word_distr_ : ndarray of shape (n_components, n_features)
        The topics' expected word probabilities; rows sum to 1.

    doc_topic_prior_ : ndarray of shape (n_components,)
        The prior alpha in use.

    topic_word_prior_ : float or ndarray
        The prior of the topics' words in use, of the shape given.

    bound_history_ : ndarray of shape (`n_iter_`,)
        Evidence lower bound of the training data after each pass, in nats, exact for the L-sparse
        posterior with all constants; NaN where it was not computed.

    restart_acceptance_ : ndarray of shape (`n_iter_`,)
        Share of restart proposals accepted in each pass; NaN where none was made.

    n_iter_ : int
        Number of passes made.

    {n_batch_iter_}

    {n_samples_seen_}

    {features}

    See Also
    --------
    sklearn.decomposition.LatentDirichletAllocation : Dense variational LDA.

    Notes
    -----
    The bound rises from pass to pass in batch and memoized learning as long as every document's
    local step improves on its last one. Cold starts do not guarantee that, since a document is
    solved anew in each pass and its optimum is local; with restarts falls are rare and small. In
    online learning the topics follow a random batch, so the bound may fall.

    Counts are computed in float32 where X is float32 or of integers up to 2**24, in float64
    otherwise; statistics and bounds are always summed in float64. Zeros that a sparse matrix stores
    count for nothing. Priors may be from 1e-30 to 1e30, counts and the entries of `init` up to
    1e15: within these limits every result is finite, and beyond them is an error.

    References
    ----------
    .. [1] M. C. Hughes, E. B. Sudderth. Fast learning of clusters and topics via sparse
       posteriors. arXiv:1609.07521, 2016.
    .. [2] S. Arora et al. A practical algorithm for topic modeling with provable guarantees.
       ICML 2013.
    .. [3] T. P. Minka. Estimating a Dirichlet distribution. Technical report, MIT, 2000.
    .. [4] D. J. C. MacKay. Choice of basis for Laplace approximation. Machine Learning 33, 1998.
    .. [5] D. Mimno, M. D. Hoffman, D. M. Blei. Sparse stochastic inference for latent Dirichlet
       allocation. ICML 2012.

    Examples
    --------
    >>> from sklearn_sparsepost import SparseLDA
    >>> from sklearn_sparsepost.datasets import make_bars
    >>> X, topics, _ = make_bars(500, random_state=0)
    >>> lda = SparseLDA(n_components=10, random_state=0).fit(X)
    >>> lda.transform(X[:3]).shape
    (3, 10)
    """

    _parameter_constraints: dict = {
        **BaseVariationalTopics._parameter_constraints,
        "doc_topic_prior": [
            None,
            StrOptions({"auto"}),
            PRIOR,
            "array-like",
        ],
        "local_step": [StrOptions({"variational", "gibbs"})],
        "burn_in": [Interval(Integral, 0, MOST_INTEGER, closed="both")],
        "n_sweeps": [Interval(Integral, 1, MOST_INTEGER, closed="both")],
        "rao_blackwell": ["boolean"],
        "average_after": [None, Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        n_components=10,
        *,
        sparsity_level=8,
        estimation="map",
        doc_topic_prior=None,
        topic_word_prior=None,
        learning_method="memoized",
        local_step="variational",
        burn_in=3,
        n_sweeps=3,
        rao_blackwell=True,
        average_after=None,
        init="k-means++",
        n_batches="auto",
        batch_size=512,
        learning_decay=0.7,
        learning_offset=64.0,
        total_samples=None,
        max_iter=20,
        tol=1e-3,
        max_doc_update_iter=100,
        mean_change_tol=0.05,
        restarts=5,
        restarts_above="prior",
        doc_start="cold",
        evaluate_every=1,
        sparse_output=False,
        warm_start=False,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.n_components = n_components
        self.sparsity_level = sparsity_level
        self.estimation = estimation
        self.doc_topic_prior = doc_topic_prior
        self.topic_word_prior = topic_word_prior
        self.learning_method = learning_method
        self.local_step = local_step
        self.burn_in = burn_in
        self.n_sweeps = n_sweeps
        self.rao_blackwell = rao_blackwell
        self.average_after = average_after
        self.init = init
        self.n_batches = n_batches
        self.batch_size = batch_size
        self.learning_decay = learning_decay
        self.learning_offset = learning_offset
        self.total_samples = total_samples
        self.max_iter = max_iter
        self.tol = tol
        self.max_doc_update_iter = max_doc_update_iter
        self.mean_change_tol = mean_change_tol
        self.restarts = restarts
        self.restarts_above = restarts_above
        self.doc_start = doc_start
        self.evaluate_every = evaluate_every
        self.sparse_output = sparse_output
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------ model

    @property
    def _kind(self):
        return self.local_step

    def _model(self, n_features, dtype, n_documents=None):
        alpha, beta = self._resolve_priors(n_features)
        if self.local_step == "variational":
            return self._admixture(self._documents(alpha), beta, n_features, dtype)
        if self.doc_start == "warm":
            raise ValueError(
                "doc_start='warm' has no meaning with local_step='gibbs', whose documents start "
                "from their words alone: use 'cold'"
            )
        words = GrowingMultinomial(
            self.estimation,
            compact_prior(beta),
            n_features,
            forgets=n_documents is None or self.learning_method == "online",
        )
        documents = SampledDocuments(
            alpha,
            sparsity_level=self.sparsity_level,
            burn_in=self.burn_in,
            n_sweeps=self.n_sweeps,
            rao_blackwell=self.rao_blackwell,
            learn=self._learns_prior,
        )
        return SampledAdmixture(words, documents, len(alpha), dtype=dtype)

    def _fitted_model(self, n_features, dtype):
        alpha, beta = self.doc_topic_prior_, np.asarray(self.topic_word_prior_)
        documents = self._documents(alpha)
        return self._admixture(documents, beta, n_features, dtype), {"alpha": alpha}

    def _check_counts(self, corpus):
        """A topic is drawn for every token: counts must be whole, and not too many."""
        if self.local_step == "gibbs":
            corpus.check(check_drawable)

    def _one_pass(self, model, corpus):
        one_pass = super()._one_pass(model, corpus)
        after = self.average_after
        if after is None and self.learning_method != "online":
            after = self.max_iter // 2
        if self.local_step == "variational" or after is None:
            return one_pass
        return partial(averaged_pass, one_pass, after)

    def _documents(self, alpha):
        return DirichletDocuments(alpha, learn=self._learns_prior, **self._step_options())

    def _learned_to_go_on(self, state=None):
        """The documents' prior to go on with: what was learned, or what the parameter now says."""
        learned = self._learns_prior
        alpha = self._resolve_priors(self.n_features_in_)[0]
        alpha = self.doc_topic_prior_ if learned else alpha
        return {"alpha": alpha}

    def _fitted_attributes(self, state, *, whole):
        """What a fit that stands at `state` leaves on the estimator."""
        attributes = {
            **self._attributes_of_topics(state),
            "doc_topic_prior_": state.learned["alpha"],
        }
        return {**attributes, "_fit_state": state} if whole else attributes

    @classmethod
    def from_topics(cls, components, *, feature_names=None, **params):
        """Wrap topics fitted elsewhere, for fast inference on new documents here.

        Parameters
        ----------
        components : array-like of shape (n_components, n_features)
            Topics: pseudo-counts (scikit-learn's `components_`), or probabilities, rows summing to
            1 (gensim's `get_topics()`, tomotopy's `get_topic_word_dist`), which are taken as
            known exactly.
        feature_names : array-like of str of shape (n_features,), default=None
            The words.
        **params : dict
            Parameters of the estimator, such as `doc_topic_prior` or `sparsity_level`.

        Returns
        -------
        lda : SparseLDA
            A fitted estimator.

        Raises
        ------
        ValueError
            If components are negative or not finite, or there are more or fewer names than columns.
        """
        components = check_topics(components)
        n_features = components.shape[1]
        if np.allclose(components.sum(axis=1, dtype=np.float64), 1):
            components = components * POINT_ESTIMATE_COUNT
        tiny = np.asarray(1e-6, dtype=components.dtype)
        lda = cls(len(components), **params)
        lda._validate_params()
        lda.components_ = np.maximum(components, tiny)
        lda.n_features_in_ = n_features
        if feature_names is not None:
            names = np.asarray(feature_names, dtype=object)
            if names.shape != (n_features,) or not all(isinstance(name, str) for name in names):
                raise ValueError(
                    f"feature_names must be {n_features} strings, one a column of components, got "
                    f"{feature_names!r}"
                )
            lda.feature_names_in_ = names
        lda.doc_topic_prior_, beta = lda._resolve_priors(n_features)
        lda.topic_word_prior_ = beta if beta.ndim else float(beta)
        lda.bound_history_ = np.empty(0)
        lda.restart_acceptance_ = np.empty(0)
        lda.n_iter_ = lda.n_batch_iter_ = lda.n_samples_seen_ = 0
        return lda


def check_drawable(X):
    """Refuse counts of which not every token can be given a topic."""
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    if has_fractions(X):
        row = rows[np.argmax(X.data != np.floor(X.data))]
        raise ValueError(
            f"row {row} of X has fractional counts, but local_step='gibbs' draws a topic for "
            "every token: give it whole counts, or use local_step='variational'"
        )
    lengths = np.bincount(rows, X.data, minlength=X.shape[0])
    if lengths.max(initial=0) > MOST_TOKENS:
        raise ValueError(
            f"row {lengths.argmax()} of X has {lengths.max():.0f} tokens, but "
            f"local_step='gibbs' takes {MOST_TOKENS} a document"
        )
