"""Steps on groups: beside coordinates of Rⁿ, beside unit quaternions with their constraint, and beside hand-written C.

    python -m benchmarks.groups

Processor time of a step, all of one case interleaved, medians; errors of (q, v) at T = 4 against the order 10.
"""

from __future__ import annotations

import ctypes
import functools
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from benchmarks.build import built

import dalembert as da
from dalembert.groups import SO3

MOMENTS, TIMES = np.array([1.0, 2.0, 3.0]), 15
START, OMEGA = np.array([1.0, 0.0, 0.0, 0.0]), np.array([0.1, 1.5, 0.3])


def height(q):
    """e₃·Re₃ of a quaternion, as the group has it from its matrix."""
    return 1.0 - 2.0 * (q[1] * q[1] + q[2] * q[2])


def rate(q, v):
    """ω of a quaternion and its rate."""
    return 2.0 * (q[0] * v[1:] - v[0] * q[1:] - jnp.cross(q[1:], v[1:]))


FREE = da.System(lambda q, v: 0.5 * v.R @ (MOMENTS * v.R), coordinates={"R": SO3()})
TOP = da.System(lambda q, v: 0.5 * v.R @ (MOMENTS * v.R) - 1.2 * q.R[2, 2], coordinates={"R": SO3()})
UNIT = da.Holonomic(lambda q: q @ q - 1.0)
FREE_4 = da.System(lambda q, v: 0.5 * rate(q, v) @ (MOMENTS * rate(q, v)), UNIT)
TOP_4 = da.System(lambda q, v: 0.5 * rate(q, v) @ (MOMENTS * rate(q, v)) - 1.2 * height(q), UNIT)


def bowl(q):
    """As many operations as `height` and one more, so that it is not quadratic."""
    s = q[1] * q[1] + q[2] * q[2]
    return 2.0 * s + s * s


def warped(q, v):
    """Kinetic energy that depends on q, with as many operations as the momentum map of a turning body has in a step."""
    return 0.5 * v @ (MOMENTS * v) * (1.0 + 0.1 * (q @ q))


def hanging(y, v):
    """A hanging top in three coordinates, y = 2 tan(angle/2) along the axis: L as it then is, with its operations."""
    s = 1.0 + 0.25 * (y @ y)
    w = (v - 0.5 * jnp.cross(y, v)) / s
    return 0.5 * w @ (MOMENTS * w) + 1.2 * (1.0 - 0.5 * (y[0] * y[0] + y[1] * y[1]) / s)


FREE_3 = da.System(warped)
TOP_3 = da.System(lambda q, v: 0.5 * v @ (MOMENTS * v) - 1.2 * bowl(q))


def lifted(q: np.ndarray, w: np.ndarray) -> np.ndarray:
    """q̇ of ω."""
    return 0.5 * np.array([-q[1:] @ w, *(q[0] * w + np.cross(q[1:], w))])


def runner(system: da.System, q0, v0, order: int, form: str | None = None) -> Callable[[float, int], da.Path]:
    ready = {}

    def run(h: float, steps: int) -> da.Path:
        one = ready.setdefault(h, da.prepare(system, h=h, scheme=da.Scheme(form, order=order), save=da.Save(every=steps)))
        return one(q0, v0, steps)

    return run


def nanoseconds(runs: Mapping[str, Callable[[], object]], steps: int) -> dict[str, float]:
    for run in runs.values():
        run()
    spent: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(TIMES):
        for name, run in runs.items():
            begun = time.process_time()
            run()
            spent[name].append((time.process_time() - begun) / steps * 1e9)
    return {name: float(np.median(x)) for name, x in spent.items()}


