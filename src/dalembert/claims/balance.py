"""Energy, momentum and Lyapunov functions along a run: whether they stay, or fall, as the theory says."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping

import jax
import jax.numpy as jnp
import numpy as np

from dalembert.claims.subject import Claim, Finding, Promise, Subject, negligible
from dalembert.discretize import Scheme
from dalembert.measure import Invariant, energy, modified, momentum
from dalembert.measure import energy_drift as drift_by_terms
from dalembert.numbers import EPSILON
from dalembert.options import Save
from dalembert.outcome import Outcome
from dalembert.path import Path
from dalembert.step import simulate
from dalembert.step.simulation import check_interrupted
from dalembert.systems import Lyapunov, System
from dalembert.systems.equations import all_reactions

LONGER = 8  # times the run: the energy is looked at over so much
BLOCKS = 16  # of the run: their means say how far the slope of a line through them is by chance
STUDENT = 4.14  # 99.9 % of Student's distribution with BLOCKS - 2 degrees of freedom lie within
DIGITS_LEFT = 1e3  # rounding errors of a sum, times this

FALLS = 1.5  # times what a change of the energy is by the order of the step

ENERGY = Promise("the energy does not drift", "backward error analysis of symmetric and symplectic schemes",
                 "a symmetric or symplectic step, no time in L, no power of forces and reactions")  # fmt: skip
NOETHER = "discrete Noether theorem; Marsden, West, Thm. 1.3.3"


def energy_drift(subject: Subject) -> Claim:
    """The slope of the line through E over the run, beside what chance allows it."""
    facts, (_, v, _), declared = subject.facts, subject.samples, subject.scheme.claims(subject.system)
    asymmetry = declared.not_self_adjoint
    if asymmetry and not (declared.symplectic and not subject.orders - {0}):
        return ENERGY.not_met(f"the step is neither symmetric nor symplectic: {asymmetry}")
    parts = {"L depends on t": facts["by_t"], "forces have power": np.sum(facts["force"] * v, axis=1),
             "reactions have power": np.sum(facts["reaction"] * v, axis=1)}  # fmt: skip
    terms = (facts["by_q"] * v, facts["by_v"] * subject.motion[0])
    for reason, power in parts.items():
        if not negligible(power, *terms):
            return ENERGY.not_met(f"{reason}, up to {np.max(np.abs(power)):.2g}")

    def judge(longer: int) -> Claim:
        found = energy(subject.system, _longer(subject, longer))
        t, values = np.asarray(found.t), np.asarray(found.values)
        size = float(np.max(np.abs(terms[0]), initial=0.0)) * (t[-1] - t[0]) + float(np.max(np.abs(values)))
        rounding = (DIGITS_LEFT + longer * subject.start.steps) * EPSILON * size  # that of each step, added up
        halves = lambda settles: (energy(subject.system, _longer(subject, longer, 2)), rounding) if settles else None  # noqa: E731
        return judge_drift(found, rounding, declared.order, halves)

    claim = judge(LONGER)
    if claim.finding is not Finding.FAILS:
        return claim
    again = judge(LONGER**2)  # a beat as slow as the run looks like a drift, and does not grow
    if again.finding is Finding.HOLDS:
        return again
    return dataclasses.replace(claim, reason=claim.reason + remedy(subject, claim.measured) + cause(subject))


def cause(subject: Subject) -> str:
    """The drift of E by the first terms of the scheme's modified equation, in words; nothing where there are none."""
    start, declared = subject.start, subject.scheme.claims(subject.system)
    order = declared.order + (1 if declared.not_self_adjoint else 2)
    given = {"h": start.h, "t0": start.t0, "scheme": subject.scheme}
    try:
        made = modified(subject.system, start.q0, start.v0, order=order, **given)
    except ValueError:
        return ""
    options = given | {"throw": False, **start.given}
    path = check_interrupted(simulate(subject.system, start.q0, start.v0, steps=LONGER * start.steps, **options))
    parts = drift_by_terms(made, path)
    rate = parts.rates[:, 1:].sum(axis=1)
    change = np.concatenate([[0.0], np.cumsum(0.5 * np.diff(parts.t) * (rate[1:] + rate[:-1]))])
    drift, chance, _ = drift_of(parts.t, change)
    return f"; the scheme's modified equation up to h^{order} makes it drift by {drift:.2g}" if abs(drift) > chance else ""


def remedy(subject: Subject, drift: float) -> str:
    """How far the same run in the form discrete_gradient keeps E, in words; nothing where it does not, or cannot run."""
    if subject.form == "discrete_gradient" or not subject.system.space.flat:
        return ""
    try:
        other = dataclasses.replace(subject, scheme=Scheme("discrete_gradient", order=subject.scheme.order))
        path = _longer(other, LONGER)
    except ValueError:  # other constraints than those on velocities, or L not quadratic in v
        return ""
    if Outcome(int(path.code)).failed or path is subject.path or (within := energy(subject.system, path).range) >= drift:
        return ""
    return f"; Scheme('discrete_gradient', order={other.scheme.order}) keeps E within {within:.2g}"


