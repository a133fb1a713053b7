"""The scalar operations: what each does to constants, what kind of value it gives, and which need a library call."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

LIBRARY = frozenset(
    [
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "asinh",
        "acosh",
        "atanh",
        "exp",
        "exp2",
        "expm1",
        "log",
        "log1p",
        "cbrt",
        "erf",
        "erfc",
        "lgamma",
        "atan2",
        "pow",
        "fmod",
    ]
)
COMPARISONS = frozenset(["lt", "le", "gt", "ge", "eq", "ne"])
LOGICAL = frozenset(["and", "or", "xor", "not", "finite", "agree"])
NARROW = {
    name: (int(name.strip("uint")), name[0] == "i") for name in ("int8", "int16", "int32", "uint8", "uint16", "uint32")
}


def kind_of_result(op: str, last_operand: str) -> str:
    """The kind of op's result, given the kind of its last operand."""
    if op in COMPARISONS or op in LOGICAL:
        return "b"
    if op == "float":
        return "f"
    return "i" if op == "int" or op in NARROW else last_operand


def wrapped(value: int, bits: int = 64, signed: bool = True) -> int:
    """The integer of so many bits that differs from the value by a multiple of 2^bits."""
    low = value % 2**bits
    return low - 2**bits if signed and low >= 2 ** (bits - 1) else low


def _quiet(function: Callable) -> Callable:
    def folded(*values):
        with np.errstate(all="ignore"):
            return function(*(np.float64(v) if isinstance(v, float) else v for v in values))

    return folded


def _divide(a, b):
    """Towards zero; -1 is the quotient of integers by zero, as in XLA."""
    if isinstance(a, float):
        return np.float64(a) / np.float64(b)
    return (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) if b else -1


def _remainder(a, b):
    """a - b·(a/b); a itself where the integer b is zero."""
    return np.fmod(a, b) if isinstance(a, float) else a - b * _divide(a, b) if b else a


def _whole(a) -> int:
    """A number without its fraction, within 64 bits; 0 for NaN."""
    if isinstance(a, float) and not abs(a) < 2.0**63:
        return 0 if math.isnan(a) else 2**63 - 1 if a > 0 else -(2**63)
    return int(a)


def _round(a):
    return np.copysign(np.floor(np.abs(a) + 0.5), a)


def _lgamma(a):
    try:
        return math.lgamma(a)
    except (ValueError, OverflowError):  # a pole; beyond the largest number
        return math.inf


_NUMPY = ("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "exp2", "expm1", "log", "log1p", "cbrt")
_ARC = ("asin", "acos", "atan", "asinh", "acosh", "atanh")
FOLD: dict[str, Callable] = {
    "add": _quiet(lambda a, b: a + b), "sub": _quiet(lambda a, b: a - b), "mul": _quiet(lambda a, b: a * b),
    "div": _quiet(_divide), "fmod": _quiet(_remainder), "neg": lambda a: -a, "abs": abs,
    "max": _quiet(lambda a, b: np.maximum(a, b).item()), "min": _quiet(lambda a, b: np.minimum(a, b).item()),
    "sqrt": _quiet(np.sqrt), "floor": _quiet(np.floor), "ceil": _quiet(np.ceil), "round": _quiet(_round),
    "nearest": _quiet(np.rint),
    "sign": lambda a: np.sign(a).item(),
    "lt": lambda a, b: bool(a < b), "le": lambda a, b: bool(a <= b), "gt": lambda a, b: bool(a > b),
    "ge": lambda a, b: bool(a >= b), "eq": lambda a, b: bool(a == b), "ne": lambda a, b: bool(a != b),
    "and": lambda a, b: bool(a and b), "or": lambda a, b: bool(a or b), "xor": lambda a, b: bool(a) != bool(b),
    "not": lambda a: not a, "agree": lambda a: a, "finite": lambda a: bool(np.isfinite(a)),
    "select": lambda c, a, b: a if c else b, "float": float, "int": _whole,
    **{name: functools.partial(wrapped, bits=bits, signed=signed) for name, (bits, signed) in NARROW.items()},
    "erf": math.erf, "erfc": math.erfc, "lgamma": _lgamma,
    "atan2": np.arctan2, "pow": _quiet(np.power),
    **{name: _quiet(getattr(np, name)) for name in _NUMPY},
    **{name: _quiet(getattr(np, "arc" + name[1:])) for name in _ARC},
}  # fmt: skip
