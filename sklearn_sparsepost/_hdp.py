"""SparseHDP: topics whose number is found, by sparse posteriors and moves (Hughes et al. 2015)."""

from functools import partial
from numbers import Integral

import numpy as np

from sklearn_sparsepost._checks import MOST_INTEGER, PRIOR, Interval
from sklearn_sparsepost._docs import with_shared_texts
from sklearn_sparsepost._grouped_topics import BaseGroupedTopics
from sklearn_sparsepost._learning.loops import STREAM_SIZE
from sklearn_sparsepost._learning.topic_moves import TRIED
from sklearn_sparsepost._models.discrete import Multinomial
from sklearn_sparsepost._models.documents import DirichletDocuments
from sklearn_sparsepost._models.priors import compact_prior
from sklearn_sparsepost._models.sticks import StickDocuments, stick_weights


@with_shared_texts
class SparseHDP(BaseGroupedTopics):
    """Hierarchical Dirichlet process topic model whose number of topics is found.

    Of words in documents, or of Gaussians and rows in groups: patches of images, purchases of
    customers.

    Documents share topics whose weights over the corpus are learned, by sticks of a Dirichlet
    process with a full posterior and a surrogate bound that prefers no topic to an empty one
    (Hughes, Kim & Sudderth [1]_). Merges and deletes, and births if wanted, change the number of
    topics, and are accepted only if the bound of the whole corpus rises. The local step is that of
    :class:`SparseLDA`: every distinct word of a document keeps at most `sparsity_level` topics.

    Read more in the :ref:`User Guide <sparse_hdp>`.

    Parameters
    ----------
    n_components : int, default=100
        Number of topics to begin with. With moves the fitted `n_components_` is another.

    sparsity_level : int or None, default=8
        The most topics that a distinct word of a document may keep, L. None, or K and more, is
        the dense posterior.

    observation : {"multinomial", "gaussian"} or callable, default="multinomial"
        What data look like inside a topic: counts, where each row of `X` is a document; or real
        vectors, where each row of `X` is an observation and :meth:`fit` is told which group it
        belongs to. A callable ``observation(estimator, X, sample_weight)`` returns a model of rows
        of your own, an :class:`~sklearn_sparsepost.observations.Observation`; `sample_weight` is
        None. What is said of documents here is true of groups, and of words of their rows.

    estimation : {"bayes", "map"}, default="map"
        What documents read of the topics: expected logarithms under posteriors, as in [1]_, or
        their modes, as in :class:`SparseLDA` and :class:`SparseMixture`.

    doc_concentration : float, default=0.5
        Dirichlet mass of the topic weights of a document, alpha in the paper: the larger, the more
        topics a document has. Topic k has alpha times its weight over the corpus.

    topic_concentration : float, default=10.0
        Concentration of the topics' weights over the corpus, gamma in the paper: the larger, the
        more topics there are.

    topic_word_prior : float or array-like of shape (n_features,), default=None
        Dirichlet prior of the topics' words: one value, or one a word. By default 0.1. One that
        follows the words' frequencies has the bound prefer more topics, see the :ref:`User Guide
        <cost_of_a_topic>`. Not for rows in groups.

    covariance_type : {"full", "tied", "diag", "spherical"}, default="full"
        Covariances of the Gaussians; "tied" is one full covariance for all topics.

    assume_centered : bool, default=False
        Whether the Gaussians have zero mean, as fits image patches without their means.

    mean_precision_prior : float, default=None
        How many rows the prior of a Gaussian's mean is worth. By default 1.

    mean_prior : array-like of shape (n_features,), default=None
        Mean of the prior of the means. By default the mean of `X`.

    degrees_of_freedom_prior : float, default=None
        Degrees of freedom of the prior of the precisions. By default `n_features`.

    covariance_prior : float or array-like, default=None
        Scale of the prior of the covariances: (n_features, n_features) if "full" or
        "tied", (n_features,) if "diag", a number if "spherical". By default the covariance of `X`.

    reg_covar : float, default=1e-6
        Added to the variances of Gaussians.

    {learning_method}

    moves : bool or sequence of {"birth", "merge", "delete"}, default=True
        Moves that change the number of topics after passes of batch or memoized learning, True for
        merges and deletes. Merges join topics that occur in the same documents or are made of the
        same words; deletes take a topic out, and fit the documents that used it, if these are not
        more than 500, without it. Births, in every other pass, add topics that clusters of a
        topic's documents begin.

    max_components : int, default=None
        The most topics after births, at least `n_components`. None leaves it to the bound.

    init : {"auto", "k-means++", "random", "anchor", "agglomerative"} or array-like of shape \
            (n_components, n_features), default="auto"
        The first topics. Of words as for :class:`SparseLDA`, "auto" being "k-means++". Of rows in
        groups "auto" is "agglomerative", which merges small clusters as :class:`SparseMixture`
        does; or each row begins in the nearest of K rows that k-means++ draws, or of K random
        ones, or of those given here.

    {n_batches}

    batch_size : int, default=512
        Documents a batch in online learning.

    {learning_decay}

    learning_offset : float, default=64.0
        Slows the first online steps down.

    {total_samples}

    max_iter : int, default=20
        The most passes over the data, whatever the learning method.

    tol : float, default=1e-3
        Fitting stops when the bound rises by less than this a token, in nats, from one pass to the
        next, and no move was accepted. 0 makes all `max_iter` passes.

    max_doc_update_iter : int, default=100
        The most iterations of a document's coordinate ascent.

    mean_change_tol : float, default=0.05
        A document's iterations stop once none of its expected topic counts moves by more.

    restarts : int, default=5
        The most restart proposals a document and visit, as for :class:`SparseLDA`.

    restarts_above : int or "prior", default="prior"
        Documents that keep no more topics than this are left as they are. "prior": no more than
        the documents' concentration expects of their length.

    doc_start : {"cold", "warm"}, default="cold"
        Whether documents start every pass from their words alone, or in memoized learning from
        their last topic counts.

    evaluate_every : int, default=1
        Compute the bound every so many passes, 0 for never; moves need it after every pass.

    sparse_output : bool, default=False
        Whether :meth:`transform` returns CSR with a document's active topics only, and
        :meth:`predict_proba` CSR with L entries a row.

    {warm_start}

    {n_jobs}
        {workers}

    {random_state}

    {verbose}

    Attributes
    ----------
    n_components_ : int
        Number of topics found.

    components_ : ndarray of shape (`n_components_`, n_features)
        Of words only. Dirichlet parameters lambda of the topics, the largest topic first: prior
        plus expected counts. After a :meth:`partial_fit` they are put together when they are first
        read.

    topic_word_distr_ : ndarray of shape (`n_components_`, n_features)
        Of words only. The topics' expected word probabilities; rows sum to 1.

    topic_weights_ : ndarray of shape (`n_components_`,)
        Expected weights of the topics over the corpus, E[beta]. They sum to less than 1: the rest
        is that of all topics that nobody uses.

    stick_concentration_ : tuple of two ndarrays of shape (`n_components_`,)
        Beta parameters of the sticks' posteriors.

    doc_topic_prior_ : ndarray of shape (`n_components_`,)
        `doc_concentration` times `topic_weights_`.

    topic_word_prior_ : float or ndarray of shape (n_features,)
        Of words only. The prior of the topics' words in use.

    means_, covariances_, precisions_cholesky_, degrees_of_freedom_, mean_precision_ : ndarray
        Of Gaussians only, the largest topic first: as of :class:`SparseMixture`. A model of your
        own has the attributes that it names.

    mean_precision_prior_, mean_prior_, degrees_of_freedom_prior_, \
            covariance_prior_ : float or ndarray
        The priors of Gaussians, as given or by default; those that the model has.

    bound_history_ : ndarray of shape (`n_iter_`,)
        Surrogate evidence lower bound of the training data after each pass and its moves, in nats;
        NaN where it was not computed.

    moves_history_ : structured ndarray of shape (n_tries,)
        For each pass and kind of move that was tried: "n_iter", "move", how many were "tried" and
        "accepted", and "n_components" afterwards. The move "empty" removes topics without words,
        and a birth may add several.

    restart_acceptance_ : ndarray of shape (`n_iter_`,)
        Share of restart proposals accepted in each pass; NaN where none was made.

    n_iter_ : int
        Number of passes made.

    {n_batch_iter_}

    {n_samples_seen_}

    {features}

    See Also
    --------
    SparseLDA : Topics whose number is given.
    SparseMixture : One set of weights for all rows.

    References
    ----------
    .. [1] M. C. Hughes, D. I. Kim, E. B. Sudderth. Reliable and scalable variational inference for
       the hierarchical Dirichlet process. AISTATS 2015.

    Examples
    --------
    >>> from sklearn_sparsepost import SparseHDP
    >>> from sklearn_sparsepost.datasets import make_bars
    >>> X, topics, _ = make_bars(400, doc_topic_prior=0.1, random_state=0)
    >>> hdp = SparseHDP(n_components=30, random_state=0).fit(X)
    >>> hdp.n_components_
    10

    Gaussians, and rows in groups:

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> groups = np.repeat(np.arange(40), 25)
    >>> centres = np.where(rng.random(1000) < 0.1 + 0.8 * (groups % 2), 8, 0)
    >>> rows = rng.normal(size=(1000, 2)) + centres[:, None]
    >>> hdp = SparseHDP(n_components=10, observation="gaussian", random_state=0)
    >>> hdp.fit(rows, groups=groups).n_components_
    2
    >>> hdp.transform(rows, groups).shape, hdp.predict_proba(rows, groups).shape
    ((40, 2), (1000, 2))
    """

    _parameter_constraints: dict = {
        **BaseGroupedTopics._parameter_constraints,
        "doc_concentration": [PRIOR],
        "topic_concentration": [PRIOR],
        "moves": ["boolean", list, tuple, set],
        "max_components": [None, Interval(Integral, 1, MOST_INTEGER, closed="both")],
    }

    def __init__(
        self,
        n_components=100,
        *,
        sparsity_level=8,
        observation="multinomial",
        estimation="map",
        doc_concentration=0.5,
        topic_concentration=10.0,
        topic_word_prior=None,
        covariance_type="full",
        assume_centered=False,
        mean_precision_prior=None,
        mean_prior=None,
        degrees_of_freedom_prior=None,
        covariance_prior=None,
        reg_covar=1e-6,
        learning_method="memoized",
        moves=True,
        max_components=None,
        init="auto",
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
        self.observation = observation
        self.estimation = estimation
        self.doc_concentration = doc_concentration
        self.topic_concentration = topic_concentration
        self.topic_word_prior = topic_word_prior
        self.covariance_type = covariance_type
        self.assume_centered = assume_centered
        self.mean_precision_prior = mean_precision_prior
        self.mean_prior = mean_prior
        self.degrees_of_freedom_prior = degrees_of_freedom_prior
        self.covariance_prior = covariance_prior
        self.reg_covar = reg_covar
        self.learning_method = learning_method
        self.moves = moves
        self.max_components = max_components
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

    # The documents' prior follows from the sticks.
    doc_topic_prior = None

    def _model(self, n_features, dtype, n_documents=None):
        beta = self._resolve_priors(n_features)[1]
        if beta.ndim == 2:
            raise ValueError(
                "topic_word_prior has one row a topic, but topics may come and go: give one value, "
                "or one a word"
            )
        return self._stick_admixture(n_documents, beta, n_features, dtype)

    def _stick_admixture(self, n_documents, beta, n_features, dtype):
        """The model, whose bound is that of posteriors of topics, whatever documents read."""
        judge = Multinomial("bayes", compact_prior(beta), n_features)
        return self._admixture(self._sticks(n_documents), beta, n_features, dtype, judge)

    def _sticks(self, n_documents):
        """Documents whose prior is learned, of as many topics as there are to begin with."""
        if n_documents is None:
            n_documents = STREAM_SIZE if self.total_samples is None else self.total_samples
        return StickDocuments(
            self.doc_concentration,
            self.topic_concentration,
            self.n_components,
            n_documents,
            **self._step_options(),
        )

    def _fitted_model(self, n_features, dtype):
        beta = np.asarray(self.topic_word_prior_)
        model = self._stick_admixture(self.n_samples_seen_, beta, n_features, dtype)
        return model, self._learned_to_go_on()

    def _documents(self, alpha):
        return DirichletDocuments(alpha, **self._step_options())

    def _one_pass(self, model, corpus):
        moves = self._wanted_moves() if self.learning_method != "online" else ()
        one_pass = super()._one_pass(model, corpus, moves)
        return partial(one_pass, evaluate_every=1) if moves else one_pass

    def _has_converged(self, state):
        moving = state.attempts is not None and not state.attempts.are_over
        return not moving and super()._has_converged(state)

    # ------------------------------------------------------------------ going on

    def _check_goes_on(self):
        """Topics come and go, but whoever goes on must want to have begun with as many."""
        self._check_structure()
        if self.n_components != self._begun_with:
            raise ValueError(
                f"n_components={self.n_components}, but what is to go on was fitted with "
                f"n_components={self._begun_with}"
            )

    def _learned_to_go_on(self, state=None):
        if state is not None:
            return state.learned
        one, two = self.stick_concentration_
        order = np.arange(self.n_components_)
        return {"order": order, "rho": one / (one + two), "omega": one + two}

    def _fitted_attributes(self, state, *, whole):
        """What a fit that stands at `state` leaves on the estimator, the largest topic first."""
        learned = state.learned
        order, rho, omega = (learned[name] for name in ("order", "rho", "omega"))
        weights, tried = stick_weights(rho)[:-1], state.attempts
        attributes = {
            **self._attributes_of_topics(state, order),
            "n_components_": len(order),
            "_begun_with": self.n_components,
            "topic_weights_": weights,
            "stick_concentration_": (rho * omega, (1 - rho) * omega),
            "doc_topic_prior_": self.doc_concentration * weights,
            "moves_history_": np.array([] if tried is None else tried.log, dtype=TRIED),
        }
        return {**attributes, "_fit_state": state} if whole else attributes

    def _line(self, state):
        return f"{super()._line(state)}, {state.stats.n_components} topics"
