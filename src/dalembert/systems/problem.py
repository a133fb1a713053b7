"""Problem: what a Lagrangian, its constraints and its parameters have in common, whatever principle they obey."""

from __future__ import annotations

import abc
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from dalembert.drawing import Depicted
from dalembert.notebook import card
from dalembert.numbers import as_array, described
from dalembert.systems.pickling import reduced
from dalembert.tracing import reading, source


class Problem(eqx.Module):
    """A Lagrangian with constraints, and how the functions that the user wrote of it are called: f(…[, t][, p]).

    A pytree: functions are static, parameters are leaves, so that it passes through jit, vmap and grad.
    """

    lagrangian: eqx.AbstractVar[Callable]
    coordinates: eqx.AbstractVar[tuple[str, ...] | None]
    parameters: eqx.AbstractVar[Any]
    time_dependent: eqx.AbstractVar[bool]
    from_state: ClassVar[bool] = False  # whether its runs start from (q, v) that satisfy the constraints
    h_scales: ClassVar[bool] = False  # whether the step of a run only scales time and multipliers
    takes_force: ClassVar[bool] = True  # whether a generalised force acts besides its own
    why_equal_steps: ClassVar[str] = ""  # why its steps have one length, where they must

    __reduce__ = reduced

    @property
    @abc.abstractmethod
    def functions(self) -> tuple[Callable, ...]:
        """Those that the user wrote."""

    @property
    def trailing(self) -> str:
        """The names of the trailing arguments of every function, for a message."""
        return (", t" if self.time_dependent else "") + (", p" if self.parameters is not None else "")

    def texts(self) -> dict[str, Any]:
        """What a record says of the problem alone: its functions by name, their sources with a hash, and its coordinates."""
        kinds = [type(part).__name__ for part in (self, *getattr(self, "constraints", ()))]
        return texts_of(self.functions, kinds, self.coordinates)

    def _repr_latex_(self) -> str | None:
        """Formulas, where there are some."""
        return None

    def _repr_html_(self) -> str | None:
        """What it is made of, for a notebook; None where formulas say more."""
        if self._repr_latex_() is not None:
            return None
        own = self.texts()
        lines = [f"functions: {own['system']}"]
        if self.coordinates:
            lines.append(f"coordinates: {', '.join(self.coordinates)}")
        if isinstance(self.parameters, Mapping):
            lines.append(f"parameters: {', '.join(f'{name} = {_short(x)}' for name, x in self.parameters.items())}")
        return card(type(self).__name__, "\n".join(lines))

    @property
    def subject(self) -> Depicted:
        """What results are of: this problem."""
        return Depicted(self)

    def call(self, function: Callable, *arguments, t=None):
        """`function(*arguments[, t][, p])`, as an array."""
        return jnp.asarray(self.called(function, *arguments, t=t))  # so that tuples and lists of numbers will do

    def called(self, function: Callable, *arguments, t=None):
        """The same as it is: the one place that knows which trailing arguments a user's function takes."""
        if self.time_dependent:
            arguments = (*arguments, t)
        if self.parameters is not None:
            arguments = (*arguments, self.parameters)
        with reading(function):
            return function(*arguments)

    def replace(self, **values) -> Self:
        """The same with other parameter values; nothing is compiled again where shapes stay the same."""
        if not isinstance(self.parameters, Mapping):
            raise TypeError("replace: this system has no mapping of parameters; build it with parameters={...}")
        unknown = sorted(set(values) - set(self.parameters))
        if unknown:
            raise ValueError(
                f"replace: found {', '.join(unknown)}; the parameters are {', '.join(map(str, self.parameters))}"
            )
        new = dict(self.parameters)
        for name, value in as_arrays(values, "replace").items():
            before, after = (jax.tree.map(lambda x: (jnp.shape(x), is_flag(x)), y) for y in (new[name], value))
            if before != after:
                raise ValueError(f"replace[{name!r}]: found {_kinds(value)}; the system was built with {_kinds(new[name])}")
            new[name] = value
        return eqx.tree_at(lambda s: s.parameters, self, new)


def texts_of(functions: Sequence[Callable], kinds: Sequence[str], coordinates: tuple[str, ...] | None) -> dict[str, Any]:
    """What a record says of a problem: its functions by name, their sources with a hash, and its coordinates."""
    own = list({id(f): f for f in functions}.values())
    text = "\n".join([f"# {', '.join(kinds)}", *(source(f) for f in own)])
    return {
        "system": ", ".join(f"{f.__module__}:{f.__qualname__}" if hasattr(f, "__qualname__") else repr(f) for f in own),
        "source": text,
        "source_hash": hashlib.sha256(text.encode()).hexdigest(),
        "coordinates": coordinates or (),
    }


def _short(x: Any) -> str:
    """A number, or of what is larger its type and shape."""
    return f"{x:.6g}" if isinstance(x, jax.Array) and not isinstance(x, Tracer) and x.shape == () else described(x)


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
        raise TypeError(f"{name}: found {described(x)}; functions belong in the Lagrangian and the constraints")
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


def names_of(coordinates: Sequence[str]) -> tuple[str, ...]:
    """The names of the coordinates: texts, each different."""
    if isinstance(coordinates, str) or not isinstance(coordinates, Sequence):
        raise TypeError(f"coordinates: found {coordinates!r}; give a sequence of names, such as ('x', 'y')")
    names = tuple(coordinates)
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ValueError(f"coordinates: found {names}; the names are texts, each different")
    return names
