"""Where a fit stands: enough to read off the globals, and to go on to the same end."""

from copy import copy

import numpy as np
import scipy.sparse as sp

from sklearn_sparsepost._run.kept_sums import each_in_turn, is_elsewhere, is_kept
from sklearn_sparsepost._run.streams import keyed_generator


class FitState:
    """Where a fit stands.

    Parameters
    ----------
    stats : SuffStats
        What the globals follow from, first the start's.
    seed : int, default=0
        Seed of every stream of the fit.
    learned : dict of str to ndarray, default=None
        What the globals follow from besides statistics, as
        :meth:`~sklearn_sparsepost.models.Model.first_learned` returns it.
    dtype : dtype, default="float64"
        Type of the data.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsepost.models import Bernoulli, DirichletWeights, FitState, Mixture
    >>> bits = Bernoulli("bayes", np.ones((4, 2)))
    >>> model = Mixture(bits, DirichletWeights("bayes", 1.0), n_components=2)
    >>> FitState(model.empty_stats()).n_passes
    0
    """

    def __init__(self, stats, seed=0, learned=None, dtype="float64"):
        self.stats = stats
        self.seed = seed
        self.learned = {} if learned is None else learned
        self.dtype = np.dtype(dtype)
        self.parts = None  # what the model was put together from, where the data decide on it
        self.n_passes = 0
        self.n_updates = 0  # steps of online learning and of streams
        self.n_fitted = 0  # samples of the fit
        self.n_seen = 0  # samples of the fit and of a stream after it
        self.head_start = 0.0  # online steps that a fit before the stream is worth
        self.history = []  # bound after each pass
        self.reports = []  # scalars of the statistics of each pass
        self.report = {}  # of the last pass or batch: these, and what the model wants of arrays
        self.amount = 1.0  # of data, by which the bound is divided to be compared
        self.batches = None  # memoized: runs of units of each batch
        self.memo = None  # memoized: statistics of each batch as last seen, here or on workers
        self.stand_in = None  # memoized: the first statistics, while some batch is unseen
        self.n_units = 0  # memoized: units of all batches
        self.local = {}  # what each chunk's local step may start from, a list a batch
        self.tracked = {}  # what moves wanted to know of the last pass, batch by batch
        self.overlap = None  # of components in groups, as a pass that tracks it has found
        self.attempts = None  # moves that were tried
        self.fingerprint = None  # of the data, to tell whether a fit goes on
        self.is_shared = False  # with another estimator
        self.spare = None  # statistics that nobody reads any more: new memory is slow
        self.sum_of_passes = None  # statistics added up over passes, where their mean is wanted
        self.n_averaged = 0  # how many passes

    @property
    def stats(self):
        """What the globals follow from; restored if they were lent.

        To memoized learning: they are summed anew from the batches' memory. To a step of a stream:
        what it has added is undone.
        """
        if self._stats is None:
            self._stats = self.sum_of_memory(self._empty())
        while self._undo:
            table, rows, values = self._undo[-1]
            table[rows] = values
            self._undo.pop()
        return self._stats

    @stats.setter
    def stats(self, stats):
        self._stats = stats
        self._empty = None
        self._undo = None

    def next(self):
        """Copy this for the next pass, which may replace all that it holds but write to nothing.

        Returns
        -------
        state : FitState
            The copy.
        """
        new = copy(self)
        new.history, new.reports = list(self.history), list(self.reports)
        new.memo = None if self.memo is None else list(self.memo)
        new.local = dict(self.local)
        new.tracked, new.spare, new.is_shared = {}, None, False
        return new

    def own(self, n_batches=None, *, same_data=False):
        """Copy this to be moved by another call, with statistics that it may write to.

        Parameters
        ----------
        n_batches : int, default=None
            How many batches the call has, if it is memoized; a memory of another number is
            forgotten.
        same_data : bool, default=False
            Whether the call has the same data: of others nothing is remembered.

        Returns
        -------
        state : FitState
            The copy.
        """
        new = self.next()
        new.stats = self.stats.copy()
        if any(part.is_lost for part in self._elsewhere()):
            n_batches = None  # and what remembers any number is forgotten
        return new._forget(n_batches, same_data)

    def lent(self):
        """Copy this to be moved by a step of a stream, which writes to what this one holds.

        This is as it was once it is read again, after which the copy must not be. So it costs no
        more than the step, but nobody else may hold this.

        Returns
        -------
        state : FitState
            The copy.
        """
        if self.is_shared:
            return self.own()
        new = self.next()
        new.stats = self.stats.lend()
        self._undo = new.stats.undo
        return new._forget(None, False)

    def _forget(self, n_batches, same_data):
        """Forget what is of other data, or of other batches."""
        n_held = None if self.memo is None else len(self.memo)
        if not same_data or n_held != n_batches:
            self.memo, self.stand_in, self.batches = None, None, None
            self.sum_of_passes, self.n_averaged, self.overlap = None, 0, None
            if not same_data or n_held is not None:
                self.local = {}
        return self

    def slim(self):
        """Copy what a stream or another fit can go on from, and no more.

        Returns
        -------
        state : FitState
            The copy.
        """
        new = copy(self)
        new.memo, new.local, new.batches, new.stand_in, new.tracked = None, {}, None, None, {}
        new.spare = None
        return new

    def with_components(self, stats, learned):
        """Copy this with other statistics of the same data.

        Parameters
        ----------
        stats : SuffStats
            The statistics.
        learned : dict of str to ndarray
            What is learned besides.

        Returns
        -------
        state : FitState
            The copy.
        """
        new = copy(self)
        new.stats, new.learned = stats, learned
        return new

    def average(self):
        """Add the statistics to those whose mean over passes is wanted."""
        total = self.stats.copy() if self.sum_of_passes is None else self.sum_of_passes.copy()
        self.sum_of_passes = total.add(self.stats) if self.n_averaged else total
        self.n_averaged += 1

    # ------------------------------------------------------------------ memory

    def lend_stats(self):
        """Lend the statistics to be written to; they are restored from what batches remember.

        A copy is lent if workers remember that, who may die.

        Returns
        -------
        stats : SuffStats
            The statistics.
        """
        stats = self.stats
        if self._elsewhere():
            return stats.copy()
        self._let_go()
        return stats

    def _let_go(self):
        """Have the statistics be summed up when they are read next."""
        self._empty = self.stats.maker_of_zeros()
        self._stats = None

    def sum_anew(self):
        """Have the statistics be the sum of what batches remember, to the last bit, if they do."""
        if self.memo is not None:
            self._let_go()
            if self._elsewhere():  # as long as they are there
                self.stats = self.sum_of_memory(self._empty())

    def sum_of_memory(self, total):
        """Have a total be the sum of what every batch has left, the stand-in for those not visited.

        Parameters
        ----------
        total : SuffStats
            Changed in place, whatever it is.

        Returns
        -------
        total : SuffStats
            The same.
        """
        seen = [part for part in self.memo or () if part is not None]
        if self._elsewhere() and not total.grows:
            groups = ([part] for part in each_in_turn(seen))  # or all would be here
        else:
            groups = [list(each_in_turn(seen))]
        n_seen = 0
        for number, group in enumerate(groups):
            total.add_in_turn(*((part, 1.0) for part in group), anew=number == 0)
            n_seen += sum(int(part["n_samples"]) for part in group)
            del group
        if self.stand_in is not None and (not seen or n_seen < self.n_units):
            total.add(self.stand_in, 1 - n_seen / self.n_units if seen else 1.0)
        return total

    def _elsewhere(self):
        """What is remembered on workers alone."""
        return [part for part in self.memo or () if is_elsewhere(part)]

    def remembered(self, function):
        """What batches remember, changed, each where it was.

        Parameters
        ----------
        function : callable
            ``function(b, stats)`` returns that of batch `b` anew, and leaves `stats` as they are.

        Returns
        -------
        memo : list
            Of all batches, which have been visited.
        """
        memo = []
        for b, (part, stats) in enumerate(zip(self.memo, each_in_turn(self.memo), strict=True)):
            changed = function(b, stats)
            memo.append(part.like(changed) if is_kept(part) else changed)
        return memo

    def _brought_here(self):
        """Copy this with all that workers remember, or with no memory if that is lost."""
        new = copy(self)
        try:
            new.memo = list(each_in_turn(self.memo))
        except RuntimeError:
            return new._forget(None, True)
        return new

    # ------------------------------------------------------------------ passes

    def rng(self, purpose, n_passes=0):
        """Make a random stream of this fit that depends on purpose and pass only.

        Parameters
        ----------
        purpose : int
            One of those of `_run.streams`.
        n_passes : int, default=0
            The pass.

        Returns
        -------
        rng : numpy.random.Generator
            The stream.
        """
        return keyed_generator(self.seed, n_passes, purpose)

    @property
    def key(self):
        """What the streams of local steps are keyed by, besides the numbers of the units."""
        return self.seed, self.n_passes + self.n_updates

    def note(self, model, parts):
        """Keep what the statistics of a pass or batch say.

        Parameters
        ----------
        model : Model
            Which arrays it wants to be kept.
        parts : list of SuffStats
            The statistics of its parts.
        """
        names = [*parts[0].scalars, *model.reported]
        self.report = {name: sum(part.value(name) for part in parts) for name in names}

    def end_pass(self, model, bound):
        """Count the pass that `report` is of, and keep its bound.

        Parameters
        ----------
        model : Model
            Which statistic its bound is divided by.
        bound : float
            The bound.
        """
        self.n_passes += 1
        self.amount = max(self.report[model.unit], 1)
        self.history.append(bound)
        self.reports.append(
            {name: value for name, value in self.report.items() if name not in model.reported}
        )

    def _as_one(self):
        """What this holds, with statistics that nobody has to restore."""
        return {**vars(self), "_stats": self.stats, "_empty": None, "_undo": None, "spare": None}

    def __copy__(self):
        new = object.__new__(type(self))
        vars(new).update(self._as_one())
        return new

    def __getstate__(self):
        kept = any(map(is_kept, self.memo or ()))
        return (self._brought_here() if kept else self)._as_one()


