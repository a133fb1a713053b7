"""Global errors against closed forms: q and v, and λ in three readings."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float

from dalembert.path import Path
from papers.convergence import Method, fitted_slope
from papers.drawing import Save, panels, step_ticks
from papers.jimenez_scheurle.integrators import (
    CASES,
    COLOURS,
    COMPOSED,
    FOUR,
    MARKERS,
    OSCILLATOR,
    PARTICLE,
    Case,
    multipliers_at,
)

STEPS = (0.1, 0.05, 0.025, 0.0125)
COARSER = {"order_6": 4, "order_8": 8}  # their errors would be rounding otherwise
TIME = 4.0
TICKS = (0.0125, 0.1, 0.8)
FLOOR = 1e-13  # below this an error may be rounding, which is 1e-15 to 1e-14 here
QUANTITIES = ("q", "v", "own", "end", "recomputed")
TITLES = {
    "q": "$q$", "v": "$v$", "own": "$\\lambda$ at its own time", "end": "$\\lambda$ at the end of the step",
    "recomputed": "$\\lambda(q, v)$",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Errors:
    """Largest errors over [0, 4] for every step. own, end: the scheme's λ against λ(t) at `path.t_multipliers` and at the
    end of its step, without the first step, which `consistency` looks at; recomputed: λ(q, v) by eq. (23), Remark 4.3.
    A composition has no λ of its own: the three agree.
    """

    case: Case
    method: Method
    h: Float[np.ndarray, "steps"]
    error: dict[str, Float[np.ndarray, "steps"]]

    def order(self, quantity: str) -> float:
        """Slope over the steps whose error is above rounding; NaN where fewer than three are."""
        error = self.error[quantity]
        above = error > FLOOR
        return fitted_slope(self.h[above], error[above]) if above.sum() > 2 else float("nan")


def difference(one, other) -> float:
    return float(np.max(np.linalg.norm(np.atleast_2d(np.asarray(one) - np.asarray(other)), axis=-1)))


def errors_of(case: Case, path: Path) -> tuple[float, ...]:
    """Of q, v, and λ in the three readings, along one path."""
    t, own = np.asarray(path.t), np.asarray(path.t_multipliers)
    q, v = case.exact(t)
    along = multipliers_at(case.system, *case.exact(np.concatenate([t, own])))
    true, at_own = along[: len(t)], along[len(t) :]
    again = multipliers_at(case.system, path.q, path.v)
    found = np.asarray(path.multipliers)
    return (
        difference(path.q, q), difference(path.v, v), difference(found[1:], at_own[1:]), difference(found[1:], true[2:]),
        difference(again[2:], true[2:]),
    )  # fmt: skip


def measured(case: Case, method: Method, steps=STEPS, time: float = TIME) -> Errors:
    steps = [h * COARSER.get(method.name, 1) for h in steps]
    paths = [method.simulate(case.system, *case.start, h, time) for h in steps]
    table = np.array([errors_of(case, path) for path in paths])
    return Errors(case, method, np.array(steps), dict(zip(QUANTITIES, table.T, strict=True)))


def measure(fast: bool = False) -> list[Errors]:
    cases, methods = ((PARTICLE,), FOUR) if fast else (CASES, FOUR + COMPOSED)
    return [measured(case, method, STEPS[: 3 if fast else None]) for case in cases for method in methods]


def draw(save: Save, results: list[Errors]) -> None:
    """Rows: the free particle and the contact oscillator; columns: the quantities."""
    shown = [case for case in (PARTICLE, OSCILLATOR) if any(r.case is case for r in results)]
    figure, axes = panels(len(shown), len(QUANTITIES), size=(10.0, 1.0 + 2.2 * len(shown)), sharex=True, sharey=True)
    for i, (row, case) in enumerate(zip(axes, shown, strict=True)):
        for panel, quantity in zip(row, QUANTITIES, strict=True):
            for result in results:
                if result.case is case:
                    _line(panel, result, quantity)
            panel.set(xscale="log", yscale="log", title="" if i else TITLES[quantity])
            step_ticks(panel, TICKS)
        row[0].set_ylabel(f"{case.label}: largest error")
    for panel in axes[-1]:
        panel.set_xlabel("$\\epsilon$")
    axes[0, 0].set_ylim(1e-16, 5)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=9)
    save("orders", figure)


def _line(panel, result: Errors, quantity: str) -> None:
    """β = 1 and the original nodes dashed and with open markers: they often hide, or are hidden by, another line."""
    name = result.method.name
    look = {"linestyle": "--", "markerfacecolor": "none", "markersize": 7.5} if name in ("last", "original") else {}
    seen = result.error[quantity] > 1e-16
    look = {"linestyle": "-", "markersize": 4.5, "color": COLOURS[name], "marker": MARKERS[name]} | look
    panel.plot(result.h[seen], result.error[quantity][seen], label=result.method.label, **look)
