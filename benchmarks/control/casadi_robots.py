"""The robots of `benchmarks.control.robots` by CasADi: the discrete problem of dalembert, solved by IPOPT.

With L_d(q, q') = h L((q+q')/2, (q'-q)/h) the equations of motion are, with w = h and h/2 at the ends,

    D₂L_d(q_{i-1}, q_i) + f_d⁺ + D₁L_d(q_i, q_{i+1}) + f_d⁻ + w (B(q_i)u_i + Rᵀν_i) = 0,

with ±L_v at the ends; constraints on velocities hold at the middles of steps, inequalities at the nodes, and the cost is the
trapezoidal rule with the velocities of the steps. Second derivatives are exact; the linear solver is MUMPS.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before CasADi loads MUMPS and its BLAS

import casadi as ca
import numpy as np
from benchmarks.control.robots import Robot

OPTIONS = {"print_level": 0, "sb": "yes", "max_iter": 1000}
COMPILED = {"jit": True, "compiler": "shell", "jit_options": {"flags": ["-O2", "-march=native"], "verbose": False}}


PARTS = 4
STILL = 1e-2  # of the size of a coordinate: a path that moves it less is compared with this


class Found(NamedTuple):
    """What IPOPT ended with: its own status, cost, iterations, seconds of processor time, and the unknowns."""

    status: str
    cost: float
    iterations: int
    seconds: float
    x: np.ndarray


class Twin:
    """The discrete problem of a robot. Unknowns: inner positions, controls, multipliers, and free final velocities.
    compiled: functions are generated C."""

    def __init__(self, robot: Robot, steps: int, bounded: bool, tolerance: float = 1e-9, compiled: bool = False):
        self.robot, self.steps, self.compiled = robot, steps, compiled
        n, r, h = len(robot.initial), robot.controls, robot.T / steps
        m = len(robot.constraints(ca.SX(n, 1), ca.SX(n, 1), ca)) if robot.constraints else 0
        self.q, self.u = ca.SX.sym("q", n, steps + 1), ca.SX.sym("u", r, steps + 1)
        self.reactions, self.v = ca.SX.sym("nu", m, steps + 1), ca.SX.sym("v", n, 2)
        q, u, v = (ca.horzsplit(x) for x in (self.q, self.u, self.v))
        equations = [ca.SX(n, 1) for _ in q]
        cost, middles = 0, []
        edge, momentum, act = self._functions(n, r, m, h)
        for k in range(steps):
            left, right, constraint, price = edge(q[k], q[k + 1], u[k], u[k + 1])
            equations[k] += left
            equations[k + 1] += right
            middles.append(constraint)
            cost += price
        for k, (at, control, reaction) in enumerate(zip(q, u, ca.horzsplit(self.reactions), strict=True)):
            equations[k] += (h if 0 < k < steps else h / 2) * act(at, control, reaction)
        equations[0] += momentum(q[0], v[0])
        equations[-1] -= momentum(q[-1], v[1])
        limits = [ca.vertcat(*robot.inequalities(at, ca)) for at in q[1:-1]] if robot.inequalities else []
        self.cost, self.equations, self.middles = cost, ca.horzcat(*equations), ca.horzcat(*middles)
        self.everything = [self.q, self.u, self.reactions, self.v]
        self._build(bounded, ca.vertcat(*limits), tolerance)

    def _functions(self, n: int, r: int, m: int, h: float) -> tuple[ca.Function, ...]:
        """Of a step: what it gives to the equations of its nodes, its constraints and cost; L_v; B u + Rᵀν."""
        robot, (x, y, v), (u, w) = self.robot, (ca.SX.sym(s, n) for s in "xyv"), (ca.SX.sym(s, r) for s in "uw")
        middle, rate = (x + y) / 2, (y - x) / h
        action = h * robot.lagrangian(middle, rate, ca)
        push = h / 2 * ca.vertcat(*robot.forces(middle, rate, ca)) if robot.forces else ca.SX(n, 1)
        slip = h * ca.vertcat(*robot.constraints(middle, rate, ca)) if robot.constraints else ca.SX(0, 1)
        price = h / 2 * (robot.cost(x, rate, u, ca) + robot.cost(y, rate, w, ca))
        left, right = ca.gradient(action, x) + push, ca.gradient(action, y) + push
        edge = ca.Function("edge", [x, y, u, w], [left, right, slip, price])
        momentum = ca.Function("momentum", [x, v], [ca.gradient(robot.lagrangian(x, v, ca), v)])
        acting, reactions = self._columns(x) @ u, ca.SX.sym("nu", m)
        if robot.constraints:
            acting += ca.jacobian(ca.vertcat(*robot.constraints(x, v, ca)), v).T @ reactions
        return edge, momentum, ca.Function("act", [x, u, reactions], [acting])

    def _build(self, bounded: bool, limits: ca.SX, tolerance: float) -> None:
        robot, steps, begin = self.robot, self.steps, time.process_time()
        self.free = [robot.coordinates.index(name) for name in robot.free]
        n, given = len(robot.initial), np.setdiff1d(np.arange(len(robot.initial)), self.free)
        ends = [self.q[:, 0], self.q[:, steps], self.v[:, 0], *(self.v[int(i), 1] for i in given)]
        values = [*robot.ends, np.zeros(n), *np.zeros(len(given))]
        unknowns = ca.veccat(self.q[:, 1:steps], self.u, self.reactions, *(self.v[i, 1] for i in self.free))
        equations = ca.veccat(self.equations, self.middles)
        cost, equations, limits = ca.substitute(
            [ca.SX(x) for x in (self.cost, equations, limits)], ends, [ca.SX(x) for x in values]
        )
        problem = {"x": unknowns, "f": cost, "g": ca.vertcat(equations, limits)}
        options = {"ipopt": OPTIONS | {"tol": tolerance}, "print_time": False, "error_on_fail": False}
        self.solver = ca.nlpsol("s", "ipopt", problem, options | (COMPILED if self.compiled else {}))
        lower, upper = (np.full(unknowns.numel(), x) for x in (-np.inf, np.inf))
        if bounded:
            inner, r = n * (steps - 1), robot.controls
            for side, bound in ((lower, 0), (upper, 1)):
                side[inner : inner + r * (steps + 1)] = np.tile(np.broadcast_to(robot.limits["u"][bound], r), steps + 1)
                for name, pair in robot.limits.get("q", {}).items():
                    side[robot.coordinates.index(name) : inner : n] = (
                        np.inf * (2 * bound - 1) if pair[bound] is None else pair[bound]
                    )
        self.given = {
            "lbx": lower,
            "ubx": upper,
            "ubg": 0.0,
            "lbg": np.r_[np.zeros(equations.numel()), np.full(limits.numel(), -np.inf)],
        }
        self.seconds = time.process_time() - begin

    def solve(self, q: np.ndarray, u: np.ndarray | None) -> Found:
        """From a path (N+1, n) and controls (N+1, r), zero where there are none; multipliers are zero."""
        own = np.zeros((self.steps + 1, self.robot.controls)) if u is None else u
        rest = np.zeros(self.reactions.numel() + len(self.free))
        return _found(self.solver, self.given | {"x0": np.r_[q[1:-1].ravel(), own.ravel(), rest]})

    def distance(self, x: np.ndarray) -> float:
        """How far the plant, integrated over single steps from the nodes of a solution, ends from the next ones, relative to
        what every coordinate moves; controls are linear in a step."""
        (first, last), n, r, steps = self.robot.ends, len(self.robot.initial), self.robot.controls, self.steps
        inner, u, _ = np.split(x, np.cumsum([n * (steps - 1), r * (steps + 1)]))
        q, u = np.vstack([first, inner.reshape(-1, n), last]), u.reshape(-1, r)
        v = np.zeros_like(q)
        v[1:-1] = (q[2:] - q[:-2]) * steps / (2 * self.robot.T)
        ends = np.array(self._step().map(steps)(q[:-1].T, v[:-1].T, u[:-1].T, u[1:].T)).T
        moves = np.maximum(np.ptp(q, axis=0), STILL * np.array(self.robot.sizes))
        return float(np.max(np.abs(ends - q[1:]) / moves))

    def _step(self) -> ca.Function:
        """(q, v, u, u') → q after a step, by Runge and Kutta's method on its quarters."""
        n, h = len(self.robot.initial), self.robot.T / self.steps / PARTS
        q, v = ca.SX.sym("q", n), ca.SX.sym("v", n)
        u, w = (ca.SX.sym(name, self.robot.controls) for name in "uw")
        acceleration, x, y = self._acceleration(), q, v
        for i in range(PARTS):
            at = lambda x, y, c, i=i: (y, acceleration(x, y, u + (i + c) / PARTS * (w - u)))  # noqa: E731
            k1 = at(x, y, 0.0)
            k2 = at(x + h / 2 * k1[0], y + h / 2 * k1[1], 0.5)
            k3 = at(x + h / 2 * k2[0], y + h / 2 * k2[1], 0.5)
            k4 = at(x + h * k3[0], y + h * k3[1], 1.0)
            x, y = (z + h / 6 * (a + 2 * b + 2 * c + d) for z, a, b, c, d in zip((x, y), k1, k2, k3, k4, strict=True))
        return ca.Function("step", [q, v, u, w], [x])

    def _acceleration(self) -> ca.Function:
        """(q, v, u) → a, from the equations of motion and the derivatives of the constraints."""
        robot, n = self.robot, len(self.robot.initial)
        q, v, u = ca.SX.sym("q", n), ca.SX.sym("v", n), ca.SX.sym("u", robot.controls)
        energy = robot.lagrangian(q, v, ca)
        momentum = ca.gradient(energy, v)
        force = ca.gradient(energy, q) - ca.jacobian(momentum, q) @ v + self._columns(q) @ u
        if robot.forces:
            force += ca.vertcat(*robot.forces(q, v, ca))
        slips = ca.vertcat(*robot.constraints(q, v, ca)) if robot.constraints else ca.SX(0, 1)
        rows = ca.jacobian(slips, v)
        matrix = ca.blockcat([[ca.jacobian(momentum, v), -rows.T], [rows, ca.SX(rows.shape[0], rows.shape[0])]])
        return ca.Function("a", [q, v, u], [ca.solve(matrix, ca.vertcat(force, -ca.jacobian(slips, q) @ v))[:n]])

    def _columns(self, q: ca.SX) -> ca.SX:
        """B(q)."""
        if callable(self.robot.actuated):
            return ca.vertcat(*(ca.horzcat(*row) for row in self.robot.actuated(q, ca)))
        return ca.SX.eye(q.numel())[:, list(self.robot.actuated)]

    def evaluate(
        self, q: np.ndarray, u: np.ndarray, reactions: np.ndarray, v: np.ndarray
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """The cost, the equations of motion (N+1, n) and the constraints of the steps (N, m); v: (2, n), of the ends."""
        function = ca.Function("all", self.everything, [self.cost, self.equations, self.middles])
        cost, equations, middles = function(q.T, u.T, reactions.T, v.T)
        return float(cost), np.array(equations).T, np.array(middles).T

    def stages(self, bounded: bool, compiled: bool, tolerance: float = 1e-9) -> Callable[[], Found]:
        """Fatrop on steps of Runge and Kutta with constant controls, whose states (q, v) are stages, from the cubic: another
        problem of the same size. CasADi's Fatrop writes a file into the working folder."""
        robot, steps, n, r = self.robot, self.steps, len(self.robot.initial), self.robot.controls
        h = robot.T / steps
        step, price, line = self._stage(h), self._price(h), robot.cubic(steps)
        rates = np.gradient(line, h, axis=0)
        limits = [np.broadcast_to(x, r) for x in (robot.limits["u"] if bounded else (-np.inf, np.inf))]
        unknowns, equations, start, lower, upper, cost = [], [], [], [], [], 0
        y = ca.MX.sym("y0", 2 * n)
        for k in range(steps + 1):
            unknowns.append(y)
            start.append(np.r_[line[k], rates[k]])
            lower.append(np.full(2 * n, -np.inf))
            upper.append(np.full(2 * n, np.inf))
            if bounded:
                for name, pair in robot.limits.get("q", {}).items():
                    lower[-1][robot.coordinates.index(name)], upper[-1][robot.coordinates.index(name)] = pair
            if k < steps:
                u, following = ca.MX.sym(f"u{k}", r), ca.MX.sym(f"y{k + 1}", 2 * n)
                unknowns.append(u)
                start.append(np.zeros(r))
                lower.append(limits[0])
                upper.append(limits[1])
                cost += price(y, u)
                equations.append(following - step(y, u))
            if k in (0, steps):
                equations.append(y - np.r_[robot.ends[k // steps], np.zeros(n)])
            y = following
        problem = {"x": ca.vertcat(*unknowns), "f": cost, "g": ca.vertcat(*equations)}
        options = {
            "structure_detection": "manual", "N": steps, "nx": [2 * n] * (steps + 1), "nu": [r] * steps + [0],
            "ng": [2 * n] + [0] * (steps - 1) + [2 * n], "equality": [True] * problem["g"].numel(), "print_time": False,
            "error_on_fail": False, "fatrop": {"tol": tolerance, "max_iter": 1000, "print_level": 0},
        }  # fmt: skip
        solver = ca.nlpsol("s", "fatrop", problem, options | (COMPILED if compiled else {}))
        given = {"x0": np.concatenate(start), "lbx": np.concatenate(lower), "ubx": np.concatenate(upper), "lbg": 0, "ubg": 0}
        return lambda: _found(solver, given)

    def _stage(self, h: float) -> ca.Function:
        """(y, u) → y after a step."""
        n, r = len(self.robot.initial), self.robot.controls
        y, u, acceleration = ca.SX.sym("y", 2 * n), ca.SX.sym("u", r), self._acceleration()
        rate = lambda y: ca.vertcat(y[n:], acceleration(y[:n], y[n:], u))  # noqa: E731
        a = rate(y)
        b = rate(y + h / 2 * a)
        c = rate(y + h / 2 * b)
        return ca.Function("step", [y, u], [y + h / 6 * (a + 2 * b + 2 * c + rate(y + h * c))])

    def _price(self, h: float) -> ca.Function:
        n, r = len(self.robot.initial), self.robot.controls
        y, u = ca.SX.sym("y", 2 * n), ca.SX.sym("u", r)
        return ca.Function("price", [y, u], [h * self.robot.cost(y[:n], y[n:], u, ca)])


def _found(solver: ca.Function, given: dict) -> Found:
    begin = time.process_time()
    found = solver(**given)
    seconds, stats = time.process_time() - begin, solver.stats()
    status = stats["return_status"] if isinstance(stats["return_status"], str) else str(bool(stats["success"]))
    return Found(status, float(found["f"]), int(stats["iter_count"]), seconds, np.array(found["x"])[:, 0])
