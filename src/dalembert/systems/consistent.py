"""Consistent initial data: the nearest (q, v) that satisfy the constraints, and how far the data moved."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.algebra import numerical_rank
from dalembert.algebra.least_norm import least_norm
from dalembert.numbers import as_number, as_state, is_traced
from dalembert.systems.checks import InconsistentDataError, RankDeficientError, check_parameters, check_x64
from dalembert.systems.equations import first_derivative, value
from dalembert.systems.sizes import ROUNDING
from dalembert.systems.system import System, check_shapes, check_system
from dalembert.tracing import seldom

PARALLEL = 1e3  # condition of the rows, each of length 1, up to which what they leave is rounding
EXACT = 1e-10  # residual that is taken for zero, relative to what the way to the point changes


class Projection(NamedTuple):
    """Consistent (q, v), and how far each of them moved.

    Attributes:
        q: (n,) positions that satisfy the constraints.
        v: (n,) velocities that satisfy the constraints.
        moved_q: |q - q0|.
        moved_v: |v - v0|.
    """

    q: Float[Array, "n"]
    v: Float[Array, "n"]
    moved_q: float
    moved_v: float

    def __str__(self) -> str:
        return f"q0 moved by {self.moved_q:.3g}, v0 by {self.moved_v:.3g}"


def project(system: System, q0, v0, t0: float = 0.0) -> Projection:
    """min |q - q0| with φ(q) = 0 for holonomic constraints, then min |v - v0| with dφ/dt = 0 and φ(q, v) = 0.

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
    check_x64()
    check_system(system)
    q, v = as_state(q0, v0, system.coordinates)
    if is_traced(system, q, v, t0):
        raise TypeError("project: works on numbers and not under jit, vmap or grad; project first, then trace the run")
    t = jnp.asarray(as_number(t0, "t0", "a finite time"), dtype=float)
    check_shapes(system, q, v, t)
    check_parameters(system)
    holonomic = [c for c in system.constraints if c.order == 0]
    nonholonomic = [c for c in system.constraints if c.order == 1]

    def positions(x):
        return jnp.concatenate([value(system, c, x, v, v, t) for c in holonomic])

    new_q = _nearest(positions, q, "q0") if holonomic else q

    def velocities(w):
        rows = [first_derivative(system, c, new_q, w, t) for c in holonomic]
        return jnp.concatenate(rows + [value(system, c, new_q, w, w, t) for c in nonholonomic])

    new_v = _nearest(velocities, v, "v0") if holonomic or nonholonomic else v
    return Projection(new_q, new_v, float(jnp.linalg.norm(new_q - q)), float(jnp.linalg.norm(new_v - jnp.asarray(v))))


@seldom
def _value_and_slope(function: Callable, x):
    return function(x), jax.jacfwd(function)(x)


def _rounding(j, x, correction):
    """What rounding of f and of the correction Jᵀy leaves in f: ROUNDING |J| (|J⁺| |J| |x| + |Jᵀ| |y|).

    Terms that cancel count, which a limit relative to x does not see: across a trailer that is straight behind its car no
    velocity is left. 0 where rows are nearly parallel: there rounding may be large, and excuses nothing.
    """
    if np.linalg.cond(j / np.linalg.norm(j, axis=1, keepdims=True)) > PARALLEL:
        return 0.0
    inverse = np.linalg.pinv(j)
    of_f, of_terms = np.abs(inverse) @ np.abs(j) @ np.abs(x), np.abs(j.T) @ np.abs(inverse.T @ correction)
    return ROUNDING * (np.abs(j) @ (of_f + of_terms))


def _nearest(function, start, name: str):
    """Gauss-Newton for min |x - start|, f(x) = 0: x ← start - Jᵀ(JJᵀ)⁻¹(f(x) + J(start - x)), J = f'(x)."""
    x, best, since, first, met, size, limit = start, np.inf, 0, None, False, np.inf, 0.0
    f, j = _value_and_slope(function, x)
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
        step = float(jnp.linalg.norm(new - x))
        x, moved = new, np.abs(np.asarray(new - start))
        limit = np.abs(j) @ (EXACT * moved + ROUNDING * np.abs(np.asarray(x)))
        f, j = _value_and_slope(function, x)
        size = np.abs(np.asarray(f))
        met = np.all(size <= limit)
        if met and step <= 1e-13 * np.linalg.norm(moved) + ROUNDING * float(jnp.linalg.norm(x)):
            return x
        worst = float(np.max(size))
        best, since = (worst, 0) if worst < 0.5 * best else (best, since + 1)
        if since > 40:
            break
    if met or np.all(size <= limit + _rounding(np.asarray(j), np.asarray(x), np.asarray(start - x))):
        return x
    raise InconsistentDataError(
        f"{name}: no nearby consistent point exists: the smallest residual found is {best:.3g} after 100 iterations"
    )
