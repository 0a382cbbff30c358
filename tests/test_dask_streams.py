"""Documents appended, in blocks of Dask arrays, to chains over blocks."""

import copy
import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from test_dask_samplers import (
    CTMS,
    MODELS,
    PITMAN_YOR,
    STALE,
    chain_of,
    cut,
    forget_topics,
    sweeps_of,
)
from test_failures import COUNTS, ESTIMATORS, NO_SIGKILL, one_worker_dies, seen

from sklearn_sparsepost import AliasLDA, GibbsCTM, _sampled_topics
from sklearn_sparsepost._run.blocks import joined
from sklearn_sparsepost._run.collections import blocks_of
from sklearn_sparsepost._sampling import blocks, lda
from sklearn_sparsepost._sampling.blocks import LDAInBlocks, TokensInBlocks
from sklearn_sparsepost.datasets import make_lda_corpus

pytest.importorskip("dask.array", reason="needs the dask extra")

STREAMS = ["alias, learning", "process", *PITMAN_YOR, *CTMS]
BATCHES = [slice(0, 25), slice(25, 40), slice(40, 60)]


def batches(n_blocks=2):
    """A stream of Dask arrays."""
    return [cut(COUNTS[rows], n_blocks) for rows in BATCHES]


def streamed(estimator, arrays=None):
    """A model of a stream."""
    estimator = clone(estimator)
    for X in batches() if arrays is None else arrays:
        estimator.partial_fit(X)
    return estimator


def tables_of(chain):
    """The tokens of words in topics, counted block by block from what blocks and client hold."""
    total = np.zeros((len(chain.tokens.size), chain.n_components))
    for part, z in zip(chain.tokens.blocks.parts, chain.z, strict=True):
        np.add.at(total, (part.word, z), 1)
    return total


# ---------------------------------------------------------------------- what a call does


@pytest.mark.parametrize("name", STREAMS)
def test_the_first_batch_is_the_first_pass_of_a_fit(name):
    model = clone(MODELS[name])
    once = clone(model).set_params(max_iter=1).fit(cut())
    first = model.partial_fit(cut())
    assert first.n_iter_ == 1
    assert_array_equal(first.components_, once.components_)
    assert all(map(np.array_equal, first._fit_state.z, once._fit_state.z))


@pytest.mark.parametrize("name", STREAMS)
def test_all_documents_are_swept_once_a_call(name, monkeypatch):
    model, swept, sweep = clone(MODELS[name]), [], sweeps_of(name).sweep_block

    def noted(tokens, *given):
        swept.append(len(tokens.ptr))
        return sweep(tokens, *given)

    monkeypatch.setattr(sweeps_of(name), "sweep_block", noted)
    for n, X in enumerate(batches()):
        before = getattr(model, "_fit_state", None)
        swept.clear()
        model.partial_fit(X)
        chain = model._fit_state
        assert swept == [12, 13, 7, 8, 10, 10][: 2 * n + 2]
        assert model.n_iter_ == n + 1
        assert_array_equal(chain.counts.to_table(chain.n_components).toarray(), tables_of(chain))
        assert chain.n_topic.sum() == COUNTS[: BATCHES[n].stop].sum()
        if before is not None:  # the chain before is as it was
            assert_array_equal(
                before.counts.to_table(before.n_components).sum(), before.n_topic.sum()
            )
    seeds = [part.seed for part in chain.tokens.blocks.parts]
    assert len(set(seeds)) == len(seeds)  # streams of their own


def test_appended_blocks_are_blocks():
    """A chain with more documents is the chain of all blocks at the same topics."""
    first, more = chain_of(X=cut(COUNTS[:40], 2)), chain_of(X=cut(COUNTS[40:], 2))
    first = lda.sweep(first, n_steps=1)
    first.n_passes = 1
    settings = {"alpha": first.alpha, "prior": first.prior, "sampler": "sparse"}
    found = first.extended(more.tokens, more.z, **settings)
    both = TokensInBlocks.__new__(TokensInBlocks)
    both.seed, both.size = 0, np.asarray(COUNTS.sum(axis=0)).ravel()
    both.blocks = joined(first.tokens.blocks, more.tokens.blocks)
    want = LDAInBlocks(both, [*first.z, *more.z], 0, **settings)
    want.n_passes, want.drawn = 1, first.drawn
    want.recount()
    for chain in (found, want):
        assert chain.log_likelihood() == want.log_likelihood()
        assert chain.cases()[1][1].sum() == 60  # documents
    found, want = (lda.sweep(chain, n_steps=1) for chain in (found, want))
    assert all(map(np.array_equal, found.z, want.z))
    assert any((a != b).any() for a, b in zip(first.z, found.z[:2], strict=True))


