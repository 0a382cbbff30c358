"""Pitman-Yor topics over blocks: seatings, posteriors, staleness."""

import numpy as np
import pytest
import scipy.sparse as sp
from geweke import move
from reference import agrees
from sklearn.base import clone
from test_collections import blocked
from test_dask_samplers import PITMAN_YOR, STALE, cut
from test_failures import COUNTS, ESTIMATORS
from test_pitman_yor_exact import ALPHA, GAMMA, TWO_DOCUMENTS, enumerated, log_words

from sklearn_sparsepost import AliasLDA
from sklearn_sparsepost._kernels._stirling import draw_tables
from sklearn_sparsepost._run.collections import blocks_of
from sklearn_sparsepost._sampling import blocks, lda, pitman_yor, pitman_yor_blocks, tokens
from sklearn_sparsepost._sampling.blocks import TokensInBlocks

pytest.importorskip("dask.array", reason="needs the dask extra")

MOST = 255


# ---------------------------------------------------------------------- seatings


def chain_of(X, K, kind=pitman_yor_blocks.PitmanYorInBlocks, *, gamma=0.1, seed=0, **settings):
    """A chain over blocks in this process, its topics uniform draws."""
    held = blocks_of(X, lambda block: block)
    in_blocks = TokensInBlocks(held, seed)
    z = in_blocks.first_topics(held, _uniform, K, K)
    settings = {"discount": 0.3, "concentration": 2.0, "sampler": "auto", **settings}
    if kind is pitman_yor_blocks.PitmanYorInBlocks:
        settings = {"alpha": np.full(K, 0.3), **settings}
    prior = lda.WordPrior(gamma, held.shape[1], settings.get("n_components", K))
    return kind(in_blocks, z, seed, prior=prior, **settings)


def _uniform(block, held, n_components):
    return tokens.uniform_topics(held, n_components, held.seed)


def check_seating(chain):
    """The tokens are those of the blocks, and they sit at tables."""
    K, V = chain.n_components, len(chain.tokens.size)
    want = np.zeros((V, K), dtype=int)
    for part, z in zip(chain.tokens.blocks.parts, chain.z, strict=True):
        np.add.at(want, (part.word, z), 1)
    counts = chain.counts.to_table(K).toarray()
    tables = chain.counts.table_of_tables(K).toarray()
    np.testing.assert_array_equal(counts, want)
    np.testing.assert_array_equal(tables > 0, counts > 0)
    assert (tables <= np.minimum(counts, MOST)).all() and tables.max() > 1
    np.testing.assert_array_equal(chain.n_tables, tables.sum(axis=0))
    np.testing.assert_array_equal(chain.word_tables(), tables.sum(axis=1))
    np.testing.assert_array_equal(chain.n_topic, counts.sum(axis=0))
    return tables


@pytest.mark.parametrize("sampler", ["auto", "alias", "sparse", "dense"])
@pytest.mark.parametrize("n_blocks", [1, 3, 20])
def test_counts_and_tables_stay_a_seating(sampler, n_blocks):
    chain = chain_of(cut(n_blocks=n_blocks), 4, sampler=sampler, concentration=20.0)
    before = chain.counts.arrays
    for i in range(4):
        last = chain
        chain = lda.sweep(chain, n_steps=1)
        chain.n_passes += 1
        if i == 1:
            pitman_yor.learn_discount(chain)
            pitman_yor.learn_concentration(chain)
        tables = check_seating(chain)
        if i:
            check_seating(last)  # which stays true
    assert chain.counts.arrays is not before and (tables > 2).any()


def test_what_blocks_change_together_is_no_seating_but_the_draw_is(monkeypatch):
    """The sums of tables leave the bounds, so that these are of account; tokens leave topics."""
    added, found = [], pitman_yor_blocks.SeatedCounts.seated

    def noted(counts, tables):
        added.append((counts.arrays["counts"], tables))
        return found(counts, tables)

    monkeypatch.setattr(pitman_yor_blocks.SeatedCounts, "seated", staticmethod(noted))
    chain = chain_of(cut(n_blocks=20), 4, concentration=20.0)
    for _ in range(3):
        chain = lda.sweep(chain, n_steps=1)
        chain.n_passes += 1
        check_seating(chain)
    counts, tables = map(np.concatenate, zip(*added[1:], strict=True))
    assert (tables < 1).any() and (tables > counts).any()


