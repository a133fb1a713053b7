"""The discrete Lagrange-d'Alembert equations of a System, written once: at a node, and for one kick-drift-kick step.

`step` solves them, `measure` reads momenta and forces of them, and in `control` they are the constraints of a minimum.
Variational boundary problems share nothing of this module: their equations come from `windows`, as those of a variational
flow do in `higher`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from dalembert.discretize.scheme import Beta, PairMap, Scheme, check_map
from dalembert.groups import FLAT, Space
from dalembert.notebook import described_by_fields
from dalembert.numbers import as_point, check_class
from dalembert.path import Path, check_path
from dalembert.systems import System, momentum
from dalembert.systems.equations import all_reactions, force, reduce_index

Vector = Float[Array, "n"]


class Interval(NamedTuple):
    """Two points in increments: q = q0 + share · d, d = q1 - q0, with t the time of q0 and h the step.

    share, a number: where on the way q lies. What is read at a point that is known already is then not computed from others.
    """

    q: Vector
    d: Vector
    t: Float[Array, ""]
    h: Float[Array, ""]
    share: float = 0.0

    def at(self, rho: PairMap, space: Space = FLAT) -> tuple[Vector, Vector, Float[Array, ""]]:
        """ρ(q0, q1) and its time."""
        time = self.t + rho.weight * self.h
        if not isinstance(rho, Beta):
            return *rho(self.q - self.share * self.d, self.d, self.h), time
        away = rho.weight - self.share
        q = space.show((self.q,))[0] if away == 0.0 else space.point(self.q, away * self.d)
        return q, self.d / self.h, time


class Node(NamedTuple):
    """Three points in increments: q1, d0 = q1 - q0, d1 = q2 - q1, with t the time of q1 and h the step.

    known: a point of the first interval that is the state of the step, if there is one. shown: q1 as the functions of a user
    take it, if it is there.
    """

    q: Vector
    d0: Vector
    d1: Vector
    t: Float[Array, ""]
    h: Float[Array, ""]
    known: Interval | None = None
    shown: Any = None

    @property
    def before(self) -> Interval:
        return self.known or Interval(self.q, self.d0, self.t - self.h, self.h, 1.0)

    @property
    def after(self) -> Interval:
        return Interval(self.q if self.shown is None else self.shown, self.d1, self.t, self.h)


def _lagrangian_slopes(scheme: Scheme, system: System, interval: Interval) -> list[tuple[PairMap, Vector, Vector]]:
    """ρ, ∂/∂q0 and ∂/∂q1 of h L∘ρ, for every map of the action."""
    out = []
    for rho in scheme.action_for(system):
        if isinstance(rho, Beta):
            q, d, t, h, share = interval
            way = None if rho.weight == share else (rho.weight - share) * d
            action = lambda x, w, t=t + rho.weight * h: system.call(system.lagrangian, x, w, t=t)  # noqa: E731
            out.append((rho, *system.space.action_ends(rho.weight, h, q, way, d / h, action)))
            continue

        def action_of_map(x: Vector, d: Vector, rho: PairMap = rho) -> Float[Array, ""]:
            q, v, t = Interval(x, d, interval.t, interval.h).at(rho)
            return interval.h * system.call(system.lagrangian, q, v, t=t)

        left, right = jax.grad(action_of_map, (0, 1))(interval.q - interval.share * interval.d, interval.d)
        out.append((rho, left - right, right))
    return out


def _mean(parts: list[Vector]) -> Vector:
    return jnp.mean(jnp.stack(parts), axis=0) if len(parts) > 1 else parts[0]


def legendre_minus(scheme: Scheme, system: System, interval: Interval) -> Vector:
    """D₁L_d(q₀, q₁) of L_d = h L∘ρ, the mean over the maps ρ of the action: the momentum at the left end is minus this."""
    return _mean([left for _, left, _ in _lagrangian_slopes(scheme, system, interval)])


def legendre_plus(scheme: Scheme, system: System, interval: Interval) -> Vector:
    """D₂L_d(q₀, q₁): the momentum at the right end."""
    return _mean([right for _, _, right in _lagrangian_slopes(scheme, system, interval)])


def discrete_force(scheme: Scheme, system: System, interval: Interval, end: int) -> Vector:
    """Half of the force impulse of an interval, at its left (end = 0) or right (end = -1) end: (h/2) f(ρ(q₀, q₁))."""
    q, v, t = interval.at(scheme.action_for(system)[end], system.space)
    return system.space.impulse(interval.h, v, force(system, q, v, t), end)


def outgoing(scheme: Scheme, system: System, interval: Interval) -> Vector:
    """D₁L_d(q₀, q₁) + f_d⁻(q₀, q₁): the forced discrete Legendre map at the left end is minus this."""
    return legendre_minus(scheme, system, interval) + discrete_force(scheme, system, interval, 0)


def incoming(scheme: Scheme, system: System, interval: Interval) -> Vector:
    """D₂L_d(q₀, q₁) + f_d⁺(q₀, q₁): the forced discrete Legendre map at the right end."""
    return legendre_plus(scheme, system, interval) + discrete_force(scheme, system, interval, -1)


def forced_ends(scheme: Scheme, system: System, interval: Interval) -> tuple[Vector, Vector]:
    """`outgoing` and `incoming`, with one gradient of L_d."""
    slopes = _lagrangian_slopes(scheme, system, interval)
    first, last = (discrete_force(scheme, system, interval, end) for end in (0, -1))
    return _mean([left for _, left, _ in slopes]) + first, _mean([right for _, _, right in slopes]) + last


_POINTS, _WEIGHTS = (0.5 * x for x in np.polynomial.legendre.leggauss(5))  # of means over [-½, ½]


class ChordMeans(NamedTuple):
    """The straight way from a state (q₀, v₀) to the next, q₁ - q₀ = h v̄, v̄ = ½(v₀+v₁), and means along it by Gauss's rule.

    L = ½vᵀm(q, t)v + A(q, t)·v + L₀(q, t). The equations read A in i_v dA - ∂A/∂t + ∂L₀/∂q alone, which is zero for the
    terms A = ∂S/∂q and L₀ = ∂S/∂t of dS(q, t)/dt.
    Source: the mean of the gradient of Harten, Lax, van Leer (McLachlan, Quispel, Robidoux, Geometric integration using
    discrete gradients, Phil. Trans. R. Soc. A 357 (1999)), with terms of our own for m(q) and for the reactions.
    """

    system: System
    node: Node

    @property
    def ends(self) -> tuple[tuple[Vector, Vector, Float[Array, ""]], ...]:
        """(q, v, t) of both states."""
        q, d0, d1, t, h, *_ = self.node
        return (q - 0.5 * d0, d0 / h, t - 0.5 * h), (q + 0.5 * d1, d1 / h, t + 0.5 * h)

    def mean(self, function: Callable) -> Array:
        """The mean of function(q, t) along the chord."""
        q, d0, d1, t, h, *_ = self.node
        middle, way = q + 0.25 * (d1 - d0), 0.5 * (d0 + d1)
        values = jax.vmap(lambda x: function(middle + x * way, t + x * h))(jnp.asarray(_POINTS))
        return jnp.tensordot(_WEIGHTS, values, 1)

    def balance(self) -> Vector:
        """m₀v₀ - m₁v₁ + h mean(∂/∂q (½v₀ᵀm v₁ + A·v̄ + L₀) - dA/dt + f(q, v̄)); E changes by the work of f and reactions."""
        system, h, (before, after) = self.system, self.node.h, self.ends
        rest, mean, half = jnp.zeros_like(before[1]), 0.5 * (before[1] + after[1]), 0.5 * (after[1] - before[1])
        lagrangian = lambda q, v, t: system.call(system.lagrangian, q, v, t=t)  # noqa: E731
        linear = lambda q, t: jax.grad(lagrangian, 1)(q, rest, t)  # noqa: E731
        inertial = lambda q, v, t: jax.jvp(lambda w: jax.grad(lagrangian, 1)(q, w, t), (rest,), (v,))[1]  # noqa: E731

        def push(q: Vector, t) -> Vector:
            """v₀ᵀm v₁ = v̄ᵀm v̄ - ¼(v₁-v₀)ᵀm(v₁-v₀)."""
            slope = jax.grad(lambda x: lagrangian(x, mean, t) - 0.5 * half @ inertial(x, half, t))(q)
            return slope - jax.jvp(linear, (q, t), (mean, jnp.ones_like(t)))[1] + force(system, q, mean, t)

        return inertial(*before) - inertial(*after) + h * self.mean(push)

    def reactions(self) -> Float[Array, "m n"]:
        """½(R₀+R₁) + ¼h mean(∂/∂q (R(v₁-v₀))), which maps v̄ to ½(R₀v₀+R₁v₁): zero, and so no work, where Rv = 0 is the
        constraint."""
        before, after = self.ends
        mean, change = 0.5 * (before[1] + after[1]), after[1] - before[1]
        rows = lambda q, v, t: all_reactions(self.system, q, v, change / self.node.h, t)  # noqa: E731
        turn = self.mean(lambda q, t: jax.jacfwd(lambda x: rows(x, mean, t) @ change)(q))
        return 0.5 * (rows(*before) + rows(*after)) + 0.25 * self.node.h * turn


def node_reactions(scheme: Scheme, system: System, node: Node) -> Float[Array, "m n"]:
    """R_d(q₀,q₁,q₂) = R at the variational map, or the mean along the chord."""
    if scheme.form == "discrete_gradient":
        return ChordMeans(system, node).reactions()
    q, v, a = scheme.variational(node.q, node.d0, node.d1, node.h)
    return all_reactions(system, q, v, a, node.t)


def node_equations(
    scheme: Scheme, system: System, node: Node, multipliers: Float[Array, "m"], held_force: Vector, deflate: bool
) -> Float[Array, "n_plus_m"]:
    """D₁L_d(q₁,q₂) + D₂L_d(q₀,q₁) + h(f + R_dᵀλ) = 0 and (q₀,q₁,q₂) ∈ D_K.

    held_force: (n,) a further generalised force, constant over the step. deflate: write a constraint with a law as λ = law.
    Source: Borda, Fernández, Grillo, Theorem 3.3, eq. (4), with multipliers scaled to converge to the continuous ones.
    """
    if scheme.form == "discrete_gradient":
        free = ChordMeans(system, node).balance()
    else:
        free = outgoing(scheme, system, node.after) + incoming(scheme, system, node.before)
    motion = free + node.h * (held_force + node_reactions(scheme, system, node).T @ multipliers)
    return jnp.concatenate([motion, kinematic_equations(scheme, system, node, multipliers, deflate)])


def kinematic_equations(
    scheme: Scheme, system: System, node: Node, multipliers: Float[Array, "m"], deflate: bool
) -> Float[Array, "m"]:
    """D_K at a node: order 2 by the kinematic map, order 1 on (q₁, q₂) (Remark 3.4), order 0 at q₂."""
    q, d0, d1, t, h, *_ = node
    rows, at = [jnp.zeros(0)], 0
    for c in system.constraints:
        if c.order == 2:
            x, v, a = scheme.kinematic(q, d0, d1, h)
            rows.append(_second_order(system, c, (x, v, a), t, multipliers[at : at + 1], deflate))
        elif c.order == 1:
            x, v = _point_of(scheme.distribution, system.space, q, d1, h)
            rows.append(c.residual(system, x, v, v, t + scheme.distribution.weight * h))
        else:
            rows.append(c.residual(system, q + system.space.cross_interval(q, d1), d1, d1, t + h))
        at += rows[-1].shape[0]
    return jnp.concatenate(rows)


def _point_of(rho: PairMap, space: Space, q: Vector, d: Vector, h) -> tuple[Vector, Vector]:
    """ρ of an interval that begins at q."""
    return rho(q, d, h) if space.flat else (space.retract(q, rho.weight * d), d / h)


def _second_order(system: System, c, point, t, multiplier, deflate: bool) -> Float[Array, "rows"]:
    q, v, a = point
    law = c.law(system) if deflate else None
    return c.residual(system, q, v, a, t) if law is None else multiplier - law(q, v, t)


class Kick(NamedTuple):
    """Unknowns of a kick-drift-kick step: V = (q₁-q₀)/h, v₁, and multipliers at the left and the right end.

    Multipliers of holonomic constraints differ at the two ends; those of the others are equal.
    """

    mean: Vector
    v: Vector
    left: Float[Array, "m"]
    right: Float[Array, "m"]


def kick_equations(
    scheme: Scheme, system: System, q0: Vector, v0: Vector, t, h, *, kick: Kick, held_force: Vector, deflate: bool
) -> Float[Array, "equations"]:
    """The conjugate form, for holonomic constraints φ with others C (RATTLE where there are no others):

        L_v(q₀,v₀) + D₁L_d(q₀,q₁) + (h/2)(f₀ + R₀ᵀλ⁻) = 0,   L_v(q₁,v₁) = D₂L_d(q₀,q₁) + (h/2)(f₁ + R₁ᵀλ⁺),
        φ(q₁) = 0,  φ_q(q₁)v₁ = 0,   C(q₁, v₁) = 0 (order 1),   C(½(q₀+q₁), V, (v₁-v₀)/h) = 0 (order 2).

    Self-adjoint on consistent data. Reactions of order 2 constraints are taken at the middle for both kicks.
    """
    mean, v1, left, right = kick
    d, space = h * mean, system.space
    q1, middle, a = q0 + space.cross_interval(q0, d), space.retract(q0, 0.5 * d), (v1 - v0) / h
    forces0, forces1, rows, at = [], [], [jnp.zeros(0)], 0
    for c in system.constraints:
        if c.order == 2:
            forces0.append(c.force_rows(system, middle, mean, a, t + 0.5 * h))
            forces1.append(forces0[-1])
            multiplier = right[at : at + 1]
            rows.append(_second_order(system, c, (middle, mean, a), t + 0.5 * h, multiplier, deflate))
        else:
            forces0.append(c.force_rows(system, q0, v0, a, t))
            forces1.append(c.force_rows(system, q1, v1, a, t + h))
            rows.append(c.residual(system, q1, v1, a, t + h))
        if c.order == 0:
            rows.append(reduce_index(system, c, q1, v1, v1, t + h, order=1))
        at += forces0[-1].shape[0]
    none = jnp.zeros((0, v0.shape[0]))
    r0, r1 = jnp.concatenate([none, *forces0]), jnp.concatenate([none, *forces1])
    interval = Interval(q0, d, t, h)
    start = (
        momentum(system, q0, v0, t)
        + legendre_minus(scheme, system, interval)
        + 0.5 * h * (force(system, q0, v0, t) + held_force + r0.T @ left)
    )
    end = (
        legendre_plus(scheme, system, interval)
        + 0.5 * h * (force(system, q1, v1, t + h) + held_force + r1.T @ right)
        - momentum(system, q1, v1, t + h)
    )
    return jnp.concatenate([start, end, *rows])


@described_by_fields
class Redefined(NamedTuple):
    """Positions and velocities at the points that a difference map assigns to pairs of nodes.

    (q̃_k, v_k) = ρ(q_{k-1}, q_k): points of TQ at their times.

    Attributes:
        t: (K,) times.
        q: (K, n) q̃.
        v: (K, n).
    """

    t: Float[Array, "K"]
    q: Float[Array, "K n"]
    v: Float[Array, "K n"]


def redefined(path: Path, rho: PairMap, *, first: tuple | None = None, last: tuple | None = None) -> Redefined:
    """Compute positions and velocities from the nodes of a path.

    (q̃_k, v_k) = ρ(q_{k-1}, q_k), k = 1 … N, from a path of nodes (form "nodes", or a DiscreteSystem).

    N + 1 nodes give N points. At the points of its own distribution map a scheme satisfies D exactly; at the original
    nodes it does not.

    Args:
        path: a Path whose states are nodes, all of them saved.
        rho: ρ, a PairMap such as Beta(0.5).
        first: (q, v), an additional point in front, at the path's first time; a natural choice for q is the first node.
        last: (q, v), an additional point at the end, at the path's last time.

    Returns:
        A Redefined.

    Raises:
        ValueError: the states of the path are not nodes, or some were not saved.
        TypeError: an argument is of the wrong type.

    Source: Jiménez, Scheurle, Definition 5.6, Proposition 5.3, Remarks 5.7, 5.8.

    Example:
        >>> nodes = da.simulate(pendulum, [1.0], [0.0], h=0.1, steps=10, scheme=da.Scheme("nodes"))
        >>> da.discretize.redefined(nodes, da.Beta(0.5)).q.shape
        (10, 1)
    """
    check_path(path)
    check_class(rho, PairMap, "rho", "a PairMap, such as Beta(0.5)")
    if type(rho) is not Beta:
        check_map(rho, "rho", path.q.shape[-1])
    ends = [_point(path, end, name, given) for end, name, given in ((0, "first", first), (-1, "last", last))]
    if path.levels[0] != "mid":
        raise ValueError("path: its states are points (q, v) already; nodes come from the form 'nodes' or a DiscreteSystem")
    if not isinstance(path.t, Tracer) and np.any(np.abs(np.diff(path.t) - path.h) > 1e-6 * np.abs(path.h)):
        raise ValueError("path: neighbouring nodes are needed, and some were left out; simulate with save=Save(every=1)")
    d = jnp.diff(path.q, axis=0)
    q, v = jax.vmap(lambda x, y: rho(x, y, path.h))(path.q[:-1], d)
    inner = Redefined(jnp.asarray(path.t[:-1] + rho.weight * path.h), q, v)
    parts = [part for part in (ends[0], inner, ends[1]) if part is not None]
    return Redefined(*(jnp.concatenate(column) for column in zip(*parts, strict=True)))


def _point(path: Path, end: int, name: str, given: tuple | None) -> Redefined | None:
    """A point (q, v) put before or behind the others, at the first or the last time of the path."""
    if given is None:
        return None
    q, v = as_point(given, name, path.q.shape[-1])
    return Redefined(path.t[end][None], q[None], v[None])
