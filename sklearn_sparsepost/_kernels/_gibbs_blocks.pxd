# Blocks of a sweep, for `_gibbs_lda.pyx`: documents entered, their tokens drawn, documents left.
from libc.stdint cimport uint64_t
from libc.string cimport memset

from sklearn_sparsepost._kernels._alias cimport alias_build
from sklearn_sparsepost._kernels._gibbs_counts cimport (
    ALIASED, DENSE, LISTED, MOST_TABLES, Cell, Dirichlet, Held, PitmanYor, Sampler, Table, Topic,
    Word, model_t, topic_t, _add, _base, _count, _find, _in_row, _join_topic, _leave_topic, _open,
    _remove, _step, _weigh,
)
from sklearn_sparsepost._kernels._gibbs_draws cimport (
    _draw_aliased, _draw_cycle, _draw_dense, _draw_listed,
)
from sklearn_sparsepost._kernels._lanes cimport LANES
from sklearn_sparsepost._kernels._math cimport exp_nonpos
from sklearn_sparsepost._kernels._prefetch cimport fetch_to_write
from sklearn_sparsepost._kernels._uniform cimport uniform_init, uniform_next


cdef enum:
    AHEAD = 6  # tokens by which words are asked for
    FETCHED = 3  # and by which their counts are
    LINE = 64  # bytes of a line of cache
    MOST_FETCHED = 256  # of a dense row's first topics; after these the processor asks by itself


# ---------------------------------------------------------------- documents

cdef struct Kept:  # of a document between blocks: its topics and its tokens in each
    int k
    int n  # in the first, of no topic: how many topics follow


