"""The steps there are: node equations on or between the nodes, kick-drift-kick, compositions of these, and discrete data of
any order."""

from __future__ import annotations

from typing import Any, final

import equinox as eqx
import jax.numpy as jnp

from dalembert.discretize import DiscreteSystem, Interval, Node, Reading, Scheme
from dalembert.discretize.discrete import discrete_equations
from dalembert.discretize.discrete import node_reactions as discrete_reactions
from dalembert.discretize.nodes import Kick, kick_equations, node_equations, node_reactions
from dalembert.step.programs.base import DerivedProgram, Outputs, StepProgram, Vector, join, velocity_scale
from dalembert.systems import System, deflatable, lyapunov_factor
from dalembert.systems.equations import all_reactions, motion_from

Kinds = tuple[tuple[int, int], ...]  # (order, number of equations) of each constraint


class MechanicalProgram(StepProgram):
    """A step of a System from a state (q, v)."""

    system: System
    scheme: Scheme
    kinds: Kinds = eqx.field(static=True)
    deflate: bool = eqx.field(static=True)

    @property
    def on_groups(self) -> bool:
        return not self.system.space.flat

    def factor(self, z, q, s, t, h):
        if not deflatable(self.system.constraints):
            return None
        return lyapunov_factor(self.system, *self.constraint_point(z, q, s, t, h))

    def overlap(self, z, q, s, t, h):
        """det(J₀J₁ᵀ), J = ∂φ/∂a of constraints on accelerations with Chetaev's reactions, before and after the step.

        With these J stands in the equations twice, and where it passes through zero their determinant does not change its
        sign.
        """
        both = [c for c in self.system.constraints if c.order == 2 and c.chetaev]
        if not both:
            return None
        increment, new = self.advance(z, q, s, t, h)
        rows = lambda x, v, at: jnp.concatenate([c.force_rows(self.system, x, v, (new - s) / h, at) for c in both])  # noqa: E731
        gram = rows(q, s, t) @ rows(q + increment, new, t + h).T
        return gram[0, 0] if gram.shape[0] == 1 else jnp.linalg.det(gram)

    def row_after(self, kinds: Kinds, motions: int, doubled: bool) -> int | None:
        """Row of the one equation of order 2, after the equations of motion; holonomic ones may take two rows each."""
        orders = [order for order, _ in kinds]
        if sum(m for order, m in kinds if order == 2) != 1:
            return None
        before = kinds[: orders.index(2)]
        return motions + sum((2 if order == 0 and doubled else 1) * m for order, m in before)

    def velocity(self, s):
        return s


@final
class NodeProgram(MechanicalProgram):
    """z = (v', λ) with q₂ = q₁ + h v': the node equations, stepped on nodes or between them.

    The state is (q̃, v = (q₁-q₀)/h) with q₁ = q̃ + ahead · h v. ahead: 0 … 1, share of the step from the state to the node.
    two_step: the state is that of two given nodes, ahead = 0; otherwise it starts from (q₀, v₀) itself.
    """

    ahead: float = eqx.field(static=True)
    two_step: bool = eqx.field(static=True)

    @property
    def multiplier_time(self) -> float:
        return self.ahead

    @property
    def levels(self) -> tuple[str, str]:
        if self.two_step:
            return ("mid", "interior")
        return ("node", "mid" if self.ahead == 0.5 else "node")

    @property
    def starting_nodes(self) -> int:
        return 1 if self.two_step else 0

    def node(self, z, q, s, t, h) -> Node:
        n = s.shape[0]
        known = Interval(q, h * s, t - (1.0 - self.ahead) * h, h, 1.0 - self.ahead)
        way, space = self.ahead * h * s, self.system.space
        return Node(space.retract(q, way), h * s, h * z[:n], t + self.ahead * h, h, known, space.point(q, way))

    def residual(self, z, q, s, t, h, held_force):
        node = self.node(z, q, s, t, h)
        return node_equations(self.scheme, self.system, node, z[s.shape[0] :], held_force, self.deflate)

    def guess(self, q, s, t, h):
        return jnp.concatenate([s, jnp.zeros(sum(m for _, m in self.kinds))])

    def initial_guess(self, s, h, a, multipliers):
        """z from the continuous (a, λ) at the start."""
        return join([s + h * a, multipliers])

    def scale(self, z, q, s, h):
        n = s.shape[0]
        return jnp.full_like(z, jnp.inf).at[:n].set(velocity_scale(z[:n], s, q, h))

    def advance(self, z, q, s, t, h):
        new = z[: s.shape[0]]
        return self.system.space.walk(q, (self.ahead * h) * s, ((1.0 - self.ahead) * h) * new), new

    def output_state(self, z, q, s, h):
        v, space = z[: s.shape[0]], self.system.space
        if not space.flat:
            return q + self.advance(z, q, s, 0.0, h)[0], v
        return q + h * (self.ahead * s + (0.5 if self.two_step else 1.0 - self.ahead) * v), v

    def outputs(self, z, q, s, t, h, held_force):
        multipliers = z[s.shape[0] :]
        rows = node_reactions(self.scheme, self.system, self.node(z, q, s, t, h))
        return Outputs(multipliers, rows.T @ multipliers)

    def constraint_point(self, z, q, s, t, h):
        node = self.node(z, q, s, t, h)
        x, v, _ = self.scheme.kinematic(node.q, node.d0, node.d1, h)
        return x, v, node.t

    def constrained_row(self, n):
        return self.row_after(self.kinds, n, doubled=False)


