"""Claims of order: q, v and the multipliers have the order that the scheme declares; of a flow of order k, q and the
multipliers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import jax.numpy as jnp
import numpy as np

from dalembert.claims.subject import Claim, Finding, FlowData, Promise, Subject
from dalembert.discretize import Interpolated, WindowMap
from dalembert.measure import Convergence, consistency, order
from dalembert.measure.convergence import TrueMotion, converge, times_of
from dalembert.outcome import Outcome
from dalembert.step import simulate
from dalembert.systems import VariationalProblem, leaf_forms, ostrogradsky, reference

STEPS = 16  # of the coarsest run
HALVINGS = 1.0 / np.array([1.0, 2.0, 4.0, 8.0, 16.0])
# Of high orders, whose errors fall to rounding in few halvings.
CLOSER = 4.0 / np.array([4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 12.0])
COARSER = tuple(2**k for k in range(9))  # times the step: where errors are rounding, an order is measured with longer steps
FEWEST = 4  # steps of a run with these; it is longer where there would be less
TRUTH, DOUBT = 1e-13, 1e-11  # local tolerance of the continuous flow, and what its error is taken for
LEAF = "positions leave their leaf by O(hᵏ), k ="
APART = "data on D: the states of this scheme lie on a deformed constraint, and one step from D errs by half of the reaction"
SETTLED = 0.1  # slopes that differ by more are not those of small steps yet
SHORT = 0.3  # a slope may be short of the order by so much at steps that are not infinitely small


def orders(subject: Subject) -> Iterator[Claim]:
    """The observed order between the two finest steps whose errors stand above rounding."""
    claims = subject.scheme.claims(subject.system)
    parts = _step_ratios(claims.order)[:-1]
    for name, convergence in _above_rounding(lambda factor: _quantities(subject, factor, parts)).items():
        declared = claims.multipliers if name == "multipliers" else claims.order
        promise = Promise(f"{name} of order {declared}", claims.source, "a smooth motion, steps that resolve it")
        if name == "multipliers" and subject.scheme.state_apart(subject.system.constraints):
            yield promise.not_met(APART)  # the first multiplier is that of a jump from D onto the deformed constraint
            continue
        yield _judge_order(promise, convergence, declared)


def _above_rounding(measure: Callable[[int], dict[str, Convergence]]) -> dict[str, Convergence]:
    """measure(factor), errors with steps longer by the factor: by the first with which rounding does not hide them."""
    found = measure(1)
    for factor in COARSER[1:]:
        hidden = [name for name, one in found.items() if "floor" in one.use and one.fitted.sum() < 2]
        if not hidden:
            break
        try:
            coarser = measure(factor)
        except (ValueError, RuntimeError):  # no motion, or no reference, so far on
            break
        found |= {name: x for name in hidden if "floor" in (x := coarser[name]).use or x.fitted.sum() > 1}
    return found


def _step_ratios(declared: int) -> np.ndarray:
    """The steps, in parts of the coarsest."""
    return HALVINGS if declared <= 4 else CLOSER


def _quantities(subject: Subject, factor: int, parts: np.ndarray) -> dict[str, Convergence]:
    """The errors of q, v and λ with steps from h · factor on."""
    start = subject.start
    time, steps = max(STEPS, FEWEST * factor) * start.h, (start.h * factor * parts).tolist()
    found = order(subject.system, start.q0, start.v0, time=time, h=steps, t0=start.t0, scheme=subject.scheme, **start.given)
    return found.quantities


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
    if subject.scheme.state_apart(subject.system.constraints):
        yield from (one.not_met(APART) for one in promises)
        return

    def measure(factor: int) -> dict[str, Convergence]:
        steps = 2.0 * factor * start.h * _step_ratios(max(declared))
        errors = consistency(subject.system, start.q0, start.v0, h=steps.tolist(), t0=start.t0, scheme=subject.scheme)
        return {name: one for name in ("q", "v", "multipliers") if (one := getattr(errors, name)) is not None}

    try:
        found = _above_rounding(measure)
    except ValueError as error:
        yield from (one.not_met(" ".join(str(error).split())[:120]) for one in promises)
        return
    of_state = [_judge_order(promises[0], x, declared[0], local=1) for x in (found["q"], found["v"])]
    yield min(of_state, key=lambda one: one.measured if one.measured == one.measured else np.inf)
    if "multipliers" in found:
        yield _judge_order(promises[1], found["multipliers"], declared[1], local=1)


def leaf(subject: Subject) -> Iterator[Claim]:
    """Distance of positions from the leaf of constraints on velocities of which a part is integrable: |W⁺W(q_N - q(T))|,
    with W halfway to the motion q, which stays on it; in sizes of the coordinates."""
    if 1 not in subject.orders:
        return
    start, declared, n = subject.start, subject.scheme.claims(subject.system).order, len(subject.start.q0)
    promise = Promise(f"{LEAF} {declared}", "Frobenius; the scheme's order", "constraints on velocities, a part integrable")
    if not subject.system.space.flat:
        yield promise.not_met("integrable parts of constraints are looked for on Rⁿ alone")
        return
    scale = np.append(subject.sizes[0], start.h * start.steps)
    x = np.append(start.q0, start.t0)
    lower = [dataclasses.replace(subject.system, constraints=tuple(c for c in subject.system.constraints if c.order < k))
             for k in (1, 2)]  # fmt: skip
    held, forms = (leaf_forms(system, x, scale) for system in lower)
    if forms is None or (held is not None and held(x[None]).shape == forms(x[None]).shape):
        yield promise.not_met(
            "no leaf within D: no combination of the constraints is integrable, affine in v and closed on D"
        )
        return

    def measure(factor: int) -> dict[str, Convergence]:
        steps, time = start.h * factor * _step_ratios(declared), max(STEPS, FEWEST * factor) * start.h
        data, count = (subject.system, start.q0, start.v0), [round(time / h) for h in steps]
        given = {"t0": start.t0, "scheme": subject.scheme, "throw": False, **start.given}
        runs = [simulate(*data, h=h, steps=k, **given) for h, k in zip(steps, count, strict=True)]
        end = np.asarray(reference(*data, start.t0 + jnp.array([0.0, time]), tolerance=TRUTH).q[-1])
        errors = np.array([np.asarray(run.q[-1]) - end for run in runs])
        rows = forms(np.column_stack([end + 0.5 * errors, np.full(len(runs), start.t0 + time)]))
        off = np.einsum("kir,krj,kj->ki", np.linalg.pinv(rows), rows[:, :, :n], errors / scale[:-1])
        size, done = float(np.max(np.abs(end) / scale[:-1], initial=1.0)), [run.outcome is Outcome.SUCCESS for run in runs]
        away = np.where(done, np.linalg.norm(off, axis=1), np.nan)
        return {"leaf": converge(steps, away, np.full(len(steps), size), DOUBT * size, count)}

    yield _judge_order(promise, _above_rounding(measure)["leaf"], declared)


def flow_orders(problem: VariationalProblem, scheme: WindowMap | None, start: FlowData) -> Iterator[Claim]:
    """The same of Υ_d, against the continuous flow from the same derivatives, at steps from 2h to h/4."""
    declared = (Interpolated() if scheme is None else scheme).order(problem.derivatives)
    names = ["q", "multipliers"] if problem.differential else ["q"]
    promises = [
        Promise(f"{name} of order {declared}", "WindowMap.order", "derivatives at the start, steps that resolve the motion")
        for name in names
    ]
    jets, multipliers = start.data.jets, start.data.multipliers
    if jets is None:
        yield from (one.not_met("given by nodes, which do not say where a run with another step begins") for one in promises)
        return
    steps = 2.0 * start.h * HALVINGS[:-1]
    runs = [
        simulate(problem, h=h, steps=round(STEPS * start.h / h), t0=start.t0, scheme=scheme, start=start.data, throw=False)
        for h in steps
    ]
    times = times_of(runs, start.t0)
    try:
        truth = ostrogradsky(problem, jets, jnp.asarray(times), multipliers=multipliers, tolerance=TRUTH)
    except (ValueError, RuntimeError) as error:
        yield from (one.not_met(f"no continuous flow to compare with: {error}") for one in promises)
        return
    values = {name: np.asarray(getattr(truth, name)) for name in names}
    known = TrueMotion(times, values, {name: DOUBT * float(np.max(np.abs(x))) for name, x in values.items()})
    for promise, name in zip(promises, names, strict=True):
        errors = [known.compare(name, run) for run in runs]
        yield _judge_order(promise, converge(steps, *zip(*errors, strict=True), steps=[run.steps for run in runs]), declared)


def _judge_order(promise: Promise, found: Convergence, declared: int, local: int = 0) -> Claim:
    """local: 1 for errors of one step, which are smaller by one power."""
    used, slopes = np.flatnonzero(found.fitted), found.orders - local
    if len(used) >= 2:
        slope, by_rounding = float(slopes[used[-1] - 1]), "floor" in found.use[used[-1] :]
        settled = len(used) > 2 and abs(slope - slopes[used[1] - 1]) <= SETTLED
        if by_rounding and not settled and slope < declared - SHORT:
            return promise.not_met(f"not measurable here: a slope of {slope:.2f} still changes where errors become rounding")
        return promise.at_least(slope, declared - SHORT, f"between h = {found.h[used[-2]]:g} and {found.h[used[-1]]:g}")
    if found.use[-1] == "no decrease":  # above the floor, which is far above rounding
        why = f"the error does not fall: {found.error[-1]:.2g} at h = {found.h[-1]:g}"
        return promise.at_least(float(slopes[-1]), declared - SHORT, why)
    if set(found.use) == {"floor"}:
        why = f"exact: errors are rounding at every step up to h = {found.h[0]:g}, and show no order"
        return promise.with_finding(Finding.HOLDS, why)
    if "floor" in found.use:
        return promise.not_met(f"not measurable here: errors are rounding at all but one step up to h = {found.h[0]:g}")
    return promise.not_met(f"too few steps say something: {', '.join(found.use)}")
