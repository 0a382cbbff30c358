"""The sampled local step of topic models: sweeps over tokens (Mimno et al. 2012, Alg. 1).

Topics stay as they are during the step, so a word's alias table is exact and nothing has to be
accepted or rejected. `_sampled_words` makes these tables; here a token's topic is drawn given those
of its document, parallel over documents.

A document gives each topic that it meets a slot. A word's weights in the slots are found once and
kept together, so that a token costs one short loop over counts times weights, a vector at a time.
"""
from cython.parallel cimport parallel, prange
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from sklearn_sparsepost._kernels._alias cimport Column, alias_draw
from sklearn_sparsepost._kernels._lanes cimport LANES, choose_gathers, pick, run_up
from sklearn_sparsepost._kernels._prefetch cimport fetch
from sklearn_sparsepost._kernels._rng cimport KeyedStream, keyed_init, keyed_next_double
from sklearn_sparsepost._kernels._scratch cimport take
from sklearn_sparsepost._kernels._slots cimport (
    IN_REGISTERS,
    add_products,
    add_to_lane,
    draw_in_rows,
    gather,
    pack,
    split,
    weigh,
)
from sklearn_sparsepost._kernels._topl cimport select_topl
from sklearn_sparsepost._kernels._types cimport floating, indptr_t

import numpy as np

cdef enum:
    AHEAD = 16  # draws that are begun before the first of them is ended, since tables are far away
    MORE_SLOTS = 32  # that there is memory for beside those in use
    SEARCH = 8  # entries passed over are this much cheaper than entries searched for

cdef struct Words:  # of a chunk
    const long long *first  # where each word's entries begin
    const int *topic  # ascending
    const float *weight
    const long long *column_first  # of each word's alias table, -1 for none
    const Column *column  # of the alias tables
    const double *mass  # sums of alpha * weight
    const float *base  # weights are base * inverse, plus the entries
    const int *row  # in `dense`, of words that have many entries; -1 for the others
    const float *dense  # all weights

cdef struct Topics:
    int n_topics
    const double *alpha
    const float *inverse  # of the topics' totals
    const float *share  # of the alias table of alpha * inverse
    const int *other
    double mass  # sum of alpha * inverse

cdef struct Document:
    int n_words
    int n_slots
    Py_ssize_t stride  # slots that there is memory for
    int *slot  # of every topic, -1 if it has none
    int *topic  # of every slot
    int *order  # scratch: slots that are kept, then their topics
    int *renamed  # scratch: new numbers of slots
    float *count  # tokens in every slot, zeros behind the last
    float *partial  # scratch: weights of a token
    float *large  # scratch: what slots that are kept have
    int *z  # slot of every token
    Py_ssize_t n_tokens_held
    int *filled  # slots up to which a word's weights are known
    Py_ssize_t n_words_held
    float *near  # (n_words, stride): weight of every word in every slot
    float *kept  # (n_words, stride): expected tokens, summed over the kept sweeps
    size_t n_held  # of each of these two
    KeyedStream stream


# ---------------------------------------------------------------- memory of a thread

cdef Document *_new_document(int K) noexcept nogil:
    """Memory for what does not depend on the document; NULL if there is none."""
    cdef Document *doc = <Document *>calloc(1, sizeof(Document))
    cdef char *memory = NULL
    cdef size_t used, padded = (K + 2 * LANES) // LANES * LANES
    cdef int _turn, k
    if doc == NULL:
        return NULL
    for _turn in range(2):  # first how much, then where
        used = 0
        doc.slot = <int *>take(memory, &used, padded * sizeof(int))
        doc.topic = <int *>take(memory, &used, padded * sizeof(int))
        doc.order = <int *>take(memory, &used, padded * sizeof(int))
        doc.renamed = <int *>take(memory, &used, padded * sizeof(int))
        doc.count = <float *>take(memory, &used, padded * sizeof(float))
        doc.partial = <float *>take(memory, &used, padded * sizeof(float))
        doc.large = <float *>take(memory, &used, padded * sizeof(float))
        if memory == NULL:
            memory = <char *>calloc(used, 1)
            if memory == NULL:
                free(doc)
                return NULL
    for k in range(K):
        doc.slot[k] = -1
    return doc


