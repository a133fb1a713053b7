"""Riemannian manifolds, by a metric in a chart or by an embedding: covariant derivatives and curvature. Ready to use:
sphere, ellipsoid, torus, hyperbolic plane, rotations."""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Callable, Sequence
from math import comb
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.algebra import inverse, least_norm
from dalembert.groups import rotation as rotation_of_unit
from dalembert.numbers import as_array, as_choice, as_function, as_numbers, as_positive
from dalembert.systems.pickling import reduced
from dalembert.systems.shapes import output_shape, run_on_shapes
from dalembert.tracing import Jitted

Vector = Float[Array, "n"]

ITERATIONS = 100  # of the projection; from within the reach of the manifold it takes fewer than ten


@dataclasses.dataclass(frozen=True)
class Manifold(abc.ABC):
    """Base class of manifolds with a metric.

    Dw/dt = P(q)(dw/dt + Γ(q)(q̇, w)): Γ of the metric in Rⁿ, P the orthogonal projector to the tangent space.

    The base class of Chart and Embedded. Two manifolds with equal functions are equal, and share compiled code. A point
    q (n,) lies in Rⁿ or in a chart. Nothing is checked: vectors are assumed to be tangent where they have to be.

    Attributes:
        gram: q → G(q), (n, n), the matrix of the metric.
        connection: q → P(q) and Γ(q).
    """

    __reduce__ = reduced

    @abc.abstractmethod
    def gram(self, q: Vector) -> Float[Array, "n n"]:
        """The matrix G(q) of the metric."""

    @abc.abstractmethod
    def connection(self, q: Vector) -> LeviCivita:
        """P(q) and Γ(q)."""

    def inner(self, q: Vector, u: Vector, w: Vector) -> Float[Array, ""]:
        """⟨u, w⟩ = uᵀ G(q) w."""
        return u @ self.gram(q) @ w

    def tangent(self, q: Vector, x: Vector) -> Vector:
        """P(q) x: the part of x in the tangent space."""
        return _project([self.connection(q)], [x], 0)

    def covariant(self, q: Vector, u: Vector, w: Vector, rate: Vector) -> Vector:
        """Dw/dt for a field w along a curve with velocity u, from dw/dt = rate."""
        return _apply([self.connection(q)], [q, u], [w, rate], 0)

    def rate(self, q: Vector, u: Vector, w: Vector, covariant: Vector) -> Vector:
        """dw/dt = Dw/dt - PΓ(u, w) + (dP/dt)w, the inverse of `covariant`: parallel transport for 0, geodesics for w = u."""
        turning = jax.jvp(lambda x: self.tangent(x, w), (q,), (u,))[1]
        return covariant - self.covariant(q, u, w, jnp.zeros_like(w)) + turning

    def curvature(self, q: Vector, x: Vector, y: Vector, z: Vector) -> Vector:
        """R(x, y)z = ∇ₓ∇ᵧZ - ∇ᵧ∇ₓZ - ∇_[X,Y] Z, with the fields X = P x, Y = P y, Z = P z.

        On the unit sphere it is ⟨y, z⟩x - ⟨x, z⟩y.
        """
        first, second, third = (lambda p, c=c: self.tangent(p, c) for c in (x, y, z))
        along = lambda u, field: lambda p: _nabla(self, p, u(p), field)  # noqa: E731
        bracket = jax.jvp(second, (q,), (first(q),))[1] - jax.jvp(first, (q,), (second(q),))[1]
        swapped = along(second, along(first, third))(q) + _nabla(self, q, bracket, third)
        return along(first, along(second, third))(q) - swapped

    def covariant_derivatives(self, jet: Sequence[Vector]) -> list[Vector]:
        """q̇, D/dt q̇, …, Dᵏ⁻¹/dtᵏ⁻¹ q̇ from jet = (q, q̇, …, q⁽ᵏ⁾).

        Only P and Γ are differentiated along the jet; the rest is the product rule. Nested derivatives of Dw/dt as a
        whole take twice as long to compile, and more for larger k.
        """
        k = len(jet) - 1
        along, function = [], lambda q: self.connection(q)
        for order in range(k - 1):
            along.append(function(*jet[: order + 1]))
            function = functools.partial(_time_derivative, function)
        fields = [list(jet[1:])]  # fields[j][i]: i-th time derivative of Dʲq̇
        for j in range(1, k):
            fields.append([_apply(along, jet, fields[-1], i) for i in range(k - j)])
        return [field[0] for field in fields]


