"""routh: coordinates that L does not read are left out; their momentum is a constant of the reduced system.

By planar rotations and translations of q itself the discrete system is the quotient of the scheme that steps q.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert.algebra import inverse
from dalembert.discretize import Beta, DiscreteSystem, Interval, Scheme, as_scheme, incoming, outgoing
from dalembert.measure import check_neighbours
from dalembert.notebook import Described
from dalembert.numbers import as_positive, as_vector
from dalembert.path import Path
from dalembert.step import simulate
from dalembert.symmetry.conditions import Neighbourhood, Samples, inertia_at, jets_of, place_of_search, sample
from dalembert.symmetry.coordinates import GroupChart, VelocityFrame, chart_of, indices_of, reduced_system, with_own
from dalembert.symmetry.reduced import FullMotion, Reduced
from dalembert.systems import RankDeficientError, System, check_shapes, check_system, check_x64
from dalembert.systems import momentum as momentum_at
from dalembert.systems.equations import all_reactions, force
from dalembert.systems.pickling import made
from dalembert.tracing import Jitted, over_rows, seldom

TURNS = 7  # of Newton's method for the turn of a step, which begins at 0
MISSED = 1e-6  # of the largest momentum: by how much nodes of another scheme miss the equations at least
NEAR = 1e-10  # a last correction below leaves rounding


class Turn(NamedTuple):
    """Step of the full scheme between q̂(r₀) and e^{φξ}q̂(r₁)."""

    chart: GroupChart
    scheme: Scheme
    h: float

    def interval(self, r0, phi, r1) -> Interval:
        """Of the full system."""
        q0 = self.chart.section(r0)
        return Interval(q0, self.chart.move(phi, self.chart.section(r1)) - q0, jnp.zeros(()), jnp.asarray(self.h))

    def momentum(self, system: System, r0, phi, r1) -> Any:
        """-(D₁L_d + f_d⁻)·ξ, (k,), which is (D₂L_d + f_d⁺)·ξ at the other end."""
        interval = self.interval(r0, phi, r1)
        return -outgoing(self.scheme, system, interval) @ self.chart.fields_at(interval.q)

    def impulses(self, system: System, r0, phi, r1) -> tuple[Any, Any]:
        """D₁L_d + f_d⁻ along the slice, D₂L_d + f_d⁺ along the turned one."""
        interval, at = self.interval(r0, phi, r1), np.array(self.chart.shape)
        ahead = jax.vjp(lambda q: self.chart.move(phi, q), self.chart.section(r1))[1]
        return outgoing(self.scheme, system, interval)[at], ahead(incoming(self.scheme, system, interval))[0][at]

    def solve(self, system: System, r0, r1, momentum) -> Any:
        """φ (k,) with this momentum, NaN where Newton's method does not find it. Its derivative is that of the last step."""
        known = jax.lax.stop_gradient((r0, r1))

        def momentum_gap(phi, ends):
            return self.momentum(system, ends[0], phi, ends[1]) - momentum

        def correct(phi):
            slope, left = jax.jacfwd(lambda x: (momentum_gap(x, known),) * 2, has_aux=True)(phi)
            return phi - inverse(slope) @ left, slope

        start = jnp.zeros(len(self.chart.flows)), jnp.eye(len(self.chart.flows))
        phi, slope = jax.lax.stop_gradient(jax.lax.fori_loop(0, TURNS, lambda _, x: correct(x[0]), start))
        last = inverse(slope) @ momentum_gap(phi, (r0, r1))
        return jnp.where(jnp.all(jnp.abs(last) <= NEAR * (1.0 + jnp.abs(phi))), phi - last, jnp.nan)


