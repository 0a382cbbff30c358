"""Pitman-Yor topics against enumeration of topics and tables, Geweke's test, exact integers."""

import itertools
from bisect import bisect_right
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from geweke import have_one_mean, move, replace_tokens, replace_words, seat
from reference import agrees
from scipy.special import gammaln

from sklearn_sparsepost._kernels._stirling import rows_of_tokens, seating_steps
from sklearn_sparsepost._run import threads
from sklearn_sparsepost._sampling import lda, pitman_yor
from sklearn_sparsepost._sampling.tokens import Tokens

SAMPLERS = ["by_word", "dense", "sparse", "alias"]


@cache
def stirling(m, s, a):
    """The generalised Stirling number S(m, s) of a discount, exact if this is a fraction."""
    if m == 0:
        return int(s == 0)
    if not 0 < s <= m:
        return 0
    return stirling(m - 1, s - 1, a) + (m - 1 - a * s) * stirling(m - 1, s, a)


def start(X, K, sampler="dense", *, alpha=None, gamma=0.1, discount=0.3, concentration=2.0, seed=0):
    """A chain from uniform assignments."""
    tokens = Tokens(sp.csr_matrix(X), seed)
    z = np.random.default_rng(seed).integers(K, size=tokens.n_tokens).astype(np.uint16)
    return pitman_yor.PitmanYorChain(
        tokens,
        z,
        seed,
        alpha=np.full(K, 0.5 / K) if alpha is None else alpha,
        prior=lda.WordPrior(gamma, X.shape[1], K),
        sampler=sampler,
        discount=discount,
        concentration=concentration,
    )


def as_tables(state):
    """Tokens and tables of words in topics."""
    row_ptr, topics, counts = state.counts.to_lists()
    shape = len(state.tokens.size), state.n_components
    lists = counts, state.counts.to_tables()
    return [sp.csr_array((values, topics, row_ptr), shape=shape).toarray() for values in lists]


# ---------------------------------------------------------------------- steps


@pytest.mark.parametrize("discount", [0.0, 0.25, 0.875])
def test_steps_are_ratios_of_stirling_numbers(discount):
    a = Fraction(discount)
    steps, logs = seating_steps(discount, 600)
    for m in range(1, 40):
        for s in range(1, m + 1):
            here = stirling(m, s, a)
            assert steps[m, s, 0] == pytest.approx(m - discount * s, rel=1e-6)
            alone = stirling(m - 1, s - 1, a) / Fraction(here)
            assert steps[m, s, 1] == pytest.approx(float(alone), rel=1e-6)
            ratio = here / stirling(m, 1, a)
            assert logs[m, s] == pytest.approx(np.log(float(ratio)), rel=1e-9, abs=1e-9)
    assert not steps[0].any()


def test_steps_between_rows_are_near():
    """Rows grow apart from 512 tokens on: those of m tokens, and what lies between."""
    rows, shares = rows_of_tokens(np.arange(1, 5000))
    assert (rows[:511] == np.arange(1, 512)).all() and not shares[:511].any()
    assert (np.diff(rows + shares) > 0).all()
    for a in (0.0, 0.4):
        steps, logs = seating_steps(a, 5000)
        assert np.isfinite(steps).all() and (steps >= 0).all()
        # A step of the recursion between two neighbours: S(m - 1, s - 1) / S(m, s) both ways.
        m = np.array([700, 1201, 3333, 4998])
        for s in (2, 3, 40, 200):
            values = []
            for tokens, tables in ((m, s), (m - 1, s - 1)):
                rows, shares = rows_of_tokens(tokens)
                low, high = logs[rows, tables], logs[rows + 1, tables]
                values.append(low + shares * (high - low) + gammaln(tokens - a))
            rows, shares = rows_of_tokens(m)
            ratio = steps[rows, s, 1] + shares * (steps[rows + 1, s, 1] - steps[rows, s, 1])
            np.testing.assert_allclose(np.log(ratio), values[1] - values[0], atol=2e-4)


# ---------------------------------------------------------------------- the stationary distribution


