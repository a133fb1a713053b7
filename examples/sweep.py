"""A pendulum that stands upright because its pivot is shaken: how far it leans, over amplitude and frequency.

    python examples/sweep.py out/sweep

L = ½ θ̇² - (1 - a ω² cos ωt) cos θ, θ from upright, in units of length and gravity. Every combination is one run of a sweep,
pushed with θ̇ = u = ½; one that leans by more than 1 has fallen, and is stopped. Kapitza: for small a it moves in the
potential cos θ + ½ A sin²θ, A = ½ (a ω)², and so stands where (A - 1)² > u² A and A > 1. Prints how well that agrees,
and writes sweep.png and study.nc into the folder given.
"""

import os
import sys
import time
from pathlib import Path

import jax.numpy as jnp
import numpy as np

import dalembert as da

H, TIME, PUSH = 0.01, 30.0, 0.5
BORDER = np.sqrt(2 * (1 + PUSH**2 / 2 + PUSH * np.sqrt(1 + PUSH**2 / 4)))  # of a ω, where (A - 1)² = u² A


def lagrangian(q, v, t, p):
    weight = 1.0 - p["amplitude"] * p["frequency"] ** 2 * jnp.cos(p["frequency"] * t)
    return 0.5 * v @ v - weight * jnp.cos(q[0])


def lean(most, t, q, v, multipliers):
    return {"largest angle": jnp.maximum(most["largest angle"], jnp.abs(q[0]))}


def fallen(q, v, t, p):
    return jnp.abs(q[0]) > 1.0


PENDULUM = da.System(
    lagrangian, coordinates=("angle",), parameters={"amplitude": 0.1, "frequency": 20.0}, time_dependent=True
)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    count = 16 if os.environ.get("DALEMBERT_EXAMPLES_FAST") else 80
    values = {"frequency": np.linspace(5.0, 40.0, count), "amplitude": np.linspace(0.01, 0.2, count)}
    began = time.perf_counter()
    study = da.sweep(
        PENDULUM,
        values,
        {"q0": [0.0], "v0": [PUSH], "h": H, "steps": round(TIME / H), "save": da.Save(every=None), "stop": fallen},
        reduce=(lean, {"largest angle": 0.0}),
    )
    print(study.describe())
    steps = int(study.data.steps_done.sum())
    print(f"{steps} steps in {time.perf_counter() - began:.1f} s, compilation included")
    stands = study.outcomes == "success"
    border = study.data.amplitude * study.data.frequency > BORDER
    print(f"{float((stands == border).mean()):.1%} of the runs stand or fall as aω > {BORDER:.3f} says")
    da.save(study, folder / "study.nc")
    figure = da.plot(study, title="Largest angle from upright after a push")
    ax = figure.axes[0]
    limits, frequency = ax.get_ylim(), values["frequency"]
    ax.plot(frequency, BORDER / frequency, color="black", linewidth=1.4, linestyle="--")
    ax.set_ylim(limits)
    figure.savefig(folder / "sweep.png", dpi=120)
    print(f"wrote {folder / 'sweep.png'} and {folder / 'study.nc'}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/sweep"))
