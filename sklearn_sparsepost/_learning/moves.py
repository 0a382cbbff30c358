"""Moves that change the number of components, accepted only if the whole-data bound rises.

Both are scored exactly and without another pass (Hughes & Sudderth, "Memoized online variational
inference for Dirichlet process mixture models", 2013; Hughes, Kim & Sudderth, "Reliable and
scalable variational inference for the hierarchical Dirichlet process", 2015).

A merge adds two components' responsibilities. All terms of the bound but the entropy follow from
added statistics, and what the entropy loses is summed up during the pass for the pairs that will
be tried. A delete gives the observations of a component to the best of the others: what that
changes in the statistics is summed up during the pass, too, for a few small components.
"""

import numpy as np
from scipy.special import xlogy

from sklearn_sparsepost._kernels._topl import topl_weights
from sklearn_sparsepost._run.chunks import make_chunk, single_blas

# Rows on which the overlap of components is judged, in runs of neighbours.
SAMPLE_ROWS, SAMPLE_RUNS = 4096, 64
# Components whose removal is tried after a pass: the smallest, no more than fit into this memory.
N_TARGETS, TARGET_BYTES = 8, 1 << 29
# Observations below which a component holds none, and rounding of a bound.
NOTHING, ROUNDING = 1e-6, 1e-13
# Share of the bound by which the terms of two components may miss the change of the whole.
HOPELESS = 1e-9


