"""Stored runs that are interrupted, killed, starved of disk and damaged; each goes on to the bits of the run in memory."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path as File
from typing import Any

import numpy as np
from benchmarks.soaking.runs import Drawn, bits

import dalembert as da
from dalembert.studies import stored_runs

LATE = 2.0  # seconds after which an answer to Ctrl-C is a fault, on a machine with other work
FULL = 24 * 2**20  # bytes
KILLED = 1_200_000  # steps of a run that is killed


def fresh(place: File, name: str) -> File:
    """A name that is free."""
    store = place / name
    shutil.rmtree(store, ignore_errors=True)
    return store


def long(seed: int, steps: int = 300_000) -> Drawn:
    """A run of about a second, or of more."""
    drawn = Drawn(seed)
    drawn.steps = steps
    return drawn


@contextlib.contextmanager
def eager() -> Iterator[None]:
    """With many commits."""
    before = stored_runs.SECONDS, stored_runs.SHARE
    stored_runs.SECONDS, stored_runs.SHARE = 0.05, 1.0
    try:
        yield
    finally:
        stored_runs.SECONDS, stored_runs.SHARE = before


def resumed(store: File, drawn: Drawn, **more: Any) -> da.Path:
    """To its end."""
    return da.resume(store, drawn.system, scheme=drawn.scheme, throw=False, **more)


def loaded(file: File) -> Any:
    """The path in it."""
    return da.load(file)


def compare(store: File, drawn: Drawn) -> None:
    """AssertionError unless the store has the bits of a run in memory."""
    found, wanted = bits(loaded(store)), bits(drawn.run())
    if found != wanted:
        different = [name for name in wanted[0] if wanted[0][name] != found[0][name]]
        raise AssertionError(f"the store differs from the run in memory: {different}, {found[1:]}, {wanted[1:]}")


def press(seed: int, place: File) -> str:
    """Ctrl-C at random moments."""
    drawn, store, rng = long(seed), fresh(place, "press.zarr"), np.random.default_rng(seed)
    drawn.run(steps=10)
    late, presses, done = 0.0, 0, False
    with eager():
        while not done:
            pressed: list[float] = []

            def soon(wait: float = float(rng.uniform(0.0, 0.7)), pressed: list[float] = pressed) -> None:
                time.sleep(wait)
                pressed.append(time.monotonic())
                os.kill(os.getpid(), signal.SIGINT)

            thread = threading.Thread(target=soon)
            try:
                thread.start()
                path = resumed(store, drawn) if store.exists() else drawn.run(save=da.Save(store=store))
                answered = time.monotonic()
                done = path.outcome is not da.Outcome.INTERRUPTED
                thread.join()
                time.sleep(0.05)
            except KeyboardInterrupt:  # before the run, or after it
                answered = time.monotonic()
                thread.join()
            presses += 1
            late = max(late, answered - pressed[0] if pressed else 0.0)
    compare(store, drawn)
    if late > LATE:
        raise AssertionError(f"Ctrl-C was answered after {late:.1f} s")
    return f"{presses} presses, answered within {late:.2f} s"


WRITER = """
import sys
from pathlib import Path
from benchmarks.soaking import stores
drawn, store = stores.long(int(sys.argv[1]), stores.KILLED), Path(sys.argv[2])
told = {"progress": lambda done, total: print(done, flush=True)}
with stores.eager():
    stores.resumed(store, drawn, **told) if store.exists() else drawn.run(save=da.Save(store=store), **told)
"""


def kill(seed: int, place: File) -> str:
    """kill -9, twice, then to the end."""
    drawn, store, rng = long(seed, KILLED), fresh(place, "kill.zarr"), np.random.default_rng(seed)
    rows = []
    for _ in range(2):
        command = [sys.executable, "-c", WRITER, str(seed), str(store)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(float(rng.uniform(0.0, 2.0)))
            process.kill()
        rows.append(len(loaded(store).t) if store.exists() else 0)
    if store.exists():
        resumed(store, drawn)
    else:
        drawn.run(save=da.Save(store=store))
    compare(store, drawn)
    return f"killed at {rows} rows of {drawn.steps + 1}"


@contextlib.contextmanager
def small_disk(place: File) -> Iterator[tuple[File, str]]:
    """A file system of FULL bytes where we may mount one; else a limit on the size of a file."""
    disk = fresh(place, "disk")
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={FULL}", "tmpfs", str(disk)], check=False, capture_output=True
    )
    if mounted.returncode == 0:
        try:
            yield disk, "a file system"
        finally:
            subprocess.run(["umount", "-l", str(disk)], check=True)
        return
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**18, limits[1]))
    try:
        yield disk, "a limit of files"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def full(seed: int, place: File) -> str:
    """The disk fills; what is there is moved to a larger one, and goes on."""
    drawn, store = long(seed, 3 * KILLED // 4), fresh(place, "full.zarr")
    with small_disk(place) as (disk, kind), eager():
        try:
            drawn.run(save=da.Save(store=disk / "full.zarr"))
            raise AssertionError("the disk was large enough")
        except OSError as error:
            if "store: cannot be written" not in str(error):
                raise
        shutil.copytree(disk / "full.zarr", store)
    rows = len(loaded(store).t)
    resumed(store, drawn)
    compare(store, drawn)
    return f"{kind}, full after {rows} rows"


def flip(seed: int, place: File) -> str:
    """A byte of a store or of a file, one after the other: FileError, or the same path."""
    drawn, rng, store, file = Drawn(seed), np.random.default_rng(seed), fresh(place, "flip.zarr"), place / "flip.nc"
    drawn.run(save=da.Save(store=store))
    whole = bits(loaded(store))
    da.save(loaded(store), file)
    content, refused, unread = file.read_bytes(), 0, 0
    files = sorted(x for x in store.rglob("*") if x.is_file() and x.name != ".lock" and x.stat().st_size)
    for i in range(60):
        target = file if i % 4 == 0 else files[int(rng.integers(len(files)))]
        before = target.read_bytes()
        changed = bytearray(before)
        changed[int(rng.integers(len(before)))] ^= 1 << int(rng.integers(8))
        target.write_bytes(bytes(changed))
        try:
            found = bits(loaded(file if target == file else store))
            unread += 1
            if found != whole:
                raise AssertionError(f"a byte of {target.relative_to(place)} changed the path, and nothing was said")
        except da.FileError:
            refused += 1
        finally:
            target.write_bytes(before)
    if file.read_bytes() != content or bits(loaded(store)) != whole:
        raise AssertionError("reading has changed a file")
    return f"{refused} refused, {unread} without effect"
