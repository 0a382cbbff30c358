"""Births: components that are proposed on a few units, and stay only if the whole-data bound rises.

A component may hold what several should. The units in which it matters most, or if these are many
some of them, are clustered: of groups what is the component's. The clusters are new components, but
for the largest of groups, with which the component itself goes on: one more is easier to pay for
than two. A few local updates of these units settle them beside all others. Nothing else changes, so
that the bound of all data is known, as for deletes, and without another pass. What other units
would gain by the new components, the next passes find. Births of many components at once and their
place among the other moves are those of Hughes & Sudderth, "Memoized online variational inference
for Dirichlet process mixture models", 2013.
"""

import numpy as np
import scipy.sparse as sp

from sklearn_sparsepost._learning.state import FitState
from sklearn_sparsepost._learning.topic_moves import runs_of
from sklearn_sparsepost._models.tracking import Parents
from sklearn_sparsepost._run.streams import STREAM_BIRTHS
from sklearn_sparsepost._suffstats import sum_of_chunks

# Components a pass that may give birth, the largest first: of a mixture, and of groups.
ROW_PARENTS, GROUP_PARENTS = 10, 20
# Units of each that are fitted anew, rows of a mixture or groups, and the least there must be.
MOST_ROWS, MOST_GROUPS, LEAST_UNITS = 1 << 17, 2000, 4
# Units that are clustered, and children: of rows the number that serves them best alone.
N_SAMPLED, ROW_CHILDREN, GROUP_CHILDREN = 8192, (2, 6), 3
# Turns in which children of rows settle among themselves, and local steps beside all others.
N_ALONE, ROW_TURNS, GROUP_TURNS = 10, 1, 10
# Local steps after which children stay as they are if the bound rises by them.
LEAST_TURNS = 3
# A parent of rows that is left less than this share of its data is begun anew as the first child.
ANEW = 0.1
# Data below which a child is given up, and the most that children take from other components.
LEAST_CHILD, MOST_WEIGHT = 1.0, 0.5


