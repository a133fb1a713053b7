"""Whether Newton's iteration has converged, and the rounding compensation of its result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dalembert.algebra.newton import DIVERGING
from dalembert.native.llvm.emit import Values
from dalembert.native.stepper.frame import Frame, LastUpdate
from dalembert.native.stepper.linear_systems import Plan

# Of an unknown's size: an error that may be left. It is no rounding, which goes this way and that: it adds up, step by step.
NEGLIGIBLE = 1e-20
TINY = 1e-10  # an update whose square is negligible, whatever the tolerance


def judgement(f: Frame, values: Values, update: Mapping[int, str], w: Sequence[str]) -> tuple[str, str]:
    """Whether every tested |update_i| ≤ tolerance · scale_i at the new w, and whether ≤ DIVERGING · scale_i."""
    c, small, near = f.code, f.code.constant(True), f.code.constant(True)
    for largest, scale in _sizes(f, values, w, update):
        small = c.both(small, c.compare("ole", largest, c.times(scale, f.tolerance)))
        near = c.both(near, c.compare("ole", largest, c.times(scale, c.constant(DIVERGING))))
    return small, near


def is_tiny(f: Frame, values: Values, update: Mapping[int, str], w: Sequence[str]) -> str:
    """Whether every tested |update_i| ≤ TINY · scale_i and ≤ tolerance · scale_i: nothing can be gained by another."""
    c, tiny = f.code, f.code.constant(True)
    limit = c.select(c.compare("olt", f.tolerance, c.constant(TINY)), f.tolerance, c.constant(TINY))
    for largest, scale in _sizes(f, values, w, update):
        tiny = c.both(tiny, c.compare("ole", largest, c.times(scale, limit)))
    return tiny


def is_close(f: Frame, values: Values, update: Mapping[int, str], w: Sequence[str]) -> str:
    """Whether every tested |update_i| ≤ √tolerance · scale_i: the next one will be small, with this Jacobian as well."""
    c, close = f.code, f.code.constant(True)
    for largest, scale in _sizes(f, values, w, update):
        close = c.both(close, c.compare("ole", largest, c.times(scale, f.close)))
    return close


def is_finished(f: Frame, values: Values, w: Sequence[str], first: Mapping[int, str], second: Mapping[int, str]) -> str:
    """Whether `second`, which follows on the update `first` with the same Jacobian, is finite and small, and what it leaves
    negligible: about |second|²/|first|, because updates with one Jacobian fall by the same factor. Where the first was
    small already the second only has to be."""
    c = f.code
    done = c.compare("oeq", c.vanishing(list(second.values())), c.constant(0.0))
    for (before, _), (largest, scale) in zip(_sizes(f, values, w, first), _sizes(f, values, w, second), strict=True):
        limit, small = c.times(c.times(before, scale), c.constant(NEGLIGIBLE)), c.times(scale, f.tolerance)
        done = c.both(done, c.compare("ole", largest, small))
        done = c.both(done, c.either(c.compare("ole", c.times(largest, largest), limit), c.compare("ole", before, small)))
    return done


def _sizes(f: Frame, values: Values, w: Sequence[str], update: Mapping[int, str]) -> Iterator[tuple[str, str]]:
    """(the largest |update_i|, the scale at w) of the tested unknowns of every scale."""
    c, inside, groups = f.code, dict(values), dict[int, list[str]]()
    f.emitter.bind(inside, "w", w)
    for j, value in update.items():
        if f.step.graph.value(f.outputs.scale[j]) != float("inf"):
            groups.setdefault(f.outputs.scale[j], []).append(c.absolute(value))
    for node, sizes in groups.items():
        yield c.maximum(sizes), f.emitter.emit([node], inside, fast=True)[0]


def next_update(f: Frame, plan: Plan, inner: Values, values: Values, w: Sequence[str]) -> tuple[dict[int, str], Values]:
    """The update from w with the Jacobian at z, where `inner` is, by unknown; and the values with F at w, `again`."""
    there, again, rows = dict(values), dict(inner), sorted(plan.nonlinear.rows)
    f.emitter.bind(there, "z", w)
    residual = f.emitter.emit([f.outputs.f[i] for i in rows], there)
    again |= {f.step.graph.variable("again", i): value for i, value in zip(rows, residual, strict=True)}
    update = f.emitter.emit(f.outputs.following, again)
    return dict(zip(sorted(plan.nonlinear.columns), update, strict=True)), again


class Chord(LastUpdate):
    """w - F′(z)⁻¹F(w) after w = z - F′(z)⁻¹F(z): with one Jacobian the error is the product of both updates, times a number
    that the quotient of both tells. inner: values at z; first: the update from there, by unknown."""

    def __init__(self, f: Frame, plan: Plan, inner: Values, values: Values, *, z: Sequence[str], first: dict[int, str]):
        self.frame, self.plan, self.inner, self.values, self.z, self.first = f, plan, inner, values, z, first
        self.w = [f.code.minus(x, first[j]) if j in first else x for j, x in enumerate(z)]
        self.second, self.again = dict[int, str](), Values()

    def keep(self) -> None:
        keep_compensation(self.frame, self.z, dict(enumerate(self.w)), self.first)

    def report(self) -> str:
        return self.frame.emitter.emit(self.frame.outputs.size, dict(self.inner), fast=True)[0]

    def tried(self) -> str:
        self.second, self.again = next_update(self.frame, self.plan, self.inner, self.values, self.w)
        return is_finished(self.frame, self.values, self.w, self.first, self.second)

    def take(self, where: str | None) -> None:
        f = self.frame
        new = {j: f.code.minus(self.w[j], x) for j, x in self.second.items()}
        for j, value in new.items():
            f.place(f.w[j], value, where)
        keep_compensation(f, self.w, new, self.second, where)
        f.place(f.size, f.emitter.emit(f.outputs.following_size, self.again, fast=True)[0], where)


def keep_compensation(
    f: Frame, z: Sequence[str], w: Mapping[int, str], update: Mapping[int, str], where: str | None = None
) -> None:
    """What rounding has cut off w = z - update: exact, because the update is smaller than z. where: in which runs."""
    c = f.code
    for j in sorted(f.compensation.keys() & update.keys()):
        f.place(f.compensation[j], c.minus(c.minus(z[j], w[j]), update[j]), where)
    for j in sorted(f.increments.keys() & update.keys()):
        c.store(c.let(f"fneg {c.real} {update[j]}"), f.increments[j])
