"""First topics from anchor words (Arora et al. 2013), as expected counts of words in topics."""

import numpy as np
import scipy.sparse as sp

from sklearn_sparsepost._run.chunks import row_sums
from sklearn_sparsepost._run.threads import single_blas
from sklearn_sparsepost._starts import helpers


def anchor_words(
    X,
    n_components,
    *,
    min_df=None,
    n_projections=1000,
    max_iter=100,
    tol=1e-4,
    weight=None,
    random_state=None,
):
    r"""Topics from anchor words: separable factorisation of word co-occurrences.

    Each topic is thought to have an anchor: a word that no other topic uses [1]_. Then every word's
    row of the row-normalised co-occurrence matrix is a mixture of the anchors' rows,

    .. math:: \bar Q_i = \sum_k C_{ik} \bar Q_{s_k}, \quad C_{ik} = p(topic\ k | word\ i).

    Anchors are the words farthest from the span of those before (Alg. 4 of [1]_); C is found by
    least squares on the simplex (Alg. 3, RecoverL2).

    Parameters
    ----------
    X : csr_matrix or csr_array of shape (n_samples, n_features)
        Non-negative counts. Documents of fewer than two tokens say nothing of co-occurrence.
    n_components : int
        Number of topics, K. Topics for which no anchor is left stay empty.
    min_df : int, default=None
        An anchor is in at least so many documents. By default 10, or a thousandth of the documents
        if that is more; if too few words are, in 1.
    n_projections : int, default=1000
        Rows of co-occurrences longer than five times this are randomly projected to this length.
    max_iter : int, default=100
        The most iterations of accelerated projected gradient.
    tol : float, default=1e-4
        The iterations stop once no weight moves by more.
    weight : ndarray of shape (n_samples,), default=None
        How often each document counts; None for once.
    random_state : int or np.random.Generator
        Source of the projection.

    Returns
    -------
    counts : ndarray of shape (n_features, n_components), float64, C-contiguous
        Each word's total count, shared between topics as C says.

    References
    ----------
    .. [1] S. Arora, R. Ge, Y. Halpern, D. Mimno, A. Moitra, D. Sontag, Y. Wu and M. Zhu, "A
       practical algorithm for topic modeling with provable guarantees", ICML 2013.
    """
    rng = np.random.default_rng(random_state)
    X = helpers.canonical(X)
    weight = np.ones(X.shape[0]) if weight is None else weight
    total = np.bincount(X.indices, X.data * weight[helpers.row_of_entry(X)], minlength=X.shape[1])
    counts = np.zeros((X.shape[1], n_components))
    with single_blas():  # the bits may depend on the threads
        rows, seen = _cooccurrence(X, weight, n_projections, rng)
        candidates = _candidates(X, weight, seen, n_components, min_df)
        anchors = _find_anchors(rows, candidates, n_components)
        if len(anchors):
            weights = _simplex_least_squares(rows, rows[anchors], max_iter, tol)
            counts[:, : len(anchors)] = weights * (total / weights.sum(axis=1))[:, None]
        elif X.nnz:  # no two tokens meet anywhere: one topic of everything
            counts[:, 0] = total
    return counts


