"""The discrete Euler-Lagrange equations of order k, window after window, in Newton's coordinates and their momenta.

A window of k+1 knots t_0 ≤ … ≤ t_k is described by its differences u_j = j! q[t_0, …, t_j], which are (q_0, Δq/h, …, Δᵏq/hᵏ)
for equal steps and the derivatives q⁽ʲ⁾ where knots coincide. With spans g_j = (t_j - t_0)/j, those of the next window are
u'_j = u_j + g_{j+1} u_{j+1}. The momenta Π_j, conjugate to u_j, are Θ⁺ of Colombo, Martín de Diego, Zuccalli, Theorem
3.1, in these coordinates: with W = Π + ∂L̃_d/∂u, the covector on all k+1 points,

    Π'_0 = W_0,   Π'_j = W_j - g_j Π'_{j-1},   0 = W_k - g_k Π'_{k-1},   Φ_d = 0.

The third equation is Σ_j D_j L̃_d = 0 at the oldest point, eq. (3.4): it says that W has no component along δq_0. A
constraint of lower order r < k, and a holonomic one, r = 0, is taken on r+1 points: its multiplier λ with those where the
window begins, in L̃_d, and φ = 0 where it ends. So all of φ = 0 on a path are solved, each once, and the multipliers that
reach into the next window are r: the state has as many dimensions as that of the continuous problem. Ostrogradsky's
equations dΠ_j/dt = L_{q⁽ʲ⁾} - Π_{j-1}, Π_{k-1} = L_{q⁽ᵏ⁾}, are its limit. In the printed form momenta of size 1/hᵏ cancel
each other, and rounding is amplified by 1/h^{2k-1} in the derivative of order 2k-1; here all have the problem's own size.
Shared with boundary problems are `windows.window_action`, L_d and Φ_d of a window, which they sum over a path, and
`constraint_derivatives`. The equations from window to window are those of `step`; `measure` reads them.
"""

from __future__ import annotations

from fractions import Fraction
from math import factorial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.discretize.window_maps import WindowMap, window_action
from dalembert.systems import VariationalProblem, common_order, constraints_of_order, holonomic_constraints
from dalembert.systems.higher.variational import constraint_derivatives
from dalembert.tracing import remember

Differences = Float[Array, "k n"]
Numbers = Array | np.ndarray


class Window(NamedTuple):
    """One window in Newton's coordinates, or several with a leading axis.

    jet: jet⁽ʲ⁾ = Σ_i jet[j, i] u_i. spans: g_1 … g_k; the weight of the window is g_k. newest: the last point is
    Σ_i newest[i] u_i.
    begin: the time of the first knot, middle: of the jet. order: (k,) one-hot, the derivative which the oldest
    slot holds; None where it can only be a position.
    """

    jet: Float[Numbers, "k+1 k+1"]
    spans: Float[Numbers, "k"]
    newest: Float[Numbers, "k+1"]
    begin: Float[Numbers, ""]
    middle: Float[Numbers, ""]
    order: Float[Numbers, "k"] | None


class HigherState(NamedTuple):
    """u_0 … u_{k-1} of the next window and their momenta: a point of T*Q^k."""

    u: Differences
    momenta: Differences


class Unknowns(NamedTuple):
    """Unknowns that a window adds: u_k, the multipliers of differential constraints and those of holonomic ones, both times
    h^{k-r}, see `multiplier_size`."""

    highest: Float[Array, "n"]
    multipliers: Float[Array, "m"]
    holonomic: Float[Array, "mh"]


def equal_window(scheme: WindowMap, k: int, h, t) -> Window:
    """The window of k+1 equal steps h from the time t on."""
    return _scale_window(_unit_window(scheme, k, tuple(range(k + 1))), h, t, scheme.differenced)._replace(order=None)


def starting_windows(scheme: WindowMap, k: int, h, t) -> Window:
    """The k windows whose first knots coincide at t, with k, …, 1 of them there: a leading axis of k."""
    found = [_unit_window(scheme, k, (0,) * (k - s) + tuple(range(1, s + 2))) for s in range(k)]
    return jax.vmap(lambda w: _scale_window(w, h, t, scheme.differenced))(
        Window(*(np.stack(x) for x in zip(*found, strict=True)))
    )


