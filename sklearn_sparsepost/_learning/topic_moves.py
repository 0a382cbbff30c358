"""Moves of mixed membership: which topics to merge or delete, and deletes that visit groups anew.

Candidates are those of Hughes, Kim & Sudderth, "Reliable and scalable variational inference for the
hierarchical Dirichlet process", 2015, section 5, and topics that are alike: duplicates that live in
different documents are not correlated. A delete takes the groups that use a topic out of the
statistics, and fits them without it.
"""

from functools import partial

import numpy as np

from sklearn_sparsepost._models.tracking import MOST_USERS
from sklearn_sparsepost._suffstats import exact_sum, sum_of_chunks

# Pairs a pass, of those that correlate and of those that are alike, and the least of either.
N_PAIRS, LEAST_CORRELATION, LEAST_SIMILARITY = 50, 0.05, 0.3
# Components a pass that may be deleted, failures in a row after which no more are tried, and local
# steps of a trial.
N_TARGETS, MOST_FAILURES, N_TURNS = 10, 3, 2
# What the dense statistics of those who use components that may be deleted may take.
TARGET_BYTES = 1 << 28
# Share by which a component's size changes until what failed with it is tried again.
CHANGED = 0.05
# What a component holds of which nobody would notice that it is gone.
IDLE = 1e-6
# What single precision may lose of a component's observations.
ROUNDING = 1e-4
# What is recorded of the moves of a pass.
TRIED = [
    ("n_iter", "i8"),
    ("move", "U6"),
    ("tried", "i8"),
    ("accepted", "i8"),
    ("n_components", "i8"),
]


class Attempts:
    """What has been tried: components have names, so that they may come and go.

    Parameters
    ----------
    n_components : int
        How many there are.
    """

    def __init__(self, n_components):
        self.names = np.arange(n_components)
        self.n_named = n_components
        self.failed = {}  # sizes of the components by then
        self.log = []
        self.are_settled = True  # whether the last merges changed nothing, so that deletes may
        self.are_over = False  # whether the last pass has tried all moves in vain
        self.have_born = False  # whether the last pass was one of births: other moves come next
        self.may_bear = False  # whether there are births left to be tried

    def copy(self):
        """A copy to be written to."""
        new = Attempts(0)
        new.names, new.n_named = self.names, self.n_named
        new.failed, new.log = dict(self.failed), list(self.log)
        new.are_settled, new.are_over = self.are_settled, self.are_over
        new.have_born, new.may_bear = self.have_born, self.may_bear
        return new

    def fail(self, which, count, kind=None):
        """Note that nothing came of some components, of which `count` are the sizes."""
        self.failed[self._key(which, kind)] = count[list(which)]

    def is_known(self, which, count, kind=None):
        """Whether it failed, and none of the components has changed since."""
        sizes = self.failed.get(self._key(which, kind))
        return sizes is not None and np.allclose(count[list(which)], sizes, rtol=CHANGED)

    def _key(self, which, kind):
        # One component may fail to be deleted, and to give birth.
        return kind, *np.sort(self.names[list(which)]).tolist()

    def grow(self, n_more):
        """Name more components, after the others."""
        self.names = np.concatenate([self.names, self.n_named + np.arange(n_more)])
        self.n_named += n_more

    def keep(self, which):
        """Forget the names of all components but these."""
        self.names = self.names[which]

    def n_targets(self):
        """Deletes to prepare for: as many as the last pass accepted, and those that may fail."""
        accepted = [entry[3] for entry in self.log if entry[1] == "delete"]
        return accepted[-1] + MOST_FAILURES + 2 if accepted else N_TARGETS

    def note(self, n_passes, kind, tried, accepted, n_components):
        """Add to the record what a pass has tried."""
        if kind == "merge":
            self.are_settled = not accepted
        if tried:
            self.log.append((n_passes, kind, tried, accepted, n_components))


