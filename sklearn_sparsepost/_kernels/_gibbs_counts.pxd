# The counts that draws of tokens' topics read and change, for `_gibbs_draws.pxd`.
#
# A word's counts are stored in one of three ways, which decide how its tokens are drawn document by
# document:
#
# * LISTED: its topics and their counts. All of them are weighed: Yao, Mimno & McCallum (2009).
# * ALIASED: a row over all topics, and an alias table of a while ago. The document's topics are
#   weighed, the table stands in for all others, and Metropolis-Hastings corrects (Li et al. 2014);
#   or word and document propose in turn (the cycle of Yuan et al. 2015).
# * DENSE: a row over all topics, all of which are weighed, a vector at a time.
#
# In a document a topic weighs the document's tokens in it plus alpha. Where weights of documents'
# topics are given, they are in place of alpha, and no tokens are counted: `unit` is 0. So it is
# word by word, where a document's tokens are in a list of its own.
#
# What a topic weighs for a word depends on the prior of its words, by `model` at compile time:
#
# * Dirichlet: (count + beta) * inverse, inverse = 1 / (tokens of the topic + sum of beta).
# * PitmanYor: (join + lift * base) * inverse, where the word's tokens in the topic sit at tables
#   (Li et al. 2014): join = tokens - discount * tables, lift = concentration + discount * tables of
#   the topic, base is the word's share of what all topics share, and inverse = 1 / (tokens of the
#   topic + concentration).
#
# So in both a word has a part of its own, `_rise`, and a smooth one of base * `spread`.

from sklearn_sparsepost._kernels._alias cimport Column
from sklearn_sparsepost._kernels._lanes cimport LANES, find_listed
from sklearn_sparsepost._kernels._uniform cimport Uniform

ctypedef fused topic_t:
    unsigned short
    int

ctypedef fused count_t:
    unsigned short
    int

# Steps of seating (`_stirling.pyx`): up to so many tables, a row for each number of tokens up to
# 2 << ROW_BITS and then for 1 << ROW_BITS numbers an octave.
cdef enum:
    MOST_TABLES = 255
    ROW_BITS = 8

cdef enum Kind:
    LISTED, ALIASED, DENSE

cdef struct Word:  # what a draw needs of a word, in one line of cache
    long long first  # LISTED: of its entries in the pool; ALIASED: of its table's columns
    double mass  # LISTED: its tokens; ALIASED: sum of the weights that its table was built from
    float largest  # of those weights
    float beta  # prior
    int length  # LISTED: topics that have a count; ALIASED: columns of the alias table
    int draws_left  # until the alias table is built anew
    int prior_row  # if the prior differs from topic to topic, else -1
    int kind
    int tables  # in all topics
    bint wide  # whether its dense counts have 32 bits
    long long cells  # where its cells of seating begin
    long long row  # where its dense counts begin, and the weights of its alias table


cdef struct Cell:  # what a token's draw knows of how a word's tokens sit in a topic
    float join  # weight of joining a table
    float close  # probability that a token which is taken out leaves a table empty


cdef struct Dirichlet:  # topics ~ Dirichlet(beta)
    int _unused


cdef struct PitmanYor:  # topics ~ PYP(discount, concentration, base), base ~ Dirichlet(beta)
    double discount
    double prior_total  # sum of beta
    const Cell *steps  # of seating, a row a number of tokens, one column a number of tables


ctypedef fused model_t:
    Dirichlet
    PitmanYor


cdef struct Held:  # the topic of the token that is drawn, weighed without the token
    int k
    float rise
    double inverse
    double spread
    double base  # of the word


cdef struct Table:  # counts of words in topics, shared by all threads
    int K
    Py_ssize_t stride  # between dense rows
    Word *words
    int bits  # of an entry that are a topic's; the others are its count's
    unsigned int *pool  # the entries of listed words
    Column *columns  # of alias tables
    unsigned short *dense  # counts, two of them for one that is wide
    float *stale  # the weights that the alias tables were built from, dense
    const float *prior
    Cell *cells  # of the seating: dense rows, or beside the lists
    unsigned short *tables  # of the seating


cdef struct Topic:  # what every draw reads of the token's topic, in half a line of cache
    double inverse  # 1 / (n_topic + beta_total)
    double inverse_less  # 1 / (n_topic - 1 + beta_total): without the token
    double alpha
    int n_doc  # the document's tokens
    int place  # where it is listed, if the document has any