def log_joint(words, documents, z, tables, alpha, gamma, a, b):
    """log p(words, topics, tables), all weights integrated out; `tables` of shape (K, V)."""
    n_doc = np.zeros((documents.max() + 1, len(alpha)))
    np.add.at(n_doc, (documents, z), 1)
    value = (gammaln(n_doc + alpha) - gammaln(alpha)).sum()
    value += (gammaln(alpha.sum()) - gammaln(n_doc.sum(axis=1) + alpha.sum())).sum()
    return value + log_words(words, z, tables, gamma, a, b)


def log_words(words, z, tables, gamma, a, b):
    """log p(words, tables | topics)."""
    K, V = tables.shape
    n_word, value = np.zeros((K, V), dtype=int), 0.0
    np.add.at(n_word, (z, words), 1)
    for k in range(K):
        value += np.log(b + a * np.arange(tables[k].sum())).sum()
        value -= np.log(b + np.arange(n_word[k].sum())).sum()
        pairs = zip(n_word[k], tables[k], strict=True)
        value += sum(np.log(float(stirling(m, s, a))) for m, s in pairs)
    base = tables.sum(axis=0)
    value += (gammaln(base + gamma) - gammaln(gamma)).sum()
    return value + gammaln(gamma.sum()) - gammaln((base + gamma).sum())


def every_state(words, K, V):
    """All topics of tokens with all tables that go with them."""
    for z in itertools.product(range(K), repeat=len(words)):
        counts = np.zeros((K, V), dtype=int)
        np.add.at(counts, (np.array(z), words), 1)
        choices = [range(min(m, 1), m + 1) for m in counts.ravel()]
        for tables in itertools.product(*choices):
            yield np.array(z), np.array(tables).reshape(K, V)


TWO_DOCUMENTS = np.array([[3, 0, 1], [1, 1, 0]])
ALPHA, GAMMA = np.array([0.4, 0.7]), np.array([0.2, 0.5, 0.3])


@cache
def enumerated(discount):
    """All topics and tables of the tokens of two documents, and log p of each."""
    tokens = Tokens(sp.csr_matrix(TWO_DOCUMENTS), 0)
    documents = np.repeat([0, 1], np.diff(tokens.doc_ptr))
    states = list(every_state(tokens.word, 2, 3))
    joint = [log_joint(tokens.word, documents, *s, ALPHA, GAMMA, discount, 1.5) for s in states]
    return states, np.array(joint)


@pytest.mark.parametrize("discount", [0.0, 0.4])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_frequencies_are_the_posterior(sampler, discount):
    """A long chain on two documents against the posterior of all topics and tables."""
    states, joint = enumerated(discount)
    posterior = np.exp(joint - joint.max())
    posterior /= posterior.sum()
    number = {(*z, *tables.ravel()): i for i, (z, tables) in enumerate(states)}
    for seed, n_steps in ((0, 1), (1, 2)):
        state = start(
            TWO_DOCUMENTS,
            2,
            sampler,
            alpha=ALPHA,
            gamma=GAMMA,
            discount=discount,
            concentration=1.5,
            seed=seed,
        )
        first = number[*state.z, *as_tables(state)[1].T.ravel()]
        assert np.isclose(state.log_likelihood(), joint[first])
        state.n_passes = 1000  # tables are rarely built anew by now
        seen = np.zeros(len(states))
        for _ in range(600):
            for _ in range(4):
                move(state, n_steps)
            seen[number[*state.z, *as_tables(state)[1].T.ravel()]] += 1
        assert agrees(seen, posterior)


def pick(weights, rng):
    """A number drawn by weights, of which there are few: numpy would take longer."""
    ends = list(itertools.accumulate(weights))
    return bisect_right(ends, ends[-1] * rng.random())


