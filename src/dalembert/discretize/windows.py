"""Windows: from k+1 neighbouring points, or given derivatives at an end, to the jet (q, q̇, …, q⁽ᵏ⁾) and its weight.

A path is a row of slots: one per node, and at an end whose derivatives are given the node repeated, so that a slot holds
q⁽ʲ⁾. Every window is the same formula, divided differences on knots that may coincide; the weights (t_{i+k} - t_i)/k then
add up to T.
"""

from __future__ import annotations

import functools
from fractions import Fraction
from math import factorial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from dalembert.discretize.window_maps import MAPS, WindowMap
from dalembert.numbers import first_line
from dalembert.systems.higher.variational import VariationalProblem, constraints_of_order, density
from dalembert.tracing import remembered


class Windows(NamedTuple):
    """jet⁽ʲ⁾ = rows[i, s, j] · y: window i reads the slots stride·i … stride·i + width - 1 and is evaluated at S
    points.

    A slot x holds the position of a node or one of its derivatives. y = x, except that from each position after the
    first the position before it is subtracted: large positions then cancel before they are multiplied by 1/hʲ.

    Attributes:
        rows: (W, S, k+1, width), the jets as linear functions of y.
        chained: (W, width), 1 where y is such a difference, with the slot `stride` before.
        times: (W, S) times of the points.
        weights: (W, S) weights of the points; their sum is the time covered.
        orders: (slots,) which derivative of q a slot holds.
        owners: (slots,) the node to which a slot belongs.
        nodes: (N+1,) the slot of each node's position.
        t: (N+1,) times of the nodes.
        stride: number of slots from one window to the next.
        scheme: the WindowMap that made them.
    """

    rows: Float[np.ndarray, "W S k+1 width"]
    chained: Float[np.ndarray, "W width"]
    times: Float[np.ndarray, "W S"]
    weights: Float[np.ndarray, "W S"]
    orders: Int[np.ndarray, "slots"]
    owners: Int[np.ndarray, "slots"]
    nodes: Int[np.ndarray, "N+1"]
    t: Float[np.ndarray, "N+1"]
    stride: int
    scheme: WindowMap

    @property
    def width(self) -> int:
        return self.rows.shape[-1]

    @property
    def slot_orders(self) -> Int[np.ndarray, "W width"]:
        """Which derivatives the slots hold that a window reads."""
        return self.orders[np.arange(len(self.times))[:, None] * self.stride + np.arange(self.width)]

    def stretched(self, factor: float, orders: Int[np.ndarray, "W width"]) -> Windows:
        """On steps `factor` times as long, from the same first time. orders: of the slots that the windows read."""
        begin, powers = self.t[0], orders[:, None, None, :] - np.arange(self.rows.shape[2])[:, None]
        return self._replace(
            rows=self.rows * factor ** powers.astype(float),
            times=begin + factor * (self.times - begin),
            weights=factor * self.weights,
            t=begin + factor * (self.t - begin),
        )

    @property
    def differenced(self) -> bool:
        """Whether the highest entry of the jet is a k-th difference."""
        return self.scheme.differenced


def windows(scheme: WindowMap, k: int, t: Float[np.ndarray, "N+1"], jets: tuple[bool, bool] = (True, True)) -> Windows:
    """jet⁽ʲ⁾ = rows · slots: the windows of the nodes t, increasing.

    If an end has no derivatives, k nodes are given there instead: the windows cover the nodes alone and leave out
    (k-1)/2 steps at that end.

    Args:
        scheme: a WindowMap.
        k: the order of the problem.
        t: (N+1,) times of the nodes.
        jets: whether the first and the last node have their derivatives as unknowns or data.

    Returns:
        The Windows.

    Example:
        >>> from dalembert.discretize import windows
        >>> windows(da.Interpolated(), 2, np.linspace(0.0, 1.0, 5), jets=(False, False)).rows.shape
        (3, 1, 3, 3)
    """
    t = np.asarray(t, dtype=float)
    repeats = scheme.repeats(k)
    counts = np.full(len(t), repeats)
    counts[[0, -1]] = [max(repeats, k if jet else 1) for jet in jets]
    node = np.repeat(np.arange(len(t)), counts)
    orders = np.concatenate([np.arange(c) for c in counts])
    if repeats == 1:  # at the first node the position comes last, next to the second node
        orders[: counts[0]] = orders[: counts[0]][::-1]
    width, stride = (2 * k, k) if repeats > 1 else (k + 1, 1)
    slots = np.arange(0, len(node) - width + 1, stride)[:, None] + np.arange(width)
    steps = np.diff(t)
    h = (t[-1] - t[0]) / len(steps)
    equal = bool(np.allclose(steps, h, rtol=1e-9, atol=0.0))
    knots = node[slots] - node[slots[:, :1]] if equal else t[node[slots]] - t[node[slots[:, :1]]]
    patterns, which = np.unique(np.concatenate([knots, orders[slots]], axis=1), axis=0, return_inverse=True)
    found = [_window(scheme, k, tuple(x[:width].tolist()), tuple(x[width:].astype(int).tolist())) for x in patterns]
    rows, places, weights = (np.array([f[i] for f in found])[which.ravel()] for i in range(3))
    if equal and scheme.differenced:
        rows = rows * (h ** -np.arange(k + 1.0))[:, None] * (h ** orders[slots].astype(float))[:, None, None, :]
        places, weights = h * places, h * weights
    chained = (orders[slots] == 0).astype(float)
    chained[np.arange(len(slots)), np.argmax(chained, axis=1)] = 0.0
    return Windows(
        rows,
        chained,
        t[node[slots[:, :1]]] + places,
        weights,
        orders,
        node,
        np.flatnonzero(orders == 0),
        t,
        stride,
        scheme,
    )


