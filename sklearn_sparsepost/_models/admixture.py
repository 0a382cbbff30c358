"""Mixed membership: groups of items with weights of their own (Hughes & Sudderth 2016, 4)."""

from copy import copy
from functools import partial
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln, xlogy

from sklearn_sparsepost._kernels import _pairs, topic_stats, topic_words
from sklearn_sparsepost._models.contract import Globals, Model
from sklearn_sparsepost._models.documents import length_bound
from sklearn_sparsepost._models.tracking import (
    Tracked,
    Users,
    entropy_losses,
    list_entropy_losses,
)
from sklearn_sparsepost._models.word_weights import WordWeights
from sklearn_sparsepost._run.chunks import neighbours, row_sums
from sklearn_sparsepost._run.threads import single_blas, threads_for
from sklearn_sparsepost._suffstats import SuffStats
from sklearn_sparsepost._tables import ENTRY_WORK, SparseTable

# What a pair of components costs in a group, and a product of masses, in multiplications or so.
PAIR_WORK, OVERLAP_WORK = 48, 4
# Threads that index a chunk at most: each counts all words of the vocabulary.
INDEX_THREADS = 4
# What was indexed of chunks that somebody holds: passes meet the same ones again.
_INDEXED = WeakKeyDictionary()


class Items:
    """What a chunk's groups are made of: its distinct words, or the rows of dense data.

    Parameters
    ----------
    chunk : Chunk or DenseChunk
        Documents as rows of counts, or dense rows in groups.

    Attributes
    ----------
    indptr : ndarray of shape (n_groups + 1,)
        Where the occurrences of each group begin.
    local : ndarray of shape (n_occurrences,), int32
        Which item each occurrence is of.
    counts : ndarray of shape (n_occurrences,)
        How often it is there.
    ptr, occurrence : ndarray
        Item `i` is in ``occurrence[ptr[i]:ptr[i + 1]]``.
    words : ndarray of shape (n_items,), int32, or None
        The items' columns, if they are words.
    row : ndarray of shape (n_items,), int32
        Which row of the weights each item has, at first that of its number.
    weight : ndarray of shape (n_groups,) or None
        How often each group counts, if they are documents; None for once.
    """

    weight = None

    def __init__(self, chunk):
        self.indptr = chunk.indptr
        if hasattr(chunk, "indices"):
            if chunk not in _INDEXED:
                n_threads = min(threads_for(ENTRY_WORK * len(chunk.indices)), INDEX_THREADS)
                found = topic_words.index_words(chunk.indices, chunk.n_features, n_threads)
                _INDEXED[chunk] = found
            self.words, self.local, self.ptr, self.occurrence = _INDEXED[chunk]
            self.counts, self.n_features = chunk.data, chunk.n_features
            self.weight = chunk.weight
            self.row = np.arange(len(self.words), dtype=np.int32)
            return
        if chunk.indptr is None:
            raise ValueError("dense data have mixed membership in groups of rows: give groups")
        n_rows, dtype = chunk.n_rows, chunk.rows.dtype
        self.words, self._rows = None, chunk.rows
        self.local = self.row = np.arange(n_rows, dtype=np.int32)
        self.ptr = np.arange(n_rows + 1, dtype=np.int64)
        self.occurrence = np.arange(n_rows, dtype=np.int64)
        weight = np.ones(n_rows) if chunk.weight is None else chunk.weight
        self.counts = weight.astype(dtype, copy=False)

    @property
    def rows(self):
        """The items as rows of data, (n_items, n_features)."""
        if self.words is None:
            return self._rows
        n_items = len(self.words)
        ones = np.ones(n_items, dtype=self.counts.dtype)
        entries = ones, self.words, np.arange(n_items + 1)
        return sp.csr_array(entries, shape=(n_items, self.n_features))

    def of_words(self, words):
        """Other words than the chunk's as items, to be weighed."""
        new = copy(self)
        new.words = words
        return new

    def n_tokens(self):
        """Lengths of the groups, (n_groups,), each counted once."""
        return row_sums(self.indptr, self.counts)

    def sum(self, values):
        """Sum of numbers of the groups, each as often as it counts."""
        return values.sum(axis=0) if self.weight is None else self.weight @ values

    def base(self, base):
        """Sum of numbers of the items over all occurrences, as often as their groups count."""
        counts = self.counts if self.weight is None else self.counts * self._weights()
        return float(counts @ base[self.local])

    def _weights(self):
        """For each occurrence how often its group counts."""
        return np.repeat(self.weight, np.diff(self.indptr))

    def weigh(self, resp):
        """Have each group's responsibilities, or their factors, count as often as it does."""
        if self.weight is not None:
            with np.errstate(all="ignore"):  # behind the end of a list may be anything
                resp[: len(self.local)] *= self._weights().astype(resp.dtype)[:, np.newaxis]


