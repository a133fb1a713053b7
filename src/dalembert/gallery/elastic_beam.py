"""Elastic beam: L = ½μ(t)q̈² + ρ(t)q on [0, 1], k = 2, both ends clamped; t is the place along the beam.

Constant stiffness μ and load ρ: q = -ρt²(1-t)²/(24μ). Source: Colombo, Martín de Diego, Zuccalli, example 4.1.
"""

import dataclasses
import functools
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from dalembert.drawing import Body, Dots
from dalembert.gallery.entry import BoundaryEntry
from dalembert.systems import VariationalProblem
from dalembert.systems.pickling import reduced

CLAMPED = ((0.0,), (0.0,))  # (q, q̇) at both ends


def lagrangian(q, v, a, p):
    return 0.5 * p["mu"] * a[0] ** 2 + p["rho"] * q[0]


def draw(q, p, *, t):
    """The walls in which the ends are clamped, and the beam between them: the way of its point at t."""
    walls = [Body.box([x, 0.0], [0.1, 0.2]) for x in (-0.05, 1.05)]
    return [*walls, Dots(jnp.stack([t, q[0]]), trail=True)]


@dataclasses.dataclass(frozen=True)
class UnevenBeam:
    """½μ(t)q̈² + ρ(t)q with functions μ and ρ of the place."""

    mu: Callable
    rho: Callable

    __reduce__ = reduced

    def __call__(self, q, v, a, t):
        return 0.5 * self.mu(t) * a[0] ** 2 + self.rho(t) * q[0]


def constant(value, t):
    return value


def elastic_beam(mu: float | Callable = 1.0, rho: float | Callable = 24.0) -> VariationalProblem:
    """Stiffness and load: two numbers, then parameters mu and rho; or at least one function of t."""
    if not callable(mu) and not callable(rho):
        return VariationalProblem(
            lagrangian, derivatives=2, coordinates=("q",), parameters={"mu": mu, "rho": rho}, draw=draw
        )
    varying = UnevenBeam(*(x if callable(x) else functools.partial(constant, x) for x in (mu, rho)))
    return VariationalProblem(varying, derivatives=2, coordinates=("q",), time_dependent=True)


def exact(t, mu: float = 1.0, rho: float = 24.0):
    """-ρt²(1-t)²/(24μ)."""
    s = np.asarray(t, dtype=float)[..., None]
    return -rho / (24.0 * mu) * s**2 * (1.0 - s) ** 2


entry = BoundaryEntry(
    name="elastic_beam",
    title="Elastic beam, both ends clamped",
    formula="L = ½μq̈² + ρq",
    source="Colombo, Martín de Diego, Zuccalli, example 4.1",
    problem=elastic_beam(),
    boundary={"initial": CLAMPED, "final": CLAMPED, "T": 1.0},
    steps=40,
    exact=exact,
)
