"""From a variational problem and its windows to a KKT system: which unknowns a time node has, and what is fixed.

Block of a node: slots x (stride, n); for k ≥ 2 the highest derivative y at every point of a window as an unknown of its own,
with y = Σ rows x as a constraint whose multiplier is the highest momentum μ; multipliers λ of the differential constraints
at these points, those of lower order than L at windows of their own; multipliers of the holonomic constraints. The system is
then of first order in time: literal k-th differences of k-th differences would have the condition N²ᵏ, this one has Nᵏ.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dalembert.boundary.data.end_sets import MovingEnds, end_slots, sizes_of_set, state_of
from dalembert.boundary.data.sizes import Sizes
from dalembert.boundary.kkt.assembly import Elements
from dalembert.boundary.kkt.path_terms import WatchedPaths, as_given, moved_parameters, path_blocks
from dalembert.boundary.kkt.shared_unknowns import (
    EndCondition,
    OnSet,
    Place,
    Tie,
    TimedParts,
    carry,
    with_ends,
    with_free_time,
)
from dalembert.boundary.kkt.system import Components, KKTSystem, Monitored, Scales
from dalembert.boundary.kkt.terms import BlockLayout, Group, TermList, groups_of
from dalembert.discretize.window_maps import Windows, window_jets
from dalembert.systems.higher.variational import (
    VariationalProblem,
    constraint_numbers,
    density,
    orders_of,
    with_parameters,
)
from dalembert.systems.sizes import power_of_two
from dalembert.systems.system import role_of
from dalembert.tracing import seldom


def _places(windows: Windows, layout: BlockLayout, end: int) -> list[list[Place]]:
    """Places of q, q̇, … of an end in a path (blocks, b)."""
    begin = layout.part("slots").start
    block, own = np.divmod(end_slots(windows, end), windows.stride)
    return [[(int(b), begin + int(s) * layout.n + i) for i in range(layout.n)] for b, s in zip(block, own, strict=True)]


def tie_of(ends: MovingEnds, windows: Windows, layout: BlockLayout) -> Tie | None:
    """Components that are the same at both ends, or None."""
    tied = ends.sets.tied
    if not tied.any():
        return None
    chosen = [tuple(x) for x in np.argwhere(tied)]
    first, last = ([_places(windows, layout, end)[level][j] for level, j in chosen] for end in (0, -1))
    return Tie(first, last, ends.sets.shift[tied])


def conditions_of(
    ends: MovingEnds, windows: Windows, layout: BlockLayout, fixed: np.ndarray, sample: np.ndarray, sizes: Sizes
) -> list[EndCondition]:
    """ψ = 0 at the ends."""
    found, split = [], moved_parameters if np.any(ends.origin) else as_given
    path = sample + ends.origin * (windows.orders == 0)[:, None]
    for end, function, equations in zip((0, -1), ends.sets.on, ends.sets.equations, strict=True):
        if function is not None:
            places = [place for level in _places(windows, layout, end) for place in level]
            at = state_of(windows, path, fixed, end, sizes.positions)
            own = sizes_of_set(function, ends.problem, at, equations)
            term = OnSet(function, layout.n, layout.k, split)
            found.append(EndCondition(term, places, (windows.t[[end]],), own, max(places)[0]))
    return found


def end_multipliers(
    ends: MovingEnds | None, windows: Windows, layout: BlockLayout, z: np.ndarray
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """ν of ψ = 0 at the first and at the last end of a path (blocks, b), where they lie on sets: L̃ has -νᵀψ."""
    if ends is None:
        return None, None
    found: list[np.ndarray | None] = []
    for end, function, number in zip((0, -1), ends.sets.on, ends.sets.equations, strict=True):
        owner = max(place for level in _places(windows, layout, end) for place in level)[0]
        own = z[owner, layout.part("ends")][2 * ends.sets.carried :][:number]
        found.append(None if function is None else -own)
    return found[0], found[1]


class Transcription(NamedTuple):
    """A kkt, where its parts stand, and the windows it was made from. equations: the places among all differential
    constraints of those of L's own order; groups: those of lower order; watched: what else has bounds; ends: not given."""

    kkt: KKTSystem
    layout: BlockLayout
    windows: Windows
    data: list
    equations: tuple[int, ...]
    groups: list[Group]
    watched: WatchedPaths | None
    tie: Tie | None = None
    ends: MovingEnds | None = None

    @property
    def blocks_of_nodes(self) -> np.ndarray:
        return self.windows.nodes // self.windows.stride

    @property
    def places(self) -> np.ndarray:
        """(N+1, n): where the positions of the nodes stand in the flat path."""
        block, slot = np.divmod(self.windows.nodes, self.windows.stride)
        first = block * self.layout.size + self.layout.part("slots").start + slot * self.layout.n
        return first[:, None] + np.arange(self.layout.n)

    def watched_places(self, name: str) -> list[np.ndarray]:
        """(K, m) each: where "values" or "inequalities" of path inequalities stand in the flat path."""
        begin, found = self.layout.part(name).start, []
        for path in () if self.watched is None else self.watched.paths:
            blocks = path_blocks(path.level, int(self.blocks_of_nodes[0]))
            found.append(blocks[:, None] * self.layout.size + begin + np.arange(path.size))
            begin += path.size
        return found

    @property
    def positions(self) -> np.ndarray:
        """(n,): typical sizes of the coordinates."""
        return self.kkt.positions[: self.layout.n]

    @property
    def time_place(self) -> int:
        """Place of one θ of a free final time in the flat path."""
        return self.layout.part("time").start

    def at(self, z: np.ndarray) -> Transcription:
        """With the windows at the final time of a path z (blocks, b), where that is free."""
        if not self.layout.timed:
            return self
        factor, w = float(np.exp(z.ravel()[self.time_place])), self.windows
        groups = [g._replace(windows=g.windows.stretched(factor, w.orders[g.slots])) for g in self.groups]
        stretched = w.stretched(factor, w.slot_orders)
        watched = None if self.watched is None else self.watched.at_times(stretched.t)
        return self._replace(windows=stretched, groups=groups, watched=watched)

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


