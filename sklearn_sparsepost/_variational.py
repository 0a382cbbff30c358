"""What the estimators share that are learned by a bound: passes, streams, warm starts."""

from functools import partial
from numbers import Integral, Real

import numpy as np

from sklearn_sparsepost._base import BaseSparsePosterior
from sklearn_sparsepost._checks import (
    MOST_COUNT,
    MOST_INTEGER,
    Interval,
    StrOptions,
    fingerprint,
)
from sklearn_sparsepost._learning.loops import (
    batch_pass,
    memoized_pass,
    online_pass,
    stream_update,
)
from sklearn_sparsepost._learning.moves import pass_with_moves
from sklearn_sparsepost._starts.clusters import clusters_of

# Moves there are, and those that are made where nothing else is said.
MOVES, DEFAULT_MOVES = ("birth", "merge", "delete"), ("merge", "delete")
# Batches of memoized learning where nobody says how many: of one block, and of blocks whose workers
# wait for each other after each.
N_BATCHES, N_BATCHES_OF_BLOCKS = 10, 4
PASSES = {"batch": batch_pass, "online": online_pass, "memoized": memoized_pass}


class BaseVariational(BaseSparsePosterior):
    """Base class of the estimators that are learned by a bound.

    A subclass has the parameters of learning, `learning_method` to `n_jobs`, and says where a fit
    begins in ``_new_state(model, corpus, seed)``, what state its fitted attributes stand for in
    ``_state_of_fitted(model, corpus)``, and what a state leaves in ``_fitted_attributes``.
    """

    _parameter_constraints: dict = {
        "n_components": [Interval(Integral, 1, MOST_INTEGER, closed="both")],
        "sparsity_level": [None, Interval(Integral, 1, None, closed="left")],
        "learning_method": [StrOptions(set(PASSES))],
        "n_batches": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "learning_decay": [Interval(Real, 0.5, 1, closed="right")],
        "learning_offset": [Interval(Real, 0, None, closed="left")],
        "total_samples": [None, Interval(Real, 0, MOST_COUNT, closed="right")],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "sparse_output": ["boolean"],
        "warm_start": ["boolean"],
        "n_jobs": [None, Interval(Integral, None, None, closed="neither")],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    # What the bound is divided by, as people call it.
    _unit = "sample"

    # ------------------------------------------------------------------ fitting

    def _states(self, model, corpus, goes_on, n_starts=1):
        """Where the passes begin, one start after another."""
        if goes_on:
            state = self._state_to_go_on(model, corpus)
            state.n_fitted = state.n_seen = corpus.n_samples
            yield state
            return
        for seed in self._new_seeds(n_starts):
            state = self._begin(model, corpus, seed)
            state.n_fitted = state.n_seen = corpus.n_samples
            yield state

    def _begin(self, model, corpus, seed):
        with corpus.threads():
            state = self._new_state(model, corpus, seed)
        state.fingerprint = fingerprint(corpus.X, corpus.weight, corpus.groups)
        return state

    def _wanted_moves(self):
        """The names of the moves to make."""
        if isinstance(self.moves, (bool, np.bool_)):
            moves = DEFAULT_MOVES if self.moves else ()
        else:
            unknown = [name for name in self.moves if name not in MOVES]
            if unknown:
                raise ValueError(f"moves must be True, False or of {MOVES}, got {unknown[0]!r}")
            moves = tuple(name for name in MOVES if name in self.moves)
        most = self.max_components
        if most is not None and most < self.n_components:
            raise ValueError(
                f"max_components={most} must be at least n_components={self.n_components}"
            )
        return moves

    def _one_pass(self, model, corpus, moves=()):
        """A pass of the learning method, with moves or without, as a function of the state."""
        method = self.learning_method
        options = {"evaluate_every": getattr(self, "evaluate_every", 1)}
        if method == "online":
            options["batch_size"] = self.batch_size
            options["decay"], options["offset"] = self.learning_decay, self.learning_offset
        elif method == "memoized":
            options["n_batches"] = self._n_batches_of(corpus)
        if moves:
            options |= {
                "moves": moves,
                "max_components": self.max_components,
                "clusters": clusters_of,
            }
            return partial(pass_with_moves, PASSES[method], model, corpus, **options)
        return partial(PASSES[method], model, corpus, **options)

    def _n_batches_of(self, corpus):
        """How many batches a pass of memoized learning has."""
        wanted = self.n_batches
        if isinstance(wanted, str):
            wanted = N_BATCHES if corpus.n_blocks == 1 else N_BATCHES_OF_BLOCKS
        return min(wanted, corpus.n_samples)

    def _has_converged(self, state):
        """Whether the bound, per token or sample, rose by less than `tol` since last known.

        In online learning, where it may fall at any time, whether it moved by less.
        """
        attempts = state.attempts  # a pass of births tries nothing else
        if attempts is not None and (attempts.may_bear or attempts.have_born):
            return False
        known = [bound for bound in state.history if not np.isnan(bound)]
        if not self.tol or len(known) < 2 or np.isnan(state.history[-1]):
            return False
        change = known[-1] - known[-2]
        if self.learning_method == "online":
            change = abs(change)
        return change < self.tol * state.amount

    def _line(self, state):
        """What is said of a pass."""
        line = f"pass {state.n_passes}"
        if not np.isnan(state.history[-1]):
            line += f", bound per {self._unit} {state.history[-1] / state.amount:.5f}"
        return line

    # ------------------------------------------------------------------ streams

    def _stream(self, model, corpus, state, begins):
        """Make a step on the next batch of a stream, and set the attributes."""
        stream_update(
            model,
            corpus,
            state,
            decay=self.learning_decay,
            offset=self.learning_offset,
            total_samples=self.total_samples,
            begins=begins,
        )
        self._store(state, whole=True, lazy=True)
        state.stats.undo = None  # from here on nobody goes back

    def _state_to_stream(self, model, corpus):
        """A state of its own for the next batch of a stream."""
        kept = getattr(self, "_fit_state", None)
        if kept is None or not self._streams(kept):
            state = self._state_of_fitted(model, corpus)
        else:
            state = kept.lent()
        state.fingerprint = None  # of no one X
        return state

    # ------------------------------------------------------------------ going on

    def _state_to_go_on(self, model, corpus):
        """The kept state; of other data without what belongs to the batches."""
        mark = fingerprint(corpus.X, corpus.weight, corpus.groups)
        kept = getattr(self, "_fit_state", None)
        if kept is None or not self._serves(kept, mark):
            kept = self._state_of_fitted(model, corpus)
            kept.fingerprint = mark
        same = kept.fingerprint == mark
        memoized = self.learning_method == "memoized"
        n_batches = self._n_batches_of(corpus) if memoized else None
        state = kept.own(n_batches, same_data=same)
        state.fingerprint, state.dtype = mark, corpus.dtype
        return state

    def _serves(self, kept, mark):
        """Whether a kept state may be gone on from with the data of a fingerprint."""
        return True

    def _streams(self, kept):
        """Whether a stream may go on from a kept state."""
        return True

    def _count_passes(self, state):
        """Have a state made from the attributes count as many passes as they do."""
        state.n_passes, state.n_updates = self.n_iter_, self.n_batch_iter_
        state.n_fitted = state.n_seen = self.n_samples_seen_
        state.history = list(self.bound_history_)
        return state