class LeviCivita(NamedTuple):
    """U = G⁻¹φ'ᵀ(φ'G⁻¹φ'ᵀ)⁻¹ and φ', P = 1 - Uφ', and Γⁱⱼₗ (n, n, n); or their time derivatives. None is zero."""

    lift: Float[Array, "n m"] | None
    normals: Float[Array, "m n"] | None
    christoffel: Float[Array, "n n n"] | None


def _time_derivative(function: Callable, *jet: Vector):
    """d/dt function(q, q̇, …)."""
    return jax.jvp(function, jet[:-1], jet[1:])[1]


def _apply(along: Sequence[LeviCivita], jet: Sequence[Vector], w: Sequence[Vector], order: int) -> Vector:
    """The time derivative of that order of P(ẇ + Γ(q̇, w)), from those of P and Γ, of q and of w."""
    inside = []
    for i in range(order + 1):
        total = w[i + 1]
        if along[0].christoffel is not None:
            for a in range(i + 1):
                for b in range(i + 1 - a):
                    number = comb(i, a) * comb(i - a, b)
                    total = total + number * jnp.einsum("ijl,j,l->i", along[a].christoffel, jet[b + 1], w[i - a - b])
        inside.append(total)
    return _project(along, inside, order)


def _project(along: Sequence[LeviCivita], x: Sequence[Vector], order: int) -> Vector:
    """The time derivative of that order of P x. P is not formed: vectors compile in half the time."""
    result = x[order]
    for a in range(order + 1):
        for b in range(order + 1 - a):
            number, lift, rows = comb(order, a) * comb(order - a, b), along[a].lift, along[b].normals
            if lift is not None and rows is not None:
                result = result - number * _lift(lift, rows, x[order - a - b])
    return result


def _lift(lift: Float[Array, "n m"], rows: Float[Array, "m n"], x: Vector) -> Vector:
    return lift[:, 0] * (rows[0] @ x) if rows.shape[0] == 1 else lift @ (rows @ x)


def _nabla(manifold: Manifold, q: Vector, u: Vector, field: Callable[[Vector], Vector]) -> Vector:
    """∇ᵤ W of a field W."""
    w, change = jax.jvp(field, (q,), (u,))
    return manifold.covariant(q, u, w, change)


@dataclasses.dataclass(frozen=True)
class Chart(Manifold):
    """A manifold in coordinates, given by its metric.

    ⟨u, w⟩ = uᵀG(q)w in coordinates q (n,); Γ follows from derivatives of G.

    Only curves that stay inside the chart are found.

    Args:
        metric: `metric(q)` → (n, n), symmetric and positive definite.

    Raises:
        TypeError: metric is not a function.

    Example:
        >>> polar = da.manifolds.Chart(lambda q: jnp.diag(jnp.array([1.0, q[0] ** 2])))  # the plane in (r, φ)
        >>> float(polar.inner(jnp.array([2.0, 0.0]), jnp.array([0.0, 1.0]), jnp.array([0.0, 1.0])))
        4.0
    """

    metric: Callable

    def __post_init__(self):
        as_function(self.metric, "metric", "of q that returns (n, n)")

    def gram(self, q):
        return jnp.asarray(self.metric(q))

    def connection(self, q):
        return LeviCivita(None, None, _christoffel(self.metric, q))


