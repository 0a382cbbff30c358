"""Draws of continuous distributions from keyed streams: normal, truncated normal, Polya-Gamma.

A draw of PG(N, c) is exact for whole N up to `MOST_SUMMED`: a sum of N draws of PG(1, c), each by
the alternating series of Polson, Scott & Windle (2013) after Devroye. For other N it is a draw of
the gamma distribution with the mean and the variance of PG(N, c), whose third cumulant is nearly
right, too (5/6 of it for c = 0, where a normal distribution has none).
"""
from libc.math cimport M_PI, erfc, exp, expm1, fabs, log, log1p, sqrt, tanh
from libc.stdint cimport uint64_t

from sklearn_sparsepost._kernels._rng cimport KeyedStream, keyed_init, keyed_next_double

cdef enum:
    MOST_SUMMED = 16

cdef struct Draws:  # a stream, and the second one of two normal numbers
    KeyedStream stream
    double spare
    bint has_spare


cdef inline void draws_init(
    Draws *draws, uint64_t seed, uint64_t number, uint64_t unit
) noexcept nogil:
    """Put draws at the start of a stream."""
    keyed_init(&draws.stream, seed, number, unit)
    draws.has_spare = False


cdef inline double draw_uniform(Draws *draws) noexcept nogil:
    """A uniform number in [0, 1)."""
    return keyed_next_double(&draws.stream)


cdef inline double draw_exponential(Draws *draws) noexcept nogil:
    """A number with density exp(-x)."""
    return -log1p(-keyed_next_double(&draws.stream))


cdef inline double draw_normal(Draws *draws) noexcept nogil:
    """A standard normal number, by the polar method of Marsaglia & Bray (1964)."""
    cdef double u, v, square
    if draws.has_spare:
        draws.has_spare = False
        return draws.spare
    while True:
        u = 2 * keyed_next_double(&draws.stream) - 1
        v = 2 * keyed_next_double(&draws.stream) - 1
        square = u * u + v * v
        if 0 < square < 1:
            break
    square = sqrt(-2 * log(square) / square)
    draws.spare, draws.has_spare = v * square, True
    return u * square


cdef inline double draw_normal_below(
    Draws *draws, double mean, double scale, double bound
) noexcept nogil:
    """A normal number that is at most `bound`; in the tail by Robert's rejection (1995)."""
    cdef double z = (bound - mean) / scale, x, rate
    if z > -0.5:
        while True:
            x = draw_normal(draws)
            if x <= z:
                return mean + scale * x
    rate = 0.5 * (sqrt(z * z + 4) - z)
    while True:
        x = draw_exponential(draws) / rate
        # The distance to the rate is that of -z + x, the number's size.
        if draw_uniform(draws) <= exp(-0.5 * (x - z - rate) * (x - z - rate)):
            return bound - scale * x


cdef inline double draw_gamma(Draws *draws, double shape) noexcept nogil:
    """A number of the gamma distribution of a shape and scale 1 (Marsaglia & Tsang 2000)."""
    cdef double boost = 1, third, c, x, v, u
    if shape < 1:
        boost = exp(-draw_exponential(draws) / shape)
        shape += 1
    third = shape - 1. / 3
    c = 1 / sqrt(9 * third)
    while True:
        x = draw_normal(draws)
        v = 1 + c * x
        if v <= 0:
            continue
        v = v * v * v
        u = 1 - draw_uniform(draws)
        # The bound without logs is true of nearly all.
        if u < 1 - 0.0331 * (x * x) * (x * x) or log(u) < 0.5 * x * x + third * (1 - v + log(v)):
            return boost * third * v


# ---------------------------------------------------------------- Polya-Gamma

cdef inline double _log_normal_cdf(double x) noexcept nogil:
    """The log of the probability that a standard normal number is below x."""
    if x > -30:
        return log(0.5 * erfc(-x * 0.7071067811865476))
    return -0.5 * x * x - log(-x) - 0.9189385332046727  # where it decides nothing


cdef inline double _draw_inverse_gaussian(Draws *draws, double z, double most) noexcept nogil:
    """A number of the inverse Gaussian distribution of mean 1 / z and shape 1, at most `most`."""
    cdef double x, y, mean
    if z * most < 1:
        while True:
            while True:
                x = draw_exponential(draws)
                y = draw_exponential(draws)
                if x * x <= 2 * y / most:
                    break
            x = most / ((1 + most * x) * (1 + most * x))
            if draw_uniform(draws) <= exp(-0.5 * z * z * x):
                return x
    mean = 1 / z
    while True:
        y = draw_normal(draws)
        y = mean * y * y
        # The smaller root as a fraction, which does not cancel.
        x = mean / (1 + 0.5 * (y + sqrt(y * (y + 4))))
        if draw_uniform(draws) > mean / (mean + x):
            x = mean * mean / x
        if x <= most:
            return x


cdef inline double _draw_polya_gamma_one(Draws *draws, double tilt) noexcept nogil:
    """A number of PG(1, tilt), exactly."""
    cdef double most = 0.64, z = 0.5 * fabs(tilt), rate = M_PI * M_PI / 8 + 0.5 * z * z
    cdef double root = sqrt(1 / most), start = log(rate) + rate * most, near, x, u, sum_, term
    cdef int n
    near = exp(min(start - z + _log_normal_cdf(root * (most * z - 1)), 700.0))
    near += exp(min(start + z + _log_normal_cdf(-root * (most * z + 1)), 700.0))
    near = 4 / M_PI * near  # what is below `most`, relative to what is above
    while True:
        if draw_uniform(draws) * (1 + near) < 1:
            x = most + draw_exponential(draws) / rate
        else:
            x = _draw_inverse_gaussian(draws, z, most)
        # The density over the first term of its series, from above and below in turn.
        u, sum_, n = draw_uniform(draws), 1, 0
        while True:
            n += 1
            term = n * (n + 1) * (0.5 * M_PI * M_PI * x if x > most else 2 / x)
            term = (2 * n + 1) * exp(-term)
            sum_ += -term if n % 2 else term
            if n % 2 and u <= sum_:
                return 0.25 * x
            if n % 2 == 0 and u > sum_:
                break


cdef inline void polya_gamma_moments(
    double shape, double tilt, double *mean, double *variance
) noexcept nogil:
    """The mean and the variance of PG(shape, tilt) (Glynn et al. 2019, Eq. 4)."""
    cdef double c = fabs(tilt), t
    if c < 0.2:  # by series, where the closed forms cancel
        t = c * c
        mean[0] = shape * (1. / 4 - t * (1. / 48 - t * (1. / 480 - t * (17. / 80640 - t * (
            31. / 1451520)))))
        variance[0] = shape * (1. / 24 - t * (1. / 120 - t * (17. / 13440 - t * (
            31. / 181440))))
        return
    t = exp(-c)
    mean[0] = shape * tanh(0.5 * c) / (2 * c)
    variance[0] = shape * (1 - t * t - 2 * c * t) / (2 * c * c * c * (1 + t) * (1 + t))


cdef inline double draw_polya_gamma(Draws *draws, double shape, double tilt) noexcept nogil:
    """A number of PG(shape, tilt): exact for whole shapes up to MOST_SUMMED."""
    cdef double mean, variance, total = 0
    cdef int _i
    if shape <= MOST_SUMMED and shape == <int>shape:
        for _i in range(<int>shape):
            total += _draw_polya_gamma_one(draws, tilt)
        return total
    polya_gamma_moments(shape, tilt, &mean, &variance)
    return variance / mean * draw_gamma(draws, mean * mean / variance)
