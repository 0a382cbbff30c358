"""What is made of the blocks of a Dask array and stays where these are."""

from copy import copy

from sklearn_sparsepost._run.collections import _told_of_lost_cluster


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


def only_block(X):
    """The only block of some data, brought to this process."""
    [block] = X.work(_itself, [(0, ())], None)
    return block


def _itself(part, shared):
    return part
