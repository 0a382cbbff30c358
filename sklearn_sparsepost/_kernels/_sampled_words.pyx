"""What words weigh in fixed topics, as draws read it (Mimno et al. 2012, Appendix A).

* `list_words`: weights in the topics that have counts of a word, beside a part that words share;
* `alias_tables`: draws from alpha times these weights in constant time;
* `dense_rows`: all weights of the words that have many.
"""
from cython.parallel cimport parallel, prange
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from sklearn_sparsepost._kernels._alias cimport Column, alias_build
from sklearn_sparsepost._kernels._math cimport exp_nonpos, expdigamma_large, shift_up

import numpy as np

cdef enum:
    FEW_DRAWS = 12  # fewer are not worth an alias table
    MOST_EMPTY = 16  # a dense row is worth it if no more than one of so many topics has counts

# What a topic without counts of a word weighs at least: some topic has to have drawn it.
cdef float LEAST = 1e-30

COLUMN = np.dtype([("share", np.float32), ("own", np.int32), ("other", np.int32)])


cdef inline float _expdigamma(float x) noexcept nogil:
    cdef float y
    cdef float less = shift_up(x, &y)
    return expdigamma_large(y) * exp_nonpos(-less)


def list_words(
    const long long[::1] first,  # IN
    const int[::1] length,  # IN
    const int[::1] pool_topics,  # IN
    const double[::1] pool_values,  # IN
    const int[::1] words,  # IN
    double scale,  # IN
    const double[::1] prior,  # IN
    const double[::1] inverse,  # IN
    bint point,  # IN
    int n_threads=1,  # IN
):
    """What words weigh in the topics that have counts of them (Mimno et al. 2012, Appendix A).

    Parameters
    ----------
    first, length, pool_topics, pool_values : ndarray
        Counts of all words in topics, as `RowTable` has them.
    words : ndarray of shape (n_words,), int32
        The words wanted.
    scale : float
        Factor on the counts.
    prior : ndarray of shape (n_words,), float64
        Prior of each word, the same in all topics.
    inverse : ndarray of shape (n_topics,), float64
        One over each topic's total of prior and counts; of posteriors exp(-psi(total)).
    point : bool
        Whether topics are points, shares of their totals, instead of Dirichlet distributed.
    n_threads : int, default=1
        Number of OpenMP threads.

    Returns
    -------
    row_ptr : ndarray of shape (n_words + 1,), int64
        Word `w` is at ``row_ptr[w]:row_ptr[w + 1]``.
    topics : ndarray of shape (n_stored,), int32
        Topics, ascending in a word.
    weight : ndarray of shape (n_stored,), float32
        What each entry weighs more than a topic without counts.
    base : ndarray of shape (n_words,), float32
        What the word weighs in a topic of total 1 without counts.
    """
    cdef Py_ssize_t n_words = words.shape[0], w, j, at, n
    row_ptr_array = np.zeros(n_words + 1, dtype=np.int64)
    np.cumsum(np.asarray(length)[np.asarray(words)], out=row_ptr_array[1:])
    topics_array = np.empty(row_ptr_array[n_words], dtype=np.int32)
    weight_array = np.empty(row_ptr_array[n_words], dtype=np.float32)
    base_array = np.empty(n_words, dtype=np.float32)
    cdef const long long[::1] row_ptr = row_ptr_array
    cdef int[::1] topics = topics_array
    cdef float[::1] weight = weight_array, base = base_array
    cdef float x
    for w in prange(
        n_words, nogil=True, schedule="dynamic", chunksize=64, num_threads=n_threads
    ):
        x = <float>prior[w] if point else _expdigamma(<float>prior[w])
        base[w] = x if x > LEAST else LEAST
        at, n = first[words[w]], row_ptr[w + 1] - row_ptr[w]
        if n:
            memcpy(&topics[row_ptr[w]], &pool_topics[0] + at, n * sizeof(int))
        at = at - row_ptr[w]
        if point:
            for j in range(row_ptr[w], row_ptr[w + 1]):
                weight[j] = <float>(scale * pool_values[at + j] * inverse[topics[j]])
        else:
            for j in range(row_ptr[w], row_ptr[w + 1]):
                weight[j] = <float>(
                    (_expdigamma(<float>(prior[w] + scale * pool_values[at + j])) - x)
                    * inverse[topics[j]])
    return row_ptr_array, topics_array, weight_array, base_array


