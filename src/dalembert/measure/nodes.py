"""The node equations as functions of neighbouring nodes: what the theorems about a discrete system are stated in."""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.algebra import Newton, Solve, implicit, newton
from dalembert.discretize import (
    OF_STATES,
    DiscreteSystem,
    Interval,
    Reading,
    Scheme,
    WindowMap,
    as_scheme,
    check_group_scheme,
    check_maps,
    incoming,
    outgoing,
)
from dalembert.discretize.discrete import discrete_impulses
from dalembert.discretize.nodes import discrete_force, legendre_plus, node_reactions
from dalembert.groups import Space
from dalembert.numbers import as_vector, described
from dalembert.path import Path, check_path
from dalembert.step import StepProgram
from dalembert.step.programs.node import DiscreteProgram, NodeProgram
from dalembert.step.start.prepare import check_discrete
from dalembert.systems import System, as_step, check_shapes, check_system, is_traced, output_shape, run_on_shapes
from dalembert.systems.system import group_space
from dalembert.tracing import traced_once

Vector = Float[Array, "n"]

_CLOSE = Newton(tolerance=1e-11, max_iterations=50)  # quadratic: the update that passes leaves about its square


class NodeView(eqx.Module):
    """D₁L_d(q₁,q₂) + D₂L_d(q₀,q₁) + h(f + R_dᵀλ) = 0, (q₀,q₁,q₂) ∈ D_K, as functions of the nodes; t is the time of q₁."""

    h: Float[Array, ""]
    origins: Any = eqx.field(default=None, kw_only=True)  # three nodes on a group; others are in coordinates around them
    traced: tuple[Callable, ...] = eqx.field(static=True, default=(), kw_only=True)  # `residual`, traced once

    @property
    @abc.abstractmethod
    def m(self) -> int:
        """Number of multipliers."""

    @property
    def deflates(self) -> bool:
        """False where the step that a run solves is the one that the user wrote."""
        return False

    @abc.abstractmethod
    def program(self, deflated: bool) -> StepProgram:
        """The step. deflated: as a run solves it, with λ = -φ₀/u of a Lyapunov constraint, or as the user wrote it."""

    @abc.abstractmethod
    def impulse(self, q0: Vector, q1: Vector, q2: Vector, t) -> Vector:
        """h f at q₁, of the user's forces."""

    @abc.abstractmethod
    def momentum(self, q0: Vector, q1: Vector, t) -> Vector:
        """D₂L_d(q₀,q₁), t the time of q₀."""

    @abc.abstractmethod
    def outgoing(self, q0: Vector, q1: Vector, t) -> Vector:
        """D₁L_d(q₀,q₁) + f_d⁻, t the time of q₀."""

    @abc.abstractmethod
    def incoming(self, q0: Vector, q1: Vector, t) -> Vector:
        """D₂L_d(q₀,q₁) + f_d⁺, t the time of q₀."""

    @abc.abstractmethod
    def pair(self, q0: Vector, q1: Vector, t) -> Float[Array, "k"]:
        """The equations of the first two nodes (Remark 3.4)."""

    def around(self, *nodes: Any) -> tuple[Any, Any]:
        """(view, coordinates): on a group all is a function of coordinates around these nodes, which are 0 there."""
        return self, nodes

    def node(self, which: int, y: Vector) -> Vector:
        """A node from its coordinates."""
        return y

    def ahead(self, v: Vector) -> Self:
        """The view around the third node that this velocity leads to."""
        return self

    def later(self) -> Self:
        """The view whose first two nodes are the second and third."""
        return self

    def end(self, q1: Vector, v: Vector) -> Vector:
        """The third node, from the velocity of the second interval."""
        return q1 + self.h * v

    def velocity(self, first: int, a: Vector, b: Vector) -> Vector:
        """Of the interval between two nodes. first: the number of a."""
        return (b - a) / self.h

    def state(self, q0: Vector, q1: Vector, t) -> tuple[Vector, Vector, Any]:
        """(q, v, t) of the program, from the pair."""
        return q1, self.velocity(0, q0, q1), t

    def residual(self, deflated: bool, z: Float[Array, "z"], q0: Vector, q1: Vector, t) -> Float[Array, "z"]:
        """The equations of the step at z = (v', λ)."""
        if self.traced:
            return self.traced[deflated](self.origins, z, q0, q1, t)
        return self.step_equations(deflated, z, q0, q1, t)

    def step_equations(self, deflated: bool, z: Float[Array, "z"], q0: Vector, q1: Vector, t) -> Float[Array, "z"]:
        """The same, not traced before."""
        q, v, now = self.state(q0, q1, t)
        return self.program(deflated).residual(z, q, v, now, self.h, jnp.zeros_like(v))

    def once(self) -> Self:
        """The same view, for a program that reads its equations in many places: JAX traces them once, around all origins."""

        def equations(deflated: bool, origins: Any, *given: Any) -> Float[Array, "z"]:
            return dataclasses.replace(self, origins=origins).step_equations(deflated, *given)

        once = [traced_once(functools.partial(equations, x)) for x in ((False, True) if self.deflates else (False,))]
        return dataclasses.replace(self, traced=(once[0], once[-1]))

    def equations(self, q0: Vector, q1: Vector, q2: Vector, multipliers, t) -> Float[Array, "n_plus_m"]:
        """The left sides: n of motion, then m kinematic ones."""
        return self.residual(False, jnp.concatenate([self.velocity(1, q1, q2), multipliers]), q0, q1, t)

    def balance(self, q0: Vector, q1: Vector, q2: Vector, t) -> Vector:
        """β = D₁L_d(q₁,q₂) + D₂L_d(q₀,q₁) + h f, a covector at q₁; the constraint forces balance it."""
        return self.equations(q0, q1, q2, jnp.zeros(self.m), t)[: q1.shape[0]]

    def kinematic(self, q0: Vector, q1: Vector, q2: Vector, t) -> Float[Array, "m"]:
        """Zero on D_K, besides `pair`."""
        return self.equations(q0, q1, q2, jnp.zeros(self.m), t)[q1.shape[0] :]

    def reactions(self, q0: Vector, q1: Vector, q2: Vector, t) -> Float[Array, "m n"]:
        """R_d(q₀,q₁,q₂): rows span the annihilator of D_V."""
        if self.m == 0:  # nothing is traced for them
            return jnp.zeros((0, q1.shape[0]))
        motion = lambda x: self.equations(q0, q1, q2, x, t)[: q1.shape[0]]  # noqa: E731
        return jax.jacfwd(motion)(jnp.zeros(self.m)).T / self.h

    def multipliers(self, q0: Vector, q1: Vector, q2: Vector, t) -> Float[Array, "m"]:
        """λ of `constraint_force`: on a trajectory the multipliers themselves."""
        return self.constraint_force(q0, q1, q2, t)[0]

    def constraint_force(self, q0: Vector, q1: Vector, q2: Vector, t) -> tuple[Float[Array, "m"], Vector]:
        """(λ, R_dᵀλ) with the least |β + h R_dᵀλ|."""
        if self.m == 0:
            return jnp.zeros(0), jnp.zeros_like(q1)
        r = self.reactions(q0, q1, q2, t)
        found = -jnp.linalg.solve(r @ r.T, r @ self.balance(q0, q1, q2, t)) / self.h
        return found, r.T @ found

    def solve(self, q0: Vector, q1: Vector, t) -> tuple[Float[Array, "z"], Solve]:
        """z = (v', λ) of the step from (q₀,q₁), by Newton's iteration from the constant velocity; t the time of q₁."""
        program, (q, s, now) = self.program(True), self.state(q0, q1, t)
        equations = lambda z: self.residual(True, z, q0, q1, t)  # noqa: E731
        scale = lambda z: program.scale(z, q, s, self.h)  # noqa: E731
        return newton(equations, program.guess(q, s, now, self.h), scale, _CLOSE)

    def flow(self, q0: Vector, q1: Vector, t, z: Float[Array, "z"]) -> Vector:
        """q₂ from the solved step z, with the first derivative of the discrete flow; t the time of q₁."""
        return self.end(q1, implicit(functools.partial(self.residual, True), z, q0, q1, t)[: q1.shape[0]])


