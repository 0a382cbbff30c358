"""Mixed membership whose items' components are drawn, not weighed (Mimno et al. 2012)."""

import itertools
from functools import partial

import numpy as np
from scipy.special import psi

from sklearn_sparsepost._kernels import _sampled_words, gibbs_lda, sampled_documents, topic_stats
from sklearn_sparsepost._models.admixture import Admixture, Items
from sklearn_sparsepost._models.contract import Globals
from sklearn_sparsepost._models.discrete import Multinomial
from sklearn_sparsepost._models.documents import DirichletDocuments
from sklearn_sparsepost._models.observation import ItemLists
from sklearn_sparsepost._run.chunks import row_sums
from sklearn_sparsepost._run.streams import LOCAL_DRAWS
from sklearn_sparsepost._run.threads import threads_for
from sklearn_sparsepost._suffstats import SuffStats
from sklearn_sparsepost._tables import NOTHING, RowTable, SparseTable

# Expected counts of a stream become that or nothing that are under this, or a share of the prior.
LEAST_COUNT, LEAST_SHARE = 0.1, 1.0
# Half of the probabilities of a token's topics are smaller, and weigh 2 % together.
SMALL_SHARE = 0.05
# Entries that topics of words are reserved at a time: 128 MiB.
MOST_RESERVED = 1 << 24


class GrowingMultinomial(Multinomial):
    """Counts of features whose statistics are kept as rows that grow.

    As in Appendix A of Mimno, Hoffman & Blei (2012).

    Parameters
    ----------
    estimation : {"bayes", "map"}
        Posterior distributions or their modes.
    prior : ndarray of shape (1, 1), (n_features, 1) or (n_features, n_components), float64
        Pseudo-counts.
    n_features : int
        Number of features.
    forgets : bool, default=False
        Whether counts fade, as in stochastic learning, so that the least are to be dropped.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsepost.models import GrowingMultinomial
    >>> words = GrowingMultinomial("map", np.full((1, 1), 0.1), n_features=50)
    >>> words.empty(3)["feature_counts"].n_stored
    0
    """

    def __init__(self, estimation, prior, n_features, *, forgets=False):
        super().__init__(estimation, prior, n_features)
        self.least = min(LEAST_COUNT, LEAST_SHARE * prior.min()) if forgets else NOTHING

    def empty(self, n_components):
        """Statistics of no data."""
        return {
            "feature_counts": RowTable((self.n_features, n_components), self.least),
            "feature_total": np.zeros(n_components),
        }

    def stored(self, counts):
        """Return given counts as the statistics keep them.

        Parameters
        ----------
        counts : ndarray, SparseTable or RowTable of shape (n_features, n_components)
            Expected counts.

        Returns
        -------
        table : RowTable
            The same.
        """
        return RowTable.of(counts, self.least)

    def item_table(self, estimates, dtype):
        """Prior and counts, not added up, and one over the components' sizes."""
        log_total = self._log_total(estimates["total"])
        return estimates["concentration"], np.exp(log_total.min() - log_total)

    def item_lists(self, items, table):
        """The lists of words: the topics that have counts of them."""
        concentration, inverse = table
        prior, counts = concentration.compact_prior, concentration.counts
        if prior.shape[1] > 1:  # no two topics share what words without counts weigh
            total = concentration.block(items.words)
            weight = (total if self.estimation == "map" else np.exp(psi(total))) * inverse
            return ItemLists.of_weights(weight / weight.max(axis=1, keepdims=True))
        prior = np.broadcast_to(prior[:, 0], (self.n_features,))[items.words]
        *lists, base = _sampled_words.list_words(
            *counts.entries,
            items.words,
            concentration.factor,
            prior,
            inverse,
            self.estimation == "map",
            threads_for(16 * int(counts.length[items.words].sum(dtype=np.int64))),
        )
        return ItemLists(*lists, base, inverse)


