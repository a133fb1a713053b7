"""One trajectory: the library's native back-end against hand-written C of the same scheme, interleaved.

    python benchmarks/compare.py            prints the table of benchmarks/README.md

Each C program in benchmarks/c is compiled with gcc -O3 -march=native. Runs alternate, so that other work on the machine
meets both; the table gives medians of times, and the median and the range of their ratios.
"""

from __future__ import annotations

import ctypes
import importlib
import math
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import jax.numpy as jnp
import numpy as np

import dalembert as da
from dalembert.native import CompiledStep
from dalembert.step.native_run import native_run

HERE = Path(__file__).parent
STEPS, REPEATS, TOLERANCE = 20_000, 31, 1e-9


def curvature() -> da.System:
    def phi(q, v, a, p):
        return (v[0] * a[1] - a[0] * v[1]) / jnp.linalg.norm(v) ** 3 - p["k"]

    return da.System(
        lambda q, v, p: 0.5 * p["m"] * v @ v,
        da.SecondOrder(phi, reactions=lambda q, v, a, p: jnp.array([v[1], -v[0]])),
        parameters={"m": 1.0, "k": 1.0},
    )


def nonholonomic() -> da.System:
    return da.System(
        lambda q, v: 0.5 * v @ v - 0.5 * (q[0] ** 2 + q[1] ** 2), da.Nonholonomic(lambda q, v: v[2] - q[1] * v[0])
    )


def chain(rods: int) -> da.System:
    def phi(q):
        r = q.reshape(rods, 2)
        return jnp.sum((r - jnp.concatenate([jnp.zeros((1, 2)), r[:-1]])) ** 2, axis=1) - 1.0

    return da.System(lambda q, v: 0.5 * v @ v - 9.81 * jnp.sum(q.reshape(rods, 2)[:, 1]), da.Holonomic(phi))


def hanging(rods: int) -> np.ndarray:
    angles = np.linspace(0.3, 1.2, rods)
    return np.cumsum(np.stack([np.sin(angles), -np.cos(angles)], 1), 0).ravel()


# name: (system, q0, v0, h, C file, {label: function})
CASES = {
    "curvature particle": (curvature, [0.0, 0.0], [1.0, 1.0], 0.1, "curvature.c", {"dense": "curvature"}),
    "nonholonomic particle": (
        nonholonomic, [1.0, 0.0, 0.0], [0.5, 1.0, 0.0], 0.01, "nonholonomic.c", {"dense": "nonholonomic"},
    ),
    "chain n = 8": (
        lambda: chain(4), hanging(4), np.zeros(8), 0.01, "chain.c", {"dense": "chain8", "reduced by hand": "rattle8"},
    ),
    "chain n = 20": (
        lambda: chain(10), hanging(10), np.zeros(20), 0.01, "chain.c", {"dense": "chain20", "reduced by hand": "rattle20"},
    ),
}  # fmt: skip


def built(source: str, folder: Path) -> ctypes.CDLL:
    """The C file as a library."""
    library = folder / (source + ".so")
    flags = ["-O3", "-march=native", "-fno-math-errno", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, str(HERE / "c" / source), "-o", str(library), "-lm"], check=True)
    return ctypes.CDLL(str(library))


def c_run(library: ctypes.CDLL, name: str, q0, v0, h: float) -> tuple[Callable[[], int], np.ndarray]:
    """A call of a C integrator that returns its number of iterations, and the array its positions are written to."""
    function = getattr(library, name)
    function.restype = ctypes.c_long
    function.argtypes = [ctypes.c_long, ctypes.c_double, ctypes.c_double, *[ctypes.c_void_p] * 4]
    q, v, p = np.array(q0, float), np.array(v0, float), np.array([1.0, 1.0])
    out = np.zeros((STEPS, 5 * len(q)))
    arrays = [a.ctypes.data for a in (p, q, v, out)]

    def call() -> int:
        _ = q, v, p  # kept alive
        return function(STEPS, h, TOLERANCE, *arrays)

    return call, out


def native_call(system: da.System, q0, v0, h: float) -> tuple[Callable[[], int], np.ndarray]:
    """The same for the library: what `simulate` gives to the machine code, caught on its way."""
    caught = []
    simulate = importlib.import_module("dalembert.step.simulate")
    original, run = CompiledStep.run, simulate.chunked_run

    def catch(self, carry, count, inputs, rows):
        caught.append((self, carry.copy(), count.copy(), inputs, rows))
        original(self, carry, count, inputs, rows)

    CompiledStep.run, simulate.chunked_run = catch, native_run
    try:
        da.simulate(system, q0, v0, h=h, steps=STEPS, throw=False)
    finally:
        CompiledStep.run, simulate.chunked_run = original, run
    code, carry, count, inputs, rows = caught[-1]

    def call() -> int:
        numbers = count.copy()
        code.run(carry.copy(), numbers, inputs, rows)
        return int(numbers[3])

    return call, rows


def timed(call: Callable[[], int]) -> float:
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) / STEPS * 1e9


def compare(native: Callable[[], int], other: Callable[[], int]) -> tuple[float, float, np.ndarray]:
    """Medians of both in nanoseconds per step, and the sorted ratios."""
    pairs = np.array([(timed(native), timed(other)) for _ in range(REPEATS)])
    return float(np.median(pairs[:, 0])), float(np.median(pairs[:, 1])), np.sort(pairs[:, 0] / pairs[:, 1])


def main() -> int:
    if shutil.which("gcc") is None:
        print("gcc is needed for the comparison")
        return 1
    print("| one trajectory | C version | native, ns/step | C, ns/step | ratio (quartiles) | difference in q, 100 steps |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, (build, q0, v0, h, source, versions) in CASES.items():
            native, rows = native_call(build(), q0, v0, h)
            library = built(source, Path(folder))
            for label, function in versions.items():
                other, out = c_run(library, function, q0, v0, h)
                native(), other()
                n = len(q0)
                width = rows.shape[1] - n  # C stores no held force
                reference = out.ravel()[: STEPS * width].reshape(STEPS, width)
                difference = np.max(np.abs(rows[:100, :n] - reference[:100, :n]))
                ours, theirs, ratios = compare(native, other)
                low, middle, high = (ratios[math.floor(f * len(ratios))] for f in (0.25, 0.5, 0.75))
                spread = f"**{middle:.2f}** ({low:.2f}–{high:.2f})"
                print(f"| {name} | {label} | {ours:.0f} | {theirs:.0f} | {spread} | {difference:.0e} |",
                      flush=True)  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
