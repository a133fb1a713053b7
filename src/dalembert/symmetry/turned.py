"""Discrete Routh reduction by planar rotations and translations: the quotient of the scheme that steps q itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert.algebra.least_norm import inverse
from dalembert.discretize import Beta, DiscreteSystem, Scheme
from dalembert.discretize.nodes import Interval, incoming, outgoing
from dalembert.measure.nodes import check_neighbours, check_single, own_scheme
from dalembert.notebook import Described
from dalembert.numbers import as_positive, as_vector
from dalembert.path import Path, check_path
from dalembert.step import simulate
from dalembert.symmetry.chaplygin_equations import with_own
from dalembert.symmetry.flows import GroupChart
from dalembert.symmetry.reduced import FullMotion, Reduced
from dalembert.systems import System
from dalembert.systems.equations import all_reactions, value
from dalembert.systems.pickling import made
from dalembert.tracing import seldom

TURNS = 7  # of Newton's method for the turn of a step, which begins at 0
SAME = 1e-6  # of the largest momentum: by how much nodes of another scheme miss the equations at least
NEAR = 1e-10  # a last correction below leaves rounding


class Turn(NamedTuple):
    """What a step of the full scheme is between q̂(r₀) and e^{φξ}q̂(r₁)."""

    chart: GroupChart
    scheme: Scheme
    h: float

    def interval(self, r0, phi, r1) -> Interval:
        """Of the full system."""
        q0 = self.chart.section(r0)
        return Interval(q0, self.chart.moved(phi, self.chart.section(r1)) - q0, jnp.zeros(()), jnp.asarray(self.h))

    def momentum(self, system: System, r0, phi, r1) -> Any:
        """-(D₁L_d + f_d⁻)·ξ, (k,), which is (D₂L_d + f_d⁺)·ξ at the other end."""
        interval = self.interval(r0, phi, r1)
        return -outgoing(self.scheme, system, interval) @ self.chart.along(interval.q)

    def impulses(self, system: System, r0, phi, r1) -> tuple[Any, Any]:
        """D₁L_d + f_d⁻ along the slice, D₂L_d + f_d⁺ along the turned one."""
        interval, at = self.interval(r0, phi, r1), np.array(self.chart.shape)
        ahead = jax.vjp(lambda q: self.chart.moved(phi, q), self.chart.section(r1))[1]
        return outgoing(self.scheme, system, interval)[at], ahead(incoming(self.scheme, system, interval))[0][at]

    def solved(self, system: System, r0, r1, momentum) -> Any:
        """φ (k,) with this momentum, NaN where Newton's method does not find it. Its derivative is that of the last step."""
        known = jax.lax.stop_gradient((r0, r1))

        def missed(phi, ends):
            return self.momentum(system, ends[0], phi, ends[1]) - momentum

        def corrected(phi):
            slope, miss = jax.jacfwd(lambda x: (missed(x, known),) * 2, has_aux=True)(phi)
            return phi - inverse(slope) @ miss, slope

        start = jnp.zeros(len(self.chart.flows)), jnp.eye(len(self.chart.flows))
        phi, slope = jax.lax.stop_gradient(jax.lax.fori_loop(0, TURNS, lambda _, x: corrected(x[0]), start))
        last = inverse(slope) @ missed(phi, (r0, r1))
        return jnp.where(jnp.all(jnp.abs(last) <= NEAR * (1.0 + jnp.abs(phi))), phi - last, jnp.nan)


