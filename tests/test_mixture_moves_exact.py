"""Every accepted merge and delete, of random mixtures, against responsibilities moved by hand."""

import numpy as np
import pytest
import scipy.sparse as sp
from by_hand import PASSES, Table, after_moves, start_of

from sklearn_sparsepost import SparseMixture
from sklearn_sparsepost._learning.moves import (
    choose_pairs,
    choose_targets,
    delete_component,
    merge_components,
    pass_with_moves,
)
from sklearn_sparsepost._learning.state import FitState
from sklearn_sparsepost._models.tracking import Track
from sklearn_sparsepost._run import chunks

N_MIXTURES, N_PARTS, N_PASSES = 150, 3, 3


def check_move(table, state, found, before):
    """An accepted move: its statistics and bound are those of the rows, and the bound rises."""
    table.check(state)
    model = table.model.resized(state.stats.n_components)
    np.testing.assert_allclose(found, model.bound(FitState(table.stats())), rtol=1e-9)
    assert found >= before - 1e-12 * abs(before)


def check_merges(model, table, state, pairs, bound):
    """Merge; returns the state, its bound, and how many merges there were."""
    n_before = model.n_components
    model.forget()
    after, found = merge_components(model, state, pairs, bound)
    assert len(model.merges) == len(model.trials)
    tried = list(zip(model.merges, model.trials, strict=True))
    # The last of all that were tried on so many components is the one that was accepted.
    for n_left in range(n_before - 1, after.stats.n_components - 1, -1):
        merge, (trial, value) = [
            entry for entry in tried if entry[1][0].stats.n_components == n_left
        ][-1]
        table.merge(*merge)
        check_move(table, trial, value, bound)
        bound = value
    assert found == bound
    n_merges = n_before - after.stats.n_components
    assert after is (trial if n_merges else state)
    return after, found, n_merges


def check_delete(model, table, state, targets, bound):
    """Delete at most one; returns the state and whether there was one."""
    model.forget()
    after, found = delete_component(model, state, targets, bound)
    slots = [slot for slot, (trial, _) in enumerate(model.trials) if trial is after]
    values = [value for _, value in model.trials]
    assert len(values) == len(targets)
    if not slots:
        assert after is state and found == bound >= max(values, default=-np.inf)
        return after, 0
    assert found == values[slots[0]] == max(values)
    table.delete(targets[slots[0]])
    check_move(table, after, found, bound)
    return after, 1


def random_case(seed):
    """Data and a mixture, of any kind that has moves."""
    rng = np.random.default_rng(seed)
    n, D = int(rng.integers(15, 100)), int(rng.integers(1, 5))
    centres = rng.normal(scale=rng.choice([1, 4, 12]), size=(int(rng.integers(1, 5)), D))
    X = rng.normal(size=(n, D)) + centres[rng.integers(len(centres), size=n)]
    observation = str(rng.choice(["gaussian", "gaussian", "multinomial", "bernoulli"]))
    if observation == "bernoulli":
        X = (X > 0).astype(float)
    elif observation == "multinomial":
        X = sp.csr_matrix(rng.poisson(np.exp(np.minimum(X, 3))).astype(float))
    weight = [
        None,
        rng.uniform(0.5, 3, n),
        rng.uniform(size=n) * np.where(rng.random(n) < 0.5, 1, 1e-9),
    ][rng.integers(3)]
    mixture = SparseMixture(
        int(rng.integers(2, 26)),
        sparsity_level=[1, 2, 4, None][rng.integers(4)],
        observation=observation,
        covariance_type=str(rng.choice(["full", "diag", "spherical"])),
        assume_centered=bool(rng.random() < 0.2),
        estimation=str(rng.choice(["bayes", "map"])),
        weight_concentration_prior_type="dirichlet_process",
        weight_concentration_prior=[None, 1e-3, 5.0][rng.integers(3)],
        learning_method=str(rng.choice(["batch", "memoized"])),
        init_params="k-means++" if sp.issparse(X) else str(rng.choice(["k-means++", "random"])),
        n_batches=int(rng.integers(1, 6)),
        random_state=seed,
    )
    return X, weight, mixture


@pytest.mark.filterwarnings("ignore:n_components=|some features are constant")
@pytest.mark.parametrize("part", range(N_PARTS))
def test_every_accepted_move(part, monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK_SIZE", 100)
    monkeypatch.setattr(chunks, "DENSE_CHUNK_ROWS", 64)
    monkeypatch.setattr(chunks, "DENSE_CHUNK_SIZE", 64 * 64)
    accepted = {"merge": 0, "delete": 0}
    for seed in range(part, N_MIXTURES, N_PARTS):
        X, weight, mixture = random_case(seed)
        full, corpus, state = start_of(mixture, X, weight)
        one_pass = PASSES[mixture.learning_method]
        memoized = mixture.learning_method == "memoized"
        options = {"n_batches": mixture.n_batches} if memoized else {}
        merges = seed // N_PARTS % 2 == 0  # else only deletes, which follow where none merge
        for _ in range(N_PASSES):
            n_before = state.stats.n_components
            model = full.resized(n_before)
            whole = pass_with_moves(one_pass, full, corpus, state, **options) if merges else None
            pairs = choose_pairs(model, corpus, state)
            targets = choose_targets(state, len(state.memo) if state.memo else 1)
            full.forget()
            state = one_pass(model, corpus, state, track=Track(pairs, targets), **options)
            table, bound = Table(model, corpus), state.history[-1]
            table.check(state)
            n_merges = 0
            if merges:
                state, bound, n_merges = check_merges(model, table, state, pairs, bound)
                accepted["merge"] += n_merges
            if not n_merges:
                state, n_deletes = check_delete(model, table, state, targets, bound)
                accepted["delete"] += n_deletes
            after_moves(state, n_before)
            if merges:  # what follows a pass is just that
                for name in whole.stats.arrays:
                    np.testing.assert_array_equal(whole.stats[name], state.stats[name])
                assert whole.stats.scalars == state.stats.scalars
                assert not whole.tracked
    assert min(accepted.values()) > 10
