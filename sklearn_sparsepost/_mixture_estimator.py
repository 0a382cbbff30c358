"""What estimators of mixtures do with data and with fitted components."""

from functools import partial

import numpy as np
import scipy.sparse as sp
from sklearn.base import DensityMixin
from sklearn.utils import ClassifierTags, check_random_state
from sklearn.utils.validation import _check_sample_weight, validate_data

from sklearn_sparsepost._base import check_is_fitted
from sklearn_sparsepost._checks import check_count, check_rows, dense_block, weighted_mean
from sklearn_sparsepost._models.contract import Globals
from sklearn_sparsepost._models.mixture import infer_rows, row_likelihoods
from sklearn_sparsepost._run.collections import corpus_of, float_type, is_collection
from sklearn_sparsepost._variational import BaseVariational

# Rows of responsibilities or likelihoods at a time, times components.
BLOCK_SIZE = 1 << 20


class BaseMixture(DensityMixin, BaseVariational):
    """Base class of the mixtures: fitted, each has `weights_`.

    A subclass has the parameters `observation`, `sparse_output` and `n_jobs`, keeps the parts of
    its model in `_observation`, `_weights` and `_estimate_names`, and puts them together in
    ``_model(dtype, n_components)``.
    """

    # ------------------------------------------------------------------ data

    def _validate_rows(self, X, *, reset, dtype=None):
        """The data, and the type to compute in: integers in `dtype`, or as large ones need."""
        # What was fitted says what its rows look like, whatever the parameter is by now.
        observation = self.observation if reset else self._fitted_as["observation"]
        if observation == "multinomial":
            return self._validate_counts(X, reset=reset, dtype=dtype)
        if is_collection(X):
            X = self._collected(X, partial(dense_block, observation=observation), reset=reset)
        else:
            X = validate_data(self, X, dtype=[np.float64, np.float32], reset=reset)
            check_rows(X, observation)
        return X, X.dtype

    def _corpus(self, X, dtype, sample_weight=None):
        if sample_weight is not None:
            sample_weight = _check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True
            )
        return corpus_of(X, dtype, self.n_jobs, weight=sample_weight, threaded=False)

    # ------------------------------------------------------------------ using a fitted model

    def _attributes(self):
        """The attributes that describe the components, without underscore."""
        return {name: getattr(self, f"{name}_") for name in self._estimate_names}

    def _fitted_parts(self):
        """Estimates and weights' concentrations from the attributes."""
        given = {name: value.astype(np.float64) for name, value in self._attributes().items()}
        estimates = self._observation.from_attributes(given)
        if self._weights.estimation == "ml":
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
        model = self._model(np.float64, len(self.weights_)).for_stream(X.shape[0])
        globals_ = model.globals_under(*self._fitted_parts())
        return self._corpus(X, np.float64).map(infer_rows, globals_), dtype

    @property
    def precisions_(self):
        """Precisions of the Gaussians, of the shape of `covariances_`."""
        factors = self.precisions_cholesky_
        matrices = factors.ndim == 3 or self._fitted_as["covariance_type"] == "tied"
        return factors @ np.swapaxes(factors, -1, -2) if matrices else factors**2

    def predict(self, X):
        """The most probable component of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask array or dataframe} of shape (n_samples, n_features)
            The data.

        Returns
        -------
        labels : ndarray or Dask array of shape (n_samples,)
            Components; of equally probable ones the first. A Dask array for data of Dask, computed
            when it is asked for.
        """
        if is_collection(X):
            check_is_fitted(self)
            return self._map_rows(X, "predict", None, np.intp)
        parts, _ = self._infer(X)
        return np.concatenate(
            [index[np.arange(len(index)), resp.argmax(axis=1)] for index, resp in parts]
        ).astype(np.intp)

    def fit_predict(self, X, y=None, sample_weight=None):
        """Fit, and return the most probable component of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask array or dataframe} of shape (n_samples, n_features)
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
        X : {array-like, sparse matrix, Dask array or dataframe} of shape (n_samples, n_features)
            The data.

        Returns
        -------
        resp : ndarray, csr_matrix or Dask array of shape (n_samples, n_components)
            Posterior probabilities, at most `sparsity_level` of them not 0; rows sum to 1. CSR
            with `sparse_output`. A Dask array for data of Dask, computed when it is asked for.
        """
        if is_collection(X):
            check_is_fitted(self)
            dtype = float_type(X, self.weights_)
            return self._map_rows(X, "predict_proba", len(self.weights_), dtype)
        parts, dtype = self._infer(X)
        blocks = []
        for index, resp in parts:
            shape = (len(index), len(self.weights_))
            indptr = np.arange(0, index.size + 1, index.shape[1])
            block = sp.csr_matrix((resp.astype(dtype).ravel(), index.ravel(), indptr), shape=shape)
            blocks.append(block if self.sparse_output else block.toarray())
        return sp.vstack(blocks, format="csr") if self.sparse_output else np.concatenate(blocks)

    def score_samples(self, X):
        """Log-likelihood of each row: its density given the data of the fit.

        Of point estimates ("map", "ml") it is ``log sum_k weights_[k] N(x | means_[k],
        covariances_[k])``, over all components. With "bayes" Gaussians are integrated over their
        posterior: each is a Student's t distribution, whose tails are the wider, the fewer rows
        the component has (Bishop, "Pattern recognition and machine learning", 10.81). Counts and
        bits have the expected probabilities of their features.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask array or dataframe} of shape (n_samples, n_features)
            The data.

        Returns
        -------
        log_likelihood : ndarray or Dask array of shape (n_samples,)
            In nats. A Dask array for data of Dask, computed when it is asked for.
        """
        check_is_fitted(self)
        if is_collection(X):
            return self._map_rows(X, "score_samples", None, np.float64)
        X, dtype = self._validate_rows(X, reset=False, dtype=self.weights_.dtype)
        estimates, _ = self._fitted_parts()
        with np.errstate(divide="ignore"):
            log_weights = np.log(self.weights_.astype(np.float64))
        globals_ = Globals(
            observation=self._observation,
            table=self._observation.table(estimates, dtype, point=True),
            log_weights=log_weights,
            n_rows=max(1, BLOCK_SIZE // len(self.weights_)),
        )
        return np.concatenate(list(self._corpus(X, dtype).map(row_likelihoods, globals_)))

    def score(self, X, y=None, sample_weight=None):
        """Mean log-likelihood a row: held-out quality, independent of `sparsity_level`.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask array or dataframe} of shape (n_samples, n_features)
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
        return weighted_mean(np.asarray(self.score_samples(X)), sample_weight)

    def _n_parameters(self):
        """Number of free parameters, weights included."""
        n_components = len(self.weights_)
        return self._observation.n_parameters(n_components) + n_components - 1

    def bic(self, X):
        """Bayesian information criterion of the fitted mixture on data; lower is better.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask array or dataframe} of shape (n_samples, n_features)
            The data.

        Returns
        -------
        bic : float
            ``-2 n_samples score(X) + n_parameters log(n_samples)``, in nats, twice: a deviance.
        """
        values = np.asarray(self.score_samples(X))
        n_samples = len(values)
        fit = weighted_mean(values, None)
        return -2 * fit * n_samples + self._n_parameters() * np.log(n_samples)

    def aic(self, X):
        """Akaike information criterion of the fitted mixture on data; lower is better.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask array or dataframe} of shape (n_samples, n_features)
            The data.

        Returns
        -------
        aic : float
            ``-2 n_samples score(X) + 2 n_parameters``.
        """
        values = np.asarray(self.score_samples(X))
        return -2 * weighted_mean(values, None) * len(values) + 2 * self._n_parameters()

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
