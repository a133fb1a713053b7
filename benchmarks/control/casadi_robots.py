"""The robots of `benchmarks.control.robots` by CasADi: the discrete problem of dalembert, solved by IPOPT.

With L_d(q, q') = h L((q+q')/2, (q'-q)/h) the equations of motion are, with w = h and h/2 at the ends,

    D₂L_d(q_{i-1}, q_i) + f_d⁺ + D₁L_d(q_i, q_{i+1}) + f_d⁻ + w (B(q_i)u_i + Rᵀν_i) = 0,

with ±L_v at the ends; constraints on velocities hold at the middles of steps, inequalities at the nodes, and the cost is the
trapezoidal rule with the velocities of the steps. Second derivatives are exact; the linear solver is MUMPS.
"""

from __future__ import annotations

import os
import time
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before CasADi loads MUMPS and its BLAS

import casadi as ca
import numpy as np
from benchmarks.control.robots import Robot

OPTIONS = {"print_level": 0, "sb": "yes", "max_iter": 1000}


class Found(NamedTuple):
    """What IPOPT ended with: its own status, cost, iterations, seconds of processor time, and the unknowns."""

    status: str
    cost: float
    iterations: int
    seconds: float
    x: np.ndarray


class Twin:
    """The discrete problem of a robot. Unknowns: inner positions, controls, multipliers, and free final velocities."""

    def __init__(self, robot: Robot, steps: int, bounded: bool, tolerance: float = 1e-9):
        self.robot, self.steps = robot, steps
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
        if callable(robot.actuated):
            columns = ca.vertcat(*(ca.horzcat(*row) for row in robot.actuated(x, ca)))
        else:
            columns = ca.SX.eye(n)[:, list(robot.actuated)]
        acting, reactions = columns @ u, ca.SX.sym("nu", m)
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
        self.solver = ca.nlpsol("s", "ipopt", problem, options)
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
        begin = time.process_time()
        found = self.solver(x0=np.r_[q[1:-1].ravel(), own.ravel(), rest], **self.given)
        seconds, stats = time.process_time() - begin, self.solver.stats()
        return Found(
            stats["return_status"], float(found["f"]), int(stats["iter_count"]), seconds, np.array(found["x"])[:, 0]
        )

    def motion(self, x: np.ndarray) -> dict[str, np.ndarray]:
        """q (N+1, n), u (N+1, r) and v (N+1, n) of unknowns, as a solution has them."""
        (first, last), n, r, steps = self.robot.ends, len(self.robot.initial), self.robot.controls, self.steps
        inner, u, _ = np.split(x, np.cumsum([n * (steps - 1), r * (steps + 1)]))
        q = np.vstack([first, inner.reshape(-1, n), last])
        v = np.zeros_like(q)
        v[1:-1] = (q[2:] - q[:-2]) * steps / (2 * self.robot.T)
        v[-1, self.free] = x[len(x) - len(self.free) :]
        return {"q": q, "u": u.reshape(-1, r), "v": v}

    def evaluate(
        self, q: np.ndarray, u: np.ndarray, reactions: np.ndarray, v: np.ndarray
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """The cost, the equations of motion (N+1, n) and the constraints of the steps (N, m); v: (2, n), of the ends."""
        function = ca.Function("all", self.everything, [self.cost, self.equations, self.middles])
        cost, equations, middles = function(q.T, u.T, reactions.T, v.T)
        return float(cost), np.array(equations).T, np.array(middles).T
