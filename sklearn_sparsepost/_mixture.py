"""SparseMixture: mixtures whose responsibilities have at most L non-zeros (paper 000)."""

import warnings
from copy import copy
from functools import partial
from numbers import Integral, Real

import numpy as np
import scipy.sparse as sp
from sklearn.base import DensityMixin
from sklearn.utils import ClassifierTags, check_random_state
from sklearn.utils.validation import _check_sample_weight, validate_data

from sklearn_sparsepost._base import BaseSparsePosterior, _fit_context, check_is_fitted
from sklearn_sparsepost._checks import (
    MOST_COUNT,
    MOST_INTEGER,
    MOST_PRIOR,
    MOST_VALUE,
    PRIOR,
    Interval,
    StrOptions,
    check_count,
    fingerprint,
    number_array,
    positive_array,
)
from sklearn_sparsepost._learning import loops as inference
from sklearn_sparsepost._learning.moves import (
    choose_pairs,
    choose_targets,
    delete_component,
    forget_moves,
    merge_components,
)
from sklearn_sparsepost._models.discrete import Bernoulli, MultinomialCounts
from sklearn_sparsepost._models.gaussian import AxisGaussian, FullGaussian
from sklearn_sparsepost._models.mixture import (
    DirichletWeights,
    MixtureModel,
    ProcessWeights,
    infer_rows,
    row_likelihoods,
)
from sklearn_sparsepost._run.chunks import whole_plan
from sklearn_sparsepost._starts.rows import data_moments, first_responsibilities
from sklearn_sparsepost.observations import Observation

# Rows of responsibilities or likelihoods at a time, times components.
BLOCK_SIZE = 1 << 20
# Deviation, relative to the mean, below which a feature counts as constant.
CONSTANT, EPSILON = 1e-12, np.finfo(float).eps


