"""ξ̇ = (v, v̇^a) in D-adapted coordinates as machine code: z = v^α with φ(q, v, t) = 0, then v̇ of the explicit formula."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.algebra import integrate
from dalembert.native import Accuracy, FlowFunctions, ImplicitPart, Travelled, native_first
from dalembert.notebook import Described
from dalembert.numbers import as_state, is_traced, outside
from dalembert.systems.checks import check_initial_data
from dalembert.systems.compiled import LARGEST, SystemFlow, compiled_flow, drift, restriction, restricts
from dalembert.systems.continuous import MOST, chosen_backend, in_machine_code, time_scale
from dalembert.systems.distribution.charts import CLOSE, Connection, name_of, velocity_chart
from dalembert.systems.distribution.reduction import check_first_order, explicit_terms, reduction, velocity_constraints
from dalembert.systems.sizes import check_times
from dalembert.systems.system import Rebuilt, System
from dalembert.tracing import Jitted


def adapted_flow(chart: Connection) -> SystemFlow:
    """y = ξ; its outputs are (q, v, λ, largest |φ|), and it is watched whether the chart is worn. Holonomic constraints keep
    q where they hold."""
    order, n, m = tuple(np.asarray(chart.order).tolist()), chart.n, chart.m

    def functions(rebuilt: Rebuilt) -> FlowFunctions:
        index, worn = np.array(order), 0.5 * chart.guaranteed

        def velocity(z, y):
            return jnp.concatenate([y[n:], z])[np.argsort(index)]

        def constraints(z, y, t, *given):
            return velocity_constraints(rebuilt(given), y[:n], velocity(z, y), t)

        def field(z, y, t, *given):
            v = velocity(z, y)
            return jnp.concatenate([v, explicit_terms(rebuilt(given), y[:n], v, t).a[index[: n - m]]])

        def outputs(z, y, t, *given):
            q, v, system = y[:n], velocity(z, y), rebuilt(given)
            return jnp.concatenate([q, v, explicit_terms(system, q, v, t).multipliers, drift(system, q, v, t)[None]])

        def watch(z, y, t, *given):
            chart = Connection(rebuilt(given), jnp.asarray(index), jnp.zeros(m), True)  # its quality needs no root
            return chart.quality(y[:n], velocity(z, y), t) - worn

        if m:
            part = ImplicitPart(constraints, np.zeros(m), lambda x: jnp.ones(m), CLOSE.tolerance, CLOSE.max_iterations)
            return FlowFunctions(field, outputs, part, watch, n)
        without = lambda f: lambda *x: f(jnp.zeros(0), *x)  # noqa: E731
        return FlowFunctions(without(field), without(outputs), positions=n)

    def projection(rebuilt: Rebuilt):
        def restrictions_at(y, t, *given):
            v = jnp.concatenate([y[n:], jnp.zeros(m)])[np.argsort(order)]  # for a metric
            mass, rows, residual, _ = restriction(rebuilt(given), y[:n], v, t)
            return mass, rows[: len(residual)], residual

        return restrictions_at

    kept = projection if restricts(chart.system, (0,)) else None
    return SystemFlow(*compiled_flow(chart.system, ("adapted", order, m), 2 * n - m, functions, kept))


class ExactFlow(NamedTuple):
    """F from any time; times may decrease. code: None where JAX runs what machine code cannot."""

    chart: Connection
    tolerance: float
    code: SystemFlow | None

    def coordinates(self, q, v) -> np.ndarray:
        """ξ = (q, v^a)."""
        free = np.asarray(self.chart.order)[: self.chart.n - self.chart.m]
        return np.concatenate([np.asarray(q), np.asarray(v)[free]])

    def run(self, xi: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """ξ and (q, v, λ, …) at the times, the first of which is that of xi; NaN where they are not reached."""
        if self.code is None:
            found = _rows_by_jax(self.chart, jnp.asarray(xi), jnp.asarray(times), jnp.asarray(self.tolerance))
            return np.asarray(found[0]), np.asarray(found[1])
        found = self.code.run(xi, times, Accuracy(self.tolerance, MOST, clipped=True), np.asarray(self.chart.near))
        late = np.arange(len(times)) >= found.saved
        return np.where(late[:, None], np.nan, found.rows), found.outputs

    def field(self, xi: np.ndarray, times: np.ndarray) -> np.ndarray:
        """f(ξ) at states and times."""
        if self.code is None:
            return np.asarray(_slopes_by_jax(self.chart, jnp.asarray(xi), jnp.asarray(times)))
        return self.code.along(xi, times, np.asarray(self.chart.near))[0]


@Jitted
def _rows_by_jax(chart: Connection, xi, times, tolerance):
    def row_at(t):
        y = flow(chart, xi, times[0], t - times[0], tolerance)
        q, v = chart.point(y, t)
        return y, jnp.concatenate([q, v, explicit_terms(chart.system, q, v, t).multipliers])

    return jax.vmap(row_at)(times)


@Jitted
def _slopes_by_jax(chart: Connection, xi, times):
    return jax.vmap(chart.field)(xi, times)


def with_exact_flow(function: Callable[..., Any], chart: Connection, tolerance: float, *given: Any) -> Any:
    """function(flow, *given) with the exact flow by machine code, or by JAX where that cannot be."""
    by_jax = lambda: function(ExactFlow(chart, tolerance, None), *given)  # noqa: E731
    if not (outside() and jax.default_backend() == "cpu" and chart.n + chart.m <= LARGEST):
        return by_jax()
    return native_first(lambda: function(ExactFlow(chart, tolerance, adapted_flow(chart)), *given), by_jax)


MOST_CHANGES = 1000


@dataclasses.dataclass(frozen=True)
class ChartChange(Described):
    """One change of chart: at time t the dependent coordinates `before` were replaced by `after`.

    Attributes:
        t: the time.
        before: indices of the dependent coordinates up to t.
        after: indices of the dependent coordinates from t on.
        worn: quality of the chart that was left, from 0 to 1.
        fresh: quality of the chart that replaced it.
    """

    t: float
    before: tuple[int, ...]
    after: tuple[int, ...]
    worn: float
    fresh: float


@dataclasses.dataclass(frozen=True)
class AdaptedReference(Described):
    """The continuous motion on the constraint manifold, at the times asked for.

    ξ̇ = (∇ψ)⁻¹h(ψ(ξ)), integrated on D: positions, velocities and multipliers at the times asked for.

    Attributes:
        t: (N+1,) times.
        q: (N+1, n).
        v: (N+1, n).
        multipliers: (N+1, m).
        residual: (N+1,) largest of |φ(q)|, |dφ/dt|, |φ(q, v)|, round-off: of the velocities by construction, of positions by
            projection.
        first: the chart at the start.
        changes: the changes of chart, each a ChartChange.
        integrator_steps: number of steps of the integrator.
        method: what took the steps, as of `Reference`: "Runge-Kutta", "Dopri8", or both in turn.
    """

    t: Float[np.ndarray, "times"]
    q: Float[np.ndarray, "times n"]
    v: Float[np.ndarray, "times n"]
    multipliers: Float[np.ndarray, "times m"]
    residual: Float[np.ndarray, "times"]
    first: Connection
    changes: tuple[ChartChange, ...]
    integrator_steps: int
    method: str

    def describe(self) -> str:
        """The charts in words, one on each line."""
        name = lambda chart: name_of(self.first.system, chart)  # noqa: E731
        lines = [f"t = {self.t[0]:g}: dependent {name(self.first.dependent)}"]
        lines += [
            f"t = {c.t:g}: dependent {name(c.after)} (quality {c.worn:.3f} → {c.fresh:.3f})" for c in self.changes
        ]  # fmt: skip
        return "\n".join([*lines, f"largest |φ|: {self.residual.max():.2e}"])


def adapted_reference(
    system: System,
    q0,
    v0,
    t: Float[Array, "times"],
    *,
    dependent=None,
    tolerance: float = 1e-11,
    backend: Literal["native", "diffrax"] | None = None,
) -> AdaptedReference:
    """Integrate the continuous equations of motion on the constraint manifold.

    ξ̇ = (∇ψ)⁻¹h(ψ(ξ)), ξ = (q, v^a), from (q0, v0) at t[0]: the constraints hold to round-off.

    Where the quality of the chart falls below ½/√(1 + m(n-m)), half of what the best chart always reaches, the
    integration goes on in the best chart there. That chart is at least twice as good, so that one change cannot follow
    another at once. A holonomic constraint restricts velocities by dφ/dt = 0; positions are projected onto φ(q) = 0 after
    every step, as in `reference`, which takes constraints on accelerations, too.

    Args:
        system: a System with constraints on positions and velocities, of any of these kinds together.
        q0: (n,) positions at t[0].
        v0: (n,) velocities at t[0].
        t: (N+1,) increasing times.
        dependent: the dependent coordinates of the first chart, as for `connection`.
        tolerance: relative and absolute, local.
        backend: as for `reference`; diffrax does not project positions, and φ(q) of a holonomic constraint drifts.

    Returns:
        An AdaptedReference.

    Raises:
        ValueError: as `connection`, `reduction` and `reference`.
        TypeError: as `connection`, `reduction` and `reference`.
        RuntimeError: the integration fails.

    Source: Jiménez, Scheurle, eq. (46), and (106) for nonlinear constraints; the changes of chart are not in the paper.

    Example:
        >>> exact = da.systems.adapted_reference(edge, [0.0, 0.0, 0.0], [1.0, 0.0, 0.5], [0.0, 1.0])
        >>> bool(exact.residual.max() < 1e-14), exact.first.dependent
        (True, (1,))
    """
    check_first_order(system, "adapted_reference", instead="integrated by dalembert.reference")
    times, chosen = check_times(t, tolerance), chosen_backend(backend)
    q0, v0 = as_state(q0, v0, system.coordinates)
    if not is_traced(times) and times[-1] < times[0]:
        raise ValueError(f"t: found {np.asarray(times)}; charts are changed forwards in time: the times must increase")
    if is_traced(system, q0, v0, times):
        raise TypeError("adapted_reference: the charts are chosen by numbers; it does not work under jit, vmap or grad")
    known = np.asarray(times)
    q, v = check_initial_data(system, q0, v0, known[0], time_scale(known))
    reduction(system, q, v, known[0])
    chart = first = velocity_chart(system, q, v, known[0], dependent)
    now, xi, steps, changes, methods = known[0], chart.coordinates(q, v), 0, [], []
    n, m = q.shape[0], chart.m
    native = chosen == "native" and in_machine_code(system, q, v, known, tolerance)
    filled = np.full((len(known), 2 * n + m + 1), np.nan)
    while True:
        ahead = np.flatnonzero(known > now)  # where a later segment begins the one before has ended
        given = chart, xi, np.append(now, known[ahead]), float(tolerance), len(known)
        found, method = native_first(_native_segment, _diffrax_segment, *given) if native else _diffrax_segment(*given)
        steps, methods = steps + found.steps, [*methods, method]
        if now == known[0]:
            filled[0] = found.outputs[0]
        filled[ahead[: found.saved - 1]] = found.outputs[1 : found.saved]
        if found.reached:
            break
        if not found.watched or len(changes) >= MOST_CHANGES:
            raise RuntimeError(
                f"adapted_reference: the integration failed after t = {found.t:g} (the solution may cease to exist; "
                f"{len(changes)} changes of the chart before)"
            )
        now, end = found.t, (jnp.asarray(found.end[:n]), jnp.asarray(found.end[n : 2 * n]))
        worn, chart = chart, velocity_chart(system, *end, now, None)
        old, fresh = (float(c.quality(*end, now)) for c in (worn, chart))
        changes.append(ChartChange(now, worn.dependent, chart.dependent, old, fresh))
        xi = chart.coordinates(*end)
    qs, vs, multipliers, residual = np.split(filled, [n, 2 * n, 2 * n + m], axis=1)
    return AdaptedReference(
        known, qs, vs, multipliers, residual[:, 0], first, tuple(changes), steps, ", ".join(dict.fromkeys(methods))
    )


def _native_segment(chart: Connection, xi, times: np.ndarray, tolerance: float, number: int) -> tuple[Travelled, str]:
    """From the first of the times to the last, or to the first step after which the chart is worn, and how; its outputs are
    (q, v, λ, largest |φ|). Unsupported where a function cannot be translated."""
    accuracy = Accuracy(tolerance, MOST, clipped=True)
    return adapted_flow(chart).run(xi, times, accuracy, np.asarray(chart.near)), "Runge-Kutta"


def _diffrax_segment(chart: Connection, xi, times: np.ndarray, tolerance: float, number: int) -> tuple[Travelled, str]:
    """The same by diffrax, in one program for every segment of so many times at the most."""
    inside = np.append(np.full(number - len(times), times[0]), times)
    found = _by_diffrax(chart, xi, jnp.asarray(inside), jnp.asarray(tolerance))
    outputs, t, q, v, reached, worn, steps = map(np.asarray, found)
    outputs = outputs[-len(times) :]
    saved = int(np.isfinite(outputs[:, : 2 * chart.n]).all(axis=1).sum())
    ends = t.item(), np.concatenate([q, v]), reached.item(), worn.item(), steps.item()
    return Travelled(outputs, outputs, saved, *ends), "Dopri8"


@Jitted
def _by_diffrax(chart: Connection, xi, inside, tolerance):
    worn, span = 0.5 * chart.guaranteed, (inside[0], inside[-1])
    found = integrate(
        lambda s, y, c: c.field(y, s), chart, span, xi, tolerance, at=inside, max_steps=MOST, clipped=True,
        until=lambda s, y, c: c.quality(*c.point(y, s), s) < worn,
    )  # fmt: skip
    reached = jnp.isfinite(found.y)

    def output_row(x, s):
        q, v = chart.point(x, s)
        terms = explicit_terms(chart.system, q, v, s)
        return jnp.concatenate([q, v, terms.multipliers, drift(chart.system, q, v, s)[None]])

    rows = jnp.where(reached[:, :1], jax.vmap(output_row)(jnp.where(reached, found.y, xi), inside), jnp.inf)
    return rows, found.t, *chart.point(found.end, found.t), found.reached, found.stopped, found.steps


def flow(chart: Connection, xi, t, duration, tolerance):
    """F(duration; t, ξ): the reduced flow over a short, signed duration within one chart, for use under jit and vmap.

    Time is scaled to [0, 1], so that a duration of either sign, or zero, is one compiled program.
    """
    field = lambda s, y, length: length * chart.field(y, t + s * length)  # noqa: E731
    return integrate(field, duration, (0.0, 1.0), xi, tolerance).y[0]
