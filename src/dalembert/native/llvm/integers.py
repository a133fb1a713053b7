"""Operations on integers of 64 bits as instructions of LLVM, with the results that XLA gives.

Sums and products wrap around. A quotient by zero is -1, a remainder by zero is the dividend; the processor would stop there.
"""

from __future__ import annotations

from dalembert.native.graph.operations import NARROW
from dalembert.native.llvm.builder import Code

_BINARY = {"add": "add", "sub": "sub", "mul": "mul"}
_ORDER = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "eq": "eq", "ne": "ne"}


def compare(code: Code, op: str, x: list[str]) -> str:
    """A truth value."""
    return code.let(f"icmp {_ORDER[op]} {code.whole} {x[0]}, {x[1]}")


def from_number(code: Code, x: str) -> str:
    """Without the fraction, the nearest integer there is for what is too large, 0 for NaN."""
    suffix = "i64.f64" if code.width == 1 else f"v{code.width}i64.v{code.width}f64"
    return code.call(code.whole, f"llvm.fptosi.sat.{suffix}", (code.real, x))


def operation(code: Code, op: str, x: list[str]) -> str:
    """An integer from integers."""
    if op in _BINARY:
        return code.let(f"{_BINARY[op]} {code.whole} {x[0]}, {x[1]}")
    if op in ("div", "fmod"):
        return _divided(code, op, *x)
    if op in ("max", "min"):
        return code.whole_intrinsic("s" + op, *x)
    if op == "neg":
        return code.let(f"sub {code.whole} {_number(code, 0)}, {x[0]}")
    if op == "abs":
        return code.whole_intrinsic("smax", x[0], operation(code, "neg", x))
    if op == "sign":
        return code.whole_intrinsic("smax", code.whole_intrinsic("smin", x[0], _number(code, 1)), _number(code, -1))
    bits, signed = NARROW[op]
    if not signed:
        return code.let(f"and {code.whole} {x[0]}, {_number(code, 2**bits - 1)}")
    high = code.let(f"shl {code.whole} {x[0]}, {_number(code, 64 - bits)}")
    return code.let(f"ashr {code.whole} {high}, {_number(code, 64 - bits)}")


def _number(code: Code, value: int) -> str:
    return code.constant(value, "i64")


def _divided(code: Code, op: str, a: str, b: str) -> str:
    """The quotient or the remainder; by 0 and -1 without the instruction, which fails for them."""
    zero, none = _number(code, 0), _number(code, -1)
    by_zero, by_minus = (code.let(f"icmp eq {code.whole} {b}, {x}") for x in (zero, none))
    unsafe = code.let(f"or {code.truth} {by_zero}, {by_minus}")
    safe = _select(code, unsafe, _number(code, 1), b)
    if op == "fmod":
        return _select(code, by_zero, a, code.let(f"srem {code.whole} {a}, {safe}"))
    quotient = _select(code, by_minus, operation(code, "neg", [a]), code.let(f"sdiv {code.whole} {a}, {safe}"))
    return _select(code, by_zero, none, quotient)


def _select(code: Code, condition: str, yes: str, no: str) -> str:
    return code.let(f"select {code.truth} {condition}, {code.whole} {yes}, {code.whole} {no}")
