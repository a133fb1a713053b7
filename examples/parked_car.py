"""A car with a trailer parks sideways: the plan of least effort under a steering limit, drawn from above and over time."""

import os
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import dalembert as da
from dalembert.gallery import PROBLEMS, parked_car
from dalembert.show import LIGHT

FAST = bool(os.environ.get("DALEMBERT_EXAMPLES_FAST"))
SHOWN = 5  # positions of the car
WIDTH, NOSE, TAIL = 0.5, 0.25, 0.15  # of the bodies; beyond the front and behind the rear axle


def turned(angle: float, points: np.ndarray) -> np.ndarray:
    cos, sin = np.cos(angle), np.sin(angle)
    return np.array([[cos, -sin], [sin, cos]]) @ points


def body(front: float, rear: float) -> np.ndarray:
    """A closed rectangle along the first axis, (2, 5)."""
    return np.array([[rear, front, front, rear, rear], np.array([-0.5, -0.5, 0.5, 0.5, -0.5]) * WIDTH])


def draw_car(ax, q: np.ndarray, p, colour: str) -> None:
    """Bodies and axles, the front one turned by the steering angle."""
    rear, heading, steering, trailer = q[:2, None], q[2], q[3], q[4]
    hitch = rear - p["c"] * turned(heading, np.array([[1.0], [0.0]]))
    behind = hitch - p["d"] * turned(trailer, np.array([[1.0], [0.0]]))
    front = rear + p["l"] * turned(heading, np.array([[1.0], [0.0]]))
    for outline in (
        rear + turned(heading, body(p["l"] + NOSE, -TAIL)), behind + turned(trailer, body(0.5 * p["d"], -TAIL))
    ):  # fmt: skip
        ax.fill(*outline, facecolor=(1.0, 1.0, 1.0, 0.7), edgecolor=colour, linewidth=1.2)
    ax.plot(*np.hstack([hitch, behind]), color=colour, linewidth=0.8)
    for place, angle in ((front, heading + steering), (rear, heading), (behind, trailer)):
        for side in (-0.5, 0.5):
            hub = place + turned(heading if place is not behind else trailer, np.array([[0.0], [side * WIDTH]]))
            wheel = hub + turned(angle, np.array([[-0.11, 0.11], [0.0, 0.0]]))
            ax.plot(*wheel, color=colour, linewidth=2.4, solid_capstyle="butt")


def figure_of(plan: da.solution.ControlSolution, parameters) -> Figure:
    with mpl.rc_context(LIGHT.style):
        figure = Figure(figsize=(7.2, 5.4), layout="constrained")
        parts = figure.subplot_mosaic([["above", "above"], ["steering", "forces"]], height_ratios=(1.25, 1.0))
        above, steering, forces = parts["above"], parts["steering"], parts["forces"]
        above.plot(plan.q[:, 0], plan.q[:, 1], color=LIGHT.lines[1], linewidth=0.9)
        for i, node in enumerate(np.linspace(0, len(plan.t) - 1, SHOWN).astype(int)):
            draw_car(above, plan.q[node], parameters, str(round(0.75 * (1.0 - i / (SHOWN - 1)), 2)))
        above.set_aspect("equal")
        above.set_xlabel("x")
        above.set_ylabel("y")
        steering.plot(plan.t, plan.q[:, 3], color=LIGHT.lines[0])
        for limit in (-parked_car.STEERING, parked_car.STEERING):
            steering.axhline(limit, color="0.6", linestyle="--", linewidth=0.8)
        steering.set_ylabel("steering angle")
        for i, name in enumerate(("engine", "steering")):
            forces.plot(plan.t, plan.u[:, i], color=LIGHT.lines[i], label=name)
        forces.legend()
        forces.set_ylabel("force, torque")
        for ax in (steering, forces):
            ax.set_xlabel("t")
    return figure


def main(folder: Path) -> None:
    entry = PROBLEMS["parked_car"]
    steps = 60 if FAST else 240
    plan = da.solve(entry.problem, **entry.boundary, steps=steps, guess=entry.first_guess(steps))
    print(plan.describe())
    print(f"steering at its limit: {np.round(plan.switches('q')[3], 3)}")
    print(f"largest side force of a wheel: {np.abs(plan.multipliers).max():.3f}")
    figure_of(plan, entry.problem.parameters).savefig(folder / "parked_car.png", dpi=150)


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "out/parked_car")
    target.mkdir(parents=True, exist_ok=True)
    main(target)