def begin(model, corpus, resp, seed=0):
    """Start a fit from responsibilities.

    Parameters
    ----------
    model : Model
        The model.
    corpus : Corpus
        The data, of which all are read at once.
    resp : array-like or sparse matrix of shape (n_rows, n_components)
        How much of each row of the data belongs to each component.
    seed : int, default=0
        Seed of every random stream of the fit.

    Returns
    -------
    state : FitState
        Where the fit stands before its first pass.

    Raises
    ------
    ValueError
        If `resp` is of another shape.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsepost.models import Bernoulli, Corpus, DirichletWeights, Mixture, begin
    >>> X = np.repeat(np.eye(2), 50, axis=0)
    >>> model = Mixture(Bernoulli("bayes", np.ones((2, 2))), DirichletWeights("bayes", 1.0), 2)
    >>> begin(model, Corpus(X, np.float64), X).stats["count"].tolist()
    [50.0, 50.0]
    """
    resp = resp if sp.issparse(resp) else np.asarray(resp, dtype=np.float64)
    if resp.shape != (corpus.X.shape[0], model.n_components):
        raise ValueError(
            f"resp has shape {resp.shape}, but must have shape "
            f"{(corpus.X.shape[0], model.n_components)} (rows x components)"
        )
    stats = model.stats_under(corpus.chunk([(0, corpus.n_samples)]), resp)
    return FitState(model.empty_stats().add(stats), seed, model.first_learned(), corpus.dtype)
