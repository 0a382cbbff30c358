"""Weighted documents of topic models: weights count copies, and 0 leaves a document out."""

import itertools

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_sparsepost import AliasLDA, GibbsCTM, SparseHDP, SparseLDA
from sklearn_sparsepost._starts.anchors import anchor_words
from sklearn_sparsepost._starts.bregman import bregman_kmeans_plusplus
from sklearn_sparsepost.datasets import make_bars
from sklearn_sparsepost.models import (
    Admixture,
    Corpus,
    GrowingMultinomial,
    Multinomial,
    SampledAdmixture,
    SampledDocuments,
    begin,
)

X = make_bars(60, random_state=0)[0]
TIMES = np.random.default_rng(0).integers(0, 4, size=60)
REPEATED = X[np.repeat(np.arange(60), TIMES)]
LEFT = TIMES > 0
START = make_bars(1, random_state=0)[1] * 100


def assert_fitted_alike(one, other, **tolerances):
    np.testing.assert_allclose(one.components_, other.components_, **tolerances)
    np.testing.assert_allclose(one.bound_history_, other.bound_history_, **tolerances)
    np.testing.assert_allclose(one.doc_topic_prior_, other.doc_topic_prior_, **tolerances)


@pytest.mark.parametrize("estimation", ["map", "bayes"])
# With L = 1 from a start of the same bits only: last bits decide which topic a word is given.
@pytest.mark.parametrize(
    "L, init", [(1, START), *itertools.product([4, None], [START, "random", "anchor"])]
)
def test_weights_are_copies_in_topics_bound_and_learned_prior(L, estimation, init):
    lda = SparseLDA(
        10,
        sparsity_level=L,
        estimation=estimation,
        learning_method="batch",
        doc_topic_prior="auto",
        init=init,
        max_iter=4,
        tol=0,
        random_state=0,
    )
    weighted = clone(lda).fit(X.astype(float), sample_weight=TIMES)
    assert_fitted_alike(weighted, lda.fit(REPEATED.astype(float)), rtol=1e-6)


@pytest.mark.parametrize("method", ["memoized", "batch"])
def test_the_end_of_memoized_learning_with_one_batch_is_that_of_copies(method):
    lda = SparseLDA(10, n_batches=1, learning_method=method, init=START, random_state=0)
    weighted = clone(lda).fit(X.astype(float), sample_weight=TIMES)
    assert_fitted_alike(weighted, lda.fit(REPEATED.astype(float)), rtol=1e-6)


@pytest.mark.parametrize("method", ["memoized", "online", "batch"])
@pytest.mark.parametrize("step", ["variational", "gibbs"])
def test_weights_of_0_leave_documents_out_and_1_change_nothing(method, step):
    lda = SparseLDA(
        10,
        learning_method=method,
        local_step=step,
        n_batches=3,
        batch_size=20,
        max_iter=3,
        random_state=0,
    )
    some = clone(lda).fit(X[LEFT])
    for weighted in (
        clone(lda).fit(X, sample_weight=LEFT),
        clone(lda).fit(X[LEFT], None, [1] * LEFT.sum()),
    ):
        np.testing.assert_array_equal(weighted.components_, some.components_)
        np.testing.assert_array_equal(weighted.bound_history_, some.bound_history_)
        assert weighted.n_samples_seen_ == LEFT.sum()


def test_the_same_bytes_on_any_number_of_workers():
    lda = SparseLDA(10, n_batches=4, max_iter=3, doc_topic_prior="auto", random_state=0)
    one, two = (clone(lda).set_params(n_jobs=n).fit(X, sample_weight=TIMES) for n in (1, 2))
    np.testing.assert_array_equal(one.components_, two.components_)
    np.testing.assert_array_equal(one.bound_history_, two.bound_history_)


def test_the_bound_of_weighted_batches_is_that_of_copies():
    """Batches differ from those of copies; what the end says of the data does not."""
    lda = SparseLDA(10, n_batches=3, tol=0, random_state=0)
    lda.fit(X.astype(float), sample_weight=TIMES)
    np.testing.assert_allclose(lda.components_.sum(), REPEATED.sum() + 0.1 * 10 * X.shape[1])
    assert (np.diff(lda.bound_history_) > -1e-3 * abs(lda.bound_history_[-1])).all()
    np.testing.assert_allclose(lda.bound(REPEATED), lda.bound_history_[-1], rtol=5e-3)


def test_a_stream_of_weighted_documents_is_one_of_copies_in_all():
    lda = SparseLDA(10, init=START, random_state=0)
    weighted = clone(lda).set_params(total_samples=1000)
    copies = clone(lda).set_params(total_samples=3000)
    for _ in range(2):
        weighted.partial_fit(X.astype(float), sample_weight=np.full(60, 3.0))
        copies.partial_fit(X[np.repeat(np.arange(60), 3)].astype(float))
        np.testing.assert_allclose(weighted.components_, copies.components_, rtol=1e-6)
    before = weighted.components_.copy()
    weighted.partial_fit(X, sample_weight=np.arange(60) == 0)
    assert not np.array_equal(before, weighted.components_)


