# A draw of a token's topic given all others, for `_gibbs_blocks.pxd`; what is drawn from, and how,
# is said in `_gibbs_counts.pxd`.

from sklearn_sparsepost._kernels._alias cimport Column, alias_build, alias_draw
from sklearn_sparsepost._kernels._gibbs_counts cimport (
    Dirichlet, Held, PitmanYor, Sampler, Table, Topic, Word, count_t, model_t, topic_t, _count,
    _find, _in_row, _rise, _spread, _topic,
)
from sklearn_sparsepost._kernels._lanes cimport (
    FEW, LANES, near_list, pick, pick_counts, pick_listed, run_up, weigh_counts, weigh_list,
    weigh_pairs, weigh_seats, weigh_shorts,
)
from sklearn_sparsepost._kernels._uniform cimport uniform_next

cdef enum:
    TRIES = 8  # of topics at random, before all of them are looked at


# ---------------------------------------------------------------- draws
#
# Most tokens stay where they are. So the counts still hold the token while its topic is drawn, in
# the topic `held`, which is weighed without it, ahead of all others. Nothing is written then but
# for tokens that move.

cdef inline double _own(const Sampler *s, const Held *held) noexcept nogil:
    """What the topic of the token weighs in the document."""
    return s.topic[held.k].n_doc - s.unit + s.topic[held.k].alpha


cdef inline double _rest(model_t *model, const Sampler *s, const Held *held) noexcept nogil:
    """The sum of (n_doc + alpha) * spread, which a word's base is weighed with."""
    cdef const Topic *topic = s.topic + held.k
    cdef double own = (topic.n_doc + topic.alpha) * _spread(model, s, held.k)
    cdef double others = s.own_total + s.smooth - own
    return others + _own(s, held) * held.spread


cdef inline int _draw_smooth(Sampler *s, const Held *held, double u) noexcept nogil:
    """A topic from `_rest`: from what the word's base weighs. Few tokens come here."""
    cdef int j, k
    u -= _own(s, held) * held.spread
    if u < 0:
        return held.k
    for j in range(s.n_listed):
        k = s.listed[j]
        u -= 0 if k == held.k else s.own_spread[j]
        if u < 0:
            return k
    return _draw_base(s, held.k, u, s.unit)


cdef inline int _draw_base(Sampler *s, int without, double u, bint bounded) noexcept nogil:
    """A topic from alpha * spread, all but one, by a number up to the sum of these.

    Where their bound is true it is found among topics at random first.
    """
    cdef int j, k, _try
    cdef double run, x
    for _try in range(TRIES if bounded else 0):  # any topic, kept with its share of the most
        x = uniform_next(&s.stream) * s.K
        k = min(<int>x, s.K - 1)
        if k != without and (x - k) * s.most < s.alpha[k] * s.spread[k]:
            return k
    k = 0
    while k < s.K - LANES:  # by runs, whose sums are vectors
        run = 0
        for j in range(k, k + LANES):
            run += s.alpha[j] * s.spread[j]
        run -= s.alpha[without] * s.spread[without] if k <= without < k + LANES else 0
        if u < run:
            break
        u -= run
        k += LANES
    for k in range(k, s.K):
        u -= 0 if k == without else s.alpha[k] * s.spread[k]
        if u < 0:
            return k
    return s.K - 1


cdef inline float _weigh_list(
    model_t *model, Sampler *s, const Table *t, const Word *word, const float *factor, int old,
    int *at
) noexcept nogil:
    """Weigh the topics of a word but `old`, by factors of all topics, and find that one."""
    cdef const unsigned int *entry = t.pool + word.first
    if model_t is Dirichlet:
        return weigh_list(
            entry, t.bits, NULL, factor, word.length, old, s.partial, s.running, at)
    else:
        return weigh_seats(
            entry, t.bits, &t.cells[word.cells].join, factor, word.length, old, s.partial,
            s.running, at)


