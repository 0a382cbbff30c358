"""The three kernels of a topic model's local step against the numpy reference."""

from functools import partial

import numpy as np
import pytest
import reference
import scipy.sparse as sp
from scipy.special import gammaln, psi

from sklearn_sparsepost._kernels import topic_documents, topic_stats, topic_words

TOL = {np.float32: 2e-5, np.float64: 1e-11}


def random_counts(rng, n_documents=40, n_words=60, density=0.2):
    X = sp.random(n_documents, n_words, density, random_state=rng, format="csr")
    X.data = rng.integers(1, 6, X.nnz).astype(np.float64)
    X.sort_indices()
    return X


def local_step(X, components, alpha, L, dtype, **options):
    """The three kernels in a row, on topics given as pseudo-counts."""
    options = {"max_iter": 5000, "tol": 1e-12, "active_tol": 1e-12, "burn_in": 0, **options}
    n_threads = options.pop("n_threads", 1)
    indptr = X.indptr.astype(np.int64)
    words, local, word_ptr, occurrence = topic_words.index_words(X.indices, X.shape[1])
    counts = np.ascontiguousarray(components.T)
    prior = np.broadcast_to(0.0, counts.shape)
    topic_digamma = psi(components.sum(axis=1))
    rows = topic_words.topic_rows(counts, 1.0, prior, words, topic_digamma, L, dtype, n_threads)
    index, resp, mass, report = topic_documents.fit_documents(
        indptr,
        local,
        X.data.astype(dtype),
        *rows,
        alpha.astype(dtype),
        gammaln(alpha),
        sparsity_level=L,
        want_mass=True,
        n_threads=n_threads,
        **options,
    )
    # As if other words had been weighed before, and these from the last to the first.
    weights = np.concatenate([np.full((3, len(alpha)), np.nan, dtype), rows[0][::-1]])
    row = np.arange(3, len(weights), dtype=np.int32)[::-1].copy()
    if len(alpha) <= L:
        table = topic_stats.sum_by_word_dense(
            indptr, word_ptr, occurrence, resp, weights, row, n_threads
        )
    else:
        table = topic_stats.sum_by_word(word_ptr, occurrence, index, resp, weights, row, n_threads)
    return rows, index, resp, mass, report, (words, *table)


def dense_table(table, shape):
    words, row_ptr, topics, counts, _ = table
    total = np.zeros(shape)
    total[np.repeat(words, np.diff(row_ptr)), topics] += counts
    return total


@pytest.fixture
def problem():
    rng = np.random.default_rng(3)
    X = random_counts(rng)
    components = rng.gamma(0.3, 5.0, (9, X.shape[1])) + 0.1
    # small enough that a topic without mass never comes back, as Alg. 2 assumes
    return X, components, rng.uniform(0.005, 0.03, 9)


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_index_words_is_a_transpose(problem, n_threads):
    X = problem[0]
    found = topic_words.index_words(X.indices, X.shape[1], n_threads)
    words, local, word_ptr, occurrence = found
    np.testing.assert_array_equal(words, np.unique(X.indices))
    np.testing.assert_array_equal(words[local], X.indices)
    for w, v in enumerate(words):
        np.testing.assert_array_equal(
            occurrence[word_ptr[w] : word_ptr[w + 1]], np.flatnonzero(X.indices == v)
        )


@pytest.mark.parametrize("prior_kind", ["scalar", "vector", "matrix"])
@pytest.mark.parametrize("point", [False, True])
def test_topic_rows(dtype, prior_kind, point):
    rng = np.random.default_rng(0)
    V, K, L = 30, 150, 4
    counts = rng.gamma(0.1, 4.0, (V, K)) * (rng.random((V, K)) < 0.2)
    prior = {
        "scalar": np.broadcast_to(0.1, (V, K)),
        "vector": np.broadcast_to(rng.uniform(0.05, 0.3, V)[:, None], (V, K)),
        "matrix": rng.uniform(0.05, 0.3, (V, K)),
    }[prior_kind]
    lam = prior + 0.7 * counts
    log = np.log if point else psi
    topic_log = log(lam.sum(axis=0))
    words = np.array([3, 4, 11, 29], dtype=np.int32)
    weight, best, share = topic_words.topic_rows(
        counts, 0.7, prior, words, topic_log, L, dtype, point=point
    )
    want = np.exp(log(lam) - topic_log)[words]
    want /= want.max(axis=1, keepdims=True)
    np.testing.assert_allclose(weight, want, rtol=TOL[dtype], atol=1e-25)
    for w in range(len(words)):
        kept, r = reference.topl(np.log(weight[w].astype(np.float64)), L)
        np.testing.assert_array_equal(np.sort(best[w]), kept)
        np.testing.assert_allclose(share[w][np.argsort(best[w])], r, rtol=1e-5)


