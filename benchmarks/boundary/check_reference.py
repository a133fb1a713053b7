"""Every number of `reference.py`, computed twice by methods that have nothing in common, against the table.

    python -m benchmarks.boundary.check_reference [--print]     from the root of the repository

Prints how far the two computations are apart and how far the table is from the first, relative to the largest of the
numbers; ends with 1 where either is more than `reference.DIGITS`. --print writes the table.
"""

from __future__ import annotations

import argparse
import os
import sys
from fractions import Fraction
from itertools import pairwise

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from benchmarks.boundary import (
    beam,
    cartpole,
    cartpole_bvp,
    casadi_cartpole,
    differences,
    reference,
    scipy_bvp,
    sphere,
    sphere_ritz,
    spline_newton,
)

Pair = tuple[np.ndarray | float, np.ndarray | float]
TIMES = np.array(reference.TIMES)


def spline() -> dict[str, Pair]:
    """Dense Newton in float64 and sparse Newton with accelerations as unknowns in long double."""
    start = spline_newton.start(reference.SPLINE_STEPS)
    first, second = spline_newton.dense(*start), spline_newton.sparse(*start)
    nodes, h = list(reference.SPLINE_NODES), sphere.T / reference.SPLINE_STEPS
    places = np.searchsorted(first.free, nodes)
    return {
        "SPLINE_OBJECTIVE": (sphere.objective(first.path), sphere.objective(second.path)),
        "SPLINE_POSITIONS": (first.path[nodes], second.path[nodes]),
        "SPLINE_MULTIPLIERS": (first.multipliers[places] / h, second.multipliers[places] / h),
    }


def curves() -> dict[str, Pair]:
    """DOP853 and shooting, and Ritz's method."""
    pairs: dict[str, Pair] = {}
    for name, kind in (("AMBIENT", "acceleration in space"), ("CUBIC", "Riemannian cubic")):
        first, second = scipy_bvp.reference_curve(kind), sphere_ritz.solve(name == "AMBIENT", 40)
        if second.least <= 0:
            raise RuntimeError(f"{kind}: no strict minimum")
        pairs[f"{name}_COST"] = first.cost, second.cost
        pairs[f"{name}_POSITIONS"] = first.at(TIMES)[:3].T, second.at(TIMES)
    return pairs


def bent_beam() -> dict[str, Pair]:
    """The closed form and quadrature; on the grid two sums and a dense linear system."""
    steps = reference.BEAM_STEPS
    path, stiffness, load = differences.beam_data(steps)
    nodes = np.rint(TIMES * steps).astype(int)
    summed, (solved, action) = (
        differences.beam_by_sums(path, stiffness, load),
        differences.minimised(path, 2, stiffness, load),
    )
    return {
        "BEAM_OBJECTIVE": (beam.objective(), beam.objective(beam.by_quadrature)),
        "BEAM_POSITIONS": (beam.closed_form(TIMES), beam.by_quadrature(TIMES)),
        "BEAM_DISCRETE_ACTION": (differences.action(summed, 2, stiffness, load), action),
        "BEAM_DISCRETE_POSITIONS": (summed[nodes], solved[nodes]),
    }


def jerk() -> dict[str, Pair]:
    """The quintic in fractions, and the discrete problem on 20 steps, whose solution is exact at its nodes.

    The second cost is Gauss's rule for the polynomial through the discrete solution.
    """
    path = differences.jerk_data(20)
    one = np.ones(18)
    solved, _ = differences.minimised(path, 3, one, 0 * one)
    through = np.polynomial.Polynomial.fit(np.linspace(0.0, 1.0, 21), solved, 5, domain=[0, 1], window=[0, 1])
    nodes, weights = np.polynomial.legendre.leggauss(3)
    cost = float(weights @ through.deriv(3)((nodes + 1) / 2) ** 2) / 4
    exact = np.array([float(differences.jerk_at(Fraction(t))) for t in TIMES])
    return {
        "JERK_COST": (float(differences.jerk_cost()), cost),
        "JERK_POSITIONS": (exact, solved[np.rint(TIMES * 20).astype(int)]),
    }


def swing_up() -> dict[str, Pair]:
    """The discrete costs by IPOPT in two forms; the limits by Pontryagin's principle and by extrapolation."""
    pairs: dict[str, Pair] = {}
    for name, guess in (("STRAIGHT", cartpole.straight_line(200)), ("CHEAPEST", cartpole.random_guess(0, 200))):
        start = casadi_cartpole.Problem(200, "eliminated").solve(guess)
        pairs[f"{name}_LIMIT"] = cartpole_bvp.cost(start.path, start.multipliers), extrapolated(start.path)
        both = [[followed(start.path, steps, form) for steps in reference.CARTPOLE_STEPS] for form in casadi_cartpole.FORMS]
        pairs[f"{name}_COSTS"] = np.array(both[0]), np.array(both[1])
    return pairs


def followed(path: np.ndarray, steps: int, form: str) -> float:
    return casadi_cartpole.Problem(steps, form).solve(casadi_cartpole.refined(path, steps)).cost


def extrapolated(path: np.ndarray) -> float:
    """Romberg's extrapolation of the costs for 100, 200, 400, 800 steps, whose error is a series in h²."""
    row = [followed(path, steps, "forces") for steps in (100, 200, 400, 800)]
    for power in (4, 16, 64):
        row = [(power * fine - coarse) / (power - 1) for coarse, fine in pairwise(row)]
    return row[0]


def distance(a, b) -> float:
    a, b = np.asarray(a, float), np.asarray(b, float)
    return float(np.max(np.abs(a - b)) / np.max(np.abs(a)))


def main() -> int:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    arguments.add_argument("--print", action="store_true", help="the first computation, as a table")
    chosen = arguments.parse_args()
    agreed = True
    for part in (spline, curves, bent_beam, jerk, swing_up):
        for name, (first, second) in part().items():
            if chosen.print:
                print(name, "=", np.array2string(np.asarray(first, float), precision=13, separator=", ", max_line_width=120))
                continue
            apart, off = distance(first, second), distance(first, getattr(reference, name))
            agreed = agreed and apart <= reference.DIGITS and off <= reference.DIGITS
            print(f"{name:26} apart {apart:.0e}, table {off:.0e}")
    return 0 if agreed else 1


if __name__ == "__main__":
    sys.exit(main())
