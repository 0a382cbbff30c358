"""The sampled local step: against enumeration, by hand and for any number of threads."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import gammaln, psi
from scipy.stats import chi2

from sklearn_sparsepost._kernels import _sampled_words, sampled_documents, topic_stats
from sklearn_sparsepost._models import sampled
from sklearn_sparsepost._models.admixture import Items
from sklearn_sparsepost._models.observation import ItemLists
from sklearn_sparsepost._models.sampled import GrowingMultinomial, SampledDocuments
from sklearn_sparsepost._run.chunks import Chunk
from sklearn_sparsepost._suffstats import SuffStats

# A document of seven tokens, and four topics of five words.
COUNTS = np.array([2, 0, 1, 3, 1])
ALPHA = np.array([0.3, 0.05, 1.2, 0.4])
PRIOR = 0.1
EXPECTED = np.array(
    [[4.0, 0, 0, 0.5], [3, 2, 0, 0], [0, 1, 7, 0], [2, 0.3, 0.2, 0], [0, 0, 1.5, 2.5]]
)


def weights_of(estimation, prior=PRIOR, counts=EXPECTED):
    """What words weigh in topics, by hand."""
    total = prior + counts
    if estimation == "map":
        return total / total.sum(axis=0)
    return np.exp(psi(total) - psi(total.sum(axis=0)))


def lists_of(items, estimation, prior=PRIOR, counts=EXPECTED):
    prior = np.atleast_2d(np.asarray(prior, dtype=float))
    model = GrowingMultinomial(estimation, prior, len(counts))
    arrays = model.empty(counts.shape[1])
    arrays["feature_counts"] = model.stored(counts)
    arrays["feature_total"] = counts.sum(axis=0)
    stats = SuffStats(arrays, {"feature_counts": 1, "feature_total": 0}, {})
    return model.item_lists(items, model.item_table(model.estimate(stats), np.float64))


def chunk_of(X, dtype=np.float64):
    X = sp.csr_array(X)
    indptr = X.indptr.astype(np.int64)
    return Chunk(indptr, X.indices.astype(np.int32), X.data.astype(dtype), X.shape[1])


def dense(lists):
    """The weights that lists stand for, items x components, up to a factor an item."""
    table = np.outer(lists.base, lists.inverse)
    rows = np.repeat(np.arange(len(lists.base)), np.diff(lists.row_ptr))
    np.add.at(table, (rows, lists.components), lists.weight)
    return table


@pytest.mark.parametrize("estimation", ["map", "bayes"])
@pytest.mark.parametrize("prior", [PRIOR, np.linspace(0.05, 0.3, 5)[:, None], 0.02 + EXPECTED / 9])
def test_lists_of_words(estimation, prior):
    items = Items(chunk_of(COUNTS[None]))
    got = dense(lists_of(items, estimation, prior))
    want = weights_of(estimation, prior)[items.words]
    ratio = got / want
    np.testing.assert_allclose(ratio, ratio[:, :1] * np.ones(4), rtol=1e-5)


def test_lists_of_weights():
    weight = np.random.default_rng(0).random((3, 4)).astype(np.float32)
    np.testing.assert_allclose(dense(ItemLists.of_weights(weight)), weight, rtol=1e-6)


def test_alias_tables_draw_alpha_times_weight():
    rng = np.random.default_rng(0)
    lengths = np.array([0, 1, 7, 40])
    row_ptr = np.concatenate([[0], np.cumsum(lengths)])
    topics = np.concatenate([np.sort(rng.permutation(50)[:n]) for n in lengths]).astype(np.int32)
    weight, alpha = rng.gamma(0.3, 1, 48).astype(np.float32), rng.gamma(1.0, 1, 50)
    n_draws = np.array([50.0, 50, 1, 50])
    at, columns, mass = _sampled_words.alias_tables(row_ptr, topics, weight, alpha, n_draws)
    assert at.tolist() == [-1, 0, -1, 1] and len(columns) == 41
    for first, n, total, begin in zip(row_ptr[:-1], lengths, mass, at, strict=True):
        if not n:
            assert total == 0
            continue
        own = slice(first, first + n)
        want = alpha[topics[own]] * weight[own]
        assert total == pytest.approx(want.sum())
        if begin < 0:  # few draws
            continue
        drawn, table = np.zeros(50), columns[begin : begin + n]
        np.add.at(drawn, table["own"], table["share"])
        np.add.at(drawn, table["other"], 1 - table["share"])
        np.testing.assert_allclose(drawn[topics[own]] / n, want / want.sum(), atol=1e-6)


def posterior(weight, alpha, counts):
    """All assignments of the tokens, and their probabilities (Mimno et al. 2012, Eq. 4)."""
    words = np.repeat(np.arange(len(counts)), counts)
    K = len(alpha)
    z = np.array(list(product(range(K), repeat=len(words))))
    n = (z[:, :, None] == np.arange(K)).sum(axis=1)
    log_p = gammaln(alpha + n).sum(axis=1) + np.log(weight)[words, z].sum(axis=1)
    p = np.exp(log_p - log_p.max())
    return words, z, n, p / p.sum()


def sample(X, lists_of_items, alpha=ALPHA, step=0, **options):
    chunk = chunk_of(X)
    items = Items(chunk)
    documents = SampledDocuments(alpha, learn=True, **options)
    return items, documents.sample(items, lists_of_items(items), alpha, chunk.numbers, (7, step))


@pytest.mark.parametrize("estimation", ["map", "bayes"])
@pytest.mark.parametrize("start", ["own", "settled"])
def test_topic_counts_are_drawn_from_the_posterior(estimation, start):
    words, _, n, p = posterior(weights_of(estimation), ALPHA, COUNTS)
    n_documents = 20000
    X = np.tile(COUNTS, (n_documents, 1))
    burn_in = {"own": 25, "settled": 60}[start]
    _, (_, _, mass) = sample(X, lambda items: lists_of(items, estimation), burn_in=burn_in)
    kinds, which = np.unique(n, axis=0, return_inverse=True)
    want = n_documents * np.bincount(which.ravel(), p)
    both = np.concatenate([kinds, mass.astype(int)])
    _, found = np.unique(both, axis=0, return_inverse=True)
    got = np.bincount(found.ravel()[len(kinds) :], minlength=len(kinds))
    assert got.sum() == n_documents
    rare = want < 8  # together one class
    want, got = (np.append(x[~rare], x[rare].sum()) for x in (want, got))
    assert ((got - want) ** 2 / want).sum() < chi2.ppf(0.9999, len(want) - 1)


@pytest.mark.parametrize("estimation", ["map", "bayes"])
@pytest.mark.parametrize("level", [None, 2, 1])
@pytest.mark.parametrize("rao_blackwell", [False, True])
def test_statistics_are_averages_over_the_posterior(estimation, level, rao_blackwell, monkeypatch):
    monkeypatch.setattr(sampled, "SMALL_SHARE", 0)
    words, z, _, p = posterior(weights_of(estimation), ALPHA, COUNTS)
    expected = np.zeros((5, 4))
    for k in range(4):
        np.add.at(expected[:, k], words, p @ (z == k))
    expected = expected[COUNTS > 0]
    if level is not None:  # the best topics of every word, with its whole count
        worst = np.argsort(-expected, axis=1)[:, level:]
        np.put_along_axis(expected, worst, 0, axis=1)
        expected *= (COUNTS[COUNTS > 0] / expected.sum(axis=1))[:, None]
    n_documents, n_sweeps = 16, 20000
    _, (index, resp, _) = sample(
        np.tile(COUNTS, (n_documents, 1)),
        lambda items: lists_of(items, estimation),
        sparsity_level=level,
        n_sweeps=n_sweeps,
        burn_in=20,
        rao_blackwell=rao_blackwell,
    )
    got = as_table(index, resp, 4).reshape(n_documents, -1, 4)
    error = got.std(axis=0, ddof=1) / np.sqrt(n_documents) + 1e-4
    assert (np.abs(got.mean(axis=0) - expected) < 5 * error).all()
    assert error.max() < 5e-3


def as_table(index, resp, K):
    """Expected counts in topics of every stored count, dense."""
    table = np.zeros((len(index), K))
    held = index >= 0
    table[np.nonzero(held)[0], index[held]] = resp[held]
    return table


def test_small_shares_go_to_one_topic_by_lot(monkeypatch):
    n = 20000
    X = np.tile(COUNTS, (n, 1))
    found = []
    for share in (0, 0.3):
        monkeypatch.setattr(sampled, "SMALL_SHARE", share)
        items, (index, resp, _) = sample(X, lambda items: lists_of(items, "map"), n_sweeps=5)
        found.append(as_table(index, resp, 4))
    whole, lots = found
    counts = items.counts[:, None]
    small = (whole > 0) & (whole < 0.3 * counts * (1 - 1e-6))
    large = whole >= 0.3 * counts * (1 + 1e-6)
    np.testing.assert_allclose(lots[large], whole[large], rtol=1e-5)
    np.testing.assert_allclose(lots.sum(axis=1), items.counts, rtol=1e-5)
    assert (((lots > 0) & small).sum(axis=1) <= 1).all()
    assert ((lots > 0) <= (whole > 0)).all()
    # What a topic gets by lot is what it had, on average over documents.
    gained = (lots - whole).reshape(n, -1, 4)
    error = gained.std(axis=0) / np.sqrt(n)
    assert (np.abs(gained.mean(axis=0)) < 5 * error + 1e-6).all() and error.max() > 1e-4


def random_documents(rng, n_documents=40, n_words=300, K=70):
    X = sp.random(n_documents, n_words, 0.2, random_state=rng, format="csr")
    X.data = rng.integers(1, 6, X.nnz).astype(float)
    X.data[X.indptr[3] : X.indptr[4]] = 0  # a document of no words
    X.eliminate_zeros()
    counts = rng.gamma(0.05, 5, (n_words, K))
    counts[counts < 0.05] = 0
    return X, counts, rng.gamma(0.1, 1, K) + 1e-3


@pytest.mark.parametrize("rao_blackwell", [False, True])
@pytest.mark.parametrize("burn_in", [0, 2])
def test_statistics_recount(rao_blackwell, burn_in):
    X, counts, alpha = random_documents(np.random.default_rng(0))
    items, (index, resp, mass) = sample(
        X,
        lambda items: lists_of(items, "map", counts=counts),
        alpha,
        burn_in=burn_in,
        n_sweeps=1,
        rao_blackwell=rao_blackwell,
        sparsity_level=None,
    )
    np.testing.assert_allclose(resp.sum(axis=1), items.counts, rtol=1e-5)
    np.testing.assert_array_equal(mass.sum(axis=1), X.sum(axis=1).A1)
    held = index >= 0
    assert (np.diff(held.astype(int), axis=1) <= 0).all() and (resp[~held] == 0).all()
    document = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    again = np.zeros(mass.shape)
    np.add.at(again, (document[np.nonzero(held)[0]], index[held]), resp[held])
    if not rao_blackwell:  # one sweep: these are the very tokens of which it counts
        np.testing.assert_array_equal(again, mass)
    empty = np.empty((0, len(alpha)), np.float32)
    row_ptr, topics, values, _ = topic_stats.sum_by_word(
        items.ptr, items.occurrence, index, resp, empty, items.row
    )
    totals = np.add.reduceat(values, row_ptr[:-1])
    np.testing.assert_allclose(totals, np.asarray(X.sum(axis=0)).ravel()[items.words], rtol=1e-5)


def test_a_document_may_meet_many_topics():
    """Slots grow in the midst of a sweep: flat weights, one token a topic."""
    K = 400
    X = np.ones((3, 300))
    weight = np.ones((300, K), dtype=np.float32)
    alpha = np.full(K, 50.0)
    _, (index, resp, mass) = sample(
        X, lambda items: ItemLists.of_weights(weight), alpha, burn_in=0, n_sweeps=4, step=1
    )
    assert (np.count_nonzero(mass, axis=1) > 150).all()
    np.testing.assert_allclose(resp.sum(axis=1), 1, rtol=1e-5)


def test_same_bytes_for_any_number_of_threads():
    X, counts, alpha = random_documents(np.random.default_rng(1), n_documents=100)
    chunk = chunk_of(X)
    items = Items(chunk)
    lists = lists_of(items, "bayes", counts=counts)
    words = lists.row_ptr, lists.components, lists.weight
    found = []
    for n_threads in (1, 3):
        n_draws = np.where(np.arange(len(items.ptr) - 1) % 2, 100.0, 1.0)
        tables = _sampled_words.alias_tables(*words, alpha, n_draws, n_threads)
        inverse = lists.inverse.astype(np.float32)
        n_documents = np.diff(items.ptr)
        tables += _sampled_words.dense_rows(*words, lists.base, inverse, n_documents, n_threads)
        topics = alpha, inverse, np.ones(70, np.float32), np.arange(70, dtype=np.int32), 1.0
        found.append(
            sampled_documents.sample_documents(
                items.indptr,
                items.local,
                items.counts,
                (*words, lists.base, *tables),
                topics,
                np.arange(100, dtype=np.uint64),
                seed=1,
                step=2,
                burn_in=1,
                n_sweeps=2,
                rao_blackwell=True,
                sparsity_level=3,
                want_mass=True,
                n_threads=n_threads,
            )
        )
    for one, other in zip(*found, strict=True):
        assert one.tobytes() == other.tobytes()


def test_documents_have_streams_of_their_own():
    """A document's topics depend on its number, not on where it is in its chunk."""
    X, counts, alpha = random_documents(np.random.default_rng(2))
    order = np.random.default_rng(0).permutation(X.shape[0])
    moved = chunk_of(X[order])
    moved.numbers = order
    found = []
    for held in (chunk_of(X), moved):
        items = Items(held)
        lists = lists_of(items, "map", counts=counts)
        documents = SampledDocuments(alpha, learn=True)
        found.append(documents.sample(items, lists, alpha, held.numbers, (0, 0))[2])
    np.testing.assert_array_equal(found[0][order], found[1])
    again = sample(X, lambda items: lists_of(items, "map", counts=counts), alpha, step=1)[1]
    assert (again[2] != found[0]).any()


def test_all_topics_of_words_are_kept_in_little_memory(monkeypatch):
    """Without a sparsity level the documents are sampled in parts, to the same result."""
    rng = np.random.default_rng(0)
    X = rng.poisson(0.8, (30, 5)) + np.eye(30, 5, dtype=int)
    found = {}
    for most in (1 << 24, 64, 1):
        monkeypatch.setattr(sampled, "MOST_RESERVED", most)
        items = Items(chunk_of(X))
        model = SampledDocuments(ALPHA, sparsity_level=None, learn=True)
        lists = lists_of(items, "map")
        found[most] = model.sample(items, lists, ALPHA, np.arange(30), (3, 1))
    index, resp, mass = found.pop(1 << 24)
    for other_index, other_resp, other_mass in found.values():
        width = other_index.shape[1]
        np.testing.assert_array_equal(other_index, index[:, :width])
        np.testing.assert_array_equal(other_resp, resp[:, :width])
        assert (index[:, width:] == -1).all()
        np.testing.assert_array_equal(other_mass, mass)
