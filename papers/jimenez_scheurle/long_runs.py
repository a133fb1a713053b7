"""Long runs of the particle: where its constraint holds, and its energy.

At the original nodes q_k = q̃_k ± (ε/2)v of a run with β = ½ the value of v_z - y v_x is -(ε/2) v_y v_x: the deformed
constraint v_z - y v_x + (ε/2) v_y v_x = 0 of eq. (98) holds there, so the deviation from D has the size of ε and the sign of
-v_y v_x. It oscillates where v_y v_x does. For the free particle v_y is constant and v_x has one sign: it does not.

With θ = arctan y and p = √(1+y²) ẋ one step of β = 0 without potential is p' = p cos(θ'-θ), and one of β = 1 is its adjoint,
p' = p / cos(θ'-θ). With the potential, c = 1, the energy of x thus changes at the rate ∓½ε⟨θ̇²⟩ = ∓ε A²/(4√(1+A²)), where A
is the amplitude of y: half of it is kinetic in the mean, and ⟨θ̇²⟩ = A²/(2√(1+A²)).
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float

import dalembert as da
from papers.convergence import Method
from papers.drawing import Save, panels
from papers.jimenez_scheurle.integrators import (
    COLOURS,
    COMPOSED,
    EXPLICIT,
    FOUR,
    IMPLICIT,
    LAST,
    ORIGINAL,
    PARTICLE,
    POTENTIAL,
    Case,
)

STEP, TIMES = 0.05, {PARTICLE.name: 40.0, POTENTIAL.name: 1000.0}
ENERGY_STEP, ENERGY_TIME, KEPT = 0.1, 10_000.0, 97  # every 97th: no simple fraction of the period 2π of y
ENERGY_METHODS = (EXPLICIT, IMPLICIT, COMPOSED[0])
PART_TIME = 100.0


@dataclasses.dataclass(frozen=True)
class ConstraintDrift:
    """v_z - y v_x along a run without its first state: at the states, where eq. (98) has its nodes, and eq. (98) itself.

    Attributes:
        case: the problem.
        method: the integrator.
        h: step.
        t: (K,) times of the states.
        on_d: (K,) v_z - y v_x at the states.
        deformed: (K,) the left side of eq. (98).
    """

    case: Case
    method: Method
    h: float
    t: Float[np.ndarray, "K"]
    on_d: Float[np.ndarray, "K"]
    deformed: Float[np.ndarray, "K"]

    @property
    def largest(self) -> float:
        return float(np.max(np.abs(self.on_d)))

    @property
    def mean(self) -> float:
        return float(np.mean(self.on_d))

    @property
    def changes(self) -> int:
        """Changes of sign, of deviations above rounding."""
        seen = self.on_d[np.abs(self.on_d) > 1e-12]
        return int(np.sum(np.diff(np.sign(seen)) != 0))


def constraint(case: Case, method: Method, h: float = STEP, time: float | None = None) -> ConstraintDrift:
    path = method.simulate(case.system, *case.start, h, TIMES[case.name] if time is None else time)
    t, q, v = (np.asarray(x)[1:] for x in (path.t, path.q, path.v))
    on_d = v[:, 2] - q[:, 1] * v[:, 0]
    return ConstraintDrift(case, method, h, t, on_d, on_d + 0.5 * h * v[:, 1] * v[:, 0])


@dataclasses.dataclass(frozen=True)
class Energy:
    """Of the particle with the potential, at the saved states: total ½|v|² + ½(x²+y²), and part ½(1+y²)ẋ² + ½x².

    The exact solution conserves both: the part of x, and that of y, ½(ẏ²+y²).
    """

    method: Method
    h: float
    t: Float[np.ndarray, "K"]
    total: Float[np.ndarray, "K"]
    part: Float[np.ndarray, "K"]

    @property
    def change(self) -> Float[np.ndarray, "K"]:
        """Relative, of the total."""
        return self.total / self.total[0] - 1.0

    @property
    def predicted(self) -> float:
        """∓ε A²/(4√(1+A²)): the leading term for β = 0 and 1."""
        _, y, _, _, vy, _ = np.concatenate(POTENTIAL.start)
        sign = {"explicit": -1.0, "last": 1.0}.get(self.method.name, 0.0)
        return float(sign * self.h * (y**2 + vy**2) / (4 * np.sqrt(1 + y**2 + vy**2)))

    @property
    def rate(self) -> float:
        """Slope of log part(t): how fast the energy of x grows."""
        return float(np.polyfit(self.t, np.log(self.part), 1)[0])


def energy(method: Method, h: float, time: float, every: int) -> Energy:
    path = method.simulate(POTENTIAL.system, *POTENTIAL.start, h, time, save=da.Save(every=every))
    (x, y, _), v = np.asarray(path.q).T, np.asarray(path.v)
    total = 0.5 * np.sum(v**2, axis=1) + 0.5 * (x**2 + y**2)
    return Energy(method, h, np.asarray(path.t), total, 0.5 * (1 + y**2) * v[:, 0] ** 2 + 0.5 * x**2)


@dataclasses.dataclass(frozen=True)
class LongRuns:
    """halved: the run at the original nodes with half the step. parts: β = 0, ½, 1 over a short time, with two steps."""

    constraints: list[ConstraintDrift]
    halved: dict[str, ConstraintDrift]
    energies: list[Energy]
    parts: list[Energy]


def measure(fast: bool = False) -> LongRuns:
    shorter = 0.1 if fast else 1.0
    cases = (PARTICLE, POTENTIAL)
    runs = [constraint(case, method, time=shorter * TIMES[case.name]) for case in cases for method in FOUR]
    halved = {case.name: constraint(case, ORIGINAL, 0.5 * STEP, shorter * TIMES[case.name]) for case in cases}
    energies = [energy(method, ENERGY_STEP, shorter * ENERGY_TIME, KEPT) for method in ENERGY_METHODS]
    steps = (ENERGY_STEP, 0.5 * ENERGY_STEP)
    parts = [energy(method, h, PART_TIME, 1) for h in steps for method in (EXPLICIT, IMPLICIT, LAST)]
    return LongRuns(runs, halved, energies, parts)


def draw(save: Save, runs: LongRuns) -> None:
    draw_constraint(save, runs)
    draw_energy(save, runs)


def draw_constraint(save: Save, runs: LongRuns) -> None:
    """Above the deviation at the original nodes, below the sizes of all; left free, right with the potential."""
    figure, axes = panels(2, 2, size=(9.2, 5.6), sharex="col", height_ratios=(1, 1.25))
    for (top, bottom), case in zip(axes.T, (PARTICLE, POTENTIAL), strict=True):
        for run in (r for r in runs.constraints if r.case is case):
            colour = COLOURS[run.method.name]
            if run.method is ORIGINAL:
                top.plot(run.t, run.on_d, color=colour, linewidth=0.7)
                _sizes(bottom, run.t, run.deformed, "black", "original nodes, left side of (98)")
            _sizes(bottom, run.t, run.on_d, colour, run.method.label)
        top.axhline(0, color="black", linewidth=0.6)
        top.set_title(f"{case.label}: $v_z - y\\,v_x$ at the original nodes", fontsize=9.5)
        bottom.set(yscale="log", xlabel="$t$", ylim=(1e-17, 1))
    axes[1, 0].set_ylabel("$|v_z - y\\,v_x|$, largest so far")
    handles, labels = axes[1, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8.5)
    save("constraint", figure)


def _sizes(axes, t, values, colour: str, label: str) -> None:
    line = "--" if colour == "black" else "-"
    axes.plot(t, np.maximum(np.maximum.accumulate(np.abs(values)), 1e-18), line, color=colour, label=label)


def draw_energy(save: Save, runs: LongRuns) -> None:
    """First the energy of x for β = 0, ½, 1; then the total energy of three integrators over the long run."""
    figure, axes = panels(2, 2, size=(9.2, 6.0))
    first = axes[0, 0]
    for run in runs.parts:
        line = {"linestyle": "-" if run.h == ENERGY_STEP else "--", "linewidth": 1.1}
        label = f"{run.method.label.split(',')[0].split(' (')[0]}, $\\epsilon = {run.h:g}$"
        first.semilogy(run.t, run.part / run.part[0], color=COLOURS[run.method.name], label=label, **line)
    first.set(xlabel="$t$", title="energy of $x$ over its initial value", ylim=(0.08, 40))
    first.legend(fontsize=8, ncols=2, loc="upper left")
    for panel, run in zip(axes.ravel()[1:], runs.energies, strict=True):
        panel.plot(run.t, run.change, ".", color=COLOURS[run.method.name], markersize=1.8)
        panel.set(xlabel="$t$", title=f"relative change of the energy: {run.method.label}")
        panel.ticklabel_format(axis="y", style="sci", scilimits=(-2, 2))
    save("energy", figure)
