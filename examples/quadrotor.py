"""A quadrotor flies through wind to a place ahead: its plan alone, gains along the plan, and a receding horizon."""

import os
import sys
from pathlib import Path

import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import dalembert as da
from dalembert.groups import SO3
from dalembert.show import LIGHT

FAST = bool(os.environ.get("DALEMBERT_EXAMPLES_FAST"))
HERE, THERE = {"R": np.eye(3), "x": [0, 0, 0]}, {"R": np.eye(3), "x": [1, 0.5, 0.3]}
WEIGHTS = {"Q": np.diag([10.0] * 6 + [1.0] * 6), "R": np.eye(4), "Q_T": 10 * np.eye(12)}
PLATE = 0.2 * np.array([[1, 1, 0], [-1, 1, 0], [-1, -1, 0], [1, -1, 0]])
STEP, STEPS = 0.05, 40 if FAST else 100


def lagrangian(q, v, p):
    return 0.5 * v.R @ (p["J"] * v.R) + 0.5 * p["m"] * v.x @ v.x - p["m"] * p["g"] * q.x[2]


def thrust(q, p):
    """Of the propellers along the third axis of the body, and three torques."""
    up = jnp.concatenate([jnp.zeros(3), q.R[:, 2]])
    return jnp.concatenate([up[:, None], jnp.eye(6)[:, :3]], axis=1)


def draw(q, p):
    return da.Body(q.R, q.x, shape=PLATE)


def wind(t):
    """A gust on the position."""
    return [0, 0, 0, 0.3 * np.exp(-((t - 1) ** 2)), 0, 0]


def controllers(problem: da.OptimalControl) -> dict[str, da.guidance.Feedback | da.guidance.PredictiveController]:
    plan = da.solve(problem, initial=(HERE, {}), final=(THERE, {}), T=2.0, steps=40)
    hover = da.solve(problem, initial=(THERE, {}), final=(THERE, {}), T=4.0, steps=40)
    law = da.feedback(problem, plan, **WEIGHTS).then(da.feedback(problem, hover, **WEIGHTS))
    alone = da.guidance.Feedback(**{**vars(law), "K": 0.0 * law.K, "after": 0.0 * law.after})
    horizon = da.mpc(problem, final=(THERE, {}), T=2.0, steps=15, bounds={"u": (-15, 15)})
    return {"plan alone": alone, "gains": law, "receding horizon": horizon}


def figure_of(runs: dict[str, da.guidance.ClosedLoop]) -> Figure:
    with mpl.rc_context(LIGHT.style):
        figure = Figure(figsize=(6.4, 5.0), layout="constrained")
        axes = figure.subplots(2, 1, sharex=True)
        for i, (name, run) in enumerate(runs.items()):
            tilt = np.degrees(np.arccos(np.clip(run["R"][:, 2, 2], -1, 1)))
            axes[0].plot(run.t, np.linalg.norm(run["x"] - THERE["x"], axis=1), color=LIGHT.lines[i], label=name)
            axes[1].plot(run.t, tilt, color=LIGHT.lines[i])
        for ax, label in zip(axes, ("distance", "tilt in degrees"), strict=True):
            ax.set_ylabel(label)
        axes[0].set_ylim(0, 2)
        axes[0].legend()
        axes[1].set_xlabel("t")
    return figure


def main(folder: Path) -> None:
    plant = da.System(
        lagrangian, coordinates={"R": SO3, "x": 3}, parameters={"J": [0.1, 0.12, 0.2], "m": 1.0, "g": 9.81}, draw=draw
    )
    problem = da.OptimalControl(plant, cost=lambda q, v, u, p: u @ u, actuated=thrust)
    tilted, runs = HERE | {"R": np.array([[1, 0, 0], [0, 0.96, -0.28], [0, 0.28, 0.96]])}, {}
    for name, controller in controllers(problem).items():
        every = 2 if isinstance(controller, da.guidance.PredictiveController) else 1
        run = da.closed_loop(plant, controller, tilted, {}, h=STEP, steps=STEPS, every=every, disturbance=wind)
        runs[name] = run
        print(f"{name}: at t = {run.t[-1]:g} {np.linalg.norm(run['x'][-1] - THERE['x']):.3f} away, {run.outcome.name}")
    figure_of(runs).savefig(folder / "quadrotor.png", dpi=150)
    da.page(runs["gains"], folder / "quadrotor.html")


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "out/quadrotor")
    target.mkdir(parents=True, exist_ok=True)
    main(target)