@dataclasses.dataclass(frozen=True)
class Embedded(Manifold):
    """A manifold in space, given by equations.

    {φ(q) = 0} in Rⁿ with the metric of Rⁿ restricted to it: P = 1 - G⁻¹φ'ᵀ(φ'G⁻¹φ'ᵀ)⁻¹φ'.

    Off φ = 0 the same formulas hold on the level sets of φ, so that discrete points near the manifold may be used.

    Args:
        phi: `phi(q)` → () or (m,), with φ' of rank m on the manifold.
        metric: a number c for ⟨u, w⟩ = c u·w, or a function q → (n, n).

    Raises:
        TypeError: phi is not a function.
        ValueError: metric is neither a positive number nor a function.

    Example:
        >>> cylinder = da.manifolds.Embedded(lambda q: q[0] ** 2 + q[1] ** 2 - 1.0)
        >>> cylinder.project([2.0, 0.0, 3.0]).tolist()
        [1.0, 0.0, 3.0]
    """

    phi: Callable
    metric: Callable | float = 1.0

    def __post_init__(self):
        as_function(self.phi, "phi", "of q that returns () or (m,)")
        if not callable(self.metric):
            number = as_positive(self.metric, "metric", "a positive, finite number, or a function of q that returns (n, n)")
            object.__setattr__(self, "metric", number)

    def gram(self, q):
        return jnp.asarray(self.metric(q)) if callable(self.metric) else self.metric * jnp.eye(q.shape[0])

    def inner(self, q, u, w):
        return super().inner(q, u, w) if callable(self.metric) else self.metric * (u @ w)

    def connection(self, q):
        rows = self.normals(q)
        up = _inverse(self.metric, q) @ rows.T if callable(self.metric) else rows.T
        lift = up / jnp.sum(rows[0] * up[:, 0]) if rows.shape[0] == 1 else up @ inverse(rows @ up)
        return LeviCivita(lift, rows, _christoffel(self.metric, q) if callable(self.metric) else None)

    def normals(self, q: Vector) -> Float[Array, "m n"]:
        """φ'(q)."""
        return jax.jacrev(lambda x: jnp.atleast_1d(self.phi(x)))(q)

    def distance(self, q: Float[Array, "... n"]) -> Float[np.ndarray, "..."]:
        """|φ'⁺φ|, the distance in Rⁿ from q to the manifold up to terms of second order."""
        return np.linalg.norm(np.asarray(_newton_step(self, _as_points(self, q))), axis=-1)

    def project(self, q: Float[Array, "... n"]) -> Float[Array, "... n"]:
        """Points moved onto the manifold by the Gauss-Newton iteration q ← q - φ'⁺φ; on a sphere, to the nearest
        points.

        NaN if no such point is found, as from the centre of a sphere. Not available under jit.
        """
        points = _as_points(self, q)
        for _ in range(ITERATIONS):
            step = _newton_step(self, points)
            points = points - step
            if not float(jnp.nanmax(jnp.abs(step), initial=0.0)) > 4e-16 * float(jnp.nanmax(jnp.abs(points), initial=1.0)):
                break
        return points


def check_functions(manifold: Manifold, n: int) -> None:
    """Shapes of what the functions of a manifold return at a point (n,)."""
    run_on_shapes(_check_functions, manifold, np.zeros(n))


def _check_functions(manifold: Manifold, q) -> None:
    n = q.shape[0]
    if isinstance(manifold, Embedded):
        shape = output_shape(lambda: manifold.phi(q), "phi", "q")
        if len(shape) > 1 or not 0 < sum(shape or (1,)) < n:
            raise ValueError(f"phi: returns shape {shape} for points of {n} numbers; give () or (m,), 0 < m < n")
    metric = getattr(manifold, "metric", None)
    if callable(metric) and (shape := output_shape(lambda: metric(q), "metric", "q")) != (n, n):
        raise ValueError(f"metric: returns shape {shape}; a matrix of shape {(n, n)} is needed")


def _as_points(manifold: Manifold, q) -> Float[Array, "... n"]:
    points = as_array(q, "q")
    if points.ndim == 0 or not points.shape[-1]:
        raise ValueError(f"q: found shape {points.shape}; give points (n,), or several (…, n)")
    check_functions(manifold, points.shape[-1])
    return points


def _christoffel(metric: Callable, q: Vector) -> Float[Array, "n n n"]:
    """Γⁱⱼₗ = ½Gⁱᵃ(∂ⱼGₐₗ + ∂ₗGₐⱼ - ∂ₐGⱼₗ)."""
    slope = jax.jacfwd(lambda x: jnp.asarray(metric(x)))(q)
    lower = jnp.swapaxes(slope, 1, 2) + slope - jnp.moveaxis(slope, 2, 0)
    return 0.5 * jnp.tensordot(_inverse(metric, q), lower, 1)