def words_under(z, K, gamma, a, b, rng):
    """Words of tokens and their tables, seated one after another as the process has it."""
    V = len(gamma)
    size, dish = [[] for _ in range(K)], [[] for _ in range(K)]  # of the topics' tables
    opened, words = gamma.tolist(), np.empty(len(z), dtype=np.int32)
    for i, k in enumerate(z.tolist()):
        table = pick([*(n - a for n in size[k]), b + a * len(size[k])], rng)
        if table == len(size[k]):
            word = pick(opened, rng)
            opened[word] += 1
            size[k].append(0)
            dish[k].append(word)
        size[k][table] += 1
        words[i] = dish[k][table]
    tables = np.array([np.bincount(found, minlength=V) for found in map(np.intp, dish)])
    return words, tables


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_geweke(sampler):
    """Words under topics and all else under words, in turn: as if all were drawn from the prior."""
    rng = np.random.default_rng(0)
    K, V, length, n_documents, n_draws = 2, 3, 4, 3, 1000
    alpha, gamma = np.array([0.5, 1.0]), np.array([0.4, 0.8, 0.8])
    documents = np.repeat(np.arange(n_documents), length)

    def features(words, z, tables, a, b):
        cells = np.bincount(z * V + words, minlength=K * V)
        return [(z == 0).sum(), (cells**2).sum(), tables.sum(), (tables**2).sum(), a, np.log(b)]

    drawn = []
    for _ in range(n_draws):
        weights = rng.dirichlet(alpha, size=n_documents)[documents]
        z = (rng.random(len(documents)) > weights[:, 0]).astype(int)
        a, b = rng.uniform(1e-4, 0.98), rng.exponential(0.1 * V)
        words, tables = words_under(z, K, gamma, a, b, rng)
        drawn.append(features(words, z, tables, a, b))

    options = {"alpha": alpha, "gamma": gamma, "discount": a, "concentration": b}
    state = start(np.full((n_documents, V), 2), K, sampler, **options)
    replace_tokens(state, words, z, length)
    move(state)  # builds tables, which stay: one that follows the state would disturb
    state.n_passes = 10_001
    chain = []
    for _ in range(1200):
        z = state.z.astype(int)
        words, tables = words_under(z, K, gamma, state.discount, state.concentration, rng)
        replace_words(state, words)
        seat(state, tables)
        move(state, n_passes=2 if lda.builds_tables(state.n_passes + 1) else 1)
        pitman_yor.learn_concentration(state)
        pitman_yor.learn_discount(state)
        tables = as_tables(state)[1].T
        z = state.z.astype(int)
        chain.append(features(words, z, tables, state.discount, state.concentration))
    chain, drawn = np.array(chain[120:], dtype=float), np.array(drawn, dtype=float)
    assert have_one_mean(chain, drawn, 60)


BASE = np.array([0.2, 0.5, 0.3])


def under_dirichlet(words, documents, z, b):
    """p(words, topics) of LDA with the prior b * BASE of words, up to a factor."""
    n_doc, n_word = np.zeros((2, 2)), np.zeros((2, 3))
    np.add.at(n_doc, (documents, z), 1)
    np.add.at(n_word, (z, words), 1)
    value = (gammaln(n_doc + ALPHA)).sum() + (gammaln(n_word + b * BASE)).sum()
    return np.exp(value - gammaln(n_word.sum(axis=1) + b).sum())


