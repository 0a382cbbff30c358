"""What moves want to know of the data: asked for as a value, and found in the statistics.

A merge adds two components' responsibilities. All terms of the bound but a few follow from added
statistics; what the others lose by it is summed up for the pairs that will be tried. A delete gives
what a component holds to the best of the others; what that changes in the statistics is summed up
for a few components.
"""

import numpy as np

from sklearn_sparsepost._kernels import _pairs as kernels
from sklearn_sparsepost._run.streams import unit_uniforms
from sklearn_sparsepost._run.threads import threads_for

# Groups that are visited once more, at the most, to see whether a component of theirs is needed.
MOST_USERS = 500
# What a responsibility costs that is looked at beside the others of its row, in multiplications.
PAIR_WORK = 16


class Track:
    """What is to be tracked in a pass.

    Parameters
    ----------
    pairs : ndarray of shape (n_pairs, 2)
        Components that may be merged.
    targets : list of int, default=()
        Components that may be deleted.
    overlap : bool, default=False
        Whether to find how much components share of groups.
    parents : Parents, default=None
        Components that may give birth.
    """

    def __init__(self, pairs, targets=(), *, overlap=False, parents=None):
        self.pairs = pairs
        self.targets = list(targets)
        self.overlap = overlap
        self.parents = parents


class Parents:
    """Components that may give birth, and how many of their units are to be looked at.

    Parameters
    ----------
    components : list of int
        The components.
    rates : list of float
        The share of units, of those in which each matters most, that is drawn.
    key : int
        What the draws are keyed by, besides the numbers of the units.
    """

    def __init__(self, components, rates, key):
        self.components = components
        self.rates = rates
        self.key = key

    def units(self, main, numbers):
        """Find the units drawn of each parent, given the component that matters most in each.

        Parameters
        ----------
        main : ndarray of shape (n_units,)
            The components.
        numbers : ndarray of shape (n_units,)
            The units' numbers in the data.

        Returns
        -------
        held : list of ndarray
            For each parent the places of units that are drawn; no unit is drawn twice.
        """
        drawn = unit_uniforms(self.key, numbers)
        pairs = zip(self.components, self.rates, strict=True)
        return [np.flatnonzero((main == parent) & (drawn < rate)) for parent, rate in pairs]


class Tracked:
    """What was found, of a chunk or of several.

    Parameters
    ----------
    merge_loss : dict of str to ndarray of shape (n_pairs,)
        What statistics lose by each merge that do not follow from adding: scalars that are terms
        of the bound, and of arrays the entry of the component that stays.
    removals : list of Change or list of Users
        What the removal of each target changes, or who uses it.
    overlap : ndarray of shape (n_components, n_components), default=None
        Sums over groups of products of expected counts.
    children : list of Users
        The units drawn of each parent.
    """

    def __init__(self, merge_loss, removals=(), overlap=None, children=()):
        self.merge_loss = merge_loss
        self.removals = list(removals)
        self.overlap = overlap
        self.children = list(children)

    def add(self, other):
        """Add what was found of other data, in place."""
        for name, loss in other.merge_loss.items():
            self.merge_loss[name] = self.merge_loss[name] + loss
        for mine, theirs in zip(self.removals, other.removals, strict=True):
            mine.add(theirs)
        for mine, theirs in zip(self.children, other.children, strict=True):
            mine.add(theirs)
        if other.overlap is not None:
            self.overlap = self.overlap + other.overlap


class Users:
    """The units that use a component, and what they have added to the statistics.

    Parameters
    ----------
    numbers : ndarray of shape (n_units,)
        Their numbers in the data.
    stats : SuffStats
        Their statistics; tables are sparse.
    most : float, default=MOST_USERS
        The most of which statistics are wanted.
    """

    def __init__(self, numbers, stats, most=MOST_USERS):
        self.numbers = numbers
        self.stats = stats
        self.most = most

    def add(self, other):
        """Add other units, in place; of too many statistics are not kept."""
        self.numbers = np.concatenate([self.numbers, other.numbers])
        if self.are_many:
            self.stats = None
        else:
            self.stats = self.stats.plus(other.stats)

    @property
    def are_many(self):
        """Whether they are too many to be visited once more."""
        return len(self.numbers) > self.most


class Change:
    """What to add to the statistics of a few components; changes add up.

    Parameters
    ----------
    which : ndarray of shape (n_touched,)
        The components, ascending.
    stats : SuffStats
        What to add to the statistics of these.
    """

    def __init__(self, which, stats):
        self.which = which
        self.stats = stats

    def add(self, other):
        """Add another change, in place."""
        which = np.union1d(self.which, other.which)
        n_more = len(which) - len(self.which)
        if n_more:
            order = np.full(len(which), len(self.which))  # of an empty one, put after the others
            order[np.searchsorted(which, self.which)] = np.arange(len(self.which))
            self.which, self.stats = which, self.stats.insert(1).reorder(order)
        self.stats.add_at(np.searchsorted(which, other.which), other.stats)

    @classmethod
    def sum(cls, changes):
        """The sum of at least one, all of which stay as they are."""
        first, *others = changes
        total = cls(first.which, first.stats.copy())
        for change in others:
            total.add(change)
        return total

    def apply(self, stats, removed):
        """Statistics with this change, and without the component that it empties."""
        return stats.copy().add_at(self.which, self.stats).drop(removed)


def entropy_losses(share, weight, pairs):
    """What the entropy of some rows would lose by each merge.

    Parameters
    ----------
    share : csr_array of shape (n_rows, n_components)
        Responsibilities.
    weight : ndarray of shape (n_rows,)
        Weights of the rows.
    pairs : ndarray of shape (n_pairs, 2)
        The merges.

    Returns
    -------
    loss : ndarray of shape (n_pairs,)
        The losses.
    """
    slots = _slots(pairs, share.shape[1])
    if not share.nnz:
        return np.zeros(len(pairs))
    return kernels.entropy_losses(
        share.indptr.astype(np.intp, copy=False),
        share.indices.astype(np.int32, copy=False),
        share.data,
        weight,
        slots,
        len(pairs),
        threads_for(PAIR_WORK * share.nnz),
    )


def list_entropy_losses(index, amount, weight, pairs, n_components):
    """The same of responsibilities in lists, as the local step of documents finds them.

    Parameters
    ----------
    index : ndarray of shape (n_rows, L), int32
        Components of each row; a list that is shorter ends with -1.
    amount : ndarray of shape (n_rows, L)
        Their responsibilities times the row's weight.
    weight : ndarray of shape (n_rows,)
        Weights of the rows, of the same type.
    pairs : ndarray of shape (n_pairs, 2)
        The merges.
    n_components : int
        Number of components.

    Returns
    -------
    loss : ndarray of shape (n_pairs,)
        The losses.
    """
    n_threads = threads_for(PAIR_WORK * index.size)
    slots = _slots(pairs, n_components)
    return kernels.list_entropy_losses(index, amount, weight, slots, len(pairs), n_threads)


def _slots(pairs, n_components):
    """For two components which pair they are, -1 if none."""
    slots = np.full((n_components, n_components), -1, dtype=np.int32)
    one, two = pairs.T
    slots[one, two] = slots[two, one] = np.arange(len(pairs))
    return slots
