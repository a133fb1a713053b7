"""Windows: from k+1 neighbouring points, or given derivatives at an end, to the jet (q, q̇, …, q⁽ᵏ⁾) and its weight.

A path is a row of slots: one per node, and at an end whose derivatives are given the node repeated, so that a slot holds
q⁽ʲ⁾. Every window is the same formula, divided differences on knots that may coincide; the weights (t_{i+k} - t_i)/k then
add up to T.

A constraint of lower order than L belongs on windows that see its highest derivative and nothing more: j+1 nodes, on which
its principal part is the j-th difference (z-1)ʲ. On the k+1 nodes of L it would be (z-1)ʲ a(z), and the roots of a, such as
-1 of (q₂-q₀)/2h, are motions that the constraint does not see and multipliers that do no work. On L's windows between two
nodes with derivatives it holds at the nodes with its first d-1 rates, d = k-j, and at j points between them: the zeros of
the j-th derivative of [s(1-s)]ᵏ. By Rodrigues' formula the d-th derivative of what vanishes there vanishes at L's Gauss
points, to leading order: the constraint is integrated, and given ends satisfy it to the last digit.
"""

from __future__ import annotations

import abc
import functools
from fractions import Fraction
from math import factorial
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from dalembert.discretize.scheme import Scheme
from dalembert.numbers import check_class, first_line
from dalembert.systems import VariationalProblem, constraints_of_order, density
from dalembert.tracing import remember


class WindowMap(eqx.Module):
    """Base class of the maps from a window of nodes to derivatives.

    Q^{k+1} → T⁽ᵏ⁾Q near the diagonal: how a window of k+1 nodes gives (q, q̇, …, q⁽ᵏ⁾). The base class of the window
    maps.

    Attributes:
        name: the name that a Solution stores.
        differenced: whether q⁽ᵏ⁾ is a k-th difference.
        order: k → the order of the solutions, with ends given by derivatives.

    Example:
        >>> da.Interpolated().order(2), da.Averaged().order(2), da.Hermite().order(2)
        (2, 2, 4)
    """

    name: ClassVar[str]
    differenced: ClassVar[bool] = True

    @abc.abstractmethod
    def order(self, k: int) -> int:
        """p of the error O(hᵖ) of the solutions."""

    def repeats(self, k: int) -> int:
        """Number of unknown vectors at a node."""
        return 1

    def points(self, positions: list) -> list[tuple[Any, Any]]:
        """(time from the first knot, weight) of each point at which the jet is evaluated."""
        k = len(positions) - 1
        return [(sum(positions) / len(positions), (positions[-1] - positions[0]) / k)]

    def jet(self, table: list, positions: list, point, k: int) -> list:
        """The rows of q, q̇, …, q⁽ᵏ⁾ at a point, from the table of divided differences."""
        return _interpolant(table, positions, point, k)


class Interpolated(WindowMap):
    """The jet of the polynomial through the k+1 points, at the mean of their times: second order, on any grid.

    k = 2, equal steps: (q₁, (q₂-q₀)/2h, (q₂-2q₁+q₀)/h²).

    Attributes:
        name: "interpolated".

    Example:
        >>> da.solve(beam, initial=([0.0],), final=([1.0],), T=1.0, steps=10, scheme=da.Interpolated()).scheme
        'interpolated'
    """

    name: ClassVar[str] = "interpolated"

    def order(self, k: int) -> int:
        return 2


class Averaged(WindowMap):
    """Take derivatives of a window of nodes as averages of its divided differences.

    q⁽ʲ⁾ = the mean of the k+1-j divided differences of order j, times j!: second order.

    k = 2: (mean of three points, (q₂-q₀)/(t₂-t₀), second difference).

    Attributes:
        name: "averaged".

    Source: Colombo, Martín de Diego, Zuccalli, section 4.2, whose second difference, divided by t₂-t₁, is consistent for
    equal steps only; here it is divided by (t₂-t₀)/2.

    Example:
        >>> da.Averaged().name
        'averaged'
    """

    name: ClassVar[str] = "averaged"

    def order(self, k: int) -> int:
        return 2

    def jet(self, table, positions, point, k):
        return [factorial(j) * sum(table[j]) / len(table[j]) for j in range(k + 1)]


