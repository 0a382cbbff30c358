"""The sampling kernel: alias tables, counts, blocks, and the right stationary distribution."""

import itertools
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from geweke import have_one_mean, move, replace_tokens, replace_words
from reference import agrees
from scipy.special import gammaln
from sklearn.base import clone

from sklearn_sparsepost import AliasLDA
from sklearn_sparsepost._kernels import gibbs_lda as kernels
from sklearn_sparsepost._run import threads
from sklearn_sparsepost._sampling import lda
from sklearn_sparsepost._sampling.tokens import (
    Tokens,
    by_frequency,
    cut_evenly,
    deal_words,
)

SAMPLERS = ["by_word", "dense", "sparse", "alias", "cycle"]
PRIORS = [
    (np.array([0.4, 0.4]), np.array(0.3)),
    (np.array([0.2, 0.9]), np.array([0.1, 0.5, 0.3])),
    (np.array([0.3, 0.6]), np.array([[0.1, 0.5, 0.3], [0.9, 0.5, 0.3]])),
]


def start(X, n_components, *, sampler, alpha=None, beta=0.1, seed=0):
    """A chain from uniform assignments."""
    tokens = Tokens(X, seed)
    z = np.random.default_rng(seed).integers(n_components, size=tokens.n_tokens)
    alpha = np.full(n_components, 0.5 / n_components) if alpha is None else alpha
    prior = lda.WordPrior(beta, X.shape[1], n_components)
    settings = {"alpha": alpha, "prior": prior, "sampler": sampler}
    return lda.LDAChain(tokens, z.astype(np.uint16), seed, **settings)


def as_table(counts, shape):
    row_ptr, topics, values = counts.to_lists()
    return sp.csr_array((values, topics, row_ptr), shape=shape).toarray()


def recount(state):
    """Counts of words in topics, from the tokens."""
    table = np.zeros((len(state.tokens.size), len(state.alpha)), dtype=int)
    np.add.at(table, (state.tokens.word, state.z), 1)
    return table


# ---------------------------------------------------------------------- alias tables


@pytest.mark.parametrize(
    "weight",
    [
        np.array([3.0]),
        np.full(7, 0.2),
        np.random.default_rng(0).random(1000),
        np.array([0.0, 1.0, 0.0, 5.0, 0.0]),
        10.0 ** np.arange(-20, 11),
        np.repeat([1.0, 0.0], [1, 5000]),
        np.random.default_rng(1).dirichlet(np.full(5000, 0.01)),
    ],
    ids=["one", "equal", "many", "zeros", "30 decades", "one of many", "sparse"],
)
def test_alias_table_has_the_weights(weight):
    share, other = kernels.alias_table(weight)
    assert ((share >= 0) & (share <= 1)).all()
    mass = share.astype(float)
    np.add.at(mass, other, 1 - share.astype(float))
    np.testing.assert_allclose(mass / len(weight), weight / weight.sum(), rtol=1e-4, atol=1e-38)
    assert not mass[weight == 0].any()


# ---------------------------------------------------------------------- tokens and counts


@pytest.fixture
def blocks(monkeypatch):
    """Small corpora are cut into blocks, too."""
    monkeypatch.setattr("sklearn_sparsepost._sampling.tokens.SERIAL_TOKENS", 0)


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_tokens_are_the_counts(corpus, blocks, index):
    X = sp.csr_matrix(corpus, copy=True)
    X.indptr, X.indices = X.indptr.astype(index), X.indices.astype(index)
    tokens = Tokens(X, 0)
    n_groups = tokens.ptr.shape[1] - 1
    assert n_groups > 1
    rows = np.repeat(np.arange(X.shape[0]), np.diff(tokens.doc_ptr))
    found = sp.coo_array((np.ones(tokens.n_tokens), (rows, tokens.word)), shape=X.shape)
    assert not (found.tocsr() != X).nnz
    np.testing.assert_array_equal(tokens.size, X.toarray().sum(axis=0))
    # A word is in one group, groups of words and of documents are about equally large.
    cell = np.repeat(np.tile(np.arange(n_groups), X.shape[0]), np.diff(tokens.ptr).ravel())
    assert len(np.unique(np.column_stack([tokens.word, cell]), axis=0)) == len(
        np.unique(tokens.word)
    )
    for sizes in (np.bincount(cell), np.diff(tokens.doc_ptr[tokens.groups])):
        assert sizes.max() < 1.3 * sizes.min()