def alias_tables(
    const long long[::1] row_ptr,  # IN
    const int[::1] topics,  # IN
    const float[::1] weight,  # IN
    const double[::1] alpha,  # IN
    const double[::1] n_draws,  # IN
    int n_threads=1,  # IN
):
    """Tables from which topics are drawn by alpha times what a word weighs in them.

    Words that are drawn from a few times only have none: to pass over their entries costs less.

    Parameters
    ----------
    row_ptr, topics, weight : ndarray
        The words' weights.
    alpha : ndarray of shape (n_topics,), float64
        Prior of the documents' topic weights.
    n_draws : ndarray of shape (n_words,), float64
        How often each word is about to be drawn from.
    n_threads : int, default=1
        Number of OpenMP threads.

    Returns
    -------
    first : ndarray of shape (n_words,), int64
        Where in `columns` the table of each word begins; -1 for none.
    columns : ndarray of records (share, own, other)
        A column of each entry: its topic, how much of the column is its own, and whose the rest is.
    mass : ndarray of shape (n_words,), float64
        Sums of alpha times weight.
    """
    cdef Py_ssize_t n_words = row_ptr.shape[0] - 1, w, j, at
    cdef int n, K = <int>alpha.shape[0]
    lengths = np.where(np.asarray(n_draws) >= FEW_DRAWS, np.diff(np.asarray(row_ptr)), 0)
    first_array = np.where(lengths > 0, np.cumsum(lengths) - lengths, -1)
    columns_array = np.empty(lengths.sum(), dtype=COLUMN)
    mass_array = np.zeros(n_words)
    cdef const long long[::1] first = first_array
    cdef Column[::1] columns = columns_array
    cdef double[::1] mass = mass_array
    cdef double *scratch
    cdef double total
    cdef float *share
    cdef int *other
    cdef Column *column
    cdef int no_memory = 0
    cdef int *failed = &no_memory
    with nogil, parallel(num_threads=n_threads):
        scratch = <double *>malloc(3 * K * sizeof(double))
        if scratch == NULL:
            failed[0] = 1
        for w in prange(n_words, schedule="dynamic", chunksize=64):
            at = row_ptr[w]
            n = <int>(row_ptr[w + 1] - at)
            if failed[0] or n == 0:
                continue
            if first[w] < 0:
                total = 0
                for j in range(at, at + n):
                    total = total + alpha[topics[j]] * weight[j]
                mass[w] = total
                continue
            share = <float *>(scratch + K)
            other = <int *>(scratch + 2 * K)
            column = &columns[first[w]]
            for j in range(n):
                scratch[j] = alpha[topics[at + j]] * weight[at + j]
            mass[w] = alias_build(scratch, n, share, other, <int *>share + K)
            for j in range(n):
                column[j].share = share[j]
                column[j].own = topics[at + j]
                column[j].other = topics[at + other[j]]
        free(scratch)
    if no_memory:
        raise MemoryError("no memory for the alias table of a word")
    return first_array, columns_array, mass_array


def dense_rows(
    const long long[::1] row_ptr,  # IN
    const int[::1] topics,  # IN
    const float[::1] weight,  # IN
    const float[::1] base,  # IN
    const float[::1] inverse,  # IN
    const long long[::1] n_documents,  # IN
    int n_threads=1,  # IN
):
    """All weights of the words that have many entries, or many documents to read them.

    Parameters
    ----------
    row_ptr, topics, weight, base : ndarray
        The words' weights.
    inverse : ndarray of shape (n_topics,), float32
        One over each topic's total.
    n_documents : ndarray of shape (n_words,), int64
        How many documents have each word.
    n_threads : int, default=1
        Number of OpenMP threads.

    Returns
    -------
    row : ndarray of shape (n_words,), int32
        Which row of `dense` a word has, -1 for none.
    dense : ndarray of shape (n_rows, n_topics), float32
        The weights.
    """
    cdef Py_ssize_t w, j, n_words = base.shape[0]
    cdef int k, K = <int>inverse.shape[0]
    # A row costs as much as its length, and saves every document a look at all entries.
    readers = np.minimum(np.asarray(n_documents), MOST_EMPTY)
    many = readers * np.diff(np.asarray(row_ptr)) >= K
    row_array = np.where(many, np.cumsum(many) - 1, -1).astype(np.int32)
    dense_array = np.empty((np.count_nonzero(many), K), dtype=np.float32)
    cdef const int[::1] row = row_array
    cdef float[:, ::1] dense = dense_array
    cdef float *out
    for w in prange(
        n_words, nogil=True, schedule="dynamic", chunksize=64, num_threads=n_threads
    ):
        if row[w] >= 0:
            out = &dense[row[w], 0]
            for k in range(K):
                out[k] = base[w] * inverse[k]
            for j in range(row_ptr[w], row_ptr[w + 1]):
                out[topics[j]] += weight[j]
    return row_array, dense_array
