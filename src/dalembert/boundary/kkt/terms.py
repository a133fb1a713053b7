"""The functions of a window and of a node that make up a transcription, and where their numbers stand in the blocks.

Constraints of lower order than L hold on windows of their own and at nodes with their rates. Node windows: φ on j+1
neighbouring slots. Where an end holds derivatives that are free, so are the rates of φ there, and the end's own φ, φ̇, … hold
too; given derivatives satisfy them already. Windows between nodes with derivatives: φ and its first k-j-1 rates at every
node, φ at j points between, see `constraint_windows`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from dalembert.boundary.data.around import group_jets
from dalembert.boundary.data.sizes import Sizes
from dalembert.boundary.kkt.assembly import ROWS, TIME, Place, Term, term_of
from dalembert.boundary.kkt.window_unknowns import BlockLayout, SlotGroup, WindowUnknowns
from dalembert.discretize import Windows, window_jets
from dalembert.discretize.window_maps import ends_with_derivatives, inner_points, window_action
from dalembert.groups import Product, Space
from dalembert.systems import InconsistentDataError, VariationalProblem, constraints_of_order, with_parameters
from dalembert.systems.higher.variational import constraint_derivatives

GIVEN = 1e-8  # largest |φ| on nodes that are given, relative to the path


@dataclasses.dataclass(frozen=True)
class SlotReading:
    """The slots of a window in the components that it reads: `width` slots (n,), and on groups after what is read besides,
    from `bases` on, the elements around which they are counted."""

    n: int
    width: int
    stride: int
    space: Space
    bases: int

    def jets(self, problem, parameters, rows, chained, z):
        """The problem with its parameters, and the jets (S, k+1, n)."""
        x = z[: self.width * self.n].reshape(self.width, self.n)
        if not isinstance(self.space, Product):
            return with_parameters(problem, parameters), window_jets(rows, chained, x, self.stride)
        middle, jets = group_jets(self.space, rows, chained, x, self._elements(z))
        return with_parameters(problem, parameters | {"origin": middle}), jets

    def node(self, problem, parameters, z):
        """The problem, and q, q̇, … of a node whose slots these are."""
        x = z[: self.width * self.n].reshape(self.width, self.n)
        if not isinstance(self.space, Product):
            return with_parameters(problem, parameters), x
        origin = self.space.retract(self._elements(z)[0], x[0])
        return with_parameters(problem, parameters | {"origin": origin}), x.at[0].set(0.0)

    def _elements(self, z):
        size = self.space.stored_size(self.n)
        return jax.lax.stop_gradient(z[self.bases : self.bases + self.width * size]).reshape(self.width, size)


@dataclasses.dataclass(frozen=True)
class LowerTerm:
    """w_s φ(jet_s, t_s) of one window, for the constraints of one order."""

    problem: VariationalProblem  # without its parameters
    order: int
    reading: SlotReading
    scaling: ClassVar = (ROWS, 0, TIME, 1)

    def __call__(self, z, data, parameters):
        rows, chained, times, weights = data
        problem, jets = self.reading.jets(self.problem, parameters, rows, chained, z)
        values = [
            w * constraints_of_order(problem, self.order, jet, t) for jet, t, w in zip(jets, times, weights, strict=True)
        ]
        return jnp.zeros(()), jnp.concatenate(values)


def check_given_windows(groups: list[SlotGroup], gradient: np.ndarray, sizes: Sizes, reach: float) -> None:
    """InconsistentDataError where all nodes of a window are given and φ ≠ 0 there. gradient: of L̃, by the multipliers wφ;
    reach: the largest position, in typical sizes."""
    for g in groups:
        blocks = g.first + g.attached + np.flatnonzero(~g.free)
        values = gradient[blocks, g.begin : g.begin + g.size].reshape(len(blocks), g.windows.times.shape[1], -1)
        off = np.abs(values / g.windows.weights[~g.free][:, :, None])
        relative = (off / sizes.differential[list(g.equations)]).max(axis=(1, 2), initial=0.0)
        if np.any(relative > GIVEN * (1.0 + reach)):
            worst = int(np.argmax(relative))
            time, value = g.windows.times[~g.free][worst, 0], off[worst].max()
            raise InconsistentDataError(
                f"initial, final, through: a constraint of order {g.order} depends only on the data given at t = {time:g}, "
                f"and it is {value:.3g}, not 0. Give nodes that satisfy the discrete constraint, or derivatives at the ends "
                "and more steps"
            )


def node_weights(w: Windows, k: int, order: int) -> np.ndarray:
    """(N+1,) of φ at the nodes: those of the quadrature whose inner points the windows have; 0 of node windows."""
    end = 0.5 * (1.0 - inner_points(k, k - order)[1].sum())
    steps = np.diff(w.t)
    return end * (np.append(steps, 0.0) + np.append(0.0, steps))


@dataclasses.dataclass(frozen=True)
class WindowTerm:
    """Σ_s w_s L(jet_s, t_s), and its constraints w_s (Σ rows x - y_s), w_s φ(jet_s, t_s)."""

    problem: VariationalProblem  # without its parameters
    layout: BlockLayout
    reading: SlotReading
    scaling: ClassVar = (ROWS, 0, TIME, 1)

    def __call__(self, z, data, parameters):
        rows, chained, times, weights = data
        a = self.layout
        problem, jets = self.reading.jets(self.problem, parameters, rows, chained, z)
        defects = jnp.zeros(0)
        if a.highest:
            highest = z[a.width * a.n : a.width * a.n + a.highest].reshape(a.points, a.n)
            defects = (weights[:, None] * (jets[:, -1] - highest)).ravel()
            jets = jnp.concatenate([jets[:, :-1], highest[:, None]], axis=1)
        f, c = window_action(problem, jets, times, weights)
        return f, jnp.concatenate([defects, c.ravel()])


@dataclasses.dataclass(frozen=True)
class NodeTerm:
    """w dⁱ/dsⁱ φ(q, q̇, …, q⁽ᵒʳᵈᵉʳ⁾) at s = 0 along q = Σ_l x_l sˡ/l!, x_0 … the slots of one node, i = begin …: φ and the
    rates that belong to q⁽ᵒʳᵈᵉʳ⁺ⁱ⁾. order 0: the holonomic constraints."""

    problem: VariationalProblem
    reading: SlotReading
    begin: int = 0
    order: int = 0
    scaling: ClassVar = (1, TIME)

    def __call__(self, z, data, parameters):
        weight, time = data
        problem, x = self.reading.node(self.problem, parameters, z)
        return jnp.zeros(()), weight * constraint_derivatives(problem, self.order, x, time)[self.begin :].ravel()


def _slots(width: int, stride: int, n: int) -> list[tuple[int, int]]:
    """(block, component) of the numbers in the slots of a window."""
    return [(s // stride, (s % stride) * n + i) for s in range(width) for i in range(n)]


class TermList:
    """The terms of a problem with their data, one after the other, and the components that they leave fixed, (blocks, b)."""

    def __init__(self, unknowns: WindowUnknowns):
        w, layout, self.fixed_slots = unknowns.windows, unknowns.layout, unknowns.fixed
        self.bare, self.windows, self.layout = with_parameters(unknowns.problem, None), w, layout
        self.space = unknowns.space
        self.terms: list[Term] = []
        self.data: list = []
        self.orders: list[np.ndarray | None] = []  # of the slots that windows read
        self.fixed = np.ones((len(w.orders) // layout.stride, layout.size), dtype=bool)
        self._add_windows(unknowns.fixed_components)
        for group in unknowns.groups:
            self._add_lower(group)
            self._add_rates(group)
        if layout.holonomic:
            self._add_holonomic()
        for term, data in unknowns.path_terms():
            self._append(term, data)
        for path, *places in zip(unknowns.paths, *map(unknowns.path_places, ("values", "inequalities")), strict=True):
            for at in places:
                self.fixed.ravel()[at] = unknowns.settled_values(path)

    def _append(self, term: Term, data: tuple, orders: np.ndarray | None = None) -> None:
        """orders: of the slots, where data begin with rows."""
        self.terms.append(term)
        self.data.append(data)
        self.orders.append(orders)

    def _add(self, function, read: list[Place], own: list[Place], start: int, data: tuple, orders=None) -> None:
        self._append(term_of(function, read, own, start, len(data[0])), data, orders)

    def _elements(self, blocks: Sequence[int]) -> list[Place]:
        """On groups the elements around which the slots of these blocks are counted."""
        return [place for o in blocks for place in self.layout.places(o, "base")]

    def _reading(self, width: int, bases: int) -> SlotReading:
        return SlotReading(self.layout.n, width, self.layout.stride, self.space, bases)

    def _add_windows(self, fixed_components: np.ndarray) -> None:
        """The action, and the constraints of its order."""
        w, layout, fixed = self.windows, self.layout, self.fixed
        read = [*_slots(w.width, w.stride, layout.n), *layout.places(layout.attached, "highest")]
        own = layout.places(layout.attached, "momentum", "multipliers")
        function = WindowTerm(self.bare, layout, self._reading(w.width, len(read)))
        data = (w.rows, w.chained, w.times, w.weights)
        self._add(function, read + self._elements(range(w.width)), own, 0, data, w.slot_orders)
        fixed[:, layout.part("slots")] = fixed_components.reshape(len(fixed), -1)
        for name in ("highest", "momentum", "multipliers"):
            fixed[layout.attached : layout.attached + len(w.times), layout.part(name)] = False

    def _add_lower(self, group: SlotGroup) -> None:
        """φ at the windows of a group; where all that it reads is given it has no multiplier."""
        w, layout = group.windows, self.layout
        own = [(group.attached, group.begin + c) for c in range(group.size)]
        read = _slots(w.width, layout.stride, layout.n)
        function = LowerTerm(self.bare, group.order, self._reading(w.width, len(read)))
        data = (w.rows, w.chained, w.times, w.weights)
        orders = self.windows.orders[group.slots]
        self._add(function, read + self._elements(range(w.width)), own, group.first, data, orders)
        blocks = group.first + group.attached + np.flatnonzero(group.free)
        self.fixed[blocks, group.begin : group.begin + group.size] = False

    def _add_rates(self, group: SlotGroup) -> None:
        """φ and its rates at the nodes that hold derivatives, for every free q⁽ᵒʳᵈᵉʳ⁺ⁱ⁾ that with i."""
        if self.layout.stride > 1:
            self._add_rates_at_nodes(group)
        else:
            self._add_rates_at_ends(group)

    def _add_rates_at_nodes(self, group: SlotGroup) -> None:
        w, n, k, j, m = self.windows, self.layout.n, self.layout.k, group.order, len(group.equations)
        begin = group.begin + group.size
        own = [(0, begin + c) for c in range((k - j) * m)]
        term = NodeTerm(self.bare, self._reading(k, k * n), 0, j)
        self._add(term, _slots(k, k, n), own, 0, (node_weights(w, k, j), w.t))
        self.fixed[:, begin : begin + (k - j) * m] = np.repeat(self.fixed_slots.reshape(-1, k)[:, j:], m, axis=1)

    def _add_rates_at_ends(self, group: SlotGroup) -> None:
        w, n, k, j, m = self.windows, self.layout.n, self.layout.k, group.order, len(group.equations)
        sides = zip(ends_with_derivatives(w), (0, int(w.nodes[-1])), (0, -1), strict=True)
        for derivatives, start, node in sides:
            blocks = list(range(k - 1, -1, -1)) if node == 0 else list(range(k))  # of q, q̇, …, from the first of them
            rates = [l for l in range(j, k) if derivatives and not self.fixed_slots[start + blocks[l]]]
            if not rates:
                continue
            slots = [(blocks[l], i) for l in range(k) for i in range(n)]
            own = [(blocks[l], group.begin + c) for l in rates for c in range(m)]
            data = (np.array([np.diff(w.t)[node]]), w.t[[node]])
            term = NodeTerm(self.bare, self._reading(k, len(slots)), rates[0] - j, j)
            self._add(term, slots + self._elements(blocks), own, start, data)
            for l in rates:
                self.fixed[start + blocks[l], group.begin : group.begin + m] = False

    def _add_holonomic(self) -> None:
        """φ at every position that is not fixed, and its time derivatives at the derivatives that are not.

        A node's weight is half of the steps beside it, so that its multiplier is that of L + μᵀφ.
        """
        w, layout, fixed, k = self.windows, self.layout, self.fixed, self.layout.k
        fixed[:, layout.part("holonomic")] = np.repeat(
            self.fixed_slots.reshape(len(fixed), layout.stride), layout.holonomic, axis=1
        )
        steps = np.diff(w.t)
        weights = 0.5 * (np.append(steps, 0.0) + np.append(0.0, steps)) if w.differenced else np.ones(len(w.t))
        if layout.stride > 1:
            self._add_node_rates([0] * layout.stride, 0, 0, (weights, w.t))
            return
        first, last = int(w.nodes[0]), int(w.nodes[-1])
        self._add_node_rates([0], 0, first, (weights, w.t))
        if first and not self.fixed_slots[:first].all():
            self._add_node_rates(list(range(k - 1, -1, -1)), 1, 0, (weights[:1], w.t[:1]))
        if last + 1 < len(fixed) and not self.fixed_slots[last + 1 :].all():
            self._add_node_rates(list(range(k)), 1, last, (weights[-1:], w.t[-1:]))

    def _add_node_rates(self, blocks: list[int], begin: int, start: int, data: tuple) -> None:
        """Slots l = 0 … of a node stand in the blocks start + blocks[l]; constraints from derivative `begin` on."""
        layout, n = self.layout, self.layout.n
        part, spread = layout.part("holonomic"), layout.stride == 1
        slots = [(o, (0 if spread else l) * n + i) for l, o in enumerate(blocks) for i in range(n)]
        own = [
            (o, part.start + (0 if spread else l) * layout.holonomic + i)
            for l, o in enumerate(blocks) if l >= begin for i in range(layout.holonomic)
        ]  # fmt: skip
        term = NodeTerm(self.bare, self._reading(len(blocks), len(slots)), begin)
        self._add(term, slots + self._elements(blocks), own, start, data)
