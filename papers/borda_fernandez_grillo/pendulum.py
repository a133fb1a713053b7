"""System B, the inertia wheel pendulum with a Lyapunov constraint (Section 4.2): errors of θ, and what V really does.

Once the oscillation of θ has died out, p₁ ≈ p₂ and u = -dIJψ̇ with ρ tanh u = -K: the phase γ = ψ - nθ creeps by
γ̇ = -sin γ / τ, τ = ρ(dIJ)²/χ (8427 time units for the printed parameters), so tan(γ/2) decays like exp(-t/τ) and
V = χ(1 - cos γ) = 2χ / (1 + cot²(γ₀/2) exp(2t/τ)). Where γ is left by the oscillation decides when V vanishes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert.gallery import inertia_wheel_pendulum as wheel
from dalembert.options import Save
from dalembert.path import Path
from dalembert.systems import Reference, reference
from papers.convergence import METHODS, ONE_STEP, PRINTED, ErrorsByStep, Method

STEPS = (0.4, 0.2, 0.1, 0.05, 0.025, 0.0125)
SHORT_STEPS = (0.1, 0.05, 0.025, 0.0125)
FINER = (0.00625, 0.003125)  # in both intervals, so that a slope is that of four steps or more
FINEST, TIME, SHORT = FINER[-1], 2000.0, 4.0
LATE = 60_000.0
INSTANTS = (500.0, 1000.0, 2000.0)
ENTRY = wheel.entry
P = wheel.PARAMETERS


@dataclasses.dataclass(frozen=True)
class Pendulum:
    """long, short: errors of θ over [0, time] and [0, 4], one ErrorsByStep per method. path: the run of figure 5.

    values: V at the instants of `INSTANTS` within the time, per method and step. reference: the continuous solution on
    the grid of the finest step. late: the one step form from the end of the reference on.
    """

    time: float
    long: list[ErrorsByStep]
    short: list[ErrorsByStep]
    values: dict[str, Float[np.ndarray, "steps instants"]]
    path: Path
    reference: Reference
    late: Path


def _on_rows(function: Callable) -> Callable:
    return jax.jit(jax.vmap(lambda q, v: function(q, v, P)))


lyapunov, factor, dissipation = (_on_rows(f) for f in (wheel.lyapunov, wheel.factor, wheel.dissipation))


def state(path: Path) -> tuple[Float[np.ndarray, "times"], Float[np.ndarray, "times n"], Float[np.ndarray, "times n"]]:
    """(t, q, v) at nodes: as they are, or with (q_{k+1} - q_{k-1})/2h where the path has differences half way only."""
    t, q, v = (np.asarray(x) for x in (path.t, path.q, path.v))
    return (t, q, v) if path.levels[0] == "node" else (t[1:-1], q[1:-1], 0.5 * (v[1:] + v[:-1]))


def phase(q: Float[np.ndarray, "times n"]) -> Float[np.ndarray, "times"]:
    """γ = ψ - nθ, by which V depends on the angle of the wheel."""
    return q[:, 1] - P["n"] * q[:, 0]


def value_at(t, values, instant: float) -> float:
    """The value at the time of the path nearest to an instant (half a step away at most)."""
    return float(values[int(jnp.argmin(jnp.abs(jnp.asarray(t) - instant)))])


def solution(time: float) -> Reference:
    """The reduced equations on the grid of the finest step. Against 1e-12, θ is right to 3e-9 for T = 2000."""
    times = FINEST * jnp.arange(round(time / FINEST) + 1)
    return reference(ENTRY.system, ENTRY.q0, ENTRY.v0, times, tolerance=1e-10)


def error_of_theta(path: Path, exact: Reference) -> float:
    """max |θ_k - θ(t_k)| over all nodes; the reference is on a grid that contains them."""
    every = round(float(path.h) / float(exact.t[1] - exact.t[0]))
    theta = np.asarray(exact.q)[::every, 0][: path.q.shape[0]]
    return float(np.max(np.abs(np.asarray(path.q)[:, 0] - theta)))


def run(method: Method, h: float, time: float, **choices) -> Path:
    return method.simulate(ENTRY.system, ENTRY.q0, ENTRY.v0, h, time, **choices)


def lyapunov_at(path: Path, instants) -> Float[np.ndarray, "instants"]:
    """V at the nodes nearest to the instants."""
    t, q, v = state(path)
    k = [int(np.argmin(np.abs(t - instant))) for instant in instants]
    return np.asarray(lyapunov(q[k], v[k]))


def convergence(method: Method, time: float, exact: Reference, steps) -> tuple[ErrorsByStep, np.ndarray]:
    """Errors, and V at the instants that lie within the time."""
    paths = [run(method, h, time) for h in steps]
    values = [lyapunov_at(path, [x for x in INSTANTS if x <= time]) for path in paths]
    errors = [error_of_theta(path, exact) for path in paths]
    return ErrorsByStep(method, time, np.array(steps), np.array(errors)), np.array(values)


def time_constant() -> float:
    """τ = ρ(dIJ)²/χ of the last, overdamped phase."""
    return P["rho"] * (P["d"] * P["I"] * P["J"]) ** 2 / P["chi"]


def oscillation_part(q: Float[np.ndarray, "times n"], v: Float[np.ndarray, "times n"]) -> Float[np.ndarray, "times"]:
    """V - χ(1 - cos γ), what V has beside the part of the phase."""
    return np.asarray(lyapunov(q, v)) - P["chi"] * (1 - np.cos(phase(q)))


def creeping(t: Float[np.ndarray, "times"], value: float) -> Float[np.ndarray, "times"]:
    """V a time t after it had the given value: 2χ / (1 + cot²(γ₀/2) exp(2t/τ)), with V = 2χ sin²(γ/2).

    Raises:
        ValueError: V is above 2χ, so that the oscillation has not died out; the denominator would pass zero.
    """
    full = 2 * P["chi"]
    if not 0 < value <= full:
        raise ValueError(f"value: found {value:g}; V of the phase alone is between 0 and 2χ = {full:g}")
    return full / (1 + (full / value - 1) * np.exp(2 * np.asarray(t) / time_constant()))


def measure(fast: bool = False) -> Pendulum:
    """fast: without the start on the solution, which compiles for ten seconds."""
    methods = (PRINTED, ONE_STEP) if fast else METHODS
    exact = solution(TIME)
    long = [convergence(method, TIME, exact, STEPS + FINER) for method in methods]
    end = ONE_STEP.simulate(ENTRY.system, exact.q[-1], exact.v[-1], 0.1, LATE - TIME, t0=TIME, save=Save(every=100))
    return Pendulum(
        time=TIME,
        long=[errors for errors, _ in long],
        short=[convergence(method, SHORT, exact, SHORT_STEPS + FINER)[0] for method in methods],
        values={errors.method.name: values for errors, values in long},
        path=run(PRINTED, 0.1, TIME),
        reference=exact,
        late=end,
    )
