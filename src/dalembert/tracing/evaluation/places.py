"""Where the elements lie that a gather takes out of its operand, or a scatter puts there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Slices(NamedTuple):
    """How a gather or a scatter sees its operand. window_axes: axes of the output that run inside a slice. skipped: axes of
    the operand that no window axis runs along. sizes: of a slice, along each axis of the operand."""

    window_axes: Sequence[int]
    skipped: set[int]
    index_map: Sequence[int]
    batching: tuple[Sequence[int], Sequence[int]]
    sizes: Sequence[int]


def gathered(eqn) -> Slices:
    """Of a gather."""
    d = eqn.params["dimension_numbers"]
    skipped = {*d.collapsed_slice_dims, *d.operand_batching_dims}
    batching = (d.operand_batching_dims, d.start_indices_batching_dims)
    return Slices(d.offset_dims, skipped, d.start_index_map, batching, eqn.params["slice_sizes"])


def scattered(eqn, updates: tuple[int, ...], ndim: int) -> Slices:
    """Of a scatter into an array of ndim axes."""
    d = eqn.params["dimension_numbers"]
    skipped = {*d.inserted_window_dims, *d.operand_batching_dims}
    batching = (d.operand_batching_dims, d.scatter_indices_batching_dims)
    sizes = [1] * ndim  # how far a window of the updates reaches along each axis of the operand
    for axis, along in zip(d.update_window_dims, (k for k in range(ndim) if k not in skipped), strict=True):
        sizes[along] = updates[axis]
    return Slices(list(d.update_window_dims), skipped, d.scatter_dims_to_operand_dims, batching, sizes)


def positions(indices, grid, slices: Slices, operand_shape) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
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


def fill_value(eqn) -> np.ndarray:
    """What stands for an element outside; if none is given NaN, true, the least signed or the largest unsigned integer."""
    given, dtype = eqn.params["fill_value"], eqn.outvars[0].aval.dtype
    if given is None and dtype.kind in "iu":
        given = np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max
    elif given is None:
        given = np.nan if dtype.kind == "f" else True
    return np.asarray(given, dtype)
