"""What a scheme declares of itself for a system, as data: `claims` measures it."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class SchemeClaims:
    """The orders and the structure that a scheme declares for a system; `verdict` measures each of them.

    Attributes:
        order: order of q and v at their own times.
        multipliers: order of the multipliers at their own times.
        not_self_adjoint: why the step is not self-adjoint; None if it is.
        keeps_distribution: whether constraints on velocities hold at the states of the run.
        symplectic: whether the step is symplectic on T*Q, for a system without forces and with no other constraints
            than holonomic ones.
        source: the paper, with the number of the theorem or equation.
        consistency: the orders (p, s) of one step from exact data on D: p of (q, v), s of λ at the end of the step.
            None if there are constraints other than those on velocities, or if the step is not a map of (q, v).

    Example:
        >>> da.Scheme(order=4).claims(pendulum).order
        4
    """

    order: int
    multipliers: int
    not_self_adjoint: str | None
    keeps_distribution: bool
    symplectic: bool
    source: str
    consistency: tuple[int, int] | None = None
