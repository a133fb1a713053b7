"""The exact discrete Lagrangian, distribution and Legendre maps, and the distance of a discrete system from them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert.discretize import Scheme
from dalembert.measure.convergence import Convergence, converge
from dalembert.measure.nodes import SystemNodes, kernel, node_view, read_node
from dalembert.notebook import Described, described_by_fields
from dalembert.numbers import as_array, as_choice, as_number, as_tolerance, decreasing_steps, refuse_traced
from dalembert.options import STARTERS, Starter
from dalembert.step.start.prepare import second_node
from dalembert.systems import (
    System,
    as_step,
    check_flat,
    check_initial_data,
    check_shapes,
    check_system,
    check_x64,
    integrate_motion,
    momentum,
    motion_along,
    reference,
)
from dalembert.systems.consistency import velocity_residuals
from dalembert.systems.continuous import chosen_backend
from dalembert.systems.equations import all_reactions
from dalembert.systems.system import at_origin
from dalembert.tracing import seldom

NODES, WEIGHTS = (np.polynomial.legendre.leggauss(16) + np.array([[1.0], [0.0]])) * 0.5  # of ∫L, far below its error
MISSED = 1e-8  # of |q₁ - q₀| + h|v|: a curve that ends further from q₁ was not found


@described_by_fields
class ExactPair(NamedTuple):
    """The exact discrete Lagrangian of two points, with its momenta.

    L_d^E(q₀,q₁) = ∫L(q, q̇) dt, (v₀, v₁) = (q̇(0), q̇(h)), p⁻ = L_v(q₀,v₀), p⁺ = L_v(q₁,v₁), φ_d^E(q₀,q₁) = φ(q₀,v₀).

    Attributes:
        lagrangian: L_d^E, an action.
        v0: (n,) velocity at q₀: the exact difference map ρ^E(q₀,q₁) = (q₀, v₀).
        v1: (n,) velocity at q₁.
        minus: (n,) p⁻, of the exact F⁻.
        plus: (n,) p⁺, of the exact F⁺.
        constraint: (k,) φ_d^E, zero on D_d^E, the set of pairs that a motion joins; for holonomic constraints φ and
            dφ/dt.
    """

    lagrangian: Float[np.ndarray, ""]
    v0: Float[np.ndarray, "n"]
    v1: Float[np.ndarray, "n"]
    minus: Float[np.ndarray, "n"]
    plus: Float[np.ndarray, "n"]
    constraint: Float[np.ndarray, "k"]


def exact_discrete(system: System, q0, q1, *, h: float, t0: float = 0.0, tolerance: float = 1e-13) -> ExactPair:
    """Compute the exact discrete Lagrangian of two points.

    d/dt L_v - L_q = f + Rᵀλ, φ = const, q(t0) = q₀, q(t0+h) = q₁: the exact discrete Lagrangian L_d^E = ∫L dt, with
    its momenta and constraint.

    The curve solves the reduced equations for (a, λ), which keep the value of φ constant. On D it is the motion; off D
    it extends L_d^E and D_d^E = {φ_d^E = 0}, of dimension 2n - m, to all pairs near the diagonal. Its initial velocity
    v₀ is found by shooting from the straight line. Motions satisfy F⁺(q₀,q₁) = F⁻(q₁,q₂) with φ_d^E(q₀,q₁) = 0: the
    exact scheme.

    Without forces and constraints p⁻ = -D₁L_d^E, p⁺ = D₂L_d^E, with holonomic constraints for variations along the
    leaf; in general p⁻ = -D₁L_d^E - ∫(f + Rᵀλ)·∂q/∂q₀ dt and p⁺ = D₂L_d^E + ∫(f + Rᵀλ)·∂q/∂q₁ dt. The impulses of
    nonholonomic reactions do not vanish on D: the flow of d'Alembert's principle for (L_d^E, D, D_d^E) is therefore not
    exact, but of order 2.

    Args:
        system: a System.
        q0: (n,) position at t0.
        q1: (n,) position at t0 + h, near enough to q0 for a unique motion.
        h: time step.
        t0: time of q0.
        tolerance: relative and absolute tolerance on the local error of the integrator.

    Returns:
        An ExactPair.

    Raises:
        ValueError: an argument has the wrong shape, or no motion from q0 to q1 is found near the straight line.
        TypeError: an argument is of the wrong type, or traced.

    Source: Jiménez, Scheurle, Remark 5.4 (D_d^E); Marsden, West, Sections 1.6 and 3.2.4 (L_d^E, forces).

    Example:
        >>> free = da.System(lambda q, v: 0.5 * v @ v)
        >>> found = da.measure.exact_discrete(free, [0.0], [0.2], h=0.1)
        >>> round(float(found.lagrangian), 12), round(float(found.plus[0]), 12)  # |q₁-q₀|²/2h, (q₁-q₀)/h
        (0.2, 2.0)
    """
    check_x64()
    check_system(system)
    a = read_node(system, q0, "q0")
    b = read_node(system, q1, "q1", a)
    step, begin, accuracy = as_step(h), as_number(t0, "t0", "a finite time"), as_tolerance(tolerance)
    refuse_traced("exact_discrete", system, a, b, step, begin)
    way = system.space.between(a, b)
    check_shapes(system, a, way, jnp.asarray(begin, dtype=float))
    times = float(begin) + float(step) * np.concatenate([[0.0], NODES, [1.0]])
    v0 = _shot(system, np.asarray(a), np.asarray(b), times, accuracy)
    return discrete_data(system, *_curve(system, np.asarray(a), v0, times, accuracy), times)


def _curve(system: System, q, v, times, tolerance) -> tuple[np.ndarray, np.ndarray]:
    natively = chosen_backend(None) == "native"
    found = integrate_motion(system, (jnp.asarray(q), jnp.asarray(v)), times, tolerance, natively=natively)
    return np.asarray(found.q), np.asarray(found.v)


def _shot(system: System, q0, q1, times, tolerance) -> np.ndarray:
    """v₀ with q(h) = q₁, from the straight line."""
    from scipy.optimize import root

    ends, h = times[[0, -1]], times[-1] - times[0]

    def miss(v):
        q = _curve(system, q0, v, ends, tolerance)[0][-1]
        return system.space.differences(q1, q) / h if np.all(np.isfinite(q)) else np.full_like(straight, 1e100)

    straight = system.space.differences(q0, q1) / h
    found = root(miss, straight, tol=1e-14).x
    size = np.linalg.norm(straight) + np.linalg.norm(found)
    if not np.linalg.norm(miss(found)) <= MISSED * (size or 1.0):
        raise ValueError(
            f"q1: no motion from q0 to q1 in the time {h:g} was found near the straight line; give a "
            "nearer point, or a shorter h"
        )
    return found


def discrete_data(system: System, q, v, times) -> ExactPair:
    """The discrete data of a curve (q, v) at t0, at the quadrature's nodes after it, and at t0 + h."""
    found = _data(system, jnp.asarray(q), jnp.asarray(v), jnp.asarray(times))
    action = (times[-1] - times[0]) * (WEIGHTS @ np.asarray(found["lagrangian"]))
    ends = (np.asarray(found[name]) for name in ("minus", "plus", "constraint"))
    return ExactPair(np.asarray(action), np.asarray(v[0]), np.asarray(v[-1]), *ends)


