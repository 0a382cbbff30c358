"""Coherence: against the plain definitions, and against what gensim says of the same words."""

import itertools
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from sklearn_sparsepost import SparseLDA
from sklearn_sparsepost.datasets import load_docstrings, make_lda_corpus
from sklearn_sparsepost.metrics import coherence, top_words
from sklearn_sparsepost.metrics._coherence import MEASURES

EPSILON = 1e-12

# Words of a little corpus, topics by their words from the likeliest on. Nobody wrote "zebra".
NAMES = ["bee", "cat", "dog", "eel", "fox", "gnu", "hen", "zebra"]
DOCUMENTS = [
    text.split()
    for text in (
        "cat dog and cat dog fox",
        "dog fox hen the dog the dog hen",
        "bee bee bee eel gnu",
        "eel bee of the eel in the gnu of the bee",
        "cat hen",
        "fox the dog the cat the hen the gnu",
        "",
        "cat",
        "gnu eel",
    )
]
TOPICS = ["cat dog fox hen", "bee eel gnu cat", "fox eel bee hen", "dog zebra cat gnu"]


def components_of(topics):
    """Topics whose top words are these."""
    table = np.zeros((len(topics), len(NAMES)))
    for row, topic in zip(table, topics, strict=True):
        for rank, word in enumerate(topic.split()):
            row[NAMES.index(word)] = 9 - rank
    return table


def windows_of(documents, size):
    """All sliding windows as sets of words."""
    for tokens in documents:
        for first in range(max(len(tokens) - size, 0) + 1):
            yield set(tokens[first : first + size])


def plain(topics, windows, measure):
    """Coherence by its definition, with a loop over everything."""
    windows = list(windows)

    def p(*words):
        return sum(set(words) <= window for window in windows) / len(windows)

    def pmi(a, b):
        return np.log((p(a, b) + EPSILON) / (p(a) * p(b))) if p(a) * p(b) else 0.0

    def npmi(a, b):
        return pmi(a, b) / -np.log(p(a, b) + EPSILON)

    def umass(a, b):
        return np.log((p(a, b) + EPSILON) / p(a)) if p(a) else 0.0

    found = []
    for topic in topics:
        words = topic.split() if isinstance(topic, str) else topic
        if measure == "c_v":
            vectors = np.array([[npmi(a, b) for b in words] for a in words])
            whole = vectors.sum(axis=0)
            lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(whole)
            found.append(
                np.mean([v @ whole / n if n else 0 for v, n in zip(vectors, lengths, strict=True)])
            )
        else:
            of = {"npmi": npmi, "uci": pmi, "umass": umass}[measure]
            found.append(np.mean([of(a, b) for a, b in itertools.combinations(words, 2)]))
    return found


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
@pytest.mark.parametrize("measure", MEASURES)
def test_windows_by_definition(measure, size):
    got = coherence(
        components_of(TOPICS),
        DOCUMENTS,
        measure=measure,
        n_words=4,
        window_size=size,
        feature_names=NAMES,
    )
    np.testing.assert_allclose(got, plain(TOPICS, windows_of(DOCUMENTS, size), measure), atol=1e-9)


@pytest.mark.parametrize("measure", MEASURES)
def test_counts_are_whole_documents(measure):
    X = np.array([[tokens.count(name) for name in NAMES] for tokens in DOCUMENTS])
    want = plain(TOPICS, windows_of(DOCUMENTS, 100), measure)
    options = {"measure": measure, "n_words": 4}
    for reference in (X, sp.csr_matrix(X), sp.csc_array(X / 3), sp.coo_matrix(X)):
        got = coherence(components_of(TOPICS), reference, **options)
        np.testing.assert_allclose(got, want, atol=1e-9)


def test_drawn_documents_by_definition():
    X, topics, _ = make_lda_corpus(60, 40, 5, doc_length=30, random_state=0)
    rng = np.random.default_rng(0)
    documents = [rng.permutation(np.repeat(X.indices[a:b], X.data[a:b])) for a, b in pairs(X)]
    for measure in MEASURES:
        got = coherence(topics, documents, measure=measure, n_words=6, window_size=7)
        want = plain(top_words(topics, 6).tolist(), windows_of(documents, 7), measure)
        np.testing.assert_allclose(got, want, atol=1e-9)


def pairs(X):
    """Where rows begin and end."""
    return itertools.pairwise(X.indptr)


def test_columns_and_names_are_the_same():
    components = components_of(TOPICS)
    number = {name: i for i, name in enumerate(NAMES)}
    as_columns = [[number.get(token, -1) for token in tokens] for tokens in DOCUMENTS]
    for measure in MEASURES:
        by_name = coherence(components, DOCUMENTS, measure=measure, feature_names=NAMES)
        np.testing.assert_array_equal(coherence(components, as_columns, measure=measure), by_name)
        arrays = (np.array(tokens, dtype=np.int16) for tokens in as_columns)
        np.testing.assert_array_equal(coherence(components, arrays, measure=measure), by_name)


