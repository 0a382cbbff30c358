"""Tables of numbers that change: sparse ones added to a dense one, and by what it then differs.

A change is told as what is added where that is a number of single precision and comes to the same
bits, which is half as large, and else as what stands there.
"""
from cython.parallel cimport prange
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from sklearn_sparsepost._kernels._bits cimport bits_of, lowest_bit
from sklearn_sparsepost._kernels._types cimport floating

import numpy as np

from sklearn_sparsepost._kernels._row_tables import addresses

# Parts that rows are cut into, for each thread.
PARTS = 8


cdef struct Told:
    # The numbers that are added, and where; from the back, those that stand elsewhere, and where.
    long long *places
    float *steps
    double *values
    Py_ssize_t n_steps, n_left


cdef inline bint _is_step(double was, double now, float *step) noexcept nogil:
    """Whether a number is another one and a number of single precision, which is written."""
    step[0] = <float>(now - was)
    return bits_of(was + step[0]) == bits_of(now)


cdef inline bint _tell(
    const double *row, const double *before, uint64_t *marks, Py_ssize_t n_marks,
    long long first, Told *told
) noexcept nogil:
    """Tell by what the marked numbers of a row differ from those before; whether there is room.

    They are unmarked.
    """
    cdef Py_ssize_t m, k
    cdef uint64_t word
    cdef float step
    for m in range(n_marks):
        word = marks[m]
        marks[m] = 0
        while word:
            k = 64 * m + lowest_bit(word)
            word &= word - 1
            if bits_of(before[k]) == bits_of(row[k]):
                continue
            if told.n_steps == told.n_left:
                return False
            if _is_step(before[k], row[k], &step):
                told.places[told.n_steps] = first + k
                told.steps[told.n_steps] = step
                told.n_steps += 1
            else:
                told.n_left -= 1
                told.places[told.n_left] = first + k
                told.values[told.n_left] = row[k]
    return True


cdef inline void _mark(
    const int *columns, Py_ssize_t n, uint64_t *marks, const double *row, double *before
) noexcept nogil:
    """Mark some numbers of a row, and note what they are if that is not known."""
    cdef Py_ssize_t i
    cdef int k
    for i in range(n):
        k = columns[i]
        marks[k >> 6] |= (<uint64_t>1) << (k & 63)
        if before != NULL:
            before[k] = row[k]


cdef inline void _mark_and_clear(
    double *row, Py_ssize_t n, double *before, uint64_t *marks
) noexcept nogil:
    """Mark the numbers of a row that are not zero, note all, and make them zero."""
    cdef Py_ssize_t begin, k, stop
    cdef uint64_t word, some
    memcpy(before, row, n * sizeof(double))
    for begin in range(0, n, 8):
        stop, some, word = min(begin + 8, n), 0, 0
        for k in range(begin, stop):
            some |= bits_of(before[k])
        if some:
            for k in range(begin, stop):
                word |= <uint64_t>(bits_of(before[k]) != 0) << (k & 63)
            marks[begin >> 6] |= word
    memset(row, 0, n * sizeof(double))


cdef inline void _add(
    double *row, const int *columns, const floating *values, Py_ssize_t n, double factor
) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        row[columns[i]] += factor * values[i]


cdef bint _add_to_rows(
    double[:, ::1] total, const int[::1] rows, const long long[:, ::1] begins,
    const long long[:, ::1] ends, const size_t[::1] columns_at, const size_t[::1] values_at,
    const signed char[::1] is_single, const double[::1] factors, bint anew, Py_ssize_t first,
    Py_ssize_t stop, Told *told
) noexcept nogil:
    """Add tables to some rows; whether all that this changes was told, if it is to be."""
    cdef Py_ssize_t n_columns = total.shape[1], n_marks = (n_columns + 63) // 64, r, n, at
    cdef int t, n_tables = <int>begins.shape[0]
    cdef uint64_t *marks = NULL
    cdef double *before = NULL
    cdef double *row
    cdef const int *columns
    cdef bint tells = told != NULL
    if tells:
        marks = <uint64_t *>calloc(n_marks, sizeof(uint64_t))
        before = <double *>calloc(n_columns, sizeof(double))
        tells = marks != NULL and before != NULL
    for r in range(first, stop):
        row = &total[rows[r], 0]
        if tells and anew:
            _mark_and_clear(row, n_columns, before, marks)
        elif anew:
            memset(row, 0, n_columns * sizeof(double))
        for t in range(n_tables if tells else 0):
            at = begins[t, r]
            _mark(<const int *>columns_at[t] + at, ends[t, r] - at, marks, row,
                  NULL if anew else before)
        for t in range(n_tables):
            at = begins[t, r]
            n = ends[t, r] - at
            columns = <const int *>columns_at[t] + at
            if is_single[t]:
                _add(row, columns, <const float *>values_at[t] + at, n, factors[t])
            else:
                _add(row, columns, <const double *>values_at[t] + at, n, factors[t])
        if tells:
            tells = _tell(row, before, marks, n_marks, rows[r] * n_columns, told)
    free(marks)
    free(before)
    return tells


