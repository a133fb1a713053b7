"""System: a Lagrangian, its constraints and forces."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from dalembert.numbers import as_array, as_flag, as_function, described
from dalembert.systems.constraints import Constraint, Holonomic, Lyapunov, WithForces
from dalembert.systems.pickling import reduced
from dalembert.tracing import reading


class System(eqx.Module):
    """d/dt L_v - L_q = f + Rᵀλ, with the constraints.

    With parameters every function takes a trailing p; with time_dependent=True a trailing t before it: L(q, v, t, p). A
    System is a pytree: functions are static, parameters are leaves, so that it passes through jit, vmap and grad.

    Args:
        lagrangian: `lagrangian(q, v)`, (n,), (n,) → (), written with jax.numpy.
        constraints: one, or a sequence, of Holonomic, Nonholonomic, SecondOrder, Lyapunov.
        forces: `forces(q, v)`, (n,), (n,) → (n,), external and dissipative generalised forces.
        coordinates: the names of q.
        parameters: a mapping (or any tree) of real, finite numbers and arrays, which become float64; True and False, and
            arrays of them, stay what they are: flags, to choose with jnp.where.
        time_dependent: whether the functions take t.

    Raises:
        TypeError: an argument is of the wrong type; the message names it.
        ValueError: names of coordinates that are equal, parameters that are not finite.

    Source: Borda, Fernández, Grillo, Definitions 2.1 and 2.2, with m reactions instead of the subspace C_V.

    Example:
        >>> hanging = da.System(lambda q, v, p: 0.5 * v @ v - p["g"] * q[1], da.Holonomic(lambda q, p: q @ q - 1.0),
        ...                     coordinates=("x", "y"), parameters={"g": 9.81})
        >>> on_the_moon = hanging.replace(g=1.62)  # nothing is compiled again
        >>> float(on_the_moon.parameters["g"])
        1.62
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
        as_function(lagrangian, "lagrangian", "L(q, v)")
        if forces is not None:
            as_function(forces, "forces", "f(q, v) that returns (n,)")
        if isinstance(constraints, Constraint):
            constraints = (constraints,)
        elif not isinstance(constraints, Sequence):
            raise TypeError(
                f"constraints: found {type(constraints).__name__}; give one or several of Holonomic(φ), Nonholonomic(φ), "
                "SecondOrder(φ, …), Lyapunov(V, F, actuated)"
            )
        given = tuple(constraints)
        for i, constraint in enumerate(given):
            if not isinstance(constraint, Holonomic | WithForces | Lyapunov):
                raise TypeError(
                    f"constraints: item {i} is {described(constraint)}; give Holonomic, Nonholonomic, SecondOrder "
                    "or Lyapunov"
                )
        self.lagrangian, self.constraints, self.forces = lagrangian, given, forces
        self.coordinates = None if coordinates is None else names_of(coordinates)
        self.parameters = None if parameters is None else as_arrays(parameters, "parameters")
        self.time_dependent = as_flag(time_dependent, "time_dependent")

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
        raise ValueError(f"replace: found {', '.join(unknown)}; the parameters are {', '.join(map(str, system.parameters))}")
    new = dict(system.parameters)
    for name, value in as_arrays(values, "replace").items():
        before, after = (jax.tree.map(lambda x: (jnp.shape(x), is_flag(x)), y) for y in (new[name], value))
        if before != after:
            raise ValueError(f"replace[{name!r}]: found {_kinds(value)}; the system was built with {_kinds(new[name])}")
        new[name] = value
    return eqx.tree_at(lambda s: s.parameters, system, new)


def as_arrays(tree: Any, name: str) -> Any:
    """A tree of parameters as float arrays, mappings as plain dicts; lists and tuples of numbers are arrays.

    Booleans stay: a flag chooses between formulas, and 1.0 in its place would be another type to `~` and `&`.
    """
    mapped = dict(tree) if isinstance(tree, Mapping) else tree
    leaf = lambda path, x: as_parameter(x, f"{name}{jax.tree_util.keystr(path)}")  # noqa: E731
    if not _ends(mapped):  # JAX would recurse, and leaves Python's count of recursions wrong for ever after
        raise TypeError(f"{name}: found a list or a mapping that contains itself; give real numbers and arrays")
    return jax.tree_util.tree_map_with_path(leaf, mapped, is_leaf=_is_leaf)


def as_parameter(x: Any, name: str) -> jax.Array:
    """One array of numbers, or of flags."""
    if callable(x):
        raise TypeError(f"{name}: found {described(x)}; functions belong into the Lagrangian and the constraints")
    return jnp.array(x) if is_flag(x) else as_array(x, name)


def is_flag(x: Any) -> bool:
    """True or False, or an array or nested lists of them."""
    if isinstance(x, list | tuple):
        return bool(x) and all(map(is_flag, x))
    return isinstance(x, bool) or (isinstance(x, np.ndarray | np.generic | jax.Array | Tracer) and x.dtype == bool)


def _is_leaf(x: Any) -> bool:
    """A list or tuple of plain numbers, nested or not, is one array; None is a mistake and not an empty tree."""
    if isinstance(x, list | tuple):
        return not hasattr(x, "_fields") and all(_is_leaf(y) and y is not None for y in x)
    return x is None or isinstance(x, str | int | float | complex)


DEEPEST = 100  # lists and mappings in each other


def _ends(tree: Any, depth: int = 0) -> bool:
    """Whether no list or mapping contains itself, as far as that shows in its depth."""
    inner = tree.values() if isinstance(tree, Mapping) else tree if isinstance(tree, list | tuple) else ()
    return depth < DEEPEST and all(_ends(x, depth + 1) for x in inner if isinstance(x, Mapping | list | tuple))


def _kinds(tree: Any) -> str:
    """Shapes of a parameter's arrays, and which of them are flags, for a message."""
    leaves = jax.tree.leaves(tree)
    flags = (" of true and false" if is_flag(x) else "" for x in leaves)
    return ", ".join(f"shape {jnp.shape(x)}{flag}" for x, flag in zip(leaves, flags, strict=True)) or "nothing"


def check_system(system: Any) -> None:
    """TypeError for anything but a System."""
    if not isinstance(system, System):
        raise TypeError(f"system: found {described(system)}; give a System")


def names_of(coordinates: Sequence[str]) -> tuple[str, ...]:
    """The names of the coordinates: texts, each different."""
    if isinstance(coordinates, str) or not isinstance(coordinates, Sequence):
        raise TypeError(f"coordinates: found {coordinates!r}; give a sequence of names, such as ('x', 'y')")
    names = tuple(coordinates)
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ValueError(f"coordinates: found {names}; the names are texts, each different")
    return names
