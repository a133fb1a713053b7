"""Elementary functions of numbers and whole vectors: sines and cosines written out, the others by the C library's vector
functions where they exist, lane by lane otherwise.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from dalembert.native.llvm.builder import PURE, SHORT, Code, real
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


def sines_and_cosines(code: Code, angles: Sequence[str]) -> list[tuple[str, str]]:
    """(sine, cosine) of every angle."""
    if code.width > 1:
        return [_Vector(code, code.width).both(x) for x in angles]
    return [pair for at in range(0, len(angles), SHORT) for pair in _together(code, angles[at : at + SHORT])]


def _together(code: Code, angles: Sequence[str]) -> list[tuple[str, str]]:
    """Of a few numbers, in one vector; those that fill it up are the last angle again."""
    width = next(w for w in (1, 2, SHORT) if w >= len(angles))
    vector = _Vector(code, width)
    if width == 1:
        return [vector.both(angles[0])]
    whole = "poison"
    for i in range(width):
        whole = code.let(f"insertelement {vector.real} {whole}, double {angles[min(i, len(angles) - 1)]}, i64 {i}")
    both = vector.both(whole)
    take = lambda x, i: code.let(f"extractelement {vector.real} {x}, i64 {i}")  # noqa: E731
    return [(take(both[0], i), take(both[1], i)) for i in range(len(angles))]


class _Vector:
    """Operations on vectors of another width than the code's, none of which may be fused with another."""

    def __init__(self, code: Code, width: int):
        self.code, self.width = code, width
        self.real, self.whole, self.truth = (self._of(kind) for kind in ("double", "i64", "i1"))
        self.suffix = "f64" if width == 1 else f"v{width}f64"

    def _of(self, kind: str) -> str:
        return kind if self.width == 1 else f"<{self.width} x {kind}>"

    def number(self, value: float) -> str:
        return real(value) if self.width == 1 else f"splat (double {real(value)})"

    def integer(self, value: int) -> str:
        return str(value) if self.width == 1 else f"splat (i64 {value})"

    def add(self, a: str, b: str) -> str:
        return self.code.let(f"fadd {self.real} {a}, {b}")

    def subtract(self, a: str, b: str) -> str:
        return self.code.let(f"fsub {self.real} {a}, {b}")

    def multiply(self, a: str, b: str) -> str:
        return self.code.let(f"fmul {self.real} {a}, {b}")

    def negative(self, a: str) -> str:
        return self.code.let(f"fneg {self.real} {a}")

    def multiply_add(self, a: str, b: str, c: str) -> str:
        """a b + c, rounded once."""
        return self.code.call(self.real, f"llvm.fma.{self.suffix}", *((self.real, x) for x in (a, b, c)))

    def polynomial(self, c: Sequence[float], z: str, square: str) -> str:
        """c₀ + c₁z + … + c₅z⁵, in pairs."""
        low, middle, high = (self.multiply_add(self.number(c[i + 1]), z, self.number(c[i])) for i in (0, 2, 4))
        return self.multiply_add(self.multiply_add(high, square, middle), square, low)

    def reduce_angle(self, x: str) -> tuple[str, str, str]:
        """high, low, and a number whose last two binary digits are those of n."""
        turns = self.multiply_add(x, self.number(1.0 / _HALF_PI[0]), self.number(_ROUND))
        n = self.subtract(turns, self.number(_ROUND))
        back = self.negative(n)
        first = self.multiply_add(back, self.number(_HALF_PI[0]), x)  # exact
        second = self.multiply(n, self.number(_HALF_PI[1]))
        high = self.subtract(first, second)
        left = self.subtract(self.subtract(first, high), second)
        rounded = self.multiply_add(n, self.number(_HALF_PI[1]), self.negative(second))
        low = self.subtract(left, self.multiply_add(n, self.number(_HALF_PI[2]), rounded))
        return high, low, self.code.let(f"bitcast {self.real} {turns} to {self.whole}")

    def kernels(self, high: str, low: str) -> tuple[str, str]:
        """Sine and cosine between -π/4 and π/4."""
        z = self.multiply(high, high)
        square, half = self.multiply(z, z), self.multiply(z, self.number(0.5))
        near = self.subtract(self.number(1.0), half)
        sine = self.polynomial(_SINE, z, square)
        sine = self.add(high, self.multiply_add(self.multiply(z, high), sine, self.multiply(low, near)))
        sine = self.code.call(self.real, f"llvm.copysign.{self.suffix}", (self.real, sine), (self.real, high))  # of -0.0
        rest = self.subtract(self.subtract(self.number(1.0), near), half)
        cosine = self.multiply_add(square, self.polynomial(_COSINE, z, square), self.negative(self.multiply(high, low)))
        return sine, self.add(near, self.add(rest, cosine))

    def with_sign(self, x: str, quarter: str) -> str:
        """-x where a quarter's second digit is 1."""
        code = self.code
        sign = code.let(f"and {self.whole} {code.let(f'shl {self.whole} {quarter}, {self.integer(62)}')}, "
                        f"{self.integer(-(2**63))}")  # fmt: skip
        bits = code.let(f"xor {self.whole} {code.let(f'bitcast {self.real} {x} to {self.whole}')}, {sign}")
        return code.let(f"bitcast {self.whole} {bits} to {self.real}")

    def both(self, x: str) -> tuple[str, str]:
        """Sine and cosine; of the C library where an angle is large or no number."""
        code = self.code
        high, low, quarter = self.reduce_angle(x)
        sine, cosine = self.kernels(high, low)
        odd = code.let(f"trunc {self.whole} {quarter} to {self.truth}")
        pair = [code.let(f"select {self.truth} {odd}, {self.real} {a}, {self.real} {b}")
                for a, b in ((cosine, sine), (sine, cosine))]  # fmt: skip
        next_ = code.let(f"add {self.whole} {quarter}, {self.integer(1)}")
        near = self.with_sign(pair[0], quarter), self.with_sign(pair[1], next_)
        return self._or_library(x, near)

    def _or_library(self, x: str, near: tuple[str, str]) -> tuple[str, str]:
        """`near`, but of the C library where an angle is large: each for itself, whatever the others are."""
        code = self.code
        size = code.call(self.real, f"llvm.fabs.{self.suffix}", (self.real, x))
        large = some = code.let(f"fcmp ugt {self.real} {size}, {self.number(LARGEST)}")
        if self.width > 1:
            some = code.call("i1", f"llvm.vector.reduce.or.v{self.width}i1", (self.truth, large))
        before, far, done = code.block, code.name("far"), code.name("near")
        code.fork(some, far, done, False)
        code.label(far)
        there = [code.call(self.real, f"llvm.{name}.{self.suffix}", (self.real, x)) for name in ("sin", "cos")]
        there = [
            code.let(f"select {self.truth} {large}, {self.real} {a}, {self.real} {b}")
            for a, b in zip(there, near, strict=True)
        ]
        code.go(done)
        code.label(done)
        sine, cosine = (
            code.let(f"phi {self.real} [ {a}, %{before} ], [ {b}, %{far} ]") for a, b in zip(near, there, strict=True)
        )
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