cdef inline int _draw_listed(
    model_t *model, Sampler *s, const Table *t, const Word *word, Held *held, bint again
) noexcept nogil:
    """The three buckets of Yao, Mimno & McCallum (2009)."""
    cdef int n = word.length, old = held.k, at
    cdef float own, total
    cdef double u, rest
    if not again:
        s.exact = model_t is PitmanYor or n <= FEW or s.n_listed > FEW or not s.unit
        if s.exact:
            s.weighed = _weigh_list(model, s, t, word, s.both, old, &at)
            if model_t is Dirichlet:
                held.rise = _count(t, word, at) - 1
        else:
            s.weighed = near_list(
                t.pool + word.first, t.bits, n, s.listed, s.own, s.n_listed, old, &at)
            held.rise = at - 1
    own = <float>(held.rise * _own(s, held) * held.inverse)
    rest = held.base * _rest(model, s, held)
    if not s.exact:
        return _draw_bounded(model, s, t, word, held, own, rest)
    total = s.weighed
    u = uniform_next(&s.stream) * (own + total + rest) - own
    if u < 0:
        return old
    if u < total:
        return _topic(t, word, pick_listed(s.partial, n, s.running, u))
    return _draw_smooth(s, held, (u - total) / held.base)


cdef inline int _draw_bounded(
    model_t *model, Sampler *s, const Table *t, const Word *word, const Held *held, double own,
    double rest
) noexcept nogil:
    """Of a long list, what the document's topics and the base weigh, and a bound on alpha's part.

    The list is weighed only where the bound does not tell whose turn it is.
    """
    cdef int at
    cdef double rounding = 1e-5, known = own + s.weighed + rest, far = s.most * word.mass
    cdef double u = uniform_next(&s.stream)
    cdef double low = u * known * (1 - rounding), high = u * (known + far) * (1 + rounding)
    cdef bint near
    if high < own:
        return held.k
    near = low >= own and high < own + s.weighed
    if not near and not (low >= own + s.weighed and high < known):
        far = _weigh_list(model, s, t, word, s.far, held.k, &at)
        u = u * (known + far)
        if u < own:
            return held.k
        if u >= known:
            return _topic(t, word, pick_listed(s.partial, word.length, s.running, u - known))
        near = u < own + s.weighed
    u = uniform_next(&s.stream)  # what is left of the first is known between bounds
    if near:
        return _draw_near(s, t, word, held.k, u * s.weighed)
    return _draw_smooth(s, held, u * _rest(model, s, held))


cdef inline int _draw_near(
    const Sampler *s, const Table *t, const Word *word, int old, double u
) noexcept nogil:
    """One of the document's topics, of a listed word."""
    cdef int i, j, k, last = old
    for i in range(s.n_listed):
        k = s.listed[i]
        j = _find(t, word, k)
        if j >= 0 and k != old:
            last = k
            u -= <float>_count(t, word, j) * s.own[i]
            if u < 0:
                break
    return last


