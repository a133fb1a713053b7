"""The unknowns of a variational problem: its windows, the parts of a block, and where they stand.

Block of a node: slots x (stride, n); for k ≥ 2 the highest derivative y at every point of a window as an unknown of its own,
with y = Σ rows x as a constraint whose multiplier is the highest momentum μ; multipliers λ of the differential constraints
at these points, those of lower order than L at windows of their own; multipliers of the holonomic constraints. The system is
then of first order in time: literal k-th differences of k-th differences would have the condition N²ᵏ, this one has Nᵏ.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from dalembert.boundary.data.around import many_jets, path_velocities
from dalembert.boundary.data.end_sets import end_slots
from dalembert.boundary.data.limits import PathInequalities
from dalembert.boundary.kkt.assembly import Place
from dalembert.boundary.kkt.path_terms import PathWindows, as_given, node_windows, step_windows, with_origin
from dalembert.boundary.kkt.shared_unknowns import TIMED
from dalembert.boundary.kkt.system import KKTSystem
from dalembert.boundary.kkt.unknowns import BlockParts, PathUnknowns
from dalembert.discretize import Windows, window_jets
from dalembert.discretize.window_maps import constraint_windows, ends_with_derivatives
from dalembert.groups import Product
from dalembert.systems import VariationalProblem, constraint_numbers, orders_of
from dalembert.tracing import seldom


@dataclasses.dataclass(frozen=True)
class BlockLayout(BlockParts):
    """Places of the unknowns of a node in its block."""

    n: int
    k: int
    points: int
    stride: int
    width: int
    m: int
    lower: int  # multipliers of differential constraints of lower order than L
    holonomic: int
    attached: int  # the block, counted from its first, that carries the unknowns of a window
    watched: int  # values of path inequalities
    carries: bool  # whether the highest derivatives are unknowns of their own; for k = 1 nothing would be gained
    timed: bool = False  # whether the final time is free
    ends: int = 0  # components for what holds at the ends
    base: int = 0  # on groups: numbers of the element around which the slot of a block is counted

    @property
    def highest(self) -> int:
        """Number of components of the highest derivatives of one window, 0 where they are no unknowns of their own."""
        return self.points * self.n if self.carries else 0

    @property
    def sizes(self) -> dict[str, int]:
        return {
            "slots": self.stride * self.n, "highest": self.highest, "momentum": self.highest,
            "multipliers": self.points * self.m, "lower": self.lower, "holonomic": self.stride * self.holonomic,
            "values": self.watched, "inequalities": self.watched, "base": self.base, "ends": self.ends,
            "time": TIMED * self.timed,
        }  # fmt: skip


class SlotGroup(NamedTuple):
    """The constraints of one order. equations: their places among all. windows: where they are taken, first: the block
    where the slots of the first window begin, attached: blocks from there to the one with its multipliers; begin: their
    first component. free: (W,), the windows with a slot that is not given. clean: (W,), those whose multipliers tend to
    λ(t), see `groups_of`."""

    order: int
    equations: tuple[int, ...]
    windows: Windows
    first: int
    attached: int
    begin: int
    free: np.ndarray
    clean: np.ndarray

    @property
    def size(self) -> int:
        """Multipliers of a window."""
        return self.windows.times.shape[1] * len(self.equations)

    @property
    def slots(self) -> np.ndarray:
        """(W, width): what its windows read."""
        w = self.windows
        return (self.first + np.arange(len(w.times)))[:, None] * w.stride + np.arange(w.width)

    def raw(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Times (K,) and multipliers (K, m_j) of the windows that are clean, of a path (blocks, b)."""
        w = self.windows
        blocks = self.first + self.attached + np.arange(len(w.times))
        values = z[blocks, self.begin : self.begin + self.size].reshape(*w.times.shape, -1)
        return w.times[self.clean].ravel(), values[self.clean].reshape(-1, len(self.equations))


