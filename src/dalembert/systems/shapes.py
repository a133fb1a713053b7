"""Errors in the user's functions: what they are called with, and the shape and type of what they return."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from dalembert.systems.constraints import Constraint, Kinematic, Lyapunov, WithForces
from dalembert.systems.indices import index_outside
from dalembert.systems.system import System
from dalembert.tracing import OnShapes

LOWER = {
    1: "a constraint on positions alone is Holonomic(phi) with phi(q)",
    2: "a constraint on positions and velocities is Nonholonomic(phi) with phi(q, v), one on positions Holonomic(phi)",
}


def output_shape(function: Callable[[], object], name: str, arguments: str) -> tuple[int, ...]:
    """Shape of what a user's function returns; TypeError or ValueError that names it where it cannot be used.

    arguments: how it is called, for the message. Call it inside `traced`, so that the arguments are traced values.
    """
    return _checked(function, name, arguments)[1]


def _checked(function: Callable[[], object], name: str, arguments: str):
    """What was traced, and the shape."""
    jaxpr, result = _trace(function, name, arguments)
    if not jnp.issubdtype(result.dtype, jnp.floating):
        raise TypeError(
            f"{name}: returns {result.dtype}; a real floating point result is needed (it is differentiated). "
            "Perhaps it does not depend on its arguments, or rounds them; write 0.5 and not 1 // 2"
        )
    check_indices(jaxpr, name)
    return jaxpr, tuple(result.shape)


def condition_shape(function: Callable[[], object], name: str, arguments: str) -> tuple[int, ...]:
    """As `output_shape`, of a function that returns true or false."""
    jaxpr, result = _trace(function, name, arguments)
    if result.dtype != bool:
        raise TypeError(f"{name}: returns {result.dtype}; a condition such as q[0] > 1 is needed")
    check_indices(jaxpr, name)
    return tuple(result.shape)


def check_indices(jaxpr, name: str) -> None:
    """ValueError where a traced function of the user reads or writes outside of an array."""
    outside = index_outside(jaxpr.jaxpr, jaxpr.consts)
    if outside is not None:
        raise ValueError(
            f"{name}: reads index {outside[0]} of an array of {outside[1]}; JAX would read another entry, or write none, "
            "without an error"
        )


def traced(check: Callable, *arguments):
    """As `OnShapes`, of a function that is made where it is called."""
    return OnShapes(check)(*arguments)


def _trace(function: Callable[[], object], name: str, arguments: str):
    try:
        return jax.make_jaxpr(lambda: jnp.asarray(function()), return_shape=True)()
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
    except Exception as error:
        kind = ValueError if isinstance(error, ValueError | LookupError) else TypeError
        raise kind(
            f"{name}: could not be evaluated: {type(error).__name__}: {error}. It is called as f({arguments}) with vectors "
            "of shape (n,), t only if time_dependent=True, p only if parameters are given; it returns numbers"
        ) from error


@OnShapes
def check_shapes(system: System, q, v, t) -> list[int]:
    """Shapes of everything the user's functions return; the number m of equations of each constraint."""
    n, a = q.shape[0], jnp.zeros_like(q)
    if system.coordinates is not None and len(system.coordinates) != n:
        raise ValueError(f"q0: found {n} numbers; the system names {len(system.coordinates)} coordinates")
    names = system.trailing
    shape = output_shape(lambda: system.call(system.lagrangian, q, v, t=t), "lagrangian", "q, v" + names)
    _expect(shape, (), "lagrangian", "a scalar")
    forces = system.forces
    if forces is not None:
        shape = output_shape(lambda: system.call(forces, q, v, t=t), "forces", "q, v" + names)
        _expect(shape, (n,), "forces", f"shape ({n},)")
    return [_check_constraint(system, c, f"constraints[{i}] ({type(c).__name__})", (q, v, a), t)
            for i, c in enumerate(system.constraints)]  # fmt: skip


def _check_constraint(system: System, c: Constraint, name: str, point, t) -> int:
    q, v, a = point
    n, names = q.shape[0], system.trailing
    if isinstance(c, Lyapunov):
        for label, function in (("V", c.V), ("F", c.F)):
            shape = output_shape(lambda f=function: system.call(f, q, v, t=t), f"{name} {label}", "q, v" + names)
            _expect(shape, (), f"{name} {label}", "a scalar")
        if isinstance(c.actuated, int) and not 0 <= c.actuated < n:
            raise ValueError(f"{name} actuated: found index {c.actuated}; the system has coordinates 0 to {n - 1}")
        if isinstance(c.actuated, tuple) and len(c.actuated) != n:
            raise ValueError(f"{name} actuated: found {len(c.actuated)} numbers; one actuated direction has n = {n}")
        actuated = c.actuated
        if callable(actuated):
            shape = output_shape(lambda: system.call(actuated, q, t=t), f"{name} actuated", "q" + names)
            _expect(shape, (n,), f"{name} actuated", f"one row of shape ({n},)")
        return 1
    assert isinstance(c, Kinematic)
    arguments, words = (q, v, a)[: c.order + 1], "q, v, a"[: 3 * c.order + 1] + names
    jaxpr, shape = _checked(lambda: system.call(c.phi, *arguments, t=t), f"{name} phi", words)
    if len(shape) > 1:
        raise ValueError(f"{name} phi: returns shape {shape}; give a scalar or shape (m,)")
    m = shape[0] if shape else 1
    if not 0 < m <= n:
        raise ValueError(f"{name} phi: returns {m} equations for n = {n} coordinates; give 1 to {n}")
    if c.order and not any(x is arguments[-1] for x in jaxpr.consts):
        raise ValueError(f"{name} phi: does not read {'qva'[c.order]}; {LOWER[c.order]}")
    assert isinstance(c, WithForces)
    given, virtual = c.reactions, c.virtual
    if given is not None:
        shape = output_shape(lambda: system.call(given, *arguments, t=t), f"{name} reactions", words)
        wanted = [(m, n), (n,)] if m == 1 else [(m, n)]
        if shape not in wanted:
            raise ValueError(f"{name} reactions: returns shape {shape}; {m} rows of n = {n}, shape {wanted[0]}, are needed")
    if virtual is not None:
        shape = output_shape(lambda: system.call(virtual, *arguments, t=t), f"{name} virtual", words)
        wanted = [(n, n - m), (n,)] if n - m == 1 else [(n, n - m)]
        if shape not in wanted:
            raise ValueError(
                f"{name} virtual: returns shape {shape}; n - m = {n - m} columns of n = {n}, shape {wanted[0]}, are needed"
            )
    return m


def _expect(shape: tuple[int, ...], wanted: tuple[int, ...], name: str, words: str) -> None:
    if shape != wanted:
        raise ValueError(f"{name}: returns shape {shape}; {words} is needed")