def _inverse(metric: Callable, q: Vector) -> Float[Array, "n n"]:
    """G⁻¹, which a left-invariant metric knows."""
    return metric.inverse(q) if isinstance(metric, _LeftInvariant) else inverse(jnp.asarray(metric(q)))


@Jitted
def _newton_step(manifold: Embedded, q: Float[Array, "... n"]) -> Float[Array, "... n"]:
    """φ'⁺φ at many points."""

    def correction(x):
        return least_norm(manifold.normals(x), jnp.atleast_1d(manifold.phi(x)))

    return jax.vmap(correction)(q.reshape(-1, q.shape[-1])).reshape(q.shape)


def sphere(radius: float = 1.0) -> Embedded:
    """A sphere.

    {|q|² = r²} in Rⁿ, any n ≥ 2, with the metric of Rⁿ; its curvature is 1/r².

    Args:
        radius: r.

    Returns:
        An Embedded.

    Raises:
        ValueError: the radius is not positive.

    Example:
        >>> da.manifolds.sphere(2.0).project([0.0, 0.0, 5.0]).tolist()
        [0.0, 0.0, 2.0]
    """
    return Embedded(Sphere(_positive(radius, "radius")))


def ellipsoid(axes: Sequence[float]) -> Embedded:
    """An ellipsoid.

    {Σ(qᵢ/aᵢ)² = 1} in Rⁿ with the metric of Rⁿ.

    Args:
        axes: (n,) the semi-axes aᵢ.

    Returns:
        An Embedded.

    Raises:
        ValueError: an axis is not positive.

    Example:
        >>> float(da.manifolds.ellipsoid([2.0, 1.0]).phi(jnp.array([2.0, 0.0])))
        0.0
    """
    return Embedded(_Ellipsoid(tuple(_several(axes, "axes").tolist())))


def torus(radius: float = 2.0, tube: float = 1.0) -> Embedded:
    """A torus in space.

    {(√(x² + y²) - R)² + z² = r²} in R³ with the metric of R³, R > r; its curvature has both signs.

    Args:
        radius: R, of the centre line of the tube.
        tube: r, of the tube.

    Returns:
        An Embedded.

    Raises:
        ValueError: a radius is not positive, or tube is not less than radius.

    Example:
        >>> float(da.manifolds.torus(2.0, 1.0).phi(jnp.array([3.0, 0.0, 0.0])))
        0.0
    """
    outer, inner = _positive(radius, "radius"), _positive(tube, "tube")
    if not outer > inner:
        raise ValueError(f"tube: found {tube} with radius {radius}; the tube's radius is the smaller one")
    return Embedded(_Torus(outer, inner))


def hyperbolic_plane(model: Literal["half plane", "disk"] = "half plane") -> Chart:
    """The hyperbolic plane.

    Curvature -1: G = 1/y² on y > 0, or 4/(1 - |w|²)² on |w| < 1. w = (z - i)/(z + i) for z = x + iy.

    Args:
        model: "half plane" or "disk".

    Returns:
        A Chart.

    Raises:
        ValueError: model is neither of these.

    Example:
        >>> da.manifolds.hyperbolic_plane().gram(jnp.array([0.0, 2.0])).tolist()
        [[0.25, 0.0], [0.0, 0.25]]
    """
    return Chart(_HYPERBOLIC[as_choice(model, "model", _HYPERBOLIC, "models")])


def rotations(inertia: float | Sequence[float] = 1.0) -> Embedded:
    """The rotations of space, as unit quaternions.

    Unit quaternions q in R⁴, scalar first, ⟨q̇, q̇⟩ = ωᵀJω, ω the angular velocity in the body's axes, q̇ = ½ q(0, ω).

    For a single number j the metric is 4j|q̇|², a scaled S³: then Dq̇/dt is ω̇, and cubics satisfy d³ω/dt³ = ω̈ × ω. q
    and -q are the same rotation: give the one that is nearer to the previous point. For runs from initial data
    `coordinates={"R": SO3}` of a System is the better choice: three unknowns, no multiplier, smaller errors.

    Args:
        inertia: J, one number or the three diagonal entries.

    Returns:
        An Embedded.

    Raises:
        ValueError: inertia is neither one nor three positive numbers.

    Example:
        >>> body = da.manifolds.rotations([1.0, 2.0, 3.0])
        >>> one, spin = jnp.array([1.0, 0.0, 0.0, 0.0]), jnp.array([0.0, 0.5, 0.0, 0.0])  # ω = (1, 0, 0)
        >>> float(body.inner(one, spin, spin))
        1.0
    """
    if np.ndim(inertia) == 0:
        return Embedded(Sphere(1.0), 4.0 * _positive(inertia, "inertia"))
    moments = _several(inertia, "inertia").tolist()
    if len(moments) != 3:
        raise ValueError(f"inertia: found {len(moments)} numbers; give one, or the three of a diagonal matrix")
    return Embedded(Sphere(1.0), _LeftInvariant(tuple(moments)))