def judge_drift(
    found: Invariant, rounding: float, order: int, halves: Callable[[bool], tuple[Invariant, float] | None]
) -> Claim:
    """halves: `settles` of `drift_of` ↦ E by steps half as long and its rounding, None where there is no such run."""
    t, values = np.asarray(found.t), np.asarray(found.values)
    if len(t) < 4 * BLOCKS:
        return ENERGY.not_met(f"a run of {len(t)} states is too short to tell a drift; give steps of {4 * BLOCKS} or more")
    drift, chance, settles = drift_of(t, values)
    if abs(drift) > max(chance, rounding) and (half := halves(settles)) is not None:
        finer = drift_of(np.asarray(half[0].t), np.asarray(half[0].values))[0]
        return by_order(drift, finer, order, half[1])
    why = f"over {t[-1] - t[0]:g} units of time, E within {np.ptp(values):.2g}; 99.9 % of what oscillation gives by chance"
    return ENERGY.at_most(abs(drift), max(chance, rounding), why)


def by_order(drift: float, finer: float, order: int, rounding: float) -> Claim:
    """A change of the energy on the way from one place to another is an error of the step: it falls with its order, while
    what is lost for good does not."""
    allowed = FALLS * abs(drift) / 2**order + rounding
    return ENERGY.at_most(
        abs(finer),
        allowed,
        f"by steps half as long; by the step itself E changes by {abs(drift):.2g}, 99.9 % of chance is less",
    )


def _longer(subject: Subject, longer: int, finer: int = 1) -> Path:
    """The run, so many times as long where it can go on, with as many states; steps shorter by a factor."""
    start, every = subject.start, longer * finer
    given = {"h": start.h / finer, "t0": start.t0, "scheme": subject.scheme, "throw": False, **start.given}
    path = simulate(subject.system, start.q0, start.v0, steps=every * start.steps, save=Save(every=every), **given)
    if not Outcome(int(check_interrupted(path).code)).failed:
        return path
    if finer == 1:
        return subject.path
    return check_interrupted(
        simulate(subject.system, start.q0, start.v0, steps=finer * start.steps, save=Save(every=finer), **given)
    )


def drift_of(t: np.ndarray, values: np.ndarray) -> tuple[float, float, bool]:
    """Change of the least squares line over the run, how large it is by chance, STUDENT standard errors, and whether it
    settles: whether the line of the second half rises less than half as much as that of the first.

    The line goes through means of blocks. A motion on its way from one place to another changes E by what the error of the
    scheme differs between them, and settles; what is lost by friction settles too.
    """
    size = len(t) // BLOCKS
    x, y = (z[: size * BLOCKS].reshape(BLOCKS, size).mean(axis=1) for z in (t, values))
    slope, error = _line(x, y)
    half = BLOCKS // 2
    before, after = _line(x[:half], y[:half])[0], _line(x[half:], y[half:])[0]
    time = float(t[-1] - t[0])
    settles = bool(after * before <= 0.5 * before * before)
    return slope * time, STUDENT * error * time, settles


