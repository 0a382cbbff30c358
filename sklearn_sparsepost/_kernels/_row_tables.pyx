"""Tables whose rows keep their few entries in a pool: rows that grow, and are read a few at a time.

A row `v` has its entries, topics ascending, at `first[v]` and the `length[v] - 1` places behind it.
What is in the pool is never written to again; a changed row goes to its end. So an older table of
the same pool stays as it was.
"""
from cython.parallel cimport parallel, prange
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from sklearn_sparsepost._kernels._bits cimport bits_of, lowest_bit
from sklearn_sparsepost._kernels._rng cimport KeyedStream, keyed_init, keyed_next_double
from sklearn_sparsepost._kernels._types cimport floating

import numpy as np

cdef inline void _add(
    const int *topic, const floating *value, Py_ssize_t n, double factor, uint64_t *marks,
    double *total
) noexcept nogil:
    """Add factor * entries to totals, 0 where unmarked, and mark the topics that have one."""
    cdef Py_ssize_t j
    cdef int k
    for j in range(n):
        k = topic[j]
        marks[k >> 6] |= (<uint64_t>1) << (k & 63)
        total[k] += factor * value[j]


cdef inline int _take(
    uint64_t *marks, int n_marks, double *total, double least, uint64_t row, int *topic,
    floating *value
) noexcept nogil:
    """Write the marked totals, topics ascending, unmark and clear them, and count them.

    Those below `least` become that or nothing, by lot, so that what is expected stays as it is;
    lots are keyed by the row and what is in it.
    """
    cdef int k, m, n = 0
    cdef bint begun = False
    cdef double x
    cdef uint64_t word
    cdef KeyedStream stream
    for m in range(n_marks):
        word = marks[m]
        marks[m] = 0
        while word:
            k = 64 * m + lowest_bit(word)
            word &= word - 1
            x = total[k]
            total[k] = 0
            if x < least:
                if x <= 0:
                    continue
                if not begun:
                    begun = True
                    keyed_init(&stream, bits_of(least), bits_of(x), row)
                if keyed_next_double(&stream) * least >= x:
                    continue
                x = least
            topic[n] = k
            value[n] = <floating>x
            n += 1
    return n


cdef inline void _pass_on(
    uint64_t *marks, double *total, int n_marks, int n_topics, bint to_single
) noexcept nogil:
    """Round marked totals, add them to those behind them, and unmark and clear them."""
    cdef int k, m
    cdef double x
    cdef uint64_t word
    for m in range(n_marks):
        word = marks[m]
        if not word:
            continue
        marks[m] = 0
        marks[n_marks + m] |= word
        while word:
            k = 64 * m + lowest_bit(word)
            word &= word - 1
            x = total[k]
            total[k] = 0
            total[n_topics + k] += <float>x if to_single else x


