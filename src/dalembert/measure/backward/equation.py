"""The modified equation of a scheme, ż = f(z) + h^p f_p(z) + … + h^q f_q(z): its flow over a step h is a step of the scheme.

The nodes z_k = Φᵏ(z) of a run lie on a smooth curve, a solution of the equation with all its terms. Its derivative at z₀ is
the derivative of a polynomial through nodes next to z₀. From runs with several steps h a fit in powers of h gives f_j.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.algebra import least_norm, may_jump
from dalembert.discretize import Scheme, as_scheme
from dalembert.measure.perturbed_flow import one_step_map
from dalembert.notebook import Described
from dalembert.numbers import EPSILON, as_array, as_number, as_positive, as_tolerance, refuse_traced, whole_number
from dalembert.step import simulate
from dalembert.systems import System, acceleration, check_initial_data, check_system, momentum
from dalembert.systems.consistency import onto_constraints, stacked_residuals
from dalembert.systems.distribution.charts import read_points
from dalembert.systems.equations import force
from dalembert.systems.sizes import check_times
from dalembert.systems.system import at_origin
from dalembert.tracing import Jitted, over_many_rows, over_rows, seldom

Vector = Float[Array, "n"]
State = Float[Array, "2n"]

MORE = 2  # powers of h that are fitted beyond those wanted: what they take up does not disturb these
LADDER = 2.0 ** np.arange(-4, 8)  # times the user's step: sizes of the steps that are tried
KNOWN = 0.1  # relative doubt about a term, above which it is not known
BATCH = 64  # states that are evaluated together


class Stencil(NamedTuple):
    """Of the runs: the powers of h (S,), steps in parts of the largest (S,), nodes (M,), weights of the derivative at node 0
    (M,), the matrix from derivatives at the steps to coefficients of the powers (S, S)."""

    powers: np.ndarray
    parts: np.ndarray
    nodes: np.ndarray
    weights: np.ndarray
    fit: np.ndarray

    @classmethod
    def of(cls, powers: Sequence[int], reversible: bool) -> Stencil:
        """For powers p, …, q. reversible: a step by -h leads back, so that nodes before z₀ are known and powers even."""
        spacing = 2 if reversible else 1
        fitted = np.array([*powers, *(powers[-1] + spacing * (1 + np.arange(MORE)))])
        count, last = len(fitted), int(fitted[-1])
        nodes = np.arange(-(last // 2), last // 2 + 1) if reversible else np.arange(last + 1)
        parts = np.arange(1, count + 1) / count if reversible else _two_sided(count)
        weights = np.linalg.solve(np.vander(nodes.astype(float), increasing=True).T, np.eye(len(nodes))[1])
        return cls(fitted, parts, nodes, weights, np.linalg.inv(parts[:, None] ** fitted))


def _two_sided(count: int) -> np.ndarray:
    sizes = np.arange(1, (count + 1) // 2 + 1) / ((count + 1) // 2)
    return np.stack([sizes, -sizes], axis=1).ravel()[:count]


class Expansion(NamedTuple):
    """At a state: f (2n,), and the coefficients of all fitted powers (S, 2n)."""

    field: State
    terms: Float[Array, "S two_n"]


class Modified(Described, eqx.Module):
    """The modified equation of a scheme, order by order.

    q̇ = v + Σ_j h^j f_j^q(q, v, t),  v̇ = a(q, v, t) + Σ_j h^j f_j^v(q, v, t): the modified equation of a scheme. On groups
    g⁻¹ġ stands for q̇, in the axes of the velocities.

    Attributes:
        system: the System.
        scheme: the Scheme.
        powers: j of the terms, from the scheme's order p up to the order asked for.
        states: (B, 2n) the states given, q and v as in a path.
        t0: their time.
        step: the largest step of the runs from which the terms are found.
        doubt: of each term, relative to it: how far it differs if the steps are half as long.

    Source: Jiménez, Scheurle, Remark 4.5 and Section 7. Theirs has a rapidly oscillating perturbation that gives one step
    exactly; this one is autonomous for an autonomous system, and gives it up to the first power left out. Hairer, Lubich,
    Wanner, Geometric Numerical Integration, Chapter IX.
    """

    system: System
    scheme: Scheme
    powers: tuple[int, ...] = eqx.field(static=True)
    states: Float[Array, "B two_n"]
    t0: Float[Array, ""]
    step: Float[Array, ""]
    doubt: tuple[float, ...] = eqx.field(static=True)

    @property
    def order(self) -> int:
        """p: the order of the scheme, the power of the first term."""
        return self.powers[0]

    @property
    def reversible(self) -> bool:
        """True if a step by -h leads back: the scheme is self-adjoint."""
        return self.scheme.claims(self.system).not_self_adjoint is None

    @property
    def stencil(self) -> Stencil:
        """The runs, and how the terms follow from them."""
        return Stencil.of(self.powers, self.reversible)

    def terms(self, q, v, t=0.0) -> Float[np.ndarray, "J 2 n"]:
        """f_j at a state, for j of `powers`: its parts in q̇ and in v̇, tangent to the constraints.

        Args:
            q: (n,) position.
            v: (n,) velocity.
            t: time.

        Returns:
            (J, 2, n).
        """
        z, now = self._state(q, v, t)
        found = expand_at(self, z[None], now[None]).terms[0]
        return np.asarray(found[: len(self.powers)]).reshape(len(self.powers), 2, -1)

    def field(self, h, q, v, t=0.0, *, order: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """(q̇, v̇) of the modified equation for steps h.

        Args:
            h: the step.
            q: (n,) position.
            v: (n,) velocity.
            t: time.
            order: the highest power that is taken; all by default, 0 for the equation of motion.

        Returns:
            q̇ (n,), on groups g⁻¹ġ, and v̇ (n,).
        """
        z, now = self._state(q, v, t)
        found = np.asarray(_field(essentials(self), self._factors(as_step_size(h), order), z, now))
        return found[: len(found) // 2], found[len(found) // 2 :]

    def flow(self, h, q0, v0, t, *, order: int | None = None, tolerance: float = 1e-12) -> tuple[np.ndarray, np.ndarray]:
        """The solution of the modified equation for steps h, by SciPy's DOP853: the scheme's nodes lie next to it.

        Args:
            h: the step.
            q0: (n,) position at t[0].
            v0: (n,) velocity at t[0].
            t: (K,) times, of which the first is the initial one.
            order: as for `field`.
            tolerance: the relative tolerance, and the absolute one of each coordinate, there times its size where that is
                below 1; on groups the size of the largest number. Neither is less than the rounding of the terms.

        Returns:
            q (K, n), as in a path, and v (K, n) at the times.
        """
        import scipy.integrate  # loads with its first use

        times, size = np.asarray(check_times(t, tolerance)), as_step_size(h)
        z, begin = self._state(q0, v0, times[0])
        rounding, least = self._rounding(float(size), self._number_of_terms(order)), float(as_tolerance(tolerance))
        given = essentials(self), self._factors(size, order)
        rate, _ = _rate.bound(*given, z, begin)
        rates = lambda s, y: np.asarray(rate(*given, y, np.asarray(s)))  # noqa: E731
        units = np.asarray(inertial_units(given[0])) if self.system.space.flat else np.ones(z.shape)
        extents = np.abs(np.stack([z, self.states[0]]))
        sizes = np.minimum(extents.max(), units * (extents / units).max())  # of the motion, in the unit of each coordinate
        sizes = np.where(sizes > 0.0, sizes, 1.0)
        absolute = np.maximum(least * np.minimum(1.0, sizes), rounding * sizes)
        wanted: Any = {"method": "DOP853", "rtol": max(least, rounding), "atol": absolute, "t_eval": times}
        found = scipy.integrate.solve_ivp(rates, (times[0], times[-1]), np.asarray(z), **wanted)
        if not found.success:
            raise RuntimeError(f"flow: the modified equation could not be integrated: {found.message}")
        q, v = self.system.space.split_state(found.y.T)
        return self.system.space.nearest(q), v

    def describe(self) -> str:
        """The powers, and the doubt about each term."""
        sums = " + ".join(f"h^{j} f_{j}" for j in self.powers)
        lines = [f"modified equation: f + {sums}", f"steps of the runs: up to {float(self.step):.3g}"]
        return "\n".join(lines + [f"doubt about f_{j}: {x:.1e}" for j, x in zip(self.powers, self.doubt, strict=True)])

    def _state(self, q, v, t) -> tuple[State, Float[Array, ""]]:
        state = self.system.space.read_state(q, v, self.system.coordinates, as_array)
        return jnp.concatenate(state), jnp.asarray(as_number(t, "t", "a finite time"), dtype=float)

    def _rounding(self, h: float, count: int) -> float:
        """The error of the first terms for steps h by rounding of the nodes, relative to the state."""
        stencil, powers = self.stencil, np.array(self.powers[:count])
        sums = np.abs(stencil.fit[:count]) @ (1.0 / np.abs(stencil.parts)) * np.abs(stencil.weights).sum()
        return EPSILON * float(np.sum((h / float(self.step)) ** powers * sums)) / float(self.step)

    def _factors(self, h: Float[Array, ""], order: int | None) -> Float[Array, "count"]:
        """h^j of each term, 0 of those that are not taken; empty where only the equation of motion is."""
        powers, count = np.array(self.powers), self._number_of_terms(order)
        factors = np.where(np.arange(len(powers)) < count, float(h) ** powers, 0.0)
        return jnp.asarray(factors if count else factors[:0])

    def _number_of_terms(self, order: int | None) -> int:
        """How many terms are taken."""
        return len(self.powers) if order is None else sum(j <= whole_number(order, "order", 0) for j in self.powers)


def modified(
    system: System,
    q0,
    v0,
    *,
    h: float,
    scheme: Scheme | None = None,
    order: int = 4,
    t0: float = 0.0,
) -> Modified:
    """Find the modified equation that a scheme follows.

    ż = f(z) + h^p f_p(z) + … + h^q f_q(z) on the constraints, whose flow a scheme of order p follows with order q + 1 or
    more.

    Args:
        system: a System with constraints of any order.
        q0: (n,) position of a state of the motion, or (B, n) for several; on groups also by name.
        v0: (n,) velocity of the state, or (B, n).
        h: a step with which the scheme resolves the motion; terms are found from runs with steps of similar size.
        scheme: as for `simulate`, in a form that starts from (q, v).
        order: q, the highest power of h.
        t0: the time of the states.

    Returns:
        A Modified.

    Raises:
        ValueError: an argument is wrong; or the scheme has no expansion: its velocities lie between the nodes or off the
            constraints, or a function of the system jumps; or the terms cannot be told at these states.
        TypeError: an argument is of the wrong type, or traced.

    Source: Jiménez, Scheurle, Remark 4.5 and Section 7; Borda, Fernández, Grillo, Section 6.

    Example:
        >>> found = da.measure.modified(pendulum, [1.0], [0.0], h=0.1, order=2)
        >>> found.powers, found.terms([1.0], [0.0]).shape
        ((2,), (1, 2, 1))
    """
    check_system(system)
    one_step_map(system, scheme, None, 0.0)
    chosen, size, begin = as_scheme(scheme), float(as_positive(h, "h", "a positive, finite step")), as_number(t0, "t0")
    points, speeds = read_points(system, q0, v0)
    refuse_traced("modified", system, points, speeds, begin)
    for q, v in zip(points, speeds, strict=True):
        check_initial_data(*at_origin(system, q, v), jnp.asarray(begin, dtype=float), size)
    _check_smooth(system, points.shape[1], speeds.shape[1])
    powers = powers_of(system, chosen, whole_number(order, "order", most=12))
    states, steps = jnp.concatenate([points, speeds], axis=1), size * LADDER
    now = jnp.asarray(begin, dtype=float)
    made = [Modified(system, chosen, powers, states, now, jnp.asarray(x), (0.0,) * len(powers)) for x in steps]
    doubts = _doubts([expand_at(x, states, jnp.full(len(points), now)) for x in made], steps, powers)
    best = int(np.argmin(doubts[:, -1]))
    if not np.all(doubts[best] <= KNOWN):
        worst = powers[int(np.argmax(doubts[best] > KNOWN))]
        raise ValueError(
            f"order: the term of h^{worst} cannot be told at these states by steps from {steps[0]:.3g} to {steps[-1]:.3g}: "
            f"from two sizes it differs by {doubts[best].max():.2g} of itself. Give an h that resolves the motion, or a "
            "lower order; a motion that is not smooth has no such terms"
        )
    return dataclasses.replace(made[best + 1], doubt=tuple(map(float, doubts[best])))


def _doubts(found: list[Expansion], steps: np.ndarray, powers: tuple[int, ...]) -> np.ndarray:
    """For each step but the least: the largest difference of each term from that by half the step, over its largest
    value; infinite where a run fails, (K-1, J)."""
    terms = np.stack([np.asarray(x.terms[:, : len(powers)]) for x in found])
    nothing = 1e-11 * np.max(np.abs(found[0].field)) / steps[1:, None] ** np.array(powers)
    largest = lambda x: np.max(np.abs(x), axis=(1, 3))  # noqa: E731
    doubts = largest(np.diff(terms, axis=0)) / np.maximum(largest(terms[1:]), nothing)
    return np.where(np.isfinite(doubts), doubts, np.inf)


def powers_of(system: System, scheme: Scheme, order: int) -> tuple[int, ...]:
    """p, …, q, of even numbers alone if the scheme is self-adjoint."""
    declared = scheme.claims(system)
    if scheme.state_apart(system.constraints) or (
        any(c.order == 1 for c in system.constraints) and not declared.keeps_distribution
    ):
        raise ValueError(
            "scheme: its states leave the constraint on velocities by one step (of first order at the original nodes), so "
            "that no equation on the constraint has its steps; give state= and distribution= the same map, the default"
        )
    if order < declared.order:
        raise ValueError(f"order: found {order}; the first term of this scheme has h^{declared.order}: give that or more")
    return tuple(range(declared.order, order + 1, 2 if declared.not_self_adjoint is None else 1))


def _check_smooth(system: System, size: int, n: int) -> None:
    """ValueError where a derivative of L, or a force or a constraint, contains an operation that may jump."""
    split = lambda x: (x[:size], x[size : size + n], x[size + n : size + 2 * n], x[-1])  # noqa: E731
    slopes = jax.grad(lambda x: system.call(system.lagrangian, *split(x)[:2], t=x[-1]))
    parts = {"lagrangian": slopes, "forces": lambda x: force(system, *split(x)[:2], x[-1])}
    for i, c in enumerate(system.constraints):
        parts[f"constraints[{i}]"] = lambda x, c=c: c.residual(system, *split(x))
    for name, function in parts.items():
        if may_jump(function, jnp.zeros(size + 2 * n + 1)):
            raise ValueError(
                f"{name}: contains an operation that may jump, or whose derivative may (a comparison, a rounding, abs): "
                "where it does, the step has no expansion in powers of h, and so no modified equation"
            )


def check_modified(made: Any) -> None:
    """TypeError for anything but a Modified outside of a traced program."""
    if not isinstance(made, Modified):
        raise TypeError(f"made: found {type(made).__name__}; give what dalembert.measure.modified returns")
    refuse_traced("made", made)


def as_step_size(h) -> Float[Array, ""]:
    return jnp.asarray(as_positive(h, "h", "a positive, finite step"), dtype=float)


def expand_at(made: Modified, states: Any, times: Any) -> Expansion:
    """The expansion at each state, with a leading axis."""
    return in_batches(expand, made, states, times, over=over_many_rows)


def in_batches(function: Callable, made: Modified, *rows: Any, over: Callable = over_rows) -> Any:
    """function(made, …) at each row of its arguments: one program for every number of rows."""
    count = len(rows[0])
    padded = [np.concatenate([x, np.repeat(x[-1:], -count % BATCH, axis=0)]) for x in map(np.asarray, rows)]
    made = essentials(made)
    parts = [over(function, tuple(x[i : i + BATCH] for x in padded), made) for i in range(0, count, BATCH)]
    return jax.tree.map(lambda *x: np.concatenate(x)[:count], *parts)


@Jitted
def _rate(made: Modified, factors: Float[Array, "count"], z: State, t) -> State:
    """The same as the rate of the state as it is stored."""
    field, (q, v) = _sum_terms(made, factors, z, t), made.system.space.split_state(z)
    n = v.shape[0]
    return jnp.concatenate([made.system.space.rate(q, field[:n]), field[n:]])


def _sum_terms(made: Modified, factors: Float[Array, "count"], z: State, t) -> State:
    """factors: of the terms; none for the motion alone."""
    if not len(factors):
        return motion_field(made.system, z, t)
    found = expand(made, z, t)
    return found.field + factors @ found.terms[: len(factors)]


_field = Jitted(_sum_terms)


def motion_field(system: System, z: State, t) -> State:
    """f = (v, a) at the point of the constraints next to z."""
    q, v = system.space.split_state(z)
    return jnp.concatenate([v, acceleration(system, q, v, t)[0]])


def expand(made: Modified, z: State, t) -> Expansion:
    """f and the coefficients f_j of the modified equation, at the point of the constraints next to z."""
    stencil, space = made.stencil, made.system.space
    at, steps = onto_constraints(made.system, z, t), int(stencil.nodes[-1])
    q, v = space.split_state(at)

    def displacements(h) -> Float[Array, "steps two_n"]:
        """z_k - z₀, k = 1, …"""
        path = simulate(made.system, q, v, h=h, steps=steps, t0=t, scheme=made.scheme, throw=False)
        ways = jax.vmap(lambda x: space.between(q, x))(path.q[1:])
        return jnp.where(path.steps_done < steps, jnp.nan, jnp.concatenate([ways, path.v[1:] - v], axis=1))

    h = made.step * stencil.parts
    behind = h[:0] if not made.reversible else -h
    found = jax.vmap(displacements)(jnp.concatenate([h, behind]))
    sides = [found[: len(h)], found[len(h) :, ::-1]] if made.reversible else [found]
    weights = [stencil.weights[-steps:], stencil.weights[:steps]]
    slopes = sum(jnp.einsum("m,smz->sz", w, x) for w, x in zip(weights, sides, strict=False)) / h[:, None]
    base = motion_field(made.system, at, t)
    extra = tangent_part(made.system, at, t, slopes - base)
    units = (made.step**stencil.powers)[:, None]
    return Expansion(base, jnp.asarray(stencil.fit) @ extra / units)


def essentials(made: Modified) -> Modified:
    """What programs read of it: with other doubts, and other numbers of states, they are the same."""
    return dataclasses.replace(made, states=made.states[:1], doubt=())


@seldom
def inertial_units(made: Modified):
    """(2n,) in which every velocity has the same inertia, and every position too; the least of them is 1."""
    q, v = made.system.space.split_state(made.states[0])
    diagonal = jnp.diagonal(jax.jacfwd(lambda x: momentum(made.system, q, x, made.t0))(v))
    largest = jnp.max(diagonal)
    units = jnp.where(diagonal > 0.0, jnp.sqrt(largest / jnp.where(diagonal > 0.0, diagonal, 1.0)), 1.0)
    return jnp.tile(units, 2)


def tangent_part(system: System, z: State, t, vectors: Float[Array, "S two_n"]) -> Float[Array, "S two_n"]:
    """Vectors at z without what leads off the constraints."""
    if not any(c.order < 2 for c in system.constraints):
        return vectors
    space = system.space
    q, v = space.split_state(z)
    n = v.shape[0]
    residuals = lambda x: stacked_residuals(system, space.retract(q, x[:n]), x[n:], t)  # noqa: E731
    rows = jax.jacfwd(residuals)(jnp.concatenate([jnp.zeros_like(v), v]))
    return vectors - jax.vmap(lambda x: least_norm(rows, rows @ x))(vectors)
