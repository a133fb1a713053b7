"""The functions of a node that make up an optimal control problem: its share of the cost, and its equations of motion.

    node i:   D₂L_d(q_{i-1},q_i) + f_d⁺ + D₁L_d(q_i,q_{i+1}) + f_d⁻ + w(B(q_i)u_i + Rᵀν_i) = 0,   w = (h_{i-1}+h_i)/2
    ends:     L_v(q_0,v_0) + D₁L_d(q_0,q_1) + f_d⁻ + (h/2)(B u_0 + Rᵀν_0) = 0, and its mirror
    step i:   φ(q_{i+1}) = 0, or φ at the scheme's point of (q_i, q_{i+1})
    cost:     Σ w_i C(q_i, v_i, u_i),   v_i the velocity of the parabola through three nodes

Source: docs/control.md; Colombo, Martín de Diego, Zuccalli, section 4.3, with u as unknowns.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from dalembert.control.problem import OptimalControl, actuation, with_plant_parameters
from dalembert.discretize import Scheme
from dalembert.discretize.nodes import Interval, Node, incoming, kinematic_equations, outgoing
from dalembert.systems.equations import all_reactions, first_derivative, momentum, value

PARTS = ("state", "controls", "reactions", "adjoints", "steps")  # q, u, ν | λ, η


@dataclasses.dataclass(frozen=True)
class ControlLayout:
    """Where the numbers of a block stand: n coordinates, r controls, m constraints.

    Block rule: what a step solves for, and its equations, stand in one block, (q_{i+1}, ν_i | λ_i, η_i), so that the block's
    own matrix is the Jacobian of a step; u_{i+1} is with q_{i+1}. The velocities of the ends take the place of positions in
    a block before the first and after the last.
    """

    n: int
    r: int
    m: int

    def part(self, name: str) -> slice:
        ends = np.cumsum([0, self.n, self.r, self.m, self.n, self.m]).tolist()
        i = PARTS.index(name)
        return slice(ends[i], ends[i + 1])

    @property
    def size(self) -> int:
        return 2 * (self.n + self.m) + self.r

    def places(self, offset: int, *names: str) -> list[tuple[int, int]]:
        """(block, component) of parts of the block `offset` blocks on."""
        return [(offset, c) for name in names for c in range(*self.part(name).indices(self.size))]


class _Window(NamedTuple):
    """What a node sees: the states of the three blocks around it, its controls and reactions."""

    before: jnp.ndarray
    state: jnp.ndarray
    u: jnp.ndarray
    after: jnp.ndarray
    reactions: jnp.ndarray


NODE = (("state", 0), ("state", 1), ("controls", 1), ("state", 2), ("reactions", 2))  # of a _Window


def _window(layout: ControlLayout, z) -> _Window:
    n, r, m = layout.n, layout.r, layout.m
    return _Window(*jnp.split(z[: 3 * n + r + m], np.cumsum([n, n, r, n])))


def _applied(problem: OptimalControl, w: _Window, q, v, t):
    """B(q)u + Rᵀν."""
    return actuation(problem, q, t) @ w.u + all_reactions(problem.system, q, v, jnp.zeros_like(v), t).T @ w.reactions


def _cost(problem: OptimalControl, q, v, u, t):
    return problem.system.call(problem.cost, q, v, u, t=t)


def _steps(problem: OptimalControl, scheme: Scheme, interval: Interval):
    """h φ of the step: h, so that its multipliers are those of a density."""
    node = Node(interval.q, interval.d, interval.d, interval.t, interval.h)
    return interval.h * kinematic_equations(scheme, problem.system, node, jnp.zeros(0), False)


@dataclasses.dataclass(frozen=True)
class InnerNode:
    """Cost and equations of a node between the ends, and of the step after it."""

    problem: OptimalControl  # without its parameters
    scheme: Scheme
    layout: ControlLayout

    def __call__(self, z, data, shared):
        h0, h1, t = data
        problem = with_plant_parameters(self.problem, shared["parameters"])
        w, system = _window(self.layout, z), problem.system
        q, d0, d1 = shared["origin"] + w.state, w.state - w.before, w.after - w.state
        v = (d0 * (h1 / h0) + d1 * (h0 / h1)) / (h0 + h1)
        weight, after = 0.5 * (h0 + h1), Interval(q, d1, t, h1)
        motion = (
            incoming(self.scheme, system, Interval(q, d0, t - h0, h0, 1.0))
            + outgoing(self.scheme, system, after)
            + weight * _applied(problem, w, q, v, t)
        )
        return weight * _cost(problem, q, v, w.u, t), jnp.concatenate([motion, _steps(problem, self.scheme, after)])


@dataclasses.dataclass(frozen=True)
class FirstNode:
    """Those of the first node, with its velocity in the place of a node before it."""

    problem: OptimalControl
    scheme: Scheme
    layout: ControlLayout

    def __call__(self, z, data, shared):
        h, t = data
        problem = with_plant_parameters(self.problem, shared["parameters"])
        w, system = _window(self.layout, z), problem.system
        q, v = shared["origin"] + w.state, w.before
        after = Interval(q, w.after - w.state, t, h)
        motion = momentum(system, q, v, t) + outgoing(self.scheme, system, after) + 0.5 * h * _applied(problem, w, q, v, t)
        return 0.5 * h * _cost(problem, q, v, w.u, t), jnp.concatenate([motion, _steps(problem, self.scheme, after)])


@dataclasses.dataclass(frozen=True)
class LastNode:
    """Those of the last node, with its velocity in the place of a node after it, and the terminal cost."""

    problem: OptimalControl
    scheme: Scheme
    layout: ControlLayout

    def __call__(self, z, data, shared):
        h, t = data
        problem = with_plant_parameters(self.problem, shared["parameters"])
        w, system, terminal = _window(self.layout, z), problem.system, problem.terminal
        q, v = shared["origin"] + w.state, w.after
        motion = (
            incoming(self.scheme, system, Interval(q, w.state - w.before, t - h, h, 1.0))
            + 0.5 * h * _applied(problem, w, q, v, t)
            - momentum(system, q, v, t)
        )
        cost = 0.5 * h * _cost(problem, q, v, w.u, t)
        return cost if terminal is None else cost + system.call(terminal, q, v, t=t), motion


@dataclasses.dataclass(frozen=True)
class EndPosition:
    """w φ(q, t) of the holonomic constraints at an end whose position is free; zeros for the others."""

    problem: OptimalControl
    layout: ControlLayout

    def __call__(self, z, data, shared):
        weight, t = data
        problem = with_plant_parameters(self.problem, shared["parameters"])
        system, q = problem.system, shared["origin"] + z[: self.layout.n]
        found = [value(system, c, q, q, q, t) for c in system.constraints if c.order == 0]
        return jnp.zeros(()), weight * jnp.concatenate(found)


@dataclasses.dataclass(frozen=True)
class EndVelocity:
    """w dφ/dt of the holonomic, w φ(q, v, t) of the other constraints at an end whose velocity is free."""

    problem: OptimalControl
    layout: ControlLayout

    def __call__(self, z, data, shared):
        weight, t = data
        problem = with_plant_parameters(self.problem, shared["parameters"])
        system, n = problem.system, self.layout.n
        q, v = shared["origin"] + z[:n], z[n : 2 * n]
        found = [
            first_derivative(system, c, q, v, t) if c.order == 0 else value(system, c, q, v, v, t)
            for c in system.constraints
        ]
        return jnp.zeros(()), weight * jnp.concatenate(found)
