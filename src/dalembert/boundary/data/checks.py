"""Errors before the iteration: dependent constraints, a singular Lagrangian, ends off the constraints; and the first path,
moved onto those that are holonomic."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from dalembert.algebra import least_norm, numerical_rank
from dalembert.boundary.data.end_sets import slots_of_node
from dalembert.boundary.data.ends import EndData, FilledSlots
from dalembert.boundary.data.sizes import Densities, Sizes, median_size
from dalembert.discretize import Windows
from dalembert.systems import (
    InconsistentDataError,
    RankDeficientError,
    VariationalProblem,
    constraint_rates,
    density,
    differential_constraints,
    holonomic_constraints,
    orders_of,
)
from dalembert.systems.higher.variational import constraint_derivatives
from dalembert.systems.sizes import residual_limit
from dalembert.tracing import over_rows, seldom

SAMPLES = 5
APART = 0.1  # how far from the first path the other sample points are, in typical sizes
ZERO = 1e-8
SINGULAR = 1e-10


def densities(problem: VariationalProblem, jets: np.ndarray, times: np.ndarray, timed: bool) -> Densities:
    """Medians of derivatives of L and of the constraints at jets (samples, k+1, n) of the first path, 0 where they are not
    finite. timed: whether the final time is free."""
    found = jax.tree.map(np.asarray, over_rows(_derivatives, (jets, times), problem))
    _, slopes, _, holonomic, hessian, value = found
    inertia = median_size(np.diagonal(hessian, axis1=1, axis2=2))
    return Densities(inertia, median_size(slopes), median_size(holonomic), float(median_size(value)) if timed else 0.0)


def check_problem(
    problem: VariationalProblem, jets: np.ndarray, times: np.ndarray, sizes: Sizes, bounded: Bool[np.ndarray, "n"]
) -> None:
    """Rank of the constraints and regularity of L at sample points: RankDeficientError, ValueError naming what is wrong.

    jets: (samples, k+1, n) of the first path; bounded: coordinates with bounds on both sides, which determine what nothing
    else does. What is wrong at all samples is wrong; at some it may be a bad guess.
    """
    random = np.random.default_rng(0)
    size = sizes.of(np.arange(jets.shape[1]))
    jet = jets + APART * random.standard_normal(jets.shape) * (size + np.abs(jets))
    found = jax.tree.map(np.asarray, over_rows(_derivatives, (jet, times), problem))
    values, slopes, holonomic_values, holonomic_slopes, hessian, _ = found
    slopes, holonomic_slopes = slopes * size, holonomic_slopes * size[0]
    hessian = hessian * size[-1] * size[-1][:, None]
    n, m, mh = jets.shape[2], slopes.shape[1], holonomic_slopes.shape[1]
    if m + mh > n:
        raise RankDeficientError(
            f"constraints: found {m} with derivatives and {mh} holonomic equations for n = {n} coordinates; at most n are "
            "independent along a path. Leave out those that follow from the others"
        )
    if not all(np.all(np.isfinite(x)) for x in found):
        return
    _check_rank(
        values,
        slopes.reshape(*slopes.shape[:2], slopes.shape[2] * slopes.shape[3]),
        "constraints (those that are not holonomic)",
    )
    _check_rank(holonomic_values, holonomic_slopes, "constraints (the holonomic ones)")
    if m and mh:
        _check_against_holonomic(problem, jet, times, values, slopes.reshape(*slopes.shape[:2], -1), size)
    highest = slopes[:, np.arange(m), list(orders_of(problem, n))]
    _check_highest(np.concatenate([highest, holonomic_slopes], axis=1), m)
    held = np.tile(np.eye(n)[bounded], (len(jet), 1, 1))
    rows = np.concatenate([highest, holonomic_slopes, held], axis=1)
    flat = _flat_directions(hessian, rows)
    if len(flat) and m:  # with multipliers, as L = 1 and |q̇|² = c² have them, L + λφ may be regular where L is not
        curved = np.asarray(over_rows(_curvatures, (jet, times), problem)) * size[-1] * size[-1][:, None]
        weights = random.uniform(0.5, 1.5, m) * sizes.action / sizes.differential
        flat = _flat_directions(hessian + np.einsum("m,smij->sij", weights, curved), rows)
    if len(flat):
        _refuse_singular(problem, flat)


def check_gap(problem: VariationalProblem, end: EndData | None, name: str) -> None:
    """ValueError where a derivative is given, one below it is free, and constraints join the two."""
    if (
        end is None
        or end.gap is None
        or not (problem.holonomic or any(i < problem.derivatives for i, _ in problem.differential))
    ):
        return
    given = end.given.index(True, end.gap)
    raise ValueError(
        f"{name}: found derivative {given} given and {end.gap} free (None), which constraints of lower order than L join: "
        "what they leave of the given one depends on where the end is. Give that part as a set, On(lambda q, v: …), with "
        "one equation for each direction that the constraints leave"
    )


def check_given_rates(
    at: Callable[[int], VariationalProblem],
    w: Windows,
    slots: FilledSlots,
    points: np.ndarray,
    sizes: Sizes,
    origin: np.ndarray,
) -> None:
    """φ = 0, dφ/dt = 0, … of every constraint at each node, as many as are determined by what is given there.

    Derivatives that repeat what a constraint implies are no equations of their own, but they have to agree. at: the problem
    as the slots of a node have it. slots: values (batch, slots, n), of which those that are fixed are given, positions
    counted from the origin. points: nodes to pass.
    """
    (fixed, values), mh = slots, len(at(0).holonomic)
    names = {0: "initial", len(w.t) - 1: "final"} | {int(i): f"through: the point at t = {w.t[i]:g}" for i in points}
    for node in np.unique(w.owners[fixed & (w.orders == 0)]).tolist() if mh or at(0).differential else ():
        own = slots_of_node(w, node)
        given = values[:, own[: np.argmin(np.append(fixed[own], False))]]
        near = np.broadcast_to(sizes.of(np.arange(given.shape[1])), given.shape).copy()
        near[:, 1:] = np.maximum(near[:, 1:], np.abs(given[:, 1:]))
        here = given + origin * (np.arange(given.shape[1]) == 0)[:, None]
        for i, (rates, slopes) in enumerate(zip(*_given_rates(at(node), given, w.t[node]), strict=True)):
            what = f"constraint {i - mh}" if i >= mh else f"holonomic constraint {i}"
            for order, (offs, rows) in enumerate(zip(rates, slopes, strict=True)):
                kept = np.arange(given.shape[1]) == 1 if i < mh and order == 1 else True  # of dφ/dt against ∂φ/∂q v alone
                flat = (np.asarray(rows) * np.reshape(kept, (-1, 1))).reshape(*offs.shape, -1)
                limits = residual_limit(flat, near.reshape(len(near), -1), here.reshape(len(here), -1))
                for off, limit in zip(np.asarray(offs), limits, strict=True):
                    if not np.all(np.abs(off) <= limit):
                        symbols = ("φ of ", "dφ/dt of ") if i < mh else ("",)
                        rate = symbols[order] if order < len(symbols) else f"derivative {order} of "
                        raise InconsistentDataError(
                            f"{names.get(node, f'node {node}')}: {rate}{what} is {off} there, and not 0: the given data "
                            "do not satisfy it"
                        )


@seldom
def _given_rates(problem: VariationalProblem, jets, t):
    """The rates of every constraint, and their derivatives by the jet."""
    rates = lambda jet: constraint_rates(problem, jet, t)  # noqa: E731
    return jax.vmap(lambda jet: (rates(jet), jax.jacfwd(rates)(jet)))(jnp.asarray(jets))


def _derivatives(problem: VariationalProblem, jet, t):
    def phi(x):
        return differential_constraints(problem, tuple(x), t)

    hessian = jax.hessian(lambda y: density(problem, (*jet[:-1], y), t))(jet[-1])
    return (
        phi(jet), jax.jacfwd(phi)(jet), holonomic_constraints(problem, jet[0], t),
        jax.jacfwd(lambda q: holonomic_constraints(problem, q, t))(jet[0]), hessian, density(problem, tuple(jet), t),
    )  # fmt: skip


def _check_rank(values: np.ndarray, slopes: np.ndarray, name: str) -> None:
    """Rows that depend on the others at every sample: redundant where the values agree with it, else contradictory."""
    if not slopes.shape[1]:
        return
    ranks = [numerical_rank(s) for s in slopes]
    if any(r.full for r in ranks):
        return
    row = ranks[0].dependent_rows[0]
    others = [i for i in range(slopes.shape[1]) if i != row]
    agree = True
    for value, slope in zip(values, slopes, strict=True):
        weights = np.linalg.lstsq(slope[others].T, slope[row], rcond=None)[0] if others else np.zeros(0)
        agree &= bool(abs(value[row] - weights @ value[others]) <= ZERO * (np.abs(slope[row]).max() + abs(value[row])))
    if np.max(np.abs(slopes[:, row])) == 0.0:
        raise RankDeficientError(f"{name}: component {row} depends on nothing that moves; leave it out or correct it")
    what = (
        "is redundant: it follows from the others. Leave it out"
        if agree
        else "contradicts the others: their gradients agree, their values do not"
    )
    raise RankDeficientError(f"{name}: component {row} {what}")


def _check_highest(rows: np.ndarray, m: int) -> None:
    """The gradients by the highest derivatives are independent: otherwise a combination of rates has a lower order."""
    if not m:
        return
    ranks = [numerical_rank(r) for r in rows]
    if not any(r.full for r in ranks):
        row = ranks[0].dependent_rows[0]
        name = f"component {row} of those with derivatives" if row < m else f"holonomic component {row - m}"
        raise RankDeficientError(
            f"constraints: {name} has a gradient by its highest derivative that depends on those of the others, so that a "
            "combination of them and their time derivatives is a constraint of lower order. Give that one in its place"
        )


def _check_against_holonomic(problem: VariationalProblem, jets, times, values, slopes, size) -> None:
    """Equations that are a combination of φ, dφ/dt, …, dᵏφ/dtᵏ of the holonomic constraints at every sample."""
    found = [np.asarray(x) for x in over_rows(_holonomic_rates, (jets, times), problem)]
    found[1] = found[1] * size.ravel()
    if not all(np.all(np.isfinite(x)) for x in found) or not all(numerical_rank(s).full for s in found[1]):
        return
    for row in range(slopes.shape[1]):
        off = []
        for known, rates, value, slope in zip(*found, values[:, row], slopes[:, row], strict=True):
            if numerical_rank(np.vstack([rates, slope])).full:
                break
            weights = np.linalg.lstsq(rates.T, slope, rcond=None)[0]
            off.append(abs(value - weights @ known) / (np.abs(slope).max() + abs(value)))
        else:
            what = "is redundant: it follows from" if max(off) <= ZERO else "contradicts"
            raise RankDeficientError(
                f"constraints (those that are not holonomic): component {row} {what} the holonomic ones and their time "
                "derivatives. Leave it out"
            )


def _holonomic_rates(problem: VariationalProblem, jet, t):
    """φ, …, dᵏφ/dtᵏ, ((k+1)mh,), and their slopes in the jet."""
    rates = lambda x: constraint_derivatives(problem, 0, x.reshape(jet.shape), t).ravel()  # noqa: E731
    return rates(jet.ravel()), jax.jacfwd(rates)(jet.ravel())


def _curvatures(problem: VariationalProblem, jet, t):
    """∂²φ/∂q⁽ᵏ⁾∂q⁽ᵏ⁾ of every constraint, (m, n, n)."""
    return jax.hessian(lambda y: differential_constraints(problem, (*jet[:-1], y), t))(jet[-1])


def _flat_directions(hessian: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Directions, (samples, n), in which ∂²L/∂q⁽ᵏ⁾∂q⁽ᵏ⁾ vanishes on the kernel of the constraints' gradients by their
    highest derivatives, where it is singular there at all samples, otherwise none; all in typical sizes."""
    worst = []
    for h, a in zip(hessian, rows, strict=True):
        lengths = np.linalg.norm(a, axis=1, keepdims=True)
        a = a / np.where(lengths > 0.0, lengths, 1.0)
        _, s, right = np.linalg.svd(a) if len(a) else (None, np.zeros(0), np.eye(h.shape[0]))
        kernel = right[int(np.sum(s > SINGULAR)) :].T
        reduced = kernel.T @ h @ kernel
        if not kernel.shape[1] or np.min(np.abs(np.linalg.eigvalsh(reduced))) > SINGULAR * np.abs(h).max():
            return np.zeros((0, h.shape[0]))
        worst.append(np.abs(kernel @ np.linalg.eigh(reduced)[1][:, np.argmin(np.abs(np.linalg.eigvalsh(reduced)))]))
    return np.array(worst)


