"""The right hand side of an equation as machine code: first the unknowns z with F(z, y, t) = 0, then g(z, y, t)."""

from __future__ import annotations

from dalembert.native.llvm.builder import Code, module
from dalembert.native.llvm.packing import Packing
from dalembert.native.root import CONVERGED

# What the code of a field is told: sizes, functions and arrays, by address; the first three have the bits of doubles.
FIELD = Packing.words("tolerance", "clock", "factor", "unknowns", "size", "width", "most", "signs", "flat", "sides", "root",
                      "equations", "pivoted", "start", "equations_given", "result", "work", "function", "function_given",
                      "written", "written_given", "written_result", "sides_given")  # fmt: skip
POINTERS = 10  # from there on they are addresses

# What the code of a projection is told.
PROJECTION = Packing.words("clock", "size", "function", "given", "result")
ROUNDING = 8.0 * 2.0**-53  # of the terms of a residual
NEAR = 1e-9  # of those with |y| + 1: what no update reduces, and is less, is rounding of a function with larger terms inside
UPDATES = 10


def field() -> str:
    """LLVM module with  i64 @field(ptr told, double s, ptr y, ptr out): out ← factor g(z, y, t), where F(z, y, t) = 0 and
    t = clock s: with a clock of -1, and a factor of -1, it is the field backwards in time.

    Newton's iteration begins at the same z each time, so that z depends on (y, t) alone. The update that passes its test is
    applied. Returns 0, or the code of `root` where it found no z. written: 0, or g with z eliminated, of this width, and
    whether it holds, of (y, t) alone; where it does not hold, z is solved for.
    """
    c = Code()
    word = {name: c.load(c.at("%told", FIELD.fields[name].offset), "i64") for name in FIELD.fields}
    pointer = {name: c.let(f"inttoptr i64 {word[name]} to ptr") for name in tuple(FIELD.fields)[POINTERS:]}
    clock, factor = (c.load(c.at("%told", FIELD.fields[name].offset)) for name in ("clock", "factor"))
    t = c.times(clock, "%s")
    k, n, width = word["unknowns"], word["size"], word["width"]
    values = pointer["function_given"]
    c.fork(c.let(f"icmp eq i64 {word['written']}, 0"), "any", "written")
    c.label("written")
    _copy(c, "%y", pointer["written_given"], n)
    c.store(t, c.at(pointer["written_given"], n))
    c.line(f"call void {pointer['written']}(ptr {pointer['written_given']}, ptr {pointer['written_result']})")
    holds = c.compare("ogt", c.load(c.at(pointer["written_result"], width)), c.constant(0.5))
    c.fork(holds, "as_written", "any", True)
    c.label("as_written")
    _copy(c, pointer["written_result"], "%out", width)
    c.go("turn")
    c.label("any")
    c.fork(c.let(f"icmp eq i64 {k}, 0"), "evaluate", "solve")
    c.label("solve")
    _solve(c, word, pointer, t)
    c.label("evaluate")
    state = c.at(values, k)
    _copy(c, "%y", state, n)
    c.store(t, c.at(state, n))
    c.line(f"call void {pointer['function']}(ptr {values}, ptr %out)")
    c.go("turn")
    c.label("turn")
    c.fork(c.compare("oeq", factor, c.constant(1.0)), "done", "turned", True)
    c.label("turned")
    with c.loop(0, width) as i:
        c.store(c.times(factor, c.load(c.at("%out", i))), c.at("%out", i))
    c.label("done")
    c.line("ret i64 0")
    one = c.function("define i64 @field(ptr %told, double %s, ptr %y, ptr %out) nounwind")
    return module(one, _along(), _project(), declared=c.declared)


