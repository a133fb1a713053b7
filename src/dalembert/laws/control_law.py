"""control_law: the multipliers of servo- and Lyapunov constraints as a function of the state."""

from __future__ import annotations

from typing import Any, final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from dalembert.laws.affine import affine, is_affine, split
from dalembert.laws.continued import continued
from dalembert.laws.law import Law, Value, force_of
from dalembert.systems.equations import acceleration, reactions
from dalembert.systems.system import System, check_shapes, check_system


@final
class ControlLaw(Law):
    """u = λ(q, v), with which the servo- and Lyapunov constraints hold: what `control_law` returns.

    Attributes:
        system: the System with the constraints that the law enforces.
        lower: lower bounds of u; None if there are none.
        upper: upper bounds of u; None if there are none.

    Example:
        >>> controlled(jnp.array([0.5]), jnp.array([0.0])).round(6).tolist()  # sin q - q
        [-0.020574]
    """

    system: System
    lower: Any
    upper: Any

    @property
    def plant(self) -> System:
        """The system without the constraints that the law enforces; other constraints, and forces, are kept."""
        s = self.system
        return System(
            s.lagrangian, split(s)[1], forces=s.forces, coordinates=s.coordinates, parameters=s.parameters,
            time_dependent=s.time_dependent,
        )  # fmt: skip

    def with_parameters(self, p: Any) -> ControlLaw:
        """The same law of a system with other parameters, of the same structure."""
        return eqx.tree_at(lambda law: law.system.parameters, self, p)

    def bare(self) -> ControlLaw:
        return self

    def check(self, q, v, t) -> None:
        check_shapes(self.system, q, v, t)

    def unbounded(self, q: Float[Array, "n"], v: Float[Array, "n"], t) -> tuple[Value, Float[Array, "r n"]]:
        n, system = q.shape[0], self.system
        if is_affine(system, q, v, t):
            found = continued(lambda x: affine(system, x[:n], x[n:], t), jnp.concatenate([q, v]))
            rows, u, extended, defined = self._rows(q, v, jnp.zeros_like(v), t), found.u, found.extended, found.defined
        else:
            a, every, report = acceleration(system, q, v, t)
            failed = report.singular | report.not_finite | report.not_converged
            u = jnp.where(failed, jnp.inf, every[jnp.asarray(_places(system, q, v, t))])
            rows, extended, defined = self._rows(q, v, a, t), jnp.asarray(False), ~failed
        return Value(u, force_of(rows, u), extended, defined), rows

    def rows(self, q: Float[Array, "n"], v: Float[Array, "n"], t) -> Float[Array, "r n"]:
        affine = is_affine(self.system, q, v, t)  # then no row reads the acceleration
        return self._rows(q, v, jnp.zeros_like(v), t) if affine else self.unbounded(q, v, t)[1]

    def _rows(self, q: Float[Array, "n"], v: Float[Array, "n"], a: Float[Array, "n"], t) -> Float[Array, "r n"]:
        return jnp.concatenate([reactions(self.system, c, q, v, a, t) for c in split(self.system)[0]])


def _places(system: System, q, v, t) -> list[int]:
    """Where the multipliers of the law stand among those of all constraints."""
    realised, at, found = split(system)[0], 0, []
    for c, m in zip(system.constraints, check_shapes(system, q, v, t), strict=True):
        found += range(at, at + m) if any(c is x for x in realised) else []
        at += m
    return found


def control_law(system: System) -> ControlLaw:
    """u(q, v) = λ with d/dt L_v - L_q = f + Rᵀλ and the servo- and Lyapunov constraints: the control law that enforces
    them.

    The law enforces these constraints: Lyapunov, SecondOrder, and Nonholonomic and Holonomic ones with reactions= or
    virtual=. The last two are enforced through their time derivatives, from initial data that satisfy them. All other
    constraints belong to the plant.

    If the constraints are affine in the accelerations, φ + S(q, v)λ = 0 is solved. Where det S = 0 and λ = -S⁻¹φ has a
    limit, the law returns the limit: a quotient of two functions that vanish together, computed from mean values of
    their derivatives, without cancellation. For poles see `ControlLaw.at`. Constraints that are not affine are solved
    by Newton's method, as in `acceleration`, without such limits.

    Args:
        system: a System with at least one such constraint.

    Returns:
        A ControlLaw: a function of (q, v[, t][, p]), usable under jit, vmap and grad, with its plant.

    Raises:
        TypeError: system is not a System.
        ValueError: the system has no constraint that a control can enforce.

    Source: Borda, Fernández, Grillo, Section 4.2: the constraint force is the control law.

    Example:
        >>> servo = da.SecondOrder(lambda q, v, a: a + 2.0 * v + q)  # the multiplier is the torque
        >>> law = da.control_law(da.System(lambda q, v: 0.5 * v @ v + jnp.cos(q[0]), servo))
        >>> law([0.5], [0.0]).round(6).tolist()  # sin q - q
        [-0.020574]
        >>> da.simulate(law.plant, [0.5], [0.0], h=0.1, steps=10, feedback=law.sampled()).outcome.name
        'SUCCESS'
    """
    check_system(system)
    if not split(system)[0]:
        kinds = ", ".join(type(c).__name__ for c in system.constraints) or "none"
        raise ValueError(
            f"system: its constraints are {kinds}; a control law enforces Lyapunov, SecondOrder, or Nonholonomic and "
            "Holonomic with reactions= or virtual="
        )
    return ControlLaw(system=system, lower=None, upper=None)
