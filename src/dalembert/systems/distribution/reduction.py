"""From the differential-algebraic equation of a constrained system to an ordinary one, by an explicit formula for (λ, v̇).

`equations.acceleration` solves for (a, λ) by Newton's method and takes any constraint. Here constraints restrict (q, v), so
that their time derivative is affine in a, the mass matrix is regular, and (a, λ) is written down.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.algebra import numerical_rank
from dalembert.algebra.jacobian import value_and_jacobian
from dalembert.numbers import as_function, as_number, as_vector, check_x64, is_traced
from dalembert.systems.consistency import RankDeficientError
from dalembert.systems.constraints import Nonholonomic
from dalembert.systems.equations import Time, acceleration_equation, all_reactions, euler_lagrange, first_derivative, value
from dalembert.systems.pickling import made
from dalembert.systems.system import System, check_shapes, check_system
from dalembert.tracing import seldom

Vector = Float[Array, "n"]
Rows = Float[Array, "m"]
Matrix = Float[Array, "m n"]

DEGENERATE = 1e-10  # smallest singular value of C with unit vectors, below which the forces do not determine λ


class Reduction(eqx.Module):
    """v̇ = f_v + m⁻¹Rᵀλ,  λ = -C⁻¹(φ_q v + φ_t + φ_v f_v),  C = φ_v m⁻¹Rᵀ, at one (q, v, t).

    For a holonomic constraint φ(q) = 0 read dφ/dt in place of φ.

    Attributes:
        a: v̇ (n,).
        multipliers: λ (m,).
        free: f_v = m⁻¹(L_q + f - L_vq v - L_vt) (n,), the acceleration without constraints.
        mass: m = L_vv (n, n).
        rows: φ_v (m, n).
        rate: φ_q v + φ_t (m,).
        reactions: R (m, n).
        coupling: C (m, m).
    """

    a: Vector
    multipliers: Rows
    free: Vector
    mass: Float[Array, "n n"]
    rows: Matrix
    rate: Rows
    reactions: Matrix
    coupling: Float[Array, "m m"]

    @property
    def cosines(self) -> Float[Array, "m m"]:
        """C with the rows of φ_v and the vectors m⁻¹Rᵀ scaled to unit length, so that the units of the constraints do
        not matter."""
        return unit_coupling(self.mass, self.rows, self.reactions)


def unit_coupling(mass: Float[Array, "n n"], rows: Matrix, reactions: Matrix) -> Float[Array, "m m"]:
    """rows m⁻¹Rᵀ with rows, and vectors m⁻¹Rᵀ, of unit length; zero where one has no length."""
    return _unit_coupling(mass, rows, reactions)


@seldom
def _unit_coupling(mass, rows, reactions) -> Float[Array, "m m"]:
    forces = jnp.linalg.solve(mass, reactions.T)
    lengths = jnp.linalg.norm(rows, axis=1)[:, None] * jnp.linalg.norm(forces, axis=0)[None, :]
    return jnp.where(lengths > 0, (rows @ forces) / jnp.where(lengths > 0, lengths, 1.0), 0.0)


def velocity_constraints(system: System, q: Vector, v: Vector, t) -> Rows:
    """The restrictions of v: φ(q, v) of constraints of order 1, dφ/dt of those of order 0, stacked in the user's order."""
    rows = [
        first_derivative(system, c, q, v, t) if c.order == 0 else value(system, c, q, v, v, t) for c in system.constraints
    ]
    return jnp.concatenate(rows) if rows else jnp.zeros(0)


def constraint_rows(system: System, q: Vector, v: Vector, t) -> Matrix:
    """φ_v (m, n) of what restricts v; μ(q) for linear constraints."""
    return jax.jacfwd(lambda w: velocity_constraints(system, q, w, t))(v)


def violation(system: System, q: Vector, v: Vector, t) -> Float[Array, ""]:
    """Largest |φ| of what restricts v: zero on D."""
    return jnp.max(jnp.abs(velocity_constraints(system, q, v, t)), initial=0.0)


