"""Variational learning: where a fit stands, passes over the data, moves of components."""
