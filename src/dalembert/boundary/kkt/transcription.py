"""From the unknowns of a variational problem to its KKT system: terms, sizes, and what is fixed; and to a first path."""

from __future__ import annotations

import jax
import numpy as np

from dalembert.boundary.data.sizes import Sizes
from dalembert.boundary.kkt.assembly import Elements
from dalembert.boundary.kkt.shared_unknowns import TimedParts, carry, with_ends, with_free_time
from dalembert.boundary.kkt.system import Components, KKTSystem, Monitored, Scales
from dalembert.boundary.kkt.terms import TermList
from dalembert.boundary.kkt.window_unknowns import BlockLayout, SlotGroup, Transcription, WindowUnknowns
from dalembert.discretize import Windows
from dalembert.systems import VariationalProblem, density, power_of_two
from dalembert.tracing import seldom


def transcribe(
    own: WindowUnknowns, sample: np.ndarray, sizes: Sizes, bases: np.ndarray | None = None, far: np.ndarray | float = 0.0
) -> Transcription:
    """The KKT system of a problem. sample: (slots, n), a path to look at; bases: (1, N+1, size), on groups; far: how large
    positions are stored there over the tolerance: their rounding shows in derivatives."""
    layout, windows = own.layout, own.windows
    made = TermList(own)
    z = np.zeros(made.fixed.shape)
    z[:, layout.part("slots")] = sample.reshape(len(z), -1)
    if bases is not None:
        z[:, layout.part("base")] = bases[0, windows.owners]
    if own.tie is not None:  # a tied end meets the constraints because the other one does
        made.fixed[sorted({block for block, _ in own.tie.first}), layout.part("holonomic")] = True
    primal, relaxed = np.zeros(layout.size, dtype=bool), np.zeros(layout.size, dtype=bool)
    for name in ("slots", "highest", "values", "base"):
        primal[layout.part(name)] = True
    for name in ("multipliers", "lower", "holonomic", "inequalities"):
        relaxed[layout.part(name)] = True
    relaxed[layout.part("momentum")] = not own.space.flat  # elsewhere the highest derivatives are linear in the nodes
    rounding = 4.0 * np.finfo(float).eps * (far + np.zeros(layout.n)) / np.diff(own.t).min() ** layout.k
    scales = _scales(windows, layout, sizes, own.equations, own.groups, rounding)
    of_nodes = sizes.positions, sizes.positions / sizes.time, np.zeros(0)
    values = own.value_sizes([own.path_points(path, z) for path in own.paths], of_nodes)
    _add_scales(scales, layout, values, sizes.action)
    parts = TimedParts(
        Elements(tuple(made.terms), made.data, own.problem.parameters), Components(made.fixed, primal, relaxed),
        _monitor(windows, layout, own.fixed, sizes), scales,
    )  # fmt: skip
    if own.sets.size:
        parts = with_ends(parts, layout.part("ends").start, own.end_conditions(z, sizes.positions), own.tie)
    if own.horizon is not None:
        orders = [o if layout.k > 1 else None for o in made.orders]
        orders += [None] * (len(parts.elements.terms) - len(orders))
        parts = with_free_time(parts, orders, own.horizon.begin, own.time_place)
    samples = _samples(parts.scales, sample.reshape(len(z), -1))
    kkt = KKTSystem(*parts, samples, own.given, recentre=None if own.space.flat else own.recentre)
    return Transcription(**vars(own), kkt=kkt)


def _monitor(windows: Windows, layout: BlockLayout, fixed_slots: np.ndarray, sizes: Sizes) -> Monitored:
    """Positions, and the free derivatives at ends; between them rounding of derivatives grows with every order."""
    judged = np.flatnonzero((windows.orders == 0) | (~fixed_slots & (layout.stride == 1)))
    places = (judged // layout.stride * layout.size + judged % layout.stride * layout.n)[:, None] + np.arange(layout.n)
    return Monitored(places, sizes.time ** windows.orders[judged].astype(float))


def first_values(made: Transcription, slots: np.ndarray, bases: np.ndarray | None = None) -> np.ndarray:
    """(batch, blocks, b) from slots (batch, slots, n): y as the slots have it, μ = ∂L/∂q⁽ᵏ⁾ there, the other multipliers
    zero. bases: (batch, N+1, size), on groups."""
    a, w, batch = made.layout, made.windows, len(slots)
    z = np.zeros((batch, *made.kkt.fixed.shape))
    z[:, :, a.part("slots")] = slots.reshape(batch, -1, a.stride * a.n)
    if bases is not None:
        z[:, :, a.part("base")] = bases[:, w.owners]
    if a.highest:
        jets = made.jets_of_nodes(z)
        z[:, made.carriers, a.part("highest")] = jets[:, :, :, -1].reshape(batch, -1, a.highest)
        momenta = np.asarray(_highest_momentum(made.problem, jets, w.times))
        z[:, made.carriers, a.part("momentum")] = momenta.reshape(batch, -1, a.highest)
    for i in range(batch):
        made.place_values(z[i])
        if made.tie is not None:
            carry(z[i], a.part("ends").start, made.tie)
    return z


def sampled_jets(w: Windows, slots: np.ndarray, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Jets (number, k+1, n) of a path (slots, n) at some windows, and their times; by NumPy, as they are few."""
    chosen = np.unique(np.linspace(0, len(w.times) - 1, number).astype(int))
    x = slots[chosen[:, None] * w.stride + np.arange(w.width)]
    x[:, w.stride :] -= w.chained[chosen][:, w.stride :, None] * x[:, : -w.stride].copy()
    middle = w.times.shape[1] // 2
    return np.einsum("ijw,iwn->ijn", w.rows[chosen, middle], x), w.times[chosen, middle]


@seldom
def _highest_momentum(problem: VariationalProblem, jets, times):
    def momentum_at(jet, t):
        return jax.grad(lambda y: density(problem, (*(jet[j] for j in range(problem.derivatives)), y), t))(jet[-1])

    return jax.vmap(lambda batch: jax.vmap(jax.vmap(momentum_at))(batch, times))(jets)


def _scales(
    windows: Windows, layout: BlockLayout, sizes: Sizes, equations: tuple[int, ...], groups: list[SlotGroup],
    rounding: np.ndarray,
) -> Scales:  # fmt: skip
    """The units of the components: s/Tⁱ of slots and highest derivatives, σTᵏ/s of their momenta, σ/γ of multipliers.

    rounding: of the highest derivatives, over the tolerance.
    """
    orders = windows.orders.reshape(-1, layout.stride)
    blocks, total = len(orders), float(windows.weights.sum())
    units, residuals = np.ones((blocks, layout.size)), np.zeros((blocks, layout.size))
    highest, every = sizes.of(layout.k if windows.differenced else 0), np.arange(layout.k + 1)
    per_time = sizes.time ** -every.astype(float)[:, None]  # of the derivatives of φ
    for name, value in (
        ("slots", power_of_two(sizes.of(every))[orders].reshape(blocks, -1)),
        ("highest", power_of_two(np.tile(highest, layout.points)[: layout.highest])),
        ("momentum", power_of_two(np.tile(sizes.action / highest, layout.points)[: layout.highest])),
    ):
        units[:, layout.part(name)] = value
    least = np.tile(np.maximum(highest, rounding), layout.points)[: layout.highest]
    residuals[:, layout.part("momentum")] = 1.0 / (least * total)
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


def _lower_sizes(group: SlotGroup, layout: BlockLayout, orders: np.ndarray, rates: np.ndarray) -> np.ndarray:
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