class SystemNodes(NodeView):
    """Of a System, discretized by a scheme; rows: (order, number) of its constraints. On a group covectors are those of the
    coordinates."""

    system: System
    scheme: Scheme
    rows: tuple[tuple[int, int], ...] = eqx.field(static=True)

    @property
    def m(self) -> int:
        return sum(count for _, count in self.rows)

    @property
    def deflates(self) -> bool:
        return any(order == 2 for order, _ in self.rows)

    def around(self, *nodes: Any) -> tuple[Any, Any]:
        space = group_space(self.system)
        if space is None:
            return self, nodes
        zero = jnp.zeros(space.n)
        return dataclasses.replace(self, origins=(*nodes, nodes[-1])[:3]), (zero,) * len(nodes)

    def ahead(self, v: Vector) -> Self:
        if self.origins is None:
            return self
        end = self.origins[1] + self.system.space.cross_interval(self.origins[1], self.h * v)
        return dataclasses.replace(self, origins=(*self.origins[:2], end))

    def later(self) -> Self:
        return self if self.origins is None else dataclasses.replace(self, origins=(*self.origins[1:], self.origins[2]))

    def node(self, which: int, y: Vector) -> Vector:
        return y if self.origins is None else self.system.space.retract(self.origins[which], y)

    def velocity(self, first: int, a: Vector, b: Vector) -> Vector:
        return self.system.space.between(self.node(first, a), self.node(first + 1, b)) / self.h

    def end(self, q1: Vector, v: Vector) -> Vector:
        if self.origins is None:
            return super().end(q1, v)
        here = self.node(1, q1)
        return self.system.space.between(self.origins[2], here + self.system.space.cross_interval(here, self.h * v))

    def state(self, q0: Vector, q1: Vector, t) -> tuple[Vector, Vector, Any]:
        if self.origins is None:
            return super().state(q0, q1, t)
        v = self.velocity(0, q0, q1)
        return self.system.space.retract(self.node(0, q0), 0.5 * self.h * v), v, t - 0.5 * self.h

    def step_equations(self, deflated: bool, z: Float[Array, "z"], q0: Vector, q1: Vector, t) -> Float[Array, "z"]:
        found, n = super().step_equations(deflated, z, q0, q1, t), q1.shape[0]
        if self.origins is None:
            return found
        return found.at[:n].set(self.system.space.pull_back(q1, found[:n]))

    def reactions(self, q0: Vector, q1: Vector, q2: Vector, t) -> Float[Array, "m n"]:
        if self.m == 0:
            return super().reactions(q0, q1, q2, t)
        node = self.program(False).node(self.velocity(1, q1, q2), *self.state(q0, q1, t), self.h)
        return self.system.space.pull_back(q1, node_reactions(self.scheme, self.system, node))

    def program(self, deflated: bool) -> NodeProgram:
        ahead, two_step = (0.0, True) if self.origins is None else (0.5, False)
        return NodeProgram(self.system, self.scheme, self.rows, deflated, ahead, two_step)

    def interval(self, first: int, a: Vector, b: Vector, t) -> Interval:
        """Between two nodes. first: the number of a; t: its time."""
        q, space = self.node(first, a), self.system.space
        return Interval(q, space.between(q, self.node(first + 1, b)), t, self.h)

    def impulse(self, q0: Vector, q1: Vector, q2: Vector, t) -> Vector:
        before = discrete_force(self.scheme, self.system, self.interval(0, q0, q1, t - self.h), -1)
        after = discrete_force(self.scheme, self.system, self.interval(1, q1, q2, t), 0)
        return self.system.space.pull_back(q1, before + after)

    def momentum(self, q0: Vector, q1: Vector, t) -> Vector:
        found = legendre_plus(self.scheme, self.system, self.interval(0, q0, q1, t))
        return self.system.space.pull_back(q1, found)

    def outgoing(self, q0: Vector, q1: Vector, t) -> Vector:
        return self.system.space.pull_back(q0, outgoing(self.scheme, self.system, self.interval(0, q0, q1, t)))

    def incoming(self, q0: Vector, q1: Vector, t) -> Vector:
        return self.system.space.pull_back(q1, incoming(self.scheme, self.system, self.interval(0, q0, q1, t)))

    def pair(self, q0: Vector, q1: Vector, t) -> Float[Array, "k"]:
        """φ(q₀), φ(q₁), φ(ρ(q₀,q₁))."""
        out, system, between = [jnp.zeros(0)], self.system, self.interval(0, q0, q1, t)
        d = between.d
        for c in system.constraints:
            if c.order == 0:
                ends = c.residual(system, between.q, d, d, t), c.residual(system, self.node(1, q1), d, d, t + self.h)
                out += ends
            elif c.order == 1:
                q, v, _ = between.at(self.scheme.distribution, system.space)
                out.append(c.residual(system, q, v, v, t + self.scheme.distribution.weight * self.h))
        return jnp.concatenate(out)


