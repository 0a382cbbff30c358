"""The sampler of correlated topics against enumeration with quadrature, and Geweke's test."""

import itertools
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from geweke import have_one_mean, replace_tokens, replace_words
from reference import agrees
from scipy.special import gammaln, softmax
from scipy.stats import wishart

from sklearn_sparsepost._kernels import gibbs_lda
from sklearn_sparsepost._kernels import logits as kernels
from sklearn_sparsepost._models.logistic_normal import FactorCovariance, FullCovariance, LogitPrior
from sklearn_sparsepost._run import threads
from sklearn_sparsepost._run.threads import single_blas
from sklearn_sparsepost._sampling import ctm, lda
from sklearn_sparsepost._sampling.tokens import Tokens

SAMPLERS = ["alias", "sparse", "dense"]
BETA = 0.4


@pytest.fixture(autouse=True)
def one_thread():
    """Of BLAS, as in a sweep, held once for all of them."""
    with single_blas():
        yield


def start(X, K, sampler="dense", structure=None, prior=None, seed=0):
    tokens = Tokens(X, seed)
    z = np.random.default_rng(seed).integers(K, size=tokens.n_tokens).astype(np.uint16)
    return ctm.CTMChain(
        tokens,
        z,
        seed,
        prior=lda.WordPrior(BETA, X.shape[1], K),
        sampler=sampler,
        structure=FullCovariance() if structure is None else structure,
        normal_prior=LogitPrior(np.zeros(K), 1.0, np.ones(K), 2.0) if prior is None else prior,
        folder=None,
    )


def recount(state):
    table = np.zeros((len(state.tokens.size), state.n_components), dtype=int)
    np.add.at(table, (state.tokens.word, state.z), 1)
    return table


@pytest.mark.parametrize("n_components", [3, 20, 70])
@pytest.mark.parametrize("sampler", [*SAMPLERS, "auto"])
def test_counts_stay_those_of_the_tokens(corpus, monkeypatch, sampler, n_components):
    monkeypatch.setattr("sklearn_sparsepost._sampling.tokens.SERIAL_TOKENS", 0)
    monkeypatch.setattr(ctm, "FREQUENT", 100)
    state = start(sp.csr_matrix(corpus), n_components, sampler)
    before = state.z.copy()
    for _ in range(3):
        state = ctm.sweep(state, sampler=0, n_steps=1)
        state.n_passes += 1
        row_ptr, topics, counts = state.counts.to_lists()
        want = recount(state)
        found = sp.csr_array((counts, topics, row_ptr), shape=want.shape).toarray()
        np.testing.assert_array_equal(found, want)
        np.testing.assert_array_equal(state.n_topic, want.sum(axis=0))
    assert (state.z != before).mean() > 0.1


def words_log_joint(words, z, K, V):
    """log p(words | topics), the topics integrated out."""
    counts = np.zeros((K, V))
    np.add.at(counts, (z, words), 1)
    value = (gammaln(counts + BETA) - gammaln(BETA)).sum()
    return value + (gammaln(V * BETA) - gammaln(counts.sum(axis=1) + V * BETA)).sum()


def weights_log_evidence(counts, normal, order=40):
    """log of the mean of prod theta^counts over normal logits, by Gauss-Hermite quadrature."""
    point, weight = np.polynomial.hermite_e.hermegauss(order)
    K = len(counts)
    grid = np.array(list(itertools.product(point, repeat=K)))
    mass = np.prod(list(itertools.product(weight / weight.sum(), repeat=K)), axis=1)
    logits = normal.mean + grid @ np.linalg.cholesky(normal.covariance).T
    return np.log(mass @ np.exp((counts * np.log(softmax(logits, axis=1))).sum(axis=1)))


