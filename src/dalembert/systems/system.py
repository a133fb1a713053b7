"""System: a Lagrangian, its constraints and forces."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from dalembert.systems.constraints import Constraint


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
        given = (constraints,) if isinstance(constraints, Constraint) else tuple(constraints)
        for i, constraint in enumerate(given):
            if not isinstance(constraint, Constraint):
                raise TypeError(
                    f"constraints: item {i} is a {type(constraint).__name__}; give Holonomic, Nonholonomic, SecondOrder "
                    "or Lyapunov"
                )
        if isinstance(coordinates, str):
            raise TypeError(
                f"coordinates: found the text {coordinates!r}; give a sequence of names, such as ('x', 'y')"
            )
        self.lagrangian, self.constraints, self.forces = lagrangian, given, forces
        self.coordinates = None if coordinates is None else tuple(coordinates)
        self.parameters = None if parameters is None else as_arrays(parameters)
        self.time_dependent = bool(time_dependent)

    def call(self, function: Callable, *arguments, t):
        """function(*arguments[, t][, p]): the one place that knows which trailing arguments a user's function takes."""
        if self.time_dependent:
            arguments = (*arguments, t)
        if self.parameters is not None:
            arguments = (*arguments, self.parameters)
        return function(*arguments)

    def replace(self, **values) -> System:
        """The same system with other parameter values; nothing is compiled again where shapes stay the same."""
        return replace_parameters(self, values)


def replace_parameters(system, values: Mapping[str, Any]):
    """A copy of anything with a mapping `parameters`, with some of them replaced by values of the same shape."""
    if not isinstance(system.parameters, Mapping):
        raise TypeError("replace: this system has no mapping of parameters; build it with parameters={...}")
    unknown = sorted(set(values) - set(system.parameters))
    if unknown:
        raise ValueError(f"replace: found {', '.join(unknown)}; the parameters are {', '.join(system.parameters)}")
    new = dict(system.parameters)
    for name, value in as_arrays(values).items():
        if jnp.shape(value) != jnp.shape(new[name]):
            raise ValueError(
                f"replace: {name} has shape {jnp.shape(value)}, the system was built with {jnp.shape(new[name])}"
            )
        new[name] = value
    return eqx.tree_at(lambda s: s.parameters, system, new)


def as_arrays(tree: Any) -> Any:
    """A tree of parameters as float arrays, mappings as plain dicts."""

    def leaf(x):
        array = jnp.asarray(x)
        return array.astype(float) if jnp.issubdtype(array.dtype, jnp.integer) else array

    mapped = dict(tree) if isinstance(tree, Mapping) else tree
    return jax.tree.map(leaf, mapped)
