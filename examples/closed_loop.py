"""A swing-up that is disturbed: the plan alone falls, gains along it and a receding horizon keep the pole up."""

import os
import sys
from pathlib import Path

import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import dalembert as da
from dalembert.gallery import cart_pole
from dalembert.show import LIGHT

FAST = bool(os.environ.get("DALEMBERT_EXAMPLES_FAST"))
REST, UP = [0.0, 0.0], ([1.0, np.pi], [0.0, 0.0])
BOUNDS = {"u": (-20.0, 20.0)}
STEP, EVERY, STEPS = 0.0125, 2, 400


def gust(q, v, p):
    """Friction that the plan does not know, and a wind on the pole."""
    wind = jnp.array([0.0, 0.1 * p["l"] * jnp.cos(q[1])])
    return wind - jnp.array([0.2, 0.01]) * v


def controllers(problem: da.OptimalControl) -> dict[str, da.guidance.Feedback | da.guidance.PredictiveController]:
    """The plan alone; its neighbouring extremals; a regulator along it; the problem solved again at every sample."""
    ends = {"initial": (REST, REST), "final": UP, "T": 2.0, "steps": 80}
    plan = da.solve(problem, **ends, bounds=BOUNDS)
    resting = da.solve(problem, initial=UP, final=UP, T=4.0, steps=80)
    weights = {"Q": np.diag([10.0, 10.0, 1.0, 1.0]), "R": [[0.1]]}
    upright = da.feedback(problem, resting, **weights, Q_T=np.eye(4))
    nothing = {"Q": np.zeros((4, 4)), "R": [[1.0]], "Q_T": np.zeros((4, 4))}
    return {
        "plan alone": da.feedback(problem, plan, **nothing),
        "neighbouring extremals": da.feedback(problem, plan, final=UP).then(upright),
        "regulator": da.feedback(problem, plan, **weights, Q_T=weights["Q"]).then(upright),
        "receding horizon": da.mpc(problem, final=UP, T=2.0, steps=40, bounds=BOUNDS),
    }


def figure_of(runs: dict[str, da.guidance.ClosedLoop]) -> Figure:
    with mpl.rc_context(LIGHT.style):
        figure = Figure(figsize=(6.4, 6.0), layout="constrained")
        axes = figure.subplots(3, 1, sharex=True)
        for i, (name, run) in enumerate(runs.items()):
            style = {"color": LIGHT.lines[i], "linewidth": 1.2, "linestyle": "--" if not i else "-", "label": name}
            axes[0].plot(run.t, run.q[:, 1], **style)
            axes[1].plot(run.t, run.q[:, 0], **style)
            axes[2].step(run.t_u, run.u[:, 0], where="post", **style)
        axes[0].axhline(np.pi, color="0.7", linewidth=0.8, zorder=0)
        for ax, label in zip(axes, ("angle", "position", "force"), strict=True):
            ax.set_ylabel(label)
        axes[0].set_ylim(-2.5, 6.0)
        axes[0].legend(loc="upper left", ncols=2)
        axes[2].set_xlabel("t")
    return figure


def main(folder: Path) -> None:
    problem = cart_pole.cart_pole()
    plant = da.System(problem.system.lagrangian, forces=gust, coordinates=("x", "theta"), parameters=problem.parameters)
    runs = {}
    for name, controller in controllers(problem).items():
        every = EVERY if isinstance(controller, da.guidance.Feedback) else 4 * EVERY
        run = da.closed_loop(plant, controller, [0.0, 0.05], REST, h=STEP, steps=STEPS // 2 if FAST else STEPS, every=every)
        runs[name] = run
        print(f"{name}: at t = {run.t[-1]:g} {run.q[-1, 1] - np.pi:+.3f} from upright, |F| ≤ {np.abs(run.u).max():.1f}")
        if isinstance(controller, da.guidance.PredictiveController):
            first, *later = controller.records
            print(f"  iterations: {first.iterations} of the first plan, {np.median([r.iterations for r in later]):g} later")
            print(f"  not solved: {sum(r.outcome is not da.Outcome.SUCCESS for r in controller.records)}")
    figure_of(runs).savefig(folder / "closed_loop.png", dpi=150)


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "out/closed_loop")
    target.mkdir(parents=True, exist_ok=True)
    main(target)
