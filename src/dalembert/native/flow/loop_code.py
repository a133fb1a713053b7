"""The method of order 8 with its step control and its interpolant as one loop of machine code, for any field that is one.

    k_i = f(t + c_i h, y + h Σ_j a_ij k_j),   y ← y + h Σ b_j k_j

It holds no system: field, watch and what they are told are addresses, and the number of components is an argument.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dalembert.native.flow.borders import (
    INFINITY,
    SAMPLES,
    Borders,
    border_numbers,
    choose_sides,
    doubts,
    goes_too_far,
    is_passed,
    keep_sample,
    lay_out_borders,
    leaves,
    longest_step,
    may_pass,
)
from dalembert.native.flow.field_code import FIELD
from dalembert.native.llvm.dense import copy
from dalembert.native.llvm.packing import Packing
from dalembert.native.llvm.subset import Address, Real, Reals, Truth, Whole, machine, program

Row = dict[int, float]  # the entries that are not zero, by the stage they belong to

# fmt: off

# c: the times of the stages, in steps; stage 12 is the end of the step, and those after it serve the interpolant alone
NODES = (0.0, 0.05260015195876773, 0.0789002279381516, 0.1183503419072274, 0.2816496580927726, 0.3333333333333333, 0.25,
 0.3076923076923077, 0.6512820512820513, 0.6, 0.8571428571428571, 1.0, 1.0, 0.1, 0.2, 0.7777777777777778)

# a: y + h Σ a_ij k_j is where the slope k_i of stage i is taken; that of stage 12 is the new y
STAGES: tuple[Row, ...] = (
    {},
    {0: 0.05260015195876773},
    {0: 0.0197250569845379, 1: 0.0591751709536137},
    {0: 0.02958758547680685, 2: 0.08876275643042054},
    {0: 0.2413651341592667, 2: -0.8845494793282861, 3: 0.924834003261792},
    {0: 0.037037037037037035, 3: 0.17082860872947386, 4: 0.12546768756682242},
    {0: 0.037109375, 3: 0.17025221101954405, 4: 0.06021653898045596, 5: -0.017578125},
    {0: 0.03709200011850479, 3: 0.17038392571223998, 4: 0.10726203044637328, 5: -0.015319437748624402,
     6: 0.008273789163814023},
    {0: 0.6241109587160757, 3: -3.3608926294469414, 4: -0.868219346841726, 5: 27.59209969944671, 6: 20.154067550477894,
     7: -43.48988418106996},
    {0: 0.47766253643826434, 3: -2.4881146199716677, 4: -0.590290826836843, 5: 21.230051448181193, 6: 15.279233632882423,
     7: -33.28821096898486, 8: -0.020331201708508627},
    {0: -0.9371424300859873, 3: 5.186372428844064, 4: 1.0914373489967295, 5: -8.149787010746927, 6: -18.52006565999696,
     7: 22.739487099350505, 8: 2.4936055526796523, 9: -3.0467644718982196},
    {0: 2.273310147516538, 3: -10.53449546673725, 4: -2.0008720582248625, 5: -17.9589318631188, 6: 27.94888452941996,
     7: -2.8589982771350235, 8: -8.87285693353063, 9: 12.360567175794303, 10: 0.6433927460157636},
    {0: 0.054293734116568765, 5: 4.450312892752409, 6: 1.8915178993145003, 7: -5.801203960010585, 8: 0.3111643669578199,
     9: -0.1521609496625161, 10: 0.20136540080403034, 11: 0.04471061572777259},
    {0: 0.056167502283047954, 6: 0.25350021021662483, 7: -0.2462390374708025, 8: -0.12419142326381637,
     9: 0.15329179827876568, 10: 0.00820105229563469, 11: 0.007567897660545699, 12: -0.008298},
    {0: 0.03183464816350214, 5: 0.028300909672366776, 6: 0.053541988307438566, 7: -0.05492374857139099,
     10: -0.00010834732869724932, 11: 0.0003825710908356584, 12: -0.00034046500868740456, 13: 0.1413124436746325},
    {0: -0.42889630158379194, 5: -4.697621415361164, 6: 7.683421196062599, 7: 4.06898981839711, 8: 0.3567271874552811,
     12: -0.0013990241651590145, 13: 2.9475147891527724, 14: -9.15095847217987},
)

# h Σ e_j k_j: the difference from a formula of order 5
ERROR_5: Row = {0: 0.01312004499419488, 5: -1.2251564463762044, 6: -0.4957589496572502, 7: 1.6643771824549864,
 8: -0.35032884874997366, 9: 0.3341791187130175, 10: 0.08192320648511571, 11: -0.022355307863886294}

# and from one of order 3
ERROR_3: Row = {0: -0.18980075407240762, 5: 4.450312892752409, 6: 1.8915178993145003, 7: -5.801203960010585,
 8: -0.4226823213237919, 9: -0.1521609496625161, 10: 0.20136540080403034, 11: 0.02265179219836082}

# h Σ d_ij k_j: the last four terms of the interpolant
DENSE: tuple[Row, ...] = (
    {0: -8.428938276109013, 5: 0.5667149535193777, 6: -3.0689499459498917, 7: 2.38466765651207, 8: 2.117034582445028,
     9: -0.871391583777973, 10: 2.2404374302607883, 11: 0.6315787787694688, 12: -0.08899033645133331,
     13: 18.148505520854727, 14: -9.194632392478356, 15: -4.436036387594894},
    {0: 10.427508642579134, 5: 242.28349177525817, 6: 165.20045171727028, 7: -374.5467547226902, 8: -22.113666853125306,
     9: 7.733432668472264, 10: -30.674084731089398, 11: -9.332130526430229, 12: 15.697238121770845,
     13: -31.139403219565178, 14: -9.35292435884448, 15: 35.81684148639408},
    {0: 19.985053242002433, 5: -387.0373087493518, 6: -189.17813819516758, 7: 527.8081592054236, 8: -11.57390253995963,
     9: 6.8812326946963, 10: -1.0006050966910838, 11: 0.7777137798053443, 12: -2.778205752353508, 13: -60.19669523126412,
     14: 84.32040550667716, 15: 11.99229113618279},
    {0: -25.69393346270375, 5: -154.18974869023643, 6: -231.5293791760455, 7: 357.6391179106141, 8: 93.40532418362432,
     9: -37.45832313645163, 10: 104.0996495089623, 11: 29.8402934266605, 12: -43.53345659001114, 13: 96.32455395918828,
     14: -39.17726167561544, 15: -149.72683625798564},
)


EULER: Row = {0: 1.0}

REACHED, TOO_MANY, TOO_SMALL, WATCHED = range(4)
TINY = 4.0 * 2.0**-52  # of t: a step that is not longer does not move it

NUMBERS = Packing.scalars("t", "h", "tolerance", "next", "behind", "way")
COUNTED = Packing.words("size", "times", "most", "clipped", "steps", "saved", "refused", "mode")

END = 12  # the stage at the end of a step, whose slope begins the next one
COLUMNS, TERMS = len(STAGES), 3 + len(DENSE)
SHORTEST = 1e-6  # of first steps, where sizes say nothing
SAFETY, SMALLEST, LARGEST = 0.9, 0.2, 10.0  # of the factor by which a step changes

HALVINGS = 52  # of a step, to find where it passes a border
BEHIND = 1e-4, 64 * 2.0**-52  # a border, of a step: of the tolerance; at least
PLAIN, CROSSING, FREE = range(3)  # modes of a step: within borders, just beyond one, or with choices as the state says
WITHIN, SHORTER, CROSSES, HELD = range(4)  # what becomes of a step that may pass a border
RETURN = 64.0  # times that: how soon a motion that is held at a border is there again
FARTHER, FARTHEST = 8.0, 1e-3  # times that, until the border is passed; of a step
AGAIN = 1e-3  # of all that is left: a free step, at first


def work_size(size: int, many: int) -> int:
    """Numbers of the workspace; many: borders and arguments."""
    return size * (COLUMNS + 3 + TERMS) + border_numbers(many)


def loop_text() -> str:
    """The module of `integrate`."""
    return program([integrate])


class FlowStep(NamedTuple):
    """What the functions below have in common. Behind y stand the typical sizes of its components."""

    field: Address
    told: Any
    project: Address
    projected: Address
    n: Whole
    numbers: Any
    counts: Any
    times: Reals
    y: Reals
    slopes: Sequence[Reals]
    stage: Reals
    new: Reals
    dense: Sequence[Reals]
    borders: Borders


@machine(told=FIELD, numbers=NUMBERS, counts=COUNTED, constant=["told"])
def integrate(
    field: Address, told: Any, *, watch: Address, watched: Address, project: Address, projected: Address,
    numbers: Any, counts: Any, times: Reals, y: Reals, rows: Reals, work: Reals,
) -> Whole:  # fmt: skip
    """y from numbers.t over times, one row each, as `NUMBERS` and `COUNTED` lay out.

    The error of a step is judged in the mean square of |error| / (tolerance (s + |y|)), s the typical size. clipped: steps
    end at the times; otherwise rows come from the interpolant. watch: 0, or a field with one result; below 0 at the end of a
    step it ends the integration. project: 0, or what brings the y of a row, and that at the end of a step, onto constraints;
    a step for which it does not is refused. numbers.h: the first step, or 0. In y and numbers.t is what was reached. Returns
    REACHED, TOO_MANY steps (of those refused, too), TOO_SMALL a step, or WATCHED. After TOO_MANY it goes on with a larger
    count as if it had not ended.
    """
    n = told.size
    slopes = [work[n * i :] for i in tuple(range(COLUMNS))]
    stage, new = [work[n * (COLUMNS + i) :] for i in (0, 1)]
    dense = [work[n * (COLUMNS + 2 + i) :] for i in tuple(range(TERMS))]
    b = lay_out_borders(told, work[n * (COLUMNS + 2 + TERMS) :])
    run = FlowStep(field, told, project, projected, n, numbers, counts, times, y, slopes, stage, new, dense, b)
    begins, probing, cut, longest, end, meant = True, False, False, INFINITY, 0.0, 0.0
    while True:
        if begins:  # the slope at the beginning of a step, with the choices that are made there
            if field(told, numbers.t, y, slopes[0]) != 0:
                return TOO_SMALL
            longest, tied = INFINITY, False
            if told.sides != 0:
                told.sides_given[0] = 1.0 if counts.mode == FREE else 0.0
                choose_sides(b)
                if field(told, numbers.t, y, slopes[0]) != 0:
                    return TOO_SMALL
                keep_sample(b, 0, 0.0)
                longest, tied = longest_step(b), b.regular[0] < 0.5
            if not numbers.h > 0.0:
                numbers.h = first_step(run)
            # At a border no side is the one to follow: the side is that on which a short step ends, which is tried first.
            probing = tied and counts.mode != FREE
            if probing:
                meant = numbers.h
                numbers.h = way_beyond(run, numbers.next if counts.mode == CROSSING else meant)
            begins = False
        if probing:
            end = numbers.t + numbers.h
        else:
            if counts.steps >= counts.most:
                return TOO_MANY
            counts.steps += 1
            h, crosses = np.fmin(numbers.h, longest), counts.mode == CROSSING
            numbers.next = numbers.next if crosses else h
            # It ends where it may not go beyond: the next time, if steps end there, or the last.
            bound = times[counts.saved if counts.clipped != 0 else counts.times - 1]
            beyond = numbers.t + h >= bound
            cut, end = beyond or crosses, bound if beyond else numbers.t + h
            h = end - numbers.t  # far from t = 0 the sum is rounded: what has passed is the difference
            if not (h > TINY * abs(numbers.t) or beyond):
                if not free_choices(run):
                    return TOO_SMALL
                begins = True
                continue
            numbers.h = h
        norm = try_step(run, end)
        good, proposed = norm < 1.0, numbers.h * step_factor(norm, counts.refused)  # not good if it is NaN
        if probing:
            if good and b.regular[0] > 0.5:  # begin on that side
                keep_sample(b, 0, 0.0)
                choose_sides(b)
                if field(told, numbers.t, y, slopes[0]) != 0:
                    return TOO_SMALL
                numbers.h, probing = meant, False
            elif FARTHER * numbers.h < FARTHEST * meant:  # the short step ends at the border: a longer one
                numbers.h = FARTHER * numbers.h
            else:
                numbers.h, counts.mode, told.sides_given[0], begins = meant, FREE, 1.0, True
            continue
        if not good:
            step_again(run, proposed)
            continue
        found = within_borders(run)
        if found == SHORTER:
            step_again(run, SMALLEST * numbers.h)
            continue
        if found == CROSSES:
            continue
        if found == HELD:
            if not free_choices(run):
                return TOO_SMALL
            begins = True
            continue
        # A step that was cut says little about the next one: that which was meant is kept.
        numbers.next = numbers.next if cut and numbers.next > proposed else proposed
        counts.refused = 0
        if not write_rows(run, rows, end):
            step_again(run, SMALLEST * numbers.h)
            continue
        copy(n, slopes[END], slopes[0])
        numbers.t, numbers.h = end, numbers.next
        copy(n, new, y)
        if counts.saved >= counts.times:
            return REACHED
        if watch is not None and (watch(watched, numbers.t, y, b.slope) != 0 or not b.slope[0] >= 0.0):
            return WATCHED
        begins = told.sides != 0


def allowance(r: FlowStep, l: Whole, size: Real) -> Real:
    """The error that a component of this size may have; its typical size is that below which the error is absolute."""
    return r.numbers.tolerance * r.y[l + r.n] + r.numbers.tolerance * size


def relative_size(r: FlowStep, component: Callable[[Whole], Real]) -> Real:
    """√(mean of (x / (tolerance (s + |y|)))²), s the typical size."""
    total = 0.0
    for l in range(r.n):
        part = component(l) / allowance(r, l, abs(r.y[l]))
        total += part * part
    return math.sqrt(total / float(r.n))


def first_step(r: FlowStep) -> Real:
    """A first step whose error is about the tolerance: from the sizes of y, ẏ and ÿ; Hairer, Norsett, Wanner, II.4."""
    t, y, slopes = r.numbers.t, r.y, r.slopes
    whole = r.times[r.counts.times - 1] - t
    state, speed = relative_size(r, lambda l: y[l]), relative_size(r, lambda l: slopes[0][l])
    short = min(whole, 0.01 * (state / speed) if min(speed, state) >= 1e-5 else SHORTEST)
    if not state + speed < INFINITY:
        return min(whole, SHORTEST)
    r.numbers.h = short
    combine_slopes(r, r.stage, EULER)
    if r.field(r.told, t + short, r.stage, slopes[1]) != 0:
        return short
    bend = max(speed, relative_size(r, lambda l: slopes[1][l] - slopes[0][l]) / short)
    found = pow(0.01 / bend, 0.125) if bend > 1e-15 else max(SHORTEST, 1e-3 * short)
    return min(whole, min(found if found > 0.0 else short, 100.0 * short))


def combine_slopes(r: FlowStep, to: Reals, row: Row) -> None:
    """to ← y + h Σ a_j k_j."""
    h = r.numbers.h
    for l in range(r.n):
        to[l] = r.y[l] + h * weighted_sum(row, r.slopes, l)


def weighted_sum(row: Row, slopes: Sequence[Reals], l: Whole) -> Real:
    """Σ a_j k_j of one component."""
    total: Any = None
    for j, a in row.items():
        total = a * slopes[j][l] if total is None else total + a * slopes[j][l]
    return total


def try_step(r: FlowStep, end: Real) -> Real:
    """The slopes k₁ … k₁₁ and the new y, projected, with the slope there; the norm of the error, which is infinite where a
    slope does not exist, or no projection."""
    t, h = r.numbers.t, r.numbers.h
    for i, row in tuple(enumerate(STAGES))[1:END]:
        combine_slopes(r, r.stage, row)
        if r.field(r.told, t + NODES[i] * h, r.stage, r.slopes[i]) != 0:
            return INFINITY
        if i in SAMPLES:
            keep_sample(r.borders, SAMPLES.index(i), NODES[i] * h)
    combine_slopes(r, r.new, STAGES[END])
    norm = error_norm(r)
    if not onto_constraints(r, r.new, end) or r.field(r.told, end, r.new, r.slopes[END]) != 0:
        return INFINITY
    keep_sample(r.borders, SAMPLES.index(END), h)
    return norm


def onto_constraints(r: FlowStep, y: Reals, t: Real) -> Truth:
    """y ← the nearest y on the constraints at t, where there are any; False where none is found."""
    if r.project is None:
        return True
    return r.project(r.projected, t, y) == 0


def error_norm(r: FlowStep) -> Real:
    """h |e₅|² / √(n (|e₅|² + |e₃|²/100)), in units of what is allowed; Hairer, Norsett, Wanner, II.10."""
    five, three = 0.0, 0.0
    for l in range(r.n):
        allowed = allowance(r, l, max(abs(r.new[l]), abs(r.y[l])))
        e = weighted_sum(ERROR_5, r.slopes, l) / allowed
        five += e * e
        e = weighted_sum(ERROR_3, r.slopes, l) / allowed
        three += e * e
    whole = five + 0.01 * three
    return 0.0 if whole == 0.0 else r.numbers.h * five / math.sqrt(whole * float(r.n))


def step_factor(norm: Real, refused: Whole) -> Real:
    """By which the length of a step changes; after a refused one it does not grow."""
    return min(1.0 if refused != 0 else LARGEST, max(SMALLEST, SAFETY * pow(norm, -0.125)))


def step_again(r: FlowStep, h: Real) -> None:
    """The same step, shorter."""
    r.numbers.h, r.counts.refused = h, 1
    r.counts.mode = FREE if r.counts.mode == FREE else PLAIN


def free_choices(r: FlowStep) -> Truth:
    """A step with choices as the state says, and the error alone to see them; False if they were so, or there are none."""
    if r.told.sides == 0 or r.counts.mode == FREE:
        return False
    r.counts.mode, r.told.sides_given[0] = FREE, 1.0
    left = r.times[r.counts.times - 1] - r.numbers.t
    r.numbers.h = np.fmax(AGAIN * left, 4 * TINY * abs(r.numbers.t))
    return True


def find_interpolant(r: FlowStep) -> Truth:
    """The three more slopes and the seven terms of the polynomial; False where a step has not these."""
    h = r.numbers.h
    for i, row in tuple(enumerate(STAGES))[END + 1 :]:
        combine_slopes(r, r.stage, row)
        if r.field(r.told, r.numbers.t + NODES[i] * h, r.stage, r.slopes[i]) != 0:
            return False
    for l in range(r.n):
        for i, x in enumerate(dense_terms(r, h, r.new[l] - r.y[l], l)):
            r.dense[i][l] = x
    return True


def dense_terms(r: FlowStep, h: Real, change: Real, l: Whole) -> Sequence[Real]:
    """The seven terms of the polynomial, of one component. change: of y in the step."""
    first, last = h * r.slopes[0][l], h * r.slopes[END][l]
    bend = change - first
    others = [h * weighted_sum(row, r.slopes, l) for row in DENSE]
    return (change, first - change, bend - (last - change), *others)


def interpolate(r: FlowStep, passed: Real, to: Reals) -> None:
    """to ← y + s (d₀ + (1 - s)(d₁ + s (d₂ + …))), s the part of the step that has passed."""
    s = passed / r.numbers.h
    factors = s, 1.0 - s
    for l in range(r.n):
        total = 0.0
        for i in reversed(tuple(range(TERMS))):
            total = factors[i % 2] * (total + r.dense[i][l])
        to[l] = r.y[l] + total


def write_rows(r: FlowStep, rows: Reals, end: Real) -> Truth:
    """The rows at times before the end of the step by interpolation, that at its end from the new y; False where the step
    has no interpolant, or a row no projection."""
    saved, times, count = r.counts.saved, r.times, r.counts.times
    if saved < count and times[saved] < end and not find_interpolant(r):
        return False
    while saved < count and times[saved] < end:
        row = rows[saved * r.n :]
        interpolate(r, times[saved] - r.numbers.t, row)
        if not onto_constraints(r, row, times[saved]):
            return False
        saved += 1
        r.counts.saved = saved
    if saved < count and times[saved] == end:
        copy(r.n, r.new, rows[saved * r.n :])
        r.counts.saved = saved + 1
    return True


def within_borders(r: FlowStep) -> Whole:
    """WITHIN; SHORTER, as an argument goes too far; CROSSES, where a step beyond a border is tried again, to end just
    behind it; or HELD at a border, as the motion is there again so soon.

    Seen is a border that is passed between two samples of the step, and one that comes near and goes away there, if
    straight lines from both do not show that it is not reached.
    """
    b, numbers, counts, first, flipped = r.borders, r.numbers, r.counts, INFINITY, False
    if r.told.sides != 0 and counts.mode == PLAIN:
        if goes_too_far(b):
            return SHORTER
        if may_pass(b):
            if not find_interpolant(r):
                return SHORTER
            for i in range(r.told.signs):
                for k in range(len(SAMPLES) - 1):
                    beyond, doubtful, near, far = doubts(b, i, k)
                    if doubtful:
                        flipped = beyond
                        for _ in range(HALVINGS):
                            middle = 0.5 * (near + far)
                            interpolate(r, middle, r.stage)
                            if r.field(r.told, numbers.t + middle, r.stage, b.slope) != 0:
                                return SHORTER
                            passed = is_passed(b, i)
                            there = passed or (not beyond and leaves(b, i))
                            flipped = passed if there else flipped
                            near, far = near if there else middle, middle if there else far
                        first = far if flipped and far < first else first
        if first < INFINITY:
            soon, way = first < RETURN * numbers.behind, way_beyond(r, numbers.next)
            way = np.fmax(way, FARTHER * numbers.behind) if soon else way
            numbers.way, numbers.h, counts.mode = way, first + way, CROSSING
            return HELD if soon and way > FARTHEST * numbers.next else CROSSES
    again = numbers.behind if counts.mode == FREE else 0.0
    numbers.behind = numbers.way if counts.mode == CROSSING else again
    counts.mode = PLAIN
    return WITHIN


def way_beyond(r: FlowStep, natural: Real) -> Real:
    """Time by which a step goes beyond a border, if its length would be `natural`."""
    part = np.fmax(BEHIND[0] * r.numbers.tolerance, BEHIND[1])
    return part * natural + 4 * TINY * abs(r.numbers.t)
