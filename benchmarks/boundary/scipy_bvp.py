"""SciPy's solve_bvp on the beam and on both kinds of curves on the sphere: error against time over its tolerance.

    python -m benchmarks.boundary.scipy_bvp     from the root of the repository

The beam (`beam.py`) is a system for (q, q̇, M, Ṁ) with M = μq̈, the curves (`sphere_curves.py`) are systems in R¹².
Guesses: zero, and Hermite's cubic on the sphere. Derivatives by differences: exact ones change neither meshes nor
iterations. On the curves rounding keeps the residual above 1e-10: with that tolerance the mesh grows without end. Times
are processor times on one thread, medians of interleaved turns. Errors are the largest over 101 times: of q against the
closed form of the beam, in space against shooting with DOP853 at tolerance 1e-13, which `check_reference.py` compares
with Ritz's method.

Last, the discrete spline whose outer four nodes lie on the curve: its nodes and λ_k/h differ from the curve by order h².
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from benchmarks.boundary import beam, sphere_curves
from benchmarks.boundary.sphere import T
from benchmarks.boundary.spline_newton import sparse
from benchmarks.peers.measure import Method, measure
from scipy.integrate import solve_bvp

TOLERANCES = tuple(10.0**-k for k in range(3, 13))
TIMES = np.linspace(0.0, T, 101)
KINDS = {"acceleration in space": sphere_curves.ambient, "Riemannian cubic": sphere_curves.riemannian}


def solved(slope: Callable, ends: Callable, guess: np.ndarray, tolerance: float):
    """Raises RuntimeError where solve_bvp gives up."""
    mesh = np.linspace(0.0, T, guess.shape[1])
    found = solve_bvp(slope, ends, mesh, guess, tol=tolerance, max_nodes=100_000)
    if not found.success:
        raise RuntimeError(found.message)
    return found


def beam_slope(t: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.stack([y[1], y[2] / beam.stiffness(t), y[3], -beam.load(t)])


def beam_ends(first: np.ndarray, last: np.ndarray) -> np.ndarray:
    return np.concatenate([first[:2], last[:2]])


def bent_beam(tolerance: float):
    return solved(beam_slope, beam_ends, np.zeros((4, 11)), tolerance)


def curve_ends(first: np.ndarray, last: np.ndarray) -> np.ndarray:
    return np.concatenate([first[:6] - np.concatenate(sphere_curves.START), last[:6] - np.concatenate(sphere_curves.END)])


def curve_guess(kind: str, nodes: int = 11) -> np.ndarray:
    """(12, nodes): q, q̇, q̈ and q⃛ of Hermite's cubic in space, q on the sphere; for v, a and j tangent parts."""
    (q0, v0), (q1, v1) = sphere_curves.START, sphere_curves.END
    t = np.linspace(0.0, T, nodes)
    c2, c3 = 3 * (q1 - q0) - 2 * v0 - v1, v0 + v1 - 2 * (q1 - q0)
    powers = [np.stack([t**0, t, t**2, t**3]), np.stack([0 * t, t**0, 2 * t, 3 * t**2])]
    powers += [np.stack([0 * t, 0 * t, 2 * t**0, 6 * t]), np.stack([0 * t, 0 * t, 0 * t, 6 * t**0])]
    q, *others = (np.stack([q0, v0, c2, c3]).T @ each for each in powers)
    q = q / np.linalg.norm(q, axis=0)
    if kind == "Riemannian cubic":
        others = [each - np.sum(each * q, axis=0) * q for each in others]
    return np.concatenate([q, *others])


def curve(kind: str, tolerance: float):
    return solved(KINDS[kind], curve_ends, curve_guess(kind), tolerance)


def reference_curve(kind: str) -> sphere_curves.Curve:
    """By shooting, which starts from solve_bvp's state at 0: from Hermite's cubic the solutions run away."""
    start = curve(kind, 1e-6).y[:, 0]
    return sphere_curves.shoot(KINDS[kind], start[6:9], start[9:])


def method(name: str, solve: Callable, parts: int) -> Method:
    """solve(tolerance), compared in the first components of its states."""

    def compared(found) -> np.ndarray:
        return found.sol(TIMES)[:parts].T

    tolerances = TOLERANCES if parts == 1 else TOLERANCES[:7]
    return Method(name, "SciPy", tolerances, lambda tolerance: (partial(solve, tolerance), compared))


def print_table(name: str, solve: Callable, truth: np.ndarray) -> None:
    """truth: (101, 1) or (101, 3); the second has to stay on the sphere."""

    def drift(q: np.ndarray) -> float:
        return float(np.max(np.abs(np.sum(q**2, axis=1) - 1))) if q.shape[1] == 3 else 0.0

    (result,) = measure([method(name, solve, truth.shape[1])], truth, drift, slowest=20.0)
    print(f"\n| {name}, tolerance | error | ms | nodes | error of \\|q\\|² |\n|---|---|---|---|---|")
    for setting, error, taken, left in zip(result.settings, result.errors, result.times, result.drifts, strict=True):
        print(f"| {setting:.0e} | {error:.1e} | {1e3 * taken:.1f} | {len(solve(setting).x)} | {left:.0e} |")


def discrete_defects(curve: sphere_curves.Curve, steps: int) -> tuple[float, float]:
    """Largest difference of the discrete spline between four nodes of the curve: of its nodes, and of λ_k/h."""
    states = curve.at(np.linspace(0.0, T, steps + 1))
    free = np.arange(2, steps - 1)
    spline = sparse(states[:3].T, free)
    of_nodes = np.max(np.linalg.norm(spline.path - states[:3].T, axis=1))
    continuous = sphere_curves.multiplier(*np.split(states, 4)[1:])[free]
    return float(of_nodes), float(np.max(np.abs(spline.multipliers * steps / T - continuous)))


def main() -> None:
    print_table("beam", bent_beam, beam.closed_form(TIMES)[:, None])
    for kind in KINDS:
        truth = reference_curve(kind)
        print_table(f"{kind} on the sphere", partial(curve, kind), truth.at(TIMES)[:3].T)
        print(f"\ncost of the reference: {truth.cost:.13g}")
    print("\n| acceleration in space, N | nodes, times N² | λ_k/h, times N² |\n|---|---|---|")
    for steps in (50, 100, 200, 400):
        of_nodes, of_multipliers = discrete_defects(reference_curve("acceleration in space"), steps)
        print(f"| {steps} | {of_nodes * steps**2:.5g} | {of_multipliers * steps**2:.5g} |")


if __name__ == "__main__":
    main()