class Admixture(Model):
    """An observation model and a model of documents, put together.

    Parameters
    ----------
    observation : Observation
        What items look like inside a component.
    documents : DirichletDocuments
        How a group's components are chosen.
    n_components : int
        Number of components, K.
    dtype : dtype, default="float64"
        Type of the data.
    keeps_local : bool, default=False
        Whether documents start each pass from their last expected topic counts.
    judge : Observation, default=None
        The observation model whose terms the bound has, by default `observation`. Densities of
        point estimates cannot be compared between numbers of components: posteriors can.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsepost.datasets import make_bars
    >>> from sklearn_sparsepost.models import (
    ...     Admixture, Corpus, DirichletDocuments, Multinomial, begin, memoized_pass
    ... )
    >>> X, topics, doc_topic = make_bars(200, random_state=0)
    >>> documents = DirichletDocuments(np.full(10, 0.05), sparsity_level=4)
    >>> model = Admixture(Multinomial("bayes", np.full((1, 1), 0.1), X.shape[1]), documents, 10)
    >>> corpus = Corpus(X, np.float64)
    >>> state = memoized_pass(model, corpus, begin(model, corpus, doc_topic))
    >>> state.stats["feature_counts"].shape
    (25, 10)
    """

    unit = "n_tokens"
    tracks_overlap = True
    reported = ("prior_gain",)
    scalars = (
        "n_samples",
        "n_tokens",
        "entropy",
        "weights",
        "base",
        "n_local_iter",
        "restarts_proposed",
        "restarts_accepted",
        "length_gain",
    )

    def __init__(
        self,
        observation,
        documents,
        n_components,
        *,
        dtype="float64",
        keeps_local=False,
        judge=None,
    ):
        self.observation = observation
        self.judge = observation if judge is None else judge
        self.documents = documents
        self.n_components = n_components
        self.dtype = np.dtype(dtype)
        self.keeps_local = keeps_local
        self.can_delete = documents.has_rest
        self.axes = {"count": 0, "prior_gain": 0}
        self.axes |= {name: observation.axes.get(name, 0) for name in observation.empty(0)}

    def empty_stats(self, n_components=None):
        """Statistics of no documents."""
        K = self.n_components if n_components is None else n_components
        arrays = {"count": np.zeros(K), "prior_gain": np.zeros(K), **self.observation.empty(K)}
        return SuffStats(arrays, self.axes, dict.fromkeys(self.scalars, 0.0))

    def resized(self, n_components):
        """This model with another number of components."""
        new = copy(self)
        new.n_components = n_components
        return new

    def first_learned(self):
        """The prior of the documents to begin with."""
        return self.documents.first_learned()

    def stats_under(self, chunk, resp):
        """Sum statistics of a chunk's items; rows of counts are documents."""
        items, resp = Items(chunk), sp.csr_array(resp, dtype=np.float64)
        row = items.local
        if items.words is not None:
            row = np.repeat(np.arange(chunk.n_rows), np.diff(items.indptr))
        # How often each item occurs in each row.
        shape = len(items.ptr) - 1, resp.shape[0]
        occurs = sp.csr_array((items.counts, (items.local, row)), shape=shape, dtype=np.float64)
        table = SparseTable.of_csr((occurs @ resp).tocsr())
        arrays = {"count": table.column_sums, **self.observation.summarise_items(items, table)}
        n_groups = len(items.indptr) - 1
        return SuffStats(arrays, self.axes, {"n_samples": float(n_groups)})

    def globals_of(self, state, track=None):
        """What the items' weights follow from, and the documents' prior."""
        estimates = self.observation.estimate(state.stats)
        return Globals(
            observation=self.observation,
            documents=self.documents,
            table=self.observation.item_table(estimates, self.dtype),
            alpha=self.documents.alpha_of(state.learned),
            axes=self.axes,
            track=track,
            keeps_local=self.keeps_local,
            word_weights=WordWeights(),
        )

    @staticmethod
    def local_step(chunk, globals_, key=None):
        """Fit the chunk's documents and sum their statistics."""
        observation, documents, alpha = globals_.observation, globals_.documents, globals_.alpha
        track = globals_.track
        items = Items(chunk)
        if items.weight is not None and (track is not None or documents.has_rest):
            raise ValueError("documents have weights under Dirichlet priors and without moves only")
        level = documents.level(len(alpha))
        dtype = items.counts.dtype
        find = partial(observation.item_weights, table=globals_.table, level=level, dtype=dtype)
        weights = globals_.word_weights.of(items, len(alpha), level, dtype, find)
        n_tokens = items.n_tokens()
        index, resp, mass, report = documents.fit(
            items.indptr,
            items.row.take(items.local),  # faster than by brackets
            items.counts,
            weights,
            alpha,
            start=None if chunk.start is None else chunk.start.toarray(),
            want_mass=globals_.keeps_local or documents.learn or track is not None,
            n_tokens=n_tokens,
        )
        items.weigh(resp)
        table, log_weights = _sum_items(items, index, resp, weights[0])
        totals = items.sum(report)
        gains = documents.gains(alpha, mass, n_tokens, items.weight)
        length = length_bound(documents.prior_mass(alpha), n_tokens)
        base = observation.item_base(items)
        scalars = {
            "n_samples": float(len(n_tokens)),
            "n_tokens": float(items.sum(n_tokens)),
            "weights": float(totals[0] + items.sum(length)),
            # Bounds of documents hold the items' log-weights under these globals, which go.
            "entropy": totals[1] - log_weights,
            "base": 0.0 if base is None else items.base(base),
            "n_local_iter": totals[2],
            "restarts_proposed": totals[3],
            "restarts_accepted": totals[4],
            "length_gain": gains[1],
        }
        arrays = {
            "count": table.column_sums,
            "prior_gain": gains[0],
            **observation.summarise_items(items, table),
        }
        found = None
        if track is not None:
            given = items, index, resp, weights[0]
            found = _tracked(track, given, mass, alpha)
            part_of = partial(_part_of, chunk, globals_, given, mass, n_tokens)
            found.removals = [
                Users(*part_of(np.flatnonzero(mass[:, target] > 0))) for target in track.targets
            ]
            if track.parents is not None:
                main = mass.argmax(axis=1)
                found.children = [
                    Users(*part_of(held), np.inf)
                    for held in track.parents.units(main, chunk.numbers)
                ]
        local = sp.csr_matrix(mass) if globals_.keeps_local else None
        return SuffStats(arrays, globals_.axes, scalars, found), local

    def global_step(self, state, rate=1.0):
        """Improve the documents' prior by what the last pass or batch says of it."""
        if self.documents.learn:
            report = {
                **state.report,
                "n_documents": state.stats.value("n_samples"),
                "count": state.stats.value("count"),
            }
            with single_blas():
                state.learned = self.documents.improved(state.learned, report, rate)

    def bound(self, state, stats=None):
        """The bound of all data with these statistics, Eq. 42 of Hughes & Sudderth (2016)."""
        stats = state.stats if stats is None else stats
        with single_blas():
            estimates = self.judge.estimate(state.stats)
            return (
                sum(stats.value(name) for name in ("entropy", "weights", "base"))
                + self.documents.bound(state.learned, stats.value("n_samples"))
                + self.judge.bound(stats, estimates)
            )

    # ------------------------------------------------------------------ merges

    def merge_learned(self, learned, kept, absorbed):
        """The documents' prior after a merge."""
        return self.documents.merged(learned, kept, absorbed)

    def drop_learned(self, learned, component):
        """The documents' prior without a component."""
        return self.documents.removed(learned, component)

    @staticmethod
    def share_of(chunk, globals_, component):
        """A chunk of counts with the expected ones of a component alone."""
        items, documents, alpha = Items(chunk), globals_.documents, globals_.alpha
        level, dtype = documents.level(len(alpha)), items.counts.dtype
        weights = globals_.observation.item_weights(items, globals_.table, level, dtype)
        index, resp, *_ = documents.fit(items.indptr, items.local, items.counts, weights, alpha)
        share = occurrence_shares(items, index, resp, weights[0])[:, [component]].toarray()
        counts = (items.counts * share.ravel()).astype(dtype)
        return chunk.with_counts(counts)

    def add_learned(self, learned, weights):
        """The documents' prior with more components."""
        return self.documents.added(learned, weights)

    def carried(self, stats, before, after):
        """Statistics of documents that stay as they are, at least those under another prior.

        By the bound of :meth:`StickBound.best`, for the components that both have.
        """
        before = self.documents.alpha_of(before)
        ratio = self.documents.alpha_of(after)[: len(before)] / before
        stats = stats.copy()
        stats.scalars["weights"] += (before * stats["prior_gain"]) @ np.log(ratio)
        stats.arrays["prior_gain"] /= ratio
        return stats

    def similarity(self, state):
        """How alike what is in components is, if the observation model can tell."""
        return self.observation.similarity(state.stats)

    def merge_gains(self, state, pairs):
        """What the observation model's terms gain."""
        return self.judge.merge_gains(state.stats, pairs)

    def merge_gain(self, state, kept, absorbed, content=None):
        """What the terms of two components that follow from statistics gain by a merge."""
        n_groups = state.stats.value("n_samples")
        gain = self.documents.bound(self.merge_learned(state.learned, kept, absorbed), n_groups)
        gain -= self.documents.bound(state.learned, n_groups)
        if content is not None:
            return gain + content
        if None in self.axes.values():
            return np.inf  # what all components share changes as well: only the bound can tell
        both = state.stats.reorder(np.array([kept, absorbed]))
        for part, sign in ((both.merge(0, 1), 1), (both, -1)):
            gain += sign * self.judge.bound(part, self.judge.estimate(part))
        return gain