@functools.partial(jax.jit, static_argnames="stride")
def window_jets(rows, chained, x: Float[Array, "width n"], stride: int) -> Float[Array, "S k+1 n"]:
    """The jets (q, q̇, …, q⁽ᵏ⁾) at the S points of one window, from its slots."""
    before = jnp.concatenate([jnp.zeros((stride, x.shape[1])), x[:-stride]])
    return jnp.einsum("sjw,wi->sji", rows, x - chained[:, None] * before)


def window_action(problem: VariationalProblem, jets: Float[Array, "S k+1 n"], times, weights):
    """(L_d, Φ_d) of one window: L_d = Σ_s w_s L(jet_s, t_s), a scalar, and Φ_d = (w_s φ(jet_s, t_s)), (S, m_k).

    Of the constraints those of the order k of L alone: those of lower order have windows of their own, see
    `constraint_windows`. The augmented L̃_d = L_d + Σ_s λ_sᵀ Φ_d,s then has multipliers λ_s → λ(t_s). Colombo, Martín de
    Diego, Zuccalli, section 3.2, where the constraints are not weighted: their λⁱ is w λ_s. Their action (4.1) is k times
    the sum of these L_d.
    """
    parts = []
    for s in range(jets.shape[0]):
        jet = tuple(jets[s, j] for j in range(jets.shape[1]))
        parts.append(
            (
                weights[s] * density(problem, jet, times[s]),
                weights[s] * constraints_of_order(problem, problem.derivatives, jet, times[s]),
            )
        )
    return sum(p[0] for p in parts), jnp.stack([p[1] for p in parts])


@remembered(256)
def _window(scheme: WindowMap, k: int, knots: tuple, orders: tuple[int, ...]):
    """(rows, times, weights) of one window, knots counted from its first: whole numbers, then exact, or floats."""
    try:
        return _evaluated(scheme, k, knots, orders)
    except Exception as error:
        if type(scheme) in MAPS.values():
            raise
        raise TypeError(f"scheme: {type(scheme).__name__} could not be evaluated: {first_line(error)}") from error


def _evaluated(scheme: WindowMap, k: int, knots: tuple, orders: tuple[int, ...]):
    exact = isinstance(knots[0], int)
    positions = [Fraction(x) if exact else np.longdouble(x) for x in knots]
    table = _divided_differences(positions, orders, k)
    points = scheme.points(positions)
    jets = [scheme.jet(table, positions, point, k) for point, _ in points]
    rows = np.array([[_summed(row, orders) for row in jet] for jet in jets], dtype=float)
    if scheme.differenced:  # constants have no derivatives, to the last digit
        rows[:, :, orders.index(0)] = np.eye(k + 1)[0]
    return rows, np.array([float(x) for x, _ in points]), np.array([float(w) for _, w in points])


def _divided_differences(positions: list, orders: tuple[int, ...], k: int) -> list:
    """table[j][l] = q[t_l, …, t_{l+j}] as a row over the slots; where the knots coincide q⁽ʲ⁾/j!."""
    unit = np.eye(len(positions), dtype=type(positions[0]))
    held = {(t, order): unit[s] for s, (t, order) in enumerate(zip(positions, orders, strict=True))}
    table = [[held[t, 0] for t in positions]]
    for j in range(1, len(positions)):
        last = table[-1]
        ends = zip(positions, positions[j:], strict=False)
        table.append([
            held[a, j] / factorial(j) if a == b else (last[l + 1] - last[l]) / (b - a) for l, (a, b) in enumerate(ends)
        ])  # fmt: skip
    return table


def _summed(row: list, orders: tuple[int, ...]) -> list[float]:
    """The row over y instead of x: a position's entry is the sum over it and the later positions."""
    return [
        float(sum(row[l] for l in range(s, len(row)) if orders[l] == 0) if order == 0 else row[s])
        for s, order in enumerate(orders)
    ]
