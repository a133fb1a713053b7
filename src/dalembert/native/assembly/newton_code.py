"""Machine code of Newton's whole steps on a chain."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from dalembert.native.llvm.builder import Code, module

WORDS = (
    "blocks", "size", "tail", "z", "g", "new_z", "new_g", "x", "y", "record", "free", "marks", "diagonal", "stopped",
    "stopped_count", "path", "path_count", "spans", "positions", "sizes", "bent", "bent_count", "residuals",
    "sign", "metric", "units", "first", "forward", "backward", "most",
)  # fmt: skip
SCALARS = (
    "tolerance", "before", "penalty", "objective", "violation", "norm", "update", "iterations", "trusted", "noise",
    "least", "armijo", "exact",
)  # fmt: skip
TERM = ("gradient", "gradient_rows", "gradient_shared", "product", "product_rows", "product_shared", "number", "offset")
REFUSED, CONVERGED = 0, 1
COUNTS = {"blocks", "size", "tail", "stopped_count", "path_count", "bent_count", "most"}


class DescentLoop:
    """The loop. Addresses and counts are read once, numbers stay in stack slots; coordinates: n."""

    def __init__(self, terms: int, data: int, coordinates: int):
        self.c = c = Code()
        self.word = {
            name: c.load(c.at("%job", k, "i64"), "i64" if name in COUNTS else "ptr") for k, name in enumerate(WORDS)
        }
        at = len(WORDS)
        self.terms = []
        for t in range(terms):
            kinds = {name: "i64" if name in ("number", "offset") else "ptr" for name in TERM}
            self.terms.append({n: c.load(c.at("%job", at + t * len(TERM) + k, "i64"), kinds[n]) for k, n in enumerate(TERM)})
        at += terms * len(TERM)
        self.data = [c.load(c.at("%job", at + k, "i64"), "ptr") for k in range(data)]
        self.slot = {name: c.slot(name) for name in SCALARS}
        for k, name in enumerate(SCALARS):
            c.store(c.load(c.at("%values", k)), self.slot[name])
        self.n = c.let(f"mul i64 {self.word['blocks']}, {self.word['size']}")
        self.status = c.slot("status", "i64")
        self.sizes, self.positions = (
            [self._item(name, str(j)) for j in range(coordinates)] for name in ("sizes", "positions")
        )
        self.reach, self.ratio = [c.slot("reach") for _ in self.sizes], c.slot("ratio")

    def text(self) -> str:
        c = self.c
        c.store(str(REFUSED), self.status, "i64")
        self._measure()
        c.label("step")
        self._until(self._less("iterations", c.let(f"sitofp i64 {self.word['most']} to double")))
        self._negative_gradient("x")
        self._call("first", "blocks", "z", "free", "marks", "diagonal", "record", "x", more=self.data)
        self._call("backward", "blocks", "record", "x")
        self._verify()
        step, curvature, metric, held, within = self._products()
        self._until(self._finite(step))
        update = self._change("x")
        noise = self._times(self.get("noise"), self._plus(self._abs(self.get("objective")), self._abs(held)))
        curvature = self._plus(curvature, noise)
        convex = c.let(f"fcmp oge double {curvature}, {self._times(self.get('least'), metric)}")
        tolerance = self.get("tolerance")
        self._until(c.let(f"or i1 {convex}, {c.let(f'fcmp ole double {update}, {tolerance}')}"))
        feasible = c.let(f"fdiv double {self.get('violation')}, {c.load(self.ratio)}")
        small = c.let(f"fcmp ole double {c.maximum([update, feasible])}, {tolerance}")
        self._add("new_z", "z", "x")
        found = self._evaluate("new_z", "new_g")
        self._until(self._accepted(found, curvature, noise, held, within))
        before = self.get("before")
        self.put("before", update)
        self.put("update", update)
        self.put("iterations", self._plus(self.get("iterations"), c.constant(1.0)))
        self._take(found)
        self._stop_if(small)
        self._simplified(update, before)
        c.go("step")
        c.label("end")
        for k, name in enumerate(SCALARS):
            c.store(self.get(name), c.at("%values", k))
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

    def _plus(self, a: str, b: str) -> str:
        return self.c.let(f"fadd double {a}, {b}")

    def _minus(self, a: str, b: str) -> str:
        return self.c.let(f"fsub double {a}, {b}")

    def _times(self, a: str, b: str) -> str:
        return self.c.let(f"fmul double {a}, {b}")

    def _abs(self, x: str) -> str:
        return self.c.absolute(x)

    def _finite(self, x: str) -> str:
        return self.c.let(f"fcmp olt double {self._abs(x)}, {self.c.constant(float('inf'))}")

    def _call(self, function: str, count: str, *arguments: str, more: Sequence[str] = ()) -> None:
        given = [f"i64 {self.word[count]}", *(f"ptr {self.word[a]}" for a in arguments), *(f"ptr {m}" for m in more)]
        self.c.line(f"call void {self.word[function]}({', '.join(given)})")

    def _fill(self, pointer: str, count: str) -> None:
        self.c.declared.add("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
        length = self.c.let(f"shl i64 {count}, 3")
        self.c.line(f"call void @llvm.memset.p0.i64(ptr {pointer}, i8 0, i64 {length}, i1 false)")

    def _copy(self, to: str, source: str) -> None:
        self.c.declared.add("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
        length = self.c.let(f"shl i64 {self.n}, 3")
        self.c.line(
            f"call void @llvm.memcpy.p0.p0.i64(ptr {self.word[to]}, ptr {self.word[source]}, i64 {length}, i1 false)"
        )

    def _total(self, count: str, values: Callable[[str], Sequence[str]], number: int) -> list[str]:
        """Sums over i < count, in any order."""
        c = self.c
        slots = [c.slot("total") for _ in range(number)]
        for s in slots:
            c.store(c.constant(0.0), s)
        with c.loop(0, count) as i:
            for s, value in zip(slots, values(i), strict=True):
                c.store(c.let(f"fadd reassoc contract double {c.load(s)}, {value}"), s)
        return [c.load(s) for s in slots]

    def _item(self, name: str, i: str) -> str:
        return self.c.load(self.c.at(self.word[name], i))

    def _index(self, name: str, i: str) -> str:
        return self.c.load(self.c.at(self.word[name], i, "i64"), "i64")

    def _extents(self, name: str) -> list[str]:
        """max|v_j| over the positions of every coordinate."""
        c, n = self.c, len(self.sizes)
        largest = [c.slot("largest") for _ in range(n)]
        for slot in largest:
            c.store(c.constant(0.0), slot)
        with c.loop(0, self.word["path_count"]) as i:
            first, span = c.at(self.word["path"], c.let(f"mul i64 {i}, {n}"), "i64"), self._item("spans", i)
            for j, slot in enumerate(largest):
                value = self._abs(self._item(name, c.load(c.at(first, j, "i64"), "i64")))
                c.store(self._larger(c.load(slot), self._times(span, value)), slot)
        return [c.load(slot) for slot in largest]

    def _larger(self, known: str, value: str) -> str:
        return self.c.let(f"select i1 {self.c.let(f'fcmp ogt double {value}, {known}')}, double {value}, double {known}")

    def _change(self, name: str) -> str:
        """max|v_j| / (s_j + max|q_j|), the largest of all coordinates."""
        pairs = zip(self._extents(name), self.reach, strict=True)
        ratios = [self.c.let(f"fdiv double {value}, {self.c.load(slot)}") for value, slot in pairs]
        return functools.reduce(self._larger, ratios)

    def _measure(self) -> None:
        """s + max|q| of every coordinate, and the largest of them in typical sizes."""
        found = [self._plus(size, value) for size, value in zip(self.sizes, self._extents("z"), strict=True)]
        for slot, value in zip(self.reach, found, strict=True):
            self.c.store(value, slot)
        ratios = [self.c.let(f"fdiv double {x}, {s}") for x, s in zip(found, self.positions, strict=True)]
        self.c.store(functools.reduce(self._larger, ratios), self.ratio)

    def _room(self, name: str) -> None:
        self._fill(self.c.at(self.word[name], self.n), self.word["tail"])

    def _negative_gradient(self, name: str) -> None:
        c = self.c
        with c.loop(0, self.n) as i:
            c.store(c.let(f"fneg double {self._item('g', i)}"), c.at(self.word[name], i))
        self._room(name)

    def _add(self, to: str, a: str, b: str) -> None:
        c = self.c
        with c.loop(0, self.n) as i:
            c.store(self._plus(self._item(a, i), self._item(b, i)), c.at(self.word[to], i))

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

        def bent(i: str) -> list[str]:
            k = self._index("bent", i)
            g = self._item("g", k)
            return [self._times(g, self._item("z", k)), self._times(g, self._item("x", k))]

        return [*self._total(self.n, dense, 3), *self._total(self.word["bent_count"], bent, 2)]

    def _evaluate(self, z: str, g: str) -> tuple[str, str, str]:
        """(Σf, Σ|c|, |∇L̃|²) at z, in their units, and the gradient."""
        c = self.c
        self._fill(self.word[g], c.let(f"add i64 {self.n}, 1"))
        total = c.at(self.word[g], self.n)
        for t in self.terms:
            read, write = (c.let(f"getelementptr i8, ptr {self.word[p]}, i64 {t['offset']}") for p in (z, g))
            arguments = f"i64 {t['number']}, ptr {read}, ptr {t['gradient_rows']}, ptr {t['gradient_shared']}"
            c.line(f"call void {t['gradient']}({arguments}, ptr {total}, ptr {write})")
        with c.loop(0, self.word["stopped_count"]) as i:
            c.store(c.constant(0.0), c.at(self.word[g], self._index("stopped", i)))

        def residual(i: str) -> list[str]:
            return [self._times(self._item("residuals", i), self._abs(self._item(g, self._index("bent", i))))]

        violation = self._total(self.word["bent_count"], residual, 1)[0]

        def square(i: str) -> list[str]:
            value = self._times(self._item("units", i), self._item(g, i))
            return [self._times(value, value)]

        return c.load(total), violation, self._total(self.n, square, 1)[0]

    def _accepted(self, found: tuple[str, str, str], curvature: str, noise: str, held: str, within: str) -> str:
        """Whether merit falls or the gradient is halved; the penalty is raised before."""
        c, zero = self.c, self.c.constant(0.0)
        f, violation = self.get("objective"), self.get("violation")
        slope = self._plus(self._minus(within, self._minus(curvature, noise)), held)
        positive = c.let(f"select i1 {c.let(f'fcmp ogt double {curvature}, {zero}')}, double {curvature}, double {zero}")
        top = self._plus(slope, self._times(c.constant(0.5), positive))
        wanted = c.let(f"fdiv double {top}, {self._times(c.constant(0.9), violation)}")
        penalty = self.get("penalty")
        more = c.let(
            f"and i1 {c.let(f'fcmp ogt double {violation}, {c.constant(1e-14)}')}, "
            f"{c.let(f'fcmp ogt double {wanted}, {penalty}')}"
        )
        penalty = c.let(f"select i1 {more}, double {self._times(c.constant(1.5), wanted)}, double {penalty}")
        self.put("penalty", penalty)
        descent = self._minus(slope, self._times(penalty, violation))
        merit = self._plus(f, self._times(penalty, violation))
        slack = self._times(self.get("noise"), self._plus(self._abs(f), self._abs(merit)))
        bound = self._plus(self._plus(merit, self._times(self.get("armijo"), descent)), slack)
        new = self._plus(found[0], self._times(penalty, found[1]))
        falls = c.let(f"fcmp ole double {new}, {bound}")
        halved = c.let(f"fcmp ole double {found[2]}, {self._times(c.constant(0.25), self.get('norm'))}")
        finite = c.let(f"and i1 {self._finite(found[0])}, {self._finite(found[2])}")
        return c.let(f"and i1 {finite}, {c.let(f'or i1 {falls}, {halved}')}")

    def _take(self, found: tuple[str, str, str]) -> None:
        """The new path is the path."""
        self._copy("z", "new_z")
        self._copy("g", "new_g")
        for name, value in zip(("objective", "violation", "norm"), found, strict=True):
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
        self._room("y")
        self._call("forward", "blocks", "record", "free", "marks", "y")
        self._call("backward", "blocks", "record", "y")
        bound = self._times(self.get("exact"), self._change("x"))
        self._until(c.let(f"fcmp ole double {self._change('y')}, {bound}"))
        self.put("trusted", c.constant(1.0))
        self._add("x", "x", "y")
        c.go(on)
        c.label(on)

    def _simplified(self, update: str, before: str) -> None:
        """A step with the factors that are there, where quadratic convergence predicts that it is the last."""
        c, tolerance = self.c, self.get("tolerance")
        ratio = c.let(f"fdiv double {update}, {before}")
        predicted = self._times(update, self._times(ratio, ratio))
        near = c.let(f"fcmp ole double {predicted}, {tolerance}")
        try_it, on = c.name("last"), c.name("next")
        c.fork(c.let(f"and i1 {near}, {self._finite(before)}"), try_it, on)
        c.label(try_it)
        self._negative_gradient("y")
        self._call("forward", "blocks", "record", "free", "marks", "y")
        self._call("backward", "blocks", "record", "y")
        last = self._change("y")
        largest = c.maximum([last, c.let(f"fdiv double {self.get('violation')}, {c.load(self.ratio)}")])
        inside, done = c.name("inside"), c.name("done")
        c.fork(c.let(f"fcmp ole double {largest}, {tolerance}"), inside, on)
        c.label(inside)
        self._add("new_z", "z", "y")
        found = self._evaluate("new_z", "new_g")
        c.fork(c.let(f"and i1 {self._finite(found[0])}, {self._finite(found[2])}"), done, on)
        c.label(done)
        self.put("update", last)
        self._take(found)
        c.store(str(CONVERGED), self.status, "i64")
        c.go("end")
        c.label(on)
