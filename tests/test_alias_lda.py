"""AliasLDA: what users see of the sampler."""

import pickle

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment, minimize_scalar
from scipy.special import gammaln
from sklearn.exceptions import NotFittedError

from sklearn_sparsepost import AliasLDA, SparseLDA
from sklearn_sparsepost._sampling.lda import WordPrior, learn_alpha, learn_beta
from sklearn_sparsepost.callbacks import BoundMonitor, Checkpoint, EarlyStopping, HeldoutMonitor
from sklearn_sparsepost.datasets import make_bars, make_lda_corpus

SAMPLERS = ["auto", "alias", "sparse", "cycle", "dense"]
SERIAL_TOKENS = "sklearn_sparsepost._sampling.tokens.SERIAL_TOKENS"
STATE = ["components_", "log_likelihood_history_", "doc_topic_prior_", "n_iter_"]


def same_bytes(one, other):
    return all(
        np.asarray(getattr(one, name)).tobytes() == np.asarray(getattr(other, name)).tobytes()
        for name in STATE
    )


@pytest.fixture
def blocks(monkeypatch):
    """Small corpora are cut into blocks, too, and blocks are worth a thread."""
    monkeypatch.setattr(SERIAL_TOKENS, 0)
    monkeypatch.setattr("sklearn_sparsepost._run.threads.SMALL_WORK", 0)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_finds_the_bars(sampler):
    X, topics, _ = make_bars(1000, doc_topic_prior=0.1, random_state=0)
    options = {"doc_topic_prior": 0.1, "init": "random", "max_iter": 200}
    lda = AliasLDA(len(topics), sampler=sampler, random_state=0, **options).fit(X)
    found = lda.topic_word_distr_
    overlap = np.minimum(topics[:, None], found[None]).sum(axis=2)
    rows, columns = linear_sum_assignment(overlap, maximize=True)
    assert overlap[rows, columns].mean() > 0.8


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_blocks_cost_no_quality(monkeypatch, sampler):
    """All that blocks delay are the topics' totals: held-out quality is that of one block.

    Seeds differ by up to 0.007, so that it takes some of them.
    """
    X, _, _ = make_lda_corpus(1200, 300, 10, doc_length=60, random_state=1)
    scores = {"serial": [], "blocks": []}
    for name, limit in (("serial", 1 << 40), ("blocks", 0)):
        monkeypatch.setattr(SERIAL_TOKENS, limit)
        for seed in range(3):
            lda = AliasLDA(10, sampler=sampler, max_iter=50, warm_start=True, random_state=seed)
            lda.fit(X[:1000])
            assert (len(lda._fit_state.tokens.groups) > 2) == (name == "blocks")
            scores[name].append(lda.score(X[1000:]))
    assert abs(np.mean(scores["serial"]) - np.mean(scores["blocks"])) < 0.01


def test_is_as_good_as_variational_inference():
    X, topics, _ = make_lda_corpus(1500, 400, 10, doc_length=80, random_state=2)
    sampled = AliasLDA(10, random_state=0).fit(X[:1200]).score(X[1200:])
    variational = SparseLDA(10, random_state=0).fit(X[:1200]).score(X[1200:])
    assert sampled > variational - 0.01


@pytest.mark.parametrize("words", ["dirichlet", "pitman_yor"])
def test_first_topics_are_drawn_within_their_documents(words):
    """A quarter of the prior is of the first topic, which the other word has for sure."""
    X = sp.csr_matrix(np.tile([20, 20, 0], (200, 1)))
    topics = np.array([[0.5, 0.5, 0], [0.5, 0, 0.5]])
    options = {"init": topics, "doc_topic_prior": [0.1, 0.3], "topic_word_prior_type": words}
    chain = AliasLDA(2, max_iter=0, random_state=0, **options).fit(X)._fit_state
    assert (chain.z[chain.tokens.word == 1] == 0).mean() > 0.99
    chances = np.array([1.0])  # of how many tokens of the first word the second topic has
    for drawn in range(20):
        n = np.arange(drawn + 1)
        second, first = 0.75 * (1 + n), 0.25 * (1 + 20 + drawn - n)
        share = second / (first + second)
        chances = np.append(chances * (1 - share), 0) + np.append(0, chances * share)
    want = 1 - chances @ np.arange(21) / 20
    assert 0.5 < want < 0.9
    assert (chain.z[chain.tokens.word == 0] == 0).mean() == pytest.approx(want, abs=0.05)


