"""What is made of the blocks of a Dask array and stays where these are."""

from copy import copy

import numpy as np

from sklearn_sparsepost._run.chunks import Grouping, codes_of, runs_of
from sklearn_sparsepost._run.collections import Blocks, _client_of, as_array, is_collection
from sklearn_sparsepost._run.dispatch import told_of_lost_cluster


def derived(X, function, given):
    """Blocks made of others, held where these are; who loses one makes it anew.

    Parameters
    ----------
    X : Blocks
        The data.
    function : callable
        ``function(block, *given)``; pure and picklable.
    given : list of tuple
        For each block what it is given.

    Returns
    -------
    blocks : Blocks
        What it returned, of as many rows each.
    """
    made = copy(X)
    if X.client is None:
        made.parts = [function(part, *own) for part, own in zip(X.parts, given, strict=True)]
        return made
    with told_of_lost_cluster():
        made.parts = [
            X.client.submit(function, part, *own, pure=False)
            for part, own in zip(X.parts, given, strict=True)
        ]
    return made


def is_at_hand(X, client):
    """Whether some blocks, or None, are with a client, or here, and were not lost for good."""
    if X is None or X.client is not client:
        return False
    return client is None or all(part.status in ("pending", "finished") for part in X.parts)


def joined(first, second):
    """The blocks of both, those of `second` after those of `first`.

    Parameters
    ----------
    first, second : Blocks
        On one cluster, or both in this process.

    Returns
    -------
    blocks : Blocks
        All of them.

    Raises
    ------
    ValueError
        If others hold them.
    """
    if first.client is not second.client:
        raise ValueError(
            "the blocks of X are with another Dask client than those before, or with none: who "
            "appends blocks does so with the client of the first ones"
        )
    parts, notes = first.parts + second.parts, first.notes + second.notes
    return Blocks(parts, notes, second.client, second.given)


def only_block(X):
    """The only block of some data, brought to this process."""
    [block] = X.work(_itself, [(0, ())], None)
    return block


def _itself(part, shared):
    return part


def group_blocks(X, groups):
    """Bring the rows of each group together, in every block where it is.

    Parameters
    ----------
    X : Blocks
        Dense rows.
    groups : array-like or Dask array of shape (n_rows,)
        A label for each row.

    Returns
    -------
    X : Blocks
        The same blocks where the rows of each group are neighbours, else copies, group by group.
    grouping : Grouping
        Where these are.

    Raises
    ------
    ValueError
        As of :func:`group_rows`; or if a group has rows of two blocks.
    """
    if is_collection(groups):
        groups = np.concatenate(_brought(groups))
    grouping, orders = _group_runs(groups, X.edges)
    if grouping.rows is not None:
        X = derived(X, _in_order, [(order,) for order in orders])
    return X, grouping


def labels_by_block(X, groups):
    """The labels of the rows of each block of a Dask array that is not computed yet.

    Parameters
    ----------
    X : dask.array.Array of shape (n_rows, n_features)
        The rows.
    groups : array-like or Dask array of shape (n_rows,)
        A label for each row.

    Returns
    -------
    parts : list of ndarray
        The labels.
    grouping : Grouping
        Where rows and groups stand if those of each block are brought together.

    Raises
    ------
    ValueError
        As of :func:`group_blocks`; or if nobody knows where the blocks begin.
    """
    sizes, parts = np.array(X.chunks[0], dtype=float), None
    if is_collection(groups):
        parts = _brought(groups)
        groups = np.concatenate(parts)
    if np.isnan(sizes).any():
        if parts is None or len(parts) != len(sizes):
            raise ValueError(
                "X is a Dask array whose numbers of rows are unknown: have them counted by "
                "X.compute_chunk_sizes(), or give groups as a Dask array in the same blocks"
            )
        sizes = np.array([len(part) for part in parts])
    edges = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    grouping, _ = _group_runs(groups, edges)
    return np.split(np.asarray(groups), edges[1:-1]), grouping


def _brought(groups):
    """The blocks of a Dask array of labels, in this process."""
    import dask

    groups = as_array(groups)
    parts = list(groups.to_delayed().ravel())
    with told_of_lost_cluster():
        client = _client_of(groups)
        return (
            list(dask.compute(*parts)) if client is None else client.gather(client.compute(parts))
        )


def _group_runs(groups, edges):
    """The grouping of rows in blocks, and the order that they have in each, or None."""
    labels, codes = codes_of(groups, int(edges[-1]))
    home = np.full(len(labels), -1)
    found = []
    for block, (first, last) in enumerate(zip(edges[:-1], edges[1:], strict=True)):
        indptr, units, order = runs_of(codes[first:last])
        if (home[units] >= 0).any():
            unit = units[np.argmax(home[units] >= 0)]
            [label] = labels[unit : unit + 1].tolist()
            raise ValueError(
                f"group {label!r} has rows in blocks {home[unit]} and {block} of X, "
                "but those of a group must be in one block of a Dask array: rechunk X where "
                "groups end"
            )
        home[units] = block
        found.append((first + indptr[:-1], units, order))
    starts, units, orders = zip(*found, strict=True)
    rows = None
    if any(order is not None for order in orders):
        rows = np.arange(edges[-1])
        for first, order in zip(edges[:-1], orders, strict=True):
            if order is not None:
                rows[first : first + len(order)] = first + order
    indptr = np.append(np.concatenate(starts), edges[-1])
    return Grouping(indptr, labels, np.concatenate(units), rows), orders


def _in_order(block, order):
    return block if order is None else block[order]
