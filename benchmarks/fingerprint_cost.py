"""What a call spends on finding out whether anything that its functions read has changed.

    python benchmarks/fingerprint_cost.py

Fingerprints of the gallery's systems, of a system with a large array behind it, and, for comparison in the same process,
what a warm call of `simulate` with one step takes. Processor time, medians of interleaved repeats.
"""

from __future__ import annotations

import statistics
import time

import numpy as np

import dalembert as da
from dalembert.gallery import ENTRIES
from dalembert.tracing import Walk

REPEATS, LOOPS = 15, 40
NAMES = ("pendulum", "nonholonomic_particle", "car_with_trailers", "inertia_wheel_pendulum", "chain")


def cost(work) -> float:
    """Microseconds of processor time of one call."""
    begin = time.process_time()
    for _ in range(LOOPS):
        work()
    return (time.process_time() - begin) / LOOPS * 1e6


def main() -> None:
    table = np.linspace(0.0, 1.0, 131_072)  # 1 MB
    systems = {name: ENTRIES[name].system for name in NAMES}
    systems["1 MB array in a closure"] = da.System(lambda q, v: 0.5 * v @ v - table[3] * q @ q)
    q0, v0 = np.array([1.0]), np.array([0.0])
    pendulum = da.System(lambda q, v: 0.5 * v @ v + np.cos(1.0) * q[0])
    run = lambda: da.simulate(pendulum, q0, v0, h=0.01, steps=1)  # noqa: E731
    run()
    work = {name: (lambda s=s: Walk().of(s)) for name, s in systems.items()} | {"whole call, one step": run}
    times: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(REPEATS):
        for name, each in work.items():
            times[name].append(cost(each))
    call = statistics.median(times["whole call, one step"])
    print(f"{'':28s}{'µs':>9s}{'of a call':>11s}")
    for name, found in times.items():
        print(f"{name:28s}{statistics.median(found):9.1f}{statistics.median(found) / call:11.3f}")


if __name__ == "__main__":
    main()
