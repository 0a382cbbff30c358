"""What is made of the blocks of a Dask array and stays where these are."""

from copy import copy

from sklearn_sparsepost._run.collections import Blocks, _told_of_lost_cluster


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
    with _told_of_lost_cluster():
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