@dataclasses.dataclass(frozen=True, eq=False)
class TurnedReduction(Described):
    """A system that is reduced by a turn of the plane.

    q = e^{gξ} q̂(r): a system in the shape r alone, whose group coordinates g follow from their momenta.

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
            (2, d), for Start(nodes=…) of `simulate`.

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
        check_neighbours(path)
        begin = None if q0 is None else np.asarray(as_vector(q0, "q0", len(self.start[0])))
        if path.levels[0] == "mid":
            return self._follow(path, self._maps(scheme), begin)
        at = None if begin is None else self.chart.coordinates(begin)
        inner = self.shifted.reconstruct(path, scheme=scheme, q0=at)
        q, v = map(np.asarray, over_rows(_lift, (inner.q, inner.v), self.chart))
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
        chosen, system = as_scheme(scheme), self.original
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
        return tuple(np.asarray(_turn_momentum(Turn(self.chart, scheme, h), self.original, r0, g1 - g0, r1)).tolist())

    def _quotient(self, h: float, scheme: Scheme, momentum: tuple[float, ...]) -> DiscreteSystem:
        held = bool(self.system.constraints)
        return DiscreteSystem(
            _nothing, _at_last(self.system) if held else None, reactions=_at_middle(self.system) if held else None,
            initial=_at_both(self.system) if held else None, coordinates=self.system.coordinates,
            forces=_impulses(self.original, Turn(self.chart, scheme, h), momentum), parameters=self.system.parameters,
        )  # fmt: skip

    def _follow(self, path: Path, scheme: Scheme, q0: np.ndarray | None) -> FullMotion:
        """Of nodes."""
        h, (r, lambdas) = float(path.h), (np.asarray(path.q), np.asarray(path.multipliers))
        turn, momentum = Turn(self.chart, scheme, h), self._momentum(h, scheme)
        phi, left, right, rows = map(np.asarray, _turned_steps(self.original, self.system, turn, momentum, r))
        misses = left[1:] + right[:-1] + h * np.einsum("kmd,km->kd", rows, lambdas)
        if not np.max(np.abs(misses), initial=0.0) <= MISSED * np.max(np.abs(left), initial=0.0):
            raise ValueError(
                "path: its nodes do not satisfy the equations of discrete(h, scheme) of its own h and this scheme; give a "
                "path of these, and the scheme that they were made with"
            )
        first = self._first(h, scheme)[0] if q0 is None else q0
        g = self.chart.coordinates(first)[len(self.x0) :]
        turned = g + np.concatenate([np.zeros((1, len(g))), np.cumsum(phi, axis=0)])
        q, v = map(np.asarray, _turn_nodes(self.chart, r, phi, turned, h))
        return FullMotion(np.asarray(path.t), q, np.asarray(path.t_velocity), v)


def _nothing(r0, r1, *_):
    """The Lagrangian of a quotient: D₁R_d and D₂R_d are given as impulses, in which φ is differentiated once only."""
    return jnp.zeros(())


@made
def _impulses(original: System, turn: Turn, momentum: tuple[float, ...]) -> Callable:
    def impulses(r0, r1, *p):
        own, _ = with_own(original, p)
        phi = turn.solve(own, r0, r1, jnp.array(momentum))
        return turn.impulses(own, r0, phi, r1)

    return impulses


def _holonomic(system: System, r):
    return jnp.concatenate([c.residual(system, r, r, r, 0.0) for c in system.constraints])


@made
def _at_last(reduced: System) -> Callable:
    return lambda r0, r1, r2, *p: _holonomic(with_own(reduced, p)[0], r2)


@made
def _at_both(reduced: System) -> Callable:
    return lambda r0, r1, *p: jnp.concatenate([_holonomic(with_own(reduced, p)[0], r) for r in (r0, r1)])


@made
def _at_middle(reduced: System) -> Callable:
    return lambda r0, r1, r2, *p: all_reactions(with_own(reduced, p)[0], r1, r1, r1, 0.0)


_turn_momentum = seldom(Turn.momentum)


@seldom
def _turned_steps(original: System, reduced: System, turn: Turn, momentum, r):
    """(φ, both parts of each step, reactions at the nodes between)."""

    def solve_step(r0, r1):
        phi = turn.solve(original, r0, r1, jnp.array(momentum))
        return phi, *turn.impulses(original, r0, phi, r1)

    rows = jax.vmap(lambda x: all_reactions(reduced, x, x, x, 0.0))(r[1:-1])
    return *jax.vmap(solve_step)(r[:-1], r[1:]), rows


@seldom
def _turn_nodes(chart: GroupChart, r, phi, g, h):
    """(q of the nodes, v between them), each step turned as a whole, so that its difference keeps its digits."""

    def turn_velocity(r0, r1, phi, g):
        q0 = chart.section(r0)
        away = (chart.move(phi, chart.section(r1)) - q0) / h
        return jax.jvp(lambda q: chart.move(g, q), (q0,), (away,))[1]

    return jax.vmap(lambda x, y: chart.move(y, chart.section(x)))(r, g), jax.vmap(turn_velocity)(r[:-1], r[1:], phi, g[:-1])


def _lift(chart: GroupChart, x, w):
    """(q, q̇) of (r, g) and its rates."""
    return jax.jvp(chart.position, (x,), (w,))


POINTS = 24  # states at which the hypotheses are looked at
SAME = 1e-9  # relative size of what should be zero


def routh(
    system: System, q0, v0, *, group: Any = None, generators: Any = None, t0: float = 0.0, size=None
) -> Reduced | TurnedReduction:
    """Reduce a system by its cyclic coordinates.

    d/dt R_ṙ - R_r = f + φ_rᵀλ, R(r, ṙ) = L - μ·ġ with L_ġ = μ: the system without its cyclic coordinates g.

    L_ġ = M_gg ġ + M_gr ṙ + … is solved for ġ, so L has to be quadratic in ġ: ġ = B ṙ + c, where c contains μ; these are
    the frame of the result. The discrete equations of R are those of L for the same map: the Legendre transform of L_d
    = h L∘ρ in g_{k+1} - g_k is h R∘ρ. So runs of both agree to rounding for every scheme with a single map of the
    action and states (q, v), of orders 2 to 10, and `reconstruct` returns the full run. (In the form "nodes" a starter
    makes the second node, which gives another μ.)

    With generators (commuting planar rotations and translations, in any coordinates) g is defined by q = e^{gξ} q̂(r),
    where r are coordinates on a slice transverse to the group. A scheme applied to R then differs from the same scheme
    applied to L. `discrete` is the quotient of the latter, R_d(r₀, r₁) = L_d(q̂(r₀), e^{φξ}q̂(r₁)) - μ·φ with ∂L_d/∂φ =
    μ, and agrees with it to rounding.

    Args:
        system: a System without constraints, or with Holonomic constraints that do not change along the group.
        q0: (n,) initial positions.
        v0: (n,) initial velocities; μ is L_ġ there.
        group: names or indices of the cyclic coordinates: L, forces and constraints do not depend on them, and no force
            acts on them.
        generators: instead of group, a Symmetry from `symmetries`, or a list of these and of pairs (A, b) for ξ = A q +
            b.
        t0: time of (q0, v0).
        size: (n,) how far from q0 states are drawn, as for `symmetries`.

    Returns:
        A Reduced, with `law` "Routh"; with generators a TurnedReduction.

    Raises:
        ValueError: the system depends on a coordinate of the group, or a force acts on it; L is not quadratic in ġ;
            there are other constraints; or the generators belong to other groups or do not commute.
        RankDeficientError: M_gg is singular at q0, or the group does not act freely there.
        TypeError: an argument is of the wrong type, or traced.

    Source: Marsden, Ratiu, Introduction to Mechanics and Symmetry, Section 8.9; discrete: Jalnapurkar, Leok, Marsden,
    West, Discrete Routh reduction. What differs: a chart of the group is used in place of a connection, so that no
    curvature term remains.

    Example:
        >>> planar = da.System(lambda q, v: 0.5 * (v[0] ** 2 + (q[0] * v[1]) ** 2) + 1.0 / q[0], coordinates=("r", "θ"))
        >>> small = da.routh(planar, [1.0, 0.0], [0.0, 1.2], group="θ")
        >>> path = da.simulate(small.system, small.x0, small.w0, h=0.1, steps=50)
        >>> full = da.simulate(planar, [1.0, 0.0], [0.0, 1.2], h=0.1, steps=50)
        >>> bool(abs(small.reconstruct(path).q - full.q).max() < 1e-12)
        True
    """
    check_x64()
    check_system(system)
    if (group is None) == (generators is None):
        raise TypeError("group, generators: give one of the two, coordinates that nothing reads or fields ξ = A q + b")
    place = place_of_search("routh", system, q0, v0, t0, size)
    for i, c in enumerate(system.constraints):
        if c.order > 0 or getattr(c, "virtual", None) is not None:
            raise ValueError(
                f"constraints[{i}] ({type(c).__name__}): routh takes Holonomic ones without virtual displacements of their "
                "own; see chaplygin for those on velocities, and quotient for those on accelerations"
            )
    check_shapes(system, place.q0, place.v0, np.asarray(place.t0))
    if generators is None:
        return _by_coordinates(system, place, indices_of(system, group, len(place.q0)))
    return _by_generators(system, place, generators)


def _by_generators(system: System, place: Neighbourhood, generators: Any) -> TurnedReduction:
    """In coordinates (r, g), which the group shifts."""
    q, v, now, size = place
    chart = chart_of(generators, q, np.asarray(inertia_at(system, jets_of(system).first(q, v), now)))
    names = system.coordinates or tuple(f"q{i}" for i in range(len(q)))
    shape = tuple(names[i] for i in chart.shape)
    turns = tuple(_free(f"g{i + 1}" if len(chart.group) > 1 else "g", shape) for i in range(len(chart.group)))
    x = chart.coordinates(q)
    there = Neighbourhood(x, chart.velocity(x, v), now, None if size is None else chart.coordinate_sizes(q, size))
    in_chart = reduced_system(system, chart, (*shape, *turns), system.constraints)
    shifted = _by_coordinates(in_chart, there, tuple(range(len(shape), len(q))))
    momentum = chart.fields_at(q).T @ np.asarray(_momentum(system, q, v, now))
    return TurnedReduction(shifted.system, shifted.x0, shifted.w0, system, momentum, shifted, chart, (q, v))


def _free(name: str, taken: tuple[str, ...]) -> str:
    return name if name not in taken else _free(f"{name}_", taken)


def _by_coordinates(system: System, place: Neighbourhood, group_at: tuple[int, ...]) -> Reduced:
    """Without the coordinates with these numbers."""
    q, v, now, _ = place
    shape = tuple(i for i in range(len(q)) if i not in group_at)
    _check_cyclic(system, group_at, sample(system, place, POINTS))
    inertia, momentum = (np.asarray(x) for x in _of_group(system, group_at, q, v, now))
    sizes = np.sqrt(np.abs(np.diag(inertia)))  # coordinates of the group may differ in unit
    sizes = np.where(sizes > 0.0, sizes, 1.0)
    values = np.linalg.svd(inertia / np.outer(sizes, sizes), compute_uv=False)
    if values[-1] <= 1e-12 * values[0]:
        raise RankDeficientError(
            f"group: its inertia L_ġġ is singular at q0, singular values {values}; ġ cannot be solved for"
        )
    own = MomentumFrame(shape, group_at, 0, tuple(q.tolist()), momentum=tuple(momentum.tolist()))
    names = system.coordinates or tuple(f"q{i}" for i in range(len(q)))
    reduced = reduced_system(system, own, tuple(names[i] for i in shape), system.constraints)
    return Reduced(reduced, q[list(shape)], v[list(shape)], system, own, "Routh")


def _index(group: tuple[int, ...]) -> np.ndarray:
    return np.array(group, dtype=int)


@dataclasses.dataclass(frozen=True, eq=False)
class MomentumFrame(VelocityFrame):
    """(ṙ, ġ) with L_ġ = μ, the momentum. B and c are its derivative by ṙ and its value where the shape rests: B ṙ + c where
    L is quadratic in all velocities."""

    momentum: tuple[float, ...] = ()

    def velocity(self, system: System, q, w, t):
        return _velocity(system, self, q, w, t)

    def written_out(self, system: System, q, t):
        slopes = jax.jacfwd(lambda w: (self.velocity(system, q, w, t),) * 2, has_aux=True)
        return slopes(jnp.zeros(self.size))

    def lagrangian(self, system: System, x, w, t):
        """The Routhian L - μ·ġ."""
        q = self.position(x)
        v = self.velocity(system, q, w, t)
        return system.call(system.lagrangian, q, v, t=t) - jnp.array(self.momentum) @ v[_index(self.group)]

    def force(self, system: System, x, w, t):
        q = self.position(x)
        return force(system, q, self.velocity(system, q, w, t), t)[_index(self.shape)]

    def has_forces(self, system: System) -> bool:
        return system.forces is not None


@Jitted  # traced once, however often the equations ask for it; the name is part of the key of stored runs
def _velocity(system: System, frame: MomentumFrame, q, w, t):
    """One step of Newton's method from ġ = 0, which is exact for an L that is quadratic in ġ."""
    group = _index(frame.group)
    rest = jnp.zeros_like(q).at[_index(frame.shape)].set(w)
    along = lambda rates: system.call(system.lagrangian, q, rest.at[group].set(rates), t=t)  # noqa: E731
    still = jnp.zeros(len(group))
    gap = jnp.array(frame.momentum) - jax.grad(along)(still)
    return rest.at[group].set(inverse(jax.hessian(along)(still)) @ gap)


