"""Does `refine` know its error where controls switch? Least times of a double integrator that are drawn, with closed forms.

    python -m benchmarks.boundary.switches [number]

From rest to rest over the way 1 with -a ≤ u ≤ b, T = √(2(a+b)/(ab)); with |v| ≤ w < 2/T it is 1/w + (w/2)(1/a + 1/b).
a, b, w, whether there is a bound on v, and the first guess of T are drawn with SEED.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

import dalembert as da

SEED, STEPS, TOLERANCE = 2026, 40, 1e-6
TASK = da.OptimalControl(da.System(lambda q, v: 0.5 * v @ v), cost=lambda q, v, u: 1.0 + 0.0 * u @ u, actuated=0)


class Refined(NamedTuple):
    """exact: T. error: of the refined cost; stated: what `refine` says of it; reached: whether it says so."""

    exact: float
    error: float
    stated: float
    reached: bool
    steps: int


def drawn(number: int) -> Iterator[Refined]:
    """The first problems of the draw."""
    random = np.random.default_rng(SEED)
    for _ in range(number):
        a, b = random.uniform(0.5, 3.0, 2)
        exact, limits = float(np.sqrt(2.0 * (a + b) / (a * b))), {"u": (-a, b)}
        if random.uniform() < 0.5:
            w = 2.0 / exact * random.uniform(0.4, 0.95)
            exact, limits = 1.0 / w + 0.5 * w * (1.0 / a + 1.0 / b), {**limits, "v": (-w, w)}
        yield refined(limits, exact, exact * random.uniform(0.8, 1.5))


def refined(limits: dict, exact: float, guess: float) -> Refined:
    given = {"initial": ([0.0], [0.0]), "final": ([1.0], [0.0]), "bounds": limits}
    first = da.solve(TASK, **given, T=da.Free(guess), steps=STEPS)
    found = da.refine(TASK, first, **given, T=da.Free(float(first.t[-1])), tolerance=TOLERANCE)
    told = found.refinement
    assert told is not None
    return Refined(exact, abs(float(told.cost) - exact), float(told.error), told.reached, len(found.t) - 1)


def main(number: int = 100) -> None:
    every = list(drawn(number))
    for one in every:
        print(
            f"T = {one.exact:.9f}, error {one.error:.1e}, stated {one.stated:.1e}, reached {one.reached}, {one.steps} steps"
        )
    reached = [one for one in every if one.reached]
    print(f"reached {len(reached)} of {number}, with a larger error than stated {sum(x.error > x.stated for x in reached)}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
