"""scikit-learn's own tests of its LDA, with SparseLDA in place of its class.

What fails is listed with its reason, which "Coming from other libraries" tells users.
"""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest

from sklearn_sparsepost import SparseLDA

theirs = pytest.importorskip("sklearn.decomposition.tests.test_online_lda")

# Their tests look the class up where they are.
theirs.LatentDirichletAllocation = SparseLDA

NAME = "the class has another name"
SCORE = "score and perplexity are held-out predictions per token, and no bounds of all documents"
EXPECTED = {
    "test_lda_default_prior_params": "priors have other defaults",
    "test_lda_no_component_error": NAME,
    "test_lda_feature_names_out": NAME,
    "test_lda_preplexity_mismatch": "of a private method",
    "test_lda_perplexity": SCORE,
    "test_lda_score": SCORE,
    "test_lda_score_perplexity": SCORE,
    "test_lda_fit_perplexity": "bound_ is a perplexity there; here bound_history_ has bounds",
    "test_lda_empty_docs": "nothing can be learned from documents without words: an error",
    "test_lda_dtype_match": "exp_dirichlet_component_ is not kept: a second table of all topics",
    "test_verbosity": "a pass prints its bound, not a perplexity",
}
# Words of the row that tells it.
TOLD = {
    "test_lda_default_prior_params": "priors of 1 / K",
    "test_lda_no_component_error": "the class's in errors",
    "test_lda_feature_names_out": "``latentdirichletallocation0``",
    "test_lda_preplexity_mismatch": "`_perplexity_precomp_distr`",
    "test_lda_perplexity": "``perplexity(X, sub_sampling=...)``",
    "test_lda_score": "``score(X)``: a bound",
    "test_lda_score_perplexity": "``score(X)``: a bound",
    "test_lda_fit_perplexity": "`bound_`, which is a perplexity",
    "test_lda_empty_docs": "a corpus without any word",
    "test_lda_dtype_match": "`exp_dirichlet_component_`",
    "test_verbosity": "``verbose=1`` prints perplexities",
}
# Some of their parameters, or of the machines' last bits, pass.
MAY_PASS = {"test_lda_score", "test_verbosity"}


@pytest.fixture(params=[np.float32, np.float64])
def global_dtype(request):
    return request.param


@pytest.fixture
def global_random_seed():
    return 0


def _with_mark(name, function):
    if name not in EXPECTED:
        return function
    return pytest.mark.xfail(strict=name not in MAY_PASS, reason=EXPECTED[name])(function)


globals().update(
    {
        name: _with_mark(name, function)
        for name, function in inspect.getmembers(theirs, inspect.isfunction)
        if name.startswith("test_")
    }
)


def test_every_exception_is_one_of_theirs():
    assert set(EXPECTED) <= set(dir(theirs))


def test_every_exception_is_told_to_users():
    page = Path(__file__).parents[1] / "doc/user_guide/coming_from.rst"
    if not page.exists():
        pytest.skip("not in a checkout")
    section = page.read_text("utf-8").split("\nFrom scikit-learn\n")[1].split("\nFrom ")[0]
    rows = re.findall(r"^   \* - (.*?)^     - ", section, re.MULTILINE | re.DOTALL)
    assert set(TOLD) == set(EXPECTED)
    for words in TOLD.values():
        assert sum(words in row for row in rows) == 1, words
