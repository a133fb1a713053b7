"""The shortest x with J x = f, for a few rows: Gauss-Newton's step onto constraints."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float


def least_norm(rows: Float[Array, "m n"], side: Float[Array, "m"]) -> Float[Array, "n"]:
    """Jᵀ(JJᵀ)⁻¹f; NaN or infinite where the rows are dependent."""
    return rows.T @ (inverse(rows @ rows.T) @ side)


def inverse(a: Float[Array, "m m"]) -> Float[Array, "m m"]:
    """a⁻¹; for m = 1, 2 written out, as matrices that small are not worth a call of LAPACK, nor its time to compile."""
    if a.shape[0] == 1:
        return 1.0 / a
    if a.shape[0] == 2:
        adjugate = jnp.stack([a[1, 1], -a[0, 1], -a[1, 0], a[0, 0]]).reshape(2, 2)  # no sums: rows may differ in unit
        return adjugate / (a[0, 0] * a[1, 1] - a[0, 1] * a[1, 0])
    return jnp.linalg.inv(a)
