"""The four kinds of constraint. Kinematic data (what must hold) and variational data (which forces act) are independent.

Every class is plain data: functions of the user and where the reactions come from. The equations are in `equations`.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import numpy as np

from dalembert.systems.pickling import reduced


class Constraint(eqx.Module):
    """Base of the four kinds. `order` is the highest derivative of q in the constraint."""

    order: ClassVar[int]

    __reduce__ = reduced


class Kinematic(Constraint):
    """Base of the constraints that are given by equations φ = 0."""

    phi: eqx.AbstractVar[Callable]


class Holonomic(Kinematic):
    """φ(q) = 0, with reactions ∂φ/∂q.

    phi: (n,) → () or (m,); with a time-dependent system φ(q, t), with parameters φ(q, …, p).
    """

    order: ClassVar[int] = 0
    phi: Callable = eqx.field(static=True)

    def __init__(self, phi: Callable):
        self.phi = _callable(phi, "phi")


class WithForces(Kinematic):
    """φ = 0 with forces from `reactions` (rows span F_V), or `virtual` (columns span C_V), or Chetaev's ∂φ/∂(highest)."""

    phi: Callable = eqx.field(static=True)
    reactions: Callable | None = eqx.field(static=True, default=None)
    virtual: Callable | None = eqx.field(static=True, default=None)

    def __init__(self, phi: Callable, *, reactions: Callable | None = None, virtual: Callable | None = None):
        self.phi = _callable(phi, "phi")
        if reactions is not None and virtual is not None:
            raise ValueError("reactions, virtual: found both; give the constraint forces or the virtual displacements")
        self.reactions = None if reactions is None else _callable(reactions, "reactions")
        self.virtual = None if virtual is None else _callable(virtual, "virtual")


class Nonholonomic(WithForces):
    """φ(q, v) = 0, linear, affine or nonlinear in v, with Chetaev's reactions ∂φ/∂v unless others are given.

    phi: (n,), (n,) → () or (m,). reactions(q, v): (m, n), or (n,) if m = 1: rows span the constraint forces F_V.
    virtual(q, v): (n, n-m), or (n,) if n - m = 1: columns span the virtual displacements C_V.
    """

    order: ClassVar[int] = 1


class SecondOrder(WithForces):
    """φ(q, v, a) = 0, with Chetaev's reactions ∂φ/∂a unless others are given.

    phi: (n,), (n,), (n,) → () or (m,). reactions(q, v, a) and virtual(q, v, a) as in `Nonholonomic`.
    """

    order: ClassVar[int] = 2


class Lyapunov(Constraint):
    """dV/dt = -F along the motion, enforced by one actuator: V_q v + V_v a (+ V_t) + F = 0, reactions = actuated.

    V, F: (n,), (n,) → (). actuated: index of the actuated coordinate, a constant row (n,), or a function q → (n,).
    The multiplier is the control. Along the motion dV/dt + F = φ₀(q,v) + u(q,v) λ, where u, the coefficient of λ, is
    found by differentiation. Where V solves the matching equation φ₀ is divisible by u, and λ = -φ₀/u is smooth.
    """

    order: ClassVar[int] = 2
    V: Callable = eqx.field(static=True)
    F: Callable = eqx.field(static=True)
    actuated: int | tuple[float, ...] | Callable = eqx.field(static=True)

    def __init__(self, V: Callable, F: Callable, actuated: Any):
        self.V, self.F = _callable(V, "V"), _callable(F, "F")
        if callable(actuated):
            self.actuated = actuated
        elif isinstance(actuated, int | np.integer) and not isinstance(actuated, bool):
            self.actuated = int(actuated)
        else:
            try:
                self.actuated = tuple(float(x) for x in np.asarray(actuated, dtype=float))
            except (TypeError, ValueError):
                raise TypeError(
                    f"actuated: found {type(actuated).__name__}; give the index of one coordinate, a row of n numbers, "
                    "or a function of q that returns such a row"
                ) from None


def _callable(value, name: str) -> Callable:
    if not callable(value):
        raise TypeError(f"{name}: found {type(value).__name__}; give a function")
    return value
