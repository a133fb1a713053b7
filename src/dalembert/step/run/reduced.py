"""The value that a run reduces to, of any shapes and types; for machine code numbers, and integers as bits of doubles."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dalembert.step.run.state import StepOptions


def promoted(function: Callable, initial: Any) -> Any:
    """The initial value in the types that function(value) settles at: 0 is 0.0 where numbers with a fraction are added.

    function: a pytree → one of the same structure, of shapes and types.
    """
    value = jax.tree.map(lambda x: jnp.asarray(x, jnp.result_type(x)), initial)
    while True:  # types only grow, and there are few of them
        types = jax.tree.map(lambda a, b: jnp.promote_types(a.dtype, b.dtype), value, function(value))
        if types == jax.tree.map(lambda a: a.dtype, value):
            return value
        value = jax.tree.map(lambda a, b: a.astype(b), value, types)


def as_before(after: Any, before: Any) -> Any:
    """A new value in the types of the one before."""
    return jax.tree.map(lambda a, b: jnp.asarray(a, b.dtype), after, before)


def with_one_before(step_options: StepOptions, initial: Any) -> tuple[StepOptions, Any]:
    """A reducer of (value, value before the last step) with its initial value, for a run whose last step is taken back."""
    function = step_options.reduce
    if function is None:
        return step_options, initial
    both = lambda values, *rest: (function(values[0], *rest), values[0])  # noqa: E731
    return dataclasses.replace(step_options, reduce=both), (initial, initial)


def lengths(value: Any) -> tuple[int, int]:
    """How many numbers it has, and how many integers."""
    whole = [_is_whole(x) for x in jax.tree.leaves(value)]
    sizes = [int(np.size(x)) for x in jax.tree.leaves(value)]
    integers = sum(size for size, w in zip(sizes, whole, strict=True) if w)
    return sum(sizes) - integers, integers


def as_doubles(xp, value: Any) -> list[Any]:
    """Arrays of doubles: the numbers and truth values, then the integers bit by bit. xp: NumPy or jax.numpy."""
    leaves = jax.tree.leaves(value)
    whole = [xp.asarray(x, np.int64) for x in leaves if _is_whole(x)]
    bits = [x.view(np.float64) if xp is np else lax.bitcast_convert_type(x, jnp.float64) for x in whole]
    return [*(xp.asarray(x, float) for x in leaves if not _is_whole(x)), *bits]


def from_doubles(xp, part: Any, like: Any, lead: int = 0) -> Any:
    """The value again, from (…, r). like: one of its structure, shapes and types; lead: leading axes of all arrays."""
    leaves, tree = jax.tree.flatten(like)
    found: list[Any] = [None] * len(leaves)
    at = 0
    for i in sorted(range(len(leaves)), key=lambda i: _is_whole(leaves[i])):
        x = leaves[i]
        size = int(np.prod(np.shape(x)[lead:], dtype=int))
        piece = part[..., at : at + size].reshape(np.shape(x))
        if _is_whole(x):
            piece = np.array(piece, order="C").view(np.int64) if xp is np else lax.bitcast_convert_type(piece, jnp.int64)
        found[i], at = piece.astype(x.dtype), at + size
    return jax.tree.unflatten(tree, found)


def flat(function: Callable, like: Any) -> Callable:
    """function(value, *rest) → value as a function of (numbers, integers, *rest) → (numbers, integers)."""
    shapes, tree = jax.tree.flatten(jax.tree.map(lambda x: jax.ShapeDtypeStruct(np.shape(x), x.dtype), like))

    def call(numbers, integers, *rest):
        parts = {False: numbers, True: integers}
        leaves = []
        for x in shapes:
            size, whole = int(np.prod(x.shape, dtype=int)), _is_whole(x)
            leaves.append(parts[whole][:size].reshape(x.shape).astype(x.dtype))
            parts[whole] = parts[whole][size:]
        before = jax.tree.unflatten(tree, leaves)
        after = jax.tree.leaves(as_before(function(before, *rest), before))
        return tuple(
            jnp.concatenate([jnp.zeros(0, kind), *(jnp.ravel(x).astype(kind) for x in after if _is_whole(x) == whole)])
            for whole, kind in ((False, jnp.float64), (True, jnp.int64))
        )

    return call


def _is_whole(x: Any) -> bool:
    return np.dtype(x.dtype).kind in "iu"