class Watching(NamedTuple):
    """Optional parts of a problem: path inequalities; a free final time; ends that are not given."""

    watched: WatchedPaths | None = None
    timed: bool = False
    ends: MovingEnds | None = None


def transcribe(
    problem: VariationalProblem, windows: Windows, given: FixedSlots, sample: np.ndarray, sizes: Sizes,
    asked: Watching | None = None,
) -> Transcription:  # fmt: skip
    """The KKT system of a problem. given: what is fixed. sample: (slots, n), a path to look at."""
    watched, timed, ends = asked or Watching()
    n, k, stride = sample.shape[1], problem.derivatives, windows.stride
    orders, holonomic = orders_of(problem, n), constraint_numbers(problem, n)[1]
    equations = tuple(i for i, order in enumerate(orders) if order == k)
    lower = (len(orders) - len(equations)) * (1 if stride == 1 else k)
    layout = BlockLayout(
        n, k, windows.times.shape[1], stride, windows.width, len(equations), lower, holonomic, 0 if stride > 1 else k // 2,
        0 if watched is None else watched.size, k > 1 and windows.differenced, timed,
        0 if ends is None else ends.sets.size,
    )  # fmt: skip
    made = TermList(with_parameters(problem, None), windows, layout, given.slots)
    made.add_windows(given.left_out)
    groups = groups_of(orders, windows, k, layout.part("lower").start, given.slots)
    for group in groups:
        made.add_lower(group)
        made.add_rates(group)
    if holonomic:
        made.add_holonomic()
    if watched is not None:
        made.add_watched(watched, given.left_out)
    tie = None if ends is None else tie_of(ends, windows, layout)
    if tie is not None:  # a tied end meets the constraints because the other one does
        made.fixed[sorted({block for block, _ in tie.first}), layout.part("holonomic")] = True
    primal, relaxed = np.zeros(layout.size, dtype=bool), np.zeros(layout.size, dtype=bool)
    primal[layout.part("slots")] = primal[layout.part("highest")] = primal[layout.part("values")] = True
    for name in ("multipliers", "lower", "holonomic", "inequalities"):
        relaxed[layout.part(name)] = True
    scales = _scales(windows, layout, sizes, equations, groups)
    if watched is not None:
        of_nodes = sizes.positions, sizes.positions / sizes.time, np.zeros(0)
        points = [watched.points(path, windows, sample) for path in watched.paths]
        found = [p.sizes(watched.parameters, x, of_nodes) for p, x in zip(watched.paths, points, strict=True)]
        _add_scales(scales, layout, np.concatenate(found), sizes.action)
    parts = TimedParts(
        Elements(tuple(made.terms), made.data, problem.parameters), Components(made.fixed, primal, relaxed),
        _monitored(windows, layout, given.slots, sizes), scales,
    )  # fmt: skip
    if ends is not None:
        parts = with_ends(
            parts, layout.part("ends").start, conditions_of(ends, windows, layout, given.slots, sample, sizes), tie
        )
    if timed:
        orders = [o if k > 1 else None for o in made.orders]
        orders += [None] * (len(parts.elements.terms) - len(orders))
        parts = with_free_time(parts, orders, float(windows.t[0]), layout.part("time").start)
    samples = _samples(parts.scales, sample.reshape(len(made.fixed), stride * n))
    kkt = KKTSystem(*parts, samples, role=lambda codes: role_of(codes, problem, {}))
    return Transcription(kkt, layout, windows, made.data, equations, groups, watched, tie, ends)


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
    if made.watched is not None:
        for path, places in zip(made.watched.paths, made.watched_places("values"), strict=True):
            for one, own in zip(z.reshape(batch, -1), slots, strict=True):
                one[places] = path.values(made.watched.parameters, made.watched.points(path, w, own))
    if a.carried:
        jets = np.asarray(_jets(w, slots))
        z[:, made.carriers, a.part("highest")] = jets[:, :, :, -1].reshape(batch, -1, a.carried)
        momenta = np.asarray(_highest_momentum(problem, jets, w.times))
        z[:, made.carriers, a.part("momentum")] = momenta.reshape(batch, -1, a.carried)
    if made.tie is not None:
        for i in range(batch):
            carry(z[i], a.part("ends").start, made.tie)
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


@seldom
def _jets(w: Windows, slots) -> jax.Array:
    """(batch, W, S, k+1, n) from slots (batch, slots, n)."""
    index = np.arange(len(w.times))[:, None] * w.stride + np.arange(w.width)
    one = jax.vmap(lambda rows, chained, x: window_jets(rows, chained, x, w.stride))
    return jax.vmap(lambda x: one(w.rows, w.chained, x[index]))(jnp.asarray(slots))


@seldom
def _highest_momentum(problem: VariationalProblem, jets, times):
    def momentum(jet, t):
        return jax.grad(lambda y: density(problem, (*(jet[j] for j in range(problem.derivatives)), y), t))(jet[-1])

    return jax.vmap(lambda batch: jax.vmap(jax.vmap(momentum))(batch, times))(jets)


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


def _add_scales(scales: Scales, layout: BlockLayout, values: np.ndarray, action: float) -> None:
    """Of path inequalities with these values (m,)."""
    scales.units[:, layout.part("values")] = power_of_two(values)
    scales.units[:, layout.part("inequalities")] = power_of_two(action / values)
    scales.residuals[:, layout.part("inequalities")] = action / (values * scales.action)


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
