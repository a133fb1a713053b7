"""Primitives of JAX as functions of NumPy: elementwise, linear algebra, moves of elements, reductions and products.

Those are here that programs of this package often hold; any other is a program of XLA of its own. What LAPACK cannot factor
gives NaN, as in JAX.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

T = TypeVar("T")


def _quotient(x, y):
    if x.dtype.kind == "f":
        return np.divide(x, y)
    by = np.where(y == 0, 1, y)
    down = np.floor_divide(x, by)
    apart = (x != down * by) & ((x < 0) != (by < 0))  # XLA: towards zero, and -1 for x/0
    return np.where(y == 0, np.array(-1).astype(x.dtype), down + apart).astype(x.dtype)


def _remainder(x, y):
    return np.fmod(x, y) if x.dtype.kind == "f" else np.where(y == 0, x, np.fmod(x, np.where(y == 0, 1, y)))


def by_squaring(x: T, count: int, multiply: Callable[[T, T], T]) -> T | None:
    """The product of so many x, as XLA forms it; None of none."""
    result = None
    while count:
        if count & 1:
            result = x if result is None else multiply(result, x)
        count >>= 1
        x = multiply(x, x) if count else x
    return result


def _power(eqn: Any) -> Callable:
    """xʸ: NumPy's own power differs in the last bits, and takes longer."""
    y = eqn.params["y"]

    def power(x):
        found = by_squaring(x, abs(y), np.multiply)
        result = np.ones_like(x) if found is None else found
        return 1.0 / result if y < 0 else result

    return power


def round_away(x):
    """The nearest whole number, of two that are as near the one farther from zero."""
    return np.trunc(x + np.copysign(np.nextafter(0.5, 0.0), x))


def _round(eqn: Any) -> Callable:
    return np.rint if int(eqn.params["rounding_method"]) == 1 else round_away


def _select(eqn: Any) -> Callable:
    if eqn.invars[0].aval.dtype == bool:
        return lambda which, no, yes: np.where(which, yes, no)
    return lambda which, *cases: np.choose(np.clip(which, 0, len(cases) - 1), cases)


def convert(x, dtype):
    """An array of another type: a number that is none becomes 0, and one out of range the end of the range."""
    if x.dtype.kind == "f" and dtype.kind in "iu":
        ends = np.iinfo(dtype)
        inside = np.where((x > float(ends.min)) & (x < float(ends.max)), x, 0.0).astype(dtype)
        return np.where(x >= float(ends.max), ends.max, np.where(x <= float(ends.min), ends.min, inside)).astype(dtype)
    return x.astype(dtype)


def _convert(eqn: Any) -> Callable:
    dtype = np.dtype(eqn.params["new_dtype"])
    return lambda x: x if x.dtype == dtype else convert(x, dtype)


def _precision(eqn: Any) -> Callable | None:
    return _same if (eqn.params["exponent_bits"], eqn.params["mantissa_bits"]) == (11, 52) else None


def _same(x):
    return x


def _logistic(x):
    return 1.0 / (1.0 + np.exp(-x))


def _lu(eqn: Any) -> Callable:
    import scipy.linalg as linalg

    lapack: Any = linalg.lapack

    shapes = [v.aval.shape for v in eqn.outvars]

    def factor_lu(a):
        result, pivots, order = (
            np.empty(shape, kind) for shape, kind in zip(shapes, (float, np.int32, np.int32), strict=True)
        )
        if not a.size:  # LAPACK complains, on the terminal
            return [result, pivots, np.broadcast_to(np.arange(a.shape[-2], dtype=np.int32), shapes[2])]
        for i in np.ndindex(*a.shape[:-2]):
            result[i], pivots[i], _ = lapack.dgetrf(a[i])
            order[i] = _permute(pivots[i], a.shape[-2])
        return [result, pivots, order]

    return factor_lu


def _permute(pivots, n: int) -> np.ndarray:
    order = np.arange(n)
    for k, other in enumerate(pivots):
        order[[k, other]] = order[[other, k]]
    return order


def _permutation(eqn: Any) -> Callable:
    n = eqn.params["permutation_size"]
    return lambda pivots: np.apply_along_axis(_permute, -1, pivots, n).astype(np.int32)


