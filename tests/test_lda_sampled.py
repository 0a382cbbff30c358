"""SparseLDA with sampled local steps: what it learns, what it keeps and what it refuses."""

import pickle
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from sklearn_sparsepost import SparseLDA
from sklearn_sparsepost._models.sampled import LEAST_COUNT, SampledAdmixture
from sklearn_sparsepost._tables import NOTHING, RowTable
from sklearn_sparsepost.datasets import make_lda_corpus

METHODS = ["batch", "memoized", "online"]


@pytest.fixture(scope="module")
def corpora():
    X, topics, _ = make_lda_corpus(900, 150, 6, doc_length=60, random_state=0)
    return X[:700], X[700:], topics


def gibbs(**params):
    params = {"max_iter": 8, "n_batches": 4, "batch_size": 100, "random_state": 0, **params}
    return SparseLDA(6, local_step="gibbs", **params)


@pytest.mark.parametrize("estimation", ["map", "bayes"])
@pytest.mark.parametrize("method", METHODS)
def test_topics_are_found(corpora, method, estimation):
    X, X_test, topics = corpora
    known = SparseLDA.from_topics(topics).score(X_test)
    lda = gibbs(learning_method=method, estimation=estimation).fit(X)
    assert lda.score(X_test) > known - 0.02
    assert np.isnan(lda.bound_history_).all() and lda.n_iter_ == 8
    assert np.isnan(lda.restart_acceptance_).all()
    assert lda.bound(X_test) < 0


@pytest.mark.parametrize("rao_blackwell", [False, True])
def test_statistics_sum_to_the_corpus(corpora, rao_blackwell):
    X = corpora[0]
    lda = gibbs(rao_blackwell=rao_blackwell, warm_start=True, average_after=100, max_iter=3).fit(X)
    state = lda._fit_state
    counts = state.stats["feature_counts"]
    assert isinstance(counts, RowTable)
    words = np.asarray(X.sum(axis=0)).ravel()
    np.testing.assert_allclose(counts[:].sum(axis=1), words, rtol=1e-5)
    np.testing.assert_allclose(counts[:].sum(axis=0), state.stats["feature_total"], rtol=1e-6)
    np.testing.assert_allclose(
        sum(part["feature_counts"].to_csr().sum() for part in state.memo), X.sum(), rtol=1e-5
    )
    np.testing.assert_allclose(lda.components_, 0.1 + counts[:].T, rtol=1e-5)


def test_batches_are_sampled_under_the_counts_of_all_others(corpora, monkeypatch):
    X, batches = corpora[0], []
    lda = gibbs(warm_start=True, max_iter=2).fit(X)
    globals_of = SampledAdmixture.globals_of

    def noted(model, state, track=None):
        parts = [part["feature_counts"] for part in state.memo]
        tables = [RowTable.of(part)[:] for part in parts]
        others = sum(tables) - np.array(tables)
        gaps = np.abs(others - state.stats["feature_counts"][:]).max(axis=(1, 2))
        totals = [sum(tables).sum(axis=0) - table.sum(axis=0) for table in tables]
        assert gaps.min() < 1e-4
        np.testing.assert_allclose(state.stats["feature_total"], totals[gaps.argmin()], rtol=1e-5)
        batches.append(int(gaps.argmin()))
        return globals_of(model, state, track)

    monkeypatch.setattr(SampledAdmixture, "globals_of", noted)
    lda.fit(X)  # one globals a batch, of two passes
    assert sorted(batches) == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("method", METHODS)
def test_averages_are_those_of_the_passes(corpora, method):
    X, fit = corpora[0], partial(gibbs, learning_method=method)
    single = [fit(max_iter=n, average_after=100).fit(X).components_ for n in (3, 4, 5)]
    averaged = fit(max_iter=5, average_after=2).fit(X)
    # The least counts of a stream are kept by lot, also when it is added up.
    atol = LEAST_COUNT if method == "online" else 0
    np.testing.assert_allclose(averaged.components_, np.mean(single, axis=0), rtol=1e-4, atol=atol)
    after = 100 if method == "online" else 3
    unsaid = fit(max_iter=6).fit(X).components_
    np.testing.assert_array_equal(unsaid, fit(max_iter=6, average_after=after).fit(X).components_)


@pytest.mark.parametrize("method", METHODS)
def test_going_on_gives_the_same_bytes(corpora, method):
    X = corpora[0]
    whole = gibbs(learning_method=method, max_iter=6, average_after=2).fit(X)
    parts = gibbs(learning_method=method, max_iter=3, average_after=2, warm_start=True).fit(X)
    parts = pickle.loads(pickle.dumps(parts)).fit(X)
    assert parts.components_.tobytes() == whole.components_.tobytes()


def test_local_steps_follow_each_other(corpora):
    """A warm fit may go on with the other local step, from the same topics."""
    X, X_test, _ = corpora
    lda = SparseLDA(6, warm_start=True, max_iter=3, random_state=0).fit(X)
    before = lda.score(X_test)
    lda.set_params(local_step="gibbs").fit(X)
    assert lda.score(X_test) > before - 0.02
    lda.set_params(local_step="variational").partial_fit(X[:50]).fit(X)
    assert np.isfinite(lda.bound_history_[-1])


@pytest.mark.parametrize("estimation", ["map", "bayes"])
def test_streams(corpora, estimation):
    X, X_test, topics = corpora
    lda = gibbs(estimation=estimation, total_samples=700, learning_offset=1)
    for _ in range(4):
        for first in range(0, 700, 100):
            lda.partial_fit(X[first : first + 100])
    assert lda.n_batch_iter_ == 28
    assert lda.score(X_test) > SparseLDA.from_topics(topics).score(X_test) - 0.03


