"""Times of the kernels, to find regressions: ``pytest benchmarks --benchmark-only``.

``--benchmark-autosave`` keeps a run and ``--benchmark-compare`` compares with the last one kept. A
synthetic corpus, one thread, and sizes at which each takes tens of milliseconds.
"""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import psi

from sklearn_sparsepost._kernels import topic_stats, topic_words
from sklearn_sparsepost._models.documents import DirichletDocuments
from sklearn_sparsepost._run.chunks import make_chunk
from sklearn_sparsepost._starts.bregman import bregman_kmeans_plusplus
from sklearn_sparsepost.datasets import make_lda_corpus
from sklearn_sparsepost.metrics import coherence, left_to_right, match_topics

pytest.importorskip("pytest_benchmark")

N_DOCUMENTS, N_WORDS, N_TOPICS = 1000, 5000, 200


@pytest.fixture(scope="module")
def drawn():
    """Counts, and the topics that they were drawn from as expected counts, word by word."""
    X, topics, _ = make_lda_corpus(
        N_DOCUMENTS,
        N_WORDS,
        N_TOPICS,
        doc_topic_prior=0.5 / N_TOPICS,
        doc_length=100,
        random_state=0,
    )
    counts = np.ascontiguousarray(topics.T) * (X.sum() / N_TOPICS)
    return X, counts


@pytest.fixture(scope="module", params=[8, None], ids=["L=8", "dense"])
def step(request, drawn):
    """What the kernels of the local step are given."""
    X, counts = drawn
    chunk = make_chunk(X, [(0, X.shape[0])], np.float32)
    words, local, word_ptr, occurrence = topic_words.index_words(chunk.indices, N_WORDS)
    alpha = np.full(N_TOPICS, 0.5 / N_TOPICS)
    documents = DirichletDocuments(
        alpha, sparsity_level=request.param, max_iter=100, tol=0.05, restarts=5
    )
    prior = np.broadcast_to(0.1, counts.shape)
    digamma = psi(counts.sum(axis=0) + 0.1 * N_WORDS)
    level = documents.level(N_TOPICS)
    rows = topic_words.topic_rows(counts, 1.0, prior, words, digamma, level, np.float32)
    # Every row several times over, since once is too quick to time.
    rows_of = (counts, 1.0, prior, np.tile(words, 8), digamma, level, np.float32)
    given = (chunk.indptr, local, chunk.data, rows, alpha)
    index, resp, _, _ = documents.fit(*given)
    return SimpleNamespace(
        chunk=chunk,
        word_ptr=word_ptr,
        occurrence=occurrence,
        documents=documents,
        given=given,
        rows_of=rows_of,
        rows=rows,
        row=np.arange(len(words), dtype=np.int32),
        index=index,
        resp=resp,
    )


def test_index_words(benchmark, drawn):
    indices = np.tile(drawn[0].indices, 20)
    benchmark(topic_words.index_words, indices, N_WORDS)


def test_topic_rows(benchmark, step):
    benchmark(topic_words.topic_rows, *step.rows_of)


def test_fit_documents(benchmark, step):
    benchmark(step.documents.fit, *step.given)


def test_sum_by_word(benchmark, step):
    if not step.index.shape[1]:  # no sparsity is asked for
        given = step.chunk.indptr, step.word_ptr, step.occurrence, step.resp
        benchmark(topic_stats.sum_by_word_dense, *given, step.rows[0], step.row)
    else:
        given = step.word_ptr, step.occurrence, step.index, step.resp
        benchmark(topic_stats.sum_by_word, *given, step.rows[0], step.row)


def test_start(benchmark, drawn):
    X = drawn[0].astype(np.float32)
    benchmark(lambda: bregman_kmeans_plusplus(X, 50, random_state=np.random.default_rng(0)))


def test_left_to_right(benchmark, drawn):
    X, counts = drawn
    benchmark(left_to_right, counts.T, X[:20], n_jobs=1)


def test_coherence(benchmark, drawn):
    X, counts = drawn
    benchmark(coherence, counts.T, X)


def test_match_topics(benchmark, drawn):
    counts = drawn[1]
    benchmark(match_topics, counts.T, counts.T[::-1])
