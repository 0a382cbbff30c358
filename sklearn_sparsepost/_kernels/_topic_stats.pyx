"""Statistics of topic models: what the global step and the bound need, summed in a fixed order.

* `sum_by_word`, `sum_by_word_dense`: expected counts of a chunk, after the sparse and dense step;
* `sum_over_documents`: those of a few of its documents, and their entropy;
* `dirichlet_bound_terms`, `dirichlet_gap_terms`: what the bound has of the topics;
* `dirichlet_merge_gains`: what it gains by merges of these;
* `prior_gains`: what is learned of the documents' prior.

Parallel over words, so that no two threads write to one place and sums have the same bits.
"""
from cython.parallel cimport parallel, prange
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from sklearn_sparsepost._kernels._math cimport digamma, gammaln, log_pos
from sklearn_sparsepost._kernels._prefetch cimport fetch
from sklearn_sparsepost._kernels._types cimport floating, indptr_t

import numpy as np

# What is not a sum over one word is summed over this many blocks, whatever the threads.
cdef enum:
    BLOCKS = 32
    AHEAD = 4  # occurrences of a word lie anywhere: those after some more are fetched


def sum_by_word(
    const long long[::1] word_ptr,  # IN
    const long long[::1] occurrence,  # IN
    const int[:, ::1] index,  # IN
    const floating[:, ::1] resp,  # IN
    const floating[:, ::1] weight,  # IN
    const int[::1] row,  # IN
    int n_threads=1,  # IN
):
    """Expected counts of every word in every topic, summed in document order (sparse step).

    Parameters
    ----------
    word_ptr, occurrence : ndarray
        What `_topic_words.index_words` returned.
    index, resp : ndarray of shape (nnz, L)
        What `_topic_documents.fit_documents` returned.
    weight : ndarray of shape (n_weighed, n_topics) or (0, n_topics)
        What `_topic_words.topic_rows` returned; without words, no logs are summed.
    row : ndarray of shape (n_words,), int32
        The row of `weight` that each word has.
    n_threads : int, default=1
        Number of OpenMP threads.

    Returns
    -------
    row_ptr : ndarray of shape (n_words + 1,), int64
        Word `w` has its counts at `row_ptr[w]:row_ptr[w + 1]`.
    topics : ndarray of shape (n_stored,), int32
        Topics, once each a word, in order of first use.
    counts : ndarray of shape (n_stored,)
        Expected counts, summed in float64.
    log_weight_sum : ndarray of shape (n_words,), float64
        Sum over topics of count * log(weight): what the documents' bounds hold of E[log phi].
    """
    cdef Py_ssize_t n_words = word_ptr.shape[0] - 1, w, i, p, last
    cdef int K = <int>weight.shape[1], L = <int>index.shape[1], j, k, n
    cdef double x
    cdef long long at
    cdef bint logs = weight.shape[0] > 0
    upper_array = np.zeros(n_words + 1, dtype=np.int64)
    np.cumsum(np.minimum(np.diff(np.asarray(word_ptr)) * L, K), out=upper_array[1:])
    cdef const long long[::1] upper = upper_array
    topics_array = np.empty(upper_array.item(n_words), dtype=np.int32)
    counts_array = np.empty(upper_array.item(n_words), dtype=np.asarray(resp).dtype)
    stored_array = np.zeros(n_words, dtype=np.int64)
    log_array = np.zeros(n_words)
    cdef int[::1] topics = topics_array
    cdef floating[::1] counts = counts_array
    cdef long long[::1] stored = stored_array
    cdef double[::1] log_sum = log_array
    cdef double *total
    cdef int *used
    cdef int no_memory = 0
    cdef int *failed = &no_memory
    with nogil, parallel(num_threads=n_threads):
        total = <double *>malloc(K * sizeof(double))
        used = <int *>malloc(K * sizeof(int))
        if total == NULL or used == NULL:
            failed[0] = 1
        else:
            memset(used, 0, K * sizeof(int))
        for w in prange(n_words, schedule="dynamic", chunksize=64):
            if failed[0]:
                continue
            n = 0
            at = upper[w]
            last = word_ptr[w + 1] - 1
            for i in range(word_ptr[w], last + 1):
                p = occurrence[i + AHEAD if i + AHEAD <= last else last]
                fetch(&index[p, 0])
                fetch(&resp[p, 0])
                p = occurrence[i]
                for j in range(L):
                    k = index[p, j]
                    if k < 0:
                        break
                    if not used[k]:
                        if logs:
                            fetch(&weight[row[w], k])
                        used[k] = 1
                        total[k] = 0
                        topics[at + n] = k
                        n = n + 1
                    total[k] = total[k] + resp[p, j]
            x = 0
            for j in range(n):
                k = topics[at + j]
                counts[at + j] = <floating>total[k]
                if logs:
                    x = x + total[k] * log_pos(<double>weight[row[w], k])
                used[k] = 0
            stored[w] = n
            log_sum[w] = x
        free(total)
        free(used)
    if no_memory:
        raise MemoryError("no memory for the statistics of a word")
    parts = _compact[floating](upper_array, stored_array, topics_array, counts, n_threads)
    return parts + (log_array,)