def window_equations(
    problem: VariationalProblem, window: Window, state: HigherState, new: Unknowns, short: Window | None = None
) -> tuple[Float[Array, "n_plus_m"], HigherState]:
    """The n + m + mh left sides of the equations above, the first divided by g_k; and the state at the next window.

    short: the window of r+1 points with which this one begins, where the differential constraints have the order r < k; the
    steps are equal. A holonomic constraint is paired as in Colombo, Martín de Diego, Zuccalli, section 4.4: the multiplier
    of dφ at the oldest point with φ = 0 at the newest one. Where the oldest slot holds q⁽ʲ⁾ it is the multiplier of dʲφ/dtʲ.
    """
    u = jnp.concatenate([state.u, new.highest[None]])

    def augmented_action(x):
        jets = (window.jet @ x)[None]
        action, defects = window_action(problem, jets, window.middle[None], window.spans[-1:])
        forces = new.holonomic @ _oldest_constraint(problem, window, x) / holonomic_chain(window)
        if short is None:
            return action + jnp.sum(new.multipliers * defects[0]) + forces, defects[0] / window.spans[-1]
        h, reach = short.spans[0], x.shape[0] - short.jet.shape[0]
        multipliers = new.multipliers / multiplier_size(problem.derivatives, reach, h)
        forces = forces + h * multipliers @ short_constraints(problem, short, x)
        return action + forces, short_constraints(problem, _shift_window(short, reach), _ahead(x, reach, h))

    slopes, differential = jax.grad(augmented_action, has_aux=True)(u)
    momenta = []
    for j in range(u.shape[0] - 1):
        momentum = state.momenta[j] + slopes[j]
        momenta.append(momentum - window.spans[j - 1] * momenta[-1] if j else momentum)
    last = slopes[-1] / window.spans[-1] - momenta[-1]
    rows = holonomic_constraints(problem, jnp.asarray(window.newest @ u), newest_time(window))
    equations = jnp.concatenate([last, differential, rows])
    return equations, HigherState(u[:-1] + window.spans[:, None] * u[1:], jnp.stack(momenta))


def short_constraints(problem: VariationalProblem, short: Window, u: Float[Array, "p n"]) -> Float[Array, "m"]:
    """φ of the constraints of order r on a window of r+1 points that begins like u."""
    order = len(short.jet) - 1
    return constraints_of_order(problem, order, tuple(short.jet @ u[: order + 1]), short.middle)


def _shift_window(window: Window, steps: int) -> Window:
    """The window so many steps later."""
    later = steps * window.spans[0]
    return window._replace(begin=window.begin + later, middle=window.middle + later)


def _ahead(u: Float[Array, "p n"], steps: int, h) -> Float[Array, "r n"]:
    """The differences at a point so many steps later, on the same points."""
    for _ in range(steps):
        u = u[:-1] + h * u[1:]
    return u


def holonomic_chain(window: Window) -> Float[Array, ""]:
    """g_{j+1} … g_{k-1}, by which a force on the oldest slot, q⁽ʲ⁾, is multiplied on its way to the last equation."""
    if window.order is None:
        return jnp.prod(window.spans[:-1])
    index = np.arange(1, window.spans.shape[0] + 1)
    later = (index > window.order @ np.arange(len(index))) & (index < len(index))
    return jnp.prod(jnp.where(later, window.spans, 1.0))


def multiplier_size(k: int, reach: int, h):
    """Unknowns.multipliers = h^reach λ(t) for constraints on reach = k-r points less than L, r = 0 for holonomic ones.

    Their force reaches q⁽ᵏ⁾ through so many sums, and the equations stay scaled.
    """
    assert 0 <= reach <= k
    return h**reach


def newest_time(window: Window):
    """The time of the last knot."""
    return window.begin + window.spans.shape[0] * window.spans[-1]


def shifted_forth(u: Differences, h) -> Differences:
    """The differences b_j backwards at the last of k points from those forwards at the first one, u_j."""
    b = [u[i] for i in range(u.shape[0])]
    for order in range(len(b) - 1, 0, -1):  # one point onwards in each pass
        b[:order] = [b[j] + h * b[j + 1] for j in range(order)]
    return jnp.stack(b)


def shifted_back(b: Differences, h) -> Differences:
    """u_j at the first of k points from the differences b_j backwards at the last one."""
    u = [b[i] for i in range(b.shape[0])]
    for order in range(len(u) - 1, 0, -1):
        u[:order] = [u[j] - h * u[j + 1] for j in range(order)]
    return jnp.stack(u)


