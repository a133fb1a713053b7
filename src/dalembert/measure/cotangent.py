"""The discrete motion on T*Q: Legendre maps, Noether's theorem with forces and reactions, a step as a map of (q, p)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.algebra import inverse
from dalembert.discretize import OF_STATES, DiscreteSystem, Interval, Scheme, as_scheme, incoming
from dalembert.discretize.nodes import legendre_minus, legendre_plus
from dalembert.lazy import on_host
from dalembert.measure.nodes import (
    NodeView,
    check_direction,
    check_neighbours,
    form_of,
    kernel,
    node_view,
    nodes_of,
    read_node,
)
from dalembert.notebook import Described, described_by_fields
from dalembert.numbers import EPSILON, as_function, as_number, as_vector
from dalembert.path import Path
from dalembert.step import simulate
from dalembert.systems import System, as_step, check_shapes, check_system, check_x64, is_traced
from dalembert.systems import momentum as momentum_at
from dalembert.systems.equations import force
from dalembert.systems.system import group_space
from dalembert.tracing import seldom


@described_by_fields
class LegendreMaps(NamedTuple):
    """The two discrete momenta of a pair of nodes.

    p⁻ at q₀ and p⁺ at q₁: F⁻L_d(q₀,q₁) = (q₀, p⁻), F⁺L_d(q₀,q₁) = (q₁, p⁺).

    The one-forms on Q×Q are θ⁻ = p⁻·dq₀ and θ⁺ = p⁺·dq₁; without forces dL_d = θ⁺ - θ⁻.

    Attributes:
        minus: (n,) p⁻ = -D₁L_d - f_d⁻.
        plus: (n,) p⁺ = D₂L_d + f_d⁺.
    """

    minus: Float[Array, "n"]
    plus: Float[Array, "n"]


@described_by_fields
class Balance(NamedTuple):
    """The residual of d'Alembert's principle at three nodes.

    β(q₀,q₁,q₂) = iᵗ(F⁺L_d(q₀,q₁) - F⁻L_d(q₁,q₂)), a covector on D_V at q₁, zero on trajectories.

    Attributes:
        covector: (n,) F⁺ - F⁻ itself; it is -h R_dᵀλ on trajectories.
        basis: (n, n - m) an orthonormal basis of D_V.
        components: (n - m,) components of β in that basis.
    """

    covector: Float[Array, "n"]
    basis: Float[Array, "n d"]
    components: Float[Array, "d"]


@on_host
def legendre(
    system: System | DiscreteSystem, q0, q1, *, h: float = 1.0, t0: float = 0.0, scheme: Scheme | None = None
) -> LegendreMaps:
    """Compute the two discrete momenta of a pair of nodes.

    p⁻ = -D₁L_d(q₀,q₁) - f_d⁻(q₀,q₁),  p⁺ = D₂L_d(q₀,q₁) + f_d⁺(q₀,q₁).

    For a VariationalProblem they are the components of Θ⁻ and Θ⁺, see `poincare_cartan`.

    Args:
        system: a System or a DiscreteSystem.
        q0: (n,) a node at t0; on a group by name or as it is stored, and momenta are in the body's axes.
        q1: (n,) a node at t0 + h.
        h: time step.
        t0: time of q0.
        scheme: the Scheme whose maps give L_d and f_d of a System; Scheme("nodes") by default.

    Returns:
        A LegendreMaps, in units of momentum.

    Raises:
        ValueError: an argument has the wrong shape, or the scheme has no map of nodes.
        TypeError: an argument is of the wrong type.

    Source: Borda, Fernández, Grillo, eq. (3); Jiménez, Scheurle, Section 5. With forces: Marsden, West, Section 3.2.1.

    Example:
        >>> found = da.measure.legendre(pendulum, [1.0], [1.0], h=0.1)  # at rest: half of the step's force at each end
        >>> bool(abs(found.plus + found.minus)[0] < 1e-15), bool(found.plus[0] < 0.0)
        (True, True)
    """
    view, (a, b), t = _read_nodes(system, (q0, q1), h, t0, scheme)
    return _legendre_maps(view, a, b, t)


@on_host
def balance(
    system: System | DiscreteSystem, q0, q1, q2, *, h: float = 1.0, t0: float = 0.0, scheme: Scheme | None = None
) -> Balance:
    """Compute the residual of d'Alembert's principle at three nodes.

    β(q₀,q₁,q₂) = iᵗ(F⁺L_d(q₀,q₁) - F⁻L_d(q₁,q₂)): zero where (q₀,q₁,q₂) satisfies d'Alembert's principle.

    Args:
        system: a System or a DiscreteSystem.
        q0: (n,) a node at t0.
        q1: (n,) a node at t0 + h.
        q2: (n,) a node at t0 + 2h.
        h: time step.
        t0: time of q0.
        scheme: as for `legendre`.

    Returns:
        A Balance.

    Raises:
        ValueError: an argument has the wrong shape, or the scheme has no map of nodes.
        TypeError: an argument is of the wrong type.

    Source: Borda, Fernández, Grillo, eqs. (3) and (4).

    Example:
        >>> bool(abs(da.measure.balance(pendulum, [0.0], [0.1], [0.3], h=0.1).components[0]) > 0.5)  # no trajectory
        True
    """
    view, (a, b, c), t = _read_nodes(system, (q0, q1, q2), h, t0, scheme)
    return _balance(view, a, b, c, t)


def _read_nodes(system, points, h, t0, scheme) -> tuple[NodeView, list[Array], Array]:
    check_x64()
    first = read_node(system, points[0], "q0")
    others = [read_node(system, x, f"q{i}", first) for i, x in enumerate(points[1:], 1)]
    view = node_view(system, scheme, h, first.shape[0])
    return view, [first, *others], jnp.asarray(as_number(t0, "t0", "a finite time"), dtype=float)


@seldom
def _legendre_maps(view: NodeView, q0, q1, t) -> LegendreMaps:
    view, (q0, q1) = view.around(q0, q1)
    return LegendreMaps(-view.outgoing(q0, q1, t), view.incoming(q0, q1, t))


@seldom
def _balance(view: NodeView, q0, q1, q2, t) -> Balance:
    view, points = view.around(q0, q1, q2)
    nodes: Any = (*points, t + view.h)
    covector, rows = view.balance(*nodes), view.reactions(*nodes)
    basis = kernel(rows)
    return Balance(covector, basis, basis.T @ covector)


@dataclasses.dataclass(frozen=True, eq=False)
class MomentumBalance(Described):
    """The change of a momentum along a path, and the work that causes it.

    J_{k+1} - J_k = h(f + R_dᵀλ_k)·ξ(q_k): both sides along a path.

    Attributes:
        t: (K,) times of J.
        momentum: (K,) J.
        work: (K-1,) the work of forces and reactions along ξ between these times, h(f + R_dᵀλ)·ξ.
    """

    t: Float[np.ndarray, "K"]
    momentum: Float[np.ndarray, "K"]
    work: Float[np.ndarray, "K-1"]

    @property
    def change(self) -> Float[np.ndarray, "K-1"]:
        """J_{k+1} - J_k."""
        return np.diff(self.momentum)

    @property
    def defect(self) -> float:
        """The largest |J_{k+1} - J_k - h(f + R_dᵀλ)·ξ|: round-off if L_d does not change along ξ."""
        return float(np.max(np.abs(self.change - self.work), initial=0.0))

    def describe(self) -> str:
        """The numbers in one line."""
        largest = np.max(np.abs(self.work), initial=0.0)
        return f"momentum within {np.ptp(self.momentum):.3e}, work up to {largest:.3e} a step, defect {self.defect:.3e}"


def momentum_balance(
    system: System | DiscreteSystem, path: Path, generator: Callable, *, scheme: Scheme | None = None
) -> MomentumBalance:
    """Compare the change of a momentum with the work of forces and reactions.

    J_{k+1} - J_k = h(f + R_dᵀλ_k)·ξ(q_k),  J_k = D₂L_d(q_{k-1},q_k)·ξ(q_k): Noether's theorem with forces and reactions.

    It is the equation at a node, contracted with ξ(q_k), if L_d does not change along ξ. This is so for a symmetry ξ =
    A q + b of L and the maps Beta(β), since an affine map takes differences of points to differences. If R ξ = 0 and
    f·ξ = 0, the momentum is conserved. In the form kick_drift_kick, J = L_v(q, v)·ξ(q) at the states, and the work is
    the mean of the work at both ends, with the reactions of holonomic constraints as the two kicks need them.

    λ is taken from the path, so that a wrong multiplier shows up as a defect.

    Args:
        system: a System or a DiscreteSystem.
        path: its Path, with every state saved.
        generator: `generator(q[, t][, p])`, ξ, (n,), such as the `generator` of a Symmetry.
        scheme: as it was given to simulate, of order 2.

    Returns:
        A MomentumBalance.

    Raises:
        ValueError: states of the path were left out, or it was made with another scheme, a scheme of higher order, or a
            sampled law.
        TypeError: an argument is of the wrong type. For a VariationalProblem use `measure.momentum`.

    Source: discrete Noether theorem, Marsden, West, Theorem 1.3.3 and Section 3.2.5 with forces; the term of the reactions
    of second order constraints follows from Borda, Fernández, Grillo, eq. (4).

    Example:
        >>> turning = da.simulate(edge, [0.0, 0.0, 0.0], [1.0, 0.0, 0.5], h=0.1, steps=20)
        >>> found = da.measure.momentum_balance(edge, turning, lambda q: jnp.array([0.0, 1.0, 0.0]))  # m ẏ
        >>> bool(abs(found.work).max() > 1e-3), found.defect < 1e-13
        (True, True)
    """
    as_function(generator, "generator", "of q that returns a direction (n,)")
    chosen, form = form_of(path, system, scheme)
    check_neighbours(path)
    if path.feedback is not None:
        raise ValueError(
            "path: was run with a sampled law, whose held forces are not included here; give the law as `forces`"
        )
    if chosen.order > 2:
        raise ValueError(
            f"scheme: a step of order {chosen.order} is made of stages whose multipliers are not kept; use order=2"
        )
    n, size = path.v.shape[1], path.q.shape[1]
    check_direction(system, generator, n)
    if form == "kick_drift_kick":  # of a System alone
        plant: Any = system
        states = tuple(map(jnp.asarray, (path.q, path.v, path.t, path.multipliers)))
        numbers = check_shapes(plant, np.zeros(size), np.zeros(n), np.zeros(()))
        found = _of_kicks(plant, chosen, tuple(numbers), generator, states, path.h)
        return MomentumBalance(np.asarray(path.t), *map(np.asarray, found))
    own, q, t = nodes_of(path, system, scheme)
    view = node_view(system, own, path.h, size)
    multipliers = jnp.asarray(path.multipliers)
    if len(multipliers) != len(q) - 2:
        raise ValueError(
            f"path: has {len(multipliers)} multipliers for {len(q) - 2} inner nodes; give a path of this system"
        )
    found = _of_nodes(system, view, generator, q, t, multipliers)
    return MomentumBalance(np.asarray(t)[1:], *map(np.asarray, found))


@seldom
def _of_nodes(system: System | DiscreteSystem, view: NodeView, generator: Callable, q, t, multipliers):
    along = jax.vmap(lambda x, s: system.call(generator, x, t=s))(q[1:], t[1:])

    def momentum_of_pair(before, here, s):
        own, pair = view.around(before, here)
        return own.momentum(*pair, s)

    def node_work(before, here, after, s, held, xi):
        own, nodes = view.around(before, here, after)
        pushed = own.reactions(*nodes, s).T @ held
        return (own.impulse(*nodes, s) + view.h * pushed) @ xi

    momenta = jax.vmap(momentum_of_pair)(q[:-1], q[1:], t[:-1])

    inner = jax.vmap(node_work)(q[:-2], q[1:-1], q[2:], t[1:-1], multipliers, along[:-1])
    return jnp.sum(momenta * along, axis=1), inner


@seldom
def _of_kicks(system: System, scheme: Scheme, numbers: tuple, generator: Callable, states, h):
    """J = L_v·ξ at states, and the work ½h(f + Rᵀλ)·ξ of the two kicks of a step."""
    q, v, t, multipliers = states
    along = jax.vmap(lambda x, s: system.call(generator, x, t=s))(q, t)
    momenta = jax.vmap(lambda *x: momentum_at(system, *x))(q, v, t)

    def kick_work(before, after, held):
        (q0, v0, s, xi0), (q1, v1, _, xi1) = before, after
        d = system.space.between(q0, q1)
        interval = Interval(q0, d, s, h)
        left = -momentum_at(system, q0, v0, s) - legendre_minus(scheme, system, interval)
        right = momentum_at(system, q1, v1, s + h) - legendre_plus(scheme, system, interval)
        middle = (system.space.retract(q0, 0.5 * d), d / h, (v1 - v0) / h, s + 0.5 * h)
        ends = ((q0, v0, s, xi0, left), (q1, v1, s + h, xi1, right))
        return sum(_kick(system, numbers, held, end, middle, h) for end in ends)

    left, right = (tuple(x[cut] for x in (q, v, t, along)) for cut in (slice(None, -1), slice(1, None)))
    return jnp.sum(momenta * along, axis=1), jax.vmap(kick_work)(left, right, multipliers)


def _kick(system: System, numbers: tuple, held, end, middle, h):
    """½h(f + Rᵀλ)·ξ at one end. λ of holonomic constraints is what the rest of the impulse is made by."""
    q, v, t, xi, impulse = end
    rest = 0.5 * h * force(system, q, v, t)
    found, rows, at = rest @ xi, [], 0
    for c, m in zip(system.constraints, numbers, strict=True):
        own = c.force_rows(system, *middle) if c.order == 2 else c.force_rows(system, q, v, middle[2], t)
        if c.order == 0:
            rows.append(own)
        else:
            pushed = 0.5 * h * own.T @ held[at : at + m]
            rest, found = rest + pushed, found + pushed @ xi
        at += m
    if not rows:
        return found
    spanned = jnp.concatenate(rows)
    return found + (inverse(spanned @ spanned.T) @ spanned @ (impulse - rest)) @ (spanned @ xi)


POLISHED = 5  # steps of Newton's method after the search for a velocity, which ends where its steps are rounding


@described_by_fields
class PhasePoint(NamedTuple):
    """A point of T*Q.

    Attributes:
        q: (n,) positions.
        p: (n,) momenta.
    """

    q: Float[np.ndarray, "n"]
    p: Float[np.ndarray, "n"]


def phase_step(system: System, q, p, *, h: float, t0: float = 0.0, scheme: Scheme | None = None) -> PhasePoint:
    """Make one step of a scheme from positions and momenta.

    (q₀, p₀) → (q₁, p₁): the step of a scheme between points of T*Q.

    In the forms kick_drift_kick and discrete_gradient, p = L_v(q, v) at the states. In the other two, (q, p) = F⁺L_d of
    the pair of nodes that belongs to a state: q is the second node, p = D₂L_d + f_d⁺ its momentum before the forces of
    the next interval. Without constraints and forces both maps are symplectic. A composed step of drift_kick_drift has
    no such pair: there p = L_v(q, v) at its states, and the map is not symplectic.

    Args:
        system: a System.
        q: (n,) positions, or by name as in `simulate`.
        p: (n,) momenta; on a group in the axes of the velocities.
        h: time step, negative for a step backwards in time.
        t0: time of (q, p).
        scheme: as for `simulate`.

    Returns:
        The PhasePoint one step later.

    Raises:
        ValueError: an argument has the wrong shape, no velocity has the momentum p, or it is called under jit, vmap or
            grad.
        TypeError: an argument is of the wrong type.
        InconsistentDataError: the state that belongs to (q, p) violates the constraints.
        StepError: the step cannot be solved.

    Source: Marsden, West, Discrete mechanics and variational integrators, Section 1.5.1.

    Example:
        >>> after = da.measure.phase_step(pendulum, [0.0], [1.0], h=0.1)
        >>> bool(abs(0.5 * after.p[0] ** 2 - jnp.cos(after.q[0]) + 0.5) < 1e-4)  # the energy
        True
    """
    check_x64()
    check_system(system)
    chosen = as_scheme(scheme)
    given, space, own = read_node(system, q, "q"), system.space, group_space(system)
    given = (
        given,
        as_vector(p, "p", given.shape[0] if own is None else own.n),
        as_step(h),
        as_number(t0, "t0", "a finite time"),
    )
    if is_traced(system, given):
        raise ValueError("phase_step: works on numbers and not under jit, vmap or grad")
    (x, y), (step, t) = map(np.asarray, given[:2]), map(float, given[2:])
    pairs = chosen.order == 2 and chosen.form_for(system.constraints) not in OF_STATES
    if not pairs:
        v = _solve_velocity(lambda w: _conjugate(system, x, w, t), y, x)
        path = simulate(system, x, v, h=step, steps=1, t0=t, scheme=chosen)
        after, w = np.asarray(path.q)[-1], np.asarray(path.v)[-1]
        return PhasePoint(after, np.asarray(_conjugate(system, after, w, t + step)[0]))
    state = dataclasses.replace(chosen, form="drift_kick_drift")
    ahead = (1.0 - state.state.weight) * step
    v = _solve_velocity(lambda w: _incoming(system, state, x, w, t, step), y, x)
    path = simulate(system, space.retract(x, -ahead * v), v, h=step, steps=1, t0=t - ahead, scheme=state)
    middle, w = np.asarray(path.q)[-1], np.asarray(path.v)[-1]
    after = np.asarray(space.retract(middle, ahead * w))
    return PhasePoint(after, np.asarray(_incoming(system, state, after, w, t + step, step)[0]))


@seldom
def _conjugate(system: System, q, v, t):
    """L_v(q, v) and its derivative by v."""
    of = lambda w: momentum_at(system, q, w, t)  # noqa: E731
    return of(v), jax.jacfwd(of)(v)


@seldom
def _incoming(system: System, scheme: Scheme, q, v, t, h):
    """D₂L_d(q - hv, q) + f_d⁺ and its derivative by v; t is the time of q."""
    of = lambda w: incoming(scheme, system, Interval(q, h * w, t - h, h, 1.0))  # noqa: E731
    return of(v), jax.jacfwd(of)(v)


def _solve_velocity(of, p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """v with of(v) = p, from rest; else ValueError."""
    from scipy.optimize import least_squares  # slow to load

    def gap(v):
        value, slope = (np.asarray(x) for x in of(v))
        return value - p, slope

    # Steps out of the domain of L, where it is not finite, are shortened.
    options: dict[str, Any] = {"jac": lambda x: gap(x)[1], "xtol": EPSILON, "ftol": None, "gtol": None}
    v = least_squares(lambda x: gap(x)[0], np.zeros_like(p), **options).x
    for _ in range(POLISHED):
        left, slope = gap(v)
        if not np.all(np.isfinite(slope)) or np.linalg.cond(slope) * EPSILON > 1.0:
            break
        change = np.linalg.solve(slope, left)
        rounding = 8 * EPSILON * (np.max(np.abs(p)) + np.max(np.abs(slope) @ np.abs(v), initial=0.0))
        if np.max(np.abs(left)) <= rounding or np.max(np.abs(change)) <= 8 * EPSILON * np.max(np.abs(v)):
            return v - change
        v = v - change
    raise ValueError(f"p: found {p}; no velocity at q = {q} has this momentum, or the Legendre transform is singular there")
