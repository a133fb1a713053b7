"""What is looked at: a run, its states, and what the functions of the system are there."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert.discretize import Scheme
from dalembert.path import Path
from dalembert.systems import System, energy
from dalembert.systems.compiled.along import motion_along
from dalembert.systems.compiled.function import SystemFunction
from dalembert.systems.consistency import velocity_residuals
from dalembert.systems.equations import all_reactions, force
from dalembert.systems.sizes import CONSISTENT
from dalembert.tracing import seldom

SAMPLES = 24  # states of the run at which hypotheses are looked at
NOTHING = 1e-9  # of the terms of a sum: what is taken for zero


@dataclasses.dataclass(frozen=True)
class RunData:
    """Where and how the run goes: initial data, step, number of steps, and what decides among roots."""

    q0: Float[np.ndarray, "n"]
    v0: Float[np.ndarray, "n"]
    t0: float
    h: float
    steps: int
    given: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Subject:
    """A system with a scheme, and a run of it.

    form: of the step. states: q, v, t at the times of the velocities, (K, n), (K, n), (K,). at: which of them are samples.
    """

    system: System
    scheme: Scheme
    start: RunData
    path: Path
    form: str
    states: tuple[np.ndarray, np.ndarray, np.ndarray]
    at: np.ndarray

    @property
    def samples(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        q, v, t = (x[self.at] for x in self.states)
        return q, v, t

    @property
    def orders(self) -> set[int]:
        """The orders of the constraints."""
        return {c.order for c in self.system.constraints}

    @functools.cached_property
    def sizes(self) -> tuple[np.ndarray, np.ndarray]:
        """How far each position goes in the run, at least a thousandth of the furthest, and how large each velocity is."""
        q, v, _ = self.states
        time = max(self.start.h * self.start.steps, self.start.h)
        way = np.maximum(np.ptp(q, axis=0), np.max(np.abs(v), axis=0, initial=0.0) * min(time, 100 * self.start.h))
        way = np.maximum(way, 1e-3 * np.max(way, initial=0.0))
        way = np.where(way > 0.0, way, 1.0)
        return way, np.maximum(np.max(np.abs(v), axis=0), way / time)

    @functools.cached_property
    def motion(self) -> tuple[np.ndarray, np.ndarray]:
        """(a, λ) of the continuous equations at the samples."""
        return motion_along(self.system, *self.samples)

    @functools.cached_property
    def facts(self) -> dict[str, np.ndarray]:
        """What enters the balances of energy and momentum, at the samples; an axis of samples in front."""
        q, v, t = self.samples
        a, multipliers = self.motion
        return self.along(_FACTS, q, v, a, multipliers, t)

    def along(self, function: SystemFunction, *rows: np.ndarray) -> Any:
        """function(system, …) at each row of its arguments."""
        code = function.bound(self.system, *(x[0] for x in rows))
        if code is None:
            return jax.tree.map(np.asarray, _over(self.system, function.function, rows))
        found = [code(*x) for x in zip(*rows, strict=True)]
        return jax.tree.map(lambda *x: np.stack(x), *found)


@seldom
def _over(system: System, function: Callable, rows: tuple) -> Any:
    """function(system, …) at each row, where no machine code can be made."""
    return jax.vmap(lambda *x: function(system, *x))(*rows)


def _facts(system: System, q, v, a, multipliers, t) -> dict[str, Any]:
    """L_q, L_v, L_t, f, Rᵀλ, R, and E = v·L_v - L."""
    by_q, by_v, by_t = jax.grad(lambda x, w, s: system.call(system.lagrangian, x, w, t=s), (0, 1, 2))(q, v, t)
    rows = all_reactions(system, q, v, a, t)
    return {
        "by_q": by_q, "by_v": by_v, "by_t": by_t, "force": force(system, q, v, t), "reaction": rows.T @ multipliers,
        "rows": rows, "energy": energy(system, q, v, t),
    }  # fmt: skip


def _off(system: System, q, v, t) -> dict[str, Any]:
    """φ of orders 0 and 1, and Σ_j|∂φ/∂v_j| of each equation."""
    of = lambda w: jnp.concatenate([jnp.zeros(0), *velocity_residuals(system, q, w, t).values()])  # noqa: E731
    return {"value": of(v), "slopes": jnp.abs(jax.jacfwd(of)(v))}


_FACTS, RESTRICTIONS = SystemFunction(_facts), SystemFunction(_off)


def negligible(parts: np.ndarray, *terms: np.ndarray) -> bool:
    """Whether a sum is nothing beside the terms that it may be compared with."""
    size = max((float(np.max(np.abs(x), initial=0.0)) for x in terms), default=0.0)
    return float(np.max(np.abs(parts), initial=0.0)) <= NOTHING * size


def reversed_motion(subject: Subject) -> str | None:
    """Why the motion is not reversible under v → -v; None if a(q, -v) = a(q, v) at all samples, and -v is admissible."""
    q, v, t = subject.samples
    if subject.system.time_dependent:
        return "the system depends on time"
    if {0, 1} & subject.orders:
        sizes = subject.sizes[1]
        back = subject.along(RESTRICTIONS, q, -v, t)
        allowed = CONSISTENT * np.einsum("kmn,n->km", back["slopes"], sizes)
        ahead = np.abs(subject.along(RESTRICTIONS, q, v, t)["value"])
        if np.any(np.abs(back["value"]) > 10.0 * (allowed + ahead)):
            return "-v violates a constraint that v satisfies"
    a, again = subject.motion[0], motion_along(subject.system, q, -v, t)[0]
    size = np.max(np.abs(a), axis=0) + subject.sizes[1] / max(subject.start.h * subject.start.steps, subject.start.h)
    worst = np.max(np.abs(again - a) / size)
    return None if worst <= 1e-7 else f"a(q, -v) differs from a(q, v) by {worst:.1g} of its size"
