"""Random streams, keyed by seed, pass and purpose, or by seed, pass and unit; never by thread."""

from sklearn_sparsepost._kernels._rng import keyed_generator

# Purposes that draw from the same seed, told apart by the `unit` of the stream.
STREAM_INIT, STREAM_BATCHES, STREAM_ORDER, STREAM_SAMPLE, STREAM_MOVES = range(5)

# In place of a pass, or added to its number, where units are rows: held-out estimates, local steps
# that draw, rounding of fractions, first topics of tokens; logits, and with no units their prior.
LEFT_TO_RIGHT, LOCAL_DRAWS, ROUNDING, FIRST_DRAWS = 1 << 59, 1 << 60, 1 << 61, 1 << 62
LOGITS, LOGIT_PRIOR = 1 << 58, 1 << 57
# With no units: discounts and concentrations.
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
    "STREAM_INIT",
    "STREAM_MOVES",
    "STREAM_ORDER",
    "STREAM_SAMPLE",
    "keyed_generator",
]
