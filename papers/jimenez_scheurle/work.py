"""Error against work on the contact oscillator: one stage of a composition is one step of the integrator (86)."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float

from papers.convergence import Method, fitted_slope
from papers.drawing import Save, panels
from papers.jimenez_scheurle.integrators import COLOURS, COMPOSED, EXPLICIT, IMPLICIT, MARKERS, OSCILLATOR
from papers.jimenez_scheurle.orders import difference

TIME = 20.0
METHODS = (EXPLICIT, IMPLICIT, *COMPOSED)
STAGES = 100 * 2 ** np.arange(7)  # of the whole run; the nearest number that whole steps make is taken
FLOOR = 2e-13


@dataclasses.dataclass(frozen=True)
class Work:
    """Largest error of (q, v) over [0, 20] for each number of stages."""

    method: Method
    stages: Float[np.ndarray, "K"]
    error: Float[np.ndarray, "K"]

    @property
    def order(self) -> float:
        """Slope over the three best runs whose error is above rounding."""
        above = self.error > FLOOR
        return -fitted_slope(self.stages[above], self.error[above], 3)

    def stages_for(self, error: float) -> float:
        """Stages for an error, by the line between the two runs around it; NaN outside."""
        order = np.argsort(self.error)
        x, y = np.log(self.error[order]), np.log(self.stages[order])
        return float(np.exp(np.interp(np.log(error), x, y, left=np.nan, right=np.nan)))


def measured(method: Method, stages=STAGES) -> Work:
    number = len(method.scheme.weights)
    steps = np.rint(np.asarray(stages) / number).astype(int)
    errors = []
    for n in steps:
        path = method.simulate(OSCILLATOR.system, *OSCILLATOR.start, TIME / n, TIME)
        q, v = OSCILLATOR.exact(np.asarray(path.t))
        errors.append(difference(np.hstack([path.q, path.v]), np.hstack([q, v])))
    return Work(method, (number * steps).astype(float), np.array(errors))


def measure(fast: bool = False) -> list[Work]:
    return [measured(IMPLICIT, STAGES[:5])] if fast else [measured(method) for method in METHODS]


def draw(save: Save, results: list[Work]) -> None:
    figure, axes = panels(size=(5.6, 4.2))
    panel = axes[0, 0]
    for result in results:
        name = result.method.name
        label = f"{result.method.label}, slope {result.order:.1f}"
        panel.plot(result.stages, result.error, MARKERS[name] + "-", color=COLOURS[name], label=label, markersize=5)
    panel.set(xscale="log", yscale="log", xlabel="stages in [0, 20]", ylabel="largest error of $(q, v)$")
    panel.legend(fontsize=8.5)
    save("work", figure)
