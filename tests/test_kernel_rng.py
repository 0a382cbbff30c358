"""Tests of the counter-keyed random streams."""

import copy
import ctypes
import pickle
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from sklearn_sparsepost._kernels._rng import (
    KeyedBitGenerator,
    keyed_generator,
    standard_gamma_by_unit,
)

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


@pytest.mark.parametrize("n_before", range(6))
def test_rekey_goes_to_the_start_of_the_new_stream(n_before):
    bit_generator = KeyedBitGenerator(1, 2, 3)
    _draw(bit_generator, ["raw"] * n_before)
    bit_generator.rekey(4, 5, 6)
    assert (bit_generator.seed, bit_generator.sweep, bit_generator.unit) == (4, 5, 6)
    assert _draw(bit_generator, ["raw"] * 20) == _draw(_philox(4, 5, 6), ["raw"] * 20)


@pytest.mark.parametrize("name", [(1, 2, 3), (4, 5, 6)])
def test_rekey_drops_the_buffered_half_word(name):
    bit_generator = KeyedBitGenerator(1, 2, 3)
    # An odd number of 32-bit draws leaves a half word behind
    _draw(bit_generator, ["uint32"] * 3)
    bit_generator.rekey(*name)
    assert _draw(bit_generator, ["uint32"] * 9) == _draw(_philox(*name), ["uint32"] * 9)


def test_rekey_moves_the_generator_around_the_bit_generator():
    rng = keyed_generator(1, 2, 3)
    expected = rng.standard_normal(11)
    rng.bit_generator.rekey(1, 2, 3)
    assert_array_equal(rng.standard_normal(11), expected)


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


def _shapes(n_units):
    rng = np.random.default_rng(0)
    shape = rng.choice([0.0, 0.01, 0.3, 1.0, 1.7, 25.0, 1e6], n_units)
    shape.flags.writeable = False
    return shape


@pytest.mark.parametrize("n_units", [0, 1, 2, 4001])
def test_gamma_draws_do_not_depend_on_the_number_of_threads(n_units):
    shape = _shapes(n_units)
    results = set()
    for n_threads in (1, 2, 3):
        out = np.full(n_units, np.nan)
        assert standard_gamma_by_unit(11, 12, shape, out, n_threads) is None
        results.add(out.tobytes())
    assert len(results) == 1


def test_gamma_draws_are_the_first_of_each_stream():
    shape = _shapes(500)
    out = np.empty(500)
    standard_gamma_by_unit(TOP, 3, shape, out, 2)
    expected = [
        np.random.Generator(_philox(TOP, 3, unit)).standard_gamma(shape[unit])
        for unit in range(500)
    ]
    assert_array_equal(out, expected)
    # A unit's draw does not depend on how many units there are
    fewer = np.empty(123)
    standard_gamma_by_unit(TOP, 3, shape[:123], fewer)
    assert_array_equal(fewer, out[:123])


@pytest.mark.parametrize("shape", [0.1, 0.5, 1.0, 2.5, 30.0])
def test_gamma_draws_have_the_gamma_distribution(shape):
    n_units = 20_000
    out = np.empty(n_units)
    standard_gamma_by_unit(2024, 1, np.full(n_units, shape), out, 2)
    # Mean k, variance k, variance of the squared deviation 2 k**2 + 6 k
    assert_allclose(out.mean(), shape, rtol=0, atol=4 * np.sqrt(shape / n_units))
    spread = np.sqrt((2 * shape**2 + 6 * shape) / n_units)
    assert_allclose(out.var(), shape, rtol=0, atol=4 * spread)
    assert stats.kstest(out, stats.gamma(shape).cdf).pvalue > 1e-3


ENTRY_POINTS = [
    KeyedBitGenerator,
    keyed_generator,
    KeyedBitGenerator(1, 2, 3).rekey,
]


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
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


@pytest.mark.parametrize("value, error", [(-1, ValueError), (2**64, ValueError), (0.5, TypeError)])
def test_gamma_entry_point_refuses_a_bad_name(value, error):
    with pytest.raises(error, match="seed must be an integer"):
        standard_gamma_by_unit(value, 0, np.ones(2), np.empty(2))
    with pytest.raises(error, match="sweep must be an integer"):
        standard_gamma_by_unit(0, value, np.ones(2), np.empty(2))


def test_failed_rekey_leaves_the_stream_alone():
    bit_generator = KeyedBitGenerator(1, 2, 3)
    with pytest.raises(ValueError, match="unit must be"):
        bit_generator.rekey(4, 5, -6)
    assert _draw(bit_generator, ["raw"] * 9) == _draw(_philox(1, 2, 3), ["raw"] * 9)


@pytest.mark.parametrize("value", [-0.5, np.nan, np.inf])
def test_gamma_entry_point_refuses_a_shape_numpy_cannot_draw(value):
    with pytest.raises(ValueError, match="shape must be finite and not negative, got .* at 1"):
        standard_gamma_by_unit(0, 0, np.array([1.0, value]), np.empty(2))


def test_gamma_entry_point_refuses_bad_sizes():
    with pytest.raises(ValueError, match="out must have length 3 as shape has, got 2"):
        standard_gamma_by_unit(0, 0, np.ones(3), np.empty(2))
    for n_threads in (0, -1, 2**40):
        with pytest.raises(ValueError, match=r"n_threads must be in \[1, 2\*\*31 - 1\]"):
            standard_gamma_by_unit(0, 0, np.ones(3), np.empty(3), n_threads)
    with pytest.raises(TypeError, match="integer"):
        standard_gamma_by_unit(0, 0, np.ones(3), np.empty(3), 1.5)