def explicit_terms(system: System, q: Vector, v: Vector, t: Time = 0.0) -> Reduction:
    """The terms of `reduction`, without any check, for use in compiled code: inf or NaN where m or C is singular."""
    rest = jnp.zeros_like(v)
    inertia, mass = value_and_jacobian(lambda a: euler_lagrange(system, q, v, a, t), rest)
    rows = constraint_rows(system, q, v, t)
    equations = [acceleration_equation(system, c, q, v, rest, t) for c in system.constraints]  # φ_q v + φ_t: at a = 0
    rate = jnp.concatenate(equations) if equations else jnp.zeros(0)
    reactions = all_reactions(system, q, v, rest, t)
    solved = jnp.linalg.solve(mass, jnp.concatenate([-inertia[:, None], reactions.T], axis=1))
    free, forces = solved[:, 0], solved[:, 1:]
    coupling = rows @ forces
    multipliers = -jnp.linalg.solve(coupling, rate + rows @ free) if rate.shape[0] else rate
    return Reduction(free + forces @ multipliers, multipliers, free, mass, rows, rate, reactions, coupling)


_terms = seldom(explicit_terms)


def reduction(system: System, q, v, t: Time = 0.0) -> Reduction:
    """d/dt L_v - L_q = f + Rᵀλ, φ(q, v, t) = 0  ⇒  λ and v̇ in closed form, with the terms of the formula.

    L may be any Lagrangian whose mass matrix m = L_vv is nonsingular at this (q, v, t); m need not be positive definite
    and may depend on v and t. Off D the formula gives the vector field whose flow keeps the value of φ constant. Under
    jit, vmap and grad nothing is checked.

    Args:
        system: a System with constraints of order 0 and 1: linear, affine or nonlinear in v, with Chetaev's or other
            reactions.
        q: (n,).
        v: (n,).
        t: time.

    Returns:
        A Reduction.

    Raises:
        TypeError: an argument is of the wrong type.
        ValueError: an argument is wrong, or a constraint is on accelerations.
        RankDeficientError: m or C is singular; the message states the smallest singular value.

    Source: Jiménez, Scheurle, Proposition 2.1, eqs. (22, 23). What differs: forces, reactions R other than φ_v, time,
    constraints nonlinear in v. The sign of λ is that of eq. (2a), as everywhere in dalembert.

    Example:
        >>> terms = da.systems.reduction(edge, [0.0, 0.0, 0.0], [1.0, 0.0, 0.5])
        >>> terms.multipliers.shape, terms.mass.shape
        ((1,), (3, 3))
    """
    check_x64()
    check_first_order(system, "reduction")
    x = as_vector(q, "q")
    w = as_vector(v, "v", x.shape[0])
    now = jnp.asarray(as_number(t, "t", "a finite time"), dtype=float)
    check_shapes(system, x, w, now)
    terms = _terms(system, x, w, now)
    if not is_traced(terms):
        _check_regular(terms)
    return terms


def check_first_order(system, name: str, holonomic: bool = True, instead: str = "solved by dalembert.acceleration") -> None:
    """TypeError or ValueError where a constraint restricts something else than q and v. instead: what is to be done with
    one on accelerations."""
    check_system(system)
    for i, c in enumerate(system.constraints):
        if c.order == 2:
            raise ValueError(
                f"constraints[{i}] ({type(c).__name__}): {name} is for constraints on positions and velocities; one on "
                f"accelerations is {instead}"
            )
        if c.order == 0 and not holonomic:
            raise ValueError(
                f"constraints[{i}] (Holonomic): {name} is for constraints on velocities, Nonholonomic(...). Written as "
                "dφ/dt = 0, a holonomic constraint is one"
            )


def coupling_rank(cosines: np.ndarray) -> tuple[float, float]:
    """Smallest singular value and condition number of C made of unit vectors; (1, 1) without constraints."""
    if len(cosines) == 0:
        return 1.0, 1.0
    if not np.all(np.isfinite(cosines)):
        return 0.0, np.inf
    values = np.linalg.svd(cosines, compute_uv=False)
    return float(values[-1]), float(values[0] / values[-1]) if values[-1] > 0 else np.inf


