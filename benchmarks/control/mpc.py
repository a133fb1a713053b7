"""A receding horizon on the cart-pole: solutions that begin from the last plan against solutions that begin from nothing.

    python -m benchmarks.control.mpc [--samples 40]
    python -m benchmarks.control.mpc --peers [--samples 2000]

The plant is heavier and longer than the controller believes. At every sample the same problem is solved twice, one after the
other: warm, as the controller does it, and cold. Times are medians over the samples, of whole calls of `solve`.

--peers: N = 40 at 1 kHz, those samples whose plan has active bounds, beside IPOPT and Fatrop (casadi_mpc) on the same
discrete problem from the same states, all in turn, each from its own last solution; processor time of a whole call of the
controller, and of the peers' solvers alone. Start it with OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
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


class Race:
    """A controller that lets the others solve the same problem at every sample."""

    def __init__(self, problem: da.OptimalControl, bound: float):
        from benchmarks.control import casadi_mpc as peers

        numbers = {name: float(x) for name, x in problem.parameters.items()}
        horizon = peers.Horizon(40, 2.0, np.array(UP[0]), bound, numbers)
        warm = {f"warm_start_{name}": 1e-8 for name in ("bound_push", "mult_bound_push", "slack_bound_push", "bound_frac")}
        self.problem, self.bound, self.seconds = problem, bound, list[float]()
        self.active = list[bool]()
        self.own = da.mpc(problem, final=UP, T=2.0, steps=40, bounds={"u": (-bound, bound)})
        self.peers = {
            f"{name}{', generated C' if compiled else ''}": make(horizon, 1e-6, compiled, mu_init=1e-4, **options)
            for name, make, options in (("IPOPT", peers.ipopt, warm), ("Fatrop", peers.fatrop, {}))
            for compiled in (False, True)
        }
        self.answers: dict[str, list] = {name: [] for name in self.peers}

    def control(self, t: float, q: np.ndarray, v: np.ndarray, ahead: float) -> np.ndarray:
        begun = time.process_time()
        found = self.own.control(t, q, v, ahead)
        self.seconds.append(time.process_time() - begun)
        for name, peer in self.peers.items():
            if t == 0.0:
                peer.table = np.c_[self.own.plan.q, self.own.plan.u]
            self.answers[name].append(peer.solve(q, v, KILOHERTZ * 40 / 2.0 if t else 0.0))
        self.active.append(np.any(np.abs(self.peers["IPOPT"].table[:, 2]) > (1.0 - 1e-4) * self.bound))
        return found

    def rows(self) -> Iterator[str]:
        """Of the samples whose plan has an active bound; without the first calls, which compile."""
        kept = np.flatnonzero(self.active)[2:]
        records = [self.own.records[k] for k in kept]
        ours = [(r.iterations, self.seconds[k], r.outcome is da.Outcome.SUCCESS) for k, r in zip(kept, records, strict=True)]
        yield f"{len(kept)} | dalembert | {summary(ours)} | "
        for name, every in self.answers.items():
            answers = [every[k] for k in kept]
            off = [abs(a.cost / r.cost - 1.0) for a, r in zip(answers, records, strict=True) if a.solved]
            theirs = [(a.iterations, a.seconds, a.solved) for a in answers]
            yield f"{len(kept)} | {name} | {summary(theirs)} | {max(off, default=np.nan):.0e}"


KILOHERTZ = 0.001


def summary(calls: list[tuple[int, float, bool]]) -> str:
    """Iterations; milliseconds in the median, of 99 % and at most; number not solved."""
    iterations, seconds, solved = zip(*calls, strict=True)
    median, most = 1e3 * np.median(seconds), 1e3 * np.percentile(seconds, 99)
    return f"{np.median(iterations):g} | {median:.2f} | {most:.2f} | {1e3 * max(seconds):.1f} | {solved.count(False)}"


def race(samples: int) -> None:
    print("| bound | samples | solver | iterations | ms, median | 99 % | most | not solved | cost off by |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for bound in (12.0, 11.0):
        problem = cart_pole.cart_pole()
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # CasADi's Fatrop and compiler write there
            entrants = Race(problem, bound)
            plant = problem.system.replace(m=0.33, l=0.52)
            da.closed_loop(plant, entrants, REST, REST, h=KILOHERTZ, steps=samples)
            for row in entrants.rows():
                print(f"| {bound:g} | {row} |", flush=True)
            del entrants  # with what it has compiled in this folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int)
    parser.add_argument("--peers", action="store_true")
    arguments = parser.parse_args()
    if arguments.peers:
        race(arguments.samples or 2000)
        return
    samples = arguments.samples or 60
    print("| steps | bound | samples | iterations, warm / cold | ms, warm / cold | ratio | not solved | off at the end |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for steps, bound in CASES:
        print("\n".join(rows(steps, bound, samples)), flush=True)


if __name__ == "__main__":
    main()
