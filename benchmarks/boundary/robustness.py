"""How many of random guesses end in a minimum: the swing-up of a cart with a pole, with and without bounds.

    python -m benchmarks.boundary.robustness [--guesses 200] [--steps 160] [--ipopt]

--ipopt: the same discrete problem by CasADi's IPOPT as well, where casadi is installed. The guesses are
`cartpole.random_guess`: the straight line with waves as large as the motion, no controls.
"""

from __future__ import annotations

import argparse
import collections
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from benchmarks.boundary import cartpole

LIMITS = {"none": (None, None), "|F| <= 15": (15.0, None), "|F| <= 15, x <= 1.3": (15.0, 1.3), "|F| <= 12": (12.0, None)}
MOST = 1000  # iterations of IPOPT; each start of dalembert has its default, 200
MARGIN = 1.001  # of the least cost, within which an end counts as the cheapest


def dalembert_runner(steps: int, force: float | None, end: float | None):
    """guess → (outcome, cost, iterations)."""
    import dalembert as da
    from dalembert.gallery import PROBLEMS

    entry, bounds = PROBLEMS["cart_pole"], {}
    if force is not None:
        bounds["u"] = (-force, force)
    if end is not None:
        bounds["q"] = {"x": (None, end)}

    def run(guess):
        given = {"guess": guess, "bounds": bounds, "throw": False, "certify": False}
        s = da.solve(entry.problem, **entry.boundary, steps=steps, **given)
        return s.outcome.name, float(s.cost), int(s.statistics.iterations)

    return run


def ipopt_runner(steps: int, force: float | None, end: float | None):
    """The same with forces as unknowns, by IPOPT."""
    import casadi as ca

    x, u = ca.MX.sym("x", 2, steps + 1), ca.MX.sym("u", steps + 1)
    of_x, of_angle = cartpole.jumps(x[0, :].T, x[1, :].T, cartpole.T / steps, ca, ca.vertcat)
    w, z = cartpole.weights(steps), ca.veccat(x, u)
    problem = {"x": z, "f": ca.dot(w * u, u), "g": ca.vertcat(of_x - w * u, of_angle)}
    options = {"ipopt.print_level": 0, "print_time": 0, "ipopt.sb": "yes", "ipopt.tol": 1e-9, "ipopt.max_iter": MOST}
    solver = ca.nlpsol("s", "ipopt", problem, options)
    upper = np.full(z.numel(), np.inf)
    lower = -upper
    if end is not None:
        upper[0 : 2 * (steps + 1) : 2] = end
    if force is not None:
        lower[2 * (steps + 1) :], upper[2 * (steps + 1) :] = -force, force
    for first, point in ((0, cartpole.START), (2 * steps, cartpole.END)):
        lower[first : first + 2] = upper[first : first + 2] = point

    def run(guess):
        found = solver(x0=np.r_[guess.ravel(), np.zeros(steps + 1)], lbx=lower, ubx=upper, lbg=0, ubg=0)
        stats = solver.stats()
        solved = "SUCCESS" if stats["return_status"] == "Solve_Succeeded" else stats["return_status"]
        return solved, float(found["f"]), stats["iter_count"]

    return run


def measured(run, guesses: int, steps: int) -> str:
    """One row of the table."""
    run(cartpole.straight_line(steps))  # compiles
    found, begin = [], time.process_time()
    for i in range(guesses):
        found.append(run(cartpole.random_guess(i, steps)))
    spent = 1e3 * (time.process_time() - begin) / guesses
    solved = [f for f in found if f[0] == "SUCCESS"]
    least = min((cost for _, cost, _ in solved), default=np.nan)
    cheapest = sum(cost <= MARGIN * least for _, cost, _ in solved)
    others = dict(collections.Counter(f[0] for f in found if f[0] != "SUCCESS"))
    iterations = np.median([f[2] for f in found])
    rate = f"{len(solved):4d} of {guesses} | least {least:.4f} by {cheapest:3d}"
    return f"{rate} | iterations {iterations:5.1f} | {spent:7.1f} ms | {others or ''}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--guesses", type=int, default=200)
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--ipopt", action="store_true")
    given = parser.parse_args()
    for name, limits in LIMITS.items():
        for runner in (dalembert_runner, ipopt_runner) if given.ipopt else (dalembert_runner,):
            who = runner.__name__.removesuffix("_runner")
            row = measured(runner(given.steps, *limits), given.guesses, given.steps)
            print(f"{name:20s} | {who:9s} | {row}", flush=True)


if __name__ == "__main__":
    main()
