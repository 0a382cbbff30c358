"""Chains of Pitman-Yor topics over blocks of documents, as :mod:`.blocks` has them.

In a sweep every block opens and closes tables as it draws its tokens, beginning with the tables of
all blocks as they were at the sweep's start. What all of them changed is added up, as for counts;
that is no seating yet: there may be more tables than tokens, or tokens at none. So it is brought
between bounds, and the tables of each word in each topic are drawn given all tokens and all other
tables. Where there is one block its own tables are a seating, and the draw leaves their
distribution as it is.
"""

import numpy as np
import scipy.sparse as sp

from sklearn_sparsepost._kernels._stirling import WIDTH, draw_tables
from sklearn_sparsepost._run.streams import SEATING
from sklearn_sparsepost._sampling.blocks import InBlocks, ListedCounts, Start, narrow
from sklearn_sparsepost._sampling.chain import cells_of
from sklearn_sparsepost._sampling.pitman_yor import PitmanYorChain
from sklearn_sparsepost._sampling.process import ProcessDocuments

MOST_TABLES = WIDTH - 1
# Of the draws after a sweep, beside those of Pitman-Yor topics and of processes of documents.
TABLES = 4


class SeatedCounts(ListedCounts):
    """Counts of words in topics, and tables, as lists, which nobody writes to.

    Parameters
    ----------
    arrays : dict of str to ndarray
        `row_ptr`, `topics`, `counts` and `tables`, word by word.
    """

    @classmethod
    def seated(cls, counts, tables):
        """Counts whose tokens sit at tables that are given for each of them, within bounds."""
        most = np.minimum(counts.arrays["counts"], MOST_TABLES)
        return cls({**counts.arrays, "tables": np.clip(tables, 1, most).astype(np.int32)})

    def to_tables(self):
        """The tables of words in topics, an entry for each of `to_lists`."""
        return self.arrays["tables"]

    def table_of_tables(self, n_components):
        """The tables as a table of words in topics."""
        row_ptr, topics, _ = self.to_lists()
        return _as_table(row_ptr, topics, self.to_tables(), n_components)


def _as_table(row_ptr, topics, values, n_components):
    return sp.csr_array((values, topics, row_ptr), shape=(len(row_ptr) - 1, n_components))


class SeatedStart(Start):
    """What all blocks are given for a sweep.

    Parameters
    ----------
    chain : PitmanYorInBlocks
        Where the chain stands.
    n_steps : int
        Metropolis-Hastings steps a token.
    """

    seated = True

    def __init__(self, chain, n_steps):
        super().__init__(chain, n_steps)
        self.tables = chain.counts.to_tables().astype(np.min_scalar_type(MOST_TABLES))
        self.totals = chain.topic_totals()
        self.given = chain.seating()

    def counts_for(self, tokens):
        """As for :class:`Start`, the tokens of all blocks seated."""
        found = super().counts_for(tokens)
        row_ptr, topics, _ = self.lists
        found.seat(self.given[2], row_ptr, topics, self.tables.astype(np.int32))
        return found

    def topic_totals(self):
        """As for :class:`Start`."""
        return self.totals

    def seating(self):
        """As for :class:`Start`."""
        *given, n_tables = self.given
        return *given, n_tables.copy()

    def all_changes(self, tokens, counts, changes):
        """As for :class:`Start`: what has changed in tables is below what has in counts."""
        n_components = changes.shape[1]
        row_ptr, topics, _ = self.lists
        words = np.repeat(np.arange(len(row_ptr) - 1), np.diff(row_ptr))
        own = tokens.size[words] > 0  # of the other words a block has no counts
        before = self.tables[own].astype(np.int32), (words[own], topics[own])
        row_ptr, topics, _ = counts.to_lists()
        after = _as_table(row_ptr, topics, counts.to_tables(), n_components)
        tables = after - sp.coo_array(before, shape=changes.shape).tocsr()
        return narrow(sp.vstack([changes, tables], format="csr"))


class SeatedInBlocks(InBlocks):
    """What a chain of Pitman-Yor topics is whose tokens are in blocks."""

    @property
    def start_type(self):
        """What blocks are given for the next sweep."""
        return SeatedStart if self.sits_down else Start

    # ------------------------------------------------------------------ counts

    def _new_counts(self):
        counts = super()._new_counts()
        if self.held is None:
            return self._seated(counts, self._no_tables(counts))
        return self._seated(counts, self.held.table_of_tables(self.n_components))

    def _no_tables(self, counts):
        return sp.csr_array(counts.to_table(self.n_components).shape, dtype=np.int32)

    def _counts_from(self, arrays):
        return SeatedCounts(arrays)

    def _hold(self):
        # Nobody writes to counts in blocks.
        self.held = self.counts

    def _seated(self, counts, tables):
        """Counts seated at the tables that a table of words in topics has, within bounds."""
        tables.sum_duplicates()
        lists = tables.indptr, tables.indices, tables.data
        have, values = cells_of(lists, self.n_components)
        cells, _ = cells_of(counts.to_lists(), self.n_components)
        wanted = np.zeros(len(cells), dtype=np.int32)
        _, here, there = np.intersect1d(cells, have, assume_unique=True, return_indices=True)
        wanted[here] = values[there]
        seated = SeatedCounts.seated(counts, wanted)
        topics = counts.arrays["topics"]
        n_tables = np.bincount(topics, seated.to_tables(), minlength=self.n_components)
        self.n_tables = n_tables.astype(np.int64)
        return seated

    def seat_again(self):
        """As for :class:`PitmanYorChain`: blocks seat tokens at the start of every sweep."""

    def word_tables(self):
        """As for :class:`PitmanYorChain`."""
        return self.counts.table_of_tables(self.n_components).sum(axis=1, dtype=np.int64)

    # ------------------------------------------------------------------ going on

    def extended(self, tokens, z, **settings):
        """As for :class:`PitmanYorChain`."""
        self._hold()
        return super().extended(tokens, z, **settings)

    # ------------------------------------------------------------------ sweeps

    def _changed(self, total):
        n_features = len(self.tokens.size)
        counts = super()._changed(total[:n_features])
        if not self.sits_down:
            return self._seated(counts, self._no_tables(counts))
        tables = self.counts.table_of_tables(self.n_components) + total[n_features:]
        seated = self._seated(counts, tables)
        draw_tables(
            self.steps[1],
            *seated.to_lists(),
            seated.to_tables(),
            self.prior.base,
            self.discount,
            self.concentration,
            self.n_tables,
            self.seed,
            SEATING + self.n_passes + 1,
            TABLES,
        )
        return seated

    def __getstate__(self):
        # What is held is needed only while counts are made anew.
        return {**super().__getstate__(), "held": None}


class PitmanYorInBlocks(SeatedInBlocks, PitmanYorChain):
    """A chain of topics from Pitman-Yor processes over blocks."""


class ProcessPitmanYorInBlocks(ProcessDocuments, SeatedInBlocks, PitmanYorChain):
    """A chain of Pitman-Yor topics and a Dirichlet process over documents in blocks."""
