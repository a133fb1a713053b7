"""Newton's method on the KKT equations of a chain, from poor guesses.

    [H + δW  Aᵀ] [dx]     [∇L̃]
    [A     -δ_cW] [dν] = - [ c ]     δ raised until dxᵀ(H + δW)dx > 0 along the step; Armijo's condition on Σf + ρ|c|₁

Where the line search fails, Gauss-Newton steps reduce |c|² (restoration); where these stop at |c| > 0 the problem has no
feasible point near, and this point of least violation is returned under that name.
Source of the curvature test: Chiang, Zavala, An inertia-free filter line-search algorithm (2016), with a merit function for
the filter.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import NamedTuple

import numpy as np

from dalembert.boundary.kkt.linear import EXACT, Banded, Frontal, Linear
from dalembert.boundary.kkt.system import Chain, Evaluation


class End(enum.IntEnum):
    """How the iteration ended."""

    CONVERGED = 0
    SINGULAR = 1
    NOT_CONVERGED = 2
    NOT_FINITE = 3
    INFEASIBLE = 4
    ALTERNATING = 5


@dataclasses.dataclass(frozen=True)
class Settings:
    """tolerance: on Newton's update and on the constraints, relative to the path. minimum: seek one, or any extremal."""

    tolerance: float = 1e-9
    max_iterations: int = 200
    minimum: bool = True


ARMIJO = 1e-4
NOISE = 1e-13  # of merit and curvature, relative to the objective
CURVATURE = 1e-10  # least dxᵀ(H + δW)dx, relative to dxᵀWdx
FIRST_SHIFT, LARGEST_SHIFT = 1e-4, 1e12
SHORTEST = 1e-7  # step length
RELAX = 1e-8  # of a singular system
PENALTY = 1e-8  # the first one, of the constraints' violation, relative to the action
DAMPING = (1e-12, 1e-8, 1e8)  # of Levenberg and Marquardt: least, first, largest


@dataclasses.dataclass
class Iterate:
    """The state of the iteration. sizes: (n,), s, typical of its coordinates; reach: s + max|q|, of the present path;
    update: the last change of the path, relative to its reach."""

    z: np.ndarray
    at: Evaluation
    sizes: np.ndarray
    penalty: float
    reach: np.ndarray | None = None  # computed where it is asked for
    shift: float = 0.0
    iterations: int = 0
    restorations: int = 0
    factorizations: int = 0
    update: float = np.inf
    end: End = End.NOT_CONVERGED


def minimise(chain: Chain, z: np.ndarray, settings: Settings, linear: Linear, sizes: np.ndarray | None = None) -> Iterate:
    """Newton's iteration from the path z (blocks, b); sizes: (n,), typical of its coordinates, the chain's if not given."""
    sizes = chain.positions if sizes is None else sizes
    it = Iterate(z.copy(), chain.evaluate(z), sizes, PENALTY * chain.action)
    if not it.at.finite:
        it.end = End.NOT_FINITE
        return it
    if _descended(chain, it, settings, linear):
        return it
    while it.iterations < settings.max_iterations:
        direction = _direction(chain, it, settings, linear)
        if direction is None:
            it.end = End.SINGULAR
            if _violation(chain, it) > settings.tolerance and _restore(chain, it, settings, linear):
                it.end = End.NOT_CONVERGED
                continue
            break
        before, it.update = it.update, direction.update
        small = max(it.update, _violation(chain, it)) <= settings.tolerance
        small = small and (
            it.shift == 0.0 or chain.residual(it.at.gradient, chain.matrix(it.z)) <= 1e-3 * settings.tolerance
        )  # a large shift: a short step
        found = (_search if settings.minimum else _damped)(chain, it, direction)
        it.iterations += 1
        linear.trusted = linear.trusted and found is not None and found.whole and it.shift == 0.0
        if found is not None:
            _move(chain, it, found.z, found.at)
        if small or (found is not None and found.whole and _nearly(chain, it, before, direction.factors, settings)):
            it.end = End.CONVERGED
            break
        if found is None and not (settings.minimum and _restore(chain, it, settings, linear)):
            break
    return it


