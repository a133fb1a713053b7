"""Gather and scatter, also at one index that is computed from the state."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from dalembert.native.graph.graph import Graph, Unsupported
from dalembert.native.trace.elementwise import Nodes, concrete, constants, elementwise


class _Slices(NamedTuple):
    """How a gather or a scatter sees its operand. window_axes: axes of the output that run inside a slice. skipped: axes of
    the operand that no window axis runs along. sizes: of a slice, along each axis of the operand."""

    window_axes: Sequence[int]
    skipped: set[int]
    index_map: Sequence[int]
    batching: tuple[Sequence[int], Sequence[int]]
    sizes: Sequence[int]


def _positions(indices, grid, slices: _Slices, operand_shape):
    """Indices into the operand for every element of a gather's output (or a scatter's updates); and which are inside.

    grid: one array of coordinates per axis of the output.
    """
    window_axes, skipped, index_map, batching, sizes = slices
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


def _moving(g: Graph, name: str, indices: Nodes) -> tuple[np.ndarray, int | None]:
    """The values of the indices, and the one column of them that is computed from the state; None where there is none."""
    columns = [concrete(g, indices[..., k]) for k in range(indices.shape[-1])]
    moving = [k for k, column in enumerate(columns) if column is None]
    if len(moving) > 1:
        raise Unsupported(name, "with several indices that are computed from the state")
    zeros = np.zeros(indices.shape[:-1], np.int64)
    known = np.stack([zeros if column is None else column.astype(np.int64) for column in columns] or [zeros], axis=-1)
    return known[..., : len(columns)], moving[0] if moving else None


def _at(known: np.ndarray, column: int, value: int) -> np.ndarray:
    """The indices with one value in all of a column."""
    result = known.copy()
    result[..., column] = value
    return result


def gather(g: Graph, eqn, x: Nodes, indices: Nodes) -> Nodes:
    """An index that is computed chooses among all its values; one outside is moved to the nearest, or gives `_fill`."""
    if "ONE_HOT" in str(eqn.params["mode"]):
        raise Unsupported("gather", "in the mode one_hot")
    known, column = _moving(g, "gather", indices)
    result = _gather_at(g, eqn, x, known)
    if column is None:
        return result
    d, grid = eqn.params["dimension_numbers"], np.indices(eqn.outvars[0].aval.shape)
    axis = d.start_index_map[column]
    last = x.shape[axis] - eqn.params["slice_sizes"][axis]
    chosen = indices[(*(a for k, a in enumerate(grid) if k not in d.offset_dims), column)]
    for k in range(1, last + 1):
        reached = elementwise(g, "ge", chosen, np.asarray(g.constant(k)))
        result = elementwise(g, "select", reached, _gather_at(g, eqn, x, _at(known, column, k)), result)
    if "FILL" not in str(eqn.params["mode"]):
        return result
    ends = (("ge", 0), ("le", last))
    inside = elementwise(g, "and", *(elementwise(g, op, chosen, np.asarray(g.constant(k))) for op, k in ends))
    return elementwise(g, "select", inside, result, np.asarray(_fill(g, eqn)))


def _fill(g: Graph, eqn) -> int:
    """What stands for an element outside; if none is given NaN, true, the least signed or the largest unsigned integer."""
    given, dtype = eqn.params["fill_value"], eqn.outvars[0].aval.dtype
    if given is None and dtype.kind in "iu":
        given = np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max
    elif given is None:
        given = math.nan if dtype.kind == "f" else True
    return int(constants(g, np.asarray(given, dtype)))


def _gather_at(g: Graph, eqn, x: Nodes, indices: np.ndarray) -> Nodes:
    p, d = eqn.params, eqn.params["dimension_numbers"]
    grid = np.indices(eqn.outvars[0].aval.shape)
    skipped = {*d.collapsed_slice_dims, *d.operand_batching_dims}
    batching = (d.operand_batching_dims, d.start_indices_batching_dims)
    slices = _Slices(d.offset_dims, skipped, d.start_index_map, batching, p["slice_sizes"])
    at, inside = _positions(indices, grid, slices, x.shape)
    result = x[at]
    if "FILL" in str(p["mode"]) and not inside.all():
        result = np.where(inside, result, _fill(g, eqn))
    return result


def scatter(combine: str | None) -> Callable:
    def put(g: Graph, eqn, x: Nodes, indices: Nodes, updates: Nodes) -> Nodes:
        if combine is None and eqn.params["update_jaxpr"] is not None:
            raise Unsupported("scatter", "with a function of what is there")
        known, column = _moving(g, "scatter", indices)
        result, d = x.copy(), eqn.params["dimension_numbers"]
        if column is None:
            _scatter_at(g, eqn, combine, result, known, updates)
            return result
        axis, grid = d.scatter_dims_to_operand_dims[column], np.indices(updates.shape)
        last = x.shape[axis] - _window_sizes(d, updates.shape, x.ndim)[axis]
        chosen = indices[(*(a for k, a in enumerate(grid) if k not in d.update_window_dims), column)]
        if "CLIP" in str(eqn.params["mode"]):
            chosen = elementwise(g, "min", elementwise(g, "max", chosen, np.asarray(g.constant(0))), constants(g, last))
        chosen = np.broadcast_to(chosen, updates.shape)
        for k in range(last + 1):
            here = elementwise(g, "eq", chosen, np.asarray(g.constant(k)))
            _scatter_at(g, eqn, combine, result, _at(known, column, k), updates, where=here)
        return result

    return put


def _window_sizes(d, updates: tuple[int, ...], ndim: int) -> list[int]:
    """How far a window of the updates reaches along each axis of the operand."""
    skipped = {*d.inserted_window_dims, *d.operand_batching_dims}
    sizes = [1] * ndim
    for axis, along in zip(d.update_window_dims, (k for k in range(ndim) if k not in skipped), strict=True):
        sizes[along] = updates[axis]
    return sizes


def _scatter_at(
    g: Graph, eqn, combine, result: Nodes, indices: np.ndarray, updates: Nodes, *, where: Nodes | None = None
) -> None:
    """Write updates into result, or combine them with what is there; with `where`, only where that is true."""
    p, d = eqn.params, eqn.params["dimension_numbers"]
    skipped = {*d.inserted_window_dims, *d.operand_batching_dims}
    sizes, window = _window_sizes(d, updates.shape, result.ndim), list(d.update_window_dims)
    batching = (d.operand_batching_dims, d.scatter_indices_batching_dims)
    grid = np.indices(updates.shape)
    slices = _Slices(window, skipped, d.scatter_dims_to_operand_dims, batching, sizes)
    at, inside = _positions(indices, grid, slices, result.shape)
    keep = inside if "CLIP" not in str(p["mode"]) else np.ones_like(inside)
    columns = [np.broadcast_to(a, updates.shape)[keep].tolist() for a in at]
    conditions = np.full(updates.shape, g.true) if where is None else where
    for *place, value, here in zip(*columns, updates[keep].tolist(), conditions[keep].tolist(), strict=True):
        old = int(result[tuple(place)])
        new = value if combine is None else int(elementwise(g, combine, np.asarray(old), np.asarray(value)))
        result[tuple(place)] = g.apply("select", here, new, old)
