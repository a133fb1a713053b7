"""Whole interior steps on a KKT system, as machine code. When a step is taken say boundary/interior/rules.py.

    diagonal of K + κz/(U²s),   right = -∇L̃ ± κμ/(Us),   K x = right,   z + αx  (α from the slacks, halved)

`interior` is the loop: it returns where something is met that it does not know, as if nothing of the iteration had happened,
or at the end. `rules` are constants of the program; all numbers of terms and coordinates are given, so that all problems
share it.
"""

from __future__ import annotations

import math
from typing import Any

from dalembert.native.llvm.dense import copy
from dalembert.native.llvm.packing import Packing
from dalembert.native.llvm.subset import Real, Reals, Record, Truth, Whole, atomic, local, machine, program

WORDS = Packing.words(
    "blocks", "size", "fixed_count", "monitored_count", "most", "bound_count", "room", "constraints", "stop",
    "terms", "coordinates",
    Wholes=("fixed_places", "monitored", "places"), Address=("first", "forward", "backward", "negative", "data"),
    Reals=("z", "g", "new_z", "new_g", "x", "y", "w", "right", "other", "constraints_sum", "stored", "free", "fixed_blocks",
           "unit", "added", "diagonal", "pivots", "nudge", "shifted", "dual", "held", "rows", "unknowns", "primal", "spans",
           "positions", "sizes", "violations", "per_action", "flat_units", "limits", "scales", "reaches", "presses",
           "pushes", "stiffness", "multipliers", "slacks", "new_slacks", "dual_step", "filter", "norms", "reach"),
)  # fmt: skip
TERM = Packing.words("number", "offset", Address=("gradient", "product"),
                     Reals=("gradient_rows", "gradient_shared", "product_rows", "product_shared"))  # fmt: skip
SCALARS = Packing.scalars(
    "tolerance", "least", "largest_update", "count", "curvature", "small", "largest", "corrections", "barrier", "last_shift",
    "shift", "update", "whole", "jammed", "raises", "shortened", "iterations", "factorizations", "trusted", "sound",
    "nudged", "corners", "objective", "violation", "norm", "theta", "logarithms", "new_objective", "new_violation",
    "new_norm", "new_theta", "new_logarithms", "new_finite", "allowed",
)  # fmt: skip
TRIAL = Packing.scalars("shift", "trusted", "sound", "factorizations", "jammed", "whole", "length", "first", "own", "along",
                        "update", "fraction")  # fmt: skip
REFUSED, CONVERGED, LIMIT = 0, 1, 2
TAKEN, HALVED = 1, 2  # beside REFUSED: what corrections come to
REFINEMENTS = 6  # of a solution
RANGE = 1e-150, 1e150  # of products of slacks, whose logarithm is then taken
INFINITY, STOP = math.inf, WORDS.offset("stop")
rules: Any = None  # a constant of the program


def interior_text(rules: Any) -> str:
    """The module of `interior`."""
    return program([point, solution, interior], rules=rules)


@machine(job=WORDS, values=SCALARS, constant=["job"])
def interior(job: Any, values: Any) -> Whole:
    """Steps until the equations are solved, CONVERGED; until there are as many as allowed, LIMIT; or REFUSED."""
    trial = Record(TRIAL, local(TRIAL.size))
    measure(job)
    while True:
        if values.iterations >= float(job.most):
            return LIMIT
        dual, magnitude, most, least = residuals(job, values)
        last = rules.LastStep(values.update, values.shift, values.whole)
        errors = barrier_errors(values, 0.0, dual, magnitude, most, least)
        relative = values.violation / job.reach[job.coordinates]
        if rules.meets_tolerance(errors, last, relative, values.largest_update, values.tolerance):
            return CONVERGED
        while values.barrier > values.least:  # the filter is empty with each new one
            errors = barrier_errors(values, values.barrier, dual, magnitude, most, least)
            if rules.exceeds_barrier(values.barrier, errors, last, values.tolerance):
                break
            values.barrier = rules.lower_barrier(values.barrier, values.least)
            values.corners, values.shortened = 0.0, 0.0
        if rules.watches(values.shortened):
            return REFUSED
        write_equations(job, values)
        if not factorize(job, values, trial):
            return REFUSED
        find_lengths(job, values, trial)
        at = standing(values, values.theta, values.objective, values.logarithms)
        if not search(job, values, trial, at):
            return REFUSED
        if not remember(job, values, trial, at):
            return REFUSED
        arrive(job, values, trial)
        measure(job)
        values.jammed = rules.patient(trial.jammed, values.barrier, values.raises)
        if rules.takes_tiny_steps(values.jammed):
            values.jammed, values.shortened, values.corners = 0.0, 0.0, 0.0
            values.raises += 1.0
            values.barrier = rules.raise_barrier(values.barrier)


