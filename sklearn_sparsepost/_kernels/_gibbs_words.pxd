# Blocks of a sweep word by word, for `_gibbs_lda.pyx`.
#
# The tokens of a word follow each other, document by document (Yu et al. 2015). What the word
# weighs in all topics is laid out once for them all, so that a draw reads no more of the words than
# what is in the nearest cache, and of the document the line that lists its topics. Mostly a token
# falls to one of these; else to alpha, which is weighed by the word's list of topics and its base.
# All draws are exact.
from libc.stdint cimport uint64_t
from libc.string cimport memcpy, memset

from sklearn_sparsepost._kernels._few_lanes cimport (
    draw_entries, draw_pairs, weigh_entries, weigh_pairs_of,
)
from sklearn_sparsepost._kernels._gibbs_blocks cimport (
    Seat, _begin_block, _count_document, _hold, _keep_seat, _scratch_size, _sit_down, _stand_up,
)
from sklearn_sparsepost._kernels._gibbs_counts cimport (
    LISTED, Cell, Dirichlet, Held, PitmanYor, Sampler, Table, Topic, Word, model_t, topic_t,
    _add_in_row, _count, _spread, _topic,
)
from sklearn_sparsepost._kernels._gibbs_draws cimport _draw_base
from sklearn_sparsepost._kernels._lanes cimport FEW, LANES, pick, run_up
from sklearn_sparsepost._kernels._prefetch cimport fetch_to_write
from sklearn_sparsepost._kernels._uniform cimport uniform_init, uniform_next

cdef enum:
    COPIED = 32  # words in more than one topic of so many are taken off by copying all topics
    AHEAD = 8  # tokens by which documents are asked for; arrays by token are longer by as many


cdef struct Listing:  # of a document's topics
    unsigned int first  # where its entries begin, in rows of `LANES`
    unsigned int length  # entries in use: `FEW`, or rows of `LANES`


cdef struct Order:  # of a corpus's tokens, word by word within blocks
    const unsigned int *place  # of the token, document by document
    const unsigned int *document
    const int *word  # of each run of tokens
    const long long *begin  # of it
    const long long *runs  # where those of each block begin
    Listing *listing
    unsigned int *entry  # of all documents


cdef struct Shown:  # the word that is visited, laid out over all topics
    float *weight  # Dirichlet: (count + prior) * inverse; PitmanYor: join * inverse, and spread
    float *without  # the same of a word that no topic has
    int *at  # where the word's list has the topic, if it has it: else anything
    double mass  # sum of alpha times what the word weighs beyond its base
    float laid  # Dirichlet: the prior that is in `without`


# ---------------------------------------------------------------- documents

cdef inline void _list_documents(
    Sampler *s, const Table *t, const Order *order, const topic_t *z,
    const long long[:, ::1] token_ptr, long long first, long long stop
) noexcept nogil:
    """List the topics of documents."""
    cdef Py_ssize_t d, n_groups = token_ptr.shape[1] - 1
    cdef int j, k
    cdef unsigned int length
    cdef size_t n_rows
    cdef unsigned int *entry
    for d in range(first, stop):
        _count_document(s, z, token_ptr[d, 0], token_ptr[d, n_groups])
        length = FEW
        if s.n_listed > FEW:
            length = (s.n_listed + LANES - 1) // LANES * LANES
        order.listing[d].length = length
        entry = order.entry + <size_t>LANES * order.listing[d].first
        n_rows = order.listing[d + 1].first - order.listing[d].first
        memset(entry, 0, n_rows * LANES * sizeof(unsigned int))
        for j in range(s.n_listed):
            k = s.listed[j]
            entry[j] = (<unsigned int>s.topic[k].n_doc << t.bits) | <unsigned int>k
            s.topic[k].n_doc = 0
    s.n_listed = 0


cdef inline int _place_of(
    const Table *t, Listing *listing, unsigned int *entry, int k
) noexcept nogil:
    """Where a document has a topic, or from now on has it."""
    cdef int j, free = -1, found = -1
    for j in range(listing.length):
        if not entry[j] >> t.bits:
            free = j
        elif <int>(entry[j] & ((1u << t.bits) - 1)) == k:
            found = j
    if found >= 0:
        return found
    if free < 0:
        free = listing.length
        listing.length = LANES if free == FEW else free + LANES
    entry[free] = <unsigned int>k
    return free


# ---------------------------------------------------------------- the word

