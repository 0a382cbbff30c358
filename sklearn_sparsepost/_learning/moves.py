"""Moves that change the number of components, accepted only if the whole-data bound rises.

Both are scored exactly and without another pass (Hughes & Sudderth, "Memoized online variational
inference for Dirichlet process mixture models", 2013; Hughes, Kim & Sudderth, "Reliable and
scalable variational inference for the hierarchical Dirichlet process", 2015). What they have to
know of the data is tracked during the pass: see :mod:`sklearn_sparsepost._models.tracking`.

A model is asked for `overlap`, `merge_gain` and `merge_learned`, and for its bound; and for
`merge_gains`, which spares it the bound of each merge.
"""

from functools import partial

import numpy as np
from scipy.special import xlogy

from sklearn_sparsepost._kernels._topl import topl_weights
from sklearn_sparsepost._learning.births import choose_parents, give_birth
from sklearn_sparsepost._learning.topic_moves import (
    Attempts,
    choose_topic_pairs,
    choose_used_by_few,
    delete_topics,
    drop_idle,
)
from sklearn_sparsepost._models.tracking import Change, Track
from sklearn_sparsepost._run.streams import STREAM_MOVES
from sklearn_sparsepost._run.threads import single_blas
from sklearn_sparsepost._tables import distinct_pairs

# Units on which the overlap of components is judged, in runs of neighbours.
SAMPLE_UNITS, SAMPLE_RUNS = 4096, 64
# Components whose removal is tried after a pass: the smallest, no more than fit into this memory.
N_TARGETS, TARGET_BYTES = 8, 1 << 29
# Observations below which a component holds none, and rounding of a bound.
NOTHING, ROUNDING = 1e-6, 1e-13
# Share of the bound by which the terms of two components may miss the change of the whole.
HOPELESS = 1e-9


def pass_with_moves(
    one_pass,
    model,
    corpus,
    state,
    *,
    moves=("merge", "delete"),
    max_components=None,
    clusters=None,
    **options,
):
    """A batch or memoized pass, and then merges, or deletes if no components were merged.

    With births every other pass has these alone, as long as there is anything left to be tried.

    Parameters
    ----------
    one_pass : {batch_pass, memoized_pass}
        The pass.
    model : Model
        Of as many components as its user began with; the state says how many are left.
    corpus : Corpus
        The data.
    state : FitState
        Where the fit stands.
    moves : tuple of {"birth", "merge", "delete"}, default=("merge", "delete")
        Which moves are made.
    max_components : int, default=None
        The most components after births; None for any number.
    clusters : callable, default=None
        ``clusters(chunk, n_clusters, rng)`` labels a chunk's rows by which new components begin;
        births need it.
    **options : dict
        Of the pass.

    Returns
    -------
    state : FitState
        After pass and moves; the last entry of its `history` is the bound by then.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsepost.datasets import make_bars
    >>> from sklearn_sparsepost.models import (
    ...     Admixture, Corpus, DirichletDocuments, Multinomial, begin, batch_pass, pass_with_moves
    ... )
    >>> X, _, doc_topic = make_bars(200, random_state=0)
    >>> documents = DirichletDocuments(np.full(10, 0.05))
    >>> model = Admixture(Multinomial("bayes", np.full((1, 1), 0.1), X.shape[1]), documents, 10)
    >>> corpus = Corpus(X, np.float64)
    >>> state = begin(model, corpus, doc_topic)
    >>> state = pass_with_moves(batch_pass, model, corpus, state)
    >>> bool(state.stats.n_components <= 10)
    True
    """
    most = np.inf if max_components is None else max_components
    births = partial(give_birth, most_components=most, clusters=clusters)
    with single_blas():  # the bits may depend on the threads; once a pass, as it takes a while
        return _pass_and_moves(one_pass, model, corpus, state, moves, most, births, options)


