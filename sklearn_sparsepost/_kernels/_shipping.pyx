"""What travels between processes made small, bit by bit: halves of squares, tables, steps."""
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