@pytest.mark.parametrize("init", ["k-means++", "random", "anchor"])
def test_same_bytes_for_any_number_of_threads(corpus, blocks, init):
    models = [
        AliasLDA(8, init=init, n_jobs=n, max_iter=6, evaluate_every=2, random_state=3).fit(corpus)
        for n in (1, 2, 3)
    ]
    assert same_bytes(models[0], models[1])
    assert same_bytes(models[0], models[2])
    assert not same_bytes(models[0], AliasLDA(8, init=init, max_iter=6, random_state=4).fit(corpus))


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("priors", [{}, {"doc_topic_prior": "auto", "topic_word_prior": "auto"}])
def test_five_and_five_sweeps_are_ten(corpus, sampler, priors):
    common = {"sampler": sampler, "burn_in": 4, "sample_every": 2, "learn_every": 2, **priors}
    whole = AliasLDA(8, max_iter=10, random_state=0, **common).fit(corpus)
    parts = AliasLDA(8, max_iter=5, random_state=0, warm_start=True, **common).fit(corpus)
    parts = pickle.loads(pickle.dumps(parts))
    assert same_bytes(parts.fit(corpus), whole)
    assert parts.n_samples_averaged_ == 3


def test_warm_start_on_other_documents(corpus):
    lda = AliasLDA(8, max_iter=5, warm_start=True, random_state=0).fit(corpus[:200])
    lda.fit(corpus[200:])
    assert lda.n_iter_ == 10
    assert lda.components_.sum() == pytest.approx(corpus[200:].sum() + 0.1 * lda.components_.size)
    with pytest.raises(ValueError, match="n_components=7.*8 fitted topics"):
        lda.set_params(n_components=7).fit(corpus)


def test_an_interrupted_fit_is_usable_and_can_be_finished(corpus, monkeypatch):
    lda = AliasLDA(8, max_iter=6, burn_in=4, sample_every=1, warm_start=True, random_state=0)
    (sweep, learn), sweeps = lda._steps(), []

    def interrupted(chain):
        if len(sweeps) == 3:
            raise KeyboardInterrupt
        sweeps.append(1)
        return sweep(chain)

    monkeypatch.setattr(AliasLDA, "_steps", lambda self: (interrupted, learn))
    with pytest.raises(KeyboardInterrupt):
        lda.fit(corpus)
    monkeypatch.undo()
    assert lda.n_iter_ == 3
    assert np.isfinite(lda.transform(corpus)).all()
    lda.set_params(max_iter=3).fit(corpus)
    whole = AliasLDA(8, max_iter=6, burn_in=4, sample_every=1, random_state=0).fit(corpus)
    assert same_bytes(lda, whole)


def test_partial_fit_appends_documents(corpus):
    lda = AliasLDA(8, random_state=0)
    for first in (0, 100, 200):
        lda.partial_fit(corpus[first : first + 100])
        counts = lda.components_ - lda.topic_word_prior_
        want = np.asarray(corpus[: first + 100].sum(axis=0)).ravel()
        np.testing.assert_allclose(counts.sum(axis=0), want, atol=1e-3)
    assert lda.n_iter_ == 3
    fitted = AliasLDA(8, max_iter=4, random_state=0).fit(corpus[:150])
    fitted.partial_fit(corpus[150:])
    assert fitted.n_iter_ == 5
    np.testing.assert_allclose((fitted.components_ - 0.1).sum(), corpus.sum(), rtol=1e-5)
    del fitted._fit_state  # as it is after EarlyStopping has restored an earlier sweep
    with pytest.raises(ValueError, match="EarlyStopping restored"):
        fitted.partial_fit(corpus[150:])


