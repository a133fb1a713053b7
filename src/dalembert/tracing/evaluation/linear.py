"""Linear algebra primitives of JAX by LAPACK, matrix by matrix; what cannot be factored gives NaN, as in JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


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
            order[i] = _permuted(pivots[i], a.shape[-2])
        return [result, pivots, order]

    return factor


def _permuted(pivots, n: int) -> np.ndarray:
    order = np.arange(n)
    for k, other in enumerate(pivots):
        order[[k, other]] = order[[other, k]]
    return order


def _permutation(eqn: Any) -> Callable:
    n = eqn.params["permutation_size"]
    return lambda pivots: np.apply_along_axis(_permuted, -1, pivots, n).astype(np.int32)


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


def _defined(function: Callable) -> Callable:
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
        return _defined(lambda a: [np.linalg.svd(a, compute_uv=False)])

    def decompose(a):
        u, s, v = np.linalg.svd(a, full_matrices=p["full_matrices"])
        return [s, u, v]

    return _defined(decompose)


def _eigh(eqn: Any) -> Callable | None:
    p = eqn.params
    if p.get("subset_by_index") is not None:
        return None

    def decompose(a):
        values, vectors = np.linalg.eigh(a, "L" if p["lower"] else "U")
        return [vectors, values]

    return _defined(decompose)


def _qr(eqn: Any) -> Callable | None:
    p = eqn.params
    if p["pivoting"]:
        return None
    decompose = _defined(lambda a: np.linalg.qr(a, "complete" if p["full_matrices"] else "reduced"))

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
