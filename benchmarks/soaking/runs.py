"""Random systems and runs of them; the two back-ends beside each other, and many systems in one process."""

from __future__ import annotations

import gc
import warnings
from pathlib import Path as File
from typing import Any

import jax.numpy as jnp
import numpy as np

import dalembert as da

SCHEMES = (None, da.Scheme("nodes"), da.Scheme(order=4), da.Scheme.jimenez_scheurle(0.0))
FEW = 10  # systems of a third of a round


def memory() -> int:
    """Bytes that this process has in memory."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


class Drawn:
    """A system of a seed, with a start that satisfies its constraints: positions up to 1 on an inertia that varies, a
    potential that is bounded from below, and no, a nonholonomic or a holonomic constraint."""

    def __init__(self, seed: int):
        rng = np.random.default_rng(seed)
        n, kind = int(rng.integers(2, 5)), int(rng.integers(3))
        c, w = rng.uniform(-1.0, 1.0, 6), rng.uniform(0.2, 1.0, n)

        def lagrangian(q, v, p):
            inertia = 1.0 + 0.5 * p["c"][0] * jnp.sin(q)
            return (
                0.5 * jnp.sum(inertia * v * v) + p["c"][1] * v[0] * jnp.sin(q[1]) - 0.5 * w @ (q * q) - jnp.cos(q[0] - q[1])
            )

        def rolling(q, v, p):
            return v[1] - p["c"][2] * q[0] * v[0] - 0.3 * p["c"][3] * jnp.sin(q[1]) * v[0]

        def sphere(q, p):
            return q @ q - p["r"]

        q, v = rng.uniform(0.2, 1.0, n), rng.uniform(-1.0, 1.0, n)
        p = {"c": c, "r": float(q @ q)}
        if kind == 1:
            v[1] = (c[2] * q[0] + 0.3 * c[3] * np.sin(q[1])) * v[0]
        if kind == 2:
            v -= q * (q @ v) / (q @ q)
        constraint: Any = ((), (da.Nonholonomic(rolling),), (da.Holonomic(sphere),))[kind]
        self.system = da.System(lagrangian, constraint, parameters=p)
        self.q, self.v, self.h = q, v, float(10 ** rng.uniform(-2.5, -1.0))
        self.scheme = SCHEMES[int(rng.integers(3 if kind == 2 else 4))]
        self.steps = int(rng.integers(200, 2000))

    def run(self, **more: Any) -> da.Path:
        """Of the system."""
        given = {"h": self.h, "steps": self.steps, "scheme": self.scheme, "throw": False} | more
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a motion is not resolved
            return da.simulate(self.system, self.q, self.v, **given)


def bits(path: da.Path) -> tuple:
    """What must not differ."""
    rows = {name: np.asarray(getattr(path, name)).tobytes() for name in ("t", "q", "v", "multipliers", "constraint_forces")}
    return rows, path.outcome, path.steps, int(path.statistics.iterations)


def agree(seed: int, place: File) -> str:
    """Both back-ends; where they differ, a start moved in its last digits must differ by as much."""
    drawn = Drawn(seed)
    drawn.steps = min(drawn.steps, 400)
    one, other = drawn.run(solver=da.Solver(backend="native")), drawn.run(solver=da.Solver(backend="jax"))
    moved = [
        drawn.run(solver=da.Solver(backend="native"), t0=0.0)
        for drawn.q in drawn.q * (1.0 + 1e-13 * np.array([[1.0], [-1.0]]))
    ]
    if one.outcome is not other.outcome or one.steps != other.steps:
        if all(x.outcome is one.outcome and x.steps == one.steps for x in moved):
            ends = [f"{da.Outcome(int(x.code)).name} at {x.steps}" for x in (one, other)]
            raise AssertionError(f"native: {ends[0]}, JAX: {ends[1]}")
        return "outcomes differ where the last digits decide them"
    apart = float(np.max(np.abs(one.q - other.q)))
    known = max(float(np.max(np.abs(one.q - x.q))) if x.q.shape == one.q.shape else np.inf for x in moved)
    if not apart <= 30.0 * known + 1e-11 * (1.0 + float(np.max(np.abs(one.q)))):
        raise AssertionError(f"apart by {apart:.1e}; last digits of the start make {known:.1e}")
    return f"{da.Outcome(int(one.code)).name} after {one.steps} steps, apart by {apart:.1e}"


def many(seed: int, place: File) -> str:
    """New functions each time: of how many something is kept is bounded, so that `memory_MiB` of the report is."""
    begun = None
    for i in range(3 * FEW):
        weight = float(seed + i)
        system = da.System(lambda q, v, w=weight: 0.5 * v @ v - jnp.cos(q[0] + w) * w)
        da.simulate(system, [0.1], [0.0], h=0.01, steps=10)
        if i == FEW:
            gc.collect()
            begun = memory()
    gc.collect()
    assert begun is not None
    grown = (memory() - begun) / (2 * FEW)
    return f"{3 * FEW} systems, {grown / 1024:.0f} KiB kept of each after the first {FEW}; {memory() / 2**20:.0f} MiB in all"
