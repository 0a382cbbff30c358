"""Chunks of data, threads and workers: knows data and who works on them, never a model."""
