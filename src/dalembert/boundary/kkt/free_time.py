"""A KKT system in which all steps are e^θ times those that are given, θ one more unknown.

Every block has a θ_i of its own and a multiplier of θ_{i+1} = θ_i: the number that all windows share is a component like
others, so that couplings stay local and nothing that solves the system need know of it. θ_i and its equation stand in one
block, whose own matrix is then regular, and elimination hands the second derivatives by θ_i on to θ_{i+1}.
Why no bordered system: docs/decisions.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from dalembert.boundary.kkt.assembly import Elements, Term
from dalembert.boundary.kkt.system import Components, Monitored, Scales
from dalembert.systems.sizes import power_of_two

TIMED = 2  # components that a block has for it: θ and the multiplier
TIME, ROWS = "time", "rows"  # how data change besides by powers of the steps


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

        def stretched(x, rule):
            if rule == TIME:
                return begin + factor * (x - begin)
            if rule == ROWS:
                by_jet = jnp.stack([factor**-j for j in range(x.shape[1])])
                rows = x * by_jet[:, None]
                return rows * jnp.exp(orders * z[-1]) if orders.shape[0] else rows
            return x * factor**rule if rule else x

        return self.function(z, tuple(stretched(x, rule) for x, rule in zip(given, self.scaling, strict=True)), shared)


@dataclasses.dataclass(frozen=True)
class SameTime:
    """w(θ_{i+1} - θ_i)."""

    def __call__(self, z, data, shared):
        return jnp.zeros(()), data[0] * (z[1:2] - z[:1])


class TimedParts(NamedTuple):
    """What a KKTSystem is made of."""

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
    timed = [_timed(t, at) for t in terms]
    given = [
        (*arrays, np.zeros((t.number, 0)) if o is None else o.astype(float), np.full(t.number, begin))
        for t, arrays, o in zip(terms, data, orders, strict=True)
    ]
    same = Term(SameTime(), (0, 1, 0), (at, at, at + 1), (2,), 0, blocks - 1)
    return Elements((*timed, same), [*given, (np.ones(blocks - 1),)], shared)


def _timed(term: Term, at: int) -> Term:
    """A term that reads θ, component `at` of its first block."""
    function: Any = term.function
    return term._replace(
        function=Stretched(function, function.scaling),
        offsets=(*term.offsets, min(term.offsets)),
        components=(*term.components, at),
    )
