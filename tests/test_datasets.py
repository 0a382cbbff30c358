"""Tests of the corpora: the docstrings of installed libraries, and draws from the model."""

import hashlib
import importlib
import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from sklearn_sparsepost.datasets import _clean, load_docstrings, make_bars, make_lda_corpus

FRESH_PROCESS = """
import hashlib, os, warnings
{first}
import numpy as np
from sklearn_sparsepost.datasets import load_docstrings

def state():
    return warnings.filters[:], np.get_printoptions(), np.geterr(), dict(os.environ)

before = state()
corpus = load_docstrings()
assert state() == before
print(hashlib.sha256(repr((corpus.names.tolist(), corpus.data)).encode()).hexdigest())
"""

DOCSTRING = r"""
    join(a, b=(1, 2), *, sep=None)

    Join `a` and :func:`~library.b` into ``one``, :math:`a +
    b`, see :ref:`the guide <label>` and [1]_.

    .. versionadded:: 1.2
       Once it was new.

    .. note:: A note that
       is kept.

    .. math::

        \frac{a}{b}

    Parameters
    ----------
    a : array_like
        First part; `text <https://example.org>`_ and https://example.org here.

        .. deprecated:: 1.3
    b : tuple, default=(1, 2)
        Second part::

            literal block

        and after it.

    Notes
    -----
    ===  =====
    one  two
    ===  =====

    **Array API Standard Support**

    Boilerplate.

    References
    ----------
    .. [1] Somebody, a book.
       Its publisher.
    Somebody else.

    Examples
    --------
    Join two:

    >>> join(
    ...     1, 2)
    output

    The end.
    """

CLEANED = """\
Join a and library.b into one, , see the guide and .
A note that
is kept.
a : array_like
First part; text and  here.
b : tuple, default=(1, 2)
Second part:
and after it.
one  two
Join two:
The end."""


@pytest.fixture(scope="module")
def docstrings():
    return load_docstrings()


def test_docstrings_is_an_aligned_corpus_of_thousands(docstrings):
    assert 2500 <= len(docstrings.data) <= 6000
    assert len(docstrings.names) == len(docstrings.target) == len(docstrings.data)
    assert docstrings.target_names == ["numpy", "scipy", "sklearn"]
    libraries = np.array(docstrings.target_names)[docstrings.target]
    assert [name.partition(".")[0] for name in docstrings.names] == list(libraries)
    assert np.bincount(docstrings.target).min() > 500
    assert "scikit-learn" in docstrings.DESCR


def test_docstrings_are_sorted_and_unique(docstrings):
    assert list(docstrings.names) == sorted(set(docstrings.names))
    assert len(set(docstrings.data)) == len(docstrings.data)


def test_docstrings_go_with_their_names(docstrings):
    texts = dict(zip(docstrings.names, docstrings.data, strict=True))
    assert texts["numpy.sin"].startswith("Trigonometric sine")
    assert texts["scipy.stats.norm"].startswith("A normal continuous random variable.")
    assert texts["sklearn.cluster.KMeans"].startswith("K-Means clustering.")
    assert texts["sklearn.cluster.KMeans.fit"].startswith("Compute k-means clustering.")
    # Overrides a public method of another class.
    assert texts["sklearn.decomposition.PCA.fit_transform"].startswith("Fit the model with X")


@pytest.mark.parametrize(
    "kept, dropped",
    [
        ("scipy.stats.norm", "scipy.stats.distributions.norm"),
        ("sklearn.preprocessing.LabelEncoder", "sklearn.calibration.LabelEncoder"),
        ("numpy.random.rand", "numpy.random.RandomState.rand"),
        ("numpy.abs", "numpy.absolute"),
        ("numpy.fft.fft", "numpy.test"),
    ],
)
def test_docstrings_are_kept_under_one_public_name(docstrings, kept, dropped):
    assert kept in docstrings.names
    assert dropped not in docstrings.names


def test_docstrings_have_no_private_or_test_names(docstrings):
    parts = {part for name in docstrings.names for part in name.split(".")}
    assert not any(part.startswith("_") for part in parts)
    assert parts.isdisjoint({"tests", "testing", "conftest", "externals", "f2py"})
    # A descriptor, whose docstring is the one of its class.
    assert "set_fit_request" not in parts