cdef void _free_document(Document *doc) noexcept nogil:
    if doc == NULL:
        return
    free(doc.slot)
    free(doc.z)
    free(doc.filled)
    free(doc.near)
    free(doc.kept)
    free(doc)


cdef bint _reserve(Document *doc, int n_words, Py_ssize_t n_tokens) noexcept nogil:
    """Memory for the words and tokens of a document; False if there is none."""
    doc.n_words = n_words
    if n_tokens > doc.n_tokens_held:
        free(doc.z)
        doc.n_tokens_held = 2 * n_tokens
        doc.z = <int *>malloc(doc.n_tokens_held * sizeof(int))
    if n_words > doc.n_words_held:
        free(doc.filled)
        doc.n_words_held = 2 * n_words
        doc.filled = <int *>malloc(doc.n_words_held * sizeof(int))
    if doc.z == NULL or doc.filled == NULL:
        doc.n_tokens_held = doc.n_words_held = 0
        return False
    return True


cdef bint _lay_out(Document *doc) noexcept nogil:
    """Memory for the slots that there are and some more, none filled; False if there is none."""
    cdef size_t n
    doc.stride = (doc.n_slots + MORE_SLOTS + LANES - 1) // LANES * LANES
    n = doc.n_words * doc.stride
    if n > doc.n_held:
        free(doc.near)
        free(doc.kept)
        doc.n_held = n + n // 2
        # Zeros, since what lies behind the last slot is multiplied by zero.
        doc.near = <float *>calloc(doc.n_held, sizeof(float))
        doc.kept = <float *>calloc(doc.n_held, sizeof(float))
    if doc.near == NULL or doc.kept == NULL:
        doc.n_held = 0
        return False
    memset(doc.filled, 0, doc.n_words * sizeof(int))
    return True


cdef bint _widen(Document *doc) noexcept nogil:
    """Memory for twice as many slots, in the midst of a sweep; False if there is none."""
    cdef Py_ssize_t j, stride = doc.stride, wider = 2 * stride + LANES
    cdef float *kept = <float *>calloc(doc.n_words * wider, sizeof(float))
    cdef float *near = <float *>calloc(doc.n_words * wider, sizeof(float))
    if kept == NULL or near == NULL:
        free(kept)
        free(near)
        return False
    for j in range(doc.n_words):
        memcpy(kept + j * wider, doc.kept + j * stride, stride * sizeof(float))
    free(doc.near)
    free(doc.kept)
    doc.near, doc.kept, doc.stride, doc.n_held = near, kept, wider, doc.n_words * wider
    memset(doc.filled, 0, doc.n_words * sizeof(int))
    return True


# ---------------------------------------------------------------- slots

cdef inline int _n_rows(const Document *doc) noexcept nogil:
    """Rows of lanes that hold all slots."""
    return (doc.n_slots + LANES - 1) // LANES


cdef inline int _slot_of(Document *doc, int k) noexcept nogil:
    """The slot of a topic, a new one if it has none; there must be room for it in `near`."""
    cdef int s = doc.slot[k]
    if s < 0:
        s = doc.n_slots
        doc.slot[k] = s
        doc.topic[s] = k
        doc.count[s] = 0
        doc.n_slots += 1
    return s


cdef void _forget(Document *doc) noexcept nogil:
    """No topic has a slot."""
    cdef int s
    for s in range(doc.n_slots):
        doc.slot[doc.topic[s]] = -1
    memset(doc.count, 0, doc.n_slots * sizeof(float))
    doc.n_slots = 0


cdef inline float _entry(const int *topic, const float *weight, int n, int k) noexcept nogil:
    """The weight of a topic among ascending entries, 0 if it is not there."""
    cdef int low = 0, high = n, middle
    while low < high:
        middle = (low + high) // 2
        if topic[middle] < k:
            low = middle + 1
        else:
            high = middle
    return weight[low] if low < n and topic[low] == k else 0