def merge_rows(
    const long long[::1] first,  # IN
    const int[::1] length,  # IN
    const int[::1] pool_topics,  # IN
    const double[::1] pool_values,  # IN
    const int[::1] rows,  # IN
    const long long[:, ::1] places,  # IN
    const int[::1] topics,  # IN
    const floating[::1] counts,  # IN
    double factor,  # IN
    const long long[:, ::1] other_places,  # IN
    const int[::1] other_topics,  # IN
    const floating[::1] other_counts,  # IN
    double other_factor,  # IN
    double least,  # IN
    const long long[::1] out_first,  # IN
    int[::1] out_length,  # OUT
    int[::1] out_topics,  # OUT
    double[::1] out_values,  # OUT
    int n_topics,  # IN
    int n_threads=1,  # IN
):
    """Add multiples of one or two tables to some rows, and write them elsewhere.

    Parameters
    ----------
    first, length : ndarray of shape (n_features,), int64 and int32
        Where each row has its entries.
    pool_topics, pool_values : ndarray, int32 and float64
        The entries.
    rows : ndarray of shape (n_rows,), int32
        Distinct rows that something is added to.
    places : ndarray of shape (2, n_rows), int64
        What is added to ``rows[r]`` is at ``places[0, r]:places[1, r]``, each topic once.
    topics, counts : ndarray, int32 and float
        The entries that are added.
    factor : float
        What to multiply the counts by.
    other_places, other_topics, other_counts, other_factor
        The same of the other table; places of no length where there is none.
    least : float
        Entries below this become that or nothing, by lot, so that their expectation stays.
    out_first : ndarray of shape (n_rows,), int64
        Where each of the rows is to be written: so far apart that all their entries fit.
    out_length : ndarray of shape (n_rows,), int32
        How many entries were written.
    out_topics, out_values : ndarray, int32 and float64
        Where to.
    n_topics : int
        Number of topics.
    n_threads : int, default=1
        Number of OpenMP threads.
    """
    cdef Py_ssize_t r, v, at, n_marks = (n_topics + 63) // 64
    cdef uint64_t *marks
    cdef double *total
    cdef const int *further_topics = &other_topics[0] if other_topics.shape[0] else NULL
    cdef const floating *further_counts = &other_counts[0] if other_counts.shape[0] else NULL
    cdef const int *old_topics = &pool_topics[0] if pool_topics.shape[0] else NULL
    cdef const double *old_values = &pool_values[0] if pool_values.shape[0] else NULL
    cdef const int *new_topics = &topics[0] if topics.shape[0] else NULL
    cdef const floating *new_counts = &counts[0] if counts.shape[0] else NULL
    cdef int *to_topics = &out_topics[0] if out_topics.shape[0] else NULL
    cdef double *to_values = &out_values[0] if out_values.shape[0] else NULL
    cdef int no_memory = 0
    cdef int *failed = &no_memory
    with nogil, parallel(num_threads=n_threads):
        marks = <uint64_t *>calloc(n_marks, sizeof(uint64_t))
        total = <double *>calloc(n_topics, sizeof(double))
        if marks == NULL or total == NULL:
            failed[0] = 1
        for r in prange(rows.shape[0], schedule="dynamic", chunksize=64):
            if failed[0]:
                continue
            v = rows[r]
            _add[double](old_topics + first[v], old_values + first[v], length[v], 1, marks, total)
            at = places[0, r]
            _add[floating](new_topics + at, new_counts + at, places[1, r] - at, factor, marks,
                           total)
            at = other_places[0, r]
            _add[floating](further_topics + at, further_counts + at, other_places[1, r] - at,
                           other_factor, marks, total)
            out_length[r] = _take[double](
                marks, <int>n_marks, total, least, v, to_topics + out_first[r],
                to_values + out_first[r])
        free(marks)
        free(total)
    if no_memory:
        raise MemoryError("no memory for a row of a table")


def gather_rows(
    const long long[::1] first,  # IN
    const int[::1] length,  # IN
    const int[::1] pool_topics,  # IN
    const double[::1] pool_values,  # IN
    const int[::1] rows,  # IN
    Py_ssize_t room=0,  # IN
    memory=None,  # OUT
):
    """The entries of some rows, one row after another.

    Parameters
    ----------
    first, length, pool_topics, pool_values
        As for :func:`merge_rows`.
    rows : ndarray of shape (n_rows,), int32
        The rows wanted.
    room : int, default=0
        Places that are to be left free behind the entries.
    memory : tuple of ndarray, int32 and float64, default=None
        Where topics and values are written, of no overlap with the pool; by default, new arrays.

    Returns
    -------
    row_ptr : ndarray of shape (n_rows + 1,), int64
        Row ``rows[r]`` is at ``row_ptr[r]:row_ptr[r + 1]``.
    topics : ndarray of shape (n_stored + room,), int32
        Topics, ascending in a row.
    values : ndarray of shape (n_stored + room,), float64
        The entries.
    """
    row_ptr_array = np.zeros(rows.shape[0] + 1, dtype=np.int64)
    np.cumsum(np.asarray(length)[np.asarray(rows)], out=row_ptr_array[1:])
    cdef const long long[::1] row_ptr = row_ptr_array
    cdef Py_ssize_t n_places = row_ptr[rows.shape[0]] + room
    if memory is None:
        memory = np.empty(n_places, dtype=np.int32), np.empty(n_places)
    topics_array, values_array = memory
    if len(topics_array) < row_ptr[rows.shape[0]] or len(values_array) != len(topics_array):
        raise ValueError("memory is too small for the entries")
    cdef int[::1] topics = topics_array
    cdef double[::1] values = values_array
    cdef Py_ssize_t r, n, at
    with nogil:
        for r in range(rows.shape[0]):
            at, n = first[rows[r]], row_ptr[r + 1] - row_ptr[r]
            if n:
                memcpy(&topics[row_ptr[r]], &pool_topics[0] + at, n * sizeof(int))
                memcpy(&values[row_ptr[r]], &pool_values[0] + at, n * sizeof(double))
    return row_ptr_array, topics_array, values_array