def groups_of(orders: tuple[int, ...], w: Windows, k: int, begin: int, fixed_slots: np.ndarray) -> list[SlotGroup]:
    """The groups of a problem whose constraints have these orders. begin: their first component in a block.

    The first d = k-j windows of an end with derivatives are not clean: the end's own φ, φ̇, … hold too, their multipliers
    are point masses λ + D₀δ + D₁δ̇ + …, and the windows within their reach carry them.
    """
    found = []
    for order in sorted(set(orders) - {k}):
        own = constraint_windows(w, k, order)
        equations = tuple(int(i) for i in np.flatnonzero(np.array(orders) == order))
        spread, d, sides = w.stride == 1, k - order, ends_with_derivatives(w)
        first, count = d if spread and sides[0] else 0, len(own.times)
        slots = first * w.stride + np.arange(count)[:, None] * w.stride + np.arange(own.width)
        free, clean = np.any(~fixed_slots[slots], axis=1), np.ones(count, dtype=bool)
        if spread:
            clean[: d * sides[0]] = clean[count - d * sides[1] :] = False
        attached = order // 2 if spread else 0
        clean &= free | (not spread)
        found.append(SlotGroup(order, equations, own, first, attached, begin, free, clean))
        begin += (1 if spread else k) * len(equations)
    return found


