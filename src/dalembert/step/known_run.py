"""A run that was made before with other numbers: found by what its functions read, and made again with nothing else done."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jax.core import Tracer
from jaxtyping import Float

from dalembert.discretize import Scheme
from dalembert.discretize.scheme import check_maps
from dalembert.native import Unsupported
from dalembert.numbers import as_numbers, as_state, holds_tracer, outside
from dalembert.path import Path
from dalembert.step.options import RunOptions
from dalembert.step.programs.scaled import FAR
from dalembert.step.ready_run import Bound, ReadyRun
from dalembert.step.run.native import compiled
from dalembert.step.run.ready import ReadySteps
from dalembert.step.run.state import initial_state
from dalembert.step.start.checks import check_callbacks
from dalembert.step.start.prepare import DEFAULT, Motion, begun, check_branch, program_for
from dalembert.step.start.prepared import Given, Prepared, Recipe
from dalembert.systems import System
from dalembert.systems.initial.root import REMEMBERED, InitialRoot, root_of
from dalembert.systems.system import check_shapes
from dalembert.tracing import Remembered, Walk, Watched, split, unchanged, watch

COPIES = 16  # function objects of the same content whose records are kept with a run

Vector = Float[np.ndarray, "n"]


class Read(NamedTuple):
    """What a system and the options of a run hold: key, the objects that can change, and the arrays.

    The arrays of the system come first, then the scheme's. watched: by what it is seen that all this is still so; None where
    it must be read again. runs: those found for it, by the number of coordinates: the key is long.
    """

    key: Any  # its first part is that of the system alone
    objects: tuple
    leaves: list
    watched: tuple[Watched, ...] | None
    runs: dict[int, ReadyRun]


class KnownRun(NamedTuple):
    """What all calls share that read the same and have as many coordinates. sizes: equations of each constraint;
    bound: by the function objects of a call."""

    sizes: list[int]
    root: InitialRoot
    steps: ReadySteps
    bound: Remembered[Bound]


_KNOWN: Remembered[list[KnownRun | None]] = Remembered(REMEMBERED)
_READ: Remembered[tuple[tuple, Read]] = Remembered(REMEMBERED)  # by the objects, which it holds: none has another's place


class Known(NamedTuple):
    """A path, whether there is nothing to say of it, and the run for more of them with the same arrays."""

    path: Path
    calm: bool
    run: WatchedRun


class WatchedRun(NamedTuple):
    """A run of n coordinates, and what the functions named when it was found."""

    n: int
    run: ReadyRun
    watched: tuple[Watched, ...] | None

    @property
    def lasts(self) -> bool:
        """Whether the functions still name the same; False where only a new look at them can tell."""
        return self.watched is not None and unchanged(self.watched)


def known_path(system: Any, given: Given, options: RunOptions) -> Known | None:
    """The path; None where it must be looked for in the ordinary way, which finds every error and every other form.

    That is so under tracing, for other problems than a System, for a reducer, without machine code, and wherever the initial
    data are not proven to pass every check.
    """
    if options.varying is not None:
        return None
    found = _found(system, given, options)
    if found is None:
        return None
    q, v, run, watched = found
    record = options.record(run.bound.words, system.subject.under(options.scheme), q0=given.q0, v0=given.v0)
    done = run.path(q, v, run.told(options), options, lambda: record)
    return None if done is None else Known(*done, WatchedRun(len(q), run, watched))


def known_start(system: Any, given: Given, options: RunOptions) -> Prepared | None:
    """The start of a known run; None where `known_path` is None. The last digits of (a, λ), from which the first iteration
    begins, are those of machine code here: a run whose rows go elsewhere starts from the same, to have the same bits."""
    found = _found(system, given, options)
    return None if found is None else found.run.start(found.q, found.v, options)


class _Found(NamedTuple):
    """Initial data, and the run for such data; watched: see `Read`."""

    q: Vector
    v: Vector
    run: ReadyRun
    watched: tuple[Watched, ...] | None


def _found(system: Any, given: Given, options: RunOptions) -> _Found | None:
    if not (isinstance(system, System) and options.native and _has_numbers(given, options)):
        return None
    found = _read(system, options)
    if found is None:
        return None
    q, v = as_state(given.q0, given.v0, system.coordinates, as_numbers)
    run = found.runs.get(len(q)) or _known(system, options, found, q, v)
    return None if run is None else _Found(q, v, run, found.watched)


def _known(system: System, options: RunOptions, found: Read, q: Vector, v: Vector) -> ReadyRun | None:
    """The run with these arrays; None where there is no machine code, or these data do not show."""
    key = found.key, len(q)
    entry = _KNOWN.get(key) or _made(system, options, found, q, v)
    if entry is not None:
        _KNOWN.put(key, entry)
    if entry is None or entry[0] is None:
        return None
    known = entry[0]
    bound = known.bound.get(found.objects)
    if bound is None:
        program = program_for(system, known.sizes, _scheme(options), options.deflate)
        bound = known.bound.put(found.objects, Bound(program, options.words(system.texts(), type(system))))
    run = ReadyRun(known.root, known.steps, bound, found.leaves, _scheme(options))
    found.runs[len(q)] = run
    return run


def _has_numbers(given: Given, options: RunOptions) -> bool:
    traced = not outside() or any(isinstance(x, Tracer) for x in (options.h, options.t0))
    other = (given.nodes, given.jets, given.multipliers, options.reduce)
    return (
        not traced
        and all(x is None for x in other)
        and isinstance(options.scheme, Scheme | None)
        and not any(x is None or holds_tracer(x) for x in (given.q0, given.v0))
    )


def _scheme(options: RunOptions) -> Scheme:
    return options.scheme if isinstance(options.scheme, Scheme) else DEFAULT


def _read(system: System, options: RunOptions) -> Read | None:
    """None where it cannot be compared, or is traced. The same objects, which do not change, are not read again as long as
    their functions name the same."""
    given = (system, options.scheme, options.branch, options.stop, options.domain, options.feedback)
    at = tuple(map(id, given))
    entry = _READ.get(at)
    if entry is not None and unchanged(entry[1].watched):
        return entry[1]
    found = _read_anew(system, options)
    if found is not None and found.watched is not None:
        _READ.put(at, (given, found))
    return found


def _read_anew(system: System, options: RunOptions) -> Read | None:
    walk, leaves = Walk(), []
    parts = split(walk, system, leaves)
    feedback = options.feedback
    rules = (options.branch, options.stop, options.domain, feedback and feedback.rule)
    key = parts, split(walk, _scheme(options), leaves), walk.of(rules)
    if not walk.lasting or any(isinstance(x, Tracer) for x in leaves):
        return None
    return Read(key, tuple(walk.objects), leaves, watch(walk), {})


def _made(system: System, options: RunOptions, found: Read, q: Vector, v: Vector) -> list[KnownRun | None] | None:
    """[the run], or [None] where there is no machine code of it; None where these data do not show."""
    grid, n = options.grid, len(q)
    sizes = check_shapes(system, q, v, grid.t0)
    root = root_of(found.key[0], system, n, sum(sizes))
    if root is None:
        return [None]
    check_maps(_scheme(options), n)
    check_branch(options.branch, system.constraints, n)
    motion, t0, h = root.over(found.leaves[: root.leaves]), float(options.t0), float(options.h)
    if not motion.solve(q, v, t0) <= FAR:
        return None
    program = program_for(system, sizes, _scheme(options), options.deflate)
    made = begun(
        program, Recipe(_scheme(options), options.starter, options.branch), Motion(q, v, motion.a, motion.multipliers), t0, h
    )
    step_options = options.step_options
    check_callbacks(made, grid, step_options, None)
    try:
        native = compiled(program, step_options, initial_state(made, grid.t0, grid.h, None), grid.t0, grid.h)
    except Unsupported:
        return [None]
    if not native.code.settled or [id(x) for x in native.leaves] != [id(x) for x in found.leaves]:
        return [None]
    steps = ReadySteps(native.code, program, options.feedback is not None)
    run = KnownRun(sizes, root, steps, Remembered(COPIES))
    run.bound.put(found.objects, Bound(program, options.words(system.texts(), type(system))))
    return [run]
