"""SparseMixture: mixtures with at most L responsibilities a row (Hughes & Sudderth 2016)."""

import warnings
from numbers import Integral

import numpy as np
from scipy.sparse import issparse

from sklearn_sparsepost._base import _fit_context
from sklearn_sparsepost._checks import (
    MOST_INTEGER,
    PRIOR,
    Interval,
    StrOptions,
)
from sklearn_sparsepost._docs import with_shared_texts
from sklearn_sparsepost._learning.state import FitState
from sklearn_sparsepost._learning.topic_moves import TRIED
from sklearn_sparsepost._mixture_estimator import BaseMixture
from sklearn_sparsepost._models.mixture import Mixture
from sklearn_sparsepost._models.priors import GAUSSIAN_PARAMETERS
from sklearn_sparsepost._models.weights import DirichletWeights, ProcessWeights
from sklearn_sparsepost._run.streams import STREAM_INIT
from sklearn_sparsepost._run.threads import single_blas
from sklearn_sparsepost._starts.rows import (
    blurred,
    check_given,
    first_responsibilities,
    given_means,
    new_observation,
    with_given,
)

# Rows of responsibilities or likelihoods at a time, times components.
BLOCK_SIZE = 1 << 20
# Passes after which the small clusters of a start have found their rows, or will not.
PATIENCE = 3


