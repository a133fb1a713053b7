"""Borders of choices along a step, as machine code: whether one may be passed, and how far arguments go.

The values d of borders and the arguments u of functions that are flat in places are kept with their rates at some stages of
a step. A border is passed where d has another sign than at the beginning of the step.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dalembert.native.llvm.subset import Real, Reals, Truth, Whole

SAMPLES = (0, 3, 5, 9, 10, 12)  # stages of a step, the first and the last among them, at which d and u are kept
INFINITY = math.inf
WAY = 2.0, 0.5  # of an argument, at most: within which its function shows, or as a part of the argument


def border_numbers(many: int) -> int:
    """Of the samples, for so many borders and arguments."""
    return len(SAMPLES) * (1 + 2 * many)


class Borders(NamedTuple):
    """Values and rates of borders and arguments as `Choices` lays them out: where the field was evaluated last, and at the
    samples of a step, and then those of the choices, which are given in `sides_given`. slope: room for one."""

    told: Any
    many: Whole  # borders and arguments
    regular: Reals
    here: Reals
    rates: Reals
    chosen: Reals
    slope: Reals
    samples: Reals


def lay_out_borders(told: Any, work: Reals) -> Borders:
    """The arrays; work: what is not used yet."""
    many, regular = told.signs + told.flat, told.written_result[told.size + 1 :]
    here = regular[1:]
    return Borders(told, many, regular, here, here[many:], here[2 * many :], work, work[told.size :])


def choose_sides(b: Borders) -> None:
    """The sides are those of the state at which the field was evaluated."""
    for i in range(1, b.told.sides):
        b.told.sides_given[i] = b.chosen[i - 1]


def keep_sample(b: Borders, k: int, passed: Real) -> None:
    """Store as a sample the values and rates where the field was evaluated, so much after the beginning of the step."""
    sample = b.samples[(2 * b.many + 1) * k :]
    sample[0] = passed
    for i in range(b.many):
        sample[1 + i] = b.here[i]
        sample[1 + b.many + i] = b.told.clock * b.rates[i]


def longest_step(b: Borders) -> Real:
    """The time in which arguments go half of their way, at the rates where the step begins."""
    longest = INFINITY
    for i in range(b.told.signs, b.many):
        limit = 0.5 * (_way(b.samples[1 + i]) / abs(b.samples[1 + b.many + i]))
        longest = limit if limit > 0.0 and limit < longest else longest
    return longest


def _way(u: Real) -> Real:
    return np.fmax(WAY[0], WAY[1] * abs(u))


def goes_too_far(b: Borders) -> Truth:
    """True if an argument goes too far between two samples."""
    stride = 2 * b.many + 1
    for i in range(b.told.signs, b.many):
        for k in range(len(SAMPLES) - 1):
            here, next_ = b.samples[stride * k :], b.samples[stride * (k + 1) :]
            rate = np.fmax(abs(here[1 + b.many + i]), abs(next_[1 + b.many + i]))
            way = (next_[0] - here[0]) * rate
            if way > _way(next_[1 + i]) and way < INFINITY:
                return True
    return False


def may_pass(b: Borders) -> Truth:
    """True if some border may be passed in the step."""
    found = False
    for i in range(b.told.signs):
        for k in range(len(SAMPLES) - 1):
            found = found or doubts(b, i, k)[1]
    return found


def doubts(b: Borders, i: Whole, k: Whole) -> tuple[Truth, Truth, Real, Real]:
    """Conditions that the step is beyond border i at sample k + 1, that it may pass it after sample k; times of both."""
    stride, side = 2 * b.many + 1, _side(b, i)
    here, next_ = b.samples[stride * k :], b.samples[stride * (k + 1) :]
    d, rate = side * here[1 + i], side * here[1 + b.many + i]
    e, last = side * next_[1 + i], side * next_[1 + b.many + i]
    h = next_[0] - here[0]
    beyond, returns = not e >= 0.0, rate < 0.0 and last > 0.0
    s = ((e - d) - last * h) / (rate - last)
    above, inside = d + rate * s > 0.0, s >= 0.0 and s <= h
    return beyond, beyond or (returns and not (above and inside)), here[0], next_[0]


def _side(b: Borders, i: Whole) -> Real:
    """1 or -1."""
    return math.copysign(1.0, b.samples[1 + i])


def is_passed(b: Borders, i: Whole) -> Truth:
    """True if the border is passed where the field was evaluated."""
    return not _side(b, i) * b.here[i] >= 0.0


def leaves(b: Borders, i: Whole) -> Truth:
    """True if the motion comes no nearer to the border there."""
    return _side(b, i) * (b.told.clock * b.rates[i]) >= 0.0