def compare(name: str, group: da.System, four: da.System, three: da.System) -> None:
    truth = da.simulate(group, START, OMEGA, h=0.01, steps=400, scheme=da.Scheme(order=10))

    def error(path: da.Path) -> float:
        q, v = path.q[-1], path.v[-1]
        w = v if len(v) == 3 else np.asarray(rate(q, v))
        q = q if q @ truth.q[-1] > 0 else -q
        return max(np.abs(q - truth.q[-1]).max(), np.abs(w - truth.v[-1]).max())

    for order, steps in ((2, 400), (4, 100)):
        runs = {
            "SO(3), drift-kick-drift": runner(group, START, OMEGA, order),
            "SO(3), kick-drift-kick": runner(group, START, OMEGA, order, "kick_drift_kick"),
            "unit quaternion": runner(four, START, lifted(START, OMEGA), order),
            "three coordinates": runner(three, np.array([0.1, 0.2, 0.3]), OMEGA, order),
        }
        many, h = 100_000 if order == 2 else 20_000, 4.0 / steps
        cost = nanoseconds({x: functools.partial(run, h, many) for x, run in runs.items()}, many)
        for x, run in runs.items():
            off = "" if x == "three coordinates" else f"{error(run(h, steps)):10.1e}"
            ratio, count = cost[x] / cost["three coordinates"], int(run(h, many).statistics.iterations) / many
            print(
                f"{name:10} order {order}  {x:24} {cost[x]:6.0f} ns {ratio:5.2f} {count:6.1f} iterations {off}", flush=True
            )


def beside_coordinates(h: float = 0.01, steps: int = 20_000) -> None:
    """A hanging top that swings below half a turn, on SO(3) and in three coordinates."""
    top = da.System(lambda q, v: 0.5 * v.R @ (MOMENTS * v.R) + 1.2 * q.R[2, 2], coordinates={"R": SO3()})
    swing = np.array([0.3, 0.5, 0.0])
    for order in (2, 4):
        runs = {
            "SO(3)": runner(top, START, swing, order),
            "coordinates": runner(da.System(hanging), np.zeros(3), swing, order),
        }
        cost = nanoseconds({x: functools.partial(run, h, steps) for x, run in runs.items()}, steps)
        print(f"hanging top order {order}: {', '.join(f'{x} {ns:.0f} ns' for x, ns in cost.items())}, "
              f"{cost['SO(3)'] / cost['coordinates']:.2f}", flush=True)  # fmt: skip


def keep_memory(kept: bool) -> None:
    """Large arrays in memory that was used before; or in new memory each time, as in a program's first run."""
    threshold, trim = -3, -1  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD of the C library
    library = ctypes.CDLL(None)
    library.mallopt(threshold, 2**25 if kept else 2**17)
    library.mallopt(trim, 2**30 if kept else 2**17)


def beside_c(steps: int = 20_000) -> None:
    """Every state kept, in an array of each call's own."""
    with tempfile.TemporaryDirectory() as folder:
        code, h = built("rigid_body.c", Path(folder)).rigid_body, 0.02
        pointer = ctypes.POINTER(ctypes.c_double)
        code.restype, code.argtypes = ctypes.c_long, [ctypes.c_long, *[ctypes.c_double] * 2, *[pointer] * 4]
        given = [np.ascontiguousarray(x) for x in (MOMENTS, START, OMEGA)]
        ours, last = da.prepare(FREE, h=h), da.prepare(FREE, h=h, save=da.Save(every=steps))

        def by_c() -> np.ndarray:
            out = np.empty((steps, 11))
            code(steps, h, 1e-9, *(x.ctypes.data_as(pointer) for x in (*given, out)))
            return out

        runs = {
            "C": by_c,
            "ours": lambda: ours(START, OMEGA, steps),
            "ours, and q and v read": lambda: ours(START, OMEGA, steps).q,
            "ours, last state only": lambda: last(START, OMEGA, steps),
        }
        for kept in (False, True):
            keep_memory(kept)
            cost = nanoseconds(runs, steps)
            for x, ns in cost.items():
                print(
                    f"free body, {'used' if kept else 'new'} memory  {x:24} {ns:5.0f} ns {ns / cost['C']:6.2f}", flush=True
                )
        apart = np.abs(by_c()[-1, :7] - np.concatenate([(p := ours(START, OMEGA, steps)).q[-1], p.v[-1]])).max()
        print(f"after {steps} steps {apart:.1e} apart")


if __name__ == "__main__":
    beside_c()  # before anything has left memory behind that is taken again
    compare("free body", FREE, FREE_4, FREE_3)
    compare("heavy top", TOP, TOP_4, TOP_3)
    beside_coordinates()
