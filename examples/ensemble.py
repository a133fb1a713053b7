"""Two thousand particles of prescribed curvature at once: which runs end well, and whether those are right.

    python examples/ensemble.py out/ensemble

Speeds |v| and curvatures k at one step h. A discrete solution exists everywhere and is a regular polygon: with
κ = h k|v| it turns by α = 2 arcsin(κ/(1+√(1+κ²))) in each step, whatever the direction. Newton's iteration starts from the
motion extrapolated, and finds the solution where κ is not too large. Every lane has its own outcome: those that fail stop
none of the others. Prints a summary and writes ensemble.png into the folder given.
"""

import os
import sys
import time
from pathlib import Path

import jax
import numpy as np

import dalembert as da
from dalembert.gallery import ENTRIES

H = 0.1
RED, BLUE = "#c0392b", "#2b5c8a"
LOST = ("#9ca3af", "#6b7280", "#374151")  # lost in the first step, in the second or third, later


def turning(kappa: np.ndarray) -> np.ndarray:
    """The closed form: the angle between two sides of the polygon."""
    return 2 * np.arcsin(kappa / (1 + np.sqrt(1 + kappa**2)))


def measured(v: np.ndarray) -> np.ndarray:
    """Angles (B, N) between velocities (B, N + 1, 2) that follow one another."""
    w = v[..., 0] + 1j * v[..., 1]
    return np.angle(w[:, 1:] / w[:, :-1])


def figure(speeds, curvatures, done, solved, angle, first_lost: float):
    """Left: the outcome over (|v|, k). Right: the angles of all runs that succeeded, and the curve of the closed form."""
    from matplotlib.colors import BoundaryNorm, ListedColormap
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    figure = Figure(figsize=(11, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    shape = len(curvatures), len(speeds)
    lost = np.where(solved, np.nan, np.digitize(done, [1, 3])).reshape(shape)
    left.pcolormesh(speeds, curvatures, lost, cmap=ListedColormap(LOST), norm=BoundaryNorm([-0.5, 0.5, 1.5, 2.5], 3))
    colours = left.pcolormesh(speeds, curvatures, np.where(solved, np.degrees(angle), np.nan).reshape(shape), vmin=0)
    figure.colorbar(colours, ax=left, label="angle turned in one step, degrees")
    (line,) = left.plot(speeds, first_lost / (H * speeds), color=RED, linewidth=1.5, label=f"h k|v| = {first_lost:.2f}")
    names = ("lost in the first step", "in the second or third", "later")
    handles = [Patch(color=colour, label=name) for colour, name in zip(LOST, names, strict=True)]
    left.legend(handles=[*handles, line], loc="lower left", fontsize=8.5, framealpha=0.95)
    left.set(xscale="log", yscale="log", xlabel="speed |v|", ylabel="curvature k")
    left.set(xlim=speeds[[0, -1]], ylim=curvatures[[0, -1]])
    left.set_title(f"How {solved.size} runs end", loc="left")

    kappa = H * np.outer(curvatures, speeds).ravel()
    every = np.geomspace(kappa.min(), kappa.max(), 400)
    right.plot(kappa[solved], np.degrees(angle[solved]), "o", color=BLUE, markersize=5, label="runs that succeeded")
    right.plot(every, np.degrees(turning(every)), color=RED, linewidth=1.2, label="closed form")
    right.plot(kappa[~solved], np.zeros(np.sum(~solved)), "|", color=LOST[1], markersize=9, label="runs that were lost")
    right.set(xscale="log", xlabel="h k|v|", ylabel="angle turned in one step, degrees", yticks=range(0, 121, 30))
    right.set_title("The angle of the polygon", loc="left")
    right.legend(loc="upper left", fontsize=8.5)
    right.grid(alpha=0.3)
    for axis, places in (
        (left.xaxis, (0.5, 1, 2, 4, 8)),
        (left.yaxis, (0.5, 1, 2, 4, 8)),
        (right.xaxis, (0.03, 0.1, 0.3, 1, 3)),
    ):
        axis.set_ticks(places, labels=[f"{x:g}" for x in places])
        axis.set_ticks([], minor=True)
    return figure


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    across, up, steps = (20, 10, 200) if os.environ.get("DALEMBERT_EXAMPLES_FAST") else (50, 40, 1000)
    speeds, curvatures = np.geomspace(0.5, 8.0, across), np.geomspace(0.5, 8.0, up)
    k, speed = (x.ravel() for x in np.meshgrid(curvatures, speeds, indexing="ij"))
    direction = np.random.default_rng(1).uniform(0, 2 * np.pi, speed.size)  # of no importance, as it should be
    v0 = speed[:, None] * np.stack([np.cos(direction), np.sin(direction)], axis=-1)
    system = ENTRIES["curvature_particle"].system
    run = lambda: jax.block_until_ready(  # noqa: E731
        da.ensemble(system, [0.0, 0.0], v0, parameters={"k": k}, h=H, steps=steps)
    )
    run()
    began = time.perf_counter()
    path = run()
    seconds = time.perf_counter() - began

    done, solved, kappa = np.asarray(path.steps_done), np.asarray(path.code) == da.Outcome.SUCCESS, H * k * speed
    angles = measured(np.asarray(path.v))
    error = np.abs(angles[solved] - turning(kappa[solved])[:, None]).max()
    drift = np.abs(np.linalg.norm(path.v[solved], axis=-1) / speed[solved, None] - 1).max()
    lost = float(kappa[~solved].min())
    print(path.describe())
    print(f"  {np.sum(done)} steps in {seconds:.2f} s, checks and copies included, compilation not")
    print(f"  angles per step against the closed form   {error:.1e}, largest difference over {np.sum(solved)} runs")
    print(f"  relative drift of the speed               {drift:.1e}, likewise")
    print(f"  h k|v| of the runs that were lost         {lost:.3f} and larger")
    print(f"  h k|v| of those that were not             up to {kappa[solved].max():.3f}")
    worst = path.lane(int(np.flatnonzero(~solved)[0]))
    print(f"  the first run that was lost: {len(worst.t)} states, {worst.outcome.message}")
    picture = figure(speeds, curvatures, done, solved, np.where(solved, angles[:, 0], np.nan), lost)
    picture.savefig(folder / "ensemble.png", dpi=120)
    print(f"  wrote {folder / 'ensemble.png'}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/ensemble"))
