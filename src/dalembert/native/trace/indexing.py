"""Primitives of JAX that move elements, gather, scatter and reduce, on arrays of graph nodes: index arithmetic, by NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dalembert.native.graph.graph import Graph, Unsupported, combine_pairs
from dalembert.native.trace.elementwise import Nodes, concrete, constants, convert_type, elementwise
from dalembert.tracing import RULES, gather_slices, scatter_slices
from dalembert.tracing.evaluation.rules import fill_value, positions, window


def _moving(g: Graph, name: str, indices: Nodes) -> tuple[np.ndarray, int | None]:
    """The values of the indices, and the one column of them that is computed from the state; None where there is none."""
    columns = [concrete(g, indices[..., k]) for k in range(indices.shape[-1])]
    moving = [k for k, column in enumerate(columns) if column is None]
    if len(moving) > 1:
        raise Unsupported(name, "with several indices that are computed from the state")
    zeros = np.zeros(indices.shape[:-1], np.int64)
    known = np.stack([zeros if column is None else column.astype(np.int64) for column in columns] or [zeros], axis=-1)
    return known[..., : len(columns)], moving[0] if moving else None


def _with_column(known: np.ndarray, column: int, value: int) -> np.ndarray:
    """The indices with one value in all of a column."""
    result = known.copy()
    result[..., column] = value
    return result


def gather(g: Graph, eqn, x: Nodes, indices: Nodes) -> Nodes:
    """An index that is computed chooses among all its values; one outside is moved to the nearest, or gives `_fill`."""
    if "ONE_HOT" in str(eqn.params["mode"]):
        raise Unsupported("gather", "in the mode one_hot")
    known, column = _moving(g, "gather", indices)
    if column is None:
        return _gather_at(g, eqn, x, known)
    d, grid = eqn.params["dimension_numbers"], np.indices(eqn.outvars[0].aval.shape)
    axis = d.start_index_map[column]
    last = x.shape[axis] - eqn.params["slice_sizes"][axis]
    chosen = indices[(*(a for k, a in enumerate(grid) if k not in d.offset_dims), column)]
    result = _at_chosen(g, chosen, last, lambda k: _gather_at(g, eqn, x, _with_column(known, column, k)))
    if "FILL" not in str(eqn.params["mode"]):
        return result
    ends = (("ge", 0), ("le", last))
    inside = elementwise(g, "and", *(elementwise(g, op, chosen, np.asarray(g.constant(k))) for op, k in ends))
    return elementwise(g, "select", inside, result, np.asarray(_fill(g, eqn)))


def _at_chosen(g: Graph, chosen: Nodes, last: int, at: Callable[[int], Nodes]) -> Nodes:
    """at(k) for the number k that is computed, or for the nearest of 0 … last."""
    result = at(0)
    for k in range(1, last + 1):
        result = elementwise(g, "select", elementwise(g, "ge", chosen, np.asarray(g.constant(k))), at(k), result)
    return result


def _fill(g: Graph, eqn) -> int:
    return int(constants(g, fill_value(eqn)))


def _gather_at(g: Graph, eqn, x: Nodes, indices: np.ndarray) -> Nodes:
    at, inside = positions(indices, np.indices(eqn.outvars[0].aval.shape), gather_slices(eqn), x.shape)
    result = x[at]
    if "FILL" in str(eqn.params["mode"]) and not inside.all():
        result = np.where(inside, result, _fill(g, eqn))
    return result


def scatter(combine: str | None) -> Callable:
    def put_entry(g: Graph, eqn, x: Nodes, indices: Nodes, updates: Nodes) -> Nodes:
        if combine is None and eqn.params["update_jaxpr"] is not None:
            raise Unsupported("scatter", "with a function of what is there")
        known, column = _moving(g, "scatter", indices)
        result, d = x.copy(), eqn.params["dimension_numbers"]
        if column is None:
            _scatter_at(g, eqn, combine, result, known, updates)
            return result
        axis, grid = d.scatter_dims_to_operand_dims[column], np.indices(updates.shape)
        last = x.shape[axis] - scatter_slices(eqn, updates.shape, x.ndim).sizes[axis]
        chosen = indices[(*(a for k, a in enumerate(grid) if k not in d.update_window_dims), column)]
        if "CLIP" in str(eqn.params["mode"]):
            chosen = elementwise(g, "min", elementwise(g, "max", chosen, np.asarray(g.constant(0))), constants(g, last))
        chosen = np.broadcast_to(chosen, updates.shape)
        for k in range(last + 1):
            here = elementwise(g, "eq", chosen, np.asarray(g.constant(k)))
            _scatter_at(g, eqn, combine, result, _with_column(known, column, k), updates, where=here)
        return result

    return put_entry


def _scatter_at(
    g: Graph, eqn, combine, result: Nodes, indices: np.ndarray, updates: Nodes, *, where: Nodes | None = None
) -> None:
    """Write updates into result, or combine them with what is there; with `where`, only where that is true."""
    slices = scatter_slices(eqn, updates.shape, result.ndim)
    at, inside = positions(indices, np.indices(updates.shape), slices, result.shape)
    keep = inside if "CLIP" not in str(eqn.params["mode"]) else np.ones_like(inside)
    columns = [np.broadcast_to(a, updates.shape)[keep].tolist() for a in at]
    conditions = np.full(updates.shape, g.true) if where is None else where
    for *place, value, here in zip(*columns, updates[keep].tolist(), conditions[keep].tolist(), strict=True):
        old = int(result[tuple(place)])
        new = value if combine is None else int(elementwise(g, combine, np.asarray(old), np.asarray(value)))
        result[tuple(place)] = g.apply("select", here, new, old)


def _concrete_indices(g: Graph, nodes: Nodes, primitive: str) -> np.ndarray:
    values = concrete(g, nodes)
    if values is None:
        raise Unsupported(primitive, "with indices that are computed from the state")
    return values.astype(np.int64)


def _window(g: Graph, name: str, x: Nodes, starts: tuple[Nodes, ...], sizes) -> tuple[slice, ...]:
    return window([_concrete_indices(g, s, name) for s in starts], x.shape, sizes)


def _dynamic_slice(g: Graph, eqn, x: Nodes, *starts: Nodes) -> Nodes:
    moving = [axis for axis, s in enumerate(starts) if concrete(g, s) is None]
    if len(moving) == 1:  # one index is computed from the state: choose among all its values
        (axis,) = moving
        last = x.shape[axis] - eqn.params["slice_sizes"][axis]
        at = lambda k: [*starts[:axis], np.asarray(g.constant(k)), *starts[axis + 1 :]]  # noqa: E731
        return _at_chosen(g, starts[axis], last, lambda k: _dynamic_slice(g, eqn, x, *at(k)))
    return x[_window(g, "dynamic_slice", x, starts, eqn.params["slice_sizes"])]


def _dynamic_update_slice(g: Graph, eqn, x: Nodes, update: Nodes, *starts: Nodes) -> Nodes:
    result = x.copy()
    result[_window(g, "dynamic_update_slice", x, starts, update.shape)] = update
    return result


def _reduction(op: str) -> Callable:
    def combine_axes(g: Graph, eqn, x: Nodes) -> Nodes:
        axes = eqn.params["axes"]
        kept = [d for d in range(x.ndim) if d not in axes]
        size = math.prod(x.shape[d] for d in axes)
        rows = np.transpose(x, [*kept, *axes]).reshape(*(x.shape[d] for d in kept), size)
        columns = [rows[..., k] for k in range(size)]
        combine = lambda a, b: elementwise(g, op, a, b)  # noqa: E731
        return combine_pairs(combine, columns, constants(g, np.full(rows.shape[:-1], _empty(op, eqn.outvars[0].aval.dtype))))

    return combine_axes


def _empty(op: str, dtype: np.dtype) -> Any:
    """Neutral element of op: what it gives for nothing."""
    if op in ("max", "min") and dtype.kind in "iu":
        return getattr(np.iinfo(dtype), "min" if op == "max" else "max")
    value = {"add": 0, "mul": 1, "max": -math.inf, "min": math.inf, "and": True, "or": False}[op]
    return np.asarray(value, dtype)


def _cumulative(op: str) -> Callable:
    def accumulate(g: Graph, eqn, x: Nodes) -> Nodes:
        rows = np.moveaxis(x, eqn.params["axis"], 0)
        rows = rows[::-1] if eqn.params["reverse"] else rows
        out = [rows[0]] if rows.shape[0] else []
        for row in rows[1:]:
            out.append(elementwise(g, op, out[-1], row))
        stacked = np.stack(out) if out else rows
        return np.moveaxis(stacked[::-1] if eqn.params["reverse"] else stacked, 0, eqn.params["axis"])

    return accumulate


def _dot_general(g: Graph, eqn, a: Nodes, b: Nodes) -> Nodes:
    dtype = eqn.outvars[0].aval.dtype
    a, b = (convert_type(g, x, v.aval.dtype, dtype) for x, v in zip((a, b), eqn.invars, strict=True))
    (left, right), (left_batch, right_batch) = eqn.params["dimension_numbers"]
    rows = [d for d in range(a.ndim) if d not in (*left, *left_batch)]
    columns = [d for d in range(b.ndim) if d not in (*right, *right_batch)]
    batch = [a.shape[d] for d in left_batch]
    inner = math.prod(a.shape[d] for d in left)
    x = np.transpose(a, [*left_batch, *rows, *left]).reshape(*batch, math.prod(a.shape[d] for d in rows), 1, inner)
    y = np.transpose(b, [*right_batch, *columns, *right]).reshape(*batch, 1, math.prod(b.shape[d] for d in columns), inner)
    shape = (*batch, *(a.shape[d] for d in rows), *(b.shape[d] for d in columns))
    result = constants(g, np.zeros((*batch, x.shape[-3], y.shape[-2]), dtype))
    for k in np.flatnonzero(_reads(g, x, dtype) & _reads(g, y, dtype)):
        result = elementwise(g, "add", result, elementwise(g, "mul", x[..., k], y[..., k]))
    return result.reshape(shape)


def _reads(g: Graph, x: Nodes, dtype: Any) -> np.ndarray:
    """(inner,): which of the last places are not zero throughout."""
    none = g.zero if np.dtype(dtype).kind == "f" else int(constants(g, np.zeros((), dtype)))
    return (x != none).any(axis=tuple(range(x.ndim - 1)))


def _argument(op: str) -> Callable:
    """The first of the best elements, and of those that are NaN if there are such."""

    def argument(g: Graph, eqn, x: Nodes) -> Nodes:
        rows = np.moveaxis(x, eqn.params["axes"][0], 0)
        best, index = rows[0], constants(g, np.zeros(rows.shape[1:], np.int64))
        for k in range(1, rows.shape[0]):
            better = elementwise(g, op, rows[k], best)
            if eqn.invars[0].aval.dtype.kind == "f":
                worse, valid = elementwise(g, "ne", rows[k], rows[k]), elementwise(g, "eq", best, best)
                better = elementwise(g, "or", better, elementwise(g, "and", worse, valid))
            best = elementwise(g, "select", better, rows[k], best)
            index = elementwise(g, "select", better, np.asarray(g.constant(k)), index)
        return index

    return argument


def _nothing(g: Graph, eqn) -> Nodes:
    """An array that is never read."""
    return constants(g, np.zeros(eqn.outvars[0].aval.shape, eqn.outvars[0].aval.dtype))


def _rearrangement(name: str) -> Callable:
    """The rule for NumPy's arrays: where an element goes does not depend on what it is."""
    rule: Callable[..., Any] = RULES[name]
    return lambda g, eqn, *x: rule(eqn)(*x)


