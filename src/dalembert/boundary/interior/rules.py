"""When a step of the interior point method is taken, and what follows from it, for Python and for machine code alike.

    θ₊ ≤ (1 - γ)θ  or  ϕ₊ ≤ ϕ - γθ   (filter),   ϕ₊ ≤ ϕ + ηt ∇ϕ·dx   (where ϕ is what a step has to lower)

Every function takes numbers, JAX's where the tracer turns it into machine code, or floats with xp=NumPy. A standing has a
violation θ and a barrier function ϕ; errors are those of the equations; a last step has an update, a shift and whether it
was whole, neither shortened nor corrected, as 1.0 or 0.0.
Source: A. Wächter, L. T. Biegler, Math. Program. 106 (2006), whose symbols and constants these are.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax.numpy as jnp

from dalembert.boundary.kkt.linear import accurate, converging  # noqa: F401  machine code finds all rules here
from dalembert.boundary.newton import ARMIJO, NOISE

MARGIN = 1e-5  # γ_θ, γ_ϕ
POWERS = (2.3, 1.1)  # s_ϕ, s_θ
FALL, POWER, SOLVED = 0.2, 1.5, 10.0  # κ_μ, θ_μ, κ_ε
NEAREST = 0.99  # least τ
SPREAD = 1e10  # κ_Σ: multipliers stay within this factor of μ/s
LARGE_MULTIPLIER = 100.0  # s_max
SHIFTS = (1e-20, 1e-4, 1e20)  # δ: least, first, largest
RAISES = (100.0, 8.0, 3.0)  # by how much δ is raised at first and then, and by how much it falls
SHORTEST = 1e-12  # step length
FAR = 0.25  # of what positions reach: linearized constraints say little of a step that moves them farther
CORRECTIONS = 4  # of second order
SHORT, CUT = 0.5, 0.5  # step length below which slacks are cut one by one, where that leaves this part of the violation
JAMMED, PATIENCE = 0.05, 3  # step length of a path that slacks stop, and how many such steps raise μ
RAISE, RAISED, LARGEST_BARRIER = 10.0, 10, 1e3  # by how much, how often, and to what at most
WATCHED, TRIALS = 5, 3  # shortened steps one after the other, after which so many whole ones are tried
RETURNS = 3  # watchdogs without success one after the other, after which the constraints come first
FARTHEST = 1e8  # times what the path reaches: a longer step is that of constraints which contradict each other
WORSE = 0.99  # of the violation, which a correction has to lower more


class Standing(NamedTuple):
    """Violation θ and barrier function ϕ of a point."""

    violation: Any
    barrier: Any

    @property
    def finite(self) -> bool:
        return math.isfinite(self.violation) and math.isfinite(self.barrier)


class BarrierErrors(NamedTuple):
    """Of the equations: dual, relative to the multipliers; primal; and of complementarity."""

    dual: Any
    violation: Any
    complementarity: Any


class LastStep(NamedTuple):
    """Its relative size, the shift of its matrix, and whether it was whole."""

    update: Any
    shift: Any
    whole: Any


def magnitude(own, multipliers, count, *, xp: Any = jnp):
    """Scale s_d to which the gradient is relative, from Σ|ν| and Σz, so many together."""
    return xp.maximum(1.0, (own + multipliers) / count / LARGE_MULTIPLIER)


def at_rounding(last, tolerance):
    """True if what is left of the gradient is rounding: a whole step of Newton's has changed nothing."""
    return (last.whole > 0.0) & (last.shift == 0.0) & (last.update <= tolerance)


def meets_tolerance(errors, last, relative, largest, tolerance):
    """relative: the violation relative to the path; largest: update, the promise of `solve` where no bound stops a step."""
    feasible = (errors.violation <= tolerance) | (relative <= tolerance)
    stationary = (errors.dual <= tolerance) | at_rounding(last, tolerance)
    return (last.update <= largest) & (errors.complementarity <= tolerance) & feasible & stationary


def exceeds_barrier(barrier, errors, last, tolerance, *, xp: Any = jnp):
    """True if the equations of the present μ are still to be solved: on long paths rounding alone violates them by more than
    a small μ."""
    enough = SOLVED * barrier
    moving = xp.logical_not(at_rounding(last, tolerance))
    return (errors.complementarity > enough) | (((errors.violation > enough) | (errors.dual > enough)) & moving)


def lower_barrier(barrier, least, *, xp: Any = jnp):
    """The next μ."""
    return xp.maximum(least, xp.minimum(FALL * barrier, barrier**POWER))


