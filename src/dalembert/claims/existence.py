"""Claims that the motion and the discrete flow exist, and that the constraints hold where the scheme promises it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dalembert.algebra import numerical_rank
from dalembert.claims.geometry import least_stretch
from dalembert.claims.subject import RESTRICTIONS, Claim, Promise, Subject
from dalembert.measure.invariants import constraint_residual
from dalembert.measure.ranks import regularity
from dalembert.numbers import EPSILON
from dalembert.systems.compiled.function import SystemFunction
from dalembert.systems.equations import first_derivative, kkt_residual, value
from dalembert.systems.sizes import units_of

STRETCHED = 1e-5  # what differences can tell from a rank that is lost
RANK = 1e-10  # of the largest singular value, below which one counts as zero
DIGITS_LEFT = 1e3  # rounding errors of a sum, times this
WINDOWS = 12  # at which the theorem's ranks are looked at

MOTION = Promise("one motion through each state", "Jiménez, Scheurle, Prop. 2.1; (a, λ) of the reduced equations", "none")
FLOW = Promise("the discrete flow exists", "Borda, Fernández, Grillo, Thm. 5.1", "none")
DISTRIBUTION = Promise(
    "the states lie in D", "Jiménez, Scheurle, Prop. 5.3", "the states are those at which φ is discretized"
)


def motion(subject: Subject) -> Claim:
    """rank [[M, -Rᵀ], [J, 0]] = n + m at the samples."""
    q, v, t = subject.samples
    a, multipliers = subject.motion
    n = q.shape[1]
    matrices = subject.along(_KKT, q, v, np.concatenate([a, multipliers], axis=1), t)
    least = np.inf
    for matrix in matrices:
        units = units_of(matrix, n)
        scaled = matrix * units
        rows = np.max(np.abs(scaled), axis=1, keepdims=True)
        values = numerical_rank(scaled / np.where(rows > 0.0, rows, 1.0)).singular_values
        least = min(least, float(values[-1] / values[0]) if values[0] > 0.0 else 0.0)
    return MOTION.at_least(least, RANK, "smallest over largest singular value of the equations for (a, λ)")


def _kkt(system, q, v, z, t):
    return jax.jacfwd(lambda x: kkt_residual(system, q, v, t, x))(z)


_KKT = SystemFunction(_kkt)


def flow(subject: Subject) -> Claim:
    """The ranks of Theorem 5.1 at windows of nodes along the run. A step that is no map of pairs of nodes,
    as a composed one, is a map of states on the constraints: a local diffeomorphism where its derivative has full rank."""
    if subject.scheme.order > 2 or (subject.form == "kick_drift_kick" and subject.orders - {0}):
        least = least_stretch(subject)
        if np.isnan(least):
            return FLOW.at_least(least, STRETCHED, "a step from a neighbouring state could not be solved")
        return FLOW.at_least(least, STRETCHED, "smallest singular value of variations after a step over that before it")
    found: Any = regularity(subject.system, subject.path, scheme=subject.scheme, every=max(1, subject.path.steps // WINDOWS))
    return judge_ranks(FLOW, found.conditions, found.t, "smallest singular value of five matrices")


def judge_ranks(promise: Promise, conditions, t, measured: str = "smallest singular value") -> Claim:
    """The smallest singular value of all matrices at all windows, 0 where a rank is lost."""
    least = min((float(c.smallest.min()) for c in conditions if c.wanted), default=1.0)
    wrong = [c.name for c in conditions if not c.holds]
    why = f"{wrong[0]}: fails" if wrong else f"{measured} at {t.shape[0]} windows"
    return promise.at_least(0.0 if wrong else least, RANK, why)


def constraints(subject: Subject) -> Iterator[Claim]:
    """φ where the scheme promises φ = 0, one claim for each constraint and each derivative that the scheme keeps."""
    apart = subject.scheme.state_apart(subject.system.constraints)
    for residual in constraint_residual(subject.system, subject.path, scheme=subject.scheme):
        number = int(residual.name.partition("[")[2].partition("]")[0])
        promise = Promise(f"{residual.name} = 0", "the discrete equations", "at the points where the scheme reads it")
        solved = subject.system.constraints[number].law(subject.system) is not None
        if residual.name.startswith("λ"):  # of a Lyapunov constraint: what the step solves instead
            continue
        if solved:
            yield promise.not_met("the step solves λ = -φ₀/u instead; see the decrease of V")
            continue
        allowed = _rounding(subject, number, residual.name.startswith("d/dt"))
        skipped = ""
        if apart and subject.system.constraints[number].order == 1:  # no step has led to the data on D
            residual, skipped = (
                dataclasses.replace(residual, t=residual.t[1:], values=residual.values[1:]),
                "; after the start on D",
            )
        why = f"{DIGITS_LEFT:g} rounding errors of its terms; largest at t = {residual.worst:g}{skipped}"
        yield promise.at_most(residual.largest, allowed, why)


def _rounding(subject: Subject, number: int, rate: bool) -> float:
    """DIGITS_LEFT · ε · Σ_j|∂φ/∂x_j||x_j|; velocities and accelerations are differences of q over h and h²."""
    q, v, t = subject.samples
    h, a = subject.start.h, subject.motion[0]
    large = [np.max(np.abs(x), axis=0) for x in (q, v, a)]
    large[1] = large[1] + large[0] / h
    large[2] = large[2] + large[1] / h
    slopes = subject.along(_terms_of(number, rate), q, v, a, t)
    total = sum(float(np.max(x @ y)) for x, y in zip(slopes, large, strict=True))
    return DIGITS_LEFT * EPSILON * max(total, float(np.finfo(float).tiny))


def _terms_of(number: int, rate: bool) -> SystemFunction:
    """|∂φ/∂q|, |∂φ/∂v|, |∂φ/∂a| of one constraint, or of its derivative by the time."""

    def slopes(system, q, v, a, t):
        c = system.constraints[number]
        of = lambda x, w, b: first_derivative(system, c, x, w, t) if rate else value(system, c, x, w, b, t)  # noqa: E731
        return tuple(jnp.abs(x) for x in jax.jacfwd(of, (0, 1, 2))(q, v, a))

    return SystemFunction(slopes)


def distribution(subject: Subject) -> Iterator[Claim]:
    """φ(q, v) = 0 at the states of the run themselves."""
    if 1 not in subject.orders:
        return
    if not subject.scheme.claims(subject.system).keeps_distribution:
        yield DISTRIBUTION.not_met(f"the form {subject.form} with state={subject.scheme.state!r} has its states elsewhere")
        return
    q, v, t = subject.samples
    found = subject.along(RESTRICTIONS, q, v, t)
    sizes = np.max(np.abs(v), axis=0) + np.max(np.abs(q), axis=0) / subject.start.h
    allowed = DIGITS_LEFT * EPSILON * float(np.max(found["slopes"] @ sizes, initial=np.finfo(float).tiny))
    worst = float(np.max(np.abs(found["value"])))
    yield DISTRIBUTION.at_most(worst, allowed, f"{DIGITS_LEFT:g} rounding errors of its terms")
