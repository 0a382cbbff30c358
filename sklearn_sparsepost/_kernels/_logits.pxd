"""A document's logits given its tokens' topics: one Gibbs sweep, component by component.

The topic weights of a document are softmax(eta), eta ~ N(mean, Sigma) (Chen et al. 2013). Given C
tokens of N in topic k, and r = sum over j != k of exp(eta_j), the conditional density of eta_k is

    exp(C eta_k) / (exp(eta_k) + r)^N * N(eta_k; m, v)

with m and v of the prior given the other components (Eq. 2). Two auxiliary variables help:

* a Polya-Gamma variable w ~ PG(N, eta_k - log r): it is normal then, of precision 1 / v + w
  (section 3.2);
* a slice: u uniform below (exp(eta_k) + r)^-N bounds eta_k, and what is left is N(m + v C, v)
  truncated there. Its steps are the longer ones where C is small, as it is for most topics. What is
  drawn first is a number without a bound; mostly it is seen to be below any that matters.

With Sigma = F F' + diag(psi) and factors f ~ N(0, I), eta = mean + F f + noise: given f the
components are independent a priori, so that a sweep costs K r multiplications instead of K^2. With
a third variable, u ~ Gamma(N) / sum of exp(eta), they are so a posteriori, too,

    p(eta_k | f, u) proportional to exp(C eta_k - u exp(eta_k)) * N(eta_k; m, v),

and those that slices draw are drawn side by side: a uniform number below exp(-u exp(eta_k)) bounds
each of them as above.
"""
from libc.math cimport exp, expm1, fabs, log, log1p, sqrt

from libc.stdint cimport uint64_t

from sklearn_sparsepost._kernels._draws cimport (
    Draws, draw_gamma, draw_normal, draw_normal_below, draw_polya_gamma, draw_uniform, draws_init,
)
from sklearn_sparsepost._kernels._normals cimport (
    MANY, Lanes, lanes_init, lanes_normal, lanes_uniform,
)
from sklearn_sparsepost._kernels._math cimport exp_nonpos
from sklearn_sparsepost._kernels._scratch cimport take

cdef enum:
    MOST_RISE = 300  # of a logit above the largest one of a while ago, before all are taken anew

cdef enum LogitSampler:
    BY_COUNTS, SLICE, POLYA_GAMMA

cdef struct Gaussian:  # the prior of logits
    int K
    int n_factors
    bint full
    const double *mean
    const double *precision  # full: of the components, K x K
    const double *loadings  # n_factors x K, F'
    const double *scale  # of a component given the others: 1 / sqrt(its precision)
    const double *gain  # n_factors x K: what deviations say of the factors
    const double *spread  # lower triangular root of the factors' variance, or, if full, of Sigma

cdef struct Document:  # one at a time, of a thread
    int K
    double n_tokens
    double *count  # tokens of each topic
    double *eta
    double *weight  # exp(eta - shift)
    double *product  # full: precision @ (eta - mean)
    double *factor
    double *noise  # scratch
    double *centre  # not full: of a component given the factors and, where slices draw, the tokens
    bint *few  # whether slices draw it
    double shift
    double total  # of the weights
    double largest  # total since they were summed
    Draws draws
    Lanes lanes


cdef inline object point_to(Gaussian *prior, arrays):
    """Have a prior of logits point to its arrays, in double precision, which must outlive it.

    They are `mean` of shape (n_topics,), `precision` of shape (n_topics, n_topics), or empty if
    the covariance has factors, `loadings` of shape (n_factors, n_topics), `scale` of shape
    (n_topics,), `gain` of shape (n_factors, n_topics), and `spread`, which is square: see the
    fields.
    """
    cdef const double[::1] mean = arrays[0], scale = arrays[3]
    cdef const double[:, ::1] precision = arrays[1], loadings = arrays[2], gain = arrays[4]
    cdef const double[:, ::1] spread = arrays[5]
    cdef int r = <int>loadings.shape[0]
    prior.K, prior.n_factors, prior.full = <int>mean.shape[0], r, precision.shape[0] > 1
    prior.mean, prior.scale = &mean[0], &scale[0]
    prior.precision = &precision[0, 0] if prior.full else NULL
    prior.loadings = &loadings[0, 0] if r else NULL
    prior.gain = &gain[0, 0] if r else NULL
    prior.spread = &spread[0, 0] if spread.shape[0] else NULL


