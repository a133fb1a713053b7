"""The method of order 8 with its step control and its interpolant as one loop of machine code, for any field that is one.

    k_i = f(t + c_i h, y + h Σ_j a_ij k_j),   y ← y + h Σ b_j k_j

It holds no system: field, watch and what they are told are addresses, and the number of components is an argument.
"""

from __future__ import annotations

from collections.abc import Callable

from dalembert.native.flow.choices import SAMPLES, Borders, border_numbers
from dalembert.native.llvm.builder import Code, module
from dalembert.native.llvm.packing import Packing

Row = dict[int, float]  # the entries that are not zero, by the stage they belong to

# fmt: off

# c: the times of the stages, in steps; stage 12 is the end of the step, and those after it serve the interpolant alone
NODES = (0.0, 0.05260015195876773, 0.0789002279381516, 0.1183503419072274, 0.2816496580927726, 0.3333333333333333, 0.25,
 0.3076923076923077, 0.6512820512820513, 0.6, 0.8571428571428571, 1.0, 1.0, 0.1, 0.2, 0.7777777777777778)

# a: y + h Σ a_ij k_j is where the slope k_i of stage i is taken; that of stage 12 is the new y
STAGES: tuple[Row, ...] = (
    {},
    {0: 0.05260015195876773},
    {0: 0.0197250569845379, 1: 0.0591751709536137},
    {0: 0.02958758547680685, 2: 0.08876275643042054},
    {0: 0.2413651341592667, 2: -0.8845494793282861, 3: 0.924834003261792},
    {0: 0.037037037037037035, 3: 0.17082860872947386, 4: 0.12546768756682242},
    {0: 0.037109375, 3: 0.17025221101954405, 4: 0.06021653898045596, 5: -0.017578125},
    {0: 0.03709200011850479, 3: 0.17038392571223998, 4: 0.10726203044637328, 5: -0.015319437748624402,
     6: 0.008273789163814023},
    {0: 0.6241109587160757, 3: -3.3608926294469414, 4: -0.868219346841726, 5: 27.59209969944671, 6: 20.154067550477894,
     7: -43.48988418106996},
    {0: 0.47766253643826434, 3: -2.4881146199716677, 4: -0.590290826836843, 5: 21.230051448181193, 6: 15.279233632882423,
     7: -33.28821096898486, 8: -0.020331201708508627},
    {0: -0.9371424300859873, 3: 5.186372428844064, 4: 1.0914373489967295, 5: -8.149787010746927, 6: -18.52006565999696,
     7: 22.739487099350505, 8: 2.4936055526796523, 9: -3.0467644718982196},
    {0: 2.273310147516538, 3: -10.53449546673725, 4: -2.0008720582248625, 5: -17.9589318631188, 6: 27.94888452941996,
     7: -2.8589982771350235, 8: -8.87285693353063, 9: 12.360567175794303, 10: 0.6433927460157636},
    {0: 0.054293734116568765, 5: 4.450312892752409, 6: 1.8915178993145003, 7: -5.801203960010585, 8: 0.3111643669578199,
     9: -0.1521609496625161, 10: 0.20136540080403034, 11: 0.04471061572777259},
    {0: 0.056167502283047954, 6: 0.25350021021662483, 7: -0.2462390374708025, 8: -0.12419142326381637,
     9: 0.15329179827876568, 10: 0.00820105229563469, 11: 0.007567897660545699, 12: -0.008298},
    {0: 0.03183464816350214, 5: 0.028300909672366776, 6: 0.053541988307438566, 7: -0.05492374857139099,
     10: -0.00010834732869724932, 11: 0.0003825710908356584, 12: -0.00034046500868740456, 13: 0.1413124436746325},
    {0: -0.42889630158379194, 5: -4.697621415361164, 6: 7.683421196062599, 7: 4.06898981839711, 8: 0.3567271874552811,
     12: -0.0013990241651590145, 13: 2.9475147891527724, 14: -9.15095847217987},
)

# h Σ e_j k_j: the difference from a formula of order 5
ERROR_5: Row = {0: 0.01312004499419488, 5: -1.2251564463762044, 6: -0.4957589496572502, 7: 1.6643771824549864,
 8: -0.35032884874997366, 9: 0.3341791187130175, 10: 0.08192320648511571, 11: -0.022355307863886294}