def test_partial_fit_goes_on_with_changed_parameters(corpus):
    lda = AliasLDA(8, random_state=0).partial_fit(corpus[:150])
    lda.set_params(topic_word_prior=5.0, sampler="sparse").partial_fit(corpus[150:])
    np.testing.assert_allclose((lda.components_ - 5).sum(), corpus.sum(), rtol=1e-5)
    with pytest.raises(ValueError, match="8 fitted topics to go on with"):
        lda.set_params(n_components=7).partial_fit(corpus)
    lda.set_params(n_components=8, topic_word_prior=np.full(corpus.shape[1], 0.1))
    lda.partial_fit(corpus)
    with pytest.raises(ValueError, match="learns one value"):
        lda.set_params(topic_word_prior="auto").partial_fit(corpus)


def test_warm_start_tells_other_data_of_the_same_size(corpus):
    other = sp.csr_matrix(corpus)[:, np.random.default_rng(0).permutation(corpus.shape[1])]
    lda = AliasLDA(6, max_iter=3, warm_start=True, random_state=0).fit(corpus).fit(other)
    counts = (lda.components_ - lda.topic_word_prior_).sum(axis=0)
    np.testing.assert_allclose(counts, np.asarray(other.sum(axis=0)).ravel(), atol=1e-2)


def test_split_entries_are_one_count(corpus):
    whole = sp.csr_matrix(corpus, dtype=float)
    parts = (np.repeat(whole.data / 2, 2), np.repeat(whole.indices, 2), 2 * whole.indptr)
    split = sp.csr_matrix(parts, shape=whole.shape)
    one = AliasLDA(4, max_iter=3, random_state=0).fit(whole)
    two = AliasLDA(4, max_iter=3, random_state=0).fit(split)
    np.testing.assert_array_equal(one.components_, two.components_)


@pytest.mark.parametrize("count", [2.0**31, 1e15])
def test_more_tokens_than_are_counted(count):
    with pytest.raises(ValueError, match="tokens of feature 0"):
        AliasLDA(2).fit([[count, 1.0], [3.0, 2.0]])


@pytest.mark.filterwarnings("ignore:n_components")
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_priors_at_the_edges(corpus, sampler):
    # 0.1 a word of ten: an empty topic's total of 1, less the token that is drawn, is 0.
    options = {"init": "random", "sampler": sampler, "max_iter": 3, "random_state": 0}
    assert np.isfinite(AliasLDA(40, **options).fit(np.eye(10, dtype=int)).components_).all()
    tiny = AliasLDA(5, topic_word_prior=1e-30, **options).fit(corpus)
    assert (tiny.components_.sum(axis=1) > 0).all()


def test_components_average_the_samples(corpus):
    lda = AliasLDA(5, max_iter=6, burn_in=2, sample_every=2, random_state=0).fit(corpus)
    assert lda.n_samples_averaged_ == 2
    single = AliasLDA(5, burn_in=100, random_state=0)
    parts = [single.set_params(max_iter=n).fit(corpus).components_ for n in (4, 6)]
    np.testing.assert_allclose(lda.components_, np.mean(parts, axis=0), rtol=1e-5)
    assert single.n_samples_averaged_ == 0


def test_log_likelihood_is_the_joint(corpus):
    lda = AliasLDA(5, max_iter=4, evaluate_every=3, warm_start=True, random_state=0).fit(corpus)
    history = lda.log_likelihood_history_
    assert np.isnan(history[[0, 1, 3]]).all()
    state = lda._fit_state
    rows = np.repeat(np.arange(corpus.shape[0]), np.diff(state.tokens.doc_ptr))
    n_doc, n_word = np.zeros((corpus.shape[0], 5)), np.zeros((5, corpus.shape[1]))
    np.add.at(n_doc, (rows, state.z), 1)
    np.add.at(n_word, (state.z, state.tokens.word), 1)
    value = 0
    for counts, prior in ((n_doc, 0.1), (n_word, 0.1)):
        value += (gammaln(counts + prior) - gammaln(prior)).sum()
        total = prior * counts.shape[1]
        value += (gammaln(total) - gammaln(counts.sum(axis=1) + total)).sum()
    assert state.log_likelihood() == pytest.approx(value)
    lda.set_params(max_iter=2).fit(corpus)
    assert lda.log_likelihood_history_[5] == pytest.approx(
        lda._fit_state.log_likelihood() / state.amount
    )


