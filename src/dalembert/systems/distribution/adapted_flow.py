"""ξ̇ = (v, v̇^a) in D-adapted coordinates as machine code: z = v^α with φ(q, v, t) = 0, then v̇ of the explicit formula."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from dalembert.native import Accuracy, FlowFunctions, ImplicitPart, Travelled
from dalembert.systems.compiled.flow import SystemFlow, flow_of
from dalembert.systems.distribution.connection import CLOSE, Connection
from dalembert.systems.distribution.reduction import explicit_terms, velocity_constraints, violation
from dalembert.systems.system import Rebuilt


def adapted_flow(chart: Connection) -> SystemFlow:
    """y = ξ; its outputs are (q, v, λ, largest |φ|), and it is watched whether the chart is worn."""
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
            return jnp.concatenate([q, v, explicit_terms(system, q, v, t).multipliers, violation(system, q, v, t)[None]])

        def watch(z, y, t, *given):
            return at(given).quality(y[:n], velocity(z, y), t) - worn

        if m:
            part = ImplicitPart(equations, np.zeros(m), lambda x: jnp.ones(m), CLOSE.tolerance, CLOSE.max_iterations)
            return FlowFunctions(field, outputs, part, watch)
        without = lambda f: lambda *x: f(jnp.zeros(0), *x)  # noqa: E731
        return FlowFunctions(without(field), without(outputs))

    return flow_of(chart.system, ("adapted", order, m), 2 * n - m, functions)


def travelled(chart: Connection, xi, times, tolerance: float) -> Travelled:
    """From ξ at times[0], in one chart; steps end at the times."""
    accuracy = Accuracy(float(tolerance), 10_000_000, clipped=True)
    return adapted_flow(chart).run(xi, times, accuracy, np.asarray(chart.near))
