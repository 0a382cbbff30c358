"""What chunks of blocks start from in the next pass, kept where the blocks are.

It comes to the client as well, once a pass, so that no worker's death loses any. What is not sent
back is what the worker that has the block knows already.
"""

import weakref
from copy import copy
from itertools import count
from typing import NamedTuple

# Numbers of states, none of which two visits or sweeps of this process have: one that was given up
# may end after the next one has begun. 0 is before the first.
STATES = count(1)
# What was last kept of blocks of this process, by their ids: for each chunk, by its first unit, the
# number of the visit that has kept it, and what. It goes with the block.
_KEPT = {}
# Visits of a fit that find lost what workers were said to know, before all is sent: work has been
# moved, then, to workers who had nothing to do, and will be.
MOST_LOST = 3


class Known(NamedTuple):
    """A start that is where its chunk is, by the number of the visit that has kept it."""

    number: int


class NotThere(Exception):
    """A worker does not have what it was thought to have, and is to be sent it."""


class StartLost(NotThere):
    """A worker does not have what it is said to know."""


class _Found(NamedTuple):
    """What was kept of a chunk, and by which worker."""

    value: object
    place: str


# ---------------------------------------------------------------------- what workers do


def starts_of(block, units, given):
    """What chunks of a block start from, who are given it, or are said to know it."""
    held = _KEPT.get(id(block), {})
    return [
        _known(held, unit, start) if isinstance(start, Known) else start
        for unit, start in zip(units, given, strict=True)
    ]


def _known(held, unit, known):
    number, start = held.get(unit, (0, None))
    if number != known.number:
        raise StartLost(f"of the chunk of unit {unit}")
    return start


def keep(block, units, number, found):
    """Keep what a visit has found of chunks of a block; returned with where that is.

    Of each a copy, which is what comes of it if it travels: so who is sent it starts alike.
    """
    from distributed import get_worker

    if id(block) not in _KEPT:
        weakref.finalize(block, _KEPT.pop, id(block), None).atexit = False
    held = _KEPT.setdefault(id(block), {})
    held.update((unit, (number, copy(own))) for unit, own in zip(units, found, strict=True))
    place = get_worker().address
    return [_Found(own, place) for own in found]


# ---------------------------------------------------------------------- what the client does


class KeptStarts:
    """What the client knows of starts that workers keep."""

    def __init__(self):
        self._last = {}  # by a chunk's first unit what was found, and in which visit
        self._n_lost = 0

    def visits(self, made, units, where, starts):
        """Make visits whose chunks start from what was kept, and have kept what they find.

        Parameters
        ----------
        made : callable
            ``made(starts, number, first)`` yields statistics and what is kept of chunks, of all, or
            from the first that is wanted on.
        units : list of int
            The first unit of each chunk.
        where : list of str
            On which worker its block is; None if nobody has it.
        starts : list
            What each starts from, as it came from the visit before; None of one that was not.

        Yields
        ------
        stats : SuffStats
            Of one or more chunks.
        kept : list
            What is kept of each of these.
        """
        number, done, given = next(STATES), 0, starts
        if self._n_lost < MOST_LOST:
            given = [self._or_known(*chunk) for chunk in zip(units, where, starts, strict=True)]
        while True:
            try:
                for stats, kept in made(given, number, done):
                    own = zip(units[done:], kept, strict=False)
                    self._last.update((unit, (found, number)) for unit, found in own)
                    done += len(kept)
                    yield stats, [found.value for found in kept]
                    del stats, kept  # or they would be held beside the next
                return
            except StartLost:
                self._n_lost += 1
                given = starts

    def _or_known(self, unit, place, start):
        """A start, or that the worker who is to have it has kept it."""
        found, number = self._last.get(unit, (_Found(None, None), 0))
        is_there = start is not None and start is found.value and place == found.place
        return Known(number) if is_there else start
