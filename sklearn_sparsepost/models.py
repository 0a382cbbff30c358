"""What estimators are put together from, to build one of your own.

A model is an :class:`~sklearn_sparsepost.observations.Observation` and a model of how components
are chosen: a :class:`Mixture` with weights for all data, or an :class:`Admixture` with weights for
each group. The passes know no more of it than :class:`Model` declares. See :ref:`add_an_estimator`.
"""

from sklearn_sparsepost._learning.loops import (
    batch_pass,
    memoized_pass,
    online_pass,
    stream_update,
)
from sklearn_sparsepost._learning.moves import pass_with_moves
from sklearn_sparsepost._learning.state import FitState, begin
from sklearn_sparsepost._models.admixture import Admixture
from sklearn_sparsepost._models.contract import Globals, Model
from sklearn_sparsepost._models.discrete import Bernoulli, Multinomial
from sklearn_sparsepost._models.documents import DirichletDocuments
from sklearn_sparsepost._models.mixture import Mixture
from sklearn_sparsepost._models.sampled import (
    GrowingMultinomial,
    SampledAdmixture,
    SampledDocuments,
)
from sklearn_sparsepost._models.weights import DirichletWeights, ProcessWeights
from sklearn_sparsepost._run.dispatch import Corpus

__all__ = [
    "Admixture",
    "Bernoulli",
    "Corpus",
    "DirichletDocuments",
    "DirichletWeights",
    "FitState",
    "Globals",
    "GrowingMultinomial",
    "Mixture",
    "Model",
    "Multinomial",
    "ProcessWeights",
    "SampledAdmixture",
    "SampledDocuments",
    "batch_pass",
    "begin",
    "memoized_pass",
    "online_pass",
    "pass_with_moves",
    "stream_update",
]