def sum_by_word_dense(
    const indptr_t[::1] indptr,  # IN
    const long long[::1] word_ptr,  # IN
    const long long[::1] occurrence,  # IN
    const floating[:, ::1] resp,  # IN
    const floating[:, ::1] weight,  # IN
    const int[::1] row,  # IN
    int n_threads=1,  # IN
):
    """Expected counts of every word in every topic, summed in document order (dense step).

    Parameters
    ----------
    indptr : ndarray of shape (n_documents + 1,), int64
        CSR row pointer of the chunk.
    word_ptr, occurrence, weight, row, n_threads
        As for `sum_by_word`.
    resp : ndarray of shape (nnz + n_documents * n_topics, 1)
        What `_topic_documents.fit_documents` returned.

    Returns
    -------
    row_ptr, topics, counts, log_weight_sum
        As for `sum_by_word`; topics ascend, exact zeros are not stored.
    """
    cdef Py_ssize_t n_words = word_ptr.shape[0] - 1, nnz = occurrence.shape[0], w, i, p
    cdef int K = <int>weight.shape[1], k, n
    cdef double x, ratio
    cdef long long at
    upper_array = np.arange(n_words + 1, dtype=np.int64) * K
    document_array = np.repeat(
        np.arange(indptr.shape[0] - 1, dtype=np.int32), np.diff(np.asarray(indptr)))
    cdef const int[::1] document = document_array
    topics_array = np.empty(n_words * K, dtype=np.int32)
    counts_array = np.empty(n_words * K, dtype=np.asarray(resp).dtype)
    stored_array = np.zeros(n_words, dtype=np.int64)
    log_array = np.zeros(n_words)
    cdef int[::1] topics = topics_array
    cdef floating[::1] counts = counts_array
    cdef long long[::1] stored = stored_array
    cdef double[::1] log_sum = log_array
    cdef double *total
    cdef const floating *doc_weight
    cdef int no_memory = 0
    cdef int *failed = &no_memory
    with nogil, parallel(num_threads=n_threads):
        total = <double *>malloc(K * sizeof(double))
        if total == NULL:
            failed[0] = 1
        for w in prange(n_words, schedule="dynamic", chunksize=16):
            if failed[0]:
                continue
            at = w * K
            memset(total, 0, K * sizeof(double))
            for i in range(word_ptr[w], word_ptr[w + 1]):
                p = occurrence[i]
                ratio = resp[p, 0]
                doc_weight = &resp[nnz + <Py_ssize_t>document[p] * K, 0]
                for k in range(K):
                    total[k] = total[k] + ratio * doc_weight[k]
            n = 0
            x = 0
            for k in range(K):
                ratio = total[k] * weight[row[w], k]
                if ratio > 0:
                    topics[at + n] = k
                    counts[at + n] = <floating>ratio
                    x = x + ratio * log_pos(<double>weight[row[w], k])
                    n = n + 1
            stored[w] = n
            log_sum[w] = x
        free(total)
    if no_memory:
        raise MemoryError("no memory for the statistics of a word")
    parts = _compact[floating](upper_array, stored_array, topics_array, counts, n_threads)
    return parts + (log_array,)