cdef inline double _beyond(
    model_t *model, const Table *t, const Word *word, int k, int j
) noexcept nogil:
    """What a word weighs beyond its base in a topic, which its counts have at j, times inverse."""
    if model_t is PitmanYor:
        return t.cells[word.cells + j].join
    elif word.prior_row < 0:
        return _count(t, word, j)
    else:
        return _count(t, word, j) + t.prior[word.prior_row * t.stride + k]


cdef inline int _at(const Table *t, const Word *word, const Shown *shown, int k) noexcept nogil:
    """Where the word's counts have a topic, -1 if nowhere."""
    cdef int j = shown.at[k]
    if word.kind != LISTED:
        return k
    return j if j < word.length and _topic(t, word, j) == k else -1


cdef inline double _lay(
    model_t *model, const Sampler *s, const Table *t, const Word *word, Shown *shown, int k, int j
) noexcept nogil:
    """Lay out what a word weighs in a topic, and return what it weighs there beyond its base."""
    cdef double inverse = s.topic[k].inverse
    cdef double x = 0 if j < 0 else _beyond(model, t, word, k, j) * inverse
    if model_t is PitmanYor:
        shown.weight[2 * k] = <float>x
        shown.weight[2 * k + 1] = shown.without[2 * k + 1] = <float>s.spread[k]
    else:
        shown.without[k] = <float>(shown.laid * inverse)
        shown.weight[k] = <float>(x + shown.laid * inverse)
    return x


cdef inline void _lay_base(
    model_t *model, const Sampler *s, Shown *shown, float base
) noexcept nogil:
    """Lay out a word that no topic has."""
    cdef int k
    shown.laid = base
    for k in range(s.K):
        if model_t is PitmanYor:
            shown.weight[2 * k] = shown.without[2 * k] = 0
            shown.weight[2 * k + 1] = shown.without[2 * k + 1] = <float>s.spread[k]
        else:
            shown.weight[k] = shown.without[k] = <float>(base * s.inverse[k])


cdef inline void _show(
    model_t *model, const Sampler *s, const Table *t, const Word *word, Shown *shown
) noexcept nogil:
    """Lay out a word."""
    cdef int j, k, n = word.length
    cdef float base = word.beta if word.prior_row < 0 else 0  # such a prior is in no base
    cdef double x, mass = 0, also = 0  # in two sums, none of which waits for the other
    cdef const unsigned int *entry = t.pool + word.first
    cdef const Cell *cell = t.cells + word.cells
    cdef unsigned int topics = (1u << t.bits) - 1
    cdef float *weight = shown.weight
    cdef const double *inverse = s.inverse
    if model_t is Dirichlet and base != shown.laid:
        _lay_base(model, s, shown, base)
    if word.kind != LISTED:
        shown.mass = 0
        for k in range(s.K):
            shown.mass += s.alpha[k] * _lay(model, s, t, word, shown, k, k)
        return
    for j in range(n):
        k = <int>(entry[j] & topics)
        shown.at[k] = j
        if model_t is PitmanYor:
            x = cell[j].join * inverse[k]
            weight[2 * k] = <float>x
        else:
            x = <int>(entry[j] >> t.bits) * inverse[k]
            weight[k] = <float>(x + base * inverse[k])
        x *= s.alpha[k]
        mass += x if j % 2 else 0
        also += 0 if j % 2 else x
    shown.mass = mass + also


cdef inline void _hide(
    model_t *model, const Sampler *s, const Table *t, const Word *word, Shown *shown
) noexcept nogil:
    """Have no topic have the word that was laid out."""
    cdef int j, k
    cdef Py_ssize_t n = (2 if model_t is PitmanYor else 1) * t.stride
    if word.kind != LISTED or COPIED * word.length > t.stride:
        memcpy(shown.weight, shown.without, n * sizeof(float))
        return
    for j in range(word.length):
        k = _topic(t, word, j)
        if model_t is PitmanYor:
            shown.weight[2 * k] = 0
        else:
            shown.weight[k] = shown.without[k]


cdef inline void _take(
    model_t *model, Table *t, Word *word, Shown *shown, int k, int j
) noexcept nogil:
    """Take one token of the word from a topic."""
    cdef int last
    cdef unsigned int *entry = t.pool + word.first
    if word.kind != LISTED:
        _add_in_row(t, word, k, -1)
        return
    entry[j] -= 1u << t.bits
    if entry[j] >> t.bits == 0:
        last = word.length - 1
        word.length = last
        entry[j] = entry[last]
        if model_t is PitmanYor:
            t.cells[word.cells + j] = t.cells[word.cells + last]
            t.tables[word.cells + j] = t.tables[word.cells + last]
        shown.at[_topic(t, word, j)] = j


