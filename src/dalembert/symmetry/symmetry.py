"""Symmetry: one vector field, what it leaves as it is, and which theorem says what becomes of its momentum."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Float

from dalembert.notebook import Described


@dataclasses.dataclass(frozen=True, eq=False)
class Symmetry(Described):
    """A vector field ξ on Q, as a candidate for a symmetry, and how far each condition is missed at the samples.

    Attributes:
        name: given by the user, or in words, such as "-y ∂x + x ∂y + ∂θ".
        generator: ξ(q) as a function, for `measure.momentum` and the `symmetries` of `verdict`.
        matrix: (n, n) A of ξ = A q + b; None for a function of the user's.
        shift: (n,) b; None for a function of the user's.
        residuals: of "action", "constraints", "forces" and "reactions": the largest change along ξ, relative to the terms
            that it is the sum of.
        work: the largest of R ξ and f·ξ, relative as well: what changes the momentum. Of a VariationalProblem, whose
            constraints stand in the action, their residual.
        tolerance: up to where a residual counts as zero.
        order: of a VariationalProblem, its k; None of a System.
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
        """The largest of the residuals."""
        return max(self.residuals.values(), default=0.0)

    @property
    def is_symmetry(self) -> bool:
        """L, the constraints, the forces and the space of reactions do not change along ξ: motions go to motions."""
        return self.residual <= self.tolerance

    @property
    def conserved(self) -> bool:
        """The momentum is kept: L does not change, and neither forces nor reactions act along ξ.

        It is not needed that the constraints are kept: p_θ of a knife edge is constant though ∂θ is no symmetry of it. Those
        of a VariationalProblem stand in the action, and have to be.
        """
        return max(self.residuals["action"], self.work) <= self.tolerance

    @property
    def theorem(self) -> str:
        """What becomes of the momentum."""
        if self.conserved and self.order is not None:
            return f"J = Θ·ξ of order {self.order} is kept"
        if self.conserved:
            return "J = p·ξ is kept (Noether)" if self.is_symmetry else "J = p·ξ is kept (Noether), but ξ is no symmetry"
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
    """The fields that were found or given, those whose momentum is kept first. len, [i], and a loop go over them.

    Attributes:
        found: a Symmetry each.
        accepted: the largest singular value of the conditions that was taken for zero, 0 where the space of symmetries is
            {0}; nan where generators were given.
        rejected: the smallest that was not, inf where every field is a symmetry; nan as above.
        samples: number of states that were looked at.
    """

    found: tuple[Symmetry, ...]
    accepted: float
    rejected: float
    samples: int

    @property
    def gap(self) -> float:
        """rejected/accepted: near 1 it is not clear how many symmetries there are; 1e8 and more is clear."""
        return self.rejected / max(self.accepted, float(np.finfo(float).eps))

    @property
    def generators(self) -> dict[str, Callable]:
        """name → ξ(q), of those whose L does not change: for the `symmetries` of `verdict`."""
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
        raise KeyError(f"{key!r}: there are {', '.join(repr(one.name) for one in self.found)}")

    def describe(self) -> str:
        """A line for each, and how clear the search was."""
        lines = [one.describe() for one in self.found] or ["no symmetry found"]
        if not np.isnan(self.accepted):
            lines.append(
                f"singular values: {self.accepted:.1e} taken for zero, {self.rejected:.1e} not; {self.samples} states"
            )
        return "\n".join(lines)

    __str__ = describe
