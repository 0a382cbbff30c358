"""Dirichlet processes over documents against enumeration, Geweke's test, and plain draws."""

import itertools
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from geweke import have_one_mean, move, replace_tokens, replace_words, seat
from reference import agrees
from scipy.special import betaln, gammaln
from scipy.stats import binom
from test_pitman_yor_exact import as_tables, every_state, log_words, words_under

from sklearn_sparsepost._run import threads
from sklearn_sparsepost._sampling import lda, process
from sklearn_sparsepost._sampling.pitman_yor import learn_concentration, learn_discount
from sklearn_sparsepost._sampling.tokens import Tokens

SAMPLERS = ["by_word", "dense", "sparse", "alias", "cycle"]
# Unsigned Stirling numbers of the first kind: ways to seat n tokens at t tables.
STIRLING = [[1], [0, 1], [0, 1, 1], [0, 2, 3, 1], [0, 6, 11, 6, 1]]


def start(X, K, sampler="dense", *, b0=1.5, b1=0.8, beta=0.4, seed=0, pitman_yor=None):
    """A chain from uniform assignments; discount and concentration make it one of Pitman-Yor."""
    tokens = Tokens(sp.csr_matrix(X), seed)
    options = {
        "n_components": K,
        "doc_concentration": b1,
        "topic_concentration": b0,
        "prior": lda.WordPrior(beta, X.shape[1], K),
        "sampler": sampler,
    }
    z = np.random.default_rng(seed).integers(min(K, 20), size=tokens.n_tokens).astype(np.uint16)
    if pitman_yor:
        options.update(zip(("discount", "concentration"), pitman_yor, strict=True))
        return process.ProcessPitmanYorChain(tokens, z, seed, **options)
    return process.ProcessChain(tokens, z, seed, **options)


def swept(state):
    state = lda.sweep(state, n_steps=1)
    state.n_passes += 1
    return state


# ---------------------------------------------------------------------- tables and weights


def test_tables_are_seated_as_the_process_has_it():
    """Sums of Bernoulli draws, one a token, against draws for all documents together."""
    rng = np.random.default_rng(0)
    alpha = np.array([0.3, 2.0, 1e-30, 0.7])
    topics = np.array([0, 0, 1, 1, 1, 3, 0, 2], dtype=np.int32)
    counts = np.array([5, 1, 40, 7, 7, 2, 5, 3], dtype=np.int32)
    cases = np.unique(topics * np.int64(1 << 32) + counts, return_counts=True)
    found = np.array([process.tables_of_topics(*cases, alpha, rng) for _ in range(4000)])
    mean, variance = np.zeros(4), np.zeros(4)
    for k, n in zip(topics, counts, strict=True):
        p = alpha[k] / (alpha[k] + np.arange(n))
        mean[k] += p.sum()
        variance[k] += (p * (1 - p)).sum()
    np.testing.assert_allclose(
        found.mean(axis=0), mean, atol=4.5 * variance.max() ** 0.5 / 4000**0.5
    )
    np.testing.assert_allclose(found.var(axis=0), variance, rtol=0.12, atol=1e-12)
    assert (found >= [3, 3, 1, 1]).all() and (found <= counts.sum()).all()
    nothing = process.tables_of_topics(*(part[:0] for part in cases), alpha, rng)
    assert nothing.shape == (4,) and not nothing.any()


def test_tables_of_many_documents():
    """Frequencies against binomial ones, where a draw is of many tokens, and of nearly all."""
    rng = np.random.default_rng(0)

    def draw(alpha, n):  # beyond the first, of n documents of two tokens of topic 0
        given = np.array([2]), np.array([n]), np.array([alpha])
        return int(process.tables_of_topics(*given, rng)[0]) - n

    for alpha, n in ((0.3, 200), (30.0, 50), (1.0, 40), (0.01, 30)):
        seen = np.bincount([draw(alpha, n) for _ in range(4000)], minlength=n + 1)
        weights = binom.pmf(np.arange(n + 1), n, alpha / (alpha + 1))
        likely = weights > 1e-6
        assert agrees(seen[likely], weights[likely])
    assert draw(1e-30, 10**6) == 0
    assert draw(1e200, 70) == 70


