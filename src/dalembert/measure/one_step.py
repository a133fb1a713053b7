"""The order of a one step map on D: from its local errors, and from the perturbation that turns the exact flow into it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert.discretize import Scheme
from dalembert.measure.convergence import Convergence, Measured, converge
from dalembert.measure.perturbed_flow import Perturbation, Piece, SchemeMap, perturbation
from dalembert.notebook import Described
from dalembert.numbers import EPSILON, decreasing_steps, whole_number
from dalembert.systems import InconsistentDataError, System, check_system, cutoff
from dalembert.systems.distribution.adapted import with_exact_flow
from dalembert.systems.distribution.charts import around_first
from dalembert.systems.distribution.reduction import explicit_terms, violation
from dalembert.systems.system import LocalSystem
from dalembert.tracing import Jitted, seldom

WITHIN = 0.1  # distance of the fitted exponent from the declared order that still agrees with it
ON_D = 1e-8  # largest |φ| after one step that counts as a step on D
STEEPEST = np.pi / 2  # of the cut-off function: an error of the flow enters the perturbation with this factor over ε


@dataclasses.dataclass(frozen=True)
class Embedding(Described):
    """sup |ε^p g| over the phases τ and the starting points, for each step, and the order p that follows.

    Norms are Euclidean in ξ = (q, v^a), on groups in coordinates around the first point.

    Attributes:
        order: p, as given, or the whole number nearest to the fitted exponent.
        declared: whether p was given.
        size: a Convergence: the sup for each h, with the floor that is due to the errors of the flow.
        tau: (T,) phases.
        profile: (K, T), the sup over the starting points at each phase.
        limit: (K,) (π/2)|Φ - F|/ε^(p+1), which sup |g| approaches as ε → 0.
        residual: (K,) largest |φ| after one step.
        dependent: the coordinates α that ξ leaves out.
        perturbation: the Perturbation that was measured.
    """

    order: int
    declared: bool
    size: Convergence
    tau: Float[np.ndarray, "T"]
    profile: Float[np.ndarray, "K T"]
    limit: Float[np.ndarray, "K"]
    residual: Float[np.ndarray, "K"]
    dependent: tuple[int, ...]
    perturbation: Perturbation

    @property
    def h(self) -> Float[np.ndarray, "K"]:
        return self.size.h

    @property
    def sup_g(self) -> Float[np.ndarray, "K"]:
        """sup |g| = sup |∂_tG - f(G)| / ε^p: bounded as ε → 0 if the order is p or more; the limit is positive if it is
        exactly p."""
        return self.size.error / self.h**self.order

    @property
    def exponent(self) -> float:
        """The fitted exponent of ε; nan if the perturbation is below the floor."""
        return self.size.slope

    @property
    def agrees(self) -> bool:
        """True if the map has order p: the exponent is within 0.1 of p."""
        return bool(abs(self.exponent - self.order) <= WITHIN)

    @property
    def verdict(self) -> str:
        """The result in words."""
        if np.isnan(self.exponent):
            return "no order to be seen: fewer than two steps with a perturbation above the floor; take larger steps"
        found = f"sup|∂_tG - f(G)| ~ ε^{self.exponent:.3f}"
        if self.agrees:
            return f"order {self.order}: {found}"
        if not self.declared:
            return f"no whole order: {found}; the steps may be too large, or the map not smooth in h"
        more = self.exponent > self.order
        return (
            f"not of order {self.order}, but {'higher' if more else 'lower'}: {found}, sup|g| {'falls' if more else 'grows'}"
        )

    def describe(self) -> str:
        """The result as a table."""
        lines = [self.verdict]
        for h, error, floor, g, use in zip(self.h, self.size.error, self.size.floor, self.sup_g, self.size.use, strict=True):
            lines.append(f"  ε = {h:<10.6g} sup|ε^p g| {error:<11.5e} floor {floor:<8.1e} sup|g| {g:<10.5g} {use}")
        return "\n".join(lines)


def embedding(
    system: System,
    q0,
    v0,
    *,
    h: Sequence[float],
    order: int | None = None,
    scheme: Scheme | None = None,
    step: Callable | None = None,
    t0: float = 0.0,
    dependent=None,
    phases: int = 20,
    tolerance: float = 1e-13,
) -> Embedding:
    """Measure how far a scheme is from the flow of the exact equation.

    sup |∂_tG - f(G)| = ε^p sup |g(ε, τ, z)| over τ and the points, for each ε = h, with the fitted exponent of ε.

    If a step fails, its h is left out of the fit. The floor is an estimate of the error of the two flows in G: each
    takes a few integrator steps with local errors up to tolerance (1 + |z|), of which 4 are assumed, times the slope of
    the cut-off, (π/2)/ε. Values below the floor are not fitted.

    Args:
        system: a System with constraints of order 1.
        q0: (n,) position in D, or (B, n) of several starting points.
        v0: (n,) velocity, or (B, n).
        h: (K,) decreasing steps ε.
        order: p, the order that the map should have; None takes the fitted exponent, rounded.
        scheme: as for `perturbation`.
        step: as for `perturbation`.
        t0: the time of (q0, v0).
        dependent: as for `perturbation`.
        phases: number of phases τ = k/phases; even, so that τ = ½, where the cut-off is steepest, is one of them.
        tolerance: as for `perturbation`.

    Returns:
        An Embedding, which prints as a table.

    Raises:
        ValueError: as `perturbation`; or h, phases or order has the wrong value.
        TypeError: as `perturbation`.
        InconsistentDataError: a step leaves D.

    Source: Jiménez, Scheurle, Proposition 4.1, Corollary 4.1. The bound on g is measured; that the perturbed flow
    reproduces Φ is an identity.

    Example:
        >>> found = da.measure.embedding(pendulum, [1.0], [0.0], h=[0.2, 0.1], order=2, phases=2)
        >>> found.verdict[:7], found.agrees
        ('order 2', True)
    """
    check_system(system)
    steps = decreasing_steps(h)
    system, points, speeds = around_first(system, q0, v0)
    if order is not None:
        whole_number(order, "order", most=64)
    if whole_number(phases, "phases", 2, 100_000) % 2:
        raise ValueError(f"phases: found {phases!r}; give an even number, 2 or more")
    made = perturbation(system, points, speeds, scheme=scheme, step=step, t0=t0, dependent=dependent, tolerance=tolerance)
    stepped = {name: np.asarray(x) for name, x in _take_steps(made, points, speeds, jnp.asarray(steps), False).items()}
    residual = np.max(stepped["residual"], axis=1)
    if (largest := np.nanmax(residual, initial=0.0)) > ON_D:
        raise InconsistentDataError(
            f"{'step' if step is not None else 'scheme'}: one step from D ends off D, |φ| = {largest:.3g}; the "
            "embedding is that of a map of D to itself. A map that preserves a deformed constraint is one on "
            "dalembert.systems.deformed(...)"
        )
    tau = np.arange(phases + 1) / phases
    given = (points, speeds), (stepped["q"], stepped["v"]), float(made.t0), steps, tau
    found = with_exact_flow(_suprema, made.chart, tolerance, *given)
    floor = STEEPEST / steps * (4 * tolerance * (1 + found["size"]) + 10 * EPSILON * found["size"])
    size = converge(steps, found["profile"].max(axis=1), found["field"], floor)
    p = order if order is not None else (0 if np.isnan(size.slope) else round(size.slope))
    limit = STEEPEST * found["gap"] / steps ** (p + 1)
    return Embedding(p, order is not None, size, tau, found["profile"], limit, residual, made.chart.dependent, made)


def _suprema(flow, starts, ends, t0: float, steps, tau) -> dict[str, np.ndarray]:
    """For each step, the largest over the points: |ε^p g| at the phases, |f|, |ξ|, and F(ε, y) - Φ(ε, y)."""

    def sizes_at(h, *states) -> dict[str, Any]:
        found = pieces(flow, flow.coordinates(*states[:2]), flow.coordinates(*states[2:]), t0, h, tau)
        return {
            "profile": np.linalg.norm(found.perturbation, axis=-1),
            "field": np.max(np.linalg.norm(found.field, axis=-1)),
            "size": np.max(np.abs(found.xi)),
            "gap": np.linalg.norm(found.gap[-1]),
        }

    rows = [[sizes_at(h, *x) for x in zip(*starts, q, v, strict=True)] for h, q, v in zip(steps, *ends, strict=True)]
    return {name: np.array([np.max([x[name] for x in row], axis=0) for row in rows]) for name in rows[0][0]}


def pieces(flow, y: np.ndarray, mapped: np.ndarray, t0: float, h: float, tau: np.ndarray) -> Piece:
    """`Perturbation.from_start` at all phases from 0 to 1, (T, 2n-m) each: F forwards from y, backwards from Φ(ε, y)."""
    times = t0 + tau * h
    left, right = flow.run(y, times)[0], flow.run(mapped, times[::-1])[0][::-1]
    chi, slope = (np.asarray(x)[:, None] for x in _cut(jnp.asarray(tau)))
    return Piece.between(left, right, chi, slope / h, lambda *sides: (flow.field(x, times) for x in sides))


@Jitted
def _cut(tau) -> Any:
    return jax.vmap(jax.value_and_grad(cutoff))(tau)


@dataclasses.dataclass(frozen=True)
class Consistency(Measured):
    """The errors of one step, with their exponents.

    |q(t0+ε) - q₁| = O(ε^(r+1)), |v(t0+ε) - v₁| = O(ε^(l+1)), |λ(t0+ε) - λ₁| = O(ε^(s+1)): errors after one step from
    exact data.

    The slopes are the local exponents, r + 1 for q and l + 1 for v. `multipliers` and `multipliers_own_time` are None
    for a map without multipliers; without constraints `multipliers_recomputed` is None too.

    Attributes:
        q: Convergence of positions.
        v: Convergence of velocities.
        multipliers: the scheme's λ compared with λ(t0 + ε), as in the definition of (p, s).
        multipliers_own_time: the scheme's λ compared with the exact λ at its own time, `path.t_multipliers`.
        multipliers_recomputed: λ of the explicit formula at the new (q, v), compared with λ(t0 + ε).
        residual: (K,) largest |φ| after the step.
    """

    q: Convergence
    v: Convergence
    multipliers: Convergence | None
    multipliers_own_time: Convergence | None
    multipliers_recomputed: Convergence | None
    residual: Float[np.ndarray, "K"]

    @property
    def p(self) -> float:
        """min(r, l): the smaller local exponent of q and v, minus 1; an exponent whose errors are all below the floor
        is left out."""
        return float(np.fmin(self.q.slope, self.v.slope)) - 1.0

    @property
    def s(self) -> float:
        """The local exponent of λ at the end of the step, minus 1; nan if the map has no multipliers."""
        return float("nan") if self.multipliers is None else self.multipliers.slope - 1.0

    @property
    def stays(self) -> bool:
        """True if one step from D ends on D."""
        return bool(np.nanmax(self.residual) <= ON_D)

    def describe(self) -> str:
        """In words: (p, s), whether a step stays on D, and the local exponents."""
        where = "stays on D" if self.stays else f"leaves D: |φ| up to {np.nanmax(self.residual):.2e} after one step"
        lines = [f"(p, s) = ({self.p:.2f}, {self.s:.2f}); {where}"]
        for name, c in self.quantities.items():
            steps = f"{int(c.fitted.sum())} of {len(c.h)} steps"
            lines.append(f"  {name}: error ~ ε^{c.slope:.3f} over {steps}, {c.error[0]:.3e} at ε = {c.h[0]:g}")
        return "\n".join(lines)


def consistency(
    system: System,
    q0,
    v0,
    *,
    h: Sequence[float],
    scheme: Scheme | None = None,
    step: Callable | None = None,
    t0: float = 0.0,
    dependent=None,
    tolerance: float = 1e-13,
) -> Consistency:
    """Measure the errors of one step from exact data.

    |q(t0+ε) - q₁| = O(ε^(r+1)), |v(t0+ε) - v₁| = O(ε^(l+1)), |λ(t0+ε) - λ₁| = O(ε^(s+1)), p = min(r, l), and v₁ ∈ D.

    The exact solution is the reduced flow in D-adapted coordinates, with λ(t) from the explicit formula along it.
    `order` measures global errors instead. A map that leaves D can be measured too.

    Args:
        system: a System with constraints of order 1.
        q0: (n,) position of a point of D, or (B, n) for several; errors are Euclidean norms, the largest over the
            points; on groups of the ways from the exact position, in the axes of the velocities.
        v0: (n,) or (B, n) velocities.
        h: (K,) decreasing steps ε.
        scheme: as for `perturbation`.
        step: as for `perturbation`.
        t0: the time of (q0, v0).
        dependent: as for `perturbation`.
        tolerance: as for `perturbation`.

    Returns:
        A Consistency, which prints (p, s), whether a step stays on D, and the local exponents.

    Raises:
        ValueError: as `perturbation`; or h is not decreasing.
        TypeError: as `perturbation`.

    Source: Jiménez, Scheurle, Definition 4.2 and Remark 4.3. A scheme's λ may belong to the middle of a step, and s as
    defined is then 0 although λ has higher order at its own time; so it is measured there as well.

    Example:
        >>> found = da.measure.consistency(pendulum, [1.0], [0.0], h=[0.2, 0.1])
        >>> found.stays, round(found.p)
        (True, 2)
    """
    check_system(system)
    steps = decreasing_steps(h)
    system, points, speeds = around_first(system, q0, v0)
    made = perturbation(system, points, speeds, scheme=scheme, step=step, t0=t0, dependent=dependent, tolerance=tolerance)
    found, residual = _errors(made, points, speeds, steps)
    doubt = 4 * tolerance * (1 + np.maximum(found["q"][1], found["v"][1]))
    measured = {name: converge(steps, error, size, doubt) for name, (error, size) in found.items()}
    lambdas = {name: measured.get(name) for name in ("multipliers", "multipliers_own_time", "multipliers_recomputed")}
    return Consistency(measured["q"], measured["v"], **lambdas, residual=residual)


def _errors(made: Perturbation, points, speeds, steps) -> tuple[dict[str, tuple[np.ndarray, np.ndarray]], np.ndarray]:
    """For each quantity the error and the size, and the largest |φ|, (K,) each."""
    found = {name: np.asarray(x) for name, x in _take_steps(made, points, speeds, jnp.asarray(steps), True).items()}
    own, n = found["own_time"], made.chart.n
    end, at_own = with_exact_flow(_exact_ends, made.chart, made.tolerance, points, speeds, float(made.t0), steps, own)
    exact, own_exact = end[..., 2 * n : 2 * n + made.chart.m], at_own[..., 2 * n : 2 * n + made.chart.m]
    ways = _compare_states(made.chart.system, (found["q"], found["v"]), (end[..., :n], end[..., n : 2 * n]))
    pairs = {}
    if "multipliers" in found:
        pairs |= {"multipliers": (found["multipliers"], exact), "multipliers_own_time": (found["multipliers"], own_exact)}
    if made.chart.m:
        pairs["multipliers_recomputed"] = (found["again"], exact)
    size = lambda x: np.max(np.linalg.norm(x, axis=-1), axis=1)  # noqa: E731  over the points
    errors = {name: (size(way), size(at)) for name, way, at in ways}
    errors |= {name: (size(a - b), size(b)) for name, (a, b) in pairs.items()}
    return errors, np.max(found["residual"], axis=1)


def _compare_states(system: System, ours, exact) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Of q and v the way from the exact one, in the axes of the velocities, and the exact one itself."""
    if not isinstance(system, LocalSystem):
        return [("q", ours[0] - exact[0], exact[0]), ("v", ours[1] - exact[1], exact[1])]
    on_group = jnp.vectorize(system.on_group, signature="(n),(n)->(s),(n)")
    (q, v), (x, w) = on_group(*ours), on_group(*exact)
    return [("q", system.around.differences(x, q), np.asarray(x)), ("v", np.asarray(v - w), np.asarray(w))]


