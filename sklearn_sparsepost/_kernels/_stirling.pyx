"""Ratios of generalised Stirling numbers, by which tokens sit at tables (Li et al. 2014).

S(m, s) weighs the ways in which m tokens sit at s tables under a discount a (Hsu & Shiue 1998):
S(m + 1, s) = S(m, s - 1) + (m - a s) S(m, s), and S(0, 0) = 1. The numbers leave every range soon,
so that ratios V(m, s) = S(m, s) / S(m, s - 1) are computed, by a recursion of positive terms alone
(Buntine & Hutter 2012).

* `rows_of_tokens`, `seating_steps`: the tables of ratios;
* `draw_tables`: how many tables there are, drawn given the numbers of tokens;
* `open_tables`: the same where the discount is 0, so that tokens open tables independently.
"""
from libc.math cimport exp, log, log1p
from libc.stdint cimport uint64_t

import numpy as np

from sklearn_sparsepost._kernels._gibbs_counts cimport MOST_TABLES, ROW_BITS
from sklearn_sparsepost._kernels._uniform cimport Uniform, uniform_init, uniform_next

cdef enum:
    MOST_OPENED = 8  # tables that are expected in one draw: more would take as many steps

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


def draw_tables(
    const double[:, ::1] logs,  # IN
    const long long[::1] row_ptr,  # IN
    const int[::1] topics,  # IN
    const int[::1] counts,  # IN
    int[::1] tables,  # IN/OUT
    const double[::1] prior,  # IN
    double discount,  # IN
    double concentration,  # IN
    long long[::1] n_tables,  # IN/OUT
    uint64_t seed,  # IN
    uint64_t number,  # IN
    uint64_t unit,  # IN
):
    """Draw the tables of each word in each topic once, given the tokens and all other tables.

    Parameters
    ----------
    logs : ndarray of shape (n_rows, WIDTH), float64
        Logs of Stirling numbers of the discount, from `seating_steps`.
    row_ptr, topics, counts : ndarray
        Tokens of words in topics, as lists, word by word.
    tables : ndarray of int32
        Their tables, from 1 to the number of tokens or to `MOST_TABLES`; replaced.
    prior : ndarray of shape (n_features,), float64
        Dirichlet prior of what topics share.
    discount, concentration : float
        Of the topics' processes.
    n_tables : ndarray of shape (n_topics,), int64
        The topics' tables, kept up to date.
    seed, number, unit : int
        Of the stream.
    """
    cdef Py_ssize_t w, i
    cdef int k, s, last
    cdef long long of_topic, of_word, of_all, total = np.sum(n_tables)
    cdef double prior_total = np.sum(prior), x, top, low, u
    cdef double[::1] weight = np.zeros(WIDTH)
    row_array, share_array = rows_of_tokens(counts)
    cdef const long long[::1] row = row_array
    cdef const double[::1] share = share_array
    cdef Uniform stream
    uniform_init(&stream, seed, number, unit)
    with nogil:
        for w in range(row_ptr.shape[0] - 1):
            of_word = 0
            for i in range(row_ptr[w], row_ptr[w + 1]):
                of_word += tables[i]
            for i in range(row_ptr[w], row_ptr[w + 1]):
                k, last = topics[i], min(counts[i], MOST_TABLES)
                if last == 1:
                    continue
                # The tables of all other cells: this one has s of its own, from 1 to `last`.
                of_topic, of_all = n_tables[k] - tables[i], total - tables[i]
                of_word -= tables[i]
                x = top = 0
                for s in range(1, last):  # what one table more weighs
                    low = logs[row[i], s + 1] - logs[row[i], s]
                    x += low + share[i] * (logs[row[i] + 1, s + 1] - logs[row[i] + 1, s] - low)
                    x += log(
                        (concentration + discount * (of_topic + s)) * (prior[w] + of_word + s)
                        / (prior_total + of_all + s))
                    weight[s + 1] = x
                    top = max(top, x)
                u = 0
                for s in range(1, last + 1):
                    weight[s] = exp((weight[s] if s > 1 else 0) - top)
                    u += weight[s]
                u *= uniform_next(&stream)
                s = 1
                while s < last and u >= weight[s]:
                    u -= weight[s]
                    s += 1
                tables[i] = s
                n_tables[k] = of_topic + s
                of_word += s
                total = of_all + s


cdef inline long long _count_opened(
    Uniform *stream, long long n, double alpha, long long place
) noexcept nogil:
    """How many of n tokens open a table, each with odds of alpha to place.

    A binomial draw by inversion, a part at a time.
    """
    cdef double p = alpha / (alpha + place), odds, u, weight
    cdef long long most = n, part, x, total = 0
    if n * p > MOST_OPENED:
        most = <long long>(MOST_OPENED / p)
    while n > 0:
        part = min(n, most)
        n -= part
        u = uniform_next(stream)
        if u < 1 - part * p:  # mostly: none is at least as probable as that
            continue
        odds, x = alpha / place, 0
        weight = exp(-part * log1p(odds))
        while u >= weight and x < part:
            u -= weight
            x += 1
            weight *= odds * (part - x + 1) / x
        total += x
    return total


def open_tables(
    const long long[::1] topics,  # IN
    const long long[::1] counts,  # IN
    const long long[::1] repeats,  # IN
    const double[::1] alpha,  # IN
    uint64_t seed,  # IN
):
    """Draw the tables of all documents in each topic, given tokens (Antoniak 1974).

    Parameters
    ----------
    topics, counts, repeats : ndarray of shape (n_cases,), int64
        Topics, numbers of a document's tokens in them, at least one, and how many documents have
        these; in order, each topic and number once.
    alpha : ndarray of shape (n_topics,), float64
        What documents' processes weigh topics with.
    seed : int
        Of the stream.

    Returns
    -------
    n_tables : ndarray of shape (n_topics,), int64
        Tables of each topic.
    """
    cdef Py_ssize_t i = topics.shape[0] - 1
    cdef long long place, last, n = 0
    cdef int k
    n_tables_array = np.zeros(alpha.shape[0], dtype=np.int64)
    cdef long long[::1] n_tables = n_tables_array
    cdef Uniform stream
    uniform_init(&stream, seed, 0, 0)
    with nogil:
        while i >= 0:  # from the most tokens of the last topic down
            k = <int>topics[i]
            n += repeats[i]  # documents with so many tokens of the topic or more
            last = counts[i - 1] if i and topics[i - 1] == k else 0
            for place in range(max(last, 1), counts[i]):
                n_tables[k] += _count_opened(&stream, n, alpha[k], place)
            if last == 0:  # the first token of a document opens one
                n_tables[k] += n
                n = 0
            i -= 1
    return n_tables_array
