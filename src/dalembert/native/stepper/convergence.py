"""Whether Newton's iteration has converged, and the rounding compensation of its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dalembert.algebra.newton import DIVERGING
from dalembert.native.llvm.emit import Values
from dalembert.native.stepper.frame import Frame


def judgement(f: Frame, values: Values, update: Mapping[int, str], w: Sequence[str]) -> tuple[str, str]:
    """Whether every tested |update_i| ≤ tolerance · scale_i at the new w, and whether ≤ DIVERGING · scale_i."""
    c, inside, small, near = f.code, dict(values), f.code.constant(True), f.code.constant(True)
    f.emitter.bind(inside, "w", w)
    groups: dict[int, list[str]] = {}
    for j, value in update.items():
        if f.step.graph.value(f.outputs.scale[j]) != float("inf"):
            groups.setdefault(f.outputs.scale[j], []).append(c.absolute(value))
    for node, sizes in groups.items():
        largest = c.maximum(sizes)
        (scale,) = f.emitter.emit([node], inside, fast=True)
        small = c.both(small, c.compare("ole", largest, c.times(scale, f.tolerance)))
        near = c.both(near, c.compare("ole", largest, c.times(scale, c.constant(DIVERGING))))
    return small, near


def keep_compensation(f: Frame, z: Sequence[str], w: Mapping[int, str], update: Mapping[int, str]) -> None:
    """What rounding has cut off w = z - update: exact, because the update is the smaller of the two."""
    c = f.code
    for j in sorted(f.compensation.keys() & update.keys()):
        c.store(c.minus(c.minus(z[j], w[j]), update[j]), f.compensation[j])
    for j in sorted(f.increments.keys() & update.keys()):
        c.store(c.let(f"fneg {c.real} {update[j]}"), f.increments[j])
