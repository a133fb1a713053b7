"""Claim and Verdict: a promise of a theorem, and what was measured of it; Subject: the run on which it is measured."""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert.discretize import Scheme
from dalembert.notebook import Described
from dalembert.options import Start
from dalembert.path import Path
from dalembert.systems import CONSISTENT, System, energy, motion_along
from dalembert.systems.consistency import stacked_residuals
from dalembert.systems.equations import all_reactions, force
from dalembert.tracing import over_rows


class Finding(enum.StrEnum):
    """The result for one claim.

    Attributes:
        HOLDS: its hypothesis is met, and what was measured is within the tolerance.
        FAILS: its hypothesis is met, and what was measured is not within the tolerance.
        HYPOTHESIS_FAILS: its hypothesis is not met: nothing is claimed for this system and this scheme.
    """

    HOLDS = "holds"
    FAILS = "does not hold"
    HYPOTHESIS_FAILS = "hypothesis fails"


@dataclasses.dataclass(frozen=True)
class Claim(Described):
    """One claim of the theory, for one system and one scheme.

    Attributes:
        claim: what is claimed, in words.
        source: the paper, with the number of the theorem or equation.
        hypothesis: the condition under which it is claimed.
        finding: the result, a Finding.
        measured: the measured number; nan where nothing was measured: the hypothesis fails, or errors are rounding at every
            step, so that the scheme is exact here and shows no order.
        tolerance: the largest number with which the claim holds; for an order, the smallest. nan as above.
        reason: why the tolerance has this value; or what contradicts the hypothesis.
    """

    claim: str
    source: str
    hypothesis: str
    finding: Finding
    measured: float
    tolerance: float
    reason: str


class Promise(NamedTuple):
    """A claim before it is measured: what, from where, and under which hypothesis."""

    claim: str
    source: str
    hypothesis: str

    def with_finding(self, finding: Finding, why: str, measured: float = math.nan, tolerance: float = math.nan) -> Claim:
        """The claim with what was found."""
        return Claim(*self, finding, float(measured), float(tolerance), why)

    def not_met(self, why: str) -> Claim:
        """It is not claimed here."""
        return self.with_finding(Finding.HYPOTHESIS_FAILS, why)

    def at_most(self, measured: float, tolerance: float, why: str) -> Claim:
        """measured ≤ tolerance; what is not finite is no promise kept."""
        return self.with_finding(Finding.HOLDS if measured <= tolerance else Finding.FAILS, why, measured, tolerance)

    def at_least(self, measured: float, tolerance: float, why: str) -> Claim:
        """measured ≥ tolerance."""
        return self.with_finding(Finding.HOLDS if measured >= tolerance else Finding.FAILS, why, measured, tolerance)


@dataclasses.dataclass(frozen=True)
class Verdict(Described):
    """Which claims hold for a system, a scheme and a start. `str(verdict)` is a table.

    Attributes:
        claims: the Claims, in the order of the table.
        system: the constraints, in words.
        scheme: as text.
        h: time step.
        steps: number of steps of the run that was checked.
        sampled: which states were checked, in words.
    """

    claims: tuple[Claim, ...]
    system: str
    scheme: str
    h: float
    steps: int
    sampled: str

    @property
    def holds(self) -> bool:
        """True if every claim whose hypothesis is met holds."""
        return not self.broken

    @property
    def broken(self) -> tuple[Claim, ...]:
        """The claims that do not hold although their hypotheses do."""
        return tuple(c for c in self.claims if c.finding is Finding.FAILS)

    def __getitem__(self, claim: str) -> Claim:
        """The claim whose words begin so."""
        for one in self.claims:
            if one.claim.startswith(claim):
                return one
        raise KeyError(f"{claim!r}: no claim begins so; there are {', '.join(repr(c.claim) for c in self.claims)}")

    def to_dict(self) -> dict[str, Any]:
        """The verdict as text and numbers, for JSON; None for values that were not measured."""
        rows = [dataclasses.asdict(c) | {"finding": str(c.finding)} for c in self.claims]
        rows = [{name: _for_json(value) for name, value in row.items()} for row in rows]
        about = {name: getattr(self, name) for name in ("system", "scheme", "h", "steps", "sampled")}
        return {**about, "holds": self.holds, "claims": rows}

    def __str__(self) -> str:
        width = max(len(c.claim) for c in self.claims)
        lines = [f"{self.system}; {self.scheme}, h = {self.h:g}", self.sampled]
        for c in self.claims:
            number = "" if math.isnan(c.measured) else f"{c.measured:9.2e}"
            lines.append(f"  {c.claim:<{width}}  {c.finding:<16}  {number:>9}  {c.reason}  [{c.source}]")
        return "\n".join(lines)


