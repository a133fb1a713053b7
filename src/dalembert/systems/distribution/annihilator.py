"""From virtual displacements to reactions: a basis of the annihilator of the columns of B."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float


def annihilator(basis: Float[Array, "n d"]) -> Float[Array, "m n"]:
    """Rows R with R B = 0, m = n - d.

    For m = 1 the generalised cross product, R_i = (-1)^(n+i) det(B without row i): smooth; (b_y, -b_x) for n = 2.
    For m > 1 the last rows of Qᵀ of a Householder factorization B = QU, the first of them with the sign that makes
    det [B Rᵀ] positive: orthonormal, of one orientation, but turned at once where a reflection changes sign. The force Rᵀλ
    is smooth in both cases; rely on it and not on λ when m > 1.
    """
    n, d = basis.shape
    if n - d == 1:
        minors = [jnp.linalg.det(jnp.delete(basis, i, axis=0)) if d else jnp.ones(()) for i in range(n)]
        signs = jnp.array([(-1.0) ** (n + i) for i in range(n)])
        return (signs * jnp.stack(minors))[None, :]
    q, work, sign = jnp.eye(n), basis, 1.0
    for k in range(d):
        x = work[k:, k]
        side = jnp.where(x[0] >= 0, 1.0, -1.0)
        sign = sign * side
        w = x.at[0].add(side * jnp.linalg.norm(x))
        w = jnp.concatenate([jnp.zeros(k), w / jnp.linalg.norm(w)])
        work = work - 2.0 * jnp.outer(w, w @ work)
        q = q - 2.0 * jnp.outer(q @ w, w)
    return q[:, d:].T.at[0].multiply(sign)
