"""From a variational problem and its windows to a KKT system: which unknowns a time node has, and what is fixed.

Block of a node: slots x (stride, n); for k ≥ 2 the highest derivative y at every point of a window as an unknown of its own,
with y = Σ rows x as a constraint whose multiplier is the highest momentum μ; multipliers λ of the differential constraints
at these points, those of lower order than L at windows of their own; multipliers of the holonomic constraints. The system is
then of first order in time: literal k-th differences of k-th differences would have the condition N²ᵏ, this one has Nᵏ.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dalembert.boundary.data.sizes import Sizes
from dalembert.boundary.kkt.assembly import Elements, Term
from dalembert.boundary.kkt.lower import Group, LowerTerm, groups_of, node_weights
from dalembert.boundary.kkt.system import Components, KKTSystem, Monitored, Scales
from dalembert.discretize.constraint_windows import ends_with_derivatives
from dalembert.discretize.higher import constraint_derivatives, holonomic_derivatives
from dalembert.discretize.windows import Windows, window_action, window_jets
from dalembert.systems.higher.variational import (
    VariationalProblem,
    constraint_numbers,
    density,
    orders_of,
    with_parameters,
)
from dalembert.systems.roles import role_of
from dalembert.systems.sizes import power_of_two
from dalembert.tracing import Jitted

OWN = ("highest", "momentum", "multipliers")  # parts of a block that belong to a window


@dataclasses.dataclass(frozen=True)
class BlockLayout:
    """Where the unknowns of a node stand in its block."""

    n: int
    k: int
    points: int
    stride: int
    width: int
    m: int
    lower: int  # multipliers of differential constraints of lower order than L
    holonomic: int
    attached: int  # the block, counted from its first, that carries the unknowns of a window
    carries: bool  # whether the highest derivatives are unknowns of their own; for k = 1 nothing would be gained

    @property
    def carried(self) -> int:
        """How many numbers the highest derivatives of one window are."""
        return self.points * self.n if self.carries else 0

    def part(self, name: str) -> slice:
        sizes = {
            "slots": self.stride * self.n, "highest": self.carried, "momentum": self.carried,
            "multipliers": self.points * self.m, "lower": self.lower, "holonomic": self.stride * self.holonomic,
        }  # fmt: skip
        begin = 0
        for key, size in sizes.items():
            if key == name:
                return slice(begin, begin + size)
            begin += size
        raise KeyError(name)

    def components(self, name: str) -> range:
        return range(*self.part(name).indices(self.size))

    @property
    def size(self) -> int:
        return self.part("holonomic").stop


@dataclasses.dataclass(frozen=True)
class WindowTerm:
    """Σ_s w_s L(jet_s, t_s), and its constraints w_s (Σ rows x - y_s), w_s φ(jet_s, t_s)."""

    problem: VariationalProblem  # without its parameters
    layout: BlockLayout

    def __call__(self, z, data, parameters):
        rows, chained, times, weights = data
        a = self.layout
        problem = with_parameters(self.problem, parameters)
        jets = window_jets(rows, chained, z[: a.width * a.n].reshape(a.width, a.n), a.stride)
        defects = jnp.zeros(0)
        if a.carried:
            highest = z[a.width * a.n : a.width * a.n + a.carried].reshape(a.points, a.n)
            defects = (weights[:, None] * (jets[:, -1] - highest)).ravel()
            jets = jnp.concatenate([jets[:, :-1], highest[:, None]], axis=1)
        f, c = window_action(problem, jets, times, weights)
        return f, jnp.concatenate([defects, c.ravel()])


@dataclasses.dataclass(frozen=True)
class NodeTerm:
    """w dⁱ/dsⁱ φ(q, q̇, …, q⁽ᵒʳᵈᵉʳ⁾) at s = 0 along q = Σ_l x_l sˡ/l!, x_0 … the slots of one node, i = begin …: φ and the
    rates that belong to q⁽ᵒʳᵈᵉʳ⁺ⁱ⁾. order 0: the holonomic constraints."""

    problem: VariationalProblem
    n: int
    slots: int
    begin: int = 0
    order: int = 0

    def __call__(self, z, data, parameters):
        weight, time = data
        problem = with_parameters(self.problem, parameters)
        x = z[: self.slots * self.n].reshape(self.slots, self.n)
        if self.order:
            rates = constraint_derivatives(problem, self.order, x, time)
        else:
            rates = holonomic_derivatives(problem, x, time)
        return jnp.zeros(()), weight * rates[self.begin :].ravel()


class Transcription(NamedTuple):
    """A kkt, where its parts stand, and the windows it was made from. equations: the places among all differential
    constraints of those of L's own order; groups: those of lower order."""

    kkt: KKTSystem
    layout: BlockLayout
    windows: Windows
    data: list
    equations: tuple[int, ...]
    groups: list[Group]

    @property
    def blocks_of_nodes(self) -> np.ndarray:
        return self.windows.nodes // self.windows.stride

    @property
    def carriers(self) -> slice:
        """The blocks that carry the unknowns of a window."""
        return slice(self.layout.attached, self.layout.attached + len(self.windows.times))

    def jets(self, z: np.ndarray) -> np.ndarray:
        """(batch, W·S, k+1, n): what the windows of paths (batch, blocks, b) see."""
        a = self.layout
        slots = z[:, :, a.part("slots")].reshape(len(z), -1, a.n)
        jets = np.array(_jets(self.windows, slots))
        if a.carried:
            jets[:, :, :, -1] = z[:, self.carriers, a.part("highest")].reshape(len(z), -1, a.points, a.n)
        return jets.reshape(len(z), -1, a.k + 1, a.n)


