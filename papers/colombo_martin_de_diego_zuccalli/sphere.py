"""Section 4.4: interpolation on the unit sphere, as printed in R³ and with the covariant acceleration of section 2.2."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
from jaxtyping import Float

from dalembert.boundary import Nodes, solve
from dalembert.boundary import spline as library_spline
from dalembert.discretize import Points
from dalembert.solution import Solution
from dalembert.systems import Holonomic, VariationalProblem
from dalembert.systems.manifolds import sphere
from papers.drawing import BLUE, RED, Save

# Longitude and latitude of q(0), of three points between and of q(1): at unequal distances, from rest to rest.
ANGLES = np.array([[0.0, 0.0], [0.2, 0.5], [2.2, 0.9], [2.6, -0.7], [4.8, 0.1]])
STEPS = (40, 80, 160, 320)


def on_sphere(angles: Float[np.ndarray, "... 2"]) -> Float[np.ndarray, "... 3"]:
    longitude, latitude = angles[..., 0], angles[..., 1]
    return np.stack([np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude)], axis=-1)


def ambient(q0, q1, q2, p):
    """(4.4): L_d = (h/2) |(q₂ - 2q₁ + q₀)/h²|²."""
    second = (q2 - 2 * q1 + q0) / p["h"] ** 2
    return 0.5 * p["h"] * second @ second


def covariant(q0, q1, q2, p):
    """(2.2) on the sphere: L_d = (h/2) |a - (a·q₁) q₁|², a the second difference; D q̇/dt is the tangential part of q̈."""
    second = (q2 - 2 * q1 + q0) / p["h"] ** 2
    return 0.5 * p["h"] * (second @ second - (second @ q1) ** 2)


PROBLEMS = {
    lagrangian: VariationalProblem(lagrangian, Holonomic(lambda q, p: q @ q - 1.0), derivatives=2, parameters={"h": 0.1})
    for lagrangian in (ambient, covariant)
}


def spline(lagrangian, steps: int, between: tuple[int, ...] = (1, 2, 3), guess: Solution | None = None) -> Solution:
    """The minimum over paths on the sphere through the points of these numbers, with q₁ = q₀ and q_{N-1} = q_N, at rest."""
    points = on_sphere(ANGLES)
    first, last = np.stack([points[0]] * 2), np.stack([points[-1]] * 2)
    through = {i / (len(points) - 1): points[i] for i in between}
    problem, given = PROBLEMS[lagrangian].replace(h=1.0 / steps), (Nodes(first), Nodes(last))
    return solve(
        problem, initial=given[0], final=given[1], through=through, T=1.0, steps=steps, scheme=Points(), guess=guess
    )


def splines(lagrangian, steps: tuple[int, ...]) -> list[Solution]:
    """Each from the one before."""
    found = [spline(lagrangian, steps[0])]
    for n in steps[1:]:
        found.append(spline(lagrangian, n, guess=found[-1]))
    return found


def with_velocities(steps: int) -> Solution:
    """The spline of 4.4 with q̇ = 0 at both ends, whose windows have coinciding knots; the rest as printed."""
    points = on_sphere(ANGLES)
    through = dict(zip(np.linspace(0, 1, len(points)).tolist(), points, strict=True))
    return library_spline(sphere(), through, initial=(np.zeros(3),), final=(np.zeros(3),), steps=steps, ambient=True)


def printed_multipliers(q: Float[np.ndarray, "N+1 3"], h: float) -> Float[np.ndarray, "N-3"]:
    """λ_k = -(q_{k+2}·q_k - 4q_{k+1}·q_k + q_{k-2}·q_k - 4q_{k-1}·q_k + 6r²)/(2r²h³), k = 2 … N-2, r = 1."""
    dots = [np.sum(x * q[2:-2], axis=1) for x in (q[4:], q[3:-1], q[1:-3], q[:-4])]
    return -(dots[0] - 4 * dots[1] - 4 * dots[2] + dots[3] + 6.0) / (2 * h**3)


def printed_residual(q: Float[np.ndarray, "N+1 3"], h: float) -> Float[np.ndarray, "N-3 3"]:
    """The last display of section 4.4, with its factor 1/h³ left out, at k = 2 … N-2."""
    return np.diff(q, 4, axis=0) + 2 * h**3 * printed_multipliers(q, h)[:, None] * q[2:-2]


def printed_equations(steps: int, given: tuple[int, ...]) -> dict[str, int]:
    """Unknown numbers, and equations with an unknown, of the printed system: node equations and Φ(q_{k+2}) = 0, k ∉ I."""
    free = [k for k in range(2, steps - 1) if k not in given]
    constraints = [k + 2 for k in free if k + 2 in free]
    return {
        "unknowns": 4 * len(free),
        "equations": 3 * len(free) + len(constraints),
        "nodes without": len(free) - len(constraints),
    }


@dataclasses.dataclass(frozen=True)
class Splines:
    """ambient, covariant: the finest splines. formula: largest difference of λ and the printed formula, over the largest λ;
    residual: of the printed equations. by_nodes, by_velocities: changes of the ambient spline when the steps are halved.
    """

    ambient: Solution
    covariant: Solution
    formula: float
    residual: float
    by_nodes: list[float]
    by_velocities: list[float]

    @property
    def distance(self) -> float:
        return float(np.max(np.linalg.norm(self.ambient.q - self.covariant.q, axis=1)))


def order(changes: list[float]) -> float:
    """log₂ of the ratio of the last two changes."""
    return float(np.log2(changes[-2] / changes[-1]))


def integrals(q: Float[np.ndarray, "N+1 3"]) -> tuple[float, float]:
    h = 1.0 / (len(q) - 1)
    second = np.diff(q, 2, axis=0) / h**2
    tangential = second - np.sum(second * q[1:-1], axis=1)[:, None] * q[1:-1]
    return float(0.5 * h * np.sum(second**2)), float(0.5 * h * np.sum(tangential**2))


def changes(ladder: list[Solution]) -> list[float]:
    return [float(np.max(np.abs(coarse.q - fine.q[::2]))) for coarse, fine in itertools.pairwise(ladder)]


def formula_error(solution: Solution) -> tuple[float, float]:
    """(largest |λ_k - printed| over the largest λ, largest left side of the printed equations) at k ∉ I."""
    steps = len(solution.t) - 1
    given = [round(steps * i / (len(ANGLES) - 1)) for i in range(1, len(ANGLES) - 1)]
    free = np.array([k for k in range(2, steps - 1) if k not in given])
    q, h = np.asarray(solution.q), 1.0 / steps
    formula = printed_multipliers(q, h)[free - 2]
    found = np.asarray(solution.holonomic_multipliers)[free, 0]
    difference = float(np.max(np.abs(found - formula)) / np.max(np.abs(formula)))
    return difference, float(np.max(np.abs(printed_residual(q, h)[free - 2])))


def measure(fast: bool = False) -> Splines:
    steps = STEPS[:3] if fast else STEPS
    ladder, other = splines(ambient, steps), splines(covariant, steps)[-1]
    smooth = changes([with_velocities(n) for n in steps])
    return Splines(ladder[-1], other, *formula_error(ladder[0]), changes(ladder), smooth)


def draw(save: Save, found: Splines) -> None:
    """Both splines on the sphere, and the lengths of both accelerations."""
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(9.5, 4.2))
    globe, sizes = figure.add_subplot(1, 2, 1, projection="3d"), figure.add_subplot(1, 2, 2)
    u, v = np.meshgrid(np.linspace(0, 2 * np.pi, 25), np.linspace(-np.pi / 2, np.pi / 2, 13))
    globe.plot_wireframe(*np.moveaxis(on_sphere(np.stack([u, v], axis=-1)), -1, 0), color="#dfe3e8", linewidth=0.5)
    points = on_sphere(ANGLES)
    for solution, colour, label in (
        (found.ambient, RED, "as printed, $|\\ddot q|^2$"),
        (found.covariant, BLUE, "covariant, $|D\\dot q/dt|^2$"),
    ):
        q = np.asarray(solution.q)
        globe.plot(*q.T, color=colour, label=label)
        second = np.diff(q, 2, axis=0) * (len(q) - 1) ** 2
        tangential = second - np.sum(second * q[1:-1], axis=1)[:, None] * q[1:-1]
        t = np.asarray(solution.t)[1:-1]
        sizes.plot(t, np.linalg.norm(tangential, axis=1), color=colour, label=label)
    globe.plot(*points.T, "o", color="k", markersize=4)
    globe.set_box_aspect((1, 1, 1), zoom=1.5)  # pyright: ignore[reportArgumentType]
    globe.set_axis_off()
    globe.view_init(elev=15, azim=100)
    sizes.set(xlabel="$t$", ylabel="$|D\\dot q/dt|$")
    sizes.legend(fontsize=8.5)
    save("sphere", figure)
