"""The variational loops - batch, online, memoized - written once for every model.

A loop is a function ``one_pass(model, corpus, state) -> state`` that goes once over the data. The
state before it stays true, whatever ends the pass. What a loop asks of a model is declared in
:class:`~sklearn_sparsepost.models.Model`.
"""

import numpy as np

from sklearn_sparsepost._run.chunks import deal_units
from sklearn_sparsepost._run.kept_sums import coming
from sklearn_sparsepost._run.streams import STREAM_BATCHES, STREAM_ORDER
from sklearn_sparsepost._suffstats import exact_sum, sum_of_chunks

# Samples that a stream without a fit before it is thought to have.
STREAM_SIZE = 1e6


def _visit(model, corpus, state, b, chunks, track=None, total=exact_sum, *, remembers=False):
    """Statistics of the chunks of a batch; what their next local step starts from is kept."""
    keeps = model.keeps_local
    starts = (state.local.get(b) or None) if keeps else None
    kept = []
    globals_ = model.globals_of(state, track)
    given = model.local_step, globals_, state.key
    options = {"total": total, "source": state.stats, "keeps": keeps, "remembers": remembers}
    for stats, local in corpus.visit(*given, chunks=chunks, starts=starts, **options):
        if keeps:
            kept.extend(local)
        del local  # or it would be held beside the next
        yield stats
        del stats  # so that no more is held than the sum and what is found next
    if keeps:
        state.local[b] = kept


def batch_pass(model, corpus, state, *, evaluate_every=1, track=None):
    """Coordinate ascent: one local step for all data, then one global step.

    Parameters
    ----------
    model : Model
        The model.
    corpus : Corpus
        The data.
    state : FitState
        Where the fit stands.
    evaluate_every : int, default=1
        Compute the bound every so many passes, 0 for never.
    track : Track, default=None
        What moves want to know; they come before what is learned besides statistics.

    Returns
    -------
    state : FitState
        Where it stands after the global step: the last entry of its `history` is the bound before
        that, NaN if not wanted.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsepost.datasets import make_bars
    >>> from sklearn_sparsepost.models import (
    ...     Admixture, Corpus, DirichletDocuments, Multinomial, begin, batch_pass
    ... )
    >>> X, _, doc_topic = make_bars(200, random_state=0)
    >>> documents = DirichletDocuments(np.full(10, 0.05))
    >>> model = Admixture(Multinomial("bayes", np.full((1, 1), 0.1), X.shape[1]), documents, 10)
    >>> corpus = Corpus(X, np.float64)
    >>> state = begin(model, corpus, doc_topic)
    >>> state = batch_pass(model, corpus, state)
    >>> len(state.history)
    1
    """
    with corpus.threads():
        state = state.next()
        total = model.empty_stats()
        for stats in _visit(model, corpus, state, 0, corpus.plan(), track):
            total.add(stats)
            del stats
        state.tracked[0], total.tracked = total.tracked, None
        state.stats = total
        state.note(model, [total])
        return _end(model, state, evaluate_every, learns=track is None)


def _is_evaluated(model, state, evaluate_every):
    """Whether there is a bound that is wanted after the pass that the state is in."""
    due = evaluate_every > 0 and (state.n_passes + 1) % evaluate_every == 0
    return due and model.has_bound


def _end(model, state, evaluate_every, stats=None, learns=True):
    """End a pass: the bound, and then what is learned besides statistics, but after moves."""
    evaluated = _is_evaluated(model, state, evaluate_every)
    state.end_pass(model, model.bound(state, stats) if evaluated else np.nan)
    if learns:
        model.global_step(state)
    return state


def step_size(state, decay, offset):
    """rho_t = (offset + t) ** -decay for the t-th update, at most 1 (Hughes & Sudderth 2016, 6)."""
    # Numpy's numbers may be of single precision, in which statistics cannot be scaled.
    return min(1.0, (float(offset) + state.head_start + state.n_updates) ** -float(decay))


def _online_update(model, corpus, state, chunks, *, decay, offset, total_samples):
    """One step of stochastic inference on a batch: moves the state, returns the chunks' sums."""
    globals_ = model.globals_of(state)
    given = model.local_step, globals_, state.key
    found = corpus.visit(*given, total=exact_sum, source=state.stats, chunks=chunks)
    seen = [stats for stats, _ in found]
    n_samples = sum(stats["n_samples"] for stats in seen)
    state.n_updates += 1
    rate = step_size(state, decay, offset)
    if rate < 1:
        state.stats.scale(1 - rate)
    else:
        state.stats.clear()
    for stats in seen:
        state.stats.add(stats, rate * total_samples / n_samples)
    state.note(model, seen)
    return seen