class FixedSlots(NamedTuple):
    """Which slots keep their value, (slots,), and the components of them that do not, (slots, n), or None."""

    slots: np.ndarray
    left_out: np.ndarray | None = None


def transcribe(
    problem: VariationalProblem, windows: Windows, given: FixedSlots, sample: np.ndarray, sizes: Sizes
) -> Transcription:
    """The KKT system of a problem. given: what is fixed. sample: (slots, n), a path to look at."""
    n, k, stride = sample.shape[1], problem.derivatives, windows.stride
    orders, holonomic = orders_of(problem, n), constraint_numbers(problem, n)[1]
    equations = tuple(i for i, order in enumerate(orders) if order == k)
    lower = (len(orders) - len(equations)) * (1 if stride == 1 else k)
    layout = BlockLayout(
        n, k, windows.times.shape[1], stride, windows.width, len(equations), lower, holonomic, 0 if stride > 1 else k // 2,
        k > 1 and windows.differenced,
    )  # fmt: skip
    made = _Terms(with_parameters(problem, None), windows, layout, given.slots)
    made.add_windows(given.left_out)
    groups = groups_of(orders, windows, k, layout.part("lower").start, given.slots)
    for group in groups:
        made.add_lower(group)
        made.add_rates(group)
    if holonomic:
        made.add_holonomic()
    primal, relaxed = np.zeros(layout.size, dtype=bool), np.zeros(layout.size, dtype=bool)
    primal[layout.part("slots")] = primal[layout.part("highest")] = True
    for name in ("multipliers", "lower", "holonomic"):
        relaxed[layout.part(name)] = True
    scales = _scales(windows, layout, sizes, equations, groups)
    kkt = KKTSystem(
        Elements(tuple(made.terms), made.data, problem.parameters), Components(made.fixed, primal, relaxed),
        _monitored(windows, layout, given.slots, sizes), scales,
        _samples(scales, sample.reshape(len(made.fixed), stride * n)),
        role=lambda codes: role_of(codes, problem, {}),
    )  # fmt: skip
    return Transcription(kkt, layout, windows, made.data, equations, groups)