# ---------------------------------------------------------------------- priors


def test_learned_priors_climb_the_likelihood(corpus):
    lda = AliasLDA(6, doc_topic_prior="auto", topic_word_prior="auto", max_iter=20, warm_start=True)
    lda.set_params(random_state=0).fit(corpus)
    assert np.ptp(lda.doc_topic_prior_) > 0
    state = lda._fit_state
    last = state.log_likelihood()
    for _ in range(50):
        learn_beta(state)
        value = state.log_likelihood()
        assert value >= last - 1e-9 * abs(last)
        last = value
        learn_alpha(state)
        value = state.log_likelihood()
        assert value >= last - 1e-9 * abs(last)
        last = value

    def loss(beta):
        state.prior = WordPrior(np.array(beta), corpus.shape[1], 6)
        return -state.log_likelihood()

    found = state.prior.base[0]
    best = minimize_scalar(loss, bounds=(1e-3, 2), method="bounded", options={"xatol": 1e-6}).x
    assert found == pytest.approx(best, rel=1e-3)


def test_learned_alpha_tells_common_topics_from_rare_ones():
    truth = np.array([1.0, 0.3, 0.1, 0.1, 0.05])
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(200, 0.05), size=5)
    weights = rng.dirichlet(truth, size=2000)
    X = sp.csr_matrix(np.array([rng.multinomial(60, w @ topics) for w in weights]))
    lda = AliasLDA(5, doc_topic_prior="auto", max_iter=150, init=topics, random_state=0).fit(X)
    np.testing.assert_allclose(lda.doc_topic_prior_, truth, rtol=0.25)


def test_seeds_draw_words_to_topics():
    X, topics, _ = make_lda_corpus(500, 60, 4, doc_length=50, random_state=3)
    prior = np.full((4, 60), 0.05)
    order = [2, 0, 3, 1]
    for row, topic in enumerate(order):
        prior[row, np.argsort(-topics[topic])[:3]] = 20.0
    lda = AliasLDA(4, topic_word_prior=prior, max_iter=60, random_state=0).fit(X)
    overlap = np.minimum(topics[order][:, None], lda.topic_word_distr_[None]).sum(axis=2)
    np.testing.assert_array_equal(overlap.argmax(axis=1), np.arange(4))


@pytest.mark.parametrize(
    "params, message",
    [
        ({"doc_topic_prior": [0.1, 0.2]}, r"doc_topic_prior has shape \(2,\)"),
        ({"topic_word_prior": np.full((2, 2), 0.1)}, r"topic_word_prior has shape \(2, 2\)"),
        ({"topic_word_prior": np.zeros(120)}, "topic_word_prior must be positive"),
        ({"init": np.ones((3, 3))}, r"init has shape \(3, 3\)"),
        ({"sampler": "fast"}, "'sampler' parameter"),
        ({"n_mh_steps": 0}, "'n_mh_steps' parameter"),
        ({"topic_word_prior": "learn"}, "'topic_word_prior' parameter"),
    ],
)
def test_bad_parameters(corpus, params, message):
    with pytest.raises(ValueError, match=message):
        AliasLDA(6, **params).fit(corpus)


