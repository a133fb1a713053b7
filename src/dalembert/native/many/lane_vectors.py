"""What a loop over lanes is told, and its arithmetic: a vector in place of every number."""

from __future__ import annotations

import abc
from collections.abc import Sequence

from dalembert.native.assembly.function import GraphFunction
from dalembert.native.flow.coefficients import DENSE, Row
from dalembert.native.flow.loop_code import COLUMNS, weighted_sum
from dalembert.native.graph.dependence import Dependence
from dalembert.native.graph.simplify import gather_factors, share_reciprocals
from dalembert.native.llvm.builder import Code, module
from dalembert.native.llvm.emit import Emitter, Values
from dalembert.native.llvm.packing import Packing

ON, FRESH, FINISHED, LEFT = range(4)  # what a lane is; LEFT: another code has to look at it
# A number for each lane; saved: rows, as a number; due: the time of the next row.
EACH = ("state", "t", "h", "last", "due", "tolerance", "clock", "refused", "steps", "saved")
# What the loop is told; arrays and the field by address. rows, times: of each lane.
# onto: 0, or the update of a projection onto constraints, as `compile_projection` has it.
LANES = Packing.words("size", "most", "budget", "length", "field", "each", "y", "new", "slopes", "dense", "given", "result",
                      "onto", "onto_given", "onto_result", "rows", "times")  # fmt: skip
NUMBERS = ("size", "most", "budget", "length")


def lane_field(made: GraphFunction, width: int) -> str:
    """LLVM module with  void @evaluate(ptr given, ptr result): the function of vectors; and what it closes over."""
    g = made.graph.copy()
    depend = Dependence(g)
    level = lambda i: int(depend.on(i, *(f"x{k}" for k in range(len(made.sizes)))))  # noqa: E731
    outputs = [g.number(i) for o in made.results for i in o.ravel().tolist()]
    outputs = share_reciprocals(g, gather_factors(g, outputs, level), level)
    c, values, at = Code(width), Values(), 0
    names = [*(f"x{i}" for i in range(len(made.sizes))), "captured"]
    for name, size in zip(names, [*made.sizes, len(made.tracer.captured)], strict=True):
        for i in range(size):
            values[g.variable(name, i)] = c.load(c.at("%given", (at + i) * width))
        at += size
    for i, value in enumerate(Emitter(g, c).emit(outputs, values)):
        c.store(value, c.at("%result", i * width))
    c.line("ret void")
    return module(c.function(f"define void @evaluate(ptr noalias %given, ptr noalias %result) {wide_function(width)}"),
                  declared=c.declared)  # fmt: skip


def lane_arrays(size: int, given: int, onto: int, width: int) -> Sequence[tuple[str, int]]:
    """(name, length) of the arrays of the loop, in numbers. given, onto: of what the field is given, and the projection."""
    rows = {"each": len(EACH), "y": 2 * size, "new": size, "slopes": COLUMNS * size, "dense": (3 + len(DENSE)) * size,
            "given": given, "result": size + 1, "onto_given": onto, "onto_result": size + 3}  # fmt: skip
    return [(name, many * width) for name, many in rows.items()]


def wide_function(width: int) -> str:
    """Without the attribute LLVM splits vectors where the processor prefers narrower ones."""
    return f'nounwind "min-legal-vector-width"="{64 * width}"'