def standing(values: Any, violation: Real, objective: Real, logarithms: Real) -> Any:
    """θ and ϕ of a point."""
    return rules.Standing(violation, objective / values.curvature - values.barrier * logarithms)


def new_standing(values: Any) -> Any:
    return standing(values, values.new_theta, values.new_objective, values.new_logarithms)


def is_finite(x: Real) -> Truth:
    return abs(x) < INFINITY


def is_stopped(job: Any) -> Truth:
    """True if Ctrl-C asks for the end, which is as where something is met that the loop does not know."""
    return atomic(job[STOP:]) != 0


def max_norms(job: Any, v: Reals) -> Reals:
    """max|v_j| over the positions of every coordinate."""
    count = job.coordinates
    for j in range(count):
        largest = 0.0
        for i in range(job.monitored_count):
            largest = max(largest, job.spans[i] * abs(v[job.monitored[i * count + j]]))
        job.norms[j] = largest
    return job.norms


def measure(job: Any) -> None:
    """s + max|q| of every coordinate, and then the largest of them in typical sizes."""
    count, norms = job.coordinates, max_norms(job, job.z)
    for j in range(count):
        job.reach[j] = job.sizes[j] + norms[j]
    job.reach[count] = largest_ratio(count, job.reach, job.positions)


def largest_ratio(count: Whole, norms: Reals, sizes: Reals) -> Real:
    found = norms[0] / sizes[0]
    for j in range(1, count):
        found = max(found, norms[j] / sizes[j])
    return found


@machine(flags="reassoc contract")
def scaled_gradient(job: Any) -> Real:
    """Σ|ν|; y = the gradient of the unknowns in units of κ."""
    own = 0.0
    for i in range(job.blocks * job.size):
        job.y[i] = job.g[i] * job.dual[i]
        own += abs(job.z[i]) * job.held[i]
    return own


@machine(flags="nnan nsz")
def largest_of(count: Whole, x: Reals) -> Real:
    found = 0.0
    for i in range(count):
        found = max(found, abs(x[i]))
    return found


def residuals(job: Any, values: Any) -> tuple[Real, Real, Real, Real]:
    """The largest |∇L̃ ∓ κz/U| in units of κ, relative; what it is relative to; the span of sz."""
    own, total, most, least = scaled_gradient(job), 0.0, -INFINITY, INFINITY
    for j in range(job.bound_count):
        place, m = job.places[j], job.multipliers[j]
        job.y[place] -= job.presses[j] * m
        total += m
        product = job.slacks[j] * m
        most, least = max(most, product), min(least, product)
    magnitude = rules.magnitude(own, total, values.count)
    return largest_of(job.blocks * job.size, job.y) / magnitude, magnitude, most, least


def barrier_errors(values: Any, barrier: Real, dual: Real, magnitude: Real, most: Real, least: Real) -> Any:
    """Against the equations of this μ; max|sz - μ| is that of the largest or of the smallest product."""
    off = max(0.0, max(most - barrier, barrier - least))
    return rules.BarrierErrors(dual, values.theta, off / magnitude)


def write_equations(job: Any, values: Any) -> None:
    """The right-hand side, and what the barrier adds to the diagonal."""
    for i in range(job.blocks * job.size):
        job.added[i] = job.unit[i]
        job.right[i] = -job.g[i]
    for j in range(job.bound_count):
        place, slack = job.places[j], job.slacks[j]
        job.added[place] += job.multipliers[j] / slack * job.stiffness[j]
        job.right[place] += job.pushes[j] * (values.barrier / slack)


