"""Difference maps: from neighbouring points to (q, v) or (q, v, a).

They are written in increments d = q₁ - q₀ and not in points, so that a difference of large positions is never formed.
To add a map, subclass PairMap or TripleMap; a scheme takes any instance.
"""

import abc

import equinox as eqx
from jaxtyping import Array, Float

from dalembert.numbers import as_number

Vector = Float[Array, "n"]


class PairMap(eqx.Module):
    """ρ: Q×Q → TQ near the diagonal, ρ(q, q) = (q, 0). The base class of difference maps of two points.

    Attributes:
        weight: w; the time of the point is t0 + w h.
        __call__: (q0, d, h) → (q, v): q0 (n,), d = q1 - q0 (n,), step h.

    Source: Jiménez, Scheurle, Definition 5.5.

    Example:
        >>> class Later(da.PairMap):  # (q₁, (q₁-q₀)/h)
        ...     weight: float = 1.0
        ...     def __call__(self, q0, d, h):
        ...         return q0 + d, d / h
        >>> q, v = Later()(jnp.array([1.0]), jnp.array([0.5]), 0.1)
        >>> q.tolist(), v.tolist()
        ([1.5], [5.0])
    """

    weight: eqx.AbstractVar[float]

    @abc.abstractmethod
    def __call__(self, q0: Vector, d: Vector, h) -> tuple[Vector, Vector]:
        """ρ(q₀, q₀ + d)."""


class Beta(PairMap):
    """ρ_β(q₀, q₁) = ((1-β) q₀ + β q₁, (q₁-q₀)/h): second order for β = ½, first order otherwise.

    Args:
        beta: β, from 0 to 1.

    Raises:
        ValueError: beta is not between 0 and 1.

    Source: Jiménez, Scheurle, eq. (74). β = 0 is the φ_L of Borda, Fernández, Grillo, Section 4.1.2.

    Example:
        >>> q, v = da.Beta(0.5)(jnp.array([1.0]), jnp.array([0.5]), 0.25)
        >>> q.tolist(), v.tolist()
        ([1.25], [2.0])
    """

    weight: float = eqx.field(static=True)

    def __init__(self, beta: float = 0.5):
        self.weight = as_number(beta, "beta", "a number from 0 to 1", lambda x: 0.0 <= x <= 1.0)

    def __call__(self, q0, d, h):
        return q0 + self.weight * d, d / h

    def inverse(self, q: Vector, v: Vector, h) -> tuple[Vector, Vector]:
        """ρ_β⁻¹(q̃, v) = (q̃ - βhv, q̃ + (1-β)hv), the two nodes (n,) that belong to a point of TQ.

        A point on D gives nodes exactly in D_d = {φ∘ρ_β = 0}: use them as the first nodes of a DiscreteSystem that is
        made with ρ_β.
        """
        return q - self.weight * h * v, q + (1.0 - self.weight) * h * v


class TripleMap(eqx.Module):
    """φ⁻¹: Q³ → T⁽²⁾Q near the diagonal, at the time of the middle point. The base class of difference maps of three
    points.

    Attributes:
        __call__: (q1, d0, d1, h) → (q, v, a): q1 (n,), d0 = q1 - q0, d1 = q2 - q1 (n,), step h.

    Example:
        >>> isinstance(da.Central(), da.TripleMap)
        True
    """

    @abc.abstractmethod
    def __call__(self, q1: Vector, d0: Vector, d1: Vector, h) -> tuple[Vector, Vector, Vector]:
        """φ⁻¹(q₁ - d₀, q₁, q₁ + d₁)."""


class Central(TripleMap):
    """(q₀, q₁, q₂) → (q₁, (q₂-q₀)/2h, (q₂-2q₁+q₀)/h²): second order.

    Attributes:
        __call__: (q1, d0, d1, h) → (q, v, a), as for a TripleMap.

    Source: Borda, Fernández, Grillo, Section 4.1.2.

    Example:
        >>> q, v, a = da.Central()(jnp.array([1.0]), jnp.array([1.0]), jnp.array([2.0]), 1.0)
        >>> v.tolist(), a.tolist()
        ([1.5], [1.0])
    """

    def __call__(self, q1, d0, d1, h):
        return q1, (d0 + d1) / (2 * h), (d1 - d0) / (h * h)