cdef object _compact(upper_array, stored_array, topics_array, floating[::1] counts, int n_threads):
    """Rows without the gaps between them: they reserve more than they use."""
    cdef const long long[::1] upper = upper_array
    cdef const int[::1] topics = topics_array
    cdef Py_ssize_t w, n_words = stored_array.shape[0]
    row_ptr_array = np.zeros(n_words + 1, dtype=np.int64)
    np.cumsum(stored_array, out=row_ptr_array[1:])
    cdef const long long[::1] row_ptr = row_ptr_array
    cdef long long n
    held_topics_array = np.empty(row_ptr_array.item(n_words), dtype=np.int32)
    held_counts_array = np.empty(row_ptr_array.item(n_words), dtype=np.asarray(counts).dtype)
    cdef int[::1] held_topics = held_topics_array
    cdef floating[::1] held_counts = held_counts_array
    for w in prange(n_words, nogil=True, schedule="static", num_threads=n_threads):
        n = row_ptr[w + 1] - row_ptr[w]
        if n:
            memcpy(&held_topics[row_ptr[w]], &topics[upper[w]], n * sizeof(int))
            memcpy(&held_counts[row_ptr[w]], &counts[upper[w]], n * sizeof(floating))
    return row_ptr_array, held_topics_array, held_counts_array


def sum_over_documents(
    const indptr_t[::1] indptr,  # IN
    const int[::1] local,  # IN
    const floating[::1] counts,  # IN
    const Py_ssize_t[::1] documents,  # IN
    const int[:, ::1] index,  # IN
    const floating[:, ::1] resp,  # IN
    Py_ssize_t n_words,  # IN
    int n_topics,  # IN
):
    """Expected counts of words in topics, of a few documents of a chunk (sparse step).

    Parameters
    ----------
    indptr : ndarray of shape (n_documents + 1,)
        Where each document's words begin.
    local : ndarray of shape (nnz,), int32
        Which word each occurrence is of.
    counts : ndarray of shape (nnz,)
        How often it occurs.
    documents : ndarray of shape (n_used,), intp
        The documents.
    index, resp : ndarray of shape (nnz, L)
        What `_topic_documents.fit_documents` returned.
    n_words, n_topics : int
        Numbers of words of the chunk and of topics.

    Returns
    -------
    words : ndarray of shape (n_held,), int32
        The words of the documents, ascending.
    row_ptr : ndarray of shape (n_held + 1,), int64
    topics : ndarray of shape (n_stored,), int32
    sums : ndarray of shape (n_stored,), float64
        Their expected counts, as of `sum_by_word`.
    entropy : float
        Of the occurrences' responsibilities, each as often as it occurs.
    """
    cdef Py_ssize_t d, i, p, w, row, n_held = 0, base = indptr[0], L = index.shape[1]
    cdef int j, k
    cdef long long n = 0, first
    cdef double x, entropy = 0
    row_of_array = np.full(n_words, -1, dtype=np.int32)
    cdef int[::1] row_of = row_of_array
    for i in range(documents.shape[0]):
        d = documents[i]
        n_held += indptr[d + 1] - indptr[d]
        for p in range(indptr[d] - base, indptr[d + 1] - base):
            row_of[local[p]] = 0
    words_array = np.flatnonzero(row_of_array == 0).astype(np.int32)
    cdef const int[::1] words = words_array
    for row in range(words.shape[0]):
        row_of[words[row]] = <int>row
    place_array = np.zeros(words.shape[0] + 1, dtype=np.int64)
    cdef long long[::1] place = place_array
    for i in range(documents.shape[0]):
        d = documents[i]
        for p in range(indptr[d] - base, indptr[d + 1] - base):
            place[row_of[local[p]] + 1] += 1
    begins_array = np.cumsum(place_array)
    cdef const long long[::1] begins = begins_array
    place_array[:] = begins_array
    cdef Py_ssize_t[::1] order = np.empty(n_held, dtype=np.intp)
    for i in range(documents.shape[0]):
        d = documents[i]
        for p in range(indptr[d] - base, indptr[d + 1] - base):
            w = row_of[local[p]]
            order[place[w]] = p
            place[w] += 1
    row_ptr_array = np.zeros(words.shape[0] + 1, dtype=np.int64)
    topics_array = np.empty(n_held * L, dtype=np.int32)
    sums_array = np.empty(n_held * L)
    cdef long long[::1] row_ptr = row_ptr_array
    cdef int[::1] topics = topics_array
    cdef double[::1] sums = sums_array
    cdef long long[::1] at = np.full(n_topics, -1, dtype=np.int64)
    for row in range(words.shape[0]):
        first = n
        for i in range(begins[row], begins[row + 1]):
            p = order[i]
            for j in range(L):
                k = index[p, j]
                if k < 0:
                    break
                if at[k] < first:
                    at[k] = n
                    topics[n] = k
                    sums[n] = 0
                    n += 1
                x = resp[p, j]
                sums[at[k]] += x
                if x > 0:
                    entropy -= x * log_pos(x / counts[p])
        row_ptr[row + 1] = n
    return words_array, row_ptr_array, topics_array[:n].copy(), sums_array[:n].copy(), entropy