def sum_rows(
    const long long[::1] group_ptr,  # IN
    const long long[::1] member,  # IN
    const int[::1] source,  # IN
    const long long[::1] first,  # IN
    const long long[::1] row_length,  # IN
    tables,  # IN
    const long long[::1] out_first,  # IN
    int[::1] out_topics,  # OUT
    floating[::1] out_values,  # OUT
    int n_topics,  # IN
    int depth=0,  # IN
    int n_threads=1,  # IN
):
    """Sum groups of rows of some tables, in double and in a fixed order.

    With `depth` 1 or more tables are summed by so many halvings: neighbours, sums of two of these,
    and so on, each rounded as what comes out is.

    Parameters
    ----------
    group_ptr : ndarray of shape (n_groups + 1,), int64
        Group `g` is the rows ``member[group_ptr[g]:group_ptr[g + 1]]``.
    member : ndarray of shape (n_rows,), int64
        Which rows.
    source : ndarray of shape (n_rows,), int32
        The table that has the row.
    first, row_length : ndarray of shape (n_rows,), int64
        Where its entries begin there, and how many they are.
    tables : list of tuple of ndarray
        For each table the topics of its entries, int32, and their values, float32 or float64.
    out_first : ndarray of shape (n_groups + 1,), int64
        Where each sum is written at first: so far apart that all its entries fit.
    out_topics, out_values : ndarray of shape (out_first[-1],)
        There; what they hold afterwards is of no use.
    n_topics : int
        Number of topics.
    depth : int, default=0
        How often neighbours are summed before they are added up; there are ``2 ** (depth + 1)``
        tables then, and the rows of a group ascend by table.
    n_threads : int, default=1
        Number of OpenMP threads.

    Returns
    -------
    sum_ptr : ndarray of shape (n_groups + 1,), int64
        The sum of group `g` is at ``sum_ptr[g]:sum_ptr[g + 1]``.
    sum_topics, sum_values : ndarray
        The entries, topics ascending in a sum.
    """
    cdef Py_ssize_t g, i, r, t, before, n_marks = (n_topics + 63) // 64
    cdef int level
    cdef bint to_single = floating is float
    sum_ptr_array = np.zeros(group_ptr.shape[0], dtype=np.int64)
    length_array = np.zeros(group_ptr.shape[0] - 1, dtype=np.int64)
    dtype = np.asarray(out_values).dtype
    if not out_topics.shape[0]:
        return sum_ptr_array, np.empty(0, dtype=np.int32), np.empty(0, dtype=dtype)
    # Where tables are: they are read in place, since copies would cost as much as the sums.
    cdef const size_t[::1] topics_at = addresses([pair[0] for pair in tables], np.int32)
    cdef const size_t[::1] values_at = addresses(
        [pair[1] for pair in tables], np.float32, np.float64)
    cdef const signed char[::1] is_single = np.array(
        [pair[1].dtype == np.float32 for pair in tables], dtype=np.int8)
    cdef long long[::1] length = length_array
    cdef const long long[::1] sum_ptr = sum_ptr_array
    cdef const int *topics
    cdef uint64_t *marks
    cdef double *total
    cdef int no_memory = 0
    cdef int *failed = &no_memory
    with nogil, parallel(num_threads=n_threads):
        marks = <uint64_t *>calloc((depth + 1) * n_marks, sizeof(uint64_t))
        total = <double *>calloc((depth + 1) * n_topics, sizeof(double))
        if marks == NULL or total == NULL:
            failed[0] = 1
        for g in prange(length.shape[0], schedule="dynamic", chunksize=64):
            if failed[0]:
                continue
            before = 0
            for i in range(group_ptr[g], group_ptr[g + 1]):
                r = member[i]
                t = source[r]
                for level in range(depth):
                    if before >> (level + 1) != t >> (level + 1):
                        _pass_on(marks + level * n_marks, total + level * n_topics, <int>n_marks,
                                 n_topics, to_single)
                before = t
                topics = <const int *>topics_at[t] + first[r]
                if is_single[t]:
                    _add[float](topics, <const float *>values_at[t] + first[r], row_length[r], 1,
                                marks, total)
                else:
                    _add[double](topics, <const double *>values_at[t] + first[r], row_length[r],
                                 1, marks, total)
            for level in range(depth):
                _pass_on(marks + level * n_marks, total + level * n_topics, <int>n_marks, n_topics,
                         to_single)
            length[g] = _take[floating](
                marks + depth * n_marks, <int>n_marks, total + depth * n_topics, -1e308, g,
                &out_topics[0] + out_first[g], &out_values[0] + out_first[g])
        free(marks)
        free(total)
    if no_memory:
        raise MemoryError("no memory for a row of a table")
    np.cumsum(length_array, out=sum_ptr_array[1:])
    # Copies without gaps, as what lies between them would stay in memory.
    held_topics_array = np.empty(sum_ptr[length.shape[0]], dtype=np.int32)
    held_values_array = np.empty(len(held_topics_array), dtype=dtype)
    cdef int[::1] held_topics = held_topics_array
    cdef floating[::1] held_values = held_values_array
    for g in prange(length.shape[0], nogil=True, schedule="static", num_threads=n_threads):
        if length[g]:
            memcpy(&held_topics[sum_ptr[g]], &out_topics[out_first[g]], length[g] * sizeof(int))
            memcpy(&held_values[sum_ptr[g]], &out_values[out_first[g]],
                   length[g] * sizeof(floating))
    return sum_ptr_array, held_topics_array, held_values_array


