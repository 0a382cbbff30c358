"""Random streams, keyed by seed, pass and purpose, or by seed, pass and unit; never by thread."""

import numpy as np

from sklearn_sparsepost._kernels._rng import keyed_generator

# Purposes that draw from the same seed, told apart by the `unit` of the stream.
STREAM_INIT, STREAM_BATCHES, STREAM_ORDER, STREAM_SAMPLE, STREAM_MOVES, STREAM_BIRTHS = range(6)

# In place of a pass, or added to its number, where units are rows: held-out estimates, local steps
# that draw, rounding of fractions, first topics of tokens; logits, and with no units their prior.
LEFT_TO_RIGHT, LOCAL_DRAWS, ROUNDING, FIRST_DRAWS = 1 << 59, 1 << 60, 1 << 61, 1 << 62
LOGITS, LOGIT_PRIOR = 1 << 58, 1 << 57
# With no units: discounts, concentrations, weights of topics.
SEATING = 1 << 56

__all__ = [
    "FIRST_DRAWS",
    "LEFT_TO_RIGHT",
    "LOCAL_DRAWS",
    "LOGITS",
    "LOGIT_PRIOR",
    "ROUNDING",
    "SEATING",
    "STREAM_BATCHES",
    "STREAM_BIRTHS",
    "STREAM_INIT",
    "STREAM_MOVES",
    "STREAM_ORDER",
    "STREAM_SAMPLE",
    "keyed_generator",
    "unit_uniforms",
]


def unit_uniforms(key, numbers):
    """One uniform number for each of some units, which no other unit has a part in.

    Parameters
    ----------
    key : int
        The stream.
    numbers : ndarray of shape (n_units,)
        The units' numbers in the data.

    Returns
    -------
    uniforms : ndarray of shape (n_units,)
        In [0, 1): hashes by SplitMix64 (Steele, Lea & Flood, OOPSLA 2014).
    """
    state = np.uint64(key) + (np.asarray(numbers).astype(np.uint64) + np.uint64(1)) * np.uint64(
        0x9E3779B97F4A7C15
    )
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((state ^ (state >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53
