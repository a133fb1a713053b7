"""The local errors of a one step map on D, in positions, velocities and multipliers: its order (p, s)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert.discretize import Scheme
from dalembert.measure.embedding import ON_D
from dalembert.measure.order import Comparison, Convergence, converge
from dalembert.measure.perturbation import Perturbation, SchemeMap, perturbation
from dalembert.numbers import decreasing_steps
from dalembert.systems import System
from dalembert.systems.distribution.connection import as_points
from dalembert.systems.distribution.reduction import explicit_terms, violation
from dalembert.tracing import Jitted


@dataclasses.dataclass(frozen=True)
class Consistency:
    """|q(t0+ε) - q₁| = O(ε^(r+1)), |v(t0+ε) - v₁| = O(ε^(l+1)), |λ(t0+ε) - λ₁| = O(ε^(s+1)): errors after one step from
    exact data.

    The local exponents are the slopes: r + 1 for q, l + 1 for v. The first two of the multipliers are None for a map without
    multipliers, all three without constraints.

    Attributes:
        q: Convergence of positions.
        v: Convergence of velocities.
        multipliers: the scheme's λ against λ(t0 + ε), as the definition of (p, s) has it.
        multipliers_own_time: the scheme's λ against that at its own time, `path.t_multipliers`.
        multipliers_recomputed: λ of the explicit formula at the new (q, v) against λ(t0 + ε).
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
        """min(r, l): the least local exponent of q and v, minus 1; one whose errors are all below the floor is left out."""
        return float(np.fmin(self.q.slope, self.v.slope)) - 1.0

    @property
    def s(self) -> float:
        """The local exponent of λ at the end of the step, minus 1; nan without multipliers of a scheme."""
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
        """For a person: (p, s), whether D is kept, and the local exponents."""
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

    The exact solution is the reduced flow in D-adapted coordinates, λ(t) that of the explicit formula along it. `order`
    measures global errors. A map that leaves D is measured too.

    Args:
        system: a System with constraints of order 1.
        q0: (n,) position of a point of D, or (B, n) for several; errors are the largest over them, Euclidean each.
        v0: (n,) or (B, n) velocities.
        h: (K,) decreasing steps ε.
        scheme: as for `perturbation`.
        step: as for `perturbation`.
        t0: the time.
        dependent: as for `perturbation`.
        tolerance: as for `perturbation`.

    Returns:
        A Consistency, which prints as (p, s), whether D is kept, and the local exponents.

    Raises:
        ValueError: as `perturbation`; h is not decreasing.
        TypeError: as `perturbation`.

    Source: Jiménez, Scheurle, Definition 4.2 and Remark 4.3. Since a scheme's λ may belong to the middle of a step, it is
    measured at its own time as well: the definition's s is then 0 although that λ is of higher order.

    Example:
        >>> found = da.measure.consistency(pendulum, [1.0], [0.0], h=[0.2, 0.1])
        >>> found.stays, round(found.p)
        (True, 2)
    """
    steps = decreasing_steps(h)
    points, speeds = as_points(q0, v0, ("q0", "v0"))
    made = perturbation(system, points, speeds, scheme=scheme, step=step, t0=t0, dependent=dependent, tolerance=tolerance)
    found = jax.tree.map(np.asarray, _errors(made, points, speeds, jnp.asarray(steps)))
    done = np.isfinite(found["q"][0])
    doubt = 4 * tolerance * (1 + np.maximum(found["q"][1], found["v"][1]))

    def fit(name: str) -> Convergence:
        error, size = found[name]
        return converge(steps, [1] * len(steps), done, [Comparison(*x) for x in zip(error, size, doubt, strict=True)])

    lambdas = {name: fit(name) if name in found else None for name in ("end", "own", "again")}
    return Consistency(fit("q"), fit("v"), lambdas["end"], lambdas["own"], lambdas["again"], found["residual"])


@Jitted
def _errors(made: Perturbation, points, speeds, steps) -> dict:
    """For each quantity the error and the size, (K,) each."""
    system, chart = made.chart.system, made.chart

    def one(h, q, v):
        path = made.step.path(h, q, v) if isinstance(made.step, SchemeMap) else None
        q1, v1 = made.step(h, q, v) if path is None else (path.q[-1], path.v[-1])
        own = h if path is None else path.t_multipliers[-1] - made.t0
        y = chart.coordinates(q, v)
        times = jnp.stack([h, own])
        ends = jax.vmap(lambda s: made.flow(y, jnp.zeros(()), s))(times)
        qs, vs = jax.vmap(lambda x, s: chart.point(x, made.t0 + s))(ends, times)
        at_end, at_own = jax.vmap(lambda x, w, s: _multipliers(system, x, w, made.t0 + s))(qs, vs, times)
        pairs = {"q": (q1, qs[0]), "v": (v1, vs[0])}
        if chart.m:
            pairs["again"] = (_multipliers(system, q1, v1, made.t0 + h), at_end)
        if chart.m and path is not None:
            pairs |= {"end": (path.multipliers[-1], at_end), "own": (path.multipliers[-1], at_own)}
        found = {name: (jnp.linalg.norm(a - b), jnp.linalg.norm(b)) for name, (a, b) in pairs.items()}
        off = violation(system, q1, v1, made.t0 + h)
        return found | {"residual": off}

    every = jax.vmap(lambda h: jax.vmap(lambda q, v: one(h, q, v))(points, speeds))(steps)
    return jax.tree.map(lambda x: jnp.max(x, axis=1), every)


def _multipliers(system: System, q, v, t):
    return explicit_terms(system, q, v, t).multipliers
