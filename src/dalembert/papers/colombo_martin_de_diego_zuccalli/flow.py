"""Section 3, the flow Υ_d: a path of prescribed curvature, L = ½|q̈|² - ½|q̇|², v × a = κ|v|³, k = 2, m = 1.

With u = |v| the path is a part of a circle, and u solves ü = 2κ²u³ - u - c: the closed equation that the flow is compared
with. λ has an equation of its own and two initial values.
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert import measure as measured
from dalembert.papers.colombo_martin_de_diego_zuccalli.forms import BENT, CURVATURE
from dalembert.papers.convergence import fitted_slope
from dalembert.papers.drawing import BLUE, GREEN, RED, Save, panels
from dalembert.path import Path
from dalembert.solve import Nodes, solve
from dalembert.step import simulate
from dalembert.systems import Nonholonomic, VariationalProblem

TIME = 20.0
STEPS = (200, 400, 800)
SPEED = 1.3
CONSTANT = 2 * CURVATURE**2 - 1.0  # u = 1 is then an equilibrium
MULTIPLIERS = np.array([[0.5], [0.2]])  # λ(0), λ̇(0)
FINE = 16000


def speeds(steps: int = FINE, time: float = TIME) -> Float[np.ndarray, "N+1 5"]:
    """(x, y, θ, u, u̇) by the classical Runge-Kutta method: ẋ = u cos θ, ẏ = u sin θ, θ̇ = κu, ü = 2κ²u³ - u - c."""

    def field(y):
        return np.array([y[3] * np.cos(y[2]), y[3] * np.sin(y[2]), CURVATURE * y[3], y[4], _force(y[3])])

    h, y = time / steps, np.array([0.0, 0.0, 0.0, SPEED, 0.0])
    rows = [y]
    for _ in range(steps):
        a = field(y)
        b = field(y + 0.5 * h * a)
        c = field(y + 0.5 * h * b)
        y = y + h / 6 * (a + 2 * b + 2 * c + field(y + h * c))
        rows.append(y)
    return np.array(rows)


def _force(u: float) -> float:
    return 2 * CURVATURE**2 * u**3 - u - CONSTANT


def jets() -> Float[np.ndarray, "4 2"]:
    """q, q̇, q̈, q⃛ at t = 0, where u̇ = 0: q̇ = u e, q̈ = κu² n, q⃛ = (ü - κ²u³) e, e and n the first and the second axis."""
    u = SPEED
    return np.array([[0, 0], [u, 0], [0, CURVATURE * u**2], [_force(u) - CURVATURE**2 * u**3, 0]], dtype=float)


def run(steps: int) -> Path:
    return simulate(BENT, jets=jets(), multipliers=MULTIPLIERS, h=TIME / steps, steps=steps)


GENERATORS = {
    "x": lambda q: jnp.array([1.0, 0.0]),
    "y": lambda q: jnp.array([0.0, 1.0]),
    "rotation": lambda q: jnp.array([-q[1], q[0]]),
}


@dataclasses.dataclass(frozen=True)
class Flow:
    """Of the paths with `STEPS` steps: the finest one, errors of q, energies; momenta of the coarsest.

    symplectic: Υ_d*Ω - Ω over Ω on M̃_d × R^{km}, at four nodes. boundary: largest difference of the path and of the
    boundary problem between its nodes. rank, smallest: of the matrix of Proposition 3.2 along the path.
    """

    path: Path
    h: Float[np.ndarray, "steps"]
    error: Float[np.ndarray, "steps"]
    momenta: dict[str, np.ndarray]
    energies: list[tuple[np.ndarray, np.ndarray]]
    symplectic: float
    boundary: float
    rank: int
    smallest: float

    @property
    def order(self) -> float:
        return fitted_slope(self.h, self.error)

    @property
    def energy_order(self) -> float:
        return fitted_slope(self.h, [np.ptp(values) for _, values in self.energies])


def four_nodes(path: Path, at: int) -> tuple[np.ndarray, np.ndarray]:
    """q_at … q_{at+3} and the multipliers of their two windows; those of the first windows are data, no part of the path."""
    begin = len(path.q) - 2 - len(path.multipliers)
    return np.asarray(path.q)[begin + at : begin + at + 4], np.asarray(path.multipliers)[at : at + 2]


def between_its_nodes(path: Path, steps: int = 40) -> float:
    """Largest difference from `solve` between the first and the last two of some nodes, from a guess beside the path."""
    begin = len(path.q) - 2 - len(path.multipliers)
    q, h = np.asarray(path.q)[begin : begin + steps + 1], float(path.h)
    t = h * np.arange(steps + 1)
    bump = 0.01 * np.sin(np.pi * t / t[-1])[:, None] ** 4
    found = solve(
        BENT,
        initial=Nodes(q[:2]),
        final=Nodes(q[-2:]),
        T=float(t[-1]),
        steps=steps,
        guess=q + bump,
        seek="extremal",
        certify=False,
    )
    return float(np.max(np.abs(np.asarray(found.q) - q)))


def matrices(problem: VariationalProblem, path: Path) -> measured.Condition:
    """Of Proposition 3.2 along the path."""
    found = measured.regularity(problem, path)
    assert isinstance(found, measured.FlowRegularity)
    return found.matrix


def measure(fast: bool = False) -> Flow:
    steps = STEPS[:2] if fast else STEPS
    paths, exact = [run(n) for n in steps], speeds()
    error = [float(np.max(np.abs(p.q - exact[:: FINE // n, :2]))) for p, n in zip(paths, steps, strict=True)]
    last = paths[-1]
    momenta = {name: np.asarray(measured.momentum(BENT, paths[0], g).values) for name, g in GENERATORS.items()}
    energies = [measured.energy(BENT, p) for p in paths]
    nodes, free = four_nodes(paths[0], 20)
    defect = measured.symplectic_defect(BENT, nodes=nodes, multipliers=free, h=float(paths[0].h))
    regular = matrices(BENT, paths[0])
    return Flow(
        last, TIME / np.array(steps), np.array(error), momenta, [(np.asarray(e.t), np.asarray(e.values)) for e in energies],
        float(defect.relative), between_its_nodes(paths[0]), int(regular.ranks.min()), float(regular.smallest.min()),
    )  # fmt: skip


# Elastica: a constraint of lower order than L, for which Υ_d exists and is of no use.
ELASTICA = VariationalProblem(
    lambda q, v, a: 0.5 * a @ a, Nonholonomic(lambda q, v: 0.5 * (v @ v - 1.0)), derivatives=2, coordinates=("x", "y")
)
TENSION, TURN = np.array([1.0, 0.5]), 1.5  # p and θ̇(0); θ(0) = 0, θ̈ = -p·n


def alternating(steps: int = 40, h: float = 0.02) -> dict[str, float]:
    """Elastica, |v| = 1: λ of the first windows over the true one, and |λ| at the end over its largest true value."""
    e, n = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    start = np.stack([0 * e, e, TURN * n, -(TENSION @ n) * n - TURN**2 * e])
    true, rate = TENSION @ e - TURN**2, 3 * TURN * (TENSION @ n)
    path = simulate(ELASTICA, jets=start, multipliers=np.array([[true], [rate]]), h=h, steps=steps)
    found = np.asarray(path.multipliers)[:, 0]
    regular = matrices(ELASTICA, path)
    return {
        "first": float(found[0] / true),
        "second": float(found[1] / true),
        "growth": float(np.abs(found[-2:]).max() / np.abs(found[:2]).max()),
        "rank": float(regular.ranks.min()),
    }


def draw(save: Save, found: Flow) -> None:
    """Path, multiplier, momenta and energy."""
    figure, axes = panels(1, 3, size=(11.0, 3.4))
    path, momenta, energy = axes[0]
    q = np.asarray(found.path.q)
    path.plot(q[:, 0], q[:, 1], color=BLUE)
    path.plot(*q[:: len(q) // 50].T, ".", color=RED, markersize=5, label="equal times")
    path.set(xlabel="$x$", ylabel="$y$", aspect="equal", title=f"curvature {CURVATURE}")
    path.legend(fontsize=8.5)
    for (name, values), colour in zip(found.momenta.items(), (RED, BLUE, GREEN), strict=True):
        momenta.plot(found.energies[0][0], np.abs(values - values[0]) + 1e-17, color=colour, linewidth=0.9, label=name)
    momenta.set(xlabel="$t$", yscale="log", ylim=(1e-16, 1e-8), title=f"$|J_d - J_d(0)|$, $h = {found.h[0]:g}$")
    for (t, values), h, colour in zip(found.energies, found.h, (RED, BLUE, GREEN), strict=False):
        energy.plot(t, values - values[0], color=colour, linewidth=0.9, label=f"$h = {h:g}$")
    energy.set(xlabel="$t$", title="$E_i - E_0$")
    for panel in (momenta, energy):
        panel.legend(fontsize=8.5)
    save("flow", figure)