def test_docstrings_have_no_code_or_markup(docstrings):
    text = "\n".join(docstrings.data)
    for markup in (">>>", "`", ":math:", ".. versionadded", "----", "https://"):
        assert markup not in text


def test_clean_removes_what_is_documented():
    assert _clean(DOCSTRING) == CLEANED


@pytest.mark.parametrize(
    "seed, first", [("0", ""), ("1", "from sklearn.experimental import enable_iterative_imputer")]
)
def test_docstrings_are_the_same_in_any_process_and_change_no_state(docstrings, seed, first):
    expected = repr((docstrings.names.tolist(), docstrings.data)).encode()
    env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", FRESH_PROCESS.format(first=first)]
    result = subprocess.run(command, env=env, capture_output=True, text=True)
    assert result.stderr == ""
    assert result.stdout.strip() == hashlib.sha256(expected).hexdigest()


def test_docstrings_without_an_optional_module(monkeypatch):
    def import_module(name, original=importlib.import_module):
        if name == "numpy.fft":
            raise ImportError
        return original(name)

    monkeypatch.setattr(importlib, "import_module", import_module)
    names = load_docstrings(libraries=["numpy"]).names
    assert "numpy.linalg.norm" in names
    assert not any(name.startswith("numpy.fft.") for name in names)


