"""Consistency of initial data with the constraints, whatever the units and the origin: φ(q) = 0, dφ/dt = 0, φ(q, v) = 0.

An equation r(x) = 0, x one of q and v, with derivative J, counts as satisfied where |r_i| ≤ 10⁻⁸ Σ_j |J_ij| s_j and the
least correction d of x leaves J as it is: |Σ_j (J(x + d) - J(x))_ij d_j| ≤ 10⁻⁸ Σ_j |J_ij d_j|, so that a curved constraint
brings its own length. What the rounding of q, v and t explains is no violation.
The size s_j of a position is how far it moves in a time τ, τ|v_j| + ½τ²|a_j|; where nothing moves by 10⁻⁹ of |q|, or τ is
not known, it is |q_j|. That of a velocity is s_j/τ, or |v_j| where τ is not known.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.algebra import least_norm, numerical_rank, value_and_jacobian
from dalembert.groups import Product
from dalembert.lazy import on_host
from dalembert.notebook import described_by_fields
from dalembert.numbers import as_array, as_number, as_state, check_x64, refuse_traced
from dalembert.systems.equations import motion_at, reduce_index, velocity_constraints
from dalembert.systems.sizes import CONSISTENT, ROUNDING, with_inertia
from dalembert.systems.system import LocalSystem, System, check_shapes, check_system, group_space, label
from dalembert.tracing import seldom

STEPS = 100  # in which a motion that they resolve has moved by about its own size
STILL = 1e-9  # of |q|
as_numpy = functools.partial(jax.tree.map, np.asarray)  # of a tree of arrays


class InconsistentDataError(ValueError):
    """φ(q₀, v₀) ≠ 0: the data do not satisfy the constraints, or no nearby data that satisfy them were found.

    Attributes:
        args: the message, which names the argument, what was found and what would be right.

    Example:
        >>> try:
        ...     da.simulate(sphere, [0.0, 0.0, -2.0], [0.0, 0.0, 0.0], h=0.1, steps=1)
        ... except da.InconsistentDataError as error:
        ...     str(error)[:30]
        'q0, v0: constraints[0] (Holono'
    """


class RankDeficientError(ValueError):
    """Constraints or masses leave the motion undetermined.

    rank < m: constraints are redundant or contradictory, reactions are dependent, or the mass matrix is degenerate
    on the motions that the constraints leave free.

    Attributes:
        args: the message, which names the argument, what was found and what would be right.

    Example:
        >>> massless = da.System(lambda q, v: 0.5 * v[0] ** 2 - q @ q)
        >>> try:
        ...     da.simulate(massless, [0.0, 0.0], [0.0, 0.0], h=0.1, steps=1)
        ... except da.RankDeficientError as error:
        ...     "degenerate" in str(error)
        True
    """


class InitialData(NamedTuple):
    """Initial data as arrays, and how many equations each constraint has."""

    q: Array
    v: Array
    t: Array
    sizes: list[int]

    @classmethod
    def of(cls, system: System, q0: Any, v0: Any, t0: Any) -> InitialData:
        """Data that a user gave; errors in their shapes, and in those of what the system's functions return."""
        check_x64()
        check_system(system)
        q, v = as_state(q0, v0, system.coordinates)
        t = jnp.asarray(as_number(t0, "t0", "a finite time"), dtype=float)
        return cls(q, v, t, check_shapes(system, q, v, t))


class Restriction(NamedTuple):
    """r(q, v, t) and its derivatives, (m,), (m, n), (m, n), (m,)."""

    value: Float[Array, "m"]
    by_q: Float[Array, "m n"]
    by_v: Float[Array, "m n"]
    by_t: Float[Array, "m"]

    def rounding(self, size: Any, v: Any, t: Any) -> Any:
        """The change of r by the last digits of q, v and t, by NumPy or JAX. size: see `System.magnitudes`."""
        return ROUNDING * (abs(self.by_q) @ abs(size) + abs(self.by_v) @ abs(v) + abs(self.by_t * t))


class Violation(NamedTuple):
    """name: of the restriction; residual: (m,)."""

    name: str
    residual: np.ndarray


def velocity_residuals(system: System, q, v, t) -> dict[str, Array]:
    """The residuals of (q, v) by themselves: φ(q) and dφ/dt of holonomic, φ(q, v) of nonholonomic constraints."""
    out = {}
    for i, c in enumerate(system.constraints):
        name = label(i, c)
        if c.order == 0:
            out[f"{name} at q0"] = c.residual(system, q, v, v, t)
            out[f"d/dt of {name} at (q0, v0)"] = reduce_index(system, c, q, v, v, t, order=1)
        elif c.order == 1:
            out[f"{name} at (q0, v0)"] = c.residual(system, q, v, v, t)
    return out