@pytest.mark.parametrize("b0", [0.5, 3.0])
def test_exchanges_leave_orders_given_weights(b0):
    """Frequencies of the orders of four weights against their densities."""
    rng = np.random.default_rng(1)
    weights = np.array([0.5, 0.1, 0.15, 0.25])
    orders = list(itertools.permutations(range(4)))

    def breaks_of(order):
        ordered = weights[list(order)]
        return ordered / (1 - np.append(0, ordered.cumsum()[:-1]))

    # Beta(1, b_0) breaks, and what the change from breaks to weights is worth.
    density = []
    for order in orders:
        left = 1 - np.append(0, weights[list(order)].cumsum()[:-1])
        broken = breaks_of(order)[:-1]
        density.append(np.prod((1 - broken) ** (b0 - 1) / left[:-1]))
    seen, order = np.zeros(len(orders)), np.arange(4)
    for _ in range(3000):
        breaks = breaks_of(order)
        breaks[-1] = 1
        order = process.exchanged(order, breaks, b0, rng)
        seen[orders.index(tuple(order))] += 1
    assert agrees(seen, np.array(density))


# ---------------------------------------------------------------------- the stationary distribution


def log_joint(words, documents, z, K, V, b0, b1, beta):
    """log p(words, topics), weights and tables summed out."""
    n_word = np.zeros((K, V))
    np.add.at(n_word, (z, words), 1)
    value = (gammaln(n_word + beta) - gammaln(beta)).sum()
    value += (gammaln(V * beta) - gammaln(V * beta + n_word.sum(axis=1))).sum()
    return value + log_topics(documents, z, K, b0, b1)


def log_topics(documents, z, K, b0, b1):
    """log p(topics), weights and the processes' tables summed out, all orders of slots alike."""
    n_doc = np.zeros((documents.max() + 1, K), dtype=int)
    np.add.at(n_doc, (documents, z), 1)
    sizes = n_doc.sum(axis=1)
    value = (gammaln(b1) - gammaln(b1 + sizes)).sum()
    # How many ways there are to have so many tables in each topic.
    ways = {(0,) * K: 1.0}
    for (_, k), n in np.ndenumerate(n_doc):
        more = {}
        for tables, weight in ways.items():
            for t, number in enumerate(STIRLING[n]):
                if number:
                    new = (*tables[:k], tables[k] + t, *tables[k + 1 :])
                    more[new] = more.get(new, 0) + weight * number
        ways = more
    total = 0.0
    for tables, weight in ways.items():
        for order in itertools.permutations(tables):
            ordered = np.array(order)
            rest = ordered[::-1].cumsum()[::-1] - ordered
            sticks = betaln(1 + ordered[:-1], b0 + rest[:-1]) - betaln(1, b0)
            total += weight * b1 ** ordered.sum() * np.exp(sticks.sum())
    return value + np.log(total)


TWO_DOCUMENTS = np.array([[2, 0, 1], [1, 1, 0]])


@cache
def enumerated(b0):
    """All topics of the tokens of two documents, and their posterior."""
    tokens = Tokens(sp.csr_matrix(TWO_DOCUMENTS), 0)
    documents = np.repeat([0, 1], np.diff(tokens.doc_ptr))
    states = list(itertools.product(range(3), repeat=tokens.n_tokens))
    joint = np.array(
        [log_joint(tokens.word, documents, np.array(z), 3, 3, b0, 0.8, 0.4) for z in states]
    )
    posterior = np.exp(joint - joint.max())
    return states, posterior / posterior.sum()