@pytest.mark.parametrize("n_blocks", [1, 3])
def test_tables_are_drawn_from_the_sum_of_what_blocks_made(n_blocks, monkeypatch):
    chain, made = chain_of(cut(n_blocks=n_blocks), 4, concentration=20.0), []
    found = pitman_yor_blocks.SeatedStart.all_changes

    def noted(start, held, counts, changes):
        row_ptr, topics, _ = counts.to_lists()
        after = sp.csr_array((counts.to_tables(), topics, row_ptr), shape=(30, 4)).toarray()
        made.append((held.size > 0, after))
        return found(start, held, counts, changes)

    monkeypatch.setattr(pitman_yor_blocks.SeatedStart, "all_changes", noted)
    for draw in (draw_tables, draw_tables, lambda *given: None):
        before = chain.counts.table_of_tables(4).toarray()
        made.clear()
        monkeypatch.setattr(pitman_yor_blocks, "draw_tables", draw)
        chain = lda.sweep(chain, n_steps=1)
        chain.n_passes += 1
    want = before + sum((after - before) * own[:, None] for own, after in made)
    want = np.clip(want, 1, None)
    counts = chain.counts.to_table(4).toarray()
    np.testing.assert_array_equal(check_seating(chain), np.minimum(want, counts))
    assert len(made) == n_blocks and (want != before).sum() > 10
    if n_blocks == 1:
        np.testing.assert_array_equal(check_seating(chain), made[0][1])  # a seating as it is


def test_tables_stop_at_the_most():
    X = blocked(sp.csr_matrix([[2000, 1], [1500, 3]]), [0, 1, 2])
    chain = chain_of(X, 2, concentration=1e6, gamma=1.0)
    for _ in range(3):
        chain = lda.sweep(chain, n_steps=1)
        chain.n_passes += 1
    assert check_seating(chain).max() == MOST
    assert np.isfinite(chain.log_likelihood())


def test_log_likelihood_is_that_of_all_tokens_and_tables():
    chain = lda.sweep(chain_of(cut(), 4), n_steps=1)
    words = np.concatenate([part.word for part in chain.tokens.blocks.parts])
    tables = chain.counts.table_of_tables(4).toarray().T
    want = log_words(words, np.concatenate(chain.z), tables, np.full(30, 0.1), 0.3, 2.0)
    assert chain.words_log_likelihood() == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize("discount", [0.0, 0.4])
@pytest.mark.parametrize("sampler", ["dense", "sparse", "alias"])
def test_one_block_has_the_posterior_of_topics_and_tables(sampler, discount):
    """Its own tables are a seating, and those drawn after it have the same distribution."""
    states, joint = enumerated(discount)
    # The posterior's states by documents and words, whatever the order of tokens in a block.
    number = {(*z, *tables.ravel()): i for i, (z, tables) in enumerate(states)}
    for seed in (0, 1):
        X = blocked(sp.csr_matrix(TWO_DOCUMENTS), [0, 2])
        given = {"alpha": ALPHA, "gamma": GAMMA, "discount": discount, "concentration": 1.5}
        chain = chain_of(X, 2, sampler=sampler, seed=seed, **given)
        chain.n_passes = 1000  # tables are rarely built anew by now
        seen = np.zeros(len(states))
        for _ in range(600):
            for _ in range(4):
                move(chain)
            tables = chain.counts.table_of_tables(2).toarray().T
            seen[number[*map(int, chain.z[0]), *map(int, tables.ravel())]] += 1
        assert agrees(seen, np.exp(joint - joint.max()))