def test_unsorted_and_duplicate_entries(corpus):
    entries = sp.coo_matrix(corpus)
    halves = [
        np.concatenate([part, part[::-1]]) for part in (entries.row, entries.col, entries.data)
    ]
    order = np.argsort(halves[0], kind="stable")
    rows, columns, data = (half[order] for half in halves)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=corpus.shape[0]))])
    messy = sp.csr_matrix((data, columns, indptr), shape=corpus.shape)
    want = Tokens(sp.csr_matrix(corpus * 2), 0)
    np.testing.assert_array_equal(Tokens(messy, 0).word, want.word)


def test_fractions_are_rounded_without_bias():
    X = sp.csr_matrix(np.full((200, 50), 1.3))
    n_tokens = Tokens(X, 0).n_tokens
    assert abs(n_tokens - 13_000) < 6 * np.sqrt(10_000 * 0.3 * 0.7)
    assert Tokens(X, 1).n_tokens != n_tokens


def test_merged_tokens(corpus, blocks):
    X = sp.csr_matrix(corpus)
    merged = Tokens.merged(Tokens(X[:100], 0), Tokens(X[100:], 0))
    whole = Tokens(X, 0)
    np.testing.assert_array_equal(merged.word, whole.word)
    np.testing.assert_array_equal(merged.ptr, whole.ptr)


@pytest.mark.parametrize("n_components", [3, 20, 70])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_counts_stay_those_of_the_tokens(corpus, blocks, sampler, n_components):
    state = start(corpus, n_components, sampler=sampler)
    before = state.z.copy()
    for _ in range(3):
        move(state, n_steps=2)
        want = recount(state)
        np.testing.assert_array_equal(as_table(state.counts, want.shape), want)
        np.testing.assert_array_equal(state.n_topic, want.sum(axis=0))
    assert (state.z != before).mean() > 0.1
    assert state.z.max() < n_components


@pytest.mark.parametrize("n_threads", [1, 3])
def test_document_topics(corpus, n_threads):
    corpus = sp.vstack([corpus[:3], corpus[:2] * 0, corpus[3:], corpus[:1] * 0], format="csr")
    state = start(corpus, 5, sampler="dense")
    given = state.z, state.tokens.doc_ptr, 5
    row_ptr, topics, counts = kernels.document_topics(*given, n_threads=n_threads)
    found = sp.csr_array((counts, topics, row_ptr), shape=(corpus.shape[0], 5)).toarray()
    rows = np.repeat(np.arange(corpus.shape[0]), np.diff(state.tokens.doc_ptr))
    want = np.zeros_like(found)
    np.add.at(want, (rows, state.z), 1)
    np.testing.assert_array_equal(found, want)
    assert row_ptr[-1] == len(topics) == len(counts) == np.count_nonzero(want)
    for n, ptr in ((0, [0, 0]), (0, [0]), (2, [0, 2])):
        parts = kernels.document_topics(state.z[:n], np.array(ptr), 5, n_threads)
        assert parts[0][-1] == len(parts[1]) == len(parts[2]) == len(set(state.z[:n]))


def test_more_topics_than_sixteen_bits_hold():
    X = sp.csr_matrix(np.full((3, 4), 2))
    tokens = Tokens(X, 0)
    z = np.full(tokens.n_tokens, 70_000, dtype=np.int32)
    prior = lda.WordPrior(0.1, 4, 70_001)
    settings = {"alpha": np.full(70_001, 1.0), "prior": prior, "sampler": "sparse"}
    state = lda.LDAChain(tokens, z, 0, **settings)
    for _ in range(3):
        move(state)
    assert len(np.unique(state.z)) > 1
    np.testing.assert_array_equal(state.n_topic, np.bincount(state.z, minlength=70_001))


