"""A filter: which points a line search takes, by violation θ and barrier function ϕ, without a penalty.

A point is taken where it lowers one of θ and ϕ against the present point, and against every point of the filter. Where θ is
small and ϕ falls along the step, Armijo's condition on ϕ is asked for and the filter stays as it is.
Source: A. Wächter, L. T. Biegler, Math. Program. 106 (2006), section 2.3, with its constants.
"""

from __future__ import annotations

import numpy as np

from dalembert.boundary.interior import rules
from dalembert.boundary.interior.rules import Standing

SMALL, LARGE = 1e-4, 1e4  # of the first violation: below which ϕ decides, above which nothing is taken


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
        self.corners.append((float(rules.corner_violation(at, self.tolerance, xp=np)), rules.corner_barrier(at)))

    def allows(self, new: Standing) -> bool:
        """Whether no point of the filter is as good."""
        if not new.finite or new.violation > self.largest:
            return False
        return all(rules.better(new, *corner) for corner in self.corners)

    def remembers(self, at: Standing, reached: Standing, slope: float, length: float) -> None:
        """Adds the point that is left, unless ϕ falls as it has to."""
        if rules.remembered(at, reached, slope, length, self.small, self.tolerance, xp=np):
            self.add(at)

    def accepts(self, at: Standing, new: Standing, slope: float, length: float) -> bool:
        """Whether a step of this length from `at` to `new` is taken. slope: of ϕ along the whole step."""
        return self.allows(new) and bool(rules.taken(at, new, slope, length, self.small, self.tolerance, xp=np))
