"""Ratios of generalised Stirling numbers, by which a token leaves a table empty (paper 004).

S(m, s) weighs the ways in which m tokens sit at s tables under a discount a (Hsu & Shiue 1998):
S(m + 1, s) = S(m, s - 1) + (m - a s) S(m, s), and S(0, 0) = 1. The numbers leave every range soon,
so that ratios V(m, s) = S(m, s) / S(m, s - 1) are computed, by a recursion of positive terms alone
(Buntine & Hutter 2012).
"""
from libc.math cimport log

import numpy as np

from sklearn_sparsepost._kernels._gibbs_draws cimport MOST_TABLES, ROW_BITS

WIDTH = MOST_TABLES + 1
EXACT = 2 << ROW_BITS


def rows_of_tokens(tokens):  # IN
    """The rows of tables for numbers of tokens, and how far each is on the way to the next row.

    Parameters
    ----------
    tokens : ndarray of int
        Numbers of tokens. Those below `EXACT` have a row each.

    Returns
    -------
    rows : ndarray of int64
        The rows.
    shares : ndarray of float64
        From 0 to 1, where to interpolate.
    """
    tokens = np.asarray(tokens, dtype=np.int64)
    octave = np.maximum(np.frexp(tokens)[1] - (ROW_BITS + 1), 0)
    part = tokens >> octave
    return (octave << ROW_BITS) + part, (tokens - (part << octave)) / (1 << octave)


def seating_steps(double discount, int most_tokens):  # IN
    """How a word's tokens in a topic sit at tables, and logs of Stirling numbers.

    Parameters
    ----------
    discount : float
        The discount a, from 0 to less than 1.
    most_tokens : int
        The most tokens that a word has.

    Returns
    -------
    steps : ndarray of shape (n_rows, WIDTH, 2), float32
        For m tokens at s tables the weight m - a s of joining a table, and the probability
        S(m - 1, s - 1) / S(m, s) that one of the tokens sits alone.
    logs : ndarray of shape (n_rows, WIDTH), float64
        log S(m, s) / S(m, 1), 0 where there is no such number.
    """
    cdef int m, s, last, row
    cdef Py_ssize_t n_rows = int(rows_of_tokens(max(most_tokens, 1))[0]) + 2
    cdef Py_ssize_t i = 0
    wanted_array = _tokens_of_rows(n_rows)
    cdef const long long[::1] wanted = wanted_array
    steps_array = np.zeros((n_rows, WIDTH, 2), dtype=np.float32)
    logs_array = np.zeros((n_rows, WIDTH))
    cdef float[:, :, ::1] steps = steps_array
    cdef double[:, ::1] logs = logs_array
    cdef double[::1] ratio = np.zeros(WIDTH + 1), new = np.zeros(WIDTH + 1)
    cdef double total, alone
    with nogil:
        for m in range(1, <int>wanted[n_rows - 1] + 1):
            # The ratios of m tokens from those of m - 1, which stay in `new`.
            last = min(m, MOST_TABLES + 1)
            if m > 1:
                new[2] = (1 + (m - 1 - 2 * discount) * ratio[2]) / (m - 1 - discount)
                for s in range(3, last + 1):
                    new[s] = (1 + (m - 1 - discount * s) * ratio[s]) * ratio[s - 1] / (
                        1 + (m - 1 - discount * (s - 1)) * ratio[s - 1])
                ratio, new = new, ratio
            while wanted[i] < m:
                i += 1
            if wanted[i] > m:
                continue
            row, total = <int>i, 0
            for s in range(1, min(m, MOST_TABLES) + 1):
                total += log(ratio[s]) if s > 1 else 0
                logs[row, s] = total
                alone = 0 if s == 1 < m else 1 / (1 + (m - 1 - discount * s) * new[s])
                steps[row, s, 0], steps[row, s, 1] = <float>(m - discount * s), <float>alone
    return steps_array, logs_array


def _tokens_of_rows(n_rows):
    """The numbers of tokens that rows stand for."""
    rows = np.arange(n_rows)
    octave = np.maximum((rows >> ROW_BITS) - 1, 0)
    return (rows - (octave << ROW_BITS)) << octave
