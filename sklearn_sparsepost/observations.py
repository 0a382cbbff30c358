"""The interface of observation models, to add your own to a mixture or to mixed membership.

:class:`~sklearn_sparsepost.SparseMixture` takes a callable that returns one of these as its
`observation`; the models of :mod:`sklearn_sparsepost.models` take one as it stands.
"""

from sklearn_sparsepost._models.observation import ItemLists, Observation

__all__ = ["ItemLists", "Observation"]
