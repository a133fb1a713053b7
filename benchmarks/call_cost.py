"""What a call of `simulate` costs besides the steps: warm, prepared, for a fresh copy of a known system, and cold.

    python benchmarks/call_cost.py [--before FOLDER] [--copies 1000]

Processor time, so that other work on the machine counts little. Bytecode is on disk, as after an installation, and
machine code is not: every process begins with an empty folder for it. FOLDER: the `src` of another version, measured in
turns with this one. A fresh copy is the same source executed again, as by a notebook's cell: nothing is known of its
functions. Memory is that of the process after many fresh copies. Of a prepared run of one step nearly all is Python. A
cold start is measured against a process that imports JAX and compiles the Jacobian of the same equations of motion with
jax.jit.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
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

def machine_code(ready, steps):
    # Seconds in the two calls of machine code that such a run makes, for (a, λ) and for its steps.
    ready(Q, V, steps)
    run, spent = ready._ready[0], []
    arrays = run._arrays()

    def timed(function):
        def call(*given):
            begin = time.perf_counter()
            found = function(*given)
            spent.append(time.perf_counter() - begin)
            return found
        return call

    arrays.motion._call, arrays.steps._call = timed(arrays.motion._call), timed(arrays.steps._call)
    run._free.append(arrays)
    for _ in range(300):
        ready(Q, V, steps)
    run._free.clear()
    return sum(map(statistics.median, (spent[::2], spent[1::2])))

def run(system):
    return da.simulate(system, Q, V, h=0.01, steps=100)

system = fresh()
cold = seconds(lambda: run(system))
start = time.process_time()
warm = statistics.median(seconds(lambda: run(system)) for _ in range(100))
copies = [seconds(lambda: run(fresh())) for _ in range(int(sys.argv[1]))]
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
found = {"process to first path": start, "import": loaded, "first call": cold, "warm call": warm}
if hasattr(da, "prepare"):
    ready = da.prepare(system, h=0.01)
    for steps in (100, 1):
        found[f"prepared, {steps:3d} steps"] = statistics.median(seconds(lambda: ready(Q, V, steps)) for _ in range(300))
        if hasattr(ready, "_ready"):
            found[f"  of it machine code, {steps:3d} steps"] = machine_code(ready, steps)
print(json.dumps(found | {"fresh copy": statistics.median(copies), "memory, MB": memory}))
"""
BARE = r"""
import time
import jax
import jax.numpy as jnp
import numpy as np
jax.config.update("jax_enable_x64", True)
L = lambda q, v: 0.5 * v @ v + jnp.cos(q[2])
rolling = lambda q, v: v[0] * jnp.sin(q[2]) - v[1] * jnp.cos(q[2])
curve = lambda q: q[3] - q[4] ** 2
def equations(z, q, v):
    a, multipliers = z[:5], z[5:]
    rate = jax.jvp(jax.grad(L, 1), (q, v), (v, a))[1]
    rows = jnp.stack([jax.grad(rolling, 1)(q, v), jax.grad(curve)(q)])
    slope = lambda q, v: jax.jvp(curve, (q,), (v,))[1]
    reduced = jnp.stack([jax.jvp(f, (q, v), (v, a))[1] for f in (rolling, slope)])
    return jnp.concatenate([rate - jax.grad(L)(q, v) - rows.T @ multipliers, reduced])
np.asarray(jax.jit(jax.jacfwd(equations))(np.zeros(7), np.ones(5), np.ones(5)))
print(time.process_time())
"""


def printed(program: str, bytecode: str, *given: str, source: Path | None = None) -> str:
    """The last line that a fresh process prints."""
    with tempfile.TemporaryDirectory() as machine_code:
        kept = {"PYTHONPYCACHEPREFIX": bytecode, "DALEMBERT_CACHE": machine_code, "PYTHONPATH": str(source or "")}
        environment = {name: x for name, x in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | kept
        done = subprocess.run(
            [sys.executable, "-c", program, *given], env=environment, capture_output=True, text=True, check=True
        )
    return done.stdout.splitlines()[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, help="src folder of another version")
    parser.add_argument("--copies", type=int, default=5, help="fresh copies in each process")
    options = parser.parse_args()
    versions = {"this": HERE} | ({"before": options.before.resolve()} if options.before else {})
    found: dict[str, list[dict[str, float]]] = {name: [] for name in versions}
    jacobian = []
    with tempfile.TemporaryDirectory() as bytecode:
        for k in range(ROUNDS + 1):
            bare = float(printed(BARE, bytecode))
            each = {name: json.loads(printed(SCRIPT, bytecode, str(options.copies), source=source))
                    for name, source in versions.items()}  # fmt: skip
            if k:  # the first round writes the bytecode
                jacobian.append(bare)
                for name, numbers in each.items():
                    found[name].append(numbers)
    print(f"{'':34s}" + "".join(f"{name:>12s}" for name in versions) + ("       ratio" if len(versions) > 1 else ""))
    for what in found["this"][0]:
        middle = [statistics.median(round_.get(what, math.nan) for round_ in rounds) for rounds in found.values()]
        ratio = f"{middle[0] / middle[1]:12.3f}" if len(middle) > 1 else ""
        unit = 1.0 if "MB" in what else 1e3
        print(f"{what if unit == 1.0 else what + ', ms':34s}" + "".join(f"{x * unit:12.3f}" for x in middle) + ratio)
    print(f"{'bare jax.jit, ms':34s}{statistics.median(jacobian) * 1e3:12.3f}")
    cold = [[numbers["process to first path"] / bare for numbers, bare in zip(rounds, jacobian, strict=True)]
            for rounds in found.values()]  # fmt: skip
    print(f"{'process to first path / bare':34s}" + "".join(f"{statistics.median(ratios):12.3f}" for ratios in cold))


if __name__ == "__main__":
    main()
