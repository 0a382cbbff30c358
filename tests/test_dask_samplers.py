"""Chains over the blocks of a Dask array: the same bytes anywhere, nothing lost, little stale."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn.base import clone
from test_collections import COUNT_CUTS, blocked
from test_failures import (
    COUNTS,
    ESTIMATORS,
    NO_SIGKILL,
    Interrupting,
    Poison,
    one_worker_dies,
    seen,
)

from sklearn_sparsepost import AliasLDA, GibbsCTM
from sklearn_sparsepost._models.logistic_normal import (
    FactorCovariance,
    FullCovariance,
    LogitPrior,
    both,
)
from sklearn_sparsepost._run.blocks import only_block
from sklearn_sparsepost._run.collections import blocks_of
from sklearn_sparsepost._sampling import blocks, ctm, ctm_blocks, lda, tokens
from sklearn_sparsepost._sampling.blocks import LDAInBlocks, TokensInBlocks
from sklearn_sparsepost.callbacks import Checkpoint
from sklearn_sparsepost.datasets import make_lda_corpus
from sklearn_sparsepost.interop import TopicAssignments
from sklearn_sparsepost.persistence import load

da = pytest.importorskip("dask.array", reason="needs the dask extra")

LEARNING = {"doc_topic_prior": "auto", "topic_word_prior": "auto", "learn_every": 1}
MODELS = {
    "alias": ESTIMATORS["alias"],
    "alias, learning": clone(ESTIMATORS["alias"]).set_params(**LEARNING),
    "process": ESTIMATORS["process"],
    "pitman_yor": ESTIMATORS["pitman_yor"],
    "pitman_yor, process": clone(ESTIMATORS["pitman_yor"]).set_params(
        doc_topic_prior_type="dirichlet_process", topic_word_prior="auto", learn_every=1
    ),
    "ctm": ESTIMATORS["ctm"],
    "ctm, full": clone(ESTIMATORS["ctm"]).set_params(
        covariance_type="full", topic_word_prior="auto", learn_every=1, sampler="alias"
    ),
}
CTMS = ["ctm", "ctm, full"]
PITMAN_YOR = ["pitman_yor", "pitman_yor, process"]
for sampler in ("alias", "sparse", "cycle", "dense"):
    MODELS[sampler] = clone(ESTIMATORS["alias"]).set_params(sampler=sampler)
N_PASSES = 3
# Nats a token that blocks may cost in held-out words, at the most.
STALE = 0.02


def cut(X=COUNTS, n_blocks=None):
    """A Dask array of given data, in so many blocks or in three."""
    cuts = COUNT_CUTS if n_blocks is None else np.linspace(0, X.shape[0], n_blocks + 1).astype(int)
    return blocked(X, cuts)


def chain_of(n_components=4, X=None, **settings):
    """A chain over blocks in this process, its topics uniform draws."""
    held = blocks_of(cut() if X is None else X, lambda block: block)
    in_blocks = TokensInBlocks(held, 0)
    z = in_blocks.first_topics(held, _uniform, n_components, n_components)
    prior = lda.WordPrior(0.1, held.shape[1], n_components)
    given = {"alpha": np.full(n_components, 0.3), "prior": prior, "sampler": "sparse", **settings}
    return LDAInBlocks(in_blocks, z, 0, **given)


def _uniform(block, held, n_components):
    return tokens.uniform_topics(held, n_components, held.seed)


# ---------------------------------------------------------------------- what a sweep is


@pytest.mark.parametrize("sampler", ["auto", "alias", "sparse", "cycle", "dense"])
def test_counts_are_those_of_the_tokens(sampler):
    chain = chain_of(sampler=sampler)
    for _ in range(3):
        chain = lda.sweep(chain, n_steps=1)
        want = [
            sp.coo_array((np.ones(len(z)), (part.word, z)), shape=(30, 4)).toarray()
            for part, z in zip(chain.tokens.blocks.parts, chain.z, strict=True)
        ]
        assert_array_equal(chain.counts.to_table(4).toarray(), sum(want))
        assert_array_equal(chain.n_topic, sum(want).sum(axis=0))
        assert_array_equal(sum(want).sum(axis=1), np.asarray(COUNTS.sum(axis=0)).ravel())
        chain.n_passes += 1


def test_a_block_sees_the_others_as_they_were_at_the_start():
    """Each block alone, on counts made of all tokens, and the changes added up."""
    chain = chain_of()
    after = lda.sweep(chain, n_steps=1)
    words = np.concatenate([part.word for part in chain.tokens.blocks.parts])
    for number, part in enumerate(chain.tokens.blocks.parts):
        counts = lda.empty_counts(
            np.zeros(30, np.int8), np.full(30, len(words)), chain.prior, chain.n_components
        )
        z = [topics.astype(np.uint16) for topics in chain.z]
        # In order of topics, as they are sent: the order of a list decides what a number draws.
        order = np.argsort(np.concatenate(z), kind="stable")
        counts.add_tokens(words[order], np.concatenate(z)[order])
        totals = chain.prior.topic_totals()
        shape = part.ptr, part.groups, chain.n_topic.copy(), chain.alpha, totals
        counts.sweep(part.word, z[number], *shape, part.seed, 1)
        assert_array_equal(after.z[number], z[number])


def test_log_likelihood_and_gains_are_those_of_all_tokens():
    X = cut()
    chain = chain_of(X=X)
    whole = tokens.Tokens(COUNTS, 0)
    z = np.empty(whole.n_tokens, np.uint16)
    z[whole.word_order()] = np.concatenate(
        [
            part[held.word_order()]
            for part, held in zip(chain.z, chain.tokens.blocks.parts, strict=True)
        ]
    )
    settings = {"alpha": chain.alpha, "prior": chain.prior, "sampler": "sparse"}
    want = lda.LDAChain(whole, z, 0, **settings)
    assert chain.log_likelihood() == pytest.approx(want.log_likelihood(), rel=1e-12)
    for found, wanted in zip(chain.prior_gains(), want.prior_gains(), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
    assert chain.amount == want.amount
    for found, wanted in zip(chain.cases(), want.cases(), strict=True):
        for one, other in zip(found, wanted, strict=True):
            assert_array_equal(one, other)


def test_one_block_has_the_posterior():
    """A chain over one block, whose counts are never stale, visits states as often as it must."""
    X = sp.csr_matrix(np.array([[2, 1], [0, 1]]))
    chain = chain_of(2, blocked(X, [0, 2]), prior=lda.WordPrior(0.4, 2, 2), alpha=np.ones(2))
    values = {}
    for z in np.ndindex(2, 2, 2, 2):
        chain.z, chain._cases = [np.array(z, np.uint8)], None
        chain.tokens.blocks.parts[0].kept = {chain.drawn: np.array(z, np.uint16)}
        chain.recount()
        values[z] = np.exp(chain.log_likelihood())
    seen_of = dict.fromkeys(values, 0)
    for _ in range(1200):
        chain = lda.sweep(chain, n_steps=1)
        chain.n_passes += 1
        seen_of[tuple(map(int, chain.z[0]))] += 1
    share = np.array(list(values.values())) / sum(values.values())
    np.testing.assert_allclose(np.array(list(seen_of.values())) / 1200, share, atol=0.05)


@pytest.mark.parametrize("structure", [FullCovariance(), FactorCovariance(2)])
def test_one_block_has_the_correlated_chain_of_an_array(structure):
    """Where all topics are weighed the order of lists is of no account."""
    settings = {"prior": lda.WordPrior(0.1, 30, 4), "sampler": "dense", "structure": structure}
    settings["normal_prior"] = LogitPrior(np.zeros(4), None, np.ones(4), None)
    settings["folder"] = None
    held = blocks_of(blocked(COUNTS, [0, 60]), lambda block: block)
    there, here = TokensInBlocks(held, 0), tokens.Tokens(COUNTS, 0)
    z = there.first_topics(held, _uniform, 4, 4)
    chains = [ctm_blocks.CTMInBlocks(there, z, 0, **settings)]
    chains.append(ctm.CTMChain(here, z[0].astype(np.uint16), 0, **settings))
    chains = [ctm.after_lda(chain, np.full(4, 0.5)) for chain in chains]
    chains[1].z = chains[0].z[0].astype(np.uint16)  # whose sweeps before were of lists
    chains[1].recount()
    chains[1].logits = chains[0].logits[0].copy()
    for _ in range(3):
        chains = [ctm.sweep(chain, sampler=2, n_steps=2) for chain in chains]
        for chain in chains:
            chain.n_passes += 1
        assert_array_equal(chains[0].z[0], chains[1].z)
        assert_array_equal(chains[0].all_logits(), chains[1].logits)
        assert_array_equal(chains[0].normal.covariance, chains[1].normal.covariance)
        assert chains[0].log_likelihood() == pytest.approx(chains[1].log_likelihood(), rel=1e-12)


def test_sums_over_blocks_are_those_over_all():
    rng = np.random.default_rng(0)
    logits, factors = rng.normal(size=(50, 4)).astype(np.float32), rng.normal(size=(50, 2))
    for structure in (FullCovariance(), FactorCovariance(2)):
        parts = [
            structure.sums(logits[rows], factors[rows], np.ones(4))
            for rows in (slice(0, 20), slice(20, 50))
        ]
        want = structure.sums(logits, factors, np.ones(4))
        for found, wanted in zip(both(*parts), want, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-12)


# ---------------------------------------------------------------------- the same bytes


@pytest.mark.parametrize("name", ["alias", "process", "pitman_yor", "ctm"])
def test_one_block_is_an_array(name):
    whole, one = clone(ESTIMATORS[name]), clone(ESTIMATORS[name])
    assert seen(one.fit(cut(n_blocks=1))) == seen(whole.fit(COUNTS))
    assert seen(one.partial_fit(cut(n_blocks=1))) == seen(whole.partial_fit(COUNTS))


@pytest.mark.parametrize(
    "where, name",
    [
        ("threads_cluster", "alias"),
        ("process_cluster", "alias, learning"),
        ("process_cluster", "process"),
        ("threads_cluster", "pitman_yor"),
        ("process_cluster", "pitman_yor"),
        ("process_cluster", "pitman_yor, process"),
        ("threads_cluster", "ctm, full"),
        ("process_cluster", "ctm"),
    ],
)
def test_a_cluster_changes_no_byte(where, name, request):
    want = seen(clone(MODELS[name]).fit(cut()))
    with request.getfixturevalue(where).as_current():
        there = clone(MODELS[name]).fit(cut())
    assert seen(there) == want


@pytest.mark.parametrize("name", MODELS)
def test_threads_change_no_byte(name, monkeypatch):
    monkeypatch.setattr(tokens, "SERIAL_TOKENS", 0)
    monkeypatch.setattr(lda, "WORK_A_TOKEN", 1 << 30)
    one, two = (clone(MODELS[name]).set_params(n_jobs=n).fit(cut()) for n in (1, 2))
    assert seen(one) == seen(two.set_params(n_jobs=1))


def test_blocks_without_rows_or_tokens_are_nothing():
    want = seen(clone(MODELS["alias"]).fit(cut()))
    found = clone(MODELS["alias"]).fit(blocked(COUNTS, [0, 0, 13, 13, 40, 60, 60], known=False))
    assert seen(found) == want
    empty = COUNTS.toarray()
    empty[13:40] = 0
    assert clone(MODELS["alias"]).fit(blocked(empty, COUNT_CUTS)).score(COUNTS) < 0


def test_weights_are_copies():
    weight = np.arange(60) % 3
    copies = COUNTS[np.repeat(np.arange(60), weight)]
    cuts = [0, *(int(weight[:edge].sum()) for edge in COUNT_CUTS[1:])]
    weighted = clone(MODELS["alias"]).fit(cut(), sample_weight=weight)
    assert seen(weighted) == seen(clone(MODELS["alias"]).fit(blocked(copies, cuts)))


@pytest.mark.parametrize("init", ["random", "anchor", "array"])
def test_starts(init, process_cluster):
    topics = np.random.default_rng(0).dirichlet(np.ones(30), 5)
    estimator = clone(MODELS["alias"]).set_params(init=topics if init == "array" else init)
    want = clone(estimator).fit(cut()).components_
    with process_cluster.as_current():
        assert_array_equal(clone(estimator).fit(cut()).components_, want)


def test_seeded_topics_and_many_topics():
    prior = np.full((5, 30), 0.1)
    prior[0, :3] = 5
    seeded = clone(MODELS["alias"]).set_params(topic_word_prior=prior, max_iter=10).fit(cut())
    assert seeded.topic_word_distr_[0, :3].sum() > 0.1
    many = clone(MODELS["alias"]).set_params(n_components=300, init="random")
    with pytest.warns(UserWarning, match="some topics will stay empty"):
        many.fit(cut())
    assert many._fit_state.z[0].dtype == np.uint16
    assert seeded._fit_state.z[0].dtype == np.uint8  # as they travel


# ---------------------------------------------------------------------- nothing lost


def sweeps_of(name):
    """The module whose sweep of a block a model makes."""
    return ctm_blocks if name in CTMS else blocks


@NO_SIGKILL
@pytest.mark.parametrize("name", ["alias, learning", "pitman_yor, process", "ctm"])
def test_a_killed_worker_loses_nothing(name, tmp_path, monkeypatch, mortal_cluster):
    estimator, deaths = clone(MODELS[name]).set_params(max_iter=5), (sweeps_of(name), "sweep_block")
    want = seen(clone(estimator).fit(cut()))
    with mortal_cluster.as_current(), one_worker_dies(tmp_path, monkeypatch, *deaths) as deadly:
        estimator.set_callbacks(Poison(deadly)).fit(cut())
    assert seen(estimator.set_callbacks()) == want


def forget_topics(monkeypatch):
    """Have blocks lose their topics now and then; of each call, whether it was given none."""
    found, lost = blocks._with_topics, []

    def forgetful(held, shared, function, number, z=None):
        if z is None and len(lost) % 2 == 0:
            held.kept = {}
        lost.append(z is None)
        return found(held, shared, function, number, z)

    monkeypatch.setattr(blocks, "_with_topics", forgetful)
    return lost


@pytest.mark.parametrize("name", ["alias, learning", "process", *PITMAN_YOR, *CTMS])
def test_topics_that_nobody_holds_come_from_the_client(name, monkeypatch):
    want = seen(clone(MODELS[name]).fit(cut()))
    lost = forget_topics(monkeypatch)
    assert seen(clone(MODELS[name]).fit(cut())) == want
    assert sum(lost) > 10 and not all(lost)


def test_a_task_that_is_made_again_finds_the_topics_before():
    chain = chain_of()
    start, part = blocks.Start(chain, 1), chain.tokens.blocks.parts[1]
    first, moved = blocks.sweep_block(part, part.kept[0], start)
    again, moved_again = blocks.sweep_block(part, part.kept[0], start)
    assert_array_equal(first.toarray(), again.toarray())
    assert_array_equal(moved[1], moved_again[1])


@pytest.mark.parametrize("name", ["alias, learning", "process", *PITMAN_YOR, *CTMS])
def test_an_interrupted_fit_goes_on_to_the_same_bytes(name, monkeypatch):
    estimator = clone(MODELS[name]).set_params(warm_start=True, burn_in=1)
    whole = seen(clone(estimator).set_params(max_iter=5).fit(cut()).set_params(max_iter=3))
    sweep, calls = sweeps_of(name).sweep_block, []

    def interrupted(*args):
        calls.append(args)
        if len(calls) == 8:  # the second of three blocks, in the third sweep
            raise KeyboardInterrupt
        return sweep(*args)

    monkeypatch.setattr(sweeps_of(name), "sweep_block", interrupted)
    with pytest.raises(KeyboardInterrupt):
        estimator.fit(cut())
    assert estimator.n_iter_ == 2
    if name in (*CTMS, "pitman_yor"):  # else with the tokens that are held
        estimator = pickle.loads(pickle.dumps(estimator))
        assert estimator._fit_state.tokens.blocks is None
    assert seen(estimator.fit(cut())) == whole


@pytest.mark.parametrize("name", ["alias", *PITMAN_YOR, "ctm"])
def test_checkpoints_hold_all_that_a_fit_goes_on_from(name, tmp_path):
    path = tmp_path / "a.model"
    estimator = clone(MODELS[name]).set_params(warm_start=True, burn_in=1)
    whole = seen(clone(estimator).set_params(max_iter=5).fit(cut()).set_params(max_iter=3))
    clone(estimator).set_params(max_iter=2).set_callbacks(Checkpoint(path)).fit(cut())
    assert seen(load(path).set_params(max_iter=3).fit(cut())) == whole


@pytest.mark.parametrize("name", ["alias", "pitman_yor"])
def test_other_blocks_are_other_data(name):
    estimator = clone(MODELS[name]).set_params(warm_start=True).fit(cut())
    for X in (cut(n_blocks=2), COUNTS, cut()):  # each begins a chain under the topics so far
        before = estimator.n_iter_
        estimator.fit(X)
        assert estimator.n_iter_ == before + N_PASSES
        assert estimator._fit_state.n_topic.sum() == COUNTS.sum()


def test_what_fails_changes_nothing():
    estimator = clone(MODELS["alias"]).set_params(warm_start=True).fit(cut())
    before = seen(estimator)
    estimator.set_callbacks(Interrupting())
    with pytest.raises(KeyboardInterrupt):
        estimator.fit(cut(n_blocks=2))
    assert seen(estimator.set_callbacks()) == before


# ---------------------------------------------------------------------- fitted models, bad input


def test_fitted_models_take_arrays_and_blocks():
    alias = clone(MODELS["alias"]).fit(cut())
    assert isinstance(alias.transform(cut()), da.Array)
    assert_array_equal(alias.transform(cut()).compute(), alias.transform(COUNTS))
    assert alias.score(cut()) == pytest.approx(alias.score(COUNTS), rel=1e-12)
    assert alias.perplexity(cut()) == pytest.approx(alias.perplexity(COUNTS), rel=1e-12)
    with pytest.raises(ValueError, match="in blocks of a Dask array: X must be one"):
        alias.partial_fit(COUNTS)
    with pytest.raises(ValueError, match="the tokens are in blocks of a Dask array"):
        TopicAssignments.from_estimator(alias)


def test_bad_blocks_are_named(monkeypatch):
    fractions = COUNTS.astype(float)
    fractions.data[-1] = 0.5
    alias = clone(MODELS["alias"])
    told = "block 2 of X, .*: AliasLDA .* counts must be whole numbers: row 19"
    with pytest.raises(ValueError, match=told):
        alias.fit(cut(fractions))
    with pytest.raises(ValueError, match="columns of X are cut into 3"):
        alias.fit(cut(COUNTS.toarray()).rechunk((60, 10)))
    monkeypatch.setattr(tokens, "MOST_TOKENS", int(COUNTS.sum(axis=0).max()) - 1)
    with pytest.raises(ValueError, match="tokens of feature .*, and each is held"):
        alias.fit(cut())
    assert not hasattr(alias, "components_")
    with pytest.raises(ValueError, match="memmap_folder='.', but X is a Dask array"):
        clone(MODELS["ctm"]).set_params(memmap_folder=".").fit(cut())


def test_the_only_block_comes_here(process_cluster):
    with process_cluster.as_current():
        held = blocks_of(cut(n_blocks=1), lambda block: block)
    assert_array_equal(only_block(held).toarray(), COUNTS.toarray())


# ---------------------------------------------------------------------- staleness


@pytest.fixture(scope="module", params=["drawn", "kos", "correlated"])
def held_out(request, real_corpus):
    """Chains to be fitted, documents to learn from and others, and their mean score in memory."""
    seeds = [0]
    if request.param == "kos":
        X = sp.csr_matrix(real_corpus("kos"))
        X, n_topics = X[np.random.default_rng(0).permutation(X.shape[0])], 50
        seeds = [0, 1, 2]  # which differ by as much as is asked
    else:
        X, topics, _ = make_lda_corpus(1200, 500, 20, doc_length=60, random_state=0)
        n_topics = len(topics)
    kind = GibbsCTM if request.param == "correlated" else AliasLDA
    chain = kind(n_topics, max_iter=20, n_jobs=1, random_state=0)
    if request.param == "drawn":  # elsewhere two chains end at topics further apart than is asked
        chain.set_params(init=topics)
    train, test = X[200:], X[:200]
    chains = [clone(chain).set_params(random_state=seed) for seed in seeds]
    return chains, train, test, np.mean([clone(c).fit(train).score(test) for c in chains])


@pytest.mark.parametrize("n_blocks", [4, 16])
def test_stale_counts_cost_little(held_out, n_blocks):
    chains, train, test, here = held_out
    chain, blocks = chains[0], cut(train, n_blocks)
    begun = clone(chain).set_params(max_iter=0).fit(train).score(test)
    there = np.mean([clone(c).fit(blocks).score(test) for c in chains])
    assert there > here - STALE
    if isinstance(chain, AliasLDA) and isinstance(chain.init, str):
        assert there - begun > STALE  # there was something to be lost