def add_in_turn(
    double[:, ::1] total,  # IN/OUT
    const int[::1] rows,  # IN
    const long long[:, ::1] begins,  # IN
    const long long[:, ::1] ends,  # IN
    tables,  # IN
    const double[::1] factors,  # IN
    bint anew=False,  # IN
    memory=None,  # OUT
    int n_threads=1,  # IN
):
    """Add multiples of sparse tables to a dense one, one after another in each row.

    Parameters
    ----------
    total : ndarray of shape (n_rows, n_columns), float64
        Changed in place.
    rows : ndarray of shape (n_changed,), int32
        Rows that something is added to, each once.
    begins, ends : ndarray of shape (n_tables, n_changed), int64
        Where each table has its entries of each of these.
    tables : list of tuple of ndarray
        For each table the columns of its entries, int32, each once a row, and their values, float32
        or float64.
    factors : ndarray of shape (n_tables,), float64
        What to multiply each table by.
    anew : bool, default=False
        Whether the rows are zero before.
    memory : tuple of ndarray, int64, float32 and float64, default=None
        To tell in what has changed: room for as many as the tables have entries of the rows.
    n_threads : int, default=1
        Number of OpenMP threads.

    Returns
    -------
    changes : list of tuple of ndarray or None
        If there is memory, of one part of the rows after another what :func:`take_changes` tells,
        in that memory; None if there is none, or more has changed than the rows' entries.
    """
    cdef Py_ssize_t n_parts = PARTS * n_threads if n_threads > 1 else 1, p
    cdef const size_t[::1] columns_at = addresses([pair[0] for pair in tables], np.int32)
    cdef const size_t[::1] values_at = addresses(
        [pair[1] for pair in tables], np.float32, np.float64)
    cdef const signed char[::1] is_single = np.array(
        [pair[1].dtype == np.float32 for pair in tables], dtype=np.int8)
    cdef const long long[::1] cuts = np.arange(n_parts + 1) * rows.shape[0] // n_parts
    cdef bint tells = memory is not None
    cdef const long long[::1] room
    cdef long long[::1] places
    cdef float[::1] steps
    cdef double[::1] values
    cdef Told *told = <Told *>calloc(n_parts, sizeof(Told))
    cdef int n_untold = 0
    if told == NULL:
        raise MemoryError("no memory to tell what changes in a table")
    try:
        if tells:
            places, steps, values = memory
            lengths = np.subtract(ends, begins).sum(axis=0)
            room = np.append(0, np.cumsum(lengths))[np.asarray(cuts)]
            if min(places.shape[0], steps.shape[0], values.shape[0]) < room[n_parts]:
                raise ValueError("memory is too small for the changes")
            for p in range(n_parts):
                told[p].n_left = room[p + 1] - room[p]
                if told[p].n_left:
                    told[p].places = &places[0] + room[p]
                    told[p].steps = &steps[0] + room[p]
                    told[p].values = &values[0] + room[p]
        for p in prange(n_parts, nogil=True, schedule="dynamic", num_threads=n_threads):
            n_untold += not _add_to_rows(
                total, rows, begins, ends, columns_at, values_at, is_single, factors, anew,
                cuts[p], cuts[p + 1], told + p if tells else NULL)
        if n_untold:
            return None
        return [
            _told_of_part(memory, room[p], room[p + 1], told[p].n_steps, told[p].n_left)
            for p in range(n_parts)
        ]
    finally:
        free(told)