@seldom
def _data(system: System, q, v, t) -> dict[str, Any]:
    rows = velocity_residuals(system, q[0], v[0], t[0]).values()
    return {
        "lagrangian": jax.vmap(lambda x, w, s: system.call(system.lagrangian, x, w, t=s))(q[1:-1], v[1:-1], t[1:-1]),
        "minus": momentum(system, q[0], v[0], t[0]),
        "plus": momentum(system, q[-1], v[-1], t[-1]),
        "constraint": jnp.concatenate([jnp.zeros(0), *rows]),
    }


LEVEL = 0.3  # orders that far apart are of one part and of another


@dataclasses.dataclass(frozen=True)
class DiscreteConsistency(Described):
    """The errors of the discrete functions of a scheme, with their exponents.

    |L_d - L_d^E| = O(h^(r+1)), |φ_d| = O(h^r) on D_d^E, |R_d - R| = O(h^r), |β| = O(h^(r+1)) on D_V.

    For the starter, |q₁ - q(h)| = O(h^(r+1)). Each is measured at points of the exact motion. r, in `orders`, is the
    order that a part allows a run to have.

    Attributes:
        lagrangian: L_d(q₀,q₁) compared with L_d^E. A difference of the form G(q₁) - G(q₀) does not change any motion,
            so that r may be smaller here than for `principle`; then the latter counts.
        kinematic: φ_d at (q₀,q₁,q₂) of D_K^E; None without constraints.
        distance: how far q₂ is from D_K; None without constraints.
        reactions: R_d(q₀,q₁,q₂) compared with R(q₁,v₁,a₁); None without constraints.
        principle: β(q₀,q₁,q₂) on D_V: the residual of the discrete principle at the exact motion, from L_d, forces and
            D_V together.
        start: the second node from the starter; None on groups, where runs start from (q, v).
    """

    lagrangian: Convergence
    kinematic: Convergence | None
    distance: Convergence | None
    reactions: Convergence | None
    principle: Convergence
    start: Convergence | None

    @property
    def orders(self) -> dict[str, float]:
        """r of each part; inf if it is exact up to rounding."""
        given = {"L_d": (self.lagrangian, 1), "D_K": (self.kinematic, 0), "D_V": (self.reactions, 0),
                 "principle": (self.principle, 1), "start": (self.start, 1)}  # fmt: skip
        return {name: _exponent(c) - more for name, (c, more) in given.items() if c is not None}

    @property
    def order(self) -> float:
        """The least r of D_K, principle and start: the order that a run from these data can have."""
        return min(r for name, r in self.orders.items() if name in _DECIDE)

    @property
    def limits(self) -> tuple[str, ...]:
        """Which of D_K, principle and start have this least order; if the principle does, also L_d and D_V if their r
        is as small."""
        least, found = self.order, self.orders
        decide = _DECIDE if found["principle"] > least + LEVEL else found
        return tuple(name for name in decide if name in found and abs(found[name] - least) <= LEVEL)

    def __str__(self) -> str:
        lines = [f"order {self.order:.2f}, limited by {', '.join(self.limits)}"]
        return "\n".join(lines + [f"  {name}: {r:.2f}" for name, r in self.orders.items()])


