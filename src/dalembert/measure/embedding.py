"""The order of a one step map, read from the size of the perturbation that turns the exact flow into it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.discretize import Scheme
from dalembert.measure.order import Comparison, Convergence, converge
from dalembert.measure.perturbation import Perturbation, perturbation
from dalembert.native import native_first
from dalembert.notebook import Described
from dalembert.numbers import EPSILON, decreasing_steps, whole_number
from dalembert.systems import InconsistentDataError, System, cutoff
from dalembert.systems.distribution.adapted_flow import ExactFlow, exact_flow_compiles
from dalembert.systems.distribution.connection import as_points
from dalembert.systems.distribution.reduction import violation
from dalembert.tracing import Jitted, seldom

WITHIN = 0.1  # distance of the fitted exponent from the declared order that still agrees with it
ON_D = 1e-8  # largest |φ| after one step that counts as a step on D
STEEPEST = np.pi / 2  # of the cut-off function: an error of the flow enters the perturbation with this factor over ε


@dataclasses.dataclass(frozen=True)
class Embedding(Described):
    """sup |ε^p g| over the phases τ and the starting points, for each step, and the order p that follows.

    Norms are Euclidean in ξ = (q, v^a).

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
        """Whether the map has order p: the exponent is within 0.1 of p."""
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

    def __str__(self) -> str:
        return self.describe()

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
    """sup |∂_tG - f(G)| = ε^p sup |g(ε, τ, z)| over τ and the points, for each ε = h, with the fitted exponent of ε.

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
    steps = decreasing_steps(h)
    points, speeds = as_points(q0, v0, ("q0", "v0"))
    if order is not None:
        whole_number(order, "order", most=64)
    if whole_number(phases, "phases", 2, 100_000) % 2:
        raise ValueError(f"phases: found {phases!r}; give an even number, 2 or more")
    made = perturbation(system, points, speeds, scheme=scheme, step=step, t0=t0, dependent=dependent, tolerance=tolerance)
    mapped, off = _mapped(made, points, speeds, jnp.asarray(steps))
    residual = np.asarray(off)
    done = np.asarray(np.isfinite(residual))
    if np.max(residual[done], initial=0.0) > ON_D:
        raise InconsistentDataError(
            f"{'step' if step is not None else 'scheme'}: one step from D ends off D, |φ| = {residual[done].max():.3g}; the "
            "embedding is that of a map of D to itself. A map that preserves a deformed constraint is one on "
            "dalembert.systems.deformed(...)"
        )
    tau = np.arange(phases + 1) / phases
    given = made, points, speeds, mapped, steps, tau
    found = (
        native_first(_sizes_natively, _sizes_by_xla, *given) if exact_flow_compiles(made.chart) else _sizes_by_xla(*given)
    )
    floor = STEEPEST / steps * (4 * tolerance * (1 + found["size"]) + 10 * EPSILON * found["size"])
    largest = found["profile"].max(axis=1)
    table = [Comparison(*x) for x in zip(largest, found["field"], floor, strict=True)]
    size = converge(steps, [1] * len(steps), done, table)
    p = order if order is not None else (0 if np.isnan(size.slope) else round(size.slope))
    limit = STEEPEST * found["gap"] / steps ** (p + 1)
    return Embedding(p, order is not None, size, tau, found["profile"], limit, residual, made.chart.dependent, made)


def no_step(h, q, v):
    raise AssertionError("the map is known already")


@seldom
def _mapped(made: Perturbation, points, speeds, steps) -> tuple[Float[Array, "K B xi"], Float[Array, "K"]]:
    """Φ in ξ for every step and point, and the largest |φ| after it, over the points; nan where a step failed."""

    def one(h, q, v):
        q1, v1 = made.step(h, q, v)
        xi = made.chart.coordinates(q1, v1)
        off = violation(made.chart.system, q1, v1, made.t0 + h)
        return xi, jnp.where(jnp.all(jnp.isfinite(xi)), off, jnp.nan)

    mapped, off = jax.vmap(lambda h: jax.vmap(lambda q, v: one(h, q, v))(points, speeds))(steps)
    return mapped, jnp.max(off, axis=1)


def _sizes_natively(made: Perturbation, points, speeds, mapped, steps, tau) -> dict:
    """As `_sizes`; Unsupported where a function cannot be translated."""
    flow, t0, ends = ExactFlow.of(made.chart, made.tolerance), float(made.t0), np.asarray(mapped)

    def one(h, q, v, end) -> dict:
        found = pieces(flow, flow.coordinates(q, v), end, t0, h, tau)
        return {
            "profile": np.linalg.norm(found.perturbation, axis=-1),
            "field": np.max(np.linalg.norm(found.field, axis=-1)),
            "size": np.max(np.abs(found.xi)),
            "gap": np.linalg.norm(found.gap[-1]),
        }

    every = [[one(h, *x) for x in zip(points, speeds, row, strict=True)] for h, row in zip(steps, ends, strict=True)]
    return {name: np.array([np.max([x[name] for x in row], axis=0) for row in every]) for name in every[0][0]}


def _sizes_by_xla(made: Perturbation, points, speeds, mapped, steps, tau) -> dict:
    flows = dataclasses.replace(made, step=no_step)  # what follows is compiled once for all maps
    found = _sizes(flows, points, speeds, mapped, jnp.asarray(steps), jnp.asarray(tau))
    return {name: np.asarray(x) for name, x in found.items()}


class Pieces(NamedTuple):
    """At the phases τ: z = G, the perturbation ε^p g there, f(z), and F(τε, y) - F(τε - ε, Φ); (T, 2n-m) each."""

    xi: Float[np.ndarray, "T xi"]
    perturbation: Float[np.ndarray, "T xi"]
    field: Float[np.ndarray, "T xi"]
    gap: Float[np.ndarray, "T xi"]


def pieces(flow: ExactFlow, y: np.ndarray, mapped: np.ndarray, t0: float, h: float, tau: np.ndarray) -> Pieces:
    """As `Perturbation.from_start` at all phases from 0 to 1: F forwards from y, and backwards from Φ(ε, y)."""
    times = t0 + tau * h
    left, right = flow.run(y, times)[0], flow.run(mapped, times[::-1])[0][::-1]
    chi, slope = (np.asarray(x)[:, None] for x in _cut(jnp.asarray(tau)))
    z = chi * left + (1.0 - chi) * right
    f_left, f_right, f = (flow.slopes(x, times) for x in (left, right, z))
    bend = chi * f_left + (1.0 - chi) * f_right - f  # of second order in left - right
    return Pieces(z, bend + slope / h * (left - right), f, left - right)


@Jitted
def _cut(tau) -> Any:
    return jax.vmap(jax.value_and_grad(cutoff))(tau)


@Jitted
def _sizes(made: Perturbation, points, speeds, mapped, steps, tau) -> dict:
    def one(h, q, v, end):
        y = made.chart.coordinates(q, v)
        pieces = jax.vmap(lambda s: made.from_start(h, s, y, end))(tau)
        return {
            "profile": jnp.linalg.norm(pieces.perturbation, axis=-1),
            "field": jnp.max(jnp.linalg.norm(pieces.field, axis=-1)),
            "size": jnp.max(jnp.abs(pieces.xi)),
            "gap": jnp.linalg.norm(pieces.gap[-1]),  # at τ = 1: F(ε, y) - Φ(ε, y)
        }

    every = jax.vmap(lambda h, ends: jax.vmap(lambda q, v, end: one(h, q, v, end))(points, speeds, ends))(steps, mapped)
    return jax.tree.map(lambda x: jnp.max(x, axis=1), every)