def _monitored(windows: Windows, layout: BlockLayout, fixed_slots: np.ndarray, sizes: Sizes) -> Monitored:
    """Positions, and the free derivatives at ends; between them rounding of derivatives grows with every order."""
    judged = np.flatnonzero((windows.orders == 0) | (~fixed_slots & (layout.stride == 1)))
    places = (judged // layout.stride * layout.size + judged % layout.stride * layout.n)[:, None] + np.arange(layout.n)
    return Monitored(places, sizes.time ** windows.orders[judged].astype(float))


def first_values(problem: VariationalProblem, made: Transcription, slots: np.ndarray) -> np.ndarray:
    """(batch, blocks, b) from slots (batch, slots, n): y as the slots have it, μ = ∂L/∂q⁽ᵏ⁾ there, the other multipliers
    zero."""
    a, w, batch = made.layout, made.windows, len(slots)
    z = np.zeros((batch, *made.kkt.fixed.shape))
    z[:, :, a.part("slots")] = slots.reshape(batch, -1, a.stride * a.n)
    if a.carried:
        jets = _jets(w, slots)
        z[:, made.carriers, a.part("highest")] = np.asarray(jets[:, :, :, -1]).reshape(batch, -1, a.carried)
        momenta = np.asarray(_highest_momentum(problem, jets, w.times))
        z[:, made.carriers, a.part("momentum")] = momenta.reshape(batch, -1, a.carried)
    return z


def slot_jets(w: Windows, slots: np.ndarray) -> np.ndarray:
    """(W·S, k+1, n): the jets of a path (slots, n)."""
    return np.asarray(_jets(w, slots[None])).reshape(w.times.size, -1, slots.shape[1])


def sampled_jets(w: Windows, slots: np.ndarray, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Jets (number, k+1, n) of a path (slots, n) at some windows, and their times; by NumPy, as they are few."""
    chosen = np.unique(np.linspace(0, len(w.times) - 1, number).astype(int))
    x = slots[chosen[:, None] * w.stride + np.arange(w.width)]
    x[:, w.stride :] -= w.chained[chosen][:, w.stride :, None] * x[:, : -w.stride].copy()
    middle = w.times.shape[1] // 2
    return np.einsum("ijw,iwn->ijn", w.rows[chosen, middle], x), w.times[chosen, middle]


@Jitted
def _jets(w: Windows, slots) -> jax.Array:
    """(batch, W, S, k+1, n) from slots (batch, slots, n)."""
    index = np.arange(len(w.times))[:, None] * w.stride + np.arange(w.width)
    one = jax.vmap(lambda rows, chained, x: window_jets(rows, chained, x, w.stride))
    return jax.vmap(lambda x: one(w.rows, w.chained, x[index]))(jnp.asarray(slots))


@Jitted
def _highest_momentum(problem: VariationalProblem, jets, times):
    def momentum(jet, t):
        return jax.grad(lambda y: density(problem, (*(jet[j] for j in range(problem.derivatives)), y), t))(jet[-1])

    return jax.vmap(lambda batch: jax.vmap(jax.vmap(momentum))(batch, times))(jets)


def _slots(width: int, stride: int, n: int) -> list[tuple[int, int]]:
    """(block, component) of the numbers in the slots of a window."""
    return [(s // stride, (s % stride) * n + i) for s in range(width) for i in range(n)]


class _Terms:
    """The terms of a problem with their data, one after the other, and the components that they leave fixed, (blocks, b).

    bare: the problem without its parameters.
    """

    def __init__(self, bare: VariationalProblem, windows: Windows, layout: BlockLayout, fixed_slots: np.ndarray):
        self.bare, self.windows, self.layout, self.fixed_slots = bare, windows, layout, fixed_slots
        self.terms: list[Term] = []
        self.data: list = []
        self.fixed = np.ones((len(windows.orders) // layout.stride, layout.size), dtype=bool)

    def _add(self, function, read: list[tuple[int, int]], own: list[tuple[int, int]], start: int, data: tuple) -> None:
        """read, own: (offset, component) of the numbers that the function reads, and of its multipliers; start: the block
        where the first window begins."""
        offsets, components = zip(*read, *own, strict=True)
        multipliers = tuple(range(len(read), len(read) + len(own)))
        self.terms.append(Term(function, offsets, components, multipliers, start, len(data[0])))
        self.data.append(data)

    def add_windows(self, left_out: np.ndarray | None) -> None:
        """The action, and the constraints of its order."""
        w, layout, fixed = self.windows, self.layout, self.fixed
        places = [
            *_slots(w.width, w.stride, layout.n),
            *((layout.attached, c) for name in OWN for c in layout.components(name)),
        ]
        shift = w.width * layout.n + layout.carried
        data = (w.rows, w.chained, w.times, w.weights)
        self._add(WindowTerm(self.bare, layout), places[:shift], places[shift:], 0, data)
        fixed[:, layout.part("slots")] = np.repeat(self.fixed_slots.reshape(len(fixed), w.stride), layout.n, axis=1)
        if left_out is not None:
            fixed[:, layout.part("slots")] &= ~left_out.reshape(len(fixed), -1)
        for name in OWN:
            fixed[layout.attached : layout.attached + len(w.times), layout.part(name)] = False

    def add_lower(self, group: Group) -> None:
        """φ at the windows of a group; where all that it reads is given it has no multiplier."""
        w, layout = group.windows, self.layout
        own = [(group.attached, group.begin + c) for c in range(group.size)]
        function = LowerTerm(self.bare, group.order, layout.n, w.width, layout.stride)
        data = (w.rows, w.chained, w.times, w.weights)
        self._add(function, _slots(w.width, layout.stride, layout.n), own, group.first, data)
        blocks = group.first + group.attached + np.flatnonzero(group.free)
        self.fixed[blocks, group.begin : group.begin + group.size] = False

    def add_rates(self, group: Group) -> None:
        """φ and its rates at the nodes that hold derivatives, for every free q⁽ᵒʳᵈᵉʳ⁺ⁱ⁾ that with i."""
        if self.layout.stride > 1:
            self._add_rates_at_nodes(group)
        else:
            self._add_rates_at_ends(group)

    def _add_rates_at_nodes(self, group: Group) -> None:
        w, n, k, j, m = self.windows, self.layout.n, self.layout.k, group.order, len(group.equations)
        begin = group.begin + group.size
        own = [(0, begin + c) for c in range((k - j) * m)]
        self._add(NodeTerm(self.bare, n, k, 0, j), _slots(k, k, n), own, 0, (node_weights(w, k, j), w.t))
        self.fixed[:, begin : begin + (k - j) * m] = np.repeat(self.fixed_slots.reshape(-1, k)[:, j:], m, axis=1)

    def _add_rates_at_ends(self, group: Group) -> None:
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
            self._add(NodeTerm(self.bare, n, k, rates[0] - j, j), slots, own, start, data)
            for l in rates:
                self.fixed[start + blocks[l], group.begin : group.begin + m] = False

    def add_holonomic(self) -> None:
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
        self._add(NodeTerm(self.bare, n, len(blocks), begin), slots, own, start, data)


def _scales(windows: Windows, layout: BlockLayout, sizes: Sizes, equations: tuple[int, ...], groups: list[Group]) -> Scales:
    """The units of the components: s/Tⁱ of slots and highest derivatives, σTᵏ/s of their momenta, σ/γ of multipliers."""
    orders = windows.orders.reshape(-1, layout.stride)
    blocks, total = len(orders), float(windows.weights.sum())
    units, residuals = np.ones((blocks, layout.size)), np.zeros((blocks, layout.size))
    highest, every = sizes.of(layout.k if windows.differenced else 0), np.arange(layout.k + 1)
    per_time = sizes.time ** -every.astype(float)[:, None]  # of the derivatives of φ
    for name, value in (
        ("slots", power_of_two(sizes.of(every))[orders].reshape(blocks, -1)),
        ("highest", power_of_two(np.tile(highest, layout.points)[: layout.carried])),
        ("momentum", power_of_two(np.tile(sizes.action / highest, layout.points)[: layout.carried])),
    ):
        units[:, layout.part(name)] = value
    lower = [_lower_sizes(g, layout, orders, per_time * sizes.differential[list(g.equations)]) for g in groups]
    for name, equation in (
        ("multipliers", np.tile(sizes.differential[list(equations)], layout.points)),
        ("lower", np.concatenate([np.zeros((blocks, 0)), *lower], axis=1)),
        ("holonomic", (per_time * sizes.holonomic)[orders].reshape(blocks, -1)),
    ):
        units[:, layout.part(name)] = power_of_two(sizes.action / equation)
        residuals[:, layout.part(name)] = 1.0 / (equation * total)
    return Scales(sizes.positions, units, residuals, sizes.action * total)


def _lower_sizes(group: Group, layout: BlockLayout, orders: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """(blocks, ·) of the equations of a group, from those (k+1, m_j) of φ and its rates; orders: of the slots of a block."""
    if layout.stride == 1:
        return rates[np.maximum(orders[:, 0] - group.order, 0)]
    own = np.tile(rates[0], group.windows.times.shape[1])
    return np.tile(np.concatenate([own, rates[: layout.k - group.order].ravel()]), (len(orders), 1))


def _samples(scales: Scales, path: np.ndarray) -> np.ndarray:
    """Three generic points near a path: entries that vanish at all of them are taken to vanish everywhere."""
    random = np.random.default_rng(0)
    z = random.standard_normal((3, *scales.units.shape)) * scales.units
    z[:, :, : path.shape[1]] = path + 0.1 * z[:, :, : path.shape[1]]
    return z
