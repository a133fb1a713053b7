"""ξ̇ = (v, v̇^a) in D-adapted coordinates as machine code: z = v^α with φ(q, v, t) = 0, then v̇ of the explicit formula."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dalembert.native import Accuracy, FlowFunctions, ImplicitPart, Travelled
from dalembert.numbers import outside
from dalembert.systems.compiled.flow import SystemFlow, drift, flow_of
from dalembert.systems.compiled.function import LARGEST
from dalembert.systems.compiled.projection import restriction, restricts
from dalembert.systems.distribution.connection import CLOSE, Connection
from dalembert.systems.distribution.reduction import explicit_terms, velocity_constraints
from dalembert.systems.system import Rebuilt

MOST = 10_000_000  # steps of one integration


def adapted_flow(chart: Connection) -> SystemFlow:
    """y = ξ; its outputs are (q, v, λ, largest |φ|), and it is watched whether the chart is worn. Holonomic constraints keep
    q where they hold."""
    order, n, m = tuple(np.asarray(chart.order).tolist()), chart.n, chart.m

    def functions(rebuilt: Rebuilt) -> FlowFunctions:
        index, worn = np.array(order), 0.5 * chart.guaranteed

        def at(given) -> Connection:
            return Connection(rebuilt(given), jnp.asarray(index), jnp.zeros(m), True)  # for its quality, which needs no root

        def velocity(z, y):
            return jnp.concatenate([y[n:], z])[np.argsort(index)]

        def equations(z, y, t, *given):
            return velocity_constraints(rebuilt(given), y[:n], velocity(z, y), t)

        def field(z, y, t, *given):
            v = velocity(z, y)
            return jnp.concatenate([v, explicit_terms(rebuilt(given), y[:n], v, t).a[index[: n - m]]])

        def outputs(z, y, t, *given):
            q, v, system = y[:n], velocity(z, y), rebuilt(given)
            return jnp.concatenate([q, v, explicit_terms(system, q, v, t).multipliers, drift(system, q, v, t)[None]])

        def watch(z, y, t, *given):
            return at(given).quality(y[:n], velocity(z, y), t) - worn

        if m:
            part = ImplicitPart(equations, np.zeros(m), lambda x: jnp.ones(m), CLOSE.tolerance, CLOSE.max_iterations)
            return FlowFunctions(field, outputs, part, watch, n)
        without = lambda f: lambda *x: f(jnp.zeros(0), *x)  # noqa: E731
        return FlowFunctions(without(field), without(outputs), positions=n)

    def projection(rebuilt: Rebuilt):
        def function(y, t, *given):
            v = jnp.concatenate([y[n:], jnp.zeros(m)])[np.argsort(order)]  # for a metric
            mass, rows, residual, _ = restriction(rebuilt(given), y[:n], v, t)
            return mass, rows[: len(residual)], residual

        return function

    kept = projection if restricts(chart.system, (0,)) else None
    return flow_of(chart.system, ("adapted", order, m), 2 * n - m, functions, kept)


def travelled(chart: Connection, xi, times, tolerance: float) -> Travelled:
    """From ξ at times[0], in one chart; steps end at the times."""
    accuracy = Accuracy(float(tolerance), MOST, clipped=True)
    return adapted_flow(chart).run(xi, times, accuracy, np.asarray(chart.near))


def exact_flow_compiles(chart: Connection) -> bool:
    """Whether the flow is run by machine code, if it can be translated: on CPUs, with numbers that are known."""
    return outside() and jax.default_backend() == "cpu" and chart.n + chart.m <= LARGEST


class ExactFlow(NamedTuple):
    """F from any time; times may decrease. order: of the coordinates in the chart, the independent ones first."""

    code: SystemFlow
    near: np.ndarray
    order: np.ndarray
    free: int
    tolerance: float

    @classmethod
    def of(cls, chart: Connection, tolerance: float) -> ExactFlow:
        """Unsupported where a function of the system cannot be translated."""
        parts = np.asarray(chart.near), np.asarray(chart.order), chart.n - chart.m
        return cls(adapted_flow(chart), *parts, tolerance)

    def coordinates(self, q, v) -> np.ndarray:
        """ξ = (q, v^a)."""
        return np.concatenate([np.asarray(q), np.asarray(v)[self.order[: self.free]]])

    def run(self, xi: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """ξ and (q, v, λ, |φ|) at the times, the first of which is that of xi; NaN where they are not reached."""
        found = self.code.run(xi, times, Accuracy(self.tolerance, MOST, clipped=True), self.near)
        late = np.arange(len(times)) >= found.saved
        return np.where(late[:, None], np.nan, found.rows), found.outputs

    def slopes(self, xi: np.ndarray, times: np.ndarray) -> np.ndarray:
        """f(ξ) at states and times."""
        return self.code.along(xi, times, self.near)[0]