def test_a_block_sees_tables_of_all_at_the_start():
    chain = chain_of(cut(), 4)
    for _ in range(2):
        chain = lda.sweep(chain, n_steps=1)
        chain.n_passes += 1
    tables = chain.counts.table_of_tables(4).toarray()
    start, part = pitman_yor_blocks.SeatedStart(chain, 1), chain.tokens.blocks.parts[1]
    counts = start.counts_for(part)
    row_ptr, topics, values = counts.to_lists()
    held = part.size > 0
    for lists, want in ((values, chain.counts.to_table(4).toarray()), (counts.to_tables(), tables)):
        found = sp.csr_array((lists, topics, row_ptr), shape=(30, 4)).toarray()
        np.testing.assert_array_equal(found[held], want[held])
        assert not found[~held].any()
    totals = start.n_topic.copy(), start.seating()[3].copy()
    changes, _ = blocks.sweep_block(part, chain.z[1], start)
    again, _ = blocks.sweep_block(part, chain.z[1], start)
    np.testing.assert_array_equal(changes.toarray(), again.toarray())  # threads share the start
    np.testing.assert_array_equal(start.n_topic, totals[0])
    np.testing.assert_array_equal(start.seating()[3], totals[1])
    changes = changes.toarray()
    assert changes[30:].any() and not changes[:30][~held].any() and not changes[30:][~held].any()


# ---------------------------------------------------------------------- what is kept


@pytest.mark.parametrize("grows", [False, True])
def test_tables_stay_where_counts_are_made_anew(grows):
    if grows:
        settings = {"n_components": 6, "doc_concentration": 0.8, "topic_concentration": 1.5}
        chain = chain_of(cut(), 4, pitman_yor_blocks.ProcessPitmanYorInBlocks, **settings)
    else:
        chain, settings = chain_of(cut(), 4), {"alpha": np.full(4, 0.3)}
    for _ in range(3):
        chain = lda.sweep(chain, n_steps=1)
        chain.n_passes += 1
    settings.update(prior=chain.prior, sampler="auto", discount=0.6, concentration=5.0)
    before = check_seating(chain)
    other = chain.own(**settings)
    assert other.discount == 0.6
    np.testing.assert_array_equal(check_seating(other), before)
    more = chain_of(cut(COUNTS[:20], 2), 4)
    longer = chain.extended(more.tokens, more.z, **settings)
    tables = check_seating(longer)
    # Where there were tables there are as many, and one where a word is new in a topic.
    np.testing.assert_array_equal(tables[before > 0], before[before > 0])
    assert (tables[before == 0] <= 1).all()
    np.testing.assert_array_equal(check_seating(chain), before)


@pytest.mark.parametrize("name", PITMAN_YOR)
def test_components_are_counts_less_discounts_and_what_smooths_them(name):
    model = clone(ESTIMATORS["pitman_yor"]).set_params(burn_in=1, max_iter=4)
    model.set_params(sample_every=10, learn_every=1)
    if name != "pitman_yor":
        model.set_params(doc_topic_prior_type="dirichlet_process")
    chain = model.fit(cut())._fit_state
    a, b, K = model.discount_, model.concentration_, chain.n_components
    assert (a, b) != (0.1, 3.0)  # learned
    tables, counts = check_seating(chain), chain.counts.to_table(K).toarray()
    base = model.topic_word_prior_ + tables.sum(axis=1)
    base = base / base.sum()
    np.testing.assert_allclose(model.base_word_distr_, base)
    want = (counts - a * tables + np.outer(base, b + a * tables.sum(axis=0))).T
    used = chain.used() if name != "pitman_yor" else np.arange(K)
    np.testing.assert_allclose(model.components_, want[used], rtol=1e-5)