class SparseMixture(DensityMixin, BaseSparsePosterior):
    """Mixture model whose observations keep at most L components each.

    Variational inference or EM under the constraint that the posterior over components of every
    observation has at most `sparsity_level` non-zero entries (Hughes & Sudderth [1]_). The L
    largest posterior weights are found exactly, for Gaussians with full covariances without
    computing most of the others; statistics then cost L, not K, components an observation.

    Read more in the :ref:`User Guide <sparse_mixture>`.

    Parameters
    ----------
    n_components : int, default=1
        Number of components, K; with a Dirichlet process the most there can be.

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

    covariance_type : {"full", "diag", "spherical"}, default="full"
        Covariances of the Gaussians.

    assume_centered : bool, default=False
        Whether the Gaussians have zero mean, as fits image patches without their means.

    estimation : {"bayes", "map", "ml"}, default="bayes"
        What is kept of a component: its posterior distribution (mean-field variational Bayes), the
        posterior's mode, or the maximum likelihood (EM). Modes are those of log-weights, of
        log-probabilities and, for Gaussians, under the Jeffreys measure: they exist for any prior,
        and equal what `weights_`, `means_` and `covariances_` are in "bayes".

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
        Scale of the prior of the covariances: (n_features, n_features) if "full", (n_features,)
        if "diag", a number if "spherical". By default the covariance of `X`.

    feature_prior : float or array-like of shape (n_features,), default=None
        Pseudo-counts of each feature, of ones and of zeros alike for "bernoulli". By default 1 for
        "bernoulli" and 0.1 for "multinomial".

    reg_covar : float, default=1e-6
        Added to the variances of Gaussians.

    moves : bool, default=True
        Whether components of a Dirichlet process are merged after a pass, or one of the smallest is
        deleted and its observations given to others, wherever that raises the bound of the whole
        data; batch and memoized learning only. So the number of components is found.

    learning_method : {"memoized", "online", "batch"}, default="memoized"
        How the components move.

        - "memoized": a global step after every one of `n_batches` batches, whose old statistics
          are replaced exactly by the new ones: no step size, and the bound of the whole data.
        - "online": stochastic variational inference on random batches of `batch_size` rows, with
          steps of ``(learning_offset + t) ** -learning_decay``.
        - "batch": coordinate ascent, one global step a pass.

    init_params : {"k-means++", "kmeans", "random_from_data", "random"}, default="k-means++"
        The first responsibilities: each observation belongs to the nearest of K observations drawn
        by k-means++ (for "multinomial" by Bregman divergence) or uniformly, or of K clusters that
        scikit-learn's :class:`~sklearn.cluster.KMeans` finds from there on a part of the data; or
        they are random. "kmeans" and "random_from_data" are for dense observations.

    means_init : array-like of shape (n_components, n_features), default=None
        The first means, or probabilities of features; each observation begins in the nearest.

    n_init : int, default=1
        Number of starts, of which the one of highest bound is kept.

    n_batches : int, default=10
        Batches a pass of memoized learning, at most one a row. Each keeps its statistics.

    batch_size : int, default=4096
        Rows a batch in online learning.

    learning_decay : float, default=0.7
        Decay of the online step size, in (0.5, 1] for convergence.

    learning_offset : float, default=64.0
        Slows the first online steps down.

    total_samples : float, default=None
        Number of rows that a stream is thought to have, for :meth:`partial_fit` only. By default a
        million; after a :meth:`fit`, as many as have been seen by then, its own included.

    max_iter : int, default=100
        The most passes over the data, whatever the learning method.

    tol : float, default=1e-3
        Fitting stops when the bound rises by less than this a sample, in nats, from one pass to
        the next; in online learning, where it may fall, when it moves by less. 0 makes all
        `max_iter` passes.

    sparse_output : bool, default=False
        Whether :meth:`predict_proba` returns CSR with L entries a row.

    warm_start : bool, default=False
        Whether :meth:`fit` goes on from the present fit. On the same data it goes on exactly: 5 and
        5 passes give the same bytes as 10.

    n_jobs : int, default=None
        Cores to use; 1 is one thread. None is the number of workers that `joblib.parallel_config`
        gives, if it gives more than one, and else as many threads as OMP_NUM_THREADS or the cores
        of this machine allow. They work on
        chunks of rows, as threads unless a backend (loky, dask, ray) is named there. BLAS has one
        thread in each. Results do not depend on it.

    random_state : int, RandomState instance or None, default=None
        Seeds the start, the batches and their order.

    verbose : int, default=0
        Whether to print a line a pass.

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
        :meth:`partial_fit` of `total_samples`. After merges the other attributes have fewer
        components than `n_components`, too.

    bound_history_ : ndarray of shape (`n_iter_`,)
        Evidence lower bound of the training data after each pass, in nats, exact for L-sparse
        responsibilities with all constants; for "map" and "ml" the (penalised) log-likelihood's.

    lower_bound_ : float
        The last of these.

    converged_ : bool
        Whether `tol` was met.

    n_iter_ : int
        Number of passes made, of the best start.

    n_batch_iter_ : int
        Number of steps made in online learning and by :meth:`partial_fit`.

    n_samples_seen_ : int
        Number of rows of the last :meth:`fit`, and of :meth:`partial_fit` since.

    n_features_in_ : int
        Number of features seen during :term:`fit`.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during :term:`fit`. Defined only when `X` has feature names that
        are all strings.

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

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsepost import SparseMixture
    >>> X = np.concatenate([np.random.RandomState(0).randn(50, 2) + shift for shift in (0, 10)])
    >>> mixture = SparseMixture(2, sparsity_level=1, random_state=0).fit(X)
    >>> mixture.predict_proba([[0, 0], [10, 10]]).shape
    (2, 2)
    """

    _unit = ("total_weight", "sample")

    _parameter_constraints: dict = {
        "n_components": [Interval(Integral, 1, MOST_INTEGER, closed="both")],
        "sparsity_level": [None, Interval(Integral, 1, None, closed="left")],
        "n_neighbors": [None, Interval(Integral, 1, None, closed="left")],
        "observation": [StrOptions({"gaussian", "multinomial", "bernoulli"}), callable],
        "covariance_type": [StrOptions({"full", "diag", "spherical"})],
        "assume_centered": ["boolean"],
        "estimation": [StrOptions({"bayes", "map", "ml"})],
        "weight_concentration_prior_type": [
            StrOptions({"dirichlet_distribution", "dirichlet_process"})
        ],
        "weight_concentration_prior": [None, PRIOR],
        "mean_precision_prior": [None, PRIOR],
        "mean_prior": [None, "array-like"],
        "degrees_of_freedom_prior": [None, PRIOR],
        "covariance_prior": [None, Interval(Real, 0, None, closed="neither"), "array-like"],
        "feature_prior": [None, PRIOR, "array-like"],
        "reg_covar": [Interval(Real, 0, MOST_PRIOR, closed="both")],
        "moves": ["boolean"],
        "learning_method": [StrOptions({"batch", "online", "memoized"})],
        "init_params": [StrOptions({"k-means++", "kmeans", "random_from_data", "random"})],
        "means_init": [None, "array-like"],
        "n_init": [Interval(Integral, 1, MOST_INTEGER, closed="both")],
        "n_batches": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "learning_decay": [Interval(Real, 0.5, 1, closed="right")],
        "learning_offset": [Interval(Real, 0, None, closed="left")],
        "total_samples": [None, Interval(Real, 0, MOST_COUNT, closed="right")],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "sparse_output": ["boolean"],
        "warm_start": ["boolean"],
        "n_jobs": [None, Interval(Integral, None, None, closed="neither")],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
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
        learning_method="memoized",
        init_params="k-means++",
        means_init=None,
        n_init=1,
        n_batches=10,
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
        self.learning_method = learning_method
        self.init_params = init_params
        self.means_init = means_init
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

    def _validate_rows(self, X, *, reset, dtype=None):
        """The data, and the type to compute in: integers in `dtype`, or as large ones need."""
        # What was fitted says what its rows look like, whatever the parameter is by now.
        observation = self.observation if reset else self._fitted_as["observation"]
        if observation == "multinomial":
            return self._validate_counts(X, reset=reset, dtype=dtype)
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=reset)
        if observation == "gaussian":
            self._check_values(X)
        if observation == "bernoulli":
            other = (X != 0) & (X != 1)
            if other.any():
                row = int(np.flatnonzero(other.any(axis=1))[0])
                raise ValueError(f"X must hold 0 and 1 only, row {row} holds something else")
        return X, X.dtype

    def _check_values(self, X):
        """Refuse what has no finite square; without a copy if there is nothing to refuse."""
        most = MOST_VALUE[X.dtype]
        if X.max() > most or X.min() < -most:
            row = int(np.flatnonzero((np.abs(X) > most).any(axis=1))[0])
            raise ValueError(
                f"row {row} of X holds a value beyond {most:g} in size, too large for the squares "
                f"of {X.dtype}: scale the data"
            )

    def _corpus(self, X, dtype, sample_weight=None):
        if sample_weight is not None:
            sample_weight = _check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True
            )
        return inference.Corpus(X, dtype, self.n_jobs, sample_weight, threaded=False)

    def _new_observation(self, corpus):
        """The observation model, its priors from the data where they are not given."""
        if callable(self.observation):
            found = self.observation(self, corpus.X, corpus.weight)
            if not isinstance(found, Observation):
                raise ValueError(
                    f"observation={self.observation!r} must return an instance of "
                    f"sklearn_sparsepost.observations.Observation, got {found!r}"
                )
            return found
        D = corpus.X.shape[1]
        if self.observation == "gaussian":
            return self._new_gaussian(corpus)
        default = 1.0 if self.observation == "bernoulli" else 0.1
        prior = default if self.feature_prior is None else self.feature_prior
        prior = positive_array(prior, "feature_prior", {"one value": (), "one a feature": (D,)})
        prior = np.broadcast_to(prior, (D,)).copy()
        if self.observation == "bernoulli":
            return Bernoulli(self.estimation, np.stack([prior, prior], axis=1))
        return MultinomialCounts(self.estimation, prior)

    def _new_gaussian(self, corpus):
        D = corpus.X.shape[1]
        mean, covariance = data_moments(corpus, self.assume_centered, self.covariance_type)
        variances = np.diag(covariance) if self.covariance_type == "full" else covariance
        rounding = (CONSTANT * mean) ** 2
        if not (np.broadcast_to(variances, (D,)) > rounding).all() and corpus.n_samples > 1:
            warnings.warn(
                f"some features are constant: only reg_covar={self.reg_covar} keeps their "
                "variances from 0",
                UserWarning,
                stacklevel=6,  # past the validation that wraps `fit`
            )
        nu = D if self.degrees_of_freedom_prior is None else self.degrees_of_freedom_prior
        if nu <= D - 1:
            raise ValueError(
                f"degrees_of_freedom_prior must be greater than {D - 1}, one less than the number "
                f"of features, got {nu}"
            )
        mean_prior = mean
        if self.mean_prior is not None:
            most = MOST_VALUE[corpus.dtype]
            shapes = {"one a feature": (D,)}
            mean_prior = number_array(self.mean_prior, "mean_prior", shapes, -most, most)
        given = self.mean_precision_prior
        options = {
            "assume_centered": self.assume_centered,
            "mean_precision_prior": 1.0 if given is None else float(given),
            "mean_prior": mean_prior,
            "degrees_of_freedom_prior": float(nu),
            "covariance_prior": self._covariance_prior(covariance, corpus.dtype),
            "reg_covar": self.reg_covar,
            "origin": mean,
        }
        if self.covariance_type == "full":
            return FullGaussian(self.estimation, **options)
        return AxisGaussian(
            self.estimation, spherical=self.covariance_type == "spherical", **options
        )

    def _covariance_prior(self, covariance, dtype):
        """The prior's scale: what was given, checked, or the data's covariance, made invertible."""
        full = self.covariance_type == "full"
        if self.covariance_prior is None:
            variances = np.linalg.eigvalsh(covariance) if full else np.atleast_1d(covariance)
            singular = variances.min() <= len(variances) * EPSILON * variances.max()
            if variances.min() >= self.reg_covar and not singular:
                return covariance
            if not self.reg_covar and self.estimation != "ml":
                raise ValueError(
                    "the data's covariance is not positive definite, so that it cannot be the "
                    "prior: raise reg_covar or give covariance_prior"
                )
            # Mean-free patches, for one, have no variance in one direction.
            return covariance + (
                self.reg_covar * np.eye(len(covariance)) if full else self.reg_covar
            )
        most = MOST_VALUE[dtype] ** 2
        shapes = {f"covariance_type={self.covariance_type!r}": covariance.shape}
        prior = number_array(self.covariance_prior, "covariance_prior", shapes, -most, most)
        definite = not full or np.allclose(prior, prior.T)
        least = (np.linalg.eigvalsh(prior) if full else prior).min()
        if not definite or least <= 0:
            raise ValueError("covariance_prior must be symmetric and positive definite")
        if least < 1 / most:
            raise ValueError(
                f"covariance_prior has a variance of {least:.3g}, but {1 / most:g} is the least "
                f"that {dtype} computes with"
            )
        return prior

    def _new_allocation(self):
        given = self.weight_concentration_prior
        prior = 1.0 / self.n_components if given is None else float(given)
        process = self.weight_concentration_prior_type == "dirichlet_process"
        # Maximum likelihood knows of no prior: the shares of the counts, either way.
        kind = ProcessWeights if process and self.estimation != "ml" else DirichletWeights
        return kind(self.estimation, prior)

    def _new_parts(self, corpus):
        """The observation model and the allocation."""
        return self._new_observation(corpus), self._new_allocation()

    def _model(self, dtype, n_components, rows_per_step=np.inf, n_slots=0, parts=None):
        """A model of given parts, by default the fitted ones."""
        observation, allocation = parts or (self._observation, self._allocation)
        observation = copy(observation)  # others may be using it
        observation.rows_per_step = rows_per_step
        observation.n_jobs = self.n_jobs
        return MixtureModel(
            observation, allocation, n_components, self.sparsity_level, dtype, n_slots
        )

    @property
    def _moves(self):
        process = self.weight_concentration_prior_type == "dirichlet_process"
        # The likelihood alone never gains from fewer components.
        scored = self.estimation != "ml" and self.learning_method != "online"
        return self.moves and process and scored

    # ------------------------------------------------------------------ fitting

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, sample_weight=None):
        """Learn the components.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The data; sparse for "multinomial" only. May be memory-mapped, and is read a chunk at a
            time.
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
            X, dtype = self._validate_rows(X, reset=not goes_on)
            corpus = self._corpus(X, dtype, sample_weight)
            self._check_samples(X)
            parts = self._parts_to_go_on(corpus) if goes_on else self._new_parts(corpus)
            n_components = len(self.weights_) if goes_on else self.n_components
            n_slots = self.n_components if self._moves else 0
            rows_per_step = self._rows_per_step(X.shape[0])
            model = self._model(dtype, n_components, rows_per_step, n_slots, parts)
            n_starts = 1 if goes_on else self.n_init
            seeds = iter(self._new_seeds(n_starts))

            def begin():
                if goes_on:
                    state = self._state_to_go_on(model, corpus)
                else:
                    model.resize(self.n_components)
                    state = self._new_state(model, corpus, next(seeds))
                state.parts = parts
                state.n_fitted = state.n_seen = corpus.n_samples
                return state

            self._run_laps(X, begin, self._lap(model, corpus), reached, n_starts)
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
        """The fitted observation model and allocation, if nothing else is asked for by now."""
        for name, value in self._structure().items():
            if value != self._fitted_as[name] and not self._same_model(name, corpus):
                raise ValueError(
                    f"{name}={value!r}, but what is to go on was fitted with "
                    f"{name}={self._fitted_as[name]!r}, which cannot change"
                )
        found = len(self.weights_)
        if found > self.n_components or (found < self.n_components and not self._moves):
            raise ValueError(
                f"n_components={self.n_components}, but there are {found} fitted components to go "
                "on with"
            )
        return self._observation, self._allocation

    def _same_model(self, name, corpus):
        """Whether two callables stand for one model, as a function that is defined anew does."""
        if name != "observation" or not callable(self.observation):
            return False
        fitted = callable(self._fitted_as[name])
        return fitted and type(self._new_observation(corpus)) is type(self._observation)

    def _rows_per_step(self, n_samples):
        """How many rows pass between two global steps."""
        if self.learning_method == "online":
            return min(self.batch_size, n_samples)
        return n_samples / (self.n_batches if self.learning_method == "memoized" else 1)

    def _lap(self, model, corpus):
        """A pass of the learning method and what follows it, as a function of (state, bound)."""
        next_pass = self._pass(model, corpus)

        def one_pass(state, bound):
            # Neighbours of what? The first pass looks at all components.
            model.observation.n_neighbors = self.n_neighbors if state.n_laps else None
            return next_pass(state, bound)

        if not self._moves:
            return one_pass

        def lap(state, bound):
            rng = state.rng(inference.STREAM_MOVES, state.n_laps)
            model.pairs = choose_pairs(model, corpus, state, rng)
            model.targets = choose_targets(state, self.n_batches if state.memo else 1)
            before = model.n_components
            try:
                state, bound = one_pass(state, bound)
                bound = merge_components(model, state, bound)
                if model.n_components == before:  # what was tracked is still true
                    bound = delete_component(model, state, bound)
                if model.n_components != before:
                    state.sum_anew()
            finally:
                forget_moves(model, state)
            return state, bound

        return lap

    def _pass(self, model, corpus):
        keep_local = model.observation.keeps_candidates or self._moves
        if self.learning_method == "batch":
            return partial(_swapped, inference.batch_lap, model, corpus, keep_local=keep_local)
        if self.learning_method == "online":
            return partial(
                _swapped,
                inference.online_lap,
                model,
                corpus,
                n_batches=-(-corpus.n_samples // self.batch_size),
                decay=self.learning_decay,
                offset=self.learning_offset,
            )
        return partial(
            _swapped,
            inference.memoized_lap,
            model,
            corpus,
            n_batches=min(self.n_batches, corpus.n_samples),
            keep_local=keep_local,
        )

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None, sample_weight=None):
        """Update the components with one batch of a stream: a step of stochastic inference.

        The first call settles priors and starts the components from its own rows. `total_samples`
        says how many rows the stream is thought to have. After a :meth:`fit` the steps go on
        from where one weighs a batch by its share of all rows seen, so that what was learned stays.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
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
            first = not hasattr(self, "weights_")
            X, dtype = self._validate_rows(X, reset=first)
            corpus = self._corpus(X, dtype, sample_weight)
            if first:
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
            n_components = self.n_components if first else len(self.weights_)
            model = self._model(dtype, n_components, X.shape[0], parts=parts)
            if first:
                state = self._new_state(model, corpus, self._new_seed())
                state.parts = parts
            elif corpus.is_empty:
                return self
            else:
                state = self._kept_state(corpus).own()
                state.fingerprint = None  # of no one X
            inference.stream_update(
                model,
                corpus,
                state,
                decay=self.learning_decay,
                offset=self.learning_offset,
                total_samples=self.total_samples,
                begins=first,
            )
            self._store(state, whole=False)
        return self

    # ------------------------------------------------------------------ states

    def _new_state(self, model, corpus, seed):
        """The state before the first pass."""
        state = inference.FitState(None, seed)
        rows, index, resp, weight, share = first_responsibilities(
            corpus,
            self.n_components,
            self.init_params,
            self.means_init,
            state.rng(inference.STREAM_INIT),
        )
        stats = model.summarise(model.observation.prepare(rows), index, resp, weight)
        # Tables that are stored sparsely become dense, and a part stands for all.
        state.stats = model.empty_stats().add(stats, 1 / share)
        state.dtype = corpus.dtype
        state.report = {"total_weight": state.stats["total_weight"]}
        state.fingerprint = fingerprint(corpus.X, corpus.weight)
        return state

    def _state_from_components(self, corpus):
        """A state whose components are the fitted ones: what one local step under them finds."""
        model = self._model(corpus.dtype, len(self.weights_), corpus.n_samples)
        step = model.step_under(model.tables(*self._fitted_parts()))
        stats = model.empty_stats()
        for part, _ in corpus.map(step, whole_plan(corpus.X)):
            stats.add(part)
        state = inference.FitState(stats, self._new_seed())
        state.parts = self._observation, self._allocation
        state.dtype = corpus.dtype
        state.report = {"total_weight": stats["total_weight"]}
        state.fingerprint = fingerprint(corpus.X, corpus.weight)
        state.n_laps, state.n_updates = self.n_iter_, self.n_batch_iter_
        state.n_fitted = state.n_seen = self.n_samples_seen_
        state.history = list(self.bound_history_)
        state.acceptance = [np.nan] * state.n_laps
        return state

    def _kept_state(self, corpus):
        """Where the last call left the fit, or a state from the fitted components."""
        kept = getattr(self, "_fit_state", None)
        return self._state_from_components(corpus) if kept is None else kept

    def _state_to_go_on(self, model, corpus):
        """The kept state; of other data without what belongs to the batches."""
        kept, mark = self._kept_state(corpus), fingerprint(corpus.X, corpus.weight)
        same = kept.fingerprint == mark
        losses = kept.stats.scalars.get("merge_loss", np.empty(0))
        remembers = same and self.learning_method == "memoized" and len(losses) == model.n_slots
        state = kept.own(min(self.n_batches, corpus.n_samples) if remembers else None)
        if same and kept.memo is None:
            state.local = dict(kept.local)
        state.stats.scalars.pop("merge_loss", None)
        if model.n_slots:
            state.stats.scalars["merge_loss"] = np.zeros(model.n_slots)
        state.dtype, state.fingerprint = corpus.dtype, mark
        return state

    def _store(self, state, whole):
        super()._store(state, whole)
        if not whole:  # what a stream or another fit can go on from, and no more
            slim = copy(state)
            slim.memo, slim.local, slim.batches, slim.start = None, {}, None, None
            self._fit_state = slim

    def _bound_wanted(self, lap):
        return True

    def _fitted_attributes(self, state, *, whole):
        """What a fit that stands at `state` leaves on the estimator."""
        observation, allocation = state.parts
        model = self._model(state.dtype, len(state.stats["count"]), parts=state.parts)
        estimates, concentration = model.estimate(state.stats)
        described = observation.attributes(estimates)
        found = {f"{name}_": value.astype(state.dtype) for name, value in described.items()}
        found["_observation"], found["_allocation"] = state.parts
        found["_estimate_names"] = tuple(described)
        found["weights_"] = allocation.weights(concentration).astype(state.dtype)
        found.update({f"{name}_": value for name, value in observation.priors().items()})
        found["_fitted_as"] = {**self._structure(), "n_components": self.n_components}
        if allocation.estimation != "ml":
            found["weight_concentration_prior_"] = allocation.prior
            split = concentration.ndim == 2
            found["weight_concentration_"] = tuple(concentration.T) if split else concentration
        # In use: half an observation of average weight is the least; a ratio, so without factor.
        least = 0.5 * state.stats["total_weight"] / max(state.stats["n_samples"], 1)
        found["n_components_"] = int((state.stats.value("count") >= least).sum())
        found["bound_history_"] = np.array(state.history)
        found["lower_bound_"] = float(state.history[-1]) if state.history else -np.inf
        found["converged_"] = self._has_converged(state) if state.history else False
        found["n_iter_"] = state.n_laps
        found["n_batch_iter_"] = state.n_updates
        found["n_samples_seen_"] = state.n_seen
        return {**found, "_fit_state": state} if whole else found

    # ------------------------------------------------------------------ using a fitted model

    def _attributes(self):
        """The attributes that describe the components, without underscore."""
        return {name: getattr(self, f"{name}_") for name in self._estimate_names}

    def _fitted_parts(self):
        """Estimates and weights' concentrations from the attributes."""
        given = {name: value.astype(np.float64) for name, value in self._attributes().items()}
        estimates = self._observation.from_attributes(given)
        if self._allocation.estimation == "ml":
            return estimates, self.weights_.astype(np.float64)
        concentration = self.weight_concentration_
        if isinstance(concentration, tuple):
            concentration = np.stack(concentration, axis=1)
        return estimates, concentration

    def _infer(self, X):
        """Components and responsibilities of rows, (index, resp) a chunk, and the type."""
        check_is_fitted(self)
        X, dtype = self._validate_rows(X, reset=False, dtype=self.weights_.dtype)
        # In double: its rounding is far below what the search allows for, so that weights that
        # are nearly the same do not show whether the rows were enough for it.
        model = self._model(np.float64, len(self.weights_), X.shape[0])
        step = partial(infer_rows, model=model, globals_=model.tables(*self._fitted_parts()))
        return self._corpus(X, np.float64).map(step, whole_plan(X)), dtype

    @property
    def precisions_(self):
        """Precisions of the Gaussians, of the shape of `covariances_`."""
        factors = self.precisions_cholesky_
        return factors @ np.swapaxes(factors, 1, 2) if factors.ndim == 3 else factors**2

    def predict(self, X):
        """The most probable component of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The data.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Components; of equally probable ones the first.
        """
        parts, _ = self._infer(X)
        return np.concatenate(
            [index[np.arange(len(index)), resp.argmax(axis=1)] for index, resp in parts]
        ).astype(np.intp)

    def fit_predict(self, X, y=None, sample_weight=None):
        """Fit, and return the most probable component of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The data.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            How often each row counts.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Components.
        """
        return self.fit(X, sample_weight=sample_weight).predict(X)

    def predict_proba(self, X):
        """L-sparse responsibilities of the components for each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The data.

        Returns
        -------
        resp : ndarray or csr_matrix of shape (n_samples, n_components)
            Posterior probabilities, at most `sparsity_level` of them not 0; rows sum to 1. CSR
            with `sparse_output`.
        """
        parts, dtype = self._infer(X)
        blocks = []
        for index, resp in parts:
            shape = (len(index), len(self.weights_))
            indptr = np.arange(0, index.size + 1, index.shape[1])
            block = sp.csr_matrix((resp.astype(dtype).ravel(), index.ravel(), indptr), shape=shape)
            blocks.append(block if self.sparse_output else block.toarray())
        return sp.vstack(blocks, format="csr") if self.sparse_output else np.concatenate(blocks)

    def score_samples(self, X):
        """Log-likelihood of each row under the point estimates.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The data.

        Returns
        -------
        log_likelihood : ndarray of shape (n_samples,)
            ``log sum_k weights_[k] p(x | means_[k], covariances_[k])``, over all components.
        """
        check_is_fitted(self)
        X, dtype = self._validate_rows(X, reset=False, dtype=self.weights_.dtype)
        model = self._model(dtype, len(self.weights_))
        estimates, _ = self._fitted_parts()
        with np.errstate(divide="ignore"):
            log_weights = np.log(self.weights_.astype(np.float64))
        step = partial(
            row_likelihoods,
            model=model,
            table=self._observation.table(estimates, dtype, point=True),
            log_weights=log_weights,
            step=max(1, BLOCK_SIZE // len(self.weights_)),
        )
        return np.concatenate(list(self._corpus(X, dtype).map(step, whole_plan(X))))

    def score(self, X, y=None, sample_weight=None):
        """Mean log-likelihood a row: held-out quality, independent of `sparsity_level`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The data.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            How often each row counts.

        Returns
        -------
        score : float
            Nats a row.
        """
        scores = self.score_samples(X)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(
                sample_weight, scores, dtype=np.float64, ensure_non_negative=True
            )
        return float(np.average(scores, weights=sample_weight))

    def sample(self, n_samples=1, *, random_state=None):
        """Draw from the fitted mixture.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows.
        random_state : int, RandomState instance or None, default=None
            Source of the draws; by default the estimator's own.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            The rows, component by component; counts are 100 a row.
        labels : ndarray of shape (n_samples,)
            Their components.
        """
        check_is_fitted(self)
        check_count(n_samples, "n_samples", 1)
        rng = check_random_state(self.random_state if random_state is None else random_state)
        weights = self.weights_.astype(np.float64)
        sizes = rng.multinomial(n_samples, weights / weights.sum())
        attributes = self._attributes()
        drawn = [
            self._observation.draw(attributes, k, size, rng) for k, size in enumerate(sizes) if size
        ]
        labels = np.repeat(np.arange(len(sizes)), sizes)
        return np.concatenate(drawn).astype(self.weights_.dtype), labels

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        counts = self.observation == "multinomial"
        tags.input_tags.sparse = counts
        tags.input_tags.positive_only = counts
        if counts:  # scikit-learn's check of sparse input asks whatever has predict_proba for them
            tags.classifier_tags = ClassifierTags(multi_class=False)
        return tags


def _swapped(lap, model, corpus, state, bound, **options):
    """A lap of the loops as the estimators call it."""
    return lap(model, corpus, state, bound=bound, **options)
