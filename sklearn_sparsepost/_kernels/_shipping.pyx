"""What travels between processes made small, bit by bit: halves of squares, steps, changes."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from sklearn_sparsepost._kernels._bits cimport lowest_bit

import numpy as np

ctypedef fused word:
    uint32_t
    uint64_t

ctypedef fused integer:
    int
    long long

# What of square matrices need not be told, as bits: half of them is the other one, or nothing.
cpdef enum:
    SYMMETRIC = 1
    NO_UPPER = 2
    NO_LOWER = 4


def half_of_squares(
    const word[:, :, ::1] squares,  # IN
):
    """The lower halves of square matrices, row by row, if they tell all that there is.

    Parameters
    ----------
    squares : ndarray of shape (n_squares, size, size), uint32 or uint64
        The matrices' bits.

    Returns
    -------
    halves : ndarray of shape (n_squares, size * (size + 1) / 2) or None
        The halves, diagonal included; of the transposed matrices if these have nothing above it.
    kind : int
        SYMMETRIC, NO_UPPER or NO_LOWER; 0 if it is none.
    """
    cdef Py_ssize_t n_squares = squares.shape[0], size = squares.shape[1], k, i, j, at
    cdef int left = SYMMETRIC | NO_UPPER | NO_LOWER
    cdef word below, above, gap, some_below, some_above
    cdef const word *square
    halves_array = np.empty((n_squares, size * (size + 1) // 2), dtype=np.asarray(squares).dtype)
    cdef word[:, ::1] halves = halves_array
    with nogil:
        for k in range(n_squares):
            at, gap, some_below, some_above = 0, 0, 0, 0
            square = &squares[k, 0, 0]
            for i in range(size):
                for j in range(i):
                    below, above = square[i * size + j], square[j * size + i]
                    gap |= below ^ above
                    some_below |= below
                    some_above |= above
                    halves[k, at + j] = below
                halves[k, at + i] = square[i * size + i]
                at += i + 1
            if gap:
                left &= ~SYMMETRIC
            if some_above:
                left &= ~NO_UPPER
            if some_below:
                left &= ~NO_LOWER
            if not left:
                break
        if left == NO_LOWER:
            for k in range(n_squares):
                at = 0
                square = &squares[k, 0, 0]
                for i in range(size):
                    for j in range(i + 1):
                        halves[k, at + j] = square[j * size + i]
                    at += i + 1
    if not left:
        return None, 0
    return halves_array, left & -left


def squares_of_half(
    const word[:, ::1] halves,  # IN
    int kind,  # IN
    word[:, :, ::1] squares,  # OUT
):
    """Write the square matrices that :func:`half_of_squares` was given.

    Parameters
    ----------
    halves, kind
        From there.
    squares : ndarray of shape (n_squares, size, size), uint32 or uint64
        The matrices' bits: filled.
    """
    cdef Py_ssize_t size = squares.shape[1], k, i, j, at
    cdef word value
    cdef word *square
    with nogil:
        for k in range(squares.shape[0]):
            at = 0
            square = &squares[k, 0, 0]
            for i in range(size):
                for j in range(i):
                    value = halves[k, at + j]
                    square[i * size + j] = 0 if kind == NO_LOWER else value
                    square[j * size + i] = 0 if kind == NO_UPPER else value
                square[i * size + i] = halves[k, at + i]
                at += i + 1


def take_others(
    const word[:, ::1] rows,  # IN
    const word[::1] base,  # IN
    uint8_t[::1] differs,  # OUT
    word[::1] values,  # OUT
):
    """Where rows differ from a row, and what stands there.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_columns), uint32 or uint64
        The rows' bits.
    base : ndarray of shape (8 * n_columns,), as `rows`
        What most entries of each column are, eight times over.
    differs : ndarray of shape (ceil(n_rows * n_columns / 8),), uint8
        Overwritten by a bit an entry, row by row, the lowest of a byte first.
    values : ndarray of shape (n_rows * n_columns,), as `rows`
        The first ones are overwritten by those that differ.

    Returns
    -------
    n_values : int
        How many they are.
    """
    cdef Py_ssize_t n_columns = rows.shape[1], first, at, stop, i, n_values = 0
    cdef unsigned int bits
    cdef word gap
    cdef const word *entries
    with nogil:
        # Rows by eights, whose bits fill bytes.
        for first in range(0, rows.shape[0], 8):
            entries = &rows[first, 0]
            stop = min(rows.shape[0] - first, 8) * n_columns
            for at in range(0, stop, 8):
                bits, gap = 0, 0
                if at + 8 <= stop:
                    for i in range(8):
                        gap |= entries[at + i] ^ base[at + i]
                    if gap:
                        for i in range(8):
                            bits |= <unsigned int>(entries[at + i] != base[at + i]) << i
                else:
                    for i in range(stop - at):
                        bits |= <unsigned int>(entries[at + i] != base[at + i]) << i
                differs[(first * n_columns + at) >> 3] = <uint8_t>bits
                while bits:
                    values[n_values] = entries[at + lowest_bit(bits)]
                    n_values += 1
                    bits &= bits - 1
    return n_values


def place_others(
    const word[::1] base,  # IN
    const uint8_t[::1] differs,  # IN
    const word[::1] values,  # IN
    word[:, ::1] rows,  # OUT
):
    """Write the rows that :func:`take_others` was given.

    Parameters
    ----------
    base, differs, values
        From there, the last as long as it says.
    rows : ndarray of shape (n_rows, n_columns), uint32 or uint64
        The rows' bits: filled.
    """
    cdef Py_ssize_t n_rows = rows.shape[0], n_columns = rows.shape[1], first, i, at, stop
    cdef Py_ssize_t n_values = 0
    cdef uint64_t bits
    cdef word *entries
    if not n_rows or not n_columns:
        return
    with nogil:
        # Rows by eights, whose bits fill bytes: what is written twice is in the cache still.
        for first in range(0, n_rows, 8):
            for i in range(first, min(first + 8, n_rows)):
                memcpy(&rows[i, 0], &base[0], n_columns * sizeof(word))
            entries = &rows[first, 0]
            stop = (min(first + 8, n_rows) - first) * n_columns
            for at in range(0, stop, 8):
                bits = differs[(first * n_columns + at) >> 3]
                while bits:
                    entries[at + lowest_bit(bits)] = values[n_values]
                    n_values += 1
                    bits &= bits - 1


def pack_steps(
    const integer[::1] numbers,  # IN
    int long_step,  # IN
):
    """Steps from each number to the next, from 0, and the numbers behind long ones.

    Parameters
    ----------
    numbers : ndarray of shape (n,), int32 or int64
        None is negative.
    long_step : int
        What stands for steps that are as long, longer, or down; at most 255.

    Returns
    -------
    steps : ndarray of shape (n,), uint8
        The steps.
    told : ndarray of shape (n_long,), as `numbers`
        The numbers that they do not tell.
    """
    cdef Py_ssize_t n = numbers.shape[0], i, n_long = 0
    cdef integer before = 0, step
    steps_array = np.empty(n, dtype=np.uint8)
    cdef uint8_t[::1] steps = steps_array
    with nogil:
        for i in range(n):
            step = numbers[i] - before
            before = numbers[i]
            if step < 0 or step >= long_step:
                steps[i] = long_step
                n_long += 1
            else:
                steps[i] = <uint8_t>step
    told_array = np.empty(n_long, dtype=np.asarray(numbers).dtype)
    cdef integer[::1] told = told_array
    with nogil:
        n_long = 0
        for i in range(n):
            if steps[i] == long_step:
                told[n_long] = numbers[i]
                n_long += 1
    return steps_array, told_array


def unpack_steps(
    const uint8_t[::1] steps,  # IN
    const integer[::1] told,  # IN
    int long_step,  # IN
):
    """The numbers that :func:`pack_steps` was given.

    Parameters
    ----------
    steps, told, long_step
        From there.

    Returns
    -------
    numbers : ndarray of shape (n,), as `told`
        The numbers.
    """
    cdef Py_ssize_t n = steps.shape[0], i, n_long = 0
    cdef integer number = 0
    numbers_array = np.empty(n, dtype=np.asarray(told).dtype)
    cdef integer[::1] numbers = numbers_array
    with nogil:
        for i in range(n):
            if steps[i] == long_step:
                number = told[n_long]
                n_long += 1
            else:
                number = number + steps[i]
            numbers[i] = number
    return numbers_array


def mark_entries(
    const int[::1] rows,  # IN
    const long long[::1] row_ptr,  # IN
    const int[::1] columns,  # IN
    Py_ssize_t n_columns,  # IN
    uint64_t[::1] marks,  # IN/OUT
):
    """Mark the entries of a sparse table among those of a dense one.

    Parameters
    ----------
    rows, row_ptr, columns : ndarray
        Row ``rows[r]`` has entries in ``columns[row_ptr[r]:row_ptr[r + 1]]``.
    n_columns : int
        Of the table.
    marks : ndarray of shape (n_words,), uint64
        A bit an entry, row by row.
    """
    cdef Py_ssize_t r, j, at
    with nogil:
        for r in range(rows.shape[0]):
            for j in range(row_ptr[r], row_ptr[r + 1]):
                at = rows[r] * n_columns + columns[j]
                marks[at >> 6] |= (<uint64_t>1) << (at & 63)


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
    const uint64_t[::1] marks=None,  # IN
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
    marks : ndarray of shape (ceil(n / 64),), uint64, default=None
        A bit a number, without which it is the same in both; by default all are looked at.

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
    cdef double was, now, made
    cdef uint64_t bits, wanted, word
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
    cdef bint are_marked = marks is not None, is_short = True
    with nogil:
        for begin in range(0, n, 64):
            if are_marked:
                word = marks[begin >> 6]
            else:
                word = _differing(
                    <uint64_t *>&old[begin], <uint64_t *>&new[begin], <int>min(64, n - begin))
            while word:
                i = begin + lowest_bit(word)
                word &= word - 1
                was, now = old[i], new[i]
                memcpy(&bits, &was, sizeof(bits))
                memcpy(&wanted, &now, sizeof(bits))
                if bits == wanted:
                    continue
                if n_stepping == n_left:
                    is_short = False
                    break
                step = <float>(now - was)
                made = was + step
                memcpy(&bits, &made, sizeof(bits))
                if bits == wanted:
                    places[n_stepping] = first + i
                    steps[n_stepping] = step
                    n_stepping += 1
                else:
                    n_left -= 1
                    places[n_left] = first + i
                    values[n_left] = now
                old[i] = now
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
    """Add what :func:`take_changes` tells, in place.

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
