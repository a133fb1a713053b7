"""What the loop of any method does around its steps: it counts them, ends them in time, writes rows, looks for the end."""

from __future__ import annotations

import abc

from dalembert.native.llvm.builder import Code
from dalembert.native.llvm.packing import Packing

REACHED, TOO_MANY, TOO_SMALL, WATCHED, NO_SERIES = range(5)
TINY = 4.0 * 2.0**-52  # of t: a step that is not longer does not move it

NUMBERS = Packing.scalars("t", "h", "tolerance")
COUNTED = Packing.words("size", "times", "most", "clipped", "steps", "saved", "refused")


class StepLoop(abc.ABC):
    """Writes a function of (…, watch, watch_told, project, project_told, numbers, counts, times, y, rows, …); numbers and
    counts as `NUMBERS` and `COUNTED` lay out, and behind y its typical sizes. Its labels are "step", at which a step begins,
    and those of `_returns`. Slot: the end of the step."""

    new: str  # where the y at the end of a step stands
    shorter: str  # the label of a step that begins again, and shorter

    def __init__(self) -> None:
        c = self.c = Code()
        self.n, self.times, self.clipped = (
            c.load(c.at("%counts", COUNTED.fields[name].offset), "i64") for name in ("size", "times", "clipped")
        )
        self.tolerance = c.load(c.at("%numbers", NUMBERS.fields["tolerance"].offset))
        self.t, self.kept_h = (c.at("%numbers", NUMBERS.fields[name].offset) for name in ("t", "h"))
        self.steps, self.saved, self.most, self.refused = (
            c.at("%counts", COUNTED.fields[name].offset) for name in ("steps", "saved", "most", "refused")
        )
        self.end = c.slot("end")

    @abc.abstractmethod
    def _interpolant(self) -> None:
        """What the rows of a step share."""

    @abc.abstractmethod
    def _interpolated(self, saved: str) -> None:
        """The row of this number, at a time within the step."""

    def _returns(self) -> None:
        """Every way out, each with its label."""
        for name, code in (("too_small", TOO_SMALL), ("too_many", TOO_MANY), ("watched", WATCHED), ("reached", REACHED),
                           ("no_series", NO_SERIES)):  # fmt: skip
            self.c.label(name)
            self.c.line(f"ret i64 {code}")

    def _counted(self) -> None:
        """One step more, if there may be one."""
        c, on = self.c, self.c.name("on")
        count = c.let(f"add i64 {c.load(self.steps, 'i64')}, 1")
        c.fork(c.let(f"icmp sgt i64 {count}, {c.load(self.most, 'i64')}"), "too_many", on, False)
        c.label(on)
        c.store(count, self.steps, "i64")

    def _ended(self, h: str) -> tuple[str, str]:
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
        c.fork(c.let(f"or i1 {enough}, {beyond}"), long, "too_small", True)
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

    def _projected(self, y: str, t: str, otherwise: str) -> None:
        """y ← the nearest y on the constraints at t, where there are any; to the label `otherwise` where none is found."""
        c, near, on = self.c, self.c.name("near"), self.c.name("on")
        c.fork(c.let("icmp eq ptr %project, null"), on, near)
        c.label(near)
        code = c.let(f"call i64 %project(ptr %project_told, double {t}, ptr {y})")
        c.fork(c.let(f"icmp eq i64 {code}, 0"), on, otherwise, True)
        c.label(on)

    def _copied(self, source: str, to: str) -> None:
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
        self._interpolated(saved)
        self._projected(self._row(saved), c.load(c.at("%times", saved)), self.shorter)
        c.store(c.let(f"add i64 {saved}, 1"), self.saved, "i64")
        c.go("row")
        c.label("rows_done")
        saved = self._due("last_row", "rows_written", "oeq")
        c.label("last_row")
        self._copied(self.new, self._row(saved))
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

    def _begun_again(self, h: str) -> None:
        """The end of the step is the beginning of the next one, which proposes h; to "step", unless all is done."""
        c, value = self.c, self.c.slot("value")
        c.store(c.load(self.end), self.t)
        c.store(h, self.kept_h)
        self._copied(self.new, "%y")
        over = c.let(f"icmp sge i64 {c.load(self.saved, 'i64')}, {self.times}")
        c.fork(over, "reached", "look", False)
        c.label("look")
        c.fork(c.let("icmp eq ptr %watch, null"), "step", "watching", True)
        c.label("watching")
        self._field(value, c.load(self.t), "%y", "watched", "%watch", "%watch_told")
        c.fork(c.compare("oge", c.load(value), c.constant(0.0)), "step", "watched", True)
