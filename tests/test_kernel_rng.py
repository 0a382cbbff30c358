"""Tests of the counter-keyed random streams."""

import copy
import ctypes
import pickle
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import stats

from sklearn_sparsepost._kernels._rng import KeyedBitGenerator, keyed_generator, uniform_numbers

TOP = 2**64 - 1

NAMES = [
    (0, 0, 0),
    (1, 2, 3),
    (TOP, 0, 0),
    (0, TOP, 0),
    (0, 0, TOP),
    (TOP, TOP, TOP),
    (2**63, 2**32, 2**32 - 1),
    (0x0123456789ABCDEF, 17, 2**40 + 5),
]


class _BitgenStruct(ctypes.Structure):
    """The fields of numpy's ``bitgen_t``."""

    _fields_ = [
        ("state", ctypes.c_void_p),
        ("uint64", ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)),
        ("uint32", ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p)),
        ("double", ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p)),
        ("raw", ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)),
    ]


def _draw(bit_generator, kinds):
    """Call the C functions behind a capsule, one per name in kinds."""
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype = ctypes.c_void_p
    get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    address = get_pointer(bit_generator.capsule, b"BitGenerator")
    bitgen = _BitgenStruct.from_address(address)
    return [getattr(bitgen, kind)(bitgen.state) for kind in kinds]


def _philox(seed, sweep, unit, block=(0, 0)):
    """Return numpy's bit generator for the documented layout."""
    return np.random.Philox(
        key=np.array([seed, sweep], dtype=np.uint64),
        counter=np.array([*block, unit, 0], dtype=np.uint64),
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["uint64", "uint32", "double", "raw"])
def test_c_functions_equal_numpy_philox(name, kind):
    kinds = [kind] * 3001
    assert _draw(KeyedBitGenerator(*name), kinds) == _draw(_philox(*name), kinds)


@pytest.mark.parametrize("name", NAMES)
def test_stream_is_the_jumped_philox_of_its_key(name):
    seed, sweep, unit = name
    # Philox.jumped(n) adds n to the word of the counter that names the unit
    philox = np.random.Philox(key=np.array([seed, sweep], dtype=np.uint64)).jumped(unit)
    expected = philox.random_raw(100).tolist()
    assert _draw(KeyedBitGenerator(*name), ["raw"] * 100) == expected


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    name=st.tuples(*[st.integers(0, TOP)] * 3),
    kinds=st.lists(st.sampled_from(["uint64", "uint32", "double", "raw"]), max_size=50),
)
def test_any_mix_of_draws_equals_numpy_philox(name, kinds):
    assert _draw(KeyedBitGenerator(*name), kinds) == _draw(_philox(*name), kinds)


@pytest.mark.parametrize("name", NAMES)
def test_generator_draws_equal_those_around_philox(name):
    ours = keyed_generator(*name)
    numpys = np.random.Generator(_philox(*name))
    assert isinstance(ours, np.random.Generator)
    for draw in (
        lambda rng: rng.standard_normal(2000),
        lambda rng: rng.standard_gamma(0.3, 1000),
        lambda rng: rng.standard_gamma(4.5, 1000),
        lambda rng: rng.integers(0, 10**6, 1001),
        lambda rng: rng.integers(0, 2**32, 1001, dtype=np.uint32),
        lambda rng: rng.integers(0, TOP, 1001, dtype=np.uint64, endpoint=True),
        lambda rng: rng.integers(0, 100, 333, dtype=np.int8),
        lambda rng: rng.random(1001),
        lambda rng: rng.random(1001, dtype=np.float32),
        lambda rng: rng.poisson([0.5, 5.0, 500.0], (300, 3)),
        lambda rng: rng.permutation(257),
        lambda rng: rng.dirichlet([0.1, 1.0, 10.0], 50),
    ):
        assert_array_equal(draw(ours), draw(numpys), strict=True)