def stacked_residuals(system: System, q, v, t) -> Array:
    """`velocity_residuals` as one vector."""
    return jnp.concatenate([jnp.zeros(0), *velocity_residuals(system, q, v, t).values()])


def restrictions(system: System, q, v, t) -> dict[str, Restriction]:
    """The residuals with their derivatives, by name."""
    n, all_of_it = q.shape[0], jnp.concatenate([q, v, jnp.asarray(t, dtype=float)[None]])
    of = lambda x: velocity_residuals(system, x[:n], x[n : 2 * n], x[2 * n])  # noqa: E731
    values, slopes = value_and_jacobian(of, all_of_it)
    return {name: Restriction(r, slopes[name][:, :n], slopes[name][:, n : 2 * n], slopes[name][:, 2 * n])
            for name, r in values.items()}  # fmt: skip


_restrictions = seldom(restrictions)


@seldom
def _acceleration_and_inertia(system: System, q, v, t):
    """The acceleration, and |∂²L/∂v_j²|."""
    inertia = jnp.diagonal(jax.hessian(lambda w: system.call(system.lagrangian, q, w, t=t))(v))
    return motion_at(system, q, v, t)[0], jnp.abs(inertia)


def violation_of(
    system: System, q, v, t, time: float | None, found: dict[str, Restriction] | None = None
) -> Violation | None:
    """The first restriction that the data violate, None where there is none. time: τ; found: the restrictions, if known."""
    q, v, t = np.asarray(q, float), np.asarray(v, float), float(t)
    at = lambda q, v: as_numpy(_restrictions(system, q, v, t))  # noqa: E731
    here: dict[str, Restriction] = at(q, v) if found is None else found
    size = np.asarray(system.magnitudes(q), float)
    inexact = {name: ~(np.abs(r.value) <= r.rounding(size, v, t)) for name, r in here.items()}
    if not any(np.any(off) for off in inexact.values()):  # nearly always: nothing else is looked at
        return None
    a, inertia = as_numpy(_acceleration_and_inertia(system, q, v, t))
    positions, speeds = _state_sizes(size, v, a, inertia, time)
    return _violation(here, inexact, "by_q", positions, lambda d: at(q + d, v)) or _violation(
        here, inexact, "by_v", speeds, lambda d: at(q, v + d)
    )


def _violation(
    here: dict[str, Restriction], inexact: dict[str, np.ndarray], slope: str, size: np.ndarray, moved: Callable
) -> Violation | None:
    """Of the restrictions of q alone, or of v. moved: those at the data with a correction."""
    chosen = [name for name in here if name.endswith("v0)") == (slope == "by_v")]
    if not chosen:
        return None
    rows_of = lambda r: np.concatenate([getattr(r[name], slope) for name in chosen])  # noqa: E731
    rows, wrong = rows_of(here), np.concatenate([here[name].value for name in chosen])
    off = np.concatenate([inexact[name] for name in chosen])
    d = _correction(rows, np.where(off, wrong, 0.0), size)
    turned = rows_of(moved(d)) - rows
    bad = ~(np.abs(wrong) <= CONSISTENT * np.abs(rows) @ size)
    bad |= ~(np.abs(turned @ d) <= CONSISTENT * np.abs(rows) @ np.abs(d))
    if not np.any(bad & off):
        return None
    owners = [name for name in chosen for _ in here[name].value]
    first = owners[int(np.argmax(bad & off))]
    return Violation(first, np.asarray(here[first].value))


def _state_sizes(q, v, a, inertia, time: float | None) -> tuple[np.ndarray, np.ndarray]:
    """(n,) each: the sizes of positions and of velocities."""
    reach = np.zeros_like(q) if time is None else time * np.abs(v) + 0.5 * time**2 * np.abs(np.where(np.isfinite(a), a, 0.0))
    weight = np.sqrt(inertia) if np.max(inertia, initial=0.0) > 0.0 else np.ones_like(inertia)
    moves = np.linalg.norm(weight * reach) > STILL * np.linalg.norm(weight * q)
    positions = with_inertia(reach if moves else np.abs(q), weight**2)
    return positions, with_inertia(np.abs(v), weight**2) if time is None else positions / time


def _correction(rows: np.ndarray, wrong: np.ndarray, size: np.ndarray) -> np.ndarray:
    """The least d, each component in units of its size, with rows d = -wrong; (n,)."""
    scaled = np.where(np.isfinite(rows), rows, 0.0) * size
    length = np.linalg.norm(scaled, axis=1)
    length = np.where(length > 0.0, length, 1.0)
    return -size * (np.linalg.pinv(scaled / length[:, None]) @ (np.where(np.isfinite(wrong), wrong, 0.0) / length))