@pytest.mark.parametrize("L", [1, 4, 40, 149, 150])
@pytest.mark.parametrize("prior", [0.1, 1e-3])
@pytest.mark.parametrize("point", [False, True])
def test_topic_rows_of_few_counts_equal_those_computed_in_full(dtype, L, prior, point):
    # A prior given as a matrix takes the long way, a scalar the short one for mostly empty rows.
    rng = np.random.default_rng(1)
    V, K = 40, 150
    counts = rng.gamma(0.3, 4.0, (V, K)) * (rng.random((V, K)) < np.linspace(0, 1, V)[:, None])
    topic_log = (np.log if point else psi)(prior * V + counts.sum(axis=0) + rng.gamma(1, 50.0, K))
    words = np.arange(V, dtype=np.int32)
    short, long = (
        topic_words.topic_rows(counts, 1.0, table, words, topic_log, L, dtype, point=point)
        for table in (np.broadcast_to(prior, (V, K)), np.full((V, K), prior))
    )
    np.testing.assert_allclose(short[0], long[0], rtol=TOL[dtype], atol=1e-25)
    order = [np.argsort(best, axis=1) for best in (short[1], long[1])]
    for found, wanted, rtol in zip(short[1:], long[1:], (0, 1e-4), strict=True):
        found, wanted = (
            np.take_along_axis(x, o, 1) for x, o in zip((found, wanted), order, strict=True)
        )
        np.testing.assert_allclose(found, wanted, rtol=rtol)


@pytest.mark.parametrize("K", [3, 8, 21, 63, 64, 65, 136, 150])
def test_topic_rows_find_a_count_wherever_it_is(dtype, K):
    counts = 5.0 * np.eye(K)  # the short way, and a matrix as prior the long one
    counts[counts == 0] = np.tile([0.0, -0.0], K * (K - 1))[: K * (K - 1)]
    topic_log, words = np.linspace(2, 3, K), np.arange(K, dtype=np.int32)
    short, long = (
        topic_words.topic_rows(counts, 1.0, prior, words, topic_log, 1, dtype)
        for prior in (np.broadcast_to(0.1, (K, K)), np.full((K, K), 0.1))
    )
    np.testing.assert_allclose(short[0], long[0], rtol=TOL[dtype])
    for _, best, _ in (short, long):
        np.testing.assert_array_equal(best.ravel(), words)


@pytest.mark.parametrize(("point", "tiny"), [(False, 1e-4), (True, 1e-30)])
def test_topic_rows_of_tiny_priors_do_not_underflow(dtype, point, tiny):
    counts = np.zeros((3, 5))
    counts[0, 2] = 4.0
    prior = np.broadcast_to(tiny, counts.shape)
    lam = prior + counts
    topic_log = (np.log if point else psi)(lam.sum(axis=0))
    weight, _, _ = topic_words.topic_rows(
        counts, 1.0, prior, np.arange(3, dtype=np.int32), topic_log, 2, dtype, point=point
    )
    np.testing.assert_allclose(weight.max(axis=1), 1)
    assert (weight > 0).all()
    assert weight[0].argmax() == 2


