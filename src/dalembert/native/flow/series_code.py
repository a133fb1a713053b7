"""The Taylor coefficients of a solution as machine code: `begin` evaluates the field, `expand` finds all higher orders.

Convolutions are taken side by side, as many as a vector has places: a loop over their terms, the same for all of them. It is
the same code for every order.
"""

from __future__ import annotations

from collections.abc import Sequence

from dalembert.native.flow.series import Convolution, Series
from dalembert.native.llvm.builder import Code, module
from dalembert.native.llvm.emit import Emitter, Values

ORDERS = 32  # coefficients of a node that there is room for
WIDTH = 4  # convolutions in one vector
KEPT = 3  # rows of operands by themselves: of zeros, of order 1, of the last order
TOGETHER = 8  # vectors that are summed in one loop


class SeriesCode:
    """Writes the functions `begin`, `expand` and `polynomial`. kept: nodes whose value at order 0 `expand` needs.

    sizes: of the vectors x0 = y, x1 = t, x2, …; captured: of that with this name. slope: nodes of ẏ, holds: a truth value.
    `begin` finds (ẏ, whether it holds, whether the borders are regular, these), `expand` their coefficients, too.
    """

    def __init__(self, known: Series, sizes: Sequence[int], captured: int, slope: Sequence[int], holds: int):
        self.s, self.g, self.slope, self.holds = known, known.graph, slope, holds
        self.vectors = {**{f"x{i}": size for i, size in enumerate(sizes)}, "captured": captured}
        self.moving = set(self.s.moving)
        self.n = sizes[0]
        for name, size in (("x0", self.n), ("x1", 1)):
            self.moving |= {self.g.variable(name, i) for i in range(size)}
        jobs = self.s.convolutions
        self.groups = [jobs[i : i + WIDTH] for i in range(0, len(jobs), WIDTH)]
        self.place = {job: (i // WIDTH, i % WIDTH) for i, job in enumerate(jobs)}
        self.parts = {x: i for i, x in enumerate(dict.fromkeys(x for job in jobs for x in _operands(job)))}
        self.kept: dict[tuple[str, int], int] = {}
        self._expand = self._expansion()
        self._begin = self._beginning()

    @property
    def work_size(self) -> int:
        """Numbers for the operands of convolutions."""
        return KEPT * len(self.parts) + 2 * ORDERS * WIDTH * len(self.groups)

    def text(self) -> str:
        codes = (self._begin, self._expand, _polynomial(self.n))
        heads = ("define void @begin(ptr noalias %given, ptr noalias %kept, ptr noalias %slope) nounwind",
                 "define void @expand(ptr noalias %kept, ptr noalias %rows, ptr noalias %borders, ptr noalias %work, "
                 "i64 %order, double %clock) nounwind",
                 "define void @polynomial(ptr noalias %rows, i64 %order, double %h, ptr noalias %y, ptr noalias %slope) "
                 "nounwind")  # fmt: skip
        parts = [c.function(head) for c, head in zip(codes, heads, strict=True)]
        return module(*parts, declared=set[str]().union(*(c.declared for c in codes)))

    def _beginning(self) -> Code:
        c, g, values, at = Code(), self.g, Values(), 0
        self._c = c
        for name, size in self.vectors.items():
            for i in range(size):
                values[g.variable(name, i)] = c.load(c.at("%given", at + i))
            at += size
        wanted = [*self.slope, self.holds, self.s.regular, *self.s.borders, *(i for _, i in self.kept)]
        found = [self._number(i, x) for i, x in zip(wanted, Emitter(g, c).emit(wanted, values), strict=True)]
        many = self.n + 2 + len(self.s.borders)
        for i, x in enumerate(found[:many]):
            c.store(x, c.at("%slope", i))
        for (how, _), x, to in zip(self.kept, found[many:], self.kept.values(), strict=True):
            if how == "over":
                x = c.let(f"fdiv double {c.constant(1.0)}, {x}")
            elif how == "half":
                x = c.let(f"fdiv double {c.constant(0.5)}, {x}")
            c.store(x, c.at("%kept", to))
        c.line("ret void")
        return c

    def _number(self, i: int, x: str) -> str:
        """The value of node i as a double."""
        return x if self.g.kind[i] == "f" else self._c.let(f"uitofp i1 {x} to double")

    def _zero(self, i: int, how: str = "") -> str:
        """The value of node i at order 0; how: its reciprocal, or half of that."""
        c = self._c
        if (value := self.g.value(i)) is not None and not how:
            return c.constant(float(value))
        return c.load(c.at("%kept", self.kept.setdefault((how, i), len(self.kept))))

    def _expansion(self) -> Code:
        c = self._c = Code()
        n = self.n
        self.spots = [self._spot(i) for i in range(len(self.groups))]
        counter = c.slot("k", "i64")
        c.store("1", counter, "i64")
        c.label("next")
        k = c.load(counter, "i64")
        number = c.let(f"sitofp i64 {k} to double")
        over = c.let(f"fdiv double {c.constant(1.0)}, {number}")
        next_over = c.let(f"fdiv double %clock, {c.plus(number, c.constant(1.0))}")
        row = c.at("%rows", c.let(f"mul i64 {k}, {n}"))
        sums = self._sums(k)
        first = c.let(f"icmp eq i64 {k}, 1")
        values = {self.g.variable("x0", i): c.load(c.at(row, i)) for i in range(n)}
        values[self.g.variable("x1", 0)] = c.let(f"select i1 {first}, double %clock, double {c.constant(0.0)}")
        for i in self.s.moving:
            values[i] = self._coefficient(i, values, sums, over)
        for i, node in enumerate(self.slope):
            x = values.get(node, c.constant(0.0))
            c.store(c.times(next_over, x), c.at(row, n + i))
        border = c.at("%borders", c.let(f"mul i64 {k}, {len(self.s.borders)}"))
        for i, node in enumerate(self.s.borders):
            c.store(values[node], c.at(border, i))
        self._store(values, k, number)
        after = c.let(f"add i64 {k}, 1")
        c.store(after, counter, "i64")
        c.fork(c.let(f"icmp slt i64 {after}, %order"), "next", "done")
        c.label("done")
        c.line("ret void")
        return c

    def _spot(self, group: int) -> tuple[int, int]:
        """Where the operands of a group at order 0 stand, and how far those of order 1 are from there."""
        chunk, inside = divmod(group, TOGETHER)
        many = min(TOGETHER, len(self.groups) - chunk * TOGETHER)
        return KEPT * len(self.parts) + 2 * WIDTH * (chunk * TOGETHER * ORDERS + inside), 2 * WIDTH * many

    def _sums(self, k: str) -> dict[Convolution, str]:
        """Σ_{0<i<k} a_i b_{k-i} of all convolutions."""
        c, vector = self._c, f"<{WIDTH} x double>"
        found: dict[Convolution, str] = {}
        last = c.let(f"sub i64 {k}, 1")
        for start in range(0, len(self.groups), TOGETHER):
            groups = range(start, min(start + TOGETHER, len(self.groups)))
            sums = [c.slot("sum", vector) for _ in groups]
            for x in sums:
                c.store("zeroinitializer", x, vector)
            with c.loop(2, last) as i:
                self._add(start, sums, i, c.let(f"sub i64 {k}, {i}"))
            for group, x in zip(groups, sums, strict=True):
                whole = c.load(x, vector)
                for place, job in enumerate(self.groups[group]):
                    found[job] = c.let(f"extractelement {vector} {whole}, i64 {place}")
        return self._with_ends(found, k)

    def _with_ends(self, sums: dict[Convolution, str], k: str) -> dict[Convolution, str]:
        """And a_1 b_{k-1} + a_{k-1} b_1, as numbers: a vector of what has just been stored would be waited for.

        There are none of these for k = 1, and one for k = 2: zeros stand for what is missing; what a run before has left is
        not read.
        """
        c, found = self._c, {}
        first, other = (c.let(f"zext i1 {c.let(f'icmp sgt i64 {k}, {least}')} to i64") for least in (1, 2))
        last = c.let(f"add i64 {first}, {other}")
        ones, others, lasts = (c.at("%work", c.let(f"mul i64 {row}, {len(self.parts)}")) for row in (first, other, last))
        for job, total in sums.items():
            a, b = (self.parts[x] for x in _operands(job))
            for left, right in ((c.at(ones, a), c.at(lasts, b)), (c.at(lasts, a), c.at(others, b))):
                product = c.let(f"fmul contract double {c.load(left)}, {c.load(right)}")
                total = c.let(f"fadd contract double {total}, {product}")
            found[job] = total
        return found

    def _add(self, start: int, sums: Sequence[str], left: str, right: str) -> None:
        """a_left b_right to the sums of the groups from `start` on."""
        c, vector, (base, stride) = self._c, f"<{WIDTH} x double>", self.spots[start]
        at = [c.at("%work", c.let(f"add i64 {base}, {c.let(f'mul i64 {x}, {stride}')}")) for x in (left, right)]
        for inside, x in enumerate(sums):
            a = c.load(c.at(at[0], 2 * WIDTH * inside), vector)
            b = c.load(c.at(at[1], 2 * WIDTH * inside + WIDTH), vector)
            product = c.let(f"fmul contract {vector} {a}, {b}")
            c.store(c.let(f"fadd contract {vector} {c.load(x, vector)}, {product}"), x, vector)

    def _store(self, values: Values, k: str, number: str) -> None:
        """The operands of convolutions at order k."""
        c = self._c
        found = {(i, weighted): c.times(number, values[i]) if weighted else values[i] for i, weighted in self.parts}
        row = c.let(f"select i1 {c.let(f'icmp eq i64 {k}, 1')}, i64 1, i64 2")
        single = c.at("%work", c.let(f"mul i64 {row}, {len(self.parts)}"))
        for part, at in self.parts.items():
            c.store(found[part], c.at(single, at))
        for group, (base, stride) in zip(self.groups, self.spots, strict=True):
            at = c.at("%work", c.let(f"add i64 {base}, {c.let(f'mul i64 {k}, {stride}')}"))
            for place, job in enumerate(group):
                for side, part in enumerate(_operands(job)):
                    c.store(found[part], c.at(at, WIDTH * side + place))

    def _coefficient(self, i: int, values: Values, sums: dict[Convolution, str], over: str) -> str:
        """Node i at order k."""
        c, moving = self._c, self.moving
        op, *x = self.g.nodes[i]
        own = [sums[s] for s in self.s.sums.get(i, ())]
        do = lambda op, a, b: c.let(f"f{op} contract double {a}, {b}")  # noqa: E731
        if op == "neg":
            return c.let(f"fneg double {values[x[0]]}")
        if op == "select":
            taken = c.let(f"fcmp une double {self._zero(x[0])}, {c.constant(0.0)}")
            return c.select(taken, *(values.get(j, c.constant(0.0)) for j in x[1:]))
        if op in ("add", "sub"):
            moving = [values[j] for j in x if j in values]
            if len(moving) == 2:
                return do(op, *moving)
            return c.let(f"fneg double {moving[0]}") if op == "sub" and x[1] in values else moving[0]
        if op == "mul":
            if not own:
                u, v = x if x[0] in moving else reversed(x)
                return do("mul", values[u], self._zero(v))
            if x[0] == x[1]:
                twice = do("add", self._zero(x[0]), self._zero(x[0]))
                return do("add", own[0], do("mul", twice, values[x[0]]))
            once = do("add", own[0], do("mul", self._zero(x[0]), values[x[1]]))
            return do("add", once, do("mul", self._zero(x[1]), values[x[0]]))
        if op == "div":
            top = values.get(x[0])
            if own:
                rest = do("add", own[0], do("mul", self._zero(i), values[x[1]]))
                top = do("sub", top, rest) if top else c.let(f"fneg double {rest}")
            return do("mul", top, self._zero(x[1], "over"))
        if op == "sqrt":
            return do("mul", do("sub", values[x[0]], own[0]), self._zero(i, "half"))
        total = ""
        for d, u in self.s.slopes[i]:
            term = do("mul", self._zero(d), values[u])
            total = do("add", total, term) if total else term
        if own:
            whole = own[0]
            for s in own[1:]:
                whole = do("add", whole, s)
            total = do("add", total, do("mul", over, whole))
        return total


def _operands(job: Convolution) -> tuple[tuple[int, bool], tuple[int, bool]]:
    """(node, whether it is weighted) of both sides."""
    return (job.a, job.weighted), (job.b, False)


def _polynomial(n: int) -> Code:
    """Horner's rule for y and its derivative, all components side by side."""
    c = Code()
    parts = [(at, width, "double" if width == 1 else f"<{width} x double>") for at, width in c.chunks(n)]
    slots = [(c.slot("value", kind), c.slot("rate", kind)) for _, _, kind in parts]
    steps = [c.broadcast("%h", "double", width) if width > 1 else "%h" for _, width, _ in parts]
    last = c.at("%rows", c.let(f"mul i64 %order, {n}"))
    for (at, _, kind), (value, rate) in zip(parts, slots, strict=True):
        c.store(c.load(c.at(last, at), kind), value, kind)
        c.store(c.constant(0.0) if kind == "double" else "zeroinitializer", rate, kind)
    with c.loop(0, "%order") as i:
        k = c.let(f"sub i64 {c.let('sub i64 %order, 1')}, {i}")
        row = c.at("%rows", c.let(f"mul i64 {k}, {n}"))
        for (at, _, kind), (value, rate), h in zip(parts, slots, steps, strict=True):
            u, v, a = c.load(value, kind), c.load(rate, kind), c.load(c.at(row, at), kind)
            raised = lambda x, y: c.let(f"fadd contract {kind} {c.let(f'fmul contract {kind} {x}, {h}')}, {y}")  # noqa: E731, B023
            c.store(raised(v, u), rate, kind)
            c.store(raised(u, a), value, kind)
    for (at, _, kind), (value, rate) in zip(parts, slots, strict=True):
        c.store(c.load(value, kind), c.at("%y", at), kind)
        c.store(c.load(rate, kind), c.at("%slope", at), kind)
    c.line("ret void")
    return c