PARALLEL = 1e3  # condition of the rows, each of length 1, up to which what they leave is rounding
EXACT = 1e-10  # residual that is taken for zero, relative to what the way to the point changes


@described_by_fields
class Projection(NamedTuple):
    """Consistent (q, v), and how far each of them moved.

    Attributes:
        q: (n,) positions that satisfy the constraints.
        v: (n,) velocities that satisfy the constraints.
        moved_q: |q - q0|, on groups with the way from a matrix or quaternion to the nearest rotation.
        moved_v: |v - v0|.
    """

    q: Float[Array, "n"]
    v: Float[Array, "n"]
    moved_q: float
    moved_v: float

    def __str__(self) -> str:
        return f"q0 moved by {self.moved_q:.3g}, v0 by {self.moved_v:.3g}"


@on_host
def project(system: System, q0, v0, t0: float = 0.0) -> Projection:
    """Find the nearest positions and velocities that satisfy the constraints.

    min |q - q0| with φ(q) = 0 for holonomic constraints, then min |v - v0| with dφ/dt = 0 and φ(q, v) = 0.

    Distances are Euclidean in the coordinates. Both are Gauss-Newton iterations with least-norm steps, corrected so
    that the limit is the nearest point and not just any point. Constraints on accelerations restrict neither q nor v.

    Args:
        system: a System.
        q0: (n,) positions.
        v0: (n,) velocities.
        t0: the time at which the constraints should hold.

    Returns:
        A Projection, which prints how far the data moved.

    Raises:
        RankDeficientError: the constraints are dependent.
        InconsistentDataError: no nearby point exists.
        ValueError: an argument has the wrong shape or value.
        TypeError: an argument is of the wrong type, or traced.

    Example:
        >>> start = da.project(sphere, [0.6, 0.0, -1.0], [0.0, 1.0, 0.2])
        >>> bool(abs(start.q @ start.q - 1.0) < 1e-12), bool(abs(start.q @ start.v) < 1e-12)
        (True, True)
    """
    if (space := group_space(system)) is not None:
        return _project_on_group(system, space, q0, v0, t0)
    q, v, t, _ = InitialData.of(system, q0, v0, t0)
    refuse_traced("project", system, q, v, t, instead="; project first, then trace the run")
    check_parameters(system)
    lower = system.with_constraints([c for c in system.constraints if c.order < 2])
    holonomic = [c for c in lower.constraints if c.order == 0]
    positions = lambda x: jnp.concatenate([c.residual(system, x, v, v, t) for c in holonomic])  # noqa: E731
    new_q = _nearest(positions, q, "q0", system.magnitudes) if holonomic else q
    new_v = _nearest(lambda w: velocity_constraints(lower, new_q, w, t), v, "v0") if lower.constraints else v
    return Projection(new_q, new_v, float(jnp.linalg.norm(new_q - q)), float(jnp.linalg.norm(new_v - jnp.asarray(v))))


def _project_on_group(system: System, space: Product, q0, v0, t0) -> Projection:
    """The same in coordinates around the nearest element of the group, and then around the point found."""
    nearest, moved = space.nearest_position(q0, "q0")
    near, v = map(jnp.asarray, space.read_state(nearest, v0, None, as_array))
    y = project(LocalSystem(system, near), np.zeros(space.n), v, t0).q
    q = space.retract(near, y)
    found = project(LocalSystem(system, q), np.zeros(space.n), v, t0).v
    return Projection(q, found, float(np.hypot(moved, np.linalg.norm(y))), float(np.linalg.norm(np.asarray(found) - v)))