@pytest.mark.parametrize("L", [1, 2, 4, 8, 9, 20])
def test_converged_document_step_is_a_fixed_point_of_the_reference(problem, dtype, L):
    X, components, alpha = problem
    elog_phi = reference.expected_log_topics(components)
    rows, index, resp, mass, report, table = local_step(X, components, alpha, L, dtype)
    words = table[0]
    local_bound = report[:, :2].sum() - table[4].sum()
    want_bound, total = 0.0, np.zeros((X.shape[1], 9))
    terms = gammaln(mass + alpha).sum(axis=1) - gammaln(alpha).sum()
    np.testing.assert_allclose(report[:, 0], terms, rtol=1e-4 if dtype == np.float32 else 1e-9)
    for d in range(X.shape[0]):
        part = slice(X.indptr[d], X.indptr[d + 1])
        ids, counts = X.indices[part], X.data[part]
        # one step of the obvious algorithm from where the kernel says it has converged
        weight = elog_phi[:, ids].T + psi(mass[d].astype(np.float64) + alpha)
        r = reference.responsibilities(weight, L)
        np.testing.assert_allclose(counts @ r, mass[d], atol=2e-3 if dtype == np.float32 else 1e-6)
        np.testing.assert_allclose(mass[d].sum(), counts.sum(), rtol=1e-5)
        total[ids] += counts[:, None] * r
        want_bound += reference.document_bound(ids, counts, r, elog_phi, alpha)
        want_bound -= (counts[:, None] * r * elog_phi[:, ids].T).sum()
        n = counts.sum()
        want_bound -= gammaln(alpha.sum()) - gammaln(alpha.sum() + n)
    got = dense_table(table, total.shape)
    np.testing.assert_allclose(got, total, atol=5e-3 if dtype == np.float32 else 1e-6)
    assert local_bound == pytest.approx(want_bound, rel=1e-5 if dtype == np.float32 else 1e-8)
    assert set(words) == set(X.indices)


@pytest.mark.parametrize("L", [1, 3, 9])
def test_bound_of_the_kernel_is_that_of_its_own_responsibilities(problem, dtype, L):
    # far from convergence too: the bound is exact for whatever posterior is returned
    X, components, alpha = problem
    elog_phi = reference.expected_log_topics(components)
    _, index, resp, mass, report, table = local_step(
        X, components, alpha, L, dtype, max_iter=2, restarts=2, active_tol=1e-4
    )
    if L < 9:
        for d in range(X.shape[0]):
            part = slice(X.indptr[d], X.indptr[d + 1])
            ids, counts = X.indices[part], X.data[part]
            r = np.zeros((len(ids), 9))
            for u, p in enumerate(range(part.start, part.stop)):
                for k, value in zip(index[p], resp[p], strict=True):
                    if k < 0:
                        break
                    r[u, k] = value / counts[u]
            assert ((r > 0).sum(axis=1) <= L).all()
            np.testing.assert_allclose(r.sum(axis=1), 1, rtol=1e-5)
            r /= r.sum(axis=1, keepdims=True)
            np.testing.assert_allclose(counts @ r, mass[d], atol=1e-4)
    total = dense_table(table, (X.shape[1], 9))
    np.testing.assert_allclose(total.sum(axis=1), np.asarray(X.sum(axis=0)).ravel(), rtol=1e-5)
    np.testing.assert_allclose(total.sum(axis=0), mass.sum(axis=0), rtol=1e-4)
    assert np.isfinite(report).all()
    assert elog_phi.shape[0] == mass.shape[1]


def test_more_topics_than_needed_is_the_dense_step_bit_for_bit(problem, dtype):
    X, components, alpha = problem
    results = [local_step(X, components, alpha, L, dtype) for L in (9, 10, 1000)]
    for other in results[1:]:
        assert results[0][3].tobytes() == other[3].tobytes()
        assert results[0][2].tobytes() == other[2].tobytes()


@pytest.mark.parametrize("L", [2, 4, 9])
def test_restarts_never_lower_a_documents_bound(problem, L):
    X, components, alpha = problem
    plain = local_step(X, components, alpha, L, np.float64)[4]
    tried = local_step(X, components, alpha, L, np.float64, restarts=5)[4]
    before, after = plain[:, :2].sum(axis=1), tried[:, :2].sum(axis=1)
    assert (after >= before - 1e-8 * np.abs(before)).all()
    assert (tried[:, 4] <= tried[:, 3]).all() and (tried[:, 3] <= 5).all()


