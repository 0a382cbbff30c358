"""Counter-keyed random streams: the draws depend on names, never on threads.

A stream is named by (seed, sweep, unit), three integers in [0, 2**64 - 1], and
is Philox-4x64-10 [1]_ with key (seed, sweep) and counter (0, 0, unit, 0): the
stream of ``numpy.random.Philox(key=[seed, sweep], counter=[0, 0, unit, 0])``.
Different units of one (seed, sweep) share no part of their streams.

References
----------
.. [1] Salmon, J. K., Moraes, M. A., Dror, R. O. and Shaw, D. E. (2011).
   Parallel random numbers: as easy as 1, 2, 3. SC '11.
"""
from cpython.pycapsule cimport PyCapsule_New
from cython.parallel cimport prange
from libc.math cimport isfinite
from libc.stdint cimport uint32_t, uint64_t

from operator import index
from threading import Lock

from numpy.random import Generator


cdef uint64_t _as_uint64(value, str name) except? -1:
    """Convert to an unsigned 64-bit integer, or say what is wrong."""
    try:
        number = index(value)
    except TypeError:
        raise TypeError(
            f"{name} must be an integer in [0, 2**64 - 1], got {value!r}."
        ) from None
    if not 0 <= number < 2 ** 64:
        raise ValueError(f"{name} must be an integer in [0, 2**64 - 1], got {value!r}.")
    return number


cdef class KeyedBitGenerator:
    """Bit generator of the stream named by (seed, sweep, unit).

    Serves ``numpy.random.Generator``, and gives the bits of
    ``numpy.random.Philox(key=[seed, sweep], counter=[0, 0, unit, 0])``.
    Pickling and copying keep the exact position in the stream.

    Parameters
    ----------
    seed : int
        First word of the key, in [0, 2**64 - 1].

    sweep : int, default=0
        Second word of the key, in [0, 2**64 - 1].

    unit : int, default=0
        Third word of the counter, in [0, 2**64 - 1].

    Attributes
    ----------
    capsule : PyCapsule
        Named "BitGenerator", holds the address of the C ``bitgen_t``.

    lock : threading.Lock
        Held by ``numpy.random.Generator`` while it draws.

    See Also
    --------
    keyed_generator : The ``numpy.random.Generator`` of a stream.

    Notes
    -----
    A ``numpy.random.Generator`` around this class cannot be pickled, because
    numpy only restores its own bit generators; pickle the bit generator.
    """

    cdef KeyedStream _stream
    cdef readonly object capsule
    cdef readonly object lock

    def __cinit__(self, seed, sweep=0, unit=0):
        keyed_init(
            &self._stream,
            _as_uint64(seed, "seed"),
            _as_uint64(sweep, "sweep"),
            _as_uint64(unit, "unit"),
        )
        self.lock = Lock()
        self.capsule = PyCapsule_New(&self._stream.bitgen, "BitGenerator", NULL)

    @property
    def seed(self):
        """First word of the key."""
        return self._stream.key[0]

    @property
    def sweep(self):
        """Second word of the key."""
        return self._stream.key[1]

    @property
    def unit(self):
        """Third word of the counter."""
        return self._stream.counter[2]

    def rekey(self, seed, sweep=0, unit=0):
        """Go to the start of another stream, dropping all buffered bits.

        Parameters
        ----------
        seed : int
            First word of the key, in [0, 2**64 - 1].

        sweep : int, default=0
            Second word of the key, in [0, 2**64 - 1].

        unit : int, default=0
            Third word of the counter, in [0, 2**64 - 1].
        """
        # All three are checked first: a bad one leaves the stream as it was
        cdef uint64_t seed_word = _as_uint64(seed, "seed")
        cdef uint64_t sweep_word = _as_uint64(sweep, "sweep")
        cdef uint64_t unit_word = _as_uint64(unit, "unit")
        with self.lock:
            keyed_init(&self._stream, seed_word, sweep_word, unit_word)

    def __repr__(self):
        return f"KeyedBitGenerator(seed={self.seed}, sweep={self.sweep}, unit={self.unit})"

    def __reduce__(self):
        with self.lock:
            position = (
                self._stream.counter[0],
                self._stream.counter[1],
                self._stream.buffer_pos,
                self._stream.has_uint32,
                self._stream.uinteger,
            )
            name = (self.seed, self.sweep, self.unit)
        return type(self), name, position

    def __setstate__(self, position):
        cdef uint64_t low, high
        cdef uint32_t uinteger
        cdef int buffer_pos
        cdef bint has_uint32
        low, high, buffer_pos, has_uint32, uinteger = position
        # Read as an index into the block: anything else would leave the buffer
        if not 0 <= buffer_pos <= 4:
            raise ValueError(f"The position in the block must be in [0, 4], got {buffer_pos}.")
        with self.lock:
            self._stream.counter[0] = low
            self._stream.counter[1] = high
            self._stream.buffer_pos = buffer_pos
            self._stream.has_uint32 = has_uint32
            self._stream.uinteger = uinteger
            # The block is a function of the counter, so it is not pickled
            keyed_fill_block(&self._stream)


