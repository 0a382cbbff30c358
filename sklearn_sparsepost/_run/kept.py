"""What chunks of blocks start from in the next pass, kept where the blocks are.

It comes to the client as well, once a pass, so that no worker's death loses any. What is not sent
back is what the worker that has the block knows already.
"""

from itertools import count
from typing import NamedTuple

# Numbers of states, none of which two visits or sweeps of this process have: one that was given up
# may end after the next one has begun. 0 is before the first.
STATES = count(1)


class Known(NamedTuple):
    """A start that is where its chunk is."""

    number: int


class StartLost(Exception):
    """A worker does not have what it is said to know."""


class HeldRows:
    """A block where it is, and what was last kept of its chunks.

    Tasks write `kept`, and whoever made the block anew has nothing there: so who says that a start
    is known says of which visit.

    Parameters
    ----------
    rows : ndarray or csr_matrix
        The block.

    Attributes
    ----------
    kept : dict of int to (int, object)
        For each chunk, by the number of its first unit, the visit's number and what was kept.
    """

    def __init__(self, rows):
        self.rows = rows
        self.kept = {}

    def starts(self, units, given):
        """What chunks start from, who are given it, or the number of the visit that kept it."""
        return [
            self._known(unit, start.number) if isinstance(start, Known) else start
            for unit, start in zip(units, given, strict=True)
        ]

    def _known(self, unit, number):
        kept_in, start = self.kept.get(unit, (0, None))
        if kept_in != number:
            raise StartLost(f"of the chunk of unit {unit}")
        return start

    def keep(self, units, number, found):
        """Keep what a visit has found of chunks."""
        self.kept.update((unit, (number, own)) for unit, own in zip(units, found, strict=True))


class KeptStarts:
    """What the client knows of starts that workers keep.

    Parameters
    ----------
    X : Blocks
        The data.

    Attributes
    ----------
    blocks : Blocks
        Of :class:`HeldRows`.
    """

    def __init__(self, X):
        self.blocks = X.derived(HeldRows, [()] * len(X.parts))
        self.blocks.each(bool)  # so that it is known where they are
        self._last = {}  # by a chunk's first unit what it kept, on which worker, in which visit

    def visits(self, made, units, where, starts):
        """Make visits whose chunks start from what was kept, and keep what they find.

        Parameters
        ----------
        made : callable
            ``made(blocks, starts, number, first)`` yields statistics and what is kept of chunks, of
            all, or from the first that is wanted on.
        units : list of int
            The first unit of each chunk.
        where : list of int
            Its block.
        starts : list
            What each starts from, as it came from the visit before; None of one that was not.

        Yields
        ------
        stats : SuffStats
            Of one or more chunks.
        kept : list
            What is kept of each of these.
        """
        number, homes, done = next(STATES), self.blocks.homes(), 0
        known = []
        for unit, block, start in zip(units, where, starts, strict=True):
            last, home, last_number = self._last.get(unit, (None, None, 0))
            is_there = start is not None and start is last and home and homes[block] == home
            known.append(Known(last_number) if is_there else start)
        for given in (known, starts):  # all that there is, should a worker have died meanwhile
            try:
                for stats, kept in made(self.blocks, given, number, done):
                    for n, own in enumerate(kept, done):
                        self._last[units[n]] = own, homes[where[n]], number
                    done += len(kept)
                    yield stats, kept
                    del stats, kept  # or they would be held beside the next
                return
            except StartLost:
                continue
