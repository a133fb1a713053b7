"""Frames of the admissible velocities, v = B(q)ẋ + c(q), and the systems without constraints that they lead to.

x = (r, s): r the shape, s quasi-coordinates of what the group still may do. Where B, c, L and the forces do not change along
the group, the motion of r and ṡ is that of Chaplygin's equations, with gyroscopic forces in place of constraints:

    L_c(r, ẋ) = L(q̂(r), Bẋ + c),    f_c = p·[X_ẋ, X_a] + Bᵀf,    p = L_v,   X_w = B w + c,

[X_w, X_a] = (DX_a)X_w - (DX_w)X_a with w held, on a section q̂(r). Without c the bracket's force does no work. The
quotient of the full discretization by translations is a discrete system in x, with forces.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.algebra.dense import inverse
from dalembert.discretize import DiscreteSystem, Scheme
from dalembert.discretize.nodes import Interval, incoming, outgoing
from dalembert.numbers import as_function, coordinate_index, described
from dalembert.systems import Holonomic, System
from dalembert.systems.constraints import annihilator
from dalembert.systems.distribution.reduction import constraint_rows, velocity_constraints
from dalembert.systems.equations import force
from dalembert.systems.equations import momentum as momentum_at
from dalembert.systems.higher.variational import with_parameters
from dalembert.systems.pickling import made
from dalembert.tracing import Jitted

Vector = Float[Array, "n"]


@dataclasses.dataclass(frozen=True, eq=False)
class VelocityFrame:
    """B (n, d) and c (n,) at a point, over the shape coordinates r; w = (ṙ, ṡ).

    q0: (n,), the values of the group's coordinates on the section q̂(r). given: functions (B, c), None where they come from
    the constraints; c may be None. translations: whether the group is one of shifts of its coordinates.
    """

    shape: tuple[int, ...]
    group: tuple[int, ...]
    extra: int
    q0: tuple[float, ...]
    given: tuple[Callable, Callable | None] | None = None
    translations: bool = True

    @property
    def size(self) -> int:
        """d, the number of reduced coordinates."""
        return len(self.shape) + self.extra

    def section(self, x) -> Vector:
        """q̂(r)."""
        return jnp.asarray(self.q0).at[np.array(self.shape, dtype=int)].set(x[: len(self.shape)])

    def parts(self, system: System, q: Vector, t) -> tuple[Float[Array, "n d"], Vector]:
        """(B, c)."""
        return _parts(system, self, q, jnp.asarray(t, dtype=float))

    def written_out(self, system: System, q: Vector, t) -> tuple[Float[Array, "n d"], Vector]:
        """(B, c), with all its operations."""
        if self.given is not None:
            basis, drift = self.given
            ahead = jnp.zeros_like(q) if drift is None else system.call(drift, q, t=t)
            return system.call(basis, q, t=t).reshape(q.shape[0], -1), ahead
        shape, group = (np.array(x, dtype=int) for x in (self.shape, self.group))
        rest = jnp.zeros_like(q)
        rows, left = constraint_rows(system, q, rest, t), velocity_constraints(system, q, rest, t)
        lift = lift_columns(rows[:, group], jnp.concatenate([rows[:, shape], left[:, None]], axis=1))
        basis = jnp.zeros((q.shape[0], self.size)).at[shape, np.arange(len(shape))].set(1.0)
        basis = basis.at[np.ix_(group, np.arange(len(shape)))].set(-lift[:, :-1])
        if self.extra:
            free = annihilator(rows[:, group].T).T
            basis = basis.at[np.ix_(group, np.arange(len(shape), self.size))].set(free)
        return basis, rest.at[group].set(-lift[:, -1])

    def basis(self, system: System, q: Vector, t) -> Float[Array, "n d"]:
        """B."""
        return self.parts(system, q, t)[0]

    def velocity(self, system: System, q: Vector, w: Float[Array, "d"], t) -> Vector:
        """B w + c."""
        basis, ahead = self.parts(system, q, t)
        return basis @ w + ahead


@Jitted  # traced once, however often the equations and their derivatives ask for it
def _parts(system: System, frame: VelocityFrame, q: Vector, t):
    return frame.written_out(system, q, t)


def pull_back(constraint: Any, position: Callable) -> Holonomic:
    """A holonomic constraint in coordinates x with q = position(x)."""
    reactions = None if constraint.reactions is None else _rows_at(constraint.reactions, position)
    return Holonomic(_phi_at(constraint.phi, position), reactions=reactions)


@made
def _phi_at(phi: Callable, position: Callable) -> Callable:
    return lambda x, *trailing: phi(position(x), *trailing)


@made
def _rows_at(reactions: Callable, position: Callable) -> Callable:
    return lambda x, *trailing: jnp.atleast_2d(reactions(position(x), *trailing)) @ jax.jacfwd(position)(x)


def lift_columns(across: Float[Array, "m k"], sides: Float[Array, "m d"]) -> Float[Array, "k d"]:
    """The shortest ġ with μ_g ġ = each of the sides: smooth as long as μ_g has full rank."""
    if across.shape[0] == across.shape[1]:
        return inverse(across) @ sides
    return across.T @ (inverse(across @ across.T) @ sides)


def own_parts(value: Any, name: str) -> tuple[Callable, Callable | None]:
    """(B, c) as the user gives them: a function, or a pair of which the second may be None."""
    pair = (value, None) if callable(value) else value
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise TypeError(f"{name}: found {described(value)}; give a function B(q) that returns (n, d), or a pair (B, c)")
    basis = as_function(pair[0], name, "B(q) that returns (n, d)")
    drift = None if pair[1] is None else as_function(pair[1], f"{name}[1]", "c(q) that returns (n,)")
    return basis, drift


def indices_of(system: System, group: Any, n: int) -> tuple[int, ...]:
    """The group's coordinates, by name or by number."""
    given = (group,) if isinstance(group, str | int) else group
    if not isinstance(given, tuple | list) or not given:
        raise TypeError(f"group: found {described(group)}; give names or numbers of coordinates, such as ('x', 'y')")
    out = tuple(coordinate_index(one, f"group: found {described(one)}", n, system.coordinates) for one in given)
    if len(set(out)) < len(out) or len(out) >= n:
        raise ValueError(f"group: found {given}; give different coordinates, and leave one at least for the shape")
    return out