def _for_json(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


SAMPLES = 24  # states of the run at which hypotheses are looked at
NOTHING = 1e-9  # of the terms of a sum: what is taken for zero


@dataclasses.dataclass(frozen=True)
class RunData:
    """Data of a run: initial data, step, number of steps, and what decides among roots."""

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
        """The way of each position in the run, at least a thousandth of the longest, and the size of each velocity."""
        q, v, _ = self.states
        time = max(self.start.h * self.start.steps, self.start.h)
        way = np.maximum(
            self.system.space.extent(q)[1], np.max(np.abs(v), axis=0, initial=0.0) * min(time, 100 * self.start.h)
        )
        way = np.maximum(way, 1e-3 * np.max(way, initial=0.0))
        way = np.where(way > 0.0, way, 1.0)
        return way, np.maximum(np.max(np.abs(v), axis=0), way / time)

    @functools.cached_property
    def motion(self) -> tuple[np.ndarray, np.ndarray]:
        """(a, λ) of the continuous equations at the samples."""
        return motion_along(self.system, *self.samples)

    @functools.cached_property
    def facts(self) -> dict[str, np.ndarray]:
        """The terms of the balances of energy and momentum, at the samples; an axis of samples in front."""
        q, v, t = self.samples
        a, multipliers = self.motion
        return self.evaluate_rows(_facts, q, v, a, multipliers, t)

    def evaluate_rows(self, function: Callable, *rows: np.ndarray) -> Any:
        """function(system, …) at each row of its arguments."""
        return jax.tree.map(np.asarray, over_rows(function, rows, self.system))


def _facts(system: System, q, v, a, multipliers, t) -> dict[str, Any]:
    """L_q, L_v, L_t, f, Rᵀλ, R, and E = v·L_v - L."""
    by_q, by_v, by_t = system.space.gradients(lambda x, w, s: system.call(system.lagrangian, x, w, t=s), q, v, t)
    rows = all_reactions(system, q, v, a, t)
    return {
        "by_q": by_q, "by_v": by_v, "by_t": by_t, "force": force(system, q, v, t), "reaction": rows.T @ multipliers,
        "rows": rows, "energy": energy(system, q, v, t),
    }  # fmt: skip


def restrictions_of(system: System, q, v, t) -> dict[str, Any]:
    """φ of orders 0 and 1, and Σ_j|∂φ/∂v_j| of each equation."""
    of = lambda w: stacked_residuals(system, q, w, t)  # noqa: E731
    return {"value": of(v), "slopes": jnp.abs(jax.jacfwd(of)(v))}


def negligible(parts: np.ndarray, *terms: np.ndarray) -> bool:
    """True if a sum is zero up to rounding of the terms that it may be compared with."""
    size = max((float(np.max(np.abs(x), initial=0.0)) for x in terms), default=0.0)
    return float(np.max(np.abs(parts), initial=0.0)) <= NOTHING * size


def reversed_motion(subject: Subject) -> str | None:
    """Why the motion is not reversible under v → -v; None if a(q, -v) = a(q, v) at all samples, and -v is admissible."""
    q, v, t = subject.samples
    if subject.system.time_dependent:
        return "the system depends on time"
    if {0, 1} & subject.orders:
        sizes = subject.sizes[1]
        back = subject.evaluate_rows(restrictions_of, q, -v, t)
        allowed = CONSISTENT * np.einsum("kmn,n->km", back["slopes"], sizes)
        ahead = np.abs(subject.evaluate_rows(restrictions_of, q, v, t)["value"])
        if np.any(np.abs(back["value"]) > 10.0 * (allowed + ahead)):
            return "-v violates a constraint that v satisfies"
    a, again = subject.motion[0], motion_along(subject.system, q, -v, t)[0]
    size = np.max(np.abs(a), axis=0) + subject.sizes[1] / max(subject.start.h * subject.start.steps, subject.start.h)
    worst = np.max(np.abs(again - a) / size)
    return None if worst <= 1e-7 else f"a(q, -v) differs from a(q, v) by {worst:.1g} of its size"


class FlowData(NamedTuple):
    """Initial data of a run of a flow of order k: jets, None where nodes are given, λ with its rates; also the step h and
    the initial time t0."""

    data: Start
    h: float
    t0: float