def _pass_and_moves(one_pass, model, corpus, state, moves, most, births, options):
    n_before = state.stats.n_components
    model = model.resized(n_before)
    with corpus.threads():
        track = _track(model, corpus, state, moves, most)
    tried = "delete" not in moves or _may_delete(state, model, moves)
    state = one_pass(model, corpus, state, track=track, **options)
    state.attempts = Attempts(n_before) if state.attempts is None else state.attempts.copy()
    with corpus.threads():
        state = _move(model, corpus, state, track, births)
        if state.stats.n_components != n_before:
            state.local = {}
            state.sum_anew()
            state.note(model, [state.stats])
        state.attempts.are_over = tried and state.stats.n_components == n_before
        state.attempts.have_born = track.parents is not None
        state.attempts.may_bear = _parents(model, state, moves, most) is not None
        model.resized(state.stats.n_components).global_step(state)
    state.tracked = {}
    return state


def _parents(model, state, moves, most):
    """Who may give birth."""
    if "birth" not in moves or not model.can_delete or state.attempts is None:
        return None
    return choose_parents(model, state, most, TARGET_BYTES)


def _track(model, corpus, state, moves, most):
    """What to track in the coming pass."""
    pairs, targets = np.empty((0, 2), dtype=np.intp), []
    if state.attempts is not None and not state.attempts.have_born:
        parents = _parents(model, state, moves, most)
        if parents is not None:
            return Track(pairs, overlap=model.tracks_overlap, parents=parents)
    if "merge" in moves:
        find = choose_topic_pairs if model.tracks_overlap else partial(choose_pairs, corpus=corpus)
        pairs = find(model, state=state)
    if _may_delete(state, model, moves):
        n_batches = len(state.memo) if state.memo else 1
        found = choose_used_by_few(state) if model.tracks_overlap else None
        targets = choose_targets(state, n_batches) if found is None else found
    return Track(pairs, targets, overlap=model.tracks_overlap)


def _may_delete(state, model, moves):
    """Whether deletes are tried: not, where they cost local steps, while merges go on."""
    settled = state.attempts is None or state.attempts.are_settled
    return "delete" in moves and model.can_delete and (settled or not model.tracks_overlap)


def _move(model, corpus, state, track, births):
    """Make the moves that were tracked, as far as the bound rises."""
    n_before, bound = state.stats.n_components, state.history[-1]
    found = [state.tracked[b] for b in sorted(state.tracked)]
    state.overlap = sum(part.overlap for part in found) if track.overlap else None
    if track.parents is not None:
        state, bound = births(model, corpus, state, track.parents, bound)
        state.history[-1] = bound
        return state
    state, bound = merge_components(model, state, track.pairs, bound)
    if state.stats.n_components == n_before:  # what was tracked is still true
        if model.tracks_overlap:
            state, bound = delete_topics(model, corpus, state, track.targets, bound)
        else:
            state, bound = delete_component(model, state, track.targets, bound)
    if model.tracks_overlap and model.can_delete:
        slim = drop_idle(model.resized(state.stats.n_components), state)
        if slim is not state:
            state, bound = slim, model.resized(slim.stats.n_components).bound(slim)
    state.history[-1] = bound
    return state


