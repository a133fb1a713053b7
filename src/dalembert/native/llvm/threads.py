"""Independent pieces of work shared out over threads."""

from __future__ import annotations

from dalembert.native.llvm.builder import Code

MOST_THREADS = 256


def shared(name: str, work: str) -> tuple[str, set[str]]:
    """@name(ptr job, i64 threads), which calls @work(ptr job, i64 i) for i = 0 … number − 1, and what it declares.

    The first two words of a job are a counter, zero at the start, and the number of pieces. Whichever thread is free takes
    the next piece; a thread that cannot be started costs nothing but its speed.
    """
    take, start = Code(), Code()
    _take(take, work)
    _start(start, name)
    text = [
        take.function(f"define internal ptr @{name}.take(ptr %job) nounwind"),
        start.function(f"define void @{name}(ptr %job, i64 %threads) nounwind"),
    ]
    return "\n".join(text), take.declared | start.declared


def _take(c: Code, work: str) -> None:
    number = c.load(c.at("%job", 1, "i64"), "i64")
    c.label("take")
    i = c.let("atomicrmw add ptr %job, i64 1 seq_cst")
    c.fork(c.let(f"icmp slt i64 {i}, {number}"), "work", "done")
    c.label("work")
    c.line(f"call void @{work}(ptr %job, i64 {i})")
    c.go("take")
    c.label("done")
    c.line("ret ptr null")


def _start(c: Code, name: str) -> None:
    number = c.load(c.at("%job", 1, "i64"), "i64")
    useful = c.call("i64", "llvm.smin.i64", ("i64", number), ("i64", "%threads"))
    useful = c.call("i64", "llvm.smin.i64", ("i64", useful), ("i64", str(MOST_THREADS)))
    handles, started = c.slot("handles", "i64", MOST_THREADS), c.slot("started", "i64")
    c.store("0", started, "i64")
    with c.loop(1, useful):
        count = c.load(started, "i64")
        place = c.at(handles, count, "i64")
        failed = c.call("i32", "pthread_create", ("ptr", place), ("ptr", "null"), ("ptr", f"@{name}.take"), ("ptr", "%job"))
        more = c.let(f"zext i1 {c.let(f'icmp eq i32 {failed}, 0')} to i64")
        c.store(c.let(f"add i64 {count}, {more}"), started, "i64")
    c.let(f"call ptr @{name}.take(ptr %job)")
    with c.loop(0, c.load(started, "i64")) as i:
        c.call("i32", "pthread_join", ("i64", c.load(c.at(handles, i, "i64"), "i64")), ("ptr", "null"))
    c.line("ret void")