class SampledDocuments(DirichletDocuments):
    """Topic weights of documents, pi_d ~ Dirichlet(alpha), integrated out and sampled.

    Parameters
    ----------
    alpha : ndarray of shape (n_components,), float64
        Dirichlet parameters, or those to begin with.
    sparsity_level : int or None, default=8
        The most topics a word of a document may keep; None for all that it met.
    burn_in : int, default=3
        Sweeps over a document before any is kept.
    n_sweeps : int, default=3
        Sweeps that are kept.
    rao_blackwell : bool, default=True
        Whether probabilities of a token's topics are kept in place of the one drawn.
    learn : bool, default=False
        Whether the parameters are learned.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsepost.models import SampledDocuments
    >>> SampledDocuments(np.full(20, 0.05), n_sweeps=5).n_sweeps
    5
    """

    def __init__(
        self, alpha, *, sparsity_level=8, burn_in=3, n_sweeps=3, rao_blackwell=True, learn=False
    ):
        super().__init__(alpha, sparsity_level=sparsity_level, learn=learn)
        self.burn_in = burn_in
        self.n_sweeps = n_sweeps
        self.rao_blackwell = rao_blackwell

    def sample(self, items, lists, alpha, units, key):
        """Sample the topics of documents.

        Parameters
        ----------
        items : Items
            What the documents are made of.
        lists : ItemLists
            What the items weigh in topics.
        alpha : ndarray of shape (n_components,), float64
            Dirichlet parameters.
        units : ndarray of shape (n_documents,)
            The documents' numbers.
        key : tuple (seed, n_steps)
            What random streams are keyed by besides.

        Returns
        -------
        found : tuple of ndarray
            As `sample_documents` returns them.
        """
        K, n = len(alpha), items.counts.size
        words = lists.row_ptr, lists.components, lists.weight
        inverse, shared = lists.inverse.astype(np.float32), alpha * lists.inverse
        n_threads = threads_for(64 * n)
        n_documents = np.diff(items.ptr)
        n_tokens = np.bincount(items.local, items.counts, minlength=len(n_documents))
        sample = partial(
            sampled_documents.sample_documents,
            words=(
                *words,
                lists.base,
                *_sampled_words.alias_tables(*words, alpha, n_tokens, n_threads),
                *_sampled_words.dense_rows(*words, lists.base, inverse, n_documents, n_threads),
            ),
            topics=(alpha, inverse, *gibbs_lda.alias_table(shared), shared.sum()),
            seed=key[0],
            step=LOCAL_DRAWS + key[1],
            burn_in=self.burn_in,
            n_sweeps=self.n_sweeps,
            rao_blackwell=self.rao_blackwell,
            small_share=SMALL_SHARE if self.rao_blackwell else 0,
            want_mass=self.learn,
            n_threads=n_threads,
        )
        units = np.asarray(units, dtype=np.uint64)
        # A document's tokens cannot have had more topics than this.
        reached = (1 + self.n_sweeps) * row_sums(items.indptr, items.counts)
        level = min(self.level(K), max(1, int(reached.max(initial=0))))
        return _in_parts(sample, items, units, level)


