"""The promises of the theory for what is discrete already, a DiscreteSystem, and for the flow of a VariationalProblem."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dalembert.claims.balance import DIGITS_LEFT, ENERGY, NOETHER, judge_drift
from dalembert.claims.geometry import EVOLUTION, FLOW, IDENTITY, WINDOWS, judge_evolution, judge_ranks
from dalembert.claims.subject import Claim, FlowData, Promise
from dalembert.discretize import DiscreteSystem, Interpolated
from dalembert.measure import (
    Invariant,
    NodeView,
    energy,
    momentum,
    node_view,
    poincare_cartan,
    regularity,
    symplectic_defect,
)
from dalembert.measure.higher import path_windows, read_flow_path
from dalembert.numbers import EPSILON
from dalembert.outcome import Outcome
from dalembert.path import Path
from dalembert.step import simulate
from dalembert.systems import VariationalProblem
from dalembert.tracing import over_rows, seldom

SAMPLES = 3  # runs of nodes at which forms and symmetries are looked at
DIGITS_READ = 8.0  # last digits of the nodes, by which two values may differ
INVARIANT = 1e-9  # of the terms of a sum: what is taken for zero

KINEMATIC = Promise("D_K is kept", "Borda, Fernández, Grillo, Def. 3.2", "none")
PAIRS = Promise("F*Ω = Ω on pairs of nodes", "Borda, Fernández, Grillo, Rem. 5.4", "no constraints, a map of pairs of nodes")
HIGHER = Promise("the flow exists", "Colombo, Martín de Diego, Zuccalli, Prop. 3.2", "none")
UPSILON = Promise("Υ_d*Ω = Ω", "Colombo, Martín de Diego, Zuccalli, Rem. 3.4", "a regular flow")


@functools.singledispatch
def claims_of(
    problem: VariationalProblem, path: Path, scheme: Any, symmetries: Mapping[str, Callable], start: FlowData,
    orders: Callable[..., Iterator[Claim]],
) -> Iterator[Claim]:  # fmt: skip
    """Of Υ_d along a run of the flow of order k. orders: the claims on the order of the flow."""
    found: Any = regularity(problem, path, scheme=scheme, every=max(1, path.steps // WINDOWS))
    yield judge_ranks(HIGHER, (found.matrix,), found.t)
    windows = [np.asarray(x) for x in _windows(read_flow_path(problem, path, scheme))]
    at = np.unique(np.linspace(0, len(windows[0]) - 1, SAMPLES).astype(int))
    h, (nodes, free, begin) = float(path.h), (x[at] for x in windows)
    if found.matrix.holds:
        k = len(at) // 2
        form = symplectic_defect(problem, nodes=nodes[k], multipliers=free[k], h=h, t0=float(begin[k]), scheme=scheme)
        yield UPSILON.at_most(
            float(form.relative), IDENTITY, "largest entry of Υ_d*Ω - Ω over that of Ω, at one run of nodes"
        )
    else:
        yield UPSILON.not_met("the matrix of the flow is singular")
    forms = [poincare_cartan(problem, x, y, h=h, t0=s, scheme=scheme) for x, y, s in zip(nodes, free, begin, strict=True)]
    terms = max(float(np.sum(np.abs(one.plus)) * np.max(np.abs(path.v))) for one in forms)
    yield _energy_claim(problem, path, scheme, start, terms)
    for name, generator in symmetries.items():
        source = "Colombo, Martín de Diego, Zuccalli, Rem. 3.5"
        promise = Promise(f"momentum of {name} is kept", source, "L_d and Φ_d do not change along the symmetry")
        changes = [_change(problem, one, generator, x, s, h) for one, x, s in zip(forms, nodes, begin, strict=True)]
        yield _judge_momentum(promise, problem, path, generator, np.array(changes), path.steps, scheme=scheme)
    yield from orders(problem, scheme, start)


@claims_of.register(DiscreteSystem)
def discrete_claims(
    system: DiscreteSystem, path: Path, scheme: Any, symmetries: Mapping[str, Callable], start: FlowData,
    orders: Callable[..., Iterator[Claim]],
) -> Iterator[Claim]:  # fmt: skip
    """Of D₁L_d + D₂L_d + h R_dᵀλ = 0, (q₀,q₁,q₂) ∈ D_K, along a run."""
    yield from _kinematic(system, path)
    needed = system.reading(path.q.shape[1]).needed
    if needed != 2:
        why = f"the flow needs {needed} nodes"
        yield from (one.not_met(why) for one in (FLOW, EVOLUTION, PAIRS))
        return
    found: Any = regularity(system, path, every=max(1, path.steps // WINDOWS))
    yield judge_ranks(FLOW, found.conditions, found.t)
    k = len(path.q) // 2
    form = symplectic_defect(system, path.q[k - 1], path.q[k], h=float(path.h), t0=float(path.t[k - 1]))
    yield judge_evolution(form)
    if system.kinematic is not None:
        yield PAIRS.not_met(f"constraints: the reactions change Ω by {float(form.size):.2g}")
    else:
        yield PAIRS.at_most(float(form.relative), IDENTITY, "largest entry of F*Ω - Ω over that of Ω, at one pair")
    view = node_view(system, None, path.h, path.q.shape[1])
    pairs = path.q[:-2], path.q[1:-1], path.q[2:], path.t[:-2]
    for name, generator in symmetries.items():
        promise = Promise(f"momentum of {name} is kept", NOETHER, "L_d and the reactions do not change along the symmetry")
        changes = np.asarray(over_rows(_change_along, pairs, view, generator))
        yield _judge_momentum(promise, system, path, generator, changes, path.steps)


def _kinematic(system: DiscreteSystem, path: Path) -> Iterator[Claim]:
    if system.kinematic is None:
        return
    windows = jnp.stack([jnp.asarray(path.q)[i : len(path.q) - system.order + i] for i in range(system.order + 1)], axis=1)
    every = max(1, len(windows) // WINDOWS)
    times = jnp.asarray(path.t)[: len(windows)][::every]
    values, terms = (np.asarray(x) for x in over_rows(_defect, (windows[::every], times), system))
    allowed = DIGITS_LEFT * EPSILON * float(np.max(terms))
    yield KINEMATIC.at_most(float(np.max(np.abs(values))), allowed, f"{DIGITS_LEFT:g} rounding errors of its terms")


def _defect(system: Any, window, t):
    """φ of D_K and Σ_j|∂φ/∂q_j||q_j|, the distances of the nodes for those at the origin."""
    value = lambda y: jnp.atleast_1d(system.call(system.kinematic, *y, t=t))  # noqa: E731
    apart = jnp.abs(window) + jnp.max(jnp.abs(window - window[0]))
    return value(window), jnp.sum(jnp.abs(jax.jacfwd(value)(window)) * apart, axis=(1, 2))


def _change_along(view: NodeView, generator: Callable, q0, q1, q2, t):
    """(2,): D₁L_d·ξ + D₂L_d·ξ with R_dξ, and the terms."""
    call: Any = view.system.call  # pyright: ignore[reportAttributeAccessIssue]
    left, right = call(generator, q0, t=t), call(generator, q1, t=t + view.h)
    first, second = view.outgoing(q0, q1, t) * left, view.incoming(q0, q1, t) * right
    work = jnp.sum(jnp.abs(view.reactions(q0, q1, q2, t + view.h) @ right))
    terms = jnp.sum(jnp.abs(first)) + jnp.sum(jnp.abs(second))
    return jnp.stack([jnp.abs(jnp.sum(first) + jnp.sum(second)) + view.h * work, terms])


def _judge_momentum(
    promise: Promise, system, path: Path, generator: Callable, changes: np.ndarray, steps: int, **given
) -> Claim:
    """changes: (K, 2), what the symmetry changes, and the terms of that."""
    change, terms = np.max(changes, axis=0)
    if change > INVARIANT * terms:
        return promise.not_met(f"the action or the reactions change along it, up to {change:.2g}")
    found = momentum(system, path, generator, **given)
    stored = _last_digits(path, found, lambda x: momentum(system, x, generator, **given))
    allowed = max(DIGITS_LEFT * EPSILON * float(terms) * np.sqrt(steps + 1), stored)
    return promise.at_most(
        float(found.range), allowed, f"{DIGITS_LEFT:g} rounding errors of its terms, or of the stored nodes"
    )


def _last_digits(path: Path, found: Any, measured: Callable[[Path], Any]) -> float:
    """The part of a range that the last digit of the stored nodes makes, of which the highest differences are taken."""
    signs = np.random.default_rng(0).choice([-1.0, 1.0], np.shape(path.q))
    moved = dataclasses.replace(path, q=jnp.asarray(np.asarray(path.q) * (1.0 + EPSILON * signs)))
    return DIGITS_READ * float(np.max(np.abs(np.asarray(measured(moved).values) - np.asarray(found.values)), initial=0.0))


_windows = seldom(path_windows)


def _change(problem: VariationalProblem, form, generator: Callable, nodes, begin: float, h: float) -> tuple[float, float]:
    """|Θ⁺·ξ - Θ⁻·ξ|, which is the change of Σ L̃_d, and the terms."""
    direction = np.stack([problem.call(generator, jnp.asarray(x), t=begin + i * h) for i, x in enumerate(nodes)])
    products = np.concatenate([-np.asarray(form.minus), np.asarray(form.plus)]) * direction
    return float(abs(products.sum())), float(np.abs(products).sum())


def _energy_claim(problem: VariationalProblem, path: Path, scheme, start: FlowData, terms: float) -> Claim:
    if problem.time_dependent:
        return ENERGY.not_met("L depends on t")
    found = energy(problem, path, scheme=scheme)
    stored = _last_digits(path, found, lambda x: energy(problem, x, scheme=scheme))
    rounding = max(DIGITS_LEFT * EPSILON * terms, stored)

    def halves(_: bool) -> tuple[Invariant, float] | None:
        """Υ_d is symplectic: an error of its order is no drift."""
        if start.data.jets is None:
            return None
        finer = simulate(
            problem, h=start.h / 2, steps=2 * path.steps, t0=start.t0, scheme=scheme, start=start.data, throw=False
        )  # fmt: skip
        if finer.outcome is not Outcome.SUCCESS:
            return None
        return energy(problem, finer, scheme=scheme), 2 ** (2 * problem.derivatives) * rounding

    return judge_drift(found, rounding, (Interpolated() if scheme is None else scheme).order(problem.derivatives), halves)