@final
class KickDriftKick(MechanicalProgram):
    """z = (V, v₁, λ⁻ and λ⁺ of holonomic, λ of other constraints): the state (q, v) satisfies the constraints."""

    @property
    def multiplier_time(self) -> float:
        return 0.5

    @property
    def levels(self) -> tuple[str, str]:
        return ("node", "mid")

    def unpack(self, z, n: int) -> Kick:
        left, right, at = [jnp.zeros(0)], [jnp.zeros(0)], 2 * n
        for order, m in self.kinds:
            left.append(z[at : at + m])
            at += m if order == 0 else 0
            right.append(z[at : at + m])
            at += m
        return Kick(z[:n], z[n : 2 * n], jnp.concatenate(left), jnp.concatenate(right))

    def residual(self, z, q, s, t, h, held_force):
        kick = self.unpack(z, s.shape[0])
        return kick_equations(self.scheme, self.system, q, s, t, h, kick=kick, held_force=held_force, deflate=self.deflate)

    def guess(self, q, s, t, h):
        return jnp.concatenate([s, s, jnp.zeros(sum((2 if order == 0 else 1) * m for order, m in self.kinds))])

    def initial_guess(self, s, h, a, multipliers):
        """z from the continuous (a, λ) at the start."""
        parts, at = [s + 0.5 * h * a, s + h * a], 0
        for order, m in self.kinds:
            parts += [multipliers[at : at + m]] * (2 if order == 0 else 1)
            at += m
        return join(parts)

    def scale(self, z, q, s, h):
        n = s.shape[0]
        return jnp.full_like(z, jnp.inf).at[: 2 * n].set(velocity_scale(z[: 2 * n], s, q, h))

    def advance(self, z, q, s, t, h):
        n = s.shape[0]
        return self.system.space.cross_interval(q, h * z[:n]), z[n : 2 * n]

    def output_state(self, z, q, s, h):
        n = s.shape[0]
        return q + self.system.space.cross_interval(q, h * z[:n]), z[n : 2 * n]

    def outputs(self, z, q, s, t, h, held_force):
        kick = self.unpack(z, s.shape[0])
        multipliers = 0.5 * (kick.left + kick.right)
        middle, a = self.system.space.retract(q, 0.5 * h * kick.mean), (kick.v - s) / h
        rows = all_reactions(self.system, middle, kick.mean, a, t + 0.5 * h)
        return Outputs(multipliers, rows.T @ multipliers)

    def constraint_point(self, z, q, s, t, h):
        mean = z[: s.shape[0]]
        return self.system.space.retract(q, 0.5 * h * mean), mean, t + 0.5 * h

    def constrained_row(self, n):
        return self.row_after(self.kinds, 2 * n, doubled=True)