def test_restarts_find_better_optima_for_small_alpha():
    rng = np.random.default_rng(5)
    X = random_counts(rng, 200)
    components = rng.gamma(1.0, 2.0, (9, X.shape[1])) + 0.1
    alpha = np.full(9, 0.02)
    plain = local_step(X, components, alpha, 4, np.float64)[4]
    tried = local_step(X, components, alpha, 4, np.float64, restarts=5)[4]
    assert tried[:, 4].sum() > 0
    assert tried[:, :2].sum() > plain[:, :2].sum()


@pytest.mark.parametrize("L", [4, 9])
def test_documents_of_few_topics_are_left_as_they_are(L):
    rng = np.random.default_rng(5)
    X = random_counts(rng, 200)
    components = rng.gamma(1.0, 2.0, (9, X.shape[1])) + 0.1
    alpha = np.full(9, 0.02)
    step = partial(local_step, X, components, alpha, L, np.float64, active_tol=1e-4)
    held = (step()[3] > 1e-4).sum(axis=1)
    above = rng.integers(0, 6, 200).astype(np.int32)
    tried = step(restarts=9, restarts_above=above)
    after = (tried[3] > 1e-4).sum(axis=1)
    assert (tried[4][held <= above, 3] == 0).all()
    assert (after >= np.minimum(held, above)).all()
    assert (tried[4][held > np.maximum(above, 1), 3] > 0).all()
    assert (after[above > 0] < held[above > 0]).any()
    none = step(restarts=9, restarts_above=np.zeros(200, dtype=np.int32))
    np.testing.assert_array_equal(none[3], step(restarts=9)[3])


def test_burn_in_and_active_topics_keep_the_quality():
    rng = np.random.default_rng(6)
    X = random_counts(rng, 300)
    components = rng.gamma(0.2, 5.0, (40, X.shape[1])) + 0.1
    alpha = np.full(40, 0.5 / 40)
    exact = local_step(X, components, alpha, 8, np.float64, restarts=5)[4]
    fast = local_step(
        X, components, alpha, 8, np.float64, restarts=5, burn_in=2, active_tol=1e-4, tol=0.05
    )[4]
    per_token = X.sum()
    assert abs(exact[:, :2].sum() - fast[:, :2].sum()) / per_token < 0.01


def test_warm_start_resumes(problem):
    X, components, alpha = problem
    mass = local_step(X, components, alpha, 8, np.float64)[3]
    again = local_step(X, components, alpha, 8, np.float64, start=mass, max_iter=1)
    np.testing.assert_allclose(again[3], mass, atol=1e-6)


@pytest.mark.parametrize("L", [3, 9])
def test_empty_and_zero_count_documents(problem, dtype, L):
    _, components, alpha = problem
    X = sp.csr_matrix(np.zeros((4, components.shape[1])))
    X = sp.csr_matrix(([0.0, 0.0, 2.0], [1, 5, 7], [0, 0, 2, 3, 3]), shape=X.shape)
    _, _, _, mass, report, table = local_step(X, components, alpha, L, dtype)
    np.testing.assert_array_equal(mass[[0, 1, 3]], 0)
    assert mass[2].sum() == pytest.approx(2)
    np.testing.assert_array_equal(report[[0, 1, 3]], 0)
    assert dense_table(table, (X.shape[1], 9)).sum() == pytest.approx(2)


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 2.0**31])
def test_counts_of_any_size(problem, dtype, scale):
    X, components, alpha = problem
    X = X * scale
    for L in (3, 9):
        _, _, _, mass, report, table = local_step(X, components, alpha, L, dtype, restarts=2)
        want = np.asarray(X.sum(axis=1)).ravel()
        np.testing.assert_allclose(mass.sum(axis=1), want, rtol=1e-4)
        assert np.isfinite(report).all()
        assert dense_table(table, (X.shape[1], 9)).sum() == pytest.approx(X.sum(), rel=1e-4)