def test_counts_beyond_the_bits_of_an_entry_have_a_row():
    """Of an entry's 32 bits topics below 70,001 take 17: counts may come to 32,767."""
    size = np.array([32_767, 32_768, 3])
    tokens = Tokens(sp.csr_matrix(size[None]), 0)
    z = np.full(tokens.n_tokens, 70_000, dtype=np.int32)
    prior = lda.WordPrior(0.1, 3, 70_001)
    settings = {"alpha": np.full(70_001, 1.0), "prior": prior, "sampler": "sparse"}
    counts = lda.LDAChain(tokens, z, 0, **settings).counts
    kinds = [lda.LISTED, lda.DENSE, lda.LISTED]
    assert counts.arrays["words"]["kind"].tolist() == kinds
    row_ptr, topics, values = counts.to_lists()
    np.testing.assert_array_equal(row_ptr, range(4))
    np.testing.assert_array_equal(topics, [70_000] * 3)
    np.testing.assert_array_equal(values, size)


def test_counts_beyond_sixteen_bits_are_wide():
    size = np.array([65_535, 65_536, 3])
    tokens = Tokens(sp.csr_matrix(size[None]), 0)
    prior = lda.WordPrior(0.1, 3, 5)
    settings = {"alpha": np.full(5, 0.1), "prior": prior, "sampler": "alias"}
    state = lda.LDAChain(tokens, np.full(tokens.n_tokens, 4, dtype=np.uint16), 0, **settings)
    assert state.counts.arrays["words"]["wide"].tolist() == [0, 1, 0]
    for _ in range(2):
        np.testing.assert_array_equal(as_table(state.counts, (3, 5)), recount(state))
        move(state)


@pytest.mark.parametrize(
    "prior, sampler",
    [(prior, sampler) for prior in ("dirichlet", "pitman_yor") for sampler in ("dense", "alias")]
    + [("dirichlet", "cycle")],
)
def test_wide_counts_change_no_byte(corpus, monkeypatch, prior, sampler):
    options = {"sampler": sampler, "topic_word_prior_type": prior, "max_iter": 4}
    model = AliasLDA(40, init="random", random_state=0, **options)
    want = clone(model).fit(corpus).components_.tobytes()
    monkeypatch.setattr(kernels, "MOST_NARROW", 0)
    assert clone(model).fit(corpus).components_.tobytes() == want


# ---------------------------------------------------------------------- the stationary distribution


def log_joint(words, documents, z, alpha, beta):
    """log p(words, topics) with all weights integrated out, beta of shape (K, V)."""
    n_doc = np.zeros((documents.max() + 1, len(alpha)))
    n_word = np.zeros(beta.shape)
    np.add.at(n_doc, (documents, z), 1)
    np.add.at(n_word, (z, words), 1)
    value = 0
    for counts, prior in ((n_doc, np.broadcast_to(alpha, n_doc.shape)), (n_word, beta)):
        value += (gammaln(counts + prior) - gammaln(prior)).sum()
        value -= (gammaln((counts + prior).sum(axis=1)) - gammaln(prior.sum(axis=1))).sum()
    return value


@pytest.mark.parametrize("alpha, beta", PRIORS, ids=["symmetric", "asymmetric", "matrix"])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_frequencies_are_the_posterior(sampler, alpha, beta):
    """A long chain on two documents against the posterior of all assignments of their tokens."""
    X = sp.csr_matrix(np.array([[2, 1, 0], [0, 1, 2]]))
    tokens = Tokens(X, 0)
    documents = np.repeat([0, 1], np.diff(tokens.doc_ptr))
    states = np.array(list(itertools.product(range(2), repeat=tokens.n_tokens)))
    matrix = np.broadcast_to(beta, (2, 3))
    joint = np.array([log_joint(tokens.word, documents, z, alpha, matrix) for z in states])
    posterior = np.exp(joint - joint.max())
    posterior /= posterior.sum()
    number = 2 ** np.arange(tokens.n_tokens)[::-1]
    for seed, n_steps in ((0, 1), (1, 2)):
        state = start(X, 2, sampler=sampler, alpha=alpha, beta=beta, seed=seed)
        assert np.isclose(state.log_likelihood(), joint[state.z @ number])
        state.n_passes = 1000  # tables are rarely built anew by now
        seen = np.zeros(len(states))
        for _ in range(1250):
            for _ in range(8):
                move(state, n_steps=n_steps)
            seen[state.z @ number] += 1
        assert agrees(seen, posterior)


