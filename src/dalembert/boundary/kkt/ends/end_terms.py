"""Conditions at the ends of a KKT system: ψ = 0, and what is the same at both ends.

What is the same at both ends is carried: every block after the first end has a copy c of it, c_{i+1} = c_i with a
multiplier, and the last end is compared with the copy there. Couplings stay local, as those of a free final time do, and
nothing that solves the system need know of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np

from dalembert.boundary.data.end_sets import EndFunction
from dalembert.boundary.kkt.assembly import Elements, Term
from dalembert.boundary.kkt.free_time import TIME, TimedParts
from dalembert.systems.higher.variational import with_parameters
from dalembert.systems.sizes import power_of_two

Place = tuple[int, int]  # block, component


@dataclasses.dataclass(frozen=True)
class OnSet:
    """ψ(q, q̇, …, t) of one end. split: shared ↦ (origin, parameters)."""

    function: EndFunction
    n: int
    levels: int
    split: Callable
    scaling: ClassVar = (TIME,)

    def __call__(self, z, data, shared):
        (t,) = data
        origin, parameters = self.split(shared)
        first, *others = (z[i * self.n : (i + 1) * self.n] for i in range(self.levels))
        problem = with_parameters(self.function.problem, parameters)
        return jnp.zeros(()), self.function.call(problem, [origin + first, *others], t)


@dataclasses.dataclass(frozen=True)
class SameAtEnds:
    """x - y - shift, x and y: halves of z."""

    number: int
    scaling: ClassVar = (0,)

    def __call__(self, z, data, shared):
        return jnp.zeros(()), z[: self.number] - z[self.number : 2 * self.number] - data[0]


class EndCondition(NamedTuple):
    """c(z) = 0 at an end. places: of what it reads; sizes: (m,), of c; owner: the block of its multipliers."""

    function: Any
    places: list[Place]
    data: tuple
    sizes: np.ndarray
    owner: int


class Tie(NamedTuple):
    """What is the same at both ends, up to a shift (p,): its places at the first and at the last end."""

    first: list[Place]
    last: list[Place]
    shift: np.ndarray


def with_ends(parts: TimedParts, at: int, conditions: list[EndCondition], tie: Tie | None) -> TimedParts:
    """The system with these conditions; at: the first of the components that they take in every block."""
    (terms, data, shared), (fixed, primal, relaxed), monitored, scales = parts
    terms, data, blocks = list(terms), list(data), len(fixed)
    fixed, primal, relaxed = fixed.copy(), primal.copy(), relaxed.copy()
    units, residuals = scales.units.copy(), scales.residuals.copy()
    number = 0 if tie is None else len(tie.shift)
    own = at + 2 * number
    if tie is not None:
        start = max(block for block, _ in tie.first)
        here, link = list(range(at, at + number)), list(range(at + number, own))
        copies, zero = [(start + 1, c) for c in here], np.zeros((1, number))
        terms.append(_term(SameAtEnds(number), [*copies, *tie.first], [(start, c) for c in link], 1))
        count = blocks - start - 2
        read, owned = [(start + 1 + i, c) for i in (1, 0) for c in here], [(start + 1, c) for c in link]
        terms.append(_term(SameAtEnds(number), read, owned, count))
        data += [(zero,), (np.zeros((count, number)),)]
        fixed[start + 1 :, here] = fixed[start:-1, link] = False
        primal[here] = True
        sizes = np.array([units[place] for place in tie.first])
        units[:, here], units[:, link] = sizes, power_of_two(scales.action / sizes)
        end = [*tie.last, *((blocks - 1, c) for c in here)]
        conditions = [*conditions, EndCondition(SameAtEnds(number), end, (tie.shift[None],), sizes, blocks - 1)]
    for one in conditions:
        mine = list(range(own, own + len(one.sizes)))
        terms.append(_term(one.function, one.places, [(one.owner, c) for c in mine], 1))
        data.append(one.data)
        fixed[one.owner, mine] = False
        relaxed[mine] = True
        units[one.owner, mine], residuals[one.owner, mine] = power_of_two(scales.action / one.sizes), 1.0 / one.sizes
    elements = Elements(tuple(terms), data, shared)
    return TimedParts(
        elements, parts.components._replace(fixed=fixed, primal=primal, relaxed=relaxed), monitored,
        scales._replace(units=units, residuals=residuals),
    )  # fmt: skip


def _term(function: Any, read: list[Place], own: list[Place], number: int) -> Term:
    every = [*read, *own]
    start = min(block for block, _ in every)
    multipliers = tuple(range(len(read), len(every)))
    return Term(function, tuple(b - start for b, _ in every), tuple(c for _, c in every), multipliers, start, number)


def carry(z: np.ndarray, at: int, tie: Tie) -> None:
    """The first end's values into the copies of a path z (blocks, b)."""
    start = max(block for block, _ in tie.first)
    z[start + 1 :, at : at + len(tie.shift)] = [z[place] for place in tie.first]