class LaneVectors(abc.ABC):
    """Slots: end of the step, sums of its errors; whether a lane takes part, its field has held, its step is taken; how many
    steps there were in this call."""

    def __init__(self, width: int) -> None:
        c = self.c = Code(width)
        self.w = width
        word = {name: c.load(c.at("%told", field.offset), "i64") for name, field in LANES.fields.items()}
        self.n, self.most, self.budget, self.length = (word[name] for name in NUMBERS)
        self.to = {name: c.let(f"inttoptr i64 {x} to ptr") for name, x in word.items() if name not in NUMBERS}
        self.each = {name: c.at(self.to["each"], i * width) for i, name in enumerate(EACH)}
        self.slopes = [self._column("slopes", i) for i in range(COLUMNS)]
        self.dense = [self._column("dense", i) for i in range(3 + len(DENSE))]
        self.end, self.five, self.three = (c.slot(name) for name in ("end", "five", "three"))
        self.live, self.holds, self.taken = (c.slot(name, c.truth) for name in ("live", "holds", "taken"))
        self.count = c.slot("count", "i64")

    def _column(self, name: str, i: int) -> str:
        c = self.c
        return c.at(self.to[name], c.let(f"mul i64 {self.n}, {i * self.w}"))

    def _of(self, name: str) -> str:
        return self.c.load(self.each[name])

    def _put(self, name: str, value: str, where: str) -> None:
        """In the lanes where it holds."""
        self.c.store(self.c.select(where, value, self._of(name)), self.each[name])

    def _is(self, state: int) -> str:
        return self.c.compare("oeq", self._of("state"), self.c.constant(float(state)))

    def _component(self, base: str, l: str) -> str:
        return self.c.at(base, self.c.let(f"mul i64 {l}, {self.w}"))

    def _copied(self, source: str, to: str, where: str | None = None) -> None:
        c = self.c
        with c.loop(0, self.n) as l:
            value, place = c.load(self._component(source, l)), self._component(to, l)
            c.store(value if where is None else c.select(where, value, c.load(place)), place)

    def _field(self, t: str, to: str, kept: str | None = None) -> None:
        """to ← the slope at what stands in given; kept: lanes that keep theirs. Those where it has none are noted."""
        c = self.c
        clock = self._of("clock")
        c.store(c.times(clock, t), self._component(self.to["given"], self.n))
        c.line(f"call void {self.to['field']}(ptr {self.to['given']}, ptr {self.to['result']})")
        with c.loop(0, self.n) as l:
            found, place = c.times(clock, c.load(self._component(self.to["result"], l))), self._component(to, l)
            c.store(found if kept is None else c.select(kept, c.load(place), found), place)
        holds = c.compare("ogt", c.load(self._component(self.to["result"], self.n)), c.constant(0.5))
        c.store(c.both(c.load(self.holds, c.truth), holds), self.holds, c.truth)

    def _moved(self, row: Row) -> None:
        """given ← y + h Σ a_j k_j."""
        c, h = self.c, self._of("h")
        with c.loop(0, self.n) as l:
            y = c.load(self._component(self.to["y"], l))
            c.store(c.plus(y, c.times(h, self._sum(row, l))), self._component(self.to["given"], l))

    def _sum(self, row: Row, l: str) -> str:
        return weighted_sum(self.c, row, lambda j: self._slope(j, l))

    def _slope(self, j: int, l: str) -> str:
        return self.c.load(self._component(self.slopes[j], l))

    def _size(self, base: str) -> str:
        """√(mean of (x / (tolerance (s + |y|)))²), s the typical size."""
        c, total = self.c, self.c.slot("total")
        c.store(c.constant(0.0), total)
        with c.loop(0, self.n) as l:
            allowed = self._allowed(l, c.absolute(c.load(self._component(self.to["y"], l))))
            part = self._over(c.load(self._component(base, l)), allowed)
            c.store(c.plus(c.load(total), c.times(part, part)), total)
        return c.intrinsic("sqrt", self._over(c.load(total), self._number(self.n)))

    def _allowed(self, l: str, size: str) -> str:
        """As in `loop_code`, where typical sizes stand behind y."""
        c, tolerance = self.c, self._of("tolerance")
        typical = c.load(self._component(self.to["y"], c.let(f"add i64 {l}, {self.n}")))
        return c.plus(c.times(tolerance, typical), c.times(tolerance, size))

    def _number(self, whole: str) -> str:
        return self.c.splat(self.c.let(f"sitofp i64 {whole} to double"))

    def _over(self, a: str, b: str) -> str:
        return self.c.let(f"fdiv {self.c.real} {a}, {b}")

    def _least(self, a: str, b: str) -> str:
        return self.c.select(self.c.compare("olt", a, b), a, b)

    def _most(self, a: str, b: str) -> str:
        return self.c.select(self.c.compare("ogt", a, b), a, b)

    @abc.abstractmethod
    def text(self) -> str:
        """The function."""
