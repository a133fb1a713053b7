"""Results of `solvability`, in numbers and in words."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from dalembert.algebra import numerical_rank
from dalembert.notebook import Described
from dalembert.numbers import refuse_traced
from dalembert.systems.consistency import InitialData, as_numpy, check_parameters, stacked_residuals
from dalembert.systems.continuous import motion_along
from dalembert.systems.distribution.reduction import (
    AFFINE,
    DEGENERATE,
    Frobenius,
    affinity,
    coupling_rank,
    forms_and_slopes,
    judge,
    leaf_forms,
    unit_coupling,
)
from dalembert.systems.equations import acceleration_equations, all_reactions, euler_lagrange, first_guess
from dalembert.systems.sizes import CONSISTENT
from dalembert.systems.system import System, at_origin
from dalembert.tracing import seldom


@dataclasses.dataclass(frozen=True)
class Solvability(Described):
    """Whether exactly one motion passes through a state, in numbers and words.

    (i) ⟨m z, z⟩ > 0 on ker J, (ii) φ(q₀, v₀, t₀) = 0, (iii) rank J = m: which of these conditions hold; `str` of it
    says so in words.

    J = φ_q, φ_v or φ_a, the derivative of a constraint of order 0, 1 or 2 with respect to its highest argument.

    Attributes:
        coordinates: n, the number of coordinates.
        wanted: m, the rank that J should have.
        second_order: whether there are constraints on accelerations; J is then evaluated at a root (a, λ).
        root: whether such a root was found; True without constraints on accelerations.
        residual: largest |φ| of the constraints that restrict (q, v); for holonomic constraints also |dφ/dt|.
        restrictions: the number of these equations.
        rank_in_phase_space: rank of their derivative with respect to (q, v).
        rank: rank of J.
        smallest_row: smallest singular value of J with rows of unit length.
        ranks_nearby: smallest and largest rank of J at nearby random points.
        mass_on_kernel: smallest eigenvalue of m = L_vv on ker J, in units of mass; inf if the kernel is {0}.
        free_motion: smallest singular value of (m - ∂(Rᵀλ)/∂a)/|m| between ker R and ker J, which must not be 0 for v̇
            to be unique. For R = J(q, v) it is 0 where m is singular on the kernel.
        coupling: smallest singular value of C = J m⁻¹Rᵀ, computed with unit vectors; 0 where m is singular.
        condition: condition number of this C.
        chetaev: whether R = J.
        holonomic: whether all constraints on (q, v) are given as holonomic ones.
        frobenius: curvature of the distribution in (q, t) space; None for constraints nonlinear in v, and if there are
            no constraints on (q, v).
        first_integrals: the number of independent functions of (q, t) that the constraints on (q, v) keep, for constraints
            affine in v. Where both ends of a boundary problem give all positions, so many equations are redundant: they
            hold if both ends lie on one leaf, and cannot be met otherwise.
    """

    coordinates: int
    wanted: int
    second_order: bool
    root: bool
    residual: float
    restrictions: int
    rank_in_phase_space: int
    rank: int
    smallest_row: float
    ranks_nearby: tuple[int, int]
    mass_on_kernel: float
    free_motion: float
    coupling: float
    condition: float
    chetaev: bool
    holonomic: bool
    frobenius: Frobenius | None
    first_integrals: int = 0

    @property
    def consistent(self) -> bool:
        """Condition (ii): the data satisfy the constraints."""
        return self.residual <= CONSISTENT

    @property
    def full_rank(self) -> bool:
        """Condition (iii): the constraints are independent, rank J = m."""
        return self.rank == self.wanted

    @property
    def positive(self) -> bool:
        """Condition (i): the mass matrix is positive definite on ker J."""
        return self.mass_on_kernel > 0 and self.free_motion > DEGENERATE

    @property
    def regular(self) -> bool:
        """(v̇, λ) are determined: weaker than (i), and the condition that counts if the reactions are not J."""
        return self.free_motion > DEGENERATE

    @property
    def dimension(self) -> int | None:
        """2n - rank of ∂φ/∂(q, v): the dimension of {φ = 0} near the data; None if the rank is not full.

        That this set is a manifold is a weaker condition than (iii), which concerns φ_v, the derivative with respect to
        velocities alone.
        """
        regular = self.consistent and self.rank_in_phase_space == self.restrictions
        return 2 * self.coordinates - self.restrictions if regular else None

    @property
    def solvable(self) -> bool:
        """True if exactly one motion starts from the data."""
        return self.consistent and self.root and self.full_rank and self.regular

    @property
    def integrable(self) -> bool | None:
        """True if the constraints are integrable, and so restrict positions (Frobenius); None if they are nonlinear in
        v or there are none."""
        return None if self.frobenius is None else self.frobenius.integrable

    def __str__(self) -> str:
        return "\n".join([_headline(self), *(f"  {line}" for line in _lines(self))])


def _headline(s: Solvability) -> str:
    if s.solvable:
        return "solvable: one motion, and only one, starts from (q0, v0)"
    names = {
        "inconsistent data": s.consistent,
        "no acceleration": s.root,
        "dependent constraints": s.full_rank,
        "singular equations": s.regular,
    }
    return f"not solvable: {', '.join(name for name, holds in names.items() if not holds)}"


def _lines(s: Solvability) -> list[str]:
    lines = []
    if s.restrictions:
        lines.append(_about_data(s))
        lines.append(_about_set(s))
    if s.second_order and not s.root:
        lines.append("no (a, λ) was found that satisfies the constraints on accelerations: what follows is read near a = 0")
    if s.wanted:
        lines.append(_about_rank(s))
    lines.append(_about_mass(s))
    if s.wanted and s.full_rank:
        lines.append(_about_coupling(s))
        if s.restrictions:
            lines.append(_about_positions(s))
    return lines


def _slope(s: Solvability) -> str:
    """J in words."""
    return "∂φ/∂a" if s.second_order else "∂φ/∂v"


def _about_data(s: Solvability) -> str:
    if s.consistent:
        return f"the data satisfy the constraints: |φ| = {s.residual:.2g}"
    return f"the data violate the constraints: |φ| = {s.residual:.3g}; dalembert.project finds the nearest that do not"


def _about_set(s: Solvability) -> str:
    if s.dimension is not None:
        return f"the constraints define a manifold of dimension {s.dimension} in (q, v) here"
    found = f"∂φ/∂(q, v) has rank {s.rank_in_phase_space} of {s.restrictions}"
    return f"{found}: the constraints define no regular solution set here" if s.consistent else found


def _about_rank(s: Solvability) -> str:
    low, high = s.ranks_nearby
    found = (
        f"{_slope(s)} has rank {s.rank} of {s.wanted} (smallest singular value {s.smallest_row:.3g}, rows of unit length)"
    )
    if s.full_rank:
        return found + (", nearby too" if low == high == s.rank else f", nearby {low} to {high}: it drops close to here")
    if high > s.rank:
        return (
            found + f" but {high} at nearby points: this point is singular; start elsewhere, and expect trouble close to it"
        )
    return found + ", nearby too: a constraint follows from the others, or contradicts them; remove it"


def _about_mass(s: Solvability) -> str:
    where = f"on ker {_slope(s)}" if s.wanted else ""
    if s.mass_on_kernel == np.inf:
        determined = "v̇ is determined by (q, v)" if s.second_order else "v is determined by q"
        return f"the constraints leave no free motion: {determined}, and no mass is needed"
    found = f"smallest eigenvalue {s.mass_on_kernel:.3g}"
    if s.positive:
        return f"the mass matrix is positive definite {where}: {found}".replace("  ", " ").replace(" :", ":")
    if s.regular:
        return (
            f"the mass matrix is not positive definite {where} ({found}), yet v̇ is determined: an indefinite kinetic energy"
        )
    if s.chetaev:
        return (
            f"the mass matrix is singular {where} ({found}): the acceleration there is not determined; add the missing "
            "kinetic energy, or a constraint that fixes that motion"
        )
    return (
        f"the equations for v̇ are singular (smallest singular value {s.free_motion:.3g}): the reactions R do no work on a "
        "motion that the constraints exclude; a force along R must change the value of its constraint"
    )


def _about_coupling(s: Solvability) -> str:
    name = "C = φ_a m⁻¹Rᵀ" if s.second_order else "C = φ_v m⁻¹Rᵀ"
    if s.coupling > DEGENERATE:
        consequence = "forces along R reach the constraints" if s.second_order else "λ is explicit"
        numbers = f"smallest singular value {s.coupling:.3g}, condition {s.condition:.3g}"
        return f"{name} is regular: {consequence} ({numbers})"
    return (
        f"{name} is degenerate or m is singular: dalembert.systems.reduction does not apply"
        + (", dalembert.acceleration does" if s.solvable else "")
    )  # fmt: skip


def _about_positions(s: Solvability) -> str:
    f = s.frobenius
    if f is None:
        return "the constraints are nonlinear in v: D is no distribution, and Frobenius' theorem does not apply"
    if s.holonomic and f.integrable:
        return "integrable: holonomic constraints"
    if f.integrable:
        return (
            f"integrable (curvature {f.curvature:.2g}): holonomic leaves; Holonomic(...) would keep positions on the leaf "
            "exactly, Nonholonomic works and lets them drift; " + _about_ends(s)
        )
    if f.at_point <= 1e-6 * f.curvature:
        return f"not integrable: curvature {f.curvature:.3g} nearby, although zero at this point itself"
    return (
        f"not integrable: curvature {f.at_point:.3g} here; D + [D, D] spans {f.reached} of {s.coordinates + 1} directions "
        "of (q, t)" + (f"; a part is integrable: {_about_ends(s)}" if s.first_integrals else "")
    )


def _about_ends(s: Solvability) -> str:
    return (
        f"functions of position that are constant on leaves: {s.first_integrals}; where two ends give all positions, as "
        "many of their equations are redundant"
    )


POINTS = 8  # nearby points at which rank and integrability are looked at
NEARBY = 0.05  # their distance in each coordinate, relative to 1 + |q_i|


# As given; without a Lyapunov constraint whose control is λ = g(q, v), a force; without constraints on accelerations.
_Systems = tuple[System, System, System]


def _acceleration_rows(system: System, q, v, a, t) -> Array:
    """∂/∂a of the constraints as equations for a: φ_q of order 0, φ_v of order 1, φ_a of order 2."""
    return jax.jacfwd(lambda b: acceleration_equations(system, q, v, b, t))(a)


@seldom
def _look(systems: _Systems, q, v, z, t, points, speeds, pushes) -> dict[str, Array]:
    """mass: L_vv. whole: ∂(d/dt L_v - L_q - f - Rᵀλ)/∂a. rows: ∂/∂a of the reduced constraints, nearby: at other points.
    residual, gradient: of what restricts (q, v)."""
    (whole, moving, lower), n = systems, q.shape[0]
    a, multipliers = z[:n], z[n:]
    balance = lambda b: euler_lagrange(whole, q, v, b, t) - all_reactions(whole, q, v, b, t).T @ multipliers  # noqa: E731
    residuals = lambda y: stacked_residuals(lower, y[:n], y[n:], t)  # noqa: E731
    y = jnp.concatenate([q, v])
    omega, slopes = jax.vmap(lambda x: forms_and_slopes(lower, x, v, t))(jnp.concatenate([q[None], points]))
    return {
        "mass": jax.jacfwd(lambda b: euler_lagrange(whole, q, v, b, t))(a),
        "whole": jax.jacfwd(balance)(a),
        "rows": _acceleration_rows(moving, q, v, a, t),
        "reactions": all_reactions(moving, q, v, a, t),
        "nearby": jax.vmap(lambda x, w, b: _acceleration_rows(moving, x, w, b, t))(points, speeds, pushes),
        "residual": jnp.max(jnp.abs(residuals(y)), initial=0.0),
        "gradient": jax.jacfwd(residuals)(y),
        "affinity": jnp.max(jax.vmap(lambda x, w: affinity(lower, x, v, w, t))(points, speeds)),
        "omega": omega,
        "slopes": slopes,
    }


def solvability(system: System, q0, v0, t0: float = 0.0) -> Solvability:
    """Check whether exactly one motion passes through a state.

    (i) ⟨m z, z⟩ > 0 on ker J, (ii) φ(q₀, v₀, t₀) = 0, (iii) rank J = m  ⇒  one motion from (q₀, v₀), locally.

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
    system, q0, v0 = at_origin(system, q0, v0)
    q, v, t, sizes = InitialData.of(system, q0, v0, t0)
    refuse_traced("solvability", system, q, v, t)
    check_parameters(system)
    moving = system.with_constraints([c for c in system.constraints if c.law(system) is None])
    systems = system, moving, system.with_constraints([c for c in system.constraints if c.order < 2])
    found = _root(system, np.asarray(q), np.asarray(v), float(t))
    z = first_guess(q.shape[0], sum(sizes)) if found is None else found
    random = np.random.default_rng(0).uniform(-1.0, 1.0, (3, POINTS, q.shape[0]))
    center = (np.asarray(q), np.asarray(v), z[: len(q)])
    near = (jnp.asarray(x + NEARBY * (1 + np.abs(x)) * r) for x, r in zip(center, random, strict=True))
    terms = SimpleNamespace(**as_numpy(_look(systems, q, v, jnp.asarray(z), t, *near)))
    return _judge(systems, terms, np.append(q, t), found is not None)


