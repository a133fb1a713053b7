"""Many trajectories at once: the library's lanes against hand-written C in lanes, two threads, and one run after another.

    python benchmarks/batch.py [WORD]     prints the tables of benchmarks/README.md, or their rows with WORD in the name

Every lane has its own initial data; both sides store the last state only. benchmarks/c/batch.c is compiled for blocks of 8
and 16 lanes, with gcc's own width of vectors and with 512 bits: the fastest of the four is compared.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from build import built
from cases import CASES, Case
from sides import TOLERANCE, Batch, batch_c_side, batch_sides

from dalembert.gallery import ENTRIES, chain, pendulum

LANES, STEPS, REPEATS = 4096, 1000, 21
THREADED = (1024, 4096, 16384, 65536)
ROUNDS, TURNS, THREADED_STEPS = 5, 5, 100
BUILDS = [(f"W = {width}{name}", (f"-DW={width}", *flags))
          for width in (8, 16) for name, flags in (("", ()), (", 512 bits", ("-mprefer-vector-width=512",)))]  # fmt: skip


class Many(NamedTuple):
    """case: of one trajectory. starts: q0 and v0 of B lanes, (B, n) both. function: of benchmarks/c/batch.c."""

    case: Case
    starts: Callable[[int], tuple[np.ndarray, np.ndarray]]
    function: str | None = None


def speeds(lanes: int) -> tuple[np.ndarray, np.ndarray]:
    """The curvature particle, with speeds from 1.4 to 2.8."""
    factors = np.random.default_rng(0).uniform(1, 2, (lanes, 1))
    return np.zeros((lanes, 2)), factors * np.ones(2)


def hung(lanes: int) -> tuple[np.ndarray, np.ndarray]:
    """The chain of four rods at rest, angles changed by up to 0.1."""
    angles = np.linspace(0.3, 1.2, 4) + np.random.default_rng(0).uniform(-0.1, 0.1, (lanes, 4))
    return np.stack([chain.placed(x) for x in angles]), np.zeros((lanes, 8))


def turning(lanes: int) -> tuple[np.ndarray, np.ndarray]:
    """The same chain, turning about its upper end like a rigid body, by 0.5 to 1 radians in a unit of time."""
    q, _ = hung(lanes)
    x, y = q[:, ::2], q[:, 1::2]
    rates = np.random.default_rng(1).uniform(0.5, 1, (lanes, 1, 1))
    return q, (rates * np.stack([-y, x], axis=2)).reshape(lanes, -1)


def lifted(lanes: int) -> tuple[np.ndarray, np.ndarray]:
    """The pendulum at rest at angles from 0.5 to 2.5."""
    return np.random.default_rng(0).uniform(0.5, 2.5, (lanes, 1)), np.zeros((lanes, 1))


PENDULUM = ENTRIES["pendulum"]
MANY = {
    "curvature particle": Many(CASES["curvature particle"], speeds, "curvature_batch"),
    "chain n = 8, turning": Many(CASES["chain n = 8"], turning, "chain_batch"),
    "chain n = 8, from rest": Many(CASES["chain n = 8"], hung, "chain_batch"),
    "pendulum": Many(Case(pendulum.pendulum, PENDULUM.q0, PENDULUM.v0, PENDULUM.h, "", {}, (1.0,)), lifted),
}


def seconds(side: Batch, clock: Callable[[], float]) -> float:
    """Of one call, without the time to put the states back to where they begin."""
    side.reset()
    start = clock()
    side.call()
    return clock() - start


def interleaved(sides: list[Batch], repeats: int, clock: Callable[[], float]) -> np.ndarray:
    """(repeats, sides) seconds; the sides take turns."""
    return np.array([[seconds(side, clock) for side in sides] for _ in range(repeats)])


def quartiles(ratios: np.ndarray) -> str:
    low, middle, high = np.quantile(ratios, (0.25, 0.5, 0.75))
    return f"**{middle:.2f}** ({low:.2f}–{high:.2f})"


def line(*cells) -> None:
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def head(*cells: str) -> None:
    print()
    line(*cells)
    print("|---" * len(cells) + "|")


def against_c(many: dict[str, Many], folder: Path) -> None:
    """Lanes against C, one thread of each: the thread's own time."""
    libraries = {label: built("batch.c", folder, flags) for label, flags in BUILDS}
    head("4096 trajectories", "native, 10⁶ steps/s", "C, 10⁶ steps/s", "fastest C", "speed, native / C (quartiles)",
         "iterations per step, native / C", f"difference in q, {STEPS} steps")  # fmt: skip
    for name, (case, starts, function) in many.items():
        if function is None:
            continue
        data = starts(LANES)
        native = batch_sides(case, *data, STEPS, {"lanes": 1})["lanes"]
        others = [batch_c_side(library, function, case, *data, STEPS) for library in libraries.values()]
        times = interleaved([native, *others], REPEATS, time.thread_time)
        best = 1 + int(np.argmin(np.median(times[:, 1:], axis=0)))
        peer = others[best - 1]
        million = LANES * STEPS / 1e6 / np.median(times, axis=0)
        difference = np.max(np.abs(native.q() - peer.q()))
        label, ratio = [*libraries][best - 1], quartiles(times[:, best] / times[:, 0])
        line(name, f"{million[0]:.1f}", f"{million[best]:.1f}", label, ratio,
             f"{native.iterations():.2f} / {peer.iterations():.2f}", f"{difference:.0e}")  # fmt: skip


