"""What moves want to know of the data: asked for as a value, and found in the statistics.

A merge adds two components' responsibilities. All terms of the bound but a few follow from added
statistics; what the others lose by it is summed up for the pairs that will be tried. A delete gives
what a component holds to the best of the others; what that changes in the statistics is summed up
for a few components.
"""

import numpy as np

from sklearn_sparsepost._kernels import _pairs as kernels
from sklearn_sparsepost._run.threads import threads_for

# Groups that are visited once more, at the most, to see whether a component of theirs is needed.
MOST_USERS = 500


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
    """

    def __init__(self, pairs, targets=(), *, overlap=False):
        self.pairs = pairs
        self.targets = list(targets)
        self.overlap = overlap


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
    """

    def __init__(self, merge_loss, removals=(), overlap=None):
        self.merge_loss = merge_loss
        self.removals = list(removals)
        self.overlap = overlap

    def add(self, other):
        """Add what was found of other data, in place."""
        for name, loss in other.merge_loss.items():
            self.merge_loss[name] = self.merge_loss[name] + loss
        for mine, theirs in zip(self.removals, other.removals, strict=True):
            mine.add(theirs)
        if other.overlap is not None:
            self.overlap = self.overlap + other.overlap


class Users:
    """The groups that use a component, and what they have added to the statistics.

    Parameters
    ----------
    numbers : ndarray of shape (n_groups,)
        Their numbers in the data.
    stats : SuffStats
        Their statistics; tables are sparse.
    """

    def __init__(self, numbers, stats):
        self.numbers = numbers
        self.stats = stats

    def add(self, other):
        """Add other groups, in place; of too many statistics are not kept."""
        self.numbers = np.concatenate([self.numbers, other.numbers])
        if self.are_many:
            self.stats = None
        else:
            self.stats = self.stats.plus(other.stats)

    @property
    def are_many(self):
        """Whether they are too many to be visited once more."""
        return len(self.numbers) > MOST_USERS


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
    K = share.shape[1]
    slots = np.full((K, K), -1, dtype=np.int32)
    one, two = pairs.T
    slots[one, two] = slots[two, one] = np.arange(len(pairs))
    if not share.nnz:
        return np.zeros(len(pairs))
    return kernels.entropy_losses(
        share.indptr.astype(np.intp, copy=False),
        share.indices.astype(np.int32, copy=False),
        share.data,
        weight,
        slots,
        len(pairs),
        threads_for(share.nnz),
    )
