"""Derivatives of nodes by inputs, forward: of every node only those by the inputs that it depends on.

Where an operation has no derivative the rules are JAX's: |x| has 1 at 0, the larger of two equal numbers the
mean of both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dalembert.native.graph.dependence import needed_nodes
from dalembert.native.graph.graph import Expression, Graph, Unsupported, express

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


def directional_derivative(g: Graph, outputs: Sequence[int], inputs: Sequence[int], direction: Sequence[int]) -> list[int]:
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
        slope = g.apply("mul", g.constant(float(e)), lower)
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


def _slopes(rule: Callable[..., Any]) -> Slope:
    """Of an operation on numbers x, … with the result y: rule(*x, y) → its derivative by x, or those by each."""

    def found(g: Graph, y: int, x: tuple[int, ...]) -> list[int]:
        numbers = express(g, (*x, y))
        slopes = rule(*numbers)
        return [numbers[0].like(slope).node for slope in (slopes if isinstance(slopes, tuple) else (slopes,))]

    return found


def _larger(op: str) -> Slope:
    def rule(a: Expression, b: Expression, y: Expression) -> tuple[Expression, ...]:
        first, both = a.apply(op, b), a.apply("eq", b)
        return tuple(both.apply("select", 0.5, first.apply("select", *sides)) for sides in ((1.0, 0.0), (0.0, 1.0)))

    return _slopes(rule)


def _power(base: Expression, exponent: Expression, y: Expression) -> tuple[Expression, ...]:
    """x^e: e x^(e-1), 0 for e = 0; and x^e log x, where log 0 counts as 0."""
    flat = exponent.apply("eq", 0.0)
    lower = base.apply("pow", flat.apply("select", 1.0, exponent - 1.0))
    by_base = flat.apply("select", 0.0, exponent * lower)
    at = base.apply("eq", 0.0).apply("select", 1.0, base)
    return by_base, at.apply("log") * y


def _angle(a: Expression, b: Expression, y: Expression) -> tuple[Expression, ...]:
    """atan2(a, b): b / (a² + b²), -a / (a² + b²)."""
    square = a * a + b * b
    return b / square, -(a / square)


def _rest(a: Expression, b: Expression, y: Expression) -> tuple[Any, ...]:
    """a - b·(a/b without its fraction)."""
    ratio = a / b
    return 1.0, -(ratio.apply("sign") * abs(ratio).apply("floor"))


def _bell(sign: float) -> Slope:
    return _slopes(lambda x, y: sign * 2.0 / math.sqrt(math.pi) * (-(x * x)).apply("exp"))


_CONSTANT = frozenset(["sign", "floor", "ceil", "round", "nearest", "float"])
SLOPES: dict[str, Slope] = {
    "mul": _slopes(lambda a, b, y: (b, a)),
    "neg": _slopes(lambda x, y: -1.0),
    "abs": _slopes(lambda x, y: (x >= 0.0).apply("select", 1.0, -1.0)),
    "sqrt": _slopes(lambda x, y: 0.5 / y),
    "cbrt": _slopes(lambda x, y: 1.0 / (3.0 * (y * y))),
    "sin": _slopes(lambda x, y: x.apply("cos")),
    "cos": _slopes(lambda x, y: -x.apply("sin")),
    "tan": _slopes(lambda x, y: 1.0 + y * y),
    "asin": _slopes(lambda x, y: 1.0 / (1.0 - x * x).apply("sqrt")),
    "acos": _slopes(lambda x, y: -(1.0 / (1.0 - x * x).apply("sqrt"))),
    "atan": _slopes(lambda x, y: 1.0 / (1.0 + x * x)),
    "sinh": _slopes(lambda x, y: x.apply("cosh")),
    "cosh": _slopes(lambda x, y: x.apply("sinh")),
    "tanh": _slopes(lambda x, y: 1.0 - y * y),
    "asinh": _slopes(lambda x, y: 1.0 / (x * x + 1.0).apply("sqrt")),
    "acosh": _slopes(lambda x, y: 1.0 / ((x - 1.0).apply("sqrt") * (x + 1.0).apply("sqrt"))),
    "atanh": _slopes(lambda x, y: 1.0 / (1.0 - x * x)),
    "exp": _slopes(lambda x, y: y),
    "exp2": _slopes(lambda x, y: math.log(2.0) * y),
    "expm1": _slopes(lambda x, y: y + 1.0),
    "log": _slopes(lambda x, y: 1.0 / x),
    "log1p": _slopes(lambda x, y: 1.0 / (1.0 + x)),
    "erf": _bell(1.0), "erfc": _bell(-1.0),
    "max": _larger("gt"), "min": _larger("lt"),
    "pow": _slopes(_power), "atan2": _slopes(_angle), "fmod": _slopes(_rest),
}  # fmt: skip
