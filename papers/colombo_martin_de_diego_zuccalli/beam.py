"""Example 4.1 with fixed steps: a clamped beam, L = ½ μ(t) q̈² + ρ(t) q, and the orders of three discretizations."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert.boundary import solve
from dalembert.discretize import Averaged, Hermite, Interpolated, WindowMap
from dalembert.systems import VariationalProblem
from papers.convergence import fitted_slope
from papers.drawing import BLUE, GREEN, RED, Save, panels, step_ticks

CLAMPED = ([0.0], [0.0])  # (q, q̇)
STEPS = (10, 20, 40, 80, 160)
FLOOR = 1e-14  # q is of the size 1e-3: errors below this are rounding
SCHEMES: tuple[WindowMap, ...] = (Averaged(), Interpolated(), Hermite())
LABELS = {
    "averaged": "mean of three points (the paper's)",
    "interpolated": "parabola through three points",
    "hermite": "cubics",
}
COLOURS = {"averaged": RED, "interpolated": BLUE, "hermite": GREEN}
MARKERS = {"averaged": "o", "interpolated": "s", "hermite": "^"}
PLACES, WEIGHTS = np.polynomial.legendre.leggauss(40)


@dataclasses.dataclass(frozen=True)
class Beam:
    """(μ q̈)¨ + ρ = 0 on [0, 1], q = q̇ = 0 at both ends. moment: a function M with M¨ = -ρ, so that μ q̈ = M + A + B t."""

    name: str
    label: str  # for figures
    mu: Callable
    rho: Callable
    moment: Callable

    @property
    def problem(self) -> VariationalProblem:
        def lagrangian(q, v, a, t):
            return 0.5 * self.mu(t) * a[0] ** 2 + self.rho(t) * q[0]

        return VariationalProblem(lagrangian, derivatives=2, coordinates=("q",), time_dependent=True)

    def exact(self, t) -> tuple[Float[np.ndarray, "N"], Float[np.ndarray, "N"], Float[np.ndarray, "N"]]:
        """(q, q̇, q̈): q(t) = ∫₀ᵗ (t-s) q̈(s) ds by 40 Gauss points, A and B from q(1) = q̇(1) = 0."""
        t = np.atleast_1d(np.asarray(t, dtype=float))
        parts = (self.moment, np.ones_like, lambda s: s)
        q, v = (np.array([self._integral(f, t, power) for f in parts]) for power in (1, 0))
        end = np.array([[self._integral(f, np.ones(1), power)[0] for f in parts] for power in (1, 0)])
        factors = np.array([1.0, *np.linalg.solve(end[:, 1:], -end[:, 0])])
        a = np.array([f(t) for f in parts]) / np.asarray(self.mu(t))
        return factors @ q, factors @ v, factors @ a

    def _integral(self, f: Callable, t: np.ndarray, power: int) -> np.ndarray:
        """∫₀ᵗ (t-s)^power f(s)/μ(s) ds."""
        s = 0.5 * t[:, None] * (1 + PLACES)
        return np.sum(0.5 * t[:, None] * WEIGHTS * (t[:, None] - s) ** power * f(s) / np.asarray(self.mu(s)), axis=1)


UNIFORM = Beam("uniform", "$\\mu = \\rho = 1$", lambda t: 1.0 + 0.0 * t, lambda t: 1.0 + 0.0 * t, lambda s: -0.5 * s**2)
TAPERED = Beam("tapered", "$\\mu = 1+t,\\ \\rho = 1$", lambda t: 1.0 + t, lambda t: 1.0 + 0.0 * t, lambda s: -0.5 * s**2)
LOADED = Beam(
    "loaded",
    "$\\mu = 1+t,\\ \\rho = \\cos 3t$",
    lambda t: 1.0 + t,
    lambda t: jnp.cos(3.0 * t),
    lambda s: np.cos(3.0 * s) / 9,
)


def closed_form(t) -> Float[np.ndarray, "N"]:
    """q = -ρ t²(1-t)²/(24 μ) for μ = ρ = 1."""
    return -(np.asarray(t) ** 2) * (1 - np.asarray(t)) ** 2 / 24


@dataclasses.dataclass(frozen=True)
class Orders:
    """Largest errors of q at the nodes for N steps."""

    beam: Beam
    scheme: WindowMap
    steps: tuple[int, ...]
    error: Float[np.ndarray, "steps"]

    @property
    def order(self) -> float:
        """Slope above rounding; NaN where fewer than three errors are."""
        above = self.error > FLOOR
        return fitted_slope(1 / np.array(self.steps)[above], self.error[above]) if above.sum() > 2 else float("nan")


def measured(beam: Beam, scheme: WindowMap, steps: tuple[int, ...] = STEPS) -> Orders:
    problem = beam.problem  # one object: the functions of all N are compiled once
    errors = []
    for n in steps:
        q = solve(problem, initial=CLAMPED, final=CLAMPED, T=1.0, steps=n, scheme=scheme).q[:, 0]
        errors.append(np.max(np.abs(q - beam.exact(np.linspace(0.0, 1.0, n + 1))[0])))
    return Orders(beam, scheme, steps, np.array(errors))


def measure(fast: bool = False) -> list[Orders]:
    beams, steps = ((LOADED,), STEPS[:3]) if fast else ((UNIFORM, LOADED), STEPS)
    return [measured(beam, scheme, steps) for beam in beams for scheme in SCHEMES]


def draw(save: Save, results: list[Orders]) -> None:
    """The shape of the loaded beam, and its errors."""
    figure, axes = panels(1, 2, size=(9.0, 3.6))
    shape, errors = axes[0]
    t = np.linspace(0.0, 1.0, 201)
    for beam, colour in ((UNIFORM, RED), (TAPERED, GREEN), (LOADED, BLUE)):
        shape.plot(t, 1e3 * beam.exact(t)[0], color=colour, label=beam.label)
    shape.set(xlabel="$t$", ylabel="$10^3\\,q$", title="clamped beams")
    shape.legend(fontsize=8.5)
    for result in (r for r in results if r.beam is LOADED):
        name, h = result.scheme.name, 1 / np.array(result.steps)
        label = f"{LABELS[name]}: {result.order:.2f}"
        errors.plot(h, result.error, MARKERS[name] + "-", color=COLOURS[name], label=label, markersize=5)
    errors.set(
        xscale="log", yscale="log", xlabel="$h$", ylabel="largest error of $q$", title=f"{LOADED.label}: errors and orders"
    )
    step_ticks(errors, 1 / np.array(results[-1].steps))
    errors.set_ylim(top=1e-1)
    errors.legend(fontsize=8.5, loc="upper left")
    save("beam", figure)