def factorize(job: Any, values: Any, trial: Any) -> Truth:
    """x = K⁻¹ right, δ raised until K has as many negative eigenvalues as constraints; False where it has fewer, or where
    solutions are not accurate, with a nudge neither."""
    n = job.blocks * job.size
    trial.shift, trial.factorizations, trial.sound = 0.0, 0.0, values.sound
    while True:
        if is_stopped(job):
            return False
        for i in range(n):
            job.diagonal[i] = job.added[i] + trial.shift * job.shifted[i]
            job.pivots[i] = job.diagonal[i] + values.nudged * job.nudge[i]
            job.x[i] = job.right[i]
        job.first(job.blocks, job.z, job.free, job.fixed_blocks, job.pivots, job.stored, job.x, job.data)
        trial.factorizations += 1.0
        negative = job.negative(job.blocks, job.stored)
        if not (negative > job.constraints and trial.sound > values.nudged):  # or surely too many: sound, and not nudged
            if is_stopped(job):
                return False
            job.backward(job.blocks, job.stored, job.free, job.fixed_blocks, job.x)
            values.trusted = 0.0
            solved = solution(job, values, job.x, job.right)
            square, slope = squares_and_slope(job)
            trial.along = slope / values.curvature
            if solved == 0 or not is_finite(square):  # the same factorization with a nudge, from then on
                if values.nudged != 0.0:
                    return False
                values.nudged, trial.sound = 1.0, 0.0
                trial.factorizations -= 1.0
                continue
            trial.sound = 1.0
            trial.update = largest_ratio(job.coordinates, max_norms(job, job.x), job.reach)
            if rules.locally_infeasible(values.theta, trial.shift, trial.update, values.tolerance):
                return False
            if not negative > job.constraints:
                trial.trusted = values.trusted
                return negative == job.constraints
        trial.shift = rules.raise_shift(trial.shift, values.last_shift)
        if not rules.affordable(trial.shift):
            return False


@machine(flags="reassoc contract")
def squares_and_slope(job: Any) -> tuple[Real, Real]:
    """|x|²; the slope of the barrier function along the step, times κ: residualᵀdx of the unknowns and -νᵀA dx."""
    square, slope = 0.0, 0.0
    for i in range(job.blocks * job.size):
        x = job.x[i]
        square += x * x
        slope += job.g[i] * job.rows[i] * job.z[i] - job.right[i] * job.unknowns[i] * x
    return square, slope


def find_lengths(job: Any, values: Any, trial: Any) -> None:
    """Changes of multipliers, and the longest steps inside for these and for slacks."""
    barrier, own, longest = values.barrier, 1.0, 1.0
    trial.fraction = rules.fraction(barrier)
    for j in range(job.bound_count):
        change, m, s = slack_change(job, job.x, j), job.multipliers[j], job.slacks[j]
        dual = (barrier - m * change) / s - m
        job.dual_step[j] = dual
        own = shorten(own, trial.fraction, m, dual)
        longest = shorten(longest, trial.fraction, s, change)
    trial.own, trial.length, trial.first, trial.whole = own, longest, 1.0, 0.0
    trial.jammed = rules.count_tiny_steps(longest, values.jammed)


def slack_change(job: Any, x: Reals, j: Whole) -> Real:
    """Of slack j by such a step."""
    return job.scales[j] * x[job.places[j]]


def shorten(length: Real, fraction: Real, value: Real, change: Real) -> Real:
    """The longest step after which a part 1 - τ of the value is left."""
    bound = -fraction * value / change
    return bound if (change < 0.0) & (bound < length) else length


def search(job: Any, values: Any, trial: Any, at: Any) -> Truth:
    """The first point on the step, halved from the longest inside, that is acceptable; before it all slacks cut, where one
    alone stops the step; after the first one corrections of second order. False where no point is taken."""
    if rules.slack_stops(trial.length, values.theta, values.tolerance):
        cut_slacks(job, values, trial)
        if rules.much_better(at, new_standing(values)) and values.allowed > 0.0:
            trial.jammed = 0.0
            return True
    while True:
        if is_stopped(job) or not rules.long_enough(trial.length):
            return False
        move(job, job.x, trial.length)
        point(job, values)
        if is_acceptable(values, trial, at):
            trial.whole = float(trial.own * trial.length == 1.0)  # one of them is below 1
            return True
        if trial.first > 0.0 and values.new_theta >= at.violation and values.new_finite > 0.0:
            found = correct(job, values, trial, at)
            if found != HALVED:
                return found == TAKEN
        trial.length *= 0.5
        trial.first = 0.0


