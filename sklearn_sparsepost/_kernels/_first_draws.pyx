"""First topics of tokens.

* `draw_assignments`: independently, given what documents and topics are expected to be;
* `draw_by_words`: given topics, of documents of which nothing is known but the tokens so far.
"""
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from sklearn_sparsepost._kernels._few_lanes cimport run_up_entries
from sklearn_sparsepost._kernels._gibbs_counts cimport topic_t
from sklearn_sparsepost._kernels._lanes cimport LANES, choose_gathers, find_listed, pick, run_up
from sklearn_sparsepost._kernels._prefetch cimport fetch_row, fetch_to_write
from sklearn_sparsepost._kernels._rng cimport KeyedStream, keyed_init, keyed_next_double
from sklearn_sparsepost._kernels._types cimport floating
from sklearn_sparsepost._kernels._uniform cimport Uniform, uniform_init, uniform_next

import numpy as np

cdef enum:
    AHEAD = 8  # tokens by which documents are asked for

ROW = LANES  # entries that a document's list grows by


cdef struct Urns:  # of documents: topics that they have, listed as entries of topic and count
    const long long *first  # where each list begins, in rows of `LANES`
    int *length  # topics in it
    unsigned int *entry
    int bits  # of an entry that say the topic


cdef struct Urn:  # of one document, as one word's tokens draw from it
    unsigned int *entry
    float *near  # what the topics that it had before weigh in the word, run up
    float[LANES] running
    double drawn  # their sum
    int n  # how many they are
    # What was put into it since: entries, what they weigh, and their sum.
    int[LANES] put
    float[LANES] weight
    double more
    int n_put


def draw_assignments(
    const int[::1] word,  # IN
    const long long[::1] doc_ptr,  # IN
    const int[::1] position,  # IN
    const floating[:, ::1] weight,  # IN
    const floating[:, ::1] mass,  # IN
    const double[::1] alpha,  # IN
    const double[::1] base,  # IN
    topic_t[::1] z,  # OUT
    uint64_t seed,  # IN
    uint64_t number,  # IN
    uint64_t first_unit,  # IN
):
    """Draw topics of tokens independently, given the documents' and the topics' words.

    A token's topic has a probability proportional to (mass + alpha) * weight.

    Parameters
    ----------
    word : ndarray of shape (n_tokens,), int32
        Words of the tokens, document by document.
    doc_ptr : ndarray of shape (n_documents + 1,), int64
        Where each document's tokens begin.
    position : ndarray of shape (n_features,), int32
        Row of `weight` of each word.
    weight : ndarray of shape (n_words, n_topics)
        Weights of topics for each word.
    mass : ndarray of shape (n_documents, n_topics)
        Expected counts of topics in each document.
    alpha : ndarray of shape (n_topics,), float64
        Prior of the documents' topic weights.
    base : ndarray of shape (n_words,), float64
        The sum of alpha * weight over topics.
    z : ndarray of shape (n_tokens,), uint16 or int32
        The topics, set.
    seed, number, first_unit : int
        Of the streams: document d has the unit `first_unit + d`.
    """
    cdef Py_ssize_t d, i, n_topics = weight.shape[1]
    cdef int k, j, n, w
    cdef double u, near
    cdef KeyedStream stream
    listed_array = np.empty(n_topics, dtype=np.int32)
    cdef int[::1] listed = listed_array
    with nogil:
        for d in range(doc_ptr.shape[0] - 1):
            keyed_init(&stream, seed, number, first_unit + d)
            n = 0
            for k in range(n_topics):
                listed[n] = k
                n += mass[d, k] > 0
            for i in range(doc_ptr[d], doc_ptr[d + 1]):
                w = position[word[i]]
                near = 0
                for j in range(n):
                    near += weight[w, listed[j]] * mass[d, listed[j]]
                u = keyed_next_double(&stream) * (near + base[w])
                k = -1
                if u < near:
                    for j in range(n):
                        k = listed[j]
                        u -= weight[w, k] * mass[d, k]
                        if u < 0:
                            break
                else:
                    u -= near
                    while k < n_topics - 1 and u >= 0:
                        k += 1
                        u -= weight[w, k] * alpha[k]
                z[i] = <topic_t>k