@final
class Composed(DerivedProgram):
    """φ_{γ_s h} ∘ … ∘ φ_{γ₁ h} of a self-adjoint step φ; multipliers are λ(q, v) of the continuous equations after the step.

    Source of the multipliers: Jiménez, Scheurle, Remark 4.3, eq. (23), here for constraints of every order. The equations
    of (a, λ) are affine but where φ(q, v, a) or R(q, v, a) is not, and solved from the last stage's mean a and its λ.
    """

    base: NodeProgram | KickDriftKick
    gammas: tuple[float, ...] = eqx.field(static=True)

    @property
    def weights(self) -> tuple[float, ...]:
        return self.gammas

    @property
    def multiplier_time(self) -> float:
        return 1.0

    @property
    def levels(self) -> tuple[str, str]:
        return ("node", "node")

    def initial_guess(self, s, h, a, multipliers):
        """z of the first stage from the continuous (a, λ) at the start."""
        kind: Any = type(self.base)  # of a bound method equinox makes a module, which takes long
        return kind.initial_guess(self.base, s, self.weights[0] * h, a, multipliers)

    def outputs(self, z, q, s, t, h, held_force):
        if not self.system.constraints:
            return self.base.outputs(z, q, s, t, h, held_force)
        increment, v = self.base.advance(z, q, s, t, h)
        x, n = q + increment, s.shape[0]
        start = jnp.concatenate([(v - s) / h, self.base.outputs(z, q, s, t, h, held_force).multipliers])
        start = motion_from(self.system, x, v, t + h, start, held_force)
        rows = all_reactions(self.system, x, v, start[:n], t + h)
        return Outputs(start[n:], rows.T @ start[n:])


@final
class DiscreteProgram(StepProgram):
    """z = (v', λ), q₂ = q₁ + h v', from discrete data; s stacks the last differences over h, the latest first.

    read: which nodes the equations of a step read; λ belongs to the node whose equation is solved.
    """

    system: DiscreteSystem
    m: int = eqx.field(static=True)
    read: Reading = eqx.field(static=True)

    @property
    def multiplier_time(self) -> float:
        return -float(self.read.delay)

    @property
    def levels(self) -> tuple[str, str]:
        return ("mid", "interior")

    @property
    def starting_nodes(self) -> int:
        return self.read.needed - 1

    def nodes(self, z, q, s, h) -> list[Vector]:
        n = q.shape[0]
        out = [q + h * z[:n], q]
        for i in range(self.read.needed - 1):
            out.append(out[-1] - h * s[i * n : (i + 1) * n])
        return out[::-1]

    def residual(self, z, q, s, t, h, held_force):
        n = q.shape[0]
        equations = discrete_equations(self.system, self.read, self.nodes(z, q, s, h), z[n:], t, h)
        return equations.at[:n].add(h * held_force)

    def guess(self, q, s, t, h):
        """The last difference; where reactions read the newest node, a parabola and λ of least squares, not 0."""
        n = q.shape[0]
        if not self.read.delay:
            return jnp.concatenate([s[:n], jnp.zeros(self.m)])
        z = jnp.concatenate([2.0 * s[:n] - s[n : 2 * n], jnp.zeros(self.m)])
        rows, left = self.reactions(z, q, s, t, h), self.residual(z, q, s, t, h, jnp.zeros_like(q))[:n]
        return z.at[n:].set(-jnp.linalg.solve(rows @ rows.T, rows @ left) / h)

    def reactions(self, z, q, s, t, h):
        begin = t - (self.read.delay + self.system.factor - 1) * h
        return discrete_reactions(self.system, self.read.stencil(self.system, self.nodes(z, q, s, h))[1], begin)

    def scale(self, z, q, s, h):
        n = q.shape[0]
        return jnp.full_like(z, jnp.inf).at[:n].set(velocity_scale(z[:n], s, q, h))

    def advance(self, z, q, s, t, h):
        n = q.shape[0]
        return h * z[:n], jnp.concatenate([z[:n], s[:-n]])

    def output_state(self, z, q, s, h):
        v = z[: q.shape[0]]
        return q + 0.5 * h * v, v

    def outputs(self, z, q, s, t, h, held_force):
        return Outputs(z[q.shape[0] :], self.reactions(z, q, s, t, h).T @ z[q.shape[0] :])

    def constraint_point(self, z, q, s, t, h):
        n = q.shape[0]
        return q, 0.5 * (s[:n] + z[:n]), t

    def constrained_row(self, n):
        return n if self.m == 1 else None

    def velocity(self, s):
        return s[: s.shape[0] // (self.read.needed - 1)]
