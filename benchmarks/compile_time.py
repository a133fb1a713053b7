"""From call to machine code: the native back-end against one jax.jit of the same residual's Jacobian.

    python benchmarks/compile_time.py

Both compile what they have not seen before, in one process, with nothing on disk and no trace kept; medians.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from cases import CASES, Case
from caught import as_unknown

import dalembert as da
from dalembert.native import Cache, compile_step
from dalembert.step.run import machine as native_run

REPEATS = 5


def described(system: da.System, q0, v0, h: float):
    """What `simulate` hands to the compiler: the description of a step, and a sample of its state."""
    caught = []
    original = native_run.compile_step

    def catch(step, sample):
        caught.append((step, sample))
        return original(step, sample)

    native_run.compile_step = catch
    try:
        with as_unknown():
            da.simulate(system, q0, v0, h=h, steps=1)
    finally:
        native_run.compile_step = original
    return caught[0]


def times(case: Case) -> tuple[float, float]:
    """Seconds for the native code of a run and for a compiled Jacobian."""
    native_run._COMPILED.clear()
    step, sample = described(case.build(), case.q0, case.v0, case.h)
    jax.clear_caches()
    start = time.perf_counter()
    compile_step(step, sample, Cache(None))
    native = time.perf_counter() - start
    return native, jit_of_jacobian(step, sample, time.perf_counter)


def jit_of_jacobian(step, sample, clock: Callable[[], float]) -> float:
    """Seconds, by the clock, to trace and compile the Jacobian of the residual."""
    q, s, t, step_size = (jnp.asarray(x) for x in (sample.q, sample.s, sample.t, sample.h))
    places = np.cumsum([int(np.prod(shape, initial=1)) for shape in step.shapes])[:-1]
    parts = np.split(np.asarray(sample.p), places) if step.shapes else []
    leaves = tuple(jnp.asarray(x).reshape(shape) for x, shape in zip(parts, step.shapes, strict=True))
    z, held = step.guess(q, s, t, step_size, leaves), jnp.zeros_like(q)
    jax.clear_caches()
    start = clock()
    jax.jit(jax.jacfwd(lambda x: step.residual(x, q, s, t, step_size, held, leaves))).lower(z).compile()
    return clock() - start


def main() -> None:
    print("| system | native: trace and compile, s | jax.jit of the Jacobian, s | ratio |")
    print("|---|---|---|---|")
    for name, case in CASES.items():
        pairs = np.array([times(case) for _ in range(REPEATS)])
        native, jit = np.median(pairs, axis=0)
        print(f"| {name} | {native:.3f} | {jit:.3f} | {np.median(pairs[:, 0] / pairs[:, 1]):.2f} |", flush=True)


if __name__ == "__main__":
    main()