def are_rotations(manifold: Manifold) -> bool:
    """True for a manifold that `rotations` made; not one with the inertia ¼, which is the sphere in R⁴ as well."""
    return (
        isinstance(manifold, Embedded)
        and manifold.phi == Sphere(1.0)
        and isinstance(manifold.metric, float | _LeftInvariant)
        and manifold.metric != 1.0
    )


def left_translation(q: Float[Array, "4"]) -> Float[Array, "4 4"]:
    """The matrix of p ↦ q p for quaternions."""
    w, x, y, z = q
    return jnp.array([[w, -x, -y, -z], [x, w, -z, y], [y, z, w, -x], [z, -y, x, w]])


def rotation(q: Float[Array, "4"]) -> Float[Array, "3 3"]:
    """The rotation matrix of a quaternion.

    R(q), x ↦ q x q⁻¹ as a matrix: the rotation of a quaternion of any length but 0.

    Args:
        q: (w, x, y, z), the scalar first.

    Returns:
        The matrix (3, 3); its columns are the axes of the body.

    Raises:
        ValueError: q has another shape.

    Example:
        >>> half_a_turn = jnp.array([0.0, 0.0, 0.0, 1.0])  # about z
        >>> da.manifolds.rotation(half_a_turn).tolist()
        [[-1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    q = as_array(q, "q")
    if q.shape != (4,):
        raise ValueError(f"q: found shape {q.shape}; give a quaternion (w, x, y, z)")
    return rotation_of_unit(q / jnp.linalg.norm(q))


@dataclasses.dataclass(frozen=True)
class Sphere:
    """|q|² - r²."""

    radius: float

    def __call__(self, q):
        return q @ q - self.radius**2


@dataclasses.dataclass(frozen=True)
class _Ellipsoid:
    axes: tuple[float, ...]

    def __call__(self, q):
        return jnp.sum((q / jnp.array(self.axes)) ** 2) - 1.0


@dataclasses.dataclass(frozen=True)
class _Torus:
    radius: float
    tube: float

    def __call__(self, q):
        return (jnp.sqrt(q[0] ** 2 + q[1] ** 2) - self.radius) ** 2 + q[2] ** 2 - self.tube**2


@dataclasses.dataclass(frozen=True)
class _LeftInvariant:
    """4 L diag(1, J) Lᵀ with L = left_translation(q): 2Lᵀq̇ = (0, ω) for unit q, and 1 for the direction of q itself."""

    inertia: tuple[float, float, float]

    def __call__(self, q):
        translation = left_translation(q)
        return 4.0 * (translation * jnp.array([1.0, *self.inertia])) @ translation.T

    def inverse(self, q):
        """Its inverse, written out: L Lᵀ = |q|²."""
        translation = left_translation(q) / (q @ q)
        return 0.25 * (translation / jnp.array([1.0, *self.inertia])) @ translation.T


def _half_plane(q):
    return jnp.eye(2) / q[1] ** 2


def _disk(q):
    return 4.0 * jnp.eye(2) / (1.0 - q @ q) ** 2


_HYPERBOLIC = {"half plane": _half_plane, "disk": _disk}


def _positive(value, name: str) -> float:
    as_numbers(value, name)  # a manifold is known before tracing: its numbers are part of its functions
    return as_positive(value, name, "positive, finite numbers")


def _several(values, name: str) -> Float[np.ndarray, "k"]:
    found = as_numbers(values, name)
    if found.ndim != 1 or not found.size or not np.all(found > 0):
        raise ValueError(f"{name}: found {values!r}; give positive, finite numbers, one after the other")
    return found