class Hermite(WindowMap):
    """The polynomial of degree 2k-1 through the jets of two nodes, evaluated at k Gauss points: order 2k.

    The unknowns of a node are q, q̇, …, q⁽ᵏ⁻¹⁾.

    Attributes:
        name: "hermite".

    Source: not in the paper of Colombo, Martín de Diego, Zuccalli: its L_d on Q^{k+1} is replaced by one on (T⁽ᵏ⁻¹⁾Q)².

    Example:
        >>> cubic = da.solve(beam, initial=([0.0], [0.0]), final=([1.0], [0.0]), T=1.0, steps=2, scheme=da.Hermite())
        >>> round(float(cubic.action), 9)  # ½∫q̈², exact
        6.0
    """

    name: ClassVar[str] = "hermite"

    def order(self, k: int) -> int:
        return 2 * k

    def repeats(self, k: int) -> int:
        return k

    def points(self, positions):
        places, weights = self._rule(len(positions) // 2)
        return [(positions[-1] * x, positions[-1] * w) for x, w in zip(places.tolist(), weights.tolist(), strict=True)]

    def _rule(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Places and weights on [0, 1]."""
        return gauss(k)


class Points(WindowMap):
    """L_d(q₀, …, q_k) and Φ_d(q₀, …, q_k) are the functions of the problem themselves, with weight 1 and the time of q₀: no
    jet.

    The discrete variational principle itself, on equal steps or without any step; ends are given by nodes.

    Attributes:
        name: "points".
        differenced: False.

    Source: Colombo, Martín de Diego, Zuccalli, section 3.1.

    Example:
        >>> discrete = da.VariationalProblem(lambda q0, q1: 0.5 * (q1 - q0) @ (q1 - q0))
        >>> first, last = da.Nodes([[0.0]]), da.Nodes([[1.0]])
        >>> da.solve(discrete, initial=first, final=last, T=4, steps=4, scheme=da.Points()).q[:, 0].round(9).tolist()
        [0.0, 0.25, 0.5, 0.75, 1.0]
    """

    name: ClassVar[str] = "points"
    differenced: ClassVar[bool] = False

    def order(self, k: int) -> int:
        raise ValueError("scheme: a discrete Lagrangian given directly has no order of its own")

    def points(self, positions):
        return [(0 * positions[0], 1)]

    def jet(self, table, positions, point, k):
        return table[0]


def as_windows(scheme: Any) -> WindowMap:
    """TypeError for anything but windows."""
    check_class(scheme, WindowMap, "scheme", "Interpolated(), Averaged() or Hermite()")
    return scheme


def as_scheme(scheme: Any, default: Scheme | None = None) -> Scheme:
    """The scheme of a System, the default one for None; ValueError for the windows of a VariationalProblem."""
    if scheme is None:
        return default or Scheme()
    if isinstance(scheme, WindowMap):
        raise ValueError(f"scheme: {type(scheme).__name__} belongs to a VariationalProblem; give a Scheme")
    check_class(scheme, Scheme, "scheme", "a Scheme")
    return scheme


def check_stretchable(scheme: WindowMap) -> None:
    """ValueError for windows that do not depend on the steps."""
    if not scheme.differenced:
        raise ValueError(
            f"T: found Free together with scheme={type(scheme).__name__}(), whose discrete Lagrangian has no time step that "
            "could change; give T as a number"
        )


MAPS = {cls.name: cls for cls in (Interpolated, Averaged, Hermite, Points)}


def _interpolant(table: list, positions: list, point, k: int) -> list:
    """Derivatives 0 … k at a point of Newton's Σ_m q[t_0 … t_m] (t - t_0) … (t - t_{m-1})."""
    jet = [0 * table[0][0]] * (k + 1)
    product = [1] + [0] * k  # Taylor coefficients of the product at the point
    for m, row in enumerate(table):
        jet = [have + factorial(j) * product[j] * row[0] for j, have in enumerate(jet)]
        distance = point - positions[m]
        product = [distance * product[0], *(distance * product[j] + product[j - 1] for j in range(1, k + 1))]
    return jet


def jets_at_times(scheme: WindowMap, nodes, times) -> list[tuple[list, Any, Any]]:
    """(q, q̇, …, q⁽ᵏ⁾) at each point of k+1 nodes at different times, which may be traced; how long after the first it is,
    and its weight."""
    k, positions, table = len(times) - 1, [t - times[0] for t in times], [list(nodes)]
    for j in range(1, k + 1):
        ends = zip(table[-1], table[-1][1:], positions, positions[j:], strict=False)
        table.append([(after - before) / (b - a) for before, after, a, b in ends])
    return [(scheme.jet(table, positions, place, k), place, weight) for place, weight in scheme.points(positions)]


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
        return self.orders[self.slot_places]

    @property
    def slot_places(self) -> Int[np.ndarray, "W width"]:
        """The slots that a window reads."""
        return np.arange(len(self.times))[:, None] * self.stride + np.arange(self.width)

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
        """True if the highest entry of the jet is a k-th difference."""
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
    found = [window_at(scheme, k, tuple(x[:width].tolist()), tuple(x[width:].astype(int).tolist())) for x in patterns]
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


@remember(256)
def window_at(scheme: WindowMap, k: int, knots: tuple, orders: tuple[int, ...]):
    """(rows, times, weights) of one window, knots counted from its first: whole numbers, then exact, or floats."""
    try:
        return _evaluate(scheme, k, knots, orders)
    except Exception as error:
        if type(scheme) in MAPS.values():
            raise
        raise TypeError(f"scheme: {type(scheme).__name__} could not be evaluated: {first_line(error)}") from error


def _evaluate(scheme: WindowMap, k: int, knots: tuple, orders: tuple[int, ...]):
    exact = isinstance(knots[0], int)
    positions = [Fraction(x) if exact else np.longdouble(x) for x in knots]
    table = _divided_differences(positions, orders)
    points = scheme.points(positions)
    jets = [scheme.jet(table, positions, point, k) for point, _ in points]
    rows = np.array([[_sum_entries(row, orders) for row in jet] for jet in jets], dtype=float)
    if scheme.differenced:  # constants have no derivatives, to the last digit
        rows[:, :, orders.index(0)] = np.eye(k + 1)[0]
    return rows, np.array([float(x) for x, _ in points]), np.array([float(w) for _, w in points])


def _divided_differences(positions: list, orders: tuple[int, ...]) -> list:
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


def _sum_entries(row: list, orders: tuple[int, ...]) -> list[float]:
    """The row over y instead of x: a position's entry is the sum over it and the later positions."""
    return [
        float(sum(row[l] for l in range(s, len(row)) if orders[l] == 0) if order == 0 else row[s])
        for s, order in enumerate(orders)
    ]


class Between(Hermite):
    """Hermite's windows at j = k-d points: exact for Σ_s w_s f(s), d-fold zeros at the nodes given, up to degree 2k-1.

    multiplicity: d.
    """

    name: ClassVar[str] = "between"
    multiplicity: int = 1

    def _rule(self, k):
        return inner_points(k, self.multiplicity)


def gauss(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Places and weights on [0, 1]."""
    places, weights = np.polynomial.legendre.leggauss(count)
    return 0.5 * (1 + places), 0.5 * weights


def inner_points(k: int, d: int) -> tuple[Float[np.ndarray, "j"], Float[np.ndarray, "j"]]:
    """Zeros of P_k⁽ᵈ⁾ on [0, 1], P_k Legendre's polynomial, and the weights of f(s) in the quadrature with d-fold ends.

    d = 0: Gauss; d = 1: Lobatto. The weight of f at an end is (1 - Σ w)/2.
    """
    polynomial = np.polynomial.legendre.Legendre.basis(k).deriv(d) if d else np.polynomial.legendre.Legendre.basis(k)
    x = np.sort(polynomial.roots().real)
    gauss, w = np.polynomial.legendre.leggauss(2 * k)
    lagrange = [np.prod([(gauss - b) / (a - b) for b in x if b != a], axis=0) for a in x]
    bubble = [((1 - gauss**2) / (1 - a**2)) ** d for a in x]
    return 0.5 * (1 + x), np.array([0.5 * np.sum(w * l * b) for l, b in zip(lagrange, bubble, strict=True)])


def constraint_windows(w: Windows, k: int, order: int) -> Windows:
    """The windows at which a constraint of this order is taken, order < k, from those of L.

    Node windows: those of a problem of this order on the same nodes; its slots are those of L but the first and last k -
    order where the ends hold derivatives. Windows between nodes with derivatives: the same, at the inner points.
    """
    if w.stride > 1:
        found = windows(Between(k - order), k, w.t)
        return found._replace(rows=found.rows[:, :, : order + 1])
    return windows(w.scheme, order, w.t, ends_with_derivatives(w))


def ends_with_derivatives(w: Windows) -> tuple[bool, bool]:
    """For the first and for the last node, True if its slots hold derivatives."""
    return int(w.nodes[0]) > 0, int(w.nodes[-1]) + 1 < len(w.orders)