def online_pass(model, corpus, state, *, batch_size, decay=0.7, offset=64.0, evaluate_every=1):
    """A pass of stochastic variational inference over freshly dealt batches.

    Parameters
    ----------
    model : Model
        The model.
    corpus : Corpus
        The data.
    state : FitState
        Where the fit stands.
    batch_size : int
        Units a batch.
    decay : float, default=0.7
        Decay of the step size.
    offset : float, default=64.0
        Slows the first steps down.
    evaluate_every : int, default=1
        Compute the bound every so many passes, 0 for never.

    Returns
    -------
    state : FitState
        Where it stands at the end of the pass: the last entry of its `history` is the bound of the
        units' local posteriors, each as its batch left it, under the globals at the end.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsepost.datasets import make_bars
    >>> from sklearn_sparsepost.models import (
    ...     Admixture, Corpus, DirichletDocuments, Multinomial, begin, online_pass
    ... )
    >>> X, _, doc_topic = make_bars(200, random_state=0)
    >>> documents = DirichletDocuments(np.full(10, 0.05))
    >>> model = Admixture(Multinomial("bayes", np.full((1, 1), 0.1), X.shape[1]), documents, 10)
    >>> corpus = Corpus(X, np.float64)
    >>> state = begin(model, corpus, doc_topic)
    >>> state = online_pass(model, corpus, state, batch_size=50)
    >>> state.n_updates
    4
    """
    with corpus.threads():
        state, before = state.next(), state
        state.stats = before.stats.copy(before.spare)
        before.spare = None
        n_batches = -(-corpus.n_samples // batch_size)
        batches = deal_units(corpus.n_samples, n_batches, state.rng(STREAM_BATCHES, state.n_passes))
        total = model.empty_stats() if _is_evaluated(model, state, evaluate_every) else None
        reports = []
        for b in state.rng(STREAM_ORDER, state.n_passes).permutation(n_batches):
            seen = _online_update(
                model,
                corpus,
                state,
                corpus.cut(batches[b]),
                decay=decay,
                offset=offset,
                total_samples=corpus.n_samples,
            )
            reports.append(state.report)
            if total is not None:
                for stats in seen:
                    total.add(stats)
        state.report = {name: sum(report[name] for report in reports) for name in reports[0]}
        state = _end(model, state, evaluate_every, total)
        state.spare = total
        return state


def stream_update(
    model, corpus, state, *, decay=0.7, offset=64.0, total_samples=None, begins=False
):
    """One step of stochastic variational inference on the next batch of a stream.

    Parameters
    ----------
    model : Model
        The model.
    corpus : Corpus
        The batch.
    state : FitState
        Where the fit stands; moves in place, and so do its statistics.
    decay : float, default=0.7
        Decay of the step size.
    offset : float, default=64.0
        Slows the first steps down.
    total_samples : float, default=None
        How many samples the stream is thought to have. By default, after a fit as many as have
        been seen, else `STREAM_SIZE`.
    begins : bool, default=False
        Whether the state is a start that was made from these samples.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsepost.datasets import make_bars
    >>> from sklearn_sparsepost.models import (
    ...     Admixture, Corpus, DirichletDocuments, Multinomial, begin, stream_update
    ... )
    >>> X, _, doc_topic = make_bars(200, random_state=0)
    >>> documents = DirichletDocuments(np.full(10, 0.05))
    >>> model = Admixture(Multinomial("bayes", np.full((1, 1), 0.1), X.shape[1]), documents, 10)
    >>> corpus = Corpus(X, np.float64)
    >>> state = begin(model, corpus, doc_topic)
    >>> stream_update(model, corpus, state)
    >>> state.n_seen
    200
    """
    n_samples = corpus.n_samples
    decay, offset = float(decay), float(offset)  # see `step_size`
    total_samples = None if total_samples is None else float(total_samples)
    if state.n_fitted and state.n_seen == state.n_fitted:
        # So many steps that the next one weighs a batch by its share of all samples.
        step = (1 + state.n_fitted / n_samples) ** (1 / decay)
        state.head_start = step - offset - state.n_updates - 1
    stands_for = state.n_seen
    state.n_seen += n_samples
    if total_samples is None:
        total_samples = state.n_seen if state.n_fitted else STREAM_SIZE
        if state.n_fitted:  # what has been learned is of one more batch by now
            state.stats.scale(total_samples / stands_for)
    if begins:
        state.stats.scale(total_samples / n_samples)
    with corpus.threads():
        _online_update(
            model,
            corpus,
            state,
            corpus.plan(),
            decay=decay,
            offset=offset,
            total_samples=total_samples,
        )
        model.global_step(state, step_size(state, decay, offset))


def memoized_pass(model, corpus, state, *, n_batches=10, evaluate_every=1, track=None):
    """A pass of memoized inference: every batch's old statistics out, its new ones in.

    In the first pass the start stands in for the batches not yet visited, in proportion to their
    samples; without that the topics would lock into the first batch.

    Parameters
    ----------
    model : Model
        The model.
    corpus : Corpus
        The data.
    state : FitState
        Where the fit stands.
    n_batches : int, default=10
        Batches, dealt once a fit; at most one a unit.
    evaluate_every : int, default=1
        Compute the bound every so many passes, 0 for never.
    track : Track, default=None
        What moves want to know; they come before what is learned besides statistics.

    Returns
    -------
    state : FitState
        Where it stands at the end of the pass: the last entry of its `history` is the exact bound.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsepost.datasets import make_bars
    >>> from sklearn_sparsepost.models import (
    ...     Admixture, Corpus, DirichletDocuments, Multinomial, begin, memoized_pass
    ... )
    >>> X, _, doc_topic = make_bars(200, random_state=0)
    >>> documents = DirichletDocuments(np.full(10, 0.05))
    >>> model = Admixture(Multinomial("bayes", np.full((1, 1), 0.1), X.shape[1]), documents, 10)
    >>> corpus = Corpus(X, np.float64)
    >>> state = begin(model, corpus, doc_topic)
    >>> for _ in range(2):
    ...     state = memoized_pass(model, corpus, state, n_batches=4)
    >>> bool(state.history[1] > state.history[0])
    True
    """
    with corpus.threads():
        state, before = state.next(), state
        if state.memo is None:
            _deal_batches(corpus, state, before, min(n_batches, corpus.n_samples))
        state.stats = before.lend_stats()
        chunks = [corpus.cut(runs) for runs in state.batches]
        late = None  # what was found of a batch and is not in the totals yet
        *order, last = state.rng(STREAM_ORDER, state.n_passes).permutation(len(chunks))
        for b in order:
            late = _memoized_update(model, corpus, state, b, chunks[b], track, late)
        _memoized_visit(model, corpus, state, last, chunks[last], track, late)
        # From scratch, so that no rounding of what came and went stays.
        state.sum_of_memory(state.stats)
        state.stand_in = None
        state.note(model, [state.stats])
        return _end(model, state, evaluate_every, learns=track is None)


def _deal_batches(corpus, state, before, n_batches):
    """Begin a memory, in which the statistics so far stand in for all batches."""
    state.batches = deal_units(corpus.n_samples, n_batches, state.rng(STREAM_BATCHES))
    state.memo = [None] * n_batches
    state.stand_in = before.stand_in = before.stats.compact()
    state.n_units = corpus.n_samples
    state.local = {}


def _memoized_visit(model, corpus, state, b, chunks, track, late):
    """Visit one batch, without what the totals hold of it if so it is to be, and remember its sum.

    Then what was found late of the batch before goes in, too.
    """
    if model.leaves_out and state.memo[b] is not None:
        state.stats.exchange(late, coming(state.memo[b])())
    # One table a batch: those of its chunks would hold the same features many times.
    visit = _visit(model, corpus, state, b, chunks, track, sum_of_chunks, remembers=True)
    new = sum_of_chunks(visit)
    state.tracked[b], new.tracked = new.tracked, None
    state.memo[b] = corpus.keep_sum(new, state.memo[b])
    return new


def _memoized_update(model, corpus, state, b, chunks, track, late):
    """Visit one batch: replace what the totals hold of it, or return what is to be added later."""
    old = state.memo[b]
    if old is not None and model.leaves_out:
        return _memoized_visit(model, corpus, state, b, chunks, track, late)
    old_sum = coming(old)  # while workers are at the new one
    new = _memoized_visit(model, corpus, state, b, chunks, track, late)
    if old is None:
        gone = state.stand_in, -new["n_samples"] / corpus.n_samples
    else:
        gone = old_sum(), -1.0
    state.stats.add_in_turn(gone, (new, 1.0))
    return None


def averaged_pass(one_pass, average_after, state):
    """A pass, and its statistics added to those whose mean over passes is wanted.

    Parameters
    ----------
    one_pass : callable
        ``one_pass(state) -> state``.
    average_after : int
        The passes before the first that is added.
    state : FitState
        Where the fit stands.

    Returns
    -------
    state : FitState
        Where it stands after the pass.
    """
    state = one_pass(state)
    if state.n_passes > average_after:
        state.average()
    return state