@cache
def enumerated(K, seed):
    """Two documents, a distribution of logits, the posterior of all topics of the tokens, and the
    mean weights of the first document."""
    X = sp.csr_matrix(np.array([[2, 1, 0], [0, 1, 2]] if K == 2 else [[2, 1, 0], [0, 1, 1]]))
    rng = np.random.default_rng(seed)
    state = start(X, K)
    logits = rng.standard_normal((40, K)).astype(np.float32)
    found = FullCovariance().sums(logits, None, state.normal_prior.mean)
    normal = FullCovariance().draw(found, state.normal_prior, rng)
    words, n_tokens = state.tokens.word, state.tokens.n_tokens
    documents = np.repeat([0, 1], np.diff(state.tokens.doc_ptr))
    states = np.array(list(itertools.product(range(K), repeat=n_tokens)))
    evidence = {}
    joint = np.empty(len(states))
    for i, z in enumerate(states):
        joint[i] = words_log_joint(words, z, K, 3)
        for d in range(2):
            counts = tuple(np.bincount(z[documents == d], minlength=K))
            if counts not in evidence:
                evidence[counts] = weights_log_evidence(np.array(counts), normal)
            joint[i] += evidence[counts]
    posterior = np.exp(joint - joint.max())
    posterior /= posterior.sum()
    # The weights of the first document: those given its counts plus one, relative to without.
    theta = np.zeros(K)
    for probability, z in zip(posterior, states, strict=True):
        counts = np.bincount(z[documents == 0], minlength=K)
        for k in range(K):
            more = tuple(counts + (np.arange(K) == k))
            if more not in evidence:
                evidence[more] = weights_log_evidence(np.array(more), normal)
            theta[k] += probability * np.exp(evidence[more] - evidence[tuple(counts)])
    return X, normal, states, posterior, theta


@pytest.mark.parametrize("K, seed", [(2, 0), (3, 1)])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_joint_posterior_against_enumeration(sampler, K, seed):
    """Topics of all tokens, the logits integrated out by quadrature, and weights given these."""
    X, normal, states, posterior, theta = enumerated(K, seed)
    state = start(X, K, sampler)
    number = K ** np.arange(state.tokens.n_tokens)[::-1]

    class Fixed(FullCovariance):
        def draw(self, *args):
            return normal

    state.structure, state._normal = Fixed(), normal
    state.n_passes = 1000  # tables are rarely built anew by now
    seen, weights = np.zeros(len(states)), []
    for _ in range(1_200):
        for _ in range(5):
            state = ctm.sweep(state, sampler=0, n_steps=1)
            state.n_passes += 1
        seen[state.z @ number] += 1
        weights.append(softmax(state.logits[0].astype(float)))
    assert agrees(seen, posterior)
    batches = np.array(weights).reshape(40, -1, K).mean(axis=1)
    error = batches.std(axis=0) / np.sqrt(40)
    assert (np.abs(batches.mean(axis=0) - theta) < 4.5 * error).all()


def prior_draws(form, prior, K, n, n_draws, rng):
    """Means, covariances and logits of `n` documents from their priors, many times."""
    if form == "full":
        freedom = prior.strength + K - 1
        scale = np.linalg.inv(prior.strength * prior.matrix)
        covariance = np.linalg.inv(wishart(freedom, scale).rvs(n_draws, random_state=rng))
        spread = np.linalg.cholesky(covariance)
        shift = np.einsum("nij,nj->ni", spread, rng.standard_normal((n_draws, K)))
    else:
        noise = prior.strength * prior.variances / rng.chisquare(prior.strength, (n_draws, K))
        loadings = rng.standard_normal((n_draws, K)) * np.sqrt(noise)
        covariance = loadings[:, :, None] * loadings[:, None] + noise[:, :, None] * np.eye(K)
        spread = np.linalg.cholesky(covariance)
        shift = rng.standard_normal((n_draws, K)) * np.sqrt(noise)
    mean = prior.mean + shift / np.sqrt(prior.mean_strength)
    logits = np.einsum("nij,ndj->ndi", spread, rng.standard_normal((n_draws, n, K)))
    return mean, covariance, mean[:, None] + logits


