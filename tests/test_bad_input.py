"""What cannot be right is refused by name, and what is odd but legal gives finite models."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer

from sklearn_sparsepost import AliasLDA, GibbsCTM, SparseHDP, SparseLDA, SparseMixture
from sklearn_sparsepost._checks import LEAST_PRIOR, MOST_COUNT, MOST_PRIOR, MOST_VALUE
from sklearn_sparsepost._models.documents import draw_dirichlet
from sklearn_sparsepost.metrics import coherence, document_completion, left_to_right, split_words

SHORT = {"max_iter": 2, "random_state": 0}
TOPICS = {
    "memoized": SparseLDA(3, **SHORT),
    "online": SparseLDA(3, learning_method="online", batch_size=7, **SHORT),
    "batch": SparseLDA(3, learning_method="batch", sparsity_level=None, **SHORT),
    "random": SparseLDA(3, init="random", **SHORT),
    "anchor": SparseLDA(3, init="anchor", doc_topic_prior="auto", **SHORT),
    "hdp": SparseHDP(4, **SHORT),
    "gibbs": AliasLDA(3, evaluate_every=1, **SHORT),
    "gibbs-pitman-yor": AliasLDA(3, topic_word_prior_type="pitman_yor", evaluate_every=1, **SHORT),
    "gibbs-process": AliasLDA(3, doc_topic_prior_type="dirichlet_process", **SHORT),
    "gibbs-random": AliasLDA(3, init="random", sampler="cycle", **SHORT),
    "gibbs-ctm": GibbsCTM(3, evaluate_every=1, **SHORT),
}
COUNTS = {
    **TOPICS,
    "mixture": SparseMixture(3, observation="multinomial", **SHORT),
    "mixture-online": SparseMixture(
        3, observation="multinomial", learning_method="online", **SHORT
    ),
}
METHODS = ["fit", "partial_fit", "fit_transform", "transform", "score", "perplexity", "bound"]
METHODS += ["fit_predict", "predict", "predict_proba", "score_samples"]


def of(estimators):
    return pytest.mark.parametrize("estimator", estimators.values(), ids=estimators)


def with_methods(estimators):
    """Every estimator with every method that takes data."""
    pairs = [(n, m) for n in estimators for m in METHODS if hasattr(estimators[n], m)]
    return pytest.mark.parametrize(
        ("estimator", "method"), [(estimators[n], m) for n, m in pairs], ids=map("-".join, pairs)
    )


@pytest.fixture
def X():
    return np.random.default_rng(0).poisson(1.0, (20, 8)).astype(np.float64)


def fitted_values(estimator):
    """The numbers that a fit left, but for those that were not computed."""
    for name, value in vars(estimator).items():
        if name.endswith("_") and not name.startswith(("restart", "lower", "_")):
            for part in value if isinstance(value, tuple) else (value,):
                yield np.asarray(part)


def assert_finite(estimator, X):
    """A fit, and all that is made of it."""
    estimator = clone(estimator).fit(X)
    found = [value for value in fitted_values(estimator) if value.dtype.kind == "f"]
    for name in ("transform", "predict_proba", "score_samples", "score", "bound"):
        if hasattr(estimator, name):
            found.append(np.asarray(getattr(estimator, name)(X)))
    found += [part.toarray() if sp.issparse(part) else part for part in estimator.sample(3)]
    assert all(np.isfinite(part).all() for part in found)
    return estimator


# ---------------------------------------------------------------------- sparse matrices


def stored(X):
    """CSR that stores zeros, too."""
    rows, width = X.shape
    return sp.csr_matrix(
        (X.ravel().copy(), np.tile(np.arange(width), rows), np.arange(rows + 1) * width), X.shape
    )


def beyond(X):
    X.indices[X.indptr[4]] = X.shape[1]


def far_beyond(X):
    X.indices[X.indptr[4]] = 2**30


def negative(X):
    X.indices[X.indptr[4]] = -1


def falling(X):
    X.indptr[5] = X.indptr[4] - 1


def not_from_zero(X):
    X.indptr[0] = 1


def past_the_end(X):
    X.indptr[-1] += 1


def too_few_values(X):
    X.data = X.data[:-1]


def too_few_rows(X):
    X.indptr = X.indptr[:-1]


CORRUPT = {
    beyond: "row 4 has column 8, but there are 8 columns",
    far_beyond: "row 4 has column 1073741824",
    negative: "row 4 has column -1",
    falling: "indptr falls after row 4",
    not_from_zero: "indptr begins with 1, not 0, at row 0",
    past_the_end: r"indptr ends with \d+ after row 19",
    too_few_values: "corrupt: its 20 rows",
    too_few_rows: "corrupt: its 20 rows",
}


@with_methods(COUNTS)
def test_corrupt_matrices(estimator, method, X):
    fitted = clone(estimator).fit(X)
    for corrupt, message in CORRUPT.items():
        bad = sp.csr_matrix(X + 1)
        corrupt(bad)
        with pytest.raises(ValueError, match=message):
            getattr(fitted, method)(bad)
    bad = sp.csc_matrix(X + 1)
    bad.indices[bad.indptr[2]] = 99
    with pytest.raises(ValueError, match="column 2 has row 99, but there are 20 rows"):
        getattr(fitted, method)(bad)


TEXTS = ["a cat", "", "two dogs"]
WORDS = [[], ["a", "cat"], ["dogs"]]
UNCOUNTED = [
    (TEXTS, "X holds texts, .* CountVectorizer\\(\\)"),
    (np.array(TEXTS), "X holds texts"),
    (np.array(TEXTS, dtype=object), "X holds texts"),
    ([text.encode() for text in TEXTS], "X holds texts"),
    (WORDS, "X holds lists of words, .*analyzer=list"),
    ([tuple(words) for words in WORDS], "X holds lists of words"),
    ([[], [(0, 1), (3, 2)], [(1, 1)]], "X holds bags of words, .*corpus2csc"),
]


@with_methods(COUNTS)
def test_what_is_not_counted_yet(estimator, method, X):
    estimator = clone(estimator)
    if method not in ("fit", "partial_fit", "fit_transform", "fit_predict"):
        estimator.fit(X)
    for documents, message in UNCOUNTED:
        with pytest.raises(ValueError, match=message):
            getattr(estimator, method)(documents)


def test_words_are_counted_as_the_error_says():
    counts = CountVectorizer(analyzer=list).fit_transform(WORDS)
    assert counts.toarray().sum(axis=1).tolist() == [0, 2, 1]


@pytest.mark.parametrize(("corrupt", "message"), CORRUPT.items())
def test_corrupt_matrices_and_metrics(corrupt, message, X):
    bad = sp.csr_array(X + 1)
    corrupt(bad)
    with pytest.raises(ValueError, match=message):
        split_words(bad)
    for metric in (document_completion, left_to_right, coherence):
        with pytest.raises(ValueError, match=message):
            metric(np.ones((2, 8)), bad)


@with_methods(COUNTS)
def test_stored_zeros_change_nothing(estimator, method, X):
    tidy, full = sp.csr_matrix(X), stored(X)
    full.data.flags.writeable = False
    fitted = clone(estimator).fit(tidy)
    results = []
    for data in (tidy, full):
        found = getattr(clone(estimator) if "fit" in method else fitted, method)(data)
        results.append(list(fitted_values(found)) if hasattr(found, "get_params") else [found])
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)
    assert full.nnz == X.size


@of(COUNTS)
def test_room_that_no_row_uses_is_no_data(estimator, X):
    tidy = sp.csr_matrix(X)
    roomy = sp.csr_matrix(X)
    roomy.data = np.append(roomy.data, [np.nan if X.dtype.kind == "f" else -1] * 3)
    roomy.indices = np.append(roomy.indices, [99, -1, 0]).astype(roomy.indices.dtype)
    one, other = clone(estimator).fit(tidy), clone(estimator).fit(roomy)
    assert one.score(tidy) == other.score(roomy)
    assert len(roomy.data) == tidy.nnz + 3  # as it was given


def test_stored_zeros_are_no_words_to_split(X):
    for one, other in zip(split_words(sp.csr_matrix(X)), split_words(stored(X)), strict=True):
        assert (one != other).nnz == 0
    topics = np.random.default_rng(1).random((3, 8))
    for metric in (document_completion, left_to_right):
        assert metric(topics, stored(X)) == metric(topics, X)
    np.testing.assert_array_equal(coherence(topics, stored(X)), coherence(topics, X))


# ---------------------------------------------------------------------- types and values


@with_methods(COUNTS)
def test_floats_of_other_widths(estimator, method, X):
    for wide, usual in ((np.float16, np.float32), (np.longdouble, np.float64)):
        results = []
        for dtype in (wide, usual):
            one = clone(estimator)
            if "fit" not in method:
                one.fit(X.astype(usual))
            found = getattr(one, method)(X.astype(dtype))
            results.append(list(fitted_values(found)) if found is one else [found])
        for one, other in zip(*results, strict=True):
            np.testing.assert_array_equal(one, other)
            assert np.asarray(one).dtype == np.asarray(other).dtype


@pytest.mark.parametrize("dtype", [np.float16, np.longdouble])
def test_floats_of_other_widths_and_metrics(dtype, X):
    topics = np.ones((2, 8))
    want = document_completion(topics, X)
    assert document_completion(topics.astype(dtype), X.astype(dtype)) == want
    assert (split_words(X.astype(dtype))[0] != split_words(X)[0]).nnz == 0


@with_methods(COUNTS)
@pytest.mark.parametrize("value", [1e300, 2 * MOST_COUNT])
def test_a_huge_count(estimator, method, value, X):
    fitted = clone(estimator).fit(X)
    X[6, 2] = value
    with pytest.raises(ValueError, match=r"row 6 of X has a count of .*e\+"):
        getattr(fitted, method)(X)


def test_metrics_of_bad_counts(X):
    for function in (split_words, lambda X: document_completion(np.ones((2, 8)), X)):
        X[6, 2] = 1e300
        with pytest.raises(ValueError, match="row 6 of X has a count of 1e"):
            function(X)
        X[6, 2] = -1
        with pytest.raises(ValueError, match="Negative values.*row 6 has one"):
            function(X)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("observed", [-0.1, 1.5, np.nan, "x", None]),
        ("max_iter", [0, 2.5, 2**40, True]),
        ("tol", [-1, np.nan, "x"]),
    ],
)
def test_metrics_of_bad_parameters(name, values, X):
    for value in values:
        with pytest.raises(ValueError, match=name):
            document_completion(np.ones((2, 8)), X, **{name: value})


@pytest.mark.parametrize("kind", [">i4", ">f4", ">f8"])
def test_numbers_of_the_other_byte_order(kind, X):
    one, other = (SparseLDA(3, **SHORT).fit(X.astype(t)) for t in (kind, kind[1:]))
    np.testing.assert_array_equal(one.components_, other.components_)


@of({name: found for name, found in COUNTS.items() if "gibbs" not in name})
def test_the_largest_counts(estimator, X, dtype):
    X[6, 2] = MOST_COUNT
    assert_finite(estimator, X.astype(dtype))


@pytest.mark.parametrize("estimation", ["bayes", "map", "ml"])
def test_the_largest_count_of_a_word_never_seen(estimation, X, dtype):
    X[:, 3] = 0
    mixture = SparseMixture(2, observation="multinomial", estimation=estimation, **SHORT)
    mixture.fit(X.astype(dtype))
    X[6, 3] = MOST_COUNT
    assert np.isfinite(mixture.score(X.astype(dtype)))


GAUSSIAN = {
    kind: SparseMixture(2, covariance_type=kind, **SHORT) for kind in ("full", "diag", "spherical")
}


@with_methods(GAUSSIAN)
def test_rows_whose_squares_overflow(estimator, method, X):
    fitted = clone(estimator).fit(X)
    for value, dtype in ((-1e200, np.float64), (1e101, np.float64), (1e16, np.float32)):
        X[6, 2] = value
        with pytest.raises(ValueError, match="row 6 of X holds a value beyond"):
            getattr(fitted, method)(X.astype(dtype))


@of(GAUSSIAN)
def test_the_largest_rows(estimator, X, dtype):
    assert_finite(estimator, (X * MOST_VALUE[np.dtype(dtype)] / X.max()).astype(dtype))


@of({"gibbs": TOPICS["gibbs"], "gibbs-random": TOPICS["gibbs-random"]})
def test_fractions_given_to_a_sampler(estimator, X):
    weights = TfidfTransformer().fit_transform(X)
    with pytest.warns(UserWarning, match="CountVectorizer, or use SparseLDA") as caught:
        fitted = clone(estimator).fit(weights)
    assert len(caught) == 1 and caught[0].filename == __file__
    with pytest.warns(UserWarning, match="fractional counts"):
        fitted.partial_fit(weights)
    # None of these is rounded: no warning, which would be an error.
    fitted.transform(weights)
    fitted.score(weights)
    SparseLDA(3, **SHORT).fit(weights)
    whole = sp.csr_matrix(X)
    halves = (np.repeat(whole.data / 2, 2), np.repeat(whole.indices, 2), 2 * whole.indptr)
    clone(estimator).fit(sp.csr_matrix(halves, X.shape))


# ---------------------------------------------------------------------- priors

NOT_NUMBERS = [
    "foo",
    {"a": 1},
    [None, 1, 2],
    ["1", "2", "3"],
    [[1, 2, 3], [1]],
    [True] * 3,
    [10**400],
]
BEYOND = [1e300, 5e-324, LEAST_PRIOR / 2, 2 * MOST_PRIOR, True]


def assert_refused(estimator, X, **params):
    """Whatever begins a fit names the parameter."""
    (name,) = params
    for method in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match=name):
            getattr(clone(estimator).set_params(**params), method)(X)


@of({"variational": TOPICS["memoized"], "gibbs": TOPICS["gibbs"]})
@pytest.mark.parametrize("name", ["doc_topic_prior", "topic_word_prior"])
def test_priors_of_topics(estimator, name, X, dtype):
    shape = (3,) if name == "doc_topic_prior" else (8,)
    for value in [*NOT_NUMBERS, *BEYOND, *(np.full(shape, value) for value in BEYOND[:4])]:
        assert_refused(estimator, X, **{name: value})
    for value in (LEAST_PRIOR, MOST_PRIOR, np.geomspace(LEAST_PRIOR, MOST_PRIOR, shape[0])):
        for learning in (
            [{}]
            if isinstance(estimator, AliasLDA)
            else [{"learning_method": method} for method in ("memoized", "online", "batch")]
        ):
            assert_finite(clone(estimator).set_params(**{name: value}, **learning), X.astype(dtype))


@of({name: COUNTS[name] for name in ("memoized", "gibbs")})
def test_first_topics(estimator, X):
    ones = np.ones((3, 8))
    for value in [
        *NOT_NUMBERS,
        ones[0],
        ones[None],
        1e300 * ones,
        sp.csr_matrix(ones),
        np.nan * ones,
    ]:
        assert_refused(estimator, X, init=value)
    assert_finite(clone(estimator).set_params(init=MOST_COUNT * np.eye(3, 8)), X)
    assert_finite(clone(estimator).set_params(init=0 * ones), X)


GIVEN = {
    "weight_concentration_prior": ["gaussian", "multinomial", "bernoulli"],
    "mean_precision_prior": ["gaussian"],
    "degrees_of_freedom_prior": ["gaussian"],
    "feature_prior": ["multinomial", "bernoulli"],
}


@pytest.mark.parametrize("process", ["dirichlet_distribution", "dirichlet_process"])
@pytest.mark.parametrize("name", GIVEN)
def test_priors_of_mixtures(name, process, X, dtype):
    for observation in GIVEN[name]:
        rows = (X > 1) * 1.0 if observation == "bernoulli" else X
        base = SparseMixture(2, observation=observation, **SHORT)
        for value in [*BEYOND, "foo", {"a": 1}]:
            assert_refused(base, rows, **{name: value})
        limits = (8 if name == "degrees_of_freedom_prior" else LEAST_PRIOR, MOST_PRIOR)
        for value in limits:
            for estimation in ("bayes", "map"):
                base.set_params(
                    estimation=estimation, weight_concentration_prior_type=process, **{name: value}
                )
                assert_finite(base, rows.astype(dtype))


@pytest.mark.parametrize("kind", ["full", "diag", "spherical"])
def test_priors_of_gaussians(kind, X, dtype):
    base = SparseMixture(2, covariance_type=kind, **SHORT)
    X = X.astype(dtype)
    shaped = {"full": np.diag, "diag": np.asarray, "spherical": lambda values: float(values[0])}
    most = MOST_VALUE[X.dtype] ** 2
    for value in NOT_NUMBERS[:-1]:
        assert_refused(base, X, covariance_prior=value)
        assert_refused(base, X, mean_prior=value)
        assert_refused(base, X, means_init=value)
    for value in (1e300, 5e-324, 2 * most, 0.5 / most):
        assert_refused(base, X, covariance_prior=shaped[kind](np.full(8, value)))
    for value in (1 / most, most):
        assert_finite(clone(base).set_params(covariance_prior=shaped[kind](np.full(8, value))), X)
    for value in (np.full(8, 1e300), np.ones(7), np.ones((1, 8)), 0.0):
        assert_refused(base, X, mean_prior=value)
    for value in (np.full((2, 8), 1e300), np.ones(8), np.ones((2, 8, 1)), np.ones((2, 7))):
        assert_refused(base, X, means_init=value)


def test_first_probabilities(X):
    base = SparseMixture(2, observation="multinomial", **SHORT)
    assert_refused(base, X, means_init=-np.ones((2, 8)))
    assert_finite(base.set_params(means_init=np.ones((2, 8)) / 8), X)


# ---------------------------------------------------------------------- other parameters


@pytest.mark.parametrize("estimator", [SparseLDA(3), AliasLDA(3), GibbsCTM(3), SparseMixture(2)])
def test_booleans_are_no_numbers(estimator, X):
    constraints = estimator._parameter_constraints
    for name, kinds in constraints.items():
        if any(hasattr(kind, "closed") for kind in kinds):
            assert_refused(estimator, X, **{name: True})


@pytest.mark.parametrize(
    ("estimator", "names"),
    [
        (TOPICS["memoized"], ["n_components", "max_doc_update_iter", "restarts"]),
        (TOPICS["gibbs"], ["n_components", "n_mh_steps"]),
        (TOPICS["gibbs-ctm"], ["n_components", "n_factors", "n_logit_steps", "n_mh_steps"]),
        (COUNTS["mixture"], ["n_components", "n_init"]),
    ],
)
def test_integers_too_large(estimator, names, X):
    for name in names:
        for value in (2**31, 2**40, 2**70):
            assert_refused(estimator, X, **{name: value})


def test_large_integers_that_do_no_harm(X):
    large = {"n_batches": 2**40, "batch_size": 2**40, "sparsity_level": 2**70}
    rare = {"evaluate_every": 2**70}
    for method in ("memoized", "online"):
        lda = SparseLDA(3, learning_method=method, **large, **rare, **SHORT).fit(X)
        assert np.isfinite(lda.components_).all()
        mixture = SparseMixture(3, learning_method=method, **large, **SHORT).fit(X)
        assert np.isfinite(mixture.means_).all()
    assert SparseLDA(3, max_iter=2**70, tol=1e3).fit(X).n_iter_ == 2
    lda = AliasLDA(3, burn_in=2**70, sample_every=2**70, learn_every=2**70, **rare, **SHORT)
    assert lda.fit(X).n_samples_averaged_ == 0


def test_numbers_of_numpy_are_numbers(X):
    lda = SparseLDA(np.int64(3), doc_topic_prior=np.float32(0.5), tol=np.float32(0), max_iter=1)
    assert lda.fit(X).n_iter_ == 1
    lda = AliasLDA(np.int64(3), doc_topic_prior=np.float32(0.5), max_iter=np.int32(1))
    assert lda.fit(X).n_iter_ == 1
    mixture = SparseMixture(np.int64(3), reg_covar=np.float32(1e-3), max_iter=np.int32(1))
    assert mixture.fit(X).n_iter_ == 1


@pytest.mark.parametrize("decay", [np.float32(0.75), np.float32(1)])
def test_steps_of_streams_are_in_double_precision(decay, X):
    # A constant of single precision made that of statistics one, beyond which these are scaled.
    steps = {"learning_decay": decay, "learning_offset": np.float32(2)}
    double = {name: float(value) for name, value in steps.items()}
    for total in (None, np.int8(100)):
        found = []
        for chosen in (steps, double):
            mixture = SparseMixture(1, total_samples=total, random_state=0, **chosen).fit(X)
            found.append(mixture.partial_fit(X).means_)
        np.testing.assert_array_equal(*found)


@of({name: COUNTS[name] for name in ("memoized", "gibbs", "mixture")} | GAUSSIAN)
def test_another_number_of_components_for_a_batch(estimator, X):
    fitted = clone(estimator).fit(X)
    had = fitted.n_components
    for n in (had - 1, had + 2):
        with pytest.raises(ValueError, match=f"n_components={n}.* {had} |n_components={n}.*={had}"):
            fitted.set_params(n_components=n).partial_fit(X)
    fitted.set_params(n_components=had).partial_fit(X)


def test_merged_components_take_batches(X):
    options = {"weight_concentration_prior_type": "dirichlet_process", "random_state": 0}
    mixture = SparseMixture(8, **options).fit(X)
    assert len(mixture.weights_) < 8
    mixture.partial_fit(X)
    with pytest.raises(ValueError, match="n_components=9.*n_components=8"):
        mixture.set_params(n_components=9).partial_fit(X)


def test_bound_is_that_of_the_fitted_model(X):
    lda = SparseLDA(3, doc_topic_prior=[0.1, 0.2, 0.3], topic_word_prior=0.2, **SHORT).fit(X)
    want = lda.bound(X)
    lda.set_params(n_components=5, doc_topic_prior=7.0, topic_word_prior=np.ones(4))
    assert lda.bound(X) == want


# ---------------------------------------------------------------------- draws, given topics


SAMPLED = {"memoized": TOPICS["memoized"], "gibbs": TOPICS["gibbs"], **GAUSSIAN}


@of(SAMPLED)
def test_what_cannot_be_sampled(estimator, X):
    fitted = clone(estimator).fit(X)
    for value in (0, -1, None, 2.5, True, "3", 2**70):
        with pytest.raises(ValueError, match="n_samples"):
            fitted.sample(value)
    assert fitted.sample(np.int64(2))[0].shape == (2, 8)
    if isinstance(fitted, SparseMixture):
        return
    for value in (-1, None, 2.5, True, 2**70):
        with pytest.raises(ValueError, match="doc_length"):
            fitted.sample(doc_length=value)
    assert fitted.sample(doc_length=0)[0].nnz == 0


@of(SAMPLED)
def test_samples_are_those_of_the_random_state(estimator, X):
    def draw(seed, **options):
        found = clone(estimator).set_params(random_state=seed).fit(X).sample(20, **options)
        return [part.toarray() if sp.issparse(part) else part for part in found]

    one, again = draw(0), draw(0)
    np.testing.assert_array_equal(one[0], again[0])
    np.testing.assert_array_equal(one[1], again[1])
    np.testing.assert_array_equal(one[0], draw(0, random_state=0)[0])
    assert (one[0] != draw(0, random_state=1)[0]).any()


@of({"variational": TOPICS["memoized"], "gibbs": TOPICS["gibbs"]})
@pytest.mark.parametrize("prior", [1e-3, 1e-8, LEAST_PRIOR, MOST_PRIOR])
def test_samples_of_small_priors(estimator, prior, X):
    lda = clone(estimator).set_params(doc_topic_prior=prior).fit(X)
    drawn, weights = lda.sample(200)
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    np.testing.assert_array_equal(drawn.sum(axis=1).ravel(), 100)
    if prior < 1e-2:
        assert np.median(weights.max(axis=1)) > 1 - 1e-6
        assert len(np.unique(weights.argmax(axis=1))) == 3


def test_draws_have_the_moments_of_their_distribution():
    alpha = np.array([0.05, 0.5, 2.0])
    drawn = draw_dirichlet(np.tile(alpha, (200_000, 1)), np.random.RandomState(0))
    mean = alpha / alpha.sum()
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=3e-3)
    np.testing.assert_allclose(drawn.var(axis=0), mean * (1 - mean) / (alpha.sum() + 1), atol=3e-3)


def test_names_of_given_topics():
    topics = np.ones((2, 4))
    names = ["a", "b", "c", "d"]
    for legal in (names, tuple(names), np.array(names), pd.Index(names), pd.Series(names)):
        found = SparseLDA.from_topics(topics, feature_names=legal).feature_names_in_
        assert found.dtype == object and found.tolist() == names
    for bad in (names[:3], [*names, "e"], "abcd", [names], [1, 2, 3, 4], [*names[:3], None], 4):
        with pytest.raises(ValueError, match="feature_names must be 4 strings"):
            SparseLDA.from_topics(topics, feature_names=bad)


@pytest.mark.parametrize(
    "components", [np.nan, np.inf, -1.0, 1e300, "a", None, {"a": 1}, sp.csr_matrix(np.ones((2, 4)))]
)
def test_given_topics_that_are_none(components):
    if np.isscalar(components):
        components = [[components, 1.0]]
    with pytest.raises(ValueError, match="components"):
        SparseLDA.from_topics(components)
    with pytest.raises(ValueError, match="components"):
        document_completion(components, np.ones((3, 2)))


# ---------------------------------------------------------------------- anything

ANYTHING = [
    SparseLDA(2, n_batches=2, **SHORT),
    AliasLDA(2, evaluate_every=1, **SHORT),
    GibbsCTM(2, evaluate_every=1, **SHORT),
    SparseMixture(2, observation="multinomial", n_batches=2, **SHORT),
]


@st.composite
def legal_counts(draw):
    """Counts in some of the forms that are legal, rows of ones first, so that scores exist."""
    shape = draw(st.integers(1, 4)), draw(st.integers(4, 6))
    cells = st.sampled_from([0, 0, 1, 2, 7])
    rows = st.lists(cells, min_size=shape[1], max_size=shape[1])
    ones = [[1] * shape[1]] * 3
    X = np.array(ones + draw(st.lists(rows, min_size=shape[0], max_size=shape[0])))
    X = X.astype(draw(st.sampled_from([bool, np.uint8, np.int64, np.float32, np.float64])))
    form = draw(st.sampled_from(["dense", "csr", "csc", "lil", "array", "stored", "odd"]))
    if form == "dense":
        X.flags.writeable = False
        return X
    if form == "stored":
        return stored(X)
    if form != "odd":
        return sp.csr_array(X) if form == "array" else sp.csr_matrix(X).asformat(form)
    tidy = sp.csr_matrix(X)  # every entry twice, columns falling, wide indices, read-only
    order = np.lexsort((-tidy.indices, np.repeat(np.arange(len(X)), np.diff(tidy.indptr))))
    odd = sp.csr_matrix(X.shape, dtype=X.dtype)
    odd.data, odd.indices = np.repeat(tidy.data[order], 2), np.repeat(tidy.indices[order], 2)
    odd.indices, odd.indptr = odd.indices.astype(np.int64), 2 * tidy.indptr.astype(np.int64)
    for part in (odd.data, odd.indices, odd.indptr):
        part.flags.writeable = False
    return odd


def worth_nan(X):
    X.data = X.data.astype(float)
    X.data[-1] = np.nan


def worth_less_than_nothing(X):
    X.data = X.data.astype(float)
    X.data[-1] = -1


def worth_too_much(X):
    X.data = X.data.astype(float)
    X.data[-1] = 1e300


@settings(max_examples=40, deadline=None)
@given(X=legal_counts(), which=st.integers(0, 2), bad=st.data())
def test_anything_is_fitted_or_refused(X, which, bad):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few documents
        fitted = assert_finite(ANYTHING[which], X)
    values = [beyond, far_beyond, negative, falling, not_from_zero, past_the_end]
    values += [too_few_values, too_few_rows, worth_nan, worth_less_than_nothing, worth_too_much]
    broken = sp.vstack([sp.csr_matrix(np.ones((6, X.shape[1]))), sp.csr_matrix(X)], format="csr")
    bad.draw(st.sampled_from(values))(broken)
    methods = [name for name in METHODS if hasattr(fitted, name)]
    with pytest.raises(ValueError):
        getattr(fitted, bad.draw(st.sampled_from(methods)))(broken)
