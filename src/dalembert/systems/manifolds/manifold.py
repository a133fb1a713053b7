"""Riemannian manifolds by a metric in a chart or by an embedding: covariant derivatives, curvature, and what follows from them."""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

Vector = Float[Array, "n"]

ITERATIONS = 100  # of the projection; from within the reach of the manifold it takes fewer than ten


@dataclasses.dataclass(frozen=True)
class Manifold(abc.ABC):
    """Dw/dt = P(q)(dw/dt + Γ(q)(q̇, w)): Γ of the metric in Rⁿ, P the orthogonal projector to the tangent space.

    Two manifolds of equal functions are equal, and share compiled code. The methods take points of one kind: coordinates q (n,) of a
    chart, or q (n,) in Rⁿ. Nothing is checked: a vector that shall be tangent is taken to be.
    """

    @abc.abstractmethod
    def gram(self, q: Vector) -> Float[Array, "n n"]:
        """The matrix G(q) of the metric."""

    @abc.abstractmethod
    def christoffel(self, q: Vector, u: Vector, w: Vector) -> Vector:
        """Γⁱⱼₗ uʲ wˡ of the metric in Rⁿ."""

    @abc.abstractmethod
    def tangent(self, q: Vector, x: Vector) -> Vector:
        """P(q) x: the part of x in the tangent space."""

    def inner(self, q: Vector, u: Vector, w: Vector) -> Float[Array, ""]:
        """⟨u, w⟩ = uᵀ G(q) w."""
        return u @ self.gram(q) @ w

    def covariant(self, q: Vector, u: Vector, w: Vector, rate: Vector) -> Vector:
        """Dw/dt of a field w along a curve with velocity u, from dw/dt = rate."""
        return self.tangent(q, rate + self.christoffel(q, u, w))

    def rate(self, q: Vector, u: Vector, w: Vector, covariant: Vector) -> Vector:
        """dw/dt from Dw/dt, the inverse: parallel transport for 0, geodesics for w = u. dw/dt = Dw/dt - PΓ(u, w) + (dP/dt) w."""
        turning = jax.jvp(lambda x: self.tangent(x, w), (q,), (u,))[1]
        return covariant - self.tangent(q, self.christoffel(q, u, w)) + turning

    def curvature(self, q: Vector, x: Vector, y: Vector, z: Vector) -> Vector:
        """R(x, y)z = ∇ₓ∇ᵧZ - ∇ᵧ∇ₓZ - ∇_[X,Y] Z, with the fields X = P x, Y = P y, Z = P z.

        On the unit sphere it is ⟨y, z⟩x - ⟨x, z⟩y.
        """
        fields = [functools.partial(_constant, self, vector=vector) for vector in (x, y, z)]
        first, second, third = fields
        bracket = jax.jvp(second, (q,), (first(q),))[1] - jax.jvp(first, (q,), (second(q),))[1]
        along = lambda u, w: lambda p: _nabla(self, p, u(p), w)  # noqa: E731
        swapped = _nabla(self, q, second(q), along(first, third))
        return _nabla(self, q, first(q), along(second, third)) - swapped - _nabla(self, q, bracket, third)

    def covariant_derivatives(self, jet: Sequence[Vector]) -> list[Vector]:
        """q̇, D/dt q̇, …, Dᵏ⁻¹/dtᵏ⁻¹ q̇ from jet = (q, q̇, …, q⁽ᵏ⁾), by differentiation along the jet."""
        functions = [lambda *jet: jet[1]]
        for _ in jet[2:]:
            functions.append(functools.partial(_next, self, functions[-1]))
        return [function(*jet[: j + 2]) for j, function in enumerate(functions)]


def _constant(manifold: Manifold, q: Vector, *, vector: Vector) -> Vector:
    """The field P(q) x of a constant x."""
    return manifold.tangent(q, vector)


def _nabla(manifold: Manifold, q: Vector, u: Vector, field: Callable[[Vector], Vector]) -> Vector:
    """∇ᵤ W of a field W."""
    w, change = jax.jvp(field, (q,), (u,))
    return manifold.covariant(q, u, w, change)


def _next(manifold: Manifold, function: Callable, *jet: Vector) -> Vector:
    """Dw/dt of w = function(q, q̇, …), from one derivative more than w reads."""
    w, change = jax.jvp(function, jet[:-1], jet[1:])
    return manifold.covariant(jet[0], jet[1], w, change)


