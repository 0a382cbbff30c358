"""A document's logits given its tokens' topics: one Gibbs sweep, component by component.

The topic weights of a document are softmax(eta), eta ~ N(mean, Sigma) (paper 003). Given C tokens
of N in topic k, and r = sum over j != k of exp(eta_j), the conditional density of eta_k is

    exp(C eta_k) / (exp(eta_k) + r)^N * N(eta_k; m, v)

with m and v of the prior given the other components (Eq. 2). Two auxiliary variables help:

* a Polya-Gamma variable w ~ PG(N, eta_k - log r): it is normal then, of precision 1 / v + w
  (section 3.2);
* a slice: u uniform below (exp(eta_k) + r)^-N bounds eta_k, and what is left is N(m + v C, v)
  truncated there. Its steps are the longer ones where C is small, as it is for most topics. What is
  drawn first is a number without a bound; mostly it is seen to be below any that matters.

With Sigma = F F' + diag(psi) and factors f ~ N(0, I), eta = mean + F f + noise: given f the
components are independent a priori, so that a sweep costs K r multiplications instead of K^2.
"""
from libc.math cimport exp, expm1, log, log1p, sqrt

from sklearn_sparsepost._kernels._draws cimport (
    Draws, draw_normal, draw_normal_below, draw_polya_gamma, draw_uniform,
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
    const double *loadings  # K x n_factors, F
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
    double shift
    double total  # of the weights
    double largest  # total since they were summed
    Draws draws


cdef inline object point_to(Gaussian *prior, arrays):
    """Have a prior of logits point to its arrays, in double precision, which must outlive it.

    They are `mean` of shape (n_topics,), `precision` of shape (n_topics, n_topics), or empty if
    the covariance has factors, `loadings` of shape (n_topics, n_factors), `scale` of shape
    (n_topics,), `gain` of shape (n_factors, n_topics), and `spread`, which is square: see the
    fields.
    """
    cdef const double[::1] mean = arrays[0], scale = arrays[3]
    cdef const double[:, ::1] precision = arrays[1], loadings = arrays[2], gain = arrays[4]
    cdef const double[:, ::1] spread = arrays[5]
    cdef int r = <int>loadings.shape[1]
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
    return used


cdef inline void weigh_topics(Document *doc) noexcept nogil:
    """Take the exponentials of all logits, the largest one's being 1."""
    cdef int k
    doc.shift, doc.total = doc.eta[0], 0
    for k in range(doc.K):
        doc.shift = doc.eta[k] if doc.eta[k] > doc.shift else doc.shift
    for k in range(doc.K):
        doc.weight[k] = exp_nonpos(doc.eta[k] - doc.shift)
        doc.total += doc.weight[k]
    doc.largest = doc.total


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
    Document *doc, int k, double rest, double mean, double scale, double *weight
) noexcept nogil:
    """A component from a normal distribution, cut off where a random bound is; and its weight.

    The weights' total may rise to itself times (1 - u)^(-1 / N), u uniform.
    """
    cdef double value = mean + scale * draw_normal(&doc.draws), total = rest + doc.weight[k]
    cdef double u, rise, most
    weight[0] = exp(value - doc.shift)
    rise = weight[0] - doc.weight[k]
    if rise <= 0:  # below every bound
        return value
    u = draw_uniform(&doc.draws)
    if doc.n_tokens * rise <= u * total:  # below this one, as (1 + x)^-N >= 1 - N x
        return value
    most = total * expm1(-log1p(-u) / doc.n_tokens)
    if rise > most:
        value = doc.shift + log(doc.weight[k] + most)
        value = draw_normal_below(&doc.draws, mean, scale, value)
        weight[0] = exp(value - doc.shift)
    return value


cdef inline void _draw_logit(
    Document *doc, int k, double mean, double scale, int sampler
) noexcept nogil:
    """Draw a component given all others: `mean` and `scale` are of its prior given these."""
    cdef double count = doc.count[k], n = doc.n_tokens, rest = _rest(doc, k)
    cdef double variance = scale * scale, value, weight, w, share
    if n > 0 and rest > 0 and takes_slice(sampler, count, n):
        value = _draw_slice(doc, k, rest, mean + count * variance, scale, &weight)
        _set_logit(doc, k, value, weight)
        return
    if n > 0 and rest > 0:  # else tokens say nothing of it
        rest = doc.shift + log(rest)
        w = draw_polya_gamma(&doc.draws, n, doc.eta[k] - rest)
        share = 1 / (1 + variance * w)  # of the prior in the precision
        mean = (mean + variance * (count - 0.5 * n + w * rest)) * share
        scale *= sqrt(share)
    value = mean + scale * draw_normal(&doc.draws)
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


cdef inline void sweep_logits(
    Document *doc, const Gaussian *prior, int n_steps, int sampler
) noexcept nogil:
    """Draw every component `n_steps` times given the others and the tokens' topics.

    The document's `count`, `n_tokens` and `eta` are set; its weights are found here.
    """
    cdef int _step, i, k, K = doc.K, r = prior.n_factors
    cdef const double *row
    cdef double mean, change
    if prior.full:
        for k in range(K):
            doc.product[k] = 0
        for i in range(K):
            row, change = prior.precision + <Py_ssize_t>i * K, doc.eta[i] - prior.mean[i]
            for k in range(K):
                doc.product[k] += change * row[k]
    for _step in range(n_steps):
        weigh_topics(doc)
        if not prior.full:
            _draw_factors(doc, prior)
            for k in range(K):
                row, mean = prior.loadings + <Py_ssize_t>k * r, prior.mean[k]
                for i in range(r):
                    mean += row[i] * doc.factor[i]
                _draw_logit(doc, k, mean, prior.scale[k], sampler)
            continue
        for k in range(K):
            row = prior.precision + <Py_ssize_t>k * K
            change = -doc.eta[k]
            mean = doc.eta[k] - doc.product[k] * prior.scale[k] * prior.scale[k]
            _draw_logit(doc, k, mean, prior.scale[k], sampler)
            change += doc.eta[k]
            for i in range(K):
                doc.product[i] += change * row[i]


cdef inline void draw_prior(Document *doc, const Gaussian *prior) noexcept nogil:
    """Logits from their prior."""
    cdef int i, k, K = doc.K, r = prior.n_factors, n = K if prior.full else r
    cdef const double *row
    for i in range(n):
        doc.noise[i] = draw_normal(&doc.draws)
    for k in range(K):
        doc.eta[k] = prior.mean[k]
        row = (prior.spread if prior.full else prior.loadings) + <Py_ssize_t>k * n
        for i in range(k + 1 if prior.full else r):
            doc.eta[k] += row[i] * doc.noise[i]
        if not prior.full:
            doc.eta[k] += draw_normal(&doc.draws) * prior.scale[k]