cdef inline size_t document_size(
    Document *doc, int K, int n_factors, char *memory
) noexcept nogil:
    """Lay out a document's memory; returns how much it takes."""
    cdef size_t used = 0
    doc.K = K
    doc.count = <double *>take(memory, &used, K * sizeof(double))
    doc.eta = <double *>take(memory, &used, K * sizeof(double))
    doc.weight = <double *>take(memory, &used, K * sizeof(double))
    doc.product = <double *>take(memory, &used, K * sizeof(double))
    doc.factor = <double *>take(memory, &used, n_factors * sizeof(double))
    doc.noise = <double *>take(memory, &used, (n_factors + K) * sizeof(double))
    doc.centre = <double *>take(memory, &used, K * sizeof(double))
    doc.few = <bint *>take(memory, &used, K * sizeof(bint))
    return used


cdef inline void start_draws(
    Document *doc, uint64_t seed, uint64_t number, uint64_t unit
) noexcept nogil:
    """Put a document's draws at the start of their stream."""
    draws_init(&doc.draws, seed, number, unit)
    lanes_init(&doc.lanes, &doc.draws.stream)


cdef inline void weigh_topics(Document *doc) noexcept nogil:
    """Take the exponentials of all logits, the largest one's being 1."""
    cdef int k
    cdef const double *eta = doc.eta
    cdef double *weight = doc.weight
    cdef double shift = eta[0], total = 0  # sums in memory would not turn into vectors
    for k in range(doc.K):
        shift = eta[k] if eta[k] > shift else shift
    for k in range(doc.K):
        weight[k] = exp_nonpos(eta[k] - shift)
        total += weight[k]
    doc.shift, doc.total, doc.largest = shift, total, total


cdef inline double _rest(Document *doc, int k) noexcept nogil:
    """What all topics but one weigh."""
    cdef double rest = doc.total - doc.weight[k]
    cdef int j
    if rest < 1e-8 * doc.largest:  # of a difference little would be left
        if doc.total < 1e-100:  # all are far below what was the largest
            weigh_topics(doc)
        rest = 0
        for j in range(doc.K):
            rest += doc.weight[j] if j != k else 0
        doc.total = doc.largest = rest + doc.weight[k]
    return rest


cdef inline bint takes_slice(int sampler, double count, double n_tokens) noexcept nogil:
    """Which of the two samplers a component has: by its tokens alone, so that both stay exact."""
    if sampler != BY_COUNTS:
        return sampler == SLICE
    return count == 0 or count * count * 2 * log(n_tokens / (count + 0.5) + 1) < n_tokens


cdef inline void _set_logit(Document *doc, int k, double value, double weight) noexcept nogil:
    """Move a component to a value whose weight is known."""
    doc.eta[k] = value
    if value - doc.shift > MOST_RISE:
        weigh_topics(doc)
        return
    doc.total += weight - doc.weight[k]
    doc.weight[k] = weight
    doc.largest = doc.total if doc.total > doc.largest else doc.largest


cdef inline double _draw_slice(
    Document *doc, int k, double rest, double mean, double scale, double noise, double u,
    double *weight
) noexcept nogil:
    """A component from a normal distribution, cut off where a random bound is; and its weight.

    `noise` is a normal and u a uniform number: the weights' total may rise to itself times
    (1 - u)^(-1 / N).
    """
    cdef double value = mean + scale * noise, total = rest + doc.weight[k], rise, most
    weight[0] = exp(value - doc.shift)
    rise = weight[0] - doc.weight[k]
    if doc.n_tokens * rise <= u * total:  # below the bound, as (1 + x)^-N >= 1 - N x
        return value
    most = total * expm1(-log1p(-u) / doc.n_tokens)
    if rise > most:
        value = doc.shift + log(doc.weight[k] + most)
        value = draw_normal_below(&doc.draws, mean, scale, value)
        weight[0] = exp(value - doc.shift)
    return value


