"""Errors before a run: shapes, types, x64, consistent and non-degenerate data. Each names the argument and the remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dalembert.algebra import numerical_rank
from dalembert.systems.constraints import Constraint, Holonomic, Lyapunov
from dalembert.systems.equations import (
    acceleration,
    all_reactions,
    first_derivative,
    kkt_residual,
    reactions,
    reduced,
    value,
)
from dalembert.systems.system import System

CONSISTENT = 1e-8  # largest residual of φ(q0), dφ/dt, φ(q0, v0), relative to 1, that is taken as zero


class InconsistentDataError(ValueError):
    """(q0, v0) do not satisfy the constraints, and no nearby point does or none was asked for."""


class RankDeficientError(ValueError):
    """Constraints are redundant or contradictory, reactions dependent, or the mass degenerate on the motions left."""


def is_traced(*trees) -> bool:
    """True inside jit, vmap or grad: values cannot be looked at, shapes can."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(trees))


def check_x64() -> None:
    """Second differences in single precision are noise, so every entry point asks for x64."""
    if not jax.config.jax_enable_x64:
        raise RuntimeError(
            "jax_enable_x64 is off: dalembert needs float64 (second differences in float32 are noise). Importing "
            "dalembert turns it on; something turned it off again. Use jax.config.update('jax_enable_x64', True)"
        )


def as_vector(value, name: str, n: int | None = None):
    """`value` as a float array (n,), finite."""
    try:
        array = jnp.asarray(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}: found {type(value).__name__}, which is not an array of numbers ({error})") from None
    if array.ndim != 1 or array.shape[0] == 0:
        raise ValueError(f"{name}: found shape {array.shape}; give one number per coordinate, shape (n,)")
    if n is not None and array.shape[0] != n:
        raise ValueError(f"{name}: found {array.shape[0]} numbers; the system has n = {n} coordinates")
    if not is_traced(array) and not bool(jnp.all(jnp.isfinite(array))):
        raise ValueError(f"{name}: found {np.asarray(array)}; every number must be finite")
    return array


def output_shape(function: Callable[[], object], name: str) -> tuple[int, ...]:
    """Shape of what a user's function returns; TypeError or ValueError that names it where it cannot be used."""
    try:
        result = jax.eval_shape(lambda: jnp.asarray(function()))
    except (jax.errors.TracerBoolConversionError, jax.errors.TracerIntegerConversionError) as error:
        raise TypeError(
            f"{name}: uses Python control flow (if, while, and, or, range) on a traced value. Write jnp.where(...) or "
            f"jax.lax.cond(...) instead. ({str(error).splitlines()[0]})"
        ) from error
    except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError) as error:
        raise TypeError(
            f"{name}: turns a traced value into a Python or NumPy number. Use jax.numpy (jnp.sin, not math.sin or "
            f"np.sin), without float(), int() and .item(). ({str(error).splitlines()[0]})"
        ) from error
    except (TypeError, ValueError, IndexError, KeyError) as error:
        raise type(error)(
            f"{name}: could not be evaluated: {error}. It takes the arguments listed in the docstring of dalembert.System, "
            "then t if time_dependent=True, then p if parameters are given; vectors have shape (n,)"
        ) from error
    if not jnp.issubdtype(result.dtype, jnp.floating):
        raise TypeError(
            f"{name}: returns {result.dtype}; a real floating point result is needed (it is differentiated). "
            "It may not depend on its arguments, or round them; write 0.5 and not 1 // 2"
        )
    return tuple(result.shape)


def check_shapes(system: System, q, v, t) -> list[int]:
    """Shapes of everything the user's functions return; the number m of equations of each constraint."""
    n, a = q.shape[0], jnp.zeros_like(q)
    if system.coordinates is not None and len(system.coordinates) != n:
        raise ValueError(f"q0: found {n} numbers; the system names {len(system.coordinates)} coordinates")
    _expect(output_shape(lambda: system.call(system.lagrangian, q, v, t=t), "lagrangian"), (), "lagrangian", "a scalar")
    if system.forces is not None:
        shape = output_shape(lambda: system.call(system.forces, q, v, t=t), "forces")
        _expect(shape, (n,), "forces", f"shape ({n},)")
    return [_check_constraint(system, c, f"constraints[{i}] ({type(c).__name__})", q, v, a, t)
            for i, c in enumerate(system.constraints)]  # fmt: skip


