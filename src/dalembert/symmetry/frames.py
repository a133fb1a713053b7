"""Frames of the admissible velocities, v = B(q)w + c(q): given, or from constraints and a group of translations."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.algebra.least_norm import inverse
from dalembert.numbers import as_function, described
from dalembert.systems import System
from dalembert.systems.constraints import annihilator
from dalembert.systems.distribution.reduction import constraint_rows, velocity_constraints
from dalembert.tracing import Jitted

Vector = Float[Array, "n"]


@dataclasses.dataclass(frozen=True, eq=False)
class VelocityFrame:
    """B (n, d) and c (n,) at a point, over the shape coordinates r; w = (ṙ, ṡ).

    q0: (n,), the values of the group's coordinates on the section q̂(r). given: functions (B, c), None where they come from
    the constraints; c may be None. translations: whether the group is one of shifts of its coordinates.
    """

    shape: tuple[int, ...]
    group: tuple[int, ...]
    extra: int
    q0: tuple[float, ...]
    given: tuple[Callable, Callable | None] | None = None
    translations: bool = True

    @property
    def size(self) -> int:
        """d, the number of reduced coordinates."""
        return len(self.shape) + self.extra

    def section(self, x) -> Vector:
        """q̂(r)."""
        return jnp.asarray(self.q0).at[np.array(self.shape, dtype=int)].set(x[: len(self.shape)])

    def parts(self, system: System, q: Vector, t) -> tuple[Float[Array, "n d"], Vector]:
        """(B, c)."""
        return _parts(system, self, q, jnp.asarray(t, dtype=float))

    def written_out(self, system: System, q: Vector, t) -> tuple[Float[Array, "n d"], Vector]:
        """(B, c), with all its operations."""
        if self.given is not None:
            basis, drift = self.given
            ahead = jnp.zeros_like(q) if drift is None else system.call(drift, q, t=t)
            return system.call(basis, q, t=t).reshape(q.shape[0], -1), ahead
        shape, group = (np.array(x, dtype=int) for x in (self.shape, self.group))
        rest = jnp.zeros_like(q)
        rows, left = constraint_rows(system, q, rest, t), velocity_constraints(system, q, rest, t)
        lift = lifted(rows[:, group], jnp.concatenate([rows[:, shape], left[:, None]], axis=1))
        basis = jnp.zeros((q.shape[0], self.size)).at[shape, np.arange(len(shape))].set(1.0)
        basis = basis.at[np.ix_(group, np.arange(len(shape)))].set(-lift[:, :-1])
        if self.extra:
            free = annihilator(rows[:, group].T).T
            basis = basis.at[np.ix_(group, np.arange(len(shape), self.size))].set(free)
        return basis, rest.at[group].set(-lift[:, -1])

    def basis(self, system: System, q: Vector, t) -> Float[Array, "n d"]:
        """B."""
        return self.parts(system, q, t)[0]

    def velocity(self, system: System, q: Vector, w: Float[Array, "d"], t) -> Vector:
        """B w + c."""
        basis, ahead = self.parts(system, q, t)
        return basis @ w + ahead


@Jitted  # traced once, however often the equations and their derivatives ask for it
def _parts(system: System, frame: VelocityFrame, q: Vector, t):
    return frame.written_out(system, q, t)


def lifted(across: Float[Array, "m k"], sides: Float[Array, "m d"]) -> Float[Array, "k d"]:
    """The shortest ġ with μ_g ġ = each of the sides: smooth as long as μ_g has full rank."""
    if across.shape[0] == across.shape[1]:
        return inverse(across) @ sides
    return across.T @ (inverse(across @ across.T) @ sides)


def own_parts(value: Any, name: str) -> tuple[Callable, Callable | None]:
    """(B, c) as the user gives them: a function, or a pair of which the second may be None."""
    pair = (value, None) if callable(value) else value
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise TypeError(f"{name}: found {described(value)}; give a function B(q) that returns (n, d), or a pair (B, c)")
    basis = as_function(pair[0], name, "B(q) that returns (n, d)")
    drift = None if pair[1] is None else as_function(pair[1], f"{name}[1]", "c(q) that returns (n,)")
    return basis, drift


def indices_of(system: System, group: Any, n: int) -> tuple[int, ...]:
    """The group's coordinates, by name or by number."""
    given = (group,) if isinstance(group, str | int) else group
    if not isinstance(given, tuple | list) or not given:
        raise TypeError(f"group: found {described(group)}; give names or numbers of coordinates, such as ('x', 'y')")
    out = []
    for one in given:
        if isinstance(one, str) and one in (system.coordinates or ()):
            out.append(list(system.coordinates or ()).index(one))
        elif isinstance(one, int | np.integer) and not isinstance(one, bool) and 0 <= one < n:
            out.append(int(one))
        else:
            raise ValueError(
                f"group: found {described(one)}; give names of {system.coordinates}, or numbers from 0 to {n - 1}"
            )
    if len(set(out)) < len(out) or len(out) >= n:
        raise ValueError(f"group: found {given}; give different coordinates, and leave one at least for the shape")
    return tuple(out)
