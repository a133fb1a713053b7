"""A run in a Zarr store, chunk by chunk: the rows are flushed, then the state after them, then their number; and `resume`.

So the store is right at every moment, whatever ends the process: rows beyond the last commit are written again, bit for bit
the same.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path as File
from typing import Any, cast

import jax
import numpy as np

from dalembert.discretize import DiscreteSystem, Scheme, WindowMap
from dalembert.interrupts import Interrupted, held_back, wanted
from dalembert.numbers import as_file, as_flag
from dalembert.options import Save, Solver, Start, Starter, Stop, accept_single_options, check_groups
from dalembert.outcome import Outcome
from dalembert.path import Path
from dalembert.step import SampledFeedback, Varying
from dalembert.step.options import RunOptions, lengths_of
from dalembert.step.run.assemble import fields_of_rows
from dalembert.step.run.driver import Run, begin_run
from dalembert.step.run.loop import rows_of
from dalembert.step.run.state import Given, Watch
from dalembert.step.run.steps import Progress, Rows, check_progress, fingerprint_of, report_progress
from dalembert.step.simulation import check_path
from dalembert.step.start.prepare import check_any_system
from dalembert.store import FileError
from dalembert.store.atomic import Lock, as_new_store, create_folder, drop_partial, explain_errors, flush, flush_one, refusal
from dalembert.store.chunked import ChunkedArray, attributes_of_store, create
from dalembert.store.paths import SCALARS, STATISTICS
from dalembert.store.runs import (
    CHECKPOINT,
    COMMITTED,
    CONTENT,
    StoredRun,
    attributes_of,
    fields_of,
    scalars_of,
    specs_of,
    write_checkpoint,
)
from dalembert.studies.fingerprint import OTHER, check_bits, check_record
from dalembert.systems import System, VariationalProblem, check_x64

SECONDS = 2.0  # between two commits, at least
SHARE = 0.03  # of the time that commits may take
WORKERS = 4  # threads that flush
LOCK, STATE = "checkpoint/.lock", "state."
State = dict[str, np.ndarray]


class RunWriter:
    """The steps of a run, whose rows go into a store: a commit makes all rows so far safe, and the state that comes after
    them. place: its folder, which is made when the run begins. Of a run that goes on, stored: what its store says; lock: its
    own."""

    def __init__(self, run: Run, place: File, stored: StoredRun | None = None, lock: Lock | None = None):
        if run.record is None:
            raise TypeError("store: a traced run has no values yet; save what the jitted function returns")
        run = run if run.until is None else run.counted()  # arrays have their full length from the beginning
        self.place, self._stored, self._lock, self._steps = place, stored, lock, run.steps()
        self._run = run._replace(grid=run.grid._replace(t0=np.asarray(run.grid.t0), h=np.asarray(run.grid.h)))
        self._taken, self._row, self._carry, self._next = 0, self._steps.no_rows(), None, 0.0
        self._fields: dict[str, Growing] = {}
        # What is flushed beside the run: little is left when it has to stop.
        self._threads = ThreadPoolExecutor(WORKERS, "dalembert-flush")
        self._flushing: list[Future[None]] = []

    def write_rows(self, progress: Progress, allow_rounding: bool = False) -> Path:
        """The first and the last state; all rows are in the store, from the beginning or from what is there. allow_rounding:
        whether other last digits are allowed."""
        with report_progress(progress, self._run.grid.steps) as watch:
            self._begin(allow_rounding)
            return self._make_steps(watch)

    def close(self) -> None:
        """However the run ended."""
        self._threads.shutdown(cancel_futures=True)
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _begin(self, allow_rounding: bool) -> None:
        first, steps = self._path(self._row), self._steps
        found = fingerprint_of(steps.native, steps.key, steps.inputs)
        assert first.provenance is not None
        if self._stored is None:
            self._create(first, found)
        else:
            check_bits(self._stored, found, first.provenance, allow_rounding)
        begun = StoredRun(self.place)
        rows, self._lead = begun.number("rows"), begun.lead
        self._fields = {name: Growing(array, self._lead[name] + rows) for name, array in begun.arrays.items()}
        self._checkpoint = ChunkedArray(self.place / CHECKPOINT)
        self._plan(0.0)
        if self._stored is not None:
            self._scalar(COMMITTED, np.asarray(self._lead["t"] + rows))
            self._taken = rows
            steps.restore(_stored_state(begun, steps.state))

    def _make_steps(self, watch: Watch) -> Path:
        steps = self._steps
        with held_back() as noted:
            while not (steps.ended or wanted()):
                rows = steps.advance()
                if steps.ended and self._run.until is not None:
                    self._carry = self._run.at_end(steps, rows)
                self._take(rows)
                if watch is not None:
                    watch(steps.k)
                if time.monotonic() >= self._next:
                    self._commit()
            taken, state = self._taken, steps.state
            if not steps.ended:  # the row of a run that is broken off between two rows has no state after it
                self._take(steps.interrupt())
            scalars = scalars_of(self._path(self._row))
            for name in scalars.keys() & (SCALARS | STATISTICS).keys():
                self._flushing.append(self._threads.submit(self._scalar, name, scalars[name]))
            self._commit_rows(taken, scalars, state)
        path = self._path(self._row)
        if noted.pressed and steps.code != int(Outcome.INTERRUPTED):  # after the last step
            raise Interrupted(path)
        return path

    def _path(self, rows: Rows) -> Path:
        return self._run.ended(self._run.latest(self._steps.carry) if self._carry is None else self._carry, rows)

    def _take(self, rows: Rows) -> None:
        if not len(rows["k"]):
            return
        (program, *_), options, grid = self._run.prepared, self._run.step_options, self._run.grid
        fields = fields_of_rows(program, options, jax.tree.map(np.asarray, rows), grid.t0, grid.h)
        with self._explain_errors():
            for name, growing in self._fields.items():
                growing.put(self._lead[name] + self._taken, fields[name])
                self._flushing += [self._threads.submit(flush, file) for file in growing.array.pending_files()]
        self._taken += len(rows["k"])
        self._row = {name: np.array(x[-1:]) for name, x in rows.items()}

    def _commit(self) -> None:
        """All rows so far, and the state that comes after them."""
        began = time.monotonic()
        # Whoever reads it before it has ended finds a run that has been broken off.
        scalars = scalars_of(self._path(self._steps.no_rows())) | {"code": np.asarray(int(Outcome.INTERRUPTED))}
        self._commit_rows(self._taken, scalars, self._steps.state)
        self._plan(time.monotonic() - began)

    def _commit_rows(self, rows: int, scalars: dict[str, np.ndarray], state: State) -> None:
        """rows: that the state comes after; of those that are taken all may be read."""
        with self._explain_errors():
            self._flushing += [self._threads.submit(growing.flush) for growing in self._fields.values()]
            while self._flushing:
                self._flushing.pop().result()
            write_checkpoint(self._checkpoint, _checkpoint_arrays(rows, self._taken, scalars, state))
            self._scalar(COMMITTED, np.asarray(self._lead["t"] + self._taken))

    def _scalar(self, name: str, value: np.ndarray) -> None:
        ChunkedArray(self.place / name).write(0, value, flushed=True)

    def _plan(self, cost: float) -> None:
        self._next = time.monotonic() + max(SECONDS, cost / SHARE)

    def _create(self, path: Path, fingerprint: dict[str, str]) -> None:
        """All that a reader needs, in a folder of a new name, which then gets its own. path: of the nodes before the run."""
        grid, scalars = self._run.grid, scalars_of(path) | {"code": np.asarray(int(Outcome.INTERRUPTED))}
        before, number = rows_of(self._run.prepared.program.starting_nodes, grid.steps, grid.every)
        first, rows = _checkpoint_arrays(0, 0, scalars, self._steps.state), number - before
        with self._explain_errors(), create_folder(self.place) as new:
            create(new, specs_of(path, rows, first), attributes_of(path, rows, fingerprint))
            self._lock = Lock(new / LOCK, self.place)
            for name, values in fields_of(path).items():
                growing = Growing(ChunkedArray(new / name), 0)
                growing.put(0, values)
                growing.flush()
                flush(*growing.array.pending_files())
            write_checkpoint(ChunkedArray(new / CHECKPOINT), first)
            ChunkedArray(new / COMMITTED).write(0, np.asarray(len(np.asarray(path.t))), flushed=True)

    def _explain_errors(self) -> contextlib.AbstractContextManager[None]:
        there = "all up to the last commit is there, resume goes on"
        then = there if self.place.exists() else "nothing is there"
        return explain_errors(self.place, "store: cannot be written", then, (FileExistsError, BlockingIOError))


def _checkpoint_arrays(rows: int, taken: int, scalars: dict[str, np.ndarray], state: State) -> dict[str, np.ndarray]:
    numbers = {"rows": np.asarray(rows), "taken": np.asarray(taken)}
    return numbers | scalars | {f"{STATE}{name}": x for name, x in state.items()}


def _stored_state(stored: StoredRun, like: State) -> State:
    """Between two steps; FileError where it is none of this run, whose states are like this one."""
    found = {name.removeprefix(STATE): x for name, x in stored.state.items() if name.startswith(STATE)}
    wanted = {name: (x.dtype, x.shape) for name, x in like.items()}
    if {name: (x.dtype, x.shape) for name, x in found.items()} != wanted:
        raise FileError(stored.place, "holds a state of other sizes than this system has")
    return found


class Growing:
    """An array that is written from the front: the rows of its last chunk are held until it is full. rows: that it has."""

    def __init__(self, array: ChunkedArray, rows: int):
        self.array, self._at = array, rows
        self._buffer = np.full((array.rows, *array.shape[1:]), np.nan)
        begin = rows - rows % array.rows
        self._buffer[: rows - begin] = array.read(begin, rows)

    def put(self, first: int, values: np.ndarray) -> None:
        """Rows from `first` on, which follow those that are there."""
        if first != self._at:
            raise ValueError(f"rows: found those from {first} on, expected {self._at}")
        size, done = self.array.rows, 0
        while done < len(values):
            i, at = divmod(self._at, size)
            number = min(size - at, len(values) - done)
            self._buffer[at : at + number] = values[done : done + number]
            done, self._at = done + number, self._at + number
            if at + number == size:
                self.array.write(i, self._buffer, flushed=False)
                self._buffer[:] = np.nan

    def flush(self) -> None:
        """All rows but those of the array's pending files are safe then."""
        i, at = divmod(self._at, self.array.rows)
        if at:
            self.array.write(i, self._buffer, flushed=True)
        if (folder := self.array.place / "c").is_dir():  # a chunk of several axes lies in a folder of its own
            flush_one(folder)