def test_random_state_accepts_the_bit_generator():
    ours = np.random.RandomState(KeyedBitGenerator(4, 5, 6))
    numpys = np.random.RandomState(_philox(4, 5, 6))
    assert_array_equal(ours.standard_normal(100), numpys.standard_normal(100))


def test_sweep_and_unit_default_to_zero():
    expected = _draw(KeyedBitGenerator(9, 0, 0), ["raw"] * 10)
    assert _draw(KeyedBitGenerator(9), ["raw"] * 10) == expected
    assert keyed_generator(9).bit_generator.unit == 0
    again = keyed_generator(9).integers(0, TOP, 10, dtype=np.uint64, endpoint=True)
    assert again.tolist() == expected


def test_attributes_and_repr_tell_the_name():
    bit_generator = KeyedBitGenerator(TOP, sweep=2, unit=np.uint64(TOP - 1))
    assert (bit_generator.seed, bit_generator.sweep, bit_generator.unit) == (TOP, 2, TOP - 1)
    assert repr(bit_generator) == f"KeyedBitGenerator(seed={TOP}, sweep=2, unit={TOP - 1})"
    with bit_generator.lock:
        assert bit_generator.lock.locked()
    for attribute in ("seed", "sweep", "unit", "capsule", "lock"):
        with pytest.raises(AttributeError):
            setattr(bit_generator, attribute, 0)


def test_block_number_carries_into_its_second_word():
    bit_generator = KeyedBitGenerator(1, 2, 3)
    bit_generator.__setstate__((TOP - 1, 5, 4, False, 0))
    expected = _philox(1, 2, 3, block=(TOP - 1, 5)).random_raw(12).tolist()
    assert _draw(bit_generator, ["raw"] * 12) == expected


def test_block_number_never_carries_into_the_unit():
    bit_generator = KeyedBitGenerator(1, 2, 3)
    bit_generator.__setstate__((TOP, TOP, 4, False, 0))
    # numpy carries from unit 2 to block 0 of unit 3, ours wraps within unit 3
    expected = _philox(1, 2, 2, block=(TOP, TOP)).random_raw(12).tolist()
    assert _draw(bit_generator, ["raw"] * 12) == expected
    assert bit_generator.unit == 3


NEIGHBOURS = [
    (12, 3, 4),
    (13, 3, 4),
    (12, 4, 4),
    (12, 3, 5),
    (3, 12, 4),
    (12, 4, 3),
    (4, 3, 12),
    (12 + 2**63, 3, 4),
    (12, 3 + 2**63, 4),
    (12, 3, 4 + 2**63),
]


@pytest.mark.parametrize("first, second", list(combinations(NEIGHBOURS, 2)))
def test_neighbouring_streams_are_different_and_uncorrelated(first, second):
    n_draws = 4096
    words = [
        keyed_generator(*name).integers(0, TOP, n_draws, dtype=np.uint64, endpoint=True)
        for name in (first, second)
    ]
    assert np.intersect1d(*words).size == 0
    # Independent words differ in half of their bits: 32 of 64, standard deviation 4
    n_different = np.bitwise_count(words[0] ^ words[1]).mean()
    assert abs(n_different - 32.0) < 5 * 4.0 / np.sqrt(n_draws)
    uniforms = [keyed_generator(*name).random(n_draws) for name in (first, second)]
    assert abs(np.corrcoef(*uniforms)[0, 1]) < 5 / np.sqrt(n_draws)


@pytest.mark.parametrize("varying", ["seed", "sweep", "unit"])
def test_first_draws_across_streams_are_independent_uniforms(varying):
    n_streams = 4096
    name = {"seed": 7, "sweep": 7, "unit": 7}
    first = np.array(
        [keyed_generator(**(name | {varying: value})).random() for value in range(n_streams)]
    )
    assert stats.kstest(first, "uniform").pvalue > 1e-3
    for lag in (1, 2, 64):
        correlation = np.corrcoef(first[lag:], first[:-lag])[0, 1]
        assert abs(correlation) < 5 / np.sqrt(n_streams - lag)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("kinds", [[], ["uint32"], ["uint32", "raw"]])