def test_default_windows():
    rng = np.random.default_rng(0)
    documents = [rng.integers(-1, 8, size=n) for n in (300, 150, 5, 0)]
    components = components_of(TOPICS)
    for measure, size in (("npmi", 10), ("uci", 10), ("c_v", 110), ("umass", 300)):
        got = coherence(components, documents, measure=measure)
        want = coherence(components, documents, measure=measure, window_size=size)
        np.testing.assert_array_equal(got, want)


def test_fewer_features_than_words_and_ties():
    X = sp.random_array((30, 5), density=0.5, random_state=0, format="csr")
    tied = np.ones((1, 5))
    np.testing.assert_array_equal(coherence(tied, X, n_words=99), coherence(tied, X, n_words=5))
    lowest = coherence([[1, 1, 0, 0, 0]], X, n_words=2)
    np.testing.assert_array_equal(coherence(tied, X, n_words=2), lowest)


def test_mimno_s_first_form():
    """One more document of each pair, and a sum instead of a mean."""
    X = (np.random.default_rng(0).random((50, 4)) < 0.3).astype(int)
    want, order = 0.0, [2, 0, 3, 1]
    for i, j in itertools.combinations(range(4), 2):
        likelier, other = X[:, order[i]], X[:, order[j]]
        want += np.log(((likelier & other).sum() + 1) / likelier.sum())
    got = coherence([[3, 1, 4, 2]], X, measure="umass", epsilon=1 / 50)
    assert got[0] * 6 == pytest.approx(want)


def test_words_everywhere_and_nowhere():
    X = np.array([[1, 1, 0, 1], [1, 1, 0, 0], [1, 1, 0, 1]])
    for measure in ("npmi", "uci", "c_v"):
        everywhere = coherence([[2, 1, 0, 0]], X, measure=measure, n_words=2)[0]
        assert everywhere == pytest.approx(0, abs=1e-9)
    for measure in MEASURES:
        assert coherence([[0, 0, 2, 1]], X, measure=measure, n_words=2)[0] in (0, 0.5)
        assert (coherence(np.ones((2, 4)), [[], [-1]], measure=measure) == 0).all()


def test_topics_are_more_coherent_than_noise():
    X, topics, _ = make_lda_corpus(500, 200, 8, random_state=0)
    noise = np.random.default_rng(0).dirichlet(np.ones(200), size=8)
    for measure in MEASURES:
        good, poor = (coherence(t, X, measure=measure).mean() for t in (topics, noise))
        assert good > poor + 0.05
    lda = SparseLDA(8, random_state=0).fit(X)
    assert coherence(lda.components_, X).mean() > coherence(noise, X).mean()


# ---------------------------------------------------------------------- gensim

GENSIM = {"npmi": "c_npmi", "uci": "c_uci", "umass": "u_mass", "c_v": "c_v"}
# What gensim 4.4.0 says of the first three TOPICS, by measure and window: of DOCUMENTS for windows
# that hold whole documents, and for shorter ones of documents that repeat no word.
NO_REPEATS = [
    text.split()
    for text in (
        "cat dog and fox",
        "the dog fox of hen",
        "bee eel gnu",
        "eel of the bee in gnu",
        "cat hen",
        "fox the dog in cat of hen and gnu bee",
        "",
        "cat",
        "gnu eel",
    )
]
RECORDED = {
    ("npmi", 2): [-0.4188789011976631, -0.33103505693913676, -0.6916921990099884],
    ("npmi", 5): [0.2002688399356918, -0.15133005716105882, -0.41202322720852397],
    ("npmi", 100): [0.4550704517224638, -0.016875026252942057, -0.4102170815678626],
    ("uci", 2): [-11.95864831089525, -11.751963002407196, -19.75607206450113],
    ("uci", 5): [0.29467382377553974, -8.272348714153706, -12.32554993005347],
    ("uci", 100): [0.6168836623563321, -8.148730589626975, -16.522082744819325],
    ("umass", None): [-0.48172862631177743, -9.0076078179186, -17.755850069523486],
    ("c_v", 2): [0.19730198832765916, 0.41524448356967747, 0.36371623614869836],
    ("c_v", 5): [0.7035085571862045, 0.46213195316703826, 0.1749025999694746],
    ("c_v", 100): [0.884416634139325, 0.5017720674762117, 0.06454374108827116],
}
# And of DOCUMENTS for shorter windows, in some of which a word comes twice.
REPEATS = {
    ("npmi", 2): [-0.12151207934903412, -0.5125407124258013, -0.5386198387262514],
    ("npmi", 3): [0.11809510028811947, -0.5530762775842308, -0.5290809269807913],
    ("npmi", 5): [0.17381705118711152, -0.16597391001873413, -0.47068878985556023],
    ("uci", 2): [-3.891200232196141, -15.72078533588135, -15.647662750400771],
    ("uci", 3): [0.2639949754796797, -16.138237889776395, -15.876613817894123],
    ("uci", 5): [0.31495848162397455, -7.938236997376002, -15.939129266840496],
    ("c_v", 2): [0.34550579099512446, 0.3259441942419964, 0.19598447358281523],
    ("c_v", 3): [0.6392265611241047, 0.33453223059099146, 0.18625718209002373],
    ("c_v", 5): [0.7121158974688033, 0.43421741168328853, 0.13013148704903216],
}