def _root(system: System, q, v, t: float) -> np.ndarray | None:
    """(a, λ); None where there is none, and without constraints on accelerations, where nothing is read at it."""
    if all(c.order < 2 for c in system.constraints):
        return None
    z = np.concatenate([x[0] for x in motion_along(system, q[None], v[None], np.array([t]))])
    return z if np.all(np.isfinite(z)) else None


def _judge(systems: _Systems, found: Any, x: np.ndarray, root: bool) -> Solvability:
    """x = (q, t): where."""
    whole, moving, kept = systems
    if not (np.all(np.isfinite(found.mass)) and np.all(np.isfinite(found.rows)) and np.isfinite(found.residual)):
        raise ValueError("q0, v0: the Lagrangian, a constraint or one of their derivatives is not finite there")
    m, second = len(found.rows), any(c.order == 2 for c in whole.constraints)
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
    nothing = frobenius is not None and frobenius.reached == len(x)  # where D + [D, D] is everything no function is kept
    leaves = None if nothing else leaf_forms(kept, x, 1 + np.abs(x))
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
        chetaev=all(c.chetaev for c in moving.constraints),
        holonomic=all(c.order == 0 for c in kept.constraints),
        frobenius=frobenius,
        first_integrals=0 if leaves is None else leaves(x[None]).shape[1],
    )


def _kernel(matrix: np.ndarray, rank: int) -> np.ndarray:
    """Orthonormal columns that span the kernel of a matrix (m, n) of the given rank."""
    return np.linalg.svd(matrix, full_matrices=True)[2][rank:].T if matrix.size else np.eye(matrix.shape[1])