# and from one of order 3
ERROR_3: Row = {0: -0.18980075407240762, 5: 4.450312892752409, 6: 1.8915178993145003, 7: -5.801203960010585,
 8: -0.4226823213237919, 9: -0.1521609496625161, 10: 0.20136540080403034, 11: 0.02265179219836082}

# h Σ d_ij k_j: the last four terms of the interpolant
DENSE: tuple[Row, ...] = (
    {0: -8.428938276109013, 5: 0.5667149535193777, 6: -3.0689499459498917, 7: 2.38466765651207, 8: 2.117034582445028,
     9: -0.871391583777973, 10: 2.2404374302607883, 11: 0.6315787787694688, 12: -0.08899033645133331,
     13: 18.148505520854727, 14: -9.194632392478356, 15: -4.436036387594894},
    {0: 10.427508642579134, 5: 242.28349177525817, 6: 165.20045171727028, 7: -374.5467547226902, 8: -22.113666853125306,
     9: 7.733432668472264, 10: -30.674084731089398, 11: -9.332130526430229, 12: 15.697238121770845,
     13: -31.139403219565178, 14: -9.35292435884448, 15: 35.81684148639408},
    {0: 19.985053242002433, 5: -387.0373087493518, 6: -189.17813819516758, 7: 527.8081592054236, 8: -11.57390253995963,
     9: 6.8812326946963, 10: -1.0006050966910838, 11: 0.7777137798053443, 12: -2.778205752353508, 13: -60.19669523126412,
     14: 84.32040550667716, 15: 11.99229113618279},
    {0: -25.69393346270375, 5: -154.18974869023643, 6: -231.5293791760455, 7: 357.6391179106141, 8: 93.40532418362432,
     9: -37.45832313645163, 10: 104.0996495089623, 11: 29.8402934266605, 12: -43.53345659001114, 13: 96.32455395918828,
     14: -39.17726167561544, 15: -149.72683625798564},
)


REACHED, TOO_MANY, TOO_SMALL, WATCHED = range(4)
TINY = 4.0 * 2.0**-52  # of t: a step that is not longer does not move it

NUMBERS = Packing.scalars("t", "h", "tolerance", "next", "behind", "way")
COUNTED = Packing.words("size", "times", "most", "clipped", "steps", "saved", "refused", "mode")

END = 12  # the stage at the end of a step, whose slope begins the next one
COLUMNS = len(STAGES)
SHORTEST = 1e-6  # of first steps, where sizes say nothing
SAFETY, SMALLEST, LARGEST = 0.9, 0.2, 10.0  # of the factor by which a step changes

HALVINGS = 52  # of a step, to find where it passes a border
BEHIND = 1e-4, 64 * 2.0**-52  # a border, of a step: of the tolerance; at least
PLAIN, CROSSING, FREE = range(3)  # modes of a step: within borders, just beyond one, or with choices as the state says
RETURN = 64.0  # times that: how soon a motion that is held at a border is there again
FARTHER, FARTHEST = 8.0, 1e-3  # times that, until the border is passed; of a step
AGAIN = 1e-3  # of all that is left: a free step, at first


def work_size(size: int, many: int) -> int:
    """Numbers of the workspace; many: borders and arguments."""
    return size * (COLUMNS + 6 + len(DENSE)) + border_numbers(many)


def loop() -> str:
    """LLVM module with  i64 @integrate(ptr field, ptr told, ptr watch, ptr watch_told, ptr project, ptr project_told,
    ptr numbers, ptr counts, ptr times, ptr y, ptr rows, ptr work): y from numbers.t over times, one row each, as `NUMBERS`
    and `COUNTED` lay out.

    The error of a step is judged in the mean square of |error| / (tolerance (s + |y|)), s the typical size. clipped: steps
    end at the times; otherwise rows come from the interpolant. watch: 0, or a field with one result; below 0 at the end of a
    step it ends the integration. project: 0, or what brings the y of a row, and that at the end of a step, onto constraints;
    a step for which it does not is refused. numbers.h: the first step, or 0. In y and numbers.t is what was reached. Returns
    REACHED, TOO_MANY steps (of those refused, too), TOO_SMALL a step, or WATCHED. After TOO_MANY it goes on with a larger
    count as if it had not ended.
    """
    return module(_Loop().text(), declared=())


