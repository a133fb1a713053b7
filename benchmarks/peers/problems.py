"""The four problems: system, initial data, interval, formulas, and what turns an ODE's state into positions."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from benchmarks.peers import formulas

import dalembert as da
from dalembert.gallery import ENTRIES, curvature_particle
from dalembert.gallery.chain import chain, slanted
from dalembert.gallery.nonholonomic_particle import nonholonomic_particle

SAMPLES = 100


@dataclasses.dataclass(frozen=True)
class Problem:
    """y0: state of the ODE (n_y,); x0: differential part of the DAE, z0 follows from it.

    positions: from y (samples, n_y) to q (samples, n). c: file in benchmarks/c and {label: function}; c_parameters: what
    these functions are given. steps: numbers of steps of the fixed step methods. exact: positions in closed form, if there
    is one.
    """

    name: str
    title: str
    system: da.System
    q0: np.ndarray
    v0: np.ndarray
    time: float
    formulas: Any
    y0: np.ndarray
    x0: np.ndarray
    multipliers: int
    positions: Callable[[np.ndarray], np.ndarray]
    steps: tuple[int, ...]
    c: tuple[str, dict[str, str]] | None = None
    exact: Callable | None = None
    c_parameters: tuple[float, ...] = (1.0, 1.0)

    @property
    def times(self) -> np.ndarray:
        return np.linspace(0.0, self.time, SAMPLES + 1)

    @property
    def z0(self) -> np.ndarray:
        """The algebraic unknowns: every constraint here is affine in them."""
        at = lambda z: np.array(self.formulas.acceleration(list(self.x0), list(z), math))  # noqa: E731
        left = at(np.zeros(self.multipliers))
        matrix = np.stack([at(column) - left for column in np.eye(self.multipliers)], axis=1)
        return np.linalg.solve(matrix, -left)


def hanging_angles(y: np.ndarray) -> np.ndarray:
    angle = y[:, : formulas.RODS]
    steps = np.stack([np.sin(angle), -np.cos(angle)], axis=-1)
    return np.cumsum(steps, axis=1).reshape(len(y), -1)


def step_counts(first: int, last: int, per_decade: int = 3) -> tuple[int, ...]:
    """Multiples of the number of samples, evenly on a logarithmic scale."""
    count = round(per_decade * math.log10(last / first)) + 1
    return tuple(SAMPLES * round(x / SAMPLES) for x in np.geomspace(first, last, count))


def problems() -> list[Problem]:
    wheel, q8 = ENTRIES["inertia_wheel_pendulum"], slanted(formulas.RODS)
    j, i = formulas.Wheel.WHEEL, formulas.Wheel.INERTIA
    momenta = [wheel.v0[0] * (i + j) + j * wheel.v0[1], j * (wheel.v0[0] + wheel.v0[1])]
    angles = np.linspace(0.3, 1.2, formulas.RODS)
    rest = np.zeros(formulas.RODS)
    w0 = np.array([*wheel.q0, *momenta])
    return [
        Problem(
            "curvature", "Curvature particle", curvature_particle.entry.system, np.zeros(2), np.ones(2), 100.0,
            formulas.Curvature, np.array([0.0, 0, 1, 1]), np.array([0.0, 0, 1, 1]), 1, lambda y: y[:, :2],
            step_counts(1000, 10_000_000), ("curvature.c", {"dense": "curvature"}), lambda t: curvature_particle.exact(t)[0],
        ),
        Problem(
            "nonholonomic", "Nonholonomic particle in a harmonic potential", nonholonomic_particle(c=1.0),
            np.array([1.0, 0, 0]), np.array([0.5, 1, 0]), 100.0, formulas.Nonholonomic, np.array([1.0, 0, 0, 0.5, 1]),
            np.array([1.0, 0, 0, 0.5, 1, 0]), 1, lambda y: y[:, :3], step_counts(1000, 10_000_000),
            ("nonholonomic.c", {"dense": "nonholonomic"}),
        ),
        Problem(
            "chain", "Chain of four rods", chain(formulas.RODS), q8, np.zeros(8), 10.0, formulas.Chain,
            np.concatenate([angles, rest]), np.concatenate([q8, np.zeros(8)]), formulas.RODS, hanging_angles,
            step_counts(400, 4_000_000), ("chain.c", {"dense": "chain8", "reduced by hand": "rattle8"}),
            c_parameters=(9.81, 1.0),
        ),
        Problem(
            "wheel", "Inertia wheel pendulum", wheel.system, np.array(wheel.q0), np.array(wheel.v0), 100.0,
            formulas.Wheel, w0, w0, 1, lambda y: y[:, :2], step_counts(1000, 10_000_000),
        ),
    ]  # fmt: skip