def _sum_items(items, index, resp, weight):
    """Expected counts of items in components, and the sum of what bounds hold of their weights."""
    n_threads = threads_for(items.counts.size * weight.shape[1])
    if index.shape[1]:
        *parts, log_weights = topic_stats.sum_by_word(
            items.ptr, items.occurrence, index, resp, weight, items.row, n_threads
        )
    else:
        *parts, log_weights = topic_stats.sum_by_word_dense(
            items.indptr, items.ptr, items.occurrence, resp, weight, items.row, n_threads
        )
    shape = len(items.row), weight.shape[1]
    return SparseTable(np.arange(shape[0], dtype=np.int32), *parts, shape), log_weights.sum()


def occurrence_shares(items, index, resp, weight, which=slice(None)):
    """Responsibilities of occurrences, or of some, as CSR with those of the components kept."""
    K, counts = weight.shape[1], items.counts[which]
    if index.shape[1]:
        index, resp = index[which], resp[which]
        held = index >= 0
        size = held[:, 0].astype(np.int64)
        for slot in range(1, index.shape[1]):  # a list that is shorter ends with -1
            held[:, slot] &= held[:, slot - 1]
            size += held[:, slot]
        indptr = np.concatenate([[0], np.cumsum(size)])
        at = np.flatnonzero(held)
        share = resp.ravel()[at] / np.repeat(counts, size)
        shape = len(counts), K
        return sp.csr_array((share.astype(np.float64), index.ravel()[at], indptr), shape=shape)
    documents = np.repeat(np.arange(len(items.indptr) - 1), np.diff(items.indptr))[which]
    of_document = resp[len(items.counts) :, 0].reshape(-1, K).astype(np.float64)
    share = weight[items.row[items.local[which]]] * of_document[documents]
    return sp.csr_array(share / share.sum(axis=1, keepdims=True))


