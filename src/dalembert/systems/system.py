"""System: a Lagrangian, its constraints and forces."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dalembert.systems.constraints import Constraint
from dalembert.systems.pickling import reduced
from dalembert.tracing import reading


class System(eqx.Module):
    """d/dt L_v - L_q = f + Rᵀλ, with the constraints.

    lagrangian(q, v): scalar. constraints: one, or a sequence, of Holonomic, Nonholonomic, SecondOrder, Lyapunov.
    forces(q, v): (n,), external and dissipative generalised forces. coordinates: the names of q. parameters: a mapping
    (or any tree) of numbers and arrays. With parameters every function takes a trailing p; with time_dependent=True a
    trailing t before it: L(q, v, t, p).

    A System is a pytree: functions are static, parameters are leaves, so that it passes through jit, vmap and grad.
    Source: Borda, Fernández, Grillo, Definitions 2.1 and 2.2, with m reactions instead of the subspace C_V.
    """

    lagrangian: Callable = eqx.field(static=True)
    constraints: tuple[Constraint, ...]
    forces: Callable | None = eqx.field(static=True)
    coordinates: tuple[str, ...] | None = eqx.field(static=True)
    parameters: Any
    time_dependent: bool = eqx.field(static=True)

    __reduce__ = reduced

    def __init__(
        self,
        lagrangian: Callable,
        constraints: Constraint | Sequence[Constraint] = (),
        *,
        forces: Callable | None = None,
        coordinates: Sequence[str] | None = None,
        parameters: Any = None,
        time_dependent: bool = False,
    ):
        if not callable(lagrangian):
            raise TypeError(f"lagrangian: found {type(lagrangian).__name__}; give a function L(q, v)")
        if forces is not None and not callable(forces):
            raise TypeError(f"forces: found {type(forces).__name__}; give a function f(q, v) that returns (n,)")
        if isinstance(constraints, Constraint):
            constraints = (constraints,)
        elif not isinstance(constraints, Sequence):
            raise TypeError(
                f"constraints: found {type(constraints).__name__}; give one or several of Holonomic(φ), Nonholonomic(φ), "
                "SecondOrder(φ, …), Lyapunov(V, F, actuated)"
            )
        given = tuple(constraints)
        for i, constraint in enumerate(given):
            if not isinstance(constraint, Constraint):
                raise TypeError(
                    f"constraints: item {i} is a {type(constraint).__name__}; give Holonomic, Nonholonomic, SecondOrder "
                    "or Lyapunov"
                )
        self.lagrangian, self.constraints, self.forces = lagrangian, given, forces
        self.coordinates = None if coordinates is None else names_of(coordinates)
        self.parameters = None if parameters is None else as_arrays(parameters, "parameters")
        self.time_dependent = bool(time_dependent)

    def call(self, function: Callable, *arguments, t):
        """`function(*arguments[, t][, p])`."""
        return call_function(self, function, *arguments, t=t)

    def replace(self, **values) -> System:
        """The same system with other parameter values; nothing is compiled again where shapes stay the same."""
        return replace_parameters(self, values)


def call_function(system, function: Callable, *arguments, t):
    """`function(*arguments[, t][, p])`: the one place that knows which trailing arguments a user's function takes.

    system: anything with `time_dependent` and `parameters`.
    """
    if system.time_dependent:
        arguments = (*arguments, t)
    if system.parameters is not None:
        arguments = (*arguments, system.parameters)
    with reading(function):
        return jnp.asarray(function(*arguments))  # so that tuples and lists of numbers will do


def replace_parameters(system, values: Mapping[str, Any]):
    """A copy of anything with a mapping `parameters`, with some of them replaced by values of the same shape."""
    if not isinstance(system.parameters, Mapping):
        raise TypeError("replace: this system has no mapping of parameters; build it with parameters={...}")
    unknown = sorted(set(values) - set(system.parameters))
    if unknown:
        raise ValueError(f"replace: found {', '.join(unknown)}; the parameters are {', '.join(system.parameters)}")
    new = dict(system.parameters)
    for name, value in as_arrays(values, "replace").items():
        if jnp.shape(value) != jnp.shape(new[name]):
            raise ValueError(
                f"replace: {name} has shape {jnp.shape(value)}, the system was built with {jnp.shape(new[name])}"
            )
        new[name] = value
    return eqx.tree_at(lambda s: s.parameters, system, new)


def as_arrays(tree: Any, name: str) -> Any:
    """A tree of parameters as float arrays, mappings as plain dicts; lists and tuples of numbers are arrays."""

    def leaf(path, x):
        try:
            array = None if isinstance(x, str) else jnp.asarray(np.asarray(x) if isinstance(x, list | tuple) else x)
        except (TypeError, ValueError):
            array = None
        if array is None or not (jnp.issubdtype(array.dtype, jnp.number) or array.dtype == bool):
            raise TypeError(
                f"{name}{jax.tree_util.keystr(path)}: found {type(x).__name__}; a parameter is a number or an array of "
                "numbers (functions belong into the Lagrangian and the constraints themselves)"
            )
        # astype also drops JAX's weak type: 1.0 and np.float64(1.0) must not compile two programs.
        real = jnp.issubdtype(array.dtype, jnp.integer) or jnp.issubdtype(array.dtype, jnp.floating)
        return array.astype(float) if real else array

    mapped = dict(tree) if isinstance(tree, Mapping) else tree
    return jax.tree_util.tree_map_with_path(leaf, mapped, is_leaf=_is_leaf)


def _is_leaf(x: Any) -> bool:
    """A list or tuple of plain numbers, nested or not, is one array; None is a mistake and not an empty tree."""
    if isinstance(x, list | tuple):
        return not hasattr(x, "_fields") and all(_is_leaf(y) and y is not None for y in x)
    return x is None or isinstance(x, str | int | float | complex)


def names_of(coordinates: Sequence[str]) -> tuple[str, ...]:
    """The names of the coordinates: texts, each different."""
    if isinstance(coordinates, str) or not isinstance(coordinates, Sequence):
        raise TypeError(f"coordinates: found {coordinates!r}; give a sequence of names, such as ('x', 'y')")
    names = tuple(coordinates)
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ValueError(f"coordinates: found {names}; the names are texts, each different")
    return names