@dataclasses.dataclass(frozen=True, eq=False)
class TurnedReduction(Described):
    """q = e^{gξ} q̂(r): a system in the shape r alone, whose group coordinates g follow from their momenta.

    Attributes:
        system: the reduced System, a Routhian: simulate it from (x0, w0) with any scheme.
        x0: (d,) the initial shape.
        w0: (d,) the initial ṙ.
        original: the System that was reduced.
        momentum: (k,) p·ξ at the start, the constants μ of the Routhian.
        shifted: the same reduction in the coordinates (r, g), in which the group shifts g.
        chart: the map (r, g) ↦ q.
        start: (q0, v0) of the reduction.
    """

    system: System
    x0: Float[np.ndarray, "d"]
    w0: Float[np.ndarray, "d"]
    original: System
    momentum: Float[np.ndarray, "k"]
    shifted: Reduced
    chart: GroupChart
    start: tuple[np.ndarray, np.ndarray]

    def discrete(self, h: float, scheme: Scheme | None = None) -> DiscreteSystem:
        """D₁R_d(r_k,r_{k+1}) + D₂R_d(r_{k-1},r_k) = 0, R_d = L_d(q̂(r₀), e^{φξ}q̂(r₁)) - μ·φ with ∂L_d/∂φ = μ.

        The quotient of the full scheme: its nodes are, to rounding, the shapes of the nodes of the full run. φ, the
        group displacement within a step, is solved for inside the step; μ is the discrete momentum of the first two
        nodes, with the impulses of forces. If φ cannot be found, for example because a step turns by more than a
        quarter turn, the step ends with the outcome NOT_FINITE.

        Args:
            h: time step.
            scheme: the scheme of the full run; that of `simulate` by default.

        Returns:
            A DiscreteSystem in r, whose first nodes are `nodes`.

        Raises:
            ValueError: the system depends on time; the scheme is composed, or has a map other than Beta in its action;
                or there are both forces and holonomic constraints.
        """
        step, chosen = float(as_positive(h, "h")), self._maps(scheme)
        return self._quotient(step, chosen, self._momentum(step, chosen))

    def nodes(self, h: float, scheme: Scheme | None = None) -> Float[np.ndarray, "2 d"]:
        """The shapes of the first two nodes of a full run from the same data.

        Args:
            h: time step.
            scheme: as for `discrete`.

        Returns:
            (2, d), for simulate(…, nodes=).

        Raises:
            ValueError: as `discrete`.
        """
        step, chosen = float(as_positive(h, "h")), self._maps(scheme)
        return np.stack([self.chart.coordinates(q)[: len(self.x0)] for q in self._first(step, chosen)])

    def reconstruct(self, path: Path, *, scheme: Scheme | None = None, q0=None) -> FullMotion:
        """q_k = e^{g_kξ} q̂(r_k), g_{k+1} = g_k + φ_k: the motion of all coordinates.

        For a path of `discrete` it is the motion of the full run, to rounding. For a path of `system`, which is
        discretized in other coordinates, it agrees with the full run up to the order of the scheme.

        Args:
            path: a path of `system` or of `discrete`, with every state saved.
            scheme: as it was given to simulate or to `discrete`.
            q0: (n,) initial positions of the full motion, at the first time of the path; by default those of the
                reduction.

        Returns:
            A FullMotion, with velocities at the times of the path's velocities.

        Raises:
            ValueError: states were left out, the path has other coordinates, or it is a run of `system` in the form
                "nodes".
            TypeError: path is not a Path.
        """
        check_path(path)
        check_single(path)
        check_neighbours(path)
        begin = None if q0 is None else np.asarray(as_vector(q0, "q0", len(self.start[0])))
        if path.levels[0] == "mid":
            return self._followed(path, self._maps(scheme), begin)
        at = None if begin is None else self.chart.coordinates(begin)
        inner = self.shifted.reconstruct(path, scheme=scheme, q0=at)
        q, v = map(np.asarray, _lifted(self.chart, inner.q, inner.v))
        return FullMotion(inner.t, q, inner.t_velocity, v)

    def describe(self) -> str:
        """The coordinates before and after the reduction."""
        names = self.original.coordinates or tuple(f"q{i}" for i in range(len(self.start[0])))
        return (
            f"Routh: {len(names)} coordinates ({', '.join(names)}) to {len(self.x0)} "
            f"({', '.join(self.system.coordinates or ())}), momenta {', '.join(f'{x:.6g}' for x in self.momentum)}"
        )

    def _maps(self, scheme: Scheme | None) -> Scheme:
        """A scheme whose nodes have a quotient."""
        chosen, system = Scheme() if scheme is None else own_scheme(scheme), self.original
        if chosen.order > 2 or not all(isinstance(rho, Beta) for rho in chosen.action_for(system)):
            raise ValueError("scheme: the quotient is one of nodes; give a scheme of order 2 with Beta maps in its action")
        if system.time_dependent:
            raise ValueError("scheme: the discrete quotient is for systems without time; simulate `system`")
        if system.forces is not None and chosen.form_for(system.constraints) == "kick_drift_kick":
            raise ValueError(
                "scheme: kick_drift_kick reads forces at velocities of nodes, which the quotient does not have; take "
                "another form, or simulate `system`"
            )
        return chosen

    def _first(self, h: float, scheme: Scheme) -> tuple[np.ndarray, np.ndarray]:
        """The first two nodes of a full run."""
        q, v = self.start
        if scheme.form_for(self.original.constraints) == "drift_kick_drift":
            beta = scheme.state.weight
            return q - beta * h * v, q + (1.0 - beta) * h * v
        first, second = simulate(self.original, q, v, h=h, steps=1, scheme=scheme).q[:2]
        return np.asarray(first), np.asarray(second)

    def _momentum(self, h: float, scheme: Scheme) -> tuple[float, ...]:
        """μ of the first two nodes."""
        (r0, g0), (r1, g1) = (np.split(self.chart.coordinates(q), [len(self.x0)]) for q in self._first(h, scheme))
        return tuple(np.asarray(_found(self.original, Turn(self.chart, scheme, h), r0, g1 - g0, r1)).tolist())

    def _quotient(self, h: float, scheme: Scheme, momentum: tuple[float, ...]) -> DiscreteSystem:
        held = bool(self.system.constraints)
        return DiscreteSystem(
            _nothing, _at_last(self.system) if held else None, reactions=_at_middle(self.system) if held else None,
            initial=_at_both(self.system) if held else None, coordinates=self.system.coordinates,
            forces=_impulses(self.original, Turn(self.chart, scheme, h), momentum), parameters=self.system.parameters,
        )  # fmt: skip

    def _followed(self, path: Path, scheme: Scheme, q0: np.ndarray | None) -> FullMotion:
        """Of nodes."""
        h, (r, lambdas) = float(path.h), (np.asarray(path.q), np.asarray(path.multipliers))
        turn, momentum = Turn(self.chart, scheme, h), self._momentum(h, scheme)
        phi, left, right, rows = map(np.asarray, _along(self.original, self.system, turn, momentum, r))
        misses = left[1:] + right[:-1] + h * np.einsum("kmd,km->kd", rows, lambdas)
        if not np.max(np.abs(misses), initial=0.0) <= SAME * np.max(np.abs(left), initial=0.0):
            raise ValueError(
                "path: its nodes do not satisfy the equations of discrete(h, scheme) of its own h and this scheme; give a "
                "path of these, and the scheme that they were made with"
            )
        first = self._first(h, scheme)[0] if q0 is None else q0
        g = self.chart.coordinates(first)[len(self.x0) :]
        turned = g + np.concatenate([np.zeros((1, len(g))), np.cumsum(phi, axis=0)])
        q, v = map(np.asarray, _turned(self.chart, r, phi, turned, h))
        return FullMotion(np.asarray(path.t), q, np.asarray(path.t_velocity), v)


