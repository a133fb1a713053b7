"""Random systems, schemes, interrupts, kills, full disks, flipped bytes, for a bounded time: nothing is lost or differs.

    python -m benchmarks.soak [--seconds 600] [--seed 1] [--folder out/soak]

A round is a part with a seed of its own, which its line in FOLDER/log.txt names; `--only PART --seed SEED --rounds 1` makes
it again. At the end FOLDER/report.json holds counts, processor time and memory; the exit status is 1 after any fault.

agree: machine code and JAX, the same outcome, and states equal to rounding times the condition of the run. press: Ctrl-C in
a stored run, again and again, resumed to the bits of the run in memory. kill: kill -9 of a process that writes a store.
full: a small file system that fills. flip: a changed byte in a store or a file, found or without effect. crowd: eight
processes on one cache and one store. mixed: threads, fork, spawn and asyncio. many: new systems one after the other, in
flat memory.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path as File

from benchmarks.soaking import crowds, runs, stores

PARTS: dict[str, Callable[[int, File], str]] = {
    "agree": runs.agree, "press": stores.press, "kill": stores.kill, "full": stores.full, "flip": stores.flip,
    "crowd": crowds.crowd, "mixed": crowds.mixed, "many": runs.many,
}  # fmt: skip
WEIGHTS = {"agree": 8, "press": 6, "kill": 3, "full": 2, "flip": 6, "crowd": 1, "mixed": 1, "many": 1}


def rounds(given: argparse.Namespace, log: Callable[[str], None]) -> dict[str, collections.Counter]:
    """Parts in turn until the time is over: how many were right, and how many not."""
    order = [name for name in given.only or PARTS for _ in range(WEIGHTS[name])]
    found = {name: collections.Counter() for name in dict.fromkeys(order)}
    end, seed = time.monotonic() + given.seconds, given.seed
    while time.monotonic() < end and (given.rounds is None or seed < given.seed + given.rounds):
        name, began = order[(seed * 7919) % len(order)], time.monotonic()
        place = given.folder / "work"
        place.mkdir(parents=True, exist_ok=True)
        try:
            told, right = PARTS[name](seed, place), "right"
        except Exception:
            told, right = "FAULT\n" + traceback.format_exc(), "wrong"
        found[name][right] += 1
        log(f"{name} {seed}: {time.monotonic() - began:.1f} s, {told}")
        seed += 1
    return found


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, help="at most; until the time is over by default")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), metavar="PART", help="all by default")
    parser.add_argument("--folder", type=File, default=File("out/soak"))
    given = parser.parse_args(words)
    given.folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with open(given.folder / "log.txt", "w", encoding="utf-8") as file:

        def log(line: str) -> None:
            for stream in (file, sys.stdout):
                print(line, file=stream, flush=True)

        found = rounds(given, log)
        faults = sum(count["wrong"] for count in found.values())
        report = {
            "seconds": round(time.monotonic() - began), "processor_seconds": round(sum(os.times()[:4])),
            "memory_MiB": round(runs.memory() / 2**20), "rounds": {name: dict(count) for name, count in found.items()},
            "faults": faults,
        }  # fmt: skip
        (given.folder / "report.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
        log(json.dumps(report))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
