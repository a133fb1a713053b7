"""Machine code of the parts of interior steps: a KKT system's gradient and products, a new point with its slacks, and a
solution with its corrections."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax

from dalembert.native.assembly.function import inlined
from dalembert.native.llvm.builder import Code
from dalembert.native.llvm.packing import Packing

WORDS = Packing.words(
    "blocks", "size", "tail", "constraints", "z", "g", "new_z", "new_g", "x", "y", "w", "right", "other",
    "constraints_sum", "stored", "free", "fixed_blocks", "unit", "added", "diagonal", "pivots", "nudge", "shifted", "dual",
    "held", "rows", "unknowns", "primal", "fixed_places", "fixed_count", "monitored", "monitored_count", "spans",
    "positions", "sizes", "violations", "per_action", "flat_units", "bound_count", "places", "limits",
    "scales", "reaches", "presses", "pushes", "stiffness", "multipliers", "slacks", "new_slacks", "dual_step",
    "filter", "room", "first", "forward", "backward", "negative", "most", "stop",
)  # fmt: skip
COUNTS = {
    "blocks", "size", "tail", "fixed_count", "monitored_count", "nonlinear_count", "most", "number", "offset",
    "bound_count", "room", "constraints",
}  # fmt: skip
TERM = Packing.words(
    "gradient", "gradient_rows", "gradient_shared", "product", "product_rows", "product_shared", "number", "offset"
)
SCALARS = Packing.scalars(
    "tolerance", "least", "largest_update", "count", "curvature", "small", "largest", "corrections", "barrier", "last_shift",
    "shift", "update", "whole", "jammed", "raises", "shortened", "iterations",
    "factorizations", "trusted", "sound", "nudged", "corners",
    "objective", "violation", "norm", "theta", "logarithms", "new_objective", "new_violation", "new_norm", "new_theta",
    "new_logarithms", "new_finite", "allowed",
)  # fmt: skip
REFUSED, CONVERGED, LIMIT = 0, 1, 2
REFINEMENTS = 6  # of a solution
RANGE = 1e-150, 1e150  # of products of slacks, whose logarithm is then taken


class InteriorPart:
    """One of the functions. Addresses and counts are read once; all numbers stand where the caller has put them. rules: what
    has the functions of numbers by which steps are judged, see boundary/interior/rules.py; coordinates: n. The end of the
    function is the label `end`, the result its status."""

    def __init__(self, terms: int, data: int, coordinates: int, rules: Any):
        self.c, self.rules = Code(), rules
        c, at = self.c, WORDS.size
        self.word = self._loaded(WORDS, 0)
        self.terms = [self._loaded(TERM, at + t * TERM.size) for t in range(terms)]
        at += terms * TERM.size
        self.data = [c.load(c.at("%job", at + k, "i64"), "ptr") for k in range(data)]
        self.n = c.let(f"mul i64 {self.word['blocks']}, {self.word['size']}")
        self.status = c.slot("status", "i64")
        self.sizes, self.positions = (
            [self._item(name, str(j)) for j in range(coordinates)] for name in ("sizes", "positions")
        )
        self.reach, self.ratio = [c.slot("reach") for _ in self.sizes], c.slot("ratio")
        self.slot = {name: c.at("%values", SCALARS.offset(name)) for name in SCALARS.fields}

    def _loaded(self, packing: Packing, begin: int) -> dict[str, str]:
        """The words of a packing that begins there."""
        kinds = {name: "i64" if name in COUNTS else "ptr" for name in packing.fields}
        return {n: self.c.load(self.c.at("%job", begin + f.offset, "i64"), kinds[n]) for n, f in packing.fields.items()}

    def _judge(self, rule: Callable, *given: Any) -> str:
        """The value of a rule at numbers that have these names."""
        names, shape = jax.tree.flatten(given)
        return inlined(rule, shape, self.c, names)

    def get(self, name: str) -> str:
        return self.c.load(self.slot[name])

    def put(self, name: str, value: str) -> None:
        self.c.store(value, self.slot[name])

    def _until(self, condition: str) -> None:
        """To the end unless the condition holds."""
        on = self.c.name("on")
        self.c.fork(condition, on, "end", likely=True)
        self.c.label(on)

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

    def _violation(self) -> str:
        """Σ|c| relative to what it is where positions are as large as those of the path."""
        return self.c.let(f"fdiv double {self.get('violation')}, {self.c.load(self.ratio)}")

    def _gradient(self, z: str, g: str) -> str:
        """The gradient at a path, without what is fixed; the objective, which stands after it."""
        c = self.c
        self._fill(self.word[g], c.let(f"add i64 {self.n}, 1"))
        total = c.at(self.word[g], self.n)
        for t in self.terms:
            read, write = (c.let(f"getelementptr i8, ptr {self.word[p]}, i64 {t['offset']}") for p in (z, g))
            arguments = f"i64 {t['number']}, ptr {read}, ptr {t['gradient_rows']}, ptr {t['gradient_shared']}"
            c.line(f"call void {t['gradient']}({arguments}, ptr {total}, ptr {write})")
        with c.loop(0, self.word["fixed_count"]) as i:
            c.store(c.constant(0.0), c.at(self.word[g], self._index("fixed_places", i)))
        return c.load(total)

    def _product(self, x: str, y: str) -> None:
        """y: the second derivatives at z times x; rows of fixed components are not zero."""
        c = self.c
        self._fill(self.word[y], self.n)
        for t in self.terms:
            at = [c.let(f"getelementptr i8, ptr {self.word[p]}, i64 {t['offset']}") for p in ("z", x, y)]
            arguments = f"i64 {t['number']}, ptr {at[0]}, ptr {at[1]}, ptr {t['product_rows']}, ptr {t['product_shared']}"
            c.line(f"call void {t['product']}({arguments}, ptr {at[2]})")

    def _substitute(self, name: str) -> None:
        """K⁻¹ times the array, by the factors that are stored, in its place."""
        self._clear_tail(name)
        self._call("forward", "blocks", "stored", "free", "fixed_blocks", name)
        self._call("backward", "blocks", "stored", "free", "fixed_blocks", name)

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

    def _larger(self, known: str, value: str) -> str:
        return self.c.let(f"select i1 {self.c.let(f'fcmp ogt double {value}, {known}')}, double {value}, double {known}")

    def real(self, name: str) -> str:
        """A count as a number."""
        return self.c.let(f"sitofp i64 {self.word[name]} to double")

    def _unless_stopped(self) -> None:
        """To the end where Ctrl-C asks for it, as where something is met that the loop does not know."""
        stop = self.c.let(f"load atomic i64, ptr {self.c.at('%job', WORDS.offset('stop'), 'i64')} monotonic, align 8")
        self._until(self.c.let(f"icmp eq i64 {stop}, 0"))

    def finish(self, status: int) -> None:
        self.c.store(str(status), self.status, "i64")

    def _begun(self, value: float) -> str:
        """A slot with this number in it."""
        slot = self.c.slot("number")
        self.c.store(self.c.constant(value), slot)
        return slot

    def _smaller(self, known: str, value: str) -> str:
        return self.c.let(f"select i1 {self.c.let(f'fcmp olt double {value}, {known}')}, double {value}, double {known}")

    def _slack_change(self, name: str, j: str) -> str:
        """Of slack j by such a step."""
        return self._times(self._item("scales", j), self._item(name, self._index("places", j)))

    def _shorten(self, slot: str, value: str, change: str) -> None:
        """The longest step after which a part 1 - τ of the value is left."""
        c = self.c
        bound = c.let(f"fdiv double {self._times(c.let(f'fneg double {self.fraction}'), value)}, {change}")
        falling = c.let(f"fcmp olt double {change}, {c.constant(0.0)}")
        shorter = c.let(f"fcmp olt double {bound}, {c.load(slot)}")
        c.store(c.let(f"select i1 {c.both(falling, shorter)}, double {bound}, double {c.load(slot)}"), slot)

    fraction: str

    def _move(self, step: str, length: str) -> None:
        """The new path."""
        c = self.c
        with c.loop(0, self.n) as i:
            c.store(self._plus(self._item("z", i), self._times(length, self._item(step, i))), c.at(self.word["new_z"], i))

    def _standing(self, prefix: str) -> Any:
        """θ and ϕ of the present point or of the new one."""
        energy = self.c.let(f"fdiv double {self.get(f'{prefix}objective')}, {self.get('curvature')}")
        walls = self._times(self.get("barrier"), self.get(f"{prefix}logarithms"))
        return self.rules.Standing(self.get(f"{prefix}theta"), self._minus(energy, walls))

    def _point(self) -> None:
        self.c.line("call void @point(ptr %job, ptr %values)")

    def _solves(self, x: str, right: str) -> str:
        """x, corrected until a correction is small; whether they become small."""
        c = self.c
        found = c.let(f"call i64 @solution(ptr %job, ptr %values, ptr {self.word[x]}, ptr {self.word[right]})")
        return c.let(f"icmp ne i64 {found}, 0")


class PointPart(InteriorPart):
    """Objective, gradient, slacks, violation and Σ log s of the new path, and whether the filter allows them."""

    def text(self) -> str:
        c = self.c
        objective = self._gradient("new_z", "new_g")
        self.put("new_objective", objective)

        def sums(i: str) -> list[str]:
            slope = self._item("new_g", i)
            size, scaled = self._abs(slope), self._times(self._item("flat_units", i), slope)
            return [
                self._times(self._item("violations", i), size),
                self._times(self._item("per_action", i), size),
                self._times(scaled, scaled),
            ]

        violation, theta, square = self._total(self.n, sums, 3)
        self.put("new_violation", violation)
        norm = c.intrinsic("sqrt", square)
        self.put("new_norm", norm)
        least, logarithms = self._slacks()
        positive = c.let(f"fcmp ogt double {least}, {c.constant(0.0)}")
        inside = c.both(positive, c.both(self._finite(objective), self._finite(norm)))
        for name, value, outside in (("theta", theta, float("inf")), ("logarithms", logarithms, float("-inf"))):
            self.put(f"new_{name}", c.let(f"select i1 {inside}, double {value}, double {c.constant(outside)}"))
        self._allow()
        c.line("ret void")
        return c.function("define internal void @point(ptr %job, ptr %values) nounwind")

    def _slacks(self) -> tuple[str, str]:
        """The smallest slack, and Σ log s as few logarithms of products."""
        c = self.c
        least, total, product = self._begun(float("inf")), self._begun(0.0), self._begun(1.0)
        low, high = (c.constant(x) for x in RANGE)
        with c.loop(0, self.word["bound_count"]) as j:
            off = self._minus(self._item("new_z", self._index("places", j)), self._item("limits", j))
            slack = self._times(self._item("scales", j), off)
            c.store(slack, c.at(self.word["new_slacks"], j))
            c.store(self._smaller(c.load(least), slack), least)
            before = c.load(product)
            longer = self._times(before, slack)
            kept = c.both(c.let(f"fcmp ogt double {longer}, {low}"), c.let(f"fcmp olt double {longer}, {high}"))
            keep, close, on = c.name("keep"), c.name("close"), c.name("on")
            c.fork(kept, keep, close, likely=True)
            c.label(keep)
            c.store(longer, product)
            c.go(on)
            c.label(close)
            c.store(self._plus(c.load(total), c.intrinsic("log", before)), total)
            c.store(slack, product)
            c.label(on)
        return c.load(least), self._plus(c.load(total), c.intrinsic("log", c.load(product)))

    def _allow(self) -> None:
        """No point of the filter is as good, and the violation is not too large."""
        c, new = self.c, self._standing("new_")
        finite = c.both(self._finite(new.violation), self._finite(new.barrier))
        self.put("new_finite", c.let(f"uitofp i1 {finite} to double"))
        allowed = c.slot("allowed", "i1")
        near = c.let(f"fcmp ole double {new.violation}, {self.get('largest')}")
        c.store(c.both(finite, near), allowed, "i1")
        with c.loop(0, c.let(f"fptosi double {self.get('corners')} to i64")) as k:
            at = c.at(self.word["filter"], c.let(f"shl i64 {k}, 1"))
            better = self._judge(self.rules.better, new, c.load(at), c.load(c.at(at, 1)))
            c.store(c.both(c.load(allowed, "i1"), better), allowed, "i1")
        self.put("allowed", c.let(f"uitofp i1 {c.load(allowed, 'i1')} to double"))


class SolutionPart(InteriorPart):
    """K⁻¹ right from a first solution x, by iterative refinement; 0 where that does not converge."""

    def text(self) -> str:
        c, rules = self.c, self.rules
        self.word |= {"given": "%x", "wanted": "%right"}
        known, again, good, bad = (c.name(x) for x in ("known", "again", "good", "bad"))
        count = c.slot("count", "i64")
        c.store("0", count, "i64")
        c.fork(c.let(f"fcmp ogt double {self.get('trusted')}, {c.constant(0.0)}"), known, again)
        c.label(again)
        self._product("given", "y")
        with c.loop(0, self.n) as i:
            x, y = self._item("given", i), self._item("y", i)
            whole = self._plus(self._times(y, self._item("free", i)), self._times(self._item("diagonal", i), x))
            c.store(self._minus(self._item("wanted", i), whole), c.at(self.word["y"], i))
        self._substitute("y")
        size, change = (self._relative(name) for name in ("given", "y"))
        with c.loop(0, self.n) as i:
            c.store(self._plus(self._item("given", i), self._item("y", i)), c.at(self.word["given"], i))
        more, less = c.name("more"), c.name("less")
        c.fork(self._judge(rules.accurate, change, size), good, more)
        c.label(more)
        c.fork(self._judge(rules.converging, change, size), less, bad)
        c.label(less)
        done = c.let(f"add i64 {c.load(count, 'i64')}, 1")
        c.store(done, count, "i64")
        c.fork(c.let(f"icmp slt i64 {done}, {REFINEMENTS}"), again, bad)
        c.label(good)
        once = c.let(f"icmp eq i64 {c.load(count, 'i64')}, 0")
        self.put("trusted", c.let(f"uitofp i1 {once} to double"))
        c.label(known)
        c.line("ret i64 1")
        c.label(bad)
        c.line("ret i64 0")
        return c.function("define internal i64 @solution(ptr %job, ptr %values, ptr %x, ptr %right) nounwind")

    def _relative(self, name: str) -> str:
        """The largest |position|, in typical sizes."""
        pairs = zip(self._max_norms(name), self.positions, strict=True)
        return self.c.maximum([self.c.let(f"fdiv double {value}, {size}") for value, size in pairs])