def dirichlet_bound_terms(
    const double[:, ::1] counts,  # IN
    double scale,  # IN
    const double[:, :] prior,  # IN
    int n_threads=1,  # IN
    bint point=False,  # IN
):
    """Sum over topics of log Gamma(prior + counts) - log Gamma(prior), for every word.

    The part of the bound that only the topics have (Hughes & Sudderth 2016, B.2) once the sums over
    words are put to it; of topics that are points x log x stands for log Gamma(x). Words that a
    topic never has cost nothing.

    Parameters
    ----------
    counts, scale, prior, n_threads, point
        As for `_topic_words.topic_rows`.

    Returns
    -------
    terms : ndarray of shape (n_features,), float64
        The sums.
    """
    cdef Py_ssize_t v
    cdef int k, K = <int>counts.shape[1]
    cdef double x, y, p
    terms_array = np.zeros(counts.shape[0])
    cdef double[::1] terms = terms_array
    for v in prange(counts.shape[0], nogil=True, schedule="dynamic", chunksize=64,
                    num_threads=n_threads):
        x = 0
        for k in range(K):
            if counts[v, k] != 0:
                p = prior[v, k]
                y = p + scale * counts[v, k]
                if point:
                    x = x + y * log_pos(y) - p * log_pos(p)
                else:
                    x = x + gammaln(y) - gammaln(p)
        terms[v] = x
    return terms_array


def dirichlet_gap_terms(
    const double[:, ::1] counts,  # IN
    double scale,  # IN
    const double[:, ::1] at,  # IN
    double at_scale,  # IN
    const double[:, :] prior,  # IN
    const double[::1] topic_log,  # IN
    int n_threads=1,  # IN
    bint point=False,  # IN
):
    """Sum over topics of (counts - at) E[log phi], for every word, with q(phi) given by `at`.

    What is left in the bound of the terms in E[log phi] when q(phi) lags behind the counts, as it
    does in stochastic learning.

    Parameters
    ----------
    counts, scale : ndarray of shape (n_features, n_topics), float
        Expected counts and the factor on them.
    at, at_scale : ndarray of shape (n_features, n_topics), float
        The counts that q(phi) follows from and the factor on them.
    prior, topic_log, n_threads, point
        As for `_topic_words.topic_rows`.

    Returns
    -------
    terms : ndarray of shape (n_features,), float64
        The sums.
    """
    cdef Py_ssize_t v
    cdef int k, K = <int>counts.shape[1]
    cdef double x, y, gap
    terms_array = np.zeros(counts.shape[0])
    cdef double[::1] terms = terms_array
    for v in prange(counts.shape[0], nogil=True, schedule="dynamic", chunksize=64,
                    num_threads=n_threads):
        x = 0
        for k in range(K):
            gap = scale * counts[v, k] - at_scale * at[v, k]
            if gap != 0:
                y = prior[v, k] + at_scale * at[v, k]
                x = x + gap * ((log_pos(y) if point else digamma(y)) - topic_log[k])
        terms[v] = x
    return terms_array


