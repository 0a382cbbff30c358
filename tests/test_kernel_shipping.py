"""Kernels of what travels against slow and obvious Python."""

import numpy as np
import pytest

from sklearn_sparsepost._kernels import _shipping as kernels

RNG = np.random.default_rng(0)


def a_square(size=5, n=7):
    half = RNG.normal(size=(n, size, size))
    return half + half.transpose(0, 2, 1)


def with_minus_zero(squares):
    squares[2, 1, 3], squares[2, 3, 1] = 0.0, -0.0
    return squares


@pytest.mark.parametrize("bits", ["u4", "u8"])
@pytest.mark.parametrize(
    "squares, want",
    [
        (a_square(), kernels.SYMMETRIC),
        (np.tril(a_square()), kernels.NO_UPPER),
        (np.triu(a_square()), kernels.NO_LOWER),
        (a_square() * np.eye(5), kernels.SYMMETRIC),
        (a_square(size=1), kernels.SYMMETRIC),
        (a_square(n=0), kernels.SYMMETRIC),
        (RNG.normal(size=(7, 5, 5)), 0),
        (np.concatenate([np.tril(a_square()), np.triu(a_square())]), 0),
        (with_minus_zero(a_square()), 0),
        (with_minus_zero(np.triu(a_square())), 0),
    ],
)
def test_halves_tell_all_or_are_none(squares, want, bits):
    squares = squares.astype(bits.replace("u", "f")).view(bits)
    halves, kind = kernels.half_of_squares(squares)
    assert kind == want
    if not kind:
        assert halves is None
        return
    rows, columns = np.tril_indices(squares.shape[1])
    lower = squares.transpose(0, 2, 1) if kind == kernels.NO_LOWER else squares
    np.testing.assert_array_equal(halves, lower[:, rows, columns])
    found = np.full_like(squares, 9)
    kernels.squares_of_half(halves, kind, found)
    np.testing.assert_array_equal(found, squares)


@pytest.mark.parametrize("bits", [np.uint32, np.uint64])
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (3, 5), (8, 7), (19, 13), (24, 16)])
@pytest.mark.parametrize("share", [0.0, 0.2, 1.0])
def test_others_are_told_apart_and_placed(shape, share, bits):
    base = RNG.integers(0, 9, shape[1]).astype(bits)
    others = RNG.random(shape) < share
    rows = np.where(others, 10 + RNG.integers(0, 9, shape), base).astype(bits)
    differs = np.full(-(-rows.size // 8), 255, np.uint8)
    values = np.empty(rows.size, bits)
    n_values = kernels.take_others(rows, np.tile(base, 8), differs, values)
    found = np.unpackbits(differs, count=rows.size, bitorder="little").reshape(shape)
    np.testing.assert_array_equal(found, others)
    np.testing.assert_array_equal(values[:n_values], rows[others])
    placed = np.full_like(rows, 99)
    kernels.place_others(base, differs, values[:n_values].copy(), placed)
    np.testing.assert_array_equal(placed, rows)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize(
    "numbers",
    [[], [0], [5], [254, 255, 510, 0, 0, 7], [2**31 - 1, 0, 2**31 - 1], [3, 2, 1, 300, 254 + 300]],
)
def test_steps_are_unpacked_again(numbers, dtype):
    numbers = np.array(numbers, dtype)
    steps, told = kernels.pack_steps(numbers, 255)
    gaps = np.diff(numbers.astype(float), prepend=0)
    long = (gaps < 0) | (gaps >= 255)
    np.testing.assert_array_equal(steps, np.where(long, 255, gaps))
    np.testing.assert_array_equal(told, numbers[long])
    found = kernels.unpack_steps(steps, told, 255)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, numbers)
