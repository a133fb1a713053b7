"""What a scheme declares of itself for a system, as data: `claims` measures it."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class SchemeClaims:
    """The orders and the structure that a scheme declares for a system; `verdict` measures each of them.

    Attributes:
        order: of q and v at their own times.
        multipliers: of the multipliers at their own times.
        not_self_adjoint: why the step is not its own adjoint, None where it is.
        keeps_distribution: constraints on velocities hold at the states of the run.
        symplectic: the step is symplectic on T*Q where the system has at most holonomic constraints and no forces.
        source: paper and number.
        consistency: (p, s) of one step from exact data on D, in (q, v) and in λ at the end of the step; None where there are
            other constraints than those on velocities, or the step is no map of (q, v).

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
