"""Whether a run goes back to where it began: with the step -h, and with the velocity turned round."""

from __future__ import annotations

import numpy as np

from dalembert.claims.claim import Claim, Promise
from dalembert.claims.subject import Subject, reversed_motion
from dalembert.outcome import Outcome
from dalembert.step import simulate
from dalembert.step.simulate import answered

STEPS = 50  # there and back again
ROUNDING = 1e-9  # of the way: what rounding errors grow to over so many steps

ADJOINT = Promise(
    "a step of -h undoes a step of h", "Hairer, Lubich, Wanner, Def. II.3.1", "maps that are their own adjoints"
)
REVERSIBLE = Promise(
    "with -v a run returns", "Hairer, Lubich, Wanner, Thm. V.1.5", "a(q, -v) = a(q, v), a self-adjoint step"
)


def self_adjoint(subject: Subject) -> Claim:
    """Φ(-h) after Φ(h): the distance from the start, in sizes of the coordinates."""
    if reason := _without_nodes(subject):
        return ADJOINT.not_met(reason)
    return _there_and_back(subject, ADJOINT, -1.0)


def reversible(subject: Subject) -> Claim:
    """Φ(q, -v) after Φ(q, v): the same with the velocity turned round."""
    if reason := _without_nodes(subject) or reversed_motion(subject):
        return REVERSIBLE.not_met(reason)
    return _there_and_back(subject, REVERSIBLE, 1.0)


def _without_nodes(subject: Subject) -> str | None:
    """Why a run has no way back: its start, or a map of the scheme."""
    if subject.form == "nodes":
        return "a run of nodes begins with a starter"
    return subject.scheme.claims(subject.system).not_self_adjoint


def _there_and_back(subject: Subject, promise: Promise, direction: float) -> Claim:
    """From the state after some steps with the step direction · h and the velocity direction · (-v)."""
    start, steps = subject.start, min(STEPS, subject.path.steps)
    q, v, t = (np.asarray(x)[steps] for x in (subject.path.q, subject.path.v, subject.path.t))
    back = simulate(
        subject.system, q, -direction * v, h=direction * start.h, steps=steps, t0=t if direction < 0.0 else start.t0,
        scheme=subject.scheme, throw=False, **start.given,
    )  # fmt: skip
    if (ended := Outcome(int(answered(back).code))).failed:
        return promise.at_most(float("inf"), ROUNDING, f"the run back failed: {ended.name}")
    ends = np.asarray(back.q)[-1] - start.q0, np.asarray(back.v)[-1] + direction * start.v0
    distance = max(float(np.max(np.abs(x) / size)) for x, size in zip(ends, subject.sizes, strict=True))
    return promise.at_most(distance, ROUNDING, f"distance from the start after {steps} steps there and back, over the way")
