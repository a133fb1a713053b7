"""A system of one's own: a bead on a rotating hoop whose motor enforces a law of motion, and the torque that it needs.

L = ½θ̇² + ½Ω² sin²θ + g cos θ with θ from the bottom. Servo-constraint θ̈ + 2θ̇ + ω²(θ - θ*) = 0; the multiplier is the
torque λ = θ̈ - Ω² sin θ cos θ + g sin θ. Run it from the command line as well:

    dalembert run examples/own_system.py:hoop --q0 0.1 --v0 0 --h 0.01 --steps 1000
"""

import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np

import dalembert as da


def lagrangian(q, v, p):
    return 0.5 * v[0] ** 2 + 0.5 * (p["Omega"] * jnp.sin(q[0])) ** 2 + p["g"] * jnp.cos(q[0])


def servo(q, v, a, p):
    return a[0] + 2.0 * v[0] + p["w"] ** 2 * (q[0] - p["target"])


hoop = da.System(
    lagrangian,
    da.SecondOrder(servo),
    coordinates=("θ",),
    parameters={"Omega": 2.0, "g": 9.81, "w": 1.5, "target": 1.0},
)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = da.simulate(hoop, q0=[0.1], v0=[0.0], h=0.01, steps=1000)
    print(path.describe())

    # The multipliers belong to the middle of each step; the law of motion gives the same torque there, to O(h²).
    p, h = hoop.parameters, float(path.h)
    theta = np.asarray(path.q[:-1, 0] + 0.5 * h * path.v[:-1, 0])
    acceleration = np.asarray(path.v[1:, 0] - path.v[:-1, 0]) / h
    torque = acceleration - p["Omega"] ** 2 * np.sin(theta) * np.cos(theta) + p["g"] * np.sin(theta)
    print(f"largest torque {np.abs(path.multipliers).max():.4f}")
    print(f"difference from the law written out by hand {np.abs(torque - path.multipliers[:, 0]).max():.1e}")

    print(da.measure.order(hoop, [0.1], [0.0], time=5.0, h=[0.1, 0.05, 0.025]))
    da.save(path, folder / "hoop.nc")
    da.plot(path, title="Bead on a rotating hoop with a servo-constraint").savefig(folder / "hoop.png", dpi=100)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/own_system"))
