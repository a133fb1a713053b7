"""Unknowns that all blocks of a KKT system share: θ of a free final time, where all steps are e^θ times those that are
given, and what is the same at both ends; and conditions ψ = 0 at the ends.

Every block has a copy of its own and a multiplier of c_{i+1} = c_i: the number that all windows share is a component like
others, so that couplings stay local and nothing that solves the system need know of it. θ_i and its equation stand in one
block, whose own matrix is then regular, and elimination hands the second derivatives by θ_i on to θ_{i+1}. The last end is
compared with the copy there.
Why no bordered system: docs/decisions.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np

from dalembert.boundary.data.end_sets import EndFunction
from dalembert.boundary.kkt.assembly import ROWS, TIME, Elements, Place, Term, term_of
from dalembert.boundary.kkt.system import Components, Monitored, Scales
from dalembert.systems import power_of_two, with_parameters

TIMED = 2  # components that a block has for it: θ and the multiplier


@dataclasses.dataclass(frozen=True)
class Stretched:
    """A window's function with steps e^θ times those in its data, θ the last entry of z.

    scaling: of every array of the data the power of the steps that it grows with, TIME of times, or ROWS of jets as linear
    functions of slots; their orders and the first time follow in the data.
    """

    function: Callable
    scaling: tuple

    def __call__(self, z, data, shared):
        *given, orders, begin = data
        factor = jnp.exp(z[-1])

        def stretch(x, rule):
            if rule == TIME:
                return begin + factor * (x - begin)
            if rule == ROWS:
                by_jet = jnp.stack([factor**-j for j in range(x.shape[1])])
                rows = x * by_jet[:, None]
                return rows * jnp.exp(orders * z[-1]) if orders.shape[0] else rows
            return x * factor**rule if rule else x

        return self.function(z, tuple(stretch(x, rule) for x, rule in zip(given, self.scaling, strict=True)), shared)


@dataclasses.dataclass(frozen=True)
class Alike:
    """x - y - shift, x and y: halves of z, of so many numbers each."""

    number: int
    scaling: ClassVar = (0,)

    def __call__(self, z, data, shared):
        return jnp.zeros(()), z[: self.number] - z[self.number : 2 * self.number] - data[0]


class TimedParts(NamedTuple):
    """Parts of which a KKTSystem is made."""

    elements: Elements
    components: Components
    monitored: Monitored
    scales: Scales


def with_free_time(parts: TimedParts, orders: list[np.ndarray | None], begin: float, at: int) -> TimedParts:
    """The system with θ and its multiplier as components at, at+1 of every block, which have no meaning yet.

    orders: of the slots that a term's windows read, (number, width), or None; begin: t_0. Functions of terms say by their
    `scaling` how their data change.
    """
    elements, (fixed, primal, relaxed), (places, spans), scales = parts
    blocks, size = fixed.shape
    fixed, primal, units = fixed.copy(), primal.copy(), scales.units.copy()
    fixed[:, at], fixed[:, at + 1], primal[at] = False, False, True
    fixed[-1, at + 1] = True
    units[:, at], units[:, at + 1] = 1.0, power_of_two(np.asarray(scales.action))
    watched = np.full(len(places), blocks * size - size + at + 1)  # what is fixed at 0
    watched[np.argmin(np.abs(spans - 1.0))] = at
    return TimedParts(
        timed_elements(elements, blocks, orders, begin, at),
        Components(fixed, primal, relaxed),
        Monitored(np.concatenate([places, watched[:, None]], axis=1), spans),
        scales._replace(positions=np.append(scales.positions, 1.0), units=units),
    )


def timed_elements(elements: Elements, blocks: int, orders: Sequence[np.ndarray | None], begin: float, at: int) -> Elements:
    """The sum alone, see `with_free_time`."""
    terms, data, shared = elements
    timed = [_with_time(t, at) for t in terms]
    given = [
        (*arrays, np.zeros((t.number, 0)) if o is None else o.astype(float), np.full(t.number, begin))
        for t, arrays, o in zip(terms, data, orders, strict=True)
    ]
    same = term_of(Alike(1), [(1, at), (0, at)], [(0, at + 1)], 0, blocks - 1)
    return Elements((*timed, same), [*given, (np.zeros((blocks - 1, 1)),)], shared)


def _with_time(term: Term, at: int) -> Term:
    """A term that reads θ, component `at` of its first block."""
    function: Any = term.function
    return term._replace(
        function=Stretched(function, function.scaling),
        offsets=(*term.offsets, min(term.offsets)),
        components=(*term.components, at),
    )


@dataclasses.dataclass(frozen=True)
class OnSet:
    """ψ(q, q̇, …, t) of one end. read_shared: shared ↦ (origin, parameters)."""

    function: EndFunction
    n: int
    levels: int
    read_shared: Callable
    scaling: ClassVar = (TIME,)

    def __call__(self, z, data, shared):
        (t,) = data
        origin, parameters = self.read_shared(shared)
        first, *others = (z[i * self.n : (i + 1) * self.n] for i in range(self.levels))
        problem = with_parameters(self.function.problem, parameters)
        return jnp.zeros(()), self.function.call(problem, [origin + first, *others], t)


class EndCondition(NamedTuple):
    """c(z) = 0 at an end. places: of what it reads; sizes: (m,), of c; owner: the block of its multipliers."""

    function: Any
    places: list[Place]
    data: tuple
    sizes: np.ndarray
    owner: int


class Tie(NamedTuple):
    """Components that are the same at both ends, up to a shift (p,): their places at the first and at the last end."""

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
        terms.append(_placed_term(Alike(number), [*copies, *tie.first], [(start, c) for c in link]))
        read = [(i, c) for i in (1, 0) for c in here]
        count = blocks - start - 2
        terms.append(term_of(Alike(number), read, [(0, c) for c in link], start + 1, count))
        data += [(zero,), (np.zeros((count, number)),)]
        fixed[start + 1 :, here] = fixed[start:-1, link] = False
        primal[here] = True
        sizes = np.array([units[place] for place in tie.first])
        units[:, here], units[:, link] = sizes, power_of_two(scales.action / sizes)
        end = [*tie.last, *((blocks - 1, c) for c in here)]
        conditions = [*conditions, EndCondition(Alike(number), end, (tie.shift[None],), sizes, blocks - 1)]
    for one in conditions:
        mine = list(range(own, own + len(one.sizes)))
        terms.append(_placed_term(one.function, one.places, [(one.owner, c) for c in mine]))
        data.append(one.data)
        fixed[one.owner, mine] = False
        relaxed[mine] = True
        units[one.owner, mine], residuals[one.owner, mine] = power_of_two(scales.action / one.sizes), 1.0 / one.sizes
    elements = Elements(tuple(terms), data, shared)
    return TimedParts(
        elements, parts.components._replace(fixed=fixed, primal=primal, relaxed=relaxed), monitored,
        scales._replace(units=units, residuals=residuals),
    )  # fmt: skip


def _placed_term(function: Any, read: list[Place], own: list[Place]) -> Term:
    """A single window; its places are those in the path."""
    start = min(block for block, _ in (*read, *own))
    there, mine = ([(block - start, c) for block, c in places] for places in (read, own))
    return term_of(function, there, mine, start, 1)


def carry(z: np.ndarray, at: int, tie: Tie) -> None:
    """The first end's values into the copies of a path z (blocks, b)."""
    start = max(block for block, _ in tie.first)
    z[start + 1 :, at : at + len(tie.shift)] = [z[place] for place in tie.first]
