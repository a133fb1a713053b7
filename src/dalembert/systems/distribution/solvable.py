"""What `solvability` found, in numbers and in words."""

from __future__ import annotations

import dataclasses

import numpy as np

from dalembert.notebook import Described
from dalembert.systems.distribution.integrability import Frobenius
from dalembert.systems.distribution.reduction import DEGENERATE
from dalembert.systems.sizes import CONSISTENT


@dataclasses.dataclass(frozen=True)
class Solvability(Described):
    """(i) ⟨m z, z⟩ > 0 on ker J, (ii) φ(q₀, v₀, t₀) = 0, (iii) rank J = m: which of these conditions hold; `str` of it
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
        """Whether exactly one motion starts from the data."""
        return self.consistent and self.root and self.full_rank and self.regular

    @property
    def integrable(self) -> bool | None:
        """Whether the constraints are integrable, and so restrict positions (Frobenius); None if they are nonlinear in
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