def choose_pairs(model, corpus, state, rng):
    """Pairs of components worth tracking in the coming pass.

    Parameters
    ----------
    model : MixtureModel
        The model.
    corpus : Corpus
        The data.
    state : FitState
        Where the fit stands.
    rng : numpy.random.Generator
        Source of the rows on which components are compared.

    Returns
    -------
    pairs : ndarray of shape (n_pairs, 2), intp
        At most one pair a component: those whose dense responsibilities overlap most, and for
        components that hold less than one observation also the largest component.
    """
    K = model.n_components
    if K < 2:
        return np.empty((0, 2), dtype=np.intp)
    n_runs = min(SAMPLE_RUNS, corpus.n_samples)
    length = min(SAMPLE_ROWS // SAMPLE_RUNS, corpus.n_samples // n_runs)
    firsts = np.sort(rng.integers(0, corpus.n_samples - length + 1, n_runs))
    chunk = make_chunk(corpus.X, [(int(f), int(f) + length) for f in firsts], corpus.dtype)
    with single_blas():
        table, log_weights = model.globals_of(state.stats)
        weight = model.observation.log_likelihood(model.observation.prepare(chunk.rows), table)
        resp = weight.astype(np.float64) + log_weights
        resp = np.exp(resp - resp.max(axis=1, keepdims=True))
        resp /= resp.sum(axis=1, keepdims=True)
        overlap = resp.T @ resp
    size = np.maximum(np.sqrt(np.diag(overlap)), 1e-100)  # its products do not underflow
    overlap /= size[:, None] * size
    np.fill_diagonal(overlap, -1)
    partner = topl_weights(overlap, 1)[0][:, 0].astype(np.intp)
    count = state.stats.value("count")
    idle = count < 1
    partner[idle] = np.argmax(count)
    pairs = np.sort(np.stack([np.arange(K), partner], axis=1), axis=1)
    pairs = np.unique(pairs[pairs[:, 0] < pairs[:, 1]], axis=0)
    # The most alike first; those with an idle component before all.
    rank = overlap[pairs[:, 0], pairs[:, 1]] + 2 * (idle[pairs[:, 0]] | idle[pairs[:, 1]])
    return pairs[np.argsort(-rank, kind="stable")]


def entropy_losses(share, weight, pairs, n_slots):
    """What the entropy of some rows would lose by each merge.

    Parameters
    ----------
    share : csr_array of shape (n_rows, n_components)
        Responsibilities.
    weight : ndarray of shape (n_rows,)
        Weights of the rows.
    pairs : ndarray of shape (n_pairs, 2)
        The merges.
    n_slots : int
        Length of the result.

    Returns
    -------
    loss : ndarray of shape (n_slots,)
        One entry a pair, then zeros.
    """
    loss = np.zeros(n_slots)
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


class Change:
    """What to add to the statistics of a few components; changes add up.

    Parameters
    ----------
    which : ndarray of shape (n_touched,)
        The components, ascending.
    arrays : dict of str to ndarray
        What to add to each array, components first.
    entropy : float
        What to add to the entropy.
    """

    def __init__(self, which, arrays, entropy):
        self.which = which
        self.arrays = arrays
        self.entropy = entropy

    def add(self, other):
        """Add another change, in place."""
        which = np.union1d(self.which, other.which)
        if len(which) > len(self.which):
            at = np.searchsorted(which, self.which)
            for name, array in self.arrays.items():
                self.arrays[name] = np.zeros((len(which), *array.shape[1:]))
                self.arrays[name][at] = array
            self.which = which
        at = np.searchsorted(which, other.which)
        for name, array in other.arrays.items():
            self.arrays[name][at] += array
        self.entropy += other.entropy

    @classmethod
    def sum(cls, changes):
        """The sum of at least one, all of which stay as they are."""
        first, *others = changes
        arrays = {name: array.copy() for name, array in first.arrays.items()}
        total = cls(first.which, arrays, first.entropy)
        for change in others:
            total.add(change)
        return total

    def apply(self, stats, removed):
        """Statistics with this change, and without the component that it empties."""
        new = stats.copy()
        for name, array in self.arrays.items():
            new.arrays[name][self.which] += array / new.factor
        new.scalars["entropy"] += self.entropy / new.factor
        return new.drop(removed)


def merge_components(model, state, bound):
    """Merge tracked pairs as long as the bound rises.

    Parameters
    ----------
    model : MixtureModel
        Its number of components falls.
    state : FitState
        After a pass that tracked ``model.pairs``; its statistics lose components.
    bound : float
        The bound of its statistics.

    Returns
    -------
    bound : float
        The bound after the merges.
    """
    position = np.arange(model.n_components)  # of each component by now
    touched = set()
    for slot, pair in enumerate(model.pairs.tolist()):
        if touched & set(pair):
            continue  # what its entropy loses is no longer known
        kept, absorbed = sorted(position[pair].tolist())
        if _gain(model, state.stats, kept, absorbed, slot) < -HOPELESS * abs(bound):
            continue
        count = state.stats.value("count")[position[pair]]
        emptied, least = pair[int(count.argmin())], max(count.min(), 0.0)
        trial = _merged(state.stats, kept, absorbed, slot)
        found = model.global_bound(trial)
        # The bound may not notice that a component without data is gone.
        slack = ROUNDING * abs(bound) if least < NOTHING else 0.0
        if not found > bound - slack:
            continue
        _remember(
            model,
            state,
            lambda seen, b, pair=(kept, absorbed), slot=slot: _merged(seen, *pair, slot),
        )
        state.stats, bound = trial, found
        # What moves without being noticed changes no other loss of who gets it: many may.
        noticed = _most_entropy(least, state.stats.value("total_weight")) > ROUNDING * abs(bound)
        touched.update(pair if noticed else [emptied])
        position[position == absorbed] = kept
        position[position > absorbed] -= 1
    return bound


def _most_entropy(amount, total):
    """The most by which moving responsibilities of a sum changes another merge's entropy loss.

    With ``h(x) = x log x`` a row's loss ``h(a + b) - h(a) - h(b)`` rises with `a`, for
    ``a + b <= 1`` and `a` rising by `e` by ``h(1 + e) - h(e) <= 2 e - h(e)`` or less, which is
    concave in `e`: at most if all rows, of weight `total`, share the amount equally.
    """
    return 2 * amount - xlogy(amount, amount / total)


def _gain(model, stats, kept, absorbed, slot):
    """By how much a merge raises the bound, from the terms of its two components."""
    both = stats.reorder(np.array([kept, absorbed]))
    before = stats.value("count")
    after = before.copy()
    after[kept] += after[absorbed]
    after = np.delete(after, absorbed)
    gain = -stats.value("merge_loss")[slot]
    for part, count, sign in ((both.merge(0, 1), after, 1), (both, before, -1)):
        estimates = model.observation.estimate(part)
        gain += sign * model.observation.data_bound(part, estimates)
        gain += sign * model.observation.prior_bound(estimates)
        gain += sign * model.allocation.bound(count, model.allocation.estimate(count))
    return gain


def _merged(stats, kept, absorbed, slot):
    """Statistics after a merge, which loses entropy."""
    merged = stats.merge(kept, absorbed)
    merged.scalars["entropy"] -= merged.scalars["merge_loss"][slot]
    return merged


def _remember(model, state, move):
    """Make a move that costs a component in the statistics of every batch, too."""
    if state.memo is not None:
        state.memo = [
            move(model.empty_stats().add(seen), b).compact() for b, seen in enumerate(state.memo)
        ]
    state.local = {}
    model.resize(model.n_components - 1)


def choose_targets(state, n_batches):
    """Components whose removal is worth tracking in the coming pass: the smallest with data."""
    n_bytes = n_batches * sum(array.nbytes for array in state.stats.arrays.values())
    n_targets = max(1, min(N_TARGETS, TARGET_BYTES // n_bytes))
    count = state.stats.value("count")
    order = np.argsort(count, kind="stable")
    order = order[count[order] >= NOTHING]
    return order[:n_targets].tolist() if len(order) > 1 else []


def delete_component(model, state, bound):
    """Remove one of the tracked components if the bound rises by it.

    Parameters
    ----------
    model : MixtureModel
        Its number of components may fall.
    state : FitState
        After a pass that tracked ``model.targets``, and with as many components as then.
    bound : float
        The bound of its statistics.

    Returns
    -------
    bound : float
        The bound after the removal of the component whose loss raises it most, or the same.
    """
    best = None
    for slot, target in enumerate(model.targets):
        # The first chunk of a batch has what all of them change.
        parts = {b: kept[0][1][slot] for b, kept in state.local.items()}
        trial = Change.sum(parts.values()).apply(state.stats, target)
        found = model.global_bound(trial)
        if found > bound:
            best, bound = (parts, target, trial), found
    if best is not None:
        parts, target, trial = best
        _remember(model, state, lambda seen, b: parts[b].apply(seen, target))
        state.stats = trial
    return bound


def forget_moves(model, state):
    """Drop what was tracked for the moves of a pass."""
    model.pairs, model.targets = None, ()
    state.local = {b: [(index, []) for index, _ in kept] for b, kept in state.local.items()}