def _check_constraint(system: System, c: Constraint, name: str, q, v, a, t) -> int:
    n = q.shape[0]
    if isinstance(c, Lyapunov):
        for label, function in (("V", c.V), ("F", c.F)):
            shape = output_shape(lambda f=function: system.call(f, q, v, t=t), f"{name} {label}")
            _expect(shape, (), f"{name} {label}", "a scalar")
        if isinstance(c.actuated, int) and not 0 <= c.actuated < n:
            raise ValueError(f"{name} actuated: found index {c.actuated}; the system has coordinates 0 to {n - 1}")
        if isinstance(c.actuated, tuple) and len(c.actuated) != n:
            raise ValueError(f"{name} actuated: found {len(c.actuated)} numbers; one actuated direction has n = {n}")
        if callable(c.actuated):
            shape = output_shape(lambda: system.call(c.actuated, q, t=t), f"{name} actuated")
            _expect(shape, (n,), f"{name} actuated", f"one row of shape ({n},)")
        return 1
    arguments = (q, v, a)[: c.order + 1]
    shape = output_shape(lambda: system.call(c.phi, *arguments, t=t), f"{name} phi")
    if len(shape) > 1:
        raise ValueError(f"{name} phi: returns shape {shape}; give a scalar or shape (m,)")
    m = shape[0] if shape else 1
    if m > n:
        raise ValueError(f"{name} phi: returns {m} equations for n = {n} coordinates")
    if isinstance(c, Holonomic):
        return m
    arguments = (q, v) if c.order == 1 else (q, v, a)
    if c.reactions is not None:
        shape = output_shape(lambda: system.call(c.reactions, *arguments, t=t), f"{name} reactions")
        wanted = [(m, n), (n,)] if m == 1 else [(m, n)]
        if shape not in wanted:
            raise ValueError(
                f"{name} reactions: returns shape {shape}; {m} rows of n = {n}, shape {wanted[0]}, are needed"
            )
    if c.virtual is not None:
        shape = output_shape(lambda: system.call(c.virtual, *arguments, t=t), f"{name} virtual")
        wanted = [(n, n - m), (n,)] if n - m == 1 else [(n, n - m)]
        if shape not in wanted:
            raise ValueError(
                f"{name} virtual: returns shape {shape}; n - m = {n - m} columns of n = {n}, shape {wanted[0]}, are needed"
            )
    return m


def _expect(shape: tuple[int, ...], wanted: tuple[int, ...], name: str, words: str) -> None:
    if shape != wanted:
        raise ValueError(f"{name}: returns shape {shape}; {words} is needed")


def velocity_residuals(system: System, q, v, t) -> dict[str, jnp.ndarray]:
    """What (q, v) must satisfy by themselves: φ(q) and dφ/dt of holonomic, φ(q, v) of nonholonomic constraints."""
    out = {}
    for i, c in enumerate(system.constraints):
        name = f"constraints[{i}] ({type(c).__name__})"
        if c.order == 0:
            out[f"{name} at q0"] = value(system, c, q, v, v, t)
            out[f"d/dt of {name} at (q0, v0)"] = first_derivative(system, c, q, v, t)
        elif c.order == 1:
            out[f"{name} at (q0, v0)"] = value(system, c, q, v, v, t)
    return out


def check_initial_data(system: System, q0, v0, t0=0.0):
    """(q0, v0) as float arrays, after all checks; only those of shapes where values are traced.

    Raises ValueError or TypeError for shapes and types, InconsistentDataError where the constraints do not hold,
    RankDeficientError where (a, λ) is not determined.
    """
    check_x64()
    q = as_vector(q0, "q0")
    v = as_vector(v0, "v0", q.shape[0])
    t = jnp.asarray(t0, dtype=float)
    check_shapes(system, q, v, t)
    if not is_traced(system, q, v, t):
        check_parameters(system)
        found = jax.tree.map(np.asarray, _look(system, q, v, t))
        _check_values(system, found, q, v)
        _check_reactions(system, found)
        _check_constraints(system, found)
        _check_regular(system, found)
        if not found.solved:
            raise InconsistentDataError(
                f"q0, v0: no acceleration satisfies the constraints there (Newton's residual is {found.residual:.3g}); "
                "the constraint on accelerations may have no real solution at this state"
            )
    return q, v


class _Found(NamedTuple):
    """Everything the checks look at, computed in one compiled call."""

    lagrangian: np.ndarray
    values: list
    reactions: list
    residuals: dict
    rows: np.ndarray
    reduced: np.ndarray
    jacobian: np.ndarray
    matrix: np.ndarray
    solved: np.ndarray
    residual: np.ndarray


