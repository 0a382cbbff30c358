"""First topics by Bregman k-means++, as expected counts of words in topics, without the prior."""

from functools import partial

import numpy as np
import scipy.sparse as sp
from scipy.special import xlogy

from sklearn_sparsepost._kernels._seeding import add_by_label, add_centre, best_centre
from sklearn_sparsepost._models.contract import Globals
from sklearn_sparsepost._run.chunks import row_sums
from sklearn_sparsepost._run.threads import map_threads, threads_for
from sklearn_sparsepost._starts import helpers

# Draws a centre, times the square of the number of documents.
MANY_TRIALS = 256 * 20_000**2
# What a scored document costs a look at a candidate for a centre, in multiplications or so.
LOOK_WORK = 4
# Bytes of scratch that a document's score of a cluster counts for: blocks stay in cache.
COMPARED = 256
# Bytes of scratch that an entry takes where terms of all entries are summed, and of a block.
ENTRY_BYTES = 64
BLOCK_BYTES = 2**21
# Weights that are drawn from together.
DRAWN = 32
# Columns of a table of topics that fit a core's share of the cache together with a vocabulary.
TOPIC_BLOCK = 64


def bregman_kmeans_plusplus(
    X,
    n_clusters,
    *,
    smoothing=0.03,
    n_local_trials=None,
    n_refine=1,
    max_samples=50_000,
    n_scored=4000,
    weight=None,
    random_state=None,
):
    r"""Hard clusters of documents by greedy k-means++ under the multinomial's Bregman divergence.

    The divergence of a document of counts x, N in total, to a centre of counts c is

    .. math:: D(x, c) = \sum_v x_v \log \frac{x_v / N}{(c_v + s_v) / \sum_u (c_u + s_u)},

    that is N times the Kullback-Leibler divergence to the centre smoothed by s. Documents are drawn
    as centres with probabilities proportional to their least divergence so far [1]_ [2]_; of
    `n_local_trials` such draws a centre, the one that lowers the total most is kept [3]_. Hard
    assignments of all documents to clusters (Lloyd steps) follow.

    Parameters
    ----------
    X : csr_matrix or csr_array of shape (n_samples, n_features)
        Non-negative counts; rows may be empty.
    n_clusters : int
        Number of clusters, K. Clusters beyond the number of different documents stay empty.
    smoothing : float or array-like of shape (n_features,), default=0.03
        Pseudo-counts added to centres, positive.
    n_local_trials : int, default=None
        Draws a centre, by default 256 for up to 20,000 documents and ever fewer for more, at least
        8. With few the result depends heavily on the seed; of many documents many draws lower the
        total, but the topics' held-out scores with it. Most draws need no look, since what a
        centre gains only falls.
    n_refine : int, default=1
        Lloyd steps: passes that assign each document anew to the nearest cluster, after the first
        assignment to centre documents, which comes for free. At least one where a subset serves.
    max_samples : int, default=50_000
        Of more documents than this, a random subset of this size serves for the centres and for
        all steps but the last.
    n_scored : int, default=4000
        The draws for a centre are compared on this many documents, drawn in proportion to length.
    weight : ndarray of shape (n_samples,), default=None
        How often each document counts; None for once.
    random_state : int or np.random.Generator
        Source of randomness.

    Returns
    -------
    labels : ndarray of shape (n_samples,), intp
        Each document's cluster; 0 for empty documents.
    counts : ndarray of shape (n_features, n_clusters), float64, C-contiguous
        The words' counts in each cluster, all documents together.

    References
    ----------
    .. [1] M. R. Ackermann and J. Bloemer, "Coresets and approximate clustering for Bregman
       divergences", SODA 2009.
    .. [2] M. C. Hughes and E. B. Sudderth, "Fast learning of clusters and topics via sparse
       posteriors", arXiv:1609.07521, 2016.
    .. [3] D. Arthur and S. Vassilvitskii, "k-means++: The advantages of careful seeding",
       SODA 2007.
    """
    rng = np.random.default_rng(random_state)
    single = X.data.astype(np.float32, copy=False)  # as precise as an inverted index is
    X = helpers.canonical(sp.csr_array((single, X.indices, X.indptr), X.shape))
    smoothing = np.broadcast_to(np.asarray(smoothing, dtype=np.float64), X.shape[1])
    weight = np.ones(X.shape[0]) if weight is None else weight
    held = helpers.subset(np.arange(X.shape[0]), max_samples, rng)
    sample = X if len(held) == X.shape[0] else X[held]
    if n_local_trials is None:
        n_local_trials = int(np.clip(MANY_TRIALS // max(sample.shape[0], 1) ** 2, 8, 256))
    options = n_clusters, smoothing, n_local_trials, n_scored, rng
    _, labels = _choose_centres(sample, weight[held], *options)
    n_refine = max(n_refine, int(len(held) < X.shape[0]))
    for step in range(n_refine):
        counts = _sum_by_label(sample, labels, n_clusters, weight[held])
        if step == n_refine - 1:
            sample, held = X, slice(None)
        labels = nearest(sample, counts, smoothing)
    return labels, _table_by_label(X, labels, n_clusters, weight)


# ---------------------------------------------------------------------------- k-means++


class _Divergence:
    """Divergences of all documents to centres that are documents, from the centres' words alone.

    D(x, c) = own + N log(C + S) - sum_{v in c} x_v log((c_v + s_v) / s_v), with own
    = sum_v x_v log(x_v / (N s_v)): an inverted index finds the documents of a centre's words.
    """

    def __init__(self, X, smoothing):
        self.X = X
        self.smoothing = smoothing
        self.tokens = row_sums(X.indptr, X.data)
        self.by_word = _by_word(X)
        self.words = X.indices.astype(self.by_word[1].dtype, copy=False)
        self.log_total = np.log(self.tokens + smoothing.sum())
        self.nearer = np.empty(X.nnz)  # log((x + s) / s) of each entry
        own, gained = np.empty(X.shape[0]), np.empty(X.shape[0])
        width = ENTRY_BYTES * X.nnz // max(1, X.shape[0])
        for rows in helpers.row_blocks(X.shape[0], width, BLOCK_BYTES):
            indptr = X.indptr[rows.start : rows.stop + 1]
            entries = slice(indptr[0], indptr[-1])
            counts, indptr = X.data[entries], indptr - indptr[0]
            own[rows] = row_sums(indptr, counts * np.log(counts))
            nearer = counts / smoothing[X.indices[entries]]
            nearer += 1
            np.log(nearer, out=self.nearer[entries])
            gained[rows] = row_sums(indptr, counts * self.nearer[entries])
        own -= X @ np.log(smoothing)
        # The part that is the same for every centre, and divergences of documents to themselves.
        self.constant = own - xlogy(self.tokens, self.tokens)
        self.itself = self.constant + self.tokens * self.log_total - gained

    def to_corpus(self, weight):
        """Divergences, (n_samples,), to the sum of all documents, each `weight` times."""
        counts = self.X.T @ weight
        gained = self.X @ np.log1p(counts / self.smoothing)
        out = self.constant + self.tokens * np.log(counts.sum() + self.smoothing.sum())
        return np.maximum(out - gained, 0)

    def centre(self, row):
        """Words of a document, their log((c + s) / s), and the log of its smoothed total."""
        entries = slice(self.X.indptr[row], self.X.indptr[row + 1])
        return self.words[entries], self.nearer[entries], self.log_total[row]


def _by_word(X):
    """The inverted index of documents: row pointer, documents, counts in single precision."""
    by_word = sp.csr_array((X.data.astype(np.float32), X.indices, X.indptr), X.shape).T.tocsr()
    return by_word.indptr, by_word.indices, by_word.data


def _choose_centres(X, weight, n_clusters, smoothing, n_trials, n_scored, rng):
    """Greedy k-means++: rows of `X` for centres, all different, and the nearest to each row."""
    divergence = _Divergence(X, smoothing)
    tokens, least = divergence.tokens, divergence.to_corpus(weight)
    scored, importance = _scored_documents(weight * tokens, n_scored, rng)
    gains = _Gains(divergence, scored, importance * weight[scored])
    # A document gains nothing by becoming a centre if another is as good as itself: duplicates.
    floor = divergence.itself + 1e-9 * (1 + tokens)
    least[tokens == 0] = 0
    nearest, closest = np.zeros(X.shape[0], dtype=np.intp), np.full(X.shape[0], np.inf)
    static = *divergence.by_word, tokens, divergence.constant, floor
    distance, centres = np.empty_like(least), []
    mass = np.zeros((-(-len(least) // DRAWN), DRAWN))
    while len(centres) < n_clusters and least.any():
        np.multiply(weight, least, out=mass.ravel()[: len(least)])
        best = gains.best_of(_draw(mass, n_trials, rng), least)
        centre = divergence.centre(best)
        add_centre(*static, *centre, len(centres), distance, nearest, closest, least)
        least[best] = 0
        centres.append(best)
    return np.array(centres, dtype=np.intp), nearest


class _Gains:
    """What the scored documents would gain, in all, by another centre."""

    def __init__(self, divergence, scored, importance):
        X, single = divergence.X, np.float32
        by_word = _by_word(X[scored])
        self.scored = scored
        self.constant = divergence.constant[scored]
        self.static = (
            *by_word,
            divergence.tokens[scored].astype(single),
            importance.astype(single),
            X.indptr.astype(np.int64),
            X.indices.astype(by_word[1].dtype, copy=False),
            divergence.nearer.astype(single),
            divergence.log_total.astype(single),
        )
        self.most = np.full(X.shape[0], np.inf)  # a centre's gain falls as others are chosen

    def best_of(self, candidates, least):
        """The candidate for a centre that lowers the sum of least divergences most."""
        excess = (least[self.scored] - self.constant).astype(np.float32)
        by_falling = np.argsort(-self.most[candidates], kind="stable")
        n_threads = threads_for(LOOK_WORK * len(candidates) * len(excess))
        return best_centre(*self.static, excess, candidates[by_falling], self.most, n_threads)


def _scored_documents(tokens, n_scored, rng):
    """About `n_scored` documents and weights with which their sums estimate those of all.

    Each is drawn with probability min(1, proportional to length): the few long documents hold most
    of the divergence and must all be among them.
    """
    filled = np.flatnonzero(tokens)
    if len(filled) <= n_scored:
        return filled, np.ones(len(filled))
    # With the i longest certain, the probabilities of the others have to sum to n_scored - i.
    rest = np.cumsum(np.sort(tokens))[::-1][:n_scored]
    rate = np.max(np.arange(n_scored, 0, -1) / rest)
    probability = np.minimum(rate * tokens, 1)
    scored = np.flatnonzero(rng.random(len(tokens)) < probability)
    return scored, 1 / probability[scored]


def _draw(blocks, size, rng):
    """Indices drawn with replacement, proportional to weights, in order; never of weight zero.

    The weights lie in blocks, (n_blocks, n), since a running sum of all waits for each addition.
    """
    totals = blocks.sum(axis=1)
    ends = np.cumsum(totals)
    # The k-th smallest of as many uniforms gives the k-th smallest index.
    aim = np.sort(rng.random(size)) * ends[-1]
    block = np.minimum(np.searchsorted(ends, aim, side="right"), _last_positive(totals))
    drawn = blocks[block]
    rest = np.maximum(aim - (ends - totals)[block], 0)[:, np.newaxis]
    place = (np.cumsum(drawn, axis=1) <= rest).sum(axis=1)
    return blocks.shape[1] * block + np.minimum(place, _last_positive(drawn))


def _last_positive(weight):
    """The last place of a positive weight."""
    return weight.shape[-1] - 1 - np.argmax(weight[..., ::-1] > 0, axis=-1)


# ---------------------------------------------------------------------------- hard assignment


def nearest(X, counts, smoothing):
    """The cluster of least divergence of each document; clusters without words get none.

    `counts` is CSR, clusters x words; ties go to the first cluster.
    """
    # The dense tables are float32: their rows are read once a token and should stay in cache.
    X = sp.csr_array((X.data.astype(np.float32), X.indices, X.indptr), shape=X.shape)
    filled = np.flatnonzero(np.diff(counts.indptr))
    best = np.full(X.shape[0], -np.inf, dtype=np.float32)
    labels = np.zeros(X.shape[0], dtype=np.intp)
    for start in range(0, len(filled), TOPIC_BLOCK):
        block = filled[start : start + TOPIC_BLOCK]
        table = _log_topics(counts[block], smoothing)
        compare = partial(_compare, X, table, block, best, labels)
        map_threads(compare, list(helpers.row_blocks(X.shape[0], COMPARED * len(block))))
    return labels


def _compare(X, table, block, best, labels, rows):
    """Have some documents go to clusters of a block that are nearer than the best one so far."""
    score = X[rows] @ table
    winner = score.argmax(axis=1)
    value = score[np.arange(len(score)), winner]
    better = np.flatnonzero(value > best[rows])
    best[rows][better] = value[better]
    labels[rows][better] = block[winner[better]]


def sum_of_nearest(corpus, chunks, counts, *, smoothing=0.03):
    """One Lloyd step over a corpus that is read part by part.

    Parameters
    ----------
    corpus : Corpus
        The documents.
    chunks : list of list of (int, int)
        Runs of the documents of each part.
    counts : ndarray of shape (n_features, n_clusters)
        The words' counts in each cluster, as :func:`bregman_kmeans_plusplus` returns them.
    smoothing : float, default=0.03
        Pseudo-counts added to clusters.

    Returns
    -------
    counts : ndarray of shape (n_features, n_clusters), float64, C-contiguous
        The words' counts once each document has gone to its nearest cluster.
    """
    n_features, n_clusters = counts.shape
    smoothing = np.full(n_features, smoothing)
    globals_ = Globals(clusters=sp.csr_array(counts.T), smoothing=smoothing)
    total = np.zeros((n_features, n_clusters))
    for found in corpus.map(_counts_by_nearest, globals_, chunks=chunks):
        total[found.indices, helpers.row_of_entry(found)] += found.data
    return total


def _counts_by_nearest(chunk, globals_, key=None):
    """Counts of a chunk's words in the clusters that its documents are nearest to, CSR."""
    X, clusters = helpers.canonical(chunk.rows), globals_.clusters
    weight = np.ones(X.shape[0]) if chunk.weight is None else chunk.weight
    labels = nearest(X, clusters, globals_.smoothing)
    return _sum_by_label(X, labels, clusters.shape[0], weight)


def _log_topics(counts, smoothing):
    """log((c_kv + s_v) / sum_u (c_ku + s_u)), words x clusters, float32, from CSR counts."""
    table = np.empty((counts.shape[1], counts.shape[0]), dtype=np.float32)
    log_total = np.log(row_sums(counts.indptr, counts.data) + smoothing.sum())
    np.subtract.outer(np.log(smoothing), log_total, out=table, casting="same_kind")
    rows = helpers.row_of_entry(counts)
    table[counts.indices, rows] = np.log(counts.data + smoothing[counts.indices]) - log_total[rows]
    return table


def _table_by_label(X, labels, n_clusters, weight):
    """Counts of words in clusters, (n_features, n_clusters)."""
    table = np.zeros((X.shape[1], n_clusters))
    add_by_label(X.indptr, X.indices, X.data, labels, weight, table)
    return table


def _sum_by_label(X, labels, n_clusters, weight):
    """Counts of words in clusters, CSR of shape (n_clusters, n_features)."""
    n = X.shape[0]
    member = sp.csr_array((weight, (labels, np.arange(n))), shape=(n_clusters, n))
    return sp.csr_array(member @ X)