def keyed_generator(seed, sweep=0, unit=0):
    """Return the numpy generator of the stream named by (seed, sweep, unit).

    Parameters
    ----------
    seed : int
        First word of the key, in [0, 2**64 - 1].

    sweep : int, default=0
        Second word of the key, in [0, 2**64 - 1].

    unit : int, default=0
        Third word of the counter, in [0, 2**64 - 1].

    Returns
    -------
    generator : numpy.random.Generator
        A generator at the start of the stream.

    Examples
    --------
    >>> from sklearn_sparsepost._kernels._rng import keyed_generator
    >>> first = keyed_generator(42, sweep=1, unit=7).standard_normal(3)
    >>> again = keyed_generator(42, sweep=1, unit=7).standard_normal(3)
    >>> bool((first == again).all())
    True
    """
    return Generator(KeyedBitGenerator(seed, sweep, unit))


cdef double _unit_gamma(
    uint64_t seed, uint64_t sweep, uint64_t unit, double shape
) noexcept nogil:
    """Draw one standard gamma at the start of a unit's stream."""
    cdef KeyedStream stream
    keyed_init(&stream, seed, sweep, unit)
    return random_standard_gamma(&stream.bitgen, shape)


def standard_gamma_by_unit(
    seed, sweep, const double[::1] shape, double[::1] out, n_threads=1
):
    """Draw one standard gamma variate per unit, in parallel.

    Element i is the first draw of the stream (seed, sweep, i), whatever the
    number of threads: ``keyed_generator(seed, sweep, i).standard_gamma(shape[i])``.

    Parameters
    ----------
    seed : int
        First word of the key, in [0, 2**64 - 1].

    sweep : int
        Second word of the key, in [0, 2**64 - 1].

    shape : ndarray of shape (n_units,), dtype float64
        Shape parameters, finite and not negative.

    out : ndarray of shape (n_units,), dtype float64
        Receives the draws.

    n_threads : int, default=1
        Number of threads; ignored in a build without OpenMP.
    """
    cdef uint64_t seed_word = _as_uint64(seed, "seed")
    cdef uint64_t sweep_word = _as_uint64(sweep, "sweep")
    cdef Py_ssize_t n_units = shape.shape[0]
    cdef Py_ssize_t i

    if out.shape[0] != n_units:
        raise ValueError(f"out must have length {n_units} as shape has, got {out.shape[0]}.")
    # Untyped until here, because a C int argument would truncate 1.5 without a word
    if not 1 <= index(n_threads) < 2 ** 31:
        raise ValueError(f"n_threads must be in [1, 2**31 - 1], got {n_threads}.")
    cdef int n_threads_ = n_threads
    for i in range(n_units):
        # numpy's rejection loop never ends on a NaN or an infinite shape
        if not (isfinite(shape[i]) and shape[i] >= 0.0):
            raise ValueError(f"shape must be finite and not negative, got {shape[i]} at {i}.")

    for i in prange(n_units, nogil=True, schedule="static", num_threads=n_threads_):
        out[i] = _unit_gamma(seed_word, sweep_word, <uint64_t> i, shape[i])
