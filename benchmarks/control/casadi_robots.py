"""The robots of `benchmarks.control.robots` by CasADi: the discrete problem of dalembert, solved by IPOPT.

With L_d(q, q') = h L((q+q')/2, (q'-q)/h) the equations of motion are, with w = h and h/2 at the ends,

    D₂L_d(q_{i-1}, q_i) + f_d⁺ + D₁L_d(q_i, q_{i+1}) + f_d⁻ + w (B(q_i)u_i + Rᵀν_i) = 0,

with ±L_v at the ends; constraints on velocities hold at the middles of steps, inequalities at the nodes, and the cost is the
trapezoidal rule with the velocities of the steps. Second derivatives are exact; the linear solver is MUMPS.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
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
    """The discrete problem of a robot. Unknowns: positions, controls, multipliers, velocities of the ends and T, as far as
    they are free. compiled: functions are generated C."""

    def __init__(self, robot: Robot, steps: int, bounded: bool, tolerance: float = 1e-9, compiled: bool = False):
        self.robot, self.steps, self.compiled = robot, steps, compiled
        n, r = len(robot.initial), robot.controls
        m = len(robot.constraints(ca.SX(n, 1), ca.SX(n, 1), ca)) if robot.constraints else 0
        self.q, self.u = ca.SX.sym("q", n, steps + 1), ca.SX.sym("u", r, steps + 1)
        self.reactions, self.v, self.T = ca.SX.sym("nu", m, steps + 1), ca.SX.sym("v", n, 2), ca.SX.sym("T")
        q, u, v = (ca.horzsplit(x) for x in (self.q, self.u, self.v))
        equations = [ca.SX(n, 1) for _ in q]
        cost, middles, h = 0, [], self.T / steps
        edge, momentum, act = self._functions(n, r, m)
        for k in range(steps):
            left, right, constraint, price = edge(q[k], q[k + 1], u[k], u[k + 1], h)
            equations[k] += left
            equations[k + 1] += right
            middles.append(constraint)
            cost += price
        for k, (at, control, reaction) in enumerate(zip(q, u, ca.horzsplit(self.reactions), strict=True)):
            equations[k] += (h if 0 < k < steps else h / 2) * act(at, control, reaction)
        equations[0] += momentum(q[0], v[0])
        equations[-1] -= momentum(q[-1], v[1])
        limits = [ca.vertcat(*robot.inequalities(at, ca)) for at in q[1:-1]] if robot.inequalities else []
        at_ends = [
            ca.vertcat(*robot.constraints(at, w, ca))
            for name, at, w in (("first", q[0], v[0]), ("last", q[-1], v[1]))
            if robot.constraints and robot.is_free(name).any()
        ]
        if robot.reached:
            at_ends += robot.reached(q[-1], v[1], ca)
        self.cost, self.equations, self.middles = cost, ca.horzcat(*equations), ca.horzcat(*middles)
        self.everything = [self.q, self.u, self.reactions, self.v, self.T]
        self._build(bounded, ca.vertcat(*at_ends), ca.vertcat(*limits), tolerance)

    def _functions(self, n: int, r: int, m: int) -> tuple[ca.Function, ...]:
        """Of a step: what it gives to the equations of its nodes, its constraints and cost; L_v; B u + Rᵀν."""
        h = ca.SX.sym("h")
        robot, (x, y, v), (u, w) = self.robot, (ca.SX.sym(s, n) for s in "xyv"), (ca.SX.sym(s, r) for s in "uw")
        middle, rate = (x + y) / 2, (y - x) / h
        action = h * robot.lagrangian(middle, rate, ca)
        push = h / 2 * ca.vertcat(*robot.forces(middle, rate, ca)) if robot.forces else ca.SX(n, 1)
        slip = h * ca.vertcat(*robot.constraints(middle, rate, ca)) if robot.constraints else ca.SX(0, 1)
        price = h / 2 * (robot.cost(x, rate, u, ca) + robot.cost(y, rate, w, ca))
        left, right = ca.gradient(action, x) + push, ca.gradient(action, y) + push
        edge = ca.Function("edge", [x, y, u, w, h], [left, right, slip, price])
        momentum = ca.Function("momentum", [x, v], [ca.gradient(robot.lagrangian(x, v, ca), v)])
        acting, reactions = self._columns(x) @ u, ca.SX.sym("nu", m)
        if robot.constraints:
            acting += ca.jacobian(ca.vertcat(*robot.constraints(x, v, ca)), v).T @ reactions
        return edge, momentum, ca.Function("act", [x, u, reactions], [acting])

    def _build(self, bounded: bool, at_ends: ca.SX, limits: ca.SX, tolerance: float) -> None:
        robot, begin = self.robot, time.process_time()
        self.free = [np.ones(x.shape, dtype=bool) for x in self.everything]
        for k, (position, velocity) in enumerate((("start", "first"), ("end", "last"))):
            self.free[0][:, -k] = robot.is_free(position)
            self.free[3][:, k] = robot.is_free(velocity)
        self.free[4][:] = robot.timed
        path = np.zeros(self.q.shape)
        path[:, 0], path[:, -1] = robot.ends
        values = [path, *(np.zeros(x.shape) for x in self.everything[1:4]), np.full((1, 1), robot.T)]
        given = ca.vertcat(*(_entries(x, ~free) for x, free in zip(self.everything, self.free, strict=True)))
        unknowns = ca.vertcat(*(_entries(x, free) for x, free in zip(self.everything, self.free, strict=True)))
        equations = ca.veccat(self.equations, self.middles, at_ends)
        known = ca.SX(np.concatenate([x.T[~free.T] for x, free in zip(values, self.free, strict=True)]))
        cost, equations, limits, *every = ca.substitute([self.cost, equations, limits, *self.everything], [given], [known])
        self.parts = ca.Function("parts", [unknowns], every)
        problem = {"x": unknowns, "f": cost, "g": ca.vertcat(equations, limits)}
        options = {"ipopt": OPTIONS | {"tol": tolerance}, "print_time": False, "error_on_fail": False}
        self.solver = ca.nlpsol("s", "ipopt", problem, options | (COMPILED if self.compiled else {}))
        sides = []
        for side, infinite in enumerate((-np.inf, np.inf)):
            bounds = [*(np.full(x.shape, infinite) for x in self.everything[:4]), np.full((1, 1), (0.0, np.inf)[side])]
            if bounded:
                bounds[1][:] = np.reshape(robot.limits["u"][side], (-1, 1))
                for name, pair in robot.limits.get("q", {}).items():
                    bounds[0][robot.coordinates.index(name)] = infinite if pair[side] is None else pair[side]
            sides.append(self._unknowns(bounds))
        lower = np.r_[np.zeros(equations.numel()), np.full(limits.numel(), -np.inf)]
        self.given = {"lbx": sides[0], "ubx": sides[1], "ubg": 0.0, "lbg": lower}
        self.seconds = time.process_time() - begin

    def _unknowns(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """What is free of positions, controls, multipliers, velocities of the ends and T."""
        return np.concatenate([x.T[free.T] for x, free in zip(arrays, self.free, strict=True)])

    def solve(self, q: np.ndarray, u: np.ndarray | None) -> Found:
        """From a path (N+1, n) and controls (N+1, r), zero where there are none; multipliers are zero, and so is a free
        velocity of the end of a motion from rest."""
        rest = [np.zeros(x.shape) for x in self.everything[1:4]]
        rest[0] = rest[0] if u is None else u.T
        slopes = self.steps / self.robot.T * np.stack([q[1] - q[0], q[-1] - q[-2]], axis=1)
        rest[2] = slopes * self.robot.is_free("first")[:, None]
        return _found(self.solver, self.given | {"x0": self._unknowns([q.T, *rest, np.full((1, 1), self.robot.T)])})

    def distance(self, x: np.ndarray) -> float:
        """How far the plant, integrated over single steps from the nodes of a solution, ends from the next ones, relative to
        what every coordinate moves; controls are linear in a step."""
        q, u, _, rates, T = (np.array(part).T for part in self.parts(x))
        h = float(T[0, 0]) / self.steps
        v = np.concatenate([rates[:1], (q[2:] - q[:-2]) / (2 * h), rates[1:]])
        ends = np.array(self._step(h).map(self.steps)(q[:-1].T, v[:-1].T, u[:-1].T, u[1:].T)).T
        moves = np.maximum(np.ptp(q, axis=0), STILL * np.array(self.robot.sizes))
        return float(np.max(np.abs(ends - q[1:]) / moves))

    def _step(self, length: float) -> ca.Function:
        """(q, v, u, u') → q after a step, by Runge and Kutta's method on its quarters."""
        n, h = len(self.robot.initial), length / PARTS
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
        cost, equations, middles = function(q.T, u.T, reactions.T, v.T, self.robot.T)
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


def _entries(x: ca.SX, which: np.ndarray) -> ca.SX:
    """Entries of a matrix, column by column."""
    return ca.vertcat(*(x[int(i), int(j)] for j, i in np.argwhere(which.T)))


def _found(solver: ca.Function, given: dict) -> Found:
    begin = time.process_time()
    found = solver(**given)
    seconds, stats = time.process_time() - begin, solver.stats()
    status = stats["return_status"] if isinstance(stats["return_status"], str) else str(bool(stats["success"]))
    return Found(status, float(found["f"]), int(stats["iter_count"]), seconds, np.array(found["x"])[:, 0])