def is_acceptable(values: Any, trial: Any, at: Any) -> Truth:
    """True if the new point decreases θ or ϕ enough, and if the filter allows it."""
    new = new_standing(values)
    step = trial.along, trial.length, trial.update
    return rules.acceptable(at, new, *step, values.small, values.tolerance) & (values.allowed > 0.0)


def move(job: Any, step: Reals, length: Real) -> None:
    """The new path."""
    for i in range(job.blocks * job.size):
        job.new_z[i] = job.z[i] + length * step[i]


def cut_slacks(job: Any, values: Any, trial: Any) -> None:
    """The whole step, every slack for itself keeping a part."""
    move(job, job.x, 1.0)
    for j in range(job.bound_count):
        s = job.slacks[j]
        short = (1.0 - trial.fraction) * s - (s + slack_change(job, job.x, j))
        job.new_z[job.places[j]] += job.reaches[j] * max(0.0, short)
    point(job, values)


def correct(job: Any, values: Any, trial: Any, at: Any) -> Whole:
    """Steps towards c(z) + c(z + step) = 0 by the same factors."""
    n, before = job.blocks * job.size, at.violation
    for i in range(n):
        job.constraints_sum[i] = trial.length * job.g[i]
    for _ in range(int(values.corrections)):
        for i in range(n):
            total = job.constraints_sum[i] + job.new_g[i]
            job.constraints_sum[i] = total
            right = job.right[i] if job.primal[i] > 0.0 else -(total * job.free[i])
            job.other[i], job.w[i] = right, right
        substitute(job, job.w)
        if solution(job, values, job.w, job.other) == 0:
            return REFUSED
        if not is_finite(sum_of_squares(n, job.w)):
            return HALVED
        short = 1.0
        for j in range(job.bound_count):
            short = shorten(short, trial.fraction, job.slacks[j], slack_change(job, job.w, j))
        move(job, job.w, short)
        point(job, values)
        if is_acceptable(values, trial, at):
            return TAKEN
        if rules.no_better(new_standing(values), before) or not values.new_finite > 0.0:
            return HALVED
        before = values.new_theta
        for i in range(n):
            job.constraints_sum[i] = short * job.constraints_sum[i]
    return HALVED


@machine(flags="reassoc contract")
def sum_of_squares(count: Whole, x: Reals) -> Real:
    total = 0.0
    for i in range(count):
        total += x[i] * x[i]
    return total


def remember(job: Any, values: Any, trial: Any, at: Any) -> Truth:
    """The point that is left goes into the filter, unless ϕ falls as it has to; False where there is no room."""
    new = new_standing(values)
    if rules.augments_filter(at, new, trial.along, trial.length, values.small, values.tolerance):
        count = int(values.corners)
        if count >= job.room:
            return False
        job.filter[2 * count] = rules.corner_violation(at, values.tolerance)
        job.filter[2 * count + 1] = rules.corner_barrier(at)
        values.corners += 1.0
    return True


def arrive(job: Any, values: Any, trial: Any) -> None:
    """The new point is the present one."""
    n = job.blocks * job.size
    for j in range(job.bound_count):
        wanted = job.multipliers[j] + trial.own * job.dual_step[j]
        job.multipliers[j] = rules.clip_multiplier(wanted, job.new_slacks[j], values.barrier)
        job.slacks[j] = job.new_slacks[j]
    copy(n, job.new_z, job.z)
    copy(n, job.new_g, job.g)
    values.objective, values.violation, values.norm = values.new_objective, values.new_violation, values.new_norm
    values.theta, values.logarithms = values.new_theta, values.new_logarithms
    values.shift, values.trusted, values.sound, values.whole = trial.shift, trial.trusted, trial.sound, trial.whole
    values.iterations += 1.0
    values.factorizations += trial.factorizations
    values.last_shift = trial.shift if trial.shift > 0.0 else values.last_shift
    values.update = trial.update
    values.shortened = rules.shortens(1.0 - trial.first, values.shortened)


