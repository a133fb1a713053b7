"""Whether q, v and the multipliers have the order that the scheme declares."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dalembert.claims.claim import Claim, Promise
from dalembert.claims.subject import Subject
from dalembert.measure.order import Convergence, order

STEPS = 16  # of the coarsest run
HALVINGS = 4
SHORT = 0.3  # a slope may be short of the order by so much at steps that are not infinitely small


def orders(subject: Subject) -> Iterator[Claim]:
    """The observed order between the two finest steps whose errors stand above rounding."""
    start, claims = subject.start, subject.scheme.claims(subject.system)
    steps = [start.h / 2**k for k in range(HALVINGS)]
    found = order(
        subject.system, start.q0, start.v0, time=STEPS * start.h, h=steps, t0=start.t0, scheme=subject.scheme,
        **start.given,
    )  # fmt: skip
    for name, convergence in found.quantities.items():
        declared = claims.multipliers if name == "multipliers" else claims.order
        promise = Promise(f"{name} of order {declared}", claims.source, "a smooth motion, steps that resolve it")
        yield _judged(promise, convergence, declared)


def _judged(promise: Promise, found: Convergence, declared: int) -> Claim:
    used = np.flatnonzero(found.fitted)
    if len(used) >= 2:
        slope = float(found.orders[used[-1] - 1])
        return promise.at_least(slope, declared - SHORT, f"between h = {found.h[used[-2]]:g} and {found.h[used[-1]]:g}")
    if all(use in ("floor", "no decrease", "fitted") for use in found.use) and "floor" in found.use:
        return promise.at_least(float(declared), declared - SHORT, "errors at the level of rounding at all steps")
    return promise.not_met(f"too few steps say something: {', '.join(found.use)}")
