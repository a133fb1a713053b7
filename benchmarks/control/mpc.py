"""A receding horizon on the cart-pole: solutions that begin from the last plan against solutions that begin from nothing.

    python -m benchmarks.control.mpc [--samples 40]

The plant is heavier and longer than the controller believes. At every sample the same problem is solved twice, one after the
other: warm, as the controller does it, and cold. Times are medians over the samples, of whole calls of `solve`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np

import dalembert as da
from dalembert.gallery import cart_pole

REST, UP = [0.0, 0.0], ([1.0, np.pi], [0.0, 0.0])
STEP, EVERY = 0.01, 5
SWING = 30  # samples
CASES = [(steps, bound) for steps in (40, 160) for bound in (None, 15.0, 12.0)]


class Both:
    """A controller that also solves from nothing, and keeps how long that took."""

    def __init__(self, problem: da.OptimalControl, **arguments):
        self.problem, self.arguments = problem, arguments
        self.warm = da.mpc(problem, **arguments)
        self.cold: list[tuple[int, float]] = []

    def control(self, t: float, q: np.ndarray, v: np.ndarray, ahead: float) -> np.ndarray:
        found = self.warm.control(t, q, v, ahead)
        begun = time.perf_counter()
        other = da.solve(
            self.problem,
            initial=(q, v),
            **self.arguments,
            solver=da.Solver(tolerance=1e-6, max_iterations=100),
            certify=False,
            throw=False,
        )
        seconds = time.perf_counter() - begun
        self.cold.append((int(other.statistics.iterations) if other.outcome is da.Outcome.SUCCESS else -1, seconds))
        return found


def rows(steps: int, bound: float | None, samples: int) -> Iterator[str]:
    """Of the samples in which the pole swings, and of those in which it stands."""
    problem = cart_pole.cart_pole()
    both = Both(problem, final=UP, T=2.0, steps=steps, bounds=None if bound is None else {"u": (-bound, bound)})
    plant = problem.system.replace(m=0.33, l=0.52)
    run = da.closed_loop(plant, both, REST, REST, h=STEP, steps=EVERY * samples, every=EVERY)
    off = np.abs(run.q[-1] - UP[0]).max()
    for name, part in (("swing", slice(2, SWING)), ("rest", slice(SWING, None))):  # the first ones compile
        yield f"| {steps} | {'none' if bound is None else f'{bound:g}'} | {name} | {compared(both, part)} | {off:.3f} |"


def compared(both: Both, part: slice) -> str:
    """Iterations, times, their ratio and failures of some samples."""
    warm, cold = both.warm.records[part], both.cold[part]
    times = 1e3 * np.median([r.seconds for r in warm]), 1e3 * np.median([s for _, s in cold])
    counts = np.median([r.iterations for r in warm]), np.median([k for k, _ in cold if k >= 0])
    failed = sum(r.outcome is not da.Outcome.SUCCESS for r in warm), sum(k < 0 for k, _ in cold)
    return (
        f"{counts[0]:g} / {counts[1]:g} | {times[0]:.1f} / {times[1]:.1f} | {times[0] / times[1]:.2f} | "
        f"{failed[0]} / {failed[1]}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=60)
    samples = parser.parse_args().samples
    print("| steps | bound | samples | iterations, warm / cold | ms, warm / cold | ratio | not solved | off at the end |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for steps, bound in CASES:
        print("\n".join(rows(steps, bound, samples)), flush=True)


if __name__ == "__main__":
    main()