def _cooccurrence(X, weight, n_projections, rng):
    """Row-normalised co-occurrences, float32, perhaps projected; and which words have any.

    Q = H'H - diag(h), H_dv = x_dv / sqrt(N_d (N_d - 1)), h_v = sum_d x_dv / (N_d (N_d - 1)): a
    token does not meet itself, which makes Q unbiased (Arora et al. 2013, supplement).
    """
    tokens = row_sums(X.indptr, X.data)
    X, tokens, weight = X[tokens >= 2], tokens[tokens >= 2], weight[tokens >= 2]
    scale = weight / (tokens * (tokens - 1))
    rows = helpers.row_of_entry(X)
    itself = np.bincount(X.indices, X.data * scale[rows], minlength=X.shape[1])
    H = sp.csr_array((X.data * np.sqrt(scale)[rows], X.indices, X.indptr), shape=X.shape)
    by_word = H.T.tocsr()
    row_sum = by_word @ row_sums(H.indptr, H.data) - itself
    seen = row_sum > 1e-12 * max(row_sum.max(initial=0), 1e-300)
    V = X.shape[1]
    if 5 * n_projections >= V:
        Q = (by_word @ H).toarray()
        Q[np.diag_indices(V)] -= itself
        Q = Q.astype(np.float32)
    else:
        Q = np.empty((V, n_projections), dtype=np.float32)
        H32, by_word32 = H.astype(np.float32), by_word.astype(np.float32)
        for columns in helpers.row_blocks(n_projections, 4 * (V + X.shape[0])):
            width = columns.stop - columns.start
            noise = rng.standard_normal((V, width), dtype=np.float32)
            noise *= np.float32(n_projections**-0.5)
            Q[:, columns] = by_word32 @ (H32 @ noise) - itself.astype(np.float32)[:, None] * noise
    Q[~seen] = 0
    Q /= np.where(seen, row_sum, 1)[:, None].astype(np.float32)
    return Q, seen


def _candidates(X, weight, seen, n_components, min_df):
    """Words that may be anchors: those of enough documents."""
    df = np.bincount(X.indices, weight[helpers.row_of_entry(X)], minlength=X.shape[1])
    if min_df is None:
        min_df = max(10, weight.sum() // 1000)
    frequent = np.flatnonzero(seen & (df >= min_df))
    return frequent if len(frequent) >= n_components else np.flatnonzero(seen)


def _find_anchors(rows, candidates, n_anchors):
    """Words farthest from the span of those before: stable Gram-Schmidt (Arora 2013, Alg. 4)."""
    points = rows[candidates]
    remaining = np.einsum("ij,ij->i", points, points, dtype=np.float64)
    # Beyond rounding errors of float32 nothing is left to span.
    smallest = 1e-6 * remaining.max(initial=0)
    basis = np.empty((n_anchors, rows.shape[1]))
    anchors = []
    while len(anchors) < min(n_anchors, len(candidates)):
        far = int(np.argmax(remaining))
        if remaining[far] <= smallest:
            break
        direction = points[far].astype(np.float64)
        done = basis[: len(anchors)]
        for _ in range(2):  # once is not orthogonal to working precision
            direction -= done.T @ (done @ direction)
        direction /= np.linalg.norm(direction)
        basis[len(anchors)] = direction
        anchors.append(far)
        remaining -= np.square(points @ direction.astype(np.float32), dtype=np.float64)
        remaining[far] = 0
    return candidates[np.array(anchors, dtype=np.intp)]


def _simplex_least_squares(targets, basis, max_iter, tol):
    """Rows of convex weights whose mixtures of `basis` are nearest to `targets` (RecoverL2).

    Accelerated projected gradient (Beck and Teboulle 2009), all rows at once, in float32.
    """
    gram = basis @ basis.T
    step = np.float32(1 / np.linalg.eigvalsh(gram.astype(np.float64))[-1])
    pull = targets @ basis.T
    weights = np.full(pull.shape, 1 / len(basis), dtype=np.float32)
    ahead, momentum = weights, 1.0
    for _ in range(max_iter):
        new = _project_to_simplex(ahead - step * (ahead @ gram - pull))
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        moved = new - weights
        ahead = new + np.float32((momentum - 1) / following) * moved
        weights, momentum = new, following
        if np.abs(moved).max() < tol:
            break
    return weights.astype(np.float64)


def _project_to_simplex(points):
    """Each row's nearest point with entries >= 0 that sum to 1 (Duchi et al. 2008, Fig. 1)."""
    ordered = -np.sort(-points, axis=1)
    rank = np.arange(1, points.shape[1] + 1, dtype=points.dtype)
    excess = (np.cumsum(ordered, axis=1) - 1) / rank
    last = np.count_nonzero(ordered > excess, axis=1) - 1
    return np.maximum(points - np.take_along_axis(excess, last[:, None], axis=1), 0)
