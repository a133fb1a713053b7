"""From a variational problem and its windows to a chain: which unknowns a time node has, and what is fixed.

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
from dalembert.boundary.kkt.assembly import Term
from dalembert.boundary.kkt.lower import Group, LowerTerm, groups_of, node_weights
from dalembert.boundary.kkt.system import Chain, Scales
from dalembert.discretize.constraint_windows import ends_with_derivatives
from dalembert.discretize.windows import Windows, window_action, window_jets
from dalembert.systems.higher.variational import (
    VariationalProblem,
    constraint_numbers,
    constraints_of_order,
    density,
    holonomic_constraints,
    orders_of,
    with_parameters,
)
from dalembert.systems.roles import role_of
from dalembert.systems.sizes import power_of_two
from dalembert.tracing import Jitted

OWN = ("highest", "momentum", "multipliers")  # parts of a block that belong to a window


@dataclasses.dataclass(frozen=True)
class Layout:
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
    layout: Layout

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

        def derivative(i: int, s):
            if i > 0:
                return jax.jacfwd(lambda r: derivative(i - 1, r))(s)
            jet = [self.curve(x[l:], s) for l in range(self.order + 1)]
            if self.order:
                return constraints_of_order(problem, self.order, jet, time + s)
            return holonomic_constraints(problem, jet[0], time + s)

        return jnp.zeros(()), weight * jnp.concatenate(
            [derivative(i, 0.0) for i in range(self.begin, self.slots - self.order)]
        )

    def curve(self, derivatives, s):
        """The polynomial with these derivatives at s = 0."""
        return sum((x * s**l / _FACTORIALS[l] for l, x in enumerate(derivatives)), jnp.zeros(self.n))


_FACTORIALS = (1.0, 1.0, 2.0, 6.0)


def _term(function, places: list[tuple[int, int]], multipliers: tuple[int, ...], start: int, number: int) -> Term:
    """places: (offset, component) of every number the function reads."""
    return Term(function, tuple(o for o, _ in places), tuple(c for _, c in places), multipliers, start, number)


class Transcription(NamedTuple):
    """A chain, where its parts stand, and the windows it was made from. equations: the places among all differential
    constraints of those of L's own order; groups: those of lower order."""

    chain: Chain
    layout: Layout
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


