"""The inertia wheel pendulum, held upright by a Lyapunov constraint, for 2000 time units.

    python examples/demo.py out/demo

One actuator on the wheel. The constraint dV/dt = -F makes V a Lyapunov function; its multiplier is the control law.
Prints a summary and writes pendulum.nc, pendulum.png, lyapunov.png and the page pendulum.html into the folder given.
"""

import sys
import time
from pathlib import Path

import jax
import numpy as np

import dalembert as da
from dalembert.gallery import ENTRIES, inertia_wheel_pendulum


def constraint_residual(path: da.Path) -> float:
    """Largest |dV/dt + F| along the path, relative to the largest |dV/dt|, at the nodes of the discrete equations.

    States (q̃, v) stand half way between the nodes; a node has q = q̃ + (h/2)v, the mean velocity and a = (v₁-v₀)/h.
    Nothing of the solver is used: a Newton iteration that stopped too early, or on the wrong root, would show here.
    """
    parameters = inertia_wheel_pendulum.PARAMETERS
    a, v = (path.v[1:] - path.v[:-1]) / path.h, 0.5 * (path.v[1:] + path.v[:-1])
    q = path.q[:-1] + 0.5 * path.h * path.v[:-1]

    def terms(q, v, a):
        rate = jax.jvp(lambda *state: inertia_wheel_pendulum.lyapunov(*state, parameters), (q, v), (v, a))[1]
        return rate, inertia_wheel_pendulum.dissipation(q, v, parameters)

    rate, dissipation = jax.vmap(terms)(q, v, a)
    return float(np.max(np.abs(rate + dissipation)) / np.max(np.abs(rate)))


def figures(path: da.Path, lyapunov, folder: Path) -> None:
    """The path with its control, as `da.plot` shows it; V, and the first of the control."""
    da.plot(path, title="Inertia wheel pendulum with a Lyapunov constraint").savefig(folder / "pendulum.png", dpi=120)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 5), layout="constrained")
    upper, lower = figure.subplots(2, 1)
    upper.semilogy(path.t, lyapunov)
    upper.set(xlabel="t", ylabel="V", title="V falls to 2χ = 200 and then creeps, with a time constant of 8427")
    first = path.t_multipliers < 20
    lower.plot(path.t_multipliers[first], path.multipliers[first, 0])
    lower.set(xlabel="t", ylabel="λ", title="the control law, a torque on the wheel: its first twenty time units")
    for axes in (upper, lower):
        axes.grid(alpha=0.3)
    figure.savefig(folder / "lyapunov.png", dpi=120)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    entry = ENTRIES["inertia_wheel_pendulum"]

    began = time.perf_counter()
    path = da.simulate(entry.system, entry.q0, entry.v0, h=0.1, steps=20_000)
    seconds = time.perf_counter() - began

    values = jax.vmap(lambda q, v: inertia_wheel_pendulum.lyapunov(q, v, inertia_wheel_pendulum.PARAMETERS))(path.q, path.v)
    print(entry.title)
    print(f"  steps                {path.steps} of h = {float(path.h):g} in {seconds:.1f} s, compilation included")
    print(f"  time                 {float(path.t[-1]):g}")
    print(f"  final θ              {float(path.q[-1, 0]): .3e}   (0 is upright; it began at {entry.q0[0]})")
    print(f"  V                    {float(values[0]):.2f} at the start, {float(values[-1]):.2f} at the end")
    print(
        f"  constraint residual  {constraint_residual(path):.1e}   (largest |dV/dt + F| on the path, over largest |dV/dt|)"
    )
    print(f"  branch crossings     {int(path.statistics.crossings)}, all survived")
    print(f"  outcome              {path.outcome.message}")

    # V has not vanished, and should not have: where the wheel stops turning, ψ - nθ creeps with a time constant of 8427.
    da.save(path, folder / "pendulum.nc")
    figures(path, values, folder)
    da.page(path, folder / "pendulum.html", title=entry.title)
    for file in ("pendulum.nc", "pendulum.png", "lyapunov.png", "pendulum.html"):
        print(f"  wrote                {folder / file}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/demo"))