def test_a_stream_after_a_fit_keeps_what_was_learned():
    model = clone(MODELS["alias"]).fit(cut())
    chain = model._fit_state
    model.partial_fit(cut(COUNTS[:20], 2))
    assert model.n_iter_ == 4 and model._fit_state.n_topic.sum() == COUNTS[:20].sum() + COUNTS.sum()
    moved = np.concatenate(chain.z) != np.concatenate(model._fit_state.z[:3])
    assert 0 < moved.mean() < 0.7  # of five topics, drawn anew, four fifths would be others


def test_topics_of_new_documents_are_those_in_use(monkeypatch):
    """Slots of a process, that is, by the numbers that the fitted topics have."""
    model = streamed(MODELS["process"], batches()[:2])
    used = model._fit_state.used()
    assert (used != np.arange(len(used))).any()
    monkeypatch.setattr(
        _sampled_topics,
        "topics_under",
        lambda table, counts, tokens, *given: np.full(tokens.n_tokens, 1, np.uint16),
    )
    longer = model._extended_chain(blocks_of(batches()[2], lambda block: block))
    assert all((z == used[1]).all() for z in longer.z[-2:])
    assert_array_equal(longer.counts.to_table(longer.n_components).toarray(), tables_of(longer))


@pytest.mark.parametrize("kind", [AliasLDA, GibbsCTM])
def test_a_stream_in_blocks_predicts_as_well_as_one_in_memory(kind):
    X = make_lda_corpus(1200, 500, 20, doc_length=60, random_state=0)[0]
    test, parts = X[:200], [X[200:500], X[500:800], X[800:]]
    model, scores = kind(20, max_iter=15, n_jobs=1, warm_start=True, random_state=0), []
    for in_blocks in (False, True):
        estimator = clone(model)
        for part in parts:
            estimator.partial_fit(cut(part, 4) if in_blocks else part)
        begun = estimator.score(test)
        for _ in range(12):  # with each two documents more, so that all are swept again
            estimator.partial_fit(cut(part[:2], 2) if in_blocks else part[:2])
        scores.append(estimator.score(test))
    assert scores[1] > scores[0] - STALE
    if kind is AliasLDA:
        assert scores[1] > begun + STALE  # there was something to be lost


# ---------------------------------------------------------------------- the same bytes


@pytest.mark.parametrize(
    "where, name",
    [
        ("threads_cluster", "process"),
        ("process_cluster", "alias, learning"),
        ("process_cluster", "pitman_yor, process"),
        ("process_cluster", "ctm"),
        ("threads_cluster", "pitman_yor"),
        ("threads_cluster", "ctm, full"),
    ],
)
def test_a_cluster_changes_no_byte(where, name, request):
    want = [seen(streamed(MODELS[name]))]
    after = clone(MODELS[name]).fit(cut())
    want.append(seen(after.partial_fit(batches()[1])))
    with request.getfixturevalue(where).as_current():
        found = [seen(streamed(MODELS[name]))]
        after = clone(MODELS[name]).fit(cut())
        found.append(seen(after.partial_fit(cut(COUNTS[BATCHES[1]], 2))))
    assert found == want


def test_one_block_is_appended_to_blocks_and_to_an_array():
    whole, one = clone(MODELS["alias"]), clone(MODELS["alias"])
    for rows in BATCHES:
        whole.partial_fit(COUNTS[rows])
        one.partial_fit(cut(COUNTS[rows], 1))
    assert seen(one) == seen(whole)
    model = streamed(MODELS["alias"], [cut(COUNTS[:40], 2), cut(COUNTS[40:], 1)])
    assert len(model._fit_state.z) == 3
    assert_array_equal(model._fit_state.n_topic, tables_of(model._fit_state).sum(axis=0))


def test_weights_are_copies():
    weight = np.arange(15) % 3
    copies = COUNTS[25:40][np.repeat(np.arange(15), weight)]
    first = cut(COUNTS[:25], 2)
    weighted = clone(MODELS["alias"]).partial_fit(first)
    weighted.partial_fit(cut(COUNTS[25:40], 1), sample_weight=weight)
    want = clone(MODELS["alias"]).partial_fit(first).partial_fit(cut(copies, 1))
    assert seen(weighted) == seen(want)


def test_batches_without_words_change_nothing():
    model = streamed(MODELS["alias"])
    before = seen(model)
    assert seen(model.partial_fit(cut(0 * COUNTS[:4], 2))) == before
    with pytest.raises(ValueError, match="X has no counts"):
        clone(MODELS["alias"]).partial_fit(cut(0 * COUNTS))


# ---------------------------------------------------------------------- nothing lost


