"""Sweeps in blocks: two workers of a cluster against one process with two threads, what a block costs, and a million runs.

python benchmarks/sweeps.py [efficiency] [blocks] [million]
"""

import contextlib
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jax.numpy as jnp
import numpy as np

import dalembert as da

THREADS = 2


def shaken(q, v, t, p):
    lift = p["amplitude"] * p["frequency"] ** 2 * jnp.cos(p["frequency"] * t)
    return 0.5 * v @ v - (1.0 - lift) * jnp.cos(q[0])


def lean(most, t, q, v, multipliers):
    return jnp.maximum(most, jnp.abs(q[0]))


PENDULUM = da.System(shaken, coordinates=("angle",), parameters={"amplitude": 0.1, "frequency": 20.0}, time_dependent=True)


def study(side, steps, **more):
    """side² runs of the pendulum on a pivot that is shaken, of which the largest angle and the last state are kept."""
    axes = {"frequency": np.linspace(5.0, 40.0, side), "amplitude": np.linspace(0.01, 0.2, side)}
    run = {"q0": [0.0], "v0": [0.5], "h": 0.01, "steps": steps, "save": da.Save(every=None)}
    return da.sweep(PENDULUM, axes, run, reduce=(lean, 0.0), **more)


@contextlib.contextmanager
def cluster(workers=THREADS):
    from distributed import Client, LocalCluster

    options = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    with LocalCluster(**options) as local, Client(local) as client:
        yield client


def timed(folder, number, side, steps, **more):
    began = time.perf_counter()
    study(side, steps, store=Path(folder) / f"{number}.zarr", **more)
    return time.perf_counter() - began


def efficiency(side=256, steps=20_000, rounds=5):
    """Wall time of one process with two threads, over that of two workers with one thread each; both write a store."""
    with tempfile.TemporaryDirectory() as folder, cluster() as client:
        ways = {"process": {"threads": THREADS}, "workers": {"client": client}}
        for name, way in ways.items():  # everything is compiled
            timed(folder, f"{name} warm", 64, 100, block=2048, **way)
        ratios = []
        for i in range(rounds):
            order = list(ways)[:: 1 if i % 2 else -1]
            found = {name: timed(folder, f"{name} {i}", side, steps, block=2048, **ways[name]) for name in order}
            ratios.append(found["process"] / found["workers"])
            print(
                f"process {found['process']:.2f} s, workers {found['workers']:.2f} s, efficiency {ratios[-1]:.3f}",
                flush=True,
            )
        low, middle, high = statistics.quantiles(ratios, n=4)
        print(f"{side * side} runs of {steps} steps in {side * side // 2048} blocks: {middle:.2f} ({low:.2f}-{high:.2f})")


def blocks(number=200):
    """What a block costs besides its runs: blocks of 64 runs of one step."""
    size = 8 * int(np.sqrt(number))
    with tempfile.TemporaryDirectory() as folder, cluster() as client:
        spread = da.studies.run_statistics(lambda study: study.reduced)
        for name, way in {"process": {"threads": 1}, "workers": {"client": client}}.items():
            timed(folder, f"{name} warm", 16, 1, block=size, **way)
            spent = timed(folder, name, size, 1, block=size, **way)
            study(16, 1, over_runs=spread, block=size, **way)
            began = time.perf_counter()
            study(size, 1, over_runs=spread, block=size, **way)
            merged = time.perf_counter() - began
            print(f"{name}: {1e3 * spent / size:.1f} ms a block into a store, {1e3 * merged / size:.1f} ms merged")


def million():
    """Peak memory and time in processes of their own."""
    for kind in ("memory", "store", "over_runs"):
        for side in (100, 316, 1000):
            subprocess.run([sys.executable, __file__, "one", kind, str(side)], check=True)


def one(kind, side):
    side = int(side)
    with tempfile.TemporaryDirectory() as folder:
        spread = da.studies.run_statistics(lambda study: study.reduced, bins=np.linspace(0.0, 4.0, 41))
        ways = {"memory": {}, "store": {"store": Path(folder) / "study.zarr"}, "over_runs": {"over_runs": spread}}
        study(8, 100, **({"over_runs": spread} if kind == "over_runs" else {}))
        before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
        study(side, 100, threads=THREADS, **ways[kind])
        spent, peak = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        size = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
        print(f"{kind}, {side * side} runs: {spent:.2f} s, peak {peak / 2**10:.0f} MiB, {before / 2**10:.0f} MiB before, "
              f"{size / 2**20:.0f} MiB on disk", flush=True)  # fmt: skip


if __name__ == "__main__":
    wanted = sys.argv[1:] or ["efficiency", "blocks", "million"]
    print(f"load {os.getloadavg()[0]:.1f}")
    if wanted[0] == "one":
        one(*wanted[1:])
    else:
        for name in wanted:
            {"efficiency": efficiency, "blocks": blocks, "million": million}[name]()