@pytest.mark.parametrize("seed, b0, n_steps", [(0, 0.6, 1), (1, 2.0, 2), (2, 2.0, 1)])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_frequencies_are_the_posterior(sampler, seed, b0, n_steps):
    """A long chain on two documents against the posterior of all topics."""
    states, posterior = enumerated(b0)
    number = {z: i for i, z in enumerate(states)}
    state = start(TWO_DOCUMENTS, 3, sampler, b0=b0, seed=seed)
    state.n_passes = 1000  # tables of words are rarely built anew by now
    seen = np.zeros(len(states))
    # What follows a sweep is the same for all: one is watched for long, which shows small errors.
    for _ in range(1500 if sampler == "dense" else 400):
        for _ in range(10):  # states with all tokens in one topic last: the test wants independence
            move(state, n_steps)
        seen[number[tuple(state.z.tolist())]] += 1
    assert agrees(seen, posterior)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("sampler", ["by_word", "dense", "sparse", "alias"])
def test_frequencies_with_pitman_yor_topics(sampler, seed):
    """Both processes together against the posterior of all topics, and tables of words."""
    tokens = Tokens(sp.csr_matrix(TWO_DOCUMENTS), 0)
    documents = np.repeat([0, 1], np.diff(tokens.doc_ptr))
    states = list(every_state(tokens.word, 2, 3))
    gamma, a, b = np.full(3, 0.4), 0.4, 1.5
    joint = np.array(
        [
            log_topics(documents, z, 2, 1.2, 0.8) + log_words(tokens.word, z, tables, gamma, a, b)
            for z, tables in states
        ]
    )
    posterior = np.exp(joint - joint.max())
    number = {(*z, *tables.ravel()): i for i, (z, tables) in enumerate(states)}
    state = start(TWO_DOCUMENTS, 2, sampler, b0=1.2, pitman_yor=(a, b), seed=seed)
    state.n_passes = 1000
    seen = np.zeros(len(states))
    for _ in range(500):
        for _ in range(10):
            move(state)
        seen[number[*state.z, *as_tables(state)[1].T.ravel()]] += 1
    assert agrees(seen, posterior)


@pytest.mark.parametrize(
    "sampler, pitman_yor",
    [*((s, False) for s in SAMPLERS), *((s, True) for s in ("by_word", "dense", "alias"))],
)
def test_geweke(sampler, pitman_yor):
    """Words under topics and all else under words, in turn: as if all were drawn from the prior."""
    rng = np.random.default_rng(0)
    K, V, length, n_documents, n_draws = 4, 3, 5, 4, 2500
    documents, gamma = np.repeat(np.arange(n_documents), length), np.full(V, 0.4)

    def features(words, z, weights, b0, b1, tables, of_words):
        sizes = np.bincount(z, minlength=K)
        cells = np.bincount(z * V + words, minlength=K * V)
        within = np.bincount(documents * K + z)
        values = [(sizes**2).sum(), (sizes > 0).sum(), (cells**2).sum(), (within**2).sum()]
        seats = [tables.sum(), (tables**2).sum(), *of_words] if pitman_yor else []
        shares = [(weights**2).sum(), weights.max()]
        return [*values, *shares, np.log(b0), np.log(b1), *seats]

    def words_given(z, of_words):
        """Words of tokens, and their tables if they sit at any."""
        if pitman_yor:
            return words_under(z, K, gamma, *of_words, rng)
        topics = rng.dirichlet(gamma, size=K)
        return (rng.random((len(z), 1)) > topics[z].cumsum(axis=1)[:, :-1]).sum(axis=1), None

    drawn = []
    for _ in range(n_draws):
        b0, b1 = rng.exponential(size=2)
        of_words = rng.uniform(1e-4, 0.98), rng.exponential(0.1 * V)
        breaks = np.append(rng.beta(1, b0, size=K - 1), 1)
        weights = breaks * np.append(1, np.cumprod(1 - breaks[:-1]))
        pi = np.array([rng.dirichlet(np.maximum(b1 * weights, 1e-30)) for _ in range(n_documents)])
        z = (rng.random((len(documents), 1)) > pi[documents].cumsum(axis=1)[:, :-1]).sum(axis=1)
        words, tables = words_given(z, of_words)
        drawn.append(features(words, z, weights, b0, b1, tables, of_words))

    options = {"b0": b0, "b1": b1, "pitman_yor": of_words if pitman_yor else None}
    state = start(np.full((n_documents, V), 2), K, sampler, **options)
    replace_tokens(state, words, z, length)
    move(state)  # builds tables of words, which stay: one that follows would disturb
    state.n_passes = 10_001
    chain = []
    for _ in range(4500):
        of_words = (state.discount, state.concentration) if pitman_yor else ()
        words, tables = words_given(state.z.astype(int), of_words)
        replace_words(state, words)
        if pitman_yor:
            seat(state, tables)
        move(state, n_passes=2 if lda.builds_tables(state.n_passes + 1) else 1)
        process.learn_concentrations(state, of_documents=True, of_topics=True)
        if pitman_yor:
            learn_concentration(state)
            learn_discount(state)
            tables, of_words = as_tables(state)[1].T, (state.discount, state.concentration)
        b = state.topic_concentration, state.doc_concentration
        z = state.z.astype(int)
        chain.append(features(state.tokens.word, z, state.weights, *b, tables, of_words))
    assert have_one_mean(np.array(chain[500:]), np.array(drawn), 40)