def _triangular_solve(eqn: Any) -> Callable:
    import scipy.linalg as linalg

    blas: Any = linalg.blas

    p = eqn.params
    how = {"side": int(not p["left_side"]), "lower": int(p["lower"]), "trans_a": int(p["transpose_a"]),
           "diag": int(p["unit_diagonal"])}  # fmt: skip

    def solve(a, b):
        result = np.empty(b.shape)
        if result.size:
            for i in np.ndindex(*a.shape[:-2]):
                result[i] = blas.dtrsm(1.0, a[i], b[i], **how)
        return result

    return solve


def _svd(eqn: Any) -> Callable | None:
    """NaN in all results of a matrix that is not finite, which NumPy refuses."""
    p = eqn.params
    if p.get("subset_by_index") is not None:
        return None

    def decompose(a):
        finite = np.isfinite(a).all(axis=(-2, -1))
        found = np.linalg.svd(np.where(finite[..., None, None], a, 0.0), p["full_matrices"], p["compute_uv"])
        ordered = [found[1], found[0], found[2]] if p["compute_uv"] else [found]
        return [np.where(finite.reshape(finite.shape + (1,) * (x.ndim - finite.ndim)), x, np.nan) for x in ordered]

    return decompose


def _broadcast(eqn: Any) -> Callable:
    shape, along = eqn.params["shape"], eqn.params["broadcast_dimensions"]
    middle = [1] * len(shape)
    for axis, size in zip(along, eqn.invars[0].aval.shape, strict=True):
        middle[axis] = size
    return lambda x: np.broadcast_to(np.reshape(x, middle), shape)


def _slice(eqn: Any) -> Callable:
    p = eqn.params
    strides = p["strides"] or (1,) * len(p["start_indices"])
    at = tuple(slice(a, b, s) for a, b, s in zip(p["start_indices"], p["limit_indices"], strides, strict=True))
    return lambda x: x[at]


def _pad(eqn: Any) -> Callable:
    config, shape = eqn.params["padding_config"], eqn.invars[0].aval.shape
    sizes = [n + max(n - 1, 0) * inner + max(low, 0) + max(high, 0) for n, (low, high, inner) in zip(shape, config)]  # noqa: B905
    put = tuple(
        slice(max(low, 0), max(low, 0) + n + max(n - 1, 0) * inner, inner + 1)
        for n, (low, _, inner) in zip(shape, config)  # noqa: B905
    )
    kept = tuple(slice(max(-low, 0), size - max(-high, 0)) for size, (low, high, _) in zip(sizes, config))  # noqa: B905

    def pad(x, value):
        result = np.full(sizes, value, x.dtype)
        result[put] = x
        return result[kept]

    return pad


def window(starts, shape, sizes) -> tuple[slice, ...]:
    at = [min(max(int(a), 0), n - size) for a, n, size in zip(starts, shape, sizes, strict=True)]
    return tuple(slice(a, a + size) for a, size in zip(at, sizes, strict=True))


def _dynamic_slice(eqn: Any) -> Callable:
    sizes = eqn.params["slice_sizes"]
    return lambda x, *starts: x[window(starts, x.shape, sizes)]


def _dynamic_update_slice(eqn: Any) -> Callable:
    def update(x, part, *starts):
        result = np.array(x)
        result[window(starts, x.shape, part.shape)] = part
        return result

    return update


def _gather(eqn: Any) -> Callable | None:
    mode = str(eqn.params["mode"])
    if "ONE_HOT" in mode:
        return None
    grid, slices, filled = np.indices(eqn.outvars[0].aval.shape), gather_slices(eqn), "FILL" in mode
    fill = fill_value(eqn)

    def gather(x, indices):
        at, inside = positions(indices, grid, slices, x.shape)
        return np.where(inside, x[at], fill) if filled and not inside.all() else x[at]

    return gather


