# Digamma, exp(digamma), log-gamma, exp and log, written so that compilers vectorise them.
#
# Series and recurrences: Abramowitz & Stegun, 6.1.41, 6.3.5, 6.3.18.
from sklearn_sparsepost._kernels._types cimport floating

cdef extern from * nogil:
    """
    #include <string.h>
    /* Bit tricks that C spells with memcpy: 2**n, flushed to 0 by a mask since a branch would not
       vectorise, and x = m * 2**e with m in [0.7071, 1.4142). */
    static inline float sp_pow2f(int n) {
        unsigned int bits = ((unsigned int)(n + 127) << 23) & -(unsigned int)(n > -99); float out;
        memcpy(&out, &bits, sizeof out); return out;
    }
    static inline double sp_pow2(int n) {
        unsigned long long bits = ((unsigned long long)(n + 1023) << 52)
            & -(unsigned long long)(n > -937);
        double out; memcpy(&out, &bits, sizeof out); return out;
    }
    static inline int sp_frexpf(float x, float *m) {
        int bits, e; memcpy(&bits, &x, sizeof bits);
        e = (bits - 0x3f3504f3) >> 23; bits -= (int)((unsigned int)e << 23);
        memcpy(m, &bits, sizeof bits); return e;
    }
    /* The exponent by way of a double's last bits: AVX2 converts no 64-bit integers. */
    static inline double sp_frexp(double x, double *m) {
        unsigned long long bits, e; double shifted; memcpy(&bits, &x, sizeof bits);
        e = (bits - 0x3fe6a09e667f3bcdULL + (1024ULL << 52)) >> 52;
        bits -= (e - 1024) << 52; memcpy(m, &bits, sizeof bits);
        e |= 0x4330000000000000ULL; memcpy(&shifted, &e, sizeof e);
        return shifted - (4503599627370496. + 1024.);
    }
    """
    float sp_pow2f(int n)
    double sp_pow2(int n)
    int sp_frexpf(float x, float *m)
    double sp_frexp(double x, double *m)


# Every constant is cast: a bare literal would turn float32 arithmetic into double.

cdef inline floating exp_nonpos(floating x) noexcept nogil:
    """exp(x) for x <= 0; results under 1e-30 (float32) or 1e-282 (float64) are flushed to 0."""
    cdef floating r, p, one = 1, t = <floating>(-70 if floating is float else -660)
    cdef int n
    t = x if x > t else t
    n = <int>(t * <floating>1.4426950408889634 - <floating>0.5)
    if floating is float:
        r = t - n * <float>0.693359375 + n * <float>2.12194440e-4
        p = one + r * (one + r * (<float>0.5 + r * (<float>(1. / 6) + r * (
            <float>(1. / 24) + r * (<float>(1. / 120) + r * (
                <float>(1. / 720) + r * <float>(1. / 5040)))))))
        return p * sp_pow2f(n)
    else:
        r = t - n * 0.6931471803691238 - n * 1.9082149292705877e-10
        p = one + r * (one + r * (1. / 2 + r * (1. / 6 + r * (1. / 24 + r * (1. / 120 + r * (
            1. / 720 + r * (1. / 5040 + r * (1. / 40320 + r * (1. / 362880 + r * (
                1. / 3628800 + r * (1. / 39916800 + r * (
                    1. / 479001600 + r * (1. / 6227020800.)))))))))))))
        return p * sp_pow2(n)


cdef inline floating log_pos(floating x) noexcept nogil:
    """log(x) for normal x > 0, by the atanh series of the mantissa."""
    cdef floating m, s, q, e, one = 1
    if floating is float:
        e = <float>sp_frexpf(x, &m)
        s = (m - one) / (m + one)
        q = s * s
        q = q * (<float>(2. / 3) + q * (<float>(2. / 5) + q * (
            <float>(2. / 7) + q * <float>(2. / 9))))
        return e * <float>0.693359375 + (s + s + (s * q - e * <float>2.12194440e-4))
    else:
        e = sp_frexp(x, &m)
        s = (m - one) / (m + one)
        q = s * s
        q = q * (2. / 3 + q * (2. / 5 + q * (2. / 7 + q * (2. / 9 + q * (2. / 11 + q * (
            2. / 13 + q * (2. / 15 + q * (2. / 17 + q * (2. / 19 + q * (2. / 21 + q * (
                2. / 23)))))))))))
        return e * 0.6931471803691238 + (s + s + (s * q + e * 1.9082149292705877e-10))


cdef inline floating shift_up(floating x, floating *shifted) noexcept nogil:
    """Move x > 0 to where the asymptotic series hold: psi(x) = psi(shifted) - returned sum.

    The sum of 1 / (x + i), i = 0 ... 9, as one fraction: pairs are x (x + 9) + {0, 8, 14, 18, 20}.
    """
    cdef floating limit = 32, zero = 0, ten = 10
    cdef floating low = x if x < limit else limit
    cdef floating t = low * (low + <floating>9)
    cdef floating a = t * (t + <floating>20)
    cdef floating b = (t + <floating>8) * (t + <floating>14)
    cdef floating c = t + <floating>18
    cdef floating total = (low + low + <floating>9) * (
        (t + t + <floating>20) * b * c + (t + t + <floating>22) * a * c + a * b) / (a * b * c)
    shifted[0] = x + (ten if x < limit else zero)
    return total if x < limit else zero


cdef inline floating expdigamma_large(floating y) noexcept nogil:
    """exp(psi(y)) for y >= 10: the series of exp(psi) in 1 / (y - 1/2)."""
    cdef floating x = y - <floating>0.5
    cdef floating u = <floating>1 / x
    cdef floating v = u * u
    if floating is float:
        return x + u * (<float>(1. / 24) + v * (<float>(-37. / 5760) + v * <float>0.0035524829))
    else:
        return x + u * (1. / 24 + v * (-37. / 5760 + v * (0.003552482914462081 + v * (
            -0.0039535574489730305 + v * (0.007365033269308669 + v * (-0.020734675824368137 + v * (
                0.08238185223878776 - v * 0.43960443686008127)))))))


cdef inline double digamma(double x) noexcept nogil:
    """psi(x), x > 0, always in double."""
    cdef double y
    cdef double s = shift_up(x, &y)
    cdef double u = 1. / y
    cdef double v = u * u
    v = v * (1. / 12 - v * (1. / 120 - v * (1. / 252 - v * (1. / 240 - v * (
        1. / 132 - v * (691. / 32760 - v / 12.))))))
    return log_pos(y) - 0.5 * u - v - s


cdef inline double gammaln(double x) noexcept nogil:
    """log(Gamma(x)), x > 0, always in double: bounds are sums of differences of these.

    Stirling's series at x + 8, less the log of the product of the eight factors passed over.
    """
    cdef double y = x + 8 if x < 16 else x
    cdef double t = x * (x + 7)
    cdef double product = t * (t + 6) * (t + 10) * (t + 12)
    cdef double u = 1. / y
    cdef double v = u * u
    cdef double series = u * (1. / 12 - v * (1. / 360 - v * (1. / 1260 - v * (1. / 1680 - v * (
        1. / 1188 - v * (691. / 360360 - v / 156.))))))
    cdef double value = (y - 0.5) * log_pos(y) - y + 0.9189385332046728 + series
    return value - log_pos(product) if x < 16 else value