def transcribe(
    problem: VariationalProblem,
    windows: Windows,
    n: int,
    fixed_slots: np.ndarray,
    sample: np.ndarray,
    sizes: Sizes,
    left_out: np.ndarray | None = None,
) -> Transcription:
    """The chain of a problem. fixed_slots: (slots,), those that keep their value, but for the components left_out (slots,
    n). sample: (slots, n), a path to look at."""
    orders, holonomic = orders_of(problem, n), constraint_numbers(problem, n)[1]
    stride, k = windows.stride, problem.derivatives
    count, points = windows.times.shape
    blocks = len(windows.orders) // stride
    equations = tuple(i for i, order in enumerate(orders) if order == k)
    lower = (len(orders) - len(equations)) * (1 if stride == 1 else k)
    layout = Layout(
        n, k, points, stride, windows.width, len(equations), lower, holonomic, 0 if stride > 1 else k // 2,
        k > 1 and windows.differenced,
    )  # fmt: skip
    bare = with_parameters(problem, None)
    terms, data = [], []
    places = [*_slots(windows.width, stride, n), *((layout.attached, c) for name in OWN for c in layout.components(name))]
    shift = windows.width * n + layout.carried
    terms.append(_term(WindowTerm(bare, layout), places, tuple(range(shift, len(places))), 0, count))
    data.append((windows.rows, windows.chained, windows.times, windows.weights))
    fixed = np.ones((blocks, layout.size), dtype=bool)
    fixed[:, layout.part("slots")] = np.repeat(fixed_slots.reshape(blocks, stride), n, axis=1)
    if left_out is not None:
        fixed[:, layout.part("slots")] &= ~left_out.reshape(blocks, -1)
    for name in OWN:
        fixed[layout.attached : layout.attached + count, layout.part(name)] = False
    groups = groups_of(orders, windows, k, layout.part("lower").start, fixed_slots)
    for group in groups:
        _add_lower(group, layout, bare, fixed, terms, data)
        _add_rates(group, windows, layout, bare, fixed_slots, fixed, terms, data)
    if holonomic:
        _add_holonomic(windows, layout, bare, fixed_slots, fixed, terms, data)
    primal = np.zeros(layout.size, dtype=bool)
    primal[layout.part("slots")] = primal[layout.part("highest")] = True
    # Positions, and the free derivatives at ends; between them rounding of derivatives grows with every order.
    judged = np.flatnonzero((windows.orders == 0) | (~fixed_slots & (stride == 1)))
    path = (judged // stride * layout.size + judged % stride * n)[:, None] + np.arange(n)
    scales = _scales(windows, layout, sizes, equations, groups)
    points_to_look_at = _samples(scales, sample.reshape(blocks, stride * n))
    relaxed = np.zeros(layout.size, dtype=bool)
    for name in ("multipliers", "lower", "holonomic"):
        relaxed[layout.part(name)] = True
    spans = sizes.time ** windows.orders[judged].astype(float)
    chain = Chain(terms, data, problem.parameters, fixed, primal, relaxed, path, spans, scales, points_to_look_at,
                  lambda codes: role_of(codes, problem, {}))  # fmt: skip
    return Transcription(chain, layout, windows, data, equations, groups)


def first_values(problem: VariationalProblem, made: Transcription, slots: np.ndarray) -> np.ndarray:
    """(batch, blocks, b) from slots (batch, slots, n): y as the slots have it, μ = ∂L/∂q⁽ᵏ⁾ there, the other multipliers
    zero."""
    a, w, batch = made.layout, made.windows, len(slots)
    z = np.zeros((batch, *made.chain.fixed.shape))
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


def _add_lower(group: Group, layout: Layout, bare, fixed: np.ndarray, terms: list, data: list) -> None:
    """φ at the windows of a group; where all that it reads is given it has no multiplier."""
    w, start = group.windows, group.first
    slots = _slots(w.width, layout.stride, layout.n)
    places = [*slots, *((group.attached, group.begin + c) for c in range(group.size))]
    function = LowerTerm(bare, group.order, layout.n, w.width, layout.stride)
    terms.append(_term(function, places, tuple(range(len(slots), len(places))), start, len(w.times)))
    data.append((w.rows, w.chained, w.times, w.weights))
    blocks = start + group.attached + np.flatnonzero(group.free)
    fixed[blocks, group.begin : group.begin + group.size] = False


def _add_rates(
    group: Group, windows: Windows, layout: Layout, bare, fixed_slots: np.ndarray, fixed: np.ndarray, terms: list, data: list
) -> None:
    """φ and its rates at the nodes that hold derivatives, for every free q⁽ᵒʳᵈᵉʳ⁺ⁱ⁾ that with i."""
    k, j, m = layout.k, group.order, len(group.equations)
    if layout.stride > 1:
        begin = group.begin + group.size
        slots = _slots(k, k, layout.n)
        places = [*slots, *((0, begin + c) for c in range((k - j) * m))]
        weights = node_weights(windows, k, j)
        terms.append(
            _term(NodeTerm(bare, layout.n, k, 0, j), places, tuple(range(len(slots), len(places))), 0, len(windows.t))
        )
        data.append((weights, windows.t))
        fixed[:, begin : begin + (k - j) * m] = np.repeat(fixed_slots.reshape(-1, k)[:, j:], m, axis=1)
        return
    sides = zip(ends_with_derivatives(windows), (0, int(windows.nodes[-1])), (0, -1), strict=True)
    for held, start, node in sides:
        blocks = list(range(k - 1, -1, -1)) if node == 0 else list(range(k))  # of q, q̇, …, from the first of them
        rates = [l for l in range(j, k) if held and not fixed_slots[start + blocks[l]]]
        if not rates:
            continue
        slots = [(blocks[l], i) for l in range(k) for i in range(layout.n)]
        places = [*slots, *((blocks[l], group.begin + c) for l in rates for c in range(m))]
        function = NodeTerm(bare, layout.n, k, rates[0] - j, j)
        terms.append(_term(function, places, tuple(range(len(slots), len(places))), start, 1))
        data.append((np.array([np.diff(windows.t)[node]]), windows.t[[node]]))
        for l in rates:
            fixed[start + blocks[l], group.begin : group.begin + m] = False


def _add_holonomic(
    windows: Windows, layout: Layout, bare, fixed_slots: np.ndarray, fixed: np.ndarray, terms: list, data: list
) -> None:
    """φ at every position that is not fixed, and its time derivatives at the derivatives that are not.

    A node's weight is half of the steps beside it, so that its multiplier is that of L + μᵀφ.
    """
    part, n, k, stride, blocks = layout.part("holonomic"), layout.n, layout.k, layout.stride, len(fixed)
    fixed[:, part] = np.repeat(fixed_slots.reshape(blocks, stride), layout.holonomic, axis=1)
    steps = np.diff(windows.t)
    own = 0.5 * (np.append(steps, 0.0) + np.append(0.0, steps)) if windows.differenced else np.ones(len(windows.t))

    def add(blocks_of_slots: list[int], begin: int, start: int, times, weights) -> None:
        """Slots l = 0 … of a node stand in the blocks start + blocks_of_slots[l]; constraints from derivative `begin` on."""
        spread = stride == 1
        slots = [(o, (0 if spread else l) * n + i) for l, o in enumerate(blocks_of_slots) for i in range(n)]
        own = [
            (o, part.start + (0 if spread else l) * layout.holonomic + i)
            for l, o in enumerate(blocks_of_slots) if l >= begin for i in range(layout.holonomic)
        ]  # fmt: skip
        function = NodeTerm(bare, n, len(blocks_of_slots), begin)
        multipliers = tuple(range(len(slots), len(slots) + len(own)))
        terms.append(_term(function, [*slots, *own], multipliers, start, len(times)))
        data.append((weights, np.asarray(times)))

    if stride > 1:
        add([0] * stride, 0, 0, windows.t, own)
        return
    first, last = int(windows.nodes[0]), int(windows.nodes[-1])
    add([0], 0, first, windows.t, own)
    if first and not fixed_slots[:first].all():
        add(list(range(k - 1, -1, -1)), 1, 0, windows.t[:1], own[:1])
    if last + 1 < blocks and not fixed_slots[last + 1 :].all():
        add(list(range(k)), 1, last, windows.t[-1:], own[-1:])


def _scales(windows: Windows, layout: Layout, sizes: Sizes, equations: tuple[int, ...], groups: list[Group]) -> Scales:
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


def _lower_sizes(group: Group, layout: Layout, orders: np.ndarray, rates: np.ndarray) -> np.ndarray:
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