@pytest.mark.parametrize("n_before", range(6))
def test_pickling_keeps_the_exact_position(protocol, kinds, n_before):
    bit_generator = KeyedBitGenerator(TOP, 5, 2**63)
    _draw(bit_generator, ["raw"] * n_before + kinds)
    stored = pickle.dumps(bit_generator, protocol=protocol)
    later = ["uint32"] * 5 + ["double", "raw"] * 4
    expected = _draw(bit_generator, later)
    assert _draw(pickle.loads(stored), later) == expected


@pytest.mark.parametrize("copier", [copy.copy, copy.deepcopy])
def test_copies_keep_the_position_and_are_independent(copier):
    bit_generator = KeyedBitGenerator(1, 2, 3)
    _draw(bit_generator, ["uint32"] * 7)
    duplicate = copier(bit_generator)
    assert duplicate.lock is not bit_generator.lock
    expected = _draw(bit_generator, ["uint32"] * 30)
    assert _draw(duplicate, ["uint32"] * 30) == expected


@pytest.mark.parametrize("buffer_pos", [-1, 5])
def test_position_outside_of_the_block_is_refused(buffer_pos):
    bit_generator = KeyedBitGenerator(1, 2, 3)
    with pytest.raises(ValueError, match=rf"must be in \[0, 4\], got {buffer_pos}\."):
        bit_generator.__setstate__((1, 0, buffer_pos, False, 0))
    assert _draw(bit_generator, ["raw"] * 9) == _draw(_philox(1, 2, 3), ["raw"] * 9)


@pytest.mark.parametrize("entry_point", [KeyedBitGenerator, keyed_generator])
@pytest.mark.parametrize("position, argument", list(enumerate(["seed", "sweep", "unit"])))
@pytest.mark.parametrize(
    "value, error",
    [
        (-1, ValueError),
        (2**64, ValueError),
        (10**30, ValueError),
        (np.int64(-5), ValueError),
        (1.0, TypeError),
        (np.float64(1.0), TypeError),
        (np.nan, TypeError),
        ("1", TypeError),
        (None, TypeError),
        ([1], TypeError),
    ],
)
def test_bad_name_is_refused(entry_point, position, argument, value, error):
    name = [1, 2, 3]
    name[position] = value
    with pytest.raises(error, match=rf"{argument} must be an integer in \[0, 2\*\*64 - 1\], got"):
        entry_point(*name)


# ---------------------------------------------------------------------- uniform numbers


def _xoshiro(words, n):
    """xoshiro256+ of Blackman & Vigna (2021) in whole numbers of any size."""
    a, b, c, d = words
    for _ in range(n):
        yield (((a + d) & TOP) >> 11) / 2**53
        c, d, shifted = c ^ a, d ^ b, (b << 17) & TOP
        a, b = a ^ d, b ^ c
        c, d = c ^ shifted, ((d << 45) | (d >> 19)) & TOP


@pytest.mark.parametrize("name", NAMES)
def test_uniform_numbers_are_xoshiro_from_a_block_of_philox(name):
    words = _philox(*name).random_raw(4).tolist()
    assert uniform_numbers(*name, 500) == list(_xoshiro(words, 500))


def test_uniform_numbers_of_streams_are_uniform_and_independent():
    """First numbers of neighbouring streams, and each with the next, fill squares evenly."""
    first = np.array([uniform_numbers(3, 7, unit, 3) for unit in range(40_000)])
    assert ((first >= 0) & (first < 1)).all()
    pairs = [(first[:, 0], first[:, 1]), (first[:, 1], first[:, 2])]
    pairs += [(first[:-1, i], first[1:, i]) for i in range(3)]
    for one, other in pairs:
        cells = np.bincount((one * 20).astype(int) * 20 + (other * 20).astype(int), minlength=400)
        assert stats.chisquare(cells).pvalue > 1e-3
