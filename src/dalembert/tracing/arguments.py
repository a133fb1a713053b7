"""Trees of arguments and results: the arrays in them, and all the rest, which is read once as long as it is the same."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from dalembert.tracing.cache import Remembered, is_unchanged, watch
from dalembert.tracing.fingerprint import Walk
from dalembert.tracing.reads import is_library

ARRAYS = (jax.Array, np.ndarray, np.generic)
UNREAD = {"unread": True}  # metadata of a field
T = TypeVar("T")


def split(walk: Walk, x: Any, arrays: list) -> Any:
    """The key of a tree, in which arrays count by shape and type only; they are appended to `arrays` in JAX's order."""
    if isinstance(x, ARRAYS):
        arrays.append(x)
        return x.shape, x.dtype, getattr(x, "weak_type", False)
    kind = type(x)
    if kind is tuple or kind is list:
        return (kind, *[split(walk, y, arrays) for y in x])
    if kind is dict:
        return (kind, *[(name, split(walk, x[name], arrays)) for name in sorted(x)])
    if x is None or kind in _LEAVES:
        return walk.of(x)
    if issubclass(kind, eqx.Module):
        content, fields = _fields(kind)
        state = vars(x)  # one whose fields are made later makes them now
        parts = [split(walk, state[name], arrays) if dynamic else walk.of(state[name])
                 for name, dynamic in fields if name in state]  # fmt: skip
        return (kind if content else walk.of(kind), *parts)
    level = jax.tree_util.default_registry.flatten_one_level(x)
    if level is None:
        return walk.of(x)
    children, other = level
    return (walk.of(kind), walk.of(other), *[split(walk, y, arrays) for y in children])


_LEAVES = frozenset([int, float, str, bool, type(lambda: 0)])


@functools.cache
def _fields(kind: type) -> tuple[bool, tuple[tuple[str, bool], ...]]:
    """(True for a class of a library, names of the fields of a class of modules), with whether arrays in them are inputs.

    Fields that no program reads, such as what a system looks like, are marked as UNREAD: nothing is compiled anew for them.
    """
    read = [f for f in dataclasses.fields(kind) if not f.metadata.get("unread", False)]
    named = tuple((f.name, not f.metadata.get("static", False)) for f in read)
    return is_library(kind.__module__), named


class Tree(NamedTuple):
    """A tree without its arrays. leaves: what stands at its leaves, PLACE where an array was."""

    structure: Any
    leaves: tuple

    def fill(self, arrays: Sequence) -> Any:
        """The tree with these arrays."""
        following = iter(arrays)
        return jax.tree.unflatten(self.structure, [next(following) if x is PLACE else x for x in self.leaves])


def rebuilder(tree: Tree, arrays: Sequence) -> Callable[[Sequence], Any]:
    """Other arrays → the tree with them, each of the type of the one in `arrays`, for which it stands."""
    types = [x.dtype for x in arrays]
    return lambda others: tree.fill([jnp.asarray(x, dtype) for x, dtype in zip(others, types, strict=True)])


class PLACE:
    """Stands where an array was: a class, which another process knows by its name."""


def taken_apart(tree: Any) -> tuple[Tree, list]:
    """A tree without its arrays, and the arrays."""
    leaves, structure = jax.tree.flatten(tree)
    arrays = [x for x in leaves if isinstance(x, ARRAYS)]
    return Tree(structure, tuple(PLACE if isinstance(x, ARRAYS) else x for x in leaves)), arrays


class Content:
    """What was read of some objects, and what was made for it.

    key: for objects that differ in numbers alone. objects: what was met that can change. arrays: those numbers.
    watched: by what it is seen that all this is still so; None where the objects must be read again.
    """

    def __init__(self, key: Any, walk: Walk, arrays: list):
        self.key, self.objects, self.arrays = key, tuple(walk.objects), arrays
        self.watched = watch(walk) if all(isinstance(x, jax.Array) for x in arrays) else None  # NumPy's may change in place
        self._made: dict[Hashable, Any] = {}

    def once(self, name: Hashable, make: Callable[[], T]) -> T:
        """make(), made when it is first asked for by this name, and again each time as long as it is None."""
        found = self._made.get(name)
        if found is None:
            found = self._made[name] = make()
        return found


_CONTENTS: Remembered[tuple[tuple, Content]] = Remembered(128)  # by the objects, which it holds: none has another's place


def content(*things: Any, rules: tuple = ()) -> Content | None:
    """The content of trees, whose arrays count by shape and type, and of rules; None where it is traced or not comparable.

    The same objects are read again when their functions name something else.
    """
    at = tuple(map(id, (*things, *rules)))
    entry = _CONTENTS.get(at)
    if entry is not None and is_unchanged(entry[1].watched):
        return entry[1]
    walk, arrays = Walk(), []
    key = (*[split(walk, x, arrays) for x in things], walk.of(rules))
    if not walk.lasting or any(isinstance(x, Tracer) for x in arrays):
        return None
    found = Content(key, walk, arrays)
    if found.watched is not None:
        _CONTENTS.put(at, ((things, rules), found))
    return found