def test_bad_input(corpus):
    with pytest.raises(ValueError, match="row 7 has one"):
        bad = corpus.astype(float).tolil()
        bad[7, 3] = -1
        AliasLDA(6).fit(bad.tocsr())
    with pytest.raises(ValueError, match="NaN"):
        AliasLDA(6).fit(np.array([[1, np.nan]]))
    with pytest.raises(ValueError, match="no counts"):
        AliasLDA(2).fit(np.zeros((3, 4)))
    fractions = pytest.warns(UserWarning, match="fractional counts")
    with fractions, pytest.raises(ValueError, match="no tokens"):
        AliasLDA(2, random_state=0).fit(np.full((3, 4), 1e-9))
    with pytest.raises(NotFittedError):
        AliasLDA(2).transform(corpus)
    with pytest.raises(ValueError, match="5 features"):
        AliasLDA(2, max_iter=1).fit(corpus).transform(np.ones((2, 5)))


def test_documents_and_words_without_tokens(corpus):
    X = sp.csr_matrix(corpus, copy=True)
    X = sp.vstack([X, sp.csr_matrix((2, X.shape[1]), dtype=X.dtype)], format="csr")
    X = sp.hstack([X, sp.csr_matrix((X.shape[0], 3), dtype=X.dtype)], format="csr")
    for sampler in SAMPLERS:
        lda = AliasLDA(6, sampler=sampler, max_iter=3, random_state=0).fit(X)
        np.testing.assert_allclose(lda.components_[:, -3:], 0.1, rtol=1e-6)
        np.testing.assert_allclose(lda.transform(X)[-1], 1 / 6, rtol=1e-5)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_one_topic_one_document_one_word(sampler):
    for X, K in ((np.array([[3]]), 1), (np.array([[3, 2, 1]]), 1), (np.array([[5], [4]]), 2)):
        with np.errstate(all="raise"):
            lda = AliasLDA(K, sampler=sampler, max_iter=4, evaluate_every=1, random_state=0)
            lda.fit(sp.csr_matrix(X))
        assert lda.components_.sum() == pytest.approx(X.sum() + 0.1 * lda.components_.size)
        assert np.isfinite(lda.log_likelihood_history_).all()


def test_verbose(corpus, capsys):
    AliasLDA(3, max_iter=2, evaluate_every=2, verbose=1, random_state=0).fit(corpus)
    first, second = capsys.readouterr().out.splitlines()
    assert first == "[AliasLDA] sweep 1"
    assert "log likelihood per token -" in second


def test_callbacks(corpus, tmp_path):
    options = {"burn_in": 2, "sample_every": 1, "evaluate_every": 1, "random_state": 0}
    monitor, bound = HeldoutMonitor(corpus[:50]), BoundMonitor()
    path = tmp_path / "lda.joblib"
    whole = AliasLDA(6, max_iter=6, **options).fit(corpus)
    lda = AliasLDA(6, max_iter=4, **options)
    lda.set_callbacks(monitor, bound, Checkpoint(path)).fit(corpus)
    assert [row["n_iter"] for row in monitor.get_logs()] == [1, 2, 3, 4]
    logged = [row["bound_per_token"] for row in bound.get_logs()]
    np.testing.assert_allclose(logged, lda.log_likelihood_history_, rtol=1e-12)
    seconds = [row["seconds"] for row in bound.get_logs()]
    assert seconds == sorted(seconds) and seconds[0] > 0
    resumed = joblib.load(path).set_params(warm_start=True, max_iter=2).fit(corpus)
    assert same_bytes(resumed, whole)
    stopped = AliasLDA(6, max_iter=50, **options)
    stopped.set_callbacks(EarlyStopping(corpus[:50], patience=2, min_delta=1.0)).fit(corpus)
    assert stopped.n_iter_ < 50


def test_going_on_from_a_mapped_file(corpus, tmp_path):
    options = {"burn_in": 2, "sample_every": 1, "warm_start": True, "random_state": 0}
    whole = AliasLDA(6, max_iter=6, **options).fit(corpus)
    path = tmp_path / "lda.joblib"
    joblib.dump(AliasLDA(6, max_iter=4, **options).fit(corpus), path)
    mapped = joblib.load(path, mmap_mode="r").set_params(max_iter=2).fit(corpus)
    assert same_bytes(mapped, whole)