def test_streams_forget_whatever_the_learning_method(corpora):
    """Faded counts are dropped by steps of a stream, and by no fit that goes on from there."""
    X = corpora[0]
    streams = {}
    for method in ("memoized", "batch", "online"):
        lda = gibbs(learning_method=method, total_samples=700, learning_offset=0, warm_start=True)
        lda.set_params(max_iter=2).fit(X)
        least = [lda._fit_state.stats["feature_counts"].least]
        for first in range(0, 700, 100):
            lda.partial_fit(X[first : first + 100])
        least.append(lda._fit_state.stats["feature_counts"].least)
        assert least == [LEAST_COUNT if method == "online" else NOTHING, LEAST_COUNT]
        lda = gibbs(learning_method=method, total_samples=700, learning_offset=0)
        for _ in range(3):
            for first in range(0, 700, 100):
                lda.partial_fit(X[first : first + 100])
        streams[method] = lda
    one = streams.pop("online")
    for other in streams.values():
        np.testing.assert_array_equal(other.components_, one.components_)
    lda = one.set_params(learning_method="memoized", warm_start=True, max_iter=1).fit(X)
    assert lda._fit_state.stats["feature_counts"].least == NOTHING


def test_batches_of_a_stream_have_streams_of_their_own(corpora):
    """The same documents, seen again, are not drawn alike."""
    X = corpora[0]
    lda = gibbs(rao_blackwell=False, total_samples=700, learning_offset=0)
    draws = []
    for _ in range(3):
        lda.partial_fit(X[:100])
        draws.append(lda.components_.copy())
    assert not np.array_equal(draws[0], draws[1]) and not np.array_equal(draws[1], draws[2])


def test_a_stream_costs_no_more_than_its_batch(corpora):
    """What has the size of all topics is neither copied nor put together at a step."""
    X = corpora[0]
    for lda in (gibbs(), SparseLDA(6, random_state=0)):
        lda.partial_fit(X[:200])
        table = lda._fit_state.stats["feature_counts"]
        lda.partial_fit(X[200:250])
        after = lda._fit_state.stats["feature_counts"]
        if isinstance(table, RowTable):
            assert after.pool is table.pool
        else:
            assert after is table
        assert not isinstance(vars(lda)["components_"], np.ndarray)
        assert lda.components_ is lda.components_


def test_copies_share_nothing_that_a_stream_moves(corpora):
    X = corpora[0]
    import copy

    for lda in (gibbs(), SparseLDA(6, random_state=0)):
        lda.partial_fit(X[:200])
        other = copy.copy(lda)
        want = copy.deepcopy(lda)
        lda.partial_fit(X[200:250])
        lda.partial_fit(X[250:300])
        assert other.components_.tobytes() == want.components_.tobytes()
        got = other.partial_fit(X[300:350]).components_.tobytes()
        assert got == want.partial_fit(X[300:350]).components_.tobytes()


def test_what_a_callback_was_given_is_its_own(corpora):
    """A stream on a copy of an estimator in the midst of a fit does not touch the fit."""
    X = corpora[0]

    class Stream:
        def setup(self, estimator, context):
            pass

        teardown = on_fit_task_begin = setup

        def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
            if context.task_name == "pass":
                fitted_estimator.partial_fit(X[:50])

    for lda in (gibbs(max_iter=3), SparseLDA(6, max_iter=3, n_batches=4, random_state=0)):
        want = clone(lda).fit(X).components_.tobytes()
        assert clone(lda).set_callbacks(Stream()).fit(X).components_.tobytes() == want


def test_learned_prior(corpora):
    X = corpora[0]
    lda = gibbs(doc_topic_prior="auto", max_iter=30).fit(X)
    truth = SparseLDA(6, doc_topic_prior="auto", max_iter=30, random_state=0).fit(X)
    ratio = lda.doc_topic_prior_.sum() / truth.doc_topic_prior_.sum()
    assert 0.5 < ratio < 2


@pytest.mark.parametrize(
    ("params", "culprit"),
    [
        ({"doc_start": "warm"}, "doc_start"),
        ({"burn_in": -1}, "burn_in"),
        ({"n_sweeps": 0}, "n_sweeps"),
        ({"rao_blackwell": 2}, "rao_blackwell"),
        ({"average_after": -1}, "average_after"),
        ({"local_step": "exact"}, "local_step"),
        ({"estimation": "ml"}, "estimation"),
    ],
)
def test_bad_parameters_are_named(corpora, params, culprit):
    with pytest.raises(ValueError, match=culprit):
        gibbs().set_params(**params).fit(corpora[0])


def test_fractions_and_huge_documents_are_named():
    X = sp.csr_matrix(np.array([[1.0, 2, 0], [0, 0, 0], [0, 0.5, 1]]))
    with pytest.raises(ValueError, match="row 2 of X has fractional counts"):
        gibbs().set_params(n_components=2).fit(X)
    X.data[:] = 1 << 24
    with pytest.raises(ValueError, match="row 0 of X has 33554432 tokens"):
        gibbs().set_params(n_components=2).partial_fit(X)


def test_empty_documents_and_dense_input(corpora):
    X = corpora[0][:100].toarray()
    X[::7] = 0
    lda = gibbs(max_iter=3).fit(X)
    np.testing.assert_array_equal(lda.components_, clone(lda).fit(sp.csr_matrix(X)).components_)
    np.testing.assert_allclose(lda.components_.sum(), X.sum() + 0.1 * 6 * 150, rtol=1e-5)