def in_halves(library, many: Many, q0: np.ndarray, v0: np.ndarray, steps: int) -> Batch:
    """The C in two threads, each with one half of the lanes: what the machine gives to a second thread."""
    assert many.function is not None
    half = len(q0) // 2
    pair = [batch_c_side(library, many.function, many.case, q0[part], v0[part], steps)
            for part in (slice(half), slice(half, None))]  # fmt: skip

    def reset() -> None:
        for side in pair:
            side.reset()

    def call() -> None:
        other = threading.Thread(target=pair[1].call)
        other.start()
        pair[0].call()
        other.join()

    return Batch(reset, call, pair[0].q, pair[0].iterations)


def threads(many: dict[str, Many], folder: Path) -> None:
    """Two threads against one, in time on the clock, for the library and for C: the best of the medians of the rounds.

    100 steps, a chain that starts from rest left out: what others do meanwhile spoils long runs.
    """
    library = built("batch.c", folder, BUILDS[0][1])
    sizes = [f"{lanes // 1024}k lanes" for lanes in THREADED]
    head("two threads against one, speed", "", *sizes)
    for name, one in many.items():
        if one.starts is hung:
            continue
        found: dict[str, list[str]] = {"native": [], "C": []}
        for lanes in THREADED:
            data = one.starts(lanes)
            ours = batch_sides(one.case, *data, THREADED_STEPS, {"one": 1, "two": 2})
            sides = [ours["one"], ours["two"]]
            if one.function:
                sides.append(batch_c_side(library, one.function, one.case, *data, THREADED_STEPS))
                sides.append(in_halves(library, one, *data, THREADED_STEPS))
            rounds = [interleaved(sides, TURNS, time.perf_counter) for _ in range(ROUNDS)]
            for i, label in enumerate(("native", "C")[: len(sides) // 2]):
                best = max(np.median(times[:, 2 * i] / times[:, 2 * i + 1]) for times in rounds)
                found[label].append(f"{best:.2f}")
        for label, cells in found.items():
            if cells:
                line(name, label, *cells)


def one_by_one(many: dict[str, Many]) -> None:
    """Lanes against the machine code of one run, called for one trajectory after the other; the thread's own time."""
    head("1024 trajectories, one thread", "lanes / one by one, speed (quartiles)", "difference in q")
    for name, (case, starts, _) in many.items():
        sides = batch_sides(case, *starts(1024), STEPS, {"lanes": 1, "alone": None})
        times = interleaved([*sides.values()], REPEATS, time.thread_time)
        difference = np.max(np.abs(sides["lanes"].q() - sides["alone"].q()))
        line(name, quartiles(times[:, 1] / times[:, 0]), f"{difference:.0e}")


def main(word: str) -> None:
    many = {name: one for name, one in MANY.items() if word in name}
    load = "; ".join(f"{x:.1f}" for x in os.getloadavg())
    print(f"tolerance {TOLERANCE:g}; load of the machine before (1; 5; 15 minutes): {load}")
    with tempfile.TemporaryDirectory() as folder:
        against_c(many, Path(folder))
        one_by_one(many)
        threads(many, Path(folder))
    print(f"\nload after: {'; '.join(f'{x:.1f}' for x in os.getloadavg())}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
