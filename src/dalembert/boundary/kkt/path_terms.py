"""The values s of what has bounds and is no unknown, as unknowns of their own: w (G(q, v, u, t) - s) = 0.

The bounds are on s, whose row has nothing but the barrier's Σ and its own equation: eliminated first, as the frontal
factorization does, it leaves -1/Σ on the diagonal of the multiplier, -s/z for g ≤ 0.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from dalembert.boundary.data.around import chart, nodes_at
from dalembert.boundary.data.limits import Level, PathFunction
from dalembert.boundary.kkt.assembly import TIME
from dalembert.groups import Product


def as_given(shared):
    """(origin, parameters): positions are counted from 0."""
    return 0.0, shared


def with_origin(shared):
    """The same where positions are counted from an origin."""
    return shared["origin"], shared.get("parameters")


@dataclasses.dataclass(frozen=True)
class PathTerm:
    """w (G(q, v, u, t) - s), q = o + Σ means x and v = Σ rates x, x: the numbers of `width` slots (n,).

    On groups, where v are differences, q is the middle of the nodes and x their coordinates around it; elsewhere q is the
    last slot.

    z: the slots, the r controls where they are read, else 0, on groups the elements from which the slots are counted, the s,
    and the multipliers; read_shared: shared ↦ (o, parameters); power: -1 where v are differences, which shrink where steps
    grow, 0 where they are unknowns.
    """

    function: PathFunction
    n: int
    r: int
    controls: bool
    width: int
    read_shared: Callable
    power: int

    @property
    def scaling(self) -> tuple:
        """Of means, rates, weight, t with a free final time, see `Stretched`."""
        return 0, self.power, 1, TIME

    def __call__(self, z, data, shared):
        means, rates, weight, t = data
        read, space = self.r if self.controls else 0, self.function.problem.space
        size = 0 if space.flat else space.stored_size(self.n)
        x, u, bases, s = jnp.split(z, np.cumsum([self.width * self.n, read, self.width * size]))
        x, (origin, parameters) = x.reshape(self.width, self.n), self.read_shared(shared)
        if isinstance(space, Product):
            nodes = nodes_at(space, bases, list(x))
            q, x = chart(space, nodes) if self.power else (nodes[-1], x)
        else:
            q = origin + means @ x
        found = self.function(q, rates @ x, u if self.controls else jnp.zeros(self.r), t, parameters)
        return jnp.zeros(()), weight * (found - s[: found.shape[0]])


class PathWindows(NamedTuple):
    """G at some of its places, one after the other. slots: (block, first component) of what they read, from block `start`
    on; own: the block of s; at: their places; means, rates: (K', width)."""

    slots: tuple[tuple[int, int], ...]
    own: int
    start: int
    at: slice
    means: np.ndarray
    rates: np.ndarray
    power: int  # of the steps that rates grow with


def step_windows(level: Level, first: int) -> Iterator[PathWindows]:
    """On the steps; first: the block of the first node, its velocity being before, that of the last node after it."""
    before, after = level.ends
    h = np.diff(level.t)[:, None]
    steps = slice(int(before), int(before) + len(h))
    half, position, velocity = np.full((len(h), 2), 0.5), np.array([[0.0, 1.0]]), np.array([[1.0, 0.0]])
    yield PathWindows(((0, 0), (1, 0)), 0, first, steps, half, np.array([[-1.0, 1.0]]) / h, -1)
    if before:
        yield PathWindows(((0, 0), (1, 0)), 0, first - 1, slice(0, 1), position, velocity, 0)
    if after:
        yield PathWindows(((1, 0), (0, 0)), 1, first + len(h), slice(steps.stop, None), position, velocity, 0)


def node_windows(level: Level, first: int) -> PathWindows:
    """At the nodes, of what reads no velocity."""
    ones = np.ones((len(level.t), 1))
    return PathWindows(((0, 0),), 0, first, slice(None), ones, 0.0 * ones, 0)


def path_blocks(level: Level, first: int) -> np.ndarray:
    """(K,): the blocks of the s."""
    count = len(level.t)
    if not level.steps:
        return first + np.arange(count)
    before, after = level.ends
    steps = first + np.arange(count - 1)
    return np.concatenate([[first - 1] * before, steps, [first + count] * after]).astype(int)