def store_run(run: Run, store: str | os.PathLike, progress: Progress) -> Path:
    """The run in a store that is not yet there."""
    place = as_new_store(store, "a run")
    if place.exists() or place.is_symlink():
        raise refusal(place)
    with contextlib.closing(RunWriter(run, place)) as writer:
        return writer.write_rows(progress)


@contextlib.contextmanager
def replacing(place: File) -> Iterator[None]:
    """Context in which a new store may be made in the place of a run's, which is not being written; where none is made, the
    old one is there again."""
    if not place.exists():
        yield
        return
    if attributes_of_store(place).get("content") != CONTENT:
        raise FileError(place, "is not a run of dalembert, and is not replaced")
    with contextlib.closing(Lock(place / LOCK, place)):
        old = place.with_name(f".dalembert-{secrets.token_hex(8)}.old")
        os.rename(place, old)
        try:
            yield
        finally:
            if place.exists():
                shutil.rmtree(old)
            else:
                os.rename(old, place)


@accept_single_options
def resume(
    store: str | os.PathLike,
    system: System | DiscreteSystem | VariationalProblem,
    *,
    scheme: Scheme | WindowMap | None = None,
    solver: Solver | None = None,
    stop: Stop | Callable | None = None,
    feedback: SampledFeedback | None = None,
    save: Save | None = None,
    density: Callable | None = None,
    allow_rounding: bool = False,
    throw: bool = True,
    progress: bool | Callable[[int, int], None] = False,
) -> Path:
    """Continue a run that was written to a store.

    x_{k+1} = F(x_k) from the last step k that is committed: a run of `simulate(…, save=Save(store=…))` continues, to
    a path that is identical bit for bit.

    For runs that ended by Ctrl-C, a kill, a full disk or a loss of power. Functions are not stored, and have to be
    given again; initial data, step and tolerance are read from the store. If the run has ended, its path is read.

    Args:
        store: the folder, such as "run.zarr".
        system: what moves, as it was in the run.
        scheme: as it was in the run.
        solver: as it was in the run; its branch is needed, numbers are read from the store where they are left out.
        stop: as it was in the run.
        feedback: as it was in the run.
        save: as it was in the run; its `reduce` is needed.
        density: the density of the Varying, if the run had one.
        allow_rounding: continue even with another processor or other versions, whose last digits may differ.
        throw: as in `simulate`.
        progress: as in `simulate`.

    Returns:
        The Path, with the first and the last state; `load` reads all states.

    Raises:
        ValueError: system, scheme or another argument differs from that of the run; or the processor or a version does.
        FileError: the store is damaged, or does not hold a run.
        BlockingIOError: another process is writing it.
        StepError: as `simulate`.
        Interrupted: as `simulate`.

    Example:
        >>> whole = da.simulate(pendulum, [1.0], [0.0], h=0.1, steps=50, save=da.Save(store="swing.zarr"))
        >>> da.resume("swing.zarr", pendulum).steps  # it had ended
        50
    """
    check_x64()
    as_flag(allow_rounding, "allow_rounding")
    as_flag(throw, "throw")
    check_progress(progress)
    place = _place(store)
    groups = check_groups("resume", solver=solver, stop=stop, save=save)
    with contextlib.closing(Lock(place / LOCK, place)) as lock:
        stored = StoredRun(place)
        options, given = _restore_arguments(stored, groups, {"scheme": scheme, "feedback": feedback}, density)
        check_any_system(system)
        record = options.new_record(system.subject.under(options.scheme), **given._asdict())
        check_record(stored.record, record)
        ended = int(stored.state["code"]) != Outcome.INTERRUPTED
        if ended and stored.record.source_hash != record.source_hash:
            raise ValueError(OTHER)  # nothing is traced to compare what functions compute
        if not ended:
            run = begin_run(system, given, options)
            drop_partial(place)
            RunWriter(run, place, stored, lock).write_rows(progress, allow_rounding)
        path = StoredRun(place).path(ends=True)
    return check_path(path, False, throw)


