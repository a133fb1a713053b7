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
import time

import numpy as np

REPEATS = 3
PARTS = ("import", "trace", "machine code", "checks, run and the rest")
ENVIRONMENT = {**os.environ, "DALEMBERT_CACHE": ""}


def first(name: str) -> list[float]:
    """Seconds of each part, in this process, which has to be a fresh one."""
    import dalembert as da
    from dalembert.gallery import ENTRIES

    entry, simulate = ENTRIES[name], da.simulate
    loaded = time.process_time()
    from dalembert.native import Cache, Tracer

    spent, depth = {"trace": 0.0, "code": 0.0}, 0

    def watched(owner, method: str, part: str) -> None:
        plain = getattr(owner, method)

        def timed(*arguments, **named):
            nonlocal depth
            depth += 1
            start = time.process_time()
            try:
                return plain(*arguments, **named)
            finally:
                depth -= 1
                if not depth:
                    spent[part] += time.process_time() - start

        setattr(owner, method, timed)

    watched(Tracer, "trace", "trace")
    watched(Cache, "load", "code")
    start = time.process_time()
    simulate(entry.system, entry.q0, entry.v0, h=entry.h, steps=100)
    whole = time.process_time() - start
    return [loaded, spent["trace"], spent["code"], whole - spent["trace"] - spent["code"]]


def jitted(name: str) -> float:
    """Seconds of one jax.jit of the Jacobian of the residual of a step."""
    from compile_time import described, jit_of_jacobian

    from dalembert.gallery import ENTRIES

    entry = ENTRIES[name]
    return jit_of_jacobian(*described(entry.system, entry.q0, entry.v0, entry.h), clock=time.process_time)


def measured(part: str, name: str) -> np.ndarray:
    """What a fresh interpreter finds."""
    command = [sys.executable, __file__, "--only", part, name]
    done = subprocess.run(command, env=ENVIRONMENT, check=True, capture_output=True, text=True)
    return np.array(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    if sys.argv[1:2] == ["--only"]:
        part, name = sys.argv[2:]
        print(json.dumps({"first": first, "jitted": jitted}[part](name)))
        return
    from dalembert import System
    from dalembert.gallery import ENTRIES

    names = sys.argv[1:] or [name for name, entry in ENTRIES.items() if isinstance(entry.system, System)]
    print(
        "| system | " + " | ".join(f"{part}, s" for part in PARTS) + " | first call ÷ one jit | trace and code ÷ one jit |"
    )
    print("|---" * (len(PARTS) + 3) + "|")
    for name in names:
        rows = np.array([[*measured("first", name), float(measured("jitted", name))] for _ in range(REPEATS)])
        *parts, one = np.median(rows, axis=0)
        call, code = sum(parts[1:]) / one, (parts[1] + parts[2]) / one
        print(f"| {name} | " + " | ".join(f"{x:.2f}" for x in parts) + f" | {call:.2f} | {code:.2f} |", flush=True)


if __name__ == "__main__":
    main()
