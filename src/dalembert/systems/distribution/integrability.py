"""Integrability of constraints that are affine in v, that is, whether they restrict positions too: Frobenius' theorem in the
space of (q, t)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.systems.distribution.reduction import constraint_rows, velocity_constraints
from dalembert.systems.system import System
from dalembert.tracing import seldom

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


WIDTH = 1e-3  # of the coordinates' sizes, of the differences by which forms are differentiated
STENCIL = ((-2.0, 1.0 / 12.0), (-1.0, -2.0 / 3.0), (1.0, 2.0 / 3.0), (2.0, -1.0 / 12.0))  # f' to order 4
CURVED = 1e-3  # dω on D, relative to its terms, below which it is an error of these differences
ROUNDING = 1e-5  # of the forms: what may be left of their slopes where they are constant
NEARBY = 0.1  # of the sizes: how far off closedness is looked at, because at single points curvature may vanish

Forms = Callable[[np.ndarray], np.ndarray]  # points x (K, n+1) → W (K, r, n+1)


def leaf_forms(system: System, x: Float[np.ndarray, "n+1"], scale: Float[np.ndarray, "n+1"]) -> Forms | None:
    """W(x) dx = 0, x = (q, t) in units of `scale`: a basis of the forms whose functions the constraints keep.

    The derived systems I ⊃ I' ⊃ …, I' = {ω ∈ I: dω = 0 on ker I}, end with the largest integrable one (E. Cartan). I is
    spanned by the constraints of orders 0 and 1, affine in v. x, scale: where, and how far about; None: nothing is kept.
    """
    random = np.random.default_rng(0)
    speeds = scale[:-1] * random.standard_normal((2, len(x) - 1))
    if not system.constraints or not float(_affinity(system, x, speeds)) <= AFFINE:
        return None
    forms = lambda points: np.asarray(_forms(system, points, speeds[0])) * scale  # noqa: E731
    nearby = x + NEARBY * scale * random.uniform(-1.0, 1.0, len(x))
    while True:
        rank = forms(x[None]).shape[1]
        if min(len(solved_for(forms(at[None])[0])) for at in (x, nearby)) < rank:
            return None
        values = _closed_forms(forms, nearby[None], scale)[0]
        count = rank - int(np.sum(values > CURVED))
        if count in (0, rank):
            return forms if count else None
        forms = functools.partial(_derived_system, forms, scale, count)


@seldom
def _forms(system: System, points, v):
    return jax.vmap(lambda x: constraint_forms(system, x[:-1], jnp.asarray(v), x[-1]))(points)


@seldom
def _affinity(system: System, x, speeds):
    return affinity(system, jnp.asarray(x)[:-1], jnp.asarray(speeds[0]), jnp.asarray(speeds[1]), x[-1])


def solved_for(forms: np.ndarray, among: np.ndarray | slice = slice(-1)) -> list[int]:
    """Coordinates, as many as the rank, for which forms (r, n+1) can be solved; among: which, all without the time."""
    from scipy.linalg import qr

    places = np.arange(forms.shape[1])[among]
    factors: Any = qr(forms[:, places], pivoting=True, mode="economic")
    values = np.abs(np.diagonal(factors[1]))
    return sorted(int(places[i]) for i in factors[2][: int(np.sum(values > 1e-10 * values[:1].sum()))])


def _closed_forms(forms: Forms, points: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Singular values of dω on the kernel of all ω, relative to its terms, (K, ·), and their forms (K, r, n+1), the last of
    which are closed there."""
    columns = solved_for(forms(points[:1])[0])

    def solved(x: np.ndarray) -> np.ndarray:  # with a unit matrix in these columns: smooth
        found = forms(x)
        return np.linalg.solve(found[:, :, columns], found)

    omega, count = solved(points), len(scale)
    steps = np.array([at for at, _ in STENCIL])[:, None, None] * WIDTH * np.diag(scale)
    around = solved((points[:, None, None] + steps).reshape(-1, count)).reshape(len(points), len(STENCIL), count, -1, count)
    slopes = np.einsum("s,ksiaj->kaij", np.array([weight for _, weight in STENCIL]) / WIDTH, around)  # ∂_i ω_j
    basis = np.swapaxes(np.linalg.svd(omega, full_matrices=True)[2][:, omega.shape[1] :], 1, 2)
    other = np.swapaxes(slopes, 2, 3)
    on_kernel = lambda x, b: np.einsum("kaij,kip,kjq->kpqa", x, b, b).reshape(len(points), -1, omega.shape[1])  # noqa: E731
    terms = on_kernel(np.abs(slopes) + np.abs(other), np.abs(basis)).max(axis=2, keepdims=True)
    least = ROUNDING * np.abs(omega).max(axis=(1, 2))[:, None, None]
    _, values, rows = np.linalg.svd(on_kernel(slopes - other, basis) / (terms + least), full_matrices=True)
    return values, rows @ omega


def _derived_system(forms: Forms, scale: np.ndarray, count: int, points: np.ndarray) -> np.ndarray:
    return _closed_forms(forms, points, scale)[1][:, -count:]