def _tracked(track, given, mass, alpha):
    """What each merge costs in the statistics that do not follow from adding."""
    (items, index, resp, _), pairs = given, track.pairs
    if index.shape[1]:
        entropy = list_entropy_losses(index, resp[: len(index)], items.counts, pairs, mass.shape[1])
    else:
        share = occurrence_shares(*given)
        entropy = entropy_losses(share, items.counts.astype(np.float64), pairs)
    n_threads = threads_for(PAIR_WORK * len(mass) * len(pairs))
    weights, prior = _pairs.mass_losses(mass, alpha, pairs, n_threads)
    loss = {"entropy": entropy, "weights": weights, "prior_gain": prior}
    return Tracked(loss, overlap=_overlap(mass, index.shape[1]) if track.overlap else None)


def _overlap(mass, level):
    """Products of the groups' masses of each two components, summed over groups."""
    if not level:  # nearly all components are in all groups
        return (mass.T @ mass).astype(np.float64)
    return _pairs.overlaps(mass, threads_for(OVERLAP_WORK * level * mass.size))


def _part_of(chunk, globals_, given, mass, n_tokens, used):
    """Numbers of some of the chunk's groups, and their statistics."""
    items, index, resp, weight = given
    shape = len(items.ptr) - 1, weight.shape[1]
    if index.shape[1]:
        where = items.indptr, items.local, items.counts, used
        *parts, entropy = topic_stats.sum_over_documents(*where, index, resp, *shape)
        table = SparseTable(*parts, shape)
    else:
        table, entropy = _dense_part(items, given, shape, used)
    observation, documents, alpha = globals_.observation, globals_.documents, globals_.alpha
    n_tokens = n_tokens[used]
    gains = documents.gains(alpha, mass[used], n_tokens)
    length = length_bound(documents.prior_mass(alpha), n_tokens)
    base = observation.item_base(items)
    scalars = dict.fromkeys(Admixture.scalars, 0.0) | {
        "n_samples": float(len(used)),
        "n_tokens": float(n_tokens.sum()),
        "weights": float(_rise_of(alpha, mass[used]) + length.sum()),
        "entropy": float(entropy),
        "base": 0.0 if base is None else _base_of(items, base, used),
        "length_gain": gains[1],
    }
    arrays = {
        "count": table.column_sums,
        "prior_gain": gains[0],
        **observation.summarise_items(items, table),
    }
    return chunk.numbers[used], SuffStats(arrays, globals_.axes, scalars)


