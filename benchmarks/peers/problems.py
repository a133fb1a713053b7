"""The problems: system, initial data, interval, formulas, and what turns an ODE's state into positions."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from benchmarks.peers import formulas
from benchmarks.peers.rolling import Car, Contact

import dalembert as da
from dalembert import Nonholonomic, System
from dalembert.gallery import (
    ENTRIES,
    car_with_trailers,
    chain,
    contact_oscillator,
    curvature_particle,
    nonholonomic_particle,
)

SAMPLES = 100
ROLLING_ERRORS = (1e-3, 1e-5, 1e-7, 1e-9, 1e-10, 1e-11)


@dataclasses.dataclass(frozen=True)
class Problem:
    """y0: state of the ODE (n_y,); x0: differential part of the DAE, z0 follows from it.

    positions: from y (samples, n_y) to q (samples, n). c: file in benchmarks/c and {label: function}; c_parameters: what
    these functions are given. steps: numbers of steps of the fixed step methods. exact: positions in closed form, if there
    is one. orders: of the library's schemes. errors: for which the table gives times.

    constraint, φ(q, v), says that only the end is looked at, and there (q, v): positions and exact are then (1, 2n). Such a
    problem has a second equation for the other packages, formulas.full for (q, v) instead of y.
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
    orders: tuple[int, ...] = (2,)
    errors: tuple[float, ...] = (1e-2, 1e-4, 1e-6, 1e-8)
    constraint: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None

    @property
    def samples(self) -> int:
        return SAMPLES if self.constraint is None else 1

    def drift(self, rows: np.ndarray) -> float:
        """The largest component of the constraint in rows of (q, v)."""
        if self.constraint is None:
            return np.nan
        n = len(self.q0)
        return max(float(np.max(np.abs(self.constraint(row[:n], row[n:])))) for row in rows)

    @property
    def times(self) -> np.ndarray:
        return np.linspace(0.0, self.time, self.samples + 1)

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
    wheel, q8 = ENTRIES["inertia_wheel_pendulum"], chain.slanted(formulas.RODS)
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
            "nonholonomic", "Nonholonomic particle in a harmonic potential",
            nonholonomic_particle.nonholonomic_particle(c=1.0), np.array([1.0, 0, 0]),
            np.array([0.5, 1, 0]), 100.0, formulas.Nonholonomic, np.array([1.0, 0, 0, 0.5, 1]),
            np.array([1.0, 0, 0, 0.5, 1, 0]), 1, lambda y: y[:, :3], step_counts(1000, 10_000_000),
            ("nonholonomic.c", {"dense": "nonholonomic"}),
        ),
        Problem(
            "chain", "Chain of four rods", chain.chain(formulas.RODS), q8, np.zeros(8), 10.0, formulas.Chain,
            np.concatenate([angles, rest]), np.concatenate([q8, np.zeros(8)]), formulas.RODS, hanging_angles,
            step_counts(400, 4_000_000), ("chain.c", {"dense": "chain8", "reduced by hand": "rattle8"}),
            c_parameters=(9.81, 1.0),
        ),
        Problem(
            "wheel", "Inertia wheel pendulum", wheel.system, np.array(wheel.q0), np.array(wheel.v0), 100.0,
            formulas.Wheel, w0, w0, 1, lambda y: y[:, :2], step_counts(1000, 10_000_000),
        ),
        rolling("contact", "Contact oscillator", contact(), 1000.0, Contact, 1,
                lambda q0, v0: np.array([q0[1], v0[1], q0[0], q0[2], v0[2]]),
                lambda t: np.concatenate(contact_oscillator.exact(t), axis=-1),
                ("contact_composition.c", {"order 8, as written": "plain", "order 8, quotient first": "ordered",
                                           "order 8, reduced by hand": "reduced"})),
        rolling("car", "Car with two trailers", car_with_trailers.entry, 30.0, Car, Car.WHEELS, Car.start),
    ]  # fmt: skip


def contact():
    """The gallery's contact oscillator without the term of ε = 0, which nobody's formulas here have either."""
    system = System(lambda q, v: 0.5 * (v @ v) - 0.5 * (q @ q), Nonholonomic(lambda q, v: v[0] + q[1] * v[2]))
    return dataclasses.replace(contact_oscillator.entry, system=system)


def rolling(
    name: str, title: str, entry, time: float, equations, multipliers: int, start: Callable, exact=None, c=None
) -> Problem:
    """A problem with all orders, of which the state at the end is compared, with its constraint."""
    q0, v0 = np.array(entry.q0), np.array(entry.v0)
    return Problem(
        name, title, entry.system, q0, v0, time, equations, start(q0, v0), np.concatenate([q0, v0]), multipliers,
        equations.state, step_counts(1000, 10_000_000, 6), c=c, exact=exact, orders=(2, 4, 6, 8, 10), errors=ROLLING_ERRORS,
        constraint=lambda q, v: np.array(equations.velocity([*q, *v], np)),
    )  # fmt: skip
