"""SparseHDP: its bound, its moves, and the number of topics that it finds."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import gammaln, logsumexp, xlogy

from sklearn_sparsepost import SparseHDP
from sklearn_sparsepost._learning.moves import merge_components
from sklearn_sparsepost._learning.topic_moves import Attempts, choose_topic_pairs, delete_topics
from sklearn_sparsepost._models.admixture import Items, occurrence_shares
from sklearn_sparsepost._models.sticks import StickDocuments
from sklearn_sparsepost._models.tracking import Track
from sklearn_sparsepost.datasets import make_bars
from sklearn_sparsepost.models import (
    Admixture,
    Corpus,
    DirichletDocuments,
    Multinomial,
    batch_pass,
    begin,
    memoized_pass,
)

ALPHA, GAMMA, V = 0.5, 10.0, 30


@pytest.fixture(scope="module")
def bars():
    return make_bars(400, doc_topic_prior=0.1, random_state=0)[0]


class Noting(Admixture):
    """A model that notes what responsibilities its local steps find, and of which documents."""

    noted: dict = {}

    @staticmethod
    def local_step(chunk, globals_, key=None):
        items = Items(chunk)
        documents, alpha = globals_.documents, globals_.alpha
        level = documents.level(len(alpha))
        weights = globals_.observation.item_weights(
            items, globals_.table, level, items.counts.dtype
        )
        index, resp, *_ = documents.fit(
            items.indptr, items.local, items.counts, weights, alpha, want_mass=True
        )
        share = occurrence_shares(items, index, resp, weights[0]).toarray()
        for row, number in enumerate(chunk.numbers):
            held = slice(items.indptr[row], items.indptr[row + 1])
            Noting.noted[number] = share[held], items.counts[held], chunk.indices[held]
        return Admixture.local_step(chunk, globals_, key)


def bound_by_hand(model, learned, parts):
    """All terms of the surrogate bound, and the words' counts, from responsibilities."""
    K = len(learned["rho"])
    alpha = model.documents.alpha_of(learned)
    table, value = np.zeros((V, K)), 0.0
    for share, counts, words in parts:
        weight = counts[:, None] * share
        np.add.at(table, words, weight)
        mass, total = weight.sum(axis=0), counts.sum()
        value -= counts @ xlogy(share, share).sum(axis=1)
        value += (gammaln(alpha + mass) - gammaln(alpha)).sum()
        value += gammaln(ALPHA) - gammaln(ALPHA + total)
    prior = 0.1
    value += (gammaln(table + prior) - gammaln(prior)).sum()
    value += (gammaln(V * prior) - gammaln(V * prior + table.sum(axis=0))).sum()
    return value + model.documents.bound(learned, len(parts)), table


def small_problem(level, seed=0):
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(V, 0.1), 4)
    rates = rng.dirichlet(np.full(4, 0.2), 60) @ topics * 40
    X = sp.csr_array(rng.poisson(rates).astype(float))
    documents = StickDocuments(ALPHA, GAMMA, 7, 60, sparsity_level=level, restarts=0, tol=1e-8)
    model = Noting(Multinomial("bayes", np.full((1, 1), 0.1), V), documents, 7)
    corpus = Corpus(X, np.float64, 1)
    return model, corpus, begin(model, corpus, rng.dirichlet(np.full(7, 0.3), size=60))