class DiscreteNodes(NodeView):
    """Of a DiscreteSystem, which is given by its nodes."""

    system: DiscreteSystem
    count: int = eqx.field(static=True)
    read: Reading = eqx.field(static=True)

    @property
    def m(self) -> int:
        return self.count

    def program(self, deflated: bool) -> StepProgram:
        return DiscreteProgram(self.system, self.m, self.read)

    def impulse(self, q0: Vector, q1: Vector, q2: Vector, t) -> Vector:
        before, after = discrete_impulses(self.system, q0, q1, t - self.h), discrete_impulses(self.system, q1, q2, t)
        return before[1] + after[0]

    def momentum(self, q0: Vector, q1: Vector, t) -> Vector:
        return jax.grad(lambda x: self.system.call(self.system.lagrangian, q0, x, t=t))(q1)

    def outgoing(self, q0: Vector, q1: Vector, t) -> Vector:
        left = jax.grad(lambda x: self.system.call(self.system.lagrangian, x, q1, t=t))(q0)
        return left + discrete_impulses(self.system, q0, q1, t)[0]

    def incoming(self, q0: Vector, q1: Vector, t) -> Vector:
        return self.momentum(q0, q1, t) + discrete_impulses(self.system, q0, q1, t)[1]

    def pair(self, q0: Vector, q1: Vector, t) -> Float[Array, "k"]:
        """The user's `initial`."""
        initial = self.system.initial
        return jnp.zeros(0) if initial is None else jnp.atleast_1d(self.system.call(initial, q0, q1, t=t))


