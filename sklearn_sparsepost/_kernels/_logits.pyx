"""Logits of documents given the topics of their tokens (Chen et al. 2013): sweeps over a corpus.

* `sweep_documents`: the logits of all documents, each drawn given its tokens' topics;
* `draw_numbers`, `draw_many_numbers`: draws of the distributions that it is made of, for tests.

A document's sweep is in `_logits.pxd`, the draws are in `_draws.pxd`.
"""
from cpython.exc cimport PyErr_CheckSignals
from cython.parallel cimport parallel, prange
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from sklearn_sparsepost._kernels._draws cimport (
    Draws, draw_exponential, draw_gamma, draw_normal, draw_normal_below, draw_polya_gamma,
    draws_init,
)
from sklearn_sparsepost._kernels._gibbs_counts cimport topic_t
from sklearn_sparsepost._kernels._normals cimport (
    MANY, Lanes, lanes_init, lanes_normal, lanes_uniform,
)
from sklearn_sparsepost._kernels._logits cimport (
    BY_COUNTS, POLYA_GAMMA, SLICE, Document, Gaussian, document_size, point_to, start_draws,
    sweep_logits,
)
from sklearn_sparsepost._kernels._rng cimport KeyedStream, keyed_init

import numpy as np

# Multiplications of a thread between two looks for an interrupt, and what a logit costs beside
# them: as `logistic_normal.WORK_A_LOGIT`.
cdef enum:
    WORK_A_SPAN = 1 << 28
    WORK_A_LOGIT = 50

# The names of the samplers of logits.
SAMPLERS = {"auto": BY_COUNTS, "slice": SLICE, "polya-gamma": POLYA_GAMMA}


def sweep_documents(
    const topic_t[::1] z,  # IN
    const long long[::1] doc_ptr,  # IN
    const float[:, ::1] logits,  # IN
    prior,  # IN
    float[:, ::1] new_logits,  # OUT
    double[:, ::1] factors,  # OUT
    uint64_t seed,  # IN
    uint64_t number,  # IN
    *,
    int sampler=BY_COUNTS,  # IN
    int n_steps=1,  # IN
    int n_threads=1,  # IN
):
    """Draw the logits of all documents given the topics of their tokens.

    Parameters
    ----------
    z : ndarray of shape (n_tokens,), uint16 or int32
        Topics, document by document.
    doc_ptr : ndarray of shape (n_documents + 1,), int64
        Where each document's tokens begin.
    logits : ndarray of shape (n_documents, n_topics), float32
        The logits before.
    prior : tuple of ndarray, float64
        The prior of the logits, as `point_to` reads it.
    new_logits : ndarray of shape (n_documents, n_topics), float32
        The logits, set.
    factors : ndarray of shape (n_documents, n_factors), float64
        The factors, set: those that the new logits were drawn with.
    seed, number : int
        Of the streams: document d has the unit d.
    sampler : int, default=BY_COUNTS
        A value of `SAMPLERS`.
    n_steps : int, default=1
        Sweeps over each document's components.
    n_threads : int, default=1
        Number of OpenMP threads.
    """
    cdef int K = <int>logits.shape[1], r = <int>factors.shape[1], k, no_memory = 0
    cdef int *failed = &no_memory
    cdef Py_ssize_t d, i, first, last, span
    cdef double work
    cdef Gaussian held
    cdef Document *doc
    cdef Document layout
    cdef char *memory
    cdef size_t size = document_size(&layout, K, r, NULL)
    if not logits.shape[0]:
        return
    point_to(&held, prior)
    # A fraction of a second at a time, since nobody hears an interrupt meanwhile.
    work = <double>K * max(n_steps, 1) * (WORK_A_LOGIT + (K if held.full else r))
    span = <Py_ssize_t>max(1.0, WORK_A_SPAN * max(n_threads, 1) / work)
    for first in range(0, logits.shape[0], span):
        last = min(first + span, logits.shape[0])
        with nogil, parallel(num_threads=n_threads):
            doc = <Document *>malloc(sizeof(Document))
            memory = <char *>malloc(size)
            if doc == NULL or memory == NULL:
                failed[0] = 1
            else:
                document_size(doc, K, r, memory)
                memset(doc.count, 0, K * sizeof(double))
            for d in prange(first, last, schedule="dynamic", chunksize=32):
                if failed[0]:
                    continue
                for i in range(doc_ptr[d], doc_ptr[d + 1]):
                    doc.count[z[i]] += 1
                doc.n_tokens = <double>(doc_ptr[d + 1] - doc_ptr[d])
                for k in range(K):
                    doc.eta[k] = logits[d, k]
                start_draws(doc, seed, number, <uint64_t>d)
                sweep_logits(doc, &held, n_steps, sampler)
                for k in range(K):
                    new_logits[d, k] = <float>doc.eta[k]
                for k in range(r):
                    factors[d, k] = doc.factor[k]
                for i in range(doc_ptr[d], doc_ptr[d + 1]):
                    doc.count[z[i]] = 0
            free(memory)
            free(doc)
        if no_memory:
            raise MemoryError("no memory for a sweep over logits")
        PyErr_CheckSignals()


def draw_numbers(
    str kind,  # IN
    const double[:, ::1] parameters,  # IN
    uint64_t seed,  # IN
):
    """Draws of a distribution, each with parameters of its own.

    Parameters
    ----------
    kind : {"exponential", "normal", "normal below", "gamma", "polya-gamma"}
        The distribution.
    parameters : ndarray of shape (n_draws, 3), float64
        "normal below": mean, scale and bound; "gamma": shape; "polya-gamma": shape and tilt.
    seed : int
        Of the stream.

    Returns
    -------
    draws : ndarray of shape (n_draws,), float64
    """
    cdef Py_ssize_t i, n = parameters.shape[0]
    cdef int what = ["exponential", "normal", "normal below", "gamma", "polya-gamma"].index(kind)
    cdef const double *p
    cdef Draws draws
    found_array = np.empty(n)
    cdef double[::1] found = found_array
    with nogil:
        draws_init(&draws, seed, 0, 0)
        for i in range(n):
            p = &parameters[i, 0]
            if what == 0:
                found[i] = draw_exponential(&draws)
            elif what == 1:
                found[i] = draw_normal(&draws)
            elif what == 2:
                found[i] = draw_normal_below(&draws, p[0], p[1], p[2])
            elif what == 3:
                found[i] = draw_gamma(&draws, p[0])
            else:
                found[i] = draw_polya_gamma(&draws, p[0], p[1])
    return found_array


def draw_many_numbers(
    Py_ssize_t n_blocks,  # IN
    uint64_t seed,  # IN
    *,
    bint normal,  # IN
):
    """Numbers that are drawn side by side, for tests.

    Parameters
    ----------
    n_blocks : int
        How many times `MANY` of them.
    seed : int
        Of the stream.
    normal : bool
        Whether they are standard normal, or uniform.

    Returns
    -------
    draws : ndarray of shape (n_blocks, MANY), float64
    """
    cdef Py_ssize_t i
    cdef KeyedStream stream
    cdef Lanes lanes
    found_array = np.empty((n_blocks, MANY))
    cdef double[:, ::1] found = found_array
    keyed_init(&stream, seed, 0, 0)
    lanes_init(&lanes, &stream)
    with nogil:
        for i in range(n_blocks):
            if normal:
                lanes_normal(&lanes, &found[i, 0])
            else:
                lanes_uniform(&lanes, &found[i, 0], MANY)
    return found_array
