"""Primitives of JAX that move elements, and reductions, on arrays of graph nodes: index arithmetic, done by NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dalembert.native.elementwise import Nodes, concrete, constants, elementwise
from dalembert.native.graph import Graph, Unsupported, paired


def _known(g: Graph, nodes: Nodes, primitive: str) -> np.ndarray:
    values = concrete(g, nodes)
    if values is None:
        raise Unsupported(primitive, "with an index that is computed from the state")
    return values.astype(np.int64)


def _broadcast(g: Graph, eqn, x: Nodes) -> Nodes:
    shape = [1] * len(eqn.params["shape"])
    for axis, size in zip(eqn.params["broadcast_dimensions"], x.shape, strict=True):
        shape[axis] = size
    return np.broadcast_to(x.reshape(shape), eqn.params["shape"])


def _slice(g: Graph, eqn, x: Nodes) -> Nodes:
    p = eqn.params
    strides = p["strides"] or (1,) * x.ndim
    return x[tuple(slice(a, b, s) for a, b, s in zip(p["start_indices"], p["limit_indices"], strides, strict=True))]


def _pad(g: Graph, eqn, x: Nodes, value: Nodes) -> Nodes:
    result = x
    for axis, (low, high, interior) in enumerate(eqn.params["padding_config"]):
        size = result.shape[axis]
        spread = size + max(size - 1, 0) * interior
        moved = np.full((spread + max(low, 0) + max(high, 0), *np.delete(result.shape, axis)), int(value), np.int64)
        moved[max(low, 0) : max(low, 0) + spread : interior + 1] = np.moveaxis(result, axis, 0)
        moved = moved[max(-low, 0) : moved.shape[0] - max(-high, 0)]
        result = np.moveaxis(moved, 0, axis)
    return result


def _window(g: Graph, name: str, x: Nodes, starts: tuple[Nodes, ...], sizes) -> tuple[slice, ...]:
    at = [int(_known(g, s, name)) for s in starts]
    at = [min(max(a, 0), n - size) for a, n, size in zip(at, x.shape, sizes, strict=True)]
    return tuple(slice(a, a + size) for a, size in zip(at, sizes, strict=True))


def _dynamic_slice(g: Graph, eqn, x: Nodes, *starts: Nodes) -> Nodes:
    moving = [axis for axis, s in enumerate(starts) if concrete(g, s) is None]
    if len(moving) == 1:  # one index is computed from the state: choose among all its values
        (axis,) = moving
        last = x.shape[axis] - eqn.params["slice_sizes"][axis]
        at = [[*starts[:axis], np.asarray(g.constant(k)), *starts[axis + 1 :]] for k in range(last + 1)]
        result = _dynamic_slice(g, eqn, x, *at[0])
        for k in range(1, last + 1):
            reached = np.asarray(g.apply("ge", int(starts[axis]), g.constant(k)))
            result = elementwise(g, "select", reached, _dynamic_slice(g, eqn, x, *at[k]), result)
        return result
    return x[_window(g, "dynamic_slice", x, starts, eqn.params["slice_sizes"])]


def _dynamic_update_slice(g: Graph, eqn, x: Nodes, update: Nodes, *starts: Nodes) -> Nodes:
    result = x.copy()
    result[_window(g, "dynamic_update_slice", x, starts, update.shape)] = update
    return result


def _positions(indices, grid, window_axes, skipped, index_map, batching, operand_shape, sizes):
    """Indices into the operand for every element of a gather's output (or a scatter's updates); and which are inside.

    grid: one array of coordinates per axis of the output. window_axes: its axes that run inside a slice. skipped: axes
    of the operand that no window axis runs along. sizes: of a slice, along each axis of the operand.
    """
    batch = tuple(grid[d] for d in range(len(grid)) if d not in window_axes)
    at = [np.zeros(grid[0].shape if len(grid) else (), np.int64) for _ in operand_shape]
    along = [d for d in range(len(operand_shape)) if d not in skipped]
    for axis, d in zip(window_axes, along, strict=True):
        at[d] = at[d] + grid[axis]
    inside = np.ones(at[0].shape if at else (), bool)
    for k, d in enumerate(index_map):
        start = indices[(*batch, k)]
        inside &= (start >= 0) & (start <= operand_shape[d] - sizes[d])
        at[d] = at[d] + np.clip(start, 0, operand_shape[d] - sizes[d])
    for d, source in zip(*batching, strict=True):
        at[d] = at[d] + batch[source]
    return tuple(at), inside


def _gather(g: Graph, eqn, x: Nodes, indices: Nodes) -> Nodes:
    known = concrete(g, indices)
    if known is not None:
        return _gather_at(g, eqn, x, known.astype(np.int64))
    if indices.shape[-1] != 1:
        raise Unsupported("gather", "with several indices that are computed from the state")
    axis = eqn.params["dimension_numbers"].start_index_map[0]
    choices = range(x.shape[axis] - eqn.params["slice_sizes"][axis] + 1)
    offset, grid = eqn.params["dimension_numbers"].offset_dims, np.indices(eqn.outvars[0].aval.shape)
    batch = tuple(a for d, a in enumerate(grid) if d not in offset)
    chosen = indices[(*batch, 0)]
    result = _gather_at(g, eqn, x, np.zeros(indices.shape, np.int64))
    for k in choices[1:]:
        here = _gather_at(g, eqn, x, np.full(indices.shape, k, np.int64))
        result = elementwise(g, "select", elementwise(g, "eq", chosen, np.asarray(g.constant(k))), here, result)
    return result


def _gather_at(g: Graph, eqn, x: Nodes, indices: np.ndarray) -> Nodes:
    p, d = eqn.params, eqn.params["dimension_numbers"]
    grid = np.indices(eqn.outvars[0].aval.shape)
    skipped = {*d.collapsed_slice_dims, *d.operand_batching_dims}
    batching = (d.operand_batching_dims, d.start_indices_batching_dims)
    at, inside = _positions(indices, grid, d.offset_dims, skipped, d.start_index_map, batching, x.shape, p["slice_sizes"])
    result = x[at]
    if "FILL" in str(p["mode"]) and not inside.all():
        kind = eqn.outvars[0].aval.dtype.kind
        fill = p["fill_value"] if p["fill_value"] is not None else (math.nan if kind == "f" else 0)
        result = np.where(inside, result, g.constant(fill))
    return result


def _scatter(combine: str | None) -> Callable:
    def scatter(g: Graph, eqn, x: Nodes, indices: Nodes, updates: Nodes) -> Nodes:
        known, result = concrete(g, indices), x.copy()
        if known is not None:
            _scatter_at(g, eqn, combine, result, known.astype(np.int64), updates, None)
            return result
        if indices.shape[-1] != 1:
            raise Unsupported("scatter", "with several indices that are computed from the state")
        d = eqn.params["dimension_numbers"]
        batch = tuple(a for k, a in enumerate(np.indices(updates.shape)) if k not in d.update_window_dims)
        chosen = indices[(*batch, 0)]
        for k in range(x.shape[d.scatter_dims_to_operand_dims[0]]):
            here = elementwise(g, "eq", chosen, np.asarray(g.constant(k)))
            _scatter_at(g, eqn, combine, result, np.full(indices.shape, k, np.int64), updates, here)
        return result

    return scatter


def _scatter_at(g: Graph, eqn, combine, result: Nodes, indices: np.ndarray, updates: Nodes, where: Nodes | None) -> None:
    """Write updates into result, or combine them with what is there; with `where`, only where that is true."""
    p, d = eqn.params, eqn.params["dimension_numbers"]
    skipped = {*d.inserted_window_dims, *d.operand_batching_dims}
    sizes, window = [1] * result.ndim, list(d.update_window_dims)
    for axis, along in zip(window, (k for k in range(result.ndim) if k not in skipped), strict=True):
        sizes[along] = updates.shape[axis]
    batching = (d.operand_batching_dims, d.scatter_indices_batching_dims)
    grid = np.indices(updates.shape)
    at, inside = _positions(indices, grid, window, skipped, d.scatter_dims_to_operand_dims, batching, result.shape, sizes)
    keep = inside if "CLIP" not in str(p["mode"]) else np.ones_like(inside)
    columns = [np.broadcast_to(a, updates.shape)[keep].tolist() for a in at]
    conditions = np.full(updates.shape, g.true) if where is None else where
    for *place, value, here in zip(*columns, updates[keep].tolist(), conditions[keep].tolist(), strict=True):
        old = int(result[tuple(place)])
        new = value if combine is None else g.apply(combine, old, value)
        result[tuple(place)] = g.apply("select", here, new, old)


def _reduce(op: str, empty: Any) -> Callable:
    def reduce(g: Graph, eqn, x: Nodes) -> Nodes:
        axes = eqn.params["axes"]
        kept = [d for d in range(x.ndim) if d not in axes]
        size = math.prod(x.shape[d] for d in axes)
        rows = np.transpose(x, [*kept, *axes]).reshape(*(x.shape[d] for d in kept), size)
        start = False if op == "or" else True if op == "and" else empty
        if eqn.outvars[0].aval.dtype.kind in "iu" and op in ("add", "mul"):
            start = int(empty)
        columns = [rows[..., k] for k in range(size)]
        combine = lambda a, b: elementwise(g, op, a, b)  # noqa: E731
        return paired(combine, columns, constants(g, np.full(rows.shape[:-1], start)))

    return reduce


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
    (left, right), (left_batch, right_batch) = eqn.params["dimension_numbers"]
    rows = [d for d in range(a.ndim) if d not in (*left, *left_batch)]
    columns = [d for d in range(b.ndim) if d not in (*right, *right_batch)]
    batch = [a.shape[d] for d in left_batch]
    inner = math.prod(a.shape[d] for d in left)
    x = np.transpose(a, [*left_batch, *rows, *left]).reshape(*batch, math.prod(a.shape[d] for d in rows), 1, inner)
    y = np.transpose(b, [*right_batch, *columns, *right]).reshape(*batch, 1, math.prod(b.shape[d] for d in columns), inner)
    shape = (*batch, *(a.shape[d] for d in rows), *(b.shape[d] for d in columns))
    zero = g.zero if eqn.outvars[0].aval.dtype.kind == "f" else g.constant(0)
    result = np.full((*batch, x.shape[-3], y.shape[-2]), zero, np.int64)
    for k in range(inner):
        result = elementwise(g, "add", result, elementwise(g, "mul", x[..., k], y[..., k]))
    return result.reshape(shape)


def _iota(g: Graph, eqn) -> Nodes:
    p = eqn.params
    along = np.arange(p["shape"][p["dimension"]], dtype=p["dtype"])
    shape = [1] * len(p["shape"])
    shape[p["dimension"]] = -1
    return constants(g, np.broadcast_to(along.reshape(shape), p["shape"]))


def _split(g: Graph, eqn, x: Nodes) -> list[Nodes]:
    return np.split(x, np.cumsum(eqn.params["sizes"])[:-1], axis=eqn.params["axis"])


def _argument(op: str) -> Callable:
    def argument(g: Graph, eqn, x: Nodes) -> Nodes:
        rows = np.moveaxis(x, eqn.params["axes"][0], 0)
        best, index = rows[0], constants(g, np.zeros(rows.shape[1:], np.int64))
        for k in range(1, rows.shape[0]):
            better = elementwise(g, op, rows[k], best)
            best = elementwise(g, "select", better, rows[k], best)
            index = elementwise(g, "select", better, np.asarray(g.constant(k)), index)
        return index

    return argument


def _expand(g: Graph, eqn, x: Nodes) -> Nodes:
    return x.reshape(eqn.outvars[0].aval.shape)


STRUCTURE: dict[str, Callable[..., Any]] = {
    "broadcast_in_dim": _broadcast, "slice": _slice, "pad": _pad, "iota": _iota, "split": _split,
    "dynamic_slice": _dynamic_slice, "dynamic_update_slice": _dynamic_update_slice, "gather": _gather,
    "reshape": _expand, "squeeze": _expand, "expand_dims": _expand,
    "transpose": lambda g, eqn, x: np.transpose(x, eqn.params["permutation"]),
    "rev": lambda g, eqn, x: np.flip(x, eqn.params["dimensions"]),
    "concatenate": lambda g, eqn, *x: np.concatenate(x, axis=eqn.params["dimension"]),
    "stack": lambda g, eqn, *x: np.stack(x, axis=eqn.params["axis"]),
    "unstack": lambda g, eqn, x: list(np.moveaxis(x, eqn.params["axis"], 0)),
    "tile": lambda g, eqn, x: np.tile(x, eqn.params["reps"]),
    "scatter": _scatter(None), "scatter-add": _scatter("add"), "scatter_add": _scatter("add"),
    "scatter-mul": _scatter("mul"), "scatter_mul": _scatter("mul"),
    "scatter_min": _scatter("min"), "scatter_max": _scatter("max"),
    "scatter-min": _scatter("min"), "scatter-max": _scatter("max"),
    "reduce_sum": _reduce("add", 0.0), "reduce_prod": _reduce("mul", 1.0), "reduce_max": _reduce("max", -math.inf),
    "reduce_min": _reduce("min", math.inf), "reduce_and": _reduce("and", True), "reduce_or": _reduce("or", False),
    "cumsum": _cumulative("add"), "cumprod": _cumulative("mul"), "cummax": _cumulative("max"),
    "cummin": _cumulative("min"), "dot_general": _dot_general,
    "argmax": _argument("gt"), "argmin": _argument("lt"),
}  # fmt: skip
