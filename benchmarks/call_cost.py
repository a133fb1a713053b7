"""What a call of `simulate` costs besides the steps: warm, for a fresh copy of a known system, and cold.

    python benchmarks/call_cost.py [--before FOLDER]

Processor time, so that other work on the machine counts little. FOLDER: the `src` of another version, measured in turns with
this one. A fresh copy is the same source executed again, as by a notebook's cell: nothing is known of its functions. Memory
is that of the process after many fresh copies.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parents[1] / "src"
ROUNDS = 5
SCRIPT = r"""
import json, resource, statistics, sys, time
begin = time.process_time()
import jax.numpy as jnp
import numpy as np
import dalembert as da
loaded = time.process_time() - begin
SOURCE = '''
def L(q, v):
    return 0.5 * v @ v + jnp.cos(q[2])
def rolling(q, v):
    return v[0] * jnp.sin(q[2]) - v[1] * jnp.cos(q[2])
def curve(q):
    return q[3] - q[4] ** 2
system = da.System(L, [da.Nonholonomic(rolling), da.Holonomic(curve)])
'''
Q = np.array([0.0, 0.0, 0.3, 0.25, 0.5])
V = np.array([np.cos(0.3), np.sin(0.3), 0.2, 0.1, 0.1])

def fresh():
    names = {"jnp": jnp, "da": da, "__name__": "cell"}
    exec(SOURCE, names)
    return names["system"]

def seconds(work):
    begin = time.process_time()
    work()
    return time.process_time() - begin

def run(system):
    return da.simulate(system, Q, V, h=0.01, steps=100)

system = fresh()
cold = seconds(lambda: run(system))
warm = statistics.median(seconds(lambda: run(system)) for _ in range(100))
copies = [seconds(lambda: run(fresh())) for _ in range(int(sys.argv[1]))]
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"import": loaded, "first call": cold, "warm call": warm, "fresh copy": statistics.median(copies),
                  "memory, MB": memory}))
"""


def measured(source: Path, copies: int) -> dict[str, float]:
    """One process of that version."""
    environment = os.environ | {"PYTHONPATH": str(source)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(copies)], env=environment, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, help="src folder of another version")
    parser.add_argument("--copies", type=int, default=5, help="fresh copies in each process")
    options = parser.parse_args()
    versions = {"this": HERE} | ({"before": options.before.resolve()} if options.before else {})
    found: dict[str, list[dict[str, float]]] = {name: [] for name in versions}
    for _ in range(ROUNDS):
        for name, source in versions.items():
            found[name].append(measured(source, options.copies))
    print(f"{'':14s}" + "".join(f"{name:>12s}" for name in versions) + ("       ratio" if len(versions) > 1 else ""))
    for what in found["this"][0]:
        middle = [statistics.median(round_[what] for round_ in rounds) for rounds in found.values()]
        ratio = f"{middle[0] / middle[1]:12.2f}" if len(middle) > 1 else ""
        unit = 1.0 if "MB" in what else 1e3
        print(f"{what if unit == 1.0 else what + ', ms':14s}" + "".join(f"{x * unit:12.1f}" for x in middle) + ratio)


if __name__ == "__main__":
    main()