_momentum: Any = seldom(momentum_at)


@seldom
def _of_group(system: System, group: tuple, q, v, t):
    """L_ġġ and L_ġ."""
    slope = jax.grad(lambda w: system.call(system.lagrangian, q, w, t=t))
    return jax.jacfwd(slope)(v)[_index(group)][:, _index(group)], slope(v)[_index(group)]


def _change_of_inertia(system: System, group: tuple, q, v, t):
    """L_ġġ, and how it changes where ġ is half as large."""
    inertia = jax.hessian(lambda w: system.call(system.lagrangian, q, w, t=t))
    here, there = (inertia(w)[_index(group)][:, _index(group)] for w in (v, v.at[_index(group)].multiply(0.5)))
    return here, here - there


def _check_cyclic(system: System, group: tuple[int, ...], samples: Samples) -> None:
    """ValueError for what reads a coordinate of the group, or acts on it."""
    jets, facts, at = samples.jets, samples.facts, list(group)
    inertia, change = over_rows(_change_of_inertia, (jets[:, 0], jets[:, 1], samples.times), system, group)
    largest = lambda *parts: max(float(np.max(np.abs(np.asarray(x)), initial=0.0)) for x in parts)  # noqa: E731
    by_q, push_by_q = facts.action[:, 0], facts.force_by[:, :, 0]
    reach = largest(np.ptp(jets[:, 0], axis=0)) or 1.0
    found = {
        "L reads a coordinate of it": (largest(by_q[:, at]), largest(by_q, facts.action[:, 1] * jets[:, 1] / reach)),
        "forces act on it, or read it": (largest(facts.force[:, at], push_by_q[:, :, at]), largest(facts.force, push_by_q)),
        "a constraint reads it": (largest(facts.rows[:, :, at]), largest(facts.rows)),
        "L is not quadratic in its velocities": (largest(change), largest(inertia)),
    }
    for words, (part, whole) in found.items():
        if part > SAME * whole:
            raise ValueError(f"group: {words} (up to {part:.2g}); da.symmetries finds what does not change")