cdef inline void _fill(
    Document *doc, const Words *words, const Topics *topics, int j, int w
) noexcept nogil:
    """Find the weights of a document's word in the slots that are new since it was last seen."""
    cdef int s, q, first = doc.filled[j]
    cdef float base = words.base[w], nowhere = 0
    cdef float *to
    cdef float *near = doc.near + j * doc.stride
    cdef const int *topic = words.topic + words.first[w]
    cdef const float *weight = words.weight + words.first[w]
    cdef int n = <int>(words.first[w + 1] - words.first[w])
    cdef const float *row
    if first == doc.n_slots:
        return
    doc.filled[j] = doc.n_slots
    if words.row[w] >= 0:
        row = words.dense + <Py_ssize_t>words.row[w] * topics.n_topics
        gather(near + first, row, doc.topic + first, doc.n_slots - first)
        return
    for s in range(first, doc.n_slots):
        near[s] = base * topics.inverse[doc.topic[s]]
    if (doc.n_slots - first) * SEARCH < n:
        for s in range(first, doc.n_slots):
            near[s] += _entry(topic, weight, n, doc.topic[s])
    else:
        for q in range(n):  # those without a new slot are added where nothing is read
            s = doc.slot[topic[q]]
            to = near + s if s >= first else &nowhere
            to[0] += weight[q]


cdef void _drop_empty(
    Document *doc, const Words *words, const Topics *topics, const int *word, Py_ssize_t n_tokens
) noexcept nogil:
    """Keep the slots of topics with tokens alone, if these take fewer rows."""
    cdef int s, i, j, n = 0, n_before = doc.n_slots
    cdef Py_ssize_t t, stride
    cdef int *order = doc.order
    for s in range(n_before):
        if doc.count[s] > 0:
            order[n] = s
            n += 1
    if (n + LANES - 1) // LANES == _n_rows(doc):
        return
    stride = (n + MORE_SLOTS + LANES - 1) // LANES * LANES
    stride = stride if stride < doc.stride else doc.stride
    for j in range(doc.n_words):
        _fill(doc, words, topics, j, word[j])
        pack(doc.near + j * stride, doc.near + j * doc.stride, doc.count, _n_rows(doc))
        doc.filled[j] = n
    doc.stride = stride
    for s in range(n_before):
        doc.slot[doc.topic[s]] = -1
    for i in range(n):
        doc.renamed[order[i]] = i
        doc.partial[i] = doc.count[order[i]]
        order[i] = doc.topic[order[i]]
    memset(doc.count, 0, n_before * sizeof(float))
    for i in range(n):
        doc.topic[i], doc.count[i] = order[i], doc.partial[i]
        doc.slot[order[i]] = i
    for t in range(n_tokens):
        doc.z[t] = doc.renamed[doc.z[t]]
    doc.n_slots = n


# ---------------------------------------------------------------- draws

cdef struct Draw:  # one that is begun
    int topic  # or -1
    const Column *column  # of the alias table of the word, NULL for that of the topics
    double u  # where in the column, or in that table


cdef inline int _pass_over(
    const Words *words, const Topics *topics, int w, double u
) noexcept nogil:
    """A topic by alpha times the entries of a word that has no alias table."""
    cdef long long q
    for q in range(words.first[w], words.first[w + 1]):
        u -= topics.alpha[words.topic[q]] * words.weight[q]
        if u < 0:
            return words.topic[q]
    return words.topic[words.first[w + 1] - 1]


cdef inline Draw _begin_far(
    const Words *words, const Topics *topics, int w, double u
) noexcept nogil:
    """Begin a draw by alpha times a word's weights; u is uniform up to their sum."""
    cdef Draw draw
    cdef double mass = words.mass[w]
    cdef int j, n
    draw.topic, draw.column = -1, NULL
    if u >= mass:
        draw.u = (u - mass) / (words.base[w] * topics.mass)
    elif words.column_first[w] < 0:
        draw.topic = _pass_over(words, topics, w, u)
    else:
        n = <int>(words.first[w + 1] - words.first[w])
        u = u / mass * n
        j = <int>u
        j = j if j < n else n - 1
        draw.column = words.column + words.column_first[w] + j
        draw.u = u - j
        fetch(draw.column)
    return draw


