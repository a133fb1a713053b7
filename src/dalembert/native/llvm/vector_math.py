"""Elementary functions of whole vectors: the C library's vector functions where they exist, lane by lane otherwise."""

from __future__ import annotations

import functools

from dalembert.native.llvm.builder import PURE, Code
from dalembert.native.llvm.jit import binding, host

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
    parts = [_piece(code, op, found and found[0], [_take(code, v, at, lanes) for v in x], lanes)
             for at in range(0, code.width, lanes)]  # fmt: skip
    result = "poison"
    for at, part in zip(range(0, code.width, lanes), parts, strict=True):
        result = _put(code, result, part, at, lanes)
    return result


def _piece(code: Code, op: str, name: str | None, x: list[str], lanes: int) -> str:
    kind = "double" if lanes == 1 else f"<{lanes} x double>"
    return code.call(kind, name or op, *((kind, v) for v in x), attributes=PURE)


def _take(code: Code, x: str, at: int, lanes: int) -> str:
    """Lanes at … at + lanes - 1."""
    if lanes == 1:
        return code.let(f"extractelement {code.real} {x}, i64 {at}")
    mask = ", ".join(f"i32 {i}" for i in range(at, at + lanes))
    return code.let(f"shufflevector {code.real} {x}, {code.real} poison, <{lanes} x i32> <{mask}>")


def _put(code: Code, whole: str, part: str, at: int, lanes: int) -> str:
    if lanes == 1:
        return code.let(f"insertelement {code.real} {whole}, double {part}, i64 {at}")
    small = f"<{lanes} x double>"
    wide = ", ".join(f"i32 {i if i < lanes else 'poison'}" for i in range(code.width))
    spread = code.let(f"shufflevector {small} {part}, {small} poison, <{code.width} x i32> <{wide}>")
    mask = ", ".join(f"i32 {code.width + i - at if at <= i < at + lanes else i}" for i in range(code.width))
    return code.let(f"shufflevector {code.real} {whole}, {code.real} {spread}, <{code.width} x i32> <{mask}>")
