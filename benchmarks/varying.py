"""Steps of one length against steps of varying length, at equal errors: numbers of steps and whole calls.

The error is that of q at the end, against DOP853 with 1e-13 (the car: `da.reference`). For each error the number of steps is
interpolated on the measured points of its method, and the time is that of whole calls of `simulate`, both in turns.

    python benchmarks/varying.py [ORDER ...]      4 and 8 if none is given
"""

from __future__ import annotations

import functools
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

import dalembert as da
from dalembert.gallery import ENTRIES, curvature_particle

ERRORS = (1e-3, 1e-5, 1e-7, 1e-9)
ROUNDS = 5


def turned_away() -> da.System:
    """A curvature particle whose circles pass at some 0.03 from a strong curvature."""
    return curvature_particle.curvature_particle(lambda q, p: 1.0 + p["c"] * (q @ q) ** -1.5, {"c": 3e-4})


# system, q0, v0, time
CASES: dict[str, tuple[Any, Any, Any, float]] = {
    "car with two trailers": (*(getattr(ENTRIES["car_with_trailers"], x) for x in ("system", "q0", "v0")), 30.0),
    "eccentric orbit on a stair": (*(getattr(ENTRIES["climbing_orbit"], x) for x in ("system", "q0", "v0")), 12.0),
    "near collision, curvature": (turned_away(), (0.0, -2.01), (1.0, 0.0), 10.0),
}


def run(case: str, order: int, number: float, vary: bool) -> da.Path:
    """About that many steps: of one length, or of varying length until the same time."""
    system, q0, v0, end = CASES[case]
    given: dict[str, Any] = {"scheme": da.Scheme(order=order), "throw": False}
    if vary:
        return da.simulate(system, q0, v0, h=da.Varying(end / number), until=end, **given)
    return da.simulate(system, q0, v0, h=end / round(number), steps=round(number), **given)


def measured(case: str, order: int, vary: bool, exact: np.ndarray) -> list[tuple[int, float, float]]:
    """(steps, error, number to ask for) for numbers that double, to the floor of rounding."""
    found, number = [], 16.0
    while number < 6e4:
        path = run(case, order, number, vary)
        error = float(np.abs(path.q[-1] - exact).max()) if int(path.code) == 0 else np.inf
        found.append((path.steps, error, number))
        if error < 0.3 * ERRORS[-1]:
            break
        number *= 2.0**0.5
    return found


def at(points: list[tuple[int, float, float]], error: float) -> float | None:
    """The number to ask for from which on the error is reached, between two measured ones by their logarithms."""
    last = max((i for i, (_, e, _) in enumerate(points) if not e <= error), default=-1)
    if last < 0 or last + 1 == len(points):
        return None
    (_, e0, n0), (_, e1, n1) = points[last : last + 2]
    return n1 if not np.isfinite(e0) else float(np.exp(np.interp(-np.log(error), -np.log([e0, e1]), np.log([n0, n1]))))


def seconds(call: Callable[[], Any]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def main() -> None:
    warnings.simplefilter("ignore")
    for order in map(int, sys.argv[1:] or ("4", "8")):
        for case, (system, q0, v0, end) in CASES.items():
            exact = np.asarray(da.reference(system, q0, v0, jnp.array([0.0, end]), tolerance=1e-13).q)[-1]
            points = {vary: measured(case, order, vary, exact) for vary in (False, True)}
            for error in ERRORS:
                numbers = {vary: n for vary in points if (n := at(points[vary], error)) is not None}
                if len(numbers) < 2:
                    continue
                calls = {vary: functools.partial(run, case, order, numbers[vary], vary) for vary in numbers}
                steps = {vary: call().steps for vary, call in calls.items()}
                times = np.array([[seconds(calls[vary]) for vary in (False, True)] for _ in range(ROUNDS)])
                one, varying = np.median(times, axis=0)
                print(
                    f"order {order}, {case:27} error {error:.0e}: {steps[False]:7} and {steps[True]:6} steps, "
                    f"{steps[False] / steps[True]:6.2f} times fewer; calls {1e3 * one:8.2f} and {1e3 * varying:7.2f} ms, "
                    f"ratio {np.median(times[:, 0] / times[:, 1]):6.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
