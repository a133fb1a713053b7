"""The four kinds of constraint. Kinematic data (what must hold) and variational data (which forces act) are independent.

Every class is plain data: functions of the user and where the reactions come from. The equations are in `equations`.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import numpy as np

from dalembert.numbers import as_function, as_numbers
from dalembert.systems.pickling import reduced


class Constraint(eqx.Module):
    """φ = 0: the base class of Holonomic, Nonholonomic, SecondOrder and Lyapunov.

    Attributes:
        order: the highest derivative of q in the constraint.

    Example:
        >>> da.Holonomic.order, da.Nonholonomic.order, da.SecondOrder.order, da.Lyapunov.order
        (0, 1, 2, 2)
    """

    order: ClassVar[int]

    __reduce__ = reduced


class Kinematic(Constraint):
    """Base of the constraints that are given by equations φ = 0."""

    phi: eqx.AbstractVar[Callable]


class WithForces(Kinematic):
    """φ = 0 with forces from `reactions` (rows span F_V), or `virtual` (columns span C_V), or Chetaev's ∂φ/∂(highest).

    Args:
        phi: φ that returns () or (m,).
        reactions: returns (m, n), rows that span the constraint forces F_V.
        virtual: returns (n, n-m), columns that span the virtual displacements C_V.

    Raises:
        TypeError: phi, reactions or virtual is not a function.
        ValueError: both reactions and virtual are given.
    """

    phi: Callable = eqx.field(static=True)
    reactions: Callable | None = eqx.field(static=True, default=None)
    virtual: Callable | None = eqx.field(static=True, default=None)

    def __init__(self, phi: Callable, *, reactions: Callable | None = None, virtual: Callable | None = None):
        self.phi = as_function(phi, "phi", "φ that returns () or (m,)")
        if reactions is not None and virtual is not None:
            raise ValueError("reactions, virtual: found both; give the constraint forces or the virtual displacements")
        self.reactions = None if reactions is None else as_function(reactions, "reactions", "that returns (m, n)")
        self.virtual = None if virtual is None else as_function(virtual, "virtual", "that returns (n, n-m)")


class Holonomic(WithForces):
    """φ(q) = 0, with reactions ∂φ/∂q unless others are given.

    With other reactions it is a servo-constraint on positions: φ = 0 is enforced by actuators whose forces need not be
    perpendicular to it. This is possible where ∂φ/∂q M⁻¹ Rᵀ, with the mass matrix M, is nonsingular.

    Args:
        phi: (n,) → () or (m,); with a time-dependent system φ(q, t), with parameters φ(q, …, p).
        reactions: `reactions(q)`, (m, n), or (n,) if m = 1: rows span the constraint forces F_V.
        virtual: `virtual(q)`, (n, n-m), or (n,) if n - m = 1: columns span the virtual displacements C_V.

    Raises:
        TypeError: phi, reactions or virtual is not a function.
        ValueError: both reactions and virtual are given.

    Example:
        >>> rod = da.Holonomic(lambda q: q @ q - 1.0)
        >>> da.System(lambda q, v: 0.5 * v @ v - q[2], rod).constraints == (rod,)
        True
        >>> pulled = da.Holonomic(lambda q: q[1] - jnp.sin(q[0]), reactions=lambda q: jnp.array([0.0, 1.0]))
        >>> rail = da.System(lambda q, v: 0.5 * v @ v, pulled)  # a force along y alone keeps the point on the rail
        >>> da.simulate(rail, [0.0, 0.0], [1.0, 1.0], h=0.1, steps=10).v[-1, 0].round(9).item()  # ẋ is free
        1.0
    """

    order: ClassVar[int] = 0


class Nonholonomic(WithForces):
    """φ(q, v) = 0, linear, affine or nonlinear in v, with Chetaev's reactions ∂φ/∂v unless others are given.

    Args:
        phi: (n,), (n,) → () or (m,).
        reactions: `reactions(q, v)`, (m, n), or (n,) if m = 1: rows span the constraint forces F_V.
        virtual: `virtual(q, v)`, (n, n-m), or (n,) if n - m = 1: columns span the virtual displacements C_V.

    Raises:
        TypeError: phi, reactions or virtual is not a function.
        ValueError: both reactions and virtual are given.

    Example:
        >>> blade = da.Nonholonomic(lambda q, v: jnp.sin(q[2]) * v[0] - jnp.cos(q[2]) * v[1])
        >>> knife = da.System(lambda q, v: 0.5 * v @ v, blade, coordinates=("x", "y", "θ"))
        >>> blade.order, float(blade.phi(jnp.zeros(3), jnp.array([1.0, 0.0, 0.5])))
        (1, 0.0)
    """

    order: ClassVar[int] = 1


class SecondOrder(WithForces):
    """φ(q, v, a) = 0, with Chetaev's reactions ∂φ/∂a unless others are given.

    Args:
        phi: (n,), (n,), (n,) → () or (m,).
        reactions: `reactions(q, v, a)`, (m, n), or (n,) if m = 1: rows span the constraint forces F_V.
        virtual: `virtual(q, v, a)`, (n, n-m), or (n,) if n - m = 1: columns span the virtual displacements C_V.

    Raises:
        TypeError: phi, reactions or virtual is not a function.
        ValueError: both reactions and virtual are given.

    Source: Borda, Fernández, Grillo, Definition 2.1.

    Example:
        >>> servo = da.SecondOrder(lambda q, v, a: a[0] + 2.0 * v[0] + q[0])  # the law of a closed loop
        >>> held = da.System(lambda q, v: 0.5 * v @ v + jnp.cos(q[0]), servo)
        >>> da.simulate(held, [0.5], [0.0], h=0.1, steps=10).multipliers.shape  # its torque
        (10, 1)
    """

    order: ClassVar[int] = 2


class Lyapunov(Constraint):
    """dV/dt = -F along the motion, enforced by one actuator: V_q v + V_v a (+ V_t) + F = 0, reactions = actuated.

    The multiplier λ is the control. Along the motion dV/dt + F = φ₀(q,v) + u(q,v) λ, where u, the coefficient of λ, is
    found by differentiation. If V solves the matching equation, φ₀ is divisible by u, and λ = -φ₀/u is smooth.

    Args:
        V: `V(q, v)`, (n,), (n,) → ().
        F: `F(q, v)`, (n,), (n,) → (), the rate at which V decreases.
        actuated: index of the actuated coordinate, or the direction of the actuator's force: a constant row (n,), or a
            function q → (n,).

    Raises:
        TypeError: V or F is not a function, or actuated is of the wrong type.
        ValueError: actuated is neither an index nor a row.

    Example:
        >>> damped = da.Lyapunov(lambda q, v: 0.5 * v @ v + 0.5 * q @ q, lambda q, v: v @ v, actuated=0)
        >>> damped.actuated, damped.order
        (0, 2)
    """

    order: ClassVar[int] = 2
    V: Callable = eqx.field(static=True)
    F: Callable = eqx.field(static=True)
    actuated: int | tuple[float, ...] | Callable = eqx.field(static=True)

    def __init__(self, V: Callable, F: Callable, actuated: Any):
        self.V, self.F = as_function(V, "V", "V(q, v)"), as_function(F, "F", "F(q, v)")
        if callable(actuated):
            self.actuated = actuated
        elif isinstance(actuated, int | np.integer) and not isinstance(actuated, bool):
            self.actuated = int(actuated)
        else:
            row = as_numbers(actuated, "actuated")
            if row.ndim != 1 or not row.size:
                raise ValueError(
                    f"actuated: found shape {row.shape}; give the index of one coordinate, a row of n numbers, or a "
                    "function of q that returns such a row"
                )
            self.actuated = tuple(row.tolist())
