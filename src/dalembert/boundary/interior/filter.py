"""A filter: which points a line search takes, by violation θ and barrier function ϕ, without a penalty.

A point is taken where it lowers one of θ and ϕ against the present point, and against every point of the filter. Where θ is
small and ϕ falls along the step, Armijo's condition on ϕ is asked for and the filter stays as it is.
Source: A. Wächter, L. T. Biegler, Math. Program. 106 (2006), section 2.3, with its constants.
"""

from __future__ import annotations

import dataclasses
import math

from dalembert.boundary.newton.merit import ARMIJO, NOISE

MARGIN = 1e-5  # γ_θ, γ_ϕ
POWERS = (2.3, 1.1)  # s_ϕ, s_θ
SMALL, LARGE = 1e-4, 1e4  # of the first violation: below which ϕ decides, above which nothing is taken


@dataclasses.dataclass(frozen=True)
class Standing:
    """Violation θ and barrier function ϕ of a point."""

    violation: float
    barrier: float

    @property
    def finite(self) -> bool:
        return math.isfinite(self.violation) and math.isfinite(self.barrier)


class Filter:
    """The points that no other may be as bad as.

    first: the violation of the first path; tolerance: the violation that is none, so that ϕ alone decides.
    """

    def __init__(self, first: float, tolerance: float):
        self.small, self.largest, self.tolerance = SMALL * max(1.0, first), LARGE * max(1.0, first), tolerance
        self.corners: list[tuple[float, float]] = []

    def clear(self) -> None:
        self.corners = []

    def add(self, at: Standing) -> None:
        self.corners.append((max((1.0 - MARGIN) * at.violation, self.tolerance), at.barrier - MARGIN * at.violation))

    def allows(self, new: Standing) -> bool:
        """Whether no point of the filter is as good."""
        if not new.finite or new.violation > self.largest:
            return False
        return all(new.violation <= violation or new.barrier <= barrier for violation, barrier in self.corners)

    def descent(self, at: Standing, slope: float, length: float) -> bool:
        """Whether ϕ is what such a step has to lower."""
        if slope >= 0.0 or at.violation > self.small:
            return False
        return at.violation <= self.tolerance or length * (-slope) ** POWERS[0] > at.violation ** POWERS[1]

    def accepts(self, at: Standing, new: Standing, slope: float, length: float) -> bool:
        """Whether a step of this length from `at` to `new` is taken. slope: of ϕ along the whole step."""
        if not self.allows(new):
            return False
        noise = 10.0 * NOISE * abs(at.barrier)
        if self.descent(at, slope, length):
            return new.barrier <= at.barrier + ARMIJO * length * slope + noise
        return new.violation <= (1.0 - MARGIN) * at.violation or new.barrier <= at.barrier - MARGIN * at.violation + noise
