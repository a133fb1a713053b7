"""The discrete spline on the sphere as nonlinear programs for CasADi: in its nodes, and as a problem of optimal control.

In the nodes: minimise (σ/2) Σ |q_{i+2} - 2q_{i+1} + q_i|² over the free nodes with |q_k|² = 1; given nodes are numbers.
σ = h⁻³ is the objective as it stands; with σ = 1 its second derivatives are of order one at every N, which gives the same
minimiser, but another meaning to a solver's tolerance. As optimal control: states (q_k, d_k) in R⁶ and controls w_k in R³,

    minimise (σ/2) Σ |w_k|²,    q_{k+1} = q_k + d_k,    d_{k+1} = d_k + w_k.

Velocities in place of the increments d_k would put h² where controls meet constraints, and fatrop then takes 8 iterations at
N = 1000, or does not converge, where it takes 4.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import casadi
import numpy as np
from benchmarks.boundary import sphere
from benchmarks.boundary.spline_newton import start


@dataclasses.dataclass(frozen=True)
class Form:
    """nlp: x, f and g = 0; guess of x; path(x) → (N+1, 3); factor: of the objective in f; structure: options of fatrop."""

    nlp: dict
    guess: np.ndarray
    path: Callable[[np.ndarray], np.ndarray]
    factor: float
    structure: dict = dataclasses.field(default_factory=dict)


def _of_nodes(steps: int) -> tuple[np.ndarray, np.ndarray, Callable[[np.ndarray], np.ndarray]]:
    """The path of the guess, the free nodes, and the path of unknowns x."""
    begin, free = start(steps)

    def path(x: np.ndarray) -> np.ndarray:
        found = begin.copy()
        found[free] = x.reshape(-1, 3)
        return found

    return begin, free, path


def _columns(x, begin: np.ndarray, free: np.ndarray):
    """(3, N+1): the free nodes, x (3, free), and the given ones in their places."""
    given = np.setdiff1d(np.arange(len(begin)), free)
    order = np.argsort(np.concatenate([free, given]))
    return casadi.horzcat(x, casadi.DM(begin[given].T))[:, order.tolist()]


def nodes(steps: int, symbols: type = casadi.MX, scaled: bool = True) -> Form:
    """symbols: casadi.SX writes out every operation, casadi.MX keeps those of whole arrays."""
    begin, free, path = _of_nodes(steps)
    factor = (sphere.T / steps) ** 3 if scaled else 1.0
    x = symbols.sym("x", 3, len(free))
    q = _columns(x, begin, free)
    bend = q[:, 2:] - 2 * q[:, 1:-1] + q[:, :-2]
    f = casadi.sumsqr(bend) * (factor / (2 * (sphere.T / steps) ** 3))
    return Form({"x": casadi.vec(x), "f": f, "g": casadi.sum1(x**2).T - 1}, begin[free].ravel(), path, factor)


def mapped(steps: int) -> Form:
    """The Lagrangian of one window and the constraint of one node, each mapped over the nodes; scaled."""
    begin, free, path = _of_nodes(steps)
    x = casadi.MX.sym("x", 3, len(free))
    q = _columns(x, begin, free)
    a, b, c = (casadi.SX.sym(name, 3) for name in "abc")
    window = casadi.Function("window", [a, b, c], [casadi.sumsqr(c - 2 * b + a) / 2])
    constraint = casadi.Function("constraint", [a], [casadi.sumsqr(a) - 1])
    f = casadi.sum2(window.map(steps - 1)(q[:, :-2], q[:, 1:-1], q[:, 2:]))
    nlp = {"x": casadi.vec(x), "f": f, "g": constraint.map(len(free))(x).T}
    return Form(nlp, begin[free].ravel(), path, (sphere.T / steps) ** 3)


def states(steps: int) -> Form:
    """Scaled; stages 0 … N-1, each with its state, control, step and constraints in a row, as fatrop wants them."""
    begin, free, _ = _of_nodes(steps)
    d, moving = np.diff(begin, axis=0), set(free.tolist())
    ends = {0: begin[:2], steps - 1: begin[-2:]}
    x = [casadi.SX.sym(f"x{k}", 6) for k in range(steps)]
    w = [casadi.SX.sym(f"w{k}", 3) for k in range(steps - 1)]
    variables, constraints, counts, guess = [], [], [], []
    for k in range(steps):
        q, increment = x[k][:3], x[k][3:]
        variables.append(x[k])
        guess += [begin[k], d[k]]
        if k < steps - 1:
            constraints.append(x[k + 1] - casadi.vertcat(q + increment, increment + w[k]))
            variables.append(w[k])
            guess.append(d[k + 1] - d[k])
        own = _constraint(k, x[k], ends, moving, begin[k])
        constraints.append(own)
        counts.append(own.numel())
    f = sum(casadi.sumsqr(each) for each in w) / 2
    nlp = {"x": casadi.vertcat(*variables), "f": f, "g": casadi.vertcat(*constraints)}
    structure = {
        "structure_detection": "manual", "N": steps - 1, "nx": [6] * steps, "nu": [3] * (steps - 1) + [0], "ng": counts,
        "equality": [True] * nlp["g"].numel(),
    }  # fmt: skip

    def path(found: np.ndarray) -> np.ndarray:
        return np.concatenate([np.append(found, np.zeros(3)).reshape(steps, 9)[:, :3], begin[-1:]])

    return Form(nlp, np.concatenate(guess), path, (sphere.T / steps) ** 3, structure)


def _constraint(k: int, state, ends: dict, moving: set, given: np.ndarray):
    """What a stage is bound to besides the step: both end nodes, a given point, the sphere, or nothing."""
    q = state[:3]
    if k in ends:
        first, second = ends[k]
        return state - np.concatenate([first, second - first])
    if k in moving:
        return casadi.sumsqr(q) - 1
    return q - given if k > 1 else casadi.SX(0, 1)  # node 1 follows from the state of node 0
