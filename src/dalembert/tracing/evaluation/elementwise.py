"""Elementwise primitives and linear algebra of JAX as functions of NumPy; what LAPACK cannot factor gives NaN, as in JAX."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np


def _quotient(x, y):
    if x.dtype.kind == "f":
        return np.divide(x, y)
    by = np.where(y == 0, 1, y)
    down = np.floor_divide(x, by)
    apart = (x != down * by) & ((x < 0) != (by < 0))  # XLA: towards zero, and -1 for x/0
    return np.where(y == 0, np.array(-1).astype(x.dtype), down + apart).astype(x.dtype)


def _remainder(x, y):
    return np.fmod(x, y) if x.dtype.kind == "f" else np.where(y == 0, x, np.fmod(x, np.where(y == 0, 1, y)))


def _power(eqn: Any) -> Callable:
    """xʸ by squaring, as XLA does: NumPy's own power differs in the last bits, and takes longer."""
    y = eqn.params["y"]

    def power(x):
        result, square, rest = None, x, abs(y)
        while rest:
            if rest & 1:
                result = square if result is None else result * square
            rest >>= 1
            square = square * square if rest else square
        result = np.ones_like(x) if result is None else result
        return 1.0 / result if y < 0 else result

    return power


def _round(eqn: Any) -> Callable:
    if int(eqn.params["rounding_method"]) == 1:
        return np.rint
    half = np.nextafter(0.5, 0.0)
    return lambda x: np.trunc(x + np.copysign(half, x))


def _select(eqn: Any) -> Callable:
    if eqn.invars[0].aval.dtype == bool:
        return lambda which, no, yes: np.where(which, yes, no)
    return lambda which, *cases: np.choose(np.clip(which, 0, len(cases) - 1), cases)


def converted(x, dtype):
    """An array of another type: a number that is none becomes 0, and one out of range the end of the range."""
    if x.dtype.kind == "f" and dtype.kind in "iu":
        ends = np.iinfo(dtype)
        inside = np.where((x > float(ends.min)) & (x < float(ends.max)), x, 0.0).astype(dtype)
        return np.where(x >= float(ends.max), ends.max, np.where(x <= float(ends.min), ends.min, inside)).astype(dtype)
    return x.astype(dtype)


def _convert(eqn: Any) -> Callable:
    dtype = np.dtype(eqn.params["new_dtype"])
    return lambda x: x if x.dtype == dtype else converted(x, dtype)


def _precision(eqn: Any) -> Callable | None:
    return _same if (eqn.params["exponent_bits"], eqn.params["mantissa_bits"]) == (11, 52) else None


def _special(name: str) -> Callable:
    def rule(eqn: Any) -> Callable:
        import scipy.special

        return getattr(scipy.special, name)

    return rule


def _same(x):
    return x


def _logistic(x):
    return 1.0 / (1.0 + np.exp(-x))


_PLAIN: dict[str, Callable] = {
    "add": np.add, "add_any": np.add, "sub": np.subtract, "mul": np.multiply, "div": _quotient, "rem": _remainder,
    "neg": np.negative, "abs": np.abs, "max": np.maximum, "min": np.minimum, "sqrt": np.sqrt, "cbrt": np.cbrt,
    "sign": np.sign, "floor": np.floor, "ceil": np.ceil, "atan2": np.arctan2, "is_finite": np.isfinite, "sin": np.sin,
    "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh,
    "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "exp": np.exp,
    "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert, "nextafter": np.nextafter, "square": np.square,
    "one_minus_square": lambda x: (1 + x) * (1 - x), "log2": lambda x: np.log(x) * np.log2(np.e),
    "polynomial": lambda x, *a: functools.reduce(lambda y, c: y * x + c, a[-2::-1], a[-1]),
    "pow": np.power, "rsqrt": lambda x: 1.0 / np.sqrt(x), "logistic": _logistic,
    "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
    **dict.fromkeys(("copy", "copy_p", "stop_gradient", "sharding_constraint", "pvary"), _same),
}  # fmt: skip

ELEMENTWISE: dict[str, Callable[[Any], Callable | None]] = {
    **{name: functools.partial(lambda function, eqn: function, function) for name, function in _PLAIN.items()},
    **{name: _special(of) for name, of in {"erf": "erf", "erfc": "erfc", "lgamma": "gammaln"}.items()},
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
}


def _lu(eqn: Any) -> Callable:
    import scipy.linalg as linalg

    lapack: Any = linalg.lapack

    shapes = [v.aval.shape for v in eqn.outvars]

    def factor(a):
        result, pivots, order = (
            np.empty(shape, kind) for shape, kind in zip(shapes, (float, np.int32, np.int32), strict=True)
        )
        if not a.size:  # LAPACK complains, on the terminal
            return [result, pivots, np.broadcast_to(np.arange(a.shape[-2], dtype=np.int32), shapes[2])]
        for i in np.ndindex(*a.shape[:-2]):
            result[i], pivots[i], _ = lapack.dgetrf(a[i])
            order[i] = _permute(pivots[i], a.shape[-2])
        return [result, pivots, order]

    return factor


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


def _cholesky(eqn: Any) -> Callable:
    import scipy.linalg as linalg

    lapack: Any = linalg.lapack

    def factor(a):
        result = np.empty(a.shape)
        for i in np.ndindex(*a.shape[:-2]) if a.size else ():
            found, info = lapack.dpotrf(a[i], lower=1, clean=1)
            result[i] = found if info == 0 else np.tril(np.full(found.shape, np.nan))
        return result

    return factor


def _where_finite(function: Callable) -> Callable:
    """function(a), and NaN in all results of a matrix that is not finite, which NumPy refuses."""

    def apply(a):
        finite = np.isfinite(a).all(axis=(-2, -1))
        if finite.all():
            return function(a)
        found = function(np.where(finite[..., None, None], a, 0.0))
        return [np.where(finite.reshape(finite.shape + (1,) * (x.ndim - finite.ndim)), x, np.nan) for x in found]

    return apply


def _svd(eqn: Any) -> Callable | None:
    p = eqn.params
    if p.get("subset_by_index") is not None:
        return None
    if not p["compute_uv"]:
        return _where_finite(lambda a: [np.linalg.svd(a, compute_uv=False)])

    def decompose(a):
        u, s, v = np.linalg.svd(a, full_matrices=p["full_matrices"])
        return [s, u, v]

    return _where_finite(decompose)


def _eigh(eqn: Any) -> Callable | None:
    p = eqn.params
    if p.get("subset_by_index") is not None:
        return None

    def decompose(a):
        values, vectors = np.linalg.eigh(a, "L" if p["lower"] else "U")
        return [vectors, values]

    return _where_finite(decompose)


def _qr(eqn: Any) -> Callable | None:
    p = eqn.params
    if p["pivoting"]:
        return None
    decompose = _where_finite(lambda a: np.linalg.qr(a, "complete" if p["full_matrices"] else "reduced"))

    def factor(a):
        q, r = decompose(a)
        return [q, np.triu(r)]

    return factor


LINEAR: dict[str, Callable[[Any], Callable | None]] = {
    "lu": _lu,
    "lu_pivots_to_permutation": _permutation,
    "triangular_solve": _triangular_solve,
    "cholesky": _cholesky,
    "svd": _svd,
    "eigh": _eigh,
    "qr": _qr,
}