@dataclasses.dataclass(frozen=True)
class Chart(Manifold):
    """⟨u, w⟩ = uᵀG(q)w in coordinates q (n,); Γ by differentiation of G.

    metric(q) → (n, n), symmetric and positive definite. Curves stay in one chart: a shortest curve that leaves it is not found.
    """

    metric: Callable

    def gram(self, q):
        return jnp.asarray(self.metric(q))

    def christoffel(self, q, u, w):
        return _christoffel(self.metric, q, u, w)

    def tangent(self, q, x):
        return x


@dataclasses.dataclass(frozen=True)
class Embedded(Manifold):
    """{φ(q) = 0} in Rⁿ with the metric of Rⁿ restricted to it: P = 1 - G⁻¹φ'ᵀ(φ'G⁻¹φ'ᵀ)⁻¹φ'.

    phi(q) → () or (m,) with φ' of rank m on the manifold; metric: a number c for ⟨u, w⟩ = c u·w, or a function q → (n, n).
    Away from φ = 0 all of this holds on the level sets of φ, so that discrete points near the manifold may be used.
    """

    phi: Callable
    metric: Callable | float = 1.0

    def gram(self, q):
        return jnp.asarray(self.metric(q)) if callable(self.metric) else self.metric * jnp.eye(q.shape[0])

    def christoffel(self, q, u, w):
        return _christoffel(self.metric, q, u, w) if callable(self.metric) else jnp.zeros_like(q)

    def tangent(self, q, x):
        rows = self.normals(q)
        up = jnp.linalg.solve(self.gram(q), rows.T) if callable(self.metric) else rows.T
        return x - up @ _solve(rows @ up, rows @ x)

    def normals(self, q: Vector) -> Float[Array, "m n"]:
        """φ'(q)."""
        return jax.jacrev(lambda x: jnp.atleast_1d(self.phi(x)))(q)

    def distance(self, q: Float[Array, "... n"]) -> Float[np.ndarray, "..."]:
        """|φ'⁺φ|, the distance in Rⁿ from q to the manifold up to terms of second order."""
        return np.linalg.norm(np.asarray(_vectorized(self, jnp.asarray(q, dtype=float))), axis=-1)

    def project(self, q: Float[Array, "... n"]) -> Float[Array, "... n"]:
        """Points of the manifold by q ← q - φ'⁺φ, Gauss-Newton's iteration: on a sphere the nearest ones.

        NaN where there is none, as at the centre of a sphere. Not under jit.
        """
        points = jnp.asarray(q, dtype=float)
        for _ in range(ITERATIONS):
            step = _vectorized(self, points)
            points = points - step
            if not float(jnp.nanmax(jnp.abs(step), initial=0.0)) > 4e-16 * float(jnp.nanmax(jnp.abs(points), initial=1.0)):
                break
        return points


def _christoffel(metric: Callable, q: Vector, u: Vector, w: Vector) -> Vector:
    """Γ(u, w) = ½G⁻¹((∂ᵤG)w + (∂_wG)u - ∂(uᵀGw))."""
    along = lambda x: jax.jvp(metric, (q,), (x,))[1]  # noqa: E731
    slope = jax.grad(lambda x: u @ metric(x) @ w)(q)
    return 0.5 * _solve(jnp.asarray(metric(q)), along(u) @ w + along(w) @ u - slope)


def _solve(a: Float[Array, "m m"], b: Float[Array, "m"]) -> Float[Array, "m"]:
    """a⁻¹b; for m = 1, 2 written out, as matrices that small are not worth a call of LAPACK for every window."""
    if a.shape[0] == 1:
        return b / a[0]
    if a.shape[0] == 2:
        determinant = a[0, 0] * a[1, 1] - a[0, 1] * a[1, 0]
        return jnp.stack([a[1, 1] * b[0] - a[0, 1] * b[1], a[0, 0] * b[1] - a[1, 0] * b[0]]) / determinant
    return jnp.linalg.solve(a, b)


@functools.partial(jax.jit, static_argnums=0)
def _vectorized(manifold: Embedded, q: Float[Array, "... n"]) -> Float[Array, "... n"]:
    """φ'⁺φ at many points."""

    def one(x):
        rows = manifold.normals(x)
        return rows.T @ _solve(rows @ rows.T, jnp.atleast_1d(manifold.phi(x)))

    return jax.vmap(one)(q.reshape(-1, q.shape[-1])).reshape(q.shape)
