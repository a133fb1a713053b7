"""Machine code of Newton's whole steps on a KKT system. When a step is taken is not decided here: see `Rules`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from dalembert.native.assembly.system_code import Point, SystemLoop
from dalembert.native.llvm.builder import module
from dalembert.native.llvm.packing import Packing

WORDS = Packing.words(
    "blocks", "size", "tail", "z", "g", "new_z", "new_g", "x", "y", "stored", "free", "fixed_blocks", "diagonal",
    "fixed_places", "fixed_count", "monitored", "monitored_count", "spans", "positions", "sizes", "nonlinear",
    "nonlinear_count", "residuals", "sign", "metric", "units", "first", "forward", "backward", "most",
)  # fmt: skip
SCALARS = Packing.scalars(
    "tolerance", "before", "penalty", "objective", "violation", "norm", "update", "iterations", "trusted",
)  # fmt: skip
REFUSED, CONVERGED = 0, 1


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


class NewtonLoop(SystemLoop):
    """The loop; coordinates: n."""

    def __init__(self, terms: int, data: int, coordinates: int, rules: Rules):
        super().__init__(WORDS, terms, data, coordinates)
        self.rules = rules
        self.slot = {name: self.c.slot(name) for name in SCALARS.fields}
        for name, slot in self.slot.items():
            self.c.store(self.c.load(self.c.at("%values", SCALARS.offset(name))), slot)

    def text(self) -> str:
        c = self.c
        c.store(str(REFUSED), self.status, "i64")
        self._measure()
        c.label("step")
        self._until(self._less("iterations", c.let(f"sitofp i64 {self.word['most']} to double")))
        self._negative_gradient("x")
        self._clear_tail("x")
        self._call("first", "blocks", "z", "free", "fixed_blocks", "diagonal", "stored", "x", more=self.data)
        self._call("backward", "blocks", "stored", "free", "fixed_blocks", "x")
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

    def _negative_gradient(self, name: str) -> None:
        c = self.c
        with c.loop(0, self.n) as i:
            c.store(c.let(f"fneg double {self._item('g', i)}"), c.at(self.word[name], i))

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
        c, objective = self.c, self._gradient(z, g)

        def residual(i: str) -> list[str]:
            return [self._times(self._item("residuals", i), self._abs(self._item(g, self._index("nonlinear", i))))]

        violation = self._total(self.word["nonlinear_count"], residual, 1)[0]

        def square(i: str) -> list[str]:
            value = self._times(self._item("units", i), self._item(g, i))
            return [self._times(value, value)]

        return Point(objective, violation, c.intrinsic("sqrt", self._total(self.n, square, 1)[0]))

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
        self._product("x", "y")
        with c.loop(0, self.n) as i:
            x, y = self._item("x", i), self._item("y", i)
            whole = self._plus(self._times(y, self._item("free", i)), self._times(self._item("diagonal", i), x))
            negative = c.let(f"fneg double {self._plus(self._item('g', i), whole)}")
            c.store(negative, c.at(self.word["y"], i))
        self._substitute("y")
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
        self._substitute("y")
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
