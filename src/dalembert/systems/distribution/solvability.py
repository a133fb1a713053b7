"""Whether a motion with given initial data exists and is unique, with the numbers and in words."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from dalembert.algebra import numerical_rank
from dalembert.numbers import as_number, as_state, is_traced
from dalembert.systems.checks import check_parameters, check_x64
from dalembert.systems.compiled.along import motion_along
from dalembert.systems.consistency import velocity_residuals
from dalembert.systems.distribution.integrability import AFFINE, affinity, forms_and_slopes, judge
from dalembert.systems.distribution.leaves import leaf_forms
from dalembert.systems.distribution.reduction import coupling_rank, unit_coupling
from dalembert.systems.distribution.solvable import Solvability
from dalembert.systems.equations import all_reactions, euler_lagrange, first_guess, reduced
from dalembert.systems.system import System, check_shapes, check_system
from dalembert.tracing import seldom

POINTS = 8  # nearby points at which rank and integrability are looked at
NEARBY = 0.05  # their distance in each coordinate, relative to 1 + |q_i|


class _Systems(NamedTuple):
    """whole: as given. moving: without a Lyapunov constraint whose control is λ = g(q, v), a force. lower: without
    constraints on accelerations."""

    whole: System
    moving: System
    lower: System

    @classmethod
    def of(cls, system: System) -> _Systems:
        moving = tuple(c for c in system.constraints if c.law(system) is None)
        lower = tuple(c for c in system.constraints if c.order < 2)
        with_those = lambda kept: dataclasses.replace(system, constraints=kept)  # noqa: E731
        return cls(system, with_those(moving), with_those(lower))


class _At(NamedTuple):
    q: Any
    v: Any
    z: Any
    t: Any


class _Terms(NamedTuple):
    """mass: L_vv. whole: ∂(d/dt L_v - L_q - f - Rᵀλ)/∂a. rows: ∂/∂a of the reduced constraints, nearby: at other points.
    residual, gradient: of what restricts (q, v)."""

    mass: Array
    whole: Array
    rows: Array
    reactions: Array
    nearby: Array
    residual: Array
    gradient: Array
    affinity: Array
    omega: Array
    slopes: Array


def _rows(system: System, q, v, a, t) -> Array:
    """∂/∂a of the constraints as equations for a: φ_q of order 0, φ_v of order 1, φ_a of order 2."""
    equations = lambda b: jnp.concatenate([jnp.zeros(0), *(reduced(system, c, q, v, b, t) for c in system.constraints)])  # noqa: E731
    return jax.jacfwd(equations)(a)


def _restrictions(system: System, y, t) -> Array:
    n = y.shape[0] // 2
    return jnp.concatenate([jnp.zeros(0), *velocity_residuals(system, y[:n], y[n:], t).values()])


@seldom
def _look(systems: _Systems, at: _At, points, speeds, pushes) -> _Terms:
    (whole, moving, lower), (q, v, z, t), n = systems, at, at.q.shape[0]
    a, multipliers = z[:n], z[n:]
    balance = lambda b: euler_lagrange(whole, q, v, b, t) - all_reactions(whole, q, v, b, t).T @ multipliers  # noqa: E731
    y = jnp.concatenate([q, v])
    omega, slopes = jax.vmap(lambda x: forms_and_slopes(lower, x, v, t))(jnp.concatenate([q[None], points]))
    return _Terms(
        jax.jacfwd(lambda b: euler_lagrange(whole, q, v, b, t))(a),
        jax.jacfwd(balance)(a),
        _rows(moving, q, v, a, t),
        all_reactions(moving, q, v, a, t),
        jax.vmap(lambda x, w, b: _rows(moving, x, w, b, t))(points, speeds, pushes),
        jnp.max(jnp.abs(_restrictions(lower, y, t)), initial=0.0),
        jax.jacfwd(lambda x: _restrictions(lower, x, t))(y),
        jnp.max(jax.vmap(lambda x, w: affinity(lower, x, v, w, t))(points, speeds)),
        omega,
        slopes,
    )


def solvability(system: System, q0, v0, t0: float = 0.0) -> Solvability:
    """(i) ⟨m z, z⟩ > 0 on ker J, (ii) φ(q₀, v₀, t₀) = 0, (iii) rank J = m  ⇒  one motion from (q₀, v₀), locally.

    J = φ_q, φ_v or φ_a: the derivative of a constraint of order 0, 1 or 2 with respect to its highest argument. A
    constraint on accelerations does not restrict the initial data: (ii) then requires a root (a, λ), and J is evaluated
    there. If the reactions depend on a, or the constraint is nonlinear in a, the motion is the one that belongs to this
    root. A Lyapunov constraint whose control is λ = g(q, v) counts as a force. No error is raised if a condition fails:
    the result says which conditions hold, in numbers and, printed, in words. It also says whether {φ = 0} is a
    submanifold in (q, v), and whether constraints affine in v are integrable (Frobenius): dω(X, Y) = 0 on the
    distribution at the point and at nearby random ones, in (q, t) space; and how many functions of position they keep.

    Args:
        system: a System.
        q0: (n,) positions.
        v0: (n,) velocities.
        t0: the time of (q0, v0).

    Returns:
        A Solvability.

    Raises:
        TypeError: an argument is of the wrong type, or traced by JAX.
        ValueError: an argument has the wrong shape, or a value is not finite.

    Source: Jiménez, Scheurle, Theorems 2.1 and 2.3, eq. (7). What differs: m may depend on all of (q, v, t);
    constraints of order 2 and reactions other than J are included. For the latter, and for an indefinite m, the matrix
    of (a, λ) decides.

    Example:
        >>> found = da.solvability(edge, [0.0, 0.0, 0.0], [1.0, 0.0, 0.5])
        >>> found.solvable, found.integrable, found.dimension
        (True, False, 5)
    """
    check_x64()
    check_system(system)
    q, v = as_state(q0, v0, system.coordinates)
    if is_traced(system, q, v, t0):
        raise TypeError("solvability: works on numbers and not under jit, vmap or grad")
    t = jnp.asarray(as_number(t0, "t0", "a finite time"), dtype=float)
    m = sum(check_shapes(system, q, v, t))
    check_parameters(system)
    systems, found = _Systems.of(system), _root(system, np.asarray(q), np.asarray(v), float(t))
    z = first_guess(q.shape[0], m) if found is None else found
    random = np.random.default_rng(0).uniform(-1.0, 1.0, (3, POINTS, q.shape[0]))
    center = (np.asarray(q), np.asarray(v), z[: len(q)])
    near = (jnp.asarray(x + NEARBY * (1 + np.abs(x)) * r) for x, r in zip(center, random, strict=True))
    terms = jax.tree.map(np.asarray, _look(systems, _At(q, v, jnp.asarray(z), t), *near))
    return _judge(systems, terms, np.append(q, t), found is not None)


def _root(system: System, q, v, t: float) -> np.ndarray | None:
    """(a, λ); None where there is none, and without constraints on accelerations, where nothing is read at it."""
    if all(c.order < 2 for c in system.constraints):
        return None
    z = np.concatenate([x[0] for x in motion_along(system, q[None], v[None], np.array([t]))])
    return z if np.all(np.isfinite(z)) else None


def _judge(systems: _Systems, found: Any, x: np.ndarray, root: bool) -> Solvability:
    """x = (q, t): where."""
    if not (np.all(np.isfinite(found.mass)) and np.all(np.isfinite(found.rows)) and np.isfinite(found.residual)):
        raise ValueError("q0, v0: the Lagrangian, a constraint or one of their derivatives is not finite there")
    m, second = len(found.rows), any(c.order == 2 for c in systems.whole.constraints)
    here, forces = numerical_rank(found.rows), numerical_rank(found.reactions)
    nearby = [numerical_rank(rows).rank for rows in found.nearby if np.all(np.isfinite(rows))] or [here.rank]
    kernel, virtual = (_kernel(x, rank.rank) for x, rank in ((found.rows, here), (found.reactions, forces)))
    mass = 0.5 * (found.mass + found.mass.T)
    eigenvalue = np.linalg.eigvalsh(kernel.T @ mass @ kernel).min(initial=np.inf)
    size = np.linalg.norm(found.mass, 2)
    between = virtual.T @ found.whole @ kernel / (size or 1.0)
    motion = np.linalg.svd(between, compute_uv=False).min(initial=np.inf) if forces.rank == here.rank else 0.0
    regular_mass = numerical_rank(mass).full
    cosines = np.asarray(unit_coupling(*map(jnp.asarray, (mass, found.rows, found.reactions)))) if regular_mass else None
    coupling, condition = (0.0, np.inf) if cosines is None else coupling_rank(cosines)
    finite = np.all(np.isfinite(found.slopes), axis=(1, 2, 3))
    lower = found.omega.shape[1]
    affine = lower > 0 and here.rank == m and bool(found.affinity <= AFFINE) and bool(finite[0])
    frobenius = judge(found.omega[finite], found.slopes[finite]) if affine else None
    return Solvability(
        coordinates=len(x) - 1,
        wanted=m,
        second_order=second,
        root=root or not second,
        residual=float(found.residual),
        restrictions=len(found.gradient),
        rank_in_phase_space=numerical_rank(found.gradient).rank,
        rank=here.rank,
        smallest_row=float(here.singular_values.min(initial=np.inf)),
        ranks_nearby=(min(nearby), max(nearby)),
        mass_on_kernel=float(eigenvalue),
        free_motion=float(motion),
        coupling=coupling,
        condition=condition,
        chetaev=all(c.chetaev for c in systems.moving.constraints),
        holonomic=all(c.order == 0 for c in systems.lower.constraints),
        frobenius=frobenius,
        first_integrals=0 if frobenius and frobenius.reached == len(x) else _first_integrals(systems.lower, x),
    )


def _first_integrals(system: System, x: np.ndarray) -> int:
    """The number of independent functions of x = (q, t) that constraints keep. Where D + [D, D] is everything it is zero."""
    forms = leaf_forms(system, x, 1 + np.abs(x))
    return 0 if forms is None else forms(x[None]).shape[1]


def _kernel(matrix: np.ndarray, rank: int) -> np.ndarray:
    """Orthonormal columns that span the kernel of a matrix (m, n) of the given rank."""
    return np.linalg.svd(matrix, full_matrices=True)[2][rank:].T if matrix.size else np.eye(matrix.shape[1])