def _scatter(combine: np.ufunc | None) -> Callable:
    def rule(eqn: Any) -> Callable | None:
        if combine is None and eqn.params["update_jaxpr"] is not None:
            return None
        operand, updated = eqn.invars[0].aval.shape, eqn.invars[2].aval.shape
        grid, slices = np.indices(updated), scatter_slices(eqn, updated, len(operand))
        clipped = "CLIP" in str(eqn.params["mode"])

        def scatter(x, indices, updates):
            result = np.array(x)
            at, inside = positions(indices, grid, slices, operand)
            keep = np.ones_like(inside) if clipped else inside
            at, given = tuple(np.broadcast_to(a, updated)[keep] for a in at), np.asarray(updates)[keep]
            if combine is None:
                result[at] = given
            else:
                combine.at(result, at, given)
            return result

        return scatter

    return rule


def _reduction(ufunc: np.ufunc, empty: Any) -> Callable:
    def rule(eqn: Any) -> Callable:
        axes, dtype = tuple(eqn.params["axes"]), eqn.outvars[0].aval.dtype
        first = empty
        if dtype.kind in "iu" and first in (math.inf, -math.inf):
            first = np.iinfo(dtype).max if first > 0 else np.iinfo(dtype).min
        if dtype.kind == "b":
            first = bool(first > 0)
        return lambda x: ufunc.reduce(x, axis=axes, dtype=dtype, initial=first)

    return rule


def _dot_general(eqn: Any) -> Callable:
    (left, right), (left_batch, right_batch) = eqn.params["dimension_numbers"]
    a, b, out = eqn.invars[0].aval, eqn.invars[1].aval, eqn.outvars[0].aval
    if a.dtype == b.dtype == out.dtype and not left_batch and len(left) == 1 and left[0] == a.ndim - 1:
        if right[0] == max(b.ndim - 2, 0) and b.ndim <= 2:
            return np.dot
        if right[0] == 1 and b.ndim == 2:
            return lambda x, y: np.dot(x, y.T)
    rows = [d for d in range(a.ndim) if d not in (*left, *left_batch)]
    columns = [d for d in range(b.ndim) if d not in (*right, *right_batch)]
    batch, inner = tuple(a.shape[d] for d in left_batch), math.prod(a.shape[d] for d in left)
    first, second = [*left_batch, *rows, *left], [*right_batch, *right, *columns]
    height, width = math.prod(a.shape[d] for d in rows), math.prod(b.shape[d] for d in columns)

    def dot(x, y):
        x = np.transpose(convert(x, out.dtype), first).reshape(*batch, height, inner)
        y = np.transpose(convert(y, out.dtype), second).reshape(*batch, inner, width)
        return np.matmul(x, y).reshape(out.shape)

    return dot


def _iota(eqn: Any) -> Callable:
    p = eqn.params
    shape = [1] * len(p["shape"])
    shape[p["dimension"]] = -1
    values = np.broadcast_to(np.arange(p["shape"][p["dimension"]], dtype=p["dtype"]).reshape(shape), p["shape"])
    return lambda: values


def _split(eqn: Any) -> Callable:
    ends, axis = np.cumsum(eqn.params["sizes"])[:-1], eqn.params["axis"]
    return lambda x: np.split(x, ends, axis=axis)


def _shaped(eqn: Any) -> Callable:
    shape = eqn.outvars[0].aval.shape
    return lambda x: np.reshape(x, shape)


def _with(function: Callable, name: str, parameter: str) -> Callable:
    """A function of NumPy, one of whose options is a parameter of the primitive."""

    def rule(eqn: Any) -> Callable:
        options = {name: eqn.params[parameter]}
        return lambda x: function(x, **options)

    return rule


class Slices(NamedTuple):
    """Slices in which a gather or a scatter sees its operand. window_axes: axes of the output that run inside a slice.
    skipped: axes of the operand that no window axis runs along. sizes: of a slice, along each axis of the operand."""

    window_axes: Sequence[int]
    skipped: set[int]
    index_map: Sequence[int]
    batching: tuple[Sequence[int], Sequence[int]]
    sizes: Sequence[int]


def gather_slices(eqn) -> Slices:
    """Of a gather."""
    d = eqn.params["dimension_numbers"]
    skipped = {*d.collapsed_slice_dims, *d.operand_batching_dims}
    batching = (d.operand_batching_dims, d.start_indices_batching_dims)
    return Slices(d.offset_dims, skipped, d.start_index_map, batching, eqn.params["slice_sizes"])


