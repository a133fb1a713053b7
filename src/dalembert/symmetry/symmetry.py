"""Symmetry: one vector field, what it leaves as it is, and which theorem says what becomes of its momentum."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Float

from dalembert.notebook import Described


@dataclasses.dataclass(frozen=True, eq=False)
class Symmetry(Described):
    """A vector field ξ on Q, a candidate for a symmetry, with the residual of each condition at the samples.

    Attributes:
        name: as given, or a formula, such as "-y ∂x + x ∂y + ∂θ".
        generator: ξ(q) as a function, for `measure.momentum` and the argument `symmetries` of `verdict`.
        matrix: (n, n) A of ξ = A q + b; None if a function was given.
        shift: (n,) b; None if a function was given.
        residuals: for "action", "constraints", "forces" and "reactions": the largest change along ξ, relative to the
            sizes of its terms.
        work: the largest of R ξ and f·ξ, relative to the sizes of their terms: what changes the momentum. For a
            VariationalProblem, whose constraints are part of the action, the residual of the constraints.
        tolerance: largest residual that counts as zero.
        order: k of a VariationalProblem; None for a System.
    """

    name: str
    generator: Callable
    matrix: Float[np.ndarray, "n n"] | None
    shift: Float[np.ndarray, "n"] | None
    residuals: dict[str, float]
    work: float
    tolerance: float
    order: int | None

    @property
    def residual(self) -> float:
        """The largest residual."""
        return max(self.residuals.values(), default=0.0)

    @property
    def is_symmetry(self) -> bool:
        """Whether L, the constraints, the forces and the space of reactions do not change along ξ: its flow maps
        motions to motions."""
        return self.residual <= self.tolerance

    @property
    def conserved(self) -> bool:
        """Whether the momentum is conserved: L does not change along ξ, and neither forces nor reactions act along it.

        The constraints may change: p_θ of a knife edge is constant although ∂θ is not a symmetry of it. The constraints
        of a VariationalProblem are part of the action, and must not change.
        """
        return max(self.residuals["action"], self.work) <= self.tolerance

    @property
    def theorem(self) -> str:
        """What holds for the momentum, in words."""
        if self.conserved and self.order is not None:
            return f"J = Θ·ξ of order {self.order} is kept"
        if self.conserved:
            return "J = p·ξ is kept (Noether)" if self.is_symmetry else "J = p·ξ is kept (Noether), but ξ is not a symmetry"
        if self.residuals["action"] > self.tolerance:
            return f"no symmetry: L changes by {self.residuals['action']:.1g} of its terms"
        if self.order is not None:
            return f"no symmetry: the constraints in the action change by {self.work:.1g} of their terms"
        return "dJ/dt = (f + Rᵀλ)·ξ (momentum equation)"

    def describe(self) -> str:
        """Name, theorem and residual in one line."""
        missed = [f"{name} {size:.1g}" for name, size in self.residuals.items() if size > self.tolerance]
        found = f"residual {self.residual:.1g}" if not missed else f"changed: {', '.join(missed)}"
        return f"{self.name}: {self.theorem}; {found}"


@dataclasses.dataclass(frozen=True, eq=False)
class Symmetries(Described):
    """The fields that were found or given; those whose momentum is conserved come first. It has a length, and can be
    indexed and looped over.

    Attributes:
        found: the fields, each a Symmetry.
        accepted: the largest singular value of the conditions that counted as zero; 0 if there is no symmetry, nan if
            generators were given.
        rejected: the smallest singular value that did not; inf if every field is a symmetry, nan if generators were
            given.
        samples: number of states at which the conditions were evaluated.
    """

    found: tuple[Symmetry, ...]
    accepted: float
    rejected: float
    samples: int

    @property
    def gap(self) -> float:
        """rejected/accepted: near 1 the number of symmetries is uncertain; 1e8 and more is certain."""
        return self.rejected / max(self.accepted, float(np.finfo(float).eps))

    @property
    def generators(self) -> dict[str, Callable]:
        """name → ξ(q) for the fields along which L does not change: for the argument `symmetries` of `verdict`."""
        return {one.name: one.generator for one in self.found if one.residuals["action"] <= one.tolerance}

    def __len__(self) -> int:
        return len(self.found)

    def __iter__(self) -> Iterator[Symmetry]:
        return iter(self.found)

    def __getitem__(self, key: int | str) -> Symmetry:
        """By number, or by name."""
        if not isinstance(key, str):
            return self.found[key]
        for one in self.found:
            if one.name == key:
                return one
        raise KeyError(f"{key!r}: no field has this name; there are {', '.join(repr(one.name) for one in self.found)}")

    def describe(self) -> str:
        """One line for each field, and the gap of the search."""
        lines = [one.describe() for one in self.found] or ["no symmetry found"]
        if not np.isnan(self.accepted):
            lines.append(
                f"singular values: {self.accepted:.1e} counted as zero, {self.rejected:.1e} not; {self.samples} states"
            )
        return "\n".join(lines)

    __str__ = describe
