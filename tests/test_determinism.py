"""Same bytes from every backend and any number of workers, where sparse paths are taken."""

import multiprocessing
import os
import subprocess
import sys

import joblib
import numpy as np
import pytest
from sklearn.base import clone

from sklearn_sparsepost import AliasLDA, GibbsCTM, SparseHDP, SparseLDA, SparseMixture
from sklearn_sparsepost._run import chunks, threads
from sklearn_sparsepost._starts import topics
from sklearn_sparsepost._starts.topics import _random_topics
from sklearn_sparsepost.datasets import make_lda_corpus

# Many more topics than words keep, so that kernels skip what is zero.
K, LEVEL = 60, 2
COUNTS = make_lda_corpus(300, 200, 10, random_state=0)[0]
POINTS = np.random.default_rng(0).standard_normal((600, 17)) * np.linspace(4, 0.5, 17)
POINTS[::3] += 3
BITS = (POINTS > 0).astype(float)

METHODS = ["batch", "online", "memoized"]
PRIORS = {
    "scalar": {},
    "a word": {"topic_word_prior": np.linspace(0.05, 0.2, 200)},
    "matrix": {"topic_word_prior": np.where(np.arange(K)[:, None] % 5 == 0, 0.05, np.ones(200))},
    "learned": {"doc_topic_prior": "auto"},
    "a topic": {"doc_topic_prior": np.linspace(0.01, 0.05, K)},
}
COMMON = {"sparsity_level": LEVEL, "n_batches": 2, "max_iter": 3, "tol": 0, "random_state": 0}

LDAS = {
    f"LDA {method}, {name} prior": SparseLDA(
        K, learning_method=method, batch_size=100, **COMMON, **prior
    )
    for method in METHODS
    for name, prior in PRIORS.items()
    if method == "memoized" or name in ("scalar", "matrix", "learned")
}
LDAS["LDA bayes"] = SparseLDA(K, estimation="bayes", **COMMON)
for name in ("scalar", "matrix", "learned"):
    LDAS[f"LDA gibbs, {name} prior"] = SparseLDA(
        K, local_step="gibbs", **COMMON, **PRIORS[name], average_after=1
    )
LDAS["LDA gibbs, online"] = SparseLDA(
    K, local_step="gibbs", learning_method="online", batch_size=100, **COMMON
)
LDAS["LDA gibbs, bayes, draws"] = SparseLDA(
    K, local_step="gibbs", estimation="bayes", rao_blackwell=False, **COMMON
)
LDAS["HDP"] = SparseHDP(K, **{**COMMON, "max_iter": 6})
LDAS["HDP births"] = SparseHDP(2, moves=["birth", "merge"], **{**COMMON, "max_iter": 4})
LDAS["HDP online"] = SparseHDP(K, learning_method="online", batch_size=100, **COMMON)
LDAS["LDA warm"] = SparseLDA(K, doc_start="warm", **COMMON)
LDAS["LDA dense"] = SparseLDA(K, **{**COMMON, "sparsity_level": None})
LDAS["LDA anchor"] = SparseLDA(K, init="anchor", **COMMON)
MIXTURES = {
    f"mixture {method}, {kind}": SparseMixture(
        20, covariance_type=kind, learning_method=method, batch_size=200, **COMMON
    )
    for method in METHODS
    for kind in ("full", "diag", "spherical")
    if method == "memoized" or kind == "full"
}
for observation in ("bernoulli", "multinomial"):
    MIXTURES[f"mixture {observation}"] = SparseMixture(20, observation=observation, **COMMON)
