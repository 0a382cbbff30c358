"""scikit-learn's own checks, and the ones that check_estimator leaves out."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks as checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_sparsepost import AliasLDA, GibbsCTM, SparseHDP, SparseLDA, SparseMixture

# The checks fit small data with many settings, fractions to samplers among them; the warnings about
# few documents and about fractions have their own tests.
# The checks mix data frames and arrays on purpose.
pytestmark = [
    pytest.mark.filterwarnings("ignore:n_components=.* is more than:UserWarning"),
    pytest.mark.filterwarnings("ignore:X has fractional counts:UserWarning"),
    pytest.mark.filterwarnings("ignore:some features are constant:UserWarning"),
    pytest.mark.filterwarnings("ignore:X (does not have valid|has) feature names:UserWarning"),
]

ESTIMATORS = [
    SparseLDA(n_components=3, random_state=0),
    SparseLDA(n_components=3, sparsity_level=2, learning_method="online", random_state=0),
    SparseLDA(n_components=3, sparsity_level=None, learning_method="batch", random_state=0),
    SparseLDA(n_components=3, doc_topic_prior="auto", random_state=0),
    SparseLDA(n_components=3, learning_method="batch", init="random", random_state=0),
    SparseLDA(n_components=3, learning_method="batch", init="anchor", random_state=0),
    AliasLDA(n_components=3, max_iter=10, random_state=0),
    AliasLDA(n_components=3, max_iter=10, sampler="alias", doc_topic_prior="auto", random_state=0),
    AliasLDA(n_components=3, max_iter=6, topic_word_prior_type="pitman_yor", random_state=0),
    AliasLDA(3, max_iter=6, doc_topic_prior_type="dirichlet_process", random_state=0),
    SparseHDP(n_components=4, random_state=0),
    SparseHDP(n_components=4, learning_method="online", random_state=0),
    GibbsCTM(n_components=3, max_iter=5, random_state=0),
    GibbsCTM(3, max_iter=5, covariance_type="diag", sampler="alias", random_state=0),
]
MIXTURES = [
    SparseMixture(random_state=0),
    SparseMixture(n_components=2, sparsity_level=1, learning_method="batch", random_state=0),
    SparseMixture(learning_method="online", covariance_type="diag", random_state=0),
    SparseMixture(estimation="ml", covariance_type="spherical", random_state=0),
    SparseMixture(weight_concentration_prior_type="dirichlet_process", random_state=0),
    SparseMixture(observation="multinomial", n_components=2, random_state=0),
]


WEIGHTS = (
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
)


def declared(estimator):
    """Checks that fail by what an estimator is.

    Those of weights shuffle rows, too. Tokens are drawn, and documents dealt to batches, by their
    numbers; batch learning from a start without draws of documents passes.
    """
    by_number = {
        SparseLDA: getattr(estimator, "learning_method", None) == "memoized",
        AliasLDA: True,
        GibbsCTM: True,
    }
    if by_number.get(type(estimator), False):
        return dict.fromkeys(WEIGHTS, "batches and draws go by the numbers of rows")
    return {}


@parametrize_with_checks([*ESTIMATORS, *MIXTURES], expected_failed_checks=declared)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "check",
    [
        checks.check_param_validation,
        checks.check_set_output_transform,
        checks.check_set_output_transform_pandas,
        checks.check_global_output_transform_pandas,
        checks.check_dataframe_column_names_consistency,
        checks.check_transformer_get_feature_names_out,
        checks.check_transformer_get_feature_names_out_pandas,
        checks.check_n_features_in_after_fitting,
    ],
)
@pytest.mark.parametrize(
    "estimator", [ESTIMATORS[i] for i in (0, 4, 6)], ids=lambda found: type(found).__name__
)
def test_checks_that_check_estimator_leaves_out(check, estimator):
    check(type(estimator).__name__, estimator)


@pytest.mark.parametrize(
    "check",
    [
        checks.check_param_validation,
        checks.check_dataframe_column_names_consistency,
        checks.check_n_features_in_after_fitting,
    ],
)
@pytest.mark.parametrize("estimator", MIXTURES[::5], ids=lambda found: found.observation)
def test_checks_of_mixtures_that_check_estimator_leaves_out(check, estimator):
    check(type(estimator).__name__, estimator)


TEXTS = ["topic models of text", "text and words", "words of topic models", "cats and dogs"] * 5


def test_grid_search_over_topics_sparsity_and_learning_rate():
    pipeline = make_pipeline(CountVectorizer(), SparseLDA(random_state=0, max_iter=3))
    grid = {
        "sparselda__n_components": [2, 3],
        "sparselda__sparsity_level": [1, None],
        "sparselda__learning_decay": [0.6, 0.9],
        "sparselda__learning_method": ["online"],
    }
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(TEXTS)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()
    assert search.transform(TEXTS).shape == (20, search.best_params_["sparselda__n_components"])


def test_clone_and_set_output():
    lda = clone(SparseLDA(n_components=3, random_state=0)).set_output(transform="pandas")
    X = CountVectorizer().fit_transform(TEXTS)
    frame = lda.fit_transform(X)
    assert list(frame.columns) == ["sparselda0", "sparselda1", "sparselda2"]