cdef inline int _end_far(const Topics *topics, const Draw *draw) noexcept nogil:
    """The topic of a draw that is begun."""
    if draw.topic >= 0:
        return draw.topic
    if draw.column == NULL:
        return alias_draw(topics.share, topics.other, topics.n_topics, draw.u)
    return draw.column.own if draw.u < draw.column.share else draw.column.other


cdef inline void _settle(
    Document *doc, const Topics *topics, const Draw *draw, Py_ssize_t t
) noexcept nogil:
    """Give a token the topic of its draw."""
    cdef int s = _slot_of(doc, _end_far(topics, draw))
    doc.count[s] += 1
    doc.z[t] = s


cdef void _first_topics(
    Document *doc, const Words *words, const Topics *topics, const int *word,
    const floating *count
) noexcept nogil:
    """Draw every token's topic by its word alone."""
    cdef int j, w
    cdef Py_ssize_t t = 0, stop, begun
    cdef double far
    cdef Draw draws[AHEAD]
    for j in range(doc.n_words):
        w = word[j]
        far = words.mass[w] + words.base[w] * topics.mass
        stop = t + <Py_ssize_t>count[j]
        while t < stop:
            if t >= AHEAD:
                _settle(doc, topics, &draws[t % AHEAD], t - AHEAD)
            draws[t % AHEAD] = _begin_far(words, topics, w, far * keyed_next_double(&doc.stream))
            t += 1
    for begun in range(t - AHEAD if t > AHEAD else 0, t):
        _settle(doc, topics, &draws[begun % AHEAD], begun)


cdef inline int _draw_near(
    Document *doc, const float *near, int old, double u, double far, float *kept
) noexcept nogil:
    """Take a token out of its slot and draw another by u, uniform in [0, 1), and put it there.

    -1 if it falls to the topics by their word, which weigh `far` in all. Shares are added to `kept`
    if it is not NULL.
    """
    cdef int s, n_rows = _n_rows(doc)
    cdef float total
    cdef float[LANES] running
    if n_rows <= IN_REGISTERS:
        return draw_in_rows(n_rows, doc.count, near, old, <float>u, <float>far, kept)
    add_to_lane(doc.count, old, -1)
    weigh(doc.partial, doc.count, near, n_rows)
    total = run_up(doc.partial, n_rows, running)
    u *= total + far
    if u >= total:
        return -1
    if kept != NULL:
        add_products(kept, 1 / total, doc.count, near, n_rows)
    s = pick(doc.partial, doc.n_slots, running, u)
    add_to_lane(doc.count, s, 1)
    return s


cdef bint _sweep(
    Document *doc, const Words *words, const Topics *topics, const int *word,
    const floating *count, bint keeps, bint rao_blackwell
) noexcept nogil:
    """Draw every token's topic given all others; False if there is no memory."""
    cdef int j, w, s
    cdef bint shares = keeps and rao_blackwell
    cdef Py_ssize_t t = 0, stop
    cdef double far
    cdef Draw draw
    cdef float *kept
    for j in range(doc.n_words):
        w = word[j]
        far = words.mass[w] + words.base[w] * topics.mass
        stop = t + <Py_ssize_t>count[j]
        _fill(doc, words, topics, j, w)
        while t < stop:
            kept = doc.kept + j * doc.stride
            s = _draw_near(
                doc, doc.near + j * doc.stride, doc.z[t], keyed_next_double(&doc.stream), far,
                kept if shares else NULL)
            if s < 0:
                draw = _begin_far(words, topics, w, far * keyed_next_double(&doc.stream))
                s = _slot_of(doc, _end_far(topics, &draw))
                if doc.n_slots > doc.stride:
                    if not _widen(doc):
                        return False
                _fill(doc, words, topics, j, w)
                add_to_lane(doc.count, s, 1)
                if keeps:
                    doc.kept[j * doc.stride + s] += 1
            elif keeps and not rao_blackwell:
                kept[s] += 1
            doc.z[t] = s
            t += 1
    return True