MIXTURES["mixture moves"] = SparseMixture(
    20, weight_concentration_prior_type="dirichlet_process", **COMMON
)
MIXTURES["mixture births"] = SparseMixture(
    2,
    weight_concentration_prior_type="dirichlet_process",
    moves=["birth", "delete"],
    **COMMON,
)
MIXTURES["mixture neighbours"] = SparseMixture(20, n_neighbors=3, **COMMON)
GROUPS = np.repeat(np.arange(60), 10)
MIXTURES["HDP of rows"] = SparseHDP(12, observation="gaussian", **COMMON)
MIXTURES["HDP of rows, online"] = SparseHDP(
    12, observation="gaussian", learning_method="online", batch_size=20, **COMMON
)
MIXTURES["mixture ml"] = SparseMixture(20, estimation="ml", **COMMON)
SAMPLERS = {
    f"{sampler}, {name} prior": AliasLDA(
        K, sampler=sampler, max_iter=4, burn_in=1, sample_every=1, random_state=0, **prior
    )
    for sampler in ("auto", "alias", "sparse", "cycle", "dense")
    for name, prior in PRIORS.items()
    if sampler == "auto" or name in ("scalar", "matrix")
}
SAMPLERS["Pitman-Yor topics"] = AliasLDA(
    K, topic_word_prior_type="pitman_yor", max_iter=4, learn_every=2, burn_in=1, sample_every=1
).set_params(random_state=0)
SAMPLERS["process"] = AliasLDA(
    K, doc_topic_prior_type="dirichlet_process", max_iter=4, learn_every=2, burn_in=1
).set_params(sample_every=1, random_state=0)
for kind, sampler in (("full", "auto"), ("factor", "alias")):
    SAMPLERS[f"CTM {kind}"] = GibbsCTM(
        K, covariance_type=kind, sampler=sampler, max_iter=3, burn_in=1, sample_every=1
    ).set_params(random_state=0)
ALL = {**LDAS, **MIXTURES, **SAMPLERS}