cdef inline Py_ssize_t _kept_at(long long token, Py_ssize_t d) noexcept nogil:
    """Where what is kept of a document begins: at a line, an eighth of its tokens and more long."""
    return 8 * (token // 64 + d)


cdef inline void _count_document(
    Sampler *s, const topic_t *z, long long first, long long stop
) noexcept nogil:
    """Count a document's topics."""
    cdef long long i
    cdef int j, k, n = 0, n_more = 0
    # Neighbours are often of one topic: they are counted apart, so that none waits for another.
    for i in range(first, stop - 1, 2):
        k = z[i]
        s.listed[n] = k
        n += s.topic[k].n_doc == 0
        s.topic[k].n_doc += 1
        k = z[i + 1]
        s.order[n_more] = k
        n_more += s.n_more[k] == 0
        s.n_more[k] += 1
    if (stop - first) % 2:
        k = z[stop - 1]
        s.listed[n] = k
        n += s.topic[k].n_doc == 0
        s.topic[k].n_doc += 1
    for j in range(n_more):
        k = s.order[j]
        s.listed[n] = k
        n += s.topic[k].n_doc == 0
        s.topic[k].n_doc += s.n_more[k]
        s.n_more[k] = 0
    s.n_listed = n


cdef inline void _enter(
    model_t *model, Sampler *s, const topic_t *z, long long first, long long stop, const Kept *kept
) noexcept nogil:
    """Have a document's topics, counted, or as they were kept."""
    cdef int j, k
    cdef double own
    cdef Topic *topic
    if kept == NULL or kept[0].n < 0:
        _count_document(s, z, first, stop)
    else:
        s.n_listed = kept[0].n
        for j in range(s.n_listed):
            k = kept[j + 1].k
            s.listed[j] = k
            s.topic[k].n_doc = kept[j + 1].n
    s.own_total = 0
    for j in range(s.n_listed):
        k = s.listed[j]
        topic = s.topic + k
        topic.place = j
        own = topic.n_doc * topic.inverse
        s.own[j] = <float>own
        s.both[k] = <float>(own + topic.alpha * topic.inverse)
        if model_t is PitmanYor:
            own = topic.n_doc * s.spread[k]
            s.own_spread[j] = <float>own
            s.lifted[k] = <float>(own + topic.alpha * s.spread[k])
        s.own_total += own


cdef inline void _enter_given(Sampler *s, const float *logits) noexcept nogil:
    """Take the weights of a document's topics from their logits."""
    cdef int k
    cdef float largest = logits[0]
    cdef double *given = s.given
    cdef const double *inverse = s.inverse
    cdef float *both = s.both
    cdef double total = 0, smooth = 0  # sums in memory would not turn into vectors
    for k in range(s.K):
        largest = logits[k] if logits[k] > largest else largest
    for k in range(s.K):
        given[k] = exp_nonpos(<double>(logits[k] - largest))
        total += given[k]
        smooth += given[k] * inverse[k]
        both[k] = <float>(given[k] * inverse[k])
    for k in range(s.K):
        s.topic[k].alpha = given[k]
    s.n_listed, s.own_total, s.smooth, s.alpha_total = 0, 0, smooth, total
    if s.cycle:
        alias_build(s.given, s.K, s.given_share, s.given_other, s.order)


cdef inline void _leave(model_t *model, Sampler *s, Kept *kept, Py_ssize_t room) noexcept nogil:
    """Forget a document, but keep its topics where there is room."""
    cdef int j, k
    cdef Topic *topic
    if kept != NULL:
        kept[0].n = s.n_listed if s.n_listed < room else -1
        for j in range(kept[0].n):
            kept[j + 1].k, kept[j + 1].n = s.listed[j], s.topic[s.listed[j]].n_doc
    for j in range(s.n_listed):
        k = s.listed[j]
        topic = s.topic + k
        topic.n_doc = 0
        s.own[j] = 0
        s.both[k] = <float>(topic.alpha * topic.inverse)
        if model_t is PitmanYor:
            s.lifted[k] = <float>(topic.alpha * s.spread[k])


cdef inline int _draw(
    model_t *model, Sampler *s, Table *t, Word *word, Held *held, bint again
) noexcept nogil:
    """A topic for the token that is held."""
    if word.kind == LISTED:
        return _draw_listed(model, s, t, word, held, again)
    if word.kind == ALIASED:
        return _draw_aliased(model, s, t, word, held, again)
    return _draw_dense(model, s, t, word, held, again)


cdef inline bint _resample(
    Dirichlet *model, Sampler *s, Table *t, Word *word, topic_t *z, long long token,
    long long first, long long stop, Held *held, bint again
) noexcept nogil:
    """Draw the topic of one token given all others, and say whether it moves."""
    cdef int old = z[token], new
    if word.kind == ALIASED and s.cycle:
        new = _draw_cycle(model, s, t, word, old, z, first, stop, token)
    else:
        if not again:
            held.k, held.base = old, word.beta
            held.inverse = held.spread = s.topic[old].inverse_less
            if word.kind != LISTED:  # else it is found among all others
                held.rise = _in_row(t, word, old) - 1
        new = _draw(model, s, t, word, held, again)
    if new == old:
        return False
    _remove(model, t, word, old)
    _weigh(model, s, old, s.topic[old].n_doc - s.unit, s.topic[old].inverse_less)
    _leave_topic(model, s, old)
    _join_topic(model, s, new)
    _add(t, word, new)
    z[token] = <topic_t>new
    return True


cdef inline bint _opens(Sampler *s, int tables, double base, double join) noexcept nogil:
    """Whether a token opens a table where others of its word sit at some."""
    if tables == MOST_TABLES:
        return False
    return uniform_next(&s.stream) * (base + join) < base


cdef struct Seat:  # of the token that is drawn, and its word in its topic without it
    bint alone  # whether it has a table to itself
    int tokens
    int tables
    Cell cell


cdef inline Seat _hold(
    PitmanYor *model, Sampler *s, const Table *t, const Word *word, int k, int j, Held *held
) noexcept nogil:
    """Weigh a topic without one token of the word, whose j-th it is, and say how that one sits.

    Who sits with whom is forgotten, and drawn whenever a token is looked at: whether it sits alone.
    """
    cdef Seat seat
    cdef int m = _count(t, word, j), before = t.tables[word.cells + j]
    seat.alone = before == m or (
        before > 1 and uniform_next(&s.stream) < t.cells[word.cells + j].close)
    seat.tokens, seat.tables = m - 1, before - seat.alone
    seat.cell = _step(model, seat.tokens, seat.tables)
    held.k, held.rise, held.inverse = k, seat.cell.join, s.topic[k].inverse_less
    held.spread = held.inverse * (s.lift[k] - model.discount * seat.alone)
    held.base = _base(model, s, word)
    if seat.alone:
        held.base = (word.beta + word.tables - 1) / (s.total_tables - 1 + model.prior_total)
    return seat


cdef inline bint _keep_seat(
    PitmanYor *model, Sampler *s, Table *t, Word *word, int j, const Seat *seat, const Held *held
) noexcept nogil:
    """Draw where a token sits that stays in its topic; say whether tables have changed."""
    cdef int k = held.k, tables
    cdef double lift = s.lift[k] - model.discount * seat.alone
    cdef bint opens = not seat.tokens or _opens(s, seat.tables, held.base * lift, seat.cell.join)
    if opens == seat.alone:
        return False
    tables = seat.tables + opens
    t.tables[word.cells + j] = <unsigned short>tables
    t.cells[word.cells + j] = _step(model, seat.tokens + 1, tables)
    _open(model, s, word, k, opens - seat.alone)
    _weigh(model, s, k, s.topic[k].n_doc, s.topic[k].inverse)
    return True


cdef inline void _stand_up(
    PitmanYor *model, Sampler *s, Table *t, Word *word, int k, int j, const Seat *seat
) noexcept nogil:
    """Let a token leave its table, before it is taken out of the counts."""
    t.tables[word.cells + j] -= seat.alone
    t.cells[word.cells + j] = seat.cell
    if seat.alone:
        _open(model, s, word, k, -1)


cdef inline void _sit_down(
    PitmanYor *model, Sampler *s, Table *t, Word *word, int k, int j, const Held *held
) noexcept nogil:
    """Draw where a token sits that has come to a topic, whose counts have it."""
    cdef int m = _count(t, word, j), tables = t.tables[word.cells + j] if m > 1 else 0
    if m == 1 or _opens(s, tables, held.base * s.lift[k], t.cells[word.cells + j].join):
        tables += 1
        _open(model, s, word, k, 1)
    t.tables[word.cells + j] = <unsigned short>tables
    t.cells[word.cells + j] = _step(model, m, tables)


cdef inline bint _reseat(
    PitmanYor *model, Sampler *s, Table *t, Word *word, topic_t *z, long long token, Held *held,
    bint again
) noexcept nogil:
    """Draw the topic of one token, and whether it opens a table there; say whether it moves."""
    cdef int old = z[token], new, j = _find(t, word, old)
    cdef Seat seat = _hold(model, s, t, word, old, j, held)
    new = _draw(model, s, t, word, held, again)
    if new == old:
        _keep_seat(model, s, t, word, j, &seat, held)
        return False
    _stand_up(model, s, t, word, old, j, &seat)
    _remove(model, t, word, old)
    _weigh(model, s, old, s.topic[old].n_doc - 1, s.topic[old].inverse_less)
    _leave_topic(model, s, old)
    _sit_down(model, s, t, word, new, _add(t, word, new), held)
    _join_topic(model, s, new)
    z[token] = <topic_t>new
    return True


# ---------------------------------------------------------------- blocks

cdef inline size_t _scratch_size(int K, Py_ssize_t stride) noexcept nogil:
    return (
        LINE + K * sizeof(Topic)
        + K * (2 * sizeof(long long) + 4 * sizeof(double) + 2 * sizeof(float) + 3 * sizeof(int))
        + stride * (sizeof(double) + 5 * sizeof(float))
        + 2 * (stride + LANES) * sizeof(int))


cdef inline void _begin_block(
    model_t *model, Sampler *s, char *scratch, Py_ssize_t stride, const long long *n_topic,
    const long long *n_tables
) noexcept nogil:
    """Lay out a thread's scratch memory and take the topics' totals as they now are."""
    cdef int k, K = s.K
    s.topic = <Topic *>((<size_t>scratch + LINE - 1) // LINE * LINE)
    s.n_topic = <long long *>(s.topic + K)
    s.n_tables = s.n_topic + K
    s.inverse = <double *>(s.n_tables + K)
    s.given = s.inverse + K
    s.lift = s.given + K
    s.spread = s.inverse
    s.weight = s.lift + 2 * K
    s.own = <float *>(s.weight + stride)
    s.own_spread = s.own
    s.both = s.own + 2 * stride
    s.lifted = s.both
    s.partial = s.both + 2 * stride
    s.listed = <int *>(s.partial + stride)
    s.order = s.listed + stride + LANES
    s.n_more = s.order + stride + LANES
    s.other = s.n_more + K
    s.given_other = s.other + K
    s.given_share = <float *>(s.given_other + K)
    s.far = s.given_share + K
    memset(s.own, 0, 2 * stride * sizeof(float))
    memset(s.listed, 0, (stride + LANES) * sizeof(int))
    memset(s.n_more, 0, K * sizeof(int))
    memset(s.both, 0, 2 * stride * sizeof(float))
    s.smooth = s.most = 0
    if model_t is PitmanYor:
        s.spread = s.lift + K
        s.own_spread = s.own + stride
        s.lifted = s.both + stride
        s.total_tables = 0
        for k in range(K):
            s.n_tables[k] = n_tables[k]
            s.total_tables += n_tables[k]
            s.lift[k] = s.beta_total[k] + model.discount * n_tables[k]
        s.base_inverse = 1 / (s.total_tables + model.prior_total)
    for k in range(K):
        s.n_topic[k] = n_topic[k]
        s.inverse[k] = 1 / (n_topic[k] + s.beta_total[k])
        s.topic[k].inverse = s.inverse[k]
        s.topic[k].inverse_less = 1 / (max(n_topic[k] - 1, 0) + s.beta_total[k])
        s.topic[k].alpha = s.alpha[k]
        s.topic[k].n_doc = s.topic[k].place = 0
        s.both[k] = s.far[k] = <float>(s.alpha[k] * s.inverse[k])
        if model_t is PitmanYor:
            s.spread[k] = s.inverse[k] * s.lift[k]
            s.lifted[k] = <float>(s.alpha[k] * s.spread[k])
        s.smooth += s.alpha[k] * s.spread[k]
        s.most = max(s.most, s.alpha[k] * s.spread[k])


cdef inline void _fetch(
    model_t *model, const Sampler *s, const Table *t, const Word *word, int k
) noexcept nogil:
    """Ask for what the draw of a token in topic k will read: most time goes into waiting for it."""
    cdef int j, n = <int>t.stride
    cdef int a_line = 16 if word.wide else 32
    cdef const unsigned short *row = t.dense + word.row
    if word.kind == LISTED:
        for j in range(0, word.length, 16):
            fetch_to_write(t.pool + word.first + j)
        if model_t is PitmanYor:
            for j in range(0, word.length, 8):
                fetch_to_write(t.cells + word.cells + j)
        if model_t is PitmanYor:
            fetch_to_write(t.tables + word.cells)
        return
    if model_t is PitmanYor:
        fetch_to_write(t.tables + word.cells + k)
        fetch_to_write(row + (k << word.wide))
    if word.kind == DENSE:
        n = min(n, MOST_FETCHED)
    elif n > a_line * s.n_listed:  # not every line of the row is read
        for j in range(s.n_listed):
            if model_t is PitmanYor:
                fetch_to_write(t.cells + word.cells + s.listed[j])
            else:
                fetch_to_write(row + (s.listed[j] << word.wide))
        return
    if model_t is PitmanYor:
        for j in range(0, n, 8):
            fetch_to_write(t.cells + word.cells + j)
    else:
        for j in range(0, n << word.wide, 32):
            fetch_to_write(row + j)


cdef inline void _visit(
    model_t *model, Sampler *s, Table *t, const int *word, topic_t *z, long long first,
    long long stop, long long begin, long long end, const float *logits, Kept *kept,
    Py_ssize_t room, bint fresh, uint64_t seed, uint64_t number, uint64_t unit
) noexcept nogil:
    """The tokens of a document that are of one group of words."""
    cdef long long token
    cdef Held held
    cdef bint moves, again = False
    if fresh and kept != NULL:
        kept[0].n = -1
    if begin == end:
        return
    for token in range(begin, min(begin + AHEAD, end)):
        fetch_to_write(t.words + word[token])
    uniform_init(&s.stream, seed, number, unit)
    if logits == NULL:
        _enter(model, s, z, first, stop, kept)
    else:
        _enter_given(s, logits)
    for token in range(begin, min(begin + FETCHED, end)):
        if token == begin or word[token] != word[token - 1]:
            _fetch(model, s, t, t.words + word[token], z[token])
    for token in range(begin, end):
        if token + AHEAD < end:
            fetch_to_write(t.words + word[token + AHEAD])
        if token + FETCHED < end and word[token + FETCHED] != word[token + FETCHED - 1]:
            _fetch(model, s, t, t.words + word[token + FETCHED], z[token + FETCHED])
        if model_t is Dirichlet:
            moves = _resample(
                model, s, t, t.words + word[token], z, token, first, stop, &held, again)
        else:
            moves = _reseat(model, s, t, t.words + word[token], z, token, &held, again)
        again = not moves and token + 1 < end and (
            word[token + 1] == word[token] and z[token + 1] == z[token])
    _leave(model, s, kept, room)


cdef inline void _sweep_block(
    model_t *model, Sampler *s, Table *t, char *scratch, const int *word, topic_t *z,
    const long long[:, ::1] token_ptr, long long first, long long stop, int g, Kept *kept,
    bint fresh, const long long *n_topic, const long long *n_tables, const float *logits,
    uint64_t seed, uint64_t number
) noexcept nogil:
    """The tokens of some documents that are of one group of words.

    What is `kept` of the documents is of the block before, or, where this is `fresh`, of none.
    """
    cdef Py_ssize_t d, n_groups = token_ptr.shape[1] - 1, at = 0, after = 0
    cdef long long i, ahead
    _begin_block(model, s, scratch, t.stride, n_topic, n_tables)
    if logits != NULL:
        s.alpha, s.alpha_share, s.alpha_other = s.given, s.given_share, s.given_other
    for d in range(first, stop):
        if kept != NULL:
            at = _kept_at(token_ptr[d, 0], d)
            after = _kept_at(token_ptr[d, n_groups], d + 1)
        if d + 1 < stop:
            ahead = token_ptr[d + 1, g]
            fetch_to_write(word + ahead)
            fetch_to_write(word + ahead + 16)
            if kept != NULL and not fresh:
                fetch_to_write(kept + after)
            else:
                ahead = token_ptr[d + 1, 0]
            for i in range(4):
                fetch_to_write(z + ahead + 32 * i)
        _visit(model, s, t, word, z, token_ptr[d, 0], token_ptr[d, n_groups], token_ptr[d, g],
               token_ptr[d, g + 1], NULL if logits == NULL else logits + d * s.K,
               NULL if kept == NULL else kept + at, after - at, fresh, seed, number,
               <uint64_t>(d * n_groups + g))