def choose_topic_pairs(model, state):
    """Pairs of components worth tracking in the coming pass.

    Parameters
    ----------
    model : Model
        The model.
    state : FitState
        After a pass that has tracked how components overlap, if it is not the first.

    Returns
    -------
    pairs : ndarray of shape (n_pairs, 2), intp
        Those that correlate most and those that are most alike, each best first, but for what is
        known to fail.
    """
    if state.overlap is None or len(state.overlap) < 2:
        return np.empty((0, 2), dtype=np.intp)
    count = state.stats.value("count")
    mean = count / max(state.stats.value("n_samples"), 1)
    scatter = state.overlap / max(state.stats.value("n_samples"), 1) - np.outer(mean, mean)
    variance = np.maximum(np.diag(scatter), 0)
    spread = np.sqrt(np.where(count > IDLE, variance, np.inf))
    spread[~(spread > 0)] = np.inf  # what all groups use alike
    scores = [(scatter / spread / spread[:, None], LEAST_CORRELATION)]
    alike = model.similarity(state)
    if alike is None:  # how much they are used together at all
        size = np.sqrt(np.maximum(np.diag(state.overlap), np.finfo(float).tiny))
        scores.append((state.overlap / size / size[:, None], 0.0))
    else:
        scores.append((alike, LEAST_SIMILARITY))
    pairs = {}
    one, two = np.triu_indices(len(count), 1)
    for score, least in scores:
        value = score[one, two]
        high = np.flatnonzero(value > least)
        for at in high[np.argsort(-value[high], kind="stable")][:N_PAIRS]:
            pair = int(one[at]), int(two[at])
            if not state.attempts.is_known(pair, count):
                pairs[pair] = None
    return np.array(list(pairs), dtype=np.intp).reshape(-1, 2)


