"""First topics by Bregman k-means++, as expected counts of words in topics, without the prior."""

from functools import partial

import numpy as np
import scipy.sparse as sp

from sklearn_sparsepost._kernels._seeding import add_weighted_rows, best_centre
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
# Bytes of scratch that an entry takes where terms of all entries are summed.
ENTRY_BYTES = 64
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
    X = helpers.canonical(X)
    smoothing = np.broadcast_to(np.asarray(smoothing, dtype=np.float64), X.shape[1])
    weight = np.ones(X.shape[0]) if weight is None else weight
    held = helpers.subset(np.arange(X.shape[0]), max_samples, rng)
    sample = X if len(held) == X.shape[0] else X[held]
    if n_local_trials is None:
        n_local_trials = int(np.clip(MANY_TRIALS // max(sample.shape[0], 1) ** 2, 8, 256))
    options = n_clusters, smoothing, n_local_trials, n_scored, rng
    _, labels = _choose_centres(sample, weight[held], *options)
    counts = _sum_by_label(sample, labels, n_clusters, weight[held])
    n_refine = max(n_refine, int(len(held) < X.shape[0]))
    for step in range(n_refine):
        if step == n_refine - 1:
            sample, held = X, slice(None)
        labels = nearest(sample, counts, smoothing)
        counts = _sum_by_label(sample, labels, n_clusters, weight[held])
    return labels, counts.T.tocsr().toarray()


# ---------------------------------------------------------------------------- k-means++


class _Divergence:
    """Divergences of all documents to a centre document, from the centre's words alone.

    D(x, c) = own + N log(C + S) - sum_v x_v log s_v - sum_{v in c} x_v log((c_v + s_v) / s_v),
    with own = sum_v x_v log(x_v / N): an inverted index finds the documents of a centre's words.
    """

    def __init__(self, X, smoothing):
        self.smoothing = smoothing
        self.smoothing_total = smoothing.sum()
        self.tokens = row_sums(X.indptr, X.data)
        by_word = X.T.tocsr()
        self.by_word = by_word.indptr, by_word.indices, by_word.data
        log_smoothing = np.log(smoothing)

        def own(counts, words, rows):
            return counts * (np.log(counts / self.tokens[rows]) - log_smoothing[words])

        self.constant = _sums_over_words(X, own)

    def __call__(self, words, counts):
        """Divergences, (n_samples,), to the centre with these counts of these words."""
        out = np.zeros(len(self.tokens))
        weight = -np.log1p(counts / self.smoothing[words])
        add_weighted_rows(*self.by_word, words.astype(self.by_word[1].dtype), weight, out)
        out += self.constant
        out += np.log(counts.sum() + self.smoothing_total) * self.tokens
        return np.maximum(out, 0, out=out)

    def to_itself(self, X):
        """Divergence of each of the documents to itself as a centre."""

        def gain_of(counts, words, rows):
            return counts * np.log1p(counts / self.smoothing[words])

        gain = _sums_over_words(X, gain_of)
        return self.constant + self.tokens * np.log(self.tokens + self.smoothing_total) - gain


def _sums_over_words(X, value):
    """Of each document the sum of ``value(counts, words, rows)`` of its words, some at a time."""
    out = np.empty(X.shape[0])
    n_bytes = ENTRY_BYTES * X.nnz // max(1, X.shape[0])
    for rows in helpers.row_blocks(X.shape[0], n_bytes):
        indptr = X.indptr[rows.start : rows.stop + 1]
        held = slice(indptr[0], indptr[-1])
        row = np.repeat(np.arange(rows.start, rows.stop), np.diff(indptr))
        out[rows] = row_sums(indptr - indptr[0], value(X.data[held], X.indices[held], row))
    return out


def _choose_centres(X, weight, n_clusters, smoothing, n_trials, n_scored, rng):
    """Greedy k-means++: rows of `X` for centres, all different, and the nearest to each row."""
    tokens = row_sums(X.indptr, X.data)
    scored, importance = _scored_documents(weight * tokens, n_scored, rng)
    divergence, gains = map_threads(
        lambda made: made(),
        [
            partial(_Divergence, X, smoothing),
            partial(_Gains, X, scored, importance * weight[scored], smoothing),
        ],
    )
    # A document gains nothing by becoming a centre if another is as good as itself: duplicates.
    floor = divergence.to_itself(X) + 1e-9 * (1 + divergence.tokens)
    # Before the first centre: the divergence to the whole corpus.
    least = divergence(*_corpus_counts(X, weight))
    least[divergence.tokens == 0] = 0
    nearest, closest = np.zeros(X.shape[0], dtype=np.intp), np.full(X.shape[0], np.inf)
    centres = []
    while len(centres) < n_clusters and least.any():
        best = gains.best_of(_draw(weight * least, n_trials, rng), least)
        distance = divergence(*_row(X, best))
        nearest[distance < closest] = len(centres)
        np.minimum(closest, distance, out=closest)
        distance[distance <= floor] = 0
        np.minimum(least, distance, out=least)
        least[best] = 0
        centres.append(best)
    return np.array(centres, dtype=np.intp), nearest


class _Gains:
    """What the scored documents would gain, in all, by another centre."""

    def __init__(self, X, scored, importance, smoothing):
        sample = X[scored]
        at = _Divergence(sample, smoothing)
        self.scored = scored
        self.constant = at.constant
        by_word, documents, counts = at.by_word
        totals = row_sums(X.indptr, X.data) + smoothing.sum()
        single = np.float32
        self.static = (
            by_word,
            documents,
            counts.astype(single),
            at.tokens.astype(single),
            importance.astype(single),
            X.indptr.astype(np.int64),
            X.indices.astype(documents.dtype, copy=False),
            np.log1p(X.data / smoothing[X.indices]).astype(single),
            np.log(totals).astype(single),
        )
        self.most = np.full(X.shape[0], np.inf)  # a centre's gain falls as others are chosen

    def best_of(self, candidates, least):
        """The candidate for a centre that lowers the sum of least divergences most."""
        excess = (least[self.scored] - self.constant).astype(np.float32)
        by_falling = np.argsort(-self.most[candidates], kind="stable")
        n_threads = threads_for(LOOK_WORK * len(candidates) * len(excess))
        return best_centre(*self.static, excess, candidates[by_falling], self.most, n_threads)


def _corpus_counts(X, weight):
    """Words of the corpus and their counts."""
    counts = np.bincount(X.indices, X.data * weight[helpers.row_of_entry(X)], minlength=X.shape[1])
    words = np.flatnonzero(counts)
    return words, counts[words]


def _row(X, row):
    """Words of a document and their counts."""
    entries = slice(X.indptr[row], X.indptr[row + 1])
    return X.indices[entries], X.data[entries]


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


def _draw(weight, size, rng):
    """Indices drawn with replacement, proportional to weights, in order; never of weight zero."""
    cumulated = np.cumsum(weight)
    last = len(weight) - 1 - np.argmax(weight[::-1] > 0)
    # The k-th smallest of as many uniforms gives the k-th smallest index.
    aim = np.sort(rng.random(size)) * cumulated[-1]
    return np.minimum(np.searchsorted(cumulated, aim, side="right"), last)


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


def _sum_by_label(X, labels, n_clusters, weight):
    """Counts of words in clusters, CSR of shape (n_clusters, n_features)."""
    n = X.shape[0]
    member = sp.csr_array((weight, (labels, np.arange(n))), shape=(n_clusters, n))
    return sp.csr_array(member @ X)
