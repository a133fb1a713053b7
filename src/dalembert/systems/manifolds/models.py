"""Manifolds ready to use: sphere, ellipsoid, torus, hyperbolic plane, rotations."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.numbers import as_choice, as_numbers, as_positive
from dalembert.systems.manifolds.manifold import Chart, Embedded, Manifold


def sphere(radius: float = 1.0) -> Embedded:
    """{|q|² = r²} in Rⁿ, any n ≥ 2, with the metric of Rⁿ; its curvature is 1/r².

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
    """{Σ(qᵢ/aᵢ)² = 1} in Rⁿ with the metric of Rⁿ.

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
    """{(√(x² + y²) - R)² + z² = r²} in R³ with the metric of R³, R > r; its curvature has both signs.

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
    """Curvature -1: G = 1/y² on y > 0, or 4/(1 - |w|²)² on |w| < 1. w = (z - i)/(z + i) for z = x + iy.

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
    """Unit quaternions q in R⁴, scalar first, ⟨q̇, q̇⟩ = ωᵀJω, ω the angular velocity in the body's axes, q̇ = ½ q(0, ω).

    For a single number j the metric is 4j|q̇|², a scaled S³: then Dq̇/dt is ω̇, and cubics satisfy d³ω/dt³ = ω̈ × ω. q
    and -q are the same rotation: give the one that is nearer to the previous point.

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
    """R(q) of a quaternion (w, x, y, z), of whatever length."""
    w, x, y, z = q / jnp.linalg.norm(q)
    return jnp.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ])  # fmt: skip


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
