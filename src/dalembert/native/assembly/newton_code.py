"""Machine code of Newton's whole steps on a KKT system. When a step is taken is not decided here: see `Rules`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from dalembert.native.assembly.array_code import ArrayCode
from dalembert.native.assembly.function import inlined
from dalembert.native.llvm.builder import Code, module
from dalembert.native.llvm.packing import Packing

WORDS = Packing.words(
    "blocks", "size", "tail", "z", "g", "new_z", "new_g", "x", "y", "stored", "free", "fixed_blocks", "diagonal",
    "fixed_places", "fixed_count", "monitored", "monitored_count", "spans", "positions", "sizes", "nonlinear",
    "nonlinear_count", "residuals", "sign", "metric", "units", "first", "forward", "backward", "most",
)  # fmt: skip
SCALARS = Packing.scalars(
    "tolerance", "before", "penalty", "objective", "violation", "norm", "update", "iterations", "trusted",
)  # fmt: skip
TERM = Packing.words(
    "gradient", "gradient_rows", "gradient_shared", "product", "product_rows", "product_shared", "number", "offset"
)
REFUSED, CONVERGED = 0, 1
COUNTS = {"blocks", "size", "tail", "fixed_count", "monitored_count", "nonlinear_count", "most", "number", "offset"}


class Point(NamedTuple):
    """Σf, Σ|c| and |∇L̃| at a path, in their units."""

    objective: Any
    violation: Any
    norm: Any


class Rules(NamedTuple):
    """JAX functions of numbers by which steps are judged; the same functions serve whoever goes on in Python.

    noise(f, cᵀν): what rounding takes from a curvature. convex(curvature, dxᵀW dx, update, tolerance): whether a direction
    is used. slope(cᵀdν, curvature without noise, cᵀν): ∇f·dx. raised(ρ, slope, curvature, |c|): the penalty.
    accepted(point, new point, ρ, slope): whether the whole step is taken. small(update, |c|, tolerance): whether it was the
    last. predicted(update, the one before, tolerance): whether the next one will be. accurate(correction, solution): whether
    solutions need no other correction. finite(point).
    """

    noise: Callable
    convex: Callable
    slope: Callable
    raised: Callable
    accepted: Callable
    small: Callable
    predicted: Callable
    accurate: Callable
    finite: Callable


class NewtonLoop(ArrayCode):
    """The loop. Addresses and counts are read once, numbers stay in stack slots; coordinates: n."""

    def __init__(self, terms: int, data: int, coordinates: int, rules: Rules):
        self.c, self.rules = Code(), rules
        c, at = self.c, WORDS.size
        self.word = self._loaded(WORDS, 0)
        self.terms = [self._loaded(TERM, at + t * TERM.size) for t in range(terms)]
        at += terms * TERM.size
        self.data = [c.load(c.at("%job", at + k, "i64"), "ptr") for k in range(data)]
        self.slot = {name: c.slot(name) for name in SCALARS.fields}
        for name, slot in self.slot.items():
            c.store(c.load(c.at("%values", SCALARS.offset(name))), slot)
        self.n = c.let(f"mul i64 {self.word['blocks']}, {self.word['size']}")
        self.status = c.slot("status", "i64")
        self.sizes, self.positions = (
            [self._item(name, str(j)) for j in range(coordinates)] for name in ("sizes", "positions")
        )
        self.reach, self.ratio = [c.slot("reach") for _ in self.sizes], c.slot("ratio")

    def _loaded(self, packing: Packing, begin: int) -> dict[str, str]:
        """The words of a packing that begins there."""
        kinds = {name: "i64" if name in COUNTS else "ptr" for name in packing.fields}
        return {n: self.c.load(self.c.at("%job", begin + f.offset, "i64"), kinds[n]) for n, f in packing.fields.items()}

    def _judge(self, rule: Callable, *given: str | Point) -> str:
        """The value of a rule at numbers that have these names."""
        names, shape = jax.tree.flatten(given)
        return inlined(rule, shape, self.c, names)

    @property
    def point(self) -> Point:
        return Point(*(self.get(name) for name in Point._fields))

    def text(self) -> str:
        c = self.c
        c.store(str(REFUSED), self.status, "i64")
        self._measure()
        c.label("step")
        self._until(self._less("iterations", c.let(f"sitofp i64 {self.word['most']} to double")))
        self._negative_gradient("x")
        self._call("first", "blocks", "z", "free", "fixed_blocks", "diagonal", "stored", "x", more=self.data)
        self._call("backward", "blocks", "stored", "x")
        self._verify()
        step, curvature, metric, product, change = self._products()
        self._until(self._finite(step))
        update = self._change("x")
        rules, tolerance = self.rules, self.get("tolerance")
        noisy = self._plus(curvature, self._judge(rules.noise, self.get("objective"), product))
        self._until(self._judge(rules.convex, noisy, metric, update, tolerance))
        small = self._judge(rules.small, update, self._violation(), tolerance)
        self._add("new_z", "z", "x")
        new = self._evaluate("new_z", "new_g")
        slope = self._judge(rules.slope, change, curvature, product)
        self.put("penalty", self._judge(rules.raised, self.get("penalty"), slope, noisy, self.get("violation")))
        self._until(self._judge(rules.accepted, self.point, new, self.get("penalty"), slope))
        before = self.get("before")
        self.put("before", update)
        self.put("update", update)
        self.put("iterations", self._plus(self.get("iterations"), c.constant(1.0)))
        self._take(new)
        self._stop_if(small)
        self._simplified(update, before)
        c.go("step")
        c.label("end")
        for name in SCALARS.fields:
            c.store(self.get(name), c.at("%values", SCALARS.offset(name)))
        c.line(f"ret i64 {c.load(self.status, 'i64')}")
        return module(c.function("define i64 @descend(ptr %job, ptr %values) nounwind"), declared=c.declared)

    def get(self, name: str) -> str:
        return self.c.load(self.slot[name])

    def put(self, name: str, value: str) -> None:
        self.c.store(value, self.slot[name])

    def _until(self, condition: str) -> None:
        """To the end unless the condition holds."""
        on = self.c.name("on")
        self.c.fork(condition, on, "end", likely=True)
        self.c.label(on)

    def _stop_if(self, condition: str) -> None:
        """Converged where the condition holds."""
        c = self.c
        stop, on = c.name("stop"), c.name("on")
        c.fork(condition, stop, on)
        c.label(stop)
        c.store(str(CONVERGED), self.status, "i64")
        c.go("end")
        c.label(on)

    def _less(self, name: str, bound: str) -> str:
        return self.c.let(f"fcmp olt double {self.get(name)}, {bound}")

    def _max_norms(self, name: str) -> list[str]:
        """max|v_j| over the positions of every coordinate."""
        c, n = self.c, len(self.sizes)
        largest = [c.slot("largest") for _ in range(n)]
        for slot in largest:
            c.store(c.constant(0.0), slot)
        with c.loop(0, self.word["monitored_count"]) as i:
            first, span = c.at(self.word["monitored"], c.let(f"mul i64 {i}, {n}"), "i64"), self._item("spans", i)
            for j, slot in enumerate(largest):
                value = self._abs(self._item(name, c.load(c.at(first, j, "i64"), "i64")))
                c.store(self._larger(c.load(slot), self._times(span, value)), slot)
        return [c.load(slot) for slot in largest]

    def _change(self, name: str) -> str:
        """max|v_j| / (s_j + max|q_j|), the largest of all coordinates."""
        pairs = zip(self._max_norms(name), self.reach, strict=True)
        ratios = [self.c.let(f"fdiv double {value}, {self.c.load(slot)}") for value, slot in pairs]
        return functools.reduce(self._larger, ratios)

    def _measure(self) -> None:
        """s + max|q| of every coordinate, and the largest of them in typical sizes."""
        found = [self._plus(size, value) for size, value in zip(self.sizes, self._max_norms("z"), strict=True)]
        for slot, value in zip(self.reach, found, strict=True):
            self.c.store(value, slot)
        ratios = [self.c.let(f"fdiv double {x}, {s}") for x, s in zip(found, self.positions, strict=True)]
        self.c.store(functools.reduce(self._larger, ratios), self.ratio)

    def _clear_tail(self, name: str) -> None:
        self._fill(self.c.at(self.word[name], self.n), self.word["tail"])

    def _negative_gradient(self, name: str) -> None:
        c = self.c
        with c.loop(0, self.n) as i:
            c.store(c.let(f"fneg double {self._item('g', i)}"), c.at(self.word[name], i))
        self._clear_tail(name)

    def _products(self) -> list[str]:
        """|x|², the curvature -∇L̃·dx + cᵀdν, dxᵀW dx, cᵀν and cᵀdν."""

        def dense(i: str) -> list[str]:
            x, g = self._item("x", i), self._item("g", i)
            square = self._times(x, x)
            return [
                square,
                self._times(self._item("sign", i), self._times(g, x)),
                self._times(self._item("metric", i), square),
            ]

        def nonlinear(i: str) -> list[str]:
            k = self._index("nonlinear", i)
            g = self._item("g", k)
            return [self._times(g, self._item("z", k)), self._times(g, self._item("x", k))]

        return [*self._total(self.n, dense, 3), *self._total(self.word["nonlinear_count"], nonlinear, 2)]

    def _evaluate(self, z: str, g: str) -> Point:
        """The point z, and the gradient."""
        c = self.c
        self._fill(self.word[g], c.let(f"add i64 {self.n}, 1"))
        total = c.at(self.word[g], self.n)
        for t in self.terms:
            read, write = (c.let(f"getelementptr i8, ptr {self.word[p]}, i64 {t['offset']}") for p in (z, g))
            arguments = f"i64 {t['number']}, ptr {read}, ptr {t['gradient_rows']}, ptr {t['gradient_shared']}"
            c.line(f"call void {t['gradient']}({arguments}, ptr {total}, ptr {write})")
        with c.loop(0, self.word["fixed_count"]) as i:
            c.store(c.constant(0.0), c.at(self.word[g], self._index("fixed_places", i)))

        def residual(i: str) -> list[str]:
            return [self._times(self._item("residuals", i), self._abs(self._item(g, self._index("nonlinear", i))))]

        violation = self._total(self.word["nonlinear_count"], residual, 1)[0]

        def square(i: str) -> list[str]:
            value = self._times(self._item("units", i), self._item(g, i))
            return [self._times(value, value)]

        return Point(c.load(total), violation, c.intrinsic("sqrt", self._total(self.n, square, 1)[0]))

    def _violation(self) -> str:
        """Σ|c| relative to what it is where positions are as large as those of the path."""
        return self.c.let(f"fdiv double {self.get('violation')}, {self.c.load(self.ratio)}")

    def _take(self, new: Point) -> None:
        """The new path is the path."""
        self._copy("z", "new_z")
        self._copy("g", "new_g")
        for name, value in new._asdict().items():
            self.put(name, value)
        self._measure()

    def _verify(self) -> None:
        """One correction of the first solution; it ends the loop where that is not small."""
        c = self.c
        check, on = c.name("check"), c.name("verified")
        c.fork(c.let(f"fcmp oeq double {self.get('trusted')}, {c.constant(0.0)}"), check, on)
        c.label(check)
        self._fill(self.word["y"], self.n)
        for t in self.terms:
            z, x, y = (c.let(f"getelementptr i8, ptr {self.word[p]}, i64 {t['offset']}") for p in ("z", "x", "y"))
            arguments = f"i64 {t['number']}, ptr {z}, ptr {x}, ptr {t['product_rows']}, ptr {t['product_shared']}, ptr {y}"
            c.line(f"call void {t['product']}({arguments})")
        with c.loop(0, self.n) as i:
            x, y = self._item("x", i), self._item("y", i)
            whole = self._plus(self._times(y, self._item("free", i)), self._times(self._item("diagonal", i), x))
            negative = c.let(f"fneg double {self._plus(self._item('g', i), whole)}")
            c.store(negative, c.at(self.word["y"], i))
        self._clear_tail("y")
        self._call("forward", "blocks", "stored", "free", "fixed_blocks", "y")
        self._call("backward", "blocks", "stored", "y")
        self._until(self._judge(self.rules.accurate, self._change("y"), self._change("x")))
        self.put("trusted", c.constant(1.0))
        self._add("x", "x", "y")
        c.go(on)
        c.label(on)

    def _simplified(self, update: str, before: str) -> None:
        """A step with the factors that are there, where quadratic convergence predicts that it is the last."""
        c, tolerance = self.c, self.get("tolerance")
        try_it, on = c.name("last"), c.name("next")
        c.fork(self._judge(self.rules.predicted, update, before, tolerance), try_it, on)
        c.label(try_it)
        self._negative_gradient("y")
        self._call("forward", "blocks", "stored", "free", "fixed_blocks", "y")
        self._call("backward", "blocks", "stored", "y")
        last = self._change("y")
        inside, done = c.name("inside"), c.name("done")
        c.fork(self._judge(self.rules.small, last, self._violation(), tolerance), inside, on)
        c.label(inside)
        self._add("new_z", "z", "y")
        new = self._evaluate("new_z", "new_g")
        c.fork(self._judge(self.rules.finite, new), done, on)
        c.label(done)
        self.put("update", last)
        self._take(new)
        c.store(str(CONVERGED), self.status, "i64")
        c.go("end")
        c.label(on)