def reduced_system(system: System, frame: VelocityFrame, names: Sequence[str] | None) -> System:
    """(L_c, f_c), with the parameters of the system."""
    return System(
        _lagrangian(system, frame), forces=_forces(system, frame), coordinates=names, parameters=system.parameters,
        time_dependent=system.time_dependent,
    )  # fmt: skip


def with_own(system: System, trailing: tuple) -> tuple[System, Any]:
    """The system with the parameters of this call, and the time."""
    t = trailing[0] if system.time_dependent else 0.0
    return (with_parameters(system, trailing[-1]) if system.parameters is not None else system), t


@made
def _lagrangian(system: System, frame: VelocityFrame) -> Callable:
    def lagrangian(x, w, *trailing):
        own, t = with_own(system, trailing)
        q = frame.section(x)
        return own.call(own.lagrangian, q, frame.velocity(own, q, w, t), t=t)

    return lagrangian


@made
def _forces(system: System, frame: VelocityFrame) -> Callable:
    def forces(x, w, *trailing):
        own, t = with_own(system, trailing)
        return reduced_force(own, frame, frame.section(x), w, t)

    return forces


def reduced_force(system: System, frame: VelocityFrame, q, w, t):
    """p·[X_w, X_a] + Bᵀf at q, which may lie beside the section."""
    now = jnp.asarray(t, dtype=float)
    v = frame.velocity(system, q, w, t)
    p = momentum_at(system, q, v, t)
    rate = jax.jvp(lambda y, s: frame.basis(system, y, s).T @ p, (q, now), (v, jnp.ones_like(now)))[1]
    slope = jax.grad(lambda y: p @ frame.velocity(system, y, w, t))(q)
    return rate + frame.basis(system, q, t).T @ (force(system, q, v, t) - slope)


def discrete_quotient(original: System, reduced: System, frame: VelocityFrame, scheme: Scheme, h: float) -> DiscreteSystem:
    """L_d = h L_c∘ρ with f_d^± = B(r_±)ᵀ D_±(full L_d) - D_± L_d: the sum is B(r_k)ᵀ of the equation at a node.

    Reactions are in the annihilator of B at the node, where the central map of the variational constraints reads them, and
    the constraints hold where `distribution` reads them: so nothing of the full equations is left out.
    """
    action = _action(reduced, scheme, h)
    return DiscreteSystem(
        action, forces=_impulses(original, frame, scheme, action, h), coordinates=reduced.coordinates,
        parameters=reduced.parameters,
    )  # fmt: skip


@made
def _action(reduced: System, scheme: Scheme, h: float) -> Callable:
    rho = scheme.distribution

    def action(x0, x1, *p):
        x, w = rho(x0, x1 - x0, h)
        return h * reduced.lagrangian(x, w, *p)

    return action


@made
def _impulses(original: System, frame: VelocityFrame, scheme: Scheme, action: Callable, h: float) -> Callable:
    rho = scheme.distribution

    def impulses(x0, x1, *p):
        own, t = with_own(original, p)
        x, w = rho(x0, x1 - x0, h)
        q0 = frame.section(x0)
        interval = Interval(q0, h * frame.velocity(own, frame.section(x), w, t), t, jnp.asarray(h))
        left, right = (frame.basis(own, frame.section(y), t) for y in (x0, x1))
        slopes = jax.grad(action, (0, 1))(x0, x1, *p)
        return left.T @ outgoing(scheme, own, interval) - slopes[0], right.T @ incoming(scheme, own, interval) - slopes[1]

    return impulses
