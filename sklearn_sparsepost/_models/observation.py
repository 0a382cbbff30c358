"""The interface of observation models: what data look like inside a component."""

import numpy as np

from sklearn_sparsepost._kernels._topl import topl_weights

# The least weight of an item in a component: of a group's last components one has to explain it.
LEAST_WEIGHT = 1e-30
# Values of a block of rows times components that should stay in cache.
BLOCK_SIZE = 1 << 17


class ItemLists:
    """Weights of items in components: ``base * inverse``, and more in those that are listed.

    Parameters
    ----------
    row_ptr : ndarray of shape (n_items + 1,), int64
        Item `i` has its list at ``row_ptr[i]:row_ptr[i + 1]``.
    components : ndarray of shape (n_listed,), int32
        Components, ascending in an item.
    weight : ndarray of shape (n_listed,), float32
        What is added in these.
    base : ndarray of shape (n_items,), float32
        Weight of the item in a component of size 1 where it is not listed.
    inverse : ndarray of shape (n_components,), float64
        One over the size of each component.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsepost.observations import ItemLists
    >>> ItemLists.of_weights(np.array([[0.5, 0.25], [1.0, 2.0]])).row_ptr
    array([0, 2, 4])
    """

    def __init__(self, row_ptr, components, weight, base, inverse):
        self.row_ptr = row_ptr
        self.components = components
        self.weight = weight
        self.base = base
        self.inverse = inverse

    @classmethod
    def of_weights(cls, weight):
        """Make lists of all components.

        Parameters
        ----------
        weight : ndarray of shape (n_items, n_components)
            The weights.

        Returns
        -------
        lists : ItemLists
            Those.
        """
        n_items, K = weight.shape
        return cls(
            np.arange(n_items + 1, dtype=np.int64) * K,
            np.tile(np.arange(K, dtype=np.int32), n_items),
            weight.astype(np.float32, copy=False).ravel(),
            np.full(n_items, LEAST_WEIGHT, dtype=np.float32),
            np.ones(K),
        )