def _told_of_part(memory, first, stop, n_steps, n_left):
    """What was told of a part of the rows: the steps, and what is at the back, from there on."""
    places, steps, values = (part[first:stop] for part in memory)
    # Copies of the few, as they are read backwards.
    others = places[n_left:][::-1].copy(), values[n_left:][::-1].copy()
    return places[:n_steps], steps[:n_steps], *others


cdef inline uint64_t _differing(const uint64_t *one, const uint64_t *other, int n) noexcept nogil:
    """Mark runs of eight numbers, of at most 64, that have other bits than eight others."""
    cdef uint64_t gap, word = 0
    cdef int first, i
    for first in range(0, n, 8):
        gap = 0
        if first + 8 <= n:
            for i in range(8):
                gap |= one[first + i] ^ other[first + i]
        else:
            for i in range(first, n):
                gap |= one[i] ^ other[i]
        if gap:
            word |= (<uint64_t>255) << first
    if n < 64:
        word &= ((<uint64_t>1) << n) - 1
    return word


def take_changes(
    double[::1] old,  # IN/OUT
    const double[::1] new,  # IN
    Py_ssize_t first,  # IN
    Py_ssize_t n_most,  # IN
):
    """Where two arrays have other bits, and by what; the old one becomes the new one.

    Where the new number is the old one plus some number of single precision, that is told.

    Parameters
    ----------
    old, new : ndarray of shape (n,), float64
        The arrays; `old` is written to.
    first : int
        The place of their first number.
    n_most : int
        How many changes may be told.

    Returns
    -------
    stepping : ndarray of shape (n_stepping,), int64
        Places where a number is added, ascending.
    steps : ndarray of shape (n_stepping,), float32
        The numbers.
    places : ndarray of shape (n_places,), int64
        The other places, ascending.
    values : ndarray of shape (n_places,), float64
        What stands there. None instead of all four if there are more changes.
    """
    cdef Py_ssize_t n = old.shape[0], begin, i, n_stepping = 0, n_left
    cdef uint64_t word
    cdef float step
    if new.shape[0] != n:
        raise ValueError(f"arrays have {n} and {new.shape[0]} numbers, but must have as many")
    n_most = n_left = max(0, min(n, n_most))
    places_array, values_array = np.empty(n_most, dtype=np.int64), np.empty(n_most)
    steps_array = np.empty(n_most, dtype=np.float32)
    # Those with steps from the front, the others from the back.
    cdef long long[::1] places = places_array
    cdef double[::1] values = values_array
    cdef float[::1] steps = steps_array
    cdef bint is_short = True
    with nogil:
        for begin in range(0, n, 64):
            word = _differing(
                <uint64_t *>&old[begin], <uint64_t *>&new[begin], <int>min(64, n - begin))
            while word:
                i = begin + lowest_bit(word)
                word &= word - 1
                if bits_of(old[i]) == bits_of(new[i]):
                    continue
                if n_stepping == n_left:
                    is_short = False
                    break
                if _is_step(old[i], new[i], &step):
                    places[n_stepping] = first + i
                    steps[n_stepping] = step
                    n_stepping += 1
                else:
                    n_left -= 1
                    places[n_left] = first + i
                    values[n_left] = new[i]
                old[i] = new[i]
            if not is_short:
                break
    if not is_short:
        return None
    # Copies, as what lies between would stay in memory.
    return (
        places_array[:n_stepping].copy(),
        steps_array[:n_stepping].copy(),
        places_array[n_left:][::-1].copy(),
        values_array[n_left:][::-1].copy(),
    )


def add_steps(
    double[::1] numbers,  # IN/OUT
    const long long[::1] stepping,  # IN
    const float[::1] steps,  # IN
):
    """Add what is told, in place.

    Parameters
    ----------
    numbers : ndarray of shape (n,), float64
        Changed in place.
    stepping, steps : ndarray of shape (n_stepping,), int64 and float32
        Places, and what is added there.
    """
    cdef Py_ssize_t j
    with nogil:
        for j in range(stepping.shape[0]):
            numbers[stepping[j]] += steps[j]
