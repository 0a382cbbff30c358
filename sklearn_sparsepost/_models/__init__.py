"""Models: pure functions of a chunk of data and of global parameters."""