@functools.singledispatch
def node_view(system: System | DiscreteSystem, scheme: Scheme | WindowMap | None, h, n: int) -> NodeView:
    """The view for n coordinates; TypeError or ValueError where no map (q₀,q₁) → (q₁,q₂) exists."""
    raise TypeError(f"system: found {described(system)}; give a System or a DiscreteSystem")


@node_view.register(DiscreteSystem)
def _discrete_view(system: DiscreteSystem, scheme: Any, h, n: int) -> NodeView:
    count, read = check_discrete(system, jnp.zeros((2, n))), system.reading(n)
    if read.needed != 2:
        raise ValueError(f"system: its flow needs {read.needed} nodes; the theorems are about pairs (order, factor 2)")
    return DiscreteNodes(jnp.asarray(as_step(h), dtype=float), system, count, read)


@node_view.register(System)
def _system_view(system: System, scheme: Scheme | WindowMap | None, h, n: int) -> NodeView:
    step, space = jnp.asarray(as_step(h), dtype=float), group_space(system)
    chosen = as_scheme(scheme, Scheme("nodes" if space is None else "drift_kick_drift"))
    check_maps(chosen, n if space is None else space.n)
    if chosen.form in OF_STATES:
        raise ValueError(f"scheme: {chosen.form} is not a map of pairs of nodes; give nodes and Scheme('nodes')")
    if space is not None:
        check_group_scheme(chosen, system.constraints)
    numbers = check_shapes(system, jnp.zeros(n), jnp.zeros(n if space is None else space.n), jnp.zeros(()))
    return SystemNodes(step, system, chosen, tuple((c.order, m) for c, m in zip(system.constraints, numbers, strict=True)))


def form_of(path: Path, system: System | DiscreteSystem, scheme: Scheme | WindowMap | None) -> tuple[Scheme, str]:
    """The scheme that made the path, and its form; ValueError where the path shows that it was another one."""
    check_single(path)
    return _form_of(system, path, scheme)


@functools.singledispatch
def _form_of(system: System, path: Path, scheme: Scheme | WindowMap | None) -> tuple[Scheme, str]:
    check_system(system, "give a System or a DiscreteSystem")
    _check_fits(system, path)
    chosen = as_scheme(scheme)
    form = chosen.form_for(system.constraints)
    level = "mid" if form == "nodes" else "node"
    recorded = repr(chosen) if path.provenance is None else path.provenance.scheme
    if level != path.levels[0] or recorded != repr(chosen):
        raise ValueError(
            f"scheme: the path was not made with the form {form!r} and these maps; give simulate's scheme= here too"
        )
    return chosen, form


@_form_of.register(DiscreteSystem)
def _form_of_nodes(system: DiscreteSystem, path: Path, scheme: Any) -> tuple[Scheme, str]:
    return Scheme("nodes"), "nodes"


def check_direction(system: Any, generator: Callable, n: int, name: str = "generator:") -> None:
    """ValueError where a generator, so named in the message, returns anything but a direction (n,), on a group in the axes
    of the velocities."""
    call = lambda s, q: output_shape(lambda: s.call(generator, q, t=0.0), name.rstrip(":"), "q" + s.trailing)  # noqa: E731
    shape = run_on_shapes(call, system, np.zeros(system.space.stored_size(n)))
    if shape != (n,):
        raise ValueError(f"{name} returns shape {shape}; a direction of shape ({n},) is needed")


