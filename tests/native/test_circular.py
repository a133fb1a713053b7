"""Sines and cosines of machine code against many digits: near and far, alone, together and in lanes."""

from __future__ import annotations

import ctypes

import mpmath
import numpy as np
import pytest

from dalembert.native import Cache
from dalembert.native.llvm.builder import Code, module
from dalembert.native.llvm.elementary import LARGEST, sines_and_cosines, written_out

CACHE = Cache(None)
pytestmark = pytest.mark.skipif(not written_out(), reason="this processor leaves them to the C library")


def evaluated(x: np.ndarray, number: int, width: int) -> np.ndarray:
    """(2, len(x)): sines and cosines, `number` angles of `width` lanes by each call."""
    c, size = Code(width), number * width
    x_, out_ = c.argument("x"), c.argument("out")
    for i, pair in enumerate(sines_and_cosines(c, [x_.at(i * width).at(0, c.real)[0] for i in range(number)])):
        for k, value in enumerate(pair):
            out_.at(k * size + i * width).at(0, c.real)[0] = value
    c.line("ret void")
    code = CACHE.load(module(c.function("define void @run(ptr %x, ptr %out)"), declared=c.declared), plain=True)
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(code.address("run"))
    given = np.append(x, np.zeros(-len(x) % size)).reshape(-1, size)
    out = np.empty((len(given), 2, size))
    for row, result in zip(given, out, strict=True):
        call(row.ctypes.data, result.ctypes.data)
    return np.swapaxes(out, 0, 1).reshape(2, -1)[:, : len(x)]


def angles() -> np.ndarray:
    """Small and large ones, and the doubles nearest to multiples of π/4, where little is left of a number."""
    random = np.random.default_rng(0)
    near = random.uniform(-10, 10, 400)
    far = random.choice([-1.0, 1.0], 400) * 10.0 ** random.uniform(-12, np.log10(LARGEST), 400)
    turns = np.array([float(k * mpmath.pi / 4) for k in [*range(-40, 41), *random.integers(0, 1_300_000, 200).tolist()]])
    special = np.array([0.0, LARGEST, -LARGEST, np.nextafter(LARGEST, np.inf), 1e9, -1e22, 1e300, 5e-324])
    return np.concatenate([near, far, turns, special])


def test_errors_are_below_one_unit_in_the_last_place():
    x = angles()
    with mpmath.workprec(2000):
        exact = [[f(mpmath.mpf(float(a))) for a in x] for f in (mpmath.sin, mpmath.cos)]
        found = evaluated(x, 3, 1)
        units = [[abs(mpmath.mpf(float(a)) - b) / np.spacing(abs(float(b))) for a, b in zip(*pair, strict=True)]
                 for pair in zip(found, exact, strict=True)]  # fmt: skip
    assert max(max(row) for row in units) < 0.9


@pytest.mark.parametrize("width", [1, 8])
def test_the_sine_of_a_zero_is_this_zero(width):
    x = np.array([-0.0, 0.0])
    np.testing.assert_array_equal(np.signbit(evaluated(x, 1, width)[0]), np.signbit(x))


@pytest.mark.parametrize(("number", "width"), [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (1, 8), (2, 16)])
def test_an_angle_has_the_same_digits_beside_any_other(number, width):
    x = np.append(angles(), [np.inf, np.nan, -np.inf])
    found = evaluated(x, number, width)
    np.testing.assert_array_equal(found, evaluated(x[::-1], 1, 1)[:, ::-1])
    assert np.all(np.isnan(found[:, -3:]))
    assert np.all(np.isfinite(found[:, :-3]))