def vector_function(code: Code, op: str, x: list[str]) -> str:
    """The value of op in every lane."""
    found = symbol(op, len(x))
    lanes = found[1] if found else 1
    if found and lanes == code.width:
        return code.call(code.real, found[0], *((code.real, v) for v in x), attributes=PURE)
    parts = [_piece(code, op, found and found[0], [_lanes_of(code, v, at, lanes) for v in x], lanes)
             for at in range(0, code.width, lanes)]  # fmt: skip
    result = "poison"
    for at, part in zip(range(0, code.width, lanes), parts, strict=True):
        result = _set_lanes(code, result, part, at, lanes)
    return result


def _piece(code: Code, op: str, name: str | None, x: list[str], lanes: int) -> str:
    kind = "double" if lanes == 1 else f"<{lanes} x double>"
    return code.call(kind, name or op, *((kind, v) for v in x), attributes=PURE)


def _lanes_of(code: Code, x: str, at: int, lanes: int) -> str:
    """Lanes at … at + lanes - 1."""
    if lanes == 1:
        return code.let(f"extractelement {code.real} {x}, i64 {at}")
    mask = ", ".join(f"i32 {i}" for i in range(at, at + lanes))
    return code.let(f"shufflevector {code.real} {x}, {code.real} poison, <{lanes} x i32> <{mask}>")


def _set_lanes(code: Code, whole: str, part: str, at: int, lanes: int) -> str:
    if lanes == 1:
        return code.let(f"insertelement {code.real} {whole}, double {part}, i64 {at}")
    small = f"<{lanes} x double>"
    wide = ", ".join(f"i32 {i if i < lanes else 'poison'}" for i in range(code.width))
    spread = code.let(f"shufflevector {small} {part}, {small} poison, <{code.width} x i32> <{wide}>")
    mask = ", ".join(f"i32 {code.width + i - at if at <= i < at + lanes else i}" for i in range(code.width))
    return code.let(f"shufflevector {code.real} {whole}, {code.real} {spread}, <{code.width} x i32> <{mask}>")