@seldom
def _take_steps(made: Perturbation, points, speeds, steps, multipliers: bool) -> dict:
    """(q, v) and the largest |φ| after one step, with λ of the scheme and of the explicit formula there, each (K, B, …);
    own_time: that of the scheme's λ, after t0."""
    system = made.chart.system

    def take_step(h, q, v) -> dict:
        q1, v1, path = made.step.take_step(h, q, v) if isinstance(made.step, SchemeMap) else (*made.step(h, q, v), None)
        t = made.t0 + h
        found = {"q": q1, "v": v1, "residual": violation(system, q1, v1, t)}
        if not multipliers:
            return found
        found["again"] = explicit_terms(system, q1, v1, t).multipliers
        if path is None or not made.chart.m:
            return found | {"own_time": h}
        return found | {"own_time": path.t_multipliers[-1] - made.t0, "multipliers": path.multipliers[-1]}

    return jax.vmap(lambda h: jax.vmap(lambda q, v: take_step(h, q, v))(points, speeds))(steps)


def _exact_ends(flow, points, speeds, t0: float, steps, own) -> np.ndarray:
    """(q, v, λ, …) of the exact flow at the end of each step, and at the time of the scheme's λ, (2, K, B, …)."""

    def ends_of(h: float, q, v, own_time: float) -> list[np.ndarray]:
        known = np.isfinite(own_time)
        times = np.unique(t0 + np.array([0.0, h, own_time if known else h]))
        outputs = flow.run(flow.coordinates(q, v), times)[1]
        end = outputs[np.searchsorted(times, t0 + h)]
        return [end, outputs[np.searchsorted(times, t0 + own_time)] if known else np.full_like(end, np.nan)]

    rows = [[ends_of(h, *x) for x in zip(points, speeds, row, strict=True)] for h, row in zip(steps, own, strict=True)]
    return np.moveaxis(np.array(rows), 2, 0)