def _refuse_singular(problem: VariationalProblem, flat: np.ndarray) -> None:
    names = problem.coordinates or [f"q[{i}]" for i in range(flat.shape[1])]
    which = ", ".join(name for name, w in zip(names, np.max(flat, axis=0), strict=True) if w > 0.1)
    k = problem.derivatives
    raise ValueError(
        f"lagrangian: is singular: it depends at most linearly on the {k}-th derivative of {which}, where no constraint "
        "determines it (∂²L/∂q⁽ᵏ⁾∂q⁽ᵏ⁾ on the directions left by the constraints). Use fewer derivatives, or "
        "add a term that makes it regular, or bounds on both sides"
    )


PROJECTIONS = 20


def onto_constraints(problem: VariationalProblem, w: Windows, fixed: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The slots (batch, slots, n) with every free position moved to a near point of φ = 0, and free velocities tangent."""
    if not problem.holonomic:
        return values
    values, velocities = values.copy(), np.flatnonzero(w.orders == 1)
    v = np.zeros((len(values), *values[0, w.nodes].shape))
    v[:, w.owners[velocities]] = values[:, velocities]
    q, v = (np.asarray(x) for x in _nearest_states(problem, values[:, w.nodes], v, w.t))
    for slots, found in ((w.nodes, q), (velocities, v[:, w.owners[velocities]])):
        good = ~fixed[slots] & np.all(np.isfinite(found), axis=2)  # dependent constraints are named later
        values[:, slots] = np.where(good[:, :, None], found, values[:, slots])
    return values


@seldom
def _nearest_states(problem, q, v, t):
    """Positions with φ = 0, and velocities with dφ/dt = 0 there, of a batch of paths."""

    def one(x, u, s):
        phi = lambda y, r: holonomic_constraints(problem, y, r)  # noqa: E731
        slope = jax.jacfwd(phi)
        x = jax.lax.fori_loop(0, PROJECTIONS, lambda _, y: y - least_norm(slope(y, s), phi(y, s)), x)
        _, off = jax.jvp(phi, (x, s), (u, jnp.ones(())))
        return x, u - least_norm(slope(x, s), off)

    return jax.vmap(lambda x, u: jax.vmap(one)(x, u, t))(jnp.asarray(q), jnp.asarray(v))
