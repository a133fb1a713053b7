"""Newton's method on the KKT equations of a chain, from poor guesses, for a batch of paths in step.

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

from dalembert.solve.chain import Chain, Evaluation


class End(enum.IntEnum):
    """How the iteration of one path ended."""

    RUNNING = -1
    CONVERGED = 0
    SINGULAR = 1
    NOT_CONVERGED = 2
    NOT_FINITE = 3
    INFEASIBLE = 4


@dataclasses.dataclass(frozen=True)
class Settings:
    """tolerance: on Newton's update and on the constraints, relative to the size of the path."""

    tolerance: float = 1e-9
    max_iterations: int = 100
    armijo: float = 1e-4
    curvature: float = 1e-10  # of dxᵀ(H + δW)dx, relative to dxᵀWdx
    first_shift: float = 1e-4
    largest_shift: float = 1e12
    shortest: float = 1e-7


class Report(NamedTuple):
    """Per path of the batch: where it ended and how. update, residual, violation: at the last iterate."""

    z: np.ndarray
    end: np.ndarray
    iterations: np.ndarray
    update: np.ndarray
    residual: np.ndarray
    violation: np.ndarray
    objective: np.ndarray
    shift: np.ndarray
    restorations: np.ndarray
    factorizations: np.ndarray
    pivots: np.ndarray


@dataclasses.dataclass
class Iterate:
    """The state of the iteration, one entry per path."""

    z: np.ndarray
    at: Evaluation
    shift: np.ndarray
    penalty: np.ndarray
    end: np.ndarray
    iterations: np.ndarray
    restorations: np.ndarray
    factorizations: np.ndarray
    pivots: np.ndarray
    update: np.ndarray


def minimise(chain: Chain, z: np.ndarray, settings: Settings, linear) -> Report:
    """Newton's iteration from the paths z (batch, blocks, b), until every path has ended."""
    batch = len(z)
    zeros, whole = np.zeros(batch), np.zeros(batch, dtype=int)
    it = Iterate(z.copy(), chain.evaluate(z), zeros.copy(), zeros + 1e-8, np.full(batch, End.RUNNING), whole.copy(), whole.copy(),
                 whole.copy(), zeros + 1.0, zeros + np.inf)  # fmt: skip
    _mark_not_finite(it)
    while np.any(it.end == End.RUNNING):
        _iterate(chain, it, settings, linear)
    residual = np.max(np.abs(it.at.gradient[..., chain.primal]), axis=(1, 2))
    return Report(it.z, it.end, it.iterations, it.update, residual, it.at.violation, it.at.objective, it.shift, it.restorations,
                  it.factorizations, it.pivots)  # fmt: skip


def _iterate(chain: Chain, it: Iterate, settings: Settings, linear) -> None:
    """One step of every running path."""
    running = it.end == End.RUNNING
    step, factors = _direction(chain, it, settings, linear, running)
    running &= it.end == End.RUNNING
    size = 1.0 + np.max(np.abs(np.where(chain.primal, it.z, 0.0)), axis=(1, 2))
    it.update = np.where(running, np.max(np.abs(np.where(chain.primal, step, 0.0)), axis=(1, 2)) / size, it.update)
    small = running & (it.update <= settings.tolerance) & (it.at.violation <= settings.tolerance * size)
    length, z, at = _search(chain, it, step, settings, linear, factors, running)
    failed = running & (length == 0.0) & ~small
    moved = running & ~failed
    it.z[moved], it.at = z[moved], _merge(it.at, at, moved)
    it.iterations[moved] += 1
    it.end[small] = End.CONVERGED
    if failed.any():
        _restore(chain, it, settings, linear, failed)
    it.end[(it.end == End.RUNNING) & (it.iterations >= settings.max_iterations)] = End.NOT_CONVERGED


def _direction(chain: Chain, it: Iterate, settings: Settings, linear, running):
    """Newton's step, the shift raised until the curvature along it is positive."""
    step, need = np.zeros_like(it.z), running.copy()
    relax = np.zeros(len(need))
    it.shift = np.where(it.shift < settings.first_shift, 0.0, it.shift / 3.0)
    factors = None
    while need.any():
        found = linear.factor(chain.matrix([v[need] for v in it.at.values], it.shift[need], relax[need]))
        it.factorizations[need] += 1
        right = chain.to_rows(-it.at.gradient[need])
        trial = chain.from_rows(linear.solve(found, right))
        bad = (found.singular >= 0) | ~np.all(np.isfinite(trial), axis=(1, 2))
        dx = np.where(chain.primal, trial, 0.0)
        g = it.at.gradient[need]
        curved = -np.sum(dx * g, axis=(1, 2)) - np.sum(np.where(chain.primal, 0.0, -g * trial), axis=(1, 2))
        enough = curved >= settings.curvature * np.sum(dx * dx * chain.weights, axis=(1, 2))
        good = ~bad & enough
        index = np.flatnonzero(need)
        step[index[good]] = trial[good]
        it.pivots[index] = np.where(bad, 0.0, found.pivots)
        if good.all() and len(index) == len(running):
            factors = found
        need[index[good]] = False
        again = index[~good]
        relax[index[bad]] = 1e-8
        it.shift[again] = np.where(it.shift[again] == 0.0, settings.first_shift, 8.0 * it.shift[again])
        lost = again[it.shift[again] > settings.largest_shift]
        it.end[lost], need[lost] = End.SINGULAR, False
    return step, factors