def choose_parents(model, state, most_components, most_bytes):
    """Components that may give birth in the coming pass.

    Parameters
    ----------
    model : Model
        The model.
    state : FitState
        Where the fit stands.
    most_components : float
        The most there may be.
    most_bytes : int
        Memory that the statistics of units drawn from each batch may have.

    Returns
    -------
    parents : Parents or None
        The largest that are not known to fail; None if there are none.
    """
    count = state.stats.value("count")
    n_units, total = state.stats.value("n_samples"), count.sum()
    if len(count) >= most_components or not total > 0:
        return None
    most, n_parents = MOST_GROUPS, GROUP_PARENTS
    if not model.tracks_overlap:
        n_batches = len(state.memo) if state.memo else 1
        n_bytes = n_batches * sum(array.nbytes for array in state.stats.arrays.values())
        most, n_parents = MOST_ROWS, max(1, min(ROW_PARENTS, most_bytes // n_bytes))
    components, rates = [], []
    for component in np.argsort(-count, kind="stable").tolist():
        size = count[component] / total * n_units
        if len(components) == n_parents or size < LEAST_UNITS:
            break
        if not state.attempts.is_known([component], count, "birth"):
            components.append(component)
            rates.append(min(1.0, most / size))
    key = int(state.rng(STREAM_BIRTHS, state.n_passes).integers(1 << 63))
    return Parents(components, rates, key) if components else None


def give_birth(model, corpus, state, parents, bound, most_components, clusters):
    """Have components give birth as long as the bound rises.

    Parameters
    ----------
    model : Model
        Of as many components as the state has.
    corpus : Corpus
        The data.
    state : FitState
        After a pass that has drawn units of the parents, and with the same components as then; not
        written to.
    parents : Parents
        Who may.
    bound : float
        The bound of the state.
    most_components : float
        The most there may be.
    clusters : callable
        ``clusters(chunk, n_clusters, rng)`` labels a chunk's rows.

    Returns
    -------
    state : FitState
        After the births, new components after the others.
    bound : float
        Its bound, at the least.
    """
    rng = state.rng(STREAM_BIRTHS, state.n_passes)
    state = state.with_components(state.stats, state.learned)
    attempts = state.attempts = state.attempts.copy()
    tried = accepted = 0
    for slot, parent in enumerate(parents.components):
        count = state.stats.value("count")
        n_more = len(count) - model.n_components
        drawn = {
            b: (found.children[slot].numbers, found.children[slot].stats.insert(n_more))
            for b, found in sorted(state.tracked.items())
            if len(found.children[slot].numbers)
        }
        if len(count) >= most_components:
            break
        tried += 1
        brood = Brood(model, corpus, state, drawn, parent, parents.rates[slot])
        children = brood.first(clusters, most_components - len(count), rng)
        trial, found = (None, -np.inf) if children is None else brood.born(children, bound)
        if not found > bound:
            attempts.fail([parent], count, "birth")
            continue
        attempts.grow(trial.stats.n_components - len(count))
        state, bound = trial, found
        accepted += 1
    attempts.note(state.n_passes, "birth", tried, accepted, state.stats.n_components)
    return state, bound


class Brood:
    """The units drawn of a parent, and what becomes of the fit if they have components anew.

    Parameters
    ----------
    model : Model
        The model, of any number of components.
    corpus : Corpus
        The data.
    state : FitState
        Before the birth.
    drawn : dict of int to (ndarray, SuffStats)
        For each batch the numbers of the units, and their share of the statistics.
    parent : int
        The parent.
    rate : float
        The share of its units that was drawn.
    """

    def __init__(self, model, corpus, state, drawn, parent, rate):
        self.model, self.corpus, self.state, self.drawn = model, corpus, state, drawn
        self.parent, self.rate = parent, rate
        self.rest = state.stats.copy()
        for _, stats in drawn.values():
            self.rest.add(stats, -1.0)
        left = self.rest.value("count")[parent]
        few = left < ANEW * state.stats.value("count")[parent]
        # Of groups the largest cluster stays the parent's.
        self.begins_anew = model.tracks_overlap or bool(few)

    def first(self, clusters, room, rng):
        """Statistics that children begin from, as if all units drawn had been clustered.

        None if the units are better off with one component.
        """
        numbers = np.concatenate([part for part, _ in self.drawn.values()] or [[]])
        n_drawn, most = len(numbers), int(min(room + self.begins_anew, len(numbers) // 2))
        if n_drawn < LEAST_UNITS or most < 1:
            return None
        if n_drawn > N_SAMPLED:
            numbers = rng.choice(numbers, N_SAMPLED, replace=False)
        chunk = self.corpus.chunk(runs_of(np.sort(numbers)))
        if self.model.tracks_overlap:
            globals_ = self.model.resized(self.rest.n_components).globals_of(self.state)
            chunk = self.model.share_of(chunk, globals_, self.parent)
            labels = clusters(chunk, min(GROUP_CHILDREN, most), rng)
            size = np.bincount(labels)
            rank = np.argsort(np.argsort(-size, kind="stable"))  # the largest first
            best = self._clustered(chunk, rank[labels])
        else:
            n_rows = len(numbers)
            best, value = None, self._alone(chunk, np.zeros(n_rows, dtype=np.intp), 1)[1]
            for n_children in ROW_CHILDREN:
                labels = clusters(chunk, min(n_children, most), rng)
                found, bound = self._alone(chunk, labels, N_ALONE)
                if bound > value:
                    best, value = found, bound
        return None if best is None else best.scale(n_drawn / len(numbers))

    def _clustered(self, chunk, labels):
        """Statistics of clusters."""
        kept, labels = np.unique(labels, return_inverse=True)
        model, n_rows = self.model.resized(len(kept)), len(labels)
        resp = sp.csr_array((np.ones(n_rows), labels, np.arange(n_rows + 1)))
        return model.empty_stats().add(model.stats_under(chunk, resp))

    def _alone(self, chunk, labels, n_turns):
        """Statistics and bound of a mixture of the chunk's rows alone, which begins from labels."""
        stats = self._clustered(chunk, labels)
        model = self.model.resized(stats.n_components)
        for _ in range(n_turns):
            globals_ = model.globals_of(FitState(stats))
            stats = model.empty_stats().add(model.local_step(chunk, globals_, self.state.key)[0])
        bound = model.bound(FitState(stats))
        return stats.reorder(np.flatnonzero(stats.value("count") >= LEAST_CHILD)), bound

    def _visit(self, model, globals_, numbers):
        """Statistics of some units under globals."""
        chunks = self.corpus.cut(runs_of(np.sort(numbers)))
        found = self.corpus.map(model.local_step, globals_, self.state.key, chunks=chunks)
        return sum_of_chunks(stats for stats, _ in found)

    def born(self, children, least):
        """The state with some children, and its bound; None if there is no hope of the least."""
        state, K, start, bound = self.state, self.rest.n_components, None, -np.inf
        n_turns = GROUP_TURNS if self.model.tracks_overlap else ROW_TURNS
        for turn in range(n_turns):
            n_more = children.n_components - self.begins_anew
            if n_more < 1:
                return None, -np.inf
            model = self.model.resized(K + n_more)
            learned = self._learned(children)
            if start is None:
                start = self._without_parent().insert(n_more).add(self._placed(children))
            globals_ = model.globals_of(state.with_components(start, learned))
            found = {
                b: self._visit(model, globals_, numbers) for b, (numbers, _) in self.drawn.items()
            }
            start = self.model.carried(self.rest, state.learned, learned).insert(n_more)
            for stats in found.values():
                start.add(stats)
            trial = state.with_components(start, learned)
            before, bound = bound, model.bound(trial)
            if turn + 1 >= LEAST_TURNS and bound > least:
                break  # passes settle them further
            if turn < n_turns - 1:
                # Turns gain less and less.
                if turn and bound + (n_turns - 1 - turn) * (bound - before) < least:
                    return None, -np.inf
                start, children = self._living(start)
        trial.overlap = None
        if state.memo is not None:
            trial.memo = state.remembered(
                lambda b, seen: self._remembered(b, seen, learned, n_more, found.get(b))
            )
        return trial, bound

    def _living(self, stats):
        """Statistics without the children that hold nothing, and those of the others."""
        held = np.arange(stats.n_components)
        old = held < self.rest.n_components
        held = held[old | (stats.value("count") >= LEAST_CHILD)]
        children = held[held >= self.rest.n_components]
        if self.begins_anew:
            children = np.append(self.parent, children)
        return stats.reorder(held), stats.reorder(children)

    def _remembered(self, b, seen, learned, n_more, found):
        """What a batch remembers once its units that were drawn are as found, if there are any."""
        rest = seen if found is None else seen.plus(self.drawn[b][1], -1.0)
        rest = self.model.carried(rest, self.state.learned, learned).insert(n_more)
        return rest if found is None else rest.plus(found)

    def _learned(self, children):
        """What is learned besides, with weights of the children as if all units were drawn."""
        weights = children.value("count")[int(self.begins_anew) :] / self.rate
        weights /= self.state.stats.value("count").sum()
        weights *= min(1.0, MOST_WEIGHT / weights.sum())
        return self.model.add_learned(self.state.learned, weights)

    def _without_parent(self):
        """Statistics of all data but what the parent holds of the units."""
        K, parent = self.rest.n_components, self.parent
        order = np.arange(K)
        order[parent] = K
        left = self.rest.reorder(np.array([parent])).insert(K)
        left = left.reorder(np.append(np.arange(1, K + 1), 0))
        return self.state.stats.insert(1).add(left).reorder(order)

    def _placed(self, children):
        """Statistics of children at their places behind all others."""
        K, n, anew = self.rest.n_components, children.n_components, int(self.begins_anew)
        order = np.arange(n, n + K)  # of empty ones
        order[self.parent] = 0 if anew else order[self.parent]
        return children.insert(K).reorder(np.concatenate([order, np.arange(anew, n)]))
