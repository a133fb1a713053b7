"""Elementwise primitives of JAX on arrays of graph nodes."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from dalembert.native.graph.graph import COMPARISONS, FUNCTIONS, NARROW, Graph, Unsupported

Nodes = np.ndarray  # of int64: indices into a Graph, in the shape of the traced array
TYPES = {np.dtype(name) for name in ("float64", "bool", "int64", *NARROW)}
_OF_TRUTH = {"add": "or", "max": "or", "mul": "and", "min": "and"}  # what operations on numbers are on truth values


def check_type(what: str, dtype: Any) -> None:
    """Unsupported for a type that has no exact counterpart in the graph."""
    if dtype not in TYPES:
        raise Unsupported(what, f"on {dtype}; float64, booleans and integers except uint64 are translated")


def constants(g: Graph, array: Any) -> Nodes:
    """The nodes of a concrete array."""
    values = np.asarray(array)
    check_type("constant", values.dtype)
    flat = values.ravel()
    if values.dtype != np.float64:
        return np.array([g.constant(x) for x in flat.tolist()], dtype=np.int64).reshape(values.shape)
    result = np.full(flat.shape, g.zero, dtype=np.int64)  # most constants are zeros of a matrix
    others = np.flatnonzero((flat != 0.0) | np.signbit(flat))
    result[others] = [g.constant(x) for x in flat[others].tolist()]
    return result.reshape(values.shape)


def concrete(g: Graph, nodes: Nodes) -> np.ndarray | None:
    """The values of an array whose nodes are all constants, or None."""
    values = [g.value(i) for i in nodes.ravel().tolist()]
    return None if any(v is None for v in values) else np.array(values).reshape(nodes.shape)


def elementwise(g: Graph, op: str, *arrays: Nodes) -> Nodes:
    """op on arrays of equal shape, or scalars. Zeros of the structure are handled without a visit to each element."""
    kind = g.kind[int(arrays[-1].flat[0])] if arrays[-1].size else "f"
    op = _OF_TRUTH.get(op, op) if kind == "b" else op
    if kind == "i" and op in ("and", "or", "xor", "not"):
        raise Unsupported(op, "on integers")
    shape = arrays[0].shape
    if any(a.shape != shape for a in arrays):
        shape = np.broadcast_shapes(*(a.shape for a in arrays))
        arrays = tuple(np.broadcast_to(a, shape) for a in arrays)
    flat = [a.ravel() for a in arrays]
    result = np.full(flat[0].shape, g.zero, dtype=np.int64)
    rest = np.arange(result.size)
    if op == "mul":
        rest = np.flatnonzero((flat[0] != g.zero) & (flat[1] != g.zero))
    elif op in ("add", "sub"):
        left, right = flat[0] != g.zero, flat[1] != g.zero
        result[~right] = flat[0][~right]
        if op == "add":
            result[~left] = flat[1][~left]
        rest = np.flatnonzero(right & left if op == "add" else right)
    apply = g.apply
    columns = [a[rest].tolist() for a in flat]
    result[rest] = [apply(op, *operands) for operands in zip(*columns, strict=True)]
    return result.reshape(shape)


def _power(g: Graph, x: Nodes, exponent: int) -> Nodes:
    return np.array([g.power(i, exponent) for i in x.ravel().tolist()], dtype=np.int64).reshape(x.shape)


def _reciprocal(g: Graph, x: Nodes) -> Nodes:
    return elementwise(g, "div", np.asarray(g.one), x)


def _select(g: Graph, which: Nodes, *cases: Nodes) -> Nodes:
    if len(cases) != 2 or (which.size and g.kind[int(which.flat[0])] != "b"):
        result = cases[0]
        for k, case in enumerate(cases[1:], start=1):
            result = elementwise(g, "select", elementwise(g, "eq", which, np.asarray(g.constant(k))), case, result)
        return result
    return elementwise(g, "select", which, cases[1], cases[0])


def convert_type(g: Graph, x: Nodes, old: Any, new: Any) -> Nodes:
    """An array of another type: integers wrap around, numbers lose their fraction and end at the range of the new type."""
    new = np.dtype(new)
    if old == new:
        return x
    if new.kind == "f":
        return _map(g, x, g.number)
    if new.kind == "b":
        zero = g.zero if np.dtype(old).kind == "f" else g.constant(0)
        return elementwise(g, "ne", x, np.asarray(zero))
    whole = x if np.dtype(old).kind in "iu" else _map(g, x, lambda i: g.apply("int", i))
    if np.dtype(old).kind == "f" and new.name in NARROW:
        ends = (np.asarray(g.constant(int(end))) for end in (np.iinfo(new).min, np.iinfo(new).max))
        return elementwise(g, "min", elementwise(g, "max", whole, next(ends)), next(ends))
    return whole


def narrow(g: Graph, x: Nodes, dtype: Any) -> Nodes:
    """The results of an operation on integers of 64 bits as those of fewer bits."""
    name = np.dtype(dtype).name
    return _map(g, x, lambda i: g.apply(name, i)) if name in NARROW else x


def _map(g: Graph, x: Nodes, function: Callable[[int], int]) -> Nodes:
    return np.array([function(i) for i in x.ravel().tolist()], dtype=np.int64).reshape(x.shape)


def _logical(op: str):
    def apply(g: Graph, params, *x: Nodes) -> Nodes:
        known = [concrete(g, a) for a in x]
        if any(v is None or v.dtype == bool for v in known):
            return elementwise(g, op, *x)
        names = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.bitwise_not}
        return constants(g, names[op](*known))

    return apply


def _round(g: Graph, params, x: Nodes) -> Nodes:
    return elementwise(g, "nearest" if int(params["rounding_method"]) == 1 else "round", x)


def _logistic(g: Graph, params, x: Nodes) -> Nodes:
    growth = elementwise(g, "exp", elementwise(g, "neg", x))
    return _reciprocal(g, elementwise(g, "add", np.asarray(g.one), growth))


def _pow(g: Graph, params, x: Nodes, exponent: Nodes) -> Nodes:
    return elementwise(g, "pow", x, _map(g, exponent, g.number))


def _precision(g: Graph, params, x: Nodes) -> Nodes:
    if (params["exponent_bits"], params["mantissa_bits"]) != (11, 52):
        raise Unsupported("reduce_precision", "to fewer bits than a double")
    return x


def _same_operation(op: str):
    return lambda g, params, *x: elementwise(g, op, *x)


def _same(g: Graph, params, x: Nodes) -> Nodes:
    return x


_PLAIN = {
    "add": "add", "add_any": "add", "sub": "sub", "mul": "mul", "div": "div", "rem": "fmod", "neg": "neg", "abs": "abs",
    "max": "max", "min": "min", "sqrt": "sqrt", "sign": "sign", "floor": "floor", "ceil": "ceil", "atan2": "atan2",
    "is_finite": "finite",
    **{name: name for name in (*FUNCTIONS, *COMPARISONS)},
}  # fmt: skip
_UNCHANGED = ("copy", "copy_p", "stop_gradient", "device_put", "sharding_constraint", "pvary")

ELEMENTWISE: dict[str, Callable[..., Nodes]] = {
    **{name: _same_operation(op) for name, op in _PLAIN.items()},
    **dict.fromkeys(_UNCHANGED, _same),
    **{name: _logical(name) for name in ("and", "or", "xor", "not")},
    "agree": _same_operation("agree"),
    "square": lambda g, p, x: elementwise(g, "mul", x, x),
    "integer_pow": lambda g, p, x: _power(g, x, p["y"]),
    "one_minus_square": lambda g, p, x: elementwise(
        g, "mul", *(elementwise(g, f, np.array(g.one), x) for f in ("add", "sub"))
    ),
    "polynomial": lambda g, p, x, *a: reduce(lambda y, c: elementwise(g, "add", elementwise(g, "mul", y, x), c), a[::-1]),
    "log2": lambda g, p, x: elementwise(g, "mul", elementwise(g, "log", x), np.asarray(g.constant(float(np.log2(np.e))))),
    "rsqrt": lambda g, p, x: _reciprocal(g, elementwise(g, "sqrt", x)),
    "pow": _pow,
    "logistic": _logistic,
    "round": _round,
    "reduce_precision": _precision,
    "select_n": lambda g, p, *x: _select(g, *x),
    "clamp": lambda g, p, low, x, high: elementwise(g, "min", elementwise(g, "max", x, low), high),
}
