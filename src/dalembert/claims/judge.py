"""verdict: the promises of the theory, one after another, on a system, a scheme and a start."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from dalembert.claims import balance, convergence, flows, geometry
from dalembert.claims.subject import SAMPLES, Claim, FlowData, RunData, Subject, Verdict
from dalembert.discretize import DiscreteSystem, Scheme, WindowMap, as_scheme
from dalembert.measure.nodes import states_of
from dalembert.numbers import as_array, as_function, as_number, as_positive, check_class, described, whole_number
from dalembert.options import Solver, Start, accept_single_options, check_groups
from dalembert.step import simulate
from dalembert.systems import System, VariationalProblem, check_system, check_x64, refuse_traced


@accept_single_options
def verdict(
    system: System | DiscreteSystem | VariationalProblem,
    scheme: Scheme | WindowMap | None = None,
    q0=None,
    v0=None,
    *,
    h: float,
    steps: int = 1000,
    t0: float = 0.0,
    start: Start | None = None,
    solver: Solver | None = None,
    symmetries: Mapping[str, Callable] | None = None,
) -> Verdict:
    """Check what the theory promises on a system, a scheme and an initial state.

    Claim, hypothesis, measured value, tolerance: what holds of D₁L_d + D₂L_d + h(f + R_dᵀλ) = 0.

    One run is simulated. Along it the hypotheses of each claim are checked, and if they hold the claim is measured:
    existence of the motion and of the discrete flow, constraints, D, drift of the energy, momenta, decrease of Lyapunov
    functions, symplecticity and its evolution under constraints, of the step and of the motion, reversibility, the orders
    of q, v and λ that the scheme declares, and that of the distance from the leaf of integrable constraints. A claim is
    confirmed only at the states that were checked: `sampled` says which.

    For a DiscreteSystem: existence of its flow, D_K, the evolution of Ω, and the momenta of `symmetries`. For a
    VariationalProblem: regularity of the flow Υ_d, Υ_d*Ω = Ω, the drift of the energy, momenta, and the order that its
    WindowMap declares.

    Args:
        system: a System, a DiscreteSystem or a VariationalProblem.
        scheme: as for `simulate`; None for its default.
        q0: (n,) positions at t0, for a System.
        v0: (n,) velocities at t0, for a System.
        h: time step.
        steps: number of steps of the run.
        t0: initial time.
        start: as for `simulate`; data are for a DiscreteSystem or a VariationalProblem, the starter for a System.
        solver: as for `simulate`, with its branch alone.
        symmetries: name → generator(q[, t][, p]), ξ_Q, (n,): symmetries whose momenta should be conserved. Cyclic
            coordinates, which L does not depend on, are checked anyway; on a group, motions of space and of the body.

    Returns:
        A Verdict, which prints as a table.

    Raises:
        ValueError: an argument has the wrong shape or value.
        TypeError: an argument is of the wrong type.
        InconsistentDataError: the data violate the constraints.
        StepError: the run fails; the error carries the path up to there.

    Source: Borda, Fernández, Grillo, Theorems 2.4, 5.1 and 5.3; Jiménez, Scheurle, Propositions 2.1 and 5.3; discrete
    Noether theorem. What differs: every claim is measured, with its hypotheses, and none is taken for granted.

    Example:
        >>> found = da.verdict(pendulum, None, [1.0], [0.0], h=0.1, steps=200)
        >>> found.holds, str(found["a step is symplectic"].finding)
        (True, 'holds')
    """
    check_x64()
    step = as_positive(h, "h", "a positive, finite step")
    begin, count = as_number(t0, "t0", "a finite time"), whole_number(steps, "steps", 8)
    groups = check_groups("verdict", start=start, solver=solver)
    grid = {"h": float(step), "steps": count, "t0": float(begin)}
    return _verdict(system, scheme, (q0, v0), grid, symmetries, groups)


@functools.singledispatch
def _verdict(system: System, scheme: Any, given: tuple, grid: dict, symmetries: Any, groups: dict) -> Verdict:
    check_system(system, "a verdict is about a System, DiscreteSystem or VariationalProblem")
    for name, value in groups["start"].changed.items():
        if name != "starter":
            raise ValueError(f"{name}: found {described(value)}; a System starts from q0 and v0")
    chosen = as_scheme(scheme)
    q, v = system.space.read_state(given[0], given[1], system.coordinates, as_array)
    refuse_traced("verdict", system, q, v)
    start = RunData(np.asarray(q), np.asarray(v), grid["t0"], grid["h"], grid["steps"], groups)
    subject = subject_of(system, chosen, start)
    claims = tuple(_claims(subject, _generators(symmetries)))
    return Verdict(
        claims, _constraints_in_words(system), _in_words(chosen), start.h, start.steps,
        f"one run of {start.steps} steps from t = {start.t0:g}, hypotheses at {len(subject.at)} of its states",
    )  # fmt: skip


@_verdict.register(DiscreteSystem)
@_verdict.register(VariationalProblem)
def _verdict_of_flow(system: Any, scheme: Any, given: tuple, grid: dict, symmetries: Any, groups: dict) -> Verdict:
    path, begin = simulate(system, *given, **grid, scheme=scheme, start=groups["start"]), groups["start"]
    refuse_traced("verdict", system, path)
    data = begin if given[0] is None else dataclasses.replace(begin, jets=[*given])
    start = FlowData(data, grid["h"], grid["t0"])
    claims = tuple(flows.claims_of(system, path, scheme, _generators(symmetries), start, convergence.flow_orders))
    kind, form = type(system).__name__, "its own nodes" if scheme is None else repr(scheme)
    sampled = (
        f"one run of {path.steps} steps from t = {float(path.t[0]):g}, forms at one to {flows.SAMPLES} runs of its nodes"
    )
    return Verdict(claims, kind, form, float(path.h), path.steps, sampled)


def subject_of(system: System, scheme: Scheme, start: RunData) -> Subject:
    path = simulate(system, start.q0, start.v0, h=start.h, steps=start.steps, t0=start.t0, scheme=scheme, **start.given)
    q, v, t = (np.asarray(x) for x in states_of(system, path))
    at = np.unique(np.linspace(0, len(t) - 1, min(SAMPLES, len(t))).astype(int))
    return Subject(system, scheme, start, path, scheme.form_for(system.constraints), (q, v, t), at)


def _claims(subject: Subject, symmetries: Mapping[str, Callable]) -> Iterator[Claim]:
    motion = geometry.motion(subject)
    yield motion
    yield geometry.flow(subject)
    yield from geometry.constraints(subject)
    yield from geometry.distribution(subject)
    yield balance.energy_drift(subject)
    yield from balance.momenta(subject, symmetries)
    yield from balance.lyapunov(subject)
    yield geometry.symplectic(subject)
    yield geometry.evolution(subject)
    yield geometry.flow_evolution(subject, motion)
    yield geometry.self_adjoint(subject)
    yield geometry.reversible(subject)
    yield from convergence.orders(subject)
    yield from convergence.one_step(subject)
    yield from convergence.leaf(subject)


def _generators(symmetries: Any) -> dict[str, Callable]:
    """The symmetries, checked, by name."""
    if symmetries is None:
        return {}
    check_class(symmetries, Mapping, "symmetries", "name → generator(q), such as {'rotation': turn}")
    return {
        str(name): as_function(one, f"symmetries: {name}", "of q that returns a direction (n,)")
        for name, one in symmetries.items()
    }


def _constraints_in_words(system: System) -> str:
    kinds = [type(c).__name__ for c in system.constraints]
    return f"System with {', '.join(kinds)}" if kinds else "System without constraints"


def _in_words(scheme: Scheme) -> str:
    """The scheme with what differs from the default."""
    default = Scheme()
    given = {name: getattr(scheme, name) for name in default.__dict__}
    named = (f"{name}={value!r}" for name, value in given.items() if value != getattr(default, name))
    return f"Scheme({', '.join(named)})"
