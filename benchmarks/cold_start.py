"""From the start of a process to the first path of a system that nothing has seen before, by part.

    python benchmarks/cold_start.py [NAME ...]     prints the table of benchmarks/README.md; by default the whole gallery

Each system has a fresh interpreter and empty caches; processor time, medians. *trace*: JAX reads the functions, and the
graph is made of what it has read, for the checks of the initial data and for the step. *machine code*: LLVM. *checks, run
and the rest*: the first `simulate` without both. Beside it one `jax.jit` of the Jacobian of the same residual, in a
process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np

REPEATS = 3
PARTS = ("import", "trace", "machine code", "checks, run and the rest")
PREPARED = """
import json, sys, time
began = time.process_time()
import dalembert as da
from dalembert.gallery import ENTRIES
da.simulate
import jax
loaded = time.process_time()
from dalembert.native.llvm.cache import Cache
from dalembert.native.trace.tracer import Tracer
entry = ENTRIES[sys.argv[1]]
given = (entry.system, entry.q0, entry.v0)
"""
FIRST = """
spent, depth = {"trace": 0.0, "code": 0.0}, [0]


def watched(owner, method, part):
    plain = getattr(owner, method)

    def timed(*arguments, **named):
        depth[0] += 1
        start = time.process_time()
        try:
            return plain(*arguments, **named)
        finally:
            depth[0] -= 1
            if not depth[0]:
                spent[part] += time.process_time() - start

    setattr(owner, method, timed)


watched(Tracer, "trace", "trace")
watched(Cache, "load", "code")
start = time.process_time()
da.simulate(*given, h=entry.h, steps=100)
whole = time.process_time() - start
print(json.dumps([loaded, spent["trace"], spent["code"], whole - spent["trace"] - spent["code"]]))
"""
JITTED = """
import jax.numpy as jnp
import numpy as np
from dalembert.step.run import native as native_run

caught, original = [], native_run.compile_step


def catch(step, sample):
    caught.append((step, sample))
    return original(step, sample)


native_run.compile_step = catch
da.simulate(*given, h=entry.h, steps=1, scheme=da.Scheme())
step, sample = caught[0]
q, s, t, h = (jnp.asarray(x) for x in (sample.q, sample.s, sample.t, sample.h))
shapes = [tuple(int(i) for i in shape) for shape in step.shapes]
sizes = [int(np.prod(shape, initial=1)) for shape in shapes]
parts = np.split(np.asarray(sample.p), np.cumsum(sizes)[:-1]) if sizes else []
leaves = tuple(jnp.asarray(x).reshape(shape) for x, shape in zip(parts, shapes))
z, held = step.guess(q, s, t, h, leaves), jnp.zeros_like(q)
jax.clear_caches()
start = time.process_time()
jax.jit(jax.jacfwd(lambda x: step.residual(x, q, s, t, h, held, leaves))).lower(z).compile()
print(json.dumps(time.process_time() - start))
"""


def measured(program: str, name: str) -> np.ndarray:
    """What a fresh interpreter prints."""
    environment = {**os.environ, "DALEMBERT_CACHE": ""}
    done = subprocess.run(
        [sys.executable, "-c", PREPARED + program, name], env=environment, check=True, capture_output=True, text=True
    )
    return np.array(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    from dalembert import System
    from dalembert.gallery import ENTRIES

    names = sys.argv[1:] or [name for name, entry in ENTRIES.items() if isinstance(entry.system, System)]
    print(
        "| system | " + " | ".join(f"{part}, s" for part in PARTS) + " | first call ÷ one jit | trace and code ÷ one jit |"
    )
    print("|---" * (len(PARTS) + 3) + "|")
    for name in names:
        rows = np.array([[*measured(FIRST, name), float(measured(JITTED, name))] for _ in range(REPEATS)])
        *parts, one = np.median(rows, axis=0)
        first, code = sum(parts[1:]) / one, (parts[1] + parts[2]) / one
        print(f"| {name} | " + " | ".join(f"{x:.2f}" for x in parts) + f" | {first:.2f} | {code:.2f} |", flush=True)


if __name__ == "__main__":
    main()