_DECIDE = ("D_K", "principle", "start")


def _exponent(found: Convergence) -> float:
    """Between the two finest steps whose errors are above rounding; inf where there are none."""
    used = np.flatnonzero(found.fitted)
    if len(used) < 2:
        return float("inf") if "floor" in found.use else float("nan")
    return float(found.orders[used[-1] - 1])


def discrete_consistency(
    system: System,
    q0,
    v0,
    *,
    h: Sequence[float],
    scheme: Scheme | None = None,
    starter: Starter = "second_order",
    t0: float = 0.0,
    tolerance: float = 1e-13,
) -> DiscreteConsistency:
    """L_d, φ_d, R_d, β and the starter of a scheme, evaluated at (q(0), q(h), q(2h)) of the exact motion: which of them
    limits the order.

    `order` measures global errors and `consistency` those of one step; this measurement shows where the errors come
    from.

    Args:
        system: a System.
        q0: (n,) positions at t0.
        v0: (n,) velocities at t0.
        h: (K,) decreasing steps.
        scheme: as for `legendre`; only its maps are used.
        starter: as for `simulate`; not on groups.
        t0: initial time.
        tolerance: relative and absolute tolerance on the local error of the exact motion.

    Returns:
        A DiscreteConsistency, which prints the order, the parts that limit it, and the order of each part.

    Raises:
        ValueError: as `reference`; or the scheme has no map of nodes.
        TypeError: an argument is of the wrong type, or traced.

    Source: Jiménez, Scheurle, Section 5.3 with Remark 5.4: L_d = h L∘ρ, φ_d = μ∘ρ against (L_d^E, D_d^E); Borda, Fernández,
    Grillo, Section 4.1.2, for D_K, D_V and the start.

    Example:
        >>> found = da.measure.discrete_consistency(pendulum, [1.0], [0.3], h=[0.2, 0.1, 0.05], starter="first_order")
        >>> round(found.order), found.limits
        (1, ('start',))
    """
    check_system(system)
    steps, accuracy = decreasing_steps(h), as_tolerance(tolerance)
    as_choice(starter, "starter", STARTERS, "starters")
    if starter != "second_order":
        check_flat(system, f"starter={starter!r}")
    begin = as_number(t0, "t0", "a finite time")
    q, v = map(jnp.asarray, system.space.read_state(q0, v0, None, as_array))
    refuse_traced("discrete_consistency", system, q, v, begin)
    view = node_view(system, scheme, steps[0], q.shape[0])
    assert isinstance(view, SystemNodes)
    check_initial_data(*at_origin(system, q, v), begin, steps[-1])
    rows = [_compare_parts(view, (q, v), float(begin), float(s), starter, accuracy) for s in steps]

    def fit(name: str) -> Convergence | None:
        return converge(steps, *zip(*(row[name] for row in rows), strict=True)) if name in rows[0] else None

    found: dict[str, Any] = {f.name: fit(f.name) for f in dataclasses.fields(DiscreteConsistency)}
    return DiscreteConsistency(**found)


