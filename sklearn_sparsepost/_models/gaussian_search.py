"""The largest weights of full Gaussians without computing all."""

from threading import Lock
from weakref import WeakKeyDictionary

import numpy as np

from sklearn_sparsepost._kernels import matrices, mixture_lengths
from sklearn_sparsepost._kernels import mixture as kernels
from sklearn_sparsepost._kernels._topl import sort_by_index
from sklearn_sparsepost._run.threads import map_slices, single_blas

# The search pays from so many components and features on, so many rows a feature between two
# global steps, and this many times more components than are kept.
LEAST_COMPONENTS, LEAST_FEATURES, LEAST_ROWS, LEAST_SHARE = 16, 16, 16, 4
# The share of a factor's columns that has been looked at after each stage, and of those that serve
# to guess components to begin with.
STAGES, GUESS = (0.5, 0.75, 1.0), 0.25

# What is found of distances serves the next pass from so many rows a feature on between two global
# steps, which pay for finding how components have changed; and up to so many features.
ROWS_FOR_LENGTHS, MOST_FEATURES = 512, 128

# Rows of larger features could overflow in single precision.
FAR = 1e12
# What rounding leaves of a factor that is found in double precision.
CERTAIN = 1 - 1e-5
# One thread of a process finds bounds that all want.
FINDING = Lock()


