"""dalembert's boundary problems against SciPy's solve_bvp at equal error: the beam, and both curves on the sphere.

    python -m benchmarks.boundary.race_bvp      from the root

solve_bvp gets the differential equations, by hand, and refines its mesh to a tolerance; dalembert gets the Lagrangian and N,
with `Hermite()` windows. Whole calls, without those that compile; processor times on one thread, medians of interleaved
turns. Errors are those of scipy_bvp.py, the largest over 101 times. Given: how many times longer solve_bvp takes to an
error not larger than dalembert's.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from functools import partial

import jax.numpy as jnp
import numpy as np
from benchmarks.boundary import beam, sphere_curves
from benchmarks.boundary.scipy_bvp import KINDS, TIMES, bent_beam, curve, method, reference_curve
from benchmarks.boundary.sphere import T
from benchmarks.peers.measure import Method, measure

import dalembert as da

STEPS = (6, 10, 16, 25, 40, 64, 100, 160)


def bent(steps: int):
    problem = da.VariationalProblem(
        lambda q, v, a, t: 0.5 * (1 + t) * a @ a + jnp.cos(beam.FREQUENCY * t) * q[0], derivatives=2, time_dependent=True
    )
    rest = ([0.0], [0.0])
    return partial(da.solve, problem, initial=rest, final=rest, T=T, steps=steps, scheme=da.Hermite(), certify=False)


def on_sphere(kind: str, steps: int):
    ambient = da.VariationalProblem(lambda q, v, a: 0.5 * a @ a, da.Holonomic(lambda q: q @ q - 1.0), derivatives=2)
    problem = ambient if kind == "acceleration in space" else da.manifolds.riemannian_spline(da.manifolds.sphere())
    ends = {"initial": sphere_curves.START, "final": sphere_curves.END}
    return partial(da.solve, problem, **ends, T=T, steps=steps, scheme=da.Hermite(), certify=False)


def ours(problem) -> Method:
    return Method("dalembert", "dalembert", STEPS, lambda steps: (problem(steps), lambda s: s.interpolate(TIMES)))


def compare(name: str, mine: Method, theirs: Method, truth: np.ndarray) -> None:
    found, peer = measure([mine, theirs], truth, lambda q: 0.0, slowest=20.0)
    print(f"\n| {name}: N | error | ms | solve_bvp at this error, ms | ratio |\n|---|---|---|---|---|")
    for setting, error, taken in zip(found.settings, found.errors, found.times, strict=True):
        reached = peer.times[peer.errors <= error]
        other = 1e3 * reached.min() if reached.size else np.nan
        print(f"| {setting} | {error:.1e} | {1e3 * taken:.1f} | {other:.1f} | {other / (1e3 * taken):.2f} |")


def main() -> None:
    compare("beam", ours(bent), method("solve_bvp", bent_beam, 1), beam.closed_form(TIMES)[:, None])
    for kind in KINDS:
        truth = reference_curve(kind).at(TIMES)[:3].T
        compare(f"{kind} on the sphere", ours(partial(on_sphere, kind)), method("solve_bvp", partial(curve, kind), 3), truth)


if __name__ == "__main__":
    main()