cdef inline void _draw_logit(
    Document *doc, int k, double mean, double scale, double noise, double u
) noexcept nogil:
    """Draw a component given all others: `mean` and `scale` are of its prior given these.

    `noise` is a normal and u a uniform number.
    """
    cdef double count = doc.count[k], n = doc.n_tokens, rest = _rest(doc, k)
    cdef double variance = scale * scale, value, weight, w, share
    if n > 0 and rest > 0 and doc.few[k]:
        value = _draw_slice(doc, k, rest, mean + count * variance, scale, noise, u, &weight)
        _set_logit(doc, k, value, weight)
        return
    if n > 0 and rest > 0:  # else tokens say nothing of it
        rest = doc.shift + log(rest)
        w = draw_polya_gamma(&doc.draws, n, doc.eta[k] - rest)
        share = 1 / (1 + variance * w)  # of the prior in the precision
        mean = (mean + variance * (count - 0.5 * n + w * rest)) * share
        scale *= sqrt(share)
    value = mean + scale * noise
    _set_logit(doc, k, value, exp(value - doc.shift))


cdef inline void _draw_factors(Document *doc, const Gaussian *prior) noexcept nogil:
    """The factors given the logits."""
    cdef int i, j, r = prior.n_factors
    cdef const double *row
    cdef double value
    for i in range(doc.K):
        doc.product[i] = doc.eta[i] - prior.mean[i]
    for i in range(r):
        doc.noise[i] = draw_normal(&doc.draws)
    for i in range(r):
        row, value = prior.gain + <Py_ssize_t>i * doc.K, 0
        for j in range(doc.K):
            value += row[j] * doc.product[j]
        row = prior.spread + i * r
        for j in range(i + 1):
            value += row[j] * doc.noise[j]
        doc.factor[i] = value


# ---------------------------------------------------------------- side by side

cdef inline void _centre_on_factors(Document *doc, const Gaussian *prior) noexcept nogil:
    """Where the components' distributions are, and which of them slices draw from these."""
    cdef int i, k
    cdef double value
    cdef const double *row
    for k in range(doc.K):
        doc.centre[k] = prior.mean[k]
    for i in range(prior.n_factors):
        row, value = prior.loadings + <Py_ssize_t>i * doc.K, doc.factor[i]
        for k in range(doc.K):
            doc.centre[k] += value * row[k]
    for k in range(doc.K):
        doc.centre[k] += doc.few[k] * doc.count[k] * prior.scale[k] * prior.scale[k]


cdef inline double _draw_many(
    Document *doc, const double *scale, int first, double price
) noexcept nogil:
    """Draw components from `first` on, those that slices draw; returns what all of them weigh.

    Each of them is a number without a bound, if that is below its own, and else drawn below that.
    """
    cdef double noise[MANY]
    cdef double slack[MANY]
    cdef double value[MANY]
    cdef double before[MANY]
    cdef double after[MANY]
    cdef double chance[MANY]
    cdef double x, weight, inverse, rise, shift = doc.shift, total = 0
    cdef int i, k, n = min(MANY, doc.K - first)
    lanes_normal(&doc.lanes, noise)
    lanes_uniform(&doc.lanes, slack, MANY)
    for i in range(MANY):
        before[i] = value[i] = 0
    for i in range(n):
        before[i] = doc.weight[first + i]
        value[i] = doc.centre[first + i] + scale[first + i] * noise[i]
    for i in range(MANY):
        x = value[i] - shift
        x = x if x < <double>MOST_RISE else <double>MOST_RISE
        weight = exp_nonpos(-fabs(x))
        inverse = 1 / weight
        after[i] = inverse if x > 0 else weight
    for i in range(MANY):
        rise = before[i] - after[i]
        rise = rise if rise < 0 else 0.0
        chance[i] = exp_nonpos(price * rise)
    for i in range(n):
        k = first + i
        if doc.few[k]:
            if chance[i] < slack[i]:
                x = doc.shift + log(max(before[i] - log(slack[i]) / price, 1e-300))
                value[i] = draw_normal_below(&doc.draws, doc.centre[k], scale[k], x)
                after[i] = exp(value[i] - doc.shift)
            doc.eta[k], doc.weight[k] = value[i], after[i]
        total += doc.weight[k]
    return total


