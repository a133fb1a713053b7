"""What a run watches in its steps: the sign and the size of their determinant, and turns of the velocity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dalembert.native.graph.nodes import paired
from dalembert.native.llvm.builder import Code
from dalembert.native.llvm.emit import Values
from dalembert.native.stepper.arrays import LEAP
from dalembert.native.stepper.frame import Frame
from dalembert.native.stepper.linear_systems import Plan


def report(f: Frame, plan: Plan, inner: Values, known: Values) -> None:
    """Scaled residual, sign and size of the determinant of the last evaluation, from the written-out elimination.

    inner: values at the iterate; known: those at the solution of the nonlinear unknowns. Where one evaluation solves
    them, what is left is not evaluated: it counts as zero. Where the iteration ends with a chord its residual is known.
    """
    c, out, emit = f.code, f.outputs, f.emitter.emit
    if not out.ends_with_chord:
        c.store(c.constant(0.0) if plan.once else emit(out.size, inner, fast=True)[0], f.size)
    if not out.factor:
        pivots = [*emit(out.pivots, inner), *emit(out.affine_pivots, known)]
        c.store(determinant_sign(c, pivots, plan.parity), f.sign)
        if f.step.ends:
            c.store(determinant(c, pivots), f.determinant)


class Crossing(NamedTuple):
    """The sign of a factor, or of the determinant, the last one if it is none; whether it changed."""

    sign: str
    crossed: str


def determinant(c: Code, pivots: Sequence[str]) -> str:
    """Its size, from the pivots of an elimination."""
    return c.absolute(paired(lambda a, b: c.let(f"fmul contract {c.real} {a}, {b}"), list(pivots), c.constant(1.0)))


def determinant_sign(c: Code, pivots: Sequence[str], odd: int) -> str:
    """1 or -1, from the signs of the pivots; odd: whether their order is an odd permutation."""
    bits = c.constant(-1 if odd else 0, "i64")
    for pivot in pivots:
        bits = c.let(f"xor {c.whole} {bits}, {c.let(f'bitcast {c.real} {pivot} to {c.whole}')}")
    negative = c.let(f"icmp slt {c.whole} {bits}, zeroinitializer")
    return c.select(negative, c.constant(-1.0), c.constant(1.0))


def leaped(c: Code, before: str, after: str) -> str:
    """Whether a determinant changed its size more than LEAP-fold; 0 stands for one that is not known."""
    grew = c.compare("olt", before, after)
    low, high = c.select(grew, before, after), c.select(grew, after, before)
    known = c.compare("ogt", low, c.constant(0.0))
    return c.both(known, c.compare("ogt", high, c.times(low, c.constant(LEAP))))


def watch_sign(f: Frame, values: Values) -> Crossing:
    """Whether the sign changed since the last stage that went in the direction of this one: 0 is no sign."""
    c, old, zero = f.code, f.read_sign(), f.code.constant(0.0)
    new = f.emitter.sign(f.emitter.emit(f.outputs.factor, values)[0]) if f.outputs.factor else c.load(f.sign)
    crossed = c.compare("olt", c.times(new, old), zero)
    return Crossing(c.select(c.compare("oeq", new, zero), old, new), crossed)


def count_turn(f: Frame, values: Values) -> None:
    """Steps in which the velocity turned by more than a right angle."""
    if f.stages.number > 1:
        for name in ("q", "s"):
            f.emitter.bind(values, f"since_{name}", f.read(f"begin_{name}"))
    turned = f.code.compare("olt", f.emitter.emit(f.outputs.turned, values)[0], f.code.constant(0.0))
    f.add("turns", f.code.counted(turned))


def count_leap(f: Frame) -> None:
    """Of whole steps only: determinants of stages of different lengths are not to be compared."""
    (old,), new = f.read("determinant"), f.code.load(f.determinant)
    f.add("leaps", f.code.counted(leaped(f.code, old, new)))
    f.write("determinant", [new])