def _in_parts(sample, items, units, level):
    """Sample some documents at a time, so that little is reserved for topics that words lack.

    Parameters
    ----------
    sample : callable
        Samples documents, as `sample_documents` does.
    items : Items
        What the documents are made of.
    units : ndarray of shape (n_documents,), uint64
        The documents' numbers.
    level : int
        The most topics that a word may keep.

    Returns
    -------
    found : tuple of ndarray
        As `sample_documents` returns them for all documents.
    """
    indptr = items.indptr
    size = max(1, MOST_RESERVED // level)
    inner = np.unique(np.searchsorted(indptr, np.arange(size, len(items.local), size)))
    edges = [0, *inner[(inner > 0) & (inner < len(units))], len(units)]
    found = []
    for first, stop in itertools.pairwise(edges):
        at = slice(indptr[first], indptr[stop])
        index, resp, mass = sample(
            indptr[first : stop + 1],
            items.local[at],
            items.counts[at],
            units=units[first:stop],
            sparsity_level=level,
        )
        if len(edges) > 2:
            width = max(1, int((index >= 0).sum(axis=1).max(initial=0)))
            index, resp = index[:, :width].copy(), resp[:, :width].copy()
        found.append((index, resp, mass))
    if len(found) == 1:
        return found[0]
    indices, resps, masses = zip(*found, strict=True)
    return _stacked(indices, -1), _stacked(resps, 0), np.concatenate(masses)


def _stacked(tables, filling):
    """Tables below one another, the narrower ones filled up."""
    width = max(table.shape[1] for table in tables)
    pads = [((0, 0), (0, width - table.shape[1])) for table in tables]
    padded = [np.pad(t, pad, constant_values=filling) for t, pad in zip(tables, pads, strict=True)]
    return np.concatenate(padded)


class SampledAdmixture(Admixture):
    """Mixed membership whose items' components are drawn in the local step.

    The step is Alg. 1 of Mimno, Hoffman & Blei (2012).

    The local posterior of a document is that of all its items' components together, given the
    components, so that there is no bound: its entropy is a sum over all their combinations.

    Parameters
    ----------
    observation : Observation
        What items look like inside a component.
    documents : SampledDocuments
        How a group's components are chosen.
    n_components : int
        Number of components, K.
    dtype : dtype, default="float64"
        Type of the data.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsepost.datasets import make_bars
    >>> from sklearn_sparsepost.models import (
    ...     Corpus, GrowingMultinomial, SampledAdmixture, SampledDocuments, begin, memoized_pass
    ... )
    >>> X, topics, doc_topic = make_bars(200, random_state=0)
    >>> words = GrowingMultinomial("map", np.full((1, 1), 0.1), X.shape[1])
    >>> model = SampledAdmixture(words, SampledDocuments(np.full(10, 0.05)), 10)
    >>> corpus = Corpus(X, np.float64)
    >>> state = memoized_pass(model, corpus, begin(model, corpus, doc_topic))
    >>> state.stats["feature_counts"].shape
    (25, 10)
    """

    has_bound = False
    leaves_out = True
    scalars = ("n_samples", "n_tokens", "length_gain")

    def __init__(self, observation, documents, n_components, *, dtype="float64"):
        super().__init__(observation, documents, n_components, dtype=dtype)

    def globals_of(self, state, track=None):
        """What the items' weights follow from, and the documents' prior."""
        estimates = self.observation.estimate(state.stats)
        return Globals(
            observation=self.observation,
            documents=self.documents,
            table=self.observation.item_table(estimates, self.dtype),
            alpha=self.documents.alpha_of(state.learned),
            axes=self.axes,
        )

    @staticmethod
    def local_step(chunk, globals_, key):
        """Sample the chunk's documents and sum their statistics."""
        observation, documents, alpha = globals_.observation, globals_.documents, globals_.alpha
        items = Items(chunk)
        lists = observation.item_lists(items, globals_.table)
        index, resp, mass = documents.sample(items, lists, alpha, chunk.numbers, key)
        items.weigh(resp)
        *parts, _ = topic_stats.sum_by_word(
            items.ptr,
            items.occurrence,
            index,
            resp,
            np.empty((0, len(alpha)), dtype=resp.dtype),
            items.row,
            threads_for(16 * index.size),
        )
        table = SparseTable(items.row, *parts, (len(items.row), len(alpha)))
        n_tokens = items.n_tokens()
        gains = documents.gains(alpha, mass, n_tokens, items.weight)
        arrays = {
            "count": table.column_sums,
            "prior_gain": gains[0],
            **observation.summarise_items(items, table),
        }
        scalars = {
            "n_samples": float(len(n_tokens)),
            "n_tokens": float(items.sum(n_tokens)),
            "length_gain": gains[1],
        }
        return SuffStats(arrays, globals_.axes, scalars), None

    def bound(self, state, stats=None):
        """NaN: there is none."""
        return np.nan