def _place(store: Any) -> File:
    place = as_file(store, "store")
    if not place.exists():
        raise FileNotFoundError(errno.ENOENT, "store: does not exist", os.fspath(place))
    # before anything is put into a folder that is none of ours
    if attributes_of_store(place).get("content") != CONTENT:
        raise FileError(place, "is not a run of dalembert; a sweep is continued by the same call of sweep")
    return place


def _restore_arguments(
    stored: StoredRun, groups: dict[str, Any], given: dict[str, Any], density: Callable | None
) -> tuple[RunOptions, Given]:
    """The arguments of the call that began the run, and those that are given again. groups: of the latter."""
    record, fingerprint = stored.record, stored.attributes["fingerprint"]
    try:
        run = json.loads(record.run)
        data = {name: np.array(run[name], float) if name in run else None for name in Given._fields}
        options = RunOptions(
            **lengths_of(Varying(**run["h"]) if isinstance(run["h"], dict) else run["h"]),
            **{name: run.get(name) for name in ("steps", "until")},
            t0=run["t0"],
            start=Start(starter=cast(Starter, record.starter or "second_order")),
            solver=Solver(run["tolerance"], run["max_iterations"], backend=fingerprint["backend"]),
            save=Save(run.get("save_every")),
        )  # type: ignore[arg-type]
    except (KeyError, TypeError, RecursionError, json.JSONDecodeError) as error:
        raise FileError(
            stored.place, f"is damaged: its record of the call cannot be read ({type(error).__name__}: {error})"
        ) from error
    if density is not None:  # what is wrong from here on is the caller's
        if options.varying is None:
            raise ValueError("density: the run in the store has steps of one length; leave it out")
        given = given | {"varying": Varying(options.h, density, options.varying.span)}
    again = {name: dataclasses.replace(getattr(options, name), **group.changed) for name, group in groups.items()}
    return dataclasses.replace(options, **again, **given), Given(**data)