# ---------------------------------------------------------------------- counts and bytes


@pytest.fixture
def blocks(monkeypatch):
    """Small corpora are cut into blocks, too."""
    monkeypatch.setattr("sklearn_sparsepost._sampling.tokens.SERIAL_TOKENS", 0)


@pytest.mark.parametrize("pitman_yor", [None, (0.3, 20.0)])
@pytest.mark.parametrize("sampler", ["auto", "dense"])
def test_counts_and_weights_stay_those_of_the_tokens(corpus, blocks, sampler, pitman_yor):
    state = start(corpus, 40, sampler, pitman_yor=pitman_yor)
    for _ in range(4):
        before = state.z.copy(), state.weights.copy(), state.order.copy()
        new = swept(state)
        for one, other in zip(before, (state.z, state.weights, state.order), strict=True):
            np.testing.assert_array_equal(one, other)  # the chain before stays true
        state = new
        row_ptr, topics, counts = state.counts.to_lists()
        found = sp.csr_array((counts, topics, row_ptr), shape=(corpus.shape[1], 40)).toarray()
        want = np.zeros_like(found)
        np.add.at(want, (state.tokens.word, state.z), 1)
        np.testing.assert_array_equal(found, want)
        np.testing.assert_array_equal(state.n_topic, want.sum(axis=0))
        assert ((state.tables > 0) == (state.n_topic > 0)).all()
        assert (state.tables <= state.n_topic).all()
        assert state.weights.sum() == pytest.approx(1)
        np.testing.assert_array_equal(np.sort(state.order), np.arange(40))
        np.testing.assert_allclose(state.alpha.sum(), state.doc_concentration)
    assert np.isfinite(state.log_likelihood())


@pytest.mark.parametrize("pitman_yor", [None, (0.3, 20.0)])
def test_same_bytes_for_any_number_of_threads(corpus, blocks, monkeypatch, pitman_yor):
    monkeypatch.setattr(threads, "SMALL_WORK", 0)
    monkeypatch.setattr(threads, "most_threads", lambda: 3)
    found = set()
    for n_threads in (1, 2, 3):
        state = start(corpus, 30, "auto", pitman_yor=pitman_yor)
        for _ in range(4):
            with threads.settled_threads(n_threads):
                move(state)
            process.learn_concentrations(state, of_documents=True, of_topics=True)
        found.add(state.z.tobytes() + state.weights.tobytes())
    assert len(found) == 1


def test_slots_of_which_hardly_anything_is_left():
    """Sticks that break at nearly all or nothing, and a single slot."""
    for b0, b1 in ((1e-30, 1e-30), (1e30, 1e30), (1e-3, 1e3)):
        state = start(np.array([[30, 2, 0], [1, 1, 9]]), 500, "auto", b0=b0, b1=b1)
        with np.errstate(all="raise", under="ignore"):
            for _ in range(3):
                move(state)
        assert np.isfinite(state.alpha).all() and (state.alpha > 0).all()
        assert np.isfinite(state.log_likelihood())
    state = swept(start(np.array([[3, 2]]), 1))
    assert state.weights.tolist() == [1.0] and state.used().tolist() == [0]