class GaussianSearch:
    """Bounds on the log weights of components, after few of a row's features.

    With a triangular factor of a precision, the first p squares of the quadratic form are that of
    the marginal distribution of the first p features. Of rows in the principal axes of the data,
    largest first, they tell most components from where a row is, at a fraction of the arithmetic.

    Parameters
    ----------
    means : ndarray of shape (n_components, n_features)
        Of the components.
    constant : ndarray of shape (n_components,)
        The largest weights that components can have.
    factors : ndarray of shape (n_components, n_features, n_columns)
        Padded factors of the components' precisions, as weights are computed from.
    """

    def __init__(self, means, constant, factors):
        self.constant = constant
        self.metrics = Metrics(means if means.any() else None, factors)
        self._bounds = None  # found where they are read first, which is not where they are shipped

    def _found_bounds(self):
        """What the kernels bound weights by, and the marginal distributions but for constants."""
        constant, means, factors = self.constant, self.metrics.means, self.metrics.factors
        n_features = factors.shape[1]
        # By falling constants: what can be ruled out then comes last.
        order = np.argsort(-constant, kind="stable").astype(np.int32)
        n_components = len(order)
        # As large as means are, by and large.
        origin = np.sqrt(n_features) * (means is not None)
        stages = _stages(n_features)
        n_pairs = -(-(n_features + (origin > 0)) // 2)
        n_columns = _multiple(stages[-1], kernels.LATER_LANES)
        white_factors = np.empty((n_components, n_pairs, n_columns, 2), np.int16)
        scale = np.empty(n_components, np.float32)
        slack = np.empty((n_components, len(stages)), np.float32)
        marginal = constant[order]
        offset = np.empty((n_components, 0))
        if means is not None:
            offset = np.einsum("ki,kij->kj", means, factors)
        diagonal = np.einsum("kii->ki", factors[:, :, :n_features])
        rest = diagonal[order, _n_guess(n_features) :]
        marginal -= np.log(rest, dtype=np.float64).sum(axis=1)

        def quantise(held):
            kernels.quantise_factors(
                factors,
                offset,
                order[held],
                origin,
                stages,
                white_factors[held],
                scale[held],
                slack[held],
            )

        map_slices(quantise, n_components)
        return marginal.astype(np.float32), {
            "order": order,
            "white_factors": white_factors,
            "scale": scale,
            "slack": slack,
            "origin": origin,
            "stages": stages,
        }

    @property
    def bounds(self):
        """What bounds weights."""
        if self._bounds is None:
            with FINDING, single_blas():
                if self._bounds is None:
                    self._bounds = self._found_bounds()
        return self._bounds

    def get_ready(self, starts=()):
        """Find what bounds weights, and how components have changed, if it is not found yet."""
        for found in (getattr(start, "found", None) for start in starts):
            if found is not None:
                self.metrics.drift_from(found.metrics)
        return self.bounds

    def reduced_to_ship(self):
        """As of `__reduce__`, without what workers find as fast as the client."""
        return object.__new__, (GaussianSearch,), {**vars(self), "_bounds": None}

    @staticmethod
    def pays(n_components, n_features, n_rows):
        """Whether bounds on the weights are worth their cost."""
        return (
            n_components >= LEAST_COMPONENTS
            and n_features >= LEAST_FEATURES
            and n_rows >= LEAST_ROWS * n_features
        )

    @staticmethod
    def again_pays(n_features, n_rows):
        """Whether it is worth its cost to keep what is found of rows for the next time."""
        return n_features <= MOST_FEATURES and n_rows >= ROWS_FOR_LENGTHS * n_features

    def again(self, rows, table, level, start, lengths=None):
        """The largest weights of each row, by what was found of it under other components.

        Parameters
        ----------
        rows, table, level, start
            As for a call.
        lengths : Lengths, default=None
            What was found; by default nothing was.

        Returns
        -------
        index, weight, far
            As of a call.
        lengths : Lengths
            What is found.
        """
        white, far = _in_single(rows)
        index, weight = start.astype(np.int32), np.empty(start.shape, dtype=rows.dtype)
        n_components, n_rows = len(self.constant), _multiple(len(rows), mixture_lengths.STEP)
        found = np.empty((n_components, n_rows), dtype=np.uint8)
        if lengths is None:
            unit, known = np.empty(n_rows, dtype=np.float32), found[:0, :0]
            shrink, shift = np.ones(n_components, np.float32), np.zeros(n_components, np.float32)
        else:
            unit, known = lengths.unit, lengths.found
            shrink, shift = self.metrics.drift_from(lengths.metrics)
            shift = lengths.shift * shrink + shift
            shrink = lengths.shrink * shrink
        mixture_lengths.best_weights_again(
            rows,
            table["factors"],
            table["offset"],
            self.constant,
            white,
            known=known,
            shrink=shrink,
            shift=shift,
            unit=unit,
            lengths=found,
            index=index,
            weight=weight,
            **self.bounds[1],
        )
        sort_by_index(index, weight)
        return index, weight, far, Lengths(self.metrics, unit, found, shrink, shift)

    def __call__(self, rows, table, level, start=None):
        """The largest weights of each row.

        Parameters
        ----------
        rows : ndarray of shape (n_rows, n_features)
            The data.
        table : dict of str to ndarray
            The components' factors and offsets.
        level : int
            How many weights a row, L.
        start : ndarray of shape (n_rows, L), default=None
            Components that are likely to have them; a guess by default.

        Returns
        -------
        index : ndarray of shape (n_rows, L), int32
            Components, ascending.
        weight : ndarray of shape (n_rows, L)
            Their log weights.
        far : ndarray of shape (n_far,), intp
            Rows of which something else was looked at, since they are too far away.
        """
        white, far = _in_single(rows)
        index = self._guess(white, level) if start is None else start.astype(np.int32)
        weight = np.empty(index.shape, dtype=rows.dtype)
        kernels.best_weights(
            rows,
            table["factors"],
            table["offset"],
            self.constant,
            white,
            index=index,
            weight=weight,
            **self.bounds[1],
        )
        sort_by_index(index, weight)
        return index, weight, far

    def _guess(self, white, level):
        """The components whose marginal densities of the first features are largest."""
        marginal, arrays = self.bounds
        index = np.empty((len(white), level), dtype=np.int32)
        kernels.likely_components(
            white,
            arrays["white_factors"],
            arrays["scale"],
            arrays["origin"],
            marginal,
            _n_guess(white.shape[1]),
            index,
        )
        return arrays["order"][index]


class Metrics:
    """What distances from components are measured in.

    Parameters
    ----------
    means : ndarray of shape (n_components, n_features) or None
        Where they are; None for 0.
    factors : ndarray of shape (n_components, n_features, n_columns)
        Padded factors P: a length is that of ``(x - mean) P``.
    """

    def __init__(self, means, factors):
        self.means = means
        self.factors = factors
        self._drifts = WeakKeyDictionary()

    def __getstate__(self):
        return {**vars(self), "_drifts": None}

    def __setstate__(self, state):
        vars(self).update(state, _drifts=WeakKeyDictionary())

    def drift_from(self, other):
        """How lengths in other metrics bound those in these.

        Parameters
        ----------
        other : Metrics
            Of as many components.

        Returns
        -------
        shrink, shift : ndarray of shape (n_components,), float32
            A length is at least `shrink` times what it is in the other metrics, less `shift`.
        """
        with FINDING:
            if other not in self._drifts:
                self._drifts[other] = self._found_drift(other)
            return self._drifts[other]

    def _found_drift(self, other):
        growth, moved = np.empty(len(self.factors)), 0.0

        def find(held):
            matrices.most_growth(other.factors[held], self.factors[held], growth[held])

        map_slices(find, len(growth))
        if self.means is not None or other.means is not None:
            here, there = (0.0 if one.means is None else one.means for one in (self, other))
            gap = np.einsum("ki,kij->kj", here - there, other.factors)
            moved = np.sqrt((gap**2).sum(axis=1))
        shrink = np.divide(CERTAIN, growth, out=np.zeros_like(growth), where=np.isfinite(growth))
        return shrink.astype(np.float32), (moved * shrink / CERTAIN**2).astype(np.float32)


class Lengths:
    """Lower bounds on the distances of rows in components' metrics.

    Parameters
    ----------
    metrics : Metrics
        Those of the components.
    unit : ndarray of shape (n_rows or more,), float32
        What one is of each row's lengths.
    found : ndarray of shape (n_components, n_rows or more), uint8
        The bounds, in these units, before components have changed.
    shrink, shift : ndarray of shape (n_components,), float32
        The bounds now: these times what they were, less those.
    """

    def __init__(self, metrics, unit, found, shrink, shift):
        self.metrics = metrics
        self.unit = unit
        self.found = found
        self.shrink = shrink
        self.shift = shift

    @property
    def nbytes(self):
        """Memory in bytes, without what all rows share."""
        return self.unit.nbytes + self.found.nbytes


def _in_single(rows):
    """The rows in single precision, and the numbers of those that are too far away for it."""
    with np.errstate(over="ignore"):  # what overflows is far away
        white = rows.astype(np.float32, copy=False)
    if white.max(initial=0) <= FAR and white.min(initial=0) >= -FAR:
        return white, np.empty(0, dtype=np.intp)
    far = np.flatnonzero(~(np.abs(white).max(axis=1) <= FAR))
    white = white.copy()
    white[far] = 0
    return white, far


def padded(columns, dtype):
    """Columns filled with zeros, to as many as the kernels want."""
    n_columns = columns.shape[-1]
    found = np.empty((*columns.shape[:-1], n_columns + -n_columns % kernels.LANES), dtype)
    found[..., :n_columns] = columns
    found[..., n_columns:] = 0
    return found


def _multiple(number, of):
    return of * int(np.ceil(number / of))


def _n_guess(n_features):
    return _multiple(GUESS * n_features, kernels.LANES)


def _stages(n_features):
    first = _multiple(STAGES[0] * n_features, kernels.LANES)
    later = [_multiple(share * n_features - first, kernels.LATER_LANES) for share in STAGES[1:]]
    return np.unique([first, *(first + more for more in later)]).astype(np.int32)