@pytest.mark.parametrize(("measure", "size"), REPEATS)
def test_as_gensim_recorded_where_words_repeat(measure, size):
    options = {"measure": measure, "n_words": 4, "window_size": size, "feature_names": NAMES}
    got = coherence(components_of(TOPICS[:3]), DOCUMENTS, as_gensim=True, **options)
    np.testing.assert_allclose(got, REPEATS[measure, size], atol=1e-8)
    by_definition = coherence(components_of(TOPICS[:3]), DOCUMENTS, **options)
    assert np.abs(by_definition - got).max() > 1e-3


@pytest.mark.parametrize("as_gensim", [False, True])
@pytest.mark.parametrize(("measure", "size"), RECORDED)
def test_as_gensim_recorded(measure, size, as_gensim):
    got = coherence(
        components_of(TOPICS[:3]),
        DOCUMENTS if size in (None, 100) else NO_REPEATS,
        measure=measure,
        n_words=4,
        window_size=size,
        feature_names=NAMES,
        as_gensim=as_gensim,
    )
    np.testing.assert_allclose(got, RECORDED[measure, size], atol=1e-8)


def gensim_says(topics, documents, measure, size, words):
    """Coherence by gensim, topic by topic."""
    from gensim.corpora import Dictionary
    from gensim.models.coherencemodel import CoherenceModel

    dictionary = Dictionary([words, *documents])
    model = CoherenceModel(
        topics=topics,
        texts=documents,
        corpus=[dictionary.doc2bow(tokens) for tokens in documents],
        dictionary=dictionary,
        coherence=GENSIM[measure],
        window_size=size,
        topn=len(topics[0]),
        processes=1,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.get_coherence_per_topic()


@pytest.mark.parametrize("measure", MEASURES)
def test_as_gensim_live(measure):
    pytest.importorskip("gensim", reason="gensim is not installed")
    texts = load_docstrings(libraries=["sklearn"]).data[:200]
    texts = [text.split() for text in texts]
    words = sorted({word for text in texts for word in text})
    components = np.random.default_rng(0).random((5, len(words)))
    topics = top_words(components, 10, feature_names=words).tolist()
    want = gensim_says(topics, texts, measure, None, words)
    got = coherence(components, texts, measure=measure, feature_names=words, as_gensim=True)
    np.testing.assert_allclose(got, want, atol=1e-6)


# ---------------------------------------------------------------------- bad input

X = np.ones((3, 4))
TOKENS = [[0, 1], [2, 3]]


@pytest.mark.parametrize(
    ("reference", "options", "message"),
    [
        (X, {"measure": "c_p"}, "measure must be one of 'npmi', 'uci', 'umass', 'c_v'"),
        (X, {"n_words": 1}, "n_words must be an integer of at least 2"),
        (X, {"window_size": 3}, "window_size must be None where reference is a matrix"),
        (TOKENS, {"window_size": 0}, "window_size must be an integer of at least 1"),
        (X, {"epsilon": 0}, "epsilon must be positive"),
        (X, {"feature_names": ["a"]}, r"feature_names has shape \(1,\), but there are 4"),
        (X[:, :3], {}, "reference has 3 features, but components has 4"),
        (-X, {}, "Negative values in data passed to coherence.*row 0"),
        ("a text", {}, "reference must be a matrix of counts or a sequence.*'a text'"),
        (7, {}, "reference must be a matrix of counts or a sequence.*7"),
        ([], {}, "reference has no documents"),
        ([[0], "a text"], {}, "document 1 of reference must be a sequence of tokens, got 'a text'"),
        ([[0], 3], {}, "document 1 of reference must be a sequence of tokens, got 3"),
        ([[0], [1, 4]], {}, "document 1 of reference has the token 4, but components has 4"),
        ([[0], [1, -2]], {}, "document 1 of reference has the token -2"),
        ([[0], ["a"]], {}, "document 1 of reference must hold column numbers, or strings with"),
        ([[0], [1.5]], {}, "document 1 of reference must hold column numbers"),
        ([[0], [[1], [2, 3]]], {}, "document 1 of reference is no sequence of tokens"),
    ],
)
def test_bad_input(reference, options, message):
    with pytest.raises(ValueError, match=message):
        coherence(np.ones((2, 4)), reference, **options)


def test_one_feature_has_no_pairs():
    with pytest.raises(ValueError, match="components has one feature"):
        coherence([[1.0]], [[0]])
    with pytest.raises(ValueError, match="components must be non-negative"):
        coherence([[1.0, -1]], [[0]])