_start = seldom(second_node)


def _compare_parts(
    view: SystemNodes, start: tuple[Any, Any], t0: float, h: float, starter: Starter, tolerance
) -> dict[str, tuple[float, float, float]]:
    """Of each part the error, the size of its terms, and the doubt about it."""
    system, size = view.system, lambda x: float(np.linalg.norm(np.asarray(x)))
    times = t0 + h * np.concatenate([[0.0], NODES, [1.0, 2.0]])
    found = reference(system, *start, jnp.asarray(times), tolerance=tolerance)
    q, v = np.asarray(found.q), np.asarray(found.v)
    exact = discrete_data(system, q[:-1], v[:-1], times[:-1])
    a = motion_along(system, q[-2:-1], v[-2:-1], times[-2:-1])[0][0]
    own, triple = SystemNodes(jnp.asarray(h), system, view.scheme, view.rows), (q[[0, -2, -1]], times[-2], v[-2], a)
    seen = _evaluate_parts(own, *map(jnp.asarray, triple))
    way = h * size(v[-2]) + h * h * size(a)
    doubt = 4 * tolerance * (1 + size(q[-1]) + size(v[-1]))
    out = {
        "lagrangian": (abs(float(seen["lagrangian"] - exact.lagrangian)), abs(float(exact.lagrangian)), doubt),
        "principle": (size(seen["principle"]), size(exact.plus), doubt),
    }
    if system.space.flat:
        d = _start(system, view.scheme, starter, start[0], start[1], t0=jnp.asarray(t0), h=jnp.asarray(h))
        out["start"] = size(np.asarray(d) - (q[-2] - q[0])), way, doubt
    if not view.m:
        return out
    return out | {
        "kinematic": (size(seen["kinematic"]), float(seen["terms"]), doubt / h),
        "distance": (size(seen["distance"]), way, doubt),
        "reactions": (size(seen["reactions"]), size(seen["rows"]), doubt / h),
    }


@seldom
def _evaluate_parts(view: SystemNodes, points, t, v, a) -> dict[str, Any]:
    """Of three nodes of the exact motion; t, v, a: of the middle one."""
    exact = all_reactions(view.system, points[1], v, a, t)
    view, (q0, q1, q2) = view.around(*points)
    nodes, between = (q0, q1, q2, t), view.interval(0, q0, q1, t - view.h)
    inside = [between.at(rho, view.system.space) for rho in view.scheme.action_for(view.system)]
    values = jnp.stack([view.system.call(view.system.lagrangian, x, w, t=s) for x, w, s in inside])
    rows, last = view.reactions(*nodes), view.interval(1, q1, q2, t)
    wrong = view.kinematic(*nodes)
    by_end = jax.jacfwd(lambda q: view.kinematic(q0, q1, q, t))(q2)
    return {
        "lagrangian": view.h * jnp.mean(values),
        "principle": kernel(rows).T @ view.balance(*nodes),
        "kinematic": wrong,
        "terms": jnp.max(jnp.abs(by_end) @ (jnp.abs(last.d) + jnp.abs(between.d)), initial=0.0),
        "distance": jnp.linalg.pinv(by_end) @ wrong if view.m else jnp.zeros(0),
        "rows": exact,
        "reactions": rows - exact,
    }
