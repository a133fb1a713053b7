"""Whether constraints that are affine in v restrict positions too: Frobenius' theorem in the space of (q, t)."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.systems.distribution.reduction import constraint_rows, velocity_constraints
from dalembert.systems.system import System

Vector = Float[Array, "n"]

INTEGRABLE = 1e-9  # curvature, relative to the rate at which the constraint forms turn, that is taken as zero
AFFINE = 1e-9  # the same for φ_v at two velocities


def constraint_forms(system: System, q: Vector, v: Vector, t) -> Float[Array, "m n_plus_1"]:
    """ω = μ dq + b dt of the affine constraints μ(q, t) v + b(q, t) = 0, read off at any v."""
    rows = constraint_rows(system, q, v, t)
    return jnp.concatenate([rows, (velocity_constraints(system, q, v, t) - rows @ v)[:, None]], axis=1)


def forms_and_slopes(system: System, q: Vector, v: Vector, t):
    """ω (m, n+1) and ∂_i ω^α_j (m, n+1, n+1), j before i, at one point of (q, t) space."""
    n = q.shape[0]
    forms = lambda x: constraint_forms(system, x[:n], v, x[n])  # noqa: E731
    at = jnp.append(q, t)
    return forms(at), jax.jacfwd(forms)(at)


def affinity(system: System, q: Vector, v: Vector, w: Vector, t) -> Float[Array, ""]:
    """Largest change of φ_v from v to w, relative to φ_v: zero for constraints that are affine in v."""
    here, there = (constraint_rows(system, q, x, t) for x in (v, w))
    return jnp.max(jnp.abs(there - here), initial=0.0) / jnp.max(jnp.abs(here), initial=1e-300)


class Frobenius(NamedTuple):
    """curvature: largest |normal part of [X, Y]| over the points. reached: dimension of D + [D, D] at the first point.

    X, Y run through an orthonormal basis of D in (q, t) space; unit 1/length of the coordinates. at_point: at the first one.
    """

    curvature: float
    at_point: float
    integrable: bool
    reached: int


def brackets(omega: np.ndarray, slopes: np.ndarray) -> tuple[np.ndarray, float]:
    """The normal parts of [X, Y], -ω⁺dω(X, Y), (pairs, n+1), for X, Y in D = ker ω; and how fast the forms turn, |ω⁺∂ω|.

    D is integrable where they vanish all around. In (q, t) space constraints that depend on time are like any others, and
    dφ(q, t)/dt = 0 is integrable. Neither result depends on how the constraints are written.
    """
    exterior = np.swapaxes(slopes, 1, 2) - slopes  # dω_ij = ∂_i ω_j - ∂_j ω_i
    basis = np.linalg.svd(omega, full_matrices=True)[2][omega.shape[0] :].T
    inverse = np.linalg.pinv(omega)
    on_basis = np.einsum("aij,ik,jl->kla", exterior, basis, basis)
    turning = np.abs(np.einsum("ba,aji->bji", inverse, slopes)).max(initial=0.0)
    return -(on_basis @ inverse.T).reshape(-1, omega.shape[1]), float(turning)


def judge(omega: np.ndarray, slopes: np.ndarray) -> Frobenius:
    """The verdict of the points (K, ...), the first of which is the one in question."""
    found, turning = zip(*(brackets(*one) for one in zip(omega, slopes, strict=True)), strict=True)
    sizes = np.array([np.linalg.norm(one, axis=1).max(initial=0.0) for one in found])
    zero = INTEGRABLE * (1.0 + np.array(turning))
    values = np.linalg.svd(found[0], compute_uv=False) if found[0].size else np.zeros(0)
    dimension = omega.shape[2] - omega.shape[1] + int(np.sum(values > zero[0]))
    return Frobenius(float(sizes.max()), float(sizes[0]), bool(np.all(sizes <= zero)), dimension)