cdef struct Sampler:  # of a thread, for one document at a time
    int K
    int n_listed
    int n_steps  # of Metropolis-Hastings a token
    bint cycle
    bint fresh  # whether alias tables may be built anew
    int unit  # what a token adds to its topic's weight in the document: 1, or 0 if that is given
    long long *n_topic
    const double *beta_total
    const double *alpha
    double alpha_total
    Topic *topic
    double *inverse  # those of the topics, for vectors
    int *listed  # the document's topics, padded with any
    float *own  # n_doc * inverse of the listed topics, padded with zeros
    float *both  # (n_doc + alpha) * inverse of all topics, padded with zeros
    float *far  # alpha * inverse
    double smooth  # sum of alpha * spread
    double own_total  # sum of n_doc * spread
    # What a word's base is weighed with. Dirichlet: that of the word's counts, the same arrays.
    double *spread  # inverse * lift
    double *lift  # PitmanYor: concentration + discount * tables
    float *own_spread  # n_doc * spread of the listed topics
    float *lifted  # (n_doc + alpha) * spread of all topics, padded with zeros
    long long *n_tables  # PitmanYor: of the topics
    long long total_tables
    double base_inverse  # 1 / (total_tables + sum of beta)
    float *partial  # scratch: K, and a few more; what the last token's topics weigh, run up
    float running[LANES]  # of these
    float weighed  # their sum
    bint exact  # whether it is, or that of the document alone
    double most  # that alpha * spread of any topic is at the most
    double *weight  # scratch: K
    int *order  # scratch: K, and a few more
    int *n_more  # scratch: K zeros
    int *other  # scratch: K
    double mean_inverse  # of a topic of average size
    const float *alpha_share  # the alias table of alpha
    const int *alpha_other
    double *given  # weights of the document's topics, if they are given, and their alias table
    float *given_share
    int *given_other
    Uniform stream


# ---------------------------------------------------------------- seating

cdef inline Cell _step(const PitmanYor *model, int tokens, int tables) noexcept nogil:
    """What a draw knows of a word's tokens where so many sit at so many tables."""
    cdef int octave = 0, part
    cdef const Cell *row
    cdef Cell cell
    cdef float share
    if tokens < 2 << ROW_BITS:
        return model.steps[tokens * (MOST_TABLES + 1) + tables]
    while tokens >> (octave + ROW_BITS + 1):
        octave += 1
    part = tokens >> octave  # from 1 << ROW_BITS on
    share = <float>(tokens - (part << octave)) / (1 << octave)
    row = model.steps + ((octave << ROW_BITS) + part) * (MOST_TABLES + 1) + tables
    cell = row[0]
    cell.join += share * (row[MOST_TABLES + 1].join - cell.join)
    cell.close += share * (row[MOST_TABLES + 1].close - cell.close)
    return cell


cdef inline void _open(const PitmanYor *model, Sampler *s, Word *word, int k, int n) noexcept nogil:
    """Open or close a table of a word in a topic; `_weigh` is to follow."""
    word.tables += n
    s.n_tables[k] += n
    s.total_tables += n
    s.lift[k] = s.beta_total[k] + model.discount * s.n_tables[k]
    s.base_inverse = 1 / (s.total_tables + model.prior_total)


cdef inline double _base(model_t *model, const Sampler *s, const Word *word) noexcept nogil:
    """What a word weighs, times `spread`, in topics that have no token of it."""
    if model_t is Dirichlet:
        return word.beta
    else:
        return (word.beta + word.tables) * s.base_inverse


cdef inline float _rise(
    model_t *model, const Table *t, const Word *word, Py_ssize_t j, int count
) noexcept nogil:
    """What a word weighs beyond its base in a topic, its j-th, times inverse."""
    if model_t is Dirichlet:
        return count
    else:
        return t.cells[word.cells + j].join


# ---------------------------------------------------------------- counts

cdef inline int _find(const Table *t, const Word *word, int k) noexcept nogil:
    """Where a word's counts have a topic, -1 if nowhere."""
    if word.kind != LISTED:
        return k
    return find_listed(t.pool + word.first, t.bits, word.length, k)


cdef inline int _topic(const Table *t, const Word *word, int j) noexcept nogil:
    """The j-th topic of a listed word."""
    return <int>(t.pool[word.first + j] & ((1u << t.bits) - 1))