def _line(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Least squares slope and its standard error."""
    s = x - x.mean()
    slope = float(s @ (y - y.mean()) / (s @ s))
    left = y - y.mean() - slope * s
    return slope, math.sqrt(float(left @ left) / (len(x) - 2) / float(s @ s))


def momenta(subject: Subject, symmetries: Mapping[str, Callable]) -> Iterator[Claim]:
    """p·ξ_Q for the generators given, and for each coordinate that L does not read, or on a group motion of space."""
    generators = {f"momentum of {name}": one for name, one in _unread(subject)}
    generators |= {f"momentum of {name}": one for name, one in symmetries.items()}
    for name, generator in generators.items():
        yield _momentum_claim(subject, name, generator)


def _unread(subject: Subject) -> Iterator[tuple[str, Callable]]:
    """Shifts of the coordinates that L does not read; on a group the motions of space, and of the body, that L does not see
    but for rounding."""
    system, (q, v, t), facts = subject.system, subject.samples, subject.facts
    n = v.shape[1]
    names = system.velocities or tuple(str(i) for i in range(n))
    for i, name in enumerate(names):
        kinds = {" in space": _along_axis(i, n, system.space.to_body), " in the body": _along_axis(i, n)}
        moved = {kind: subject.evaluate_rows(_generator_and_rate(one), q, v, t) for kind, one in kinds.items()}
        if np.array_equal(*(direction for direction, *_ in moved.values())):
            kinds = {"": kinds[" in the body"]}
        for kind, generator in kinds.items():
            direction, rate, changed = moved.get(kind) or moved[" in the body"]
            change = np.sum(facts["by_q"] * direction + facts["by_v"] * changed, axis=1)
            terms = np.abs(facts["by_q"] * direction) + np.abs(facts["by_v"]) * (np.abs(rate) + np.abs(changed - rate))
            if np.all(np.abs(change) <= DIGITS_LEFT * EPSILON * np.sum(terms, axis=1)):
                yield name + kind, generator


def _along_axis(i: int, n: int, carried: Callable = lambda q, d: d) -> Callable:
    return lambda q, *_: carried(jnp.asarray(q), jnp.zeros(n).at[i].set(1.0))


def _momentum_claim(subject: Subject, name: str, generator: Callable) -> Claim:
    promise = Promise(f"{name} is kept", NOETHER, "L, forces and reactions do not change along the symmetry")
    (q, v, t), facts = subject.samples, subject.facts
    direction, rate, changed = subject.evaluate_rows(_generator_and_rate(generator), q, v, t)
    change = np.sum(facts["by_q"] * direction + facts["by_v"] * changed, axis=1)
    terms = (facts["by_q"] * direction, facts["by_v"] * rate, facts["by_q"] * subject.sizes[0])
    broken = {"L changes along it": change, "forces act along it": np.sum(facts["force"] * direction, axis=1),
              "reactions act along it": np.einsum("kmn,kn->km", facts["rows"], direction)}  # fmt: skip
    if subject.form == "discrete_gradient":
        if np.any(rate):
            return promise.not_met("the form discrete_gradient keeps momenta of translations alone")
        broken["reactions of this form act along it"] = np.asarray(subject.evaluate_rows(_turn_of_rows(generator), q, v, t))
    for reason, amount in broken.items():
        compared = (facts["rows"],) if reason.startswith("reactions") else (*terms, facts["by_v"] / subject.start.h)
        if not negligible(amount, *compared):
            return promise.not_met(f"{reason}, up to {np.max(np.abs(amount)):.2g}")
    if not subject.system.space.flat and subject.form == "drift_kick_drift" and subject.scheme.order > 2:
        return promise.not_met("each stage keeps that of its own nodes, and the states of the run lie between")
    found = momentum(subject.system, subject.path, generator, scheme=subject.scheme)
    size = float(np.max(np.abs(facts["by_v"]) @ np.ones(v.shape[1]) * np.max(np.abs(direction), initial=1.0)))
    place = float(np.max(np.abs(q)) / subject.start.h / max(np.max(np.abs(v)), np.finfo(float).tiny))
    allowed = DIGITS_LEFT * EPSILON * size * math.sqrt(subject.path.steps + 1) * max(1.0, place)
    return promise.at_most(float(found.range), allowed, f"{DIGITS_LEFT:g} rounding errors of the run")


def _turn_of_rows(generator: Callable) -> Callable:
    """∂R/∂q ξ: it enters the mean of the reactions along a step, so that R ξ = 0 alone does not keep them from acting."""

    def turn(system: System, q, v, t):
        direction = jnp.asarray(system.call(generator, q, t=t), dtype=float)
        return jax.jvp(lambda x: all_reactions(system, x, v, jnp.zeros_like(v), t), (q,), (direction,))[1]

    return turn


def _generator_and_rate(generator: Callable) -> Callable:
    """ξ(q), its rate Dξ(q)v, and the change of v along it, which is this rate and on a group ad_v ξ."""

    def direction_and_rate(system: System, q, v, t):
        along = (system.space.rate(q, v),)
        found, rate = jax.jvp(lambda x: jnp.asarray(system.call(generator, x, t=t), dtype=float), (q,), along)
        if found.shape != v.shape:
            raise ValueError(
                f"symmetries: a generator returns shape {found.shape}; a direction of shape {v.shape} is needed"
            )
        return found, rate, system.space.variation(v, found, rate)

    return direction_and_rate


def lyapunov(subject: Subject) -> Iterator[Claim]:
    """V_{k+1} ≤ V_k for each Lyapunov constraint."""
    for number, c in enumerate(subject.system.constraints):
        if not isinstance(c, Lyapunov):
            continue
        promise = Promise(
            f"V of constraints[{number}] does not rise", "Borda, Fernández, Grillo, Sec. 4.2", "F ≥ 0 along the run"
        )
        values, rates = subject.evaluate_rows(_function_and_rate(c), *subject.states)
        if np.min(rates) < -1e-12 * np.max(np.abs(rates)):
            yield promise.not_met(f"F falls to {np.min(rates):.2g}")
            continue
        rise = float(np.max(np.diff(values), initial=0.0))
        allowed = DIGITS_LEFT * EPSILON * float(np.max(np.abs(values)))
        yield promise.at_most(rise, allowed, f"the largest V(k+1) - V(k); V falls from {values[0]:.3g} to {values[-1]:.3g}")


def _function_and_rate(constraint: Lyapunov) -> Callable:
    """V and F."""

    def function_and_rate(system: System, q, v, t):
        return system.call(constraint.V, q, v, t=t), system.call(constraint.F, q, v, t=t)

    return function_and_rate
