"""The flow of a problem with accelerations: order, momentum and energy; and one constraint by two principles.

L = ½|q̈|² - 5/2 |q̇|² + 2|q|² + |q|⁴/20 in the plane is invariant under rotations, and its motion is bounded for a long time.
"""

import os
import sys
from pathlib import Path

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import dalembert as da
from dalembert.gallery import heisenberg

STEPS = 1000 if os.environ.get("DALEMBERT_EXAMPLES_FAST") else 10_000
JETS = [[1.0, 0.0], [0.0, 0.5], [-0.5, 0.1], [0.1, 0.0]]


def lagrangian(q, v, a):
    return 0.5 * a @ a - 2.5 * v @ v + 2.0 * q @ q + 0.05 * (q @ q) ** 2


def turning(q):
    return jnp.array([-q[1], q[0]])


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    problem = da.VariationalProblem(lagrangian, derivatives=2, coordinates=("x", "y"))

    exact = da.systems.ostrogradsky(problem, JETS, jnp.array([0.0, 4.0])).q[-1]
    errors = [
        float(jnp.abs(da.simulate(problem, start=da.Start(jets=JETS), h=4 / N, steps=N).q[-1] - exact).max())
        for N in (40, 80, 160)
    ]
    print(f"errors at t = 4 with h = 0.1, 0.05, 0.025: {', '.join(f'{e:.2e}' for e in errors)}")

    path = da.simulate(problem, start=da.Start(jets=JETS), h=0.1, steps=STEPS)
    print(path.describe())
    print("momentum:", da.measure.momentum(problem, path, turning).describe())
    print("energy:  ", da.measure.energy(problem, path).describe())
    print(da.measure.regularity(problem, path, every=STEPS // 10).describe())

    start = {"q0": [0.0, 0.0, 0.0], "v0": [1.0, 0.0, 0.0], "h": 0.05, "steps": 63}
    line = da.simulate(heisenberg.heisenberg("dalembert"), **start)
    circle = da.simulate(heisenberg.heisenberg("vakonomic"), **start, start=da.Start(multipliers=[[1.0]]))

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4))
    left.plot(*np.asarray(path.q[:1000]).T, lw=0.6)
    left.set_title("Motion with accelerations in L")
    right.plot(*np.asarray(line.q[:, :2]).T, label="d'Alembert")
    right.plot(*np.asarray(circle.q[:, :2]).T, label="vakonomic, λ = 1")
    right.set_title("Heisenberg problem")
    right.legend()
    for axes in (left, right):
        axes.set_aspect("equal", "datalim")
        axes.set_xlabel("x")
        axes.set_ylabel("y")
    figure.tight_layout()
    figure.savefig(folder / "higher_flow.png", dpi=100)
    plt.close(figure)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/higher_flow"))
