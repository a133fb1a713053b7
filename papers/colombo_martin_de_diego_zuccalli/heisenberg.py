"""Section 1.2, (1.3) to (1.5), k = 1: the Heisenberg system by the vakonomic principle and by d'Alembert's."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float

from dalembert.boundary import solve
from dalembert.gallery.heisenberg import heisenberg
from dalembert.path import Path
from dalembert.solution import Solution
from dalembert.step import simulate
from papers.convergence import fitted_slope
from papers.drawing import BLUE, RED, Save, panels, step_ticks

HEIGHT, TIME = 1.0, 2.0
STEPS = (8, 16, 32, 64)
END = np.array([0.6, 0.3, 0.7])  # generic, reached by an arc


VAKONOMIC, D_ALEMBERT = heisenberg("vakonomic"), heisenberg("dalembert")


def circle(t: Float[np.ndarray, "N+1"], height: float = HEIGHT, time: float = TIME) -> Float[np.ndarray, "N+1 3"]:
    """The clockwise circle of area height/2 through the origin, its start to the right: from 0 to (0, 0, height)."""
    r, angle = np.sqrt(height / (2 * np.pi)), 2 * np.pi * np.asarray(t) / time
    z = height * (angle - np.sin(angle)) / (2 * np.pi)
    return np.stack([r * np.sin(angle), r * (np.cos(angle) - 1), z], axis=1)


def least_action(height: float = HEIGHT, time: float = TIME) -> float:
    """π|a|/T."""
    return float(np.pi * abs(height) / time)


def discrete_action(steps: int, height: float = HEIGHT, time: float = TIME) -> float:
    """N tan(π/N) |a|/T: the discrete constraint is the area of a polygon, and the regular one of N sides is the shortest."""
    return float(steps * np.tan(np.pi / steps) * abs(height) / time)


def arc(t: Float[np.ndarray, "N+1"], end: Float[np.ndarray, "3"] = END, time: float = TIME) -> Float[np.ndarray, "N+1 3"]:
    """The arc of a circle from 0 to the end: x + iy = c (e^{iωt} - 1) with z/|c|² = sin ωT - ωT, |x + iy| = 2|c| |sin ωT/2|.

    One turn at most, clockwise for z > 0: ω < 0.
    """
    goal = end[2] / (end[0] ** 2 + end[1] ** 2)
    ratio = lambda w: (w - np.sin(w)) / (4 * np.sin(w / 2) ** 2)  # noqa: E731
    low, high = 1e-6, 2 * np.pi - 1e-6
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if ratio(middle) < goal else (low, middle)
    w = -low / time
    c = complex(end[0], end[1]) / (np.exp(1j * w * time) - 1)
    path = c * (np.exp(1j * w * np.asarray(t)) - 1)
    z = abs(c) ** 2 * (np.sin(w * np.asarray(t)) - w * np.asarray(t))
    return np.stack([path.real, path.imag, z], axis=1)


def vakonomic(end, steps: int, guess=None) -> Solution:
    return solve(VAKONOMIC, initial=(np.zeros(3),), final=(end,), T=TIME, steps=steps, guess=guess)


def straight(steps: int, direction=(1.0, 0.5)) -> Path:
    """d'Alembert's motion from the origin: the reaction λ(-y, x, 1) has no z component, as p_z = 0, so that λ = 0."""
    return simulate(D_ALEMBERT, np.zeros(3), np.array([*direction, 0.0]), h=TIME / steps, steps=steps)


@dataclasses.dataclass(frozen=True)
class Heisenberg:
    """actions: found for the circle; polygon: largest |action - N tan(π/N) a/T| relative; roundness: of the polygon's sides.

    error, multiplier_error: of the arc's nodes, and of its constant λ. arc: the finest.
    """

    circle: Solution
    arc: Solution
    line: Path
    steps: tuple[int, ...]
    actions: Float[np.ndarray, "steps"]
    polygon: float
    error: Float[np.ndarray, "steps"]
    order: float
    d_alembert_height: float


def measure(fast: bool = False) -> Heisenberg:
    steps = STEPS[:3] if fast else STEPS
    circles = [vakonomic([0.0, 0.0, HEIGHT], n, circle(np.linspace(0.0, TIME, n + 1))) for n in steps]
    arcs = [vakonomic(END, n, arc(np.linspace(0.0, TIME, n + 1))) for n in steps]
    actions = np.array([float(s.action) for s in circles])
    error = np.array([np.max(np.abs(s.q - arc(np.asarray(s.t)))) for s in arcs])
    polygon = max(abs(a / discrete_action(n) - 1) for a, n in zip(actions, steps, strict=True))
    line = straight(steps[-1])
    off = np.asarray(line.q)[:, 1] - 0.5 * np.asarray(line.q)[:, 0]
    return Heisenberg(
        circles[-1], arcs[-1], line, steps, actions, float(polygon), error, fitted_slope(TIME / np.array(steps), error),
        float(max(np.max(np.abs(off)), np.max(np.abs(np.asarray(line.q)[:, 2])))),
    )  # fmt: skip


def draw(save: Save, found: Heisenberg) -> None:
    """Paths in the plane, and errors."""
    figure, axes = panels(1, 2, size=(9.0, 3.8))
    plane, errors = axes[0]
    q, a, line = (np.asarray(x.q) for x in (found.circle, found.arc, found.line))
    plane.plot(q[:, 0], q[:, 1], ".-", color=RED, markersize=4, label=f"vakonomic, to (0, 0, {HEIGHT:g})")
    plane.plot(
        a[:, 0], a[:, 1], ".-", color="#b8860b", markersize=4, label=f"vakonomic, to ({END[0]:g}, {END[1]:g}, {END[2]:g})"
    )
    plane.plot(line[:, 0], line[:, 1], color=BLUE, label="d'Alembert: $z$ stays 0")
    plane.set(xlabel="$x$", ylabel="$y$", aspect="equal")
    plane.legend(fontsize=8.5)
    h = TIME / np.array(found.steps)
    excess = found.actions / least_action() - 1
    errors.plot(h, excess, "o-", color=RED, markersize=5, label="action of the circle, relative")
    errors.plot(h, found.error, "s-", color="#b8860b", markersize=5, label=f"$q$ of the arc: order {found.order:.2f}")
    errors.set(xscale="log", yscale="log", xlabel="$h$", title="errors")
    step_ticks(errors, h)
    errors.legend(fontsize=8.5)
    save("heisenberg", figure)
