"""Gather and scatter, also at one index that is computed from the state."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dalembert.native.graph.graph import Graph, Unsupported
from dalembert.native.trace.elementwise import Nodes, concrete, constants, elementwise
from dalembert.tracing.evaluation.structure import fill_value, gathered, positions, scattered


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
    return int(constants(g, fill_value(eqn)))


def _gather_at(g: Graph, eqn, x: Nodes, indices: np.ndarray) -> Nodes:
    at, inside = positions(indices, np.indices(eqn.outvars[0].aval.shape), gathered(eqn), x.shape)
    result = x[at]
    if "FILL" in str(eqn.params["mode"]) and not inside.all():
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
        last = x.shape[axis] - scattered(eqn, updates.shape, x.ndim).sizes[axis]
        chosen = indices[(*(a for k, a in enumerate(grid) if k not in d.update_window_dims), column)]
        if "CLIP" in str(eqn.params["mode"]):
            chosen = elementwise(g, "min", elementwise(g, "max", chosen, np.asarray(g.constant(0))), constants(g, last))
        chosen = np.broadcast_to(chosen, updates.shape)
        for k in range(last + 1):
            here = elementwise(g, "eq", chosen, np.asarray(g.constant(k)))
            _scatter_at(g, eqn, combine, result, _at(known, column, k), updates, where=here)
        return result

    return put


def _scatter_at(
    g: Graph, eqn, combine, result: Nodes, indices: np.ndarray, updates: Nodes, *, where: Nodes | None = None
) -> None:
    """Write updates into result, or combine them with what is there; with `where`, only where that is true."""
    slices = scattered(eqn, updates.shape, result.ndim)
    at, inside = positions(indices, np.indices(updates.shape), slices, result.shape)
    keep = inside if "CLIP" not in str(eqn.params["mode"]) else np.ones_like(inside)
    columns = [np.broadcast_to(a, updates.shape)[keep].tolist() for a in at]
    conditions = np.full(updates.shape, g.true) if where is None else where
    for *place, value, here in zip(*columns, updates[keep].tolist(), conditions[keep].tolist(), strict=True):
        old = int(result[tuple(place)])
        new = value if combine is None else int(elementwise(g, combine, np.asarray(old), np.asarray(value)))
        result[tuple(place)] = g.apply("select", here, new, old)
