"""The kernel of tables given tokens: its draws against enumeration, and at the most tables."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from reference import agrees
from scipy.special import gammaln
from test_pitman_yor_exact import GAMMA, log_words

from sklearn_sparsepost._kernels._stirling import draw_tables, rows_of_tokens, seating_steps

MOST = 255


class Seating:
    """Tokens of words in topics, which stay, and their tables, drawn sweep after sweep."""

    def __init__(self, counts, gamma, discount, concentration, tables=None):
        table = sp.csr_array(np.asarray(counts, dtype=np.int32))
        self.lists = table.indptr.astype(np.int64), table.indices.astype(np.int32), table.data
        self.n_components = table.shape[1]
        self.tables = np.ones(table.nnz, np.int32) if tables is None else tables
        self.n_tables = np.bincount(table.indices, self.tables, minlength=table.shape[1])
        self.n_tables = self.n_tables.astype(np.int64)
        logs = seating_steps(discount, int(table.data.max()))[1]
        self.given = np.asarray(gamma, dtype=float), discount, concentration
        self.logs, self.number = logs, 0

    def sweep(self, seed):
        self.number += 1
        given = *self.given, self.n_tables, seed, self.number, 4
        draw_tables(self.logs, *self.lists, self.tables, *given)


COUNTS_OF_WORDS = np.array([[3, 0], [2, 4], [1, 2]])


def enumerated_tables(a, b):
    """All tables of the words above, and their weights given the tokens."""
    z = np.repeat([0, 1] * 3, COUNTS_OF_WORDS.ravel())
    words = np.repeat(np.repeat(range(3), 2), COUNTS_OF_WORDS.ravel())
    cells = COUNTS_OF_WORDS[COUNTS_OF_WORDS > 0]
    found, logs = list(itertools.product(*(range(1, m + 1) for m in cells))), []
    for tables in found:
        full = np.zeros((3, 2), dtype=int)
        full[COUNTS_OF_WORDS > 0] = tables
        logs.append(log_words(words, z, full.T, GAMMA, a, b))
    return found, np.exp(logs - np.max(logs))


@pytest.mark.parametrize("a, b", [(0.0, 2.0), (0.4, 0.5), (0.9, 8.0)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_frequencies_of_tables_are_those_given_the_tokens(a, b, seed):
    """A long chain of tables of given tokens against the enumeration of all of them."""
    found, weights = enumerated_tables(a, b)
    number = {tables: i for i, tables in enumerate(found)}
    seating, seen = Seating(COUNTS_OF_WORDS, GAMMA, a, b), np.zeros(len(found))
    for _ in range(6000):
        for _ in range(3):  # neighbours in the chain are alike
            seating.sweep(seed)
        seen[number[tuple(map(int, seating.tables))]] += 1
    assert agrees(seen, weights)
    # Had tables been drawn by what neither topics nor words share, it would be seen.
    alone = [np.prod([1.0 / s for s in tables]) for tables in found]
    assert not agrees(seen, np.array(alone))


def weights_of_tables(steps, cell, tables, counts, gamma, a, b):
    """What numbers of tables of one cell weigh, given all others: the slow way, over all cells."""
    most, logs = min(counts[cell], MOST), []
    for s in range(1, most + 1):
        tables[cell] = s
        rows, shares = rows_of_tokens([counts[cell]])
        value = (1 - shares[0]) * steps[rows[0], s] + shares[0] * steps[rows[0] + 1, s]
        of_topic, of_word = tables[:, cell[1]].sum(), tables.sum(axis=1) + gamma
        value += np.log(b + a * np.arange(of_topic)).sum()
        logs.append(value + gammaln(of_word).sum() - gammaln(of_word.sum()))
    return np.exp(logs - np.max(logs))


@pytest.mark.parametrize("many", [40, 1301, 70_000])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_tables_of_a_frequent_word(many, seed):
    """Between the rows of the table of Stirling numbers, and where tables are at their most."""
    counts, a, b = np.array([[many, 1], [1, 1], [0, 1]]), 0.3, 4000.0 if many > 60_000 else 20.0
    seating = Seating(counts, GAMMA, a, b)
    # Rows of the table differ so little that what lies between would not be seen.
    seating.logs[1::2] -= 0.1 * np.arange(MOST + 1)
    given = seating.logs, (0, 0), (counts > 0).astype(int), counts
    want = weights_of_tables(*given, GAMMA, a, b)
    seen = np.zeros(len(want))
    for _ in range(4000):
        seating.sweep(seed)
        seen[seating.tables[0] - 1] += 1  # of all cells the only one with a choice
        assert seating.n_tables.tolist() == [seating.tables[0] + 1, 3]
    assert agrees(seen, want)
    assert (np.flatnonzero(seen).max() == MOST - 1) == (many > 60_000)