def _search(chain: Chain, it: Iterate, step, settings: Settings, linear, factors, running):
    """Step lengths by halving, Armijo's condition on Σf + ρ|c|₁, with one correction of the constraints at full length."""
    c, g = it.at.violation, it.at.gradient
    primal = np.where(chain.primal, 1.0, 0.0)
    dx, dn = step * primal, step * (1 - primal)
    rows = g * (1 - primal)
    slope = np.sum(g * dx, axis=(1, 2)) + np.sum(rows * it.z, axis=(1, 2))  # ∇f·dx, since A dx = -c
    curved = np.maximum(-np.sum(dx * g, axis=(1, 2)) + np.sum(rows * dn, axis=(1, 2)), 0.0)
    wanted = np.where(c > 1e-14, (slope + 0.5 * curved) / (0.9 * np.maximum(c, 1e-300)), 0.0)
    it.penalty = np.where(running & (it.penalty < wanted), 1.5 * wanted, it.penalty)
    descent = slope - it.penalty * c
    merit = it.at.objective + it.penalty * c
    noise = 1e-13 * (np.abs(it.at.objective) + np.abs(merit))
    norm = _norm(g)
    length, left = np.where(running, 1.0, 0.0), running.copy()
    z, at = it.z.copy(), it.at
    while left.any():
        trial = it.z + length[:, None, None] * step
        new = chain.evaluate(trial)
        value = new.objective + it.penalty * new.violation
        ok = left & (value <= merit + settings.armijo * length * descent + noise)
        ok |= left & (length == 1.0) & (_norm(new.gradient) <= 0.5 * norm)
        ok &= np.isfinite(value) & np.all(np.isfinite(new.gradient), axis=(1, 2))
        z[ok] = trial[ok]
        at = _merge(at, new, ok)
        left &= ~ok
        length[left] *= 0.5
        gone = left & (length < settings.shortest)
        length[gone], left = 0.0, left & ~gone
    return length, z, at


def _norm(gradient) -> np.ndarray:
    return np.sqrt(np.sum(gradient**2, axis=(1, 2)))


def _merge(old: Evaluation, new: Evaluation, which: np.ndarray) -> Evaluation:
    """The new evaluation where `which`, the old one elsewhere."""
    if which.all():
        return new

    def choose(a, b):
        return np.where(which.reshape(-1, *[1] * (a.ndim - 1)), b, a)

    values = [choose(a, b) for a, b in zip(old.values, new.values, strict=True)]
    return Evaluation(
        choose(old.objective, new.objective),
        choose(old.violation, new.violation),
        choose(old.gradient, new.gradient),
        values,
    )


def _mark_not_finite(it: Iterate) -> None:
    bad = ~(np.isfinite(it.at.objective) & np.all(np.isfinite(it.at.gradient), axis=(1, 2)))
    it.end[bad] = End.NOT_FINITE


def _restore(chain: Chain, it: Iterate, settings: Settings, linear, failed) -> None:
    """Levenberg-Marquardt steps on |c|² until it has fallen to a tenth; where it has a minimum that is not zero: infeasible."""
    it.restorations[failed] += 1
    begin = it.at.violation.copy()
    damping, left = np.full(len(failed), 1e-8), failed.copy()
    stuck = np.zeros(len(failed), dtype=bool)
    for _ in range(settings.max_iterations):
        if not left.any():
            break
        matrix = chain.matrix([v for v in it.at.values], np.where(left, 1.0, 0.0), damping, plain=True)
        found = linear.factor(matrix)
        it.factorizations[left] += 1
        rows = np.where(chain.primal, 0.0, it.at.gradient)
        step = np.where(chain.primal, chain.from_rows(linear.solve(found, chain.to_rows(-rows))), 0.0)
        step = np.where(np.isfinite(step), step, 0.0)
        trial = it.z + step
        new = chain.evaluate(trial)
        before, after = _norm(rows), _norm(np.where(chain.primal, 0.0, new.gradient))
        better = left & np.isfinite(after) & (after < before * (1.0 - 1e-3))
        it.z[better] = trial[better]
        it.at = _merge(it.at, new, better)
        it.iterations[better] += 1
        damping = np.where(better, np.maximum(damping / 10.0, 1e-12), damping * 10.0)
        stuck |= left & ~better & (damping > 1e8)
        left &= ~stuck & ~(it.at.violation <= 0.1 * begin)
    size = 1.0 + np.max(np.abs(np.where(chain.primal, it.z, 0.0)), axis=(1, 2))
    violated = it.at.violation > 1e3 * settings.tolerance * size
    it.end[failed & (stuck | left)] = End.NOT_CONVERGED
    it.end[failed & (stuck | left) & violated] = End.INFEASIBLE
    again = failed & (it.end == End.RUNNING)
    if again.any():
        _estimate_multipliers(chain, it, linear, again)


def _estimate_multipliers(chain: Chain, it: Iterate, linear, which) -> None:
    """The multipliers that make ∇f + Aᵀν smallest."""
    z = np.where(which[:, None, None] & ~chain.primal, 0.0, it.z)
    at = chain.evaluate(z)
    ones = np.ones(len(which))
    found = linear.factor(chain.matrix(at.values, ones, 1e-12 * ones, plain=True))
    right = np.where(chain.primal, -at.gradient, 0.0)
    solution = chain.from_rows(linear.solve(found, chain.to_rows(right)))
    good = which & np.all(np.isfinite(solution), axis=(1, 2))
    it.z[good] = np.where(chain.primal, it.z, solution)[good]
    it.penalty[good] = 1e-8
    it.at = _merge(it.at, chain.evaluate(it.z), good)