@with_shared_texts
class SparseMixture(BaseMixture):
    """Mixture model whose observations keep at most L components each.

    Variational inference or EM under the constraint that the posterior over components of every
    observation has at most `sparsity_level` non-zero entries (Hughes & Sudderth [1]_). The L
    largest posterior weights are found exactly, for Gaussians with full covariances without
    computing most of the others; statistics then cost L, not K, components an observation.

    Read more in the :ref:`User Guide <sparse_mixture>`.

    Parameters
    ----------
    n_components : int, default=1
        Number of components, K; with a Dirichlet process the number to begin with, and without
        births the most there can be.

    sparsity_level : int or None, default=4
        The most components that an observation may keep, L. None, or K and more, is the dense
        posterior; 1 is hard assignment.

    n_neighbors : int or None, default=None
        None finds the L largest posterior weights among all components, exactly. A number has
        every pass but the first consider only so many neighbours of each component that the
        observation kept in the pass before (truncated variational EM [2]_): those components
        where its data have the largest expected weights, itself included. A pass then costs up
        to ``sparsity_level * n_neighbors`` weights an observation, whatever K, and the bound still
        rises, but to a worse optimum than the exact one may reach. Batch and memoized learning of
        Gaussians with full covariances only.

    observation : {"gaussian", "multinomial", "bernoulli"} or callable, default="gaussian"
        What observations look like inside a component: real vectors, counts (dense or CSR), or
        vectors of 0 and 1. A callable ``observation(estimator, X, sample_weight)`` returns a model
        of your own, an :class:`~sklearn_sparsepost.observations.Observation`.

    covariance_type : {"full", "tied", "diag", "spherical"}, default="full"
        Covariances of the Gaussians; "tied" is one full covariance for all components.

    assume_centered : bool, default=False
        Whether the Gaussians have zero mean, as fits image patches without their means.

    estimation : {"bayes", "map", "ml"}, default="bayes"
        What is kept of a component: its posterior distribution (mean-field variational Bayes), the
        posterior's mode, or the maximum likelihood (EM). Modes are those of log-weights, of
        log-probabilities and, for Gaussians, under the Jeffreys measure: they exist for any prior,
        and equal what `weights_`, `means_` and `covariances_` are in "bayes". In batch and memoized
        learning without moves, the first three passes of "bayes" for Gaussians judge components
        by point estimates, and `tol` ends no fit before the fourth (:ref:`first_passes`).

    weight_concentration_prior_type : {"dirichlet_distribution", "dirichlet_process"}, \
            default="dirichlet_distribution"
        The prior of the weights.

    weight_concentration_prior : float, default=None
        Concentration of each component, or of the Dirichlet process. By default
        ``1 / n_components``.

    mean_precision_prior : float, default=None
        How many observations the prior of a Gaussian's mean is worth. By default 1.

    mean_prior : array-like of shape (n_features,), default=None
        Mean of the prior of the means. By default the mean of `X`.

    degrees_of_freedom_prior : float, default=None
        Degrees of freedom of the prior of the precisions. By default `n_features`.

    covariance_prior : float or array-like, default=None
        Scale of the prior of the covariances: (n_features, n_features) if "full" or
        "tied", (n_features,) if "diag", a number if "spherical". By default the covariance of `X`,
        for "full" under a Dirichlet distribution divided by `n_components`.

    feature_prior : float or array-like of shape (n_features,), default=None
        Pseudo-counts of each feature, of ones and of zeros alike for "bernoulli". By default 1 for
        "bernoulli" and 0.1 for "multinomial".

    reg_covar : float, default=1e-6
        Added to the variances of Gaussians.

    moves : bool or sequence of {"birth", "merge", "delete"}, default=True
        Moves of a Dirichlet process after passes of batch or memoized learning, accepted wherever
        the bound of the whole data rises, so that the number of components is found. Components
        are merged; or one of the smallest is deleted and its observations given to others; or, in
        every other pass, one gives birth: observations of its own are clustered anew. True for
        merges and deletes, which only ever lower the number.

    max_components : int, default=None
        The most components after births, at least `n_components`. None leaves it to the bound.

    {learning_method}

    init_params : {"agglomerative", "k-means++", "kmeans", "random_from_data", "random"}, \
            default="agglomerative"
        The first responsibilities, of at most 50,000 observations:

        - "agglomerative": small clusters, three or four for each component, of which those are
          merged that gain most evidence under Gaussians of the shape `covariance_type` [3]_ [4]_;
          of other dense observations under spherical ones. Steps of k-means follow if evidence
          gains by them. No more than 400 K observations are looked at, but 10,000 in any case. For
          "multinomial" clusters by k-means++ among 16 K observations, blurred: nine tenths of each
          component are what all observations have in common.
        - "k-means++": each observation belongs to the nearest of K observations drawn by
          k-means++, for "multinomial" by Bregman divergence.
        - "kmeans": to one of K clusters that scikit-learn's :class:`~sklearn.cluster.KMeans` finds
          from there on a part of the data.
        - "random_from_data": to the nearest of K observations drawn uniformly.
        - "random": they are random.

        "kmeans" and "random_from_data" are for dense observations.

    weights_init : array-like of shape (n_components,), default=None
        The first weights, which sum to 1.

    means_init : array-like of shape (n_components, n_features), default=None
        The first means, or probabilities of features; each observation begins in the nearest. With
        `weights_init` or `precisions_init` these are the means of the first step, too.

    precisions_init : array-like, default=None
        The first precisions of Gaussians, shaped as `precisions_`. With all three, "ml" makes the
        steps of scikit-learn's `GaussianMixture` from there; otherwise what is not given follows
        from the observations that begin in a component, and priors count as ever.

    n_init : int, default=1
        Number of starts, of which the one of highest bound is kept.

    {n_batches}

    batch_size : int, default=4096
        Rows a batch in online learning.

    {learning_decay}

    learning_offset : float, default=64.0
        Slows the first online steps down.

    {total_samples}

    max_iter : int, default=100
        The most passes over the data, whatever the learning method.

    tol : float, default=1e-3
        Fitting stops when the bound rises by less than this a sample, in nats, from one pass to
        the next; in online learning, where it may fall, when it moves by less. 0 makes all
        `max_iter` passes.

    sparse_output : bool, default=False
        Whether :meth:`predict_proba` returns CSR with L entries a row.

    {warm_start}

    {n_jobs}
        {workers}

    {random_state}

    {verbose}

    Attributes
    ----------
    weights_ : ndarray of shape (n_components,)
        Expected weights of the components.

    weight_concentration_ : ndarray of shape (n_components,) or tuple of two such arrays
        Dirichlet parameters of the weights, or Beta parameters of a process's sticks. Not defined
        for "ml".

    means_ : ndarray of shape (n_components, n_features)
        Means of the components; expected probabilities for "multinomial" and "bernoulli".

    covariances_ : ndarray
        Covariances of the Gaussians, shaped as scikit-learn's by `covariance_type`.

    precisions_cholesky_ : ndarray
        Upper triangular factors P of the precisions, P P^T, or roots of the precisions.

    precisions_ : ndarray
        Precisions of the Gaussians, of the shape of `covariances_`.

    mean_precision_ : ndarray of shape (n_components,)
        How many observations each mean rests on, prior included. Gaussians with a prior only, and
        not with `assume_centered`.

    degrees_of_freedom_ : ndarray of shape (n_components,)
        Degrees of freedom of the precisions' posterior. Gaussians with a prior only.

    weight_concentration_prior_, mean_precision_prior_, mean_prior_, \
            degrees_of_freedom_prior_, covariance_prior_, feature_prior_ : float or ndarray
        The priors, as given or by default; those that the model has.

    concentration_ : ndarray
        Dirichlet or Beta parameters of features in components, for "multinomial" of shape
        (n_components, n_features), for "bernoulli" of (n_components, n_features, 2).

    n_components_ : int
        Number of components in use: those that half an observation or more is expected in, after
        :meth:`partial_fit` of `total_samples`. After moves the other attributes have another
        number of components than `n_components`, too.

    moves_history_ : structured ndarray of shape (n_tries,)
        For each pass and kind of move that was tried: "n_iter", "move", how many were "tried" and
        "accepted", and "n_components" afterwards. A birth may add several components.

    bound_history_ : ndarray of shape (`n_iter_`,)
        Evidence lower bound of the training data after each pass, in nats, exact for L-sparse
        responsibilities with all constants; for "map" and "ml" the (penalised) log-likelihood's.
        It never falls in batch and memoized learning, but it may in the first three passes of
        "bayes" for Gaussians.

    lower_bound_ : float
        The last of these.

    converged_ : bool
        Whether `tol` was met.

    n_iter_ : int
        Number of passes made, of the best start.

    {n_batch_iter_}

    {n_samples_seen_}

    {features}

    See Also
    --------
    sklearn.mixture.GaussianMixture : Dense EM.
    sklearn.mixture.BayesianGaussianMixture : Dense variational inference.
    SparseLDA : Mixed membership, for documents.

    Notes
    -----
    The bound never falls in batch and memoized learning, at any `sparsity_level`, but for
    `reg_covar`: as in scikit-learn it is added after the update, so that the bound may fall a
    little once variances come near it. In float32 it may fall by rounding.

    Batch and memoized learning keep L numbers an observation; of Gaussians with "full" covariances,
    where global steps are of many observations, from the sixth pass on also a byte an observation
    and component, 256 MiB at most and twice that during a pass, by which later passes are faster
    and find the same.

    Priors may be from 1e-30 to 1e30, counts up to 1e15. Real data, `mean_prior` and `means_init`
    may hold values up to 1e15 in float32 and 1e100 in float64, and `covariance_prior` variances
    between the inverse of their squares and the squares. Beyond these limits, where results may not
    be finite, is an error.

    With "full" covariances the updates are scikit-learn's. With "diag" and "spherical" so are
    those of the estimates, but the expected log-determinant is that of the Gamma posteriors, where
    scikit-learn takes a Wishart's and so does not ascend a bound.

    References
    ----------
    .. [1] M. C. Hughes, E. B. Sudderth. Fast learning of clusters and topics via sparse
       posteriors. arXiv:1609.07521, 2016.
    .. [2] F. Hirschberger, D. Forster, J. Lücke. A variational EM acceleration for efficient
       clustering at very large scales. IEEE TPAMI 44(12), 2022.
    .. [3] J. D. Banfield, A. E. Raftery. Model-based Gaussian and non-Gaussian clustering.
       Biometrics 49, 1993.
    .. [4] C. Fraley. Algorithms for model-based Gaussian hierarchical clustering. SIAM Journal on
       Scientific Computing 20, 1998.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsepost import SparseMixture
    >>> X = np.concatenate([np.random.RandomState(0).randn(50, 2) + shift for shift in (0, 10)])
    >>> mixture = SparseMixture(2, sparsity_level=1, random_state=0).fit(X)
    >>> mixture.predict_proba([[0, 0], [10, 10]]).shape
    (2, 2)
    """

    _parameter_constraints: dict = {
        **BaseMixture._parameter_constraints,
        **GAUSSIAN_PARAMETERS,
        "n_neighbors": [None, Interval(Integral, 1, None, closed="left")],
        "observation": [StrOptions({"gaussian", "multinomial", "bernoulli"}), callable],
        "estimation": [StrOptions({"bayes", "map", "ml"})],
        "weight_concentration_prior_type": [
            StrOptions({"dirichlet_distribution", "dirichlet_process"})
        ],
        "weight_concentration_prior": [None, PRIOR],
        "feature_prior": [None, PRIOR, "array-like"],
        "moves": ["boolean", list, tuple, set],
        "max_components": [None, Interval(Integral, 1, MOST_INTEGER, closed="both")],
        "init_params": [
            StrOptions({"agglomerative", "k-means++", "kmeans", "random_from_data", "random"})
        ],
        "weights_init": [None, "array-like"],
        "means_init": [None, "array-like"],
        "precisions_init": [None, "array-like"],
        "n_init": [Interval(Integral, 1, MOST_INTEGER, closed="both")],
    }

    def __init__(
        self,
        n_components=1,
        *,
        sparsity_level=4,
        n_neighbors=None,
        observation="gaussian",
        covariance_type="full",
        assume_centered=False,
        estimation="bayes",
        weight_concentration_prior_type="dirichlet_distribution",
        weight_concentration_prior=None,
        mean_precision_prior=None,
        mean_prior=None,
        degrees_of_freedom_prior=None,
        covariance_prior=None,
        feature_prior=None,
        reg_covar=1e-6,
        moves=True,
        max_components=None,
        learning_method="memoized",
        init_params="agglomerative",
        weights_init=None,
        means_init=None,
        precisions_init=None,
        n_init=1,
        n_batches="auto",
        batch_size=4096,
        learning_decay=0.7,
        learning_offset=64.0,
        total_samples=None,
        max_iter=100,
        tol=1e-3,
        sparse_output=False,
        warm_start=False,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.n_components = n_components
        self.sparsity_level = sparsity_level
        self.n_neighbors = n_neighbors
        self.observation = observation
        self.covariance_type = covariance_type
        self.assume_centered = assume_centered
        self.estimation = estimation
        self.weight_concentration_prior_type = weight_concentration_prior_type
        self.weight_concentration_prior = weight_concentration_prior
        self.mean_precision_prior = mean_precision_prior
        self.mean_prior = mean_prior
        self.degrees_of_freedom_prior = degrees_of_freedom_prior
        self.covariance_prior = covariance_prior
        self.feature_prior = feature_prior
        self.reg_covar = reg_covar
        self.moves = moves
        self.max_components = max_components
        self.learning_method = learning_method
        self.init_params = init_params
        self.weights_init = weights_init
        self.means_init = means_init
        self.precisions_init = precisions_init
        self.n_init = n_init
        self.n_batches = n_batches
        self.batch_size = batch_size
        self.learning_decay = learning_decay
        self.learning_offset = learning_offset
        self.total_samples = total_samples
        self.max_iter = max_iter
        self.tol = tol
        self.sparse_output = sparse_output
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------ data and models

    def _new_weights(self):
        given = self.weight_concentration_prior
        prior = 1.0 / self.n_components if given is None else float(given)
        process = self.weight_concentration_prior_type == "dirichlet_process"
        # Maximum likelihood knows of no prior: the shares of the counts, either way.
        kind = ProcessWeights if process and self.estimation != "ml" else DirichletWeights
        return kind(self.estimation, prior)

    def _new_parts(self, corpus):
        """The observation model and that of the weights."""
        return new_observation(self, corpus), self._new_weights()

    def _model(self, dtype, n_components, corpus=None, parts=None, patience=0):
        """A model of given parts, by default the fitted ones, for passes over a corpus, if any."""
        observation, weights = parts or (self._observation, self._weights)
        return Mixture(
            observation,
            weights,
            n_components,
            sparsity_level=self.sparsity_level,
            dtype=dtype,
            n_neighbors=self.n_neighbors,
            rows_per_step=None if corpus is None else self._rows_per_step(corpus),
            keeps_local=self.learning_method != "online",
            n_rows=np.inf if corpus is None else corpus.n_samples,
            patience=patience,
        )

    @property
    def _moves(self):
        """The moves that are made."""
        moves = self._wanted_moves()
        process = self.weight_concentration_prior_type == "dirichlet_process"
        # The likelihood alone never gains from fewer components.
        scored = self.estimation != "ml" and self.learning_method != "online"
        return moves if process and scored else ()

    @property
    def _patience(self):
        """In how many passes at first components are judged by point estimates."""
        wide = self.observation == "gaussian" and self.estimation == "bayes"
        # Moves go by the bound from the first pass on, and a stream may have no second.
        return PATIENCE if wide and self.learning_method != "online" and not self._moves else 0

    def _has_converged(self, state):
        return state.n_passes > self._patience and super()._has_converged(state)

    # ------------------------------------------------------------------ fitting

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, sample_weight=None):
        """Learn the components.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask array or dataframe} of shape (n_samples, n_features)
            The data; sparse for "multinomial" only. May be memory-mapped, and is read a chunk at a
            time. Blocks of a Dask array are held by its workers and worked on there
            (:ref:`on_a_cluster`).
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            How often each row counts.

        Returns
        -------
        self : SparseMixture
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter is out of range, or the data are not what `observation` says.
        """
        with self._whole_passes() as reached:
            goes_on = self.warm_start and hasattr(self, "weights_")
            self._check_neighbors()
            moves = self._moves
            X, dtype = self._validate_rows(X, reset=not goes_on)
            corpus = self._corpus(X, dtype, sample_weight)
            self._check_samples(X)
            parts = self._parts_to_go_on(corpus) if goes_on else self._new_parts(corpus)
            n_components = len(self.weights_) if goes_on else self.n_components
            model = self._model(dtype, n_components, corpus, parts, self._patience)
            n_starts = 1 if goes_on else self.n_init
            states = self._states(model, corpus, goes_on, n_starts)
            one_pass = self._one_pass(model, corpus, moves)
            self._run_passes(corpus.given, states, one_pass, reached, n_starts)
        return self

    def _check_neighbors(self):
        full = self.observation == "gaussian" and self.covariance_type == "full"
        served = full or callable(self.observation)
        if self.n_neighbors is not None and not (served and self.learning_method != "online"):
            raise ValueError(
                f"n_neighbors={self.n_neighbors} is for batch and memoized learning of Gaussians "
                "with covariance_type='full' only"
            )

    def _check_samples(self, X):
        if self.n_components > X.shape[0]:
            warnings.warn(
                f"n_components={self.n_components} is more than the {X.shape[0]} samples: "
                "some components will stay empty",
                UserWarning,
                stacklevel=4,
            )

    def _structure(self):
        """The parameters that a fit cannot change when it goes on."""
        names = ("observation", "covariance_type", "assume_centered", "estimation")
        names += ("weight_concentration_prior_type",)
        return {name: getattr(self, name) for name in names}

    def _parts_to_go_on(self, corpus):
        """The fitted model's parts, if nothing else is asked for by now."""
        for name, value in self._structure().items():
            if value != self._fitted_as[name] and not self._same_model(name, corpus):
                raise ValueError(
                    f"{name}={value!r}, but what is to go on was fitted with "
                    f"{name}={self._fitted_as[name]!r}, which cannot change"
                )
        found = len(self.weights_)
        fewer, more = found < self.n_components, found > self.n_components
        if (more and "birth" not in self._moves) or (fewer and not self._moves):
            raise ValueError(
                f"n_components={self.n_components}, but there are {found} fitted components to go "
                "on with"
            )
        return self._observation, self._weights

    def _same_model(self, name, corpus):
        """Whether two callables stand for one model, as a function that is defined anew does."""
        if name != "observation" or not callable(self.observation):
            return False
        fitted = callable(self._fitted_as[name])
        return fitted and type(new_observation(self, corpus)) is type(self._observation)

    def _rows_per_step(self, corpus):
        """How many rows pass between two global steps."""
        if self.learning_method == "online":
            return min(self.batch_size, corpus.n_samples)
        memoized = self.learning_method == "memoized"
        return corpus.n_samples / (self._n_batches_of(corpus) if memoized else 1)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None, sample_weight=None):
        """Update the components with one batch of a stream: a step of stochastic inference.

        The first call settles priors and starts the components from its own rows. `total_samples`
        says how many rows the stream is thought to have. After a :meth:`fit` the steps go on
        from where one weighs a batch by its share of all rows seen, so that what was learned stays.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask array or dataframe} of shape (n_samples, n_features)
            Rows of the batch.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            How often each row counts.

        Returns
        -------
        self : SparseMixture
            The estimator, fitted to what it has seen.
        """
        with self._whole_passes():
            begins = not hasattr(self, "weights_")
            X, dtype = self._validate_rows(X, reset=begins)
            corpus = self._corpus(X, dtype, sample_weight)
            if begins:
                self._check_samples(X)
                parts = self._new_parts(corpus)
            else:
                parts = self._parts_to_go_on(corpus)
                wanted = self._fitted_as["n_components"]  # some may have been merged since
                if self.n_components != wanted:
                    raise ValueError(
                        f"n_components={self.n_components}, but what is to go on was fitted with "
                        f"n_components={wanted}"
                    )
            n_components = self.n_components if begins else len(self.weights_)
            model = self._model(dtype, n_components, parts=parts).for_stream(X.shape[0])
            if begins:
                state = self._begin(model, corpus, self._new_seed())
            elif corpus.is_empty:
                return self
            else:
                state = self._state_to_stream(model, corpus)
            self._stream(model, corpus, state, begins)
        return self

    # ------------------------------------------------------------------ states

    def _new_state(self, model, corpus, seed):
        """The state before the first pass."""
        state = FitState(model.empty_stats(), seed, dtype=corpus.dtype)
        gaussian = self.observation == "gaussian"
        shape = model.n_components, corpus.X.shape[1]
        given = {name: getattr(self, name) for name in ("weights_init", "precisions_init")}
        weights, precisions = check_given(
            given, shape, corpus.dtype, self.covariance_type if gaussian else None
        )
        rows, index, resp, weight, share = first_responsibilities(
            corpus,
            model.n_components,
            self.init_params,
            self.means_init,
            self.covariance_type if gaussian else "spherical",
            state.rng(STREAM_INIT),
            assume_centered=gaussian and self.assume_centered,
        )
        # Tables that are stored sparsely become dense, and a part stands for all.
        state.stats.add(model.stats_of(rows, index, resp, weight), 1 / share)
        if issparse(rows) and self.init_params == "agglomerative" and self.means_init is None:
            state.stats = blurred(state.stats)
        if weights is not None or precisions is not None:
            means = self.means_init
            if gaussian and means is not None:
                means = given_means(means, shape, corpus.dtype)
            state.stats = with_given(state.stats, model.observation, weights, means, precisions)
        state.parts = model.observation, model.weights
        state.amount = max(state.stats["total_weight"], 1)
        return state

    def _state_of_fitted(self, model, corpus):
        """A state whose components are the fitted ones: what one local step under them finds."""
        stats = model.empty_stats()
        globals_ = model.globals_under(*self._fitted_parts())
        for part, _ in corpus.map(model.local_step, globals_):
            stats.add(part)
        state = FitState(stats, self._new_seed(), dtype=corpus.dtype)
        state.parts = model.observation, model.weights
        state.amount = max(stats["total_weight"], 1)
        return self._count_passes(state)

    def _fitted_attributes(self, state, *, whole):
        """What a fit that stands at `state` leaves on the estimator."""
        observation, weights = state.parts
        with single_blas():
            estimates = observation.estimate(state.stats)
        concentration = weights.estimate(state.stats.value("count"))
        described = observation.attributes(estimates)
        found = {f"{name}_": value.astype(state.dtype) for name, value in described.items()}
        found["_observation"], found["_weights"] = state.parts
        found["_estimate_names"] = tuple(described)
        found["weights_"] = weights.weights(concentration).astype(state.dtype)
        found.update({f"{name}_": value for name, value in observation.priors().items()})
        found["_fitted_as"] = {**self._structure(), "n_components": self.n_components}
        if weights.estimation != "ml":
            found["weight_concentration_prior_"] = weights.prior
            split = concentration.ndim == 2
            found["weight_concentration_"] = (
                tuple(np.ascontiguousarray(concentration.T)) if split else concentration
            )
        # In use: half an observation of average weight is the least; a ratio, so without factor.
        least = 0.5 * state.stats["total_weight"] / max(state.stats["n_samples"], 1)
        found["n_components_"] = int((state.stats.value("count") >= least).sum())
        found["bound_history_"] = np.array(state.history)
        found["lower_bound_"] = float(state.history[-1]) if state.history else -np.inf
        found["converged_"] = self._has_converged(state) if state.history else False
        found["n_iter_"] = state.n_passes
        tried = [] if state.attempts is None else state.attempts.log
        found["moves_history_"] = np.array(tried, dtype=TRIED)
        found["n_batch_iter_"] = state.n_updates
        found["n_samples_seen_"] = state.n_seen
        found["_fit_state"] = state if whole else state.slim()
        return found
