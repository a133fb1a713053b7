"""The pair (p, s) of Definition 4.2: errors of one step from exact data on D, at random points of D.

p + 1 is the least exponent of the errors of q and v in ε, s + 1 that of the error of λ at the end of the step. Exact flows:
the closed form of the particle from any point, otherwise eight steps of the composition of order 8, an error below 1e-17.
`measure.consistency` finds the same pair from the flow of the reduced equation, for any system and slower; it knows no D_ε.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float

from dalembert.gallery import nonholonomic_particle
from papers.convergence import Method, fitted_slope
from papers.jimenez_scheurle.integrators import (
    CASES,
    COMPOSED,
    FOUR,
    ORIGINAL,
    PARTICLE,
    POTENTIAL,
    Case,
    multipliers_at,
)

STEPS = (0.04, 0.02, 0.01, 0.005)
POINTS = 6
PARTS = 8
FLOOR = 1e-13
NAMES = ("q", "v", "own", "end", "recomputed")


@dataclasses.dataclass(frozen=True)
class Pair:
    """Errors (steps, points) of one step, as in `orders.Errors`; deformed: from data on D_ε and not on D.

    ratio: the scheme's λ over the true one at the beginning of the step, (steps, points), of the first constraint.
    """

    case: Case
    method: Method
    deformed: bool
    error: dict[str, Float[np.ndarray, "steps points"]]
    ratio: Float[np.ndarray, "steps points"]

    def exponent(self, name: str) -> float:
        """Slope of the largest error over the points; NaN where it is rounding."""
        error = np.max(self.error[name], axis=1)
        return fitted_slope(STEPS, error) if error[-1] > FLOOR else float("nan")

    @property
    def p(self) -> float:
        return float(np.fmin(self.exponent("q"), self.exponent("v"))) - 1.0

    @property
    def s(self) -> float:
        return self.exponent("end") - 1.0


def flow(case: Case, q, v, times) -> tuple[np.ndarray, np.ndarray]:
    """The exact solution from (q, v) at times that are multiples of their last over 8.

    For the particle also off D: along eq. (90) v_z - y v_x is constant, and nothing else depends on v_z.
    """
    if case in (PARTICLE, POTENTIAL):
        off = np.array([0.0, 0.0, v[2] - q[1] * v[0]])
        c = float(case.system.parameters["c"])
        x, w = nonholonomic_particle.exact(times, c, q, v - off)
        return x + np.outer(times, off), w + off
    path = COMPOSED[-1].simulate(case.system, q, v, times[-1] / PARTS, times[-1])
    index = np.rint(times / times[-1] * PARTS).astype(int)
    return np.asarray(path.q)[index], np.asarray(path.v)[index]


def one_step(case: Case, method: Method, q, v, h: float, deformed: bool) -> np.ndarray:
    """Errors after one step, in the order of NAMES, and the ratio. deformed: of the second step; the first ends on D_ε."""
    path = method.simulate(case.system, q, v, h, 2 * h if deformed else h)
    first = path.t[-2]
    begin = np.asarray(path.q[-2]), np.asarray(path.v[-2])
    own = float(path.t_multipliers[-1] - first)
    x, w = flow(case, *begin, np.array([0.0, own, h]))
    start, at_own, at_end = multipliers_at(case.system, x, w)
    again = multipliers_at(case.system, path.q[-1:], path.v[-1:])[0]
    λ = np.asarray(path.multipliers[-1])
    gaps = (path.q[-1] - x[-1], path.v[-1] - w[-1], λ - at_own, λ - at_end, again - at_end)
    return np.array([*(np.linalg.norm(gap) for gap in gaps), λ[0] / start[0]])


def pair(case: Case, method: Method, deformed: bool = False) -> Pair:
    points = case.points(POINTS)
    found = np.array([[one_step(case, method, *point, h, deformed) for point in points] for h in STEPS])
    return Pair(case, method, deformed, dict(zip(NAMES, np.moveaxis(found, -1, 0), strict=False)), found[..., -1])


def measure(fast: bool = False) -> list[Pair]:
    cases = (PARTICLE,) if fast else CASES
    found = [pair(case, method) for case in cases for method in FOUR]
    return [*found, *(pair(case, ORIGINAL, deformed=True) for case in cases if case in (PARTICLE, POTENTIAL))]