@NO_SIGKILL
@pytest.mark.parametrize("name", ["alias, learning", "pitman_yor", "ctm"])
def test_a_killed_worker_loses_nothing(name, tmp_path, monkeypatch, mortal_cluster):
    model, deaths = clone(MODELS[name]), (sweeps_of(name), "sweep_block")
    want = seen(streamed(MODELS[name]))
    with mortal_cluster.as_current(), one_worker_dies(tmp_path, monkeypatch, *deaths) as deadly:
        for n, X in enumerate(batches()):
            if n == 1:  # topics of the first batch go with the worker, and its tokens
                deadly.touch()
            model.partial_fit(X)
    assert seen(model) == want


@pytest.mark.parametrize("name", STREAMS)
def test_topics_that_nobody_holds_come_from_the_client(name, monkeypatch):
    want = seen(streamed(MODELS[name]))
    lost = forget_topics(monkeypatch)
    assert seen(streamed(MODELS[name])) == want
    assert sum(lost) > 10 and not all(lost)


@pytest.mark.parametrize("name", STREAMS)
def test_topics_are_where_they_are_asked_for(name, monkeypatch):
    """Nobody has to be sent topics while nothing is lost: appended blocks keep theirs, too."""
    found, sent = blocks._with_topics, []

    def noted(held, shared, function, number, z=None):
        sent.append(z is not None)
        return found(held, shared, function, number, z)

    monkeypatch.setattr(blocks, "_with_topics", noted)
    streamed(MODELS[name])
    clone(MODELS[name]).set_params(warm_start=True).fit(cut()).fit(cut())
    assert sent and not any(sent)


@pytest.mark.parametrize("name", STREAMS)
def test_an_interrupted_call_is_none(name, monkeypatch):
    want, model = seen(streamed(MODELS[name])), streamed(MODELS[name], batches()[:2])
    before, sweep, calls = seen(model), sweeps_of(name).sweep_block, []

    def interrupted(*args):
        calls.append(args)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return sweep(*args)

    with monkeypatch.context() as patched:
        patched.setattr(sweeps_of(name), "sweep_block", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(cut(COUNTS[:9], 2))  # others than those to come
    assert seen(model) == before
    assert seen(model.partial_fit(batches()[2])) == want


@pytest.mark.parametrize("name", STREAMS)
def test_copies_that_share_blocks_do_not_disturb_each_other(name):
    want, other = batches()[2], cut(COUNTS[:9], 2)
    alone = [
        seen(streamed(MODELS[name], [*batches()[:2], *more])) for more in ([other], [want] * 2)
    ]
    model = streamed(MODELS[name], batches()[:2])
    twin = copy.copy(model)
    model.partial_fit(want)
    twin.partial_fit(other)
    assert [seen(twin), seen(model.partial_fit(want))] == alone


def test_a_cluster_that_is_gone(local_cluster):
    with local_cluster(1, processes=False) as client, client.as_current():
        model = streamed(MODELS["alias"])
    before = seen(model)
    with pytest.raises(ValueError, match="with another Dask client than those before"):
        model.partial_fit(cut(n_blocks=2))
    assert seen(model) == before
    with local_cluster(1, processes=False) as client, client.as_current():
        model.set_params(warm_start=True).fit(cut()).partial_fit(cut(n_blocks=2))
        client.cancel(model._fit_state.tokens.blocks.parts, force=True)  # nobody has them now
        model.fit(cut())
    assert model.n_iter_ == 3 + 3 + 1 + 3


# ---------------------------------------------------------------------- bad input


def test_chains_are_in_blocks_or_here():
    here, there = clone(MODELS["alias"]).fit(COUNTS), clone(MODELS["alias"]).fit(cut())
    stored = pickle.loads(pickle.dumps(there))
    before = [seen(model) for model in (here, there, stored)]
    with pytest.raises(ValueError, match="X is a Dask array of 3 blocks, but .* in this process"):
        here.partial_fit(cut())
    with pytest.raises(ValueError, match="those of this one are in blocks of a Dask array: X must"):
        there.partial_fit(COUNTS)
    with pytest.raises(ValueError, match="nobody holds for a copy or a stored estimator"):
        stored.partial_fit(cut())
    assert [seen(model) for model in (here, there, stored)] == before
    assert before[1] == before[2]


def test_bad_batches_are_named():
    fractions = COUNTS.astype(float)
    fractions.data[-1] = 0.5
    model = clone(MODELS["alias"]).partial_fit(cut())
    before = seen(model)
    with pytest.raises(ValueError, match="block 2 of X, .* counts must be whole numbers: row 19"):
        model.partial_fit(cut(fractions))
    with pytest.raises(ValueError, match="X has 9 features, but AliasLDA is expecting 30"):
        model.partial_fit(cut(COUNTS[:, :9]))
    assert seen(model) == before
    with pytest.raises(ValueError, match="memmap"):
        clone(ESTIMATORS["ctm"]).set_params(memmap_folder=".").partial_fit(cut())