def _descended(chain: Chain, it: Iterate, settings: Settings, linear: Linear) -> bool:
    """Whole steps by machine code, as long as they are accepted; whether that was all."""
    if linear.descent is None or not settings.minimum:
        return False
    numbers = {
        "tolerance": settings.tolerance, "before": it.update, "penalty": it.penalty,
        "objective": it.at.objective, "violation": it.at.violation, "norm": it.at.norm**2, "update": it.update,
        "iterations": it.iterations, "trusted": float(linear.trusted), "noise": NOISE, "least": CURVATURE, "armijo": ARMIJO,
        "exact": EXACT,
    }  # fmt: skip
    it.z, it.at, found, converged = linear.descent.run(it.z, it.at, it.sizes, numbers, settings.max_iterations)
    it.reach, it.update, it.penalty = None, found["update"], found["penalty"]
    it.factorizations += int(found["iterations"]) - it.iterations
    it.iterations = int(found["iterations"])
    if converged:
        it.end = End.CONVERGED
    return converged


def _move(chain: Chain, it: Iterate, z: np.ndarray, at: Evaluation) -> None:
    it.z, it.at, it.reach = z, at, None


def _nearly(chain: Chain, it: Iterate, before: float, factors, settings: Settings) -> bool:
    """Whether a step with the factors that are there ends the iteration; tried where quadratic convergence predicts it.

    Newton's updates u satisfy u₊ ≈ u (u/u₋)², the update before being u₋; the simplified step is u₊ but for a factor
    1 + O(u). Source: P. Deuflhard, Newton Methods for Nonlinear Problems (2004), section 2.1.
    """
    if it.shift or not np.isfinite(before) or it.update * (it.update / before) ** 2 > settings.tolerance:
        return False
    step = factors.solve(-it.at.gradient)
    update = update_of(chain, it, step)
    if not max(update, _violation(chain, it)) <= settings.tolerance:
        return False
    new = chain.evaluate(it.z + step)
    if not new.finite:
        return False
    it.update = update
    _move(chain, it, it.z + step, new)
    return True


class Direction(NamedTuple):
    """A step, with the factors it comes from. update: its relative size; curvature: dxᵀ(H + δW)dx; held: Σ cᵀν."""

    step: np.ndarray
    factors: Banded | Frontal
    update: float
    curvature: float
    held: float


def _direction(chain: Chain, it: Iterate, settings: Settings, linear: Linear) -> Direction | None:
    """Newton's step, the shift raised until the curvature along it is positive; None: singular.

    dxᵀ(H + δW)dx = -∇L̃ᵀdx + cᵀdν, from the equations that the step solves, where linear constraints hold but for rounding;
    what rounding can take from it is added. At the end of the iteration it is round-off and is not asked for.
    """
    it.shift = 0.0 if it.shift < FIRST_SHIFT else it.shift / 3.0
    relax, gradient = 0.0, it.at.gradient.ravel()
    held = chain.held(it.at.gradient, it.z)
    noise = NOISE * (abs(it.at.objective) + abs(held))
    while it.shift <= LARGEST_SHIFT:
        factors = linear.factor(it.z, it.shift, relax)
        it.factorizations += 1
        step = factors.solve(-it.at.gradient)
        flat = step.ravel()
        if factors.singular or not np.isfinite(flat @ flat):
            relax = RELAX
        else:
            update, curvature = update_of(chain, it, step), float((gradient * chain.sign) @ flat) + noise
            convex = not settings.minimum or update <= settings.tolerance
            if convex or curvature >= CURVATURE * float((flat * chain.metric) @ flat):
                return Direction(step, factors, update, curvature, held)
        it.shift = max(8.0 * it.shift, FIRST_SHIFT)
    return None


def update_of(chain: Chain, it: Iterate, step: np.ndarray) -> float:
    """The largest change of a position, relative to what it reaches."""
    return float(np.max(chain.extents(step) / _reach(chain, it)))


def _reach(chain: Chain, it: Iterate) -> np.ndarray:
    """s + max|q|, (n,)."""
    if it.reach is None:
        it.reach = it.sizes + chain.extents(it.z)
    return it.reach


def _violation(chain: Chain, it: Iterate) -> float:
    """That of the constraints, relative to what they are where positions are as large as those of the path."""
    return it.at.violation / float(np.max(_reach(chain, it) / chain.positions)) if it.at.violation else 0.0


class Found(NamedTuple):
    """An accepted point; whole: after the whole step and nothing else."""

    z: np.ndarray
    at: Evaluation
    whole: bool