cdef inline int _put(Table *t, Word *word, Shown *shown, int k) noexcept nogil:
    """Put one token of the word into a topic, and say where its counts have it."""
    cdef int j = _at(t, word, shown, k)
    if word.kind != LISTED:
        _add_in_row(t, word, k, 1)
        return k
    if j < 0:
        j = word.length
        word.length = j + 1
        shown.at[k] = j
        t.pool[word.first + j] = <unsigned int>k
    t.pool[word.first + j] += 1u << t.bits
    return j


cdef inline void _change_total(
    model_t *model, Sampler *s, Shown *shown, int k, int by
) noexcept nogil:
    """A topic has one token more, or less."""
    cdef Topic *topic = s.topic + k
    cdef double before = _spread(model, s, k), inverse
    s.n_topic[k] += by
    if by > 0:
        inverse = 1 / (s.n_topic[k] + s.beta_total[k])
        topic.inverse_less = topic.inverse
    else:
        inverse = topic.inverse_less
        topic.inverse_less = 1 / (max(s.n_topic[k] - 1, 0) + s.beta_total[k])
    topic.inverse = s.inverse[k] = inverse
    if model_t is PitmanYor:
        s.spread[k] = inverse * s.lift[k]
    s.smooth += topic.alpha * (_spread(model, s, k) - before)
    s.most = max(s.most, topic.alpha * _spread(model, s, k))


# ---------------------------------------------------------------- tokens

cdef inline int _draw_rest(
    model_t *model, Sampler *s, const Table *t, const Word *word, const Shown *shown,
    const Held *held, double u
) noexcept nogil:
    """A topic from alpha, whatever the document has. Few tokens come here."""
    cdef int j, k
    u -= s.alpha[held.k] * (held.rise * held.inverse + held.base * held.spread)
    if u < 0:
        return held.k
    for j in range(word.length if word.kind == LISTED else s.K):
        k = _topic(t, word, j) if word.kind == LISTED else j
        if k != held.k:
            u -= s.alpha[k] * (_beyond(model, t, word, k, j) * s.topic[k].inverse)
            if u < 0:
                return k
    return _draw_base(s, held.k, u / held.base, True) if held.base > 0 else held.k


