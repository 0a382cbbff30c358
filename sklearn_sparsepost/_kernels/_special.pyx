"""The special functions of ``_math.pxd`` over arrays, for numpy callers and for the tests."""
from cython.parallel cimport prange

from sklearn_sparsepost._kernels._types cimport floating
from sklearn_sparsepost._kernels cimport _math as sf

import numpy as np


def _like(x):
    return np.empty(x.shape[0], dtype=np.asarray(x).dtype)


def digamma(const floating[::1] x, int n_threads=1):
    """Digamma function of positive numbers.

    Parameters
    ----------
    x : ndarray of shape (n,), float32 or float64
        Where to evaluate, all positive.
    n_threads : int, default=1
        Number of OpenMP threads.

    Returns
    -------
    out : ndarray of shape (n,)
        psi(x), in the dtype of `x`.
    """
    cdef floating[::1] out = _like(x)
    cdef Py_ssize_t i
    for i in prange(x.shape[0], nogil=True, schedule="static", num_threads=n_threads):
        out[i] = sf.digamma(x[i])
    return np.asarray(out)


def expdigamma(const floating[::1] x, int n_threads=1):
    """Exponential of the digamma function, without the overflow of its two parts.

    Parameters
    ----------
    x : ndarray of shape (n,), float32 or float64
        Where to evaluate, all positive.
    n_threads : int, default=1
        Number of OpenMP threads.

    Returns
    -------
    out : ndarray of shape (n,)
        exp(psi(x)); values whose small factor is under 1e-30 (float32) or 1e-282 (float64) are 0.
    """
    cdef floating[::1] out = _like(x)
    cdef Py_ssize_t i
    for i in prange(x.shape[0], nogil=True, schedule="static", num_threads=n_threads):
        out[i] = sf.expdigamma(x[i])
    return np.asarray(out)


def gammaln(const double[::1] x):
    """Logarithm of the Gamma function of positive numbers.

    Parameters
    ----------
    x : ndarray of shape (n,), float64
        Where to evaluate, all positive.

    Returns
    -------
    out : ndarray of shape (n,)
        log(Gamma(x)).
    """
    cdef double[::1] out = np.empty(x.shape[0])
    cdef Py_ssize_t i
    for i in range(x.shape[0]):
        out[i] = sf.gammaln(x[i])
    return np.asarray(out)


def log(const floating[::1] x):
    """Natural logarithm of positive normal numbers.

    Parameters
    ----------
    x : ndarray of shape (n,), float32 or float64
        Where to evaluate, all positive.

    Returns
    -------
    out : ndarray of shape (n,)
        log(x), in the dtype of `x`.
    """
    cdef floating[::1] out = _like(x)
    cdef Py_ssize_t i
    for i in range(x.shape[0]):
        out[i] = sf.log_pos(x[i])
    return np.asarray(out)


def exp_nonpos(const floating[::1] x):
    """Exponential of numbers that are not positive.

    Parameters
    ----------
    x : ndarray of shape (n,), float32 or float64
        Where to evaluate, none positive; -inf is legal.

    Returns
    -------
    out : ndarray of shape (n,)
        exp(x), 0 where that is under 1e-30 (float32) or 1e-282 (float64).
    """
    cdef floating[::1] out = _like(x)
    cdef Py_ssize_t i
    for i in range(x.shape[0]):
        out[i] = sf.exp_nonpos(x[i])
    return np.asarray(out)