def _check_regular(terms: Reduction) -> None:
    mass = np.asarray(terms.mass)
    if not np.all(np.isfinite(mass)):
        raise ValueError("lagrangian: its derivatives are not finite at (q, v)")
    found = numerical_rank(mass)
    if not found.full:
        raise RankDeficientError(
            f"lagrangian: the mass matrix ∂²L/∂v² has rank {found.rank} of {mass.shape[0]} at (q, v) (smallest singular "
            f"value {found.singular_values[-1]:.3g}, rows of unit length), and the formula needs its inverse. "
            "dalembert.acceleration does not: what must be regular there is the whole matrix of (a, λ)"
        )
    smallest, condition = coupling_rank(np.asarray(terms.cosines))
    if smallest <= DEGENERATE:
        raise RankDeficientError(
            f"reactions: the matrix C = φ_v m⁻¹Rᵀ is degenerate at (q, v): smallest singular value {smallest:.3g}, "
            f"condition {condition:.3g} (with unit vectors): the constraint forces cannot enforce the constraints, or the "
            "constraints depend on one another. dalembert.solvability says which"
        )


def deformed(system: System, g: Callable, delta: float) -> System:
    """φ(q, v) + δ g(q, v) = 0 with forces λ ∂(φ + δ g)/∂v: the motion on D_δ, again a system with Chetaev's reactions.

    Args:
        system: a System whose constraints are all Nonholonomic, with Chetaev's reactions.
        g: `g(q, v[, t][, p])`, () or (m,): one component for each equation of the constraints, in their order.
        delta: δ. It becomes the parameter "delta" of the new system, so that `.replace(delta=...)` does not compile
            anything again; the other parameters are kept.

    Returns:
        The deformed System.

    Raises:
        TypeError: an argument is of the wrong type.
        ValueError: a constraint is not Nonholonomic, or has other reactions than Chetaev's.

    Source: Jiménez, Scheurle, Remark 6.1, eqs. (101-105).

    Example:
        >>> bent = da.systems.deformed(edge, lambda q, v: v[2] ** 2, 0.1)
        >>> float(bent.replace(delta=0.2).parameters["delta"])
        0.2
    """
    check_first_order(system, "deformed", holonomic=False)
    as_function(g, "g", "g(q, v) that returns () or (m,)")
    constraints: Any = system.constraints
    if not constraints:
        raise ValueError("system: has no constraint to deform; give one with Nonholonomic(φ)")
    if not all(c.chetaev and hasattr(c, "phi") for c in constraints):
        raise ValueError("system: a constraint has reactions or virtual displacements of its own; those of φ + δ g are ∂/∂v")
    given = system.parameters
    if given is not None and (not isinstance(given, Mapping) or "delta" in given):
        raise ValueError("system: its parameters must be a mapping without the name 'delta', which the deformation takes")

    def without_parameters(function: Callable) -> Callable:
        return function if given is not None else _without_parameters(function)

    return System(
        without_parameters(system.lagrangian),
        Nonholonomic(_bent(tuple(without_parameters(c.phi) for c in constraints), without_parameters(g))),
        forces=None if system.forces is None else without_parameters(system.forces),
        coordinates=system.coordinates,
        parameters={**(given or {}), "delta": as_number(delta, "delta")},
        time_dependent=system.time_dependent,
    )


@made
def _without_parameters(function: Callable) -> Callable:
    return lambda *x: function(*x[:-1])


@made
def _bent(phis: tuple[Callable, ...], bend: Callable) -> Callable:
    """φ + δ g."""

    def phi(*x):
        rows = jnp.concatenate([jnp.atleast_1d(one(*x)) for one in phis])
        return rows + x[-1]["delta"] * jnp.reshape(jnp.asarray(bend(*x)), rows.shape)

    return phi