def _along() -> str:
    """void @along(ptr told, ptr times, ptr rows, ptr out, i64 count, i64 size, i64 width): g at every row, NaN where
    there is no z; size: of a row, width: of a result."""
    c = Code()
    with c.loop(0, "%count") as i:
        to = c.at("%out", c.let(f"mul i64 {i}, %width"))
        row, t = c.at("%rows", c.let(f"mul i64 {i}, %size")), c.load(c.at("%times", i))
        code = c.let(f"call i64 @field(ptr %told, double {t}, ptr {row}, ptr {to})")
        lost, on = c.name("lost"), c.name("on")
        c.fork(c.let(f"icmp eq i64 {code}, 0"), on, lost, True)
        c.label(lost)
        with c.loop(0, "%width") as l:
            c.store(c.constant(float("nan")), c.at(to, l))
        c.label(on)
    c.line("ret void")
    arguments = "ptr %told, ptr %times, ptr %rows, ptr %out, i64 %count, i64 %size, i64 %width"
    return c.function(f"define void @along({arguments}) nounwind")


def _project() -> str:
    """i64 @project(ptr told, double s, ptr y): y ← y - correction(y) until it is on the constraints at t = clock s.

    The function writes y after one update of Newton's method, and the residual before and after it, as
    `compile_projection`. The updates end where it is rounding, or where they do not halve it any more: then it is rounding,
    too, or no root is near. Returns 0; or 1 where none is, and y is of no use.
    """
    c = Code()
    at = {name: c.at("%told", PROJECTION.fields[name].offset) for name in PROJECTION.fields}
    clock, n = c.load(at["clock"]), c.load(at["size"], "i64")
    function, given, result = (c.load(at[name], "ptr") for name in ("function", "given", "result"))
    with c.loop(0, UPDATES):
        _copy(c, "%y", given, n)
        c.store(c.times(clock, "%s"), c.at(given, n))
        c.line(f"call void {function}(ptr {given}, ptr {result})")
        sizes = c.at(result, n)
        before, after, rest = (c.load(c.at(sizes, i)) for i in range(3))
        exact, near = (c.compare("ole", x, c.constant(limit)) for x, limit in ((after, ROUNDING), (rest, NEAR)))
        nearer = c.compare("ole", after, c.times(c.constant(0.5), before))  # not so if it is NaN
        good, lost, done, on = (c.name(x) for x in ("good", "lost", "done", "on"))
        c.fork(c.either(near, nearer), good, lost, True)
        c.label(lost)
        c.line("ret i64 1")
        c.label(good)
        _copy(c, result, "%y", n)
        c.fork(c.either(exact, c.both(near, c.negated(nearer))), done, on, True)
        c.label(done)
        c.line("ret i64 0")
        c.label(on)
    c.line("ret i64 1")
    return c.function("define i64 @project(ptr %told, double %s, ptr %y) nounwind")


def _solve(c: Code, word: dict[str, str], pointer: dict[str, str], t: str) -> None:
    """z, with its last update, to the beginning of what g is given."""
    k, n, z, result = word["unknowns"], word["size"], pointer["equations_given"], pointer["result"]
    _copy(c, pointer["start"], z, k)
    state = c.at(z, k)
    _copy(c, "%y", state, n)
    c.store(t, c.at(state, n))
    arrays = ", ".join(f"ptr {pointer[x]}" for x in ("equations", "pivoted", "equations_given", "result", "work"))
    tolerance = c.load(c.at("%told", FIELD.fields["tolerance"].offset))
    code = c.let(f"call i64 {pointer['root']}({arrays}, i64 {k}, double {tolerance}, i64 {word['most']})")
    c.fork(c.let(f"icmp eq i64 {code}, {CONVERGED}"), "solved", "unsolved", True)
    c.label("unsolved")
    c.line(f"ret i64 {code}")
    c.label("solved")
    square = c.let(f"mul i64 {k}, {k}")
    update, units = c.at(pointer["work"], square), c.at(result, c.let(f"add i64 {k}, {square}"))
    with c.loop(0, k) as i:
        step = c.times(c.load(c.at(update, i)), c.load(c.at(units, i)))
        c.store(c.minus(c.load(c.at(z, i)), step), c.at(pointer["function_given"], i))


def _copy(c: Code, source: str, to: str, count: str) -> None:
    with c.loop(0, count) as i:
        c.store(c.load(c.at(source, i)), c.at(to, i))
