"""Many runs: groups of lanes shared out over threads, and the same behind XLA's calling convention."""

from __future__ import annotations

from typing import NamedTuple

from dalembert.native.llvm.builder import Code, module
from dalembert.native.llvm.packing import Packing
from dalembert.native.stepper.arrays import COUNTED

# Steps after which lanes that the scalar run has taken join their group again: few at the start, where a first step often
# needs the pivoted solver, then twice as many each time. They depend on nothing else: a lane's bits are its own.
FIRST_CHUNK, CHUNK = 4, 64
WORTH_THREADS = 4096  # steps of all runs together under which no thread is started
MOST_THREADS = 256
# What @ensemble is told of the code it runs: addresses of @run, @lanes (0: none) and @pivoted; lengths; lanes; the address
# of a number that is set to end it between two chunks.
TABLE = Packing.words("run", "lanes", "solver", "carry", "scratch", "width", "stop")
# What its threads are told: the arguments of @ensemble, and the next run that none has taken.
ARRAYS = ("carry", "count", "inputs", "rows")
NUMBERS = ("number", "inputs_stride", "rows_stride")
JOB = Packing.words("table", *ARRAYS, *NUMBERS, "next")


class LaneGroup(NamedTuple):
    """Runs that are advanced together: addresses of the first one's arrays, their number, the nodes now and then."""

    part: dict[str, str]
    size: str
    now: str
    until: str


def ensemble() -> str:
    """Module with  @ensemble(ptr table, carry, count, inputs, rows, i64 number, inputs_stride, rows_stride, threads).

    Arrays as in Layout, one after the other for each run; a stride of 0 shares the inputs. Runs are advanced to their last
    node; groups are taken by whichever thread is free. A thread that cannot be started costs nothing but its speed.
    """
    work, start = Code(), Code()
    _work(work)
    _start(start)
    arguments = ", ".join([f"ptr %{x}" for x in ("table", *ARRAYS)] + [f"i64 %{x}" for x in (*NUMBERS, "threads")])
    return module(
        work.function("define internal ptr @work(ptr %job) nounwind"),
        start.function(f"define void @ensemble({arguments}) nounwind"),
        declared=work.declared | start.declared,
    )


def _field(c: Code, name: str) -> str:
    return c.at("%job", JOB.offset(name), "i64")


def _count(c: Code, count: str, name: str) -> str:
    """The address of a count."""
    return c.at(count, COUNTED.offset(name), "i64")


def _start(c: Code) -> None:
    """Fill in the job, start the other threads, work, and wait for them."""
    c.slots.append(f"  %job = alloca [{JOB.size} x i64], align 8")
    for name in ("table", *ARRAYS):
        c.store(f"%{name}", _field(c, name), "ptr")
    for name in NUMBERS:
        c.store(f"%{name}", _field(c, name), "i64")
    c.store("0", _field(c, "next"), "i64")
    width = c.load(c.at("%table", TABLE.offset("width"), "i64"), "i64")
    above = c.let(f"add i64 %number, {c.let(f'sub i64 {width}, 1')}")
    groups = c.let(f"sdiv i64 {above}, {width}")
    useful = c.call("i64", "llvm.smin.i64", ("i64", groups), ("i64", "%threads"))
    useful = c.call("i64", "llvm.smin.i64", ("i64", useful), ("i64", str(MOST_THREADS)))
    last = c.load(_count(c, "%count", "last"), "i64")
    enough = c.let(f"icmp sgt i64 {c.let(f'mul i64 {last}, %number')}, {WORTH_THREADS}")
    others = c.let(f"select i1 {enough}, i64 {c.let(f'sub i64 {useful}, 1')}, i64 0")
    handles = c.slot("handles", "i64", MOST_THREADS)
    started = c.slot("started", "i64")
    c.store("0", started, "i64")
    with c.loop(0, others):
        place = c.at(handles, c.load(started, "i64"), "i64")
        failed = c.call("i32", "pthread_create", ("ptr", place), ("ptr", "null"), ("ptr", "@work"), ("ptr", "%job"))
        more = c.let(f"zext i1 {c.let(f'icmp eq i32 {failed}, 0')} to i64")
        c.store(c.let(f"add i64 {c.load(started, 'i64')}, {more}"), started, "i64")
    c.let("call ptr @work(ptr %job)")
    with c.loop(0, c.load(started, "i64")) as i:
        c.call("i32", "pthread_join", ("i64", c.load(c.at(handles, i, "i64"), "i64")), ("ptr", "null"))
    c.line("ret void")