def choose_used_by_few(state):
    """Components that few groups use, the smallest first, but for what is known to fail.

    Parameters
    ----------
    state : FitState
        Where the fit stands.

    Returns
    -------
    targets : list of int
        The components.
    """
    stats, n_batches = state.stats, len(state.memo) if state.memo else 1
    count = stats.value("count")
    # Tables of words come as sparse as they are used.
    dense = [array.nbytes for name, array in stats.arrays.items() if stats.axes[name] == 0]
    n_targets = min(N_TARGETS, max(1, TARGET_BYTES // (n_batches * sum(dense))))
    if state.attempts is not None:
        n_targets = min(n_targets, state.attempts.n_targets())
    order = np.argsort(count, kind="stable")
    targets = []
    for component in order[count[order] >= IDLE].tolist():
        if len(targets) == n_targets or len(count) < 2:
            break
        if state.attempts is None or not state.attempts.is_known([component], count):
            targets.append(component)
    return targets


def drop_idle(model, state):
    """Take components out that hold nothing; the others stay as they are.

    Parameters
    ----------
    model : Model
        Of as many components as the state has.
    state : FitState
        Where the fit stands; not written to.

    Returns
    -------
    state : FitState
        With fewer components, or the same.
    """
    count = state.stats.value("count")
    held = np.flatnonzero(count >= IDLE)
    if len(held) == len(count) or not len(held):
        return state
    learned = state.learned
    for component in np.flatnonzero(count < IDLE)[::-1]:
        learned = model.drop_learned(learned, int(component))
    trial = state.with_components(state.stats.reorder(held), learned)
    if state.memo is not None:
        trial.memo = state.remembered(lambda _, seen: seen.reorder(held))
    if state.overlap is not None:
        trial.overlap = state.overlap[np.ix_(held, held)]
    trial.attempts = state.attempts.copy()
    trial.attempts.keep(held)
    n_gone = len(count) - len(held)
    trial.attempts.note(state.n_passes, "empty", n_gone, n_gone, len(held))
    return trial


def delete_topics(model, corpus, state, targets, bound):
    """Delete components as long as the bound rises, their groups being fitted without them.

    Parameters
    ----------
    model : Model
        Of as many components as the state has.
    corpus : Corpus
        The data.
    state : FitState
        After a pass that has tracked who uses the targets, and with the same components as then;
        not written to.
    targets : list of int
        Components.
    bound : float
        The bound of the state.

    Returns
    -------
    state : FitState
        After the deletes.
    bound : float
        Its bound.
    """
    first, attempts = state.attempts.names, state.attempts.copy()
    names = first[targets]
    state = state.with_components(state.stats, state.learned)
    state.attempts = attempts
    visited, tried, accepted, failures = np.empty(0, dtype=np.intp), 0, 0, 0
    for slot, name in enumerate(names):
        users = {b: found.removals[slot] for b, found in sorted(state.tracked.items())}
        numbers = np.concatenate([part.numbers for part in users.values()])
        component = int(np.flatnonzero(attempts.names == name)[0])
        count = state.stats.value("count")
        if failures == MOST_FAILURES or len(count) < 2:
            break
        if len(numbers) > MOST_USERS:
            attempts.fail([component], count)
            continue
        if np.intersect1d(visited, numbers).size:
            continue  # their statistics are no longer what was tracked
        held = sum(part.stats.value("count")[targets[slot]] for part in users.values())
        if count[component] > held * (1 + ROUNDING):
            continue  # groups that were fitted anew use it by now
        tried += 1
        smaller = model.resized(model.n_components - 1)
        gone = [at for at in range(slot) if names[at] not in attempts.names]
        parts = _present(users, targets, gone)
        trial, turns = _without(smaller, corpus, state, component, parts)
        found = smaller.bound(trial)
        if found > bound and state.memo is not None:
            fitted = _by_batch(smaller, corpus, trial, parts, turns)
            found = smaller.bound(trial)  # of sums in another order
        if not found > bound:
            attempts.fail([component], count)
            failures += 1
            del trial  # the next one takes its memory
            continue
        failures, accepted = 0, accepted + 1
        if state.memo is not None:
            without = partial(_without_component, component=component, parts=parts, fitted=fitted)
            trial.memo = state.remembered(without)
        state, model, bound = trial, smaller, found
        attempts.keep(np.delete(np.arange(len(count)), component))
        visited = np.concatenate([visited, numbers])
    if accepted and state.overlap is not None:
        held = np.isin(first, attempts.names)
        state.overlap = state.overlap[np.ix_(held, held)]
    attempts.note(state.n_passes, "delete", tried, accepted, state.stats.n_components)
    return state, bound


def _present(users, targets, gone):
    """Statistics of groups, batch by batch, without components that have been deleted since."""
    parts = {}
    for b, part in users.items():
        stats = part.stats
        held = np.delete(np.arange(stats.n_components), [targets[at] for at in gone])
        parts[b] = part.numbers, stats.reorder(held) if gone else stats
    return parts


def _without(smaller, corpus, state, component, parts):
    """The state without a component but for its memory, and the groups that used it fitted anew.

    Those of all batches are fitted together: most trials fail, and then nobody asks which batch
    they are of. What the last turn but one and the last one found of them comes along.
    """
    learned = smaller.drop_learned(state.learned, component)
    trial = state.with_components(state.stats.drop(component), learned)
    trial.tracked = state.tracked
    before = None
    found = [exact_sum((stats for _, stats in parts.values()), apart=True).drop(component)]
    together = np.concatenate([numbers for numbers, _ in parts.values()])
    for _ in range(N_TURNS if len(together) else 0):
        before, found = found, [_fitted(smaller, corpus, trial, together)]
        _exchange(trial.stats, found, before)
    return trial, (before, found)


def _by_batch(smaller, corpus, trial, parts, turns):
    """Statistics of each batch's groups as the last turn found them, which replace their sum."""
    before, found = turns
    if before is None:
        return {}
    _exchange(trial.stats, before, found)
    fitted = {
        b: _fitted(smaller, corpus, trial, numbers)
        for b, (numbers, _) in parts.items()
        if len(numbers)
    }
    _exchange(trial.stats, fitted.values(), before)
    return fitted


def _fitted(model, corpus, state, numbers):
    """Statistics of the groups of these numbers under a state, which is only read."""
    globals_, chunks = model.globals_of(state), corpus.cut(runs_of(numbers))
    return sum_of_chunks(
        stats for stats, _ in corpus.map(model.local_step, globals_, state.key, chunks=chunks)
    )


def _exchange(stats, new, old):
    """Take some statistics away, and add others, in place."""
    for part in old:
        stats.add(part, -1.0)
    for part in new:
        stats.add(part)


def _without_component(b, seen, *, component, parts, fitted):
    """Statistics of a batch without a component; of those in `fitted` units were fitted anew."""
    if b not in fitted:
        return seen.drop(component)
    return seen.plus(parts[b][1], -1.0).drop(component).plus(fitted[b])


def runs_of(numbers):
    """Runs of neighbours among sorted numbers."""
    numbers = np.sort(numbers)
    breaks = np.flatnonzero(np.diff(numbers) > 1)
    first = numbers[np.concatenate([[0], breaks + 1])]
    last = numbers[np.concatenate([breaks, [len(numbers) - 1]])]
    return [(int(a), int(b) + 1) for a, b in zip(first, last, strict=True)]