@pytest.mark.parametrize("L", [3, 9])
def test_threads_do_not_change_bits(problem, dtype, L):
    X, components, alpha = problem
    one = local_step(X, components, alpha, L, dtype, restarts=3)
    for n_threads in (2, 3):
        other = local_step(X, components, alpha, L, dtype, restarts=3, n_threads=n_threads)
        assert one[3].tobytes() == other[3].tobytes()
        assert one[4].tobytes() == other[4].tobytes()
        for a, b in zip(one[5], other[5], strict=True):
            assert a.tobytes() == b.tobytes()


def test_dirichlet_terms(problem):
    rng = np.random.default_rng(0)
    counts = rng.gamma(0.2, 3.0, (20, 6)) * (rng.random((20, 6)) < 0.5)
    at = rng.gamma(0.2, 3.0, (20, 6))
    prior = np.broadcast_to(0.1, counts.shape)
    got = topic_stats.dirichlet_bound_terms(counts, 2.0, prior)
    np.testing.assert_allclose(
        got, (gammaln(0.1 + 2 * counts) - gammaln(0.1)).sum(axis=1), atol=1e-12
    )
    digammas = psi((0.1 + 3 * at).sum(axis=0))
    got = topic_stats.dirichlet_gap_terms(counts, 2.0, at, 3.0, prior, digammas)
    want = ((2 * counts - 3 * at) * (psi(0.1 + 3 * at) - digammas)).sum(axis=1)
    np.testing.assert_allclose(got, want, rtol=1e-10)


def test_terms_of_topics_that_are_points():
    rng = np.random.default_rng(0)
    counts = rng.gamma(0.2, 3.0, (20, 6)) * (rng.random((20, 6)) < 0.5)
    at = rng.gamma(0.2, 3.0, (20, 6))
    prior = np.broadcast_to(0.1, counts.shape)
    got = topic_stats.dirichlet_bound_terms(counts, 2.0, prior, point=True)
    lam = 0.1 + 2 * counts
    np.testing.assert_allclose(got, (lam * np.log(lam) - 0.1 * np.log(0.1)).sum(axis=1), atol=1e-11)
    logs = np.log((0.1 + 3 * at).sum(axis=0))
    got = topic_stats.dirichlet_gap_terms(counts, 2.0, at, 3.0, prior, logs, point=True)
    want = ((2 * counts - 3 * at) * (np.log(0.1 + 3 * at) - logs)).sum(axis=1)
    np.testing.assert_allclose(got, want, rtol=1e-10)


@pytest.mark.parametrize("point", [False, True])
def test_gains_of_merges_are_differences_of_the_terms(point):
    rng = np.random.default_rng(1)
    counts = rng.gamma(0.2, 3.0, (50, 6)) * (rng.random((50, 6)) < 0.6)
    prior = np.broadcast_to(rng.uniform(0.05, 0.5, (50, 1)), counts.shape)
    pairs = np.array([[0, 3], [4, 1], [2, 5], [3, 1]])

    def terms(table):
        return topic_stats.dirichlet_bound_terms(table, 2.0, prior, point=point).sum()

    want = []
    for kept, absorbed in pairs:
        merged = counts.copy()
        merged[:, kept] += merged[:, absorbed]
        merged[:, absorbed] = 0
        want.append(terms(merged) - terms(counts))
    got = topic_stats.dirichlet_merge_gains(counts, 2.0, prior, pairs, 1, point)
    np.testing.assert_allclose(got, want, rtol=1e-9)
    two = topic_stats.dirichlet_merge_gains(counts, 2.0, prior, pairs, 2, point)
    assert two.tobytes() == got.tobytes()
    assert not len(topic_stats.dirichlet_merge_gains(counts, 2.0, prior, pairs[:0], 1, point))


def test_gains_of_the_prior(dtype):
    rng = np.random.default_rng(2)
    mass = (rng.gamma(0.3, 5.0, (70, 9)) * (rng.random((70, 9)) < 0.3)).astype(dtype)
    alpha, weight = rng.uniform(0.001, 2.0, 9), rng.uniform(0.5, 2.0, 70)
    want = weight @ (psi(alpha + mass) - psi(alpha))
    got = topic_stats.prior_gains(mass, alpha, weight)
    np.testing.assert_allclose(got, want, rtol=1e-11)
    assert topic_stats.prior_gains(mass, alpha, weight, 2).tobytes() == got.tobytes()