SIX_ALPHA, FIVE_TOKENS = np.array([0.6, 1.5, 0.8, 2.0, 1.0, 0.7]), np.array([[2, 1, 2]])


@cache
def five_tokens_of_six_topics():
    """The posterior of how many topics five tokens have, and of the first one's."""
    words = Tokens(sp.csr_matrix(FIVE_TOKENS), 0).word
    states = np.array(list(itertools.product(range(6), repeat=5)))
    documents, matrix = np.zeros(5, int), np.full((6, 3), 0.5)
    posterior = np.exp([log_joint(words, documents, z, SIX_ALPHA, matrix) for z in states])
    distinct = 5 - (np.diff(np.sort(states, axis=1), axis=1) == 0).sum(axis=1)
    return np.bincount(6 * (distinct - 1) + states[:, 0], posterior, minlength=30)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_frequencies_with_several_topics_a_document(sampler):
    """Five tokens under six topics: how many topics there are, and which the first token has."""
    X, alpha, beta = sp.csr_matrix(FIVE_TOKENS), SIX_ALPHA, 0.5
    want = five_tokens_of_six_topics()
    state = start(X, 6, sampler=sampler, alpha=alpha, beta=beta)
    state.n_passes = 1000
    seen = np.zeros(30)
    for _ in range(3000):
        for _ in range(4):
            move(state)
        seen[6 * (len(np.unique(state.z)) - 1) + state.z[0]] += 1
    assert agrees(seen, want)


@pytest.mark.parametrize("n_components", [3, 16, 50, 300])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_one_draw_among_many_topics(sampler, n_components):
    """The first token's topic, drawn again and again from one state, against its conditional."""
    rng = np.random.default_rng(0)
    X = sp.csr_matrix(rng.poisson(2.0, (12, 6)) + np.eye(12, 6))
    alpha, beta = rng.gamma(1.0, size=n_components), 0.3
    state = start(X, n_components, sampler=sampler, alpha=alpha, beta=beta)
    words, z, ends = state.tokens.word, state.z.copy(), state.tokens.doc_ptr
    assert state.tokens.by_word()[0][0] == 0  # it is first word by word, too
    n_doc = np.bincount(z[1 : ends[1]], minlength=n_components)
    n_word = np.bincount(z[1:][words[1:] == words[0]], minlength=n_components)
    n_topic = np.bincount(z[1:], minlength=n_components)
    want = (n_doc + alpha) * (n_word + beta) / (n_topic + X.shape[1] * beta)
    seen = np.zeros(n_components)
    for seed in range(1500):
        state.seed = seed
        # With many steps a proposal from tables ends where the conditional is.
        seen[lda.sweep(state, n_steps=30 if sampler in ("alias", "cycle") else 1).z[0]] += 1
    assert agrees(seen, want)


@pytest.mark.parametrize("alpha", [np.full(60, 0.01), np.linspace(0.001, 0.3, 60)])
@pytest.mark.parametrize("token", [0, 2, 4])
def test_one_draw_of_a_long_list_in_a_document_of_few_topics(alpha, token):
    """Bounds decide most such draws, and change none: topics 7 and 9 are frequent, 30 is not."""
    rng = np.random.default_rng(0)
    words = np.repeat([0, 1, 0, 1], [3, 2, 400, 100])
    ends, n_topics, beta = np.array([0, 5, 505]), len(alpha), 0.05
    X = sp.csr_matrix([[3, 2], [400, 100]])
    tokens = Tokens(X, 0)
    assert tokens.word.tolist() == words.tolist()
    z = rng.integers(n_topics, size=tokens.n_tokens).astype(np.uint16)
    z[:5], z[50:90], z[90:100] = [7, 7, 30, 9, 7], 7, 9
    prior = lda.WordPrior(beta, 2, n_topics)
    state = lda.LDAChain(tokens, z.copy(), 0, alpha=alpha, prior=prior, sampler="sparse")
    seen, want = np.zeros(n_topics), np.zeros(n_topics)
    for seed in range(3000):
        state.seed = seed
        after = lda.sweep(state, n_steps=1).z
        now = np.concatenate([after[:token], z[token:]])  # those before it have been drawn
        others = np.arange(len(z)) != token
        n_doc = np.bincount(now[: ends[1]][others[: ends[1]]], minlength=n_topics)
        n_word = np.bincount(now[others & (words == words[token])], minlength=n_topics)
        n_topic = np.bincount(now[others], minlength=n_topics)
        chance = (n_doc + alpha) * (n_word + beta) / (n_topic + 2 * beta)
        want += chance / chance.sum()
        seen[after[token]] += 1
    assert agrees(seen, want)