cdef inline float _weigh_all(
    model_t *model, Sampler *s, const Table *t, const Word *word, const Held *held,
    const count_t *count
) noexcept nogil:
    """Weigh all topics but that of the token, in lanes."""
    cdef const float *prior = t.prior
    cdef const float *both = s.both
    cdef const float *lifted = s.lifted
    cdef float *partial = s.partial
    cdef float base = <float>held.base, x
    cdef int k, n = <int>t.stride, old = held.k
    if model_t is PitmanYor:
        for k in range(n):
            x = _rise(model, t, word, k, 0) * both[k] + base * lifted[k]
            partial[k] = 0 if k == old else x
    elif word.prior_row < 0:
        for k in range(n):
            x = both[k] * (count[k] + base)
            partial[k] = 0 if k == old else x
    else:
        prior += word.prior_row * t.stride
        for k in range(n):
            x = both[k] * (count[k] + prior[k])
            partial[k] = 0 if k == old else x
    return run_up(partial, n // LANES, s.running)


cdef inline int _draw_dense(
    model_t *model, Sampler *s, const Table *t, const Word *word, const Held *held, bint again
) noexcept nogil:
    """All topics, weighed."""
    cdef float base = <float>held.base, own, total
    cdef double u
    if model_t is PitmanYor or not again:  # tables that open change what the base weighs
        if word.wide:
            s.weighed = _weigh_all(model, s, t, word, held, <const int *>(t.dense + word.row))
        else:
            s.weighed = _weigh_all(model, s, t, word, held, t.dense + word.row)
    total = s.weighed
    if word.prior_row >= 0:
        base = t.prior[word.prior_row * t.stride + held.k]
    own = <float>((held.rise * held.inverse + base * held.spread) * _own(s, held))
    u = uniform_next(&s.stream) * (own + total) - own
    return held.k if u < 0 else pick(s.partial, s.K, s.running, u)


cdef inline int _weigh_seen(
    model_t *model, Sampler *s, Table *t, Word *word, const count_t *count
) noexcept nogil:
    """Weigh the topics in which a word has a token, for its alias table, and count them."""
    cdef int k, j, seen, n = 0
    cdef Py_ssize_t i
    cdef float *stale = t.stale + word.row
    cdef Column *column = t.columns + word.first
    cdef float x
    word.largest = 0
    for j in range(word.length):  # less than the row, and near what is to be written
        stale[column[j].own] = 0
    for i in range(t.stride // LANES):
        seen = 0  # most of a long row is zero
        for j in range(LANES):
            seen |= count[i * LANES + j]
        if not seen:
            continue
        for k in range(<int>i * LANES, <int>i * LANES + LANES):
            if count[k]:
                x = _rise(model, t, word, k, count[k])
                x = <float>(x * s.inverse[k] * (1.0 if s.cycle else s.alpha[k]))
                stale[k] = x
                word.largest = x if x > word.largest else word.largest
                column[n].own = k
                s.weight[n] = x
                n += 1
    return n


cdef inline void _build(model_t *model, Sampler *s, Table *t, Word *word) noexcept nogil:
    """The alias table of a word, over the topics in which it has a token."""
    cdef int j, n
    cdef Column *column = t.columns + word.first
    if word.wide:
        n = _weigh_seen(model, s, t, word, <const int *>(t.dense + word.row))
    else:
        n = _weigh_seen(model, s, t, word, t.dense + word.row)
    word.mass = alias_build(s.weight, n, s.partial, s.other, s.order)
    for j in range(n):
        column[j].share, column[j].other = s.partial[j], column[s.other[j]].own
    word.length = n
    word.draws_left = n


cdef inline int _draw_table(Table *t, Word *word, double u) noexcept nogil:
    """A topic from the alias table of a word."""
    cdef double x = u * word.length
    cdef int j = <int>x
    cdef const Column *column
    j = j if j < word.length else word.length - 1
    column = t.columns + word.first + j
    word.draws_left -= 1
    return column.own if x - j < column.share else column.other


cdef inline bint _accept(Sampler *s, double ratio) noexcept nogil:
    return ratio >= 1 or uniform_next(&s.stream) < ratio


cdef inline double _target(
    model_t *model, const Sampler *s, const Table *t, const Word *word, int k, const Held *held,
    double *far
) noexcept nogil:
    """What a topic weighs for a word in the document, and what the word's table stands in for."""
    cdef const Topic *topic = s.topic + k
    cdef double rise, weight = topic.n_doc + topic.alpha
    if k == held.k:
        rise = held.rise * held.inverse
        far[0] = topic.alpha * rise
        return _own(s, held) * (rise + held.base * held.spread)
    rise = _rise(model, t, word, k, _in_row(t, word, k)) * topic.inverse
    far[0] = topic.alpha * rise
    return weight * (rise + held.base * _spread(model, s, k))


cdef inline float _weigh_document(
    model_t *model, Sampler *s, const Table *t, const Word *word, int old
) noexcept nogil:
    """Weigh the document's topics but `old`, in lanes, for what a word has beyond its base."""
    cdef int n = s.n_listed
    cdef const unsigned short *count = t.dense + word.row
    if model_t is Dirichlet:
        if word.wide:
            return weigh_counts(
                <const int *>count, s.listed, s.own, n, old, s.partial, s.running)
        return weigh_shorts(count, s.listed, s.own, n, old, s.partial, s.running)
    else:
        return weigh_pairs(
            &t.cells[word.cells].join, s.listed, s.own, n, old, s.partial, s.running)


cdef inline int _draw_aliased(
    model_t *model, Sampler *s, Table *t, Word *word, const Held *held, bint again
) noexcept nogil:
    """Li et al. 2014: what the document has exactly, alpha from the table, then accept or stay."""
    cdef int _step, k = held.k, new
    cdef const float *stale = t.stale + word.row
    cdef double near, own = held.rise * (s.topic[k].n_doc - s.unit) * held.inverse
    cdef double far, rest = held.base * _rest(model, s, held), u, p_old, p_new
    cdef double far_old = 0, far_new = 0
    if word.draws_left <= 0 and (s.fresh or word.length == 0):
        _build(model, s, t, word)
        again = False  # it was built where weights were
    if not again:
        s.weighed = _weigh_document(model, s, t, word, k)
    near, far = s.weighed, word.mass
    for _step in range(s.n_steps):
        u = uniform_next(&s.stream) * (own + near + far + rest) - own
        if u < 0:
            new = held.k
        elif u < near:
            new = s.listed[pick_counts(s.partial, s.n_listed, s.running, u)]
        elif u - near < far:
            new = _draw_table(t, word, (u - near) / far)
        else:
            new = _draw_smooth(s, held, (u - near - far) / held.base)
        if new == k:
            continue
        # What is proposed is the target with stale weights for those of alpha.
        p_old = _target(model, s, t, word, k, held, &far_old)
        p_new = _target(model, s, t, word, new, held, &far_new)
        u = uniform_next(&s.stream) * p_old
        # The stale weights are far away in memory: mostly their bounds decide.
        if u * (p_new - far_new + word.largest) < p_new * (p_old - far_old):
            k = new
        elif u * (p_new - far_new + stale[new]) < p_new * (p_old - far_old + stale[k]):
            k = new
    return k


cdef inline int _draw_cycle(
    Dirichlet *model, Sampler *s, Table *t, Word *word, int old, const topic_t *z,
    long long first, long long stop, long long token
) noexcept nogil:
    """Yuan et al. (2015): the word's table and a token of the document propose in turn.

    The counts hold the token itself, in `old`.
    """
    cdef int step, k = old, new, own
    cdef long long at
    cdef const float *stale = t.stale + word.row
    cdef double beta = word.beta, u, p_old, p_new, size = <double>(s.unit * (stop - first))
    cdef double base = beta * s.mean_inverse
    cdef double without = s.topic[old].inverse_less, word_old, word_new
    cdef const Topic *here
    cdef const Topic *there
    if word.draws_left <= 0 and (s.fresh or word.length == 0):
        _build(model, s, t, word)
    for step in range(2 * s.n_steps):
        if step % 2 == 0:
            u = uniform_next(&s.stream) * (word.mass + s.K * base) - word.mass
            if u < 0:
                new = _draw_table(t, word, u / word.mass + 1)
            else:
                new = <int>(u / base)
                new = new if new < s.K else s.K - 1
        else:
            u = uniform_next(&s.stream) * (size + s.alpha_total)
            if u < size:
                at = first + <long long>u
                new = k if at == token else z[at]  # the token itself is where it now is
            else:
                u = (u - size) / s.alpha_total
                new = alias_draw(s.alpha_share, s.alpha_other, s.K, u)
        if new == k:
            continue
        own = k == old
        here, there = s.topic + k, s.topic + new
        word_old = (_in_row(t, word, k) - own + beta) * (without if own else here.inverse)
        p_old = here.n_doc - own * s.unit + here.alpha
        own = new == old
        word_new = (_in_row(t, word, new) - own + beta) * (without if own else there.inverse)
        p_new = there.n_doc - own * s.unit + there.alpha
        if step % 2 == 0:
            u = word_new * p_new * (stale[k] + base)
            u /= word_old * p_old * (stale[new] + base)
        else:
            u = word_new / word_old
        if _accept(s, u):
            k = new
    return k
