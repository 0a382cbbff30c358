"""Sampling: tokens and their topics, sweeps over them, averages of what they visit."""