cdef void _store(
    Document *doc, const floating *count, int L, float small_share, int *index, float *resp
) noexcept nogil:
    """The best topics of each word by what was kept, with its count shared among them.

    A word's small shares go to one of their topics, drawn by its share: expected counts stay as
    they are, and tables of counts keep half as many entries.
    """
    cdef int j, i, n, n_found, n_rows = _n_rows(doc)
    cdef float total, small
    cdef float[LANES] running
    cdef const float *kept
    cdef int *topic
    cdef float *share
    for j in range(doc.n_words):
        topic, share = index + <Py_ssize_t>j * L, resp + <Py_ssize_t>j * L
        kept = doc.kept + j * doc.stride
        n_found = split(kept, doc.n_slots, n_rows, small_share, doc.order, doc.large, doc.partial)
        if small_share > 0:
            small = run_up(doc.partial, n_rows, running)
            if small > 0:
                doc.order[n_found] = pick(
                    doc.partial, doc.n_slots, running, small * keyed_next_double(&doc.stream))
                doc.large[n_found] = small
                n_found += 1
        n = L if L < n_found else n_found
        select_topl(doc.large, n_found, n, topic, share)
        total = 0
        for i in range(n):
            total += share[i]
        for i in range(n):
            topic[i] = doc.topic[doc.order[topic[i]]]
            share[i] *= <float>count[j] / total
        for i in range(n, L):
            topic[i] = -1
            share[i] = 0


cdef bint _visit(
    Document *doc, const Words *words, const Topics *topics, const int *word,
    const floating *count, int n_words, int burn_in, int n_sweeps, bint rao_blackwell,
    float small_share, int L, int *index, float *resp, float *mass
) noexcept nogil:
    """Sample one document, whose stream is at its beginning; False if there is no memory."""
    cdef Py_ssize_t n_tokens = 0
    cdef int j, s, _turn
    for j in range(n_words):
        n_tokens += <Py_ssize_t>count[j]
    if not _reserve(doc, n_words, n_tokens):
        return False
    _first_topics(doc, words, topics, word, count)
    if not _lay_out(doc):
        return False
    for j in range(n_words):  # all of them now, so that far weights are waited for together
        _fill(doc, words, topics, j, word[j])
    for _turn in range(burn_in):
        if not _sweep(doc, words, topics, word, count, False, False):
            return False
        _drop_empty(doc, words, topics, word, n_tokens)
    memset(doc.kept, 0, n_words * doc.stride * sizeof(float))
    for _turn in range(n_sweeps):
        if not _sweep(doc, words, topics, word, count, True, rao_blackwell):
            return False
    _store(doc, count, L, small_share, index, resp)
    if mass != NULL:
        for s in range(doc.n_slots):
            mass[doc.topic[s]] = doc.count[s]
    _forget(doc)
    return True