def check_state(model, state, corpus, parts, learned):
    """Bound and statistics of a state, in sum and batch by batch, are those of the parts."""
    model = model.resized(state.stats.n_components)
    want, table = bound_by_hand(model, learned, [parts[d] for d in range(corpus.n_samples)])
    np.testing.assert_allclose(model.bound(state), want, rtol=1e-9)
    np.testing.assert_allclose(state.stats["feature_counts"], table, atol=1e-7)
    if state.memo is not None:
        total = state.sum_of_memory(model.empty_stats())
        np.testing.assert_allclose(total["feature_counts"], table, atol=1e-7)
        for name in ("entropy", "weights", "n_samples", "n_tokens", "prior_gain"):
            np.testing.assert_allclose(total[name], state.stats[name], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("level", [2, None])
@pytest.mark.parametrize("method", ["batch", "memoized"])
def test_merges_and_deletes_by_hand(level, method):
    """Bound and statistics after moves are those of responsibilities moved in the same way."""
    n_moves = {"merge": 0, "delete": 0}
    options = {"n_batches": 3} if method == "memoized" else {}
    one_pass = memoized_pass if method == "memoized" else batch_pass
    for seed in range(4):
        model, corpus, state = small_problem(level, seed)
        for turn in range(6):
            K = state.stats.n_components
            model = model.resized(K)
            if state.attempts is None:
                state.attempts = Attempts(K)
            move = "merge" if turn % 2 == 0 else "delete"
            pairs, targets = np.empty((0, 2), dtype=np.intp), []
            if move == "merge":
                pairs = choose_topic_pairs(model, state)
            else:
                targets = [int(np.argmin(state.stats["count"]))]
            Noting.noted.clear()
            track = Track(pairs, targets, overlap=True)
            state = one_pass(model, corpus, state, track=track, **options)
            parts, bound = dict(Noting.noted), state.history[-1]
            check_state(model, state, corpus, parts, state.learned)
            state.attempts = Attempts(K)
            state.overlap = sum(found.overlap for found in state.tracked.values())
            Noting.noted.clear()
            if move == "merge":
                after, found = merge_components(model, state, pairs, bound)
                for kept, absorbed in merges_of(pairs, K, after.attempts.names):
                    for share, _, _ in parts.values():
                        share[:, kept] += share[:, absorbed]
            else:
                after, found = delete_topics(model, corpus, state, targets, bound)
            held = after.attempts.names
            n_moves[move] += K - len(held)
            if move == "delete" and len(held) < K:
                used = {d for d, (share, *_) in parts.items() if share[:, targets].any()}
                assert used == set(Noting.noted)
            else:
                used = set()
            parts = {
                d: Noting.noted[d] if d in used else (share[:, held], *rest)
                for d, (share, *rest) in parts.items()
            }
            check_state(model, after, corpus, parts, after.learned)
            assert found >= bound
            model = model.resized(len(held))
            np.testing.assert_allclose(found, model.bound(after), rtol=1e-12)
            after.sum_anew()
            after.note(model, [after.stats])
            model.global_step(after)
            state = after
    assert min(n_moves.values()) > 0


def test_several_deletes_in_a_turn_lose_no_token():
    """Documents fitted anew may begin to use the next topic to be deleted."""
    n_gone = 0
    for seed in range(30):
        model, corpus, state = small_problem(2, seed)
        state.attempts = Attempts(state.stats.n_components)
        targets = np.argsort(state.stats["count"], kind="stable")[:5].tolist()
        track = Track(np.empty((0, 2), dtype=np.intp), targets, overlap=True)
        state = memoized_pass(model, corpus, state, track=track, n_batches=3)
        after, _ = delete_topics(model, corpus, state, targets, -np.inf)
        n_gone += state.stats.n_components - after.stats.n_components
        for stats in (after.stats, after.sum_of_memory(after.stats.maker_of_zeros()())):
            np.testing.assert_allclose(stats.value("count").sum(), corpus.X.sum(), rtol=1e-9)
    assert n_gone > 30


def merges_of(pairs, n_components, left):
    """The pairs of which one component is gone, and which one."""
    gone = set(range(n_components)) - set(left.tolist())
    for pair in pairs.tolist():
        lost = gone & set(pair)
        if len(lost) == 1:
            gone -= lost
            yield sum(pair) - max(lost), max(lost)


def test_bound_is_below_the_evidence_that_enumeration_finds():
    """All assignments of two documents to two topics, sticks integrated out by quadrature."""
    K, beta, tokens = 2, 0.1, np.array([0, 0, 1, 0, 2, 2, 3])
    document = np.array([0, 0, 0, 0, 1, 1, 1])
    # u ~ Beta(1, gamma) by its quantiles.
    node, share = np.polynomial.legendre.leggauss(60)
    u = 1 - (0.5 - 0.5 * node) ** (1 / GAMMA)
    one, two = (grid.ravel() for grid in np.meshgrid(u, u))
    weight = np.outer(share, share).ravel() / 4
    mass = ALPHA * np.stack([one, (1 - one) * two])
    terms = []
    for number in range(K ** len(tokens)):
        z = number // K ** np.arange(len(tokens)) % K
        table = np.zeros((K, 4))
        np.add.at(table, (z, tokens), 1)
        value = (gammaln(table + beta) - gammaln(beta)).sum()
        value += (gammaln(4 * beta) - gammaln(4 * beta + table.sum(axis=1))).sum()
        log_p = np.zeros(len(weight))
        for d in range(2):
            held = np.bincount(z[document == d], minlength=K)[:, None]
            log_p += (gammaln(mass + held) - gammaln(mass)).sum(axis=0)
            log_p += gammaln(ALPHA) - gammaln(ALPHA + held.sum())
        terms.append(value + logsumexp(log_p, b=weight))
    evidence = logsumexp(terms)
    X = sp.csr_array((np.ones(len(tokens)), (document, tokens)), shape=(2, 4))
    options = {"sparsity_level": None, "restarts": 0, "tol": 1e-10}
    documents = StickDocuments(ALPHA, GAMMA, K, 2, **options)
    model = Admixture(Multinomial("bayes", np.full((1, 1), beta), 4), documents, K)
    corpus, best = Corpus(X, np.float64, 1), -np.inf
    for seed in range(4):
        state = begin(model, corpus, np.random.default_rng(seed).dirichlet(np.full(K, 0.3), 2))
        for _ in range(30):
            state = batch_pass(model, corpus, state)
        assert np.diff(state.history).min() > -1e-8
        best = max(best, state.history[-1])
    # Of the assignments mean field finds one kind, and sticks have a surrogate.
    assert best < evidence < best + 2


def test_no_learning_is_lda_of_the_same_prior_to_the_bit():
    model, corpus, state = small_problem(3)
    documents = model.documents
    documents.learn = False
    alpha = documents.alpha_of(state.learned)
    options = {"sparsity_level": 3, "restarts": 0, "tol": 1e-8}
    lda = Admixture(model.observation, DirichletDocuments(alpha, **options), 7)
    other = state.own()
    other.learned = lda.first_learned()
    for _ in range(3):
        state = memoized_pass(model, corpus, state, n_batches=3)
        other = memoized_pass(lda, corpus, other, n_batches=3)
    for name in ("feature_counts", "count", "entropy"):
        assert np.asarray(state.stats[name]).tobytes() == np.asarray(other.stats[name]).tobytes()


@pytest.mark.parametrize("init", ["k-means++", "random"])
@pytest.mark.parametrize("estimation", ["bayes", "map"])
def test_finds_the_bars(bars, init, estimation):
    hdp = SparseHDP(30, init=init, estimation=estimation, max_iter=40, random_state=0).fit(bars)
    assert hdp.n_components_ == len(hdp.components_) == 10
    assert hdp.n_iter_ < 40
    kinds = set(hdp.moves_history_["move"].tolist())
    assert {"merge", "delete"} <= kinds
    assert hdp.moves_history_[-1]["n_components"] == 10
    # Bars have 5 of 25 cells each.
    top = np.sort(hdp.topic_word_distr_, axis=1)[:, -5:].sum(axis=1)
    assert (top > 0.9).all()
    assert (np.diff(hdp.components_.sum(axis=1)) <= 0).all()
    assert 0.8 < hdp.topic_weights_.sum() < 1
    np.testing.assert_allclose(hdp.doc_topic_prior_, 0.5 * hdp.topic_weights_)


@pytest.mark.parametrize("method", ["batch", "memoized"])
@pytest.mark.parametrize("moves", [True, False])
def test_the_bound_rises(bars, method, moves):
    hdp = SparseHDP(
        20,
        estimation="bayes",
        learning_method=method,
        moves=moves,
        doc_start="warm" if method == "memoized" else "cold",
        mean_change_tol=1e-4,
        max_iter=12,
        tol=0,
        random_state=0,
    ).fit(bars)
    history = hdp.bound_history_
    assert (np.diff(history) > -1e-9 * abs(history[-1])).all()
    assert (hdp.n_components_ < 20) == moves


def test_bound_of_the_training_data_continues_the_history(bars):
    hdp = SparseHDP(15, max_iter=30, tol=0, restarts=0, random_state=0).fit(bars)
    np.testing.assert_allclose(hdp.bound(bars), hdp.bound_history_[-1], rtol=1e-4)


def test_moves_are_named(bars):
    hdp = SparseHDP(20, moves=["merge"], max_iter=6, random_state=0).fit(bars)
    assert set(hdp.moves_history_["move"].tolist()) <= {"merge", "empty"}
    assert SparseHDP(20, moves=False, max_iter=3, random_state=0).fit(bars).n_components_ == 20
    with pytest.raises(ValueError, match="moves must be .* got 'split'"):
        SparseHDP(20, moves=["split"]).fit(bars)
    with pytest.raises(ValueError, match="topic_word_prior has one row a topic"):
        SparseHDP(2, topic_word_prior=np.ones((2, 25))).fit(bars)
    for name in ("doc_concentration", "topic_concentration"):
        with pytest.raises(ValueError, match=name):
            SparseHDP(2, **{name: 0.0}).fit(bars)


@pytest.mark.parametrize("method", ["batch", "memoized", "online"])
def test_going_on_is_the_same_as_not_stopping(bars, method):
    options = {"learning_method": method, "n_batches": 3, "batch_size": 100, "tol": 0}
    whole = SparseHDP(25, max_iter=8, random_state=0, **options).fit(bars)
    parts = SparseHDP(25, max_iter=3, warm_start=True, random_state=0, **options).fit(bars)
    parts.set_params(max_iter=5).fit(bars)
    assert parts.components_.tobytes() == whole.components_.tobytes()
    assert parts.bound_history_.tobytes() == whole.bound_history_.tobytes()
    assert parts.moves_history_.tolist() == whole.moves_history_.tolist()


def test_a_stream_goes_on_with_the_topics_that_were_found(bars):
    hdp = SparseHDP(25, max_iter=25, random_state=0).fit(bars)
    assert hdp.n_components_ == 10
    score = hdp.score(bars)
    for part in np.array_split(np.arange(400), 4):
        hdp.partial_fit(bars[part])
    assert hdp.components_.shape == (10, 25)
    assert hdp.score(bars) > score - 0.02
    fresh = SparseHDP(12, total_samples=400, random_state=0)
    for part in np.array_split(np.arange(400), 8):
        fresh.partial_fit(bars[part])
    assert fresh.transform(bars[:5]).shape == (5, 12)


def test_large_topics_come_first_and_documents_say_so(bars):
    hdp = SparseHDP(20, max_iter=20, random_state=0).fit(bars)
    weights = hdp.transform(bars)
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-5)
    use = weights.mean(axis=0)
    assert np.corrcoef(use, hdp.topic_weights_)[0, 1] > 0.8
    drawn, doc_topic = hdp.sample(20, random_state=0)
    assert drawn.shape == (20, 25)
    assert doc_topic.shape == (20, hdp.n_components_)
