"""Whether a run goes back to where it began when its velocity is turned round."""

from __future__ import annotations

import numpy as np

from dalembert.claims.claim import Claim, Promise
from dalembert.claims.subject import Subject, reversed_motion
from dalembert.outcome import Outcome
from dalembert.step import simulate

STEPS = 50  # there and back again
ROUNDING = 1e-9  # of the way: what rounding errors grow to over so many steps

REVERSIBLE = Promise(
    "a run backwards returns", "Hairer, Lubich, Wanner, Thm. V.1.5", "a(q, -v) = a(q, v), a self-adjoint step"
)


def reversible(subject: Subject) -> Claim:
    """Φ(q, -v) after Φ(q, v): the distance from the start, in sizes of the coordinates."""
    if subject.form == "nodes":
        return REVERSIBLE.not_met("a run of nodes begins with a starter")
    if reason := subject.scheme.claims(subject.system).not_self_adjoint:
        return REVERSIBLE.not_met(reason)
    if reason := reversed_motion(subject):
        return REVERSIBLE.not_met(reason)
    start, steps = subject.start, min(STEPS, subject.path.steps)
    q, v = (np.asarray(x)[steps] for x in (subject.path.q, subject.path.v))
    back = simulate(subject.system, q, -v, h=start.h, steps=steps, scheme=subject.scheme, throw=False, **start.given)
    if (ended := Outcome(int(back.code))).failed:
        return REVERSIBLE.at_most(float("inf"), ROUNDING, f"the run back failed: {ended.name}")
    ends = np.asarray(back.q)[-1] - start.q0, np.asarray(back.v)[-1] + start.v0
    distance = max(float(np.max(np.abs(x) / size)) for x, size in zip(ends, subject.sizes, strict=True))
    return REVERSIBLE.at_most(
        distance, ROUNDING, f"distance from the start after {steps} steps there and back, over the way"
    )
