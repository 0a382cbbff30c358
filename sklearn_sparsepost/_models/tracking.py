"""What moves want to know of the data: asked for as a value, and found in the statistics.

A merge adds two components' responsibilities. All terms of the bound but a few follow from added
statistics; what the others lose by it is summed up for the pairs that will be tried. A delete gives
what a component holds to the best of the others; what that changes in the statistics is summed up
for a few components.
"""

import numpy as np
from scipy.special import xlogy


class Track:
    """What is to be tracked in a pass.

    Parameters
    ----------
    pairs : ndarray of shape (n_pairs, 2)
        Components that may be merged.
    targets : list of int, default=()
        Components that may be deleted.
    """

    def __init__(self, pairs, targets=()):
        self.pairs = pairs
        self.targets = list(targets)


class Tracked:
    """What was found, of a chunk or of several.

    Parameters
    ----------
    merge_loss : dict of str to ndarray of shape (n_pairs,)
        What each scalar of the statistics that is a term of the bound loses by each merge.
    removals : list of Change
        What the removal of each target changes.
    """

    def __init__(self, merge_loss, removals=()):
        self.merge_loss = merge_loss
        self.removals = list(removals)

    def add(self, other):
        """Add what was found of other data, in place."""
        for name, loss in other.merge_loss.items():
            self.merge_loss[name] = self.merge_loss[name] + loss
        for mine, theirs in zip(self.removals, other.removals, strict=True):
            mine.add(theirs)


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
    loss = np.zeros(len(pairs))
    columns = share.tocsc()
    for slot, pair in enumerate(pairs):
        (rows, one), (others, two) = (
            (columns.indices[held], columns.data[held])
            for held in (slice(columns.indptr[k], columns.indptr[k + 1]) for k in pair)
        )
        both, at, there = np.intersect1d(rows, others, assume_unique=True, return_indices=True)
        a, b = one[at], two[there]
        loss[slot] = weight[both] @ (xlogy(a + b, a + b) - xlogy(a, a) - xlogy(b, b))
    return loss