def choose_pairs(model, corpus, state):
    """Pairs of components worth tracking in the coming pass.

    Parameters
    ----------
    model : Model
        The model.
    corpus : Corpus
        The data.
    state : FitState
        Where the fit stands.

    Returns
    -------
    pairs : ndarray of shape (n_pairs, 2), intp
        At most one pair a component: those that overlap most, and for components that hold less
        than one observation also the largest component.
    """
    K = model.n_components
    if K < 2:
        return np.empty((0, 2), dtype=np.intp)
    rng = state.rng(STREAM_MOVES, state.n_passes)
    n_runs = min(SAMPLE_RUNS, corpus.n_samples)
    length = min(SAMPLE_UNITS // SAMPLE_RUNS, corpus.n_samples // n_runs)
    firsts = np.sort(rng.integers(0, corpus.n_samples - length + 1, n_runs))
    chunk = corpus.chunk([(int(first), int(first) + length) for first in firsts])
    with corpus.threads(), single_blas():
        overlap = model.overlap(chunk, model.globals_of(state))
    size = np.maximum(np.sqrt(np.diag(overlap)), 1e-100)  # its products do not underflow
    overlap /= size[:, None] * size
    np.fill_diagonal(overlap, -1)
    partner = topl_weights(overlap, 1)[0][:, 0].astype(np.intp)
    count = state.stats.value("count")
    idle = count < 1
    partner[idle] = np.argmax(count)
    pairs = np.sort(np.stack([np.arange(K), partner], axis=1), axis=1)
    pairs = distinct_pairs(pairs[pairs[:, 0] < pairs[:, 1]])[0]
    # The most alike first; those with an idle component before all.
    rank = overlap[pairs[:, 0], pairs[:, 1]] + 2 * (idle[pairs[:, 0]] | idle[pairs[:, 1]])
    return pairs[np.argsort(-rank, kind="stable")]


def choose_targets(state, n_batches):
    """Components whose removal is worth tracking in the coming pass: the smallest with data."""
    n_bytes = n_batches * sum(array.nbytes for array in state.stats.arrays.values())
    n_targets = max(1, min(N_TARGETS, TARGET_BYTES // n_bytes))
    count = state.stats.value("count")
    order = np.argsort(count, kind="stable")
    order = order[count[order] >= NOTHING]
    return order[:n_targets].tolist() if len(order) > 1 else []


def merge_components(model, state, pairs, bound):
    """Merge tracked pairs as long as the bound rises.

    Parameters
    ----------
    model : Model
        Of as many components as the state has.
    state : FitState
        After a pass that tracked the pairs; not written to.
    pairs : ndarray of shape (n_pairs, 2)
        Components.
    bound : float
        The bound of the state.

    Returns
    -------
    state : FitState
        After the merges.
    bound : float
        Its bound.
    """
    position = np.arange(model.n_components)  # of each component by now
    touched = set()
    accepted = []
    first, contents = state, model.merge_gains(state, pairs)
    if contents is not None:  # all that large tables are read for; they are merged once, at the end
        state = state.with_components(state.stats.without(_tables_of(state.stats)), state.learned)
    attempts = None if state.attempts is None else state.attempts.copy()
    for slot, pair in enumerate(pairs.tolist()):
        if touched & set(pair):
            continue  # what the bound loses by it is no longer known
        kept, absorbed = sorted(position[pair].tolist())
        count = state.stats.value("count")
        loss = _loss(state, slot)
        target = np.where(position == absorbed, kept, position)
        target[target > absorbed] -= 1
        content = None if contents is None else contents[slot]
        whole = partial(_filled, first, target)
        trial, found = _try_merge(model, state, kept, absorbed, loss, bound, content, whole)
        least = max(min(count[kept], count[absorbed]), 0.0)
        # The bound may not notice that a component without data is gone.
        slack = ROUNDING * abs(bound) if least < NOTHING else 0.0
        if not found > bound - slack:
            if attempts is not None:
                attempts.fail([kept, absorbed], count)
            continue
        if state.overlap is not None:
            trial.overlap = _folded(state.overlap, kept, absorbed)
        if attempts is not None:
            attempts.keep(np.delete(np.arange(len(count)), absorbed))
        state, bound = trial, found
        accepted.append(slot)
        model = model.resized(model.n_components - 1)
        # What moves without being noticed changes no other loss of who gets it: many may.
        total = state.stats.value(model.unit)
        noticed = _most_entropy(least, total) > ROUNDING * abs(bound)
        emptied = pair[int(np.argmin(count[position[pair]]))]
        touched.update(pair if noticed else (emptied,))
        position = target
    if contents is not None:
        state = _filled(first, position, state) if accepted else first
        bound = model.bound(state) if accepted else bound
    if state.memo is not None and accepted:
        fold = partial(_folded_memory, position=position, pairs=pairs[accepted])
        state.memo = state.remembered(
            lambda b, seen: fold(seen, [_loss_of(state.tracked[b], slot) for slot in accepted])
        )
    if attempts is not None:
        if not accepted:
            state = state.with_components(state.stats, state.learned)
        attempts.note(state.n_passes, "merge", len(pairs), len(accepted), model.n_components)
        state.attempts = attempts
    return state, bound


def _try_merge(model, state, kept, absorbed, loss, bound, content, whole):
    """The state after a merge and its bound, or None where there is no hope.

    With what it gains in `content` the terms of two components say all, but where they might err;
    `whole` puts the tables to a state that has none.
    """
    lost = sum(loss[name] for name in loss if name in state.stats.scalars)
    known = () if content is None else (content,)
    gain = model.merge_gain(state, kept, absorbed, *known) - lost
    if gain < -HOPELESS * abs(bound):
        return None, -np.inf
    learned = model.merge_learned(state.learned, kept, absorbed)
    trial = state.with_components(_merged(state.stats, kept, absorbed, loss), learned)
    if known and gain > HOPELESS * abs(bound):
        return trial, bound + gain
    return trial, model.resized(model.n_components - 1).bound(whole(trial))


def _tables_of(stats):
    """Names of arrays that have more than a number a component."""
    return {name for name, array in stats.arrays.items() if np.ndim(array) > 1}


def _filled(first, target, state):
    """A state with the tables that it lacks, of one whose components went to `target`."""
    if state.stats.arrays.keys() == first.stats.arrays.keys():
        return state
    return state.with_components(state.stats.filled(first.stats, target), state.learned)


def _folded(overlap, kept, absorbed):
    """How components overlap once one is merged into another."""
    overlap = overlap.copy()
    overlap[kept] += overlap[absorbed]
    overlap[:, kept] += overlap[:, absorbed]
    return np.delete(np.delete(overlap, absorbed, axis=0), absorbed, axis=1)


def _folded_memory(seen, losses, *, position, pairs):
    """Statistics of a batch after all merges: each component is where `position` says."""
    merged = seen.fold(position)
    for (kept, _), loss in zip(pairs, losses, strict=True):
        _take(merged, position[kept], loss)
    return merged


def _loss_of(tracked, slot):
    """What each scalar of some statistics loses by a merge."""
    return {name: loss[slot] for name, loss in tracked.merge_loss.items()}


def _loss(state, slot):
    """The same of all data."""
    parts = [_loss_of(state.tracked[b], slot) for b in sorted(state.tracked)]
    return {name: sum(part[name] for part in parts) for name in parts[0]}


def _merged(stats, kept, absorbed, loss):
    """Statistics after a merge, and after what it costs."""
    merged = stats.merge(kept, absorbed)
    _take(merged, kept, loss)
    return merged


def _take(stats, component, loss):
    """Take from statistics, in place, what a merge into a component has cost."""
    for name, value in loss.items():
        if name in stats.scalars:
            stats.scalars[name] -= value / stats.factor
        else:
            stats.arrays[name][component] -= value / stats.factor


def _most_entropy(amount, total):
    """The most by which moving responsibilities of a sum changes another merge's entropy loss.

    With ``h(x) = x log x`` a row's loss ``h(a + b) - h(a) - h(b)`` rises with `a`, for
    ``a + b <= 1`` and `a` rising by `e` by ``h(1 + e) - h(e) <= 2 e - h(e)`` or less, which is
    concave in `e`: at most if all rows, of weight `total`, share the amount equally.
    """
    return 2 * amount - xlogy(amount, amount / total)


def delete_component(model, state, targets, bound):
    """Remove one of the tracked components if the bound rises by it.

    Parameters
    ----------
    model : Model
        Of as many components as the state has.
    state : FitState
        After a pass that tracked the targets, and with as many components as then; not written to.
    targets : list of int
        The components.
    bound : float
        The bound of the state.

    Returns
    -------
    state : FitState
        After the removal of the component whose loss raises the bound most, or the same.
    bound : float
        Its bound.
    """
    best = state
    smaller = model.resized(model.n_components - 1)
    for slot, target in enumerate(targets):
        parts = {b: found.removals[slot] for b, found in sorted(state.tracked.items())}
        trial = state.with_components(
            Change.sum(parts.values()).apply(state.stats, target), state.learned
        )
        found = smaller.bound(trial)
        if found > bound:
            best, bound = trial, found
            removed = target, parts
    if best is not state and state.memo is not None:
        target, parts = removed
        best.memo = state.remembered(
            lambda b, seen: parts[b].apply(model.empty_stats().add(seen), target).compact()
        )
    if state.attempts is not None:
        best = best.with_components(best.stats, best.learned)
        best.attempts = state.attempts.copy()
        if best.stats.n_components < model.n_components:
            best.attempts.keep(np.delete(np.arange(model.n_components), removed[0]))
        n_gone = model.n_components - best.stats.n_components
        best.attempts.note(state.n_passes, "delete", len(targets), n_gone, best.stats.n_components)
    return best, bound