@machine(job=WORDS, values=SCALARS, constant=["job"])
def point(job: Any, values: Any) -> None:
    """Objective, gradient, slacks, violation and Σ log s of the new path, and whether the filter allows them."""
    objective = new_gradient(job)
    violation, theta, square = violations(job)
    values.new_objective, values.new_violation, values.new_norm = objective, violation, math.sqrt(square)
    least, total, product = INFINITY, 0.0, 1.0  # Σ log s as few logarithms of products
    for j in range(job.bound_count):
        slack = job.scales[j] * (job.new_z[job.places[j]] - job.limits[j])
        job.new_slacks[j] = slack
        least, longer = min(least, slack), product * slack
        if longer > RANGE[0] and longer < RANGE[1]:
            product = longer
        else:
            total += math.log(product)
            product = slack
    inside = (least > 0.0) & is_finite(objective) & is_finite(values.new_norm)
    values.new_theta = theta if inside else INFINITY
    values.new_logarithms = total + math.log(product) if inside else -INFINITY
    new = new_standing(values)
    finite = is_finite(new.violation) & is_finite(new.barrier)
    values.new_finite = float(finite)
    allowed = finite & (new.violation <= values.largest)
    for k in range(int(values.corners)):
        allowed = allowed & rules.better(new, job.filter[2 * k], job.filter[2 * k + 1])
    values.allowed = float(allowed)


def new_gradient(job: Any) -> Real:
    """The gradient at the new path, without what is fixed; the objective, which stands after it."""
    n = job.blocks * job.size
    fill(n + 1, job.new_g)
    for k in range(job.terms):
        t = term(job, k)
        z, g = job.new_z[t.offset // 8 :], job.new_g[t.offset // 8 :]
        t.gradient(t.number, z, t.gradient_rows, t.gradient_shared, job.new_g[n:], g)
    for i in range(job.fixed_count):
        job.new_g[job.fixed_places[i]] = 0.0
    return job.new_g[n]


def term(job: Any, k: Whole) -> Any:
    """Addresses and places of term k of the sum."""
    return Record(TERM, job[WORDS.size + k * TERM.size :])


@machine(flags="reassoc contract")
def violations(job: Any) -> tuple[Real, Real, Real]:
    """Σ|c|, the same in units of the action, and the square of the norm of the gradient."""
    violation, theta, square = 0.0, 0.0, 0.0
    for i in range(job.blocks * job.size):
        size, scaled = abs(job.new_g[i]), job.flat_units[i] * job.new_g[i]
        violation += job.violations[i] * size
        theta += job.per_action[i] * size
        square += scaled * scaled
    return violation, theta, square


@machine(job=WORDS, values=SCALARS, constant=["job"])
def solution(job: Any, values: Any, x: Reals, right: Reals) -> Whole:
    """1, and K⁻¹ right from a first solution x by iterative refinement; 0 where that does not converge."""
    n = job.blocks * job.size
    if values.trusted > 0.0:
        return 1
    for count in range(REFINEMENTS):
        fill(n, job.y)  # the second derivatives at z times x; rows of fixed components are not zero
        for k in range(job.terms):
            t = term(job, k)
            at = t.offset // 8
            t.product(t.number, job.z[at:], x[at:], t.product_rows, t.product_shared, job.y[at:])
        for i in range(n):
            job.y[i] = right[i] - (job.y[i] * job.free[i] + job.diagonal[i] * x[i])
        substitute(job, job.y)
        size = largest_ratio(job.coordinates, max_norms(job, x), job.positions)
        change = largest_ratio(job.coordinates, max_norms(job, job.y), job.positions)
        for i in range(n):
            x[i] += job.y[i]
        if rules.accurate(change, size):
            values.trusted = float(count == 0)
            return 1
        if not rules.converging(change, size):
            return 0
    return 0


def substitute(job: Any, x: Reals) -> None:
    """x ← K⁻¹x, by the factors that are stored."""
    job.forward(job.blocks, job.stored, job.free, job.fixed_blocks, x)
    job.backward(job.blocks, job.stored, job.free, job.fixed_blocks, x)


def fill(count: Whole, x: Reals) -> None:
    """x ← 0."""
    for i in range(count):
        x[i] = 0.0
