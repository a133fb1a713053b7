"""Derivatives of nodes by inputs, forward: of every node only those by the inputs that it depends on.

Where an operation has no derivative the rules are JAX's: |x| has 1 at 0, the larger of two equal numbers the
mean of both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from dalembert.native.graph.dependence import needed_nodes
from dalembert.native.graph.graph import Graph, Unsupported

Row = dict[int, int]  # column → the node of the derivative, where it is not 0 by structure
Slope = Callable[[Graph, int, tuple[int, ...]], Sequence[int]]  # (graph, result, operands) → ∂op/∂operand


def jacobian(g: Graph, outputs: Sequence[int], inputs: Sequence[int]) -> np.ndarray:
    """∂output/∂input as nodes, (outputs, inputs); the inputs are nodes of variables."""
    rows = _chain_rows(g, outputs, {int(i): {k: g.one} for k, i in enumerate(inputs)})
    result = np.full((len(outputs), len(inputs)), g.zero, np.int64)
    for i, o in enumerate(outputs):
        for k, slope in rows.get(int(o), {}).items():
            result[i, k] = slope
    return result


def along(g: Graph, outputs: Sequence[int], inputs: Sequence[int], direction: Sequence[int]) -> list[int]:
    """Σ_k ∂output/∂input_k direction_k as nodes."""
    rows = _chain_rows(g, outputs, {int(i): {0: int(d)} for i, d in zip(inputs, direction, strict=True)})
    return [rows.get(int(o), {}).get(0, g.zero) for o in outputs]


def _chain_rows(g: Graph, outputs: Sequence[int], inputs: dict[int, Row]) -> dict[int, Row]:
    """inputs: their own derivatives."""
    rows: dict[int, Row] = {}
    for i in needed_nodes(g, outputs):
        op, *operands = g.nodes[i]
        if i in inputs:
            row = inputs[i]
        elif op in ("const", "var", "branch") or g.kind[i] != "f":
            continue
        elif op in ("solve", "entry"):
            raise Unsupported("custom_linear_solve", "has no derivative here")
        else:
            row = _row_of_pick(g, rows, *operands) if op == "pick" else _chain_row(g, rows, op, i, tuple(operands))
        if row:
            rows[i] = row
    return rows


def _chain_row(g: Graph, rows: dict[int, Row], op: str, i: int, x: tuple[int, ...]) -> Row:
    base, e = g.powers.get(i, (i, 1.0))
    if base in rows:
        lower = g.apply("div", i, base) if e < 0 else g.power(base, e - 1.0)
        slope = _scale(g, e, lower)
        return _without_zeros(g, {k: g.apply("mul", slope, own) for k, own in rows[base].items()})
    moving = [rows.get(j) for j in x]
    if not any(moving) or op in _CONSTANT:
        return {}
    if op == "select":
        _, a, b = moving
        return _without_zeros(g, {k: g.apply("select", x[0], (a or {}).get(k, g.zero), (b or {}).get(k, g.zero))
                         for k in _columns(a, b)})  # fmt: skip
    if op in ("add", "sub"):
        a, b = (row or {} for row in moving)
        return _without_zeros(g, {k: g.apply(op, a.get(k, g.zero), b.get(k, g.zero)) for k in _columns(a, b)})
    if op == "div":  # x′/y - (x/y)(y′/y): what is divided by y does not wait for one another
        a, b = (row or {} for row in moving)
        by_y = lambda row, k: g.apply("div", row[k], x[1]) if k in row else g.zero  # noqa: E731
        return _without_zeros(g, {k: g.apply("sub", by_y(a, k), g.apply("mul", i, by_y(b, k))) for k in _columns(a, b)})
    if op not in SLOPES:
        raise Unsupported(op, "has no derivative here")
    total: Row = {}
    for row, slope in zip(moving, SLOPES[op](g, i, x), strict=True):
        for k, own in (row or {}).items():
            product = g.apply("mul", slope, own)
            total[k] = g.apply("add", total[k], product) if k in total else product
    return _without_zeros(g, total)


def _columns(*rows: Row | None) -> list[int]:
    return sorted(set().union(*(row for row in rows if row)))


def _without_zeros(g: Graph, row: Row) -> Row:
    return {k: slope for k, slope in row.items() if slope != g.zero}


def _row_of_pick(g: Graph, rows: dict[int, Row], branch: int, k: int) -> Row:
    """The derivative of one output of a branch: that of the side which is taken."""
    _, condition, *sides = g.nodes[branch]
    a, b = (rows.get(side[k], {}) for side in sides)
    columns = _columns(a, b)
    chosen = g.choose(condition, [a.get(c, g.zero) for c in columns], [b.get(c, g.zero) for c in columns])
    return _without_zeros(g, dict(zip(columns, chosen, strict=True)))


def _constant(g: Graph, value: float) -> int:
    return g.constant(float(value))


def _scale(g: Graph, a: float, x: int) -> int:
    return g.apply("mul", _constant(g, a), x)


def _over(g: Graph, x: int) -> int:
    return g.apply("div", g.one, x)


def _square(g: Graph, x: int) -> int:
    return g.apply("mul", x, x)


def _by_root(g: Graph, x: int) -> int:
    return _over(g, g.apply("sqrt", x))


def _unary(rule: Callable[[Graph, int, int], int]) -> Slope:
    """Of an operation on one number x with the result y."""
    return lambda g, y, x: [rule(g, x[0], y)]


def _larger(op: str) -> Slope:
    def rule(g: Graph, y: int, x: tuple[int, ...]) -> list[int]:
        first, both = g.apply(op, *x), g.apply("eq", *x)
        half = _constant(g, 0.5)
        of = lambda yes, no: g.apply("select", both, half, g.apply("select", first, yes, no))  # noqa: E731
        return [of(g.one, g.zero), of(g.zero, g.one)]

    return rule


def _power(g: Graph, y: int, x: tuple[int, ...]) -> list[int]:
    """x^e: e x^(e-1), 0 for e = 0; and x^e log x, where log 0 counts as 0."""
    base, exponent = x
    flat = g.apply("eq", exponent, g.zero)
    lower = g.apply("pow", base, g.apply("select", flat, g.one, g.apply("sub", exponent, g.one)))
    by_base = g.apply("select", flat, g.zero, g.apply("mul", exponent, lower))
    at = g.apply("select", g.apply("eq", base, g.zero), g.one, base)
    return [by_base, g.apply("mul", g.apply("log", at), y)]


def _angle(g: Graph, y: int, x: tuple[int, ...]) -> list[int]:
    """atan2(a, b): b / (a² + b²), -a / (a² + b²)."""
    a, b = x
    square = g.apply("add", _square(g, a), _square(g, b))
    return [g.apply("div", b, square), g.apply("neg", g.apply("div", a, square))]


def _rest(g: Graph, y: int, x: tuple[int, ...]) -> list[int]:
    """a - b·(a/b without its fraction)."""
    ratio = g.apply("div", *x)
    whole = g.apply("mul", g.apply("sign", ratio), g.apply("floor", g.apply("abs", ratio)))
    return [g.one, g.apply("neg", whole)]


def _bell(sign: float) -> Slope:
    return _unary(lambda g, x, y: _scale(g, sign * 2.0 / math.sqrt(math.pi), g.apply("exp", g.apply("neg", _square(g, x)))))


_CONSTANT = frozenset(["sign", "floor", "ceil", "round", "nearest", "float"])
SLOPES: dict[str, Slope] = {
    "mul": lambda g, y, x: [x[1], x[0]],
    "neg": _unary(lambda g, x, y: _constant(g, -1.0)),
    "abs": _unary(lambda g, x, y: g.apply("select", g.apply("ge", x, g.zero), g.one, _constant(g, -1.0))),
    "sqrt": _unary(lambda g, x, y: g.apply("div", _constant(g, 0.5), y)),
    "cbrt": _unary(lambda g, x, y: _over(g, _scale(g, 3.0, _square(g, y)))),
    "sin": _unary(lambda g, x, y: g.apply("cos", x)),
    "cos": _unary(lambda g, x, y: g.apply("neg", g.apply("sin", x))),
    "tan": _unary(lambda g, x, y: g.apply("add", g.one, _square(g, y))),
    "asin": _unary(lambda g, x, y: _by_root(g, g.apply("sub", g.one, _square(g, x)))),
    "acos": _unary(lambda g, x, y: g.apply("neg", _by_root(g, g.apply("sub", g.one, _square(g, x))))),
    "atan": _unary(lambda g, x, y: _over(g, g.apply("add", g.one, _square(g, x)))),
    "sinh": _unary(lambda g, x, y: g.apply("cosh", x)),
    "cosh": _unary(lambda g, x, y: g.apply("sinh", x)),
    "tanh": _unary(lambda g, x, y: g.apply("sub", g.one, _square(g, y))),
    "asinh": _unary(lambda g, x, y: _by_root(g, g.apply("add", _square(g, x), g.one))),
    "acosh": _unary(lambda g, x, y: _over(g, g.apply(
        "mul", g.apply("sqrt", g.apply("sub", x, g.one)), g.apply("sqrt", g.apply("add", x, g.one))))),
    "atanh": _unary(lambda g, x, y: _over(g, g.apply("sub", g.one, _square(g, x)))),
    "exp": _unary(lambda g, x, y: y),
    "exp2": _unary(lambda g, x, y: _scale(g, math.log(2.0), y)),
    "expm1": _unary(lambda g, x, y: g.apply("add", y, g.one)),
    "log": _unary(lambda g, x, y: _over(g, x)),
    "log1p": _unary(lambda g, x, y: _over(g, g.apply("add", g.one, x))),
    "erf": _bell(1.0), "erfc": _bell(-1.0),
    "max": _larger("gt"), "min": _larger("lt"),
    "pow": _power, "atan2": _angle, "fmod": _rest,
}  # fmt: skip