def node_ahead(scheme: Scheme, space: Space, q: Vector, v: Vector, t, h) -> tuple[Vector, Interval]:
    """The node after a state of drift_kick_drift, and the interval that ends there."""
    back = scheme.state.weight
    if space.flat:
        first = q - back * h * v
        return first + h * v, Interval(first, h * v, t - back * h, h)
    return space.retract(q, (1.0 - back) * h * v), Interval(q, h * v, t - back * h, h, back)


def kernel(rows: Float[Array, "m k"]) -> Float[Array, "k d"]:
    """Orthonormal columns that span the kernel of independent rows; the unit vectors where there are none."""
    m, k = rows.shape
    return jnp.linalg.svd(rows, full_matrices=True)[2][m:].T if m else jnp.eye(k)


def states_of(system: System, path: Path) -> tuple[Array, Array, Array]:
    """q, v, t at the velocities' times; where these lie half way between nodes the position is the mid-point, q - (h/2)v."""
    check_system(system)
    check_single(path)
    _check_fits(system, path)
    xp: Any = jnp if is_traced(path) else np  # XLA would compile every operation for every length of a path
    q, v, t, h = (xp.asarray(x) for x in (path.q, path.v, path.t_velocity, path.h))
    return q[-v.shape[0] :] - (0.5 * h * v if path.levels[0] == "mid" else 0.0), v, t


def _check_fits(system: System, path: Path) -> None:
    """The system's functions take states of the path; by NumPy's zeros, as slices of the path would be compiled."""
    check_shapes(system, np.zeros(path.q.shape[-1]), np.zeros(path.v.shape[-1]), np.zeros(()))


def check_single(path: Path) -> None:
    """TypeError for what is no path, ValueError for a batch of paths, and for a path without a state."""
    check_path(path)
    if np.ndim(path.code):
        raise ValueError(f"path: holds a batch of shape {np.shape(path.code)}; give one lane, such as path.lane(0)")
    if path.v.shape[0] == 0:
        raise ValueError("path: holds no state with a velocity; simulate at least one step")


def check_neighbours(path: Path) -> None:
    """Errors of `check_single`, and where states were left out: what follows reads neighbouring states."""
    check_single(path)
    if is_traced(path):
        return
    t, h = np.asarray(path.t), float(path.h)
    if t.shape[0] < 2 or np.max(np.abs(np.diff(t) - h)) > 1e-6 * abs(h) + 1e-14 * np.max(np.abs(t)):
        widest = np.max(np.abs(np.diff(t)), initial=0.0)
        raise ValueError(
            f"path: saved states are up to {widest:g} apart and h is {h:g}; neighbouring states are needed. "
            "Simulate with save=Save(every=1) and equal steps"
        )


def nodes_of(path: Path, system: System | DiscreteSystem, scheme: Scheme | WindowMap | None) -> tuple[Scheme, Array, Array]:
    """Scheme, nodes (K, n) of the two step form and their times: q itself, or q̃ + (1-β)h v where the state is between.

    A path in kick-drift-kick form gives its nodes where all constraints are holonomic: they satisfy the node equations.
    """
    chosen, form = form_of(path, system, scheme)
    check_neighbours(path)
    if chosen.order > 2:
        raise ValueError(f"scheme: a step of order {chosen.order} has stages of different steps; nodes belong to order=2")
    xp: Any = jnp if is_traced(path) else np
    q, v, t, h = map(xp.asarray, (path.q, path.v, path.t, path.h))
    if form == "drift_kick_drift":
        back = chosen.state.weight * h
        ahead = h - back
        nodes = system.space.along(q[:1], -back * v[:1]), system.space.along(q, ahead * v)
        return chosen, xp.concatenate(nodes), xp.concatenate([t[:1] - back, t + ahead])
    if form in OF_STATES and (form == "discrete_gradient" or any(c.order > 0 for c in getattr(system, "constraints", ()))):
        raise ValueError(f"path: in {form} form nodes alone satisfy no equations here; use the form 'nodes'")
    return dataclasses.replace(chosen, form="nodes" if system.space.flat else "drift_kick_drift"), q, t


def read_node(system: Any, given: Any, name: str, like: Vector | None = None) -> Vector:
    """A node (size,) as it is stored, on a group also from a mapping. like: another one."""
    space = group_space(system)
    if space is not None:
        return jnp.asarray(space.read_position(given, name))
    return as_vector(given, name) if like is None else as_vector(given, name, like.shape[0])