def momenta_of_nodes(
    problem: VariationalProblem,
    scheme: WindowMap,
    nodes: Float[Array, "2k n"],
    multipliers: Float[Array, "r m"],
    h,
    t,
    *,
    origin=0.0,
) -> HigherState:
    """(u, Π) at the node k of 2k nodes, h apart from t on: Π = ∂/∂u of Σ L̃_d over the k windows, the first k
    nodes held fixed. origin: what positions are counted from.

    multipliers: λ of the r windows of the constraints, of order r, that have nodes on both sides. Rounding: ε|q|/h^{2k-1},
    because the nodes are numbers of full size.
    """
    k, order = problem.derivatives, common_order(problem)
    first, u = nodes[:k], forward_differences(nodes[k:], h).at[0].add(origin)

    index = jnp.arange(k)[:, None] + jnp.arange(k + 1)

    def action_of(points, free, begin):
        window = equal_window(scheme, k, h, begin)
        inside = forward_differences(points, h).at[0].add(u[0])
        parts = window_action(problem, jnp.asarray(window.jet @ inside)[None], window.middle[None], window.spans[-1:])
        return parts[0] + (jnp.sum(free * parts[1][0]) if order == k else 0.0)

    def short(points, free, begin):
        inside = forward_differences(points, h).at[0].add(u[0])
        return h * free @ short_constraints(problem, equal_window(scheme, order, h, begin), inside)

    def action(x):
        points = jnp.concatenate([first - nodes[k], _points(x.at[0].add(-u[0]), h)])
        free = multipliers if order == k else jnp.zeros((k, 0))
        total = jnp.sum(jax.vmap(action_of)(points[index], free, t + h * jnp.arange(k)))
        if order < k:
            begin = k - order + jnp.arange(order)
            total = total + jnp.sum(
                jax.vmap(short)(points[begin[:, None] + jnp.arange(order + 1)], multipliers, t + h * begin)
            )
        return total

    return HigherState(u, jax.grad(action)(u))


def node_defects(problem: VariationalProblem, scheme: WindowMap, nodes: Float[Array, "p n"], h, t) -> list:
    """[φ(q_i), (p, mh), at every node; Φ_d/h, (p-r, m), at every window of the constraints, of order r], the nodes h apart
    from t on."""
    order = common_order(problem)
    window = equal_window(scheme, order, h, t)
    times = t + h * jnp.arange(nodes.shape[0])
    index = jnp.arange(nodes.shape[0] - order)[:, None] + jnp.arange(order + 1)

    def defect(points, begin):
        here = window._replace(middle=window.middle - t + begin)
        return short_constraints(problem, here, forward_differences(points, h))

    held = jax.vmap(lambda q, s: holonomic_constraints(problem, q, s))(nodes, times)
    return [held, jax.vmap(defect)(nodes[index], times[: len(index)])]


def forward_differences(nodes: Float[Array, "p n"], h) -> Float[Array, "p n"]:
    """(q_0, Δq_0/h, Δ²q_0/h², …)."""
    out, level = [nodes[0]], nodes
    for _ in range(nodes.shape[0] - 1):
        level = jnp.diff(level, axis=0) / h
        out.append(level[0])
    return jnp.stack(out)


def _points(u: Differences, h) -> Float[Array, "k n"]:
    """The k points whose forward differences are u."""
    out = [u[0]]
    for _ in range(u.shape[0] - 1):
        u = u[:-1] + h * u[1:]
        out.append(u[0])
    return jnp.stack(out)


def _oldest_constraint(problem: VariationalProblem, window: Window, u) -> Float[Array, "mh"]:
    """dʲφ/dtʲ of the slot which the window leaves behind: φ(q_0) unless it holds a derivative."""
    if window.order is None or not problem.holonomic:
        return holonomic_constraints(problem, u[0], window.begin)
    return jnp.asarray(window.order) @ constraint_derivatives(problem, 0, u[:-1], window.begin)


def _scale_window(unit: Window, h, t, differenced: bool) -> Window:
    """A window of unit steps with steps h, from the time t on. differenced: its jet is (q, q̇, …) and not nodes."""
    index = np.arange(len(unit.newest))
    powers = h ** np.maximum(index - index[:, None] * differenced, 0)
    return Window(
        unit.jet * powers, unit.spans * h, unit.newest * h**index, t + unit.begin * h, t + unit.middle * h, unit.order
    )


@remember(256)
def _unit_window(scheme: WindowMap, k: int, knots: tuple[int, ...]) -> Window:
    """By exact arithmetic: zeros of the matrix are zeros, so that no large number is multiplied by a small one."""
    t = [Fraction(x) for x in knots]
    unit = np.eye(k + 1, dtype=int) * Fraction(1)
    table = [[unit[j] / factorial(j)] for j in range(k + 1)]
    for j in range(k - 1, -1, -1):
        for l in range(k - j):
            table[j].append(table[j][l] + (t[l + j + 1] - t[l]) * table[j + 1][l])
    ((place, _),) = scheme.points([x - t[0] for x in t])
    jet = np.array([list(row) for row in scheme.jet(table, [x - t[0] for x in t], place, k)], dtype=float)
    spans = np.array([float((t[j] - t[0]) / j) for j in range(1, k + 1)])
    order = np.eye(k)[knots.count(knots[0]) - 1]
    return Window(
        jet, spans, np.array(table[0][k], dtype=float), np.array(float(t[0])), np.array(float(t[0] + place)), order
    )
