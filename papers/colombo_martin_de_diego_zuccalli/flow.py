"""Section 3, the flow Υ_d: a path of prescribed curvature, L = ½|q̈|² - ½|q̇|², v × a = κ|v|³, k = 2, m = 1.

With u = |v| the path is a part of a circle, and u solves ü = 2κ²u³ - u - c: the closed equation that the flow is compared
with. λ has an equation of its own and two initial values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert import measure as measured
from dalembert.boundary import Nodes, solve
from dalembert.discretize import Points
from dalembert.options import Start
from dalembert.path import Path
from dalembert.step import simulate
from dalembert.systems import VariationalProblem
from papers.colombo_martin_de_diego_zuccalli.forms import BENT, CURVATURE
from papers.convergence import fitted_slope
from papers.drawing import BLUE, GREEN, RED, Save, panels

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

    return runge_kutta(field, np.array([0.0, 0.0, 0.0, SPEED, 0.0]), time / steps, steps)


def runge_kutta(field: Callable, y: Float[np.ndarray, "s"], h: float, steps: int) -> Float[np.ndarray, "N+1 s"]:
    """ẏ = field(y) by the classical method."""
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
    return simulate(BENT, start=Start(jets=jets(), multipliers=MULTIPLIERS), h=TIME / steps, steps=steps)


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
    bump = 0.02 * np.sin(np.pi * t / t[-1])[:, None] ** 4
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


# Elastica on the paper's windows: the constraint on velocities is a function of all k+1 nodes, and Υ_d is of no use.
TENSION, TURN = np.array([1.0, 0.5]), 1.5  # p and θ̇(0); θ(0) = 0, θ̈ = -p·n


def elastica(h: float) -> VariationalProblem:
    """L_d and Φ_d of ½|q̈|² and ½(|q̇|² - 1) on three nodes."""

    def action(x, y, z):
        return 0.5 * jnp.sum((z - 2 * y + x) ** 2) / h**3

    def speed(x, y, z):
        return 0.5 * h * (jnp.sum(((z - x) / (2 * h)) ** 2) - 1.0)

    return VariationalProblem(action, speed, derivatives=2, coordinates=("x", "y"))


def bent(h: float) -> Float[np.ndarray, "5 4"]:
    """(x, y, θ, θ̇) of the rod at the first five nodes."""

    def field(y):
        c, s = np.cos(y[2]), np.sin(y[2])
        return np.array([c, s, y[3], TENSION @ [s, -c]])

    return runge_kutta(field, np.array([0.0, 0.0, 0.0, TURN]), h / 50, 200)[::50]


def alternating(steps: int = 40, h: float = 0.02) -> dict[str, float]:
    """Elastica, |v| = 1: λ of the windows after the given ones over the true one, and how much |λ| grows."""
    state, problem = bent(h), elastica(h)
    q = state[:4, :2].copy()
    for i in (2, 3):  # onto Φ_d = 0
        chord = q[i] - q[i - 2]
        q[i] = q[i - 2] + 2 * h * chord / np.linalg.norm(chord)
    true = TENSION @ np.array([np.cos(state[:, 2]), np.sin(state[:, 2])]) - state[:, 3] ** 2
    path = simulate(problem, start=Start(nodes=q, multipliers=true[1:3, None]), h=h, steps=steps + 2, scheme=Points())
    found = np.asarray(path.multipliers)[:, 0]
    regular = measured.regularity(problem, path, scheme=Points())
    assert isinstance(regular, measured.FlowRegularity)
    return {
        "first": float(found[0] / true[3]),
        "second": float(found[1] / true[4]),
        "growth": float(np.abs(found[-2:]).max() / np.abs(found[:2]).max()),
        "rank": float(regular.matrix.ranks.min()),
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