@dataclasses.dataclass(frozen=True, kw_only=True)
class WindowUnknowns(PathUnknowns):
    """The unknowns of a variational problem. problem: with positions counted from the origin; given: as the user has it;
    fixed: (slots,), the slots that keep their value; left_out: (slots, n), components of them that do not, or None;
    equations: the places among all differential constraints of those of L's own order; groups: those of lower order."""

    layout: BlockLayout
    problem: VariationalProblem
    given: VariationalProblem
    windows: Windows
    fixed: Bool[np.ndarray, "slots"]
    left_out: Bool[np.ndarray, "slots n"] | None = None
    equations: tuple[int, ...]
    groups: list[SlotGroup]

    @property
    def owner(self) -> VariationalProblem:
        return self.given

    @property
    def read_shared(self) -> Callable:
        return with_origin if np.any(self.origin) or not self.space.flat else as_given

    @property
    def blocks_of_nodes(self) -> np.ndarray:
        return self.windows.nodes // self.windows.stride

    @property
    def first_block(self) -> int:
        return int(self.blocks_of_nodes[0])

    def slots(self, z: np.ndarray) -> np.ndarray:
        """(slots, n) of a path (blocks, b)."""
        return z[:, self.layout.part("slots")].reshape(len(self.windows.orders), -1)

    @property
    def fixed_components(self) -> Bool[np.ndarray, "slots n"]:
        """The components of the slots that keep their value."""
        fixed = np.repeat(self.fixed[:, None], self.layout.n, axis=1)
        return fixed if self.left_out is None else fixed & ~self.left_out

    def places(self, name: str = "q") -> np.ndarray:
        block, slot = np.divmod(self.windows.nodes, self.windows.stride)
        first = block * self.layout.size + self.layout.part("slots").start + slot * self.layout.n
        return first[:, None] + np.arange(self.layout.n)

    def end_places(self, end: int) -> list[list[Place]]:
        begin, n = self.layout.part("slots").start, self.layout.n
        block, own = np.divmod(end_slots(self.windows, end), self.windows.stride)
        return [[(int(b), begin + int(s) * n + i) for i in range(n)] for b, s in zip(block, own, strict=True)]

    def free_at(self, end: int) -> Bool[np.ndarray, "levels n"]:
        return ~self.fixed_components[end_slots(self.windows, end)]

    @property
    def given_motion(self) -> tuple[Bool[np.ndarray, "N+1 n"], Bool[np.ndarray, "N+1 n"]]:
        w, fixed = self.windows, self.fixed_components
        rates, held = np.zeros_like(fixed[w.nodes]), w.orders == 1
        rates[w.owners[held]] = fixed[held]
        return fixed[w.nodes], rates

    def motion(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        slots, q, w = self.slots(z), self.elements(z), self.windows
        v, held = path_velocities(self.space, self.t, slots[w.nodes] if self.space.flat else q), w.orders == 1
        v[w.owners[held]] = slots[held]
        return q, v, np.zeros((len(self.t), 0))

    def path_windows(self, path: PathInequalities) -> Iterator[tuple[PathWindows, bool]]:
        if path.level.steps:
            yield from ((windows, False) for windows in step_windows(path.level, self.first_block))
        elif self.windows.stride > 1:
            ones = np.ones((len(self.t), 1))
            both = ((0, 0), (0, self.layout.n))
            yield PathWindows(both, 0, 0, slice(None), ones * [1.0, 0.0], ones * [0.0, 1.0], 0), False
        else:
            yield node_windows(path.level, self.first_block), False

    def at(self, z: np.ndarray) -> Any:
        """With the windows at the final time of a path z (blocks, b), where that is free."""
        if self.horizon is None:
            return self
        factor, w = float(np.exp(z.ravel()[self.time_place])), self.windows
        groups = [g._replace(windows=g.windows.stretched(factor, w.orders[g.slots])) for g in self.groups]
        stretched = w.stretched(factor, w.slot_orders)
        return self.with_times(stretched.t, windows=stretched, groups=groups)

    @property
    def carriers(self) -> slice:
        """The blocks that carry the unknowns of a window."""
        return slice(self.layout.attached, self.layout.attached + len(self.windows.times))

    def jets_of_nodes(self, z: np.ndarray) -> np.ndarray:
        """(batch, W, S, k+1, n): what the nodes of paths (batch, blocks, b) are for the windows."""
        w, a = self.windows, self.layout
        slots = z[:, :, a.part("slots")].reshape(len(z), -1, a.n)
        if not isinstance(self.space, Product):
            return np.array(jets_of_slots(w, slots))
        return np.array(many_jets(self.space, w, slots, z[:, :, a.part("base")]))

    def jets(self, z: np.ndarray) -> np.ndarray:
        """(batch, W·S, k+1, n): what the windows of paths (batch, blocks, b) see."""
        a, jets = self.layout, self.jets_of_nodes(z)
        if a.highest:
            jets[:, :, :, -1] = z[:, self.carriers, a.part("highest")].reshape(len(z), -1, a.points, a.n)
        return jets.reshape(len(z), -1, a.k + 1, a.n)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Transcription(WindowUnknowns):
    """The unknowns with their KKT system."""

    kkt: KKTSystem

    @property
    def positions(self) -> np.ndarray:
        """(n,): typical sizes of the coordinates."""
        return self.kkt.positions[: self.layout.n]


def unknowns_of(
    problem: VariationalProblem,
    given: VariationalProblem,
    windows: Windows,
    fixed: Bool[np.ndarray, "slots"],
    **held: Any,
) -> WindowUnknowns:
    """held: `PathUnknowns` besides layout and times."""
    n, k, stride = len(held["origin"]), problem.derivatives, windows.stride
    orders, holonomic = orders_of(problem, n), constraint_numbers(problem, n)[1]
    equations = tuple(i for i, order in enumerate(orders) if order == k)
    lower = (len(orders) - len(equations)) * (1 if stride == 1 else k)
    layout = BlockLayout(
        n, k, windows.times.shape[1], stride, windows.width, len(equations), lower, holonomic, 0 if stride > 1 else k // 2,
        sum(path.size for path in held["paths"]), k > 1 and windows.differenced, held["horizon"] is not None,
        held["sets"].size, 0 if given.space.flat else given.space.stored_size(n),
    )  # fmt: skip
    groups = groups_of(orders, windows, k, layout.part("lower").start, fixed)
    return WindowUnknowns(
        layout=layout, t=windows.t, problem=problem, given=given, windows=windows, fixed=fixed, equations=equations,
        groups=groups, **held,
    )  # fmt: skip


def slot_jets(w: Windows, slots: np.ndarray) -> np.ndarray:
    """(W·S, k+1, n): the jets of a path (slots, n)."""
    return np.asarray(jets_of_slots(w, slots[None])).reshape(w.times.size, -1, slots.shape[1])


@seldom
def jets_of_slots(w: Windows, slots) -> jax.Array:
    """(batch, W, S, k+1, n) from slots (batch, slots, n)."""
    one = jax.vmap(lambda rows, chained, x: window_jets(rows, chained, x, w.stride))
    return jax.vmap(lambda x: one(w.rows, w.chained, x[w.slot_places]))(jnp.asarray(slots))