def _occurrences_of(items, used):
    """Where the occurrences of some groups are."""
    ends = np.stack([items.indptr[used], items.indptr[used + 1]], axis=1)
    return neighbours(ends - items.indptr[0])


def _base_of(items, base, used):
    """Sum of numbers of the items over the occurrences of some groups."""
    held = _occurrences_of(items, used)
    return float(items.counts[held].astype(np.float64) @ base[items.local[held]])


def _dense_part(items, given, shape, used):
    """Expected counts of items in some groups, and the entropy of these, after the dense step."""
    held = _occurrences_of(items, used)
    counts, local = items.counts[held].astype(np.float64), items.local[held]
    parts = occurrence_shares(*given, held)
    occurs = sp.csr_array((counts, (local, np.arange(len(held)))), shape=(shape[0], len(held)))
    entropy = -(xlogy(parts.data, parts.data) @ np.repeat(counts, np.diff(parts.indptr)))
    return SparseTable.of_csr((occurs @ parts).tocsr()), entropy


def _rise_of(alpha, mass):
    """Sum of log Gamma(alpha + mass) - log Gamma(alpha), of what has mass."""
    held = np.nonzero(mass)
    alpha = alpha[held[1]]
    return (gammaln(alpha + mass[held]) - gammaln(alpha)).sum()
