"""Swing-up of a cart with a pole: the least force, drawn as a motion and over time."""

import os
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import dalembert as da
from dalembert.gallery import PROBLEMS
from dalembert.show import LIGHT

FAST = bool(os.environ.get("DALEMBERT_EXAMPLES_FAST"))
SHOWN = 11  # positions of the cart


def draw_motion(ax, motion: da.solution.ControlSolution, length: float) -> None:
    """The cart and its pole at equal times, later ones darker, and the path of the pole's end."""
    x, angle = motion.q[:, 0], motion.q[:, 1]
    end = np.stack([x + length * np.sin(angle), -length * np.cos(angle)])
    ax.plot(*end, color=LIGHT.lines[1], linewidth=0.8)
    ax.axhline(0.0, color="0.8", linewidth=0.8, zorder=0)
    for i, node in enumerate(np.linspace(0, len(x) - 1, SHOWN).astype(int)):
        grey = str(round(0.8 * (1.0 - (i + 1) / SHOWN), 2))
        ax.plot([x[node], end[0, node]], [0.0, end[1, node]], color=grey, linewidth=1.4)
        ax.plot(x[node], 0.0, marker="s", markersize=7, color=grey)
        ax.plot(*end[:, node], marker="o", markersize=4, color=LIGHT.lines[1])
    ax.set_aspect("equal")
    ax.set_xlabel("x")
    ax.set_ylabel("height")


def figure_of(motion: da.solution.ControlSolution, length: float) -> Figure:
    with mpl.rc_context(LIGHT.style):
        figure = Figure(figsize=(6.4, 6.0), layout="constrained")
        top, middle, bottom = figure.subplots(3, 1, height_ratios=(1.7, 1.0, 1.0))
        draw_motion(top, motion, length)
        for i, name in enumerate(("x", "θ")):
            middle.plot(motion.t, motion.q[:, i], color=LIGHT.lines[i], label=name)
        middle.legend(loc="upper left")
        middle.set_ylabel("position, angle")
        bottom.plot(motion.t, motion.u[:, 0], color=LIGHT.lines[0])
        bottom.set_ylabel("force")
        bottom.set_xlabel("t")
    return figure


def main(folder: Path) -> None:
    entry = PROBLEMS["cart_pole"]
    costs = {}
    for steps in (40, 80, 160) if FAST else (100, 200, 400):
        motion = da.solve(entry.problem, **entry.boundary, steps=steps)
        costs[steps] = float(motion.cost)
        print(f"{steps} steps: cost {motion.cost:.9f}, {motion.kind}, {int(motion.statistics.iterations)} iterations")
    coarse, fine = list(costs.values())[-2:]
    print(f"extrapolated {fine + (fine - coarse) / 3.0:.6f}, the limit is {entry.cost:.6f}")
    print(f"gradient of the cost in (q, v) at the start: {np.round(motion.costates_initial.ravel(), 4)}")
    figure_of(motion, float(entry.problem.parameters["l"])).savefig(folder / "cart_pole.png", dpi=150)
    da.save(motion, folder / "cart_pole.nc")


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "out/cart_pole")
    target.mkdir(parents=True, exist_ok=True)
    main(target)
