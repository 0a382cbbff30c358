"""The contract between loops and models: what a model declares, and what a local step is given."""

import numpy as np


class Globals:
    """What a local step reads besides its chunk: one value, of any attributes.

    It travels as an argument, so that a cluster ships it once to each worker. It is as compact as
    its parts: no views that are broadcast, nothing that can be computed from the rest in less time
    than it takes to send.

    Parameters
    ----------
    **parts : object
        The attributes.

    Examples
    --------
    >>> from sklearn_sparsepost.models import Globals
    >>> Globals(level=3).level
    3
    """

    def __init__(self, **parts):
        vars(self).update(parts)

    def get_ready(self, starts=()):
        """Have what parts find when they are first read be found now, on all settled threads.

        Parameters
        ----------
        starts : list, default=()
            What was kept of the chunks that will be worked on.
        """
        for part in vars(self).values():
            for held in part.values() if isinstance(part, dict) else (part,):
                if hasattr(held, "get_ready"):
                    held.get_ready(starts)

    def __sizeof__(self):
        # Dask asks, to tell what is worth shipping apart.
        return object.__sizeof__(self) + _n_bytes(vars(self))


def _n_bytes(value):
    """Memory of the arrays that a value holds."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, dict):
        return sum(_n_bytes(part) for part in value.values())
    if isinstance(value, (list, tuple)):
        return sum(_n_bytes(part) for part in value)
    return _n_bytes(vars(value)) if hasattr(value, "__dict__") else 0


class Model:
    """What loops, moves and estimators may ask of a model: the base class of all.

    A local step is pure: it writes to nothing that it is given, and what it returns depends on
    nothing else, so that threads, processes and clusters make it alike. Global parameters follow
    from what a state of the fit holds: statistics, which are sums over the data, and what is
    learned besides, by name in `state.learned`.

    Attributes
    ----------
    unit : str
        The statistic that the bound is divided by when it is compared with a tolerance.

    reported : tuple of str
        Arrays of the statistics of the last pass or batch that :meth:`global_step` wants to see in
        `state.report`, besides all scalars.

    keeps_local : bool
        Whether what local steps return of a chunk is kept, for the next pass to start from.

    tracks_overlap : bool
        Whether passes that track merges find how much components overlap, for the next pass to
        choose pairs by; if not, :meth:`overlap` does on a sample.

    can_delete : bool
        Whether a component may go and leave all else as it is.

    has_bound : bool
        Whether there is a bound; if not, :meth:`bound` is NaN, and nothing is summed up for it.

    leaves_out : bool
        Whether in memoized learning the globals that a batch is given follow from the other
        batches alone.

    Examples
    --------
    A mixture, from responsibilities at random to those of a pass.

    >>> import numpy as np
    >>> from sklearn_sparsepost.models import Bernoulli, Corpus, DirichletWeights, Mixture, begin
    >>> X = np.repeat(np.eye(2), 50, axis=0)
    >>> bits = Bernoulli("bayes", np.ones((2, 2)))
    >>> model = Mixture(bits, DirichletWeights("bayes", 1.0), n_components=2)
    >>> corpus = Corpus(X, np.float64)
    >>> state = begin(model, corpus, np.random.default_rng(0).dirichlet([1, 1], size=100))
    >>> stats, _ = model.local_step(corpus.chunk([(0, 100)]), model.globals_of(state), state.key)
    >>> stats["n_samples"]
    100.0
    """

    unit = "n_samples"
    reported = ()
    keeps_local = False
    has_bound = True
    leaves_out = False
    tracks_overlap = False
    can_delete = True

    def empty_stats(self, n_components=None):
        """Return statistics of no data.

        Parameters
        ----------
        n_components : int, default=None
            Of how many components; by default of as many as the model has.

        Returns
        -------
        stats : SuffStats
            Zeros. The scalar "n_samples" counts units of the data.
        """
        raise NotImplementedError

    def first_learned(self):
        """Return what is learned besides statistics, before anything was learned.

        Returns
        -------
        learned : dict of str to ndarray
            Empty by default.
        """
        return {}

    def stats_under(self, chunk, resp):
        """Sum statistics of a chunk under given responsibilities, to begin with.

        Parameters
        ----------
        chunk : Chunk or DenseChunk
            The units.
        resp : array-like or sparse matrix of shape (n_rows, n_components)
            How much of each row of the data belongs to each component.

        Returns
        -------
        stats : SuffStats
            The statistics.
        """
        raise NotImplementedError

    def globals_of(self, state, track=None):
        """Return what the local step reads.

        Parameters
        ----------
        state : FitState
            Where the fit stands; read, never written.
        track : Track, default=None
            What a move wants to know: comes back as `tracked` of the step's statistics.

        Returns
        -------
        globals_ : Globals
            Compact and picklable.
        """
        raise NotImplementedError

    @staticmethod
    def local_step(chunk, globals_, key):
        """Find posteriors of a chunk's units, and sum them up.

        Parameters
        ----------
        chunk : Chunk or DenseChunk
            The units, with their numbers in the data and what the last step kept of them.
        globals_ : Globals
            From :meth:`globals_of`.
        key : tuple (seed, n_steps)
            What random streams are keyed by, besides the numbers of the units.

        Returns
        -------
        stats : SuffStats
            Their statistics; tables may be sparse.
        local : object or None
            What the next step may start from.
        """
        raise NotImplementedError

    def global_step(self, state, rate=1.0):
        """Move what is learned besides statistics, after a pass or a batch of a stream.

        Parameters
        ----------
        state : FitState
            Its `learned` is replaced; `report` says what the pass or batch found.
        rate : float, default=1.0
            Share of the step that is made.
        """

    def bound(self, state, stats=None):
        """Compute the bound of data under the globals of a state.

        Parameters
        ----------
        state : FitState
            What the globals follow from.
        stats : SuffStats, default=None
            Of the data's present local posteriors; by default those of the state.

        Returns
        -------
        bound : float
            In nats, with all constants.
        """
        raise NotImplementedError

    def merge_gains(self, state, pairs):
        """Compute what merges gain in the terms that follow from tables of statistics.

        Tables are arrays with more than a number a component. Where this is known, merges are
        accepted by the terms of their components, and statistics are merged once for all of them.

        Parameters
        ----------
        state : FitState
            Before the merges.
        pairs : ndarray of shape (n_pairs, 2), intp
            Components.

        Returns
        -------
        gains : ndarray of shape (n_pairs,) or None
            What each merge alone gains, in nats; None, the default, where it is not known.
        """
        return None

    def merge_gain(self, state, kept, absorbed):
        """Compute what terms of the bound that follow from statistics gain by a merge.

        After :meth:`merge_gains` it is given, as a fourth argument, what that has found of the
        pair, and statistics without tables.

        Parameters
        ----------
        state : FitState
            Before the merge.
        kept : int
            One component.
        absorbed : int
            The other one.

        Returns
        -------
        gain : float
            In nats; infinite where it costs as much as the whole bound.
        """
        return np.inf

    def resized(self, n_components):
        """Copy this model for another number of components.

        Parameters
        ----------
        n_components : int
            How many.

        Returns
        -------
        model : Model
            The copy.
        """
        raise NotImplementedError

    def overlap(self, chunk, globals_):
        """Find how much components share of a chunk, which is what merges are chosen by.

        Parameters
        ----------
        chunk : Chunk or DenseChunk
            The units.
        globals_ : Globals
            From :meth:`globals_of`.

        Returns
        -------
        overlap : ndarray of shape (n_components, n_components)
            Sums over units of products of the components' shares.
        """
        raise NotImplementedError

    def merge_learned(self, learned, kept, absorbed):
        """Return what is learned besides statistics once a component is merged into another.

        Parameters
        ----------
        learned : dict of str to ndarray
            Before.
        kept : int
            The component that stays.
        absorbed : int
            The one that is gone afterwards.

        Returns
        -------
        learned : dict of str to ndarray
            After.
        """
        return learned

    def drop_learned(self, learned, component):
        """Return what is learned besides statistics without a component that holds nothing.

        Parameters
        ----------
        learned : dict of str to ndarray
            Before.
        component : int
            The component.

        Returns
        -------
        learned : dict of str to ndarray
            After.
        """
        return learned

    @staticmethod
    def share_of(chunk, globals_, component):
        """Find what is of one component in a chunk whose units may have many.

        Parameters
        ----------
        chunk : Chunk or DenseChunk
            The units.
        globals_ : Globals
            From :meth:`globals_of`.
        component : int
            The component.

        Returns
        -------
        chunk : Chunk or DenseChunk
            The same units, counts or weights of rows being those expected of the component.
        """
        return chunk

    def add_learned(self, learned, weights):
        """Return what is learned besides statistics with more components, after the others.

        Parameters
        ----------
        learned : dict of str to ndarray
            Before.
        weights : ndarray of shape (n_more,)
            The shares of the data that the new components are thought to have.

        Returns
        -------
        learned : dict of str to ndarray
            After.
        """
        return learned

    def carried(self, stats, before, after):
        """Return statistics of units whose posteriors stay, under what is learned by now.

        Parameters
        ----------
        stats : SuffStats
            Of the components that there were; not written to.
        before, after : dict of str to ndarray
            What was learned besides, without and with components after these.

        Returns
        -------
        stats : SuffStats
            Their terms of the bound are what the units have by now, or less.
        """
        return stats

    def similarity(self, state):
        """Compare what is in components, besides their overlap.

        Parameters
        ----------
        state : FitState
            Where the fit stands.

        Returns
        -------
        similarity : ndarray of shape (n_components, n_components) or None
            None, the default, where there is nothing to compare.
        """
        return None
