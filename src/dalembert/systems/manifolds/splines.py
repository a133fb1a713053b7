"""Splines on manifolds as variational problems: Riemannian, of covariant derivatives, and ambient, of those in Rⁿ."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from jaxtyping import Array, Float

from dalembert.systems.constraints import Holonomic
from dalembert.systems.manifolds.manifold import Embedded, Manifold
from dalembert.systems.variational import VariationalProblem


def riemannian_spline(manifold: Manifold, derivatives: int = 2) -> VariationalProblem:
    """δ∫ ½|Dᵏ⁻¹q̇/dtᵏ⁻¹|² dt = 0 on the manifold; k = derivatives, 1 to 4: geodesics, Riemannian cubics, quintics, …

    On an embedded manifold φ(q) = 0 is a holonomic constraint. Source: Colombo, Martín de Diego, Zuccalli, section 2.2.
    """
    _check(manifold, Manifold)
    return VariationalProblem(RiemannianAcceleration(manifold), _constraints(manifold), derivatives=derivatives)


def ambient_spline(manifold: Manifold, derivatives: int = 2) -> VariationalProblem:
    """δ∫ ½|q⁽ᵏ⁾|² dt = 0 such that φ(q) = 0: the acceleration in Rⁿ, that which holds the curve on the manifold included.

    On a sphere, k = 2, |q̈|² = |Dq̇/dt|² + |q̇|⁴/r²: not a Riemannian cubic. Source: the same, section 4.4.
    """
    _check(manifold, Embedded)
    return VariationalProblem(AmbientAcceleration(manifold), _constraints(manifold), derivatives=derivatives)


def euler_lagrange(manifold: Manifold, jet: Sequence[Float[Array, "n"]]) -> Float[Array, "n"]:
    """D²ᵏ⁻¹q̇/dt²ᵏ⁻¹ + Σⱼ₌₂ᵏ (-1)ʲ R(D²ᵏ⁻ʲ⁻¹q̇, Dʲ⁻²q̇)q̇, which is zero along a Riemannian spline.

    jet = (q, q̇, …, q⁽²ᵏ⁾) of a curve on the manifold. Source: the same, section 2.2.
    """
    if len(jet) < 3 or len(jet) % 2 == 0:
        raise ValueError(f"jet: found {len(jet)} arrays; give q and its first 2k derivatives")
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
class AmbientAcceleration:
    """L(q, q̇, …, q⁽ᵏ⁾) = ½⟨q⁽ᵏ⁾, q⁽ᵏ⁾⟩ in Rⁿ."""

    manifold: Manifold

    def __call__(self, *jet):
        return 0.5 * self.manifold.inner(jet[0], jet[-1], jet[-1])


def _constraints(manifold: Manifold) -> tuple[Holonomic, ...]:
    return (Holonomic(manifold.phi),) if isinstance(manifold, Embedded) else ()


def _check(manifold, kind: type) -> None:
    if not isinstance(manifold, kind):
        wanted = "Embedded, as an ambient acceleration needs an embedding" if kind is Embedded else "Chart or Embedded"
        raise TypeError(f"manifold: found {type(manifold).__name__}; give a manifold, {wanted}")
