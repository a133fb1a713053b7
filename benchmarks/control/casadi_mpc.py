"""The receding horizon of the cart-pole by CasADi: the discrete problem of dalembert, solved by IPOPT and by Fatrop.

Both have the state (q₀, v₀) as parameter and begin at the last solution, shifted by the time between two samples. With
L_d(a, b) = h L((a+b)/2, (b-a)/h), w = h and h/2 at the ends, and P the momentum that arrives at a node,

    P_k + D₁L_d(q_k, q_{k+1}) + w u_k e = 0,  P_{k+1} = D₂L_d(q_k, q_{k+1}),  P₀ = L_v(q₀, v₀),  P_N + w u_N e = 0.

IPOPT has q between the ends and u as unknowns. Fatrop wants stages: the state (q_k, P_k), and as controls u_k and the
velocity (q_{k+1}-q_k)/h, which the first equation fixes. It is the same problem, whose costs are compared.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before CasADi loads MUMPS and its BLAS

import casadi as ca
import numpy as np

COMPILED = {"jit": True, "compiler": "shell", "jit_options": {"flags": ["-O3", "-march=native"], "verbose": False}}
QUIET = {"print_time": False, "error_on_fail": False}
FORCE = ca.DM([1.0, 0.0])


class Answer(NamedTuple):
    """seconds: of processor time, of the solver alone."""

    cost: float
    iterations: int
    solved: bool
    seconds: float


class Horizon:
    """N steps over T from (q₀, v₀) to rest at `final`, |u| ≤ bound. M, m, l, g: of the cart-pole."""

    def __init__(self, steps: int, T: float, final: np.ndarray, bound: float, numbers: dict[str, float]):
        self.steps, self.h, self.final, self.bound = steps, T / steps, final, bound
        a, b, q, v = (ca.SX.sym(name, 2) for name in "abqv")
        M, m, l, g = (numbers[name] for name in ("M", "m", "l", "g"))
        energy = 0.5 * (M + m) * v[0] ** 2 + 0.5 * m * (l * v[1]) ** 2 + m * l * ca.cos(q[1]) * (v[0] * v[1] + g)
        lagrangian = ca.Function("L", [q, v], [energy])
        action = self.h * lagrangian((a + b) / 2, (b - a) / self.h)
        self.leaves = ca.Function("leaves", [a, b], [ca.gradient(action, a)])
        self.arrives = ca.Function("arrives", [a, b], [ca.gradient(action, b)])
        self.momentum = ca.Function("momentum", [q, v], [ca.gradient(energy, v)])
        self.weights = np.full(steps + 1, self.h)
        self.weights[[0, -1]] *= 0.5


class Peer:
    """A solver with its last solution. table: (N+1, 3), q and u of it, at first those of another's plan; lay: its unknowns
    from a table and v₀; unlay: the table from its unknowns and q₀; duals: whether it begins at its last multipliers."""

    def __init__(self, solver: ca.Function, given: dict, lay: Callable, unlay: Callable, duals: bool):
        self._solver, self._given, self._lay, self._unlay, self._duals = solver, given, lay, unlay, duals
        self.table = np.zeros((0, 3))
        self._multipliers: dict = {}

    def solve(self, q: np.ndarray, v: np.ndarray, by: float) -> Answer:
        """From a state, the last solution having been made so many steps before."""
        nodes = np.arange(len(self.table))
        table = np.stack([np.interp(nodes + by, nodes, column) for column in self.table.T], axis=1)
        table[0, :2] = q
        guess = {"x0": self._lay(table, v), "p": np.r_[q, v], **self._multipliers}
        begin = time.process_time()
        found = self._solver(**guess, **self._given)
        seconds, stats = time.process_time() - begin, self._solver.stats()
        if stats["success"]:
            self.table = self._unlay(np.array(found["x"])[:, 0], q)
            if self._duals:
                self._multipliers = {"lam_x0": found["lam_x"], "lam_g0": found["lam_g"]}
        return Answer(float(found["f"]), int(stats["iter_count"]), bool(stats["success"]), seconds)


def ipopt(horizon: Horizon, tolerance: float, compiled: bool, **options) -> Peer:
    """With multipliers of the last solution; options: of IPOPT."""
    N, final = horizon.steps, horizon.final
    inner, u, p = ca.SX.sym("q", 2, N - 1), ca.SX.sym("u", N + 1), ca.SX.sym("p", 4)
    q = [p[:2], *ca.horzsplit(inner), ca.DM(final)]
    arriving = [horizon.momentum(p[:2], p[2:]), *(horizon.arrives(*q[k : k + 2]) for k in range(N))]
    leaving = [*(horizon.leaves(*q[k : k + 2]) for k in range(N)), ca.DM.zeros(2)]
    equations = [arriving[k] + leaving[k] + horizon.weights[k] * u[k] * FORCE for k in range(N + 1)]
    problem = {"x": ca.veccat(inner, u), "p": p, "f": ca.dot(horizon.weights * u, u), "g": ca.vertcat(*equations)}
    own = {"print_level": 0, "sb": "yes", "tol": tolerance, "warm_start_init_point": "yes"} | options
    solver = ca.nlpsol("s", "ipopt", problem, QUIET | {"ipopt": own} | (COMPILED if compiled else {"expand": True}))
    limits = np.r_[np.full(2 * (N - 1), np.inf), np.full(N + 1, horizon.bound)]

    def unlay(x: np.ndarray, first: np.ndarray) -> np.ndarray:
        return np.c_[np.vstack([first, x[: 2 * (N - 1)].reshape(-1, 2), final]), x[2 * (N - 1) :]]

    given = {"lbx": -limits, "ubx": limits, "lbg": 0, "ubg": 0}
    return Peer(solver, given, lambda table, v: np.r_[table[1:-1, :2].ravel(), table[:, 2]], unlay, True)


def fatrop(horizon: Horizon, tolerance: float, compiled: bool, **options) -> Peer:
    """Of which CasADi's writes a file into the working folder. options: of Fatrop."""
    N, h, p = horizon.steps, horizon.h, ca.MX.sym("p", 4)
    unknowns, equations, bounds, cost = [], [], [], 0
    x = ca.MX.sym("x0", 4)
    for k in range(N + 1):
        last = k == N
        u = ca.MX.sym(f"u{k}", 1 if last else 3)
        unknowns += [x, u]
        bounds += [np.full(4, np.inf), np.r_[horizon.bound, np.full(0 if last else 2, np.inf)]]
        cost += horizon.weights[k] * u[0] ** 2
        q, momentum, push = x[:2], x[2:], horizon.weights[k] * u[0] * FORCE
        if not last:
            following, after = ca.MX.sym(f"x{k + 1}", 4), q + h * u[1:]
            equations.append(following - ca.vertcat(after, horizon.arrives(q, after)))
            equations.append(momentum + push + horizon.leaves(q, after))
        else:
            equations += [momentum + push, q - horizon.final]
        if k == 0:
            equations.append(x - ca.vertcat(p[:2], horizon.momentum(p[:2], p[2:])))
        x = following
    problem = {"x": ca.vertcat(*unknowns), "p": p, "f": cost, "g": ca.vertcat(*equations)}
    own = {
        "structure_detection": "manual", "N": N, "nx": [4] * (N + 1), "nu": [3] * N + [1], "ng": [6, *[2] * (N - 1), 4],
        "equality": [True] * problem["g"].numel(), "fatrop": {"tol": tolerance, "print_level": 0} | options,
    }  # fmt: skip
    solver = ca.nlpsol("s", "fatrop", problem, QUIET | own | (COMPILED if compiled else {"expand": True}))
    limits = np.concatenate(bounds)

    def lay(table: np.ndarray, v: np.ndarray) -> np.ndarray:
        q, u = table[:, :2], table[:, 2]
        momenta = np.hstack([horizon.momentum(q[0], v), horizon.arrives.map(N)(q[:-1].T, q[1:].T)]).T
        rows = np.c_[q[:-1], momenta[:-1], u[:-1], np.diff(q, axis=0) / h]
        return np.r_[rows.ravel(), q[-1], momenta[-1], u[-1]]

    def unlay(x: np.ndarray, first: np.ndarray) -> np.ndarray:
        return np.c_[np.vstack([x[:-5].reshape(N, 7)[:, :2], x[-5:-3]]), np.append(x[:-5].reshape(N, 7)[:, 4], x[-1])]

    return Peer(solver, {"lbx": -limits, "ubx": limits, "lbg": 0, "ubg": 0}, lay, unlay, False)