cdef inline int _draw_of_many(
    model_t *model, Sampler *s, const Table *t, const Shown *shown, const unsigned int *entry,
    int n, const Held *held, float own, double u, double rest, double *left, int *mine
) noexcept nogil:
    """As `draw_entries`, where a document has more than a row of topics."""
    cdef double total
    if model_t is Dirichlet:
        mine[0] = weigh_entries(entry, t.bits, shown.weight, 0, n, held.k, own, s.partial)
    else:
        mine[0] = weigh_pairs_of(
            entry, t.bits, shown.weight, <float>held.base, n, held.k, own, s.partial)
    total = run_up(s.partial, n // LANES, s.running)
    u *= total + rest
    left[0] = u - total
    return n if left[0] >= 0 else pick(s.partial, n, s.running, u)


cdef inline void _move_by_word(
    model_t *model, Sampler *s, Table *t, Word *word, Shown *shown, int new, int j,
    const Held *held, const Seat *seat, double before
) noexcept nogil:
    """Move a token from the topic that is held, of which `before` was in the mass, to another."""
    cdef int old = held.k, to = _at(t, word, shown, new)
    cdef double alpha = s.topic[old].alpha, other = s.topic[new].alpha
    if to >= 0:
        before += other * _beyond(model, t, word, new, to) * s.topic[new].inverse
    if model_t is PitmanYor:
        _stand_up(model, s, t, word, old, j, seat)
    _take(model, t, word, shown, old, j)
    _change_total(model, s, shown, old, -1)
    to = _put(t, word, shown, new)
    if model_t is PitmanYor:
        _sit_down(model, s, t, word, new, to, held)
    _change_total(model, s, shown, new, 1)
    shown.mass += (
        alpha * _lay(model, s, t, word, shown, old, _at(t, word, shown, old))
        + other * _lay(model, s, t, word, shown, new, to) - before)


cdef inline void _resample_by_word(
    model_t *model, Sampler *s, Table *t, Word *word, Shown *shown, topic_t *z, Listing *listing,
    unsigned int *entry
) noexcept nogil:
    """Draw the topic of one token given all others, and, where there are any, its table."""
    cdef unsigned int one = 1u << t.bits
    cdef int old = z[0], new, lane, mine = 0, n = <int>listing.length
    cdef int j = old if word.kind != LISTED else shown.at[old]
    cdef double alpha = s.topic[old].alpha, beyond = _beyond(model, t, word, old, j), own
    cdef double u, left = 0, rest, before = alpha * (beyond * s.inverse[old])
    cdef float each
    cdef Held held
    cdef Seat seat
    if model_t is PitmanYor:
        seat = _hold(model, s, t, word, old, j, &held)
        own = held.rise * held.inverse + held.base * held.spread
    else:
        held.k, held.base, held.rise = old, shown.laid, <float>(beyond - 1)
        held.inverse = held.spread = s.topic[old].inverse_less
        own = (beyond - 1 + held.base) * held.inverse
    # What falls to alpha has all topics, this one without the token.
    rest = max(shown.mass - before, 0) + alpha * own
    rest += held.base * (s.smooth - alpha * _spread(model, s, old))
    each = <float>own
    u = uniform_next(&s.stream)
    if n > LANES:
        lane = _draw_of_many(
            model, s, t, shown, entry, n, &held, each, u, rest, &left, &mine)
    elif model_t is Dirichlet:
        lane = draw_entries(
            entry, t.bits, shown.weight, 0, n, old, each, u, rest, &left, &mine)
    else:
        lane = draw_pairs(
            entry, t.bits, shown.weight, <float>held.base, n, old, each, u, rest, &left, &mine)
    new = old
    if lane < n:
        new = <int>(entry[lane] & (one - 1))
    else:
        new = _draw_rest(model, s, t, word, shown, &held, left)
    if lane == mine or new == old:
        if model_t is PitmanYor:
            if _keep_seat(model, s, t, word, j, &seat, &held):
                shown.mass += alpha * _lay(model, s, t, word, shown, old, j) - before
        return
    entry[mine] -= one
    if lane == n:
        lane = _place_of(t, listing, entry, new)
    entry[lane] += one
    _move_by_word(model, s, t, word, shown, new, j, &held, &seat, before)
    z[0] = <topic_t>new


# ---------------------------------------------------------------- blocks

cdef inline size_t _shown_size(Py_ssize_t stride) noexcept nogil:
    return stride * (4 * sizeof(float) + sizeof(int))


cdef inline void _sweep_words(
    model_t *model, Sampler *s, Table *t, char *scratch, const Order *order, topic_t *z,
    const long long[:, ::1] token_ptr, long long first, long long stop, int block,
    bint fresh, const long long *n_topic, const long long *n_tables, uint64_t seed,
    uint64_t number
) noexcept nogil:
    """The tokens of some documents that are of one group of words.

    Documents are listed where this is `fresh`, and are as they were left else.
    """
    cdef Shown shown
    cdef Word *word
    cdef Listing *listing
    cdef const Word *next_word
    cdef long long r, token, i, last = order.runs[block + 1]
    _begin_block(model, s, scratch, t.stride, n_topic, n_tables)
    if fresh:
        _list_documents(s, t, order, z, token_ptr, first, stop)
    shown.weight = <float *>(scratch + _scratch_size(s.K, t.stride))
    shown.without = shown.weight + 2 * t.stride
    shown.at = <int *>(shown.without + 2 * t.stride)
    memset(shown.at, 0, t.stride * sizeof(int))
    shown.laid = -1
    if model_t is PitmanYor:
        _lay_base(model, s, &shown, 0)
    uniform_init(&s.stream, seed, number, block)
    for r in range(order.runs[block], last):
        word = t.words + order.word[r]
        fetch_to_write(t.words + order.word[r + 2])
        next_word = t.words + order.word[r + 1]
        if r + 1 < last and next_word.kind == LISTED:  # others may be changing the next block's
            for i in range(0, next_word.length, 16):
                fetch_to_write(t.pool + next_word.first + i)
                if model_t is PitmanYor:
                    fetch_to_write(t.cells + next_word.cells + i)
                    fetch_to_write(t.cells + next_word.cells + i + 8)
        _show(model, s, t, word, &shown)
        for token in range(order.begin[r], order.begin[r + 1]):
            listing = order.listing + order.document[token + AHEAD]
            fetch_to_write(order.entry + <size_t>LANES * listing.first)
            fetch_to_write(z + order.place[token + AHEAD])
            listing = order.listing + order.document[token]
            _resample_by_word(
                model, s, t, word, &shown, z + order.place[token], listing,
                order.entry + <size_t>LANES * listing.first)
        _hide(model, s, t, word, &shown)