@eqx.filter_jit
def _look(system: System, q, v, t) -> _Found:
    rest = jnp.zeros_like(q)
    a, multipliers, info = acceleration(system, q, v, t)
    solved = ~(info.singular | info.not_finite | info.not_converged)
    at = jnp.where(solved, a, 0.0)
    z = jnp.concatenate([at, jnp.where(solved, multipliers, 0.0)])
    plain = [c for c in system.constraints if not isinstance(c, Lyapunov)]
    equations = lambda x: jnp.concatenate([jnp.zeros(0), *(reduced(system, c, q, v, x, t) for c in plain)])  # noqa: E731
    return _Found(
        system.call(system.lagrangian, q, v, t=t),
        [value(system, c, q, v, rest, t) for c in system.constraints],
        [reactions(system, c, q, v, rest, t) for c in system.constraints],
        velocity_residuals(system, q, v, t),
        all_reactions(system, q, v, at, t),
        equations(at),
        jax.jacfwd(equations)(at),
        jax.jacfwd(lambda x: kkt_residual(system, q, v, t, x))(z),
        solved,
        info.residual,
    )


def check_parameters(system: System) -> None:
    """Every parameter is finite."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(system.parameters):
        if jnp.issubdtype(leaf.dtype, jnp.floating) and not bool(jnp.all(jnp.isfinite(leaf))):
            name = jax.tree_util.keystr(path)
            raise ValueError(f"parameters{name}: found {np.asarray(leaf)}; every number must be finite")


def _check_values(system: System, found: _Found, q, v) -> None:
    if not np.isfinite(found.lagrangian):
        raise ValueError(f"lagrangian: is {float(found.lagrangian)} at q0, v0; it must be finite there")
    for i, c in enumerate(system.constraints):
        for what, result in (("phi", found.values[i]), ("reactions", found.reactions[i])):
            if not np.all(np.isfinite(result)):
                raise ValueError(
                    f"constraints[{i}] ({type(c).__name__}) {what}: is {result} at q0 = {np.asarray(q)}, "
                    f"v0 = {np.asarray(v)}; it must be finite there (is the system at rest where a speed is divided by?)"
                )
    for name, residual in found.residuals.items():
        if np.max(np.abs(residual), initial=0.0) > CONSISTENT:
            raise InconsistentDataError(
                f"q0, v0: {name} is {residual} and not 0. dalembert.project(system, q0, v0) finds the nearest "
                "consistent data and says how far it moved them"
            )


def _check_reactions(system: System, found: _Found) -> None:
    rank = numerical_rank(found.rows)
    if rank.rank < found.rows.shape[0]:
        raise RankDeficientError(
            f"reactions: the {found.rows.shape[0]} rows span {rank.rank} directions at q0, v0; {found.rows.shape[0]} are "
            f"needed, one for each equation (dependent: {_owners(system, found, rank.dependent_rows)})"
        )


def _check_constraints(system: System, found: _Found) -> None:
    rank = numerical_rank(found.jacobian)
    if rank.full:
        return
    dependent = list(rank.dependent_rows)
    kept = [i for i in range(found.jacobian.shape[0]) if i not in dependent]
    weights = np.linalg.lstsq(found.jacobian[kept].T, found.jacobian[dependent].T, rcond=None)[0]
    gap = np.max(np.abs(found.reduced[dependent] - weights.T @ found.reduced[kept]))
    contradictory = gap > 1e-8 * (1 + np.max(np.abs(found.reduced)))
    raise RankDeficientError(
        f"constraints: {found.jacobian.shape[0]} equations have rank {rank.rank} in the accelerations at q0, v0; they are "
        f"{'contradictory' if contradictory else 'redundant'} (dependent: "
        f"{_owners(system, found, rank.dependent_rows, skip_lyapunov=True)}). "
        + ("No motion satisfies all of them" if contradictory else "Remove those that depend on the others")
    )


def _check_regular(system: System, found: _Found) -> None:
    if not np.all(np.isfinite(found.matrix)):
        raise ValueError(
            "lagrangian: second derivatives are not finite at q0, v0, or a constraint's or its control is not"
        )
    rank = numerical_rank(found.matrix)
    if rank.full:
        return
    n = found.matrix.shape[0] - found.rows.shape[0]
    direction = np.linalg.svd(found.matrix)[2][-1][:n]
    raise RankDeficientError(
        "lagrangian: the mass matrix ∂²L/∂v² is degenerate on the motions that the constraints leave free: the matrix of "
        f"(a, λ) has rank {rank.rank} of {found.matrix.shape[0]} at q0, v0; undetermined acceleration along "
        f"{direction.round(6)}"
    )


def _owners(system: System, found: _Found, rows: tuple[int, ...], skip_lyapunov: bool = False) -> str:
    """Which constraint each of the stacked rows belongs to."""
    names = []
    for i, c in enumerate(system.constraints):
        if not (skip_lyapunov and isinstance(c, Lyapunov)):
            m = found.values[i].shape[0]
            names += [f"constraints[{i}] ({type(c).__name__})" + (f" row {j}" if m > 1 else "") for j in range(m)]
    return ", ".join(names[i] for i in rows)
