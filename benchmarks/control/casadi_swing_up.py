"""The swing-up of `benchmarks.boundary.cartpole` by CasADi: IPOPT on the same equations or collocation, Fatrop on RK4 steps.

IPOPT solves the discrete problem of dalembert, forces being unknowns, with exact second derivatives, from the same path and
to the same tolerance. Fatrop wants stages, so that it is given steps of Runge and Kutta from the same line: another problem
of the same size, with functions as CasADi's own or as generated C. Building is not timed.
"""

from __future__ import annotations

import os
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before CasADi loads MUMPS and its BLAS

import casadi as ca
import numpy as np
from benchmarks.boundary import cartpole

Solved = tuple[float, int, bool]
OPTIONS = {"print_level": 0, "sb": "yes"}
COMPILED = {"jit": True, "compiler": "shell", "jit_options": {"flags": ["-O3", "-march=native"], "verbose": False}}


def _runner(solver: ca.Function, given: dict) -> Callable[[], Solved]:
    """A call of the solver: cost, iterations, whether it succeeded."""

    def run() -> Solved:
        found = solver(**given)
        stats = solver.stats()
        return float(found["f"]), int(stats["iter_count"]), bool(stats["success"])

    return run


def ipopt(steps: int, force: float | None, tolerance: float) -> Callable[[], Solved]:
    """IPOPT with MUMPS; the ends are left out of the unknowns."""
    q, u = ca.SX.sym("q", 2, steps - 1), ca.SX.sym("u", steps + 1)
    x, angle = (ca.vertcat(cartpole.START[k], q[k, :].T, cartpole.END[k]) for k in range(2))
    of_x, of_angle = cartpole.jumps(x, angle, cartpole.T / steps, ca, ca.vertcat)
    w = cartpole.weights(steps)
    problem = {"x": ca.veccat(q, u), "f": ca.dot(w * u, u), "g": ca.vertcat(of_x - w * u, of_angle)}
    options = {"ipopt": OPTIONS | {"tol": tolerance, "max_iter": 1000}, "print_time": False, "error_on_fail": False}
    bound = np.r_[np.full(2 * (steps - 1), np.inf), np.full(steps + 1, np.inf if force is None else force)]
    start = np.r_[cartpole.straight_line(steps)[1:-1].ravel(), np.zeros(steps + 1)]
    return _runner(ca.nlpsol("s", "ipopt", problem, options), {"x0": start, "lbx": -bound, "ubx": bound, "lbg": 0, "ubg": 0})


def _rates(y, u):
    """ẏ = (v, a(q, v, u)), from the Lagrangian's equations."""
    angle, v, turn = y[1], y[2], y[3]
    bend = cartpole.POLE * cartpole.LENGTH * ca.cos(angle)
    mass = ca.vertcat(ca.horzcat(cartpole.CART + cartpole.POLE, bend), ca.horzcat(bend, cartpole.POLE * cartpole.LENGTH**2))
    pull = cartpole.POLE * cartpole.LENGTH * ca.sin(angle)
    return ca.vertcat(v, turn, ca.solve(mass, ca.vertcat(u + pull * turn**2, -pull * cartpole.GRAVITY)))


def _step(h: float) -> ca.Function:
    """One step of Runge and Kutta."""
    y, u = ca.SX.sym("y", 4), ca.SX.sym("u")
    a = _rates(y, u)
    b = _rates(y + h / 2 * a, u)
    c = _rates(y + h / 2 * b, u)
    d = _rates(y + h * c, u)
    return ca.Function("step", [y, u], [y + h / 6 * (a + 2 * b + 2 * c + d)])


def hermite_simpson(intervals: int, force: float | None, tolerance: float) -> Callable[[], Solved]:
    """IPOPT on Hermite-Simpson collocation, states and forces at ends and middles of intervals; Kelly (2017), section 4."""
    h, points = cartpole.T / intervals, 2 * intervals + 1
    y, u = ca.SX.sym("y", 4, points), ca.SX.sym("u", points)
    rates = [_rates(y[:, k], u[k]) for k in range(points)]
    equations, cost = [], 0
    for k in range(0, points - 1, 2):
        equations.append(y[:, k + 1] - (y[:, k] + y[:, k + 2]) / 2 - h / 8 * (rates[k] - rates[k + 2]))
        equations.append(y[:, k + 2] - y[:, k] - h / 6 * (rates[k] + 4 * rates[k + 1] + rates[k + 2]))
        cost += h / 6 * (u[k] ** 2 + 4 * u[k + 1] ** 2 + u[k + 2] ** 2)
    line, rate = cartpole.straight_line(points - 1), (cartpole.END - cartpole.START) / cartpole.T
    start = np.r_[np.c_[line, np.tile(rate, (points, 1))].ravel(), np.zeros(points)]
    upper = np.r_[np.full(4 * points, np.inf), np.full(points, np.inf if force is None else force)]
    lower = -upper
    for first, end in ((0, cartpole.START), (4 * points - 4, cartpole.END)):
        lower[first : first + 4] = upper[first : first + 4] = np.r_[end, 0.0, 0.0]
    problem = {"x": ca.veccat(y, u), "f": cost, "g": ca.vertcat(*equations)}
    options = {"ipopt": OPTIONS | {"tol": tolerance, "max_iter": 1000}, "print_time": False, "error_on_fail": False}
    solver = ca.nlpsol("s", "ipopt", problem, options)
    return _runner(solver, {"x0": start, "lbx": lower, "ubx": upper, "lbg": 0, "ubg": 0})


def fatrop(steps: int, force: float | None, tolerance: float, compiled: bool) -> Callable[[], Solved]:
    """Fatrop, of which CasADi's writes a file into the working folder."""
    h, line = cartpole.T / steps, cartpole.straight_line(steps)
    step, rate = _step(h), (cartpole.END - cartpole.START) / cartpole.T
    unknowns, equations, start, bound, cost = [], [], [], [], 0
    y = ca.MX.sym("y0", 4)
    for k in range(steps + 1):
        unknowns.append(y)
        start.append(np.r_[line[k], rate])
        bound.append(np.full(4, np.inf))
        if k < steps:
            u, following = ca.MX.sym(f"u{k}"), ca.MX.sym(f"y{k + 1}", 4)
            unknowns.append(u)
            start.append(np.zeros(1))
            bound.append(np.full(1, np.inf if force is None else force))
            cost += h * u**2
            equations.append(following - step(y, u))
        if k in (0, steps):
            equations.append(y - np.r_[cartpole.END if k else cartpole.START, 0.0, 0.0])
        y = following
    problem = {"x": ca.vertcat(*unknowns), "f": cost, "g": ca.vertcat(*equations)}
    ends = [4] + [0] * (steps - 1) + [4]
    options = {
        "structure_detection": "manual", "N": steps, "nx": [4] * (steps + 1), "nu": [1] * steps + [0], "ng": ends,
        "equality": [True] * problem["g"].numel(), "print_time": False, "error_on_fail": False,
        "fatrop": {"tol": tolerance, "max_iter": 1000, "print_level": 0},
    }  # fmt: skip
    limits = np.concatenate(bound)
    given = {"x0": np.concatenate(start), "lbx": -limits, "ubx": limits, "lbg": 0, "ubg": 0}
    return _runner(ca.nlpsol("s", "fatrop", problem, options | (COMPILED if compiled else {})), given)
