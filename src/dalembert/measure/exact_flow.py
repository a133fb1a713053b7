"""The exact flow in one chart as machine code: F(t, y) at many times, and the perturbation of it that a map of D is."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert.measure.perturbation import Perturbation
from dalembert.native import Accuracy
from dalembert.systems import cutoff
from dalembert.systems.compiled.flow import SystemFlow
from dalembert.systems.compiled.function import LARGEST
from dalembert.systems.distribution.adapted_flow import adapted_flow
from dalembert.tracing import Jitted, outside

MOST = 100_000  # steps of one integration


def exact_flow_compiles(made: Perturbation) -> bool:
    """Whether the flow is run by machine code, if it can be translated: on CPUs, with numbers that are known."""
    chart = made.chart
    return outside() and jax.default_backend() == "cpu" and chart.n + chart.m <= LARGEST


class ExactFlow(NamedTuple):
    """F from any time; times may decrease. order: of the coordinates in the chart, the independent ones first."""

    code: SystemFlow
    near: np.ndarray
    order: np.ndarray
    free: int
    tolerance: float

    @classmethod
    def of(cls, made: Perturbation) -> ExactFlow:
        """Unsupported where a function of the system cannot be translated."""
        chart = made.chart
        parts = np.asarray(chart.near), np.asarray(chart.order), chart.n - chart.m
        return cls(adapted_flow(chart), *parts, float(made.tolerance))

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