def _work(c: Code) -> None:
    """Take groups until none is left."""
    table = c.load(_field(c, "table"), "ptr")
    given = {name: c.load(_field(c, name), "ptr") for name in ARRAYS}
    given |= {name: c.load(_field(c, name), "i64") for name in NUMBERS}
    known = {name: c.load(c.at(table, TABLE.offset(name), "i64"), "i64") for name in TABLE.fields}
    for name in ("run", "lanes", "solver", "stop"):
        known[name] = c.let(f"inttoptr i64 {known[name]} to ptr")
    c.line(f"%scratch = alloca double, i64 {known['scratch']}, align 64")
    c.label("take")
    first = c.let(f"atomicrmw add ptr {_field(c, 'next')}, i64 {known['width']} seq_cst")
    c.fork(c.let(f"icmp slt i64 {first}, {given['number']}"), "group", "done")
    c.label("group")
    left = c.let(f"sub i64 {given['number']}, {first}")
    size = c.call("i64", "llvm.smin.i64", ("i64", known["width"]), ("i64", left))
    part = _part(c, given, known, first)
    last = c.load(_count(c, part["count"], "last"), "i64")
    k = c.slot("k", "i64")
    c.store(c.load(_count(c, part["count"], "k"), "i64"), k, "i64")
    chunk = c.slot("chunk", "i64")
    c.store(str(FIRST_CHUNK), chunk, "i64")
    c.label("chunk")
    wanted = c.let(f"load atomic i64, ptr {known['stop']} monotonic, align 8")
    c.fork(c.let(f"icmp eq i64 {wanted}, 0"), "on", "done")
    c.label("on")
    now = c.load(k, "i64")
    c.fork(c.let(f"icmp slt i64 {now}, {last}"), "advance", "take")
    c.label("advance")
    none = c.let(f"icmp eq ptr {known['lanes']}, null")
    end = c.let(f"add i64 {now}, {c.load(chunk, 'i64')}")
    until = c.call("i64", "llvm.smin.i64", ("i64", end), ("i64", last))
    going = _advance(c, given, known, LaneGroup(part, size, now, until), none)
    c.store(until, k, "i64")
    longer = c.call("i64", "llvm.smin.i64", ("i64", c.let(f"shl i64 {c.load(chunk, 'i64')}, 1")), ("i64", str(CHUNK)))
    c.store(longer, chunk, "i64")
    c.fork(going, "chunk", "take")
    c.label("done")
    c.line("ret ptr null")


def _part(c: Code, given: dict, known: dict, first: str) -> dict[str, str]:
    """Addresses of the arrays of run `first`."""
    strides = (("carry", known["carry"]), ("inputs", given["inputs_stride"]), ("rows", given["rows_stride"]))
    found = {name: c.at(given[name], c.let(f"mul i64 {first}, {stride}"), "double") for name, stride in strides}
    found["count"] = c.at(given["count"], c.let(f"mul i64 {first}, {COUNTED.size}"), "i64")
    return found


def _advance(c: Code, given: dict, known: dict, group: LaneGroup, none: str) -> str:
    """Bring a group to its node `until`: in lanes, then one by one those that have not got there. none: no lanes. Whether
    any of them goes on from there: runs that end at a time are told of more steps than there ever will be."""
    part, size, now, until = group
    going = c.slot("going", "i64")
    c.store("0", going, "i64")
    c.fork(none, "one.by.one", "together")
    c.label("together")
    numbers = (size, given["inputs_stride"], given["rows_stride"], now, until)
    arrays = ", ".join(f"ptr {part[x]}" for x in ARRAYS)
    c.line(f"call void {known['lanes']}({arrays}, {', '.join(f'i64 {x}' for x in numbers)})")
    c.label("one.by.one")
    with c.loop(0, size) as i:
        own = _part(c, {**given, **part}, known, i)
        c.store(until, _count(c, own["count"], "until"), "i64")
        k, code = (c.load(_count(c, own["count"], x), "i64") for x in ("k", "code"))
        behind = c.let(f"and i1 {c.let(f'icmp slt i64 {k}, {until}')}, {c.let(f'icmp eq i64 {code}, 0')}")
        alone, joined = c.name("alone"), c.name("joined")
        c.fork(behind, alone, joined)
        c.label(alone)
        arrays = ", ".join(f"ptr {own[x]}" for x in ARRAYS)
        c.line(f"call void {known['run']}({arrays}, ptr %scratch, ptr {known['solver']})")
        c.label(joined)
        still = c.let(f"icmp eq i64 {c.load(_count(c, own['count'], 'code'), 'i64')}, 0")
        c.store(c.let(f"or i64 {c.load(going, 'i64')}, {c.let(f'zext i1 {still} to i64')}"), going, "i64")
    return c.let(f"icmp ne i64 {c.load(going, 'i64')}, 0")
