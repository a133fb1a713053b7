"""Elementary functions of numbers and whole vectors: sines and cosines written out, the others by the C library's vector
functions where they exist, lane by lane otherwise.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from dalembert.native.llvm.builder import PURE, SHORT, Code, Operand, intrinsic, vector, where
from dalembert.native.llvm.cache import binding, host

LARGEST = 2.0**20  # an angle beyond it is left to the C library
_HALF_PI = 1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33
_ROUND = 1.5 * 2.0**52  # added to a number it leaves the nearest integer in the last digits
_SINE = (-1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04,
         2.75573137070700676789e-06, -2.50507602534068634195e-08, 1.58969099521155010221e-10)  # fmt: skip
_COSINE = (4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05,
           -2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11)  # fmt: skip


def written_out() -> bool:
    """True if this processor multiplies and adds in one operation, without which the parts of π/2 are not exact."""
    triple, _, features = host()
    return triple.startswith("aarch64") or "+fma" in features.split(",")


def sines_and_cosines(code: Code, angles: Sequence[Operand]) -> list[tuple[Operand, Operand]]:
    """(sine, cosine) of every angle."""
    if code.width > 1:
        return [_both(x) for x in angles]
    return [pair for at in range(0, len(angles), SHORT) for pair in _together(code, angles[at : at + SHORT])]


def _together(code: Code, angles: Sequence[Operand]) -> list[tuple[Operand, Operand]]:
    """Of a few numbers, in one vector; those that fill it up are the last angle again."""
    width = next(w for w in (1, 2, SHORT) if w >= len(angles))
    if width == 1:
        return [_both(angles[0])]
    sine, cosine = _both(code.put_together([angles[min(i, len(angles) - 1)] for i in range(width)]))
    return [(code.part(sine, i), code.part(cosine, i)) for i in range(len(angles))]


def _polynomial(c: Sequence[float], z: Operand, square: Operand) -> Operand:
    """c₀ + c₁z + … + c₅z⁵, in pairs."""
    low, middle, high = (intrinsic("fma", c[i + 1], z, c[i]) for i in (0, 2, 4))
    return intrinsic("fma", intrinsic("fma", high, square, middle), square, low)


def _reduce_angle(x: Operand) -> tuple[Operand, Operand, Operand]:
    """high, low, and a number whose last two binary digits are those of n."""
    turns = intrinsic("fma", x, 1.0 / _HALF_PI[0], _ROUND)
    n = turns - _ROUND
    first = intrinsic("fma", -n, _HALF_PI[0], x)  # exact
    second = n * _HALF_PI[1]
    high = first - second
    left = (first - high) - second
    rounded = intrinsic("fma", n, _HALF_PI[1], -second)
    return high, left - intrinsic("fma", n, _HALF_PI[2], rounded), turns.cast("bitcast", "i64")


def _kernels(high: Operand, low: Operand) -> tuple[Operand, Operand]:
    """Sine and cosine between -π/4 and π/4."""
    z = high * high
    square, half = z * z, z * 0.5
    near = 1.0 - half
    sine = high + intrinsic("fma", z * high, _polynomial(_SINE, z, square), low * near)
    sine = intrinsic("copysign", sine, high)  # of -0.0
    cosine = intrinsic("fma", square, _polynomial(_COSINE, z, square), -(high * low))
    return sine, near + (((1.0 - near) - half) + cosine)


def _with_sign(x: Operand, quarter: Operand) -> Operand:
    """-x where a quarter's second digit is 1."""
    sign = (quarter << 62) & -(2**63)
    return (x.cast("bitcast", "i64") ^ sign).cast("bitcast", "double")


def _both(x: Operand) -> tuple[Operand, Operand]:
    """Sine and cosine, by operations of which none may be fused with another; of the C library where an angle is large or
    no number."""
    with x.code.using(""):
        high, low, quarter = _reduce_angle(x)
        sine, cosine = _kernels(high, low)
        odd = quarter.cast("trunc", "i1")
        pair = where(odd, cosine, sine), where(odd, sine, cosine)
        return _or_library(x, (_with_sign(pair[0], quarter), _with_sign(pair[1], quarter + 1)))


def _or_library(x: Operand, near: tuple[Operand, Operand]) -> tuple[Operand, Operand]:
    """`near`, but of the C library where an angle is large: each for itself, whatever the others are."""
    code, large = x.code, ~(abs(x) <= LARGEST)
    with code.only_if(code.some(large), likely=False) as before:
        far = [where(large, intrinsic(name, x), y) for name, y in zip(("sin", "cos"), near, strict=True)]
        block = code.block
    sine, cosine = (code.join(x.kind, (a, before), (b, block)) for a, b in zip(near, far, strict=True))
    return sine, cosine


# feature of the processor → letter of the vector ABI, lanes of one call
_KINDS = (("avx512f", "e", 8), ("avx2", "d", 4))


@functools.cache
def symbol(op: str, operands: int) -> tuple[str, int] | None:
    """(name, lanes) of the vector function for this processor, or None."""
    triple, _, features = host()
    if not triple.startswith("x86_64"):
        return None
    for feature, letter, lanes in _KINDS:
        name = f"_ZGV{letter}N{lanes}{'v' * operands}_{op}"
        if f"+{feature}" in features.split(",") and binding().address_of_symbol(name):
            return name, lanes
    return None


def vector_function(code: Code, op: str, x: list[Operand]) -> Operand:
    """The value of op in every lane."""
    name, lanes = symbol(op, len(x)) or (op, 1)
    if lanes == code.width:
        return code.call(code.real, name, *x, attributes=PURE)
    kind = vector(lanes, "double")
    parts = [code.call(kind, name, *(code.part(v, at, lanes) for v in x), attributes=PURE)
             for at in range(0, code.width, lanes)]  # fmt: skip
    return code.put_together(parts)