def test_docstrings_of_some_libraries(docstrings):
    some = load_docstrings(libraries=["sklearn", "numpy"])
    assert some.target_names == ["numpy", "sklearn"]
    assert_array_equal(some.names, docstrings.names[docstrings.target != 1])
    assert_array_equal(some.target, docstrings.target[docstrings.target != 1] // 2)


def test_docstrings_return_X_y(docstrings):
    data, target = load_docstrings(return_X_y=True)
    assert data == docstrings.data
    assert_array_equal(target, docstrings.target)


def test_docstrings_min_words(docstrings):
    lengths = np.array([len(text.split()) for text in docstrings.data])
    assert lengths.min() == 20
    longer = load_docstrings(min_words=300).names
    assert_array_equal(longer, docstrings.names[lengths >= 300])


@pytest.mark.parametrize("libraries", ["numpy", [], ["numpy", "pandas"], None])
def test_docstrings_reject_libraries(libraries):
    with pytest.raises(ValueError, match="libraries must be some of"):
        load_docstrings(libraries=libraries)


@pytest.mark.parametrize("min_words", [-1, 2.5, True])
def test_docstrings_reject_min_words(min_words):
    with pytest.raises(ValueError, match="min_words must be an integer of at least 0"):
        load_docstrings(min_words=min_words)


def draw_corpus(**kwargs):
    """A small draw of make_lda_corpus, for the tests that both generators pass."""
    return make_lda_corpus(kwargs.pop("n_samples", 40), 9, 6, **kwargs)


def draw_bars(**kwargs):
    """A draw of make_bars of the same shape."""
    return make_bars(kwargs.pop("n_samples", 40), side=3, **kwargs)


generators = pytest.mark.parametrize("generator", [draw_corpus, draw_bars])


@generators
def test_generators_return_counts_and_distributions(generator):
    X, components, doc_topic = generator(random_state=0)
    assert isinstance(X, sp.csr_matrix)
    assert X.dtype == np.int32
    assert X.has_canonical_format
    assert (X.shape, components.shape, doc_topic.shape) == ((40, 9), (6, 9), (40, 6))
    for weights in (components, doc_topic):
        assert weights.min() >= 0
        assert_allclose(weights.sum(axis=1), 1)


@generators
def test_generators_are_reproducible(generator):
    draws = [generator(random_state=seed) for seed in (7, np.random.RandomState(7), 8)]
    same, other = ([(a != b).sum() for a, b in zip(draws[0], d, strict=True)] for d in draws[1:])
    assert same == [0, 0, 0]
    assert other[0] > 0
    assert other[2] > 0


@generators
def test_generators_take_lengths(generator):
    lengths = np.arange(40)
    X = generator(doc_length=lengths, random_state=0)[0]
    assert_array_equal(X.sum(axis=1).A1, lengths)


@generators
def test_generators_draw_poisson_lengths(generator):
    X = generator(n_samples=4000, doc_length=12.5, random_state=0)[0]
    lengths = X.sum(axis=1).A1
    assert_allclose(lengths.mean(), 12.5, atol=4 * np.sqrt(12.5 / 4000))
    assert_allclose(lengths.var(), 12.5, rtol=0.1)


@generators
def test_generators_draw_words_from_topics(generator):
    lengths = np.full(40, 100_000)
    X, components, doc_topic = generator(doc_length=lengths, doc_topic_prior=0.3, random_state=0)
    expected = lengths[:, None] * (doc_topic @ components)
    likely = expected > 5
    assert likely.mean() > 0.5
    z = (X.toarray() - expected)[likely] / np.sqrt(expected[likely])
    assert np.abs(z).max() < 5
    assert (X.toarray()[~likely] < 25).all()


@generators
def test_generators_draw_topic_weights_from_the_prior(generator):
    alpha = np.array([0.1, 0.2, 0.5, 1.0, 2.0, 4.0])
    doc_topic = generator(n_samples=5000, doc_topic_prior=alpha, doc_length=1, random_state=0)[2]
    for weights, a in zip(doc_topic.T, alpha, strict=True):
        assert stats.kstest(weights, stats.beta(a, alpha.sum() - a).cdf).pvalue > 1e-3


@pytest.mark.parametrize("shape", [(4,), (3000, 4)])
def test_lda_corpus_draws_topics_from_the_prior(shape):
    beta = np.broadcast_to([0.2, 0.5, 1.0, 3.0], shape)
    components = make_lda_corpus(1, 4, 3000, topic_word_prior=beta, random_state=0)[1]
    for weights, b in zip(components.T, [0.2, 0.5, 1.0, 3.0], strict=True):
        assert stats.kstest(weights, stats.beta(b, 4.7 - b).cdf).pvalue > 1e-3


def test_lda_corpus_with_tiny_priors_has_one_word_topics():
    _, components, doc_topic = make_lda_corpus(
        20, 30, 5, doc_topic_prior=1e-5, topic_word_prior=1e-5, random_state=0
    )
    assert_allclose(components.max(axis=1), 1)
    assert_allclose(doc_topic.max(axis=1), 1)


def test_lda_corpus_of_empty_documents():
    X = make_lda_corpus(3, 5, 2, doc_length=[0, 0, 0], random_state=0)[0]
    assert X.shape == (3, 5)
    assert X.nnz == 0


def test_bars_are_the_rows_and_columns_of_the_image():
    images = make_bars(1, side=3, random_state=0)[1].reshape(6, 3, 3)
    for i in range(3):
        row = np.zeros((3, 3))
        row[i] = 1 / 3
        assert_allclose(images[i], row)
        assert_allclose(images[3 + i], row.T)


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"n_samples": 0}, "n_samples must be an integer of at least 1"),
        ({"n_features": 2.0}, "n_features must be an integer of at least 1"),
        ({"n_components": -1}, "n_components must be an integer of at least 1"),
        ({"doc_topic_prior": 0}, "doc_topic_prior must be positive"),
        ({"doc_topic_prior": [1, 1]}, "doc_topic_prior has shape"),
        ({"topic_word_prior": np.inf}, "topic_word_prior must be positive"),
        ({"topic_word_prior": [[1, 1]]}, "topic_word_prior has shape"),
        ({"doc_length": 0}, "doc_length must be"),
        ({"doc_length": np.nan}, "doc_length must be"),
        ({"doc_length": [3, 4]}, "doc_length must be"),
        ({"doc_length": [1.5] * 100}, "doc_length must be"),
        ({"doc_length": [-1] * 100}, "doc_length must be"),
    ],
)
def test_lda_corpus_rejects(kwargs, message):
    with pytest.raises(ValueError, match=message):
        make_lda_corpus(**kwargs)


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"n_samples": 1.5}, "n_samples must be an integer of at least 1"),
        ({"side": 1}, "side must be an integer of at least 2"),
        ({"doc_topic_prior": [1] * 5}, "doc_topic_prior has shape"),
        ({"doc_length": -3}, "doc_length must be"),
    ],
)
def test_bars_reject(kwargs, message):
    with pytest.raises(ValueError, match=message):
        make_bars(**kwargs)
