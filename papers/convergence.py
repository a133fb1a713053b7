"""Errors against the step: which methods are compared, fitted slopes, slopes between neighbours."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from dalembert.discretize import Scheme
from dalembert.options import Start, Starter
from dalembert.path import Path
from dalembert.step import simulate
from dalembert.systems import System


@dataclasses.dataclass(frozen=True)
class Method:
    """A scheme with the way it starts; label is what a legend and a table say."""

    name: str
    label: str
    scheme: Scheme
    starter: Starter = "second_order"

    def simulate(self, system: System, q0, v0, h: float, time: float, **choices) -> Path:
        """The path from t = 0 to the given time, a whole number of steps away."""
        run = {"scheme": self.scheme, "start": Start(starter=self.starter), **choices}
        return simulate(system, q0, v0, h=h, steps=round(time / h), **run)


PRINTED = Method("printed", "printed start, $q_1 = q_0 + h v_0$", Scheme.borda_fernandez_grillo(), "first_order")
EXACT = Method("exact", "start on the solution, $q_1 = q(h)$", Scheme.borda_fernandez_grillo(), "reference")
ONE_STEP = Method("one_step", "one step form, from $(q_0, v_0)$", Scheme())  # the printed equations on (q̃, v)
METHODS = (PRINTED, EXACT, ONE_STEP)


@dataclasses.dataclass(frozen=True)
class ErrorsByStep:
    """Largest error over [0, time] for every step."""

    method: Method
    time: float
    h: Float[np.ndarray, "steps"]
    error: Float[np.ndarray, "steps"]

    def slope(self, last: int | None = None) -> float:
        """Least squares slope of log error against log h, over all steps or the `last` smallest."""
        return fitted_slope(self.h, self.error, last)

    def asymptotic_slope(self, tolerance: float = 0.05) -> float:
        """Slope over the smallest steps, between which it stays the same to the tolerance; NaN if fewer than four."""
        slopes = self.slopes()[::-1]
        steps = 1 + int(np.argmin(np.append(np.abs(slopes - slopes[0]) < tolerance, False)))
        return self.slope(steps) if steps > 3 else float("nan")

    def first(self, count: int) -> ErrorsByStep:
        """The errors of the first steps alone."""
        return dataclasses.replace(self, h=self.h[:count], error=self.error[:count])

    def slopes(self) -> Float[np.ndarray, "steps-1"]:
        """Slopes between neighbouring steps."""
        return np.diff(np.log(self.error)) / np.diff(np.log(self.h))


def fitted_slope(h: ArrayLike, error: ArrayLike, last: int | None = None) -> float:
    """Slope of the line log error = slope · log h + constant, by least squares over the `last` points."""
    keep = slice(None) if last is None else slice(-last, None)
    return float(np.polyfit(np.log(h)[keep], np.log(error)[keep], 1)[0])
