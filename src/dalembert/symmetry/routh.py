"""routh: coordinates that L does not read are left out; their momentum is a constant of the reduced system."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dalembert.algebra.least_norm import inverse
from dalembert.symmetry.chaplygin_equations import with_own
from dalembert.symmetry.flows import chart_of, in_chart
from dalembert.symmetry.frames import VelocityFrame, indices_of
from dalembert.symmetry.reduced import Reduced
from dalembert.symmetry.samples import Neighbourhood, Samples, place_of_search, sample
from dalembert.symmetry.turned import TurnedReduction
from dalembert.systems import Holonomic, System, check_x64
from dalembert.systems.checks import RankDeficientError
from dalembert.systems.equations import all_reactions, force
from dalembert.systems.pickling import made
from dalembert.systems.system import check_shapes, check_system
from dalembert.tracing import Jitted, seldom

POINTS = 24  # states at which the hypotheses are looked at
SAME = 1e-9  # relative size of what should be zero


def routh(
    system: System, q0, v0, *, group: Any = None, generators: Any = None, t0: float = 0.0, size=None
) -> Reduced | TurnedReduction:
    """d/dt R_ṙ - R_r = f + φ_rᵀλ, R(r, ṙ) = L - μ·ġ with L_ġ = μ: the system without its cyclic coordinates g.

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
                "own; see chaplygin for those on velocities"
            )
    check_shapes(system, place.q0, place.v0, np.asarray(place.t0))
    if generators is None:
        return _by_coordinates(system, place, indices_of(system, group, len(place.q0)))
    return _by_generators(system, place, generators)


def _by_generators(system: System, place: Neighbourhood, generators: Any) -> TurnedReduction:
    """In coordinates (r, g), which the group shifts."""
    q, v, now, size = place
    inertia = np.abs(np.asarray(_inertia_of(system, q, v, now)))
    chart = chart_of(generators, q, inertia)
    names = system.coordinates or tuple(f"q{i}" for i in range(len(q)))
    shape = tuple(names[i] for i in chart.shape)
    turns = tuple(_free(f"g{i + 1}" if len(chart.group) > 1 else "g", shape) for i in range(len(chart.group)))
    x = chart.coordinates(q)
    there = Neighbourhood(x, chart.velocity(x, v), now, None if size is None else chart.sizes(q, size))
    shifted = _by_coordinates(in_chart(system, chart, (*shape, *turns)), there, tuple(range(len(shape), len(q))))
    momentum = chart.along(q).T @ np.asarray(_slope(system, q, v, now))
    return TurnedReduction(shifted.system, shifted.x0, shifted.w0, system, momentum, shifted, chart, (q, v))


def _free(name: str, taken: tuple[str, ...]) -> str:
    return name if name not in taken else _free(f"{name}_", taken)


def _by_coordinates(system: System, place: Neighbourhood, group_at: tuple[int, ...]) -> Reduced:
    """Without the coordinates with these numbers."""
    q, v, now, _ = place
    shape = tuple(i for i in range(len(q)) if i not in group_at)
    _check(system, group_at, sample(system, place, POINTS))
    inertia, momentum = (np.asarray(x) for x in _of_group(system, group_at, q, v, now))
    sizes = np.sqrt(np.abs(np.diag(inertia)))  # coordinates of the group may differ in unit
    sizes = np.where(sizes > 0.0, sizes, 1.0)
    values = np.linalg.svd(inertia / np.outer(sizes, sizes), compute_uv=False)
    if values[-1] <= 1e-12 * values[0]:
        raise RankDeficientError(
            f"group: its inertia L_ġġ is singular at q0, singular values {values}; ġ cannot be solved for"
        )
    constant = tuple(momentum.tolist())
    parts = _connection(system, shape, group_at, constant)
    own = VelocityFrame(shape, group_at, 0, tuple(q.tolist()), parts)
    names = system.coordinates or tuple(f"q{i}" for i in range(len(q)))
    reduced = System(
        _routhian(system, own, constant), [_held(own, c) for c in system.constraints],
        forces=None if system.forces is None else _forces(system, own, constant), coordinates=tuple(names[i] for i in shape),
        parameters=system.parameters, time_dependent=system.time_dependent,
    )  # fmt: skip
    return Reduced(reduced, q[list(shape)], v[list(shape)], system, own, "Routh")


def _at(group: tuple[int, ...]) -> np.ndarray:
    return np.array(group, dtype=int)


def _connection(system: System, shape: tuple, group: tuple, momentum: tuple) -> tuple[Callable, Callable]:
    """B = (1, -M_gg⁻¹M_gr) and c = (0, M_gg⁻¹(μ - L_ġ at rest))."""
    return _basis(system, shape, group), _drift(system, shape, group, momentum)


@made
def _basis(system: System, shape: tuple, group: tuple) -> Callable:
    def basis(q, *trailing):
        own, t = with_own(system, trailing)
        by = jax.jacfwd(jax.grad(lambda v: own.call(own.lagrangian, q, v, t=t)))(jnp.zeros_like(q))[_at(group)]
        lift = inverse(by[:, _at(group)]) @ by[:, _at(shape)]
        one = jnp.zeros((q.shape[0], len(shape))).at[_at(shape), np.arange(len(shape))].set(1.0)
        return one.at[_at(group)].set(-lift)

    return basis