def addresses(arrays, *dtypes):
    """Where arrays of some types begin in memory; their numbers follow each other."""
    for array in arrays:
        if array.dtype not in dtypes or not array.flags.c_contiguous:
            raise TypeError(f"a table's entries are {array.dtype}, or not contiguous")
    return np.array([array.ctypes.data for array in arrays], dtype=np.uintp)


def sum_columns(
    const int[::1] topics,  # IN
    const floating[::1] values,  # IN
    int n_topics,  # IN
):
    """Sum of the entries of each topic, in double and in their order.

    Parameters
    ----------
    topics, values : ndarray of shape (n_stored,)
        The entries.
    n_topics : int
        Number of topics.

    Returns
    -------
    sums : ndarray of shape (n_topics,), float64
        The sums.
    """
    cdef Py_ssize_t i
    sums_array = np.zeros(n_topics)
    cdef double[::1] sums = sums_array
    with nogil:
        for i in range(topics.shape[0]):
            sums[topics[i]] += values[i]
    return sums_array


def take_columns(
    const double[:, ::1] table,  # IN
    const long long[::1] order,  # IN
    double[:, ::1] taken,  # OUT
    int n_threads=1,  # IN
):
    """Some columns of a dense table, in another order.

    Parameters
    ----------
    table : ndarray of shape (n_rows, n_columns), float64
        The table.
    order : ndarray of shape (n_taken,), int64
        Which columns.
    taken : ndarray of shape (n_rows, n_taken), float64
        The columns.
    n_threads : int, default=1
        Number of OpenMP threads.
    """
    cdef Py_ssize_t row, j
    for row in prange(table.shape[0], nogil=True, schedule="static", num_threads=n_threads):
        for j in range(order.shape[0]):
            taken[row, j] = table[row, order[j]]


def take_entries(
    const long long[::1] row_ptr,  # IN
    const int[::1] topics,  # IN
    const floating[::1] values,  # IN
    const int[::1] place,  # IN
    int n_threads=1,  # IN
):
    """The entries of some topics, under other numbers and in the order in which they are.

    Parameters
    ----------
    row_ptr : ndarray of shape (n_rows + 1,), int64
        Row `r` has its entries at ``row_ptr[r]:row_ptr[r + 1]``.
    topics, values : ndarray of shape (n_stored,)
        The entries.
    place : ndarray of shape (n_topics,), int32
        The new number of each topic; negative for those that are left out.
    n_threads : int, default=1
        Number of OpenMP threads.

    Returns
    -------
    taken_ptr, taken_topics, taken_values : ndarray
        What is left of each row.
    """
    cdef Py_ssize_t r, i, at, n, n_rows = row_ptr.shape[0] - 1
    taken_ptr_array = np.zeros(n_rows + 1, dtype=np.int64)
    cdef long long[::1] taken_ptr = taken_ptr_array
    for r in prange(n_rows, nogil=True, schedule="static", num_threads=n_threads):
        n = 0
        for i in range(row_ptr[r], row_ptr[r + 1]):
            n = n + (place[topics[i]] >= 0)
        taken_ptr[r + 1] = n
    np.cumsum(taken_ptr_array, out=taken_ptr_array)
    taken_topics_array = np.empty(taken_ptr[n_rows], dtype=np.int32)
    taken_values_array = np.empty(len(taken_topics_array), dtype=np.asarray(values).dtype)
    cdef int[::1] taken_topics = taken_topics_array
    cdef floating[::1] taken_values = taken_values_array
    for r in prange(n_rows, nogil=True, schedule="static", num_threads=n_threads):
        at = taken_ptr[r]
        for i in range(row_ptr[r], row_ptr[r + 1]):
            if place[topics[i]] >= 0:
                taken_topics[at] = place[topics[i]]
                taken_values[at] = values[i]
                at = at + 1
    return taken_ptr_array, taken_topics_array, taken_values_array