@pytest.fixture(autouse=True)
def many_chunks(monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK_SIZE", 1500)
    monkeypatch.setattr(chunks, "DENSE_CHUNK_SIZE", 17 * 60)
    monkeypatch.setattr(chunks, "DENSE_CHUNK_ROWS", 60)
    monkeypatch.setattr(threads, "SMALL_WORK", 0)  # threads wherever there may be some
    monkeypatch.setattr("sklearn_sparsepost._sampling.tokens.SERIAL_TOKENS", 0)


def data_of(estimator):
    if getattr(estimator, "observation", "multinomial") == "multinomial":
        return COUNTS
    return BITS if estimator.observation == "bernoulli" else POINTS


def bytes_of(name, n_jobs=None):
    """All that a fit and what follows it give, in bytes."""
    estimator = clone(ALL[name]).set_params(n_jobs=n_jobs)
    X = data_of(estimator)
    rows = isinstance(estimator, SparseHDP) and X is POINTS
    given, first = ({"groups": GROUPS}, {"groups": GROUPS[:50]}) if rows else ({}, {})
    estimator.fit(X, **given)
    infer = "predict_proba" if name in MIXTURES else "transform"
    found = {name: value for name, value in vars(estimator).items() if name[-1:] == "_"}
    found["inferred"] = getattr(estimator, infer)(X, **given)
    found["score"] = estimator.score(X, **given)
    if name not in SAMPLERS:
        found["streamed"] = getattr(estimator.partial_fit(X[:50], **first), infer)(X, **given)
    return {name: np.asarray(value).tobytes() for name, value in found.items()}


@pytest.fixture(scope="module")
def known():
    return {}


@pytest.fixture
def want(known):
    """The bytes from one thread of this process, found once for every test."""

    def of(name):
        if name not in known:
            known[name] = bytes_of(name, 1)
        return known[name]

    return of


@pytest.mark.parametrize("name", ALL)
def test_threads(name, want):
    assert bytes_of(name, None) == want(name)
    assert bytes_of(name, 3) == want(name)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert bytes_of(name) == want(name)


@pytest.mark.parametrize("name", [*LDAS, *MIXTURES, "auto, scalar prior", "CTM factor"])
def test_processes(name, want):
    with joblib.parallel_config(backend="loky"):
        assert bytes_of(name, 2) == want(name)


@pytest.fixture(scope="module")
def cluster(local_cluster):
    with local_cluster(default=True) as client:
        yield client


@pytest.mark.parametrize("name", [*LDAS, *MIXTURES, "auto, scalar prior"])
def test_dask(name, want, cluster):
    with joblib.parallel_config(backend="dask"):
        assert bytes_of(name) == want(name)


@pytest.fixture(scope="module")
def ray_backend():
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    from ray.util.joblib import register_ray

    register_ray()
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield "ray"
    ray.shutdown()


@pytest.fixture(scope="module")
def spark_backend():
    pytest.importorskip("joblibspark", reason="joblibspark is not installed")
    sql = pytest.importorskip("pyspark.sql", reason="Spark is not installed")
    from joblibspark import register_spark

    register_spark()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = session.getOrCreate()
    yield "spark"
    session.stop()


@pytest.mark.filterwarnings("ignore")  # of the clusters' own libraries
@pytest.mark.parametrize("cluster_backend", ["ray_backend", "spark_backend"])
@pytest.mark.parametrize("name", ["LDA batch, scalar prior", "mixture batch, full"])
def test_other_clusters(cluster_backend, name, want, request):
    with joblib.parallel_config(backend=request.getfixturevalue(cluster_backend)):
        assert bytes_of(name, 2) == want(name)


def test_tied_rows_of_a_seeding_prior_know_no_threads(monkeypatch):
    # Rows that tie are told apart by the last bits of a product.
    prior = np.where(np.arange(200) < 100, 1.0, 0.1) * np.ones((K, 1))
    held = []

    def watched():
        held.append(1)
        return threads.single_blas()

    monkeypatch.setattr(topics, "single_blas", watched)
    rng, same = np.random.default_rng(0), np.random.default_rng(0)
    ordered = topics.first_counts(COUNTS, K, "random", prior, np.float64, rng)
    counts = np.maximum(_random_topics(200, K, same) - prior.T, 0)
    assert held
    np.testing.assert_array_equal(np.sort(ordered.sum(axis=0)), np.sort(counts.sum(axis=0)))


# ---------------------------------------------------------------------- how many cores


@pytest.mark.parametrize(
    "n_jobs, n_chunks, threaded, want",
    [
        (None, 9, True, (1, 4)),  # threads inside a chunk
        (None, 9, False, (4, 1)),  # threads over chunks
        (1, 9, True, (1, 1)),
        (1, 9, False, (1, 1)),
        (3, 9, True, (3, 1)),
        (3, 9, False, (3, 1)),
        (4, 2, True, (2, 2)),
        (4, 0, True, (1, 4)),
    ],
)
def test_one_rule_for_cores(monkeypatch, n_jobs, n_chunks, threaded, want):
    monkeypatch.setattr(threads, "most_threads", lambda: 4)
    assert threads.share_cores(n_jobs, n_chunks, threaded) == want
    assert threads.local_threads(n_jobs) == {None: 4}.get(n_jobs, n_jobs)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert threads.local_threads(None) == 2
        assert threads.share_cores(None, 9, threaded) == (2, 1)


SCRIPT = """
import multiprocessing, sys
sys.path.insert(0, {folder!r})
import numpy as np
import test_determinism as t
from sklearn_sparsepost._run import threads

def use(name):
    estimator = t.clone(t.ALL[name])
    X = t.data_of(estimator)
    estimator.fit(X)
    infer = estimator.predict_proba if name in t.MIXTURES else estimator.transform
    return infer(X).tobytes()

names = ["LDA batch, scalar prior", "mixture memoized, full", "auto, scalar prior", "kmeans"]
t.ALL["kmeans"] = t.MIXTURES["kmeans"] = t.SparseMixture(5, init_params="kmeans", random_state=0)
threads.SMALL_WORK = 0
here = [use(name) for name in names]
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map(use, names) == here
print("done")
"""


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="processes do not fork here"
)
def test_forked_processes_do_not_hang():
    """OpenMP's threads do not survive a fork, and who waits for them would wait forever."""
    script = SCRIPT.format(folder=os.path.dirname(__file__))
    env = {**os.environ, "OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"}
    out = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=120
    )
    assert out.stdout.split() == ["done"], out.stderr