@made
def _drift(system: System, shape: tuple, group: tuple, momentum: tuple) -> Callable:
    def drift(q, *trailing):
        own, t = with_own(system, trailing)
        slope = jax.grad(lambda v: own.call(own.lagrangian, q, v, t=t))
        rest = jnp.zeros_like(q)
        inertia = jax.jacfwd(slope)(rest)[_at(group)][:, _at(group)]
        return rest.at[_at(group)].set(inverse(inertia) @ (jnp.array(momentum) - slope(rest)[_at(group)]))

    return drift


@Jitted  # traced once, however often the equations and their derivatives ask for it
def _velocity(system: System, frame: VelocityFrame, momentum, x, w, t):
    """(ṙ, ġ) with L_ġ = μ: one step of Newton's method from rest, which is exact for a quadratic L."""
    q, group = frame.section(x), _at(frame.group)
    rest = jnp.zeros_like(q).at[_at(frame.shape)].set(w)
    along = lambda rates: system.call(system.lagrangian, q, rest.at[group].set(rates), t=t)  # noqa: E731
    still = jnp.zeros(len(group))
    return rest.at[group].set(inverse(jax.hessian(along)(still)) @ (momentum - jax.grad(along)(still)))


@made
def _routhian(system: System, frame: VelocityFrame, momentum: tuple) -> Callable:
    def routhian(x, w, *trailing):
        own, t = with_own(system, trailing)
        v = _velocity(own, frame, jnp.array(momentum), x, w, t)
        return own.call(own.lagrangian, frame.section(x), v, t=t) - jnp.array(momentum) @ v[_at(frame.group)]

    return routhian


@made
def _forces(system: System, frame: VelocityFrame, momentum: tuple) -> Callable:
    def forces(x, w, *trailing):
        own, t = with_own(system, trailing)
        v = _velocity(own, frame, jnp.array(momentum), x, w, t)
        return force(own, frame.section(x), v, t)[_at(frame.shape)]

    return forces


def _held(frame: VelocityFrame, constraint: Any) -> Holonomic:
    """The constraint on the shape."""
    reactions = None if constraint.reactions is None else _rows(frame, constraint.reactions)
    return Holonomic(_on_shape(frame, constraint.phi), reactions=reactions)


@made
def _on_shape(frame: VelocityFrame, phi: Callable) -> Callable:
    return lambda x, *trailing: phi(frame.section(x), *trailing)


@made
def _rows(frame: VelocityFrame, reactions: Callable) -> Callable:
    return lambda x, *trailing: jnp.atleast_2d(reactions(frame.section(x), *trailing))[:, _at(frame.shape)]


@seldom
def _inertia_of(system: System, q, v, t):
    return jax.hessian(lambda u: system.call(system.lagrangian, q, u, t=t))(v).diagonal()


@seldom
def _slope(system: System, q, v, t):
    return jax.grad(lambda u: system.call(system.lagrangian, q, u, t=t))(v)


@seldom
def _of_group(system: System, group: tuple, q, v, t):
    """L_ġġ and L_ġ."""
    slope = jax.grad(lambda w: system.call(system.lagrangian, q, w, t=t))
    return jax.jacfwd(slope)(v)[_at(group)][:, _at(group)], slope(v)[_at(group)]


@seldom
def _read(system: System, group: tuple, q, v, t):
    """What should be zero, with the sizes of what it is compared with."""

    def at(x, w, t):
        by_q, by_v = jax.grad(lambda y, u: system.call(system.lagrangian, y, u, t=t), (0, 1))(x, w)
        pushed, by = force(system, x, w, t), jax.jacfwd(lambda y: force(system, y, w, t))(x)
        rows = all_reactions(system, x, w, jnp.zeros_like(w), t)
        second = jax.hessian(lambda u: system.call(system.lagrangian, x, u, t=t))
        here, there = (second(y)[_at(group)][:, _at(group)] for y in (w, w.at[_at(group)].multiply(0.5)))
        return (
            (by_q[_at(group)], by_q), (jnp.append(pushed[_at(group)], by[:, _at(group)]), jnp.append(pushed, by)),
            (rows[:, _at(group)], rows), (here - there, here), by_v,
        )  # fmt: skip

    return jax.vmap(at)(q, v, t)


def _check(system: System, group: tuple[int, ...], samples: Samples) -> None:
    """ValueError for what reads a coordinate of the group, or acts on it."""
    jets = samples.jets
    *found, by_v = _read(system, group, jets[:, 0], jets[:, 1], samples.times)
    told = (
        "L reads a coordinate of it", "forces act on it, or read it", "a constraint reads it",
        "L is not quadratic in its velocities",
    )  # fmt: skip
    kinetic = float(np.max(np.abs(np.asarray(by_v)) * np.abs(jets[:, 1]), initial=0.0))
    reach = float(np.max(np.ptp(jets[:, 0], axis=0), initial=0.0)) or 1.0
    for number, (words, (part, whole)) in enumerate(zip(told, found, strict=True)):
        largest, size = (float(np.max(np.abs(np.asarray(x)), initial=0.0)) for x in (part, whole))
        size = max(size, kinetic / reach) if number == 0 else size
        if largest > SAME * size:
            raise ValueError(f"group: {words} (up to {largest:.2g}); da.symmetries finds what does not change")
