"""The integrators of the paper, what they are compared on, and λ(q, v) of the continuous equations at many points."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert.discretize import Scheme
from dalembert.gallery import car_with_trailers, contact_oscillator, nonholonomic_particle, vertical_rolling_disk
from dalembert.systems import System, acceleration
from dalembert.tracing import Jitted
from papers.convergence import Method
from papers.drawing import BLUE, GOLD, GREEN, GREY, RED

EXPLICIT = Method("explicit", "β = 0, explicit (81, 82)", Scheme.jimenez_scheurle(0.0))
IMPLICIT = Method("implicit", "β = ½, implicit (86)", Scheme.jimenez_scheurle(0.5))
LAST = Method("last", "β = 1 (91, 92)", Scheme.jimenez_scheurle(1.0))
ORIGINAL = Method("original", "β = ½, original nodes (97)", Scheme.jimenez_scheurle(0.5, redefined=False))
FOUR = (EXPLICIT, IMPLICIT, LAST, ORIGINAL)
COMPOSED = tuple(Method(f"order_{k}", f"composed, order {k}", Scheme(order=k)) for k in (4, 6, 8))
PURPLE = "#7d3c98"
COLOURS = dict(zip([m.name for m in FOUR + COMPOSED], (RED, BLUE, GOLD, GREEN, PURPLE, GREY, "black"), strict=True))
MARKERS = dict(zip([m.name for m in FOUR + COMPOSED], "osD^vP*", strict=True))


@dataclasses.dataclass(frozen=True)
class Case:
    """A system with its closed form exact(t) → (q, v), and on_d(q, w): the velocity in D with independent part w."""

    name: str
    label: str
    system: System
    exact: Callable
    on_d: Callable

    @property
    def start(self) -> tuple[np.ndarray, np.ndarray]:
        return self.exact(0.0)

    def points(self, number: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Random (q, v) on D, |q_i| ≤ 1 and independent velocities between ½ and 3/2."""
        random, n = np.random.default_rng(1), np.size(self.start[0])
        found = []
        for _ in range(number):
            q = random.uniform(-1.0, 1.0, n)
            found.append((q, np.asarray(self.on_d(q, random.uniform(0.5, 1.5, 2)))))
        return found


def _on_particle(q, w):
    return w[0], w[1], q[1] * w[0]


def _on_disk(q, w):
    return w[0] * np.cos(q[3]), w[0] * np.sin(q[3]), w[0], w[1]


def _on_oscillator(q, w):
    return -q[1] * w[1], w[0], w[1]


def _on_car(q, w):
    return car_with_trailers.rolling(q, *w)


PARTICLE = Case(
    "particle", "particle, free", nonholonomic_particle.nonholonomic_particle(), nonholonomic_particle.exact, _on_particle
)
POTENTIAL = Case(
    "potential", "particle, c = 1", nonholonomic_particle.nonholonomic_particle(1.0),
    functools.partial(nonholonomic_particle.exact, c=1.0), _on_particle,
)  # fmt: skip
OSCILLATOR = Case(
    "oscillator", "contact oscillator", contact_oscillator.contact_oscillator(), contact_oscillator.exact, _on_oscillator
)
DISK = Case("disk", "rolling disk", vertical_rolling_disk.vertical_rolling_disk(), vertical_rolling_disk.exact, _on_disk)
CAR = Case(
    "car", "car, two trailers", car_with_trailers.entry.system, functools.partial(car_with_trailers.circle, u=1.0), _on_car
)
CASES = (PARTICLE, POTENTIAL, OSCILLATOR, DISK, CAR)

ROWS = 256  # points per call, the rest padded: one shape, so that one program is compiled for a system


def multipliers_at(system: System, q, v) -> Float[np.ndarray, "K m"]:
    """λ(q, v) of Remark 4.3, eq. (23), at K points (K, n), whether they lie on D or not."""
    q, v = np.asarray(q), np.asarray(v)
    rows = []
    for i in range(0, len(q), ROWS):
        part = [np.resize(x[i : i + ROWS], (ROWS, x.shape[1])) for x in (q, v)]
        rows.append(np.asarray(_rows(system, *map(jnp.asarray, part)))[: len(q) - i])
    return np.concatenate(rows)


@Jitted
def _rows(system: System, q, v):
    return jax.vmap(lambda x, w: acceleration(system, x, w, 0.0)[1])(q, v)
