"""Counter-keyed random streams for numpy: the draws depend on names, never on threads.

`KeyedBitGenerator` is a bit generator for `numpy.random.Generator`, and `keyed_generator` returns
the generator. The streams themselves, for other kernels, are in `_rng.pxd`.

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
from libc.stdint cimport uint32_t, uint64_t

from operator import index
from threading import Lock

from numpy.random import Generator

from sklearn_sparsepost._kernels._uniform cimport Uniform, uniform_init, uniform_next

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


def uniform_numbers(uint64_t seed, uint64_t sweep, uint64_t unit, int n):
    """The first n numbers of the uniform stream of that name (`_uniform.pxd`), as a list."""
    cdef Uniform stream
    uniform_init(&stream, seed, sweep, unit)
    return [uniform_next(&stream) for _ in range(n)]
