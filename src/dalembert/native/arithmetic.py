"""The scalar operations: what each does to constants, what kind of value it gives, and which need a library call."""

from __future__ import annotations

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
LOGICAL = frozenset(["and", "or", "xor", "not", "finite"])


def kind_of_result(op: str, last_operand: str) -> str:
    """The kind of op's result, given the kind of its last operand."""
    if op in COMPARISONS or op in LOGICAL:
        return "b"
    if op == "float":
        return "f"
    return "i" if op == "int" else last_operand


def _quiet(function: Callable) -> Callable:
    def folded(*values):
        with np.errstate(all="ignore"):
            return function(*(np.float64(v) if isinstance(v, float) else v for v in values))

    return folded


def _divide(a, b):
    if isinstance(a, float):
        return np.float64(a) / np.float64(b)
    return math.trunc(a / b) if abs(a) < 2**52 else int(abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)


def _remainder(a, b):
    return np.fmod(a, b) if isinstance(a, float) else int(math.fmod(a, b))


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
    "not": lambda a: not a, "finite": lambda a: bool(np.isfinite(a)),
    "select": lambda c, a, b: a if c else b, "float": float, "int": lambda a: int(a),
    "erf": math.erf, "erfc": math.erfc, "lgamma": _lgamma,
    "atan2": np.arctan2, "pow": _quiet(np.power),
    **{name: _quiet(getattr(np, name)) for name in _NUMPY},
    **{name: _quiet(getattr(np, "arc" + name[1:])) for name in _ARC},
}  # fmt: skip
