"""Whether a motion with given initial data exists and is unique, with the numbers and in words."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from dalembert.algebra import numerical_rank
from dalembert.numbers import as_number, as_vector, is_traced
from dalembert.systems.checks import check_parameters, check_x64
from dalembert.systems.consistency import velocity_residuals
from dalembert.systems.constraints import WithForces
from dalembert.systems.distribution.integrability import AFFINE, Frobenius, affinity, forms_and_slopes, judge
from dalembert.systems.distribution.reduction import (
    DEGENERATE,
    Reduction,
    check_first_order,
    constraint_rows,
    coupling_rank,
    explicit_terms,
)
from dalembert.systems.shapes import check_shapes
from dalembert.systems.sizes import CONSISTENT
from dalembert.systems.system import System
from dalembert.tracing import seldom

POINTS = 8  # nearby points at which rank and integrability are looked at
NEARBY = 0.05  # their distance in each coordinate, relative to 1 + |q_i|


@dataclasses.dataclass(frozen=True)
class Solvability:
    """(i) ⟨m z, z⟩ > 0 on ker φ_v, (ii) φ(q₀, v₀, t₀) = 0, (iii) rank φ_v = m: which of them hold. `str` of it says all in
    words.

    Attributes:
        coordinates: n.
        wanted: m, the rank that φ_v should have.
        residual: largest |φ| (of holonomic constraints also |dφ/dt|).
        rank: of φ_v.
        smallest_row: smallest singular value of φ_v, rows of unit length.
        ranks_nearby: least and largest rank at nearby random points.
        mass_on_kernel: smallest eigenvalue of m = L_vv on ker φ_v, in units of mass; inf where the kernel is zero.
        free_motion: smallest singular value of m/|m| between ker R and ker φ_v: what a unique v̇ needs; for R = φ_v it is
            zero where m is singular on the kernel.
        coupling: smallest singular value of C = φ_v m⁻¹Rᵀ made of unit vectors, 0 where m is singular.
        condition: condition number of the same.
        chetaev: whether R = φ_v.
        holonomic: whether all constraints are given as holonomic ones.
        frobenius: curvature of the distribution in (q, t) space, None for constraints nonlinear in v and without
            constraints.
    """

    coordinates: int
    wanted: int
    residual: float
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

    @property
    def consistent(self) -> bool:
        """Condition (ii): the data satisfy the constraints."""
        return self.residual <= CONSISTENT

    @property
    def full_rank(self) -> bool:
        """Condition (iii): the constraints are independent."""
        return self.rank == self.wanted

    @property
    def positive(self) -> bool:
        """Condition (i): the mass matrix is positive definite on ker φ_v."""
        return self.mass_on_kernel > 0 and self.free_motion > DEGENERATE

    @property
    def regular(self) -> bool:
        """(v̇, λ) are determined: the weaker condition in place of (i), and the one that counts for other reactions."""
        return self.free_motion > DEGENERATE

    @property
    def solvable(self) -> bool:
        """One motion, and only one, starts from the data."""
        return self.consistent and self.full_rank and self.regular

    @property
    def integrable(self) -> bool | None:
        """Whether the constraints restrict positions (Frobenius); None where they are nonlinear in v or there are none."""
        return None if self.frobenius is None else self.frobenius.integrable

    def __str__(self) -> str:
        return "\n".join([_headline(self), *(f"  {line}" for line in _lines(self))])


def _headline(s: Solvability) -> str:
    if s.solvable:
        return "solvable: one motion, and only one, starts from (q0, v0)"
    names = {"inconsistent data": s.consistent, "dependent constraints": s.full_rank, "singular equations": s.regular}
    return f"not solvable: {', '.join(name for name, holds in names.items() if not holds)}"


def _lines(s: Solvability) -> list[str]:
    lines = []
    if s.wanted:
        lines.append(_about_data(s))
        lines.append(_about_rank(s))
    lines.append(_about_mass(s))
    if s.wanted and s.full_rank:
        lines.append(_about_coupling(s))
        lines.append(_about_positions(s))
    return lines


def _about_data(s: Solvability) -> str:
    if s.consistent:
        return f"the data satisfy the constraints: |φ| = {s.residual:.2g}"
    return f"the data violate the constraints: |φ| = {s.residual:.3g}; dalembert.project finds the nearest that do not"


def _about_rank(s: Solvability) -> str:
    low, high = s.ranks_nearby
    found = f"∂φ/∂v has rank {s.rank} of {s.wanted} (smallest singular value {s.smallest_row:.3g}, rows of unit length)"
    if s.full_rank:
        return found + (", nearby too" if low == high == s.rank else f", nearby {low} to {high}: it drops close to here")
    if high > s.rank:
        return (
            found + f" but {high} at nearby points: this point is singular; start elsewhere, and expect trouble close to it"
        )
    return found + ", nearby too: a constraint follows from the others, or contradicts them; remove it"


def _about_mass(s: Solvability) -> str:
    where = "on ker ∂φ/∂v" if s.wanted else ""
    if s.mass_on_kernel == np.inf:
        return "the constraints leave no free motion: v is determined by q, and no mass is needed"
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
    if s.coupling > DEGENERATE:
        numbers = f"smallest singular value {s.coupling:.3g}, condition {s.condition:.3g}"
        return f"C = φ_v m⁻¹Rᵀ is regular: λ is explicit ({numbers})"
    return (
        "C = φ_v m⁻¹Rᵀ is degenerate or m is singular: dalembert.reduction does not apply"
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
            "exactly, Nonholonomic works and lets them drift"
        )
    if f.at_point <= 1e-6 * f.curvature:
        return f"not integrable: curvature {f.curvature:.3g} nearby, although zero at this point itself"
    return (
        f"not integrable: curvature {f.at_point:.3g} here; D + [D, D] spans {f.reached} of {s.coordinates + 1} directions "
        "of (q, t)" + (": some combination of the constraints may be holonomic" if f.reached < s.coordinates + 1 else "")
    )


class _Terms(NamedTuple):
    terms: Reduction
    residual: Array
    rows: Array
    affinity: Array
    omega: Array
    slopes: Array


@seldom
def _look(system: System, q, v, t, points, speeds) -> _Terms:
    every = jnp.concatenate([q[None], points])
    omega, slopes = jax.vmap(lambda x: forms_and_slopes(system, x, v, t))(every)
    residuals = velocity_residuals(system, q, v, t).values()
    return _Terms(
        explicit_terms(system, q, v, t),
        jnp.max(jnp.abs(jnp.concatenate([*residuals, jnp.zeros(1)]))),
        jax.vmap(lambda x, w: constraint_rows(system, x, w, t))(points, speeds),
        jnp.max(jax.vmap(lambda x, w: affinity(system, x, v, w, t))(points, speeds)),
        omega,
        slopes,
    )


def solvability(system: System, q0, v0, t0: float = 0.0) -> Solvability:
    """(i) ⟨m z, z⟩ > 0 on ker φ_v, (ii) φ(q₀, v₀, t₀) = 0, (iii) rank φ_v = m  ⇒  one motion from (q₀, v₀), locally.

    Nothing is raised for data or systems that fail: the result says what holds, in numbers and, printed, in words. It also
    says whether constraints affine in v are integrable (Frobenius): dω(X, Y) = 0 on the distribution at the point and at
    nearby random ones, in (q, t) space.

    Args:
        system: a System with constraints of order 0 and 1.
        q0: (n,) positions.
        v0: (n,) velocities.
        t0: the time.

    Returns:
        A Solvability.

    Raises:
        TypeError: an argument is of the wrong type, or traced.
        ValueError: shapes, constraints on accelerations, values that are not finite.

    Source: Jiménez, Scheurle, Theorem 2.1 and eq. (7). What differs: m may depend on all of (q, v, t); reactions other than
    φ_v are included, and there, as for an indefinite m, the matrix of (v̇, λ) decides.

    Example:
        >>> found = da.solvability(edge, [0.0, 0.0, 0.0], [1.0, 0.0, 0.5])
        >>> found.solvable, found.integrable
        (True, False)
    """
    check_x64()
    check_first_order(system, "solvability")
    q = as_vector(q0, "q0")
    v = as_vector(v0, "v0", q.shape[0])
    if is_traced(system, q, v, t0):
        raise TypeError("solvability: works on numbers and not under jit, vmap or grad")
    t = jnp.asarray(as_number(t0, "t0", "a finite time"), dtype=float)
    m = sum(check_shapes(system, q, v, t))
    check_parameters(system)
    random = np.random.default_rng(0).uniform(-1.0, 1.0, (2, POINTS, q.shape[0]))
    points, speeds = (jnp.asarray(x + NEARBY * (1 + np.abs(x)) * r) for x, r in zip(np.asarray([q, v]), random, strict=True))
    found = jax.tree.map(np.asarray, _look(system, q, v, t, points, speeds))
    return _judge(system, found, q.shape[0], m)


def _judge(system: System, found: Any, n: int, m: int) -> Solvability:
    terms = found.terms
    if not (np.all(np.isfinite(terms.mass)) and np.all(np.isfinite(terms.rows)) and np.isfinite(found.residual)):
        raise ValueError("q0, v0: the Lagrangian, a constraint or one of their derivatives is not finite there")
    here, forces = numerical_rank(terms.rows), numerical_rank(terms.reactions)
    nearby = [numerical_rank(rows).rank for rows in found.rows if np.all(np.isfinite(rows))] or [here.rank]
    kernel, virtual = (_kernel(x, rank.rank) for x, rank in ((terms.rows, here), (terms.reactions, forces)))
    mass = 0.5 * (terms.mass + terms.mass.T)
    eigenvalue = np.linalg.eigvalsh(kernel.T @ mass @ kernel).min(initial=np.inf)
    size = np.linalg.norm(mass, 2)
    between = virtual.T @ mass @ kernel / (size or 1.0)
    motion = np.linalg.svd(between, compute_uv=False).min(initial=np.inf) if forces.rank == here.rank else 0.0
    coupling, condition = coupling_rank(terms) if numerical_rank(mass).full else (0.0, np.inf)
    finite = np.all(np.isfinite(found.slopes), axis=(1, 2, 3))
    affine = m > 0 and here.rank == m and bool(found.affinity <= AFFINE) and bool(finite[0])
    return Solvability(
        coordinates=n,
        wanted=m,
        residual=float(found.residual),
        rank=here.rank,
        smallest_row=float(here.singular_values.min(initial=np.inf)),
        ranks_nearby=(min(nearby), max(nearby)),
        mass_on_kernel=float(eigenvalue),
        free_motion=float(motion),
        coupling=coupling,
        condition=condition,
        chetaev=not any(isinstance(c, WithForces) and (c.reactions or c.virtual) for c in system.constraints),
        holonomic=all(c.order == 0 for c in system.constraints),
        frobenius=judge(found.omega[finite], found.slopes[finite]) if affine else None,
    )


def _kernel(matrix: np.ndarray, rank: int) -> np.ndarray:
    """Orthonormal columns that span the kernel of a matrix (m, n) of the given rank."""
    return np.linalg.svd(matrix, full_matrices=True)[2][rank:].T if matrix.size else np.eye(matrix.shape[1])