@pytest.mark.parametrize("name", PITMAN_YOR)
def test_first_sweeps_are_those_of_dirichlet_topics(name):
    """Four of the five; each word has one table in a topic until then."""
    model = clone(ESTIMATORS["pitman_yor"])
    model.set_params(init="random", burn_in=8, learn_every=1, warm_start=True)
    if name != "pitman_yor":
        model.set_params(doc_topic_prior_type="dirichlet_process")
    plain = clone(model).set_params(topic_word_prior_type="dirichlet")
    for n in (4, 1):
        for each in (plain, model):
            each.set_params(max_iter=n).fit(cut())
        same = map(np.array_equal, plain._fit_state.z, model._fit_state.z)
        assert all(same) == (n == 4)
        chain = model._fit_state
        tables = chain.counts.table_of_tables(chain.n_components)
        assert (tables.max() > 1) == (n == 1)
        np.testing.assert_array_equal(chain.n_tables, tables.sum(axis=0))
        assert (model.discount_ == 0.1) == (n == 4)


def test_more_tokens_than_steps_are_made_for(monkeypatch):
    monkeypatch.setattr(pitman_yor, "MOST_TOKENS", int(COUNTS.sum(axis=0).max()) - 1)
    model = clone(ESTIMATORS["pitman_yor"])
    with pytest.raises(ValueError, match="tokens of feature .*topic_word_prior_type='pitman_yor'"):
        model.fit(cut())
    assert not hasattr(model, "components_")


# ---------------------------------------------------------------------- staleness


def power_laws(a=0.5, b=20.0, n_features=2000, n_topics=10):
    """Documents of topics from Pitman-Yor processes."""
    rng = np.random.default_rng(0)
    base = 1 / (10 + np.arange(n_features))
    topics = np.zeros((n_topics, n_features))
    for topic in topics:
        sticks = rng.beta(1 - a, b + a * np.arange(1, 4001))
        weights = sticks * np.concatenate([[1], np.cumprod(1 - sticks[:-1])])
        np.add.at(topic, rng.choice(n_features, p=base / base.sum(), size=len(weights)), weights)
    topics /= topics.sum(axis=1, keepdims=True)
    weights = rng.dirichlet(np.full(n_topics, 0.2), size=1200)
    return sp.csr_matrix(np.array([rng.multinomial(60, w @ topics) for w in weights]))


@pytest.fixture(scope="module", params=["drawn", "drawn, process", "kos"])
def held_out(request, real_corpus):
    """A chain to be fitted, documents to learn from and others, and their score in memory."""
    if request.param == "kos":
        X = sp.csr_matrix(real_corpus("kos"))
        X, n_topics = X[np.random.default_rng(0).permutation(X.shape[0])], 50
    else:
        X, n_topics = power_laws(), 10
    chain = AliasLDA(n_topics, topic_word_prior_type="pitman_yor", n_jobs=1, random_state=0)
    chain.set_params(max_iter=20)
    if request.param == "drawn, process":
        chain.set_params(doc_topic_prior_type="dirichlet_process")
    train, test = X[200:], X[:200]
    return chain, train, test, clone(chain).fit(train)


@pytest.mark.parametrize("n_blocks", [4, 16])
def test_stale_tables_cost_little(held_out, n_blocks):
    chain, train, test, here = held_out
    begun = clone(chain).set_params(max_iter=0).fit(train).score(test)
    there = clone(chain).fit(cut(train, n_blocks))
    scores = begun, here.score(test), there.score(test)
    assert scores[2] > scores[1] - STALE
    assert scores[2] - scores[0] > STALE  # there was something to be lost


def test_words_have_as_many_tables_as_in_one_block():
    """Stale counts spread words over a few more topics; there tables are as many as they must."""
    X, found = power_laws(), []
    for n_blocks in (1, 4, 16):
        tables = pairs = 0
        for seed in range(4):  # from one chain to another the ratio differs by 1.5 %
            chain = chain_of(cut(X, n_blocks), 10, seed=seed, discount=0.5, concentration=20.0)
            for _ in range(40):
                move(chain)
                if chain.n_passes > 20:
                    tables += chain.n_tables.sum()
                    pairs += len(chain.counts.to_tables())
        found.append(tables / pairs)
    assert max(found) < 1.03 * min(found), found
    assert min(found) > 1.5  # else one a word were as good
