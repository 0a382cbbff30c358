"""Geweke's test (2004): other words under a chain's topics, and whether means are the prior's."""

import numpy as np
import scipy.sparse as sp


def move(state, n_steps=1, n_passes=1):
    """What a sweep does, in place: long chains need no copy of each state."""
    state.draw(n_steps)
    state.n_passes += n_passes


def replace_tokens(state, words, z, length):
    """Other words and topics, for documents of as many tokens each."""
    tokens = state.tokens
    tokens.size[:] = len(words)
    ends = np.arange(0, len(words) + 1, length)
    tokens.ptr, tokens.groups = np.column_stack([ends[:-1], ends[1:]]), np.array([0, len(ends) - 1])
    state.z, tokens.word = z.astype(np.uint16), words.astype(np.int32)
    state.recount()


def replace_words(state, words):
    """Other words under the same topics of tokens."""
    arrays = state.counts.arrays
    arrays["dense"][:] = 0
    if state.sampler in ("by_word", "sparse"):  # elsewhere the length of the alias table
        arrays["words"]["length"] = 0
    state.tokens.word = words.astype(np.int32)
    state.counts.add_tokens(state.tokens.word, state.z)
    state.count_topics()


def seat(state, tables):
    """Tokens of words at given numbers of tables, (n_components, n_features)."""
    lists = sp.csr_array(tables.T.astype(np.int32))
    lists = lists.indptr.astype(np.int64), lists.indices.astype(np.int32), lists.data
    state.n_tables = state.counts.seat(state.steps[0], *lists)


def have_one_mean(chain, drawn, n_batches, n_errors=4.5):
    """Whether a chain's means are those of independent draws, but for some standard errors."""
    batches = chain[: len(chain) // n_batches * n_batches]
    batches = batches.reshape(n_batches, -1, chain.shape[1]).mean(axis=1)
    error = np.sqrt(batches.var(axis=0) / n_batches + drawn.var(axis=0) / len(drawn))
    return (np.abs(batches.mean(axis=0) - drawn.mean(axis=0)) < n_errors * error).all()
