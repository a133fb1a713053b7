"""f(x₀, x₁, …) as an expression of SymPy: the function is traced into the graph that also becomes machine code."""

from __future__ import annotations

import fractions
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from dalembert.native.graph.dependence import reached
from dalembert.native.graph.graph import Graph, Unsupported
from dalembert.native.trace.tracer import Tracer

LARGEST = 2000  # scalar operations: more are no formula that anybody reads
SIMPLE = 1000  # a number whose denominator is at most this is a fraction
POWERS = {"sqrt": (1, 2), "rsqrt": (-1, 2), "cbrt": (1, 3)}
SAME = {
    "sin": "sin", "cos": "cos", "tan": "tan", "asin": "asin", "acos": "acos", "atan": "atan", "sinh": "sinh", "cosh": "cosh",
    "tanh": "tanh", "asinh": "asinh", "acosh": "acosh", "atanh": "atanh", "exp": "exp", "log": "log", "erf": "erf",
    "erfc": "erfc",
    "lgamma": "loggamma", "atan2": "atan2", "abs": "Abs", "sign": "sign", "floor": "floor", "ceil": "ceiling",
    "max": "Max", "min": "Min", "fmod": "Mod",
}  # fmt: skip
RELATIONS = {"lt": "Lt", "le": "Le", "gt": "Gt", "ge": "Ge", "eq": "Eq", "ne": "Ne", "and": "And", "or": "Or", "not": "Not"}


def expressions(function: Callable, *symbols: np.ndarray) -> np.ndarray:
    """The entries of function(*arrays), as expressions of the arrays' entries.

    symbols: arrays of SymPy's symbols, of the shapes that the function takes. Unsupported, with the place, for what has no
    formula: loops whose length depends on values, more than LARGEST operations.
    """
    tracer = Tracer(Graph(LARGEST))
    named = [tracer.graph.vector(str(k), x.size).reshape(x.shape) for k, x in enumerate(symbols)]
    shapes = [jax.ShapeDtypeStruct(x.shape, np.float64) for x in symbols]
    (nodes,) = tracer.trace(function, *named, shapes=shapes)
    given = {str(k): x.ravel() for k, x in enumerate(symbols)}
    given["captured"] = np.array([number(x) for x in tracer.captured], dtype=object)
    values = _values(tracer.graph, nodes.ravel().tolist(), given)
    found = np.empty(nodes.size, dtype=object)
    found[:] = [values[i] for i in nodes.ravel().tolist()]
    return found.reshape(nodes.shape)


def number(x: float | int | bool) -> Any:
    """A number as people write it: 1/2 and 981/100, not 0.5 and 9.81; any other with all its digits."""
    import sympy

    if isinstance(x, bool | np.bool_):
        return sympy.true if x else sympy.false
    near = fractions.Fraction(x).limit_denominator(SIMPLE) if np.isfinite(x) else None
    if near is not None and float(near) == x:
        return sympy.Rational(near.numerator, near.denominator)
    return sympy.Float(x, 17)


def _values(g: Graph, outputs: Sequence[int], given: dict[str, np.ndarray]) -> dict[int, Any]:
    values: dict[int, Any] = {}
    for i in reached(g, outputs):
        op, *args = g.nodes[i]
        if op == "const":
            values[i] = number(args[0])
        elif op == "var":
            values[i] = given[args[0]][args[1]]
        elif op == "pick":
            _, condition, *sides = g.nodes[args[0]]
            values[i] = _applied("select", [values[condition], *(values[side[args[1]]] for side in sides)])
        elif op != "branch":  # whose sides are picked one by one
            values[i] = _applied(op, [values[j] for j in args])
    return values


def _applied(op: str, x: list[Any]) -> Any:
    import sympy

    match op:
        case "add":
            return x[0] + x[1]
        case "sub":
            return x[0] - x[1]
        case "mul":
            return x[0] * x[1]
        case "div":
            return x[0] / x[1]
        case "neg":
            return -x[0]
        case "pow":
            return x[0] ** x[1]
        case "exp2":
            return 2 ** x[0]
        case "expm1":
            return sympy.exp(x[0]) - 1
        case "log1p":
            return sympy.log(1 + x[0])
        case "select":
            return sympy.Piecewise((x[1], x[0]), (x[2], True))
        case "float" | "agree":
            return x[0]
    if op in POWERS:
        return x[0] ** sympy.Rational(*POWERS[op])
    name = SAME.get(op) or RELATIONS.get(op)
    if name is None:
        raise Unsupported(op, "SymPy has no function for it")
    return getattr(sympy, name)(*x)
