"""Meeting a target that moves: the path with its thrust, and what meeting it at another time would cost."""

import os
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import dalembert as da
from dalembert.gallery import PROBLEMS, rendezvous
from dalembert.show import LIGHT

FAST = bool(os.environ.get("DALEMBERT_EXAMPLES_FAST"))
SHOWN = 9  # places of point and target


def draw_meeting(ax, found: da.solution.ControlSolution) -> None:
    """Both at equal times, with the thrust."""
    around = np.linspace(0.0, 2.0 * np.pi, 200)
    ax.plot(rendezvous.CENTRE + np.cos(around), np.sin(around), color="0.8", linewidth=0.8)
    ax.plot(*found.q.T, color=LIGHT.lines[0], label="point")
    nodes = np.linspace(0, len(found.t) - 1, SHOWN).astype(int)
    t, q, u = found.t[nodes], found.q[nodes], found.u[nodes]
    ax.plot(rendezvous.CENTRE + np.cos(t), np.sin(t), "o", color=LIGHT.lines[1], label="target")
    ax.plot(*q.T, ".", color=LIGHT.lines[0])
    ax.quiver(*q.T, *u.T, angles="xy", scale_units="xy", scale=2.0, width=0.003, color="0.4")
    ax.set_aspect("equal")
    ax.set_xlabel("x")
    ax.set_ylabel("y")
    ax.legend(loc="upper left")


def figure_of(found: da.solution.ControlSolution) -> Figure:
    with mpl.rc_context(LIGHT.style):
        figure = Figure(figsize=(6.4, 5.6), layout="constrained")
        top, bottom = figure.subplots(2, 1, height_ratios=(1.6, 1.0))
        draw_meeting(top, found)
        times = np.linspace(2.5, 8.0, 200)
        bottom.plot(times, [rendezvous.cost_of(T) for T in times], color=LIGHT.lines[0])
        bottom.plot(found.t[-1], found.cost, "o", color=LIGHT.lines[1])
        bottom.set_xlabel("time of the rendezvous")
        bottom.set_ylabel("cost")
    return figure


def main(folder: Path) -> None:
    entry = PROBLEMS["rendezvous"]
    for steps in (20, 40) if FAST else (20, 40, 80):
        found = da.solve(entry.problem, **entry.boundary, steps=steps)
        off = np.abs(found.q - entry.exact(found.t)).max()
        print(f"{steps} steps: T {found.t[-1]:.9f}, cost {found.cost:.9f} (limit {entry.cost:.9f}), path off by {off:.1e}")
    figure_of(found).savefig(folder / "rendezvous.png", dpi=150)


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "out/rendezvous")
    target.mkdir(parents=True, exist_ok=True)
    main(target)
