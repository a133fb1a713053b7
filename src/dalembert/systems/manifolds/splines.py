"""Splines on manifolds as variational problems: Riemannian, of covariant derivatives, and ambient, of those in Rⁿ."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.drawing import Ball, Body, Dots
from dalembert.groups import Group, Pose
from dalembert.messages import warn
from dalembert.numbers import as_array, as_numbers, check_class, described
from dalembert.systems.constraints import Holonomic
from dalembert.systems.higher.variational import VariationalProblem
from dalembert.systems.manifolds.manifold import Embedded, Manifold, Sphere, are_rotations, check_functions, rotation


@dataclasses.dataclass(frozen=True)
class LeftInvariant:
    """A group with a left-invariant metric.

    ⟨ξ, η⟩ = ξᵀGη of velocities ξ = g⁻¹ġ, whose covariant acceleration is Dξ/dt = dξ/dt - G⁻¹ad*_ξ(Gξ): on SO(3) with the
    moments of inertia I it is dω/dt - I⁻¹(Iω × ω), and without torque it is zero.

    Args:
        group: SO2(), SO3(), SE2(), SE3() or Euclidean(n).
        metric: G, a matrix (n, n), or its diagonal (n,); 1 if not given. On SO(3) that is the bi-invariant one, with
            Dω/dt = dω/dt; on SE(3) it is that of a body with unit moments of inertia and unit mass.

    Raises:
        TypeError: group is none of `dalembert.groups`.
        ValueError: the metric is not symmetric and positive.

    Example:
        >>> body = da.manifolds.LeftInvariant(da.groups.SO3(), [1.0, 2.0, 3.0])
        >>> da.manifolds.riemannian_spline(body).derivatives
        2
    """

    group: Group
    metric: Any = 1.0

    def __post_init__(self):
        check_class(self.group, Group, "group", "SO2(), SO3(), SE2(), SE3() or Euclidean(n)")
        n, given = self.group.n, as_numbers(self.metric, "metric")
        if given.shape not in ((), (n,), (n, n)):
            raise ValueError(f"metric: found shape {given.shape}; give a matrix ({n}, {n}), or its diagonal ({n},)")
        whole = given if given.ndim == 2 else np.diag(np.broadcast_to(given, n))
        if not (np.array_equal(whole, whole.T) and np.linalg.eigvalsh(whole).min() > 0.0):
            raise ValueError("metric: is not symmetric and positive")
        object.__setattr__(self, "metric", tuple(map(tuple, whole.tolist())))

    def acceleration(self, v, a):
        """Dξ/dt."""
        metric = jnp.array(self.metric)
        return a - jnp.linalg.solve(metric, self.group.coadjoint(v, metric @ v))


def riemannian_spline(manifold: Manifold | LeftInvariant | Group, derivatives: int = 2) -> VariationalProblem:
    """The spline problem with the acceleration on the manifold.

    δ∫ ½|Dᵏ⁻¹q̇/dtᵏ⁻¹|² dt = 0 on the manifold; k = derivatives, 1 to 4: geodesics, Riemannian cubics, quintics, …

    For an embedded manifold, φ(q) = 0 is a holonomic constraint of the problem.

    Args:
        manifold: a Chart or an Embedded; or a group, SO3(), with its metric or a LeftInvariant one, whose elements are
            q.g, and where k is 1 or 2.
        derivatives: k.

    Returns:
        A VariationalProblem, for `solve` and, of a manifold, for `simulate`. `spline` makes it itself.

    Raises:
        TypeError: manifold is none of these.

    Source: Colombo, Martín de Diego, Zuccalli, section 2.2.

    Example:
        >>> cubic = da.manifolds.riemannian_spline(da.manifolds.sphere())
        >>> cubic.derivatives, len(cubic.holonomic)
        (2, 1)
    """
    if isinstance(manifold, Group):
        manifold = LeftInvariant(manifold)
    if isinstance(manifold, LeftInvariant):
        return VariationalProblem(
            GroupAcceleration(manifold), derivatives=derivatives, coordinates={"g": manifold.group}, draw=_draw_element
        )
    check_manifold(manifold)
    return VariationalProblem(
        RiemannianAcceleration(manifold), _constraints(manifold), derivatives=derivatives, draw=Looks(manifold)
    )


def ambient_spline(manifold: Manifold, derivatives: int = 2) -> VariationalProblem:
    """The spline problem with the acceleration of the surrounding space.

    δ∫ ½|q⁽ᵏ⁾|² dt = 0 such that φ(q) = 0: with the whole acceleration in Rⁿ, including the part that keeps the curve
    on the manifold.

    On a sphere, k = 2, |q̈|² = |Dq̇/dt|² + |q̇|⁴/r²: not a Riemannian cubic.

    Args:
        manifold: an Embedded.
        derivatives: k, 1 to 4.

    Returns:
        A VariationalProblem.

    Raises:
        TypeError: manifold is not an Embedded.

    Source: Colombo, Martín de Diego, Zuccalli, section 4.4.

    Example:
        >>> da.manifolds.ambient_spline(da.manifolds.sphere(), derivatives=3).derivatives
        3
    """
    check_manifold(manifold, Embedded)
    return VariationalProblem(
        AmbientAcceleration(manifold), _constraints(manifold), derivatives=derivatives, draw=Looks(manifold)
    )


def euler_lagrange(manifold: Manifold, jet: Sequence[Float[Array, "n"]]) -> Float[Array, "n"]:
    """D²ᵏ⁻¹q̇/dt²ᵏ⁻¹ + Σⱼ₌₂ᵏ (-1)ʲ R(D²ᵏ⁻ʲ⁻¹q̇, Dʲ⁻²q̇)q̇, which is zero along a Riemannian spline.

    Args:
        manifold: a Chart or an Embedded.
        jet: (q, q̇, …, q⁽²ᵏ⁾), (n,) each, of a curve on the manifold.

    Returns:
        The left side (n,).

    Raises:
        ValueError: jet does not have an odd number of arrays, three or more.
        TypeError: manifold is neither a Chart nor an Embedded.

    Source: Colombo, Martín de Diego, Zuccalli, section 2.2.

    Example:
        >>> great_circle = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]]  # (cos t, sin t, 0) and its derivatives at 0
        >>> da.manifolds.euler_lagrange(da.manifolds.sphere(), great_circle).tolist()
        [0.0, 0.0, 0.0]
    """
    check_manifold(manifold)
    rows = as_array(jet, "jet")
    if rows.ndim != 2 or len(rows) < 3 or len(rows) % 2 == 0:
        found = f"{len(rows)} arrays" if rows.ndim == 2 else f"shape {rows.shape}"
        raise ValueError(f"jet: found {found}; give q and its first 2k derivatives, each (n,)")
    check_functions(manifold, rows.shape[1])
    jet = list(rows)
    k = len(jet) // 2
    fields = manifold.covariant_derivatives(jet)
    residual = fields[2 * k - 1]
    for j in range(2, k + 1):
        residual += (-1) ** j * manifold.curvature(jet[0], fields[2 * k - j - 1], fields[j - 2], jet[1])
    return residual


@dataclasses.dataclass(frozen=True)
class RiemannianAcceleration:
    """L(q, q̇, …, q⁽ᵏ⁾) = ½⟨w, w⟩ with w = Dᵏ⁻¹q̇/dtᵏ⁻¹."""

    manifold: Manifold

    def __call__(self, *jet):
        w = self.manifold.covariant_derivatives(jet)[-1]
        return 0.5 * self.manifold.inner(jet[0], w, w)


@dataclasses.dataclass(frozen=True)
class GroupAcceleration:
    """½⟨ξ, ξ⟩ or ½⟨Dξ/dt, Dξ/dt⟩."""

    manifold: LeftInvariant

    def __call__(self, q, v, a=None):
        w = v.g if a is None else self.manifold.acceleration(v.g, a.g)
        return 0.5 * w @ jnp.array(self.manifold.metric) @ w


def _draw_element(q):
    """A box that is turned and moved, a point on a circle, or a point."""
    R, x = (q.g.R, q.g.x) if isinstance(q.g, Pose) else (q.g, jnp.zeros(len(q.g))) if q.g.ndim == 2 else (None, q.g)
    if R is None or len(R) == 2:
        return Dots(x[:3] if R is None else x + R[:, 0], trail=True)
    return [Body(R, x), Dots(x + 0.6 * R[:, 0], trail=True)]


@dataclasses.dataclass(frozen=True)
class AmbientAcceleration:
    """L(q, q̇, …, q⁽ᵏ⁾) = ½⟨q⁽ᵏ⁾, q⁽ᵏ⁾⟩ in Rⁿ."""

    manifold: Manifold

    def __call__(self, *jet):
        return 0.5 * self.manifold.inner(jet[0], jet[-1], jet[-1])


@dataclasses.dataclass(frozen=True)
class Looks:
    """Picture of a point of a manifold: on a sphere in space with the sphere, a unit quaternion as a turned box."""

    manifold: Manifold

    def __call__(self, q):
        phi = self.manifold.phi if isinstance(self.manifold, Embedded) else None
        if isinstance(phi, Sphere) and q.size == 4:
            return [Body.box(jnp.zeros(3), jnp.array([1.0, 0.6, 0.3]), rotation=rotation(q))]
        if isinstance(phi, Sphere) and q.size == 3:
            return [Ball(jnp.zeros(3), phi.radius), Dots(q, trail=True)]
        return Dots(q[: min(q.size, 3)] if q.size > 1 else jnp.array([q[0], 0.0]), trail=True)


def _constraints(manifold: Manifold) -> tuple[Holonomic, ...]:
    return (Holonomic(manifold.phi),) if isinstance(manifold, Embedded) else ()


def check_manifold(manifold, kind: type = Manifold) -> None:
    """TypeError for anything but a manifold."""
    if not isinstance(manifold, kind):
        wanted = "Embedded, as an ambient acceleration needs an embedding" if kind is Embedded else "Chart or Embedded"
        found = type(manifold).__name__ if isinstance(manifold, Manifold) else described(manifold)
        raise TypeError(f"manifold: found {found}; give a manifold, {wanted}")


def warn_of_scalar_last(manifold: Manifold, points: Float[np.ndarray, "p 4"]) -> None:
    """A warning where one of several rotations is (0, 0, 0, ±1): with the scalar last, as SciPy has it, that is no rotation
    at all, where many motions begin; here it is half a turn about z, which few do."""
    if are_rotations(manifold) and points.shape[1] == 4 and np.any(np.all(np.abs(points) == [0.0, 0.0, 0.0, 1.0], axis=1)):
        warn(
            "points: found the quaternion (0, 0, 0, 1), half a turn about z. Quaternions are (w, x, y, z) here, the scalar "
            "first, and (1, 0, 0, 0) is no rotation; for SciPy's Rotation take as_quat(scalar_first=True)"
        )