def raise_shift(shift, needed, *, xp: Any = jnp):
    """The next δ; needed: the one that was last, 0 if none was."""
    first = xp.where(needed > 0.0, xp.maximum(SHIFTS[0], needed / RAISES[2]), SHIFTS[1])
    return xp.where(shift == 0.0, first, shift * xp.where(needed > 0.0, RAISES[1], RAISES[0]))


def affordable(shift):
    return shift <= SHIFTS[2]


def locally_infeasible(violation, shift, update, tolerance, *, xp: Any = jnp):
    """True if locally infeasible: the linearized constraints have no solution near, and no line search makes a step of
    it."""
    return (violation > tolerance) & (shift == 0.0) & xp.logical_not(update < FARTHEST)


def fraction(barrier, *, xp: Any = jnp):
    """τ, of a slack that a step may take."""
    return xp.maximum(NEAREST, 1.0 - barrier)


def descent(at, slope, length, small, tolerance, *, xp: Any = jnp):
    """True if ϕ is what such a step has to lower. slope: of ϕ along the whole step; small: the violation from which on."""
    falls = length * xp.maximum(-slope, 0.0) ** POWERS[0] > at.violation ** POWERS[1]
    return (slope < 0.0) & (at.violation <= small) & ((at.violation <= tolerance) | falls)


def acceptable(at, new, slope, length, update, small, tolerance, *, xp: Any = jnp):
    """True if a step of this length from `at` to `new` is acceptable where the filter allows it. update: of the whole step;
    one that goes far has to lower the violation, as long as there is any."""
    noise = 10.0 * NOISE * abs(at.barrier)
    armijo = new.barrier <= at.barrier + ARMIJO * length * slope + noise
    less = (new.violation <= (1.0 - MARGIN) * at.violation) | (new.barrier <= at.barrier - MARGIN * at.violation + noise)
    feasible = new.violation <= xp.maximum((1.0 - MARGIN) * at.violation, tolerance)
    good = xp.where(descent(at, slope, length, small, tolerance, xp=xp), armijo, less)
    return good & (feasible | (length * update <= FAR))


def augments_filter(at, reached, slope, length, small, tolerance, *, xp: Any = jnp):
    """True if the point that is left goes into the filter."""
    falls = reached.barrier <= at.barrier + ARMIJO * length * slope
    return xp.logical_not(descent(at, slope, length, small, tolerance, xp=xp) & falls)


def corner_violation(at, tolerance, *, xp: Any = jnp):
    """The violation that no other may have whose ϕ is larger than `corner_barrier`."""
    return xp.maximum((1.0 - MARGIN) * at.violation, tolerance)


def corner_barrier(at):
    return at.barrier - MARGIN * at.violation


def better(new, violation, barrier):
    """True if one point of the filter is not as good."""
    return (new.violation <= violation) | (new.barrier <= barrier)


def long_enough(length):
    return length >= SHORTEST


def slack_stops(length, violation, tolerance):
    """True if slacks are to be cut one by one."""
    return (length < SHORT) & (violation > tolerance)


def much_better(at, new):
    """True if slacks that are cut one by one leave so much less violation that it is worth it."""
    return new.violation <= CUT * at.violation


def no_better(new, before):
    """True if corrections of second order end, as the last one hardly lowers the violation."""
    return new.violation > WORSE * before


def count_tiny_steps(length, jammed, *, xp: Any = jnp):
    """Number of steps one after the other that slacks have stopped."""
    return xp.where(length < JAMMED, jammed + 1.0, 0.0)


def patient(jammed, barrier, raises, *, xp: Any = jnp):
    """The same, 0 where μ is not to be raised any more."""
    return xp.where((barrier < LARGEST_BARRIER) & (raises < RAISED), jammed, 0.0)


def takes_tiny_steps(jammed):
    return jammed >= PATIENCE


def shortens(halved, shortened, *, xp: Any = jnp):
    """Number of steps one after the other that the filter has shortened; halved: whether the last one, 1.0 or 0.0."""
    return xp.where(halved > 0.0, shortened + 1.0, 0.0)


def watches(shortened):
    return shortened >= WATCHED


def raise_barrier(barrier, *, xp: Any = jnp):
    """A larger μ."""
    return xp.minimum(LARGEST_BARRIER, RAISE * barrier)


def clip_multiplier(multiplier, slack, barrier, *, xp: Any = jnp):
    """A multiplier, back to where it is near μ/s."""
    middle = barrier / slack
    return xp.minimum(xp.maximum(multiplier, middle / SPREAD), middle * SPREAD)