MOVES = ("broadcast_in_dim", "slice", "pad", "split", "reshape", "squeeze", "expand_dims", "transpose", "rev", "concatenate",
         "stack", "unstack", "tile")  # fmt: skip
STRUCTURE: dict[str, Callable[..., Any]] = {
    **{name: _rearrangement(name) for name in MOVES},
    "iota": lambda g, eqn: constants(g, _rearrangement("iota")(g, eqn)),
    "convert_element_type": lambda g, eqn, x: convert_type(g, x, eqn.invars[0].aval.dtype, eqn.params["new_dtype"]),
    "empty": _nothing, "empty2": _nothing,
    "dynamic_slice": _dynamic_slice, "dynamic_update_slice": _dynamic_update_slice, "gather": gather,
    "scatter": scatter(None),
    **{f"scatter{dash}{op}": scatter(op) for dash in "-_" for op in ("add", "sub", "mul", "min", "max")},
    "reduce_sum": _reduction("add"), "reduce_prod": _reduction("mul"),
    **{f"reduce_{op}": _reduction(op) for op in ("max", "min", "and", "or")},
    "cumsum": _cumulative("add"), "cumprod": _cumulative("mul"), "cummax": _cumulative("max"),
    "cummin": _cumulative("min"), "dot_general": _dot_general,
    "argmax": _argument("gt"), "argmin": _argument("lt"),
}  # fmt: skip
