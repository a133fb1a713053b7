"""System A, the particle with prescribed curvature k = 1 (Section 4.1): errors against the closed form.

The discrete solution is a polygon: sides of length s, turning by α at each node, where [6] reads
2 sin(α/2) / (s cos²(α/2)) = k. With s = h|v₀| and |v₀| = √2 the angle lags behind by (5/12)h² √2 t; the printed start
ignores the half turn α/2 of the first side, which turns the whole picture about the origin by h/√2. Hence, for k = 1,
error of x ≈ ½(1+√2) h + (5/12)√2 T h², as long as the lag is well below π, where the error saturates near 2.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float

from dalembert.gallery import curvature_particle
from dalembert.path import Path
from papers.convergence import METHODS, ONE_STEP, PRINTED, ErrorsByStep, Method

STEPS = (0.2, 0.1, 0.05, 0.02, 0.01, 0.005)
TIME, SHORT = 500.0, 5.0
ENTRY = curvature_particle.entry


@dataclasses.dataclass(frozen=True)
class Particle:
    """long, short: errors over [0, 500] and [0, 5], one ErrorsByStep per method. path: the run of figure 2.

    product, linear: curves with k = 1 + 0.3xy and with k = x.
    """

    long: list[ErrorsByStep]
    short: list[ErrorsByStep]
    path: Path
    product: Path
    linear: Path


def error_of_x(path: Path) -> Float[np.ndarray, "nodes"]:
    """|x_k - x(t_k)| at every node: the paper's figure 3 is of the x coordinate."""
    return np.abs(np.asarray(path.q)[:, 0] - np.asarray(curvature_particle.exact(path.t)[0])[:, 0])


def run(method: Method, h: float, time: float) -> Path:
    return method.simulate(ENTRY.system, ENTRY.q0, ENTRY.v0, h, time)


def convergence(method: Method, time: float, steps=STEPS) -> ErrorsByStep:
    errors = [error_of_x(run(method, h, time)).max() for h in steps]
    return ErrorsByStep(method, time, np.array(steps), np.array(errors))


def predicted_error(h: Float[np.ndarray, "steps"], time: float) -> Float[np.ndarray, "steps"]:
    """½(1+√2) h + (5/12)√2 T h²: the printed start, leading terms."""
    return 0.5 * (1 + np.sqrt(2)) * h + 5 / 12 * np.sqrt(2) * time * h**2


def speed_defect(path: Path) -> float:
    """Largest relative change of |q_{k+1} - q_k|: equation [7] says that it is conserved."""
    sides = np.linalg.norm(np.diff(np.asarray(path.q), axis=0), axis=1)
    return float(np.ptp(sides) / sides[0])


def product_curvature(q, p):
    return 1.0 + 0.3 * q[0] * q[1]


def linear_curvature(q, p):
    return q[0]


def measure(fast: bool = False) -> Particle:
    """fast: without the start on the solution, which compiles for seconds."""
    methods = (PRINTED, ONE_STEP) if fast else METHODS
    curve = {"h": 0.01, "time": 40.0}
    product = curvature_particle.curvature_particle(product_curvature)
    linear = curvature_particle.curvature_particle(linear_curvature)
    return Particle(
        long=[convergence(method, TIME) for method in methods],
        short=[convergence(method, SHORT) for method in methods],
        path=run(PRINTED, 0.1, TIME),
        product=ONE_STEP.simulate(product, (0.0, 0.0), (1.0, 1.0), **curve),
        linear=ONE_STEP.simulate(linear, (0.0, 0.0), (np.cos(1.0), -np.sin(1.0)), **curve),
    )