@pytest.mark.parametrize("sampler", ["auto", "by_word"])
def test_documents_that_lists_cannot_hold_are_visited_in_turn(sampler):
    """Of an entry's 32 bits 70,001 topics leave a document 32,767 tokens."""
    for length, fits in ((32_767, True), (32_768, False)):
        tokens = Tokens(sp.csr_matrix([[length, 0, 0], [2, 1, 3]]), 0)
        assert lda.goes_by_word(sampler, tokens, 70_001) is fits
        assert (lda.order_of(sampler, tokens, 70_001) is not None) is fits
        listed = fits or sampler == "by_word"
        kind = lda.LISTED if listed else lda.ALIASED
        assert (lda.storage(sampler, tokens, 70_001) == kind).all()
        assert lda.goes_by_word(sampler, tokens, 65_536)
        assert not lda.goes_by_word("sparse", tokens, 65_536)


def test_order_of_a_sweep_word_by_word(corpus, blocks):
    """Blocks of documents and words, in them words by falling frequency, in these documents."""
    tokens = Tokens(sp.csr_matrix(corpus), 0)
    place, document, word, begin, runs = tokens.by_word()
    assert tokens.by_word()[0] is place
    n_tokens, n_groups = tokens.n_tokens, tokens.ptr.shape[1] - 1
    assert n_groups > 1
    rows = np.repeat(np.arange(corpus.shape[0]), np.diff(tokens.doc_ptr))
    of_group = np.repeat(np.tile(np.arange(n_groups), corpus.shape[0]), np.diff(tokens.ptr).ravel())
    of_documents = np.searchsorted(tokens.groups, rows, side="right") - 1
    rank = by_frequency(tokens.size)[tokens.word]
    want = np.lexsort((np.arange(n_tokens), rank, of_group, of_documents))
    np.testing.assert_array_equal(place[:n_tokens], want)
    np.testing.assert_array_equal(document[:n_tokens], rows[want])
    assert begin[-1] == n_tokens
    np.testing.assert_array_equal(np.repeat(word[:-2], np.diff(begin)), tokens.word[want])
    block = (of_documents * n_groups + of_group)[want]
    np.testing.assert_array_equal(np.repeat(np.arange(n_groups**2), np.diff(begin[runs])), block)
    # Whoever reads ahead finds something.
    assert len(place) == len(document) == n_tokens + 8
    assert len(word) == len(begin) + 1
    tokens.word = tokens.word[::-1].copy()
    assert tokens.by_word()[0] is not place


@pytest.mark.parametrize("n_topics", [2, 9, 16, 17, 50])
@pytest.mark.parametrize("scale", [1e-3, 1.0])
def test_one_draw_by_word_in_a_document_of_so_many_topics(n_topics, scale):
    """Lists of half a row, a row and several, which grow when topics come."""
    rng = np.random.default_rng(n_topics)
    n_components = 60
    X = sp.csr_matrix(np.vstack([np.full(4, 25), rng.poisson(20.0, (5, 4))]))
    alpha = rng.gamma(1.0, size=n_components) * scale
    state = start(X, n_components, sampler="by_word", alpha=alpha, beta=0.3)
    first = state.tokens.by_word()[0][0]
    assert first < 100  # a token of the first document
    state.z[:100] = rng.permutation(np.arange(100) % n_topics)
    state.recount()
    words, z, others = state.tokens.word, state.z.copy(), np.arange(len(state.z)) != first
    n_doc = np.bincount(z[:100][others[:100]], minlength=n_components)
    n_word = np.bincount(z[others & (words == words[first])], minlength=n_components)
    want = (n_doc + alpha) * (n_word + 0.3) / (np.bincount(z[others], minlength=60) + 4 * 0.3)
    seen = np.zeros(n_components)
    for seed in range(2000):
        state.seed = seed
        after = lda.sweep(state, n_steps=1)
        seen[after.z[first]] += 1
        np.testing.assert_array_equal(after.n_topic, np.bincount(after.z, minlength=60))
    assert agrees(seen, want)


