"""The local errors of a one step map on D, in positions, velocities and multipliers: its order (p, s)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert.discretize import Scheme
from dalembert.measure.embedding import ON_D, no_step
from dalembert.measure.order import Comparison, Convergence, converge
from dalembert.measure.perturbation import Perturbation, SchemeMap, perturbation
from dalembert.native import native_first
from dalembert.notebook import Described
from dalembert.numbers import decreasing_steps
from dalembert.systems import System
from dalembert.systems.distribution.adapted_flow import ExactFlow, exact_flow_compiles
from dalembert.systems.distribution.connection import as_points
from dalembert.systems.distribution.reduction import explicit_terms, violation
from dalembert.tracing import Jitted, seldom


@dataclasses.dataclass(frozen=True)
class Consistency(Described):
    """|q(t0+ε) - q₁| = O(ε^(r+1)), |v(t0+ε) - v₁| = O(ε^(l+1)), |λ(t0+ε) - λ₁| = O(ε^(s+1)): errors after one step from
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
    def h(self) -> Float[np.ndarray, "K"]:
        return self.q.h

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
        """Whether one step from D ends on D."""
        return bool(np.nanmax(self.residual) <= ON_D)

    @property
    def quantities(self) -> dict[str, Convergence]:
        """The measured quantities by name."""
        names = ("q", "v", "multipliers", "multipliers_own_time", "multipliers_recomputed")
        found = {name: getattr(self, name) for name in names}
        return {name: c for name, c in found.items() if c is not None}

    def __str__(self) -> str:
        return self.describe()

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
    """|q(t0+ε) - q₁| = O(ε^(r+1)), |v(t0+ε) - v₁| = O(ε^(l+1)), |λ(t0+ε) - λ₁| = O(ε^(s+1)), p = min(r, l), and v₁ ∈ D.

    The exact solution is the reduced flow in D-adapted coordinates, with λ(t) from the explicit formula along it.
    `order` measures global errors instead. A map that leaves D can be measured too.

    Args:
        system: a System with constraints of order 1.
        q0: (n,) position of a point of D, or (B, n) for several; errors are Euclidean norms, the largest over the
            points.
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
    steps = decreasing_steps(h)
    points, speeds = as_points(q0, v0, ("q0", "v0"))
    made = perturbation(system, points, speeds, scheme=scheme, step=step, t0=t0, dependent=dependent, tolerance=tolerance)
    found = _errors(made, points, speeds, steps)
    done = np.isfinite(found["q"][0])
    doubt = 4 * tolerance * (1 + np.maximum(found["q"][1], found["v"][1]))

    def fit(name: str) -> Convergence:
        error, size = found[name]
        return converge(steps, [1] * len(steps), done, [Comparison(*x) for x in zip(error, size, doubt, strict=True)])

    lambdas = {name: fit(name) if name in found else None for name in ("end", "own", "again")}
    return Consistency(fit("q"), fit("v"), lambdas["end"], lambdas["own"], lambdas["again"], found["residual"])


class Ends(NamedTuple):
    """(q, v, λ) of the exact flow at the end of the step, and λ at the time of the scheme's."""

    q: Any
    v: Any
    multipliers: Any
    own: Any


def _errors(made: Perturbation, points, speeds, steps) -> dict:
    """For each quantity the error and the size, (K,) each."""
    stepped = _stepped(made, points, speeds, jnp.asarray(steps))
    given = made, points, speeds, steps, np.asarray(stepped["own_time"])
    ends = native_first(_ends_natively, _ends_by_xla, *given) if exact_flow_compiles(made.chart) else _ends_by_xla(*given)
    pairs = {"q": (stepped["q"], ends.q), "v": (stepped["v"], ends.v)}
    if made.chart.m:
        pairs["again"] = (stepped["again"], ends.multipliers)
    if "multipliers" in stepped:
        pairs |= {"end": (stepped["multipliers"], ends.multipliers), "own": (stepped["multipliers"], ends.own)}
    size = lambda x: np.max(np.linalg.norm(np.asarray(x), axis=-1), axis=1)  # noqa: E731  over the points
    found = {name: (size(np.asarray(a) - np.asarray(b)), size(b)) for name, (a, b) in pairs.items()}
    return {**found, "residual": np.max(np.asarray(stepped["residual"]), axis=1)}


@seldom
def _stepped(made: Perturbation, points, speeds, steps) -> dict:
    """(q, v) after one step, λ of the scheme and of the explicit formula there, each (K, B, …); own_time: after t0."""
    system = made.chart.system

    def one(h, q, v) -> dict:
        path = made.step.path(h, q, v) if isinstance(made.step, SchemeMap) else None
        q1, v1 = made.step(h, q, v) if path is None else (path.q[-1], path.v[-1])
        t = made.t0 + h
        found = {"q": q1, "v": v1, "again": _multipliers(system, q1, v1, t), "residual": violation(system, q1, v1, t)}
        if path is None or not made.chart.m:
            return found | {"own_time": h}
        return found | {"own_time": path.t_multipliers[-1] - made.t0, "multipliers": path.multipliers[-1]}

    return jax.vmap(lambda h: jax.vmap(lambda q, v: one(h, q, v))(points, speeds))(steps)


def _ends_natively(made: Perturbation, points, speeds, steps, own) -> Ends:
    """As `_ends`, by machine code; Unsupported where a function cannot be translated."""
    flow, t0, n, m = ExactFlow.of(made.chart, made.tolerance), float(made.t0), made.chart.n, made.chart.m

    def one(h: float, q, v, own_time: float) -> Ends:
        times = np.unique(t0 + np.array([0.0, h, *([own_time] if np.isfinite(own_time) else [])]))
        outputs = flow.run(flow.coordinates(q, v), times)[1]
        end = outputs[np.searchsorted(times, t0 + h)]
        at_own = outputs[np.searchsorted(times, t0 + own_time)] if np.isfinite(own_time) else np.full_like(end, np.nan)
        return Ends(end[:n], end[n : 2 * n], *(x[2 * n : 2 * n + m] for x in (end, at_own)))

    rows = [[one(h, *x) for x in zip(points, speeds, row, strict=True)] for h, row in zip(steps, own, strict=True)]
    return Ends(*(np.array([[getattr(x, name) for x in row] for row in rows]) for name in Ends._fields))


def _ends_by_xla(made: Perturbation, points, speeds, steps, own) -> Ends:
    flows = dataclasses.replace(made, step=no_step)  # compiled once for all maps
    return _ends(flows, points, speeds, jnp.asarray(steps), jnp.asarray(own))


@Jitted
def _ends(made: Perturbation, points, speeds, steps, own) -> Ends:
    def one(h, q, v, own_time) -> Ends:
        times = jnp.stack([h, own_time])
        ends = jax.vmap(lambda s: made.flow(made.chart.coordinates(q, v), jnp.zeros(()), s))(times)
        qs, vs = jax.vmap(lambda x, s: made.chart.point(x, made.t0 + s))(ends, times)
        both = jax.vmap(lambda x, w, s: _multipliers(made.chart.system, x, w, made.t0 + s))(qs, vs, times)
        return Ends(qs[0], vs[0], *both)

    every = jax.vmap(lambda q, v, h, row: one(h, q, v, row), in_axes=(0, 0, None, 0))
    return jax.vmap(lambda h, row: every(points, speeds, h, row))(steps, own)


def _multipliers(system: System, q, v, t):
    return explicit_terms(system, q, v, t).multipliers
