"""From call to machine code: the native back-end against one jax.jit of the same residual's Jacobian.

    python benchmarks/compile_time.py

Both compile what they have not seen before, in one process, with nothing on disk and no trace kept; medians.
"""

from __future__ import annotations

import time

import jax
import jax.numpy as jnp
import numpy as np
from cases import CASES, Case
from caught import as_unknown

import dalembert as da
from dalembert.native import Cache, compile_step
from dalembert.step.run import native as native_run

REPEATS = 5


def described(case: Case):
    """What `simulate` hands to the compiler: the description of a step, and a sample of its state."""
    caught = []
    original = native_run.compile_step

    def catch(step, sample):
        caught.append((step, sample))
        return original(step, sample)

    native_run.compile_step = catch
    try:
        with as_unknown():
            da.simulate(case.build(), case.q0, case.v0, h=case.h, steps=1)
    finally:
        native_run.compile_step = original
    return caught[0]


def times(case: Case) -> tuple[float, float]:
    """Seconds for the native code of a run and for a compiled Jacobian."""
    native_run._COMPILED.clear()
    step, sample = described(case)
    jax.clear_caches()
    start = time.perf_counter()
    compile_step(step, sample, Cache(None))
    native = time.perf_counter() - start
    q, s, t, step_size = (jnp.asarray(x) for x in (sample.q, sample.s, sample.t, sample.h))
    p = tuple(jnp.asarray(x) for x in np.split(sample.p, len(step.shapes))) if step.shapes else ()
    z, held = step.guess(q, s, t, step_size, tuple(x.reshape(()) for x in p)), jnp.zeros_like(q)
    leaves = tuple(x.reshape(()) for x in p)
    jax.clear_caches()
    start = time.perf_counter()
    jax.jit(jax.jacfwd(lambda x: step.residual(x, q, s, t, step_size, held, leaves))).lower(z).compile()
    return native, time.perf_counter() - start


def main() -> None:
    print("| system | native: trace and compile, s | jax.jit of the Jacobian, s | ratio |")
    print("|---|---|---|---|")
    for name, case in CASES.items():
        pairs = np.array([times(case) for _ in range(REPEATS)])
        native, jit = np.median(pairs, axis=0)
        print(f"| {name} | {native:.3f} | {jit:.3f} | {np.median(pairs[:, 0] / pairs[:, 1]):.2f} |", flush=True)


if __name__ == "__main__":
    main()