cdef inline void _step_independent(Document *doc, const Gaussian *prior) noexcept nogil:
    """Draw the factors, then components that are independent given these."""
    cdef int k, block, n_few = 0
    cdef double price = 0, total = 0
    for k in range(doc.K):
        n_few += doc.few[k]
    _draw_factors(doc, prior)
    _centre_on_factors(doc, prior)
    if n_few:
        if doc.n_tokens > 0:
            price = draw_gamma(&doc.draws, doc.n_tokens) / doc.total
        for block in range((doc.K + MANY - 1) // MANY):
            total += _draw_many(doc, prior.scale, block * MANY, price)
        doc.total = doc.largest = total
    for k in range(doc.K):
        if not doc.few[k]:
            _draw_logit(doc, k, doc.centre[k], prior.scale[k], draw_normal(&doc.draws), 0)


cdef inline void _step_full(Document *doc, const Gaussian *prior) noexcept nogil:
    """Draw one component after the other; their conditional means follow."""
    cdef int i, k, K = doc.K
    cdef double noise[MANY]
    cdef double u[MANY]
    cdef const double *row
    cdef double mean, change
    for k in range(K):
        if k % MANY == 0:
            lanes_normal(&doc.lanes, noise)
            lanes_uniform(&doc.lanes, u, MANY)
        row = prior.precision + <Py_ssize_t>k * K
        change = -doc.eta[k]
        mean = doc.eta[k] - doc.product[k] * prior.scale[k] * prior.scale[k]
        _draw_logit(doc, k, mean, prior.scale[k], noise[k % MANY], 1 - u[k % MANY])
        change += doc.eta[k]
        for i in range(K):
            doc.product[i] += change * row[i]


cdef inline void sweep_logits(
    Document *doc, const Gaussian *prior, int n_steps, int sampler
) noexcept nogil:
    """Draw every component `n_steps` times given the others and the tokens' topics.

    The document's `count`, `n_tokens` and `eta` are set; its weights are found here.
    """
    cdef int _step, i, k, K = doc.K
    cdef const double *row
    cdef double change
    for k in range(K):
        # One alone weighs nothing against others: tokens say nothing of it.
        doc.few[k] = K > 1 and takes_slice(sampler, doc.count[k], doc.n_tokens)
    if prior.full:
        for k in range(K):
            doc.product[k] = 0
        for i in range(K):
            row, change = prior.precision + <Py_ssize_t>i * K, doc.eta[i] - prior.mean[i]
            for k in range(K):
                doc.product[k] += change * row[k]
    for _step in range(n_steps):
        weigh_topics(doc)
        if prior.full:
            _step_full(doc, prior)
        else:
            _step_independent(doc, prior)


cdef inline void draw_prior(Document *doc, const Gaussian *prior) noexcept nogil:
    """Logits from their prior."""
    cdef int i, k, K = doc.K, r = prior.n_factors, n = K if prior.full else r
    cdef const double *row
    for i in range(n):
        doc.noise[i] = draw_normal(&doc.draws)
    for k in range(K):
        doc.eta[k] = prior.mean[k]
        if prior.full:
            row = prior.spread + <Py_ssize_t>k * K
            for i in range(k + 1):
                doc.eta[k] += row[i] * doc.noise[i]
            continue
        for i in range(r):
            doc.eta[k] += prior.loadings[<Py_ssize_t>i * K + k] * doc.noise[i]
        doc.eta[k] += draw_normal(&doc.draws) * prior.scale[k]