def _search(chain: Chain, it: Iterate, direction: Direction) -> Found | None:
    """The first point on the step, halved from full length, that Armijo's condition on Σf + ρ|c|₁ accepts.

    A full step is also taken where it halves the whole gradient (the end of the iteration, where merit is round-off), and
    where it is refused for its constraints one correction of second order is tried.
    """
    step, factors, _, curvature, held = direction
    c, noise = it.at.violation, NOISE * (abs(it.at.objective) + abs(held))
    slope = chain.held(it.at.gradient, step) - (curvature - noise) + held  # ∇f·dx = ∇L̃·dx - νᵀA dx, and A dx = -c
    wanted = (slope + 0.5 * max(curvature, 0.0)) / (0.9 * c) if c > 1e-14 else 0.0
    it.penalty = max(it.penalty, 1.5 * wanted if wanted > it.penalty else 0.0)
    descent, merit = slope - it.penalty * c, it.at.objective + it.penalty * c
    noise = NOISE * (abs(it.at.objective) + abs(merit))

    def accepted(new: Evaluation, length: float) -> bool:
        return new.finite and new.objective + it.penalty * new.violation <= merit + ARMIJO * length * descent + noise

    length = 1.0
    while length >= SHORTEST:
        z = it.z + (step if length == 1.0 else length * step)
        new = chain.evaluate(z)
        if accepted(new, length) or (length == 1.0 and new.finite and new.norm <= 0.5 * it.at.norm):
            return Found(z, new, length == 1.0)
        if length == 1.0 and new.finite and new.violation >= c:
            z = z + _correction(chain, new, factors)
            new = chain.evaluate(z)
            if accepted(new, length):
                return Found(z, new, False)
        length *= 0.5
    return None


def _damped(chain: Chain, it: Iterate, direction: Direction) -> Found | None:
    """The first point on the halved step at which the next simplified step is shorter: Deuflhard's natural monotonicity."""
    step, factors = direction.step, direction.factors
    length, size = 1.0, _norm(step / chain.units)
    while length >= SHORTEST:
        z = it.z + length * step
        new = chain.evaluate(z)
        if new.finite:
            following = factors.solve(-new.gradient)
            if _norm(following / chain.units) <= (1.0 - 0.5 * length) * size or size <= 1e-12 * (
                1.0 + _norm(z / chain.units)
            ):
                return Found(z, new, length == 1.0)
        length *= 0.5
    return None


def _correction(chain: Chain, new: Evaluation, factors) -> np.ndarray:
    """The change that returns to the constraints, by the factors of the step: Aᵀ and A as they were before it."""
    right = np.where(chain.primal, 0.0, -new.gradient)
    return np.where(chain.primal, factors.solve(right), 0.0)


def _restore(chain: Chain, it: Iterate, settings: Settings, linear: Linear) -> bool:
    """Levenberg-Marquardt steps on |c|² until it has fallen to a tenth; False where it has a minimum first."""
    it.restorations += 1
    begin, damping = it.at.violation, DAMPING[1]
    while it.at.violation > 0.1 * begin and damping <= DAMPING[2] and it.iterations < settings.max_iterations:
        factors = linear.factor(it.z, 1.0, damping, plain=True)
        it.factorizations += 1
        step = _correction(chain, it.at, factors)
        new = chain.evaluate(it.z + step)
        before, after = (_norm((at.gradient * chain.units)[:, ~chain.primal]) for at in (it.at, new))
        if new.finite and after < before * (1.0 - 1e-3):
            _move(chain, it, it.z + step, new)
            damping = max(damping / 10.0, DAMPING[0])
            it.iterations += 1
        else:
            damping *= 10.0
    if it.at.violation > 0.1 * begin:
        violated = _violation(chain, it) > 1e3 * settings.tolerance
        it.end = End.INFEASIBLE if violated and damping > DAMPING[2] else End.NOT_CONVERGED
        return False
    _estimate_multipliers(chain, it, linear)
    return True


def _estimate_multipliers(chain: Chain, it: Iterate, linear: Linear) -> None:
    """The multipliers that make ∇f + Aᵀν smallest."""
    z = np.where(chain.primal, it.z, 0.0)
    factors = linear.factor(z, 1.0, 1e-12, plain=True)
    found = factors.solve(np.where(chain.primal, -chain.evaluate(z).gradient, 0.0))
    if np.all(np.isfinite(found)):
        z = np.where(chain.primal, it.z, found)
        _move(chain, it, z, chain.evaluate(z))
        it.penalty = PENALTY * chain.action


def _norm(gradient: np.ndarray) -> float:
    return float(np.linalg.norm(gradient))