@pytest.mark.parametrize(
    "form, logit_sampler",
    [("full", "auto"), ("full", "slice"), ("full", "polya-gamma"), ("factor", "auto")],
)
def test_geweke(form, logit_sampler):
    """Words under topics and all else under words, in turn: as if all were drawn from the prior."""
    rng = np.random.default_rng(0)
    K, V, length, n_documents = 3, 4, 5, 4
    documents = np.repeat(np.arange(n_documents), length)
    prior = LogitPrior(np.array([0.5, 0.0, -0.5]), 3.0, np.array([0.5, 1.0, 1.5]), 6.0)

    def choose(p):
        return (rng.random((len(p), 1)) > p.cumsum(axis=1)[:, :-1]).sum(axis=1)

    def words_under(z):
        topics = rng.dirichlet(np.full(V, BETA), size=K)
        return choose(topics[z])

    def features(words, z, logits, mean, covariance):
        cells = np.bincount(z * V + words, minlength=K * V)
        pairs = np.bincount(documents * K + z, minlength=n_documents * K)
        found = [np.bincount(z, minlength=K)[0], (cells**2).sum(), (pairs**2).sum()]
        found += [logits[0, 0], logits[:, 0] @ logits[:, 1], np.tanh(logits).std()]
        spread = np.log(np.diag(covariance))
        return [*found, *mean, *mean**2, *spread, covariance[0, 1] / np.exp(spread[:2].mean())]

    n_draws = 3_000
    drawn = []
    priors = prior_draws(form, prior, K, n_documents, n_draws, rng)
    for mean, covariance, logits in zip(*priors, strict=True):
        z = choose(softmax(logits, axis=1)[documents])
        drawn.append(features(words_under(z), z, logits, mean, covariance))
    structure = FullCovariance() if form == "full" else FactorCovariance(1)
    state = start(sp.csr_matrix(np.full((n_documents, V), 1.25)), K, "dense", structure, prior)
    state.logits = logits.astype(np.float32)
    replace_tokens(state, words_under(z), z, length)
    # The distribution to begin with is a draw, too, given the last logits drawn above.
    if form == "full":
        sums = structure.sums(state.logits, None, prior.mean)
        state._normal = structure.draw(sums, prior, rng)
    else:
        state._normal = state.normal
    chain = []
    for _ in range(5_000):
        replace_words(state, words_under(state.z))
        state = ctm.sweep(state, sampler=kernels.SAMPLERS[logit_sampler], n_steps=1)
        state.n_passes += 1
        normal, z = state.normal, state.z.astype(int)
        chain.append(features(state.tokens.word, z, state.logits, normal.mean, normal.covariance))
    chain, drawn = np.array(chain[1_000:]), np.array(drawn)
    assert have_one_mean(chain, drawn, 40)


@pytest.mark.parametrize("sampler", [*SAMPLERS, "auto"])
def test_same_bytes_for_any_number_of_threads(corpus, monkeypatch, sampler):
    monkeypatch.setattr("sklearn_sparsepost._sampling.tokens.SERIAL_TOKENS", 0)
    monkeypatch.setattr(threads, "SMALL_WORK", 0)
    monkeypatch.setattr(threads, "most_threads", lambda: 3)
    want = None
    for n_threads in (1, 2, 3):
        state = start(sp.csr_matrix(corpus), 20, sampler)
        for _ in range(3):
            with threads.settled_threads(n_threads):
                state = ctm.sweep(state, sampler=0, n_steps=1)
            state.n_passes += 1
        found = state.z.tobytes() + state.logits.tobytes() + state.normal.precision.tobytes()
        want = found if want is None else want
        assert found == want


def test_documents_are_found_at_their_topics():
    """A sweep over tokens given logits that are far apart puts tokens where these are large."""
    X = sp.csr_matrix(np.full((6, 8), 3))
    state = start(X, 3, "sparse")
    logits = np.full((6, 3), -30, dtype=np.float32)
    logits[np.arange(6), np.arange(6) % 3] = 30
    counts, tokens = state.counts, state.tokens
    counts.sweep(
        tokens.word,
        state.z,
        tokens.ptr,
        tokens.groups,
        state.n_topic,
        np.zeros(3),
        state.prior.topic_totals(),
        0,
        1,
        logits,
    )
    np.testing.assert_array_equal(state.z, np.repeat(np.arange(6) % 3, 24))
    _, topics, _ = gibbs_lda.document_topics(state.z, tokens.doc_ptr, 3)
    np.testing.assert_array_equal(topics, np.arange(6) % 3)
