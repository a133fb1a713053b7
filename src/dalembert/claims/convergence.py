"""Whether q, v and the multipliers have the order that the scheme declares; of a flow of order k, q and the multipliers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from dalembert.claims.claim import Claim, Promise
from dalembert.claims.subject import Subject
from dalembert.discretize.window_maps import Interpolated, WindowMap
from dalembert.measure import consistency
from dalembert.measure.order import Comparison, Convergence, converge, order
from dalembert.outcome import Outcome
from dalembert.path import Path
from dalembert.step import simulate
from dalembert.systems import VariationalProblem, ostrogradsky

STEPS = 16  # of the coarsest run
HALVINGS = 4
TRUTH, DOUBT = 1e-13, 1e-11  # local tolerance of the continuous flow, and what its error is taken for
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


def one_step(subject: Subject) -> Iterator[Claim]:
    """(p, s): the errors of one step from exact data on D are ε^(p+1) in q and v, ε^(s+1) in λ at the end of the step."""
    start, declared = subject.start, subject.scheme.claims(subject.system).consistency
    if declared is None:
        return
    promises = [
        Promise(
            f"one step in {what} of order {number}", "Jiménez, Scheurle, Def. 4.2", "constraints on velocities, λ explicit"
        )
        for what, number in zip(("(q, v)", "λ"), declared, strict=True)
    ]
    steps = [2.0 * start.h / 2**k for k in range(HALVINGS + 1)]
    try:
        found = consistency(subject.system, start.q0, start.v0, h=steps, t0=start.t0, scheme=subject.scheme)
    except ValueError as error:
        yield from (one.not_met(" ".join(str(error).split())[:120]) for one in promises)
        return
    of_state = [_judged(promises[0], x, declared[0], local=1) for x in (found.q, found.v)]
    yield min(of_state, key=lambda one: one.measured if one.measured == one.measured else np.inf)
    if found.multipliers is not None:
        yield _judged(promises[1], found.multipliers, declared[1], local=1)


class FlowData(NamedTuple):
    """What a run of a flow of order k starts from: derivatives (2k, n), None where it is nodes, and λ with its rates."""

    jets: Any
    multipliers: Any
    h: float
    t0: float


def flow_orders(problem: VariationalProblem, scheme: WindowMap | None, start: FlowData) -> Iterator[Claim]:
    """The same of Υ_d, against the continuous flow from the same derivatives, at steps from 2h to h/4."""
    declared = (Interpolated() if scheme is None else scheme).order(problem.derivatives)
    names = ["q", "multipliers"] if problem.differential else ["q"]
    promises = [
        Promise(f"{name} of order {declared}", "WindowMap.order", "derivatives at the start, steps that resolve the motion")
        for name in names
    ]
    if start.jets is None:
        yield from (one.not_met("given by nodes, which do not say where a run with another step begins") for one in promises)
        return
    steps = np.array([2.0 * start.h / 2**k for k in range(HALVINGS)])
    runs = [
        simulate(
            problem, jets=start.jets, multipliers=start.multipliers, h=h, steps=round(STEPS * start.h / h), t0=start.t0,
            scheme=scheme, throw=False,
        )
        for h in steps
    ]  # fmt: skip
    times = np.unique(np.concatenate([[start.t0], *(x for run in runs for x in (run.t, run.t_multipliers))]))
    try:
        truth = ostrogradsky(problem, start.jets, jnp.asarray(times), multipliers=start.multipliers, tolerance=TRUTH)
    except (ValueError, RuntimeError) as error:
        yield from (one.not_met(f"no continuous flow to compare with: {error}") for one in promises)
        return
    done, count = np.array([run.outcome is Outcome.SUCCESS for run in runs]), [run.steps for run in runs]
    for promise, name in zip(promises, names, strict=True):
        found = [_compared(name, run, times, np.asarray(getattr(truth, name))) for run in runs]
        yield _judged(promise, converge(steps, count, done, found), declared)


def _compared(name: str, path: Path, times: np.ndarray, truth: np.ndarray) -> Comparison:
    """Largest difference from the flow, at the times of the path's own."""
    wanted = truth[np.searchsorted(times, path.t if name == "q" else path.t_multipliers)]
    size = float(np.max(np.abs(wanted), initial=0.0))
    away = np.abs(np.asarray(getattr(path, name))[:, : wanted.shape[1]] - wanted)
    return Comparison(float(np.max(away, initial=0.0)), size, DOUBT * size)


def _judged(promise: Promise, found: Convergence, declared: int, local: int = 0) -> Claim:
    """local: 1 for errors of one step, which are smaller by one power."""
    used = np.flatnonzero(found.fitted)
    if len(used) >= 2:
        slope = float(found.orders[used[-1] - 1]) - local
        if local and len(used) == 2 and slope < declared - SHORT:
            return promise.not_met(f"only two steps, the coarsest, have errors above rounding: a slope of {slope:.2f}")
        return promise.at_least(slope, declared - SHORT, f"between h = {found.h[used[-2]]:g} and {found.h[used[-1]]:g}")
    if all(use in ("floor", "no decrease", "fitted") for use in found.use) and "floor" in found.use:
        return promise.at_least(float(declared), declared - SHORT, "errors at the level of rounding at all steps")
    return promise.not_met(f"too few steps say something: {', '.join(found.use)}")