def dirichlet_merge_gains(
    const double[:, ::1] counts,  # IN
    double scale,  # IN
    const double[:, :] prior,  # IN
    const Py_ssize_t[:, ::1] pairs,  # IN
    int n_threads=1,  # IN
    bint point=False,  # IN
):
    """What the sum of `dirichlet_bound_terms` gains by each of some merges of two topics.

    Parameters
    ----------
    counts, scale, prior, n_threads, point
        As for `_topic_words.topic_rows`; both topics of a pair have the same prior.
    pairs : ndarray of shape (n_pairs, 2), intp
        The topics.

    Returns
    -------
    gain : ndarray of shape (n_pairs,), float64
        What each merge alone would gain. Words that one of the two never has gain nothing.
    """
    cdef Py_ssize_t n_words = counts.shape[0], block
    parts_array = np.zeros((BLOCKS, max(pairs.shape[0], 1)))
    cdef double[:, ::1] parts = parts_array
    for block in prange(BLOCKS, nogil=True, schedule="dynamic", num_threads=n_threads):
        _merge_gains_of_words(
            counts, scale, prior, pairs, point,
            block * n_words // BLOCKS, (block + 1) * n_words // BLOCKS, &parts[block, 0],
        )
    return parts_array.sum(axis=0)[:pairs.shape[0]]


cdef void _merge_gains_of_words(
    const double[:, ::1] counts,  # IN
    double scale,  # IN
    const double[:, :] prior,  # IN
    const Py_ssize_t[:, ::1] pairs,  # IN
    bint point,  # IN
    Py_ssize_t start,  # IN
    Py_ssize_t stop,  # IN
    double *gain,  # IN/OUT
) noexcept nogil:
    """Add the gains of some words."""
    cdef Py_ssize_t v, s
    cdef double a, b, p
    for v in range(start, stop):
        for s in range(pairs.shape[0]):
            a, b = counts[v, pairs[s, 0]], counts[v, pairs[s, 1]]
            if a == 0 or b == 0:
                continue
            p = prior[v, pairs[s, 0]]
            a, b = scale * a, scale * b
            gain[s] += (_log_factorial(p + a + b, point) + _log_factorial(p, point)
                        - _log_factorial(p + a, point) - _log_factorial(p + b, point))


cdef inline double _log_factorial(double x, bint point) noexcept nogil:
    """log Gamma(x), or what stands for it of topics that are points."""
    return x * log_pos(x) if point else gammaln(x)


def prior_gains(
    const floating[:, ::1] mass,  # IN
    const double[::1] alpha,  # IN
    const double[::1] weight,  # IN
    int n_threads=1,  # IN
):
    """Sum psi(alpha_k + mass_dk) - psi(alpha_k) over documents.

    Parameters
    ----------
    mass : ndarray of shape (n_documents, n_topics)
        Expected topic counts.
    alpha : ndarray of shape (n_topics,), float64
        The prior's parameters.
    weight : ndarray of shape (n_documents,), float64
        How often each document counts.
    n_threads : int, default=1
        Number of OpenMP threads.

    Returns
    -------
    gain : ndarray of shape (n_topics,), float64
        The sums.
    """
    cdef Py_ssize_t n_documents = mass.shape[0], n_topics = mass.shape[1], block, k
    parts_array = np.zeros((BLOCKS, n_topics))
    own_array = np.empty(n_topics)
    held_array = np.empty((BLOCKS, n_topics + 1), dtype=np.int32)
    cdef double[:, ::1] parts = parts_array
    cdef double[::1] own = own_array
    cdef int[:, ::1] held = held_array
    for k in range(n_topics):
        own[k] = digamma(alpha[k])
    for block in prange(BLOCKS, nogil=True, schedule="dynamic", num_threads=n_threads):
        _prior_gains_of_documents[floating](
            mass, alpha, own, weight, block * n_documents // BLOCKS,
            (block + 1) * n_documents // BLOCKS, held[block], parts[block],
        )
    return parts_array.sum(axis=0)


cdef void _prior_gains_of_documents(
    const floating[:, ::1] mass,  # IN
    const double[::1] alpha,  # IN
    const double[::1] own,  # IN
    const double[::1] weight,  # IN
    Py_ssize_t start,  # IN
    Py_ssize_t stop,  # IN
    int[::1] held,  # OUT
    double[::1] gain,  # IN/OUT
) noexcept nogil:
    """The gains of some documents."""
    cdef Py_ssize_t d, k, i, n_held
    for d in range(start, stop):
        n_held = 0
        for k in range(mass.shape[1]):  # most are zero
            held[n_held] = <int>k
            n_held += mass[d, k] > 0
        for i in range(n_held):
            k = held[i]
            gain[k] += weight[d] * (digamma(alpha[k] + mass[d, k]) - own[k])
