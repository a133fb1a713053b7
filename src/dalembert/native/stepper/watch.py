"""What a run watches in its steps: the sign and the size of their determinant, and turns of the velocity."""

from __future__ import annotations

from collections.abc import Sequence

from dalembert.native.graph.nodes import paired
from dalembert.native.llvm.builder import Code
from dalembert.native.llvm.emit import Values
from dalembert.native.stepper.arrays import LEAP
from dalembert.native.stepper.scalar_frame import State
from dalembert.outcome import Outcome


def determinant(c: Code, pivots: Sequence[str]) -> str:
    """Its size, from the pivots of an elimination."""
    return c.absolute(paired(lambda a, b: c.let(f"fmul contract {c.real} {a}, {b}"), list(pivots), c.constant(1.0)))


def leaped(c: Code, before: str, after: str) -> str:
    """Whether a determinant changed its size more than LEAP-fold; 0 stands for one that is not known."""
    grew = c.let(f"fcmp olt {c.real} {before}, {after}")
    low, high = (
        c.let(f"select {c.truth} {grew}, {c.real} {a}, {c.real} {b}") for a, b in ((before, after), (after, before))
    )
    known = c.let(f"fcmp ogt {c.real} {low}, {c.constant(0.0)}")
    bound = c.let(f"fmul {c.real} {low}, {c.constant(LEAP)}")
    return c.let(f"and {c.truth} {known}, {c.let(f'fcmp ogt {c.real} {high}, {bound}')}")


def cross(state: State, values: Values) -> None:
    """A change of the sign ends the run, or is counted."""
    c, new = state.code, state.sign
    back = state.stages.backwards()
    kept = c.at(state.part["sign"], c.let(f"zext i1 {back} to i64") if back else 0)
    old = c.load(kept)
    if state.roots.factor:
        value = state.emitter.emit(state.roots.factor, values)[0]
        c.store(state.emitter.sign(value), new)
    now = c.load(new)
    crossed = c.let(f"fcmp olt double {c.let(f'fmul double {now}, {old}')}, 0.0")
    if state.step.ends:
        c.fork(crossed, "crossed", "same_side", False)
        c.label("crossed")
        state.fail(Outcome.CROSSED)
        c.label("same_side")
    else:
        state.add("crossings", c.let(f"zext i1 {crossed} to i64"))
    none = c.let(f"fcmp oeq double {now}, 0.0")
    c.store(c.let(f"select i1 {none}, double {old}, double {now}"), kept)


def count_turn(state: State, values: Values) -> None:
    """Steps in which the velocity turned by more than a right angle."""
    c = state.code
    if state.stages.number > 1:
        state.emitter.bind(values, "since", state.read("begin_s"))
    turned = c.let(f"fcmp olt double {state.emitter.emit(state.roots.turned, values)[0]}, 0.0")
    state.add("turns", c.let(f"zext i1 {turned} to i64"))


def count_leap(state: State) -> None:
    """Of whole steps only: determinants of stages of different lengths are not to be compared."""
    c, old = state.code, state.part["determinant"]
    new = c.load(state.determinant)
    state.add("leaps", c.let(f"zext i1 {leaped(c, c.load(old), new)} to i64"))
    c.store(new, old)
