"""Section 4.1 for the beam: the times of the nodes are unknowns, the discrete energy, and where the nodes go."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.polynomial.chebyshev import Chebyshev

from dalembert.boundary import Nodes, solve
from dalembert.discretize import Averaged, Interpolated, Points, WindowMap, energies, with_time
from dalembert.solution import Solution
from dalembert.systems import VariationalProblem, density
from dalembert.tracing import Jitted
from papers.colombo_martin_de_diego_zuccalli.beam import LOADED, TAPERED, UNIFORM, Beam
from papers.drawing import BLUE, GREEN, GREY, RED, Save, panels

STEPS = (10, 20, 40)
DEGREE = 40
GRID = np.linspace(0.0, 1.0, 4001)


def error_density(beam: Beam, scheme: WindowMap) -> Float[np.ndarray, "grid"]:
    """g(t), where A_d = ∫ L dt + ∫ h(t)² g(t) dt + O(h⁴) along the solution, for steps h(t_i) that vary smoothly; on GRID.

    g = μ q̈ q⁗/12 - (L)¨/12, and ρ q̈/3 more for `Averaged`. Moving the nodes can only change the second integral, while
    ∫ dt/h = N stays: it is stationary where h³ g is constant, and where g has a zero no such steps exist.
    """
    t = 0.5 * (1 - np.cos(np.pi * (np.arange(DEGREE + 1) + 0.5) / (DEGREE + 1)))
    q, _, a = beam.exact(t)
    mu, rho = np.asarray(beam.mu(t)), np.asarray(beam.rho(t))
    fit = lambda values: Chebyshev.fit(t, values, DEGREE, domain=[0, 1]).deriv(2)(t)  # noqa: E731
    g = mu * a * fit(a) / 12 - fit(0.5 * mu * a**2 + rho * q) / 12
    return Chebyshev.fit(t, g + (rho * a / 3 if isinstance(scheme, Averaged) else 0.0), DEGREE, domain=[0, 1])(GRID)


PROBLEMS = {beam.name: with_time(beam.problem) for beam in (UNIFORM, TAPERED, LOADED)}  # compiled once for all N


def equidistributed(g: Float[np.ndarray, "grid"], steps: int) -> Float[np.ndarray, "N+1"]:
    """Nodes with h³ |g| constant: ∫ |g|^{1/3} dt is the same between all neighbours."""
    weight = np.cbrt(np.abs(g))
    integral = np.concatenate([[0.0], np.cumsum(0.5 * (weight[1:] + weight[:-1]) * np.diff(GRID))])
    return np.interp(np.linspace(0.0, integral[-1], steps + 1), integral, GRID)


def solved(beam: Beam, problem: VariationalProblem, t: Float[np.ndarray, "N+1"]) -> Solution:
    """The extremal in (t, q) near the beam at the times t; at each end two nodes are given, on the beam."""
    x = np.stack([t, beam.exact(t)[0]], axis=1)
    first, last, count = Nodes(x[:2]), Nodes(x[-2:]), np.arange(len(t), dtype=float)
    return solve(problem, initial=first, final=last, times=count, scheme=Points(), guess=x, seek="extremal", throw=False)


@Jitted
def time_slopes(problem: VariationalProblem, x: Float[Array | np.ndarray, "N+1 2"]) -> Float[Array, "N-1"]:
    """½(h_i + h_{i+1}) ∂L̄_d/∂t_i of every window: all its times move together."""

    def one(window):
        moved = lambda s: density(problem, tuple(window.at[:, 0].add(s)), 0.0)  # noqa: E731
        return jax.grad(moved)(0.0)

    return jax.vmap(one)(jnp.stack([x[:-2], x[1:-1], x[2:]], axis=1))


@dataclasses.dataclass(frozen=True)
class FreeSteps:
    """predicted, found: the times of the nodes; energy: E_i, half of the paper's; error: of q at the found times.

    negative: directions in which the action has a maximum there; N-3 times are free.

    law: largest |E_i - E_{i-1} + ½(h_i+h_{i+1}) ∂L̄_d/∂t_i|; printed: the same with the printed h_i+h_{i+1}+h_{i+2}.
    equal_steps: max E - min E of the solution with equal, fixed steps.
    """

    beam: Beam
    predicted: Float[np.ndarray, "N+1"]
    found: Float[np.ndarray, "N+1"]
    energy: Float[np.ndarray, "N-2"]
    error: float
    law: float
    printed: float
    equal_steps: float
    outcome: str
    negative: int

    @property
    def moved(self) -> float:
        """Largest distance from the predicted times, over the mean step."""
        return float(np.max(np.abs(self.found - self.predicted)) * (len(self.found) - 1))

    @property
    def spread(self) -> float:
        return float(np.ptp(self.energy))


def measured(beam: Beam, steps: int) -> FreeSteps:
    problem, t = PROBLEMS[beam.name], equidistributed(error_density(beam, Interpolated()), steps)
    solution = solved(beam, problem, t)
    x = np.asarray(solution.q)
    energy, slopes, h = (
        np.asarray(energies(problem, solution.q)),
        np.asarray(time_slopes(problem, solution.q)),
        np.diff(x[:, 0]),
    )
    pairs, triples = h[:-1] + h[1:], h[:-2] + h[1:-1] + h[2:]
    jumps, slope = np.diff(energy)[:-1], slopes[2:-1]  # nodes 2 … N-3: the printed sum of steps ends at t_{i+3}
    return FreeSteps(
        beam, t, x[:, 0], energy, float(np.max(np.abs(x[:, 1] - beam.exact(x[:, 0])[0]))),
        float(np.max(np.abs(np.diff(energy) + slopes[2:]))),
        float(np.max(np.abs(jumps + slope * triples[2:] / pairs[2:-1]))),
        float(np.ptp(equal_step_energies(beam, problem, steps))), solution.outcome.name,
        int(solution.negative_directions),
    )  # fmt: skip


def equal_step_energies(beam: Beam, problem: VariationalProblem, steps: int) -> Float[np.ndarray, "N-2"]:
    t = np.linspace(0.0, 1.0, steps + 1)
    q = beam.exact(t)[0][:, None]
    fixed = solve(beam.problem, initial=Nodes(q[:2]), final=Nodes(q[-2:]), T=1.0, steps=steps, certify=False)
    return np.asarray(energies(problem, np.column_stack([t, fixed.q[:, 0]])))


def signs() -> list[tuple[Beam, str, float, float]]:
    """(beam, scheme, least g, largest g): different signs mean that fine meshes have no extremal."""
    pairs = [(beam, scheme) for beam in (UNIFORM, TAPERED, LOADED) for scheme in (Interpolated(), Averaged())]
    found = [(beam, scheme.name, error_density(beam, scheme)) for beam, scheme in pairs]
    return [(beam, name, float(g.min()), float(g.max())) for beam, name, g in found]


def from_equal_steps(steps: int = 20) -> list[tuple[Beam, str, str]]:
    """(beam, scheme, outcome) from equal steps: where g has one sign, and in two cases where it changes."""
    t = np.linspace(0.0, 1.0, steps + 1)
    cases: list[tuple[Beam, WindowMap]] = [(UNIFORM, Interpolated()), (UNIFORM, Averaged()), (LOADED, Interpolated())]
    found = [solved(beam, with_time(beam.problem, scheme), t).outcome.name for beam, scheme in cases]
    return [(beam, scheme.name, outcome) for (beam, scheme), outcome in zip(cases, found, strict=True)]


def measure(fast: bool = False) -> list[FreeSteps]:
    return [measured(beam, n) for beam in (UNIFORM, TAPERED) for n in (STEPS[:1] if fast else STEPS)]


def draw(save: Save, results: list[FreeSteps]) -> None:
    """Steps against the prediction, energies, and the sign of g."""
    figure, axes = panels(1, 3, size=(11.0, 3.5))
    mesh, energy, sign = axes[0]
    finest = {r.beam.name: r for r in results}.values()
    for r, colour in zip(finest, (RED, GREEN), strict=False):
        n, middle = len(r.found) - 1, 0.5 * (r.found[1:] + r.found[:-1])
        mesh.plot(middle, n * np.diff(r.found), "o", color=colour, markersize=4, label=f"{r.beam.label}: found")
        mesh.plot(
            0.5 * (r.predicted[1:] + r.predicted[:-1]),
            n * np.diff(r.predicted),
            "-",
            color=colour,
            linewidth=1,
            label="$h^3 g$ constant",
        )
        energy.plot(r.found[2:-1], 1e3 * r.energy, ".-", color=colour, label=r.beam.label)
    mesh.set(xlabel="$t$", ylabel="$N h$", title="steps")
    energy.set(xlabel="$t$", ylabel="$10^3\\,E_i$", title="discrete energy, free steps")
    for beam, colour in ((UNIFORM, RED), (TAPERED, GREEN), (LOADED, BLUE)):
        for scheme, line in ((Interpolated(), "-"), (Averaged(), ":")):
            g = error_density(beam, scheme)
            sign.plot(GRID, g / np.max(np.abs(g)), line, color=colour, label=beam.label if line == "-" else None)
    sign.axhline(0.0, color=GREY, linewidth=0.8)
    sign.set(xlabel="$t$", title="$g$ / largest $|g|$; dotted: mean of three points")
    for panel in axes[0]:
        panel.legend(fontsize=8)
    save("free_steps", figure)