def test_no_discount_and_a_known_base_is_the_dirichlet_distribution():
    """Tables summed out under a base that hardly moves: the posterior of topics is LDA's."""
    words, documents, b = np.array([0, 0, 1, 0, 2]), np.array([0, 0, 0, 1, 1]), 1.5
    found, wanted = {}, {}
    for z, tables in every_state(words, 2, 3):
        joint = log_joint(words, documents, z, tables, ALPHA, 1e9 * BASE, 0.0, b)
        found[tuple(z)] = found.get(tuple(z), 0) + np.exp(joint)
        wanted[tuple(z)] = under_dirichlet(words, documents, z, b)
    found, wanted = (np.array([case[z] for z in found]) for case in (found, wanted))
    np.testing.assert_allclose(found / found.sum(), wanted / wanted.sum(), rtol=1e-5)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_no_discount_and_a_known_base_draw_topics_of_lda(sampler):
    """A long chain under a base that hardly moves against LDA's posterior of topics."""
    prior = {"alpha": ALPHA, "gamma": 1e6 * BASE, "discount": 0.0, "concentration": 1.5}
    for seed in (0, 1):
        state = start(TWO_DOCUMENTS, 2, sampler, seed=seed, **prior)
        words, documents = state.tokens.word, np.repeat([0, 1], np.diff(state.tokens.doc_ptr))
        states = list(itertools.product(range(2), repeat=len(words)))
        weights = np.array([under_dirichlet(words, documents, np.array(z), 1.5) for z in states])
        state.n_passes = 1000  # tables are rarely built anew by now
        seen = np.zeros(len(states))
        for _ in range(600):
            for _ in range(4):
                move(state)
            seen[states.index(tuple(state.z.tolist()))] += 1
        assert agrees(seen, weights)


# ---------------------------------------------------------------------- counts and bytes


@pytest.fixture
def blocks(monkeypatch):
    """Small corpora are cut into blocks, too."""
    monkeypatch.setattr("sklearn_sparsepost._sampling.tokens.SERIAL_TOKENS", 0)


@pytest.mark.parametrize("n_components", [3, 20, 70])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_counts_and_tables_stay_those_of_the_tokens(corpus, blocks, sampler, n_components):
    state = start(corpus, n_components, sampler, concentration=50.0)
    before = state.z.copy()
    for i in range(3):
        move(state, n_steps=2)
        if i == 1:
            pitman_yor.learn_discount(state)
        counts, tables = as_tables(state)
        want = np.zeros_like(counts)
        np.add.at(want, (state.tokens.word, state.z), 1)
        np.testing.assert_array_equal(counts, want)
        np.testing.assert_array_equal(state.n_topic, want.sum(axis=0))
        assert ((tables > 0) == (counts > 0)).all() and (tables <= counts).all()
        np.testing.assert_array_equal(state.n_tables, tables.sum(axis=0))
        np.testing.assert_array_equal(state.word_tables(), tables.sum(axis=1))
        # What the draws read is what tokens and tables say.
        arrays = [state.counts.arrays[name].copy() for name in ("cells", "tables")]
        state._hold()
        state.counts.seat(state.steps[0], *state._held_lists())
        np.testing.assert_array_equal(state.counts.arrays["tables"], arrays[1])
        np.testing.assert_array_equal(
            state.counts.arrays["cells"][arrays[1] > 0], arrays[0][arrays[1] > 0]
        )
    assert (state.z != before).mean() > 0.1
    assert tables.max() > 1


def test_tables_stop_at_the_most():
    """One word, a concentration that opens tables without end."""
    state = start(np.array([[2000, 1], [1500, 3]]), 2, concentration=1e6, gamma=1.0)
    for _ in range(3):
        move(state)
    assert as_tables(state)[1].max() == 255
    assert np.isfinite(state.log_likelihood())


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_same_bytes_for_any_number_of_threads(corpus, blocks, monkeypatch, sampler):
    monkeypatch.setattr(threads, "SMALL_WORK", 0)
    monkeypatch.setattr(threads, "most_threads", lambda: 3)
    want = None
    for n_threads in (1, 2, 3):
        state = start(corpus, 20, sampler)
        for _ in range(4):
            with threads.settled_threads(n_threads):
                move(state)
        found = state.z.tobytes() + state.n_tables.tobytes()
        want = found if want is None else want
        assert found == want


def test_slices_leave_a_density_unchanged():
    rng = np.random.default_rng(0)
    x, draws = 0.0, []
    for _ in range(8000):
        x = pitman_yor.slice_draw(lambda v: -0.5 * v * v if v > -1 else -np.inf, x, rng)
        draws.append(x)
    batches = np.array(draws).reshape(40, -1).mean(axis=1)
    mean = 0.24197072 / 0.84134475  # of a normal number above -1
    assert abs(batches.mean() - mean) < 4.5 * batches.std() / np.sqrt(40)