@pytest.mark.parametrize("sampler", ["by_word", "dense", "sparse"])
def test_a_word_of_one_token_follows_its_document(sampler):
    """All that it weighs is a prior next to nothing, beside what its one token does.

    That token is all that a table would propose.
    """
    beta, alpha = 1e-10, np.array([2.0, 0.5, 1.0])
    X = sp.csr_matrix(np.eye(12, dtype=int).reshape(2, 6, 12).sum(axis=1))
    state = start(X, 3, sampler=sampler, alpha=alpha, beta=beta)
    state.z[:6] = [0, 1, 1, 1, 1, 2]
    state.recount()
    assert state.tokens.by_word()[0][0] == 0
    z = state.z[1:]
    want = (np.bincount(z[:5], minlength=3) + alpha) / np.bincount(z, minlength=3)
    seen = np.zeros(3)
    for seed in range(1000):
        state.seed = seed
        seen[lda.sweep(state, n_steps=1).z[0]] += 1
    assert agrees(seen, want)


def test_words_of_more_tokens_than_an_entry_counts_are_drawn_by_word():
    """Of an entry's 32 bits 60,000 topics take 16: such a word has a row, documents have lists."""
    X = sp.csr_matrix(np.repeat([[40_000, 5, 3]], 2, axis=0))
    tokens = Tokens(X, 0)
    z = np.random.default_rng(0).integers(5, size=tokens.n_tokens).astype(np.uint16)
    prior = lda.WordPrior(0.1, 3, 60_000)
    settings = {"alpha": np.full(60_000, 1e-4), "prior": prior, "sampler": "auto"}
    state = lda.LDAChain(tokens, z.copy(), 0, **settings)
    assert state.counts.arrays["words"]["kind"].tolist() == [lda.DENSE, lda.LISTED, lda.LISTED]
    assert lda.order_of("auto", tokens, 60_000) is not None
    move(state)
    row_ptr, topics, values = state.counts.to_lists()
    want = sp.csr_array(
        (np.ones(tokens.n_tokens, dtype=int), (tokens.word, state.z)), shape=(3, 60_000)
    )
    found = sp.csr_array((values, topics, row_ptr), shape=(3, 60_000))
    assert not (want != found).nnz
    assert (state.z != z).mean() > 0.5


def test_words_follow_each_other_by_frequency(corpus):
    """Within a document and a group of words the more frequent words come first."""
    tokens = Tokens(sp.csr_matrix(corpus), 0)
    for begin, end in tokens.ptr[:50, :2]:
        assert (np.diff(tokens.size[tokens.word[begin:end]]) <= 0).all()


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_geweke(sampler):
    """Words under topics and topics under words, in turn: as if both were drawn from the prior."""
    rng = np.random.default_rng(0)
    K, V, length, n_documents = 3, 4, 5, 4
    alpha, beta = np.array([0.3, 0.5, 1.0]), 0.4
    documents = np.repeat(np.arange(n_documents), length)

    def choose(weights):
        """A draw from every row of probabilities."""
        below = rng.random((len(weights), 1)) > np.cumsum(weights[:, :-1], axis=1)
        return below.sum(axis=1)

    def words_under(z):
        topics = rng.dirichlet(np.full(V, beta), size=K)
        return choose(topics[z]).astype(np.int32)

    def features(words, z):
        topics = np.bincount(z, minlength=K)
        cells = np.bincount(z * V + words, minlength=K * V)
        pairs = np.bincount(documents * K + z, minlength=n_documents * K)
        return [topics[0], topics[2], (topics**2).sum(), (cells**2).sum(), (pairs**2).sum()]

    prior_draws = []
    for _ in range(4000):
        weights = rng.dirichlet(alpha, size=n_documents)
        z = choose(weights[documents])
        prior_draws.append(features(words_under(z), z))

    X = sp.csr_matrix(np.full((n_documents, V), 1.25))  # any: tokens are replaced below
    state = start(X, K, sampler=sampler, alpha=alpha, beta=beta)
    replace_tokens(state, words_under(z), z, length)
    state.n_passes = 0
    move(state)  # builds tables, which stay: one that follows the state would disturb the chain
    state.n_passes = 10_001
    chain = []
    for _ in range(16_000):
        replace_words(state, words_under(state.z))
        move(state, n_passes=2 if lda.builds_tables(state.n_passes + 1) else 1)
        chain.append(features(state.tokens.word, state.z.astype(int)))
    chain, prior_draws = np.array(chain, dtype=float), np.array(prior_draws, dtype=float)
    assert have_one_mean(chain, prior_draws, 80, 4)