def test_sampled_documents_count_as_often_as_they_weigh():
    """What is drawn does not depend on weights, so that statistics are linear in them."""
    words = GrowingMultinomial("map", np.full((1, 1), 0.1), X.shape[1])
    model = SampledAdmixture(words, SampledDocuments(np.full(10, 0.05), learn=True), 10)
    resp = np.random.default_rng(2).dirichlet(np.ones(10), 60)
    state = begin(model, Corpus(X, np.float64), resp)

    def found(weight):
        chunk = Corpus(X, np.float64, weight=weight).chunk([(0, 60)])
        stats = model.local_step(chunk, model.globals_of(state), (0, 1))[0]
        sums = [stats["length_gain"], stats["n_tokens"]]
        return np.concatenate([stats["count"], stats["prior_gain"], sums])

    weight = np.random.default_rng(1).random(60)
    assert (found(weight) > 0).all()
    np.testing.assert_allclose(found(weight) + found(3 - weight), 3 * found(None))


@pytest.mark.parametrize("start", [bregman_kmeans_plusplus, anchor_words])
def test_starts_count_copies(start):
    found = start(X, 3, weight=TIMES.astype(float), random_state=0)
    copies = start(REPEATED, 3, random_state=0)
    if start is anchor_words:
        np.testing.assert_allclose(found, copies, rtol=1e-5)
    else:
        assert found[1].sum() == copies[1].sum() == REPEATED.sum()
        labels = found[0]
        ones = [(X.multiply(TIMES[:, None]).tocsr()[labels == k]).sum(axis=0) for k in range(3)]
        np.testing.assert_allclose(found[1].T, np.array(ones).reshape(3, -1))


@pytest.mark.parametrize("estimator", [AliasLDA(4, max_iter=3), GibbsCTM(4, max_iter=3)])
def test_whole_weights_are_copies_to_samplers(estimator):
    estimator.set_params(random_state=0)
    weighted = clone(estimator).fit(X, sample_weight=TIMES)
    copies = clone(estimator).fit(REPEATED)
    np.testing.assert_array_equal(weighted.components_, copies.components_)
    weighted.partial_fit(X[:10], sample_weight=np.arange(10))
    copies.partial_fit(X[np.repeat(np.arange(10), np.arange(10))])
    np.testing.assert_array_equal(weighted.components_, copies.components_)


def test_samplers_refuse_other_weights():
    weight = np.ones(60)
    weight[7] = 0.5
    with pytest.raises(ValueError, match="sample_weight of row 7 is 0.5, but AliasLDA"):
        AliasLDA(4).fit(X, sample_weight=weight)


@pytest.mark.parametrize("estimator", [SparseLDA(4), AliasLDA(4), GibbsCTM(4)])
def test_wrong_weights_are_named_before_work_is_lost(estimator):
    with pytest.raises(ValueError, match="at least one non-zero number"):
        estimator.fit(X, sample_weight=np.zeros(60))
    with pytest.raises(ValueError, match="Negative values in data passed to `sample_weight`"):
        estimator.fit(X, sample_weight=-np.ones(60))
    with pytest.raises(ValueError, match="sample_weight.shape"):
        estimator.fit(X, sample_weight=np.ones(3))
    with pytest.raises(ValueError, match="NaN"):
        estimator.fit(X, sample_weight=np.full(60, np.nan))
    assert not hasattr(estimator, "components_")


def test_a_fit_with_other_weights_is_of_other_data():
    lda = SparseLDA(10, warm_start=True, max_iter=2, tol=0, random_state=0)
    whole = clone(lda).set_params(max_iter=4).fit(X, sample_weight=TIMES)
    halves = lda.fit(X, sample_weight=TIMES).fit(X, sample_weight=TIMES)
    np.testing.assert_array_equal(whole.components_, halves.components_)
    halves.fit(X)  # starts new batches from the topics that are there
    assert halves.n_iter_ == 6


def test_models_of_processes_refuse_weighted_documents():
    hdp = SparseHDP(4, random_state=0)
    model = hdp._model(X.shape[1], np.float64, 60)
    assert isinstance(model, Admixture) and isinstance(model.observation, Multinomial)
    corpus = Corpus(X, np.float64, weight=np.ones(60))
    state = begin(model, corpus, np.full((60, 4), 0.25))
    with pytest.raises(ValueError, match="documents have weights under Dirichlet priors"):
        model.local_step(corpus.chunk([(0, 60)]), model.globals_of(state), state.key)
