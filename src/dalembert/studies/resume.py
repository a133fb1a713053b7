"""resume: a run in a store goes on where its last commit was, to the path that it would have had."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
from collections.abc import Callable
from pathlib import Path as File
from typing import Any, cast

import numpy as np

from dalembert.discretize import DiscreteSystem, Scheme
from dalembert.discretize.windows import WindowMap
from dalembert.numbers import as_flag, described
from dalembert.outcome import Outcome
from dalembert.path import Path
from dalembert.step.options import RunOptions, lengths_of
from dalembert.step.programs.varying import Varying
from dalembert.step.run.branch import Branch
from dalembert.step.run.ready import find_run
from dalembert.step.run.state import Given, SampledFeedback
from dalembert.step.run.steps import check_progress, reported
from dalembert.step.simulate import begin_run, check_path
from dalembert.step.start.prepare import Starter, check_any_system
from dalembert.store import FileError
from dalembert.store.chunked import metadata
from dalembert.store.runs import CONTENT, StoredRun
from dalembert.studies.fingerprint import check_record, check_source
from dalembert.studies.folder import drop_partial
from dalembert.studies.lock import Lock
from dalembert.studies.stream import LOCK, Going, RunSink
from dalembert.systems import System, VariationalProblem, check_x64


def resume(
    store: str | os.PathLike,
    system: System | DiscreteSystem | VariationalProblem,
    *,
    scheme: Scheme | WindowMap | None = None,
    branch: Branch | None = None,
    reduce: tuple[Callable, Any] | None = None,
    stop: Callable | None = None,
    domain: Callable | None = None,
    feedback: SampledFeedback | None = None,
    density: Callable | None = None,
    allow_rounding: bool = False,
    throw: bool = True,
    progress: bool | Callable[[int, int], None] = False,
) -> Path:
    """x_{k+1} = F(x_k) from the last step k that is committed: a run of `simulate(…, store=)` continues, to a path that
    is identical bit for bit.

    For runs that ended by Ctrl-C, a kill, a full disk or a loss of power. Functions are not stored, and have to be
    given again; initial data, step and tolerance are read from the store. If the run has ended, its path is read.

    Args:
        store: the folder, such as "run.zarr".
        system: what moves, as it was in the run.
        scheme: as it was in the run.
        branch: as it was in the run.
        reduce: as it was in the run.
        stop: as it was in the run.
        domain: as it was in the run.
        feedback: as it was in the run.
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
        >>> whole = da.simulate(pendulum, [1.0], [0.0], h=0.1, steps=50, store="swing.zarr")
        >>> da.resume("swing.zarr", pendulum).steps  # it had ended
        50
    """
    check_x64()
    as_flag(allow_rounding, "allow_rounding")
    as_flag(throw, "throw")
    check_progress(progress)
    place = _place(store)
    functions = {"reduce": reduce, "stop": stop, "domain": domain, "feedback": feedback}
    with contextlib.closing(Lock(place / LOCK, place)) as lock:
        stored = StoredRun(place)
        options, given = _restore_arguments(stored, {"scheme": scheme, "branch": branch, **functions}, density)
        check_any_system(system)
        record = options.recorded(system.subject.under(options.scheme), **given._asdict())
        check_record(stored.record, record)
        if int(stored.state["code"]) != Outcome.INTERRUPTED:
            check_source(stored.record, record)
        else:
            run = begin_run(system, given, options, find_run(system, given, options))
            run = run if options.until is None else run.counted()
            with reported(progress, run.grid.steps) as watch:
                drop_partial(place)
                run.into(RunSink(place, Going(stored, lock, allow_rounding)), watch)
        path = StoredRun(place).path(ends=True)
    return check_path(path, False, throw)


def _place(store: Any) -> File:
    if not isinstance(store, str | os.PathLike):
        raise TypeError(f"store: found {described(store)}; give a name, such as 'run.zarr'")
    place = File(store)
    if not place.exists():
        raise FileNotFoundError(errno.ENOENT, "store: does not exist", os.fspath(place))
    found = metadata(place).get("attributes")  # before anything is put into a folder that is none of ours
    if isinstance(found, dict) and found.get("content") != CONTENT:
        raise FileError(place, "is not a run of dalembert; a sweep is continued by the same call of sweep")
    return place


def _restore_arguments(stored: StoredRun, given: dict[str, Any], density: Callable | None) -> tuple[RunOptions, Given]:
    """The arguments of the call that began the run, and those that are given again."""
    record, fingerprint = stored.record, stored.attributes["fingerprint"]
    try:
        run = json.loads(record.run)
        data = {name: np.array(run[name], float) if name in run else None for name in Given._fields}
        own = {name: run[name] for name in ("t0", "tolerance", "max_iterations")}
        own |= {name: run.get(name) for name in ("steps", "until", "save_every")}
        backend = fingerprint["backend"]
        options = RunOptions(
            **own,
            **lengths_of(Varying(**run["h"]) if isinstance(run["h"], dict) else run["h"]),
            starter=cast(Starter, record.starter or "second_order"),
            backend=backend,
        )  # type: ignore[arg-type]
    except (KeyError, TypeError, RecursionError, json.JSONDecodeError) as error:
        raise FileError(
            stored.place, f"is damaged: its record of the call cannot be read ({type(error).__name__}: {error})"
        ) from error
    if density is not None:  # what is wrong from here on is the caller's
        if options.varying is None:
            raise ValueError("density: the run in the store has steps of one length; leave it out")
        given = given | {"varying": Varying(options.h, density, options.varying.span)}
    return dataclasses.replace(options, **given), Given(**data)