def test_tables_are_built_ever_more_rarely():
    built = [n for n in range(100_000) if lda.builds_tables(n)]
    assert built[:16] == list(range(16))
    assert len(built) < 150


# ---------------------------------------------------------------------- blocks


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_blocks_know_documents_topics_and_how_many_tokens_each_has(blocks, sampler):
    """Words tell nothing and alpha next to nothing: on average a topic keeps its tokens."""
    few, n_topics, found = np.repeat([0, 1], [48, 16]), 25, []
    many = np.repeat(
        np.arange(n_topics), [*np.ones(n_topics - 1, int), 40]
    )  # the largest comes last
    X = sp.csr_matrix(np.random.default_rng(0).multinomial(64, np.full(90, 1 / 90), size=3))
    alpha, rng = np.full(n_topics, 1e-9), np.random.default_rng(0)
    for seed in range(400):
        state = start(X, n_topics, sampler=sampler, alpha=alpha, beta=1e6)
        assert state.tokens.ptr.shape[1] > 3  # groups of words
        z = np.concatenate([np.full(64, 2), rng.permutation(few), many])
        state.seed, state.z = seed, z.astype(np.uint16)
        state.recount()
        move(state)
        first, second, third = state.z.reshape(3, 64)
        assert (first == 2).all()
        assert (second < 2).all()
        found.append([(second == 0).sum(), (third == n_topics - 1).sum()])
    error = np.std(found, axis=0) / np.sqrt(len(found))
    assert (np.abs(np.mean(found, axis=0) - [48, 40]) < [4 * error[0], 5]).all()


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_same_bytes_for_any_number_of_threads(corpus, blocks, monkeypatch, sampler):
    monkeypatch.setattr(threads, "SMALL_WORK", 0)
    monkeypatch.setattr(threads, "most_threads", lambda: 3)
    want = None
    for n_threads in (1, 2, 3):
        state = start(corpus, 20, sampler=sampler)
        for _ in range(4):
            with threads.settled_threads(n_threads):
                move(state)
        want = state.z.tobytes() if want is None else want
        assert state.z.tobytes() == want


@pytest.mark.parametrize("sampler", ["by_word", "sparse", "alias"])
@pytest.mark.parametrize("prior", ["dirichlet", "pitman_yor"])
@pytest.mark.parametrize("n_components", [5, 40])
def test_gathers_change_no_byte(corpus, prior, sampler, n_components):
    lda = AliasLDA(
        n_components,
        sampler=sampler,
        topic_word_prior_type=prior,
        init="random",
        max_iter=4,
        random_state=0,
    )
    before, found = kernels.gathers_are_used(), []
    try:
        for wanted in (True, False):
            assert kernels.gathers_are_used(wanted) is wanted
            found.append(clone(lda).fit(corpus).components_.tobytes())
    finally:
        kernels.gathers_are_used(before)
    assert found[0] == found[1]


def test_words_and_documents_are_dealt_evenly():
    size = np.array([50, 1, 1, 30, 20, 0, 10, 10])
    group = deal_words(by_frequency(size), 2)
    assert np.ptp(np.bincount(group, size)) <= 20
    np.testing.assert_array_equal(cut_evenly(np.array([5, 1, 1, 1, 5, 3]), 2), [0, 4, 6])
    np.testing.assert_array_equal(cut_evenly(np.array([9]), 3), [0, 1, 1, 1])
    np.testing.assert_array_equal(cut_evenly(np.zeros(0, int), 2), [0, 0, 0])
