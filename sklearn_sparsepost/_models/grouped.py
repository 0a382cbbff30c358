"""Rows in groups under components that stay: topic weights, responsibilities, likelihoods.

What is found of a group depends on its rows alone. Steps read `observation`, `table` and, for
likelihoods, a `point_table` of it, `documents` and their prior `alpha` from the globals.
"""

import numpy as np

from sklearn_sparsepost._models.admixture import Items, occurrence_shares
from sklearn_sparsepost._models.inference import active_only

# Parts that the rows of a group are dealt to: each is predicted from all others.
N_FOLDS = 5


def group_weights(chunk, globals_, key=None):
    """Find posterior means of the topic weights of a chunk's groups.

    Parameters
    ----------
    chunk : DenseChunk
        Rows in groups.
    globals_ : Globals
        With `active` besides, whether only topics that have rows are wanted.
    key : object
        Not used.

    Returns
    -------
    weights : ndarray or csr_matrix of shape (n_groups, n_components)
        Rows sum to 1.
    """
    items, weights = _items(chunk, globals_)
    counts = globals_.documents.fit(
        items.indptr, items.local, items.counts, weights, globals_.alpha, want_mass=True
    )[2]
    found = counts + globals_.alpha
    return active_only(found, counts) if globals_.active else _normalised(found)


def row_shares(chunk, globals_, key=None):
    """Find L-sparse responsibilities of a chunk's rows.

    Parameters
    ----------
    chunk : DenseChunk
        Rows in groups.
    globals_ : Globals
        What is read.
    key : object
        Not used.

    Returns
    -------
    shares : csr_array of shape (n_rows, n_components)
        Rows sum to 1.
    """
    items, weights = _items(chunk, globals_)
    index, resp, *_ = globals_.documents.fit(
        items.indptr, items.local, items.counts, weights, globals_.alpha
    )
    return occurrence_shares(items, index, resp, weights[0])


def row_predictions(chunk, globals_, key):
    """Compute the log-likelihood of each row given most other rows of its group.

    The rows of a group are dealt to `N_FOLDS` parts at random. The topic weights that a part is
    predicted with are inferred from the others, by dense mean field.

    Parameters
    ----------
    chunk : DenseChunk
        Rows in groups.
    globals_ : Globals
        What is read.
    key : tuple of int
        The seed. Groups of as many rows are dealt alike.

    Returns
    -------
    values : ndarray of shape (n_rows,), float64
        In nats.
    """
    observation, alpha = globals_.observation, globals_.alpha
    documents = globals_.documents.dense()
    items, weights = _items(chunk, globals_)
    rows = observation.prepare(items.rows)
    joint = np.array(observation.log_likelihood(rows, globals_.point_table), dtype=np.float64)
    out = joint.max(axis=1)
    density = np.exp(np.subtract(joint, out[:, None], out=joint), out=joint)
    n_groups = len(items.indptr) - 1
    group = np.repeat(np.arange(n_groups), np.diff(items.indptr))
    fold = deal_rows(items.indptr, key[0])
    for hidden in (fold == f for f in range(N_FOLDS)):
        given = np.flatnonzero(~hidden)
        indptr = np.zeros(n_groups + 1, dtype=np.int64)
        np.cumsum(np.bincount(group[given], minlength=n_groups), out=indptr[1:])
        part = indptr, items.local[given], items.counts[given]
        counts = documents.fit(*part, weights, alpha, want_mass=True)[2]
        share = _normalised(counts + alpha)
        out[hidden] += np.log((density[hidden] * share[group[hidden]]).sum(axis=1))
    base = observation.log_base(rows)
    return out if base is None else out + base


def deal_rows(indptr, seed):
    """Deal the rows of each group to parts of nearly equal size, at random.

    Parameters
    ----------
    indptr : ndarray of shape (n_groups + 1,)
        Where each group begins.
    seed : int
        Of the draws: the same for groups of the same number of rows, whatever the others are.

    Returns
    -------
    fold : ndarray of shape (n_rows,)
        The part of each row.
    """
    sizes = np.diff(indptr)
    group = np.repeat(np.arange(len(sizes)), sizes)
    place = np.arange(indptr[-1]) - indptr[group]
    drawn = np.random.default_rng(seed).random(sizes.max(initial=0))
    fold = np.empty(len(group), dtype=np.intp)
    fold[np.lexsort((drawn[place], group))] = place % N_FOLDS
    return fold


def _items(chunk, globals_):
    """A chunk's items, and what components make of them."""
    items = Items(chunk)
    level = globals_.documents.level(len(globals_.alpha))
    dtype = items.counts.dtype
    return items, globals_.observation.item_weights(items, globals_.table, level, dtype)


def _normalised(weights):
    return weights / weights.sum(axis=1, keepdims=True)