class Observation:
    """What data look like inside a component: the base class of the models.

    A model turns rows and responsibilities into statistics, which add; statistics into estimates,
    a dict of arrays; and estimates into a table from which log-likelihoods are computed. It must
    define :meth:`empty`, :meth:`summarise`, :meth:`estimate`, :meth:`table`,
    :meth:`log_likelihood`, :meth:`data_bound` and :meth:`prior_bound`; the other methods have
    defaults. Its instances are pickled, and read by many threads at a time.

    It serves mixtures, where each row belongs to one component, and mixed membership, where each
    item of a group does: the items are rows of dense data, or the distinct words of some documents.

    Parameters
    ----------
    estimation : {"bayes", "map", "ml"}, default="bayes"
        Posterior distributions, their modes, or maximum likelihood.

    Attributes
    ----------
    keeps_candidates : bool
        Whether :meth:`best` profits from knowing the components that were best before.

    finds_more : bool
        Whether :meth:`best_again` finds what the next pass profits from besides.

    axes : dict of str to int or None
        Which axis of the arrays of :meth:`empty` runs over components, where it is not the first;
        None for an array that all components share.

    Examples
    --------
    Gaussians of variance 1 whose means have a Gaussian prior of variance 100.

    >>> import numpy as np
    >>> from sklearn_sparsepost import SparseMixture
    >>> from sklearn_sparsepost.observations import Observation
    >>> class Unit(Observation):
    ...     def empty(self, n_components):
    ...         return {"first": np.zeros(n_components), "second": np.zeros(n_components)}
    ...
    ...     def summarise(self, rows, resp):
    ...         return {"first": resp.T @ rows[:, 0], "second": resp.T @ rows[:, 0] ** 2}
    ...
    ...     def estimate(self, stats):
    ...         precision = 0.01 + stats.value("count")
    ...         means = (stats.value("first") / precision)[:, None]
    ...         return {"means": means, "mean_precision": precision}
    ...
    ...     def table(self, estimates, dtype, *, point=False):
    ...         variance = 0 if point else 1 / estimates["mean_precision"]
    ...         constant = -0.5 * (np.log(2 * np.pi) + estimates["means"][:, 0] ** 2 + variance)
    ...         return constant.astype(dtype), estimates["means"].T.astype(dtype)
    ...
    ...     def log_likelihood(self, rows, table):
    ...         constant, means = table
    ...         return constant + rows @ means - 0.5 * rows**2
    ...
    ...     def data_bound(self, stats, estimates):
    ...         constant, means = self.table(estimates, float)
    ...         value = constant @ stats.value("count") + means[0] @ stats.value("first")
    ...         return value - 0.5 * stats.value("second").sum()
    ...
    ...     def prior_bound(self, estimates):
    ...         ratio = 0.01 / estimates["mean_precision"]
    ...         square = 0.01 * estimates["means"][:, 0] ** 2
    ...         return 0.5 * (np.log(ratio) - ratio - square + 1).sum()
    >>> X = np.concatenate([np.linspace(-1, 1, 50), np.linspace(7, 9, 50)])[:, None]
    >>> mixture = SparseMixture(2, observation=lambda *data: Unit(), random_state=0).fit(X)
    >>> np.sort(mixture.means_.ravel()).round(2)
    array([0., 8.])
    """

    keeps_candidates = finds_more = False
    axes: dict = {}

    def __init__(self, estimation="bayes"):
        self.estimation = estimation

    def empty(self, n_components):
        """Return the statistics of no data.

        Parameters
        ----------
        n_components : int
            Number of components.

        Returns
        -------
        arrays : dict of str to ndarray
            Arrays of float64 zeros, components first unless `axes` says otherwise.
        """
        raise NotImplementedError

    def prepare(self, rows):
        """Turn rows into what the other methods want.

        Parameters
        ----------
        rows : ndarray or csr_array of shape (n_rows, n_features)
            The data.

        Returns
        -------
        rows : ndarray or csr_array of shape (n_rows, n_features)
            By default the same.
        """
        return rows

    def summarise(self, rows, resp):
        """Sum statistics over rows.

        Parameters
        ----------
        rows : ndarray or csr_array of shape (n_rows, n_features)
            Prepared rows.
        resp : csr_array of shape (n_rows, n_components), float64
            Responsibilities times weights of the rows.

        Returns
        -------
        arrays : dict of str to ndarray
            The arrays of :meth:`empty`.
        """
        raise NotImplementedError

    def estimate(self, stats):
        """Find what the statistics say of the components.

        Parameters
        ----------
        stats : SuffStats
            ``stats.value(name)`` is the value of one of the arrays, or of "count", the
            expected number of observations in each component.

        Returns
        -------
        estimates : dict of str to ndarray
            Parameters of posteriors, or point estimates; components first.
        """
        raise NotImplementedError

    def table(self, estimates, dtype, *, point=False):
        """Prepare the computation of log-likelihoods.

        Parameters
        ----------
        estimates : dict of str to ndarray
            From :meth:`estimate`.
        dtype : dtype
            Type of the rows.
        point : bool, default=False
            Whether the likelihood of new rows is wanted instead of the expected one: that of point
            estimates, or the predictive density of posteriors.

        Returns
        -------
        table : object
            Whatever :meth:`log_likelihood` needs.
        """
        raise NotImplementedError

    def uncertainty(self, estimates):
        """What expected log-likelihoods are below those of point estimates, wherever a row lies.

        Of posteriors that are wide, as those of few rows are: a mixture's first local steps may
        leave it out. By default nothing is.

        Parameters
        ----------
        estimates : dict of str to ndarray
            The estimates.

        Returns
        -------
        loss : float or ndarray of shape (n_components,)
            The difference, in nats.
        """
        return 0.0

    def settle(self, table, estimates, log_weights, *, n_rows=np.inf, n_neighbors=None):
        """Prepare :meth:`best`, once the components' weights are known; by default do nothing.

        Parameters
        ----------
        table : object
            From :meth:`table`.
        estimates : dict of str to ndarray
            What it was made from.
        log_weights : ndarray of shape (n_components,)
            Expected log-weights.
        n_rows : float, default=inf
            How many rows will be asked for.
        n_neighbors : int, default=None
            How many neighbours of each component that a row kept before are considered; None for
            all components.

        Returns
        -------
        table : object
            What :meth:`best` wants.
        """
        return table

    def log_likelihood(self, rows, table):
        """Compute the log-likelihood of rows in each component.

        Parameters
        ----------
        rows : ndarray or csr_array of shape (n_rows, n_features)
            Prepared rows.
        table : object
            From :meth:`table`.

        Returns
        -------
        values : ndarray of shape (n_rows, n_components)
            A new array, of the rows' type; finite.
        """
        raise NotImplementedError

    def log_base(self, rows):
        """Compute the part of the log-likelihood that is the same in every component.

        Parameters
        ----------
        rows : ndarray or csr_array of shape (n_rows, n_features)
            Prepared rows.

        Returns
        -------
        values : ndarray of shape (n_rows,) or None
            None, the default, for 0.
        """
        return None

    def data_bound(self, stats, estimates):
        """Compute the data's expected log-likelihood, without :meth:`log_base`.

        Parameters
        ----------
        stats : SuffStats
            Statistics of the data.
        estimates : dict of str to ndarray
            From :meth:`estimate`, of these or other statistics.

        Returns
        -------
        value : float
            ``E[log p(x | z, phi)]``.
        """
        raise NotImplementedError

    def prior_bound(self, estimates):
        """Compute what the parameters themselves add to the bound.

        Parameters
        ----------
        estimates : dict of str to ndarray
            From :meth:`estimate`.

        Returns
        -------
        value : float
            ``E[log p(phi) - log q(phi)]``; of modes ``log p(phi)``, of maximum likelihood 0.
        """
        raise NotImplementedError

    def bound(self, stats, estimates):
        """Compute all terms of the bound but :meth:`log_base`.

        Parameters
        ----------
        stats : SuffStats
            Statistics of the data.
        estimates : dict of str to ndarray
            From :meth:`estimate`, of these or other statistics.

        Returns
        -------
        value : float
            :meth:`data_bound` and :meth:`prior_bound`.
        """
        return self.data_bound(stats, estimates) + self.prior_bound(estimates)

    def priors(self):
        """Name the parameters of the prior.

        Returns
        -------
        priors : dict of str to float or ndarray
            Names without underscore, and values; by default none.
        """
        return {}

    def n_parameters(self, n_components):
        """Count the free parameters of components, for `aic` and `bic`.

        Parameters
        ----------
        n_components : int
            Number of components.

        Returns
        -------
        n_parameters : int
            Their number, without the weights'.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say how many parameters it has")

    def attributes(self, estimates):
        """Name the fitted attributes.

        Parameters
        ----------
        estimates : dict of str to ndarray
            From :meth:`estimate`.

        Returns
        -------
        attributes : dict of str to ndarray
            Names without underscore, and values; by default the estimates.
        """
        return dict(estimates)

    def from_attributes(self, attributes):
        """Find the estimates again.

        Parameters
        ----------
        attributes : dict of str to ndarray
            From :meth:`attributes`.

        Returns
        -------
        estimates : dict of str to ndarray
            As of :meth:`estimate`, at least what :meth:`table` needs.
        """
        return dict(attributes)

    def draw(self, attributes, component, size, rng):
        """Draw observations from one component.

        Parameters
        ----------
        attributes : dict of str to ndarray
            From :meth:`attributes`.
        component : int
            Which component.
        size : int
            How many observations.
        rng : RandomState
            Source of the draws.

        Returns
        -------
        rows : ndarray of shape (size, n_features)
            The observations.
        """
        raise NotImplementedError

    def best(self, rows, table, log_weights, level, start=None):
        """Find the largest posterior weights of each row.

        Parameters
        ----------
        rows : ndarray or csr_array of shape (n_rows, n_features)
            Prepared rows.
        table : object
            From :meth:`table`.
        log_weights : ndarray of shape (n_components,)
            Expected log-weights.
        level : int
            How many are wanted, at most the number of components.
        start : ndarray of shape (n_rows, level), default=None
            The components that were best before, a hint.

        Returns
        -------
        index : ndarray of shape (n_rows, level), int32
            The components, ascending; of equal weights the lowest.
        weight : ndarray of shape (n_rows, level)
            ``log_weights + log_likelihood`` of these.
        """
        n_rows, n_components = rows.shape[0], len(log_weights)
        index = np.empty((n_rows, level), dtype=np.int32)
        weight = np.empty((n_rows, level), dtype=rows.dtype)
        step = max(1, BLOCK_SIZE // n_components)
        for first in range(0, n_rows, step):
            block = slice(first, first + step)
            found = self._weights(rows[block], table, log_weights)
            index[block], weight[block] = topl_weights(found, level)
        return index, weight

    def best_again(self, rows, table, log_weights, level, start, found=None):
        """Find the largest posterior weights of rows whose components have changed little.

        Parameters
        ----------
        rows : ndarray or csr_array of shape (n_rows, n_features)
            Prepared rows.
        table : object
            From :meth:`table`.
        log_weights : ndarray of shape (n_components,)
            Expected log-weights.
        level : int
            How many are wanted, at most the number of components.
        start : ndarray of shape (n_rows, level)
            The components that were best before, a hint.
        found : object, default=None
            What the last call found of these rows, under as many components; None for nothing.

        Returns
        -------
        index : ndarray of shape (n_rows, level), int32
            The components, as of :meth:`best`.
        weight : ndarray of shape (n_rows, level)
            Their log weights.
        found : object or None
            For the next call, if there is something.
        """
        return *self.best(rows, table, log_weights, level, start), None

    def _weights(self, rows, table, log_weights):
        """``log_weights + log_likelihood`` of all components."""
        found = self.log_likelihood(rows, table)
        found += log_weights.astype(found.dtype)
        return found

    # ------------------------------------------------------------------ items of groups

    def item_table(self, estimates, dtype):
        """Prepare :meth:`item_weights`.

        Parameters
        ----------
        estimates : dict of str to ndarray
            From :meth:`estimate`.
        dtype : dtype
            Type of the data.

        Returns
        -------
        table : object
            By default that of :meth:`table`.
        """
        return self.table(estimates, dtype)

    def item_weights(self, items, table, level, dtype, out=None):
        """Compute what each component makes of each item.

        Parameters
        ----------
        items : Items
            The items: `rows` holds them as rows of data, of single words as rows with a 1.
        table : object
            From :meth:`item_table`.
        level : int
            How many of the best components to list for each item; none if it is all of them.
        dtype : dtype
            Type of the weights.
        out : callable, default=None
            ``out(shape, dtype)`` returns memory that may be used for the weights.

        Returns
        -------
        weight : ndarray of shape (n_items, n_components)
            ``exp(log_likelihood)``, each row scaled so that its largest entry is 1.
        best : ndarray of shape (n_items, L), int32
            The L largest entries of each row.
        share : ndarray of shape (n_items, L)
            These entries, scaled to sum to 1.
        """
        value = np.array(self.log_likelihood(self.prepare(items.rows), table), dtype=np.float64)
        value -= value.max(axis=1, keepdims=True)
        weight = np.maximum(np.exp(value, out=value), LEAST_WEIGHT).astype(dtype)
        if level >= weight.shape[1]:
            return weight, np.empty((len(weight), 0), np.int32), np.empty((len(weight), 0), dtype)
        best, share = topl_weights(weight, level)
        return weight, best, share / share.sum(axis=1, keepdims=True)

    def item_lists(self, items, table):
        """Compute what items weigh in components, as lists that leave out what all items share.

        Parameters
        ----------
        items : Items
            The items.
        table : object
            From :meth:`item_table`.

        Returns
        -------
        lists : ItemLists
            By default lists of all components, from :meth:`item_weights`.
        """
        return ItemLists.of_weights(self.item_weights(items, table, np.inf, np.float32)[0])

    def merge_gains(self, stats, pairs):
        """Compute what :meth:`bound` gains by merges of two components.

        Parameters
        ----------
        stats : SuffStats
            The statistics, also those that the estimates are of.
        pairs : ndarray of shape (n_pairs, 2), intp
            The components.

        Returns
        -------
        gains : ndarray of shape (n_pairs,) or None
            What each merge alone gains, in nats; None, the default, if that takes the bounds of
            the statistics before and after it. All arrays of more than a number a component have
            to be in it.
        """
        return None

    def similarity(self, stats):
        """Compare what is in components, to find some that might be one.

        Parameters
        ----------
        stats : SuffStats
            Statistics of the data.

        Returns
        -------
        similarity : ndarray of shape (n_components, n_components) or None
            Cosines, or something like them; None, the default, where there is nothing like that.
        """
        return None

    def item_base(self, items):
        """Compute the part of the items' log-likelihood that is the same in every component.

        Parameters
        ----------
        items : Items
            The items.

        Returns
        -------
        values : ndarray of shape (n_items,) or None
            By default that of :meth:`log_base`.
        """
        return self.log_base(self.prepare(items.rows))

    def summarise_items(self, items, resp):
        """Sum statistics over items.

        Parameters
        ----------
        items : Items
            The items.
        resp : SparseTable
            How often each item is expected in each component, over all groups or some of them: of
            these it may have the items alone.

        Returns
        -------
        arrays : dict of str to ndarray
            The arrays of :meth:`empty`.
        """
        rows = items.rows if len(resp.rows) == items.rows.shape[0] else items.rows[resp.rows]
        return self.summarise(self.prepare(rows), resp.to_csr().astype(np.float64))
