"""The functions of a step and of a node that make up an optimal control problem: cost, equations of motion, constraints.

    node i:   D₂L_d(q_{i-1},q_i) + f_d⁺ + D₁L_d(q_i,q_{i+1}) + f_d⁻ + w(B(q_i)u_i + Rᵀν_i) = 0,   w = (h_{i-1}+h_i)/2
    ends:     L_v(q_0,v_0) + D₁L_d(q_0,q_1) + f_d⁻ + (h/2)(B u_0 + Rᵀν_0) = 0, and its mirror
    step i:   φ(q_{i+1}) = 0, or φ at the scheme's point of (q_i, q_{i+1})
    cost:     Σ (h/2)(C(q_i, d_i/h, u_i) + C(q_{i+1}, d_i/h, u_{i+1})),   d_i = q_{i+1} - q_i

The velocity of the cost is that of the step: with (q_{i+1}-q_{i-1})/2h the controls of the ends would have order 1 where C
depends on v, and what alternates from node to node would cost nothing.

`Lobatto` has order 4 with forces as unknowns: the path a parabola on every two steps, all integrals by Simpson's rule.

    A = Σ_j b_j L(q_j, q̇_j),   b = (h/3, 4h/3, h/3),   q̇ = ((3d₁-d₂)/2h, (d₁+d₂)/2h, (3d₂-d₁)/2h),   d_i = q_i - q_{i-1}
    node i:   ∂A/∂q_i + ∂A'/∂q_i + w_i (f + B(q_i)u_i + Rᵀν_i) = 0,   cost: Σ_j b_j C(q_j, q̇_j, u_j),   holonomic: φ(q_i) = 0

w: the weights of Simpson's rule over all steps. As the cost takes the same parabolas, L̃ = C + λᵀ(equations of motion) is a
Lagrangian of (q, λ) in the same discretization, a Galerkin variational integrator (Lobatto IIIA-IIIB) of order 4.
Source: docs/control_solved.md; Colombo, Martín de Diego, Zuccalli, section 4.3, with u as unknowns; Campos, Ober-Blöbaum,
Trélat, High order variational integrators in the optimal control of mechanical systems, 2015.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert.boundary import Term
from dalembert.boundary.data.around import nodes_at
from dalembert.boundary.kkt.assembly import TIME, term_of
from dalembert.boundary.kkt.shared_unknowns import TIMED
from dalembert.boundary.kkt.unknowns import BlockParts
from dalembert.control.problem import OptimalControl, actuation, with_plant_parameters
from dalembert.discretize import Interval, Node, Scheme
from dalembert.discretize.nodes import forced_ends, kinematic_equations
from dalembert.groups import Product
from dalembert.systems import momentum
from dalembert.systems.equations import all_reactions, force, reduce_index


@dataclasses.dataclass(frozen=True)
class ControlLayout(BlockParts):
    """Layout of the numbers of a block: n coordinates, r controls, m constraints, `watched` values of path inequalities.

    Block rule: what a step solves for, and its equations, stand in one block, (q_{i+1}, ν_i | λ_i, η_i), so that the block's
    own matrix is the Jacobian of a step; u_{i+1} is with q_{i+1}. The velocities of the ends take the place of positions in
    a block before the first and after the last.
    """

    n: int
    r: int
    m: int
    watched: int = 0
    timed: bool = False  # whether the final time is free
    ends: int = 0  # components for what holds at the ends
    base: int = 0  # on groups: numbers of the element around which the position of a block is counted

    @property
    def sizes(self) -> dict[str, int]:
        """q, u, ν, s | λ, η, and of s; of what holds at the ends, of a free final time."""
        return {
            "state": self.n, "controls": self.r, "reactions": self.m, "values": self.watched, "adjoints": self.n,
            "steps": self.m, "inequalities": self.watched, "base": self.base, "ends": self.ends, "time": TIMED * self.timed,
        }  # fmt: skip


def _force(problem: OptimalControl, q, v, u, reactions, t):
    """B(q)u + Rᵀν."""
    return actuation(problem, q, t) @ u + all_reactions(problem.system, q, v, jnp.zeros_like(v), t).T @ reactions


def _cost(problem: OptimalControl, q, v, u, t):
    return problem.system.call(problem.cost, q, v, t=t, u=u)


@dataclasses.dataclass(frozen=True)
class PlantTerm:
    """A function of a window with the parameters of the plant among what all windows share. On groups z begins with the
    elements around which its nodes are counted."""

    problem: OptimalControl  # without its parameters
    layout: ControlLayout
    nodes: ClassVar[int] = 1

    def plant(self, shared) -> OptimalControl:
        return with_plant_parameters(self.problem, shared["parameters"])

    def elements_and_unknowns(self, z) -> tuple[Any, Any]:
        """The elements around which the nodes are counted, on groups, and all that is read besides."""
        size = self.nodes * self.layout.base
        return z[:size], z[size:]

    def positions(self, elements, shared, *x) -> list[Any]:
        """q of the nodes with these numbers."""
        space = self.problem.system.space
        return nodes_at(space, elements, x) if isinstance(space, Product) else [shared["origin"] + one for one in x]

    def between(self, x, y, q_x, q_y) -> Any:
        """The increment from one node to the next."""
        space = self.problem.system.space
        return space.between(q_x, q_y) if isinstance(space, Product) else y - x


@dataclasses.dataclass(frozen=True)
class Edge(PlantTerm):
    """The cost of a step, what it gives to the equations of its two nodes, and its constraints, times h: their multipliers
    are densities."""

    scheme: Scheme
    nodes: ClassVar[int] = 2
    scaling: ClassVar = (1, TIME)

    def __call__(self, z, data, shared):
        (elements, z), (h, t) = self.elements_and_unknowns(z), data
        problem, n, r = self.plant(shared), self.layout.n, self.layout.r
        system = problem.system
        x0, u0, x1, u1 = jnp.split(z[: 2 * (n + r)], np.cumsum([n, r, n]))
        q0, q1 = self.positions(elements, shared, x0, x1)
        interval = Interval(q0, self.between(x0, x1, q0, q1), t, h)
        v = interval.d / h
        cost = _cost(problem, interval.q, v, u0, t) + _cost(problem, q1, v, u1, t + h)
        node = Node(interval.q, interval.d, interval.d, t, h)
        constraints = h * kinematic_equations(self.scheme, system, node, jnp.zeros(0), False)
        return 0.5 * h * cost, jnp.concatenate([*forced_ends(self.scheme, system, interval), constraints])


def edge_term(problem: OptimalControl, scheme: Scheme, layout: ControlLayout, t: np.ndarray) -> tuple[Term, tuple]:
    """The edges of all steps, with their data; problem: without its parameters."""
    at, parts, h = layout.places, ("state", "controls"), np.diff(t)
    multipliers = [*at(1, "adjoints"), *at(2, "adjoints"), *at(1, "steps")]
    read = [*at(0, "base"), *at(1, "base"), *at(0, *parts), *at(1, *parts)]
    return term_of(Edge(problem, layout, scheme), read, multipliers, 1, len(h)), (h, t[:-1])


class InnerNode(PlantTerm):
    """w(B u + Rᵀν) at a node between the ends."""

    nodes: ClassVar[int] = 3
    scaling: ClassVar = (1, 1, 1, TIME)

    def __call__(self, z, data, shared):
        (elements, z), (h0, h1, weight, t) = self.elements_and_unknowns(z), data
        n, r, m = self.layout.n, self.layout.r, self.layout.m
        before, x, u, after, reactions = jnp.split(z[: 3 * n + r + m], np.cumsum([n, n, r, n]))
        problem = self.plant(shared)
        q0, q, q1 = self.positions(elements, shared, before, x, after)
        steps = self.between(before, x, q0, q), self.between(x, after, q, q1)
        v = (steps[0] * (h1 / h0) + steps[1] * (h0 / h1)) / (h0 + h1)
        return jnp.zeros(()), weight * _force(problem, q, v, u, reactions, t)


class EndNode(PlantTerm):
    """w(B u + Rᵀν) ± L_v(q, v) at an end: + at the first, - at the last node."""

    scaling: ClassVar = (0, 1, TIME)

    def __call__(self, z, data, shared):
        (elements, z), (sign, weight, t) = self.elements_and_unknowns(z), data
        n, r, m = self.layout.n, self.layout.r, self.layout.m
        v, x, u, reactions = jnp.split(z[: 2 * n + r + m], np.cumsum([n, n, r]))
        problem, (q,) = self.plant(shared), self.positions(elements, shared, x)
        impulse = weight * _force(problem, q, v, u, reactions, t) + sign * momentum(problem.system, q, v, t)
        return jnp.zeros(()), impulse


class TerminalCost(PlantTerm):
    """Φ(q, v) of the last node."""

    scaling: ClassVar = (TIME,)

    def __call__(self, z, data, shared):
        (elements, z), (t,) = self.elements_and_unknowns(z), data
        problem, n = self.plant(shared), self.layout.n
        assert problem.terminal is not None
        (q,) = self.positions(elements, shared, z[:n])
        return problem.system.call(problem.terminal, q, z[n : 2 * n], t=t), jnp.zeros(0)


class EndPosition(PlantTerm):
    """w φ(q, t) of the holonomic constraints at an end whose position is free; zeros for the others."""

    scaling: ClassVar = (1, TIME)

    def __call__(self, z, data, shared):
        (elements, z), (weight, t) = self.elements_and_unknowns(z), data
        problem = self.plant(shared)
        (q,) = self.positions(elements, shared, z[: self.layout.n])
        return jnp.zeros(()), weight * jnp.concatenate(position_equations(problem.system, q, t))


class EndVelocity(PlantTerm):
    """w dφ/dt of the holonomic, w φ(q, v, t) of the other constraints at an end whose velocity is free."""

    scaling: ClassVar = (1, TIME)

    def __call__(self, z, data, shared):
        (elements, z), (weight, t) = self.elements_and_unknowns(z), data
        problem, n = self.plant(shared), self.layout.n
        (q,), v = self.positions(elements, shared, z[:n]), z[n : 2 * n]
        return jnp.zeros(()), weight * jnp.concatenate(velocity_equations(problem.system, q, v, t))


def position_equations(system: Any, q, t) -> list[Any]:
    """φ(q) of each holonomic constraint."""
    return [c.residual(system, q, q, q, t) for c in system.constraints if c.order == 0]


def velocity_equations(system: Any, q, v, t) -> list[Any]:
    """dφ/dt of each holonomic constraint, φ(q, v) of each of the others."""
    return [reduce_index(system, c, q, v, v, t, order=1) for c in system.constraints]


def state_constraints(system: Any, jet: Sequence, t) -> Any:
    """The constraints of a plant at a state (q, v)."""
    q, v = jet
    return jnp.concatenate([jnp.zeros(0), *position_equations(system, q, t), *velocity_equations(system, q, v, t)])


EQUAL = 1e-9  # by how much the two steps of a parabola may differ
DEGREE = 4


class Parabola(PlantTerm):
    """Cost, action and external forces of two steps, times `share`, 1 or 0: windows begin at every node, parabolas at every
    other one."""

    scaling: ClassVar = (1, 0, TIME)

    def __call__(self, z, data, shared):
        h, share, t = data
        problem, n, r = self.plant(shared), self.layout.n, self.layout.r
        system, rows = problem.system, z[: 3 * (n + r)].reshape(3, n + r)
        x, u = rows[:, :n], rows[:, n:]
        weights, times = jnp.array([1.0, 4.0, 1.0]) * (share * h / 3.0), [t, t + h, t + 2.0 * h]

        def action(x):
            return sum(
                w * system.call(system.lagrangian, shared["origin"] + q, v, t=s)
                for w, q, v, s in zip(weights, x, _parabola_slopes(x, h), times, strict=True)
            )

        v = _parabola_slopes(x, h)
        every = list(zip(weights, shared["origin"] + x, v, u, times, strict=True))
        cost = sum(w * system.call(problem.cost, q, v, t=s, u=u) for w, q, v, u, s in every)
        forces = jnp.stack([w * force(system, q, v, s) for w, q, v, _, s in every])
        return cost, (jax.grad(action)(x) + forces).ravel()


def _parabola_slopes(x, h):
    """The slopes of a parabola through three rows, at each of them."""
    first, second = x[1] - x[0], x[2] - x[1]
    return [(3.0 * first - second) / (2.0 * h), (first + second) / (2.0 * h), (3.0 * second - first) / (2.0 * h)]


def parabola_terms(
    problem: OptimalControl, layout: ControlLayout, t: Float[np.ndarray, "nodes"], weights: Float[np.ndarray, "nodes"]
) -> Iterator[tuple[Term, tuple]]:
    """Cost, action and constraints of all steps, with their data; weights: of the nodes; problem: without its parameters."""
    at, h = layout.places, np.diff(t)
    read = [place for offset in range(3) for place in at(offset, "state", "controls")]
    multipliers = [place for offset in (1, 2, 3) for place in at(offset, "adjoints")]
    share = (np.arange(len(h) - 1) % 2 == 0).astype(float)
    yield term_of(Parabola(problem, layout), read, multipliers, 1, len(h) - 1), (h[:-1], share, t[:-2])
    if layout.m:
        own = term_of(EndPosition(problem, layout), at(0, "base", "state"), at(0, "steps"), 2, len(h))
        yield own, (weights[1:], t[1:])


def check_parabolas(problem: OptimalControl, t: Float[np.ndarray, "nodes"], limits: dict[str, Any]) -> None:
    """ValueError where the nodes, the plant or what is bounded are none that parabolas take. limits: by name."""
    h = np.diff(t)
    if len(h) % 2 or np.any(np.abs(h[::2] - h[1::2]) > EQUAL * h[::2]):
        raise ValueError(f"scheme: found Lobatto() together with {len(h)} steps; it needs pairs of steps of equal length")
    if any(c.order > 0 for c in problem.system.constraints):
        raise ValueError(
            "scheme: found Lobatto() for a plant with Nonholonomic constraints; its velocities between nodes have order 2 "
            "only. Leave scheme out, or use coordinates without them"
        )
    for name, given in limits.items():
        if given is not None:
            raise ValueError(f"scheme: found Lobatto() together with {name}; it takes bounds on controls and positions only")


def node_velocities(t: Float[np.ndarray, "nodes"], x: Float[np.ndarray, "nodes n"]) -> Float[np.ndarray, "nodes n"]:
    """Slopes at the nodes of the polynomials through the five nearest ends of parabolas, of order 4: middles have errors of
    their own, which differences would take an order from."""
    ends = slice(None, None, 2) if len(t) >= 2 * DEGREE + 1 else slice(None)
    own, rows = t[ends], x[ends]
    width = min(DEGREE + 1, len(own))
    first = np.clip(np.searchsorted(own, t) - width // 2, 0, len(own) - width)
    near = first[:, None] + np.arange(width)
    unit = (own[near[:, -1]] - own[near[:, 0]])[:, None]
    powers = ((own[near] - t[:, None]) / unit)[:, None, :] ** np.arange(width)[:, None]  # Σ_j w_j s_jᵏ = d(sᵏ)/ds at 0
    wanted = np.broadcast_to(np.eye(width)[1], (len(t), width))
    weights = np.linalg.solve(powers, wanted[..., None])[..., 0] / unit
    return np.einsum("kj,kjn->kn", weights, rows[near])