cdef inline int _in_row(const Table *t, const Word *word, Py_ssize_t k) noexcept nogil:
    """A word's tokens in a topic, of dense counts."""
    cdef const unsigned short *row = t.dense + word.row
    if word.wide:
        return (<const int *>row)[k]
    return row[k]


cdef inline void _add_in_row(Table *t, const Word *word, Py_ssize_t k, int n) noexcept nogil:
    """Put tokens of a word into a topic, or take them away, of dense counts."""
    cdef unsigned short *row = t.dense + word.row
    if word.wide:
        (<int *>row)[k] += n
    else:
        row[k] += <unsigned short>n


cdef inline int _count(const Table *t, const Word *word, int j) noexcept nogil:
    """A word's tokens in its j-th topic."""
    if word.kind != LISTED:
        return _in_row(t, word, j)
    return <int>(t.pool[word.first + j] >> t.bits)


cdef inline void _remove(model_t *model, Table *t, Word *word, int k) noexcept nogil:
    """Take one token of a word from a topic."""
    cdef int j
    cdef unsigned int *entry = t.pool + word.first
    if word.kind != LISTED:
        _add_in_row(t, word, k, -1)
        return
    j = _find(t, word, k)
    entry[j] -= 1u << t.bits
    if entry[j] >> t.bits == 0:
        word.length -= 1
        entry[j] = entry[word.length]
        if model_t is PitmanYor:
            t.cells[word.cells + j] = t.cells[word.cells + word.length]
            t.tables[word.cells + j] = t.tables[word.cells + word.length]


cdef inline int _add(Table *t, Word *word, int k) noexcept nogil:
    """Put one token of a word into a topic, and say where its counts have it."""
    cdef int j
    if word.kind != LISTED:
        _add_in_row(t, word, k, 1)
        return k
    j = _find(t, word, k)
    if j < 0:
        j = word.length
        word.length += 1
        t.pool[word.first + j] = k
    t.pool[word.first + j] += 1u << t.bits
    return j


cdef inline double _spread(model_t *model, const Sampler *s, int k) noexcept nogil:
    """What a word's base is weighed with in a topic."""
    return s.topic[k].inverse if model_t is Dirichlet else s.spread[k]


cdef inline void _weigh(model_t *model, Sampler *s, int k, int n, double inverse) noexcept nogil:
    """Let the document have n tokens in a listed topic of this inverse total."""
    cdef Topic *topic = s.topic + k
    cdef double before = _spread(model, s, k), spread = inverse
    if model_t is PitmanYor:
        spread *= s.lift[k]
        s.spread[k] = spread
        s.own_spread[topic.place] = <float>(n * spread)
        s.lifted[k] = <float>((n + topic.alpha) * spread)
    s.smooth += topic.alpha * (spread - before)
    s.own_total += n * spread - topic.n_doc * before
    s.inverse[k] = inverse
    s.most = max(s.most, topic.alpha * spread)
    s.far[k] = <float>(topic.alpha * inverse)
    topic.inverse = inverse
    topic.n_doc = n
    s.own[topic.place] = <float>(n * inverse)
    s.both[k] = <float>((n + topic.alpha) * inverse)


cdef inline void _leave_topic(model_t *model, Sampler *s, int k) noexcept nogil:
    """A token that `_weigh` has taken out has gone to another topic."""
    cdef int j = s.topic[k].place, last
    s.n_topic[k] -= 1
    s.topic[k].inverse_less = 1 / (max(s.n_topic[k] - 1, 0) + s.beta_total[k])
    if s.unit and s.topic[k].n_doc == 0:
        s.n_listed -= 1
        last = s.listed[s.n_listed]
        s.listed[j] = last
        s.own[j] = s.own[s.n_listed]
        s.own[s.n_listed] = 0
        if model_t is PitmanYor:
            s.own_spread[j] = s.own_spread[s.n_listed]
        s.topic[last].place = j


cdef inline void _join_topic(model_t *model, Sampler *s, int k) noexcept nogil:
    """A token of the document comes to a topic."""
    s.n_topic[k] += 1
    if s.unit and s.topic[k].n_doc == 0:
        s.topic[k].place = s.n_listed
        s.listed[s.n_listed] = k
        s.n_listed += 1
    s.topic[k].inverse_less = s.topic[k].inverse
    _weigh(model, s, k, s.topic[k].n_doc + s.unit, 1 / (s.n_topic[k] + s.beta_total[k]))
