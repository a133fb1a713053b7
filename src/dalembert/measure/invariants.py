"""Invariants along a path, energy, momentum maps and constraints, and the multipliers of the continuous equations."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.discretize import OF_STATES, Beta, DiscreteSystem, Scheme, WindowMap
from dalembert.discretize.higher import forward_differences, momenta_of_nodes
from dalembert.discretize.nodes import legendre_plus
from dalembert.groups import Space
from dalembert.lazy import on_host
from dalembert.measure.higher import FlowPath, node_action, path_windows, read_flow_path
from dalembert.measure.nodes import NodeView, check_direction, check_neighbours, form_of, node_ahead, node_view, states_of
from dalembert.notebook import Described, described_by_fields
from dalembert.numbers import as_function
from dalembert.path import Path
from dalembert.systems import System, VariationalProblem, acceleration, is_traced
from dalembert.systems import energy as energy_at
from dalembert.systems import momentum as momentum_at
from dalembert.systems.equations import all_reactions, reduce_index
from dalembert.systems.system import label
from dalembert.tracing import over_rows, seldom


class Invariant(Described, eqx.Module):
    """A scalar along a path, and whether it is conserved.

    Attributes:
        t: (K,) times.
        values: (K,).
    """

    t: Float[Array, "K"]
    values: Float[Array, "K"]

    @property
    def range(self) -> Float[Array, ""]:
        """Largest value minus smallest."""
        return jnp.max(self.values) - jnp.min(self.values)

    @property
    def drift(self) -> Float[Array, "K"]:
        """Values minus the first."""
        return self.values - self.values[0]

    @property
    def slope(self) -> Float[Array, ""]:
        """Slope of the least-squares line, per unit of time: near zero if the value oscillates without drifting."""
        s = self.t - jnp.mean(self.t)
        return (s @ (self.values - jnp.mean(self.values))) / jnp.maximum(s @ s, jnp.finfo(float).tiny)

    def describe(self) -> str:
        """The numbers in one line."""
        return f"first {float(self.values[0]):.6g}, range {float(self.range):.3e}, slope {float(self.slope):.3e} per time"


@on_host
def energy(system: System | VariationalProblem, path: Path, *, scheme: WindowMap | None = None) -> Invariant:
    """Compute the energy along a path.

    E = v·L_v - L at the velocities of the path and their times.

    If the velocities lie half way between nodes (form "nodes"), the position is the mid-point, q_k - (h/2) v. Paths
    of every n-th state are allowed: each value needs one saved state only. Works under jit and vmap. With a symmetric
    step E oscillates, with an amplitude of the order of the scheme; a slope other than zero is a drift.

    Args:
        system: a System, or a VariationalProblem, whose discrete energy is measured.
        path: its Path.
        scheme: for a VariationalProblem, as it was given to simulate.

    Returns:
        An Invariant.

    Raises:
        TypeError: system is a DiscreteSystem, which has no energy.

    Example:
        >>> bool(da.measure.energy(pendulum, path).range < 1e-3)
        True
    """
    return _energy(system, path, scheme)


@functools.singledispatch
def _energy(system: System, path: Path, _) -> Invariant:
    q, v, t = states_of(system, path)
    return Invariant(t, over_rows(energy_at, (q, v, t), system))


@on_host
def momentum(
    system: System | DiscreteSystem | VariationalProblem,
    path: Path,
    generator: Callable,
    *,
    scheme: Scheme | WindowMap | None = None,
) -> Invariant:
    """Compute the momentum of a symmetry along a path.

    J = p·ξ_Q(q), the momentum map of a one-parameter group of symmetries with infinitesimal generator ξ_Q.

    p = D₂L_d(q_{k-1},q_k) at the nodes q_k of the forms "nodes" and "drift_kick_drift" (half a step after the state)
    and of a DiscreteSystem; p = L_v(q,v) in the other forms. The scheme conserves these momenta exactly if L_d is
    invariant and the constraint forces do no work along ξ_Q, R ξ_Q = 0: the range is then round-off. The form
    "discrete_gradient" conserves those of translations along which R does not change, and others up to its order. A composed
    scheme conserves the momentum of every stage; the L_v(q,v) that is returned is conserved up to the order of the
    scheme. For a VariationalProblem it is J_d(ξ) = Θ⁺·ξ_Q. Paths of every n-th state are allowed.

    Args:
        system: a System, a DiscreteSystem or a VariationalProblem.
        path: its Path.
        generator: `generator(q[, t][, p])`, ξ_Q, (n,); on a group in the axes of the velocities: turns of space about e are
            Rᵀe, those of the body about its axis i are e_i.
        scheme: as it was given to simulate.

    Returns:
        An Invariant, in units of action divided by the unit of the group parameter.

    Raises:
        ValueError: the path was made with another scheme, or the generator does not return shape (n,).
        TypeError: an argument is of the wrong type.

    Source: discrete Noether theorem, Marsden, West, Discrete mechanics and variational integrators, Theorem 1.3.3.

    Example:
        >>> turning = da.simulate(sphere, [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], h=0.1, steps=20)
        >>> about = lambda q: jnp.array([-q[1], q[0], 0.0])  # rotations about the vertical
        >>> bool(da.measure.momentum(sphere, turning, about).range < 1e-12)
        True
    """
    as_function(generator, "generator", "of q that returns a direction (n,)")
    return _momentum(system, path, generator, scheme)


@functools.singledispatch
def _momentum(system: System | DiscreteSystem, path: Path, generator: Callable, scheme: Any) -> Invariant:
    chosen, form = form_of(path, system, scheme)
    _check_equal(path)
    check_direction(system, generator, path.v.shape[-1])
    xp: Any = jnp if is_traced(path) else np  # XLA would compile every slice
    q, v, t, h = (xp.asarray(x) for x in (path.q, path.v, path.t, path.h))
    states = q[-v.shape[0] :], v, t[-v.shape[0] :]
    view = node_view(system, chosen, h, q.shape[1]) if form == "nodes" else None
    if view is not None:
        chosen = dataclasses.replace(chosen, state=Beta(1.0))  # the state is the second node of its pair
    pairs = (chosen, view, h) if form not in OF_STATES and chosen.order == 2 else None
    return Invariant(*over_rows(_momentum_of_state, states, system, generator, pairs))


def _check_equal(path: Path) -> None:
    """ValueError where the steps differ in length: what follows reads h."""
    if is_traced(path):
        return
    t, h = np.asarray(path.t), float(path.h)
    parts = np.diff(t) / h
    if np.max(np.abs(parts - np.round(parts)), initial=0.0) > 1e-6 + 1e-14 * np.max(np.abs(t)) / abs(h):
        raise ValueError("path: its steps differ in length, and this reads one h; simulate with a number for h")


def _momentum_of_state(system: Any, generator: Callable, pairs: tuple[Scheme, NodeView | None, Any] | None, q, v, t):
    """The time, and p·ξ_Q: L_v at the state, or D₂L_d at the end of the pair of nodes that it belongs to. pairs: the scheme,
    the view of nodes that are given themselves, and h."""
    if pairs is None:
        return t, momentum_at(system, q, v, t) @ system.call(generator, q, t=t)
    scheme, view, h = pairs
    ahead, behind = node_ahead(scheme, system.space, q, v, t, h)
    p = legendre_plus(scheme, system, behind) if view is None else view.momentum(behind.q, ahead, behind.t)
    return behind.t + h, p @ system.call(generator, ahead, t=behind.t + h)


@dataclasses.dataclass(frozen=True)
class Residual(Described):
    """The residual of one constraint along a path.

    φ = 0 for one constraint along a path: the value of φ, zero where the constraint holds.

    Attributes:
        name: the constraint.
        t: (K,) times.
        values: (K, m).
    """

    name: str
    t: np.ndarray
    values: np.ndarray

    @property
    def largest(self) -> float:
        return float(np.max(np.abs(self.values), initial=0.0))

    @property
    def worst(self) -> float:
        """The time of the largest |φ|."""
        return float(self.t[np.argmax(np.max(np.abs(self.values), axis=1))])

    def describe(self) -> str:
        """The largest |φ| and its time, in one line."""
        return f"{self.name}: at most {self.largest:.2g}, at t = {self.worst:g}"


def constraint_residual(
    system: System | DiscreteSystem, path: Path, *, scheme: Scheme | None = None
) -> tuple[Residual, ...]:
    """Compute the residuals of the constraints along a path.

    φ along the path, evaluated exactly where the scheme enforces φ = 0; one entry for each constraint.

    Constraints of order 2: by the kinematic map around each inner node of the forms "nodes" and "drift_kick_drift" (at
    the times of the multipliers), half way along each step in "kick_drift_kick". Order 1: at the distribution map of
    each pair of nodes, which gives the states of "drift_kick_drift" if `state` and `distribution` are the same map; at
    the states of the other forms. Order 0: at the nodes, with a second entry for dφ/dt at the states of
    "kick_drift_kick". For a DiscreteSystem: on every window.

    A Lyapunov constraint has a second entry, λ + φ₀/u. By default a step solves λ + φ₀/u = 0, in which the factor u is
    divided out; dV/dt + F is then zero exactly for the action map Beta(0) with constant mass, and up to the order of
    the scheme otherwise. With branch=Nearest or Least the step solves dV/dt + F = 0, and the second entry is zero up to
    the order.

    A composed scheme satisfies constraints of order 0 and 1 at its states; those of order 2 hold at its stages and have
    no entry. The expected value is round-off, larger by 1/h for order 2, plus about the square of Newton's tolerance.

    Args:
        system: a System or a DiscreteSystem.
        path: its Path, with every state saved.
        scheme: as it was given to simulate.

    Returns:
        A tuple of Residuals, in the units of φ.

    Raises:
        ValueError: states of the path were left out, or it was made with another scheme.
        TypeError: an argument is of the wrong type.

    Example:
        >>> turning = da.simulate(sphere, [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], h=0.1, steps=20)
        >>> [r.largest < 1e-12 for r in da.measure.constraint_residual(sphere, turning)]  # φ and dφ/dt
        [True, True]
    """
    chosen, form = form_of(path, system, scheme)
    check_neighbours(path)
    return _residuals(system, path, chosen, form)


@functools.singledispatch
def _residuals(system: System, path: Path, chosen: Scheme, form: str) -> tuple[Residual, ...]:
    q, v, h, t = (jnp.asarray(x) for x in (path.q, path.v, path.h, path.t))
    space = system.space
    if not space.flat or form in OF_STATES or chosen.order > 2:
        places = _state_places(space, space.flat or form == "kick_drift_kick", q, v, h, t)
    else:
        places = _node_places(chosen, q, v, h, t, between=form == "drift_kick_drift")
    out, at = [], 0
    for i, c in enumerate(system.constraints):
        if c.order == 2 and chosen.order > 2:
            continue
        name = label(i, c)
        x, w, a, s = places[c.order]
        out.append(_residual_along(name, s, lambda x, w, a, s, c=c: c.residual(system, x, w, a, s), x, w, a))
        if c.order == 0 and form == "kick_drift_kick":
            rate = lambda x, w, a, s, c=c: reduce_index(system, c, x, w, w, s, order=1)  # noqa: E731
            out.append(_residual_along(f"d/dt of {name}", s, rate, x, w, a))
        if (law := c.law(system)) is not None:
            multipliers = jnp.asarray(path.multipliers)[:, at : at + out[-1].values.shape[1]]
            apart = lambda x, w, held, s, law=law: held - law(x, w, s)  # noqa: E731
            out.append(_residual_along(f"λ + φ₀/u of {name}", s, apart, x, w, multipliers))
        at += out[-1].values.shape[1]
    return tuple(out)


@seldom
def _state_places(space: Space, steps: bool, q, v, h, t) -> dict[int, tuple]:
    """(q, v, a, t) at which a constraint of each order is read: states, and for those on accelerations the middle of each
    step, or where the states of a group lie between nodes the node between two."""
    a, state = jnp.diff(v, axis=0) / h, (q, v, jnp.zeros_like(v), t)
    mean = jax.vmap(space.between)(q[:-1], q[1:]) / h if steps else 0.5 * (v[1:] + v[:-1])
    along = mean if steps else v[:-1]
    return {0: state, 1: state, 2: (jax.vmap(space.retract)(q[:-1], 0.5 * h * along), mean, a, t[:-1] + 0.5 * h)}


@seldom
def _node_places(scheme: Scheme, q, v, h, t, between: bool) -> dict[int, tuple]:
    """The same for the two step forms: velocities v (K, n) lie between nodes, and so do the states if `between`."""
    back = scheme.state.weight * h
    left, begin = (q - back * v, t - back) if between else (q[:-1], t[:-1])
    x, w = scheme.distribution(left, h * v, h)
    rest, inner, at = jnp.zeros_like(q), left[1:], begin[1:]
    state = scheme.kinematic(inner, h * v[:-1], h * v[1:], h)
    return {0: (q, rest, rest, t), 1: (x, w, jnp.zeros_like(w), begin + scheme.distribution.weight * h), 2: (*state, at)}


@_residuals.register(DiscreteSystem)
def _discrete_residuals(system: DiscreteSystem, path: Path, *_: Any) -> tuple[Residual, ...]:
    kinematic = system.kinematic
    if kinematic is None:
        return ()
    k, q = system.order, jnp.asarray(path.q)
    windows = [q[i : q.shape[0] - k + i] for i in range(k + 1)]
    begin = jnp.asarray(path.t)[: len(windows[0])]
    values = jax.vmap(lambda t, *x: jnp.atleast_1d(system.call(kinematic, *x, t=t)))(begin, *windows)
    return (Residual("kinematic", np.asarray(path.t)[system.factor - 1 :][: len(values)], np.asarray(values)),)


def _residual_along(name: str, t, function: Callable, x, w, a) -> Residual:
    return Residual(name, np.asarray(t), np.asarray(over_rows(function, (x, w, a, t))))


@_momentum.register(VariationalProblem)
def higher_momentum(
    problem: VariationalProblem, path: Path, generator: Callable, scheme: Scheme | WindowMap | None
) -> Invariant:
    """J_d(ξ) = Θ⁺·ξ_Q at all runs of 2k nodes of a path, at the time of the last one.

    As Σ_j Π_j · Δʲξ_Q/hʲ: of the momenta's size. Rounding of the stored nodes, ε|q|/2 each, is seen in the highest of their
    differences, of order 2k-1: |ΔJ| ≤ 4^{k-1} ε |q| |ξ_Q| |L_{q⁽ᵏ⁾q⁽ᵏ⁾}|/h^{2k-1} to leading order, whatever the
    number of steps. Source: Colombo, Martín de Diego, Zuccalli, Remark 3.5.
    """
    known = read_flow_path(problem, path, scheme)
    check_direction(known.problem, generator, path.q.shape[1])
    return Invariant(*_higher_momenta(known, generator))


@seldom
def _higher_momenta(path: FlowPath, generator: Callable):
    """Times and values, in one program: outside of one every small operation is compiled for every length of a path."""
    problem, scheme, *_, h = path
    k = problem.derivatives

    def momentum_of_window(points, free, begin):
        momenta = momenta_of_nodes(problem, scheme, points, free, h, begin).momenta
        direction = jnp.stack([problem.call(generator, x, t=begin + (k + i) * h) for i, x in enumerate(points[k:])])
        return jnp.sum(momenta * forward_differences(direction, h))

    nodes, rows, begin = path_windows(path)
    return begin + (2 * k - 1) * h, jax.vmap(momentum_of_window)(nodes, rows, begin)


@_energy.register(VariationalProblem)
def higher_energy(problem: VariationalProblem, path: Path, scheme: Scheme | WindowMap | None) -> Invariant:
    """E_i = -∂/∂h_i Σ L̃_d over the k windows that contain the step h_i = t_{i+1} - t_i; at the middle of that step.

    The sum has the weights (t_{i+k} - t_i)/k, so that E_i tends to the energy Σ_j p_j·q⁽ʲ⁺¹⁾ - L. With a fixed
    step it oscillates, with an amplitude O(h²). Source: Colombo, Martín de Diego, Zuccalli, section 4.1, divided by k.
    """
    return Invariant(*_higher_energies(read_flow_path(problem, path, scheme)))


@seldom
def _higher_energies(path: FlowPath):
    problem, scheme, *_, h = path
    k = problem.derivatives

    def energy_of_window(points, free, begin):
        def action(step):
            times = h * jnp.arange(2 * k) + (step - h) * (jnp.arange(2 * k) >= k)
            return node_action(problem, scheme, points, free, times, begin)

        return -jax.grad(action)(h)

    nodes, rows, begin = path_windows(path)
    return begin + (k - 0.5) * h, jax.vmap(energy_of_window)(nodes, rows, begin)


@described_by_fields
class Multipliers(NamedTuple):
    """Multipliers and constraint forces along a path.

    d/dt L_v - L_q = f + Rᵀλ: λ and Rᵀλ along a path.

    Attributes:
        t: (K,) times.
        multipliers: (K, m) λ.
        forces: (K, n) Rᵀλ.
    """

    t: Float[Array, "K"]
    multipliers: Float[Array, "K m"]
    forces: Float[Array, "K n"]


@on_host
def multipliers(system: System, path: Path) -> Multipliers:
    """Compute the multipliers of the continuous equations along a path.

    λ(q, v) with  d/dt L_v - L_q = f + Rᵀλ  and the index-reduced constraints, at the states (q, v) of the path.

    They have the order of (q, v), and the times of the velocities. `path.multipliers` are those of the discrete
    equations: of order 2 at their own times `path.t_multipliers`, and of order 1 as values at the end of the step. (A
    composed scheme has no such discrete multipliers: there the two agree.) The held forces of a sampled law are not
    included. Works under jit. If velocities lie half way between nodes, the position is the mid-point, as in `energy`.

    Args:
        system: a System.
        path: its Path.

    Returns:
        Multipliers.

    Raises:
        TypeError: system is not a System.

    Source: Jiménez, Scheurle, Remark 4.3, eq. (23).

    Example:
        >>> turning = da.simulate(sphere, [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], h=0.1, steps=20)
        >>> da.measure.multipliers(sphere, turning).multipliers.shape
        (21, 1)
    """
    q, v, t = states_of(system, path)
    return Multipliers(t, *over_rows(_multipliers_at, (q, v, t), system))


def _multipliers_at(system: System, q, v, t):
    a, found, _ = acceleration(system, q, v, t)
    return found, all_reactions(system, q, v, a, t).T @ found
