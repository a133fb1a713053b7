"""A motion from data that satisfy the constraints: on D as far as its directions go, and from there in (q, v), kept on the
constraints."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dalembert.native import Accuracy, Solved, Travelled
from dalembert.systems.compiled.flow import SystemFlow, reduced_flow
from dalembert.systems.frame.flow import FrameFlow, frame_flow
from dalembert.systems.initial.proven import ProvenStart


def along_constraints(start: ProvenStart, times: np.ndarray, accuracy: Accuracy) -> tuple[Solved, Callable[[], np.ndarray]]:
    """Rows (q, v) at the times, which increase or decrease, and the outputs (λ, drift) when they are asked for."""
    n, y = len(start.q), np.concatenate([start.q, start.v])
    frame: FrameFlow | None = start.read.once(("frame", n), lambda one: frame_flow(one, n, start.m))
    found = None if frame is None else frame.run(start.q, start.v, times, accuracy)
    if found is None:
        flow = _reduced(start)
        solved = flow.solve(y, times, accuracy)
        return solved, lambda: flow.outputs(solved, times)
    rows, outputs, end = found.outputs[:, : 2 * n], found.outputs[:, 2 * n :], found.end[2 * n :]
    rows[0] = y  # its velocities went through w
    done = found._replace(rows=rows, outputs=outputs, end=end)
    if found.reached or found.steps >= accuracy.steps:
        return _solved(done)
    left = np.concatenate([[found.t], times[found.saved :]])
    rest = _reduced(start).run(found.end[: 2 * n], left, accuracy._replace(steps=accuracy.steps - found.steps))
    return _solved(_joined(done, rest))


def _reduced(start: ProvenStart) -> SystemFlow:
    n = len(start.q)
    return start.read.once(("flow", n), lambda one: reduced_flow(one, n, start.m, projected=True))


def _solved(found: Travelled) -> tuple[Solved, Callable[[], np.ndarray]]:
    rows = np.where(np.arange(len(found.rows))[:, None] < found.saved, found.rows, np.inf)
    return Solved(rows, found.saved, found.reached, found.steps), lambda: found.outputs


def _joined(one: Travelled, other: Travelled) -> Travelled:
    """One after the other, which begins where the first ended."""
    both = lambda a, b: np.concatenate([a[: one.saved], b[1:]])  # noqa: E731
    rows, outputs = both(one.rows, other.rows), both(one.outputs, other.outputs)
    saved, steps = one.saved + other.saved - 1, one.steps + other.steps
    return other._replace(rows=rows, outputs=outputs, saved=saved, steps=steps)