def draw_by_words(
    const int[::1] place,  # IN
    const int[::1] document,  # IN
    const int[::1] word,  # IN
    const long long[::1] begin,  # IN
    const long long[::1] first,  # IN
    const float[:, ::1] weight,  # IN
    topic_t[::1] z,  # OUT
    int bits,  # IN
    uint64_t seed,  # IN
    uint64_t number,  # IN
    uint64_t unit=0,  # IN
):
    """Draw topics of tokens one after the other, given what topics weigh in each word.

    A token's topic has a probability proportional to weight * (1 + n), where n of the document's
    tokens that were drawn before have the topic, or as many as an entry counts: a Polya urn. Tokens
    are taken word by word, so that what topics weigh in a word is read once, the last one first.

    Parameters
    ----------
    place, document : ndarray of shape (n_tokens,), int32
        Where each token is, and its document.
    word : ndarray of shape (n_runs,), int32
        The word of each run of tokens.
    begin : ndarray of shape (n_runs + 1,), int64
        Where it begins.
    first : ndarray of shape (n_documents + 1,), int64
        Where each document's topics are to be listed, in rows of `ROW`: there is room for all, or
        for as many as it has tokens.
    weight : ndarray of shape (n_features, n_topics), float32
        Weights of topics for each word, which sum to 1.
    z : ndarray of shape (n_tokens,), uint16 or int32
        The topics, set.
    bits : int
        Of an entry of 32 bits that say its topic; the others are its count.
    seed, number, unit : int
        Of the stream.
    """
    cdef Py_ssize_t n_documents = first.shape[0] - 1
    cdef int n_topics = <int>weight.shape[1]
    cdef Urns urns
    lengths = np.zeros(n_documents, dtype=np.int32)
    entries = np.zeros((first[n_documents] + 1) * LANES, dtype=np.uint32)
    cdef int[::1] length = lengths
    cdef unsigned int[::1] entry = entries
    if z.shape[0] == 0:
        return
    urns.first, urns.length, urns.entry, urns.bits = &first[0], &length[0], &entry[0], bits
    cdef float *scratch = <float *>malloc(2 * (n_topics + LANES) * sizeof(float))
    if scratch == NULL:
        raise MemoryError("no memory for the topics of a document")
    with nogil:
        _draw_runs(
            &place[0], &document[0], &word[0], &begin[0], word.shape[0], &weight[0, 0],
            n_topics, &urns, &z[0], scratch, seed, number, unit)
    free(scratch)


cdef void _draw_runs(
    const int *place, const int *document, const int *word, const long long *begin,
    Py_ssize_t n_runs, const float *weight, int n_topics, Urns *urns, topic_t *z, float *scratch,
    uint64_t seed, uint64_t number, uint64_t unit
) noexcept nogil:
    """Topics of the tokens of some runs."""
    cdef Uniform stream
    cdef Urn urn
    cdef Py_ssize_t r, token, ahead, at_hand, n_rows = (n_topics + LANES - 1) // LANES
    cdef const float *row, *next_row
    cdef float *own = scratch
    cdef float running[LANES]
    cdef float total
    urn.near = own + n_rows * LANES
    uniform_init(&stream, seed, number, unit)
    for r in range(n_runs - 1, -1, -1):
        row = weight + <Py_ssize_t>word[r] * n_topics
        next_row = weight + <Py_ssize_t>word[max(r - 1, 0)] * n_topics
        fetch_row(next_row, n_topics * sizeof(float))
        memcpy(own, row, n_topics * sizeof(float))
        memset(own + n_topics, 0, (n_rows * LANES - n_topics) * sizeof(float))
        total = run_up(own, <int>n_rows, running)
        at_hand = -1
        for token in range(begin[r + 1] - 1, begin[r] - 1, -1):
            ahead = max(token - AHEAD, 0)
            fetch_to_write(urns.entry + LANES * urns.first[document[ahead]])
            fetch_to_write(z + place[ahead])
            # A document's next token of the word finds what it weighed for the last one.
            if document[token] != at_hand or urn.n_put == LANES:
                at_hand = document[token]
                _weigh_urn(&urn, urns, at_hand, row)
            z[place[token]] = <topic_t>_draw_from_urn(
                &urn, urns.length + at_hand, urns.bits, row, own, n_topics, running, total, &stream)


cdef inline void _weigh_urn(
    Urn *urn, const Urns *urns, Py_ssize_t document, const float *row
) noexcept nogil:
    """What the document's topics so far weigh in a word."""
    cdef int n_rows = (urns.length[document] + LANES - 1) // LANES
    urn.entry = urns.entry + LANES * urns.first[document]
    urn.n = urns.length[document]
    urn.drawn = run_up_entries(urn.entry, urns.bits, row, n_rows, urn.near, urn.running)
    urn.n_put = 0
    urn.more = 0


cdef inline unsigned int _draw_from_urn(
    Urn *urn, int *length, int bits, const float *row, const float *own, int n_topics,
    const float *running, double total, Uniform *stream
) noexcept nogil:
    """A topic that the document has, or the word's own, which the document has from then on."""
    cdef unsigned int one = 1u << bits, topic
    cdef unsigned int *entry = urn.entry
    cdef double u = uniform_next(stream) * (1 + urn.drawn + urn.more)
    cdef int i, j
    if u < urn.drawn:
        j = pick(urn.near, urn.n, urn.running, u)
    elif u < 1 + urn.drawn or urn.n_put == 0:
        topic = <unsigned int>pick(own, n_topics, running, (u - urn.drawn) * total)
        j = find_listed(entry, bits, length[0], <int>topic)
        if j < 0:
            j = length[0]
            length[0] = j + 1
            entry[j] = topic
    else:
        u -= 1 + urn.drawn
        i = 0
        while i < urn.n_put - 1 and u >= urn.weight[i]:
            u -= urn.weight[i]
            i += 1
        j = urn.put[i]
    topic = entry[j] & (one - 1)
    if entry[j] < <unsigned int>-one:  # there is room for one more
        entry[j] += one
        urn.put[urn.n_put] = j
        urn.weight[urn.n_put] = row[topic]
        urn.more += row[topic]
        urn.n_put += 1
    return topic


choose_gathers()