def sample_documents(
    const indptr_t[::1] indptr,  # IN
    const int[::1] local,  # IN
    const floating[::1] data,  # IN
    words,  # IN
    topics,  # IN
    const uint64_t[::1] units,  # IN
    *,
    uint64_t seed,  # IN
    uint64_t step,  # IN
    int burn_in,  # IN
    int n_sweeps,  # IN
    bint rao_blackwell,  # IN
    int sparsity_level,  # IN
    float small_share=0,  # IN
    bint want_mass=False,  # IN
    int n_threads=1,  # IN
):
    """Sample the topics of every document of a chunk (Mimno et al. 2012, Eqs. 9 and 10).

    Parameters
    ----------
    indptr : ndarray of shape (n_documents + 1,), int64
        CSR row pointer; it may start above 0, the other arrays start at 0.
    local : ndarray of shape (nnz,), int32
        Word of every stored count.
    data : ndarray of shape (nnz,), float32 or float64
        Counts, whole numbers.
    words : tuple of ndarray
        `row_ptr`, topics, weights and base of the words, as for `_sampled_words.list_words`, then
        what `alias_tables` and `dense_rows` returned of them.
    topics : tuple
        alpha of shape (n_topics,), float64; one over each topic's total, float32; `share`, `other`
        and sum of the alias table of their product.
    units : ndarray of shape (n_documents,), uint64
        Numbers of the documents, by which their random streams are keyed.
    seed, step : int
        What they are keyed by besides.
    burn_in : int
        Sweeps that are not kept.
    n_sweeps : int
        Sweeps whose topics are kept, at least 1.
    rao_blackwell : bool
        Whether the probabilities of a token's topics are kept in place of the one that was drawn.
    sparsity_level : int
        The most topics that a word of a document keeps (L).
    small_share : float, default=0
        Shares of a word's count below this go to one of their topics, which is drawn by them.
    want_mass : bool, default=False
        Whether the topic counts of the last sweep are wanted.
    n_threads : int, default=1
        Number of OpenMP threads.

    Returns
    -------
    index : ndarray of shape (nnz, L), int32
        Topics of every stored count, -1 after the last.
    resp : ndarray of shape (nnz, L), float32
        Expected counts in those topics, which sum to the count.
    mass : ndarray of shape (n_documents, n_topics) or (0, 0), float32
        Topic counts after the last sweep, if wanted.
    """
    cdef Py_ssize_t n_documents = indptr.shape[0] - 1, nnz = local.shape[0], d, at
    cdef indptr_t start = indptr[0]
    cdef int L = sparsity_level
    cdef const long long[::1] row_ptr = words[0]
    cdef const long long[::1] column_first = words[4]
    cdef const int[::1] topic = words[1], row = words[7]
    cdef const float[::1] weight = words[2], base = words[3]
    cdef const Column[::1] column = words[5]
    cdef const double[::1] word_mass = words[6], alpha = topics[0]
    cdef const float[:, ::1] dense = words[8]
    cdef const float[::1] inverse = topics[1], topic_share = topics[2]
    cdef const int[::1] topic_other = topics[3]
    cdef int K = <int>inverse.shape[0]
    index_array = np.empty((nnz, L), dtype=np.int32)
    resp_array = np.empty((nnz, L), dtype=np.float32)
    mass_array = np.zeros((n_documents * want_mass, K * want_mass), dtype=np.float32)
    if nnz == 0:
        return index_array, resp_array, mass_array
    cdef int[:, ::1] index = index_array
    cdef float[:, ::1] resp = resp_array
    cdef float[:, ::1] mass = mass_array
    cdef float *mass_ptr = &mass[0, 0] if want_mass else NULL
    cdef Words the_words
    the_words.first, the_words.mass, the_words.base = &row_ptr[0], &word_mass[0], &base[0]
    the_words.row, the_words.dense = &row[0], NULL
    if dense.shape[0]:
        the_words.dense = &dense[0, 0]
    the_words.topic, the_words.weight, the_words.column = NULL, NULL, NULL
    the_words.column_first = &column_first[0]
    if topic.shape[0]:
        the_words.topic, the_words.weight = &topic[0], &weight[0]
    if column.shape[0]:
        the_words.column = &column[0]
    cdef Topics the_topics = Topics(
        n_topics=K, alpha=&alpha[0], inverse=&inverse[0], share=&topic_share[0],
        other=&topic_other[0], mass=topics[4])
    cdef Document *doc
    cdef int no_memory = 0
    cdef int *failed = &no_memory
    with nogil, parallel(num_threads=n_threads):
        doc = _new_document(K)
        if doc == NULL:
            failed[0] = 1
        for d in prange(n_documents, schedule="dynamic", chunksize=8):
            if failed[0] or indptr[d + 1] == indptr[d]:
                continue
            at = indptr[d] - start
            keyed_init(&doc.stream, seed, step, units[d])
            if not _visit(
                doc, &the_words, &the_topics, &local[0] + at, &data[0] + at,
                <int>(indptr[d + 1] - indptr[d]), burn_in, n_sweeps, rao_blackwell,
                small_share, L, &index[0, 0] + at * L, &resp[0, 0] + at * L,
                NULL if mass_ptr == NULL else mass_ptr + d * K,
            ):
                failed[0] = 1
        _free_document(doc)
    if no_memory:
        raise MemoryError("no memory for the topics of a document")
    return index_array, resp_array, mass_array


choose_gathers()