def _nothing(r0, r1, *_):
    """The Lagrangian of a quotient: D₁R_d and D₂R_d are given as impulses, in which φ is differentiated once only."""
    return jnp.zeros(())


@made
def _impulses(original: System, turn: Turn, momentum: tuple[float, ...]) -> Callable:
    def impulses(r0, r1, *p):
        own, _ = with_own(original, p)
        phi = turn.solved(own, r0, r1, jnp.array(momentum))
        return turn.impulses(own, r0, phi, r1)

    return impulses


def _holonomic(system: System, r):
    return jnp.concatenate([value(system, c, r, r, r, 0.0) for c in system.constraints])


@made
def _at_last(reduced: System) -> Callable:
    return lambda r0, r1, r2, *p: _holonomic(with_own(reduced, p)[0], r2)


@made
def _at_both(reduced: System) -> Callable:
    return lambda r0, r1, *p: jnp.concatenate([_holonomic(with_own(reduced, p)[0], r) for r in (r0, r1)])


@made
def _at_middle(reduced: System) -> Callable:
    return lambda r0, r1, r2, *p: all_reactions(with_own(reduced, p)[0], r1, r1, r1, 0.0)


@seldom
def _found(system: System, turn: Turn, r0, phi, r1):
    return turn.momentum(system, r0, phi, r1)


@seldom
def _along(original: System, reduced: System, turn: Turn, momentum, r):
    """(φ, both parts of each step, reactions at the nodes between)."""

    def at(r0, r1):
        phi = turn.solved(original, r0, r1, jnp.array(momentum))
        return phi, *turn.impulses(original, r0, phi, r1)

    rows = jax.vmap(lambda x: all_reactions(reduced, x, x, x, 0.0))(r[1:-1])
    return *jax.vmap(at)(r[:-1], r[1:]), rows


@seldom
def _turned(chart: GroupChart, r, phi, g, h):
    """(q of the nodes, v between them), each step turned as a whole, so that its difference keeps its digits."""

    def step(r0, r1, phi, g):
        q0 = chart.section(r0)
        away = (chart.moved(phi, chart.section(r1)) - q0) / h
        return jax.jvp(lambda q: chart.moved(g, q), (q0,), (away,))[1]

    return jax.vmap(lambda x, y: chart.moved(y, chart.section(x)))(r, g), jax.vmap(step)(r[:-1], r[1:], phi, g[:-1])


@seldom
def _lifted(chart: GroupChart, x, w):
    """(q, q̇) of (r, g) and its rates."""
    return jax.vmap(lambda y, rate: jax.jvp(chart.position, (y,), (rate,)))(x, w)