def check_parameters(system) -> None:
    """Every parameter of a System or a DiscreteSystem is finite."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(system.parameters):
        if jnp.issubdtype(leaf.dtype, jnp.floating) and not bool(jnp.all(jnp.isfinite(leaf))):
            name = jax.tree_util.keystr(path)
            raise ValueError(f"parameters{name}: found {np.asarray(leaf)}; every number must be finite")


@seldom
def value_and_slope(function: Callable, x):
    """function(x) and its derivative."""
    return function(x), jax.jacfwd(function)(x)


def _rounding_on_the_way(j, size, correction):
    """The error of f by rounding of f and of the correction Jᵀy: ROUNDING |J| (|J⁺| |J| |x| + |Jᵀ| |y|), |x| being size.

    Terms that cancel count, which a limit relative to x does not see: across a trailer that is straight behind its car no
    velocity is left. 0 where rows are nearly parallel: there rounding may be large, and excuses nothing.
    """
    if np.linalg.cond(j / np.linalg.norm(j, axis=1, keepdims=True)) > PARALLEL:
        return 0.0
    inverse = np.linalg.pinv(j)
    of_f, of_terms = np.abs(inverse) @ np.abs(j) @ size, np.abs(j.T) @ np.abs(inverse.T @ correction)
    return ROUNDING * (np.abs(j) @ (of_f + of_terms))


def _nearest(function, start, name: str, magnitudes: Callable = np.abs):
    """Gauss-Newton for min |x - start|, f(x) = 0: x ← start - Jᵀ(JJᵀ)⁻¹(f(x) + J(start - x)), J = f'(x).

    Where f is curved so much that the steps grow, those along f = 0 have the length of Barzilai and Borwein. magnitudes:
    numbers as large as those by which x is stored: `System.magnitudes`."""
    x, best, since, first, met, size, limit = start, np.inf, 0, None, False, np.inf, 0.0
    step, grows, last, stored = np.inf, False, (x, x), np.abs(np.asarray(x))
    f, j = value_and_slope(function, x)
    for _ in range(100):
        f, j = np.asarray(f), np.asarray(j)
        if not (np.all(np.isfinite(f)) and np.all(np.isfinite(j))):
            raise InconsistentDataError(f"{name}: the constraints are not finite on the way to a consistent point")
        found = numerical_rank(j)
        first = np.max(np.abs(f)) if first is None else first
        if not found.full and x is not start and np.max(np.abs(f)) > 1e-6 * first:
            raise InconsistentDataError(
                f"{name}: no nearby consistent point exists: the residual is still {np.max(np.abs(f)):.3g} where the "
                "derivatives of the constraints become dependent"
            )
        if not found.full:
            raise RankDeficientError(
                f"{name}: the constraints are rank deficient there (rank {found.rank} of {j.shape[0]}, singular values "
                f"{found.singular_values.round(12)}): they are redundant, contradictory, or degenerate at this point"
            )
        new = start - least_norm(jnp.asarray(j), jnp.asarray(f + j @ np.asarray(start - x)))
        along = np.asarray(start - x) - np.asarray(least_norm(jnp.asarray(j), jnp.asarray(j @ np.asarray(start - x))))
        grows = grows or np.linalg.norm(new - x) > max(step, EXACT * np.linalg.norm(new - start))
        if grows:
            change = np.asarray(x - last[0])
            new = new - (1.0 - min(1.0, change @ change / max(abs(change @ (along - last[1])), 1e-300))) * along
        last = x, along
        step = float(jnp.linalg.norm(new - x))
        x, moved = new, np.abs(np.asarray(new - start))
        stored = np.abs(magnitudes(np.asarray(x)))
        limit = np.abs(j) @ (EXACT * moved + ROUNDING * stored)
        f, j = value_and_slope(function, x)
        size = np.abs(np.asarray(f))
        met = np.all(size <= limit)
        if met and step <= 1e-13 * np.linalg.norm(moved) + ROUNDING * np.linalg.norm(stored):
            return x
        worst = float(np.max(size))
        best, since = (worst, 0) if worst < 0.5 * best else (best, since + 1)
        if since > 40:
            break
    if met or np.all(size <= limit + _rounding_on_the_way(np.asarray(j), stored, np.asarray(start - x))):
        return x
    raise InconsistentDataError(
        f"{name}: no nearby consistent point exists: the smallest residual found is {best:.3g} after 100 iterations"
    )


CORRECTIONS = 3  # Newton steps onto the constraints, from a point that is nearly there


def onto_constraints(system: System, z: Array, t) -> Array:
    """The point next to z with φ(q) = 0, dφ/dt = 0, φ(q, v) = 0: Newton's iteration with least corrections."""
    space = system.space
    q, v = space.split_state(z)
    holonomic = [c for c in system.constraints if c.order == 0]
    if holonomic:
        positions = lambda x: jnp.concatenate([c.residual(system, x, v, v, t) for c in holonomic])  # noqa: E731
        for _ in range(CORRECTIONS):
            q = space.retract(q, -least_norm(space.jacobian(positions, q), positions(q)))
    if any(c.order < 2 for c in system.constraints):
        lower = system.with_constraints([c for c in system.constraints if c.order < 2])
        speeds = lambda w: velocity_constraints(lower, q, w, t)  # noqa: E731
        for _ in range(CORRECTIONS):
            v = v - least_norm(jax.jacfwd(speeds)(v), speeds(v))
    return jnp.concatenate([q, v])
