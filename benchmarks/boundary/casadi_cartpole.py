"""IPOPT, by CasADi, on the swing-up of `cartpole.py`: costs against N from the straight line, and from 200 random guesses.

    python -m benchmarks.boundary.casadi_cartpole [--guesses 200]   from the root of the repository

Two forms of the same discrete problem. "eliminated": the unknowns are the coordinates of the nodes 1 … N-1, the constraints
that the momentum of θ does not jump at a node; IPOPT is not to scale them. "forces": the forces are unknowns too, with the
jumps of both momenta as constraints; they start from zero, which is better than from those of the guess. A time is processor
time of a call, on one thread, without building. A success is "Solve_Succeeded" within 1000 iterations. "least eigenvalue":
of the Lagrangian's second derivatives by the coordinates on the null space of the constraints, positive at a strict local
minimum.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
from collections import Counter

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before CasADi loads MUMPS and its BLAS

import casadi
import numpy as np
from benchmarks.boundary import cartpole
from benchmarks.peers.measure import seconds
from scipy.interpolate import CubicSpline
from scipy.linalg import null_space

FORMS = ("eliminated", "forces")
OPTIONS = {"print_level": 0, "sb": "yes", "tol": 1e-9, "max_iter": 1000, "nlp_scaling_method": "none"}
STEPS = (25, 50, 100, 200)


@dataclasses.dataclass(frozen=True)
class Found:
    """One call of IPOPT; path (N+1, 2), and the multipliers (N+1,) of the constraints on θ."""

    cost: float
    iterations: int
    ended: str
    seconds: float
    path: np.ndarray
    multipliers: np.ndarray

    @property
    def succeeded(self) -> bool:
        return self.ended == "Solve_Succeeded"


class Problem:
    """The discrete problem with N steps in one of the two forms."""

    def __init__(self, steps: int, form: str) -> None:
        self.steps, self.form = steps, form
        q = casadi.SX.sym("q", steps - 1, 2)
        place, angle = (casadi.vertcat(cartpole.START[k], q[:, k], cartpole.END[k]) for k in range(2))
        of_x, of_angle = cartpole.jumps(place, angle, cartpole.T / steps, casadi, casadi.vertcat)
        weights = cartpole.weights(steps)
        x, cost, constraints = casadi.vec(q.T), casadi.sum1(of_x**2 / weights), of_angle
        self.curvature = self._curvature(x, cost, constraints)
        if form == "forces":
            force = casadi.SX.sym("force", steps + 1)
            x, cost = casadi.vertcat(x, force), casadi.dot(weights, force**2)
            constraints = casadi.vertcat(of_angle, of_x - weights * force)
        options = {"print_time": False, "error_on_fail": False, "ipopt": OPTIONS}
        self.solver = casadi.nlpsol("solve", "ipopt", {"x": x, "f": cost, "g": constraints}, options)

    @staticmethod
    def _curvature(x, cost, constraints) -> casadi.Function:
        """(coordinates, multipliers) → second derivatives of the Lagrangian and first ones of the constraints."""
        multipliers = casadi.SX.sym("multipliers", constraints.numel())
        second = casadi.hessian(cost + casadi.dot(multipliers, constraints), x)[0]
        return casadi.Function("curvature", [x, multipliers], [second, casadi.jacobian(constraints, x)])

    def solve(self, guess: np.ndarray) -> Found:
        """From a path (N+1, 2), of which the ends do not count."""
        x0 = guess[1:-1].ravel()
        if self.form == "forces":
            x0 = np.concatenate([x0, np.zeros(self.steps + 1)])
        result = {}
        taken = seconds(lambda: result.update(self.solver(x0=x0, lbg=0.0, ubg=0.0)))
        said, path = self.solver.stats(), guess.copy()
        path[1:-1] = np.array(result["x"]).ravel()[: 2 * (self.steps - 1)].reshape(-1, 2)
        multipliers = np.array(result["lam_g"]).ravel()[: self.steps + 1]
        return Found(float(result["f"]), said["iter_count"], said["return_status"], taken, path, multipliers)

    def least_eigenvalue(self, found: Found) -> float:
        """Of the second derivatives along the constraints; of what was found in the eliminated form."""
        second, first = (np.array(part) for part in self.curvature(found.path[1:-1].ravel(), found.multipliers))
        free = null_space(first)
        return float(np.linalg.eigvalsh(free.T @ second @ free)[0])


def refined(path: np.ndarray, steps: int) -> np.ndarray:
    """A path as the guess for more steps, by cubic splines: from linear pieces IPOPT goes to other extremals."""
    return CubicSpline(np.linspace(0.0, 1.0, len(path)), path)(np.linspace(0.0, 1.0, steps + 1))


def row(*cells: object) -> None:
    print(f"| {' | '.join(str(cell) for cell in cells)} |")


def head(*columns: str) -> None:
    print(f"\n| {' | '.join(columns)} |\n{'|---' * len(columns)}|")


def print_costs(form: str) -> None:
    """Costs from the straight line. N²(cost - limit) tends to a constant, as the discretization is of order 2."""
    head(f"{form}, N", "cost", f"N² (cost - {cartpole.LIMIT})", "extrapolated", "iterations", "ms")
    before = np.nan
    for steps in STEPS:
        found = Problem(steps, form).solve(cartpole.straight_line(steps))
        defect, extrapolated = steps**2 * (found.cost - cartpole.LIMIT), (4 * found.cost - before) / 3
        times = found.iterations, f"{1e3 * found.seconds:.1f}"
        row(steps, f"{found.cost:.9f}", f"{defect:.2f}", f"{extrapolated:.7f}", *times)
        before = found.cost


def from_guesses(problem: Problem, guesses: int) -> list[Found]:
    """Prints how often and how fast IPOPT succeeds; returns the successes."""
    runs = [problem.solve(cartpole.random_guess(number, problem.steps)) for number in range(guesses)]
    good = [run for run in runs if run.succeeded]
    low, middle, high = np.quantile([run.iterations for run in good], [0.25, 0.5, 0.75])
    cheapest = min(run.cost for run in good)
    row(
        problem.form, problem.steps, f"{len(good)} of {guesses}", f"{middle:.0f} ({low:.0f}–{high:.0f})",
        max(run.iterations for run in good), f"{1e3 * np.median([run.seconds for run in runs]):.1f}", f"{cheapest:.8f}",
        sum(run.cost < cheapest + 1e-5 for run in good),
    )  # fmt: skip
    return good


def print_extremals(problem: Problem, good: list[Found]) -> None:
    """The cheapest extremals, how often each was found, and their costs with more steps."""
    counts = Counter(round(run.cost, 3) for run in good)
    finer = [Problem(factor * problem.steps, "eliminated") for factor in (2, 4)]
    later = [f"N = {each.steps}" for each in finer]
    head(f"cost, N = {problem.steps}", "found", "least eigenvalue", "θ from", "to", *later, "extrapolated")
    for cost in sorted(counts)[:6]:
        first = next(run for run in good if round(run.cost, 3) == cost)
        costs, path = [], first.path
        for each in finer:
            found = each.solve(refined(path, each.steps))
            costs.append(found.cost)
            path = found.path
        low, high = (f"{bound:.2f}" for bound in (first.path[:, 1].min(), first.path[:, 1].max()))
        eigenvalue, limit = problem.least_eigenvalue(first), (4 * costs[1] - costs[0]) / 3
        refinement = [f"{each:.7f}" for each in costs]
        row(f"{first.cost:.7f}", counts[cost], f"{eigenvalue:.2g}", low, high, *refinement, f"{limit:.5f}")


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    arguments.add_argument("--guesses", type=int, default=200)
    chosen = arguments.parse_args()
    for form in FORMS:
        print_costs(form)
    head("form", "N", "succeeded", "iterations (quartiles)", "most", "ms", "cheapest", "found")
    problem = Problem(50, "eliminated")
    good = from_guesses(problem, chosen.guesses)
    for other in (Problem(100, "eliminated"), Problem(50, "forces"), Problem(100, "forces")):
        from_guesses(other, chosen.guesses)
    print_extremals(problem, good)


if __name__ == "__main__":
    main()