def weighted_sum(c: Code, row: Row, slope: Callable[[int], str]) -> str:
    """Σ a_j k_j of one component. slope: j → k_j."""
    total, *terms = [c.times(c.constant(a), slope(j)) for j, a in row.items()]
    for term in terms:
        total = c.plus(total, term)
    return total


def dense_terms(c: Code, h: str, change: str, slope: Callable[[int], str]) -> list[str]:
    """The seven terms of the polynomial, of one component. change: of y in the step."""
    first, last = (c.times(h, slope(i)) for i in (0, END))
    bend = c.minus(change, first)
    terms = [change, c.minus(first, change), c.minus(bend, c.minus(last, change))]
    return [*terms, *(c.times(h, weighted_sum(c, row, slope)) for row in DENSE)]


class _Loop:
    """Writes the function. Its labels are "begin", at which a step begins, "step", at which it is tried, and those of
    `_returns`; behind y stand its typical sizes. refused: in this step. Slots: the end of the step, norm of the error, the
    next h, whether this one is cut, and whether it crosses a border."""

    def __init__(self) -> None:
        c = self.c = Code()
        self.n, self.times, self.clipped = (
            c.load(c.at("%counts", COUNTED.fields[name].offset), "i64") for name in ("size", "times", "clipped")
        )
        self.tolerance = c.load(c.at("%numbers", NUMBERS.fields["tolerance"].offset))
        names = ("t", "h", "next", "behind", "way")
        self.t, self.h, self.next, self.behind, self.way = (c.at("%numbers", NUMBERS.offset(name)) for name in names)
        names = ("steps", "saved", "most", "refused", "mode")
        self.steps, self.saved, self.most, self.refused, self.mode = (c.at("%counts", COUNTED.offset(x)) for x in names)
        self.end = c.slot("end")
        self.slopes = [c.at("%work", self._columns(i)) for i in range(COLUMNS)]
        self.stage, self.new = (c.at("%work", self._columns(COLUMNS + i)) for i in range(2))
        self.dense = [c.at("%work", self._columns(COLUMNS + 2 + i)) for i in range(3 + len(DENSE))]
        self.norm, self.meant = (c.slot(name) for name in ("norm", "meant"))
        self.cut, self.probing = (c.slot(name, "i1") for name in ("cut", "probing"))
        self.borders = Borders(c, c.at("%work", self._columns(COLUMNS + 5 + len(DENSE))), self.n)

    def _columns(self, i: int) -> str:
        return self.c.let(f"mul i64 {self.n}, {i}")

    def text(self) -> str:
        c = self.c
        arguments = ["field", "told", "watch", "watch_told", "project", "project_told", "numbers", "counts", "times", "y",
                     "rows", "work"]  # fmt: skip
        c.label("begin")
        self._begin()
        c.fork(c.compare("ogt", c.load(self.h), c.constant(0.0)), "propose", "first", True)
        c.label("first")
        self._first()
        c.label("propose")
        self._untie()
        c.label("step")
        self._propose()
        c.label("try")
        self._stages()
        self._judge()
        self._accept()
        self._shorter()
        self._free_choices()
        self._returns()
        return c.function(f"define i64 @integrate({', '.join(f'ptr %{name}' for name in arguments)}) nounwind")

    def _first(self) -> None:
        """A first step whose error is about the tolerance: from the sizes of y, ẏ and ÿ; Hairer, Norsett, Wanner, II.4."""
        c, number, t = self.c, self.c.constant, self.c.load(self.t)
        over = lambda x, y: c.let(f"fdiv double {x}, {y}")  # noqa: E731
        least = lambda x, y: c.select(c.compare("olt", x, y), x, y)  # noqa: E731
        whole = c.minus(c.load(c.at("%times", c.let(f"sub i64 {self.times}, 1"))), t)
        state = self._size(lambda l: c.load(c.at("%y", l)))
        speed = self._size(lambda l: c.load(c.at(self.slopes[0], l)))
        large = c.compare("oge", least(state, speed), number(1e-5))
        short = least(c.select(large, c.times(number(0.01), over(state, speed)), number(SHORTEST)), whole)
        known = c.compare("olt", c.plus(state, speed), number(float("inf")))
        c.store(c.select(known, short, least(number(SHORTEST), whole)), self.h)
        c.fork(known, "bend", "propose", True)
        c.label("bend")
        self._move(self.stage, {0: 1.0})
        self._field(self.slopes[1], c.plus(t, short), self.stage, "propose")
        change = lambda l: c.minus(*(c.load(c.at(self.slopes[i], l)) for i in (1, 0)))  # noqa: E731
        bent = over(self._size(change), short)
        bend = c.select(c.compare("ogt", bent, speed), bent, speed)
        steady = c.times(number(1e-3), short)
        steady = c.select(c.compare("ogt", steady, number(SHORTEST)), steady, number(SHORTEST))
        found = c.intrinsic("pow", over(number(0.01), bend), number(0.125))
        found = c.select(c.compare("ogt", bend, number(1e-15)), found, steady)
        found = c.select(c.compare("ogt", found, number(0.0)), found, short)
        c.store(least(least(c.times(number(100.0), short), found), whole), self.h)

    def _size(self, component: Callable[[str], str]) -> str:
        """√(mean of (x / (tolerance (s + |y|)))²), s the typical size."""
        c, total = self.c, self.c.slot("total")
        c.store(c.constant(0.0), total)
        with c.loop(0, self.n) as l:
            part = c.let(f"fdiv double {component(l)}, {self._allowance(l, c.absolute(c.load(c.at('%y', l))))}")
            c.store(c.plus(c.load(total), c.times(part, part)), total)
        return c.intrinsic("sqrt", c.let(f"fdiv double {c.load(total)}, {c.let(f'sitofp i64 {self.n} to double')}"))

    def _allowance(self, l: str, size: str) -> str:
        c = self.c
        return c.plus(c.times(self.tolerance, self._typical(l)), c.times(self.tolerance, size))

    def _propose(self) -> None:
        self._count_step()
        c, h, crosses = self.c, self.c.load(self.h), self._is(CROSSING)
        h = c.intrinsic("minnum", h, c.load(self.borders.longest))
        c.store(c.select(crosses, c.load(self.next), h), self.next)
        h, cut = self._limit_step(h)
        c.store(c.either(cut, crosses), self.cut, "i1")
        c.store(h, self.h)

    def _stages(self) -> None:
        """The slopes k₁ … k₁₁ and the new y, projected, with the slope there; then the norm of the error. Where a slope does
        not exist, or no projection, it is infinite."""
        c = self.c
        c.store(c.constant(float("inf")), self.norm)
        for i in range(1, END):
            self._move(self.stage, STAGES[i])
            self._field(self.slopes[i], self._time(i), self.stage, "judge")
            if i in SAMPLES:
                self.borders.keep(SAMPLES.index(i), c.times(c.constant(NODES[i]), c.load(self.h)))
        self._move(self.new, STAGES[END])
        self._measure_error()
        self._project(self.new, c.load(self.end), "unbounded")
        self._field(self.slopes[END], c.load(self.end), self.new, "unbounded")
        self.borders.keep(SAMPLES.index(END), c.load(self.h))
        c.go("judge")
        c.label("unbounded")
        c.store(c.constant(float("inf")), self.norm)

    def _time(self, i: int) -> str:
        c = self.c
        return c.plus(c.load(self.t), c.times(c.constant(NODES[i]), c.load(self.h)))

    def _move(self, to: str, row: Row) -> None:
        """to ← y + h Σ a_j k_j."""
        c, h = self.c, self.c.load(self.h)
        with c.loop(0, self.n) as l:
            c.store(c.plus(c.load(c.at("%y", l)), c.times(h, self._sum(row, l))), c.at(to, l))

    def _sum(self, row: Row, l: str) -> str:
        return weighted_sum(self.c, row, lambda j: self.c.load(self.c.at(self.slopes[j], l)))

    def _measure_error(self) -> None:
        """h |e₅|² / √(n (|e₅|² + |e₃|²/100)), in units of what is allowed; Hairer, Norsett, Wanner, II.10."""
        c, five, three = self.c, self.c.slot("five"), self.c.slot("three")
        for slot in (five, three):
            c.store(c.constant(0.0), slot)
        with c.loop(0, self.n) as l:
            old, new = (c.absolute(c.load(c.at(x, l))) for x in ("%y", self.new))
            size = c.select(c.compare("ogt", old, new), old, new)
            allowed = self._allowance(l, size)
            for slot, row in ((five, ERROR_5), (three, ERROR_3)):
                e = c.let(f"fdiv double {self._sum(row, l)}, {allowed}")
                c.store(c.plus(c.load(slot), c.times(e, e)), slot)
        whole = c.plus(c.load(five), c.times(c.constant(0.01), c.load(three)))
        number = c.let(f"sitofp i64 {self.n} to double")
        root = c.intrinsic("sqrt", c.times(whole, number))
        found = c.let(f"fdiv double {c.times(c.load(self.h), c.load(five))}, {root}")
        nothing = c.compare("oeq", whole, c.constant(0.0))
        c.store(c.select(nothing, c.constant(0.0), found), self.norm)

    def _judge(self) -> None:
        """The length of the next step; back to "step" where this one is refused."""
        c = self.c
        c.label("judge")
        norm = c.load(self.norm)
        good = c.compare("olt", norm, c.constant(1.0))  # not so if it is NaN
        power = c.intrinsic("pow", norm, c.constant(-0.125))
        factor = c.times(c.constant(SAFETY), power)
        factor = c.select(c.compare("ogt", factor, c.constant(SMALLEST)), factor, c.constant(SMALLEST))
        refused = c.let(f"icmp ne i64 {c.load(self.refused, 'i64')}, 0")
        most = c.select(refused, c.constant(1.0), c.constant(LARGEST), "i1")
        factor = c.select(c.compare("olt", factor, most), factor, most)
        proposed = c.times(c.load(self.h), factor)
        c.fork(c.load(self.probing, "i1"), "probed", "real", False)
        self._judge_probe(good)
        c.label("real")
        c.fork(good, "accept", "refuse", True)
        c.label("refuse")
        self._again(proposed)
        c.label("accept")
        self._within_borders()
        before = c.load(self.next)  # a step that was cut says little about the next one: that which was meant is kept
        longer = c.both(c.load(self.cut, "i1"), c.compare("ogt", before, proposed))
        c.store(c.select(longer, before, proposed), self.next)
        c.store("0", self.refused, "i64")

    def _accept(self) -> None:
        """Rows up to the end of the step, then the end becomes the beginning of the next one."""
        self._rows()
        self._copy(self.slopes[END], self.slopes[0])
        self._begin_again(self.c.load(self.next))

    def _shorter(self) -> None:
        """A shorter step, because this one has no interpolant, or arguments go too far."""
        c = self.c
        c.label("shorter")
        self._again(c.times(c.constant(SMALLEST), c.load(self.h)))

    def _again(self, h: str) -> None:
        """The same step, shorter."""
        c = self.c
        c.store(h, self.h)
        c.store("1", self.refused, "i64")
        c.store(c.let(f"select i1 {self._is(FREE)}, i64 {FREE}, i64 {PLAIN}"), self.mode, "i64")
        c.go("step")

    def _free_choices(self) -> None:
        """With choices as the state says, if they were not, and the error alone to see them."""
        c = self.c
        c.label("lost")
        c.fork(c.either(self.borders.none, self._is(FREE)), "too_small", "free")
        c.label("free")
        c.store(str(FREE), self.mode, "i64")
        c.store(c.constant(1.0), self.borders.given)
        left = c.minus(c.load(c.at("%times", c.let(f"sub i64 {self.times}, 1"))), c.load(self.t))
        least = c.times(c.constant(4 * TINY), c.absolute(c.load(self.t)))
        c.store(c.intrinsic("maxnum", c.times(c.constant(AGAIN), left), least), self.h)
        c.go("begin")

    def _interpolant(self) -> None:
        """The three more slopes and the seven terms of the polynomial; a step that has not these is refused."""
        c = self.c
        for i in range(END + 1, COLUMNS):
            self._move(self.stage, STAGES[i])
            self._field(self.slopes[i], self._time(i), self.stage, "shorter")
        h = c.load(self.h)
        with c.loop(0, self.n) as l:
            change = c.minus(c.load(c.at(self.new, l)), c.load(c.at("%y", l)))
            terms = dense_terms(c, h, change, lambda j, l=l: c.load(c.at(self.slopes[j], l)))
            for x, to in zip(terms, self.dense, strict=True):
                c.store(x, c.at(to, l))

    def _interpolate(self, passed: str, to: str) -> None:
        """to ← y + s (d₀ + (1 - s)(d₁ + s (d₂ + …))), s the part of the step that has passed."""
        c = self.c
        s = c.let(f"fdiv double {passed}, {c.load(self.h)}")
        factors = s, c.minus(c.constant(1.0), s)
        with c.loop(0, self.n) as l:
            total = c.constant(0.0)
            for i, term in reversed(list(enumerate(self.dense))):
                total = c.times(factors[i % 2], c.plus(total, c.load(c.at(term, l))))
            c.store(c.plus(c.load(c.at("%y", l)), total), c.at(to, l))

    def _returns(self) -> None:
        """Every way out, each with its label."""
        for name, code in (("too_small", TOO_SMALL), ("too_many", TOO_MANY), ("watched", WATCHED), ("reached", REACHED)):
            self.c.label(name)
            self.c.line(f"ret i64 {code}")

    def _count_step(self) -> None:
        """One step more, if there may be one."""
        c, on = self.c, self.c.name("on")
        count = c.let(f"add i64 {c.load(self.steps, 'i64')}, 1")
        c.fork(c.let(f"icmp sgt i64 {count}, {c.load(self.most, 'i64')}"), "too_many", on, False)
        c.label(on)
        c.store(count, self.steps, "i64")

    def _limit_step(self, h: str) -> tuple[str, str]:
        """(h, whether it is cut): a step ends where it may not go beyond, the next time, if steps end there, or the last."""
        c = self.c
        last = c.let(f"sub i64 {self.times}, 1")
        to_next = c.let(f"icmp ne i64 {self.clipped}, 0")
        index = c.let(f"select i1 {to_next}, i64 {c.load(self.saved, 'i64')}, i64 {last}")
        bound, t = c.load(c.at("%times", index)), c.load(self.t)
        ahead = c.plus(t, h)
        beyond = c.let(f"fcmp oge double {ahead}, {bound}")
        end = c.select(beyond, bound, ahead)
        c.store(end, self.end)
        h = c.minus(end, t)  # far from t = 0 the sum is rounded: what has passed is the difference
        least = c.times(c.constant(TINY), c.absolute(t))
        enough, long = c.let(f"fcmp ogt double {h}, {least}"), c.name("long")
        c.fork(c.let(f"or i1 {enough}, {beyond}"), long, "lost", True)
        c.label(long)
        return h, beyond

    def _typical(self, l: str) -> str:
        """The size of a component below which its error is absolute; it stands behind y."""
        return self.c.load(self.c.at("%y", self.c.let(f"add i64 {l}, {self.n}")))

    def _field(self, out: str, t: str, y: str, otherwise: str, field: str = "%field", told: str = "%told") -> None:
        """out ← f(t, y); to the label `otherwise` where it has no value."""
        c, on = self.c, self.c.name("on")
        code = c.let(f"call i64 {field}(ptr {told}, double {t}, ptr {y}, ptr {out})")
        c.fork(c.let(f"icmp eq i64 {code}, 0"), on, otherwise, True)
        c.label(on)

    def _project(self, y: str, t: str, otherwise: str) -> None:
        """y ← the nearest y on the constraints at t, where there are any; to the label `otherwise` where none is found."""
        c, near, on = self.c, self.c.name("near"), self.c.name("on")
        c.fork(c.let("icmp eq ptr %project, null"), on, near)
        c.label(near)
        code = c.let(f"call i64 %project(ptr %project_told, double {t}, ptr {y})")
        c.fork(c.let(f"icmp eq i64 {code}, 0"), on, otherwise, True)
        c.label(on)

    def _copy(self, source: str, to: str) -> None:
        c = self.c
        with c.loop(0, self.n) as l:
            c.store(c.load(c.at(source, l)), c.at(to, l))

    def _rows(self) -> None:
        """The rows at times before the end of the step by interpolation, that at its end from the new y."""
        c = self.c
        self._due("prepare", "rows_done", "olt")
        c.label("prepare")
        self._interpolant()
        c.label("row")
        saved = self._due("interpolate", "rows_done", "olt")
        c.label("interpolate")
        self._interpolate(c.minus(c.load(c.at("%times", saved)), c.load(self.t)), self._row(saved))
        self._project(self._row(saved), c.load(c.at("%times", saved)), "shorter")
        c.store(c.let(f"add i64 {saved}, 1"), self.saved, "i64")
        c.go("row")
        c.label("rows_done")
        saved = self._due("last_row", "rows_written", "oeq")
        c.label("last_row")
        self._copy(self.new, self._row(saved))
        c.store(c.let(f"add i64 {saved}, 1"), self.saved, "i64")
        c.label("rows_written")

    def _due(self, yes: str, no: str, order: str) -> str:
        """To `yes` if a time that is not saved yet is within the step, or at its end (order "oeq"); returns its row."""
        c, inside = self.c, self.c.name("inside")
        saved = c.load(self.saved, "i64")
        c.fork(c.let(f"icmp slt i64 {saved}, {self.times}"), inside, no)
        c.label(inside)
        time = c.load(c.at("%times", saved))
        c.fork(c.compare(order, time, c.load(self.end)), yes, no)
        return saved

    def _row(self, saved: str) -> str:
        return self.c.at("%rows", self.c.let(f"mul i64 {saved}, {self.n}"))

    def _begin(self) -> None:
        """The slope at the beginning of a step, with the choices that are made there."""
        c, b = self.c, self.borders
        self._field(self.slopes[0], c.load(self.t), "%y", "too_small")
        b.begin(self._is(FREE), lambda: self._field(self.slopes[0], c.load(self.t), "%y", "too_small"))

    def _is(self, mode: int) -> str:
        return self.c.let(f"icmp eq i64 {self.c.load(self.mode, 'i64')}, {mode}")

    def _within_borders(self) -> None:
        """A step beyond a border is tried again, to end just behind it; one in which an argument goes too far is shorter.

        Seen is a border that is passed between two samples of the step, and one that comes near and goes away there, if
        straight lines from both do not show that it is not reached.
        """
        c, b, first, flipped = self.c, self.borders, self.c.slot("first"), self.c.slot("flipped", "i1")
        c.store(c.constant(float("inf")), first)
        c.fork(c.either(b.none, c.negated(self._is(PLAIN))), "within", "inspect", True)
        c.label("inspect")
        b.refuse_long_ways("shorter")
        c.fork(b.doubtful(), "between", "within", False)
        c.label("between")
        self._interpolant()
        near, far = c.slot("near"), c.slot("far")
        with c.loop(0, b.signs) as j, c.loop(0, len(SAMPLES) - 1) as k:
            beyond, doubtful, begins, ends = b.doubts(j, k)
            seek, on = c.name("seek"), c.name("on")
            c.fork(doubtful, seek, on)
            c.label(seek)
            c.store(beyond, flipped, "i1")
            c.store(begins, near)
            c.store(ends, far)
            with c.loop(0, HALVINGS):
                middle = c.times(c.constant(0.5), c.plus(c.load(near), c.load(far)))
                self._interpolate(middle, self.stage)
                self._field(b.slope, c.plus(c.load(self.t), middle), self.stage, "shorter")
                passed, leaves = b.passed(j), b.leaves(j)
                there = c.either(passed, c.both(c.negated(beyond), leaves))
                c.store(c.let(f"select i1 {there}, i1 {passed}, i1 {c.load(flipped, 'i1')}"), flipped, "i1")
                c.store(c.select(there, c.load(near), middle), near)
                c.store(c.select(there, middle, c.load(far)), far)
            sooner = c.both(c.load(flipped, "i1"), c.compare("olt", c.load(far), c.load(first)))
            c.store(c.select(sooner, c.load(far), c.load(first)), first)
            c.label(on)
        c.fork(c.compare("olt", c.load(first), c.constant(float("inf"))), "cross", "within")
        c.label("cross")
        before, natural = c.load(self.behind), c.load(self.next)
        soon = c.compare("olt", c.load(first), c.times(c.constant(RETURN), before))
        way = self._way(natural)
        way = c.select(soon, c.intrinsic("maxnum", way, c.times(c.constant(FARTHER), before)), way)
        c.store(way, self.way)
        c.store(c.plus(c.load(first), way), self.h)
        c.store(str(CROSSING), self.mode, "i64")
        held = c.both(soon, c.compare("ogt", way, c.times(c.constant(FARTHEST), natural)))
        c.fork(held, "lost", "step", False)
        c.label("within")
        again = c.select(self._is(FREE), c.load(self.behind), c.constant(0.0))
        c.store(c.select(self._is(CROSSING), c.load(self.way), again), self.behind)
        c.store(str(PLAIN), self.mode, "i64")

    def _way(self, natural: str) -> str:
        """Time by which a step goes beyond a border, if its length would be `natural`."""
        c = self.c
        part = c.intrinsic("maxnum", c.times(c.constant(BEHIND[0]), self.tolerance), c.constant(BEHIND[1]))
        return c.plus(c.times(part, natural), c.times(c.constant(4 * TINY), c.absolute(c.load(self.t))))

    def _untie(self) -> None:
        """At a border no side is the one to follow: the side is that on which a short step ends, which is tried first."""
        c, b = self.c, self.borders
        c.store("false", self.probing, "i1")
        tied = c.compare("olt", c.load(b.regular_before), c.constant(0.5))
        c.fork(c.both(tied, c.negated(c.either(b.none, self._is(FREE)))), "probe", "step", False)
        c.label("probe")
        h = c.load(self.h)
        c.store(h, self.meant)
        c.store(self._way(c.select(self._is(CROSSING), c.load(self.next), h)), self.h)
        c.store("true", self.probing, "i1")
        c.label("shortly")
        c.store(c.plus(c.load(self.t), c.load(self.h)), self.end)
        c.go("try")

    def _judge_probe(self, good: str) -> None:
        """Begin on that side; or, if the short step ends at the border, a longer one, until the choices are free."""
        c, b = self.c, self.borders
        c.label("probed")
        c.fork(c.both(good, c.compare("ogt", c.load(b.regular), c.constant(0.5))), "sided", "tied", True)
        c.label("sided")
        b.keep(0, c.constant(0.0))
        b.choose()
        self._field(self.slopes[0], c.load(self.t), "%y", "too_small")
        c.store(c.load(self.meant), self.h)
        c.store("false", self.probing, "i1")
        c.go("step")
        c.label("tied")
        longer, meant = c.times(c.constant(FARTHER), c.load(self.h)), c.load(self.meant)
        c.store(longer, self.h)
        c.fork(c.compare("olt", longer, c.times(c.constant(FARTHEST), meant)), "shortly", "stay")
        c.label("stay")
        c.store(meant, self.h)
        c.store(str(FREE), self.mode, "i64")
        c.store(c.constant(1.0), b.given)
        c.go("begin")

    def _begin_again(self, h: str) -> None:
        """The end of the step is the beginning of the next one, which proposes h; to "begin", unless all is done."""
        c, value = self.c, self.c.slot("value")
        c.store(c.load(self.end), self.t)
        c.store(h, self.h)
        self._copy(self.new, "%y")
        over = c.let(f"icmp sge i64 {c.load(self.saved, 'i64')}, {self.times}")
        c.fork(over, "reached", "look", False)
        c.label("look")
        next_ = c.name("next")
        c.fork(c.let("icmp eq ptr %watch, null"), next_, "watching", True)
        c.label("watching")
        self._field(value, c.load(self.t), "%y", "watched", "%watch", "%watch_told")
        c.fork(c.compare("oge", c.load(value), c.constant(0.0)), next_, "watched", True)
        c.label(next_)
        c.fork(self.borders.none, "step", "begin", True)
