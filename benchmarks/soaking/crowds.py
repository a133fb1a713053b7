"""Many processes, threads and tasks at once, on one cache and one store."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path as File

from benchmarks.soaking.runs import Drawn, bits
from benchmarks.soaking.stores import fresh

CROWD = 8
MEMBER = """
import hashlib, sys
from benchmarks.soaking.runs import Drawn, bits
drawn = Drawn(int(sys.argv[1]))
drawn.steps = 20000
try:
    drawn.run(save=da.Save(store=sys.argv[2])); wrote = "wrote"
except (FileExistsError, BlockingIOError):
    wrote = "refused"
print(wrote, hashlib.sha256(str(bits(drawn.run())).encode()).hexdigest())
"""


def crowd(seed: int, place: File) -> str:
    """Eight processes compile the same system into an empty cache and want the same store: one has it, all agree."""
    cache, store = fresh(place, "cache"), fresh(place, "crowd.zarr")
    command = [sys.executable, "-c", MEMBER, str(seed), str(store)]
    given = {**os.environ, "DALEMBERT_CACHE": str(cache)}
    members = [subprocess.Popen(command, env=given, stdout=subprocess.PIPE, text=True) for _ in range(CROWD)]
    told = [member.communicate()[0].split() for member in members]
    if any(member.returncode for member in members):
        raise AssertionError(f"exit statuses {[member.returncode for member in members]}")
    wrote = sum(words[0] == "wrote" for words in told)
    if wrote != 1 or len({words[1] for words in told}) != 1:
        raise AssertionError(f"{wrote} wrote the store; {len({words[1] for words in told})} different paths")
    return f"{CROWD} processes, one wrote, one path"


def one(seed: int) -> tuple:
    """What a worker makes."""
    return bits(Drawn(seed).run())


def mixed(seed: int, place: File) -> str:
    """The same runs in threads, in spawned processes, in a forked one, and in tasks of asyncio."""
    seeds = range(seed, seed + 4)
    wanted = [one(x) for x in seeds]
    with ThreadPoolExecutor(4) as threads:
        found = {"threads": list(threads.map(one, seeds))}
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        found["spawn"] = pool.map(one, seeds)

    async def tasks() -> list[tuple]:
        return list(await asyncio.gather(*(asyncio.to_thread(one, x) for x in seeds)))

    found["asyncio"] = asyncio.run(tasks())
    found["fork"] = wanted if _forked(seed) == 0 else []
    wrong = [way for way, paths in found.items() if paths != wanted]
    if wrong:
        raise AssertionError(f"other bits by {', '.join(wrong)}")
    return ", ".join(found)


def _forked(seed: int) -> int:
    """The exit status of a child that has run what the parent has compiled. A known run calls machine code alone: JAX, whose
    threads a child does not have, must not be asked there."""
    drawn = Drawn(seed)
    wanted = bits(drawn.run())
    child = os.fork()
    if child == 0:
        os.execv(sys.executable, [sys.executable, "-c", FORKED, str(seed), wanted[0]["q"].hex()[:64]])
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


FORKED = """
import sys
from benchmarks.soaking.crowds import one
sys.exit(one(int(sys.argv[1]))[0]["q"].hex()[:64] != sys.argv[2])
"""
