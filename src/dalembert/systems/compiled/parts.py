"""A system taken apart into its arrays, which machine code is given, and all the rest, which machine code is made from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from dalembert.native import Unsupported
from dalembert.systems.roles import role_of
from dalembert.systems.system import System
from dalembert.tracing import Walk, split

LARGEST = 24  # unknowns (a, λ) up to which equations are written out: beyond, XLA compiles loops in less time
REMEMBERED = 128  # programs found again without a new trace

Rebuilt = Callable[[Sequence[Any]], System]


class SystemParts(NamedTuple):
    """leaves: the arrays. rebuilt: the system with others in their place. key: what else it is, None if unknown."""

    leaves: list
    rebuilt: Rebuilt
    key: Any


def parts_of(system: System) -> SystemParts:
    """The parts of a system."""
    arrays, static = eqx.partition(system, eqx.is_array)
    leaves, tree = jax.tree.flatten(arrays)
    types, walk = [x.dtype for x in leaves], Walk()
    key = split(walk, system, [])

    def rebuilt(given: Sequence[Any]) -> System:
        typed = [jnp.asarray(x, dtype) for x, dtype in zip(given, types, strict=True)]
        return eqx.combine(jax.tree.unflatten(tree, typed), static)

    return SystemParts(leaves, rebuilt, key if walk.lasting else None)


def name_role(reason: Unsupported, system: System) -> None:
    """Say in which of the system's functions stands what cannot be translated."""
    if reason.place is not None:
        reason.role = role_of(reason.place.codes, system, {})