def scatter_slices(eqn, updates: tuple[int, ...], ndim: int) -> Slices:
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
    """The value of an element outside; if none is given NaN, true, the least signed or the largest unsigned integer."""
    given, dtype = eqn.params["fill_value"], eqn.outvars[0].aval.dtype
    if given is None and dtype.kind in "iu":
        given = np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max
    elif given is None:
        given = np.nan if dtype.kind == "f" else True
    return np.asarray(given, dtype)


_SAME_NAME = ("abs", "sqrt", "cbrt", "sign", "floor", "ceil", "sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "exp2",
              "expm1", "log", "log1p", "nextafter", "square")  # fmt: skip
_ARC = ("asin", "acos", "atan", "atan2", "asinh", "acosh", "atanh")
ELEMENTARY: dict[str, Callable] = {
    **{name: getattr(np, name) for name in _SAME_NAME}, **{name: getattr(np, "arc" + name[1:]) for name in _ARC},
    "add": np.add, "add_any": np.add, "sub": np.subtract, "mul": np.multiply, "div": _quotient, "rem": _remainder,
    "neg": np.negative, "max": np.maximum, "min": np.minimum, "is_finite": np.isfinite, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert,
    "one_minus_square": lambda x: (1 + x) * (1 - x), "log2": lambda x: np.log(x) * np.log2(np.e),
    "polynomial": lambda x, *a: functools.reduce(lambda y, c: y * x + c, a[-2::-1], a[-1]),
    "pow": np.power, "rsqrt": lambda x: 1.0 / np.sqrt(x), "logistic": _logistic,
    "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
    **dict.fromkeys(("copy", "copy_p", "stop_gradient", "sharding_constraint", "pvary"), _same),
}  # fmt: skip

RULES: dict[str, Callable[[Any], Callable | None]] = {
    **{name: functools.partial(lambda function, eqn: function, function) for name, function in ELEMENTARY.items()},
    "integer_pow": _power,
    "round": _round,
    "select_n": _select,
    "convert_element_type": _convert,
    "reduce_precision": _precision,
    # Of Equinox, in its loops and checks: XLA would compile a program for each of them, about a hundred in a failed step.
    "select_if_vmap": lambda eqn: lambda which, yes, no: np.where(which, yes, no),
    "nondifferentiable_backward": lambda eqn: lambda x: x,
    "nonbatchable": lambda eqn: lambda x: x,
    "unvmap_any": lambda eqn: np.any,
    "lu": _lu,
    "lu_pivots_to_permutation": _permutation,
    "triangular_solve": _triangular_solve,
    "svd": _svd,
    "broadcast_in_dim": _broadcast, "slice": _slice, "pad": _pad, "iota": _iota, "split": _split,
    "dynamic_slice": _dynamic_slice, "dynamic_update_slice": _dynamic_update_slice, "gather": _gather,
    "dot_general": _dot_general,
    "reshape": _shaped, "squeeze": _shaped, "expand_dims": _shaped,
    "concatenate": lambda eqn: lambda *x, axis=eqn.params["dimension"]: np.concatenate(x, axis=axis),
    "stack": lambda eqn: lambda *x, axis=eqn.params["axis"]: np.stack(x, axis=axis),
    "unstack": lambda eqn: lambda x, axis=eqn.params["axis"]: list(np.moveaxis(x, axis, 0)),
    "tile": _with(np.tile, "reps", "reps"),
    "transpose": _with(np.transpose, "axes", "permutation"), "rev": _with(np.flip, "axis", "dimensions"),
    "scatter": _scatter(None), **{f"scatter{mark}{name}": _scatter(ufunc) for mark in "-_" for name, ufunc in (
        ("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("min", np.minimum), ("max", np.maximum))},
    "reduce_sum": _reduction(np.add, 0), "reduce_prod": _reduction(np.multiply, 1),
    "reduce_max": _reduction(np.maximum, -math.inf), "reduce_min": _reduction(np.minimum, math.inf),
    "reduce_and": _reduction(np.bitwise_and, 1), "reduce_or": _reduction(np.bitwise_or, 0),
}  # fmt: skip
